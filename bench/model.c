#include "model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "onnx.h"

static void begin(onnx_writer *writer, const char *name) {
  onnx_model_begin(writer, NULL);
  onnx_opset(writer, "", 21);
  onnx_graph_begin(writer, name);
}

static void node(onnx_writer *writer, const char *op_type, const char *left, const char *right, const char *output) {
  onnx_node_begin(writer, op_type, "", "");
  onnx_node_input(writer, left);
  onnx_node_input(writer, right);
  onnx_node_output(writer, output);
  onnx_node_end(writer);
}

static void *finish(onnx_writer *writer, size_t *bytes) {
  const void *model = NULL;
  void *copy = NULL;
  onnx_graph_end(writer);
  onnx_model_end(writer);
  if (onnx_writer_finish(writer, &model, bytes) == ONNX_OK) copy = malloc(*bytes);
  if (copy != NULL) memcpy(copy, model, *bytes);
  onnx_writer_release(writer);
  return copy;
}

void *model_add(size_t *bytes) {
  const int64_t dims[] = {-1};
  const char *const symbols[] = {"n"};
  const onnx_type type = {.dtype = ONNX_FLOAT32, .dims = dims, .symbols = symbols, .rank = 1};
  onnx_writer writer = ONNX_WRITER_INIT;
  begin(&writer, "add");
  onnx_input(&writer, "a", &type);
  onnx_input(&writer, "b", &type);
  onnx_output(&writer, "y", &type);
  node(&writer, "Add", "a", "b", "y");
  return finish(&writer, bytes);
}

void *model_double(size_t *bytes) {
  const int64_t dims[] = {-1};
  const char *const symbols[] = {"n"};
  const onnx_type type = {.dtype = ONNX_FLOAT32, .dims = dims, .symbols = symbols, .rank = 1};
  onnx_writer writer = ONNX_WRITER_INIT;
  begin(&writer, "double");
  onnx_input(&writer, "x", &type);
  onnx_output(&writer, "y", &type);
  node(&writer, "Add", "x", "x", "y");
  return finish(&writer, bytes);
}

void *model_chain(int count, size_t *bytes) {
  const int64_t dims[] = {-1};
  const char *const symbols[] = {"n"};
  const onnx_type type = {.dtype = ONNX_FLOAT32, .dims = dims, .symbols = symbols, .rank = 1};
  char from[32] = "x", to[32];
  onnx_writer writer = ONNX_WRITER_INIT;
  begin(&writer, "chain");
  onnx_input(&writer, "x", &type);
  onnx_output(&writer, "y", &type);
  for (int i = 1; i <= count; i++) {
    snprintf(to, sizeof to, i == count ? "y" : "v%d", i);
    node(&writer, "Add", from, from, to);
    memcpy(from, to, sizeof from);
  }
  return finish(&writer, bytes);
}

static void append(onnx_writer *writer, const char *past, const char *joined) {
  onnx_node_begin(writer, "Concat", "", "");
  onnx_node_input(writer, past);
  onnx_node_input(writer, "row");
  onnx_node_output(writer, joined);
  onnx_attribute_int(writer, "axis", 0);
  onnx_node_end(writer);
}

static void change(onnx_writer *writer, const char *op_type, const char *input, const char *output) {
  onnx_node_begin(writer, op_type, "", "");
  onnx_node_input(writer, input);
  onnx_node_output(writer, output);
  onnx_node_end(writer);
}

void *model_attention(size_t *bytes) {
  return model_cache(8, bytes);
}

void *model_cache(int64_t width, size_t *bytes) {
  const int64_t grown[] = {-1, width}, one[] = {1, width};
  const char *const before[] = {"past", ""}, *const after[] = {"total", ""};
  const onnx_type past = {.dtype = ONNX_FLOAT32, .dims = grown, .symbols = before, .rank = 2};
  const onnx_type row = {.dtype = ONNX_FLOAT32, .dims = one, .rank = 2};
  const onnx_type joined = {.dtype = ONNX_FLOAT32, .dims = grown, .symbols = after, .rank = 2};
  onnx_writer writer = ONNX_WRITER_INIT;
  begin(&writer, "attention");
  onnx_input(&writer, "past_key", &past);
  onnx_input(&writer, "past_value", &past);
  onnx_input(&writer, "row", &row);
  onnx_output(&writer, "key", &joined);
  onnx_output(&writer, "value", &joined);
  onnx_output(&writer, "y", &row);
  append(&writer, "past_key", "key");
  append(&writer, "past_value", "value");
  change(&writer, "Transpose", "key", "turned");
  node(&writer, "MatMul", "row", "turned", "scores");
  change(&writer, "Softmax", "scores", "weights");
  node(&writer, "MatMul", "weights", "value", "y");
  return finish(&writer, bytes);
}

void *model_largest(size_t *bytes) {
  const int64_t dims[] = {-1};
  const char *const symbols[] = {"n"};
  const onnx_type all = {.dtype = ONNX_FLOAT32, .dims = dims, .symbols = symbols, .rank = 1};
  const onnx_type one = {.dtype = ONNX_FLOAT32};
  onnx_writer writer = ONNX_WRITER_INIT;
  begin(&writer, "largest");
  onnx_input(&writer, "x", &all);
  onnx_output(&writer, "y", &one);
  onnx_node_begin(&writer, "ReduceMax", "", "");
  onnx_node_input(&writer, "x");
  onnx_node_output(&writer, "y");
  onnx_attribute_int(&writer, "keepdims", 0);
  onnx_node_end(&writer);
  return finish(&writer, bytes);
}

void *model_nonzero(size_t *bytes) {
  const int64_t dims[] = {-1}, found[] = {1, -1};
  const char *const symbols[] = {"n"}, *const found_symbols[] = {"", "count"};
  const onnx_type type = {.dtype = ONNX_FLOAT32, .dims = dims, .symbols = symbols, .rank = 1};
  const onnx_type places = {.dtype = ONNX_INT64, .dims = found, .symbols = found_symbols, .rank = 2};
  onnx_writer writer = ONNX_WRITER_INIT;
  begin(&writer, "nonzero");
  onnx_input(&writer, "x", &type);
  onnx_output(&writer, "y", &places);
  change(&writer, "NonZero", "x", "y");
  return finish(&writer, bytes);
}

static void double_state(onnx_writer *writer, int number, const onnx_type *type) {
  char state[16], next[16];
  snprintf(state, sizeof state, "state%d", number);
  snprintf(next, sizeof next, "next%d", number);
  onnx_input(writer, state, type);
  onnx_output(writer, next, type);
  node(writer, "Add", state, state, next);
}

void *model_states(size_t *bytes) {
  const int64_t fixed[] = {4}, open[] = {-1};
  const char *const symbols[] = {"n"};
  const onnx_type state = {.dtype = ONNX_FLOAT32, .dims = fixed, .rank = 1};
  const onnx_type mask = {.dtype = ONNX_FLOAT32, .dims = open, .symbols = symbols, .rank = 1};
  onnx_writer writer = ONNX_WRITER_INIT;
  begin(&writer, "states");
  for (int i = 0; i < MODEL_STATES; i++) double_state(&writer, i, &state);
  onnx_input(&writer, "mask", &mask);
  onnx_output(&writer, "y", &mask);
  node(&writer, "Add", "mask", "mask", "y");
  return finish(&writer, bytes);
}

void *model_encoder(size_t *bytes) {
  const int64_t state_dims[] = {MODEL_ENCODER_LEAD, -1, MODEL_ENCODER_REST}, dims[] = {-1, 1};
  const char *const state_symbols[] = {"", "rows", ""}, *const symbols[] = {"rows", ""};
  const onnx_type state = {.dtype = ONNX_FLOAT32, .dims = state_dims, .symbols = state_symbols, .rank = 3};
  const onnx_type x = {.dtype = ONNX_FLOAT32, .dims = dims, .symbols = symbols, .rank = 2};
  onnx_writer writer = ONNX_WRITER_INIT;
  begin(&writer, "encoder");
  for (int i = 0; i < MODEL_ENCODER_STATES; i++) double_state(&writer, i, &state);
  onnx_input(&writer, "x", &x);
  onnx_output(&writer, "y", &x);
  node(&writer, "Add", "x", "x", "y");
  return finish(&writer, bytes);
}

void *model_products(int64_t side, int count, size_t *bytes) {
  const int64_t dims[] = {side, side};
  const onnx_type type = {.dtype = ONNX_FLOAT32, .dims = dims, .rank = 2};
  onnx_writer writer = ONNX_WRITER_INIT;
  begin(&writer, "products");
  onnx_input(&writer, "x", &type);
  onnx_input(&writer, "w", &type);
  onnx_output(&writer, "y", &type);
  char left[24] = "x", product[24];
  for (int i = 1; i <= count; i++) {
    if (i == count) {
      strcpy(product, "y");
    } else {
      snprintf(product, sizeof product, "product%d", i);
    }
    node(&writer, "MatMul", left, "w", product);
    memcpy(left, product, sizeof left);
  }
  return finish(&writer, bytes);
}

void *model_weights(int64_t side, size_t *bytes) {
  const int64_t rows[] = {-1, side}, square[] = {side, side};
  const char *const symbols[] = {"n", ""};
  const onnx_type type = {.dtype = ONNX_FLOAT32, .dims = rows, .symbols = symbols, .rank = 2};
  size_t weight_bytes = (size_t)side * (size_t)side * sizeof(float);
  float *weights = calloc(1, weight_bytes);
  if (weights == NULL) return NULL;
  for (int64_t i = 0; i < side; i++) weights[i * side + i] = 1;
  const onnx_tensor w = {.name = "w", .dtype = ONNX_FLOAT32, .dims = square, .rank = 2, .data = weights, .bytes = weight_bytes};
  onnx_writer writer = ONNX_WRITER_INIT;
  begin(&writer, "weights");
  onnx_input(&writer, "x", &type);
  onnx_initializer(&writer, &w);
  onnx_output(&writer, "y", &type);
  node(&writer, "MatMul", "x", "w", "y");
  free(weights);
  return finish(&writer, bytes);
}

void *model_lookup(int64_t rows, int64_t columns, size_t *bytes) {
  const int64_t table_dims[] = {rows, columns}, index_dims[] = {-1}, found_dims[] = {-1, columns};
  const char *const symbols[] = {"n", ""};
  const onnx_type table = {.dtype = ONNX_FLOAT32, .dims = table_dims, .rank = 2};
  const onnx_type index = {.dtype = ONNX_INT32, .dims = index_dims, .symbols = symbols, .rank = 1};
  const onnx_type found = {.dtype = ONNX_FLOAT32, .dims = found_dims, .symbols = symbols, .rank = 2};
  onnx_writer writer = ONNX_WRITER_INIT;
  begin(&writer, "lookup");
  onnx_input(&writer, "table", &table);
  onnx_input(&writer, "index", &index);
  onnx_output(&writer, "found", &found);
  node(&writer, "Gather", "table", "index", "found");
  return finish(&writer, bytes);
}
