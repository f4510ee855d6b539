/* Tensors by DLPack: handed over, taken over, and what is refused. */
#include "fixture.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "iobind/interop.h"
#include "tensor/dlpack.h"
#include "stage.h"

/* A struct of another library's, over host memory, that counts how often it was deleted. */
typedef struct foreign {
  union {
    iobind__dl_versioned versioned;
    iobind__dl_legacy legacy;
  } managed;
  int64_t dims[4];
  int64_t strides[4];
  int *deleted;
} foreign;

static void delete_versioned(iobind__dl_versioned *self) {
  foreign *owner = self->context;
  (*owner->deleted)++;
  free(owner);
}

static void delete_legacy(iobind__dl_legacy *self) {
  foreign *owner = self->context;
  (*owner->deleted)++;
  free(owner);
}

static foreign *make(void *data, const int64_t *dims, const int64_t *strides, int32_t rank, bool legacy, int *deleted) {
  foreign *made = calloc(1, sizeof *made);
  assert_non_null(made);
  iobind__dl_tensor *tensor = legacy ? &made->managed.legacy.tensor : &made->managed.versioned.tensor;
  if (legacy) {
    made->managed.legacy.context = made;
    made->managed.legacy.deleter = delete_legacy;
  } else {
    made->managed.versioned.major = 1;
    made->managed.versioned.context = made;
    made->managed.versioned.deleter = delete_versioned;
  }
  made->deleted = deleted;
  *tensor = (iobind__dl_tensor){.data = data, .device_type = IOBIND__DL_CPU, .rank = rank, .code = 2, .bits = 32, .lanes = 1};
  tensor->dims = made->dims;
  for (int32_t i = 0; i < rank; i++) {
    made->dims[i] = dims[i];
    made->strides[i] = strides == NULL ? 0 : strides[i];
  }
  tensor->strides = strides == NULL ? NULL : made->strides;
  return made;
}

static const int64_t two_by_three[] = {2, 3};

static void *call_deleter(void *managed) {
  iobind__dl_versioned *versioned = managed;
  versioned->deleter(versioned);
  return NULL;
}

static void what_is_handed_over_outlives_the_tensor(void **state) {
  (void)state;
  static const float values[] = {1, 2, 3, 4, 5, 6};
  iobind_tensor *tensor;
  void *managed;
  expect_ok(iobind_tensor_create(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, two_by_three, 2, &tensor, &fault));
  expect_ok(iobind_tensor_write(tensor, 0, values, sizeof values, NULL, &fault));
  expect_ok(iobind_tensor_to_dlpack(tensor, 0, &managed, &fault));
  void *address = iobind_tensor_get_address(tensor);
  iobind_tensor_release(tensor);
  const iobind__dl_versioned *versioned = managed;
  assert_int_equal(versioned->major, 1);
  assert_int_equal(versioned->flags, 0);
  const iobind__dl_tensor *seen = &versioned->tensor;
  assert_ptr_equal(seen->data, address);
  assert_int_equal(seen->device_type, IOBIND__DL_CPU);
  assert_int_equal(seen->device_id, 0);
  assert_int_equal(seen->code, 2);
  assert_int_equal(seen->bits, 32);
  assert_int_equal(seen->lanes, 1);
  assert_int_equal(seen->rank, 2);
  assert_memory_equal(seen->dims, two_by_three, sizeof two_by_three);
  assert_int_equal(seen->strides[0], 3);
  assert_int_equal(seen->strides[1], 1);
  assert_memory_equal(seen->data, values, sizeof values);
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, call_deleter, managed), 0);
  assert_int_equal(pthread_join(thread, NULL), 0);
}

static void legacy_structs_go_both_ways(void **state) {
  (void)state;
  iobind_tensor *tensor;
  iobind_tensor *again;
  void *managed;
  expect_ok(iobind_tensor_create(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_INT64, two_by_three, 2, &tensor, &fault));
  expect_ok(iobind_tensor_to_dlpack(tensor, IOBIND_DLPACK_LEGACY, &managed, &fault));
  assert_int_equal(((iobind__dl_legacy *)managed)->tensor.code, 0);
  expect_ok(iobind_tensor_from_dlpack(runtime, managed, IOBIND_DLPACK_LEGACY, &again, &fault));
  assert_ptr_equal(iobind_tensor_get_address(again), iobind_tensor_get_address(tensor));
  iobind_tensor_release(tensor);
  memset(iobind_tensor_get_address(again), 0, 48);
  iobind_tensor_release(again);
}

static void every_type_goes_both_ways(void **state) {
  (void)state;
  static const int64_t five = 5;
  for (int32_t dtype = 1; dtype <= IOBIND_DTYPE_FLOAT8E8M0; dtype++) {
    iobind_tensor *tensor = NULL;
    iobind_tensor *again = NULL;
    void *managed;
    if (dtype == IOBIND_DTYPE_STRING ||
        iobind_tensor_create(cpu, IOBIND_MEMORY_DEFAULT, (iobind_dtype)dtype, &five, 1, &tensor, NULL) != IOBIND_OK) {
      continue; /* this ORT has none */
    }
    expect_ok(iobind_tensor_to_dlpack(tensor, 0, &managed, &fault));
    expect_ok(iobind_tensor_from_dlpack(runtime, managed, 0, &again, &fault));
    iobind_tensor_info info = IOBIND_TENSOR_INFO_INIT;
    expect_ok(iobind_tensor_get_info(again, &info, &fault));
    assert_int_equal(info.dtype, dtype);
    assert_int_equal(info.dims[0], 5);
    assert_ptr_equal(iobind_tensor_get_address(again), iobind_tensor_get_address(tensor));
    bool is_new = iobind_dtype_get_bits(dtype) < 8 ||
                  (dtype >= IOBIND_DTYPE_FLOAT8E4M3FN && dtype <= IOBIND_DTYPE_FLOAT8E5M2FNUZ) ||
                  dtype == IOBIND_DTYPE_FLOAT8E8M0;
    expect(is_new ? IOBIND_ERROR_NOT_SUPPORTED : IOBIND_OK,
           iobind_tensor_to_dlpack(tensor, IOBIND_DLPACK_LEGACY, &managed, &fault));
    if (!is_new) {
      ((iobind__dl_legacy *)managed)->deleter(managed);
    }
    iobind_tensor_release(again);
    iobind_tensor_release(tensor);
  }
}

static void dense_strides_are_taken(void **state) {
  (void)state;
  static float data[6];
  static const int64_t dims[] = {1, 2, 3};
  static const int64_t strides[] = {-7, 3, 1}; /* of a dim of 1, which is never stepped over */
  int deleted = 0;
  iobind_tensor *tensor;
  expect_ok(iobind_tensor_from_dlpack(runtime, make(data, dims, strides, 3, false, &deleted), 0, &tensor, &fault));
  assert_ptr_equal(iobind_tensor_get_address(tensor), data);
  iobind_tensor_release(tensor);
  assert_int_equal(deleted, 1);
  foreign *shifted = make(data, &dims[2], NULL, 1, false, &deleted);
  shifted->managed.versioned.tensor.offset = 12;
  expect_ok(iobind_tensor_from_dlpack(runtime, shifted, 0, &tensor, &fault));
  assert_ptr_equal(iobind_tensor_get_address(tensor), data + 3);
  iobind_tensor_release(tensor);
  assert_int_equal(deleted, 2);
}

static void other_strides_are_refused_or_copied(void **state) {
  (void)state;
  float data[] = {1, 2, 3, 4, 5, 6};
  static const int64_t dims[] = {3, 2};
  static const int64_t transposed[] = {1, 3};
  int deleted = 0;
  iobind_tensor *tensor;
  foreign *strided = make(data, dims, transposed, 2, false, &deleted);
  expect(IOBIND_ERROR_SHAPE, iobind_tensor_from_dlpack(runtime, strided, 0, &tensor, &fault));
  expect_words("make the array dense");
  assert_int_equal(deleted, 0); /* still the caller's */
  expect_ok(iobind_tensor_from_dlpack(runtime, strided, IOBIND_DLPACK_COPY_STRIDED, &tensor, &fault));
  assert_int_equal(deleted, 1); /* it is not needed any more */
  static const float expected[] = {1, 4, 2, 5, 3, 6};
  assert_memory_equal(iobind_tensor_get_address(tensor), expected, sizeof expected);
  iobind_tensor_release(tensor);
  static const int64_t backwards[] = {-1};
  static const int64_t six = 6;
  foreign *reversed = make(data + 5, &six, backwards, 1, true, &deleted);
  expect_ok(iobind_tensor_from_dlpack(runtime, reversed, IOBIND_DLPACK_LEGACY | IOBIND_DLPACK_COPY_STRIDED, &tensor, &fault));
  assert_int_equal(deleted, 2);
  assert_true(((float *)iobind_tensor_get_address(tensor))[0] == 6.0F &&
              ((float *)iobind_tensor_get_address(tensor))[5] == 1.0F);
  iobind_tensor_release(tensor);
}

static void nothing_and_scalars(void **state) {
  (void)state;
  static const int64_t none[] = {2, 0, 3};
  static const int64_t any[] = {9, 9, 9};
  int deleted = 0;
  iobind_tensor *tensor;
  void *managed;
  expect_ok(iobind_tensor_from_dlpack(runtime, make(NULL, none, any, 3, false, &deleted), 0, &tensor, &fault));
  expect_ok(iobind_tensor_to_dlpack(tensor, 0, &managed, &fault));
  assert_null(((iobind__dl_versioned *)managed)->tensor.data);
  assert_int_equal(((iobind__dl_versioned *)managed)->tensor.dims[1], 0);
  ((iobind__dl_versioned *)managed)->deleter(managed);
  iobind_tensor_release(tensor);
  float one = 1;
  foreign *scalar = make(&one, NULL, NULL, 0, false, &deleted);
  scalar->managed.versioned.tensor.dims = NULL;
  scalar->managed.versioned.deleter = NULL;
  expect_ok(iobind_tensor_from_dlpack(runtime, scalar, 0, &tensor, &fault));
  iobind_tensor_info info = IOBIND_TENSOR_INFO_INIT;
  expect_ok(iobind_tensor_get_info(tensor, &info, &fault));
  assert_int_equal(info.rank, 0);
  iobind_tensor_release(tensor);
  free(scalar);
  assert_int_equal(deleted, 1);
}

static void read_only_memory_is_not_written(void **state) {
  (void)state;
  static float data[6];
  static const float values[6] = {1};
  int deleted = 0;
  iobind_tensor *tensor;
  iobind_tensor *part;
  iobind_tensor *other;
  void *managed;
  foreign *locked = make(data, two_by_three, NULL, 2, false, &deleted);
  locked->managed.versioned.flags = IOBIND__DL_READ_ONLY;
  expect_ok(iobind_tensor_from_dlpack(runtime, locked, 0, &tensor, &fault));
  iobind_tensor_info info = IOBIND_TENSOR_INFO_INIT;
  expect_ok(iobind_tensor_get_info(tensor, &info, &fault));
  assert_int_equal(info.read_only, 1);
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_tensor_write(tensor, 0, values, sizeof values, NULL, &fault));
  expect_words("read-only");
  expect_ok(iobind_tensor_slice(tensor, 1, 1, &part, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_tensor_write(part, 0, values, 4, NULL, &fault));
  expect_ok(iobind_tensor_create(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, two_by_three, 2, &other, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT,
         iobind_tensor_copy((const iobind_tensor *const[]){other}, (iobind_tensor *const[]){tensor}, 1, NULL, &fault));
  expect(IOBIND_ERROR_NOT_SUPPORTED, iobind_tensor_to_dlpack(tensor, IOBIND_DLPACK_LEGACY, &managed, &fault));
  expect_ok(iobind_tensor_to_dlpack(part, 0, &managed, &fault));
  assert_int_equal(((iobind__dl_versioned *)managed)->flags, IOBIND__DL_READ_ONLY);
  iobind_tensor_release(tensor);
  iobind_tensor_release(part);
  assert_int_equal(deleted, 0);
  ((iobind__dl_versioned *)managed)->deleter(managed);
  assert_int_equal(deleted, 1);
  iobind_tensor_release(other);
}

static void a_binding_does_not_write_read_only_memory(void **state) {
  (void)state;
  static float data[2];
  static const int64_t two = 2;
  static const float values[] = {1, 2};
  int deleted = 0;
  iobind_tensor *locked;
  foreign *managed = make(data, &two, NULL, 1, false, &deleted);
  managed->managed.versioned.flags = IOBIND__DL_READ_ONLY;
  expect_ok(iobind_tensor_from_dlpack(runtime, managed, 0, &locked, &fault));
  iobind_session *session = fixture_session(runtime, NULL, "add");
  iobind_binding *binding;
  expect_ok(iobind_binding_create(session, &binding, &fault));
  iobind_tensor *given = fixture_floats(cpu, values, 2);
  expect_ok(iobind_binding_set_output(binding, 0, given, 0, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_binding_set_output(binding, 0, locked, 0, &fault));
  expect_words("read-only");
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, locked, NULL, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_binding_write_input(binding, 0, values, sizeof values, NULL, &fault));
  expect_ok(iobind_binding_set_input(binding, 1, IOBIND_INPUT_RESIDENT, locked, NULL, &fault));
  expect_ok(iobind_binding_run(binding, NULL, &fault)); /* it may be read */
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_binding_carry(binding, 0, 0, IOBIND_CARRY_IN_PLACE, &fault));
  expect_words("read-only");
  iobind_tensor_release(given);
  iobind_tensor_release(locked);
  iobind_binding_destroy(binding);
  iobind_session_destroy(session);
  assert_int_equal(deleted, 1);
}

/* A struct that is wrong in one field: refused, and still the caller's. */
static void refuse(foreign *wrong, iobind_status status, const char *words) {
  iobind_tensor *tensor;
  expect(status, iobind_tensor_from_dlpack(runtime, wrong, 0, &tensor, &fault));
  expect_words(words);
  assert_null(tensor);
  wrong->managed.versioned.deleter(&wrong->managed.versioned);
}

static void what_is_refused(void **state) {
  (void)state;
  static float data[6];
  int deleted = 0;
  iobind_tensor *tensor;
  void *managed;
#define WRONG(field, value, status, words)                               \
  do {                                                                   \
    foreign *wrong = make(data, two_by_three, NULL, 2, false, &deleted); \
    wrong->managed.versioned.field = (value);                            \
    refuse(wrong, status, words);                                        \
  } while (0)
  WRONG(major, 2, IOBIND_ERROR_VERSION, "expected a struct of DLPack 1, got 2.0");
  WRONG(tensor.device_type, IOBIND__DL_ROCM, IOBIND_ERROR_WRONG_DEVICE, "device type 10");
  WRONG(tensor.code, 99, IOBIND_ERROR_DTYPE, "code 99 with 32 bits");
  WRONG(tensor.bits, 24, IOBIND_ERROR_DTYPE, "code 2 with 24 bits");
  WRONG(tensor.lanes, 4, IOBIND_ERROR_DTYPE, "vectors of 4");
  WRONG(tensor.rank, -1, IOBIND_ERROR_SHAPE, "got -1");
  WRONG(tensor.rank, IOBIND_MAX_RANK + 1, IOBIND_ERROR_SHAPE, "got 17");
  WRONG(tensor.dims, NULL, IOBIND_ERROR_SHAPE, "expected 0 to 16 dims");
  WRONG(tensor.data, NULL, IOBIND_ERROR_INVALID_ARGUMENT, "data is NULL");
  foreign *negative = make(data, two_by_three, NULL, 2, false, &deleted);
  negative->dims[0] = -2;
  refuse(negative, IOBIND_ERROR_SHAPE, "dims of 0 or more");
#undef WRONG
  foreign *padded = make(data, two_by_three, NULL, 2, false, &deleted);
  padded->managed.versioned.flags = IOBIND__DL_SUBBYTE_PADDED;
  padded->managed.versioned.tensor.code = 1;
  padded->managed.versioned.tensor.bits = 4;
  refuse(padded, IOBIND_ERROR_NOT_SUPPORTED, "expected packed elements of 4 bits");
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_tensor_from_dlpack(runtime, NULL, 0, &tensor, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_tensor_from_dlpack(NULL, data, 0, &tensor, &fault));
  expect(IOBIND_ERROR_NOT_SUPPORTED, iobind_tensor_from_dlpack(runtime, data, 4, &tensor, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_tensor_to_dlpack(NULL, 0, &managed, &fault));
  static const int64_t one = 1;
  expect_ok(iobind_tensor_create(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_STRING, &one, 1, &tensor, &fault));
  expect(IOBIND_ERROR_NOT_SUPPORTED, iobind_tensor_to_dlpack(tensor, 0, &managed, &fault));
  expect_words("string");
  assert_null(managed);
  expect(IOBIND_ERROR_NOT_SUPPORTED, iobind_tensor_to_dlpack(tensor, 2, &managed, &fault));
  iobind_tensor_release(tensor);
}

/* A device's memory has that device's type, and is imported as the same device's. */
static void round_trip(const char *spec, int32_t expected_default, int32_t expected_pinned) {
  device = fixture_device(runtime, spec);
  static const int64_t four = 4;
  static const float values[] = {1, 2, 3, 4};
  for (int memory = IOBIND_MEMORY_DEFAULT; memory <= IOBIND_MEMORY_HOST_ACCESSIBLE; memory++) {
    iobind_tensor *tensor;
    iobind_tensor *again;
    void *managed;
    if (iobind_tensor_create(device, (iobind_memory)memory, IOBIND_DTYPE_FLOAT32, &four, 1, &tensor, NULL) != IOBIND_OK) {
      continue; /* it has no such memory */
    }
    expect_ok(iobind_tensor_write(tensor, 0, values, sizeof values, NULL, &fault));
    expect_ok(iobind_tensor_to_dlpack(tensor, 0, &managed, &fault));
    const iobind__dl_versioned *versioned = managed;
    assert_int_equal(versioned->tensor.device_type, memory == IOBIND_MEMORY_DEFAULT ? expected_default : expected_pinned);
    assert_ptr_equal(versioned->tensor.data, iobind_tensor_get_address(tensor));
    expect_ok(iobind_tensor_from_dlpack(runtime, managed, 0, &again, &fault));
    iobind_tensor_release(tensor);
    float got[4];
    expect_ok(iobind_tensor_read(again, 0, got, sizeof got, NULL, &fault));
    assert_memory_equal(got, values, sizeof values);
    iobind_tensor_release(again);
  }
}

static void memory_of_vdev(void **state) {
  (void)state;
  round_trip("vdev", IOBIND__DL_EXT_DEV, IOBIND__DL_CPU);
  int deleted = 0;
  iobind_tensor *tensor;
  static float data[4];
  static const int64_t dims[] = {2, 2};
  static const int64_t strides[] = {1, 2};
  foreign *strided = make(data, dims, strides, 2, false, &deleted);
  strided->managed.versioned.tensor.device_type = IOBIND__DL_EXT_DEV;
  expect(IOBIND_ERROR_NOT_SUPPORTED, iobind_tensor_from_dlpack(runtime, strided, IOBIND_DLPACK_COPY_STRIDED, &tensor, &fault));
  expect_words("only host memory");
  strided->managed.versioned.tensor.device_id = 7;
  refuse(strided, IOBIND_ERROR_WRONG_DEVICE, "number 7");
}

static void memory_of_webgpu(void **state) {
  (void)state;
  round_trip("webgpu", IOBIND__DL_WEBGPU, IOBIND__DL_CPU);
}

static void memory_of_cuda(void **state) {
  (void)state;
  round_trip("cuda", IOBIND__DL_CUDA, IOBIND__DL_CUDA_HOST);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(what_is_handed_over_outlives_the_tensor),
    cmocka_unit_test(legacy_structs_go_both_ways),
    cmocka_unit_test(every_type_goes_both_ways),
    cmocka_unit_test(dense_strides_are_taken),
    cmocka_unit_test(other_strides_are_refused_or_copied),
    cmocka_unit_test(nothing_and_scalars),
    cmocka_unit_test(read_only_memory_is_not_written),
    cmocka_unit_test(a_binding_does_not_write_read_only_memory),
    cmocka_unit_test(what_is_refused),
    cmocka_unit_test(memory_of_vdev),
    cmocka_unit_test(memory_of_webgpu),
    cmocka_unit_test(memory_of_cuda),
};
FIXTURE_MAIN(cases, stage_open, stage_close);
