/* The runs of a binding that are in flight, as other threads see them. */
#ifndef IOBIND_MEMORY_FLIGHT_H
#define IOBIND_MEMORY_FLIGHT_H

#include "memory/stream.h"

/* The run state of a binding. It is one word, so that one compare-and-exchange checks all of it. From the lowest bits on:
 *  - whether a run is in flight: IDLE, RUNNING, CANCELLING (a thread is setting ORT's flag), CANCELLED (until the run ends);
 *  - MEETS: other work on a stream may use the same memory;
 *  - who may repeat the last run without checks: no thread (0), any thread (ARMED), or one thread, by its number, which may
 *    replay the last graph. That number stays during the replay, which cannot be cancelled. */
enum {
  IOBIND__IDLE,
  IOBIND__RUNNING,
  IOBIND__CANCELLING,
  IOBIND__CANCELLED,
  IOBIND__RUN_STATES,
  IOBIND__MEETS = IOBIND__RUN_STATES
};
#define IOBIND__ARMED (UINT64_MAX - UINT64_MAX % IOBIND__THREADS_APART) /* no thread has this number */
_Static_assert(IOBIND__THREADS_APART == 2 * IOBIND__RUN_STATES, "the number of a thread leaves room for a run state");

/* The runs of one binding. Only the owner's thread changes them. Other threads read the state, and with the mutex the stream
 * and the ticket. */
typedef struct iobind__flight {
  atomic_uint_least64_t state;
  atomic_bool is_announced; /* RUNNING was set for a run that another thread will make */
  pthread_mutex_t mutex;
  iobind_stream *stream; /* of runs that are not known to be complete; a reference is held; NULL: none */
  iobind__ticket first;  /* of the first of them */
  iobind__ticket ticket; /* of the last of them */
  iobind__ticket end;    /* of the last work on bound memory: that run, or a later copy of its states */
  atomic_size_t queued;  /* runs on a worker's stream that have not ended */
  bool has_uncounted;    /* ORT got a run without lengths of iobind: at which rows it wrote to the caches is unknown */
} iobind__flight;

void iobind__flight_init(iobind__flight *self);
void iobind__flight_destroy(iobind__flight *self); /* no run is in flight */

static inline bool iobind__flight_runs(const iobind__flight *self) {
  return atomic_load_explicit(&self->state, memory_order_acquire) % IOBIND__RUN_STATES != IOBIND__IDLE;
}

/* Other work uses the memory: the binding's next run without a stream must check. */
static inline void iobind__flight_meet(iobind__flight *self) {
  if ((atomic_load(&self->state) & IOBIND__MEETS) == 0) {
    atomic_fetch_or(&self->state, IOBIND__MEETS);
  }
}

/* No thread may repeat the last run without checks any more. */
static inline void iobind__flight_disarm(iobind__flight *self) {
  atomic_fetch_and(&self->state, IOBIND__THREADS_APART - 1);
}

/* A run was submitted to the stream with this ticket. */
void iobind__flight_add(iobind__flight *self, iobind_stream *stream, iobind__ticket ticket);

/* Other work on bound memory was submitted to the stream after the last run. */
void iobind__flight_follow(iobind__flight *self, iobind__ticket ticket);

/* No run is in flight any more. Transfers the reference to the stream to the caller. */
iobind_stream *iobind__flight_end(iobind__flight *self);

#endif
