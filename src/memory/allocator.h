/* Allocations at a memory location. */
#ifndef IOBIND_MEMORY_ALLOCATOR_H
#define IOBIND_MEMORY_ALLOCATOR_H

#include "runtime/runtime.h"

/* The form of a tensor: the type of its elements, and its dims. */
typedef struct iobind__form {
  iobind_dtype dtype;
  const int64_t *dims;
  size_t rank;
} iobind__form;

/* The best host memory for copies to and from a memory location: pinned, if the device has that. */
iobind__place *iobind__place_for_staging(const iobind__place *place);

/* Create a tensor value, whose elements have `bytes` bytes. If the device is out of memory, ORT creates one with NULL data and returns success; this function
 * returns OUT_OF_MEMORY. */
iobind_status iobind__place_allocate(iobind__place *place, iobind__form form, size_t bytes, OrtValue **value, void **data,
                                     iobind_error *error);

#endif
