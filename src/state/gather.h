/* A generated model that takes rows of tensors: out I = Gather(in I, rows), each on an axis of its own. */
#ifndef IOBIND_STATE_GATHER_H
#define IOBIND_STATE_GATHER_H

#include "session/session.h"
#include "support/bytes.h"

/* What a tensor of the model is. */
typedef struct iobind__gathered {
  iobind_dtype dtype;
  size_t rank;
  size_t axis; /* that the rows are on */
} iobind__gathered;

/* Its first inputs and its outputs are the tensors, in their order; its last input is `rows`, int64 of one dim. */
void iobind__gather_write(const iobind__gathered *tensors, size_t count, iobind__bytes *model);

#endif
