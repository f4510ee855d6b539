/* Direct3D 12 for the DirectML execution provider: a device with the queue on which sessions compute, buffers, and queues for
 * copies. Uses nothing of ONNX Runtime. */
#ifndef IOBIND_D3D12_D3D12_H
#define IOBIND_D3D12_D3D12_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "d3d12/com.h"
#include "support/error.h"

/* The three objects that all sessions of a device share. A reference to each is held. */
typedef struct iobind__d3d12 {
  d3d12_device *device;
  dml_device *dml;
  d3d12_queue *queue; /* DIRECT or COMPUTE */
} iobind__d3d12;

/* ---- device.c ---- */

/* Check the caller's objects, and retain each. */
iobind_status iobind__d3d12_adopt(void *given_device, void *given_dml, void *given_queue, iobind__d3d12 *out,
                                  iobind_error *error);

/* Create all three on an adapter; NULL: the first one. */
iobind_status iobind__d3d12_make(const d3d_luid *luid, iobind__d3d12 *out, iobind_error *error);
void iobind__d3d12_drop(iobind__d3d12 *d3d12);

/* Translate the result of a call. */
iobind_status iobind__d3d12_check(d3d_result result, const char *what, iobind_error *error);

void iobind__com_retain(void *object);
void iobind__com_release(void *object); /* NULL: nothing */

/* Does an object (a resource, a queue, a fence) belong to the device? `get` is its method GetDevice. */
bool iobind__d3d12_owns(const d3d12_device *device, d3d_result (*get)(void *, const d3d_guid *, void **), void *object);

/* ---- buffer.c ---- */

/* A buffer that DirectML can use. */
iobind_status iobind__d3d12_make_buffer(d3d12_device *device, size_t bytes, d3d12_resource **buffer, iobind_error *error);

/* A buffer in host memory, for copies in both directions. *data: its address. */
iobind_status iobind__d3d12_make_host_buffer(d3d12_device *device, size_t bytes, d3d12_resource **buffer, void **data,
                                             iobind_error *error);

/* Can the caller's resource be a tensor's memory? ORT does not check it: it would crash, or the run would fail. */
iobind_status iobind__d3d12_check_buffer(const d3d12_device *device, d3d12_resource *buffer, size_t bytes, iobind_error *error);

/* ---- lane.c ---- */

typedef struct iobind__lane iobind__lane;

typedef struct iobind__buffer_copy {
  d3d12_resource *to, *from;
  uint64_t to_offset, from_offset, bytes;
} iobind__buffer_copy;

/* A lane orders work on two queues: copies on its own queue, runs on the shared one. A fence counts the submissions. Where work
 * changes from one queue to the other, the second queue waits for the fence; the host does not block. */
iobind_status iobind__lane_open(const iobind__d3d12 *d3d12, iobind__lane **out, iobind_error *error);
void iobind__lane_close(iobind__lane *lane); /* all work is complete, or never will be; NULL is a no-op */

/* Submit copies. *value: the value of the fence when they are complete; also in the functions below. */
iobind_status iobind__lane_copy(iobind__lane *lane, const iobind__buffer_copy *copies, size_t number, uint64_t *value,
                                iobind_error *error);

/* Before and after submissions to the shared queue. */
iobind_status iobind__lane_enter_compute(iobind__lane *lane, iobind_error *error);
iobind_status iobind__lane_leave_compute(iobind__lane *lane, uint64_t *value, iobind_error *error);

/* Make later submissions wait for another fence. */
iobind_status iobind__lane_order(iobind__lane *lane, d3d12_fence *fence, uint64_t fence_value, uint64_t *value,
                                 iobind_error *error);

/* Signal another fence after all previously submitted work. */
iobind_status iobind__lane_signal(iobind__lane *lane, d3d12_fence *fence, uint64_t fence_value, iobind_error *error);

d3d12_fence *iobind__lane_fence(const iobind__lane *lane);
iobind_status iobind__lane_wait(iobind__lane *lane, uint64_t value, iobind_error *error); /* blocks */

#endif
