#include "device.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"
#include "pinned.h"
#include "stream.h"
#include "system.h"
#include "trace.h"

vdev_state vdev_global = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static _Thread_local char last_error[VDEV_TEXT];

void vdev_set_error(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(last_error, sizeof last_error, format, arguments);
  va_end(arguments);
}

const char *vdev_last_error(void) {
  return last_error;
}

bool vdev_refuse(vdev_device *device, char *reason, const char *format, ...) {
  va_list arguments;
  int length = snprintf(reason, VDEV_TEXT, "vdev:%d: ", device->index);
  va_start(arguments, format);
  vsnprintf(reason + length, VDEV_TEXT - (size_t)length, format, arguments);
  va_end(arguments);
  device->statistics.errors++;
  return false;
}

bool vdev_admit(vdev_device *device, const vdev_subject *subject, vdev_effect *effect, char *reason) {
  if (!vdev_fault_strikes(&device->settings.faults, subject, effect)) {
    return true;
  }
  char bytes[48] = "";
  if (vdev_site_has_bytes(subject->site)) {
    snprintf(bytes, sizeof bytes, " of %lld bytes", (long long)subject->bytes);
  }
  return vdev_refuse(device, reason, "%s%s%s failed as asked (%s)", subject->site == VDEV_SITE_COMPUTE ? "kernel " : "",
                     subject->what, bytes, vdev_fault_name(subject->site));
}

bool vdev_is_virtual_clock(void) {
  return vdev_global.devices[0].settings.virtual_clock != 0;
}

int64_t vdev_later(int64_t time, int64_t duration) {
  return time > INT64_MAX - duration ? INT64_MAX : time + duration;
}

int64_t vdev_now(void) {
  if (vdev_is_virtual_clock()) {
    return vdev_global.host_time;
  }
  return vdev_later(vdev_global.clock_offset, vdev_system_time());
}

/* When the clock is changed, time goes on: everything modelled so far is in the past. */
static void change_clock(int64_t is_virtual) {
  vdev_state *state = &vdev_global;
  if (is_virtual == vdev_is_virtual_clock()) {
    return;
  }
  int64_t latest = vdev_now();
  for (int i = 0; i < VDEV_MAX_STREAMS; i++) {
    const vdev_stream *stream = state->streams[i];
    latest = stream != NULL && stream->tail > latest ? stream->tail : latest;
  }
  for (int i = 0; i < state->device_count; i++) {
    vdev_device *device = &state->devices[i];
    for (int engine = 0; engine < VDEV_ENGINES; engine++) {
      latest = device->engine_free[engine] > latest ? device->engine_free[engine] : latest;
    }
    device->settings.virtual_clock = is_virtual; /* all devices share one clock */
  }
  state->host_time = latest;
  state->clock_offset = latest - vdev_system_time();
}

static void remove_devices(void) {
  while (vdev_global.device_count > 0) {
    vdev_memory_unreserve(&vdev_global.devices[--vdev_global.device_count]);
  }
}

bool vdev_start(const vdev_settings *settings) {
  vdev_lock();
  vdev_spans_init(&vdev_global.pinned, 0, SIZE_MAX);
  bool good = true;
  for (int i = 0; i < (int)settings->devices && good; i++) {
    vdev_device *device = &vdev_global.devices[i];
    memset(device, 0, sizeof *device);
    device->index = i;
    device->settings = *settings;
    good = vdev_memory_reserve(device);
    vdev_global.device_count += good;
  }
  if (!good) {
    remove_devices();
  }
  vdev_unlock();
  return good;
}

void vdev_stop(void) {
  vdev_lock();
  vdev_state *state = &vdev_global;
  for (int i = 0; i < VDEV_MAX_STREAMS; i++) {
    if (state->streams[i] != NULL) {
      vdev_stream_close(state->streams[i]); /* a program may have forgotten a stream: its thread must not outlive the library */
    }
  }
  remove_devices();
  vdev_pinned_forget();
  free(state->accesses);
  state->accesses = NULL;
  state->access_count = state->access_capacity = 0;
  vdev_trace_clear();
  vdev_unlock();
}

int vdev_device_count(void) {
  vdev_lock();
  int count = vdev_global.device_count;
  vdev_unlock();
  return count;
}

static vdev_device *device_of(int index) {
  if (index < 0 || index >= vdev_global.device_count) {
    vdev_set_error("no device %d: there are %d", index, vdev_global.device_count);
    return NULL;
  }
  return &vdev_global.devices[index];
}

int vdev_set(int index, const char *name, const char *value) {
  vdev_lock();
  vdev_device *device = device_of(index);
  bool good = false;
  if (device != NULL) {
    char reason[VDEV_TEXT] = "a setting has a name and a value, and neither is NULL";
    int64_t was_virtual = device->settings.virtual_clock;
    good = name != NULL && value != NULL && vdev_settings_change(&device->settings, name, value, reason);
    if (!good) {
      vdev_set_error("%s", reason);
    }
    int64_t is_virtual = device->settings.virtual_clock;
    device->settings.virtual_clock = was_virtual;
    change_clock(is_virtual);
  }
  vdev_unlock();
  return good ? 0 : -1;
}

static int64_t statistic(const vdev_device *device, const char *name) {
  const struct {
    const char *name;
    int64_t value;
  } list[] = {{"h2d_bytes", device->statistics.bytes[VDEV_UPLOAD]},
              {"h2d_count", device->statistics.count[VDEV_UPLOAD]},
              {"d2h_bytes", device->statistics.bytes[VDEV_DOWNLOAD]},
              {"d2h_count", device->statistics.count[VDEV_DOWNLOAD]},
              {"d2d_bytes", device->statistics.bytes[VDEV_LOCAL]},
              {"d2d_count", device->statistics.count[VDEV_LOCAL]},
              {"peer_bytes", device->statistics.peer_bytes},
              {"peer_count", device->statistics.peer_count},
              {"kernels", device->statistics.count[VDEV_COMPUTE]},
              {"allocations", device->statistics.allocations},
              {"live_bytes", device->statistics.live_bytes},
              {"live_blocks", device->statistics.live_blocks},
              {"peak_bytes", device->statistics.peak_bytes},
              {"pinned_bytes", device->statistics.pinned_bytes},
              {"races", device->statistics.races},
              {"errors", device->statistics.errors},
              {"graph_captures", device->statistics.graph_captures},
              {"graph_replays", device->statistics.graph_replays},
              {"graph_launches", device->statistics.graph_launches},
              {"h2d_ns", device->statistics.busy[VDEV_UPLOAD]},
              {"d2h_ns", device->statistics.busy[VDEV_DOWNLOAD]},
              {"d2d_ns", device->statistics.busy[VDEV_LOCAL]},
              {"kernels_ns", device->statistics.busy[VDEV_COMPUTE]},
              {"clock_is_virtual", vdev_is_virtual_clock()},
              {"time_ns", vdev_now()}};
  for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
    if (strcmp(list[i].name, name) == 0) {
      return list[i].value;
    }
  }
  vdev_set_error("no statistic '%.80s'", name);
  return -1;
}

int64_t vdev_get(int index, const char *name) {
  vdev_lock();
  const vdev_device *device = device_of(index);
  int64_t value = device == NULL ? -1 : statistic(device, name == NULL ? "" : name);
  vdev_unlock();
  return value;
}

int vdev_reset(int index) {
  vdev_lock();
  vdev_device *device = device_of(index);
  if (device != NULL) {
    int64_t live_bytes = device->statistics.live_bytes;
    int64_t live_blocks = device->statistics.live_blocks;
    int64_t pinned_bytes = device->statistics.pinned_bytes;
    memset(&device->statistics, 0, sizeof device->statistics);
    device->statistics.live_bytes = live_bytes;
    device->statistics.live_blocks = live_blocks;
    device->statistics.peak_bytes = live_bytes;
    device->statistics.pinned_bytes = pinned_bytes;
  }
  vdev_unlock();
  return device == NULL ? -1 : 0;
}
