/* DirectML's execution provider. ORT lists its devices without memory, allocators, copies and streams: they are iobind's, by Direct3D 12.
 * This is what a device of it has more than others. */
#ifndef IOBIND_RUNTIME_DRIVER_DML_H
#define IOBIND_RUNTIME_DRIVER_DML_H

#include "d3d12/d3d12.h"
#include "runtime/driver.h"

/* A buffer of iobind's, or one that a tensor wraps. */
typedef struct iobind__dml_buffer {
  struct iobind__dml_buffer *next;
  void *handle; /* what a tensor there has for an address: ORT's handle, or (host memory) the address */
  d3d12_resource *resource;
  size_t bytes; /* of host memory; otherwise 0 */
  size_t users; /* allocations, or tensors that wrap the same resource */
} iobind__dml_buffer;

/* A session, whose allocator alone knows the resources that it has allocated. */
typedef struct iobind__dml_lender {
  iobind__attachment base;
  struct iobind__dml_lender *next;
  OrtAllocator *allocator;
} iobind__dml_lender;

typedef struct iobind__dml_allocator {
  OrtAllocator base;
  iobind_device *device;
  iobind_memory memory;
} iobind__dml_allocator;

/* A fence of the caller's that a stream of the device signals. A reference is held. */
typedef struct iobind__dml_signal {
  d3d12_fence *fence;
  uint64_t value; /* the highest that is submitted */
} iobind__dml_signal;
enum { IOBIND__DML_SIGNALS = 16 };

typedef struct iobind__dml {
  pthread_mutex_t mutex; /* guards the opening, and the lists */
  const OrtDmlApi *api;  /* NULL: this ORT has none */
  OrtMemoryInfo *info;   /* of the memory that sessions have */
  atomic_bool open;      /* the next ones are there, and stay */
  iobind__d3d12 d3d12;
  iobind__lane *lane; /* for calls without a stream */
  iobind__dml_allocator allocators[2];
  iobind__dml_buffer *buffers;
  iobind__dml_lender *lenders;
  iobind__dml_signal signals[IOBIND__DML_SIGNALS];
  size_t next_signal;
} iobind__dml;

static inline iobind__dml *iobind__dml_of(const iobind_device *device) {
  return device->own;
}

/* Make what the caller has not given: on first use. */
iobind_status iobind__dml_open(iobind_device *device, iobind_error *error);

#endif
