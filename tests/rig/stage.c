#include "stage.h"

#include <string.h>

#include "onnx.h"

iobind_runtime *runtime;
iobind_device *cpu;
iobind_device *device;
const char *device_spec;

int stage_open(void **state) {
  device_spec = *state;
  runtime = fixture_runtime();
  cpu = iobind_runtime_get_device(runtime, 0);
  device = device_spec == NULL ? NULL : fixture_device(runtime, device_spec);
  return 0;
}

int stage_open_over(void **state, const void *ort_api_base) {
  iobind_runtime_options options = IOBIND_RUNTIME_OPTIONS_INIT;
  device_spec = *state;
  options.flags = IOBIND_RUNTIME_SOFTWARE_DEVICES;
  options.ort_api_base = ort_api_base;
  expect_ok(iobind_runtime_create(&options, &runtime, &fault));
  cpu = iobind_runtime_get_device(runtime, 0);
  expect_ok(iobind_runtime_find_device(runtime, device_spec, &device, NULL, &fault));
  return 0;
}

int stage_close(void **state) {
  (void)state;
  iobind_runtime_destroy(runtime);
  return 0;
}

bool is_device(const char *spec) {
  return device_spec != NULL && strcmp(device_spec, spec) == 0;
}

iobind_session *stage_named_session(const char *input, const char *output) {
  static const int64_t four = 4;
  const onnx_type type = {.kind = ONNX_KIND_TENSOR, .dtype = ONNX_FLOAT32, .dims = &four, .rank = 1};
  onnx_writer writer = ONNX_WRITER_INIT;
  onnx_model_begin(&writer, NULL);
  onnx_opset(&writer, "", 21);
  onnx_graph_begin(&writer, "graph");
  onnx_input(&writer, input, &type);
  onnx_output(&writer, output, &type);
  onnx_node_begin(&writer, "Neg", "", "");
  onnx_node_input(&writer, input);
  onnx_node_output(&writer, output);
  onnx_node_end(&writer);
  onnx_graph_end(&writer);
  onnx_model_end(&writer);
  const void *bytes = NULL;
  size_t size = 0;
  assert_int_equal(onnx_writer_finish(&writer, &bytes, &size), ONNX_OK);
  iobind_session *session = NULL;
  expect_ok(iobind_session_create_from_memory(runtime, bytes, size, NULL, &session, &fault));
  onnx_writer_release(&writer);
  return session;
}

iobind_binding *stage_bind_voices(iobind_session *session) {
  enum { INPUTS = 5 };
  static const int64_t dims[INPUTS][3] = {{1, 2}, {0}, {2, 1, 2}, {1, 2}, {1, 1}};
  static const size_t ranks[INPUTS] = {2, 0, 3, 2, 2};
  static const int64_t zeros[4];
  iobind_binding *binding;
  expect_ok(iobind_binding_create(session, &binding, &fault));
  for (size_t i = 0; i < INPUTS; i++) {
    iobind_tensor *made;
    iobind_tensor_info info = IOBIND_TENSOR_INFO_INIT;
    iobind_dtype dtype = i == STAGE_VOICES_COUNT ? IOBIND_DTYPE_INT64 : IOBIND_DTYPE_FLOAT32;
    expect_ok(iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, dtype, dims[i], ranks[i], &made, &fault));
    expect_ok(iobind_tensor_get_info(made, &info, &fault));
    expect_ok(iobind_tensor_write(made, 0, zeros, info.bytes, NULL, &fault));
    expect_ok(iobind_binding_set_input(binding, i, IOBIND_INPUT_RESIDENT, made, NULL, &fault));
    iobind_tensor_release(made);
  }
  return binding;
}
