/* Where a session computes. */
#ifndef IOBIND_SESSION_COMPUTE_H
#define IOBIND_SESSION_COMPUTE_H

#include "memory/driver.h"
#include "memory/stream.h"

/* Where runs compute, and how a run can be on a stream of a device. */
typedef enum iobind__compute_way {
  IOBIND__COMPUTE_IN_CALL,   /* a run is on no stream: its work is done when ORT's call returns */
  IOBIND__COMPUTE_BY_RUN,    /* each run gives the EP its stream */
  IOBIND__COMPUTE_BY_OPTION, /* the EP was given a stream by an option, and all runs compute there */
  IOBIND__COMPUTE_ON_QUEUE   /* on the one queue of the device, whose streams are entered and left around a run */
} iobind__compute_way;

typedef struct iobind__compute {
  iobind__compute_way way;
  iobind_stream *stream; /* on which all runs compute; the session retains it. NULL: the run's, or one of ORT's */
} iobind__compute;

/* `stream` is the session's, or NULL. */
void iobind__compute_open(iobind__compute *self, iobind_stream *stream);

/* By the session's inputs and devices. */
void iobind__compute_choose(iobind_session *session);

static inline bool iobind__compute_takes_stream(const iobind__compute *self) {
  return self->way != IOBIND__COMPUTE_IN_CALL;
}

/* What a run on `stream` computes on. */
static inline iobind_stream *iobind__compute_target(const iobind__compute *self, iobind_stream *stream) {
  return self->stream != NULL ? self->stream : stream;
}

/* The session's stream, if the EP must be given it with each run; NULL otherwise. */
static inline iobind_stream *iobind__compute_given(const iobind__compute *self) {
  return self->way == IOBIND__COMPUTE_BY_RUN ? self->stream : NULL;
}

/* Before a run that is on no stream: order it after all work submitted to the session's. */
iobind_status iobind__compute_await(const iobind__compute *self, iobind_error *error);

#endif
