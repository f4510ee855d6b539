/* Runs of captured graphs on streams, with CUDA's own EP: replays are launched on the stream that the session computes on, ordered with the
 * caller's by events. Run with race=fail: an order that is missing fails the run. */
#define _POSIX_C_SOURCE 200809L /* nanosleep */
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

enum { COUNT = 4, NON_BLOCKING = 1, UP = 1, DOWN = 2, SINCE = 27 };

static iobind_runtime *runtime;
static iobind_device *device;
static iobind_device *host;

static int start(void **state) {
  (void)state;
  runtime = fixture_runtime();
  device = fixture_device(runtime, "cuda");
  host = iobind_runtime_get_device(runtime, 0);
  return 0;
}

static int stop(void **state) {
  (void)state;
  assert_int_equal(vcuda_get(0, "races"), 0);
  iobind_runtime_destroy(runtime);
  return 0;
}

static bool takes_streams(void) {
  return runtime->ort.api_version >= SINCE;
}

/* With an older ORT only `older_runtimes_wait` has something to show. */
#define NEEDS_STREAMS() \
  if (!takes_streams()) skip()

/* Before ORT 1.31 a session has one graph. */
static bool has_several_graphs(void) {
  enum { MENDED = 31 };
  return runtime->ort.minor >= MENDED;
}

#define NEEDS_SEVERAL_GRAPHS() \
  if (!has_several_graphs()) skip()

static iobind_status try_session(const char *model, size_t limit, iobind_stream *stream, iobind_session **session) {
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  options.devices = &device;
  options.device_count = 1;
  options.graph_limit = limit;
  options.stream = stream;
  fixture_arm();
  return test_session_with(runtime, model, &options, session, &fault);
}

static iobind_session *make_session(const char *model, size_t limit, iobind_stream *stream) {
  iobind_session *session = NULL;
  iobind_status status = try_session(model, limit, stream, &session);
  fixture_expect(IOBIND_OK, status, model, __FILE__, __LINE__);
  return session;
}

static iobind_stream *make_stream(void) {
  iobind_stream *stream;
  expect_ok(iobind_stream_create(device, NULL, &stream, &fault));
  return stream;
}

static iobind_event *make_event(void) {
  iobind_event *event;
  expect_ok(iobind_event_create(device, &event, &fault));
  return event;
}

static iobind_tensor *make_tensor(iobind_memory memory, size_t count) {
  const int64_t dim = (int64_t)count;
  iobind_tensor *tensor;
  expect_ok(iobind_tensor_create(device, memory, IOBIND_FLOAT32, &dim, 1, &tensor, &fault));
  return tensor;
}

static void fill(iobind_tensor *tensor, float value) {
  const float values[COUNT] = {value, value, value, value};
  expect_ok(iobind_tensor_write(tensor, 0, values, sizeof values, NULL, &fault));
}

static void expect_all(const float values[COUNT], float value) {
  for (int i = 0; i < COUNT; i++) {
    if (values[i] != value) {
      fail_msg("element %d: expected %g, got %g", i, (double)value, (double)values[i]);
    }
  }
}

static void expect_tensor(const iobind_tensor *tensor, float value) {
  float values[COUNT] = {0};
  expect_ok(iobind_tensor_read(tensor, 0, values, sizeof values, NULL, &fault));
  expect_all(values, value);
}

/* y = 2 x, both bound: what a test replays. */
typedef struct doubler {
  iobind_binding *binding;
  iobind_tensor *x;
  iobind_tensor *y;
} doubler;

static doubler make_doubler(iobind_session *session) {
  doubler d = {.x = make_tensor(IOBIND_MEMORY_DEFAULT, COUNT), .y = make_tensor(IOBIND_MEMORY_DEFAULT, COUNT)};
  expect_ok(iobind_binding_create(session, &d.binding, &fault));
  fill(d.x, 1);
  expect_ok(iobind_binding_set_input(d.binding, 0, IOBIND_INPUT_RESIDENT, d.x, NULL, &fault));
  expect_ok(iobind_binding_set_output(d.binding, 0, IOBIND_OUTPUT_FIXED, NULL, IOBIND_MEMORY_DEFAULT, d.y, &fault));
  return d;
}

/* Its graph is there. */
static doubler make_captured(iobind_session *session) {
  doubler d = make_doubler(session);
  expect_ok(iobind_binding_run(d.binding, NULL, NULL, &fault));
  expect_tensor(d.y, 2);
  return d;
}

static void free_doubler(doubler *d) {
  iobind_binding_destroy(d->binding);
  iobind_tensor_release(d->x);
  iobind_tensor_release(d->y);
}

/* Pinned memory that is copied from and to. */
typedef struct items {
  iobind_tensor *all;
  float *data;
  iobind_tensor *slices[64];
  size_t count;
} items;

static items make_items(size_t count) {
  items made = {.all = make_tensor(IOBIND_MEMORY_HOST_ACCESSIBLE, count * COUNT), .count = count};
  assert_true(count <= sizeof made.slices / sizeof made.slices[0]);
  expect_ok(iobind_tensor_get_data(made.all, IOBIND_FLOAT32, (void **)&made.data, &fault));
  memset(made.data, 0, count * COUNT * sizeof(float));
  for (size_t i = 0; i < count; i++) {
    expect_ok(iobind_tensor_slice(made.all, (int64_t)i * COUNT, COUNT, &made.slices[i], &fault));
  }
  return made;
}

static void put_item(items *self, size_t index, float value) {
  for (size_t i = 0; i < COUNT; i++) {
    self->data[index * COUNT + i] = value;
  }
}

static void free_items(items *self) {
  for (size_t i = 0; i < self->count; i++) {
    iobind_tensor_release(self->slices[i]);
  }
  iobind_tensor_release(self->all);
}

static void copy_on(iobind_stream *stream, const iobind_tensor *from, iobind_tensor *to) {
  expect_ok(iobind_tensor_copy(&from, &to, 1, stream, &fault));
}

/* Since the counters were reset: nothing has waited on the host, and each run was one launch of a graph. */
static void expect_replays(int64_t count) {
  assert_int_equal(vcuda_get(0, "syncs"), 0);
  assert_int_equal(vcuda_get(0, "graph_launches"), count);
  assert_int_equal(vcuda_get(0, "captures"), 0);
  assert_int_equal(vcuda_get(0, "launches") - vcuda_get(0, "graph_kernels"), 0);
}

/* Holds a stream of CUDA's back. */
typedef struct gate {
  sem_t open;
} gate;

static void wait_at_gate(void *data) {
  while (sem_wait(&((gate *)data)->open) != 0) {
  }
}

static void close_gate(gate *g, iobind_stream *stream) {
  sem_init(&g->open, 0, 0);
  assert_int_equal(cudaLaunchHostFunc(iobind_stream_native(stream), wait_at_gate, g), CUDA_OK);
}

static void open_gate(gate *g) {
  sem_post(&g->open);
}

static void nap(void) {
  static const struct timespec time = {.tv_nsec = 30000000};
  (void)nanosleep(&time, NULL);
}

static void delay(const char *copies, const char *kernels) {
  assert_int_equal(vcuda_set(0, "delay_copy", copies), 0);
  assert_int_equal(vcuda_set(0, "delay_compute", kernels), 0);
}

/* ---- one stream ---- */

/* Upload, replay and download of each item are queued, with copies and kernels that come late: nothing waits on the host, neither a call that
 * is made for it nor one that does so by the way. */
static void steady_replays_wait_for_nothing(void **state) {
  (void)state;
  enum { STEADY = 48 };
  NEEDS_STREAMS();
  iobind_session *session = make_session("scale", 1, NULL);
  iobind_stream *stream = make_stream();
  doubler d = make_doubler(session);
  items in = make_items(STEADY);
  items out = make_items(STEADY);
  for (size_t i = 0; i < STEADY; i++) {
    put_item(&in, i, (float)i);
  }
  expect_ok(iobind_binding_run(d.binding, stream, NULL, &fault));
  expect_ok(iobind_stream_synchronize(stream, &fault));
  expect_tensor(d.y, 2);
  delay("every:1,us:300,random", "every:1,us:300,random");
  assert_int_equal(vcuda_reset(0), 0);
  for (size_t i = 0; i < STEADY; i++) {
    copy_on(stream, in.slices[i], d.x);
    expect_ok(iobind_binding_run(d.binding, stream, NULL, &fault));
    copy_on(stream, d.y, out.slices[i]);
  }
  expect_replays(STEADY);
  expect_ok(iobind_stream_synchronize(stream, &fault));
  delay("0", "0");
  for (size_t i = 0; i < STEADY; i++) {
    expect_all(&out.data[i * COUNT], 2 * (float)i);
  }
  free_items(&in);
  free_items(&out);
  free_doubler(&d);
  iobind_stream_destroy(stream);
  iobind_session_destroy(session);
}

typedef struct job {
  iobind_binding *binding;
  iobind_stream *stream;
  iobind_status status;
  iobind_error error;
} job;

static void *run_on(void *context) {
  job *self = context;
  self->error = (iobind_error)IOBIND_ERROR_INIT;
  self->status = iobind_binding_run(self->binding, self->stream, NULL, &self->error);
  return NULL;
}

static void expect_done(const job *self) {
  if (self->status != IOBIND_OK) {
    fail_msg("%s", self->error.message);
  }
}

/* What the caller has queued before a run has passed before the capture saves the state, and before a replay reads it. */
static void runs_come_behind_uploads(void **state) {
  (void)state;
  NEEDS_STREAMS();
  gate g;
  pthread_t thread;
  iobind_session *session = make_session("scale", 1, NULL);
  iobind_tensor *x = make_tensor(IOBIND_MEMORY_DEFAULT, COUNT);
  items in = make_items(1);
  job first = {.stream = make_stream()};
  fill(x, -1);
  put_item(&in, 0, 5);
  expect_ok(iobind_binding_create(session, &first.binding, &fault));
  expect_ok(iobind_binding_set_input(first.binding, 0, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
  expect_ok(iobind_binding_carry(first.binding, 0, 0, IOBIND_CARRY_IN_PLACE, &fault));
  close_gate(&g, first.stream);
  copy_on(first.stream, in.slices[0], x);
  assert_int_equal(pthread_create(&thread, NULL, run_on, &first), 0); /* it captures, and so may wait */
  nap();
  open_gate(&g);
  assert_int_equal(pthread_join(thread, NULL), 0);
  expect_done(&first);
  expect_ok(iobind_stream_synchronize(first.stream, &fault));
  expect_tensor(x, 10);
  iobind_binding_destroy(first.binding);

  doubler d = make_captured(session);
  const float values[COUNT] = {7, 7, 7, 7};
  float read[COUNT] = {0};
  close_gate(&g, first.stream);
  expect_ok(iobind_binding_update_input(d.binding, 0, values, sizeof values, first.stream, &fault));
  expect_ok(iobind_binding_run(d.binding, first.stream, NULL, &fault));
  expect_ok(iobind_tensor_read(d.y, 0, read, sizeof read, first.stream, &fault));
  open_gate(&g);
  expect_ok(iobind_stream_synchronize(first.stream, &fault));
  expect_all(read, 14);
  free_doubler(&d);
  free_items(&in);
  iobind_tensor_release(x);
  iobind_stream_destroy(first.stream);
  iobind_session_destroy(session);
}

/* The input's event is waited for by the device, not by the host. */
static void producers_on_another_stream(void **state) {
  (void)state;
  enum { TURNS = 16 };
  NEEDS_STREAMS();
  iobind_session *session = make_session("scale", 1, NULL);
  iobind_stream *uploads = make_stream();
  iobind_stream *runs = make_stream();
  iobind_event *ready = make_event();
  iobind_event *free_again = make_event();
  doubler d = make_doubler(session);
  items in = make_items(TURNS);
  items out = make_items(TURNS);
  for (size_t i = 0; i < TURNS; i++) {
    put_item(&in, i, (float)i);
  }
  expect_ok(iobind_event_record(ready, uploads, &fault));
  expect_ok(iobind_binding_set_input(d.binding, 0, IOBIND_INPUT_RESIDENT, d.x, ready, &fault));
  expect_ok(iobind_binding_run(d.binding, runs, free_again, &fault));
  expect_ok(iobind_stream_synchronize(runs, &fault));
  delay("every:1,us:300,random", "every:1,us:300,random");
  for (size_t i = 0; i < TURNS; i++) {
    if (i == 1) { /* the first event has passed, and is asked for its failure by a call that would wait */
      assert_int_equal(vcuda_reset(0), 0);
    }
    expect_ok(iobind_stream_wait(uploads, free_again, &fault));
    copy_on(uploads, in.slices[i], d.x);
    expect_ok(iobind_event_record(ready, uploads, &fault));
    expect_ok(iobind_binding_run(d.binding, runs, free_again, &fault));
    copy_on(runs, d.y, out.slices[i]);
  }
  expect_replays(TURNS - 1);
  expect_ok(iobind_stream_synchronize(runs, &fault));
  delay("0", "0");
  for (size_t i = 0; i < TURNS; i++) {
    expect_all(&out.data[i * COUNT], 2 * (float)i);
  }
  free_items(&in);
  free_items(&out);
  free_doubler(&d);
  iobind_event_destroy(ready);
  iobind_event_destroy(free_again);
  iobind_stream_destroy(uploads);
  iobind_stream_destroy(runs);
  iobind_session_destroy(session);
}

/* Each run doubles the state that the one before it leaves. */
static void states_on_a_stream(void **state) {
  (void)state;
  enum { WARM = 3, STEADY = 12 };
  NEEDS_STREAMS();
  for (int mode = has_several_graphs() ? IOBIND_CARRY_SWAP : IOBIND_CARRY_IN_PLACE; mode <= IOBIND_CARRY_IN_PLACE; mode++) {
    iobind_session *session = make_session("scale", 2, NULL);
    iobind_stream *stream = make_stream();
    iobind_tensor *x = make_tensor(IOBIND_MEMORY_DEFAULT, COUNT);
    iobind_tensor *y = NULL;
    iobind_binding *binding;
    const float again[COUNT] = {3, 3, 3, 3};
    fill(x, 1);
    expect_ok(iobind_binding_create(session, &binding, &fault));
    expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
    expect_ok(iobind_binding_carry(binding, 0, 0, (iobind_carry_mode)mode, &fault));
    delay("every:1,us:300,random", "every:1,us:300,random");
    for (int step = 0; step < WARM; step++) {
      expect_ok(iobind_binding_run(binding, stream, NULL, &fault));
    }
    expect_ok(iobind_binding_get_output(binding, 0, &y, &fault));
    expect_tensor(y, 8);
    assert_int_equal(vcuda_reset(0), 0);
    for (int step = 0; step < STEADY; step++) {
      expect_ok(iobind_binding_run(binding, stream, NULL, &fault));
    }
    expect_replays(STEADY);
    expect_ok(iobind_binding_get_output(binding, 0, &y, &fault));
    expect_tensor(y, 8 * 4096);
    expect_ok(iobind_binding_update_input(binding, 0, again, sizeof again, stream, &fault)); /* a first state */
    expect_ok(iobind_binding_run(binding, stream, NULL, &fault));
    expect(IOBIND_INVALID_STATE, iobind_binding_update_input(binding, 0, again, sizeof again, stream, &fault));
    expect(IOBIND_INVALID_STATE, iobind_binding_run(binding, NULL, NULL, &fault));
    expect_ok(iobind_binding_get_output(binding, 0, &y, &fault));
    expect_tensor(y, 6);
    expect_ok(iobind_binding_run(binding, NULL, NULL, &fault)); /* without a stream it goes on from there */
    expect_ok(iobind_binding_run(binding, NULL, NULL, &fault));
    expect_ok(iobind_binding_run(binding, stream, NULL, &fault));
    expect_ok(iobind_binding_get_output(binding, 0, &y, &fault));
    expect_tensor(y, 48);
    delay("0", "0");
    iobind_binding_destroy(binding);
    iobind_tensor_release(x);
    iobind_stream_destroy(stream);
    iobind_session_destroy(session);
  }
}

/* ---- several streams ---- */

/* Bindings of one session on a stream each: the runs take turns on the session's stream, and each is between what its own stream has. */
static void two_streams(void **state) {
  (void)state;
  enum { TURNS = 16 };
  NEEDS_SEVERAL_GRAPHS();
  iobind_session *session = make_session("scale", 1, NULL);
  iobind_stream *streams[2] = {make_stream(), make_stream()};
  doubler doublers[2] = {make_captured(session), make_captured(session)};
  items in = make_items(2 * TURNS);
  items out = make_items(2 * TURNS);
  for (size_t i = 0; i < 2 * TURNS; i++) {
    put_item(&in, i, (float)i);
  }
  delay("every:1,us:300,random", "every:1,us:300,random");
  assert_int_equal(vcuda_reset(0), 0);
  for (size_t i = 0; i < 2 * TURNS; i++) {
    copy_on(streams[i % 2], in.slices[i], doublers[i % 2].x);
    expect_ok(iobind_binding_run(doublers[i % 2].binding, streams[i % 2], NULL, &fault));
    copy_on(streams[i % 2], doublers[i % 2].y, out.slices[i]);
  }
  expect_replays(2 * TURNS);
  expect(IOBIND_INVALID_STATE, iobind_binding_run(doublers[0].binding, streams[1], NULL, &fault));
  expect(IOBIND_INVALID_STATE, iobind_binding_run(doublers[0].binding, NULL, NULL, &fault));
  for (size_t i = 0; i < 2; i++) {
    expect_ok(iobind_stream_synchronize(streams[i], &fault));
  }
  delay("0", "0");
  for (size_t i = 0; i < 2 * TURNS; i++) {
    expect_all(&out.data[i * COUNT], 2 * (float)i);
  }
  expect_ok(iobind_binding_run(doublers[0].binding, streams[1], NULL, &fault)); /* by now it may be anywhere */
  expect_ok(iobind_stream_synchronize(streams[1], &fault));
  for (size_t i = 0; i < 2; i++) {
    free_doubler(&doublers[i]);
    iobind_stream_destroy(streams[i]);
  }
  free_items(&in);
  free_items(&out);
  iobind_session_destroy(session);
}

/* A capture waits for what is queued on the session's stream, on behalf of whichever stream. */
static void capture_behind_another_streams_run(void **state) {
  (void)state;
  NEEDS_SEVERAL_GRAPHS();
  gate g;
  pthread_t thread;
  iobind_session *session = make_session("scale", 1, NULL);
  iobind_stream *held = make_stream();
  doubler queued = make_captured(session);
  doubler d = make_doubler(session);
  job captures = {.binding = d.binding, .stream = make_stream()};
  const float fives[COUNT] = {5, 5, 5, 5};
  float read[COUNT] = {0};
  close_gate(&g, held);
  expect_ok(iobind_binding_update_input(queued.binding, 0, fives, sizeof fives, held, &fault));
  expect_ok(iobind_binding_run(queued.binding, held, NULL, &fault));
  expect_ok(iobind_tensor_read(queued.y, 0, read, sizeof read, held, &fault));
  assert_int_equal(pthread_create(&thread, NULL, run_on, &captures), 0);
  nap();
  open_gate(&g);
  assert_int_equal(pthread_join(thread, NULL), 0);
  expect_done(&captures);
  expect_ok(iobind_stream_synchronize(captures.stream, &fault));
  expect_ok(iobind_stream_synchronize(held, &fault));
  expect_all(read, 10);
  expect_tensor(d.y, 2);
  free_doubler(&queued);
  free_doubler(&d);
  iobind_stream_destroy(held);
  iobind_stream_destroy(captures.stream);
  iobind_session_destroy(session);
}

/* The stream of another library: its copies before and behind the replay. */
static void replay_on(void *theirs) {
  enum { TURNS = 8 };
  iobind_native native = IOBIND_NATIVE_INIT;
  iobind_stream *stream;
  iobind_session *session = make_session("scale", 1, NULL);
  doubler d = make_doubler(session);
  items in = make_items(TURNS);
  items out = make_items(TURNS);
  native.kind = IOBIND_NATIVE_CUDA;
  native.handle = theirs;
  expect_ok(iobind_stream_wrap(device, &native, NULL, NULL, &stream, &fault));
  expect_ok(iobind_binding_run(d.binding, stream, NULL, &fault));
  expect_ok(iobind_stream_synchronize(stream, &fault));
  delay("every:1,us:300,random", "every:1,us:300,random");
  assert_int_equal(vcuda_reset(0), 0);
  for (size_t i = 0; i < TURNS; i++) {
    put_item(&in, i, (float)i);
    assert_int_equal(cudaMemcpyAsync(iobind_tensor_address(d.x), &in.data[i * COUNT], COUNT * sizeof(float), UP, theirs),
                     CUDA_OK);
    expect_ok(iobind_binding_run(d.binding, stream, NULL, &fault));
    assert_int_equal(cudaMemcpyAsync(&out.data[i * COUNT], iobind_tensor_address(d.y), COUNT * sizeof(float), DOWN, theirs),
                     CUDA_OK);
  }
  expect_replays(TURNS);
  assert_int_equal(cudaStreamSynchronize(theirs), CUDA_OK);
  delay("0", "0");
  for (size_t i = 0; i < TURNS; i++) {
    expect_all(&out.data[i * COUNT], 2 * (float)i);
  }
  expect_ok(iobind_stream_synchronize(stream, &fault));
  free_doubler(&d);
  free_items(&in);
  free_items(&out);
  iobind_stream_destroy(stream);
  iobind_session_destroy(session);
}

static void wrapped_streams(void **state) {
  (void)state;
  NEEDS_STREAMS();
  cuda_stream theirs;
  assert_int_equal(cudaStreamCreateWithFlags(&theirs, NON_BLOCKING), CUDA_OK);
  replay_on(theirs);
  assert_int_equal(cudaStreamDestroy(theirs), CUDA_OK);
  replay_on(NULL);
}

/* ---- a session on the caller's stream ---- */

static void session_on_the_callers_stream(void **state) {
  (void)state;
  enum { TURNS = 8 };
  NEEDS_STREAMS();
  iobind_stream *own = make_stream();
  iobind_stream *other = make_stream();
  iobind_session *session = make_session("scale", 1, own);
  doubler d = make_doubler(session);
  items in = make_items(TURNS);
  items out = make_items(TURNS);
  for (size_t i = 0; i < TURNS; i++) {
    put_item(&in, i, (float)i);
  }
  expect_ok(iobind_binding_run(d.binding, own, NULL, &fault));
  expect_ok(iobind_stream_synchronize(own, &fault));
  delay("every:1,us:300,random", "every:1,us:300,random");
  assert_int_equal(vcuda_reset(0), 0);
  for (size_t i = 0; i < TURNS; i++) {
    copy_on(own, in.slices[i], d.x);
    expect_ok(iobind_binding_run(d.binding, own, NULL, &fault));
    copy_on(own, d.y, out.slices[i]);
  }
  expect_replays(TURNS);
  expect_ok(iobind_stream_synchronize(own, &fault));
  for (size_t i = 0; i < TURNS; i++) {
    expect_all(&out.data[i * COUNT], 2 * (float)i);
  }
  for (size_t i = 1; i < TURNS; i++) { /* a run without a stream is there, too, so behind the upload */
    copy_on(own, in.slices[i], d.x);
    expect_ok(iobind_binding_run(d.binding, NULL, NULL, &fault));
    expect_tensor(d.y, 2 * (float)i);
  }
  iobind_stream_destroy(own); /* the session keeps it */
  copy_on(other, in.slices[3], d.x);
  expect_ok(iobind_binding_run(d.binding, other, NULL, &fault));
  expect_ok(iobind_stream_synchronize(other, &fault));
  expect_tensor(d.y, 6);
  delay("0", "0");
  free_doubler(&d);
  free_items(&in);
  free_items(&out);
  iobind_stream_destroy(other);
  iobind_session_destroy(session);
}

/* Each run without a stream comes behind what the other library has submitted, also one that follows a replay. */
static void session_on_a_wrapped_stream(void **state) {
  (void)state;
  enum { TURNS = 8 };
  NEEDS_STREAMS();
  cuda_stream theirs;
  iobind_native native = IOBIND_NATIVE_INIT;
  iobind_stream *stream;
  items in = make_items(TURNS);
  assert_int_equal(cudaStreamCreateWithFlags(&theirs, NON_BLOCKING), CUDA_OK);
  native.kind = IOBIND_NATIVE_CUDA;
  native.handle = theirs;
  expect_ok(iobind_stream_wrap(device, &native, NULL, NULL, &stream, &fault));
  iobind_session *session = make_session("scale", 1, stream);
  doubler d = make_captured(session);
  delay("every:1,us:3000", "0");
  for (size_t i = 0; i < TURNS; i++) {
    put_item(&in, i, (float)i);
    assert_int_equal(cudaMemcpyAsync(iobind_tensor_address(d.x), &in.data[i * COUNT], COUNT * sizeof(float), UP, theirs),
                     CUDA_OK);
    expect_ok(iobind_binding_run(d.binding, i % 4 == 3 ? stream : NULL, NULL, &fault));
    expect_ok(iobind_stream_synchronize(stream, &fault));
    expect_tensor(d.y, 2 * (float)i);
  }
  delay("0", "0");
  free_doubler(&d);
  free_items(&in);
  iobind_session_destroy(session);
  iobind_stream_destroy(stream);
  assert_int_equal(cudaStreamDestroy(theirs), CUDA_OK);
}

/* ---- a pipeline ---- */

static void pull(iobind_pipeline *pipeline, float value) {
  iobind_tensor *y;
  expect_ok(iobind_pipeline_next(pipeline, &y, NULL, &fault));
  expect_tensor(y, value);
}

/* Each slot is a binding with a graph of its own. While a replay is held back, items behind it are submitted, and nothing waits on the host
 * but pulling an item. */
static void pipeline_of_replays(void **state) {
  (void)state;
  enum { ITEMS = 12 };
  NEEDS_STREAMS();
  const int slots = has_several_graphs() ? 3 : 1;
  gate g;
  iobind_pipeline *pipeline;
  iobind_pipeline_options options = IOBIND_PIPELINE_OPTIONS_INIT;
  iobind_session *session = make_session("scale", 1, NULL);
  iobind_tensor *item;
  const int64_t dim = COUNT;
  int pulled = 0;
  expect_ok(iobind_tensor_create(host, IOBIND_MEMORY_DEFAULT, IOBIND_FLOAT32, &dim, 1, &item, &fault));
  options.slots = (size_t)slots;
  expect_ok(iobind_pipeline_create(session, &options, &pipeline, &fault));
  fill(item, 1);
  for (int i = 0; i < slots; i++) { /* each slot captures */
    expect_ok(iobind_pipeline_submit(pipeline, &item, &fault));
  }
  for (int i = 0; i < slots; i++) {
    pull(pipeline, 2);
  }
  assert_int_equal(vcuda_reset(0), 0);
  close_gate(&g, session->stream);
  for (int i = 0; i < slots; i++) {
    fill(item, (float)i);
    expect_ok(iobind_pipeline_submit(pipeline, &item, &fault));
  }
  expect_replays(slots);
  open_gate(&g);
  delay("every:1,us:300,random", "every:1,us:300,random");
  for (int i = slots; i < ITEMS; i++) {
    pull(pipeline, 2 * (float)pulled++);
    fill(item, (float)i);
    expect_ok(iobind_pipeline_submit(pipeline, &item, &fault));
  }
  while (pulled < ITEMS) {
    pull(pipeline, 2 * (float)pulled++);
  }
  delay("0", "0");
  assert_int_equal(vcuda_get(0, "graph_launches"), ITEMS);
  assert_int_equal(vcuda_get(0, "syncs"), vcuda_get(0, "sync_event"));
  iobind_pipeline_destroy(pipeline);
  iobind_tensor_release(item);
  iobind_session_destroy(session);
}

/* ---- failures ---- */

/* A replay that fails on the device is told by the event, the output and the stream; the next one is good. */
static void a_replay_that_fails(void **state) {
  (void)state;
  NEEDS_STREAMS();
  iobind_session *session = make_session("scale", 1, NULL);
  iobind_stream *stream = make_stream();
  iobind_event *event = make_event();
  iobind_tensor *y = NULL;
  doubler d = make_captured(session);
  assert_int_equal(vcuda_set(0, "fail_graph", "1,late"), 0);
  expect_ok(iobind_binding_run(d.binding, stream, event, &fault));
  assert_int_not_equal(iobind_event_wait(event, &fault), IOBIND_OK);
  assert_int_not_equal(iobind_binding_get_output(d.binding, 0, &y, &fault), IOBIND_OK);
  assert_int_not_equal(iobind_stream_synchronize(stream, &fault), IOBIND_OK);
  (void)vcuda_recover(0);
  (void)cudaGetLastError();
  fill(d.x, 4);
  expect_ok(iobind_binding_run(d.binding, stream, event, &fault));
  expect_ok(iobind_event_wait(event, &fault));
  expect_tensor(d.y, 8);

  assert_int_equal(vcuda_set(0, "fail_graph", "1"), 0); /* not launched */
  assert_int_not_equal(iobind_binding_run(d.binding, stream, event, &fault), IOBIND_OK);
  fill(d.x, 5);
  expect_ok(iobind_binding_run(d.binding, stream, event, &fault));
  expect_ok(iobind_event_wait(event, &fault));
  expect_tensor(d.y, 10);
  free_doubler(&d);
  iobind_event_destroy(event);
  iobind_stream_destroy(stream);
  iobind_session_destroy(session);
}

/* A capture that fails, or is ended by another call, leaves the state; it is ordered with the stream of its run in the end as well. */
static void a_capture_that_fails(void **state) {
  (void)state;
  NEEDS_STREAMS();
  iobind_session *session = make_session("scale", 1, NULL);
  iobind_stream *stream = make_stream();
  iobind_tensor *x = make_tensor(IOBIND_MEMORY_DEFAULT, COUNT);
  iobind_binding *binding;
  items in = make_items(1);
  put_item(&in, 0, 3);
  expect_ok(iobind_binding_create(session, &binding, &fault));
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
  expect_ok(iobind_binding_carry(binding, 0, 0, IOBIND_CARRY_IN_PLACE, &fault));
  delay("every:1,us:2000", "every:1,us:2000");
  copy_on(stream, in.slices[0], x);
  assert_int_equal(vcuda_set(0, "fail_compute", "3"), 0);
  assert_int_equal(iobind_binding_run(binding, stream, NULL, &fault), IOBIND_RUNTIME);
  expect_ok(iobind_stream_synchronize(stream, &fault));
  expect_tensor(x, 3);
  assert_int_equal(vcuda_set(0, "fail_capture", "1"), 0); /* 901: tried once more */
  expect_ok(iobind_binding_run(binding, stream, NULL, &fault));
  expect_ok(iobind_binding_run(binding, stream, NULL, &fault));
  expect_ok(iobind_stream_synchronize(stream, &fault));
  expect_tensor(x, 12);
  delay("0", "0");
  iobind_binding_destroy(binding);
  free_items(&in);
  iobind_tensor_release(x);
  iobind_stream_destroy(stream);
  iobind_session_destroy(session);
}

/* ---- what may not be, and what goes, while replays are queued ---- */

static void graphs_stay_while_replays_are_queued(void **state) {
  (void)state;
  NEEDS_STREAMS();
  gate g;
  iobind_session *session = make_session("scale", 1, NULL);
  iobind_stream *stream = make_stream();
  iobind_tensor *y = NULL;
  doubler d = make_captured(session);
  close_gate(&g, stream);
  expect_ok(iobind_binding_run(d.binding, stream, NULL, &fault));
  expect(IOBIND_INVALID_STATE, iobind_binding_forget_graphs(d.binding, &fault));
  expect_words("under way");
  expect(IOBIND_INVALID_STATE, iobind_binding_set_run_options(d.binding, NULL, &fault));
  expect(IOBIND_INVALID_STATE, iobind_binding_set_input(d.binding, 0, IOBIND_INPUT_RESIDENT, d.y, NULL, &fault));
  expect(IOBIND_INVALID_STATE, iobind_binding_run(d.binding, NULL, NULL, &fault));
  expect_ok(iobind_binding_cancel(d.binding, &fault)); /* it is too late */
  open_gate(&g);
  expect_ok(iobind_binding_get_output(d.binding, 0, &y, &fault));
  expect_tensor(y, 2);
  expect_ok(iobind_binding_set_run_options(d.binding, NULL, &fault));
  expect_ok(iobind_binding_run(d.binding, stream, NULL, &fault)); /* by the options that were renewed */
  expect_ok(iobind_stream_synchronize(stream, &fault));
  expect_ok(iobind_binding_forget_graphs(d.binding, &fault));
  fill(d.x, 3);
  expect_ok(iobind_binding_run(d.binding, stream, NULL, &fault));
  expect_ok(iobind_stream_synchronize(stream, &fault));
  expect_tensor(d.y, 6);
  free_doubler(&d);
  iobind_stream_destroy(stream);
  iobind_session_destroy(session);
}

/* Binding, tensors and session are gone for their owner before the device has made the replays. */
static void destroyed_while_replays_are_queued(void **state) {
  (void)state;
  NEEDS_STREAMS();
  gate g;
  int64_t blocks = vcuda_get(0, "live_blocks");
  for (int is_own = 0; is_own <= 1; is_own++) {
    iobind_stream *stream = make_stream();
    iobind_session *session = make_session("scale", 1, is_own ? stream : NULL);
    float read[COUNT] = {0};
    doubler d = make_captured(session);
    close_gate(&g, stream);
    expect_ok(iobind_binding_run(d.binding, stream, NULL, &fault));
    expect_ok(iobind_binding_run(d.binding, stream, NULL, &fault));
    expect_ok(iobind_tensor_read(d.y, 0, read, sizeof read, stream, &fault));
    free_doubler(&d);
    iobind_session_destroy(session);
    open_gate(&g);
    expect_ok(iobind_stream_synchronize(stream, &fault));
    expect_all(read, 2);
    iobind_stream_destroy(stream);
  }
  assert_int_equal(vcuda_get(0, "live_blocks"), blocks);
}

/* The thread that finds that a destroyed binding's run has passed may be running the same session, and have its turn: the graph is released
 * later. */
static void released_within_a_run(void **state) {
  (void)state;
  static const int64_t one = 1;
  static const int64_t two = 2;
  NEEDS_STREAMS();
  iobind_stream *stream = make_stream();
  iobind_session *session = make_session("expand dims=1 rank=2", 2, stream);
  iobind_binding *bindings[2];
  iobind_tensor *x;
  iobind_tensor *shapes[2];
  int64_t *wanted[2];
  expect_ok(iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_FLOAT32, &one, 1, &x, &fault));
  const float value = 3;
  expect_ok(iobind_tensor_write(x, 0, &value, sizeof value, NULL, &fault));
  for (size_t i = 0; i < 2; i++) { /* in pinned memory: a run on a stream waits for it with the session's turn */
    expect_ok(iobind_tensor_create(device, IOBIND_MEMORY_HOST_ACCESSIBLE, IOBIND_INT64, &two, 1, &shapes[i], &fault));
    expect_ok(iobind_tensor_get_data(shapes[i], IOBIND_INT64, (void **)&wanted[i], &fault));
    wanted[i][0] = wanted[i][1] = 2;
    expect_ok(iobind_binding_create(session, &bindings[i], &fault));
    expect_ok(iobind_binding_set_input(bindings[i], 0, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
    expect_ok(iobind_binding_set_input(bindings[i], 1, IOBIND_INPUT_RESIDENT, shapes[i], NULL, &fault));
  }
  expect_ok(iobind_binding_run(bindings[0], stream, NULL, &fault));
  if (session->graph_recycles) { /* one graph a session */
    expect(IOBIND_INVALID_STATE, iobind_binding_run(bindings[1], stream, NULL, &fault));
    iobind_binding_destroy(bindings[0]);
    expect_ok(iobind_stream_synchronize(stream, &fault));
    expect_ok(iobind_binding_run(bindings[1], stream, NULL, &fault));
  } else {
    expect_ok(iobind_binding_run(bindings[1], stream, NULL, &fault));
    expect_ok(iobind_binding_run(bindings[0], stream, NULL, &fault));
    iobind_binding_destroy(bindings[0]);
    assert_int_equal(atomic_load(&session->graphs_live), 2);
    expect_ok(iobind_binding_run(bindings[1], stream, NULL, &fault));
    assert_int_equal(atomic_load(&session->graphs_live), 2); /* its number waits for a capture, or for the session's end */
    assert_non_null(atomic_load(&session->abandoned));
    expect_ok(iobind_stream_synchronize(stream, &fault));
    wanted[1][0] = 4;
    expect_ok(iobind_binding_run(bindings[1], stream, NULL, &fault));
    assert_null(atomic_load(&session->abandoned));
    assert_int_equal(atomic_load(&session->graphs_live), 2);
  }
  iobind_tensor *y = NULL;
  float read[8] = {0};
  expect_ok(iobind_binding_get_output(bindings[1], 0, &y, &fault));
  expect_ok(iobind_tensor_read(y, 0, read, session->graph_recycles ? sizeof read / 2 : sizeof read, NULL, &fault));
  expect_all(read, 3);
  iobind_binding_destroy(bindings[1]);
  iobind_tensor_release(x);
  iobind_tensor_release(shapes[0]);
  iobind_tensor_release(shapes[1]);
  iobind_session_destroy(session);
  iobind_stream_destroy(stream);
}

/* ---- threads ---- */

typedef struct worker {
  iobind_session *session;
  iobind_stream *shared; /* what the session computes on */
  int number;
  int good;
} worker;

static void *work(void *context) {
  enum { TURNS = 12 };
  worker *self = context;
  const int64_t dim = COUNT;
  iobind_stream *own = NULL;
  iobind_tensor *x = NULL;
  iobind_tensor *y = NULL;
  iobind_binding *binding = NULL;
  bool good = iobind_stream_create(device, NULL, &own, NULL) == IOBIND_OK &&
              iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_FLOAT32, &dim, 1, &x, NULL) == IOBIND_OK &&
              iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_FLOAT32, &dim, 1, &y, NULL) == IOBIND_OK &&
              iobind_binding_create(self->session, &binding, NULL) == IOBIND_OK &&
              iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, x, NULL, NULL) == IOBIND_OK &&
              iobind_binding_set_output(binding, 0, IOBIND_OUTPUT_FIXED, NULL, IOBIND_MEMORY_DEFAULT, y, NULL) == IOBIND_OK;
  for (int turn = 0; turn < TURNS && good; turn++) {
    const float value = (float)(100 * self->number + turn);
    const float values[COUNT] = {value, value, value, value};
    float read[COUNT] = {0};
    iobind_stream *stream = turn % 3 == 2 ? NULL : own;
    good = iobind_tensor_write(x, 0, values, sizeof values, stream, NULL) == IOBIND_OK &&
           iobind_binding_run(binding, stream, NULL, NULL) == IOBIND_OK &&
           iobind_tensor_read(y, 0, read, sizeof read, stream, NULL) == IOBIND_OK &&
           (stream == NULL || iobind_stream_synchronize(stream, NULL) == IOBIND_OK);
    for (int i = 0; i < COUNT; i++) {
      good = good && read[i] == 2 * value;
    }
    if (turn == TURNS / 2) { /* captured again, beside the others' replays */
      good = good && iobind_binding_forget_graphs(binding, NULL) == IOBIND_OK;
    }
    self->good += good;
  }
  iobind_binding_destroy(binding);
  iobind_tensor_release(x);
  iobind_tensor_release(y);
  iobind_stream_destroy(own);
  return (void *)(intptr_t)(self->good == TURNS);
}

/* Copies on the very stream that sessions compute and capture on, from another thread: a capture keeps them out. */
static void *copy_beside(void *context) {
  worker *self = context;
  const int64_t dim = COUNT;
  iobind_tensor *a = NULL;
  iobind_tensor *b = NULL;
  iobind_event *event = NULL;
  bool good = iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_FLOAT32, &dim, 1, &a, NULL) == IOBIND_OK &&
              iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_FLOAT32, &dim, 1, &b, NULL) == IOBIND_OK &&
              iobind_event_create(device, &event, NULL) == IOBIND_OK;
  for (int turn = 0; turn < 100 && good; turn++) {
    const float values[COUNT] = {(float)turn, (float)turn, (float)turn, (float)turn};
    float read[COUNT] = {0};
    const iobind_tensor *from = a;
    good = iobind_tensor_write(a, 0, values, sizeof values, self->shared, NULL) == IOBIND_OK &&
           iobind_tensor_copy(&from, &b, 1, self->shared, NULL) == IOBIND_OK &&
           iobind_event_record(event, self->shared, NULL) == IOBIND_OK &&
           iobind_tensor_read(b, 0, read, sizeof read, self->shared, NULL) == IOBIND_OK &&
           iobind_stream_synchronize(self->shared, NULL) == IOBIND_OK && read[COUNT - 1] == (float)turn;
  }
  iobind_event_destroy(event);
  iobind_tensor_release(a);
  iobind_tensor_release(b);
  return (void *)(intptr_t)good;
}

/* Captures, replays on streams and without, beside copies on the session's own stream, which may be another library's. */
static void threads_beside_captures(void **state) {
  (void)state;
  enum { WORKERS = 3 };
  NEEDS_STREAMS();
  for (int is_wrapped = 0; is_wrapped <= 1; is_wrapped++) {
    cuda_stream theirs;
    iobind_stream *shared;
    iobind_native native = IOBIND_NATIVE_INIT;
    worker workers[WORKERS + 1];
    pthread_t threads[WORKERS + 1];
    assert_int_equal(cudaStreamCreateWithFlags(&theirs, NON_BLOCKING), CUDA_OK);
    native.kind = IOBIND_NATIVE_CUDA;
    native.handle = theirs;
    if (is_wrapped) {
      expect_ok(iobind_stream_wrap(device, &native, NULL, NULL, &shared, &fault));
    } else {
      shared = make_stream();
    }
    iobind_session *session = make_session("scale", 1, shared);
    bool one_graph = session->graph_recycles;
    size_t count = one_graph ? 1 : WORKERS;
    for (size_t i = 0; i < count + 1; i++) {
      workers[i] = (worker){.session = session, .shared = shared, .number = (int)i};
      assert_int_equal(pthread_create(&threads[i], NULL, i < count ? work : copy_beside, &workers[i]), 0);
    }
    for (size_t i = 0; i < count + 1; i++) {
      void *good = NULL;
      assert_int_equal(pthread_join(threads[i], &good), 0);
      assert_int_equal((intptr_t)good, 1);
    }
    iobind_session_destroy(session);
    iobind_stream_destroy(shared);
    assert_int_equal(cudaStreamDestroy(theirs), CUDA_OK);
  }
}

/* ---- older releases of ORT ---- */

static void older_runtimes_wait(void **state) {
  (void)state;
  iobind_session *session;
  iobind_stream *stream = make_stream();
  if (takes_streams()) {
    skip();
  }
  assert_int_equal(try_session("scale", 1, stream, &session), IOBIND_INVALID_ARGUMENT);
  expect_words("ORT 1.27 or newer");
  session = make_session("scale", 1, NULL);
  assert_null(session->stream);
  doubler d = make_doubler(session);
  for (int i = 1; i < 5; i++) {
    const float values[COUNT] = {(float)i, (float)i, (float)i, (float)i};
    expect_ok(iobind_tensor_write(d.x, 0, values, sizeof values, stream, &fault));
    expect_ok(iobind_binding_run(d.binding, stream, NULL, &fault));
    expect_tensor(d.y, 2 * (float)i);
  }
  free_doubler(&d);
  iobind_session_destroy(session);
  iobind_stream_destroy(stream);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(steady_replays_wait_for_nothing),
    cmocka_unit_test(runs_come_behind_uploads),
    cmocka_unit_test(producers_on_another_stream),
    cmocka_unit_test(states_on_a_stream),
    cmocka_unit_test(two_streams),
    cmocka_unit_test(capture_behind_another_streams_run),
    cmocka_unit_test(wrapped_streams),
    cmocka_unit_test(session_on_the_callers_stream),
    cmocka_unit_test(session_on_a_wrapped_stream),
    cmocka_unit_test(pipeline_of_replays),
    cmocka_unit_test(a_replay_that_fails),
    cmocka_unit_test(a_capture_that_fails),
    cmocka_unit_test(graphs_stay_while_replays_are_queued),
    cmocka_unit_test(destroyed_while_replays_are_queued),
    cmocka_unit_test(released_within_a_run),
    cmocka_unit_test(threads_beside_captures),
    cmocka_unit_test(older_runtimes_wait),
};

FIXTURE_MAIN(tests, start, stop);
