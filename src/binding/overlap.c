/* Memory that a run reads and memory that it writes must not overlap, nor may two outputs, unless the caller chose IN_PLACE. If
 * the caller binds memory that iobind or ORT has allocated for an output, the output gets other memory. */
#include "binding/table.h"

static bool is_in_place(const iobind__carry *carry) {
  return carry != NULL && carry->mode == IOBIND_CARRY_IN_PLACE;
}

/* The memory of an output, if the caller chose it; NULL: the caller did not. An IN_PLACE state is chosen by binding the
 * input. */
static inline const iobind_tensor *chosen_memory(const iobind_binding *binding, size_t output) {
  const iobind__carry *carry = iobind__carry_of_output(binding, output);
  if (carry != NULL) {
    return is_in_place(carry) ? binding->inputs[carry->input].bound : NULL;
  }
  const iobind__output *self = &binding->outputs[output];
  return self->mode == IOBIND__OUTPUT_REUSE ? NULL : self->target; /* a graph's REUSE output has a target that iobind made */
}

static inline bool meet(const iobind_tensor *a, const iobind_tensor *b) {
  if (!iobind__tensor_may_overlap(a, b)) {
    return false;
  }
  return a->dtype == IOBIND_DTYPE_STRING ? iobind__strings_meet(a, b) : iobind__tensor_overlaps(a, b);
}

/* A quick test for the usual case: no input has the memory. */
static inline bool is_apart_from_inputs(const iobind_binding *binding, const iobind_tensor *tensor) {
  bool apart = binding->carry_count == 0;
  for (size_t i = 0; apart && i < binding->session->input_count; i++) {
    apart = !meet(tensor, binding->inputs[i].bound);
  }
  return apart;
}

/* The same for all other outputs. */
static inline bool is_apart_from_outputs(const iobind_binding *binding, size_t output, const iobind_tensor *tensor) {
  bool apart = true;
  for (size_t i = 0; apart && i < binding->session->output_count; i++) {
    apart = i == output || !meet(tensor, chosen_memory(binding, i));
  }
  return apart;
}

/* Does a tensor overlap the memory that the next run reads as this input: the last run's state, or the bound tensor? */
static iobind_status meets_next(const iobind_binding *binding, size_t index, const iobind_tensor *tensor, bool *meets,
                                iobind_error *error) {
  const iobind__carry *carry = iobind__carry_of_input(binding, index);
  if (carry == NULL || !iobind__carry_is_due(binding, carry)) {
    *meets = meet(tensor, binding->inputs[index].bound);
    return IOBIND_OK;
  }
  const iobind_tensor *state = binding->outputs[carry->output].target;
  if (state == NULL) {
    return iobind__result_overlaps(binding, carry->output, tensor, meets, error);
  }
  *meets = iobind__tensor_overlaps(tensor, state);
  return IOBIND_OK;
}

/* Check a tensor for an input that is carried in place: the output writes it, too. */
static iobind_status check_state(const iobind_binding *binding, const iobind__carry *carry, const iobind_tensor *tensor,
                                 const char *what, iobind_error *error) {
  const iobind_session *session = binding->session;
  for (size_t i = 0; i < session->input_count; i++) {
    bool meets = false;
    if (i != carry->input) {
      IOBIND__TRY(meets_next(binding, i, tensor, &meets, error));
    }
    if (meets) {
      return iobind__fail(
          error, IOBIND_ERROR_INVALID_ARGUMENT,
          "%s: '%s' is carried in place, and its tensor overlaps the memory of input '%s': bind separate tensors", what,
          session->inputs[carry->input].label, session->inputs[i].label);
    }
  }
  for (size_t i = 0; i < session->output_count; i++) {
    if (i != carry->output && meet(tensor, chosen_memory(binding, i))) {
      return iobind__fail(
          error, IOBIND_ERROR_INVALID_ARGUMENT,
          "%s: '%s' is carried in place, and its tensor overlaps the memory of output '%s': bind separate tensors", what,
          session->inputs[carry->input].label, session->outputs[i].label);
    }
  }
  return IOBIND_OK;
}

/* Check a tensor for an input, which is carried by `own`, or not carried (NULL). */
static iobind_status check_read(const iobind_binding *binding, size_t index, const iobind__carry *own,
                                const iobind_tensor *tensor, const char *what, iobind_error *error) {
  const iobind_session *session = binding->session;
  for (size_t i = 0; i < session->output_count; i++) {
    if (!meet(tensor, chosen_memory(binding, i))) {
      continue;
    }
    const iobind__carry *carry = iobind__carry_of_output(binding, i);
    bool is_own = own != NULL && own->output == i;
    bool asked = is_own || (carry == NULL ? binding->outputs[i].mode == IOBIND__OUTPUT_IN_PLACE : carry->input == index);
    if (!asked) {
      return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "%s: '%s' overlaps the memory of output '%s': %s", what,
                          session->inputs[index].label, session->outputs[i].label,
                          carry == NULL ? "bind the output IN_PLACE if the model allows it"
                                        : "a state that is carried in place needs a separate tensor");
    }
  }
  if (!is_in_place(own)) {
    return IOBIND_OK;
  }
  IOBIND__TRY(iobind__tensor_check_writable(tensor, what, error));
  return check_state(binding, own, tensor, what, error);
}

iobind_status iobind__overlap_check_input(const iobind_binding *binding, size_t index, const iobind_tensor *tensor,
                                          const char *what, iobind_error *error) {
  bool is_usual = binding->inputs[index].carry == 0 && is_apart_from_outputs(binding, SIZE_MAX, tensor);
  return is_usual ? IOBIND_OK : check_read(binding, index, iobind__carry_of_input(binding, index), tensor, what, error);
}

iobind_status iobind__overlap_check_carry(const iobind_binding *binding, const iobind__carry *carry, const iobind_tensor *state,
                                          const char *what, iobind_error *error) {
  return check_read(binding, carry->input, carry, state, what, error);
}

static iobind_status check_written(const iobind_binding *binding, size_t index, iobind__output_mode mode,
                                   const iobind_tensor *tensor, iobind_error *error) {
  const iobind_session *session = binding->session;
  for (size_t i = 0; i < session->input_count && mode == IOBIND__OUTPUT_FIXED; i++) {
    bool meets = false;
    IOBIND__TRY(meets_next(binding, i, tensor, &meets, error));
    if (meets) {
      return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT,
                          "binding_set_output: '%s' overlaps the memory of input '%s': bind it IN_PLACE if the model allows it",
                          session->outputs[index].label, session->inputs[i].label);
    }
  }
  for (size_t i = 0; i < session->output_count; i++) {
    if (i != index && meet(tensor, chosen_memory(binding, i))) {
      return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT,
                          "binding_set_output: '%s' overlaps the memory of output '%s': bind separate tensors",
                          session->outputs[index].label, session->outputs[i].label);
    }
  }
  return IOBIND_OK;
}

iobind_status iobind__overlap_check_output(const iobind_binding *binding, size_t index, iobind__output_mode mode,
                                           const iobind_tensor *tensor, iobind_error *error) {
  bool is_usual = is_apart_from_inputs(binding, tensor) && is_apart_from_outputs(binding, index, tensor);
  return is_usual ? IOBIND_OK : check_written(binding, index, mode, tensor, error);
}

void iobind__overlap_leave_buffers(iobind_binding *binding, const iobind_tensor *tensor) {
  for (size_t i = 0; i < binding->carry_count; i++) {
    iobind__carry *carry = &binding->carries[i];
    for (size_t side = 0; side < 2; side++) {
      if (meet(tensor, carry->buffers[side])) {
        iobind__carry_leave_buffer(binding, carry, side);
      }
    }
  }
}

iobind_status iobind__overlap_renew(iobind_binding *binding, const iobind_tensor *tensor, iobind_error *error) {
  bool is_known = binding->sides[1].binding == NULL &&
                  (binding->results.state == IOBIND__RESULTS_HELD || binding->results.state == IOBIND__RESULTS_READY);
  for (size_t i = 0; i < binding->session->output_count; i++) {
    const iobind__output *output = &binding->outputs[i];
    if (output->mode != IOBIND__OUTPUT_REUSE) {
      continue;
    }
    /* memory that iobind has allocated, for a graph or to copy the output there */
    const iobind_tensor *made = output->target != NULL ? output->target : output->is_copied ? output->shown[0] : NULL;
    bool overlaps = made != NULL ? meet(made, tensor) : !is_known || output->is_taken;
    if (made == NULL && !overlaps) {
      IOBIND__TRY(iobind__results_fetch(binding, error));
      IOBIND__TRY(iobind__result_overlaps(binding, i, tensor, &overlaps, error));
    }
    if (overlaps) {
      iobind__output_renew(binding, i);
    }
  }
  return IOBIND_OK;
}
