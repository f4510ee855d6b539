/* Devices by the vendor of their hardware, as ONNX Runtime and the real WebGPU EP find them: graphics hardware that only seems to be
 * there (with-gpus), over a software driver. Each test needs its own hardware, and is named to the program. */
#include "fixture.h"

static iobind_runtime *runtime;

static int start(void **state) {
  (void)state;
  runtime = fixture_runtime();
  return 0;
}

static int stop(void **state) {
  (void)state;
  iobind_runtime_destroy(runtime);
  return 0;
}

static iobind_device *find(const char *spec) {
  iobind_device *device = NULL;
  expect_ok(iobind_runtime_find_device(runtime, spec, &device, NULL, &fault));
  return device;
}

static void expect_none(iobind_status status, const char *spec) {
  iobind_device *device = NULL;
  expect(status, iobind_runtime_find_device(runtime, spec, &device, NULL, &fault));
  assert_null(device);
}

static void expect_ids(iobind_device *device, uint32_t vendor, uint32_t id, const char *spec) {
  iobind_device_info info = IOBIND_DEVICE_INFO_INIT;
  expect_ok(iobind_device_get_info(device, &info, &fault));
  assert_int_equal(info.vendor_id, vendor);
  assert_int_equal(info.device_id, id);
  assert_int_equal(info.hardware, IOBIND_HARDWARE_GPU);
  assert_string_equal(info.spec, spec);
  assert_string_equal(info.ep_name, "WebGpuExecutionProvider");
}

/* The device is not only listed: a model runs on it, from its memory into its memory. */
static void expect_doubles(iobind_device *device) {
  static const float values[] = {1, 2, 3};
  static const float doubled[] = {2, 4, 6};
  iobind_session *session = fixture_session(runtime, device, "scale");
  iobind_binding *binding = NULL;
  iobind_tensor *x = fixture_floats(device, values, 3);
  iobind_tensor *y = NULL;
  iobind_tensor_info info = IOBIND_TENSOR_INFO_INIT;
  expect_ok(iobind_binding_create(session, &binding, &fault));
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
  expect_ok(iobind_binding_place_output(binding, 0, IOBIND_OUTPUT_FRESH, device, IOBIND_MEMORY_DEFAULT, &fault));
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  expect_ok(iobind_binding_take_output(binding, 0, &y, &fault));
  expect_ok(iobind_tensor_get_info(y, &info, &fault));
  assert_ptr_equal(info.device, device);
  fixture_expect_floats(y, doubled, 3);
  iobind_tensor_release(x);
  iobind_tensor_release(y);
  iobind_binding_destroy(binding);
  iobind_session_destroy(session);
}

/* 0x10de:0x2684 */
static void one_nvidia(void **state) {
  (void)state;
  iobind_device *device = fixture_device(runtime, "vendor=0x10de");
  expect_ids(device, 0x10de, 0x2684, "webgpu:0");
  static const char *const specs[] = {"vendor=0x10de:0",       "webgpu", "gpu", "gpu:0", "vendor=0x1002,vendor=0x10DE",
                                      "cuda,vendor=0x000010de"};
  for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
    assert_ptr_equal(find(specs[i]), device);
  }
  expect_none(IOBIND_ERROR_NOT_FOUND, "vendor=0x10de:1");
  expect_none(IOBIND_ERROR_NOT_FOUND, "vendor=0x1002");
  expect_words("vendor=0x1002: not found");
  expect_none(IOBIND_ERROR_NOT_FOUND, "gpu:1");
  expect_doubles(device);
}

/* 0x1002:0x744c and 0x13b5:0x7093 */
static void two_vendors(void **state) {
  (void)state;
  iobind_device *first = fixture_device(runtime, "vendor=0x1002");
  iobind_device *second = find("vendor=0x13b5");
  expect_ids(first, 0x1002, 0x744c, "webgpu:0");
  expect_ids(second, 0x13b5, 0x7093, "webgpu:1");
  assert_ptr_equal(find("gpu:0"), first);
  assert_ptr_equal(find("gpu:1"), second);
  assert_ptr_equal(find("webgpu:1"), second);
  assert_ptr_equal(find("vendor=0x10de,vendor=0x13b5,vendor=0x1002"), second);
  expect_none(IOBIND_ERROR_NOT_FOUND, "vendor=0x10de");
  expect_doubles(first);
  expect_doubles(second);
}

/* 0x10de:0x2684, but no driver for it: it is there, does not work, and the next of a list is taken. */
static void no_driver(void **state) {
  (void)state;
  iobind_device *device = NULL;
  iobind_status status = iobind_runtime_find_device(runtime, "vendor=0x10de", &device, NULL, NULL);
  if (status == IOBIND_ERROR_NOT_FOUND) {
    print_message("the WebGPU EP is not here\n");
    skip();
  }
  expect_none(IOBIND_ERROR_WRONG_DEVICE, "vendor=0x10de");
  expect_words("webgpu:0: session: "); /* what device_check met, without its name */
  assert_ptr_equal(find("vendor=0x10de,cpu"), iobind_runtime_get_device(runtime, 0));
}

/* nothing */
static void no_gpu(void **state) {
  (void)state;
  expect_none(IOBIND_ERROR_NOT_FOUND, "vendor=0x10de");
  assert_ptr_equal(find("vendor=0x10de,cpu"), iobind_runtime_get_device(runtime, 0));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(one_nvidia),
    cmocka_unit_test(two_vendors),
    cmocka_unit_test(no_driver),
    cmocka_unit_test(no_gpu),
};

FIXTURE_MAIN(tests, start, stop);
