/* Random models over right kernels: no false alarm, by each way to run. VERIFY_MODELS says how many, VERIFY_FIRST
 * with which the sequence begins. Values stay small, so that no difference of two large ones is left of rounding alone. */
#include "verified.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "onnx.h"

enum {
  NODES = 12,
  ROWS = 4,
  COLUMNS = 6,
  ELEMENTS = ROWS * COLUMNS,
  RUNS = 2,
  TEXT = 512,
  OPSET = 18,
  NOT_CARRIED = IOBIND_CARRY_IN_PLACE + 1
};

/* What the values of the graph so far are, all of the same dims; the last one is its output. */
typedef struct model {
  uint64_t random;
  onnx_writer writer;
  size_t count;
  char trace[TEXT];
} model;

static uint64_t next(uint64_t *random, uint64_t below) {
  *random = *random * 6364136223846793005U + 1442695040888963407U;
  return (*random >> 33) % below;
}

static const char *name_of(size_t value, char name[16]) {
  snprintf(name, 16, "v%zu", value);
  return name;
}

static void begin(model *self, const char *op) {
  const size_t length = strlen(self->trace);
  snprintf(self->trace + length, sizeof self->trace - length, " %s", op);
  onnx_node_begin(&self->writer, op, "", "");
}

/* Ends a node whose output is a value of the graph, or one between two nodes. */
static void end(model *self, const char *output) {
  onnx_node_output(&self->writer, output);
  onnx_node_end(&self->writer);
}

static void unary(model *self, const char *op, const char *input, const char *output) {
  begin(self, op);
  onnx_node_input(&self->writer, input);
  end(self, output);
}

static void binary(model *self, const char *op, const char *one, const char *other, const char *output) {
  begin(self, op);
  onnx_node_input(&self->writer, one);
  onnx_node_input(&self->writer, other);
  end(self, output);
}

/* Some value so far. */
static const char *any(model *self, char name[16]) {
  return name_of((size_t)next(&self->random, self->count), name);
}

/* tanh((a aT) b), of the dims of a and b. */
static void multiply(model *self, const char *a, const char *b, const char *output) {
  char turned[24];
  char square[24];
  char product[24];
  snprintf(turned, sizeof turned, "%s_turned", output);
  snprintf(square, sizeof square, "%s_square", output);
  snprintf(product, sizeof product, "%s_product", output);
  unary(self, "Transpose", a, turned);
  binary(self, "MatMul", a, turned, square);
  binary(self, "MatMul", square, b, product);
  unary(self, "Tanh", product, output);
}

/* a + the mean of its rows, or all of it. */
static void reduce(model *self, const char *a, const char *output) {
  char mean[24];
  const int64_t axis = (int64_t)next(&self->random, 2);
  snprintf(mean, sizeof mean, "%s_mean", output);
  begin(self, "ReduceMean");
  onnx_node_input(&self->writer, a);
  onnx_node_input(&self->writer, axis == 0 ? "axis0" : "axis1");
  end(self, mean);
  binary(self, "Sub", a, mean, output);
}

static void add_node(model *self) {
  static const char *const unaries[] = {"Relu", "Sigmoid", "Tanh", "Neg", "Abs", "Softmax", "Identity"};
  static const char *const binaries[] = {"Add", "Sub", "Mul"};
  enum { UNARIES = sizeof unaries / sizeof unaries[0], BINARIES = sizeof binaries / sizeof binaries[0] };
  char a[16];
  char b[16];
  char output[16];
  char sum[24];
  (void)name_of(self->count, output);
  snprintf(sum, sizeof sum, "%s_sum", output);
  switch (next(&self->random, 4)) {
    case 0: unary(self, unaries[next(&self->random, UNARIES)], any(self, a), output); break;
    case 1:
      binary(self, binaries[next(&self->random, BINARIES)], any(self, a), any(self, b), sum);
      unary(self, "Tanh", sum, output);
      break;
    case 2: multiply(self, any(self, a), any(self, b), output); break;
    default: reduce(self, any(self, a), output); break;
  }
  self->count++;
}

static void add_axes(onnx_writer *writer) {
  static const int64_t one = 1;
  static const int64_t axes[2] = {0, 1};
  const onnx_tensor axis0 = {.name = "axis0", .dtype = ONNX_INT64, .dims = &one, .rank = 1, .data = &axes[0], .bytes = 8};
  const onnx_tensor axis1 = {.name = "axis1", .dtype = ONNX_INT64, .dims = &one, .rank = 1, .data = &axes[1], .bytes = 8};
  onnx_initializer(writer, &axis0);
  onnx_initializer(writer, &axis1);
}

static iobind_session *load(model *self, size_t graph_limit, double relative) {
  static const int64_t dims[2] = {ROWS, COLUMNS};
  const onnx_type type = {.kind = ONNX_KIND_TENSOR, .dtype = ONNX_FLOAT32, .dims = dims, .rank = 2};
  const void *bytes = NULL;
  size_t size = 0;
  char last[16];
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  iobind_session *session = NULL;
  self->writer = (onnx_writer)ONNX_WRITER_INIT;
  onnx_model_begin(&self->writer, NULL);
  onnx_opset(&self->writer, "", OPSET);
  onnx_graph_begin(&self->writer, "graph");
  onnx_input(&self->writer, "v0", &type);
  onnx_input(&self->writer, "v1", &type);
  add_axes(&self->writer);
  self->count = 2;
  for (int i = 0; i < NODES; i++) {
    add_node(self);
  }
  binary(self, "Mul", "v0", "v1", "both"); /* each input is read */
  binary(self, "Add", name_of(self->count - 1, last), "both", "sum");
  unary(self, "Tanh", "sum", "y");
  onnx_output(&self->writer, "y", &type);
  onnx_graph_end(&self->writer);
  onnx_model_end(&self->writer);
  assert_int_equal(onnx_writer_finish(&self->writer, &bytes, &size), ONNX_OK);
  options.devices = &device;
  options.device_count = 1;
  options.intra_op_threads = 1;
  options.graph_limit = graph_limit;
  options.verify = (iobind_verify){RUNS, 0, 0, relative};
  expect_ok(iobind_session_create_from_memory(runtime, bytes, size, &options, &session, &fault));
  onnx_writer_release(&self->writer);
  return session;
}

static iobind_tensor *make_input(uint64_t *random) {
  static const int64_t dims[2] = {ROWS, COLUMNS};
  float values[ELEMENTS];
  iobind_tensor *made;
  for (int i = 0; i < ELEMENTS; i++) {
    values[i] = (float)next(random, 4001) / 2000 - 1;
  }
  expect_ok(iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 2, &made, &fault));
  expect_ok(iobind_tensor_write(made, 0, values, sizeof values, NULL, &fault));
  return made;
}

/* y is carried, in one of the modes or not at all. */
static iobind_binding *bind(iobind_session *session, uint64_t carry, iobind_tensor *const inputs[2]) {
  iobind_binding *binding;
  expect_ok(iobind_binding_create(session, &binding, &fault));
  if (carry <= IOBIND_CARRY_IN_PLACE) {
    expect_ok(iobind_binding_carry(binding, 0, 0, (iobind_carry_mode)carry, &fault));
  }
  for (size_t i = 0; i < 2; i++) {
    expect_ok(iobind_binding_set_input(binding, i, IOBIND_INPUT_RESIDENT, inputs[i], NULL, &fault));
  }
  return binding;
}

static void try_model(uint64_t number) {
  model self = {.random = number * 2654435761U + 1};
  const size_t graph_limit = next(&self.random, 1 + NOT_CARRIED) == 0 ? 2 : 0;
  const uint64_t carry = graph_limit > 0 ? IOBIND_CARRY_SWAP + next(&self.random, 2) : next(&self.random, 1 + NOT_CARRIED);
  iobind_stream *stream = NULL;
  snprintf(self.trace, sizeof self.trace, "model %llu:", (unsigned long long)number);
  iobind_session *session = load(&self, graph_limit, 0);
  iobind_tensor *inputs[2] = {make_input(&self.random), make_input(&self.random)};
  iobind_binding *binding = bind(session, carry, inputs);
  if (graph_limit == 0 && next(&self.random, 2) == 0) {
    expect_ok(iobind_stream_create(device, NULL, &stream, &fault));
  }
  for (int i = 0; i < RUNS; i++) {
    if (iobind_binding_run(binding, stream, &fault) != IOBIND_OK) {
      fail_msg("%s: %s", self.trace, fault.message);
    }
  }
  iobind_binding_destroy(binding);
  iobind_stream_destroy(stream);
  iobind_tensor_release(inputs[0]);
  iobind_tensor_release(inputs[1]);
  iobind_session_destroy(session);
}

static uint64_t number_of(const char *variable, uint64_t usual) {
  const char *text = getenv(variable);
  return text == NULL ? usual : strtoull(text, NULL, 10);
}

static void right_kernels(void **state) {
  (void)state;
  enum { FEW = 12 };
  const uint64_t first = number_of("VERIFY_FIRST", 1);
  const uint64_t count = number_of("VERIFY_MODELS", FEW);
  for (uint64_t i = 0; i < count; i++) {
    try_model(first + i);
  }
}

static int start(void **state) {
  return stage_open(state);
}

static int stop(void **state) {
  return stage_close(state);
}

#define ON(device, test) \
  { #device ": " #test, test, start, stop, #device }
#define ON_GPUS(test) ON(vdev, test), ON(cuda, test)

#if defined(VERIFY_WEBGPU) /* a program of its own: to ask whether the device is there loads its library */
/* The tanh of a shader is not that of the CPU to the last bit. A thread of iobind's makes the run and finds it: the wait returns it, and so does
 * a query of the result. */
static void difference_on_a_stream(void **state) {
  (void)state;
  model self = {.random = 1};
  iobind_stream *stream;
  iobind_tensor *y;
  iobind_session *session = load(&self, 0, 1e-300);
  iobind_tensor *inputs[2] = {make_input(&self.random), make_input(&self.random)};
  iobind_binding *binding = bind(session, NOT_CARRIED, inputs);
  expect_ok(iobind_stream_create(device, NULL, &stream, &fault));
  expect_ok(iobind_binding_run(binding, stream, &fault));
  expect(IOBIND_ERROR_RESULT, iobind_stream_synchronize(stream, &fault));
  expect_words("output 'y'[");
  expect(IOBIND_ERROR_RESULT, iobind_binding_get_output(binding, 0, NULL, &y, &fault));
  expect(IOBIND_ERROR_RESULT, iobind_binding_run(binding, NULL, &fault));
  iobind_binding_destroy(binding);
  iobind_stream_destroy(stream);
  iobind_tensor_release(inputs[0]);
  iobind_tensor_release(inputs[1]);
  iobind_session_destroy(session);
}

static const struct CMUnitTest tests[] = {ON(webgpu, right_kernels), ON(webgpu, difference_on_a_stream)};

FIXTURE_MAIN_OF_DEVICES(tests);
#else
static const struct CMUnitTest tests[] = {ON_GPUS(right_kernels)};

FIXTURE_MAIN(tests, NULL, NULL);
#endif
