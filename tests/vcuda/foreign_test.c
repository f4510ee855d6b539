/* Streams and events of a CUDA program in iobind: the legacy stream, captures, several devices. Run with race=fail. */
#include "fixture.h"

#include <string.h>

#include "cuda.h"
#include "iobind/interop.h"
#include "vcuda.h"

enum { COUNT = 4, NON_BLOCKING = 1, GLOBAL = 0, UP = 1, DOWN = 2 };
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

/* The program's memory is wrapped, filled by its stream, doubled by a run of iobind's on that stream, and fetched by it: nothing waits. */
static void double_on(void *handle) {
  const int64_t dims[1] = {COUNT};
  iobind_stream *stream;
  iobind_tensor *x;
  iobind_tensor *y;
  iobind_binding *binding;
  iobind_session *session = fixture_session(runtime, device, "scale");
  expect_ok(wrap(handle, &stream));
  expect_ok(iobind_tensor_wrap(device, IOBIND_MEMORY_DEFAULT, IOBIND_FLOAT32, dims, 1, memory, sizeof threes, NULL, NULL, &x,
                               &fault));
  expect_ok(iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_FLOAT32, dims, 1, &y, &fault));
  expect_ok(iobind_binding_create(session, &binding, &fault));
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
  expect_ok(iobind_binding_set_output(binding, 0, IOBIND_OUTPUT_FIXED, NULL, IOBIND_MEMORY_DEFAULT, y, &fault));
  for (int turn = 0; turn < 3; turn++) {
    if (turn == 1) {
      expect_ok(iobind_stream_synchronize(stream, &fault));
      assert_int_equal(vcuda_reset(0), 0);
    }
    assert_int_equal(cudaMemcpyAsync(memory, pinned, sizeof threes, UP, handle), CUDA_OK);
    expect_ok(iobind_binding_run(binding, stream, NULL, &fault));
    assert_int_equal(cudaMemcpyAsync(pinned + COUNT, iobind_tensor_address(y), sizeof threes, DOWN, handle), CUDA_OK);
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

static void captures_are_refused(void **state) {
  (void)state;
  cuda_stream theirs;
  void *graph = NULL;
  iobind_stream *stream;
  iobind_stream *other;
  const int64_t dims[1] = {COUNT};
  iobind_tensor *x;
  assert_int_equal(cudaStreamCreateWithFlags(&theirs, NON_BLOCKING), CUDA_OK);
  expect_ok(wrap(theirs, &stream));
  expect_ok(iobind_tensor_wrap(device, IOBIND_MEMORY_DEFAULT, IOBIND_FLOAT32, dims, 1, memory, sizeof threes, NULL, NULL, &x,
                               &fault));
  assert_int_equal(cudaStreamBeginCapture(theirs, GLOBAL), CUDA_OK);
  assert_int_equal(wrap(theirs, &other), IOBIND_INVALID_STATE);
  expect_words("captured");
  expect(IOBIND_INVALID_STATE, iobind_tensor_write(x, 0, threes, sizeof threes, stream, &fault));
  assert_int_equal(cudaStreamEndCapture(theirs, (void *)&graph), CUDA_OK);
  expect_ok(iobind_tensor_write(x, 0, threes, sizeof threes, stream, &fault));
  expect_ok(iobind_stream_synchronize(stream, &fault));
  iobind_stream_destroy(stream);
  iobind_tensor_release(x);
  assert_int_equal(cudaStreamDestroy(theirs), CUDA_OK);
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
  expect_ok(iobind_tensor_wrap(device, IOBIND_MEMORY_DEFAULT, IOBIND_FLOAT32, dims, 1, memory, sizeof threes, NULL, NULL, &x,
                               &fault));
  expect_ok(iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_FLOAT32, dims, 1, &y, &fault));
  const iobind_tensor *from = x;
  assert_int_equal(cudaMemcpyAsync(memory, pinned, sizeof threes, UP, theirs), CUDA_OK);
  assert_int_equal(cudaEventRecord(event, theirs), CUDA_OK);
  expect_ok(iobind_stream_wait_native(stream, &native, &fault));
  expect_ok(iobind_tensor_copy(&from, &y, 1, stream, &fault));
  expect_ok(iobind_stream_signal_native(stream, &native, &fault));
  assert_int_equal(cudaStreamWaitEvent(theirs, event, 0), CUDA_OK);
  assert_int_equal(cudaMemcpyAsync(pinned + COUNT, iobind_tensor_address(y), sizeof threes, DOWN, theirs), CUDA_OK);
  assert_int_equal(cudaStreamSynchronize(theirs), CUDA_OK);
  assert_memory_equal(pinned + COUNT, threes, sizeof threes);
  expect_ok(iobind_stream_synchronize(stream, &fault));
  iobind_stream_destroy(stream);
  iobind_tensor_release(x);
  iobind_tensor_release(y);
  assert_int_equal(cudaEventDestroy(event), CUDA_OK);
  assert_int_equal(cudaStreamDestroy(theirs), CUDA_OK);
}

static void streams_of_elsewhere_are_refused(void **state) {
  (void)state;
  enum { PER_THREAD = 2 };
  iobind_stream *stream;
  cuda_stream theirs;
  assert_int_equal(wrap((void *)PER_THREAD, &stream), IOBIND_NOT_SUPPORTED);
  expect_words("PerThread");
  assert_int_equal(cudaSetDevice(1), CUDA_OK);
  assert_int_equal(cudaStreamCreateWithFlags(&theirs, NON_BLOCKING), CUDA_OK);
  assert_int_equal(cudaSetDevice(0), CUDA_OK);
  assert_int_equal(wrap(theirs, &stream), IOBIND_DEVICE);
  assert_int_equal(cudaStreamDestroy(theirs), CUDA_OK);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(of_a_stream, start, stop),
    cmocka_unit_test_setup_teardown(of_the_legacy_stream, start, stop),
    cmocka_unit_test_setup_teardown(captures_are_refused, start, stop),
    cmocka_unit_test_setup_teardown(events_go_both_ways, start, stop),
    cmocka_unit_test_setup_teardown(streams_of_elsewhere_are_refused, start, stop),
};

FIXTURE_MAIN(tests, NULL, NULL);
