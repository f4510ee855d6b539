/* Where a session's graphs are many: slots of a pipeline that meet more shapes than graph_limit, and bindings that come and go. */
#include "graph_rig.h"
#include "../rig/calls.h"

enum { N = 48, TWICE = 2 * N };

static void expect_graphs(const iobind_session *session, size_t captured, size_t kept) {
  iobind_session_info info = IOBIND_SESSION_INFO_INIT;
  expect_ok(iobind_session_get_info(session, &info, &fault));
  assert_int_equal(info.graph_count, captured);
  assert_int_equal(info.kept_graph_count, kept);
}

/* Does a graph stay that was given up? With CUDA's EP, and where ORT cannot release one. */
static bool keeps_graphs(void) {
  enum { SINCE = 27 };
  iobind_runtime_info info = IOBIND_RUNTIME_INFO_INIT;
  expect_ok(iobind_runtime_get_info(runtime, &info, &fault));
  return is_device("cuda") || info.ort_api_version < SINCE;
}

/* No caller can call iobind_binding_reset_graphs for a slot. */
static void slots_with_two_shapes(void **state) {
  (void)state;
  enum { ITEMS = 24, SLOTS = 3 };
  iobind_pipeline_options options = IOBIND_PIPELINE_OPTIONS_INIT;
  iobind_session *session = make_session("scale", 1);
  iobind_pipeline *pipeline = NULL;
  iobind_tensor *items[2] = {make_on_host(N, 0), make_on_host(TWICE, 0)};
  options.slots = SLOTS;
  expect_ok(call_pipeline_create(session, &options, &pipeline, &fault));
  for (int item = 0; item < ITEMS; item++) {
    iobind_tensor *y = NULL;
    int shape = item % 2;
    fill(items[shape], (float)item);
    expect_ok(call_pipeline_submit(pipeline, &items[shape], 1, &fault));
    expect_ok(iobind_pipeline_next(pipeline, IOBIND_NO_TIMEOUT, &y, 1, NULL, &fault));
    expect_all(y, shape == 0 ? N : TWICE, 2 * (float)item);
  }
  iobind_pipeline_destroy(pipeline);
  iobind_tensor_release(items[0]);
  iobind_tensor_release(items[1]);
  iobind_session_destroy(session);
}

/* A graph that was given up stays with CUDA's EP. A run may be refused when there are too many, but they may not grow without end. */
static void bindings_that_come_and_go(void **state) {
  (void)state;
  enum { BINDINGS = 100, MOST = 32 };
  if (!is_device("cuda") || is_hardware()) {
    skip(); /* only vcuda counts what is alive */
  }
  const int64_t before = read_counter("live_graphs");
  iobind_session *session = make_session("scale", 1);
  iobind_tensor *x = make_filled(N, 3);
  iobind_tensor *y = make_filled(N, 0);
  for (int i = 0; i < BINDINGS; i++) {
    iobind_binding *binding = make_binding(session, x, y);
    fixture_arm();
    iobind_status status = iobind_binding_run(binding, NULL, &fault);
    if (status == IOBIND_OK) {
      expect_output(binding, N, 6);
    } else {
      assert_int_equal(status, IOBIND_ERROR_INVALID_STATE);
    }
    iobind_binding_destroy(binding);
  }
  const int64_t now = read_counter("live_graphs") - before;
  if (now > MOST) {
    fail_msg("expected at most %d graphs of destroyed bindings, got %d", MOST, (int)now);
  }
  iobind_tensor_release(x);
  iobind_tensor_release(y);
  iobind_session_destroy(session);
}

/* Each slot captures up to graph_limit, here the shape of its largest memory; an item beyond that is run plainly, and costs the others nothing. */
static void slots_keep_their_graphs(void **state) {
  (void)state;
  enum { ITEMS = 12 };
  iobind_pipeline_options options = IOBIND_PIPELINE_OPTIONS_INIT;
  iobind_session *session = make_session("scale", 1);
  iobind_pipeline *pipeline = NULL;
  iobind_tensor *items[3] = {make_on_host(N, 0), make_on_host(TWICE, 0), make_on_host(N / 2, 0)};
  static const size_t counts[3] = {N, TWICE, N / 2};
  options.slots = 1;
  expect_ok(call_pipeline_create(session, &options, &pipeline, &fault));
  for (int item = 0; item < ITEMS; item++) {
    iobind_tensor *y = NULL;
    int shape = item % 3;
    fill(items[shape], (float)item);
    (void)count_launched();
    expect_ok(call_pipeline_submit(pipeline, &items[shape], 1, &fault));
    expect_ok(iobind_pipeline_next(pipeline, IOBIND_NO_TIMEOUT, &y, 1, NULL, &fault));
    launched since = count_launched();
    assert_true(since.graphs == -1 || item < 3 || since.graphs == (shape == 1));
    expect_all(y, counts[shape], 2 * (float)item);
  }
  expect_graphs(session, 1, keeps_graphs() ? 1 : 0);
  iobind_pipeline_destroy(pipeline);
  for (int shape = 0; shape < 3; shape++) {
    iobind_tensor_release(items[shape]);
  }
  iobind_session_destroy(session);
}

/* A session says how many graphs its bindings have, and how many it cannot get rid of. */
static void graphs_are_counted(void **state) {
  (void)state;
  iobind_session *session = make_session("scale", 2);
  iobind_tensor *xs[2] = {make_filled(N, 1), make_filled(TWICE, 1)};
  iobind_binding *bindings[2] = {make_binding(session, xs[0], NULL), make_binding(session, xs[0], NULL)};
  const size_t kept = keeps_graphs() ? 1 : 0;
  expect_graphs(session, 0, 0);
  expect_ok(iobind_binding_run(bindings[0], NULL, &fault));
  expect_graphs(session, 1, 0);
  bind_x(bindings[0], xs[1]);
  expect_ok(iobind_binding_run(bindings[0], NULL, &fault));
  expect_ok(iobind_binding_run(bindings[1], NULL, &fault));
  expect_ok(iobind_binding_run(bindings[1], NULL, &fault));
  expect_graphs(session, 3, 0);
  expect_ok(iobind_binding_reset_graphs(bindings[0], &fault));
  expect_graphs(session, 1, 2 * kept);
  iobind_binding_destroy(bindings[1]);
  expect_graphs(session, 0, 3 * kept);
  iobind_binding_destroy(bindings[0]);
  iobind_tensor_release(xs[0]);
  iobind_tensor_release(xs[1]);
  iobind_session_destroy(session);
}

/* ---- states that are carried by SWAP, with the two graphs that they take ---- */

/* The buffers of other dims take the place of those before: what was captured with these goes with them. */
static void states_of_two_shapes(void **state) {
  (void)state;
  iobind_session *session = make_session("scale", 2);
  iobind_tensor *firsts[2] = {make_filled(N, 1), make_filled(TWICE, 10)};
  iobind_binding *binding = make_binding(session, firsts[0], NULL);
  expect_ok(iobind_binding_carry(binding, 0, 0, IOBIND_CARRY_SWAP, &fault));
  for (int round = 0; round < 6; round++) {
    int shape = round % 2;
    bind_x(binding, firsts[shape]);
    float expected = shape == 0 ? 1 : 10;
    for (int run = 0; run < 4; run++) {
      expect_ok(iobind_binding_run(binding, NULL, &fault));
      expected *= 2;
      launched since = count_launched();
      assert_true(since.graphs == -1 || run < 2 || (since.graphs == 1 && since.kernels == 0));
      expect_output(binding, shape == 0 ? N : TWICE, expected);
    }
  }
  iobind_binding_destroy(binding);
  iobind_tensor_release(firsts[0]);
  iobind_tensor_release(firsts[1]);
  iobind_session_destroy(session);
}

/* After a state was taken, two captures with the new buffer, and then replays again. */
static void replays_after_a_taken_state(void **state) {
  (void)state;
  iobind_session *session = make_session("scale", 2);
  iobind_tensor *first = make_filled(N, 1);
  iobind_binding *binding = make_binding(session, first, NULL);
  float expected = 1;
  expect_ok(iobind_binding_carry(binding, 0, 0, IOBIND_CARRY_SWAP, &fault));
  for (int round = 0; round < 3; round++) {
    iobind_tensor *taken = NULL;
    float then = 0;
    for (int run = 0; run < 5; run++) {
      expect_ok(iobind_binding_run(binding, NULL, &fault));
      expected *= 2;
      launched since = count_launched();
      assert_true(since.graphs == -1 || run < 3 || (since.graphs == 1 && since.kernels == 0));
      if (run == 0) {
        expect_ok(iobind_binding_take_output(binding, 0, &taken, &fault));
        then = expected;
      }
    }
    expect_output(binding, N, expected);
    expect_all(taken, N, then);
    iobind_tensor_release(taken);
  }
  iobind_binding_destroy(binding);
  iobind_tensor_release(first);
  iobind_session_destroy(session);
}

int main(int argc, char **argv) {
  static const struct CMUnitTest tests[] = {
      cmocka_unit_test(slots_with_two_shapes),   cmocka_unit_test(bindings_that_come_and_go),
      cmocka_unit_test(slots_keep_their_graphs), cmocka_unit_test(graphs_are_counted),
      cmocka_unit_test(states_of_two_shapes),    cmocka_unit_test(replays_after_a_taken_state),
  };
  return graph_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
