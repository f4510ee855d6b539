/* Streams and events. On a device with streams of its own they are the EP's: an event is the EP's notification, which ORT lends to
 * an application through its plugin interface, so that no vendor's call is needed. On any other device a stream is the order of the
 * calls, and an event is passed when the device has been waited for since it was recorded. */
#ifndef IOBIND_MEMORY_STREAM_H
#define IOBIND_MEMORY_STREAM_H

#include "runtime/runtime.h"

struct iobind_stream {
  iobind_device *device;
  OrtSyncStream *sync; /* NULL: the device has none */
};

struct iobind_event {
  iobind_device *device;
  OrtSyncNotificationImpl *notification; /* of the stream that it was recorded on; NULL: none, or a device without streams */
  atomic_bool pending;                   /* recorded on a queued device, and nobody has waited since */
};

/* Wait on the host until a queued device has done all that was submitted; nothing on any other device. */
iobind_status iobind__device_wait(iobind_device *device, iobind_error *error);

/* Wait on the host for what is on a stream; NULL is no stream. */
iobind_status iobind__stream_drain(iobind_stream *stream, iobind_error *error);

/* The run, which has finished unless the device is queued and `finished` is false, comes before the event. */
void iobind__event_record_run(iobind_event *event, bool finished);

/* Order work that is submitted on `device` next behind the event. */
iobind_status iobind__event_order(iobind_event *event, const iobind_device *device, iobind_error *error);

#endif
