/* The fixture of the unit tests: a checked call, a runtime with its devices, sessions of test models, tensors of floats. */
#ifndef TESTS_UNIT_FIXTURE_H
#define TESTS_UNIT_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "iobind/iobind.h"
#include "objects.h"

/* The error of the call that `expect` looks at: pass &fault. */
extern _Thread_local iobind_error fault;

/* A call gives this status and keeps the rules of errors: untouched on success; on failure the same status, and a message of
 * one line of UTF-8. */
#define expect(status, call) (fixture_arm(), fixture_expect(status, (call), #call, __FILE__, __LINE__))
#define expect_ok(call) expect(IOBIND_OK, call)

/* The message of the last failure has these words. */
#define expect_words(words) fixture_expect_words(words, __FILE__, __LINE__)

void fixture_arm(void);
void fixture_expect(iobind_status expected, iobind_status status, const char *call, const char *file, int line);
void fixture_expect_words(const char *words, const char *file, int line);

/* A path below the build tree, such as "lib/iobind/onnxruntime". Eight of them live at a time. */
const char *fixture_path(const char *below);

/* A runtime with the EP libraries and software devices of the runtime directory. */
iobind_runtime *fixture_runtime(void);

/* The device of a spec. Where it is not there the test is skipped, or fails if IOBIND_REQUIRE names it. */
iobind_device *fixture_device(iobind_runtime *runtime, const char *spec);

/* A runtime of the test's own, and a device of it. Without the device, the runtime is destroyed, too. */
iobind_runtime *fixture_runtime_with(const char *spec, iobind_device **device);

/* A session of a test model, on a device or (NULL) without one. */
iobind_session *fixture_session(iobind_runtime *runtime, iobind_device *device, const char *model);

/* One-dimensional tensors of float32. */
iobind_tensor *fixture_floats(iobind_device *device, const float *values, size_t count);
void fixture_expect_floats(iobind_tensor *tensor, const float *values, size_t count);

/* How often a deleter was called, and with what: the context is a fixture_deleted. */
typedef struct fixture_deleted {
  int count;
  void *data;
} fixture_deleted;
void fixture_deleter(void *context, void *data);

/* A group's main: the tests of `cases`, all of them or those that the only argument names. */
#define FIXTURE_MAIN(cases, setup, teardown)                     \
  int main(int argc, char **argv) {                              \
    if (argc > 1) {                                              \
      cmocka_set_test_filter(argv[1]);                           \
    }                                                            \
    return cmocka_run_group_tests((cases), (setup), (teardown)); \
  }                                                              \
  _Static_assert(sizeof(cases) / sizeof((cases)[0]) > 0, "no test")

/* The same for cases named "DEVICE: ...", which a setup brings to their device: a setup cannot skip, so those of WebGPU are left out
 * here, with the reason, where it is not there. */
#define FIXTURE_MAIN_OF_DEVICES(cases)                  \
  int main(int argc, char **argv) {                     \
    if (argc > 1) {                                     \
      cmocka_set_test_filter(argv[1]);                  \
    }                                                   \
    if (!fixture_has("webgpu")) {                       \
      cmocka_set_skip_filter("webgpu: *");              \
    }                                                   \
    return cmocka_run_group_tests((cases), NULL, NULL); \
  }                                                     \
  _Static_assert(sizeof(cases) / sizeof((cases)[0]) > 0, "no test")

/* Is there the device, or must there be? If there is none, the reason is printed. */
bool fixture_has(const char *spec);

#endif
