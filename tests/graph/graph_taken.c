/* An output that the caller has taken is the caller's: no replay writes it, whichever tensors were bound between its run and the take. */
#include "graph_rig.h"
#include "../rig/calls.h"

enum { N = 48, TWICE = 2 * N };

static iobind_tensor *take(iobind_binding *binding) {
  iobind_tensor *taken = NULL;
  expect_ok(iobind_binding_take_output(binding, 0, &taken, &fault));
  return taken;
}

/* Before the output is taken, an input of other dims is bound. Then the first graph, which writes the output, is replayed. */
static void taken_after_another_shape(void **state) {
  (void)state;
  iobind_session *session = make_session("scale", 2);
  iobind_tensor *x = make_filled(N, 5);
  iobind_tensor *longer = make_filled(TWICE, 7);
  iobind_binding *binding = make_binding(session, x, NULL);
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  bind_x(binding, longer);
  iobind_tensor *taken = take(binding);
  expect_all(taken, N, 10);
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  expect_output(binding, TWICE, 14);
  expect_all(taken, N, 10);
  fill(x, 250);
  bind_x(binding, x);
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  expect_output(binding, N, 500);
  expect_all(taken, N, 10);
  iobind_binding_destroy(binding);
  iobind_tensor_release(taken);
  iobind_tensor_release(longer);
  iobind_tensor_release(x);
  iobind_session_destroy(session);
}

/* The same with a tensor of the same dims, in memory that iobind has not allocated. */
static void taken_beside_a_state(void **state) {
  (void)state;
  static const int64_t dim = N;
  for (int runs = 1; runs <= 4; runs++) {
    iobind_session *session = make_session("pair", 8); /* with room for more than the two graphs of the states */
    iobind_tensor *x = make_filled(N, 1);
    iobind_tensor *theirs = make_filled(N, 1000);
    iobind_tensor *other = NULL;
    iobind_tensor *first = make_filled(N, 3);
    iobind_binding *binding = make_binding(session, x, NULL);
    expect_ok(iobind_binding_set_input(binding, 1, IOBIND_INPUT_RESIDENT, first, NULL, &fault));
    expect_ok(iobind_binding_carry(binding, 1, 1, IOBIND_CARRY_SWAP, &fault)); /* x is 1, so that the product stays 3 */
    for (int run = 0; run < runs; run++) {
      expect_ok(iobind_binding_run(binding, NULL, &fault)); /* its output has no other owner before it is taken */
    }
    expect_ok(call_tensor_wrap(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, &dim, 1, iobind_tensor_get_address(theirs),
                               N * sizeof(float), NULL, NULL, &other, &fault));
    bind_x(binding, other);
    iobind_tensor *taken = take(binding);
    expect_all(taken, N, 4);
    bind_x(binding, x);
    fill(x, 2);
    float product = 3;
    for (int run = 0; run < 3; run++) {
      expect_ok(iobind_binding_run(binding, NULL, &fault));
      expect_output(binding, N, 2 + product);
      expect_all(taken, N, 4);
      product *= 2;
    }
    iobind_binding_destroy(binding);
    iobind_tensor_release(taken);
    iobind_tensor_release(first);
    iobind_tensor_release(other);
    iobind_tensor_release(theirs);
    iobind_tensor_release(x);
    iobind_session_destroy(session);
  }
}

/* The taken state is itself the next run's input. */
static void taken_states(void **state) {
  (void)state;
  enum { RUNS = 6 };
  iobind_session *session = make_session("scale", 2);
  iobind_tensor *first = make_filled(N, 1);
  iobind_binding *binding = make_binding(session, first, NULL);
  iobind_tensor *taken[RUNS];
  expect_ok(iobind_binding_carry(binding, 0, 0, IOBIND_CARRY_SWAP, &fault));
  for (int run = 0; run < RUNS; run++) {
    expect_ok(iobind_binding_run(binding, NULL, &fault));
    taken[run] = take(binding);
  }
  for (int run = 0; run < RUNS; run++) {
    expect_all(taken[run], N, (float)(2 << run));
    iobind_tensor_release(taken[run]);
  }
  expect_all(first, N, 1);
  iobind_binding_destroy(binding);
  iobind_tensor_release(first);
  iobind_session_destroy(session);
}

int main(int argc, char **argv) {
  static const struct CMUnitTest tests[] = {
      cmocka_unit_test(taken_after_another_shape),
      cmocka_unit_test(taken_beside_a_state),
      cmocka_unit_test(taken_states),
  };
  return graph_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
