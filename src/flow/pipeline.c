/* Pipelines: each stage of an item has its own stream, and waits for the stage before it by an event. Each slot has the memory
 * of one item, so that items never share memory. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "binding/binding.h"
#include "support/options.h"
#include "support/system.h"

enum { UPLOAD, RUN, DOWNLOAD, STAGES };

typedef struct slot {
  iobind_pipeline *pipeline;
  iobind_binding *binding;
  iobind_tensor **inputs;  /* the slot's memory; NULL: a constant, or not allocated */
  iobind_tensor **staging; /* host memory that is uploaded into it; NULL: the input is on the host itself */
  iobind_tensor **outputs; /* what the caller gets; NULL: not made yet, or not wanted */
  iobind_event *events[STAGES];
  bool reached[STAGES]; /* the event is recorded for this item */
  bool is_fresh;        /* each run makes memory for its outputs */
  uint64_t index;
  uint64_t submitted;
  uint64_t ends[STAGES];
  iobind_tensor **given;  /* the caller's tensors that the item reads where they are; references are held; NULL: the slot's */
  iobind__point **points; /* of their producers, for which the run waits; references are held */
  void *tag;
  /* the item's; written by one stage after the other */
  iobind_status status;
  iobind_error error;
} slot;

struct iobind_pipeline {
  iobind_session *session; /* a reference is held */
  iobind_stream *streams[STAGES];
  bool *streamed;      /* inputs that each item brings */
  int32_t *placements; /* of the outputs: iobind_placement, NONE for what is not a tensor */
  slot *slots;
  size_t slot_count;
  uint32_t flags;
  uint64_t submitted;
  uint64_t pulled;
  atomic_uint_least64_t failed; /* the first item that failed; UINT64_MAX: none */
  pthread_mutex_t mutex;        /* guards `stamps` */
  pthread_cond_t stamped;
  size_t stamps; /* threads that will still write an item's time */
};

static const iobind__value *input_of(const iobind_pipeline *pipeline, size_t index) {
  return &pipeline->session->inputs[index];
}

/* Where host memory is best for copies to and from a device. */
static iobind__place *staging_place(const iobind__place *place) {
  iobind__place *pinned = &place->device->places[IOBIND_MEMORY_HOST_ACCESSIBLE];
  return pinned->info != NULL && pinned->host ? pinned : &place->device->runtime->cpu->places[IOBIND_MEMORY_DEFAULT];
}

/* ---- memory of an item ---- */

static iobind_status make_input(slot *self, size_t index, const iobind_tensor *like, iobind_error *error) {
  iobind_tensor *input = NULL;
  iobind_tensor *staging = NULL;
  IOBIND__TRY(iobind__input_make(self->pipeline->session, index, like, &input, error));
  iobind_status status = IOBIND_OK;
  if (!input->place->host) {
    status = iobind__tensor_create_at(staging_place(input->place), like->dtype, like->dims, like->rank, &staging, error);
  }
  if (status == IOBIND_OK) {
    status = iobind_binding_set_input(self->binding, index, IOBIND_INPUT_RESIDENT, input, NULL, error);
  }
  if (status != IOBIND_OK) {
    iobind_tensor_release(staging);
    iobind_tensor_release(input);
    return status;
  }
  iobind_tensor_release(self->inputs[index]);
  iobind_tensor_release(self->staging[index]);
  self->inputs[index] = input;
  self->staging[index] = staging;
  return IOBIND_OK;
}

static iobind_event *event_of(const iobind_pipeline_request *of, size_t index) {
  return of->events == NULL ? NULL : of->events[index];
}

/* Is the tensor read where it is? What is on the host is copied on every device, so that the caller's memory is free at once. */
static bool is_given(const iobind_pipeline_request *of, size_t index) {
  return !of->inputs[index]->place->host;
}

static iobind_status check_input(const iobind_pipeline *pipeline, size_t index, const iobind_pipeline_request *of,
                                 bool may_be_given, const char *what, iobind_error *error) {
  const iobind_session *session = pipeline->session;
  const iobind__value *value = &session->inputs[index];
  const iobind_tensor *tensor = of->inputs[index];
  if (tensor == NULL) {
    return iobind__fail(error, IOBIND_INVALID_ARGUMENT, "%s: '%s': the tensor is NULL, and the input is not a constant", what,
                        value->label);
  }
  IOBIND__TRY(iobind__value_accepts(value, tensor, what, error));
  bool is_ours = tensor->place->device->runtime == session->runtime;
  if (is_ours && (tensor->place->host || (may_be_given && iobind__session_reads(session, value, tensor)))) {
    return IOBIND_OK;
  }
  return may_be_given
             ? iobind__refuse_elsewhere(session, index, tensor, what, error)
             : iobind__fail(error, IOBIND_DEVICE, "%s: '%s': expected a host tensor of the session's runtime, got one on '%s'",
                            what, value->label, tensor->place->device->spec);
}

/* The caller's tensors are the caller's again. */
static void let_go(slot *self) {
  for (size_t i = 0; i < self->pipeline->session->input_count; i++) {
    if (self->given[i] != NULL) {
      iobind__input_let_go(self->binding, i);
      iobind_tensor_release(self->given[i]);
      iobind__point_release(self->points[i]);
      self->given[i] = NULL;
      self->points[i] = NULL;
    }
  }
}

static iobind_status give(slot *self, size_t index, iobind_tensor *tensor, iobind_event *event, iobind_error *error) {
  IOBIND__TRY(iobind_binding_set_input(self->binding, index, IOBIND_INPUT_RESIDENT, tensor, NULL, error));
  self->given[index] = iobind_tensor_retain(tensor);
  self->points[index] = event == NULL ? NULL : iobind__event_point(event);
  return IOBIND_OK;
}

/* Bind what the item reads: the caller's tensor, or the slot's memory. */
static iobind_status bind(slot *self, size_t index, const iobind_pipeline_request *of, iobind_error *error) {
  iobind_tensor *tensor = of->inputs[index];
  if (is_given(of, index)) {
    return give(self, index, tensor, event_of(of, index), error);
  }
  iobind_tensor *own = self->inputs[index];
  if (own == NULL || !iobind__tensor_same_dims(own, tensor)) {
    return make_input(self, index, tensor, error);
  }
  bool is_bound = iobind__binding_view_input(self->binding, index).tensor == own;
  return is_bound ? IOBIND_OK : iobind_binding_set_input(self->binding, index, IOBIND_INPUT_RESIDENT, own, NULL, error);
}

static void copy_in(const slot *self, size_t count, const iobind_pipeline_request *of) {
  for (size_t i = 0; i < count; i++) {
    const iobind_tensor *target = self->staging[i] != NULL ? self->staging[i] : self->inputs[i];
    if (self->pipeline->streamed[i] && !is_given(of, i) && target->bytes > 0) {
      memcpy(target->data, of->inputs[i]->data, target->bytes);
    }
  }
}

/* Memory for the item and its data in it. `may_be_given`: a tensor may be where the session reads it, and is not copied. */
static iobind_status bring(slot *self, const iobind_pipeline_request *of, bool may_be_given, const char *what,
                           iobind_error *error) {
  const iobind_pipeline *pipeline = self->pipeline;
  size_t count = of->inputs == NULL ? 0 : pipeline->session->input_count; /* NULL only if the model has no inputs */
  for (size_t i = 0; i < count; i++) {
    if (pipeline->streamed[i]) {
      IOBIND__TRY(check_input(pipeline, i, of, may_be_given, what, error));
    }
  }
  for (size_t i = 0; i < count; i++) {
    if (pipeline->streamed[i] && !is_given(of, i) && event_of(of, i) != NULL) {
      IOBIND__TRY(iobind__stream_order_event(NULL, event_of(of, i), error));
    }
  }
  iobind_status status = IOBIND_OK;
  for (size_t i = 0; i < count && status == IOBIND_OK; i++) {
    status = pipeline->streamed[i] ? bind(self, i, of, error) : IOBIND_OK;
  }
  status = status == IOBIND_OK ? iobind__binding_check_once(self->binding, what, error) : status;
  if (status != IOBIND_OK) {
    let_go(self);
    return status;
  }
  copy_in(self, count, of);
  return IOBIND_OK;
}

/* Tensors that the caller has kept of the slot's last item must not change: allocate others. The binding holds a reference to
 * an output on the host, too. */
static void leave_kept(slot *self) {
  for (size_t i = 0; i < self->pipeline->session->output_count; i++) {
    iobind_tensor *output = self->outputs[i];
    bool direct = iobind__binding_holds(self->binding, i, output);
    size_t ours = direct ? 2 : 1;
    if (output == NULL || atomic_load_explicit(&output->ref.count, memory_order_acquire) == ours) {
      continue;
    }
    if (direct) {
      iobind__output_renew(self->binding, i);
    }
    iobind_tensor_release(output);
    self->outputs[i] = NULL;
  }
}

/* The tensor that the caller gets for an output of this item, and the one that is copied into it; NULL: it is the run's own. */
static iobind_status find_output(slot *self, size_t index, const iobind_tensor **source, iobind_error *error) {
  iobind_tensor *output;
  iobind_tensor **handed = &self->outputs[index];
  *source = NULL;
  IOBIND__TRY(iobind__binding_peek(self->binding, index, &output, error));
  if (output->place->host || self->pipeline->placements[index] == IOBIND_PLACE_DEVICE) {
    iobind_tensor_release(*handed);
    *handed = iobind_tensor_retain(output);
    return IOBIND_OK;
  }
  if (*handed == NULL || !iobind__tensor_same_dims(*handed, output)) {
    iobind_tensor_release(*handed);
    *handed = NULL;
    IOBIND__TRY(
        iobind__tensor_create_at(staging_place(output->place), output->dtype, output->dims, output->rank, handed, error));
  }
  *source = output;
  return IOBIND_OK;
}

/* ---- stages ---- */

static bool is_uploaded(const slot *self, size_t input) {
  return self->staging[input] != NULL && self->given[input] == NULL;
}

static bool is_wanted(const iobind_pipeline *pipeline, size_t output) {
  return pipeline->placements[output] != IOBIND_PLACE_NONE;
}

static iobind_status upload(const slot *self, iobind_stream *stream, iobind_error *error) {
  for (size_t i = 0; i < self->pipeline->session->input_count; i++) {
    if (is_uploaded(self, i)) {
      IOBIND__TRY(iobind__tensor_copy_one(self->staging[i], self->inputs[i], stream, error));
    }
  }
  return IOBIND_OK;
}

static iobind_status download(slot *self, iobind_stream *stream, iobind_error *error) {
  for (size_t i = 0; i < self->pipeline->session->output_count; i++) {
    if (is_wanted(self->pipeline, i)) {
      const iobind_tensor *source;
      IOBIND__TRY(find_output(self, i, &source, error));
      if (source != NULL) {
        IOBIND__TRY(iobind__tensor_copy_one(source, self->outputs[i], stream, error));
      }
    }
  }
  return IOBIND_OK;
}

/* The size of an output may depend on the content of the inputs. Then memory of the slot's last item does not fit, and from now
 * on each run of the slot allocates its own. */
static iobind_status run_anew(slot *self, iobind_stream *stream, iobind_error *error) {
  const iobind_session *session = self->pipeline->session;
  self->is_fresh = true;
  for (size_t i = 0; i < session->output_count; i++) {
    if (is_wanted(self->pipeline, i)) {
      IOBIND__TRY(iobind_binding_set_output(self->binding, i, IOBIND_OUTPUT_FRESH, NULL, IOBIND_MEMORY_DEFAULT, NULL, error));
    }
  }
  return iobind_binding_run(self->binding, stream, NULL, error);
}

static iobind_status run_item(slot *self, iobind_stream *stream, iobind_error *error) {
  for (size_t i = 0; i < self->pipeline->session->input_count; i++) {
    IOBIND__TRY(iobind__stream_order(stream, self->points[i], error));
  }
  iobind_status status = iobind_binding_run(self->binding, stream, NULL, error);
  return status == IOBIND_SHAPE && !self->is_fresh ? run_anew(self, stream, error) : status;
}

/* One stage of an item: submitted to the stream, or done on return if that is NULL. */
static iobind_status do_stage(slot *self, int stage, iobind_stream *stream, iobind_error *error) {
  switch (stage) {
    case UPLOAD: return upload(self, stream, error);
    case RUN: return run_item(self, stream, error);
    default: return download(self, stream, error);
  }
}

static bool has_stage(const slot *self, int stage) {
  const iobind_session *session = self->pipeline->session;
  bool any = stage == RUN;
  for (size_t i = 0; stage == UPLOAD && i < session->input_count; i++) {
    any = any || is_uploaded(self, i);
  }
  for (size_t i = 0; stage == DOWNLOAD && i < session->output_count; i++) {
    any = any || is_wanted(self->pipeline, i);
  }
  return any;
}

/* The item has failed: skip its later stages, and with STOP those of later items. */
static void fail_item(slot *self, iobind_status status, const iobind_error *error) {
  if (self->status != IOBIND_OK) {
    return;
  }
  self->error = (iobind_error)IOBIND_ERROR_INIT;
  self->status =
      iobind__fail(&self->error, status, "pipeline_next: item %llu: %s", (unsigned long long)self->index, error->message);
  self->error.ort_code = error->ort_code;
  uint_least64_t first = atomic_load(&self->pipeline->failed);
  while (first > self->index && !atomic_compare_exchange_weak(&self->pipeline->failed, &first, self->index)) {
  }
}

/* May the item continue? Sets CANCELLED if an earlier item has ended the pipeline. */
static bool goes_on(slot *self) {
  iobind_pipeline *pipeline = self->pipeline;
  uint64_t failed = atomic_load(&pipeline->failed);
  if ((pipeline->flags & IOBIND_PIPELINE_STOP) != 0 && failed < self->index && self->status == IOBIND_OK) {
    self->error = (iobind_error)IOBIND_ERROR_INIT;
    self->status = iobind__fail(&self->error, IOBIND_CANCELLED, "pipeline_next: item %llu: not done, because item %llu failed",
                                (unsigned long long)self->index, (unsigned long long)failed);
  }
  return self->status == IOBIND_OK;
}

/* A stage that a worker does, or whose end it waits for. */
typedef struct stage_task {
  iobind__task task;
  slot *slot;
  int stage;
  iobind__point *point; /* a reference is held */
} stage_task;

static void free_stage(iobind__task *task) {
  stage_task *self = (stage_task *)task;
  iobind__point_release(self->point);
  free(self);
}

/* A failure belongs to the item, not to the stream, because other items go on. So the task waits for the stage before, not the
 * stream. Both stages are of one device, so the order of submission is enough. */
static iobind_status work(iobind__task *task, const iobind_error *failure, iobind_error *error) {
  const stage_task *self = (const stage_task *)task;
  const iobind__point *before = self->point;
  (void)failure;
  iobind_status status = before == NULL ? IOBIND_OK : iobind__stream_wait_ticket(before->stream, before->ticket, error);
  if (status == IOBIND_OK && goes_on(self->slot)) {
    status = do_stage(self->slot, self->stage, NULL, error);
  }
  if (status != IOBIND_OK) {
    fail_item(self->slot, status, error);
  }
  self->slot->ends[self->stage] = iobind__clock_ns();
  return IOBIND_OK;
}

static iobind_status stamp(iobind__task *task, const iobind_error *failure, iobind_error *error) {
  const stage_task *self = (const stage_task *)task;
  iobind_pipeline *pipeline = self->slot->pipeline;
  (void)failure;
  (void)iobind__point_wait(self->point, error); /* the caller waits too, and gets the failure */
  pthread_mutex_lock(&pipeline->mutex);
  self->slot->ends[self->stage] = iobind__clock_ns();
  pipeline->stamps--;
  pthread_cond_broadcast(&pipeline->stamped);
  pthread_mutex_unlock(&pipeline->mutex);
  return IOBIND_OK;
}

static iobind_status submit_task(slot *self, int stage,
                                 iobind_status (*run)(iobind__task *, const iobind_error *, iobind_error *),
                                 iobind__point *point, iobind_error *error) {
  stage_task *task = calloc(1, sizeof *task);
  if (task == NULL) {
    return iobind__out_of_memory(error, "pipeline_submit");
  }
  task->task.run = run;
  task->task.destroy = free_stage;
  task->slot = self;
  task->stage = stage;
  task->point = point;
  if (point != NULL) {
    iobind__ref_retain(&point->ref);
  }
  iobind_status status = iobind__stream_submit(self->pipeline->streams[stage], &task->task, NULL, error);
  if (status != IOBIND_OK) {
    free_stage(&task->task);
  }
  return status;
}

/* Let the stream's thread record the time when the stage has ended. */
static iobind_status watch(slot *self, int stage, iobind_error *error) {
  iobind_pipeline *pipeline = self->pipeline;
  iobind__point *point = iobind__event_point(self->events[stage]);
  pthread_mutex_lock(&pipeline->mutex);
  pipeline->stamps++;
  pthread_mutex_unlock(&pipeline->mutex);
  iobind_status status = submit_task(self, stage, stamp, point, error);
  if (status != IOBIND_OK) {
    pthread_mutex_lock(&pipeline->mutex);
    pipeline->stamps--;
    pthread_mutex_unlock(&pipeline->mutex);
  }
  iobind__point_release(point);
  return status;
}

/* Start a stage after the stage of `before`, which may be NULL. */
static iobind_status start(slot *self, int stage, iobind_event *before, iobind_error *error) {
  iobind_stream *stream = self->pipeline->streams[stage];
  if (iobind__stream_orders_calls(stream)) {
    IOBIND__TRY(before == NULL ? IOBIND_OK : iobind_stream_wait(stream, before, error));
    return do_stage(self, stage, stream, error);
  }
  iobind__point *point = before == NULL ? NULL : iobind__event_point(before);
  iobind_status status = submit_task(self, stage, work, point, error);
  iobind__point_release(point);
  return status;
}

static iobind_status enqueue(slot *self, int stage, iobind_event *before, iobind_error *error) {
  const iobind_pipeline *pipeline = self->pipeline;
  iobind_stream *stream = pipeline->streams[stage];
  iobind_status status = start(self, stage, before, error);
  /* recorded even if the stage failed: part of it may be under way */
  self->reached[stage] = iobind_event_record(self->events[stage], stream, status == IOBIND_OK ? error : NULL) == IOBIND_OK;
  IOBIND__TRY(status);
  if (!self->reached[stage]) {
    (void)iobind__stream_drain(stream, NULL); /* without the event nobody could tell when it is over */
    return (iobind_status)(error->status);
  }
  return (pipeline->flags & IOBIND_PIPELINE_TIMES) != 0 && iobind__stream_orders_calls(stream) ? watch(self, stage, error)
                                                                                               : IOBIND_OK;
}

/* ---- in and out ---- */

static iobind_status submit(iobind_pipeline *pipeline, const iobind_pipeline_request *of, bool may_be_given, const char *what,
                            iobind_error *error) {
  if (pipeline == NULL || (of->inputs == NULL && pipeline->session->input_count > 0)) {
    return iobind__fail(error, IOBIND_INVALID_ARGUMENT, "%s: %s is NULL", what, pipeline == NULL ? "pipeline" : "inputs");
  }
  IOBIND__TRY(iobind__process_check(what, error));
  if (pipeline->submitted - pipeline->pulled == pipeline->slot_count) {
    return iobind__fail(error, IOBIND_INVALID_STATE, "%s: all %zu slots hold items: pull one by iobind_pipeline_next", what,
                        pipeline->slot_count);
  }
  uint64_t failed = atomic_load(&pipeline->failed);
  if ((pipeline->flags & IOBIND_PIPELINE_STOP) != 0 && failed != UINT64_MAX) {
    return iobind__fail(error, IOBIND_INVALID_STATE, "%s: item %llu failed, and the pipeline stops at a failure", what,
                        (unsigned long long)failed);
  }
  slot *self = &pipeline->slots[pipeline->submitted % pipeline->slot_count];
  IOBIND__TRY(iobind__named(bring(self, of, may_be_given, what, error), error, what));
  leave_kept(self);
  self->tag = of->tag;
  self->index = pipeline->submitted++;
  self->submitted = iobind__clock_ns();
  self->status = IOBIND_OK;
  memset(self->reached, 0, sizeof self->reached);
  memset(self->ends, 0, sizeof self->ends);
  iobind_event *before = NULL;
  iobind_error reason = IOBIND_ERROR_INIT;
  for (int stage = 0; stage < STAGES; stage++) {
    if (!has_stage(self, stage)) {
      continue;
    }
    iobind_status status = enqueue(self, stage, before, &reason);
    if (status != IOBIND_OK) {
      fail_item(self, status, &reason);
      break;
    }
    before = self->events[stage];
  }
  return IOBIND_OK;
}

iobind_status iobind_pipeline_submit(iobind_pipeline *pipeline, iobind_tensor *const *inputs, iobind_error *error) {
  const iobind_pipeline_request request = {.inputs = inputs};
  return submit(pipeline, &request, false, "pipeline_submit", error);
}

iobind_status iobind_pipeline_submit_request(iobind_pipeline *pipeline, const iobind_pipeline_request *request,
                                             iobind_error *error) {
  static const char what[] = "pipeline_submit_request";
  iobind_pipeline_request given;
  if (request == NULL) {
    return iobind__fail(error, IOBIND_INVALID_ARGUMENT, "%s: request is NULL", what);
  }
  IOBIND__TRY(iobind__options_read(&given, sizeof given, sizeof given, request, what, error));
  return submit(pipeline, &given, true, what, error);
}

/* Is the time of each of the item's stages recorded? With the mutex held. */
static bool is_stamped(const slot *self) {
  bool all = true;
  for (int stage = 0; stage < STAGES; stage++) {
    all = all && (!self->reached[stage] || self->ends[stage] != 0);
  }
  return all;
}

/* Each stream's thread records its own times, and may be late: a stage cannot end later than the stage after it. */
static void order_ends(slot *self) {
  for (int stage = STAGES - 1; stage > 0; stage--) {
    if (self->ends[stage] != 0 && self->ends[stage - 1] > self->ends[stage]) {
      self->ends[stage - 1] = self->ends[stage];
    }
  }
}

static bool await_stamps(slot *self, uint64_t until) {
  iobind_pipeline *pipeline = self->pipeline;
  bool in_time = true;
  pthread_mutex_lock(&pipeline->mutex);
  while (in_time && pipeline->stamps > 0 && !is_stamped(self)) {
    in_time = iobind__condition_wait(&pipeline->stamped, &pipeline->mutex, until);
  }
  pthread_mutex_unlock(&pipeline->mutex);
  return in_time;
}

/* Wait for a stage. False: it has not ended in time, or cannot be waited for so. Its failure is the first one that is kept. */
static bool await_stage(slot *self, int stage, uint64_t until, iobind_status *first, iobind_error *failure) {
  iobind_error reason = IOBIND_ERROR_INIT;
  iobind__point *point = iobind__event_point(self->events[stage]);
  iobind_status status = iobind__point_wait_until(point, until, &reason);
  bool ended = status == IOBIND_OK || iobind__point_passed(point) || until == UINT64_MAX;
  iobind__point_release(point);
  if (*first == IOBIND_OK || !ended) {
    *first = status;
    *failure = reason;
  }
  return ended;
}

/* Wait for all stages of the oldest item, and remove it; NULL: it is still there. */
static slot *pull(iobind_pipeline *pipeline, uint64_t until, iobind_error *error) {
  slot *self = &pipeline->slots[pipeline->pulled % pipeline->slot_count];
  iobind_error reason = IOBIND_ERROR_INIT;
  iobind_status first = IOBIND_OK;
  for (int stage = 0; stage < STAGES; stage++) {
    if (self->reached[stage] && !await_stage(self, stage, until, &first, &reason)) {
      (void)iobind__error_copy(error, &reason);
      return NULL;
    }
  }
  if (!await_stamps(self, until)) {
    (void)iobind__fail(error, IOBIND_TIMEOUT, "the time given was not enough: what was waited for goes on");
    return NULL;
  }
  order_ends(self);
  let_go(self);
  pipeline->pulled++;
  if (goes_on(self) && first != IOBIND_OK) { /* after STOP, later items did not fail by themselves */
    fail_item(self, first, &reason);
  }
  return self;
}

static iobind_status next(iobind_pipeline *pipeline, uint64_t until, const char *what, iobind_tensor **outputs,
                          iobind_pipeline_item *item, iobind_error *error) {
  if (pipeline == NULL || outputs == NULL) {
    return iobind__fail(error, IOBIND_INVALID_ARGUMENT, "%s: %s is NULL", what, pipeline == NULL ? "pipeline" : "outputs");
  }
  memset(outputs, 0, pipeline->session->output_count * sizeof(iobind_tensor *));
  IOBIND__TRY(iobind__process_check(what, error));
  iobind_pipeline_item full = IOBIND_PIPELINE_ITEM_INIT;
  const size_t oldest = offsetof(iobind_pipeline_item, tag);
  if (item != NULL) {
    IOBIND__TRY(iobind__info_write(item, "item", &full, sizeof full, oldest, what, error));
  }
  if (pipeline->pulled == pipeline->submitted) {
    return iobind__fail(error, IOBIND_NOT_FOUND, "%s: no item is under way", what);
  }
  iobind_error reason = IOBIND_ERROR_INIT;
  slot *self = pull(pipeline, until, &reason);
  if (self == NULL) {
    return iobind__named(iobind__error_copy(error, &reason), error, what);
  }
  if (item != NULL) {
    bool times = (pipeline->flags & IOBIND_PIPELINE_TIMES) != 0;
    full.index = self->index;
    full.submit_ns = self->submitted;
    full.upload_ns = times ? self->ends[UPLOAD] : 0;
    full.run_ns = times ? self->ends[RUN] : 0;
    full.download_ns = times ? self->ends[DOWNLOAD] : 0;
    full.tag = self->tag;
    IOBIND__TRY(iobind__info_write(item, "item", &full, sizeof full, oldest, what, error));
  }
  if (self->status != IOBIND_OK) {
    return iobind__error_copy(error, &self->error);
  }
  memcpy(outputs, self->outputs, pipeline->session->output_count * sizeof(iobind_tensor *));
  return IOBIND_OK;
}

iobind_status iobind_pipeline_next(iobind_pipeline *pipeline, iobind_tensor **outputs, iobind_pipeline_item *item,
                                   iobind_error *error) {
  return next(pipeline, UINT64_MAX, "pipeline_next", outputs, item, error);
}

iobind_status iobind_pipeline_next_for(iobind_pipeline *pipeline, uint64_t timeout_ns, iobind_tensor **outputs,
                                       iobind_pipeline_item *item, iobind_error *error) {
  return next(pipeline, iobind__deadline(timeout_ns), "pipeline_next_for", outputs, item, error);
}

/* ---- made and destroyed ---- */

static void free_slot(slot *self) {
  const iobind_session *session = self->pipeline->session;
  iobind_binding_destroy(self->binding);
  for (size_t i = 0; self->inputs != NULL && i < 3 * session->input_count; i++) {
    iobind_tensor_release(self->inputs[i]); /* and the staging and given ones */
  }
  for (size_t i = 0; self->outputs != NULL && i < session->output_count; i++) {
    iobind_tensor_release(self->outputs[i]);
  }
  for (int stage = 0; stage < STAGES; stage++) {
    iobind_event_destroy(self->events[stage]);
  }
  free(self->inputs);
  free(self->points);
  free(self->outputs);
}

/* No item is under way. */
static void free_pipeline(iobind_pipeline *pipeline) {
  for (size_t i = 0; pipeline->slots != NULL && i < pipeline->slot_count; i++) {
    if (pipeline->slots[i].pipeline != NULL) {
      free_slot(&pipeline->slots[i]);
    }
  }
  for (int stage = 0; stage < STAGES; stage++) {
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

/* The device whose link the items cross: that of an input, or else of an output; the CPU if everything is on the host. */
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

static iobind_status make_slot(iobind_pipeline *pipeline, slot *self, const iobind_pipeline_options *options,
                               const iobind_run_options *run_options, iobind_device *device, iobind_error *error) {
  iobind_session *session = pipeline->session;
  self->pipeline = pipeline;
  self->inputs = calloc(3 * session->input_count + 1, sizeof(iobind_tensor *));
  self->points = calloc(session->input_count + 1, sizeof(iobind__point *));
  self->outputs = calloc(session->output_count + 1, sizeof(iobind_tensor *));
  if (self->inputs == NULL || self->points == NULL || self->outputs == NULL) {
    return iobind__out_of_memory(error, "pipeline_create");
  }
  self->staging = self->inputs + session->input_count;
  self->given = self->staging + session->input_count;
  for (int stage = 0; stage < STAGES; stage++) {
    IOBIND__TRY(iobind_event_create(device, &self->events[stage], error));
  }
  IOBIND__TRY(iobind_binding_create(session, &self->binding, error));
  IOBIND__TRY(iobind__run_options_replace(self->binding, run_options, "pipeline_create", error));
  for (size_t i = 0; i < session->input_count; i++) {
    if (!pipeline->streamed[i]) {
      IOBIND__TRY(iobind_binding_set_input(self->binding, i, IOBIND_INPUT_RESIDENT, options->constants[i], NULL, error));
    }
  }
  for (size_t i = 0; i < session->output_count; i++) {
    iobind_output_mode mode = is_wanted(pipeline, i) ? IOBIND_OUTPUT_REUSE : IOBIND_OUTPUT_NONE;
    IOBIND__TRY(iobind_binding_set_output(self->binding, i, mode, NULL, IOBIND_MEMORY_DEFAULT, NULL, error));
  }
  return IOBIND_OK;
}

static iobind_status check_streamed(const iobind_pipeline *pipeline, iobind_error *error) {
  for (size_t i = 0; i < pipeline->session->input_count; i++) {
    const iobind__value *value = input_of(pipeline, i);
    if (pipeline->streamed[i] && (value->kind != IOBIND_VALUE_TENSOR || value->dtype == IOBIND_STRING)) {
      return iobind__fail(error, IOBIND_NOT_SUPPORTED, "pipeline_create: '%s' %s", value->label,
                          value->kind != IOBIND_VALUE_TENSOR ? "is not a tensor" : "holds strings: bind it as a constant");
    }
  }
  return IOBIND_OK;
}

/* Where the outputs go; at least one of those that are tensors must be wanted. */
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
    any = any || is_wanted(pipeline, i);
  }
  return any ? IOBIND_OK
             : iobind__fail(error, IOBIND_INVALID_ARGUMENT,
                            "pipeline_create: outputs: none is wanted: a run needs at least one");
}

static iobind_status fill(iobind_pipeline *pipeline, const iobind_pipeline_options *options, iobind_error *error) {
  const iobind_session *session = pipeline->session;
  iobind_device *device = link_device(session);
  pipeline->slots = calloc(pipeline->slot_count, sizeof *pipeline->slots);
  pipeline->streamed = calloc(session->input_count + 1, sizeof *pipeline->streamed);
  if (pipeline->slots == NULL || pipeline->streamed == NULL) {
    return iobind__out_of_memory(error, "pipeline_create");
  }
  for (size_t i = 0; i < session->input_count; i++) {
    pipeline->streamed[i] = options->constants == NULL || options->constants[i] == NULL;
  }
  IOBIND__TRY(check_streamed(pipeline, error));
  IOBIND__TRY(choose_placements(pipeline, options->outputs, error));
  iobind_run_options run_options;
  IOBIND__TRY(iobind__run_options_read(session, options->run_options, "pipeline_create", &run_options, error));
  for (int stage = 0; stage < STAGES; stage++) {
    IOBIND__TRY(iobind_stream_create(device, NULL, &pipeline->streams[stage], error));
  }
  for (size_t i = 0; i < pipeline->slot_count; i++) {
    IOBIND__TRY(make_slot(pipeline, &pipeline->slots[i], options, &run_options, device, error));
  }
  return IOBIND_OK;
}

iobind_status iobind_pipeline_create(iobind_session *session, const iobind_pipeline_options *given, iobind_pipeline **out,
                                     iobind_error *error) {
  if (out != NULL) {
    *out = NULL;
  }
  if (session == NULL || out == NULL) {
    return iobind__fail(error, IOBIND_INVALID_ARGUMENT, "pipeline_create: %s is NULL",
                        session == NULL ? "session" : "pipeline");
  }
  IOBIND__TRY(iobind__process_check("pipeline_create", error));
  enum { DEFAULT_SLOTS = 3, MOST_SLOTS = 1024 };
  iobind_pipeline_options options;
  IOBIND__TRY(iobind__options_read(&options, sizeof options, offsetof(iobind_pipeline_options, outputs), given,
                                   "pipeline_create", error));
  IOBIND__TRY(iobind__flags_check(options.flags, IOBIND_PIPELINE_STOP | IOBIND_PIPELINE_TIMES, "pipeline_create", error));
  if (options.slots > MOST_SLOTS) {
    return iobind__fail(error, IOBIND_INVALID_ARGUMENT, "pipeline_create: slots: expected 0 .. %d, got %zu", MOST_SLOTS,
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
