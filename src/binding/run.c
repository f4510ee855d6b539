/* Running a binding: check once after a change, then nothing but ORT's run. */
#include <sched.h>
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
    IOBIND__TRY(agree_symbols(binding, &session->inputs[i], binding->inputs[i].bound, i, error));
  }
  bool any = false;
  for (size_t i = 0; i < session->output_count; i++) {
    const iobind__output_slot *slot = &binding->outputs[i];
    any = any || slot->mode != IOBIND_OUTPUT_NONE;
    if (iobind__output_is_given(slot->mode)) {
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
  slot->renew = false;
  return IOBIND_OK;
}

static iobind_status bind_inputs(iobind_binding *binding, iobind_error *error) {
  const iobind_session *session = binding->session;
  const OrtApi *api = IOBIND__API(session->runtime);
  for (size_t i = 0; i < session->input_count; i++) {
    iobind__input_slot *slot = &binding->inputs[i];
    if (!slot->changed) {
      continue;
    }
    OrtStatus *status = api->BindInput(binding->binding, session->inputs[i].name, slot->bound->value);
    if (status != NULL) {
      /* ORT's binding is poisoned by a failure: empty it, so that the next run binds all anew */
      api->ClearBoundInputs(binding->binding);
      for (size_t j = 0; j < session->input_count; j++) {
        binding->inputs[j].changed = true;
      }
      return iobind__ort_fail(api, status, error, "binding_run: input '%s'", session->inputs[i].name);
    }
    slot->changed = false;
  }
  binding->inputs_changed = false;
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
  binding->outputs_changed = false;
  return IOBIND_OK;
}

/* New memory for the outputs that need it: ORT reuses what an output holds. */
static iobind_status renew_outputs(iobind_binding *binding, iobind_error *error) {
  for (size_t i = 0; i < binding->order_count; i++) {
    const iobind__output_slot *slot = &binding->outputs[binding->order[i]];
    if (slot->mode == IOBIND_OUTPUT_FRESH || (slot->mode == IOBIND_OUTPUT_REUSE && (binding->reshaped || slot->renew))) {
      IOBIND__TRY(bind_output(binding, binding->order[i], error));
    }
  }
  binding->renew = false;
  return IOBIND_OK;
}

/* Bring ORT's binding in line with our table. */
static iobind_status prepare(iobind_binding *binding, iobind_error *error) {
  if (!binding->checked) {
    IOBIND__TRY(check_complete(binding, error));
    binding->checked = true;
  }
  if (binding->inputs_changed) {
    IOBIND__TRY(bind_inputs(binding, error));
  }
  if (binding->outputs_changed) {
    IOBIND__TRY(bind_outputs(binding, error));
  } else {
    IOBIND__TRY(renew_outputs(binding, error));
  }
  binding->reshaped = false;
  return IOBIND_OK;
}

/* Inputs that are copied, or whose producer is waited for, before the run. */
static iobind_status bring_inputs(iobind_binding *binding, iobind_stream *stream, iobind_error *error) {
  for (size_t i = 0; i < binding->session->input_count; i++) {
    const iobind__input_slot *slot = &binding->inputs[i];
    if (slot->event != NULL) {
      IOBIND__TRY(iobind__event_order(slot->event, slot->bound->place->device, error));
    }
    if (slot->source != NULL) {
      IOBIND__TRY(iobind__tensor_copy_one(slot->source, slot->bound, stream, error));
    }
  }
  return IOBIND_OK;
}

/* ORT's words where a FIXED output's shape came out otherwise. */
static bool is_shape_mismatch(const char *message) {
  return strstr(message, "but the computed output shape") != NULL || strstr(message, "OrtValue provided") != NULL ||
         strstr(message, "shape verification failed") != NULL; /* ORT 1.24 */
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
  } else if (is_shape_mismatch(api->GetErrorMessage(failed))) {
    iobind__text names = {0};
    name_held_outputs(binding, &names);
    (void)iobind__ort_fail(api, failed, error, "binding_run: output %s: not the shape that is bound",
                           names.length == 0 ? "of a node" : iobind__text_get(&names));
    iobind__text_free(&names);
    status = IOBIND_SHAPE;
    if (error != NULL) {
      error->status = (int32_t)status;
    }
  } else {
    status = iobind__ort_fail(api, failed, error, "binding_run");
  }
  /* what ORT's binding holds after a failure is not known: bind the outputs anew */
  binding->outputs_changed = true;
  return status;
}

static iobind_status run(iobind_binding *binding, iobind_stream *stream, iobind_error *error) {
  iobind_session *session = binding->session;
  const OrtApi *api = IOBIND__API(session->runtime);
  iobind__results_drop(binding);
  binding->has_results = false;
  if (!binding->checked || binding->inputs_changed || binding->outputs_changed || binding->has_fresh || binding->reshaped ||
      binding->renew) {
    IOBIND__TRY(prepare(binding, error));
  }
  if (binding->has_live) {
    IOBIND__TRY(bring_inputs(binding, stream, error));
  }
  OrtStatus *failed = api->RunWithBinding(session->session, binding->run_options, binding->binding);
  if (failed != NULL) {
    return run_failed(binding, failed, error);
  }
  binding->holds_outputs = true;
  if (!binding->verified) {
    IOBIND__TRY(iobind__results_verify(binding, &binding->verified, error));
  }
  if (binding->has_passed_through) {
    IOBIND__TRY(iobind__results_copy_passed_through(binding, error));
  }
  if (stream == NULL || session->queued_count > 1) {
    for (size_t i = 0; session->queued != NULL && i < session->device_count; i++) {
      IOBIND__TRY(iobind__device_wait(session->devices[i], error));
    }
  }
  binding->has_results = true;
  return IOBIND_OK;
}

/* An event of another device cannot wait for the queued one, so the run is waited for here. */
static iobind_status record(const iobind_binding *binding, iobind_event *event, bool finished, iobind_error *error) {
  iobind_device *queued = binding->session->queued;
  if (!finished && queued != NULL && queued != event->device) {
    IOBIND__TRY(iobind__device_wait(queued, error));
    finished = true;
  }
  iobind__event_record_run(event, finished);
  return IOBIND_OK;
}

/* Leave the running state; the terminate flag of a cancelled run must not reach the next one. */
static void leave(iobind_binding *binding) {
  int state = IOBIND__RUNNING;
  while (!atomic_compare_exchange_weak(&binding->state, &state, IOBIND__IDLE)) {
    if (state == IOBIND__CANCELLED) {
      const OrtApi *api = IOBIND__API(binding->session->runtime);
      OrtStatus *status = api->RunOptionsUnsetTerminate(binding->run_options);
      if (status != NULL) {
        api->ReleaseStatus(status);
      }
      atomic_store(&binding->state, IOBIND__IDLE);
      return;
    }
    if (state == IOBIND__CANCELLING) {
      sched_yield(); /* another thread is between two instructions */
    }
    state = IOBIND__RUNNING;
  }
}

iobind_status iobind_binding_run(iobind_binding *binding, iobind_stream *stream, iobind_event *event, iobind_error *error) {
  if (binding == NULL) {
    return iobind__fail(error, IOBIND_INVALID_ARGUMENT, "binding_run: binding is NULL");
  }
  if (stream != NULL && !iobind__session_has_device(binding->session, stream->device)) {
    return iobind__fail(error, IOBIND_DEVICE, "binding_run: the stream is of '%s', which is not a device of the session",
                        stream->device->spec);
  }
  if (event != NULL && !iobind__session_has_device(binding->session, event->device)) {
    return iobind__fail(error, IOBIND_DEVICE, "binding_run: the event is of '%s', which is not a device of the session",
                        event->device->spec);
  }
  int idle = IOBIND__IDLE;
  if (!atomic_compare_exchange_strong(&binding->state, &idle, IOBIND__RUNNING)) {
    return iobind__fail(error, IOBIND_INVALID_STATE, "binding_run: a run of this binding is under way: wait for it first");
  }
  iobind__device_enter(binding->session->serial);
  /* a run is ordered behind what is on the EP's stream by waiting for it here */
  iobind_status status = stream != NULL && stream->sync != NULL ? iobind__stream_drain(stream, error) : IOBIND_OK;
  if (status == IOBIND_OK) {
    status = run(binding, stream, error);
  }
  iobind__device_leave(binding->session->serial);
  if (status == IOBIND_OK && event != NULL) {
    status = record(binding, event, stream == NULL, error);
  }
  leave(binding);
  return status;
}
