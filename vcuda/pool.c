/* Memory pools and stream-ordered memory. An allocation is usable at once; its memory is freed when the stream reaches the free. */
#include <stdlib.h>
#include <string.h>

#include "run.h"
#include "state.h"
#include "work.h"

struct vcuda_pool {
  vcuda_pool *next; /* of the device's */
  vcuda_device *device;
  uint64_t threshold;
  uint64_t used, highest; /* bytes */
  uint64_t kept;          /* number of freed bytes that are not returned to the device; the blocks themselves are not reused */
};

static vcuda_pool *make_pool(vcuda_device *device) {
  vcuda_pool *pool = calloc(1, sizeof *pool);
  if (pool == NULL) return NULL;
  pool->device = device;
  pool->next = device->pools;
  device->pools = pool;
  return pool;
}

static vcuda_pool *default_pool(vcuda_device *device) {
  if (device->pool == NULL) device->pool = make_pool(device);
  return device->pool;
}

static void forget_pool(const vcuda_pool *pool) {
  vcuda_pool **at = &pool->device->pools;
  while (*at != pool) at = &(*at)->next;
  *at = pool->next;
}

static void keep(vcuda_pool *pool, uint64_t bytes) {
  pool->device->counters[VCUDA_COUNT_pool_bytes] += (int64_t)bytes - (int64_t)pool->kept;
  pool->kept = bytes;
}

static uint64_t least(uint64_t a, uint64_t b) {
  return a < b ? a : b;
}

static void note_allocated(vcuda_pool *pool, uint64_t bytes) {
  keep(pool, pool->kept - least(pool->kept, bytes));
  pool->used += bytes;
  pool->highest = pool->used > pool->highest ? pool->used : pool->highest;
}

/* CUDA returns memory above the threshold to the device at the next synchronization. Here this happens at once. */
static void note_freed(vcuda_pool *pool, uint64_t bytes) {
  pool->used -= bytes;
  keep(pool, least(pool->kept + bytes, pool->threshold));
}

void vcuda_pools_yield(vcuda_device *device) {
  int64_t *counters = device->counters;
  for (vcuda_pool *pool = device->pools; pool != NULL; pool = pool->next) {
    int64_t over = counters[VCUDA_COUNT_live_bytes] + counters[VCUDA_COUNT_pool_bytes] - device->settings.memory;
    if (over > 0) keep(pool, pool->kept - least(pool->kept, (uint64_t)over));
  }
}

int cudaDeviceGetDefaultMemPool(cuda_pool *pool, int device) {
  VCUDA_ENTER(NULL);
  vcuda_device *found = vcuda_device_at(device);
  if (found == NULL) return vcuda_end(&call, CUDA_INVALID_DEVICE);
  vcuda_lock();
  *pool = default_pool(found);
  vcuda_unlock();
  return vcuda_end(&call, *pool == NULL ? CUDA_OUT_OF_MEMORY : CUDA_OK);
}

int cudaMemPoolCreate(cuda_pool *pool, const cuda_pool_properties *properties) {
  VCUDA_ENTER(NULL);
  vcuda_device *device = vcuda_device_at(properties->location);
  if (device == NULL || properties->location_type != 1) return vcuda_end(&call, CUDA_INVALID_VALUE);
  vcuda_lock();
  *pool = make_pool(device);
  vcuda_unlock();
  return vcuda_end(&call, *pool == NULL ? CUDA_OUT_OF_MEMORY : CUDA_OK);
}

/* Live allocations of the pool stay valid without it. */
int cudaMemPoolDestroy(cuda_pool pool) {
  VCUDA_ENTER(NULL);
  if (pool == NULL || pool == pool->device->pool) return vcuda_end(&call, CUDA_INVALID_VALUE);
  vcuda_lock();
  vcuda_count_sync(pool->device, VCUDA_COUNT_sync_pool);
  (void)vcuda_queue_wait_all(pool->device);
  for (size_t i = 0; i < pool->device->block_count; i++) {
    if (pool->device->blocks[i].pool == pool) pool->device->blocks[i].pool = NULL;
  }
  keep(pool, 0);
  forget_pool(pool);
  vcuda_unlock();
  free(pool);
  return vcuda_end(&call, CUDA_OK);
}

enum { RELEASE_THRESHOLD = 4, RESERVED = 5, RESERVED_HIGH = 6, USED = 7, USED_HIGH = 8 }; /* cudaMemPoolAttr */

int cudaMemPoolGetAttribute(cuda_pool pool, int attribute, void *value) {
  VCUDA_ENTER(NULL);
  if (pool == NULL || value == NULL || attribute < 1 || attribute > USED_HIGH) return vcuda_end(&call, CUDA_INVALID_VALUE);
  vcuda_lock();
  int reuse = 1;
  uint64_t number = attribute == RELEASE_THRESHOLD                         ? pool->threshold
                    : attribute == RESERVED_HIGH || attribute == USED_HIGH ? pool->highest
                    : attribute == RESERVED                                ? pool->used + pool->kept
                                                                           : pool->used;
  if (attribute < RELEASE_THRESHOLD) {
    memcpy(value, &reuse, sizeof reuse);
  } else {
    memcpy(value, &number, sizeof number);
  }
  vcuda_unlock();
  return vcuda_end(&call, CUDA_OK);
}

int cudaMemPoolSetAttribute(cuda_pool pool, int attribute, void *value) {
  VCUDA_ENTER(NULL);
  if (pool == NULL || value == NULL || attribute < 1 || attribute > USED_HIGH) return vcuda_end(&call, CUDA_INVALID_VALUE);
  vcuda_lock();
  if (attribute == RELEASE_THRESHOLD) memcpy(&pool->threshold, value, sizeof pool->threshold);
  if (attribute == RESERVED_HIGH || attribute == USED_HIGH) pool->highest = pool->used;
  vcuda_unlock();
  return vcuda_end(&call, CUDA_OK);
}

int cudaMemPoolTrimTo(cuda_pool pool, size_t bytes) {
  VCUDA_ENTER_DEVICE(NULL);
  if (pool == NULL) return vcuda_end(&call, CUDA_INVALID_VALUE);
  vcuda_lock();
  keep(pool, least(pool->kept, bytes > pool->used ? bytes - pool->used : 0));
  vcuda_unlock();
  return vcuda_end(&call, CUDA_OK);
}

/* ---- stream-ordered memory ---- */

/* Runs on the stream's thread. It has no effect if another call has freed the memory in the meantime. */
static void run_allocate(void *arguments) {
  void *address;
  memcpy(&address, arguments, sizeof address);
  vcuda_lock();
  vcuda_device *device = vcuda_memory_owner(address);
  vcuda_block *block = device == NULL ? NULL : vcuda_memory_block(device, address);
  if (block != NULL) vcuda_run_owns(address, block->size);
  vcuda_unlock();
}

static int queue(vcuda_stream *stream, const char *name, void (*run)(void *arguments), void **address) {
  const vcuda_order order = {.kind = CUDA_NODE_EMPTY, .name = name, .run = run, .arguments = address, .bytes = sizeof *address};
  return vcuda_queue_order(stream, &order);
}

/* Allocate. If there is no memory, wait for queued frees and try again. NULL: still none. */
static void *find_memory(vcuda_device *device, size_t bytes, vcuda_pool *pool) {
  if (vcuda_trigger_fails(&device->settings, VCUDA_SITE_ALLOC, (int64_t)bytes, "cudaMallocAsync", false)) return NULL;
  void *address = vcuda_memory_allocate(device, bytes, pool);
  if (address != NULL) return address;
  vcuda_count_sync(device, VCUDA_COUNT_sync_alloc);
  (void)vcuda_queue_wait_all(device);
  return vcuda_memory_allocate(device, bytes, pool);
}

static int allocate(void **address, size_t bytes, vcuda_pool *pool, cuda_stream handle) {
  int error;
  *address = NULL;
  vcuda_stream *stream = vcuda_stream_find(handle, &error);
  if (stream == NULL) return error;
  vcuda_device *device = stream->device;
  if (pool == NULL) pool = default_pool(device);
  if (pool == NULL) return CUDA_OUT_OF_MEMORY;
  if (pool->device != device) return CUDA_INVALID_VALUE;
  if (stream->capture != NULL) return CUDA_NOT_SUPPORTED; /* allocation nodes are not supported */
  if (bytes == 0) return CUDA_OK;
  *address = find_memory(device, bytes, pool);
  if (*address == NULL) return CUDA_OUT_OF_MEMORY;
  error = queue(stream, "cudaMallocAsync", run_allocate, address);
  if (error != CUDA_OK) {
    vcuda_memory_release(device, vcuda_memory_block(device, *address));
    *address = NULL;
    return error;
  }
  note_allocated(pool, bytes);
  vcuda_count(device, VCUDA_COUNT_allocations, 1);
  return CUDA_OK;
}

static int allocate_locked(void **address, size_t bytes, vcuda_pool *pool, cuda_stream stream) {
  if (address == NULL) return CUDA_INVALID_VALUE;
  vcuda_lock();
  int error = allocate(address, bytes, pool, stream);
  vcuda_unlock();
  return error;
}

int cudaMallocFromPoolAsync(void **address, size_t bytes, cuda_pool pool, cuda_stream stream) {
  VCUDA_ENTER_DEVICE(stream);
  return vcuda_end(&call, allocate_locked(address, bytes, pool, stream));
}

int cudaMallocAsync(void **address, size_t bytes, cuda_stream stream) {
  VCUDA_ENTER_DEVICE(stream);
  return vcuda_end(&call, allocate_locked(address, bytes, NULL, stream));
}

/* Runs on the stream's thread. */
static void run_free(void *arguments) {
  void *address;
  memcpy(&address, arguments, sizeof address);
  vcuda_lock();
  vcuda_device *device = vcuda_memory_owner(address);
  vcuda_block *block = vcuda_memory_block(device, address);
  vcuda_run_owns(address, block->size);
  vcuda_pool *pool = block->pool;
  const size_t bytes = block->size;
  vcuda_memory_release(device, block);
  if (pool != NULL) note_freed(pool, bytes);
  vcuda_unlock();
}

int cudaFreeAsync(void *address, cuda_stream stream) {
  VCUDA_ENTER_DEVICE(stream);
  int error;
  if (address == NULL) return vcuda_end(&call, CUDA_OK);
  vcuda_lock();
  vcuda_stream *found = vcuda_stream_find(stream, &error);
  vcuda_device *device = vcuda_memory_owner(address);
  vcuda_block *block = device == NULL ? NULL : vcuda_memory_block(device, address);
  if (found != NULL && (block == NULL || block->freeing)) error = CUDA_INVALID_VALUE;
  if (found != NULL && error == CUDA_OK) {
    error = found->capture != NULL ? CUDA_NOT_SUPPORTED : queue(found, "cudaFreeAsync", run_free, &address);
  }
  if (found != NULL && error == CUDA_OK) vcuda_memory_block(device, address)->freeing = true;
  vcuda_unlock();
  return vcuda_end(&call, error);
}
