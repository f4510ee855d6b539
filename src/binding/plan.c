/* What a run of the table does. */
#include <stdlib.h>

#include "binding/table.h"

iobind_status iobind__plan_open(iobind_binding *binding, iobind_error *error) {
  const iobind_session *session = binding->session;
  iobind__plan *plan = &binding->plan;
  plan->fresh = calloc(session->output_count + 1, sizeof *plan->fresh);
  plan->symbol_values = calloc(session->symbol_count + 1, sizeof *plan->symbol_values);
  plan->symbol_owners = calloc(session->symbol_count + 1, sizeof *plan->symbol_owners);
  bool whole = plan->fresh != NULL && plan->symbol_values != NULL && plan->symbol_owners != NULL;
  return whole ? IOBIND_OK : iobind__out_of_memory(error, "binding_create");
}

void iobind__plan_close(iobind_binding *binding) {
  free(binding->plan.fresh);
  free(binding->plan.symbol_values);
  free(binding->plan.symbol_owners);
}

static bool has_waits(const iobind_binding *binding) {
  bool any = false;
  for (size_t i = 0; !any && i < binding->session->input_count; i++) {
    any = binding->inputs[i].source != NULL || binding->inputs[i].event != NULL;
  }
  return any;
}

static inline bool is_output_seen(const iobind__output *output) {
  return output->mode == IOBIND__OUTPUT_NONE || output->is_verified;
}

static void plan_outputs(iobind_binding *binding) {
  iobind__plan *plan = &binding->plan;
  plan->fresh_count = 0;
  plan->is_seen = true;
  for (size_t i = 0; i < binding->session->output_count; i++) {
    const iobind__output *output = &binding->outputs[i];
    plan->is_seen = plan->is_seen && is_output_seen(output);
    if (iobind__output_is_fresh(output)) {
      plan->fresh[plan->fresh_count++] = i;
    }
  }
}

/* Neither a guard is to be entered, nor anything to be done around ORT's call but to bind outputs again. */
static bool repeats(const iobind_binding *binding, bool has_waits) {
  const iobind_session *session = binding->session;
  return session->guard == NULL && session->queued == NULL && iobind__binding_is_plain(binding) && !has_waits;
}

iobind_status iobind__plan_compile(iobind_binding *binding, iobind_error *error) {
  iobind__plan *plan = &binding->plan;
  IOBIND__TRY(iobind__binding_check_complete(binding, "binding_run", error));
  iobind__outputs_choose_copied(binding);
  plan_outputs(binding);
  plan->has_waits = has_waits(binding);
  plan->repeats = repeats(binding, plan->has_waits);
  plan->generation = binding->generation;
  return IOBIND_OK;
}

bool iobind__plan_holds(const iobind_binding *binding) {
  size_t fresh = 0;
  bool is_seen = true;
  for (size_t i = 0; i < binding->session->output_count; i++) {
    is_seen = is_seen && is_output_seen(&binding->outputs[i]);
    fresh += iobind__output_is_fresh(&binding->outputs[i]);
  }
  return repeats(binding, has_waits(binding)) && is_seen && fresh == binding->plan.fresh_count &&
         binding->results != IOBIND__RESULTS_READY && binding->flight.stream == NULL &&
         iobind__side_holds(binding, &binding->sides[binding->turn]);
}
