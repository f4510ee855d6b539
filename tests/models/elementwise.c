#include "builder.h"

/* Models whose outputs have the dims of their inputs, or of a sum or product of them. */

static void read_type(builder *b, int32_t *dtype, test_shape *shape) {
  *dtype = builder_dtype(b, "dtype", ONNX_FLOAT32);
  builder_shape(b, "dims", "n", shape);
}

/* Two dims, each from a parameter of its own or a fixed 1. */
static void read_pair(builder *b, const char *first, const char *second, test_shape *shape) {
  test_shape other;
  builder_shape(b, first, first, shape);
  builder_shape(b, second, second, &other);
  if (shape->rank != 1 || other.rank != 1) {
    builder_fail(b, "one dim is expected", first);
    return;
  }
  shape->dims[1] = other.dims[0];
  for (size_t i = 0; i < sizeof other.names[0]; i++) shape->names[1][i] = other.names[0][i];
  shape->rank = 2;
}

/* Multiply by a number. `binary=0` builds it without a binary operator, for devices that run none: right for what is not negative. */
static void write_scaled(builder *b, double factor, const char *y, int32_t dtype) {
  if (builder_int(b, "binary", 1) != 0) {
    builder_scalar(b, "factor", dtype, factor);
    builder_node(b, "Mul", "x factor", y);
    return;
  }
  builder_node_begin(b, "Selu", "x", y);
  onnx_attribute_float(&b->writer, "gamma", (float)factor);
  builder_node_end(b);
}

/* x + y, or with `binary=0` the sum over a dim that holds both. */
static void write_sum(builder *b, const char *z) {
  static const int64_t front = 0;
  if (builder_int(b, "binary", 1) != 0) {
    builder_node(b, "Add", "x y", z);
    return;
  }
  builder_int64s(b, "front", &front, 1);
  builder_node(b, "Unsqueeze", "x front", "x_row");
  builder_node(b, "Unsqueeze", "y front", "y_row");
  builder_node_begin(b, "Concat", "x_row y_row", "rows");
  onnx_attribute_int(&b->writer, "axis", 0);
  builder_node_end(b);
  builder_node_begin(b, "ReduceSum", "rows front", z);
  onnx_attribute_int(&b->writer, "keepdims", 0);
  builder_node_end(b);
}

void build_identity(builder *b) {
  int32_t dtype;
  test_shape shape;
  read_type(b, &dtype, &shape);
  builder_input(b, "x", dtype, &shape);
  builder_output(b, "y", dtype, &shape);
  builder_node(b, "Identity", "x", "y");
}

void build_add(builder *b) {
  int32_t dtype;
  test_shape shape;
  read_type(b, &dtype, &shape);
  builder_input(b, "x", dtype, &shape);
  builder_input(b, "y", dtype, &shape);
  builder_output(b, "z", dtype, &shape);
  write_sum(b, "z");
}

void build_join(builder *b) {
  test_shape shape;
  builder_shape(b, "dims", "n", &shape);
  builder_input(b, "x", ONNX_STRING, &shape);
  builder_input(b, "y", ONNX_STRING, &shape);
  builder_output(b, "z", ONNX_STRING, &shape);
  builder_node(b, "StringConcat", "x y", "z");
}

void build_scale(builder *b) {
  int32_t dtype;
  test_shape shape;
  read_type(b, &dtype, &shape);
  builder_input(b, "x", dtype, &shape);
  builder_output(b, "y", dtype, &shape);
  write_scaled(b, builder_number(b, "factor", 2), "y", dtype);
}

void build_outer(builder *b) {
  int32_t dtype = builder_dtype(b, "dtype", ONNX_FLOAT32);
  test_shape both, x, y;
  read_pair(b, "rows", "columns", &both);
  x = both;
  x.dims[1] = 1;
  y = both;
  y.dims[0] = 1;
  builder_input(b, "x", dtype, &x);
  builder_input(b, "y", dtype, &y);
  builder_output(b, "z", dtype, &both);
  builder_node(b, "Mul", "x y", "z");
}

void build_cast(builder *b) {
  int32_t from = builder_dtype(b, "from", ONNX_FLOAT32);
  int32_t to = builder_dtype(b, "to", ONNX_FLOAT16);
  test_shape shape;
  builder_shape(b, "dims", "n", &shape);
  builder_input(b, "x", from, &shape);
  builder_output(b, "y", to, &shape);
  builder_node_begin(b, "Cast", "x", "y");
  onnx_attribute_int(&b->writer, "to", to);
  builder_node_end(b);
  if (builder_int(b, "length", 0) != 0) {
    const test_shape one = {.dims = {1}, .rank = 1};
    builder_input(b, "length", ONNX_INT64, &one);
    builder_output(b, "same", ONNX_INT64, &one);
    builder_node(b, "Identity", "length", "same");
  }
}

void build_multi(builder *b) {
  int32_t dtype;
  test_shape shape;
  read_type(b, &dtype, &shape);
  builder_input(b, "x", dtype, &shape);
  builder_output(b, "sum", dtype, &shape);
  builder_output(b, "product", dtype, &shape);
  builder_output(b, "same", dtype, &shape);
  builder_node(b, "Add", "x x", "sum");
  builder_node(b, "Mul", "x x", "product");
  builder_node(b, "Identity", "x", "same");
}

void build_pair(builder *b) {
  int32_t dtype;
  test_shape shape;
  read_type(b, &dtype, &shape);
  builder_input(b, "x", dtype, &shape);
  builder_input(b, "y", dtype, &shape);
  builder_output(b, "sum", dtype, &shape);
  builder_output(b, "product", dtype, &shape);
  builder_node(b, "Add", "x y", "sum");
  builder_node(b, "Mul", "x y", "product");
}

void build_unused(builder *b) {
  int32_t dtype;
  test_shape shape;
  read_type(b, &dtype, &shape);
  builder_input(b, "x", dtype, &shape);
  builder_input(b, "unused", dtype, &shape);
  builder_output(b, "y", dtype, &shape);
  builder_node(b, "Add", "x x", "y");
}

void build_passthrough(builder *b) {
  int32_t dtype;
  test_shape shape;
  read_type(b, &dtype, &shape);
  int64_t has_z = builder_int(b, "z", 0);
  builder_input(b, "x", dtype, &shape);
  if (has_z != 0) {
    builder_input(b, "z", dtype, &shape);
  }
  builder_output(b, "x", dtype, &shape);
  builder_output(b, "y", dtype, &shape);
  if (dtype == ONNX_STRING) {
    builder_node(b, "Identity", "x", "y");
  } else {
    builder_node(b, "Add", has_z != 0 ? "x z" : "x x", "y");
  }
}

void build_matmul(builder *b) {
  int32_t dtype = builder_dtype(b, "dtype", ONNX_FLOAT32);
  test_shape x, y, z;
  read_pair(b, "m", "k", &x);
  read_pair(b, "k", "n", &y);
  read_pair(b, "m", "n", &z);
  builder_input(b, "x", dtype, &x);
  builder_input(b, "y", dtype, &y);
  builder_output(b, "z", dtype, &z);
  builder_node(b, "MatMul", "x y", "z");
}

void build_if(builder *b) {
  static const struct {
    const char *branch;
    const char *op_type;
  } branches[] = {{"then_branch", "Add"}, {"else_branch", "Mul"}};
  static const test_shape scalar = {.rank = 0};
  int32_t dtype;
  test_shape shape;
  read_type(b, &dtype, &shape);
  builder_input(b, "condition", ONNX_BOOL, &scalar);
  builder_input(b, "x", dtype, &shape);
  builder_output(b, "y", dtype, &shape);
  builder_node_begin(b, "If", "condition", "y");
  for (size_t i = 0; i < sizeof branches / sizeof branches[0]; i++) {
    onnx_attribute_graph_begin(&b->writer, branches[i].branch);
    onnx_graph_begin(&b->writer, branches[i].branch);
    builder_node(b, branches[i].op_type, "x x", "result");
    builder_output(b, "result", dtype, &shape);
    onnx_graph_end(&b->writer);
    onnx_attribute_end(&b->writer);
  }
  builder_node_end(b);
}

void build_loop(builder *b) {
  static const test_shape scalar = {.rank = 0};
  int32_t dtype;
  test_shape shape;
  read_type(b, &dtype, &shape);
  builder_scalar(b, "one", dtype, 1);
  builder_input(b, "trips", ONNX_INT64, &scalar);
  builder_input(b, "x", dtype, &shape);
  builder_output(b, "y", dtype, &shape);
  builder_node_begin(b, "Loop", "trips _ x", "y");
  onnx_attribute_graph_begin(&b->writer, "body");
  onnx_graph_begin(&b->writer, "body");
  builder_input(b, "trip", ONNX_INT64, &scalar);
  builder_input(b, "going_on", ONNX_BOOL, &scalar);
  builder_input(b, "carried", dtype, &shape);
  builder_node(b, "Identity", "going_on", "go_on");
  builder_node(b, "Add", "carried one", "next");
  builder_output(b, "go_on", ONNX_BOOL, &scalar);
  builder_output(b, "next", dtype, &shape);
  onnx_graph_end(&b->writer);
  onnx_attribute_end(&b->writer);
  builder_node_end(b);
}
