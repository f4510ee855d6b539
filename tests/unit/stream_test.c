/* Streams and events of a device that has its own: on the virtual accelerator, whose virtual clock tells what the host waited for. */
#include "fixture.h"
#include "memory/stream.h"
#include "support/system.h"
#include "vdev.h"
#include "../rig/calls.h"

#include <string.h>

enum { BYTES = 1000000 }; /* at 1 GB/s, 1 ms */
static const int64_t millisecond = 1000000;

static iobind_runtime *runtime;
static iobind_device *device;
static iobind_stream *first;
static iobind_stream *second;
static iobind_tensor *on_device;
static iobind_tensor *pinned;

static int start(void **state) {
  (void)state;
  iobind_runtime_options options = IOBIND_RUNTIME_OPTIONS_INIT;
  const int64_t dims[1] = {BYTES};
  expect_ok(iobind_runtime_create(&options, &runtime, &fault));
  expect_ok(iobind_runtime_find_device(runtime, "vdev", &device, NULL, &fault));
  assert_int_equal(vdev_set(0, "clock", "virtual"), 0);
  assert_int_equal(vdev_set(0, "h2d_gbps", "1"), 0);
  assert_int_equal(vdev_set(0, "d2h_gbps", "1"), 0);
  assert_int_equal(vdev_set(0, "race", "fail"), 0);
  expect_ok(iobind_stream_create(device, NULL, &first, &fault));
  expect_ok(iobind_stream_create(device, NULL, &second, &fault));
  expect_ok(iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_UINT8, dims, 1, &on_device, &fault));
  expect_ok(iobind_tensor_create(device, IOBIND_MEMORY_HOST_ACCESSIBLE, IOBIND_DTYPE_UINT8, dims, 1, &pinned, &fault));
  return 0;
}

static int stop(void **state) {
  (void)state;
  iobind_tensor_release(on_device);
  iobind_tensor_release(pinned);
  iobind_stream_destroy(first);
  iobind_stream_destroy(second);
  iobind_runtime_destroy(runtime);
  return 0;
}

static void copy(iobind_tensor *from, iobind_tensor *to, iobind_stream *stream) {
  const iobind_tensor *sources[1] = {from};
  expect_ok(iobind_tensor_copy(sources, &to, 1, stream, &fault));
}

static void device_says_so(void **state) {
  (void)state;
  iobind_device_info info = IOBIND_DEVICE_INFO_INIT;
  expect_ok(iobind_device_get_info(device, &info, &fault));
  assert_true((info.flags & IOBIND_DEVICE_STREAMS) != 0);
}

static void copy_on_a_stream_returns_at_once(void **state) {
  (void)state;
  int64_t before = vdev_get(0, "time_ns");
  copy(pinned, on_device, first);
  assert_int_equal(vdev_get(0, "time_ns"), before);
  expect_ok(iobind_stream_synchronize(first, &fault));
  assert_int_equal(vdev_get(0, "time_ns"), before + millisecond);
}

static void copy_without_a_stream_has_finished(void **state) {
  (void)state;
  int64_t before = vdev_get(0, "time_ns");
  copy(pinned, on_device, NULL);
  assert_int_equal(vdev_get(0, "time_ns"), before + millisecond);
}

static void event_is_waited_for_on_the_host(void **state) {
  (void)state;
  iobind_event *event;
  expect_ok(iobind_event_create(device, &event, &fault));
  int64_t before = vdev_get(0, "time_ns");
  expect_ok(iobind_event_wait(event, IOBIND_NO_TIMEOUT, &fault)); /* never recorded: it orders nothing */
  copy(pinned, on_device, first);
  expect_ok(iobind_event_record(event, first, &fault));
  assert_int_equal(vdev_get(0, "time_ns"), before);
  expect_ok(iobind_event_wait(event, IOBIND_NO_TIMEOUT, &fault));
  assert_int_equal(vdev_get(0, "time_ns"), before + millisecond);
  int32_t done = 0;
  expect_ok(iobind_event_query(event, &done, &fault));
  assert_int_equal(done, 1);
  iobind_event_destroy(event);
}

/* With race=fail the second copy would fail where nothing orders it. */
static void event_orders_another_stream_on_the_device(void **state) {
  (void)state;
  iobind_event *event;
  expect_ok(iobind_event_create(device, &event, &fault));
  int64_t before = vdev_get(0, "time_ns");
  copy(pinned, on_device, first);
  expect_ok(iobind_event_record(event, first, &fault));
  expect_ok(iobind_stream_wait(second, event, &fault));
  copy(on_device, pinned, second);
  assert_int_equal(vdev_get(0, "time_ns"), before); /* the host waited for nothing */
  expect_ok(iobind_stream_synchronize(second, &fault));
  assert_int_equal(vdev_get(0, "time_ns"), before + 2 * millisecond);
  iobind_event_destroy(event);
}

static void missing_event_is_found(void **state) {
  (void)state;
  copy(pinned, on_device, first);
  const iobind_tensor *sources[1] = {on_device};
  expect(IOBIND_ERROR_RUNTIME, iobind_tensor_copy(sources, &pinned, 1, second, &fault));
  expect_words("no event or wait orders the two");
  expect_ok(iobind_stream_synchronize(first, &fault));
  copy(on_device, pinned, second);
  expect_ok(iobind_stream_synchronize(second, &fault));
}

static void bytes_arrive(void **state) {
  (void)state;
  static unsigned char bytes[BYTES];
  static unsigned char back[BYTES];
  for (size_t i = 0; i < BYTES; i++) {
    bytes[i] = (unsigned char)(i * 7 + 3);
  }
  expect_ok(iobind_tensor_write(on_device, 0, bytes, sizeof bytes, first, &fault));
  expect_ok(iobind_tensor_read(on_device, 0, back, sizeof back, first, &fault));
  expect_ok(iobind_stream_synchronize(first, &fault));
  assert_memory_equal(bytes, back, sizeof bytes);
}

/* From pageable memory, and more at once than the stream has pinned memory for: then one waits, and all arrive. */
static void writes_from_pageable_memory_return_at_once(void **state) {
  (void)state;
  enum { WRITES = 6 };
  static unsigned char bytes[BYTES];
  static unsigned char back[BYTES];
  iobind_tensor *targets[WRITES];
  const int64_t dims[1] = {BYTES};
  for (int i = 0; i < WRITES; i++) {
    expect_ok(iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_UINT8, dims, 1, &targets[i], &fault));
  }
  for (int round = 0; round < 2; round++) {
    int64_t before = vdev_get(0, "time_ns");
    for (int i = 0; i < WRITES; i++) {
      memset(bytes, 16 * round + i + 1, sizeof bytes); /* what was written before is the stream's already */
      expect_ok(iobind_tensor_write(targets[i], 0, bytes, sizeof bytes, first, &fault));
      if (i < 4) {
        assert_int_equal(vdev_get(0, "time_ns"), before);
      }
    }
    expect_ok(iobind_stream_synchronize(first, &fault));
    for (int i = 0; i < WRITES; i++) {
      expect_ok(iobind_tensor_read(targets[i], 0, back, sizeof back, NULL, &fault));
      memset(bytes, 16 * round + i + 1, sizeof bytes);
      assert_memory_equal(back, bytes, sizeof bytes);
    }
  }
  for (int i = 0; i < WRITES; i++) {
    iobind_tensor_release(targets[i]);
  }
}

static void native_stream_is_the_execution_providers(void **state) {
  (void)state;
  vdev_stream *native = call_stream_get_native(first);
  assert_non_null(native);
  int64_t before = vdev_get(0, "time_ns");
  copy(pinned, on_device, first);
  assert_int_equal(vdev_stream_synchronize(native), 0);
  assert_int_equal(vdev_get(0, "time_ns"), before + millisecond);
  iobind_stream *on_cpu;
  expect_ok(iobind_stream_create(iobind_runtime_get_device(runtime, 0), NULL, &on_cpu, &fault));
  assert_null(call_stream_get_native(on_cpu));
  iobind_stream_destroy(on_cpu);
}

/* Two bindings on one stream, the second one's input the first one's output: nothing waits until the host does. */
static void runs_on_a_stream_return_at_once(void **state) {
  (void)state;
  iobind_session *session = fixture_session(runtime, device, "scale");
  iobind_tensor *tensors[3];
  iobind_binding *bindings[2];
  static const float ones[4] = {1, 1, 1, 1};
  static const float fours[4] = {4, 4, 4, 4};
  for (int i = 0; i < 3; i++) {
    tensors[i] = fixture_floats(device, ones, 4);
  }
  for (int i = 0; i < 2; i++) {
    expect_ok(iobind_binding_create(session, &bindings[i], &fault));
    expect_ok(iobind_binding_set_input(bindings[i], 0, IOBIND_INPUT_RESIDENT, tensors[i], NULL, &fault));
    expect_ok(iobind_binding_set_output(bindings[i], 0, tensors[i + 1], 0, &fault));
  }
  iobind_event *event;
  expect_ok(iobind_event_create(device, &event, &fault));
  assert_int_equal(vdev_set(0, "compute_us", "1000"), 0);
  int64_t before = vdev_get(0, "time_ns");
  expect_ok(iobind_binding_run(bindings[0], first, &fault));
  expect_ok(call_binding_run(bindings[1], first, event, &fault));
  assert_int_equal(vdev_get(0, "time_ns"), before);
  expect(IOBIND_ERROR_INVALID_STATE, iobind_binding_run(bindings[0], second, &fault));
  expect_words("in flight");
  expect_ok(iobind_event_wait(event, IOBIND_NO_TIMEOUT, &fault));
  assert_int_equal(vdev_get(0, "time_ns"), before + 2 * millisecond);
  fixture_expect_floats(tensors[2], fours, 4);
  expect_ok(iobind_binding_run(bindings[0], first, &fault)); /* the event's end was behind both */
  for (int i = 0; i < 2; i++) {
    iobind_binding_destroy(bindings[i]); /* one of them in flight */
  }
  iobind_session_destroy(session);
  for (int i = 0; i < 3; i++) {
    iobind_tensor_release(tensors[i]);
  }
  expect_ok(iobind_stream_synchronize(first, &fault));
  assert_int_equal(vdev_set(0, "compute_us", "0"), 0);
  iobind_event_destroy(event);
}

/* What a copy uses remains until the copy is complete, even if the caller releases it. */
static void tensor_given_up_under_a_copy(void **state) {
  (void)state;
  const int64_t dims[1] = {BYTES};
  int64_t live = vdev_get(0, "live_bytes");
  iobind_tensor *target;
  expect_ok(iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_UINT8, dims, 1, &target, &fault));
  copy(pinned, target, first);
  iobind_tensor_release(target);
  assert_true(vdev_get(0, "live_bytes") >= live + BYTES);
  expect_ok(iobind_stream_synchronize(first, &fault));
  assert_int_equal(vdev_get(0, "live_bytes"), live);
}

/* An event can be asked for without waiting: a thread of the stream waits instead. */
static void event_is_asked_for(void **state) {
  (void)state;
  iobind_event *event;
  int32_t done = 0;
  expect_ok(iobind_event_create(device, &event, &fault));
  copy(pinned, on_device, first);
  expect_ok(iobind_event_record(event, first, &fault));
  while (done == 0) {
    expect_ok(iobind_event_query(event, &done, &fault));
  }
  copy(on_device, pinned, second); /* so that the host knows: with race=fail this would fail otherwise */
  expect_ok(iobind_stream_synchronize(second, &fault));
  iobind_event_destroy(event);
}

/* A run by a thread of iobind, which is complete before anybody asks. Reading what it wrote tells the caller. */
static void a_read_tells_of_a_complete_run(void **state) {
  (void)state;
  static const float two[] = {2, 2};
  static const float four[] = {4, 4};
  iobind_device *cpu = iobind_runtime_get_device(runtime, 0);
  iobind_session *session = fixture_session(runtime, cpu, "scale");
  iobind_tensor *x = fixture_floats(cpu, two, 2);
  iobind_tensor *y = fixture_floats(cpu, two, 2);
  iobind_stream *stream = NULL;
  iobind_binding *binding = NULL;
  expect_ok(iobind_stream_create(cpu, NULL, &stream, &fault));
  expect_ok(iobind_binding_create(session, &binding, &fault));
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
  expect_ok(iobind_binding_set_output(binding, 0, y, 0, &fault));
  expect_ok(iobind_binding_run(binding, stream, &fault));
  while (!iobind__stream_passed(stream, 1)) {
    iobind__clock_sleep(1000);
  }
  expect(IOBIND_ERROR_INVALID_STATE, iobind_binding_clear(binding, &fault));
  fixture_expect_floats(y, four, 2);
  expect_ok(iobind_binding_clear(binding, &fault));
  iobind_binding_destroy(binding);
  iobind_stream_destroy(stream);
  iobind_tensor_release(x);
  iobind_tensor_release(y);
  iobind_session_destroy(session);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_read_tells_of_a_complete_run),
    cmocka_unit_test(device_says_so),
    cmocka_unit_test(copy_on_a_stream_returns_at_once),
    cmocka_unit_test(copy_without_a_stream_has_finished),
    cmocka_unit_test(event_is_waited_for_on_the_host),
    cmocka_unit_test(event_orders_another_stream_on_the_device),
    cmocka_unit_test(missing_event_is_found),
    cmocka_unit_test(bytes_arrive),
    cmocka_unit_test(writes_from_pageable_memory_return_at_once),
    cmocka_unit_test(native_stream_is_the_execution_providers),
    cmocka_unit_test(runs_on_a_stream_return_at_once),
    cmocka_unit_test(tensor_given_up_under_a_copy),
    cmocka_unit_test(event_is_asked_for),
};

FIXTURE_MAIN(tests, start, stop);
