/* The model `voices`, in a batch and, row by row, in plain C: whole numbers, so that both are equal to the bit. */
#ifndef TESTS_BATCH_VOICES_H
#define TESTS_BATCH_VOICES_H

#include "../rig/stage.h"

#include <stdlib.h>
#include <string.h>

enum { WIDTH = 4, LEADS = 2, MOST = 24 };
enum { X, GAIN, A, B, COUNT }; /* inputs */
enum { Y, Z, NEXT_A, NEXT_B, NEXT_COUNT };

static const iobind_batch_pair voice_pairs[] = {{NEXT_COUNT, COUNT}, {NEXT_A, A}, {NEXT_B, B}};
static const float voice_gain = 3;

/* What a row must hold. */
typedef struct voice {
  float a[LEADS][WIDTH];
  float b[WIDTH];
  int64_t count;
} voice;

typedef struct voice_results {
  float y[LEADS][WIDTH];
  float z[WIDTH];
} voice_results;

static inline voice_results voice_step(voice *self, const float x[WIDTH]) {
  voice_results results;
  for (int i = 0; i < WIDTH; i++) {
    self->b[i] = self->b[i] > x[i] ? self->b[i] : x[i];
    for (int lead = 0; lead < LEADS; lead++) {
      self->a[lead][i] = x[i] * (float)(lead + 1) - self->a[lead][i];
      results.y[lead][i] = self->a[lead][i] + self->b[i];
    }
    results.z[i] = self->b[i] + voice_gain;
  }
  self->count++;
  return results;
}

static inline void voice_fill(float x[WIDTH], int64_t seed) {
  for (int i = 0; i < WIDTH; i++) {
    x[i] = (float)((seed * 7 + (int64_t)i * 5) % 17 - 8);
  }
}

static inline void voice_bring(iobind_batch *batch, uint64_t slot, const float x[WIDTH]) {
  const int64_t dims[] = {1, WIDTH};
  iobind_tensor *row;
  expect_ok(iobind_tensor_create(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 2, &row, &fault));
  expect_ok(iobind_tensor_write(row, 0, x, sizeof(float[WIDTH]), NULL, &fault));
  expect_ok(iobind_batch_set_input(batch, slot, X, row, &fault));
  iobind_tensor_release(row);
}

/* The same from memory of the device. */
static inline void voice_bring_there(iobind_batch *batch, uint64_t slot, const float x[WIDTH]) {
  const int64_t dims[] = {1, WIDTH};
  iobind_tensor *row;
  expect_ok(iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 2, &row, &fault));
  expect_ok(iobind_tensor_write(row, 0, x, sizeof(float[WIDTH]), NULL, &fault));
  expect_ok(iobind_batch_set_input(batch, slot, X, row, &fault));
  iobind_tensor_release(row);
}

static inline void voice_set_gain(iobind_batch *batch) {
  iobind_tensor *gain;
  expect_ok(iobind_tensor_create(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, NULL, 0, &gain, &fault));
  expect_ok(iobind_tensor_write(gain, 0, &voice_gain, sizeof voice_gain, NULL, &fault));
  expect_ok(iobind_batch_set_input(batch, IOBIND_BATCH_ALL, GAIN, gain, &fault));
  iobind_tensor_release(gain);
}

/* A session that captures graphs, in place of the open one. */
static inline void voice_capture(iobind_session **session) {
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  iobind_session_destroy(*session);
  *session = NULL;
  options.devices = &device;
  options.device_count = 1;
  options.graph_limit = 1;
  expect_ok(test_session_with(runtime, "voices", &options, session, &fault));
}

static inline size_t voice_count_graphs(iobind_session *session) {
  iobind_session_info info = IOBIND_SESSION_INFO_INIT;
  expect_ok(iobind_session_get_info(session, &info, &fault));
  return info.graph_count + info.kept_graph_count;
}

static inline iobind_batch_options voice_options(size_t most) {
  iobind_batch_options options = IOBIND_BATCH_OPTIONS_INIT;
  options.most_rows = most;
  options.pairs = voice_pairs;
  options.pair_count = sizeof voice_pairs / sizeof voice_pairs[0];
  return options;
}

static inline iobind_batch *voice_batch(iobind_session *session, size_t most, uint32_t flags) {
  iobind_batch_options options = voice_options(most);
  iobind_batch *batch;
  options.flags = flags;
  expect_ok(iobind_batch_create(session, &options, &batch, &fault));
  voice_set_gain(batch);
  return batch;
}

/* A binding that continues from a state of a row, with the input x. */
static inline iobind_binding *voice_binding(iobind_session *session, iobind_state *from, const float x[WIDTH]) {
  const int64_t dims[] = {1, WIDTH};
  iobind_binding *binding;
  iobind_tensor *input;
  iobind_tensor *gain;
  expect_ok(iobind_binding_create(session, &binding, &fault));
  for (size_t i = 0; i < sizeof voice_pairs / sizeof voice_pairs[0]; i++) {
    expect_ok(iobind_binding_carry(binding, voice_pairs[i].output, voice_pairs[i].input, IOBIND_CARRY_MOVE, &fault));
  }
  expect_ok(iobind_binding_restore_state(binding, from, &fault));
  expect_ok(iobind_tensor_create(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 2, &input, &fault));
  expect_ok(iobind_tensor_create(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, NULL, 0, &gain, &fault));
  expect_ok(iobind_tensor_write(input, 0, x, WIDTH * sizeof x[0], NULL, &fault));
  expect_ok(iobind_tensor_write(gain, 0, &voice_gain, sizeof voice_gain, NULL, &fault));
  expect_ok(iobind_binding_set_input(binding, X, IOBIND_INPUT_SNAPSHOT, input, NULL, &fault));
  expect_ok(iobind_binding_set_input(binding, GAIN, IOBIND_INPUT_SNAPSHOT, gain, NULL, &fault));
  iobind_tensor_release(input);
  iobind_tensor_release(gain);
  return binding;
}

static inline void voice_expect_tensor(iobind_tensor *tensor, const void *expected, size_t bytes) {
  char got[sizeof(float[LEADS][WIDTH])];
  assert_true(bytes <= sizeof got);
  expect_ok(iobind_tensor_read(tensor, 0, got, bytes, NULL, &fault));
  assert_memory_equal(got, expected, bytes);
}

static inline void voice_expect_results(iobind_batch *batch, uint64_t slot, const voice_results *expected) {
  iobind_tensor *y;
  iobind_tensor *z;
  expect_ok(iobind_batch_take_output(batch, slot, Y, &y, &fault));
  expect_ok(iobind_batch_take_output(batch, slot, Z, &z, &fault));
  voice_expect_tensor(y, expected->y, sizeof expected->y);
  voice_expect_tensor(z, expected->z, sizeof expected->z);
  iobind_tensor_release(y);
  iobind_tensor_release(z);
}

static inline void voice_expect_saved(const iobind_state *state, const voice *expected) {
  iobind_state_pair pair = IOBIND_STATE_PAIR_INIT;
  expect_ok(iobind_state_get_pair(state, 0, &pair, &fault));
  assert_int_equal(pair.input, A);
  voice_expect_tensor(pair.tensor, expected->a, sizeof expected->a);
  expect_ok(iobind_state_get_pair(state, 1, &pair, &fault));
  voice_expect_tensor(pair.tensor, expected->b, sizeof expected->b);
  expect_ok(iobind_state_get_pair(state, 2, &pair, &fault));
  voice_expect_tensor(pair.tensor, &expected->count, sizeof expected->count);
}

static inline void voice_expect_state(iobind_batch *batch, uint64_t slot, const voice *expected) {
  iobind_state *state;
  expect_ok(iobind_batch_save_state(batch, slot, &state, &fault));
  voice_expect_saved(state, expected);
  iobind_state_release(state);
}

/* Steps of rows of a new batch, of which every third rests in turn. A row that rests keeps its state. */
static inline void voice_expect_rest(iobind_batch *batch, size_t count, size_t steps) {
  uint64_t slots[MOST];
  voice rows[MOST] = {{{{0}}, {0}, 0}};
  assert_true(count <= MOST);
  for (size_t i = 0; i < count; i++) {
    expect_ok(iobind_batch_join(batch, NULL, &slots[i], &fault));
  }
  for (size_t step = 0; step < steps; step++) {
    uint64_t asked[MOST];
    voice_results results[MOST];
    size_t asked_count = 0;
    for (size_t i = 0; i < count; i++) {
      if ((step + i) % 3 != 0 || step == 0) {
        float x[WIDTH];
        voice_fill(x, (int64_t)(step * count + i));
        voice_bring(batch, slots[i], x);
        results[asked_count] = voice_step(&rows[i], x);
        asked[asked_count++] = slots[i];
      }
    }
    expect_ok(iobind_batch_run(batch, asked, asked_count, NULL, &fault));
    for (size_t i = 0; i < asked_count; i++) {
      voice_expect_results(batch, asked[i], &results[i]);
    }
    for (size_t i = 0; i < count; i++) {
      voice_expect_state(batch, slots[i], &rows[i]);
    }
  }
}

#endif
