/* Runs in the queue of a stream: of an EP, or of a thread of iobind. Several runs of one binding may be in it. */
#include <sched.h>
#include <stdlib.h>

#include "binding/run.h"

/* A run in flight uses the bound memory: other runs with the same memory must check. */
static void meet_others(iobind_binding *binding) {
  pthread_mutex_lock(&binding->held.mutex);
  for (size_t i = 0; i < iobind__holder_count(binding->session); i++) {
    iobind__holder_meet(&binding->held.list[i]);
  }
  pthread_mutex_unlock(&binding->held.mutex);
}

static void note_flight(iobind_binding *binding, iobind_stream *stream, iobind__ticket ticket) {
  iobind__flight_add(&binding->flight, stream, ticket);
  iobind__lengths_note_run(binding);
  meet_others(binding);
}

/* ---- on an EP's stream ---- */

/* Wait for all work that writes what the host reads during the submission, and for deliveries to host memory that the run
 * uses. */
static iobind_status settle_host_memory(const iobind_binding *binding, iobind_stream *stream, iobind_error *error) {
  const iobind_session *session = binding->session;
  for (size_t i = 0; i < session->input_count; i++) {
    const iobind__input *input = &binding->inputs[i];
    const iobind_tensor *used = input->source != NULL ? input->source : input->bound;
    const iobind_tensor *read = iobind__input_read_at_once(binding, i);
    if (used->place->host) {
      IOBIND__TRY(iobind__stream_use_host(stream, used->data, used->bytes, error));
    }
    if (read != NULL && input->event != NULL) {
      IOBIND__TRY(iobind__stream_order_event(NULL, input->event, error));
    }
    IOBIND__TRY(read == NULL ? IOBIND_OK : iobind__tensor_settle_for(read, IOBIND__READ, &binding->flight, error));
  }
  for (size_t i = 0; i < session->output_count; i++) {
    const iobind_tensor *target = binding->outputs[i].target;
    if (target != NULL && target->place->host) {
      IOBIND__TRY(iobind__stream_use_host(stream, target->data, target->bytes, error));
    }
  }
  return IOBIND_OK;
}

/* The next run replaces a MOVE state, and the first state of SWAP. It may be submitted before the stream has read the old
 * state, so the stream retains that. */
static void keep_states(const iobind_binding *binding, const iobind__submission *submission) {
  for (size_t i = 0; i < binding->carry_count; i++) {
    const iobind__carry *carry = &binding->carries[i];
    iobind_tensor *state = binding->inputs[carry->input].bound;
    if (carry->mode != IOBIND_CARRY_IN_PLACE && !iobind__carry_has_buffer(carry, state)) {
      iobind__tensor_use(state, submission, IOBIND__READ);
    }
  }
}

/* Before the work that ORT submits: order it after all work submitted to the stream. `compute`: where the run computes. */
static iobind_status begin_compute(const iobind_binding *binding, iobind_stream *stream, iobind_stream *compute,
                                   iobind_error *error) {
  IOBIND__TRY(compute == stream ? IOBIND_OK : iobind__stream_fork(stream, compute, error));
  if (binding->session->compute.way == IOBIND__COMPUTE_BY_RUN) {
    const OrtApi *api = IOBIND__API(binding->session->runtime);
    api->RunOptionsSetSyncStream(binding->settings.ort.queued, iobind__stream_ort(compute));
  }
  return iobind__stream_enter(compute, error);
}

/* After it: order the stream's later work after it. `computed`: the submission to `compute`; `status`: the run's. */
static iobind_status end_compute(iobind_stream *stream, const iobind__submission *computed, iobind_status status,
                                 iobind_error *error) {
  iobind_stream *compute = computed->stream;
  iobind_status left = iobind__stream_leave(compute, status == IOBIND_OK ? error : NULL);
  status = status == IOBIND_OK ? left : status;
  if (compute == stream) {
    return status;
  }
  (void)iobind__submission_ticket(computed); /* that of the run on the stream on which it computes */
  iobind_status joined = iobind__stream_join(stream, compute, status == IOBIND_OK ? error : NULL);
  if (joined != IOBIND_OK) {
    iobind__stream_pass(compute); /* the stream has no record of the work */
  }
  return status == IOBIND_OK ? joined : status;
}

static iobind_status execute_on(iobind_binding *binding, iobind_stream *stream, iobind_error *error) {
  iobind_stream *compute = iobind__compute_target(&binding->session->compute, stream);
  const iobind__submission computed = iobind__stream_begin(compute);
  IOBIND__TRY(begin_compute(binding, stream, compute, error));
  const iobind__execution how = {binding->settings.ort.queued, compute, compute->device, iobind__lengths_are_counted(binding)};
  iobind_status status = iobind__run_execute(binding, &how, error);
  return end_compute(stream, &computed, status, error);
}

/* ORT has made the run, but the call returns the failure `reason`: drop the results, so that the next run reads the same states
 * as this one. */
static iobind_status disown_run(iobind_binding *binding, const iobind_error *reason, iobind_error *error) {
  (void)iobind__flight_wait(binding, NULL);
  iobind__results_drop(binding, binding->flight.stream); /* not NULL: the run may still be in flight */
  iobind__binding_fail(binding, reason);
  iobind__carry_note_failure(binding);
  iobind__flight_poll(binding); /* earlier runs: the states are those that they have left */
  return iobind__error_copy(error, reason);
}

static iobind_status submit(iobind_binding *binding, iobind_stream *stream, iobind__order order, iobind_error *error) {
  iobind_error reason = IOBIND_ERROR_INIT;
  IOBIND__TRY(iobind__run_begin(binding, binding->flight.stream, error));
  IOBIND__TRY(iobind__run_await(binding, stream, NULL, error));
  IOBIND__TRY(order == IOBIND__SETTLED ? iobind__run_settle(binding, error) : IOBIND_OK);
  IOBIND__TRY(settle_host_memory(binding, stream, error));
  const iobind__submission submission = iobind__stream_begin(stream);
  if (execute_on(binding, stream, &reason) != IOBIND_OK) {
    iobind__stream_pass(stream); /* work that was submitted before the failure uses the bound memory */
    iobind__lengths_note_failure(binding);
    bool is_made = binding->results.state != IOBIND__RESULTS_NONE;
    return is_made ? disown_run(binding, &reason, error) : iobind__error_copy(error, &reason);
  }
  keep_states(binding, &submission);
  note_flight(binding, stream, iobind__submission_ticket(&submission));
  return IOBIND_OK;
}

/* A run without a stream, in a session whose EP needs a stream for each run: it is made on the session's own stream. */
iobind_status iobind__queue_and_wait(iobind_binding *binding, iobind_stream *own, iobind__order order, iobind_error *error) {
  iobind_error reason = IOBIND_ERROR_INIT;
  IOBIND__TRY(submit(binding, own, order, error));
  iobind_status status = iobind__flight_wait(binding, &reason);
  iobind__flight_poll(binding);
  return status == IOBIND_OK ? IOBIND_OK : disown_run(binding, &reason, error);
}

static iobind_status run_on_ep(iobind_binding *binding, iobind_stream *stream, iobind_error *error) {
  IOBIND__TRY(iobind__run_enter(binding, error));
  iobind_status status = iobind__lengths_begin(binding, error);
  status = status == IOBIND_OK ? submit(binding, stream, IOBIND__IN_FLIGHT, error) : status;
  iobind__run_leave(binding, IOBIND__IDLE);
  return status;
}

/* ---- by a thread of iobind ---- */

/* Enter the run state for a run on a worker's stream. If it follows another run on this stream, the state is already entered, unless the
 * worker is just leaving it. */
static iobind_status enter_queue(iobind_binding *binding, bool follows, iobind_error *error) {
  if (atomic_fetch_add(&binding->flight.queued, 1) > 0) {
    return IOBIND_OK;
  }
  iobind_status status = iobind__run_enter(binding, follows ? NULL : error);
  while (status != IOBIND_OK && follows) {
    sched_yield();
    status = iobind__run_enter(binding, NULL);
  }
  if (status != IOBIND_OK) {
    atomic_fetch_sub(&binding->flight.queued, 1);
  }
  return status;
}

/* The run has ended, or was not queued. */
static void leave_queue(iobind_binding *binding) {
  if (atomic_fetch_sub(&binding->flight.queued, 1) == 1) {
    iobind__run_leave(binding, IOBIND__IDLE);
  }
}

typedef struct run_task {
  iobind__task task;
  iobind_binding *binding;     /* a reference is held */
  const iobind_device *device; /* of the stream */
  bool begins; /* an earlier run was in flight at the submission: this one begins in the thread, when the results are known */
  bool is_counted;         /* the lengths were counted at the submission */
  iobind__point *points[]; /* of the inputs' events at the submission; references are held */
} run_task;

static void free_run(iobind__task *task) {
  run_task *self = (run_task *)task;
  for (size_t i = 0; i < self->binding->session->input_count; i++) {
    iobind__point_release(self->points[i]);
  }
  iobind__ref_release(&self->binding->ref);
  free(self);
}

static iobind_status execute_task(const run_task *self, const iobind_error *failure, iobind_error *error) {
  iobind_binding *binding = self->binding;
  if (failure != NULL) {
    return iobind__error_copy(error, failure);
  }
  if (self->begins) {
    IOBIND__TRY(iobind__run_begin(binding, NULL, error));
  }
  IOBIND__TRY(iobind__run_await(binding, NULL, self->points, error));
  const iobind__execution how = {binding->settings.ort.now, NULL, self->device, self->is_counted};
  return iobind__run_execute(binding, &how, error);
}

/* Was an earlier run made that was in flight at the submission? A run whose predecessor has failed finds that failure in the binding. */
static bool follows_made(const run_task *self, const iobind_error *failure) {
  return self->begins && (failure == NULL || self->binding->results.state != IOBIND__RESULTS_FAILED);
}

static iobind_status run_task_now(iobind__task *task, const iobind_error *failure, iobind_error *error) {
  const run_task *self = (const run_task *)task;
  iobind_status status = execute_task(self, failure, error);
  if (status != IOBIND_OK) {
    if (follows_made(self, failure)) {
      iobind__carry_note_flight(self->binding, true);
    }
    iobind__binding_fail(self->binding, error); /* if ORT was called, iobind__call has recorded the effect on the states */
  }
  leave_queue(self->binding);
  return status;
}

/* The event of an input; NULL: none. A state from the previous run needs none, and the stream's thread may be about to release
 * the first state's event. */
static iobind_event *event_of(iobind_binding *binding, size_t input, bool follows) {
  const iobind__carry *carry = iobind__carry_of_input(binding, input);
  bool is_state = follows && carry != NULL && carry->mode != IOBIND_CARRY_IN_PLACE;
  return is_state ? NULL : binding->inputs[input].event;
}

static run_task *make_task(iobind_binding *binding, const iobind_device *device, bool begins) {
  size_t inputs = binding->session->input_count;
  run_task *self = calloc(1, sizeof *self + inputs * sizeof self->points[0]);
  if (self == NULL) {
    return NULL;
  }
  self->task.run = run_task_now;
  self->task.destroy = free_run;
  self->binding = binding;
  iobind__ref_retain(&binding->ref);
  self->device = device;
  self->begins = begins;
  self->is_counted = iobind__lengths_are_counted(binding);
  for (size_t i = 0; i < inputs; i++) {
    iobind_event *event = event_of(binding, i, begins);
    self->points[i] = event == NULL ? NULL : iobind__event_point(event);
  }
  return self;
}

/* The first of several runs begins on the caller's thread, so that errors are returned at once. */
static iobind_status submit_task(iobind_binding *binding, iobind_stream *stream, bool follows, iobind__ticket *ticket,
                                 iobind_error *error) {
  if (!follows) {
    IOBIND__TRY(iobind__run_begin(binding, NULL, error));
  }
  run_task *task = make_task(binding, stream->device, follows);
  if (task == NULL) {
    return iobind__out_of_memory(error, "binding_run");
  }
  iobind_status status = iobind__stream_submit(stream, &task->task, ticket, error);
  if (status != IOBIND_OK) {
    free_run(&task->task);
  }
  return status;
}

static iobind_status run_by_worker(iobind_binding *binding, iobind_stream *stream, iobind_error *error) {
  bool follows = binding->flight.stream != NULL;
  iobind__ticket ticket;
  IOBIND__TRY(enter_queue(binding, follows, error));
  iobind_status status = iobind__lengths_begin(binding, error);
  status = status == IOBIND_OK ? submit_task(binding, stream, follows, &ticket, error) : status;
  if (status != IOBIND_OK) {
    leave_queue(binding);
    return status;
  }
  note_flight(binding, stream, ticket);
  return IOBIND_OK;
}

/* ---- the choice of the stream ---- */

static iobind_status run_on(iobind_binding *binding, iobind_stream *stream, iobind_error *error) {
  iobind__flight_poll(binding);
  if (binding->flight.stream != NULL && binding->flight.stream != stream) {
    return iobind__binding_check_idle(binding, "binding_run", error);
  }
  if (!iobind__stream_orders_calls(stream)) {
    return run_by_worker(binding, stream, error);
  }
  if (iobind__compute_takes_stream(&binding->session->compute)) {
    return run_on_ep(binding, stream, error);
  }
  IOBIND__TRY(iobind__stream_drain(stream, error));
  return iobind__run_now(binding, IOBIND__IN_FLIGHT, error);
}

iobind_status iobind__queue(iobind_binding *binding, iobind_stream *stream, iobind_error *error) {
  if (!iobind__session_has_device(binding->session, stream->device)) {
    return iobind__fail(
        error, IOBIND_ERROR_WRONG_DEVICE,
        "binding_run: the stream is of '%s', which is not a device of the session: create one on a device of the session",
        stream->device->spec);
  }
  return run_on(binding, stream, error);
}
