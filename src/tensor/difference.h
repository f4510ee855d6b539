/* Compares two tensors in host memory. */
#ifndef IOBIND_TENSOR_DIFFERENCE_H
#define IOBIND_TENSOR_DIFFERENCE_H

#include "tensor/tensor.h"

/* The default tolerance of a type; 0 and 0 if its elements must be equal. */
iobind_tolerance iobind__tolerance_of(iobind_dtype dtype);

/* INVALID_ARGUMENT if one is negative, NaN or greater than 1e30. The message begins with `what`. */
iobind_status iobind__tolerance_check(const iobind_tolerance *tolerance, const char *what, iobind_error *error);

/* Both must have the same type and dims, and no work in flight may write them. `tolerance` applies to floating-point types. */
iobind_status iobind__difference_find(const iobind_tensor *tensor, const iobind_tensor *right,
                                      const iobind_tolerance *tolerance, iobind_difference *out, iobind_error *error);

/* Format an element for a message. */
enum { IOBIND__ELEMENT_TEXT = 48 };
void iobind__element_text(const iobind_tensor *tensor, size_t index, char out[IOBIND__ELEMENT_TEXT]);

/* Format an element's position, such as "[2,0,5]"; "" for a scalar. */
void iobind__position_text(const iobind_tensor *tensor, size_t index, char *out, size_t capacity);

#endif
