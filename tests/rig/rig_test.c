/* Does the rig notice what it is there for? */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "objects.h"

static iobind_error failed(const char *message) {
  iobind_error error;
  test_error_arm(&error);
  error.status = IOBIND_SHAPE;
  error.ort_code = 0;
  memset(error.message, 0, sizeof error.message);
  strcpy(error.message, message);
  return error;
}

static void each_broken_rule_is_noticed(void **state) {
  (void)state;
  iobind_error error = failed("x: expected rank 1, got rank 2: caf\xC3\xA9");
  assert_null(test_error_wrong(&error, IOBIND_SHAPE));
  assert_non_null(test_error_wrong(&error, IOBIND_DTYPE));
  assert_non_null(test_error_wrong(&error, IOBIND_OK));
  error.ort_code = -1;
  assert_non_null(test_error_wrong(&error, IOBIND_SHAPE));
  static const char *const wrong[] = {"", "two\nlines", "a\ttab", "cut \xC3", "no call has touched this"};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    error = failed(wrong[i]);
    assert_non_null(test_error_wrong(&error, IOBIND_SHAPE));
  }
  test_error_arm(&error);
  assert_null(test_error_wrong(&error, IOBIND_OK));
  assert_non_null(test_error_wrong(&error, IOBIND_SHAPE));
}

static void what_is_required(void **state) {
  (void)state;
  setenv("IOBIND_REQUIRE", "cpu,webgpu", 1);
  assert_true(test_requires("cpu"));
  assert_true(test_requires("webgpu:1"));
  assert_true(test_requires("webgpu,cpu"));
  assert_false(test_requires("web"));
  assert_false(test_requires("vdev"));
  unsetenv("IOBIND_REQUIRE");
  assert_false(test_requires("cpu"));
}

static void what_is_not_there_is_said(void **state) {
  (void)state;
  char text[TEST_WHY] = "";
  char short_path[4];
  assert_false(test_path("lib", short_path, sizeof short_path));
  setenv("ORT_NATIVE_LIB_PATH", "/nowhere", 1);
  assert_null(test_ort(text));
  assert_non_null(strstr(text, "/nowhere"));
  unsetenv("ORT_NATIVE_LIB_PATH");
  iobind_session *session = NULL;
  iobind_error error = IOBIND_ERROR_INIT;
  assert_int_equal(test_session(NULL, NULL, "no such model", &session, &error), IOBIND_INVALID_ARGUMENT);
  assert_non_null(strstr(error.message, "no such model"));
}

int main(void) {
  const struct CMUnitTest cases[] = {
      cmocka_unit_test(each_broken_rule_is_noticed),
      cmocka_unit_test(what_is_required),
      cmocka_unit_test(what_is_not_there_is_said),
  };
  return cmocka_run_group_tests(cases, NULL, NULL);
}
