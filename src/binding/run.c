/* Running a binding: check once after a change, then nothing but ORT's run. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "binding/table.h"

/* ---- what comes before ORT's run ---- */

/* Bring ORT's binding, or the arrays, in line with the table. */
static iobind_status prepare(iobind_binding *binding, iobind_error *error) {
  iobind__side *side = iobind__side_of_turn(binding);
  bool differs = side->generation != binding->generation;
  bool by_arrays = false;
  IOBIND__TRY(iobind__plan_is_valid(binding) ? IOBIND_OK : iobind__plan_compile(binding, error));
  if (binding->carry_count > 0 && differs) {
    IOBIND__TRY(iobind__carry_prepare(binding, error));
  }
  if (binding->carry_count > 0 || binding->arrays.in_use) {
    IOBIND__TRY(iobind__arrays_choose(binding, &by_arrays, error));
  }
  if (by_arrays) {
    return IOBIND_OK;
  }
  return differs ? iobind__side_compare(binding, side, error) : iobind__side_refresh(binding, side, error);
}

/* Does `begin` have nothing to do? Then it does not enter the EP either. `busy` is the EP's stream on which earlier runs may be under
 * way, or NULL. */
static inline bool is_steady(const iobind_binding *binding, const iobind_stream *busy) {
  return binding->carry_count == 0 && busy == NULL && binding->results != IOBIND__RESULTS_READY &&
         iobind__plan_is_valid(binding) && binding->plan.fresh_count == 0 &&
         binding->sides[binding->turn].generation == binding->generation;
}

/* Part of the steady run. */
static inline iobind_status begin(iobind_binding *binding, iobind_stream *busy, iobind_error *error) {
  if (binding->carry_count > 0) {
    IOBIND__TRY(iobind__carry_advance(binding, busy, error));
  }
  if (busy != NULL || binding->results == IOBIND__RESULTS_READY) {
    iobind__results_drop(binding, busy);
  }
  binding->results = IOBIND__RESULTS_NONE;
  const iobind__side *side = iobind__side_of_turn(binding);
  if (!iobind__plan_is_valid(binding) || side->generation != binding->generation) {
    return prepare(binding, error);
  }
  if (binding->plan.fresh_count == 0) {
    return IOBIND_OK;
  }
  /* only where something is carried may the arrays of values be in use, which have nothing to refresh */
  return binding->carry_count == 0 ? iobind__side_refresh(binding, side, error) : prepare(binding, error);
}

static iobind_status begin_inside(iobind_binding *binding, iobind_stream *busy, iobind_error *error) {
  iobind__scope scope;
  IOBIND__TRY(iobind__guard_enter(binding->session->guard, &scope, error));
  return iobind__guard_end(&scope, begin(binding, busy, error), error);
}

static inline iobind_status begin_serial(iobind_binding *binding, iobind_stream *busy, iobind_error *error) {
  if (!is_steady(binding, busy)) {
    return begin_inside(binding, busy, error);
  }
  binding->results = IOBIND__RESULTS_NONE;
  return IOBIND_OK;
}

/* Make the run wait for the producers of its inputs. `points` are what the inputs' events held when the run was queued; NULL:
 * what they hold now. The lock of an EP for one thread is not held meanwhile: a worker that is waited for may need it. Not inlined,
 * as the next one, so that the steady run has a small frame. */
__attribute__((noinline)) static iobind_status await_producers(const iobind_binding *binding, iobind_stream *stream,
                                                               iobind__point *const *points, iobind_error *error) {
  for (size_t i = 0; i < binding->session->input_count; i++) {
    const iobind__input *input = &binding->inputs[i];
    if (points != NULL) {
      IOBIND__TRY(iobind__stream_order(stream, points[i], error));
    } else if (input->event != NULL) {
      IOBIND__TRY(iobind__stream_order_event(stream, input->event, error));
    }
  }
  return IOBIND_OK;
}

/* Copy the inputs that are copied before each run. */
__attribute__((noinline)) static iobind_status load_live_inputs(const iobind_binding *binding, iobind_stream *stream,
                                                                iobind_error *error) {
  for (size_t i = 0; i < binding->session->input_count; i++) {
    const iobind__input *input = &binding->inputs[i];
    if (input->source != NULL) {
      IOBIND__TRY(iobind__tensor_copy_one(input->source, input->bound, stream, error));
      /* if the run reads the copy on the host, it must have arrived before the run is submitted */
      IOBIND__TRY(stream != NULL && input->bound->place->host
                      ? iobind__tensor_settle_for(input->bound, IOBIND__READ, &binding->flight, error)
                      : IOBIND_OK);
    }
  }
  return IOBIND_OK;
}

/* The outputs with given memory: ORT 1.24 does not say which of them did not fit. */
static void name_held_outputs(const iobind_binding *binding, iobind__text *names) {
  for (size_t i = 0; i < binding->session->output_count; i++) {
    const iobind__output *output = &binding->outputs[i];
    if (iobind__output_is_given(output) || output->mode == IOBIND__OUTPUT_REUSE) {
      iobind__text_add(names, "%s'%s'", names->length == 0 ? "" : ", ", binding->session->outputs[i].label);
    }
  }
}

static void release_status(const OrtApi *api, OrtStatus *status) {
  if (status != NULL) {
    api->ReleaseStatus(status);
  }
}

/* Wait for a device that queues by itself, unless the run is on one of its streams: then the order of its queue is enough. */
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

/* After a failure ORT does not wait for the work that it has submitted. This waits for whole devices, which is right only here:
 * other failures there belong to the same run. If the run is on a stream, the caller that submits waits for that. */
static void wait_after_failure(iobind_binding *binding) {
  const iobind__side *side = iobind__side_of_turn(binding);
  const OrtApi *api = IOBIND__API(binding->session->runtime);
  if (side->binding != NULL && !binding->arrays.in_use) {
    release_status(api, api->SynchronizeBoundOutputs(side->binding));
  }
  (void)wait_for_devices(binding, NULL, NULL);
}

/* A failure that an output's memory may explain: it was given before the run, and the run's shape is another one. */
static iobind_status outputs_failed(const iobind_binding *binding, OrtStatus *failed, iobind__ort_reason reason,
                                    iobind_error *error) {
  const OrtApi *api = IOBIND__API(binding->session->runtime);
  iobind_status status;
  iobind__text names = {0};
  name_held_outputs(binding, &names);
  if (reason == IOBIND__ORT_WRONG_SHAPE) {
    status =
        iobind__ort_fail_as(api, failed, IOBIND_ERROR_SHAPE, error,
                            "binding_run: output %s: not the shape that is bound: FIXED and REUSE keep one, FRESH takes any",
                            names.length == 0 ? "of a node" : iobind__text_get(&names));
  } else if (names.length > 0) {
    status = iobind__ort_fail(
        api, failed, error,
        "binding_run: output %s may not have the shape that is bound (the execution provider does not report why it failed): FIXED "
        "and REUSE keep one, FRESH takes any",
        iobind__text_get(&names));
  } else {
    status = iobind__ort_fail(api, failed, error, "binding_run");
  }
  iobind__text_free(&names);
  return status;
}

/* Cancelled, and ORT could be told: a run of a graph has options of its own. */
static inline bool is_cancelled(const iobind_binding *binding, const OrtRunOptions *options) {
  return atomic_load(&binding->flight.state) != IOBIND__RUNNING &&
         (options == binding->options.now || options == binding->options.queued);
}

static iobind_status fail_cancelled(iobind_error *error) {
  return iobind__fail(error, IOBIND_ERROR_CANCELLED, "binding_run: cancelled by iobind_binding_cancel");
}

static iobind_status run_failed(iobind_binding *binding, const OrtRunOptions *options, OrtStatus *failed,
                                const iobind_stream *stream, iobind_error *error) {
  const OrtApi *api = IOBIND__API(binding->session->runtime);
  bool cancelled = is_cancelled(binding, options);
  iobind__ort_reason reason = iobind__ort_reason_of(api, failed);
  binding->is_capture_broken = reason == IOBIND__ORT_CAPTURE_BROKEN;
  iobind_status status;
  if (cancelled) {
    api->ReleaseStatus(failed);
    status = fail_cancelled(error);
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

/* What must be checked or done after some runs. One that was cancelled has failed, though ORT says OK: the cancel came too late, or ORT has
 * left nodes out, which no error tells (seen with 1.31). */
static iobind_status finish_run(iobind_binding *binding, const OrtRunOptions *options, iobind_stream *stream,
                                const iobind_device *ordered, iobind_error *error) {
  iobind_status status = is_cancelled(binding, options) ? fail_cancelled(error) : IOBIND_OK;
  if (status == IOBIND_OK && !binding->plan.is_seen) {
    status = iobind__results_verify(binding, error);
  }
  if (status == IOBIND_OK && binding->plan.copied_count > 0) {
    status = iobind__results_copy(binding, stream, error);
  }
  iobind_status waited = wait_for_devices(binding, ordered, status == IOBIND_OK ? error : NULL);
  status = status == IOBIND_OK ? waited : status;
  if (status != IOBIND_OK) {
    iobind__results_drop(binding, NULL);
    iobind__carry_note_failure(binding);
  }
  return status;
}

/* The run itself. `stream` is an EP's, which ORT submits to; NULL: ORT waits for the run. `ordered` is the device whose stream
 * the run is on, or NULL. Part of the steady run, whose instructions are counted (bench/overhead). */
__attribute__((always_inline)) static inline iobind_status run_ort(iobind_binding *binding, OrtRunOptions *options,
                                                                   iobind_stream *stream, const iobind_device *ordered,
                                                                   iobind_error *error) {
  const iobind_session *session = binding->session;
  bool by_arrays = binding->arrays.in_use;
  OrtStatus *failed =
      by_arrays
          ? iobind__arrays_run(binding, options)
          : IOBIND__API(session->runtime)->RunWithBinding(session->session, options, iobind__side_of_turn(binding)->binding);
  if (failed != NULL) {
    return run_failed(binding, options, failed, stream, error);
  }
  binding->results = by_arrays ? IOBIND__RESULTS_READY : IOBIND__RESULTS_HELD;
  if (!binding->plan.is_seen || binding->plan.copied_count > 0 || session->queued != NULL || is_cancelled(binding, options)) {
    IOBIND__TRY(finish_run(binding, options, stream, ordered, error));
  }
  return IOBIND_OK;
}

iobind_status iobind__run_ort(iobind_binding *binding, OrtRunOptions *options, const iobind_device *ordered,
                              iobind_error *error) {
  return run_ort(binding, options, NULL, ordered, error);
}

__attribute__((always_inline)) static inline iobind_status execute(iobind_binding *binding, OrtRunOptions *options,
                                                                   iobind_stream *stream, const iobind_device *ordered,
                                                                   iobind_error *error) {
  if (binding->plan.has_waits) {
    IOBIND__TRY(load_live_inputs(binding, stream, error));
  }
  IOBIND__TRY(run_ort(binding, options, stream, ordered, error));
  if (binding->carry_count > 0) {
    iobind__carry_note_run(binding);
  }
  return IOBIND_OK;
}

/* The same if only one thread may use the EP at a time. */
__attribute__((always_inline)) static inline iobind_status execute_serial(iobind_binding *binding, OrtRunOptions *options,
                                                                          iobind_stream *stream, const iobind_device *ordered,
                                                                          iobind_error *error) {
  iobind_session *session = binding->session;
  iobind_status status = IOBIND_OK;
  iobind__graph *graph = NULL;
  if (binding->graphs != NULL) {
    IOBIND__TRY(iobind__graphs_find(binding, stream, &graph, error));
  }
  iobind__session_enter(session);
  if (binding->graphs != NULL) {
    status = iobind__graphs_choose(binding, graph, stream, ordered, &options, error);
  }
  if (status == IOBIND_OK) {
    iobind__scope scope;
    status = iobind__guard_enter(session->inside, &scope, error);
    status = status == IOBIND_OK ? execute(binding, options, stream, ordered, error) : status;
    status = iobind__guard_end(&scope, status, error);
  }
  iobind__session_leave(session);
  return status;
}

/* The terminate flag of a run that was cancelled must not reach the next one. */
static void unset_terminate(iobind_binding *binding) {
  const OrtApi *api = IOBIND__API(binding->session->runtime);
  release_status(api, api->RunOptionsUnsetTerminate(binding->options.now));
  if (binding->options.queued != NULL) {
    release_status(api, api->RunOptionsUnsetTerminate(binding->options.queued));
  }
}

bool iobind__run_goes_on(iobind_binding *binding) {
  while (atomic_load(&binding->flight.state) == IOBIND__CANCELLING) {
    sched_yield();
  }
  bool cancelled = atomic_load(&binding->flight.state) == IOBIND__CANCELLED;
  if (cancelled) {
    unset_terminate(binding);
  }
  return cancelled;
}

/* Leave the running state, for another one unless the run was cancelled. */
static inline void leave_for(iobind_binding *binding, uint64_t next) {
  uint64_t state = IOBIND__RUNNING;
  while (!atomic_compare_exchange_weak(&binding->flight.state, &state, next)) {
    if (state >= IOBIND__RUN_STATES) {
      atomic_fetch_sub(&binding->flight.state, IOBIND__RUNNING); /* a replay is offered */
      return;
    }
    if (state == IOBIND__CANCELLED) {
      unset_terminate(binding);
      atomic_store(&binding->flight.state, IOBIND__IDLE);
      return;
    }
    if (state == IOBIND__CANCELLING) {
      sched_yield(); /* another thread is between two instructions, and its cancel may fail */
    }
    state = IOBIND__RUNNING;
  }
}

static inline void leave(iobind_binding *binding) {
  leave_for(binding, IOBIND__IDLE);
}

/* A run on a worker's stream has ended, or was never queued: with the last one the binding is idle again. */
static void leave_queue(iobind_binding *binding) {
  if (atomic_fetch_sub(&binding->queued, 1) == 1) {
    leave(binding);
  }
}

static iobind_status refuse_busy(iobind_error *error) {
  return iobind__fail(error, IOBIND_ERROR_INVALID_STATE, "binding_run: a run of this binding is in flight: wait for it first");
}

/* The same where the state was not IDLE: a run is in flight, or a replay is offered, which this run is not. */
__attribute__((noinline)) static iobind_status enter_from(iobind_binding *binding, uint64_t state, iobind_error *error) {
  bool idle = state % IOBIND__RUN_STATES == IOBIND__IDLE;
  return idle && atomic_compare_exchange_strong(&binding->flight.state, &state, IOBIND__RUNNING) ? IOBIND_OK
                                                                                                 : refuse_busy(error);
}

/* Enter the running state; INVALID_STATE if another run has it. */
static inline iobind_status enter(iobind_binding *binding, iobind_error *error) {
  uint64_t state = IOBIND__IDLE;
  return atomic_compare_exchange_strong(&binding->flight.state, &state, IOBIND__RUNNING) ? IOBIND_OK
                                                                                         : enter_from(binding, state, error);
}

/* The same for a run on a worker's stream. If it comes after another run of this stream, the binding is in that state already,
 * unless the worker is just leaving it. */
static iobind_status enter_queue(iobind_binding *binding, bool follows, iobind_error *error) {
  if (atomic_fetch_add(&binding->queued, 1) > 0) {
    return IOBIND_OK;
  }
  iobind_status status = enter(binding, follows ? NULL : error);
  while (status != IOBIND_OK && follows) {
    sched_yield();
    status = enter(binding, NULL);
  }
  if (status != IOBIND_OK) {
    atomic_fetch_sub(&binding->queued, 1);
  }
  return status;
}

/* ---- runs that have finished on return ---- */

__attribute__((always_inline)) static inline iobind_status run_alone(iobind_binding *binding, iobind_error *error) {
  IOBIND__TRY(begin(binding, NULL, error));
  if (binding->plan.has_waits) {
    IOBIND__TRY(await_producers(binding, NULL, NULL, error));
  }
  return execute(binding, binding->options.now, NULL, NULL, error);
}

static iobind_status submit_to_ep(iobind_binding *binding, iobind_stream *stream, iobind_error *error);

/* ORT has made the run, but it has failed for the caller, who is told `reason`: its results are given up, and the next run reads the
 * states that it has read. */
static iobind_status disown_run(iobind_binding *binding, const iobind_error *reason, iobind_error *error) {
  (void)iobind__flight_wait(binding, NULL);
  iobind__flight_look(binding);
  iobind__results_drop(binding, binding->flight.stream); /* not NULL: nobody can tell when the run is over */
  iobind__binding_fail(binding, reason);
  iobind__carry_note_failure(binding);
  return iobind__error_copy(error, reason);
}

/* On the session's stream, of an EP that is given it with each run: also a run without a stream computes there. */
static iobind_status run_on_own(iobind_binding *binding, iobind_stream *own, iobind_error *error) {
  iobind_error reason = IOBIND_ERROR_INIT;
  IOBIND__TRY(submit_to_ep(binding, own, error));
  iobind_status status = iobind__flight_wait(binding, &reason);
  iobind__flight_look(binding);
  return status == IOBIND_OK ? IOBIND_OK : disown_run(binding, &reason, error);
}

/* ---- replays ---- */

/* A replay holds the turn and the gate, and looks after nothing else. */
static bool is_gate_enough(const iobind_session *session) {
  return session->guard->gated && session->guard->serial == NULL && session->guard->context == NULL;
}

/* After a replay: would the next run do nothing but ORT's call? Then it need not look: what changes that withdraws the offer. On another
 * library's stream each run waits for what that library has submitted. */
static void offer_replay(iobind_binding *binding) {
  const iobind_session *session = binding->session;
  bool repeats = is_steady(binding, NULL) && binding->results == IOBIND__RESULTS_HELD && binding->plan.is_seen &&
                 !binding->plan.has_waits && session->queued == NULL && is_gate_enough(session) &&
                 !iobind__stream_is_foreign(session->stream);
  if (repeats && iobind__graphs_repeat(binding, &binding->replay)) {
    uint64_t state = IOBIND__RUNNING; /* not if it was cancelled */
    (void)atomic_compare_exchange_strong(&binding->flight.state, &state, binding->replay.thread + IOBIND__RUNNING);
  }
}

static inline bool enter_replay(iobind_binding *binding) {
  uint64_t offered = iobind__thread;
  return atomic_compare_exchange_strong(&binding->flight.state, &offered, offered + IOBIND__RUNNING);
}

__attribute__((noinline)) static iobind_status fail_replay(iobind_binding *binding, OrtStatus *failed, iobind_error *error) {
  iobind_session *session = binding->session;
  atomic_store(&binding->flight.state, IOBIND__RUNNING);
  iobind__gate_leave();
  iobind__scope scope;
  iobind__guard_enter_anyway(session->inside, &scope); /* what follows may enter again */
  iobind__results_drop(binding, NULL);                 /* those of the run before */
  iobind_status status = run_failed(binding, binding->replay.options, failed, NULL, error);
  status = iobind__guard_end(&scope, status, error);
  iobind__turn_give(&session->turn);
  leave(binding);
  return iobind__named(status, error, "binding_run");
}

/* All of a steady replay, whose instructions are counted (bench/graph): not inlined, and the caller's error is kept
 * in the binding, so that its frame is small. */
__attribute__((noinline)) static iobind_status replay(iobind_binding *binding) {
  const iobind__replay *replayed = &binding->replay;
  iobind__turn_take(replayed->turn);
  iobind__gate_enter();
  OrtStatus *failed = replayed->run(replayed->session, replayed->options, replayed->binding);
  if (failed != NULL) {
    return fail_replay(binding, failed, replayed->error);
  }
  iobind__gate_leave();
  iobind__turn_give(replayed->turn);
  atomic_fetch_sub(&binding->flight.state, IOBIND__RUNNING);
  return IOBIND_OK;
}

static iobind_status run_serial(iobind_binding *binding, iobind_error *error) {
  const iobind_session *session = binding->session;
  iobind_stream *own = session->stream;
  if (own != NULL && binding->options.queued != NULL && !iobind__session_stream_is_option(session)) {
    return run_on_own(binding, own, error);
  }
  if (own != NULL) {
    IOBIND__TRY(iobind__stream_enter(own, error)); /* the EP computes there by itself */
  }
  IOBIND__TRY(begin_serial(binding, NULL, error));
  if (binding->plan.has_waits) {
    IOBIND__TRY(await_producers(binding, NULL, NULL, error));
  }
  IOBIND__TRY(execute_serial(binding, binding->options.now, NULL, NULL, error));
  if (binding->graphs != NULL) {
    offer_replay(binding);
  }
  return IOBIND_OK;
}

__attribute__((always_inline)) static inline iobind_status run_now(iobind_binding *binding, iobind_error *error) {
  return binding->session->guard != NULL ? run_serial(binding, error) : run_alone(binding, error);
}

__attribute__((always_inline)) static inline iobind_status run_at_once(iobind_binding *binding, iobind_error *error) {
  if (binding->flight.stream != NULL) {
    IOBIND__TRY(iobind__binding_check_idle(binding, "binding_run", error));
  }
  IOBIND__TRY(enter(binding, error));
  iobind_status status = run_now(binding, error);
  bool is_armed = binding->plan.repeats && binding->plan.is_seen && binding->results == IOBIND__RESULTS_HELD;
  leave_for(binding, is_armed ? IOBIND__ARMED : IOBIND__IDLE);
  return status;
}

/* ---- the armed run ---- */

/* Only in a debug build: a change that did not disarm the binding is a defect. */
static inline iobind_status check_armed(const iobind_binding *binding, iobind_error *error) {
#if defined(NDEBUG)
  (void)binding;
  (void)error;
  return IOBIND_OK;
#else
  return iobind__plan_holds(binding)
             ? IOBIND_OK
             : iobind__fail(error, IOBIND_ERROR_INTERNAL, "binding_run: the binding has changed, and is still armed");
#endif
}

static inline bool enter_armed(iobind_binding *binding) {
  uint64_t armed = IOBIND__ARMED;
  return !iobind__process_is_forked() && atomic_compare_exchange_strong(&binding->flight.state, &armed, IOBIND__RUNNING);
}

/* An output could not be bound again: ORT's binding has no results. */
__attribute__((noinline)) static iobind_status fail_refresh(iobind_binding *binding, iobind_status status,
                                                            iobind_error *error) {
  binding->results = IOBIND__RESULTS_NONE;
  leave(binding);
  return iobind__named(status, error, "binding_run");
}

__attribute__((noinline)) static iobind_status fail_armed(iobind_binding *binding, OrtStatus *failed, iobind_error *error) {
  iobind_status status =
      failed == NULL ? fail_cancelled(error) : run_failed(binding, binding->options.now, failed, NULL, error);
  binding->results = IOBIND__RESULTS_NONE;
  leave(binding);
  return iobind__named(status, error, "binding_run");
}

/* All of a steady run, whose instructions are counted (bench/overhead). */
__attribute__((noinline)) static iobind_status repeat(iobind_binding *binding, iobind_error *error) {
  const iobind_session *session = binding->session;
  const iobind__side *side = iobind__side_of_turn(binding);
  iobind_status status = check_armed(binding, error);
  if (status == IOBIND_OK && binding->plan.fresh_count > 0) {
    status = iobind__side_refresh(binding, side, error);
  }
  if (status != IOBIND_OK) {
    return fail_refresh(binding, status, error);
  }
  OrtStatus *failed = IOBIND__API(session->runtime)->RunWithBinding(session->session, binding->options.now, side->binding);
  binding->results = IOBIND__RESULTS_HELD;
  uint64_t running = IOBIND__RUNNING;
  bool is_whole = failed == NULL && atomic_compare_exchange_strong(&binding->flight.state, &running, IOBIND__ARMED);
  return is_whole ? IOBIND_OK : fail_armed(binding, failed, error);
}

/* For a session that takes no stream of an EP. */
static iobind_status run_behind(iobind_binding *binding, iobind_stream *stream, iobind_error *error) {
  IOBIND__TRY(iobind__stream_drain(stream, error));
  return run_at_once(binding, error);
}

/* ---- runs on a stream: those of one binding may queue on one stream ---- */

/* A run that comes behind others has read their states, also if it is not made then. */
static void note_follower(iobind_binding *binding) {
  binding->flight.runs += binding->flight.stream != NULL;
}

/* What the host reads while a run is submitted to an EP's stream: an input that the session reads on the host, or the pageable source of one
 * that is copied before each run, which goes through pinned memory. NULL: nothing. */
static const iobind_tensor *read_at_once(const iobind_binding *binding, size_t index) {
  const iobind__input *input = &binding->inputs[index];
  if (input->source != NULL) {
    return iobind__place_is_pageable(input->source->place) ? input->source : NULL;
  }
  return binding->session->inputs[index].place->host ? input->bound : NULL;
}

/* What the host reads while it submits the run must be there by then, whoever brings it; and what is to be delivered to host memory comes
 * before the run uses that memory. */
static iobind_status settle_host_memory(const iobind_binding *binding, iobind_stream *stream, iobind_error *error) {
  const iobind_session *session = binding->session;
  for (size_t i = 0; i < session->input_count; i++) {
    const iobind__input *input = &binding->inputs[i];
    const iobind_tensor *used = input->source != NULL ? input->source : input->bound;
    const iobind_tensor *read = read_at_once(binding, i);
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

/* A state that is moved is replaced by the next run's, and so is the first one of those that are swapped. That run may be submitted
 * before the stream has read the old state, so the stream keeps it. */
static void keep_states(const iobind_binding *binding, iobind_stream *stream) {
  for (size_t i = 0; i < binding->carry_count; i++) {
    const iobind__carry *carry = &binding->carries[i];
    iobind_tensor *state = binding->inputs[carry->input].bound;
    bool stays = carry->mode == IOBIND_CARRY_IN_PLACE || state == carry->buffers[0] || state == carry->buffers[1];
    if (!stays) {
      iobind__tensor_use(state, stream, IOBIND__READ);
    }
  }
}

/* A session that has a stream of its own computes there: behind what this stream has got so far, and before what it gets next. */
static iobind_status execute_on(iobind_binding *binding, iobind_stream *stream, iobind_error *error) {
  const iobind_session *session = binding->session;
  iobind_stream *compute = session->stream != NULL ? session->stream : stream;
  if (compute != stream) {
    IOBIND__TRY(iobind__stream_fork(stream, compute, error));
  }
  OrtSyncStream *sync = iobind__stream_ort(compute);
  if (!iobind__session_stream_is_option(session) && sync != NULL) {
    IOBIND__API(session->runtime)->RunOptionsSetSyncStream(binding->options.queued, sync);
  }
  IOBIND__TRY(iobind__stream_enter(compute, error));
  iobind_status status = execute_serial(binding, binding->options.queued, compute, compute->device, error);
  iobind_status left = iobind__stream_leave(compute, status == IOBIND_OK ? error : NULL);
  status = status == IOBIND_OK ? left : status;
  if (compute == stream) {
    return status;
  }
  iobind_status joined = iobind__stream_join(stream, compute, status == IOBIND_OK ? error : NULL);
  if (joined != IOBIND_OK) {
    (void)iobind__stream_drain(compute, NULL); /* the stream does not know of it */
  }
  return status == IOBIND_OK ? joined : status;
}

static iobind_status submit_to_ep(iobind_binding *binding, iobind_stream *stream, iobind_error *error) {
  iobind_error reason = IOBIND_ERROR_INIT;
  note_follower(binding);
  IOBIND__TRY(begin_serial(binding, binding->flight.stream, error));
  IOBIND__TRY(await_producers(binding, stream, NULL, error));
  IOBIND__TRY(settle_host_memory(binding, stream, error));
  if (execute_on(binding, stream, &reason) != IOBIND_OK) {
    (void)iobind__stream_drain(stream, NULL); /* work that was submitted before the failure uses what is bound */
    bool is_made = binding->results != IOBIND__RESULTS_NONE;
    return is_made ? disown_run(binding, &reason, error) : iobind__error_copy(error, &reason);
  }
  keep_states(binding, stream);
  binding->flight.has_run = true;
  iobind__flight_add(&binding->flight, stream, iobind__stream_take_ticket(stream));
  return IOBIND_OK;
}

static iobind_status run_on_ep(iobind_binding *binding, iobind_stream *stream, iobind_error *error) {
  IOBIND__TRY(enter(binding, error));
  iobind_status status = submit_to_ep(binding, stream, error);
  leave(binding);
  return status;
}

typedef struct run_task {
  iobind__task task;
  iobind_binding *binding; /* a reference is held */
  const iobind_device *ordered;
  bool begins;             /* an earlier run was in flight when this one was submitted: its results are known only now */
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

static iobind_status execute_task(const run_task *self, const iobind_error *failure, iobind_error *error) {
  iobind_binding *binding = self->binding;
  if (failure != NULL) {
    return iobind__error_copy(error, failure);
  }
  if (self->begins) {
    IOBIND__TRY(begin_serial(binding, NULL, error));
  }
  IOBIND__TRY(await_producers(binding, NULL, self->points, error));
  return execute_serial(binding, binding->options.now, NULL, self->ordered, error);
}

static iobind_status run_task_now(iobind__task *task, const iobind_error *failure, iobind_error *error) {
  const run_task *self = (const run_task *)task;
  iobind_status status = execute_task(self, failure, error);
  if (status == IOBIND_OK) {
    self->binding->flight.has_run = true;
  } else {
    iobind__binding_fail(self->binding, error); /* if ORT has been called, run_ort has noted what that does to the states */
  }
  leave_queue(self->binding);
  return status;
}

static run_task *make_task(iobind_binding *binding, const iobind_device *ordered, bool begins) {
  size_t inputs = binding->session->input_count;
  run_task *self = calloc(1, sizeof *self + inputs * sizeof self->points[0]);
  if (self == NULL) {
    return NULL;
  }
  self->task.run = run_task_now;
  self->task.destroy = free_run;
  self->binding = binding;
  iobind__ref_retain(&binding->ref);
  self->ordered = ordered;
  self->begins = begins;
  for (size_t i = 0; i < inputs; i++) {
    self->points[i] = binding->inputs[i].event == NULL ? NULL : iobind__event_point(binding->inputs[i].event);
  }
  return self;
}

/* The first of several runs begins on the caller's thread, so that errors are returned at once. */
static iobind_status submit_task(iobind_binding *binding, iobind_stream *stream, bool follows, iobind__ticket *ticket,
                                 iobind_error *error) {
  if (!follows) {
    IOBIND__TRY(begin_serial(binding, NULL, error));
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
  iobind_status status = submit_task(binding, stream, follows, &ticket, error);
  if (status != IOBIND_OK) {
    leave_queue(binding);
    return status;
  }
  note_follower(binding);
  iobind__flight_add(&binding->flight, stream, ticket);
  return IOBIND_OK;
}

static iobind_status run_on(iobind_binding *binding, iobind_stream *stream, iobind_error *error) {
  iobind__flight_look(binding);
  if (binding->flight.stream != NULL && binding->flight.stream != stream) {
    return iobind__binding_check_idle(binding, "binding_run", error);
  }
  if (!iobind__stream_orders_calls(stream)) {
    return run_by_worker(binding, stream, error);
  }
  return binding->options.queued == NULL ? run_behind(binding, stream, error) : run_on_ep(binding, stream, error);
}

static iobind_status run_on_stream(iobind_binding *binding, iobind_stream *stream, iobind_error *error) {
  if (!iobind__session_has_device(binding->session, stream->device)) {
    return iobind__fail(error, IOBIND_ERROR_WRONG_DEVICE,
                        "binding_run: the stream is of '%s', which is not a device of the session", stream->device->spec);
  }
  return run_on(binding, stream, error);
}

/* These two are not inlined, so that the replay has a small frame. */
__attribute__((noinline)) static iobind_status run_in_order(iobind_binding *binding, iobind_stream *stream,
                                                            iobind_error *error) {
  IOBIND__TRY(iobind__process_check("binding_run", error));
  return iobind__named(run_on_stream(binding, stream, error), error, "binding_run");
}

__attribute__((noinline)) static iobind_status run_and_wait(iobind_binding *binding, iobind_error *error) {
  IOBIND__TRY(iobind__process_check("binding_run", error));
  return iobind__named(run_at_once(binding, error), error, "binding_run");
}

iobind_status iobind_binding_run(iobind_binding *binding, iobind_stream *stream, iobind_error *error) {
  if (binding == NULL) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "binding_run: binding is NULL");
  }
  if (stream != NULL) {
    return run_in_order(binding, stream, error);
  }
  if (binding->graphs != NULL && enter_replay(binding)) {
    binding->replay.error = error;
    return replay(binding);
  }
  if (enter_armed(binding)) {
    return repeat(binding, error);
  }
  return run_and_wait(binding, error);
}

iobind_status iobind_binding_cancel(iobind_binding *binding, iobind_error *error) {
  if (binding == NULL) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "binding_cancel: binding is NULL");
  }
  IOBIND__TRY(iobind__process_check("binding_cancel", error));
  /* the run cannot end, and its options cannot be freed, between these two states */
  uint64_t running = IOBIND__RUNNING;
  if (!atomic_compare_exchange_strong(&binding->flight.state, &running, IOBIND__CANCELLING)) {
    return IOBIND_OK;
  }
  const OrtApi *api = IOBIND__API(binding->session->runtime);
  OrtStatus *status = api->RunOptionsSetTerminate(binding->options.now);
  if (status == NULL && binding->options.queued != NULL) {
    status = api->RunOptionsSetTerminate(binding->options.queued);
  }
  iobind_status result = IOBIND_OK;
  if (status != NULL) {
    unset_terminate(binding);
    result = iobind__ort_fail(api, status, error, "binding_cancel");
  }
  atomic_store(&binding->flight.state,
               result == IOBIND_OK ? IOBIND__CANCELLED : IOBIND__RUNNING); /* cancelling can be tried again */
  return result;
}
