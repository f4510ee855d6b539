/* Compiles the plan: the steps of a run with this table. */
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

/* ---- the outputs that iobind copies: ORT's copies are not always ordered after the run, and ORT appends to old strings ---- */

static inline bool moves(const iobind__output *output, const iobind__value *value) {
  const iobind__place *place = output->target != NULL ? output->target->place : output->place;
  return output->mode != IOBIND__OUTPUT_NONE && place != value->place;
}

/* May ORT allocate the output in a graph's scratch memory? ORT treats that as free between replays, which write it. An output
 * on the host is safe: it has been copied before another run of the session begins. */
static inline bool is_in_scratch(const iobind_session *session, const iobind__output *output) {
  return session->graphs.limit > 0 && output->mode == IOBIND__OUTPUT_FRESH && !output->place->host;
}

/* For an output that moves: in a run on an EP's stream, ORT refuses or omits the copy into preallocated or reused memory. */
static bool is_kept_elsewhere(const iobind__output *output, const iobind__value *value) {
  return output->mode != IOBIND__OUTPUT_FRESH && (value->place->device->flags & IOBIND_DEVICE_STREAMS) != 0;
}

/* Some releases of ORT copy several outputs to another memory location too early: the run may still be writing them. */
static bool are_copied_early(const iobind_binding *binding) {
  const iobind_session *session = binding->session;
  size_t early = 0;
  for (size_t i = 0; i < session->output_count; i++) {
    const iobind__value *value = &session->outputs[i];
    early += iobind__device_has(value->place->device, IOBIND__QUIRK_EARLY_OUTPUT_COPIES) && moves(&binding->outputs[i], value);
  }
  return early > 1;
}

/* ORT's StringConcat appends to the strings that it finds in its output. */
static inline bool has_old_texts(const iobind__output *output, const iobind__value *value) {
  return value->dtype == IOBIND_DTYPE_STRING && (output->mode == IOBIND__OUTPUT_FIXED || output->mode == IOBIND__OUTPUT_REUSE);
}

/* Must iobind copy the output? In every release, ORT's copy of a passed-through input to another memory location ignores the
 * stream. */
static inline bool must_be_copied(const iobind_session *session, const iobind__output *output, const iobind__value *value,
                                  bool early) {
  return output->mode != IOBIND__OUTPUT_NONE &&
         (value->passthrough_input >= 0 || is_in_scratch(session, output) || has_old_texts(output, value) ||
          (moves(output, value) && (early || is_kept_elsewhere(output, value))));
}

/* ---- the plan ---- */

static inline bool is_output_seen(const iobind__output *output) {
  return output->mode == IOBIND__OUTPUT_NONE || output->is_verified;
}

static void plan_outputs(iobind_binding *binding) {
  const iobind_session *session = binding->session;
  iobind__plan *plan = &binding->plan;
  const bool early = are_copied_early(binding);
  plan->fresh_count = 0;
  plan->copied_count = 0;
  plan->is_seen = true;
  for (size_t i = 0; i < session->output_count; i++) {
    iobind__output *output = &binding->outputs[i];
    const bool was_copied = output->is_copied;
    output->is_copied = must_be_copied(session, output, &session->outputs[i], early);
    plan->copied_count += output->is_copied;
    if (was_copied && !output->is_copied) {
      iobind__output_hide(binding,
                          i); /* ORT allocates other memory, and the caller may bind the old memory to something else */
    }
    plan->is_seen = plan->is_seen && is_output_seen(output);
    if (iobind__output_is_fresh(output)) {
      const iobind__place *place = output->is_copied ? iobind__output_home(binding, i) : output->place;
      plan->fresh[plan->fresh_count++] = (iobind__fresh){&session->outputs[i], place->info};
    }
  }
}

static bool has_waits(const iobind_binding *binding) {
  const size_t count = binding->session->input_count;
  bool any = false;
  for (size_t i = 0; !any && i < count; i++) {
    any = binding->inputs[i].source != NULL || binding->inputs[i].event != NULL;
  }
  return any;
}

/* Does a run need no guard, and no step around ORT's call other than binding outputs again? */
static bool repeats(const iobind_binding *binding, bool has_waits) {
  const iobind_session *session = binding->session;
  return session->guard == NULL && !session->has_queue && iobind__binding_is_plain(binding) && !has_waits;
}

iobind_status iobind__plan_compile(iobind_binding *binding, iobind_error *error) {
  iobind__plan *plan = &binding->plan;
  IOBIND__TRY(iobind__binding_check_complete(binding, "binding_run", error));
  plan_outputs(binding);
  plan->has_waits = has_waits(binding);
  plan->checks = iobind__verified_is_due(binding) ? IOBIND__CHECK_RESULTS : 0;
  if (binding->carry_count > 0 && iobind__overflow_is_checked(binding)) {
    plan->checks |= IOBIND__CHECK_LENGTHS;
  }
  plan->repeats = repeats(binding, plan->has_waits);
  plan->generation = binding->generation;
  return IOBIND_OK;
}

bool iobind__plan_holds(const iobind_binding *binding) {
  const iobind__side *side = &binding->sides[binding->turn];
  size_t fresh = 0;
  bool is_seen = true;
  for (size_t i = 0; i < binding->session->output_count; i++) {
    is_seen = is_seen && is_output_seen(&binding->outputs[i]);
    fresh += iobind__output_is_fresh(&binding->outputs[i]);
  }
  return repeats(binding, has_waits(binding)) && is_seen && fresh == binding->plan.fresh_count &&
         binding->flight.stream == NULL && binding->repeat.options == binding->settings.ort.now &&
         binding->repeat.binding == side->binding && iobind__side_holds(binding, side);
}
