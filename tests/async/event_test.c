/* Events that their owner destroys while something still uses them: an input that is bound with one, a state, a run in flight, a thread
 * that waits. On the virtual accelerator a missing order is a failure (race=fail). */
#define _POSIX_C_SOURCE 200809L /* the barrier */
#include "fixture.h"

#include <pthread.h>
#include <string.h>

#include "halt.h"
#include "models.h"
#include "vdev.h"
#include "../rig/calls.h"
#include "stage.h"

enum { COUNT = 4 };
static const float ones[COUNT] = {1, 1, 1, 1};
static const float twos[COUNT] = {2, 2, 2, 2};
static const float threes[COUNT] = {3, 3, 3, 3};
static const float fours[COUNT] = {4, 4, 4, 4};
static const float sixes[COUNT] = {6, 6, 6, 6};

static iobind_stream *producer;
static iobind_stream *consumer;

static int start(void **state) {
  (void)stage_open(state);
  if (is_device("vdev")) {
    assert_int_equal(vdev_set(0, "race", "fail"), 0);
  }
  expect_ok(iobind_stream_create(device, NULL, &producer, &fault));
  expect_ok(iobind_stream_create(device, NULL, &consumer, &fault));
  return 0;
}

static int stop(void **state) {
  iobind_stream_destroy(producer);
  iobind_stream_destroy(consumer);
  return stage_close(state);
}

static iobind_event *make_event(void) {
  iobind_event *event;
  expect_ok(iobind_event_create(device, &event, &fault));
  return event;
}

static iobind_binding *make_binding(const char *model) {
  iobind_binding *binding;
  iobind_session *session = fixture_session(runtime, device, model);
  expect_ok(iobind_binding_create(session, &binding, &fault));
  iobind_session_destroy(session);
  return binding;
}

static void expect_output(iobind_binding *binding, const float *values) {
  iobind_tensor *output;
  expect_ok(iobind_binding_get_output(binding, 0, NULL, &output, &fault));
  fixture_expect_floats(output, values, COUNT);
}

/* `values` are written on a stream, and the event is recorded after that. */
static void produce(iobind_tensor *x, const float *values, iobind_event *event) {
  expect_ok(iobind_tensor_write(x, 0, values, COUNT * sizeof *values, producer, &fault));
  expect_ok(iobind_event_record(event, producer, &fault));
}

/* Runs go on waiting for what the event held, on a stream and without one, until the input is rebound. */
static void of_an_input(void **state) {
  (void)state;
  iobind_event *event = make_event();
  iobind_binding *binding = make_binding("scale");
  iobind_tensor *x = fixture_floats(device, ones, COUNT);
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, x, event, &fault));
  produce(x, threes, event);
  iobind_event_destroy(event);
  expect_ok(iobind_binding_run(binding, consumer, &fault));
  expect_output(binding, sixes);
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  expect_output(binding, sixes);
  event = make_event();
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, x, event, &fault));
  produce(x, ones, event);
  iobind_event_destroy(event);
  expect_ok(iobind_binding_run(binding, consumer, &fault));
  iobind_binding_destroy(binding); /* in flight, and with it the last use of the event */
  iobind_tensor_release(x);
}

/* The program releases all its objects, the runtime too; the bound tensor and event are used after that. */
static void of_an_input_that_outlives_all(void **state) {
  (void)state;
  iobind_event *event = make_event();
  iobind_binding *binding = make_binding("scale");
  iobind_tensor *x = fixture_floats(device, ones, COUNT);
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, x, event, &fault));
  produce(x, threes, event);
  iobind_tensor_release(x);
  iobind_event_destroy(event);
  iobind_stream_destroy(producer);
  producer = NULL;
  iobind_runtime_destroy(runtime);
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  expect_output(binding, sixes);
  runtime = fixture_runtime();
  iobind_binding_destroy(binding);
}

/* A copy of the tensor is made before each run. */
static void of_a_live_input(void **state) {
  (void)state;
  iobind_event *event = make_event();
  iobind_binding *binding = make_binding("scale");
  iobind_tensor *x = fixture_floats(iobind_runtime_get_device(runtime, 0), threes, COUNT);
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_LIVE, x, event, &fault));
  expect_ok(iobind_event_record(event, producer, &fault));
  iobind_event_destroy(event);
  expect_ok(iobind_binding_run(binding, consumer, &fault));
  expect_output(binding, sixes);
  iobind_binding_destroy(binding);
  iobind_tensor_release(x);
}

/* The event is that of the first state. */
static void of_a_state(void **state) {
  (void)state;
  iobind_event *event = make_event();
  iobind_binding *binding = make_binding("scale");
  iobind_tensor *x = fixture_floats(device, twos, COUNT);
  expect_ok(iobind_binding_carry(binding, 0, 0, IOBIND_CARRY_MOVE, &fault));
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, x, event, &fault));
  produce(x, ones, event);
  iobind_event_destroy(event);
  iobind_tensor_release(x);
  for (int i = 0; i < 2; i++) {
    expect_ok(iobind_binding_run(binding, consumer, &fault));
    expect_output(binding, i == 0 ? twos : fours);
  }
  iobind_binding_destroy(binding);
}

/* The run continues, and so does the thread that polls the event. */
static void of_a_run_under_way(void **state) {
  (void)state;
  iobind_event *event = make_event();
  iobind_binding *binding = make_binding("scale");
  iobind_tensor *x = fixture_floats(device, ones, COUNT);
  int32_t done;
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
  expect_ok(call_binding_run(binding, consumer, event, &fault));
  expect_ok(iobind_event_query(event, &done, &fault));
  iobind_event_destroy(event);
  expect_output(binding, twos);
  iobind_binding_destroy(binding);
  iobind_tensor_release(x);
}

/* Another stream waits for it. */
static void of_a_stream_that_waits(void **state) {
  (void)state;
  iobind_event *event = make_event();
  iobind_tensor *x = fixture_floats(device, ones, COUNT);
  float read[COUNT] = {0};
  produce(x, threes, event);
  expect_ok(iobind_stream_wait(consumer, event, &fault));
  iobind_event_destroy(event);
  expect_ok(iobind_tensor_read(x, 0, read, sizeof read, consumer, &fault));
  expect_ok(iobind_stream_synchronize(consumer, &fault));
  assert_memory_equal(read, threes, sizeof read);
  iobind_tensor_release(x);
}

/* ---- a thread that waits ---- */

static void *wait_for_event(void *context) {
  return iobind_event_wait(context, IOBIND_NO_TIMEOUT, NULL) == IOBIND_OK ? context : NULL;
}

/* On the CPU a gate blocks the stream's thread until the event is destroyed. */
static void of_a_thread_that_waits(void **state) {
  (void)state;
  iobind_event *event = make_event();
  pthread_t thread;
  void *good = NULL;
  halt held;
  halt_stream(&held, producer);
  expect_ok(iobind_event_record(event, producer, &fault));
  assert_int_equal(pthread_create(&thread, NULL, wait_for_event, event), 0);
  while (atomic_load(&event->ref.count) < 2) { /* it is not waiting yet */
  }
  iobind_event_destroy(event);
  halt_release(&held);
  assert_int_equal(pthread_join(thread, &good), 0);
  assert_non_null(good);
  expect_ok(iobind_stream_synchronize(producer, &fault));
  halt_destroy(&held);
}

#define ON(device, test) \
  { #device ": " #test, test, start, stop, #device }
#define ON_EACH(test) ON(vdev, test), ON(cpu, test), ON(webgpu, test), ON(cuda, test)

static const struct CMUnitTest tests[] = {
    ON_EACH(of_an_input),        ON_EACH(of_an_input_that_outlives_all), ON_EACH(of_a_live_input),        ON_EACH(of_a_state),
    ON_EACH(of_a_run_under_way), ON_EACH(of_a_stream_that_waits),        ON(cpu, of_a_thread_that_waits),
};

FIXTURE_MAIN_OF_DEVICES(tests);
