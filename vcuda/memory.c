#define _GNU_SOURCE /* memfd_create, fallocate */

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "state.h"
#include "work.h"

/* A memory file is mapped twice. The mapping whose addresses callers get has no access rights, so that a host access faults. The other
 * mapping is used to access the bytes. Pages that were never written take no memory. */

enum { ALIGNMENT = 512, PAGE = 4096, POISON = 0xCD };

bool vcuda_memory_reserve(vcuda_device *device) {
  size_t size = (size_t)(device->settings.reserve != 0 ? device->settings.reserve : 2 * device->settings.memory);
  int file = memfd_create("vcuda", MFD_CLOEXEC);
  bool made = file >= 0 && ftruncate(file, (off_t)size) == 0;
  void *base = made ? mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) : MAP_FAILED;
  void *twin = made ? mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0) : MAP_FAILED;
  if (base == MAP_FAILED || twin == MAP_FAILED) {
    if (file >= 0) (void)close(file);
    fprintf(stderr, "vcuda: device %d: no %zu bytes of address space: VCUDA_RESERVE makes it less\n", device->index, size);
    return false;
  }
  device->base = base;
  device->twin = twin;
  device->file = file;
  device->reserved = size;
  return true;
}

/* ---- blocks, by offset ---- */

/* The index of the first block that ends after this offset. */
static size_t find_behind(const vcuda_device *device, size_t offset) {
  size_t low = 0, high = device->block_count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (device->blocks[middle].offset + device->blocks[middle].size > offset) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

static size_t align(size_t offset, size_t alignment) {
  return (offset + alignment - 1) / alignment * alignment;
}

/* The end of the block's reserved memory. Another file is mapped in whole pages, so this may be after the block's last byte. */
static size_t end_of(const vcuda_block *block) {
  return block->foreign ? align(block->offset + block->size, PAGE) : block->offset + block->size;
}

/* The offset of a gap of this size between `from` and `to`; SIZE_MAX: none. *index receives the index at which to insert the block. */
static size_t find_gap(const vcuda_device *device, size_t from, size_t to, size_t size, size_t alignment, size_t *index) {
  size_t at = align(from, alignment);
  for (*index = find_behind(device, from); *index <= device->block_count; (*index)++) {
    bool last = *index == device->block_count;
    size_t end = last ? to : device->blocks[*index].offset;
    if (!last && device->blocks[*index].foreign) end = end / PAGE * PAGE;
    end = end < to ? end : to;
    if (at <= end && end - at >= size) return at;
    if (last || end == to) return SIZE_MAX;
    at = align(end_of(&device->blocks[*index]), alignment);
  }
  return SIZE_MAX;
}

static bool grow(vcuda_device *device) {
  if (device->block_count < device->block_capacity) return true;
  size_t capacity = device->block_capacity == 0 ? 64 : 2 * device->block_capacity;
  vcuda_block *blocks = realloc(device->blocks, capacity * sizeof *blocks);
  if (blocks == NULL) return false;
  device->blocks = blocks;
  device->block_capacity = capacity;
  return true;
}

static void count_live(vcuda_device *device, int64_t bytes) {
  int64_t *counters = device->counters;
  counters[VCUDA_COUNT_live_bytes] += bytes;
  counters[VCUDA_COUNT_live_blocks] += bytes > 0 ? 1 : -1;
  if (counters[VCUDA_COUNT_live_bytes] > counters[VCUDA_COUNT_peak_bytes]) {
    counters[VCUDA_COUNT_peak_bytes] = counters[VCUDA_COUNT_live_bytes];
  }
}

/* The offset of free memory for `bytes`; SIZE_MAX: none. *index receives the index at which to insert the block. */
static size_t find_room(vcuda_device *device, size_t bytes, size_t alignment, size_t *index) {
  size_t free_bytes = (size_t)(device->settings.memory - device->counters[VCUDA_COUNT_live_bytes]);
  if (bytes == 0 || bytes > free_bytes || !grow(device)) return SIZE_MAX;
  size_t offset = find_gap(device, device->cursor, device->reserved, bytes, alignment, index);
  return offset != SIZE_MAX ? offset : find_gap(device, 0, device->reserved, bytes, alignment, index);
}

static void put_block(vcuda_device *device, size_t index, vcuda_block block) {
  memmove(&device->blocks[index + 1], &device->blocks[index], (device->block_count - index) * sizeof *device->blocks);
  device->blocks[index] = block;
  device->block_count++;
  device->cursor = end_of(&block);
  count_live(device, (int64_t)block.size);
  vcuda_pools_yield(device);
}

void *vcuda_memory_allocate(vcuda_device *device, size_t bytes, vcuda_pool *pool) {
  size_t index = 0;
  size_t offset = find_room(device, bytes, ALIGNMENT, &index);
  if (offset == SIZE_MAX) return NULL;
  put_block(device, index, (vcuda_block){.offset = offset, .size = bytes, .pool = pool});
  if (device->settings.poison != 0) memset(device->twin + offset, POISON, bytes);
  return device->base + offset;
}

/* The block's address has the same offset in its page as `start` has in the file. */
void *vcuda_memory_adopt(vcuda_device *device, int file, size_t start, size_t bytes) {
  size_t index = 0, skipped = start % PAGE, span = align(skipped + bytes, PAGE);
  size_t offset = find_room(device, span, PAGE, &index);
  if (offset == SIZE_MAX) return NULL;
  void *twin = device->twin + offset;
  if (mmap(twin, span, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, (off_t)(start - skipped)) != twin) return NULL;
  put_block(device, index, (vcuda_block){.offset = offset + skipped, .size = bytes, .foreign = true});
  return device->base + offset + skipped;
}

/* Map the device's own pages again in place of the other file's. */
static void give_pages_back(vcuda_device *device, const vcuda_block *block) {
  size_t first = block->offset / PAGE * PAGE, last = align(block->offset + block->size, PAGE);
  void *twin = device->twin + first;
  if (mmap(twin, last - first, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, device->file, (off_t)first) !=
      twin) {
    fprintf(stderr, "vcuda: device %d: no pages of its own for %zu bytes that were another file's\n", device->index,
            last - first);
    abort();
  }
}

static void free_pages(vcuda_device *device, const vcuda_block *block) {
  size_t first = align(block->offset, PAGE), last = (block->offset + block->size) / PAGE * PAGE;
  if (last > first) (void)madvise(device->twin + first, last - first, MADV_REMOVE);
}

vcuda_block *vcuda_memory_block(vcuda_device *device, const void *address) {
  size_t offset = (size_t)((const unsigned char *)address - device->base), index = find_behind(device, offset);
  return index < device->block_count && device->blocks[index].offset == offset ? &device->blocks[index] : NULL;
}

void vcuda_memory_release(vcuda_device *device, vcuda_block *block) {
  size_t index = (size_t)(block - device->blocks);
  vcuda_race_forget(device->base + block->offset, block->size);
  if (block->foreign) {
    give_pages_back(device, block);
  } else {
    free_pages(device, block);
  }
  count_live(device, -(int64_t)block->size);
  memmove(block, block + 1, (--device->block_count - index) * sizeof *block);
}

vcuda_device *vcuda_memory_owner(const void *address) {
  for (int i = 0; i < vcuda_global.device_count; i++) {
    vcuda_device *device = &vcuda_global.devices[i];
    uintptr_t offset = (uintptr_t)address - (uintptr_t)device->base;
    if (offset < device->reserved) return device;
  }
  return NULL;
}

void vcuda_memory_locate(const void *address, size_t bytes, vcuda_place *place) {
  *place = (vcuda_place){.kind = VCUDA_DEVICE, .device = vcuda_memory_owner(address)};
  if (place->device != NULL) {
    size_t offset = (size_t)((const unsigned char *)address - place->device->base), index = find_behind(place->device, offset);
    const vcuda_block *block = index < place->device->block_count ? &place->device->blocks[index] : NULL;
    if (block == NULL || block->offset > offset) {
      snprintf(place->why, sizeof place->why, "no live allocation is there");
    } else if (bytes > block->size - (offset - block->offset)) {
      snprintf(place->why, sizeof place->why, "its allocation has %zu bytes from there on",
               block->size - (offset - block->offset));
    } else {
      place->twin = place->device->twin + offset;
    }
    return;
  }
  const vcuda_pinned *pinned = vcuda_pinned_find(address);
  place->kind = pinned != NULL ? VCUDA_PINNED : VCUDA_PAGEABLE;
  if (pinned == NULL) {
    snprintf(place->why, sizeof place->why, "it is host memory that CUDA does not know");
    return;
  }
  size_t left = pinned->size - (size_t)((const unsigned char *)address - pinned->start);
  if (bytes <= left) {
    memcpy(&place->twin, &address, sizeof address);
  } else {
    snprintf(place->why, sizeof place->why, "its pinned memory has %zu bytes from there on", left);
  }
}

/* ---- the calls ---- */

int cudaMalloc(void **address, size_t bytes) {
  VCUDA_ENTER_DEVICE(NULL);
  if (address == NULL) return vcuda_end(&call, CUDA_INVALID_VALUE);
  *address = NULL;
  vcuda_lock();
  vcuda_device *device = vcuda_device_current();
  int error = vcuda_capture_refuses_unsafe();
  if (error == CUDA_OK && bytes > 0) {
    bool fails = vcuda_trigger_fails(&device->settings, VCUDA_SITE_ALLOC, (int64_t)bytes, "cudaMalloc", false);
    if (!fails) *address = vcuda_memory_allocate(device, bytes, NULL);
    error = *address == NULL ? CUDA_OUT_OF_MEMORY : CUDA_OK;
    if (error == CUDA_OK) vcuda_count(device, VCUDA_COUNT_allocations, 1);
  }
  vcuda_unlock();
  return vcuda_end(&call, error);
}

/* Blocks until all work of the device is complete, as in CUDA. */
int cudaFree(void *address) {
  VCUDA_ENTER(NULL);
  vcuda_lock();
  vcuda_device *device = address == NULL ? NULL : vcuda_memory_owner(address);
  int error = address == NULL ? CUDA_OK : device == NULL ? CUDA_INVALID_VALUE : vcuda_capture_refuses_unsafe();
  if (error == CUDA_OK && device != NULL) {
    vcuda_count_sync(device, VCUDA_COUNT_sync_free);
    (void)vcuda_queue_wait_all(device);
    vcuda_block *block = vcuda_memory_block(device, address);
    if (block == NULL || block->freeing) {
      error = CUDA_INVALID_VALUE;
    } else {
      vcuda_memory_release(device, block);
    }
    error = vcuda_sticky(device, error);
  }
  vcuda_unlock();
  return vcuda_end(&call, error);
}

int cudaMemGetInfo(size_t *available, size_t *total) {
  VCUDA_ENTER_DEVICE(NULL);
  vcuda_lock();
  const vcuda_device *device = vcuda_device_current();
  *total = (size_t)device->settings.memory;
  *available = *total - (size_t)(device->counters[VCUDA_COUNT_live_bytes] + device->counters[VCUDA_COUNT_pool_bytes]);
  vcuda_unlock();
  return vcuda_end(&call, CUDA_OK);
}

int cudaPointerGetAttributes(cuda_pointer *attributes, const void *address) {
  VCUDA_ENTER_DEVICE(NULL);
  vcuda_place place;
  memset(attributes, 0, sizeof *attributes);
  vcuda_lock();
  vcuda_memory_locate(address, 1, &place);
  if (place.kind == VCUDA_DEVICE && place.twin != NULL) {
    attributes->type = CUDA_MEMORY_DEVICE;
    attributes->device = place.device->index;
    memcpy(&attributes->on_device, &address, sizeof address);
  } else if (place.kind == VCUDA_PINNED) {
    attributes->type = CUDA_MEMORY_HOST;
    attributes->device = vcuda_pinned_find(address)->device;
    memcpy(&attributes->on_device, &address, sizeof address);
    attributes->on_host = attributes->on_device;
  } else {
    attributes->type = CUDA_MEMORY_UNREGISTERED;
    attributes->device = -2;
    memcpy(&attributes->on_host, &address, sizeof address);
  }
  vcuda_unlock();
  return vcuda_end(&call, CUDA_OK);
}
