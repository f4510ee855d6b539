/* The gate of the device: calls of other threads during a real capture, and a capture that begins while threads of the library wait in
 * the EP. tests/graph has the same tests for each device, with captures that are held before they begin. */
#define _GNU_SOURCE /* RTLD_NEXT */
#include "fixture.h"

#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <time.h>

#include "cuda.h"
#include "vcuda.h"
#include "../rig/calls.h"

enum { COUNT = 4 };
static const float ones[COUNT] = {1, 2, 3, 4};
static const float twos[COUNT] = {2, 4, 6, 8};
static const uint64_t limit = 20000000;
static const uint64_t long_time = UINT64_MAX / 4;

/* The EP finds the functions below before vcuda's. They hold one capture open until the test lets it end, and record if a capture
 * begins while a thread waits in the EP. */
static sem_t is_open;
static sem_t may_end;
static atomic_bool holds_next;
static atomic_int waiting;
static atomic_bool begins_beside_a_wait;

int cudaEventSynchronize(cuda_event event) {
  int (*next)(cuda_event event) = NULL;
  *(void **)&next = dlsym(RTLD_NEXT, "cudaEventSynchronize");
  atomic_fetch_add(&waiting, 1);
  int error = next(event);
  atomic_fetch_sub(&waiting, 1);
  return error;
}

int cudaStreamBeginCapture(cuda_stream stream, int mode) {
  int (*next)(cuda_stream stream, int mode) = NULL;
  *(void **)&next = dlsym(RTLD_NEXT, "cudaStreamBeginCapture");
  if (atomic_load(&waiting) > 0) {
    atomic_store(&begins_beside_a_wait, true);
  }
  return next(stream, mode);
}

int cudaStreamEndCapture(cuda_stream stream, cuda_graph *graph) {
  int (*next)(cuda_stream stream, cuda_graph * graph) = NULL;
  *(void **)&next = dlsym(RTLD_NEXT, "cudaStreamEndCapture");
  if (atomic_exchange(&holds_next, false)) {
    sem_post(&is_open);
    sem_wait(&may_end);
  }
  return next(stream, graph);
}

static uint64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000000U + (uint64_t)time.tv_nsec;
}

/* A run in its own thread. */
typedef struct runner {
  iobind_binding *binding;
  iobind_stream *stream;
  iobind_event *event;
  pthread_t thread;
  iobind_status status;
  iobind_error error;
} runner;

static void *run(void *context) {
  runner *self = context;
  self->error = (iobind_error)IOBIND_ERROR_INIT;
  self->status = call_binding_run(self->binding, self->stream, self->event, &self->error);
  return NULL;
}

static void start_run(runner *self) {
  assert_int_equal(pthread_create(&self->thread, NULL, run, self), 0);
}

static void end_run(runner *self) {
  assert_int_equal(pthread_join(self->thread, NULL), 0);
}

/* A session that captures and one that does not, each with a binding; a stream with an event; a pipeline with an item. */
typedef struct bench {
  iobind_runtime *runtime;
  iobind_device *device;
  iobind_session *capturing;
  iobind_session *plain;
  iobind_tensor *x;
  iobind_tensor *item;
  iobind_stream *stream;
  iobind_event *event;
  iobind_event *run_event;
  iobind_pipeline *pipeline;
  runner captor;
  runner other;
} bench;

static iobind_binding *bind(iobind_session *session, iobind_tensor *x) {
  iobind_binding *binding;
  expect_ok(iobind_binding_create(session, &binding, &fault));
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
  return binding;
}

static int start(void **state) {
  static bench self;
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  self = (bench){.runtime = fixture_runtime()};
  self.device = fixture_device(self.runtime, "cuda");
  options.devices = &self.device;
  options.device_count = 1;
  options.graph_limit = 1;
  expect_ok(test_session_with(self.runtime, "scale", &options, &self.capturing, &fault));
  self.plain = fixture_session(self.runtime, self.device, "scale");
  self.x = fixture_floats(self.device, ones, COUNT);
  self.item = fixture_floats(iobind_runtime_get_device(self.runtime, 0), ones, COUNT);
  self.captor.binding = bind(self.capturing, self.x);
  self.other.binding = bind(self.plain, self.x);
  expect_ok(iobind_stream_create(self.device, NULL, &self.stream, &fault));
  expect_ok(iobind_event_create(self.device, &self.event, &fault));
  expect_ok(iobind_event_create(self.device, &self.run_event, &fault));
  expect_ok(call_pipeline_create(self.plain, NULL, &self.pipeline, &fault));
  expect_ok(iobind_binding_run(self.other.binding, NULL, &fault));
  assert_int_equal(sem_init(&is_open, 0, 0), 0);
  assert_int_equal(sem_init(&may_end, 0, 0), 0);
  assert_int_equal(vcuda_reset(0), 0);
  *state = &self;
  return 0;
}

static int stop(void **state) {
  bench *self = *state;
  iobind_pipeline_destroy(self->pipeline);
  iobind_binding_destroy(self->captor.binding);
  iobind_binding_destroy(self->other.binding);
  iobind_event_destroy(self->event);
  iobind_event_destroy(self->run_event);
  iobind_stream_destroy(self->stream);
  iobind_tensor_release(self->x);
  iobind_tensor_release(self->item);
  iobind_session_destroy(self->capturing);
  iobind_session_destroy(self->plain);
  iobind_runtime_destroy(self->runtime);
  return 0;
}

static void expect_doubled(iobind_binding *binding) {
  iobind_tensor *y;
  expect_ok(iobind_binding_get_output(binding, 0, NULL, &y, &fault));
  fixture_expect_floats(y, twos, COUNT);
}

/* The first run has captured once. A broken capture would make it two. */
static void expect_captured(bench *self) {
  assert_string_equal(self->captor.error.message, "");
  assert_int_equal(self->captor.status, IOBIND_OK);
  assert_false(atomic_load(&begins_beside_a_wait));
  assert_int_equal(vcuda_get(0, "captures"), 1);
  assert_true(vcuda_get(0, "graph_launches") > 0);
  expect_doubled(self->captor.binding);
  assert_int_equal(vcuda_get(0, "races"), 0);
}

/* Waits with a limit time out during the capture, and not too early. After the capture the same waits succeed. A run without a stream,
 * and one on a stream with an event, block until the capture has ended. */
static void limits_within_an_open_capture(void **state) {
  bench *self = *state;
  iobind_tensor *y;
  float read[COUNT];
  int32_t done = -1;
  runner on_stream = {.binding = bind(self->plain, self->x), .stream = self->stream, .event = self->run_event};
  expect_ok(iobind_tensor_read(self->x, 0, read, sizeof read, self->stream, &fault));
  expect_ok(iobind_event_record(self->event, self->stream, &fault));
  expect_ok(call_pipeline_submit(self->pipeline, &self->item, 1, &fault));
  atomic_store(&holds_next, true);
  start_run(&self->captor);
  sem_wait(&is_open);
  start_run(&self->other);
  start_run(&on_stream);
  const uint64_t begin = now();
  iobind_status of_event = iobind_event_wait(self->event, limit, NULL);
  const uint64_t after_event = now();
  iobind_status of_item = iobind_pipeline_next(self->pipeline, limit, &y, 1, NULL, NULL);
  const uint64_t after_item = now();
  iobind_status of_query = iobind_event_query(self->event, &done, NULL);
  iobind_status at_once = iobind_event_wait(self->event, 0, NULL);
  sem_post(&may_end);
  end_run(&self->captor);
  end_run(&self->other);
  end_run(&on_stream);
  assert_int_equal(of_event, IOBIND_ERROR_TIMEOUT);
  assert_true(after_event - begin >= limit);
  assert_int_equal(of_item, IOBIND_ERROR_TIMEOUT);
  assert_true(after_item - after_event >= limit);
  assert_int_equal(of_query, IOBIND_OK);
  assert_int_equal(done, 0);
  assert_int_equal(at_once, IOBIND_ERROR_TIMEOUT);
  assert_int_equal(self->other.status, IOBIND_OK);
  assert_int_equal(on_stream.status, IOBIND_OK);
  expect_captured(self);
  expect_ok(iobind_event_wait(self->event, long_time, &fault));
  assert_memory_equal(read, ones, sizeof ones);
  expect_ok(iobind_pipeline_next(self->pipeline, long_time, &y, 1, NULL, &fault));
  fixture_expect_floats(y, twos, COUNT);
  expect_ok(iobind_event_wait(self->run_event, long_time, &fault));
  expect_doubled(on_stream.binding);
  expect_doubled(self->other.binding);
  iobind_binding_destroy(on_stream.binding);
}

/* A wait with a limit has timed out, and a thread of the library still waits in the EP because the device is busy. A capture begins
 * only after that thread has left the EP. */
static void a_capture_behind_a_wait(void **state) {
  bench *self = *state;
  float read[COUNT];
  assert_int_equal(vcuda_set(0, "delay_copy", "1,us:200000"), 0);
  expect_ok(iobind_tensor_read(self->x, 0, read, sizeof read, self->stream, &fault));
  expect_ok(iobind_event_record(self->event, self->stream, &fault));
  iobind_status of_event = iobind_event_wait(self->event, limit, NULL);
  assert_true(of_event == IOBIND_ERROR_TIMEOUT ||
              of_event == IOBIND_OK); /* OK: this thread was suspended for longer than the copy */
  start_run(&self->captor);
  expect_ok(iobind_event_wait(self->event, long_time, &fault));
  end_run(&self->captor);
  assert_memory_equal(read, ones, sizeof ones);
  expect_captured(self);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(limits_within_an_open_capture, start, stop),
    cmocka_unit_test_setup_teardown(a_capture_behind_a_wait, start, stop),
};

FIXTURE_MAIN(tests, NULL, NULL);
