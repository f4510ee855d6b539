/* Lengths that the caller writes: where the host reads them, a length beyond the capacity is refused before the run. */
#define _POSIX_C_SOURCE 200809L /* mkstemp */
#include "lengths_cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "model.h"
#include "vdev.h"

enum { AT = 2, SEQLENS = 3, TOTAL = 4 };

static iobind_tensor *numbers(iobind_device *where, iobind_dtype dtype, size_t rank) {
  static const int64_t one = 1;
  iobind_tensor *made;
  expect_ok(iobind_tensor_create(where, IOBIND_MEMORY_DEFAULT, dtype, &one, rank, &made, &fault));
  return made;
}

/* The caller's own tensor has the length. */
static iobind_tensor *bind_at(iobind_binding *binding, iobind_input_mode mode, iobind_device *where) {
  iobind_tensor *at = numbers(where, IOBIND_DTYPE_INT64, 1);
  expect_ok(iobind_tensor_write(at, 0, &(int64_t){0}, sizeof(int64_t), NULL, &fault));
  expect_ok(iobind_binding_set_input(binding, AT, mode, at, NULL, &fault));
  return at;
}

static iobind_status run_at(cache *self, iobind_tensor *at, int64_t length, float value) {
  bind_rows(self, 1, value);
  expect_ok(iobind_tensor_write(at, 0, &length, sizeof length, NULL, &fault));
  return iobind_binding_run(self->binding, NULL, &fault);
}

/* Nothing of the cache is lost, and nothing must be restored. */
static void beyond_the_capacity(void **state) {
  (void)state;
  static const iobind_carry_mode kept[] = {IOBIND_CARRY_DEFAULT, IOBIND_CARRY_SWAP, IOBIND_CARRY_IN_PLACE};
  for (size_t i = 0; i < 3; i++) {
    cache self = open_append(plain, kept[i], 0);
    iobind_tensor *at = bind_at(self.binding, IOBIND_INPUT_RESIDENT, cpu);
    expect_ok(run_at(&self, at, 0, 1));
    expect_ok(run_at(&self, at, CAPACITY - 1, 2));
    expect(IOBIND_ERROR_INVALID_ARGUMENT, run_at(&self, at, CAPACITY, 3));
    expect_words("binding_run: 'at': element 0: the caches have a capacity of 16: expected at most 15, got 16");
    expect_ok(run_at(&self, at, 1, 4));
    bind_rows(&self, 3, 5);
    expect_ok(iobind_tensor_write(at, 0, &(int64_t){CAPACITY - 2}, sizeof(int64_t), NULL, &fault));
    expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_binding_run(self.binding, NULL, &fault));
    expect_words("expected at most 13, got 14");
    expect_ok(run_at(&self, at, 2, 6));
    expect_rows(&self, "146*");
    append(&self, 1, 7, 3); /* what iobind writes is what it was */
    append(&self, 1, 8, LAST);
    expect(IOBIND_ERROR_INVALID_ARGUMENT, run_at(&self, at, CAPACITY, 3));
    iobind_tensor_release(at);
    close_cache(&self);
  }
}

/* A state that is written again, and one that is restored: the next run checks as the first one did. */
static void after_a_change(void **state) {
  (void)state;
  static float zeros[CAPACITY * WIDTH];
  iobind_state *saved;
  cache self = open_append(plain, IOBIND_CARRY_IN_PLACE, 0);
  iobind_tensor *at = bind_at(self.binding, IOBIND_INPUT_RESIDENT, cpu);
  expect_ok(run_at(&self, at, 0, 1));
  expect_ok(iobind_binding_save_state(self.binding, &saved, &fault));
  expect_ok(iobind_binding_write_input(self.binding, 0, zeros, sizeof zeros, NULL, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, run_at(&self, at, CAPACITY, 3));
  expect_ok(iobind_binding_restore_state(self.binding, saved, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, run_at(&self, at, CAPACITY, 3));
  expect_ok(run_at(&self, at, 1, 2));
  expect_rows(&self, "12");
  iobind_state_release(saved);
  iobind_tensor_release(at);
  close_cache(&self);
}

static void write_model(const char *spec, char *path) {
  char text[TEST_MODEL_TEXT];
  size_t bytes;
  const void *model = test_model(spec, &bytes, text);
  FILE *file = fdopen(mkstemp(path), "wb");
  assert_true(model != NULL && file != NULL);
  assert_int_equal(fwrite(model, 1, bytes, file), bytes);
  assert_int_equal(fclose(file), 0);
}

/* A run reads no file for the check. Once iobind has read it for lengths that it writes, the next run checks, although nothing is bound anew. */
static void of_a_model_in_a_file(void **state) {
  (void)state;
  static const int64_t dims[] = {1, CAPACITY, WIDTH};
  static const int64_t row[] = {1, 1, WIDTH};
  char path[] = "/tmp/iobind-lengths-XXXXXX";
  cache self = {.state = filled(dims, 3, -1)};
  iobind_tensor *rows = filled(row, 3, 1);
  write_model(plain, path);
  expect_ok(iobind_session_create(runtime, path, NULL, &self.session, &fault));
  expect_ok(iobind_binding_create(self.session, &self.binding, &fault));
  expect_ok(iobind_binding_set_input(self.binding, 0, IOBIND_INPUT_RESIDENT, self.state, NULL, &fault));
  expect_ok(iobind_binding_carry(self.binding, 0, 0, IOBIND_CARRY_IN_PLACE, &fault));
  expect_ok(iobind_binding_set_input(self.binding, 1, IOBIND_INPUT_RESIDENT, rows, NULL, &fault));
  iobind_tensor *at = bind_at(self.binding, IOBIND_INPUT_RESIDENT, cpu);
  expect_ok(iobind_binding_run(self.binding, NULL, &fault));
  expect_ok(iobind_binding_run(self.binding, NULL, &fault));
  expect_ok(write_length(self.binding, 1, 1, NULL, &fault));
  expect_ok(iobind_tensor_write(at, 0, &(int64_t){CAPACITY}, sizeof(int64_t), NULL, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_binding_run(self.binding, NULL, &fault));
  expect_words("'at': element 0");
  unlink(path);
  iobind_tensor_release(at);
  iobind_tensor_release(rows);
  close_cache(&self);
}

/* The host reads the source of a LIVE input, before the copy. */
static void in_a_live_input(void **state) {
  (void)state;
  iobind_stream *stream;
  expect_ok(iobind_stream_create(device, NULL, &stream, &fault));
  for (uint32_t runs = 0; runs <= 8; runs += 8) {
    verified_runs = runs;
    cache self = open_append(plain, IOBIND_CARRY_IN_PLACE, 0);
    verified_runs = 0;
    iobind_tensor *at = bind_at(self.binding, IOBIND_INPUT_LIVE, cpu);
    expect_ok(run_at(&self, at, 0, 1));
    expect(IOBIND_ERROR_INVALID_ARGUMENT, run_at(&self, at, CAPACITY, 3));
    expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_binding_run(self.binding, stream, &fault));
    expect_words("'at': element 0");
    expect_ok(run_at(&self, at, 1, 2));
    expect_rows(&self, "12");
    iobind_tensor_release(at);
    close_cache(&self);
  }
  iobind_stream_destroy(stream);
}

/* By a thread of iobind. */
static void on_a_stream(void **state) {
  (void)state;
  iobind_stream *stream;
  cache self = open_append(plain, IOBIND_CARRY_IN_PLACE, 0);
  iobind_tensor *at = bind_at(self.binding, IOBIND_INPUT_RESIDENT, cpu);
  expect_ok(run_at(&self, at, 0, 1));
  expect_ok(iobind_stream_create(device, NULL, &stream, &fault));
  expect_ok(iobind_binding_write_input(self.binding, AT, &(int64_t){CAPACITY}, sizeof(int64_t), stream, &fault));
  expect_ok(iobind_binding_run(self.binding, stream, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_stream_synchronize(stream, &fault));
  expect_words("at most 15, got 16");
  iobind_stream_destroy(stream);
  expect_ok(run_at(&self, at, 1, 2));
  expect_rows(&self, "12");
  iobind_tensor_release(at);
  close_cache(&self);
}

static void of_grouped_attention(void **state) {
  (void)state;
  static const int64_t dims[] = {1, HEADS, CAPACITY, SIZE};
  static const int64_t new_dims[] = {1, 1, (int64_t)HEADS * SIZE};
  static const struct {
    int32_t last, total;
    const char *words;
  } cases[] = {
      {CAPACITY - 1, CAPACITY, NULL}, {CAPACITY, CAPACITY, "'seqlens_k': element 0"}, {CAPACITY - 1, CAPACITY + 1, "'total'"}};
  iobind_session *session = session_of("shared", 0);
  iobind_binding *binding;
  expect_ok(iobind_binding_create(session, &binding, &fault));
  for (size_t i = 1; i <= 2; i++) {
    iobind_tensor *past = filled(dims, 4, 9);
    expect_ok(iobind_binding_set_input(binding, i, IOBIND_INPUT_SNAPSHOT, past, NULL, &fault));
    expect_ok(iobind_binding_carry(binding, i, i, IOBIND_CARRY_DEFAULT, &fault));
    iobind_tensor_release(past);
  }
  iobind_tensor *x = filled(new_dims, 3, 1);
  iobind_tensor *last = numbers(cpu, IOBIND_DTYPE_INT32, 1);
  iobind_tensor *total = numbers(cpu, IOBIND_DTYPE_INT32, 0);
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
  expect_ok(iobind_binding_set_input(binding, SEQLENS, IOBIND_INPUT_RESIDENT, last, NULL, &fault));
  expect_ok(iobind_binding_set_input(binding, TOTAL, IOBIND_INPUT_RESIDENT, total, NULL, &fault));
  for (size_t i = 0; i < 6; i++) {
    expect_ok(iobind_tensor_write(last, 0, &cases[i % 3].last, sizeof(int32_t), NULL, &fault));
    expect_ok(iobind_tensor_write(total, 0, &cases[i % 3].total, sizeof(int32_t), NULL, &fault));
    expect(cases[i % 3].words == NULL ? IOBIND_OK : IOBIND_ERROR_INVALID_ARGUMENT, iobind_binding_run(binding, NULL, &fault));
    if (cases[i % 3].words != NULL) expect_words(cases[i % 3].words);
  }
  iobind_tensor_release(total);
  iobind_tensor_release(last);
  iobind_tensor_release(x);
  iobind_binding_destroy(binding);
  iobind_session_destroy(session);
}

/* Of inputs that the caller has named. */
static void at_named_positions(void **state) {
  (void)state;
  static const int64_t dims[] = {CAPACITY, WIDTH};
  static const int64_t row[] = {1, WIDTH};
  static const float mask[CAPACITY] = {1, 1};
  enum { MASK = 3 };
  iobind_session *session = session_of("masked", 0);
  cache self = {.session = session, .state = filled(dims, 2, 0)};
  expect_ok(iobind_binding_create(session, &self.binding, &fault));
  expect_ok(iobind_binding_set_input(self.binding, 0, IOBIND_INPUT_RESIDENT, self.state, NULL, &fault));
  expect_ok(iobind_binding_carry(self.binding, 0, 0, IOBIND_CARRY_IN_PLACE, &fault));
  iobind_tensor *rows = filled(row, 2, 5);
  iobind_tensor *seen = filled((const int64_t[]){1, CAPACITY}, 2, 0);
  iobind_tensor *at = bind_at(self.binding, IOBIND_INPUT_RESIDENT, cpu);
  expect_ok(iobind_tensor_write(seen, 0, mask, sizeof mask, NULL, &fault));
  expect_ok(iobind_binding_set_input(self.binding, 1, IOBIND_INPUT_RESIDENT, rows, NULL, &fault));
  expect_ok(iobind_binding_set_input(self.binding, MASK, IOBIND_INPUT_RESIDENT, seen, NULL, &fault));
  expect_ok(iobind_binding_run(self.binding, NULL, &fault));
  expect_ok(iobind_binding_name_length(self.binding, 0, IOBIND_LENGTH_CACHE, 0, &fault));
  expect_ok(iobind_binding_name_length(self.binding, AT, IOBIND_LENGTH_POSITIONS, 0, &fault));
  expect_ok(iobind_tensor_write(at, 0, &(int64_t){CAPACITY}, sizeof(int64_t), NULL, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_binding_run(self.binding, NULL, &fault));
  expect_words("'at': element 0: the caches have a capacity of 16: expected at most 15, got 16");
  expect_ok(iobind_tensor_write(at, 0, &(int64_t){CAPACITY - 1}, sizeof(int64_t), NULL, &fault));
  expect_ok(iobind_binding_run(self.binding, NULL, &fault));
  iobind_tensor_release(at);
  iobind_tensor_release(seen);
  iobind_tensor_release(rows);
  close_cache(&self);
}

/* On the device, and of a cache that is moved: the run itself decides. */
static void that_are_not_read(void **state) {
  (void)state;
  iobind_carry_mode mode = device == cpu ? IOBIND_CARRY_MOVE : IOBIND_CARRY_IN_PLACE;
  cache self = open_append(plain, mode, 0);
  iobind_tensor *at = bind_at(self.binding, IOBIND_INPUT_RESIDENT, device);
  expect_ok(run_at(&self, at, 0, 1));
  expect(IOBIND_ERROR_RUNTIME, run_at(&self, at, CAPACITY, 3));
  iobind_tensor_release(at);
  close_cache(&self);
}

/* What is too much for one cache may fit into the other one. */
static void of_caches_of_two_capacities(void **state) {
  (void)state;
  enum { OTHER = 3, THERE = 4, OTHER_CAPACITY = 48 };
  static const int64_t dims[] = {1, OTHER_CAPACITY, WIDTH};
  cache self = open_append("append second=48", IOBIND_CARRY_IN_PLACE, 0);
  iobind_tensor *other = filled(dims, 3, -1);
  expect_ok(iobind_binding_set_input(self.binding, OTHER, IOBIND_INPUT_RESIDENT, other, NULL, &fault));
  expect_ok(iobind_binding_carry(self.binding, 1, OTHER, IOBIND_CARRY_IN_PLACE, &fault));
  iobind_tensor *at = bind_at(self.binding, IOBIND_INPUT_RESIDENT, cpu);
  iobind_tensor *there = numbers(cpu, IOBIND_DTYPE_INT64, 1);
  expect_ok(iobind_tensor_write(there, 0, &(int64_t){CAPACITY + 4}, sizeof(int64_t), NULL, &fault));
  expect_ok(iobind_binding_set_input(self.binding, THERE, IOBIND_INPUT_RESIDENT, there, NULL, &fault));
  expect_ok(run_at(&self, at, 0, 1));
  expect_ok(run_at(&self, at, CAPACITY - 1, 2));
  iobind_tensor_release(other);
  iobind_tensor_release(at);
  iobind_tensor_release(there);
  close_cache(&self);
}

static const struct CMUnitTest tests[] = {
    {"beyond the capacity", beyond_the_capacity, stage_open, stage_close, "cpu"},
    {"after a change", after_a_change, stage_open, stage_close, "cpu"},
    {"of a model in a file", of_a_model_in_a_file, stage_open, stage_close, "cpu"},
    {"vdev: in a LIVE input", in_a_live_input, stage_open, stage_close, "vdev"},
    {"on a stream", on_a_stream, stage_open, stage_close, "cpu"},
    {"of grouped attention", of_grouped_attention, stage_open, stage_close, "cpu"},
    {"at named positions", at_named_positions, stage_open, stage_close, "cpu"},
    {"of caches of two capacities", of_caches_of_two_capacities, stage_open, stage_close, "cpu"},
    {"cpu: that are not read", that_are_not_read, stage_open, stage_close, "cpu"},
    {"vdev: that are not read", that_are_not_read, stage_open, stage_close, "vdev"},
};

FIXTURE_MAIN(tests, NULL, NULL);
