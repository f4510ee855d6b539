#include "memory/flight.h"

void iobind__flight_init(iobind__flight *self) {
  *self = (iobind__flight){0};
  atomic_init(&self->state, IOBIND__IDLE);
  atomic_init(&self->is_announced, false);
  atomic_init(&self->queued, 0);
  pthread_mutex_init(&self->mutex, NULL);
}

void iobind__flight_destroy(iobind__flight *self) {
  pthread_mutex_destroy(&self->mutex);
}

void iobind__flight_add(iobind__flight *self, iobind_stream *stream, iobind__ticket ticket) {
  pthread_mutex_lock(&self->mutex);
  if (self->stream == NULL) {
    iobind__ref_retain(&stream->ref);
    self->stream = stream;
    self->first = ticket;
  }
  self->ticket = ticket;
  self->end = ticket;
  pthread_mutex_unlock(&self->mutex);
}

void iobind__flight_follow(iobind__flight *self, iobind__ticket ticket) {
  self->end = ticket; /* no lock: only the owner's thread uses it */
}

iobind_stream *iobind__flight_end(iobind__flight *self) {
  pthread_mutex_lock(&self->mutex);
  iobind_stream *stream = self->stream;
  self->stream = NULL;
  self->first = 0;
  self->ticket = 0;
  self->end = 0;
  pthread_mutex_unlock(&self->mutex);
  return stream;
}
