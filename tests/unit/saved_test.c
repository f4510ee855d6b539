/* Saved states where they meet what else there is: streams, requests, DLPack, another device. The rows of conformance have the rest. */
#include "stage.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "iobind/interop.h"
#include "vdev.h"

enum { COUNT = 4 };
static const float ones[COUNT] = {1, 1, 1, 1};
static const float twos[COUNT] = {2, 2, 2, 2};
static const float fours[COUNT] = {4, 4, 4, 4};

/* y = 2 x, which is carried; one run has left twos. */
typedef struct doubler {
  iobind_session *session;
  iobind_binding *binding;
  iobind_tensor *first;
} doubler;

static doubler open_doubler(iobind_device *on, iobind_carry_mode mode) {
  doubler made = {.session = fixture_session(runtime, on, "scale"), .first = fixture_floats(on, ones, COUNT)};
  expect_ok(iobind_binding_create(made.session, &made.binding, &fault));
  expect_ok(iobind_binding_carry(made.binding, 0, 0, mode, &fault));
  expect_ok(iobind_binding_set_input(made.binding, 0, IOBIND_INPUT_RESIDENT, made.first, NULL, &fault));
  expect_ok(iobind_binding_run(made.binding, NULL, &fault));
  return made;
}

static void close_doubler(doubler *self) {
  iobind_binding_destroy(self->binding);
  iobind_tensor_release(self->first);
  iobind_session_destroy(self->session);
}

static iobind_state *save(iobind_binding *binding) {
  iobind_state *state;
  expect_ok(iobind_binding_save_state(binding, &state, &fault));
  return state;
}

/* Borrowed. */
static iobind_tensor *tensor_of(const iobind_state *state) {
  iobind_state_pair pair = IOBIND_STATE_PAIR_INIT;
  expect_ok(iobind_state_get_pair(state, 0, &pair, &fault));
  return pair.tensor;
}

static void expect_result(iobind_binding *binding, const float *expected) {
  iobind_tensor *result;
  expect_ok(iobind_binding_get_output(binding, 0, NULL, &result, &fault));
  fixture_expect_floats(result, expected, COUNT);
}

/* The caller has the result while its run is in flight, and reads it on another stream. */
static void of_a_lent_result(void **state) {
  (void)state;
  for (int mode = IOBIND_CARRY_MOVE; mode <= IOBIND_CARRY_IN_PLACE; mode++) {
    doubler self = open_doubler(device, (iobind_carry_mode)mode);
    iobind_stream *stream;
    iobind_stream *reader;
    iobind_tensor *lent;
    float read[COUNT];
    expect_ok(iobind_stream_create(device, NULL, &stream, &fault));
    expect_ok(iobind_stream_create(device, NULL, &reader, &fault));
    assert_int_equal(vdev_set(0, "compute_us", "5000"), 0);
    expect_ok(iobind_binding_run(self.binding, stream, &fault));
    assert_int_equal(vdev_set(0, "compute_us", "0"), 0);
    expect_ok(iobind_binding_get_output(self.binding, 0, reader, &lent, &fault));
    iobind_state *saved = save(self.binding);
    expect_ok(iobind_tensor_read(lent, 0, read, sizeof read, reader, &fault));
    expect_ok(iobind_stream_synchronize(reader, &fault));
    expect_ok(iobind_stream_synchronize(stream, &fault));
    expect_ok(iobind_binding_run(self.binding, NULL, &fault));
    assert_memory_equal(read, fours, sizeof read);
    fixture_expect_floats(tensor_of(saved), fours, COUNT);
    iobind_state_release(saved);
    close_doubler(&self);
    iobind_stream_destroy(stream);
    iobind_stream_destroy(reader);
  }
}

/* A run that fails after its state was saved: no call returns the tensors, not even after the failure was reported. If it has failed before, the save
 * returns the failure. */
static void of_a_run_that_fails_late(void **state) {
  (void)state;
  for (int mode = IOBIND_CARRY_MOVE; mode <= IOBIND_CARRY_IN_PLACE; mode++) {
    doubler self = open_doubler(device, (iobind_carry_mode)mode);
    iobind_stream *stream;
    iobind_state *saved = NULL;
    iobind_state_pair pair = IOBIND_STATE_PAIR_INIT;
    expect_ok(iobind_stream_create(device, NULL, &stream, &fault));
    assert_int_equal(vdev_set(0, "compute_us", "20000"), 0);
    assert_int_equal(vdev_set(0, "fail_compute", "1,late"), 0);
    expect_ok(iobind_binding_run(self.binding, stream, &fault));
    iobind_status status = iobind_binding_save_state(self.binding, &saved, &fault);
    expect(IOBIND_ERROR_RUNTIME, iobind_stream_synchronize(stream, &fault));
    assert_int_equal(vdev_set(0, "compute_us", "0"), 0);
    assert_int_equal(vdev_set(0, "fail_compute", "0"), 0);
    for (int again = 0; again < 2 && status == IOBIND_OK; again++) {
      expect(IOBIND_ERROR_RUNTIME, iobind_state_get_pair(saved, 0, &pair, &fault));
      expect_words("fail_compute");
      expect(IOBIND_ERROR_RUNTIME, iobind_state_save(saved, "/tmp/iobind-never", &fault));
    }
    assert_true(status == IOBIND_OK || status == IOBIND_ERROR_RUNTIME);
    iobind_state_release(saved);
    close_doubler(&self);
    iobind_stream_destroy(stream);
  }
}

/* A request reads it, and does not write it. */
static void in_a_request(void **state) {
  (void)state;
  doubler self = open_doubler(device, IOBIND_CARRY_SWAP);
  iobind_state *saved = save(self.binding);
  iobind_tensor *tensor = tensor_of(saved);
  iobind_tensor *output;
  iobind_run_request request = IOBIND_RUN_REQUEST_INIT;
  request.inputs = &tensor;
  request.input_count = 1;
  expect_ok(iobind_session_run(self.session, &request, &output, 1, &fault));
  fixture_expect_floats(output, fours, COUNT);
  iobind_tensor_release(output);
  request.inputs = &self.first;
  request.targets = &tensor;
  request.target_count = 1;
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_session_run(self.session, &request, &output, 1, &fault));
  expect_words("read-only");
  fixture_expect_floats(tensor, twos, COUNT);
  iobind_state_release(saved);
  close_doubler(&self);
}

/* Its DLPack export is marked read-only. */
static void by_dlpack(void **state) {
  (void)state;
  doubler self = open_doubler(device, IOBIND_CARRY_MOVE);
  iobind_state *saved = save(self.binding);
  iobind_tensor_info info = IOBIND_TENSOR_INFO_INIT;
  void *managed;
  iobind_tensor *again;
  expect(IOBIND_ERROR_NOT_SUPPORTED, iobind_tensor_to_dlpack(tensor_of(saved), IOBIND_DLPACK_LEGACY, &managed, &fault));
  expect_ok(iobind_tensor_to_dlpack(tensor_of(saved), 0, &managed, &fault));
  iobind_state_release(saved);
  expect_ok(iobind_tensor_from_dlpack(runtime, managed, 0, &again, &fault));
  expect_ok(iobind_tensor_get_info(again, &info, &fault));
  assert_int_equal(info.read_only, 1);
  expect_ok(iobind_binding_run(self.binding, NULL, &fault));
  fixture_expect_floats(again, twos, COUNT);
  iobind_tensor_release(again);
  close_doubler(&self);
}

/* By a file, from the accelerator to the processor. */
static iobind_session *identified(iobind_device *on) {
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  iobind_session *session;
  options.flags = IOBIND_SESSION_IDENTIFY;
  options.devices = &on;
  options.device_count = 1;
  expect_ok(test_session_with(runtime, "scale", &options, &session, &fault));
  return session;
}

static void to_another_device(void **state) {
  (void)state;
  iobind_device *places[2] = {device, cpu};
  char path[64];
  iobind_state *saved = NULL;
  snprintf(path, sizeof path, "/tmp/iobind-saved-%ld", (long)getpid());
  for (size_t i = 0; i < 2; i++) {
    doubler self = {.session = identified(places[i]), .first = fixture_floats(places[i], ones, COUNT)};
    expect_ok(iobind_binding_create(self.session, &self.binding, &fault));
    expect_ok(iobind_binding_carry(self.binding, 0, 0, IOBIND_CARRY_IN_PLACE, &fault));
    expect_ok(iobind_binding_set_input(self.binding, 0, IOBIND_INPUT_SNAPSHOT, self.first, NULL, &fault));
    if (i == 1) {
      expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_binding_restore_state(self.binding, saved, &fault));
      expect_words("another session");
      iobind_state_release(saved);
      expect_ok(iobind_state_load(self.session, path, &saved, &fault));
      expect_ok(iobind_binding_restore_state(self.binding, saved, &fault));
    }
    expect_ok(iobind_binding_run(self.binding, NULL, &fault));
    expect_result(self.binding, i == 0 ? twos : fours);
    if (i == 0) {
      saved = save(self.binding);
      expect_ok(iobind_state_save(saved, path, &fault));
    }
    close_doubler(&self);
  }
  iobind_state_release(saved);
  assert_int_equal(remove(path), 0);
}

static const struct CMUnitTest tests[] = {
    {"of a lent result", of_a_lent_result, stage_open, stage_close, "vdev"},
    {"of a run that fails late", of_a_run_that_fails_late, stage_open, stage_close, "vdev"},
    {"in a request", in_a_request, stage_open, stage_close, "vdev"},
    {"by dlpack", by_dlpack, stage_open, stage_close, "vdev"},
    {"to another device", to_another_device, stage_open, stage_close, "vdev"},
};

FIXTURE_MAIN(tests, NULL, NULL);
