#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "builder.h"
#include "element.h"

/* A small transformer that decodes: layers with attention of several heads over all tokens so far, whose keys and values are
 * one state, and a network behind each; what language models have, of the sizes of a test. */

typedef struct transformer {
  builder *b;
  int32_t dtype;
  int64_t vocab, width, heads, layers, room; /* `room`: the most tokens */
  unsigned seed;
} transformer;

/* A text made of words and numbers. Sixteen at a time are kept: more than a node and those that pass its name on make. */
__attribute__((format(printf, 1, 2))) static const char *words(const char *format, ...) {
  static char texts[16][256];
  static unsigned next;
  va_list list;
  char *text = texts[next++ % 16];
  va_start(list, format);
  vsnprintf(text, sizeof texts[0], format, list);
  va_end(list);
  return text;
}

/* Numbers that look random, within `most` of `middle`. */
static void weights(transformer *t, const char *name, int64_t rows, int64_t columns, double middle, double most) {
  int64_t dims[2] = {rows, columns};
  size_t rank = columns == 0 ? 1 : 2, count = (size_t)(rows * (columns == 0 ? 1 : columns)), size = element_bits(t->dtype) / 8;
  void *data = calloc(count + 1, size);
  if (data == NULL) {
    builder_fail(t->b, "no memory for the weights", name);
    return;
  }
  for (size_t i = 0; i < count; i++) {
    t->seed = t->seed * 1103515245U + 12345U;
    element_set(t->dtype, data, i, middle + most * ((double)(t->seed >> 16 & 1023) - 511.5) / 511.5);
  }
  onnx_tensor tensor = {.name = name, .dtype = t->dtype, .dims = dims, .rank = rank, .data = data, .bytes = count * size};
  onnx_initializer(&t->b->writer, &tensor);
  free(data);
}

static void node(transformer *t, const char *op_type, const char *inputs, const char *outputs) {
  builder_node(t->b, op_type, inputs, outputs);
}

static void node_with_axis(transformer *t, const char *op_type, int64_t axis, const char *inputs, const char *outputs) {
  builder_node_begin(t->b, op_type, inputs, outputs);
  onnx_attribute_int(&t->b->writer, "axis", axis);
  builder_node_end(t->b);
}

static void split(transformer *t, int64_t axis, int64_t parts, const char *input, const char *outputs) {
  builder_node_begin(t->b, "Split", input, outputs);
  onnx_attribute_int(&t->b->writer, "axis", axis);
  onnx_attribute_int(&t->b->writer, "num_outputs", parts);
  builder_node_end(t->b);
}

static void transpose(transformer *t, const int64_t order[3], const char *input, const char *output) {
  builder_node_begin(t->b, "Transpose", input, output);
  onnx_attribute_ints(&t->b->writer, "perm", order, 3);
  builder_node_end(t->b);
}

static void normalise(transformer *t, const char *input, const char *name) {
  weights(t, words("%s_scale", name), t->width, 0, 1, 0.25);
  weights(t, words("%s_bias", name), t->width, 0, 0, 0.25);
  node_with_axis(t, "LayerNormalization", -1, words("%s %s_scale %s_bias", input, name, name), name);
}

static void project(transformer *t, const char *input, int64_t rows, int64_t columns, const char *name) {
  weights(t, words("%s_weights", name), rows, columns, 0, 1 / sqrt((double)rows));
  weights(t, words("%s_bias", name), columns, 0, 0, 0.125);
  node(t, "MatMul", words("%s %s_weights", input, name), words("%s_product", name));
  node(t, "Add", words("%s_product %s_bias", name, name), name);
}

/* x[new,width] as the heads see it: [heads,new,width of a head]. */
static void to_heads(transformer *t, const char *name, int layer) {
  static const int64_t order[3] = {1, 0, 2};
  node(t, "Reshape", words("%s%d to_heads", name, layer), words("%s_heads%d", name, layer));
  transpose(t, order, words("%s_heads%d", name, layer), words("%s_new%d", name, layer));
}

static void attend(transformer *t, int layer) {
  static const int64_t turned[3] = {0, 2, 1}, back[3] = {1, 0, 2};
  normalise(t, words("h%d", layer), words("norm%d", layer));
  project(t, words("norm%d", layer), t->width, 3 * t->width, words("qkv%d", layer));
  split(t, 1, 3, words("qkv%d", layer), words("q%d k%d v%d", layer, layer, layer));
  to_heads(t, "q", layer);
  to_heads(t, "k", layer);
  to_heads(t, "v", layer);
  node(t, "Squeeze", words("past%d first", 2 * layer), words("past_key%d", layer));
  node(t, "Squeeze", words("past%d first", 2 * layer + 1), words("past_value%d", layer));
  node_with_axis(t, "Concat", 1, words("past_key%d k_new%d", layer, layer), words("key%d", layer));
  node_with_axis(t, "Concat", 1, words("past_value%d v_new%d", layer, layer), words("value%d", layer));
  node(t, "Unsqueeze", words("key%d first", layer), words("state%d", 2 * layer));
  node(t, "Unsqueeze", words("value%d first", layer), words("state%d", 2 * layer + 1));
  transpose(t, turned, words("key%d", layer), words("key_turned%d", layer));
  node(t, "MatMul", words("q_new%d key_turned%d", layer, layer), words("scores%d", layer));
  node(t, "Mul", words("scores%d shrink", layer), words("shrunk%d", layer));
  node(t, "Where", words("seen shrunk%d nothing", layer), words("masked%d", layer));
  node_with_axis(t, "Softmax", -1, words("masked%d", layer), words("attention%d", layer));
  node(t, "MatMul", words("attention%d value%d", layer, layer), words("context%d", layer));
  transpose(t, back, words("context%d", layer), words("context_turned%d", layer));
  node(t, "Reshape", words("context_turned%d to_width", layer), words("joined%d", layer));
  project(t, words("joined%d", layer), t->width, t->width, words("attended%d", layer));
  node(t, "Add", words("h%d attended%d", layer, layer), words("a%d", layer));
}

static void think(transformer *t, int layer) {
  normalise(t, words("a%d", layer), words("second_norm%d", layer));
  project(t, words("second_norm%d", layer), t->width, 4 * t->width, words("wide%d", layer));
  /* Gelu by its parts, as exporters write it: x (1 + erf(x / sqrt 2)) / 2 */
  node(t, "Div", words("wide%d root", layer), words("wide_share%d", layer));
  node(t, "Erf", words("wide_share%d", layer), words("wide_erf%d", layer));
  node(t, "Add", words("wide_erf%d one", layer), words("wide_part%d", layer));
  node(t, "Mul", words("wide%d wide_part%d", layer, layer), words("wide_twice%d", layer));
  node(t, "Mul", words("wide_twice%d half", layer), words("active%d", layer));
  project(t, words("active%d", layer), 4 * t->width, t->width, words("narrow%d", layer));
  node(t, "Add", words("a%d narrow%d", layer, layer), words("h%d", layer + 1));
}

/* Which tokens each new one sees: itself, and what came before. */
static void add_positions(transformer *t) {
  static const int64_t zero = 0, one = 1, two = 2, last = -1;
  builder_int64s(t->b, "first", &zero, 1);
  builder_int64s(t->b, "last", &last, 1);
  builder_int64s(t->b, "where_past", &two, 1);
  builder_scalar(t->b, "start", ONNX_INT64, 0);
  builder_scalar(t->b, "step", ONNX_INT64, (double)one);
  node(t, "Shape", "past", "past_shape");
  node(t, "Shape", "tokens", "new_shape");
  node(t, "Gather", "past_shape where_past", "past_lengths");
  node(t, "Squeeze", "past_lengths first", "past_length");
  node(t, "Squeeze", "new_shape first", "new_length");
  node(t, "Add", "past_length new_length", "total_length");
  node(t, "Range", "past_length total_length step", "positions");
  node(t, "Range", "start total_length step", "all_positions");
  node(t, "Unsqueeze", "positions last", "position_rows");
  node(t, "GreaterOrEqual", "position_rows all_positions", "seen");
}

static void add_constants(transformer *t) {
  const int64_t head = t->width / t->heads, to_heads[3] = {-1, t->heads, head}, to_width[2] = {-1, t->width};
  builder_int64s(t->b, "to_heads", to_heads, 3);
  builder_int64s(t->b, "to_width", to_width, 2);
  builder_scalar(t->b, "shrink", t->dtype, 1 / sqrt((double)head));
  builder_scalar(t->b, "nothing", t->dtype, -30000);
  builder_scalar(t->b, "root", t->dtype, sqrt(2));
  builder_scalar(t->b, "one", t->dtype, 1);
  builder_scalar(t->b, "half", t->dtype, 0.5);
  weights(t, "table", t->vocab, t->width, 0, 1);
  weights(t, "place_table", t->room, t->width, 0, 0.5);
}

static void add_interface(transformer *t) {
  test_shape tokens, state, logits;
  test_shape_parse("new", &tokens);
  test_shape_parse("?,?,past,?", &state);
  state.dims[0] = 2 * t->layers;
  state.dims[1] = t->heads;
  state.dims[3] = t->width / t->heads;
  builder_input(t->b, "tokens", ONNX_INT64, &tokens);
  builder_input(t->b, "past", t->dtype, &state);
  test_shape_parse("new,?", &logits);
  logits.dims[1] = t->vocab;
  builder_output(t->b, "logits", t->dtype, &logits);
  snprintf(state.names[2], sizeof state.names[2], "total");
  builder_output(t->b, "state", t->dtype, &state);
}

static void list(char *text, size_t size, const char *name, int64_t count) {
  size_t length = 0;
  text[0] = '\0';
  for (int64_t i = 0; i < count && length < size; i++) {
    length += (size_t)snprintf(text + length, size - length, "%s%s%d", i == 0 ? "" : " ", name, (int)i);
  }
}

void build_transformer(builder *b) {
  transformer t = {.b = b, .dtype = builder_dtype(b, "dtype", ONNX_FLOAT32), .vocab = builder_int(b, "vocab", 32), .seed = 1};
  char names[1024];
  t.width = builder_int(b, "width", 16);
  t.heads = builder_int(b, "heads", 2);
  t.layers = builder_int(b, "layers", 2);
  t.room = builder_int(b, "room", 64);
  if (t.vocab < 1 || t.vocab > 4096 || t.layers < 1 || t.layers > 16 || t.width < 1 || t.width > 1024 || t.room < 1 ||
      t.room > 4096 || t.heads < 1 || t.width % t.heads != 0) {
    builder_fail(b, "vocab, layers, width, heads (which divide it) and room within their ranges are expected", b->spec);
    return;
  }
  add_interface(&t);
  add_constants(&t);
  add_positions(&t);
  list(names, sizeof names, "past", 2 * t.layers);
  split(&t, 0, 2 * t.layers, "past", names);
  node(&t, "Gather", "table tokens", "words");
  node(&t, "Gather", "place_table positions", "places");
  node(&t, "Add", "words places", "h0");
  for (int layer = 0; layer < (int)t.layers; layer++) {
    attend(&t, layer);
    think(&t, layer);
  }
  list(names, sizeof names, "state", 2 * t.layers);
  node_with_axis(&t, "Concat", 0, names, "state");
  normalise(&t, words("h%d", (int)t.layers), "final");
  weights(&t, "head", t.width, t.vocab, 0, 1);
  node(&t, "MatMul", "final head", "logits");
}
