/* How two tensors on the host differ. */
#ifndef IOBIND_TENSOR_DIFFERENCE_H
#define IOBIND_TENSOR_DIFFERENCE_H

#include "tensor/tensor.h"

/* How far an element may differ from the right one. */
typedef struct iobind__tolerance {
  double absolute;
  double relative; /* times the right one */
} iobind__tolerance;

typedef struct iobind__difference {
  size_t beyond;   /* elements that differ by more than they may */
  size_t first;    /* the index of the first of them */
  double relative; /* the largest of any element; infinity where NaN or infinity is on one side only */
} iobind__difference;

/* What is usual for the type: 0 and 0 if its elements must be equal. */
iobind__tolerance iobind__tolerance_of(iobind_dtype dtype);

/* Both are of the same type and dims. `tolerance` counts for floating-point types. */
iobind_status iobind__difference_find(const iobind_tensor *tensor, const iobind_tensor *right,
                                      const iobind__tolerance *tolerance, iobind__difference *out, iobind_error *error);

/* An element as a message shows it. */
enum { IOBIND__ELEMENT_TEXT = 48 };
void iobind__element_text(const iobind_tensor *tensor, size_t index, char out[IOBIND__ELEMENT_TEXT]);

/* Where an element is, such as "[2,0,5]"; a scalar's is "". */
void iobind__position_text(const iobind_tensor *tensor, size_t index, char *out, size_t capacity);

#endif
