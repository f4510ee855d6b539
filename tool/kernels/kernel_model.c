/* The model of a kernel: one node. */
#include <onnx.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernel.h"

enum { OPSET = 20, IR_VERSION = 9 }; /* the newest that the oldest supported ONNX Runtime knows */

/* The names of operands: x0, x1 .. */
static void name_operand(char *name, size_t size, size_t index) {
  snprintf(name, size, "x%zu", index);
}

static void write_operand(onnx_writer *writer, const kernel_operand *operand, size_t index) {
  char name[24];
  name_operand(name, sizeof name, index);
  if (operand->left_out) return;
  if (operand->in_model) {
    const onnx_tensor tensor = {.name = name,
                                .dtype = operand->dtype,
                                .dims = operand->dims,
                                .rank = operand->rank,
                                .data = operand->bytes == 0 ? NULL : operand->data,
                                .bytes = operand->bytes};
    onnx_initializer(writer, &tensor);
  } else {
    const onnx_type type = {.dtype = operand->dtype, .dims = operand->dims, .rank = operand->rank};
    onnx_input(writer, name, &type);
  }
}

static bool write_ints(onnx_writer *writer, const char *name, const char *text) {
  int64_t values[KERNEL_LISTED];
  size_t count = 0;
  for (text++; *text != ']' && count < KERNEL_LISTED; count++) {
    char *rest = NULL;
    values[count] = strtol(text, &rest, 10);
    if (rest == text) return false;
    text = *rest == ',' ? rest + 1 : rest;
  }
  onnx_attribute_ints(writer, name, values, count);
  return *text == ']';
}

static bool write_attribute(onnx_writer *writer, const char *attribute) {
  char name[32];
  const size_t length = strcspn(attribute, "=");
  const char *value = attribute + length + 1;
  if (length >= sizeof name) return false;
  memcpy(name, attribute, length);
  name[length] = 0;
  if (*value == '[') return write_ints(writer, name, value);
  if (strspn(value, "+-.0123456789") < strlen(value)) {
    onnx_attribute_string(writer, name, value, strlen(value));
  } else if (strchr(value, '.') != NULL) {
    onnx_attribute_float(writer, name, (float)strtod(value, NULL));
  } else {
    onnx_attribute_int(writer, name, strtol(value, NULL, 10));
  }
  return true;
}

static bool write_node(onnx_writer *writer, const kernel *self) {
  static const char *const outputs[KERNEL_OUTPUTS] = {"y0", "y1", "y2", "y3"};
  bool is_written = true;
  onnx_node_begin(writer, self->op_type, "", "node");
  for (size_t i = 0; i < self->operand_count; i++) {
    char name[24];
    name_operand(name, sizeof name, i);
    onnx_node_input(writer, self->operands[i].left_out ? "" : name);
  }
  for (size_t i = 0; i < self->output_count; i++) onnx_node_output(writer, outputs[i]);
  for (size_t i = 0; i < self->attribute_count; i++) is_written = write_attribute(writer, self->attributes[i]) && is_written;
  onnx_node_end(writer);
  for (size_t i = 0; i < self->output_count; i++) onnx_output(writer, outputs[i], NULL); /* ORT infers its type */
  return is_written;
}

void *kernel_write(const kernel *self, size_t *bytes) {
  onnx_writer writer = ONNX_WRITER_INIT;
  const onnx_model model = {.ir_version = IR_VERSION};
  onnx_model_begin(&writer, &model);
  onnx_opset(&writer, "", OPSET);
  onnx_graph_begin(&writer, "kernel");
  for (size_t i = 0; i < self->operand_count; i++) write_operand(&writer, &self->operands[i], i);
  const bool is_written = write_node(&writer, self);
  onnx_graph_end(&writer);
  onnx_model_end(&writer);
  const void *written = NULL;
  void *copy = NULL;
  if (is_written && onnx_writer_finish(&writer, &written, bytes) == ONNX_OK) copy = malloc(*bytes);
  if (copy != NULL) memcpy(copy, written, *bytes);
  onnx_writer_release(&writer);
  return copy;
}
