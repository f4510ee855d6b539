#include "memory/stream.h"

#include <stdlib.h>

#include "memory/allocator.h"
#include "support/options.h"

/* ---- devices that queue by themselves ---- */

/* Four bytes on the device: copying them back comes after everything that was queued before. */
static iobind_status get_fence(iobind_device *device, OrtValue **fence, iobind_error *error) {
  *fence = atomic_load_explicit(&device->fence, memory_order_acquire);
  if (*fence != NULL) {
    return IOBIND_OK;
  }
  static const int64_t one = 1;
  void *data;
  IOBIND__TRY(iobind__place_allocate(&device->places[IOBIND_MEMORY_DEFAULT], ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &one, 1,
                                     sizeof(float), fence, &data, error));
  OrtValue *expected = NULL;
  if (!atomic_compare_exchange_strong(&device->fence, &expected, *fence)) {
    iobind__device_enter(device);
    IOBIND__API(device->runtime)->ReleaseValue(*fence); /* another thread was first */
    iobind__device_leave(device);
    *fence = expected;
  }
  return IOBIND_OK;
}

iobind_status iobind__device_wait(iobind_device *device, iobind_error *error) {
  if (!device->queued) {
    return IOBIND_OK;
  }
  const OrtApi *api = IOBIND__API(device->runtime);
  OrtValue *fence;
  IOBIND__TRY(get_fence(device, &fence, error));
  static const int64_t one = 1;
  float sink = 0;
  OrtValue *target = NULL;
  IOBIND__ORT_TRY(api,
                  api->CreateTensorWithDataAsOrtValue(device->runtime->cpu_info, &sink, sizeof sink, &one, 1,
                                                      ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &target),
                  error, "wait for '%s'", device->spec);
  const OrtValue *source = fence;
  iobind__device_enter(device);
  OrtStatus *status = api->CopyTensors(device->runtime->env, &source, &target, NULL, 1);
  iobind__device_leave(device);
  api->ReleaseValue(target);
  return status == NULL ? IOBIND_OK : iobind__ort_fail(api, status, error, "wait for '%s'", device->spec);
}

/* ---- the EP's streams ---- */

static iobind_status make_notification(const iobind_stream *stream, OrtSyncNotificationImpl **notification,
                                       iobind_error *error) {
  const OrtApi *api = IOBIND__API(stream->device->runtime);
  const OrtSyncStreamImpl *lent = api->GetEpApi()->SyncStream_GetImpl(stream->sync);
  if (lent == NULL) {
    return iobind__fail(error, IOBIND_NOT_SUPPORTED, "stream of '%s': its execution provider has no events",
                        stream->device->spec);
  }
  OrtSyncStreamImpl *impl = (OrtSyncStreamImpl *)(uintptr_t)lent; /* ORT lends it const, its calls are not */
  IOBIND__ORT_TRY(api, impl->CreateNotification(impl, notification), error, "event on '%s'", stream->device->spec);
  OrtStatus *status = (*notification)->Activate(*notification);
  if (status != NULL) {
    (*notification)->Release(*notification);
    *notification = NULL;
    return iobind__ort_fail(api, status, error, "event on '%s'", stream->device->spec);
  }
  return IOBIND_OK;
}

static iobind_status wait_notification(const iobind_device *device, OrtSyncNotificationImpl *notification,
                                       iobind_error *error) {
  IOBIND__ORT_TRY(IOBIND__API(device->runtime), notification->WaitOnHost(notification), error, "wait for '%s'", device->spec);
  return IOBIND_OK;
}

iobind_status iobind__stream_drain(iobind_stream *stream, iobind_error *error) {
  if (stream == NULL || stream->sync == NULL) {
    return stream == NULL ? IOBIND_OK : iobind__device_wait(stream->device, error);
  }
  OrtSyncNotificationImpl *end = NULL;
  IOBIND__TRY(make_notification(stream, &end, error));
  iobind_status status = wait_notification(stream->device, end, error);
  end->Release(end);
  return status;
}

/* ---- streams ---- */

iobind_status iobind_stream_create(iobind_device *device, const iobind_stream_options *given, iobind_stream **stream,
                                   iobind_error *error) {
  if (stream != NULL) {
    *stream = NULL;
  }
  if (device == NULL || stream == NULL) {
    return iobind__fail(error, IOBIND_INVALID_ARGUMENT, "stream_create: %s is NULL", device == NULL ? "device" : "stream");
  }
  iobind_stream_options options;
  IOBIND__TRY(iobind__options_read(&options, sizeof options, sizeof options, given, "stream_create", error));
  IOBIND__TRY(iobind__flags_check(options.flags, 0, "stream_create", error));
  if (options.native != NULL) {
    return iobind__fail(error, IOBIND_NOT_SUPPORTED, "stream_create: '%s': native streams cannot be adopted yet", device->spec);
  }
  iobind_stream *made = calloc(1, sizeof *made);
  if (made == NULL) {
    return iobind__out_of_memory(error, "stream_create");
  }
  made->device = device;
  if ((device->flags & IOBIND_DEVICE_STREAMS) != 0) {
    const OrtApi *api = IOBIND__API(device->runtime);
    OrtStatus *status = api->CreateSyncStreamForEpDevice(device->ep_device, NULL, &made->sync);
    if (status != NULL) {
      free(made);
      return iobind__ort_fail(api, status, error, "stream_create: '%s'", device->spec);
    }
  }
  iobind__ref_retain(&device->runtime->ref);
  *stream = made;
  return IOBIND_OK;
}

void iobind_stream_destroy(iobind_stream *stream) {
  if (stream == NULL) {
    return;
  }
  iobind_runtime *runtime = stream->device->runtime;
  /* a device that fails now has failed the calls that used it already */
  (void)iobind__stream_drain(stream, NULL);
  if (stream->sync != NULL) {
    IOBIND__API(runtime)->ReleaseSyncStream(stream->sync);
  }
  free(stream);
  iobind__ref_release(&runtime->ref);
}

iobind_status iobind_stream_synchronize(iobind_stream *stream, iobind_error *error) {
  if (stream == NULL) {
    return iobind__fail(error, IOBIND_INVALID_ARGUMENT, "stream_synchronize: stream is NULL");
  }
  return iobind__stream_drain(stream, error);
}

iobind_status iobind_stream_wait(iobind_stream *stream, iobind_event *event, iobind_error *error) {
  if (stream == NULL || event == NULL) {
    return iobind__fail(error, IOBIND_INVALID_ARGUMENT, "stream_wait: %s is NULL", stream == NULL ? "stream" : "event");
  }
  bool by_device = event->notification != NULL && stream->sync != NULL && event->device->ep == stream->device->ep;
  if (!by_device) {
    return event->notification == NULL && event->device == stream->device ? IOBIND_OK : iobind_event_wait(event, error);
  }
  IOBIND__ORT_TRY(IOBIND__API(stream->device->runtime), event->notification->WaitOnDevice(event->notification, stream->sync),
                  error, "stream_wait: '%s'", stream->device->spec);
  return IOBIND_OK;
}

/* ---- events ---- */

iobind_status iobind_event_create(iobind_device *device, iobind_event **event, iobind_error *error) {
  if (event != NULL) {
    *event = NULL;
  }
  if (device == NULL || event == NULL) {
    return iobind__fail(error, IOBIND_INVALID_ARGUMENT, "event_create: %s is NULL", device == NULL ? "device" : "event");
  }
  iobind_event *made = calloc(1, sizeof *made);
  if (made == NULL) {
    return iobind__out_of_memory(error, "event_create");
  }
  made->device = device;
  atomic_init(&made->pending, false);
  iobind__ref_retain(&device->runtime->ref);
  *event = made;
  return IOBIND_OK;
}

static void forget(iobind_event *event) {
  if (event->notification != NULL) {
    event->notification->Release(event->notification);
    event->notification = NULL;
  }
}

void iobind_event_destroy(iobind_event *event) {
  if (event != NULL) {
    iobind_runtime *runtime = event->device->runtime;
    forget(event);
    free(event);
    iobind__ref_release(&runtime->ref);
  }
}

void iobind__event_record_run(iobind_event *event, bool finished) {
  forget(event);
  atomic_store(&event->pending, event->device->queued && !finished);
}

iobind_status iobind_event_record(iobind_event *event, iobind_stream *stream, iobind_error *error) {
  if (event == NULL || stream == NULL) {
    return iobind__fail(error, IOBIND_INVALID_ARGUMENT, "event_record: %s is NULL", event == NULL ? "event" : "stream");
  }
  if (event->device != stream->device) {
    return iobind__fail(error, IOBIND_DEVICE, "event_record: expected a stream of '%s', got one of '%s'", event->device->spec,
                        stream->device->spec);
  }
  OrtSyncNotificationImpl *notification = NULL;
  if (stream->sync != NULL) {
    IOBIND__TRY(make_notification(stream, &notification, error));
  }
  forget(event);
  event->notification = notification;
  atomic_store(&event->pending, stream->device->queued);
  return IOBIND_OK;
}

iobind_status iobind_event_wait(iobind_event *event, iobind_error *error) {
  if (event == NULL) {
    return iobind__fail(error, IOBIND_INVALID_ARGUMENT, "event_wait: event is NULL");
  }
  if (event->notification != NULL) {
    return wait_notification(event->device, event->notification, error);
  }
  if (!atomic_load(&event->pending)) {
    return IOBIND_OK;
  }
  IOBIND__TRY(iobind__device_wait(event->device, error));
  atomic_store(&event->pending, false);
  return IOBIND_OK;
}

iobind_status iobind_event_query(iobind_event *event, int32_t *done, iobind_error *error) {
  if (done == NULL) {
    return iobind__fail(error, IOBIND_INVALID_ARGUMENT, "event_query: done is NULL");
  }
  *done = 0;
  IOBIND__TRY(iobind_event_wait(event, error));
  *done = 1;
  return IOBIND_OK;
}

iobind_status iobind__event_order(iobind_event *event, const iobind_device *device, iobind_error *error) {
  if (event->notification == NULL && event->device == device) {
    return IOBIND_OK; /* one queue: the order of the calls is the order of the work */
  }
  return iobind_event_wait(event, error);
}
