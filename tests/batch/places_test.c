/* Batches whose states lie in several memories: on the host beside a device, and on two devices. */
#define _GNU_SOURCE /* setenv */
#include "voices.h"

#include <stdio.h>
#include <vdev.h>

enum { PAIR = 2, TURNS = 4 };

static iobind_device *devices[PAIR];

static int start(void **state) {
  setenv("VDEV_DEVICES", "2", 1);
  (void)stage_open(state);
  for (int i = 0; i < PAIR; i++) {
    char spec[16];
    snprintf(spec, sizeof spec, "%s:%d", device_spec, i);
    devices[i] = fixture_device(runtime, spec);
    assert_int_equal(vdev_set(i, "race", "fail"), 0);
  }
  return 0;
}

static iobind_session *make_session(int of) {
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  iobind_session *made = NULL;
  options.devices = &devices[of];
  options.device_count = 1;
  expect_ok(test_session_with(runtime, "voices", &options, &made, &fault));
  return made;
}

static void fill(float x[WIDTH], int turn, int row) {
  for (int i = 0; i < WIDTH; i++) {
    x[i] = (float)((turn * 7 + row * 3 + i * 5) % 17 - 8);
  }
}

/* The processor counts: that state stays on the host, and moves there, while the others move on the device. */
static void states_on_host_and_device(void **state) {
  (void)state;
  iobind_value_info info = IOBIND_VALUE_INFO_INIT;
  assert_int_equal(vdev_set(0, "deny", "Add"), 0);
  iobind_session *session = make_session(0);
  assert_int_equal(vdev_set(0, "deny", ""), 0);
  expect_ok(iobind_session_get_input(session, COUNT, &info, &fault));
  assert_ptr_equal(info.device, cpu);
  expect_ok(iobind_session_get_input(session, A, &info, &fault));
  assert_ptr_equal(info.device, devices[0]);
  iobind_batch *batch = voice_batch(session, 3, 0);
  voice_expect_rest(batch, 3, 8);
  iobind_batch_destroy(batch);
  iobind_session_destroy(session);
}

/* Each moves its rows by a model of its own device. */
static void on_two_devices(void **state) {
  (void)state;
  iobind_session *sessions[PAIR];
  iobind_batch *batches[PAIR];
  iobind_stream *streams[PAIR];
  uint64_t slots[PAIR];
  iobind_state *saved = NULL;
  voice rows[PAIR] = {{{{0}}, {0}, 0}};
  for (int i = 0; i < PAIR; i++) {
    sessions[i] = make_session(i);
    batches[i] = voice_batch(sessions[i], 2, IOBIND_BATCH_ON_DEVICE);
    expect_ok(iobind_stream_create(devices[i], NULL, &streams[i], &fault));
    expect_ok(iobind_batch_join(batches[i], NULL, &slots[i], &fault));
  }
  for (int turn = 0; turn < 2 * TURNS; turn++) {
    int i = turn % 2;
    float x[WIDTH];
    fill(x, turn, i);
    voice_bring(batches[i], slots[i], x);
    expect_ok(iobind_batch_run(batches[i], &slots[i], 1, turn < TURNS ? NULL : streams[i], &fault));
    voice_results expected = voice_step(&rows[i], x);
    voice_expect_results(batches[i], slots[i], &expected);
  }
  const float x[WIDTH] = {1, 2, 3, 4};
  voice_bring(batches[0], slots[0], x);
  expect(IOBIND_ERROR_WRONG_DEVICE, iobind_batch_run(batches[0], &slots[0], 1, streams[1], &fault));
  expect_ok(iobind_batch_leave(batches[0], slots[0], &saved, &fault));
  voice_expect_saved(saved, &rows[0]);
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_batch_join(batches[1], saved, &slots[0], &fault));
  voice_expect_state(batches[1], slots[1], &rows[1]);
  iobind_state_release(saved);
  for (int i = 0; i < PAIR; i++) {
    iobind_batch_destroy(batches[i]);
    iobind_stream_destroy(streams[i]);
    iobind_session_destroy(sessions[i]);
  }
}

#define ON_VDEV(test) \
  { "vdev: " #test, test, start, stage_close, "vdev" }

static const struct CMUnitTest tests[] = {
    ON_VDEV(states_on_host_and_device),
    ON_VDEV(on_two_devices),
};

FIXTURE_MAIN(tests, NULL, NULL);
