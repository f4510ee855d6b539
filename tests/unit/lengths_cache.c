#include "lengths_cache.h"

#include <string.h>

uint32_t verified_runs; /* of the sessions that are created */

iobind_session *session_of(const char *model, size_t graph_limit) {
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  iobind_session *session;
  options.flags = IOBIND_SESSION_IDENTIFY;
  options.devices = &device;
  options.device_count = device == cpu ? 0 : 1;
  options.graph_limit = graph_limit;
  options.intra_op_threads = 1;
  options.verify.runs = verified_runs;
  expect_ok(test_session_with(runtime, model, &options, &session, &fault));
  return session;
}

iobind_tensor *filled(const int64_t *dims, size_t rank, float value) {
  static float values[2 * CAPACITY * HEADS * SIZE];
  iobind_tensor *made;
  size_t bytes;
  expect_ok(iobind_dtype_get_bytes(IOBIND_DTYPE_FLOAT32, dims, rank, &bytes, &fault));
  for (size_t i = 0; i < bytes / sizeof *values; i++) values[i] = value;
  expect_ok(iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, rank, &made, &fault));
  expect_ok(iobind_tensor_write(made, 0, values, bytes, NULL, &fault));
  return made;
}

cache open_append(const char *model, iobind_carry_mode mode, size_t graph_limit) {
  static const int64_t dims[] = {1, CAPACITY, WIDTH};
  cache made = {.session = session_of(model, graph_limit), .state = filled(dims, 3, -1)};
  expect_ok(iobind_binding_create(made.session, &made.binding, &fault));
  expect_ok(iobind_binding_set_input(made.binding, 0, IOBIND_INPUT_RESIDENT, made.state, NULL, &fault));
  expect_ok(iobind_binding_carry(made.binding, 0, 0, mode, &fault));
  return made;
}

void close_cache(cache *self) {
  iobind_binding_destroy(self->binding);
  iobind_tensor_release(self->state);
  iobind_session_destroy(self->session);
}

void bind_rows(cache *self, int64_t count, float value) {
  const int64_t dims[] = {1, count, WIDTH};
  if (self->rows == count) { /* where they are: a captured graph reads them there */
    float values[CAPACITY * WIDTH];
    for (int64_t i = 0; i < count * WIDTH; i++) values[i] = value;
    expect_ok(iobind_binding_write_input(self->binding, 1, values, (size_t)(count * WIDTH) * sizeof *values, NULL, &fault));
    return;
  }
  self->rows = count;
  iobind_tensor *rows = filled(dims, 3, value);
  expect_ok(iobind_binding_set_input(self->binding, 1, IOBIND_INPUT_SNAPSHOT, rows, NULL, &fault));
  iobind_tensor_release(rows);
}

iobind_status write_length(iobind_binding *binding, size_t added, int64_t length, iobind_stream *stream, iobind_error *error) {
  return iobind_binding_write_lengths(binding, added, length == LAST ? NULL : &length, length == LAST ? 0 : 1, stream, error);
}

void append(cache *self, int64_t count, float value, int64_t length) {
  bind_rows(self, count, value);
  expect_ok(write_length(self->binding, (size_t)count, length, NULL, &fault));
  expect_ok(iobind_binding_run(self->binding, NULL, &fault));
}

int64_t rows_of(const iobind_tensor *tensor) {
  iobind_tensor_info info = IOBIND_TENSOR_INFO_INIT;
  expect_ok(iobind_tensor_get_info(tensor, &info, &fault));
  return info.dims[1];
}

void expect_rows(cache *self, const char *numbers) {
  float values[CAPACITY * WIDTH];
  iobind_state *saved;
  iobind_state_pair pair = IOBIND_STATE_PAIR_INIT;
  expect_ok(iobind_binding_save_state(self->binding, &saved, &fault));
  expect_ok(iobind_state_get_pair(saved, 0, &pair, &fault));
  size_t rows = (size_t)rows_of(pair.tensor);
  expect_ok(iobind_tensor_read(pair.tensor, 0, values, rows * WIDTH * sizeof *values, NULL, &fault));
  size_t count = strcspn(numbers, "*");
  rows = numbers[count] == '*' && count < rows ? count : rows;
  for (size_t i = 0; i < rows; i++) {
    float expected = i < count ? (float)(numbers[i] - '0') : -1;
    if (values[i * WIDTH] != expected || values[i * WIDTH + WIDTH - 1] != expected) {
      fail_msg("row %zu: expected %g, got %g", i, (double)expected, (double)values[i * WIDTH]);
    }
  }
  iobind_state_release(saved);
}

const iobind_carry_mode modes[3] = {IOBIND_CARRY_MOVE, IOBIND_CARRY_SWAP, IOBIND_CARRY_IN_PLACE};
const char plain[] = "append opset=24";
