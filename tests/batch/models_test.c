/* Batches of whole models: a decoder whose rows have different lengths, and an encoder with many states. */
#include "../rig/stage.h"

#include <stdlib.h>
#include <string.h>

#include "vdev.h"

static int start(void **state) {
  return stage_open(state);
}

static iobind_session *open_session(const char *model, size_t graph_limit) {
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  iobind_session *session;
  options.devices = &device;
  options.device_count = 1;
  options.graph_limit = graph_limit;
  expect_ok(test_session_with(runtime, model, &options, &session, &fault));
  return session;
}

static iobind_tensor *make_tensor(iobind_dtype dtype, const int64_t *dims, size_t rank, const void *data, size_t bytes) {
  iobind_tensor *made;
  expect_ok(iobind_tensor_create(cpu, IOBIND_MEMORY_DEFAULT, dtype, dims, rank, &made, &fault));
  expect_ok(iobind_tensor_write(made, 0, data, bytes, NULL, &fault));
  return made;
}

/* ---- a decoder ---- */

enum { ROWS = 32, VOCAB = 16, CAPACITY = 16, ROUNDS = 60, TOKEN = 0, KEY = 1, VALUE = 2, LENGTH = 3, LOGITS = 0 };

static const iobind_batch_pair caches[] = {{1, KEY}, {2, VALUE}, {3, LENGTH}};

typedef struct caption {
  bool is_here;
  uint64_t slot;
  size_t length;
  int64_t tokens[CAPACITY + 1]; /* the first one is given, each other one follows from those before */
} caption;

static uint32_t seed;

static size_t pick(size_t below) {
  seed = seed * 1664525u + 1013904223u;
  return (seed >> 8) % below;
}

static int64_t follow(iobind_tensor *logits) {
  float values[VOCAB];
  int64_t best = 0;
  expect_ok(iobind_tensor_read(logits, 0, values, sizeof values, NULL, &fault));
  for (int64_t i = 1; i < VOCAB; i++) {
    best = values[i] > values[best] ? i : best;
  }
  return best;
}

static iobind_tensor *token_tensor(int64_t token) {
  static const int64_t dims[] = {1, 1};
  return make_tensor(IOBIND_DTYPE_INT64, dims, 2, &token, sizeof token);
}

/* The row's tokens are those of the same decoder with that row alone, in a binding. */
static void check_alone(iobind_session *session, const caption *row) {
  static const float zeros[CAPACITY * 8];
  static const int64_t dims[] = {1, CAPACITY, 8}, one[] = {1, 1, 1};
  static const int64_t none;
  iobind_binding *binding;
  iobind_tensor *first[] = {NULL, make_tensor(IOBIND_DTYPE_FLOAT32, dims, 3, zeros, sizeof zeros),
                            make_tensor(IOBIND_DTYPE_FLOAT32, dims, 3, zeros, sizeof zeros),
                            make_tensor(IOBIND_DTYPE_INT64, one, 3, &none, sizeof none)};
  expect_ok(iobind_binding_create(session, &binding, &fault));
  for (size_t i = KEY; i <= LENGTH; i++) {
    expect_ok(iobind_binding_set_input(binding, i, IOBIND_INPUT_SNAPSHOT, first[i], NULL, &fault));
    expect_ok(iobind_binding_carry(binding, i, i, IOBIND_CARRY_MOVE, &fault));
    iobind_tensor_release(first[i]);
  }
  for (size_t i = 0; i < row->length; i++) {
    iobind_tensor *token = token_tensor(row->tokens[i]);
    iobind_tensor *logits;
    expect_ok(iobind_binding_set_input(binding, TOKEN, IOBIND_INPUT_SNAPSHOT, token, NULL, &fault));
    expect_ok(iobind_binding_run(binding, NULL, &fault));
    expect_ok(iobind_binding_take_output(binding, LOGITS, &logits, &fault));
    assert_int_equal(follow(logits), row->tokens[i + 1]);
    iobind_tensor_release(logits);
    iobind_tensor_release(token);
  }
  iobind_binding_destroy(binding);
}

static void join(iobind_batch *batch, caption *row, int64_t first) {
  *row = (caption){.is_here = true, .tokens = {first % VOCAB}};
  expect_ok(iobind_batch_join(batch, NULL, &row->slot, &fault));
}

static void decode(iobind_batch *batch, caption *rows) {
  uint64_t slots[ROWS];
  caption *asked[ROWS];
  size_t count = 0;
  for (size_t i = 0; i < ROWS; i++) {
    if (rows[i].is_here && rows[i].length < CAPACITY && pick(4) != 0) {
      iobind_tensor *token = token_tensor(rows[i].tokens[rows[i].length]);
      expect_ok(iobind_batch_set_input(batch, rows[i].slot, TOKEN, token, &fault));
      iobind_tensor_release(token);
      asked[count] = &rows[i];
      slots[count++] = rows[i].slot;
    }
  }
  if (count == 0) {
    return;
  }
  expect_ok(iobind_batch_run(batch, slots, count, NULL, &fault));
  for (size_t i = 0; i < count; i++) {
    iobind_tensor *logits;
    expect_ok(iobind_batch_take_output(batch, slots[i], LOGITS, &logits, &fault));
    asked[i]->tokens[++asked[i]->length] = follow(logits);
    iobind_tensor_release(logits);
  }
}

static void decode_all(size_t graph_limit) {
  static caption rows[ROWS];
  iobind_session *plain = open_session("ragged", 0);
  iobind_session *session = graph_limit > 0 ? open_session("ragged", graph_limit) : plain;
  iobind_batch_options options = IOBIND_BATCH_OPTIONS_INIT;
  iobind_batch *batch;
  size_t checked = 0;
  seed = 7;
  memset(rows, 0, sizeof rows);
  options.most_rows = ROWS;
  options.pairs = caches;
  options.pair_count = sizeof caches / sizeof caches[0];
  expect_ok(iobind_batch_create(session, &options, &batch, &fault));
  for (int64_t round = 0; round < ROUNDS; round++) {
    for (size_t n = 0; n < 3; n++) {
      caption *row = &rows[pick(ROWS)];
      if (!row->is_here) {
        join(batch, row, round + (int64_t)n);
      } else if (row->length == CAPACITY || pick(8) == 0) {
        check_alone(plain, row);
        checked += row->length > 0;
        expect_ok(iobind_batch_leave(batch, row->slot, NULL, &fault));
        row->is_here = false;
      }
    }
    decode(batch, rows);
  }
  for (size_t i = 0; i < ROWS; i++) {
    if (rows[i].is_here) {
      check_alone(plain, &rows[i]);
      checked += rows[i].length > 0;
    }
  }
  assert_true(checked >= ROWS);
  iobind_batch_destroy(batch);
  iobind_session_destroy(session);
  if (session != plain) {
    iobind_session_destroy(plain);
  }
}

static void rows_of_different_lengths(void **state) {
  (void)state;
  decode_all(0);
}

static void rows_of_different_lengths_captured(void **state) {
  (void)state;
  decode_all(1);
}

/* ---- GroupQueryAttention ---- */

/* x, a key, a value, the last place in use of each row, and as many places as there are or more, for all rows. CUDA's kernels take half
 * floats: 16 bits, whose zeros are those of float32. */
enum { X = 0, LAST = 3, TOTAL = 4, Y = 0, SPEAKERS = 3, PLACES = 8, WIDTH = 16 };

typedef struct element {
  iobind_dtype dtype;
  size_t bytes; /* of each */
  const char *model;
} element;

static element element_of_device(void) {
  return is_device("cuda")
             ? (element){IOBIND_DTYPE_FLOAT16, sizeof(uint16_t), "shared batch=-1 capacity=8 heads=1 width=16 dtype=float16"}
             : (element){IOBIND_DTYPE_FLOAT32, sizeof(float), "shared batch=-1 capacity=8 heads=1 width=16"};
}

/* Of a whole number of 16ths between -2 and 2, which both types hold exactly. */
static uint16_t half_of(float value) {
  union {
    float number;
    uint32_t bits;
  } of = {value};
  uint32_t exponent = of.bits >> 23 & 0xFF;
  return (uint16_t)(value == 0 ? 0 : of.bits >> 16 & 0x8000) |
         (uint16_t)(value == 0 ? 0 : (exponent - 112) << 10 | (of.bits >> 13 & 0x3FF));
}

typedef struct speaker {
  uint64_t slot;
  iobind_binding *alone;
  int32_t length;
} speaker;

static iobind_batch *open_speakers(iobind_session *session) {
  static const iobind_batch_pair pairs[] = {{1, 1}, {2, 2}};
  static const int32_t inputs[] = {0, 0, 0, 0, IOBIND_BATCH_NO_AXIS};
  static const int32_t outputs[] = {0, 0, 0};
  static const int32_t all = PLACES;
  iobind_batch_options options = IOBIND_BATCH_OPTIONS_INIT;
  iobind_batch *batch;
  options.most_rows = SPEAKERS;
  options.pairs = pairs;
  options.pair_count = 2;
  options.input_axes = inputs;
  options.input_axis_count = 5;
  options.output_axes = outputs;
  options.output_axis_count = 3;
  expect_ok(iobind_batch_create(session, &options, &batch, &fault));
  iobind_tensor *total = make_tensor(IOBIND_DTYPE_INT32, NULL, 0, &all, sizeof all);
  expect_ok(iobind_batch_set_input(batch, IOBIND_BATCH_ALL, TOTAL, total, &fault));
  iobind_tensor_release(total);
  return batch;
}

static iobind_binding *open_alone(iobind_session *session) {
  static const float zeros[PLACES * WIDTH];
  static const int64_t dims[] = {1, 1, PLACES, WIDTH};
  const element of = element_of_device();
  iobind_binding *made;
  expect_ok(iobind_binding_create(session, &made, &fault));
  for (size_t i = 1; i <= 2; i++) {
    iobind_tensor *first = make_tensor(of.dtype, dims, 4, zeros, of.bytes * PLACES * WIDTH);
    expect_ok(iobind_binding_set_input(made, i, IOBIND_INPUT_SNAPSHOT, first, NULL, &fault));
    expect_ok(iobind_binding_carry(made, i, i, IOBIND_CARRY_MOVE, &fault));
    iobind_tensor_release(first);
  }
  return made;
}

/* A row's inputs, for the batch and for the row alone. */
static void say_next(iobind_batch *batch, const speaker *of) {
  static const int64_t dims[] = {1, 1, WIDTH}, one = 1;
  const int32_t total = of->length + 1;
  const element type = element_of_device();
  float x[WIDTH];
  uint16_t halves[WIDTH];
  for (size_t i = 0; i < WIDTH; i++) {
    x[i] = (float)pick(64) / 16 - 2;
    halves[i] = half_of(x[i]);
  }
  const void *x_of_type = type.dtype == IOBIND_DTYPE_FLOAT16 ? (const void *)halves : x;
  iobind_tensor *const given[] = {[X] = make_tensor(type.dtype, dims, 3, x_of_type, type.bytes * WIDTH),
                                  [LAST] = make_tensor(IOBIND_DTYPE_INT32, &one, 1, &of->length, sizeof of->length),
                                  [TOTAL] = make_tensor(IOBIND_DTYPE_INT32, NULL, 0, &total, sizeof total)};
  for (size_t i = 0; i <= TOTAL; i++) {
    if (given[i] == NULL) continue;
    expect_ok(iobind_binding_set_input(of->alone, i, IOBIND_INPUT_SNAPSHOT, given[i], NULL, &fault));
    if (i != TOTAL) expect_ok(iobind_batch_set_input(batch, of->slot, i, given[i], &fault));
    iobind_tensor_release(given[i]);
  }
}

static void expect_the_same(iobind_batch *batch, const speaker *of) {
  const size_t bytes = element_of_device().bytes * WIDTH;
  float found[WIDTH];
  float expected[WIDTH];
  iobind_tensor *y;
  expect_ok(iobind_batch_take_output(batch, of->slot, Y, &y, &fault));
  expect_ok(iobind_tensor_read(y, 0, found, bytes, NULL, &fault));
  iobind_tensor_release(y);
  expect_ok(iobind_binding_run(of->alone, NULL, &fault));
  expect_ok(iobind_binding_get_output(of->alone, Y, NULL, &y, &fault));
  expect_ok(iobind_tensor_read(y, 0, expected, bytes, NULL, &fault));
  assert_memory_equal(found, expected, bytes);
}

/* A length for which the caches have no room fails its row alone, which keeps what was set before. */
static void lengths_without_room(void **state) {
  (void)state;
  static const int32_t wrong[] = {-1, PLACES, INT32_MAX, INT32_MIN};
  static const int64_t one = 1;
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  iobind_session *session;
  options.devices = &device;
  options.device_count = 1;
  options.flags = IOBIND_SESSION_IDENTIFY; /* so that the model's graph is known */
  expect_ok(test_session_with(runtime, element_of_device().model, &options, &session, &fault));
  iobind_batch *batch = open_speakers(session);
  speaker only = {.alone = open_alone(session), .length = PLACES - 1};
  seed = 5;
  expect_ok(iobind_batch_join(batch, NULL, &only.slot, &fault));
  say_next(batch, &only);
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    iobind_tensor *length = make_tensor(IOBIND_DTYPE_INT32, &one, 1, &wrong[i], sizeof wrong[i]);
    expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_batch_set_input(batch, only.slot, LAST, length, &fault));
    expect_words("expected a length of 0 to 7, for which the caches have room, got ");
    iobind_tensor_release(length);
  }
  expect_ok(iobind_batch_run(batch, &only.slot, 1, NULL, &fault));
  expect_the_same(batch, &only);
  iobind_binding_destroy(only.alone);
  iobind_batch_destroy(batch);
  iobind_session_destroy(session);
}

/* Rows begin one after the other, so that each has another length. Each is what it is alone, to the bit. */
static void rows_of_grouped_attention(void **state) {
  (void)state;
  static const char steps[][SPEAKERS + 1] = {"0", "01", "012", "12", "02", "012", "2", "01"};
  speaker speakers[SPEAKERS] = {0};
  iobind_session *session = open_session(element_of_device().model, 0);
  iobind_batch *batch = open_speakers(session);
  seed = 3;
  for (size_t i = 0; i < SPEAKERS; i++) {
    speakers[i].alone = open_alone(session);
    expect_ok(iobind_batch_join(batch, NULL, &speakers[i].slot, &fault));
  }
  for (size_t n = 0; n < sizeof steps / sizeof steps[0]; n++) {
    uint64_t slots[SPEAKERS];
    size_t count = strlen(steps[n]);
    for (size_t i = 0; i < count; i++) {
      const speaker *of = &speakers[steps[n][i] - '0'];
      say_next(batch, of);
      slots[i] = of->slot;
    }
    expect_ok(iobind_batch_run(batch, slots, count, NULL, &fault));
    for (size_t i = 0; i < count; i++) {
      speaker *of = &speakers[steps[n][i] - '0'];
      expect_the_same(batch, of);
      of->length++;
    }
  }
  for (size_t i = 0; i < SPEAKERS; i++) {
    iobind_binding_destroy(speakers[i].alone);
  }
  iobind_batch_destroy(batch);
  iobind_session_destroy(session);
}

/* ---- an encoder ---- */

enum { STREAMS = 50, STATES = 98, LEAD = 24, REST = 16, DEEP = LEAD * REST, STEPS = 3 };
enum { STATE_BYTES = ((STATES - 1) * DEEP + 1) * 4 }; /* of a row: 148,996 */

typedef struct link_bytes {
  int64_t up;
  int64_t down;
} link_bytes;

static link_bytes count_link(void) {
  return (link_bytes){vdev_get(0, "h2d_bytes"), vdev_get(0, "d2h_bytes")};
}

static iobind_batch *open_encoder(iobind_session *session) {
  static iobind_batch_pair pairs[STATES];
  iobind_batch_options options = IOBIND_BATCH_OPTIONS_INIT;
  iobind_batch *batch;
  for (size_t i = 0; i < STATES; i++) {
    pairs[i] = (iobind_batch_pair){i + 1, i + 1};
  }
  options.most_rows = STREAMS;
  options.pairs = pairs;
  options.pair_count = STATES;
  expect_ok(iobind_batch_create(session, &options, &batch, &fault));
  return batch;
}

static void bring(iobind_batch *batch, uint64_t slot, float x) {
  static const int64_t dims[] = {1, 1};
  iobind_tensor *tensor = make_tensor(IOBIND_DTYPE_FLOAT32, dims, 2, &x, sizeof x);
  expect_ok(iobind_batch_set_input(batch, slot, 0, tensor, &fault));
  iobind_tensor_release(tensor);
}

static float x_of(size_t row, int step) {
  return (float)(row * 3 + (size_t)step);
}

/* A step of the first rows, and the bytes that cross the link in it. */
static link_bytes step(iobind_batch *batch, const uint64_t *slots, size_t count, int number) {
  for (size_t i = 0; i < count; i++) {
    bring(batch, slots[i], x_of(i, number));
  }
  const link_bytes before = count_link();
  expect_ok(iobind_batch_run(batch, slots, count, NULL, &fault));
  const link_bytes after = count_link();
  return (link_bytes){after.up - before.up, after.down - before.down};
}

/* Numbers of a state that a stream has had elsewhere. */
static float first_of(size_t state, size_t at) {
  return (float)((state * 31 + at * 7) % 101);
}

/* As if another process had made it: in host memory. */
static iobind_state *make_state(iobind_session *session) {
  static float numbers[DEEP];
  static const int64_t deep[] = {LEAD, 1, REST}, plain[] = {1, 1};
  iobind_binding *binding;
  iobind_state *state;
  expect_ok(iobind_binding_create(session, &binding, &fault));
  for (size_t i = 0; i < STATES; i++) {
    const size_t count = i + 1 < STATES ? DEEP : 1;
    for (size_t k = 0; k < count; k++) {
      numbers[k] = first_of(i, k);
    }
    iobind_tensor *tensor =
        make_tensor(IOBIND_DTYPE_FLOAT32, count > 1 ? deep : plain, count > 1 ? 3 : 2, numbers, count * sizeof numbers[0]);
    expect_ok(iobind_binding_set_input(binding, i + 1, IOBIND_INPUT_SNAPSHOT, tensor, NULL, &fault));
    expect_ok(iobind_binding_carry(binding, i + 1, i + 1, IOBIND_CARRY_MOVE, &fault));
    iobind_tensor_release(tensor);
  }
  expect_ok(iobind_binding_save_state(binding, &state, &fault));
  iobind_binding_destroy(binding);
  return state;
}

/* Each number after `steps` steps with `x`: next = x - state. */
static void check_state(iobind_batch *batch, uint64_t slot, bool is_given, const float *x, size_t steps) {
  static float numbers[DEEP];
  iobind_state *saved;
  expect_ok(iobind_batch_save_state(batch, slot, &saved, &fault));
  for (size_t i = 0; i < STATES; i++) {
    iobind_state_pair pair = IOBIND_STATE_PAIR_INIT;
    const size_t count = i + 1 < STATES ? DEEP : 1;
    expect_ok(iobind_state_get_pair(saved, i, &pair, &fault));
    expect_ok(iobind_tensor_read(pair.tensor, 0, numbers, count * sizeof numbers[0], NULL, &fault));
    for (size_t k = 0; k < count; k++) {
      float expected = is_given ? first_of(i, k) : 0;
      for (size_t n = 0; n < steps; n++) {
        expected = x[n] - expected;
      }
      assert_true(numbers[k] == expected);
    }
  }
  iobind_state_release(saved);
}

/* In a step no byte of 50 sequences' states crosses the link. A sequence that joins in place of another one moves alone, and is uploaded
 * exactly once. */
static void states_of_an_encoder(void **state) {
  (void)state;
  uint64_t slots[STREAMS];
  float x[STREAMS][STEPS + 2];
  iobind_batch_info before = IOBIND_BATCH_INFO_INIT, after = IOBIND_BATCH_INFO_INIT;
  iobind_session *session = open_session("encoder width=16", 0);
  iobind_batch *batch = open_encoder(session);
  for (size_t i = 0; i < STREAMS; i++) {
    expect_ok(iobind_batch_join(batch, NULL, &slots[i], &fault));
    for (int n = 0; n < STEPS + 2; n++) {
      x[i][n] = x_of(i, n);
    }
  }
  (void)step(batch, slots, STREAMS, 0);
  for (int n = 1; n < STEPS; n++) {
    const link_bytes bytes = step(batch, slots, STREAMS, n);
    assert_int_equal(bytes.up, STREAMS * sizeof(float)); /* x */
    assert_int_equal(bytes.down, STREAMS * sizeof(float));
  }
  const link_bytes at_first = count_link();
  iobind_state *given = make_state(session);
  const int64_t for_state = count_link().up - at_first.up; /* a binding has it where the session reads it */
  expect_ok(iobind_batch_leave(batch, slots[20], NULL, &fault));
  expect_ok(iobind_batch_join(batch, given, &slots[20], &fault));
  iobind_state_release(given);
  expect_ok(iobind_batch_get_info(batch, &before, &fault));
  const link_bytes bytes = step(batch, slots, STREAMS, STEPS);
  expect_ok(iobind_batch_get_info(batch, &after, &fault));
  assert_int_equal(for_state, STATE_BYTES);
  assert_true(bytes.up <= (int64_t)(STREAMS * sizeof(float)) + 64); /* and the numbers of the row that moves */
  assert_int_equal(bytes.down, STREAMS * sizeof(float));
  assert_int_equal(after.moved_rows - before.moved_rows, 1);
  check_state(batch, slots[20], true, &x[20][STEPS], 1);
  check_state(batch, slots[0], false, x[0], STEPS + 1);
  check_state(batch, slots[STREAMS - 1], false, x[STREAMS - 1], STEPS + 1);
  iobind_batch_destroy(batch);
  iobind_session_destroy(session);
}

/* The zeros with which a row begins are the same memory for all states. */
static void zeros_of_a_row(void **state) {
  (void)state;
  static const iobind_batch_pair pairs[] = {{1, 1}, {2, 2}, {3, 3}};
  iobind_session *session = open_session("encoder states=3 lead=2 width=4", 0);
  iobind_batch_options options = IOBIND_BATCH_OPTIONS_INIT;
  iobind_state_pair found[3] = {IOBIND_STATE_PAIR_INIT, IOBIND_STATE_PAIR_INIT, IOBIND_STATE_PAIR_INIT};
  iobind_batch *batch;
  iobind_state *fresh;
  uint64_t slot;
  float values[8];
  options.most_rows = 2;
  options.pairs = pairs;
  options.pair_count = 3;
  expect_ok(iobind_batch_create(session, &options, &batch, &fault));
  expect_ok(iobind_batch_join(batch, NULL, &slot, &fault));
  expect_ok(iobind_batch_leave(batch, slot, &fresh, &fault));
  for (size_t i = 0; i < 3; i++) {
    expect_ok(iobind_state_get_pair(fresh, i, &found[i], &fault));
    assert_ptr_equal(iobind_tensor_get_address(found[i].tensor), iobind_tensor_get_address(found[0].tensor));
    expect_ok(iobind_tensor_read(found[i].tensor, 0, values, i < 2 ? sizeof values : sizeof values[0], NULL, &fault));
    for (size_t k = 0; k < (i < 2 ? 8U : 1U); k++) assert_true(values[k] == 0);
  }
  iobind_state_release(fresh);
  iobind_batch_destroy(batch);
  iobind_session_destroy(session);
}

#define ON(device, test) \
  { #device ": " #test, test, start, stage_close, #device }

#define ON_EACH(test) ON(vdev, test), ON(cpu, test), ON(cuda, test)
#define ON_GPUS(test) ON(vdev, test), ON(cuda, test)
#define ON_VDEV(test) ON(vdev, test)

static const struct CMUnitTest tests[] = {
    ON_EACH(rows_of_different_lengths), ON_GPUS(rows_of_different_lengths_captured),
    ON_EACH(rows_of_grouped_attention), ON_EACH(lengths_without_room),
    ON_VDEV(states_of_an_encoder),      ON_EACH(zeros_of_a_row),
};

FIXTURE_MAIN(tests, NULL, NULL);
