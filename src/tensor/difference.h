/* How two tensors on the host differ. */
#ifndef IOBIND_TENSOR_DIFFERENCE_H
#define IOBIND_TENSOR_DIFFERENCE_H

#include "tensor/tensor.h"

/* What is usual for the type: 0 and 0 if its elements must be equal. */
iobind_tolerance iobind__tolerance_of(iobind_dtype dtype);

/* INVALID_ARGUMENT if one is negative, NaN or infinite. The message begins with `what`. */
iobind_status iobind__tolerance_check(const iobind_tolerance *tolerance, const char *what, iobind_error *error);

/* Both are of the same type and dims, and nothing writes them. `tolerance` counts for floating-point types. */
iobind_status iobind__difference_find(const iobind_tensor *tensor, const iobind_tensor *right,
                                      const iobind_tolerance *tolerance, iobind_difference *out, iobind_error *error);

/* An element as a message shows it. */
enum { IOBIND__ELEMENT_TEXT = 48 };
void iobind__element_text(const iobind_tensor *tensor, size_t index, char out[IOBIND__ELEMENT_TEXT]);

/* Where an element is, such as "[2,0,5]"; a scalar's is "". */
void iobind__position_text(const iobind_tensor *tensor, size_t index, char *out, size_t capacity);

#endif
