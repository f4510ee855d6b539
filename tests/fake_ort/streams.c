/* Streams and events. */
#include <stddef.h>

#include "scenario.h"
#include "iobind/interop.h"
#include "vdev.h"
#include "../rig/calls.h"

static void make_stream(struct rig *rig) {
  NEED(rig, iobind_stream_create(rig->device, NULL, &rig->stream, &rig->error));
}

/* A stream with a copy on it, and an event. */
static void make_work(struct rig *rig) {
  make_stream(rig);
  NEED(rig, iobind_event_create(rig->device, &rig->event, &rig->error));
  rig->x = rig_floats(rig, rig->device, rig_ones, RIG_VALUES);
  NEED(rig, iobind_tensor_write(rig->x, 0, rig_twos, sizeof rig_twos, rig->stream, &rig->error));
}

static void make_recorded(struct rig *rig) {
  make_work(rig);
  NEED(rig, iobind_event_record(rig->event, rig->stream, &rig->error));
}

static void make_second_stream(struct rig *rig) {
  make_recorded(rig);
  NEED(rig, iobind_stream_create(rig->device, NULL, &rig->second_stream, &rig->error));
}

static void work_is_done(struct rig *rig) {
  NEED(rig, iobind_stream_synchronize(rig->stream, &rig->error));
  rig_expect(rig, rig->x, rig_twos, RIG_VALUES);
}

static iobind_status create(struct rig *rig) {
  return iobind_stream_create(rig->device, NULL, &rig->stream, &rig->error);
}

static void stream_works(struct rig *rig) {
  NEED(rig, iobind_stream_synchronize(rig->stream, &rig->error));
}

static iobind_status destroy(struct rig *rig) {
  iobind_stream_destroy(rig->stream);
  rig->stream = NULL;
  return IOBIND_OK;
}

static iobind_status synchronize(struct rig *rig) {
  return iobind_stream_synchronize(rig->stream, &rig->error);
}

static iobind_status wait_on_stream(struct rig *rig) {
  return iobind_stream_wait(rig->stream, rig->event, &rig->error);
}

static iobind_status wait_on_second(struct rig *rig) {
  return iobind_stream_wait(rig->second_stream, rig->event, &rig->error);
}

static iobind_status create_event(struct rig *rig) {
  return iobind_event_create(rig->device, &rig->event, &rig->error);
}

static iobind_status destroy_event(struct rig *rig) {
  iobind_event_destroy(rig->event);
  rig->event = NULL;
  return IOBIND_OK;
}

static iobind_status record(struct rig *rig) {
  return iobind_event_record(rig->event, rig->stream, &rig->error);
}

static iobind_status wait_event(struct rig *rig) {
  return iobind_event_wait(rig->event, IOBIND_NO_TIMEOUT, &rig->error);
}

/* Until it is signaled: where the EP cannot be asked, a thread of the library waits for it. */
static iobind_status wait_event_for(struct rig *rig) {
  return iobind_event_wait(rig->event, UINT64_MAX / 4, &rig->error);
}

static iobind_status query(struct rig *rig) {
  iobind_status status = IOBIND_OK;
  for (rig->done = 0; status == IOBIND_OK && rig->done == 0;) {
    status = iobind_event_query(rig->event, &rig->done, &rig->error);
  }
  return status;
}

static iobind_status get_native(struct rig *rig) {
  rig->data = call_stream_get_native(rig->stream);
  return IOBIND_OK;
}

static void has_native(struct rig *rig) {
  NEED_TRUE((rig->data != NULL) == (rig->place == ON_VDEV));
}

static iobind_native native_of(void *handle) {
  iobind_native native = IOBIND_NATIVE_INIT;
  native.kind = IOBIND_NATIVE_VDEV;
  native.handle = handle;
  return native;
}

static iobind_status wrap(struct rig *rig) {
  iobind_native native = native_of(call_stream_get_native(rig->stream));
  return iobind_stream_wrap(rig->device, &native, NULL, NULL, &rig->second_stream, &rig->error);
}

static iobind_native event_of_the_device(void) {
  static vdev_event *event; /* the only one, for all scenarios */
  event = event == NULL ? vdev_event_create(0) : event;
  return native_of(event);
}

static iobind_status signal_native(struct rig *rig) {
  iobind_native native = event_of_the_device();
  return iobind_stream_signal_native(rig->stream, &native, &rig->error);
}

static iobind_status wait_native(struct rig *rig) {
  iobind_native native = event_of_the_device();
  return iobind_stream_wait_native(rig->stream, &native, &rig->error);
}

const struct scenario stream_scenarios[] = {
    {.function = "iobind_stream_wrap",
     .variant = "",
     .places = ON_VDEV,
     .prepare = make_work,
     .call = wrap,
     .out = OUT(second_stream),
     .right = work_is_done},
    {.function = "iobind_stream_signal_native",
     .variant = "",
     .places = ON_VDEV,
     .prepare = make_work,
     .call = signal_native,
     .right = work_is_done},
    {.function = "iobind_stream_wait_native",
     .variant = "",
     .places = ON_VDEV,
     .prepare = make_work,
     .call = wait_native,
     .right = work_is_done},
    {.function = "iobind_stream_create",
     .variant = "",
     .places = ON_ALL,
     .call = create,
     .out = OUT(stream),
     .right = stream_works},

    {.function = "iobind_stream_destroy", .variant = "", .places = ON_ALL, .prepare = make_work, .call = destroy, .last = true},
    {.function = "iobind_stream_synchronize",
     .variant = "",
     .places = ON_ALL,
     .prepare = make_work,
     .call = synchronize,
     .right = work_is_done},
    {.function = "iobind_stream_wait",
     .variant = "",
     .places = ON_ALL,
     .prepare = make_recorded,
     .call = wait_on_stream,
     .right = work_is_done},
    {.function = "iobind_stream_wait",
     .variant = "for another stream",
     .places = ON_ALL,
     .prepare = make_second_stream,
     .call = wait_on_second,
     .right = work_is_done},
    {.function = "iobind_stream_get_native",
     .variant = "",
     .places = ON_ALL,
     .prepare = make_stream,
     .call = get_native,
     .right = has_native},
    {.function = "iobind_event_create", .variant = "", .places = ON_ALL, .call = create_event, .out = OUT(event)},
    {.function = "iobind_event_destroy",
     .variant = "",
     .places = ON_ALL,
     .prepare = make_recorded,
     .call = destroy_event,
     .last = true},
    {.function = "iobind_event_record",
     .variant = "",
     .places = ON_ALL,
     .prepare = make_work,
     .call = record,
     .right = work_is_done},
    {.function = "iobind_event_record",
     .variant = "again",
     .places = ON_VDEV,
     .prepare = make_recorded,
     .call = record,
     .right = work_is_done},
    {.function = "iobind_event_wait",
     .variant = "",
     .places = ON_ALL,
     .prepare = make_recorded,
     .call = wait_event,
     .right = work_is_done},
    {.function = "iobind_event_wait",
     .variant = "with a timeout",
     .places = ON_ALL,
     .prepare = make_recorded,
     .call = wait_event_for,
     .right = work_is_done},
    {.function = "iobind_event_query",
     .variant = "",
     .places = ON_ALL,
     .prepare = make_recorded,
     .call = query,
     .right = work_is_done},
    {.function = NULL},
};
