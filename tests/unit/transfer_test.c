/* Writing, reading and copying: a part changes nothing else, on any device. */
#include "fixture.h"

#include <stdlib.h>
#include <string.h>

#include "memory/transfer.h"
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

static iobind_tensor *make_bytes(int64_t count) {
  iobind_tensor *tensor = NULL;
  expect_ok(iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_UINT8, &count, 1, &tensor, &fault));
  return tensor;
}

/* Every offset and length: what lies before and behind the part stays as it was. */
static void write_changes_its_part_alone(void **state) {
  device = fixture_device(runtime, *state);
  enum { SIZE = 64 };
  static const size_t lengths[] = {1, 2, 3, 4, 5, 8, 12, 16, 17, 20};
  iobind_tensor *tensor = make_bytes(SIZE);
  for (size_t offset = 0; offset < 24; offset++) {
    for (size_t l = 0; l < sizeof lengths / sizeof lengths[0]; l++) {
      unsigned char expected[SIZE];
      unsigned char part[32];
      unsigned char got[SIZE];
      for (size_t i = 0; i < SIZE; i++) {
        expected[i] = (unsigned char)(100 + i);
      }
      memset(part, (int)(offset + 1), sizeof part);
      expect_ok(iobind_tensor_write(tensor, 0, expected, SIZE, NULL, &fault));
      expect_ok(iobind_tensor_write(tensor, offset, part, lengths[l], NULL, &fault));
      memcpy(expected + offset, part, lengths[l]);
      expect_ok(iobind_tensor_read(tensor, 0, got, SIZE, NULL, &fault));
      if (memcmp(got, expected, SIZE) != 0) {
        size_t at = 0;
        while (got[at] == expected[at]) {
          at++;
        }
        fail_msg("%zu bytes at offset %zu: byte %zu is %d, expected %d", lengths[l], offset, at, got[at], expected[at]);
      }
    }
  }
  iobind_tensor_release(tensor);
}

/* Sizes that no device likes: whole tensors of few bytes, and parts read out of them. */
static void odd_sizes_come_back(void **state) {
  device = fixture_device(runtime, *state);
  for (int64_t size = 1; size <= 19; size++) {
    iobind_tensor *tensor = make_bytes(size);
    unsigned char bytes[32];
    unsigned char got[32];
    for (size_t i = 0; i < sizeof bytes; i++) {
      bytes[i] = (unsigned char)(i * 7 + (size_t)size);
    }
    expect_ok(iobind_tensor_write(tensor, 0, bytes, (size_t)size, NULL, &fault));
    for (size_t offset = 0; offset < (size_t)size; offset++) {
      memset(got, 0xEE, sizeof got);
      size_t length = (size_t)size - offset;
      expect_ok(iobind_tensor_read(tensor, offset, got, length, NULL, &fault));
      assert_memory_equal(got, bytes + offset, length);
      assert_int_equal(got[length], 0xEE); /* not a byte more than asked for */
    }
    iobind_tensor_release(tensor);
  }
}

/* A view at the start shares the memory; a copy into it must not spill over its end. */
static void copy_into_a_view_stays_inside(void **state) {
  device = fixture_device(runtime, *state);
  static const float whole[] = {1, 2, 3, 4, 5, 6, 7, 8};
  static const float part[] = {-1, -2, -3};
  static const float expected[] = {-1, -2, -3, 4, 5, 6, 7, 8};
  iobind_tensor *base = fixture_floats(device, whole, 8);
  iobind_tensor *source = fixture_floats(device, part, 3);
  iobind_tensor *host = fixture_floats(iobind_runtime_get_device(runtime, 0), part, 3);
  iobind_tensor *view = NULL;
  expect_ok(iobind_tensor_slice(base, 0, 3, &view, &fault));
  const iobind_tensor *sources[2] = {source, host};
  for (size_t i = 0; i < 2; i++) {
    expect_ok(iobind_tensor_write(base, 0, whole, sizeof whole, NULL, &fault));
    expect_ok(iobind_tensor_copy(&sources[i], &view, 1, NULL, &fault));
    fixture_expect_floats(base, expected, 8);
  }
  expect_ok(iobind_tensor_write(base, 0, whole, sizeof whole, NULL, &fault));
  expect_ok(iobind_tensor_write(view, 0, part, sizeof part, NULL, &fault));
  fixture_expect_floats(base, expected, 8);
  iobind_tensor_release(view);
  iobind_tensor_release(host);
  iobind_tensor_release(source);
  iobind_tensor_release(base);
}

/* The same byte by byte: where the device writes whole words, those behind the view's end are the base's. */
static void view_of_few_bytes_stays_inside(void **state) {
  device = fixture_device(runtime, *state);
  enum { SIZE = 48 };
  unsigned char whole[SIZE];
  unsigned char part[SIZE];
  unsigned char got[SIZE];
  for (size_t i = 0; i < SIZE; i++) {
    whole[i] = (unsigned char)(100 + i);
    part[i] = (unsigned char)(1 + i);
  }
  iobind_tensor *base = make_bytes(SIZE);
  for (int64_t length = 1; length < 20; length++) {
    iobind_tensor *view = NULL;
    fixture_arm();
    iobind_status status = iobind_tensor_slice(base, 0, length, &view, &fault);
    if (status == IOBIND_ERROR_NOT_SUPPORTED && length % 4 != 0) {
      assert_null(view);
      continue; /* refused, where the device cannot do it */
    }
    fixture_expect(IOBIND_OK, status, "slice", __FILE__, __LINE__);
    iobind_tensor *source = make_bytes(length);
    const iobind_tensor *from = source;
    expect_ok(iobind_tensor_write(source, 0, part, (size_t)length, NULL, &fault));
    unsigned char expected[SIZE];
    memcpy(expected, whole, SIZE);
    memcpy(expected, part, (size_t)length);
    for (int way = 0; way < 2; way++) {
      expect_ok(iobind_tensor_write(base, 0, whole, SIZE, NULL, &fault));
      if (way == 0) {
        expect_ok(iobind_tensor_write(view, 0, part, (size_t)length, NULL, &fault));
      } else {
        expect_ok(iobind_tensor_copy(&from, &view, 1, NULL, &fault));
      }
      expect_ok(iobind_tensor_read(base, 0, got, SIZE, NULL, &fault));
      if (memcmp(got, expected, SIZE) != 0) {
        fail_msg("a view of %d bytes, %s: what lies behind it changed", (int)length, way == 0 ? "written" : "copied into");
      }
    }
    iobind_tensor_release(source);
    iobind_tensor_release(view);
  }
  iobind_tensor_release(base);
}

static void parts_outside_are_refused(void **state) {
  device = fixture_device(runtime, *state);
  iobind_tensor *tensor = make_bytes(10);
  unsigned char bytes[16] = {0};
  expect_ok(iobind_tensor_write(tensor, 0, bytes, 10, NULL, &fault));
  static const struct {
    size_t offset, bytes;
  } rows[] = {{0, 11}, {10, 1}, {11, 0}, {1, SIZE_MAX}, {SIZE_MAX, 1}, {SIZE_MAX, SIZE_MAX}, {5, SIZE_MAX - 4}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_tensor_write(tensor, rows[i].offset, bytes, rows[i].bytes, NULL, &fault));
    expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_tensor_read(tensor, rows[i].offset, bytes, rows[i].bytes, NULL, &fault));
  }
  expect_ok(iobind_tensor_write(tensor, 10, NULL, 0, NULL, &fault));
  expect_ok(iobind_tensor_read(tensor, 10, NULL, 0, NULL, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_tensor_write(tensor, 0, NULL, 1, NULL, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_tensor_read(NULL, 0, bytes, 1, NULL, &fault));
  iobind_tensor_release(tensor);
}

/* More pairs than go into one call of ORT, over several routes, in one batch. */
static void copies_in_a_batch(void **state) {
  device = fixture_device(runtime, *state);
  enum { PAIRS = 40 };
  iobind_tensor *sources[PAIRS];
  iobind_tensor *targets[PAIRS];
  for (size_t i = 0; i < PAIRS; i++) {
    const float value = (float)i;
    sources[i] = fixture_floats(i % 2 == 0 ? cpu : device, &value, 1);
    targets[i] = fixture_floats(i % 3 == 0 ? cpu : device, NULL, 1);
  }
  expect_ok(iobind_tensor_copy((const iobind_tensor *const *)sources, targets, PAIRS, NULL, &fault));
  for (size_t i = 0; i < PAIRS; i++) {
    const float value = (float)i;
    fixture_expect_floats(targets[i], &value, 1);
    iobind_tensor_release(sources[i]);
    iobind_tensor_release(targets[i]);
  }
}

static void pairs_that_do_not_fit(void **state) {
  device = fixture_device(runtime, *state);
  static const float values[] = {1, 2, 3, 4};
  iobind_tensor *four = fixture_floats(device, values, 4);
  iobind_tensor *three = fixture_floats(device, values, 3);
  iobind_tensor *bytes = make_bytes(4);
  iobind_tensor *start_of = NULL;
  expect_ok(iobind_tensor_slice(four, 0, 3, &start_of, &fault));
  const iobind_tensor *source = four;
  expect(IOBIND_ERROR_SHAPE, iobind_tensor_copy(&source, &three, 1, NULL, &fault));
  expect_words("pair 0");
  expect(IOBIND_ERROR_DTYPE, iobind_tensor_copy(&source, &bytes, 1, NULL, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_tensor_copy(&source, &four, 1, NULL, &fault));
  source = three;
  expect_ok(iobind_tensor_copy(&source, &start_of, 1, NULL, &fault));
  iobind_tensor *twice[2] = {three, NULL};
  const iobind_tensor *from[2] = {start_of, start_of};
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_tensor_copy(from, twice, 2, NULL, &fault));
  expect_words("target 1");
  expect_ok(iobind_tensor_copy(NULL, NULL, 0, NULL, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_tensor_copy(NULL, twice, 1, NULL, &fault));
  iobind_tensor_release(start_of);
  iobind_tensor_release(bytes);
  iobind_tensor_release(three);
  iobind_tensor_release(four);
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

/* More than any machine has: an error that says so, and the device still works. */
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

/* However large: a tensor is refused, or holds what is written into it. An EP may hand out memory that is none. */
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
    cmocka_unit_test_setup(write_changes_its_part_alone, on_cpu),
    cmocka_unit_test_setup(write_changes_its_part_alone, on_webgpu),
    cmocka_unit_test_setup(odd_sizes_come_back, on_cpu),
    cmocka_unit_test_setup(odd_sizes_come_back, on_webgpu),
    cmocka_unit_test_setup(copy_into_a_view_stays_inside, on_cpu),
    cmocka_unit_test_setup(copy_into_a_view_stays_inside, on_webgpu),
    cmocka_unit_test_setup(view_of_few_bytes_stays_inside, on_cpu),
    cmocka_unit_test_setup(view_of_few_bytes_stays_inside, on_webgpu),
    cmocka_unit_test_setup(parts_outside_are_refused, on_cpu),
    cmocka_unit_test_setup(parts_outside_are_refused, on_webgpu),
    cmocka_unit_test_setup(copies_in_a_batch, on_cpu),
    cmocka_unit_test_setup(copies_in_a_batch, on_webgpu),
    cmocka_unit_test_setup(pairs_that_do_not_fit, on_cpu),
    cmocka_unit_test_setup(pairs_that_do_not_fit, on_webgpu),
    cmocka_unit_test_setup(counters_tell_the_bytes, on_cpu),
    cmocka_unit_test_setup(counters_tell_the_bytes, on_webgpu),
    cmocka_unit_test_setup(too_much_memory, on_cpu),
    cmocka_unit_test_setup(too_much_memory, on_webgpu),
    cmocka_unit_test_setup(large_memory_holds_or_is_refused, on_webgpu),
    cmocka_unit_test(strings),
    cmocka_unit_test_setup(strings_on_a_device, on_webgpu),
};

FIXTURE_MAIN(tests, stage_open, stage_close);
