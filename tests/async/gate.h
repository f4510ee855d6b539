/* A gate in a stream: work that is submitted after it does not begin before it is opened. A call that must wait for that work is made with the
 * gate closed: another thread opens it when the call has returned, or when the calling thread has slept for a while. So the outcome does not
 * depend on time. */
#ifndef TESTS_ASYNC_GATE_H
#define TESTS_ASYNC_GATE_H

#include "stage.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "iobind/interop.h"
#include "vdev.h"
#include "../rig/calls.h"

/* A call that waits for a GPU of NVIDIA's may spin. */
enum { GATE_WAITS_MS = 50, GATE_WAITS_AT_MOST_MS = 20000, GATE_SPINS_MS = 500 };

typedef struct gate {
  int file; /* a semaphore of vdev's; -1: the gate is a host function of CUDA's */
  pthread_mutex_t mutex;
  pthread_cond_t opened;
  bool is_open;
  pthread_t opener;
  pid_t caller;
  atomic_bool has_returned;
  iobind_stream *held; /* of vdev, for a stream without a gate of its own */
  iobind_event *passed;
} gate;

static void gate_wait(void *context) {
  gate *self = context;
  pthread_mutex_lock(&self->mutex);
  while (!self->is_open) {
    pthread_cond_wait(&self->opened, &self->mutex);
  }
  pthread_mutex_unlock(&self->mutex);
}

static void gate_hold(gate *self, iobind_device *vdev, iobind_stream *stream) {
  iobind_external external = IOBIND_EXTERNAL_INIT;
  iobind_semaphore *semaphore = NULL;
  self->file = vdev_semaphore_create(0);
  external.kind = IOBIND_EXTERNAL_FD_SEMAPHORE;
  external.handle = (void *)(intptr_t)self->file;
  expect_ok(iobind_semaphore_import(vdev, &external, &semaphore, &fault));
  expect_ok(iobind_stream_wait_semaphore(stream, semaphore, 1, &fault));
  iobind_semaphore_destroy(semaphore); /* the stream keeps it */
}

/* The stream is one of the device of the running test. */
static void gate_close(gate *self, iobind_stream *stream) {
  *self = (gate){.file = -1, .mutex = PTHREAD_MUTEX_INITIALIZER, .opened = PTHREAD_COND_INITIALIZER};
  if (is_device("cuda")) {
    int (*launch)(void *, void (*)(void *), void *) = NULL;
    void *library = dlopen("libcudart.so.13", RTLD_NOW | RTLD_NOLOAD);
    assert_non_null(library);
    *(void **)&launch = dlsym(library, "cudaLaunchHostFunc");
    assert_int_equal(launch(call_stream_get_native(stream), gate_wait, self), 0);
    dlclose(library);
  } else if (is_device("vdev")) {
    gate_hold(self, fixture_device(runtime, "vdev"), stream);
  } else {
    iobind_device *vdev = fixture_device(runtime, "vdev");
    expect_ok(iobind_stream_create(vdev, NULL, &self->held, &fault));
    expect_ok(iobind_event_create(vdev, &self->passed, &fault));
    gate_hold(self, vdev, self->held);
    expect_ok(iobind_event_record(self->passed, self->held, &fault));
    expect_ok(iobind_stream_wait(stream, self->passed, &fault));
  }
}

static void gate_open(gate *self) {
  if (self->file < 0) {
    pthread_mutex_lock(&self->mutex);
    self->is_open = true;
    pthread_cond_signal(&self->opened);
    pthread_mutex_unlock(&self->mutex);
  } else {
    assert_int_equal(vdev_semaphore_signal(self->file, 1), 0);
  }
  iobind_stream_destroy(self->held);
  iobind_event_destroy(self->passed);
}

/* Does the calling thread wait for something, and not for a processor? */
static bool gate_caller_sleeps(const gate *self) {
  char path[64];
  char line[256] = "";
  snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)self->caller);
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  (void)!fgets(line, sizeof line, file);
  (void)fclose(file);
  const char *behind_name = strrchr(line, ')');
  return behind_name != NULL && behind_name[2] == 'S';
}

static bool gate_caller_may_spin(void) {
  void *library = is_device("cuda") ? dlopen("libcudart.so.13", RTLD_NOW | RTLD_NOLOAD) : NULL;
  bool software = library == NULL || dlsym(library, "vcuda_get") != NULL;
  if (library != NULL) {
    dlclose(library);
  }
  return !software;
}

static void *gate_open_later(void *context) {
  static const struct timespec moment = {.tv_nsec = 1000000};
  gate *self = context;
  int at_most = gate_caller_may_spin() ? GATE_SPINS_MS : GATE_WAITS_AT_MOST_MS;
  for (int i = 0, slept = 0; i < at_most && slept < GATE_WAITS_MS && !atomic_load(&self->has_returned); i++) {
    (void)nanosleep(&moment, NULL);
    slept += gate_caller_sleeps(self) ? 1 : 0;
  }
  gate_open(self);
  return NULL;
}

/* Before a call that must wait for work after the gate, and after that call. */
static void gate_begin(gate *self) {
  self->caller = gettid();
  atomic_store(&self->has_returned, false);
  assert_int_equal(pthread_create(&self->opener, NULL, gate_open_later, self), 0);
}

static void gate_end(gate *self) {
  atomic_store(&self->has_returned, true);
  assert_int_equal(pthread_join(self->opener, NULL), 0);
}

/* The call, whose status is expected. */
#define BEHIND_GATE(gate, status, call)                       \
  do {                                                        \
    gate_begin(gate);                                         \
    fixture_arm();                                            \
    iobind_status came_ = (call);                             \
    gate_end(gate);                                           \
    fixture_expect(status, came_, #call, __FILE__, __LINE__); \
  } while (0)

#endif
