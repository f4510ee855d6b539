/* Generates a model that selects rows of tensors: out I = Gather(in I, rows), with an axis for each tensor. */
#ifndef IOBIND_STATE_GATHER_H
#define IOBIND_STATE_GATHER_H

#include "session/session.h"
#include "support/bytes.h"

/* A tensor of the model. */
typedef struct iobind__gathered {
  iobind_dtype dtype;
  size_t rank;
  size_t axis; /* of the rows */
} iobind__gathered;

/* The model's inputs are the tensors, in their order, and then `rows`, an int64 tensor of rank 1. Its outputs are the
 * tensors. */
void iobind__gather_write(const iobind__gathered *tensors, size_t count, iobind__bytes *model);

#endif
