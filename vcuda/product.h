/* Matrix products of cuBLAS and cuBLASLt: one description for all of them, and the function that computes it. */
#ifndef VCUDA_PRODUCT_H
#define VCUDA_PRODUCT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "number.h"

/* A batch of matrices in device memory: at a fixed stride, or by an array of pointers that is in device memory too. */
typedef struct vcuda_matrix {
  void *address;
  bool pointers;
  vcuda_type type;
  int64_t rows, columns, leading; /* of the stored matrix */
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
  const void *alpha_address, *beta_address; /* in device memory, of `scale_type`; NULL: `alpha` and `beta` apply */
  vcuda_type scale_type;
  vcuda_activation activation;
  void *bias; /* NULL, or one element for each row of d */
  vcuda_type bias_type;
} vcuda_product;

/* Map numbers of cudaDataType_t and cublasComputeType_t to types; VCUDA_NO_TYPE: unknown. The second function gives the type of alpha and
 * beta. */
vcuda_type vcuda_data_type(int number);
vcuda_type vcuda_scale_type(int compute_type);

/* For vcuda_submit; the argument is a vcuda_product. */
void vcuda_run_product(void *product);

/* Only while work runs: one matrix of a batch, from its first element to its last. NULL: it is not accessible. */
const void *vcuda_read_matrix(const vcuda_matrix *matrix, int64_t batch);
void *vcuda_write_matrix(const vcuda_matrix *matrix, int64_t batch);
int64_t vcuda_matrix_offset(const vcuda_matrix *matrix, int64_t row, int64_t column); /* of an element of the factor */

#endif
