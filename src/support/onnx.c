#include "support/onnx.h"

#include <stdlib.h>
#include <string.h>

/* Numbers of ONNX's fields. */
enum { OPSET = 13, IR_VERSION = 8 };
enum { MODEL_IR_VERSION = 1, MODEL_GRAPH = 7, MODEL_OPSET = 8, OPSET_VERSION = 2 };
enum { GRAPH_NODE = 1, GRAPH_NAME = 2, GRAPH_INITIALIZER = 5, GRAPH_INPUT = 11, GRAPH_OUTPUT = 12 };
enum { NODE_INPUT = 1, NODE_OUTPUT = 2, NODE_OP_TYPE = 4, NODE_ATTRIBUTE = 5 };
enum { ATTRIBUTE_NAME = 1, ATTRIBUTE_INT = 3, ATTRIBUTE_TYPE = 20, TYPE_OF_INT = 2 };
enum { VALUE_NAME = 1, VALUE_TYPE = 2, TYPE_TENSOR = 1, TYPE_DTYPE = 1, TYPE_SHAPE = 2, SHAPE_DIM = 1 };
enum { TENSOR_DIMS = 1, TENSOR_DTYPE = 2, TENSOR_INT64 = 7, TENSOR_NAME = 8, INT64 = 7 };
enum { NODE_INPUTS = sizeof(((iobind__onnx_op *)NULL)->inputs) / sizeof(char *) };

static void put_varint(iobind__bytes *to, uint64_t number) {
  unsigned char digits[10];
  size_t count = 0;
  do {
    digits[count++] = (unsigned char)((number & 0x7f) | (number > 0x7f ? 0x80 : 0));
    number >>= 7;
  } while (number > 0);
  iobind__bytes_put(to, digits, count);
}

static void put_number(iobind__bytes *to, uint64_t field, uint64_t number) {
  put_varint(to, field << 3);
  put_varint(to, number);
}

static void put_bytes(iobind__bytes *to, uint64_t field, const void *data, size_t bytes) {
  put_varint(to, field << 3 | 2);
  put_varint(to, bytes);
  iobind__bytes_put(to, data, bytes);
}

static void put_text(iobind__bytes *to, uint64_t field, const char *text) {
  put_bytes(to, field, text, strlen(text));
}

/* Takes ownership of the message. */
static void put_message(iobind__bytes *to, uint64_t field, iobind__bytes *message) {
  to->failed = to->failed || message->failed;
  put_bytes(to, field, message->data, message->length);
  free(message->data);
}

static void put_value(iobind__bytes *graph, uint64_t field, const iobind__onnx_value *of) {
  iobind__bytes shape = {0};
  iobind__bytes tensor = {0};
  iobind__bytes type = {0};
  iobind__bytes value = {0};
  for (size_t i = 0; i < of->rank; i++) {
    put_bytes(&shape, SHAPE_DIM, "", 0);
  }
  put_number(&tensor, TYPE_DTYPE, (uint64_t)of->dtype);
  put_message(&tensor, TYPE_SHAPE, &shape);
  put_message(&type, TYPE_TENSOR, &tensor);
  put_text(&value, VALUE_NAME, of->name);
  put_message(&value, VALUE_TYPE, &type);
  put_message(graph, field, &value);
}

void iobind__onnx_input(iobind__bytes *graph, const iobind__onnx_value *input) {
  put_value(graph, GRAPH_INPUT, input);
}

void iobind__onnx_output(iobind__bytes *graph, const iobind__onnx_value *output) {
  put_value(graph, GRAPH_OUTPUT, output);
}

static void put_axis(iobind__bytes *node, int64_t axis) {
  iobind__bytes attribute = {0};
  put_text(&attribute, ATTRIBUTE_NAME, "axis");
  put_number(&attribute, ATTRIBUTE_INT, (uint64_t)axis);
  put_number(&attribute, ATTRIBUTE_TYPE, TYPE_OF_INT);
  put_message(node, NODE_ATTRIBUTE, &attribute);
}

void iobind__onnx_node(iobind__bytes *graph, const iobind__onnx_op *op) {
  iobind__bytes node = {0};
  for (size_t i = 0; i < NODE_INPUTS && op->inputs[i] != NULL; i++) {
    put_text(&node, NODE_INPUT, op->inputs[i]);
  }
  put_text(&node, NODE_OUTPUT, op->output);
  put_text(&node, NODE_OP_TYPE, op->op_type);
  if (op->axis != IOBIND__NO_AXIS) {
    put_axis(&node, op->axis);
  }
  put_message(graph, GRAPH_NODE, &node);
}

void iobind__onnx_range(iobind__bytes *graph, const char *name, size_t count) {
  iobind__bytes tensor = {0};
  const size_t dims[] = {count, 1, 1};
  for (size_t i = 0; i < sizeof dims / sizeof dims[0]; i++) {
    put_number(&tensor, TENSOR_DIMS, dims[i]);
  }
  put_number(&tensor, TENSOR_DTYPE, INT64);
  for (size_t i = 0; i < count; i++) {
    put_number(&tensor, TENSOR_INT64, i);
  }
  put_text(&tensor, TENSOR_NAME, name);
  put_message(graph, GRAPH_INITIALIZER, &tensor);
}

void iobind__onnx_write(iobind__bytes *graph, const char *name, iobind__bytes *model) {
  iobind__bytes opset = {0};
  put_text(graph, GRAPH_NAME, name);
  put_number(&opset, OPSET_VERSION, OPSET);
  put_number(model, MODEL_IR_VERSION, IR_VERSION);
  put_message(model, MODEL_GRAPH, graph);
  put_message(model, MODEL_OPSET, &opset);
}
