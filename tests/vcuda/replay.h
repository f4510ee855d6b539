/* Shared by tests of replays on streams: sessions that capture, a model that doubles, pinned items, streams that are held back. */
#ifndef TESTS_VCUDA_REPLAY_H
#define TESTS_VCUDA_REPLAY_H

#include "fixture.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cuda.h"
#include "iobind/interop.h"
#include "session/session.h"
#include "vcuda.h"
#include "../rig/calls.h"

enum { COUNT = 4, NON_BLOCKING = 1, UP = 1, DOWN = 2, SINCE = 27 };

static iobind_runtime *runtime;
static iobind_device *device;
static iobind_device *host;

static inline int start(void **state) {
  (void)state;
  runtime = fixture_runtime();
  device = fixture_device(runtime, "cuda");
  host = iobind_runtime_get_device(runtime, 0);
  return 0;
}

static inline int stop(void **state) {
  (void)state;
  assert_int_equal(vcuda_get(0, "races"), 0);
  iobind_runtime_destroy(runtime);
  return 0;
}

static inline bool takes_streams(void) {
  return runtime->ort.api_version >= SINCE;
}

/* With an older ORT only `older_runtimes_wait` is meaningful. */
#define NEEDS_STREAMS() \
  if (!takes_streams()) skip()

/* Before ORT 1.31 a session has one graph. */
static inline bool has_several_graphs(void) {
  enum { MENDED = 31 };
  return runtime->ort.minor >= MENDED;
}

#define NEEDS_SEVERAL_GRAPHS() \
  if (!has_several_graphs()) skip()

static inline iobind_status try_session(const char *model, size_t limit, iobind_stream *stream, iobind_session **session) {
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  options.devices = &device;
  options.device_count = 1;
  options.graph_limit = limit;
  options.stream = stream;
  fixture_arm();
  return test_session_with(runtime, model, &options, session, &fault);
}

static inline iobind_session *make_session(const char *model, size_t limit, iobind_stream *stream) {
  iobind_session *session = NULL;
  iobind_status status = try_session(model, limit, stream, &session);
  fixture_expect(IOBIND_OK, status, model, __FILE__, __LINE__);
  return session;
}

static inline iobind_stream *make_stream(void) {
  iobind_stream *stream;
  expect_ok(iobind_stream_create(device, NULL, &stream, &fault));
  return stream;
}

static inline iobind_event *make_event(void) {
  iobind_event *event;
  expect_ok(iobind_event_create(device, &event, &fault));
  return event;
}

static inline iobind_tensor *make_tensor(iobind_memory memory, size_t count) {
  const int64_t dim = (int64_t)count;
  iobind_tensor *tensor;
  expect_ok(iobind_tensor_create(device, memory, IOBIND_DTYPE_FLOAT32, &dim, 1, &tensor, &fault));
  return tensor;
}

static inline void fill(iobind_tensor *tensor, float value) {
  const float values[COUNT] = {value, value, value, value};
  expect_ok(iobind_tensor_write(tensor, 0, values, sizeof values, NULL, &fault));
}

static inline void expect_all(const float values[COUNT], float value) {
  for (int i = 0; i < COUNT; i++) {
    if (values[i] != value) {
      fail_msg("element %d: expected %g, got %g", i, (double)value, (double)values[i]);
    }
  }
}

static inline void expect_tensor(const iobind_tensor *tensor, float value) {
  float values[COUNT] = {0};
  expect_ok(iobind_tensor_read(tensor, 0, values, sizeof values, NULL, &fault));
  expect_all(values, value);
}

/* y = 2 x with both bound, for replays. */
typedef struct doubler {
  iobind_binding *binding;
  iobind_tensor *x;
  iobind_tensor *y;
} doubler;

static inline doubler make_doubler(iobind_session *session) {
  doubler d = {.x = make_tensor(IOBIND_MEMORY_DEFAULT, COUNT), .y = make_tensor(IOBIND_MEMORY_DEFAULT, COUNT)};
  expect_ok(iobind_binding_create(session, &d.binding, &fault));
  fill(d.x, 1);
  expect_ok(iobind_binding_set_input(d.binding, 0, IOBIND_INPUT_RESIDENT, d.x, NULL, &fault));
  expect_ok(iobind_binding_set_output(d.binding, 0, d.y, 0, &fault));
  return d;
}

/* Its graph is captured. */
static inline doubler make_captured(iobind_session *session) {
  doubler d = make_doubler(session);
  expect_ok(iobind_binding_run(d.binding, NULL, &fault));
  expect_tensor(d.y, 2);
  return d;
}

static inline void free_doubler(doubler *d) {
  iobind_binding_destroy(d->binding);
  iobind_tensor_release(d->x);
  iobind_tensor_release(d->y);
}

/* Pinned memory for copies in both directions. */
typedef struct items {
  iobind_tensor *all;
  float *data;
  iobind_tensor *slices[64];
  size_t count;
} items;

static inline items make_items(size_t count) {
  items made = {.all = make_tensor(IOBIND_MEMORY_HOST_ACCESSIBLE, count * COUNT), .count = count};
  assert_true(count <= sizeof made.slices / sizeof made.slices[0]);
  expect_ok(iobind_tensor_map(made.all, IOBIND_DTYPE_FLOAT32, IOBIND_ACCESS_WRITE, (void **)&made.data, &fault));
  memset(made.data, 0, count * COUNT * sizeof(float));
  for (size_t i = 0; i < count; i++) {
    expect_ok(iobind_tensor_slice(made.all, (int64_t)i * COUNT, COUNT, &made.slices[i], &fault));
  }
  return made;
}

static inline void put_item(items *self, size_t index, float value) {
  for (size_t i = 0; i < COUNT; i++) {
    self->data[index * COUNT + i] = value;
  }
}

static inline void free_items(items *self) {
  for (size_t i = 0; i < self->count; i++) {
    iobind_tensor_release(self->slices[i]);
  }
  iobind_tensor_release(self->all);
}

static inline void copy_on(iobind_stream *stream, const iobind_tensor *from, iobind_tensor *to) {
  expect_ok(iobind_tensor_copy(&from, &to, 1, stream, &fault));
}

/* Since the counters were reset, no call has blocked the host, and each run was one launch of a graph. */
static inline void expect_replays(int64_t count) {
  assert_int_equal(vcuda_get(0, "syncs"), 0);
  assert_int_equal(vcuda_get(0, "graph_launches"), count);
  assert_int_equal(vcuda_get(0, "captures"), 0);
  assert_int_equal(vcuda_get(0, "launches") - vcuda_get(0, "graph_kernels"), 0);
}

#define LATE_KERNEL "1,late,name:_BinaryElementWiseSimple" /* the name excludes the gate's host function */

/* Holds back a CUDA stream. */
typedef struct gate {
  sem_t open;
} gate;

static inline void wait_at_gate(void *data) {
  while (sem_wait(&((gate *)data)->open) != 0) {
  }
}

static inline void close_gate(gate *g, iobind_stream *stream) {
  sem_init(&g->open, 0, 0);
  assert_int_equal(cudaLaunchHostFunc(call_stream_get_native(stream), wait_at_gate, g), CUDA_OK);
}

static inline void open_gate(gate *g) {
  sem_post(&g->open);
}

static inline void nap(void) {
  static const struct timespec time = {.tv_nsec = 30000000};
  (void)nanosleep(&time, NULL);
}

static inline void delay(const char *copies, const char *kernels) {
  assert_int_equal(vcuda_set(0, "delay_copy", copies), 0);
  assert_int_equal(vcuda_set(0, "delay_compute", kernels), 0);
}

#endif
