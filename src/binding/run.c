/* The run of a binding that is complete on return, and the steps that all runs share. */
#include "binding/run.h"

/* ---- before ORT's run ---- */

/* Bring ORT's binding, or the arrays, in line with the table. */
static iobind_status prepare(iobind_binding *binding, iobind_error *error) {
  iobind__side *side = iobind__side_of_turn(binding);
  bool differs = side->generation != binding->generation;
  IOBIND__TRY(iobind__plan_is_valid(binding) ? IOBIND_OK : iobind__plan_compile(binding, error));
  if (binding->carry_count > 0 && differs) {
    IOBIND__TRY(iobind__carry_prepare(binding, error));
  }
  IOBIND__TRY(iobind__arrays_choose(binding, error));
  if (binding->arrays.in_use) {
    return IOBIND_OK;
  }
  return differs ? iobind__side_compare(binding, side, error) : iobind__side_refresh(binding, error);
}

bool iobind__run_is_steady(const iobind_binding *binding, const iobind_stream *busy) {
  return binding->carry_count == 0 && busy == NULL && binding->results.state != IOBIND__RESULTS_READY &&
         iobind__plan_is_valid(binding) && binding->plan.fresh_count == 0 &&
         binding->sides[binding->turn].generation == binding->generation;
}

static iobind_status begin(iobind_binding *binding, iobind_stream *busy, iobind_error *error) {
  if (binding->carry_count > 0) {
    IOBIND__TRY(iobind__carry_advance(binding, busy, error));
  }
  if (busy != NULL || binding->results.state == IOBIND__RESULTS_READY) {
    iobind__results_drop(binding, busy);
  }
  binding->results.state = IOBIND__RESULTS_NONE;
  const iobind__side *side = iobind__side_of_turn(binding);
  if (!iobind__plan_is_valid(binding) || side->generation != binding->generation) {
    return prepare(binding, error);
  }
  if (binding->plan.fresh_count == 0) {
    return IOBIND_OK;
  }
  /* without a carry, a side that is in line with the table means that the last run was not made by arrays */
  return binding->carry_count == 0 ? iobind__side_refresh(binding, error) : prepare(binding, error);
}

static iobind_status begin_inside(iobind_binding *binding, iobind_stream *busy, iobind_error *error) {
  iobind__scope scope;
  IOBIND__TRY(iobind__guard_enter(binding->session->guard, &scope, error));
  return iobind__guard_end(&scope, begin(binding, busy, error), error);
}

iobind_status iobind__run_begin(iobind_binding *binding, iobind_stream *busy, iobind_error *error) {
  if (!iobind__run_is_steady(binding, busy)) {
    return begin_inside(binding, busy, error);
  }
  binding->results.state = IOBIND__RESULTS_NONE;
  return IOBIND_OK;
}

iobind_status iobind__run_await(const iobind_binding *binding, iobind_stream *stream, iobind__point *const *points,
                                iobind_error *error) {
  for (size_t i = 0; binding->plan.has_waits && i < binding->session->input_count; i++) {
    const iobind__input *input = &binding->inputs[i];
    if (points != NULL) { /* in a stream's thread: no call returns the failure, but the run gets it */
      IOBIND__TRY(iobind__point_pass(points[i], error));
    } else if (input->event != NULL) {
      IOBIND__TRY(iobind__stream_order_event(stream, input->event, error));
    }
  }
  return IOBIND_OK;
}

/* ---- ORT's call, and what its outcome means ---- */

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

/* An output's memory may be the reason: it is preallocated, and the run's output has another shape. */
static iobind_status ort_failed(const iobind_binding *binding, OrtStatus *failed, iobind_error *error) {
  const OrtApi *api = IOBIND__API(binding->session->runtime);
  iobind__ort_reason reason = iobind__ort_reason_of(api, failed);
  iobind_status status;
  iobind__text names = {0};
  if (reason == IOBIND__ORT_WRONG_SHAPE || reason == IOBIND__ORT_WORDS_LOST) {
    name_held_outputs(binding, &names);
  }
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
  iobind_status status;
  if (is_cancelled(binding, options)) {
    IOBIND__API(binding->session->runtime)->ReleaseStatus(failed);
    status = iobind__call_cancelled(error);
  } else {
    status = ort_failed(binding, failed, error);
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

/* ---- the run ---- */

/* Copy the inputs that are copied before each run. */
static iobind_status load_live_inputs(const iobind_binding *binding, iobind_stream *stream, iobind_error *error) {
  for (size_t i = 0; i < binding->session->input_count; i++) {
    const iobind__input *input = &binding->inputs[i];
    if (input->source != NULL) {
      IOBIND__TRY(iobind__tensor_copy_one(iobind__verified_source(binding, i), input->bound, stream, error));
      /* if the run reads the copy on the host, it must have arrived before the run is submitted */
      IOBIND__TRY(stream != NULL && input->bound->place->host
                      ? iobind__tensor_settle_for(input->bound, IOBIND__READ, &binding->flight, error)
                      : IOBIND_OK);
    }
  }
  return IOBIND_OK;
}

/* With the EP entered. */
static iobind_status execute(iobind_binding *binding, const iobind__execution *how, iobind__ort_reason *reason,
                             iobind_error *error) {
  if (binding->plan.has_waits) {
    IOBIND__TRY(load_live_inputs(binding, how->stream, error));
  }
  IOBIND__TRY(iobind__call(binding, how, reason, error));
  if (binding->carry_count > 0) {
    iobind__carry_note_run(binding);
  }
  return IOBIND_OK;
}

/* An EP that waits in the middle of a run may report a failure of earlier work there, and only once. */
__attribute__((noinline)) static void suspect_earlier(iobind_stream *stream, const iobind_error *failure) {
  iobind_error reason = IOBIND_ERROR_INIT;
  iobind__error_set(&reason, IOBIND_ERROR_RUNTIME, failure->ort_code,
                    "a later run on '%s', which waited for this work, failed: %s", stream->device->spec,
                    iobind__error_text(failure));
  iobind__stream_suspect(stream, &reason);
}

/* On a stream `error` is not NULL. */
__attribute__((always_inline)) static inline iobind_status execute_inside(iobind_binding *binding, iobind__graph *graph,
                                                                          iobind__execution how, iobind_error *error) {
  iobind_session *session = binding->session;
  iobind_status status = IOBIND_OK;
  iobind__ort_reason reason = IOBIND__ORT_OTHER;
  iobind__session_enter(session);
  if (binding->graphs != NULL) {
    status = iobind__graphs_choose(binding, graph, &how, error);
  }
  if (status == IOBIND_OK) {
    iobind__scope scope;
    status = iobind__guard_enter(session->inside, &scope, error);
    status = status == IOBIND_OK ? execute(binding, &how, &reason, error) : status;
    status = iobind__guard_end(&scope, status, error);
    if (reason == IOBIND__ORT_COPY_FAILED && how.stream != NULL) {
      suspect_earlier(how.stream, error);
    }
  }
  iobind__session_leave(session);
  return status;
}

/* A run with some of the plan's checks. */
__attribute__((noinline)) static iobind_status execute_checked(iobind_binding *binding, unsigned checks, iobind__graph *graph,
                                                               const iobind__execution *how, iobind_error *error) {
  bool is_verified = (checks & IOBIND__CHECK_RESULTS) != 0;
  IOBIND__TRY((checks & IOBIND__CHECK_LENGTHS) != 0 ? iobind__overflow_check(binding, how->is_counted, error) : IOBIND_OK);
  iobind_status status = is_verified ? iobind__verified_begin(binding, how->stream, error) : IOBIND_OK;
  if (status == IOBIND_OK) {
    status = execute_inside(binding, graph, *how, error);
  }
  return is_verified ? iobind__verified_end(binding, how->stream, status, error) : status;
}

__attribute__((always_inline)) static inline iobind_status execute_found(iobind_binding *binding, const iobind__execution *how,
                                                                         iobind_error *error) {
  iobind__graph *graph = NULL;
  unsigned checks = binding->plan.checks;
  if (binding->graphs != NULL) {
    IOBIND__TRY(iobind__graphs_find(binding, how->stream, &graph, error));
    checks |= graph == NULL && binding->verified != NULL ? IOBIND__CHECK_RESULTS : 0U; /* it is captured now */
  }
  return checks != 0 ? execute_checked(binding, checks, graph, how, error) : execute_inside(binding, graph, *how, error);
}

iobind_status iobind__run_execute(iobind_binding *binding, const iobind__execution *how, iobind_error *error) {
  return execute_found(binding, how, error);
}

static iobind_status run(iobind_binding *binding, iobind__order order, iobind_error *error) {
  iobind_stream *own = iobind__compute_given(&binding->session->compute);
  if (own != NULL) {
    return iobind__queue_and_wait(binding, own, order, error);
  }
  IOBIND__TRY(binding->session->compute.stream == NULL ? IOBIND_OK : iobind__compute_await(&binding->session->compute, error));
  IOBIND__TRY(iobind__run_begin(binding, NULL, error));
  IOBIND__TRY(iobind__run_await(binding, NULL, NULL, error));
  IOBIND__TRY(order == IOBIND__SETTLED ? iobind__run_settle(binding, error) : IOBIND_OK); /* after the states are bound, too */
  const iobind__execution how = {binding->settings.ort.now, NULL, NULL, iobind__lengths_are_counted(binding)};
  iobind_status status = execute_found(binding, &how, error);
  if (status != IOBIND_OK) {
    iobind__lengths_note_failure(binding);
    return status;
  }
  iobind__lengths_note_run(binding);
  return IOBIND_OK;
}

/* With the run state entered. An announced run may have been cancelled before it begins. */
static iobind_status run_entered(iobind_binding *binding, iobind__order order, iobind_error *error) {
  if (iobind__run_is_cancelled(binding)) {
    return iobind__call_cancelled(error);
  }
  IOBIND__TRY(iobind__lengths_begin(binding, error));
  return run(binding, order, error);
}

iobind_status iobind__run_now(iobind_binding *binding, iobind__order order, iobind_error *error) {
  if (binding->flight.stream != NULL) {
    IOBIND__TRY(iobind__binding_check_idle(binding, "binding_run", error));
  }
  bool is_announced = order == IOBIND__SETTLED && atomic_exchange(&binding->flight.is_announced, false);
  IOBIND__TRY(is_announced ? IOBIND_OK : iobind__run_enter(binding, error)); /* if announced, it is already entered */
  iobind_status status = run_entered(binding, order, error);
  iobind__run_leave(binding, status == IOBIND_OK ? iobind__armed_key(binding) : IOBIND__IDLE);
  return status;
}
