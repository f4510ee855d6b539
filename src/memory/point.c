/* Points in streams. The host, another stream or a stream's thread waits for them. */
#include <stdlib.h>

#include "memory/kind.h"
#include "support/system.h"

static void free_point(iobind__ref *ref) {
  iobind__point *point = (iobind__point *)ref;
  if (point->notification != NULL) {
    iobind__notification_release(point->stream, point->notification);
  }
  iobind__ref_release(&point->stream->ref);
  free(point);
}

iobind_status iobind__point_open(iobind_stream *stream, iobind__point **out, iobind_error *error) {
  *out = NULL;
  iobind__point *point = calloc(1, sizeof *point);
  if (point == NULL) {
    return iobind__fail(error, IOBIND_ERROR_OUT_OF_MEMORY, "out of host memory");
  }
  iobind_status status = stream->kind->mark(stream, point, error);
  if (status != IOBIND_OK) {
    free(point);
    return status;
  }
  iobind__ref_init(&point->ref, free_point);
  point->stream = stream;
  iobind__ref_retain(&stream->ref);
  atomic_init(&point->watch, IOBIND__WATCH_NOBODY);
  *out = point;
  return IOBIND_OK;
}

iobind_status iobind__point_make(iobind_stream *stream, iobind__point **out, iobind_error *error) {
  IOBIND__TRY(iobind__point_open(stream, out, error));
  iobind__stream_mark(stream, (*out)->ticket);
  return IOBIND_OK;
}

void iobind__point_release(iobind__point *point) {
  if (point != NULL) {
    iobind__ref_release(&point->ref);
  }
}

iobind_status iobind__point_pass(iobind__point *point, iobind_error *error) {
  return point == NULL ? IOBIND_OK : point->stream->kind->wait_point(point, error);
}

iobind_status iobind__point_wait(iobind__point *point, iobind_error *error) {
  iobind_status status = iobind__point_pass(point, error);
  iobind__stream_tell(point->stream, point->ticket, status);
  return status;
}

bool iobind__point_passed(const iobind__point *point) {
  return iobind__stream_passed(point->stream, point->ticket) && !atomic_load(&point->queued);
}

/* ---- tasks that wait ---- */

typedef struct waiting {
  iobind__task task;
  iobind__point *point; /* a reference is held */
} waiting;

static void free_waiting(iobind__task *task) {
  waiting *wait = (waiting *)task;
  iobind__point_release(wait->point);
  free(wait);
}

static iobind_status run_waiting(iobind__task *task, const iobind_error *failure, iobind_error *error) {
  if (failure != NULL) {
    return iobind__error_copy(error, failure);
  }
  return iobind__point_pass(((waiting *)task)->point, error);
}

/* A failed wait is not a failure of the stream. The next caller that asks waits itself, and gets the failure. */
static iobind_status run_watching(iobind__task *task, const iobind_error *failure, iobind_error *error) {
  iobind__point *point = ((waiting *)task)->point;
  if (failure != NULL || iobind__point_pass(point, NULL) != IOBIND_OK) {
    atomic_store(&point->watch, IOBIND__WATCH_REFUSED);
  }
  pthread_mutex_lock(&point->stream->timeline.mutex);
  iobind__stream_wake(point->stream, point->ticket); /* for callers that wait with a time limit */
  pthread_mutex_unlock(&point->stream->timeline.mutex);
  if (failure != NULL) {
    return iobind__error_copy(error, failure);
  }
  return IOBIND_OK;
}

static iobind_status submit(iobind_stream *stream, iobind__point *point, bool watch, iobind_error *error) {
  waiting *wait = calloc(1, sizeof *wait);
  if (wait == NULL) {
    return iobind__fail(error, IOBIND_ERROR_OUT_OF_MEMORY, "out of host memory");
  }
  wait->task.run = watch ? run_watching : run_waiting;
  wait->task.destroy = free_waiting;
  wait->point = point;
  iobind__ref_retain(&point->ref);
  iobind_status status = iobind__stream_submit(stream, &wait->task, NULL, error);
  if (status != IOBIND_OK) {
    free_waiting(&wait->task);
  }
  return status;
}

iobind_status iobind__point_submit_wait(iobind_stream *stream, iobind__point *point, iobind_error *error) {
  return submit(stream, point, false, error);
}

iobind_status iobind__point_watch(iobind__point *point, iobind_error *error) {
  bool needed = iobind__stream_orders_calls(point->stream) || iobind__stream_passed(point->stream, point->ticket);
  iobind__watch watch = IOBIND__WATCH_NOBODY;
  if (!needed || !atomic_compare_exchange_strong(&point->watch, &watch, IOBIND__WATCH_THREAD)) {
    return IOBIND_OK;
  }
  iobind_status status = submit(point->stream, point, true, error);
  if (status != IOBIND_OK) {
    atomic_store(&point->watch, IOBIND__WATCH_NOBODY);
  }
  return status;
}

/* ---- waits with a time limit ---- */

uint64_t iobind__deadline(uint64_t timeout_ns) {
  uint64_t now = iobind__clock_ns();
  return timeout_ns < UINT64_MAX - now ? now + timeout_ns : UINT64_MAX;
}

static bool can_be_told(const iobind__point *point) {
  return iobind__point_passed(point) || atomic_load(&point->watch) == IOBIND__WATCH_REFUSED;
}

/* Block until the outcome can be returned; or until the ticket is complete, so that the thread must be asked to watch the
 * device. */
static void await_change(iobind__point *point, uint64_t until) {
  iobind_stream *stream = point->stream;
  bool in_time = true;
  pthread_mutex_lock(&stream->timeline.mutex);
  bool before = iobind__stream_passed(stream, point->ticket);
  while (in_time && !can_be_told(point) && iobind__stream_passed(stream, point->ticket) == before) {
    in_time = iobind__stream_sleep(stream, point->ticket, until);
  }
  pthread_mutex_unlock(&stream->timeline.mutex);
}

/* ORT and the EPs have no wait with a timeout. So the stream's thread waits for the point, and this thread waits for that one. */
iobind_status iobind__point_wait_until(iobind__point *point, uint64_t until, iobind_error *error) {
  while (until != UINT64_MAX && !can_be_told(point)) {
    IOBIND__TRY(iobind__point_watch(point, error));
    await_change(point, until);
    if (!can_be_told(point) && iobind__clock_ns() >= until) {
      return iobind__fail(error, IOBIND_ERROR_TIMEOUT, "timed out: the work stays in flight, wait for it again");
    }
  }
  return iobind__point_wait(point, error); /* does not block if it is complete: for its failure, and for memory order */
}

iobind_status iobind__stream_order(iobind_stream *stream, iobind__point *point, iobind_error *error) {
  if (point == NULL || point->stream == stream) {
    return IOBIND_OK;
  }
  if (stream == NULL || iobind__point_passed(point)) {
    return iobind__point_wait(point, error); /* does not block if it is complete: for its failure, and for memory order */
  }
  return stream->kind->order(stream, point, error);
}
