/* What the files of CUDA's driver share: NVIDIA's driver, with the context of one device. */
#ifndef IOBIND_MEMORY_DRIVER_CUDA_H
#define IOBIND_MEMORY_DRIVER_CUDA_H

#include "memory/driver.h"
#include "memory/foreign.h"
#include "runtime/driver_cuda.h"

/* Find the calls that need no stream, and the context that the EP uses. NOT_SUPPORTED: NVIDIA's driver is not loaded, or lacks
 * calls. */
iobind_status iobind__cuda_open(iobind__foreign *self, const iobind_device *device, iobind_error *error);

/* Make that context current in this thread. After a failure, leave must not be called. */
int iobind__cuda_enter(const iobind__foreign *self);
void iobind__cuda_leave(const iobind__foreign *self);

/* ORT's allocator; or a memory pool, if the runtime was created with pools. The device then holds the pool. */
iobind_status iobind__cuda_allocator(iobind__place *place, OrtAllocator **allocator, iobind_error *error);
iobind_status iobind__cuda_trim(iobind_device *device, iobind_error *error);

const char *iobind__cuda_error_name(const iobind__foreign *self, int failed);

#endif
