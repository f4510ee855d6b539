/* Products of matrices: what cuBLAS and cuBLASLt compute, as one description and one function that runs it. */
#ifndef VCUDA_PRODUCT_H
#define VCUDA_PRODUCT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "number.h"

/* A batch of matrices in device memory: one after the other, or by an array of pointers, also in device memory. */
typedef struct vcuda_matrix {
  void *address;
  bool pointers;
  vcuda_type type;
  int64_t rows, columns, leading; /* as it is stored */
  int64_t stride;                 /* in elements, from one matrix of the batch to the next */
  bool row_major, transposed;
  void *scale; /* NULL, or a float in device memory that multiplies the elements */
} vcuda_matrix;

typedef enum vcuda_activation { VCUDA_LINEAR, VCUDA_RELU, VCUDA_GELU } vcuda_activation;

/* d = activation(alpha * a * b + beta * c + bias); c may be d, and is not read if beta is 0. */
typedef struct vcuda_product {
  vcuda_matrix a, b, c, d;
  int64_t m, n, k, batches;
  double alpha, beta;
  const void *alpha_address, *beta_address; /* in device memory, of `scale_type`; NULL: the numbers above */
  vcuda_type scale_type;
  vcuda_activation activation;
  void *bias; /* NULL, or one element for each row of d */
  vcuda_type bias_type;
} vcuda_product;

/* The meaning of cudaDataType_t's and cublasComputeType_t's numbers; VCUDA_NO_TYPE: not known here. The second is the type of
 * alpha and beta. */
vcuda_type vcuda_data_type(int number);
vcuda_type vcuda_scale_type(int compute_type);

/* For vcuda_submit; the argument is a vcuda_product. */
void vcuda_run_product(void *product);

/* One matrix of a batch, for work that is running: its elements from the first to the last; NULL if they are not accessible. */
const void *vcuda_read_matrix(const vcuda_matrix *matrix, int64_t batch);
void *vcuda_write_matrix(const vcuda_matrix *matrix, int64_t batch);
int64_t vcuda_matrix_offset(const vcuda_matrix *matrix, int64_t row, int64_t column); /* an element of the transposed matrix */

#endif
