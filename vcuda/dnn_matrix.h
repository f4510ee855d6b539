/* Graphs of operations on matrices, which are computed as one piece of work: what cuDNN's front end makes of attention. A tensor has four
 * dims: images, heads, rows, columns. Each image and head is computed for itself, from doubles; what is between two operations is rounded
 * to its tensor's type. */
#ifndef VCUDA_DNN_MATRIX_H
#define VCUDA_DNN_MATRIX_H

#include "dnn.h"

enum { DNN_MAX_MATRICES = 80, DNN_MAX_ACTIONS = 48, DNN_OPERANDS = 5, DNN_MATRIX_RANK = 4 };

/* cudnnPointwiseMode_t, what of it is known here; sums and maxima of lines; products. */
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

/* How many tensors an operation on elements reads; 0: it is not known here. */
int vcuda_dnn_operand_count(int64_t mode);

typedef struct vcuda_dnn_matrix {
  vcuda_dnn_tensor shape;
  int64_t uid;
  bool is_virtual;  /* between two operations only */
  bool is_by_value; /* `number`, from host memory */
  double number;
  void *address;
} vcuda_dnn_matrix;

/* Matrices are numbers of the graph's; -1: none. A product has a, b, and how many rows, columns and inner elements count; the others x, b,
 * and what selects. */
typedef struct vcuda_dnn_action {
  vcuda_dnn_verb verb;
  int operands[DNN_OPERANDS], result;
  int64_t axis;       /* of an index */
  double alpha, beta; /* factors of x and b */
  double padding;     /* of a product, where nothing counts */
} vcuda_dnn_action;

typedef struct vcuda_dnn_matrices {
  int matrix_count, action_count;
  int64_t images, heads;
  vcuda_dnn_matrix matrices[DNN_MAX_MATRICES];
  vcuda_dnn_action actions[DNN_MAX_ACTIONS];
  void *workspace; /* NULL: none */
} vcuda_dnn_matrices;

/* Whether each operation fits its tensors, and all that is read is there: a status, with a line of the log. Sets images and heads. */
int vcuda_dnn_check_matrices(vcuda_dnn_matrices *m);

size_t vcuda_dnn_matrices_workspace_bytes(const vcuda_dnn_matrices *m);

/* For vcuda_dnn_submit; the argument is a vcuda_dnn_matrices. */
void vcuda_dnn_run_matrices(void *matrices);

#endif
