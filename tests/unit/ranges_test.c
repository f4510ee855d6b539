/* Ranges that a profiler shows: around runs and copies, each ended, also where they fail; and none without one. */
#include "fixture.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 4 };

static iobind_runtime *runtime;
static iobind_device *device;
static char warning[512];

static void keep_warning(void *context, int32_t level, const char *message) {
  (void)context;
  if (level == IOBIND_LOG_WARNING && strstr(message, "NVTX") != NULL) {
    strncpy(warning, message, sizeof warning - 1);
  }
}

static int start(void **state) {
  iobind_runtime_options options = IOBIND_RUNTIME_OPTIONS_INIT;
  (void)state;
  options.log = keep_warning;
  expect_ok(iobind_runtime_create(&options, &runtime, &fault));
  device = fixture_device(runtime, "vdev");
  return 0;
}

static int stop(void **state) {
  (void)state;
  iobind_runtime_destroy(runtime);
  return 0;
}

/* What the profiler has received so far. NULL: no library of that name is in the process. */
static const char *heard(void) {
  const char *path = getenv("NVTX_INJECTION64_PATH");
  void *library = path == NULL ? NULL : dlopen(path, RTLD_NOW | RTLD_NOLOAD);
  const char *(*ranges)(void);
  int (*depth)(void);
  if (library == NULL) {
    return NULL;
  }
  *(void **)&ranges = dlsym(library, "profiler_ranges");
  *(void **)&depth = dlsym(library, "profiler_depth");
  if (ranges == NULL || depth == NULL) {
    fail_msg("%s is not the profiler of the test", path);
    return NULL;
  }
  assert_int_equal(depth(), 0);
  return ranges();
}

static size_t count_of(const char *text, const char *words) {
  size_t count = 0;
  for (const char *at = strstr(text, words); at != NULL; at = strstr(at + 1, words)) count++;
  return count;
}

typedef struct doubler {
  iobind_session *session;
  iobind_binding *binding;
  iobind_tensor *x;
} doubler;

static doubler make_doubler_on(iobind_device *on) {
  static const float ones[COUNT] = {1, 1, 1, 1};
  doubler made = {.session = fixture_session(runtime, on, "scale"), .x = fixture_floats(on, ones, COUNT)};
  expect_ok(iobind_binding_create(made.session, &made.binding, &fault));
  expect_ok(iobind_binding_set_input(made.binding, 0, IOBIND_INPUT_RESIDENT, made.x, NULL, &fault));
  expect_ok(iobind_binding_place_output(made.binding, 0, IOBIND_OUTPUT_REUSE, on, IOBIND_MEMORY_DEFAULT, &fault));
  return made;
}

static doubler make_doubler(void) {
  return make_doubler_on(device);
}

static void free_doubler(doubler *self) {
  iobind_binding_destroy(self->binding);
  iobind_tensor_release(self->x);
  iobind_session_destroy(self->session);
}

/* On the CPU a steady run checks nothing. Under a profiler each run is nevertheless a range. */
static void steady_runs(void **state) {
  (void)state;
  enum { RUNS = 5 };
  doubler d = make_doubler_on(iobind_runtime_get_device(runtime, 0));
  const char *before = heard() + strlen(heard());
  for (int i = 0; i < RUNS; i++) {
    expect_ok(iobind_binding_run(d.binding, NULL, &fault));
  }
  assert_int_equal(count_of(before, "[iobind: run"), RUNS);
  assert_int_equal(count_of(before, "]"), RUNS);
  free_doubler(&d);
}

static void runs_and_copies(void **state) {
  (void)state;
  enum { RUNS = 5 };
  static const float twos[COUNT] = {2, 2, 2, 2};
  float back[COUNT];
  iobind_stream *stream;
  doubler d = make_doubler();
  assert_non_null(heard());
  const char *before = heard() + strlen(heard());
  for (int i = 0; i < RUNS; i++) {
    expect_ok(iobind_binding_run(d.binding, NULL, &fault));
  }
  assert_int_equal(count_of(before, "[iobind: run"), RUNS);
  expect_ok(iobind_stream_create(device, NULL, &stream, &fault));
  expect_ok(iobind_binding_run(d.binding, stream, &fault));
  expect_ok(iobind_stream_synchronize(stream, &fault));
  assert_int_equal(count_of(before, "[iobind: run"), RUNS + 1);
  before = heard() + strlen(heard());
  expect_ok(iobind_tensor_write(d.x, 0, twos, sizeof twos, NULL, &fault));
  expect_ok(iobind_tensor_read(d.x, 0, back, sizeof back, NULL, &fault));
  assert_string_equal(before, "[iobind: copy vdev:0][iobind: copy vdev:0]");
  iobind_stream_destroy(stream);
  free_doubler(&d);
  assert_int_equal(count_of(heard(), "["), count_of(heard(), "]"));
  assert_string_equal(warning, "");
}

static void a_run_that_fails(void **state) {
  (void)state;
  doubler d = make_doubler();
  iobind_binding *empty;
  expect_ok(iobind_binding_create(d.session, &empty, &fault));
  const char *before = heard() + strlen(heard());
  fixture_arm();
  assert_int_not_equal(iobind_binding_run(empty, NULL, &fault), IOBIND_OK);
  assert_int_equal(count_of(before, "[iobind: run"), 1);
  assert_int_equal(count_of(before, "]"), 1);
  iobind_binding_destroy(empty);
  free_doubler(&d);
}

static void without_a_profiler(void **state) {
  (void)state;
  doubler d = make_doubler();
  expect_ok(iobind_binding_run(d.binding, NULL, &fault));
  assert_null(heard());
  assert_string_equal(warning, "");
  free_doubler(&d);
}

/* The log has the reason why there are no ranges, and runs are unaffected. */
static void a_profiler_that_refuses(void **state) {
  (void)state;
  doubler d = make_doubler();
  expect_ok(iobind_binding_run(d.binding, NULL, &fault));
  assert_non_null(strstr(warning, "InitializeInjectionNvtx2 has failed: no ranges are shown"));
  assert_string_equal(heard(), "");
  free_doubler(&d);
}

static void a_profiler_that_is_none(void **state) {
  (void)state;
  doubler d = make_doubler();
  expect_ok(iobind_binding_run(d.binding, NULL, &fault));
  assert_non_null(strstr(warning, "NVTX_INJECTION64_PATH: 'no-such-profiler.so': "));
  free_doubler(&d);
}

/* PyTorch loads NVIDIA's CUPTI, which is one, for other ends. */
static void a_profiler_that_nothing_names(void **state) {
  const char *path = getenv("PROFILER");
  const char *(*ranges)(void);
  void *library = path == NULL ? NULL : dlopen(path, RTLD_NOW | RTLD_GLOBAL);
  assert_non_null(library);
  assert_int_equal(start(state), 0);
  doubler d = make_doubler();
  expect_ok(iobind_binding_run(d.binding, NULL, &fault));
  *(void **)&ranges = dlsym(library, "profiler_ranges");
  assert_string_equal(ranges(), "");
  assert_string_equal(warning, "");
  free_doubler(&d);
  assert_int_equal(stop(state), 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, start, stop)
static const struct CMUnitTest tests[] = {
    CASE(steady_runs),
    CASE(runs_and_copies),
    CASE(a_run_that_fails),
    CASE(without_a_profiler),
    CASE(a_profiler_that_refuses),
    CASE(a_profiler_that_is_none),
    cmocka_unit_test(a_profiler_that_nothing_names),
};

FIXTURE_MAIN(tests, NULL, NULL);
