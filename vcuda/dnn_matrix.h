/* Graphs of operations on matrices, computed as one piece of work. cuDNN's front end makes such graphs of attention. A tensor has four
 * dims: images, heads, rows, columns. Each image and head is computed separately, in doubles. A result between two operations is
 * rounded to its tensor's type. */
#ifndef VCUDA_DNN_MATRIX_H
#define VCUDA_DNN_MATRIX_H

#include "dnn.h"

enum { DNN_MAX_MATRICES = 80, DNN_MAX_ACTIONS = 48, DNN_OPERANDS = 5, DNN_MATRIX_RANK = 4 };

/* The known values of cudnnPointwiseMode_t; sums and maxima of lines; products. */
typedef enum vcuda_dnn_verb {
  DNN_ADD = 0,
  DNN_MUL = 1,
  DNN_MAX = 3,
  DNN_DIV = 6,
  DNN_SUB = 9,
  DNN_EXP = 13,
  DNN_LOG = 15,
  DNN_IDENTICAL = 21,
  DNN_TANH_FORWARD = 101,
  DNN_EQUAL = 300,
  DNN_NOT_EQUAL = 301,
  DNN_GREATER = 302,
  DNN_GREATER_EQUAL = 303,
  DNN_LESS = 304,
  DNN_LESS_EQUAL = 305,
  DNN_AND = 400,
  DNN_OR = 401,
  DNN_NOT = 402,
  DNN_INDEX = 501,
  DNN_SELECT = 601,
  DNN_SUM_OF_LINES = 1000,
  DNN_MAXIMUM_OF_LINES,
  DNN_PRODUCT
} vcuda_dnn_verb;

/* The number of tensors that a pointwise operation reads; 0: the operation is unknown. */
int vcuda_dnn_operand_count(int64_t mode);

typedef struct vcuda_dnn_matrix {
  vcuda_dnn_tensor shape;
  int64_t uid;
  bool is_virtual;  /* a result between two operations, not in device memory */
  bool is_by_value; /* `number`, from host memory */
  double number;
  void *address;
} vcuda_dnn_matrix;

/* Matrices are given by their index in the graph; -1: none. The operands of a product are a, b, and the numbers of valid rows, columns
 * and inner elements. Those of other operations are x, b and the selector. */
typedef struct vcuda_dnn_action {
  vcuda_dnn_verb verb;
  int operands[DNN_OPERANDS], result;
  int64_t axis;       /* of an index */
  double alpha, beta; /* factors of x and b */
  double padding;     /* of a product, outside the valid elements */
} vcuda_dnn_action;

typedef struct vcuda_dnn_matrices {
  int matrix_count, action_count;
  int64_t images, heads;
  vcuda_dnn_matrix matrices[DNN_MAX_MATRICES];
  vcuda_dnn_action actions[DNN_MAX_ACTIONS];
  void *workspace; /* NULL: none */
} vcuda_dnn_matrices;

/* Check that each operation fits its tensors, and that each tensor is written before it is read. On failure it logs a line and returns
 * the status. It sets images and heads. */
int vcuda_dnn_check_matrices(vcuda_dnn_matrices *m);

size_t vcuda_dnn_matrices_workspace_bytes(const vcuda_dnn_matrices *m);

/* For vcuda_dnn_submit; the argument is a vcuda_dnn_matrices. */
void vcuda_dnn_run_matrices(void *matrices);

#endif
