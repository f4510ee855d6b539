/* Joins an EP's stream with another one whose work it uses: a session computes on its own stream, or an output was lent. Events
 * order the two. An EP reports a failure only to a wait for the stream that failed. So a stream records what it was joined
 * with, and a wait for it also collects those failures. */
#include <stdlib.h>
#include <string.h>

#include "memory/kind.h"

iobind_status iobind__stream_fork(iobind_stream *stream, iobind_stream *compute, iobind_error *error) {
  const OrtApi *api = IOBIND__API(stream->device->runtime);
  iobind__point *point;
  IOBIND__TRY(iobind__point_open(stream, &point, error));
  /* No wait for deliveries to host memory: a run that reads that memory has already waited for them. */
  iobind__scope scope;
  iobind_status status = iobind__guard_enter(compute->device->guard, &scope, error);
  OrtStatus *failed = status == IOBIND_OK ? point->notification->WaitOnDevice(point->notification, compute->ep.sync) : NULL;
  status = failed == NULL ? status : iobind__ort_fail(api, failed, error, "stream of '%s'", stream->device->spec);
  status = iobind__guard_end(&scope, status, error);
  iobind__point_release(point);
  return status;
}

/* With the mutex held. */
static bool has_room(iobind_stream *stream) {
  enum { MOST = 1024 }; /* then a caller that never waits has to wait */
  if (stream->ep.joined.count == stream->ep.joined.capacity && stream->ep.joined.capacity < MOST) {
    size_t capacity = stream->ep.joined.capacity == 0 ? 8 : stream->ep.joined.capacity * 2;
    iobind__joined *larger = realloc(stream->ep.joined.items, capacity * sizeof *larger);
    if (larger != NULL) {
      stream->ep.joined.items = larger;
      stream->ep.joined.capacity = capacity;
    }
  }
  return stream->ep.joined.count < stream->ep.joined.capacity;
}

/* Record a point of another stream, which is complete when the submission's next ticket is. Takes ownership of the reference. */
static iobind_status remember(const iobind__submission *submission, iobind__point *point, iobind_error *error) {
  iobind_stream *stream = submission->stream;
  pthread_mutex_lock(&stream->timeline.mutex);
  bool kept = has_room(stream);
  if (kept) {
    stream->ep.joined.items[stream->ep.joined.count++] = (iobind__joined){iobind__submission_ticket_inside(submission), point};
  }
  pthread_mutex_unlock(&stream->timeline.mutex);
  if (kept) {
    return IOBIND_OK;
  }
  iobind_status status = iobind__stream_drain(stream, error);
  status = status == IOBIND_OK ? iobind__point_wait(point, error) : status;
  iobind__point_release(point);
  return status;
}

iobind_status iobind__stream_join(iobind_stream *stream, iobind_stream *compute, iobind_error *error) {
  iobind__point *point;
  IOBIND__TRY(iobind__point_make(compute, &point, error));
  const iobind__submission submission = iobind__stream_begin(stream);
  iobind_status status = iobind__stream_order(stream, point, error);
  if (status == IOBIND_OK && iobind__stream_ort(stream) != NULL) {
    return remember(&submission, point, error);
  }
  iobind__point_release(point);
  return status;
}

/* The oldest that was joined up to a ticket, with a reference for the caller. Its point is NULL if there is none. */
static iobind__joined find_oldest(iobind_stream *stream, iobind__ticket ticket) {
  iobind__joined oldest = {0};
  pthread_mutex_lock(&stream->timeline.mutex);
  if (stream->ep.joined.count > 0 && stream->ep.joined.items[0].ticket <= ticket) {
    oldest = stream->ep.joined.items[0];
    iobind__ref_retain(&oldest.point->ref);
  }
  pthread_mutex_unlock(&stream->timeline.mutex);
  return oldest;
}

/* No-op if another thread has already removed it. */
static void forget_oldest(iobind_stream *stream, iobind__point *point) {
  pthread_mutex_lock(&stream->timeline.mutex);
  bool forgets = stream->ep.joined.count > 0 && stream->ep.joined.items[0].point == point;
  if (forgets) {
    stream->ep.joined.count--;
    memmove(stream->ep.joined.items, stream->ep.joined.items + 1, stream->ep.joined.count * sizeof *stream->ep.joined.items);
  }
  pthread_mutex_unlock(&stream->timeline.mutex);
  if (forgets) {
    iobind__point_release(point); /* without the mutex: this may free the other stream */
  }
}

void iobind__stream_forget_joined(iobind_stream *stream) {
  iobind__joined oldest;
  while ((oldest = find_oldest(stream, UINT64_MAX)).point != NULL) {
    forget_oldest(stream, oldest.point);
    iobind__point_release(oldest.point);
  }
}

/* The oldest first: two streams may be joined with each other, and an older entry's failure is recorded before the newer one
 * asks for it. Each entry is waited for: a later point of the same stream does not have a failure that was returned to another
 * caller in between. An entry is removed only after its failure has been recorded, so that another waiting thread finds one of
 * the two. */
void iobind__stream_collect_joined_failures(iobind_stream *stream, iobind__ticket ticket) {
  iobind__joined oldest;
  while ((oldest = find_oldest(stream, ticket)).point != NULL) {
    iobind_error reason = IOBIND_ERROR_INIT;
    if (iobind__point_wait(oldest.point, &reason) != IOBIND_OK) {      /* does not block: it is complete */
      iobind__stream_fail(stream, oldest.ticket - 1, ticket, &reason); /* work before the join did not use it */
    }
    forget_oldest(stream, oldest.point);
    iobind__point_release(oldest.point);
  }
}
