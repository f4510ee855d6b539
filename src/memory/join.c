/* Work of one EP's stream that is done on another stream of that EP: a session that computes on a stream of its own. Both ways the order is
 * kept by events. An EP tells a failure only to those who wait for the stream that failed, so that a stream remembers what it was joined
 * with, and a wait for it hears of those failures, too. */
#include <stdlib.h>

#include "memory/kind.h"

iobind_status iobind__stream_fork(iobind_stream *stream, iobind_stream *compute, iobind_error *error) {
  const OrtApi *api = IOBIND__API(stream->device->runtime);
  iobind__point *point;
  IOBIND__TRY(iobind__point_make(stream, &point, error));
  /* What the stream still delivers to the host is no reason to wait: a run that reads that memory has waited for it. */
  iobind__device_enter(compute->device);
  OrtStatus *failed = point->notification->WaitOnDevice(point->notification, compute->sync);
  iobind__device_leave(compute->device);
  iobind__point_release(point);
  return failed == NULL ? IOBIND_OK : iobind__ort_fail(api, failed, error, "stream of '%s'", stream->device->spec);
}

/* With the mutex held. */
static bool has_room(iobind_stream *stream) {
  enum { MOST = 1024 }; /* a caller that never waits must wait then */
  if (stream->joined_count == stream->joined_capacity && stream->joined_capacity < MOST) {
    size_t capacity = stream->joined_capacity == 0 ? 8 : stream->joined_capacity * 2;
    iobind__joined *larger = realloc(stream->joined, capacity * sizeof *larger);
    if (larger != NULL) {
      stream->joined = larger;
      stream->joined_capacity = capacity;
    }
  }
  return stream->joined_count < stream->joined_capacity;
}

/* The point is of another stream, and has passed when this one's next ticket has. Takes the reference. */
static iobind_status remember(iobind_stream *stream, iobind__point *point, iobind_error *error) {
  pthread_mutex_lock(&stream->mutex);
  bool kept = has_room(stream);
  if (kept) {
    stream->joined[stream->joined_count++] = (iobind__joined){iobind__stream_take_ticket(stream), point};
  }
  pthread_mutex_unlock(&stream->mutex);
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
  iobind_status status = iobind__stream_order(stream, point, error);
  if (status == IOBIND_OK) {
    return remember(stream, point, error);
  }
  iobind__point_release(point);
  return status;
}

/* The latest point that was joined up to a ticket, with a reference more; NULL: none. */
static iobind__point *find_latest(iobind_stream *stream, iobind__ticket ticket) {
  iobind__point *latest = NULL;
  pthread_mutex_lock(&stream->mutex);
  for (size_t i = stream->joined_count; i > 0 && latest == NULL; i--) {
    latest = stream->joined[i - 1].ticket <= ticket ? stream->joined[i - 1].point : NULL;
  }
  if (latest != NULL) {
    iobind__ref_retain(&latest->ref);
  }
  pthread_mutex_unlock(&stream->mutex);
  return latest;
}

void iobind__stream_forget_joined(iobind_stream *stream, const iobind_stream *compute, iobind__ticket ticket) {
  enum { AT_ONCE = 32 };
  size_t count;
  do {
    iobind__point *points[AT_ONCE];
    size_t kept = 0;
    count = 0;
    pthread_mutex_lock(&stream->mutex);
    for (size_t i = 0; i < stream->joined_count; i++) {
      const iobind__joined joined = stream->joined[i];
      if (count < AT_ONCE && joined.ticket <= ticket && (compute == NULL || joined.point->stream == compute)) {
        points[count++] = joined.point;
      } else {
        stream->joined[kept++] = joined;
      }
    }
    stream->joined_count = kept;
    pthread_mutex_unlock(&stream->mutex);
    for (size_t i = 0; i < count; i++) {
      iobind__point_release(points[i]); /* without the mutex: the other stream may go with it */
    }
  } while (count == AT_ONCE);
}

/* The latest point of a stream stands for those before it. It is forgotten only when its failure is written down: another thread that waits
 * for the same finds one or the other. */
void iobind__stream_hear_joined(iobind_stream *stream, iobind__ticket after, iobind__ticket ticket) {
  iobind__point *point;
  while ((point = find_latest(stream, ticket)) != NULL) {
    iobind_error reason = IOBIND_ERROR_INIT;
    if (iobind__point_wait(point, &reason) != IOBIND_OK) { /* at once: the device has passed it */
      iobind__stream_fail(stream, after, ticket, &reason);
    }
    iobind__stream_forget_joined(stream, point->stream, ticket);
    iobind__point_release(point);
  }
}
