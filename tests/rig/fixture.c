#include "fixture.h"

#include <string.h>

_Thread_local iobind_error fault;

void fixture_arm(void) {
  test_error_arm(&fault);
}

void fixture_expect(iobind_status expected, iobind_status status, const char *call, const char *file, int line) {
  if (status != expected) {
    print_error("%s\n  expected %s, got %s: %s\n", call, iobind_status_get_name((int32_t)expected),
                iobind_status_get_name((int32_t)status), status == IOBIND_OK ? "" : fault.message);
    _fail(file, line);
  }
  const char *wrong = test_error_wrong(&fault, status);
  bool is_internal = strncmp(call, "iobind__", strlen("iobind__")) == 0; /* its caller gives the name */
  if (wrong == NULL && status != IOBIND_OK && !is_internal && !test_is_named(fault.message)) {
    wrong = "the message does not begin with a function's name, or has it twice";
  }
  if (wrong != NULL) {
    print_error("%s\n  %s, but %s: status %d, ORT's code %d, '%s'\n", call, iobind_status_get_name((int32_t)status), wrong,
                fault.status, fault.ort_code, fault.message);
    _fail(file, line);
  }
}

void fixture_expect_words(const char *words, const char *file, int line) {
  if (strstr(fault.message, words) == NULL) {
    print_error("expected '%s' in '%s'\n", words, fault.message);
    _fail(file, line);
  }
}

const char *fixture_path(const char *below) {
  static char paths[8][1024];
  static size_t next;
  char *path = paths[next++ % 8];
  assert_true(test_path(below, path, sizeof paths[0]));
  return path;
}

iobind_runtime *fixture_runtime(void) {
  iobind_runtime *runtime = NULL;
  expect_ok(test_runtime(IOBIND_RUNTIME_SOFTWARE_DEVICES, NULL, &runtime, NULL, &fault));
  assert_non_null(runtime);
  return runtime;
}

static void go_without(const char *spec) {
  print_message("%s\n", fault.message);
  if (test_requires(spec)) {
    fail();
  }
  skip();
}

bool fixture_has(const char *spec) {
  iobind_runtime *runtime = NULL;
  iobind_device *device = NULL;
  fixture_arm();
  if (test_runtime(IOBIND_RUNTIME_SOFTWARE_DEVICES, spec, &runtime, &device, &fault) != IOBIND_OK) {
    print_message("%s\n", fault.message);
  }
  iobind_runtime_destroy(runtime);
  return runtime != NULL || test_requires(spec);
}

iobind_device *fixture_device(iobind_runtime *runtime, const char *spec) {
  iobind_device *device = NULL;
  fixture_arm();
  if (iobind_runtime_find_device(runtime, spec, &device, NULL, &fault) != IOBIND_OK) {
    go_without(spec);
  }
  return device;
}

iobind_runtime *fixture_runtime_with(const char *spec, iobind_device **device) {
  iobind_runtime *runtime = NULL;
  fixture_arm();
  if (test_runtime(IOBIND_RUNTIME_SOFTWARE_DEVICES, spec, &runtime, device, &fault) != IOBIND_OK) {
    go_without(spec);
  }
  return runtime;
}

iobind_session *fixture_session(iobind_runtime *runtime, iobind_device *device, const char *model) {
  iobind_session *session = NULL;
  expect_ok(test_session(runtime, device, model, &session, &fault));
  assert_non_null(session);
  return session;
}

iobind_tensor *fixture_floats(iobind_device *device, const float *values, size_t count) {
  iobind_tensor *tensor = NULL;
  expect_ok(test_floats(device, values, count, &tensor, &fault));
  assert_non_null(tensor);
  return tensor;
}

void fixture_expect_floats(iobind_tensor *tensor, const float *values, size_t count) {
  char text[TEST_WHY];
  if (test_floats_wrong(tensor, values, count, text) != NULL) {
    fail_msg("%s", text);
  }
}

void fixture_deleter(void *context, void *data) {
  fixture_deleted *deleted = context;
  deleted->count++;
  deleted->data = data;
}
