/* A copy that fails in the run that captures: states are saved, put back and brought to their buffers by copies. What the run leaves is right, or
 * it says that it is not. */
#include "graph_rig.h"

#include <stdio.h>

enum { N = 48, MOST_COPIES = 16 };

/* The n-th copy fails, and the state after it is still that of before, or else no run is OK until it is bound again. False: it is none of the
 * first run's. */
static bool fail_copy(iobind_carry_mode mode, int runs_before, int copy) {
  char setting[16];
  iobind_session *session = make_session("scale", 4);
  iobind_tensor *first = make_filled(N, 1);
  iobind_tensor *again = make_filled(N, 100);
  iobind_binding *binding = make_binding(session, first, NULL);
  float value = 1;
  expect_ok(iobind_binding_carry(binding, 0, 0, mode, &fault));
  for (int run = 0; run < runs_before; run++) {
    expect_ok(iobind_binding_run(binding, NULL, &fault));
    value *= 2;
  }
  snprintf(setting, sizeof setting, "%d", copy);
  assert_true(set_device("fail_copy", setting));
  fixture_arm();
  bool has_failed = iobind_binding_run(binding, NULL, &fault) != IOBIND_OK;
  assert_true(set_device("fail_copy", "0"));
  value *= has_failed ? 1 : 2;
  for (int run = 0; run < 3; run++) {
    fixture_arm();
    iobind_status status = iobind_binding_run(binding, NULL, &fault);
    if (status != IOBIND_OK) {
      assert_int_equal(status, IOBIND_ERROR_INVALID_STATE);
      bind_x(binding, again);
      expect_ok(iobind_binding_run(binding, NULL, &fault));
      value = 100;
    }
    value *= 2;
    expect_output(binding, N, value);
  }
  iobind_binding_destroy(binding);
  iobind_tensor_release(first);
  iobind_tensor_release(again);
  iobind_session_destroy(session);
  return has_failed;
}

static void fail_each_copy(iobind_carry_mode mode) {
  for (int runs_before = 0; runs_before < 2; runs_before++) {
    int copy = 1;
    while (copy < MOST_COPIES && fail_copy(mode, runs_before, copy)) {
      copy++;
    }
    assert_true(copy < MOST_COPIES);
  }
}

static void a_swapped_state_after_a_failed_copy(void **state) {
  (void)state;
  if (!set_device("fail_copy", "0")) {
    skip(); /* nothing fails there on request */
  }
  fail_each_copy(IOBIND_CARRY_SWAP);
}

static void a_state_in_place_after_a_failed_copy(void **state) {
  (void)state;
  if (!set_device("fail_copy", "0")) {
    skip();
  }
  fail_each_copy(IOBIND_CARRY_IN_PLACE);
}

int main(int argc, char **argv) {
  static const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_swapped_state_after_a_failed_copy),
      cmocka_unit_test(a_state_in_place_after_a_failed_copy),
  };
  return graph_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
