/* Inputs that the session or iobind reads on the host, of runs on a stream: the work that fills them is complete first, on any stream. */
#define _GNU_SOURCE /* gettid, nanosleep */
#include "gate.h"

enum { COUNT = 8 };

static iobind_stream *stream;
static gate held; /* static: still valid after a test that fails with its gate closed */

static int start(void **state) {
  (void)stage_open(state);
  expect_ok(iobind_stream_create(device, NULL, &stream, &fault));
  return 0;
}

static int stop(void **state) {
  iobind_stream_destroy(stream);
  return stage_close(state);
}

static iobind_tensor *make(iobind_device *where, iobind_memory memory, iobind_dtype dtype, int64_t count) {
  iobind_tensor *tensor = NULL;
  expect_ok(iobind_tensor_create(where, memory, dtype, &count, 1, &tensor, &fault));
  return tensor;
}

static iobind_tensor *make_index(iobind_device *where, iobind_memory memory, int64_t value) {
  iobind_tensor *tensor = make(where, memory, IOBIND_DTYPE_INT64, 1);
  expect_ok(iobind_tensor_write(tensor, 0, &value, sizeof value, NULL, &fault));
  return tensor;
}

static void copy(const iobind_tensor *from, iobind_tensor *to, iobind_stream *on) {
  expect_ok(iobind_tensor_copy(&from, &to, 1, on, &fault));
}

/* ---- a slice of {0, 1, 2 ...}, whose bounds the session reads ---- */

typedef struct slicer {
  iobind_session *session;
  iobind_binding *binding;
  iobind_tensor *x;
} slicer;

static iobind_device *reads_bounds_on(const slicer *self) {
  iobind_value_info info = IOBIND_VALUE_INFO_INIT;
  expect_ok(iobind_session_get_input(self->session, 1, &info, &fault));
  return info.device;
}

static slicer make_slicer(void) {
  float values[COUNT];
  slicer made = {.session = fixture_session(runtime, device, "slice")};
  for (int i = 0; i < COUNT; i++) {
    values[i] = (float)i;
  }
  made.x = fixture_floats(device, values, COUNT);
  expect_ok(iobind_binding_create(made.session, &made.binding, &fault));
  expect_ok(iobind_binding_set_input(made.binding, 0, IOBIND_INPUT_RESIDENT, made.x, NULL, &fault));
  return made;
}

static void free_slicer(slicer *self) {
  iobind_binding_destroy(self->binding);
  iobind_tensor_release(self->x);
  iobind_session_destroy(self->session);
}

static void bind_bound(slicer *self, size_t index, iobind_tensor *tensor, iobind_event *event) {
  expect_ok(iobind_binding_set_input(self->binding, index, IOBIND_INPUT_RESIDENT, tensor, event, &fault));
}

static void expect_slice(slicer *self, int first, int count) {
  iobind_tensor *y = NULL;
  float expected[COUNT];
  for (int i = 0; i < count; i++) {
    expected[i] = (float)(first + i);
  }
  expect_ok(iobind_binding_get_output(self->binding, 0, NULL, &y, &fault));
  fixture_expect_floats(y, expected, (size_t)count);
}

/* `start` lies in pinned memory, and a copy that is not made yet brings it there: on the stream of the run, or on another one whose event is
 * bound. */
static void slice_from(iobind_stream *fills) {
  slicer self = make_slicer();
  iobind_event *there = NULL;
  iobind_tensor *five = make_index(device, IOBIND_MEMORY_DEFAULT, 5);
  iobind_tensor *begin = make_index(device, IOBIND_MEMORY_HOST_ACCESSIBLE, 1);
  iobind_tensor *end = make_index(cpu, IOBIND_MEMORY_DEFAULT, COUNT);
  expect_ok(iobind_event_create(device, &there, &fault));
  bind_bound(&self, 2, end, NULL);
  gate_close(&held, fills);
  copy(five, begin, fills);
  expect_ok(iobind_event_record(there, fills, &fault));
  bind_bound(&self, 1, begin, fills == stream ? NULL : there);
  BEHIND_GATE(&held, IOBIND_OK, iobind_binding_run(self.binding, stream, &fault));
  expect_ok(iobind_stream_synchronize(fills, &fault));
  expect_slice(&self, 5, COUNT - 5);
  free_slicer(&self);
  iobind_tensor_release(five);
  iobind_tensor_release(begin);
  iobind_tensor_release(end);
  iobind_event_destroy(there);
}

static void pinned_filled_on_the_stream_of_the_run(void **state) {
  (void)state;
  slice_from(stream);
}

static void pinned_filled_before_an_event(void **state) {
  (void)state;
  iobind_stream *other = NULL;
  expect_ok(iobind_stream_create(device, NULL, &other, &fault));
  slice_from(other);
  iobind_stream_destroy(other);
}

/* New bounds between runs that are queued: each run has its own. */
static void updated_between_queued_runs(void **state) {
  (void)state;
  enum { RUNS = 3 };
  slicer self = make_slicer();
  iobind_tensor *begin = make_index(reads_bounds_on(&self), IOBIND_MEMORY_DEFAULT, 0);
  iobind_tensor *end = make_index(reads_bounds_on(&self), IOBIND_MEMORY_DEFAULT, 1);
  iobind_tensor *y = make(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, 1);
  float read[RUNS] = {-1, -1, -1};
  bind_bound(&self, 1, begin, NULL);
  bind_bound(&self, 2, end, NULL);
  expect_ok(iobind_binding_set_output(self.binding, 0, y, 0, &fault));
  static int64_t bounds[RUNS][2] = {{0, 1}, {3, 4}, {6, 7}};
  for (int run = 0; run < RUNS; run++) {
    expect_ok(iobind_binding_write_input(self.binding, 1, &bounds[run][0], sizeof(int64_t), stream, &fault));
    expect_ok(iobind_binding_write_input(self.binding, 2, &bounds[run][1], sizeof(int64_t), stream, &fault));
    expect_ok(iobind_binding_run(self.binding, stream, &fault));
    expect_ok(iobind_tensor_read(y, 0, &read[run], sizeof read[run], stream, &fault));
  }
  expect_ok(iobind_stream_synchronize(stream, &fault));
  for (int run = 0; run < RUNS; run++) {
    assert_true(read[run] == (float)bounds[run][0]);
  }
  free_slicer(&self);
  iobind_tensor_release(begin);
  iobind_tensor_release(end);
  iobind_tensor_release(y);
}

/* ---- LIVE inputs ---- */

static const float twos[COUNT] = {2, 2, 2, 2, 2, 2, 2, 2};
static const float fives[COUNT] = {5, 5, 5, 5, 5, 5, 5, 5};
static const float tens[COUNT] = {10, 10, 10, 10, 10, 10, 10, 10};

/* The source lies in memory that is not pinned, and a copy on the stream of the run brings it there. */
static void live_from(iobind_stream *computes_on) {
  iobind_session *session = NULL;
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  iobind_binding *binding = NULL;
  iobind_tensor *y = NULL;
  iobind_tensor *from = fixture_floats(device, fives, COUNT);
  iobind_tensor *live = fixture_floats(cpu, twos, COUNT);
  options.devices = &device;
  options.device_count = 1;
  options.stream = computes_on;
  expect_ok(test_session_with(runtime, "scale", &options, &session, &fault));
  expect_ok(iobind_binding_create(session, &binding, &fault));
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_LIVE, live, NULL, &fault));
  gate_close(&held, stream);
  copy(from, live, stream);
  BEHIND_GATE(&held, IOBIND_OK, iobind_binding_run(binding, stream, &fault));
  expect_ok(iobind_stream_synchronize(stream, &fault));
  expect_ok(iobind_binding_get_output(binding, 0, NULL, &y, &fault));
  fixture_expect_floats(y, tens, COUNT);
  iobind_binding_destroy(binding);
  iobind_session_destroy(session);
  iobind_tensor_release(from);
  iobind_tensor_release(live);
}

static void live_filled_on_the_stream_of_the_run(void **state) {
  (void)state;
  live_from(NULL);
}

static void live_beside_a_stream_of_the_session(void **state) {
  (void)state;
  iobind_stream *own = NULL;
  expect_ok(iobind_stream_create(device, NULL, &own, &fault));
  live_from(own);
  iobind_stream_destroy(own);
}

#define ON(device, test) \
  { #device ": " #test, test, start, stop, #device }
#define ON_EACH(test) ON(vdev, test), ON(cpu, test), ON(cuda, test)
#define ON_GPUS(test) ON(vdev, test), ON(cuda, test)
#define ON_CUDA(test) ON(cuda, test)

static const struct CMUnitTest tests[] = {
    ON_CUDA(pinned_filled_on_the_stream_of_the_run), /* elsewhere the device reads the bounds */
    ON_CUDA(pinned_filled_before_an_event),          ON_EACH(live_filled_on_the_stream_of_the_run),
    ON_GPUS(live_beside_a_stream_of_the_session),    ON_EACH(updated_between_queued_runs),
};

FIXTURE_MAIN(tests, NULL, NULL);
