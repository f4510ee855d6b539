/* Which sessions verify: by their options, by the environment, on which devices; and what they leave out. */
#define _GNU_SOURCE /* setenv */
#include "verified.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models.h"
#include "onnx.h"

static iobind_status try_options(const iobind_session_options *given, iobind_session **made) {
  iobind_session_options options = *given;
  options.devices = &device;
  options.device_count = 1;
  return test_session_with(runtime, "scale", &options, made, &fault);
}

static void refused_options(void **state) {
  (void)state;
  static const struct {
    iobind_verify verify;
    iobind_status status;
    const char *words;
  } rows[] = {
      {{1, 1, 0, 0}, IOBIND_ERROR_NOT_SUPPORTED, "verify: reserved is not 0"},
      {{1, 0, -1, 0}, IOBIND_ERROR_INVALID_ARGUMENT, "verify: tolerance: absolute: expected 0 .. 1e30, got -1"},
      {{0, 0, 0, -0.5}, IOBIND_ERROR_INVALID_ARGUMENT, "verify: tolerance: relative: expected 0 .. 1e30, got -0.5"},
      {{1, 0, NAN, 0}, IOBIND_ERROR_INVALID_ARGUMENT, "got nan"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
    iobind_session *session = NULL;
    options.verify = rows[i].verify;
    expect(rows[i].status, try_options(&options, &session));
    expect_words(rows[i].words);
    assert_null(session);
  }
}

static iobind_status run_wrong(iobind_session *session) {
  iobind_tensor *x = make_filled(3);
  iobind_binding *binding;
  expect_ok(iobind_binding_create(session, &binding, &fault));
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
  set_wrong("every:1");
  fixture_arm();
  iobind_status status = iobind_binding_run(binding, NULL, &fault);
  set_wrong("0");
  iobind_binding_destroy(binding);
  iobind_tensor_release(x);
  return status;
}

static void by_environment(void **state) {
  (void)state;
  static const char *const wrong[] = {"", "x", "-1", "1.5", "1000001", "99999999999999999999"};
  static const char *const right[] = {"0", "1"};
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  iobind_session *session;
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    setenv("IOBIND_VERIFY", wrong[i], 1);
    expect(IOBIND_ERROR_INVALID_ARGUMENT, try_options(&options, &session));
    expect_words("IOBIND_VERIFY: expected a number of runs, 0 .. 1000000, got '");
  }
  for (int i = 0; i < 2; i++) {
    setenv("IOBIND_VERIFY", right[i], 1);
    expect_ok(try_options(&options, &session));
    assert_int_equal(run_wrong(session), i == 0 ? IOBIND_OK : IOBIND_ERROR_RESULT);
    iobind_session_destroy(session);
  }
  unsetenv("IOBIND_VERIFY");
  expect_ok(try_options(&options, &session));
  assert_int_equal(run_wrong(session), IOBIND_OK);
  iobind_session_destroy(session);
}

/* The limits are those of the options: what is allowed to differ by everything does not differ. */
static void wide_tolerance(void **state) {
  (void)state;
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  iobind_session *session;
  options.verify = (iobind_verify){1, 0, 1e30, 0};
  expect_ok(try_options(&options, &session));
  assert_int_equal(run_wrong(session), IOBIND_OK);
  iobind_session_destroy(session);
}

/* ---- random outputs ---- */

typedef struct lines {
  pthread_mutex_t mutex;
  int random;
} lines;

static void collect(void *context, int32_t level, const char *message) {
  lines *all = context;
  (void)level;
  pthread_mutex_lock(&all->mutex);
  all->random += strstr(message, "output 'noise' is not compared: it is random") != NULL;
  pthread_mutex_unlock(&all->mutex);
}

static void node(onnx_writer *writer, const char *op, const char *input, const char *output) {
  onnx_node_begin(writer, op, "", "");
  onnx_node_input(writer, input);
  onnx_node_output(writer, output);
  onnx_node_end(writer);
}

/* noise = random numbers of the shape of x, y = -x */
static iobind_session *make_random(void) {
  static const int64_t dims[1] = {N};
  const onnx_type type = {.kind = ONNX_KIND_TENSOR, .dtype = ONNX_FLOAT32, .dims = dims, .rank = 1};
  onnx_writer writer = ONNX_WRITER_INIT;
  onnx_model_begin(&writer, NULL);
  onnx_opset(&writer, "", 21);
  onnx_graph_begin(&writer, "graph");
  onnx_input(&writer, "x", &type);
  onnx_output(&writer, "noise", &type);
  onnx_output(&writer, "y", &type);
  node(&writer, "RandomNormalLike", "x", "noise");
  node(&writer, "Neg", "x", "y");
  onnx_graph_end(&writer);
  onnx_model_end(&writer);
  const void *bytes = NULL;
  size_t size = 0;
  assert_int_equal(onnx_writer_finish(&writer, &bytes, &size), ONNX_OK);
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  iobind_session *session = NULL;
  options.devices = &device;
  options.device_count = 1;
  options.verify.runs = 3;
  expect_ok(iobind_session_create_from_memory(runtime, bytes, size, &options, &session, &fault));
  onnx_writer_release(&writer);
  return session;
}

/* It is named once, and outputs that are not random are still compared. On the CPU nothing is compared, so that nothing is named. */
static void random_output(void **state) {
  (void)state;
  static lines all = {.mutex = PTHREAD_MUTEX_INITIALIZER}; /* until the runtime is gone */
  iobind_runtime_options options = IOBIND_RUNTIME_OPTIONS_INIT;
  iobind_runtime_destroy(runtime); /* a process has one, and one log */
  options.flags = IOBIND_RUNTIME_SOFTWARE_DEVICES;
  options.log = collect;
  options.log_context = &all;
  expect_ok(iobind_runtime_create(&options, &runtime, &fault));
  expect_ok(iobind_runtime_find_device(runtime, device_spec, &device, NULL, &fault));
  iobind_session *session = make_random();
  iobind_tensor *x = make_filled(3);
  iobind_binding *binding;
  expect_ok(iobind_binding_create(session, &binding, &fault));
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  assert_int_equal(all.random, !is_device("cpu"));
  if (is_device("vdev")) {
    set_wrong("every:1,name:Neg");
    expect(IOBIND_ERROR_RESULT, iobind_binding_run(binding, NULL, &fault));
    expect_words("output 'y'[0]");
    set_wrong("0");
  }
  iobind_binding_destroy(binding);
  iobind_tensor_release(x);
  iobind_session_destroy(session);
}

static int start(void **state) {
  return stage_open(state);
}

static int stop(void **state) {
  return stage_close(state);
}

#define ON(device, test) \
  { #device ": " #test, test, start, stop, #device }
#define ON_GPUS(test) ON(vdev, test), ON(cuda, test)
#define ON_OTHERS(test) ON(vdev, test), ON(cpu, test)

static const struct CMUnitTest tests[] = {
    ON_OTHERS(refused_options),
    ON_GPUS(by_environment),
    ON_GPUS(wide_tolerance),
    ON_OTHERS(random_output),
};

FIXTURE_MAIN(tests, NULL, NULL);
