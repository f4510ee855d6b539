/* Lengths in inputs that the caller names: of caches and masks that the graph does not show. */
#include "lengths_cache.h"

#include "vdev.h"

enum { ROW = 1, AT = 2, MASK = 3, MASK_INPUT = 3 };

static const char masked[] = "masked";

/* ---- a cache that is written at positions, and a mask ---- */

static void name(iobind_binding *binding, size_t input, iobind_length_role role, size_t axis) {
  expect_ok(iobind_binding_name_length(binding, input, role, axis, &fault));
}

static void name_all(iobind_binding *binding) {
  name(binding, 0, IOBIND_LENGTH_CACHE, 0);
  name(binding, AT, IOBIND_LENGTH_POSITIONS, 0);
  name(binding, MASK, IOBIND_LENGTH_MASK, 0);
}

/* Unused rows are -1. */
static cache open_masked(const char *model, iobind_carry_mode mode, size_t graph_limit) {
  static const int64_t dims[] = {CAPACITY, WIDTH};
  cache made = {.session = session_of(model, graph_limit), .state = filled(dims, 2, -1)};
  expect_ok(iobind_binding_create(made.session, &made.binding, &fault));
  expect_ok(iobind_binding_set_input(made.binding, 0, IOBIND_INPUT_SNAPSHOT, made.state, NULL, &fault));
  expect_ok(iobind_binding_carry(made.binding, 0, 0, mode, &fault));
  return made;
}

static void bind_new(cache *self, int64_t count, float value) {
  const int64_t dims[] = {count, WIDTH};
  if (self->rows == count) { /* where they are: a captured graph reads them there */
    float values[CAPACITY * WIDTH];
    for (int64_t i = 0; i < count * WIDTH; i++) values[i] = value;
    expect_ok(iobind_binding_write_input(self->binding, ROW, values, (size_t)(count * WIDTH) * sizeof *values, NULL, &fault));
    return;
  }
  self->rows = count;
  iobind_tensor *rows = filled(dims, 2, value);
  expect_ok(iobind_binding_set_input(self->binding, ROW, IOBIND_INPUT_SNAPSHOT, rows, NULL, &fault));
  iobind_tensor_release(rows);
}

static void add_rows(cache *self, int64_t count, float value, int64_t length) {
  bind_new(self, count, value);
  expect_ok(write_length(self->binding, (size_t)count, length, NULL, &fault));
  expect_ok(iobind_binding_run(self->binding, NULL, &fault));
}

/* The sum of the rows in use. */
static void expect_sum(const cache *self, float expected) {
  float sums[WIDTH];
  iobind_tensor *y;
  expect_ok(iobind_binding_get_output(self->binding, 1, NULL, &y, &fault));
  expect_ok(iobind_tensor_read(y, 0, sums, sizeof sums, NULL, &fault));
  if (sums[0] != expected || sums[WIDTH - 1] != expected) fail_msg("expected %g, got %g", (double)expected, (double)sums[0]);
}

static void written_and_counted(void **state) {
  (void)state;
  for (size_t i = 0; i < 3; i++) {
    cache self = open_masked(masked, modes[i], 0);
    name_all(self.binding);
    add_rows(&self, 3, 1, 0);
    expect_sum(&self, 3);
    add_rows(&self, 1, 5, LAST);
    expect_sum(&self, 8);
    add_rows(&self, 2, 7, LAST);
    expect_sum(&self, 22);
    add_rows(&self, 1, 9, 2); /* as if only two were right */
    expect_sum(&self, 11);
    close_cache(&self);
  }
}

static void where_graphs_are_captured(void **state) {
  (void)state;
  cache self = open_masked(masked, IOBIND_CARRY_IN_PLACE, 2);
  name_all(self.binding);
  add_rows(&self, 3, 1, 0);
  for (int i = 0; i < 5; i++) add_rows(&self, 1, (float)i, LAST);
  expect_sum(&self, 13);
  expect_ok(iobind_binding_rewind_state(self.binding, 4, &fault));
  add_rows(&self, 1, 7, LAST);
  expect_sum(&self, 10);
  close_cache(&self);
}

static void of_each_type(void **state) {
  (void)state;
  static const char *const models[] = {"masked dtype=bool", "masked dtype=int32", "masked dtype=int64", "masked dtype=float16"};
  for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
    cache self = open_masked(models[i], IOBIND_CARRY_MOVE, 0);
    name_all(self.binding);
    add_rows(&self, 2, 3, 0);
    add_rows(&self, 1, 5, LAST);
    expect_sum(&self, 11);
    close_cache(&self);
  }
}

static void rewound(void **state) {
  (void)state;
  for (size_t i = 0; i < 3; i++) {
    cache self = open_masked(masked, modes[i], 0);
    name_all(self.binding);
    add_rows(&self, 3, 1, 0);
    add_rows(&self, 3, 2, LAST);
    expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_binding_rewind_state(self.binding, 7, &fault));
    expect_words("0 .. 6");
    expect_ok(iobind_binding_rewind_state(self.binding, 4, &fault));
    add_rows(&self, 1, 4, LAST);
    expect_sum(&self, 9);
    expect_ok(iobind_binding_rewind_state(self.binding, 0, &fault));
    add_rows(&self, 1, 6, LAST);
    expect_sum(&self, 6);
    close_cache(&self);
  }
}

/* Only the rows in use, into a binding with another capacity; the other one has the names, too. */
static void saved_and_restored(void **state) {
  (void)state;
  for (size_t i = 0; i < 3; i++) {
    cache self = open_masked(masked, modes[i], 0);
    cache other = {.session = NULL};
    iobind_state *saved;
    iobind_state_pair pair = IOBIND_STATE_PAIR_INIT;
    iobind_tensor_info info = IOBIND_TENSOR_INFO_INIT;
    name_all(self.binding);
    add_rows(&self, 3, 1, 0);
    expect_ok(iobind_binding_save_state(self.binding, &saved, &fault));
    expect_ok(iobind_state_get_pair(saved, 0, &pair, &fault));
    expect_ok(iobind_tensor_get_info(pair.tensor, &info, &fault));
    assert_int_equal(info.dims[0], modes[i] == IOBIND_CARRY_IN_PLACE ? 3 : CAPACITY);
    add_rows(&self, 1, 2, LAST);
    expect_ok(iobind_binding_create(self.session, &other.binding, &fault));
    expect_ok(iobind_binding_carry(other.binding, 0, 0, modes[i], &fault));
    name_all(other.binding);
    expect_ok(iobind_binding_restore_state(other.binding, saved, &fault));
    add_rows(&other, 1, 5, LAST);
    expect_sum(&other, 8);
    expect_ok(iobind_binding_restore_state(self.binding, saved, &fault));
    add_rows(&self, 1, 7, LAST);
    expect_sum(&self, 10);
    iobind_state_release(saved);
    iobind_binding_destroy(other.binding);
    close_cache(&self);
  }
}

static void in_flight(void **state) {
  (void)state;
  for (size_t i = 0; i < 3; i++) {
    cache self = open_masked(masked, modes[i], 0);
    iobind_stream *stream;
    expect_ok(iobind_stream_create(device, NULL, &stream, &fault));
    name_all(self.binding);
    add_rows(&self, 2, 1, 0);
    bind_new(&self, 1, 5);
    expect_ok(write_length(self.binding, 1, LAST, NULL, &fault));
    for (int run = 0; run < 4; run++) {
      expect_ok(iobind_binding_run(self.binding, stream, &fault));
      expect_ok(write_length(self.binding, 1, LAST, stream, &fault));
    }
    expect_ok(iobind_binding_run(self.binding, stream, &fault));
    expect(IOBIND_ERROR_INVALID_STATE, iobind_binding_name_length(self.binding, AT, IOBIND_LENGTH_BEFORE, 0, &fault));
    expect(IOBIND_ERROR_INVALID_STATE, write_length(self.binding, 2, LAST, stream, &fault)); /* positions of other dims */
    expect_ok(iobind_stream_synchronize(stream, &fault));
    expect_sum(&self, 27);
    iobind_stream_destroy(stream);
    close_cache(&self);
  }
}

static void that_fail(void **state) {
  (void)state;
  for (size_t i = 0; i < 3; i++) {
    cache self = open_masked(masked, modes[i], 0);
    name_all(self.binding);
    add_rows(&self, 3, 1, 0);
    bind_new(&self, 2, 2);
    expect_ok(write_length(self.binding, 2, LAST, NULL, &fault));
    assert_int_equal(vdev_set(0, "fail_compute", "1"), 0);
    expect(IOBIND_ERROR_RUNTIME, iobind_binding_run(self.binding, NULL, &fault));
    assert_int_equal(vdev_set(0, "fail_compute", "0"), 0);
    expect_ok(iobind_binding_rewind_state(self.binding, 3, &fault));
    add_rows(&self, 1, 4, LAST);
    expect_sum(&self, 7);
    close_cache(&self);
  }
}

/* What the caller has bound is written where it is, if it fits. */
static void that_are_bound(void **state) {
  (void)state;
  static const int64_t dims[] = {2};
  iobind_tensor *at;
  cache self = open_masked(masked, IOBIND_CARRY_MOVE, 0);
  int64_t found[2];
  name_all(self.binding);
  expect_ok(iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_INT64, dims, 1, &at, &fault));
  expect_ok(iobind_binding_set_input(self.binding, AT, IOBIND_INPUT_RESIDENT, at, NULL, &fault));
  add_rows(&self, 2, 1, 3);
  expect_ok(iobind_tensor_read(at, 0, found, sizeof found, NULL, &fault));
  assert_true(found[0] == 3 && found[1] == 4);
  expect(IOBIND_ERROR_SHAPE, write_length(self.binding, 1, LAST, NULL, &fault));
  expect_words("'at': expected 1 on the last axis, got 2");
  iobind_tensor_release(at);
  close_cache(&self);
}

/* ---- lengths that differ ---- */

enum { BATCH = 2, LONG = 16, VALUES = 8, VOCAB = 16 };

typedef struct decoder {
  iobind_session *session;
  iobind_binding *binding;
} decoder;

/* Without its own length: that is an input, which is not carried. */
static decoder open_ragged(int64_t rows, bool is_named) {
  const int64_t dims[] = {rows, LONG, VALUES};
  decoder made = {.session = session_of("ragged", 0)};
  expect_ok(iobind_binding_create(made.session, &made.binding, &fault));
  for (size_t i = 1; i <= 2; i++) {
    iobind_tensor *past = filled(dims, 3, 0);
    expect_ok(iobind_binding_set_input(made.binding, i, IOBIND_INPUT_SNAPSHOT, past, NULL, &fault));
    expect_ok(iobind_binding_carry(made.binding, i, i, IOBIND_CARRY_SWAP, &fault));
    iobind_tensor_release(past);
    if (is_named) name(made.binding, i, IOBIND_LENGTH_CACHE, 1);
  }
  if (is_named) name(made.binding, 3, IOBIND_LENGTH_BEFORE, 0);
  return made;
}

static void close_decoder(const decoder *self) {
  iobind_binding_destroy(self->binding);
  iobind_session_destroy(self->session);
}

static void step(const decoder *self, const int64_t *tokens, size_t rows, const int64_t *lengths, float *logits) {
  const int64_t dims[] = {(int64_t)rows, 1};
  iobind_tensor *token;
  iobind_tensor *result;
  expect_ok(iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_INT64, dims, 2, &token, &fault));
  expect_ok(iobind_tensor_write(token, 0, tokens, rows * sizeof *tokens, NULL, &fault));
  expect_ok(iobind_binding_set_input(self->binding, 0, IOBIND_INPUT_RESIDENT, token, NULL, &fault));
  iobind_tensor_release(token);
  expect_ok(iobind_binding_write_lengths(self->binding, 1, lengths, lengths == NULL ? 0 : rows, NULL, &fault));
  expect_ok(iobind_binding_run(self->binding, NULL, &fault));
  expect_ok(iobind_binding_get_output(self->binding, 0, NULL, &result, &fault));
  expect_ok(iobind_tensor_read(result, 0, logits, rows * VOCAB * sizeof *logits, NULL, &fault));
}

/* Row 1 begins two steps later. Each row has the logits that it has alone, also after a rewind of the longer one. */
static void that_differ(void **state) {
  (void)state;
  static const int64_t none[BATCH] = {0, 0};
  static const int64_t later[BATCH] = {2, 0};
  static const int64_t tokens[] = {3, 7, 2, 9, 4, 1};
  float both[BATCH * VOCAB];
  float alone[VOCAB];
  decoder batch = open_ragged(BATCH, true);
  decoder one = open_ragged(1, true);
  decoder other = open_ragged(1, true);
  for (size_t i = 0; i < 6; i++) {
    const int64_t pair[BATCH] = {tokens[i], tokens[5 - i]};
    if (i == 5) {
      expect_ok(iobind_binding_rewind_state(batch.binding, 4, &fault));
      expect_ok(iobind_binding_rewind_state(one.binding, 4, &fault));
    }
    step(&batch, pair, BATCH, i == 0 ? none : i == 2 ? later : NULL, both);
    step(&one, &pair[0], 1, i == 0 ? none : NULL, alone);
    assert_memory_equal(both, alone, sizeof alone);
    if (i >= 2) {
      step(&other, &pair[1], 1, i == 2 ? none : NULL, alone);
      assert_memory_equal(&both[VOCAB], alone, sizeof alone);
    }
  }
  close_decoder(&other);
  close_decoder(&one);
  close_decoder(&batch);
}

/* ---- lengths that the model computes from a mask ---- */

static iobind_binding *bind_shared(iobind_session *session) {
  static const int64_t dims[] = {1, HEADS, CAPACITY, SIZE};
  iobind_binding *made;
  expect_ok(iobind_binding_create(session, &made, &fault));
  for (size_t i = 1; i <= 2; i++) {
    iobind_tensor *past = filled(dims, 4, 9);
    expect_ok(iobind_binding_set_input(made, i, IOBIND_INPUT_SNAPSHOT, past, NULL, &fault));
    expect_ok(iobind_binding_carry(made, i, i, IOBIND_CARRY_DEFAULT, &fault));
    iobind_tensor_release(past);
  }
  return made;
}

/* `count` new rows, the first one of this value. */
static void attend(iobind_binding *binding, int64_t count, float value, int64_t length, float *y) {
  static float values[CAPACITY * HEADS * SIZE];
  const int64_t dims[] = {1, count, (int64_t)HEADS * SIZE};
  size_t bytes = (size_t)count * HEADS * SIZE * sizeof *values;
  iobind_tensor *x;
  for (size_t i = 0; i < bytes / sizeof *values; i++) values[i] = value + (float)(i % 5) / 8;
  expect_ok(iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 3, &x, &fault));
  expect_ok(iobind_tensor_write(x, 0, values, bytes, NULL, &fault));
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
  iobind_tensor_release(x);
  expect_ok(write_length(binding, (size_t)count, length, NULL, &fault));
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  expect_ok(iobind_binding_get_output(binding, 0, NULL, &x, &fault));
  expect_ok(iobind_tensor_read(x, 0, y, bytes, NULL, &fault));
}

/* The same as if the lengths were inputs. */
static void from_a_mask(void **state) {
  (void)state;
  static float expected[CAPACITY * HEADS * SIZE];
  static float found[CAPACITY * HEADS * SIZE];
  iobind_session *sessions[] = {session_of("shared", 0), session_of("shared mask=1", 0)};
  iobind_binding *plain_one = bind_shared(sessions[0]);
  iobind_binding *self = bind_shared(sessions[1]);
  expect(IOBIND_ERROR_NOT_SUPPORTED, write_length(self, 1, 0, NULL, &fault));
  expect_words("'mask': the model computes lengths from it");
  name(self, MASK_INPUT, IOBIND_LENGTH_MASK, 0);
  for (int i = 0; i < 6; i++) {
    int64_t count = i == 0 ? 3 : 1;
    if (i == 4) {
      expect_ok(iobind_binding_rewind_state(plain_one, 2, &fault));
      expect_ok(iobind_binding_rewind_state(self, 2, &fault));
    }
    attend(plain_one, count, (float)i, i == 0 ? 0 : LAST, expected);
    attend(self, count, (float)i, i == 0 ? 0 : LAST, found);
    for (int64_t k = 0; k < count * HEADS * SIZE; k++)
      assert_true(found[k] > expected[k] - 1e-5F && found[k] < expected[k] + 1e-5F);
  }
  expect(IOBIND_ERROR_INVALID_ARGUMENT, write_length(self, CAPACITY, LAST, NULL, &fault));
  expect_words("length of 4");
  iobind_binding_destroy(self);
  iobind_binding_destroy(plain_one);
  for (size_t i = 0; i < 2; i++) iobind_session_destroy(sessions[i]);
}

/* ---- what is refused ---- */

static void names_that_are_refused(void **state) {
  (void)state;
  cache self = open_masked(masked, IOBIND_CARRY_MOVE, 0);
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_binding_name_length(NULL, 0, IOBIND_LENGTH_CACHE, 0, &fault));
  expect(IOBIND_ERROR_NOT_FOUND, iobind_binding_name_length(self.binding, 4, IOBIND_LENGTH_MASK, 0, &fault));
  expect_words("an index below 4");
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_binding_name_length(self.binding, 0, (iobind_length_role)9, 0, &fault));
  expect_words("role 0 .. 8");
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_binding_name_length(self.binding, 0, (iobind_length_role)-1, 0, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_binding_name_length(self.binding, 0, IOBIND_LENGTH_CACHE, 2, &fault));
  expect_words("'cache': expected an axis below 2");
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_binding_name_length(self.binding, MASK, IOBIND_LENGTH_MASK, 1, &fault));
  expect_words("'mask': expected an axis below 1");
  expect(IOBIND_ERROR_DTYPE, iobind_binding_name_length(self.binding, MASK, IOBIND_LENGTH_BEFORE, 0, &fault));
  expect_words("'mask': expected int32 or int64, got float32");
  close_cache(&self);
}

static void values_that_are_refused(void **state) {
  (void)state;
  iobind_session *strings = session_of("identity dtype=string dims=n", 0);
  iobind_session *scalars = session_of("identity dtype=int64 dims=scalar", 0);
  iobind_session *words = session_of("identity dtype=float64 dims=n", 0);
  iobind_binding *binding;
  expect_ok(iobind_binding_create(strings, &binding, &fault));
  expect(IOBIND_ERROR_NOT_SUPPORTED, iobind_binding_name_length(binding, 0, IOBIND_LENGTH_CACHE, 0, &fault));
  expect_words("a tensor of numbers");
  name(binding, 0, IOBIND_LENGTH_OTHER, 0);
  iobind_binding_destroy(binding);
  expect_ok(iobind_binding_create(scalars, &binding, &fault));
  expect(IOBIND_ERROR_SHAPE, iobind_binding_name_length(binding, 0, IOBIND_LENGTH_POSITIONS, 0, &fault));
  name(binding, 0, IOBIND_LENGTH_AFTER, 0);
  iobind_binding_destroy(binding);
  expect_ok(iobind_binding_create(words, &binding, &fault));
  expect(IOBIND_ERROR_DTYPE, iobind_binding_name_length(binding, 0, IOBIND_LENGTH_MASK, 0, &fault));
  expect_words("got float64");
  iobind_binding_destroy(binding);
  iobind_session_destroy(words);
  iobind_session_destroy(scalars);
  iobind_session_destroy(strings);
}

/* Names without lengths, of inputs that are carried, that the graph contradicts. */
static void names_that_do_not_fit(void **state) {
  (void)state;
  cache self = open_masked(masked, IOBIND_CARRY_MOVE, 0);
  expect(IOBIND_ERROR_NOT_SUPPORTED, write_length(self.binding, 1, 0, NULL, &fault));
  expect_words("iobind_binding_name_length");
  name(self.binding, 0, IOBIND_LENGTH_CACHE, 0);
  expect(IOBIND_ERROR_NOT_SUPPORTED, write_length(self.binding, 1, 0, NULL, &fault));
  expect_words("'cache': the graph does not show where its length comes from");
  name_all(self.binding);
  bind_new(&self, 1, 1);
  expect_ok(write_length(self.binding, 1, 0, NULL, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, write_length(self.binding, 1, CAPACITY, NULL, &fault));
  name(self.binding, 0, IOBIND_LENGTH_UNNAMED, 0);
  expect(IOBIND_ERROR_NOT_SUPPORTED, write_length(self.binding, 1, 0, NULL, &fault));
  expect_words("got none");
  close_cache(&self);
  decoder carried = open_ragged(1, true);
  expect_ok(iobind_binding_carry(carried.binding, 3, 3, IOBIND_CARRY_MOVE, &fault));
  expect(IOBIND_ERROR_NOT_SUPPORTED, write_length(carried.binding, 1, 0, NULL, &fault));
  expect_words("'length': it is carried");
  close_decoder(&carried);
}

static void names_that_the_graph_contradicts(void **state) {
  (void)state;
  cache self = open_append(plain, IOBIND_CARRY_MOVE, 0);
  bind_rows(&self, 1, 1);
  name(self.binding, 2, IOBIND_LENGTH_AFTER, 0);
  expect(IOBIND_ERROR_NOT_SUPPORTED, write_length(self.binding, 1, 0, NULL, &fault));
  expect_words("'at': operators read different lengths from it, or another one than it was named for");
  name(self.binding, 2, IOBIND_LENGTH_BEFORE, 0);
  name(self.binding, 0, IOBIND_LENGTH_CACHE, 2);
  expect(IOBIND_ERROR_NOT_SUPPORTED, write_length(self.binding, 1, 0, NULL, &fault));
  expect_words("on axis 2, but in the model's graph they are on axis 1");
  name(self.binding, 0, IOBIND_LENGTH_CACHE, 1);
  append(&self, 1, 1, 0);
  close_cache(&self);
  iobind_session *session = session_of("concat", 0);
  iobind_binding *binding;
  expect_ok(iobind_binding_create(session, &binding, &fault));
  expect_ok(iobind_binding_carry(binding, 0, 0, IOBIND_CARRY_MOVE, &fault));
  name(binding, 0, IOBIND_LENGTH_CACHE, 0);
  expect(IOBIND_ERROR_NOT_SUPPORTED, write_length(binding, 1, 0, NULL, &fault));
  expect_words("its kind is growing");
  iobind_binding_destroy(binding);
  iobind_session_destroy(session);
}

/* iobind counts, and writes nothing: the caller does. */
static void that_the_caller_writes(void **state) {
  (void)state;
  static const int64_t two = 2;
  cache self = open_append(plain, IOBIND_CARRY_SWAP, 0);
  append(&self, 2, 1, 0);
  name(self.binding, 2, IOBIND_LENGTH_OTHER, 0);
  bind_rows(&self, 1, 2);
  expect_ok(write_length(self.binding, 1, 2, NULL, &fault));
  expect_ok(iobind_binding_write_input(self.binding, 2, &two, sizeof two, NULL, &fault));
  expect_ok(iobind_binding_run(self.binding, NULL, &fault));
  expect_rows(&self, "112");
  expect(IOBIND_ERROR_INVALID_ARGUMENT, write_length(self.binding, CAPACITY - 2, LAST, NULL, &fault));
  expect_words("a length of 3");
  expect_ok(iobind_binding_rewind_state(self.binding, 1, &fault));
  name(self.binding, 2, IOBIND_LENGTH_UNNAMED, 0);
  append(&self, 1, 5, 1);
  expect_rows(&self, "152");
  close_cache(&self);
}

/* Of an odd number of elements of 4 bits, a row is not whole bytes. */
static void of_packed_numbers(void **state) {
  (void)state;
  for (int64_t width = 3; width <= 4; width++) {
    cache self = {.session = session_of("cast from=int4 to=int4 dims=n,width length=1", 0)};
    const int64_t dims[] = {CAPACITY, width};
    const int64_t wider[] = {2 * CAPACITY, width};
    iobind_state *saved;
    iobind_tensor *more;
    expect_ok(iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_INT4, dims, 2, &self.state, &fault));
    expect_ok(iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_INT4, wider, 2, &more, &fault));
    expect_ok(iobind_binding_create(self.session, &self.binding, &fault));
    expect_ok(iobind_binding_set_input(self.binding, 0, IOBIND_INPUT_RESIDENT, self.state, NULL, &fault));
    expect_ok(iobind_binding_carry(self.binding, 0, 0, IOBIND_CARRY_MOVE, &fault));
    name(self.binding, 0, IOBIND_LENGTH_CACHE, 0);
    name(self.binding, 1, IOBIND_LENGTH_BEFORE, 0);
    expect_ok(write_length(self.binding, 1, 2, NULL, &fault));
    expect_ok(iobind_binding_run(self.binding, NULL, &fault));
    expect_ok(iobind_binding_save_state(self.binding, &saved, &fault));
    expect_ok(iobind_binding_restore_state(self.binding, saved, &fault));
    expect_ok(iobind_binding_set_input(self.binding, 0, IOBIND_INPUT_RESIDENT, more, NULL, &fault));
    if (width == 3) {
      expect(IOBIND_ERROR_SHAPE, iobind_binding_restore_state(self.binding, saved, &fault));
      expect_words("expected the saved capacity 16, got 32: rows of int4 share bytes");
    } else {
      expect_ok(iobind_binding_restore_state(self.binding, saved, &fault));
    }
    iobind_tensor_release(more);
    iobind_state_release(saved);
    close_cache(&self);
  }
}

static const struct CMUnitTest tests[] = {
    {"cpu: written and counted", written_and_counted, stage_open, stage_close, "cpu"},
    {"vdev: written and counted", written_and_counted, stage_open, stage_close, "vdev"},
    {"vdev: where graphs are captured", where_graphs_are_captured, stage_open, stage_close, "vdev"},
    {"cpu: of each type", of_each_type, stage_open, stage_close, "cpu"},
    {"vdev: of each type", of_each_type, stage_open, stage_close, "vdev"},
    {"of packed numbers", of_packed_numbers, stage_open, stage_close, "cpu"},
    {"cpu: rewound", rewound, stage_open, stage_close, "cpu"},
    {"vdev: rewound", rewound, stage_open, stage_close, "vdev"},
    {"cpu: saved and restored", saved_and_restored, stage_open, stage_close, "cpu"},
    {"vdev: saved and restored", saved_and_restored, stage_open, stage_close, "vdev"},
    {"cpu: in flight", in_flight, stage_open, stage_close, "cpu"},
    {"vdev: in flight", in_flight, stage_open, stage_close, "vdev"},
    {"vdev: that fail", that_fail, stage_open, stage_close, "vdev"},
    {"vdev: that are bound", that_are_bound, stage_open, stage_close, "vdev"},
    {"cpu: that differ", that_differ, stage_open, stage_close, "cpu"},
    {"vdev: that differ", that_differ, stage_open, stage_close, "vdev"},
    {"cpu: from a mask", from_a_mask, stage_open, stage_close, "cpu"},
    {"vdev: from a mask", from_a_mask, stage_open, stage_close, "vdev"},
    {"names that are refused", names_that_are_refused, stage_open, stage_close, "cpu"},
    {"values that are refused", values_that_are_refused, stage_open, stage_close, "cpu"},
    {"names that do not fit", names_that_do_not_fit, stage_open, stage_close, "cpu"},
    {"names that the graph contradicts", names_that_the_graph_contradicts, stage_open, stage_close, "cpu"},
    {"cpu: that the caller writes", that_the_caller_writes, stage_open, stage_close, "cpu"},
    {"vdev: that the caller writes", that_the_caller_writes, stage_open, stage_close, "vdev"},
};

FIXTURE_MAIN(tests, NULL, NULL);
