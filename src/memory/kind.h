/* The kinds of streams, and what they share with stream.c. Only this module includes this header. */
#ifndef IOBIND_MEMORY_KIND_H
#define IOBIND_MEMORY_KIND_H

#include "memory/stream.h"

typedef struct iobind__stream_kind {
  bool orders_calls;                                                 /* see iobind__stream_orders_calls */
  iobind_status (*open)(iobind_stream *stream, iobind_error *error); /* NULL: nothing */
  void (*close)(iobind_stream *stream);                              /* all work is complete; NULL: nothing */
  iobind__ticket (*take_ticket)(iobind_stream *stream);
  bool (*is_busy)(const iobind_stream *stream);
  /* Block until the ticket is complete. If it is not complete on return, the wait itself has failed; any other failure may be
   * that of later work. */
  iobind_status (*wait)(iobind_stream *stream, iobind__ticket ticket, iobind_error *error);
  /* Block until all work is complete. Returns its last ticket and the outcome. */
  iobind_status (*drain)(iobind_stream *stream, iobind__ticket *ticket, iobind_error *error);
  /* Fill in a point at the current end. */
  iobind_status (*mark)(iobind_stream *stream, iobind__point *point, iobind_error *error);
  iobind_status (*wait_point)(iobind__point *point, iobind_error *error);
  /* Make later work wait for a point of another stream that is not known to be complete. */
  iobind_status (*order)(iobind_stream *stream, iobind__point *point, iobind_error *error);
  /* Around work that ORT submits to the stream; NULL: nothing. */
  iobind_status (*enter)(const iobind_stream *stream, iobind_error *error);
  iobind_status (*leave)(iobind_stream *stream, iobind_error *error);
  void *(*native)(const iobind_stream *stream); /* for iobind_stream_get_native; NULL: not supported */
  void (*free)(iobind_stream *stream);          /* the last point of the stream is gone; NULL: nothing */
  size_t staging_min_bytes;                     /* the smallest write that is copied by way of pinned memory */
} iobind__stream_kind;

extern const iobind__stream_kind iobind__ep_stream;
extern const iobind__stream_kind iobind__worker_stream;

/* ---- stream.c ---- */

/* A ticket for a wait or a point, without work. */
iobind__ticket iobind__stream_take_ticket(iobind_stream *stream);

/* iobind__submission_ticket with the mutex held. */
iobind__ticket iobind__submission_ticket_inside(const iobind__submission *self);

/* A caller can query this ticket: it inherits the failure of earlier work until a call has returned that failure. */
void iobind__stream_mark(iobind_stream *stream, iobind__ticket ticket);

/* The ticket is known to be complete: deliver bytes, release references. No call has returned that yet. */
void iobind__stream_advance(iobind_stream *stream, iobind__ticket ticket);

/* A wait for an EP's stream has failed: some work after the ticket `after`, up to `ticket`, failed. What was submitted since,
 * and what is being submitted, counts as failed, too. */
void iobind__stream_fail(iobind_stream *stream, iobind__ticket after, iobind__ticket ticket, const iobind_error *failure);

/* The work of these tickets has failed. With the mutex held. */
void iobind__stream_add_failure(iobind_stream *stream, iobind__ticket from, iobind__ticket to, const iobind_error *failure);

/* Block until iobind__stream_wake is called for the ticket, or iobind__clock_ns is `until`: then false. Each thread has a condition
 * of its own, so that a task that ends wakes only the threads that wait for it. With the mutex held. */
bool iobind__stream_sleep(iobind_stream *stream, iobind__ticket ticket, uint64_t until);

/* Wake the threads that wait for tickets up to this one. With the mutex held. */
void iobind__stream_wake(iobind_stream *stream, iobind__ticket ticket);

/* Release the references up to a ticket that is complete. */
void iobind__stream_collect(iobind_stream *stream, iobind__ticket ticket);

/* ---- ep_stream.c ---- */

void iobind__notification_release(const iobind_stream *stream, OrtSyncNotificationImpl *notification);

/* ---- point.c ---- */

/* A point that no caller queries: only the device waits for it. */
iobind_status iobind__point_open(iobind_stream *stream, iobind__point **out, iobind_error *error);

/* ---- join.c ---- */

/* The ticket is complete: wait for what was joined up to it, and record its failures. */
void iobind__stream_collect_joined_failures(iobind_stream *stream, iobind__ticket ticket);

/* Release all that was joined. */
void iobind__stream_forget_joined(iobind_stream *stream);

/* ---- native.c ---- */

/* Before work is submitted to the EP's stream: order it after all work that the other library has submitted. No-op without a
 * bridge. */
iobind_status iobind__bridge_in(const iobind_stream *stream, iobind_error *error);

/* After the submission: make the other library's later work wait for it. */
iobind_status iobind__bridge_out(iobind_stream *stream, iobind_error *error);

void *iobind__bridge_native(const iobind__bridge *bridge); /* the caller's handle */
void iobind__bridge_close(iobind_stream *stream);

/* ---- worker.c ---- */

/* Queue a task for the stream's thread, with a ticket or without one. See iobind__stream_submit. */
iobind_status iobind__worker_give(iobind_stream *stream, iobind__task *task, bool ticketed, iobind__ticket *ticket,
                                  iobind_error *error);

/* Let the thread finish its queue, and end it. Tasks that are submitted later run in the caller's thread. */
void iobind__worker_stop(iobind_stream *stream);

#endif
