#include "decoder.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "onnx.h"

typedef struct decoder {
  onnx_writer writer;
  const decoder_size *size;
  int64_t width, mlp;
  FILE *data;
  const char *location;
  uint64_t offset; /* of the next weights */
  uint32_t seed;
  bool failed;
} decoder;

/* ---- weights and constants ---- */

static float next_random(decoder *d) {
  d->seed = d->seed * 1664525u + 1013904223u;
  return (float)((double)(d->seed >> 8) / 8388608.0 - 1.0);
}

/* [rows,columns] within `most` of `middle`; without columns [rows]. */
static void weights(decoder *d, const char *name, int64_t rows, int64_t columns, double middle, double most) {
  const int64_t dims[] = {rows, columns};
  size_t count = (size_t)(columns == 0 ? rows : rows * columns), bytes = count * sizeof(float);
  float *values = malloc(bytes);
  for (size_t i = 0; values != NULL && i < count; i++) values[i] = (float)(middle + most * (double)next_random(d));
  d->failed = d->failed || values == NULL || fwrite(values, 1, bytes, d->data) != bytes;
  free(values);
  const onnx_tensor tensor = {.name = name,
                              .dtype = ONNX_FLOAT32,
                              .dims = dims,
                              .rank = columns == 0 ? 1 : 2,
                              .location = d->location,
                              .offset = d->offset,
                              .length = bytes};
  onnx_initializer(&d->writer, &tensor);
  d->offset += bytes;
}

static void scalar(decoder *d, const char *name, float value) {
  const onnx_tensor tensor = {.name = name, .dtype = ONNX_FLOAT32, .data = &value, .bytes = sizeof value};
  onnx_initializer(&d->writer, &tensor);
}

/* int64[count], or a scalar if there is no count. */
static void numbers(decoder *d, const char *name, const int64_t *values, int64_t count) {
  size_t bytes = sizeof *values * (size_t)(count == 0 ? 1 : count);
  const onnx_tensor tensor = {
      .name = name, .dtype = ONNX_INT64, .dims = &count, .rank = count == 0 ? 0 : 1, .data = values, .bytes = bytes};
  onnx_initializer(&d->writer, &tensor);
}

/* ---- nodes ---- */

/* Names of a layer, made of a format and its number. A call needs fewer than sixteen at a time. */
__attribute__((format(printf, 1, 2))) static const char *text(const char *format, ...) {
  static char texts[16][64];
  static unsigned next;
  char *made = texts[next++ % 16];
  va_list list;
  va_start(list, format);
  vsnprintf(made, sizeof texts[0], format, list);
  va_end(list);
  return made;
}

static void begin(decoder *d, const char *op_type, const char *const *inputs, size_t count, const char *output) {
  onnx_node_begin(&d->writer, op_type, "", "");
  for (size_t i = 0; i < count; i++) onnx_node_input(&d->writer, inputs[i]);
  onnx_node_output(&d->writer, output);
}

static void one(decoder *d, const char *op_type, const char *input, const char *output) {
  begin(d, op_type, &input, 1, output);
  onnx_node_end(&d->writer);
}

static void two(decoder *d, const char *op_type, const char *left, const char *right, const char *output) {
  begin(d, op_type, (const char *const[]){left, right}, 2, output);
  onnx_node_end(&d->writer);
}

static void three(decoder *d, const char *op_type, const char *first, const char *second, const char *third,
                  const char *output) {
  begin(d, op_type, (const char *const[]){first, second, third}, 3, output);
  onnx_node_end(&d->writer);
}

static void two_with_axis(decoder *d, const char *op_type, int64_t axis, const char *left, const char *right,
                          const char *output) {
  begin(d, op_type, (const char *const[]){left, right}, 2, output);
  onnx_attribute_int(&d->writer, "axis", axis);
  onnx_node_end(&d->writer);
}

static void transpose(decoder *d, const int64_t order[4], const char *input, const char *output) {
  begin(d, "Transpose", &input, 1, output);
  onnx_attribute_ints(&d->writer, "perm", order, 4);
  onnx_node_end(&d->writer);
}

static void normalize(decoder *d, const char *input, const char *output) {
  const char *scale = text("%s_scale", output);
  weights(d, scale, d->width, 0, 1, 0.25);
  two_with_axis(d, "LayerNormalization", -1, input, scale, output);
}

static void project(decoder *d, const char *input, int64_t rows, int64_t columns, const char *output) {
  const char *matrix = text("%s_weights", output);
  weights(d, matrix, rows, columns, 0, sqrt(3.0 / (double)rows));
  two(d, "MatMul", input, matrix, output);
}

/* ---- layers ---- */

static void to_heads(decoder *d, const char *input, const char *output) {
  static const int64_t order[] = {0, 2, 1, 3};
  const char *parted = text("%s_parted", output);
  two(d, "Reshape", input, "to_heads", parted);
  transpose(d, order, parted, output);
}

/* The rows of the new tokens behind those of the past. */
static void cache(decoder *d, const char *what, int layer) {
  const char *rows = text("new_%s%d", what, layer);
  const char *new_heads = text("new_%s_heads%d", what, layer);
  project(d, text("norm%d", layer), d->width, d->width, rows);
  to_heads(d, rows, new_heads);
  two_with_axis(d, "Concat", 2, text("past_key_values.%d.%s", layer, what), new_heads, text("present.%d.%s", layer, what));
}

static void attend(decoder *d, int layer) {
  static const int64_t turned[] = {0, 1, 3, 2}, back[] = {0, 2, 1, 3};
  normalize(d, text("hidden%d", layer), text("norm%d", layer));
  cache(d, "key", layer);
  cache(d, "value", layer);
  project(d, text("norm%d", layer), d->width, d->width, text("query%d", layer));
  two(d, "Mul", text("query%d", layer), "scale", text("scaled%d", layer));
  to_heads(d, text("scaled%d", layer), text("query_heads%d", layer));
  transpose(d, turned, text("present.%d.key", layer), text("key_turned%d", layer));
  two(d, "MatMul", text("query_heads%d", layer), text("key_turned%d", layer), text("scores%d", layer));
  two(d, "Add", text("scores%d", layer), "mask", text("masked%d", layer));
  one(d, "Softmax", text("masked%d", layer), text("shares%d", layer));
  two(d, "MatMul", text("shares%d", layer), text("present.%d.value", layer), text("found%d", layer));
  transpose(d, back, text("found%d", layer), text("found_turned%d", layer));
  two(d, "Reshape", text("found_turned%d", layer), "to_width", text("joined%d", layer));
  project(d, text("joined%d", layer), d->width, d->width, text("attended%d", layer));
  two(d, "Add", text("hidden%d", layer), text("attended%d", layer), text("between%d", layer));
}

static void transform(decoder *d, int layer) {
  normalize(d, text("between%d", layer), text("second_norm%d", layer));
  project(d, text("second_norm%d", layer), d->width, d->mlp, text("wide%d", layer));
  one(d, "Gelu", text("wide%d", layer), text("active%d", layer));
  project(d, text("active%d", layer), d->mlp, d->width, text("narrow%d", layer));
  two(d, "Add", text("between%d", layer), text("narrow%d", layer), text("hidden%d", layer + 1));
}

/* ---- the graph ---- */

static void add_constants(decoder *d) {
  const int64_t zero = 0, first = 1, last = -1, heads[] = {1, -1, d->size->heads, DECODER_HEAD}, width[] = {1, -1, d->width};
  scalar(d, "scale", (float)(1 / sqrt(DECODER_HEAD)));
  scalar(d, "seen", 0);
  scalar(d, "unseen", -30000);
  numbers(d, "to_heads", heads, 4);
  numbers(d, "to_width", width, 3);
  numbers(d, "last", &last, 1);
  numbers(d, "start", &zero, 0);
  numbers(d, "step", &first, 0);
}

static void add_length(decoder *d, const char *input, const char *dims, const char *output) {
  begin(d, "Shape", &input, 1, dims);
  onnx_attribute_int(&d->writer, "start", 1);
  onnx_attribute_int(&d->writer, "end", 2);
  onnx_node_end(&d->writer);
  one(d, "Squeeze", dims, output);
}

/* mask[new,total]: a token attends to itself and to what is before it, where attention_mask is not 0. */
static void add_mask(decoder *d) {
  add_length(d, "attention_mask", "total_dims", "total_length");
  add_length(d, "input_ids", "new_dims", "new_length");
  two(d, "Sub", "total_length", "new_length", "past_length");
  three(d, "Range", "past_length", "total_length", "step", "positions");
  three(d, "Range", "start", "total_length", "step", "all_positions");
  two(d, "Unsqueeze", "positions", "last", "position_rows");
  two(d, "GreaterOrEqual", "position_rows", "all_positions", "before");
  two(d, "Equal", "attention_mask", "step", "allowed");
  two(d, "And", "before", "allowed", "visible");
  three(d, "Where", "visible", "seen", "unseen", "mask");
}

static void add_caches(decoder *d, const char *prefix, const char *length,
                       onnx_status (*add)(onnx_writer *, const char *, const onnx_type *)) {
  const int64_t dims[] = {1, d->size->heads, -1, DECODER_HEAD};
  const char *const symbols[] = {"", "", length, ""};
  const onnx_type type = {.dtype = ONNX_FLOAT32, .dims = dims, .symbols = symbols, .rank = 4};
  for (int layer = 0; layer < d->size->layers; layer++) {
    add(&d->writer, text("%s.%d.key", prefix, layer), &type);
    add(&d->writer, text("%s.%d.value", prefix, layer), &type);
  }
}

static void add_tokens(decoder *d, const char *name, const char *length) {
  const int64_t dims[] = {1, -1};
  const char *const symbols[] = {"", length};
  const onnx_type type = {.dtype = ONNX_INT64, .dims = dims, .symbols = symbols, .rank = 2};
  onnx_input(&d->writer, name, &type);
}

static void add_interface(decoder *d) {
  const int64_t row[] = {1, 1, d->size->vocabulary};
  const onnx_type logits = {.dtype = ONNX_FLOAT32, .dims = row, .rank = 3};
  add_tokens(d, "input_ids", "new");
  add_tokens(d, "attention_mask", "total");
  onnx_output(&d->writer, "logits", &logits);
  add_caches(d, "past_key_values", "past", onnx_input);
  add_caches(d, "present", "total", onnx_output);
}

static void add_graph(decoder *d) {
  const decoder_size *size = d->size;
  onnx_model_begin(&d->writer, NULL);
  onnx_opset(&d->writer, "", 21);
  onnx_graph_begin(&d->writer, "decoder");
  add_interface(d);
  add_constants(d);
  add_mask(d);
  weights(d, "words", size->vocabulary, d->width, 0, 1);
  weights(d, "places", size->most_tokens, d->width, 0, 0.5);
  two(d, "Gather", "words", "input_ids", "word_rows");
  two(d, "Gather", "places", "positions", "place_rows");
  two(d, "Add", "word_rows", "place_rows", "hidden0");
  for (int layer = 0; layer < size->layers; layer++) {
    attend(d, layer);
    transform(d, layer);
  }
  two_with_axis(d, "Gather", 1, text("hidden%d", size->layers), "last", "last_hidden");
  normalize(d, "last_hidden", "last_norm");
  project(d, "last_norm", d->width, size->vocabulary, "logits");
  onnx_graph_end(&d->writer);
  onnx_model_end(&d->writer);
}

static bool write_model(decoder *d, const char *path) {
  const void *bytes = NULL;
  size_t size = 0;
  FILE *file = NULL;
  bool is_written = onnx_writer_finish(&d->writer, &bytes, &size) == ONNX_OK && (file = fopen(path, "wb")) != NULL &&
                    fwrite(bytes, 1, size, file) == size;
  return (file == NULL || fclose(file) == 0) && is_written;
}

bool decoder_write(const decoder_size *size, const char *model, const char *data, const char *data_path) {
  decoder d = {.writer = ONNX_WRITER_INIT, .size = size, .location = data, .seed = 1};
  d.width = (int64_t)size->heads * DECODER_HEAD;
  d.mlp = 4 * d.width;
  d.data = fopen(data_path, "wb");
  if (d.data == NULL) return false;
  add_graph(&d);
  d.failed = fclose(d.data) != 0 || d.failed;
  bool is_written = !d.failed && write_model(&d, model);
  onnx_writer_release(&d.writer);
  return is_written;
}
