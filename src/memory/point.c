/* Points in streams, waited for on the host, by a stream, or by a stream's thread. */
#include <stdlib.h>

#include "memory/kind.h"

static void free_point(iobind__ref *ref) {
  iobind__point *point = (iobind__point *)ref;
  if (point->notification != NULL) {
    point->notification->Release(point->notification);
  }
  iobind__ref_release(&point->stream->ref);
  free(point);
}

iobind_status iobind__point_make(iobind_stream *stream, iobind__point **out, iobind_error *error) {
  *out = NULL;
  iobind__point *point = calloc(1, sizeof *point);
  if (point == NULL) {
    return iobind__fail(error, IOBIND_OUT_OF_MEMORY, "out of host memory");
  }
  iobind_status status = stream->kind->mark(stream, point, error);
  if (status != IOBIND_OK) {
    free(point);
    return status;
  }
  iobind__ref_init(&point->ref, free_point);
  point->stream = stream;
  iobind__ref_retain(&stream->ref);
  atomic_init(&point->watched, false);
  atomic_init(&point->unwatched, false);
  *out = point;
  return IOBIND_OK;
}

void iobind__point_release(iobind__point *point) {
  if (point != NULL) {
    iobind__ref_release(&point->ref);
  }
}

iobind_status iobind__point_wait(iobind__point *point, iobind_error *error) {
  return point->stream->kind->wait_point(point, error);
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
  return iobind__point_wait(((waiting *)task)->point, error);
}

/* If a point cannot be waited for, that is no failure of the stream: the next call of iobind_event_query waits and reports
 * it. */
static iobind_status run_watching(iobind__task *task, const iobind_error *failure, iobind_error *error) {
  iobind__point *point = ((waiting *)task)->point;
  if (failure != NULL || iobind__point_wait(point, NULL) != IOBIND_OK) {
    atomic_store(&point->unwatched, true);
  }
  if (failure != NULL) {
    return iobind__error_copy(error, failure);
  }
  return IOBIND_OK;
}

iobind_status iobind__point_submit_wait(iobind_stream *stream, iobind__point *point, bool watch, iobind_error *error) {
  waiting *wait = calloc(1, sizeof *wait);
  if (wait == NULL) {
    return iobind__fail(error, IOBIND_OUT_OF_MEMORY, "out of host memory");
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

iobind_status iobind__stream_order(iobind_stream *stream, iobind__point *point, iobind_error *error) {
  if (point == NULL || point->stream == stream) {
    return IOBIND_OK;
  }
  if (stream == NULL || iobind__point_passed(point)) {
    return iobind__point_wait(point, error); /* returns at once if it has passed: for its failure, and for memory order */
  }
  return stream->kind->order(stream, point, error);
}
