/* Waits with a time limit: after TIMEOUT the work continues, and the next wait finds it. Nothing here depends on how long something takes: if
 * TIMEOUT is expected, a gate holds back the work. */
#define _POSIX_C_SOURCE 200809L /* the barrier */
#include "fixture.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "halt.h"
#include "vdev.h"
#include "../rig/calls.h"

enum { COUNT = 4 };
static const uint64_t SHORT_NS = 1000000;
static const uint64_t LONG_NS = UINT64_MAX / 4; /* but not forever, which is another kind of wait */
static const float ones[COUNT] = {1, 1, 1, 1};
static const float twos[COUNT] = {2, 2, 2, 2};

static iobind_runtime *runtime;
static iobind_device *device;
static iobind_stream *stream;

/* ---- a gate in a session's first run on the CPU: it needs memory, ORT logs that, and the log's receiver blocks ---- */

static atomic_bool gated;
static pthread_mutex_t gate_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t gate_changed = PTHREAD_COND_INITIALIZER;

static void set_gate(bool closed) {
  pthread_mutex_lock(&gate_mutex);
  atomic_store(&gated, closed);
  pthread_cond_broadcast(&gate_changed);
  pthread_mutex_unlock(&gate_mutex);
}

static void receive(void *context, int32_t level, const char *message) {
  (void)context, (void)level;
  if (strstr(message, "Extending BFCArena") == NULL) {
    return;
  }
  pthread_mutex_lock(&gate_mutex);
  while (atomic_load(&gated)) {
    pthread_cond_wait(&gate_changed, &gate_mutex);
  }
  pthread_mutex_unlock(&gate_mutex);
}

static int start(void **state) {
  iobind_runtime_options options = IOBIND_RUNTIME_OPTIONS_INIT;
  options.flags = IOBIND_RUNTIME_SOFTWARE_DEVICES;
  options.log = receive;
  options.log_level = IOBIND_LOG_VERBOSE;
  expect_ok(iobind_runtime_create(&options, &runtime, &fault));
  device = fixture_device(runtime, *state);
  expect_ok(iobind_stream_create(device, NULL, &stream, &fault));
  return 0;
}

static int stop(void **state) {
  (void)state;
  iobind_stream_destroy(stream);
  iobind_runtime_destroy(runtime);
  return 0;
}

/* ---- events ---- */

static iobind_event *make_event(void) {
  iobind_event *event;
  expect_ok(iobind_event_create(device, &event, &fault));
  return event;
}

static void of_an_event(void **state) {
  (void)state;
  iobind_event *event = make_event();
  halt held;
  float read[COUNT] = {0};
  iobind_tensor *x = fixture_floats(device, ones, COUNT);
  expect_ok(iobind_event_wait(event, 0, &fault)); /* never recorded */
  halt_stream(&held, stream);
  expect_ok(iobind_tensor_read(x, 0, read, sizeof read, stream, &fault));
  expect_ok(iobind_event_record(event, stream, &fault));
  expect(IOBIND_ERROR_TIMEOUT, iobind_event_wait(event, 0, &fault));
  expect_words("event_wait");
  expect(IOBIND_ERROR_TIMEOUT, iobind_event_wait(event, SHORT_NS, &fault));
  halt_release(&held);
  expect_ok(iobind_event_wait(event, LONG_NS, &fault));
  assert_memory_equal(read, ones, sizeof read);
  expect_ok(iobind_event_wait(event, 0, &fault)); /* it is signaled, and remains signaled */
  expect_ok(iobind_stream_synchronize(stream, &fault));
  halt_destroy(&held);
  iobind_tensor_release(x);
  iobind_event_destroy(event);
}

static void *wait_for_long(void *context) {
  return iobind_event_wait(context, LONG_NS, NULL) == IOBIND_OK ? context : NULL;
}

/* Several threads wait for one event, and the first one that times out ends no other wait. */
static void of_several_threads(void **state) {
  (void)state;
  iobind_event *event = make_event();
  halt held;
  pthread_t threads[3];
  halt_stream(&held, stream);
  expect_ok(iobind_event_record(event, stream, &fault));
  for (int i = 0; i < 3; i++) {
    assert_int_equal(pthread_create(&threads[i], NULL, wait_for_long, event), 0);
  }
  expect(IOBIND_ERROR_TIMEOUT, iobind_event_wait(event, SHORT_NS, &fault));
  halt_release(&held);
  for (int i = 0; i < 3; i++) {
    void *good = NULL;
    assert_int_equal(pthread_join(threads[i], &good), 0);
    assert_non_null(good);
  }
  expect_ok(iobind_stream_synchronize(stream, &fault));
  halt_destroy(&held);
  iobind_event_destroy(event);
}

static void *open_later(void *context) {
  halt_release(context);
  return NULL;
}

/* After TIMEOUT the event and the stream are destroyed, which waits for the work in flight. */
static void of_what_is_destroyed(void **state) {
  (void)state;
  iobind_event *event = make_event();
  halt held;
  pthread_t thread;
  float read[COUNT] = {0};
  iobind_tensor *x = fixture_floats(device, twos, COUNT);
  halt_stream(&held, stream);
  expect_ok(iobind_tensor_read(x, 0, read, sizeof read, stream, &fault));
  expect_ok(iobind_event_record(event, stream, &fault));
  expect(IOBIND_ERROR_TIMEOUT, iobind_event_wait(event, SHORT_NS, &fault));
  iobind_event_destroy(event);
  assert_int_equal(pthread_create(&thread, NULL, open_later, &held), 0);
  iobind_stream_destroy(stream);
  stream = NULL;
  assert_memory_equal(read, twos, sizeof read);
  pthread_join(thread, NULL);
  halt_destroy(&held);
  iobind_tensor_release(x);
}

static void refuses(void **state) {
  (void)state;
  iobind_tensor *output = NULL;
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_event_wait(NULL, 0, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_pipeline_next(NULL, 0, &output, 1, NULL, &fault));
  expect_words("pipeline_next");
}

/* ---- pipelines ---- */

static iobind_pipeline *make_pipeline(void) {
  iobind_pipeline *pipeline;
  iobind_session *session = fixture_session(runtime, device, "scale");
  expect_ok(call_pipeline_create(session, NULL, &pipeline, &fault));
  iobind_session_destroy(session);
  return pipeline;
}

static void submit(iobind_pipeline *pipeline, const float *values) {
  iobind_tensor *x = fixture_floats(iobind_runtime_get_device(runtime, 0), values, COUNT);
  expect_ok(call_pipeline_submit(pipeline, &x, 1, &fault));
  iobind_tensor_release(x);
}

static void of_an_item(void **state) {
  (void)state;
  iobind_pipeline *pipeline = make_pipeline();
  iobind_pipeline_item item = IOBIND_PIPELINE_ITEM_INIT;
  iobind_tensor *output = NULL;
  expect(IOBIND_ERROR_NOT_FOUND, iobind_pipeline_next(pipeline, 0, &output, 1, &item, &fault));
  set_gate(true);
  submit(pipeline, ones);
  submit(pipeline, twos);
  for (int i = 0; i < 3; i++) {
    expect(IOBIND_ERROR_TIMEOUT, iobind_pipeline_next(pipeline, i == 0 ? 0 : SHORT_NS, &output, 1, &item, &fault));
    expect_words("pipeline_next");
    assert_null(output);
  }
  set_gate(false);
  for (int i = 0; i < 2; i++) {
    expect_ok(iobind_pipeline_next(pipeline, LONG_NS, &output, 1, &item, &fault));
    assert_int_equal(item.index, i);
    fixture_expect_floats(output, i == 0 ? twos : (const float[COUNT]){4, 4, 4, 4}, COUNT);
  }
  iobind_pipeline_destroy(pipeline);
}

/* However often a wait times out, also just as an item ends, all items are returned, whole and in their order. */
static void of_items_that_are_asked_for_again(void **state) {
  enum { SLOW = 6, QUICK = 500 };
  bool on_vdev = strcmp(*state, "vdev") == 0;
  iobind_pipeline *pipeline = make_pipeline();
  for (int i = 0; i < SLOW + QUICK; i++) {
    iobind_tensor *output = NULL;
    iobind_pipeline_item item = IOBIND_PIPELINE_ITEM_INIT;
    iobind_status status = IOBIND_ERROR_TIMEOUT;
    if (on_vdev && (i == 0 || i == SLOW)) {
      assert_int_equal(vdev_set(0, "delay_compute", i == 0 ? "every:1,us:20000" : "0"), 0);
    }
    submit(pipeline, i % 2 == 0 ? ones : twos);
    while (status == IOBIND_ERROR_TIMEOUT) {
      status = iobind_pipeline_next(pipeline, i >= SLOW || i % 3 == 0 ? 0 : SHORT_NS, &output, 1, &item, &fault);
    }
    assert_int_equal(status, IOBIND_OK);
    assert_int_equal(item.index, i);
    fixture_expect_floats(output, i % 2 == 0 ? twos : (const float[COUNT]){4, 4, 4, 4}, COUNT);
  }
  submit(pipeline, ones);
  iobind_pipeline_destroy(pipeline);
}

#define ON(device, test) \
  { #device ": " #test, test, start, stop, #device }
#define ON_EACH(test) ON(vdev, test), ON(cpu, test), ON(webgpu, test), ON(cuda, test)

static const struct CMUnitTest tests[] = {
    ON_EACH(of_an_event), ON_EACH(of_several_threads), ON_EACH(of_what_is_destroyed),
    ON_EACH(refuses),     ON(cpu, of_an_item),         ON_EACH(of_items_that_are_asked_for_again),
};

FIXTURE_MAIN_OF_DEVICES(tests);
