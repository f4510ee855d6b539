/* The stages of an item. Each stage has its own stream, and waits for the item's previous stage by an event. */
#include <stdlib.h>
#include <string.h>

#include "flow/slot.h"
#include "support/system.h"

static bool is_uploaded(const iobind__slot *self, size_t input) {
  return self->staging[input] != NULL && self->given[input] == NULL;
}

static iobind_status upload(const iobind__slot *self, iobind_stream *stream, iobind_error *error) {
  for (size_t i = 0; i < self->pipeline->session->input_count; i++) {
    if (is_uploaded(self, i)) {
      IOBIND__TRY(iobind__tensor_copy_one(self->staging[i], self->inputs[i], stream, error));
    }
  }
  return IOBIND_OK;
}

static iobind_status download(iobind__slot *self, iobind_stream *stream, iobind_error *error) {
  for (size_t i = 0; i < self->pipeline->session->output_count; i++) {
    if (iobind__pipeline_wants(self->pipeline, i)) {
      const iobind_tensor *source;
      IOBIND__TRY(iobind__slot_find_output(self, i, &source, error));
      if (source != NULL) {
        IOBIND__TRY(iobind__tensor_copy_one(source, self->outputs[i], stream, error));
      }
    }
  }
  return IOBIND_OK;
}

/* The size of an output may depend on the content of the inputs. Then the last item's memory does not fit, and from now on each
 * run of the slot allocates its outputs. */
static iobind_status run_anew(iobind__slot *self, iobind_stream *stream, iobind_error *error) {
  const iobind_session *session = self->pipeline->session;
  self->is_fresh = true;
  for (size_t i = 0; i < session->output_count; i++) {
    if (iobind__pipeline_wants(self->pipeline, i)) {
      IOBIND__TRY(iobind_binding_place_output(self->binding, i, IOBIND_OUTPUT_FRESH, NULL, IOBIND_MEMORY_DEFAULT, error));
    }
  }
  return iobind__binding_run_in_turn(self->binding, stream, error);
}

static iobind_status run_item(iobind__slot *self, iobind_stream *stream, iobind_error *error) {
  for (size_t i = 0; i < self->pipeline->session->input_count; i++) {
    IOBIND__TRY(stream != NULL ? iobind__stream_order(stream, self->points[i], error)
                               : iobind__point_pass(self->points[i], error));
  }
  iobind_status status = iobind__binding_run_in_turn(self->binding, stream, error);
  return status == IOBIND_ERROR_SHAPE && !self->is_fresh ? run_anew(self, stream, error) : status;
}

/* Submit a stage to the stream; if that is NULL, the stage is complete on return. */
static iobind_status do_stage(iobind__slot *self, int stage, iobind_stream *stream, iobind_error *error) {
  switch (stage) {
    case IOBIND__UPLOAD: return upload(self, stream, error);
    case IOBIND__RUN: return run_item(self, stream, error);
    default: return download(self, stream, error);
  }
}

static bool has_stage(const iobind__slot *self, int stage) {
  const iobind_session *session = self->pipeline->session;
  bool any = stage == IOBIND__RUN;
  for (size_t i = 0; stage == IOBIND__UPLOAD && i < session->input_count; i++) {
    any = any || is_uploaded(self, i);
  }
  for (size_t i = 0; stage == IOBIND__DOWNLOAD && i < session->output_count; i++) {
    any = any || iobind__pipeline_wants(self->pipeline, i);
  }
  return any;
}

/* Record that the item has failed: its later stages are skipped, and with STOP those of later items. */
static void fail_item(iobind__slot *self, iobind_status status, const iobind_error *error) {
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

/* May the item continue? Sets its status to CANCELLED if an earlier item has stopped the pipeline. */
static bool goes_on(iobind__slot *self) {
  iobind_pipeline *pipeline = self->pipeline;
  uint64_t failed = atomic_load(&pipeline->failed);
  if ((pipeline->flags & IOBIND_PIPELINE_STOP) != 0 && failed < self->index && self->status == IOBIND_OK) {
    self->error = (iobind_error)IOBIND_ERROR_INIT;
    self->status =
        iobind__fail(&self->error, IOBIND_ERROR_CANCELLED, "pipeline_next: item %llu: not run, because item %llu failed",
                     (unsigned long long)self->index, (unsigned long long)failed);
  }
  return self->status == IOBIND_OK;
}

/* A task of a stream's thread: it makes a stage, or waits for its end. */
typedef struct stage_task {
  iobind__task task;
  iobind__slot *slot;
  int stage;
  iobind__point *point; /* a reference is held */
} stage_task;

static void free_stage(iobind__task *task) {
  stage_task *self = (stage_task *)task;
  iobind__point_release(self->point);
  free(self);
}

/* A failure belongs to the item, not to the stream, because other items continue. So the task waits for the previous stage, and
 * the stream does not. Both stages are on one device, so no other ordering is needed. */
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
  (void)iobind__point_pass(self->point, error); /* the caller's wait returns the failure */
  pthread_mutex_lock(&pipeline->mutex);
  self->slot->ends[self->stage] = iobind__clock_ns();
  pipeline->stamps--;
  pthread_cond_broadcast(&pipeline->stamped);
  pthread_mutex_unlock(&pipeline->mutex);
  return IOBIND_OK;
}

/* A copy of `wanted` goes to the stream of its stage, with a reference to its point. */
static iobind_status submit_task(const stage_task *wanted, iobind__ticket *ticket, iobind_error *error) {
  stage_task *task = malloc(sizeof *task);
  if (task == NULL) {
    return iobind__out_of_memory(error, "pipeline_submit");
  }
  *task = *wanted;
  task->task.destroy = free_stage;
  if (task->point != NULL) {
    iobind__ref_retain(&task->point->ref);
  }
  iobind_status status = iobind__stream_submit(task->slot->pipeline->streams[task->stage], &task->task, ticket, error);
  if (status != IOBIND_OK) {
    free_stage(&task->task);
  }
  return status;
}

/* Let the stream's thread record the time when the stage has ended. */
static iobind_status watch(iobind__slot *self, int stage, iobind_error *error) {
  iobind_pipeline *pipeline = self->pipeline;
  iobind__point *point = iobind__event_point(self->events[stage]);
  pthread_mutex_lock(&pipeline->mutex);
  pipeline->stamps++;
  pthread_mutex_unlock(&pipeline->mutex);
  iobind_status status = submit_task(&(stage_task){{.run = stamp}, self, stage, point}, NULL, error);
  if (status != IOBIND_OK) {
    pthread_mutex_lock(&pipeline->mutex);
    pipeline->stamps--;
    pthread_mutex_unlock(&pipeline->mutex);
  }
  iobind__point_release(point);
  return status;
}

/* Start a stage after the stage of `before`, which may be NULL. */
static iobind_status start(iobind__slot *self, int stage, iobind_event *before, iobind_error *error) {
  iobind_stream *stream = self->pipeline->streams[stage];
  if (iobind__stream_orders_calls(stream)) {
    IOBIND__TRY(before == NULL ? IOBIND_OK : iobind_stream_wait(stream, before, error));
    return do_stage(self, stage, stream, error);
  }
  iobind__point *point = before == NULL ? NULL : iobind__event_point(before);
  iobind__ticket ticket = 0;
  iobind_status status = submit_task(&(stage_task){{.run = work}, self, stage, point}, &ticket, error);
  iobind__point_release(point);
  if (status == IOBIND_OK && stage == IOBIND__RUN) {
    iobind__flight_add(&self->flight, stream, ticket); /* host access to the run's inputs is ordered after it */
    iobind__slot_meet(self);
  }
  return status;
}

static iobind_status enqueue(iobind__slot *self, int stage, iobind_event *before, iobind_error *error) {
  const iobind_pipeline *pipeline = self->pipeline;
  iobind_stream *stream = pipeline->streams[stage];
  iobind_status status = start(self, stage, before, error);
  /* also if the stage failed: a part of it may be in flight */
  self->reached[stage] = iobind_event_record(self->events[stage], stream, status == IOBIND_OK ? error : NULL) == IOBIND_OK;
  IOBIND__TRY(status);
  if (!self->reached[stage]) {
    iobind__stream_pass(stream); /* without the event its end could not be determined */
    return (iobind_status)(error->status);
  }
  return (pipeline->flags & IOBIND_PIPELINE_TIMES) != 0 && iobind__stream_orders_calls(stream) ? watch(self, stage, error)
                                                                                               : IOBIND_OK;
}

void iobind__stages_start(iobind__slot *self) {
  iobind_event *before = NULL;
  iobind_error reason = IOBIND_ERROR_INIT;
  self->status = IOBIND_OK;
  memset(self->reached, 0, sizeof self->reached);
  memset(self->ends, 0, sizeof self->ends);
  for (int stage = 0; stage < IOBIND__STAGES; stage++) {
    if (!has_stage(self, stage)) {
      continue;
    }
    iobind_status status = enqueue(self, stage, before, &reason);
    if (status != IOBIND_OK) {
      if (before != NULL) { /* its thread may be about to record an earlier failure of the item */
        (void)iobind__stream_order_event(NULL, before, NULL);
      }
      fail_item(self, status, &reason);
      return;
    }
    before = self->events[stage];
  }
}

/* ---- the end of an item ---- */

/* Have all stages of the item recorded their end? With the mutex held. */
static bool is_stamped(const iobind__slot *self) {
  bool all = true;
  for (int stage = 0; stage < IOBIND__STAGES; stage++) {
    all = all && (!self->reached[stage] || self->ends[stage] != 0);
  }
  return all;
}

/* A stream's thread may record an end late. A stage cannot end later than the next one. */
static void order_ends(iobind__slot *self) {
  for (int stage = IOBIND__STAGES - 1; stage > 0; stage--) {
    if (self->ends[stage] != 0 && self->ends[stage - 1] > self->ends[stage]) {
      self->ends[stage - 1] = self->ends[stage];
    }
  }
}

static bool await_stamps(iobind__slot *self, uint64_t until) {
  iobind_pipeline *pipeline = self->pipeline;
  bool in_time = true;
  pthread_mutex_lock(&pipeline->mutex);
  while (in_time && pipeline->stamps > 0 && !is_stamped(self)) {
    in_time = iobind__condition_wait(&pipeline->stamped, &pipeline->mutex, until);
  }
  pthread_mutex_unlock(&pipeline->mutex);
  return in_time;
}

/* Wait for a stage. False: timed out, or the wait itself failed. *first and *failure keep the first stage's failure. */
static bool await_stage(iobind__slot *self, int stage, uint64_t until, iobind_status *first, iobind_error *failure) {
  iobind_error reason = IOBIND_ERROR_INIT;
  iobind__point *point = iobind__event_point(self->events[stage]);
  iobind_status status = iobind__point_wait_until(point, until, &reason);
  /* TIMEOUT is the wait's, even if the stage ends just now: the next call returns its outcome */
  bool ended = status == IOBIND_OK || until == UINT64_MAX || (status != IOBIND_ERROR_TIMEOUT && iobind__point_passed(point));
  iobind__point_release(point);
  if (*first == IOBIND_OK || !ended) {
    *first = status;
    *failure = reason;
  }
  return ended;
}

bool iobind__stages_await(iobind__slot *self, uint64_t until, iobind_error *error) {
  iobind_error reason = IOBIND_ERROR_INIT;
  iobind_status first = IOBIND_OK;
  for (int stage = 0; stage < IOBIND__STAGES; stage++) {
    if (self->reached[stage] && !await_stage(self, stage, until, &first, &reason)) {
      (void)iobind__error_copy(error, &reason);
      return false;
    }
  }
  if (!await_stamps(self, until)) {
    (void)iobind__fail(error, IOBIND_ERROR_TIMEOUT, "timed out: the work stays in flight, wait for it again");
    return false;
  }
  order_ends(self);
  if (goes_on(self) && first != IOBIND_OK) { /* with STOP, items after a failed one are CANCELLED, and have not failed */
    fail_item(self, first, &reason);
  }
  return true;
}
