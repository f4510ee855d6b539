/* Pipelines: order, memory of each item, failures, and on the virtual accelerator's clock the schedule itself. */
#include "stage.h"

#include <stdlib.h>
#include <string.h>

#include "models.h"
#include "vdev.h"
#include "../rig/calls.h"

static bool is_vdev(void **state) {
  return strcmp(*state, "vdev") == 0;
}

static iobind_pipeline *make(const char *model, const iobind_pipeline_options *options) {
  device = fixture_device(runtime, device_spec);
  iobind_session *session = fixture_session(runtime, device, model);
  iobind_pipeline *pipeline;
  expect_ok(call_pipeline_create(session, options, &pipeline, &fault));
  iobind_session_destroy(session);
  return pipeline;
}

/* An item of `count` values n, n, ... */
static void submit(iobind_pipeline *pipeline, float n, size_t count) {
  float values[8];
  for (size_t i = 0; i < count; i++) {
    values[i] = n;
  }
  iobind_tensor *input = fixture_floats(cpu, values, count);
  expect_ok(call_pipeline_submit(pipeline, &input, 1, &fault));
  iobind_tensor_release(input);
}

static void expect_item(iobind_pipeline *pipeline, uint64_t index, float n, size_t count) {
  float values[8];
  iobind_tensor *output;
  iobind_pipeline_item item = IOBIND_PIPELINE_ITEM_INIT;
  for (size_t i = 0; i < count; i++) {
    values[i] = 2 * n;
  }
  expect_ok(iobind_pipeline_next(pipeline, IOBIND_NO_TIMEOUT, &output, 1, &item, &fault));
  assert_int_equal(item.index, index);
  fixture_expect_floats(output, values, count);
}

/* Items come out in the order in which they went in, whatever their size. */
static void in_order(void **state) {
  (void)state;
  iobind_pipeline *pipeline = make("scale", NULL);
  enum { ITEMS = 40, SLOTS = 3 };
  for (uint64_t i = 0; i < ITEMS; i++) {
    if (i >= SLOTS) {
      expect_item(pipeline, i - SLOTS, (float)(i - SLOTS), 1 + (i - SLOTS) % 5);
    }
    submit(pipeline, (float)i, 1 + i % 5);
  }
  for (uint64_t i = ITEMS - SLOTS; i < ITEMS; i++) {
    expect_item(pipeline, i, (float)i, 1 + i % 5);
  }
  iobind_tensor *output;
  expect(IOBIND_ERROR_NOT_FOUND, iobind_pipeline_next(pipeline, IOBIND_NO_TIMEOUT, &output, 1, NULL, &fault));
  iobind_pipeline_destroy(pipeline);
}

static void full_slots_are_said(void **state) {
  (void)state;
  iobind_pipeline_options options = IOBIND_PIPELINE_OPTIONS_INIT;
  options.slots = 2;
  options.flags = IOBIND_PIPELINE_TIMES;
  iobind_pipeline *pipeline = make("scale", &options);
  submit(pipeline, 1, 4);
  submit(pipeline, 2, 4);
  static const float values[1] = {3};
  iobind_tensor *input = fixture_floats(cpu, values, 1);
  expect(IOBIND_ERROR_INVALID_STATE, call_pipeline_submit(pipeline, &input, 1, &fault));
  expect_words("all 2 slots");
  iobind_tensor *output;
  iobind_pipeline_item item = IOBIND_PIPELINE_ITEM_INIT;
  expect_ok(iobind_pipeline_next(pipeline, IOBIND_NO_TIMEOUT, &output, 1, &item, &fault));
  assert_true(item.submit_ns > 0 && item.run_ns >= item.submit_ns);
  expect_ok(call_pipeline_submit(pipeline, &input, 1, &fault));
  iobind_tensor_release(input);
  iobind_pipeline_destroy(pipeline); /* with two items in flight */
}

/* Whichever of the streams' threads is late in writing its time down. */
static void ends_are_in_order(void **state) {
  (void)state;
  enum { ITEMS = 60, SLOTS = 3 };
  iobind_pipeline_options options = IOBIND_PIPELINE_OPTIONS_INIT;
  options.slots = SLOTS;
  options.flags = IOBIND_PIPELINE_TIMES;
  iobind_pipeline *pipeline = make("scale", &options);
  for (int i = 0; i < ITEMS + SLOTS; i++) {
    if (i >= SLOTS) {
      iobind_tensor *output;
      iobind_pipeline_item item = IOBIND_PIPELINE_ITEM_INIT;
      expect_ok(iobind_pipeline_next(pipeline, IOBIND_NO_TIMEOUT, &output, 1, &item, &fault));
      bool uploads = !is_device("cpu");
      assert_int_equal(uploads, item.upload_ns != 0);
      assert_true(item.submit_ns > 0 && (!uploads || item.upload_ns >= item.submit_ns));
      assert_true(item.run_ns >= item.upload_ns && item.run_ns >= item.submit_ns && item.download_ns >= item.run_ns);
    }
    if (i < ITEMS) {
      submit(pipeline, 1, 4);
    }
  }
  iobind_pipeline_destroy(pipeline);
}

/* An input that all items share, and one that each brings. */
static void constants(void **state) {
  (void)state;
  device = fixture_device(runtime, device_spec);
  static const float tens[2] = {10, 10};
  static const float ones[2] = {1, 1};
  static const float sums[2] = {11, 11};
  iobind_tensor *shared = fixture_floats(device, tens, 2);
  iobind_tensor *inputs[2] = {fixture_floats(cpu, ones, 2), NULL};
  iobind_tensor *list[2] = {NULL, shared};
  iobind_pipeline_options options = IOBIND_PIPELINE_OPTIONS_INIT;
  options.constants = list;
  iobind_pipeline *pipeline = make("add dims=n", &options);
  iobind_tensor *output;
  for (int i = 0; i < 7; i++) {
    expect_ok(call_pipeline_submit(pipeline, inputs, sizeof inputs / sizeof *inputs, &fault));
    expect_ok(iobind_pipeline_next(pipeline, IOBIND_NO_TIMEOUT, &output, 1, NULL, &fault));
    fixture_expect_floats(output, sums, 2);
  }
  iobind_tensor_release(shared);
  iobind_tensor_release(inputs[0]);
  iobind_pipeline_destroy(pipeline);
}

static void what_does_not_fit(void **state) {
  (void)state;
  iobind_pipeline *pipeline = make("add dims=n", NULL);
  static const float ones[2] = {1, 1};
  iobind_tensor *right = fixture_floats(cpu, ones, 2);
  iobind_tensor *shorter = fixture_floats(cpu, ones, 1);
  iobind_tensor *missing[2] = {right, NULL};
  iobind_tensor *differ[2] = {right, shorter};
  iobind_tensor *fit[2] = {right, right};
  expect(IOBIND_ERROR_INVALID_ARGUMENT, call_pipeline_submit(pipeline, missing, sizeof missing / sizeof *missing, &fault));
  expect_words("'y'");
  for (int i = 0; i < 2; i++) { /* what was refused is refused again */
    expect(IOBIND_ERROR_SHAPE, call_pipeline_submit(pipeline, differ, sizeof differ / sizeof *differ, &fault));
  }
  expect(IOBIND_ERROR_INVALID_ARGUMENT, call_pipeline_submit(pipeline, fit, 1, &fault));
  expect_words("inputs: expected a length of 2, got 1");
  iobind_tensor *output;
  static const float twos[2] = {2, 2};
  expect_ok(call_pipeline_submit(pipeline, fit, sizeof fit / sizeof *fit, &fault));
  expect_ok(iobind_pipeline_next(pipeline, IOBIND_NO_TIMEOUT, &output, 1, NULL, &fault));
  fixture_expect_floats(output, twos, 2);
  iobind_tensor_release(right);
  iobind_tensor_release(shorter);
  iobind_pipeline_destroy(pipeline);
}

/* What is the host's goes in as it is, and what the device computes of it comes down. */
static void host_inputs_and_device_outputs(void **state) {
  if (!is_vdev(state)) {
    skip(); /* which can be told what not to take */
  }
  (void)fixture_device(runtime, device_spec); /* there is nothing to set before */
  assert_int_equal(vdev_set(0, "deny", "ScatterND"), 0);
  iobind_pipeline *pipeline = make("cache capacity=2 width=2", NULL);
  assert_int_equal(vdev_set(0, "deny", ""), 0);
  static const float cache[4] = {1, 2, 3, 4};
  static const float row[2] = {10, 20};
  static const float next[4] = {1, 2, 10, 20};
  static const float sum[2] = {11, 22};
  static const int64_t shapes[3][2] = {{2, 2}, {1, 2}, {1, 1}};
  static const int64_t at = 1;
  static const void *const data[3] = {cache, row, &at};
  static const size_t sizes[3] = {sizeof cache, sizeof row, sizeof at};
  iobind_tensor *inputs[3];
  for (size_t i = 0; i < 3; i++) {
    iobind_dtype dtype = i < 2 ? IOBIND_DTYPE_FLOAT32 : IOBIND_DTYPE_INT64;
    expect_ok(iobind_tensor_create(cpu, IOBIND_MEMORY_DEFAULT, dtype, shapes[i], 2, &inputs[i], &fault));
    expect_ok(iobind_tensor_write(inputs[i], 0, data[i], sizes[i], NULL, &fault));
  }
  for (int i = 0; i < 5; i++) {
    iobind_tensor *outputs[2];
    int64_t down = vdev_get(0, "d2h_bytes");
    expect_ok(call_pipeline_submit(pipeline, inputs, sizeof inputs / sizeof *inputs, &fault));
    expect_ok(iobind_pipeline_next(pipeline, IOBIND_NO_TIMEOUT, outputs, sizeof outputs / sizeof *outputs, NULL, &fault));
    assert_int_equal(vdev_get(0, "d2h_bytes") - down, sizeof sum); /* by a download, and not by a copy of ORT */
    void *got;
    expect_ok(iobind_tensor_map(outputs[0], IOBIND_DTYPE_FLOAT32, IOBIND_ACCESS_WRITE, &got, &fault));
    assert_memory_equal(got, next, sizeof next);
    fixture_expect_floats(outputs[1], sum, 2);
  }
  for (size_t i = 0; i < 3; i++) {
    iobind_tensor_release(inputs[i]);
  }
  iobind_pipeline_destroy(pipeline);
}

/* One item fails, in each of the stages: only it is lost, or those after it too. */
static void a_failure(void **state, const char *fault_of, bool stops) {
  if (!is_vdev(state)) {
    skip(); /* where an item can be made to fail */
  }
  iobind_pipeline_options options = IOBIND_PIPELINE_OPTIONS_INIT;
  options.flags = stops ? IOBIND_PIPELINE_STOP : 0;
  iobind_pipeline *pipeline = make("scale", &options);
  for (uint64_t i = 0; i < 6; i++) {
    submit(pipeline, (float)i, 4);
    expect_item(pipeline, i, (float)i, 4);
  }
  submit(pipeline, 6, 4);
  assert_int_equal(vdev_set(0, fault_of, "1"), 0);
  submit(pipeline, 7, 4);
  assert_int_equal(vdev_set(0, fault_of, "0"), 0);
  if (!stops) {
    submit(pipeline, 8, 4);
  }
  expect_item(pipeline, 6, 6, 4);
  iobind_tensor *output;
  iobind_pipeline_item item = IOBIND_PIPELINE_ITEM_INIT;
  expect(IOBIND_ERROR_RUNTIME, iobind_pipeline_next(pipeline, IOBIND_NO_TIMEOUT, &output, 1, &item, &fault));
  expect_words("item 7");
  assert_int_equal(item.index, 7);
  assert_null(output);
  if (stops) {
    static const float ones[4] = {1, 1, 1, 1};
    iobind_tensor *input = fixture_floats(cpu, ones, 4);
    expect(IOBIND_ERROR_INVALID_STATE, call_pipeline_submit(pipeline, &input, 1, &fault));
    expect_words("item 7 failed");
    iobind_tensor_release(input);
  } else {
    expect_item(pipeline, 8, 8, 4);
    submit(pipeline, 9, 4);
    expect_item(pipeline, 9, 9, 4);
  }
  iobind_pipeline_destroy(pipeline);
}

/* What a run that failed left of its outputs does not stand in the way of an item of other dims. */
static void other_dims_after_a_failure(void **state) {
  if (!is_vdev(state)) {
    skip(); /* where an item can be made to fail */
  }
  iobind_pipeline_options options = IOBIND_PIPELINE_OPTIONS_INIT;
  options.slots = 1;
  for (int ran = 0; ran < 2; ran++) {
    iobind_pipeline *pipeline = make("passthrough", &options);
    iobind_tensor *outputs[2];
    if (ran) {
      submit(pipeline, 1, 2);
      expect_ok(iobind_pipeline_next(pipeline, IOBIND_NO_TIMEOUT, outputs, sizeof outputs / sizeof *outputs, NULL, &fault));
    }
    assert_int_equal(vdev_set(0, "fail_compute", "1"), 0);
    submit(pipeline, 2, 3);
    expect(IOBIND_ERROR_RUNTIME,
           iobind_pipeline_next(pipeline, IOBIND_NO_TIMEOUT, outputs, sizeof outputs / sizeof *outputs, NULL, &fault));
    assert_int_equal(vdev_set(0, "fail_compute", "0"), 0);
    static const float values[4] = {6, 6, 6, 6};
    submit(pipeline, 3, 4);
    expect_ok(iobind_pipeline_next(pipeline, IOBIND_NO_TIMEOUT, outputs, sizeof outputs / sizeof *outputs, NULL, &fault));
    fixture_expect_floats(outputs[1], values, 4);
    iobind_pipeline_destroy(pipeline);
  }
}

static void failed_copy(void **state) {
  a_failure(state, "fail_copy", false);
}

static void failed_run(void **state) {
  a_failure(state, "fail_compute", false);
}

static void failed_run_stops(void **state) {
  a_failure(state, "fail_compute", true);
}

/* Three stages of a millisecond each and three slots: 16 items take 18, and not a nanosecond more. One slot: 48. */
static void the_schedule_is_the_optimum(void **state) {
  if (!is_vdev(state)) {
    skip(); /* whose clock is virtual */
  }
  device = fixture_device(runtime, device_spec);
  enum { ITEMS = 16, BYTES = 1000000 };
  const int64_t dims[1] = {BYTES / sizeof(float)};
  const int64_t millisecond = 1000000;
  assert_int_equal(vdev_set(0, "clock", "virtual"), 0);
  assert_int_equal(vdev_set(0, "h2d_gbps", "1"), 0);
  assert_int_equal(vdev_set(0, "d2h_gbps", "1"), 0);
  assert_int_equal(vdev_set(0, "race", "fail"), 0);
  iobind_tensor *input;
  expect_ok(iobind_tensor_create(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 1, &input, &fault));
  void *data;
  expect_ok(iobind_tensor_map(input, IOBIND_DTYPE_FLOAT32, IOBIND_ACCESS_WRITE, &data, &fault));
  memset(data, 0, BYTES);
  for (size_t slots = 1; slots <= 3; slots += 2) {
    iobind_pipeline_options options = IOBIND_PIPELINE_OPTIONS_INIT;
    options.slots = slots;
    iobind_pipeline *pipeline = make("scale", &options);
    assert_int_equal(vdev_set(0, "compute_us", "1000"), 0);
    int64_t before = vdev_get(0, "time_ns");
    iobind_tensor *output;
    for (size_t i = 0; i < ITEMS; i++) {
      if (i >= slots) {
        expect_ok(iobind_pipeline_next(pipeline, IOBIND_NO_TIMEOUT, &output, 1, NULL, &fault));
      }
      expect_ok(call_pipeline_submit(pipeline, &input, 1, &fault));
    }
    for (size_t i = 0; i < slots; i++) {
      expect_ok(iobind_pipeline_next(pipeline, IOBIND_NO_TIMEOUT, &output, 1, NULL, &fault));
    }
    assert_int_equal(vdev_get(0, "time_ns") - before, (slots == 1 ? 3 * ITEMS : ITEMS + 2) * millisecond);
    iobind_pipeline_destroy(pipeline);
    assert_int_equal(vdev_set(0, "compute_us", "0"), 0);
  }
  iobind_tensor_release(input);
  assert_int_equal(vdev_set(0, "clock", "real"), 0);
}

#define CASES(spec)                                                                                               \
  {#spec ": in order", in_order, stage_open, stage_close, #spec},                                                 \
      {#spec ": full slots are said", full_slots_are_said, stage_open, stage_close, #spec},                       \
      {#spec ": ends are in order", ends_are_in_order, stage_open, stage_close, #spec},                           \
      {#spec ": constants", constants, stage_open, stage_close, #spec},                                           \
      {#spec ": what does not fit", what_does_not_fit, stage_open, stage_close, #spec},                           \
      {#spec ": host inputs and device outputs", host_inputs_and_device_outputs, stage_open, stage_close, #spec}, \
      {#spec ": failed copy", failed_copy, stage_open, stage_close, #spec},                                       \
      {#spec ": failed run", failed_run, stage_open, stage_close, #spec},                                         \
      {#spec ": other dims after a failure", other_dims_after_a_failure, stage_open, stage_close, #spec},         \
      {#spec ": failed run stops", failed_run_stops, stage_open, stage_close, #spec}, {                           \
#spec ": the schedule is the optimum", the_schedule_is_the_optimum, stage_open, stage_close, #spec            \
  }

static const struct CMUnitTest tests[] = {CASES(cpu), CASES(webgpu), CASES(vdev), CASES(cuda)};

FIXTURE_MAIN_OF_DEVICES(tests);
