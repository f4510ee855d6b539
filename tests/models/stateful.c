#include "builder.h"

/* Models with a state that goes from run to run. */

static void set_dims(test_shape *shape, const char *text) {
  test_shape_parse(text, shape);
}

/* A table of small fractions, which float32 holds exactly; turned round it is that of the tokens that follow. */
static void add_table(builder *b, const char *name, int64_t rows, int64_t columns, int turned) {
  static float table[64 * 64];
  if (rows < 1 || columns < 1 || rows > 64 || columns > 64) {
    builder_fail(b, "vocab and width of 1 to 64 are expected", b->spec);
    return;
  }
  for (int64_t row = 0; row < rows; row++) {
    for (int64_t column = 0; column < columns; column++) {
      int64_t at = turned ? column * rows + row : row * columns + column;
      table[at] = (float)(((row + turned) * 7 + column * 5) % 13 - 6) / 8;
    }
  }
  int64_t dims[2] = {turned ? columns : rows, turned ? rows : columns};
  onnx_tensor tensor = {
      .name = name, .dtype = ONNX_FLOAT32, .dims = dims, .rank = 2, .data = table, .bytes = (size_t)(rows * columns) * 4};
  onnx_initializer(&b->writer, &tensor);
}

static void join(builder *b, const char *inputs, const char *output) {
  builder_node_begin(b, "Concat", inputs, output);
  onnx_attribute_int(&b->writer, "axis", 0);
  builder_node_end(b);
}

/* One head of attention over all tokens that came so far. */
void build_decoder(builder *b) {
  int64_t vocab = builder_int(b, "vocab", 16), width = builder_int(b, "width", 8);
  test_shape shape;
  set_dims(&shape, "new");
  builder_input(b, "tokens", ONNX_INT64, &shape);
  set_dims(&shape, "past,?");
  shape.dims[1] = width;
  builder_input(b, "past_key", ONNX_FLOAT32, &shape);
  builder_input(b, "past_value", ONNX_FLOAT32, &shape);
  set_dims(&shape, "new,?");
  shape.dims[1] = vocab;
  builder_output(b, "logits", ONNX_FLOAT32, &shape);
  set_dims(&shape, "total,?");
  shape.dims[1] = width;
  builder_output(b, "key", ONNX_FLOAT32, &shape);
  builder_output(b, "value", ONNX_FLOAT32, &shape);
  set_dims(&shape, "new,total");
  builder_output(b, "weights", ONNX_FLOAT32, &shape);
  add_table(b, "table", vocab, width, 0);
  add_table(b, "table_turned", vocab, width, 1);
  builder_scalar(b, "half", ONNX_FLOAT32, 0.5);
  builder_node(b, "Gather", "table tokens", "row");
  builder_node(b, "Mul", "row half", "changed");
  join(b, "past_key row", "key");
  join(b, "past_value changed", "value");
  builder_node(b, "Transpose", "key", "key_turned");
  if (builder_int(b, "softmax", 1) != 0) {
    builder_node(b, "MatMul", "row key_turned", "scores");
    builder_node(b, "Softmax", "scores", "weights");
  } else { /* products of eighths, which float32 holds exactly */
    builder_node(b, "MatMul", "row key_turned", "weights");
  }
  builder_node(b, "MatMul", "weights value", "context");
  builder_node(b, "MatMul", "context table_turned", "logits");
}

/* Two caches that grow, the second one turned round: its rows are on another axis. */
void build_grow(builder *b) {
  static const struct {
    const char *name, *dims;
  } inputs[] = {{"past", "past,3"}, {"past_turned", "3,past_turned"}, {"row", "new,3"}},
    outputs[] = {{"all", "total,3"}, {"all_turned", "3,total_turned"}};
  test_shape shape;
  for (size_t i = 0; i < 3; i++) {
    set_dims(&shape, inputs[i].dims);
    builder_input(b, inputs[i].name, ONNX_FLOAT32, &shape);
  }
  for (size_t i = 0; i < 2; i++) {
    set_dims(&shape, outputs[i].dims);
    builder_output(b, outputs[i].name, ONNX_FLOAT32, &shape);
  }
  builder_node(b, "Transpose", "row", "turned");
  join(b, "past row", "all");
  builder_node_begin(b, "Concat", "past_turned turned", "all_turned");
  onnx_attribute_int(&b->writer, "axis", 1);
  builder_node_end(b);
}

/* A row is written into a cache of fixed size; ScatterND may work in the memory of its input. */
void build_cache(builder *b) {
  int64_t capacity = builder_int(b, "capacity", 16), width = builder_int(b, "width", 8), axis = 0;
  test_shape cache = {.dims = {capacity, width}, .rank = 2}, row = {.dims = {1, width}, .rank = 2};
  test_shape at = {.dims = {1, 1}, .rank = 2}, sum = {.dims = {width}, .rank = 1};
  builder_input(b, "cache", ONNX_FLOAT32, &cache);
  builder_input(b, "row", ONNX_FLOAT32, &row);
  builder_input(b, "at", ONNX_INT64, &at);
  builder_output(b, "next", ONNX_FLOAT32, &cache);
  builder_output(b, "sum", ONNX_FLOAT32, &sum);
  builder_int64s(b, "axes", &axis, 1);
  builder_node(b, "ScatterND", "cache at row", "next");
  builder_node_begin(b, "ReduceSum", "next axes", "sum");
  onnx_attribute_int(&b->writer, "keepdims", 0);
  builder_node_end(b);
}

/* What is left after a part of it was taken for noise: the more, the higher the level. */
void build_denoise(builder *b) {
  test_shape dims, scalar = {.dims = {1}, .rank = 1};
  builder_shape(b, "dims", "1,4,16,16", &dims);
  builder_input(b, "latents", ONNX_FLOAT32, &dims);
  builder_input(b, "timestep", ONNX_FLOAT32, &scalar);
  builder_output(b, "denoised", ONNX_FLOAT32, &dims);
  builder_scalar(b, "part", ONNX_FLOAT32, 0.25);
  builder_node(b, "Tanh", "latents", "noise");
  builder_node(b, "Mul", "timestep part", "share");
  builder_node(b, "Mul", "noise share", "found");
  builder_node(b, "Sub", "latents found", "denoised");
}
