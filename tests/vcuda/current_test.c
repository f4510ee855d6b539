/* Devices, streams, events and tensors of one GPU while the other one is current. */
#include "current.h"
#include "../rig/calls.h"

enum { LARGE = 1 << 16 };

/* ---- devices ---- */

static void runtime_find_device(int own) {
  iobind_device *found = NULL;
  ELSEWHERE(own, iobind_runtime_find_device(runtime, own == 0 ? "cuda:0" : "cuda:1", &found, NULL, &fault));
  assert_ptr_equal(found, get_gpu(own));
}

static void device_check(int own) {
  ELSEWHERE(own, iobind_device_check(get_gpu(own), &fault));
}

/* With TEST_POOLS the driver has memory to return. */
static void device_trim(int own) {
  iobind_tensor *tensor = NULL;
  expect_ok(iobind_tensor_create(get_gpu(own), IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, square, 2, &tensor, &fault));
  iobind_tensor_release(tensor);
  make_current(own);
  ELSEWHERE(own, iobind_device_trim(get_gpu(own), &fault));
  assert_int_equal(vcuda_get(own, "pool_bytes"), 0);
}

/* The EP releases its memory with the last reference. */
static void runtime_destroy(int own) {
  if (own == 0) {
    return; /* a process has only one runtime */
  }
  world w = make_world(own);
  expect_ok(iobind_binding_run(w.binding, NULL, &fault));
  end_world(&w);
  ELSEWHERE_VOID(own, iobind_runtime_destroy(runtime));
  runtime = NULL;
  assert_int_equal(vcuda_get(own, "live_blocks"), 0);
  assert_int_equal(vcuda_get(1 - own, "live_blocks"), 0);
}

/* ---- streams and events ---- */

static void stream_create(int own) {
  world w = make_world(own);
  iobind_stream *made = NULL;
  int device = -1;
  ELSEWHERE(own, iobind_stream_create(w.device, NULL, &made, &fault));
  assert_int_equal(cudaStreamGetDevice(call_stream_get_native(made), &device), CUDA_OK);
  assert_int_equal(device, own);
  iobind_stream_destroy(made);
  end_world(&w);
}

static void stream_destroy(int own) {
  world w = make_world(own);
  int64_t before = vcuda_get(own, "live_streams");
  submit(&w);
  ELSEWHERE_VOID(own, iobind_stream_destroy(w.stream));
  w.stream = NULL;
  assert_true(vcuda_get(own, "live_streams") < before);
  end_world(&w);
}

static void stream_synchronize(int own) {
  world w = make_world(own);
  submit(&w);
  ELSEWHERE(own, iobind_stream_synchronize(w.stream, &fault));
  submit(&w);
  expect_ok(iobind_event_record(w.event, w.stream, &fault));
  ELSEWHERE(own, iobind_stream_synchronize(w.stream, &fault));
  expect_matrix(w.x, values);
  end_world(&w);
}

static void stream_wait(int own) {
  world w = make_world(own);
  iobind_stream *later = NULL;
  expect_ok(iobind_stream_create(w.device, NULL, &later, &fault));
  submit(&w);
  expect_ok(iobind_event_record(w.event, w.stream, &fault));
  ELSEWHERE(own, iobind_stream_wait(later, w.event, &fault));
  expect_ok(iobind_stream_synchronize(later, &fault));
  iobind_stream_destroy(later);
  end_world(&w);
}

static void event_create(int own) {
  world w = make_world(own);
  iobind_event *made = NULL;
  ELSEWHERE(own, iobind_event_create(w.device, &made, &fault));
  submit(&w);
  expect_ok(iobind_event_record(made, w.stream, &fault));
  expect_ok(iobind_event_wait(made, IOBIND_NO_TIMEOUT, &fault));
  iobind_event_destroy(made);
  end_world(&w);
}

static void event_destroy(int own) {
  world w = make_world(own);
  submit(&w);
  expect_ok(iobind_event_record(w.event, w.stream, &fault));
  ELSEWHERE_VOID(own, iobind_event_destroy(w.event));
  w.event = NULL;
  end_world(&w);
}

static void event_record(int own) {
  world w = make_world(own);
  submit(&w);
  for (int turn = 0; turn < 2; turn++) {
    ELSEWHERE(own, iobind_event_record(w.event, w.stream, &fault));
  }
  expect_ok(iobind_event_wait(w.event, IOBIND_NO_TIMEOUT, &fault));
  end_world(&w);
}

static void event_wait(int own) {
  world w = make_world(own);
  submit(&w);
  expect_ok(iobind_event_record(w.event, w.stream, &fault));
  ELSEWHERE(own, iobind_event_wait(w.event, IOBIND_NO_TIMEOUT, &fault));
  end_world(&w);
}

static void event_wait__with_a_timeout(int own) {
  world w = make_world(own);
  submit(&w);
  expect_ok(iobind_event_record(w.event, w.stream, &fault));
  ELSEWHERE(own, iobind_event_wait(w.event, UINT64_MAX / 4, &fault));
  end_world(&w);
}

/* One of iobind's threads waits for the event. */
static void event_query(int own) {
  world w = make_world(own);
  int32_t done = 0;
  submit(&w);
  expect_ok(iobind_event_record(w.event, w.stream, &fault));
  while (done == 0) {
    ELSEWHERE(own, iobind_event_query(w.event, &done, &fault));
  }
  end_world(&w);
}

/* ---- tensors ---- */

static void expect_on(int own, const iobind_tensor *tensor) {
  cuda_pointer told;
  assert_int_equal(cudaPointerGetAttributes(&told, iobind_tensor_get_address(tensor)), CUDA_OK);
  assert_int_equal(told.device, own);
}

static void tensor_create(int own) {
  world w = make_world(own);
  for (int memory = IOBIND_MEMORY_DEFAULT; memory <= IOBIND_MEMORY_HOST_ACCESSIBLE; memory++) {
    iobind_tensor *made = NULL;
    ELSEWHERE(own, iobind_tensor_create(w.device, (iobind_memory)memory, IOBIND_DTYPE_FLOAT32, square, 2, &made, &fault));
    if (memory == IOBIND_MEMORY_DEFAULT) {
      expect_on(own, made);
    }
    iobind_tensor_release(made);
  }
  end_world(&w);
}

static void tensor_wrap(int own) {
  world w = make_world(own);
  iobind_tensor *made = NULL;
  void *memory = NULL;
  assert_int_equal(cudaMalloc(&memory, sizeof unit), CUDA_OK);
  ELSEWHERE(own, call_tensor_wrap(w.device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, square, 2, memory, sizeof unit, NULL,
                                  NULL, &made, &fault));
  iobind_tensor_release(made);
  assert_int_equal(cudaFree(memory), CUDA_OK);
  end_world(&w);
}

static void tensor_view(int own) {
  world w = make_world(own);
  iobind_tensor *made = NULL;
  ELSEWHERE(own, iobind_tensor_view(w.x, 0, IOBIND_DTYPE_FLOAT32, square, 2, &made, &fault));
  expect_matrix(made, values);
  iobind_tensor_release(made);
  end_world(&w);
}

static void tensor_slice(int own) {
  world w = make_world(own);
  iobind_tensor *made = NULL;
  ELSEWHERE(own, iobind_tensor_slice(w.x, 0, 2, &made, &fault));
  expect_matrix(made, values);
  iobind_tensor_release(made);
  end_world(&w);
}

static void tensor_release(int own) {
  world w = make_world(own);
  int64_t before = vcuda_get(own, "live_bytes");
  iobind_tensor *made = make_matrix(w.device, IOBIND_MEMORY_DEFAULT, values);
  const iobind_tensor *from = made;
  expect_ok(iobind_tensor_copy(&from, &w.x, 1, w.stream, &fault)); /* the memory remains allocated until the copy is complete */
  ELSEWHERE_VOID(own, iobind_tensor_release(made));
  synchronize(&w);
  expect_matrix(w.x, values);
  expect_ok(iobind_device_trim(w.device, &fault)); /* a pool returns memory on its own stream; the trim waits for it */
  assert_int_equal(vcuda_get(own, "live_bytes"), before);
  end_world(&w);
}

static void tensor_map(int own) {
  world w = make_world(own);
  void *data = NULL;
  iobind_tensor *pinned = make_matrix(w.device, IOBIND_MEMORY_HOST_ACCESSIBLE, values);
  ELSEWHERE(own, iobind_tensor_map(pinned, IOBIND_DTYPE_FLOAT32, IOBIND_ACCESS_WRITE, &data, &fault));
  assert_memory_equal(data, values, sizeof values);
  iobind_tensor_release(pinned);
  end_world(&w);
}

static void tensor_write(int own) {
  world w = make_world(own);
  ELSEWHERE(own, iobind_tensor_write(w.x, 0, others, sizeof others, NULL, &fault));
  expect_matrix(w.x, others);
  ELSEWHERE(own, iobind_tensor_write(w.x, 0, values, sizeof values, w.stream, &fault));
  synchronize(&w);
  expect_matrix(w.x, values);
  end_world(&w);
}

static void tensor_read(int own) {
  world w = make_world(own);
  float read[2][COUNT] = {{0}};
  ELSEWHERE(own, iobind_tensor_read(w.x, 0, read[0], sizeof read[0], NULL, &fault));
  ELSEWHERE(own, iobind_tensor_read(w.x, 0, read[1], sizeof read[1], w.stream, &fault));
  synchronize(&w);
  assert_memory_equal(read[0], values, sizeof values);
  assert_memory_equal(read[1], values, sizeof values);
  end_world(&w);
}

/* Through the stream's pinned memory. */
static void tensor_write__staged(int own) {
  static float in[LARGE];
  static float out[LARGE];
  static const int64_t dim = LARGE;
  world w = make_world(own);
  iobind_tensor *large = NULL;
  expect_ok(iobind_tensor_create(w.device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, &dim, 1, &large, &fault));
  for (int i = 0; i < LARGE; i++) {
    in[i] = (float)(own * 1000 + i % 1000);
  }
  ELSEWHERE(own, iobind_tensor_write(large, 0, in, sizeof in, w.stream, &fault));
  ELSEWHERE(own, iobind_tensor_read(large, 0, out, sizeof out, w.stream, &fault));
  synchronize(&w);
  assert_memory_equal(in, out, sizeof in);
  iobind_tensor_release(large);
  end_world(&w);
}

static void tensor_copy(int own) {
  world w = make_world(own);
  iobind_tensor *there = make_matrix(host(), IOBIND_MEMORY_DEFAULT, unit);
  const iobind_tensor *from = w.x;
  ELSEWHERE(own, iobind_tensor_copy(&from, &w.z, 1, NULL, &fault));
  expect_matrix(w.z, values);
  ELSEWHERE(own, iobind_tensor_copy(&from, &there, 1, NULL, &fault));
  expect_matrix(there, values);
  from = w.y;
  ELSEWHERE(own, iobind_tensor_copy(&from, &w.z, 1, w.stream, &fault));
  ELSEWHERE(own, iobind_tensor_copy(&from, &there, 1, w.stream, &fault));
  synchronize(&w);
  expect_matrix(w.z, unit);
  expect_matrix(there, unit);
  iobind_tensor_release(there);
  end_world(&w);
}

/* From one GPU to the other: whichever device is current, it is the wrong one for one of the tensors. */
static void tensor_copy__between_devices(int own) {
  world w = make_world(1 - own);
  make_current(1 - own);
  iobind_tensor *from = make_matrix(w.device, IOBIND_MEMORY_DEFAULT, others);
  end_world(&w);
  w = make_world(own);
  const iobind_tensor *sources[] = {from};
  ELSEWHERE(own, iobind_tensor_copy(sources, &w.x, 1, NULL, &fault));
  expect_matrix(w.x, others);
  make_current(1 - own);
  iobind_tensor_release(from);
  end_world(&w);
}

static void tensor_copy_rows(int own) {
  world w = make_world(own);
  iobind_rows from = IOBIND_ROWS_INIT;
  iobind_rows to = IOBIND_ROWS_INIT;
  const size_t bytes = 2 * sizeof(float);
  from.tensor = w.x;
  to.tensor = w.z;
  from.pitch = to.pitch = bytes;
  ELSEWHERE(own, iobind_tensor_copy_rows(&from, &to, bytes, 2, NULL, &fault));
  expect_matrix(w.z, values);
  from.tensor = w.y;
  ELSEWHERE(own, iobind_tensor_copy_rows(&from, &to, bytes, 2, w.stream, &fault));
  synchronize(&w);
  expect_matrix(w.z, unit);
  end_world(&w);
}

/* ---- tensors of other libraries ---- */

static void tensor_to_dlpack(int own) {
  world w = make_world(own);
  void *managed = NULL;
  iobind_tensor *again = NULL;
  ELSEWHERE(own, iobind_tensor_to_dlpack(w.x, 0, &managed, &fault));
  expect_ok(iobind_tensor_from_dlpack(runtime, managed, 0, &again, &fault));
  expect_matrix(again, values);
  iobind_tensor_release(again);
  end_world(&w);
}

static void tensor_from_dlpack(int own) {
  world w = make_world(own);
  void *managed = NULL;
  iobind_tensor *again = NULL;
  expect_ok(iobind_tensor_to_dlpack(w.x, 0, &managed, &fault));
  ELSEWHERE(own, iobind_tensor_from_dlpack(runtime, managed, 0, &again, &fault));
  expect_matrix(again, values);
  iobind_tensor_release(again);
  end_world(&w);
}

static void release_value(void *value) {
  iobind_ort ort = IOBIND_ORT_INIT;
  expect_ok(iobind_runtime_get_ort(runtime, &ort, &fault));
  ((const OrtApi *)ort.api)->ReleaseValue(value);
}

static void tensor_to_ort(int own) {
  world w = make_world(own);
  void *value = NULL;
  ELSEWHERE(own, iobind_tensor_to_ort(w.x, &value, &fault));
  release_value(value);
  end_world(&w);
}

static void tensor_wrap_ort(int own) {
  world w = make_world(own);
  void *value = NULL;
  iobind_tensor *again = NULL;
  expect_ok(iobind_tensor_to_ort(w.x, &value, &fault));
  ELSEWHERE(own, iobind_tensor_wrap_ort(runtime, value, NULL, NULL, &again, &fault));
  expect_matrix(again, values);
  iobind_tensor_release(again);
  release_value(value);
  end_world(&w);
}

/* ---- streams of other libraries ---- */

static iobind_native native_of(void *handle) {
  iobind_native native = IOBIND_NATIVE_INIT;
  native.kind = IOBIND_NATIVE_CUDA;
  native.handle = handle;
  return native;
}

static void stream_wrap(int own) {
  world w = make_world(own);
  iobind_stream *wrapped = NULL;
  iobind_native native = native_of(call_stream_get_native(w.stream));
  ELSEWHERE(own, iobind_stream_wrap(w.device, &native, NULL, NULL, &wrapped, &fault));
  ELSEWHERE(own, iobind_tensor_write(w.x, 0, others, sizeof others, wrapped, &fault));
  ELSEWHERE(own, iobind_binding_run(w.binding, wrapped, &fault));
  ELSEWHERE(own, iobind_stream_synchronize(wrapped, &fault));
  expect_matrix(w.z, others);
  ELSEWHERE_VOID(own, iobind_stream_destroy(wrapped));
  end_world(&w);
}

static void stream_wait_native(int own) {
  world w = make_world(own);
  cuda_event theirs;
  assert_int_equal(cudaEventCreate(&theirs), CUDA_OK);
  assert_int_equal(cudaEventRecord(theirs, NULL), CUDA_OK);
  iobind_native native = native_of(theirs);
  ELSEWHERE(own, iobind_stream_wait_native(w.stream, &native, &fault));
  synchronize(&w);
  assert_int_equal(cudaEventDestroy(theirs), CUDA_OK);
  end_world(&w);
}

static void stream_signal_native(int own) {
  world w = make_world(own);
  cuda_event theirs;
  assert_int_equal(cudaEventCreate(&theirs), CUDA_OK);
  iobind_native native = native_of(theirs);
  submit(&w);
  ELSEWHERE(own, iobind_stream_signal_native(w.stream, &native, &fault));
  assert_int_equal(cudaEventSynchronize(theirs), CUDA_OK);
  synchronize(&w);
  assert_int_equal(cudaEventDestroy(theirs), CUDA_OK);
  end_world(&w);
}

static const struct CMUnitTest tests[] = {
    ROW(runtime_find_device),
    ROW(device_check),
    ROW(device_trim),
    ROW(runtime_destroy),
    ROW(stream_create),
    ROW(stream_destroy),
    ROW(stream_synchronize),
    ROW(stream_wait),
    ROW(event_create),
    ROW(event_destroy),
    ROW(event_record),
    ROW(event_wait),
    ROW(event_wait__with_a_timeout),
    ROW(event_query),
    ROW(tensor_create),
    ROW(tensor_wrap),
    ROW(tensor_view),
    ROW(tensor_slice),
    ROW(tensor_release),
    ROW(tensor_map),
    ROW(tensor_write),
    ROW(tensor_read),
    ROW(tensor_write__staged),
    ROW(tensor_copy),
    ROW(tensor_copy__between_devices),
    ROW(tensor_copy_rows),
    ROW(tensor_to_dlpack),
    ROW(tensor_from_dlpack),
    ROW(tensor_to_ort),
    ROW(tensor_wrap_ort),
    ROW(stream_wrap),
    ROW(stream_wait_native),
    ROW(stream_signal_native),
};

FIXTURE_MAIN(tests, NULL, NULL);
