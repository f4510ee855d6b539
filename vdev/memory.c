#define _DEFAULT_SOURCE /* MAP_ANONYMOUS, MAP_NORESERVE */

#include "memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "race.h"
#include "stream.h"

enum { ALIGNMENT = 256, POISON_NEW = 0xCD, POISON_OLD = 0xDD };

bool vdev_memory_reserve(vdev_device *device) {
  device->reserved = (size_t)device->settings.reserve;
  void *base = mmap(NULL, device->reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  void *twin = mmap(NULL, device->reserved, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED || twin == MAP_FAILED) {
    if (base != MAP_FAILED) {
      munmap(base, device->reserved);
    }
    if (twin != MAP_FAILED) {
      munmap(twin, device->reserved);
    }
    return false;
  }
  device->base = base;
  device->twin = twin;
  return true;
}

void vdev_memory_unreserve(vdev_device *device) {
  for (size_t i = 0; i < device->block_count; i++) {
    free(device->blocks[i].passed);
  }
  free(device->blocks);
  device->blocks = NULL;
  device->block_count = device->block_capacity = 0;
  munmap(device->base, device->reserved);
  munmap(device->twin, device->reserved);
}

/* Index of the first block that begins after `offset`. */
static size_t upper_bound(const vdev_device *device, size_t offset) {
  size_t low = 0;
  size_t high = device->block_count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (device->blocks[middle].offset <= offset) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

static void remove_block(vdev_device *device, size_t index) {
  vdev_block *block = &device->blocks[index];
  vdev_race_forget(device->base + block->offset, block->size);
  if (device->settings.poison != 0) {
    memset(device->twin + block->offset, POISON_OLD, block->size);
  }
  free(block->passed);
  memmove(block, block + 1, (device->block_count - index - 1) * sizeof *block);
  device->block_count--;
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

/* Take back the freed blocks that no stream can use any more. */
static void sweep(vdev_device *device) {
  for (size_t i = device->block_count; i-- > 0;) {
    if (!device->blocks[i].live && has_passed(&device->blocks[i])) {
      remove_block(device, i);
    }
  }
}

static bool insert_block(vdev_device *device, size_t index, size_t offset, size_t size) {
  if (device->block_count == device->block_capacity) {
    size_t capacity = device->block_capacity == 0 ? 64 : 2 * device->block_capacity;
    vdev_block *blocks = realloc(device->blocks, capacity * sizeof *blocks);
    if (blocks == NULL) {
      return false;
    }
    device->blocks = blocks;
    device->block_capacity = capacity;
  }
  memmove(device->blocks + index + 1, device->blocks + index, (device->block_count - index) * sizeof *device->blocks);
  device->blocks[index] = (vdev_block){.offset = offset, .size = size, .live = true};
  device->block_count++;
  return true;
}

/* First fit. */
static void *place(vdev_device *device, size_t bytes) {
  size_t room = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  size_t at = ALIGNMENT; /* the first addresses stay unused, so that a small offset from NULL is never a block */
  for (size_t i = 0; i <= device->block_count; i++) {
    size_t end = i < device->block_count ? device->blocks[i].offset : device->reserved;
    if (end >= at && end - at >= room) {
      return insert_block(device, i, at, bytes) ? device->base + at : NULL;
    }
    if (i < device->block_count) {
      size_t size = (device->blocks[i].size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
      at = device->blocks[i].offset + size;
    }
  }
  return NULL;
}

static bool anything_freed(const vdev_device *device) {
  for (size_t i = 0; i < device->block_count; i++) {
    if (!device->blocks[i].live) {
      return true;
    }
  }
  return false;
}

void *vdev_memory_allocate(vdev_device *device, size_t bytes, char *reason) {
  const vdev_subject subject = {.site = VDEV_SITE_ALLOC, .bytes = bytes > INT64_MAX ? INT64_MAX : (int64_t)bytes};
  vdev_host_delay(vdev_fault_delay(&device->settings.faults, &subject));
  if (vdev_fault_fails(&device->settings.faults, &subject)) {
    snprintf(reason, VDEV_TEXT, "vdev:%d: allocation of %zu bytes failed as asked (fail_alloc)", device->index, bytes);
    return NULL;
  }
  int64_t limit = device->settings.mem_limit;
  if (limit > 0 && (bytes > (size_t)limit || device->statistics.live_bytes > limit - (int64_t)bytes)) {
    snprintf(reason, VDEV_TEXT, "vdev:%d: out of device memory: %zu bytes wanted, %lld in use, limit %lld", device->index,
             bytes, (long long)device->statistics.live_bytes, (long long)limit);
    return NULL;
  }
  sweep(device);
  void *address = bytes <= device->reserved ? place(device, bytes) : NULL;
  while (address == NULL && bytes <= device->reserved && anything_freed(device)) {
    /* what streams still use comes back when they are through */
    pthread_cond_wait(&vdev_global.changed, &vdev_global.mutex);
    sweep(device);
    address = place(device, bytes);
  }
  if (address == NULL) {
    snprintf(reason, VDEV_TEXT, "vdev:%d: out of device memory: %zu bytes wanted, %lld in use, %zu reserved", device->index,
             bytes, (long long)device->statistics.live_bytes, device->reserved);
    return NULL;
  }
  if (device->settings.poison != 0) {
    memset((unsigned char *)address - device->base + device->twin, POISON_NEW, bytes);
  }
  device->statistics.allocations++;
  device->statistics.live_blocks++;
  device->statistics.live_bytes += (int64_t)bytes;
  if (device->statistics.live_bytes > device->statistics.peak_bytes) {
    device->statistics.peak_bytes = device->statistics.live_bytes;
  }
  return address;
}

void vdev_memory_free(vdev_device *device, void *address) {
  if (address == NULL) {
    return;
  }
  size_t offset = (size_t)((unsigned char *)address - device->base);
  size_t index = upper_bound(device, offset);
  vdev_block *block = index > 0 ? &device->blocks[index - 1] : NULL;
  if (block == NULL || block->offset != offset || !block->live) {
    device->statistics.errors++;
    return;
  }
  device->statistics.live_blocks--;
  device->statistics.live_bytes -= (int64_t)block->size;
  bool busy = false;
  for (int i = 0; i + 1 < vdev_global.agent_limit; i++) {
    const vdev_stream *stream = vdev_global.streams[i];
    busy = busy || (stream != NULL && stream->completed < stream->submitted);
  }
  if (busy) {
    block->passed = calloc(VDEV_MAX_STREAMS, sizeof *block->passed);
    for (int i = 0; block->passed != NULL && i + 1 < vdev_global.agent_limit; i++) {
      block->passed[i] = vdev_global.streams[i] == NULL ? 0 : vdev_global.streams[i]->submitted;
    }
  }
  block->live = false;
  if (block->passed == NULL) {
    remove_block(device, index - 1);
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

void vdev_memory_explain_null(const char *what, char *reason) {
  const char *refusal = vdev_global.last_refusal;
  snprintf(reason, VDEV_TEXT, "vdev: %s has no memory: its allocation failed%s%.200s", what,
           refusal[0] == '\0' ? "" : "; the last one that did: ", refusal);
}

void *vdev_memory_resolve(vdev_device *device, const void *address, size_t bytes, const char *what, char *reason) {
  const unsigned char *at = address;
  if (at < device->base || at >= device->base + device->reserved) {
    const vdev_device *owner = vdev_memory_owner(address);
    if (owner != NULL) {
      snprintf(reason, VDEV_TEXT, "vdev:%d: %s at %p is memory of vdev:%d", device->index, what, address, owner->index);
    } else {
      snprintf(reason, VDEV_TEXT, "vdev:%d: %s at %p is no device memory", device->index, what, address);
    }
    return NULL;
  }
  size_t offset = (size_t)(at - device->base);
  size_t index = upper_bound(device, offset);
  const vdev_block *block = index > 0 ? &device->blocks[index - 1] : NULL;
  size_t inside = block == NULL ? 0 : offset - block->offset;
  if (block == NULL || inside >= block->size) {
    snprintf(reason, VDEV_TEXT, "vdev:%d: %s at %p is not inside a live block: it was never allocated, or freed", device->index,
             what, address);
    return NULL;
  }
  if (!block->live) {
    snprintf(reason, VDEV_TEXT, "vdev:%d: %s at %p is inside a block of %zu bytes that was freed", device->index, what, address,
             block->size);
    return NULL;
  }
  if (bytes > block->size - inside) {
    snprintf(reason, VDEV_TEXT, "vdev:%d: %s of %zu bytes at offset %zu passes the end of a block of %zu bytes", device->index,
             what, bytes, inside, block->size);
    return NULL;
  }
  return device->twin + offset;
}
