/* Rows of a batch whose caches have different lengths: each row's numbers are where they are if it is alone. */
#define _POSIX_C_SOURCE 200809L
#include "lengths_cache.h"

#include <stdio.h>
#include <unistd.h>

#include "vdev.h"
#include "../rig/hold.h"

enum { BATCH = 2, MOST = 4 };

static const char two[] = "append opset=24 batch=2";
static const char any[] = "append opset=24 batch=-1";

/* ---- two rows ---- */

static cache open_rows(const char *model, iobind_carry_mode mode, size_t graph_limit) {
  static const int64_t dims[] = {BATCH, CAPACITY, WIDTH};
  cache made = {.session = session_of(model, graph_limit), .state = filled(dims, 3, -1)};
  expect_ok(iobind_binding_create(made.session, &made.binding, &fault));
  expect_ok(iobind_binding_set_input(made.binding, 0, IOBIND_INPUT_RESIDENT, made.state, NULL, &fault));
  expect_ok(iobind_binding_carry(made.binding, 0, 0, mode, &fault));
  return made;
}

/* The next run appends `value` to row 0 of a batch of so many rows, one more to the next row, and so on. */
static void bind_new(cache *self, int64_t rows, int64_t count, int value) {
  static float values[MOST * CAPACITY * WIDTH];
  const int64_t dims[] = {rows, count, WIDTH};
  size_t each = (size_t)(count * WIDTH);
  for (size_t i = 0; i < (size_t)rows * each; i++) values[i] = (float)(value + (int)(i / each));
  if (self->rows != rows * CAPACITY + count) { /* where they are: a captured graph reads them there */
    iobind_tensor *made;
    expect_ok(iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 3, &made, &fault));
    expect_ok(iobind_binding_set_input(self->binding, 1, IOBIND_INPUT_RESIDENT, made, NULL, &fault));
    iobind_tensor_release(made);
    self->rows = rows * CAPACITY + count;
  }
  expect_ok(iobind_binding_write_input(self->binding, 1, values, (size_t)rows * each * sizeof *values, NULL, &fault));
}

/* NULL: as iobind has counted. */
static void append_each(cache *self, int64_t count, int value, const int64_t *lengths) {
  bind_new(self, BATCH, count, value);
  expect_ok(iobind_binding_write_lengths(self->binding, (size_t)count, lengths, lengths == NULL ? 0 : BATCH, NULL, &fault));
  expect_ok(iobind_binding_run(self->binding, NULL, &fault));
}

/* The first numbers of each row. */
static void expect_each(iobind_binding *binding, const char *const *numbers, size_t rows) {
  static float values[MOST * CAPACITY * WIDTH];
  iobind_state *saved;
  iobind_state_pair pair = IOBIND_STATE_PAIR_INIT;
  expect_ok(iobind_binding_save_state(binding, &saved, &fault));
  expect_ok(iobind_state_get_pair(saved, 0, &pair, &fault));
  size_t extent = (size_t)rows_of(pair.tensor);
  expect_ok(iobind_tensor_read(pair.tensor, 0, values, rows * extent * WIDTH * sizeof *values, NULL, &fault));
  for (size_t row = 0; row < rows; row++) {
    for (size_t i = 0; numbers[row][i] != '\0'; i++) {
      float found = values[(row * extent + i) * WIDTH];
      if (found != (float)(numbers[row][i] - '0'))
        fail_msg("row %zu: expected %s, got %g at %zu", row, numbers[row], (double)found, i);
    }
  }
  iobind_state_release(saved);
}

#define EXPECT_EACH(binding, one, other) expect_each((binding), (const char *const[]){(one), (other)}, BATCH)

/* Row 0 has four rows in use, row 1 two. */
static cache open_uneven(const char *model, iobind_carry_mode mode) {
  cache made = open_rows(model, mode, 0);
  append_each(&made, 3, 1, (int64_t[]){0, 0});
  append_each(&made, 1, 5, (int64_t[]){3, 1});
  EXPECT_EACH(made.binding, "1115", "26");
  return made;
}

/* ---- one run after the other ---- */

static void advance_by_runs(void **state) {
  (void)state;
  for (size_t i = 0; i < 3; i++) {
    cache self = open_uneven(two, modes[i]);
    append_each(&self, 2, 7, NULL);
    EXPECT_EACH(self.binding, "111577", "2688");
    append_each(&self, 1, 3, NULL);
    EXPECT_EACH(self.binding, "1115773", "26884");
    append_each(&self, 1, 0, (int64_t[]){7, 2}); /* of row 1 only two were right */
    EXPECT_EACH(self.binding, "11157730", "261");
    append_each(&self, 1, 4, (int64_t[]){1, 1}); /* the same length again */
    append_each(&self, 1, 6, NULL);
    EXPECT_EACH(self.binding, "146", "257");
    close_cache(&self);
  }
}

static void where_graphs_are_captured(void **state) {
  (void)state;
  cache self = open_rows(two, IOBIND_CARRY_IN_PLACE, 2);
  append_each(&self, 3, 1, (int64_t[]){0, 0});
  append_each(&self, 1, 5, (int64_t[]){3, 1});
  append_each(&self, 1, 6, NULL);
  append_each(&self, 1, 7, (int64_t[]){2, 3});
  EXPECT_EACH(self.binding, "1175", "2678");
  close_cache(&self);
}

static void refused(void **state) {
  (void)state;
  static const int64_t lengths[] = {3, 1, 2};
  cache self = open_uneven(two, IOBIND_CARRY_SWAP);
  bind_new(&self, BATCH, 1, 7);
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_binding_write_lengths(self.binding, 1, lengths, 3, NULL, &fault));
  expect_words("a batch of 2 rows");
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_binding_write_lengths(self.binding, 1, lengths, 0, NULL, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_binding_write_lengths(self.binding, 1, NULL, 2, NULL, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_binding_write_lengths(self.binding, 1, (int64_t[]){3, -1}, 2, NULL, &fault));
  expect_words("row 1: expected a length of 0 or more, got -1");
  expect(IOBIND_ERROR_INVALID_ARGUMENT,
         iobind_binding_write_lengths(self.binding, 1, (int64_t[]){0, CAPACITY}, 2, NULL, &fault));
  expect_words("a length of 16");
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_binding_write_lengths(self.binding, CAPACITY - 3, NULL, 0, NULL, &fault));
  append_each(&self, 1, 7, NULL); /* nothing has changed */
  EXPECT_EACH(self.binding, "11157", "268");
  close_cache(&self);
}

/* One length cannot be two. */
static void of_one_length_for_all(void **state) {
  (void)state;
  static const int64_t one = 1;
  iobind_tensor *at;
  cache self = open_uneven(any, IOBIND_CARRY_MOVE);
  expect_ok(iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_INT64, &one, 1, &at, &fault));
  expect_ok(iobind_binding_set_input(self.binding, 2, IOBIND_INPUT_RESIDENT, at, NULL, &fault));
  iobind_tensor_release(at);
  expect(IOBIND_ERROR_NOT_SUPPORTED, iobind_binding_write_lengths(self.binding, 1, NULL, 0, NULL, &fault));
  expect_words("'at' has 1 elements, and the batch 2 rows");
  close_cache(&self);
}

/* ---- back, saved, in another order ---- */

static void rewound(void **state) {
  (void)state;
  for (size_t i = 0; i < 3; i++) {
    cache self = open_uneven(two, modes[i]);
    expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_binding_rewind_state(self.binding, 5, &fault));
    expect_words("0 .. 4");
    expect_ok(iobind_binding_rewind_state(self.binding, 3, &fault)); /* row 1 is shorter, and stays */
    append_each(&self, 1, 7, NULL);
    EXPECT_EACH(self.binding, "1117", "268");
    expect_ok(iobind_binding_rewind_state(self.binding, 1, &fault));
    append_each(&self, 2, 3, NULL);
    EXPECT_EACH(self.binding, "133", "244");
    close_cache(&self);
  }
}

/* A state knows the length of each row, also in a file. */
static void saved(void **state) {
  (void)state;
  char path[64];
  iobind_state *held;
  iobind_state *loaded;
  iobind_state_pair pair = IOBIND_STATE_PAIR_INIT;
  snprintf(path, sizeof path, "/tmp/iobind-lengths-rows-%ld", (long)getpid());
  for (size_t i = 0; i < 3; i++) {
    cache self = open_uneven(two, modes[i]);
    expect_ok(iobind_binding_save_state(self.binding, &held, &fault));
    expect_ok(iobind_state_save(held, path, &fault));
    expect_ok(iobind_state_load(self.session, path, &loaded, &fault));
    expect_ok(iobind_state_get_pair(loaded, 0, &pair, &fault));
    assert_int_equal(rows_of(pair.tensor), 4); /* the longest row's */
    append_each(&self, 1, 7, NULL);
    for (size_t k = 0; k < 2; k++) {
      expect_ok(iobind_binding_restore_state(self.binding, k == 0 ? held : loaded, &fault));
      append_each(&self, 2, 3, NULL);
      EXPECT_EACH(self.binding, "111533", "2644");
    }
    iobind_state_release(held);
    iobind_state_release(loaded);
    close_cache(&self);
  }
  assert_int_equal(remove(path), 0);
}

static void reordered(void **state) {
  (void)state;
  for (size_t i = 0; i < 3; i++) {
    cache self = open_uneven(any, modes[i]);
    expect_ok(iobind_binding_reorder_state(self.binding, 0, (int64_t[]){1, 0}, 2, &fault));
    append_each(&self, 1, 7, NULL);
    EXPECT_EACH(self.binding, "267", "11158");
    expect_ok(iobind_binding_reorder_state(self.binding, 0, (int64_t[]){1, 0, 1}, 3, &fault));
    bind_new(&self, 3, 1, 3);
    expect_ok(iobind_binding_write_lengths(self.binding, 1, NULL, 0, NULL, &fault));
    expect_ok(iobind_binding_run(self.binding, NULL, &fault));
    expect_each(self.binding, (const char *const[]){"111583", "2674", "111585"}, 3);
    expect_ok(iobind_binding_reorder_state(self.binding, 0, (int64_t[]){1}, 1, &fault));
    bind_new(&self, 1, 1, 9);
    expect_ok(iobind_binding_write_lengths(self.binding, 1, NULL, 0, NULL, &fault));
    expect_ok(iobind_binding_run(self.binding, NULL, &fault));
    expect_each(self.binding, (const char *const[]){"26749"}, 1);
    close_cache(&self);
  }
}

/* Along the length nothing is where a length says. */
/* A batch without rows has no length for each. */
static void of_an_empty_batch(void **state) {
  (void)state;
  static const int64_t dims[] = {0, CAPACITY, WIDTH};
  cache self = open_rows(any, IOBIND_CARRY_MOVE, 0);
  iobind_tensor *empty;
  expect_ok(iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 3, &empty, &fault));
  expect_ok(iobind_binding_set_input(self.binding, 0, IOBIND_INPUT_RESIDENT, empty, NULL, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_binding_write_lengths(self.binding, 1, (int64_t[]){0}, 0, NULL, &fault));
  expect_words("expected 1 length for all, or one for each, got 0");
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_binding_reorder_state(self.binding, 0, (int64_t[]){0}, 1, &fault));
  expect_words("row 0: the states have 0 rows, got row 0");
  iobind_tensor_release(empty);
  close_cache(&self);
}

static void reordered_to_other_dims_than_the_models(void **state) {
  (void)state;
  cache self = open_uneven(two, IOBIND_CARRY_MOVE);
  expect(IOBIND_ERROR_SHAPE, iobind_binding_reorder_state(self.binding, 0, (int64_t[]){1, 0, 1}, 3, &fault));
  expect_words("binding_reorder_state: ");
  append_each(&self, 1, 7, NULL);
  close_cache(&self);
}

static void reordered_along_the_length(void **state) {
  (void)state;
  static const int64_t turned[CAPACITY] = {15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0};
  cache self = open_uneven(two, IOBIND_CARRY_MOVE);
  expect_ok(iobind_binding_reorder_state(self.binding, 1, turned, CAPACITY, &fault));
  expect(IOBIND_ERROR_INVALID_STATE, iobind_binding_write_lengths(self.binding, 1, NULL, 0, NULL, &fault));
  expect_words("length is unknown");
  close_cache(&self);
}

/* ---- on a stream ---- */

static void in_flight(void **state) {
  (void)state;
  for (size_t i = 0; i < 3; i++) {
    cache self = open_uneven(two, modes[i]);
    iobind_stream *stream;
    expect_ok(iobind_stream_create(device, NULL, &stream, &fault));
    bind_new(&self, BATCH, 1, 7);
    for (int run = 0; run < 3; run++) {
      const int64_t lengths[] = {1, 4};
      expect_ok(iobind_binding_write_lengths(self.binding, 1, run == 2 ? lengths : NULL, run == 2 ? BATCH : 0, stream, &fault));
      expect_ok(iobind_binding_run(self.binding, stream, &fault));
    }
    expect_ok(iobind_stream_synchronize(stream, &fault));
    append_each(&self, 1, 3, NULL);
    EXPECT_EACH(self.binding, "173577", "268884");
    iobind_stream_destroy(stream);
    close_cache(&self);
  }
}

/* Each row has the length that it had before the runs in flight, or the shorter one that was given behind them. */
static void that_fail_late(void **state) {
  (void)state;
  cache self = open_uneven(two, IOBIND_CARRY_IN_PLACE);
  iobind_stream *stream;
  expect_ok(iobind_stream_create(device, NULL, &stream, &fault));
  bind_new(&self, BATCH, 1, 7);
  expect_ok(iobind_binding_write_lengths(self.binding, 1, NULL, 0, stream, &fault));
  expect_ok(iobind_binding_run(self.binding, stream, &fault));
  expect_ok(iobind_binding_write_lengths(self.binding, 1, (int64_t[]){5, 1}, BATCH, stream, &fault));
  assert_int_equal(vdev_set(0, "fail_compute", "1,late"), 0);
  int held = hold(device, stream);
  expect_ok(iobind_binding_run(self.binding, stream, &fault));
  let_go(held);
  expect(IOBIND_ERROR_RUNTIME, iobind_stream_synchronize(stream, &fault));
  assert_int_equal(vdev_set(0, "fail_compute", "0"), 0);
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_binding_rewind_state(self.binding, 5, &fault));
  expect_words("0 .. 4");
  expect_ok(iobind_binding_rewind_state(self.binding, 4, &fault));
  append_each(&self, 1, 3, NULL);
  EXPECT_EACH(self.binding, "11153", "24");
  iobind_stream_destroy(stream);
  close_cache(&self);
}

/* ---- GroupQueryAttention ---- */

static iobind_binding *open_grouped(iobind_session *session, int64_t rows, iobind_carry_mode mode) {
  const int64_t dims[] = {rows, HEADS, CAPACITY, SIZE};
  iobind_binding *made;
  expect_ok(iobind_binding_create(session, &made, &fault));
  for (size_t i = 1; i <= 2; i++) {
    iobind_tensor *past = filled(dims, 4, 9);
    expect_ok(iobind_binding_set_input(made, i, IOBIND_INPUT_RESIDENT, past, NULL, &fault));
    expect_ok(iobind_binding_carry(made, i, i, mode, &fault));
    iobind_tensor_release(past);
  }
  return made;
}

/* A token for each row of the batch, the first of which is `first`; what attention makes of them. */
static void attend(iobind_binding *binding, size_t rows, size_t first, int token, const int64_t *lengths, float *y) {
  float x[BATCH * HEADS * SIZE];
  const int64_t dims[] = {(int64_t)rows, 1, (int64_t)HEADS * SIZE};
  size_t each = (size_t)HEADS * SIZE;
  iobind_tensor *made;
  for (size_t i = 0; i < rows * each; i++) {
    const size_t row = first + i / each;
    x[i] = (float)((int)(i % each) * (token + 1) % 7 - 3) / (float)(2 + row);
  }
  expect_ok(iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 3, &made, &fault));
  expect_ok(iobind_tensor_write(made, 0, x, rows * each * sizeof *x, NULL, &fault));
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, made, NULL, &fault));
  iobind_tensor_release(made);
  expect_ok(iobind_binding_write_lengths(binding, 1, lengths, lengths == NULL ? 0 : rows, NULL, &fault));
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  iobind_tensor *result;
  expect_ok(iobind_binding_get_output(binding, 0, NULL, &result, &fault));
  expect_ok(iobind_tensor_read(result, 0, y, rows * each * sizeof *y, NULL, &fault));
}

/* Row 1 begins two tokens later. Each row is what it is alone, to the bit. */
static void of_grouped_attention(void **state) {
  (void)state;
  enum { TOKENS = 6, LATER = 2, EACH = HEADS * SIZE };
  iobind_session *alone = session_of("shared", 0);
  iobind_session *together = session_of("shared batch=2", 0);
  for (int mode = IOBIND_CARRY_DEFAULT; mode <= IOBIND_CARRY_IN_PLACE; mode++) {
    float expected[BATCH][EACH];
    float y[BATCH * EACH];
    iobind_binding *each[BATCH];
    iobind_binding *both = open_grouped(together, BATCH, (iobind_carry_mode)mode);
    for (size_t row = 0; row < BATCH; row++) each[row] = open_grouped(alone, 1, (iobind_carry_mode)mode);
    for (int token = 0; token < TOKENS; token++) {
      bool begins = token == LATER;
      attend(each[0], 1, 0, token, token == 0 ? (int64_t[]){0} : NULL, expected[0]);
      attend(each[1], 1, 1, token, token == 0 || begins ? (int64_t[]){0} : NULL, expected[1]);
      attend(both, BATCH, 0, token, token == 0 ? (int64_t[]){0, 0} : begins ? (int64_t[]){LATER, 0} : NULL, y);
      assert_memory_equal(y, expected, sizeof y);
    }
    for (size_t row = 0; row < BATCH; row++) iobind_binding_destroy(each[row]);
    iobind_binding_destroy(both);
  }
  iobind_session_destroy(together);
  iobind_session_destroy(alone);
}

#define ON_BOTH(test)                                      \
  {"cpu: " #test, test, stage_open, stage_close, "cpu"}, { \
    "vdev: " #test, test, stage_open, stage_close, "vdev"  \
  }

static const struct CMUnitTest tests[] = {
    ON_BOTH(advance_by_runs),
    {"vdev: where_graphs_are_captured", where_graphs_are_captured, stage_open, stage_close, "vdev"},
    ON_BOTH(refused),
    {"cpu: of_one_length_for_all", of_one_length_for_all, stage_open, stage_close, "cpu"},
    ON_BOTH(rewound),
    ON_BOTH(saved),
    ON_BOTH(reordered),
    ON_BOTH(of_an_empty_batch),
    {"cpu: reordered_to_other_dims", reordered_to_other_dims_than_the_models, stage_open, stage_close, "cpu"},
    {"cpu: reordered_along_the_length", reordered_along_the_length, stage_open, stage_close, "cpu"},
    ON_BOTH(in_flight),
    {"vdev: that_fail_late", that_fail_late, stage_open, stage_close, "vdev"},
    ON_BOTH(of_grouped_attention),
};

FIXTURE_MAIN(tests, NULL, NULL);
