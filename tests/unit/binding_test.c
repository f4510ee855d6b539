/* Bindings from within: memory that must not be shared, and runs that fail on the way. */
#include "fixture.h"

#include <stdlib.h>
#include <string.h>

#include "binding/table.h"
#include "../rig/calls.h"
#include "stage.h"

/* ORT's table, with slots that fail the n-th call. */
static OrtApi patched;
static const OrtApi *real_api;
static int bind_input_left = -1; /* good calls before the one that fails; -1: none fails */
static int bind_output_left = -1;
static int copy_left = -1;
static int runs;
static const OrtRunOptions *last_options;
static const char *run_words; /* of a run that fails; NULL: it does not */

static OrtStatus *fail_now(int *left) {
  if (*left < 0 || (*left)-- > 0) {
    return NULL;
  }
  OrtMemoryInfo *info = NULL;
  OrtStatus *status = real_api->CreateMemoryInfo_V2("", (OrtMemoryInfoDeviceType)99, 0, 0, OrtDeviceMemoryType_DEFAULT, 0,
                                                    OrtDeviceAllocator, &info);
  if (status == NULL) {
    real_api->ReleaseMemoryInfo(info);
  }
  assert_non_null(status);
  return status;
}

static OrtStatus *ORT_CALL bind_input(OrtIoBinding *binding, const char *name, const OrtValue *value) {
  OrtStatus *status = fail_now(&bind_input_left);
  return status != NULL ? status : real_api->BindInput(binding, name, value);
}

static OrtStatus *ORT_CALL bind_output(OrtIoBinding *binding, const char *name, const OrtMemoryInfo *info) {
  OrtStatus *status = fail_now(&bind_output_left);
  return status != NULL ? status : real_api->BindOutputToDevice(binding, name, info);
}

static OrtStatus *ORT_CALL copy_tensors(const OrtEnv *env, const OrtValue *const *sources, OrtValue *const *targets,
                                        OrtSyncStream *stream, size_t count) {
  OrtStatus *status = fail_now(&copy_left);
  return status != NULL ? status : real_api->CopyTensors(env, sources, targets, stream, count);
}

static OrtStatus *ORT_CALL run_with_binding(OrtSession *session, const OrtRunOptions *options, const OrtIoBinding *binding) {
  runs++;
  last_options = options;
  return run_words != NULL ? real_api->CreateStatus(ORT_FAIL, run_words) : real_api->RunWithBinding(session, options, binding);
}

static int start(void **state) {
  (void)stage_open(state);
  real_api = runtime->ort.api;
  patched = *real_api;
  patched.BindInput = bind_input;
  patched.BindOutputToDevice = bind_output;
  patched.CopyTensors = copy_tensors;
  patched.RunWithBinding = run_with_binding;
  runtime->ort.api = &patched;
  return 0;
}

static int stop(void **state) {
  runtime->ort.api = real_api;
  return stage_close(state);
}

static iobind_binding *bind(iobind_session *session) {
  iobind_binding *binding = NULL;
  expect_ok(iobind_binding_create(session, &binding, &fault));
  return binding;
}

static void set_input(iobind_binding *binding, size_t index, iobind_tensor *tensor) {
  expect_ok(iobind_binding_set_input(binding, index, IOBIND_INPUT_RESIDENT, tensor, NULL, &fault));
}

static void set_reuse(iobind_binding *binding, size_t index) {
  expect_ok(iobind_binding_place_output(binding, index, IOBIND_OUTPUT_REUSE, NULL, IOBIND_MEMORY_DEFAULT, &fault));
}

static iobind_tensor *get(iobind_binding *binding, size_t index) {
  iobind_tensor *tensor = NULL;
  expect_ok(iobind_binding_get_output(binding, index, NULL, &tensor, &fault));
  return tensor;
}

static iobind_tensor *make_rows(const float *values, int64_t rows) {
  const int64_t dims[] = {rows, 1};
  iobind_tensor *tensor = NULL;
  expect_ok(iobind_tensor_create(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 2, &tensor, &fault));
  expect_ok(iobind_tensor_write(tensor, 0, values, (size_t)rows * sizeof *values, NULL, &fault));
  return tensor;
}

/* A part of a REUSE output becomes an input, of the same dims as before: the next run must not write over what it reads. */
static void part_of_a_reused_output_as_input(void **state) {
  (void)state;
  iobind_session *session = fixture_session(runtime, NULL, "concat dims=a,1 dims2=b,1");
  iobind_binding *binding = bind(session);
  static const float low[] = {1, 2};
  static const float high[] = {3, 4};
  iobind_tensor *first = make_rows(low, 2);
  iobind_tensor *second = make_rows(high, 2);
  set_input(binding, 0, first);
  set_input(binding, 1, second);
  set_reuse(binding, 0);
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  iobind_tensor *joined = iobind_tensor_retain(get(binding, 0));
  expect_ok(iobind_binding_run(binding, NULL, &fault)); /* into the same memory; nothing was fetched since */
  iobind_tensor *middle = NULL;
  expect_ok(iobind_tensor_slice(joined, 1, 2, &middle, &fault)); /* 2 3 */
  set_input(binding, 1, middle);
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  static const float expected[] = {1, 2, 2, 3};
  fixture_expect_floats(get(binding, 0), expected, 4);
  iobind_tensor_release(middle);
  iobind_tensor_release(joined);
  iobind_tensor_release(first);
  iobind_tensor_release(second);
  iobind_binding_destroy(binding);
  iobind_session_destroy(session);
}

/* The whole output as an input: the same, in all that can happen to it between two runs. */
static void reused_output_as_input(void **state) {
  (void)state;
  iobind_session *session = fixture_session(runtime, NULL, "matmul m=2 k=2 n=2");
  iobind_binding *binding = bind(session);
  static const int64_t dims[] = {2, 2};
  static const float turn[] = {0, 1, 1, 1};
  iobind_tensor *x = NULL;
  expect_ok(iobind_tensor_create(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 2, &x, &fault));
  expect_ok(iobind_tensor_write(x, 0, turn, sizeof turn, NULL, &fault));
  set_input(binding, 0, x);
  set_input(binding, 1, x);
  set_reuse(binding, 0);
  /* powers of a matrix: 2nd, 3rd, ... by feeding the output back in */
  static const float powers[][4] = {{1, 1, 1, 2}, {1, 2, 2, 3}, {2, 3, 3, 5}, {3, 5, 5, 8}, {5, 8, 8, 13}};
  for (size_t i = 0; i < 5; i++) {
    expect_ok(iobind_binding_run(binding, NULL, &fault));
    iobind_tensor *power = get(binding, 0);
    fixture_expect_floats(power, powers[i], 4);
    set_input(binding, 0, power);
  }
  iobind_tensor_release(x);
  iobind_binding_destroy(binding);
  iobind_session_destroy(session);
}

/* Whether ORT passes an output through must not be judged by a run that had nothing to pass. */
static void passed_through_after_an_empty_run(void **state) {
  (void)state;
  iobind_session *session = fixture_session(runtime, NULL, "passthrough");
  iobind_binding *binding = bind(session);
  static const float values[] = {1, 2, 3};
  static const float others[] = {7, 8, 9};
  iobind_tensor *none = fixture_floats(cpu, values, 0);
  iobind_tensor *some = fixture_floats(cpu, values, 3);
  set_input(binding, 0, none);
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  set_input(binding, 0, some);
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  iobind_tensor *x = NULL;
  expect_ok(iobind_binding_take_output(binding, 0, &x, &fault));
  expect_ok(iobind_tensor_write(some, 0, others, sizeof others, NULL, &fault));
  fixture_expect_floats(x, values, 3);
  iobind_tensor_release(x);
  iobind_tensor_release(some);
  iobind_tensor_release(none);
  iobind_binding_destroy(binding);
  iobind_session_destroy(session);
}

/* iobind copies the input after the run: then it must be what the run has read. */
static void passed_through_and_overwritten(void **state) {
  (void)state;
  static const float values[] = {1, 2, 3};
  iobind_session *session = fixture_session(runtime, NULL, "passthrough");
  for (int carried = 0; carried < 2; carried++) {
    iobind_binding *binding = bind(session);
    iobind_tensor *x = fixture_floats(cpu, values, 3);
    set_input(binding, 0, x);
    if (carried) {
      expect_ok(iobind_binding_carry(binding, 1, 0, IOBIND_CARRY_IN_PLACE, &fault));
    } else {
      expect_ok(iobind_binding_set_output(binding, 1, x, IOBIND_OUTPUT_IN_PLACE, &fault));
    }
    expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_binding_run(binding, NULL, &fault));
    expect_words("output 'x' passes through the input of that name, which output 'y' overwrites");
    expect_ok(iobind_binding_place_output(binding, 0, IOBIND_OUTPUT_NONE, NULL, IOBIND_MEMORY_DEFAULT, &fault));
    expect_ok(iobind_binding_run(binding, NULL, &fault));
    fixture_expect_floats(x, (const float[]){2, 4, 6}, 3);
    iobind_tensor_release(x);
    iobind_binding_destroy(binding);
  }
  iobind_session_destroy(session);
}

static void expect_text(const iobind_tensor *tensor, const char *text) {
  char got[16] = "";
  size_t needed = 0;
  expect_ok(iobind_tensor_get_string(tensor, 0, got, sizeof got, &needed, &fault));
  assert_int_equal(needed, strlen(text));
  assert_memory_equal(got, text, needed);
}

/* Strings have no bytes to compare, and are passed through nevertheless. */
static void passed_through_strings(void **state) {
  (void)state;
  iobind_session *session = fixture_session(runtime, NULL, "passthrough dtype=string");
  iobind_binding *binding = bind(session);
  static const int64_t one = 1;
  iobind_tensor *x = NULL;
  expect_ok(iobind_tensor_create(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_STRING, &one, 1, &x, &fault));
  expect_ok(iobind_tensor_set_string(x, 0, "before", &fault));
  set_input(binding, 0, x);
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  iobind_tensor *bound = NULL;
  iobind_tensor *unbound[2] = {NULL, NULL};
  expect_ok(iobind_binding_take_output(binding, 0, &bound, &fault));
  expect_ok(call_session_run(session, &x, unbound, &fault));
  expect_ok(iobind_tensor_set_string(x, 0, "after", &fault));
  expect_text(bound, "before");
  expect_text(unbound[0], "before");
  expect_text(unbound[1], "before");
  iobind_tensor_release(unbound[0]);
  iobind_tensor_release(unbound[1]);
  iobind_tensor_release(bound);
  iobind_tensor_release(x);
  iobind_binding_destroy(binding);
  iobind_session_destroy(session);
}

/* ORT refuses to bind an input: the next run binds all of them, and does not run with none. */
static void inputs_are_bound_again_after_a_failure(void **state) {
  (void)state;
  iobind_session *session = fixture_session(runtime, NULL, "add");
  static const float values[] = {1, 2};
  iobind_tensor *x = fixture_floats(cpu, values, 2);
  iobind_tensor *y = fixture_floats(cpu, values, 2);
  iobind_tensor *z = fixture_floats(cpu, NULL, 2);
  for (int failing = 0; failing < 2; failing++) {
    iobind_binding *binding = bind(session);
    set_input(binding, 0, x);
    set_input(binding, 1, x);
    expect_ok(iobind_binding_set_output(binding, 0, z, 0, &fault));
    expect_ok(iobind_binding_run(binding, NULL, &fault));
    bind_input_left = failing;
    for (int i = 0; i < 2; i++) {
      expect(i == failing ? IOBIND_ERROR_RUNTIME : IOBIND_OK,
             iobind_binding_set_input(binding, (size_t)i, IOBIND_INPUT_RESIDENT, y, NULL, &fault));
    }
    bind_input_left = failing; /* both are bound by the next run, and one fails again */
    runs = 0;
    expect(IOBIND_ERROR_RUNTIME, iobind_binding_run(binding, NULL, &fault));
    assert_int_equal(runs, 0);
    expect_ok(iobind_binding_run(binding, NULL, &fault));
    static const float expected[] = {2, 4};
    fixture_expect_floats(get(binding, 0), expected, 2);
    iobind_binding_destroy(binding);
  }
  iobind_tensor_release(x);
  iobind_tensor_release(y);
  iobind_tensor_release(z);
  iobind_session_destroy(session);
}

/* A taken REUSE output is never overwritten, also where the first try to give it new memory failed. */
static void taken_output_survives_a_failed_renewal(void **state) {
  (void)state;
  iobind_session *session = fixture_session(runtime, NULL, "scale");
  iobind_binding *binding = bind(session);
  static const float values[] = {1, 2};
  static const float others[] = {5, 6};
  static const float expected[] = {2, 4};
  iobind_tensor *x = fixture_floats(cpu, values, 2);
  set_input(binding, 0, x);
  set_reuse(binding, 0);
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  iobind_tensor *y = NULL;
  expect_ok(iobind_binding_take_output(binding, 0, &y, &fault));
  bind_output_left = 0;
  expect(IOBIND_ERROR_RUNTIME, iobind_binding_run(binding, NULL, &fault));
  expect_ok(iobind_tensor_write(x, 0, others, sizeof others, NULL, &fault));
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  fixture_expect_floats(y, expected, 2);
  iobind_tensor_release(y);
  iobind_tensor_release(x);
  iobind_binding_destroy(binding);
  iobind_session_destroy(session);
}

/* A run that stops before ORT's leaves no results; memory of an earlier one that becomes an input is still looked out for. */
static void reused_output_as_input_after_a_failed_run(void **state) {
  (void)state;
  iobind_device *webgpu = fixture_device(runtime, "webgpu");
  iobind_session *session = fixture_session(runtime, webgpu, "matmul m=2 k=2 n=2");
  iobind_binding *binding = bind(session);
  static const int64_t dims[] = {2, 2};
  static const float turn[] = {0, 1, 1, 1};
  iobind_tensor *x = NULL;
  iobind_tensor *live = NULL;
  expect_ok(iobind_tensor_create(webgpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 2, &x, &fault));
  expect_ok(iobind_tensor_create(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 2, &live, &fault));
  expect_ok(iobind_tensor_write(x, 0, turn, sizeof turn, NULL, &fault));
  expect_ok(iobind_tensor_write(live, 0, turn, sizeof turn, NULL, &fault));
  set_input(binding, 0, x);
  expect_ok(iobind_binding_set_input(binding, 1, IOBIND_INPUT_LIVE, live, NULL, &fault));
  set_reuse(binding, 0);
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  iobind_tensor *square = iobind_tensor_retain(get(binding, 0));
  copy_left = 0;
  expect(IOBIND_ERROR_RUNTIME, iobind_binding_run(binding, NULL, &fault));
  set_input(binding, 0, square);
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  iobind_tensor *cube = get(binding, 0);
  assert_ptr_not_equal(iobind_tensor_get_address(cube), iobind_tensor_get_address(square));
  static const float expected[] = {1, 2, 2, 3};
  fixture_expect_floats(cube, expected, 4);
  iobind_tensor_release(square);
  iobind_tensor_release(live);
  iobind_tensor_release(x);
  iobind_binding_destroy(binding);
  iobind_session_destroy(session);
}

/* A binding repeats its last run with the options that it has by then. */
static void run_options_of_a_binding_that_repeats(void **state) {
  (void)state;
  iobind_session *session = fixture_session(runtime, NULL, "scale");
  iobind_binding *binding = bind(session);
  static const float values[] = {1, 2, 3};
  static const char *const tags[] = {"first", "second", "third"};
  iobind_tensor *x = fixture_floats(cpu, values, 3);
  iobind_run_options options = IOBIND_RUN_OPTIONS_INIT;
  set_input(binding, 0, x);
  for (size_t i = 0; i < sizeof tags / sizeof *tags; i++) {
    options.tag = tags[i];
    expect_ok(iobind_binding_set_run_options(binding, &options, &fault));
    for (int run = 0; run < 3; run++) {
      expect_ok(iobind_binding_run(binding, NULL, &fault));
      assert_ptr_equal(last_options, binding->settings.ort.now);
      (void)get(binding, 0);
    }
  }
  iobind_tensor_release(x);
  iobind_binding_destroy(binding);
  iobind_session_destroy(session);
}

/* DirectML's EP loses ORT's words: an output with preallocated memory is named, if there is one. */
static void failure_without_words(void **state) {
  (void)state;
  iobind_session *session = fixture_session(runtime, NULL, "concat dims=a,1 dims2=b,1");
  iobind_binding *binding = bind(session);
  static const float values[] = {1, 2};
  iobind_tensor *x = make_rows(values, 2);
  set_input(binding, 0, x);
  set_input(binding, 1, x);
  run_words = "Non-zero status code returned while running Concat node. Status Message: Exception(6) tid(24) 8007023E";
  expect(IOBIND_ERROR_RUNTIME, iobind_binding_run(binding, NULL, &fault));
  assert_null(strstr(fault.message, "FRESH"));
  set_reuse(binding, 0);
  expect(IOBIND_ERROR_RUNTIME, iobind_binding_run(binding, NULL, &fault));
  expect_words("'joined' may not have the bound shape");
  expect_words("use FRESH");
  expect_words("8007023E");
  run_words = NULL;
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  iobind_tensor_release(x);
  iobind_binding_destroy(binding);
  iobind_session_destroy(session);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(failure_without_words),
    cmocka_unit_test(part_of_a_reused_output_as_input),
    cmocka_unit_test(reused_output_as_input),
    cmocka_unit_test(passed_through_after_an_empty_run),
    cmocka_unit_test(passed_through_and_overwritten),
    cmocka_unit_test(passed_through_strings),
    cmocka_unit_test(inputs_are_bound_again_after_a_failure),
    cmocka_unit_test(taken_output_survives_a_failed_renewal),
    cmocka_unit_test(reused_output_as_input_after_a_failed_run),
    cmocka_unit_test(run_options_of_a_binding_that_repeats),
};

FIXTURE_MAIN(tests, start, stop);
