/* Streams: work of a device in order. There are two kinds. On a device with streams of its own it is the execution provider's
 * (ep_stream.c): ORT's calls submit to it and return, and events are the EP's notifications, which ORT lends to an application through
 * its plugin interface, so that no vendor's call is needed. On any other device it is a queue of tasks with a thread of ours
 * (worker_stream.c). What the kinds do differently is one table of functions, kind.h; the rooms below need only what stands here.
 *
 * Work on a stream has a ticket, its number in the order of submission. This is how a run of a binding uses it; any number of runs may
 * be queued, each with its own ticket:
 *
 *   if (iobind__stream_orders_calls(stream)) {
 *     RunWithBinding(...);                               submits to the EP: the run options have iobind__stream_ort(stream)
 *     ticket = iobind__stream_take_ticket(stream);       only after the submission
 *   } else {
 *     iobind__stream_submit(stream, task, &ticket, error);
 *   }
 *   iobind__stream_retire(stream, ticket, ref);          what the run uses lives until it has passed
 *   ...
 *   iobind__stream_wait_ticket(stream, ticket, error)    wait for it; or, without waiting,
 *   iobind__stream_seen(stream, ticket)                  does the caller know that it has passed? then
 *   iobind__stream_outcome(stream, ticket, error)        did it succeed? May be asked any number of times, also much later
 *
 * Tickets pass in their order. `passed` is what the host knows of, `seen` what the caller has been told: what is refused while work is
 * under way depends on `seen`, so that a mistake shows on a fast device too. */
#ifndef IOBIND_MEMORY_STREAM_H
#define IOBIND_MEMORY_STREAM_H

#include "runtime/runtime.h"

typedef uint64_t iobind__ticket;

/* Work for a stream's thread. */
typedef struct iobind__task {
  struct iobind__task *next;
  iobind__ticket ticket; /* 0: beside the work of an EP's stream */
  /* `failure` is NULL, or why earlier work of the stream failed: then the task does nothing and returns the same. */
  iobind_status (*run)(struct iobind__task *task, const iobind_error *failure, iobind_error *error);
  void (*destroy)(struct iobind__task *task); /* always called, after `run` */
} iobind__task;

/* A reference that is given back when the stream has passed the ticket. */
typedef struct iobind__retired {
  iobind__ticket ticket;
  iobind__ref *ref;
} iobind__retired;

/* A failure and the tickets that it stands for. An EP reports a failure only once, to the first caller that waits, and a worker's stream
 * works again after it was synchronized; callers that ask later find it here. */
typedef struct iobind__failure {
  iobind__ticket from;
  iobind__ticket to; /* UINT64_MAX: whatever comes, until the stream is synchronized */
  iobind_error error;
} iobind__failure;

/* What was read into pinned memory of the stream, and where the host copies it once the stream has passed the ticket. */
typedef struct iobind__delivery {
  iobind__ticket ticket;
  const void *from;
  void *to;
  size_t bytes;
} iobind__delivery;

/* Pinned memory of the stream. */
typedef struct iobind__staging {
  OrtValue *value; /* NULL: not allocated */
  iobind__place *place;
  void *data;
  size_t bytes;
  iobind__ticket used; /* by the last copy that used it */
} iobind__staging;

enum { IOBIND__FAILURES = 8, IOBIND__STAGING = 4 };

/* The rooms below use `ref` and `device`; the rest belongs to this room. */
struct iobind_stream {
  iobind__ref ref;
  iobind_device *device;
  const struct iobind__stream_kind *kind;
  OrtSyncStream *sync; /* NULL: a worker's */
  atomic_uint_least64_t submitted;
  atomic_uint_least64_t passed;
  atomic_uint_least64_t seen;
  atomic_bool failed;     /* since it was last synchronized: the latest of `failures` */
  pthread_mutex_t mutex;  /* guards what follows */
  pthread_cond_t changed; /* `passed`, or the tasks */
  iobind__task *tasks;
  iobind__task **tasks_end;
  pthread_t worker;
  bool started;
  bool stopping;                              /* it is being destroyed, and has passed all */
  iobind__failure failures[IOBIND__FAILURES]; /* the oldest first */
  size_t failure_count;
  atomic_uint_least64_t last_failed;            /* the end of the latest failure */
  iobind__delivery deliveries[IOBIND__STAGING]; /* the oldest first */
  atomic_size_t delivery_count;
  iobind__staging staging[IOBIND__STAGING]; /* only the thread that submits touches it */
  iobind__retired *retired;
  size_t retired_count;
  size_t retired_capacity;
};

/* A point in a stream; several events and threads may hold it. */
typedef struct iobind__point {
  iobind__ref ref;
  iobind_stream *stream; /* a reference is held */
  iobind__ticket ticket;
  OrtSyncNotificationImpl *notification; /* NULL: of a worker's stream */
  atomic_bool watched;                   /* a thread of the stream waits for it, so that iobind_event_query need not */
  atomic_bool unwatched;                 /* that thread could not wait */
  atomic_bool queued;                    /* the device queues by itself, and has not been waited for since */
} iobind__point;

struct iobind_event {
  iobind__ref ref;
  iobind_device *device;
  pthread_mutex_t mutex; /* one thread may record while others wait */
  iobind__point *point;
};

/* ---- fence.c ---- */

/* Wait on the host until a queued device has done all that was submitted; nothing on any other device. */
iobind_status iobind__device_wait(iobind_device *device, iobind_error *error);

/* ---- stream.c: what the kinds are asked ---- */

/* Do ORT's calls submit to the stream and return, because the EP orders them? Otherwise they are done when they return, and work that
 * must wait for its turn is a task. */
bool iobind__stream_orders_calls(const iobind_stream *stream);

/* What ORT's calls are given to submit to this stream; NULL where they are done when they return, and for no stream. */
OrtSyncStream *iobind__stream_ort(const iobind_stream *stream);

/* Must work for the stream be submitted as a task? Not where the EP orders it, nor if there is nothing before it; a failure counts. */
bool iobind__stream_is_busy(const iobind_stream *stream);

/* ---- stream.c: tickets ---- */

/* A ticket for all that has been submitted by now. On an EP's stream it is the one of what was submitted last. */
iobind__ticket iobind__stream_take_ticket(iobind_stream *stream);

/* Give a task to the stream's thread, which is started when it is first needed. On a worker's stream the task comes behind everything
 * on the stream, and *ticket is its ticket. On an EP's stream the thread stands beside the EP's work, to wait where the caller must not:
 * *ticket is 0, which has always passed. The task may be over before the call returns. `ticket` may be NULL. After a failure the task
 * is the caller's, and was not run. */
iobind_status iobind__stream_submit(iobind_stream *stream, iobind__task *task, iobind__ticket *ticket, iobind_error *error);

/* Has everything up to the ticket passed, as far as the host can tell without waiting? */
bool iobind__stream_passed(const iobind_stream *stream, iobind__ticket ticket);

/* Has the caller been told that it has? */
bool iobind__stream_seen(const iobind_stream *stream, iobind__ticket ticket);

/* How the work of a ticket that has passed went: OK, or the failure that it is part of. */
iobind_status iobind__stream_outcome(iobind_stream *stream, iobind__ticket ticket, iobind_error *error);

/* Wait on the host for a ticket, and return its outcome. On an EP's stream this waits for all that is on it. */
iobind_status iobind__stream_wait_ticket(iobind_stream *stream, iobind__ticket ticket, iobind_error *error);

/* Wait on the host for all that is on a stream; NULL is no stream. */
iobind_status iobind__stream_drain(iobind_stream *stream, iobind_error *error);

/* Give a reference back once the stream has passed the ticket; at once if it has. At most 1024 are kept: one more waits for the stream.
 * So this must not be called by a task of the same stream, which can hold references itself. */
void iobind__stream_retire(iobind_stream *stream, iobind__ticket ticket, iobind__ref *ref);

/* An EP that was made to wait for the stream in the middle of a call has failed. It may have reported the failure of what was under way
 * before, and reports it only once: what has not been waited for yet counts as failed. */
void iobind__stream_suspect(iobind_stream *stream, const iobind_error *failure);

/* ---- stream.c: deliveries ---- */

/* What was just submitted to an EP's stream brings these bytes; the host copies them on before any caller sees that the stream has passed
 * it, unless it has failed. At most one for each staging buffer, which they come from. */
void iobind__stream_deliver(iobind_stream *stream, const void *from, void *to, size_t bytes);

/* Does the stream, up to a ticket, still have to deliver? */
bool iobind__stream_delivers(iobind_stream *stream, iobind__ticket ticket);

/* What is submitted to the stream next uses this host memory: what the stream delivers there comes before. NULL is no stream. */
iobind_status iobind__stream_use_host(iobind_stream *stream, const void *data, size_t bytes, iobind_error *error);

/* ---- staging.c ---- */

/* In bytes. An EP copies a smaller write at once, and a smaller buffer would not serve again; a larger one would keep too much pinned. */
enum { IOBIND__STAGED_LEAST = 64 * 1024, IOBIND__STAGED_MOST = 256 * 1024 * 1024 };

/* Pinned memory of the stream, of at least so many bytes, that no earlier copy uses any more: a copy between there and a device's memory
 * need not wait. NULL: there is none, and the copy is as the EP makes it. Borrowed for one copy that is submitted next. */
iobind__staging *iobind__staging_take(iobind_stream *stream, const iobind__place *remote, size_t bytes);

/* The copy has been submitted. */
void iobind__staging_used(iobind_stream *stream, iobind__staging *staging);

/* All of it goes; the stream has passed every copy. */
void iobind__staging_free(iobind_stream *stream);

/* ---- point.c ---- */

/* The present end of a stream. */
iobind_status iobind__point_make(iobind_stream *stream, iobind__point **out, iobind_error *error);

void iobind__point_release(iobind__point *point); /* NULL is a no-op */

/* Wait on the host, and return the outcome. */
iobind_status iobind__point_wait(iobind__point *point, iobind_error *error);

/* Without waiting: has the point passed, as far as the host can tell? */
bool iobind__point_passed(const iobind__point *point);

/* Let the thread of the stream wait for a point: in its order, or only to watch it on behalf of iobind_event_query. */
iobind_status iobind__point_submit_wait(iobind_stream *stream, iobind__point *point, bool watch, iobind_error *error);

/* Order what is submitted to the stream next behind a point; NULL is nothing to wait for. Waits on the host where the stream cannot wait
 * by itself, or is NULL. */
iobind_status iobind__stream_order(iobind_stream *stream, iobind__point *point, iobind_error *error);

/* ---- event.c ---- */

/* A reference more, for whatever goes on using an event that its owner may destroy. */
iobind_event *iobind__event_retain(iobind_event *event);
void iobind__event_release(iobind_event *event); /* NULL is a no-op */

/* What the event holds now, with a reference more; NULL: nothing, which counts as passed. */
iobind__point *iobind__event_point(iobind_event *event);

/* The event holds this point from now on, and its reference; NULL: passed. */
void iobind__event_set(iobind_event *event, iobind__point *point);

/* iobind__stream_order for what the event holds now. */
iobind_status iobind__stream_order_event(iobind_stream *stream, iobind_event *event, iobind_error *error);

#endif
