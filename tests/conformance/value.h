/** @file value.h
 *  What a tensor must be: its type, its place and, in host memory, the bytes that it must hold. Tensors that share memory share
 *  these bytes, too, so that every write is expected wherever it must be seen. */
#ifndef TESTS_CONFORMANCE_VALUE_H
#define TESTS_CONFORMANCE_VALUE_H

#include <iobind/iobind.h>
#include <stddef.h>
#include <stdint.h>

enum { VALUE_MAX_RANK = 20 };

/** Bytes that are expected somewhere, counted. Strings are kept as a number of four bytes each; see value_string. */
typedef struct mirror mirror;

typedef struct value {
  int32_t dtype; /**< iobind_dtype */
  size_t rank;
  int64_t dims[VALUE_MAX_RANK];
  iobind_device *device;
  int32_t memory; /**< iobind_memory */
  mirror *mirror;
  size_t offset; /**< of the tensor's first byte in the mirror */
} value;

/** Read a type such as "float32[2,3]"; "float32[]" is a scalar. A number does for a dtype that has no name.
 *  @return 1; 0 where it is none */
int value_parse_type(const char *text, value *v);

/** Write a value's type as value_parse_type reads it. */
void value_print_type(const value *v, char *text, size_t capacity);

/** The element type's number in ONNX; iobind counts some otherwise. */
int32_t value_element(const value *v);

/** Elements; 0 where a dim is 0 or less. */
size_t value_count(const value *v);

/** Bytes of the content. */
size_t value_bytes(const value *v);

/** Give the value a mirror of its own, of unlikely bytes (strings: empty).
 *  @return 1; 0 without memory */
int value_allocate(value *v);

/** The bytes that are expected. */
unsigned char *value_data(const value *v);

/** Make `to` another value with the same mirror. */
void value_share(value *to, const value *from);

/** Make `to` a value with a copy of the mirror.
 *  @return 1; 0 without memory */
int value_copy(value *to, const value *from);

/** Give the mirror up. */
void value_release(value *v);

/** The pattern that a seed makes of a type: small numbers, exact in every type, or bytes where the type is not one to compute
 *  with. Writes value_bytes(v) bytes. */
void value_pattern(const value *v, int64_t seed, unsigned char *bytes);

/** The text of a string element of which `number` is kept; "" for 0. */
void value_string(uint32_t number, char *text, size_t capacity);

#endif
