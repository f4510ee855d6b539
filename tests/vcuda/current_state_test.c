/* Saved states of one GPU while the other one is current. */
#include "current.h"

#include <unistd.h>

static const float doubles[COUNT] = {2, 4, 6, 8};
static const float fours[COUNT] = {4, 8, 12, 16};
static const float turned[COUNT] = {6, 8, 2, 4}; /* the doubled values, second row first */

/* y = 2 x, carried. One run has left the doubled values. */
typedef struct doubler {
  world w;
  iobind_session *session;
  iobind_binding *binding;
  iobind_state *state;
} doubler;

static doubler make_doubler(int own, iobind_carry_mode mode) {
  doubler self = {.w = make_world(own)};
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  options.flags = IOBIND_SESSION_IDENTIFY;
  options.devices = &self.w.device;
  options.device_count = 1;
  expect_ok(test_session_with(runtime, "scale dims=2,2", &options, &self.session, &fault));
  expect_ok(iobind_binding_create(self.session, &self.binding, &fault));
  bind_input(self.binding, 0, self.w.x);
  expect_ok(iobind_binding_carry(self.binding, 0, 0, mode, &fault));
  expect_ok(iobind_binding_run(self.binding, NULL, &fault));
  make_current(own);
  return self;
}

static void end_doubler(doubler *self) {
  iobind_state_release(self->state);
  iobind_binding_destroy(self->binding);
  iobind_session_destroy(self->session);
  end_world(&self->w);
}

static void expect_state(const iobind_state *state, const float *content) {
  iobind_state_pair pair = IOBIND_STATE_PAIR_INIT;
  expect_ok(iobind_state_get_pair(state, 0, &pair, &fault));
  expect_matrix(pair.tensor, content);
}

static void expect_next(doubler *self, const float *content) {
  iobind_tensor *result = NULL;
  expect_ok(iobind_binding_run(self->binding, NULL, &fault));
  expect_ok(iobind_binding_get_output(self->binding, 0, NULL, &result, &fault));
  expect_matrix(result, content);
}

static void binding_save_state(int own) {
  for (int mode = IOBIND_CARRY_MOVE; mode <= IOBIND_CARRY_IN_PLACE; mode++) {
    doubler self = make_doubler(own, (iobind_carry_mode)mode);
    ELSEWHERE(own, iobind_binding_save_state(self.binding, &self.state, &fault));
    expect_next(&self, fours);
    expect_state(self.state, doubles);
    end_doubler(&self);
  }
}

static void binding_save_state__in_flight(int own) {
  for (int mode = IOBIND_CARRY_MOVE; mode <= IOBIND_CARRY_IN_PLACE; mode++) {
    doubler self = make_doubler(own, (iobind_carry_mode)mode);
    expect_ok(iobind_binding_run(self.binding, self.w.stream, &fault));
    ELSEWHERE(own, iobind_binding_save_state(self.binding, &self.state, &fault));
    expect_ok(iobind_binding_run(self.binding, self.w.stream, &fault));
    synchronize(&self.w);
    expect_state(self.state, fours);
    end_doubler(&self);
  }
}

static void binding_restore_state(int own) {
  for (int mode = IOBIND_CARRY_MOVE; mode <= IOBIND_CARRY_IN_PLACE; mode++) {
    doubler self = make_doubler(own, (iobind_carry_mode)mode);
    expect_ok(iobind_binding_save_state(self.binding, &self.state, &fault));
    expect_ok(iobind_binding_run(self.binding, NULL, &fault));
    ELSEWHERE(own, iobind_binding_restore_state(self.binding, self.state, &fault));
    expect_next(&self, fours);
    end_doubler(&self);
  }
}

static void binding_reorder_state(int own) {
  static const int64_t rows[2] = {1, 0};
  float next[COUNT];
  for (int i = 0; i < COUNT; i++) {
    next[i] = 2 * turned[i];
  }
  for (int mode = IOBIND_CARRY_MOVE; mode <= IOBIND_CARRY_IN_PLACE; mode++) {
    doubler self = make_doubler(own, (iobind_carry_mode)mode);
    ELSEWHERE(own, iobind_binding_reorder_state(self.binding, 0, rows, 2, &fault));
    expect_next(&self, next);
    end_doubler(&self);
  }
}

/* The state is the matrix with the identity matrix appended, which the rewind removes. */
static void binding_rewind_state(int own) {
  world w = make_world(own);
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  iobind_session *session;
  iobind_binding *binding;
  iobind_state *state;
  options.flags = IOBIND_SESSION_IDENTIFY;
  options.devices = &w.device;
  options.device_count = 1;
  expect_ok(test_session_with(runtime, "concat dims=past,2 dims2=new,2", &options, &session, &fault));
  expect_ok(iobind_binding_create(session, &binding, &fault));
  bind_input(binding, 0, w.x);
  bind_input(binding, 1, w.y);
  expect_ok(iobind_binding_carry(binding, 0, 0, IOBIND_CARRY_MOVE, &fault));
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  make_current(own);
  ELSEWHERE(own, iobind_binding_rewind_state(binding, 2, &fault));
  expect_ok(iobind_binding_save_state(binding, &state, &fault));
  expect_state(state, values);
  iobind_state_release(state);
  iobind_binding_destroy(binding);
  iobind_session_destroy(session);
  end_world(&w);
}

/* A new row after two others. */
static void binding_write_lengths(int own) {
  static const int64_t dims[] = {1, 4, COUNT};
  static const int64_t one[] = {1, 1, COUNT};
  static const float zeros[4 * COUNT] = {0};
  world w = make_world(own);
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  iobind_session *session;
  iobind_binding *binding;
  iobind_tensor *cache;
  iobind_tensor *x;
  float found[COUNT];
  options.flags = IOBIND_SESSION_IDENTIFY;
  options.devices = &w.device;
  options.device_count = 1;
  expect_ok(test_session_with(runtime, "append opset=24 capacity=4", &options, &session, &fault));
  expect_ok(iobind_binding_create(session, &binding, &fault));
  expect_ok(iobind_tensor_create(w.device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 3, &cache, &fault));
  expect_ok(iobind_tensor_write(cache, 0, zeros, sizeof zeros, NULL, &fault));
  expect_ok(iobind_tensor_create(w.device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, one, 3, &x, &fault));
  expect_ok(iobind_tensor_write(x, 0, values, sizeof found, NULL, &fault));
  bind_input(binding, 0, cache);
  bind_input(binding, 1, x);
  expect_ok(iobind_binding_carry(binding, 0, 0, IOBIND_CARRY_IN_PLACE, &fault));
  make_current(own);
  ELSEWHERE(own, iobind_binding_write_lengths(binding, 1, &(int64_t){2}, 1, NULL, &fault));
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  expect_ok(iobind_tensor_read(cache, 2 * sizeof found, found, sizeof found, NULL, &fault));
  assert_memory_equal(found, values, sizeof found);
  iobind_binding_destroy(binding);
  iobind_tensor_release(cache);
  iobind_tensor_release(x);
  iobind_session_destroy(session);
  end_world(&w);
}

static void binding_name_length(int own) {
  doubler self = make_doubler(own, IOBIND_CARRY_MOVE);
  ELSEWHERE(own, iobind_binding_name_length(self.binding, 0, IOBIND_LENGTH_OTHER, 0, &fault));
  expect_next(&self, fours);
  end_doubler(&self);
}

static void state_release(int own) {
  doubler self = make_doubler(own, IOBIND_CARRY_IN_PLACE);
  expect_ok(iobind_binding_save_state(self.binding, &self.state, &fault));
  ELSEWHERE_VOID(own, iobind_state_release(self.state));
  self.state = NULL;
  expect_next(&self, fours);
  end_doubler(&self);
}

/* A file name for this process. */
static const char *path(void) {
  static char text[64];
  snprintf(text, sizeof text, "/tmp/iobind-current-%ld", (long)getpid());
  return text;
}

static void state_save(int own) {
  doubler self = make_doubler(own, IOBIND_CARRY_MOVE);
  expect_ok(iobind_binding_save_state(self.binding, &self.state, &fault));
  ELSEWHERE(own, iobind_state_save(self.state, path(), &fault));
  assert_int_equal(remove(path()), 0);
  end_doubler(&self);
}

static void state_load(int own) {
  doubler self = make_doubler(own, IOBIND_CARRY_MOVE);
  expect_ok(iobind_binding_save_state(self.binding, &self.state, &fault));
  expect_ok(iobind_state_save(self.state, path(), &fault));
  iobind_state_release(self.state);
  ELSEWHERE(own, iobind_state_load(self.session, path(), &self.state, &fault));
  expect_state(self.state, doubles);
  assert_int_equal(remove(path()), 0);
  end_doubler(&self);
}

static const struct CMUnitTest tests[] = {
    ROW(binding_save_state),
    ROW(binding_save_state__in_flight),
    ROW(binding_restore_state),
    ROW(binding_reorder_state),
    ROW(binding_rewind_state),
    ROW(binding_name_length),
    ROW(binding_write_lengths),
    ROW(state_release),
    ROW(state_save),
    ROW(state_load),
};

FIXTURE_MAIN(tests, NULL, NULL);
