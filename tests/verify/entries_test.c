/* What ORT gets for the session on the CPU: the options on which the model's results depend, and no packed weights. Here the program's own ORT notes
 * what it gets for each session. */
#include "verified.h"

#include <stdio.h>
#include <string.h>

#include "ort.h"

typedef struct noted {
  char entries[512]; /* "KEY=VALUE;" each */
  GraphOptimizationLevel level;
  int64_t dim;
  int threads;
} noted;

enum { MOST_SESSIONS = 8 };
static noted options_now; /* those that are being built */
static noted sessions[MOST_SESSIONS];
static size_t session_count;

static const OrtApiBase *real_base;
static const OrtApi *real;
static OrtApi table;

static OrtStatus *ORT_CALL create_options(OrtSessionOptions **out) {
  memset(&options_now, 0, sizeof options_now);
  return real->CreateSessionOptions(out);
}

static OrtStatus *ORT_CALL add_entry(OrtSessionOptions *options, const char *key, const char *value) {
  const size_t length = strlen(options_now.entries);
  snprintf(options_now.entries + length, sizeof options_now.entries - length, "%s=%s;", key, value);
  return real->AddSessionConfigEntry(options, key, value);
}

static OrtStatus *ORT_CALL set_level(OrtSessionOptions *options, GraphOptimizationLevel level) {
  options_now.level = level;
  return real->SetSessionGraphOptimizationLevel(options, level);
}

static OrtStatus *ORT_CALL set_threads(OrtSessionOptions *options, int threads) {
  options_now.threads = threads;
  return real->SetIntraOpNumThreads(options, threads);
}

static OrtStatus *ORT_CALL add_dim(OrtSessionOptions *options, const char *name, int64_t value) {
  options_now.dim = value;
  return real->AddFreeDimensionOverrideByName(options, name, value);
}

static OrtStatus *ORT_CALL create_session(const OrtEnv *env, const void *model, size_t bytes, const OrtSessionOptions *options,
                                          OrtSession **out) {
  assert_true(session_count < MOST_SESSIONS);
  sessions[session_count++] = options_now;
  return real->CreateSessionFromArray(env, model, bytes, options, out);
}

static const OrtApi *ORT_CALL get_api(uint32_t version) {
  real = real_base->GetApi(version);
  if (real == NULL) {
    return NULL;
  }
  table = *real;
  table.CreateSessionOptions = create_options;
  table.AddSessionConfigEntry = add_entry;
  table.SetSessionGraphOptimizationLevel = set_level;
  table.SetIntraOpNumThreads = set_threads;
  table.AddFreeDimensionOverrideByName = add_dim;
  table.CreateSessionFromArray = create_session;
  return &table;
}

static const char *ORT_CALL get_version(void) {
  return real_base->GetVersionString();
}

static int start(void **state) {
  static const OrtApiBase base = {get_api, get_version};
  char why[TEST_WHY];
  real_base = test_ort(why);
  const int failed = stage_open_over(state, &base);
  session_count = 0; /* those that looked at the device do not count */
  return failed;
}

/* A session with its first run. */
static void run_with(const iobind_session_options *options) {
  iobind_session *session = NULL;
  iobind_binding *binding;
  iobind_tensor *x = make_filled(3);
  expect_ok(test_session_with(runtime, "scale", options, &session, &fault));
  expect_ok(iobind_binding_create(session, &binding, &fault));
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  expect_output(binding, 6);
  iobind_binding_destroy(binding);
  iobind_tensor_release(x);
  iobind_session_destroy(session);
}

static bool has(const noted *session, const char *entry) {
  return strstr(session->entries, entry) != NULL;
}

/* Also if the caller's entry says otherwise, and only there. */
static void no_packed_weights(void **state) {
  (void)state;
  static const char *const key = "session.disable_prepacking";
  static const char *const value = "0";
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  options.devices = &device;
  options.device_count = 1;
  options.verify.runs = 1;
  run_with(&options);
  assert_int_equal(session_count, 2);
  assert_false(has(&sessions[0], "session.disable_prepacking"));
  assert_true(has(&sessions[1], "session.disable_prepacking=1;"));
  options.config_keys = &key;
  options.config_values = &value;
  options.config_count = 1;
  run_with(&options);
  assert_int_equal(session_count, 4);
  assert_true(has(&sessions[2], "session.disable_prepacking=0;"));
  assert_true(has(&sessions[3], "session.disable_prepacking=1;"));
  assert_false(has(&sessions[3], "session.disable_prepacking=0;"));
}

static void options_of_the_session(void **state) {
  (void)state;
  static const char *const keys[] = {"session.use_env_allocators", "session.set_denormal_as_zero"};
  static const char *const values[] = {"0", "1"};
  static const char *const dim = "n";
  static const int64_t count = N;
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  options.flags = IOBIND_SESSION_STRICT | IOBIND_SESSION_PLACEMENT | IOBIND_SESSION_NO_MEMORY_REUSE;
  options.devices = &device;
  options.device_count = 1;
  options.verify.runs = 1;
  options.optimization = 2; /* basic */
  options.config_keys = keys;
  options.config_values = values;
  options.config_count = sizeof keys / sizeof keys[0];
  options.dim_names = &dim;
  options.dim_values = &count;
  options.dim_count = 1;
  run_with(&options);
  assert_int_equal(session_count, 2);
  for (size_t i = 0; i < session_count; i++) {
    assert_true(has(&sessions[i], "session.use_env_allocators=0;"));
    assert_true(has(&sessions[i], "session.set_denormal_as_zero=1;"));
    assert_true(has(&sessions[i], "session.enable_mem_reuse=0;"));
    assert_int_equal(sessions[i].level, ORT_ENABLE_BASIC);
    assert_int_equal(sessions[i].dim, N);
    assert_int_equal(sessions[i].threads, 1);
  }
  assert_true(has(&sessions[0], "session.disable_cpu_ep_fallback=1;"));
  assert_false(has(&sessions[1], "session.disable_cpu_ep_fallback"));
}

#define ON(device, test) \
  { #device ": " #test, test, start, stage_close, #device }
#define ON_VDEV(test) ON(vdev, test)

static const struct CMUnitTest tests[] = {
    ON_VDEV(no_packed_weights),
    ON_VDEV(options_of_the_session),
};

FIXTURE_MAIN(tests, NULL, NULL);
