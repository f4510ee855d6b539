/* The two kinds of streams, and what they share with stream.c. Only this room includes it. */
#ifndef IOBIND_MEMORY_KIND_H
#define IOBIND_MEMORY_KIND_H

#include "memory/stream.h"

typedef struct iobind__stream_kind {
  bool orders_calls; /* see iobind__stream_orders_calls */
  iobind_status (*open)(iobind_stream *stream, const iobind_stream_options *options, iobind_error *error);
  void (*close)(iobind_stream *stream); /* it has passed all */
  iobind__ticket (*take_ticket)(iobind_stream *stream);
  bool (*is_busy)(const iobind_stream *stream);
  /* Wait until the ticket has passed. A failure that is not an outcome is returned. */
  iobind_status (*wait)(iobind_stream *stream, iobind__ticket ticket, iobind_error *error);
  iobind_status (*drain)(iobind_stream *stream, iobind_error *error);
  /* Fill in a point at the present end. */
  iobind_status (*mark)(iobind_stream *stream, iobind__point *point, iobind_error *error);
  iobind_status (*wait_point)(iobind__point *point, iobind_error *error);
  /* Order what comes next behind a point of another stream that has not passed as far as the host can tell. */
  iobind_status (*order)(iobind_stream *stream, iobind__point *point, iobind_error *error);
} iobind__stream_kind;

extern const iobind__stream_kind iobind__ep_stream;
extern const iobind__stream_kind iobind__worker_stream;

/* ---- stream.c ---- */

/* The host has learned that the stream has passed the ticket: bytes are delivered, references given back. */
void iobind__stream_advance(iobind_stream *stream, iobind__ticket ticket);

/* What the host has waited for on an EP's stream has failed, after one ticket and before or at another. What was submitted behind it
 * by now counts as failed too. */
void iobind__stream_fail(iobind_stream *stream, iobind__ticket after, iobind__ticket ticket, const iobind_error *failure);

/* These tickets have failed. With the mutex held. */
void iobind__stream_add_failure(iobind_stream *stream, iobind__ticket from, iobind__ticket to, const iobind_error *failure);

/* Give back the references up to a ticket, which the stream has passed. */
void iobind__stream_collect(iobind_stream *stream, iobind__ticket ticket);

/* ---- worker.c ---- */

/* Put a task into the queue of the stream's thread, with a ticket or without. See iobind__stream_submit. */
iobind_status iobind__worker_give(iobind_stream *stream, iobind__task *task, bool ticketed, iobind__ticket *ticket,
                                  iobind_error *error);

/* Let the thread do what is in its queue, and end it. What is given to it from now on is done at once by the caller's thread. */
void iobind__worker_stop(iobind_stream *stream);

#endif
