/* One saved state in the hands of several threads: read, kept in files, and gone on from by a binding of each. */
#define _POSIX_C_SOURCE 200809L /* barriers */
#include <stdio.h>
#include <unistd.h>

#include "model.h"
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

/* ---- kinds, read from the model's file by the first thread that asks, and a binding of each thread that goes back ---- */

static iobind_session *session_of_a_file(const char *path) {
  size_t bytes;
  char text[TEST_MODEL_TEXT];
  const void *model = test_model("concat dims=past dims2=new", &bytes, text);
  FILE *file = fopen(path, "wb");
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  iobind_session *session;
  assert_true(model != NULL && file != NULL && fwrite(model, 1, bytes, file) == bytes && fclose(file) == 0);
  options.devices = &vdev;
  options.device_count = 1;
  expect_ok(iobind_session_create(runtime, path, &options, &session, &fault));
  return session;
}

static void ask_and_go_back(member *self) {
  iobind_session *session = self->shared;
  iobind_state_kind_info info = IOBIND_STATE_KIND_INFO_INIT;
  iobind_binding *binding = NULL;
  WELL(self, iobind_session_get_state_kind(session, 0, 0, &info, NULL));
  HOLDS(self, info.kind == IOBIND_STATE_GROWING && info.axis == 0);
  iobind_tensor *x = threads_floats(vdev); /* 1 2 3 */
  WELL(self, iobind_binding_create(session, &binding, NULL));
  WELL(self, iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, x, NULL, NULL));
  WELL(self, iobind_binding_set_input(binding, 1, IOBIND_INPUT_RESIDENT, x, NULL, NULL));
  WELL(self, iobind_binding_carry(binding, 0, 0, IOBIND_CARRY_MOVE, NULL));
  for (size_t i = 0; i < ROUNDS && self->good; i++) {
    iobind_state *state = NULL;
    WELL(self, iobind_binding_run(binding, NULL, NULL));
    WELL(self, iobind_binding_rewind_state(binding, 1, NULL));
    WELL(self, iobind_binding_save_state(binding, &state, NULL));
    HOLDS(self, holds(state, 1));
    iobind_state_release(state);
  }
  iobind_binding_destroy(binding);
  iobind_tensor_release(x);
}

static void kinds(void **state) {
  (void)state;
  char path[64];
  snprintf(path, sizeof path, "/tmp/iobind-threads-%ld.onnx", (long)getpid());
  for (size_t i = 0; i < ROUNDS; i++) {
    iobind_session *session = session_of_a_file(path);
    threads_run(ask_and_go_back, session);
    iobind_session_destroy(session);
  }
  assert_int_equal(remove(path), 0);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(one_state),
    cmocka_unit_test(kinds),
};

FIXTURE_MAIN(tests, threads_open, threads_close);
