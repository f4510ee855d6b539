/* A generated model that takes rows of tensors: out I = Gather(in I, rows). */
#ifndef IOBIND_STATE_GATHER_H
#define IOBIND_STATE_GATHER_H

#include "session/session.h"
#include "support/bytes.h"

/* What a tensor of the model is. */
typedef struct iobind__gathered {
  iobind_dtype dtype;
  size_t rank;
} iobind__gathered;

/* Its first inputs and its outputs are the tensors, in their order; its last input is `rows`, int64 of one dim. */
void iobind__gather_write(const iobind__gathered *tensors, size_t count, size_t axis, iobind__bytes *model);

#endif
