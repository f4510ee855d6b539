/* Pipelines: times of the stages, inputs of the host's, and on the virtual accelerator's clock the schedule itself. The rows of conformance have
 * order, memory and failures. */
#include "stage.h"

#include <stdlib.h>
#include <string.h>

#include "models.h"
#include "vdev.h"
#include "../rig/calls.h"

static iobind_pipeline *make(const char *model, const iobind_pipeline_options *options) {
  iobind_session *session = fixture_session(runtime, device, model);
  iobind_pipeline *pipeline;
  expect_ok(call_pipeline_create(session, options, &pipeline, &fault));
  iobind_session_destroy(session);
  return pipeline;
}

static void submit(iobind_pipeline *pipeline) {
  static const float values[4] = {1, 1, 1, 1};
  iobind_tensor *input = fixture_floats(cpu, values, 4);
  expect_ok(call_pipeline_submit(pipeline, &input, 1, &fault));
  iobind_tensor_release(input);
}

static void full_slots_are_said(void **state) {
  (void)state;
  iobind_pipeline_options options = IOBIND_PIPELINE_OPTIONS_INIT;
  options.slots = 2;
  options.flags = IOBIND_PIPELINE_TIMES;
  iobind_pipeline *pipeline = make("scale", &options);
  submit(pipeline);
  submit(pipeline);
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
      submit(pipeline);
    }
  }
  iobind_pipeline_destroy(pipeline);
}

/* Inputs on the host are passed as they are, and the device's results are downloaded. */
static void host_inputs_and_device_outputs(void **state) {
  (void)state;
  if (!is_device("vdev")) {
    skip(); /* which can be told what not to take */
  }
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

/* Three stages of a millisecond each and three slots: 16 items take 18, and not a nanosecond more. One slot: 48. */
static void the_schedule_is_the_optimum(void **state) {
  (void)state;
  if (!is_device("vdev")) {
    skip(); /* whose clock is virtual */
  }
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

#define CASES(spec)                                                                                                 \
  {#spec ": full slots are said", full_slots_are_said, stage_open, stage_close, #spec},                             \
      {#spec ": ends are in order", ends_are_in_order, stage_open, stage_close, #spec},                             \
      {#spec ": host inputs and device outputs", host_inputs_and_device_outputs, stage_open, stage_close, #spec}, { \
#spec ": the schedule is the optimum", the_schedule_is_the_optimum, stage_open, stage_close, #spec              \
  }

static const struct CMUnitTest tests[] = {CASES(cpu), CASES(webgpu), CASES(vdev), CASES(cuda)};

FIXTURE_MAIN_OF_DEVICES(tests);
