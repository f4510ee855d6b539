/* Checks the table, and compiles the plan from it: the steps of a run. */
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

/* ---- checks ---- */

static iobind_status refuse_symbol(const iobind_binding *binding, const iobind__value *value, int id, int64_t dim,
                                   const char *what, iobind_error *error) {
  const iobind_session *session = binding->session;
  size_t owner = binding->plan.symbol_owners[id];
  const char *other =
      owner < session->input_count ? session->inputs[owner].label : session->outputs[owner - session->input_count].label;
  return iobind__fail(error, IOBIND_ERROR_SHAPE, "%s: '%s': expected %s of %lld as in '%s', got %lld", what, value->label,
                      session->symbols[id], (long long)binding->plan.symbol_values[id], other, (long long)dim);
}

/* Collect the values of symbolic dims from a tensor; SHAPE if one differs from that of another tensor. Owners are numbered
 * inputs first, then outputs. */
static inline iobind_status agree_symbols(iobind_binding *binding, const iobind__value *value, const iobind_tensor *tensor,
                                          size_t owner, const char *what, iobind_error *error) {
  for (size_t i = 0; i < value->rank; i++) {
    int id = value->symbol_ids[i];
    if (id < 0) {
      continue;
    }
    int64_t *known = &binding->plan.symbol_values[id];
    if (*known < 0) {
      *known = tensor->dims[i];
      binding->plan.symbol_owners[id] = owner;
    } else if (*known != tensor->dims[i]) {
      return refuse_symbol(binding, value, id, tensor->dims[i], what, error);
    }
  }
  return IOBIND_OK;
}

static iobind_status check_input(iobind_binding *binding, size_t index, const char *what, iobind_error *error) {
  const iobind__value *value = &binding->session->inputs[index];
  const iobind__input *input = &binding->inputs[index];
  if (input->bound == NULL) {
    return value->kind == IOBIND_VALUE_TENSOR
               ? iobind__fail(error, IOBIND_ERROR_INVALID_STATE, "%s: input '%s' is not bound: bind a tensor to it first", what,
                              value->label)
               : iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED,
                              "%s: input '%s' is not a tensor, and only tensors can be bound", what, value->label);
  }
  if (input->next >= IOBIND__NEXT_TORN) {
    bool is_counted = binding->lengths.now.longest != IOBIND__LENGTH_UNKNOWN;
    return iobind__fail(
        error, IOBIND_ERROR_INVALID_STATE,
        "%s: the state '%s' is undefined, because a failed run may have written a part of it: %sbind it again, or write it by "
        "iobind_binding_write_input",
        what, value->label, is_counted && input->next == IOBIND__NEXT_TORN ? "rewind it by iobind_binding_rewind_state, " : "");
  }
  if (iobind__carry_of_input(binding, index) != NULL) { /* a run has written the state, which may not fit the model */
    IOBIND__TRY(iobind__value_accepts(value, input->bound, what, error));
  }
  return agree_symbols(binding, value, input->bound, index, what, error);
}

/* SWAP and IN_PLACE write the output into memory of the state's shape. */
static iobind_status check_carry(iobind_binding *binding, const iobind__carry *carry, const iobind__value *output,
                                 const char *what, iobind_error *error) {
  const iobind_tensor *state = binding->inputs[carry->input].bound;
  if (carry->mode == IOBIND_CARRY_MOVE) {
    return IOBIND_OK;
  }
  IOBIND__TRY(iobind__value_accepts(output, state, what, error));
  return agree_symbols(binding, output, state, binding->session->input_count + carry->output, what, error);
}

/* Does the run write the output into memory of an input? */
static bool overwrites(const iobind_binding *binding, size_t output, const iobind_tensor *input) {
  const iobind__carry *carry = iobind__carry_of_output(binding, output);
  const iobind_tensor *target = carry != NULL ? binding->inputs[carry->input].bound : binding->outputs[output].target;
  bool is_in_place =
      carry != NULL ? carry->mode == IOBIND_CARRY_IN_PLACE : binding->outputs[output].mode == IOBIND__OUTPUT_IN_PLACE;
  return is_in_place && iobind__tensor_overlaps(input, target);
}

/* iobind copies the input after the run, so no other output may overwrite it. */
static iobind_status check_passed_input(const iobind_binding *binding, size_t index, const char *what, iobind_error *error) {
  const iobind_session *session = binding->session;
  const iobind_tensor *source = binding->inputs[session->outputs[index].passthrough_input].bound;
  for (size_t i = 0; i < session->output_count && binding->outputs[index].mode != IOBIND__OUTPUT_NONE; i++) {
    if (i != index && overwrites(binding, i, source)) {
      return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT,
                          "%s: output '%s' passes through the input of that name, which output '%s' overwrites: bind other "
                          "memory, carry it by another mode, or do not fetch '%s'",
                          what, session->outputs[index].label, session->outputs[i].label, session->outputs[index].label);
    }
  }
  return IOBIND_OK;
}

/* iobind copies an input that the model passes through as this output, so ORT does not check the shape. */
static iobind_status check_passthrough(const iobind_binding *binding, size_t index, const char *what, iobind_error *error) {
  const iobind__value *value = &binding->session->outputs[index];
  const iobind__carry *carry = iobind__carry_of_output(binding, index);
  const iobind_tensor *source = binding->inputs[value->passthrough_input].bound;
  IOBIND__TRY(check_passed_input(binding, index, what, error));
  const iobind_tensor *target = carry == NULL                      ? binding->outputs[index].target
                                : carry->mode == IOBIND_CARRY_MOVE ? NULL
                                                                   : binding->inputs[carry->input].bound;
  if (target == NULL) {
    return IOBIND_OK;
  }
  if (!iobind__tensor_same_dims(source, target)) {
    char came[IOBIND__SHAPE_TEXT];
    char bound[IOBIND__SHAPE_TEXT];
    iobind__shape_text(iobind__form_of(source), NULL, came, sizeof came);
    iobind__shape_text(iobind__form_of(target), NULL, bound, sizeof bound);
    return iobind__fail(error, IOBIND_ERROR_SHAPE,
                        "%s: output '%s' passes through the input of that name, which is %s: expected the same, got %s", what,
                        value->label, came, bound);
  }
  bool is_written = carry == NULL ? binding->outputs[index].mode == IOBIND__OUTPUT_IN_PLACE
                                  : carry->mode == IOBIND_CARRY_IN_PLACE; /* SWAP never writes the first state */
  if (is_written && source->data != target->data && iobind__tensor_overlaps(source, target)) {
    return iobind__fail(
        error, IOBIND_ERROR_INVALID_ARGUMENT,
        "%s: output '%s' passes through the input of that name, and its tensor overlaps a part of the input's: bind all of "
        "that memory, or other memory",
        what, value->label);
  }
  return IOBIND_OK;
}

static inline iobind_status check_output(iobind_binding *binding, size_t index, const char *what, iobind_error *error) {
  const iobind__value *value = &binding->session->outputs[index];
  const iobind__output *output = &binding->outputs[index];
  const iobind__carry *carry = iobind__carry_of_output(binding, index);
  if (value->passthrough_input >= 0) {
    IOBIND__TRY(check_passthrough(binding, index, what, error));
  }
  if (carry != NULL) {
    return check_carry(binding, carry, value, what, error);
  }
  const size_t owner = binding->session->input_count + index;
  return output->target == NULL ? IOBIND_OK : agree_symbols(binding, value, output->target, owner, what, error);
}

/* Check that every input is bound, that symbolic dims agree, and that memory does not overlap where it must not. */
static iobind_status check_complete(iobind_binding *binding, const char *what, iobind_error *error) {
  const iobind_session *session = binding->session;
  for (size_t i = 0; i < session->symbol_count; i++) {
    binding->plan.symbol_values[i] = -1;
  }
  for (size_t i = 0; i < session->input_count; i++) {
    IOBIND__TRY(check_input(binding, i, what, error));
  }
  bool any = false;
  for (size_t i = 0; i < session->output_count; i++) {
    any = any || binding->outputs[i].mode != IOBIND__OUTPUT_NONE;
    IOBIND__TRY(check_output(binding, i, what, error));
  }
  return any ? IOBIND_OK
             : iobind__fail(error, IOBIND_ERROR_INVALID_STATE, "%s: no output is bound: a run needs at least one", what);
}

iobind_status iobind_binding_check(iobind_binding *binding, iobind_error *error) {
  IOBIND__TRY(iobind__null_check(binding, "binding", "binding_check", error));
  IOBIND__TRY(iobind__process_check("binding_check", error));
  IOBIND__TRY(iobind__binding_check_idle(binding, "binding_check", error));
  return check_complete(binding, "binding_check", error);
}

iobind_status iobind__binding_check_once(iobind_binding *binding, const char *what, iobind_error *error) {
  return iobind__plan_is_valid(binding) ? IOBIND_OK : check_complete(binding, what, error);
}

/* ---- the outputs that iobind copies: ORT's copies are not always ordered after the run, and ORT appends to old strings ---- */

static inline bool moves(const iobind__output *output, const iobind__value *value) {
  return output->mode != IOBIND__OUTPUT_NONE && iobind__output_place(output) != value->place;
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
    plan->is_seen = plan->is_seen && iobind__output_is_seen(binding, i);
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
  IOBIND__TRY(check_complete(binding, "binding_run", error));
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
    is_seen = is_seen && iobind__output_is_seen(binding, i);
    fresh += iobind__output_is_fresh(&binding->outputs[i]);
  }
  return repeats(binding, has_waits(binding)) && is_seen && fresh == binding->plan.fresh_count &&
         binding->flight.stream == NULL && binding->repeat.options == binding->settings.ort.now &&
         binding->repeat.binding == side->binding && iobind__side_holds(binding, side);
}
