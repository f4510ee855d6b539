#define _POSIX_C_SOURCE 200809L /* readlink */
#include "fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "models.h"

iobind_error fault;

static const char sentinel[] = "no call has touched this";

void fixture_arm(void) {
  fault = (iobind_error)IOBIND_ERROR_INIT;
  fault.status = -1;
  fault.ort_code = -1;
  strcpy(fault.message, sentinel);
}

bool fixture_is_utf8(const char *text) {
  const unsigned char *at = (const unsigned char *)text;
  while (*at != '\0') {
    size_t more = *at < 0x80 ? 0 : *at >= 0xF0 ? 3 : *at >= 0xE0 ? 2 : *at >= 0xC0 ? 1 : 4;
    if (more == 4) {
      return false;
    }
    for (at++; more > 0; more--, at++) {
      if ((*at & 0xC0u) != 0x80u) {
        return false;
      }
    }
  }
  return true;
}

void fixture_expect(iobind_status expected, iobind_status status, const char *call, const char *file, int line) {
  if (status != expected) {
    print_error("%s\n  expected %s, got %s: %s\n", call, iobind_status_name((int32_t)expected),
                iobind_status_name((int32_t)status), status == IOBIND_OK ? "" : fault.message);
    _fail(file, line);
  }
  iobind_error before = IOBIND_ERROR_INIT;
  before.status = -1;
  before.ort_code = -1;
  strcpy(before.message, sentinel);
  bool right = memcmp(&fault, &before, sizeof fault) == 0;
  if (status != IOBIND_OK) {
    right = fault.struct_size == sizeof fault && fault.status == (int32_t)status && fault.reserved == 0 &&
            fault.message[0] != '\0' && strcmp(fault.message, sentinel) != 0 && fixture_is_utf8(fault.message) &&
            strpbrk(fault.message, "\r\n\t") == NULL && fault.ort_code >= 0;
  }
  if (!right) {
    print_error("%s\n  %s, but the error is wrong: status %d, ORT's code %d, '%s'\n", call, iobind_status_name((int32_t)status),
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
  char own[512];
  ssize_t length = readlink("/proc/self/exe", own, sizeof own - 1);
  assert_true(length > 0);
  own[length] = '\0';
  *strrchr(own, '/') = '\0';
  assert_true(snprintf(path, sizeof paths[0], "%s/../%s", own, below) < (int)sizeof paths[0]);
  return path;
}

iobind_runtime *fixture_runtime(void) {
  iobind_runtime_options options = IOBIND_RUNTIME_OPTIONS_INIT;
  options.flags = IOBIND_RUNTIME_SOFTWARE_DEVICES;
  iobind_runtime *runtime = NULL;
  expect_ok(iobind_runtime_create(&options, &runtime, &fault));
  assert_non_null(runtime);
  return runtime;
}

static bool is_required(const char *spec) {
  const char *list = getenv("IOBIND_REQUIRE");
  size_t length = strlen(spec);
  for (const char *at = list; at != NULL && *at != '\0'; at += strspn(at, ",")) {
    size_t word = strcspn(at, ",");
    if (word == length && strncmp(at, spec, length) == 0) {
      return true;
    }
    at += word;
  }
  return false;
}

static iobind_device *find_device(iobind_runtime *runtime, const char *spec) {
  iobind_device *device = NULL;
  fixture_arm();
  if (iobind_runtime_find_device(runtime, spec, &device, NULL, &fault) != IOBIND_OK) {
    print_message("%s\n", fault.message);
  }
  return device;
}

static void go_without(const char *spec) {
  if (is_required(spec)) {
    fail();
  }
  skip();
}

bool fixture_has(const char *spec) {
  iobind_runtime *runtime = fixture_runtime();
  bool there = find_device(runtime, spec) != NULL;
  iobind_runtime_destroy(runtime);
  return there || is_required(spec);
}

iobind_device *fixture_device(iobind_runtime *runtime, const char *spec) {
  iobind_device *device = find_device(runtime, spec);
  if (device == NULL) {
    go_without(spec);
  }
  return device;
}

iobind_runtime *fixture_runtime_with(const char *spec, iobind_device **device) {
  iobind_runtime *runtime = fixture_runtime();
  *device = find_device(runtime, spec);
  if (*device == NULL) {
    iobind_runtime_destroy(runtime);
    go_without(spec);
  }
  return runtime;
}

iobind_session *fixture_session(iobind_runtime *runtime, iobind_device *device, const char *model) {
  void *bytes = NULL;
  size_t size = 0;
  char text[TEST_MODEL_TEXT] = "";
  if (!test_model_create(model, &bytes, &size, text)) {
    fail_msg("%s: %s", model, text);
  }
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  options.devices = &device;
  options.device_count = device != NULL;
  options.intra_op_threads = 1;
  iobind_session *session = NULL;
  expect_ok(iobind_session_create_from_memory(runtime, bytes, size, &options, &session, &fault));
  free(bytes);
  assert_non_null(session);
  return session;
}

iobind_tensor *fixture_floats(iobind_device *device, const float *values, size_t count) {
  int64_t dim = (int64_t)count;
  iobind_tensor *tensor = NULL;
  expect_ok(iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_FLOAT32, &dim, 1, &tensor, &fault));
  assert_non_null(tensor);
  if (values != NULL) {
    expect_ok(iobind_tensor_write(tensor, 0, values, count * sizeof *values, NULL, &fault));
  }
  return tensor;
}

void fixture_expect_floats(iobind_tensor *tensor, const float *values, size_t count) {
  float got[64];
  assert_true(count <= sizeof got / sizeof got[0]);
  iobind_tensor_info info = IOBIND_TENSOR_INFO_INIT;
  expect_ok(iobind_tensor_get_info(tensor, &info, &fault));
  assert_int_equal(info.dtype, IOBIND_FLOAT32);
  assert_int_equal(info.bytes, count * sizeof got[0]);
  expect_ok(iobind_tensor_read(tensor, 0, got, count * sizeof got[0], NULL, &fault));
  assert_memory_equal(got, values, count * sizeof got[0]);
}

void fixture_deleter(void *context, void *data) {
  fixture_deleted *deleted = context;
  deleted->count++;
  deleted->data = data;
}
