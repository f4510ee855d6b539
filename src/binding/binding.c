/* Bindings: creation, clearing, destruction. */
#include <stdlib.h>

#include "binding/table.h"

iobind_session *iobind__binding_session(const iobind_binding *binding) {
  return binding->session;
}

static void free_retired(iobind__ref *ref);

/* Does a stream still use what is bound? Then the stream retains the binding, and frees it by a second call when its work is
 * complete. */
static bool retire(iobind_binding *binding) {
  const iobind__flight *flight = &binding->flight;
  /* a worker's task retains the binding, so it has ended */
  bool passed = flight->stream == NULL || !iobind__stream_orders_calls(flight->stream) ||
                iobind__stream_passed(flight->stream, flight->ticket);
  if (!passed) {
    iobind__ref_init(&binding->ref, free_retired); /* the stream's reference, now the only one */
    iobind__stream_retire(flight->stream, flight->ticket, &binding->ref);
  }
  return !passed;
}

/* ---- creation and destruction ---- */

static void clear_inputs(iobind_binding *binding) {
  for (size_t i = 0; i < binding->session->input_count; i++) {
    iobind__input_let_loose(binding, i);
    iobind__input_clear(&binding->inputs[i]);
  }
}

static void free_now(iobind_binding *binding) {
  iobind__results_drop(binding, NULL);
  iobind__graphs_close(binding);
  for (size_t i = 0; i < 2; i++) {
    iobind__side_close(binding, &binding->sides[i]); /* before the tensors that ORT reads, and before the session */
  }
  iobind__arrays_free(binding);
  iobind__run_options_free(binding);
  iobind__lengths_close(binding);
  iobind__marks_free(&binding->marks);
  for (size_t i = 0; binding->outputs != NULL && binding->held.list != NULL && i < binding->session->output_count; i++) {
    iobind__carry_end(binding, i);
    iobind__output_renew(binding, i);
  }
  if (binding->held.list != NULL) {
    clear_inputs(binding);
  }
  free(binding->outputs);
  free(binding->held.list);
  free(binding->carries);
  iobind__plan_close(binding);
  iobind__verified_close(binding);
  iobind_session *session = binding->session;
  iobind_stream *stream = iobind__flight_end(&binding->flight);
  iobind__flight_destroy(&binding->flight);
  pthread_mutex_destroy(&binding->held.mutex);
  free(binding);
  iobind__ref_release(stream == NULL ? NULL : &stream->ref);
  iobind__ref_release(&session->ref);
}

/* Called by the thread that finds the stream's work complete, which may be in a run of the same session. */
static void free_retired(iobind__ref *ref) {
  free_now((iobind_binding *)ref);
}

static void free_binding(iobind__ref *ref) {
  iobind_binding *binding = (iobind_binding *)ref;
  if (!retire(binding)) {
    free_now(binding);
  }
}

static iobind_status fill(iobind_binding *binding, iobind_error *error) {
  const iobind_session *session = binding->session;
  binding->outputs = calloc(session->output_count + 1, sizeof *binding->outputs);
  binding->carries = calloc(session->output_count + 1, sizeof *binding->carries);
  binding->held.list = calloc(iobind__holder_count(session) + 1, sizeof *binding->held.list);
  if (binding->outputs == NULL || binding->held.list == NULL || binding->carries == NULL) {
    return iobind__out_of_memory(error, "binding_create");
  }
  for (size_t i = 0; i < iobind__holder_count(session); i++) {
    iobind__holder_init(&binding->held.list[i], &binding->flight, i >= session->input_count);
  }
  IOBIND__TRY(iobind__plan_open(binding, error));
  IOBIND__TRY(iobind__verified_open(binding, error));
  for (size_t i = 0; i < session->output_count; i++) {
    binding->outputs[i].mode = IOBIND__OUTPUT_NONE;
    iobind__output_reset(binding, i);
  }
  static const iobind_run_options none = IOBIND_RUN_OPTIONS_INIT;
  IOBIND__TRY(iobind__graphs_open(binding, error));
  IOBIND__TRY(iobind__side_open(binding, &binding->sides[0], "binding_create", error));
  return iobind__run_options_replace(binding, &none, "binding_create", error);
}

iobind_status iobind_binding_create(iobind_session *session, iobind_binding **out, iobind_error *error) {
  if (out != NULL) {
    *out = NULL;
  }
  IOBIND__TRY(iobind__null_check(session, "session", "binding_create", error));
  IOBIND__TRY(iobind__null_check(out, "binding", "binding_create", error));
  IOBIND__TRY(iobind__process_check("binding_create", error));
  iobind_binding *binding = calloc(1, sizeof *binding + session->input_count * sizeof binding->inputs[0]);
  if (binding == NULL) {
    return iobind__out_of_memory(error, "binding_create");
  }
  iobind__ref_init(&binding->ref, free_binding);
  binding->session = session;
  iobind__ref_retain(&session->ref);
  binding->generation = 1;
  iobind__lengths_open(binding);
  iobind__flight_init(&binding->flight);
  pthread_mutex_init(&binding->held.mutex, NULL);
  iobind_status status = fill(binding, error);
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
  IOBIND__TRY(iobind__null_check(binding, "binding", "binding_clear", error));
  IOBIND__TRY(iobind__process_check("binding_clear", error));
  IOBIND__TRY(iobind__binding_must_be_idle(binding, "binding_clear", error));
  iobind__results_drop(binding, NULL);
  iobind__graphs_forget(binding);
  for (size_t i = 0; i < 2; i++) {
    iobind__side_clear(binding, &binding->sides[i]);
  }
  binding->arrays.follow_clear = true;
  clear_inputs(binding);
  for (size_t i = 0; i < binding->session->output_count; i++) {
    iobind__carry_end(binding, i);
    iobind__output_reset(binding, i);
  }
  return IOBIND_OK;
}
