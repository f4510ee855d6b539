/* Outputs that become the next run's inputs, on the processor and on the virtual accelerator, whose counters tell what moved. */
#include "fixture.h"

#include <stdlib.h>
#include <string.h>

#include "models.h"
#include "vdev.h"

static iobind_runtime *runtime;
static const char *spec_of_test;
static iobind_device *device; /* found by `model`: a test can be skipped, its set-up cannot */

static int start(void **state) {
  runtime = fixture_runtime();
  spec_of_test = *state;
  return 0;
}

static int stop(void **state) {
  (void)state;
  iobind_runtime_destroy(runtime);
  return 0;
}

static iobind_session *model(const char *spec) {
  device = fixture_device(runtime, spec_of_test);
  return fixture_session(runtime, device, spec);
}

static iobind_binding *carried(iobind_session *session, iobind_carry_mode mode, iobind_tensor *first, iobind_input_mode bound) {
  iobind_binding *binding;
  expect_ok(iobind_binding_create(session, &binding, &fault));
  expect_ok(iobind_binding_carry(binding, 0, 0, mode, &fault));
  expect_ok(iobind_binding_set_input(binding, 0, bound, first, NULL, &fault));
  return binding;
}

static void run(iobind_binding *binding) {
  expect_ok(iobind_binding_run(binding, NULL, &fault));
}

static void expect_state(iobind_binding *binding, float value) {
  const float values[2] = {value, value};
  iobind_tensor *state;
  expect_ok(iobind_binding_get_output(binding, 0, NULL, &state, &fault));
  fixture_expect_floats(state, values, 2);
}

static const float ones[2] = {1, 1};

/* y = 2 x: after n runs the state is 2 to the n. In every mode; the first state is only read, unless it is carried in place. */
static void doubles(void **state, iobind_carry_mode mode) {
  (void)state;
  iobind_session *session = model("scale");
  iobind_tensor *first = fixture_floats(device, ones, 2);
  iobind_binding *binding = carried(session, mode, first, IOBIND_INPUT_RESIDENT);
  for (int expected = 2; expected < 100; expected *= 2) {
    run(binding);
    expect_state(binding, (float)expected);
  }
  if (mode != IOBIND_CARRY_IN_PLACE) {
    fixture_expect_floats(first, ones, 2);
  }
  /* reset to a given state, and once more without fetching in between */
  iobind_tensor *again = fixture_floats(device, ones, 2);
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_SNAPSHOT, again, NULL, &fault));
  run(binding);
  run(binding);
  run(binding);
  expect_state(binding, 8);
  fixture_expect_floats(again, ones, 2);
  expect_ok(iobind_binding_write_input(binding, 0, ones, sizeof ones, NULL, &fault));
  run(binding);
  expect_state(binding, 2);
  iobind_tensor_release(again);
  iobind_tensor_release(first);
  iobind_binding_destroy(binding);
  iobind_session_destroy(session);
}

static void moves(void **state) {
  doubles(state, IOBIND_CARRY_MOVE);
}

static void swaps(void **state) {
  doubles(state, IOBIND_CARRY_SWAP);
}

static void in_place(void **state) {
  doubles(state, IOBIND_CARRY_IN_PLACE);
}

/* What was taken, or kept where the mode says so, is not overwritten, and is the next state all the same. */
static void taken_states_stay(void **state) {
  (void)state;
  static const iobind_carry_mode modes[] = {IOBIND_CARRY_MOVE, IOBIND_CARRY_SWAP};
  iobind_session *session = model("scale");
  for (size_t m = 0; m < 2; m++) {
    iobind_tensor *first = fixture_floats(device, ones, 2);
    iobind_binding *binding = carried(session, modes[m], first, IOBIND_INPUT_RESIDENT);
    iobind_tensor *taken[4];
    for (int i = 0; i < 4; i++) {
      run(binding);
      expect_ok(iobind_binding_take_output(binding, 0, &taken[i], &fault));
      iobind_tensor *twice;
      expect(IOBIND_ERROR_INVALID_STATE, iobind_binding_take_output(binding, 0, &twice, &fault));
    }
    run(binding);
    run(binding);
    expect_state(binding, 64);
    for (int i = 0; i < 4; i++) {
      const float expected[2] = {(float)(2 << i), (float)(2 << i)};
      fixture_expect_floats(taken[i], expected, 2);
      iobind_tensor_release(taken[i]);
    }
    iobind_tensor_release(first);
    iobind_binding_destroy(binding);
  }
  iobind_session_destroy(session);
}

/* A state that grows from nothing, one row a run; the other input is rewritten. */
static void grows_from_nothing(void **state) {
  (void)state;
  iobind_session *session = model("concat");
  const int64_t none[2] = {0, 3};
  const int64_t row[2] = {1, 3};
  enum { STEPS = 9 };
  iobind_tensor *past;
  iobind_tensor *latest;
  expect_ok(iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, none, 2, &past, &fault));
  expect_ok(iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, row, 2, &latest, &fault));
  iobind_binding *binding = carried(session, IOBIND_CARRY_MOVE, past, IOBIND_INPUT_RESIDENT);
  expect_ok(iobind_binding_set_input(binding, 1, IOBIND_INPUT_RESIDENT, latest, NULL, &fault));
  float expected[STEPS][3];
  for (int i = 0; i < STEPS; i++) {
    for (int j = 0; j < 3; j++) {
      expected[i][j] = (float)(10 * i + j);
    }
    expect_ok(iobind_tensor_write(latest, 0, expected[i], sizeof expected[i], NULL, &fault));
    run(binding);
  }
  iobind_tensor *whole;
  iobind_tensor_info info = IOBIND_TENSOR_INFO_INIT;
  expect_ok(iobind_binding_take_output(binding, 0, &whole, &fault));
  expect_ok(iobind_tensor_get_info(whole, &info, &fault));
  assert_int_equal(info.dims[0], STEPS);
  float back[STEPS][3];
  expect_ok(iobind_tensor_read(whole, 0, back, sizeof back, NULL, &fault));
  assert_memory_equal(back, expected, sizeof back);
  iobind_tensor_release(whole);
  iobind_tensor_release(past);
  iobind_tensor_release(latest);
  iobind_binding_destroy(binding);
  iobind_session_destroy(session);
}

/* Two states of one model, carried in two ways: x becomes x + y, and y becomes x y. */
static void two_ways_at_once(void **state) {
  (void)state;
  iobind_session *session = model("pair");
  for (size_t swapped = 0; swapped < 2; swapped++) {
    iobind_tensor *first = fixture_floats(device, ones, 2);
    iobind_binding *binding;
    expect_ok(iobind_binding_create(session, &binding, &fault));
    for (size_t i = 0; i < 2; i++) {
      expect_ok(iobind_binding_carry(binding, i, i, i == swapped ? IOBIND_CARRY_SWAP : IOBIND_CARRY_MOVE, &fault));
      expect_ok(iobind_binding_set_input(binding, i, IOBIND_INPUT_RESIDENT, first, NULL, &fault));
    }
    float x = 1;
    float y = 1;
    for (int i = 0; i < 6; i++) {
      run(binding);
      const float both[2] = {x + y, x * y};
      x = both[0];
      y = both[1];
      for (size_t output = 0; output < 2 && i % 2 == 0; output++) { /* fetched, and not fetched */
        const float values[2] = {both[output], both[output]};
        iobind_tensor *next;
        expect_ok(iobind_binding_get_output(binding, output, NULL, &next, &fault));
        fixture_expect_floats(next, values, 2);
      }
    }
    fixture_expect_floats(first, ones, 2);
    iobind_tensor_release(first);
    iobind_binding_destroy(binding);
  }
  iobind_session_destroy(session);
}

/* A run that fails leaves the state as it was: the next one goes on from there. */
static void failed_run_keeps_the_state(void **state) {
  if (strcmp(*state, "vdev") != 0) {
    skip(); /* where runs can be made to fail */
  }
  iobind_session *session = model("scale");
  for (int mode = IOBIND_CARRY_MOVE; mode <= IOBIND_CARRY_SWAP; mode++) {
    iobind_tensor *first = fixture_floats(device, ones, 2);
    iobind_binding *binding = carried(session, (iobind_carry_mode)mode, first, IOBIND_INPUT_RESIDENT);
    run(binding);
    run(binding);
    assert_int_equal(vdev_set(0, "fail_compute", "1"), 0);
    expect(IOBIND_ERROR_RUNTIME, iobind_binding_run(binding, NULL, &fault));
    assert_int_equal(vdev_set(0, "fail_compute", "0"), 0);
    run(binding);
    expect_state(binding, 8);
    iobind_tensor_release(first);
    iobind_binding_destroy(binding);
  }
  iobind_session_destroy(session);
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
  made.binding = carried(made.session, mode, made.cache, IOBIND_INPUT_RESIDENT);
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

/* A state in place that a run may have written in part, whether the run fails at once or long after its call, is not gone on from: it
 * is bound or rewritten. */
static void torn_state_is_refused(void **state) {
  if (strcmp(*state, "vdev") != 0) {
    skip(); /* where runs can be made to fail */
  }
  cached self = open_cached(IOBIND_CARRY_IN_PLACE);
  for (int way = 0; way < 3; way++) {
    run(self.binding);
    if (way == 0) { /* at once */
      assert_int_equal(vdev_set(0, "fail_compute", "1"), 0);
      expect(IOBIND_ERROR_RUNTIME, iobind_binding_run(self.binding, NULL, &fault));
      assert_int_equal(vdev_set(0, "fail_compute", "0"), 0);
    } else {
      submit_missing(&self);
      meet_missing(&self);
    }
    expect_unknown_state(&self, way == 1 ? self.stream : NULL);
    if (way == 1) {
      expect_ok(iobind_binding_set_input(self.binding, 0, IOBIND_INPUT_RESIDENT, self.cache, NULL, &fault));
    }
    goes_on(&self);
  }
  close_cached(&self);
}

/* A run has taken over the state of one that is in flight, and is refused by the device; then the first one fails, too. */
static void state_of_a_failed_run_is_refused(void **state) {
  if (strcmp(*state, "vdev") != 0) {
    skip(); /* where runs can be made to fail */
  }
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

/* A state that a run has made larger than the session's fixed dim allows is refused in iobind's words, before ORT sees it. */
static void moved_state_outgrows_a_fixed_dim(void **state) {
  static const float six[6] = {1, 2, 3, 4, 5, 6};
  static const int64_t two_rows[2] = {2, 3};
  static const int64_t one_row[2] = {1, 3};
  static const int64_t two = 2;
  static const char *const name = "past";
  device = fixture_device(runtime, *state);
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  options.devices = &device;
  options.device_count = 1;
  options.dim_names = &name;
  options.dim_values = &two;
  options.dim_count = 1;
  iobind_session *session;
  iobind_binding *binding;
  expect_ok(test_session_with(runtime, "concat", &options, &session, &fault));
  expect_ok(iobind_binding_create(session, &binding, &fault));
  iobind_tensor *past = tensor_of(IOBIND_DTYPE_FLOAT32, two_rows, 2, six, sizeof six);
  iobind_tensor *row = tensor_of(IOBIND_DTYPE_FLOAT32, one_row, 2, six, sizeof six / 2);
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, past, NULL, &fault));
  expect_ok(iobind_binding_set_input(binding, 1, IOBIND_INPUT_RESIDENT, row, NULL, &fault));
  expect_ok(iobind_binding_carry(binding, 0, 0, IOBIND_CARRY_MOVE, &fault));
  run(binding);
  for (int i = 0; i < 2; i++) {
    expect(IOBIND_ERROR_SHAPE, iobind_binding_run(binding, NULL, &fault));
    expect_words("binding_run: 'first'");
  }
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, past, NULL, &fault));
  run(binding);
  iobind_tensor_release(past);
  iobind_tensor_release(row);
  iobind_binding_destroy(binding);
  iobind_session_destroy(session);
}

/* Beside a state that grows, a REUSE output whose dims the model fixes keeps its memory; where an open dim may follow the state's, it
 * cannot. */
static void reused_beside_a_growing_state(void **state) {
  if (strcmp(*state, "vdev") != 0) {
    skip(); /* its counters are asked */
  }
  enum { STEPS = 8, WIDTH = 8 };
  static const float none[1];
  static const int64_t empty[2] = {0, WIDTH};
  static const int64_t one = 1;
  const int64_t token = 3;
  int64_t allocations[2];
  device = fixture_device(runtime, spec_of_test);
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
  if (strcmp(*state, "vdev") != 0) {
    skip(); /* its counters are asked */
  }
  iobind_session *session = model("scale");
  iobind_tensor *first = fixture_floats(device, ones, 2);
  iobind_binding *binding = carried(session, IOBIND_CARRY_SWAP, first, IOBIND_INPUT_RESIDENT);
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

static void what_cannot_be_carried(void **state) {
  (void)state;
  iobind_session *session = model("concat");
  iobind_binding *binding;
  iobind_tensor *first = fixture_floats(device, ones, 2);
  expect_ok(iobind_binding_create(session, &binding, &fault));
  expect(IOBIND_ERROR_NOT_FOUND, iobind_binding_carry(binding, 1, 0, IOBIND_CARRY_MOVE, &fault));
  expect_words("output");
  expect(IOBIND_ERROR_NOT_FOUND, iobind_binding_carry(binding, 0, 2, IOBIND_CARRY_MOVE, &fault));
  expect_words("input");
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_binding_carry(binding, 0, 0, (iobind_carry_mode)3, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_binding_carry(NULL, 0, 0, IOBIND_CARRY_MOVE, &fault));
  expect_ok(iobind_binding_carry(binding, 0, 0, IOBIND_CARRY_MOVE, &fault));
  expect(IOBIND_ERROR_INVALID_STATE, iobind_binding_run(binding, NULL, &fault));
  expect_words("'first' is not bound");
  expect(IOBIND_ERROR_SHAPE, iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, first, NULL, &fault));
  iobind_binding_destroy(binding);
  iobind_tensor_release(first);
  iobind_session_destroy(session);
}

/* The state that a run left is what the next one reads: no output may lie there, whether the caller took it or borrowed it. */
static void no_output_in_the_state(void **state) {
  (void)state;
  static const iobind_carry_mode modes[] = {IOBIND_CARRY_MOVE, IOBIND_CARRY_SWAP};
  iobind_session *session = model("multi");
  iobind_tensor *first = fixture_floats(device, ones, 2);
  for (size_t mode = 0; mode < 2; mode++) {
    for (size_t output = 0; output < 2; output++) {
      iobind_binding *binding = carried(session, modes[mode], first, IOBIND_INPUT_RESIDENT);
      iobind_tensor *left;
      run(binding);
      expect_ok(iobind_binding_take_output(binding, 0, &left, &fault));
      expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_binding_set_output(binding, output, left, 0, &fault));
      expect_words("overlaps the memory of input 'x'");
      run(binding);
      expect_state(binding, 4);
      iobind_tensor_release(left);
      iobind_binding_destroy(binding);
    }
  }
  iobind_tensor_release(first);
  iobind_session_destroy(session);
}

/* New data in a swapped state, and then another one, before the next run: an output that is reused lies on either side. */
static void rebound_beside_a_swap(void **state) {
  (void)state;
  static const float threes[2] = {3, 3};
  static const float nines[2] = {9, 9};
  iobind_session *session = model("multi");
  iobind_tensor *first = fixture_floats(device, ones, 2);
  iobind_tensor *second = fixture_floats(device, threes, 2);
  iobind_tensor *product;
  iobind_binding *binding = carried(session, IOBIND_CARRY_SWAP, first, IOBIND_INPUT_RESIDENT);
  expect_ok(iobind_binding_place_output(binding, 1, IOBIND_OUTPUT_REUSE, NULL, IOBIND_MEMORY_DEFAULT, &fault));
  run(binding);
  expect_ok(iobind_binding_write_input(binding, 0, ones, sizeof ones, NULL, &fault));
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, second, NULL, &fault));
  run(binding);
  expect_state(binding, 6);
  expect_ok(iobind_binding_get_output(binding, 1, NULL, &product, &fault));
  fixture_expect_floats(product, nines, 2);
  iobind_binding_destroy(binding);
  iobind_tensor_release(second);
  iobind_tensor_release(first);
  iobind_session_destroy(session);
}

#define CASES(spec)                                                                                       \
  {#spec ": moves", moves, start, stop, #spec}, {#spec ": swaps", swaps, start, stop, #spec},             \
      {#spec ": in place", in_place, start, stop, #spec},                                                 \
      {#spec ": taken states stay", taken_states_stay, start, stop, #spec},                               \
      {#spec ": grows from nothing", grows_from_nothing, start, stop, #spec},                             \
      {#spec ": two ways at once", two_ways_at_once, start, stop, #spec},                                 \
      {#spec ": failed run keeps the state", failed_run_keeps_the_state, start, stop, #spec},             \
      {#spec ": torn state is refused", torn_state_is_refused, start, stop, #spec},                       \
      {#spec ": state of a failed run is refused", state_of_a_failed_run_is_refused, start, stop, #spec}, \
      {#spec ": reused beside a growing state", reused_beside_a_growing_state, start, stop, #spec},       \
      {#spec ": moved state outgrows a fixed dim", moved_state_outgrows_a_fixed_dim, start, stop, #spec}, \
      {#spec ": states stay on the device", states_stay_on_the_device, start, stop, #spec},               \
      {#spec ": no output in the state", no_output_in_the_state, start, stop, #spec},                     \
      {#spec ": rebound beside a swap", rebound_beside_a_swap, start, stop, #spec}, {                     \
#spec ": what cannot be carried", what_cannot_be_carried, start, stop, #spec                          \
  }

static const struct CMUnitTest tests[] = {CASES(cpu), CASES(webgpu), CASES(vdev), CASES(cuda)};

FIXTURE_MAIN_OF_DEVICES(tests);
