#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "builder.h"
#include "element.h"

/* Models that move elements, count them, or make something else of a tensor. */

static void open_shape(size_t rank, test_shape *shape) {
  memset(shape, 0, sizeof *shape);
  shape->rank = rank;
  for (size_t i = 0; i < rank; i++) shape->dims[i] = -1;
}

static size_t read_axis(builder *b, const char *key, size_t rank) {
  int64_t axis = builder_int(b, key, 0);
  if (axis >= 0 && (size_t)axis < rank) return (size_t)axis;
  builder_fail(b, "the dims have no such axis", key);
  return 0;
}

static void copy_dim(test_shape *to, size_t at, const test_shape *from, size_t index) {
  to->dims[at] = from->dims[index];
  memcpy(to->names[at], from->names[index], sizeof to->names[at]);
}

void build_reduce(builder *b) {
  int32_t dtype = builder_dtype(b, "dtype", ONNX_FLOAT32);
  test_shape x, y;
  builder_shape(b, "dims", "n,3", &x);
  if (x.rank == 0) {
    builder_fail(b, "a dim at least is expected", "dims");
    return;
  }
  size_t axis = read_axis(b, "axis", x.rank);
  int64_t mix = builder_int(b, "mix", 0);
  open_shape(x.rank - 1, &y);
  for (size_t i = 0; i < y.rank; i++) copy_dim(&y, i, &x, i < axis ? i : i + 1);
  int64_t axes[1] = {(int64_t)axis};
  builder_int64s(b, "axes", axes, 1);
  builder_input(b, "x", dtype, &x);
  builder_output(b, "y", dtype, mix == 0 ? &y : &x);
  builder_node_begin(b, "ReduceSum", "x axes", mix == 0 ? "y" : "sum");
  onnx_attribute_int(&b->writer, "keepdims", mix != 0);
  builder_node_end(b);
  if (mix == 1) {
    builder_node(b, "Add", "x sum", "y");
  } else if (mix == 2) {
    builder_node(b, "Add", "x sum", "mixed");
    builder_node(b, "Abs", "mixed", "size");
    builder_node(b, "Relu", "x", "part");
    builder_node(b, "Div", "size part", "y");
  }
}

void build_convolution(builder *b) {
  static const int64_t ones[4] = {1, 1, 1, 1};
  static const float one = 1;
  test_shape x;
  builder_shape(b, "dims", "1,1,h,w", &x);
  if (x.rank != 4) {
    builder_fail(b, "four dims are expected", "dims");
    return;
  }
  onnx_tensor weight = {.name = "weight", .dtype = ONNX_FLOAT32, .dims = ones, .rank = 4, .data = &one, .bytes = sizeof one};
  onnx_tensor bias = {.name = "bias", .dtype = ONNX_FLOAT32, .dims = ones, .rank = 1, .data = &one, .bytes = sizeof one};
  onnx_initializer(&b->writer, &weight);
  onnx_initializer(&b->writer, &bias);
  builder_input(b, "x", ONNX_FLOAT32, &x);
  builder_output(b, "y", ONNX_FLOAT32, &x);
  builder_node(b, "Conv", "x weight bias", "y");
}

void build_recurrent(builder *b) {
  static const float weights[4] = {1, 0.5, -1, 0.25};
  char cell[TEST_MODEL_TEXT], steps[TEST_MODEL_TEXT], batch[TEST_MODEL_TEXT], text[4 * TEST_MODEL_TEXT];
  test_shape x, y;
  builder_text(b, "cell", "LSTM", cell);
  const bool is_gru = strcmp(cell, "GRU") == 0;
  const int64_t dims[3] = {1, is_gru ? 3 : 4, 1};
  if (!is_gru && strcmp(cell, "LSTM") != 0) {
    builder_fail(b, "LSTM or GRU is expected", "cell");
    return;
  }
  builder_text(b, "steps", "steps", steps);
  builder_text(b, "batch", "1", batch);
  snprintf(text, sizeof text, "%s,%s,1", steps, batch);
  (void)test_shape_parse(text, &x);
  snprintf(text, sizeof text, "%s,1,%s,1", steps, batch);
  (void)test_shape_parse(text, &y);
  onnx_tensor tensor = {.name = "weights",
                        .dtype = ONNX_FLOAT32,
                        .dims = dims,
                        .rank = 3,
                        .data = weights,
                        .bytes = (size_t)dims[1] * sizeof weights[0]};
  onnx_initializer(&b->writer, &tensor);
  builder_input(b, "x", ONNX_FLOAT32, &x);
  builder_output(b, "y", ONNX_FLOAT32, &y);
  builder_node_begin(b, cell, "x weights weights", "y");
  onnx_attribute_int(&b->writer, "hidden_size", 1);
  if (is_gru) {
    onnx_attribute_int(&b->writer, "linear_before_reset", 1); /* cuDNN's way: CUDA's EP has no other */
  }
  builder_node_end(b);
}

void build_transpose(builder *b) {
  int32_t dtype = builder_dtype(b, "dtype", ONNX_FLOAT32);
  test_shape x, y, order;
  builder_shape(b, "dims", "n,m", &x);
  builder_shape(b, "order", "1,0", &order);
  open_shape(x.rank, &y);
  for (size_t i = 0; i < x.rank; i++) {
    if (order.rank != x.rank || order.dims[i] < 0 || (size_t)order.dims[i] >= x.rank) {
      builder_fail(b, "each dim's number once is expected", "order");
      return;
    }
    copy_dim(&y, i, &x, (size_t)order.dims[i]);
  }
  builder_input(b, "x", dtype, &x);
  builder_output(b, "y", dtype, &y);
  builder_node_begin(b, "Transpose", "x", "y");
  onnx_attribute_ints(&b->writer, "perm", order.dims, order.rank);
  builder_node_end(b);
}

void build_concat(builder *b) {
  int32_t dtype = builder_dtype(b, "dtype", ONNX_FLOAT32);
  test_shape first, second, joined;
  builder_shape(b, "dims", "past,3", &first);
  builder_shape(b, "dims2", "new,3", &second);
  size_t axis = read_axis(b, "axis", first.rank);
  joined = first;
  joined.dims[axis] = -1;
  memset(joined.names[axis], 0, sizeof joined.names[axis]);
  memcpy(joined.names[axis], "total", sizeof "total");
  builder_input(b, "first", dtype, &first);
  builder_input(b, "second", dtype, &second);
  builder_output(b, "joined", dtype, &joined);
  builder_node_begin(b, "Concat", "first second", "joined");
  onnx_attribute_int(&b->writer, "axis", (int64_t)axis);
  builder_node_end(b);
}

/* Element i of the table is i modulo 8191: a whole number that float32 holds and that tells its place. */
void build_lookup(builder *b) {
  int32_t index_dtype = builder_dtype(b, "index", ONNX_INT64);
  int64_t rows = builder_int(b, "rows", 16);
  int64_t columns = builder_int(b, "columns", 4);
  test_shape index, found;
  builder_shape(b, "n", "n", &index);
  if (rows <= 0 || columns <= 0 || rows > INT32_MAX / 4 / columns || index.rank != 1) {
    builder_fail(b, "rows, columns and n are out of range", b->spec);
    return;
  }
  int64_t dims[2] = {rows, columns};
  size_t count = (size_t)(rows * columns);
  float *table = malloc(count * sizeof *table);
  if (table == NULL) {
    builder_fail(b, "no memory for the table", b->spec);
    return;
  }
  for (size_t i = 0; i < count; i++) table[i] = (float)(i % 8191);
  onnx_tensor tensor = {.name = "table", .dtype = ONNX_FLOAT32, .dims = dims, .rank = 2, .data = table, .bytes = count * 4};
  onnx_initializer(&b->writer, &tensor);
  free(table);
  open_shape(2, &found);
  copy_dim(&found, 0, &index, 0);
  found.dims[1] = columns;
  builder_input(b, "index", index_dtype, &index);
  builder_output(b, "found", ONNX_FLOAT32, &found);
  builder_node(b, "Gather", "table index", "found");
}

void build_nonzero(builder *b) {
  int32_t dtype = builder_dtype(b, "dtype", ONNX_FLOAT32);
  test_shape x, y;
  builder_shape(b, "dims", "n", &x);
  open_shape(2, &y);
  y.dims[0] = (int64_t)x.rank;
  snprintf(y.names[1], sizeof y.names[1], "count");
  builder_input(b, "x", dtype, &x);
  builder_output(b, "y", ONNX_INT64, &y);
  builder_node(b, "NonZero", "x", "y");
}

/* x and its new dims: what Reshape and Expand share. */
static void build_with_dims(builder *b, const char *op_type) {
  int32_t dtype = builder_dtype(b, "dtype", ONNX_FLOAT32);
  int64_t rank = builder_int(b, "rank", 2);
  test_shape x, y, shape;
  builder_shape(b, "dims", "n", &x);
  if (rank < 0 || rank > TEST_MODEL_MAX_RANK) {
    builder_fail(b, "out of range", "rank");
    return;
  }
  open_shape((size_t)rank, &y);
  open_shape(1, &shape);
  shape.dims[0] = rank;
  builder_input(b, "x", dtype, &x);
  builder_input(b, "shape", ONNX_INT64, &shape);
  builder_output(b, "y", dtype, &y);
  builder_node(b, op_type, "x shape", "y");
}

void build_reshape(builder *b) {
  build_with_dims(b, "Reshape");
}

void build_expand(builder *b) {
  build_with_dims(b, "Expand");
}

void build_slice(builder *b) {
  int32_t dtype = builder_dtype(b, "dtype", ONNX_FLOAT32);
  test_shape x, y, bound;
  builder_shape(b, "dims", "n", &x);
  open_shape(x.rank, &y);
  for (size_t i = 1; i < x.rank; i++) copy_dim(&y, i, &x, i);
  open_shape(1, &bound);
  bound.dims[0] = 1;
  builder_input(b, "x", dtype, &x);
  builder_input(b, "start", ONNX_INT64, &bound);
  builder_input(b, "end", ONNX_INT64, &bound);
  builder_output(b, "y", dtype, &y);
  builder_node(b, "Slice", "x start end", "y");
}

void build_shape(builder *b) {
  int32_t dtype = builder_dtype(b, "dtype", ONNX_FLOAT32);
  test_shape x, y;
  builder_shape(b, "dims", "n,m", &x);
  open_shape(1, &y);
  y.dims[0] = (int64_t)x.rank;
  builder_input(b, "x", dtype, &x);
  builder_output(b, "y", ONNX_INT64, &y);
  builder_node(b, "Shape", "x", "y");
}

void build_constant(builder *b) {
  int32_t dtype = builder_dtype(b, "dtype", ONNX_FLOAT32);
  test_shape shape;
  size_t count = 1;
  unsigned char elements[1024];
  builder_shape(b, "dims", "2,3", &shape);
  for (size_t i = 0; i < shape.rank; i++) {
    int64_t dim = shape.dims[i];
    count = dim < 0 || dim > 64 ? sizeof elements : count * (size_t)dim;
    if (count > 64) {
      builder_fail(b, "fixed dims of 64 elements at most are expected", "dims");
      return;
    }
  }
  if (!element_is_number(dtype) || element_bits(dtype) < 8)
    builder_fail(b, "not an element type that this model knows", element_name(dtype));
  for (size_t i = 0; i < count; i++) element_set(dtype, elements, i, (double)(i + 1));
  onnx_tensor tensor = {
      .dtype = dtype, .dims = shape.dims, .rank = shape.rank, .data = elements, .bytes = count * element_bits(dtype) / 8};
  builder_output(b, "y", dtype, &shape);
  builder_node_begin(b, "Constant", "", "y");
  onnx_attribute_tensor(&b->writer, "value", &tensor);
  builder_node_end(b);
}

/* ---- values that are not tensors ---- */

static void wrapped_type(builder *b, int32_t kind, const char *symbols[TEST_MODEL_MAX_RANK], test_shape *shape,
                         onnx_type *tensor, onnx_type *wrapped) {
  memset(tensor, 0, sizeof *tensor);
  memset(wrapped, 0, sizeof *wrapped);
  builder_shape(b, "dims", "n", shape);
  for (size_t i = 0; i < shape->rank; i++) symbols[i] = shape->names[i];
  tensor->dtype = builder_dtype(b, "dtype", ONNX_FLOAT32);
  tensor->dims = shape->dims;
  tensor->symbols = symbols;
  tensor->rank = shape->rank;
  tensor->no_shape = shape->any;
  wrapped->kind = kind;
  wrapped->element = tensor;
}

void build_sequence(builder *b) {
  const char *symbols[TEST_MODEL_MAX_RANK];
  test_shape shape;
  onnx_type tensor, sequence;
  wrapped_type(b, ONNX_KIND_SEQUENCE, symbols, &shape, &tensor, &sequence);
  onnx_input(&b->writer, "x", &tensor);
  onnx_output(&b->writer, "y", &sequence);
  builder_node(b, "SequenceConstruct", "x x", "y");
}

void build_mixed(builder *b) {
  const char *symbols[TEST_MODEL_MAX_RANK];
  test_shape shape;
  onnx_type tensor, sequence;
  wrapped_type(b, ONNX_KIND_SEQUENCE, symbols, &shape, &tensor, &sequence);
  onnx_input(&b->writer, "x", &tensor);
  onnx_output(&b->writer, "sum", &tensor);
  onnx_output(&b->writer, "list", &sequence);
  onnx_output(&b->writer, "product", &tensor);
  builder_node(b, "Add", "x x", "sum");
  builder_node(b, "SequenceConstruct", "x x", "list");
  builder_node(b, "Mul", "x x", "product");
}

void build_length(builder *b) {
  static const test_shape scalar = {.rank = 0};
  const char *symbols[TEST_MODEL_MAX_RANK];
  test_shape shape;
  onnx_type tensor, sequence;
  wrapped_type(b, ONNX_KIND_SEQUENCE, symbols, &shape, &tensor, &sequence);
  onnx_input(&b->writer, "x", &sequence);
  builder_output(b, "y", ONNX_INT64, &scalar);
  builder_node(b, "SequenceLength", "x", "y");
}

void build_optional(builder *b) {
  static const test_shape scalar = {.rank = 0};
  const char *symbols[TEST_MODEL_MAX_RANK];
  test_shape shape;
  onnx_type tensor, optional;
  wrapped_type(b, ONNX_KIND_OPTIONAL, symbols, &shape, &tensor, &optional);
  onnx_input(&b->writer, "x", &optional);
  builder_output(b, "y", ONNX_BOOL, &scalar);
  builder_node(b, "OptionalHasElement", "x", "y");
}
