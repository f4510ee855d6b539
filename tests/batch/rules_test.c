/* What a batch refuses, and what it leaves as it was. */
#include "voices.h"

#include <pthread.h>
#include <stdio.h>

#include "vdev.h"

enum { ROWS = 3 };

static iobind_session *session;
static iobind_batch *batch;
static uint64_t slots[ROWS];
static voice rows[ROWS];

static int start(void **state) {
  (void)stage_open(state);
  session = fixture_session(runtime, device, "voices");
  batch = voice_batch(session, ROWS, 0);
  memset(rows, 0, sizeof rows);
  for (int i = 0; i < ROWS; i++) {
    expect_ok(iobind_batch_join(batch, NULL, &slots[i], &fault));
  }
  return 0;
}

static int stop(void **state) {
  iobind_batch_destroy(batch);
  iobind_session_destroy(session);
  batch = NULL;
  session = NULL;
  return stage_close(state);
}

static void fill(float x[WIDTH], int seed) {
  for (int i = 0; i < WIDTH; i++) {
    x[i] = (float)((seed * 5 + i * 3) % 11 - 5);
  }
}

/* Rows 0 .. count - 1 bring their input; what they come to is in `results`. */
static void bring(int count, int seed, voice_results results[ROWS]) {
  for (int i = 0; i < count; i++) {
    float x[WIDTH];
    fill(x, seed + i);
    voice_bring(batch, slots[i], x);
    results[i] = voice_step(&rows[i], x);
  }
}

static void expect_rows(int count, const voice_results results[ROWS]) {
  for (int i = 0; i < count; i++) {
    voice_expect_results(batch, slots[i], &results[i]);
    voice_expect_state(batch, slots[i], &rows[i]);
  }
}

/* ---- refused ---- */

static iobind_status run(const uint64_t *of, size_t count) {
  return iobind_batch_run(batch, of, count, NULL, &fault);
}

static void wrong_slots(void **state) {
  (void)state;
  voice_results results[ROWS];
  iobind_tensor *output;
  iobind_state *saved;
  uint64_t left = slots[2];
  bring(ROWS, 1, results);
  expect(IOBIND_ERROR_INVALID_ARGUMENT, run(slots, 0));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, run(slots, ROWS + 1));
  iobind_batch *other = voice_batch(session, 1, 0);
  uint64_t foreign;
  expect_ok(iobind_batch_join(other, NULL, &foreign, &fault));
  expect(IOBIND_ERROR_NOT_FOUND, run(&foreign, 1)); /* its seat is in use here, too */
  iobind_batch_destroy(other);
  expect(IOBIND_ERROR_INVALID_ARGUMENT, run((const uint64_t[]){slots[0], slots[1], slots[0]}, 3));
  expect_words("row 2");
  expect(IOBIND_ERROR_INVALID_STATE, iobind_batch_take_output(batch, slots[0], Z, &output, &fault));
  expect(IOBIND_ERROR_INVALID_STATE, iobind_batch_join(batch, NULL, &slots[2], &fault));
  expect_ok(iobind_batch_leave(batch, left, NULL, &fault));
  expect(IOBIND_ERROR_NOT_FOUND, run((const uint64_t[]){slots[0], left}, 2));
  expect(IOBIND_ERROR_NOT_FOUND, iobind_batch_save_state(batch, left, &saved, &fault));
  expect(IOBIND_ERROR_NOT_FOUND, iobind_batch_submit(batch, left, &fault));
  expect(IOBIND_ERROR_NOT_FOUND, iobind_batch_await(batch, left, 0, &fault));
  expect_ok(iobind_batch_join(batch, NULL, &slots[2], &fault));
  assert_true(slots[2] != left);
  expect(IOBIND_ERROR_NOT_FOUND, iobind_batch_leave(batch, left, NULL, &fault));
  expect_ok(run(slots, 2));
  expect_rows(2, results);
}

static void wrong_inputs(void **state) {
  (void)state;
  static const int64_t two[] = {2, WIDTH}, narrow[] = {1, WIDTH - 1};
  voice_results results[ROWS];
  iobind_tensor *tensor;
  bring(2, 3, results);
  expect(IOBIND_ERROR_INVALID_STATE, run(slots, 3));
  expect_words("row 2: 'x' is not set");
  expect(IOBIND_ERROR_INVALID_STATE, iobind_batch_submit(batch, slots[2], &fault));
  expect_ok(iobind_tensor_create(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, two, 2, &tensor, &fault));
  expect(IOBIND_ERROR_SHAPE, iobind_batch_set_input(batch, slots[0], X, tensor, &fault));
  expect_words("expected 1 row");
  expect(IOBIND_ERROR_SHAPE, iobind_batch_set_input(batch, IOBIND_BATCH_ALL, GAIN, tensor, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_batch_set_input(batch, slots[0], B, tensor, &fault));
  expect_words("'b' is a state");
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_batch_set_input(batch, IOBIND_BATCH_ALL, X, tensor, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_batch_set_input(batch, slots[0], GAIN, tensor, &fault));
  expect(IOBIND_ERROR_NOT_FOUND, iobind_batch_set_input(batch, slots[0], COUNT + 1, tensor, &fault));
  iobind_tensor_release(tensor);
  expect_ok(iobind_tensor_create(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, narrow, 2, &tensor, &fault));
  expect(IOBIND_ERROR_SHAPE, iobind_batch_set_input(batch, slots[0], X, tensor, &fault));
  iobind_tensor_release(tensor);
  expect_ok(iobind_tensor_create(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_INT64, two, 2, &tensor, &fault));
  expect(IOBIND_ERROR_DTYPE, iobind_batch_set_input(batch, slots[0], X, tensor, &fault));
  iobind_tensor_release(tensor);
  expect_ok(run(slots, 2));
  expect_rows(2, results);
  expect(IOBIND_ERROR_INVALID_STATE, run(slots, 2)); /* an input holds for one step */
}

static void shared_input_that_is_not_set(void **state) {
  (void)state;
  iobind_batch_options options = voice_options(1);
  iobind_batch *other;
  uint64_t slot;
  float x[WIDTH] = {0};
  expect_ok(iobind_batch_create(session, &options, &other, &fault));
  expect_ok(iobind_batch_join(other, NULL, &slot, &fault));
  voice_bring(other, slot, x);
  expect(IOBIND_ERROR_INVALID_STATE, iobind_batch_run(other, &slot, 1, NULL, &fault));
  expect_words("'gain'");
  iobind_batch_destroy(other);
}

static void wrong_options(void **state) {
  (void)state;
  static const int32_t input_axes[] = {0, IOBIND_BATCH_NO_AXIS, 1, 0, 0}, output_axes[] = {1, 0, 1, 0, 0};
  static const int32_t wrong_axes[] = {0, IOBIND_BATCH_NO_AXIS, 0, 0, 0};
  static const iobind_batch_pair twice[] = {{NEXT_B, B}, {NEXT_B, B}}, dtypes[] = {{NEXT_COUNT, B}};
  const struct {
    iobind_batch_options options;
    iobind_status status;
  } cases[] = {
      {{.most_rows = 0}, IOBIND_ERROR_INVALID_ARGUMENT},
      {{.most_rows = 1, .flags = 4}, IOBIND_ERROR_NOT_SUPPORTED},
      {{.most_rows = 1, .tolerance = -1}, IOBIND_ERROR_INVALID_ARGUMENT},
      {{.most_rows = 1, .pairs = twice, .pair_count = 2}, IOBIND_ERROR_INVALID_ARGUMENT},
      {{.most_rows = 1, .pairs = dtypes, .pair_count = 1}, IOBIND_ERROR_DTYPE},
      {{.most_rows = 1, .pairs = NULL, .pair_count = 1}, IOBIND_ERROR_INVALID_ARGUMENT},
      {{.most_rows = 1, .pairs = twice, .pair_count = SIZE_MAX}, IOBIND_ERROR_INVALID_ARGUMENT}, /* more than outputs */
      {{.most_rows = 1, .input_axes = input_axes, .input_axis_count = 5}, IOBIND_ERROR_INVALID_ARGUMENT},
      {{.most_rows = 1, .input_axes = input_axes, .input_axis_count = 4, .output_axes = output_axes, .output_axis_count = 5},
       IOBIND_ERROR_INVALID_ARGUMENT},
      {{.most_rows = 1, .input_axes = wrong_axes, .input_axis_count = 5, .output_axes = output_axes, .output_axis_count = 5},
       IOBIND_ERROR_SHAPE}, /* axis 0 of a is fixed */
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    iobind_batch_options options = cases[i].options;
    iobind_batch *none = batch;
    options.struct_size = sizeof options;
    expect(cases[i].status, iobind_batch_create(session, &options, &none, &fault));
    assert_null(none);
  }
  iobind_batch_options given = voice_options(2);
  iobind_batch *other;
  given.input_axes = input_axes;
  given.input_axis_count = 5;
  given.output_axes = output_axes;
  given.output_axis_count = 5;
  expect_ok(iobind_batch_create(session, &given, &other, &fault));
  iobind_batch_destroy(other);
}

static void axes_that_cannot_be_found(void **state) {
  (void)state;
  static const struct {
    const char *model;
    const char *words;
  } cases[] = {{"voices rows=?", "give input_axes"},
               {"voices rows=3", "give input_axes"},
               {"identity dims=n,m", "any of the dims 'n', 'm'"}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    iobind_session *other = fixture_session(runtime, device, cases[i].model);
    iobind_batch_options options = IOBIND_BATCH_OPTIONS_INIT;
    iobind_batch *none;
    options.most_rows = 2;
    expect(IOBIND_ERROR_SHAPE, iobind_batch_create(other, &options, &none, &fault));
    expect_words(cases[i].words);
    iobind_session_destroy(other);
  }
}

/* Found before the first step of two rows, also if the batch has one. */
static void model_that_mixes_rows(void **state) {
  (void)state;
  iobind_session *mixing = fixture_session(runtime, device, "voices mix=1");
  iobind_batch *other = voice_batch(mixing, 4, 0);
  uint64_t slot;
  float x[WIDTH] = {1, 2, 3, 4};
  expect_ok(iobind_batch_join(other, NULL, &slot, &fault));
  voice_bring(other, slot, x);
  for (int i = 0; i < 2; i++) {
    expect(IOBIND_ERROR_NOT_SUPPORTED, iobind_batch_run(other, &slot, 1, NULL, &fault));
    expect_words("mixes rows");
  }
  iobind_batch_destroy(other);
  iobind_session_destroy(mixing);
}

static void states_that_do_not_fit(void **state) {
  (void)state;
  voice_results results[ROWS];
  iobind_session *other_session = fixture_session(runtime, device, "voices");
  iobind_batch *other = voice_batch(other_session, 1, 0);
  iobind_state *saved;
  uint64_t slot;
  bring(1, 2, results);
  expect_ok(run(slots, 1));
  expect_ok(iobind_batch_save_state(batch, slots[0], &saved, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_batch_join(other, saved, &slot, &fault));
  expect_words("another session");
  iobind_state_release(saved);
  iobind_batch_destroy(other);
  iobind_session_destroy(other_session);
}

/* ---- failures ---- */

/* The run fails at once, or late on a stream: rows and inputs are as before, and the same step goes well. */
static void step_that_fails(void **state) {
  (void)state;
  voice_results results[ROWS];
  bring(ROWS, 1, results);
  expect_ok(run(slots, ROWS));
  expect_rows(ROWS, results);
  iobind_stream *stream;
  expect_ok(iobind_stream_create(device, NULL, &stream, &fault));
  bring(ROWS, 9, results);
  assert_int_equal(vdev_set(0, "fail_compute", "1"), 0);
  expect(IOBIND_ERROR_RUNTIME, run(slots, ROWS));
  assert_int_equal(vdev_set(0, "fail_compute", "0"), 0);
  expect_ok(run(slots, ROWS));
  expect_rows(ROWS, results);
  bring(ROWS, 30, results);
  assert_int_equal(vdev_set(0, "fail_compute", "1,late"), 0);
  iobind_status status = iobind_batch_run(batch, slots, ROWS, stream, &fault);
  if (status == IOBIND_OK) {
    iobind_tensor *output;
    expect(IOBIND_ERROR_RUNTIME, iobind_batch_take_output(batch, slots[0], Z, &output, &fault));
  }
  assert_int_equal(vdev_set(0, "fail_compute", "0"), 0);
  expect_ok(run(slots, ROWS));
  expect_rows(ROWS, results);
  iobind_stream_destroy(stream);
}

/* A row that brings its next input while a step is in flight has it in the next step. */
static void input_for_the_step_after(void **state) {
  (void)state;
  voice_results results[ROWS];
  voice_results later[ROWS];
  iobind_stream *stream;
  expect_ok(iobind_stream_create(device, NULL, &stream, &fault));
  bring(ROWS, 4, results);
  expect_ok(iobind_batch_run(batch, slots, ROWS, stream, &fault));
  bring(ROWS, 8, later);
  for (int i = 0; i < ROWS; i++) {
    voice_expect_results(batch, slots[i], &results[i]);
  }
  expect_ok(run(slots, ROWS));
  expect_rows(ROWS, later);
  iobind_stream_destroy(stream);
}

/* An output with another owner is not overwritten. */
static void outputs_that_are_kept(void **state) {
  (void)state;
  voice_results first[ROWS];
  voice_results second[ROWS];
  iobind_tensor *kept;
  bring(ROWS, 4, first);
  expect_ok(run(slots, ROWS));
  expect_ok(iobind_batch_take_output(batch, slots[1], Z, &kept, &fault));
  for (int step = 0; step < 4; step++) {
    bring(ROWS, 20 + step, second);
    expect_ok(run(slots, ROWS));
  }
  voice_expect_tensor(kept, first[1].z, sizeof first[1].z);
  iobind_batch_destroy(batch);
  batch = NULL;
  voice_expect_tensor(kept, first[1].z, sizeof first[1].z);
  iobind_tensor_release(kept);
}

/* ---- bytes that cross the link ---- */

typedef struct link_bytes {
  int64_t up;
  int64_t down;
} link_bytes;

/* ORT's own copies included. */
static link_bytes count_link(void) {
  return (link_bytes){vdev_get(0, "h2d_bytes"), vdev_get(0, "d2h_bytes")};
}

/* Of a step only its inputs and outputs; and of rows that join, rest, leave or are saved, only their numbers. */
static void states_stay_on_the_device(void **state) {
  (void)state;
  voice_results results[ROWS];
  iobind_state *saved;
  bring(ROWS, 1, results);
  expect_ok(run(slots, ROWS));
  bring(ROWS, 2, results);
  link_bytes before = count_link();
  expect_ok(run(slots, ROWS));
  link_bytes after = count_link();
  assert_int_equal(after.up - before.up, sizeof(float[ROWS][WIDTH]));
  assert_int_equal(after.down - before.down, sizeof(float[ROWS][LEADS + 1][WIDTH]));
  before = count_link();
  expect_ok(iobind_batch_save_state(batch, slots[1], &saved, &fault));
  expect_ok(iobind_batch_leave(batch, slots[1], NULL, &fault));
  expect_ok(iobind_batch_join(batch, saved, &slots[1], &fault));
  iobind_state_release(saved);
  after = count_link();
  assert_true(after.up - before.up <= 64);
  assert_int_equal(after.down, before.down);
  bring(ROWS, 3, results);
  before = count_link();
  expect_ok(run(slots, ROWS));
  after = count_link();
  assert_true(after.up - before.up <= (int64_t)sizeof(float[ROWS][WIDTH]) + 64);
  expect_rows(ROWS, results);
}

/* Inputs that are on the device do not go over the link; a row on the host beside them does. */
static void inputs_on_the_device(void **state) {
  (void)state;
  voice_results results[ROWS];
  float x[WIDTH];
  bring(ROWS, 1, results);
  expect_ok(run(slots, ROWS));
  for (int on_host = 0; on_host < 2; on_host++) {
    link_bytes before = {0, 0};
    for (int i = 0; i < ROWS; i++) {
      fill(x, 40 + i);
      (i == 0 && on_host ? voice_bring : voice_bring_there)(batch, slots[i], x);
      results[i] = voice_step(&rows[i], x);
    }
    before = count_link();
    expect_ok(run(slots, ROWS));
    link_bytes after = count_link();
    assert_int_equal(after.up - before.up, on_host ? sizeof(float[ROWS][WIDTH]) : 0);
    assert_int_equal(after.down - before.down, sizeof(float[ROWS][LEADS + 1][WIDTH]));
    expect_rows(ROWS, results);
  }
}

/* What is set is a copy: the memory may be used again. The last one that was set counts, wherever it was. */
static void input_on_the_device_is_copied(void **state) {
  (void)state;
  static const int64_t dims[] = {1, WIDTH};
  float x[WIDTH];
  float other[WIDTH];
  iobind_tensor *tensor;
  fill(x, 3);
  fill(other, 8);
  expect_ok(iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 2, &tensor, &fault));
  expect_ok(iobind_tensor_write(tensor, 0, x, sizeof x, NULL, &fault));
  voice_bring(batch, slots[0], other);
  expect_ok(iobind_batch_set_input(batch, slots[0], X, tensor, &fault));
  expect_ok(iobind_tensor_write(tensor, 0, other, sizeof other, NULL, &fault));
  voice_results results = voice_step(&rows[0], x);
  expect_ok(run(slots, 1));
  voice_expect_results(batch, slots[0], &results);
  expect_ok(iobind_batch_set_input(batch, slots[0], X, tensor, &fault));
  voice_bring(batch, slots[0], x);
  results = voice_step(&rows[0], x);
  expect_ok(run(slots, 1));
  voice_expect_results(batch, slots[0], &results);
  iobind_tensor_release(tensor);
}

/* ---- threads ---- */

enum { STEPS = 40 };

typedef struct caller {
  pthread_t thread;
  int index;
  int wrong;
} caller;

static bool is_same(const float *got, const float *expected) {
  bool same = true;
  for (int i = 0; i < WIDTH; i++) {
    same = same && got[i] == expected[i];
  }
  return same;
}

/* Without the checks of the other tests, whose words belong to one thread. */
static void *call_in(void *context) {
  caller *self = context;
  const int64_t dims[] = {1, WIDTH};
  voice row = {{{0}}, {0}, 0};
  uint64_t slot;
  iobind_tensor *tensor;
  float x[WIDTH];
  if (iobind_tensor_create(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 2, &tensor, NULL) != IOBIND_OK ||
      iobind_batch_join(batch, NULL, &slot, NULL) != IOBIND_OK) {
    self->wrong++;
    return NULL;
  }
  for (int step = 0; step < STEPS; step++) {
    iobind_tensor *z = NULL;
    float got[WIDTH];
    fill(x, self->index * STEPS + step);
    voice_results results = voice_step(&row, x);
    bool good = iobind_tensor_write(tensor, 0, x, sizeof x, NULL, NULL) == IOBIND_OK &&
                iobind_batch_set_input(batch, slot, X, tensor, NULL) == IOBIND_OK &&
                iobind_batch_submit(batch, slot, NULL) == IOBIND_OK &&
                iobind_batch_await(batch, slot, IOBIND_NO_TIMEOUT, NULL) == IOBIND_OK &&
                iobind_batch_take_output(batch, slot, Z, &z, NULL) == IOBIND_OK &&
                iobind_tensor_read(z, 0, got, sizeof got, NULL, NULL) == IOBIND_OK && is_same(got, results.z);
    iobind_tensor_release(z);
    self->wrong += !good;
  }
  self->wrong += iobind_batch_leave(batch, slot, NULL, NULL) != IOBIND_OK;
  iobind_tensor_release(tensor);
  return NULL;
}

/* A server's loop: one thread makes steps until all callers have left. */
static void callers_of_a_server(void **state) {
  (void)state;
  caller callers[ROWS];
  iobind_batch_wait wait = IOBIND_BATCH_WAIT_INIT;
  iobind_batch_info info = IOBIND_BATCH_INFO_INIT;
  for (int i = 0; i < ROWS; i++) {
    expect_ok(iobind_batch_leave(batch, slots[i], NULL, &fault));
  }
  wait.timeout_ns = 1000000;
  for (int i = 0; i < ROWS; i++) {
    callers[i] = (caller){.index = i};
    assert_int_equal(pthread_create(&callers[i].thread, NULL, call_in, &callers[i]), 0);
  }
  size_t made = 0;
  while (made < (size_t)ROWS * STEPS) {
    size_t count = 0;
    iobind_status status = iobind_batch_step(batch, &wait, NULL, 0, &count, &fault);
    assert_true(status == IOBIND_OK || status == IOBIND_ERROR_TIMEOUT);
    made += count;
  }
  for (int i = 0; i < ROWS; i++) {
    assert_int_equal(pthread_join(callers[i].thread, NULL), 0);
    assert_int_equal(callers[i].wrong, 0);
  }
  expect_ok(iobind_batch_get_info(batch, &info, &fault));
  assert_int_equal(info.row_count, 0);
  assert_true(info.steps <= (size_t)ROWS * STEPS);
}

/* A step that fails is each row's failure, and the rows can be submitted again. */
static void failure_of_submitted_rows(void **state) {
  (void)state;
  voice_results results[ROWS];
  size_t count = 0;
  bring(2, 1, results);
  expect(IOBIND_ERROR_INVALID_STATE, iobind_batch_await(batch, slots[0], 0, &fault));
  for (int i = 0; i < 2; i++) {
    expect_ok(iobind_batch_submit(batch, slots[i], &fault));
  }
  expect(IOBIND_ERROR_INVALID_STATE, iobind_batch_submit(batch, slots[0], &fault));
  expect(IOBIND_ERROR_INVALID_STATE, run(slots, 1));
  expect(IOBIND_ERROR_TIMEOUT, iobind_batch_await(batch, slots[0], 0, &fault));
  assert_int_equal(vdev_set(0, "fail_compute", "1"), 0);
  expect(IOBIND_ERROR_RUNTIME, iobind_batch_step(batch, NULL, NULL, 0, &count, &fault));
  assert_int_equal(vdev_set(0, "fail_compute", "0"), 0);
  assert_int_equal(count, 2);
  for (int i = 0; i < 2; i++) {
    expect(IOBIND_ERROR_RUNTIME, iobind_batch_await(batch, slots[i], 0, &fault));
    expect_words("fail_compute");
    expect_ok(iobind_batch_submit(batch, slots[i], &fault));
  }
  expect_ok(iobind_batch_step(batch, NULL, NULL, 0, &count, &fault));
  expect_rows(2, results);
}

#define ON(device, test) \
  { #device ": " #test, test, start, stop, #device }
#define ON_EACH(test) ON(vdev, test), ON(cpu, test), ON(cuda, test)
#define ON_VDEV(test) ON(vdev, test)
#define ON_OTHERS(test) ON(vdev, test), ON(cpu, test)

static const struct CMUnitTest tests[] = {
    ON_EACH(wrong_slots),
    ON_EACH(wrong_inputs),
    ON_OTHERS(shared_input_that_is_not_set),
    ON_OTHERS(wrong_options),
    ON_OTHERS(axes_that_cannot_be_found),
    ON_EACH(model_that_mixes_rows),
    ON_OTHERS(states_that_do_not_fit),
    ON_VDEV(step_that_fails),
    ON_EACH(input_for_the_step_after),
    ON_EACH(outputs_that_are_kept),
    ON_VDEV(states_stay_on_the_device),
    ON_VDEV(inputs_on_the_device),
    ON_EACH(input_on_the_device_is_copied),
    ON_EACH(callers_of_a_server),
    ON_VDEV(failure_of_submitted_rows),
};

FIXTURE_MAIN(tests, NULL, NULL);
