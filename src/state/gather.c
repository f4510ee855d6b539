#include "state/gather.h"

#include <stdio.h>

#include "support/onnx.h"

enum { NAME = 32 };

static void put_tensor(iobind__bytes *graph, size_t index, iobind__gathered of) {
  char input[NAME];
  char output[NAME];
  snprintf(input, sizeof input, "in%zu", index);
  snprintf(output, sizeof output, "out%zu", index);
  iobind__onnx_node(graph, &(iobind__onnx_op){"Gather", {input, "rows"}, output, (int64_t)of.axis});
  iobind__onnx_input(graph, &(iobind__onnx_value){input, (int32_t)of.dtype, of.rank});
  iobind__onnx_output(graph, &(iobind__onnx_value){output, (int32_t)of.dtype, of.rank});
}

void iobind__gather_write(const iobind__gathered *tensors, size_t count, iobind__bytes *model) {
  iobind__bytes graph = {0};
  for (size_t i = 0; i < count; i++) {
    put_tensor(&graph, i, tensors[i]);
  }
  iobind__onnx_input(&graph, &(iobind__onnx_value){"rows", IOBIND_DTYPE_INT64, 1});
  iobind__onnx_write(&graph, "iobind: rows of states", model);
}
