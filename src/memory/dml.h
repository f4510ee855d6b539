/* The memory of DirectML's devices: see runtime/dml.h. */
#ifndef IOBIND_MEMORY_DML_H
#define IOBIND_MEMORY_DML_H

#include "memory/transfer.h"
#include "runtime/dml.h"

/* The allocator of one of the device's two memories. */
iobind_status iobind__dml_get_allocator(iobind__place *place, OrtAllocator **allocator, iobind_error *error);

/* ORT's handle for a resource of the caller's, until iobind__dml_unwrap; a reference to the resource is held meanwhile. */
iobind_status iobind__dml_wrap(iobind_device *device, void *resource, size_t bytes, void **handle, iobind_error *error);
void iobind__dml_unwrap(iobind_device *device, void *handle);

/* The resource behind a handle, with a reference more, for the caller. */
iobind_status iobind__dml_find(iobind_device *device, void *handle, d3d12_resource **resource, iobind_error *error);

/* A session's allocator, while the session lives. */
iobind_status iobind__dml_lend(iobind_device *device, OrtAllocator *allocator, iobind_error *error);
void iobind__dml_take_back(iobind_device *device, OrtAllocator *allocator);

/* Copies of one route, of which one side is DirectML's memory and the other one's either the host's or of the same device. */
iobind_status iobind__dml_copy(iobind_device *device, const iobind__transfer *const *transfers, size_t count,
                               iobind_stream *stream, iobind_error *error);

/* Wait until all that was submitted to the shared queue has passed. */
iobind_status iobind__dml_wait(iobind_device *device, iobind_error *error);

/* stream of the kind iobind__dml_stream: submit copies, and what comes before and after a run. */
iobind_status iobind__dml_stream_copy(iobind_stream *stream, const iobind__buffer_copy *copies, size_t count,
                                      iobind_error *error);
iobind_status iobind__dml_stream_enter(const iobind_stream *stream, iobind_error *error);
iobind_status iobind__dml_stream_leave(iobind_stream *stream, iobind_error *error);

/* Fences of the caller's. A value that nobody is known to submit is refused: INVALID_STATE. */
iobind_status iobind__dml_stream_wait_fence(iobind_stream *stream, void *fence, uint64_t value, iobind_error *error);
iobind_status iobind__dml_stream_signal_fence(iobind_stream *stream, void *fence, uint64_t value, iobind_error *error);

#endif
