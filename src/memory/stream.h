/* Streams: work of a device in order. There are three kinds:
 *
 * - a device with streams has the execution provider's (ep_stream.c): ORT's calls submit to it and return. Its events are the EP's
 *   notifications, which ORT offers through its plugin interface, so that no vendor's call is needed;
 * - a driver may have its own (driver.h);
 * - any other device has a queue of tasks with one thread of iobind (worker.c).
 *
 * The kinds differ in one table of functions, kind.h. Modules below this one need only this header.
 *
 * Work on a stream has a ticket, its number in the order of submission. A run of a binding uses it as follows. Any number of runs may
 * be queued, each with its own ticket:
 *
 *   if (iobind__stream_orders_calls(stream)) {
 *     submission = iobind__stream_begin(stream);         before the submission: a failure may be reported in its middle
 *     RunWithBinding(...);                               submits to the EP: the run options have iobind__stream_ort(stream)
 *     ticket = iobind__submission_ticket(&submission);   after the submission: a wait takes its own ticket before it begins
 *   } else {
 *     iobind__stream_submit(stream, task, &ticket, error);
 *   }
 *   iobind__stream_retire(stream, ticket, ref);          retains what the run uses until it is complete
 *   ...
 *   iobind__stream_wait_ticket(stream, ticket, error)    block until it is complete; or, without blocking,
 *   iobind__stream_seen(stream, ticket)                  has a call returned that it is complete? If so,
 *   iobind__stream_outcome(stream, ticket, error)        did it succeed? May be called any number of times, at any later time
 *
 * A ticket is complete only after all earlier ones. `passed` is the last ticket that the host knows to be complete, `seen` the last one
 * that a call has returned as complete. What is refused while work is in flight depends on `seen`, so that a caller's mistake is found
 * on a fast device, too. */
#ifndef IOBIND_MEMORY_STREAM_H
#define IOBIND_MEMORY_STREAM_H

#include "runtime/runtime.h"

typedef uint64_t iobind__ticket;

/* Work that is being submitted to an EP's stream. It begins before the first call that submits a part of it. After a failure
 * the EP skips submitted work until it has reported the failure to a wait, possibly another thread's. `reports` shows whether
 * that happened during the submission. */
typedef struct iobind__submission {
  iobind_stream *stream;  /* NULL: none */
  uint_least64_t reports; /* the stream's count at the beginning */
} iobind__submission;

/* Work for a stream's thread. */
typedef struct iobind__task {
  struct iobind__task *next;
  iobind__ticket ticket; /* 0: on an EP's stream, not ordered with its work */
  /* `failure`: NULL, or the failure of earlier work of the stream. Then the task does no work and returns that failure. */
  iobind_status (*run)(struct iobind__task *task, const iobind_error *failure, iobind_error *error);
  void (*destroy)(struct iobind__task *task); /* always called, after `run` */
} iobind__task;

/* A reference that is released when the ticket is complete. */
typedef struct iobind__retired {
  iobind__ticket ticket;
  iobind__ref *ref;
} iobind__retired;

/* A failure and the tickets that it covers, for later queries: an EP reports a failure only to the first wait, and a worker's
 * stream works again after a synchronization. */
typedef struct iobind__failure {
  iobind__ticket from;
  iobind__ticket to;   /* UINT64_MAX: all later work, until the stream is synchronized */
  iobind__ticket told; /* the last ticket for which a call has returned it; 0: none */
  iobind_error error;
} iobind__failure;

/* Bytes that the stream reads into its pinned memory, and where the host copies them when the ticket is complete. */
typedef struct iobind__delivery {
  iobind__ticket ticket;
  const void *from;
  void *to;
  size_t bytes;
} iobind__delivery;

/* Work on another stream that is part of this one's work: see join.c. */
typedef struct iobind__joined {
  iobind__ticket ticket;       /* is complete only if that work is */
  struct iobind__point *point; /* of the other stream; a reference is held */
} iobind__joined;

/* A bridge to the stream of another library: see native.c. */
typedef struct iobind__bridge iobind__bridge;

/* Pinned memory of the stream. */
#define IOBIND__STAGING_TAKEN UINT64_MAX
typedef struct iobind__staging {
  OrtValue *value; /* NULL: not allocated */
  iobind__place *place;
  void *data;
  size_t bytes;
  iobind__ticket used; /* the ticket of the last copy; TAKEN: the slot belongs to a thread that is submitting one */
} iobind__staging;

/* A thread that is waiting for an EP's stream. */
typedef struct iobind__wait {
  iobind__ticket ticket;
  struct iobind__wait *next;
} iobind__wait;

/* A thread that blocks until a ticket may be complete; on its stack. */
typedef struct iobind__sleeper {
  iobind__ticket ticket;
  pthread_cond_t woken;
  struct iobind__sleeper *next;
} iobind__sleeper;

enum { IOBIND__FAILURES = 8, IOBIND__STAGING = 4 };

/* Which work was submitted, is complete, and has failed. */
typedef struct iobind__timeline {
  atomic_uint_least64_t submitted;            /* the last ticket */
  atomic_uint_least64_t passed;               /* the last ticket that is known to be complete */
  atomic_uint_least64_t seen;                 /* the last ticket that a call has returned as complete */
  atomic_bool untold;                         /* the stream was not synchronized since the latest failure */
  pthread_mutex_t mutex;                      /* protects the lists, the queue and the failures */
  iobind__sleeper *sleepers;                  /* threads that wait for tickets */
  iobind__failure failures[IOBIND__FAILURES]; /* the oldest first */
  size_t failure_count;
  atomic_uint_least64_t last_failed; /* the end of the latest failure */
  iobind__ticket marked;             /* the last point that can be queried */
  atomic_uint_least64_t given;       /* the last ticket of a submission */
  atomic_bool owed;                  /* the latest failure covers later submissions, too */
  atomic_uint_least64_t reports;     /* the number of failures that the EP has reported, each counted before it is recorded */
} iobind__timeline;

/* The thread of a stream, and its queue. */
typedef struct iobind__worker {
  iobind__task *tasks;
  iobind__task **end;
  pthread_cond_t given; /* a task was queued, or the thread must end */
  pthread_t thread;
  bool is_started;
  bool is_stopping; /* the stream is being destroyed, and all work is complete */
} iobind__worker;

/* The fields of an EP's stream; all 0 in other kinds. */
typedef struct iobind__ep_part {
  OrtSyncStream *sync;
  iobind__bridge *bridge; /* NULL: no other library's stream */
  iobind__wait *waits;    /* threads inside the EP */
  pthread_cond_t ended;   /* one of them has left */
  struct {
    iobind__joined *items; /* the oldest first */
    size_t count;
    size_t capacity;
  } joined;
} iobind__ep_part;

/* Other modules use only `ref` and `device`. */
struct iobind_stream {
  iobind__ref ref;                          /* held by the owners, and by its points */
  iobind_device *device;                    /* its runtime is retained */
  const struct iobind__stream_kind *kind;   /* what differs between an EP's, a worker's and a driver's stream */
  iobind__timeline timeline;                /* the progress of its work */
  iobind__ep_part ep;                       /* the EP's stream */
  void *own;                                /* of a driver's kind; NULL: nothing */
  iobind__worker worker;                    /* its thread: does a worker's work, or waits for points */
  iobind__staging staging[IOBIND__STAGING]; /* buffers of pinned memory */
  struct {
    iobind__delivery items[IOBIND__STAGING]; /* the oldest first */
    atomic_size_t count;
  } deliveries; /* bytes in those buffers for host memory */
  struct {
    iobind__retired *items;
    size_t count;
    size_t capacity;
  } retired;              /* objects that work in flight uses */
  iobind__loss_hook loss; /* called if the device is lost */
  atomic_size_t owners;   /* the caller, and sessions that compute on it; the last one closes it */
};

/* Does the stream's thread wait for a point, so that a query of it need not block? */
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
  atomic_bool queued; /* the device has the quirk QUEUES, and no thread has waited for it since */
} iobind__point;

struct iobind_event {
  iobind__ref ref;
  iobind_device *device;
  pthread_mutex_t mutex; /* one thread may record while others wait */
  iobind__point *point;
};

/* ---- driver.c ---- */

/* Block until a device with the quirk QUEUES has completed all submitted work; a no-op on other devices. */
iobind_status iobind__device_wait(iobind_device *device, iobind_error *error);

/* ---- stream.c: questions about the kind ---- */

/* Do ORT's calls submit to the stream and return, because the EP orders them? Otherwise the calls' work is complete on return,
 * and work that must wait is a task. */
bool iobind__stream_orders_calls(const iobind_stream *stream);

/* ORT's stream, to which its calls submit. NULL: calls are complete on return, or `stream` is NULL. */
OrtSyncStream *iobind__stream_ort(const iobind_stream *stream);

/* Must work for the stream be a task? False if the EP orders it, or if the stream has neither earlier work in flight nor a
 * failure. */
bool iobind__stream_is_busy(const iobind_stream *stream);

/* ---- ep_stream.c ---- */

/* The EP's native handle, such as a cudaStream_t. Only for an EP's stream. */
void *iobind__stream_handle(const iobind_stream *stream);

/* ---- stream.c: tickets ---- */

/* Begin a submission; for a NULL stream none begins. Call it after all waits for the same stream, or their failures would count
 * as the submission's. If earlier work has failed, and no call has returned that failure, the submission fails, too: it may use
 * what that work was to write. */
iobind__submission iobind__stream_begin(iobind_stream *stream);

/* A ticket for the submission up to now. Any number may be taken; each has its own outcome. */
iobind__ticket iobind__submission_ticket(const iobind__submission *self);

/* Submit a task to the stream's thread, which the first task starts. On a worker's stream the task is ordered after all earlier
 * work, and *ticket is its ticket. On an EP's stream the thread is not ordered with the EP's work; it waits on behalf of
 * callers that must not block, and *ticket is 0, which is always complete. The task may have run before the call returns.
 * `ticket` may be NULL. On failure the task has not run, and the caller still owns it. */
iobind_status iobind__stream_submit(iobind_stream *stream, iobind__task *task, iobind__ticket *ticket, iobind_error *error);

/* Raise a mark to at least `ticket`. Returns whether this call raised it. */
bool iobind__ticket_raise(atomic_uint_least64_t *mark, iobind__ticket ticket);

/* Is the ticket known to be complete? Does not block. */
bool iobind__stream_passed(const iobind_stream *stream, iobind__ticket ticket);

/* Has a call returned that it is complete? */
bool iobind__stream_seen(const iobind_stream *stream, iobind__ticket ticket);

/* The outcome of a complete ticket: OK, or the failure that covers it. */
iobind_status iobind__stream_outcome(iobind_stream *stream, iobind__ticket ticket, iobind_error *error);

/* Has the ticket failed without any call having returned that? A later point of the stream may not have the failure. */
bool iobind__stream_owes(iobind_stream *stream, iobind__ticket ticket);

/* Record that a call returns this outcome of the ticket. No-op if the ticket is not complete. */
void iobind__stream_tell(iobind_stream *stream, iobind__ticket ticket, iobind_status outcome);

/* Block until a ticket is complete, and return its outcome. On an EP's stream this waits for all submitted work. */
iobind_status iobind__stream_wait_ticket(iobind_stream *stream, iobind__ticket ticket, iobind_error *error);

/* The same, but does not record that a caller gets the outcome. */
iobind_status iobind__stream_pass_ticket(iobind_stream *stream, iobind__ticket ticket, iobind_error *error);

/* Block until all submitted work is complete, and return the outcome. NULL is a no-op. */
iobind_status iobind__stream_drain(iobind_stream *stream, iobind_error *error);

/* Block until all submitted work is complete. A failure is left for later waits and queries. NULL is a no-op. */
void iobind__stream_pass(iobind_stream *stream);

/* Release a reference when the ticket is complete. At most 1024 are kept; after that the call waits for the stream. So a task
 * must not call this for its own stream; it can hold references itself. */
void iobind__stream_retire(iobind_stream *stream, iobind__ticket ticket, iobind__ref *ref);

/* A call in which the EP waits for the stream has failed. The failure may be that of earlier work, and the EP reports it only
 * once. So all work that is not known to be complete counts as failed. No-op if the device keeps its failures: then earlier
 * work would have lost it. */
void iobind__stream_suspect(iobind_stream *stream, const iobind_error *failure);

/* Add an owner, who must call iobind_stream_destroy. */
iobind_stream *iobind__stream_share(iobind_stream *stream);

/* ---- join.c: a stream that uses another one's work ---- */

/* Make later work on `compute` wait for all work submitted to `stream`. Does not block. */
iobind_status iobind__stream_fork(iobind_stream *stream, iobind_stream *compute, iobind_error *error);

/* Make later work on `stream` wait for all work submitted to `compute`. From now on that work counts as work of `stream`, also
 * its failures. A worker's stream fails with what it waits for; an EP's stream records the other one, see join.c. Blocks if the
 * device cannot keep the order (see iobind__stream_order), or if 1024 joins are recorded. */
iobind_status iobind__stream_join(iobind_stream *stream, iobind_stream *compute, iobind_error *error);

/* ---- native.c: streams of other libraries; the stream may be NULL ---- */

bool iobind__stream_is_foreign(const iobind_stream *stream);

/* INVALID_STATE while the other library captures its stream: making it wait for work that is not captured would break the
 * capture. */
iobind_status iobind__bridge_check(const iobind_stream *stream, iobind_error *error);

/* ---- stream.c: around work that ORT submits to a stream ---- */

/* Before: order the work after all that the stream waits for. NULL is a no-op. */
iobind_status iobind__stream_enter(const iobind_stream *stream, iobind_error *error);

/* After: make later work on the stream, and on the bridged one of another library, wait for it. NULL is a no-op. */
iobind_status iobind__stream_leave(iobind_stream *stream, iobind_error *error);

/* ---- stream.c: deliveries ---- */

/* The work just submitted to an EP's stream writes these bytes into a staging buffer. Before a caller sees that the work is
 * complete, the host copies them to `to`, unless the work has failed. At most one delivery for each staging buffer. */
void iobind__stream_deliver(const iobind__submission *submission, const void *from, void *to, size_t bytes);

/* Are there deliveries outstanding up to a ticket? */
bool iobind__stream_delivers(iobind_stream *stream, iobind__ticket ticket);

/* The next submission uses this host memory: block until the stream's deliveries to it are complete. NULL is a no-op. */
iobind_status iobind__stream_use_host(iobind_stream *stream, const void *data, size_t bytes, iobind_error *error);

/* ---- staging.c ---- */

/* In bytes. An EP copies smaller writes without waiting, and a smaller buffer could rarely be reused. A larger one would keep
 * too much memory pinned. */
enum { IOBIND__STAGING_MIN_BYTES = 64 * 1024, IOBIND__STAGING_MAX_BYTES = 256 * 1024 * 1024 };

/* The smallest write that is copied by way of pinned memory. */
size_t iobind__staging_min_bytes(const iobind_stream *stream);

/* A free staging buffer of at least `bytes` bytes, for the copy that is submitted next. NULL: there is none; then the EP copies
 * the pageable memory. Each buffer must be returned by iobind__staging_used. */
iobind__staging *iobind__staging_take(iobind_stream *stream, const iobind__place *remote, size_t bytes);

/* The copy was submitted, or has failed. */
void iobind__staging_used(const iobind__submission *submission, iobind__staging *staging);

/* Free all buffers; all copies are complete. */
void iobind__staging_free(iobind_stream *stream);

/* ---- point.c ---- */

/* The current end of a stream. A wait for it returns the failure of any submission since the last such point, and a failure
 * that no call has returned yet. */
iobind_status iobind__point_make(iobind_stream *stream, iobind__point **out, iobind_error *error);

void iobind__point_release(iobind__point *point); /* NULL is a no-op */

/* Block until it is complete, and return the outcome. */
iobind_status iobind__point_wait(iobind__point *point, iobind_error *error);

/* The same, but does not record that a caller gets the outcome: for iobind's threads, and for other streams. NULL is a no-op. */
iobind_status iobind__point_pass(iobind__point *point, iobind_error *error);

/* The same until iobind__clock_ns is `until`: then TIMEOUT, with a message without a function's name. */
iobind_status iobind__point_wait_until(iobind__point *point, uint64_t until, iobind_error *error);

/* The time of iobind__clock_ns in so many nanoseconds; UINT64_MAX: never. */
uint64_t iobind__deadline(uint64_t timeout_ns);

/* Is the point known to be complete? Does not block. */
bool iobind__point_passed(const iobind__point *point);

/* Submit a wait for a point as a task of the stream. */
iobind_status iobind__point_submit_wait(iobind_stream *stream, iobind__point *point, iobind_error *error);

/* Let the thread of the point's stream wait for it on behalf of callers that must not block. No-op if the thread waits already;
 * and on a worker's stream until the ticket is complete, after which only a device with the quirk QUEUES needs the wait. */
iobind_status iobind__point_watch(iobind__point *point, iobind_error *error);

/* Make later work of the stream wait for a point; a NULL point is a no-op. Blocks if the stream cannot wait by itself, or is
 * NULL. */
iobind_status iobind__stream_order(iobind_stream *stream, iobind__point *point, iobind_error *error);

/* ---- event.c ---- */

/* Retain an event, whose owner may destroy it meanwhile. */
iobind_event *iobind__event_retain(iobind_event *event);
void iobind__event_release(iobind_event *event); /* NULL is a no-op */

/* The event's current point, with a reference for the caller. NULL: none, which counts as complete. */
iobind__point *iobind__event_point(iobind_event *event);

/* iobind__stream_order for the event's current point. */
iobind_status iobind__stream_order_event(iobind_stream *stream, iobind_event *event, iobind_error *error);

#endif
