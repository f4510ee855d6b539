/* Streams and events. On a device with streams of its own they are the EP's: an event is the EP's notification, which ORT lends to
 * an application through its plugin interface, so that no vendor's call is needed. On any other device a stream is a queue of
 * tasks with a worker thread of ours, which is started by the first task that has to wait its turn.
 *
 * Work on a stream has a ticket: its number in the order of submission. A stream knows up to which ticket it has passed; what
 * the host has waited for on an EP's stream, it has been told. */
#ifndef IOBIND_MEMORY_STREAM_H
#define IOBIND_MEMORY_STREAM_H

#include "runtime/runtime.h"

typedef uint64_t iobind__ticket;

/* Work for a worker. `failure` is NULL, or why earlier work of the stream failed: then nothing is to be done but to say so. */
typedef struct iobind__task {
  struct iobind__task *next;
  iobind__ticket ticket;
  iobind_status (*run)(struct iobind__task *task, const iobind_error *failure, iobind_error *error);
  void (*destroy)(struct iobind__task *task); /* always called, after `run`; NULL: nothing to do */
} iobind__task;

/* What a tensor's owner has given back while a stream still uses it. */
typedef struct iobind__retired {
  iobind__ticket ticket;
  iobind__ref *ref;
} iobind__retired;

/* Tickets that failed and were told: an EP says so once, to whoever waits first, and a worker's stream works again once it was
 * synchronized. Others ask later. */
typedef struct iobind__lost {
  iobind__ticket from;
  iobind__ticket to;
  iobind_error failure;
} iobind__lost;

/* What was read into pinned memory of the stream's, and where the host copies it once the stream has passed the ticket. */
typedef struct iobind__delivery {
  iobind__ticket ticket;
  const void *from;
  void *to;
  size_t bytes;
} iobind__delivery;

enum { IOBIND__LOST = 8, IOBIND__STAGING = 4 };

struct iobind_stream {
  iobind__ref ref;
  iobind_device *device;
  OrtSyncStream *sync; /* NULL: the device has none, or the caller has destroyed the stream, which the mutex guards */
  bool by_worker;      /* the device has none */
  atomic_uint_least64_t submitted;
  atomic_uint_least64_t passed;
  atomic_uint_least64_t seen;   /* passed, and the caller knows by having waited or asked */
  atomic_uint_least64_t failed; /* the first ticket that failed since the stream was last synchronized; 0: none */
  pthread_mutex_t mutex;        /* guards what follows */
  pthread_cond_t changed;       /* `passed`, or the list */
  iobind__task *tasks;
  iobind__task **tasks_end;
  pthread_t worker;
  iobind__task mark; /* of a worker's stream: what comes behind a failure that was told has another ticket */
  bool started;
  bool stopping;
  iobind_error failure;            /* of what `failed` */
  iobind__lost lost[IOBIND__LOST]; /* the oldest first */
  size_t lost_count;
  atomic_uint_least64_t last_lost;              /* the end of the last one */
  iobind__delivery deliveries[IOBIND__STAGING]; /* the oldest first */
  atomic_size_t delivery_count;
  struct iobind_tensor
      *staging[IOBIND__STAGING]; /* pinned memory for copies from and to pageable memory; the submitting thread's alone */
  iobind__ticket staged[IOBIND__STAGING]; /* when each was last used */
  iobind__retired *retired;
  size_t retired_count;
  size_t retired_capacity;
};

/* A point in a stream; several events and threads may hold it. */
typedef struct iobind__moment {
  iobind__ref ref;
  iobind_stream *stream; /* a reference is held */
  iobind__ticket ticket;
  OrtSyncNotificationImpl *notification; /* NULL: a worker's */
  atomic_bool watched;                   /* a worker waits for it on behalf of iobind_event_query */
  atomic_bool unwatched;                 /* the worker could not */
  atomic_bool queued;                    /* a device that queues by itself has not been waited for since */
} iobind__moment;

/* Wait on the host until a queued device has done all that was submitted; nothing on any other device. */
iobind_status iobind__device_wait(iobind_device *device, iobind_error *error);

/* ---- stream.c ---- */

/* The next ticket: what is submitted now. For an EP's stream, whose order is the order of the calls. */
iobind__ticket iobind__stream_take_ticket(iobind_stream *stream);

/* Has everything up to the ticket passed, as far as the host can tell without waiting? */
bool iobind__stream_passed(const iobind_stream *stream, iobind__ticket ticket);

/* Has the caller been told so? What is refused while a run is under way does not depend on how fast a worker is. */
bool iobind__stream_seen(const iobind_stream *stream, iobind__ticket ticket);

/* The host has seen that an EP's stream has passed the ticket. */
void iobind__stream_advance(iobind_stream *stream, iobind__ticket ticket);

/* What the host has waited for on an EP's stream has failed, after one ticket and before or at another. What was submitted behind it
 * by now counts as failed too. */
void iobind__stream_fail(iobind_stream *stream, iobind__ticket after, iobind__ticket ticket, const iobind_error *failure);

/* What was just submitted to an EP's stream brings these bytes; the host copies them on before anybody sees that the stream has passed
 * it, and not where it has failed. No more of them than there are staging buffers, which they come from. */
void iobind__stream_deliver(iobind_stream *stream, const void *from, void *to, size_t bytes);

/* Does the stream, up to a ticket, still have to deliver? */
bool iobind__stream_delivers(iobind_stream *stream, iobind__ticket ticket);

/* What is submitted to the stream next uses this memory of the host's: what the stream delivers there comes before. NULL is no stream. */
iobind_status iobind__stream_use_host(iobind_stream *stream, const void *data, size_t bytes, iobind_error *error);

/* How it went with a ticket that an EP's stream has passed; OK for a worker's. */
iobind_status iobind__stream_outcome(iobind_stream *stream, iobind__ticket ticket, iobind_error *error);

/* Put a task behind what is on the stream; a stream that is being destroyed has passed all, and the task is done at once. After a
 * failure the task is the caller's, and was not run. */
iobind_status iobind__stream_submit(iobind_stream *stream, iobind__task *task, iobind_error *error);

/* Must work for this stream be submitted as a task? Not where the EP orders it, nor where nothing is before it; a failure is. */
bool iobind__stream_is_busy(const iobind_stream *stream);

/* Wait on the host for a ticket of a worker's stream, or for all that is on an EP's. */
iobind_status iobind__stream_wait_ticket(iobind_stream *stream, iobind__ticket ticket, iobind_error *error);

/* Wait on the host for what is on a stream; NULL is no stream. */
iobind_status iobind__stream_drain(iobind_stream *stream, iobind_error *error);

/* Destroy an object, whose last reference is gone, once the stream has passed the ticket. */
void iobind__stream_retire(iobind_stream *stream, iobind__ticket ticket, iobind__ref *ref);

/* ---- event.c ---- */

/* Wait on the host for all that is on an EP's stream; one that was destroyed has passed. */
iobind_status iobind__stream_wait_end(iobind_stream *stream, iobind_error *error);

/* The present end of a stream. */
iobind_status iobind__moment_make(iobind_stream *stream, iobind__moment **out, iobind_error *error);
iobind_status iobind__moment_wait(iobind__moment *moment, iobind_error *error);

/* What the event holds now, with a reference more; NULL: nothing, which counts as passed. */
iobind__moment *iobind__event_moment(iobind_event *event);

/* The event holds this moment from now on, and its reference; NULL: passed. */
void iobind__event_set(iobind_event *event, iobind__moment *moment);

/* Order what is submitted to the stream next behind a moment; NULL is nothing to wait for. Waits on the host where the stream
 * cannot wait by itself, or is NULL. */
iobind_status iobind__stream_order(iobind_stream *stream, iobind__moment *moment, iobind_error *error);

/* The same for what the event holds now. */
iobind_status iobind__stream_order_event(iobind_stream *stream, iobind_event *event, iobind_error *error);

struct iobind_event {
  iobind_device *device;
  pthread_mutex_t mutex; /* one thread may record while others wait */
  iobind__moment *moment;
};

#endif
