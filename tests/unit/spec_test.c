/* Device specs: every form, every mistake, and which device of a list is taken. */
#include "stage.h"

#include <stdio.h>
#include <string.h>

#include "vdev.h"

static iobind_device *find(const char *spec) {
  device = NULL;
  iobind_memory memory = (iobind_memory)9;
  expect_ok(iobind_runtime_find_device(runtime, spec, &device, &memory, &fault));
  assert_int_equal(memory, IOBIND_MEMORY_DEFAULT);
  if (strstr(spec, "/pinned") == NULL) {
    iobind_device *again = NULL;
    expect_ok(iobind_runtime_find_device(runtime, spec, &again, NULL, &fault));
    assert_ptr_equal(again, device);
  }
  return device;
}

static void expect_no_device(iobind_status status, const char *spec) {
  device = cpu;
  iobind_memory memory = IOBIND_MEMORY_DEFAULT;
  expect(status, iobind_runtime_find_device(runtime, spec, &device, &memory, &fault));
  assert_null(device);
}

static void cpu_is_number_0(void **state) {
  (void)state;
  static const char *const specs[] = {"cpu", "cpu:0", "ep=CPUExecutionProvider", "ep=CPUExecutionProvider:0"};
  for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
    assert_ptr_equal(find(specs[i]), cpu);
  }
  iobind_device_info info = IOBIND_DEVICE_INFO_INIT;
  expect_ok(iobind_device_get_info(cpu, &info, &fault));
  assert_string_equal(info.spec, "cpu");
  assert_true((info.flags & IOBIND_DEVICE_HOST_MEMORY) != 0);
  assert_true((info.flags & (IOBIND_DEVICE_GPU_MEMORY | IOBIND_DEVICE_NPU_MEMORY)) == 0);
}

static void every_device_is_found_by_its_spec(void **state) {
  (void)state;
  iobind_runtime_info all = IOBIND_RUNTIME_INFO_INIT;
  expect_ok(iobind_runtime_get_info(runtime, &all, &fault));
  for (size_t i = 0; i < all.device_count; i++) {
    device = iobind_runtime_get_device(runtime, i);
    iobind_device_info info = IOBIND_DEVICE_INFO_INIT;
    expect_ok(iobind_device_get_info(device, &info, &fault));
    if (iobind_device_check(device, NULL) != IOBIND_ERROR_WRONG_DEVICE) {
      assert_ptr_equal(find(info.spec), device);
    }
  }
  assert_null(iobind_runtime_get_device(runtime, all.device_count));
  assert_null(iobind_runtime_get_device(runtime, SIZE_MAX));
}

/* The software GPU sits on the CPU's hardware; what makes it a GPU is its memory. */
static void gpu_is_what_has_gpu_memory(void **state) {
  (void)state;
  iobind_device *webgpu = fixture_device(runtime, "webgpu");
  assert_ptr_equal(find("webgpu:0"), webgpu);
  assert_ptr_equal(find("ep=WebGpuExecutionProvider"), webgpu);
  iobind_device_info info = IOBIND_DEVICE_INFO_INIT;
  expect_ok(iobind_device_get_info(webgpu, &info, &fault));
  assert_true((info.flags & IOBIND_DEVICE_GPU_MEMORY) != 0);
  assert_true((info.flags & (IOBIND_DEVICE_HOST_MEMORY | IOBIND_DEVICE_ADDRESSABLE)) == 0);
  iobind_device *gpu = find("gpu");
  iobind_device_info gpu_info = IOBIND_DEVICE_INFO_INIT;
  expect_ok(iobind_device_get_info(gpu, &gpu_info, &fault));
  assert_true((gpu_info.flags & IOBIND_DEVICE_GPU_MEMORY) != 0 || gpu_info.hardware == IOBIND_HARDWARE_GPU);
  if (info.hardware == IOBIND_HARDWARE_CPU) {
    char vendor[32];
    snprintf(vendor, sizeof vendor, "vendor=0x%x", info.vendor_id);
    assert_ptr_equal(find(vendor), webgpu); /* the CPU has the same vendor, and is not meant */
    snprintf(vendor, sizeof vendor, "vendor=0X%08X:0", info.vendor_id);
    assert_ptr_equal(find(vendor), webgpu);
    snprintf(vendor, sizeof vendor, "vendor=0x%x:1", info.vendor_id);
    expect_no_device(IOBIND_ERROR_NOT_FOUND, vendor);
  }
}

static void first_that_works(void **state) {
  (void)state;
  static const char *const lists[] = {"cpu,webgpu",  "cuda:7,cpu",      "webgpu:7,dml,cpu", "vendor=0xfffe,cpu",
                                      "ep=None,cpu", "cuda/pinned,cpu", "cpu/pinned,cpu",   "cpu,cpu"};
  for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
    assert_ptr_equal(find(lists[i]), cpu);
  }
  iobind_device *webgpu = fixture_device(runtime, "webgpu");
  const iobind_status computes = iobind_device_check(webgpu, &fault);
  assert_ptr_equal(find("dml,webgpu,cpu"), computes == IOBIND_OK ? webgpu : cpu);
  assert_ptr_equal(find("dml,webgpu"), webgpu); /* the only one that works */
}

/* WebGPU's EP over the software driver has a Conv that is wrong for 33 channels. */
static void webgpu_computes_wrong(void **state) {
  (void)state;
  iobind_device *webgpu = fixture_device(runtime, "webgpu");
  if (iobind_device_check(webgpu, &fault) == IOBIND_OK) {
    print_message("this WebGPU computes right\n");
    skip();
  }
  expect_words("device_check: webgpu:0 computes wrong: Conv with 33 channels");
  assert_null(strstr(fault.message, "MatMul"));
  expect(IOBIND_ERROR_RESULT, iobind_device_check(webgpu, &fault)); /* remembered */
  assert_ptr_equal(find("webgpu"), webgpu);
}

/* None there: NOT_FOUND. Some there, none fit: DEVICE. Each with a reason for each entry. */
static void none_that_works(void **state) {
  (void)state;
  expect_no_device(IOBIND_ERROR_NOT_FOUND, "dml");
  expect_words("dml: not found");
  expect_no_device(IOBIND_ERROR_NOT_FOUND, "cpu:1");
  expect_no_device(IOBIND_ERROR_NOT_FOUND, "vendor=0xfffe,ep=None:3");
  expect_words("vendor=0xfffe: not found");
  expect_words("ep=None:3: not found");
  expect_no_device(IOBIND_ERROR_WRONG_DEVICE, "cpu/pinned");
  expect_words("host-accessible");
  expect_no_device(IOBIND_ERROR_WRONG_DEVICE, "dml,cpu/pinned");
  expect_words("dml: not found");
}

static void pinned_needs_a_kind_of_memory(void **state) {
  (void)state;
  device = cpu;
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_runtime_find_device(runtime, "cpu/pinned", &device, NULL, &fault));
  assert_null(device);
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_runtime_find_device(runtime, "cpu,cuda/pinned", &device, NULL, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_runtime_find_device(runtime, "cuda_pinned", &device, NULL, &fault));
  expect_no_device(IOBIND_ERROR_NOT_FOUND, "cuda_pinned,dml/pinned");
}

static void mistakes(void **state) {
  (void)state;
  static const char *const specs[] = {
      "",
      ",",
      "cpu,",
      ",cpu",
      "cpu,,cpu",
      "CPU",
      "cpux",
      "cpu:",
      "cpu:-1",
      "cpu:1x",
      "cpu:",
      "cpu:99999999999",
      "cpu: 0",
      " cpu",
      "cpu ",
      "cpu, cpu",
      "ep=",
      "ep",
      "vendor=",
      "vendor=0x",
      "vendor=10de",
      "vendor=0xg",
      "vendor=0x123456789",
      "/pinned",
      "cpu/",
      "cpu/pin",
      "gpu/pinned/pinned",
      "cpu_pinned",
      "cpu/pinned:0",
      "cpu\n",
      ":0",
  };
  for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
    expect_no_device(IOBIND_ERROR_INVALID_ARGUMENT, specs[i]);
    expect_words("not a device spec");
  }
  /* a mistake is reported even after an entry that works: that must not depend on the machine */
  expect_no_device(IOBIND_ERROR_INVALID_ARGUMENT, "cpu,wbegpu");
  expect_words("'wbegpu'");
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_runtime_find_device(runtime, "cpu", NULL, NULL, &fault));
  device = cpu;
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_runtime_find_device(NULL, "cpu", &device, NULL, &fault));
  assert_null(device);
}

static void names_of_ort(void **state) {
  (void)state;
  static const char *const specs[][2] = {{"CUDAExecutionProvider", "cuda"},
                                         {"CUDAExecutionProvider:1", "cuda"},
                                         {"CPUExecutionProvider", "cpu"},
                                         {"cpu,DmlExecutionProvider/pinned", "dml"},
                                         {"CUDA:0", "cuda"},
                                         {"tensorrtexecutionprovider?a=b", "tensorrt"},
                                         {"WebGPU", "webgpu"}};
  for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
    char hint[64];
    snprintf(hint, sizeof hint, "is not a device spec: expected the name '%s'. Examples", specs[i][1]);
    expect_no_device(IOBIND_ERROR_INVALID_ARGUMENT, specs[i][0]);
    expect_words(hint);
  }
  expect_no_device(IOBIND_ERROR_INVALID_ARGUMENT, "NoneExecutionProvider");
  expect_words("its name is not in the EP catalogue");
}

static void long_specs(void **state) {
  (void)state;
  char spec[4096];
  memset(spec, 'x', sizeof spec);
  memcpy(spec, "ep=", 3);
  spec[sizeof spec - 1] = '\0';
  expect_no_device(IOBIND_ERROR_NOT_FOUND, spec);
  for (size_t i = 3; i + 2 < sizeof spec; i += 2) {
    memcpy(spec + i, "\xC3\xA9", 2);
  }
  expect_no_device(IOBIND_ERROR_NOT_FOUND, spec);
  memcpy(spec, "ep", 2);
  spec[2] = 'x';
  expect_no_device(IOBIND_ERROR_INVALID_ARGUMENT, spec);
}

static void metadata(void **state) {
  (void)state;
  iobind_runtime_info all = IOBIND_RUNTIME_INFO_INIT;
  expect_ok(iobind_runtime_get_info(runtime, &all, &fault));
  for (size_t d = 0; d < all.device_count; d++) {
    device = iobind_runtime_get_device(runtime, d);
    iobind_device_info info = IOBIND_DEVICE_INFO_INIT;
    expect_ok(iobind_device_get_info(device, &info, &fault));
    assert_true(info.ep_name[0] != '\0' && info.memory_name[0] != '\0' && info.vendor != NULL && info.ep_vendor != NULL);
    const char *key = NULL;
    const char *value = NULL;
    for (size_t i = 0; i < info.metadata_count; i++) {
      expect_ok(iobind_device_get_metadata(device, i, &key, &value, &fault));
      assert_true(key != NULL && key[0] != '\0' && value != NULL);
    }
    expect(IOBIND_ERROR_NOT_FOUND, iobind_device_get_metadata(device, info.metadata_count, &key, &value, &fault));
    assert_null(key);
    assert_null(value);
  }
}

/* As an EP that needs an option to work: without it no session is made. */
static void options_of_the_check(void **state) {
  (void)state;
  fixture_device(runtime, "vdev");
  vdev_set(0, "fail_session", "every:1");
  device = NULL;
  expect(IOBIND_ERROR_WRONG_DEVICE, iobind_runtime_find_device(runtime, "vdev:0?trace=0", &device, NULL, &fault));
  expect_words("session creation");
  iobind_device *found = find("vdev:0?trace=0&fail_session=0");
  vdev_set(0, "fail_session", "0");
  assert_ptr_equal(found, find("vdev"));
  static const char *const wrong[] = {"vdev?", "vdev?trace", "vdev?=1", "vdev?trace=0&", "vdev?trace=0,vdev?x"};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    expect_no_device(IOBIND_ERROR_INVALID_ARGUMENT, wrong[i]);
    expect_words("KEY=VALUE");
  }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(cpu_is_number_0),
    cmocka_unit_test(every_device_is_found_by_its_spec),
    cmocka_unit_test(gpu_is_what_has_gpu_memory),
    cmocka_unit_test(first_that_works),
    cmocka_unit_test(webgpu_computes_wrong),
    cmocka_unit_test(none_that_works),
    cmocka_unit_test(pinned_needs_a_kind_of_memory),
    cmocka_unit_test(mistakes),
    cmocka_unit_test(names_of_ort),
    cmocka_unit_test(long_specs),
    cmocka_unit_test(options_of_the_check),
    cmocka_unit_test(metadata),
};

FIXTURE_MAIN(tests, stage_open, stage_close);
