/* Convolutions for tests of the virtual GPU's cuDNN: random ones, the solution by the formula, and the calls of the graph interface. All
 * numbers are small whole numbers or quarters, so results are bitwise equal. */
#ifndef TEST_VCUDA_PROBLEM_H
#define TEST_VCUDA_PROBLEM_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "dnn_backend.h"
#include "host.h"

enum { MAX = 5, FORWARD = 10, BACKWARD = 12, MODE_B = 1, MODE_A = 3, FALLBACK = 2 };

typedef struct tensor {
  vcuda_type type;
  int number; /* cudnnDataType_t */
  int rank;
  int64_t dims[MAX], strides[MAX];
  size_t bytes;
  char *data, *before; /* data: memory of the virtual GPU; before: a copy from before the computation */
} tensor;

typedef struct problem {
  bool backward;
  int mode; /* of the heuristics */
  int spatial;
  int64_t groups, before[3], after[3], strides[3], dilations[3];
  tensor x, w, y;
  double alpha, beta;
  int additions;
  tensor added[2];
  double factors[2][2]; /* of the old value, and of the added tensor */
  vcuda_type between;   /* the type of virtual tensors */
  int between_number;
} problem;

/* Random numbers, which restart with each seed. problem_chance is true with probability 1 / n. */
void problem_seed(uint64_t number);
int64_t problem_pick(int64_t least, int64_t most);
bool problem_chance(int of);

int64_t problem_count(const tensor *t);
void problem_choose_type(tensor *t, int which);
void problem_choose_strides(tensor *t);
double problem_choose_factor(void);
void problem_fill(tensor *t); /* allocate host memory with random numbers, and a copy */

/* A random problem, determined by the number. */
void problem_choose(problem *p, uint64_t number);

/* The expected memory of the result, gaps included. */
char *problem_solve(problem *p, bool rectifies);
void problem_check(const problem *p, const char *expected, uint64_t number);

/* The graph interface: every call is expected to succeed. */
vcuda_dnn_backend *problem_make(int kind);
void problem_set(vcuda_dnn_backend *d, int name, int type, int64_t count, const void *values);
void problem_set_number(vcuda_dnn_backend *d, int name, int64_t value);
void problem_set_enum(vcuda_dnn_backend *d, int name, int type, int value);
vcuda_dnn_backend *problem_finalize(vcuda_dnn_backend *d);
void problem_give(vcuda_dnn_backend *d, int name, vcuda_dnn_backend *object); /* set an attribute, and free `object` */
vcuda_dnn_backend *problem_describe_convolution(problem *p);
vcuda_dnn_backend *problem_describe_graph(problem *p, vcuda_dnn *handle);
vcuda_dnn_backend *problem_make_plan(problem *p, vcuda_dnn *handle, int64_t *workspace);
vcuda_dnn_backend *problem_make_pack(const problem *p, void *workspace);
void problem_run(problem *p, vcuda_dnn *handle);

#endif
