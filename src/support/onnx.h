/* ONNX models that iobind generates, written as protobuf. */
#ifndef IOBIND_SUPPORT_ONNX_H
#define IOBIND_SUPPORT_ONNX_H

#include <stdint.h>

#include "support/bytes.h"

/* An input or output of the model, with open dims, which have no names. */
typedef struct iobind__onnx_value {
  const char *name;
  int32_t dtype; /* ONNX's number */
  size_t rank;
} iobind__onnx_value;

enum { IOBIND__NO_AXIS = -1 };

/* A node with one output. */
typedef struct iobind__onnx_op {
  const char *op_type;
  const char *inputs[3]; /* NULL: no more */
  const char *output;
  int64_t axis; /* its attribute of that name, or IOBIND__NO_AXIS */
} iobind__onnx_op;

/* Parts of a graph, in any order, except that the nodes are sorted. */
void iobind__onnx_input(iobind__bytes *graph, const iobind__onnx_value *input);
void iobind__onnx_output(iobind__bytes *graph, const iobind__onnx_value *output);
void iobind__onnx_node(iobind__bytes *graph, const iobind__onnx_op *op);

/* The constant 0, 1, 2 .. count - 1: int64 of the dims [count, 1, 1]. */
void iobind__onnx_range(iobind__bytes *graph, const char *name, size_t count);

/* Write the model of a graph, which it frees. */
void iobind__onnx_write(iobind__bytes *graph, const char *name, iobind__bytes *model);

#endif
