/* The allocator of a place. */
#ifndef IOBIND_MEMORY_ALLOCATOR_H
#define IOBIND_MEMORY_ALLOCATOR_H

#include "runtime/runtime.h"

/* ORT's allocator for a place, found once: the shared one of its EP device, created if it is missing and never replaced,
 * for replacing it would free it under the tensors that it made.
 * @return NOT_SUPPORTED the device has no such memory, or its EP shares no allocator: only a session can lend one */
iobind_status iobind__place_get_allocator(iobind__place *place, OrtAllocator **allocator, iobind_error *error);

/* Make a tensor value of `bytes` bytes at a place. ORT makes one with NULL data where the device is out of memory: here
 * that is OUT_OF_MEMORY. */
iobind_status iobind__place_allocate(iobind__place *place, ONNXTensorElementDataType dtype, const int64_t *dims, size_t rank,
                                     size_t bytes, OrtValue **value, void **data, iobind_error *error);

#endif
