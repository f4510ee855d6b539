/* Structs of DLPack that describe what cannot be: refused, and still the caller's. */
#include "fixture.h"

#include "iobind/interop.h"
#include "tensor/dlpack.h"
#include "stage.h"

static int deleted;

static void count_deleted(iobind__dl_versioned *self) {
  (void)self;
  deleted++;
}

static iobind__dl_versioned make(void *data, int64_t *dims, int64_t *strides, int32_t rank) {
  iobind__dl_versioned made = {.major = 1, .deleter = count_deleted};
  made.tensor =
      (iobind__dl_tensor){.data = data, .device_type = IOBIND__DL_CPU, .rank = rank, .code = 2, .bits = 32, .lanes = 1};
  made.tensor.dims = dims;
  made.tensor.strides = strides;
  return made;
}

/* Columns first: it would be copied, but there is nothing to copy from. */
static void no_memory_behind_strides(void **state) {
  (void)state;
  int64_t dims[] = {2, 3};
  int64_t strides[] = {1, 2};
  iobind_tensor *tensor = NULL;
  iobind__dl_versioned managed = make(NULL, dims, strides, 2);
  expect(IOBIND_ERROR_INVALID_ARGUMENT,
         iobind_tensor_from_dlpack(runtime, &managed, IOBIND_DLPACK_COPY_STRIDED, &tensor, &fault));
  assert_null(tensor);
  assert_int_equal(deleted, 0);
}

/* Of 0 elements there is nothing to copy, and no memory is needed. */
static void no_elements_behind_strides(void **state) {
  (void)state;
  int64_t dims[] = {2, 0, 3};
  int64_t strides[] = {1, 5, 7};
  iobind_tensor *tensor = NULL;
  iobind_tensor_info info = IOBIND_TENSOR_INFO_INIT;
  iobind__dl_versioned managed = make(NULL, dims, strides, 3);
  expect_ok(iobind_tensor_from_dlpack(runtime, &managed, IOBIND_DLPACK_COPY_STRIDED, &tensor, &fault));
  expect_ok(iobind_tensor_get_info(tensor, &info, &fault));
  assert_int_equal(info.bytes, 0);
  iobind_tensor_release(tensor);
}

/* The message has the name of the function that was called. */
static void no_memory(void **state) {
  (void)state;
  int64_t dims[] = {2};
  iobind_tensor *tensor = NULL;
  iobind__dl_versioned managed = make(NULL, dims, NULL, 1);
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_tensor_from_dlpack(runtime, &managed, 0, &tensor, &fault));
  expect_words("tensor_from_dlpack: data is NULL");
  assert_null(tensor);
}

/* The elements of these dims have no number, and neither have their strides. */
static void dims_that_overflow(void **state) {
  (void)state;
  static float value;
  const int64_t large = INT64_C(1) << 62;
  int64_t dims[] = {large, large};
  int64_t dense[] = {large, 1};
  int64_t apart[] = {1, 1};
  int64_t *const strides[] = {dense, apart, NULL};
  for (size_t i = 0; i < sizeof strides / sizeof strides[0]; i++) {
    iobind_tensor *tensor = NULL;
    iobind__dl_versioned managed = make(&value, dims, strides[i], 2);
    expect(IOBIND_ERROR_SHAPE, iobind_tensor_from_dlpack(runtime, &managed, 0, &tensor, &fault));
    assert_null(tensor);
    expect(IOBIND_ERROR_SHAPE, iobind_tensor_from_dlpack(runtime, &managed, IOBIND_DLPACK_COPY_STRIDED, &tensor, &fault));
    assert_null(tensor);
  }
  assert_int_equal(deleted, 0);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(no_memory_behind_strides),
    cmocka_unit_test(no_elements_behind_strides),
    cmocka_unit_test(no_memory),
    cmocka_unit_test(dims_that_overflow),
};

FIXTURE_MAIN(tests, stage_open, stage_close);
