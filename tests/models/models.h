/** @file models.h
 *  The models that tests need, made on the spot: by C tests through this header, by everything else through the program
 *  make-model. A model is asked for by one line of text: its name, then `key=value` words.
 *
 *      "add"    "add dtype=float16 dims=n,3"    "lookup rows=4096 columns=1024"
 *
 *  Dims are numbers, names of open dims, or `?` for an open one without a name, with commas between; `scalar` is none, `any`
 *  leaves even the rank open. test_model_help says what there is. */
#ifndef TESTS_MODELS_MODELS_H
#define TESTS_MODELS_MODELS_H

#include <stddef.h>
#include <stdint.h>

#define TEST_MODEL_MAX_RANK 8
#define TEST_MODEL_TEXT 256

/** A dims parameter: what stands behind `dims=`. */
typedef struct test_shape {
  int64_t dims[TEST_MODEL_MAX_RANK];   /**< -1 where open */
  char names[TEST_MODEL_MAX_RANK][32]; /**< of the open ones; "" for a nameless one */
  size_t rank;
  int any; /**< 1: not even the rank is known */
} test_shape;

/** Make a model.
 *  @param spec   as above
 *  @param bytes  receives the model; the caller frees it with free()
 *  @param error  TEST_MODEL_TEXT bytes, receives what is wrong; may be NULL
 *  @return 1; 0 where the spec names no model or parameter that there is, a value is wrong, or memory is exhausted */
int test_model_create(const char *spec, void **bytes, size_t *size, char *error);

/** The name of model `index`, NULL behind the last one. */
const char *test_model_name(size_t index);

/** One line on model `index`: what it computes and its parameters with their defaults. */
const char *test_model_help(size_t index);

/** Look a parameter up in a spec.
 *  @param value  TEST_MODEL_TEXT bytes; receives `fallback` where the spec does not have the key
 *  @return 1 where the spec has it */
int test_model_get(const char *spec, const char *key, const char *fallback, char *value);

/** Read dims, such as "n,3".
 *  @return 1; 0 where they are none */
int test_shape_parse(const char *text, test_shape *shape);

#endif
