/* The runs of a binding that are in flight, as other threads may look at them. */
#ifndef IOBIND_MEMORY_FLIGHT_H
#define IOBIND_MEMORY_FLIGHT_H

#include "memory/stream.h"

/* The run state of a binding, to which MEETS is added while other work may be in flight on a stream that uses the same memory. The state of
 * an idle binding may say who may repeat the last run without a look: any thread (ARMED), or one thread by its number, which may replay the
 * last graph. That number stays while it does so, and that replay cannot be cancelled. */
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

/* The runs of one binding. Only its owner's thread changes it; other threads look at the state, and with the mutex at stream and ticket. */
typedef struct iobind__flight {
  atomic_uint_least64_t state;
  atomic_bool is_announced; /* the state was entered for a run that another thread is about to make */
  pthread_mutex_t mutex;
  iobind_stream *stream; /* of runs of which the host does not know that they have completed; a reference is held; NULL: none */
  iobind__ticket ticket; /* of the last of them */
  iobind__ticket end;    /* of the last work on what is bound: that run, or a copy of the state that it has left */
  size_t runs;           /* how many, with one that was ordered after them, but was not made */
  atomic_size_t queued;  /* runs on a worker's stream that have not ended; only the owner's thread uses the rest */
  bool has_run;       /* one was given to an EP's stream, or a worker has made it: then a failure leaves the states unknown */
  bool is_counted;    /* the run that is being made: the lengths that it reads are those that iobind wrote for it */
  bool has_uncounted; /* another one was given to ORT, and has written into the caches where nobody knows */
} iobind__flight;

void iobind__flight_init(iobind__flight *self);
void iobind__flight_destroy(iobind__flight *self); /* it has no stream any more */

static inline bool iobind__flight_runs(const iobind__flight *self) {
  return atomic_load_explicit(&self->state, memory_order_acquire) % IOBIND__RUN_STATES != IOBIND__IDLE;
}

/* Other work uses the memory: a run without a stream looks before it begins. */
static inline void iobind__flight_meet(iobind__flight *self) {
  if ((atomic_load(&self->state) & IOBIND__MEETS) == 0) {
    atomic_fetch_or(&self->state, IOBIND__MEETS);
  }
}

/* Nobody may repeat the last run without a look any more. */
static inline void iobind__flight_disarm(iobind__flight *self) {
  atomic_fetch_and(&self->state, IOBIND__THREADS_APART - 1);
}

/* One more run was submitted to the stream, and this is its ticket. */
void iobind__flight_add(iobind__flight *self, iobind_stream *stream, iobind__ticket ticket);

/* Other work on what is bound follows the last run, on its stream. */
void iobind__flight_follow(iobind__flight *self, iobind__ticket ticket);

/* No run is in flight any more. The caller gets the reference to the stream. */
iobind_stream *iobind__flight_end(iobind__flight *self);

#endif
