/* Memory and semaphores of other processes, on the virtual accelerator: shared by two of them, ordered on streams, refused where wrong. */
#include <string.h>
#include <unistd.h>

#include "runtime/runtime.h"
#include "vdev.h"
#include "external.h"

static bool has(int file, uint64_t value) {
  return vdev_semaphore_wait(file, value, 0) == 1;
}

const external_product product = {.get = vdev_get,
                                  .semaphore_create = vdev_semaphore_create,
                                  .semaphore_signal = vdev_semaphore_signal,
                                  .semaphore_has = has};

static int open_runtime(void **state) {
  (void)stage_open(state);
  device = fixture_device(runtime, "vdev:0");
  return 0;
}

/* ---- one process ---- */

/* Two streams of one process, whose copies the host does not wait for, without an event: the race detector takes the semaphore for their
 * order. */
static void streams_are_ordered(void **state) {
  (void)state;
  static const int64_t dims[] = {COUNT};
  int file = vdev_semaphore_create(5);
  iobind_semaphore *semaphore = import_semaphore(file);
  close(file);
  iobind_tensor *pinned;
  expect_ok(iobind_tensor_create(device, IOBIND_MEMORY_HOST_ACCESSIBLE, IOBIND_DTYPE_FLOAT32, dims, 1, &pinned, &fault));
  expect_ok(iobind_tensor_write(pinned, 0, ramp(), COUNT * sizeof(float), NULL, &fault));
  static const float zeros[COUNT];
  iobind_tensor *middle = fixture_floats(device, zeros, COUNT);
  iobind_tensor *last = fixture_floats(device, zeros, COUNT);
  iobind_stream *first = make_stream();
  iobind_stream *second = make_stream();
  assert_int_equal(vdev_set(0, "race", "fail"), 0);
  assert_int_equal(vdev_set(0, "delay_copy", "every:1,us:2000"), 0);
  expect_ok(iobind_tensor_copy((const iobind_tensor *const[]){pinned}, (iobind_tensor *const[]){middle}, 1, first, &fault));
  expect_ok(iobind_stream_signal_semaphore(first, semaphore, 6, &fault));
  expect_ok(iobind_stream_wait_semaphore(second, semaphore, 6, &fault));
  expect_ok(iobind_tensor_copy((const iobind_tensor *const[]){middle}, (iobind_tensor *const[]){last}, 1, second, &fault));
  expect_ok(iobind_stream_synchronize(second, &fault));
  assert_int_equal(vdev_set(0, "delay_copy", "0"), 0);
  assert_int_equal(vdev_set(0, "race", "off"), 0);
  static float result[COUNT];
  expect_ok(iobind_tensor_read(last, 0, result, sizeof result, NULL, &fault));
  assert_memory_equal(result, ramp(), sizeof result);
  iobind_semaphore_destroy(semaphore);
  iobind_stream_destroy(first);
  iobind_stream_destroy(second);
  iobind_tensor_release(pinned);
  iobind_tensor_release(middle);
  iobind_tensor_release(last);
}

/* A value that does not grow is refused, on the host; on a stream it is the stream's failure. */
static void values_only_grow(void **state) {
  (void)state;
  int file = vdev_semaphore_create(0);
  iobind_semaphore *semaphore = import_semaphore(file);
  iobind_stream *stream = make_stream();
  assert_int_equal(vdev_semaphore_wait(file, 3, 0), 0);
  assert_int_equal(vdev_semaphore_signal(file, 3), 0);
  assert_int_equal(vdev_semaphore_wait(file, 3, -1), 1);
  assert_int_equal(vdev_semaphore_signal(file, 3), -1);
  assert_non_null(strstr(vdev_last_error(), "only grows"));
  expect_ok(iobind_stream_signal_semaphore(stream, semaphore, 1, &fault));
  expect(IOBIND_ERROR_RUNTIME, iobind_stream_synchronize(stream, &fault));
  expect_words("only grows");
  iobind_stream_destroy(stream);
  iobind_semaphore_destroy(semaphore);
  close(file);
}

/* The owner releases a semaphore that a stream waits for: it is destroyed when that wait is complete. */
static void stream_keeps_the_semaphore(void **state) {
  (void)state;
  int file = vdev_semaphore_create(0);
  iobind_stream *stream = make_stream();
  iobind_semaphore *semaphore = import_semaphore(file);
  unsigned long held = (unsigned long)atomic_load(&runtime->ref.count); /* the semaphore holds the runtime */
  expect_ok(iobind_stream_wait_semaphore(stream, semaphore, 1, &fault));
  iobind_semaphore_destroy(semaphore);
  assert_int_equal((unsigned long)atomic_load(&runtime->ref.count), held);
  assert_int_equal(vdev_semaphore_signal(file, 1), 0);
  expect_ok(iobind_stream_synchronize(stream, &fault));
  assert_int_equal((unsigned long)atomic_load(&runtime->ref.count), held - 1);
  iobind_stream_destroy(stream);
  close(file);
}

static void probes(void **state) {
  (void)state;
  for (int32_t kind = IOBIND_EXTERNAL_FD_MEMORY; kind <= IOBIND_EXTERNAL_D3D12_FENCE; kind++) {
    bool file = kind == IOBIND_EXTERNAL_FD_MEMORY || kind == IOBIND_EXTERNAL_FD_SEMAPHORE;
    expect(file ? IOBIND_OK : IOBIND_ERROR_NOT_SUPPORTED, iobind_device_check_import(device, kind, &fault));
    expect(IOBIND_ERROR_NOT_SUPPORTED, iobind_device_check_import(cpu, kind, &fault));
    expect_words("'cpu'");
  }
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_device_check_import(device, 0, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_device_check_import(device, 8, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_device_check_import(NULL, 1, &fault));
}

static void memory_is_refused(void **state) {
  (void)state;
  static const int64_t dims[] = {COUNT};
  static const int64_t many[] = {INT64_MAX, 8};
  int file = make_file();
  iobind_external right = external_of(IOBIND_EXTERNAL_FD_MEMORY, file, BYTES);
  iobind_external wrong[] = {external_of(IOBIND_EXTERNAL_FD_MEMORY, file, 0),
                             external_of(IOBIND_EXTERNAL_FD_MEMORY, -1, BYTES),
                             external_of(IOBIND_EXTERNAL_D3D12_HEAP, 0, BYTES),
                             external_of(IOBIND_EXTERNAL_FD_SEMAPHORE, file, BYTES),
                             external_of(0, file, BYTES),
                             external_of(99, file, BYTES)};
  iobind_external_memory *memory = (iobind_external_memory *)&right;
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_external_memory_import(device, &wrong[i], &memory, &fault));
    assert_null(memory);
  }
  iobind_external no_int = right; /* of which the driver would take the lower half: another file */
  no_int.handle = (void *)(uintptr_t)(((uint64_t)1 << 32) + (uint64_t)file);
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_external_memory_import(device, &no_int, &memory, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_external_memory_import(NULL, &right, &memory, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_external_memory_import(device, NULL, &memory, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_external_memory_import(device, &right, NULL, &fault));
  right.kind = IOBIND_EXTERNAL_WIN32_MEMORY;
  expect(IOBIND_ERROR_NOT_SUPPORTED, iobind_external_memory_import(device, &right, &memory, &fault));
  right.kind = IOBIND_EXTERNAL_FD_MEMORY;
  right.bytes = BYTES + 1;
  expect(IOBIND_ERROR_RUNTIME, iobind_external_memory_import(device, &right, &memory, &fault));
  expect_words("cannot be imported");
  right.handle = (void *)(intptr_t)1234;
  expect(IOBIND_ERROR_RUNTIME, iobind_external_memory_import(device, &right, &memory, &fault));

  iobind_tensor *tensor;
  memory = import_memory(file);
  expect(IOBIND_ERROR_INVALID_ARGUMENT,
         iobind_external_memory_view(memory, LATER + 4, IOBIND_DTYPE_FLOAT32, dims, 1, &tensor, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT,
         iobind_external_memory_view(memory, SIZE_MAX, IOBIND_DTYPE_FLOAT32, dims, 1, &tensor, &fault));
  expect(IOBIND_ERROR_SHAPE, iobind_external_memory_view(memory, 0, IOBIND_DTYPE_FLOAT32, many, 2, &tensor, &fault));
  expect(IOBIND_ERROR_DTYPE, iobind_external_memory_view(memory, 0, IOBIND_DTYPE_STRING, dims, 1, &tensor, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_external_memory_view(NULL, 0, IOBIND_DTYPE_FLOAT32, dims, 1, &tensor, &fault));
  assert_null(tensor);
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_external_memory_view(memory, 0, IOBIND_DTYPE_FLOAT32, dims, 1, NULL, &fault));
  iobind_external_memory_destroy(memory);
  iobind_external_memory_destroy(NULL);
  close(file);
}

static void semaphores_are_refused(void **state) {
  (void)state;
  int file = make_file();
  int semaphore_file = vdev_semaphore_create(0);
  iobind_semaphore *semaphore;
  iobind_external external = external_of(IOBIND_EXTERNAL_FD_SEMAPHORE, file, 0);
  expect(IOBIND_ERROR_RUNTIME, iobind_semaphore_import(device, &external, &semaphore, &fault));
  expect_words("not a semaphore");
  assert_null(semaphore);
  assert_int_equal(vdev_semaphore_signal(file, 1), -1);
  assert_int_equal(vdev_semaphore_wait(-1, 1, 0), -1);
  external.bytes = 8;
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_semaphore_import(device, &external, &semaphore, &fault));
  external.kind = IOBIND_EXTERNAL_FD_MEMORY;
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_semaphore_import(device, &external, &semaphore, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_semaphore_import(device, NULL, &semaphore, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_semaphore_import(NULL, &external, &semaphore, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_semaphore_import(device, &external, NULL, &fault));

  semaphore = import_semaphore(semaphore_file);
  iobind_stream *stream = make_stream();
  iobind_stream *host;
  expect_ok(iobind_stream_create(iobind_runtime_get_device(runtime, 0), NULL, &host, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_stream_wait_semaphore(NULL, semaphore, 1, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_stream_wait_semaphore(stream, NULL, 1, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_stream_signal_semaphore(NULL, semaphore, 1, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_stream_signal_semaphore(stream, NULL, 1, &fault));
  expect(IOBIND_ERROR_WRONG_DEVICE, iobind_stream_wait_semaphore(host, semaphore, 1, &fault));
  expect(IOBIND_ERROR_WRONG_DEVICE, iobind_stream_signal_semaphore(host, semaphore, 1, &fault));
  iobind_stream_destroy(host);
  iobind_stream_destroy(stream);
  iobind_semaphore_destroy(semaphore);
  iobind_semaphore_destroy(NULL);
  close(file);
  close(semaphore_file);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(two_processes_share_memory), cmocka_unit_test(streams_are_ordered),
    cmocka_unit_test(wait_before_the_signal),     cmocka_unit_test(values_only_grow),
    cmocka_unit_test(tensors_keep_the_memory),    cmocka_unit_test(probes),
    cmocka_unit_test(memory_is_refused),          cmocka_unit_test(semaphores_are_refused),
    cmocka_unit_test(stream_keeps_the_semaphore),
};
static const struct CMUnitTest peer[] = {cmocka_unit_test(the_peer)};

int main(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "the_peer") == 0) {
    return cmocka_run_group_tests(peer, open_runtime, stage_close);
  }
  if (argc > 1) {
    cmocka_set_test_filter(argv[1]);
  }
  return cmocka_run_group_tests(cases, open_runtime, stage_close);
}
