/* Pipelines: a failure of an item is returned when it is submitted or when it is pulled, and the next item goes through. */
#include <stddef.h>

#include "scenario.h"
#include "../rig/calls.h"

static void make_session(struct rig *rig) {
  rig_session(rig, "scale");
  rig->x = rig_floats(rig, rig->cpu, rig_ones, RIG_VALUES);
}

static void make_sum(struct rig *rig) {
  rig_session(rig, "add");
  rig->x = rig_floats(rig, rig->cpu, rig_ones, RIG_VALUES);
  rig->y = rig_floats(rig, rig->device, rig_ones, RIG_VALUES);
}

static iobind_status create(struct rig *rig) {
  return call_pipeline_create(rig->session, NULL, &rig->pipeline, &rig->error);
}

static iobind_status create_with_constant(struct rig *rig) {
  iobind_tensor *const constants[2] = {NULL, rig->y};
  iobind_pipeline_options options = IOBIND_PIPELINE_OPTIONS_INIT;
  options.slots = 2;
  options.constants = constants;
  return call_pipeline_create(rig->session, &options, &rig->pipeline, &rig->error);
}

/* An item, through to its end. */
static iobind_status pass(struct rig *rig) {
  iobind_tensor *const inputs[2] = {rig->x, NULL};
  iobind_status status = call_pipeline_submit(rig->pipeline, inputs, call_counts(rig->session).input_count, &rig->error);
  rig->found_tensor = NULL;
  return status == IOBIND_OK ? iobind_pipeline_next(rig->pipeline, IOBIND_NO_TIMEOUT, &rig->found_tensor, 1, NULL, &rig->error)
                             : status;
}

static void is_twos(struct rig *rig) {
  rig_expect(rig, rig->found_tensor, rig_twos, RIG_VALUES);
}

/* As many items as it has slots, and one more. */
static void works(struct rig *rig) {
  for (size_t i = 0; i < 4; i++) {
    NEED(rig, pass(rig));
    is_twos(rig);
  }
}

static void make_pipeline(struct rig *rig) {
  make_session(rig);
  NEED(rig, create(rig));
}

/* Each slot has its memory. */
static void make_warm(struct rig *rig) {
  make_pipeline(rig);
  works(rig);
}

/* Memory for items of other dims. */
static void make_reshaped(struct rig *rig) {
  make_warm(rig);
  iobind_tensor *x = rig->x;
  rig->x = rig_floats(rig, rig->cpu, rig_ones, RIG_VALUES - 1);
  for (size_t i = 0; i < 3; i++) {
    NEED(rig, pass(rig));
  }
  iobind_tensor_release(rig->x);
  rig->x = x;
}

static iobind_status create_that_stays(struct rig *rig) {
  static const int32_t outputs[1] = {IOBIND_PLACE_DEVICE};
  iobind_run_options run = IOBIND_RUN_OPTIONS_INIT;
  iobind_pipeline_options options = IOBIND_PIPELINE_OPTIONS_INIT;
  run.tag = "film";
  options.slots = 2;
  options.placements = outputs;
  options.run_options = &run;
  return call_pipeline_create(rig->session, &options, &rig->pipeline, &rig->error);
}

/* An item that is on the device, and whose output stays there. */
static iobind_status pass_on_device(struct rig *rig) {
  iobind_pipeline_request request = IOBIND_PIPELINE_REQUEST_INIT;
  request.inputs = &rig->x;
  request.input_count = 1;
  request.events = &rig->event;
  request.event_count = 1;
  iobind_status status = iobind_pipeline_submit(rig->pipeline, &request, &rig->error);
  rig->found_tensor = NULL;
  return status == IOBIND_OK ? iobind_pipeline_next(rig->pipeline, IOBIND_NO_TIMEOUT, &rig->found_tensor, 1, NULL, &rig->error)
                             : status;
}

static void make_film(struct rig *rig) {
  rig_session(rig, "scale");
  rig->x = rig_floats(rig, rig->device, rig_ones, RIG_VALUES);
  NEED(rig, iobind_stream_create(rig->device, NULL, &rig->stream, &rig->error));
  NEED(rig, iobind_event_create(rig->device, &rig->event, &rig->error));
  NEED(rig, iobind_event_record(rig->event, rig->stream, &rig->error));
  NEED(rig, create_that_stays(rig));
}

static void make_warm_film(struct rig *rig) {
  make_film(rig);
  for (size_t i = 0; i < 3; i++) {
    NEED(rig, pass_on_device(rig));
  }
}

static void make_under_way(struct rig *rig) {
  make_warm(rig);
  iobind_tensor *const inputs[2] = {rig->x, NULL};
  NEED(rig, call_pipeline_submit(rig->pipeline, inputs, call_counts(rig->session).input_count, &rig->error));
}

static iobind_status next(struct rig *rig) {
  return iobind_pipeline_next(rig->pipeline, IOBIND_NO_TIMEOUT, &rig->found_tensor, 1, NULL, &rig->error);
}

static iobind_status next_for(struct rig *rig) {
  return iobind_pipeline_next(rig->pipeline, UINT64_MAX / 4, &rig->found_tensor, 1, NULL, &rig->error);
}

static iobind_status destroy(struct rig *rig) {
  iobind_pipeline_destroy(rig->pipeline);
  rig->pipeline = NULL;
  return IOBIND_OK;
}

#define MAKES(of, prepares, calls)                                                                                   \
  {                                                                                                                  \
    .function = "iobind_pipeline_create", .variant = (of), .places = ON_ALL, .prepare = (prepares), .call = (calls), \
    .out = OUT(pipeline), .right = works                                                                             \
  }
#define PASSES(of, prepares)                                                                                      \
  {                                                                                                               \
    .function = "iobind_pipeline_submit", .variant = (of), .places = ON_ALL, .prepare = (prepares), .call = pass, \
    .right = is_twos                                                                                              \
  }
#define REQUESTS(of, prepares)                                                                                              \
  {                                                                                                                         \
    .function = "iobind_pipeline_submit", .variant = (of), .places = ON_ALL, .prepare = (prepares), .call = pass_on_device, \
    .right = is_twos                                                                                                        \
  }

const struct scenario pipeline_scenarios[] = {
    MAKES("", make_session, create),
    MAKES("with a constant", make_sum, create_with_constant),
    MAKES("whose outputs stay", make_session, create_that_stays),
    PASSES("at first", make_pipeline),
    PASSES("", make_warm),
    PASSES("of other dims", make_reshaped),
    REQUESTS("of the device, at first", make_film),
    REQUESTS("of the device", make_warm_film),
    {.function = "iobind_pipeline_next",
     .variant = "",
     .places = ON_VDEV,
     .prepare = make_under_way,
     .call = next,
     .right = is_twos,
     .last = true},
    {.function = "iobind_pipeline_next",
     .variant = "with a timeout",
     .places = ON_VDEV,
     .prepare = make_under_way,
     .call = next_for,
     .right = is_twos,
     .last = true},
    {.function = "iobind_pipeline_destroy",
     .variant = "",
     .places = ON_ALL,
     .prepare = make_warm,
     .call = destroy,
     .last = true},
    {.function = "iobind_pipeline_destroy",
     .variant = "in flight",
     .places = ON_VDEV,
     .prepare = make_under_way,
     .call = destroy,
     .last = true},
    {.function = NULL},
};
