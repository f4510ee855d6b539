/* The run of a binding. There are two ways: now, complete on return; and in a queue, ordered after other work of a stream. Runs now are
 * also those that a thread of iobind makes, and those on a stream in a session that takes no streams. If nothing has changed since the
 * last run, the binding is armed: the run is ORT's call alone. */
#ifndef IOBIND_BINDING_RUN_H
#define IOBIND_BINDING_RUN_H

#include "binding/table.h"

/* ---- flight.c: the run state ---- */

/* Called if the state was not IDLE: a run is in flight, or the binding is armed. */
iobind_status iobind__run_enter_from(iobind_binding *binding, uint64_t state, iobind_error *error);

/* Called if the state was not RUNNING: the run was or is being cancelled, or other work now uses the same memory. */
void iobind__run_leave_from(iobind_binding *binding, uint64_t state, uint64_t next);

/* INVALID_STATE if a run is in flight. */
static inline iobind_status iobind__run_enter(iobind_binding *binding, iobind_error *error) {
  uint64_t state = IOBIND__IDLE;
  return atomic_compare_exchange_strong(&binding->flight.state, &state, IOBIND__RUNNING)
             ? IOBIND_OK
             : iobind__run_enter_from(binding, state, error);
}

/* `next` is the new state unless the run was cancelled: IDLE, or the threads that may repeat the run. */
static inline void iobind__run_leave(iobind_binding *binding, uint64_t next) {
  uint64_t state = IOBIND__RUNNING;
  if (!atomic_compare_exchange_strong(&binding->flight.state, &state, next)) {
    iobind__run_leave_from(binding, state, next);
  }
}

/* Is the run being cancelled, or was it? */
static inline bool iobind__run_is_cancelled(const iobind_binding *binding) {
  return atomic_load(&binding->flight.state) % IOBIND__RUN_STATES != IOBIND__RUNNING;
}

/* Let ORT make the runs that must follow a run, even if it was cancelled. Returns whether it was; it remains cancelled. */
bool iobind__run_goes_on(iobind_binding *binding);

/* ---- run.c ---- */

/* ORT's call, and the checks and copies after it. States are not advanced. *reason is set if ORT's call fails. */
iobind_status iobind__call(iobind_binding *binding, const iobind__execution *how, iobind__ort_reason *reason,
                           iobind_error *error);

/* ORT's call has failed. */
iobind_status iobind__call_failed(iobind_binding *binding, const OrtRunOptions *options, OrtStatus *failed,
                                  const iobind_stream *stream, iobind_error *error);
iobind_status iobind__call_cancelled(iobind_error *error);

/* Does iobind__run_begin have nothing to do, so that it does not enter the EP? `busy`: the EP's stream on which earlier runs
 * may be in flight, or NULL. */
bool iobind__run_is_steady(const iobind_binding *binding, const iobind_stream *busy);

/* Wait for other work on streams that uses the same memory. Called with the run state entered, after iobind__run_begin, which
 * binds the states. */
iobind_status iobind__run_settle(iobind_binding *binding, iobind_error *error);

/* Advance the states to the last run's results, and bring ORT's binding in line with the table. */
iobind_status iobind__run_begin(iobind_binding *binding, iobind_stream *busy, iobind_error *error);

/* Make the run wait for the producers of its inputs. `points`: the points of the inputs' events when the run was queued; NULL:
 * their current points. The EP's lock must not be held: the worker for which this waits may need it. */
iobind_status iobind__run_await(const iobind_binding *binding, iobind_stream *stream, iobind__point *const *points,
                                iobind_error *error);

/* ORT's call, with the turn, the graph, the guard, and the copies of LIVE inputs. */
iobind_status iobind__run_execute(iobind_binding *binding, const iobind__execution *how, iobind_error *error);

/* A run now. SETTLED: the caller's, which first waits for other work that uses the same memory, and may have been announced.
 * IN_FLIGHT: a stream's, which is ordered only after that stream's work. */
iobind_status iobind__run_now(iobind_binding *binding, iobind__order order, iobind_error *error);

/* ---- shadow.c: around a run that is verified, without the session ---- */

/* Before the run: the CPU makes it. `stream`: the EP's stream of the run, or NULL. */
iobind_status iobind__verified_begin(iobind_binding *binding, iobind_stream *stream, iobind_error *error);

/* The source of a LIVE input. In a verified run it is the copy that the CPU has read, because the caller may have written the
 * tensor since. */
const iobind_tensor *iobind__verified_source(const iobind_binding *binding, size_t input);

/* Compare the device's results, which are complete, if iobind__verified_begin was called. `run` names the run in the
 * message. */
iobind_status iobind__verified_compare(iobind_binding *binding, const char *run, iobind_error *error);

/* After the run, in any case. `status`: the run's. A run whose results differ has failed. */
iobind_status iobind__verified_end(iobind_binding *binding, iobind_stream *stream, iobind_status status, iobind_error *error);

/* ---- queue.c ---- */

iobind_status iobind__queue(iobind_binding *binding, iobind_stream *stream, iobind_error *error);

/* A run on the session's own stream, for an EP that needs one for each run, and a wait for it. The run state is entered. */
iobind_status iobind__queue_and_wait(iobind_binding *binding, iobind_stream *own, iobind__order order, iobind_error *error);

/* ---- armed.c ---- */

/* The state after a run: the threads that may repeat it without checks, or IDLE. */
uint64_t iobind__armed_key(iobind_binding *binding);

#endif
