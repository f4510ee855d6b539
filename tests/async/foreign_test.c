/* Streams of other libraries. Here the other library is iobind itself: the native stream of one of its streams is wrapped as another one, and
 * nothing but the bridge orders the two. What is not ordered is a failure (race=fail). */
#include "stage.h"

#include <string.h>

#include "iobind/interop.h"
#include "vdev.h"
#include "../rig/calls.h"

enum { COUNT = 4 };
static const float ones[COUNT] = {1, 1, 1, 1};
static const float threes[COUNT] = {3, 3, 3, 3};
static const float sixes[COUNT] = {6, 6, 6, 6};
static const float twelves[COUNT] = {12, 12, 12, 12};

static iobind_stream *theirs;
static iobind_stream *wrapped;
static fixture_deleted deleted;

static iobind_native native_of(void *handle) {
  iobind_native native = IOBIND_NATIVE_INIT;
  native.kind = is_device("vdev") ? IOBIND_NATIVE_VDEV : IOBIND_NATIVE_CUDA;
  native.handle = handle;
  return native;
}

static int start(void **state) {
  (void)stage_open(state);
  deleted = (fixture_deleted){0};
  if (is_device("vdev")) {
    assert_int_equal(vdev_set(0, "race", "fail"), 0);
    assert_int_equal(vdev_set(0, "compute_us", "500"), 0);
    assert_int_equal(vdev_set(0, "latency_us", "500"), 0);
  }
  expect_ok(iobind_stream_create(device, NULL, &theirs, &fault));
  iobind_native native = native_of(call_stream_get_native(theirs));
  expect_ok(iobind_stream_wrap(device, &native, fixture_deleter, &deleted, &wrapped, &fault));
  assert_ptr_equal(call_stream_get_native(wrapped), native.handle);
  return 0;
}

static int stop(void **state) {
  void *handle = call_stream_get_native(theirs);
  iobind_stream_destroy(wrapped);
  assert_int_equal(deleted.count, 1);
  assert_ptr_equal(deleted.data, handle);
  iobind_stream_destroy(theirs);
  if (is_device("vdev")) {
    assert_int_equal(vdev_get(0, "races"), 0);
    assert_int_equal(vdev_set(0, "compute_us", "0"), 0);
    assert_int_equal(vdev_set(0, "latency_us", "0"), 0);
  }
  return stage_close(state);
}

static iobind_session *make_session(iobind_stream *stream) {
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  iobind_session *session;
  options.devices = &device;
  options.device_count = 1;
  options.stream = stream;
  expect_ok(test_session_with(runtime, "scale", &options, &session, &fault));
  return session;
}

static iobind_tensor *make_pinned(const float *values) {
  const int64_t dims[1] = {COUNT};
  iobind_tensor *tensor;
  void *data;
  expect_ok(iobind_tensor_create(device, IOBIND_MEMORY_HOST_ACCESSIBLE, IOBIND_DTYPE_FLOAT32, dims, 1, &tensor, &fault));
  expect_ok(iobind_tensor_map(tensor, IOBIND_DTYPE_FLOAT32, IOBIND_ACCESS_WRITE, &data, &fault));
  memcpy(data, values, sizeof ones);
  return tensor;
}

static void copy(const iobind_tensor *from, iobind_tensor *to, iobind_stream *stream) {
  expect_ok(iobind_tensor_copy(&from, &to, 1, stream, &fault));
}

static void expect_pinned(iobind_tensor *tensor, const float *values) {
  void *data;
  expect_ok(iobind_tensor_map(tensor, IOBIND_DTYPE_FLOAT32, IOBIND_ACCESS_WRITE, &data, &fault));
  assert_memory_equal(data, values, sizeof ones);
}

/* Upload there, run here, download there, turn after turn in the same memory. */
static void take_turns(iobind_session *session, bool waits) {
  iobind_binding *binding;
  iobind_tensor *x = fixture_floats(device, ones, COUNT);
  iobind_tensor *y = fixture_floats(device, ones, COUNT);
  iobind_tensor *in[2] = {make_pinned(threes), make_pinned(sixes)};
  iobind_tensor *out[2] = {make_pinned(ones), make_pinned(ones)};
  expect_ok(iobind_binding_create(session, &binding, &fault));
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
  expect_ok(iobind_binding_set_output(binding, 0, y, 0, &fault));
  for (int turn = 0; turn < 6; turn++) {
    copy(in[turn % 2], x, theirs);
    expect_ok(iobind_binding_run(binding, waits ? NULL : wrapped, &fault));
    copy(y, out[turn % 2], theirs);
  }
  expect_ok(iobind_stream_synchronize(theirs, &fault));
  expect_pinned(out[0], sixes);
  expect_pinned(out[1], twelves);
  expect_ok(iobind_stream_synchronize(wrapped, &fault));
  iobind_binding_destroy(binding);
  for (int i = 0; i < 2; i++) {
    iobind_tensor_release(in[i]);
    iobind_tensor_release(out[i]);
  }
  iobind_tensor_release(x);
  iobind_tensor_release(y);
}

static void runs(void **state) {
  (void)state;
  iobind_session *session = make_session(NULL);
  take_turns(session, false);
  iobind_session_destroy(session);
}

/* The session computes on it: a run without a stream, too. */
static void session_computes_on_it(void **state) {
  (void)state;
  iobind_session *session = make_session(wrapped);
  take_turns(session, false);
  take_turns(session, true);
  iobind_tensor *x = fixture_floats(iobind_runtime_get_device(runtime, 0), threes, COUNT);
  iobind_tensor *y;
  expect_ok(call_session_run(session, &x, &y, &fault));
  fixture_expect_floats(y, sixes, COUNT);
  iobind_tensor_release(x);
  iobind_tensor_release(y);
  iobind_session_destroy(session);
}

/* The deleter is called when the last of the two is destroyed. */
static void session_keeps_it(void **state) {
  (void)state;
  iobind_session *session = make_session(wrapped);
  iobind_stream_destroy(wrapped);
  assert_int_equal(deleted.count, 0);
  wrapped = theirs;
  take_turns(session, false);
  assert_int_equal(deleted.count, 0);
  iobind_session_destroy(session);
  assert_int_equal(deleted.count, 1);
  wrapped = NULL;
}

static void copies_and_events(void **state) {
  (void)state;
  iobind_event *event;
  iobind_stream *third;
  iobind_tensor *x = fixture_floats(device, ones, COUNT);
  iobind_tensor *y = fixture_floats(device, ones, COUNT);
  iobind_tensor *in = make_pinned(threes);
  iobind_tensor *out = make_pinned(ones);
  expect_ok(iobind_event_create(device, &event, &fault));
  expect_ok(iobind_stream_create(device, NULL, &third, &fault));
  copy(in, x, theirs);
  copy(x, y, wrapped);
  copy(y, out, theirs);
  expect_ok(iobind_event_record(event, wrapped, &fault)); /* also after the work that is there */
  expect_ok(iobind_event_wait(event, IOBIND_NO_TIMEOUT, &fault));
  expect_pinned(out, threes);
  copy(in, x, third);
  expect_ok(iobind_event_record(event, third, &fault));
  expect_ok(iobind_stream_wait(wrapped, event, &fault)); /* so that the other library's stream waits */
  copy(x, out, theirs);
  expect_ok(iobind_stream_synchronize(theirs, &fault));
  expect_ok(iobind_stream_synchronize(third, &fault));
  iobind_stream_destroy(third);
  iobind_event_destroy(event);
  iobind_tensor_release(x);
  iobind_tensor_release(y);
  iobind_tensor_release(in);
  iobind_tensor_release(out);
}

static void events_of_theirs(void **state) {
  (void)state;
  iobind_stream *third;
  vdev_event *event = vdev_event_create(0);
  iobind_native native = native_of(event);
  iobind_tensor *x = fixture_floats(device, ones, COUNT);
  iobind_tensor *in = make_pinned(threes);
  iobind_tensor *out = make_pinned(ones);
  expect_ok(iobind_stream_create(device, NULL, &third, &fault));
  copy(in, x, theirs);
  expect_ok(iobind_stream_signal_native(wrapped, &native, &fault)); /* after the work that is there */
  expect_ok(iobind_stream_wait_native(third, &native, &fault));
  copy(x, out, third);
  expect_ok(iobind_stream_signal_native(third, &native, &fault));
  assert_int_equal(vdev_event_wait(event), 0);
  expect_pinned(out, threes);
  expect_ok(iobind_stream_synchronize(third, &fault));
  native.handle = NULL;
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_stream_wait_native(third, &native, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_stream_wait_native(third, NULL, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_stream_signal_native(NULL, &native, &fault));
  vdev_event_destroy(event);
  iobind_stream_destroy(third);
  iobind_tensor_release(x);
  iobind_tensor_release(in);
  iobind_tensor_release(out);
}

static void refuses(void **state) {
  (void)state;
  iobind_stream *made;
  iobind_native native = native_of(call_stream_get_native(theirs));
  iobind_device *host = iobind_runtime_get_device(runtime, 0);
  expect(IOBIND_ERROR_NOT_SUPPORTED, iobind_stream_wrap(host, &native, NULL, NULL, &made, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_stream_wrap(device, NULL, NULL, NULL, &made, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_stream_wrap(NULL, &native, NULL, NULL, &made, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_stream_wrap(device, &native, NULL, NULL, NULL, &fault));
  native.value = 1;
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_stream_wrap(device, &native, fixture_deleter, &deleted, &made, &fault));
  native.value = 0;
  native.kind = IOBIND_NATIVE_D3D12;
  expect(IOBIND_ERROR_NOT_SUPPORTED, iobind_stream_wrap(device, &native, fixture_deleter, &deleted, &made, &fault));
  expect_words("D3D12");
  native.kind = 77;
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_stream_wrap(device, &native, fixture_deleter, &deleted, &made, &fault));
  native = native_of(&native);
  if (is_device("vdev")) { /* CUDA crashes over what is not a stream */
    expect(IOBIND_ERROR_RUNTIME, iobind_stream_wrap(device, &native, fixture_deleter, &deleted, &made, &fault));
  }
  assert_int_equal(deleted.count, 0);
}

#define ON(device, test) \
  { #device ": " #test, test, start, stop, #device }
#define ON_EACH(test) ON(vdev, test), ON(cuda, test)

static const struct CMUnitTest tests[] = {
    ON_EACH(runs),
    ON_EACH(session_computes_on_it),
    ON_EACH(session_keeps_it),
    ON_EACH(copies_and_events),
    ON(vdev, events_of_theirs),
    ON_EACH(refuses),
};

FIXTURE_MAIN(tests, NULL, NULL);
