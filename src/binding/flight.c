/* The runs of a binding that are in flight: its run state, and the stream that they are on. */
#include <sched.h>

#include "binding/run.h"

/* ---- the run state ---- */

/* The terminate flag of a run that was cancelled must not reach the next one. */
static void unset_terminate(iobind_binding *binding) {
  const OrtApi *api = IOBIND__API(binding->session->runtime);
  iobind__ort_ignore(api, api->RunOptionsUnsetTerminate(binding->settings.ort.now));
  if (binding->settings.ort.queued != NULL) {
    iobind__ort_ignore(api, api->RunOptionsUnsetTerminate(binding->settings.ort.queued));
  }
}

/* Change the run state from `from`, and keep the bit MEETS. */
static void change_state(iobind_binding *binding, uint64_t from, uint64_t to) {
  atomic_fetch_add(&binding->flight.state, to - from);
}

bool iobind__run_goes_on(iobind_binding *binding) {
  while (atomic_load(&binding->flight.state) % IOBIND__RUN_STATES == IOBIND__CANCELLING) {
    sched_yield();
  }
  bool cancelled = iobind__run_is_cancelled(binding);
  if (cancelled) {
    unset_terminate(binding);
  }
  return cancelled;
}

void iobind__run_leave_from(iobind_binding *binding, uint64_t state, uint64_t next) {
  bool has_left = false;
  while (!has_left) {
    const uint64_t meets = state & IOBIND__MEETS;
    if (state % IOBIND__RUN_STATES == IOBIND__CANCELLED) {
      unset_terminate(binding);
      change_state(binding, IOBIND__CANCELLED, IOBIND__IDLE);
      return;
    }
    if (state % IOBIND__RUN_STATES == IOBIND__CANCELLING) {
      sched_yield(); /* another thread is between two instructions, and its cancel may fail */
      state = atomic_load(&binding->flight.state);
    } else {
      has_left = atomic_compare_exchange_weak(&binding->flight.state, &state, next + meets);
    }
  }
}

static iobind_status refuse_busy(iobind_error *error) {
  return iobind__fail(error, IOBIND_ERROR_INVALID_STATE, "binding_run: a run of this binding is in flight: wait for it first");
}

iobind_status iobind__run_enter_from(iobind_binding *binding, uint64_t state, iobind_error *error) {
  bool has_entered = false;
  while (!has_entered && state % IOBIND__RUN_STATES == IOBIND__IDLE) {
    has_entered = atomic_compare_exchange_weak(&binding->flight.state, &state, IOBIND__RUNNING + (state & IOBIND__MEETS));
  }
  return has_entered ? IOBIND_OK : refuse_busy(error);
}

/* ---- other work that uses the same memory ---- */

iobind_status iobind__run_settle(iobind_binding *binding, iobind_error *error) {
  const uint64_t meets = IOBIND__MEETS;
  iobind_status status = IOBIND_OK;
  if ((atomic_load(&binding->flight.state) & meets) == 0) {
    return IOBIND_OK;
  }
  atomic_fetch_and(&binding->flight.state,
                   ~meets); /* before the check, so that work submitted after it is found by the next one */
  for (size_t i = 0; i < iobind__holder_count(binding->session) && status == IOBIND_OK; i++) {
    status = iobind__tensor_settle_held(&binding->held.list[i], error);
  }
  if (status != IOBIND_OK) {
    iobind__flight_meet(&binding->flight);
  }
  return status;
}

/* ---- runs on a stream, whose completion the host has not seen ---- */

void iobind__binding_fail(iobind_binding *binding, const iobind_error *failure) {
  iobind__results_drop(binding, NULL);
  binding->results.state = IOBIND__RESULTS_FAILED;
  binding->results.failure = *failure;
  for (size_t i = 0; i < binding->carry_count; i++) {
    iobind__input_drop_result(&binding->inputs[binding->carries[i].input]);
  }
}

/* Leave the failure to reads of the caller's tensors that the run was to write, unless another call returns it first. */
static void leave_to_readers(iobind_binding *binding) {
  for (size_t i = 0; i < binding->session->output_count; i++) {
    iobind_tensor *target = binding->outputs[i].target;
    iobind_tensor *written = target != NULL ? target : *iobind__output_shown(binding, i);
    if (written != NULL) {
      iobind__tensor_use_at(written, binding->flight.stream, binding->flight.ticket, IOBIND__WRITE);
    }
  }
}

void iobind__flight_poll(iobind_binding *binding) {
  iobind__flight *flight = &binding->flight;
  if (flight->stream == NULL || !iobind__stream_seen(flight->stream, flight->end)) {
    return;
  }
  iobind_error failure = IOBIND_ERROR_INIT;
  bool has_failed = iobind__stream_outcome(flight->stream, flight->ticket, &failure) != IOBIND_OK;
  iobind__lengths_note_end(binding, has_failed);
  if (has_failed) {
    if (iobind__stream_owes(flight->stream, flight->ticket)) {
      leave_to_readers(binding);
    }
    if (iobind__stream_orders_calls(flight->stream)) { /* a worker's thread has marked the states */
      iobind__carry_note_flight(binding, flight->ticket != flight->first);
    }
    iobind__binding_fail(binding, &failure);
  }
  iobind__ref_release(&iobind__flight_end(flight)->ref);
}

iobind_status iobind__flight_wait(iobind_binding *binding, iobind_error *error) {
  const iobind__flight *flight = &binding->flight;
  if (flight->stream == NULL) {
    return IOBIND_OK;
  }
  if (flight->end != flight->ticket) { /* its failure is that of a state's copy, and not of the run */
    (void)iobind__stream_wait_ticket(flight->stream, flight->end, NULL);
  }
  return iobind__stream_wait_ticket(flight->stream, flight->ticket, error);
}

iobind_status iobind__binding_check_idle(iobind_binding *binding, const char *what, iobind_error *error) {
  iobind__flight_poll(binding);
  if (iobind__flight_runs(&binding->flight)) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_STATE, "%s: a run of this binding is in flight: wait for it first", what);
  }
  if (binding->flight.stream != NULL) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_STATE,
                        "%s: a run of this binding is in flight: wait for its event or synchronize its stream first", what);
  }
  return IOBIND_OK;
}

/* ---- announce ---- */

iobind_status iobind_binding_announce_run(iobind_binding *binding, int32_t comes, iobind_error *error) {
  IOBIND__TRY(iobind__null_check(binding, "binding", "binding_announce_run", error));
  IOBIND__TRY(iobind__process_check("binding_announce_run", error));
  if (comes != 0) {
    IOBIND__TRY(iobind__binding_check_idle(binding, "binding_announce_run", error));
    IOBIND__TRY(iobind__named(iobind__run_enter(binding, error), error, "binding_announce_run"));
    atomic_store(&binding->flight.is_announced, true);
  } else if (atomic_exchange(&binding->flight.is_announced, false)) {
    iobind__run_leave(binding, IOBIND__IDLE);
  }
  return IOBIND_OK;
}

/* ---- cancel ---- */

iobind_status iobind_binding_cancel(iobind_binding *binding, iobind_error *error) {
  IOBIND__TRY(iobind__null_check(binding, "binding", "binding_cancel", error));
  IOBIND__TRY(iobind__process_check("binding_cancel", error));
  /* the run cannot end, and its options cannot be freed, between these two states */
  uint64_t state = IOBIND__RUNNING;
  while (!atomic_compare_exchange_weak(&binding->flight.state, &state, IOBIND__CANCELLING + (state & IOBIND__MEETS))) {
    if ((state & ~(uint64_t)IOBIND__MEETS) != IOBIND__RUNNING) {
      return IOBIND_OK;
    }
  }
  const OrtApi *api = IOBIND__API(binding->session->runtime);
  OrtStatus *status = api->RunOptionsSetTerminate(binding->settings.ort.now);
  if (status == NULL && binding->settings.ort.queued != NULL) {
    status = api->RunOptionsSetTerminate(binding->settings.ort.queued);
  }
  iobind_status result = IOBIND_OK;
  if (status != NULL) {
    unset_terminate(binding);
    result = iobind__ort_fail(api, status, error, "binding_cancel");
  }
  change_state(binding, IOBIND__CANCELLING,
               result == IOBIND_OK ? IOBIND__CANCELLED : IOBIND__RUNNING); /* it can be tried again */
  return result;
}
