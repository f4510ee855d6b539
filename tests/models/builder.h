/** @file builder.h
 *  What the models are built with: an onnx_writer that knows the spec's parameters. Only for tests/models. */
#ifndef TESTS_MODELS_BUILDER_H
#define TESTS_MODELS_BUILDER_H

#include "models.h"
#include "onnx.h"

typedef struct builder {
  onnx_writer writer;
  const char *spec;
  uint64_t words_read; /**< bit i: word i of the spec was asked for; a word left over is a mistake */
  int64_t opset;       /**< at least what the element types of the inputs and outputs need */
  int64_t ir_version;
  char error[TEST_MODEL_TEXT]; /**< the first mistake in the spec */
} builder;

/** A kind of model. `build` writes what is in the graph. */
typedef struct model_kind {
  const char *name;
  const char *help;
  void (*build)(builder *b);
} model_kind;

extern const model_kind model_kinds[];
extern const size_t model_kind_count;

/** Note a mistake; the first one counts. */
void builder_fail(builder *b, const char *text, const char *what);

/* Parameters of the spec, each with what holds where the spec does not have it. */
void builder_text(builder *b, const char *key, const char *fallback, char value[TEST_MODEL_TEXT]);
int64_t builder_int(builder *b, const char *key, int64_t fallback);
double builder_number(builder *b, const char *key, double fallback);
int32_t builder_dtype(builder *b, const char *key, int32_t fallback);
void builder_shape(builder *b, const char *key, const char *fallback, test_shape *shape);

/* What goes into the graph. `inputs` and `outputs` are names with blanks between, "_" for an optional one left out. */
void builder_input(builder *b, const char *name, int32_t dtype, const test_shape *shape);
void builder_output(builder *b, const char *name, int32_t dtype, const test_shape *shape);
void builder_node_begin(builder *b, const char *op_type, const char *inputs, const char *outputs);
void builder_node_end(builder *b);
void builder_node(builder *b, const char *op_type, const char *inputs, const char *outputs);
void builder_int64s(builder *b, const char *name, const int64_t *values, size_t count);
void builder_scalar(builder *b, const char *name, int32_t dtype, double value);

/* The models, by what they do. */
void build_identity(builder *b);
void build_add(builder *b);
void build_join(builder *b);
void build_scale(builder *b);
void build_outer(builder *b);
void build_cast(builder *b);
void build_multi(builder *b);
void build_pair(builder *b);
void build_unused(builder *b);
void build_passthrough(builder *b);
void build_matmul(builder *b);
void build_reduce(builder *b);
void build_convolution(builder *b);
void build_recurrent(builder *b);
void build_transpose(builder *b);
void build_concat(builder *b);
void build_lookup(builder *b);
void build_nonzero(builder *b);
void build_reshape(builder *b);
void build_expand(builder *b);
void build_slice(builder *b);
void build_shape(builder *b);
void build_constant(builder *b);
void build_sequence(builder *b);
void build_mixed(builder *b);
void build_length(builder *b);
void build_optional(builder *b);
void build_if(builder *b);
void build_loop(builder *b);
void build_decoder(builder *b);
void build_grow(builder *b);
void build_cache(builder *b);
void build_masked(builder *b);
void build_append(builder *b);
void build_hidden(builder *b);
void build_shared(builder *b);
void build_denoise(builder *b);
void build_voices(builder *b);
void build_ragged(builder *b);
void build_encoder(builder *b);
void build_transformer(builder *b);

#endif
