/* Capture a graph of what is bound. ORT executes the run that captures three times. What it writes into its own inputs is saved before
 * and restored afterwards. Then the graph is replayed once: this is the caller's run. A plain run precedes all of them. It
 * shows the dims of the outputs for which iobind allocates memory (ORT would lend its scratch memory, which other runs get as well), it returns
 * errors of the model or the tensors outside a capture, and it lets ORT allocate what it needs.
 *
 * The thread has the session's turn from the first of these runs to the last. Waits, and a trial, come before. */
#include <stdlib.h>

#include "binding/run.h"

/* ---- before, without the session ---- */

/* The host saves and restores states. So all work submitted to the stream that the session computes on must have completed: the stream of
 * this run is ordered before it. */
static iobind_status await_stream(const iobind_binding *binding, iobind_error *error) {
  iobind_stream *stream = binding->session->compute.stream;
  if (stream == NULL) {
    return IOBIND_OK;
  }
  IOBIND__TRY(iobind__stream_drain(stream, error));
  return iobind__stream_enter(stream, error); /* again, because its library may have begun a capture meanwhile */
}

iobind_status iobind__capture_prepare(iobind_binding *binding, bool is_tried, iobind_error *error) {
  IOBIND__TRY(await_stream(binding, error));
  return is_tried ? iobind__graphs_try(binding, error) : IOBIND_OK;
}

/* ---- what a run writes into its own inputs ---- */

typedef struct saved {
  size_t count;
  struct {
    iobind_tensor *tensor; /* references are held */
    iobind_tensor *copy;
  } pairs[];
} saved;

static void free_saved(saved *self) {
  for (size_t i = 0; self != NULL && i < self->count; i++) {
    iobind_tensor_release(self->pairs[i].tensor);
    iobind_tensor_release(self->pairs[i].copy);
  }
  free(self);
}

static bool is_read(const iobind_binding *binding, const iobind_tensor *tensor) {
  bool read = false;
  for (size_t i = 0; !read && i < binding->session->input_count; i++) {
    read = iobind__tensor_overlaps(binding->inputs[i].bound, tensor);
  }
  return read;
}

static iobind_status save(const iobind_binding *binding, saved **out, iobind_error *error) {
  size_t outputs = binding->session->output_count;
  saved *self = calloc(1, sizeof *self + outputs * sizeof self->pairs[0]);
  iobind_status status = self == NULL ? iobind__out_of_memory(error, "binding_run") : IOBIND_OK;
  for (size_t i = 0; status == IOBIND_OK && i < outputs; i++) {
    iobind_tensor *target = binding->outputs[i].mode == IOBIND__OUTPUT_IN_PLACE ? binding->outputs[i].target : NULL;
    if (target != NULL && is_read(binding, target)) {
      self->pairs[self->count].tensor = iobind_tensor_retain(target);
      iobind_tensor **copy = &self->pairs[self->count++].copy;
      status = iobind__tensor_create_at(target->place, iobind__form_of(target), copy, error);
      if (status == IOBIND_OK) {
        status = iobind__tensor_copy_one(target, *copy, NULL, error);
      }
    }
  }
  if (status != IOBIND_OK) {
    free_saved(self);
    self = NULL;
  }
  *out = self;
  return status;
}

/* Restore the states. After that a failed run has left none of them undefined, unless restoring fails. */
static iobind_status restore(iobind_binding *binding, const saved *self, iobind_error *error) {
  iobind_status status = IOBIND_OK;
  for (size_t i = 0; i < self->count && status == IOBIND_OK; i++) {
    status = iobind__tensor_copy_one(self->pairs[i].copy, self->pairs[i].tensor, NULL, error);
  }
  for (size_t i = 0; i < binding->carry_count; i++) {
    const iobind__carry *carry = &binding->carries[i];
    if (carry->mode == IOBIND_CARRY_IN_PLACE) {
      binding->inputs[carry->input].next = status == IOBIND_OK ? IOBIND__NEXT_BOUND : IOBIND__NEXT_LOST;
    }
  }
  if (status != IOBIND_OK) {
    iobind__table_changed(binding);
  }
  return status;
}

/* ---- runs, with the session entered ---- */

iobind_status iobind__graph_bring_in_line(iobind_binding *binding, iobind_error *error) {
  iobind__side *side = iobind__side_of_turn(binding);
  if (side->generation == binding->generation) {
    return IOBIND_OK;
  }
  iobind__scope scope;
  IOBIND__TRY(iobind__guard_enter(binding->session->inside, &scope, error));
  return iobind__guard_end(&scope, iobind__side_compare(binding, side, error), error);
}

/* ORT waits for each execution of a capture. */
static iobind__execution waiting(const iobind__execution *how, OrtRunOptions *options) {
  return (iobind__execution){options, NULL, how->device, how->is_counted};
}

static iobind_status run(iobind_binding *binding, const iobind__execution *how, iobind_error *error) {
  const iobind__execution plain = waiting(how, binding->settings.ort.now);
  iobind__ort_reason reason;
  iobind__scope scope;
  IOBIND__TRY(iobind__guard_enter(binding->session->inside, &scope, error));
  return iobind__guard_end(&scope, iobind__call(binding, &plain, &reason, error), error);
}

/* Allocate memory for outputs that have none, with the dims of the plain run. */
static iobind_status make_outputs(iobind_binding *binding, iobind_error *error) {
  for (size_t i = 0; i < binding->session->output_count; i++) {
    iobind__output *output = &binding->outputs[i];
    iobind_tensor *shown = NULL;
    iobind_tensor *made = NULL;
    if (output->mode != IOBIND__OUTPUT_REUSE || output->target != NULL) {
      continue;
    }
    IOBIND__TRY(iobind__binding_peek(binding, i, &shown, error));
    IOBIND__TRY(iobind__tensor_create_at(output->place, iobind__form_of(shown), &made, error));
    iobind__output_aim(binding, i, made);
    iobind_tensor_release(made);
    iobind__table_changed(binding);
  }
  return IOBIND_OK;
}

static void run_and_discard(iobind_binding *binding, const iobind__execution *how) {
  if (iobind__graph_bring_in_line(binding, NULL) == IOBIND_OK) {
    (void)run(binding, how, NULL);
  }
}

/* After a failed run ORT does not wait for the work that it has submitted. Another run on the same stream of ORT does wait, so
 * one is made, and its results are discarded. A cancel would end it before it waits, so it is made again then. If it fails,
 * too, a stream of iobind is waited for. */
static void wait_for_failed(iobind_binding *binding, const iobind__execution *how) {
  bool cancelled = iobind__run_goes_on(binding);
  run_and_discard(binding, how);
  if (!cancelled && iobind__run_goes_on(binding)) {
    run_and_discard(binding, how); /* a cancel has ended the first one */
  }
  iobind__stream_pass(binding->session->compute.stream);
}

/* After a run whose outcome is `status`: restore the states, and drop its results. */
static iobind_status put_back(iobind_binding *binding, const saved *states, const iobind__execution *how, iobind_status status,
                              iobind_error *error) {
  if (status != IOBIND_OK && states->count > 0) {
    iobind__results_drop(binding, NULL); /* a verified run has fetched some */
    wait_for_failed(binding, how);
  }
  iobind_status restored = restore(binding, states, status == IOBIND_OK ? error : NULL);
  iobind__results_drop(binding, NULL);
  return status == IOBIND_OK ? restored : status;
}

/* Make a plain run, and restore the states. */
static iobind_status run_plain(iobind_binding *binding, const saved *states, const iobind__execution *how,
                               iobind_error *error) {
  IOBIND__TRY(iobind__graph_bring_in_line(binding, error));
  iobind_status status = run(binding, how, error);
  if (status == IOBIND_OK) {
    status = iobind__verified_compare(binding, "the run before the capture of a graph", error);
  }
  if (status == IOBIND_OK) {
    status = make_outputs(binding, error);
  }
  return put_back(binding, states, how, status, error);
}

/* Capture what is bound, and restore the states. *broken: another thread's call has ended the capture. */
static iobind_status capture(iobind_binding *binding, const saved *states, const iobind__execution *how, bool *broken,
                             iobind__graph *self, iobind_error *error) {
  OrtRunOptions *options = NULL;
  iobind__ort_reason reason = IOBIND__ORT_OTHER;
  *broken = false;
  IOBIND__TRY(iobind__graph_bring_in_line(binding, error));
  IOBIND__TRY(iobind__registry_add(binding->session, &self->captured, error));
  IOBIND__TRY(iobind__graph_make_options(binding, self, false, &options, error));
  iobind__scope scope;
  iobind_status status = iobind__guard_enter_alone(binding->session->graphs.device->guard, &scope, error);
  if (status == IOBIND_OK) {
    const iobind__execution capturing = waiting(how, options);
    status = iobind__guard_end_alone(&scope, iobind__call(binding, &capturing, &reason, error), error);
  }
  if (status == IOBIND_OK) {
    iobind__registry_note_whole(self->captured);
    /* each of ORT's executions has continued from the states that the previous one wrote, so then the replay is compared
     * instead */
    status = states->count > 0 ? IOBIND_OK : iobind__verified_compare(binding, "the run that captures a graph", error);
  }
  *broken = status != IOBIND_OK && reason == IOBIND__ORT_CAPTURE_BROKEN;
  return put_back(binding, states, how, status, error);
}

/* Capture a graph of what is bound, and restore the states. *out is NULL if that fails. */
static iobind_status capture_once(iobind_binding *binding, const saved *states, const iobind__execution *how, bool *broken,
                                  iobind__graph **out, iobind_error *error) {
  *broken = false;
  IOBIND__TRY(iobind__graph_create(binding, out, error));
  iobind_status status = capture(binding, states, how, broken, *out, error);
  if (status != IOBIND_OK) {
    iobind__graph_destroy(binding, *out);
    *out = NULL;
  }
  return status;
}

/* Calls that iobind does not make can break a capture. Then it is repeated once, after a plain run, which removes its remains. */
static iobind_status capture_twice(iobind_binding *binding, const saved *states, const iobind__execution *how,
                                   iobind__graph **out, iobind_error *error) {
  bool broken;
  iobind_error first = IOBIND_ERROR_INIT;
  iobind_status status = capture_once(binding, states, how, &broken, out, &first);
  if (broken) {
    IOBIND__TRY(run_plain(binding, states, how, error));
    return capture_once(binding, states, how, &broken, out, error);
  }
  return status == IOBIND_OK ? IOBIND_OK : iobind__error_copy(error, &first);
}

static iobind_status capture_from(iobind_binding *binding, const saved *states, bool is_plain, const iobind__execution *how,
                                  iobind__graph **out, iobind_error *error) {
  IOBIND__TRY(run_plain(binding, states, how, error));
  return is_plain ? iobind__graph_create(binding, out, error) : capture_twice(binding, states, how, out, error);
}

iobind_status iobind__capture(iobind_binding *binding, bool is_plain, const iobind__execution *how, iobind__graph **out,
                              iobind_error *error) {
  saved *states = NULL;
  IOBIND__TRY(save(binding, &states, error));
  iobind_status status = capture_from(binding, states, is_plain, how, out, error);
  free_saved(states);
  return status;
}
