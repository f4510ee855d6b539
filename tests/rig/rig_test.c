/* Does the rig notice what it is there for? */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model.h"
#include "objects.h"

static iobind_error failed(const char *message) {
  iobind_error error;
  test_error_arm(&error);
  error.status = IOBIND_ERROR_SHAPE;
  error.ort_code = 0;
  memset(error.message, 0, sizeof error.message);
  strcpy(error.message, message);
  return error;
}

static void each_broken_rule_is_noticed(void **state) {
  (void)state;
  iobind_error error = failed("x: expected rank 1, got rank 2: caf\xC3\xA9");
  assert_null(test_error_wrong(&error, IOBIND_ERROR_SHAPE));
  assert_non_null(test_error_wrong(&error, IOBIND_ERROR_DTYPE));
  assert_non_null(test_error_wrong(&error, IOBIND_OK));
  error.ort_code = -1;
  assert_non_null(test_error_wrong(&error, IOBIND_ERROR_SHAPE));
  static const char *const wrong[] = {"", "two\nlines", "a\ttab", "cut \xC3", "no call has touched this"};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    error = failed(wrong[i]);
    assert_non_null(test_error_wrong(&error, IOBIND_ERROR_SHAPE));
  }
  test_error_arm(&error);
  assert_null(test_error_wrong(&error, IOBIND_OK));
  assert_non_null(test_error_wrong(&error, IOBIND_ERROR_SHAPE));
}

static void names_are_noticed(void **state) {
  (void)state;
  assert_true(test_is_named("binding_run: 'x' is not bound"));
  assert_true(test_is_named("preload: CUDA: not here"));
  static const char *const wrong[] = {"'x' is not bound", "x: not bound", "binding_run 'x'", "preloaded: x",
                                      "binding_run: binding_run: 'x' is not bound"};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    assert_false(test_is_named(wrong[i]));
  }
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
  assert_int_equal(test_session(NULL, NULL, "no such model", &session, &error), IOBIND_ERROR_INVALID_ARGUMENT);
  assert_non_null(strstr(error.message, "no such model"));
}

static void a_wrong_float_is_noticed(void **state) {
  (void)state;
  static const float values[] = {1, 2, 3}, others[] = {1, 2, 4};
  char text[TEST_WHY] = "";
  iobind_runtime *runtime = NULL;
  iobind_device *device = NULL;
  iobind_tensor *tensor = NULL;
  iobind_error error = IOBIND_ERROR_INIT;
  assert_int_equal(test_runtime(0, "cpu", &runtime, &device, &error), IOBIND_OK);
  assert_int_equal(test_floats(device, values, 3, &tensor, &error), IOBIND_OK);
  assert_null(test_floats_wrong(tensor, values, 3, text));
  assert_non_null(test_floats_wrong(tensor, values, 2, text));
  assert_non_null(strstr(text, "12 bytes of float32"));
  assert_non_null(test_floats_wrong(tensor, others, 3, text));
  assert_string_equal(text, "element 2: expected 4, got 3");
  iobind_tensor_release(tensor);
  iobind_runtime_destroy(runtime);
  runtime = NULL;
  assert_int_equal(test_runtime(IOBIND_RUNTIME_NO_EP_SEARCH, "webgpu:7", &runtime, &device, &error), IOBIND_ERROR_NOT_FOUND);
  assert_null(runtime);
}

static void a_model_is_made_once(void **state) {
  (void)state;
  char text[TEST_MODEL_TEXT] = "";
  size_t bytes = 0, again = 0;
  const void *model = test_model("scale", &bytes, text);
  assert_non_null(model);
  assert_ptr_not_equal(test_model("add", &again, text), model);
  assert_ptr_equal(test_model("scale", &again, text), model);
  assert_int_equal(bytes, again);
  assert_null(test_model("no such model", &again, text));
  assert_non_null(strstr(text, "no such model"));
}

int main(void) {
  const struct CMUnitTest cases[] = {
      cmocka_unit_test(each_broken_rule_is_noticed),
      cmocka_unit_test(names_are_noticed),
      cmocka_unit_test(what_is_required),
      cmocka_unit_test(what_is_not_there_is_said),
      cmocka_unit_test(a_wrong_float_is_noticed),
      cmocka_unit_test(a_model_is_made_once),
  };
  return cmocka_run_group_tests(cases, NULL, NULL);
}
