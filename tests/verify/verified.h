/* Sessions that verify their runs, and a device whose kernels are wrong on demand. */
#ifndef TESTS_VERIFY_VERIFIED_H
#define TESTS_VERIFY_VERIFIED_H

#include "stage.h"

#include <dlfcn.h>

enum { N = 8 };

static inline void set_device(const char *name, const char *value) {
  const bool is_vdev = is_device("vdev");
  void *library = dlopen(is_vdev ? fixture_path("lib/libiobind_vdev.so") : "libcudart.so.13", RTLD_NOW | RTLD_NOLOAD);
  int (*set)(int, const char *, const char *) = NULL;
  assert_non_null(library);
  *(void **)&set = dlsym(library, is_vdev ? "vdev_set" : "vcuda_set");
  assert_non_null(set);
  assert_int_equal(set(0, name, value), 0);
  dlclose(library);
}

/* The N-th kernel from now, "every:1" or "from:N": one element of its result is another one. */
static inline void set_wrong(const char *value) {
  set_device("wrong_compute", value);
}

/* Set-up of a test, which fails if the device finds a race. */
static inline int verified_start(void **state) {
  (void)stage_open(state);
  set_device("race", "fail");
  return 0;
}

static inline iobind_session *verified_session(const char *model, uint32_t runs, size_t graph_limit) {
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  iobind_session *made = NULL;
  options.devices = &device;
  options.device_count = 1;
  options.graph_limit = graph_limit;
  options.verify.runs = runs;
  expect_ok(test_session_with(runtime, model, &options, &made, &fault));
  return made;
}

static inline void fill(iobind_tensor *tensor, float value) {
  float values[N];
  for (int i = 0; i < N; i++) {
    values[i] = value;
  }
  expect_ok(iobind_tensor_write(tensor, 0, values, sizeof values, NULL, &fault));
}

static inline iobind_tensor *make_filled(float value) {
  static const int64_t dims[1] = {N};
  iobind_tensor *made = NULL;
  expect_ok(iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 1, &made, &fault));
  fill(made, value);
  return made;
}

static inline void expect_all(iobind_tensor *tensor, float value) {
  float values[N];
  for (int i = 0; i < N; i++) {
    values[i] = value;
  }
  fixture_expect_floats(tensor, values, N);
}

static inline void expect_output(iobind_binding *binding, float value) {
  iobind_tensor *output;
  expect_ok(iobind_binding_get_output(binding, 0, NULL, &output, &fault));
  expect_all(output, value);
}

#endif
