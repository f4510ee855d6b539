#define _POSIX_C_SOURCE 200809L /* setenv */
/* Registering the plugin: again and again, with other settings, with settings that cannot be. */
#include "rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void use_device(size_t device) {
  float in[4] = {1, 2, 3, 4};
  float out[4] = {0};
  OrtValue *source = rig_host_tensor(in, 4);
  OrtValue *target = rig_host_tensor(out, 4);
  OrtValue *x = rig_device_tensor(device, 4);
  OrtValue *y = rig_device_tensor(device, 4);
  OrtSession *session = rig_session("scale", device);
  OrtIoBinding *binding = rig_binding(session, x, "y", y);
  ok(rig_copy(source, x, NULL));
  ok(rig_run(session, binding, NULL));
  ok(rig_copy(y, target, NULL));
  assert_true(out[3] == 8);
  rig.api->ReleaseIoBinding(binding);
  rig.api->ReleaseSession(session);
  OrtValue *values[] = {source, target, x, y};
  for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
    rig.api->ReleaseValue(values[i]);
  }
}

static void test_again_and_again(void **state) {
  (void)state;
  static const char *const counts[] = {"1", "3", "8", "1"};
  for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
    setenv("VDEV_DEVICES", counts[i], 1);
    rig_open(NULL);
    assert_int_equal(rig.device_count, atoi(counts[i]));
    for (size_t d = 0; d < rig.device_count; d++) {
      use_device(d);
    }
    rig_close(NULL);
  }
}

static void test_twice_by_one_name(void **state) {
  (void)state;
  setenv("VDEV_DEVICES", "1", 1);
  rig_open(NULL);
  refused("vdev", rig_register("vdev"));
  use_device(0);
  rig_close(NULL);
  assert_int_equal(vdev_device_count(), 0);
}

/* The library goes with the last name that it is registered under, though ORT takes its allocators with the first that goes. */
static void test_two_names(void **state) {
  (void)state;
  rig_open(NULL);
  ok(rig_register("other"));
  ok(rig.api->UnregisterExecutionProviderLibrary(rig.env, "other"));
  assert_int_equal(vdev_device_count(), 1);
  rig_close(NULL);
  assert_int_equal(vdev_device_count(), 0);
}

static void test_impossible_counts(void **state) {
  (void)state;
  static const char *const counts[] = {"0", "9"};
  for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
    setenv("VDEV_DEVICES", counts[i], 1);
    refused("", rig_register("vdev"));
    assert_int_equal(vdev_device_count(), 0);
    setenv("VDEV_DEVICES", "1", 1); /* and after that it works */
    rig_open(NULL);
    use_device(0);
    rig_close(NULL);
  }
}

/* The trace of everything, written when the plugin goes. */
static void test_trace_file(void **state) {
  (void)state;
  const char *path = getenv("VDEV_TEST_TRACE");
  if (path == NULL) {
    fail_msg("VDEV_TEST_TRACE is not set: ctest sets it");
    return;
  }
  (void)remove(path);
  setenv("VDEV_TRACE", "1", 1);
  setenv("VDEV_TRACE_FILE", path, 1);
  rig_open(NULL);
  use_device(0);
  rig_close(NULL);
  unsetenv("VDEV_TRACE");
  unsetenv("VDEV_TRACE_FILE");
  char text[4096];
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  text[fread(text, 1, sizeof text - 1, file)] = '\0';
  fclose(file);
  assert_non_null(strstr(text, "\"name\":\"Mul\""));
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_again_and_again),   cmocka_unit_test(test_twice_by_one_name), cmocka_unit_test(test_two_names),
    cmocka_unit_test(test_impossible_counts), cmocka_unit_test(test_trace_file),
};

int main(void) {
  return cmocka_run_group_tests(cases, NULL, NULL);
}
