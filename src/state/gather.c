#include "state/gather.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The model is written as protobuf, by the numbers of ONNX's fields. */
enum { OPSET = 13, IR_VERSION = 8 };
enum { MODEL_IR_VERSION = 1, MODEL_GRAPH = 7, MODEL_OPSET = 8, OPSET_VERSION = 2 };
enum { GRAPH_NODE = 1, GRAPH_NAME = 2, GRAPH_INPUT = 11, GRAPH_OUTPUT = 12 };
enum { NODE_INPUT = 1, NODE_OUTPUT = 2, NODE_OP_TYPE = 4, NODE_ATTRIBUTE = 5 };
enum { ATTRIBUTE_NAME = 1, ATTRIBUTE_INT = 3, ATTRIBUTE_TYPE = 20, TYPE_OF_INT = 2 };
enum { VALUE_NAME = 1, VALUE_TYPE = 2, TYPE_TENSOR = 1, TENSOR_DTYPE = 1, TENSOR_SHAPE = 2, SHAPE_DIM = 1 };
enum { NAME = 32 };

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

/* Takes the message. */
static void put_message(iobind__bytes *to, uint64_t field, iobind__bytes *message) {
  to->failed = to->failed || message->failed;
  put_bytes(to, field, message->data, message->length);
  free(message->data);
}

/* With open dims, which need no names. */
static void put_value(iobind__bytes *graph, uint64_t field, const char *name, iobind__gathered of) {
  iobind__bytes shape = {0};
  iobind__bytes tensor = {0};
  iobind__bytes type = {0};
  iobind__bytes value = {0};
  for (size_t i = 0; i < of.rank; i++) {
    put_bytes(&shape, SHAPE_DIM, "", 0);
  }
  put_number(&tensor, TENSOR_DTYPE, (uint64_t)of.dtype);
  put_message(&tensor, TENSOR_SHAPE, &shape);
  put_message(&type, TYPE_TENSOR, &tensor);
  put_text(&value, VALUE_NAME, name);
  put_message(&value, VALUE_TYPE, &type);
  put_message(graph, field, &value);
}

static void put_node(iobind__bytes *graph, const char *input, const char *output, size_t axis) {
  iobind__bytes attribute = {0};
  iobind__bytes node = {0};
  put_text(&attribute, ATTRIBUTE_NAME, "axis");
  put_number(&attribute, ATTRIBUTE_INT, axis);
  put_number(&attribute, ATTRIBUTE_TYPE, TYPE_OF_INT);
  put_text(&node, NODE_INPUT, input);
  put_text(&node, NODE_INPUT, "rows");
  put_text(&node, NODE_OUTPUT, output);
  put_text(&node, NODE_OP_TYPE, "Gather");
  put_message(&node, NODE_ATTRIBUTE, &attribute);
  put_message(graph, GRAPH_NODE, &node);
}

static void put_tensor(iobind__bytes *graph, size_t index, iobind__gathered of) {
  char input[NAME];
  char output[NAME];
  snprintf(input, sizeof input, "in%zu", index);
  snprintf(output, sizeof output, "out%zu", index);
  put_node(graph, input, output, of.axis);
  put_value(graph, GRAPH_INPUT, input, of);
  put_value(graph, GRAPH_OUTPUT, output, of);
}

void iobind__gather_write(const iobind__gathered *tensors, size_t count, iobind__bytes *model) {
  iobind__bytes graph = {0};
  iobind__bytes opset = {0};
  put_text(&graph, GRAPH_NAME, "iobind: rows of states");
  for (size_t i = 0; i < count; i++) {
    put_tensor(&graph, i, tensors[i]);
  }
  put_value(&graph, GRAPH_INPUT, "rows", (iobind__gathered){.dtype = IOBIND_DTYPE_INT64, .rank = 1});
  put_number(&opset, OPSET_VERSION, OPSET);
  put_number(model, MODEL_IR_VERSION, IR_VERSION);
  put_message(model, MODEL_GRAPH, &graph);
  put_message(model, MODEL_OPSET, &opset);
}
