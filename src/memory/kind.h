/* The kinds of streams, and what they share with stream.c. Only this module includes this header. */
#ifndef IOBIND_MEMORY_KIND_H
#define IOBIND_MEMORY_KIND_H

#include "memory/stream.h"

typedef struct iobind__stream_kind {
  bool orders_calls; /* see iobind__stream_orders_calls */
  iobind_status (*open)(iobind_stream *stream, iobind_error *error);
  void (*close)(iobind_stream *stream); /* the stream has passed everything */
  iobind__ticket (*take_ticket)(iobind_stream *stream);
  bool (*is_busy)(const iobind_stream *stream);
  /* Wait until the ticket has passed. A failure is one to wait only if it has not. */
  iobind_status (*wait)(iobind_stream *stream, iobind__ticket ticket, iobind_error *error);
  /* Wait until everything has passed, up to this ticket, and return the outcome. */
  iobind_status (*drain)(iobind_stream *stream, iobind__ticket *ticket, iobind_error *error);
  /* Fill in a point at the current end. */
  iobind_status (*mark)(iobind_stream *stream, iobind__point *point, iobind_error *error);
  iobind_status (*wait_point)(iobind__point *point, iobind_error *error);
  /* Make later work wait for a point of another stream that, as far as the host knows, has not passed. */
  iobind_status (*order)(iobind_stream *stream, iobind__point *point, iobind_error *error);
  /* Around work that ORT submits to the stream; NULL: nothing. */
  iobind_status (*enter)(const iobind_stream *stream, iobind_error *error);
  iobind_status (*leave)(iobind_stream *stream, iobind_error *error);
  void *(*native)(const iobind_stream *stream); /* for iobind_stream_get_native; NULL: there is none */
  void (*free)(iobind_stream *stream);          /* the last point of the stream is gone; NULL: nothing */
  size_t staging_min_bytes;                     /* the smallest write for which pinned memory is worth it, in bytes */
} iobind__stream_kind;

extern const iobind__stream_kind iobind__ep_stream;
extern const iobind__stream_kind iobind__worker_stream;

/* ---- stream.c ---- */

/* A ticket that is nobody's work. */
iobind__ticket iobind__stream_take_ticket(iobind_stream *stream);

/* iobind__submission_ticket with the mutex held. */
iobind__ticket iobind__submission_ticket_inside(const iobind__submission *self);

/* A ticket for which somebody can ask: it has the failure of earlier work, until a call has returned that. */
void iobind__stream_mark(iobind_stream *stream, iobind__ticket ticket);

/* The host knows now that the stream has passed the ticket: deliver bytes, release references. No caller has been told yet. */
void iobind__stream_advance(iobind_stream *stream, iobind__ticket ticket);

/* Waiting for an EP's stream has failed: some work after one ticket and up to another failed. What has been submitted by now
 * counts as failed too, and what is being submitted. */
void iobind__stream_fail(iobind_stream *stream, iobind__ticket after, iobind__ticket ticket, const iobind_error *failure);

/* The work of these tickets has failed. With the mutex held. */
void iobind__stream_add_failure(iobind_stream *stream, iobind__ticket from, iobind__ticket to, const iobind_error *failure);

/* Release the references up to a ticket, which the stream has passed. */
void iobind__stream_collect(iobind_stream *stream, iobind__ticket ticket);

/* ---- point.c ---- */

/* A point for which nobody asks: only the device waits for it. */
iobind_status iobind__point_open(iobind_stream *stream, iobind__point **out, iobind_error *error);

/* ---- join.c ---- */

/* The device has passed the ticket: wait for what was joined up to it, and record its failures. */
void iobind__stream_collect_joined_failures(iobind_stream *stream, iobind__ticket ticket);

/* Release all that was joined. */
void iobind__stream_forget_joined(iobind_stream *stream);

/* ---- native.c ---- */

/* Before work is submitted to the EP's stream: order it after all work that the other library has submitted. Nothing without a bridge. */
iobind_status iobind__bridge_in(const iobind_stream *stream, iobind_error *error);

/* After that: the other library's later work waits for it. */
iobind_status iobind__bridge_out(iobind_stream *stream, iobind_error *error);

void *iobind__bridge_native(const iobind__bridge *bridge); /* as the caller knows it */
void iobind__bridge_close(iobind_stream *stream);

/* ---- worker.c ---- */

/* Put a task into the queue of the stream's thread, with a ticket or without one. See iobind__stream_submit. */
iobind_status iobind__worker_give(iobind_stream *stream, iobind__task *task, bool ticketed, iobind__ticket *ticket,
                                  iobind_error *error);

/* Let the thread finish its queue, and end it. A task that is submitted later is done at once by the caller's thread. */
void iobind__worker_stop(iobind_stream *stream);

#endif
