/* Traps of values that are not tensors, and of what ORT says when it refuses. */
#include "trap.h"

#include <stdio.h>
#include <string.h>

#include "session/session.h"
#include "../rig/calls.h"

static void write_node(onnx_writer *writer, const char *op, const char *domain, const char *first, const char *second,
                       const char *output) {
  onnx_node_begin(writer, op, domain, "");
  onnx_node_input(writer, first);
  if (second != NULL) {
    onnx_node_input(writer, second);
  }
  onnx_node_output(writer, output);
}

/* x, a map from text to numbers, in the order of the words: y */
static void write_map_input(onnx_writer *writer) {
  static const int64_t open[] = {1, -1};
  static const char *const words[] = {"low", "high"};
  const onnx_type number = {.kind = ONNX_KIND_TENSOR, .dtype = ONNX_FLOAT32};
  const onnx_type map = {.kind = ONNX_KIND_MAP, .dtype = ONNX_STRING, .element = &number};
  const onnx_type row = {.kind = ONNX_KIND_TENSOR, .dtype = ONNX_FLOAT32, .dims = open, .rank = 2};
  onnx_input(writer, "x", &map);
  onnx_output(writer, "y", &row);
  write_node(writer, "DictVectorizer", "ai.onnx.ml", "x", NULL, "y");
  onnx_attribute_strings(writer, "string_vocabulary", words, NULL, 2);
  onnx_node_end(writer);
}

/* y: for each row of x a map from class to score, as classifiers give it */
static void write_map_output(onnx_writer *writer) {
  static const int64_t dims[] = {-1, 2};
  static const int64_t classes[] = {10, 20};
  const onnx_type number = {.kind = ONNX_KIND_TENSOR, .dtype = ONNX_FLOAT32};
  const onnx_type map = {.kind = ONNX_KIND_MAP, .dtype = ONNX_INT64, .element = &number};
  const onnx_type maps = {.kind = ONNX_KIND_SEQUENCE, .element = &map};
  const onnx_type rows = {.kind = ONNX_KIND_TENSOR, .dtype = ONNX_FLOAT32, .dims = dims, .rank = 2};
  onnx_input(writer, "x", &rows);
  onnx_output(writer, "y", &maps);
  write_node(writer, "ZipMap", "ai.onnx.ml", "x", NULL, "y");
  onnx_attribute_ints(writer, "classlabels_int64s", classes, 2);
  onnx_node_end(writer);
}

/* y = x z, x being sparse */
static void write_sparse_input(onnx_writer *writer) {
  static const int64_t dims[] = {2, 2};
  const onnx_type sparse = {.kind = ONNX_KIND_SPARSE_TENSOR, .dtype = ONNX_FLOAT32, .dims = dims, .rank = 2};
  const onnx_type dense = {.kind = ONNX_KIND_TENSOR, .dtype = ONNX_FLOAT32, .dims = dims, .rank = 2};
  onnx_input(writer, "x", &sparse);
  onnx_input(writer, "z", &dense);
  onnx_output(writer, "y", &dense);
  write_node(writer, "SparseToDenseMatMul", "com.microsoft", "x", "z", "y");
  onnx_node_end(writer);
}

/* The first input is not a tensor: every way to it is NOT_SUPPORTED, with a message. */
static void expect_no_input(iobind_session *session, iobind_value_kind kind) {
  iobind_value_info info = IOBIND_VALUE_INFO_INIT;
  static const float some[] = {1, 2, 3, 4};
  iobind_tensor *tensor = fixture_floats(cpu, some, 4);
  iobind_tensor *inputs[] = {tensor, tensor};
  iobind_tensor *output = tensor;
  expect_ok(iobind_session_get_input(session, 0, &info, &fault));
  assert_int_equal(info.kind, kind);
  assert_int_equal(info.dtype, IOBIND_DTYPE_UNDEFINED);
  iobind_binding *binding = trap_bind(session);
  for (int mode = IOBIND_INPUT_RESIDENT; mode <= IOBIND_INPUT_LIVE; mode++) {
    expect(IOBIND_ERROR_NOT_SUPPORTED, iobind_binding_set_input(binding, 0, (iobind_input_mode)mode, tensor, NULL, &fault));
    expect_words("'x' is not a tensor");
  }
  expect(IOBIND_ERROR_NOT_SUPPORTED, iobind_binding_check(binding, &fault));
  expect(IOBIND_ERROR_NOT_SUPPORTED, iobind_binding_run(binding, NULL, &fault));
  expect_words("'x' is not a tensor");
  expect(IOBIND_ERROR_NOT_SUPPORTED, call_session_run(session, inputs, &output, &fault));
  expect_words("'x' is not a tensor");
  assert_null(output);
  iobind_tensor_release(tensor);
  iobind_binding_destroy(binding);
  iobind_session_destroy(session);
}

static void maps(void **state) {
  (void)state;
  expect_no_input(trap_written_session(write_map_input), IOBIND_VALUE_MAP);
}

static void sparse_tensors(void **state) {
  (void)state;
  expect_no_input(trap_written_session(write_sparse_input), IOBIND_VALUE_SPARSE);
}

static void sequences(void **state) {
  (void)state;
  expect_no_input(fixture_session(runtime, NULL, "length"), IOBIND_VALUE_SEQUENCE);
}

static void optionals(void **state) {
  (void)state;
  expect_no_input(fixture_session(runtime, NULL, "optional"), IOBIND_VALUE_OPTIONAL);
}

/* ORT binds and computes them, and stops in the middle of a question about where they are. */
static void expect_no_output(iobind_session *session, iobind_tensor *x) {
  iobind_binding *binding = trap_bind(session);
  iobind_tensor *y = x;
  trap_set_input(binding, 0, x);
  static const int modes[] = {IOBIND_OUTPUT_FRESH, IOBIND_OUTPUT_REUSE, OUTPUT_FIXED, OUTPUT_IN_PLACE};
  for (size_t m = 0; m < sizeof modes / sizeof *modes; m++) {
    int mode = modes[m];
    iobind_tensor *target = mode == OUTPUT_FIXED || mode == OUTPUT_IN_PLACE ? x : NULL;
    expect(IOBIND_ERROR_NOT_SUPPORTED, call_binding_set_output(binding, 0, mode, NULL, IOBIND_MEMORY_DEFAULT, target, &fault));
    expect_words("'y' is not a tensor");
  }
  trap_set_output(binding, 0, IOBIND_OUTPUT_NONE, NULL, NULL);
  expect(IOBIND_ERROR_INVALID_STATE, iobind_binding_run(binding, NULL, &fault));
  expect_words("no output is bound");
  expect(IOBIND_ERROR_INVALID_STATE, iobind_binding_get_output(binding, 0, NULL, &y, &fault));
  expect(IOBIND_ERROR_NOT_SUPPORTED, call_session_run(session, &x, &y, &fault));
  assert_null(y);
  iobind_binding_destroy(binding);
  iobind_session_destroy(session);
}

static void outputs_that_are_no_tensors(void **state) {
  (void)state;
  static const float two[] = {1, 2};
  static const int64_t dims[] = {1, 2};
  iobind_tensor *flat = fixture_floats(cpu, two, 2);
  iobind_tensor *row = NULL;
  expect_ok(iobind_tensor_view(flat, 0, IOBIND_DTYPE_FLOAT32, dims, 2, &row, &fault));
  expect_no_output(trap_written_session(write_map_output), row);
  expect_no_output(fixture_session(runtime, NULL, "sequence"), flat);
  iobind_tensor_release(row);
  iobind_tensor_release(flat);
}

static OrtStatus *ORT_CALL deny_tensor(const OrtValue *value, int *out) {
  (void)value;
  *out = 0;
  return NULL;
}

/* A value that is another kind than the model said. */
static void output_that_came_out_as_no_tensor(void **state) {
  (void)state;
  static const float two[] = {1, 2};
  iobind_session *session = fixture_session(runtime, NULL, "scale");
  iobind_binding *binding = trap_bind(session);
  iobind_tensor *x = fixture_floats(cpu, two, 2);
  trap_set_input(binding, 0, x);
  table.IsTensor = deny_tensor;
  expect(IOBIND_ERROR_NOT_SUPPORTED, iobind_binding_run(binding, NULL, &fault));
  expect_words("'y': the run returned no tensor");
  table.IsTensor = real->IsTensor;
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  iobind_tensor_release(x);
  iobind_binding_destroy(binding);
  iobind_session_destroy(session);
}

/* ---- ORT's words ---- */

/* Texts as ORT gives them, and what a user is to read. */
static void source_places_and_newlines(void **state) {
  (void)state;
  static const struct {
    const char *text;
    const char *message;
  } rows[] = {
      {"plain words", "bind: plain words"},
      {"two\nlines\r\n  and a\ttab\n", "bind: two lines and a tab"},
      {"/onnxruntime_src/onnxruntime/core/session/IOBinding.cc:39 onnxruntime::common::Status "
       "onnxruntime::IOBinding::BindInput(const std::string&, const OrtValue&) mapped_feed_names_.size() == feed_names_.size() was "
       "false. Size mismatch:2!=1\n",
       "bind: mapped_feed_names_.size() == feed_names_.size() was false. Size mismatch:2!=1"},
      {"Non-zero status code returned while running Expand node. Name:'' Status Message: "
       "/onnxruntime_src/onnxruntime/core/providers/cpu/tensor/expand.cc:12 void f(int) const it does not fit\n\n",
       "bind: Non-zero status code returned while running Expand node. Name:'' Status Message: it does not fit"},
      {"D:\\a\\_work\\1\\s\\onnxruntime\\core\\framework\\execution_frame.cc:173 onnxruntime::F::g the shape {2,3} is wrong",
       NULL},
      /* without a function behind the place: "Compile()" is not one, and its subject stays */
      {"/onnxruntime_src/onnxruntime/core/session/plugin_ep/ep_plugin_provider_interfaces.cc:9 SomeExecutionProvider: "
       "OrtEp::Compile() returned a NULL EPContext node",
       "bind: SomeExecutionProvider: OrtEp::Compile() returned a NULL EPContext node"},
      {"", "bind: "},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    iobind_error error = IOBIND_ERROR_INIT;
    OrtStatus *status = real->CreateStatus(ORT_INVALID_ARGUMENT, rows[i].text);
    assert_int_equal(iobind__ort_fail(real, status, &error, "bind"), IOBIND_ERROR_RUNTIME);
    assert_int_equal(error.ort_code, ORT_INVALID_ARGUMENT);
    assert_null(strpbrk(error.message, "\r\n\t"));
    assert_null(strstr(error.message, ".cc:"));
    if (rows[i].message != NULL) {
      assert_string_equal(error.message, rows[i].message);
    } else {
      assert_non_null(strstr(error.message, "the shape {2,3} is wrong"));
    }
  }
}

/* Of a message that is too long, the failed node is kept, not the nodes around it. */
static void failure_inside_of_other_nodes(void **state) {
  (void)state;
  char text[1024] = "";
  size_t length = 0;
  for (int depth = 0; depth < 6; depth++) {
    length += (size_t)snprintf(text + length, sizeof text - length,
                               "Non-zero status code returned while running If node. Name:'branch_%d' Status Message: ", depth);
  }
  snprintf(text + length, sizeof text - length,
           "Non-zero status code returned while running Add node. Name:'sum' Status Message: why");
  iobind_error error = IOBIND_ERROR_INIT;
  assert_int_equal(iobind__ort_fail(real, real->CreateStatus(ORT_FAIL, text), &error, "bind"), IOBIND_ERROR_RUNTIME);
  assert_string_equal(error.message,
                      "bind: ... Non-zero status code returned while running Add node. Name:'sum' Status Message: why");
  assert_int_equal(iobind__ort_fail(real, real->CreateStatus(ORT_FAIL, text + length / 2), &error, "bind"),
                   IOBIND_ERROR_RUNTIME);
  assert_non_null(strstr(error.message, "'branch_3'"));
}

/* The same of errors that ORT makes itself. */
static void messages_of_real_failures(void **state) {
  (void)state;
  static const char garbage[] = "this is not a model";
  iobind_session *session = NULL;
  expect(IOBIND_ERROR_RUNTIME, iobind_session_create_from_memory(runtime, garbage, sizeof garbage, NULL, &session, &fault));
  assert_null(strstr(fault.message, "onnxruntime_src"));

  /* the words for this one begin with a path and one of ORT's functions */
  session = fixture_session(runtime, NULL, "reshape");
  iobind_binding *binding = trap_bind(session);
  static const float two[] = {1, 2};
  static const int64_t shape[] = {3, 5};
  static const int64_t count = 2;
  iobind_tensor *x = fixture_floats(cpu, two, 2);
  iobind_tensor *dims = NULL;
  expect_ok(iobind_tensor_create(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_INT64, &count, 1, &dims, &fault));
  expect_ok(iobind_tensor_write(dims, 0, shape, sizeof shape, NULL, &fault));
  trap_set_input(binding, 0, x);
  trap_set_input(binding, 1, dims);
  expect(IOBIND_ERROR_RUNTIME, iobind_binding_run(binding, NULL, &fault));
  expect_words("cannot be reshaped");
  assert_null(strstr(fault.message, "onnxruntime_src"));
  assert_null(strstr(fault.message, ".h:"));
  assert_null(strstr(fault.message, "onnxruntime::"));
  iobind_tensor_release(dims);
  iobind_tensor_release(x);
  iobind_binding_destroy(binding);
  iobind_session_destroy(session);
}

/* ORT up to 1.27 takes the numbers of the newest types for those of others, some of them with smaller elements. */
static void types_taken_for_others(void **state) {
  (void)state;
  static const int64_t count = 1000;
  static unsigned char sent[1000], got[1000];
  memset(sent, 0xA5, sizeof sent);
  for (int32_t dtype = IOBIND_DTYPE_UINT2; dtype <= IOBIND_DTYPE_FLOAT8E8M0; dtype++) {
    iobind_tensor *made = NULL;
    iobind_tensor *wrapped = NULL;
    size_t bytes = 0;
    expect_ok(iobind_dtype_get_bytes((iobind_dtype)dtype, &count, 1, &bytes, &fault));
    assert_true(bytes > 0 && bytes <= sizeof sent);
    iobind_status status = iobind_tensor_create(cpu, IOBIND_MEMORY_DEFAULT, (iobind_dtype)dtype, &count, 1, &made, &fault);
    if (status != IOBIND_OK) {
      assert_int_equal(status, IOBIND_ERROR_NOT_SUPPORTED);
      expect_words(iobind_dtype_get_name(dtype));
      expect(IOBIND_ERROR_NOT_SUPPORTED, call_tensor_wrap(cpu, IOBIND_MEMORY_DEFAULT, (iobind_dtype)dtype, &count, 1, got,
                                                          sizeof got, NULL, NULL, &wrapped, &fault));
      continue;
    }
    expect_ok(iobind_tensor_write(made, 0, sent, bytes, NULL, &fault));
    expect_ok(iobind_tensor_read(made, 0, got, bytes, NULL, &fault));
    assert_memory_equal(got, sent, bytes);
    iobind_tensor_release(made);
  }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(maps),
    cmocka_unit_test(sparse_tensors),
    cmocka_unit_test(sequences),
    cmocka_unit_test(optionals),
    cmocka_unit_test(outputs_that_are_no_tensors),
    cmocka_unit_test(output_that_came_out_as_no_tensor),
    cmocka_unit_test(source_places_and_newlines),
    cmocka_unit_test(failure_inside_of_other_nodes),
    cmocka_unit_test(messages_of_real_failures),
    cmocka_unit_test(types_taken_for_others),
};

TRAP_MAIN(tests);
