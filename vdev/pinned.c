#define _GNU_SOURCE /* memfd_create */

#include "pinned.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "race.h"
#include "stream.h"

enum { ALIGNMENT = 256 };

static size_t page_size(void) {
  return (size_t)sysconf(_SC_PAGESIZE);
}

static size_t rounded(size_t size, size_t unit) {
  return (size + unit - 1) / unit * unit;
}

/* The same pages at two addresses: one for the host, which can be closed, and one for the device. */
static bool map_twice(vdev_pinned *one, char *reason) {
  size_t size = rounded(one->size, page_size());
  int file = memfd_create("vdev", MFD_CLOEXEC);
  void *start = MAP_FAILED;
  void *alias = MAP_FAILED;
  if (file >= 0 && ftruncate(file, (off_t)size) == 0) {
    start = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    alias = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  }
  bool good = start != MAP_FAILED && alias != MAP_FAILED;
  if (good) {
    one->start = start;
    one->alias = alias;
  } else {
    snprintf(reason, VDEV_TEXT, "vdev: no pinned memory of %zu bytes that can be protected: %s", one->size, strerror(errno));
    if (start != MAP_FAILED) {
      munmap(start, size);
    }
  }
  if (file >= 0) {
    close(file);
  }
  return good;
}

static bool get_memory(const vdev_device *device, vdev_pinned *one, char *reason) {
  if (device->settings.protect_pinned != 0) {
    return map_twice(one, reason);
  }
  one->start = aligned_alloc(ALIGNMENT, rounded(one->size, ALIGNMENT));
  if (one->start == NULL) {
    snprintf(reason, VDEV_TEXT, "vdev: no pinned memory of %zu bytes", one->size);
  }
  return one->start != NULL;
}

static void release_memory(const vdev_pinned *one) {
  if (one->alias == NULL) {
    free(one->start);
    return;
  }
  size_t size = rounded(one->size, page_size());
  munmap(one->start, size);
  munmap(one->alias, size);
}

void *vdev_pinned_allocate(vdev_device *device, size_t bytes, char *reason) {
  vdev_state *state = &vdev_global;
  const vdev_subject subject = {.site = VDEV_SITE_PINNED, .bytes = bytes > INT64_MAX ? INT64_MAX : (int64_t)bytes};
  vdev_host_delay(vdev_fault_delay(&device->settings.faults, &subject));
  if (vdev_fault_fails(&device->settings.faults, &subject)) {
    snprintf(reason, VDEV_TEXT, "vdev:%d: allocation of %zu pinned bytes failed as asked (fail_pinned)", device->index, bytes);
    return NULL;
  }
  if (bytes > device->reserved) {
    snprintf(reason, VDEV_TEXT, "vdev:%d: no pinned memory of %zu bytes: there is no more of it than of device memory, %zu",
             device->index, bytes, device->reserved);
    return NULL;
  }
  if (state->pinned_count == state->pinned_capacity) {
    size_t capacity = state->pinned_capacity == 0 ? 64 : 2 * state->pinned_capacity;
    void *list = realloc(state->pinned, capacity * sizeof *state->pinned);
    if (list == NULL) {
      snprintf(reason, VDEV_TEXT, "vdev: out of host memory");
      return NULL;
    }
    state->pinned = list;
    state->pinned_capacity = capacity;
  }
  vdev_pinned one = {.size = bytes == 0 ? 1 : bytes};
  if (!get_memory(device, &one, reason)) {
    return NULL;
  }
  state->pinned[state->pinned_count++] = one;
  state->protected_count += one.alias != NULL;
  device->statistics.pinned_bytes += (int64_t)one.size;
  return one.start;
}

void vdev_pinned_free(vdev_device *device, void *address) {
  vdev_state *state = &vdev_global;
  if (address == NULL) {
    return;
  }
  vdev_streams_settle();
  for (size_t i = 0; i < state->pinned_count; i++) {
    vdev_pinned one = state->pinned[i];
    if (one.start == address) {
      device->statistics.pinned_bytes -= (int64_t)one.size;
      state->pinned[i] = state->pinned[--state->pinned_count];
      state->protected_count -= one.alias != NULL;
      vdev_race_forget(address, one.size);
      release_memory(&one);
      return;
    }
  }
  device->statistics.errors++;
}

const vdev_pinned *vdev_pinned_find(const void *address, size_t bytes) {
  const unsigned char *at = address;
  for (size_t i = 0; i < vdev_global.pinned_count; i++) {
    const vdev_pinned *one = &vdev_global.pinned[i];
    if (at >= one->start && at < one->start + one->size && bytes <= one->size - (size_t)(at - one->start)) {
      return one;
    }
  }
  return NULL;
}

void *vdev_pinned_device_view(const void *address, size_t bytes, const char *what, char *reason) {
  const vdev_pinned *one = vdev_pinned_find(address, 1);
  if (one == NULL) {
    return (void *)(uintptr_t)address;
  }
  size_t inside = (size_t)((const unsigned char *)address - one->start);
  if (bytes > one->size - inside) {
    snprintf(reason, VDEV_TEXT, "vdev: %s of %zu bytes at offset %zu passes the end of pinned memory of %zu bytes", what, bytes,
             inside, one->size);
    return NULL;
  }
  return (one->alias != NULL ? one->alias : one->start) + inside;
}

bool vdev_pinned_is_open(const void *address, size_t bytes, bool write) {
  const vdev_pinned *one = vdev_global.protected_count == 0 ? NULL : vdev_pinned_find(address, bytes);
  uintptr_t start = (uintptr_t)address;
  for (size_t i = 0; i < vdev_global.access_count && one != NULL && one->alias != NULL; i++) {
    const vdev_access *used = &vdev_global.accesses[i];
    if (used->start < start + bytes && start < used->end && (write || used->write)) {
      return false;
    }
  }
  return true;
}

/* Close the pages that an access covers. A page that it covers in part is left open, for the rest of it may be the host's; what
 * lies behind the memory's end is nobody's. */
static void close_pages(const vdev_pinned *one, const vdev_access *access) {
  size_t page = page_size();
  uintptr_t begin = (uintptr_t)one->start;
  uintptr_t end = begin + one->size;
  if (access->start >= end || access->end <= begin) {
    return;
  }
  uintptr_t first = access->start <= begin ? begin : begin + rounded(access->start - begin, page);
  uintptr_t last = access->end >= end ? begin + rounded(one->size, page) : begin + (access->end - begin) / page * page;
  if (first < last) {
    (void)mprotect((void *)first, last - first, access->write ? PROT_NONE : PROT_READ);
  }
}

void vdev_pinned_protect(void) {
  const vdev_state *state = &vdev_global;
  for (size_t p = 0; p < state->pinned_count && state->protected_count > 0; p++) {
    const vdev_pinned *one = &state->pinned[p];
    if (one->alias == NULL) {
      continue;
    }
    (void)mprotect(one->start, rounded(one->size, page_size()), PROT_READ | PROT_WRITE);
    for (int write = 0; write < 2; write++) { /* what is written is closed whoever reads it besides */
      for (size_t i = 0; i < state->access_count; i++) {
        if (state->accesses[i].write == (write != 0)) {
          close_pages(one, &state->accesses[i]);
        }
      }
    }
  }
}
