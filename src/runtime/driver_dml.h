/* A device of DirectML's execution provider. ORT lists these devices without memory, allocators, copies and streams. iobind has
 * them, by Direct3D 12. */
#ifndef IOBIND_RUNTIME_DRIVER_DML_H
#define IOBIND_RUNTIME_DRIVER_DML_H

#include "d3d12/d3d12.h"
#include "runtime/driver.h"

/* A buffer that iobind has allocated, or that a tensor wraps. */
typedef struct iobind__dml_buffer {
  struct iobind__dml_buffer *next;
  void *handle; /* a tensor's address: ORT's handle, or the address in host memory */
  d3d12_resource *resource;
  size_t bytes; /* of host memory; otherwise 0 */
  size_t users; /* allocations, or tensors that wrap the same resource */
} iobind__dml_buffer;

/* A session. Only its allocator knows the resources that it has allocated. */
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

/* A fence of the caller that a stream of the device signals. A reference is held. */
typedef struct iobind__dml_signal {
  d3d12_fence *fence;
  uint64_t value; /* the highest submitted value */
} iobind__dml_signal;
enum { IOBIND__DML_SIGNALS = 16 };

typedef struct iobind__dml {
  pthread_mutex_t mutex; /* protects opening, and the lists */
  const OrtDmlApi *api;  /* NULL: this ORT has no such interface */
  OrtMemoryInfo *info;   /* the memory info that sessions use */
  atomic_bool open;      /* `d3d12` and `lane` are set, and do not change any more */
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

/* Create the device's objects on first use, if the caller has not adopted any. */
iobind_status iobind__dml_open(iobind_device *device, iobind_error *error);

#endif
