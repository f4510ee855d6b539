/* Events: points in streams, waited for on the host or by another stream, or asked for. */
#include <stdlib.h>

#include "memory/stream.h"

/* ---- moments ---- */

static void free_moment(iobind__ref *ref) {
  iobind__moment *moment = (iobind__moment *)ref;
  if (moment->notification != NULL) {
    moment->notification->Release(moment->notification);
  }
  iobind__ref_release(&moment->stream->ref);
  free(moment);
}

static iobind_status notify(const iobind_stream *stream, OrtSyncNotificationImpl **notification, iobind_error *error) {
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

iobind_status iobind__moment_make(iobind_stream *stream, iobind__moment **out, iobind_error *error) {
  *out = NULL;
  iobind__moment *moment = calloc(1, sizeof *moment);
  if (moment == NULL) {
    return iobind__out_of_memory(error, "event");
  }
  iobind_status status = stream->sync == NULL ? IOBIND_OK : notify(stream, &moment->notification, error);
  if (status != IOBIND_OK) {
    free(moment);
    return status;
  }
  iobind__ref_init(&moment->ref, free_moment);
  moment->stream = stream;
  iobind__ref_retain(&stream->ref);
  /* on an EP's stream one of its own: how it went with what is before it is not how it went with what is not */
  moment->ticket = stream->by_worker ? atomic_load(&stream->submitted) : iobind__stream_take_ticket(stream);
  atomic_init(&moment->watched, false);
  atomic_init(&moment->unwatched, false);
  atomic_init(&moment->queued, stream->device->queued);
  *out = moment;
  return IOBIND_OK;
}

static iobind_status wait_notification(iobind_stream *stream, iobind__ticket ticket, OrtSyncNotificationImpl *notification,
                                       iobind_error *error) {
  iobind__ticket before = atomic_load(&stream->passed);
  OrtStatus *failed = notification->WaitOnHost(notification);
  if (failed != NULL) {
    iobind_error reason = IOBIND_ERROR_INIT;
    (void)iobind__ort_fail(IOBIND__API(stream->device->runtime), failed, &reason, "wait for '%s'", stream->device->spec);
    iobind__stream_fail(stream, before, ticket, &reason);
  }
  iobind__stream_advance(stream, ticket); /* what failed is over too */
  return iobind__stream_outcome(stream, ticket, error);
}

iobind_status iobind__stream_wait_end(iobind_stream *stream, iobind_error *error) {
  OrtSyncNotificationImpl *end = NULL;
  iobind__ticket ticket = 0;
  iobind_status status = IOBIND_OK;
  /* who shares a tensor may wait for a stream that its owner destroys meanwhile: it has passed all then */
  pthread_mutex_lock(&stream->mutex);
  if (stream->sync != NULL) {
    ticket = iobind__stream_take_ticket(stream);
    status = notify(stream, &end, error);
  }
  pthread_mutex_unlock(&stream->mutex);
  if (end != NULL) {
    status = wait_notification(stream, ticket, end, error);
    end->Release(end);
  }
  return status;
}

iobind_status iobind__moment_wait(iobind__moment *moment, iobind_error *error) {
  if (moment->notification != NULL) {
    return wait_notification(moment->stream, moment->ticket, moment->notification, error);
  }
  IOBIND__TRY(iobind__stream_wait_ticket(moment->stream, moment->ticket, error));
  if (atomic_load(&moment->queued)) {
    IOBIND__TRY(iobind__device_wait(moment->stream->device, error));
    atomic_store(&moment->queued, false);
  }
  return IOBIND_OK;
}

/* ---- tasks that wait ---- */

typedef struct waiting {
  iobind__task task;
  iobind__moment *moment; /* a reference is held */
} waiting;

static void free_waiting(iobind__task *task) {
  waiting *wait = (waiting *)task;
  iobind__ref_release(&wait->moment->ref);
  free(wait);
}

static iobind_status run_waiting(iobind__task *task, const iobind_error *failure, iobind_error *error) {
  if (failure != NULL) {
    return iobind__error_copy(error, failure);
  }
  return iobind__moment_wait(((waiting *)task)->moment, error);
}

/* On behalf of who asks whether the moment has passed. That it cannot be waited for is no failure of the stream: the next one who
 * asks waits himself, and is told. */
static iobind_status run_watching(iobind__task *task, const iobind_error *failure, iobind_error *error) {
  iobind__moment *moment = ((waiting *)task)->moment;
  if (failure != NULL || iobind__moment_wait(moment, NULL) != IOBIND_OK) {
    atomic_store(&moment->unwatched, true);
  }
  if (failure != NULL) {
    return iobind__error_copy(error, failure);
  }
  return IOBIND_OK;
}

/* Let the worker of a stream wait for a moment. */
static iobind_status submit_waiting(iobind_stream *stream, iobind__moment *moment, bool watch, iobind_error *error) {
  waiting *wait = calloc(1, sizeof *wait);
  if (wait == NULL) {
    return iobind__out_of_memory(error, "stream_wait");
  }
  wait->task.run = watch ? run_watching : run_waiting;
  wait->task.destroy = free_waiting;
  wait->moment = moment;
  iobind__ref_retain(&moment->ref);
  iobind_status status = iobind__stream_submit(stream, &wait->task, error);
  if (status != IOBIND_OK) {
    free_waiting(&wait->task);
  }
  return status;
}

static bool known_passed(const iobind__moment *moment) {
  return iobind__stream_passed(moment->stream, moment->ticket) && !atomic_load(&moment->queued);
}

iobind_status iobind__stream_order(iobind_stream *stream, iobind__moment *moment, iobind_error *error) {
  if (moment == NULL || moment->stream == stream) {
    return IOBIND_OK;
  }
  if (stream == NULL || known_passed(moment)) {
    return iobind__moment_wait(moment, error); /* at once where it has passed: for its failure, and for memory order */
  }
  const iobind_device *producer = moment->stream->device;
  if (iobind__stream_delivers(moment->stream, moment->ticket)) {
    return stream->by_worker ? submit_waiting(stream, moment, false, error)
                             : iobind__moment_wait(moment, error); /* the host's part */
  }
  if (moment->notification != NULL && stream->sync != NULL && producer->ep == stream->device->ep) {
    IOBIND__ORT_TRY(IOBIND__API(producer->runtime), moment->notification->WaitOnDevice(moment->notification, stream->sync),
                    error, "stream_wait: '%s'", stream->device->spec);
    return IOBIND_OK;
  }
  if (producer == stream->device && iobind__stream_passed(moment->stream, moment->ticket)) {
    /* submitted to a device with one queue: the order of the calls is the order of the work */
    return iobind__stream_wait_ticket(moment->stream, moment->ticket, error);
  }
  return stream->by_worker ? submit_waiting(stream, moment, false, error) : iobind__moment_wait(moment, error);
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
  pthread_mutex_init(&made->mutex, NULL);
  iobind__ref_retain(&device->runtime->ref);
  *event = made;
  return IOBIND_OK;
}

void iobind_event_destroy(iobind_event *event) {
  if (event != NULL) {
    iobind_runtime *runtime = event->device->runtime;
    iobind__event_set(event, NULL);
    pthread_mutex_destroy(&event->mutex);
    free(event);
    iobind__ref_release(&runtime->ref);
  }
}

void iobind__event_set(iobind_event *event, iobind__moment *moment) {
  pthread_mutex_lock(&event->mutex);
  iobind__moment *old = event->moment;
  event->moment = moment;
  pthread_mutex_unlock(&event->mutex);
  if (old != NULL) {
    iobind__ref_release(&old->ref);
  }
}

iobind__moment *iobind__event_moment(iobind_event *event) {
  pthread_mutex_lock(&event->mutex);
  iobind__moment *moment = event->moment;
  if (moment != NULL) {
    iobind__ref_retain(&moment->ref);
  }
  pthread_mutex_unlock(&event->mutex);
  return moment;
}

iobind_status iobind_event_record(iobind_event *event, iobind_stream *stream, iobind_error *error) {
  if (event == NULL || stream == NULL) {
    return iobind__fail(error, IOBIND_INVALID_ARGUMENT, "event_record: %s is NULL", event == NULL ? "event" : "stream");
  }
  if (event->device != stream->device) {
    return iobind__fail(error, IOBIND_DEVICE, "event_record: expected a stream of '%s', got one of '%s'", event->device->spec,
                        stream->device->spec);
  }
  iobind__moment *moment;
  IOBIND__TRY(iobind__moment_make(stream, &moment, error));
  iobind__event_set(event, moment);
  return IOBIND_OK;
}

iobind_status iobind__stream_order_event(iobind_stream *stream, iobind_event *event, iobind_error *error) {
  iobind__moment *moment = iobind__event_moment(event);
  iobind_status status = iobind__stream_order(stream, moment, error);
  if (moment != NULL) {
    iobind__ref_release(&moment->ref);
  }
  return status;
}

iobind_status iobind_event_wait(iobind_event *event, iobind_error *error) {
  if (event == NULL) {
    return iobind__fail(error, IOBIND_INVALID_ARGUMENT, "event_wait: event is NULL");
  }
  return iobind__stream_order_event(NULL, event, error);
}

/* Whether a moment has passed, without waiting for it: a worker waits instead, the first time that it is asked for. */
static iobind_status query(iobind__moment *moment, int32_t *done, iobind_error *error) {
  if (known_passed(moment)) {
    *done = 1;
    return iobind__moment_wait(moment, error); /* at once: for the error, and for memory order */
  }
  if (atomic_load(&moment->unwatched)) {
    IOBIND__TRY(iobind__moment_wait(moment, error));
    *done = 1;
    return IOBIND_OK;
  }
  bool needs_watch = moment->notification != NULL || iobind__stream_passed(moment->stream, moment->ticket);
  if (needs_watch && !atomic_exchange(&moment->watched, true)) {
    iobind_status status = submit_waiting(moment->stream, moment, true, error);
    if (status != IOBIND_OK) {
      atomic_store(&moment->watched, false);
      return status;
    }
  }
  return IOBIND_OK;
}

iobind_status iobind_event_query(iobind_event *event, int32_t *done, iobind_error *error) {
  if (done == NULL || event == NULL) {
    return iobind__fail(error, IOBIND_INVALID_ARGUMENT, "event_query: %s is NULL", done == NULL ? "done" : "event");
  }
  *done = 0;
  iobind__moment *moment = iobind__event_moment(event);
  if (moment == NULL) {
    *done = 1;
    return IOBIND_OK;
  }
  iobind_status status = query(moment, done, error);
  iobind__ref_release(&moment->ref);
  return status;
}

iobind_status iobind_stream_wait(iobind_stream *stream, iobind_event *event, iobind_error *error) {
  if (stream == NULL || event == NULL) {
    return iobind__fail(error, IOBIND_INVALID_ARGUMENT, "stream_wait: %s is NULL", stream == NULL ? "stream" : "event");
  }
  return iobind__stream_order_event(stream, event, error);
}
