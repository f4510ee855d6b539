/* What is counted of copies, memory beyond what there is, and strings. The rows of conformance write, read and copy. */
#include "fixture.h"

#include <stdlib.h>
#include <string.h>

#include "stage.h"

static const char *const specs[] = {"cpu", "webgpu"};

static int on_cpu(void **state) {
  *state = (void *)(uintptr_t)specs[0];
  return 0;
}

static int on_webgpu(void **state) {
  *state = (void *)(uintptr_t)specs[1];
  return 0;
}

/* What crosses the link is counted once, on the device, and on the host nothing is. */
static void counters_tell_the_bytes(void **state) {
  device = fixture_device(runtime, *state);
  iobind_device_info info = IOBIND_DEVICE_INFO_INIT;
  expect_ok(iobind_device_get_info(device, &info, &fault));
  const bool far = (info.flags & IOBIND_DEVICE_HOST_MEMORY) == 0;
  iobind_device_counters before = IOBIND_DEVICE_COUNTERS_INIT;
  iobind_device_counters after = IOBIND_DEVICE_COUNTERS_INIT;
  expect_ok(iobind_device_get_counters(device, &before, &fault));
  static const float values[] = {1, 2, 3, 4};
  iobind_tensor *tensor = fixture_floats(device, values, 4);
  iobind_tensor *other = fixture_floats(device, NULL, 4);
  const iobind_tensor *source = tensor;
  expect_ok(iobind_tensor_copy(&source, &other, 1, NULL, &fault));
  fixture_expect_floats(other, values, 4);
  expect_ok(iobind_device_get_counters(device, &after, &fault));
  assert_int_equal(after.upload_bytes - before.upload_bytes, far ? 16 : 0);
  assert_int_equal(after.upload_count - before.upload_count, far ? 1 : 0);
  assert_int_equal(after.local_bytes - before.local_bytes, far ? 16 : 0);
  assert_int_equal(after.download_bytes - before.download_bytes, far ? 16 : 0);
  assert_int_equal(after.allocated_bytes - before.allocated_bytes, 32);
  assert_int_equal(after.allocation_count - before.allocation_count, 2);
  iobind_tensor_release(tensor);
  iobind_tensor_release(other);
  expect_ok(iobind_device_get_counters(device, &after, &fault));
  assert_int_equal(after.allocated_bytes, before.allocated_bytes);
}

/* More than any machine has: an out-of-memory error, and the device still works. */
static void too_much_memory(void **state) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  skip(); /* their allocators end the program here: the release build runs this */
#endif
  const char *preloaded = getenv("LD_PRELOAD");
  if (preloaded != NULL && strstr(preloaded, "vgpreload") != NULL) {
    print_message("valgrind ends the program where ORT's new fails\n");
    skip();
  }
  device = fixture_device(runtime, *state);
  static const int64_t counts[] = {(int64_t)1 << 43, (int64_t)1 << 52, (int64_t)1 << 59};
  for (size_t i = 0; i < 3; i++) {
    iobind_tensor *tensor = (iobind_tensor *)state;
    expect(IOBIND_ERROR_OUT_OF_MEMORY,
           iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, &counts[i], 1, &tensor, &fault));
    assert_null(tensor);
  }
  static const float values[] = {1, 2, 3};
  iobind_tensor *tensor = fixture_floats(device, values, 3);
  fixture_expect_floats(tensor, values, 3);
  iobind_tensor_release(tensor);
}

/* However large: a tensor is refused, or holds what is written into it. An EP may return memory that does not exist. */
static void large_memory_holds_or_is_refused(void **state) {
  device = fixture_device(runtime, *state);
  static const int64_t counts[] = {(int64_t)1 << 28, (int64_t)1 << 30, (int64_t)1 << 36, (int64_t)1 << 43};
  for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
    iobind_tensor *tensor = NULL;
    fixture_arm();
    iobind_status status =
        iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, &counts[i], 1, &tensor, &fault);
    if (status != IOBIND_OK) {
      fixture_expect(IOBIND_ERROR_OUT_OF_MEMORY, status, "create", __FILE__, __LINE__);
      continue;
    }
    static const float values[] = {1, 2, 3, 4};
    float got[4] = {0};
    expect_ok(iobind_tensor_write(tensor, 0, values, sizeof values, NULL, &fault));
    expect_ok(iobind_tensor_read(tensor, 0, got, sizeof got, NULL, &fault));
    iobind_tensor_release(tensor);
    assert_memory_equal(got, values, sizeof values);
  }
}

static void strings(void **state) {
  (void)state;
  static const int64_t two = 2;
  iobind_tensor *tensor = NULL;
  expect_ok(iobind_tensor_create(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_STRING, &two, 1, &tensor, &fault));
  expect_ok(iobind_tensor_set_string(tensor, 1, "h\xC3\xA9llo", &fault));
  char buffer[8] = "-------";
  size_t needed = 99;
  expect_ok(iobind_tensor_get_string(tensor, 0, NULL, 0, &needed, &fault));
  assert_int_equal(needed, 0);
  expect_ok(iobind_tensor_get_string(tensor, 1, buffer, sizeof buffer, &needed, &fault));
  assert_int_equal(needed, 6);
  assert_memory_equal(buffer, "h\xC3\xA9llo-", 7);
  expect_ok(iobind_tensor_get_string(tensor, 1, buffer, 1, &needed, &fault));
  assert_int_equal(needed, 6);
  assert_memory_equal(buffer, "h\xC3\xA9llo-", 7);
  expect_ok(iobind_tensor_set_string(tensor, 1, "", &fault));
  expect_ok(iobind_tensor_get_string(tensor, 1, buffer, sizeof buffer, &needed, &fault));
  assert_int_equal(needed, 0);
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_tensor_get_string(tensor, 2, buffer, 8, &needed, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_tensor_set_string(tensor, SIZE_MAX, "x", &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_tensor_set_string(tensor, 0, NULL, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_tensor_get_string(tensor, 0, NULL, 1, &needed, &fault));
  expect(IOBIND_ERROR_DTYPE, iobind_tensor_write(tensor, 0, buffer, 1, NULL, &fault));
  void *data = buffer;
  expect(IOBIND_ERROR_DTYPE, iobind_tensor_map(tensor, IOBIND_DTYPE_STRING, IOBIND_ACCESS_WRITE, &data, &fault));
  assert_null(data);
  assert_null(iobind_tensor_get_address(tensor));
  iobind_tensor *view = tensor;
  expect(IOBIND_ERROR_NOT_SUPPORTED, iobind_tensor_slice(tensor, 0, 1, &view, &fault));
  expect_words("tensor_slice: strings have no views");
  assert_null(view);
  iobind_tensor_release(tensor);
}

static void strings_on_a_device(void **state) {
  device = fixture_device(runtime, *state);
  static const int64_t two = 2;
  iobind_tensor *tensor = (iobind_tensor *)state;
  expect(IOBIND_ERROR_NOT_SUPPORTED,
         iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_STRING, &two, 1, &tensor, &fault));
  assert_null(tensor);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup(counters_tell_the_bytes, on_cpu),
    cmocka_unit_test_setup(counters_tell_the_bytes, on_webgpu),
    cmocka_unit_test_setup(too_much_memory, on_cpu),
    cmocka_unit_test_setup(too_much_memory, on_webgpu),
    cmocka_unit_test_setup(large_memory_holds_or_is_refused, on_webgpu),
    cmocka_unit_test(strings),
    cmocka_unit_test_setup(strings_on_a_device, on_webgpu),
};

FIXTURE_MAIN(tests, stage_open, stage_close);
