/* Two copies of ONNX Runtime in one process: the library serves one at a time, and refuses the other with the reason. */
#define _GNU_SOURCE /* dladdr */
#include "rig.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ort_ep.h"

OrtStatus *CreateEpFactories(const char *name, const OrtApiBase *base, const OrtLogger *logger, OrtEpFactory **factories,
                             size_t most, size_t *count);
OrtStatus *ReleaseEpFactory(OrtEpFactory *factory);

static const char another[] = "another copy of ONNX Runtime in this process has registered this library";

/* What the rig has of the first copy, for the second. */
static struct {
  const OrtApiBase *base;
  const OrtApi *api;
  OrtEnv *env;
} second;

static char library[1024]; /* the file of the plugin */

static int open_second(void **state) {
  (void)state;
  const char *folder = getenv("TEST_SECOND_ORT");
  assert_non_null(folder);
  char path[1024];
  snprintf(path, sizeof path, "%s/libonnxruntime.so", folder);
  void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (handle == NULL) {
    fail_msg("%s", dlerror());
  }
  OrtGetApiBaseFunction get_base;
  *(void **)&get_base = dlsym(handle, "OrtGetApiBase");
  second.base = get_base();
  second.api = second.base->GetApi(ORT_API_OLDEST);
  assert_non_null(second.api);
  second.api->CreateEnv(ORT_LOGGING_LEVEL_FATAL, "second", &second.env);
  assert_non_null(second.env);
  Dl_info info;
  assert_int_not_equal(dladdr((void *)(uintptr_t)vdev_device_count, &info), 0);
  snprintf(library, sizeof library, "%s", info.dli_fname);
  return 0;
}

static int close_second(void **state) {
  (void)state;
  second.api->ReleaseEnv(second.env);
  return 0;
}

static void expect_refusal(OrtStatus *status, const char *words) {
  assert_non_null(status);
  if (strstr(second.api->GetErrorMessage(status), words) == NULL) {
    fail_msg("no '%s' in '%s'", words, second.api->GetErrorMessage(status));
  }
  second.api->ReleaseStatus(status);
}

static void expect_second_ok(OrtStatus *status) {
  if (status != NULL) {
    fail_msg("%s", second.api->GetErrorMessage(status));
  }
}

static void use_first(void) {
  float in[4] = {1, 2, 3, 4};
  float out[4] = {0};
  OrtSession *session = rig_session("scale", 0);
  const char *names[] = {"x", "y"};
  OrtValue *x = rig_host_tensor(in, 4);
  OrtValue *y = rig_host_tensor(out, 4);
  ok(rig.api->Run(session, NULL, names, (const OrtValue *const *)&x, 1, names + 1, 1, &y));
  assert_true(out[3] == 8);
  rig.api->ReleaseSession(session);
  rig.api->ReleaseValue(x);
  rig.api->ReleaseValue(y);
}

/* The virtual devices that the second copy has. */
static size_t second_devices(const OrtEpDevice **out) {
  const OrtEpDevice *const *devices = NULL;
  size_t count = 0;
  size_t found = 0;
  expect_second_ok(second.api->GetEpDevices(second.env, &devices, &count));
  for (size_t i = 0; i < count; i++) {
    if (strcmp(second.api->EpDevice_EpName(devices[i]), "VirtualDeviceExecutionProvider") == 0) {
      *out = devices[i];
      found++;
    }
  }
  return found;
}

/* One allocation, and how many its device had before. */
static int64_t use_second(void) {
  const OrtEpDevice *device = NULL;
  OrtAllocator *allocator = NULL;
  OrtValue *value = NULL;
  OrtKeyValuePairs *statistics = NULL;
  const int64_t dims[] = {4};
  assert_int_equal(second_devices(&device), 1);
  expect_second_ok(second.api->GetSharedAllocator(
      second.env, second.api->EpDevice_MemoryInfo(device, OrtDeviceMemoryType_DEFAULT), &allocator));
  expect_second_ok(second.api->CreateTensorAsOrtValue(allocator, dims, 1, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &value));
  second.api->ReleaseValue(value);
  expect_second_ok(allocator->GetStats(allocator, &statistics));
  int64_t allocations = atoll(second.api->GetKeyValue(statistics, "NumAllocs"));
  second.api->ReleaseKeyValuePairs(statistics);
  return allocations - 1;
}

/* While the first copy has the library, the second is refused; afterwards it is the other way round. */
static void test_one_at_a_time(void **state) {
  (void)state;
  const OrtEpDevice *device = NULL;
  rig_open(NULL);
  for (int i = 0; i < 2; i++) {
    expect_refusal(second.api->RegisterExecutionProviderLibrary(second.env, "vdev", library), another);
    assert_int_equal(second_devices(&device), 0);
    use_first();
  }
  rig_close(NULL);
  expect_second_ok(second.api->RegisterExecutionProviderLibrary(second.env, "vdev", library));
  assert_int_equal(use_second(), 0);
  refused(another, rig_register("vdev"));
  assert_int_equal(use_second(), 1);
  expect_second_ok(second.api->UnregisterExecutionProviderLibrary(second.env, "vdev"));
  rig.api->ReleaseMemoryInfo(rig.host);
  rig.api->ReleaseEnv(rig.env);
  rig.api = NULL;
}

/* The second one has a factory and has not yet asked it for devices when the first registers. */
static void test_between_asking_and_taking(void **state) {
  (void)state;
  OrtEpFactory *factory = NULL;
  OrtEpDevice *devices[8];
  size_t count = 0;
  expect_second_ok(CreateEpFactories("vdev", second.base, NULL, &factory, 1, &count));
  assert_int_equal(count, 1);
  rig_open(NULL);
  expect_refusal(factory->GetSupportedDevices(factory, NULL, 0, devices, 8, &count), another);
  assert_int_equal(count, 0);
  expect_second_ok(ReleaseEpFactory(factory));
  assert_int_equal(vdev_device_count(), 1);
  use_first();
  rig_close(NULL);
}

static void copy_file(const char *from, const char *to) {
  static char bytes[1 << 16];
  FILE *source = fopen(from, "rb");
  FILE *target = fopen(to, "wb");
  assert_non_null(source);
  assert_non_null(target);
  for (size_t size; (size = fread(bytes, 1, sizeof bytes, source)) > 0;) {
    assert_int_equal(fwrite(bytes, 1, size, target), size);
  }
  fclose(source);
  assert_int_equal(fclose(target), 0);
}

/* A copy of the file is a library of its own, whatever symbols the program has. */
static void test_copy_of_the_file(void **state) {
  (void)state;
  const char *copy = getenv("TEST_COPY");
  if (copy == NULL) {
    fail_msg("TEST_COPY is not set: ctest sets it");
    return;
  }
  copy_file(library, copy);
  rig_open(NULL);
  use_first();
  int64_t allocations = rig_get("allocations");
  expect_second_ok(second.api->RegisterExecutionProviderLibrary(second.env, "vdev", copy));
  assert_int_equal(use_second(), 0);
  assert_int_equal(rig_get("allocations"), allocations);
  use_first();
  rig_close(NULL);
  assert_int_equal(use_second(), 1);
  expect_second_ok(second.api->UnregisterExecutionProviderLibrary(second.env, "vdev"));
  assert_int_equal(unlink(copy), 0);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_one_at_a_time),
    cmocka_unit_test(test_between_asking_and_taking),
    cmocka_unit_test(test_copy_of_the_file),
};

int main(void) {
  return cmocka_run_group_tests(cases, open_second, close_second);
}
