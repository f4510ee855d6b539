/* The caller's run. If the binding is armed, nothing has changed since the last run, and the run is ORT's call alone. To keep the frames small, the
 * other ways and the failure paths are not inlined, and the caller's error is kept in the binding. */
#include "binding/run.h"
#include "ep/ranges.h"

/* ---- a replay, by the thread that has captured the graph ---- */

/* A replay acquires the turn and the gate, and no other part of the guard. */
static bool is_gate_enough(const iobind_session *session) {
  return session->guard->gated && session->guard->serial == NULL && session->guard->context == NULL;
}

/* Is the next run ORT's call alone? On another library's stream each run must wait for the work that the library has submitted. */
static bool can_replay(iobind_binding *binding) {
  const iobind_session *session = binding->session;
  bool repeats = iobind__run_is_steady(binding, NULL) && binding->results.state == IOBIND__RESULTS_HELD &&
                 binding->plan.is_seen && !binding->plan.has_waits && !session->has_queue && is_gate_enough(session) &&
                 !iobind__stream_is_foreign(session->compute.stream);
  return repeats && iobind__graphs_repeat(binding, &binding->repeat);
}

__attribute__((noinline)) static iobind_status fail_replay(iobind_binding *binding, OrtStatus *failed, iobind_error *error) {
  iobind_session *session = binding->session;
  iobind__flight_disarm(&binding->flight); /* the run continues as any other */
  iobind__gate_leave();
  iobind__scope scope;
  iobind__guard_enter_anyway(session->inside, &scope); /* what follows may enter again */
  iobind__results_drop(binding, NULL);                 /* the previous run's */
  iobind_status status = iobind__call_failed(binding, binding->repeat.options, failed, NULL, error);
  status = iobind__guard_end(&scope, status, error);
  iobind__turn_give(&session->turn);
  iobind__run_leave(binding, IOBIND__IDLE);
  return iobind__named(status, error, "binding_run");
}

/* Only in a debug build, like check_armed: does ORT's binding still have what the graph was captured with? */
static inline iobind_status check_replay(const iobind_binding *binding) {
#if defined(NDEBUG)
  (void)binding;
  return IOBIND_OK;
#else
  const iobind__side *side = &binding->sides[binding->turn];
  bool holds = iobind__run_is_steady(binding, NULL) && iobind__side_holds(binding, side) && side->graph != NULL &&
               side->graph->options.now == binding->repeat.options;
  return holds ? IOBIND_OK
               : iobind__fail(binding->repeat.error, IOBIND_ERROR_INTERNAL,
                              "binding_run: the binding has changed, and a replay is still armed");
#endif
}

/* Enter the run state. */
static inline bool enter_replay(iobind_binding *binding) {
  uint64_t offered = iobind__thread;
  return atomic_compare_exchange_strong(&binding->flight.state, &offered, offered + IOBIND__RUNNING);
}

/* All of a steady replay, whose instructions are counted (bench/graph). */
__attribute__((noinline)) static iobind_status replay(iobind_binding *binding) {
  const iobind__repeat *last = &binding->repeat;
  if (check_replay(binding) != IOBIND_OK) {
    iobind__flight_disarm(&binding->flight);
    iobind__run_leave(binding, IOBIND__IDLE);
    return IOBIND_ERROR_INTERNAL;
  }
  iobind__turn_take(last->turn);
  iobind__gate_enter();
  OrtStatus *failed = last->run(last->session, last->options, last->binding);
  if (failed != NULL) {
    return fail_replay(binding, failed, last->error);
  }
  iobind__gate_leave();
  iobind__turn_give(last->turn);
  atomic_fetch_sub(&binding->flight.state, IOBIND__RUNNING);
  return IOBIND_OK;
}

/* ---- any other run, by any thread ---- */

/* Only in a debug build: a change that did not disarm the binding is a defect. */
static inline iobind_status check_armed(const iobind_binding *binding) {
#if defined(NDEBUG)
  (void)binding;
  return IOBIND_OK;
#else
  return iobind__plan_holds(binding) ? IOBIND_OK
                                     : iobind__fail(binding->repeat.error, IOBIND_ERROR_INTERNAL,
                                                    "binding_run: the binding has changed, and is still armed");
#endif
}

/* An output could not be bound again: ORT's binding has no results. */
__attribute__((noinline)) static iobind_status fail_repeat(iobind_binding *binding, iobind_status status) {
  binding->results.state = IOBIND__RESULTS_NONE;
  iobind__run_leave(binding, IOBIND__IDLE);
  return iobind__named(status, binding->repeat.error, "binding_run");
}

/* Leave a run after which the binding is not armed again at once. */
__attribute__((noinline)) static iobind_status leave_armed(iobind_binding *binding, OrtStatus *failed) {
  iobind_error *error = binding->repeat.error;
  if (failed == NULL && !iobind__run_is_cancelled(binding)) { /* other work uses the same memory now */
    iobind__run_leave(binding, IOBIND__ARMED);
    return IOBIND_OK;
  }
  iobind_status status = failed == NULL ? iobind__call_cancelled(error)
                                        : iobind__call_failed(binding, binding->settings.ort.now, failed, NULL, error);
  binding->results.state = IOBIND__RESULTS_NONE;
  iobind__run_leave(binding, IOBIND__IDLE);
  return iobind__named(status, error, "binding_run");
}

static inline bool enter_armed(iobind_binding *binding) {
  uint64_t armed = IOBIND__ARMED;
  return !iobind__process_is_forked() && atomic_compare_exchange_strong(&binding->flight.state, &armed, IOBIND__RUNNING);
}

__attribute__((noinline)) static iobind_status renew(iobind_binding *binding) {
  if (binding->results.state == IOBIND__RESULTS_READY) {
    iobind__results_drop(binding, NULL);
  }
  return iobind__side_refresh(binding, binding->repeat.error);
}

/* All of a steady run, whose instructions are counted (bench/overhead). */
__attribute__((noinline)) static iobind_status repeat(iobind_binding *binding) {
  const iobind__repeat *last = &binding->repeat;
  iobind_status status = check_armed(binding);
  if (status == IOBIND_OK && (binding->plan.fresh_count | (binding->results.state == IOBIND__RESULTS_READY)) != 0) {
    status = renew(binding);
  }
  if (status != IOBIND_OK) {
    return fail_repeat(binding, status);
  }
  OrtStatus *failed = last->run(last->session, last->options, last->binding);
  binding->results.state = IOBIND__RESULTS_HELD;
  uint64_t running = IOBIND__RUNNING;
  bool is_whole = failed == NULL && atomic_compare_exchange_strong(&binding->flight.state, &running, IOBIND__ARMED);
  return is_whole ? IOBIND_OK : leave_armed(binding, failed);
}

/* ---- after a run ---- */

static void keep_call(iobind_binding *binding) {
  iobind_session *session = binding->session;
  binding->repeat = (iobind__repeat){.run = IOBIND__API(session->runtime)->RunWithBinding,
                                     .session = session->session,
                                     .options = binding->settings.ort.now,
                                     .binding = iobind__side_of_turn(binding)->binding,
                                     .turn = &session->turn};
}

uint64_t iobind__armed_key(iobind_binding *binding) {
  keep_call(binding);
  if (binding->plan.checks != 0 || iobind__ranges_are_taken()) { /* a profiler shows each run */
    return IOBIND__IDLE;
  }
  if (binding->graphs != NULL) {
    return can_replay(binding) ? binding->repeat.thread : IOBIND__IDLE;
  }
  bool repeats = binding->plan.repeats && binding->plan.is_seen && binding->results.state == IOBIND__RESULTS_HELD;
  return repeats ? IOBIND__ARMED : IOBIND__IDLE;
}

/* ---- any run ---- */

/* Begins a range for profilers. `order`: of a run without a stream. */
static iobind_status run_in_range(iobind_binding *binding, iobind_stream *stream, iobind__order order, iobind_error *error) {
  bool begun = iobind__range_begin("run", iobind__session_name(binding->session));
  iobind_status status = stream != NULL ? iobind__queue(binding, stream, error) : iobind__run_now(binding, order, error);
  iobind__range_end(begun);
  return iobind__named(status, error, "binding_run");
}

__attribute__((noinline)) static iobind_status run_checked(iobind_binding *binding, iobind_stream *stream,
                                                           iobind_error *error) {
  IOBIND__TRY(iobind__process_check("binding_run", error));
  return run_in_range(binding, stream, IOBIND__SETTLED, error);
}

iobind_status iobind__binding_run_in_turn(iobind_binding *binding, iobind_stream *stream, iobind_error *error) {
  return stream != NULL ? run_checked(binding, stream, error) : run_in_range(binding, NULL, IOBIND__IN_FLIGHT, error);
}

iobind_status iobind_binding_run(iobind_binding *binding, iobind_stream *stream, iobind_error *error) {
  if (binding == NULL) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "binding_run: binding is NULL");
  }
  if (stream != NULL) {
    return run_checked(binding, stream, error);
  }
  if (binding->graphs != NULL && enter_replay(binding)) {
    binding->repeat.error = error;
    return replay(binding);
  }
  if (enter_armed(binding)) {
    binding->repeat.error = error;
    return repeat(binding);
  }
  return run_checked(binding, NULL, error);
}
