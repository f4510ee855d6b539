/* Streams of an execution provider. ORT has no function that waits for a stream, so iobind waits for a notification at its end. */
#include "memory/kind.h"
#include "memory/transfer.h"

void *iobind__stream_handle(const iobind_stream *stream) {
  return IOBIND__API(stream->device->runtime)->SyncStream_GetHandle(stream->ep.sync);
}

static iobind_status open_sync(iobind_stream *stream, iobind_error *error) {
  const iobind_device *device = stream->device;
  const OrtApi *api = IOBIND__API(device->runtime);
  iobind__scope scope;
  IOBIND__TRY(iobind__guard_enter(device->guard, &scope, error));
  OrtStatus *failed = api->CreateSyncStreamForEpDevice(device->ep_device, NULL, &stream->ep.sync);
  iobind_status status = failed == NULL ? IOBIND_OK : iobind__ort_fail(api, failed, error, "stream_create: '%s'", device->spec);
  return iobind__guard_end(&scope, status, error);
}

static void close_sync(iobind_stream *stream) {
  iobind__scope scope;
  if (iobind__guard_enter_to_free(stream->device->guard, &scope)) {
    IOBIND__API(stream->device->runtime)->ReleaseSyncStream(stream->ep.sync);
    iobind__guard_leave(&scope);
  }
  stream->ep.sync = NULL;
}

static iobind__ticket take_ticket(iobind_stream *stream) {
  return atomic_fetch_add(&stream->timeline.submitted, 1) + 1;
}

static bool is_busy(const iobind_stream *stream) {
  (void)stream;
  return false;
}

/* ---- notifications ---- */

/* Inside the device's guard. */
static iobind_status notify(const iobind_stream *stream, OrtSyncNotificationImpl **notification, iobind_error *error) {
  const OrtApi *api = IOBIND__API(stream->device->runtime);
  const OrtSyncStreamImpl *lent = api->GetEpApi()->SyncStream_GetImpl(stream->ep.sync);
  if (lent == NULL) {
    return iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED, "stream of '%s': its execution provider has no events",
                        stream->device->spec);
  }
  IOBIND__TRY(iobind__bridge_in(stream, error));
  OrtSyncStreamImpl *impl =
      (OrtSyncStreamImpl *)(uintptr_t)lent; /* ORT returns a const pointer, but the functions take a mutable one */
  IOBIND__ORT_TRY(api, impl->CreateNotification(impl, notification), error, "event on '%s'", stream->device->spec);
  OrtStatus *status = (*notification)->Activate(*notification);
  if (status != NULL) {
    (*notification)->Release(*notification);
    *notification = NULL;
    return iobind__ort_fail(api, status, error, "event on '%s'", stream->device->spec);
  }
  return IOBIND_OK;
}

void iobind__notification_release(const iobind_stream *stream, OrtSyncNotificationImpl *notification) {
  iobind__scope scope;
  if (iobind__guard_enter_to_free(stream->device->guard, &scope)) {
    notification->Release(notification);
    iobind__guard_leave(&scope);
  }
}

/* A notification at the stream's end, and its ticket; NULL and 0 if the stream is being destroyed. The ticket is taken first,
 * so that work of another thread after the notification has a higher one. With the mutex held for both, notifications have the
 * order of their tickets. */
static iobind_status mark_end(iobind_stream *stream, iobind__ticket *ticket, OrtSyncNotificationImpl **end,
                              iobind_error *error) {
  iobind_status status = IOBIND_OK;
  iobind__scope scope;
  *ticket = 0;
  *end = NULL;
  IOBIND__TRY(
      iobind__guard_enter(stream->device->guard, &scope, error)); /* before the mutex: a thread inside the guard may lock it */
  pthread_mutex_lock(&stream->timeline.mutex);
  if (!stream->worker.is_stopping) {
    *ticket = iobind__stream_take_ticket(stream);
    status = notify(stream, end, error);
  }
  pthread_mutex_unlock(&stream->timeline.mutex);
  return iobind__guard_end(&scope, status, error);
}

/* With the mutex held. */
static bool has_earlier(const iobind_stream *stream, iobind__ticket ticket) {
  const iobind__wait *other = stream->ep.waits;
  while (other != NULL && other->ticket >= ticket) {
    other = other->next;
  }
  return other != NULL;
}

/* An EP reports a failure to one wait; later waits succeed. So waits are ordered by ticket: a wait neither begins nor returns
 * before each wait for earlier work has recorded the failure that it got. */
static void begin_wait(iobind_stream *stream, iobind__wait *self) {
  pthread_mutex_lock(&stream->timeline.mutex);
  while (has_earlier(stream, self->ticket)) {
    pthread_cond_wait(&stream->ep.ended, &stream->timeline.mutex);
  }
  self->next = stream->ep.waits;
  stream->ep.waits = self;
  pthread_mutex_unlock(&stream->timeline.mutex);
}

static void end_wait(iobind_stream *stream, const iobind__wait *self) {
  pthread_mutex_lock(&stream->timeline.mutex);
  iobind__wait **at = &stream->ep.waits;
  while (*at != self) {
    at = &(*at)->next;
  }
  *at = self->next;
  pthread_cond_broadcast(&stream->ep.ended);
  while (has_earlier(stream, self->ticket)) {
    pthread_cond_wait(&stream->ep.ended, &stream->timeline.mutex);
  }
  pthread_mutex_unlock(&stream->timeline.mutex);
}

/* Has the ticket completed with a failure? Then the EP is not asked again, because a repeated report could not be distinguished
 * from a new failure. */
static bool is_over(iobind_stream *stream, iobind__ticket ticket) {
  return iobind__stream_passed(stream, ticket) && iobind__stream_outcome(stream, ticket, NULL) != IOBIND_OK;
}

static iobind_status wait_notification(iobind_stream *stream, iobind__ticket ticket, OrtSyncNotificationImpl *notification,
                                       iobind_error *error) {
  if (is_over(stream, ticket)) {
    return iobind__stream_outcome(stream, ticket, error);
  }
  iobind__wait self = {.ticket = ticket};
  iobind__scope scope;
  iobind__guard_enter_anyway(stream->device->guard, &scope);
  begin_wait(stream, &self);
  OrtStatus *failed = notification->WaitOnHost(notification);
  iobind_error reason = IOBIND_ERROR_INIT;
  if (failed != NULL) {
    (void)iobind__ort_fail(IOBIND__API(stream->device->runtime), failed, &reason, "wait for '%s'", stream->device->spec);
  }
  (void)iobind__guard_end(&scope, (iobind_status)reason.status, &reason);
  if (failed != NULL) {
    iobind__ticket passed = atomic_load(&stream->timeline.passed); /* after the wait: other threads may have raised it */
    iobind__stream_fail(stream, passed, ticket, &reason);
  }
  end_wait(stream, &self);
  iobind__stream_collect_joined_failures(stream, ticket);
  iobind__stream_advance(stream, ticket); /* failed work, too, is complete */
  return iobind__stream_outcome(stream, ticket, error);
}

static iobind_status drain(iobind_stream *stream, iobind__ticket *ticket, iobind_error *error) {
  OrtSyncNotificationImpl *end;
  iobind_status status = mark_end(stream, ticket, &end, error);
  /* No notification: the owner is destroying the stream, while this thread waits for it on behalf of a tensor. Then all work is
   * complete. */
  if (end != NULL) {
    status = wait_notification(stream, *ticket, end, error);
    iobind__notification_release(stream, end);
  }
  return status;
}

static iobind_status wait_for(iobind_stream *stream, iobind__ticket ticket, iobind_error *error) {
  (void)ticket;
  iobind__ticket last;
  return drain(stream, &last, error);
}

/* ---- points ---- */

/* The point has its own ticket, so that a later failure is not attributed to earlier work. */
static iobind_status mark(iobind_stream *stream, iobind__point *point, iobind_error *error) {
  atomic_init(&point->queued, false);
  return mark_end(stream, &point->ticket, &point->notification, error);
}

static iobind_status wait_point(iobind__point *point, iobind_error *error) {
  return wait_notification(point->stream, point->ticket, point->notification, error);
}

static iobind_status order(iobind_stream *stream, iobind__point *point, iobind_error *error) {
  const iobind_stream *producer = point->stream;
  bool by_device = point->notification != NULL && iobind__same_ep(producer->device, stream->device) &&
                   !iobind__stream_delivers(point->stream, point->ticket); /* the host copies what the stream delivers */
  if (!by_device) {
    return iobind__point_wait(point, error);
  }
  IOBIND__TRY(iobind__bridge_check(stream, error));
  iobind__scope scope;
  IOBIND__TRY(iobind__guard_enter(stream->device->guard, &scope, error));
  OrtStatus *failed = point->notification->WaitOnDevice(point->notification, stream->ep.sync);
  iobind_status status = failed == NULL ? IOBIND_OK
                                        : iobind__ort_fail(IOBIND__API(producer->device->runtime), failed, error,
                                                           "stream_wait: '%s'", stream->device->spec);
  IOBIND__TRY(iobind__guard_end(&scope, status, error));
  return iobind__bridge_out(stream, error);
}

static void *native(const iobind_stream *stream) {
  return stream->ep.bridge != NULL ? iobind__bridge_native(stream->ep.bridge) : iobind__stream_handle(stream);
}

const iobind__stream_kind iobind__ep_stream = {
    .orders_calls = true,
    .open = open_sync,
    .close = close_sync,
    .take_ticket = take_ticket,
    .is_busy = is_busy,
    .wait = wait_for,
    .drain = drain,
    .mark = mark,
    .wait_point = wait_point,
    .order = order,
    .enter = iobind__bridge_in,
    .leave = iobind__bridge_out,
    .native = native,
    .staging_min_bytes = IOBIND__STAGING_MIN_BYTES,
};
