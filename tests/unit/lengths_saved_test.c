/* States of caches of fixed capacity whose lengths iobind writes: saved are the rows in use. */
#define _POSIX_C_SOURCE 200809L
#include "lengths_cache.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "iobind/batch.h"
#include "support/hash.h"

/* ---- saved ---- */

static iobind_state *saved_of(cache *self, int64_t rows) {
  iobind_state *saved;
  iobind_state_pair pair = IOBIND_STATE_PAIR_INIT;
  expect_ok(iobind_binding_save_state(self->binding, &saved, &fault));
  expect_ok(iobind_state_get_pair(saved, 0, &pair, &fault));
  assert_int_equal(rows_of(pair.tensor), rows);
  return saved;
}

/* Only the rows in use are copied. Another binding reads them in any mode, in what is bound and in new memory. */
static void saved_in_part(void **state) {
  (void)state;
  cache self = open_append(plain, IOBIND_CARRY_IN_PLACE, 0);
  append(&self, 3, 1, 0);
  iobind_state *saved = saved_of(&self, 3);
  append(&self, 2, 2, LAST);
  expect_ok(iobind_binding_restore_state(self.binding, saved, &fault));
  append(&self, 1, 4, LAST);
  expect_rows(&self, "1114");
  for (size_t i = 0; i < 3; i++) {
    iobind_binding *branch;
    cache other = {.session = self.session};
    expect_ok(iobind_binding_create(self.session, &branch, &fault));
    expect_ok(iobind_binding_carry(branch, 0, 0, modes[i], &fault));
    expect_ok(iobind_binding_restore_state(branch, saved, &fault));
    other.binding = branch;
    append(&other, 1, 5, LAST);
    append(&other, 1, 6, LAST);
    expect_rows(&other, "1115600000000000");
    expect_ok(iobind_binding_restore_state(branch, saved, &fault));
    append(&other, 2, 7, LAST);
    expect_rows(&other, modes[i] == IOBIND_CARRY_IN_PLACE ? "11177" : "1117700000000000");
    iobind_binding_destroy(branch);
  }
  iobind_state_release(saved);
  close_cache(&self);
}

static cache open_other(iobind_device *on, int64_t capacity, iobind_carry_mode mode) {
  const int64_t dims[] = {1, capacity, WIDTH};
  iobind_device *before = device;
  device = on;
  cache made = {.session = session_of("append opset=24 capacity=0", 0), .state = filled(dims, 3, -1)};
  device = before;
  expect_ok(iobind_binding_create(made.session, &made.binding, &fault));
  expect_ok(iobind_binding_set_input(made.binding, 0, IOBIND_INPUT_SNAPSHOT, made.state, NULL, &fault));
  expect_ok(iobind_binding_carry(made.binding, 0, 0, mode, &fault));
  return made;
}

/* The header has it as text. */
static void expect_in_file(const char *path, const char *word) {
  char start[1024];
  bool found = false;
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  size_t length = fread(start, 1, sizeof start, file);
  assert_int_equal(fclose(file), 0);
  for (size_t i = 0; i + strlen(word) < length; i++) found = found || memcmp(start + i, word, strlen(word) + 1) == 0;
  assert_true(found);
}

/* Where it was computed, not where it is loaded. */
static void expect_origin(const iobind_state *read, const iobind_state_info *saved, const char *path) {
  iobind_state_info info = IOBIND_STATE_INFO_INIT;
  expect_ok(iobind_state_get_info(read, &info, &fault));
  assert_string_equal(info.device_spec, saved->device_spec);
  assert_string_equal(info.ort_version, saved->ort_version);
  expect_in_file(path, info.device_spec);
  expect_in_file(path, info.ort_version);
  expect_in_file(path, "capacity");
}

/* What the cache holds goes to the other one by a file. */
static iobind_status pass_on(cache *self, cache *other, const char *path, size_t rows) {
  iobind_state *saved;
  iobind_state *read;
  iobind_state_info info = IOBIND_STATE_INFO_INIT;
  expect_ok(iobind_binding_save_state(self->binding, &saved, &fault));
  expect_ok(iobind_state_save(saved, path, &fault));
  expect_ok(iobind_state_load(other->session, path, &read, &fault));
  expect_ok(iobind_state_get_info(saved, &info, &fault));
  expect_origin(read, &info, path);
  iobind_state_release(saved);
  expect_ok(iobind_state_get_info(read, &info, &fault));
  assert_int_equal(info.bytes, rows * WIDTH * sizeof(float));
  iobind_status status = iobind_binding_restore_state(other->binding, read, &fault);
  iobind_state_release(read);
  return status;
}

/* In a file are the rows in use. A cache of another capacity, on another device, takes them if it has room. */
static void saved_in_a_file(void **state) {
  (void)state;
  char path[64];
  snprintf(path, sizeof path, "/tmp/iobind-lengths-%ld", (long)getpid());
  for (size_t i = 0; i < 9; i++) {
    cache self = open_other(device, 16, modes[i / 3]);
    cache other = open_other(cpu, 8, modes[i % 3]);
    append(&self, 3, 1, 0);
    append(&self, 1, 2, LAST);
    expect_ok(pass_on(&self, &other, path, 4));
    append(&other, 1, 3, LAST);
    append(&other, 3, 4, LAST);
    expect(IOBIND_ERROR_INVALID_ARGUMENT, write_length(other.binding, 1, LAST, NULL, &fault));
    expect_rows(&other, "11123444");
    expect_ok(pass_on(&other, &self, path, 8)); /* and back */
    append(&self, 1, 5, LAST);
    expect_rows(&self, "111234445*");
    append(&self, 1, 6, LAST);
    expect(IOBIND_ERROR_SHAPE, pass_on(&self, &other, path, 10));
    expect_words("10 rows in use");
    expect_rows(&other, "11123444");
    close_cache(&other);
    close_cache(&self);
  }
  assert_int_equal(remove(path), 0);
}

static size_t number_at(const unsigned char *at, size_t bytes) {
  size_t number = 0;
  for (size_t i = 0; i < bytes; i++) number |= (size_t)at[i] << (8 * i);
  return number;
}

/* Another element type of the same size, with a header whose hash is right. */
static void forge_type(const char *path) {
  enum { HEADER_BYTES_AT = 12, TEXTS_AT = 24, TEXTS_TO_NAMES = 64, HASH = 16, MOST = 4096 };
  static unsigned char file[MOST];
  FILE *stream = fopen(path, "r+b");
  assert_non_null(stream);
  assert_true(fread(file, 1, MOST, stream) > TEXTS_AT);
  const size_t header = number_at(file + HEADER_BYTES_AT, 4) - HASH;
  size_t at = TEXTS_AT;
  for (int i = 0; i < 2; i++) at += 4 + number_at(file + at, 4);
  at += TEXTS_TO_NAMES;
  for (int i = 0; i < 3; i++) at += 4 + number_at(file + at, 4); /* and the kind */
  assert_int_equal(file[at], IOBIND_DTYPE_FLOAT32);
  file[at] = IOBIND_DTYPE_INT32;
  const iobind__hash hash = iobind__hash_of(file, header);
  for (size_t i = 0; i < HASH; i++) file[header + i] = (unsigned char)(hash.words[i / 8] >> (8 * (i % 8)));
  rewind(stream);
  assert_int_equal(fwrite(file, 1, header + HASH, stream), header + HASH);
  assert_int_equal(fclose(stream), 0);
}

/* A row of a batch would be read as if it had the model's type. */
static void saved_with_another_type(void **state) {
  (void)state;
  char path[64];
  iobind_state *saved;
  iobind_state *read;
  snprintf(path, sizeof path, "/tmp/iobind-lengths-%ld-type", (long)getpid());
  cache self = open_append(plain, IOBIND_CARRY_IN_PLACE, 0);
  append(&self, 3, 1, 0);
  expect_ok(iobind_binding_save_state(self.binding, &saved, &fault));
  expect_ok(iobind_state_save(saved, path, &fault));
  iobind_state_release(saved);
  forge_type(path);
  expect(IOBIND_ERROR_IO, iobind_state_load(self.session, path, &read, &fault));
  expect_words("a type is damaged");
  assert_int_equal(remove(path), 0);
  close_cache(&self);
}

/* No graph is lost, and none reads the state. */
static void saved_where_graphs_are_captured(void **state) {
  (void)state;
  cache self = open_append(plain, IOBIND_CARRY_IN_PLACE, 1);
  append(&self, 1, 1, 0);
  append(&self, 1, 2, LAST);
  iobind_state *saved = saved_of(&self, 2);
  append(&self, 1, 3, LAST);
  expect_ok(iobind_binding_restore_state(self.binding, saved, &fault));
  append(&self, 1, 4, LAST);
  expect_rows(&self, "124");
  iobind_state_release(saved);
  close_cache(&self);
}

static iobind_batch *batch_of(iobind_session *session, iobind_state *first) {
  static const iobind_batch_pair pair = {0, 0};
  static const int32_t axes[3] = {0, 0, 0};
  iobind_batch_options options = IOBIND_BATCH_OPTIONS_INIT;
  iobind_batch *made;
  options.most_rows = 2;
  options.pairs = &pair;
  options.pair_count = 1;
  options.input_axes = axes;
  options.input_axis_count = 3;
  options.output_axes = axes;
  options.output_axis_count = 1;
  options.first = first;
  expect_ok(iobind_batch_create(session, &options, &made, &fault));
  return made;
}

/* A row of the batch appends 4 at row `at`. */
static void step_in_batch(iobind_batch *batch, iobind_state *joins, int64_t at, const char *expected) {
  static const int64_t dims[] = {1, 1, WIDTH};
  float values[CAPACITY * WIDTH];
  uint64_t slot;
  iobind_state *left;
  iobind_tensor *lengths;
  iobind_state_pair pair = IOBIND_STATE_PAIR_INIT;
  iobind_tensor *row = filled(dims, 3, 4);
  expect_ok(iobind_batch_join(batch, joins, &slot, &fault));
  expect_ok(iobind_tensor_create(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_INT64, dims, 1, &lengths, &fault));
  expect_ok(iobind_tensor_write(lengths, 0, &at, sizeof at, NULL, &fault));
  expect_ok(iobind_batch_set_input(batch, slot, 1, row, &fault));
  expect_ok(iobind_batch_set_input(batch, slot, 2, lengths, &fault));
  expect_ok(iobind_batch_run(batch, &slot, 1, NULL, &fault));
  expect_ok(iobind_batch_leave(batch, slot, &left, &fault));
  expect_ok(iobind_state_get_pair(left, 0, &pair, &fault));
  assert_int_equal(rows_of(pair.tensor), strlen(expected));
  expect_ok(iobind_tensor_read(pair.tensor, 0, values, strlen(expected) * WIDTH * sizeof values[0], NULL, &fault));
  for (size_t i = 0; i < strlen(expected); i++) assert_true(values[i * WIDTH] == (float)(expected[i] - '0'));
  iobind_state_release(left);
  iobind_tensor_release(lengths);
  iobind_tensor_release(row);
}

/* The rows in use join with their capacity, also where only the first state says it. */
static void saved_for_a_batch(void **state) {
  (void)state;
  static const char *const models[] = {"append opset=24 batch=-1", "append opset=24 batch=-1 capacity=0"};
  for (size_t i = 0; i < 2; i++) {
    cache self = open_append(models[i], IOBIND_CARRY_IN_PLACE, 0);
    append(&self, 3, 1, 0);
    iobind_state *saved = saved_of(&self, 3);
    iobind_batch *batch = batch_of(self.session, saved);
    step_in_batch(batch, NULL, 3, "1114000000000000");
    step_in_batch(batch, saved, 3, "1114000000000000");
    iobind_batch_destroy(batch);
    if (i == 0) {
      batch = batch_of(self.session, NULL);
      step_in_batch(batch, NULL, 3, "0004000000000000");
      step_in_batch(batch, saved, 3, "1114000000000000");
      iobind_batch_destroy(batch);
    }
    iobind_state_release(saved);
    close_cache(&self);
  }
}

/* A binding of a session whose model leaves the capacity open, with a cache of another one. */
static cache open_beside(const cache *self, int64_t capacity) {
  const int64_t dims[] = {1, capacity, WIDTH};
  cache made = {.session = self->session, .state = filled(dims, 3, -1)};
  expect_ok(iobind_binding_create(made.session, &made.binding, &fault));
  expect_ok(iobind_binding_set_input(made.binding, 0, IOBIND_INPUT_SNAPSHOT, made.state, NULL, &fault));
  expect_ok(iobind_binding_carry(made.binding, 0, 0, IOBIND_CARRY_IN_PLACE, &fault));
  return made;
}

static void close_beside(cache *self) {
  iobind_binding_destroy(self->binding);
  iobind_tensor_release(self->state);
}

/* The rows in use join a batch of another capacity, with zeros after them, if it has room for them. */
static void saved_for_a_batch_of_another_capacity(void **state) {
  (void)state;
  uint64_t slot;
  cache self = open_append("append opset=24 batch=-1 capacity=0", IOBIND_CARRY_IN_PLACE, 0);
  append(&self, 3, 1, 0);
  iobind_state *first = saved_of(&self, 3);
  iobind_batch *batch = batch_of(self.session, first); /* of 16 rows */
  static const int64_t capacities[] = {4, 8, 3}, at[] = {3, 3, 2};
  static const char *const expected[] = {"1114", "11140000", "114"};
  for (size_t i = 0; i < 3; i++) { /* it is smaller than the batch's, or larger */
    cache other = open_beside(&self, capacities[i]);
    append(&other, 2, 2, 0);
    append(&other, 1, 3, LAST);
    iobind_state *saved = saved_of(&other, 3);
    iobind_batch *small = batch_of(self.session, saved);
    step_in_batch(batch, saved, 3, "2234000000000000");
    step_in_batch(small, first, at[i], expected[i]);
    if (i == 1) { /* as many rows as there is room for, and one more */
      append(&self, 5, 5, LAST);
      iobind_state *full = saved_of(&self, 8);
      step_in_batch(small, full, 7, "11155554");
      iobind_state_release(full);
      append(&self, 1, 6, LAST);
      full = saved_of(&self, 9);
      expect(IOBIND_ERROR_SHAPE, iobind_batch_join(small, full, &slot, &fault));
      expect_words("9 rows in use, but the batch has room for only 8");
      iobind_state_release(full);
    }
    iobind_batch_destroy(small);
    iobind_state_release(saved);
    close_beside(&other);
  }
  iobind_batch_destroy(batch);
  iobind_state_release(first);
  close_cache(&self);
}

/* A cache whose length iobind does not count is whole: it joins a batch of its own capacity alone. */
static void saved_whole_for_a_batch(void **state) {
  (void)state;
  uint64_t slot;
  iobind_state *saved;
  cache self = open_append("append opset=24 batch=-1 capacity=0", IOBIND_CARRY_IN_PLACE, 0);
  append(&self, 3, 1, 0);
  iobind_state *first = saved_of(&self, 3);
  iobind_batch *batch = batch_of(self.session, first);
  cache other = open_beside(&self, 8);
  expect_ok(iobind_binding_save_state(other.binding, &saved, &fault));
  expect(IOBIND_ERROR_SHAPE, iobind_batch_join(batch, saved, &slot, &fault));
  expect_words("[1,16,4]");
  expect_words("iobind_binding_write_lengths");
  iobind_state_release(saved);
  close_beside(&other);
  iobind_batch_destroy(batch);
  iobind_state_release(first);
  close_cache(&self);
}

static const struct CMUnitTest tests[] = {
    {"cpu: saved in part", saved_in_part, stage_open, stage_close, "cpu"},
    {"vdev: saved in part", saved_in_part, stage_open, stage_close, "vdev"},
    {"vdev: saved where graphs are captured", saved_where_graphs_are_captured, stage_open, stage_close, "vdev"},
    {"cpu: saved for a batch", saved_for_a_batch, stage_open, stage_close, "cpu"},
    {"vdev: saved for a batch", saved_for_a_batch, stage_open, stage_close, "vdev"},
    {"cpu: saved for a batch of another capacity", saved_for_a_batch_of_another_capacity, stage_open, stage_close, "cpu"},
    {"vdev: saved for a batch of another capacity", saved_for_a_batch_of_another_capacity, stage_open, stage_close, "vdev"},
    {"cpu: saved whole for a batch", saved_whole_for_a_batch, stage_open, stage_close, "cpu"},
    {"cpu: saved in a file", saved_in_a_file, stage_open, stage_close, "cpu"},
    {"cpu: saved with another type", saved_with_another_type, stage_open, stage_close, "cpu"},
    {"vdev: saved in a file", saved_in_a_file, stage_open, stage_close, "vdev"},
};

FIXTURE_MAIN(tests, NULL, NULL);
