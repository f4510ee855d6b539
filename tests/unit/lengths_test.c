/* The lengths of caches of fixed capacity that iobind writes: rows are appended, each a number, and are where they belong. */
#include "lengths_cache.h"

#include "iobind/interop.h"
#include "vdev.h"
#include "../rig/calls.h"
#include "../rig/hold.h"

/* ---- one run after the other ---- */

static void advance_by_runs(void **state) {
  (void)state;
  for (size_t i = 0; i < 3; i++) {
    cache self = open_append(plain, modes[i], 0);
    append(&self, 3, 1, 0);
    append(&self, 1, 2, LAST);
    append(&self, 2, 3, LAST);
    expect_rows(&self, "111233");
    append(&self, 1, 4, 2); /* as if only two were right */
    append(&self, 1, 5, LAST);
    expect_rows(&self, "114533");
    close_cache(&self);
  }
}

static void where_graphs_are_captured(void **state) {
  (void)state;
  cache self = open_append(plain, IOBIND_CARRY_IN_PLACE, 2);
  append(&self, 3, 1, 0);
  for (int i = 2; i < 8; i++) append(&self, 1, (float)i, LAST);
  expect_rows(&self, "111234567");
  expect(IOBIND_ERROR_INVALID_ARGUMENT, write_length(self.binding, 8, LAST, NULL, &fault));
  append(&self, 1, 9, LAST);
  expect_rows(&self, "1112345679");
  close_cache(&self);
}

static void rewound(void **state) {
  (void)state;
  for (size_t i = 0; i < 3; i++) {
    cache self = open_append(plain, modes[i], 0);
    iobind_state *saved;
    append(&self, 3, 1, 0);
    append(&self, 3, 2, LAST);
    expect_ok(iobind_binding_save_state(self.binding, &saved, &fault));
    expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_binding_rewind_state(self.binding, 7, &fault));
    expect_words("0 .. 6");
    expect_ok(iobind_binding_rewind_state(self.binding, 4, &fault));
    append(&self, 1, 3, LAST);
    expect_rows(&self, "111232");
    expect_ok(iobind_binding_restore_state(self.binding, saved, &fault));
    append(&self, 1, 4, LAST);
    expect_rows(&self, "1112224");
    expect_ok(iobind_binding_rewind_state(self.binding, 0, &fault));
    append(&self, 1, 5, LAST);
    expect_rows(&self, "5112224");
    iobind_state_release(saved);
    close_cache(&self);
  }
}

/* ---- on a stream ---- */

static void in_flight(void **state) {
  (void)state;
  for (size_t i = 0; i < 3; i++) {
    cache self = open_append(plain, modes[i], 0);
    iobind_stream *stream;
    expect_ok(iobind_stream_create(device, NULL, &stream, &fault));
    bind_rows(&self, 1, 7);
    expect_ok(write_length(self.binding, 1, 0, stream, &fault));
    expect_ok(iobind_binding_run(self.binding, stream, &fault));
    for (int run = 0; run < 5; run++) {
      expect_ok(write_length(self.binding, 1, LAST, stream, &fault));
      expect_ok(iobind_binding_run(self.binding, stream, &fault));
    }
    expect(IOBIND_ERROR_INVALID_STATE, write_length(self.binding, 1, LAST, NULL, &fault));
    expect_words("in flight");
    expect_ok(iobind_stream_synchronize(stream, &fault));
    append(&self, 1, 8, LAST);
    expect_rows(&self, "7777778");
    iobind_stream_destroy(stream);
    close_cache(&self);
  }
}

/* Nothing has failed in the call. The next run continues where the failed ones began. */
static void that_fail_late(void **state) {
  (void)state;
  cache self = open_append(plain, IOBIND_CARRY_IN_PLACE, 0);
  iobind_stream *stream;
  expect_ok(iobind_stream_create(device, NULL, &stream, &fault));
  append(&self, 3, 1, 0);
  expect_ok(write_length(self.binding, 3, LAST, stream, &fault));
  assert_int_equal(vdev_set(0, "fail_compute", "1,late"), 0);
  int held = hold(device, stream);
  expect_ok(iobind_binding_run(self.binding, stream, &fault));
  let_go(held);
  bool is_met = write_length(self.binding, 3, LAST, stream, NULL) != IOBIND_OK; /* by the copy, if the EP waits for it */
  assert_true(iobind_stream_synchronize(stream, NULL) != IOBIND_OK || is_met);
  assert_int_equal(vdev_set(0, "fail_compute", "0"), 0);
  expect(IOBIND_ERROR_INVALID_STATE, iobind_binding_run(self.binding, stream, &fault));
  expect_words("after a run that has failed");
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_binding_rewind_state(self.binding, 4, &fault));
  expect_words("0 .. 3");
  expect_ok(iobind_binding_rewind_state(self.binding, 3, &fault));
  expect_rows(&self, "111"); /* which are saved: the failed run has nothing to do with them */
  append(&self, 1, 2, LAST);
  expect_rows(&self, "1112");
  iobind_stream_destroy(stream);
  close_cache(&self);
}

/* The same in a session that is verified, where the call waits: the run has failed, but its results were not found wrong. */
static void that_fail_late_and_are_verified(void **state) {
  (void)state;
  verified_runs = 8;
  cache self = open_append(plain, IOBIND_CARRY_IN_PLACE, 0);
  verified_runs = 0;
  append(&self, 3, 1, 0);
  bind_rows(&self, 2, 2);
  expect_ok(write_length(self.binding, 2, LAST, NULL, &fault));
  assert_int_equal(vdev_set(0, "fail_compute", "1,late"), 0);
  expect(IOBIND_ERROR_RUNTIME, iobind_binding_run(self.binding, NULL, &fault));
  assert_int_equal(vdev_set(0, "fail_compute", "0"), 0);
  expect(IOBIND_ERROR_INVALID_STATE, iobind_binding_run(self.binding, NULL, &fault));
  expect_ok(iobind_binding_rewind_state(self.binding, 2, &fault));
  append(&self, 1, 4, LAST);
  expect_rows(&self, "114");
  close_cache(&self);
}

/* A kernel that is wrong may write anywhere: nothing of a cache in place is known any more. */
static void that_are_wrong(void **state) {
  (void)state;
  for (size_t i = 0; i < 3; i++) {
    verified_runs = 3;
    cache self = open_append(plain, modes[i], 0);
    verified_runs = 0;
    append(&self, 3, 1, 0);
    bind_rows(&self, 1, 2);
    expect_ok(write_length(self.binding, 1, LAST, NULL, &fault));
    assert_int_equal(vdev_set(0, "wrong_compute", "every:1"), 0);
    expect(IOBIND_ERROR_RESULT, iobind_binding_run(self.binding, NULL, &fault));
    assert_int_equal(vdev_set(0, "wrong_compute", "0"), 0);
    if (modes[i] == IOBIND_CARRY_IN_PLACE) {
      expect(IOBIND_ERROR_INVALID_STATE, iobind_binding_rewind_state(self.binding, 3, &fault));
      expect_words("not only beyond its length");
      expect(IOBIND_ERROR_INVALID_STATE, iobind_binding_run(self.binding, NULL, &fault));
    } else {
      expect_ok(iobind_binding_rewind_state(self.binding, 3, &fault));
      append(&self, 1, 4, LAST);
      expect_rows(&self, "1114");
    }
    close_cache(&self);
  }
}

static void that_fail(void **state) {
  (void)state;
  for (size_t i = 0; i < 3; i++) {
    cache self = open_append(plain, modes[i], 0);
    append(&self, 3, 1, 0);
    bind_rows(&self, 2, 2);
    expect_ok(write_length(self.binding, 2, LAST, NULL, &fault));
    assert_int_equal(vdev_set(0, "fail_compute", "1"), 0);
    expect(IOBIND_ERROR_RUNTIME, iobind_binding_run(self.binding, NULL, &fault));
    assert_int_equal(vdev_set(0, "fail_compute", "0"), 0);
    if (modes[i] == IOBIND_CARRY_IN_PLACE) {
      expect(IOBIND_ERROR_INVALID_STATE, iobind_binding_run(self.binding, NULL, &fault));
      expect_words("rewind it by iobind_binding_rewind_state, bind it again");
      expect_ok(iobind_binding_rewind_state(self.binding, 3, &fault));
    }
    append(&self, 1, 4, LAST);
    append(&self, 1, 5, LAST);
    expect_rows(&self, "11145");
    close_cache(&self);
  }
}

static void that_are_cancelled(void **state) {
  (void)state;
  for (size_t i = 0; i < 3; i++) {
    cache self = open_append(plain, modes[i], 0);
    append(&self, 3, 1, 0);
    bind_rows(&self, 2, 2);
    expect_ok(write_length(self.binding, 2, LAST, NULL, &fault));
    expect_ok(iobind_binding_announce_run(self.binding, 1, &fault));
    expect_ok(iobind_binding_cancel(self.binding, &fault));
    expect(IOBIND_ERROR_CANCELLED, iobind_binding_run(self.binding, NULL, &fault));
    if (modes[i] == IOBIND_CARRY_IN_PLACE) {
      expect_ok(iobind_binding_rewind_state(self.binding, 3, &fault));
    }
    append(&self, 1, 4, LAST);
    append(&self, 1, 5, LAST);
    expect_rows(&self, "11145");
    close_cache(&self);
  }
}

/* The run has written beyond the length alone, so the rows before it are right, however they are carried from then on. */
static void that_fail_before_the_mode_changes(void **state) {
  (void)state;
  for (size_t i = 0; i < 3; i++) {
    cache self = open_append(plain, IOBIND_CARRY_IN_PLACE, 0);
    append(&self, 3, 1, 0);
    bind_rows(&self, 2, 2);
    expect_ok(write_length(self.binding, 2, LAST, NULL, &fault));
    assert_int_equal(vdev_set(0, "fail_compute", "1"), 0);
    expect(IOBIND_ERROR_RUNTIME, iobind_binding_run(self.binding, NULL, &fault));
    assert_int_equal(vdev_set(0, "fail_compute", "0"), 0);
    expect_ok(iobind_binding_carry(self.binding, 0, 0, modes[i], &fault));
    expect(IOBIND_ERROR_INVALID_STATE, iobind_binding_run(self.binding, NULL, &fault));
    expect_words("may have written a part of it: bind it again");
    enum { LENGTH = 3 }; /* which a new carry does not know */
    expect(IOBIND_ERROR_NOT_SUPPORTED, iobind_binding_rewind_state(self.binding, LENGTH, &fault));
    expect_ok(write_length(self.binding, 1, LENGTH, NULL, &fault));
    expect_ok(iobind_binding_rewind_state(self.binding, LENGTH, &fault));
    append(&self, 1, 4, LAST);
    expect_rows(&self, "1114*");
    close_cache(&self);
  }
}

/* ---- runs without lengths of iobind ---- */

static void expect_unknown(cache *self) {
  bind_rows(self, 1, 9);
  expect(IOBIND_ERROR_INVALID_STATE, write_length(self->binding, 1, LAST, NULL, &fault));
  expect_words("length is unknown");
}

static void bind_live(cache *self) {
  static const int64_t dims[] = {1, 1, WIDTH};
  iobind_device *before = device;
  device = cpu;
  iobind_tensor *row = filled(dims, 3, 9);
  device = before;
  expect_ok(iobind_binding_set_input(self->binding, 1, IOBIND_INPUT_LIVE, row, NULL, &fault));
  iobind_tensor_release(row);
  self->rows = 0;
}

/* ORT has not seen them: the copy of an input has failed before. */
static void that_are_refused(void **state) {
  (void)state;
  iobind_stream *streams[2] = {NULL, NULL};
  expect_ok(iobind_stream_create(device, NULL, &streams[1], &fault));
  for (size_t i = 0; i < 6; i++) {
    cache self = open_append(plain, modes[i % 3], 0);
    append(&self, 3, 1, 0);
    bind_live(&self);
    assert_int_equal(vdev_set(0, "fail_copy", "1"), 0);
    expect(IOBIND_ERROR_RUNTIME, iobind_binding_run(self.binding, streams[i / 3], &fault));
    assert_int_equal(vdev_set(0, "fail_copy", "0"), 0);
    append(&self, 1, 2, LAST);
    expect_rows(&self, "1112");
    close_cache(&self);
  }
  iobind_stream_destroy(streams[1]);
}

/* No more graphs may be captured. */
static void that_are_refused_before_a_capture(void **state) {
  (void)state;
  cache self = open_append(plain, IOBIND_CARRY_IN_PLACE, 1);
  append(&self, 3, 1, 0);
  bind_rows(&self, 1, 2);
  expect(IOBIND_ERROR_INVALID_STATE, iobind_binding_run(self.binding, NULL, &fault));
  expect_words("graph_limit is 1");
  expect_ok(iobind_binding_reset_graphs(self.binding, &fault));
  append(&self, 1, 2, LAST);
  append(&self, 1, 3, LAST);
  expect_rows(&self, "11123");
  expect_ok(iobind_binding_run(self.binding, NULL, &fault)); /* a replay */
  expect_unknown(&self);
  close_cache(&self);
}

/* The caller writes the length. */
static void bind_own(iobind_binding *binding) {
  static const int64_t one = 1;
  iobind_tensor *at;
  expect_ok(iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_INT64, &one, 1, &at, &fault));
  expect_ok(iobind_binding_set_input(binding, 2, IOBIND_INPUT_RESIDENT, at, NULL, &fault));
  expect_ok(iobind_binding_write_input(binding, 2, &(int64_t){0}, sizeof(int64_t), NULL, &fault));
  expect_ok(iobind_binding_name_length(binding, 2, IOBIND_LENGTH_OTHER, 0, &fault));
  iobind_tensor_release(at);
}

/* One that a thread of iobind would have made, after another one that has failed. */
static void that_are_never_made(void **state) {
  (void)state;
  static const int64_t far = 99;
  for (size_t i = 0; i < 3; i++) {
    cache self = open_append(plain, modes[i], 0);
    cache other = open_append(plain, IOBIND_CARRY_MOVE, 0);
    iobind_stream *stream;
    expect_ok(iobind_stream_create(device, NULL, &stream, &fault));
    append(&self, 3, 1, 0);
    bind_own(other.binding); /* so that iobind does not check it */
    append(&other, 1, 1, 0);
    expect_ok(iobind_binding_write_input(other.binding, 2, &far, sizeof far, NULL, &fault));
    expect_ok(iobind_binding_run(other.binding, stream, &fault));
    expect_ok(iobind_binding_run(self.binding, stream, &fault));
    expect(IOBIND_ERROR_RUNTIME, iobind_stream_synchronize(stream, &fault));
    append(&self, 1, 2, LAST);
    expect_rows(&self, "1112");
    expect_unknown(&other); /* ORT has seen this one */
    iobind_stream_destroy(stream);
    close_cache(&other);
    close_cache(&self);
  }
}

/* ORT has got them: where they have written is unknown. */
static void that_are_not_counted(void **state) {
  (void)state;
  static const char *const faults[] = {"1", "1,late"};
  iobind_stream *streams[2] = {NULL, NULL};
  expect_ok(iobind_stream_create(device, NULL, &streams[1], &fault));
  for (size_t i = 0; i < 12; i++) {
    cache self = open_append(plain, modes[i % 3], 0);
    append(&self, 3, 1, 0);
    bind_rows(&self, 1, 2);
    assert_int_equal(vdev_set(0, "fail_compute", faults[i / 6]), 0);
    bool has_failed = iobind_binding_run(self.binding, streams[i / 3 % 2], NULL) != IOBIND_OK;
    has_failed = iobind_stream_synchronize(streams[1], NULL) != IOBIND_OK || has_failed;
    assert_int_equal(vdev_set(0, "fail_compute", "0"), 0);
    assert_true(has_failed);
    expect_unknown(&self);
    close_cache(&self);
  }
  iobind_stream_destroy(streams[1]);
}

/* The success of one has no effect on a later one that fails. */
static void that_were_not_counted_before(void **state) {
  (void)state;
  iobind_stream *streams[2] = {NULL, NULL};
  expect_ok(iobind_stream_create(device, NULL, &streams[1], &fault));
  for (size_t i = 0; i < 6; i++) {
    cache self = open_append(plain, modes[i % 3], 0);
    append(&self, 1, 1, 0);
    expect_ok(iobind_binding_run(self.binding, streams[i / 3], &fault));
    expect_ok(iobind_stream_synchronize(streams[1], &fault));
    expect_ok(write_length(self.binding, 1, 1, NULL, &fault));
    assert_int_equal(vdev_set(0, "fail_compute", "1"), 0);
    expect(IOBIND_ERROR_RUNTIME, iobind_binding_run(self.binding, NULL, &fault));
    assert_int_equal(vdev_set(0, "fail_compute", "0"), 0);
    expect_ok(iobind_binding_rewind_state(self.binding, 1, &fault));
    append(&self, 1, 3, LAST);
    expect_rows(&self, "13");
    close_cache(&self);
  }
  iobind_stream_destroy(streams[1]);
}

/* Lengths that are given after such a run, while it is in flight, are known. */
static void behind_one_that_is_not_counted(void **state) {
  (void)state;
  iobind_stream *stream;
  expect_ok(iobind_stream_create(device, NULL, &stream, &fault));
  for (size_t i = 0; i < 3; i++) {
    cache self = open_append(plain, modes[i], 0);
    append(&self, 1, 1, 0);
    expect_ok(iobind_binding_run(self.binding, stream, &fault)); /* over the first row again */
    expect_ok(write_length(self.binding, 1, 1, stream, &fault));
    expect_ok(iobind_binding_run(self.binding, stream, &fault));
    expect_ok(iobind_stream_synchronize(stream, &fault));
    append(&self, 1, 2, LAST);
    expect_rows(&self, "112");
    expect_ok(iobind_binding_run(self.binding, stream, &fault));
    expect_ok(iobind_stream_synchronize(stream, &fault));
    expect_unknown(&self);
    close_cache(&self);
  }
  iobind_stream_destroy(stream);
}

/* ---- beside a pipeline ---- */

/* An item of the session has a cache and a length of its own. */
static void beside_a_pipeline(void **state) {
  (void)state;
  cache self = open_append(plain, IOBIND_CARRY_IN_PLACE, 0);
  float values[CAPACITY * WIDTH];
  iobind_pipeline *pipeline;
  iobind_tensor *output;
  iobind_tensor *inputs[3] = {self.state, filled((int64_t[]){1, 1, WIDTH}, 3, 7), NULL};
  expect_ok(iobind_tensor_create(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_INT64, (int64_t[]){1}, 1, &inputs[2], &fault));
  expect_ok(iobind_tensor_write(inputs[2], 0, &(int64_t){9}, sizeof(int64_t), NULL, &fault));
  expect_ok(call_pipeline_create(self.session, NULL, &pipeline, &fault));
  append(&self, 2, 1, 0);
  expect_ok(write_length(self.binding, 1, LAST, NULL, &fault));
  expect_ok(call_pipeline_submit(pipeline, inputs, 3, &fault));
  expect_ok(iobind_pipeline_next(pipeline, IOBIND_NO_TIMEOUT, &output, 1, NULL, &fault));
  expect_ok(iobind_tensor_read(output, 0, values, sizeof values, NULL, &fault));
  assert_true(values[(size_t)9 * WIDTH] == 7);
  append(&self, 1, 2, LAST);
  expect_rows(&self, "112*");
  for (size_t k = 1; k < 3; k++) iobind_tensor_release(inputs[k]);
  iobind_pipeline_destroy(pipeline);
  close_cache(&self);
}

/* ---- another number of rows in a batch ---- */

static void append_rows(iobind_binding *binding, int64_t rows, float value) {
  const int64_t dims[] = {rows, 1, WIDTH};
  iobind_tensor *row = filled(dims, 3, value);
  expect_ok(iobind_binding_set_input(binding, 1, IOBIND_INPUT_SNAPSHOT, row, NULL, &fault));
  iobind_tensor_release(row);
  expect_ok(write_length(binding, 1, LAST, NULL, &fault));
  expect_ok(iobind_binding_run(binding, NULL, &fault));
}

/* The inputs that iobind has bound have one length for each row, whatever their number is. */
static void of_other_rows(void **state) {
  (void)state;
  static const int64_t rows[] = {0, 0, 0};
  for (size_t i = 0; i < 3; i++) {
    cache self = open_append("append opset=24 batch=-1", modes[i], 0);
    append(&self, 1, 1, 0);
    expect_ok(iobind_binding_reorder_state(self.binding, 0, rows, 3, &fault));
    append_rows(self.binding, 3, 2);
    append_rows(self.binding, 3, 3);
    expect_ok(iobind_binding_reorder_state(self.binding, 0, rows, 1, &fault));
    append_rows(self.binding, 1, 4);
    expect_rows(&self, "1234");
    close_cache(&self);
  }
}

/* What the caller has bound instead stays, also if it does not fit. */
static void of_rows_that_do_not_fit(void **state) {
  (void)state;
  static const int64_t two = 2;
  iobind_tensor *at;
  cache self = open_append("append opset=24 batch=-1", IOBIND_CARRY_MOVE, 0);
  append(&self, 1, 1, 0);
  expect_ok(iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_INT64, &two, 1, &at, &fault));
  expect_ok(iobind_binding_set_input(self.binding, 2, IOBIND_INPUT_RESIDENT, at, NULL, &fault));
  iobind_tensor_release(at);
  expect_ok(write_length(self.binding, 1, LAST, NULL, &fault));
  expect(IOBIND_ERROR_SHAPE, iobind_binding_run(self.binding, NULL, &fault));
  close_cache(&self);
}

/* ---- what is not counted ---- */

static void written_by_the_caller(void **state) {
  (void)state;
  static const int64_t two = 2;
  cache self = open_append(plain, IOBIND_CARRY_MOVE, 0);
  append(&self, 3, 1, 0);
  bind_rows(&self, 1, 4);
  expect_ok(write_length(self.binding, 1, LAST, NULL, &fault));
  expect_ok(iobind_binding_write_input(self.binding, 2, &two, sizeof two, NULL, &fault));
  expect_ok(iobind_binding_run(self.binding, NULL, &fault));
  expect_rows(&self, "114");
  expect(IOBIND_ERROR_INVALID_STATE, write_length(self.binding, 1, LAST, NULL, &fault));
  expect_words("length is unknown");
  expect(IOBIND_ERROR_NOT_SUPPORTED, iobind_binding_rewind_state(self.binding, 1, &fault));
  expect_words("'at'");
  append(&self, 1, 5, 3);
  append(&self, 1, 6, LAST);
  expect_rows(&self, "11456");
  close_cache(&self);
}

static void refused(void **state) {
  (void)state;
  cache self = open_append(plain, IOBIND_CARRY_SWAP, 0);
  expect(IOBIND_ERROR_INVALID_STATE, write_length(self.binding, 1, LAST, NULL, &fault));
  expect_words("length is unknown");
  expect(IOBIND_ERROR_INVALID_ARGUMENT, write_length(self.binding, 0, 0, NULL, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, write_length(self.binding, 1, -2, NULL, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, write_length(self.binding, 1, CAPACITY + 1, NULL, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, write_length(self.binding, SIZE_MAX, 1, NULL, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, write_length(NULL, 1, 0, NULL, &fault));
  append(&self, 14, 1, 0);
  expect(IOBIND_ERROR_INVALID_ARGUMENT, write_length(self.binding, 3, LAST, NULL, &fault));
  expect_words("at most 2 new rows, got 3");
  bind_rows(&self, 1, 2);
  expect_ok(write_length(self.binding, 2, LAST, NULL, &fault));
  expect(IOBIND_ERROR_SHAPE, iobind_binding_run(self.binding, NULL, &fault));
  expect_words("'row' has 1 new rows");
  append(&self, 2, 3, LAST);
  expect_rows(&self, "1111111111111133");
  close_cache(&self);
}

static void of_no_cache(void **state) {
  (void)state;
  iobind_session *session = session_of("concat", 0);
  iobind_binding *binding;
  expect_ok(iobind_binding_create(session, &binding, &fault));
  expect(IOBIND_ERROR_NOT_SUPPORTED, write_length(binding, 1, 0, NULL, &fault));
  expect_ok(iobind_binding_carry(binding, 0, 0, IOBIND_CARRY_MOVE, &fault));
  expect(IOBIND_ERROR_NOT_SUPPORTED, write_length(binding, 1, 0, NULL, &fault));
  expect_words("got none");
  iobind_binding_destroy(binding);
  iobind_session_destroy(session);
}

/* A call that is refused leaves the lengths that were written before it. */
static void refused_for_their_inputs(void **state) {
  (void)state;
  enum { VALID = 3 };
  static const int64_t one = 1;
  iobind_stream *foreign;
  iobind_state *saved;
  iobind_tensor *locked;
  iobind_state_pair pair = IOBIND_STATE_PAIR_INIT;
  cache self = open_append("append opset=24 attention=1", IOBIND_CARRY_IN_PLACE, 0);
  append(&self, 2, 1, 0);
  bind_rows(&self, 1, 2);
  expect_ok(write_length(self.binding, 1, LAST, NULL, &fault));
  expect_ok(iobind_stream_create(fixture_device(runtime, "vdev"), NULL, &foreign, &fault));
  expect(IOBIND_ERROR_WRONG_DEVICE, write_length(self.binding, 1, 0, foreign, &fault));
  expect_words("expected a stream of 'cpu'");
  expect_ok(iobind_binding_run(self.binding, NULL, &fault));
  append(&self, 1, 3, LAST);
  expect_rows(&self, "1123");
  expect_ok(iobind_binding_save_state(self.binding, &saved, &fault));
  expect_ok(iobind_state_get_pair(saved, 0, &pair, &fault));
  expect_ok(iobind_tensor_view(pair.tensor, 0, IOBIND_DTYPE_INT64, &one, 1, &locked, &fault));
  expect_ok(iobind_binding_set_input(self.binding, VALID, IOBIND_INPUT_RESIDENT, locked, NULL, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, write_length(self.binding, 1, LAST, NULL, &fault));
  expect_words("read-only");
  bind_rows(&self, 1, 4);
  expect_ok(iobind_binding_set_input(self.binding, VALID, IOBIND_INPUT_SNAPSHOT, locked, NULL, &fault));
  iobind_tensor_release(locked);
  append(&self, 1, 4, LAST);
  expect_rows(&self, "11234");
  iobind_state_release(saved);
  iobind_stream_destroy(foreign);
  close_cache(&self);
}

/* ---- no mode is asked for ---- */

/* What the caller bound is written by the run, or it is not. */
static void carried_by_default(void **state) {
  (void)state;
  static const struct {
    const char *model;
    size_t graph_limit;
    float found;
    iobind_carry_mode mode;
  } cases[] = {{plain, 0, 5, IOBIND_CARRY_IN_PLACE},
               {"append opset=24 attention=1", 0, 5, IOBIND_CARRY_IN_PLACE},
               {"append opset=24 old=1", 0, -1, IOBIND_CARRY_MOVE},
               {"append opset=24 old=2", 0, -1, IOBIND_CARRY_MOVE},
               {plain, 1, 5, IOBIND_CARRY_IN_PLACE},
               {"append opset=24 old=1", 2, -1, IOBIND_CARRY_SWAP}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    if (device == cpu && cases[i].graph_limit > 0) continue;
    cache self = open_append(cases[i].model, IOBIND_CARRY_DEFAULT, cases[i].graph_limit);
    float first[WIDTH];
    append(&self, 1, 5, 0);
    expect_ok(iobind_tensor_read(self.state, 0, first, sizeof first, NULL, &fault));
    assert_true(first[0] == cases[i].found);
    iobind_state_kind_info info = IOBIND_STATE_KIND_INFO_INIT;
    expect_ok(iobind_session_get_state_kind(self.session, 0, 0, &info, &fault));
    assert_int_equal(info.mode, cases[i].mode);
    expect_rows(&self, "5*");
    close_cache(&self);
  }
}

/* ---- the operators ---- */

static void read_floats(iobind_binding *binding, size_t output, float *values, size_t bytes) {
  iobind_tensor *result;
  expect_ok(iobind_binding_get_output(binding, output, NULL, &result, &fault));
  expect_ok(iobind_tensor_read(result, 0, values, bytes, NULL, &fault));
}

/* The last row sees all rows before it, in one run or in several. */
static void of_attention(void **state) {
  (void)state;
  float whole[3 * WIDTH];
  float one[WIDTH];
  cache at_once = open_append("append opset=24 attention=1", IOBIND_CARRY_MOVE, 0);
  append(&at_once, 3, 1, 0);
  read_floats(at_once.binding, 1, whole, sizeof whole);
  cache self = open_append("append opset=24 attention=1", IOBIND_CARRY_IN_PLACE, 0);
  for (int i = 0; i < 3; i++) append(&self, 1, 1, i == 0 ? 0 : LAST);
  read_floats(self.binding, 1, one, sizeof one);
  assert_memory_equal(one, whole, sizeof one); /* of ones alone, not of the -1 behind them */
  assert_true(one[0] > 0.99F && one[0] < 1.01F);
  close_cache(&self);
  close_cache(&at_once);
}

static void run_shared(iobind_binding *binding, int64_t count, float value, int64_t length) {
  const int64_t dims[] = {1, count, (int64_t)HEADS * SIZE};
  iobind_tensor *x = filled(dims, 3, value);
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
  iobind_tensor_release(x);
  expect_ok(write_length(binding, (size_t)count, length, NULL, &fault));
  expect_ok(iobind_binding_run(binding, NULL, &fault));
}

/* Values of one kind have an average of the same. */
static void of_grouped_attention(void **state) {
  (void)state;
  static const int64_t dims[] = {1, HEADS, CAPACITY, SIZE};
  static float y[HEADS * SIZE];
  iobind_session *session = session_of("shared", 0);
  for (size_t mode = 0; mode < 3; mode++) {
    iobind_binding *binding;
    expect_ok(iobind_binding_create(session, &binding, &fault));
    for (size_t i = 1; i <= 2; i++) {
      iobind_tensor *past = filled(dims, 4, 9);
      expect_ok(iobind_binding_set_input(binding, i, IOBIND_INPUT_RESIDENT, past, NULL, &fault));
      expect_ok(iobind_binding_carry(binding, i, i, modes[mode], &fault));
      iobind_tensor_release(past);
    }
    run_shared(binding, 3, 0.5F, 0);
    for (int i = 0; i < 4; i++) run_shared(binding, 1, 0.5F, LAST);
    read_floats(binding, 0, y, sizeof y);
    assert_true(y[0] > 0.49F && y[0] < 0.51F);
    expect(IOBIND_ERROR_INVALID_ARGUMENT, write_length(binding, 10, LAST, NULL, &fault));
    expect_words("length of 7");
    expect_ok(iobind_binding_rewind_state(binding, 2, &fault));
    run_shared(binding, 1, 0.5F, LAST);
    read_floats(binding, 0, y, sizeof y);
    assert_true(y[0] > 0.49F && y[0] < 0.51F);
    iobind_binding_destroy(binding);
  }
  iobind_session_destroy(session);
}

/* Rows that are not in use stay what they were, on the CPU as on the device: none of them differs. */
static void of_verified_attention(void **state) {
  (void)state;
  static const int64_t dims[] = {1, HEADS, CAPACITY, SIZE};
  for (int mode = IOBIND_CARRY_DEFAULT; mode <= IOBIND_CARRY_IN_PLACE; mode++) {
    iobind_binding *binding;
    verified_runs = 3;
    iobind_session *session = session_of("shared", 0);
    verified_runs = 0;
    expect_ok(iobind_binding_create(session, &binding, &fault));
    for (size_t i = 1; i <= 2; i++) {
      iobind_tensor *past = filled(dims, 4, 9);
      expect_ok(iobind_binding_set_input(binding, i, IOBIND_INPUT_RESIDENT, past, NULL, &fault));
      expect_ok(iobind_binding_carry(binding, i, i, (iobind_carry_mode)mode, &fault));
      iobind_tensor_release(past);
    }
    run_shared(binding, 3, 0.5F, 0);
    run_shared(binding, 1, 0.25F, LAST);
    expect_ok(iobind_binding_rewind_state(binding, 2, &fault));
    run_shared(binding, 1, 0.125F, LAST);
    iobind_binding_destroy(binding);
    iobind_session_destroy(session);
  }
}

static int32_t written_total(size_t graph_limit) {
  static const int64_t dims[] = {1, HEADS, CAPACITY, SIZE};
  iobind_session *session = session_of("shared", graph_limit);
  iobind_binding *binding;
  iobind_tensor *total;
  int32_t found = 0;
  expect_ok(iobind_binding_create(session, &binding, &fault));
  for (size_t i = 1; i <= 2; i++) {
    iobind_tensor *past = filled(dims, 4, 9);
    expect_ok(iobind_binding_set_input(binding, i, IOBIND_INPUT_RESIDENT, past, NULL, &fault));
    expect_ok(iobind_binding_carry(binding, i, i, IOBIND_CARRY_DEFAULT, &fault));
    iobind_tensor_release(past);
  }
  expect_ok(iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_INT32, NULL, 0, &total, &fault));
  expect_ok(iobind_binding_set_input(binding, 4, IOBIND_INPUT_RESIDENT, total, NULL, &fault));
  run_shared(binding, 3, 0.5F, 0);
  expect_ok(iobind_tensor_read(total, 0, &found, sizeof found, NULL, &fault));
  iobind_tensor_release(total);
  iobind_binding_destroy(binding);
  iobind_session_destroy(session);
  return found;
}

/* A captured graph may be of one value of it, which an EP reads on the host. */
static void total_of_grouped_attention(void **state) {
  (void)state;
  assert_int_equal(written_total(0), 3);
  assert_int_equal(written_total(2), CAPACITY);
}

static const struct CMUnitTest tests[] = {
    {"cpu: advance by runs", advance_by_runs, stage_open, stage_close, "cpu"},
    {"vdev: advance by runs", advance_by_runs, stage_open, stage_close, "vdev"},
    {"vdev: where graphs are captured", where_graphs_are_captured, stage_open, stage_close, "vdev"},
    {"cpu: rewound", rewound, stage_open, stage_close, "cpu"},
    {"vdev: rewound", rewound, stage_open, stage_close, "vdev"},
    {"cpu: in flight", in_flight, stage_open, stage_close, "cpu"},
    {"vdev: in flight", in_flight, stage_open, stage_close, "vdev"},
    {"vdev: that fail late", that_fail_late, stage_open, stage_close, "vdev"},
    {"vdev: that fail late and are verified", that_fail_late_and_are_verified, stage_open, stage_close, "vdev"},
    {"vdev: that are wrong", that_are_wrong, stage_open, stage_close, "vdev"},
    {"vdev: that fail", that_fail, stage_open, stage_close, "vdev"},
    {"cpu: that are cancelled", that_are_cancelled, stage_open, stage_close, "cpu"},
    {"vdev: that are cancelled", that_are_cancelled, stage_open, stage_close, "vdev"},
    {"vdev: that fail before the mode changes", that_fail_before_the_mode_changes, stage_open, stage_close, "vdev"},
    {"vdev: that are refused", that_are_refused, stage_open, stage_close, "vdev"},
    {"vdev: that are refused before a capture", that_are_refused_before_a_capture, stage_open, stage_close, "vdev"},
    {"cpu: that are never made", that_are_never_made, stage_open, stage_close, "cpu"},
    {"vdev: that are not counted", that_are_not_counted, stage_open, stage_close, "vdev"},
    {"vdev: that were not counted before", that_were_not_counted_before, stage_open, stage_close, "vdev"},
    {"cpu: behind one that is not counted", behind_one_that_is_not_counted, stage_open, stage_close, "cpu"},
    {"vdev: behind one that is not counted", behind_one_that_is_not_counted, stage_open, stage_close, "vdev"},
    {"vdev: beside a pipeline", beside_a_pipeline, stage_open, stage_close, "vdev"},
    {"cpu: of other rows", of_other_rows, stage_open, stage_close, "cpu"},
    {"vdev: of other rows", of_other_rows, stage_open, stage_close, "vdev"},
    {"cpu: of rows that do not fit", of_rows_that_do_not_fit, stage_open, stage_close, "cpu"},
    {"cpu: written by the caller", written_by_the_caller, stage_open, stage_close, "cpu"},
    {"vdev: written by the caller", written_by_the_caller, stage_open, stage_close, "vdev"},
    {"cpu: refused", refused, stage_open, stage_close, "cpu"},
    {"vdev: refused", refused, stage_open, stage_close, "vdev"},
    {"cpu: carried by default", carried_by_default, stage_open, stage_close, "cpu"},
    {"vdev: carried by default", carried_by_default, stage_open, stage_close, "vdev"},
    {"refused for their inputs", refused_for_their_inputs, stage_open, stage_close, "cpu"},
    {"of no cache", of_no_cache, stage_open, stage_close, "cpu"},
    {"cpu: of attention", of_attention, stage_open, stage_close, "cpu"},
    {"vdev: of attention", of_attention, stage_open, stage_close, "vdev"},
    {"vdev: of verified attention", of_verified_attention, stage_open, stage_close, "vdev"},
    {"vdev: total of grouped attention", total_of_grouped_attention, stage_open, stage_close, "vdev"},
    {"cpu: of grouped attention", of_grouped_attention, stage_open, stage_close, "cpu"},
    {"vdev: of grouped attention", of_grouped_attention, stage_open, stage_close, "vdev"},
};

FIXTURE_MAIN(tests, NULL, NULL);
