/* Streams of devices without native streams: a thread of iobind does the work in order. If there is no earlier work, the caller
 * does it at once. So the first task that has to wait starts the thread. */
#include "memory/kind.h"

static iobind_status open_worker(iobind_stream *stream, iobind_error *error) {
  (void)stream, (void)error;
  return IOBIND_OK;
}

static void close_worker(iobind_stream *stream) {
  (void)stream;
}

/* If all earlier work is complete, the thread finishes no task that would raise `passed`, so it is raised here. */
static iobind__ticket take_ticket(iobind_stream *stream) {
  pthread_mutex_lock(&stream->timeline.mutex);
  iobind__ticket last = atomic_load(&stream->timeline.submitted);
  atomic_store(&stream->timeline.submitted, last + 1);
  if (atomic_load(&stream->timeline.passed) == last) {
    atomic_store(&stream->timeline.passed, last + 1);
  }
  pthread_mutex_unlock(&stream->timeline.mutex);
  return last + 1;
}

static bool is_busy(const iobind_stream *stream) {
  return atomic_load(&stream->timeline.untold) || !iobind__stream_passed(stream, atomic_load(&stream->timeline.submitted));
}

static iobind_status wait_for(iobind_stream *stream, iobind__ticket ticket, iobind_error *error) {
  (void)error;
  pthread_mutex_lock(&stream->timeline.mutex);
  while (!iobind__stream_passed(stream, ticket)) {
    (void)iobind__stream_sleep(stream, ticket, UINT64_MAX);
  }
  pthread_mutex_unlock(&stream->timeline.mutex);
  return IOBIND_OK;
}

static iobind_status drain(iobind_stream *stream, iobind__ticket *ticket, iobind_error *error) {
  *ticket = take_ticket(stream);
  IOBIND__TRY(iobind__stream_pass_ticket(stream, *ticket, error));
  return iobind__device_wait(stream->device, error);
}

static iobind_status mark(iobind_stream *stream, iobind__point *point, iobind_error *error) {
  (void)error;
  point->ticket = take_ticket(stream);
  atomic_init(&point->queued, iobind__device_has(stream->device, IOBIND__QUIRK_QUEUES));
  return IOBIND_OK;
}

static iobind_status wait_point(iobind__point *point, iobind_error *error) {
  IOBIND__TRY(iobind__stream_pass_ticket(point->stream, point->ticket, error));
  if (atomic_load(&point->queued)) {
    IOBIND__TRY(iobind__device_wait(point->stream->device, error));
    atomic_store(&point->queued, false);
  }
  return IOBIND_OK;
}

static iobind_status order(iobind_stream *stream, iobind__point *point, iobind_error *error) {
  if (point->stream->device == stream->device && iobind__stream_passed(point->stream, point->ticket)) {
    /* the device has one queue: the order of the calls is the order of the work */
    return iobind__stream_pass_ticket(point->stream, point->ticket, error);
  }
  return iobind__point_submit_wait(stream, point, error);
}

const iobind__stream_kind iobind__worker_stream = {
    .orders_calls = false,
    .open = open_worker,
    .close = close_worker,
    .take_ticket = take_ticket,
    .is_busy = is_busy,
    .wait = wait_for,
    .drain = drain,
    .mark = mark,
    .wait_point = wait_point,
    .order = order,
    .staging_min_bytes = IOBIND__STAGING_MIN_BYTES,
};
