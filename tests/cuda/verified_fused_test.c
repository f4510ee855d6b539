/* CUDA's EP with fuse_conv_bias=1 and channels first is right in the first run, and wrong in each later one: a defect that only several runs
 * show. iobind refuses these options, so that here the program's own ORT adds them behind its back. */
#include "stage.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "ort.h"

enum { RUNS = 3, MOST_OPTIONS = 16 };

static const OrtApiBase *real_base;
static const OrtApi *real;
static OrtApi table;

static OrtStatus *ORT_CALL append_fused(OrtSessionOptions *options, OrtEnv *env, const OrtEpDevice *const *devices,
                                        size_t device_count, const char *const *keys, const char *const *values, size_t count) {
  const char *all_keys[MOST_OPTIONS] = {"fuse_conv_bias"};
  const char *all_values[MOST_OPTIONS] = {"1"};
  assert_true(count < MOST_OPTIONS);
  for (size_t i = 0; i < count; i++) {
    all_keys[i + 1] = keys[i];
    all_values[i + 1] = values[i];
  }
  return real->SessionOptionsAppendExecutionProvider_V2(options, env, devices, device_count, all_keys, all_values, count + 1);
}

/* In place of CUDA's, for the EP as well: it fills memory on the default stream, and nothing orders that before the run. Here it is complete when
 * the call returns, so that only the other defect is left, each time. */
__attribute__((visibility("default"))) int cudaMemset(void *address, int value, size_t bytes);

int cudaMemset(void *address, int value, size_t bytes) {
  void *cuda = dlopen("libcudart.so.13", RTLD_NOW | RTLD_NOLOAD);
  int (*set)(void *address, int value, size_t bytes) = NULL;
  int (*synchronize)(void) = NULL;
  assert_non_null(cuda);
  *(void **)&set = dlsym(cuda, "cudaMemset");
  *(void **)&synchronize = dlsym(cuda, "cudaDeviceSynchronize");
  const int failed = set(address, value, bytes);
  dlclose(cuda);
  return failed != 0 ? failed : synchronize();
}

static const OrtApi *ORT_CALL get_api(uint32_t version) {
  real = real_base->GetApi(version);
  if (real == NULL) {
    return NULL;
  }
  table = *real;
  table.SessionOptionsAppendExecutionProvider_V2 = append_fused;
  return &table;
}

static const char *ORT_CALL get_version(void) {
  return real_base->GetVersionString();
}

static int start(void **state) {
  static const OrtApiBase base = {get_api, get_version};
  char why[TEST_WHY];
  real_base = test_ort(why);
  return stage_open_over(state, &base);
}

static iobind_session *make_session(uint32_t verified) {
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  iobind_session *made = NULL;
  options.devices = &device;
  options.device_count = 1;
  options.verify.runs = verified;
  expect_ok(test_session_with(runtime, "convolution", &options, &made, &fault));
  return made;
}

static iobind_tensor *make_value(float value) {
  static const int64_t dims[4] = {1, 1, 1, 1};
  iobind_tensor *made;
  expect_ok(iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 4, &made, &fault));
  expect_ok(iobind_tensor_write(made, 0, &value, sizeof value, NULL, &fault));
  return made;
}

/* x = 2, and y in memory that is 0 at first: the EP adds to what is there. */
static iobind_binding *bind_two(iobind_session *session) {
  iobind_tensor *x = make_value(2);
  iobind_tensor *y = make_value(0);
  iobind_binding *made;
  expect_ok(iobind_binding_create(session, &made, &fault));
  expect_ok(iobind_binding_set_input(made, 0, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
  expect_ok(iobind_binding_set_output(made, 0, y, 0, &fault));
  iobind_tensor_release(x);
  iobind_tensor_release(y);
  return made;
}

/* y = x + 1: 3, then what the runs before gave as well. */
static void unnoticed_without(void **state) {
  (void)state;
  iobind_session *session = make_session(0);
  iobind_binding *binding = bind_two(session);
  for (int i = 0; i < RUNS; i++) {
    iobind_tensor *y;
    float value = 0;
    expect_ok(iobind_binding_run(binding, NULL, &fault));
    expect_ok(iobind_binding_get_output(binding, 0, NULL, &y, &fault));
    expect_ok(iobind_tensor_read(y, 0, &value, sizeof value, NULL, &fault));
    assert_int_equal((int)value, 3 * (i + 1));
  }
  iobind_binding_destroy(binding);
  iobind_session_destroy(session);
}

static void found_at_the_second_run(void **state) {
  (void)state;
  iobind_session *session = make_session(RUNS);
  iobind_binding *binding = bind_two(session);
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  expect(IOBIND_ERROR_RESULT, iobind_binding_run(binding, NULL, &fault));
  expect_words("expected 3, as on the CPU, got 6");
  iobind_binding_destroy(binding);
  iobind_session_destroy(session);
}

/* The first of several that are verified is not enough. */
static void not_found_by_one_run(void **state) {
  (void)state;
  iobind_session *session = make_session(1);
  iobind_binding *binding = bind_two(session);
  for (int i = 0; i < RUNS; i++) {
    expect_ok(iobind_binding_run(binding, NULL, &fault));
  }
  iobind_binding_destroy(binding);
  iobind_session_destroy(session);
}

#define ON(device, test) \
  { #device ": " #test, test, start, stage_close, #device }
#define ON_CUDA(test) ON(cuda, test)

static const struct CMUnitTest tests[] = {
    ON_CUDA(unnoticed_without),
    ON_CUDA(found_at_the_second_run),
    ON_CUDA(not_found_by_one_run),
};

FIXTURE_MAIN(tests, NULL, NULL);
