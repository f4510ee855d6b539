/* Two devices with streams, and a tensor that several streams use. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include "fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models.h"
#include "vdev.h"
#include "../rig/calls.h"

static iobind_runtime *runtime;
static iobind_device *devices[2];

static int start(void **state) {
  (void)state;
  setenv("VDEV_DEVICES", "2", 1);
  runtime = fixture_runtime();
  devices[0] = fixture_device(runtime, "vdev:0");
  devices[1] = fixture_device(runtime, "vdev:1");
  return 0;
}

static int stop(void **state) {
  (void)state;
  iobind_runtime_destroy(runtime);
  return 0;
}

static void event_of_the_other_device(void **state) {
  (void)state;
  static const float one[] = {1, 2, 3};
  iobind_session *session = fixture_session(runtime, devices[0], "scale");
  iobind_stream *stream = NULL;
  iobind_event *event = NULL;
  iobind_binding *binding = NULL;
  iobind_tensor *x = fixture_floats(devices[0], one, 3);
  expect_ok(iobind_stream_create(devices[0], NULL, &stream, &fault));
  expect_ok(iobind_event_create(devices[1], &event, &fault));
  expect_ok(iobind_binding_create(session, &binding, &fault));
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
  expect(IOBIND_ERROR_WRONG_DEVICE, call_binding_run(binding, stream, event, &fault));
  expect_words("vdev:1");
  iobind_stream_destroy(stream);
  expect_ok(iobind_stream_create(devices[1], NULL, &stream, &fault));
  expect(IOBIND_ERROR_WRONG_DEVICE, iobind_binding_run(binding, stream, &fault));
  expect_words("vdev:1");
  iobind_binding_destroy(binding);
  iobind_tensor_release(x);
  iobind_event_destroy(event);
  iobind_stream_destroy(stream);
  iobind_session_destroy(session);
}

/* A tensor remembers two streams that use it. A third waits for the first, and what all of them read is right. */
static void three_streams_use_a_tensor(void **state) {
  (void)state;
  enum { STREAMS = 3, COUNT = 4 };
  static const float values[COUNT] = {1, 2, 3, 4};
  const int64_t dims[] = {COUNT};
  iobind_tensor *shared = fixture_floats(devices[0], values, COUNT);
  const iobind_tensor *source = shared;
  iobind_stream *streams[STREAMS];
  iobind_tensor *targets[STREAMS];
  assert_int_equal(vdev_set(0, "latency_us", "50000"), 0); /* so that none is complete when the next one is submitted */
  for (int i = 0; i < STREAMS; i++) {
    expect_ok(iobind_stream_create(devices[0], NULL, &streams[i], &fault));
    expect_ok(
        iobind_tensor_create(devices[0], IOBIND_MEMORY_HOST_ACCESSIBLE, IOBIND_DTYPE_FLOAT32, dims, 1, &targets[i], &fault));
  }
  for (int i = 0; i < STREAMS; i++) {
    expect_ok(iobind_tensor_copy(&source, &targets[i], 1, streams[i], &fault));
  }
  iobind_tensor_release(shared); /* it stays until all have read it */
  for (int i = 0; i < STREAMS; i++) {
    expect_ok(iobind_stream_synchronize(streams[i], &fault));
    fixture_expect_floats(targets[i], values, COUNT);
    iobind_tensor_release(targets[i]);
    iobind_stream_destroy(streams[i]);
  }
  assert_int_equal(vdev_set(0, "latency_us", "0"), 0);
  assert_int_equal(vdev_get(0, "live_bytes"), 0);
}

static iobind_status load(iobind_device *const *list, size_t count, const char *const *keys, const char *const *values,
                          size_t options_count) {
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  iobind_session *session = NULL;
  options.devices = list;
  options.device_count = count;
  options.ep_keys = keys;
  options.ep_values = values;
  options.ep_option_count = options_count;
  iobind_status status = test_session_with(runtime, "scale", &options, &session, &fault);
  iobind_session_destroy(session);
  return status;
}

/* Devices of one EP are passed to it together, at any positions in the list. This EP refuses more than one, which shows that it was asked. */
static void both_devices_in_one_session(void **state) {
  (void)state;
  iobind_device *list[] = {devices[0], iobind_runtime_get_device(runtime, 0), devices[1]};
  expect(IOBIND_ERROR_RUNTIME, load(list, 3, NULL, NULL, 0));
  expect_words("a session has one device of this EP");
}

/* An option with a name reaches only that EP, one without the first that is not the processor's. That it arrived shows where it
 * cannot be: the accelerator refuses it, the other EP passes over what it does not know. */
static void options_of_one_of_two_eps(void **state) {
  (void)state;
  iobind_device *webgpu = fixture_device(runtime, "webgpu");
  iobind_device *both[] = {devices[1], webgpu};
  iobind_device *turned[] = {webgpu, devices[1]};
  static const char *const named[] = {"webgpu.validationMode", "vdev.fail_copy"};
  static const char *const nameless[] = {"fail_copy"};
  static const char *const good[] = {"basic", "0"};
  static const char *const bad[] = {"basic", "every:x"};
  for (int turn = 0; turn < 2; turn++) {
    iobind_device *const *list = turn == 0 ? both : turned;
    expect_ok(load(list, 2, named, good, 2));
    expect(IOBIND_ERROR_RUNTIME, load(list, 2, named, bad, 2));
    expect_words("'fail_copy' cannot be 'every:x'");
  }
  expect(IOBIND_ERROR_RUNTIME, load(both, 2, nameless, bad + 1, 1));
  expect_words("'fail_copy' cannot be 'every:x'");
  expect_ok(load(turned, 2, nameless, bad + 1, 1));
}

static size_t count_words(const char *text, const char *words) {
  size_t count = 0;
  for (const char *at = text; (at = strstr(at, words)) != NULL; at += strlen(words)) {
    count++;
  }
  return count;
}

/* Each memory location is named once in the message, and pinned memory is not taken for the device's own. */
static void copy_names_its_places(void **state) {
  (void)state;
  static const int64_t dims[] = {4};
  iobind_tensor *pinned = NULL;
  iobind_tensor *on_device = NULL;
  expect_ok(iobind_tensor_create(devices[0], IOBIND_MEMORY_HOST_ACCESSIBLE, IOBIND_DTYPE_FLOAT32, dims, 1, &pinned, &fault));
  expect_ok(iobind_tensor_create(devices[0], IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 1, &on_device, &fault));
  const iobind_tensor *source = pinned;
  assert_int_equal(vdev_set(0, "fail_copy", "1"), 0);
  expect(IOBIND_ERROR_RUNTIME, iobind_tensor_copy(&source, &on_device, 1, NULL, &fault));
  expect_words("copy from 'vdev:0/pinned' to 'vdev:0'");
  assert_int_equal(count_words(fault.message, "vdev:0"), 2);
  assert_int_equal(vdev_set(0, "fail_copy", "0"), 0);
  iobind_tensor_release(pinned);
  iobind_tensor_release(on_device);
}

/* A run for which the device has no memory left returns that status. */
static void run_out_of_memory(void **state) {
  (void)state;
  enum { COUNT = 1 << 16 };
  static const int64_t dims[] = {COUNT};
  iobind_session *session = fixture_session(runtime, devices[0], "scale");
  iobind_binding *binding = NULL;
  iobind_tensor *x = NULL;
  iobind_tensor *y = NULL;
  expect_ok(iobind_tensor_create(devices[0], IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 1, &x, &fault));
  expect_ok(iobind_binding_create(session, &binding, &fault));
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
  char limit[32];
  snprintf(limit, sizeof limit, "%lld", (long long)vdev_get(0, "live_bytes") + COUNT);
  assert_int_equal(vdev_set(0, "mem_limit", limit), 0);
  expect(IOBIND_ERROR_OUT_OF_MEMORY, iobind_binding_run(binding, NULL, &fault));
  expect_words("out of device memory");
  assert_int_equal(vdev_set(0, "mem_limit", "0"), 0);
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  expect_ok(iobind_binding_get_output(binding, 0, NULL, &y, &fault));
  iobind_binding_destroy(binding);
  iobind_tensor_release(x);
  iobind_session_destroy(session);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(event_of_the_other_device),   cmocka_unit_test(three_streams_use_a_tensor),
    cmocka_unit_test(both_devices_in_one_session), cmocka_unit_test(options_of_one_of_two_eps),
    cmocka_unit_test(run_out_of_memory),           cmocka_unit_test(copy_names_its_places),
};
FIXTURE_MAIN(cases, start, stop);
