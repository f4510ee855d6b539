/* A task that holds a stream's thread until it is released: on a worker's stream that is the stream, on an EP's stream what watches its
 * points. The including file defines _POSIX_C_SOURCE, for barriers. */
#ifndef TESTS_ASYNC_HALT_H
#define TESTS_ASYNC_HALT_H

#include "fixture.h"

#include <pthread.h>

#include "memory/stream.h"

typedef struct halt {
  iobind__task task;
  pthread_barrier_t gate;
} halt;

static inline iobind_status halt_run(iobind__task *task, const iobind_error *failure, iobind_error *error) {
  (void)failure, (void)error;
  pthread_barrier_wait(&((halt *)task)->gate);
  return IOBIND_OK;
}

static inline void halt_forget(iobind__task *task) {
  (void)task;
}

static inline void halt_stream(halt *self, iobind_stream *stream) {
  *self = (halt){.task = {.run = halt_run, .destroy = halt_forget}};
  assert_int_equal(pthread_barrier_init(&self->gate, NULL, 2), 0);
  expect_ok(iobind__stream_submit(stream, &self->task, NULL, &fault));
}

static inline void halt_release(halt *self) {
  pthread_barrier_wait(&self->gate);
}

/* After the stream is known to have passed the task. */
static inline void halt_destroy(halt *self) {
  assert_int_equal(pthread_barrier_destroy(&self->gate), 0);
}

#endif
