/* Tensors of CUDA's devices from a pool: creating and releasing them waits for no work, and work in flight keeps the memory that it
 * uses. Run with race=fail, on two GPUs. */
#define _POSIX_C_SOURCE 200809L /* setenv, nanosleep, fork */
#include "replay.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TIMES = 10, BYTES = COUNT * sizeof(float), MANY = 1000 * COUNT, MANY_BYTES = 1000 * BYTES };

static int start_pooled(void **state) {
  setenv("TEST_POOLS", "1", 1);
  int failed = start(state);
  if (failed == 0) {
    (void)vcuda_reset(0);
  }
  return failed;
}

static int stop_pooled(void **state) {
  int now = -1;
  assert_int_equal(cudaGetDevice(&now), CUDA_OK);
  assert_int_equal(now, 0);
  unsetenv("TEST_POOLS");
  assert_int_equal(vcuda_get(1, "races"), 0);
  return stop(state);
}

/* With cudaFree each release would wait for the gate. */
static void no_wait_for_work(void **state) {
  (void)state;
  gate g;
  iobind_stream *stream = make_stream();
  close_gate(&g, stream);
  for (int i = 0; i < TIMES; i++) {
    iobind_tensor_release(make_tensor(IOBIND_MEMORY_DEFAULT, COUNT));
  }
  assert_int_equal(vcuda_get(0, "sync_free") + vcuda_get(0, "sync_device"), 0);
  assert_true(vcuda_get(0, "allocations") >= TIMES);
  open_gate(&g);
  iobind_stream_destroy(stream);
}

/* A tensor is released while a copy reads it. A tensor created then must have other memory. */
static void released_in_flight(void **state) {
  (void)state;
  gate g;
  iobind_stream *stream = make_stream();
  iobind_tensor *from = make_tensor(IOBIND_MEMORY_DEFAULT, COUNT);
  iobind_tensor *to = make_tensor(IOBIND_MEMORY_HOST_ACCESSIBLE, COUNT);
  const iobind_tensor *sources[1] = {from};
  iobind_tensor *targets[1] = {to};
  fill(from, 1);
  close_gate(&g, stream);
  expect_ok(iobind_tensor_copy(sources, targets, 1, stream, &fault));
  iobind_tensor_release(from);
  iobind_tensor *other = make_tensor(IOBIND_MEMORY_DEFAULT, COUNT);
  fill(other, 5);
  open_gate(&g);
  expect_ok(iobind_stream_synchronize(stream, &fault));
  expect_tensor(to, 1);
  expect_tensor(other, 5);
  iobind_tensor_release(other);
  iobind_tensor_release(to);
  iobind_stream_destroy(stream);
}

/* Memory that one stream has used is reused on another stream. Only the pool orders the two. */
static void reused_by_other_streams(void **state) {
  (void)state;
  iobind_session *session = make_session("scale", 0, NULL);
  for (int i = 0; i < TIMES; i++) {
    iobind_stream *stream = make_stream();
    doubler d = make_doubler(session);
    expect_ok(iobind_binding_run(d.binding, stream, &fault));
    iobind_tensor *y = iobind_tensor_retain(d.y);
    free_doubler(&d);
    expect_ok(iobind_stream_synchronize(stream, &fault));
    expect_tensor(y, 2);
    iobind_tensor_release(y);
    iobind_stream_destroy(stream);
  }
  iobind_session_destroy(session);
}

/* iobind does not know how another library uses exported memory, so its release waits for the device. */
static void exported(void **state) {
  (void)state;
  cuda_stream theirs;
  iobind_tensor *tensor = make_tensor(IOBIND_MEMORY_DEFAULT, COUNT);
  assert_int_equal(cudaStreamCreateWithFlags(&theirs, NON_BLOCKING), CUDA_OK);
  assert_int_equal(cudaMemsetAsync(iobind_tensor_get_address(tensor), 1, BYTES, theirs), CUDA_OK);
  iobind_tensor_release(tensor);
  assert_int_equal(vcuda_get(0, "sync_device"), 1);
  iobind_tensor *next = make_tensor(IOBIND_MEMORY_DEFAULT, COUNT);
  fill(next, 3);
  expect_tensor(next, 3);
  assert_int_equal(cudaStreamSynchronize(theirs), CUDA_OK);
  iobind_tensor_release(next);
  assert_int_equal(cudaStreamDestroy(theirs), CUDA_OK);
}

static void exported_by_dlpack(void **state) {
  (void)state;
  void *managed = NULL;
  iobind_tensor *back = NULL;
  iobind_tensor *tensor = make_tensor(IOBIND_MEMORY_DEFAULT, COUNT);
  expect_ok(iobind_tensor_to_dlpack(tensor, 0, &managed, &fault));
  expect_ok(iobind_tensor_from_dlpack(runtime, managed, 0, &back, &fault));
  iobind_tensor_release(tensor);
  assert_int_equal(vcuda_get(0, "sync_device"), 0);
  iobind_tensor_release(back);
  assert_int_equal(vcuda_get(0, "sync_device"), 1);
}

/* Each GPU has its own pool, and the caller's current device is unchanged. */
static void on_two_gpus(void **state) {
  (void)state;
  iobind_device *devices[2];
  iobind_tensor *tensors[2];
  const int64_t dim = COUNT;
  for (int gpu = 0; gpu < 2; gpu++) {
    cuda_pointer found;
    int now = -1;
    expect_ok(iobind_runtime_find_device(runtime, gpu == 0 ? "cuda:0" : "cuda:1", &devices[gpu], NULL, &fault));
    assert_int_equal(cudaSetDevice(1 - gpu), CUDA_OK);
    expect_ok(iobind_tensor_create(devices[gpu], IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, &dim, 1, &tensors[gpu], &fault));
    fill(tensors[gpu], (float)(gpu + 1));
    assert_int_equal(cudaPointerGetAttributes(&found, iobind_tensor_get_address(tensors[gpu])), CUDA_OK);
    assert_int_equal(found.device, gpu);
    assert_int_equal(cudaGetDevice(&now), CUDA_OK);
    assert_int_equal(now, 1 - gpu);
  }
  const iobind_tensor *sources[1] = {tensors[0]};
  expect_ok(iobind_tensor_copy(sources, &tensors[1], 1, NULL, &fault));
  expect_tensor(tensors[1], 1);
  iobind_tensor_release(tensors[0]);
  iobind_tensor_release(tensors[1]);
  assert_int_equal(cudaSetDevice(0), CUDA_OK);
}

static iobind_status try_tensor(iobind_tensor **tensor) {
  const int64_t dim = COUNT;
  fixture_arm();
  return iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, &dim, 1, tensor, &fault);
}

/* A wrapped stream is released with work in flight, and its owner destroys it, while a tensor still refers to it. */
static void used_by_a_stream_that_is_destroyed(void **state) {
  (void)state;
  cuda_stream theirs;
  iobind_stream *stream = NULL;
  iobind_native native = IOBIND_NATIVE_INIT;
  iobind_tensor *from = make_tensor(IOBIND_MEMORY_DEFAULT, COUNT);
  iobind_tensor *to = make_tensor(IOBIND_MEMORY_DEFAULT, COUNT);
  const iobind_tensor *sources[1] = {from};
  iobind_tensor *targets[1] = {to};
  assert_int_equal(cudaStreamCreateWithFlags(&theirs, NON_BLOCKING), CUDA_OK);
  native.kind = IOBIND_NATIVE_CUDA;
  native.handle = theirs;
  expect_ok(iobind_stream_wrap(device, &native, NULL, NULL, &stream, &fault));
  fill(from, 1);
  delay("every:1,us:3000", "0");
  expect_ok(iobind_tensor_copy(sources, targets, 1, stream, &fault));
  iobind_stream_destroy(stream);
  assert_int_equal(cudaStreamDestroy(theirs), CUDA_OK);
  iobind_tensor_release(from);
  iobind_tensor *other = make_tensor(IOBIND_MEMORY_DEFAULT, COUNT);
  fill(other, 5);
  delay("0", "0");
  expect_tensor(to, 1);
  expect_tensor(other, 5);
  iobind_tensor_release(other);
  iobind_tensor_release(to);
}

/* Three streams read a tensor that is released: one more than a tensor records. */
static void read_by_three_streams(void **state) {
  (void)state;
  enum { STREAMS = 3 };
  iobind_stream *streams[STREAMS];
  iobind_tensor *to[STREAMS];
  iobind_tensor *from = make_tensor(IOBIND_MEMORY_DEFAULT, COUNT);
  fill(from, 7);
  delay("every:1,us:3000", "0");
  for (int i = 0; i < STREAMS; i++) {
    const iobind_tensor *source = from;
    streams[i] = make_stream();
    to[i] = make_tensor(IOBIND_MEMORY_HOST_ACCESSIBLE, COUNT);
    expect_ok(iobind_tensor_copy(&source, &to[i], 1, streams[i], &fault));
  }
  iobind_tensor_release(from);
  iobind_tensor *other = make_tensor(IOBIND_MEMORY_DEFAULT, COUNT);
  fill(other, 5);
  for (int i = 0; i < STREAMS; i++) {
    expect_ok(iobind_stream_synchronize(streams[i], &fault));
    expect_tensor(to[i], 7);
    iobind_tensor_release(to[i]);
    iobind_stream_destroy(streams[i]);
  }
  delay("0", "0");
  iobind_tensor_release(other);
}

/* Another stream reads an output of a binding. The binding and all that it held are destroyed before this read runs. */
static void lent(void **state) {
  (void)state;
  gate g;
  iobind_session *session = make_session("scale", 0, NULL);
  iobind_stream *stream = make_stream();
  iobind_stream *reader = make_stream();
  iobind_tensor *to = make_tensor(IOBIND_MEMORY_DEFAULT, COUNT);
  iobind_tensor *y = NULL;
  doubler d = make_doubler(session);
  close_gate(&g, reader);
  expect_ok(iobind_binding_run(d.binding, stream, &fault));
  expect_ok(iobind_binding_get_output(d.binding, 0, reader, &y, &fault));
  copy_on(reader, y, to);
  free_doubler(&d);
  iobind_tensor *other = make_tensor(IOBIND_MEMORY_DEFAULT, COUNT);
  fill(other, 5);
  open_gate(&g);
  expect_tensor(to, 2);
  iobind_tensor_release(other);
  iobind_tensor_release(to);
  iobind_stream_destroy(reader);
  iobind_stream_destroy(stream);
  iobind_session_destroy(session);
}

/* A verified run on a stream: the run on the CPU reads copies of the inputs, which are released after it. */
static void verified(void **state) {
  (void)state;
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  iobind_session *session = NULL;
  iobind_stream *stream = make_stream();
  options.devices = &device;
  options.device_count = 1;
  options.verify.runs = TIMES;
  expect_ok(test_session_with(runtime, "scale", &options, &session, &fault));
  for (int i = 0; i < TIMES; i++) {
    doubler d = make_doubler(session);
    expect_ok(iobind_binding_run(d.binding, stream, &fault));
    expect_ok(iobind_stream_synchronize(stream, &fault));
    expect_tensor(d.y, 2);
    free_doubler(&d);
  }
  iobind_stream_destroy(stream);
  iobind_session_destroy(session);
}

/* A session's arena and the pool have separate memory. CUDA shares no memory of a pool with other processes. */
static void beside_an_arena(void **state) {
  (void)state;
  static const int64_t dim = COUNT;
  cuda_ipc_handle handle;
  iobind_session *session = make_session("scale", 0, NULL);
  iobind_tensor *of_arena = NULL;
  iobind_tensor *of_pool = make_tensor(IOBIND_MEMORY_DEFAULT, COUNT);
  expect_ok(
      iobind_session_create_tensor(session, device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, &dim, 1, &of_arena, &fault));
  fill(of_arena, 1);
  fill(of_pool, 2);
  assert_int_not_equal(cudaIpcGetMemHandle(&handle, iobind_tensor_get_address(of_pool)), CUDA_OK);
  (void)cudaGetLastError();
  iobind_tensor_release(of_pool);
  expect_ok(iobind_device_trim(device, &fault));
  expect_tensor(of_arena, 1);
  iobind_tensor_release(of_arena);
  iobind_session_destroy(session);
}

static int64_t get_available(void) {
  size_t available = 0;
  size_t total = 0;
  assert_int_equal(cudaMemGetInfo(&available, &total), CUDA_OK);
  return (int64_t)available;
}

/* Memory of no tensor is returned to the device; memory used by work in flight is kept. */
static void trimmed(void **state) {
  (void)state;
  gate g;
  iobind_stream *stream = make_stream();
  iobind_tensor *kept = make_tensor(IOBIND_MEMORY_DEFAULT, COUNT);
  iobind_tensor *read = make_tensor(IOBIND_MEMORY_DEFAULT, COUNT);
  iobind_tensor *to = make_tensor(IOBIND_MEMORY_HOST_ACCESSIBLE, COUNT);
  const int64_t before = get_available();
  iobind_tensor *large = make_tensor(IOBIND_MEMORY_DEFAULT, MANY);
  fill(kept, 1);
  fill(read, 2);
  close_gate(&g, stream);
  copy_on(stream, read, to);
  iobind_tensor_release(read);
  iobind_tensor_release(large);
  assert_int_equal(get_available(), before - MANY_BYTES);
  expect_ok(iobind_device_trim(device, &fault));
  assert_int_equal(get_available(), before);
  assert_int_equal(vcuda_get(0, "pool_bytes"), 0);
  open_gate(&g);
  expect_ok(iobind_stream_synchronize(stream, &fault));
  expect_tensor(to, 2);
  expect_tensor(kept, 1);
  iobind_tensor_release(kept);
  iobind_tensor_release(to);
  iobind_stream_destroy(stream);
  expect_ok(iobind_device_trim(device, &fault));
  assert_int_equal(vcuda_get(0, "pool_bytes"), 0);
  expect_ok(iobind_device_trim(host, &fault)); /* a no-op on the host */
}

/* Each driver call fails once. The failure is returned, the caller's device is unchanged, and the next call works. A release cannot
 * return a failure: the pool loses that memory. */
static void calls_that_fail(void **state) {
  (void)state;
  static const struct {
    const char *call;
    bool is_first; /* only the first tensor of a device makes this call */
    iobind_status created, trimmed;
  } rows[] = {
      {"cuCtxGetDevice", true, IOBIND_ERROR_NOT_SUPPORTED, IOBIND_OK},
      {"cuStreamCreate", true, IOBIND_ERROR_NOT_SUPPORTED, IOBIND_OK},
      {"cuMemPoolCreate", true, IOBIND_ERROR_NOT_SUPPORTED, IOBIND_OK},
      {"cuMemPoolSetAttribute", true, IOBIND_ERROR_NOT_SUPPORTED, IOBIND_OK},
      {"cuMemAllocFromPoolAsync", false, IOBIND_ERROR_OUT_OF_MEMORY, IOBIND_OK},
      {"cuStreamSynchronize", false, IOBIND_ERROR_OUT_OF_MEMORY, IOBIND_ERROR_RUNTIME},
      {"cuMemPoolTrimTo", false, IOBIND_OK, IOBIND_ERROR_RUNTIME},
      {"cuMemFreeAsync", false, IOBIND_OK, IOBIND_OK},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    iobind_tensor *tensor = NULL;
    char value[64];
    int now = -1;
    snprintf(value, sizeof value, "1,name:%s", rows[i].call);
    assert_int_equal(vcuda_set(0, "fail_call", value), 0);
    fixture_expect(rows[i].created, try_tensor(&tensor), rows[i].call, __FILE__, __LINE__);
    assert_int_equal(tensor == NULL, rows[i].created != IOBIND_OK);
    iobind_tensor_release(tensor);
    assert_int_equal(vcuda_set(0, "fail_call", rows[i].trimmed == IOBIND_OK ? "0" : value), 0);
    expect(rows[i].trimmed, iobind_device_trim(device, &fault));
    assert_int_equal(vcuda_set(0, "fail_call", "0"), 0);
    assert_int_equal(cudaGetDevice(&now), CUDA_OK);
    assert_int_equal(now, 0);
    if (!rows[i].is_first) {
      fixture_expect(IOBIND_OK, try_tensor(&tensor), rows[i].call, __FILE__, __LINE__);
      fill(tensor, 4);
      expect_tensor(tensor, 4);
      iobind_tensor_release(tensor);
    }
    expect_ok(iobind_device_trim(device, &fault));
  }
}

/* A lost device returns no memory, and all objects can be destroyed. */
static void on_a_device_that_is_lost(void **state) {
  (void)state;
  iobind_tensor *released = make_tensor(IOBIND_MEMORY_DEFAULT, COUNT);
  iobind_tensor *kept = make_tensor(IOBIND_MEMORY_DEFAULT, COUNT);
  iobind_tensor *made = NULL;
  float read[COUNT];
  iobind_tensor_release(released);
  assert_int_equal(vcuda_set(0, "fail_copy", "1,late"), 0);
  expect(IOBIND_ERROR_DEVICE_LOST, iobind_tensor_read(kept, 0, read, sizeof read, NULL, &fault));
  expect(IOBIND_ERROR_DEVICE_LOST, iobind_device_trim(device, &fault));
  expect(IOBIND_ERROR_DEVICE_LOST, try_tensor(&made));
  iobind_tensor_release(kept);
  (void)vcuda_recover(0);
  (void)cudaGetLastError();
}

/* The creation of a tensor fails with this status, leaks no memory, and works the next time. */
static void expect_failure(const char *setting, const char *value, iobind_status status, const char *words) {
  iobind_tensor *tensor = NULL;
  assert_int_equal(cudaDeviceSynchronize(), CUDA_OK); /* completes earlier frees */
  const int64_t live = vcuda_get(0, "live_bytes");
  assert_int_equal(vcuda_set(0, setting, value), 0);
  fixture_expect(status, try_tensor(&tensor), setting, __FILE__, __LINE__);
  expect_words(words);
  assert_null(tensor);
  assert_int_equal(vcuda_set(0, setting, "0"), 0);
  assert_int_equal(cudaDeviceSynchronize(), CUDA_OK);
  assert_int_equal(vcuda_get(0, "live_bytes"), live);
  fixture_expect(IOBIND_OK, try_tensor(&tensor), "again", __FILE__, __LINE__);
  iobind_tensor_release(tensor);
}

static void failures(void **state) {
  (void)state;
  expect_failure("fail_stream", "1", IOBIND_ERROR_NOT_SUPPORTED, "the device gives no memory pool");
  expect_failure("fail_alloc", "1", IOBIND_ERROR_OUT_OF_MEMORY, "out of device memory");
  expect_failure("fail_stream", "1,name:cudaStreamSynchronize", IOBIND_ERROR_OUT_OF_MEMORY, "out of device memory");
}

static bool is_refused(iobind_status status) {
  return status == IOBIND_ERROR_INVALID_STATE && strstr(fault.message, "forked") != NULL;
}

/* A child of fork returns no memory to its parent's pool, does not wait for the parent's work, and gets errors at once. */
static void child_of_fork(void **state) {
  (void)state;
  enum { PATIENCE = 60 };
  gate g;
  int status = -1;
  iobind_stream *stream = make_stream();
  iobind_tensor *from = make_tensor(IOBIND_MEMORY_DEFAULT, COUNT);
  iobind_tensor *released = make_tensor(IOBIND_MEMORY_DEFAULT, COUNT);
  iobind_tensor *to = make_tensor(IOBIND_MEMORY_HOST_ACCESSIBLE, COUNT);
  fill(from, 1);
  iobind_tensor_release(released);
  close_gate(&g, stream);
  copy_on(stream, from, to);
  pid_t child = fork();
  if (child == 0) {
    iobind_tensor *made = NULL;
    alarm(PATIENCE);
    bool is_right = is_refused(try_tensor(&made)) && made == NULL && is_refused(iobind_device_trim(device, &fault));
    iobind_tensor_release(from);
    iobind_tensor_release(to);
    iobind_stream_destroy(stream);
    iobind_runtime_destroy(runtime);
    _exit(is_right ? 0 : 1);
  }
  assert_true(child > 0);
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  iobind_tensor *other = make_tensor(IOBIND_MEMORY_DEFAULT, COUNT);
  fill(other, 5);
  open_gate(&g);
  expect_ok(iobind_stream_synchronize(stream, &fault));
  expect_tensor(to, 1);
  expect_tensor(from, 1);
  expect_tensor(other, 5);
  expect_ok(iobind_device_trim(device, &fault));
  iobind_tensor_release(other);
  iobind_tensor_release(from);
  iobind_tensor_release(to);
  iobind_stream_destroy(stream);
}

/* The first runtime of an ORT determines whether memory comes from pools. */
static void asked_too_late(void **state) {
  (void)state;
  iobind_runtime_options options = IOBIND_RUNTIME_OPTIONS_INIT;
  iobind_runtime *second = NULL;
  options.flags = IOBIND_RUNTIME_POOLS;
  expect(IOBIND_ERROR_INVALID_STATE, iobind_runtime_create(&options, &second, &fault));
  expect_words("in use without IOBIND_RUNTIME_POOLS");
  assert_null(second);
}

#define POOLED(name) cmocka_unit_test_setup_teardown(name, start_pooled, stop_pooled)
static const struct CMUnitTest tests[] = {
    POOLED(no_wait_for_work),
    POOLED(released_in_flight),
    POOLED(reused_by_other_streams),
    POOLED(exported),
    POOLED(exported_by_dlpack),
    POOLED(on_two_gpus),
    POOLED(used_by_a_stream_that_is_destroyed),
    POOLED(read_by_three_streams),
    POOLED(lent),
    POOLED(verified),
    POOLED(beside_an_arena),
    POOLED(trimmed),
    POOLED(failures),
    POOLED(calls_that_fail),
    POOLED(on_a_device_that_is_lost),
    POOLED(child_of_fork),
    cmocka_unit_test_setup_teardown(asked_too_late, start, stop),
};

FIXTURE_MAIN(tests, NULL, NULL);
