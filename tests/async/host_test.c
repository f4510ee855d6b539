/* Access of the host to tensors that work in flight uses. Without a stream it is ordered after that work: a read after work that writes the tensor, a
 * write after work that reads or writes it. */
#define _GNU_SOURCE /* gettid, nanosleep */
#include "adder.h"
#include "held.h"
#include "onnx.h"
#include "../rig/calls.h"

static iobind_status copy(const iobind_tensor *from, iobind_tensor *to, iobind_stream *on) {
  return iobind_tensor_copy(&from, &to, 1, on, &fault);
}

/* Memory that the host reads and the device copies to: pinned, if there is such memory. */
static iobind_tensor *make_host_readable(void) {
  static const int64_t dim = COUNT;
  iobind_tensor *made = NULL;
  iobind_memory memory = device == cpu ? IOBIND_MEMORY_DEFAULT : IOBIND_MEMORY_HOST_ACCESSIBLE;
  expect_ok(iobind_tensor_create(device, memory, IOBIND_DTYPE_FLOAT32, &dim, 1, &made, &fault));
  expect_ok(iobind_tensor_write(made, 0, zeros, sizeof zeros, NULL, &fault));
  return made;
}

static void expect_values(const float *values, const float *expected, size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (values[i] != expected[i]) {
      fail_msg("element %zu: expected %g, got %g", i, (double)expected[i], (double)values[i]);
    }
  }
}

static void expect_result_of(const float *values) {
  expect_ok(iobind_stream_synchronize(stream, &fault));
  fixture_expect_floats(y, values, COUNT);
}

/* ---- reads ---- */

/* Of all of it, and of a part. */
static void read_of_an_output(void **state) {
  (void)state;
  iobind_tensor *part = NULL;
  expect_ok(iobind_tensor_slice(y, HALF, HALF, &part, &fault));
  for (int turn = 0; turn < 2; turn++) {
    float read[COUNT] = {0};
    size_t count = turn == 0 ? COUNT : HALF;
    expect_ok(iobind_tensor_write(y, 0, zeros, sizeof zeros, NULL, &fault));
    hold_a_run();
    BEHIND_GATE(&held, IOBIND_OK, iobind_tensor_read(turn == 0 ? y : part, 0, read, count * sizeof *read, NULL, &fault));
    expect_values(read, sixes, count);
  }
  iobind_tensor_release(part);
}

/* To the host, and within the device. */
static void copy_of_an_output(void **state) {
  (void)state;
  iobind_tensor *targets[] = {fixture_floats(cpu, zeros, COUNT), fixture_floats(device, zeros, COUNT)};
  for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++) {
    expect_ok(iobind_tensor_write(y, 0, zeros, sizeof zeros, NULL, &fault));
    hold_a_run();
    BEHIND_GATE(&held, IOBIND_OK, copy(y, targets[i], NULL));
    fixture_expect_floats(targets[i], sixes, COUNT);
    iobind_tensor_release(targets[i]);
  }
}

static void rows_of_an_output(void **state) {
  (void)state;
  iobind_rows from = IOBIND_ROWS_INIT;
  iobind_rows to = IOBIND_ROWS_INIT;
  iobind_tensor *target = fixture_floats(cpu, zeros, COUNT);
  from.tensor = y;
  to.tensor = target;
  from.pitch = to.pitch = HALF * sizeof(float);
  hold_a_run();
  BEHIND_GATE(&held, IOBIND_OK, iobind_tensor_copy_rows(&from, &to, HALF * sizeof(float), 2, NULL, &fault));
  fixture_expect_floats(target, sixes, COUNT);
  iobind_tensor_release(target);
}

static void read_behind_a_copy(void **state) {
  (void)state;
  float read[COUNT] = {0};
  iobind_tensor *target = fixture_floats(device, zeros, COUNT);
  hold_a_run();
  expect_ok(copy(y, target, stream));
  BEHIND_GATE(&held, IOBIND_OK, iobind_tensor_read(target, 0, read, sizeof read, NULL, &fault));
  expect_values(read, sixes, COUNT);
  iobind_tensor_release(target);
}

static void read_behind_an_upload(void **state) {
  (void)state;
  float read[COUNT] = {0};
  iobind_tensor *source = make_host_readable();
  expect_ok(iobind_tensor_write(source, 0, nines, sizeof nines, NULL, &fault));
  gate_close(&held, stream);
  expect_ok(copy(source, x, stream));
  BEHIND_GATE(&held, IOBIND_OK, iobind_tensor_read(x, 0, read, sizeof read, NULL, &fault));
  iobind_tensor_release(source);
  expect_values(read, nines, COUNT);
}

static void data_behind_a_copy(void **state) {
  (void)state;
  void *data = NULL;
  float read[COUNT] = {0};
  iobind_tensor *target = make_host_readable();
  hold_a_run();
  expect_ok(copy(y, target, stream));
  gate_begin(&held);
  fixture_arm();
  iobind_status status = iobind_tensor_map(target, IOBIND_DTYPE_FLOAT32, IOBIND_ACCESS_WRITE, &data, &fault);
  if (status == IOBIND_OK) {
    memcpy(read, data, sizeof read);
  }
  gate_end(&held);
  assert_int_equal(status, IOBIND_OK);
  expect_values(read, sixes, COUNT);
  iobind_tensor_release(target);
}

/* ---- writes ---- */

/* To all of it, and to a part. */
static void write_to_an_input(void **state) {
  (void)state;
  iobind_tensor *part = NULL;
  expect_ok(iobind_tensor_slice(x, HALF, HALF, &part, &fault));
  for (int turn = 0; turn < 2; turn++) {
    size_t count = turn == 0 ? COUNT : HALF;
    expect_ok(iobind_tensor_write(x, 0, threes, sizeof threes, NULL, &fault));
    hold_a_run();
    BEHIND_GATE(&held, IOBIND_OK, iobind_tensor_write(turn == 0 ? x : part, 0, nines, count * sizeof *nines, NULL, &fault));
    expect_result_of(sixes);
    fixture_expect_floats(turn == 0 ? x : part, nines, count);
  }
  iobind_tensor_release(part);
}

static void copy_into_an_input(void **state) {
  (void)state;
  iobind_tensor *from = fixture_floats(cpu, nines, COUNT);
  hold_a_run();
  BEHIND_GATE(&held, IOBIND_OK, copy(from, x, NULL));
  iobind_tensor_release(from);
  expect_result_of(sixes);
}

static void rows_into_an_input(void **state) {
  (void)state;
  iobind_rows from = IOBIND_ROWS_INIT;
  iobind_rows to = IOBIND_ROWS_INIT;
  iobind_tensor *source = fixture_floats(cpu, nines, COUNT);
  from.tensor = source;
  to.tensor = x;
  from.pitch = to.pitch = HALF * sizeof(float);
  hold_a_run();
  BEHIND_GATE(&held, IOBIND_OK, iobind_tensor_copy_rows(&from, &to, HALF * sizeof(float), 2, NULL, &fault));
  iobind_tensor_release(source);
  expect_result_of(sixes);
}

/* Code that has the address may write. */
static void data_of_an_input(void **state) {
  (void)state;
  void *data = NULL;
  iobind_tensor *source = make_host_readable();
  expect_ok(iobind_tensor_write(source, 0, threes, sizeof threes, NULL, &fault));
  gate_close(&held, stream);
  expect_ok(copy(source, x, stream));
  expect_ok(iobind_binding_run(binding, stream, &fault));
  gate_begin(&held);
  fixture_arm();
  iobind_status status = iobind_tensor_map(source, IOBIND_DTYPE_FLOAT32, IOBIND_ACCESS_WRITE, &data, &fault);
  if (status == IOBIND_OK) {
    memcpy(data, nines, sizeof nines);
  }
  gate_end(&held);
  assert_int_equal(status, IOBIND_OK);
  iobind_tensor_release(source);
  expect_result_of(sixes);
}

static void write_to_what_is_copied(void **state) {
  (void)state;
  iobind_tensor *target = fixture_floats(device, zeros, COUNT);
  gate_close(&held, stream);
  expect_ok(copy(x, target, stream));
  BEHIND_GATE(&held, IOBIND_OK, iobind_tensor_write(x, 0, nines, sizeof nines, NULL, &fault));
  expect_ok(iobind_stream_synchronize(stream, &fault));
  fixture_expect_floats(target, threes, COUNT);
  iobind_tensor_release(target);
}

static void write_to_an_output(void **state) {
  (void)state;
  hold_a_run();
  BEHIND_GATE(&held, IOBIND_OK, iobind_tensor_write(y, 0, nines, sizeof nines, NULL, &fault));
  expect_result_of(nines);
}

/* Each run sees what the tensor holds when it is submitted, and all of it. */
static void write_to_a_live_input(void **state) {
  (void)state;
  iobind_tensor *live = make_host_readable();
  expect_ok(iobind_tensor_write(live, 0, threes, sizeof threes, NULL, &fault));
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_LIVE, live, NULL, &fault));
  hold_a_run();
  BEHIND_GATE(&held, IOBIND_OK, iobind_tensor_write(live, 0, nines, sizeof nines, NULL, &fault));
  expect_result_of(sixes);
  iobind_tensor_release(live);
}

/* ---- work in flight of a pipeline ---- */

static void write_to_a_constant_of_a_pipeline(void **state) {
  (void)state;
  adder adds = adder_open(stream, x, threes, sixes, COUNT);
  gate_close(&held, stream);
  adder_submit(&adds);
  BEHIND_GATE(&held, IOBIND_OK, iobind_tensor_write(x, 0, nines, sizeof nines, NULL, &fault));
  adder_expect(&adds, sixes, COUNT);
  adder_close(&adds);
}

/* Of a pipeline whose worker has many items left, if the device has no streams: each item has what the constant held when it was submitted. */
static void write_behind_many_items(void **state) {
  (void)state;
  enum { ITEMS = 32, LARGE = 1 << 16 };
  static float many[LARGE];
  iobind_pipeline_options wanted = IOBIND_PIPELINE_OPTIONS_INIT;
  iobind_session *adds = fixture_session(runtime, device, "add");
  iobind_pipeline *pipeline = NULL;
  iobind_tensor *item = fixture_floats(cpu, many, LARGE);
  iobind_tensor *constants[2] = {NULL, fixture_floats(device, many, LARGE)};
  iobind_tensor *items[2] = {item, NULL};
  wanted.constants = constants;
  wanted.slots = ITEMS;
  expect_ok(call_pipeline_create(adds, &wanted, &pipeline, &fault));
  for (int turn = 0; turn < 3; turn++) {
    many[0] = many[LARGE - 1] = (float)turn;
    expect_ok(iobind_tensor_write(constants[1], 0, many, sizeof many, NULL, &fault));
    for (int i = 0; i < ITEMS; i++) {
      expect_ok(call_pipeline_submit(pipeline, items, sizeof items / sizeof *items, &fault));
    }
    many[0] = many[LARGE - 1] = -1;
    expect_ok(iobind_tensor_write(constants[1], 0, many, sizeof many, NULL, &fault));
    for (int i = 0; i < ITEMS; i++) {
      iobind_tensor *sum = NULL;
      float ends[2] = {-2, -2};
      expect_ok(iobind_pipeline_next(pipeline, IOBIND_NO_TIMEOUT, &sum, 1, NULL, &fault));
      expect_ok(iobind_tensor_read(sum, 0, &ends[0], sizeof(float), NULL, &fault));
      expect_ok(iobind_tensor_read(sum, sizeof many - sizeof(float), &ends[1], sizeof(float), NULL, &fault));
      assert_true(ends[0] == (float)turn && ends[1] == (float)turn);
    }
  }
  iobind_pipeline_destroy(pipeline);
  iobind_session_destroy(adds);
  iobind_tensor_release(item);
  iobind_tensor_release(constants[1]);
}

/* ---- on a stream ---- */

/* With a stream the access is ordered on that one, and does not wait on the host. */
static void access_on_the_stream(void **state) {
  (void)state;
  iobind_tensor *in = make_host_readable();
  iobind_tensor *out = make_host_readable();
  expect_ok(iobind_tensor_write(in, 0, nines, sizeof nines, NULL, &fault));
  hold_a_run();
  expect_ok(copy(in, x, stream));
  expect_ok(copy(y, out, stream));
  gate_open(&held);
  expect_ok(iobind_stream_synchronize(stream, &fault));
  fixture_expect_floats(out, sixes, COUNT);
  fixture_expect_floats(x, nines, COUNT);
  iobind_tensor_release(in);
  iobind_tensor_release(out);
}

/* ---- nodes on the host ---- */

/* y = -tanh(-x), whose tanh is left to the CPU: ORT copies to the host in the middle of a run, and the EP waits for its stream there. */
static iobind_session *make_split_session(void) {
  static const char *const nodes[] = {"Neg", "Tanh", "Neg"};
  static const char *const values[] = {"x", "negative", "bounded", "y"};
  static const int64_t dim = COUNT;
  const onnx_type type = {.kind = ONNX_KIND_TENSOR, .dtype = ONNX_FLOAT32, .dims = &dim, .rank = 1};
  const void *bytes = NULL;
  size_t size = 0;
  iobind_session *split = NULL;
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  onnx_writer writer = ONNX_WRITER_INIT;
  onnx_model_begin(&writer, NULL);
  onnx_opset(&writer, "", 21);
  onnx_graph_begin(&writer, "graph");
  onnx_input(&writer, values[0], &type);
  onnx_output(&writer, values[3], &type);
  for (size_t i = 0; i < sizeof nodes / sizeof nodes[0]; i++) {
    onnx_node_begin(&writer, nodes[i], "", "");
    onnx_node_input(&writer, values[i]);
    onnx_node_output(&writer, values[i + 1]);
    onnx_node_end(&writer);
  }
  onnx_graph_end(&writer);
  onnx_model_end(&writer);
  assert_int_equal(onnx_writer_finish(&writer, &bytes, &size), ONNX_OK);
  options.devices = &device;
  options.device_count = 1;
  assert_int_equal(vdev_set(0, "deny", "Tanh"), 0);
  expect_ok(iobind_session_create_from_memory(runtime, bytes, size, &options, &split, &fault));
  assert_int_equal(vdev_set(0, "deny", ""), 0);
  onnx_writer_release(&writer);
  return split;
}

/* The EP reports a failure once: to the later run. A query of the earlier one returns it, too. */
static void a_later_run_meets_the_failure(void **state) {
  (void)state;
  iobind_session *split = make_split_session();
  iobind_binding *later = NULL;
  iobind_tensor *output = NULL;
  iobind_event *event = NULL;
  expect_ok(iobind_event_create(device, &event, &fault));
  expect_ok(iobind_binding_create(split, &later, &fault));
  expect_ok(iobind_binding_set_input(later, 0, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
  expect_ok(iobind_binding_run(later, NULL, &fault));
  gate_close(&held, stream);
  assert_int_equal(vdev_set(0, "fail_compute", "1,late"), 0);
  expect_ok(call_binding_run(binding, stream, event, &fault));
  BEHIND_GATE(&held, IOBIND_ERROR_RUNTIME, iobind_binding_run(later, stream, &fault));
  expect_words("MemcpyToHost");
  expect(IOBIND_ERROR_RUNTIME, iobind_binding_get_output(binding, 0, NULL, &output, &fault));
  expect_words("failed late");
  expect(IOBIND_ERROR_RUNTIME, iobind_event_wait(event, IOBIND_NO_TIMEOUT, &fault));
  expect(IOBIND_ERROR_RUNTIME, iobind_stream_synchronize(stream, &fault));
  expect_ok(iobind_binding_run(binding, stream, &fault));
  expect_ok(iobind_binding_run(later, stream, &fault));
  expect_ok(iobind_stream_synchronize(stream, &fault));
  fixture_expect_floats(y, sixes, COUNT);
  iobind_event_destroy(event);
  iobind_binding_destroy(later);
  iobind_session_destroy(split);
}

/* ---- strings ---- */

/* A program gets a copy of strings as an OrtValue: the copy is made after the run that writes them. */
static void strings_for_ort(void **state) {
  (void)state;
  static const int64_t one = 1;
  static const char *const words[] = {"new", "old"};
  iobind_tensor *texts[2] = {NULL, NULL};
  iobind_tensor *given = NULL;
  iobind_session *strings = fixture_session(runtime, NULL, "identity dtype=string");
  iobind_binding *to_old = NULL;
  iobind_ort ort = IOBIND_ORT_INIT;
  void *value = NULL;
  char got[4] = "";
  size_t length = 0;
  for (int i = 0; i < 2; i++) {
    expect_ok(iobind_tensor_create(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_STRING, &one, 1, &texts[i], &fault));
    expect_ok(iobind_tensor_set_string(texts[i], 0, words[i], &fault));
  }
  expect_ok(iobind_binding_create(strings, &to_old, &fault));
  expect_ok(iobind_binding_set_input(to_old, 0, IOBIND_INPUT_RESIDENT, texts[0], NULL, &fault));
  expect_ok(iobind_binding_set_output(to_old, 0, texts[1], 0, &fault));
  gate_close(&held, stream);
  expect_ok(iobind_binding_run(to_old, stream, &fault));
  BEHIND_GATE(&held, IOBIND_OK, iobind_tensor_to_ort(texts[1], &value, &fault));
  expect_ok(iobind_tensor_wrap_ort(runtime, value, NULL, NULL, &given, &fault));
  expect_ok(iobind_tensor_get_string(given, 0, got, sizeof got - 1, &length, &fault));
  assert_string_equal(got, words[0]);
  expect_ok(iobind_runtime_get_ort(runtime, &ort, &fault));
  iobind_tensor_release(given);
  ((const OrtApi *)ort.api)->ReleaseValue(value);
  iobind_binding_destroy(to_old);
  iobind_session_destroy(strings);
  iobind_tensor_release(texts[0]);
  iobind_tensor_release(texts[1]);
}

#define ON(device, test) \
  { #device ": " #test, test, held_open, held_close, #device }
#define ON_EACH(test) ON(vdev, test), ON(cpu, test), ON(cuda, test)
#define ON_GPUS(test) ON(vdev, test), ON(cuda, test)
#define ON_VDEV(test) ON(vdev, test)

static const struct CMUnitTest tests[] = {
    ON_EACH(read_of_an_output),
    ON_EACH(copy_of_an_output),
    ON_EACH(rows_of_an_output),
    ON_EACH(read_behind_a_copy),
    ON_EACH(read_behind_an_upload),
    ON_EACH(data_behind_a_copy),
    ON_EACH(write_to_an_input),
    ON_EACH(copy_into_an_input),
    ON_EACH(rows_into_an_input),
    ON_EACH(data_of_an_input),
    ON_EACH(write_to_what_is_copied),
    ON_EACH(write_to_an_output),
    ON_EACH(write_to_a_live_input),
    ON_GPUS(write_to_a_constant_of_a_pipeline), /* no session computes on a thread's stream */
    ON_EACH(write_behind_many_items),
    ON_EACH(access_on_the_stream),
    ON(cpu, strings_for_ort),               /* which are only on the host */
    ON_VDEV(a_later_run_meets_the_failure), /* a GPU of CUDA's is lost by it */
};

FIXTURE_MAIN(tests, NULL, NULL);
