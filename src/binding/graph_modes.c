/* Checks what can be bound in a session that captures graphs: nothing whose address changes in each run, or that ORT would copy
 * outside of the graph. */
#include "binding/table.h"

static iobind_status refuse(const char *what, const char *name, const char *why, iobind_error *error) {
  return iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED, "%s: '%s': the session captures graphs (graph_limit): %s", what, name,
                      why);
}

iobind_status iobind__graphs_check_live(const iobind_binding *binding, size_t index, iobind_error *error) {
  return binding->graphs == NULL
             ? IOBIND_OK
             : refuse("binding_set_input", binding->session->inputs[index].name,
                      "expected a tensor where the session reads it, or SNAPSHOT and iobind_binding_write_input, got LIVE from "
                      "another location",
                      error);
}

iobind_status iobind__graphs_check_output(const iobind_binding *binding, size_t index, iobind__output_mode mode,
                                          const iobind__place *place, iobind_error *error) {
  const iobind_session *session = binding->session;
  const iobind__value *value = &session->outputs[index];
  if (binding->graphs == NULL || mode == IOBIND__OUTPUT_NONE) {
    return IOBIND_OK;
  }
  if (mode == IOBIND__OUTPUT_FRESH) {
    return refuse("binding_set_output", value->name,
                  "expected REUSE, FIXED or IN_PLACE, got FRESH, whose address changes in each run", error);
  }
  bool is_there = place == value->place || iobind__same_memory(session->runtime, place->info, value->place->info);
  return is_there ? IOBIND_OK
                  : refuse("binding_set_output", value->name,
                           "expected the memory where the session leaves it, got other memory, which a replay does not write",
                           error);
}

iobind_status iobind__graphs_check_carry(const iobind_binding *binding, size_t output, iobind_carry_mode mode,
                                         iobind_error *error) {
  const char *name = binding->session->outputs[output].name;
  if (binding->graphs == NULL || mode == IOBIND_CARRY_IN_PLACE) {
    return IOBIND_OK;
  }
  if (mode == IOBIND_CARRY_MOVE) {
    return refuse("binding_carry", name, "expected SWAP or IN_PLACE, got MOVE, whose address changes in each run", error);
  }
  if (iobind__session_graphs_have(binding->session, IOBIND__QUIRK_GRAPH_RECYCLES)) {
    return refuse("binding_carry", name, "SWAP needs two graphs, but with this ORT a session can have only one", error);
  }
  return binding->session->graphs.limit >= 2
             ? IOBIND_OK
             : refuse("binding_carry", name, "SWAP needs two graphs, but graph_limit is 1", error);
}
