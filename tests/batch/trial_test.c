/* The test for models that mix rows: what it finds, and what it leaves to the tolerance. */
#include "voices.h"

#include "vdev.h"

static int start(void **state) {
  return stage_open(state);
}

static int32_t output_axis = 0;

/* A batch without states, on axis 0 of the only input and on `output_axis` of the only output. */
static iobind_batch *make(iobind_session *session, size_t most, double tolerance) {
  static const int32_t axes[] = {0};
  iobind_batch_options options = IOBIND_BATCH_OPTIONS_INIT;
  iobind_batch *batch;
  options.most_rows = most;
  options.input_axes = axes;
  options.input_axis_count = 1;
  options.output_axes = &output_axis;
  options.output_axis_count = 1;
  options.tolerance = tolerance;
  expect_ok(iobind_batch_create(session, &options, &batch, &fault));
  return batch;
}

/* A step of one row of zeros. */
static void expect_step(iobind_status expected, const char *model, iobind_dtype dtype, size_t most, double tolerance) {
  static const int64_t dims[] = {1, 2};
  static const char zeros[2 * sizeof(double)];
  iobind_session *session = fixture_session(runtime, device, model);
  iobind_batch *batch = make(session, most, tolerance);
  uint64_t slot;
  iobind_tensor *row;
  expect_ok(iobind_batch_join(batch, NULL, &slot, &fault));
  expect_ok(iobind_tensor_create(cpu, IOBIND_MEMORY_DEFAULT, dtype, dims, 2, &row, &fault));
  expect_ok(iobind_tensor_write(row, 0, zeros, 2 * iobind_dtype_get_bits((int32_t)dtype) / 8, NULL, &fault));
  expect_ok(iobind_batch_set_input(batch, slot, 0, row, &fault));
  expect(expected, iobind_batch_run(batch, &slot, 1, NULL, &fault));
  iobind_tensor_release(row);
  iobind_batch_destroy(batch);
  iobind_session_destroy(session);
}

static void outputs_that_are_infinite(void **state) {
  (void)state;
  expect_step(IOBIND_ERROR_NOT_SUPPORTED, "reduce dims=n,2 mix=2", IOBIND_DTYPE_FLOAT32, 4, 0);
  expect_words("mixes rows");
}

/* Numbers are compared also in the types without a C type. */
static void tolerance_of_each_type(void **state) {
  (void)state;
  static const struct {
    const char *model;
    iobind_dtype dtype;
  } cases[] = {{"reduce dims=n,2 mix=1", IOBIND_DTYPE_FLOAT32},
               {"reduce dims=n,2 mix=1 dtype=float64", IOBIND_DTYPE_FLOAT64},
               {"reduce dims=n,2 mix=1 dtype=float16", IOBIND_DTYPE_FLOAT16}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    expect_step(IOBIND_ERROR_NOT_SUPPORTED, cases[i].model, cases[i].dtype, 8, 0);
    expect_step(IOBIND_ERROR_NOT_SUPPORTED, cases[i].model, cases[i].dtype, 8, 1e-3);
    expect_words(" of the values' range, allowed is 0.001. If it is rounding, set `tolerance`");
    expect_step(IOBIND_OK, cases[i].model, cases[i].dtype, 8, 100);
  }
}

/* A transposed output has as many columns as a test has rows. */
static void wrong_axis_of_equal_size(void **state) {
  (void)state;
  expect_step(IOBIND_ERROR_SHAPE, "transpose dims=n,m", IOBIND_DTYPE_FLOAT32, 2, 0);
  expect_words("give the axes");
}

/* A state of floats in which the model has indices of a table of two numbers: random numbers are beyond it. The other data of the test are
 * random, so mixing is found. */
static void state_that_is_an_index(void **state) {
  (void)state;
  enum { ROWS = 2, STEPS = 3 };
  iobind_session *session = fixture_session(runtime, device, "voices limit=2 by_b=1");
  iobind_batch *batch = voice_batch(session, 8, 0);
  uint64_t slots[ROWS];
  voice rows[ROWS] = {{{{0}}, {0}, 0}};
  for (int i = 0; i < ROWS; i++) {
    expect_ok(iobind_batch_join(batch, NULL, &slots[i], &fault));
  }
  for (int step = 0; step < STEPS; step++) {
    voice_results results[ROWS];
    for (int i = 0; i < ROWS; i++) {
      const float x[WIDTH] = {(float)((step + i) % 2), -5, -3, 1};
      voice_bring(batch, slots[i], x);
      results[i] = voice_step(&rows[i], x);
    }
    expect_ok(iobind_batch_run(batch, slots, ROWS, NULL, &fault));
    for (int i = 0; i < ROWS; i++) {
      voice_expect_results(batch, slots[i], &results[i]);
    }
  }
  iobind_batch_destroy(batch);
  iobind_session_destroy(session);
  session = fixture_session(runtime, device, "voices limit=2 by_b=1 mix=1");
  batch = voice_batch(session, 8, 0);
  expect_ok(iobind_batch_join(batch, NULL, &slots[0], &fault));
  voice_bring(batch, slots[0], (const float[WIDTH]){0});
  expect(IOBIND_ERROR_NOT_SUPPORTED, iobind_batch_run(batch, &slots[0], 1, NULL, &fault));
  expect_words("mixes rows");
  iobind_batch_destroy(batch);
  iobind_session_destroy(session);
}

/* The logarithm of a random number may not be a number. Its bits differ from kernel to kernel; its row is not mixed with others. */
static void outputs_that_are_not_numbers(void **state) {
  (void)state;
  static const int64_t dims[] = {1, 5};
  static const float ones[5] = {1, 1, 1, 1, 1};
  static const char *const models[] = {"voices width=5 log=1", "voices width=5 log=1 mix=1"};
  for (size_t i = 0; i < 2; i++) {
    iobind_session *session = fixture_session(runtime, device, models[i]);
    iobind_batch_options options = voice_options(8);
    iobind_batch *batch;
    options.tolerance = 1e-6; /* a logarithm is rounded differently, too */
    expect_ok(iobind_batch_create(session, &options, &batch, &fault));
    voice_set_gain(batch);
    uint64_t slot;
    iobind_tensor *row;
    expect_ok(iobind_batch_join(batch, NULL, &slot, &fault));
    expect_ok(iobind_tensor_create(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 2, &row, &fault));
    expect_ok(iobind_tensor_write(row, 0, ones, sizeof ones, NULL, &fault));
    expect_ok(iobind_batch_set_input(batch, slot, X, row, &fault));
    iobind_tensor_release(row);
    expect(i == 0 ? IOBIND_OK : IOBIND_ERROR_NOT_SUPPORTED, iobind_batch_run(batch, &slot, 1, NULL, &fault));
    iobind_batch_destroy(batch);
    iobind_session_destroy(session);
  }
}

/* A failure of a run that was not asked for says which run it is, and the next step tests again. */
static void test_that_fails(void **state) {
  (void)state;
  iobind_session *session = fixture_session(runtime, device, "voices");
  iobind_batch *batch = voice_batch(session, 2, 0);
  uint64_t slot;
  expect_ok(iobind_batch_join(batch, NULL, &slot, &fault));
  voice_bring(batch, slot, (const float[WIDTH]){0});
  assert_int_equal(vdev_set(0, "fail_compute", "1"), 0);
  expect(IOBIND_ERROR_RUNTIME, iobind_batch_run(batch, &slot, 1, NULL, &fault));
  assert_int_equal(vdev_set(0, "fail_compute", "0"), 0);
  expect_words("batch_run: in the test for mixed rows: ");
  expect_words("fail_compute");
  expect_ok(iobind_batch_run(batch, &slot, 1, NULL, &fault));
  iobind_batch_destroy(batch);
  iobind_session_destroy(session);
}

/* An output that has rows although it was given no batch axis: each row would read row 0. */
static void forgotten_axis(void **state) {
  (void)state;
  output_axis = IOBIND_BATCH_NO_AXIS;
  expect_step(IOBIND_ERROR_SHAPE, "scale dims=n,2", IOBIND_DTYPE_FLOAT32, 4, 0);
  expect_words(
      "batch_run: output 'y', which has no batch axis: expected the same for all rows, got a row for each on axis 0: give "
      "that axis");
  expect_step(IOBIND_ERROR_SHAPE, "transpose dims=n,m", IOBIND_DTYPE_FLOAT32, 4, 0);
  expect_words("got a row for each on axis 1");
  expect_step(IOBIND_OK, "reduce dims=n,2", IOBIND_DTYPE_FLOAT32, 4, 0);       /* the sum of all rows */
  expect_step(IOBIND_OK, "reduce dims=n,2 mix=1", IOBIND_DTYPE_FLOAT32, 4, 0); /* as many, but not the rows */
  output_axis = 0;
}

/* A row alone cannot be mixed with others. */
static void batch_of_one_row(void **state) {
  (void)state;
  expect_step(IOBIND_OK, "reduce dims=n,2 mix=1", IOBIND_DTYPE_FLOAT32, 1, 0);
}

#define ON(device, test) \
  { #device ": " #test, test, start, stage_close, #device }
#define ON_OTHERS(test) ON(vdev, test), ON(cpu, test)
#define ON_VDEV(test) ON(vdev, test)

static const struct CMUnitTest tests[] = {
    ON_OTHERS(outputs_that_are_infinite), ON_OTHERS(tolerance_of_each_type),
    ON_OTHERS(wrong_axis_of_equal_size),  ON_OTHERS(outputs_that_are_not_numbers),
    ON_OTHERS(state_that_is_an_index),    ON_VDEV(test_that_fails),
    ON_OTHERS(batch_of_one_row),          ON_OTHERS(forgotten_axis),
};

FIXTURE_MAIN(tests, NULL, NULL);
