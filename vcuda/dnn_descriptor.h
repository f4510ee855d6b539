/* The contents of the descriptors of cuDNN's graph interface. Only dnn_backend.c and dnn_program.c include this. */
#ifndef VCUDA_DNN_DESCRIPTOR_H
#define VCUDA_DNN_DESCRIPTOR_H

#include "dnn_backend.h"
#include "dnn_convolution.h"
#include "dnn_matrix.h"

enum { MAX_OPERATIONS = 40, MAX_POINTERS = 64, MAX_TENSORS = 6 };

/* The kinds of descriptors, and the types of attributes, by cuDNN's numbers. */
typedef enum kind {
  POINTWISE = 0,
  CONVOLUTION = 1,
  ENGINE = 2,
  CONFIG = 3,
  HEURISTICS = 4,
  PLAN = 5,
  KNOB_CHOICE = 7,
  FORWARD = 10,
  BACKWARD_DATA = 12,
  POINTWISE_OPERATION = 13,
  GRAPH = 15,
  VARIANT_PACK = 16,
  TENSOR = 17,
  PRODUCT = 18,
  PRODUCT_OPERATION = 19,
  REDUCTION = 21,
  REDUCTION_OPERATION = 22,
  ATTENTION_OPERATION = 41
} kind;
enum {
  OF_HANDLE = 0,
  OF_DATA_TYPE = 1,
  OF_BOOLEAN = 2,
  OF_INT64 = 3,
  OF_FLOAT = 4,
  OF_DOUBLE = 5,
  OF_POINTER = 6,
  OF_CONVOLUTION_MODE = 7,
  OF_HEURISTIC = 8,
  OF_NOTE = 11,
  OF_POINTWISE_MODE = 14,
  OF_DESCRIPTOR = 15,
  OF_REDUCTION_OPERATOR = 18,
  OF_BEHAVIOR = 19,
  OF_INT32 = 23
};
enum { CROSS_CORRELATION = 1, FALLBACK = 2, REDUCE_ADD = 0, REDUCE_MAX = 3 };

typedef struct tensor {
  vcuda_dnn_tensor shape;
  int stride_count;
  int64_t uid, alignment;
  bool is_virtual, is_by_value;
} tensor;

typedef struct convolution {
  vcuda_type compute;
  int64_t mode, spatial;
  int counts[4]; /* of the arrays' elements */
  vcuda_dnn_window window;
} convolution;

/* POINTWISE, REDUCTION and PRODUCT. */
typedef struct rule {
  int64_t mode, axis;
  vcuda_type compute;
  double padding; /* of a product */
} rule;

/* The tensors of an operation:
 *   a convolution: x, w, y;   a pointwise operation: x, b, y, the selector;   a reduction: x, -, y;
 *   a product: a, b, y, and the numbers of valid rows, columns and inner elements;
 *   attention: q, k, y, v, the factor, the logarithm of each line's sum.
 * `alpha` and `beta` are factors of convolutions and pointwise operations. */
typedef struct operation {
  kind kind;
  tensor tensors[MAX_TENSORS];
  bool given[MAX_TENSORS];
  convolution convolution;
  rule rule;
  double alpha, beta;
} operation;

/* A graph as it is computed: one convolution with additions, or operations on matrices. It keeps the uid of each tensor; the variant
 * pack gives the addresses. */
typedef struct program {
  bool is_convolution;
  int64_t alignment;
  union {
    struct {
      vcuda_dnn_convolution work;
      int64_t data, filter, result, operands[DNN_MAX_STEPS];
    };
    vcuda_dnn_matrices matrices;
  };
} program;

typedef struct graph {
  bool has_handle;
  int count;
  operation *operations; /* the graph's own */
  program program;
} graph;

/* ENGINE, CONFIG, PLAN and HEURISTICS: a program, and how it is computed. */
typedef struct engine {
  bool given;
  int64_t mode; /* FALLBACK: without a workspace */
  program program;
} engine;

typedef struct variants {
  int uid_count, pointer_count;
  int64_t uids[MAX_POINTERS];
  void *pointers[MAX_POINTERS], *workspace;
} variants;

typedef struct vcuda_dnn_backend {
  kind kind;
  bool is_final;
  union {
    tensor tensor;
    convolution convolution;
    rule rule;
    operation operation;
    graph graph;
    engine engine;
    variants variants;
  };
} descriptor;

/* Compile a graph's operations to a program; bind a program to the memory of a variant pack, with its workspace. On failure they log a
 * line and return the status. */
int vcuda_dnn_compile(graph *g);
int vcuda_dnn_execute(const vcuda_dnn *handle, const program *p, const variants *pack, void *workspace);

size_t vcuda_dnn_program_workspace_bytes(const program *p);

#endif
