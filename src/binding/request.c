/* A run without a binding of the caller: a plain run, or one of a binding that exists only for this run. */
#include "binding/table.h"
#include "support/options.h"

static iobind_status bind_inputs(iobind_binding *binding, iobind_tensor *const *inputs, const char *what, iobind_error *error) {
  const iobind_session *session = binding->session;
  for (size_t i = 0; inputs != NULL && i < session->input_count; i++) { /* NULL only if the model has no inputs */
    bool is_ours = inputs[i] != NULL && inputs[i]->place->device->runtime == session->runtime;
    bool is_there = is_ours && iobind__session_reads(session, &session->inputs[i], inputs[i]);
    if (inputs[i] != NULL && !is_there && !(is_ours && inputs[i]->place->host)) {
      return iobind__refuse_elsewhere(session, i, inputs[i], what, error);
    }
    IOBIND__TRY(inputs[i] == NULL ? IOBIND_OK : iobind__tensor_settle(inputs[i], IOBIND__READ, error));
    iobind_input_mode mode = is_there ? IOBIND_INPUT_RESIDENT : IOBIND_INPUT_SNAPSHOT;
    IOBIND__TRY(iobind_binding_set_input(binding, i, mode, inputs[i], NULL, error));
  }
  return IOBIND_OK;
}

static iobind_tensor *target_of(const iobind_run_request *request, size_t output) {
  return request->targets == NULL ? NULL : request->targets[output];
}

static iobind_status bind_output(iobind_binding *binding, size_t index, const iobind_run_request *request,
                                 iobind_error *error) {
  iobind_session *session = binding->session;
  iobind_tensor *target = target_of(request, index);
  if (target != NULL) {
    return iobind_binding_set_output(binding, index, target, 0, error);
  }
  int32_t placement = iobind__placement_of(session, request->placements, index);
  bool comes_down = placement == IOBIND_PLACE_HOST && !session->outputs[index].place->host;
  return iobind_binding_place_output(binding, index, placement == IOBIND_PLACE_NONE ? IOBIND_OUTPUT_NONE : IOBIND_OUTPUT_FRESH,
                                     comes_down ? session->runtime->cpu : NULL, IOBIND_MEMORY_DEFAULT, error);
}

/* Take all outputs, or none. */
static iobind_status take(iobind_binding *binding, iobind_tensor **outputs, iobind_error *error) {
  size_t count = outputs == NULL ? 0 : binding->session->output_count; /* NULL only if the model has no outputs */
  iobind_status status = IOBIND_OK;
  for (size_t i = 0; i < count && status == IOBIND_OK; i++) {
    if (binding->outputs[i].mode != IOBIND__OUTPUT_NONE) {
      status = iobind_binding_take_output(binding, i, &outputs[i], error);
    }
  }
  iobind__tensors_release(outputs, status == IOBIND_OK ? 0 : count);
  return status;
}

static iobind_status check_recycling(iobind_session *session, const char *what, iobind_error *error) {
  iobind__session_enter(session);
  iobind_status status = iobind__registry_check_recycling(session, what, error);
  iobind__session_leave(session);
  return status;
}

static iobind_status run_bound(iobind_binding *binding, const iobind_run_request *request, iobind_tensor **outputs,
                               const char *what, iobind_error *error) {
  iobind_session *session = binding->session;
  iobind_run_options options;
  iobind__verified_serve_request(binding);
  iobind__graphs_close(binding); /* a graph for a single run would only cost time */
  IOBIND__TRY(iobind__session_graphs_have(session, IOBIND__QUIRK_GRAPH_RECYCLES) ? check_recycling(session, what, error)
                                                                                 : IOBIND_OK);
  IOBIND__TRY(iobind__placements_check(session, request->placements, what, error));
  IOBIND__TRY(iobind__run_options_read(session, request->options, what, &options, error));
  if (request->options != NULL) {
    IOBIND__TRY(iobind__run_options_replace(binding, &options, what, error));
  }
  IOBIND__TRY(bind_inputs(binding, request->inputs, what, error));
  for (size_t i = 0; i < session->output_count; i++) {
    IOBIND__TRY(bind_output(binding, i, request, error));
  }
  IOBIND__TRY(iobind_binding_run(binding, NULL, error));
  return take(binding, outputs, error);
}

static iobind_status run_by_binding(iobind_session *session, const iobind_run_request *request, iobind_tensor **outputs,
                                    const char *what, iobind_error *error) {
  iobind_binding *binding;
  IOBIND__TRY(iobind_binding_create(session, &binding, error));
  iobind_status status = run_bound(binding, request, outputs, what, error);
  iobind_binding_destroy(binding);
  return status;
}

static iobind_status check_lengths(const iobind_session *session, const iobind_run_request *request, const char *what,
                                   iobind_error *error) {
  IOBIND__TRY(iobind__array_check(request->inputs, request->input_count, session->input_count, "inputs", what, error));
  IOBIND__TRY(
      iobind__array_check_optional(request->targets, request->target_count, session->output_count, "targets", what, error));
  return iobind__array_check_optional(request->placements, request->placement_count, session->output_count, "placements", what,
                                      error);
}

iobind_status iobind_session_run(iobind_session *session, const iobind_run_request *given, iobind_tensor **outputs,
                                 size_t output_count, iobind_error *error) {
  static const char what[] = "session_run";
  for (size_t i = 0; outputs != NULL && i < output_count; i++) {
    outputs[i] = NULL;
  }
  if (session == NULL || given == NULL) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "%s: %s is NULL", what, session == NULL ? "session" : "request");
  }
  iobind_run_request request;
  IOBIND__TRY(iobind__process_check(what, error));
  IOBIND__TRY(iobind__array_check(outputs, output_count, session->output_count, "outputs", what, error));
  IOBIND__TRY(IOBIND__OPTIONS_READ(&request, given, what, error));
  IOBIND__TRY(check_lengths(session, &request, what, error));
  bool is_plain = request.targets == NULL && request.placements == NULL && request.options == NULL &&
                  !iobind__verified_wants_request(session, request.inputs);
  iobind_status status = is_plain ? iobind__session_run(session, request.inputs, outputs, error)
                                  : run_by_binding(session, &request, outputs, what, error);
  return iobind__renamed(status, error, what);
}
