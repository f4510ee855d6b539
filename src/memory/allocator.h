/* Allocations at a memory location. */
#ifndef IOBIND_MEMORY_ALLOCATOR_H
#define IOBIND_MEMORY_ALLOCATOR_H

#include "runtime/runtime.h"

typedef struct iobind__wanted {
  ONNXTensorElementDataType dtype;
  const int64_t *dims;
  size_t rank;
  size_t bytes; /* of all elements */
} iobind__wanted;

/* The best host memory for copies to and from a memory location: pinned, if the device has that. */
iobind__place *iobind__place_for_staging(const iobind__place *place);

/* Create a tensor value. If the device is out of memory, ORT creates one with NULL data and returns success; this function
 * returns OUT_OF_MEMORY. */
iobind_status iobind__place_allocate(iobind__place *place, const iobind__wanted *wanted, OrtValue **value, void **data,
                                     iobind_error *error);

#endif
