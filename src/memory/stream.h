/* Streams: work of a device in order. There are several kinds. On a device with streams of its own it is the execution provider's
 * (ep_stream.c): ORT's calls submit to it and return, and events are the EP's notifications, which ORT lends to an application through
 * its plugin interface, so that no vendor's call is needed. A driver may have streams of its own (driver.h). On any other device it is a
 * queue of tasks with one of iobind's threads (worker_stream.c). The differences between the kinds are in one table of functions, kind.h; the
 * modules below need only this header.
 *
 * Work on a stream has a ticket, its number in the order of submission. This is how a run of a binding uses it; any number of runs may
 * be queued, each with its own ticket:
 *
 *   if (iobind__stream_orders_calls(stream)) {
 *     submission = iobind__stream_begin(stream);         before the submission: a failure may be reported in its middle
 *     RunWithBinding(...);                               submits to the EP: the run options have iobind__stream_ort(stream)
 *     ticket = iobind__submission_ticket(&submission);   only after the submission: what waits takes its own before
 *   } else {
 *     iobind__stream_submit(stream, task, &ticket, error);
 *   }
 *   iobind__stream_retire(stream, ticket, ref);          what the run uses lives until it has passed
 *   ...
 *   iobind__stream_wait_ticket(stream, ticket, error)    wait for it; or, without waiting,
 *   iobind__stream_seen(stream, ticket)                  does the caller know that it has passed? then
 *   iobind__stream_outcome(stream, ticket, error)        did it succeed? May be asked any number of times, also much later
 *
 * Tickets pass in their order. `passed` is the last one of which the host knows that it has passed, `seen` the last one of which the
 * caller has been told. What is refused while work is in flight depends on `seen`, so that a mistake shows on a fast device too. */
#ifndef IOBIND_MEMORY_STREAM_H
#define IOBIND_MEMORY_STREAM_H

#include "runtime/runtime.h"

typedef uint64_t iobind__ticket;

/* Work that is submitted to an EP's stream, from before the first call that submits a part of it. Once a stream has failed, the EP skips what
 * was submitted to it, until the failure is reported to a wait; and the wait may be another thread's. */
typedef struct iobind__submission {
  iobind_stream *stream;  /* NULL: none */
  uint_least64_t reports; /* of failures, when it began */
} iobind__submission;

/* Work for a stream's thread. */
typedef struct iobind__task {
  struct iobind__task *next;
  iobind__ticket ticket; /* 0: not ordered with the work of an EP's stream */
  /* `failure` is NULL, or the failure of earlier work of the stream: then the task does nothing and returns that. */
  iobind_status (*run)(struct iobind__task *task, const iobind_error *failure, iobind_error *error);
  void (*destroy)(struct iobind__task *task); /* always called, after `run` */
} iobind__task;

/* A reference that is released when the stream has passed the ticket. */
typedef struct iobind__retired {
  iobind__ticket ticket;
  iobind__ref *ref;
} iobind__retired;

/* A failure and the tickets that it covers. An EP reports a failure only once, to the first caller that waits, and a worker's
 * stream works again after it was synchronized; callers that ask later find the failure here. */
typedef struct iobind__failure {
  iobind__ticket from;
  iobind__ticket to;   /* UINT64_MAX: all later work, until the stream is synchronized */
  iobind__ticket told; /* the last one of which a caller has received it; 0: none */
  iobind_error error;
} iobind__failure;

/* Bytes that were read into pinned memory of the stream, and where the host copies them once the stream has passed the
 * ticket. */
typedef struct iobind__delivery {
  iobind__ticket ticket;
  const void *from;
  void *to;
  size_t bytes;
} iobind__delivery;

/* Work on another stream that is part of this one's work: see join.c. */
typedef struct iobind__joined {
  iobind__ticket ticket;       /* with which it has passed */
  struct iobind__point *point; /* of the other stream; a reference is held */
} iobind__joined;

/* To the stream of another library: see native.c. */
typedef struct iobind__bridge iobind__bridge;

/* Pinned memory of the stream. */
#define IOBIND__STAGING_TAKEN UINT64_MAX
typedef struct iobind__staging {
  OrtValue *value; /* NULL: not allocated */
  iobind__place *place;
  void *data;
  size_t bytes;
  iobind__ticket used; /* by the last copy; TAKEN: by one that is just being submitted, whose thread owns the rest */
} iobind__staging;

/* A thread that waits for an EP's stream. */
typedef struct iobind__wait {
  iobind__ticket ticket;
  struct iobind__wait *next;
} iobind__wait;

enum { IOBIND__FAILURES = 8, IOBIND__STAGING = 4 };

/* Which work was submitted, which has passed, and what has failed. */
typedef struct iobind__timeline {
  atomic_uint_least64_t submitted; /* the last ticket */
  atomic_uint_least64_t passed;
  atomic_uint_least64_t seen;
  atomic_bool untold;                         /* the latest failure came after the stream was last synchronized */
  pthread_mutex_t mutex;                      /* guards the stream but for the marks */
  pthread_cond_t changed;                     /* `passed`, the worker's tasks, or the EP's waits */
  iobind__failure failures[IOBIND__FAILURES]; /* the oldest first */
  size_t failure_count;
  atomic_uint_least64_t last_failed; /* the end of the latest failure */
  iobind__ticket marked;             /* the last point that can be queried */
  atomic_uint_least64_t given;       /* the last ticket of a submission */
  atomic_bool owed;                  /* is later work that of the latest failure, too? */
  atomic_uint_least64_t reports;     /* of failures, by the EP's stream, each counted before it is recorded */
} iobind__timeline;

/* The thread of a stream, and its queue. */
typedef struct iobind__worker {
  iobind__task *tasks;
  iobind__task **end;
  pthread_t thread;
  bool is_started;
  bool is_stopping; /* the stream is being destroyed, and has passed all */
} iobind__worker;

/* The part of an EP's stream; all 0 in a stream of another kind. */
typedef struct iobind__ep_part {
  OrtSyncStream *sync;
  iobind__bridge *bridge; /* NULL: the stream is nobody else's */
  iobind__wait *waits;    /* threads inside the EP */
  struct {
    iobind__joined *items; /* the oldest first */
    size_t count;
    size_t capacity;
  } joined;
} iobind__ep_part;

/* Other modules use only `ref` and `device`. */
struct iobind_stream {
  iobind__ref ref;                          /* of the owners, and of points in it */
  iobind_device *device;                    /* whose work it orders; its runtime is held */
  const struct iobind__stream_kind *kind;   /* what differs between an EP's, a worker's and a driver's stream */
  iobind__timeline timeline;                /* how far its work is */
  iobind__ep_part ep;                       /* the EP's stream */
  void *own;                                /* of a driver's kind; NULL: nothing */
  iobind__worker worker;                    /* the thread, of a worker's stream or for waits */
  iobind__staging staging[IOBIND__STAGING]; /* buffers of pinned memory */
  struct {
    iobind__delivery items[IOBIND__STAGING]; /* the oldest first */
    atomic_size_t count;
  } deliveries; /* bytes in those buffers for host memory */
  struct {
    iobind__retired *items;
    size_t count;
    size_t capacity;
  } retired;              /* what its work in flight uses */
  iobind__loss_hook loss; /* it fails with its device */
  atomic_size_t owners;   /* the caller, and sessions that compute on it: it is closed with the last one */
};

/* Does a thread of the stream wait for a point, so that a question about it need not? */
typedef enum iobind__watch {
  IOBIND__WATCH_NOBODY,
  IOBIND__WATCH_THREAD,
  IOBIND__WATCH_REFUSED /* it could not wait */
} iobind__watch;

/* A point in a stream; several events and threads may hold it. */
typedef struct iobind__point {
  iobind__ref ref;
  iobind_stream *stream; /* a reference is held */
  iobind__ticket ticket;
  OrtSyncNotificationImpl *notification; /* NULL: not an EP's stream */
  _Atomic(iobind__watch) watch;
  atomic_bool queued; /* the device queues by itself, and nobody has waited for it since */
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

/* What ORT's calls need to submit to this stream; NULL if they are done when they return, and for no stream. */
OrtSyncStream *iobind__stream_ort(const iobind_stream *stream);

/* Must work for the stream be submitted as a task? Not if the EP orders it, nor if nothing comes before it (a failure does). */
bool iobind__stream_is_busy(const iobind_stream *stream);

/* ---- ep_stream.c ---- */

/* What the EP calls its stream: CUDA's cudaStream_t. Only of an EP's stream. */
void *iobind__stream_handle(const iobind_stream *stream);

/* ---- stream.c: tickets ---- */

/* A submission begins; NULL: none does. Not before a wait for the same stream, whose failure would be that of the submission. It begins as
 * failed after work that has failed and of which nobody has been told: it may use what that work was to write. */
iobind__submission iobind__stream_begin(iobind_stream *stream);

/* A ticket for all of the submission so far; any number may be taken, and each has its failures. */
iobind__ticket iobind__submission_ticket(const iobind__submission *self);

/* Give a task to the stream's thread, which is started when it is first needed. On a worker's stream the task comes after everything
 * on the stream, and *ticket is its ticket. On an EP's stream the thread is not ordered with the EP's work; it waits when the caller
 * must not, and *ticket is 0, which has always passed. The task may be over before the call returns. `ticket` may be NULL. After a
 * failure the caller still owns the task, and it was not run. */
iobind_status iobind__stream_submit(iobind_stream *stream, iobind__task *task, iobind__ticket *ticket, iobind_error *error);

/* Another thread may have raised the mark further: it never comes down. Did this call raise it? */
bool iobind__ticket_raise(atomic_uint_least64_t *mark, iobind__ticket ticket);

/* Has everything up to the ticket passed, as far as the host can tell without waiting? */
bool iobind__stream_passed(const iobind_stream *stream, iobind__ticket ticket);

/* Has the caller been told that it has? */
bool iobind__stream_seen(const iobind_stream *stream, iobind__ticket ticket);

/* The outcome of a ticket that has passed: OK, or the failure that it is part of. */
iobind_status iobind__stream_outcome(iobind_stream *stream, iobind__ticket ticket, iobind_error *error);

/* Has the ticket failed, and has no caller been told? A later point of the stream may not know of it. */
bool iobind__stream_owes(iobind_stream *stream, iobind__ticket ticket);

/* A call returns that the ticket has passed, and its outcome. */
void iobind__stream_tell(iobind_stream *stream, iobind__ticket ticket, iobind_status outcome);

/* Wait on the host for a ticket, and return its outcome. On an EP's stream this waits for all that is on it. */
iobind_status iobind__stream_wait_ticket(iobind_stream *stream, iobind__ticket ticket, iobind_error *error);

/* The same, and tell nobody: the caller is not returned a failure, or not here. */
iobind_status iobind__stream_pass_ticket(iobind_stream *stream, iobind__ticket ticket, iobind_error *error);

/* Wait on the host for everything on a stream, and return the outcome; does nothing for NULL. */
iobind_status iobind__stream_drain(iobind_stream *stream, iobind_error *error);

/* Wait on the host for everything on a stream, and return no failure: that is left to who uses what has failed. Does nothing for NULL. */
void iobind__stream_pass(iobind_stream *stream);

/* Release a reference once the stream has passed the ticket; at once if it has. At most 1024 are kept; then the call waits for the stream.
 * So a task must not call this for its own stream; it can hold references itself. */
void iobind__stream_retire(iobind_stream *stream, iobind__ticket ticket, iobind__ref *ref);

/* A call has failed that made the EP wait for the stream. The failure may be that of earlier work, and the EP reports it only once: so all
 * work that nobody has waited for counts as failed. Nothing where such a failure stays with the device: it is lost, or the call itself has
 * failed. */
void iobind__stream_suspect(iobind_stream *stream, const iobind_error *failure);

/* One more owner, who releases the stream by iobind_stream_destroy. */
iobind_stream *iobind__stream_share(iobind_stream *stream);

/* ---- join.c: a stream that uses what another one does ---- */

/* Make later work on `compute` wait for all work submitted to `stream`. The host does not wait. */
iobind_status iobind__stream_fork(iobind_stream *stream, iobind_stream *compute, iobind_error *error);

/* Make later work on `stream` wait for all work submitted to `compute`, which counts as work of `stream` from now on: its failure is the
 * stream's, too. A worker's stream fails with what it waits for; an EP's remembers the other one for that. The host waits where the order
 * cannot be the device's (see iobind__stream_order), and once it has not asked for the outcome of 1024. */
iobind_status iobind__stream_join(iobind_stream *stream, iobind_stream *compute, iobind_error *error);

/* ---- native.c: the stream of another library, if it is one. NULL: not a stream ---- */

bool iobind__stream_is_foreign(const iobind_stream *stream);

/* INVALID_STATE while the other library captures its stream: a wait there for what is not captured would break the capture. */
iobind_status iobind__bridge_check(const iobind_stream *stream, iobind_error *error);

/* ---- stream.c: around work that ORT submits to a stream ---- */

/* Before: order the work after what the stream is to wait for. Does nothing for NULL. */
iobind_status iobind__stream_enter(const iobind_stream *stream, iobind_error *error);

/* After that: later work on the stream, or on another library's that it bridges, waits for it. */
iobind_status iobind__stream_leave(iobind_stream *stream, iobind_error *error);

/* ---- stream.c: deliveries ---- */

/* The work just submitted to an EP's stream writes these bytes into a staging buffer. Before any caller sees that the stream has passed it,
 * the host copies them to `to`, unless the work has failed. At most one delivery for each staging buffer. */
void iobind__stream_deliver(const iobind__submission *submission, const void *from, void *to, size_t bytes);

/* Does the stream, up to a ticket, still have to deliver? */
bool iobind__stream_delivers(iobind_stream *stream, iobind__ticket ticket);

/* The next submission to the stream uses this host memory: wait until the stream has delivered what goes there. Does nothing for NULL. */
iobind_status iobind__stream_use_host(iobind_stream *stream, const void *data, size_t bytes, iobind_error *error);

/* ---- staging.c ---- */

/* In bytes. An EP copies a smaller write at once, and a smaller buffer could rarely be reused; a larger one would keep too much pinned. */
enum { IOBIND__STAGING_MIN_BYTES = 64 * 1024, IOBIND__STAGING_MAX_BYTES = 256 * 1024 * 1024 };

/* The smallest write for which it is worth it. */
size_t iobind__staging_min_bytes(const iobind_stream *stream);

/* Pinned memory of the stream, of at least `bytes` bytes, that no earlier copy uses any more: a copy between it and a device's memory need
 * not wait. NULL: there is none, and the EP copies as it does without. Borrowed for the one copy that is submitted next. */
iobind__staging *iobind__staging_take(iobind_stream *stream, const iobind__place *remote, size_t bytes);

/* The copy has been submitted, or has failed: it must be said of every buffer that was taken. */
void iobind__staging_used(const iobind__submission *submission, iobind__staging *staging);

/* Free all of it; the stream has passed every copy. */
void iobind__staging_free(iobind_stream *stream);

/* ---- point.c ---- */

/* The current end of a stream. A wait for it returns the failure of any submission since the last such point, and one of which no caller has been
 * told at all. */
iobind_status iobind__point_make(iobind_stream *stream, iobind__point **out, iobind_error *error);

void iobind__point_release(iobind__point *point); /* NULL is a no-op */

/* Wait on the host, and return the outcome. */
iobind_status iobind__point_wait(iobind__point *point, iobind_error *error);

/* The same in a thread of iobind's, or for another stream: no call returns the failure yet. Does nothing for NULL. */
iobind_status iobind__point_pass(iobind__point *point, iobind_error *error);

/* The same until the clock (iobind__clock_ns) shows a time: TIMEOUT, with a message that has no name before it. */
iobind_status iobind__point_wait_until(iobind__point *point, uint64_t until, iobind_error *error);

/* The time that lies so many nanoseconds from now; UINT64_MAX: never. */
uint64_t iobind__deadline(uint64_t timeout_ns);

/* Without waiting: has the point passed, as far as the host can tell? */
bool iobind__point_passed(const iobind__point *point);

/* Let the thread of the stream wait for a point, in its order. */
iobind_status iobind__point_submit_wait(iobind_stream *stream, iobind__point *point, iobind_error *error);

/* Let the thread of the point's stream wait for it on behalf of callers that cannot wait themselves. On a worker's stream that is needed
 * only by a device that queues, and once the thread has passed the point. Nothing happens the second time. */
iobind_status iobind__point_watch(iobind__point *point, iobind_error *error);

/* Make later work of the stream wait for a point; for NULL there is nothing to wait for. Waits on the host if the stream cannot wait by
 * itself, or is NULL. */
iobind_status iobind__stream_order(iobind_stream *stream, iobind__point *point, iobind_error *error);

/* ---- event.c ---- */

/* One more reference, for users of an event that its owner may destroy meanwhile. */
iobind_event *iobind__event_retain(iobind_event *event);
void iobind__event_release(iobind_event *event); /* NULL is a no-op */

/* The point that the event holds now, with one more reference; NULL: none, which counts as passed. */
iobind__point *iobind__event_point(iobind_event *event);

/* The event holds this point from now on, and owns the reference; NULL: passed. */
void iobind__event_set(iobind_event *event, iobind__point *point);

/* iobind__stream_order for the point that the event holds now. */
iobind_status iobind__stream_order_event(iobind_stream *stream, iobind_event *event, iobind_error *error);

#endif
