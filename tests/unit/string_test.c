/* Bound tensors of strings: values of ORT's in two tensors, a reused output as an input, targets of a request. The rows of conformance have the
 * rest. */
#include "stage.h"

#include <string.h>

#include "iobind/interop.h"
#include "../rig/calls.h"

static iobind_tensor *make_text(const char *text) {
  static const int64_t one = 1;
  iobind_tensor *made = NULL;
  expect_ok(iobind_tensor_create(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_STRING, &one, 1, &made, &fault));
  expect_ok(iobind_tensor_set_string(made, 0, text, &fault));
  return made;
}

static void expect_text(const iobind_tensor *tensor, const char *text) {
  char got[32] = "";
  size_t needed = 0;
  expect_ok(iobind_tensor_get_string(tensor, 0, got, sizeof got - 1, &needed, &fault));
  assert_string_equal(got, text);
}

static iobind_binding *bind(iobind_session *session) {
  iobind_binding *made = NULL;
  expect_ok(iobind_binding_create(session, &made, &fault));
  return made;
}

/* Two tensors over one value of ORT's. */
static void two_tensors_of_one_value(void **state) {
  (void)state;
  iobind_session *session = fixture_session(runtime, NULL, "identity dtype=string");
  iobind_binding *binding = bind(session);
  iobind_tensor *text = make_text("text");
  iobind_tensor *same[2] = {NULL, NULL};
  iobind_ort ort = IOBIND_ORT_INIT;
  void *value = NULL;
  expect_ok(iobind_runtime_get_ort(runtime, &ort, &fault));
  expect_ok(iobind_tensor_to_ort(text, &value, &fault));
  for (int i = 0; i < 2; i++) {
    expect_ok(iobind_tensor_wrap_ort(runtime, value, NULL, NULL, &same[i], &fault));
  }
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, same[0], NULL, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_binding_set_output(binding, 0, same[1], 0, &fault));
  expect_words("overlaps the memory of input");
  iobind_binding_destroy(binding);
  iobind_tensor_release(same[0]);
  iobind_tensor_release(same[1]);
  iobind_tensor_release(text);
  ((const OrtApi *)ort.api)->ReleaseValue(value);
  iobind_session_destroy(session);
}

/* The output of the last run becomes an input: the next run writes other strings. */
static void a_reused_output_as_an_input(void **state) {
  (void)state;
  iobind_session *session = fixture_session(runtime, NULL, "join");
  iobind_binding *binding = bind(session);
  iobind_tensor *x = make_text("a");
  iobind_tensor *y = NULL;
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
  expect_ok(iobind_binding_set_input(binding, 1, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
  expect_ok(iobind_binding_place_output(binding, 0, IOBIND_OUTPUT_REUSE, NULL, IOBIND_MEMORY_DEFAULT, &fault));
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  for (int turn = 0; turn < 3; turn++) {
    static const char *const texts[] = {"aa", "aaa", "aaaa", "aaaaa"};
    iobind_tensor *last = NULL;
    expect_ok(iobind_binding_get_output(binding, 0, NULL, &last, &fault));
    iobind_tensor_retain(last);
    expect_text(last, texts[turn]);
    expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, last, NULL, &fault));
    expect_ok(iobind_binding_run(binding, NULL, &fault));
    expect_text(last, texts[turn]);
    expect_ok(iobind_binding_get_output(binding, 0, NULL, &y, &fault));
    expect_text(y, texts[turn + 1]);
    iobind_tensor_release(last);
  }
  iobind_tensor_release(x);
  iobind_binding_destroy(binding);
  iobind_session_destroy(session);
}

/* A request writes the strings into its target, run after run; an output without one is new each time. */
static void a_target_of_a_request(void **state) {
  (void)state;
  iobind_session *session = fixture_session(runtime, NULL, "passthrough dtype=string");
  iobind_tensor *x = make_text("first");
  iobind_tensor *target = make_text("");
  iobind_tensor *targets[2] = {target, NULL};
  iobind_tensor *kept = NULL;
  iobind_run_request request = IOBIND_RUN_REQUEST_INIT;
  request.inputs = &x;
  request.targets = targets;
  for (int turn = 0; turn < 2; turn++) {
    static const char *const texts[] = {"first", "second"};
    iobind_tensor *outputs[2] = {NULL, NULL};
    expect_ok(iobind_tensor_set_string(x, 0, texts[turn], &fault));
    expect_ok(call_session_request(session, &request, outputs, &fault));
    assert_ptr_equal(outputs[0], target);
    expect_text(target, texts[turn]);
    expect_text(outputs[1], texts[turn]);
    iobind_tensor_release(outputs[0]);
    iobind_tensor_release(turn == 0 ? NULL : outputs[1]);
    kept = turn == 0 ? outputs[1] : kept;
  }
  expect_text(kept, "first");
  targets[0] = x;
  iobind_tensor *outputs[2] = {target, target};
  expect(IOBIND_ERROR_INVALID_ARGUMENT, call_session_request(session, &request, outputs, &fault));
  expect_words("overlaps");
  expect_text(x, "second");
  iobind_tensor_release(kept);
  iobind_tensor_release(target);
  iobind_tensor_release(x);
  iobind_session_destroy(session);
}

/* ORT's StringConcat appends to what its output holds. */
static void texts_are_not_appended(void **state) {
  (void)state;
  iobind_session *session = fixture_session(runtime, NULL, "join");
  iobind_tensor *left = make_text("le");
  iobind_tensor *right = make_text("ft");
  for (int fixed = 0; fixed < 2; fixed++) {
    iobind_binding *binding = bind(session);
    iobind_tensor *target = make_text("old");
    expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, left, NULL, &fault));
    expect_ok(iobind_binding_set_input(binding, 1, IOBIND_INPUT_RESIDENT, right, NULL, &fault));
    if (fixed) {
      expect_ok(iobind_binding_set_output(binding, 0, target, 0, &fault));
    } else {
      expect_ok(iobind_binding_place_output(binding, 0, IOBIND_OUTPUT_REUSE, NULL, IOBIND_MEMORY_DEFAULT, &fault));
    }
    for (int i = 0; i < 4; i++) {
      iobind_tensor *joined = NULL;
      expect_ok(iobind_binding_run(binding, NULL, &fault));
      expect_ok(iobind_binding_get_output(binding, 0, NULL, &joined, &fault));
      expect_text(joined, "left");
    }
    if (fixed) {
      expect_text(target, "left");
    }
    iobind_binding_destroy(binding);
    iobind_tensor_release(target);
  }
  iobind_tensor_release(left);
  iobind_tensor_release(right);
  iobind_session_destroy(session);
}

/* What was taken is the caller's, and the next run writes other texts elsewhere. */
static void a_taken_text_stays(void **state) {
  (void)state;
  iobind_session *session = fixture_session(runtime, NULL, "join");
  iobind_binding *binding = bind(session);
  iobind_tensor *x = make_text("a");
  iobind_tensor *taken = NULL;
  iobind_tensor *joined = NULL;
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
  expect_ok(iobind_binding_set_input(binding, 1, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
  expect_ok(iobind_binding_place_output(binding, 0, IOBIND_OUTPUT_REUSE, NULL, IOBIND_MEMORY_DEFAULT, &fault));
  for (int i = 0; i < 2; i++) {
    expect_ok(iobind_binding_run(binding, NULL, &fault));
  }
  expect_ok(iobind_binding_take_output(binding, 0, &taken, &fault));
  expect_ok(iobind_tensor_set_string(x, 0, "b", &fault));
  for (int i = 0; i < 2; i++) {
    expect_ok(iobind_binding_run(binding, NULL, &fault));
    expect_ok(iobind_binding_get_output(binding, 0, NULL, &joined, &fault));
    expect_text(joined, "bb");
    expect_text(taken, "aa");
  }
  iobind_binding_destroy(binding);
  iobind_tensor_release(taken);
  iobind_tensor_release(x);
  iobind_session_destroy(session);
}

static void a_target_with_old_texts(void **state) {
  (void)state;
  iobind_session *session = fixture_session(runtime, NULL, "join");
  iobind_tensor *inputs[2] = {make_text("le"), make_text("ft")};
  iobind_tensor *targets[1] = {make_text("old")};
  iobind_tensor *joined = NULL;
  iobind_run_request request = IOBIND_RUN_REQUEST_INIT;
  request.inputs = inputs;
  request.input_count = 2;
  request.targets = targets;
  request.target_count = 1;
  expect_ok(iobind_session_run(session, &request, &joined, 1, &fault));
  expect_text(targets[0], "left");
  expect_text(joined, "left");
  iobind_tensor_release(joined);
  iobind_tensor_release(targets[0]);
  iobind_tensor_release(inputs[0]);
  iobind_tensor_release(inputs[1]);
  iobind_session_destroy(session);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(two_tensors_of_one_value), cmocka_unit_test(a_reused_output_as_an_input),
    cmocka_unit_test(a_target_of_a_request),    cmocka_unit_test(texts_are_not_appended),
    cmocka_unit_test(a_taken_text_stays),       cmocka_unit_test(a_target_with_old_texts),
};

FIXTURE_MAIN(tests, stage_open, stage_close);
