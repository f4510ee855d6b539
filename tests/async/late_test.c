/* A kernel that fails after its launch, in a call that waits for it: the call returns the failure and no result. Afterwards vdev works; CUDA's
 * device is lost, over vcuda as on hardware, and refuses the rest. */
#include "filled.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "iobind/interop.h"
#include "vdev.h"
#include "../rig/calls.h"
#include "../rig/hold.h"

static const char *name;
static iobind_runtime *runtime;
static iobind_device *device;
static iobind_device *cpu;

/* y = 2 x */
typedef struct bench {
  iobind_session *session;
  iobind_binding *binding;
  iobind_tensor *x;
  iobind_tensor *y; /* FIXED */
} bench;

static bool is_cuda(void) {
  return strcmp(name, "cuda") == 0;
}

static void *function_of_vcuda(const char *function) {
  void *library = dlopen("libcudart.so.13", RTLD_NOW | RTLD_NOLOAD);
  assert_non_null(library);
  void *found = dlsym(library, function);
  assert_non_null(found);
  dlclose(library);
  return found;
}

static void set_fault(const char *value) {
  if (is_cuda()) {
    int (*set)(int, const char *, const char *) = NULL;
    *(void **)&set = function_of_vcuda("vcuda_set");
    assert_int_equal(set(0, "fail_compute", value), 0);
  } else {
    assert_int_equal(vdev_set(0, "fail_compute", value), 0);
  }
}

static void open_runtime(void) {
  runtime = fixture_runtime();
  cpu = iobind_runtime_get_device(runtime, 0);
  device = fixture_device(runtime, name);
}

static int start(void **state) {
  name = *state;
  open_runtime();
  return 0;
}

static int stop(void **state) {
  (void)state;
  set_fault("0");
  iobind_runtime_destroy(runtime);
  if (is_cuda()) {
    int (*recover)(int) = NULL;
    int (*forget)(void) = NULL;
    *(void **)&recover = function_of_vcuda("vcuda_recover");
    *(void **)&forget = function_of_vcuda("cudaGetLastError");
    (void)recover(0);
    (void)forget();
  }
  return 0;
}

static iobind_status open_session(size_t graphs, iobind_session **session) {
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  options.devices = &device;
  options.device_count = 1;
  options.graph_limit = graphs;
  fixture_arm();
  return test_session_with(runtime, "scale", &options, session, &fault);
}

/* 1: graphs can be captured. 0: this ORT is too old for that. */
static size_t find_graph_limit(void) {
  iobind_session *session = NULL;
  iobind_status status = open_session(1, &session);
  assert_true(status == IOBIND_OK || status == IOBIND_ERROR_VERSION);
  iobind_session_destroy(session);
  return status == IOBIND_OK ? 1 : 0;
}

static void skip_without_graphs(void) {
  if (find_graph_limit() == 0) {
    skip();
  }
}

static bench make_bench(size_t graphs) {
  bench one = {.x = make_filled(device, IOBIND_MEMORY_DEFAULT, 1)};
  expect_ok(open_session(graphs, &one.session));
  expect_ok(iobind_binding_create(one.session, &one.binding, &fault));
  expect_ok(iobind_binding_set_input(one.binding, 0, IOBIND_INPUT_RESIDENT, one.x, NULL, &fault));
  return one;
}

static void bind_output(bench *one, iobind_device *where, int mode) {
  if (mode == OUTPUT_FIXED) {
    one->y = make_filled(where, IOBIND_MEMORY_DEFAULT, 0);
  }
  expect_ok(call_binding_set_output(one->binding, 0, mode, where, IOBIND_MEMORY_DEFAULT, one->y, &fault));
}

/* A lost device does not return: what follows has another runtime. */
static void free_bench(bench *one) {
  iobind_binding_destroy(one->binding);
  iobind_session_destroy(one->session);
  iobind_tensor_release(one->x);
  iobind_tensor_release(one->y);
  (void)stop(NULL);
  open_runtime();
}

static void expect_failure(iobind_status status) {
  fixture_expect(is_cuda() ? IOBIND_ERROR_DEVICE_LOST : IOBIND_ERROR_RUNTIME, status, "a call whose kernel fails late",
                 __FILE__, __LINE__);
  expect_words(is_cuda() ? "launch" : "failed late");
}

static void expect_run(bench *one, float expected) {
  iobind_tensor *y = NULL;
  expect_ok(iobind_binding_run(one->binding, NULL, &fault));
  expect_ok(iobind_binding_get_output(one->binding, 0, NULL, &y, &fault));
  expect_all(y, expected);
}

static void expect_failed_run(bench *one) {
  iobind_tensor *y = NULL;
  set_fault("1,late");
  fixture_arm();
  expect_failure(iobind_binding_run(one->binding, NULL, &fault));
  expect(IOBIND_ERROR_INVALID_STATE, iobind_binding_get_output(one->binding, 0, NULL, &y, &fault));
  assert_null(y);
}

/* ---- outputs ---- */

static void fails_with_output(iobind_device *where, int mode, size_t graphs) {
  bench one = make_bench(graphs);
  bind_output(&one, where, mode);
  expect_run(&one, 2);
  expect_run(&one, 2);
  expect_failed_run(&one);
  if (is_cuda()) {
    expect(IOBIND_ERROR_DEVICE_LOST, iobind_binding_run(one.binding, NULL, &fault));
  } else {
    fill(one.x, 3);
    expect_run(&one, 6);
    expect_failed_run(&one);
    expect_run(&one, 6);
  }
  free_bench(&one);
}

static void outputs_of_each_mode(void **state) {
  (void)state;
  static const int modes[] = {IOBIND_OUTPUT_FRESH, IOBIND_OUTPUT_REUSE, OUTPUT_FIXED};
  for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
    fails_with_output(device, modes[i], 0);
  }
}

/* The download meets the failure before the run ends, and the session's next run has the same stream. */
static void outputs_on_the_host(void **state) {
  (void)state;
  static const int modes[] = {IOBIND_OUTPUT_FRESH, IOBIND_OUTPUT_REUSE, OUTPUT_FIXED};
  for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
    fails_with_output(cpu, modes[i], 0);
  }
}

static void replays(void **state) {
  (void)state;
  skip_without_graphs();
  fails_with_output(device, IOBIND_OUTPUT_REUSE, 1);
  fails_with_output(device, OUTPUT_FIXED, 1);
}

/* Each launch of the run that captures, in turn. A capture may be tried again: a run that is OK is right. */
static void captures(void **state) {
  (void)state;
  skip_without_graphs();
  for (int launch = 1; launch <= 3; launch++) {
    iobind_tensor *y = NULL;
    char which[16];
    bench one = make_bench(1);
    bind_output(&one, device, IOBIND_OUTPUT_REUSE);
    (void)snprintf(which, sizeof which, "%d,late", launch);
    set_fault(which);
    fixture_arm();
    iobind_status status = iobind_binding_run(one.binding, NULL, &fault);
    if (status == IOBIND_OK) {
      expect_ok(iobind_binding_get_output(one.binding, 0, NULL, &y, &fault));
      expect_all(y, 2);
    } else {
      expect_failure(status);
    }
    if (!is_cuda()) {
      expect_run(&one, 2);
      expect_run(&one, 2);
    }
    free_bench(&one);
  }
}

/* ---- states ---- */

static void fails_with_state(iobind_carry_mode mode, size_t graphs) {
  bench one = make_bench(graphs);
  expect_ok(iobind_binding_carry(one.binding, 0, 0, mode, &fault));
  expect_run(&one, 2);
  expect_run(&one, 4);
  expect_failed_run(&one);
  if (is_cuda()) {
    expect(IOBIND_ERROR_DEVICE_LOST, iobind_binding_run(one.binding, NULL, &fault));
  } else if (mode == IOBIND_CARRY_IN_PLACE) { /* it may have been written in part */
    expect(IOBIND_ERROR_INVALID_STATE, iobind_binding_run(one.binding, NULL, &fault));
    float values[COUNT];
    set_values(values, 5);
    expect_ok(iobind_binding_write_input(one.binding, 0, values, sizeof values, NULL, &fault));
    expect_run(&one, 10);
  } else {
    expect_run(&one, 8); /* from the state of before */
    expect_failed_run(&one);
    expect_run(&one, 16);
  }
  free_bench(&one);
}

static void states(void **state) {
  (void)state;
  fails_with_state(IOBIND_CARRY_MOVE, 0);
  fails_with_state(IOBIND_CARRY_SWAP, 0);
  fails_with_state(IOBIND_CARRY_IN_PLACE, 0);
}

static void states_of_replays(void **state) {
  (void)state;
  skip_without_graphs();
  fails_with_state(IOBIND_CARRY_SWAP, 2);
  fails_with_state(IOBIND_CARRY_IN_PLACE, 1);
}

/* Of two runs in flight the second fails. It has read the result of the first one, which is dropped. */
static void fails_behind_another(iobind_carry_mode mode) {
  bench one = make_bench(0);
  iobind_stream *stream = NULL;
  expect_ok(iobind_stream_create(device, NULL, &stream, &fault));
  expect_ok(iobind_binding_carry(one.binding, 0, 0, mode, &fault));
  expect_run(&one, 2);
  int held = hold(device, stream);
  set_fault("2,late");
  expect_ok(iobind_binding_run(one.binding, stream, &fault));
  expect_ok(iobind_binding_run(one.binding, stream, &fault));
  let_go(held);
  fixture_arm();
  expect(IOBIND_ERROR_RUNTIME, iobind_stream_synchronize(stream, &fault));
  set_fault("0");
  expect(IOBIND_ERROR_INVALID_STATE, iobind_binding_run(one.binding, NULL, &fault));
  expect_words("undefined");
  expect_ok(iobind_binding_set_input(one.binding, 0, IOBIND_INPUT_RESIDENT, one.x, NULL, &fault));
  expect_run(&one, 2);
  iobind_stream_destroy(stream);
  free_bench(&one);
}

static void states_of_queued_runs(void **state) {
  (void)state;
  fails_behind_another(IOBIND_CARRY_MOVE);
  fails_behind_another(IOBIND_CARRY_SWAP);
}

/* ---- without a binding ---- */

static void runs_of_a_session(void **state) {
  (void)state;
  for (size_t graphs = 0, limit = find_graph_limit(); graphs <= limit; graphs++) {
    bench one = make_bench(graphs);
    iobind_tensor *y = NULL;
    expect_ok(call_session_run(one.session, &one.x, &y, &fault));
    expect_all(y, 2);
    iobind_tensor_release(y);
    set_fault("1,late");
    fixture_arm();
    expect_failure(call_session_run(one.session, &one.x, &y, &fault));
    assert_null(y);
    if (!is_cuda()) {
      expect_ok(call_session_run(one.session, &one.x, &y, &fault));
      expect_all(y, 2);
      iobind_tensor_release(y);
    }
    free_bench(&one);
  }
}

/* The device may be as fast as the call. */
static void items_of_a_pipeline(void **state) {
  (void)state;
  for (size_t graphs = 0, limit = find_graph_limit(); graphs <= limit; graphs++) {
    bench one = make_bench(graphs);
    iobind_pipeline *pipeline = NULL;
    iobind_tensor *y = NULL;
    iobind_tensor *x = make_filled(cpu, IOBIND_MEMORY_DEFAULT, 3);
    expect_ok(call_pipeline_create(one.session, NULL, &pipeline, &fault));
    set_fault("1,late");
    fixture_arm();
    iobind_status status = call_pipeline_submit(pipeline, &x, 1, &fault);
    if (status == IOBIND_OK) {
      fixture_arm();
      status = iobind_pipeline_next(pipeline, IOBIND_NO_TIMEOUT, &y, 1, NULL, &fault);
    }
    expect_failure(status);
    assert_null(y);
    for (int item = 0; item < 3 && !is_cuda(); item++) {
      expect_ok(call_pipeline_submit(pipeline, &x, 1, &fault));
      expect_ok(iobind_pipeline_next(pipeline, IOBIND_NO_TIMEOUT, &y, 1, NULL, &fault));
      expect_all(y, 6);
    }
    iobind_pipeline_destroy(pipeline);
    iobind_tensor_release(x);
    free_bench(&one);
  }
}

#define ON(device, test) \
  { #device ": " #test, test, start, stop, #device }
#define ON_EACH(test) ON(vdev, test), ON(cuda, test)

static const struct CMUnitTest tests[] = {
    ON_EACH(outputs_of_each_mode),
    ON_EACH(outputs_on_the_host),
    ON_EACH(replays),
    ON_EACH(captures),
    ON_EACH(states),
    ON_EACH(states_of_replays),
    ON(vdev, states_of_queued_runs),
    ON_EACH(runs_of_a_session),
    ON_EACH(items_of_a_pipeline),
};

FIXTURE_MAIN(tests, NULL, NULL);
