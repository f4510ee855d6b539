/* Back to a shorter length where it meets what else there is: streams, failures, captured graphs. The rows of conformance have the rest. */
#include "stage.h"

#include <string.h>

#include "iobind/interop.h"
#include "vdev.h"

static iobind_session *session_of(const char *model, size_t graph_limit) {
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  iobind_session *session;
  options.flags = IOBIND_SESSION_IDENTIFY;
  options.devices = &device;
  options.device_count = is_device("cpu") ? 0 : 1;
  options.graph_limit = graph_limit;
  expect_ok(test_session_with(runtime, model, &options, &session, &fault));
  return session;
}

/* ---- rows of three numbers that are appended ---- */

typedef struct appender {
  iobind_session *session;
  iobind_binding *binding;
  iobind_tensor *row;
} appender;

static iobind_tensor *rows(const float *values, int64_t count, int64_t width) {
  const int64_t dims[] = {count, width};
  iobind_tensor *made;
  expect_ok(iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 2, &made, &fault));
  expect_ok(iobind_tensor_write(made, 0, values, (size_t)(count * width) * sizeof *values, NULL, &fault));
  return made;
}

/* From the rows 1 1 1 and 2 2 2 on. */
static appender open_appender(size_t graph_limit, iobind_carry_mode mode) {
  static const float first[] = {1, 1, 1, 2, 2, 2};
  static const float next[] = {5, 5, 5};
  appender made = {.session = session_of("concat dims=past,width dims2=new,other", graph_limit), .row = rows(next, 1, 3)};
  iobind_tensor *state = rows(first, 2, 3);
  expect_ok(iobind_binding_create(made.session, &made.binding, &fault));
  expect_ok(iobind_binding_set_input(made.binding, 0, IOBIND_INPUT_SNAPSHOT, state, NULL, &fault));
  expect_ok(iobind_binding_set_input(made.binding, 1, IOBIND_INPUT_RESIDENT, made.row, NULL, &fault));
  expect_ok(iobind_binding_carry(made.binding, 0, 0, mode, &fault));
  iobind_tensor_release(state);
  return made;
}

static void close_appender(appender *self) {
  iobind_binding_destroy(self->binding);
  iobind_tensor_release(self->row);
  iobind_session_destroy(self->session);
}

static void expect_rows(iobind_binding *binding, const float *values, size_t count) {
  iobind_state *saved;
  iobind_state_pair pair = IOBIND_STATE_PAIR_INIT;
  char text[TEST_WHY];
  expect_ok(iobind_binding_save_state(binding, &saved, &fault));
  expect_ok(iobind_state_get_pair(saved, 0, &pair, &fault));
  const char *wrong = test_floats_wrong(pair.tensor, values, count, text);
  if (wrong != NULL) fail_msg("%s", wrong);
  iobind_state_release(saved);
}

/* Nothing is done: the result of the last run is still there. */
static void to_the_present(void **state) {
  (void)state;
  appender self = open_appender(0, IOBIND_CARRY_MOVE);
  iobind_tensor *before;
  iobind_tensor *after;
  expect_ok(iobind_binding_run(self.binding, NULL, &fault));
  expect_ok(iobind_binding_get_output(self.binding, 0, NULL, &before, &fault));
  expect_ok(iobind_binding_rewind_state(self.binding, 3, &fault));
  expect_ok(iobind_binding_get_output(self.binding, 0, NULL, &after, &fault));
  assert_ptr_equal(before, after);
  close_appender(&self);
}

/* On a thread of iobind's, after the call: a row that is too wide. An accelerator tells that in the call. */
static void after_a_run_that_fails_late(void **state) {
  (void)state;
  static const float wide[] = {1, 1, 1, 1};
  appender self = open_appender(0, IOBIND_CARRY_MOVE);
  iobind_tensor *row = rows(wide, 1, 4);
  iobind_stream *stream;
  iobind_state *saved;
  expect_ok(iobind_stream_create(device, NULL, &stream, &fault));
  expect_ok(iobind_binding_run(self.binding, NULL, &fault));
  expect_ok(iobind_binding_save_state(self.binding, &saved, &fault));
  expect_ok(iobind_binding_set_input(self.binding, 1, IOBIND_INPUT_RESIDENT, row, NULL, &fault));
  expect_ok(iobind_binding_run(self.binding, stream, &fault));
  assert_int_not_equal(iobind_stream_synchronize(stream, NULL), IOBIND_OK);
  for (int again = 0; again < 2; again++) {
    assert_int_not_equal(iobind_binding_rewind_state(self.binding, 1, &fault), IOBIND_OK);
    expect_words("Concat");
  }
  expect_ok(iobind_binding_restore_state(self.binding, saved, &fault));
  expect_ok(iobind_binding_rewind_state(self.binding, 1, &fault));
  expect_rows(self.binding, wide, 3);
  iobind_tensor_release(row);
  iobind_state_release(saved);
  iobind_stream_destroy(stream);
  close_appender(&self);
}

/* The run that moves the rows fails: nothing has changed. */
static void that_fails(void **state) {
  (void)state;
  static const float all[] = {1, 1, 1, 2, 2, 2, 5, 5, 5};
  appender self = open_appender(0, IOBIND_CARRY_MOVE);
  expect_ok(iobind_binding_run(self.binding, NULL, &fault));
  assert_int_equal(vdev_set(0, "fail_compute", "1"), 0);
  expect(IOBIND_ERROR_RUNTIME, iobind_binding_rewind_state(self.binding, 1, &fault));
  expect_words("binding_rewind_state");
  assert_int_equal(vdev_set(0, "fail_compute", "0"), 0);
  expect_rows(self.binding, all, 9);
  expect_ok(iobind_binding_rewind_state(self.binding, 1, &fault));
  expect_rows(self.binding, all, 3);
  close_appender(&self);
}

/* There a state that grows cannot run; what is bound can be asked for. */
static void where_graphs_are_captured(void **state) {
  (void)state;
  static const float both[] = {1, 1, 1, 2, 2, 2};
  appender self = open_appender(2, IOBIND_CARRY_SWAP);
  expect(IOBIND_ERROR_NOT_SUPPORTED, iobind_binding_rewind_state(self.binding, 1, &fault));
  expect_words("captures graphs");
  expect_rows(self.binding, both, 6);
  close_appender(&self);
}

/* ---- where an earlier state was kept ---- */

static void append(iobind_binding *binding, float value) {
  const float row[] = {value, value, value};
  expect_ok(iobind_binding_write_input(binding, 1, row, sizeof row, NULL, &fault));
  expect_ok(iobind_binding_run(binding, NULL, &fault));
}

/* Has a kernel moved rows? */
static bool moves(iobind_binding *binding, size_t length) {
  int64_t before = vdev_get(0, "kernels");
  expect_ok(iobind_binding_rewind_state(binding, length, &fault));
  return vdev_get(0, "kernels") != before;
}

static void expect_firsts(iobind_binding *binding, const char *numbers) {
  float values[32];
  size_t count = strlen(numbers);
  for (size_t row = 0; row < count; row++) {
    for (size_t i = 0; i < 3; i++) values[3 * row + i] = (float)(numbers[row] - '0');
  }
  expect_rows(binding, values, 3 * count);
}

/* The state that was saved on the way is what the next run reads. Of any other length, or beside that way, rows are moved. */
static void to_a_saved_state(void **state) {
  (void)state;
  static const int64_t turned[] = {1, 0, 2};
  static const float nines[] = {9, 9, 9, 9, 9, 9};
  appender self = open_appender(0, IOBIND_CARRY_MOVE);
  iobind_state *saved;
  iobind_binding *branch;
  append(self.binding, 5);
  expect_ok(iobind_binding_save_state(self.binding, &saved, &fault));
  append(self.binding, 6);
  append(self.binding, 7);
  for (int again = 0; again < 2; again++) {
    assert_false(moves(self.binding, 3));
    append(self.binding, 8);
    expect_firsts(self.binding, "1258");
  }
  assert_true(moves(self.binding, 2));
  append(self.binding, 6);
  append(self.binding, 7);
  assert_true(moves(self.binding, 3)); /* not that one: another row was added after two */
  expect_firsts(self.binding, "126");
  expect_ok(iobind_binding_restore_state(self.binding, saved, &fault));
  append(self.binding, 8);
  assert_false(moves(self.binding, 3));
  append(self.binding, 8);
  expect_ok(iobind_binding_reorder_state(self.binding, 0, turned, 3, &fault));
  append(self.binding, 9);
  assert_true(moves(self.binding, 3));
  expect_firsts(self.binding, "215");
  expect_ok(iobind_binding_restore_state(self.binding, saved, &fault));
  iobind_tensor *others = rows(nines, 2, 3);
  expect_ok(iobind_binding_set_input(self.binding, 0, IOBIND_INPUT_RESIDENT, others, NULL, &fault));
  iobind_tensor_release(others);
  append(self.binding, 4);
  append(self.binding, 4);
  assert_true(moves(self.binding, 3));
  expect_firsts(self.binding, "994");
  expect_ok(iobind_binding_create(self.session, &branch, &fault));
  expect_ok(iobind_binding_carry(branch, 0, 0, IOBIND_CARRY_MOVE, &fault));
  expect_ok(iobind_binding_set_input(branch, 1, IOBIND_INPUT_RESIDENT, self.row, NULL, &fault));
  expect_ok(iobind_binding_restore_state(branch, saved, &fault));
  append(branch, 7);
  append(branch, 7);
  assert_false(moves(branch, 3));
  expect_firsts(branch, "125");
  append(branch, 7);
  iobind_state_release(saved);
  assert_true(moves(branch, 3));
  expect_firsts(branch, "125");
  iobind_binding_destroy(branch);
  close_appender(&self);
}

/* The first state is the caller's, who may write it: what was saved of it is a copy, and not what the runs have read. */
static void to_a_copy(void **state) {
  (void)state;
  static const float nines[] = {9, 9, 9, 9, 9, 9};
  appender self = open_appender(0, IOBIND_CARRY_MOVE);
  iobind_tensor *first = rows(nines, 2, 3);
  iobind_state *saved;
  expect_ok(iobind_binding_set_input(self.binding, 0, IOBIND_INPUT_RESIDENT, first, NULL, &fault));
  expect_ok(iobind_binding_save_state(self.binding, &saved, &fault));
  expect_ok(iobind_tensor_write(first, 0, (const float[]){4, 4, 4}, 3 * sizeof(float), NULL, &fault));
  append(self.binding, 5);
  assert_true(moves(self.binding, 2));
  expect_firsts(self.binding, "49");
  iobind_state_release(saved);
  iobind_tensor_release(first);
  close_appender(&self);
}

static const struct CMUnitTest tests[] = {
    {"to a saved state", to_a_saved_state, stage_open, stage_close, "vdev"},
    {"to a copy", to_a_copy, stage_open, stage_close, "vdev"},
    {"to the present", to_the_present, stage_open, stage_close, "vdev"},
    {"after a run that fails late", after_a_run_that_fails_late, stage_open, stage_close, "cpu"},
    {"that fails", that_fails, stage_open, stage_close, "vdev"},
    {"where graphs are captured", where_graphs_are_captured, stage_open, stage_close, "vdev"},
};

FIXTURE_MAIN(tests, NULL, NULL);
