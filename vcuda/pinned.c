#define _GNU_SOURCE /* MAP_ANONYMOUS */

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "state.h"

/* Page-locked memory, sorted by address. */

static size_t find_place(const void *address) {
  size_t low = 0, high = vcuda_global.pinned_count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    const vcuda_pinned *pinned = &vcuda_global.pinned[middle];
    if (pinned->start + pinned->size > (const unsigned char *)address) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

vcuda_pinned *vcuda_pinned_find(const void *address) {
  size_t at = find_place(address);
  bool inside = at < vcuda_global.pinned_count && vcuda_global.pinned[at].start <= (const unsigned char *)address;
  return inside ? &vcuda_global.pinned[at] : NULL;
}

static bool add(void *start, size_t size, size_t mapped, vcuda_device *device) {
  vcuda_state *state = &vcuda_global;
  if (state->pinned_count == state->pinned_capacity) {
    size_t capacity = state->pinned_capacity == 0 ? 32 : 2 * state->pinned_capacity;
    vcuda_pinned *list = realloc(state->pinned, capacity * sizeof *list);
    if (list == NULL) return false;
    state->pinned = list;
    state->pinned_capacity = capacity;
  }
  size_t at = find_place(start);
  memmove(&state->pinned[at + 1], &state->pinned[at], (state->pinned_count - at) * sizeof *state->pinned);
  state->pinned[at] = (vcuda_pinned){.start = start, .size = size, .mapped = mapped, .device = device->index};
  state->pinned_count++;
  vcuda_count(device, VCUDA_COUNT_pinned_bytes, (int64_t)size);
  return true;
}

static void take_out(vcuda_pinned *pinned) {
  size_t at = (size_t)(pinned - vcuda_global.pinned);
  vcuda_count(vcuda_device_at(pinned->device), VCUDA_COUNT_pinned_bytes, -(int64_t)pinned->size);
  vcuda_race_forget(pinned->start, pinned->size);
  memmove(pinned, pinned + 1, (--vcuda_global.pinned_count - at) * sizeof *pinned);
}

static int allocate(void **address, size_t bytes) {
  vcuda_device *device = vcuda_device_current();
  size_t mapped = (bytes + 4095) / 4096 * 4096;
  int error = vcuda_capture_refuses_unsafe();
  if (error != CUDA_OK || bytes == 0) return error;
  if (vcuda_trigger_fails(&device->settings, VCUDA_SITE_PINNED, (int64_t)bytes, "cudaHostAlloc", false))
    return CUDA_OUT_OF_MEMORY;
  if (mapped < bytes) return CUDA_OUT_OF_MEMORY;
  void *memory = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return CUDA_OUT_OF_MEMORY;
  if (!add(memory, bytes, mapped, device)) {
    (void)munmap(memory, mapped);
    return CUDA_OUT_OF_MEMORY;
  }
  if (device->settings.poison != 0) memset(memory, 0xCD, bytes);
  vcuda_count(device, VCUDA_COUNT_pinned_allocations, 1);
  *address = memory;
  return CUDA_OK;
}

static int allocate_locked(void **address, size_t bytes) {
  if (address == NULL) return CUDA_INVALID_VALUE;
  *address = NULL;
  vcuda_lock();
  int error = allocate(address, bytes);
  vcuda_unlock();
  return error;
}

int cudaHostAlloc(void **address, size_t bytes, unsigned flags) {
  VCUDA_ENTER_DEVICE(NULL);
  return vcuda_end(&call, flags > 7 ? CUDA_INVALID_VALUE : allocate_locked(address, bytes));
}

int cudaMallocHost(void **address, size_t bytes) {
  VCUDA_ENTER_DEVICE(NULL);
  return vcuda_end(&call, allocate_locked(address, bytes));
}

/* Blocks until all work of its device is complete, as in CUDA. */
int cudaFreeHost(void *address) {
  VCUDA_ENTER(NULL);
  vcuda_lock();
  vcuda_pinned *pinned = address == NULL ? NULL : vcuda_pinned_find(address);
  int error = address == NULL                                                     ? CUDA_OK
              : pinned == NULL || pinned->start != address || pinned->mapped == 0 ? CUDA_INVALID_VALUE
                                                                                  : CUDA_OK;
  if (error == CUDA_OK && pinned != NULL) error = vcuda_capture_refuses_unsafe();
  if (error == CUDA_OK && pinned != NULL) {
    vcuda_device *device = vcuda_device_at(pinned->device);
    vcuda_count_sync(device, VCUDA_COUNT_sync_free);
    (void)vcuda_queue_wait_all(device);
    pinned = vcuda_pinned_find(address); /* the list may have been reallocated during the wait */
    if (pinned != NULL) {
      size_t mapped = pinned->mapped;
      take_out(pinned);
      (void)munmap(address, mapped);
    }
    error = vcuda_sticky(device, error);
  }
  vcuda_unlock();
  return vcuda_end(&call, error);
}

int cudaHostGetDevicePointer(void **on_device, void *on_host, unsigned flags) {
  VCUDA_ENTER(NULL);
  vcuda_lock();
  bool known = flags == 0 && vcuda_pinned_find(on_host) != NULL;
  vcuda_unlock();
  *on_device = known ? on_host : NULL;
  return vcuda_end(&call, known ? CUDA_OK : CUDA_INVALID_VALUE);
}

int cudaHostRegister(void *address, size_t bytes, unsigned flags) {
  VCUDA_ENTER_DEVICE(NULL);
  if (address == NULL || bytes == 0 || flags > 15) return vcuda_end(&call, CUDA_INVALID_VALUE);
  vcuda_lock();
  size_t at = find_place(address);
  bool meets = at < vcuda_global.pinned_count && vcuda_global.pinned[at].start < (unsigned char *)address + bytes;
  int error = meets ? CUDA_ALREADY_REGISTERED : add(address, bytes, 0, vcuda_device_current()) ? CUDA_OK : CUDA_OUT_OF_MEMORY;
  vcuda_unlock();
  return vcuda_end(&call, error);
}

int cudaHostUnregister(void *address) {
  VCUDA_ENTER(NULL);
  vcuda_lock();
  vcuda_pinned *pinned = address == NULL ? NULL : vcuda_pinned_find(address);
  bool registered = pinned != NULL && pinned->start == address && pinned->mapped == 0;
  if (registered) take_out(pinned);
  vcuda_unlock();
  return vcuda_end(&call, registered ? CUDA_OK : CUDA_NOT_REGISTERED);
}
