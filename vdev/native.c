/* The functions of vdev.h on streams and events. */
#include <stdio.h>

#include "capture.h"
#include "race.h"
#include "stream.h"

static int outcome(bool good, const char *reason) {
  if (!good) {
    vdev_set_error("%s", reason);
  }
  return good ? 0 : -1;
}

static bool check_stream(const vdev_stream *stream, char *reason) {
  bool good = vdev_stream_exists(stream);
  if (!good) {
    snprintf(reason, VDEV_TEXT, "%p is not a stream of this library, or was destroyed", (const void *)stream);
  }
  return good;
}

static bool check_event(const vdev_event *event, char *reason) {
  bool good = vdev_event_exists(event);
  if (!good) {
    snprintf(reason, VDEV_TEXT, "%p is not an event of this library, or was destroyed", (const void *)event);
  }
  return good;
}

static bool permits(const vdev_event *event, const char *what, char *reason) {
  return event->device == NULL || vdev_capture_permits(event->device, what, reason); /* never recorded: it has none */
}

static vdev_device *find_device(int index, char *reason) {
  if (index < 0 || index >= vdev_global.device_count) {
    snprintf(reason, VDEV_TEXT, "no device %d: there are %d", index, vdev_global.device_count);
    return NULL;
  }
  return &vdev_global.devices[index];
}

vdev_stream *vdev_stream_create(int index) {
  char reason[VDEV_TEXT] = "";
  vdev_lock();
  vdev_device *device = find_device(index, reason);
  vdev_stream *stream = device == NULL ? NULL : vdev_stream_open(device, reason);
  vdev_unlock();
  (void)outcome(stream != NULL, reason);
  return stream;
}

void vdev_stream_destroy(vdev_stream *stream) {
  vdev_lock();
  if (vdev_stream_exists(stream)) {
    vdev_stream_close(stream);
  }
  vdev_unlock();
}

int vdev_stream_synchronize(vdev_stream *stream) {
  char reason[VDEV_TEXT] = "";
  vdev_lock();
  bool good = check_stream(stream, reason) && vdev_capture_permits(stream->device, "a wait for a stream", reason) &&
              vdev_stream_drain(stream, reason);
  vdev_unlock();
  return outcome(good, reason);
}

int vdev_stream_wait(vdev_stream *stream, vdev_event *event) {
  char reason[VDEV_TEXT] = "";
  vdev_lock();
  bool good = check_stream(stream, reason) && check_event(event, reason) && vdev_event_order(event, stream, reason);
  vdev_unlock();
  return outcome(good, reason);
}

vdev_event *vdev_event_create(int index) {
  char reason[VDEV_TEXT] = "out of host memory";
  vdev_lock();
  vdev_device *device = find_device(index, reason);
  vdev_event *event = device == NULL ? NULL : vdev_event_open();
  vdev_unlock();
  (void)outcome(event != NULL, reason);
  return event;
}

void vdev_event_destroy(vdev_event *event) {
  vdev_lock();
  if (vdev_event_exists(event)) {
    vdev_event_close(event);
  }
  vdev_unlock();
}

int vdev_event_record(vdev_event *event, vdev_stream *stream) {
  char reason[VDEV_TEXT] = "";
  vdev_lock();
  bool good = check_event(event, reason) && check_stream(stream, reason);
  if (good) {
    vdev_event_mark(event, stream);
  }
  vdev_unlock();
  return outcome(good, reason);
}

int vdev_event_wait(vdev_event *event) {
  char reason[VDEV_TEXT] = "";
  vdev_lock();
  bool good = check_event(event, reason) && permits(event, "a wait for an event", reason) && vdev_event_await(event, reason);
  vdev_unlock();
  return outcome(good, reason);
}

int vdev_event_query(vdev_event *event) {
  char reason[VDEV_TEXT] = "";
  vdev_lock();
  bool good = check_event(event, reason) && permits(event, "a query of an event", reason);
  bool passed = good && vdev_event_has_passed(event);
  vdev_unlock();
  return good ? passed : outcome(good, reason);
}

int vdev_host_access(const void *data, size_t bytes, int write) {
  char reason[VDEV_TEXT] = "data is NULL";
  vdev_lock();
  bool good = data != NULL || bytes == 0;
  if (good && vdev_global.device_count > 0) {
    const vdev_touched span = {data, bytes, write != 0};
    good = vdev_race_access(&vdev_global.devices[0], NULL, span, "an access of the program", reason);
  }
  vdev_unlock();
  return outcome(good, reason);
}
