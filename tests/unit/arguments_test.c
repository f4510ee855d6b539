/* NULL for a required argument, and invalid options: each function names the argument. */
#include "stage.h"
#include "../rig/calls.h"

#include <string.h>

static iobind_session *session;
static iobind_binding *binding;
static iobind_tensor *tensor;

static const float values[] = {1, 2};
static const int64_t dims[] = {2};

static int start(void **state) {
  (void)stage_open(state);
  session = fixture_session(runtime, NULL, "scale");
  expect_ok(iobind_binding_create(session, &binding, &fault));
  tensor = fixture_floats(cpu, values, 2);
  return 0;
}

static int stop(void **state) {
  iobind_tensor_release(tensor);
  iobind_binding_destroy(binding);
  iobind_session_destroy(session);
  return stage_close(state);
}

/* Refused, and the message names the argument: "NAME is NULL". */
#define is_null(name, call)                        \
  do {                                             \
    expect(IOBIND_ERROR_INVALID_ARGUMENT, (call)); \
    expect_words(name " is NULL");                 \
  } while (0)

static void runtimes_and_devices(void **state) {
  (void)state;
  iobind_runtime_info info = IOBIND_RUNTIME_INFO_INIT;
  iobind_ep_info ep = IOBIND_EP_INFO_INIT;
  iobind_device_info of_device = IOBIND_DEVICE_INFO_INIT;
  iobind_device_counters counters = IOBIND_DEVICE_COUNTERS_INIT;
  iobind_device *found = cpu;
  const char *text = "";
  is_null("runtime", iobind_runtime_create(NULL, NULL, &fault));
  is_null("runtime", iobind_runtime_get_info(NULL, &info, &fault));
  is_null("info", iobind_runtime_get_info(runtime, NULL, &fault));
  is_null("runtime", iobind_runtime_register_ep(NULL, NULL, "libep.so", &fault));
  is_null("path", iobind_runtime_register_ep(runtime, NULL, NULL, &fault));
  is_null("runtime", iobind_runtime_get_ep(NULL, 0, &ep, &fault));
  is_null("info", iobind_runtime_get_ep(runtime, 0, NULL, &fault));
  is_null("runtime", iobind_runtime_find_device(NULL, "cpu", &found, NULL, &fault));
  is_null("device", iobind_runtime_find_device(runtime, "cpu", NULL, NULL, &fault));
  assert_null(iobind_runtime_get_device(NULL, 0));
  is_null("device", iobind_device_get_info(NULL, &of_device, &fault));
  is_null("info", iobind_device_get_info(cpu, NULL, &fault));
  is_null("device", iobind_device_get_metadata(NULL, 0, &text, &text, &fault));
  is_null("device", iobind_device_check(NULL, &fault));
  is_null("device", iobind_device_get_counters(NULL, &counters, &fault));
  is_null("counters", iobind_device_get_counters(cpu, NULL, &fault));
  iobind_memory_usage usage = IOBIND_MEMORY_USAGE_INIT;
  is_null("device", iobind_device_get_memory(NULL, IOBIND_HOLDER_ANY, &usage, &fault));
  is_null("device", iobind_device_trim(NULL, &fault));
  is_null("usage", iobind_device_get_memory(cpu, IOBIND_HOLDER_ANY, NULL, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_device_get_memory(cpu, (iobind_holder)6, &usage, &fault));
  expect_words("expected 0 .. 5, got 6");
}

static void streams_and_events(void **state) {
  (void)state;
  iobind_stream *stream = NULL;
  iobind_event *event = NULL;
  int32_t done = 0;
  is_null("device", iobind_stream_create(NULL, NULL, &stream, &fault));
  is_null("stream", iobind_stream_create(cpu, NULL, NULL, &fault));
  is_null("device", iobind_event_create(NULL, &event, &fault));
  is_null("event", iobind_event_create(cpu, NULL, &fault));
  expect_ok(iobind_stream_create(cpu, NULL, &stream, &fault));
  expect_ok(iobind_event_create(cpu, &event, &fault));
  is_null("stream", iobind_stream_synchronize(NULL, &fault));
  is_null("stream", iobind_stream_wait(NULL, event, &fault));
  is_null("event", iobind_stream_wait(stream, NULL, &fault));
  is_null("event", iobind_event_record(NULL, stream, &fault));
  is_null("stream", iobind_event_record(event, NULL, &fault));
  is_null("event", iobind_event_wait(NULL, IOBIND_NO_TIMEOUT, &fault));
  is_null("event", iobind_event_query(NULL, &done, &fault));
  is_null("done", iobind_event_query(event, NULL, &fault));
  assert_null(call_stream_get_native(NULL));
  iobind_event_destroy(event);
  iobind_stream_destroy(stream);
  iobind_event_destroy(NULL);
  iobind_stream_destroy(NULL);
}

static void tensors(void **state) {
  (void)state;
  iobind_tensor *made = NULL;
  iobind_tensor_info info = IOBIND_TENSOR_INFO_INIT;
  float data[2] = {0};
  void *address = NULL;
  size_t length = 0;
  const iobind_tensor *none = NULL;
  is_null("device", iobind_tensor_create(NULL, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 1, &made, &fault));
  is_null("tensor", iobind_tensor_create(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 1, NULL, &fault));
  is_null("device", call_tensor_wrap(NULL, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 1, data, sizeof data, NULL, NULL,
                                     &made, &fault));
  is_null("tensor", call_tensor_wrap(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 1, data, sizeof data, NULL, NULL,
                                     NULL, &fault));
  is_null("tensor", iobind_tensor_view(NULL, 0, IOBIND_DTYPE_FLOAT32, dims, 1, &made, &fault));
  is_null("tensor", iobind_tensor_slice(NULL, 0, 1, &made, &fault));
  is_null("tensor", iobind_tensor_get_info(NULL, &info, &fault));
  is_null("info", iobind_tensor_get_info(tensor, NULL, &fault));
  is_null("tensor", iobind_tensor_map(NULL, IOBIND_DTYPE_FLOAT32, IOBIND_ACCESS_WRITE, &address, &fault));
  is_null("tensor", iobind_tensor_write(NULL, 0, data, sizeof data, NULL, &fault));
  is_null("data", iobind_tensor_write(tensor, 0, NULL, sizeof data, NULL, &fault));
  is_null("tensor", iobind_tensor_read(NULL, 0, data, sizeof data, NULL, &fault));
  is_null("data", iobind_tensor_read(tensor, 0, NULL, sizeof data, NULL, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_tensor_copy(NULL, &tensor, 1, NULL, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_tensor_copy(&none, &tensor, 1, NULL, &fault));
  is_null("tensor", iobind_tensor_get_string(NULL, 0, NULL, 0, &length, &fault));
  is_null("tensor", iobind_tensor_set_string(NULL, 0, "text", &fault));
  assert_null(iobind_tensor_get_address(NULL));
  assert_null(iobind_tensor_retain(NULL));
  iobind_tensor_release(NULL);
}

static void sessions(void **state) {
  (void)state;
  iobind_session *made = NULL;
  iobind_session_info info = IOBIND_SESSION_INFO_INIT;
  iobind_value_info value = IOBIND_VALUE_INFO_INIT;
  iobind_node_info node = IOBIND_NODE_INFO_INIT;
  iobind_tensor *output = NULL;
  const char *path = NULL;
  size_t index = 0;
  is_null("runtime", iobind_session_create(NULL, "model.onnx", NULL, &made, &fault));
  is_null("path", iobind_session_create(runtime, NULL, NULL, &made, &fault));
  is_null("session", iobind_session_create(runtime, "model.onnx", NULL, NULL, &fault));
  is_null("model", iobind_session_create_from_memory(runtime, NULL, 8, NULL, &made, &fault));
  is_null("session", iobind_session_get_info(NULL, &info, &fault));
  is_null("info", iobind_session_get_info(session, NULL, &fault));
  is_null("session", iobind_session_get_metadata(NULL, 0, &path, &path, &fault));
  is_null("key", iobind_session_get_metadata(session, 0, NULL, &path, &fault));
  is_null("value", iobind_session_get_metadata(session, 0, &path, NULL, &fault));
  is_null("session", iobind_session_get_input(NULL, 0, &value, &fault));
  is_null("session", iobind_session_get_output(NULL, 0, &value, &fault));
  is_null("session", iobind_session_find_input(NULL, "x", &index, &fault));
  is_null("name", iobind_session_find_input(session, NULL, &index, &fault));
  is_null("session", iobind_session_find_output(NULL, "y", &index, &fault));
  is_null("session", iobind_session_get_node(NULL, 0, &node, &fault));
  is_null("session", call_session_run(NULL, &tensor, &output, &fault));
  is_null("session", iobind_session_end_profile(NULL, &path, &fault));
  is_null("path", iobind_session_end_profile(session, NULL, &fault));
  iobind_session_destroy(NULL);
}

static void bindings(void **state) {
  (void)state;
  iobind_binding *made = NULL;
  iobind_tensor *output = NULL;
  is_null("session", iobind_binding_create(NULL, &made, &fault));
  is_null("binding", iobind_binding_create(session, NULL, &fault));
  is_null("binding", iobind_binding_set_input(NULL, 0, IOBIND_INPUT_RESIDENT, tensor, NULL, &fault));
  is_null("tensor", iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, NULL, NULL, &fault));
  is_null("binding", iobind_binding_write_input(NULL, 0, values, sizeof values, NULL, &fault));
  is_null("binding", iobind_binding_place_output(NULL, 0, IOBIND_OUTPUT_FRESH, NULL, IOBIND_MEMORY_DEFAULT, &fault));
  is_null("binding", iobind_binding_set_run_options(NULL, NULL, &fault));
  is_null("binding", iobind_binding_check(NULL, &fault));
  is_null("binding", iobind_binding_run(NULL, NULL, &fault));
  is_null("binding", iobind_binding_announce_run(NULL, 1, &fault));
  is_null("binding", iobind_binding_cancel(NULL, &fault));
  is_null("binding", iobind_binding_get_output(NULL, 0, NULL, &output, &fault));
  is_null("tensor", iobind_binding_get_output(binding, 0, NULL, NULL, &fault));
  is_null("binding", iobind_binding_take_output(NULL, 0, &output, &fault));
  is_null("tensor", iobind_binding_take_output(binding, 0, NULL, &fault));
  is_null("binding", iobind_binding_clear(NULL, &fault));
  iobind_binding_destroy(NULL);
}

static void audits_and_pipelines(void **state) {
  (void)state;
  iobind_audit *audit = NULL;
  iobind_audit_info info = IOBIND_AUDIT_INFO_INIT;
  iobind_audit_entry entry = IOBIND_AUDIT_ENTRY_INIT;
  iobind_pipeline *pipeline = NULL;
  iobind_tensor *output = NULL;
  is_null("binding", iobind_audit_create(NULL, &audit, &fault));
  is_null("audit", iobind_audit_create(binding, NULL, &fault));
  is_null("audit", iobind_audit_get_info(NULL, &info, &fault));
  is_null("audit", iobind_audit_get_entry(NULL, 0, &entry, &fault));
  iobind_audit_destroy(NULL);
  is_null("session", call_pipeline_create(NULL, NULL, &pipeline, &fault));
  is_null("pipeline", call_pipeline_create(session, NULL, NULL, &fault));
  is_null("pipeline", call_pipeline_submit(NULL, &tensor, 1, &fault));
  is_null("pipeline", iobind_pipeline_next(NULL, IOBIND_NO_TIMEOUT, &output, 1, NULL, &fault));
  expect_ok(call_pipeline_create(session, NULL, &pipeline, &fault));
  is_null("inputs", call_pipeline_submit(pipeline, NULL, 0, &fault));
  iobind_tensor *two[2] = {tensor, tensor};
  expect(IOBIND_ERROR_INVALID_ARGUMENT, call_pipeline_submit(pipeline, two, 2, &fault));
  expect_words("inputs: expected a length of 1, got 2");
  is_null("outputs", iobind_pipeline_next(pipeline, IOBIND_NO_TIMEOUT, NULL, 0, NULL, &fault));
  iobind_pipeline_destroy(pipeline);
  iobind_pipeline_destroy(NULL);
  iobind_pipeline_options options = IOBIND_PIPELINE_OPTIONS_INIT;
  options.slots = SIZE_MAX;
  expect(IOBIND_ERROR_INVALID_ARGUMENT, call_pipeline_create(session, &options, &pipeline, &fault));
  expect_words("slots");
  iobind_session *strings = fixture_session(runtime, NULL, "passthrough dtype=string");
  expect(IOBIND_ERROR_NOT_SUPPORTED, call_pipeline_create(strings, NULL, &pipeline, &fault));
  expect_words("strings");
  iobind_session_destroy(strings);
}

/* An audit reports what is not bound or not fetched, and counts nothing for it. */
static void audit_of_half_a_binding(void **state) {
  (void)state;
  iobind_binding *half = NULL;
  iobind_audit *audit = NULL;
  iobind_audit_info info = IOBIND_AUDIT_INFO_INIT;
  iobind_audit_entry input = IOBIND_AUDIT_ENTRY_INIT;
  iobind_audit_entry output = IOBIND_AUDIT_ENTRY_INIT;
  expect_ok(iobind_binding_create(session, &half, &fault));
  expect_ok(iobind_binding_place_output(half, 0, IOBIND_OUTPUT_NONE, NULL, IOBIND_MEMORY_DEFAULT, &fault));
  expect_ok(iobind_audit_create(half, &audit, &fault));
  expect_ok(iobind_audit_get_info(audit, &info, &fault));
  expect_ok(iobind_audit_get_entry(audit, 0, &input, &fault));
  expect_ok(iobind_audit_get_entry(audit, 1, &output, &fault));
  assert_int_equal(info.entry_count, 2);
  assert_int_equal(info.crossing_bytes, 0);
  assert_string_equal(input.reason, "not bound");
  assert_string_equal(output.reason, "not fetched");
  iobind_audit_destroy(audit);
  /* a fixed output has its size before the first run */
  expect_ok(iobind_binding_set_output(half, 0, tensor, 0, &fault));
  expect_ok(iobind_audit_create(half, &audit, &fault));
  expect_ok(iobind_audit_get_info(audit, &info, &fault));
  expect_ok(iobind_audit_get_entry(audit, 1, &output, &fault));
  assert_int_equal(info.unknown_count, 0);
  assert_int_equal(output.flags & IOBIND_AUDIT_UNKNOWN, 0);
  iobind_audit_destroy(audit);
  iobind_binding_destroy(half);
}

/* A run without a binding omits outputs that are not tensors. */
static void sequence_as_an_output(void **state) {
  (void)state;
  iobind_session *sequence = fixture_session(runtime, NULL, "sequence");
  iobind_tensor *output = tensor;
  expect(IOBIND_ERROR_NOT_SUPPORTED, call_session_run(sequence, &tensor, &output, &fault));
  assert_null(output);
  iobind_session_destroy(sequence);
}

static void sequence_between_outputs(void **state) {
  (void)state;
  static const float sum[] = {2, 4};
  static const float product[] = {1, 4};
  iobind_session *mixed = fixture_session(runtime, NULL, "mixed");
  iobind_tensor *outputs[3] = {tensor, tensor, tensor};
  expect_ok(call_session_run(mixed, &tensor, outputs, &fault));
  fixture_expect_floats(outputs[0], sum, 2);
  assert_null(outputs[1]);
  fixture_expect_floats(outputs[2], product, 2);
  iobind_tensor_release(outputs[0]);
  iobind_tensor_release(outputs[2]);
  iobind_session_destroy(mixed);
}

static void outputs_that_cannot_be(void **state) {
  (void)state;
  iobind_tensor *text = NULL;
  expect(IOBIND_ERROR_INVALID_ARGUMENT,
         iobind_binding_place_output(binding, 0, IOBIND_OUTPUT_FRESH, cpu, (iobind_memory)7, &fault));
  expect_words("expected memory 0 .. 1, got 7");
  expect(IOBIND_ERROR_INVALID_ARGUMENT,
         iobind_binding_place_output(binding, 0, IOBIND_OUTPUT_FRESH, NULL, (iobind_memory)-1, &fault));
  expect_words("expected memory 0 .. 1, got -1");
  expect_ok(iobind_tensor_create(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_STRING, dims, 1, &text, &fault));
  expect(IOBIND_ERROR_DTYPE, iobind_binding_set_input(binding, 0, IOBIND_INPUT_SNAPSHOT, text, NULL, &fault));
  iobind_tensor_release(text);
}

static void run_options(void **state) {
  (void)state;
  const char *keys[] = {NULL};
  const char *one[] = {"1"};
  iobind_run_options options = IOBIND_RUN_OPTIONS_INIT;
  options.log_level = IOBIND_LOG_ERROR + 1;
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_binding_set_run_options(binding, &options, &fault));
  expect_words("log_level");
  options.log_level = 0;
  options.config_count = 1;
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_binding_set_run_options(binding, &options, &fault));
  options.config_keys = keys;
  options.config_values = one;
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_binding_set_run_options(binding, &options, &fault));
  expect_words("0 is NULL");
}

static void stream_options(void **state) {
  (void)state;
  const char *keys[] = {"key", NULL};
  const char *two[] = {"1", "2"};
  iobind_stream *stream = NULL;
  iobind_stream_options options = IOBIND_STREAM_OPTIONS_INIT;
  options.option_count = 2;
  options.option_keys = keys;
  options.option_values = two;
  iobind_device *vdev = fixture_device(runtime, "vdev");
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_stream_create(vdev, &options, &stream, &fault));
  expect_words("1 is NULL");
  options.option_count = 1; /* no EP looks at one: it would be lost */
  expect(IOBIND_ERROR_NOT_SUPPORTED, iobind_stream_create(cpu, &options, &stream, &fault));
  expect(IOBIND_ERROR_NOT_SUPPORTED, iobind_stream_create(vdev, &options, &stream, &fault));
  expect_words("its streams have no options, got 'key'");
}

/* More copies at a time than ORT is handed in one call. */
static void many_copies(void **state) {
  (void)state;
  enum { MANY = 37 };
  iobind_device *vdev = fixture_device(runtime, "vdev");
  iobind_tensor *host[MANY];
  const iobind_tensor *sources[MANY];
  iobind_tensor *targets[MANY];
  for (int i = 0; i < MANY; i++) {
    const float each[] = {(float)i, (float)-i};
    host[i] = fixture_floats(cpu, each, 2);
    sources[i] = host[i];
    expect_ok(iobind_tensor_create(vdev, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 1, &targets[i], &fault));
  }
  expect_ok(iobind_tensor_copy(sources, targets, MANY, NULL, &fault));
  for (int i = 0; i < MANY; i++) {
    const float each[] = {(float)i, (float)-i};
    fixture_expect_floats(targets[i], each, 2);
    iobind_tensor_release(targets[i]);
    iobind_tensor_release(host[i]);
  }
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(runtimes_and_devices),
    cmocka_unit_test(streams_and_events),
    cmocka_unit_test(tensors),
    cmocka_unit_test(sessions),
    cmocka_unit_test(bindings),
    cmocka_unit_test(outputs_that_cannot_be),
    cmocka_unit_test(audits_and_pipelines),
    cmocka_unit_test(audit_of_half_a_binding),
    cmocka_unit_test(sequence_as_an_output),
    cmocka_unit_test(sequence_between_outputs),
    cmocka_unit_test(run_options),
    cmocka_unit_test(stream_options),
    cmocka_unit_test(many_copies),
};
FIXTURE_MAIN(cases, start, stop);
