/* ORT's call of a run, and what its outcome means. */
#include "binding/run.h"

/* The outputs with preallocated memory: ORT 1.24 does not report which of them did not fit. */
static void name_held_outputs(const iobind_binding *binding, iobind__text *names) {
  for (size_t i = 0; i < binding->session->output_count; i++) {
    const iobind__output *output = &binding->outputs[i];
    if (iobind__output_is_given(output) || output->mode == IOBIND__OUTPUT_REUSE) {
      iobind__text_add(names, "%s'%s'", names->length == 0 ? "" : ", ", binding->session->outputs[i].label);
    }
  }
}

/* Wait for the devices with the quirk QUEUES. Not for `ordered`, on whose stream the run is: its queue keeps the order. */
static iobind_status wait_for_devices(const iobind_binding *binding, const iobind_device *ordered, iobind_error *error) {
  const iobind_session *session = binding->session;
  for (size_t i = 0; i < session->device_count; i++) {
    iobind_device *device = session->devices[i];
    IOBIND__TRY(device == ordered ? IOBIND_OK : iobind__device_wait(device, error));
  }
  return IOBIND_OK;
}

/* After a failure ORT does not wait for the work that it has submitted. This waits for whole devices, which is right only here:
 * other failures there belong to the same run. If the run is on a stream, the caller that submits waits for that. */
static void wait_after_failure(iobind_binding *binding) {
  const iobind__side *side = iobind__side_of_turn(binding);
  const OrtApi *api = IOBIND__API(binding->session->runtime);
  if (side->binding != NULL && !binding->arrays.in_use) {
    iobind__ort_ignore(api, api->SynchronizeBoundOutputs(side->binding));
  }
  (void)wait_for_devices(binding, NULL, NULL);
}

/* A failure for which an output's memory may be the reason: it is preallocated, and the run's output has another shape. */
static iobind_status outputs_failed(const iobind_binding *binding, OrtStatus *failed, iobind__ort_reason reason,
                                    iobind_error *error) {
  const OrtApi *api = IOBIND__API(binding->session->runtime);
  iobind_status status;
  iobind__text names = {0};
  name_held_outputs(binding, &names);
  if (reason == IOBIND__ORT_WRONG_SHAPE) {
    status = iobind__ort_fail_as(
        api, failed, IOBIND_ERROR_SHAPE, error,
        "binding_run: output %s: expected the bound shape, got another one: use FRESH, which allows any shape",
        names.length == 0 ? "of a node" : iobind__text_get(&names));
  } else if (names.length > 0) {
    status = iobind__ort_fail(
        api, failed, error,
        "binding_run: output %s may not have the bound shape (the execution provider does not report why it failed): use "
        "FRESH, which allows any shape",
        iobind__text_get(&names));
  } else {
    status = iobind__ort_fail(api, failed, error, "binding_run");
  }
  iobind__text_free(&names);
  return status;
}

/* Was it cancelled by the options that ORT's run reads? A run of a graph has its own options. */
static inline bool is_cancelled(const iobind_binding *binding, const OrtRunOptions *options) {
  return iobind__run_is_cancelled(binding) && (options == binding->settings.ort.now || options == binding->settings.ort.queued);
}

iobind_status iobind__call_cancelled(iobind_error *error) {
  return iobind__fail(error, IOBIND_ERROR_CANCELLED, "binding_run: cancelled by iobind_binding_cancel");
}

iobind_status iobind__call_failed(iobind_binding *binding, const OrtRunOptions *options, OrtStatus *failed,
                                  const iobind_stream *stream, iobind_error *error) {
  const OrtApi *api = IOBIND__API(binding->session->runtime);
  bool cancelled = is_cancelled(binding, options);
  iobind__ort_reason reason = iobind__ort_reason_of(api, failed);
  iobind_status status;
  if (cancelled) {
    api->ReleaseStatus(failed);
    status = iobind__call_cancelled(error);
  } else if (reason == IOBIND__ORT_WRONG_SHAPE || reason == IOBIND__ORT_WORDS_LOST) {
    status = outputs_failed(binding, failed, reason, error);
  } else {
    status = iobind__ort_fail(api, failed, error, "binding_run");
  }
  if (stream == NULL) {
    wait_after_failure(binding);
  }
  iobind__carry_note_failure(binding);
  iobind__side_forget_outputs(binding, iobind__side_of_turn(binding));
  return status;
}

/* What must be checked or done after some runs. A cancelled run has failed, although ORT returns OK: the cancel came too late, or ORT has
 * skipped nodes without an error (observed with 1.31). */
static iobind_status finish(iobind_binding *binding, const iobind__execution *how, iobind_error *error) {
  iobind_status status = is_cancelled(binding, how->options) ? iobind__call_cancelled(error) : IOBIND_OK;
  if (status == IOBIND_OK && !binding->plan.is_seen) {
    status = iobind__results_verify(binding, error);
  }
  if (status == IOBIND_OK && binding->plan.copied_count > 0) {
    status = iobind__results_copy(binding, how->stream, error);
  }
  iobind_status waited = wait_for_devices(binding, how->device, status == IOBIND_OK ? error : NULL);
  status = status == IOBIND_OK ? waited : status;
  if (status != IOBIND_OK) {
    iobind__results_drop(binding, NULL);
    iobind__carry_note_failure(binding);
  }
  return status;
}

iobind_status iobind__call(iobind_binding *binding, const iobind__execution *how, iobind__ort_reason *reason,
                           iobind_error *error) {
  const iobind_session *session = binding->session;
  const OrtApi *api = IOBIND__API(session->runtime);
  bool by_arrays = binding->arrays.in_use;
  binding->flight.has_uncounted = binding->flight.has_uncounted || !how->is_counted;
  OrtStatus *failed = by_arrays ? iobind__arrays_run(binding, how->options)
                                : api->RunWithBinding(session->session, how->options, iobind__side_of_turn(binding)->binding);
  if (failed != NULL) {
    *reason = iobind__ort_reason_of(api, failed);
    return iobind__call_failed(binding, how->options, failed, how->stream, error);
  }
  binding->results.state = by_arrays ? IOBIND__RESULTS_READY : IOBIND__RESULTS_HELD;
  if (!binding->plan.is_seen || binding->plan.copied_count > 0 || session->has_queue || is_cancelled(binding, how->options)) {
    IOBIND__TRY(finish(binding, how, error));
  }
  return IOBIND_OK;
}
