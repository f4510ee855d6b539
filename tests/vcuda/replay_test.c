/* Runs of captured graphs on streams with the CUDA EP. Replays are launched on the session's stream, and ordered with the caller's
 * stream by events. Run with race=fail: a missing order fails the run. */
#define _POSIX_C_SOURCE 200809L /* nanosleep */
#include "replay.h"
#include "../rig/calls.h"

/* ---- one stream ---- */

/* Upload, replay and download of each item are queued, with delayed copies and kernels. No call blocks the host, neither a
 * synchronization nor a call that blocks as a side effect. */
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
  expect_ok(iobind_binding_run(d.binding, stream, &fault));
  expect_ok(iobind_stream_synchronize(stream, &fault));
  expect_tensor(d.y, 2);
  delay("every:1,us:300,random", "every:1,us:300,random");
  assert_int_equal(vcuda_reset(0), 0);
  for (size_t i = 0; i < STEADY; i++) {
    copy_on(stream, in.slices[i], d.x);
    expect_ok(iobind_binding_run(d.binding, stream, &fault));
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
  self->status = iobind_binding_run(self->binding, self->stream, &self->error);
  return NULL;
}

static void expect_done(const job *self) {
  if (self->status != IOBIND_OK) {
    fail_msg("%s", self->error.message);
  }
}

/* The caller's work queued before a run is complete before the capture saves the state, and before a replay reads it. */
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
  assert_int_equal(pthread_create(&thread, NULL, run_on, &first), 0); /* it captures, and so may block */
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
  expect_ok(iobind_binding_write_input(d.binding, 0, values, sizeof values, first.stream, &fault));
  expect_ok(iobind_binding_run(d.binding, first.stream, &fault));
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

/* The device waits for the input's event, not the host. */
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
  expect_ok(call_binding_run(d.binding, runs, free_again, &fault));
  expect_ok(iobind_stream_synchronize(runs, &fault));
  delay("every:1,us:300,random", "every:1,us:300,random");
  for (size_t i = 0; i < TURNS; i++) {
    if (i == 1) { /* the first event is signaled; its failure is queried by a call that would block otherwise */
      assert_int_equal(vcuda_reset(0), 0);
    }
    expect_ok(iobind_stream_wait(uploads, free_again, &fault));
    copy_on(uploads, in.slices[i], d.x);
    expect_ok(iobind_event_record(ready, uploads, &fault));
    expect_ok(call_binding_run(d.binding, runs, free_again, &fault));
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

/* Each run doubles the state of the preceding one. */
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
      expect_ok(iobind_binding_run(binding, stream, &fault));
    }
    expect_ok(iobind_binding_get_output(binding, 0, NULL, &y, &fault));
    expect_tensor(y, 8);
    assert_int_equal(vcuda_reset(0), 0);
    for (int step = 0; step < STEADY; step++) {
      expect_ok(iobind_binding_run(binding, stream, &fault));
    }
    expect_replays(STEADY);
    expect_ok(iobind_binding_get_output(binding, 0, NULL, &y, &fault));
    expect_tensor(y, 8 * 4096);
    expect_ok(iobind_binding_write_input(binding, 0, again, sizeof again, stream, &fault)); /* a first state */
    expect_ok(iobind_binding_run(binding, stream, &fault));
    expect(IOBIND_ERROR_INVALID_STATE, iobind_binding_write_input(binding, 0, again, sizeof again, stream, &fault));
    expect(IOBIND_ERROR_INVALID_STATE, iobind_binding_run(binding, NULL, &fault));
    expect_ok(iobind_binding_get_output(binding, 0, NULL, &y, &fault));
    expect_tensor(y, 6);
    expect_ok(iobind_binding_run(binding, NULL, &fault)); /* a run without a stream continues from that state */
    expect_ok(iobind_binding_run(binding, NULL, &fault));
    expect_ok(iobind_binding_run(binding, stream, &fault));
    expect_ok(iobind_binding_get_output(binding, 0, NULL, &y, &fault));
    expect_tensor(y, 48);
    delay("0", "0");
    iobind_binding_destroy(binding);
    iobind_tensor_release(x);
    iobind_stream_destroy(stream);
    iobind_session_destroy(session);
  }
}

/* ---- several streams ---- */

/* Bindings of one session, each on its own stream. The runs take turns on the session's stream, and each is ordered with the work on
 * its own stream. */
static void two_streams(void **state) {
  (void)state;
  enum { RUNS = 32 };
  NEEDS_SEVERAL_GRAPHS();
  iobind_session *session = make_session("scale", 1, NULL);
  iobind_stream *streams[2] = {make_stream(), make_stream()};
  doubler doublers[2] = {make_captured(session), make_captured(session)};
  items in = make_items(RUNS);
  items out = make_items(RUNS);
  for (size_t i = 0; i < RUNS; i++) {
    put_item(&in, i, (float)i);
  }
  delay("every:1,us:300,random", "every:1,us:300,random");
  assert_int_equal(vcuda_reset(0), 0);
  for (size_t i = 0; i < RUNS; i++) {
    copy_on(streams[i % 2], in.slices[i], doublers[i % 2].x);
    expect_ok(iobind_binding_run(doublers[i % 2].binding, streams[i % 2], &fault));
    copy_on(streams[i % 2], doublers[i % 2].y, out.slices[i]);
  }
  expect_replays(RUNS);
  expect(IOBIND_ERROR_INVALID_STATE, iobind_binding_run(doublers[0].binding, streams[1], &fault));
  expect(IOBIND_ERROR_INVALID_STATE, iobind_binding_run(doublers[0].binding, NULL, &fault));
  for (size_t i = 0; i < 2; i++) {
    expect_ok(iobind_stream_synchronize(streams[i], &fault));
  }
  delay("0", "0");
  for (size_t i = 0; i < RUNS; i++) {
    expect_all(&out.data[i * COUNT], 2 * (float)i);
  }
  expect_ok(iobind_binding_run(doublers[0].binding, streams[1], &fault)); /* on any stream after it is complete */
  expect_ok(iobind_stream_synchronize(streams[1], &fault));
  for (size_t i = 0; i < 2; i++) {
    free_doubler(&doublers[i]);
    iobind_stream_destroy(streams[i]);
  }
  free_items(&in);
  free_items(&out);
  iobind_session_destroy(session);
}

/* A capture waits for all work queued on the session's stream, also for runs on other streams. */
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
  expect_ok(iobind_binding_write_input(queued.binding, 0, fives, sizeof fives, held, &fault));
  expect_ok(iobind_binding_run(queued.binding, held, &fault));
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

/* On another library's stream, with its copies before and after the replay. */
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
  expect_ok(iobind_binding_run(d.binding, stream, &fault));
  expect_ok(iobind_stream_synchronize(stream, &fault));
  delay("every:1,us:300,random", "every:1,us:300,random");
  assert_int_equal(vcuda_reset(0), 0);
  for (size_t i = 0; i < TURNS; i++) {
    put_item(&in, i, (float)i);
    assert_int_equal(cudaMemcpyAsync(iobind_tensor_get_address(d.x), &in.data[i * COUNT], COUNT * sizeof(float), UP, theirs),
                     CUDA_OK);
    expect_ok(iobind_binding_run(d.binding, stream, &fault));
    assert_int_equal(cudaMemcpyAsync(&out.data[i * COUNT], iobind_tensor_get_address(d.y), COUNT * sizeof(float), DOWN, theirs),
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
  expect_ok(iobind_binding_run(d.binding, own, &fault));
  expect_ok(iobind_stream_synchronize(own, &fault));
  delay("every:1,us:300,random", "every:1,us:300,random");
  assert_int_equal(vcuda_reset(0), 0);
  for (size_t i = 0; i < TURNS; i++) {
    copy_on(own, in.slices[i], d.x);
    expect_ok(iobind_binding_run(d.binding, own, &fault));
    copy_on(own, d.y, out.slices[i]);
  }
  expect_replays(TURNS);
  expect_ok(iobind_stream_synchronize(own, &fault));
  for (size_t i = 0; i < TURNS; i++) {
    expect_all(&out.data[i * COUNT], 2 * (float)i);
  }
  for (size_t i = 1; i < TURNS; i++) { /* a run without a stream is on it too, and so after the upload */
    copy_on(own, in.slices[i], d.x);
    expect_ok(iobind_binding_run(d.binding, NULL, &fault));
    expect_tensor(d.y, 2 * (float)i);
  }
  iobind_stream_destroy(own); /* the session retains it */
  copy_on(other, in.slices[3], d.x);
  expect_ok(iobind_binding_run(d.binding, other, &fault));
  expect_ok(iobind_stream_synchronize(other, &fault));
  expect_tensor(d.y, 6);
  delay("0", "0");
  free_doubler(&d);
  free_items(&in);
  free_items(&out);
  iobind_stream_destroy(other);
  iobind_session_destroy(session);
}

/* Each run without a stream is ordered after the work that the other library has submitted, also after a replay. */
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
    assert_int_equal(cudaMemcpyAsync(iobind_tensor_get_address(d.x), &in.data[i * COUNT], COUNT * sizeof(float), UP, theirs),
                     CUDA_OK);
    expect_ok(iobind_binding_run(d.binding, i % 4 == 3 ? stream : NULL, &fault));
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
  expect_ok(iobind_pipeline_next(pipeline, IOBIND_NO_TIMEOUT, &y, 1, NULL, &fault));
  expect_tensor(y, value);
}

/* Each slot is a binding with its own graph. While a replay is held back, further items are submitted. Only pulling an item blocks the
 * host. */
static void pipeline_of_replays(void **state) {
  (void)state;
  enum { ITEMS = 12 };
  const int slots = 3;
  NEEDS_STREAMS();
  NEEDS_SEVERAL_GRAPHS(); /* with only one graph a slot does not capture */
  gate g;
  iobind_pipeline *pipeline;
  iobind_pipeline_options options = IOBIND_PIPELINE_OPTIONS_INIT;
  iobind_session *session = make_session("scale", 1, NULL);
  iobind_tensor *item;
  const int64_t dim = COUNT;
  int pulled = 0;
  expect_ok(iobind_tensor_create(host, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, &dim, 1, &item, &fault));
  options.slots = (size_t)slots;
  expect_ok(call_pipeline_create(session, &options, &pipeline, &fault));
  fill(item, 1);
  for (int i = 0; i < slots; i++) { /* each slot captures */
    expect_ok(call_pipeline_submit(pipeline, &item, 1, &fault));
  }
  for (int i = 0; i < slots; i++) {
    pull(pipeline, 2);
  }
  assert_int_equal(vcuda_reset(0), 0);
  close_gate(&g, session->compute.stream);
  for (int i = 0; i < slots; i++) {
    fill(item, (float)i);
    expect_ok(call_pipeline_submit(pipeline, &item, 1, &fault));
  }
  expect_replays(slots);
  open_gate(&g);
  delay("every:1,us:300,random", "every:1,us:300,random");
  for (int i = slots; i < ITEMS; i++) {
    pull(pipeline, 2 * (float)pulled++);
    fill(item, (float)i);
    expect_ok(call_pipeline_submit(pipeline, &item, 1, &fault));
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

/* ---- older releases of ORT ---- */

static void older_runtimes_wait(void **state) {
  (void)state;
  iobind_session *session;
  iobind_stream *stream = make_stream();
  if (takes_streams()) {
    skip();
  }
  assert_int_equal(try_session("scale", 1, stream, &session), IOBIND_ERROR_INVALID_ARGUMENT);
  expect_words("ORT 1.27 or newer");
  session = make_session("scale", 1, NULL);
  assert_null(session->compute.stream);
  doubler d = make_doubler(session);
  for (int i = 1; i < 5; i++) {
    const float values[COUNT] = {(float)i, (float)i, (float)i, (float)i};
    expect_ok(iobind_tensor_write(d.x, 0, values, sizeof values, stream, &fault));
    expect_ok(iobind_binding_run(d.binding, stream, &fault));
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
    cmocka_unit_test(older_runtimes_wait),
};

FIXTURE_MAIN(tests, start, stop);
