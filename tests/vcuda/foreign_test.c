/* Streams and events of a CUDA program in iobind: the legacy stream, captures, several devices. Run with race=fail. */
#include "fixture.h"

#include <stdio.h>
#include <string.h>

#include "cuda.h"
#include "iobind/interop.h"
#include "vcuda.h"
#include "../rig/calls.h"

enum { COUNT = 4, NON_BLOCKING = 1, GLOBAL = 0, RELAXED = 2, UP = 1, DOWN = 2, CAPTURE_ACTIVE = 1 };
static const float threes[COUNT] = {3, 3, 3, 3};

static iobind_runtime *runtime;
static iobind_device *device;
static float *pinned;
static void *memory;

static int start(void **state) {
  (void)state;
  runtime = fixture_runtime();
  device = fixture_device(runtime, "cuda");
  assert_int_equal(cudaSetDevice(0), CUDA_OK);
  assert_int_equal(cudaMallocHost((void **)&pinned, 2 * sizeof threes), CUDA_OK);
  assert_int_equal(cudaMalloc(&memory, sizeof threes), CUDA_OK);
  memcpy(pinned, threes, sizeof threes);
  return 0;
}

static int stop(void **state) {
  (void)state;
  assert_int_equal(vcuda_get(0, "races"), 0);
  assert_int_equal(cudaFree(memory), CUDA_OK);
  assert_int_equal(cudaFreeHost(pinned), CUDA_OK);
  iobind_runtime_destroy(runtime);
  return 0;
}

static iobind_status wrap(void *handle, iobind_stream **stream) {
  iobind_native native = IOBIND_NATIVE_INIT;
  native.kind = IOBIND_NATIVE_CUDA;
  native.handle = handle;
  fixture_arm();
  return iobind_stream_wrap(device, &native, NULL, NULL, stream, &fault);
}

/* The program's memory is wrapped, filled on its stream, doubled by a run on that stream, and downloaded on it. No call blocks. */
static void double_on(void *handle) {
  const int64_t dims[1] = {COUNT};
  iobind_stream *stream;
  iobind_tensor *x;
  iobind_tensor *y;
  iobind_binding *binding;
  iobind_session *session = fixture_session(runtime, device, "scale");
  expect_ok(wrap(handle, &stream));
  expect_ok(call_tensor_wrap(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 1, memory, sizeof threes, NULL, NULL,
                             &x, &fault));
  expect_ok(iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 1, &y, &fault));
  expect_ok(iobind_binding_create(session, &binding, &fault));
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
  expect_ok(iobind_binding_set_output(binding, 0, y, 0, &fault));
  for (int turn = 0; turn < 3; turn++) {
    if (turn == 1) {
      expect_ok(iobind_stream_synchronize(stream, &fault));
      assert_int_equal(vcuda_reset(0), 0);
    }
    assert_int_equal(cudaMemcpyAsync(memory, pinned, sizeof threes, UP, handle), CUDA_OK);
    expect_ok(iobind_binding_run(binding, stream, &fault));
    assert_int_equal(cudaMemcpyAsync(pinned + COUNT, iobind_tensor_get_address(y), sizeof threes, DOWN, handle), CUDA_OK);
  }
  assert_int_equal(vcuda_get(0, "syncs"), 0);
  assert_int_equal(cudaStreamSynchronize(handle), CUDA_OK);
  for (int i = 0; i < COUNT; i++) {
    assert_true(pinned[COUNT + i] == 6);
  }
  iobind_binding_destroy(binding);
  iobind_tensor_release(x);
  iobind_tensor_release(y);
  iobind_stream_destroy(stream);
  iobind_session_destroy(session);
}

static void of_a_stream(void **state) {
  (void)state;
  cuda_stream theirs;
  assert_int_equal(cudaStreamCreateWithFlags(&theirs, NON_BLOCKING), CUDA_OK);
  double_on(theirs);
  assert_int_equal(cudaStreamDestroy(theirs), CUDA_OK);
}

static void of_the_legacy_stream(void **state) {
  (void)state;
  double_on(NULL);
}

/* The call is refused, and does not break the capture. */
#define REFUSED(stream, call)                                             \
  do {                                                                    \
    int capturing = 0;                                                    \
    expect(IOBIND_ERROR_INVALID_STATE, call);                             \
    assert_int_equal(cudaStreamIsCapturing(stream, &capturing), CUDA_OK); \
    assert_int_equal(capturing, CAPTURE_ACTIVE);                          \
  } while (0)

static iobind_status session_on(iobind_stream *stream, iobind_session **session) {
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  options.devices = &device;
  options.device_count = 1;
  options.stream = stream;
  fixture_arm();
  return test_session_with(runtime, "scale", &options, session, &fault);
}

/* A session with a binding. */
typedef struct doubler {
  iobind_session *session;
  iobind_binding *binding;
} doubler;

static doubler make_doubler(iobind_stream *stream, iobind_tensor *x, iobind_tensor *y) {
  doubler made;
  expect_ok(session_on(stream, &made.session));
  expect_ok(iobind_binding_create(made.session, &made.binding, &fault));
  expect_ok(iobind_binding_set_input(made.binding, 0, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
  expect_ok(iobind_binding_set_output(made.binding, 0, y, 0, &fault));
  return made;
}

static void free_doubler(doubler *made) {
  iobind_binding_destroy(made->binding);
  iobind_session_destroy(made->session);
}

static iobind_tensor *make_floats(void) {
  const int64_t dims[1] = {COUNT};
  iobind_tensor *made;
  expect_ok(iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 1, &made, &fault));
  return made;
}

/* Each call on the captured stream, and each run of a session that computes on it, is refused. */
static void captures_are_refused(void **state) {
  (void)state;
  cuda_stream theirs;
  cuda_event ready;
  void *graph = NULL;
  iobind_stream *stream;
  iobind_stream *other;
  iobind_event *event;
  iobind_session *none;
  iobind_native native = IOBIND_NATIVE_INIT;
  float read[COUNT];
  iobind_tensor *x = make_floats();
  iobind_tensor *y = make_floats();
  assert_int_equal(cudaStreamCreateWithFlags(&theirs, NON_BLOCKING), CUDA_OK);
  assert_int_equal(cudaEventCreate(&ready), CUDA_OK);
  assert_int_equal(cudaEventRecord(ready, NULL), CUDA_OK);
  native.kind = IOBIND_NATIVE_CUDA;
  native.handle = ready;
  expect_ok(wrap(theirs, &stream));
  expect_ok(iobind_stream_create(device, NULL, &other, &fault));
  expect_ok(iobind_event_create(device, &event, &fault));
  expect_ok(iobind_event_record(event, other, &fault));
  doubler there = make_doubler(stream, x, y);
  doubler elsewhere = make_doubler(NULL, x, y);
  assert_int_equal(cudaStreamBeginCapture(theirs, GLOBAL), CUDA_OK);
  REFUSED(theirs, wrap(theirs, &(iobind_stream *){NULL}));
  expect_words("captured");
  REFUSED(theirs, iobind_tensor_write(x, 0, threes, sizeof threes, stream, &fault));
  REFUSED(theirs, iobind_tensor_read(x, 0, read, sizeof read, stream, &fault));
  REFUSED(theirs, iobind_stream_wait_native(stream, &native, &fault));
  REFUSED(theirs, iobind_stream_signal_native(stream, &native, &fault));
  REFUSED(theirs, iobind_stream_wait(stream, event, &fault));
  REFUSED(theirs, iobind_event_record(event, stream, &fault));
  REFUSED(theirs, iobind_stream_synchronize(stream, &fault));
  REFUSED(theirs, iobind_binding_run(there.binding, stream, &fault));
  REFUSED(theirs, iobind_binding_run(there.binding, NULL, &fault));
  REFUSED(theirs, iobind_binding_run(elsewhere.binding, stream, &fault));
  REFUSED(theirs, session_on(stream, &none));
  expect_words("session_create: the stream of another library is being captured");
  assert_int_equal(cudaStreamEndCapture(theirs, (void *)&graph), CUDA_OK);
  expect_ok(iobind_tensor_write(x, 0, threes, sizeof threes, stream, &fault));
  expect_ok(iobind_stream_wait_native(stream, &native, &fault));
  expect_ok(iobind_stream_wait(stream, event, &fault));
  expect_ok(iobind_binding_run(there.binding, stream, &fault));
  expect_ok(iobind_tensor_read(y, 0, read, sizeof read, stream, &fault));
  expect_ok(iobind_stream_synchronize(stream, &fault));
  assert_true(read[0] == 6);
  free_doubler(&there);
  free_doubler(&elsewhere);
  iobind_event_destroy(event);
  iobind_stream_destroy(stream);
  iobind_stream_destroy(other);
  iobind_tensor_release(x);
  iobind_tensor_release(y);
  assert_int_equal(cudaGraphDestroy(graph), CUDA_OK);
  assert_int_equal(cudaEventDestroy(ready), CUDA_OK);
  assert_int_equal(cudaStreamDestroy(theirs), CUDA_OK);
}

/* The EP ends the process if it cannot wait for the device: while any of its streams is captured, and after a sticky error. */
static void sessions_that_the_ep_would_not_survive(void **state) {
  (void)state;
  cuda_stream theirs;
  void *graph = NULL;
  iobind_session *session;
  char address[32];
  const char *key = "user_compute_stream";
  const char *value = address;
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  options.devices = &device;
  options.device_count = 1;
  options.ep_keys = &key;
  options.ep_values = &value;
  options.ep_option_count = 1;
  assert_int_equal(cudaStreamCreateWithFlags(&theirs, NON_BLOCKING), CUDA_OK);
  snprintf(address, sizeof address, "%p", (void *)theirs);
  assert_int_equal(cudaStreamBeginCapture(theirs, RELAXED), CUDA_OK);
  expect(IOBIND_ERROR_INVALID_STATE, session_on(NULL, &session));
  expect_words("session_create: 'cuda:0': a stream of the device was being captured");
  assert_int_not_equal(cudaStreamEndCapture(theirs, (void *)&graph), CUDA_OK); /* broken by the check's wait */
  assert_int_equal(cudaStreamBeginCapture(theirs, RELAXED), CUDA_OK);
  expect(IOBIND_ERROR_INVALID_STATE, test_session_with(runtime, "scale", &options, &session, &fault));
  assert_int_equal(cudaStreamEndCapture(theirs, (void *)&graph),
                   CUDA_OK); /* a stream among the options is queried first, which breaks nothing */
  assert_int_equal(cudaGraphDestroy(graph), CUDA_OK);
  assert_int_equal(vcuda_set(0, "fail_copy", "1,late"), 0);
  assert_int_not_equal(cudaMemcpy(memory, pinned, sizeof threes, UP), CUDA_OK);
  expect(IOBIND_ERROR_DEVICE_LOST, test_session_with(runtime, "scale", &options, &session, &fault));
  expect_words("214");
  iobind_runtime_destroy(runtime);
  (void)vcuda_recover(0);
  (void)cudaGetLastError();
  runtime = fixture_runtime(); /* as in a new process */
  device = fixture_device(runtime, "cuda");
  expect_ok(test_session_with(runtime, "scale", &options, &session, &fault));
  iobind_session_destroy(session);
  assert_int_equal(cudaStreamDestroy(theirs), CUDA_OK);
}

/* A policy that chooses the CPU does not check the device. One that chooses a GPU checks it like a device given by name. */
static void sessions_by_a_policy(void **state) {
  (void)state;
  cuda_stream theirs;
  void *graph = NULL;
  iobind_session *session;
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  const iobind_policy takes_gpu[] = {IOBIND_POLICY_PREFER_GPU, IOBIND_POLICY_MAX_PERFORMANCE};
  assert_int_equal(cudaStreamCreateWithFlags(&theirs, NON_BLOCKING), CUDA_OK);
  assert_int_equal(cudaStreamBeginCapture(theirs, RELAXED), CUDA_OK);
  options.policy = IOBIND_POLICY_PREFER_CPU;
  expect_ok(test_session_with(runtime, "scale", &options, &session, &fault));
  iobind_session_destroy(session);
  assert_int_equal(cudaStreamEndCapture(theirs, (void *)&graph), CUDA_OK);
  assert_int_equal(cudaGraphDestroy(graph), CUDA_OK);
  for (size_t i = 0; i < sizeof takes_gpu / sizeof takes_gpu[0]; i++) {
    options.policy = takes_gpu[i];
    assert_int_equal(cudaStreamBeginCapture(theirs, RELAXED), CUDA_OK);
    expect(IOBIND_ERROR_INVALID_STATE, test_session_with(runtime, "scale", &options, &session, &fault));
    expect_words("session_create: 'cuda:0': a stream of the device was being captured");
    assert_int_not_equal(cudaStreamEndCapture(theirs, (void *)&graph), CUDA_OK); /* broken by the check's wait */
    (void)cudaGetLastError();                                                    /* ORT would report it as its own error */
    expect_ok(test_session_with(runtime, "scale", &options, &session, &fault));
    iobind_session_destroy(session);
  }
  assert_int_equal(cudaStreamDestroy(theirs), CUDA_OK);
}

/* ORT's policies choose the first GPU. So a capture on another GPU is neither queried, which would break it, nor an obstacle. The EP's
 * options reach the session. */
static void policies_take_the_first_device(void **state) {
  (void)state;
  cuda_stream theirs;
  void *graph = NULL;
  iobind_session *session;
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  const iobind_policy takes_gpu[] = {IOBIND_POLICY_PREFER_GPU, IOBIND_POLICY_MAX_PERFORMANCE};
  const char *key = "cuda.gpu_mem_limit";
  const char *value = "1";
  iobind_tensor *x = make_floats();
  assert_int_equal(cudaSetDevice(1), CUDA_OK);
  assert_int_equal(cudaStreamCreateWithFlags(&theirs, NON_BLOCKING), CUDA_OK);
  assert_int_equal(cudaStreamBeginCapture(theirs, RELAXED), CUDA_OK);
  assert_int_equal(cudaSetDevice(0), CUDA_OK);
  for (size_t i = 0; i < sizeof takes_gpu / sizeof takes_gpu[0]; i++) {
    iobind_tensor *y = NULL;
    options.policy = takes_gpu[i];
    expect_ok(test_session_with(runtime, "scale", &options, &session, &fault));
    assert_int_equal(vcuda_reset(0) + vcuda_reset(1), 0);
    expect_ok(call_session_run(session, &x, &y, &fault));
    assert_true(vcuda_get(0, "launches") > 0);
    assert_int_equal(vcuda_get(1, "launches"), 0);
    iobind_tensor_release(y);
    iobind_session_destroy(session);
  }
  options.ep_keys = &key;
  options.ep_values = &value;
  options.ep_option_count = 1;
  fixture_arm();
  assert_int_not_equal(test_session_with(runtime, "scale", &options, &session, &fault), IOBIND_OK);
  expect_words("Available memory of 0");
  assert_int_equal(cudaStreamEndCapture(theirs, (void *)&graph), CUDA_OK);
  assert_int_equal(cudaGraphDestroy(graph), CUDA_OK);
  assert_int_equal(cudaStreamDestroy(theirs), CUDA_OK);
  iobind_tensor_release(x);
}

static void events_go_both_ways(void **state) {
  (void)state;
  cuda_stream theirs;
  cuda_event event;
  const int64_t dims[1] = {COUNT};
  iobind_stream *stream;
  iobind_tensor *x;
  iobind_tensor *y;
  iobind_native native = IOBIND_NATIVE_INIT;
  assert_int_equal(cudaStreamCreateWithFlags(&theirs, NON_BLOCKING), CUDA_OK);
  assert_int_equal(cudaEventCreate(&event), CUDA_OK);
  native.kind = IOBIND_NATIVE_CUDA;
  native.handle = event;
  expect_ok(iobind_stream_create(device, NULL, &stream, &fault));
  expect_ok(call_tensor_wrap(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 1, memory, sizeof threes, NULL, NULL,
                             &x, &fault));
  expect_ok(iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 1, &y, &fault));
  const iobind_tensor *from = x;
  assert_int_equal(cudaMemcpyAsync(memory, pinned, sizeof threes, UP, theirs), CUDA_OK);
  assert_int_equal(cudaEventRecord(event, theirs), CUDA_OK);
  expect_ok(iobind_stream_wait_native(stream, &native, &fault));
  expect_ok(iobind_tensor_copy(&from, &y, 1, stream, &fault));
  expect_ok(iobind_stream_signal_native(stream, &native, &fault));
  assert_int_equal(cudaStreamWaitEvent(theirs, event, 0), CUDA_OK);
  assert_int_equal(cudaMemcpyAsync(pinned + COUNT, iobind_tensor_get_address(y), sizeof threes, DOWN, theirs), CUDA_OK);
  assert_int_equal(cudaStreamSynchronize(theirs), CUDA_OK);
  assert_memory_equal(pinned + COUNT, threes, sizeof threes);
  expect_ok(iobind_stream_synchronize(stream, &fault));
  iobind_stream_destroy(stream);
  iobind_tensor_release(x);
  iobind_tensor_release(y);
  assert_int_equal(cudaEventDestroy(event), CUDA_OK);
  assert_int_equal(cudaStreamDestroy(theirs), CUDA_OK);
}

/* Waiting for the event made the stream part of the capture. The call reports this. Neither it nor the next call breaks the capture. */
static void events_of_captures_are_refused(void **state) {
  (void)state;
  cuda_stream theirs;
  cuda_event inside;
  cuda_event outside;
  void *graph = NULL;
  iobind_stream *stream;
  iobind_tensor *x = make_floats();
  iobind_native native = IOBIND_NATIVE_INIT;
  iobind_native later = IOBIND_NATIVE_INIT;
  float read[COUNT];
  assert_int_equal(cudaStreamCreateWithFlags(&theirs, NON_BLOCKING), CUDA_OK);
  assert_int_equal(cudaEventCreate(&inside), CUDA_OK);
  assert_int_equal(cudaEventCreate(&outside), CUDA_OK);
  assert_int_equal(cudaEventRecord(outside, theirs), CUDA_OK);
  native.kind = later.kind = IOBIND_NATIVE_CUDA;
  native.handle = inside;
  later.handle = outside;
  expect_ok(iobind_stream_create(device, NULL, &stream, &fault));
  assert_int_equal(cudaStreamBeginCapture(theirs, GLOBAL), CUDA_OK);
  assert_int_equal(cudaMemsetAsync(memory, 0, sizeof threes, theirs), CUDA_OK);
  assert_int_equal(cudaEventRecord(inside, theirs), CUDA_OK);
  REFUSED(theirs, iobind_stream_wait_native(stream, &native, &fault));
  expect_words("stream_wait_native: the stream is part of a capture: it has waited for an event that was recorded in one");
  REFUSED(theirs, iobind_stream_wait_native(stream, &later, &fault));
  assert_int_equal(cudaStreamEndCapture(theirs, (void *)&graph), CUDA_OK);
  expect_ok(iobind_stream_wait_native(stream, &later, &fault));
  expect_ok(iobind_tensor_write(x, 0, threes, sizeof threes, stream, &fault));
  expect_ok(iobind_tensor_read(x, 0, read, sizeof read, stream, &fault));
  expect_ok(iobind_stream_synchronize(stream, &fault));
  assert_memory_equal(read, threes, sizeof threes);
  iobind_stream_destroy(stream);
  iobind_tensor_release(x);
  assert_int_equal(cudaGraphDestroy(graph), CUDA_OK);
  assert_int_equal(cudaEventDestroy(inside), CUDA_OK);
  assert_int_equal(cudaEventDestroy(outside), CUDA_OK);
  assert_int_equal(cudaStreamDestroy(theirs), CUDA_OK);
}

static void streams_of_elsewhere_are_refused(void **state) {
  (void)state;
  enum { PER_THREAD = 2 };
  iobind_stream *stream;
  cuda_stream theirs;
  assert_int_equal(wrap((void *)PER_THREAD, &stream), IOBIND_ERROR_NOT_SUPPORTED);
  expect_words("PerThread");
  assert_int_equal(cudaSetDevice(1), CUDA_OK);
  assert_int_equal(cudaStreamCreateWithFlags(&theirs, NON_BLOCKING), CUDA_OK);
  assert_int_equal(cudaSetDevice(0), CUDA_OK);
  assert_int_equal(wrap(theirs, &stream), IOBIND_ERROR_WRONG_DEVICE);
  assert_int_equal(cudaStreamDestroy(theirs), CUDA_OK);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(of_a_stream, start, stop),
    cmocka_unit_test_setup_teardown(of_the_legacy_stream, start, stop),
    cmocka_unit_test_setup_teardown(captures_are_refused, start, stop),
    cmocka_unit_test_setup_teardown(sessions_that_the_ep_would_not_survive, start, stop),
    cmocka_unit_test_setup_teardown(sessions_by_a_policy, start, stop),
    cmocka_unit_test_setup_teardown(policies_take_the_first_device, start, stop),
    cmocka_unit_test_setup_teardown(events_go_both_ways, start, stop),
    cmocka_unit_test_setup_teardown(events_of_captures_are_refused, start, stop),
    cmocka_unit_test_setup_teardown(streams_of_elsewhere_are_refused, start, stop),
};

FIXTURE_MAIN(tests, NULL, NULL);
