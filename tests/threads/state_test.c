/* One saved state in the hands of several threads: read, kept in files, and gone on from by a binding of each. */
#define _POSIX_C_SOURCE 200809L /* barriers */
#include <stdio.h>
#include <unistd.h>

#include "threads.h"

enum { ROUNDS = 10 };

typedef struct shared {
  iobind_session *session;
  iobind_state *state; /* of 2 4 6 */
} shared;

/* The first value of the state's only tensor. */
static bool holds(iobind_state *state, float expected) {
  iobind_state_info info = IOBIND_STATE_INFO_INIT;
  iobind_state_pair pair = IOBIND_STATE_PAIR_INIT;
  float got = -1;
  return iobind_state_get_info(state, &info, NULL) == IOBIND_OK && info.pair_count == 1 && info.bytes >= sizeof got &&
         iobind_state_get_pair(state, 0, &pair, NULL) == IOBIND_OK &&
         iobind_tensor_read(pair.tensor, 0, &got, sizeof got, NULL, NULL) == IOBIND_OK && got == expected;
}

static void keep_in_a_file(member *self, const shared *of) {
  char path[64];
  iobind_state *again = NULL;
  snprintf(path, sizeof path, "/tmp/iobind-threads-%ld-%zu", (long)getpid(), self->number);
  WELL(self, iobind_state_save(of->state, path, NULL));
  WELL(self, iobind_state_load(of->session, path, &again, NULL));
  HOLDS(self, holds(again, 2));
  iobind_state_release(again);
  HOLDS(self, remove(path) == 0);
}

static void go_on(member *self) {
  static const int64_t row = 0;
  const shared *of = self->shared;
  iobind_state *mine = iobind_state_retain(of->state);
  iobind_binding *binding = NULL;
  WELL(self, iobind_binding_create(of->session, &binding, NULL));
  WELL(self, iobind_binding_carry(binding, 0, 0, self->number % 2 == 0 ? IOBIND_CARRY_SWAP : IOBIND_CARRY_IN_PLACE, NULL));
  for (size_t i = 0; i < ROUNDS && self->good; i++) {
    iobind_state *next = NULL;
    WELL(self, iobind_binding_restore_state(binding, mine, NULL));
    WELL(self, iobind_binding_reorder_state(binding, 0, &row, 1, NULL));
    WELL(self, iobind_binding_run(binding, NULL, NULL));
    WELL(self, iobind_binding_save_state(binding, &next, NULL));
    HOLDS(self, holds(next, 4) && holds(mine, 2));
    iobind_state_release(next);
  }
  keep_in_a_file(self, of);
  iobind_binding_destroy(binding);
  iobind_state_release(mine);
}

static void one_state(void **state) {
  (void)state;
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  iobind_binding *binding;
  shared of;
  options.flags = IOBIND_SESSION_IDENTIFY;
  options.devices = &vdev;
  options.device_count = 1;
  expect_ok(test_session_with(runtime, "scale", &options, &of.session, &fault));
  iobind_tensor *x = threads_floats(vdev); /* 1 2 3 */
  expect_ok(iobind_binding_create(of.session, &binding, &fault));
  expect_ok(iobind_binding_carry(binding, 0, 0, IOBIND_CARRY_MOVE, &fault));
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_SNAPSHOT, x, NULL, &fault));
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  expect_ok(iobind_binding_save_state(binding, &of.state, &fault));
  threads_run(go_on, &of);
  iobind_binding_destroy(binding);
  iobind_tensor_release(x);
  iobind_state_release(of.state);
  iobind_session_destroy(of.session);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(one_state),
};

FIXTURE_MAIN(tests, threads_open, threads_close);
