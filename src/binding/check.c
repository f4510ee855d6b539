/* The checks of a binding before its run. */
#include "binding/table.h"

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
  if (input->damage != IOBIND__DAMAGE_NONE) {
    bool is_counted = binding->lengths.now.longest != IOBIND__LENGTH_UNKNOWN;
    return iobind__fail(
        error, IOBIND_ERROR_INVALID_STATE,
        "%s: the state '%s' is undefined, because a failed run may have written a part of it: %sbind it again, or write it by "
        "iobind_binding_write_input",
        what, value->label,
        is_counted && input->damage == IOBIND__DAMAGE_IN_PLACE ? "rewind it by iobind_binding_rewind_state, " : "");
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

/* iobind copies an input that the model passes through as this output, so ORT does not check the shape. */
static iobind_status check_passthrough(const iobind_binding *binding, size_t index, const char *what, iobind_error *error) {
  const iobind__value *value = &binding->session->outputs[index];
  const iobind__carry *carry = iobind__carry_of_output(binding, index);
  const iobind_tensor *source = binding->inputs[value->passthrough_input].bound;
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

iobind_status iobind__binding_check_complete(iobind_binding *binding, const char *what, iobind_error *error) {
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
  return iobind__binding_check_complete(binding, "binding_check", error);
}

iobind_status iobind__binding_check_once(iobind_binding *binding, const char *what, iobind_error *error) {
  return iobind__plan_is_valid(binding) ? IOBIND_OK : iobind__binding_check_complete(binding, what, error);
}
