/* Lengths that the caller writes: where the host reads them, a length beyond the capacity is refused before the run, and so is one
 * below 0. */
#define _DEFAULT_SOURCE /* mkdtemp */
#include "lengths_cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "models.h"
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
  static const iobind_carry_mode all[] = {IOBIND_CARRY_DEFAULT, IOBIND_CARRY_MOVE, IOBIND_CARRY_SWAP, IOBIND_CARRY_IN_PLACE};
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
    cache self = open_append(plain, all[i], 0);
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

static void below_zero(void **state) {
  (void)state;
  for (size_t i = 0; i < 3; i++) {
    cache self = open_append(plain, modes[i], 0);
    iobind_tensor *at = bind_at(self.binding, IOBIND_INPUT_RESIDENT, cpu);
    expect_ok(run_at(&self, at, 0, 1));
    expect(IOBIND_ERROR_INVALID_ARGUMENT, run_at(&self, at, -1, 3));
    expect_words("binding_run: 'at': element 0: expected a length of 0 or more, got -1");
    expect_ok(run_at(&self, at, 1, 2));
    expect_rows(&self, "12*");
    iobind_tensor_release(at);
    close_cache(&self);
  }
}

/* The cache has not enough room for them, wherever they begin. */
static void of_more_rows_than_the_capacity(void **state) {
  (void)state;
  cache self = open_append(plain, IOBIND_CARRY_IN_PLACE, 0);
  iobind_tensor *at = bind_at(self.binding, IOBIND_INPUT_RESIDENT, cpu);
  bind_rows(&self, CAPACITY + 1, 1);
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_binding_run(self.binding, NULL, &fault));
  expect_words("'at': the caches have a capacity of 16: expected at most so many new rows, got 17");
  iobind_tensor_release(at);
  close_cache(&self);
}

/* An input that iobind has bound, and the caller writes. */
static void behind_lengths_of_iobind(void **state) {
  (void)state;
  cache self = open_append(plain, IOBIND_CARRY_IN_PLACE, 0);
  append(&self, 2, 1, 0);
  bind_rows(&self, 1, 2);
  expect_ok(iobind_binding_write_input(self.binding, AT, &(int64_t){CAPACITY}, sizeof(int64_t), NULL, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_binding_run(self.binding, NULL, &fault));
  append(&self, 1, 3, LAST); /* nothing has changed */
  expect_rows(&self, "113");
  close_cache(&self);
}

/* ---- a model whose kinds no call has asked for ---- */

typedef struct place {
  char directory[32];
  char path[64];
} place;

static place write_model(const char *spec) {
  place made = {.directory = "/tmp/iobind-written-XXXXXX"};
  char text[160];
  void *bytes;
  size_t size;
  assert_true(test_model_create(spec, &bytes, &size, text));
  assert_non_null(mkdtemp(made.directory));
  snprintf(made.path, sizeof made.path, "%s/model.onnx", made.directory);
  FILE *file = fopen(made.path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, size, file), size);
  assert_int_equal(fclose(file), 0);
  free(bytes);
  return made;
}

static cache open_from(const char *path) {
  static const int64_t dims[] = {1, CAPACITY, WIDTH};
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  cache made = {.state = filled(dims, 3, -1)};
  options.intra_op_threads = 1;
  expect_ok(iobind_session_create(runtime, path, &options, &made.session, &fault));
  expect_ok(iobind_binding_create(made.session, &made.binding, &fault));
  expect_ok(iobind_binding_set_input(made.binding, 0, IOBIND_INPUT_RESIDENT, made.state, NULL, &fault));
  expect_ok(iobind_binding_carry(made.binding, 0, 0, IOBIND_CARRY_IN_PLACE, &fault));
  return made;
}

/* Without the file the kinds are unknown, and ORT's kernel decides. */
static void of_a_file(void **state) {
  (void)state;
  for (int is_gone = 0; is_gone <= 1; is_gone++) {
    place from = write_model(plain);
    cache self = open_from(from.path);
    iobind_tensor *at = bind_at(self.binding, IOBIND_INPUT_RESIDENT, cpu);
    if (is_gone) assert_int_equal(unlink(from.path), 0);
    expect(is_gone ? IOBIND_ERROR_RUNTIME : IOBIND_ERROR_INVALID_ARGUMENT, run_at(&self, at, CAPACITY, 1));
    if (!is_gone) {
      expect_ok(run_at(&self, at, 0, 1));
      expect(IOBIND_ERROR_INVALID_ARGUMENT, run_at(&self, at, -1, 1));
      assert_int_equal(unlink(from.path), 0);
    }
    assert_int_equal(rmdir(from.directory), 0);
    iobind_tensor_release(at);
    close_cache(&self);
  }
}

/* ---- changes, streams ---- */

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

static iobind_binding *bind_grouped(iobind_session *session, iobind_carry_mode mode) {
  static const int64_t dims[] = {1, HEADS, CAPACITY, SIZE};
  static const int64_t new_dims[] = {1, 1, (int64_t)HEADS * SIZE};
  iobind_binding *made;
  iobind_tensor *x = filled(new_dims, 3, 1);
  expect_ok(iobind_binding_create(session, &made, &fault));
  for (size_t i = 1; i <= 2; i++) {
    iobind_tensor *past = filled(dims, 4, 9);
    expect_ok(iobind_binding_set_input(made, i, IOBIND_INPUT_SNAPSHOT, past, NULL, &fault));
    expect_ok(iobind_binding_carry(made, i, i, mode, &fault));
    iobind_tensor_release(past);
  }
  expect_ok(iobind_binding_set_input(made, 0, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
  iobind_tensor_release(x);
  return made;
}

typedef struct grouped_case {
  int32_t last, total;
  const char *words; /* NULL: it is right */
} grouped_case;

static void run_grouped(const char *model, iobind_carry_mode mode, const grouped_case *cases, size_t count) {
  iobind_session *session = session_of(model, 0);
  iobind_binding *binding = bind_grouped(session, mode);
  iobind_tensor *last = numbers(cpu, IOBIND_DTYPE_INT32, 1);
  iobind_tensor *total = numbers(cpu, IOBIND_DTYPE_INT32, 0);
  expect_ok(iobind_binding_set_input(binding, SEQLENS, IOBIND_INPUT_RESIDENT, last, NULL, &fault));
  expect_ok(iobind_binding_set_input(binding, TOTAL, IOBIND_INPUT_RESIDENT, total, NULL, &fault));
  for (size_t i = 0; i < 2 * count; i++) {
    const grouped_case *one = &cases[i % count];
    expect_ok(iobind_tensor_write(last, 0, &one->last, sizeof(int32_t), NULL, &fault));
    expect_ok(iobind_tensor_write(total, 0, &one->total, sizeof(int32_t), NULL, &fault));
    expect(one->words == NULL ? IOBIND_OK : IOBIND_ERROR_INVALID_ARGUMENT, iobind_binding_run(binding, NULL, &fault));
    if (one->words != NULL) expect_words(one->words);
  }
  iobind_tensor_release(total);
  iobind_tensor_release(last);
  iobind_binding_destroy(binding);
  iobind_session_destroy(session);
}

static void of_grouped_attention(void **state) {
  (void)state;
  static const grouped_case cases[] = {{CAPACITY - 1, CAPACITY, NULL},
                                       {CAPACITY, CAPACITY, "'seqlens_k': element 0"},
                                       {CAPACITY - 1, CAPACITY + 1, "'total'"},
                                       {-1, 1, "'seqlens_k': element 0: expected a length of 0 or more, got -1"}};
  run_grouped("shared", IOBIND_CARRY_DEFAULT, cases, sizeof cases / sizeof cases[0]);
}

/* Carried by MOVE, the operator makes a longer cache. */
static void that_make_a_longer_cache(void **state) {
  (void)state;
  static const grouped_case cases[] = {{CAPACITY, CAPACITY + 1, NULL},
                                       {0, -1, "'total': element 0: expected a length of 0 or more"}};
  run_grouped("shared capacity=-1", IOBIND_CARRY_MOVE, cases, sizeof cases / sizeof cases[0]);
}

/* The last row of the keys of the state, and how many there are. */
static void expect_last_key(iobind_binding *binding, int64_t rows, float expected) {
  static float keys[2 * CAPACITY * HEADS * SIZE];
  iobind_state *saved;
  iobind_state_pair pair = IOBIND_STATE_PAIR_INIT;
  iobind_tensor_info info = IOBIND_TENSOR_INFO_INIT;
  expect_ok(iobind_binding_save_state(binding, &saved, &fault));
  expect_ok(iobind_state_get_pair(saved, 0, &pair, &fault));
  expect_ok(iobind_tensor_get_info(pair.tensor, &info, &fault));
  assert_int_equal(info.dims[2], rows);
  expect_ok(iobind_tensor_read(pair.tensor, 0, keys, info.bytes, NULL, &fault));
  for (size_t head = 1; head <= HEADS; head++) assert_true(keys[head * (size_t)rows * SIZE - 1] == expected);
  iobind_state_release(saved);
}

static iobind_status run_once(iobind_binding *binding, iobind_stream *stream) {
  iobind_status status = iobind_binding_run(binding, stream, &fault);
  return status == IOBIND_OK && stream != NULL ? iobind_stream_synchronize(stream, &fault) : status;
}

/* Then iobind has the room that the caller's own runs have made, also before the next run has read it. */
static void before_lengths_of_iobind(void **state) {
  (void)state;
  iobind_session *session = session_of("shared capacity=-1", 0);
  iobind_stream *stream;
  expect_ok(iobind_stream_create(device, NULL, &stream, &fault));
  for (int is_queued = 0; is_queued <= 1; is_queued++) {
    iobind_binding *binding = bind_grouped(session, IOBIND_CARRY_MOVE);
    expect_ok(write_length(binding, 1, 0, NULL, &fault)); /* the capacity is found */
    expect_ok(run_once(binding, is_queued ? stream : NULL));
    for (int32_t length = CAPACITY; length < CAPACITY + 3; length++) {
      expect_ok(iobind_binding_write_input(binding, SEQLENS, &length, sizeof length, NULL, &fault));
      expect_ok(iobind_binding_write_input(binding, TOTAL, &(int32_t){length + 1}, sizeof length, NULL, &fault));
      expect_ok(run_once(binding, is_queued ? stream : NULL));
      expect(IOBIND_ERROR_INVALID_ARGUMENT, write_length(binding, 1, length + 1, NULL, &fault));
      expect_words(length == CAPACITY ? "a capacity of 17 and a length of 17" : "expected at most 0 new rows, got 1");
    }
    iobind_tensor *x = filled((const int64_t[]){1, 1, (int64_t)HEADS * SIZE}, 3, 0.5F);
    expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
    iobind_tensor_release(x);
    expect_ok(write_length(binding, 1, CAPACITY + 2, NULL, &fault));
    expect_ok(run_once(binding, is_queued ? stream : NULL));
    expect_last_key(binding, CAPACITY + 3, 0.5F);
    expect(IOBIND_ERROR_INVALID_ARGUMENT, write_length(binding, 1, LAST, NULL, &fault));
    iobind_binding_destroy(binding);
  }
  iobind_stream_destroy(stream);
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

/* On the device: the run itself decides. */
static void that_are_not_read(void **state) {
  (void)state;
  cache self = open_append(plain, IOBIND_CARRY_IN_PLACE, 0);
  iobind_tensor *at = bind_at(self.binding, IOBIND_INPUT_RESIDENT, device);
  expect_ok(run_at(&self, at, 0, 1));
  expect(IOBIND_ERROR_RUNTIME, run_at(&self, at, CAPACITY, 3));
  iobind_tensor_release(at);
  close_cache(&self);
}

static void write_number(iobind_tensor *to, int64_t number) {
  expect_ok(iobind_tensor_write(to, 0, &number, sizeof number, NULL, &fault));
}

static void carry_other(cache *self, int64_t capacity) {
  enum { OTHER = 3 };
  const int64_t dims[] = {1, capacity, WIDTH};
  iobind_tensor *other = filled(dims, 3, -1);
  expect_ok(iobind_binding_set_input(self->binding, OTHER, IOBIND_INPUT_RESIDENT, other, NULL, &fault));
  expect_ok(iobind_binding_carry(self->binding, 1, OTHER, IOBIND_CARRY_IN_PLACE, &fault));
  iobind_tensor_release(other);
}

/* The smaller one is the limit, whichever it is. */
static void of_a_length_of_two_caches(void **state) {
  (void)state;
  static const struct {
    const char *model;
    int64_t capacity;
    int64_t most;
  } cases[] = {{"append second=48 joint=1", 48, CAPACITY - 1}, {"append second=9 joint=1", 9, 8}};
  for (size_t i = 0; i < 2; i++) {
    cache self = open_append(cases[i].model, IOBIND_CARRY_IN_PLACE, 0);
    carry_other(&self, cases[i].capacity);
    iobind_tensor *at = bind_at(self.binding, IOBIND_INPUT_RESIDENT, cpu);
    expect_ok(run_at(&self, at, cases[i].most, 1));
    expect(IOBIND_ERROR_INVALID_ARGUMENT, run_at(&self, at, cases[i].most + 1, 2));
    iobind_tensor_release(at);
    close_cache(&self);
  }
}

/* What is too much for one cache may fit into the other one. */
static void of_caches_of_two_capacities(void **state) {
  (void)state;
  enum { THERE = 4, OTHER_CAPACITY = 48 };
  cache self = open_append("append second=48", IOBIND_CARRY_IN_PLACE, 0);
  carry_other(&self, OTHER_CAPACITY);
  iobind_tensor *at = bind_at(self.binding, IOBIND_INPUT_RESIDENT, cpu);
  iobind_tensor *there = numbers(cpu, IOBIND_DTYPE_INT64, 1);
  write_number(there, CAPACITY + 4);
  expect_ok(iobind_binding_set_input(self.binding, THERE, IOBIND_INPUT_RESIDENT, there, NULL, &fault));
  expect_ok(run_at(&self, at, 0, 1));
  expect_ok(run_at(&self, at, CAPACITY - 1, 2));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, run_at(&self, at, CAPACITY, 3));
  expect_words("'at': element 0: the caches have a capacity of 16: expected at most 15, got 16");
  write_number(there, OTHER_CAPACITY);
  expect(IOBIND_ERROR_INVALID_ARGUMENT, run_at(&self, at, 1, 3));
  expect_words("'there': element 0: the caches have a capacity of 48: expected at most 47, got 48");
  write_number(there, OTHER_CAPACITY - 1);
  expect_ok(run_at(&self, at, 1, 3));
  iobind_tensor_release(at);
  iobind_tensor_release(there);
  close_cache(&self);
}

static const struct CMUnitTest tests[] = {
    {"beyond the capacity", beyond_the_capacity, stage_open, stage_close, "cpu"},
    {"below zero", below_zero, stage_open, stage_close, "cpu"},
    {"of more rows than the capacity", of_more_rows_than_the_capacity, stage_open, stage_close, "cpu"},
    {"behind lengths of iobind", behind_lengths_of_iobind, stage_open, stage_close, "cpu"},
    {"of a file", of_a_file, stage_open, stage_close, "cpu"},
    {"after a change", after_a_change, stage_open, stage_close, "cpu"},
    {"vdev: in a LIVE input", in_a_live_input, stage_open, stage_close, "vdev"},
    {"on a stream", on_a_stream, stage_open, stage_close, "cpu"},
    {"of grouped attention", of_grouped_attention, stage_open, stage_close, "cpu"},
    {"that make a longer cache", that_make_a_longer_cache, stage_open, stage_close, "cpu"},
    {"cpu: before lengths of iobind", before_lengths_of_iobind, stage_open, stage_close, "cpu"},
    {"vdev: before lengths of iobind", before_lengths_of_iobind, stage_open, stage_close, "vdev"},
    {"at named positions", at_named_positions, stage_open, stage_close, "cpu"},
    {"of a length of two caches", of_a_length_of_two_caches, stage_open, stage_close, "cpu"},
    {"of caches of two capacities", of_caches_of_two_capacities, stage_open, stage_close, "cpu"},
    {"vdev: that are not read", that_are_not_read, stage_open, stage_close, "vdev"},
};

FIXTURE_MAIN(tests, NULL, NULL);
