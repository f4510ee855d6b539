/* A GPU that is lost: a failure on the device stays, and nothing works there any more. All that is in flight fails, with the status that says
 * so; nobody waits; what comes later is refused; all can be destroyed; the other GPU works. Each test has a runtime of its own. */
#include "fixture.h"

#include <pthread.h>
#include <semaphore.h>
#include <string.h>

#include "cuda.h"
#include "vcuda.h"
#include "../rig/calls.h"

enum { COUNT = 4, GPUS = 2 };

static iobind_runtime *runtime;
static iobind_device *device;
static iobind_device *other;

static int start(void **state) {
  (void)state;
  runtime = fixture_runtime();
  device = fixture_device(runtime, "cuda:0");
  other = fixture_device(runtime, "cuda:1");
  return 0;
}

static int stop(void **state) {
  (void)state;
  iobind_runtime_destroy(runtime);
  for (int gpu = 0; gpu < GPUS; gpu++) {
    (void)vcuda_set(gpu, "fail_compute", "0");
    (void)vcuda_set(gpu, "fail_copy", "0");
    (void)vcuda_recover(gpu);
  }
  (void)cudaGetLastError();
  return 0;
}

/* Holds a stream of CUDA's back. */
typedef struct gate {
  sem_t reached;
  sem_t open;
} gate;

static void wait_at_gate(void *data) {
  gate *g = data;
  sem_post(&g->reached);
  while (sem_wait(&g->open) != 0) {
  }
}

/* The device has come to it: a failure that is asked for now is that of what is behind it. */
static void close_gate(gate *g, const iobind_stream *stream) {
  sem_init(&g->reached, 0, 0);
  sem_init(&g->open, 0, 0);
  assert_int_equal(cudaLaunchHostFunc(call_stream_get_native(stream), wait_at_gate, g), CUDA_OK);
  while (sem_wait(&g->reached) != 0) {
  }
}

static void open_gate(gate *g) {
  sem_post(&g->open);
}

/* y = 2 x */
typedef struct doubler {
  iobind_session *session;
  iobind_binding *binding;
  iobind_tensor *x;
  iobind_tensor *y;
} doubler;

static iobind_tensor *make_tensor(iobind_device *where, float value) {
  static const int64_t dim = COUNT;
  const float values[COUNT] = {value, value, value, value};
  iobind_tensor *tensor;
  expect_ok(iobind_tensor_create(where, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, &dim, 1, &tensor, &fault));
  expect_ok(iobind_tensor_write(tensor, 0, values, sizeof values, NULL, &fault));
  return tensor;
}

static void expect_tensor(const iobind_tensor *tensor, float value) {
  float values[COUNT] = {0};
  expect_ok(iobind_tensor_read(tensor, 0, values, sizeof values, NULL, &fault));
  for (int i = 0; i < COUNT; i++) {
    assert_true(values[i] == value);
  }
}

static doubler make_doubler(iobind_device *where, size_t graphs) {
  doubler d = {.x = make_tensor(where, 3), .y = make_tensor(where, 0)};
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  options.devices = &where;
  options.device_count = 1;
  options.graph_limit = graphs;
  expect_ok(test_session_with(runtime, "scale", &options, &d.session, &fault));
  expect_ok(iobind_binding_create(d.session, &d.binding, &fault));
  expect_ok(iobind_binding_set_input(d.binding, 0, IOBIND_INPUT_RESIDENT, d.x, NULL, &fault));
  expect_ok(iobind_binding_set_output(d.binding, 0, d.y, 0, &fault));
  return d;
}

static void free_doubler(doubler *d) {
  iobind_binding_destroy(d->binding);
  iobind_session_destroy(d->session);
  iobind_tensor_release(d->x);
  iobind_tensor_release(d->y);
}

static iobind_stream *make_stream(iobind_device *where) {
  iobind_stream *stream;
  expect_ok(iobind_stream_create(where, NULL, &stream, &fault));
  return stream;
}

static iobind_event *make_event(void) {
  iobind_event *event;
  expect_ok(iobind_event_create(device, &event, &fault));
  return event;
}

#define LOST(call) expect(IOBIND_ERROR_DEVICE_LOST, call)

/* Whatever is begun on the device is refused, with the reason; the other one does not know of it. */
static void expect_refusals(doubler *d) {
  static const int64_t dim = COUNT;
  float values[COUNT] = {0};
  const iobind_tensor *from = d->x;
  iobind_tensor *made = NULL;
  iobind_tensor *results[1] = {NULL};
  iobind_stream *stream = NULL;
  iobind_session *session = NULL;
  LOST(iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, &dim, 1, &made, &fault));
  expect_words("'cuda:0' is lost");
  LOST(iobind_tensor_read(d->y, 0, values, sizeof values, NULL, &fault));
  LOST(iobind_tensor_write(d->x, 0, values, sizeof values, NULL, &fault));
  LOST(iobind_tensor_copy(&from, &d->y, 1, NULL, &fault));
  LOST(iobind_stream_create(device, NULL, &stream, &fault));
  LOST(iobind_binding_run(d->binding, NULL, &fault));
  LOST(call_session_run(d->session, &d->x, results, &fault));
  LOST(test_session(runtime, device, "scale", &session, &fault));
  doubler good = make_doubler(other, 0);
  expect_ok(iobind_binding_run(good.binding, NULL, &fault));
  expect_tensor(good.y, 6);
  free_doubler(&good);
}

/* The kernel of a run on a stream fails when the call has returned long ago. */
static void a_run_that_fails_late(void **state) {
  (void)state;
  gate g;
  iobind_tensor *y = NULL;
  float untouched[COUNT] = {1, 2, 3, 4};
  static const float before[COUNT] = {1, 2, 3, 4};
  doubler d = make_doubler(device, 0);
  doubler beside = make_doubler(device, 0);
  iobind_stream *stream = make_stream(device);
  iobind_stream *second = make_stream(device);
  iobind_event *event = make_event();
  iobind_event *later = make_event();
  close_gate(&g, stream);
  assert_int_equal(vcuda_set(0, "fail_compute", "1,late"), 0);
  expect_ok(call_binding_run(d.binding, stream, event, &fault));
  expect_ok(iobind_tensor_read(d.y, 0, untouched, sizeof untouched, stream, &fault));
  expect_ok(iobind_stream_wait(second, event, &fault));
  expect_ok(call_binding_run(beside.binding, second, later, &fault)); /* behind the one that fails */
  open_gate(&g);
  LOST(iobind_event_wait(event, IOBIND_NO_TIMEOUT, &fault));
  (void)vcuda_recover(0); /* what no GPU does: bytes could be read again */
  LOST(iobind_event_wait(event, IOBIND_NO_TIMEOUT, &fault));
  LOST(iobind_event_wait(later, IOBIND_NO_TIMEOUT, &fault));
  LOST(iobind_binding_get_output(d.binding, 0, NULL, &y, &fault));
  LOST(iobind_binding_get_output(beside.binding, 0, NULL, &y, &fault));
  LOST(iobind_stream_synchronize(stream, &fault));
  LOST(iobind_stream_synchronize(second, &fault));
  LOST(iobind_event_record(event, stream, &fault));
  assert_memory_equal(untouched, before, sizeof before);   /* a read that failed delivers nothing */
  expect_ok(iobind_binding_clear(beside.binding, &fault)); /* nothing is in flight */
  expect_refusals(&d);
  iobind_event_destroy(event);
  iobind_event_destroy(later);
  iobind_stream_destroy(stream);
  iobind_stream_destroy(second);
  free_doubler(&d);
  free_doubler(&beside);
}

/* The first call that meets the failure is one of iobind's own: the record of an event. */
static void a_record_meets_the_failure(void **state) {
  (void)state;
  iobind_tensor *y = NULL;
  doubler d = make_doubler(device, 0);
  iobind_stream *stream = make_stream(device);
  iobind_event *event = make_event();
  gate g;
  close_gate(&g, stream);
  assert_int_equal(vcuda_set(0, "fail_compute", "1,late"), 0);
  expect_ok(iobind_binding_run(d.binding, stream, &fault));
  open_gate(&g);
  while (cudaStreamQuery(NULL) == CUDA_OK) { /* the device has not found it yet */
  }
  LOST(iobind_event_record(event, stream, &fault));
  (void)vcuda_recover(0);
  LOST(iobind_binding_get_output(d.binding, 0, NULL, &y, &fault));
  LOST(iobind_stream_synchronize(stream, &fault));
  iobind_stream_destroy(stream);
  iobind_event_destroy(event);
  free_doubler(&d);
}

/* A synchronous run, a copy, and a replay hear of it themselves. */
static void calls_that_wait(void **state) {
  (void)state;
  for (int way = 0; way < 3; way++) {
    doubler d = make_doubler(device, way == 2 ? 1 : 0);
    const iobind_tensor *from = d.x;
    expect_ok(iobind_binding_run(d.binding, NULL, &fault));
    expect_ok(iobind_binding_run(d.binding, NULL, &fault));
    assert_int_equal(vcuda_set(0, way == 1 ? "fail_copy" : "fail_compute", "1,late"), 0);
    LOST(way == 1 ? iobind_tensor_copy(&from, &d.y, 1, NULL, &fault) : iobind_binding_run(d.binding, NULL, &fault));
    expect_refusals(&d);
    free_doubler(&d);
    (void)stop(NULL);
    (void)start(NULL);
  }
}

/* The states of a carry are lost with it, and no run goes on from what their memory has then. */
static void carried_states(void **state) {
  (void)state;
  static const iobind_carry_mode modes[] = {IOBIND_CARRY_MOVE, IOBIND_CARRY_SWAP, IOBIND_CARRY_IN_PLACE};
  for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
    gate g;
    iobind_tensor *y = NULL;
    doubler d = make_doubler(device, 0);
    iobind_stream *stream = make_stream(device);
    expect_ok(iobind_binding_carry(d.binding, 0, 0, modes[i], &fault));
    expect_ok(iobind_binding_run(d.binding, stream, &fault));
    expect_ok(iobind_stream_synchronize(stream, &fault));
    close_gate(&g, stream);
    assert_int_equal(vcuda_set(0, "fail_compute", "1,late"), 0);
    expect_ok(iobind_binding_run(d.binding, stream, &fault));
    open_gate(&g);
    LOST(iobind_stream_synchronize(stream, &fault));
    (void)vcuda_recover(0);
    LOST(iobind_binding_get_output(d.binding, 0, NULL, &y, &fault));
    LOST(iobind_binding_run(d.binding, NULL, &fault));
    LOST(iobind_binding_run(d.binding, stream, &fault));
    iobind_stream_destroy(stream);
    free_doubler(&d);
    (void)stop(NULL);
    (void)start(NULL);
  }
}

typedef struct waiting {
  iobind_event *event;
  iobind_status status;
} waiting;

static void *wait_for_event(void *context) {
  waiting *self = context;
  self->status = iobind_event_wait(self->event, IOBIND_NO_TIMEOUT, NULL);
  return NULL;
}

/* Threads that wait for other streams of the device when it is lost. */
static void nobody_waits_for_ever(void **state) {
  (void)state;
  enum { WAITERS = 3 };
  gate gates[WAITERS];
  pthread_t threads[WAITERS];
  waiting waiters[WAITERS];
  iobind_stream *streams[WAITERS];
  doubler d[WAITERS];
  for (size_t i = 0; i < WAITERS; i++) {
    d[i] = make_doubler(device, 0);
    streams[i] = make_stream(device);
    waiters[i] = (waiting){.event = make_event()};
    expect_ok(iobind_binding_run(d[i].binding, streams[i], &fault)); /* the first one allocates, which waits for the device */
    expect_ok(iobind_stream_synchronize(streams[i], &fault));
  }
  for (size_t i = 0; i < WAITERS; i++) {
    close_gate(&gates[i], streams[i]);
  }
  assert_int_equal(vcuda_set(0, "fail_compute", "1,late"), 0);
  for (size_t i = 0; i < WAITERS; i++) {
    expect_ok(call_binding_run(d[i].binding, streams[i], waiters[i].event, &fault));
    assert_int_equal(pthread_create(&threads[i], NULL, wait_for_event, &waiters[i]), 0);
  }
  for (size_t i = 0; i < WAITERS; i++) {
    open_gate(&gates[i]);
  }
  for (size_t i = 0; i < WAITERS; i++) {
    iobind_tensor *y = NULL;
    assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(waiters[i].status, IOBIND_ERROR_DEVICE_LOST);
    LOST(iobind_binding_get_output(d[i].binding, 0, NULL, &y, &fault));
    iobind_event_destroy(waiters[i].event);
    iobind_stream_destroy(streams[i]);
    free_doubler(&d[i]);
  }
}

/* A pipeline's items fail, and it can be destroyed. */
static void pipelines(void **state) {
  (void)state;
  doubler d = make_doubler(device, 0);
  iobind_pipeline *pipeline;
  iobind_tensor *y;
  static const float values[COUNT] = {1, 1, 1, 1};
  iobind_tensor *x = fixture_floats(iobind_runtime_get_device(runtime, 0), values, COUNT);
  expect_ok(call_pipeline_create(d.session, NULL, &pipeline, &fault));
  assert_int_equal(vcuda_set(0, "fail_compute", "1,late"), 0);
  iobind_status status = call_pipeline_submit(pipeline, &x, 1, &fault); /* the device may be as fast as the call */
  assert_true(status == IOBIND_OK || status == IOBIND_ERROR_DEVICE_LOST);
  if (status == IOBIND_OK) {
    LOST(iobind_pipeline_next(pipeline, IOBIND_NO_TIMEOUT, &y, 1, NULL, &fault));
  }
  LOST(call_pipeline_submit(pipeline, &x, 1, &fault));
  iobind_pipeline_destroy(pipeline);
  iobind_tensor_release(x);
  free_doubler(&d);
}

/* An event that cannot be made now says nothing about the device, and leaves no error of CUDA's for the next kernel. */
static void an_event_that_fails_once(void **state) {
  (void)state;
  iobind_tensor *y = NULL;
  doubler d = make_doubler(device, 0);
  iobind_stream *stream = make_stream(device);
  iobind_event *event = make_event();
  expect_ok(iobind_binding_run(d.binding, stream, &fault));
  assert_int_equal(vcuda_set(0, "fail_event", "1"), 0);
  iobind_status status = iobind_event_record(event, stream, &fault);
  assert_true(status != IOBIND_OK && status != IOBIND_ERROR_DEVICE_LOST);
  assert_int_equal(cudaPeekAtLastError(), CUDA_OK);
  expect_ok(call_binding_run(d.binding, stream, event, &fault));
  expect_ok(iobind_event_wait(event, IOBIND_NO_TIMEOUT, &fault));
  expect_ok(iobind_binding_get_output(d.binding, 0, NULL, &y, &fault));
  expect_tensor(y, 6);
  iobind_stream_destroy(stream);
  iobind_event_destroy(event);
  free_doubler(&d);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, start, stop)

static const struct CMUnitTest tests[] = {
    CASE(a_run_that_fails_late),    CASE(a_record_meets_the_failure), CASE(calls_that_wait),
    CASE(carried_states),           CASE(nobody_waits_for_ever),      CASE(pipelines),
    CASE(an_event_that_fails_once),
};

FIXTURE_MAIN(tests, NULL, NULL);
