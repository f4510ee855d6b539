/* What is read on a stream into pageable memory: the call returns at once, and the bytes have arrived when a call has returned that the stream is complete,
 * and for later work. On the virtual accelerator, whose virtual clock shows what the host waited for. */
#include "fixture.h"
#include "vdev.h"
#include "../rig/calls.h"

#include <string.h>

enum { BYTES = 1000000, SMALL = 12, UNTOUCHED = 0xEE }; /* at 1 GB/s, 1 ms */
static const int64_t millisecond = 1000000;

static iobind_runtime *runtime;
static iobind_device *device;
static iobind_device *cpu;
static iobind_stream *stream;
static iobind_stream *other;
static iobind_event *event;
static iobind_tensor *x;
static unsigned char target[BYTES];

static iobind_tensor *make(iobind_device *where, iobind_memory memory, int64_t bytes) {
  iobind_tensor *tensor;
  expect_ok(iobind_tensor_create(where, memory, IOBIND_DTYPE_UINT8, &bytes, 1, &tensor, &fault));
  return tensor;
}

static int start_group(void **state) {
  (void)state;
  runtime = fixture_runtime();
  cpu = iobind_runtime_get_device(runtime, 0);
  expect_ok(iobind_runtime_find_device(runtime, "vdev", &device, NULL, &fault));
  assert_int_equal(vdev_set(0, "clock", "virtual"), 0);
  assert_int_equal(vdev_set(0, "h2d_gbps", "1"), 0);
  assert_int_equal(vdev_set(0, "d2h_gbps", "1"), 0);
  assert_int_equal(vdev_set(0, "race", "fail"), 0);
  return 0;
}

static int stop_group(void **state) {
  (void)state;
  iobind_runtime_destroy(runtime);
  return 0;
}

static int start(void **state) {
  (void)state;
  expect_ok(iobind_stream_create(device, NULL, &stream, &fault));
  expect_ok(iobind_stream_create(device, NULL, &other, &fault));
  expect_ok(iobind_event_create(device, &event, &fault));
  x = make(device, IOBIND_MEMORY_DEFAULT, BYTES);
  return 0;
}

static int stop(void **state) {
  (void)state;
  iobind_tensor_release(x);
  iobind_event_destroy(event);
  iobind_stream_destroy(stream);
  iobind_stream_destroy(other);
  return 0;
}

static void fill(iobind_tensor *tensor, int byte, size_t bytes) {
  static unsigned char source[BYTES];
  memset(source, byte, bytes);
  expect_ok(iobind_tensor_write(tensor, 0, source, bytes, NULL, &fault));
}

static void expect_bytes(const unsigned char *bytes, int byte, size_t count) {
  for (size_t i = 0; i < count; i++) {
    assert_int_equal(bytes[i], byte);
  }
}

/* Submitted; the target has not changed, and the clock has not advanced. */
static void read_under_way(int byte) {
  fill(x, byte, BYTES);
  memset(target, UNTOUCHED, sizeof target);
  int64_t before = vdev_get(0, "time_ns");
  expect_ok(iobind_tensor_read(x, 0, target, sizeof target, stream, &fault));
  expect_ok(iobind_event_record(event, stream, &fault));
  assert_int_equal(vdev_get(0, "time_ns"), before);
  expect_bytes(target, UNTOUCHED, sizeof target);
}

/* ---- calls that return that the stream is complete ---- */

static void by_an_event(void **state) {
  (void)state;
  read_under_way(1);
  int64_t before = vdev_get(0, "time_ns");
  expect_ok(iobind_event_wait(event, IOBIND_NO_TIMEOUT, &fault));
  assert_int_equal(vdev_get(0, "time_ns"), before + millisecond);
  expect_bytes(target, 1, sizeof target);
  target[0] = 77;
  expect_ok(iobind_stream_synchronize(stream, &fault)); /* copied once */
  assert_int_equal(target[0], 77);
}

static void by_asking(void **state) {
  (void)state;
  int32_t done = 0;
  read_under_way(2);
  while (done == 0) {
    expect_ok(iobind_event_query(event, &done, &fault));
  }
  expect_bytes(target, 2, sizeof target);
}

static void by_synchronizing(void **state) {
  (void)state;
  read_under_way(3);
  expect_ok(iobind_stream_synchronize(stream, &fault));
  expect_bytes(target, 3, sizeof target);
}

static void by_an_event_behind_an_event(void **state) {
  (void)state;
  read_under_way(4);
  expect_ok(iobind_stream_wait(other, event, &fault));
  expect_ok(iobind_event_record(event, other, &fault));
  expect_ok(iobind_event_wait(event, IOBIND_NO_TIMEOUT, &fault));
  expect_bytes(target, 4, sizeof target);
}

static void by_destroying_the_stream(void **state) {
  (void)state;
  read_under_way(5);
  iobind_stream_destroy(stream);
  expect_bytes(target, 5, sizeof target);
  expect_ok(iobind_event_wait(event, IOBIND_NO_TIMEOUT, &fault));
  expect_ok(iobind_stream_create(device, NULL, &stream, &fault));
}

static void by_another_devices_stream(void **state) {
  (void)state;
  iobind_stream *thread;
  expect_ok(iobind_stream_create(cpu, NULL, &thread, &fault));
  read_under_way(6);
  expect_ok(iobind_stream_wait(thread, event, &fault));
  expect_ok(iobind_stream_synchronize(thread, &fault));
  expect_bytes(target, 6, sizeof target);
  iobind_stream_destroy(thread);
}

/* ---- later work ---- */

/* A tensor over the target is copied to the device on the same stream: it must hold what was read. */
static void copied_on(void **state) {
  (void)state;
  const int64_t dims[1] = {BYTES};
  iobind_tensor *over;
  iobind_tensor *y = make(device, IOBIND_MEMORY_DEFAULT, BYTES);
  static unsigned char back[BYTES];
  expect_ok(
      call_tensor_wrap(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_UINT8, dims, 1, target, BYTES, NULL, NULL, &over, &fault));
  read_under_way(7);
  const iobind_tensor *sources[1] = {over};
  expect_ok(iobind_tensor_copy(sources, &y, 1, stream, &fault));
  expect_ok(iobind_stream_synchronize(stream, &fault));
  expect_ok(iobind_tensor_read(y, 0, back, sizeof back, NULL, &fault));
  expect_bytes(back, 7, sizeof back);
  read_under_way(8);
  expect_ok(iobind_tensor_write(y, 0, target + BYTES / 2, BYTES / 2, stream, &fault));
  expect_ok(iobind_tensor_read(y, 0, back, sizeof back, stream, &fault));
  expect_ok(iobind_stream_synchronize(stream, &fault));
  expect_bytes(back, 8, BYTES / 2);
  expect_bytes(back + BYTES / 2, 7, BYTES / 2);
  iobind_tensor_release(over);
  iobind_tensor_release(y);
}

/* A copy from the device into it is ordered after the read, too. */
static void overwritten(void **state) {
  (void)state;
  const int64_t dims[1] = {BYTES};
  iobind_tensor *over;
  iobind_tensor *y = make(device, IOBIND_MEMORY_DEFAULT, BYTES);
  fill(y, 10, BYTES);
  expect_ok(
      call_tensor_wrap(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_UINT8, dims, 1, target, BYTES, NULL, NULL, &over, &fault));
  read_under_way(9);
  const iobind_tensor *sources[1] = {y};
  expect_ok(iobind_tensor_copy(sources, &over, 1, stream, &fault));
  expect_ok(iobind_stream_synchronize(stream, &fault));
  expect_bytes(target, 10, sizeof target);
  iobind_tensor_release(over);
  iobind_tensor_release(y);
}

/* A run's input is copied from the target. */
static void run_on(void **state) {
  (void)state;
  static const float sent[4] = {1, 2, 3, 4};
  static const float twice[4] = {2, 4, 6, 8};
  static float got[4];
  const int64_t dims[1] = {4};
  iobind_tensor *over;
  iobind_tensor *y = fixture_floats(device, sent, 4);
  iobind_binding *binding;
  iobind_tensor *output;
  iobind_session *session = fixture_session(runtime, device, "scale");
  expect_ok(
      call_tensor_wrap(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 1, got, sizeof got, NULL, NULL, &over, &fault));
  expect_ok(iobind_binding_create(session, &binding, &fault));
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_LIVE, over, NULL, &fault));
  expect_ok(iobind_tensor_read(y, 0, got, sizeof got, stream, &fault));
  expect_ok(iobind_binding_run(binding, stream, &fault));
  expect_ok(iobind_binding_get_output(binding, 0, NULL, &output, &fault));
  fixture_expect_floats(output, twice, 4);
  iobind_binding_destroy(binding);
  iobind_session_destroy(session);
  iobind_tensor_release(over);
  iobind_tensor_release(y);
}

/* More at once than there is pinned memory for, large and small ones, into the same memory: the last one stays. */
static void many(void **state) {
  (void)state;
  enum { READS = 11 };
  static unsigned char targets[READS][SMALL];
  iobind_tensor *sources[READS];
  memset(targets, UNTOUCHED, sizeof targets);
  for (int i = 0; i < READS; i++) {
    sources[i] = make(device, IOBIND_MEMORY_DEFAULT, SMALL);
    fill(sources[i], 20 + i, SMALL);
  }
  for (int i = 0; i < READS; i++) {
    int64_t before = vdev_get(0, "time_ns");
    expect_ok(iobind_tensor_read(sources[i], 0, targets[i], SMALL, stream, &fault));
    iobind_tensor_release(sources[i]); /* its memory remains until the stream is complete */
    bool waited = i % 4 == 0 && i > 0; /* for all four buffers at once */
    assert_int_equal(vdev_get(0, "time_ns") > before, waited);
    expect_bytes(targets[i], UNTOUCHED, SMALL);
  }
  expect_ok(iobind_stream_synchronize(stream, &fault));
  for (int i = 0; i < READS; i++) {
    expect_bytes(targets[i], 20 + i, SMALL);
  }
  for (int i = 0; i < READS; i++) {
    sources[i] = make(device, IOBIND_MEMORY_DEFAULT, BYTES);
    fill(sources[i], 40 + i, BYTES);
  }
  for (int i = 0; i < READS; i++) {
    expect_ok(iobind_tensor_read(sources[i], 0, target, i % 2 == 0 ? BYTES : SMALL, stream, &fault));
    iobind_tensor_release(sources[i]);
  }
  expect_ok(iobind_stream_synchronize(stream, &fault));
  expect_bytes(target, 40 + READS - 1, BYTES);
}

/* Tensors in pageable memory are copied the same way, more of them at once than there is pinned memory for. */
static void from_tensors_and_to_tensors(void **state) {
  (void)state;
  enum { PAIRS = 6 };
  const iobind_tensor *sources[PAIRS];
  iobind_tensor *targets[PAIRS];
  unsigned char *bytes = NULL;
  iobind_tensor *y = make(cpu, IOBIND_MEMORY_DEFAULT, BYTES);
  fill(y, 80, BYTES);
  expect_ok(iobind_tensor_map(y, IOBIND_DTYPE_UINT8, IOBIND_ACCESS_WRITE, (void **)&bytes,
                              &fault)); /* which later would wait for what arrives there */
  sources[0] = y;
  int64_t before = vdev_get(0, "time_ns");
  expect_ok(iobind_tensor_copy(sources, &x, 1, stream, &fault));
  fill(y, 81, BYTES); /* it has been taken */
  sources[0] = x;
  expect_ok(iobind_tensor_copy(sources, &y, 1, stream, &fault));
  assert_int_equal(vdev_get(0, "time_ns"), before);
  expect_bytes(bytes, 81, BYTES);
  expect_ok(iobind_stream_synchronize(stream, &fault));
  assert_int_equal(vdev_get(0, "time_ns"), before + 2 * millisecond);
  expect_bytes(bytes, 80, BYTES);
  for (int i = 0; i < PAIRS; i++) {
    sources[i] = x;
    targets[i] = make(cpu, IOBIND_MEMORY_DEFAULT, BYTES);
  }
  expect_ok(iobind_tensor_copy(sources, targets, PAIRS, stream, &fault));
  iobind_tensor_release(targets[PAIRS - 1]); /* its memory remains until the stream is complete */
  expect_ok(iobind_stream_synchronize(stream, &fault));
  for (int i = 0; i < PAIRS - 1; i++) {
    expect_ok(iobind_tensor_map(targets[i], IOBIND_DTYPE_UINT8, IOBIND_ACCESS_WRITE, (void **)&bytes, &fault));
    expect_bytes(bytes, 80, BYTES);
    iobind_tensor_release(targets[i]);
  }
  iobind_tensor_release(y);
}

/* A run whose LIVE input is in pageable memory returns at once. */
static void live_input(void **state) {
  (void)state;
  enum { COUNT = BYTES / 4 };
  const int64_t dims[1] = {COUNT};
  iobind_tensor *input;
  iobind_tensor *output;
  iobind_binding *binding;
  float *values = NULL;
  float got[2];
  iobind_session *session = fixture_session(runtime, device, "scale");
  expect_ok(iobind_tensor_create(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 1, &input, &fault));
  expect_ok(iobind_tensor_map(input, IOBIND_DTYPE_FLOAT32, IOBIND_ACCESS_WRITE, (void **)&values, &fault));
  for (size_t i = 0; i < COUNT; i++) {
    values[i] = 1;
  }
  expect_ok(iobind_binding_create(session, &binding, &fault));
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_LIVE, input, NULL, &fault));
  expect_ok(iobind_binding_run(binding, stream, &fault)); /* the first of a binding is looked at */
  expect_ok(iobind_stream_synchronize(stream, &fault));
  values[0] = 3;
  int64_t before = vdev_get(0, "time_ns");
  expect_ok(iobind_binding_run(binding, stream, &fault));
  assert_int_equal(vdev_get(0, "time_ns"), before);
  expect_ok(iobind_binding_get_output(binding, 0, NULL, &output, &fault));
  expect_ok(iobind_tensor_read(output, 0, got, sizeof got, NULL, &fault));
  assert_true(got[0] == 6 && got[1] == 2);
  iobind_binding_destroy(binding);
  iobind_session_destroy(session);
  iobind_tensor_release(input);
}

/* If no pinned memory can be allocated, the EP makes the read: it waits, and earlier reads are delivered before it. */
static void without_pinned_memory(void **state) {
  (void)state;
  assert_int_equal(vdev_set(0, "fail_pinned", "every:1"), 0);
  fill(x, 60, BYTES);
  memset(target, UNTOUCHED, sizeof target);
  expect_ok(iobind_tensor_read(x, 0, target, sizeof target, stream, &fault));
  expect_bytes(target, 60, sizeof target);
  assert_int_equal(vdev_set(0, "fail_pinned", "0"), 0);
  read_under_way(61);
  assert_int_equal(vdev_set(0, "fail_pinned", "every:1"), 0);
  iobind_tensor *y = make(device, IOBIND_MEMORY_DEFAULT, BYTES / 2);
  fill(y, 62, BYTES / 2);
  for (int i = 0; i < 2; i++) { /* the one buffer that there is is in use */
    expect_ok(iobind_tensor_read(y, 0, target, BYTES / 2, stream, &fault));
  }
  assert_int_equal(vdev_set(0, "fail_pinned", "0"), 0);
  expect_ok(iobind_stream_synchronize(stream, &fault));
  expect_bytes(target, 62, BYTES / 2);
  expect_bytes(target + BYTES / 2, 61, BYTES / 2);
  iobind_tensor_release(y);
}

/* A read that is refused brings nothing, and what was in flight before arrives. */
static void refused(void **state) {
  (void)state;
  static unsigned char second[SMALL];
  memset(second, UNTOUCHED, sizeof second);
  read_under_way(70);
  assert_int_equal(vdev_set(0, "fail_copy", "1"), 0);
  expect(IOBIND_ERROR_RUNTIME, iobind_tensor_read(x, 0, second, sizeof second, stream, &fault));
  expect_ok(iobind_stream_synchronize(stream, &fault));
  expect_bytes(target, 70, sizeof target);
  expect_bytes(second, UNTOUCHED, sizeof second);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)

static const struct CMUnitTest tests[] = {
    TEST(by_an_event),
    TEST(by_asking),
    TEST(by_synchronizing),
    TEST(by_an_event_behind_an_event),
    TEST(by_destroying_the_stream),
    TEST(by_another_devices_stream),
    TEST(copied_on),
    TEST(overwritten),
    TEST(run_on),
    TEST(many),
    TEST(from_tensors_and_to_tensors),
    TEST(live_input),
    TEST(without_pinned_memory),
    TEST(refused),
};

FIXTURE_MAIN(tests, start_group, stop_group);
