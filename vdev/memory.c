#include "memory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "race.h"
#include "stream.h"
#include "system.h"

enum { ALIGNMENT = 256, POISON_NEW = 0xCD, POISON_OLD = 0xDD };

bool vdev_memory_reserve(vdev_device *device) {
  device->reserved = (size_t)device->settings.reserve;
  void *base = vdev_pages_reserve(device->reserved, true);
  void *twin = vdev_pages_reserve(device->reserved, false);
  if (base == NULL || twin == NULL) {
    if (base != NULL) {
      vdev_pages_release(base, device->reserved);
    }
    if (twin != NULL) {
      vdev_pages_release(twin, device->reserved);
    }
    return false;
  }
  device->base = base;
  device->twin = twin;
  /* the first addresses stay unused, so that a small offset from NULL is never a block */
  vdev_spans_init(&device->blocks, ALIGNMENT, device->reserved);
  return true;
}

static vdev_block *block_before(const vdev_device *device, size_t offset) {
  return (vdev_block *)vdev_spans_before(&device->blocks, offset);
}

static void remove_block(vdev_device *device, vdev_block *block) {
  vdev_race_forget(device->base + block->span.start, block->size);
  if (block->imported) {
    vdev_shared_unmap(block->bytes, block->size);
  } else if (device->settings.poison != 0) {
    memset(block->bytes, POISON_OLD, block->size);
  }
  vdev_spans_remove(&device->blocks, &block->span);
  free(block->passed);
  free(block);
}

void vdev_memory_unreserve(vdev_device *device) {
  for (vdev_span *span = vdev_spans_behind(&device->blocks, 0); span != NULL; span = vdev_spans_behind(&device->blocks, 0)) {
    vdev_block *block = (vdev_block *)span;
    vdev_spans_remove(&device->blocks, span);
    if (block->imported) {
      vdev_shared_unmap(block->bytes, block->size);
    }
    free(block->passed);
    free(block);
  }
  device->oldest_freed = device->newest_freed = NULL;
  vdev_pages_release(device->base, device->reserved);
  vdev_pages_release(device->twin, device->reserved);
}

static bool has_passed(const vdev_block *block) {
  for (int i = 0; i < VDEV_MAX_STREAMS; i++) {
    const vdev_stream *stream = vdev_global.streams[i];
    if (stream != NULL && stream->completed < block->passed[i]) {
      return false;
    }
  }
  return true;
}

/* Reuse the freed blocks that no stream can use any more. They are in order: if the oldest is still in use, so are the
 * others. */
static void sweep(vdev_device *device) {
  while (device->oldest_freed != NULL && has_passed(device->oldest_freed)) {
    vdev_block *block = device->oldest_freed;
    device->oldest_freed = block->next;
    if (block->next == NULL) {
      device->newest_freed = NULL;
    }
    remove_block(device, block);
  }
}

/* First fit; blocks that streams still use come back when those have passed. */
static bool place(vdev_device *device, vdev_block *block) {
  sweep(device);
  bool placed = vdev_spans_place(&device->blocks, &block->span);
  while (!placed && device->oldest_freed != NULL) {
    pthread_cond_wait(&vdev_global.changed, &vdev_global.mutex);
    sweep(device);
    placed = vdev_spans_place(&device->blocks, &block->span);
  }
  return placed;
}

static int64_t limit_of(const vdev_device *device) {
  int64_t reserved = (int64_t)device->reserved;
  int64_t limit = device->settings.mem_limit;
  return limit > 0 && limit < reserved ? limit : reserved;
}

static bool is_within_limit(const vdev_device *device, size_t bytes) {
  int64_t limit = limit_of(device);
  return bytes <= (size_t)limit && device->statistics.live_bytes <= limit - (int64_t)bytes;
}

void *vdev_memory_allocate(vdev_device *device, size_t bytes, char *reason) {
  const vdev_subject subject = {
      .site = VDEV_SITE_ALLOC, .what = "allocation", .bytes = bytes > INT64_MAX ? INT64_MAX : (int64_t)bytes};
  vdev_effect effect = {0};
  if (!vdev_admit(device, &subject, &effect, reason)) {
    return NULL;
  }
  vdev_host_delay(effect.delay_ns);
  vdev_block *block = calloc(1, sizeof *block);
  if (block == NULL) {
    (void)vdev_refuse(device, reason, "out of host memory");
    return NULL;
  }
  block->size = bytes;
  block->live = true;
  block->span.room = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  if (!is_within_limit(device, bytes) || !place(device, block)) {
    free(block);
    (void)vdev_refuse(device, reason, "out of device memory: %zu bytes wanted, %lld in use, limit %lld", bytes,
                      (long long)device->statistics.live_bytes, (long long)limit_of(device));
    return NULL;
  }
  block->bytes = device->twin + block->span.start;
  if (!vdev_pages_use(block->bytes, bytes)) {
    vdev_spans_remove(&device->blocks, &block->span);
    free(block);
    (void)vdev_refuse(device, reason, "out of host memory: %zu bytes wanted for the device's", bytes);
    return NULL;
  }
  if (device->settings.poison != 0) {
    memset(block->bytes, POISON_NEW, bytes);
  }
  device->statistics.allocations++;
  device->statistics.live_blocks++;
  device->statistics.live_bytes += (int64_t)bytes;
  if (device->statistics.live_bytes > device->statistics.peak_bytes) {
    device->statistics.peak_bytes = device->statistics.live_bytes;
  }
  return device->base + block->span.start;
}

/* NULL: these bytes are not in the shared memory, or cannot be mapped. */
static unsigned char *map_shared(vdev_device *device, const void *handle, size_t offset, size_t bytes, char *reason) {
  long long number = (long long)(intptr_t)handle;
  size_t length;
  if (!vdev_shared_size(handle, &length)) {
    (void)vdev_refuse(device, reason, "handle %lld cannot be imported: %s", number, strerror(errno));
    return NULL;
  }
  size_t granularity = vdev_shared_granularity();
  if (offset % granularity != 0) {
    (void)vdev_refuse(device, reason, "offset %zu of shared memory cannot be imported: expected a multiple of %zu", offset,
                      granularity);
    return NULL;
  }
  if (bytes == 0 || offset > length || bytes > length - offset) {
    (void)vdev_refuse(device, reason, "%zu bytes at offset %zu of shared memory of %zu cannot be imported", bytes, offset,
                      length);
    return NULL;
  }
  void *view = vdev_shared_map(handle, offset, bytes);
  if (view == NULL) {
    (void)vdev_refuse(device, reason, "handle %lld cannot be mapped: %s", number, strerror(errno));
  }
  return view;
}

void *vdev_memory_import(vdev_device *device, const void *handle, size_t offset, size_t bytes, char *reason) {
  const vdev_subject subject = {
      .site = VDEV_SITE_ALLOC, .what = "import", .bytes = bytes > INT64_MAX ? INT64_MAX : (int64_t)bytes};
  vdev_effect effect = {0};
  if (!vdev_admit(device, &subject, &effect, reason)) {
    return NULL;
  }
  vdev_host_delay(effect.delay_ns);
  unsigned char *view = map_shared(device, handle, offset, bytes, reason);
  if (view == NULL) {
    return NULL;
  }
  vdev_block *block = calloc(1, sizeof *block);
  if (block == NULL) {
    vdev_shared_unmap(view, bytes);
    (void)vdev_refuse(device, reason, "out of host memory");
    return NULL;
  }
  block->size = bytes;
  block->bytes = view;
  block->live = true;
  block->imported = true;
  block->span.room = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  if (!place(device, block)) {
    vdev_shared_unmap(view, bytes);
    free(block);
    (void)vdev_refuse(device, reason, "out of address space: %zu bytes to import", bytes);
    return NULL;
  }
  return device->base + block->span.start;
}

static bool is_any_stream_busy(void) {
  for (int i = 0; i + 1 < vdev_global.agent_limit; i++) {
    const vdev_stream *stream = vdev_global.streams[i];
    if (stream != NULL && stream->completed < stream->submitted) {
      return true;
    }
  }
  return false;
}

/* Keep it until the streams have done what they have now. */
static void append_freed(vdev_device *device, vdev_block *block) {
  for (int i = 0; i + 1 < vdev_global.agent_limit; i++) {
    block->passed[i] = vdev_global.streams[i] == NULL ? 0 : vdev_global.streams[i]->submitted;
  }
  if (device->newest_freed == NULL) {
    device->oldest_freed = block;
  } else {
    device->newest_freed->next = block;
  }
  device->newest_freed = block;
}

void vdev_memory_free(vdev_device *device, void *address) {
  if (address == NULL) {
    return;
  }
  size_t offset = (size_t)((unsigned char *)address - device->base);
  vdev_block *block = block_before(device, offset);
  if (block == NULL || block->span.start != offset || !block->live) {
    device->statistics.errors++;
    return;
  }
  if (!block->imported) {
    device->statistics.live_blocks--;
    device->statistics.live_bytes -= (int64_t)block->size;
  }
  block->live = false;
  block->passed = is_any_stream_busy() ? calloc(VDEV_MAX_STREAMS, sizeof *block->passed) : NULL;
  if (block->passed != NULL) {
    append_freed(device, block);
  } else {
    remove_block(device, block);
  }
}

vdev_device *vdev_memory_owner(const void *address) {
  const unsigned char *at = address;
  for (int i = 0; i < vdev_global.device_count; i++) {
    vdev_device *device = &vdev_global.devices[i];
    if (at >= device->base && at < device->base + device->reserved) {
      return device;
    }
  }
  return NULL;
}

void vdev_memory_refuse_null(vdev_device *device, const char *what, char *reason) {
  const char *refusal = vdev_global.last_refusal;
  (void)vdev_refuse(device, reason, "%s has no memory: its allocation failed%s%.200s", what,
                    refusal[0] == '\0' ? "" : "; the last one that did: ", refusal);
}

void *vdev_memory_resolve(vdev_device *device, const void *address, size_t bytes, const char *what, char *reason) {
  const unsigned char *at = address;
  const vdev_device *owner = vdev_memory_owner(address);
  if (owner == NULL || owner != device) {
    char whose[32] = "not device memory";
    if (owner != NULL) {
      snprintf(whose, sizeof whose, "memory of vdev:%d", owner->index);
    }
    (void)vdev_refuse(device, reason, "%s at %p is %s", what, address, whose);
    return NULL;
  }
  size_t offset = (size_t)(at - device->base);
  const vdev_block *block = block_before(device, offset);
  size_t inside = block == NULL ? 0 : offset - block->span.start;
  bool good = false;
  if (block == NULL || inside >= block->size) {
    (void)vdev_refuse(device, reason, "%s at %p is not inside a live block: it was never allocated, or freed", what, address);
  } else if (!block->live) {
    (void)vdev_refuse(device, reason, "%s at %p is inside a block of %zu bytes that was freed", what, address, block->size);
  } else if (bytes > block->size - inside) {
    (void)vdev_refuse(device, reason, "%s of %zu bytes at offset %zu passes the end of a block of %zu bytes", what, bytes,
                      inside, block->size);
  } else {
    good = true;
  }
  return good ? block->bytes + inside : NULL;
}
