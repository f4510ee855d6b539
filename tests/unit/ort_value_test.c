/* OrtValues over tensors, tensors over OrtValues: what each side keeps alive, and what is refused. */
#include "fixture.h"

#include <pthread.h>
#include <string.h>

#include "iobind/interop.h"
#include "tensor/tensor.h"
#include "../rig/calls.h"
#include "stage.h"

static const OrtApi *api;

static int open_runtime(void **state) {
  (void)stage_open(state);
  iobind_ort ort = IOBIND_ORT_INIT;
  expect_ok(iobind_runtime_get_ort(runtime, &ort, &fault));
  api = ort.api;
  return 0;
}

enum { COUNT = 4 };
static const float values[COUNT] = {1, 2, 3, 4};
static const char *const specs[] = {"cpu", "vdev:0"};
enum { SPECS = sizeof specs / sizeof specs[0] };

static void *release_value(void *value) {
  api->ReleaseValue(value);
  return NULL;
}

/* The tensor's owner releases it, and the memory remains until ORT releases its last value of it, on another thread. */
static void value_keeps_the_tensor(void **state) {
  (void)state;
  static const int64_t dims[] = {2, 2};
  for (size_t i = 0; i < SPECS; i++) {
    device = fixture_device(runtime, specs[i]);
    fixture_deleted deleted = {0, NULL};
    iobind_tensor *tensor;
    iobind_tensor *wrapped;
    iobind_tensor *memory = fixture_floats(device, values, COUNT);
    void *address = iobind_tensor_get_address(memory);
    void *value;
    expect_ok(call_tensor_wrap(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 2, address, sizeof values,
                               fixture_deleter, &deleted, &tensor, &fault));
    expect_ok(iobind_tensor_to_ort(tensor, &value, &fault));
    iobind_tensor_release(tensor);
    assert_int_equal(deleted.count, 0);
    void *data;
    const OrtMemoryInfo *info;
    ONNXTensorElementDataType type;
    const int64_t *shape;
    size_t rank;
    assert_null(api->GetTensorMutableData(value, &data));
    assert_null(api->GetTensorMemoryInfo(value, &info));
    assert_null(api->GetTensorElementTypeAndShapeDataReference(value, &type, &shape, &rank));
    assert_ptr_equal(data, address);
    assert_true(iobind__same_memory(runtime, info, memory->place->info));
    assert_int_equal(type, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT);
    assert_int_equal(rank, 2);
    assert_memory_equal(shape, dims, sizeof dims);
    expect_ok(iobind_tensor_wrap_ort(runtime, value, NULL, NULL, &wrapped, &fault)); /* and back */
    fixture_expect_floats(wrapped, values, COUNT);
    iobind_tensor_release(wrapped);
    pthread_t thread;
    assert_int_equal(deleted.count, 0);
    assert_int_equal(pthread_create(&thread, NULL, release_value, value), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(deleted.count, 1);
    iobind_tensor_release(memory);
  }
}

static void give_value_back(void *context, void *value) {
  (*(int *)context)++;
  api->ReleaseValue(value);
}

/* A tensor over ORT's own value: the same memory, and the value is released with the last use of the tensor. */
static void tensor_over_a_value(void **state) {
  (void)state;
  static const int64_t dims[] = {COUNT};
  for (size_t i = 0; i < SPECS; i++) {
    device = fixture_device(runtime, specs[i]);
    iobind_session *session = fixture_session(runtime, device, "add dims=n");
    iobind_binding *binding;
    iobind_tensor *tensor;
    iobind_tensor *z;
    OrtAllocator *allocator;
    OrtValue *value;
    int returned = 0;
    static const float twice[] = {2, 4, 6, 8};
    iobind_tensor_release(fixture_floats(device, values, COUNT)); /* so that there is an allocator */
    allocator = atomic_load(&device->places[IOBIND_MEMORY_DEFAULT].allocator);
    assert_null(api->CreateTensorAsOrtValue(allocator, dims, 1, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &value));
    expect_ok(iobind_tensor_wrap_ort(runtime, value, give_value_back, &returned, &tensor, &fault));
    void *data;
    assert_null(api->GetTensorMutableData(value, &data));
    assert_ptr_equal(iobind_tensor_get_address(tensor), data);
    iobind_tensor_info info = {.struct_size = sizeof info};
    expect_ok(iobind_tensor_get_info(tensor, &info, &fault));
    assert_ptr_equal(info.device, device);
    assert_int_equal(info.rank, 1);
    assert_int_equal(info.dims[0], COUNT);
    expect_ok(iobind_tensor_write(tensor, 0, values, sizeof values, NULL, &fault));
    expect_ok(iobind_binding_create(session, &binding, &fault));
    expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, tensor, NULL, &fault));
    expect_ok(iobind_binding_set_input(binding, 1, IOBIND_INPUT_RESIDENT, tensor, NULL, &fault));
    iobind_tensor_release(tensor);
    expect_ok(iobind_binding_run(binding, NULL, &fault));
    expect_ok(iobind_binding_take_output(binding, 0, &z, &fault));
    fixture_expect_floats(z, twice, COUNT);
    assert_int_equal(returned, 0);
    iobind_binding_destroy(binding);
    assert_int_equal(returned, 1);
    iobind_tensor_release(z);
    iobind_session_destroy(session);
  }
}

/* ORT runs the session itself, on a value that iobind has made. */
static void ort_runs_with_both(void **state) {
  (void)state;
  device = fixture_device(runtime, "vdev:0");
  iobind_session *session = fixture_session(runtime, device, "add dims=n");
  iobind_tensor *x = fixture_floats(device, values, COUNT);
  iobind_tensor *z;
  static const float twice[] = {2, 4, 6, 8};
  void *value;
  OrtValue *result = NULL;
  static const char *const names[] = {"x", "y"};
  static const char *const outputs[] = {"z"};
  expect_ok(iobind_tensor_to_ort(x, &value, &fault));
  iobind_tensor_release(x);
  const OrtValue *inputs[] = {value, value};
  assert_null(api->Run(iobind_session_get_ort(session), NULL, names, inputs, 2, outputs, 1, &result));
  int returned = 0;
  expect_ok(iobind_tensor_wrap_ort(runtime, result, give_value_back, &returned, &z, &fault));
  fixture_expect_floats(z, twice, COUNT);
  iobind_tensor_release(z);
  assert_int_equal(returned, 1);
  api->ReleaseValue(value);
  iobind_session_destroy(session);
  assert_null(iobind_session_get_ort(NULL));
}

static void nothing_and_strings(void **state) {
  (void)state;
  static const int64_t none[] = {2, 0};
  static const int64_t two[] = {2};
  for (size_t i = 0; i < SPECS; i++) {
    iobind_tensor *tensor;
    iobind_tensor *again;
    void *value;
    expect_ok(iobind_tensor_create(fixture_device(runtime, specs[i]), IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_INT64, none, 2,
                                   &tensor, &fault));
    expect_ok(iobind_tensor_to_ort(tensor, &value, &fault));
    expect_ok(iobind_tensor_wrap_ort(runtime, value, NULL, NULL, &again, &fault));
    assert_true(again->place == tensor->place);
    iobind_tensor_release(tensor);
    assert_null(iobind_tensor_get_address(again));
    assert_int_equal(again->dims[1], 0);
    iobind_tensor_release(again);
    api->ReleaseValue(value);
  }
  iobind_tensor *strings;
  iobind_tensor *copy;
  void *value;
  char text[16];
  size_t length;
  int returned = 0;
  expect_ok(iobind_tensor_create(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_STRING, two, 1, &strings, &fault));
  expect_ok(iobind_tensor_set_string(strings, 1, "the second", &fault));
  expect_ok(iobind_tensor_to_ort(strings, &value, &fault));
  expect_ok(iobind_tensor_set_string(strings, 1, "changed", &fault));
  iobind_tensor_release(strings);
  expect_ok(iobind_tensor_wrap_ort(runtime, value, give_value_back, &returned, &copy, &fault));
  expect_ok(iobind_tensor_get_string(copy, 1, text, sizeof text, &length, &fault));
  assert_int_equal(length, 10);
  assert_memory_equal(text, "the second", length);
  iobind_tensor_release(copy);
  assert_int_equal(returned, 1);
}

static void refused(void **state) {
  (void)state;
  iobind_tensor *tensor = fixture_floats(cpu, values, COUNT);
  iobind_tensor *out = tensor;
  void *value = tensor;
  int returned = 0;
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_tensor_to_ort(NULL, &value, &fault));
  assert_null(value);
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_tensor_to_ort(tensor, NULL, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_tensor_wrap_ort(runtime, NULL, NULL, NULL, &out, &fault));
  assert_null(out);
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_tensor_wrap_ort(NULL, tensor, NULL, NULL, &out, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_tensor_wrap_ort(runtime, tensor, NULL, NULL, NULL, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_runtime_get_ort(NULL, NULL, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_runtime_get_ort(runtime, NULL, &fault));
  tensor->read_only = true;
  expect(IOBIND_ERROR_NOT_SUPPORTED, iobind_tensor_to_ort(tensor, &value, &fault));
  expect_words("read-only");
  tensor->read_only = false;

  /* a sequence is no tensor */
  expect_ok(iobind_tensor_to_ort(tensor, &value, &fault));
  OrtValue *sequence = NULL;
  const OrtValue *elements[] = {value};
  assert_null(api->CreateValue(elements, 1, ONNX_TYPE_SEQUENCE, &sequence));
  expect(IOBIND_ERROR_NOT_SUPPORTED, iobind_tensor_wrap_ort(runtime, sequence, give_value_back, &returned, &out, &fault));
  expect_words("holds a tensor");
  assert_null(out);
  api->ReleaseValue(sequence);
  api->ReleaseValue(value);

  /* memory that no device has: a vendor's whose EP is not there */
  OrtMemoryInfo *info;
  static const int64_t dims[] = {COUNT};
  float memory[COUNT];
  assert_null(api->CreateMemoryInfo_V2("Elsewhere", OrtMemoryInfoDeviceType_GPU, 0x4711, 3, OrtDeviceMemoryType_DEFAULT, 0,
                                       OrtDeviceAllocator, &info));
  assert_null(api->CreateTensorWithDataAsOrtValue(info, memory, sizeof memory, dims, 1, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT,
                                                  &sequence));
  expect(IOBIND_ERROR_WRONG_DEVICE, iobind_tensor_wrap_ort(runtime, sequence, give_value_back, &returned, &out, &fault));
  expect_words("'Elsewhere'");
  api->ReleaseValue(sequence);
  api->ReleaseMemoryInfo(info);
  assert_int_equal(returned, 0);
  iobind_tensor_release(tensor);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(value_keeps_the_tensor),
    cmocka_unit_test(tensor_over_a_value),
    cmocka_unit_test(ort_runs_with_both),
    cmocka_unit_test(nothing_and_strings),
    cmocka_unit_test(refused),
};

FIXTURE_MAIN(cases, open_runtime, stage_close);
