/* Carried states: what only the virtual accelerator shows, by failures on a stream and by its counters. The rows of conformance have the rest. */
#include "stage.h"

#include "vdev.h"

static iobind_session *model(const char *spec) {
  return fixture_session(runtime, device, spec);
}

static iobind_binding *carried(iobind_session *session, iobind_carry_mode mode, iobind_tensor *first) {
  iobind_binding *binding;
  expect_ok(iobind_binding_create(session, &binding, &fault));
  expect_ok(iobind_binding_carry(binding, 0, 0, mode, &fault));
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, first, NULL, &fault));
  return binding;
}

static void run(iobind_binding *binding) {
  expect_ok(iobind_binding_run(binding, NULL, &fault));
}

static iobind_tensor *tensor_of(iobind_dtype dtype, const int64_t *dims, size_t rank, const void *data, size_t bytes) {
  iobind_tensor *tensor;
  expect_ok(iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, dtype, dims, rank, &tensor, &fault));
  expect_ok(iobind_tensor_write(tensor, 0, data, bytes, NULL, &fault));
  return tensor;
}

/* A row is written into a cache of 16 by 8, the state; 99 is not among its rows, which a run finds long after its call. */
enum { CACHE_ROWS = 16, CACHE_COLUMNS = 8 };
static const float no_rows[CACHE_ROWS * CACHE_COLUMNS];
static const float cache_row[CACHE_COLUMNS] = {1, 2, 3, 4, 5, 6, 7, 8};
static const int64_t good_at = 3;
static const int64_t missing_at = 99;

typedef struct cached {
  iobind_session *session;
  iobind_binding *binding;
  iobind_stream *stream;
  iobind_tensor *cache;
  iobind_tensor *last;
  iobind_tensor *at;
} cached;

static cached open_cached(iobind_carry_mode mode) {
  static const int64_t dims[2] = {CACHE_ROWS, CACHE_COLUMNS};
  static const int64_t row_dims[2] = {1, CACHE_COLUMNS};
  static const int64_t at_dims[2] = {1, 1};
  cached made = {.session = model("cache"),
                 .cache = tensor_of(IOBIND_DTYPE_FLOAT32, dims, 2, no_rows, sizeof no_rows),
                 .last = tensor_of(IOBIND_DTYPE_FLOAT32, row_dims, 2, cache_row, sizeof cache_row),
                 .at = tensor_of(IOBIND_DTYPE_INT64, at_dims, 2, &good_at, sizeof good_at)};
  made.binding = carried(made.session, mode, made.cache);
  expect_ok(iobind_stream_create(device, NULL, &made.stream, &fault));
  expect_ok(iobind_binding_set_input(made.binding, 1, IOBIND_INPUT_RESIDENT, made.last, NULL, &fault));
  expect_ok(iobind_binding_set_input(made.binding, 2, IOBIND_INPUT_RESIDENT, made.at, NULL, &fault));
  return made;
}

static void close_cached(cached *self) {
  iobind_binding_destroy(self->binding);
  iobind_stream_destroy(self->stream);
  iobind_tensor_release(self->cache);
  iobind_tensor_release(self->last);
  iobind_tensor_release(self->at);
  iobind_session_destroy(self->session);
}

/* On the stream; it fails when the row is looked up. */
static void submit_missing(const cached *self) {
  expect_ok(iobind_binding_write_input(self->binding, 2, &missing_at, sizeof missing_at, NULL, &fault));
  assert_int_equal(vdev_set(0, "compute_us", "2000"), 0);
  expect_ok(iobind_binding_run(self->binding, self->stream, &fault));
}

static void meet_missing(const cached *self) {
  expect(IOBIND_ERROR_RUNTIME, iobind_stream_synchronize(self->stream, &fault));
  assert_int_equal(vdev_set(0, "compute_us", "0"), 0);
  expect_ok(iobind_binding_write_input(self->binding, 2, &good_at, sizeof good_at, NULL, &fault));
}

static void expect_unknown_state(const cached *self, iobind_stream *stream) {
  expect(IOBIND_ERROR_INVALID_STATE, iobind_binding_run(self->binding, stream, &fault));
  expect_words("the state 'cache' is undefined");
  expect(IOBIND_ERROR_INVALID_STATE, iobind_binding_check(self->binding, &fault));
}

static void goes_on(const cached *self) {
  iobind_tensor *sum;
  expect_ok(iobind_binding_write_input(self->binding, 0, no_rows, sizeof no_rows, NULL, &fault));
  run(self->binding);
  expect_ok(iobind_binding_get_output(self->binding, 1, NULL, &sum, &fault));
  fixture_expect_floats(sum, cache_row, CACHE_COLUMNS);
}

/* A state in place that a run may have written in part, which fails long after its call, is refused by later runs until it is bound or rewritten. */
static void torn_state_is_refused(void **state) {
  (void)state;
  cached self = open_cached(IOBIND_CARRY_IN_PLACE);
  for (int bound = 0; bound < 2; bound++) {
    run(self.binding);
    submit_missing(&self);
    meet_missing(&self);
    expect_unknown_state(&self, bound ? self.stream : NULL);
    if (bound) {
      expect_ok(iobind_binding_set_input(self.binding, 0, IOBIND_INPUT_RESIDENT, self.cache, NULL, &fault));
    }
    goes_on(&self);
  }
  close_cached(&self);
}

/* A run has taken over the state of one that is in flight, and is refused by the device; then the first one fails, too. */
static void state_of_a_failed_run_is_refused(void **state) {
  (void)state;
  for (int mode = IOBIND_CARRY_MOVE; mode <= IOBIND_CARRY_IN_PLACE; mode++) {
    cached self = open_cached((iobind_carry_mode)mode);
    run(self.binding);
    submit_missing(&self);
    assert_int_equal(vdev_set(0, "fail_compute", "1"), 0);
    expect(IOBIND_ERROR_RUNTIME, iobind_binding_run(self.binding, self.stream, &fault));
    assert_int_equal(vdev_set(0, "fail_compute", "0"), 0);
    meet_missing(&self);
    expect_unknown_state(&self, NULL);
    goes_on(&self);
    close_cached(&self);
  }
}

/* Beside a state that grows, a REUSE output whose dims the model fixes keeps its memory; where an open dim may follow the state's, it
 * cannot. */
static void reused_beside_a_growing_state(void **state) {
  (void)state;
  enum { STEPS = 8, WIDTH = 8 };
  static const float none[1];
  static const int64_t empty[2] = {0, WIDTH};
  static const int64_t one = 1;
  const int64_t token = 3;
  int64_t allocations[2];
  for (int fixed = 0; fixed < 2; fixed++) {
    iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
    const char *names[1] = {"new"};
    options.devices = &device;
    options.device_count = 1;
    options.dim_names = names;
    options.dim_values = &one;
    options.dim_count = (size_t)fixed;
    iobind_session *session;
    iobind_binding *binding;
    expect_ok(test_session_with(runtime, "decoder", &options, &session, &fault));
    expect_ok(iobind_binding_create(session, &binding, &fault));
    iobind_tensor *tokens = tensor_of(IOBIND_DTYPE_INT64, &one, 1, &token, sizeof token);
    iobind_tensor *past = tensor_of(IOBIND_DTYPE_FLOAT32, empty, 2, none, 0);
    expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, tokens, NULL, &fault));
    expect_ok(iobind_binding_place_output(binding, 0, IOBIND_OUTPUT_REUSE, NULL, IOBIND_MEMORY_DEFAULT, &fault));
    expect_ok(iobind_binding_place_output(binding, 3, IOBIND_OUTPUT_NONE, NULL, IOBIND_MEMORY_DEFAULT, &fault));
    for (size_t i = 1; i < 3; i++) {
      expect_ok(iobind_binding_set_input(binding, i, IOBIND_INPUT_RESIDENT, past, NULL, &fault));
      expect_ok(iobind_binding_carry(binding, i, i, IOBIND_CARRY_MOVE, &fault));
    }
    run(binding);
    iobind_tensor *logits;
    expect_ok(iobind_binding_get_output(binding, 0, NULL, &logits, &fault));
    const void *address = iobind_tensor_get_address(logits);
    int64_t before = vdev_get(0, "allocations");
    for (int i = 0; i < STEPS; i++) {
      run(binding);
      expect_ok(iobind_binding_get_output(binding, 0, NULL, &logits, &fault));
      assert_true(!fixed || iobind_tensor_get_address(logits) == address);
    }
    allocations[fixed] = vdev_get(0, "allocations") - before;
    iobind_tensor_release(tokens);
    iobind_tensor_release(past);
    iobind_binding_destroy(binding);
    iobind_session_destroy(session);
  }
  assert_int_equal(allocations[0] - allocations[1], STEPS);
}

/* On a device: nothing crosses the link, and two buffers are all that is ever made. */
static void states_stay_on_the_device(void **state) {
  (void)state;
  static const float ones[2] = {1, 1};
  iobind_session *session = model("scale");
  iobind_tensor *first = fixture_floats(device, ones, 2);
  iobind_binding *binding = carried(session, IOBIND_CARRY_SWAP, first);
  for (int i = 0; i < 4; i++) {
    run(binding);
  }
  int64_t allocations = vdev_get(0, "allocations");
  int64_t up = vdev_get(0, "h2d_bytes");
  int64_t down = vdev_get(0, "d2h_bytes");
  int64_t local = vdev_get(0, "d2d_bytes");
  for (int i = 0; i < 100; i++) {
    run(binding);
  }
  assert_int_equal(vdev_get(0, "allocations"), allocations);
  assert_int_equal(vdev_get(0, "h2d_bytes"), up);
  assert_int_equal(vdev_get(0, "d2h_bytes"), down);
  assert_int_equal(vdev_get(0, "d2d_bytes"), local);
  iobind_tensor_release(first);
  iobind_binding_destroy(binding);
  iobind_session_destroy(session);
}

/* A state that a run has made larger than the session's fixed dim allows is refused by iobind, before ORT sees it. A row tests the same;
 * fuzz/mutants.py links its defects into this program. */
static void moved_state_outgrows_a_fixed_dim(void **state) {
  (void)state;
  static const float six[6] = {1, 2, 3, 4, 5, 6};
  static const int64_t two_rows[2] = {2, 3};
  static const int64_t one_row[2] = {1, 3};
  static const int64_t two = 2;
  static const char *const name = "past";
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  options.devices = &device;
  options.device_count = 1;
  options.dim_names = &name;
  options.dim_values = &two;
  options.dim_count = 1;
  iobind_session *session;
  expect_ok(test_session_with(runtime, "concat", &options, &session, &fault));
  iobind_tensor *past = tensor_of(IOBIND_DTYPE_FLOAT32, two_rows, 2, six, sizeof six);
  iobind_tensor *row = tensor_of(IOBIND_DTYPE_FLOAT32, one_row, 2, six, sizeof six / 2);
  iobind_binding *binding = carried(session, IOBIND_CARRY_MOVE, past);
  expect_ok(iobind_binding_set_input(binding, 1, IOBIND_INPUT_RESIDENT, row, NULL, &fault));
  run(binding);
  expect(IOBIND_ERROR_SHAPE, iobind_binding_run(binding, NULL, &fault));
  expect_words("binding_run: 'first'");
  iobind_tensor_release(past);
  iobind_tensor_release(row);
  iobind_binding_destroy(binding);
  iobind_session_destroy(session);
}

/* A result that the caller has bound elsewhere before the save is written there: so the state is a copy of it. */
static void kept_result_is_copied(void **state) {
  (void)state;
  static const float ones[2] = {1, 1};
  static const float two[2] = {2, 2};
  static const float nine[2] = {9, 9};
  iobind_session *session = model("scale");
  iobind_tensor *first = fixture_floats(device, ones, 2);
  iobind_tensor *others = fixture_floats(device, nine, 2);
  iobind_binding *binding = carried(session, IOBIND_CARRY_MOVE, first);
  iobind_binding *other;
  iobind_tensor *result;
  iobind_state *saved;
  iobind_state_pair pair = IOBIND_STATE_PAIR_INIT;
  run(binding);
  expect_ok(iobind_binding_get_output(binding, 0, NULL, &result, &fault));
  expect_ok(iobind_binding_create(session, &other, &fault));
  expect_ok(iobind_binding_set_input(other, 0, IOBIND_INPUT_RESIDENT, others, NULL, &fault));
  expect_ok(iobind_binding_set_output(other, 0, result, 0, &fault));
  expect_ok(iobind_binding_save_state(binding, &saved, &fault));
  run(other);
  expect_ok(iobind_state_get_pair(saved, 0, &pair, &fault));
  fixture_expect_floats(pair.tensor, two, 2);
  iobind_state_release(saved);
  iobind_tensor_release(first);
  iobind_tensor_release(others);
  iobind_binding_destroy(binding);
  iobind_binding_destroy(other);
  iobind_session_destroy(session);
}

/* A restored state that was copied only in part is refused by runs until it is restored again. */
static void restore_that_fails_is_refused(void **state) {
  (void)state;
  static const float ones[2] = {1, 1};
  static const float four[2] = {4, 4};
  iobind_session *session = model("scale");
  iobind_tensor *first = fixture_floats(device, ones, 2);
  iobind_binding *binding = carried(session, IOBIND_CARRY_IN_PLACE, first);
  iobind_state *saved;
  iobind_tensor *result;
  run(binding);
  expect_ok(iobind_binding_save_state(binding, &saved, &fault));
  run(binding);
  run(binding);
  assert_int_equal(vdev_set(0, "fail_copy", "1"), 0);
  expect(IOBIND_ERROR_RUNTIME, iobind_binding_restore_state(binding, saved, &fault));
  assert_int_equal(vdev_set(0, "fail_copy", "0"), 0);
  expect(IOBIND_ERROR_INVALID_STATE, iobind_binding_run(binding, NULL, &fault));
  expect_words("is undefined");
  expect_ok(iobind_binding_restore_state(binding, saved, &fault));
  run(binding);
  expect_ok(iobind_binding_get_output(binding, 0, NULL, &result, &fault));
  fixture_expect_floats(result, four, 2);
  iobind_state_release(saved);
  iobind_tensor_release(first);
  iobind_binding_destroy(binding);
  iobind_session_destroy(session);
}

/* One state in place, and a number that goes up by 1 in each run. */
static iobind_binding *open_counter(iobind_session *session, iobind_carry_mode mode) {
  iobind_binding *binding = stage_bind_voices(session);
  expect_ok(iobind_binding_carry(binding, STAGE_VOICES_B, STAGE_VOICES_B, IOBIND_CARRY_IN_PLACE, &fault));
  expect_ok(iobind_binding_carry(binding, STAGE_VOICES_COUNT, STAGE_VOICES_COUNT, mode, &fault));
  return binding;
}

static int64_t saved_count(iobind_state *saved) {
  iobind_state_pair pair = IOBIND_STATE_PAIR_INIT;
  int64_t count;
  expect_ok(iobind_state_get_pair(saved, 1, &pair, &fault));
  expect_ok(iobind_tensor_read(pair.tensor, 0, &count, sizeof count, NULL, &fault));
  return count;
}

/* Beside a state that was copied only in part, the other one is still what the last run has left: also if that was saved. */
static void restore_that_fails_leaves_the_others(void **state) {
  (void)state;
  static const float none[2];
  iobind_session *session = model("voices width=2");
  for (int mode = IOBIND_CARRY_MOVE; mode <= IOBIND_CARRY_SWAP; mode++) {
    iobind_binding *binding = open_counter(session, (iobind_carry_mode)mode);
    iobind_state *saved[3];
    run(binding);
    expect_ok(iobind_binding_save_state(binding, &saved[0], &fault));
    run(binding);
    expect_ok(iobind_binding_save_state(binding, &saved[1], &fault));
    assert_int_equal(vdev_set(0, "fail_copy", "1"), 0);
    expect(IOBIND_ERROR_RUNTIME, iobind_binding_restore_state(binding, saved[0], &fault));
    assert_int_equal(vdev_set(0, "fail_copy", "0"), 0);
    expect_ok(iobind_binding_write_input(binding, STAGE_VOICES_B, none, sizeof none, NULL, &fault));
    run(binding);
    expect_ok(iobind_binding_save_state(binding, &saved[2], &fault));
    assert_int_equal(saved_count(saved[2]), 3);
    assert_int_equal(vdev_set(0, "fail_copy", "1"), 0);
    expect(IOBIND_ERROR_RUNTIME, iobind_binding_restore_state(binding, saved[0], &fault));
    assert_int_equal(vdev_set(0, "fail_copy", "0"), 0);
    expect_ok(iobind_binding_write_input(binding, STAGE_VOICES_COUNT, &(int64_t){7}, sizeof(int64_t), NULL, &fault));
    for (int64_t i = 0; i < 3; i++) {
      assert_int_equal(saved_count(saved[i]), i + 1);
      iobind_state_release(saved[i]);
    }
    iobind_binding_destroy(binding);
  }
  iobind_session_destroy(session);
}

/* What was saved by reference costs no copy, and one new buffer where two are swapped; in place it is one copy, each way. */
static void saved_states_copy_what_they_must(void **state) {
  (void)state;
  enum { BYTES = 8 };
  static const float ones[2] = {1, 1};
  static const int64_t copied[] = {[IOBIND_CARRY_IN_PLACE] = 2 * (int64_t)BYTES};
  for (int mode = IOBIND_CARRY_MOVE; mode <= IOBIND_CARRY_IN_PLACE; mode++) {
    iobind_session *session = model("scale");
    iobind_tensor *first = fixture_floats(device, ones, 2);
    iobind_binding *binding = carried(session, (iobind_carry_mode)mode, first);
    iobind_state *saved;
    run(binding);
    run(binding);
    run(binding);
    int64_t allocations = vdev_get(0, "allocations");
    int64_t up = vdev_get(0, "h2d_bytes");
    int64_t down = vdev_get(0, "d2h_bytes");
    int64_t local = vdev_get(0, "d2d_bytes");
    expect_ok(iobind_binding_save_state(binding, &saved, &fault));
    assert_int_equal(vdev_get(0, "allocations") - allocations, mode == IOBIND_CARRY_IN_PLACE ? 1 : 0);
    expect_ok(iobind_binding_restore_state(binding, saved, &fault));
    assert_int_equal(vdev_get(0, "allocations") - allocations, mode == IOBIND_CARRY_IN_PLACE ? 1 : 0);
    assert_int_equal(vdev_get(0, "h2d_bytes"), up);
    assert_int_equal(vdev_get(0, "d2h_bytes"), down);
    assert_int_equal(vdev_get(0, "d2d_bytes") - local, copied[mode]);
    iobind_state_release(saved);
    iobind_tensor_release(first);
    iobind_binding_destroy(binding);
    iobind_session_destroy(session);
  }
}

/* On a stream a save waits for nothing. As long as the host does not know that the copy is complete, no run on another stream writes over the
 * state. */
static void save_in_flight_does_not_wait(void **state) {
  (void)state;
  static const float ones[2] = {1, 1};
  static const float two[2] = {2, 2};
  static const float four[2] = {4, 4};
  for (int mode = IOBIND_CARRY_MOVE; mode <= IOBIND_CARRY_IN_PLACE; mode++) {
    iobind_session *session = model("scale");
    iobind_tensor *first = fixture_floats(device, ones, 2);
    iobind_binding *binding = carried(session, (iobind_carry_mode)mode, first);
    iobind_stream *stream;
    iobind_event *event;
    iobind_state *saved;
    iobind_tensor *result;
    iobind_stream *other;
    expect_ok(iobind_stream_create(device, NULL, &stream, &fault));
    expect_ok(iobind_stream_create(device, NULL, &other, &fault));
    expect_ok(iobind_event_create(device, &event, &fault));
    expect_ok(iobind_binding_run(binding, stream, &fault));
    expect_ok(iobind_event_record(event, stream, &fault));
    expect_ok(iobind_binding_save_state(binding, &saved, &fault)); /* its copies are ordered after the event */
    expect_ok(iobind_event_wait(event, IOBIND_NO_TIMEOUT, &fault));
    const bool copies = mode == IOBIND_CARRY_IN_PLACE;
    fixture_arm();
    assert_int_equal(iobind_binding_run(binding, other, &fault), copies ? IOBIND_ERROR_INVALID_STATE : IOBIND_OK);
    expect_ok(iobind_stream_synchronize(stream, &fault));
    expect_ok(iobind_stream_synchronize(other, &fault));
    if (copies) {
      run(binding);
    }
    iobind_state_pair pair = IOBIND_STATE_PAIR_INIT;
    expect_ok(iobind_state_get_pair(saved, 0, &pair, &fault));
    fixture_expect_floats(pair.tensor, two, 2);
    expect_ok(iobind_binding_get_output(binding, 0, NULL, &result, &fault));
    fixture_expect_floats(result, four, 2);
    iobind_state_release(saved);
    iobind_event_destroy(event);
    iobind_stream_destroy(stream);
    iobind_stream_destroy(other);
    iobind_tensor_release(first);
    iobind_binding_destroy(binding);
    iobind_session_destroy(session);
  }
}

/* Another binding continues from a state that a run in flight makes, on another stream. */
static void restored_in_flight_is_waited_for(void **state) {
  (void)state;
  static const float ones[2] = {1, 1};
  static const float four[2] = {4, 4};
  iobind_session *session = model("scale");
  iobind_tensor *first = fixture_floats(device, ones, 2);
  iobind_binding *binding = carried(session, IOBIND_CARRY_MOVE, first);
  iobind_binding *branch = carried(session, IOBIND_CARRY_MOVE, first);
  iobind_stream *stream;
  iobind_stream *other;
  iobind_state *saved;
  iobind_tensor *result;
  expect_ok(iobind_stream_create(device, NULL, &stream, &fault));
  expect_ok(iobind_stream_create(device, NULL, &other, &fault));
  assert_int_equal(vdev_set(0, "race", "fail"), 0);
  expect_ok(iobind_binding_run(binding, stream, &fault));
  expect_ok(iobind_binding_save_state(binding, &saved, &fault));
  expect_ok(iobind_binding_restore_state(branch, saved, &fault));
  expect_ok(iobind_binding_run(branch, other, &fault));
  expect_ok(iobind_stream_synchronize(other, &fault));
  assert_int_equal(vdev_set(0, "race", "off"), 0);
  expect_ok(iobind_binding_get_output(branch, 0, NULL, &result, &fault));
  fixture_expect_floats(result, four, 2);
  iobind_state_release(saved);
  iobind_binding_destroy(branch);
  iobind_binding_destroy(binding);
  iobind_stream_destroy(other);
  iobind_stream_destroy(stream);
  iobind_tensor_release(first);
  iobind_session_destroy(session);
}

/* The last run's result is the state, and the caller has bound it to the other input, too: it cannot be carried in place. */
static void refused_carry_leaves_the_results(void **state) {
  (void)state;
  static const float two[1] = {2};
  static const float four[1] = {4};
  static const float eight[1] = {8};
  iobind_session *session = model("add");
  iobind_tensor *first = fixture_floats(device, two, 1);
  iobind_tensor *result;
  iobind_binding *binding = carried(session, IOBIND_CARRY_MOVE, first);
  expect_ok(iobind_binding_set_input(binding, 1, IOBIND_INPUT_RESIDENT, first, NULL, &fault));
  run(binding);
  expect_ok(iobind_binding_get_output(binding, 0, NULL, &result, &fault));
  expect_ok(iobind_binding_set_input(binding, 1, IOBIND_INPUT_RESIDENT, result, NULL, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_binding_carry(binding, 0, 0, IOBIND_CARRY_IN_PLACE, &fault));
  expect_ok(iobind_binding_get_output(binding, 0, NULL, &result, &fault));
  fixture_expect_floats(result, four, 1);
  run(binding); /* the carry continues */
  expect_ok(iobind_binding_get_output(binding, 0, NULL, &result, &fault));
  fixture_expect_floats(result, eight, 1);
  iobind_binding_destroy(binding);
  iobind_tensor_release(first);
  iobind_session_destroy(session);
}

static const struct CMUnitTest tests[] = {
    {"cpu: moved state outgrows a fixed dim", moved_state_outgrows_a_fixed_dim, stage_open, stage_close, "cpu"},
    {"torn state is refused", torn_state_is_refused, stage_open, stage_close, "vdev"},
    {"state of a failed run is refused", state_of_a_failed_run_is_refused, stage_open, stage_close, "vdev"},
    {"reused beside a growing state", reused_beside_a_growing_state, stage_open, stage_close, "vdev"},
    {"cpu: kept result is copied", kept_result_is_copied, stage_open, stage_close, "cpu"},
    {"restore that fails is refused", restore_that_fails_is_refused, stage_open, stage_close, "vdev"},
    {"restore that fails leaves the others", restore_that_fails_leaves_the_others, stage_open, stage_close, "vdev"},
    {"saved states copy what they must", saved_states_copy_what_they_must, stage_open, stage_close, "vdev"},
    {"save in flight does not wait", save_in_flight_does_not_wait, stage_open, stage_close, "vdev"},
    {"restored in flight is waited for", restored_in_flight_is_waited_for, stage_open, stage_close, "vdev"},
    {"refused carry leaves the results", refused_carry_leaves_the_results, stage_open, stage_close, "vdev"},
    {"states stay on the device", states_stay_on_the_device, stage_open, stage_close, "vdev"},
};

FIXTURE_MAIN(tests, NULL, NULL);
