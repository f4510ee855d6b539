/* Where a session's graphs are many: slots of a pipeline that meet more shapes than graph_limit, and bindings that come and go. */
#include "graph_rig.h"

enum { N = 48, TWICE = 2 * N };

/* Nobody can call iobind_binding_forget_graphs for a slot. */
static void slots_with_two_shapes(void **state) {
  (void)state;
  enum { ITEMS = 24, SLOTS = 3 };
  iobind_pipeline_options options = IOBIND_PIPELINE_OPTIONS_INIT;
  iobind_session *session = make_session("scale", 1);
  iobind_pipeline *pipeline = NULL;
  iobind_tensor *items[2] = {make_on_host(N, 0), make_on_host(TWICE, 0)};
  options.slots = SLOTS;
  expect_ok(iobind_pipeline_create(session, &options, &pipeline, &fault));
  for (int item = 0; item < ITEMS; item++) {
    iobind_tensor *y = NULL;
    int shape = item % 2;
    fill(items[shape], (float)item);
    expect_ok(iobind_pipeline_submit(pipeline, &items[shape], &fault));
    expect_ok(iobind_pipeline_next(pipeline, &y, NULL, &fault));
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
    iobind_status status = iobind_binding_run(binding, NULL, NULL, &fault);
    if (status == IOBIND_OK) {
      expect_output(binding, N, 6);
    } else {
      assert_int_equal(status, IOBIND_INVALID_STATE);
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

int main(int argc, char **argv) {
  static const struct CMUnitTest tests[] = {
      cmocka_unit_test(slots_with_two_shapes),
      cmocka_unit_test(bindings_that_come_and_go),
  };
  return graph_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
