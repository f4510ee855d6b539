/* Pipelines: items are submitted, and returned in the same order. */
#include <stdlib.h>

#include "flow/slot.h"
#include "support/options.h"
#include "support/system.h"

/* ---- submit and next ---- */

static iobind_status submit(iobind_pipeline *pipeline, const iobind_pipeline_request *of, const char *what,
                            iobind_error *error) {
  const size_t inputs = pipeline->session->input_count;
  IOBIND__TRY(iobind__array_check(of->inputs, of->input_count, inputs, "inputs", what, error));
  IOBIND__TRY(iobind__array_check_optional(of->events, of->event_count, inputs, "events", what, error));
  if (pipeline->submitted - pipeline->pulled == pipeline->slot_count) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_STATE, "%s: all %zu slots hold items: pull one by iobind_pipeline_next",
                        what, pipeline->slot_count);
  }
  uint64_t failed = atomic_load(&pipeline->failed);
  if ((pipeline->flags & IOBIND_PIPELINE_STOP) != 0 && failed != UINT64_MAX) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_STATE, "%s: item %llu failed, and the pipeline stops at a failure", what,
                        (unsigned long long)failed);
  }
  iobind__slot *self = &pipeline->slots[pipeline->submitted % pipeline->slot_count];
  IOBIND__TRY(iobind__named(iobind__slot_bring(self, of, what, error), error, what));
  iobind__slot_leave_kept(self);
  self->tag = of->tag;
  self->index = pipeline->submitted++;
  self->submitted = iobind__clock_ns();
  iobind__stages_start(self);
  return IOBIND_OK;
}

iobind_status iobind_pipeline_submit(iobind_pipeline *pipeline, const iobind_pipeline_request *request, iobind_error *error) {
  static const char what[] = "pipeline_submit";
  iobind_pipeline_request given;
  IOBIND__TRY(iobind__null_check(pipeline, "pipeline", what, error));
  IOBIND__TRY(iobind__null_check(request, "request", what, error));
  IOBIND__TRY(iobind__process_check(what, error));
  IOBIND__TRY(IOBIND__OPTIONS_READ(&given, request, what, error));
  return submit(pipeline, &given, what, error);
}

/* Wait for the oldest item, and remove it. NULL: the wait failed, and the item is still in flight. */
static iobind__slot *pull(iobind_pipeline *pipeline, uint64_t until, iobind_error *error) {
  iobind__slot *self = &pipeline->slots[pipeline->pulled % pipeline->slot_count];
  if (!iobind__stages_await(self, until, error)) {
    return NULL;
  }
  iobind__slot_let_go(self);
  pipeline->pulled++;
  return self;
}

static iobind_status next(iobind_pipeline *pipeline, uint64_t until, iobind_tensor **outputs, size_t output_count,
                          iobind_pipeline_item *item, iobind_error *error) {
  static const char what[] = "pipeline_next";
  IOBIND__TRY(iobind__process_check(what, error));
  IOBIND__TRY(iobind__array_check(outputs, output_count, pipeline->session->output_count, "outputs", what, error));
  iobind_pipeline_item full = IOBIND_PIPELINE_ITEM_INIT;
  if (item != NULL) {
    IOBIND__TRY(IOBIND__INFO_WRITE(item, &full, what, error));
  }
  if (pipeline->pulled == pipeline->submitted) {
    return iobind__fail(error, IOBIND_ERROR_NOT_FOUND, "%s: no item is in flight", what);
  }
  iobind_error reason = IOBIND_ERROR_INIT;
  iobind__slot *self = pull(pipeline, until, &reason);
  if (self == NULL) {
    return iobind__named(iobind__error_copy(error, &reason), error, what);
  }
  if (item != NULL) {
    bool times = (pipeline->flags & IOBIND_PIPELINE_TIMES) != 0;
    full.index = self->index;
    full.submit_ns = self->submitted;
    full.upload_ns = times ? self->ends[IOBIND__UPLOAD] : 0;
    full.run_ns = times ? self->ends[IOBIND__RUN] : 0;
    full.download_ns = times ? self->ends[IOBIND__DOWNLOAD] : 0;
    full.tag = self->tag;
    IOBIND__TRY(IOBIND__INFO_WRITE(item, &full, what, error));
  }
  if (self->status != IOBIND_OK) {
    return iobind__error_copy(error, &self->error);
  }
  for (size_t i = 0; outputs != NULL && i < output_count; i++) {
    outputs[i] = self->outputs[i];
  }
  return IOBIND_OK;
}

iobind_status iobind_pipeline_next(iobind_pipeline *pipeline, uint64_t timeout_ns, iobind_tensor **outputs, size_t output_count,
                                   iobind_pipeline_item *item, iobind_error *error) {
  for (size_t i = 0; outputs != NULL && i < output_count; i++) {
    outputs[i] = NULL;
  }
  IOBIND__TRY(iobind__null_check(pipeline, "pipeline", "pipeline_next", error));
  uint64_t until = timeout_ns == IOBIND_NO_TIMEOUT ? IOBIND_NO_TIMEOUT : iobind__deadline(timeout_ns);
  return next(pipeline, until, outputs, output_count, item, error);
}

/* ---- creation and destruction ---- */

/* No item is in flight. */
static void free_pipeline(iobind_pipeline *pipeline) {
  for (size_t i = 0; pipeline->slots != NULL && i < pipeline->slot_count; i++) {
    if (pipeline->slots[i].pipeline != NULL) {
      iobind__slot_free(&pipeline->slots[i]);
    }
  }
  for (int stage = 0; stage < IOBIND__STAGES; stage++) {
    iobind_stream_destroy(pipeline->streams[stage]);
  }
  pthread_cond_destroy(&pipeline->stamped);
  pthread_mutex_destroy(&pipeline->mutex);
  free(pipeline->slots);
  free(pipeline->streamed);
  free(pipeline->placements);
  iobind__ref_release(&pipeline->session->ref);
  free(pipeline);
}

void iobind_pipeline_destroy(iobind_pipeline *pipeline) {
  if (pipeline == NULL || iobind__process_is_forked()) {
    return;
  }
  while (pipeline->pulled < pipeline->submitted) {
    (void)pull(pipeline, UINT64_MAX, NULL);
  }
  free_pipeline(pipeline);
}

/* The device of the streams: that of an input, or else of an output; the CPU if everything is on the host. */
static iobind_device *link_device(const iobind_session *session) {
  for (size_t i = 0; i < session->input_count; i++) {
    if (!session->inputs[i].place->host) {
      return session->inputs[i].place->device;
    }
  }
  for (size_t i = 0; i < session->output_count; i++) {
    if (!session->outputs[i].place->host) {
      return session->outputs[i].place->device;
    }
  }
  return session->runtime->cpu;
}

static iobind_status check_streamed(const iobind_pipeline *pipeline, iobind_error *error) {
  for (size_t i = 0; i < pipeline->session->input_count; i++) {
    const iobind__value *value = &pipeline->session->inputs[i];
    if (pipeline->streamed[i] && (value->kind != IOBIND_VALUE_TENSOR || value->dtype == IOBIND_DTYPE_STRING)) {
      return iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED, "pipeline_create: '%s' %s", value->label,
                          value->kind != IOBIND_VALUE_TENSOR ? "is not a tensor" : "holds strings: bind it as a constant");
    }
  }
  return IOBIND_OK;
}

/* The placements of the outputs. If the model has outputs that are tensors, at least one must be fetched. */
static iobind_status choose_placements(iobind_pipeline *pipeline, const int32_t *placements, iobind_error *error) {
  const iobind_session *session = pipeline->session;
  bool any = session->tensor_output_count == 0;
  pipeline->placements = calloc(session->output_count + 1, sizeof *pipeline->placements);
  if (pipeline->placements == NULL) {
    return iobind__out_of_memory(error, "pipeline_create");
  }
  IOBIND__TRY(iobind__placements_check(session, placements, "pipeline_create", error));
  for (size_t i = 0; i < session->output_count; i++) {
    pipeline->placements[i] = iobind__placement_of(session, placements, i);
    any = any || iobind__pipeline_wants(pipeline, i);
  }
  return any ? IOBIND_OK
             : iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT,
                            "pipeline_create: placements: no output is fetched: a run needs at least one");
}

static iobind_status fill(iobind_pipeline *pipeline, const iobind_pipeline_options *options, iobind_error *error) {
  const iobind_session *session = pipeline->session;
  iobind_device *device = link_device(session);
  pipeline->slots = calloc(pipeline->slot_count, sizeof *pipeline->slots);
  pipeline->streamed = calloc(session->input_count + 1, sizeof *pipeline->streamed);
  if (pipeline->slots == NULL || pipeline->streamed == NULL) {
    return iobind__out_of_memory(error, "pipeline_create");
  }
  IOBIND__TRY(iobind__array_check_optional(options->constants, options->constant_count, session->input_count, "constants",
                                           "pipeline_create", error));
  IOBIND__TRY(iobind__array_check_optional(options->placements, options->placement_count, session->output_count, "placements",
                                           "pipeline_create", error));
  for (size_t i = 0; i < session->input_count; i++) {
    pipeline->streamed[i] = options->constants == NULL || options->constants[i] == NULL;
  }
  IOBIND__TRY(check_streamed(pipeline, error));
  IOBIND__TRY(choose_placements(pipeline, options->placements, error));
  iobind_run_options run_options;
  IOBIND__TRY(iobind__run_options_read(session, options->run_options, "pipeline_create", &run_options, error));
  for (int stage = 0; stage < IOBIND__STAGES; stage++) {
    IOBIND__TRY(iobind_stream_create(device, NULL, &pipeline->streams[stage], error));
  }
  for (size_t i = 0; i < pipeline->slot_count; i++) {
    IOBIND__TRY(iobind__slot_make(pipeline, &pipeline->slots[i], options, &run_options, device, error));
  }
  return IOBIND_OK;
}

iobind_status iobind_pipeline_create(iobind_session *session, const iobind_pipeline_options *given, iobind_pipeline **out,
                                     iobind_error *error) {
  if (out != NULL) {
    *out = NULL;
  }
  IOBIND__TRY(iobind__null_check(session, "session", "pipeline_create", error));
  IOBIND__TRY(iobind__null_check(out, "pipeline", "pipeline_create", error));
  IOBIND__TRY(iobind__process_check("pipeline_create", error));
  enum { DEFAULT_SLOTS = 3, MOST_SLOTS = 1024 };
  iobind_pipeline_options options;
  IOBIND__TRY(IOBIND__OPTIONS_READ(&options, given, "pipeline_create", error));
  IOBIND__TRY(iobind__flags_check(options.flags, IOBIND_PIPELINE_STOP | IOBIND_PIPELINE_TIMES, "pipeline_create", error));
  if (options.slots > MOST_SLOTS) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "pipeline_create: slots: expected 0 .. %d, got %zu", MOST_SLOTS,
                        options.slots);
  }
  iobind_pipeline *pipeline = calloc(1, sizeof *pipeline);
  if (pipeline == NULL) {
    return iobind__out_of_memory(error, "pipeline_create");
  }
  pipeline->session = session;
  iobind__ref_retain(&session->ref);
  pipeline->flags = options.flags;
  pipeline->slot_count = options.slots == 0 ? DEFAULT_SLOTS : options.slots;
  atomic_init(&pipeline->failed, UINT64_MAX);
  pthread_mutex_init(&pipeline->mutex, NULL);
  iobind__condition_init(&pipeline->stamped);
  iobind_status status = fill(pipeline, &options, error);
  if (status != IOBIND_OK) {
    free_pipeline(pipeline);
    return iobind__renamed(status, error, "pipeline_create");
  }
  *out = pipeline;
  return IOBIND_OK;
}
