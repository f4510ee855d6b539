/* The run of a binding. There are two ways: now, complete on return, and in a queue, ordered after other work of a stream. A run by a thread of iobind,
 * and a run on a stream in a session that takes no streams, are runs now. If nothing has changed since the last run, the binding is
 * armed: the run is ORT's call alone. */
#ifndef IOBIND_BINDING_RUN_H
#define IOBIND_BINDING_RUN_H

#include "binding/table.h"

/* ---- flight.c: the run state ---- */

/* Enter the run state for a run without a stream, unless it was announced: then the state is entered. */
iobind_status iobind__run_enter_alone(iobind_binding *binding, iobind_error *error);

/* If the state was not IDLE: a run is in flight, or a thread may repeat the last run, which this run does not. */
iobind_status iobind__run_enter_from(iobind_binding *binding, uint64_t state, iobind_error *error);

/* If it was not RUNNING: the run was, or is being, cancelled, or other work uses the same memory now. */
void iobind__run_leave_from(iobind_binding *binding, uint64_t state, uint64_t next);

/* INVALID_STATE if a run is in flight. */
static inline iobind_status iobind__run_enter(iobind_binding *binding, iobind_error *error) {
  uint64_t state = IOBIND__IDLE;
  return atomic_compare_exchange_strong(&binding->flight.state, &state, IOBIND__RUNNING)
             ? IOBIND_OK
             : iobind__run_enter_from(binding, state, error);
}

/* `next`, unless the run was cancelled: IDLE, or the threads that may repeat it. */
static inline void iobind__run_leave(iobind_binding *binding, uint64_t next) {
  uint64_t state = IOBIND__RUNNING;
  if (!atomic_compare_exchange_strong(&binding->flight.state, &state, next)) {
    iobind__run_leave_from(binding, state, next);
  }
}

/* The same for a run on a worker's stream. If it comes after another run of this stream, the binding is in that state already, unless the
 * worker is just leaving it. */
iobind_status iobind__queue_enter(iobind_binding *binding, bool follows, iobind_error *error);
void iobind__queue_leave(iobind_binding *binding); /* it has ended, or was never queued */

/* Is the run being cancelled, or was it? */
static inline bool iobind__run_is_cancelled(const iobind_binding *binding) {
  return atomic_load(&binding->flight.state) % IOBIND__RUN_STATES != IOBIND__RUNNING;
}

/* Let ORT make the runs that must follow a cancelled run, which stays cancelled. Was it cancelled? */
bool iobind__run_goes_on(iobind_binding *binding);

/* ---- call.c ---- */

/* ORT's call, and the checks and copies after it; the states stay where they are. `stream` is an EP's, which ORT submits to; NULL: ORT waits for
 * the run. `ordered` is the device whose stream the run is on, or NULL. *reason is set if ORT's call fails. */
iobind_status iobind__call(iobind_binding *binding, OrtRunOptions *options, iobind_stream *stream, const iobind_device *ordered,
                           iobind__ort_reason *reason, iobind_error *error);

/* ORT's call has failed. */
iobind_status iobind__call_failed(iobind_binding *binding, const OrtRunOptions *options, OrtStatus *failed,
                                  const iobind_stream *stream, iobind_error *error);
iobind_status iobind__call_cancelled(iobind_error *error);

/* ---- run.c ---- */

/* Has iobind__run_begin nothing to do? Then it does not enter the EP either. `busy` is the EP's stream on which earlier runs may be in flight, or
 * NULL. */
bool iobind__run_is_steady(const iobind_binding *binding, const iobind_stream *busy);

/* Wait for other work on streams that uses the same memory. The run state is entered, and iobind__run_begin has bound the states. */
iobind_status iobind__run_settle(iobind_binding *binding, iobind_error *error);

/* Make states of the last results, and bring ORT's binding in line with the table. */
iobind_status iobind__run_begin(iobind_binding *binding, iobind_stream *busy, iobind_error *error);

/* Make the run wait for the producers of its inputs. `points` are what the inputs' events held when the run was queued; NULL: what they hold now.
 * The lock of an EP for one thread is not held meanwhile: a worker that is waited for may need it. */
iobind_status iobind__run_await(const iobind_binding *binding, iobind_stream *stream, iobind__point *const *points,
                                iobind_error *error);

/* ORT's call and what it requires: the turn, the graph, the guard, inputs that are copied before each run. */
iobind_status iobind__run_execute(iobind_binding *binding, OrtRunOptions *options, iobind_stream *stream,
                                  const iobind_device *ordered, iobind_error *error);

/* `looks` says whether it waits for other work that uses the same memory. On a stream it comes after that stream's work alone. */
iobind_status iobind__run_now(iobind_binding *binding, bool looks, iobind_error *error);

/* ---- shadow.c: around a run that is verified, without the session ---- */

/* Before: the CPU makes it. `stream` is the EP's, on which the run is, or NULL. */
iobind_status iobind__verified_begin(iobind_binding *binding, iobind_stream *stream, iobind_error *error);

/* What an input that is copied before each run is copied from: in a run that is verified, what the CPU has read, whatever the caller has
 * written since. */
const iobind_tensor *iobind__verified_source(const iobind_binding *binding, size_t input);

/* Compare what the device has made, if that was begun; the results are complete. `run` names it in the message. */
iobind_status iobind__verified_compare(iobind_binding *binding, const char *run, iobind_error *error);

/* After, in any case: `status` is the run's. A run that differs has failed, as on the device. */
iobind_status iobind__verified_end(iobind_binding *binding, iobind_stream *stream, iobind_status status, iobind_error *error);

/* ---- queue.c ---- */

iobind_status iobind__queue(iobind_binding *binding, iobind_stream *stream, iobind_error *error);

/* On the stream that the EP is given with each run of the session. The run state is entered. */
iobind_status iobind__queue_and_wait(iobind_binding *binding, iobind_stream *own, bool looks, iobind_error *error);

/* ---- armed.c ---- */

/* The state after a run: the threads that may repeat it without checks, or IDLE. */
uint64_t iobind__armed_key(iobind_binding *binding);

#endif
