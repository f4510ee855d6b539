#include "builder.h"

#include <stdio.h>

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

/* Rows are written into a cache of fixed capacity, and a mask says which of them count. */
void build_masked(builder *b) {
  int64_t capacity = builder_int(b, "capacity", 16), width = builder_int(b, "width", 4), last = -1;
  test_shape cache = {.dims = {capacity, width}, .rank = 2}, row = {.dims = {-1, width}, .rank = 2, .names = {"new"}};
  test_shape at = {.dims = {-1}, .rank = 1, .names = {"new"}}, mask = {.dims = {1, capacity}, .rank = 2},
             sum = {.dims = {1, width}, .rank = 2};
  builder_input(b, "cache", ONNX_FLOAT32, &cache);
  builder_input(b, "row", ONNX_FLOAT32, &row);
  builder_input(b, "at", ONNX_INT64, &at);
  builder_input(b, "mask", builder_dtype(b, "dtype", ONNX_FLOAT32), &mask);
  builder_output(b, "next", ONNX_FLOAT32, &cache);
  builder_output(b, "y", ONNX_FLOAT32, &sum);
  builder_int64s(b, "last", &last, 1);
  builder_node(b, "Unsqueeze", "at last", "places");
  builder_node(b, "ScatterND", "cache places row", "next");
  builder_node_begin(b, "Cast", "mask", "factors");
  onnx_attribute_int(&b->writer, "to", ONNX_FLOAT32);
  builder_node_end(b);
  builder_node(b, "MatMul", "factors next", "y");
}

/* What a cache was: a node reads it beside the operator, or one inside of a branch does. */
static void build_before(builder *b, const test_shape *cache, int inside) {
  static const char *const branches[] = {"then_branch", "else_branch"};
  if (!inside) {
    builder_node(b, "Neg", "cache", "before");
    return;
  }
  builder_scalar(b, "always", ONNX_BOOL, 1);
  builder_node_begin(b, "If", "always", "before");
  for (size_t i = 0; i < 2; i++) {
    onnx_attribute_graph_begin(&b->writer, branches[i]);
    onnx_graph_begin(&b->writer, branches[i]);
    builder_node(b, "Neg", "cache", "result");
    builder_output(b, "result", ONNX_FLOAT32, cache);
    onnx_graph_end(&b->writer);
    onnx_attribute_end(&b->writer);
  }
  builder_node_end(b);
}

/* Rows are written into a cache of fixed capacity, where `at` says. */
void build_append(builder *b) {
  int64_t batch = builder_int(b, "batch", 1), capacity = builder_int(b, "capacity", 16), width = builder_int(b, "width", 4);
  test_shape cache = {.dims = {batch, capacity > 0 ? capacity : -1, width}, .rank = 3, .names = {"rows", "capacity"}},
             row = {.dims = {batch, -1, width}, .rank = 3, .names = {"rows", "new"}};
  test_shape lengths = {.dims = {batch}, .rank = 1, .names = {"rows"}};
  int attends = builder_int(b, "attention", 0) != 0;
  int64_t old = builder_int(b, "old", 0), second = builder_int(b, "second", 0);
  builder_input(b, "cache", ONNX_FLOAT32, &cache);
  builder_input(b, "row", ONNX_FLOAT32, &row);
  builder_input(b, "at", ONNX_INT64, &lengths);
  builder_output(b, "next", ONNX_FLOAT32, &cache);
  builder_node(b, "TensorScatter", "cache row at", "next");
  if (old != 0) {
    builder_output(b, "before", ONNX_FLOAT32, &cache);
    build_before(b, &cache, old == 2);
  }
  if (second > 0) {
    test_shape other = {.dims = {batch, second, width}, .rank = 3, .names = {"rows"}};
    builder_input(b, "other", ONNX_FLOAT32, &other);
    int joint = builder_int(b, "joint", 0) != 0;
    if (!joint) builder_input(b, "there", ONNX_INT64, &lengths);
    builder_output(b, "other_next", ONNX_FLOAT32, &other);
    builder_node(b, "TensorScatter", joint ? "other row at" : "other row there", "other_next");
  }
  if (attends) {
    builder_input(b, "valid", ONNX_INT64, &lengths);
    builder_output(b, "y", ONNX_FLOAT32, &row);
    builder_node_begin(b, "Attention", "row next next _ _ _ valid", "y");
    onnx_attribute_int(&b->writer, "q_num_heads", 1);
    onnx_attribute_int(&b->writer, "kv_num_heads", 1);
    builder_node_end(b);
  }
}

/* The same, but the graph does not show it: where rows are written is computed from positions, how many are in use from a mask, and nodes that
 * iobind does not look behind surround the operator. */
void build_hidden(builder *b) {
  int64_t batch = builder_int(b, "batch", 1), capacity = builder_int(b, "capacity", 16), width = builder_int(b, "width", 4),
          last = 1;
  test_shape cache = {.dims = {batch, capacity, width}, .rank = 3, .names = {"rows"}},
             row = {.dims = {batch, -1, width}, .rank = 3, .names = {"rows", "new"}};
  test_shape positions = {.dims = {batch, -1}, .rank = 2, .names = {"rows", "new"}},
             mask = {.dims = {batch, capacity}, .rank = 2, .names = {"rows"}};
  builder_input(b, "cache", ONNX_FLOAT32, &cache);
  builder_input(b, "row", ONNX_FLOAT32, &row);
  builder_input(b, "positions", ONNX_INT64, &positions);
  builder_input(b, "mask", ONNX_INT64, &mask);
  builder_output(b, "next", ONNX_FLOAT32, &cache);
  builder_output(b, "y", ONNX_FLOAT32, &row);
  builder_int64s(b, "last", &last, 1);
  builder_scalar(b, "first", ONNX_INT64, 0);
  builder_node_begin(b, "Gather", "positions first", "at");
  onnx_attribute_int(&b->writer, "axis", 1);
  builder_node_end(b);
  builder_node_begin(b, "ReduceSum", "mask last", "valid");
  onnx_attribute_int(&b->writer, "keepdims", 0);
  builder_node_end(b);
  builder_node(b, "Neg", "cache", "less_cache");
  builder_node(b, "Neg", "row", "less_row");
  builder_node(b, "TensorScatter", "less_cache less_row at", "less_next");
  builder_node(b, "Neg", "less_next", "next");
  builder_node_begin(b, "Attention", "row next next _ _ _ valid", "y");
  onnx_attribute_int(&b->writer, "q_num_heads", 1);
  onnx_attribute_int(&b->writer, "kv_num_heads", 1);
  builder_node_end(b);
}

/* The lengths of a cache, computed from a mask: how many of its numbers are 1, and how many there are. */
static void build_lengths(builder *b, int64_t batch) {
  test_shape mask = {.dims = {batch, -1}, .rank = 2, .names = {"", "extent"}};
  int64_t axis = 1;
  builder_input(b, "mask", ONNX_INT64, &mask);
  builder_int64s(b, "axis", &axis, 1);
  builder_scalar(b, "one", ONNX_INT64, 1);
  builder_node_begin(b, "ReduceSum", "mask axis", "used");
  onnx_attribute_int(&b->writer, "keepdims", 0);
  builder_node_end(b);
  builder_node(b, "Sub", "used one", "last");
  builder_node_begin(b, "Cast", "last", "seqlens_k");
  onnx_attribute_int(&b->writer, "to", ONNX_INT32);
  builder_node_end(b);
  builder_node(b, "Shape", "mask", "dims");
  builder_node(b, "Gather", "dims one", "extent");
  builder_node_begin(b, "Cast", "extent", "total");
  onnx_attribute_int(&b->writer, "to", ONNX_INT32);
  builder_node_end(b);
}

/* Keys and values of fixed capacity, into which an operator writes by itself. */
void build_shared(builder *b) {
  int64_t batch = builder_int(b, "batch", 1), capacity = builder_int(b, "capacity", 16);
  int64_t heads = builder_int(b, "heads", 2), width = builder_int(b, "width", 16);
  test_shape x = {.dims = {batch, -1, heads * width}, .rank = 3, .names = {"", "new"}};
  test_shape past = {.dims = {batch, heads, capacity, width}, .rank = 4};
  test_shape lengths = {.dims = {batch}, .rank = 1}, scalar = {.rank = 0};
  int32_t dtype = builder_dtype(b, "dtype", ONNX_FLOAT32);
  builder_input(b, "x", dtype, &x);
  builder_input(b, "past_key", dtype, &past);
  builder_input(b, "past_value", dtype, &past);
  if (builder_int(b, "mask", 0) != 0) {
    build_lengths(b, batch);
  } else {
    builder_input(b, "seqlens_k", ONNX_INT32, &lengths);
    builder_input(b, "total", ONNX_INT32, &scalar);
  }
  builder_output(b, "y", dtype, &x);
  builder_output(b, "key", dtype, &past);
  builder_output(b, "value", dtype, &past);
  onnx_node_begin(&b->writer, "GroupQueryAttention", "com.microsoft", "");
  static const char *const inputs[] = {"x", "x", "x", "past_key", "past_value", "seqlens_k", "total"};
  static const char *const outputs[] = {"y", "key", "value"};
  for (size_t i = 0; i < 7; i++) onnx_node_input(&b->writer, inputs[i]);
  for (size_t i = 0; i < 3; i++) onnx_node_output(&b->writer, outputs[i]);
  onnx_attribute_int(&b->writer, "num_heads", heads);
  onnx_attribute_int(&b->writer, "kv_num_heads", heads);
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

static test_shape rows_of(builder *b, int64_t lead, int64_t width) {
  test_shape shape;
  char rows[TEST_MODEL_TEXT];
  char text[2 * TEST_MODEL_TEXT];
  builder_text(b, "rows", "rows", rows);
  if (lead > 1) {
    snprintf(text, sizeof text, "%lld,%s,%lld", (long long)lead, rows, (long long)width);
  } else {
    snprintf(text, sizeof text, "%s,%lld", rows, (long long)width);
  }
  set_dims(&shape, text);
  return shape;
}

static void add_zeros(builder *b, const char *name, int64_t count) {
  static const float zeros[64];
  onnx_tensor table = {
      .name = name, .dtype = ONNX_FLOAT32, .dims = &count, .rank = 1, .data = zeros, .bytes = (size_t)count * sizeof zeros[0]};
  if (table.bytes > sizeof zeros) {
    builder_fail(b, "a limit of 1 to 64 is expected", b->spec);
    return;
  }
  onnx_initializer(&b->writer, &table);
}

/* Independent sequences, whose states have their rows on the first axis and on the second one. Whole numbers remain exact. */
void build_voices(builder *b) {
  static const float factors[2] = {1, 2};
  int64_t width = builder_int(b, "width", 4), dims[3] = {2, 1, 1}, axis = 0;
  test_shape plain = rows_of(b, 1, width), deep = rows_of(b, 2, width), one = rows_of(b, 1, 1), scalar = {.rank = 0};
  onnx_tensor table = {
      .name = "factors", .dtype = ONNX_FLOAT32, .dims = dims, .rank = 3, .data = factors, .bytes = sizeof factors};
  builder_input(b, "x", ONNX_FLOAT32, &plain);
  builder_input(b, "gain", ONNX_FLOAT32, &scalar);
  builder_input(b, "a", ONNX_FLOAT32, &deep);
  builder_input(b, "b", ONNX_FLOAT32, &plain);
  builder_input(b, "count", ONNX_INT64, &one);
  builder_output(b, "y", ONNX_FLOAT32, &deep);
  builder_output(b, "z", ONNX_FLOAT32, &plain);
  builder_output(b, "next_a", ONNX_FLOAT32, &deep);
  builder_output(b, "next_b", ONNX_FLOAT32, &plain);
  builder_output(b, "next_count", ONNX_INT64, &one);
  onnx_initializer(&b->writer, &table);
  builder_scalar(b, "one", ONNX_INT64, 1);
  builder_node(b, "Mul", "x factors", "scaled");
  builder_node(b, "Sub", "scaled a", "next_a");
  if (builder_int(b, "mix", 0) != 0) {
    builder_int64s(b, "axes", &axis, 1);
    builder_node(b, "ReduceSum", "x axes", "sum");
    builder_node(b, "Sub", "x sum", "less");
    builder_node(b, "Max", "b less", "next_b");
  } else {
    builder_node(b, "Max", "b x", "next_b");
  }
  builder_node(b, "Add", "count one", "next_count");
  builder_node(b, "Add", "next_a next_b", "y");
  if (builder_int(b, "limit", 0) != 0) {
    add_zeros(b, "table", builder_int(b, "limit", 0));
    const int64_t by_b = builder_int(b, "by_b", 0);
    builder_node_begin(b, "Cast", by_b != 0 ? "b" : "count", "index");
    onnx_attribute_int(&b->writer, "to", ONNX_INT64);
    builder_node_end(b);
    builder_node(b, "Gather", "table index", "zero"); /* fails if an index is beyond the table */
    builder_node(b, "Add", "next_b zero", "same_b");
    builder_node(b, "Add", "same_b gain", "z");
  } else if (builder_int(b, "log", 0) != 0) {
    builder_node(b, "Log", "next_b", "z");
  } else {
    builder_node(b, "Add", "next_b gain", "z");
  }
}

/* A row a step, each with a cache of its own, which is written at the row's length: a decoder whose rows have different lengths. Products of
 * eighths, which float32 holds exactly, and no softmax. */
void build_ragged(builder *b) {
  static int64_t places[64];
  int64_t vocab = builder_int(b, "vocab", 16), width = builder_int(b, "width", 8), capacity = builder_int(b, "capacity", 16);
  int64_t down[3] = {1, capacity, 1}, across[3] = {1, 1, capacity};
  test_shape token, cache, length, logits;
  if (capacity < 1 || capacity > 64) {
    builder_fail(b, "a capacity of 1 to 64 is expected", b->spec);
    return;
  }
  for (int64_t i = 0; i < capacity; i++) {
    places[i] = i;
  }
  set_dims(&token, "rows,1");
  set_dims(&length, "rows,1,1");
  set_dims(&cache, "rows,?,?");
  cache.dims[1] = capacity;
  cache.dims[2] = width;
  set_dims(&logits, "rows,1,?");
  logits.dims[2] = vocab;
  builder_input(b, "token", ONNX_INT64, &token);
  builder_input(b, "key", ONNX_FLOAT32, &cache);
  builder_input(b, "value", ONNX_FLOAT32, &cache);
  builder_input(b, "length", ONNX_INT64, &length);
  builder_output(b, "logits", ONNX_FLOAT32, &logits);
  builder_output(b, "next_key", ONNX_FLOAT32, &cache);
  builder_output(b, "next_value", ONNX_FLOAT32, &cache);
  builder_output(b, "next_length", ONNX_INT64, &length);
  add_table(b, "table", vocab, width, 0);
  add_table(b, "table_turned", vocab, width, 1);
  onnx_tensor table = {
      .name = "down", .dtype = ONNX_INT64, .dims = down, .rank = 3, .data = places, .bytes = (size_t)capacity * 8};
  onnx_initializer(&b->writer, &table);
  table.name = "across";
  table.dims = across;
  onnx_initializer(&b->writer, &table);
  builder_scalar(b, "one", ONNX_INT64, 1);
  builder_scalar(b, "half", ONNX_FLOAT32, 0.5);
  builder_scalar(b, "nothing", ONNX_FLOAT32, 0);
  builder_node(b, "Gather", "table token", "row");
  builder_node(b, "Mul", "row half", "changed");
  builder_node(b, "Equal", "down length", "is_here");
  builder_node(b, "Where", "is_here row key", "next_key");
  builder_node(b, "Where", "is_here changed value", "next_value");
  builder_node(b, "Add", "length one", "next_length");
  const int64_t turned[3] = {0, 2, 1};
  builder_node_begin(b, "Transpose", "next_key", "key_turned");
  onnx_attribute_ints(&b->writer, "perm", turned, 3);
  builder_node_end(b);
  builder_node(b, "MatMul", "row key_turned", "scores");
  builder_node(b, "Less", "across next_length", "is_before");
  builder_node(b, "Where", "is_before scores nothing", "weights");
  builder_node(b, "MatMul", "weights next_value", "context");
  builder_node(b, "MatMul", "context table_turned", "logits");
}

/* States like those of a streaming encoder: many, nearly all with their rows on the second axis. next = x - state, y = x + the next state of the
 * last one. */
void build_encoder(builder *b) {
  int64_t states = builder_int(b, "states", 98), lead = builder_int(b, "lead", 24), width = builder_int(b, "width", 194);
  test_shape plain, deep;
  set_dims(&plain, "rows,1");
  set_dims(&deep, "?,rows,?");
  deep.dims[0] = lead;
  deep.dims[2] = width;
  builder_input(b, "x", ONNX_FLOAT32, &plain);
  builder_output(b, "y", ONNX_FLOAT32, &plain);
  for (int64_t i = 0; i < states; i++) {
    char input[32];
    char output[32];
    char both[48];
    snprintf(input, sizeof input, "state%d", (int)i);
    snprintf(output, sizeof output, "next%d", (int)i);
    snprintf(both, sizeof both, "x state%d", (int)i);
    builder_input(b, input, ONNX_FLOAT32, i + 1 < states ? &deep : &plain);
    builder_output(b, output, ONNX_FLOAT32, i + 1 < states ? &deep : &plain);
    builder_node(b, "Sub", both, output);
    if (i + 1 == states) {
      snprintf(both, sizeof both, "x %s", output);
      builder_node(b, "Add", both, "y");
    }
  }
}
