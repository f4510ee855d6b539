/* Steps that fail on the way, and calls that meet them. */
#include "fixture.h"

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "batch/batch.h"
#include "iobind/interop.h"
#include "vdev.h"
#include "voices.h"
#include "../rig/hold.h"

enum { ROWS = 3 };

static iobind_session *session;

static int start(void **state) {
  (void)stage_open(state);
  session = fixture_session(runtime, device, "voices");
  return 0;
}

static int stop(void **state) {
  iobind_session_destroy(session);
  session = NULL;
  return stage_close(state);
}

static void fill(float x[WIDTH], int seed) {
  for (int i = 0; i < WIDTH; i++) {
    x[i] = (float)((seed * 5 + i * 3) % 11 - 5);
  }
}

/* Bring the next input and make the row's step in plain C. */
static voice_results advance(iobind_batch *batch, uint64_t slot, voice *row, int seed) {
  float x[WIDTH];
  fill(x, seed);
  voice_bring(batch, slot, x);
  return voice_step(row, x);
}

/* A state that is not zero. */
static iobind_state *make_state(iobind_batch *batch, voice *row) {
  iobind_state *state;
  uint64_t slot;
  expect_ok(iobind_batch_join(batch, NULL, &slot, &fault));
  (void)advance(batch, slot, row, 2);
  expect_ok(iobind_batch_run(batch, &slot, 1, NULL, &fault));
  expect_ok(iobind_batch_leave(batch, slot, &state, &fault));
  return state;
}

/* ---- moves ---- */

/* Rows of two sources join: each kernel fails once, that of the second move after the first one was made. Then fewer rows make a step. */
static void moves_that_fail(void **state) {
  (void)state;
  bool failed = true;
  for (int kernel = 1; failed; kernel++) {
    iobind_batch *batch = voice_batch(session, ROWS, 0);
    iobind_batch *maker = voice_batch(session, 1, 0);
    uint64_t slots[ROWS];
    voice rows[ROWS] = {{{{0}}, {0}, 0}};
    char setting[16];
    iobind_state *saved = make_state(maker, &rows[0]);
    batch->tried[2] = batch->tried[3] = true; /* that takes time */
    rows[1] = rows[0];
    for (int i = 0; i < ROWS; i++) {
      expect_ok(iobind_batch_join(batch, i < 2 ? saved : NULL, &slots[i], &fault));
    }
    voice_results results[ROWS];
    for (int i = 0; i < ROWS; i++) {
      results[i] = advance(batch, slots[i], &rows[i], i);
    }
    snprintf(setting, sizeof setting, "%d", kernel);
    assert_int_equal(vdev_set(0, "fail_compute", setting), 0);
    failed = iobind_batch_run(batch, slots, ROWS, NULL, NULL) != IOBIND_OK;
    assert_int_equal(vdev_set(0, "fail_compute", "0"), 0);
    if (failed) {
      expect_ok(iobind_batch_run(batch, slots, 2, NULL, &fault));
      expect_ok(iobind_batch_run(batch, &slots[2], 1, NULL, &fault));
    }
    for (int i = 0; i < ROWS; i++) {
      voice_expect_results(batch, slots[i], &results[i]);
      voice_expect_state(batch, slots[i], &rows[i]);
    }
    iobind_state_release(saved);
    iobind_batch_destroy(maker);
    iobind_batch_destroy(batch);
  }
}

/* A run that fails late has made no state, for each caller and each query. */
static void state_of_a_run_that_failed(void **state) {
  (void)state;
  iobind_batch *batch = voice_batch(session, ROWS, 0);
  iobind_stream *stream;
  iobind_state *saved;
  uint64_t slot;
  voice row = {{{0}}, {0}, 0};
  iobind_state *first = make_state(batch, &row);
  const float x[WIDTH] = {1, 2, 3, 4};
  iobind_binding *binding = voice_binding(session, first, x);
  expect_ok(iobind_stream_create(device, NULL, &stream, &fault));
  assert_int_equal(vdev_set(0, "fail_compute", "1,late"), 0);
  int held = hold(device, stream);
  expect_ok(iobind_binding_run(binding, stream, &fault));
  expect_ok(iobind_binding_save_state(binding, &saved, &fault));
  let_go(held);
  expect_ok(iobind_batch_join(batch, saved, &slot, &fault));
  voice_bring(batch, slot, x);
  for (int i = 0; i < 3; i++) {
    expect(IOBIND_ERROR_RUNTIME, iobind_batch_run(batch, &slot, 1, NULL, &fault));
    expect_words("fail_compute");
  }
  iobind_state_release(saved);
  iobind_state_release(first);
  iobind_binding_destroy(binding);
  iobind_batch_destroy(batch);
  iobind_stream_destroy(stream);
}

/* Another row's call receives the failure first; the row that has failed has no output of an earlier step for that of this one. */
static void output_of_a_step_that_failed(void **state) {
  (void)state;
  iobind_batch *batch = voice_batch(session, ROWS, IOBIND_BATCH_ON_DEVICE);
  iobind_stream *stream;
  uint64_t slots[2];
  voice rows[2] = {{{{0}}, {0}, 0}};
  iobind_tensor *output;
  iobind_state *saved;
  expect_ok(iobind_stream_create(device, NULL, &stream, &fault));
  for (int i = 0; i < 2; i++) {
    expect_ok(iobind_batch_join(batch, NULL, &slots[i], &fault));
    (void)advance(batch, slots[i], &rows[i], i);
  }
  expect_ok(iobind_batch_run(batch, slots, 2, NULL, &fault));
  voice_results results = advance(batch, slots[0], &rows[0], 7);
  assert_int_equal(vdev_set(0, "fail_compute", "1,late"), 0);
  int held = hold(device, stream);
  expect_ok(iobind_batch_run(batch, slots, 1, stream, &fault));
  let_go(held);
  expect(IOBIND_ERROR_RUNTIME, iobind_batch_save_state(batch, slots[1], &saved, &fault));
  for (int i = 0; i < 2; i++) {
    expect(IOBIND_ERROR_RUNTIME, iobind_batch_take_output(batch, slots[0], Z, &output, &fault));
    expect_words("fail_compute");
  }
  expect_ok(iobind_batch_run(batch, slots, 1, stream, &fault));
  voice_expect_results(batch, slots[0], &results);
  for (int i = 0; i < 2; i++) {
    voice_expect_state(batch, slots[i], &rows[i]);
  }
  iobind_batch_destroy(batch);
  iobind_stream_destroy(stream);
}

/* The upload of the inputs fails when the stream reaches it. */
static void upload_that_fails_late(void **state) {
  (void)state;
  iobind_batch *batch = voice_batch(session, ROWS, 0);
  iobind_stream *stream;
  uint64_t slots[ROWS];
  voice rows[ROWS] = {{{{0}}, {0}, 0}};
  voice_results results[ROWS];
  expect_ok(iobind_stream_create(device, NULL, &stream, &fault));
  for (int i = 0; i < ROWS; i++) {
    expect_ok(iobind_batch_join(batch, NULL, &slots[i], &fault));
    (void)advance(batch, slots[i], &rows[i], i);
  }
  expect_ok(iobind_batch_run(batch, slots, ROWS, NULL, &fault));
  for (int copy = 1; copy <= 4; copy++) {
    iobind_tensor *output;
    char setting[16];
    for (int i = 0; i < ROWS; i++) {
      results[i] = advance(batch, slots[i], &rows[i], copy * 7 + i);
    }
    snprintf(setting, sizeof setting, "%d,late", copy);
    assert_int_equal(vdev_set(0, "fail_copy", setting), 0);
    iobind_status status = iobind_batch_run(batch, slots, ROWS, stream, NULL);
    if (status == IOBIND_OK) {
      status = iobind_batch_take_output(batch, slots[0], Z, &output, NULL);
      iobind_tensor_release(output);
    }
    assert_int_equal(vdev_set(0, "fail_copy", "0"), 0);
    if (status != IOBIND_OK) {
      expect_ok(iobind_batch_run(batch, slots, ROWS, copy % 2 == 0 ? stream : NULL, &fault));
    }
    for (int i = 0; i < ROWS; i++) {
      voice_expect_results(batch, slots[i], &results[i]);
      voice_expect_state(batch, slots[i], &rows[i]);
    }
  }
  iobind_batch_destroy(batch);
  iobind_stream_destroy(stream);
}

/* The stream waits for a signal that comes after the call: a step whose inputs made the host wait for the stream would never return. */
static void on_a_busy_stream(void **state) {
  (void)state;
  static const iobind_batch_pair pair = {0, 0};
  iobind_external given = IOBIND_EXTERNAL_INIT;
  iobind_batch_options options = IOBIND_BATCH_OPTIONS_INIT;
  iobind_batch *batch;
  iobind_semaphore *signal;
  iobind_stream *stream;
  uint64_t slot;
  float sum[2] = {0, 0};
  int file = vdev_semaphore_create(0);
  if (file < 0) skip();
  iobind_session *adds = fixture_session(runtime, device, "add dims=rows,2");
  options.most_rows = 1;
  options.pairs = &pair;
  options.pair_count = 1;
  given.kind = IOBIND_EXTERNAL_FD_SEMAPHORE;
  given.handle = (void *)(intptr_t)file;
  expect_ok(iobind_batch_create(adds, &options, &batch, &fault));
  expect_ok(iobind_semaphore_import(device, &given, &signal, &fault));
  expect_ok(iobind_stream_create(device, NULL, &stream, &fault));
  expect_ok(iobind_batch_join(batch, NULL, &slot, &fault));
  for (int step = 0; step < 3; step++) {
    const float values[] = {(float)step + 1, 2};
    iobind_tensor *row;
    sum[0] += values[0];
    sum[1] += values[1];
    expect_ok(iobind_tensor_create(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, (int64_t[]){1, 2}, 2, &row, &fault));
    expect_ok(iobind_tensor_write(row, 0, values, sizeof values, NULL, &fault));
    expect_ok(iobind_batch_set_input(batch, slot, 1, row, &fault));
    iobind_tensor_release(row);
    if (step > 0)
      expect_ok(iobind_stream_wait_semaphore(stream, signal, (uint64_t)step, &fault)); /* the first tests the width */
    expect_ok(iobind_batch_run(batch, &slot, 1, stream, &fault));
    if (step > 0) assert_int_equal(vdev_semaphore_signal(file, (uint64_t)step), 0);
    iobind_state *saved;
    iobind_state_pair now = IOBIND_STATE_PAIR_INIT;
    expect_ok(iobind_batch_save_state(batch, slot, &saved, &fault));
    expect_ok(iobind_state_get_pair(saved, 0, &now, &fault));
    voice_expect_tensor(now.tensor, sum, sizeof sum);
    iobind_state_release(saved);
  }
  iobind_batch_destroy(batch);
  iobind_stream_destroy(stream);
  iobind_semaphore_destroy(signal);
  iobind_session_destroy(adds);
  (void)close(file);
}

/* ---- rows that run along ---- */

/* As if the whole side had cost least. */
static void prefer_to_stay(iobind_batch *batch, size_t asked) {
  batch->costs.move = 1;
  batch->costs.runs[asked] = UINT32_MAX;
  batch->costs.runs[ROWS] = 1;
}

/* They are put back; a row that has left runs along, too, and a row that joins takes its place. */
static void rows_that_run_along(void **state) {
  (void)state;
  enum { STEPS = 9 };
  iobind_batch *batch = voice_batch(session, ROWS, 0);
  iobind_batch_info info = IOBIND_BATCH_INFO_INIT;
  uint64_t slots[ROWS];
  voice rows[ROWS] = {{{{0}}, {0}, 0}};
  voice_results results[ROWS];
  for (int i = 0; i < ROWS; i++) {
    expect_ok(iobind_batch_join(batch, NULL, &slots[i], &fault));
    (void)advance(batch, slots[i], &rows[i], i);
  }
  expect_ok(iobind_batch_run(batch, slots, ROWS, NULL, &fault));
  for (int step = 0; step < STEPS; step++) {
    const int asked = step % ROWS;
    if (step % 2 == 1) {
      const int other = (asked + 1) % ROWS;
      expect_ok(iobind_batch_leave(batch, slots[other], NULL, &fault));
      if (step % 4 == 1) {
        expect_ok(iobind_batch_join(batch, NULL, &slots[other], &fault));
        rows[other] = (voice){{{0}}, {0}, 0};
      } else {
        iobind_state *saved;
        expect_ok(iobind_batch_save_state(batch, slots[asked], &saved, &fault));
        expect_ok(iobind_batch_join(batch, saved, &slots[other], &fault));
        rows[other] = rows[asked];
        iobind_state_release(saved);
      }
    }
    results[asked] = advance(batch, slots[asked], &rows[asked], step * 3);
    prefer_to_stay(batch, 1);
    expect_ok(iobind_batch_run(batch, &slots[asked], 1, NULL, &fault));
    expect_ok(iobind_batch_get_info(batch, &info, &fault));
    assert_int_equal(info.width, ROWS);
    voice_expect_results(batch, slots[asked], &results[asked]);
    for (int i = 0; i < ROWS; i++) {
      voice_expect_state(batch, slots[i], &rows[i]);
    }
  }
  iobind_batch_destroy(batch);
}

/* A run of more rows than there are reads states that a model can take, and not whatever the memory held. */
static void rows_of_nobody(void **state) {
  (void)state;
  iobind_batch *batch = voice_batch(session, ROWS, 0);
  static const char zeros[(size_t)ROWS * LEADS * WIDTH * sizeof(float)];
  for (int side = 0; side < IOBIND__SIDES; side++) {
    for (size_t i = 0; i < batch->column_count; i++) {
      char got[sizeof zeros];
      const size_t bytes = batch->sides[side].tensors[i]->bytes;
      assert_true(bytes <= sizeof got);
      expect_ok(iobind_tensor_read(batch->sides[side].tensors[i], 0, got, bytes, NULL, &fault));
      assert_memory_equal(got, zeros, bytes);
    }
  }
  iobind_batch_destroy(batch);
}

/* The state of a row that ran along may be why the run failed: the step is made without it, at once, or after the run has failed late. */
static void step_without_those_that_ran_along(void **state) {
  (void)state;
  static const char *const settings[] = {"1", "1,late"};
  for (size_t way = 0; way < sizeof settings / sizeof settings[0]; way++) {
    iobind_batch *batch = voice_batch(session, ROWS, IOBIND_BATCH_ON_DEVICE);
    iobind_batch_info info = IOBIND_BATCH_INFO_INIT;
    iobind_stream *stream;
    uint64_t slots[ROWS];
    voice rows[ROWS] = {{{{0}}, {0}, 0}};
    expect_ok(iobind_stream_create(device, NULL, &stream, &fault));
    for (int i = 0; i < ROWS; i++) {
      expect_ok(iobind_batch_join(batch, NULL, &slots[i], &fault));
      (void)advance(batch, slots[i], &rows[i], i);
    }
    expect_ok(iobind_batch_run(batch, slots, ROWS, NULL, &fault));
    voice_results results = advance(batch, slots[1], &rows[1], 5);
    prefer_to_stay(batch, 1);
    assert_int_equal(vdev_set(0, "fail_compute", settings[way]), 0);
    expect_ok(iobind_batch_run(batch, &slots[1], 1, stream, &fault));
    iobind_tensor *output;
    expect(way == 0 ? IOBIND_OK : IOBIND_ERROR_RUNTIME, iobind_batch_take_output(batch, slots[1], Z, &output, &fault));
    iobind_tensor_release(output);
    assert_int_equal(vdev_set(0, "fail_compute", "0"), 0);
    if (way == 1) {
      expect_ok(iobind_batch_get_info(batch, &info, &fault));
      assert_int_equal(info.width, ROWS);
      expect_ok(iobind_batch_run(batch, &slots[1], 1, NULL, &fault));
    }
    expect_ok(iobind_batch_get_info(batch, &info, &fault));
    assert_int_equal(info.width, 1);
    voice_expect_results(batch, slots[1], &results);
    for (int i = 0; i < ROWS; i++) {
      voice_expect_state(batch, slots[i], &rows[i]);
    }
    iobind_batch_destroy(batch);
    iobind_stream_destroy(stream);
  }
}

/* A row that has made all its steps rests beside another, whose step does not fail for it. */
static void row_that_cannot_run_along(void **state) {
  (void)state;
  enum { MOST_STEPS = 8 };
  iobind_session *limited = fixture_session(runtime, device, "voices limit=8");
  iobind_batch *batch = voice_batch(limited, ROWS, 0);
  iobind_batch_info info = IOBIND_BATCH_INFO_INIT;
  iobind_error untouched = IOBIND_ERROR_INIT;
  uint64_t slots[ROWS];
  voice rows[ROWS] = {{{{0}}, {0}, 0}};
  for (int i = 0; i < ROWS; i++) {
    expect_ok(iobind_batch_join(batch, NULL, &slots[i], &fault));
  }
  for (int step = 1; step <= MOST_STEPS; step++) {
    const int count = step == MOST_STEPS ? ROWS : 1;
    for (int i = 0; i < count; i++) {
      (void)advance(batch, slots[i], &rows[i], step + i);
    }
    expect_ok(iobind_batch_run(batch, slots, (size_t)count, NULL, &fault));
  }
  voice_results results = advance(batch, slots[1], &rows[1], 5);
  prefer_to_stay(batch, 1);
  expect_ok(iobind_batch_run(batch, &slots[1], 1, NULL, &untouched));
  assert_string_equal(untouched.message, "");
  expect_ok(iobind_batch_get_info(batch, &info, &fault));
  assert_int_equal(info.width, 1);
  voice_expect_results(batch, slots[1], &results);
  for (int i = 0; i < ROWS; i++) {
    voice_expect_state(batch, slots[i], &rows[i]);
  }
  iobind_batch_destroy(batch);
  iobind_session_destroy(limited);
}

/* ---- a server's loop ---- */

/* A run in flight makes no submitted row's step: nothing would end the wait. */
static void await_of_a_run_in_flight(void **state) {
  (void)state;
  iobind_batch *batch = voice_batch(session, ROWS, 0);
  iobind_stream *stream;
  uint64_t slot;
  voice row = {{{0}}, {0}, 0};
  expect_ok(iobind_stream_create(device, NULL, &stream, &fault));
  expect_ok(iobind_batch_join(batch, NULL, &slot, &fault));
  voice_results results = advance(batch, slot, &row, 1);
  expect_ok(iobind_batch_run(batch, &slot, 1, stream, &fault));
  expect(IOBIND_ERROR_INVALID_STATE, iobind_batch_await(batch, slot, 0, &fault));
  voice_expect_results(batch, slot, &results);
  iobind_batch_destroy(batch);
  iobind_stream_destroy(stream);
}

typedef struct submitter {
  iobind_batch *batch;
  uint64_t slot;
  iobind_status status;
} submitter;

static void *submit(void *context) {
  submitter *self = context;
  self->status = iobind_batch_submit(self->batch, self->slot, NULL);
  return NULL;
}

/* Without a limit a step waits for its rows. */
static void wait_without_a_limit(void **state) {
  (void)state;
  iobind_batch *batch = voice_batch(session, ROWS, 0);
  iobind_batch_wait wait = IOBIND_BATCH_WAIT_INIT;
  uint64_t slots[ROWS];
  voice rows[ROWS] = {{{{0}}, {0}, 0}};
  pthread_t thread;
  size_t count = 0;
  wait.rows = 2;
  wait.longest_ns = IOBIND_NO_TIMEOUT;
  for (int i = 0; i < ROWS; i++) {
    expect_ok(iobind_batch_join(batch, NULL, &slots[i], &fault));
    (void)advance(batch, slots[i], &rows[i], i);
  }
  submitter other = {.batch = batch, .slot = slots[1]};
  expect_ok(iobind_batch_submit(batch, slots[0], &fault));
  assert_int_equal(pthread_create(&thread, NULL, submit, &other), 0);
  expect_ok(iobind_batch_step(batch, &wait, NULL, 0, &count, &fault));
  assert_int_equal(pthread_join(thread, NULL), 0);
  assert_int_equal(other.status, IOBIND_OK);
  assert_int_equal(count, 2);
  iobind_batch_destroy(batch);
}

/* ---- threads ---- */

typedef struct owner {
  iobind_batch *batch;
  iobind_stream *stream;
  pthread_t thread;
  int index;
  int wrong;
} owner;

static bool is_tensor(iobind_tensor *tensor, const void *expected, size_t bytes) {
  char got[sizeof(float[LEADS][WIDTH])];
  return iobind_tensor_read(tensor, 0, got, bytes, NULL, NULL) == IOBIND_OK && memcmp(got, expected, bytes) == 0;
}

static bool has_results(const owner *self, uint64_t slot, const voice_results *expected) {
  iobind_tensor *y = NULL;
  iobind_tensor *z = NULL;
  bool good = iobind_batch_take_output(self->batch, slot, Y, &y, NULL) == IOBIND_OK &&
              iobind_batch_take_output(self->batch, slot, Z, &z, NULL) == IOBIND_OK &&
              is_tensor(y, expected->y, sizeof expected->y) && is_tensor(z, expected->z, sizeof expected->z);
  iobind_tensor_release(y);
  iobind_tensor_release(z);
  return good;
}

/* The row leaves with its state, and one with that state joins. */
static bool join_again(const owner *self, uint64_t *slot) {
  iobind_state *saved = NULL;
  bool good = iobind_batch_leave(self->batch, *slot, &saved, NULL) == IOBIND_OK &&
              iobind_batch_join(self->batch, saved, slot, NULL) == IOBIND_OK;
  iobind_state_release(saved);
  return good;
}

static void *own(void *context) {
  enum { STEPS = 24 };
  owner *self = context;
  const int64_t dims[] = {1, WIDTH};
  voice row = {{{0}}, {0}, 0};
  uint64_t slot;
  iobind_tensor *tensor;
  if (iobind_tensor_create(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 2, &tensor, NULL) != IOBIND_OK ||
      iobind_batch_join(self->batch, NULL, &slot, NULL) != IOBIND_OK) {
    self->wrong++;
    return NULL;
  }
  for (int step = 0; step < STEPS; step++) {
    float x[WIDTH];
    fill(x, self->index * STEPS + step);
    voice_results results = voice_step(&row, x);
    bool good = iobind_tensor_write(tensor, 0, x, sizeof x, NULL, NULL) == IOBIND_OK &&
                iobind_batch_set_input(self->batch, slot, X, tensor, NULL) == IOBIND_OK &&
                iobind_batch_run(self->batch, &slot, 1, step % 2 == 0 ? self->stream : NULL, NULL) == IOBIND_OK &&
                has_results(self, slot, &results) && (step % 5 != 0 || join_again(self, &slot));
    self->wrong += !good;
  }
  iobind_tensor_release(tensor);
  return NULL;
}

/* Each has a row and a stream of its own; the steps of all are made one after the other. Two batches share the session. */
static void owners_of_rows(void **state) {
  (void)state;
  iobind_batch *batches[] = {voice_batch(session, ROWS, 0), voice_batch(session, ROWS, IOBIND_BATCH_ON_DEVICE)};
  owner owners[ROWS + 1];
  for (int i = 0; i < ROWS + 1; i++) {
    owners[i] = (owner){.batch = batches[i % 2], .index = i};
    expect_ok(iobind_stream_create(device, NULL, &owners[i].stream, &fault));
  }
  for (int i = 0; i < ROWS + 1; i++) {
    assert_int_equal(pthread_create(&owners[i].thread, NULL, own, &owners[i]), 0);
  }
  for (int i = 0; i < ROWS + 1; i++) {
    assert_int_equal(pthread_join(owners[i].thread, NULL), 0);
    assert_int_equal(owners[i].wrong, 0);
  }
  for (int i = 0; i < 2; i++) {
    iobind_batch_destroy(batches[i]);
  }
  for (int i = 0; i < ROWS + 1; i++) {
    iobind_stream_destroy(owners[i].stream);
  }
}

/* ---- the session's own stream ---- */

/* Rows are moved beside it. */
static void session_with_a_stream(void **state) {
  (void)state;
  enum { STEPS = 8 };
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  iobind_session *own_stream;
  iobind_stream *stream;
  uint64_t slots[ROWS];
  voice rows[ROWS] = {{{{0}}, {0}, 0}};
  expect_ok(iobind_stream_create(device, NULL, &stream, &fault));
  options.devices = &device;
  options.device_count = 1;
  options.stream = stream;
  expect_ok(test_session_with(runtime, "voices", &options, &own_stream, &fault));
  iobind_batch *batch = voice_batch(own_stream, ROWS, IOBIND_BATCH_ON_DEVICE);
  for (int i = 0; i < ROWS; i++) {
    expect_ok(iobind_batch_join(batch, NULL, &slots[i], &fault));
  }
  for (int step = 0; step < STEPS; step++) {
    const int count = 1 + step % ROWS;
    voice_results results[ROWS];
    for (int i = 0; i < count; i++) {
      results[i] = advance(batch, slots[i], &rows[i], step * ROWS + i);
    }
    expect_ok(iobind_batch_run(batch, slots, (size_t)count, step % 2 == 0 ? stream : NULL, &fault));
    for (int i = 0; i < count; i++) {
      voice_expect_results(batch, slots[i], &results[i]);
    }
    voice_expect_state(batch, slots[ROWS - 1], &rows[ROWS - 1]);
  }
  iobind_batch_destroy(batch);
  iobind_session_destroy(own_stream);
  iobind_stream_destroy(stream);
}

/* ---- values ---- */

/* Nothing of x, a and b, and a count. */
static void values_of_0_bytes(void **state) {
  (void)state;
  iobind_session *empty = fixture_session(runtime, device, "voices width=0");
  iobind_batch *batch = voice_batch(empty, ROWS, 0);
  const int64_t dims[] = {1, 0};
  iobind_tensor *x;
  uint64_t slots[ROWS];
  expect_ok(iobind_tensor_create(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 2, &x, &fault));
  for (int i = 0; i < ROWS; i++) {
    expect_ok(iobind_batch_join(batch, NULL, &slots[i], &fault));
  }
  for (int step = 0; step < 6; step++) {
    const size_t count = 1 + (size_t)step % ROWS;
    for (size_t i = 0; i < count; i++) {
      expect_ok(iobind_batch_set_input(batch, slots[i], X, x, &fault));
    }
    expect_ok(iobind_batch_run(batch, slots, count, NULL, &fault));
    iobind_tensor *y;
    expect_ok(iobind_batch_take_output(batch, slots[0], Y, &y, &fault));
    iobind_tensor_release(y);
  }
  for (int i = 0; i < ROWS; i++) {
    iobind_state_pair pair = IOBIND_STATE_PAIR_INIT;
    const int64_t made[] = {6, 4, 2};
    iobind_state *saved;
    expect_ok(iobind_batch_save_state(batch, slots[i], &saved, &fault));
    expect_ok(iobind_state_get_pair(saved, 2, &pair, &fault));
    voice_expect_tensor(pair.tensor, &made[i], sizeof made[i]);
    iobind_state_release(saved);
  }
  iobind_tensor_release(x);
  iobind_batch_destroy(batch);
  iobind_session_destroy(empty);
}

/* An input that is an output, too, of a batch without states. */
static void input_that_is_an_output(void **state) {
  (void)state;
  iobind_session *passing = fixture_session(runtime, device, "passthrough");
  for (uint32_t flags = 0; flags <= IOBIND_BATCH_ON_DEVICE; flags++) {
    enum { STEPS = 4 };
    iobind_batch_options options = IOBIND_BATCH_OPTIONS_INIT;
    iobind_batch *batch;
    uint64_t slots[2];
    iobind_tensor *kept[STEPS];
    iobind_state *saved;
    options.most_rows = 2;
    options.flags = flags;
    expect_ok(iobind_batch_create(passing, &options, &batch, &fault));
    expect_ok(iobind_batch_join(batch, NULL, &slots[0], &fault));
    expect_ok(iobind_batch_join(batch, NULL, &slots[1], &fault));
    for (int step = 0; step < STEPS; step++) {
      for (int i = 0; i < 2; i++) {
        const float value = (float)(step * 2 + i);
        iobind_tensor *x = fixture_floats(cpu, &value, 1);
        expect_ok(iobind_batch_set_input(batch, slots[i], 0, x, &fault));
        iobind_tensor_release(x);
      }
      expect_ok(iobind_batch_run(batch, slots, 2, NULL, &fault));
      expect_ok(iobind_batch_take_output(batch, slots[1], 0, &kept[step], &fault));
    }
    expect(IOBIND_ERROR_INVALID_STATE, iobind_batch_save_state(batch, slots[0], &saved, &fault));
    iobind_batch_destroy(batch);
    for (int step = 0; step < STEPS; step++) {
      const float value = (float)(step * 2 + 1);
      voice_expect_tensor(kept[step], &value, sizeof value);
      iobind_tensor_release(kept[step]);
    }
  }
  iobind_session_destroy(passing);
}

#define ON(device, test) \
  { #device ": " #test, test, start, stop, #device }
#define ON_EACH(test) ON(vdev, test), ON(cpu, test), ON(cuda, test)
#define ON_VDEV(test) ON(vdev, test)
#define ON_CUDA(test) ON(cuda, test)

static const struct CMUnitTest tests[] = {
    ON_VDEV(moves_that_fail),
    ON_VDEV(state_of_a_run_that_failed),
    ON_VDEV(output_of_a_step_that_failed),
    ON_VDEV(upload_that_fails_late),
    ON_VDEV(on_a_busy_stream),
    ON_EACH(rows_that_run_along),
    ON_VDEV(rows_of_nobody),
    ON_VDEV(step_without_those_that_ran_along),
    ON_VDEV(row_that_cannot_run_along), /* CUDA does not report an index out of range */
    ON(cpu, row_that_cannot_run_along),
    ON_EACH(await_of_a_run_in_flight),
    ON_EACH(wait_without_a_limit),
    ON_EACH(owners_of_rows),
    ON_CUDA(session_with_a_stream),
    ON_EACH(values_of_0_bytes),
    ON_EACH(input_that_is_an_output),
};

FIXTURE_MAIN(tests, NULL, NULL);
