/* Allocates memory of CUDA devices from a pool of NVIDIA's driver (CUDA 11.2 or newer). Unlike cudaMalloc and cudaFree, it does
 * not wait for the device's work, and freed memory stays in the pool for the next allocation. */
#include <stdlib.h>

#include "memory/driver_cuda.h"
#include "support/system.h"

typedef struct pool_properties { /* CUmemPoolProps */
  int type, handles;
  int location_type, location;
  void *security;
  size_t most;
  uint16_t usage;
  unsigned char reserved[54];
} pool_properties;
_Static_assert(sizeof(pool_properties) == 88, "the driver reads that many bytes");

typedef struct cuda_pool {
  OrtAllocator base; /* first: ORT's view */
  iobind__ref ref;   /* held by the device and by each allocation: ORT may free one after the device is gone */
  const OrtMemoryInfo *info;
  iobind__foreign driver;
  int (*get_device)(int *device);
  int (*open_stream)(void **stream, unsigned flags);
  int (*close_stream)(void *stream);
  int (*pass_stream)(void *stream);
  int (*open_pool)(void **pool, const pool_properties *properties);
  int (*close_pool)(void *pool);
  int (*set)(void *pool, int attribute, void *value);
  int (*trim)(void *pool, size_t kept);
  int (*allocate)(uintptr_t *address, size_t bytes, void *pool, void *stream);
  int (*release)(uintptr_t address, void *stream);
  void *stream; /* only for allocations and frees */
  void *pool;
} cuda_pool;

#define FIND(field, name) (*(void **)&self->field = iobind__library_symbol(library, name)) != NULL

static bool find_calls(cuda_pool *self, void *library) {
  return library != NULL && FIND(get_device, "cuCtxGetDevice") && FIND(open_stream, "cuStreamCreate") &&
         FIND(close_stream, "cuStreamDestroy_v2") && FIND(pass_stream, "cuStreamSynchronize") &&
         FIND(open_pool, "cuMemPoolCreate") && FIND(close_pool, "cuMemPoolDestroy") && FIND(set, "cuMemPoolSetAttribute") &&
         FIND(trim, "cuMemPoolTrimTo") && FIND(allocate, "cuMemAllocFromPoolAsync") && FIND(release, "cuMemFreeAsync");
}

/* Other streams may use the memory only after the allocation is complete, so the host waits for this stream, which has no other
 * work. */
static int allocate_at_once(const cuda_pool *self, uintptr_t *address, size_t bytes) {
  int failed = self->allocate(address, bytes, self->pool, self->stream);
  if (failed != 0) {
    return failed;
  }
  failed = self->pass_stream(self->stream);
  if (failed != 0) {
    (void)self->release(*address, self->stream);
  }
  return failed;
}

static void *ORT_CALL allocate(OrtAllocator *base, size_t bytes) {
  cuda_pool *self = (cuda_pool *)base;
  uintptr_t address = 0;
  int failed = iobind__cuda_enter(&self->driver);
  if (failed == 0) {
    failed = allocate_at_once(self, &address, bytes == 0 ? 1 : bytes);
    iobind__cuda_leave(&self->driver);
  }
  if (failed != 0) {
    return NULL;
  }
  iobind__ref_retain(&self->ref);
  return (void *)address;
}

/* No work in flight uses the memory: streams retain a tensor until the work that uses it is complete. */
static void ORT_CALL release(OrtAllocator *base, void *data) {
  cuda_pool *self = (cuda_pool *)base;
  if (data == NULL) {
    return;
  }
  if (iobind__cuda_enter(&self->driver) == 0) {
    (void)self->release((uintptr_t)data, self->stream);
    iobind__cuda_leave(&self->driver);
  }
  iobind__ref_release(&self->ref);
}

static const OrtMemoryInfo *ORT_CALL describe(const OrtAllocator *base) {
  return ((const cuda_pool *)base)->info;
}

/* First wait for the frees: a trim releases only memory that is already free. */
static int trim_pool(const cuda_pool *self) {
  int failed = self->pass_stream(self->stream);
  return failed != 0 ? failed : self->trim(self->pool, 0);
}

static int open_pool(cuda_pool *self) {
  enum { NON_BLOCKING = 1, PINNED = 1, ON_DEVICE = 1, RELEASE_THRESHOLD = 4 };
  pool_properties properties = {.type = PINNED, .location_type = ON_DEVICE};
  uint64_t all = UINT64_MAX; /* otherwise each synchronization of the process releases the pool's free memory */
  int failed = self->get_device(&properties.location);
  failed = failed != 0 ? failed : self->open_stream(&self->stream, NON_BLOCKING);
  failed = failed != 0 ? failed : self->open_pool(&self->pool, &properties);
  return failed != 0 ? failed : self->set(self->pool, RELEASE_THRESHOLD, &all);
}

static void close_pool(cuda_pool *self) {
  if (self->pool != NULL) {
    (void)self->close_pool(self->pool);
  }
  if (self->stream != NULL) {
    (void)self->close_stream(self->stream);
  }
}

static void pool_destroy(iobind__ref *ref) {
  cuda_pool *self = (cuda_pool *)((char *)ref - offsetof(cuda_pool, ref));
  if (iobind__cuda_enter(&self->driver) == 0) {
    close_pool(self);
    iobind__cuda_leave(&self->driver);
  }
  free(self);
}

static iobind_status prepare(cuda_pool *self, const iobind_device *device, iobind_error *error) {
  if (!find_calls(self, iobind__library_loaded(IOBIND__CUDA_DRIVER))) {
    return iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED,
                        "allocator of '%s': %s is not loaded, or has no memory pools: expected CUDA 11.2 or newer",
                        device->spec, IOBIND__CUDA_DRIVER);
  }
  IOBIND__TRY(iobind__cuda_open(&self->driver, device, error));
  int failed = iobind__cuda_enter(&self->driver);
  if (failed == 0) {
    failed = open_pool(self);
    if (failed != 0) {
      close_pool(self);
    }
    iobind__cuda_leave(&self->driver);
  }
  return failed == 0 ? IOBIND_OK
                     : iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED,
                                    "allocator of '%s': CUDA error %d (%s): the device gives no memory pool", device->spec,
                                    failed, iobind__cuda_error_name(&self->driver, failed));
}

iobind_status iobind__cuda_allocator(iobind__place *place, OrtAllocator **allocator, iobind_error *error) {
  iobind_device *device = place->device;
  if (!device->runtime->pools || place->memory != IOBIND_MEMORY_DEFAULT) {
    return iobind__ort_allocator(place, allocator, error);
  }
  cuda_pool *self = calloc(1, sizeof *self);
  if (self == NULL) {
    return iobind__fail(error, IOBIND_ERROR_OUT_OF_MEMORY, "out of host memory");
  }
  iobind_status status = prepare(self, device, error);
  if (status != IOBIND_OK) {
    free(self);
    return status;
  }
  /* version 1: ORT uses only these three functions */
  self->base = (OrtAllocator){.version = 1, .Alloc = allocate, .Free = release, .Info = describe};
  self->info = place->info;
  iobind__ref_init(&self->ref, pool_destroy);
  device->pool = &self->ref;
  *allocator = &self->base;
  return IOBIND_OK;
}

static cuda_pool *find_pool(iobind_device *device) {
  pthread_mutex_lock(&device->runtime->mutex); /* another thread may be creating it */
  iobind__ref *ref = device->pool;
  pthread_mutex_unlock(&device->runtime->mutex);
  return ref == NULL ? NULL : (cuda_pool *)((char *)ref - offsetof(cuda_pool, ref));
}

/* Inside the device's guard. */
static iobind_status trim(iobind_device *device, cuda_pool *self, iobind_error *error) {
  int failed = iobind__cuda_enter(&self->driver);
  if (failed == 0) {
    failed = trim_pool(self);
    iobind__cuda_leave(&self->driver);
  }
  return failed == 0 ? IOBIND_OK
                     : iobind__fail(error, IOBIND_ERROR_RUNTIME, "'%s': CUDA error %d (%s): its memory pool was not trimmed",
                                    device->spec, failed, iobind__cuda_error_name(&self->driver, failed));
}

/* Does not enter the guard of a device without a pool: that would create a context on it. */
iobind_status iobind__cuda_trim(iobind_device *device, iobind_error *error) {
  cuda_pool *self = find_pool(device);
  if (self == NULL) {
    return IOBIND_OK;
  }
  iobind__scope scope;
  IOBIND__TRY(iobind__guard_enter(device->guard, &scope, error));
  return iobind__guard_end(&scope, trim(device, self, error), error);
}
