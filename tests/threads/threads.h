/* The fixture of the tests with several threads: the virtual accelerator, which ThreadSanitizer sees into, and a crew of threads. */
#ifndef TESTS_THREADS_THREADS_H
#define TESTS_THREADS_THREADS_H

#include <pthread.h>

#include "fixture.h"

enum { THREADS = 4 };

/* The first virtual accelerator of two. Nodes named Loop are left to the CPU, so that they can be cancelled. */
extern iobind_runtime *runtime;
extern iobind_device *cpu;
extern iobind_device *vdev;
int threads_open(void **state);
int threads_close(void **state);
iobind_runtime *threads_runtime(void); /* as those are made; the reference is the caller's */

/* One of a crew. cmocka's checks are for the main thread: a member sets `good` if all went well. */
typedef struct member {
  pthread_t thread;
  pthread_barrier_t *barrier;
  void *shared;
  size_t number;
  bool good;
} member;

/* Run a function in THREADS threads that begin together; all must end well. `meanwhile` is what the main thread does. */
void threads_run(void (*function)(member *self), void *shared);
void threads_run_with(void (*function)(member *self), void *shared, void (*meanwhile)(void *shared));

/* Note in `good` that a condition did not hold. */
#define HOLDS(self, condition) ((self)->good = (condition) && (self)->good)
#define WELL(self, call) HOLDS(self, (call) == IOBIND_OK)

/* y = 2 x through this binding, on a stream or (NULL) without one: by what is written into x, and the output taken. */
bool threads_double(iobind_binding *binding, iobind_tensor *x, float first, iobind_stream *stream, iobind_event *event);
iobind_tensor *threads_floats(iobind_device *device); /* three of them, 1 2 3; NULL where that fails */

#endif
