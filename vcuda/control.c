/* vcuda's own interface: settings and counters. */
#include <stdio.h>
#include <string.h>

#include "state.h"
#include "vcuda.h"

#define NAME(name) #name,
static const char *const counter_names[VCUDA_COUNTERS] = {VCUDA_COUNTED(NAME) VCUDA_LIVE(NAME)};
#undef NAME

enum { FIRST_LIVE = VCUDA_COUNT_errors + 1 };

static vcuda_device *find(int device) {
  vcuda_start();
  return vcuda_device_at(device);
}

int vcuda_set(int device, const char *name, const char *value) {
  vcuda_device *found = find(device);
  if (found == NULL || name == NULL || value == NULL) return -1;
  vcuda_lock();
  bool set = vcuda_settings_set(&found->settings, name, value, false);
  vcuda_trace_follow_settings();
  vcuda_unlock();
  return set ? 0 : -1;
}

int64_t vcuda_get(int device, const char *name) {
  vcuda_device *found = find(device);
  int64_t value = -1;
  if (found == NULL || name == NULL) return -1;
  vcuda_lock();
  for (int i = 0; i < VCUDA_COUNTERS; i++) {
    if (strcmp(counter_names[i], name) == 0) value = found->counters[i];
  }
  vcuda_unlock();
  return value;
}

int vcuda_reset(int device) {
  vcuda_device *found = find(device);
  if (found == NULL) return -1;
  vcuda_lock();
  memset(found->counters, 0, FIRST_LIVE * sizeof found->counters[0]);
  found->counters[VCUDA_COUNT_peak_bytes] = found->counters[VCUDA_COUNT_live_bytes];
  vcuda_unlock();
  return 0;
}

int vcuda_recover(int device) {
  vcuda_device *found = find(device);
  if (found == NULL) return -1;
  vcuda_lock();
  (void)vcuda_queue_wait_all(found);
  int error = found->error;
  found->error = CUDA_OK;
  vcuda_unlock();
  return error;
}

/* The host's access is ordered only after work that the host has waited for. */
int vcuda_host_access(const void *data, size_t bytes, int write) {
  vcuda_start();
  vcuda_lock();
  const vcuda_pinned *pinned = vcuda_pinned_find(data);
  vcuda_device *device = vcuda_device_at(pinned == NULL ? 0 : pinned->device);
  int64_t races = device == NULL ? 0 : device->counters[VCUDA_COUNT_races];
  if (device != NULL && bytes > 0 && device->settings.race != 0) {
    const vcuda_access access = {.start = (uintptr_t)data,
                                 .end = (uintptr_t)data + bytes,
                                 .clock = ++vcuda_global.host_clocks[0],
                                 .what = "an access of the host",
                                 .write = write != 0};
    (void)vcuda_race_access(device, &access, vcuda_global.host_clocks, NULL);
  }
  bool raced = device != NULL && device->counters[VCUDA_COUNT_races] != races;
  vcuda_unlock();
  return raced ? -1 : 0;
}
