/* Streams and events. Today every device is driven synchronously, or by its EP's own queue (WebGPU), in the order of the
 * calls: a stream is that order, and an event is passed when the device has been waited for since it was recorded. */
#ifndef IOBIND_MEMORY_STREAM_H
#define IOBIND_MEMORY_STREAM_H

#include "runtime/runtime.h"

struct iobind_stream {
  iobind_device *device;
};

struct iobind_event {
  iobind_device *device;
  atomic_bool pending; /* recorded on a queued device, and nobody has waited since */
};

/* Wait on the host until a queued device has done all that was submitted; nothing on any other device. */
iobind_status iobind__device_wait(iobind_device *device, iobind_error *error);

/* What was submitted on `device` so far comes before the event. NULL event: nothing to do. */
void iobind__event_record_now(iobind_event *event, iobind_device *device, bool finished);

/* Order work that is submitted on `device` next behind the event. */
iobind_status iobind__event_order(iobind_event *event, const iobind_device *device, iobind_error *error);

#endif
