/* Replays on streams that fail, and objects that are destroyed while replays are queued, also beside other threads. Run with race=fail. */
#define _POSIX_C_SOURCE 200809L /* nanosleep */
#include "replay.h"
#include "../rig/calls.h"

/* ---- failures ---- */

/* A replay that fails on the device is reported by the event, the output and the stream: the device is lost. A replay that cannot be
 * launched fails alone, and the next one works. */
static void a_replay_that_fails(void **state) {
  (void)state;
  gate g;
  NEEDS_STREAMS();
  iobind_session *session = make_session("scale", 1, NULL);
  iobind_stream *stream = make_stream();
  iobind_event *event = make_event();
  iobind_tensor *y = NULL;
  doubler d = make_captured(session);
  assert_int_equal(vcuda_set(0, "fail_graph", "1,late"), 0);
  close_gate(&g, stream); /* otherwise the device may fail within the call, which would return the failure */
  expect_ok(call_binding_run(d.binding, stream, event, &fault));
  open_gate(&g);
  expect(IOBIND_ERROR_DEVICE_LOST, iobind_event_wait(event, IOBIND_NO_TIMEOUT, &fault));
  expect(IOBIND_ERROR_DEVICE_LOST, iobind_binding_get_output(d.binding, 0, NULL, &y, &fault));
  expect(IOBIND_ERROR_DEVICE_LOST, iobind_stream_synchronize(stream, &fault));
  free_doubler(&d);
  iobind_event_destroy(event);
  iobind_stream_destroy(stream);
  iobind_session_destroy(session);
  iobind_runtime_destroy(runtime);
  (void)vcuda_recover(0);
  (void)cudaGetLastError();
  assert_int_equal(start(NULL), 0); /* as in a new process */

  session = make_session("scale", 1, NULL);
  stream = make_stream();
  event = make_event();
  d = make_captured(session);
  assert_int_equal(vcuda_set(0, "fail_graph", "1"), 0); /* the launch fails */
  assert_int_not_equal(call_binding_run(d.binding, stream, event, &fault), IOBIND_OK);
  fill(d.x, 5);
  expect_ok(call_binding_run(d.binding, stream, event, &fault));
  expect_ok(iobind_event_wait(event, IOBIND_NO_TIMEOUT, &fault));
  expect_tensor(d.y, 10);
  free_doubler(&d);
  iobind_event_destroy(event);
  iobind_stream_destroy(stream);
  iobind_session_destroy(session);
}

/* A capture that fails, or is broken by another call, keeps the state. Its end is still ordered with the stream of its run. */
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
  assert_int_equal(iobind_binding_run(binding, stream, &fault), IOBIND_ERROR_RUNTIME);
  expect_ok(iobind_stream_synchronize(stream, &fault));
  expect_tensor(x, 3);
  assert_int_equal(vcuda_set(0, "fail_capture", "1"), 0); /* error 901: tried once more */
  expect_ok(iobind_binding_run(binding, stream, &fault));
  expect_ok(iobind_binding_run(binding, stream, &fault));
  expect_ok(iobind_stream_synchronize(stream, &fault));
  expect_tensor(x, 12);
  delay("0", "0");
  iobind_binding_destroy(binding);
  free_items(&in);
  iobind_tensor_release(x);
  iobind_stream_destroy(stream);
  iobind_session_destroy(session);
}

/* Runs of a swapped state, of which the first two capture. The n-th operation fails once. The failure is returned to the caller.
 * Afterwards the state is that of the successful runs, or it is refused. */
static void a_swapped_state_never_goes_wrong(void **state) {
  (void)state;
  enum { RUNS = 4, MOST = 40 };
  static const char *const sites[] = {"fail_copy", "fail_compute", "fail_graph", "fail_event", "fail_alloc"};
  NEEDS_STREAMS();
  NEEDS_SEVERAL_GRAPHS();
  for (size_t way = 0; way < 2 * (sizeof sites / sizeof sites[0]); way++) {
    const size_t site = way / 2;
    bool has_failed = true;
    int last = 0;
    for (int n = 1; n <= MOST && has_failed; n++) {
      char text[16];
      iobind_stream *stream = make_stream();
      iobind_session *session = make_session("scale", 2, way % 2 == 0 ? NULL : stream);
      iobind_tensor *x = make_tensor(IOBIND_MEMORY_DEFAULT, COUNT);
      iobind_tensor *y = NULL;
      iobind_binding *binding;
      float expected = 1;
      bool is_known = true;
      fill(x, 1);
      expect_ok(iobind_binding_create(session, &binding, &fault));
      expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
      expect_ok(iobind_binding_carry(binding, 0, 0, IOBIND_CARRY_SWAP, &fault));
      snprintf(text, sizeof text, "%d", n);
      assert_int_equal(vcuda_set(0, sites[site], text), 0);
      has_failed = false;
      last = n;
      for (int run = 0; run < RUNS; run++) {
        const bool waits = run % 2 == 0;
        iobind_status status = iobind_binding_run(binding, waits ? NULL : stream, NULL);
        iobind_status passed = waits || status != IOBIND_OK ? status : iobind_stream_synchronize(stream, NULL);
        is_known = is_known && (status != IOBIND_OK || passed == IOBIND_OK); /* unknown if only the wait failed */
        has_failed = has_failed || passed != IOBIND_OK;
        expected *= status == IOBIND_OK ? 2 : 1;
      }
      assert_int_equal(vcuda_set(0, sites[site], "0"), 0);
      assert_int_equal(cudaPeekAtLastError(), CUDA_OK);
      if (is_known && iobind_binding_run(binding, NULL, NULL) == IOBIND_OK) {
        float read[COUNT] = {0};
        expect_ok(iobind_binding_get_output(binding, 0, NULL, &y, &fault));
        expect_ok(iobind_tensor_read(y, 0, read, sizeof read, NULL, &fault));
        if (read[0] != 2 * expected) {
          fail_msg("%s=%d: expected %g, got %g", sites[site], n, 2 * (double)expected, (double)read[0]);
        }
      }
      iobind_binding_destroy(binding);
      iobind_tensor_release(x);
      iobind_stream_destroy(stream);
      iobind_session_destroy(session);
    }
    assert_false(has_failed); /* each operation has failed once */
    assert_true(last > 1);
  }
}

/* ---- refused calls and destroyed objects while replays are queued ---- */

static void graphs_stay_while_replays_are_queued(void **state) {
  (void)state;
  NEEDS_STREAMS();
  gate g;
  iobind_session *session = make_session("scale", 1, NULL);
  iobind_stream *stream = make_stream();
  iobind_tensor *y = NULL;
  doubler d = make_captured(session);
  close_gate(&g, stream);
  expect_ok(iobind_binding_run(d.binding, stream, &fault));
  expect(IOBIND_ERROR_INVALID_STATE, iobind_binding_reset_graphs(d.binding, &fault));
  expect_words("in flight");
  expect(IOBIND_ERROR_INVALID_STATE, iobind_binding_set_run_options(d.binding, NULL, &fault));
  expect(IOBIND_ERROR_INVALID_STATE, iobind_binding_set_input(d.binding, 0, IOBIND_INPUT_RESIDENT, d.y, NULL, &fault));
  expect(IOBIND_ERROR_INVALID_STATE, iobind_binding_run(d.binding, NULL, &fault));
  expect_ok(iobind_binding_cancel(d.binding, &fault)); /* too late to have an effect */
  open_gate(&g);
  expect_ok(iobind_binding_get_output(d.binding, 0, NULL, &y, &fault));
  expect_tensor(y, 2);
  expect_ok(iobind_binding_set_run_options(d.binding, NULL, &fault));
  expect_ok(iobind_binding_run(d.binding, stream, &fault)); /* with renewed run options */
  expect_ok(iobind_stream_synchronize(stream, &fault));
  expect_ok(iobind_binding_reset_graphs(d.binding, &fault));
  fill(d.x, 3);
  expect_ok(iobind_binding_run(d.binding, stream, &fault));
  expect_ok(iobind_stream_synchronize(stream, &fault));
  expect_tensor(d.y, 6);
  free_doubler(&d);
  iobind_stream_destroy(stream);
  iobind_session_destroy(session);
}

/* The owner destroys binding, tensors and session before the device has executed the replays. */
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
    expect_ok(iobind_binding_run(d.binding, stream, &fault));
    expect_ok(iobind_binding_run(d.binding, stream, &fault));
    expect_ok(iobind_tensor_read(d.y, 0, read, sizeof read, stream, &fault));
    free_doubler(&d);
    iobind_session_destroy(session);
    open_gate(&g);
    expect_ok(iobind_stream_synchronize(stream, &fault));
    expect_all(read, 2);
    iobind_stream_destroy(stream);
  }
  expect_ok(iobind_device_trim(device, &fault)); /* a pool returns memory on its own stream; the trim waits for it */
  assert_int_equal(vcuda_get(0, "live_blocks"), blocks);
}

static void expect_graphs(const iobind_session *session, size_t whole, size_t dead) {
  assert_int_equal(iobind__registry_count(&session->graphs, IOBIND__GRAPH_WHOLE), whole);
  assert_int_equal(iobind__registry_count(&session->graphs, IOBIND__GRAPH_DEAD), dead);
}

/* The thread that finds a destroyed binding's run complete may be in a run of the same session itself, and hold the session's turn.
 * Then the graph is released later. */
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
  expect_ok(iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, &one, 1, &x, &fault));
  const float value = 3;
  expect_ok(iobind_tensor_write(x, 0, &value, sizeof value, NULL, &fault));
  for (size_t i = 0; i < 2; i++) {
    expect_ok(iobind_tensor_create(device, IOBIND_MEMORY_HOST_ACCESSIBLE, IOBIND_DTYPE_INT64, &two, 1, &shapes[i], &fault));
    expect_ok(iobind_tensor_map(shapes[i], IOBIND_DTYPE_INT64, IOBIND_ACCESS_WRITE, (void **)&wanted[i], &fault));
    wanted[i][0] = wanted[i][1] = 2;
    expect_ok(iobind_binding_create(session, &bindings[i], &fault));
    expect_ok(iobind_binding_set_input(bindings[i], 0, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
    expect_ok(iobind_binding_set_input(bindings[i], 1, IOBIND_INPUT_RESIDENT, shapes[i], NULL, &fault));
  }
  expect_ok(iobind_binding_run(bindings[0], stream, &fault));
  if (iobind__session_graphs_have(session, IOBIND__QUIRK_GRAPH_RECYCLES)) { /* a session has one graph */
    expect(IOBIND_ERROR_INVALID_STATE, iobind_binding_run(bindings[1], stream, &fault));
    iobind_binding_destroy(bindings[0]);
    expect_ok(iobind_stream_synchronize(stream, &fault));
    expect_ok(iobind_binding_run(bindings[1], stream, &fault));
  } else {
    expect_ok(iobind_binding_run(bindings[1], stream, &fault));
    expect_ok(iobind_binding_run(bindings[0], stream, &fault));
    iobind_binding_destroy(bindings[0]);
    expect_graphs(session, 2, 0);   /* the run in flight has it */
    iobind__session_enter(session); /* like a capture that waits for the stream */
    expect_ok(iobind_stream_synchronize(stream, &fault));
    iobind__session_leave(session);
    expect_graphs(session, 1, 1); /* ORT releases it at the next capture, or with the session */
    wanted[1][0] = 4;
    expect_ok(iobind_binding_run(bindings[1], stream, &fault));
    expect_graphs(session, 2, 0);
  }
  iobind_tensor *y = NULL;
  float read[8] = {0};
  expect_ok(iobind_binding_get_output(bindings[1], 0, NULL, &y, &fault));
  expect_ok(iobind_tensor_read(
      y, 0, read, iobind__session_graphs_have(session, IOBIND__QUIRK_GRAPH_RECYCLES) ? sizeof read / 2 : sizeof read, NULL,
      &fault));
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
  iobind_stream *shared; /* the session's stream */
  int number;
  iobind_error fault; /* only the joining thread can fail the test */
  char wrong[80];     /* description of a wrong result */
} worker;

/* One turn: write, run and read, on a stream or without. */
static bool make_turn(worker *self, iobind_binding *binding, iobind_tensor *x, iobind_tensor *y, iobind_stream *stream,
                      int turn) {
  const float value = (float)(100 * self->number + turn);
  const float values[COUNT] = {value, value, value, value};
  float read[COUNT] = {0};
  bool good = iobind_tensor_write(x, 0, values, sizeof values, stream, &self->fault) == IOBIND_OK &&
              iobind_binding_run(binding, stream, &self->fault) == IOBIND_OK &&
              iobind_tensor_read(y, 0, read, sizeof read, stream, &self->fault) == IOBIND_OK &&
              (stream == NULL || iobind_stream_synchronize(stream, &self->fault) == IOBIND_OK);
  for (int i = 0; i < COUNT && good; i++) {
    good = read[i] == 2 * value;
    if (!good) {
      snprintf(self->wrong, sizeof self->wrong, "worker %d, turn %d: element %d: expected %g, got %g", self->number, turn, i,
               2 * (double)value, (double)read[i]);
    }
  }
  return good;
}

static void *work(void *context) {
  enum { TURNS = 12 };
  worker *self = context;
  const int64_t dim = COUNT;
  iobind_stream *own = NULL;
  iobind_tensor *x = NULL;
  iobind_tensor *y = NULL;
  iobind_binding *binding = NULL;
  iobind_error *error = &self->fault;
  bool good = iobind_stream_create(device, NULL, &own, error) == IOBIND_OK &&
              iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, &dim, 1, &x, error) == IOBIND_OK &&
              iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, &dim, 1, &y, error) == IOBIND_OK &&
              iobind_binding_create(self->session, &binding, error) == IOBIND_OK &&
              iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, x, NULL, error) == IOBIND_OK &&
              iobind_binding_set_output(binding, 0, y, 0, error) == IOBIND_OK;
  for (int turn = 0; turn < TURNS && good; turn++) {
    good = make_turn(self, binding, x, y, turn % 3 == 2 ? NULL : own, turn);
    if (turn == TURNS / 2) { /* captures again, while other threads replay */
      good = good && iobind_binding_reset_graphs(binding, error) == IOBIND_OK;
    }
  }
  iobind_binding_destroy(binding);
  iobind_tensor_release(x);
  iobind_tensor_release(y);
  iobind_stream_destroy(own);
  return (void *)(intptr_t)good;
}

/* Another thread copies on the stream on which sessions compute and capture. A capture excludes these copies. */
static void *copy_beside(void *context) {
  worker *self = context;
  const int64_t dim = COUNT;
  iobind_tensor *a = NULL;
  iobind_tensor *b = NULL;
  iobind_event *event = NULL;
  iobind_error *error = &self->fault;
  bool good = iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, &dim, 1, &a, error) == IOBIND_OK &&
              iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, &dim, 1, &b, error) == IOBIND_OK &&
              iobind_event_create(device, &event, error) == IOBIND_OK;
  for (int turn = 0; turn < 100 && good; turn++) {
    const float values[COUNT] = {(float)turn, (float)turn, (float)turn, (float)turn};
    float read[COUNT] = {0};
    const iobind_tensor *from = a;
    good = iobind_tensor_write(a, 0, values, sizeof values, self->shared, error) == IOBIND_OK &&
           iobind_tensor_copy(&from, &b, 1, self->shared, error) == IOBIND_OK &&
           iobind_event_record(event, self->shared, error) == IOBIND_OK &&
           iobind_tensor_read(b, 0, read, sizeof read, self->shared, error) == IOBIND_OK &&
           iobind_stream_synchronize(self->shared, error) == IOBIND_OK;
    if (good && read[COUNT - 1] != (float)turn) {
      good = false;
      snprintf(self->wrong, sizeof self->wrong, "copy %d: got %g", turn, (double)read[COUNT - 1]);
    }
  }
  iobind_event_destroy(event);
  iobind_tensor_release(a);
  iobind_tensor_release(b);
  return (void *)(intptr_t)good;
}

/* Captures and replays, on streams and without, beside copies on the session's stream, which may belong to another library. */
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
    bool one_graph = iobind__session_graphs_have(session, IOBIND__QUIRK_GRAPH_RECYCLES);
    size_t count = one_graph ? 1 : WORKERS;
    for (size_t i = 0; i < count + 1; i++) {
      workers[i] = (worker){.session = session, .shared = shared, .number = (int)i, .fault = IOBIND_ERROR_INIT};
      assert_int_equal(pthread_create(&threads[i], NULL, i < count ? work : copy_beside, &workers[i]), 0);
    }
    for (size_t i = 0; i < count + 1; i++) {
      void *good = NULL;
      assert_int_equal(pthread_join(threads[i], &good), 0);
      if (good == NULL) {
        fail_msg("%s stream: %s%s", is_wrapped ? "a wrapped" : "an own", workers[i].fault.message, workers[i].wrong);
      }
    }
    iobind_session_destroy(session);
    iobind_stream_destroy(shared);
    assert_int_equal(cudaStreamDestroy(theirs), CUDA_OK);
  }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_replay_that_fails),
    cmocka_unit_test(a_capture_that_fails),
    cmocka_unit_test(a_swapped_state_never_goes_wrong),
    cmocka_unit_test(graphs_stay_while_replays_are_queued),
    cmocka_unit_test(destroyed_while_replays_are_queued),
    cmocka_unit_test(released_within_a_run),
    cmocka_unit_test(threads_beside_captures),
};

FIXTURE_MAIN(tests, start, stop);
