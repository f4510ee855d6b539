/** @file kernel.h
 *  Models of one node that are made of a line of text, such as "Conv 1x33x16 *8x33x3 pads=[1,1]", with their inputs.
 *
 *  After the operator come its operands, in ONNX's order, then its attributes:
 *
 *      2x3  .          an input of these dims; '.' is a scalar. Its elements are whole numbers from -3 to 3, so that sums are exact in
 *                      every type and order
 *      ~2x3  +2x3      elements in quarters from -2 to 2; whole numbers from 1 to 4
 *      #2x3            each whole number from 0 on once: for operators that do not define which of two equal elements counts
 *      *2x3            a weight: the values are in the model
 *      b:2x3  i5:2x3   truth values; int64 from 0 to 4
 *      i[0,-1]  i(1)   int64 in the model: a list, a scalar
 *      f[..]  u(..)    the same of float32, of uint8
 *      t[..]  t(..)    the same of the kernel's type
 *      -               an omitted operand
 *      axis=1  alpha=0.5  mode=linear  pads=[1,1]     attributes: int, float, text, ints
 *      >2              the number of outputs; without it 1 */
#ifndef IOBIND_TOOL_KERNEL_H
#define IOBIND_TOOL_KERNEL_H

#include <iobind/iobind.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { KERNEL_TEXT = 160, KERNEL_OPERANDS = 8, KERNEL_ATTRIBUTES = 8, KERNEL_RANK = 6, KERNEL_LISTED = 12, KERNEL_OUTPUTS = 4 };

typedef enum kernel_values {
  KERNEL_WHOLE,
  KERNEL_POSITIVE,
  KERNEL_QUARTERS,
  KERNEL_DISTINCT,
  KERNEL_INDEX,
  KERNEL_LIST
} kernel_values;

typedef struct kernel_operand {
  bool left_out;
  bool in_model; /**< an initializer, not an input */
  kernel_values values;
  int32_t dtype; /**< iobind_dtype; only types that have the same number in ONNX */
  int64_t dims[KERNEL_RANK];
  size_t rank;
  int64_t limit;                /**< INDEX: above all */
  double listed[KERNEL_LISTED]; /**< LIST */
  void *data;
  size_t bytes;
} kernel_operand;

typedef struct kernel {
  char text[KERNEL_TEXT]; /**< cut into words */
  const char *op_type;
  kernel_operand operands[KERNEL_OPERANDS];
  size_t operand_count;
  const char *attributes[KERNEL_ATTRIBUTES];
  size_t attribute_count;
  size_t output_count;
} kernel;

/** Read a line, and make the operands' data: the same on each machine. kernel_free frees it, also after a failure.
 *  @return false: it is not such a line, or out of memory */
bool kernel_read(kernel *self, const char *text, int32_t dtype);
void kernel_free(kernel *self);

/** The rank of its first operand that is not omitted. */
size_t kernel_rank(const kernel *self);

/** The model; free() takes it. NULL: no memory, or an attribute that is none. */
void *kernel_write(const kernel *self, size_t *bytes);

#endif
