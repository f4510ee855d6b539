#define _POSIX_C_SOURCE 200809L /* barriers, setenv */
#include "threads.h"
#include "../rig/calls.h"

#include <stdlib.h>

enum { COUNT = 3 };

iobind_runtime *runtime;
iobind_device *cpu;
iobind_device *vdev;

iobind_runtime *threads_runtime(void) {
  iobind_runtime_options options = IOBIND_RUNTIME_OPTIONS_INIT;
  options.flags = IOBIND_RUNTIME_NO_EP_SEARCH;
  iobind_runtime *made = NULL;
  return iobind_runtime_create(&options, &made, NULL) == IOBIND_OK ? made : NULL;
}

int threads_open(void **state) {
  (void)state;
  setenv("VDEV_DEVICES", "2", 1);
  setenv("VDEV_DENY", "Loop", 1);
  setenv("VDEV_RACE", "fail", 1);
  runtime = threads_runtime();
  assert_non_null(runtime);
  cpu = iobind_runtime_get_device(runtime, 0);
  expect_ok(iobind_runtime_find_device(runtime, "vdev", &vdev, NULL, &fault));
  return 0;
}

int threads_close(void **state) {
  (void)state;
  iobind_runtime_destroy(runtime);
  return 0;
}

typedef struct task {
  member member;
  void (*function)(member *self);
} task;

static void *work(void *argument) {
  task *mine = argument;
  pthread_barrier_wait(mine->member.barrier);
  mine->function(&mine->member);
  return NULL;
}

void threads_run_with(void (*function)(member *self), void *shared, void (*meanwhile)(void *shared)) {
  task crew[THREADS];
  pthread_barrier_t barrier;
  pthread_barrier_init(&barrier, NULL, THREADS + 1);
  for (size_t i = 0; i < THREADS; i++) {
    crew[i] = (task){{.barrier = &barrier, .shared = shared, .number = i, .good = true}, function};
    assert_int_equal(pthread_create(&crew[i].member.thread, NULL, work, &crew[i]), 0);
  }
  pthread_barrier_wait(&barrier);
  if (meanwhile != NULL) {
    meanwhile(shared);
  }
  for (size_t i = 0; i < THREADS; i++) {
    assert_int_equal(pthread_join(crew[i].member.thread, NULL), 0);
  }
  pthread_barrier_destroy(&barrier);
  for (size_t i = 0; i < THREADS; i++) {
    assert_true(crew[i].member.good);
  }
}

void threads_run(void (*function)(member *self), void *shared) {
  threads_run_with(function, shared, NULL);
}

iobind_tensor *threads_floats(iobind_device *device) {
  static const float values[COUNT] = {1, 2, 3};
  iobind_tensor *tensor = NULL;
  return test_floats(device, values, COUNT, &tensor, NULL) == IOBIND_OK ? tensor : NULL;
}

bool threads_double(iobind_binding *binding, iobind_tensor *x, float first, iobind_stream *stream, iobind_event *event) {
  const float values[COUNT] = {first, first + 1, first + 2};
  float got[COUNT] = {0};
  iobind_tensor *y = NULL;
  bool good = iobind_tensor_write(x, 0, values, sizeof values, stream, NULL) == IOBIND_OK &&
              call_binding_run(binding, stream, event, NULL) == IOBIND_OK &&
              (event == NULL || iobind_event_wait(event, IOBIND_NO_TIMEOUT, NULL) == IOBIND_OK) &&
              iobind_binding_take_output(binding, 0, &y, NULL) == IOBIND_OK &&
              iobind_tensor_read(y, 0, got, sizeof got, NULL, NULL) == IOBIND_OK;
  iobind_tensor_release(y);
  for (int i = 0; i < COUNT; i++) {
    good = good && got[i] == 2 * values[i];
  }
  return good;
}
