#define _POSIX_C_SOURCE 200809L /* setenv */
#include "trap.h"
#include "../rig/calls.h"

#include <stdlib.h>

iobind_runtime *runtime;
iobind_device *cpu;
iobind_device *vdev;
const OrtApi *real;
OrtApi table;

int trap_open(void **state) {
  (void)state;
  setenv("VDEV_DEVICES", "2", 1);
  setenv("VDEV_RACE", "fail", 1);
  expect_ok(test_runtime(IOBIND_RUNTIME_NO_EP_SEARCH, "vdev", &runtime, &vdev, &fault));
  cpu = iobind_runtime_get_device(runtime, 0);
  real = runtime->ort.api;
  table = *real;
  runtime->ort.api = &table;
  return 0;
}

/* The library's last moment: what is live now is left behind. */
static int64_t left_behind = -1;

static OrtStatus *ORT_CALL unregister(OrtEnv *env, const char *name) {
  left_behind = vdev_get(0, "live_blocks") + vdev_get(1, "live_blocks");
  return real->UnregisterExecutionProviderLibrary(env, name);
}

bool trap_close(void) {
  if (runtime == NULL) {
    return true; /* the test itself saw to it */
  }
  table.UnregisterExecutionProviderLibrary = unregister;
  iobind_runtime_destroy(runtime);
  if (left_behind != 0) {
    print_error("blocks of device memory left behind: %lld (-1: the library was not unregistered)\n", (long long)left_behind);
  }
  return left_behind == 0;
}

iobind_binding *trap_bind(iobind_session *session) {
  iobind_binding *binding = NULL;
  expect_ok(iobind_binding_create(session, &binding, &fault));
  return binding;
}

void trap_set_input(iobind_binding *binding, size_t index, iobind_tensor *tensor) {
  expect_ok(iobind_binding_set_input(binding, index, IOBIND_INPUT_RESIDENT, tensor, NULL, &fault));
}

void trap_set_output(iobind_binding *binding, size_t index, int mode, iobind_device *device, iobind_tensor *tensor) {
  expect_ok(call_binding_set_output(binding, index, mode, device, IOBIND_MEMORY_DEFAULT, tensor, &fault));
}

iobind_tensor *trap_take(iobind_binding *binding, size_t index) {
  iobind_tensor *tensor = NULL;
  expect_ok(iobind_binding_take_output(binding, index, &tensor, &fault));
  return tensor;
}

iobind_session *trap_written_session(void (*fill)(onnx_writer *writer)) {
  onnx_writer writer = ONNX_WRITER_INIT;
  const void *bytes = NULL;
  size_t size = 0;
  onnx_model_begin(&writer, NULL);
  onnx_opset(&writer, "", 21);
  onnx_opset(&writer, "ai.onnx.ml", 3);
  onnx_opset(&writer, "com.microsoft", 1);
  onnx_graph_begin(&writer, "graph");
  fill(&writer);
  onnx_graph_end(&writer);
  onnx_model_end(&writer);
  assert_int_equal(onnx_writer_finish(&writer, &bytes, &size), ONNX_OK);
  iobind_session *session = NULL;
  expect_ok(iobind_session_create_from_memory(runtime, bytes, size, NULL, &session, &fault));
  onnx_writer_release(&writer);
  return session;
}
