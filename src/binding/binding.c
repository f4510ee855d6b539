/* Bindings: made, cleared, destroyed; run options; cancelling. */
#include "binding/binding.h"

#include <stdlib.h>
#include <string.h>

#include "support/options.h"

void iobind__binding_lose(iobind_binding *binding) {
  binding->has_results = false;
  for (size_t i = 0; i < binding->carry_count; i++) {
    binding->carries[i].due = false;
  }
  iobind__carry_tear(binding);
}

iobind_status iobind__binding_check_idle(iobind_binding *binding, const char *what, iobind_error *error) {
  iobind__flight *flight = &binding->flight;
  if (flight->stream != NULL && iobind__stream_seen(flight->stream, flight->ticket)) {
    iobind_error failure = IOBIND_ERROR_INIT;
    if (iobind__stream_outcome(flight->stream, flight->ticket, &failure) != IOBIND_OK) {
      binding->failure = failure; /* the EP's stream has failed after the run was submitted */
      iobind__binding_lose(binding);
    }
    iobind__ref_release(&flight->stream->ref);
    flight->stream = NULL;
  }
  if (atomic_load_explicit(&binding->state, memory_order_acquire) != IOBIND__IDLE) {
    return iobind__fail(error, IOBIND_INVALID_STATE, "%s: a run of this binding is under way: wait for it first", what);
  }
  if (flight->stream != NULL) {
    return iobind__fail(error, IOBIND_INVALID_STATE,
                        "%s: a run of this binding is under way: wait for its event or synchronize its stream first", what);
  }
  return IOBIND_OK;
}

iobind_status iobind__binding_land(iobind_binding *binding, iobind_error *error) {
  const iobind__flight *flight = &binding->flight;
  return flight->stream == NULL ? IOBIND_OK : iobind__stream_wait_ticket(flight->stream, flight->ticket, error);
}

static void clear_inputs(iobind_binding *binding) {
  for (size_t i = 0; i < binding->session->input_count; i++) {
    iobind__input_slot *slot = &binding->inputs[i];
    iobind_tensor_release(slot->bound);
    iobind_tensor_release(slot->source);
    iobind__event_release(slot->event);
    *slot = (iobind__input_slot){0};
  }
}

static void free_binding(iobind__ref *ref);

/* Does a stream still work on what is bound? Then the binding is freed when that has passed, by a second call. */
static bool retire(iobind_binding *binding) {
  iobind__flight flight = binding->flight;
  binding->flight.stream = NULL;
  /* a worker's task has held a reference until now: it is over */
  bool passed = flight.stream == NULL || !iobind__stream_orders_calls(flight.stream) ||
                iobind__stream_passed(flight.stream, flight.ticket);
  if (!passed) {
    iobind__ref_init(&binding->ref, free_binding); /* the stream's reference is now the only one */
    iobind__stream_retire(flight.stream, flight.ticket, &binding->ref);
  }
  if (flight.stream != NULL) {
    iobind__ref_release(&flight.stream->ref);
  }
  return !passed;
}

static void free_binding(iobind__ref *ref) {
  iobind_binding *binding = (iobind_binding *)ref;
  if (retire(binding)) {
    return;
  }
  const OrtApi *api = IOBIND__API(binding->session->runtime);
  iobind__results_drop(binding);
  for (size_t i = 0; binding->outputs != NULL && i < binding->session->output_count; i++) {
    iobind__carry_end(binding, i);
    iobind_tensor_release(binding->outputs[i].tensor);
  }
  for (size_t i = 0; i < 2 && binding->sides[i] != NULL; i++) {
    iobind__device_enter(binding->session->serial);
    api->ReleaseIoBinding(binding->sides[i]); /* before the tensors that it holds, and before the session */
    iobind__device_leave(binding->session->serial);
  }
  if (binding->run_options != NULL) {
    api->ReleaseRunOptions(binding->run_options);
  }
  if (binding->stream_run_options != NULL) {
    api->ReleaseRunOptions(binding->stream_run_options);
  }
  clear_inputs(binding);
  free(binding->outputs);
  free(binding->carries);
  free(binding->order);
  free(binding->symbol_values);
  free(binding->symbol_owners);
  iobind_session *session = binding->session;
  free(binding);
  iobind__ref_release(&session->ref);
}

static iobind_status fill_run_options(const OrtApi *api, const iobind_run_options *options, OrtRunOptions *out,
                                      iobind_error *error) {
  if (options->log_level != IOBIND_LOG_DEFAULT) {
    IOBIND__ORT_TRY(api, api->RunOptionsSetRunLogSeverityLevel(out, (int)iobind__log_ort_level(options->log_level)), error,
                    "binding_set_run_options");
  }
  if (options->tag != NULL) {
    IOBIND__ORT_TRY(api, api->RunOptionsSetRunTag(out, options->tag), error, "binding_set_run_options");
  }
  for (size_t i = 0; i < options->config_count; i++) {
    IOBIND__ORT_TRY(api, api->AddRunConfigEntry(out, options->config_keys[i], options->config_values[i]), error,
                    "binding_set_run_options: config entry '%s'", options->config_keys[i]);
  }
  return IOBIND_OK;
}

/* ORT's entry that makes a run return before its work is done. */
static const char unsynchronized[] = "disable_synchronize_execution_providers";

static iobind_status check_run_options(const iobind_run_options *options, iobind_error *error) {
  IOBIND__TRY(iobind__flags_check(options->flags, 0, "binding_set_run_options", error));
  if (options->log_level < IOBIND_LOG_DEFAULT || options->log_level > IOBIND_LOG_ERROR) {
    return iobind__fail(error, IOBIND_INVALID_ARGUMENT, "binding_set_run_options: log_level: expected 0 .. %d, got %d",
                        IOBIND_LOG_ERROR, options->log_level);
  }
  bool lists = options->config_keys != NULL && options->config_values != NULL;
  for (size_t i = 0; i < options->config_count; i++) {
    if (!lists || options->config_keys[i] == NULL || options->config_values[i] == NULL) {
      return iobind__fail(error, IOBIND_INVALID_ARGUMENT, "binding_set_run_options: config key or value %zu is NULL", i);
    }
    if (strcmp(options->config_keys[i], unsynchronized) == 0) {
      return iobind__fail(error, IOBIND_INVALID_ARGUMENT,
                          "binding_set_run_options: config entry '%s' is not the caller's: a run without a stream has finished "
                          "when it returns; give the run a stream",
                          unsynchronized);
    }
  }
  return IOBIND_OK;
}

static iobind_status make_run_options(const OrtApi *api, const iobind_run_options *options, OrtRunOptions **out,
                                      iobind_error *error) {
  IOBIND__ORT_TRY(api, api->CreateRunOptions(out), error, "binding_set_run_options");
  iobind_status status = fill_run_options(api, options, *out, error);
  if (status != IOBIND_OK) {
    api->ReleaseRunOptions(*out);
    *out = NULL;
  }
  return status;
}

/* On an EP's stream ORT must not wait at the end of a run. */
static iobind_status make_stream_run_options(const OrtApi *api, const iobind_run_options *options, OrtRunOptions **out,
                                             iobind_error *error) {
  IOBIND__TRY(make_run_options(api, options, out, error));
  OrtStatus *status = api->AddRunConfigEntry(*out, unsynchronized, "1");
  if (status != NULL) {
    api->ReleaseRunOptions(*out);
    *out = NULL;
    return iobind__ort_fail(api, status, error, "binding_set_run_options");
  }
  return IOBIND_OK;
}

static iobind_status replace_run_options(iobind_binding *binding, const iobind_run_options *options, iobind_error *error) {
  const OrtApi *api = IOBIND__API(binding->session->runtime);
  OrtRunOptions *run_options = NULL;
  OrtRunOptions *stream_run_options = NULL;
  IOBIND__TRY(make_run_options(api, options, &run_options, error));
  iobind_status status =
      binding->session->takes_stream ? make_stream_run_options(api, options, &stream_run_options, error) : IOBIND_OK;
  if (status != IOBIND_OK) {
    api->ReleaseRunOptions(run_options);
    return status;
  }
  if (binding->run_options != NULL) {
    api->ReleaseRunOptions(binding->run_options);
  }
  if (binding->stream_run_options != NULL) {
    api->ReleaseRunOptions(binding->stream_run_options);
  }
  binding->run_options = run_options;
  binding->stream_run_options = stream_run_options;
  return IOBIND_OK;
}

iobind_status iobind_binding_create(iobind_session *session, iobind_binding **out, iobind_error *error) {
  if (out != NULL) {
    *out = NULL;
  }
  if (session == NULL || out == NULL) {
    return iobind__fail(error, IOBIND_INVALID_ARGUMENT, "binding_create: %s is NULL", session == NULL ? "session" : "binding");
  }
  const OrtApi *api = IOBIND__API(session->runtime);
  iobind_binding *binding = calloc(1, sizeof *binding + session->input_count * sizeof binding->inputs[0]);
  if (binding == NULL) {
    return iobind__out_of_memory(error, "binding_create");
  }
  iobind__ref_init(&binding->ref, free_binding);
  binding->session = session;
  iobind__ref_retain(&session->ref);
  atomic_init(&binding->state, IOBIND__IDLE);
  binding->outputs = calloc(session->output_count + 1, sizeof *binding->outputs);
  binding->order = calloc(session->output_count + 1, sizeof *binding->order);
  binding->symbol_values = calloc(session->symbol_count + 1, sizeof *binding->symbol_values);
  binding->symbol_owners = calloc(session->symbol_count + 1, sizeof *binding->symbol_owners);
  if (binding->outputs == NULL || binding->order == NULL || binding->symbol_values == NULL || binding->symbol_owners == NULL) {
    iobind__ref_release(&binding->ref);
    return iobind__out_of_memory(error, "binding_create");
  }
  for (size_t i = 0; i < session->output_count; i++) {
    iobind__output_reset(binding, i);
  }
  OrtStatus *made = api->CreateIoBinding(session->session, &binding->sides[0]);
  binding->binding = binding->sides[0];
  binding->side = 1;
  static const iobind_run_options none = IOBIND_RUN_OPTIONS_INIT;
  iobind_status status =
      made == NULL ? replace_run_options(binding, &none, error) : iobind__ort_fail(api, made, error, "binding_create");
  if (status != IOBIND_OK) {
    iobind__ref_release(&binding->ref);
    return status;
  }
  *out = binding;
  return IOBIND_OK;
}

void iobind_binding_destroy(iobind_binding *binding) {
  if (binding != NULL) {
    iobind__ref_release(&binding->ref);
  }
}

iobind_status iobind_binding_clear(iobind_binding *binding, iobind_error *error) {
  if (binding == NULL) {
    return iobind__fail(error, IOBIND_INVALID_ARGUMENT, "binding_clear: binding is NULL");
  }
  IOBIND__TRY(iobind__binding_check_idle(binding, "binding_clear", error));
  const OrtApi *api = IOBIND__API(binding->session->runtime);
  iobind__results_drop(binding);
  binding->has_results = false;
  iobind__device_enter(binding->session->serial);
  for (size_t i = 0; i < 2 && binding->sides[i] != NULL; i++) {
    api->ClearBoundInputs(binding->sides[i]);
    api->ClearBoundOutputs(binding->sides[i]);
  }
  iobind__device_leave(binding->session->serial);
  clear_inputs(binding);
  for (size_t i = 0; i < binding->session->output_count; i++) {
    iobind__carry_end(binding, i);
    iobind__output_reset(binding, i);
  }
  return IOBIND_OK;
}

iobind_status iobind_binding_set_run_options(iobind_binding *binding, const iobind_run_options *given, iobind_error *error) {
  if (binding == NULL) {
    return iobind__fail(error, IOBIND_INVALID_ARGUMENT, "binding_set_run_options: binding is NULL");
  }
  iobind_run_options options;
  IOBIND__TRY(iobind__options_read(&options, sizeof options, sizeof options, given, "binding_set_run_options", error));
  IOBIND__TRY(check_run_options(&options, error));
  IOBIND__TRY(iobind__binding_check_idle(binding, "binding_set_run_options", error));
  return replace_run_options(binding, &options, error);
}

iobind_status iobind_binding_cancel(iobind_binding *binding, iobind_error *error) {
  if (binding == NULL) {
    return iobind__fail(error, IOBIND_INVALID_ARGUMENT, "binding_cancel: binding is NULL");
  }
  /* the run cannot end, and its options cannot go, between these two states */
  int running = IOBIND__RUNNING;
  if (!atomic_compare_exchange_strong(&binding->state, &running, IOBIND__CANCELLING)) {
    return IOBIND_OK;
  }
  const OrtApi *api = IOBIND__API(binding->session->runtime);
  OrtStatus *status = api->RunOptionsSetTerminate(binding->run_options);
  if (status == NULL && binding->stream_run_options != NULL) {
    status = api->RunOptionsSetTerminate(binding->stream_run_options);
  }
  iobind_status result = status == NULL ? IOBIND_OK : iobind__ort_fail(api, status, error, "binding_cancel");
  atomic_store(&binding->state, result == IOBIND_OK ? IOBIND__CANCELLED : IOBIND__RUNNING); /* it can be tried again */
  return result;
}
