/* Who holds memory that iobind has allocated: by each holder in turn, and none at the end. */
#include "fixture.h"

#include "../rig/calls.h"
#include "vdev.h"

enum { COUNT = 32 * 1024, BYTES = COUNT * 4 }; /* more than a stream stages of at least */

static iobind_runtime *runtime;
static iobind_device *device;
static iobind_device *cpu;
static float values[COUNT];

static int start(void **state) {
  (void)state;
  runtime = fixture_runtime_with("vdev", &device);
  cpu = iobind_runtime_get_device(runtime, 0);
  return 0;
}

static int stop(void **state) {
  (void)state;
  iobind_runtime_destroy(runtime);
  return 0;
}

static iobind_memory_usage usage_of(iobind_holder holder) {
  iobind_memory_usage usage = IOBIND_MEMORY_USAGE_INIT;
  expect_ok(iobind_device_get_memory(device, holder, &usage, &fault));
  return usage;
}

static uint64_t bytes_of(iobind_holder holder) {
  return usage_of(holder).bytes;
}

static void the_caller(void **state) {
  (void)state;
  const int64_t dims[1] = {COUNT};
  iobind_tensor *x = fixture_floats(device, values, COUNT);
  iobind_tensor *view;
  expect_ok(iobind_tensor_view(x, 0, IOBIND_DTYPE_FLOAT32, dims, 1, &view, &fault));
  assert_int_equal(bytes_of(IOBIND_HOLDER_CALLER), BYTES);
  assert_int_equal(usage_of(IOBIND_HOLDER_CALLER).count, 1);
  assert_int_equal(bytes_of(IOBIND_HOLDER_ANY), BYTES);
  iobind_tensor_release(x);
  assert_int_equal(bytes_of(IOBIND_HOLDER_CALLER), BYTES); /* the view keeps it */
  iobind_tensor_release(view);
  assert_int_equal(bytes_of(IOBIND_HOLDER_CALLER), 0);
  assert_int_equal(usage_of(IOBIND_HOLDER_CALLER).most_bytes, BYTES);
}

static void a_binding(void **state) {
  (void)state;
  iobind_session *session = fixture_session(runtime, device, "scale");
  iobind_tensor *x = fixture_floats(cpu, values, COUNT);
  iobind_binding *binding;
  expect_ok(iobind_binding_create(session, &binding, &fault));
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_LIVE, x, NULL, &fault));
  assert_int_equal(bytes_of(IOBIND_HOLDER_BINDING), BYTES);
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_SNAPSHOT, x, NULL, &fault));
  assert_int_equal(bytes_of(IOBIND_HOLDER_BINDING), BYTES);
  iobind_binding_destroy(binding);
  assert_int_equal(bytes_of(IOBIND_HOLDER_BINDING), 0);
  assert_int_equal(bytes_of(IOBIND_HOLDER_ANY), 0);
  iobind_tensor_release(x);
  iobind_session_destroy(session);
}

/* A buffer of SWAP that the caller takes is the caller's. */
static void a_state_that_is_taken(void **state) {
  (void)state;
  iobind_session *session = fixture_session(runtime, device, "scale");
  iobind_tensor *x = fixture_floats(device, values, COUNT);
  iobind_tensor *taken;
  iobind_binding *binding;
  expect_ok(iobind_binding_create(session, &binding, &fault));
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
  expect_ok(iobind_binding_carry(binding, 0, 0, IOBIND_CARRY_SWAP, &fault));
  iobind_tensor_release(x);
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  assert_int_equal(bytes_of(IOBIND_HOLDER_BINDING), BYTES);
  expect_ok(iobind_binding_take_output(binding, 0, &taken, &fault));
  iobind_binding_destroy(binding);
  assert_int_equal(bytes_of(IOBIND_HOLDER_BINDING), 0);
  assert_int_equal(bytes_of(IOBIND_HOLDER_CALLER), BYTES);
  iobind_tensor_release(taken);
  assert_int_equal(bytes_of(IOBIND_HOLDER_ANY), 0);
  iobind_session_destroy(session);
}

static void a_graph(void **state) {
  (void)state;
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  options.devices = &device;
  options.device_count = 1;
  options.graph_limit = 1;
  iobind_session *session;
  iobind_status status = test_session_with(runtime, "scale", &options, &session, &fault);
  if (status == IOBIND_ERROR_VERSION || status == IOBIND_ERROR_NOT_SUPPORTED) {
    skip(); /* this ONNX Runtime captures none */
  }
  expect_ok(status);
  iobind_tensor *x = fixture_floats(device, values, COUNT);
  iobind_binding *binding;
  expect_ok(iobind_binding_create(session, &binding, &fault));
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
  expect_ok(iobind_binding_place_output(binding, 0, IOBIND_OUTPUT_REUSE, device, IOBIND_MEMORY_DEFAULT, &fault));
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  assert_int_equal(bytes_of(IOBIND_HOLDER_GRAPH), BYTES);
  assert_int_equal(bytes_of(IOBIND_HOLDER_CALLER), BYTES);
  iobind_binding_destroy(binding);
  assert_int_equal(bytes_of(IOBIND_HOLDER_GRAPH), 0);
  iobind_tensor_release(x);
  iobind_session_destroy(session);
}

static void a_pipeline(void **state) {
  (void)state;
  iobind_session *session = fixture_session(runtime, device, "scale");
  iobind_tensor *x = fixture_floats(cpu, values, COUNT);
  iobind_tensor *y;
  iobind_pipeline *pipeline;
  expect_ok(call_pipeline_create(session, NULL, &pipeline, &fault));
  expect_ok(call_pipeline_submit(pipeline, &x, 1, &fault));
  expect_ok(iobind_pipeline_next(pipeline, IOBIND_NO_TIMEOUT, &y, 1, NULL, &fault));
  assert_int_equal(bytes_of(IOBIND_HOLDER_PIPELINE), 3 * BYTES); /* the input, and both ends of the link */
  iobind_pipeline_destroy(pipeline);
  assert_int_equal(bytes_of(IOBIND_HOLDER_PIPELINE), 0);
  iobind_tensor_release(x);
  iobind_session_destroy(session);
}

static void a_stream(void **state) {
  (void)state;
  iobind_stream *stream;
  iobind_tensor *x = fixture_floats(device, values, COUNT);
  expect_ok(iobind_stream_create(device, NULL, &stream, &fault));
  expect_ok(iobind_tensor_write(x, 0, values, sizeof values, stream, &fault));
  assert_int_equal(bytes_of(IOBIND_HOLDER_STREAM), BYTES);
  iobind_stream_destroy(stream);
  assert_int_equal(bytes_of(IOBIND_HOLDER_STREAM), 0);
  iobind_tensor_release(x);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(the_caller, start, stop),
      cmocka_unit_test_setup_teardown(a_binding, start, stop),
      cmocka_unit_test_setup_teardown(a_state_that_is_taken, start, stop),
      cmocka_unit_test_setup_teardown(a_graph, start, stop),
      cmocka_unit_test_setup_teardown(a_pipeline, start, stop),
      cmocka_unit_test_setup_teardown(a_stream, start, stop),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
