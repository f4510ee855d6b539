/* Running a binding: check once after a change, then nothing but ORT's run. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "binding/binding.h"

/* Collect the values of symbolic dims from a tensor; SHAPE where one differs from what another tensor said. Owners are
 * numbered inputs first, then outputs. */
static iobind_status agree_symbols(iobind_binding *binding, const iobind__value *value, const iobind_tensor *tensor,
                                   size_t owner, iobind_error *error) {
  const iobind_session *session = binding->session;
  for (size_t i = 0; i < value->rank; i++) {
    int id = value->symbol_ids[i];
    if (id < 0) {
      continue;
    }
    if (binding->symbol_values[id] < 0) {
      binding->symbol_values[id] = tensor->dims[i];
      binding->symbol_owners[id] = owner;
    } else if (binding->symbol_values[id] != tensor->dims[i]) {
      size_t first = binding->symbol_owners[id];
      const char *other =
          first < session->input_count ? session->inputs[first].name : session->outputs[first - session->input_count].name;
      return iobind__fail(error, IOBIND_SHAPE, "binding: '%s': expected %s of %lld as in '%s', got %lld", value->name,
                          session->symbols[id], (long long)binding->symbol_values[id], other, (long long)tensor->dims[i]);
    }
  }
  return IOBIND_OK;
}

static iobind_status check_complete(iobind_binding *binding, iobind_error *error) {
  const iobind_session *session = binding->session;
  for (size_t i = 0; i < session->symbol_count; i++) {
    binding->symbol_values[i] = -1;
  }
  for (size_t i = 0; i < session->input_count; i++) {
    if (binding->inputs[i].bound == NULL) {
      return session->inputs[i].kind == IOBIND_VALUE_TENSOR
                 ? iobind__fail(error, IOBIND_INVALID_STATE, "binding: input '%s' is not bound", session->inputs[i].name)
                 : iobind__fail(error, IOBIND_NOT_SUPPORTED, "binding: input '%s' is no tensor, and only tensors can be bound",
                                session->inputs[i].name);
    }
    if (binding->inputs[i].torn) {
      return iobind__fail(
          error, IOBIND_INVALID_STATE,
          "binding: the state '%s' is carried in place, and a run that failed may have written a part of it: bind "
          "it anew, or write it by iobind_binding_update_input",
          session->inputs[i].name);
    }
    IOBIND__TRY(agree_symbols(binding, &session->inputs[i], binding->inputs[i].bound, i, error));
  }
  bool any = false;
  for (size_t i = 0; i < session->output_count; i++) {
    const iobind__output_slot *slot = &binding->outputs[i];
    any = any || slot->mode != IOBIND_OUTPUT_NONE;
    if (slot->tensor != NULL) {
      IOBIND__TRY(agree_symbols(binding, &session->outputs[i], slot->tensor, session->input_count + i, error));
    }
  }
  return any ? IOBIND_OK : iobind__fail(error, IOBIND_INVALID_STATE, "binding: no output is bound");
}

iobind_status iobind_binding_check(iobind_binding *binding, iobind_error *error) {
  if (binding == NULL) {
    return iobind__fail(error, IOBIND_INVALID_ARGUMENT, "binding_check: binding is NULL");
  }
  IOBIND__TRY(iobind__binding_check_idle(binding, "binding_check", error));
  return check_complete(binding, error);
}

static iobind_status bind_output(iobind_binding *binding, size_t index, iobind_error *error) {
  const OrtApi *api = IOBIND__API(binding->session->runtime);
  iobind__output_slot *slot = &binding->outputs[index];
  const char *name = binding->session->outputs[index].name;
  IOBIND__ORT_TRY(api,
                  iobind__output_is_given(slot->mode) ? api->BindOutput(binding->binding, name, slot->tensor->value)
                                                      : api->BindOutputToDevice(binding->binding, name, slot->place->info),
                  error, "binding_run: output '%s'", name);
  slot->renew &= (iobind__sides)~binding->side;
  return IOBIND_OK;
}

static iobind_status bind_inputs(iobind_binding *binding, iobind_error *error) {
  const iobind_session *session = binding->session;
  const OrtApi *api = IOBIND__API(session->runtime);
  for (size_t i = 0; i < session->input_count; i++) {
    iobind__input_slot *slot = &binding->inputs[i];
    if ((slot->changed & binding->side) == 0) {
      continue;
    }
    OrtStatus *status = api->BindInput(binding->binding, session->inputs[i].name, slot->bound->value);
    if (status != NULL) {
      /* ORT's binding is poisoned by a failure: empty it, so that the next run binds all anew */
      api->ClearBoundInputs(binding->binding);
      for (size_t j = 0; j < session->input_count; j++) {
        binding->inputs[j].changed |= binding->side;
      }
      return iobind__ort_fail(api, status, error, "binding_run: input '%s'", session->inputs[i].name);
    }
    slot->changed &= (iobind__sides)~binding->side;
  }
  binding->inputs_changed &= (iobind__sides)~binding->side;
  return IOBIND_OK;
}

static iobind_status bind_outputs(iobind_binding *binding, iobind_error *error) {
  const OrtApi *api = IOBIND__API(binding->session->runtime);
  api->ClearBoundOutputs(binding->binding);
  binding->order_count = 0;
  binding->holds_outputs = false;
  binding->has_fresh = false;
  for (size_t i = 0; i < binding->session->output_count; i++) {
    if (binding->outputs[i].mode != IOBIND_OUTPUT_NONE) {
      IOBIND__TRY(bind_output(binding, i, error));
      binding->order[binding->order_count++] = i;
      binding->has_fresh = binding->has_fresh || binding->outputs[i].mode == IOBIND_OUTPUT_FRESH;
    }
  }
  binding->outputs_changed &= (iobind__sides)~binding->side;
  return IOBIND_OK;
}

/* New memory for the outputs that need it: ORT reuses what an output holds. */
static iobind_status renew_outputs(iobind_binding *binding, iobind_error *error) {
  for (size_t i = 0; i < binding->order_count; i++) {
    const iobind__output_slot *slot = &binding->outputs[binding->order[i]];
    if (slot->mode == IOBIND_OUTPUT_FRESH ||
        (slot->mode == IOBIND_OUTPUT_REUSE &&
         (((slot->same_dims ? 0 : binding->reshaped) | slot->renew) & binding->side) != 0)) {
      IOBIND__TRY(bind_output(binding, binding->order[i], error));
    }
  }
  binding->renew &= (iobind__sides)~binding->side;
  return IOBIND_OK;
}

/* Bring ORT's binding in line with our table. */
static iobind_status prepare(iobind_binding *binding, iobind_error *error) {
  if (binding->carry_count > 0) {
    IOBIND__TRY(iobind__carry_prepare(binding, error));
  }
  if (!binding->checked) {
    IOBIND__TRY(check_complete(binding, error));
    binding->checked = true;
  }
  if ((binding->inputs_changed & binding->side) != 0) {
    IOBIND__TRY(bind_inputs(binding, error));
  }
  if ((binding->outputs_changed & binding->side) != 0) {
    IOBIND__TRY(bind_outputs(binding, error));
  } else {
    IOBIND__TRY(renew_outputs(binding, error));
  }
  binding->reshaped &= (iobind__sides)~binding->side;
  return IOBIND_OK;
}

/* Put the run behind the producers of its inputs. `points` are those of the inputs' events where the run has been queued since;
 * NULL: what the events hold now. An EP that one thread after the other may use is not held meanwhile: a worker that is waited for
 * may need it. */
static iobind_status await_producers(const iobind_binding *binding, iobind_stream *stream, iobind__point *const *points,
                                     iobind_error *error) {
  for (size_t i = 0; i < binding->session->input_count; i++) {
    const iobind__input_slot *slot = &binding->inputs[i];
    if (points != NULL) {
      IOBIND__TRY(iobind__stream_order(stream, points[i], error));
    } else if (slot->event != NULL) {
      IOBIND__TRY(iobind__stream_order_event(stream, slot->event, error));
    }
  }
  return IOBIND_OK;
}

/* Inputs that are copied before each run. */
static iobind_status bring_inputs(const iobind_binding *binding, iobind_stream *stream, iobind_error *error) {
  for (size_t i = 0; i < binding->session->input_count; i++) {
    const iobind__input_slot *slot = &binding->inputs[i];
    if (slot->source != NULL) {
      IOBIND__TRY(iobind__tensor_copy_one(slot->source, slot->bound, stream, error));
    }
  }
  return IOBIND_OK;
}

/* The outputs whose memory a run does not choose: ORT 1.24 does not say which of them did not fit. */
static void name_held_outputs(const iobind_binding *binding, iobind__text *names) {
  for (size_t i = 0; i < binding->session->output_count; i++) {
    iobind_output_mode mode = binding->outputs[i].mode;
    if (iobind__output_is_given(mode) || mode == IOBIND_OUTPUT_REUSE) {
      iobind__text_add(names, "%s'%s'", names->length == 0 ? "" : ", ", binding->session->outputs[i].name);
    }
  }
}

static iobind_status run_failed(iobind_binding *binding, OrtStatus *failed, iobind_error *error) {
  const OrtApi *api = IOBIND__API(binding->session->runtime);
  bool cancelled = atomic_load(&binding->state) != IOBIND__RUNNING;
  iobind_status status;
  if (cancelled) {
    api->ReleaseStatus(failed);
    status = iobind__fail(error, IOBIND_CANCELLED, "binding_run: cancelled by iobind_binding_cancel");
  } else if (iobind__ort_reason_of(api, failed) == IOBIND__ORT_WRONG_SHAPE) {
    iobind__text names = {0};
    name_held_outputs(binding, &names);
    status = iobind__ort_fail_as(api, failed, IOBIND_SHAPE, error, "binding_run: output %s: not the shape that is bound",
                                 names.length == 0 ? "of a node" : iobind__text_get(&names));
    iobind__text_free(&names);
  } else {
    status = iobind__ort_fail(api, failed, error, "binding_run");
  }
  iobind__carry_tear(binding);
  /* what ORT's binding holds after a failure is not known: bind the outputs anew */
  binding->outputs_changed = IOBIND__BOTH_SIDES;
  return status;
}

/* What comes before a run: on the caller's thread, so that what is wrong is said at once. */
static inline iobind_status begin(iobind_binding *binding, iobind_error *error) {
  if (binding->carry_count > 0) {
    IOBIND__TRY(iobind__carry_advance(binding, error));
  }
  if (binding->fetched) {
    iobind__results_drop(binding);
  }
  binding->has_results = false;
  binding->holds_outputs = false; /* until the run has given them */
  binding->failure.status = IOBIND_OK;
  iobind__sides changed = binding->inputs_changed | binding->outputs_changed | binding->reshaped | binding->renew;
  if (!binding->checked || binding->has_fresh || (changed & binding->side) != 0) {
    IOBIND__TRY(prepare(binding, error));
  }
  return IOBIND_OK;
}

static iobind_status begin_serial(iobind_binding *binding, iobind_error *error) {
  iobind__device_enter(binding->session->serial);
  iobind_status status = begin(binding, error);
  iobind__device_leave(binding->session->serial);
  return status;
}

/* A device that queues by itself is waited for, unless the run is on its own stream: then the order of its queue is enough. */
static iobind_status wait_for_devices(const iobind_binding *binding, const iobind_device *ordered, iobind_error *error) {
  const iobind_session *session = binding->session;
  if (session->queued == NULL || (session->queued == ordered && session->queued_count == 1)) {
    return IOBIND_OK;
  }
  for (size_t i = 0; i < session->device_count; i++) {
    IOBIND__TRY(iobind__device_wait(session->devices[i], error));
  }
  return IOBIND_OK;
}

static iobind_status look_after(iobind_binding *binding, iobind_stream *stream, const iobind_device *ordered,
                                iobind_error *error) {
  if (!binding->verified) {
    IOBIND__TRY(iobind__results_verify(binding, &binding->verified, error));
  }
  if (binding->has_passed_through) {
    IOBIND__TRY(iobind__results_copy_passed_through(binding, stream, error));
  }
  return wait_for_devices(binding, ordered, error);
}

/* What has to be looked at or done after some runs. */
static iobind_status settle(iobind_binding *binding, iobind_stream *stream, const iobind_device *ordered, iobind_error *error) {
  iobind_status status = look_after(binding, stream, ordered, error);
  if (status != IOBIND_OK) {
    iobind__carry_tear(binding);
  }
  return status;
}

/* The run itself. `stream` is an EP's, which ORT submits to; NULL: ORT waits for the run. `ordered` is the device whose stream
 * the run is on, or NULL. Part of the steady run itself, whose instructions are counted (bench/overhead). */
__attribute__((always_inline)) static inline iobind_status execute(iobind_binding *binding, OrtRunOptions *options,
                                                                   iobind_stream *stream, const iobind_device *ordered,
                                                                   iobind_error *error) {
  const iobind_session *session = binding->session;
  if (binding->has_live) {
    IOBIND__TRY(bring_inputs(binding, stream, error));
  }
  OrtStatus *failed = IOBIND__API(session->runtime)->RunWithBinding(session->session, options, binding->binding);
  if (failed != NULL) {
    return run_failed(binding, failed, error);
  }
  binding->holds_outputs = true;
  if (!binding->verified || binding->has_passed_through || session->queued != NULL) {
    IOBIND__TRY(settle(binding, stream, ordered, error));
  }
  binding->has_results = true;
  if (binding->carry_count > 0) {
    iobind__carry_note(binding);
  }
  return IOBIND_OK;
}

/* The same where one thread after the other may use the EP. */
static iobind_status execute_serial(iobind_binding *binding, OrtRunOptions *options, iobind_stream *stream,
                                    const iobind_device *ordered, iobind_error *error) {
  iobind__device_enter(binding->session->serial);
  iobind_status status = execute(binding, options, stream, ordered, error);
  iobind__device_leave(binding->session->serial);
  return status;
}

static void release_status(const OrtApi *api, OrtStatus *status) {
  if (status != NULL) {
    api->ReleaseStatus(status);
  }
}

/* The terminate flag of a run that was cancelled must not reach the next one. */
static void forget_cancel(iobind_binding *binding) {
  const OrtApi *api = IOBIND__API(binding->session->runtime);
  release_status(api, api->RunOptionsUnsetTerminate(binding->run_options));
  if (binding->stream_run_options != NULL) {
    release_status(api, api->RunOptionsUnsetTerminate(binding->stream_run_options));
  }
  atomic_store(&binding->state, IOBIND__IDLE);
}

/* Leave the running state. */
static inline void leave(iobind_binding *binding) {
  int state = IOBIND__RUNNING;
  while (!atomic_compare_exchange_weak(&binding->state, &state, IOBIND__IDLE)) {
    if (state == IOBIND__CANCELLED) {
      forget_cancel(binding);
      return;
    }
    if (state == IOBIND__CANCELLING) {
      sched_yield(); /* another thread is between two instructions, and may fail to cancel */
    }
    state = IOBIND__RUNNING;
  }
}

/* ---- runs that have finished on return ---- */

static inline iobind_status run_alone(iobind_binding *binding, iobind_error *error) {
  IOBIND__TRY(begin(binding, error));
  if (binding->has_live) {
    IOBIND__TRY(await_producers(binding, NULL, NULL, error));
  }
  return execute(binding, binding->run_options, NULL, NULL, error);
}

static iobind_status run_serial(iobind_binding *binding, iobind_error *error) {
  IOBIND__TRY(begin_serial(binding, error));
  IOBIND__TRY(await_producers(binding, NULL, NULL, error));
  return execute_serial(binding, binding->run_options, NULL, NULL, error);
}

static inline iobind_status run_now(iobind_binding *binding, iobind_error *error) {
  return binding->session->serial == NULL ? run_alone(binding, error) : run_serial(binding, error);
}

/* A session that takes no stream of a device. */
static iobind_status run_behind(iobind_binding *binding, iobind_stream *stream, iobind_error *error) {
  IOBIND__TRY(iobind__stream_drain(stream, error));
  return run_now(binding, error);
}

/* ---- runs on an EP's stream ---- */

static void take_off(iobind_binding *binding, iobind_stream *stream, iobind__ticket ticket) {
  binding->flight.stream = stream;
  binding->flight.ticket = ticket;
  iobind__ref_retain(&stream->ref);
}

/* What the stream still has to deliver to host memory that the run uses comes before. */
static iobind_status use_host_tensors(const iobind_binding *binding, iobind_stream *stream, iobind_error *error) {
  const iobind_session *session = binding->session;
  if (!iobind__stream_delivers(stream, UINT64_MAX)) {
    return IOBIND_OK;
  }
  for (size_t i = 0; i < session->input_count + session->output_count; i++) {
    const iobind_tensor *tensor =
        i < session->input_count ? binding->inputs[i].bound : binding->outputs[i - session->input_count].tensor;
    if (tensor != NULL && tensor->place->host) {
      IOBIND__TRY(iobind__stream_use_host(stream, tensor->data, tensor->bytes, error));
    }
  }
  return IOBIND_OK;
}

static iobind_status run_on_device(iobind_binding *binding, iobind_stream *stream, iobind_error *error) {
  IOBIND__TRY(begin_serial(binding, error));
  IOBIND__TRY(await_producers(binding, stream, NULL, error));
  IOBIND__TRY(use_host_tensors(binding, stream, error));
  IOBIND__API(binding->session->runtime)->RunOptionsSetSyncStream(binding->stream_run_options, iobind__stream_ort(stream));
  iobind_status status = execute_serial(binding, binding->stream_run_options, stream, stream->device, error);
  if (status == IOBIND_OK) {
    take_off(binding, stream, iobind__stream_take_ticket(stream));
  } else {
    (void)iobind__stream_drain(stream, NULL); /* what was submitted before it failed uses what is bound */
  }
  return status;
}

/* ---- runs on a worker's stream ---- */

typedef struct run_task {
  iobind__task task;
  iobind_binding *binding; /* a reference is held */
  const iobind_device *ordered;
  iobind__point *points[]; /* of the inputs' events when the run was submitted; references are held */
} run_task;

static void free_run(iobind__task *task) {
  run_task *self = (run_task *)task;
  for (size_t i = 0; i < self->binding->session->input_count; i++) {
    iobind__point_release(self->points[i]);
  }
  iobind__ref_release(&self->binding->ref);
  free(self);
}

static iobind_status work(iobind__task *task, const iobind_error *failure, iobind_error *error) {
  const run_task *self = (const run_task *)task;
  iobind_binding *binding = self->binding;
  iobind_status status;
  if (failure != NULL) {
    status = iobind__error_copy(error, failure);
  } else {
    status = await_producers(binding, NULL, self->points, error);
  }
  if (status == IOBIND_OK) {
    status = execute_serial(binding, binding->run_options, NULL, self->ordered, error);
  }
  if (status != IOBIND_OK) {
    binding->failure = *error;
  }
  leave(binding);
  return status;
}

static run_task *make_task(iobind_binding *binding, const iobind_device *ordered) {
  size_t inputs = binding->session->input_count;
  run_task *self = calloc(1, sizeof *self + inputs * sizeof self->points[0]);
  if (self == NULL) {
    return NULL;
  }
  self->task.run = work;
  self->task.destroy = free_run;
  self->binding = binding;
  iobind__ref_retain(&binding->ref);
  self->ordered = ordered;
  for (size_t i = 0; i < inputs; i++) {
    self->points[i] = binding->inputs[i].event == NULL ? NULL : iobind__event_point(binding->inputs[i].event);
  }
  return self;
}

static iobind_status run_by_worker(iobind_binding *binding, iobind_stream *stream, iobind_error *error) {
  IOBIND__TRY(begin_serial(binding, error));
  run_task *task = make_task(binding, stream->device);
  if (task == NULL) {
    return iobind__out_of_memory(error, "binding_run");
  }
  iobind__ticket ticket;
  iobind_status status = iobind__stream_submit(stream, &task->task, &ticket, error);
  if (status != IOBIND_OK) {
    free_run(&task->task);
    return status;
  }
  take_off(binding, stream, ticket);
  return IOBIND_OK;
}

static iobind_status check_stream(const iobind_binding *binding, const iobind_stream *stream, const iobind_event *event,
                                  iobind_error *error) {
  const iobind_device *device = stream != NULL ? stream->device : event != NULL ? event->device : NULL;
  if (stream != NULL && event != NULL && stream->device != event->device) {
    return iobind__fail(error, IOBIND_DEVICE, "binding_run: expected an event of '%s' as the stream, got one of '%s'",
                        stream->device->spec, event->device->spec);
  }
  if (device != NULL && !iobind__session_has_device(binding->session, device)) {
    return iobind__fail(error, IOBIND_DEVICE, "binding_run: the %s is of '%s', which is not a device of the session",
                        stream != NULL ? "stream" : "event", device->spec);
  }
  return IOBIND_OK;
}

/* Take the binding for a run; INVALID_STATE where another one has it. */
static inline iobind_status enter(iobind_binding *binding, iobind_error *error) {
  if (binding->flight.stream != NULL) {
    IOBIND__TRY(iobind__binding_check_idle(binding, "binding_run", error));
  }
  int idle = IOBIND__IDLE;
  if (!atomic_compare_exchange_strong(&binding->state, &idle, IOBIND__RUNNING)) {
    return iobind__fail(error, IOBIND_INVALID_STATE, "binding_run: a run of this binding is under way: wait for it first");
  }
  return IOBIND_OK;
}

static iobind_status run_on(iobind_binding *binding, iobind_stream *stream, iobind_error *error) {
  IOBIND__TRY(enter(binding, error));
  bool by_worker = !iobind__stream_orders_calls(stream);
  iobind_status status = by_worker                             ? run_by_worker(binding, stream, error)
                         : binding->stream_run_options == NULL ? run_behind(binding, stream, error)
                                                               : run_on_device(binding, stream, error);
  if (!by_worker || status != IOBIND_OK) {
    leave(binding);
  }
  return status;
}

static iobind_status run_at_once(iobind_binding *binding, iobind_error *error) {
  IOBIND__TRY(enter(binding, error));
  iobind_status status = run_now(binding, error);
  leave(binding);
  return status;
}

static iobind_status run_with_event(iobind_binding *binding, iobind_stream *stream, iobind_event *event, iobind_error *error) {
  iobind__point *point = NULL;
  IOBIND__TRY(check_stream(binding, stream, event, error));
  IOBIND__TRY(stream == NULL ? run_at_once(binding, error) : run_on(binding, stream, error));
  if (event != NULL) {
    iobind_status status = stream == NULL ? IOBIND_OK : iobind__point_make(stream, &point, error);
    if (status != IOBIND_OK) {
      (void)iobind__binding_land(binding, NULL); /* nobody could tell when the run is over */
      iobind__binding_lose(binding);
      return status;
    }
    iobind__event_set(event, point);
  }
  return IOBIND_OK;
}

iobind_status iobind_binding_run(iobind_binding *binding, iobind_stream *stream, iobind_event *event, iobind_error *error) {
  if (binding == NULL) {
    return iobind__fail(error, IOBIND_INVALID_ARGUMENT, "binding_run: binding is NULL");
  }
  return stream == NULL && event == NULL ? run_at_once(binding, error) : run_with_event(binding, stream, event, error);
}
