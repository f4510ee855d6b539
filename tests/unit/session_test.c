/* Sessions: options that are taken or refused, models that are none, placement, signature. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp, mkfifo */
#include "fixture.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "models.h"
#include "session/session.h"
#include "support/system.h"
#include "../rig/calls.h"
#include "vdev.h"
#include "stage.h"

static char folder[] = "/tmp/iobind-session-XXXXXX";

static int start(void **state) {
  if (mkdtemp(folder) == NULL) {
    return -1;
  }
  (void)stage_open(state);
  return 0;
}

static int stop(void **state) {
  (void)state;
  iobind_runtime_destroy(runtime);
  return rmdir(folder);
}

typedef struct model {
  void *bytes;
  size_t size;
} model;

static model make(const char *spec) {
  model made = {NULL, 0};
  char text[TEST_MODEL_TEXT] = "";
  if (!test_model_create(spec, &made.bytes, &made.size, text)) {
    fail_msg("%s: %s", spec, text);
  }
  return made;
}

static void pause_ms(long ms) {
  const struct timespec time = {ms / 1000, ms % 1000 * 1000000};
  nanosleep(&time, NULL);
}

/* Load a model with options; on success the session is destroyed again. */
static iobind_status load(const char *spec, const iobind_session_options *options) {
  model made = make(spec);
  iobind_session *session = (iobind_session *)made.bytes;
  iobind_status status = iobind_session_create_from_memory(runtime, made.bytes, made.size, options, &session, &fault);
  free(made.bytes);
  if (status == IOBIND_OK) {
    assert_non_null(session);
    iobind_session_destroy(session);
  } else {
    assert_null(session);
  }
  return status;
}

static void devices_that_cannot_be(void **state) {
  (void)state;
  iobind_device *twice[] = {cpu, cpu};
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  options.devices = twice;
  options.device_count = 2;
  expect(IOBIND_ERROR_INVALID_ARGUMENT, load("add", &options));
  expect_words("twice");
  twice[1] = NULL;
  expect(IOBIND_ERROR_INVALID_ARGUMENT, load("add", &options));
  expect_words("devices[1]");
  options.devices = NULL;
  expect(IOBIND_ERROR_INVALID_ARGUMENT, load("add", &options));
  options.devices = twice;
  options.device_count = 1;
  expect_ok(load("add", &options));
  options.policy = IOBIND_POLICY_PREFER_CPU;
  expect(IOBIND_ERROR_INVALID_ARGUMENT, load("add", &options));
  expect_words("both");
}

static void numbers_out_of_range(void **state) {
  (void)state;
  static const struct {
    int32_t policy, optimization, intra, inter;
    uint32_t flags;
    iobind_status status;
  } rows[] = {
      {-1, 0, 0, 0, 0, IOBIND_ERROR_INVALID_ARGUMENT},         {8, 0, 0, 0, 0, IOBIND_ERROR_INVALID_ARGUMENT},
      {0, -1, 0, 0, 0, IOBIND_ERROR_INVALID_ARGUMENT},         {0, 5, 0, 0, 0, IOBIND_ERROR_INVALID_ARGUMENT},
      {0, 0, -1, 0, 0, IOBIND_ERROR_INVALID_ARGUMENT},         {0, 0, 0, -1, 0, IOBIND_ERROR_INVALID_ARGUMENT},
      {0, 0, 1025, 0, 0, IOBIND_ERROR_INVALID_ARGUMENT},       {0, 0, INT32_MAX, 0, 0, IOBIND_ERROR_INVALID_ARGUMENT},
      {0, 0, 0, 1025, 0, IOBIND_ERROR_INVALID_ARGUMENT},       {0, 0, 0, 0, 1u << 31, IOBIND_ERROR_NOT_SUPPORTED},
      {0, 0, 0, 0, 1u << 4, IOBIND_ERROR_NOT_SUPPORTED},       {0, 1, 1, 1, IOBIND_SESSION_IDENTIFY, IOBIND_OK},
      {0, 4, 2, 2, IOBIND_SESSION_NO_MEMORY_REUSE, IOBIND_OK},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
    options.policy = rows[i].policy;
    options.optimization = rows[i].optimization;
    options.intra_op_threads = rows[i].intra;
    options.inter_op_threads = rows[i].inter;
    options.flags = rows[i].flags;
    expect(rows[i].status, load("add", &options));
    if (rows[i].intra > 0 && rows[i].status != IOBIND_OK) {
      expect_words("intra_op_threads and inter_op_threads of 0 .. 1024, got");
    }
  }
}

/* A model in memory may be freed after the call, so ORT must not read it later. */
static void bytes_are_not_used_directly(void **state) {
  (void)state;
  const char *key = "session.use_ort_model_bytes_directly";
  const char *values[] = {"1", "0"};
  for (size_t i = 0; i < 2; i++) {
    iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
    options.config_keys = &key;
    options.config_values = &values[i];
    options.config_count = 1;
    expect(i == 0 ? IOBIND_ERROR_INVALID_ARGUMENT : IOBIND_OK, load("add", &options));
    if (i == 0) {
      expect_words("ORT would read it later");
    }
  }
}

typedef struct capture {
  iobind_device *device;
  int patience_ms;
  atomic_bool holds;  /* the capture keeps everybody out */
  atomic_bool loaded; /* a session was made */
  bool was_disturbed;
} capture;

/* Alone on a device for as long as a session takes to be made, or longer. */
static void *be_alone(void *context) {
  capture *self = context;
  iobind__scope scope;
  if (iobind__guard_enter_alone(self->device->guard, &scope, NULL) != IOBIND_OK) {
    return NULL;
  }
  atomic_store(&self->holds, true);
  for (int i = 0; i < self->patience_ms && !atomic_load(&self->loaded); i++) {
    pause_ms(1);
  }
  self->was_disturbed = atomic_load(&self->loaded);
  iobind__guard_leave_alone(&scope);
  return NULL;
}

/* A policy may choose any device: one whose capture must not be disturbed, though there is another one that lets in one thread at a time. */
static void policy_disturbs_no_capture(void **state) {
  (void)state;
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  capture self = {.device = fixture_device(runtime, "vdev")};
  pthread_t thread;
  options.policy = IOBIND_POLICY_PREFER_CPU;
  uint64_t from_ns = iobind__clock_ns();
  expect_ok(load("add", &options));
  self.patience_ms = 100 + 10 * (int)((iobind__clock_ns() - from_ns) / 1000000);
  const iobind__guard *was = cpu->guard;
  const iobind__guard serial = {.serial = &runtime->serial_mutex}; /* WebGPU's is, which not every machine has */
  cpu->guard = &serial;
  assert_int_equal(pthread_create(&thread, NULL, be_alone, &self), 0);
  while (!atomic_load(&self.holds)) {
    pause_ms(1);
  }
  expect_ok(load("add", &options));
  atomic_store(&self.loaded, true);
  assert_int_equal(pthread_join(thread, NULL), 0);
  cpu->guard = was;
  assert_false(self.was_disturbed);
}

static void every_policy_loads_and_runs(void **state) {
  (void)state;
  static const float values[] = {1, 2, 3};
  static const float sums[] = {2, 4, 6};
  model made = make("add");
  for (int32_t policy = IOBIND_POLICY_NONE; policy <= IOBIND_POLICY_MIN_POWER; policy++) {
    iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
    options.policy = policy;
    iobind_session *session = NULL;
    expect_ok(iobind_session_create_from_memory(runtime, made.bytes, made.size, &options, &session, &fault));
    iobind_tensor *x = fixture_floats(cpu, values, 3);
    iobind_tensor *inputs[] = {x, x};
    iobind_tensor *z = NULL;
    expect_ok(call_session_run(session, inputs, &z, &fault));
    fixture_expect_floats(z, sums, 3);
    iobind_binding *binding = NULL;
    iobind_tensor *bound = NULL;
    expect_ok(iobind_binding_create(session, &binding, &fault));
    for (size_t i = 0; i < 2; i++) {
      expect_ok(iobind_binding_set_input(binding, i, IOBIND_INPUT_SNAPSHOT, x, NULL, &fault));
    }
    expect_ok(iobind_binding_run(binding, NULL, &fault));
    expect_ok(iobind_binding_get_output(binding, 0, NULL, &bound, &fault));
    fixture_expect_floats(bound, sums, 3);
    iobind_binding_destroy(binding);
    iobind_tensor_release(z);
    iobind_tensor_release(x);
    iobind_session_destroy(session);
  }
  free(made.bytes);
}

static iobind_status load_with_ep_option(iobind_device *where, const char *key, const char *value) {
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  options.devices = &where;
  options.device_count = where != NULL;
  options.ep_keys = &key;
  options.ep_values = &value;
  options.ep_option_count = 1;
  return load("add", &options);
}

static void ep_options(void **state) {
  (void)state;
  iobind_device *webgpu = fixture_device(runtime, "webgpu");
  expect_ok(load_with_ep_option(webgpu, "validationMode", "basic"));
  expect_ok(load_with_ep_option(webgpu, "webgpu.validationMode", "basic"));
  expect_ok(load_with_ep_option(webgpu, "an option of tomorrow", "1")); /* unknown to the catalogue: the EP may know it */
  static const char *const other_case[] = {"validationmode", "ValidationMode", "webgpu.validationmode"};
  for (size_t i = 0; i < sizeof other_case / sizeof other_case[0]; i++) {
    expect(IOBIND_ERROR_INVALID_ARGUMENT, load_with_ep_option(webgpu, other_case[i], "basic"));
    expect_words("did you mean 'validationMode'?");
  }
  expect(IOBIND_ERROR_INVALID_ARGUMENT, load_with_ep_option(webgpu, "cuda.device_id", "0"));
  expect_words("cuda.device_id");
  expect(IOBIND_ERROR_INVALID_ARGUMENT, load_with_ep_option(webgpu, "validationMode", NULL));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, load_with_ep_option(webgpu, NULL, "x"));
}

/* A value that cannot be is refused before the EP is there to see it. */
static void ep_options_with_values(void **state) {
  (void)state;
  iobind_device *webgpu = fixture_device(runtime, "webgpu");
  expect(IOBIND_ERROR_INVALID_ARGUMENT, load_with_ep_option(webgpu, "validationMode", "some"));
  expect_words("EP option 'validationMode' of webgpu: expected disabled, wgpuOnly, basic or full, got 'some'");
  expect(IOBIND_ERROR_INVALID_ARGUMENT, load_with_ep_option(webgpu, "webgpuDevice", "0x10"));
  expect_words("has no effect without 'webgpuInstance'");
  const char *const keys[] = {"preferredLayout", "webgpu.preferredLayout"};
  const char *const values[] = {"NHWC", "NCHW"};
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  options.devices = &webgpu;
  options.device_count = 1;
  options.ep_keys = keys;
  options.ep_values = values;
  options.ep_option_count = 2;
  expect(IOBIND_ERROR_INVALID_ARGUMENT, load("add", &options));
  expect_words("'preferredLayout' is given twice");
}

/* An option that reaches no EP is refused: it would be lost silently. */
static void ep_options_that_reach_nobody(void **state) {
  (void)state;
  expect(IOBIND_ERROR_INVALID_ARGUMENT, load_with_ep_option(NULL, "device_id", "0"));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, load_with_ep_option(NULL, "webgpu.validationMode", "basic"));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, load_with_ep_option(cpu, "use_arena", "0"));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, load_with_ep_option(cpu, "cpu.use_arena", "0"));
}

static void config_entries(void **state) {
  (void)state;
  const char *key = "session.use_env_allocators";
  const char *value = "1";
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  options.config_keys = &key;
  options.config_values = &value;
  options.config_count = 1;
  expect_ok(load("add", &options));
  key = "";
  expect(IOBIND_ERROR_RUNTIME, load("add", &options));
  key = "ep.context_enable"; /* ORT's own */
  value = "0";
  expect_ok(load("add", &options));
  key = "ep.cuda.use_tf32"; /* the EP's: it would end the process over a wrong value */
  expect(IOBIND_ERROR_INVALID_ARGUMENT, load("add", &options));
  expect_words("expected the EP option 'cuda.use_tf32'");
  key = "ep.cuda.fpa_intb_gemm"; /* a kernel's, and the EP takes it for an option */
  expect(IOBIND_ERROR_INVALID_ARGUMENT, load("add", &options));
  expect_words("which iobind does not know");
  key = NULL;
  expect(IOBIND_ERROR_INVALID_ARGUMENT, load("add", &options));
  options.config_keys = NULL;
  expect(IOBIND_ERROR_INVALID_ARGUMENT, load("add", &options));
}

static iobind_status load_with_dim(const char *spec, const char *name, int64_t value) {
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  options.dim_names = &name;
  options.dim_values = &value;
  options.dim_count = 1;
  return load(spec, &options);
}

static void free_dims(void **state) {
  (void)state;
  expect_ok(load_with_dim("add dims=rows,3", "rows", 5));
  expect(IOBIND_ERROR_NOT_FOUND, load_with_dim("add dims=rows,3", "columns", 5));
  expect_words("'columns'");
  expect(IOBIND_ERROR_NOT_FOUND, load_with_dim("add dims=rows,3", "", 5));
  expect(IOBIND_ERROR_NOT_FOUND, load_with_dim("add dims=rows,3", "row", 5)); /* a part of a name is not a name */
  expect(IOBIND_ERROR_NOT_FOUND, load_with_dim("add dims=rows,3", "x", 5));   /* an input, not a dim */
  expect(IOBIND_ERROR_NOT_FOUND, load_with_dim("add dims=rows,3", "Add", 5)); /* an operator */
  expect(IOBIND_ERROR_SHAPE, load_with_dim("add dims=rows,3", "rows", -1));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, load_with_dim("add dims=rows,3", NULL, 1));
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  options.dim_count = 1;
  expect(IOBIND_ERROR_INVALID_ARGUMENT, load("add", &options));
}

static void free_dims_fix_the_signature(void **state) {
  (void)state;
  model made = make("add dims=rows,columns");
  const char *name = "rows";
  static const int64_t value = 4;
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  options.dim_names = &name;
  options.dim_values = &value;
  options.dim_count = 1;
  iobind_session *session = NULL;
  expect_ok(iobind_session_create_from_memory(runtime, made.bytes, made.size, &options, &session, &fault));
  free(made.bytes);
  iobind_value_info info = IOBIND_VALUE_INFO_INIT;
  expect_ok(iobind_session_get_input(session, 1, &info, &fault));
  assert_string_equal(info.name, "y");
  assert_int_equal(info.rank, 2);
  assert_int_equal(info.dims[0], 4);
  assert_string_equal(info.symbols[0], "");
  assert_int_equal(info.dims[1], -1);
  assert_string_equal(info.symbols[1], "columns");
  expect(IOBIND_ERROR_NOT_FOUND, iobind_session_get_input(session, 2, &info, &fault));
  expect(IOBIND_ERROR_NOT_FOUND, iobind_session_get_output(session, 1, &info, &fault));
  size_t index = 99;
  expect_ok(iobind_session_find_input(session, "y", &index, &fault));
  assert_int_equal(index, 1);
  expect(IOBIND_ERROR_NOT_FOUND, iobind_session_find_input(session, "z", &index, &fault));
  expect_words("'x', 'y'");
  expect(IOBIND_ERROR_NOT_FOUND, iobind_session_find_output(session, "x", &index, &fault));
  expect_words("'z'");
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_session_find_output(session, NULL, &index, &fault));
  iobind_session_destroy(session);
}

/* A model whose input is an output is one that other runtimes write. */
static void input_that_is_an_output(void **state) {
  (void)state;
  expect_ok(load("passthrough", NULL));
}

static void strict_mode(void **state) {
  (void)state;
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  options.flags = IOBIND_SESSION_STRICT;
  options.devices = &cpu;
  options.device_count = 1;
  expect_ok(load("add", &options)); /* the CPU is named, and takes every node */
  iobind_device *webgpu = fixture_device(runtime, "webgpu");
  options.devices = &webgpu;
  expect_ok(load("add", &options));
  expect(IOBIND_ERROR_RUNTIME, load("add dtype=float64", &options));
  expect_words("session_create: no device of the session takes '"); /* and which node it is */
  expect_words("(Add) of model in memory");
  options.flags = 0;
  expect_ok(load("add dtype=float64", &options));
}

static iobind_session *session_with_long_names(void) {
  char in[600];
  char out[600];
  memset(in, 'i', sizeof in);
  memset(out, 'o', sizeof out);
  in[sizeof in - 1] = out[sizeof out - 1] = '\0';
  return stage_named_session(in, out);
}

/* Whatever a model calls its inputs and outputs, a message has room for the rest. */
static void messages_of_long_names(void **state) {
  (void)state;
  static const float values[] = {1, 2, 3, 4};
  iobind_session *session = session_with_long_names();
  iobind_tensor *x = fixture_floats(cpu, values, 4);
  iobind_tensor *result = NULL;
  iobind_binding *binding = NULL;
  expect_ok(iobind_binding_create(session, &binding, &fault));
  expect(IOBIND_ERROR_INVALID_STATE, iobind_binding_run(binding, NULL, &fault));
  expect_words("binding_run: input 'iii");
  expect_words("iii...iii");
  expect_words("iii' is not bound");
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_binding_set_input(binding, 0, (iobind_input_mode)9, x, NULL, &fault));
  expect_words("iii': expected mode 0 .. 2, got 9");
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_binding_write_input(binding, 0, values, 4, NULL, &fault));
  expect_words("iii': expected 16 bytes, got 4");
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_binding_set_output(binding, 0, x, 0, &fault));
  expect_words("ooo' overlaps the memory of input 'iii");
  expect_words("iii': bind it IN_PLACE if the model allows it");
  expect(IOBIND_ERROR_INVALID_STATE, iobind_binding_get_output(binding, 0, NULL, &result, &fault));
  expect_words("ooo': no run has completed since the binding changed");
  expect(IOBIND_ERROR_INVALID_ARGUMENT, call_session_run(session, (iobind_tensor *[]){NULL}, &result, &fault));
  expect_words("iii': the tensor is NULL");
  iobind_binding_destroy(binding);
  iobind_tensor_release(x);
  iobind_session_destroy(session);
}

/* Names and dims of any length leave room for what was expected and what was got. */
static void long_names_in_a_message(void **state) {
  (void)state;
  char name[600];
  memset(name, 'n', sizeof name - 1);
  name[sizeof name - 1] = '\0';
  const char *symbols[] = {name, "\xE2\x82\xAC"};
  int64_t dims[] = {-1, 7};
  int symbol_ids[] = {0, -1};
  static const float values[] = {1, 2, 3};
  iobind_tensor *tensor = fixture_floats(cpu, values, 3);
  char label[] = "nnn...nnn";
  iobind__value value = {.name = name,
                         .label = label,
                         .kind = IOBIND_VALUE_TENSOR,
                         .dtype = IOBIND_DTYPE_FLOAT32,
                         .has_shape = true,
                         .rank = 2,
                         .dims = dims,
                         .symbols = symbols,
                         .symbol_ids = symbol_ids};
  expect(IOBIND_ERROR_SHAPE, iobind__value_accepts(&value, tensor, "binding_set_input", &fault));
  expect_words("nnn...nnn");
  expect_words("nnn...], got float32[3]");
  value.rank = 1;
  symbols[0] = "rows";
  dims[0] = -1;
  expect_ok(iobind__value_accepts(&value, tensor, "binding_set_input", &fault));
  dims[0] = 4;
  expect(IOBIND_ERROR_SHAPE, iobind__value_accepts(&value, tensor, "binding_set_input", &fault));
  expect_words("': expected float32[4], got float32[3]");
  iobind_tensor_release(tensor);
}

static void metadata(void **state) {
  (void)state;
  model made = make("add labels=cat,dog");
  iobind_session *session = NULL;
  iobind_session_info info = IOBIND_SESSION_INFO_INIT;
  const char *key;
  const char *value;
  expect_ok(iobind_session_create_from_memory(runtime, made.bytes, made.size, NULL, &session, &fault));
  expect_ok(iobind_session_get_info(session, &info, &fault));
  assert_int_equal(info.metadata_count, 2);
  expect_ok(iobind_session_get_metadata(session, 0, &key, &value, &fault)); /* sorted, in whatever order ORT lists them */
  assert_string_equal(key, "author");
  assert_string_equal(value, "");
  expect_ok(iobind_session_get_metadata(session, 1, &key, &value, &fault));
  assert_string_equal(key, "labels");
  assert_string_equal(value, "cat,dog");
  expect(IOBIND_ERROR_NOT_FOUND, iobind_session_get_metadata(session, 2, &key, &value, &fault));
  expect_words("2 entries");
  assert_null(key);
  assert_null(value);
  iobind_session_destroy(session);
  free(made.bytes);
}

static void placement(void **state) {
  (void)state;
  model made = make("add");
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  iobind_session *session = NULL;
  iobind_session_info info = IOBIND_SESSION_INFO_INIT;
  iobind_node_info node = IOBIND_NODE_INFO_INIT;
  expect_ok(iobind_session_create_from_memory(runtime, made.bytes, made.size, &options, &session, &fault));
  expect_ok(iobind_session_get_info(session, &info, &fault));
  assert_int_equal(info.node_count, 0);
  assert_int_equal(info.input_count, 2);
  assert_int_equal(info.output_count, 1);
  assert_true(info.opset > 0);
  expect(IOBIND_ERROR_NOT_FOUND, iobind_session_get_node(session, 0, &node, &fault));
  expect_words("IOBIND_SESSION_PLACEMENT");
  iobind_session_destroy(session);
  options.flags = IOBIND_SESSION_PLACEMENT;
  expect_ok(iobind_session_create_from_memory(runtime, made.bytes, made.size, &options, &session, &fault));
  expect_ok(iobind_session_get_info(session, &info, &fault));
  assert_int_equal(info.node_count, 1);
  expect_ok(iobind_session_get_node(session, 0, &node, &fault));
  assert_string_equal(node.op_type, "Add");
  assert_string_equal(node.domain, "");
  assert_string_equal(node.ep_name, "CPUExecutionProvider");
  expect(IOBIND_ERROR_NOT_FOUND, iobind_session_get_node(session, 1, &node, &fault));
  iobind_session_destroy(session);
  free(made.bytes);
  iobind_device *webgpu = fixture_device(runtime, "webgpu");
  made = make("add");
  options.devices = &webgpu;
  options.device_count = 1;
  expect_ok(iobind_session_create_from_memory(runtime, made.bytes, made.size, &options, &session, &fault));
  iobind_runtime_info ort = IOBIND_RUNTIME_INFO_INIT;
  expect_ok(iobind_runtime_get_info(runtime, &ort, &fault));
  if (ort.ort_api_version > 24) { /* ORT 1.24 does not tell what a plugin's EP runs */
    expect_ok(iobind_session_get_node(session, 0, &node, &fault));
    assert_string_equal(node.ep_name, "WebGpuExecutionProvider");
  }
  iobind_session_destroy(session);
  free(made.bytes);
}

/* An EP may take no node: then ORT's CPU EP runs them all, which nothing else shows on a device in host memory. */
static void idle_device(void **state) {
  (void)state;
  iobind_runtime_info ort = IOBIND_RUNTIME_INFO_INIT;
  iobind_device *vdev = fixture_device(runtime, "vdev");
  expect_ok(iobind_runtime_get_info(runtime, &ort, &fault));
  const int listed = ort.ort_api_version > 24;
  model made = make("add");
  for (int denied = 0; denied < 2; denied++) {
    iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
    iobind_session_info info = IOBIND_SESSION_INFO_INIT;
    iobind_session *session = NULL;
    options.devices = &vdev;
    options.device_count = 1;
    vdev_set(0, "deny", denied ? "Add" : "");
    expect_ok(iobind_session_create_from_memory(runtime, made.bytes, made.size, &options, &session, &fault));
    expect_ok(iobind_session_get_info(session, &info, &fault));
    assert_int_equal(info.node_count, listed);
    assert_int_equal(info.device_node_count, listed && !denied);
    iobind_session_destroy(session);
    options.flags = IOBIND_SESSION_STRICT;
    iobind_status status = iobind_session_create_from_memory(runtime, made.bytes, made.size, &options, &session, &fault);
    if (denied) {
      assert_int_equal(status, IOBIND_ERROR_RUNTIME);
    } else {
      assert_int_equal(status, IOBIND_OK);
    }
    iobind_session_destroy(session);
  }
  vdev_set(0, "deny", "");
  free(made.bytes);
}

/* Every prefix and every flipped byte of a model: an error or a session, never more. */
static void corrupt_models(void **state) {
  (void)state;
  model made = make("multi");
  unsigned char *bytes = made.bytes;
  iobind_session *session = NULL;
  for (size_t size = 0; size < made.size; size++) {
    fixture_arm();
    session = (iobind_session *)state;
    iobind_status status = iobind_session_create_from_memory(runtime, bytes, size, NULL, &session, &fault);
    assert_int_equal(status == IOBIND_OK, session != NULL);
    if (status != IOBIND_OK) {
      assert_int_equal(status, IOBIND_ERROR_RUNTIME);
      assert_true(fault.ort_code > 0 && test_is_utf8(fault.message));
    }
    iobind_session_destroy(session);
  }
  for (size_t at = 0; at < made.size; at++) {
    bytes[at] ^= 0x55;
    fixture_arm();
    iobind_status status = iobind_session_create_from_memory(runtime, bytes, made.size, NULL, &session, &fault);
    assert_int_equal(status == IOBIND_OK, session != NULL);
    assert_true(status == IOBIND_OK || test_is_utf8(fault.message));
    iobind_session_destroy(session);
    bytes[at] ^= 0x55;
  }
  free(made.bytes);
  expect(IOBIND_ERROR_RUNTIME, iobind_session_create_from_memory(runtime, "", 0, NULL, &session, &fault));
  assert_null(session);
  expect(IOBIND_ERROR_RUNTIME, iobind_session_create_from_memory(runtime, "no model", 8, NULL, &session, &fault));
  expect_words("model in memory: it is not an ONNX model, or is damaged");
}

static void write_file(const char *path, const void *bytes, size_t size) {
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, size, file), size);
  assert_int_equal(fclose(file), 0);
}

static void files_that_are_no_models(void **state) {
  (void)state;
  char path[512];
  iobind_session *session = (iobind_session *)state;
  expect(IOBIND_ERROR_IO, iobind_session_create(runtime, folder, NULL, &session, &fault));
  assert_null(session);
  expect_words("a directory");
  expect(IOBIND_ERROR_NOT_FOUND, iobind_session_create(runtime, "no/such/model.onnx", NULL, &session, &fault));
  expect_words("no/such/model.onnx");
  expect(IOBIND_ERROR_NOT_FOUND, iobind_session_create(runtime, "", NULL, &session, &fault));
  expect(IOBIND_ERROR_IO, iobind_session_create(runtime, "/dev/null", NULL, &session, &fault)); /* it is there, but no file */
  snprintf(path, sizeof path, "%s/empty.onnx", folder);
  write_file(path, "", 0);
  expect(IOBIND_ERROR_RUNTIME, iobind_session_create(runtime, path, NULL, &session, &fault));
  expect_words("empty.onnx");
  write_file(path, "this is a letter, not a model", 29);
  expect(IOBIND_ERROR_RUNTIME, iobind_session_create(runtime, path, NULL, &session, &fault));
  assert_null(session);
  assert_int_equal(unlink(path), 0);
}

/* The message contains the path, and remains UTF-8, however long both are. */
static void long_path_in_a_message(void **state) {
  (void)state;
  for (size_t shift = 0; shift < 4; shift++) {
    char path[512];
    int length = snprintf(path, sizeof path, "%s/%.*s", folder, (int)shift, "abcd");
    for (size_t i = 0; i < 60; i++) {
      length += snprintf(path + length, sizeof path - (size_t)length, "\xE2\x82\xAC");
    }
    snprintf(path + length, sizeof path - (size_t)length, ".onnx");
    write_file(path, "nothing", 7);
    iobind_session *session = NULL;
    fixture_arm();
    iobind_status status = iobind_session_create(runtime, path, NULL, &session, &fault);
    assert_int_equal(unlink(path), 0);
    fixture_expect(IOBIND_ERROR_RUNTIME, status, path, __FILE__, __LINE__);
  }
}

static void file_and_memory_are_alike(void **state) {
  (void)state;
  char path[512];
  snprintf(path, sizeof path, "%s/mod\xC3\xA8le.onnx", folder);
  model made = make("add dims=rows,3");
  write_file(path, made.bytes, made.size);
  free(made.bytes);
  const char *name = "rows";
  static const int64_t value = 2;
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  options.dim_names = &name;
  options.dim_values = &value;
  options.dim_count = 1;
  iobind_session *session = NULL;
  expect_ok(iobind_session_create(runtime, path, &options, &session, &fault));
  iobind_value_info info = IOBIND_VALUE_INFO_INIT;
  expect_ok(iobind_session_get_output(session, 0, &info, &fault));
  assert_int_equal(info.dims[0], 2);
  iobind_session_destroy(session);
  name = "columns";
  expect(IOBIND_ERROR_NOT_FOUND, iobind_session_create(runtime, path, &options, &session, &fault));
  assert_null(session);
  assert_int_equal(unlink(path), 0);
}

static void unbound_run(void **state) {
  (void)state;
  iobind_session *session = fixture_session(runtime, NULL, "add dims=n,2");
  static const float values[] = {1, 2};
  static const int64_t dims[] = {1, 2};
  iobind_tensor *flat = fixture_floats(cpu, values, 2);
  iobind_tensor *right = NULL;
  expect_ok(iobind_tensor_view(flat, 0, IOBIND_DTYPE_FLOAT32, dims, 2, &right, &fault));
  iobind_tensor *ints = NULL;
  expect_ok(iobind_tensor_view(flat, 0, IOBIND_DTYPE_INT32, dims, 2, &ints, &fault));
  const struct {
    iobind_status status;
    iobind_tensor *first, *second;
  } rows[] = {{IOBIND_OK, right, right},
              {IOBIND_ERROR_SHAPE, right, flat},
              {IOBIND_ERROR_DTYPE, ints, right},
              {IOBIND_ERROR_INVALID_ARGUMENT, right, NULL}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    iobind_tensor *inputs[] = {rows[i].first, rows[i].second};
    iobind_tensor *z = flat;
    expect(rows[i].status, call_session_run(session, inputs, &z, &fault));
    assert_int_equal(z != NULL, rows[i].status == IOBIND_OK);
    iobind_tensor_release(z);
  }
  iobind_tensor_release(ints);
  iobind_tensor_release(right);
  iobind_tensor_release(flat);
  iobind_session_destroy(session);
}

/* A session that ORT's own interface made: everything works on it, and it is handed back once, after the last tensor. */
static void wrapped_session(void **state) {
  (void)state;
  const OrtApi *api = IOBIND__API(runtime);
  model made = make("add dims=n");
  OrtSessionOptions *options = NULL;
  OrtSession *raw = NULL;
  assert_null(api->CreateSessionOptions(&options));
  assert_null(api->CreateSessionFromArray(runtime->env, made.bytes, made.size, options, &raw));
  api->ReleaseSessionOptions(options);
  free(made.bytes);
  fixture_deleted deleted = {0, NULL};
  iobind_session *session;
  expect_ok(iobind_session_wrap(runtime, raw, fixture_deleter, &deleted, &session, &fault));
  static const float ones[] = {1, 1};
  static const float twos[] = {2, 2};
  iobind_tensor *x = fixture_floats(cpu, ones, 2);
  iobind_binding *binding;
  iobind_tensor *z;
  const char *profile;
  expect_ok(iobind_binding_create(session, &binding, &fault));
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
  expect_ok(iobind_binding_set_input(binding, 1, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  expect_ok(iobind_binding_take_output(binding, 0, &z, &fault));
  expect(IOBIND_ERROR_INVALID_STATE, iobind_session_end_profile(session, &profile, &fault));
  expect_words("without a profile");
  iobind_session_destroy(session);
  iobind_binding_destroy(binding);
  fixture_expect_floats(z, twos, 2);
  assert_int_equal(deleted.count, 0);
  iobind_tensor_release(z);
  assert_int_equal(deleted.count, 1);
  assert_ptr_equal(deleted.data, raw);
  expect_ok(iobind_session_wrap(runtime, raw, NULL, NULL, &session, &fault));
  iobind_session_destroy(session);
  api->ReleaseSession(raw);
  iobind_tensor_release(x);
}

/* Another copy of ORT, or no ORT at all, made it: the table of its functions lies in another library. */
static void wrapped_stranger(void **state) {
  (void)state;
  static const int table = 0;
  const void *stranger = &table;
  fixture_deleted deleted = {0, NULL};
  iobind_session *session = (iobind_session *)&stranger;
  expect(IOBIND_ERROR_NOT_SUPPORTED, iobind_session_wrap(runtime, &stranger, fixture_deleter, &deleted, &session, &fault));
  expect_words("unit_session");
  assert_null(session);
  assert_int_equal(deleted.count, 0);
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_session_wrap(runtime, NULL, NULL, NULL, &session, &fault));
}

static void profile(void **state) {
  (void)state;
  model made = make("add dims=n");
  char prefix[sizeof folder + 8];
  snprintf(prefix, sizeof prefix, "%s/profile", folder);
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  options.profile = prefix;
  iobind_session *session;
  expect_ok(iobind_session_create_from_memory(runtime, made.bytes, made.size, &options, &session, &fault));
  free(made.bytes);
  static const float ones[] = {1, 1};
  iobind_tensor *x = fixture_floats(cpu, ones, 2);
  iobind_tensor *z;
  expect_ok(call_session_run(session, (iobind_tensor *[]){x, x}, &z, &fault));
  iobind_tensor_release(z);
  iobind_tensor_release(x);
  const char *path;
  expect_ok(iobind_session_end_profile(session, &path, &fault));
  assert_memory_equal(path, prefix, strlen(prefix));
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  char text[8192] = "";
  assert_true(fread(text, 1, sizeof text - 1, file) > 0);
  fclose(file);
  assert_non_null(strstr(text, "\"Add\""));
  assert_int_equal(unlink(path), 0);
  expect(IOBIND_ERROR_INVALID_STATE, iobind_session_end_profile(session, &path, &fault));
  expect_words("ended already");
  assert_null(path);
  iobind_session_destroy(session);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(devices_that_cannot_be),
    cmocka_unit_test(numbers_out_of_range),
    cmocka_unit_test(bytes_are_not_used_directly),
    cmocka_unit_test(policy_disturbs_no_capture),
    cmocka_unit_test(every_policy_loads_and_runs),
    cmocka_unit_test(ep_options),
    cmocka_unit_test(ep_options_that_reach_nobody),
    cmocka_unit_test(ep_options_with_values),
    cmocka_unit_test(config_entries),
    cmocka_unit_test(free_dims),
    cmocka_unit_test(free_dims_fix_the_signature),
    cmocka_unit_test(input_that_is_an_output),
    cmocka_unit_test(strict_mode),
    cmocka_unit_test(messages_of_long_names),
    cmocka_unit_test(long_names_in_a_message),
    cmocka_unit_test(metadata),
    cmocka_unit_test(placement),
    cmocka_unit_test(idle_device),
    cmocka_unit_test(corrupt_models),
    cmocka_unit_test(files_that_are_no_models),
    cmocka_unit_test(long_path_in_a_message),
    cmocka_unit_test(file_and_memory_are_alike),
    cmocka_unit_test(unbound_run),
    cmocka_unit_test(wrapped_session),
    cmocka_unit_test(wrapped_stranger),
    cmocka_unit_test(profile),
};

FIXTURE_MAIN(tests, start, stop);
