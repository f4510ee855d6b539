/* Captures that fail, at whatever point, and graphs that are given up: the state is what it was, and ORT keeps no graph that iobind does not
 * know of. And outputs that the caller keeps: no replay writes them. */
#include "binding/binding.h"
#include "session/session.h"

#include "graph_rig.h" /* its globals have the names of parameters there */
#include "../rig/calls.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { N = 48, TWICE = 2 * N };

/* A capture that fails leaves the state, and its number is never used again. */
static void failed_capture(void **state) {
  (void)state;
  iobind_session *session = make_session("scale", 1);
  iobind_tensor *x = make_filled(N, 1);
  iobind_binding *binding = make_binding(session, x, NULL);
  expect_ok(iobind_binding_carry(binding, 0, 0, IOBIND_CARRY_IN_PLACE, &fault));
  if (!set_device("fail_compute", "3")) {
    iobind_binding_destroy(binding);
    iobind_tensor_release(x);
    iobind_session_destroy(session);
    skip();
  }
  expect(IOBIND_ERROR_RUNTIME, iobind_binding_run(binding, NULL, &fault));
  for (int turn = 1; turn <= 3; turn++) {
    expect_ok(iobind_binding_run(binding, NULL, &fault));
    expect_output(binding, N, (float)(1 << turn));
  }
  iobind_binding_destroy(binding);
  iobind_tensor_release(x);
  iobind_session_destroy(session);
}

/* ORT's table: what is captured and released by a number, and a capture that fails at its end, when the model was executed three times. */
enum { MOST_GRAPHS = 32, NO_FAILURE = -1 };
static const OrtApi *real;
static OrtApi watched;
static uint32_t real_version;
static int runs_of[MOST_GRAPHS];
static int releases_of[MOST_GRAPHS];
static int last_graph;
static int captures_until_failure;
static int failed_graph;

static OrtStatus *ORT_CALL run_or_fail(OrtSession *session, const OrtRunOptions *options, const OrtIoBinding *binding) {
  const char *text = options == NULL ? NULL : real->GetRunConfigEntry(options, IOBIND__GRAPH_ID);
  int number = text == NULL ? -1 : atoi(text);
  bool fails = number > last_graph && --captures_until_failure == 0;
  last_graph = number > last_graph ? number : last_graph;
  if (number >= 0 && number < MOST_GRAPHS) {
    runs_of[number]++;
  }
  OrtStatus *status = real->RunWithBinding(session, options, binding);
  if (fails && status == NULL) {
    failed_graph = number;
    status = real->CreateStatus(ORT_FAIL, "the capture has failed");
  }
  return status;
}

static OrtStatus *ORT_CALL release(OrtSession *session, int number) {
  if (number >= 0 && number < MOST_GRAPHS) {
    releases_of[number]++;
  }
  return real->SessionReleaseCapturedGraph(session, number);
}

static void start_watching(int failing, bool can_release) {
  enum { CANNOT = 26 };
  memset(runs_of, 0, sizeof runs_of);
  memset(releases_of, 0, sizeof releases_of);
  last_graph = 0;
  captures_until_failure = failing;
  failed_graph = -1;
  real = runtime->ort.api;
  real_version = runtime->ort.api_version;
  watched = *real;
  watched.RunWithBinding = run_or_fail;
  watched.SessionReleaseCapturedGraph = release;
  runtime->ort.api = &watched;
  runtime->ort.api_version = can_release ? real_version : CANNOT;
}

static void stop_watching(void) {
  runtime->ort.api = real;
  runtime->ort.api_version = real_version;
}

static bool can_release_graphs(void) {
  enum { SINCE = 27 };
  return runtime->ort.api_version >= SINCE;
}

/* Whichever capture fails, that of a trial or that of the binding: the state is what it was, and the number is never used again. False: the
 * first run has fewer captures. */
static bool fail_capture(int which) {
  iobind_session *session = make_session("scale", 1);
  iobind_tensor *x = make_filled(N, 1);
  iobind_binding *binding = make_binding(session, x, NULL);
  expect_ok(iobind_binding_carry(binding, 0, 0, IOBIND_CARRY_IN_PLACE, &fault));
  start_watching(which, can_release_graphs());
  fixture_arm();
  iobind_status status = iobind_binding_run(binding, NULL, &fault);
  int failed = failed_graph;
  if (failed >= 0) {
    fixture_expect(IOBIND_ERROR_RUNTIME, status, "run", __FILE__, __LINE__);
    expect_words("the capture has failed");
    expect_all(x, N, 1);
    for (int turn = 1; turn <= 3; turn++) {
      expect_ok(iobind_binding_run(binding, NULL, &fault));
      expect_output(binding, N, (float)(1 << turn));
    }
    assert_int_equal(runs_of[failed], 1);
    assert_int_equal(releases_of[failed], can_release_graphs());
  }
  stop_watching();
  iobind_binding_destroy(binding);
  iobind_tensor_release(x);
  iobind_session_destroy(session);
  return failed >= 0;
}

static void capture_fails_at_its_end(void **state) {
  (void)state;
  int captures = 0;
  while (fail_capture(captures + 1)) {
    captures++;
  }
  assert_int_equal(captures, is_device("webgpu") ? 2 : 1); /* a trial captures, too */
}

/* Each graph is released once: when it is given up, when what it writes is taken, and with its binding. With an ORT that cannot, or an EP
 * that does not, the session counts them. */
static void give_up_graphs(bool can_release) {
  iobind_session *session = make_session("scale", 2);
  iobind_tensor *xs[2] = {make_filled(N, 1), make_filled(TWICE, 2)};
  iobind_binding *binding = make_binding(session, xs[0], NULL);
  iobind_tensor *taken = NULL;
  size_t count = 0;
  start_watching(NO_FAILURE, can_release);
  for (int turn = 0; turn < 6; turn++) {
    bind_x(binding, xs[turn % 2]);
    expect_ok(iobind_binding_run(binding, NULL, &fault));
    if (turn == 1) {
      expect_ok(iobind_binding_take_output(binding, 0, &taken, &fault));
    } else if (turn == 3) {
      expect_ok(iobind_binding_reset_graphs(binding, &fault));
    }
  }
  iobind_binding_destroy(binding);
  stop_watching();
  for (int i = 0; i < MOST_GRAPHS; i++) {
    assert_int_equal(releases_of[i], can_release && runs_of[i] > 0);
    count += runs_of[i] > 0;
  }
  assert_true(count >= 5);
  assert_int_equal(iobind__registry_count(&session->graphs, IOBIND__GRAPH_KEPT),
                   can_release && !iobind__device_has(device, IOBIND__QUIRK_GRAPH_STAYS) ? 0 : count);
  iobind_tensor_release(taken);
  iobind_tensor_release(xs[0]);
  iobind_tensor_release(xs[1]);
  iobind_session_destroy(session);
}

static void graphs_are_released(void **state) {
  (void)state;
  if (can_release_graphs()) {
    give_up_graphs(true);
  }
  give_up_graphs(false);
}

/* CUDA's EP says that it has released a graph, and keeps it, whichever thread asks. If this fails with a newer ORT, GRAPH_STAYS
 * in src/ep/cuda.c ends with it. */
static void *forget_there(void *binding) {
  return iobind_binding_reset_graphs(binding, NULL) == IOBIND_OK ? binding : NULL;
}

static void graphs_stay_with_cuda(void **state) {
  (void)state;
  enum { GIVEN_UP = 3 };
  if (!is_device("cuda") || is_hardware()) {
    skip(); /* only vcuda counts what is alive */
  }
  const int64_t before = read_counter("live_graphs");
  iobind_session *session = make_session("scale", 1);
  iobind_tensor *x = make_filled(N, 1);
  iobind_tensor *taken = NULL;
  iobind_binding *binding = make_binding(session, x, NULL);
  pthread_t thread;
  void *good = NULL;
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  expect_ok(iobind_binding_reset_graphs(binding, &fault));
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  assert_int_equal(pthread_create(&thread, NULL, forget_there, binding), 0);
  assert_int_equal(pthread_join(thread, &good), 0);
  assert_non_null(good);
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  expect_ok(iobind_binding_take_output(binding, 0, &taken, &fault));
  assert_int_equal(read_counter("live_graphs") - before, GIVEN_UP);
  assert_int_equal(iobind__registry_count(&session->graphs, IOBIND__GRAPH_KEPT), GIVEN_UP);
  iobind_binding_destroy(binding);
  iobind_tensor_release(taken);
  iobind_tensor_release(x);
  iobind_session_destroy(session);
  assert_int_equal(read_counter("live_graphs"), before);
}

/* Graphs that ORT cannot release may not grow without a bound: after some, runs are plain ones. What is captured stays so. */
static void captures_no_more(void **state) {
  (void)state;
  enum { BINDINGS = 40, MOST = 32 };
  iobind_session *session = make_session("scale", 1);
  iobind_tensor *x = make_filled(N, 1);
  iobind_binding *lasting = make_binding(session, x, NULL);
  iobind_tensor *taken[BINDINGS];
  expect_ok(iobind__device_has(device, IOBIND__QUIRK_GRAPH_RECYCLES)
                ? IOBIND_OK
                : iobind_binding_run(lasting, NULL, &fault)); /* one graph at a time */
  start_watching(NO_FAILURE, false);
  for (int i = 0; i < BINDINGS; i++) {
    iobind_binding *binding = make_binding(session, x, NULL);
    for (int run = 0; run < 2; run++) {
      fill(x, (float)(i + run));
      expect_ok(iobind_binding_run(binding, NULL, &fault));
      expect_output(binding, N, 2 * (float)(i + run));
    }
    expect_ok(iobind_binding_take_output(binding, 0, &taken[i], &fault));
    expect_ok(iobind_binding_run(binding, NULL, &fault));
    iobind_binding_destroy(binding);
  }
  stop_watching();
  assert_int_equal(iobind__registry_count(&session->graphs, IOBIND__GRAPH_KEPT), MOST);
  (void)count_launched();
  fill(x, 100);
  expect_ok(iobind_binding_run(lasting, NULL, &fault));
  launched since = count_launched();
  assert_true(since.graphs == -1 || iobind__device_has(device, IOBIND__QUIRK_GRAPH_RECYCLES) ||
              (since.graphs == 1 && since.kernels == 0));
  expect_output(lasting, N, 200);
  for (int i = 0; i < BINDINGS; i++) {
    expect_all(taken[i], N, 2 * (float)(i + 1));
    iobind_tensor_release(taken[i]);
  }
  iobind_binding_destroy(lasting);
  iobind_tensor_release(x);
  iobind_session_destroy(session);
}

/* Where a session can have one graph, a pipeline captures none: each slot would need one. */
static void slots_where_a_session_has_one_graph(void **state) {
  (void)state;
  enum { ITEMS = 9 };
  iobind_session *session = make_session("scale", 1);
  iobind_pipeline *pipeline = NULL;
  iobind_tensor *x = make_on_host(N, 0);
  const uint32_t quirks = device->quirks;
  device->quirks |= (uint32_t)IOBIND__QUIRK_GRAPH_RECYCLES;
  expect_ok(call_pipeline_create(session, NULL, &pipeline, &fault));
  for (int item = 0; item < ITEMS; item++) {
    iobind_tensor *y = NULL;
    fill(x, (float)item);
    expect_ok(call_pipeline_submit(pipeline, &x, 1, &fault));
    expect_ok(iobind_pipeline_next(pipeline, IOBIND_NO_TIMEOUT, &y, 1, NULL, &fault));
    expect_all(y, N, 2 * (float)item);
  }
  assert_int_equal(iobind__registry_count(&session->graphs, IOBIND__GRAPH_WHOLE), 0);
  iobind_pipeline_destroy(pipeline);
  device->quirks = quirks;
  iobind_tensor_release(x);
  iobind_session_destroy(session);
}

/* A run that is cancelled while it is on its way to a capture. What it has submitted is waited for by one more run, which must not be
 * refused because of the cancel, before the state is put back. */
static iobind_binding *cancelled;
static int runs;
static bool has_waited;

static OrtStatus *ORT_CALL run_cancelled(OrtSession *session, const OrtRunOptions *options, const OrtIoBinding *binding) {
  runs++;
  if (runs == 1) {
    (void)!iobind_binding_cancel(cancelled, NULL);
  }
  (void)count_launched();
  OrtStatus *status = real->RunWithBinding(session, options, binding);
  if (runs == 2) {
    has_waited = status == NULL && count_launched().kernels != 0;
  }
  return status;
}

static void cancelled_before_a_capture(void **state) {
  (void)state;
  iobind_session *session = make_session("scale", 1);
  iobind_tensor *x = make_filled(N, 1);
  cancelled = make_binding(session, x, NULL);
  expect_ok(iobind_binding_carry(cancelled, 0, 0, IOBIND_CARRY_IN_PLACE, &fault));
  start_watching(NO_FAILURE, can_release_graphs());
  watched.RunWithBinding = run_cancelled;
  runs = 0;
  has_waited = false;
  iobind_status status = iobind_binding_run(cancelled, NULL, NULL);
  stop_watching();
  expect_all(x, N, 1);
  if (!is_device("webgpu")) { /* there a trial comes first, whose runs are of another binding */
    assert_int_equal(status, IOBIND_ERROR_CANCELLED);
    assert_true(has_waited);
    for (int turn = 1; turn <= 3; turn++) {
      expect_ok(iobind_binding_run(cancelled, NULL, &fault));
      expect_output(cancelled, N, (float)(1 << turn));
    }
  }
  iobind_binding_destroy(cancelled);
  iobind_tensor_release(x);
  iobind_session_destroy(session);
}

/* A call that is not iobind's breaks a capture (errors 900 and 901 of CUDA's): it is tried once more, and the state moves on once. If that
 * breaks, too, it is an error, and the state is what it was. */
static void break_captures(const char *once, const char *always, const char *words) {
  iobind_session *session = make_session("scale", 1);
  iobind_tensor *x = make_filled(N, 1);
  iobind_binding *binding = make_binding(session, x, NULL);
  expect_ok(iobind_binding_carry(binding, 0, 0, IOBIND_CARRY_IN_PLACE, &fault));
  assert_true(set_device("fail_capture", once));
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  expect_output(binding, N, 2);
  (void)count_launched();
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  assert_int_equal(count_launched().graphs, 1);
  expect_output(binding, N, 4);
  expect_ok(iobind_binding_reset_graphs(binding, &fault));
  assert_true(set_device("fail_capture", always));
  const size_t kept = iobind__registry_count(&session->graphs, IOBIND__GRAPH_KEPT);
  expect(IOBIND_ERROR_RUNTIME, iobind_binding_run(binding, NULL, &fault));
  expect_words(words);
  assert_int_equal(iobind__registry_count(&session->graphs, IOBIND__GRAPH_KEPT), kept); /* there was none */
  assert_true(set_device("fail_capture", "0"));
  expect_all(x, N, 4);
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  expect_output(binding, N, 8);
  iobind_binding_destroy(binding);
  iobind_tensor_release(x);
  iobind_session_destroy(session);
}

static void broken_capture(void **state) {
  (void)state;
  if (is_hardware()) {
    skip();
  }
  if (is_device("cuda")) {
    break_captures("1", "every:1", "901");
    break_captures("1,name:cudaStreamEndCapture", "every:1,name:cudaStreamEndCapture", "900");
  } else if (is_device("vdev")) {
    break_captures("1", "every:1", "another thread's call came into it");
  } else {
    skip(); /* WebGPU captures what its own thread submits: no other thread's call can come in */
  }
}

/* An output that a caller keeps: the slot's graph, which writes it, is given up, and the next item captures one that writes other memory. */
static void outputs_of_a_pipeline_that_are_kept(void **state) {
  (void)state;
  enum { ITEMS = 4 };
  static const int32_t placements[] = {IOBIND_PLACE_DEVICE};
  iobind_session *session = make_session("scale", 1);
  iobind_pipeline_options options = IOBIND_PIPELINE_OPTIONS_INIT;
  iobind_pipeline *pipeline = NULL;
  iobind_tensor *x = make_on_host(N, 0);
  iobind_tensor *kept[ITEMS];
  options.slots = 1;
  options.placements = placements;
  expect_ok(call_pipeline_create(session, &options, &pipeline, &fault));
  for (int item = 0; item < ITEMS; item++) {
    fill(x, (float)item);
    expect_ok(call_pipeline_submit(pipeline, &x, 1, &fault));
    expect_ok(iobind_pipeline_next(pipeline, IOBIND_NO_TIMEOUT, &kept[item], 1, NULL, &fault));
    iobind_tensor_retain(kept[item]);
  }
  for (int item = 0; item < ITEMS; item++) {
    expect_all(kept[item], N, 2 * (float)item);
    iobind_tensor_release(kept[item]);
  }
  iobind_pipeline_destroy(pipeline);
  iobind_tensor_release(x);
  iobind_session_destroy(session);
}

/* The outputs go to `placement`, or into `targets`. Returns how many bytes iobind copies within the device's memory. */
static uint64_t request(iobind_session *session, iobind_tensor *const inputs[2], int32_t placement,
                        iobind_tensor *const targets[2], iobind_tensor *outputs[2]) {
  const int32_t placements[2] = {placement, placement};
  iobind_run_request all = IOBIND_RUN_REQUEST_INIT;
  iobind_device_counters before = IOBIND_DEVICE_COUNTERS_INIT;
  iobind_device_counters after = IOBIND_DEVICE_COUNTERS_INIT;
  all.inputs = inputs;
  all.placements = placements;
  all.targets = targets;
  expect_ok(iobind_device_get_counters(device, &before, &fault));
  expect_ok(call_session_request(session, &all, outputs, &fault));
  expect_ok(iobind_device_get_counters(device, &after, &fault));
  return after.local_bytes - before.local_bytes;
}

/* ONNX Runtime makes outputs of a plain run in scratch memory of a captured graph, which is free between replays. What stays there is copied,
 * and nothing else. */
static void outputs_of_a_request(void **state) {
  (void)state;
  enum { ON_DEVICE, ON_HOST, GIVEN, REQUESTS };
  iobind_session *session = make_session("pair", 1);
  iobind_tensor *bound[2] = {make_filled(N, 2), make_filled(N, 5)};
  iobind_tensor *inputs[2] = {make_filled(N, 100), make_filled(N, 300)};
  iobind_tensor *targets[2] = {make_filled(N, -1), make_filled(N, -1)};
  iobind_tensor *outputs[REQUESTS][2];
  iobind_binding *binding = make_binding(session, bound[0], NULL);
  expect_ok(iobind_binding_set_input(binding, 1, IOBIND_INPUT_RESIDENT, bound[1], NULL, &fault));
  expect_ok(iobind_binding_place_output(binding, 1, IOBIND_OUTPUT_NONE, NULL, IOBIND_MEMORY_DEFAULT, &fault));
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  uint64_t both = TWICE * sizeof(float);
  assert_int_equal(request(session, inputs, IOBIND_PLACE_DEVICE, NULL, outputs[ON_DEVICE]), both);
  assert_int_equal(request(session, inputs, IOBIND_PLACE_HOST, NULL, outputs[ON_HOST]), 0);
  assert_int_equal(request(session, inputs, IOBIND_PLACE_DEVICE, targets, outputs[GIVEN]), 0);
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  expect_output(binding, N, 7);
  for (int which = 0; which < REQUESTS; which++) {
    expect_all(outputs[which][0], N, 400);
    expect_all(outputs[which][1], N, 30000);
    iobind_tensor_release(outputs[which][0]);
    iobind_tensor_release(outputs[which][1]);
  }
  iobind_binding_destroy(binding);
  for (int i = 0; i < 2; i++) {
    iobind_tensor_release(targets[i]);
    iobind_tensor_release(inputs[i]);
    iobind_tensor_release(bound[i]);
  }
  iobind_session_destroy(session);
}

/* Runs of a binding without a graph, between those that replay one: they take any shape, also beyond graph_limit, and the graph is still
 * right afterwards. */
static void without_a_graph(void **state) {
  (void)state;
  static const char *const key = "gpu_graph_id";
  static const char *const none = "-1";
  iobind_session *session = make_session("scale", 1);
  iobind_tensor *xs[2] = {make_filled(N, 0), make_filled(TWICE, 0)};
  iobind_binding *binding = make_binding(session, xs[0], NULL);
  iobind_run_options plain = IOBIND_RUN_OPTIONS_INIT;
  plain.config_keys = &key;
  plain.config_values = &none;
  plain.config_count = 1;
  for (int turn = 0; turn < 12; turn++) {
    bool replays = turn / 2 % 2 == 0; /* two runs each: the second one may be offered to the next */
    bind_x(binding, xs[replays ? 0 : turn % 2]);
    fill(xs[replays ? 0 : turn % 2], (float)turn);
    expect_ok(iobind_binding_set_run_options(binding, replays ? NULL : &plain, &fault));
    iobind_status status = iobind_binding_run(binding, NULL, &fault);
    if (!replays && status == IOBIND_ERROR_INVALID_STATE && runtime->ort.api_version < 31) {
      expect_words("expected ORT 1.31"); /* where any other run would change what a graph reads */
      continue;
    }
    expect_ok(status);
    launched since = count_launched();
    assert_true(since.graphs == -1 || turn == 0 || since.graphs == (replays ? 1 : 0));
    expect_output(binding, replays || turn % 2 == 0 ? N : TWICE, 2 * (float)turn);
  }
  assert_int_equal(iobind__graphs_count(binding), 1);
  iobind_binding_destroy(binding);
  iobind_tensor_release(xs[0]);
  iobind_tensor_release(xs[1]);
  iobind_session_destroy(session);
}

int main(int argc, char **argv) {
  static const struct CMUnitTest tests[] = {cmocka_unit_test(failed_capture),
                                            cmocka_unit_test(capture_fails_at_its_end),
                                            cmocka_unit_test(cancelled_before_a_capture),
                                            cmocka_unit_test(broken_capture),
                                            cmocka_unit_test(graphs_are_released),
                                            cmocka_unit_test(graphs_stay_with_cuda),
                                            cmocka_unit_test(captures_no_more),
                                            cmocka_unit_test(slots_where_a_session_has_one_graph),
                                            cmocka_unit_test(outputs_of_a_pipeline_that_are_kept),
                                            cmocka_unit_test(outputs_of_a_request),
                                            cmocka_unit_test(without_a_graph)};
  return graph_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
