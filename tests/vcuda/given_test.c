/* CUDA addresses, handles and options that a program gives. Invalid ones are refused by the call that takes them. Options without an
 * effect change nothing. Two GPUs. */
#define _POSIX_C_SOURCE 200809L /* nanosleep */
#include "replay.h"
#include "../rig/calls.h"

#include <stdlib.h>

enum { RUNS = 10, BYTES = COUNT * sizeof(float) };
static const int64_t dim = COUNT;
static fixture_deleted deleted;

static void refused(iobind_status status, const char *what) {
  if (status != IOBIND_ERROR_INVALID_ARGUMENT && status != IOBIND_ERROR_WRONG_DEVICE && status != IOBIND_ERROR_NOT_SUPPORTED) {
    fail_msg("%s: expected it to be refused, got %s: %s", what, iobind_status_get_name((int32_t)status),
             status == IOBIND_OK ? "" : fault.message);
  }
}

/* ---- addresses ---- */

static iobind_status wrap(iobind_memory memory, void *data, iobind_tensor **tensor) {
  deleted = (fixture_deleted){0};
  fixture_arm();
  return call_tensor_wrap(device, memory, IOBIND_DTYPE_FLOAT32, &dim, 1, data, BYTES, fixture_deleter, &deleted, tensor,
                          &fault);
}

static void wrap_refused(iobind_memory memory, void *data, const char *what) {
  iobind_tensor *tensor = NULL;
  iobind_status status = wrap(memory, data, &tensor);
  iobind_tensor_release(tensor);
  refused(status, what);
  assert_null(tensor);
  assert_int_equal(deleted.count, 0);
}

static void memory_of_malloc(void **state) {
  (void)state;
  void *memory = calloc(1, BYTES);
  wrap_refused(IOBIND_MEMORY_DEFAULT, memory, "memory of malloc as device memory");
  free(memory);
}

static void memory_of_malloc_as_pinned(void **state) {
  (void)state;
  void *memory = calloc(1, BYTES);
  wrap_refused(IOBIND_MEMORY_HOST_ACCESSIBLE, memory, "memory of malloc as pinned memory");
  free(memory);
}

static void freed_memory(void **state) {
  (void)state;
  void *memory = NULL;
  assert_int_equal(cudaMalloc(&memory, BYTES), CUDA_OK);
  assert_int_equal(cudaFree(memory), CUDA_OK);
  wrap_refused(IOBIND_MEMORY_DEFAULT, memory, "freed memory");
}

static void memory_of_another_gpu(void **state) {
  (void)state;
  void *memory = NULL;
  assert_int_equal(cudaSetDevice(1), CUDA_OK);
  assert_int_equal(cudaMalloc(&memory, BYTES), CUDA_OK);
  assert_int_equal(cudaSetDevice(0), CUDA_OK);
  wrap_refused(IOBIND_MEMORY_DEFAULT, memory, "memory of another GPU");
  assert_int_equal(cudaFree(memory), CUDA_OK);
}

static void device_memory_as_pinned(void **state) {
  (void)state;
  void *memory = NULL;
  assert_int_equal(cudaMalloc(&memory, BYTES), CUDA_OK);
  wrap_refused(IOBIND_MEMORY_HOST_ACCESSIBLE, memory, "device memory as pinned memory");
  assert_int_equal(cudaFree(memory), CUDA_OK);
}

/* Device memory and pinned memory from their middle on, and registered host memory. */
static void memory_that_fits(void **state) {
  (void)state;
  iobind_tensor *tensor = NULL;
  char *memory = NULL;
  char *pinned = NULL;
  void *registered = calloc(1, BYTES);
  assert_int_equal(cudaMalloc((void **)&memory, (size_t)2 * BYTES), CUDA_OK);
  assert_int_equal(cudaMallocHost((void **)&pinned, (size_t)2 * BYTES), CUDA_OK);
  assert_int_equal(cudaHostRegister(registered, BYTES, 0), CUDA_OK);
  expect_ok(wrap(IOBIND_MEMORY_DEFAULT, memory + BYTES, &tensor));
  iobind_tensor_release(tensor);
  assert_int_equal(deleted.count, 1);
  expect_ok(wrap(IOBIND_MEMORY_HOST_ACCESSIBLE, pinned + BYTES, &tensor));
  iobind_tensor_release(tensor);
  expect_ok(wrap(IOBIND_MEMORY_HOST_ACCESSIBLE, registered, &tensor));
  iobind_tensor_release(tensor);
  assert_int_equal(cudaHostUnregister(registered), CUDA_OK);
  assert_int_equal(cudaFree(memory), CUDA_OK);
  assert_int_equal(cudaFreeHost(pinned), CUDA_OK);
  free(registered);
}

/* ---- handles and options ---- */

static iobind_status open_with(const char *const *keys, const char *const *option_values, size_t count,
                               iobind_session **session) {
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  options.devices = &device;
  options.device_count = 1;
  options.ep_keys = keys;
  options.ep_values = option_values;
  options.ep_option_count = count;
  fixture_arm();
  return test_session_with(runtime, "scale", &options, session, &fault);
}

static iobind_status open_on_handle(void *handle, iobind_session **session) {
  static const char *const key = "user_compute_stream";
  char address[32];
  const char *value = address;
  snprintf(address, sizeof address, "%p", handle);
  return open_with(&key, &value, 1, session);
}

static void a_compute_stream_of_another_gpu(void **state) {
  (void)state;
  cuda_stream theirs;
  iobind_session *session = NULL;
  assert_int_equal(cudaSetDevice(1), CUDA_OK);
  assert_int_equal(cudaStreamCreateWithFlags(&theirs, NON_BLOCKING), CUDA_OK);
  assert_int_equal(cudaSetDevice(0), CUDA_OK);
  iobind_status status = open_on_handle(theirs, &session);
  iobind_session_destroy(session);
  refused(status, "user_compute_stream of another GPU");
  assert_int_equal(cudaStreamDestroy(theirs), CUDA_OK);
}

static void a_compute_stream_that_is_gone(void **state) {
  (void)state;
  cuda_stream theirs;
  iobind_session *session = NULL;
  assert_int_equal(cudaStreamCreateWithFlags(&theirs, NON_BLOCKING), CUDA_OK);
  assert_int_equal(cudaStreamDestroy(theirs), CUDA_OK);
  iobind_status status = open_on_handle(theirs, &session);
  iobind_session_destroy(session);
  refused(status, "user_compute_stream that was destroyed");
}

/* ---- options and runs on a stream ---- */

/* Repeated upload, run and download: the host blocks for none of them. */
static void runs_without_a_wait(iobind_session *session) {
  iobind_stream *stream = make_stream();
  doubler d = make_doubler(session);
  items in = make_items(RUNS);
  items out = make_items(RUNS);
  expect_ok(iobind_binding_run(d.binding, stream, &fault));
  expect_ok(iobind_stream_synchronize(stream, &fault));
  assert_int_equal(vcuda_reset(0), 0);
  for (size_t i = 0; i < RUNS; i++) {
    put_item(&in, i, (float)i);
    copy_on(stream, in.slices[i], d.x);
    expect_ok(iobind_binding_run(d.binding, stream, &fault));
    copy_on(stream, d.y, out.slices[i]);
  }
  int64_t waits = vcuda_get(0, "syncs");
  expect_ok(iobind_stream_synchronize(stream, &fault));
  for (size_t i = 0; i < RUNS; i++) {
    expect_all(&out.data[i * COUNT], 2 * (float)i);
  }
  if (waits != 0) {
    fail_msg("expected no wait of the host in %d runs, got %d", RUNS, (int)waits);
  }
  free_items(&in);
  free_items(&out);
  free_doubler(&d);
  iobind_stream_destroy(stream);
  iobind_session_destroy(session);
}

static void runs_with(const char *key, const char *value) {
  iobind_session *session = NULL;
  fixture_expect(IOBIND_OK, open_with(&key, &value, 1, &session), key, __FILE__, __LINE__);
  runs_without_a_wait(session);
}

static void without_options(void **state) {
  (void)state;
  iobind_session *session = NULL;
  expect_ok(open_with(NULL, NULL, 0, &session));
  runs_without_a_wait(session);
}

/* Most samples set the default explicitly. */
static void copies_in_the_default_stream(void **state) {
  (void)state;
  static const char *const yes[] = {"1", "true", "True"};
  for (size_t i = 0; i < sizeof yes / sizeof yes[0]; i++) {
    runs_with("do_copy_in_default_stream", yes[i]);
  }
  runs_with("cuda.do_copy_in_default_stream", "1");
}

static void no_compute_stream(void **state) {
  (void)state;
  runs_with("has_user_compute_stream", "0");
}

/* It has the same effect as `stream` in the session's options with the same handle. */
static void a_compute_stream_by_its_handle(void **state) {
  (void)state;
  cuda_stream theirs;
  iobind_session *session = NULL;
  assert_int_equal(cudaStreamCreateWithFlags(&theirs, NON_BLOCKING), CUDA_OK);
  fixture_expect(IOBIND_OK, open_on_handle(theirs, &session), "user_compute_stream", __FILE__, __LINE__);
  runs_without_a_wait(session);
  assert_int_equal(cudaStreamDestroy(theirs), CUDA_OK);
}

/* A run without a stream is ordered after the work that the other library has submitted to that stream. */
static void a_compute_stream_orders_runs(void **state) {
  (void)state;
  enum { TURNS = 8 };
  cuda_stream theirs;
  iobind_session *session = NULL;
  items in = make_items(TURNS);
  assert_int_equal(cudaStreamCreateWithFlags(&theirs, NON_BLOCKING), CUDA_OK);
  fixture_expect(IOBIND_OK, open_on_handle(theirs, &session), "user_compute_stream", __FILE__, __LINE__);
  doubler d = make_captured(session);
  delay("every:1,us:3000", "0");
  for (size_t i = 0; i < TURNS; i++) {
    put_item(&in, i, (float)i);
    assert_int_equal(cudaMemcpyAsync(iobind_tensor_get_address(d.x), &in.data[i * COUNT], BYTES, UP, theirs), CUDA_OK);
    expect_ok(iobind_binding_run(d.binding, NULL, &fault));
    expect_tensor(d.y, 2 * (float)i);
  }
  delay("0", "0");
  free_doubler(&d);
  free_items(&in);
  iobind_session_destroy(session);
  assert_int_equal(cudaStreamDestroy(theirs), CUDA_OK);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(memory_of_malloc),
    cmocka_unit_test(memory_of_malloc_as_pinned),
    cmocka_unit_test(freed_memory),
    cmocka_unit_test(memory_of_another_gpu),
    cmocka_unit_test(device_memory_as_pinned),
    cmocka_unit_test(memory_that_fits),
    cmocka_unit_test(a_compute_stream_of_another_gpu),
    cmocka_unit_test(a_compute_stream_that_is_gone),
    cmocka_unit_test(without_options),
    cmocka_unit_test(copies_in_the_default_stream),
    cmocka_unit_test(no_compute_stream),
    cmocka_unit_test(a_compute_stream_by_its_handle),
    cmocka_unit_test(a_compute_stream_orders_runs),
};

FIXTURE_MAIN(tests, start, stop);
