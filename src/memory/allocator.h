/* The allocator of a place. */
#ifndef IOBIND_MEMORY_ALLOCATOR_H
#define IOBIND_MEMORY_ALLOCATOR_H

#include "runtime/runtime.h"

typedef struct iobind__wanted {
  ONNXTensorElementDataType dtype;
  const int64_t *dims;
  size_t rank;
  size_t bytes; /* of all */
} iobind__wanted;

/* The host memory that is best for copies to and from a place: pinned, if the device has that. */
iobind__place *iobind__place_for_staging(const iobind__place *place);

/* Create a tensor value at a place. If the device is out of memory, ORT makes one with NULL data and reports success: here that is
 * OUT_OF_MEMORY. */
iobind_status iobind__place_allocate(iobind__place *place, const iobind__wanted *wanted, OrtValue **value, void **data,
                                     iobind_error *error);

#endif
