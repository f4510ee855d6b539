/* Items of a pipeline, and runs without a binding, whose data are on the device already, and outputs that stay there or are not
 * wanted. */
#include "stage.h"

#include <stdlib.h>
#include <string.h>

#include "models.h"
#include "vdev.h"
#include "../rig/calls.h"

enum { COUNT = 64, FRAMES = 5, SLOTS = 3 };

static iobind_stream *decoder; /* another program's work on the device: it makes the frames */
static iobind_tensor *source;  /* on the device: what a decoder decodes */

static int start(void **state) {
  (void)stage_open(state);
  expect_ok(iobind_stream_create(device, NULL, &decoder, &fault));
  float values[COUNT];
  for (size_t i = 0; i < COUNT; i++) {
    values[i] = (float)i;
  }
  source = fixture_floats(device, values, COUNT);
  if (is_device("vdev")) {
    assert_int_equal(vdev_set(0, "race", "fail"), 0);
  }
  return 0;
}

static int stop(void **state) {
  if (is_device("vdev")) {
    assert_int_equal(vdev_set(0, "race", "off"), 0);
  }
  iobind_stream_destroy(decoder);
  iobind_tensor_release(source);
  return stage_close(state);
}

/* Does the session read its inputs in memory that the host cannot read? */
static bool is_away(void) {
  iobind_tensor_info info = IOBIND_TENSOR_INFO_INIT;
  expect_ok(iobind_tensor_get_info(source, &info, &fault));
  return !info.host_readable;
}

static iobind_device_counters counters(void) {
  iobind_device_counters now = IOBIND_DEVICE_COUNTERS_INIT;
  expect_ok(iobind_device_get_counters(device, &now, &fault));
  return now;
}

static iobind_pipeline *make(const char *model, size_t slots, const int32_t *outputs) {
  iobind_session *session = fixture_session(runtime, device, model);
  iobind_pipeline_options options = IOBIND_PIPELINE_OPTIONS_INIT;
  options.slots = slots;
  options.placements = outputs;
  iobind_pipeline *pipeline;
  expect_ok(call_pipeline_create(session, &options, &pipeline, &fault));
  iobind_session_destroy(session);
  return pipeline;
}

static iobind_status submit_some(iobind_pipeline *pipeline, iobind_tensor *const *inputs, size_t count,
                                 iobind_event *const *events, void *tag) {
  iobind_pipeline_request request = IOBIND_PIPELINE_REQUEST_INIT;
  request.inputs = inputs;
  request.input_count = count;
  request.events = events;
  request.event_count = events == NULL ? 0 : count;
  request.tag = tag;
  return iobind_pipeline_submit(pipeline, &request, &fault);
}

static iobind_status submit(iobind_pipeline *pipeline, iobind_tensor *const *inputs, iobind_event *const *events, void *tag) {
  return submit_some(pipeline, inputs, 1, events, tag);
}

static iobind_tensor *make_frame(void) {
  static const int64_t dims[1] = {COUNT};
  iobind_tensor *frame;
  expect_ok(iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 1, &frame, &fault));
  return frame;
}

/* Each item's frame is decoded on a stream of its own; the pipeline reads it there, and leaves the result there. */
typedef struct film {
  iobind_pipeline *pipeline;
  iobind_tensor *frames[FRAMES];
  iobind_event *events[FRAMES];
} film;

static film open_film(size_t slots) {
  static const int32_t stay[1] = {IOBIND_PLACE_DEVICE};
  film self = {.pipeline = make("scale", slots, stay)};
  for (size_t i = 0; i < FRAMES; i++) {
    self.frames[i] = make_frame();
    expect_ok(iobind_event_create(device, &self.events[i], &fault));
  }
  return self;
}

static void close_film(const film *self) {
  for (size_t i = 0; i < FRAMES; i++) {
    iobind_tensor_release(self->frames[i]);
    iobind_event_destroy(self->events[i]);
  }
  iobind_pipeline_destroy(self->pipeline);
}

static void decode(const film *self, size_t frame) {
  const iobind_tensor *from[1] = {source};
  expect_ok(iobind_tensor_copy(from, &self->frames[frame], 1, decoder, &fault));
  expect_ok(iobind_event_record(self->events[frame], decoder, &fault));
}

static void expect_doubled(iobind_tensor *output) {
  float got[COUNT];
  expect_ok(iobind_tensor_read(output, 0, got, sizeof got, NULL, &fault));
  for (size_t i = 0; i < COUNT; i++) {
    assert_true(got[i] == 2 * (float)i);
  }
}

/* A frame may be decoded again as soon as its item was pulled: there are fewer frames than items, and more than slots. */
static void frames_of_a_decoder(void **state) {
  (void)state;
  enum { ITEMS = 40, WARM = FRAMES + SLOTS };
  film self = open_film(SLOTS);
  iobind_device_counters warm = counters();
  for (size_t i = 0; i < ITEMS + SLOTS; i++) {
    if (i == WARM) {
      warm = counters();
    }
    if (i >= SLOTS) {
      iobind_tensor *output;
      iobind_pipeline_item item = IOBIND_PIPELINE_ITEM_INIT;
      expect_ok(iobind_pipeline_next(self.pipeline, IOBIND_NO_TIMEOUT, &output, 1, &item, &fault));
      assert_int_equal(item.index, i - SLOTS);
      assert_ptr_equal(item.tag, self.frames[(i - SLOTS) % FRAMES]);
      if (i < WARM) { /* by a download, which is counted */
        expect_doubled(output);
      } else if (i == ITEMS + SLOTS - 1) {
        const iobind_device_counters now = counters();
        assert_int_equal(now.upload_bytes, warm.upload_bytes);
        assert_int_equal(now.download_bytes, warm.download_bytes);
        assert_int_equal(now.allocation_count, warm.allocation_count);
        expect_doubled(output);
      }
    }
    if (i < ITEMS) {
      decode(&self, i % FRAMES);
      expect_ok(submit(self.pipeline, &self.frames[i % FRAMES], &self.events[i % FRAMES], self.frames[i % FRAMES]));
    }
  }
  close_film(&self);
}

/* Without its event an item reads what the decoder may still be writing. */
static void a_frame_without_its_event(void **state) {
  (void)state;
  if (!is_device("vdev")) {
    skip(); /* which has a race detector */
  }
  film self = open_film(1);
  iobind_tensor *output;
  decode(&self, 0);
  expect_ok(submit(self.pipeline, &self.frames[0], NULL, &self));
  iobind_pipeline_item item = IOBIND_PIPELINE_ITEM_INIT;
  expect(IOBIND_ERROR_RUNTIME, iobind_pipeline_next(self.pipeline, IOBIND_NO_TIMEOUT, &output, 1, &item, &fault));
  expect_words("unordered access");
  assert_ptr_equal(item.tag, &self);
  expect_ok(iobind_stream_synchronize(decoder, &fault));
  expect_ok(submit(self.pipeline, &self.frames[0], NULL, NULL)); /* it is ready now */
  expect_ok(iobind_pipeline_next(self.pipeline, IOBIND_NO_TIMEOUT, &output, 1, &item, &fault));
  expect_doubled(output);
  assert_null(item.tag);
  close_film(&self);
}

static iobind_tensor *wrap(iobind_tensor *frame, fixture_deleted *deleted) {
  static const int64_t dims[1] = {COUNT};
  iobind_tensor *wrapped;
  expect_ok(call_tensor_wrap(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 1, iobind_tensor_get_address(frame),
                             COUNT * sizeof(float), fixture_deleter, deleted, &wrapped, &fault));
  return wrapped;
}

/* A decoder has few surfaces: each is its own again when its item was pulled, not when another item takes the slot. */
static void a_surface_goes_back(void **state) {
  (void)state;
  film self = open_film(SLOTS);
  decode(&self, 0);
  expect_ok(iobind_stream_synchronize(decoder, &fault));
  for (int i = 0; i < 2 * SLOTS; i++) {
    fixture_deleted deleted = {0};
    iobind_tensor *output;
    iobind_tensor *surface = wrap(self.frames[0], &deleted);
    expect_ok(submit(self.pipeline, &surface, NULL, NULL));
    iobind_tensor_release(surface);
    assert_int_equal(deleted.count, is_away() ? 0 : 1); /* what is on the host was copied */
    expect_ok(iobind_pipeline_next(self.pipeline, IOBIND_NO_TIMEOUT, &output, 1, NULL, &fault));
    assert_int_equal(deleted.count, 1);
    expect_doubled(output);
  }
  close_film(&self);
}

/* What the caller keeps of an item stays as it is, also if it becomes the input of the next item. */
static void a_result_becomes_an_input(void **state) {
  (void)state;
  film self = open_film(1);
  iobind_tensor *kept[4];
  iobind_tensor *input = source;
  for (size_t i = 0; i < 4; i++) {
    iobind_tensor *output;
    expect_ok(submit(self.pipeline, &input, NULL, NULL));
    expect_ok(iobind_pipeline_next(self.pipeline, IOBIND_NO_TIMEOUT, &output, 1, NULL, &fault));
    kept[i] = iobind_tensor_retain(output);
    input = kept[i];
  }
  for (size_t i = 0; i < 4; i++) {
    float got[COUNT];
    expect_ok(iobind_tensor_read(kept[i], 0, got, sizeof got, NULL, &fault));
    assert_true(got[1] == (float)(2 << i) && got[COUNT - 1] == (float)((COUNT - 1) * (2 << i)));
    iobind_tensor_release(kept[i]);
  }
  close_film(&self);
}

/* Each input of each item is on the host or on the device, whatever it was in the slot's last item; dims change between them. */
static void host_and_device_in_turn(void **state) {
  (void)state;
  iobind_pipeline *pipeline = make("add dims=n", 2, NULL);
  for (size_t i = 0; i < 24; i++) {
    size_t count = 1 + i / 4 % 3;
    float values[3] = {(float)i, (float)i + 1, (float)i + 2};
    const float sums[3] = {2 * values[0], 2 * values[1], 2 * values[2]};
    iobind_tensor *inputs[2] = {fixture_floats((i & 1) != 0 ? device : cpu, values, count),
                                fixture_floats((i & 2) != 0 ? device : cpu, values, count)};
    iobind_tensor *output;
    expect_ok(submit_some(pipeline, inputs, 2, NULL, NULL));
    iobind_tensor_release(inputs[0]);
    iobind_tensor_release(inputs[1]);
    expect_ok(iobind_pipeline_next(pipeline, IOBIND_NO_TIMEOUT, &output, 1, NULL, &fault));
    fixture_expect_floats(output, sums, count);
  }
  iobind_pipeline_destroy(pipeline);
}

/* An input on the host that a stream is still writing is copied when its event is signaled. */
static void an_event_of_a_host_tensor(void **state) {
  (void)state;
  static const int32_t down[1] = {IOBIND_PLACE_HOST};
  static const int64_t dims[1] = {COUNT};
  iobind_pipeline *pipeline = make("scale", 1, down);
  iobind_tensor *host;
  iobind_event *event;
  expect_ok(iobind_tensor_create(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 1, &host, &fault));
  expect_ok(iobind_event_create(device, &event, &fault));
  const iobind_tensor *from[1] = {source};
  expect_ok(iobind_tensor_copy(from, &host, 1, decoder, &fault));
  expect_ok(iobind_event_record(event, decoder, &fault));
  expect_ok(submit(pipeline, &host, &event, NULL));
  static const float zeros[COUNT];
  expect_ok(iobind_tensor_write(host, 0, zeros, sizeof zeros, NULL, &fault)); /* it was copied */
  iobind_tensor *output;
  expect_ok(iobind_pipeline_next(pipeline, IOBIND_NO_TIMEOUT, &output, 1, NULL, &fault));
  expect_doubled(output);
  iobind_event_destroy(event);
  iobind_tensor_release(host);
  iobind_pipeline_destroy(pipeline);
}

/* Three outputs: one comes down, one stays, one is not wanted. */
static void each_output_by_choice(void **state) {
  (void)state;
  iobind_session *session = fixture_session(runtime, device, "multi");
  iobind_session_info info = IOBIND_SESSION_INFO_INIT;
  expect_ok(iobind_session_get_info(session, &info, &fault));
  iobind_session_destroy(session);
  assert_int_equal(info.output_count, 3);
  for (int32_t first = 0; first < 3; first++) {
    const int32_t places[3] = {first, (first + 1) % 3, (first + 2) % 3};
    iobind_pipeline *pipeline = make("multi", 2, places);
    static const float ones[4] = {1, 1, 1, 1};
    iobind_tensor *input = fixture_floats(device, ones, 4);
    for (int turn = 0; turn < 4; turn++) {
      iobind_tensor *outputs[3];
      expect_ok(submit(pipeline, &input, NULL, NULL));
      expect_ok(iobind_pipeline_next(pipeline, IOBIND_NO_TIMEOUT, outputs, sizeof outputs / sizeof *outputs, NULL, &fault));
      for (size_t i = 0; i < 3; i++) {
        if (places[i] == IOBIND_PLACE_NONE) {
          assert_null(outputs[i]);
          continue;
        }
        iobind_tensor_info of = IOBIND_TENSOR_INFO_INIT;
        expect_ok(iobind_tensor_get_info(outputs[i], &of, &fault));
        assert_int_equal(of.host_readable != 0, places[i] == IOBIND_PLACE_HOST || !is_away());
      }
    }
    iobind_tensor_release(input);
    iobind_pipeline_destroy(pipeline);
  }
}

/* What was refused keeps nothing, and takes no slot. */
static void what_is_refused(void **state) {
  (void)state;
  iobind_pipeline *pipeline = make("add dims=n", 1, NULL);
  fixture_deleted deleted = {0};
  iobind_tensor *right = wrap(source, &deleted);
  static const float ones[2] = {1, 1};
  iobind_tensor *shorter = fixture_floats(cpu, ones, 2);
  iobind_tensor *differ[2] = {right, shorter};
  iobind_tensor *missing[2] = {right, NULL};
  expect(IOBIND_ERROR_SHAPE, submit_some(pipeline, differ, 2, NULL, NULL));
  expect_words("pipeline_submit: ");
  expect(IOBIND_ERROR_INVALID_ARGUMENT, submit_some(pipeline, missing, 2, NULL, NULL));
  expect_words("pipeline_submit: 'y'");
  iobind_tensor_release(right);
  assert_int_equal(deleted.count, 1);
  iobind_tensor *both[2] = {shorter, shorter};
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_pipeline_submit(pipeline, NULL, &fault));
  expect_words("request is NULL");
  iobind_pipeline_request request = IOBIND_PIPELINE_REQUEST_INIT;
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_pipeline_submit(pipeline, &request, &fault));
  expect_words("inputs is NULL");
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_pipeline_submit(NULL, &request, &fault));
  request.inputs = both;
  request.input_count = 1;
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_pipeline_submit(pipeline, &request, &fault));
  expect_words("inputs: expected a length of 2, got 1");
  request.struct_size = 8;
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_pipeline_submit(pipeline, &request, &fault));
  expect_words("struct_size");
  iobind_tensor *output;
  static const float twos[2] = {2, 2};
  expect_ok(submit_some(pipeline, both, 2, NULL, NULL));
  expect(IOBIND_ERROR_INVALID_STATE, submit_some(pipeline, both, 2, NULL, NULL));
  expect_words("pipeline_submit: all 1 slots");
  expect_ok(iobind_pipeline_next(pipeline, IOBIND_NO_TIMEOUT, &output, 1, NULL, &fault));
  fixture_expect_floats(output, twos, 2);
  iobind_tensor_release(shorter);
  iobind_pipeline_destroy(pipeline);
}

/* A session on the CPU reads nothing of another device. */
static void another_device(void **state) {
  (void)state;
  if (!is_away()) {
    skip();
  }
  iobind_session *session = fixture_session(runtime, cpu, "scale");
  iobind_pipeline *pipeline;
  expect_ok(call_pipeline_create(session, NULL, &pipeline, &fault));
  expect(IOBIND_ERROR_WRONG_DEVICE, submit(pipeline, &source, NULL, NULL));
  expect_words("or one on 'cpu");
  iobind_pipeline_destroy(pipeline);
  iobind_session_destroy(session);
}

static void options_that_are_refused(void **state) {
  (void)state;
  iobind_session *session = fixture_session(runtime, device, "scale");
  iobind_pipeline *pipeline;
  int32_t place = 3;
  iobind_pipeline_options options = IOBIND_PIPELINE_OPTIONS_INIT;
  options.placements = &place;
  expect(IOBIND_ERROR_INVALID_ARGUMENT, call_pipeline_create(session, &options, &pipeline, &fault));
  expect_words("pipeline_create: placements: 'y': expected 0 .. 2, got 3");
  place = IOBIND_PLACE_NONE;
  expect(IOBIND_ERROR_INVALID_ARGUMENT, call_pipeline_create(session, &options, &pipeline, &fault));
  expect_words("no output is fetched");
  place = IOBIND_PLACE_HOST;
  iobind_run_options run = IOBIND_RUN_OPTIONS_INIT;
  options.run_options = &run;
  run.log_level = 9;
  expect(IOBIND_ERROR_INVALID_ARGUMENT, call_pipeline_create(session, &options, &pipeline, &fault));
  expect_words("pipeline_create: log_level");
  run.log_level = 0;
  run.tag = "film";
  expect_ok(call_pipeline_create(session, &options, &pipeline, &fault));
  iobind_tensor *output;
  expect_ok(submit(pipeline, &source, NULL, NULL));
  expect_ok(iobind_pipeline_next(pipeline, IOBIND_NO_TIMEOUT, &output, 1, NULL, &fault));
  expect_doubled(output);
  iobind_pipeline_destroy(pipeline);
  iobind_session_destroy(session);
}

/* ---- runs without a binding ---- */

static iobind_status run(iobind_session *session, iobind_tensor *const *inputs, iobind_tensor *const *targets,
                         const int32_t *places, iobind_tensor **outputs) {
  iobind_run_request request = IOBIND_RUN_REQUEST_INIT;
  request.inputs = inputs;
  request.targets = targets;
  request.placements = places;
  return call_session_request(session, &request, outputs, &fault);
}

/* The plain run reads a tensor where it is, and brings the output down. */
static void a_plain_run_of_a_device_tensor(void **state) {
  (void)state;
  iobind_session *session = fixture_session(runtime, device, "scale");
  iobind_tensor *output;
  const iobind_device_counters before = counters();
  expect_ok(call_session_run(session, &source, &output, &fault));
  assert_int_equal(counters().upload_bytes, before.upload_bytes);
  expect_doubled(output);
  iobind_tensor_release(output);
  iobind_session_destroy(session);
}

/* From the device to the device: what stays, what is written by choice, and what is not wanted. */
static void a_run_by_choice(void **state) {
  (void)state;
  iobind_session *session = fixture_session(runtime, device, "scale");
  iobind_tensor *host;
  static const int64_t dims[1] = {COUNT};
  expect_ok(iobind_tensor_create(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 1, &host, &fault));
  iobind_tensor *frame = make_frame();
  iobind_tensor *const given[] = {NULL, frame, host};
  for (size_t i = 0; i < 3; i++) {
    static const int32_t stays[1] = {IOBIND_PLACE_DEVICE};
    iobind_tensor *output;
    const iobind_device_counters before = counters();
    expect_ok(run(session, &source, &given[i], stays, &output));
    const iobind_device_counters after = counters();
    assert_int_equal(after.upload_bytes, before.upload_bytes);
    if (given[i] != host) { /* iobind or ORT brings that one down */
      assert_int_equal(after.download_bytes, before.download_bytes);
    }
    assert_true(given[i] == NULL ? output != frame && output != host : output == given[i]);
    iobind_tensor_info info = IOBIND_TENSOR_INFO_INIT;
    expect_ok(iobind_tensor_get_info(output, &info, &fault));
    assert_int_equal(!info.host_readable, is_away() && given[i] != host);
    expect_doubled(output);
    iobind_tensor_release(output);
  }
  iobind_tensor_release(frame);
  iobind_tensor_release(host);
  iobind_session_destroy(session);
}

/* Each surface has its graph in each slot; a run without a binding captures none. */
static void a_session_that_captures_graphs(void **state) {
  (void)state;
  if (!is_device("vdev")) {
    skip();
  }
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  options.devices = &device;
  options.device_count = 1;
  options.graph_limit = 2;
  iobind_session *session;
  iobind_status status = test_session_with(runtime, "scale", &options, &session, &fault);
  if (status == IOBIND_ERROR_VERSION || status == IOBIND_ERROR_NOT_SUPPORTED) {
    skip(); /* this ONNX Runtime captures none */
  }
  expect_ok(status);
  static const int32_t stays[1] = {IOBIND_PLACE_DEVICE};
  iobind_pipeline_options piped = IOBIND_PIPELINE_OPTIONS_INIT;
  piped.placements = stays;
  piped.slots = 2;
  iobind_pipeline *pipeline;
  expect_ok(call_pipeline_create(session, &piped, &pipeline, &fault));
  iobind_tensor *frame = make_frame();
  const iobind_tensor *from[1] = {source};
  expect_ok(iobind_tensor_copy(from, &frame, 1, NULL, &fault));
  iobind_tensor *const surfaces[2] = {frame, source};
  iobind_tensor *output;
  for (size_t i = 0; i < 12; i++) {
    iobind_tensor *surface = surfaces[i / 2 % 2];
    expect_ok(submit(pipeline, &surface, NULL, NULL));
    expect_ok(iobind_pipeline_next(pipeline, IOBIND_NO_TIMEOUT, &output, 1, NULL, &fault));
    expect_doubled(output);
    expect_ok(run(session, &surface, NULL, stays, &output));
    expect_doubled(output);
    iobind_tensor_release(output);
  }
  iobind_tensor_release(frame);
  iobind_pipeline_destroy(pipeline);
  iobind_session_destroy(session);
}

static void some_outputs_of_a_run(void **state) {
  (void)state;
  static const int32_t places[3] = {IOBIND_PLACE_NONE, IOBIND_PLACE_HOST, IOBIND_PLACE_NONE};
  static const float values[2] = {3, 4};
  static const float squares[2] = {9, 16};
  iobind_session *session = fixture_session(runtime, device, "multi");
  iobind_tensor *input = fixture_floats(cpu, values, 2);
  iobind_tensor *outputs[3];
  iobind_run_options options = IOBIND_RUN_OPTIONS_INIT;
  iobind_run_request request = IOBIND_RUN_REQUEST_INIT;
  options.tag = "squares";
  request.inputs = &input;
  request.placements = places;
  request.options = &options;
  expect_ok(call_session_request(session, &request, outputs, &fault));
  assert_true(outputs[0] == NULL && outputs[2] == NULL);
  fixture_expect_floats(outputs[1], squares, 2);
  iobind_tensor_release(outputs[1]);
  expect_ok(run(session, &input, NULL, NULL, outputs));
  for (size_t i = 0; i < 3; i++) {
    iobind_tensor_info info = IOBIND_TENSOR_INFO_INIT;
    expect_ok(iobind_tensor_get_info(outputs[i], &info, &fault));
    assert_true(info.host_readable);
    iobind_tensor_release(outputs[i]);
  }
  iobind_tensor_release(input);
  iobind_session_destroy(session);
}

static void runs_that_are_refused(void **state) {
  (void)state;
  iobind_session *session = fixture_session(runtime, device, "scale");
  static const float ones[2] = {1, 1};
  iobind_tensor *input = fixture_floats(device, ones, 2);
  iobind_tensor *output = source;
  static const int32_t none[1] = {IOBIND_PLACE_NONE};
  static const int32_t wrong[1] = {-1};
  expect(IOBIND_ERROR_INVALID_STATE, run(session, &input, NULL, none, &output));
  expect_words("session_run: no output");
  assert_null(output);
  expect(IOBIND_ERROR_INVALID_ARGUMENT, run(session, &input, NULL, wrong, &output));
  expect_words("session_run: placements: 'y': expected 0 .. 2, got -1");
  expect(IOBIND_ERROR_SHAPE, run(session, &input, &source, NULL, &output));
  expect_words("session_run: ");
  expect(IOBIND_ERROR_INVALID_ARGUMENT, run(session, &input, &input, NULL, &output));
  expect_words("overlaps");
  iobind_tensor *missing = NULL;
  expect(IOBIND_ERROR_INVALID_ARGUMENT, run(session, &missing, NULL, NULL, &output));
  expect_words("session_run: 'x'");
  expect(IOBIND_ERROR_INVALID_ARGUMENT, run(session, NULL, NULL, NULL, &output));
  expect_words("inputs is NULL");
  expect(IOBIND_ERROR_INVALID_ARGUMENT, call_session_request(session, NULL, &output, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, run(NULL, &input, NULL, NULL, &output));
  if (is_away()) {
    iobind_session *other = fixture_session(runtime, cpu, "scale");
    expect(IOBIND_ERROR_WRONG_DEVICE, run(other, &input, NULL, NULL, &output));
    expect_words("or one on 'cpu");
    expect(IOBIND_ERROR_WRONG_DEVICE, call_session_run(other, &input, &output, &fault));
    iobind_session_destroy(other);
  }
  iobind_tensor_release(input);
  iobind_session_destroy(session);
}

/* What was taken from a binding is the caller's: an input of a request or its target, and no run of the binding writes it. */
static void a_taken_output(void **state) {
  (void)state;
  static const float doubled[2] = {2, 4};
  static const float fourfold[2] = {4, 8};
  static const float values[2] = {1, 2};
  static const float zeros[2] = {0, 0};
  iobind_session *session = fixture_session(runtime, device, "scale");
  iobind_tensor *x = fixture_floats(device, values, 2);
  for (int mode = IOBIND_OUTPUT_FRESH; mode <= IOBIND_OUTPUT_REUSE; mode++) {
    iobind_binding *binding;
    iobind_tensor *taken[2];
    iobind_tensor *output;
    expect_ok(iobind_tensor_write(x, 0, values, sizeof values, NULL, &fault));
    expect_ok(iobind_binding_create(session, &binding, &fault));
    expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
    expect_ok(call_binding_set_output(binding, 0, (iobind_output_mode)mode, NULL, IOBIND_MEMORY_DEFAULT, NULL, &fault));
    for (int i = 0; i < 2; i++) {
      expect_ok(iobind_binding_run(binding, NULL, &fault));
      expect_ok(iobind_binding_take_output(binding, 0, &taken[i], &fault));
    }
    expect_ok(run(session, &taken[0], &taken[1], NULL, &output));
    assert_ptr_equal(output, taken[1]);
    iobind_tensor_release(output);
    expect_ok(iobind_tensor_write(x, 0, zeros, sizeof zeros, NULL, &fault));
    expect_ok(iobind_binding_run(binding, NULL, &fault));
    fixture_expect_floats(taken[0], doubled, 2);
    fixture_expect_floats(taken[1], fourfold, 2);
    iobind_tensor_release(taken[0]);
    iobind_tensor_release(taken[1]);
    iobind_binding_destroy(binding);
  }
  iobind_tensor_release(x);
  iobind_session_destroy(session);
}

/* A run that fails gives nothing, and the target is the caller's as before. */
static void a_run_that_fails(void **state) {
  (void)state;
  static const float three[3] = {1, 2, 3};
  static const float twice[6] = {1, 2, 3, 1, 2, 3};
  static const int64_t two = 2;
  const int64_t dims[2] = {2, 3};
  iobind_session *session = fixture_session(runtime, device, "expand");
  iobind_tensor *inputs[2] = {fixture_floats(device, three, 3), NULL};
  iobind_tensor *target = NULL;
  expect_ok(iobind_tensor_create(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_INT64, &two, 1, &inputs[1], &fault));
  expect_ok(iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 2, &target, &fault));
  for (int turn = 0; turn < 4; turn++) {
    const bool is_given = turn >= 2;
    const bool fails = turn % 2 == 0;
    const int64_t wanted[2] = {2, fails ? 5 : 3};
    iobind_tensor *output = target;
    float got[6] = {0};
    expect_ok(iobind_tensor_write(inputs[1], 0, wanted, sizeof wanted, NULL, &fault));
    expect(fails ? IOBIND_ERROR_RUNTIME : IOBIND_OK, run(session, inputs, is_given ? &target : NULL, NULL, &output));
    if (fails) {
      assert_null(output);
      continue;
    }
    expect_ok(iobind_tensor_read(output, 0, got, sizeof got, NULL, &fault));
    assert_memory_equal(got, twice, sizeof twice);
    iobind_tensor_release(output);
  }
  iobind_tensor_release(inputs[0]);
  iobind_tensor_release(inputs[1]);
  iobind_tensor_release(target);
  iobind_session_destroy(session);
}

#define CASES(spec)                                                                                   \
  {#spec ": frames of a decoder", frames_of_a_decoder, start, stop, #spec},                           \
      {#spec ": a frame without its event", a_frame_without_its_event, start, stop, #spec},           \
      {#spec ": a surface goes back", a_surface_goes_back, start, stop, #spec},                       \
      {#spec ": a result becomes an input", a_result_becomes_an_input, start, stop, #spec},           \
      {#spec ": host and device in turn", host_and_device_in_turn, start, stop, #spec},               \
      {#spec ": an event of a host tensor", an_event_of_a_host_tensor, start, stop, #spec},           \
      {#spec ": each output by choice", each_output_by_choice, start, stop, #spec},                   \
      {#spec ": what is refused", what_is_refused, start, stop, #spec},                               \
      {#spec ": a plain run of a device tensor", a_plain_run_of_a_device_tensor, start, stop, #spec}, \
      {#spec ": a run by choice", a_run_by_choice, start, stop, #spec},                               \
      {#spec ": a session that captures graphs", a_session_that_captures_graphs, start, stop, #spec}, \
      {#spec ": some outputs of a run", some_outputs_of_a_run, start, stop, #spec},                   \
      {#spec ": runs that are refused", runs_that_are_refused, start, stop, #spec},                   \
      {#spec ": a taken output", a_taken_output, start, stop, #spec},                                 \
      {#spec ": a run that fails", a_run_that_fails, start, stop, #spec},                             \
      {#spec ": another device", another_device, start, stop, #spec}, {                               \
#spec ": options that are refused", options_that_are_refused, start, stop, #spec                  \
  }

static const struct CMUnitTest tests[] = {CASES(cpu), CASES(webgpu), CASES(vdev), CASES(cuda)};

FIXTURE_MAIN_OF_DEVICES(tests);
