#include "pinned.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "race.h"
#include "stream.h"
#include "system.h"

enum { ALIGNMENT = 256 };

static size_t rounded(size_t size, size_t unit) {
  return (size + unit - 1) / unit * unit;
}

/* One address for the host, which can be closed, and one for the device. False: errno says why. */
static bool map_twice(vdev_pinned *one) {
  void *views[2];
  if (!vdev_pages_twice(rounded(one->size, vdev_page_size()), views)) {
    return false;
  }
  one->start = views[0];
  one->alias = views[1];
  return true;
}

static bool get_memory(const vdev_device *device, vdev_pinned *one) {
  if (device->settings.protect_pinned != 0) {
    return map_twice(one);
  }
  one->start = vdev_aligned_allocate(ALIGNMENT, rounded(one->size, ALIGNMENT));
  return one->start != NULL;
}

static void release_memory(const vdev_pinned *one) {
  if (one->alias == NULL) {
    vdev_aligned_free(one->start);
    return;
  }
  void *const views[2] = {one->start, one->alias};
  vdev_pages_untwice(rounded(one->size, vdev_page_size()), views);
}

static void forget(vdev_pinned *one) {
  vdev_spans_remove(&vdev_global.pinned, &one->span);
  vdev_global.protected_count -= one->alias != NULL;
  free(one);
}

void vdev_pinned_forget(void) {
  for (vdev_span *span; (span = vdev_spans_behind(&vdev_global.pinned, 0)) != NULL;) {
    forget((vdev_pinned *)span);
  }
}

void *vdev_pinned_allocate(vdev_device *device, size_t bytes, char *reason) {
  const vdev_subject subject = {
      .site = VDEV_SITE_PINNED, .what = "pinned allocation", .bytes = bytes > INT64_MAX ? INT64_MAX : (int64_t)bytes};
  vdev_effect effect = {0};
  if (!vdev_admit(device, &subject, &effect, reason)) {
    return NULL;
  }
  vdev_host_delay(effect.delay_ns);
  if (bytes > device->reserved) {
    (void)vdev_refuse(device, reason, "no pinned memory of %zu bytes: there is no more of it than of device memory, %zu", bytes,
                      device->reserved);
    return NULL;
  }
  vdev_pinned *one = calloc(1, sizeof *one);
  if (one != NULL) {
    one->size = bytes == 0 ? 1 : bytes;
  }
  if (one == NULL || !get_memory(device, one)) {
    (void)vdev_refuse(device, reason, "no pinned memory of %zu bytes: %s", bytes, strerror(errno));
    free(one);
    return NULL;
  }
  one->span.start = (size_t)(uintptr_t)one->start;
  one->span.room = one->size;
  vdev_spans_insert(&vdev_global.pinned, &one->span);
  vdev_global.protected_count += one->alias != NULL;
  device->statistics.pinned_bytes += (int64_t)one->size;
  return one->start;
}

static vdev_pinned *pinned_before(const void *address) {
  return (vdev_pinned *)vdev_spans_before(&vdev_global.pinned, (size_t)(uintptr_t)address);
}

void vdev_pinned_free(vdev_device *device, void *address) {
  if (address == NULL) {
    return;
  }
  vdev_streams_wait();
  vdev_pinned *one = pinned_before(address);
  if (one == NULL || one->start != address) {
    device->statistics.errors++;
    return;
  }
  device->statistics.pinned_bytes -= (int64_t)one->size;
  vdev_race_forget(address, one->size);
  release_memory(one);
  forget(one);
}

const vdev_pinned *vdev_pinned_find(const void *address, size_t bytes) {
  const vdev_pinned *one = pinned_before(address);
  size_t inside = one == NULL ? 0 : (size_t)((const unsigned char *)address - one->start);
  return one != NULL && inside < one->size && bytes <= one->size - inside ? one : NULL;
}

void *vdev_pinned_device_view(vdev_device *device, const void *address, size_t bytes, const char *what, char *reason) {
  const vdev_pinned *one = vdev_pinned_find(address, 1);
  if (one == NULL) {
    return (void *)(uintptr_t)address;
  }
  size_t inside = (size_t)((const unsigned char *)address - one->start);
  if (bytes > one->size - inside) {
    (void)vdev_refuse(device, reason, "%s of %zu bytes at offset %zu passes the end of pinned memory of %zu bytes", what, bytes,
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

/* Close the pages that an access covers whole. A page that it covers in part stays open, because the rest of the page may be in
 * use by the host; what lies after the memory's end is not used. */
static void close_pages(const vdev_pinned *one, const vdev_access *access) {
  size_t page = vdev_page_size();
  uintptr_t begin = (uintptr_t)one->start;
  uintptr_t end = begin + one->size;
  if (access->start >= end || access->end <= begin) {
    return;
  }
  uintptr_t first = access->start <= begin ? begin : begin + rounded(access->start - begin, page);
  uintptr_t last = access->end >= end ? begin + rounded(one->size, page) : begin + (access->end - begin) / page * page;
  if (first < last) {
    vdev_pages_protect((void *)first, last - first, access->write ? VDEV_PAGE_CLOSED : VDEV_PAGE_READABLE);
  }
}

static void protect(const vdev_pinned *one) {
  const vdev_state *state = &vdev_global;
  vdev_pages_protect(one->start, rounded(one->size, vdev_page_size()), VDEV_PAGE_WRITABLE);
  for (int write = 0; write < 2; write++) { /* memory that is written is closed, even if other work reads it as well */
    for (size_t i = 0; i < state->access_count; i++) {
      if (state->accesses[i].write == (write != 0)) {
        close_pages(one, &state->accesses[i]);
      }
    }
  }
}

void vdev_pinned_protect(void) {
  if (vdev_global.protected_count == 0) {
    return;
  }
  for (vdev_span *span = vdev_spans_behind(&vdev_global.pinned, 0); span != NULL;
       span = vdev_spans_behind(&vdev_global.pinned, span->start + 1)) {
    const vdev_pinned *one = (const vdev_pinned *)span;
    if (one->alias != NULL) {
      protect(one);
    }
  }
}
