/* Random cases for cuDNN's computations: tensors of random types, dims, strides and values, and checks of their contents. */
#ifndef TESTS_VCUDA_DRAWN_H
#define TESTS_VCUDA_DRAWN_H

#include <stddef.h>
#include <stdint.h>

#include "dnn_classic.h"

typedef struct drawn_type {
  vcuda_type type;
  int number; /* cudnnDataType_t */
  double tolerance;
} drawn_type;
enum { TYPES = 4, WITHOUT_BFLOAT16 = 3 };
extern const drawn_type types[TYPES];

int draw(int least, int most); /* a whole number */

/* A tensor in memory of exactly its extent. */
typedef struct tensor {
  vcuda_dnn_tensor *descriptor;
  int type, rank; /* type: index in `types` */
  int dims[DNN_MAX_RANK], strides[DNN_MAX_RANK];
  int extent;          /* elements of memory */
  void *data, *before; /* before: a copy of the drawn values */
} tensor;

tensor draw_tensor(int type, int rank, const int *dims, bool with_gaps);
void drop_tensor(tensor *t);
void spoil(const tensor *t); /* up to three elements become NaN */
int count_of(const tensor *t);
void index_of(const tensor *t, int number, int *index); /* of element `number`, counted with the last dim innermost */
int place_of(const tensor *t, const int *index);        /* offset of an element in memory */
double load(const tensor *t, int at);

/* alpha and beta, also in the type that a call reads. */
typedef struct factors {
  double alpha, beta;
  char alpha_bytes[8], beta_bytes[8];
} factors;
extern const factors as_it_is; /* 1 and 0 */
factors draw_factors(int type);

/* Check the tensor's memory: each element is alpha * wanted + beta * old value, and gaps are unchanged. */
void expect_tensor(const tensor *t, const double *wanted, const factors *f, const char *what);
void expect_unchanged(const tensor *t);

enum { MOST = 4096 };
extern double values[MOST]; /* memory for expected values */

extern vcuda_dnn *handle; /* valid between start and stop, which are a setup and a teardown */
int start(void **state);
int stop(void **state);
void run_cases(void (*run)(void));        /* each case has its own seed, which a failure prints */
void read_options(int argc, char **argv); /* [CASES [FIRST]]: number of cases for each test, and the first seed */

#endif
