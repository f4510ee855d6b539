/* Events: each holds a point in a stream for the caller. */
#include <stdlib.h>

#include "memory/stream.h"

static void free_event(iobind__ref *ref) {
  iobind_event *event = (iobind_event *)ref;
  iobind_runtime *runtime = event->device->runtime;
  iobind__point_release(event->point);
  pthread_mutex_destroy(&event->mutex);
  free(event);
  iobind__ref_release(&runtime->ref);
}

iobind_status iobind_event_create(iobind_device *device, iobind_event **event, iobind_error *error) {
  if (event != NULL) {
    *event = NULL;
  }
  IOBIND__TRY(iobind__null_check(device, "device", "event_create", error));
  IOBIND__TRY(iobind__null_check(event, "event", "event_create", error));
  iobind_event *made = calloc(1, sizeof *made);
  if (made == NULL) {
    return iobind__out_of_memory(error, "event_create");
  }
  iobind__ref_init(&made->ref, free_event);
  made->device = device;
  pthread_mutex_init(&made->mutex, NULL);
  iobind__ref_retain(&device->runtime->ref);
  *event = made;
  return IOBIND_OK;
}

iobind_event *iobind__event_retain(iobind_event *event) {
  iobind__ref_retain(&event->ref);
  return event;
}

void iobind__event_release(iobind_event *event) {
  if (event != NULL) {
    iobind__ref_release(&event->ref);
  }
}

void iobind_event_destroy(iobind_event *event) {
  iobind__event_release(event);
}

/* Set the event's point, and take ownership of the reference. NULL: complete. */
static void set_point(iobind_event *event, iobind__point *point) {
  pthread_mutex_lock(&event->mutex);
  iobind__point *old = event->point;
  event->point = point;
  pthread_mutex_unlock(&event->mutex);
  iobind__point_release(old);
}

iobind__point *iobind__event_point(iobind_event *event) {
  pthread_mutex_lock(&event->mutex);
  iobind__point *point = event->point;
  if (point != NULL) {
    iobind__ref_retain(&point->ref);
  }
  pthread_mutex_unlock(&event->mutex);
  return point;
}

static iobind_status record(iobind_event *event, iobind_stream *stream, iobind_error *error) {
  IOBIND__TRY(iobind__null_check(event, "event", "event_record", error));
  IOBIND__TRY(iobind__null_check(stream, "stream", "event_record", error));
  IOBIND__TRY(iobind__process_check("event_record", error));
  if (event->device != stream->device) {
    return iobind__fail(error, IOBIND_ERROR_WRONG_DEVICE, "event_record: expected a stream of '%s', got one of '%s'",
                        event->device->spec, stream->device->spec);
  }
  iobind__point *point;
  IOBIND__TRY(iobind__point_make(stream, &point, error));
  set_point(event, point);
  return IOBIND_OK;
}

iobind_status iobind_event_record(iobind_event *event, iobind_stream *stream, iobind_error *error) {
  return iobind__named(record(event, stream, error), error, "event_record");
}

iobind_status iobind__stream_order_event(iobind_stream *stream, iobind_event *event, iobind_error *error) {
  iobind__event_retain(event); /* the owner may destroy the event while this thread waits */
  iobind__point *point = iobind__event_point(event);
  iobind_status status = iobind__stream_order(stream, point, error);
  iobind__point_release(point);
  iobind__event_release(event);
  return status;
}

iobind_status iobind_event_wait(iobind_event *event, uint64_t timeout_ns, iobind_error *error) {
  IOBIND__TRY(iobind__null_check(event, "event", "event_wait", error));
  IOBIND__TRY(iobind__process_check("event_wait", error));
  if (timeout_ns == IOBIND_NO_TIMEOUT) {
    return iobind__named(iobind__stream_order_event(NULL, event, error), error, "event_wait");
  }
  uint64_t until = iobind__deadline(timeout_ns);
  iobind__point *point = iobind__event_point(event);
  iobind_status status = point == NULL ? IOBIND_OK : iobind__point_wait_until(point, until, error);
  iobind__point_release(point);
  return iobind__named(status, error, "event_wait");
}

/* Poll a point without blocking. */
static iobind_status query(iobind__point *point, int32_t *done, iobind_error *error) {
  if (iobind__point_passed(point)) {
    *done = 1;
    return iobind__point_wait(point, error); /* returns at once: for the error, and for memory order */
  }
  if (atomic_load(&point->watch) == IOBIND__WATCH_REFUSED) {
    IOBIND__TRY(iobind__point_wait(point, error));
    *done = 1;
    return IOBIND_OK;
  }
  return iobind__point_watch(point, error);
}

iobind_status iobind_event_query(iobind_event *event, int32_t *done, iobind_error *error) {
  IOBIND__TRY(iobind__null_check(done, "done", "event_query", error));
  IOBIND__TRY(iobind__null_check(event, "event", "event_query", error));
  IOBIND__TRY(iobind__process_check("event_query", error));
  *done = 0;
  iobind__point *point = iobind__event_point(event);
  if (point == NULL) {
    *done = 1;
    return IOBIND_OK;
  }
  iobind_status status = query(point, done, error);
  iobind__point_release(point);
  return iobind__named(status, error, "event_query");
}

iobind_status iobind_stream_wait(iobind_stream *stream, iobind_event *event, iobind_error *error) {
  IOBIND__TRY(iobind__null_check(stream, "stream", "stream_wait", error));
  IOBIND__TRY(iobind__null_check(event, "event", "stream_wait", error));
  IOBIND__TRY(iobind__process_check("stream_wait", error));
  return iobind__named(iobind__stream_order_event(stream, event, error), error, "stream_wait");
}
