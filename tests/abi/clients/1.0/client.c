/* A program as a user would have written it for this version: compiled against the header of its time, run with the library of
 * now. A version's copy of it is never changed again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "iobind/iobind.h"
#include "table.h"

/* z = x + y, float32[n] each. */
static const unsigned char model[] = "\x08\x0a\x42\x04\x0a\x00\x10\x15\x3a\x4b\x12\x03"
                                     "add\x5a\x10\x0a\x01x\x12\x0b\x0a\x09\x08\x01\x12\x05\x0a\x03\x12\x01n\x5a\x10\x0a\x01y"
                                     "\x12\x0b\x0a\x09\x08\x01\x12\x05\x0a\x03\x12\x01n\x62\x10\x0a\x01z\x12\x0b\x0a\x09\x08"
                                     "\x01\x12\x05\x0a\x03\x12\x01n\x0a\x0e\x22\x03"
                                     "Add\x0a\x01x\x0a\x01y\x12\x01z";

static iobind_error error = IOBIND_ERROR_INIT;

static void need(int holds, int line, const char *what) {
  if (holds) return;
  fprintf(stderr, "client.c:%d: %s: %s\n", line, what, error.message);
  exit(1);
}
#define NEED(call) need(call, __LINE__, #call)
#define OK(call) need((call) == IOBIND_OK, __LINE__, #call)

/* What this version calls is there. */
static void has_every_function(void) {
  size_t count = 0;
  for (; abi_functions[count].name != NULL; count++) NEED(abi_functions[count].address != NULL);
  NEED(count > 0);
}

static void names_what_it_names(void) {
  NEED(iobind_get_version() >= IOBIND_VERSION_NUMBER);
  NEED(iobind_get_version_string()[0] != 0);
  NEED(strcmp(iobind_status_get_name(IOBIND_ERROR_OUT_OF_MEMORY), "OUT_OF_MEMORY") == 0);
  NEED(strcmp(iobind_dtype_get_name(IOBIND_DTYPE_FLOAT32), "float32") == 0);
  NEED(iobind_dtype_get_bits(IOBIND_DTYPE_INT4) == 4);
}

/* Info structs are filled as far as this version knows them, and no further. */
static iobind_device *looks_at_the_runtime(iobind_runtime *runtime) {
  struct {
    iobind_runtime_info info;
    unsigned char behind[64];
  } guarded = {.info = IOBIND_RUNTIME_INFO_INIT};
  memset(guarded.behind, 0x5A, sizeof guarded.behind);
  OK(iobind_runtime_get_info(runtime, &guarded.info, &error));
  for (size_t i = 0; i < sizeof guarded.behind; i++) NEED(guarded.behind[i] == 0x5A);
  NEED(guarded.info.struct_size == sizeof guarded.info && guarded.info.device_count > 0);
  iobind_device *cpu = iobind_runtime_get_device(runtime, 0);
  iobind_device *found = NULL;
  OK(iobind_runtime_find_device(runtime, "cpu", &found, NULL, &error));
  NEED(cpu == found);
  iobind_device_info device = IOBIND_DEVICE_INFO_INIT;
  OK(iobind_device_get_info(cpu, &device, &error));
  NEED(strcmp(device.spec, "cpu") == 0 && (device.flags & IOBIND_DEVICE_HOST_MEMORY) != 0);
  iobind_device_counters counters = IOBIND_DEVICE_COUNTERS_INIT;
  OK(iobind_device_get_counters(cpu, &counters, &error));
  iobind_memory_usage usage = IOBIND_MEMORY_USAGE_INIT;
  OK(iobind_device_get_memory(cpu, IOBIND_HOLDER_ANY, &usage, &error));
  NEED(usage.bytes == counters.allocated_bytes);
  return cpu;
}

static void refuses_what_is_wrong(iobind_runtime *runtime) {
  iobind_device *device = NULL;
  NEED(iobind_runtime_find_device(runtime, "nosuch", &device, NULL, &error) == IOBIND_ERROR_INVALID_ARGUMENT && device == NULL);
  NEED(error.status == IOBIND_ERROR_INVALID_ARGUMENT && strstr(error.message, "nosuch") != NULL);
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  options.flags = 1u << 31;
  iobind_session *session = NULL;
  NEED(iobind_session_create_from_memory(runtime, model, sizeof model - 1, &options, &session, &error) ==
       IOBIND_ERROR_NOT_SUPPORTED);
}

static iobind_session *loads_a_model(iobind_runtime *runtime, iobind_device *cpu) {
  const char *keys[] = {"session.intra_op.allow_spinning"};
  const char *values[] = {"0"};
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  options.devices = &cpu;
  options.device_count = 1;
  options.intra_op_threads = 1;
  options.config_keys = keys;
  options.config_values = values;
  options.config_count = 1;
  options.flags = IOBIND_SESSION_PLACEMENT;
  iobind_session *session = NULL;
  OK(iobind_session_create_from_memory(runtime, model, sizeof model - 1, &options, &session, &error));
  iobind_session_info info = IOBIND_SESSION_INFO_INIT;
  OK(iobind_session_get_info(session, &info, &error));
  NEED(info.input_count == 2 && info.output_count == 1 && info.node_count == 1);
  iobind_node_info node = IOBIND_NODE_INFO_INIT;
  OK(iobind_session_get_node(session, 0, &node, &error));
  NEED(strcmp(node.op_type, "Add") == 0);
  iobind_value_info value = IOBIND_VALUE_INFO_INIT;
  OK(iobind_session_get_input(session, 0, &value, &error));
  NEED(value.kind == IOBIND_VALUE_TENSOR && value.dtype == IOBIND_DTYPE_FLOAT32 && value.rank == 1 && value.dims[0] == -1);
  NEED(strcmp(value.name, "x") == 0 && strcmp(value.symbols[0], "n") == 0 && value.device == cpu);
  return session;
}

static iobind_tensor *makes_a_tensor(iobind_device *cpu, const float *values, int64_t count) {
  iobind_tensor *tensor = NULL;
  size_t bytes = 0;
  OK(iobind_dtype_get_bytes(IOBIND_DTYPE_FLOAT32, &count, 1, &bytes, &error));
  OK(iobind_tensor_create(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, &count, 1, &tensor, &error));
  OK(iobind_tensor_write(tensor, 0, values, bytes, NULL, &error));
  iobind_tensor_info info = IOBIND_TENSOR_INFO_INIT;
  OK(iobind_tensor_get_info(tensor, &info, &error));
  NEED(info.bytes == bytes && info.host_readable == 1 && info.device == cpu && info.memory == IOBIND_MEMORY_DEFAULT);
  return tensor;
}

static int released;

static void release(void *context, void *data) {
  released += context == &released && data != NULL;
}

static void wraps_and_cuts(iobind_device *cpu) {
  static float values[4] = {1, 2, 3, 4};
  const int64_t dims[] = {2, 2};
  iobind_tensor *whole = NULL;
  iobind_tensor *row = NULL;
  iobind_buffer buffer = IOBIND_BUFFER_INIT;
  buffer.dtype = IOBIND_DTYPE_FLOAT32;
  buffer.dims = dims;
  buffer.rank = 2;
  buffer.data = values;
  buffer.bytes = sizeof values;
  buffer.deleter = release;
  buffer.context = &released;
  OK(iobind_tensor_wrap(cpu, &buffer, &whole, &error));
  OK(iobind_tensor_slice(whole, 1, 1, &row, &error));
  iobind_tensor_release(whole);
  void *data = NULL;
  OK(iobind_tensor_map(row, IOBIND_DTYPE_FLOAT32, IOBIND_ACCESS_WRITE, &data, &error));
  NEED(data == &values[2] && iobind_tensor_get_address(row) == data && released == 0);
  iobind_tensor_release(row);
  NEED(released == 1);
}

static void holds_the_sum(const iobind_tensor *tensor) {
  float values[3] = {0};
  OK(iobind_tensor_read(tensor, 0, values, sizeof values, NULL, &error));
  NEED(values[0] == 11 && values[1] == 22 && values[2] == 33);
}

static void runs(iobind_session *session, iobind_tensor *x, iobind_tensor *y) {
  iobind_tensor *inputs[] = {x, y};
  iobind_tensor *plain = NULL;
  iobind_run_request request = IOBIND_RUN_REQUEST_INIT;
  request.inputs = inputs;
  request.input_count = 2;
  OK(iobind_session_run(session, &request, &plain, 1, &error));
  holds_the_sum(plain);
  iobind_tensor_release(plain);

  iobind_binding *binding = NULL;
  iobind_tensor *result = NULL;
  iobind_run_options options = IOBIND_RUN_OPTIONS_INIT;
  options.tag = "client";
  OK(iobind_binding_create(session, &binding, &error));
  OK(iobind_binding_set_run_options(binding, &options, &error));
  NEED(iobind_binding_run(binding, NULL, &error) == IOBIND_ERROR_INVALID_STATE);
  OK(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, x, NULL, &error));
  OK(iobind_binding_set_input(binding, 1, IOBIND_INPUT_SNAPSHOT, y, NULL, &error));
  OK(iobind_binding_place_output(binding, 0, IOBIND_OUTPUT_FRESH, NULL, IOBIND_MEMORY_DEFAULT, &error));
  OK(iobind_binding_check(binding, &error));
  OK(iobind_binding_run(binding, NULL, &error));
  OK(iobind_binding_take_output(binding, 0, &result, &error));
  iobind_binding_destroy(binding);
  holds_the_sum(result);
  iobind_tensor_release(result);
}

/* A running sum: the output is the next run's input. */
static void carries(iobind_session *session, iobind_tensor *x, iobind_tensor *y) {
  iobind_binding *binding = NULL;
  iobind_tensor *state = NULL;
  iobind_audit *audit = NULL;
  OK(iobind_binding_create(session, &binding, &error));
  OK(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, x, NULL, &error));
  OK(iobind_binding_set_input(binding, 1, IOBIND_INPUT_RESIDENT, y, NULL, &error));
  OK(iobind_binding_carry(binding, 0, 0, IOBIND_CARRY_MOVE, &error));
  for (int i = 0; i < 3; i++) OK(iobind_binding_run(binding, NULL, &error));
  OK(iobind_binding_take_output(binding, 0, &state, &error));
  float values[3] = {0};
  OK(iobind_tensor_read(state, 0, values, sizeof values, NULL, &error));
  NEED(values[0] == 31 && values[1] == 62 && values[2] == 93);
  OK(iobind_audit_create(binding, &audit, &error));
  iobind_audit_info info = IOBIND_AUDIT_INFO_INIT;
  OK(iobind_audit_get_info(audit, &info, &error));
  iobind_audit_entry moved = IOBIND_AUDIT_ENTRY_INIT;
  NEED(iobind_audit_get_entry(audit, SIZE_MAX, &moved, &error) == IOBIND_ERROR_NOT_FOUND);
  iobind_audit_destroy(audit);
  iobind_tensor_release(state);
  iobind_binding_destroy(binding);
}

static void pulls(iobind_session *session, iobind_tensor *x, iobind_tensor *y) {
  iobind_pipeline_options options = IOBIND_PIPELINE_OPTIONS_INIT;
  iobind_pipeline *pipeline = NULL;
  iobind_tensor *inputs[] = {x, y};
  iobind_pipeline_request request = IOBIND_PIPELINE_REQUEST_INIT;
  options.slots = 2;
  request.inputs = inputs;
  request.input_count = 2;
  OK(iobind_pipeline_create(session, &options, &pipeline, &error));
  for (uint64_t i = 0; i < 3; i++) {
    iobind_tensor *output = NULL;
    iobind_pipeline_item item = IOBIND_PIPELINE_ITEM_INIT;
    OK(iobind_pipeline_submit(pipeline, &request, &error));
    OK(iobind_pipeline_next(pipeline, IOBIND_NO_TIMEOUT, &output, 1, &item, &error));
    NEED(item.index == i);
    holds_the_sum(output);
  }
  iobind_pipeline_destroy(pipeline);
}

static void orders(iobind_device *cpu, iobind_tensor *from, iobind_tensor *to) {
  iobind_stream *stream = NULL;
  iobind_event *event = NULL;
  const iobind_tensor *source = from;
  OK(iobind_stream_create(cpu, NULL, &stream, &error));
  OK(iobind_event_create(cpu, &event, &error));
  OK(iobind_tensor_copy(&source, &to, 1, stream, &error));
  OK(iobind_event_record(event, stream, &error));
  OK(iobind_event_wait(event, IOBIND_NO_TIMEOUT, &error));
  iobind_event_destroy(event);
  iobind_stream_destroy(stream);
}

int main(void) {
  iobind_runtime *runtime = NULL;
  static const float ones[] = {1, 2, 3};
  static const float tens[] = {10, 20, 30};
  has_every_function();
  names_what_it_names();
  OK(iobind_runtime_create(NULL, &runtime, &error));
  iobind_device *cpu = looks_at_the_runtime(runtime);
  refuses_what_is_wrong(runtime);
  wraps_and_cuts(cpu);
  iobind_session *session = loads_a_model(runtime, cpu);
  iobind_tensor *x = makes_a_tensor(cpu, ones, 3);
  iobind_tensor *y = makes_a_tensor(cpu, tens, 3);
  runs(session, x, y);
  carries(session, x, y);
  pulls(session, x, y);
  orders(cpu, x, y);
  iobind_session_destroy(session);
  iobind_tensor_release(x);
  iobind_tensor_release(y);
  iobind_runtime_destroy(runtime);
  printf("made for %d.%d, works with libiobind %s\n", IOBIND_VERSION_MAJOR, IOBIND_VERSION_MINOR, iobind_get_version_string());
  return 0;
}
