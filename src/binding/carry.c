/* Outputs that become the next run's inputs. A MOVE output is FRESH, and its value the next input. A SWAP output alternates between
 * two buffers, each written by one of the two sides and read by the other. An IN_PLACE one is the input's tensor. */
#include <stdlib.h>
#include <string.h>

#include "binding/binding.h"

iobind__carry *iobind__carry_of_input(const iobind_binding *binding, size_t input) {
  for (size_t i = 0; i < binding->carry_count; i++) {
    if (binding->carries[i].input == input) {
      return &binding->carries[i];
    }
  }
  return NULL;
}

iobind__carry *iobind__carry_of_output(const iobind_binding *binding, size_t output) {
  for (size_t i = 0; i < binding->carry_count; i++) {
    if (binding->carries[i].output == output) {
      return &binding->carries[i];
    }
  }
  return NULL;
}

static iobind__sides other(iobind__sides side) {
  return (iobind__sides)(IOBIND__BOTH_SIDES ^ side);
}

static size_t index_of(iobind__sides side) {
  return side - 1u;
}

void iobind__carry_end(iobind_binding *binding, size_t output) {
  iobind__carry *carry = iobind__carry_of_output(binding, output);
  if (carry != NULL) {
    iobind_tensor_release(carry->buffers[0]);
    iobind_tensor_release(carry->buffers[1]);
    *carry = binding->carries[--binding->carry_count];
  }
}

void iobind__carry_note(iobind_binding *binding) {
  for (size_t i = 0; i < binding->carry_count; i++) {
    binding->carries[i].due = true;
  }
}

void iobind__carry_tear(iobind_binding *binding) {
  for (size_t i = 0; i < binding->carry_count; i++) {
    if (binding->carries[i].mode == IOBIND_CARRY_IN_PLACE) {
      binding->inputs[binding->carries[i].input].torn = true;
      binding->checked = false;
    }
  }
}

void iobind__carry_take(iobind_binding *binding, iobind__carry *carry) {
  if (carry == NULL || carry->mode != IOBIND_CARRY_SWAP) {
    return;
  }
  /* it is still the next state, and this side gets a new buffer when its turn comes */
  iobind_tensor_release(carry->buffers[index_of(binding->side)]);
  carry->buffers[index_of(binding->side)] = NULL;
  carry->settled &= binding->side;
  binding->outputs_changed |= binding->side;
}

/* ---- from run to run ---- */

/* The output of the last run as a tensor, with a reference for the caller. */
static iobind_status take_state(iobind_binding *binding, iobind__output_slot *slot, iobind_tensor **state,
                                iobind_error *error) {
  if (slot->result != NULL) {
    *state = iobind_tensor_retain(slot->result);
    return IOBIND_OK;
  }
  IOBIND__TRY(iobind__tensor_from_value(slot->value, slot->place, &binding->session->ref, state, error));
  slot->value = NULL;
  return IOBIND_OK;
}

/* The input's tensor is the next state, and `sides` do not have it yet. */
static void note_state(iobind_binding *binding, iobind__input_slot *input, iobind__sides sides) {
  input->mode = IOBIND_INPUT_RESIDENT;
  iobind__event_release(input->event); /* of the first state */
  input->event = NULL;
  input->changed |= sides;
  binding->inputs_changed |= sides;
}

/* As note_state, with another tensor. Takes the reference. */
static void bind_state(iobind_binding *binding, size_t index, iobind_tensor *state, iobind__sides sides) {
  iobind__input_slot *input = &binding->inputs[index];
  iobind_tensor *old = input->bound;
  input->bound = state;
  note_state(binding, input, sides);
  iobind_tensor_release(old);
}

static iobind_status advance_moved(iobind_binding *binding, iobind__carry *carry, iobind_error *error) {
  iobind__output_slot *slot = &binding->outputs[carry->output];
  iobind__input_slot *input = &binding->inputs[carry->input];
  bool reshaped;
  IOBIND__TRY(iobind__results_fetch(binding, error));
  if (slot->result == NULL && input->bound->place == slot->place &&
      iobind__tensor_replace_value(input->bound, slot->value, &reshaped)) {
    slot->value = NULL;
    note_state(binding, input, IOBIND__BOTH_SIDES);
  } else {
    iobind_tensor *state = NULL;
    IOBIND__TRY(take_state(binding, slot, &state, error));
    reshaped = !iobind__tensor_same_dims(state, input->bound);
    bind_state(binding, carry->input, state, IOBIND__BOTH_SIDES);
  }
  if (reshaped) {
    binding->reshaped = IOBIND__BOTH_SIDES;
    binding->checked = false;
  }
  carry->due = false;
  return IOBIND_OK;
}

/* What the last run wrote is read by the next, which writes what that one read. */
static void advance_swapped(iobind_binding *binding) {
  iobind__sides next = other(binding->side);
  for (size_t i = 0; i < binding->carry_count; i++) {
    iobind__carry *carry = &binding->carries[i];
    if (carry->mode != IOBIND_CARRY_SWAP) {
      continue;
    }
    iobind__output_slot *slot = &binding->outputs[carry->output];
    if (carry->due) {
      bind_state(binding, carry->input, iobind_tensor_retain(slot->tensor), other(carry->settled) & next);
      carry->due = false;
    }
    iobind_tensor_release(slot->tensor);
    slot->tensor = iobind_tensor_retain(carry->buffers[index_of(next)]);
  }
  binding->side = next;
  binding->binding = binding->sides[index_of(next)];
}

iobind_status iobind__carry_advance(iobind_binding *binding, iobind_error *error) {
  bool any = false;
  bool swaps = false;
  for (size_t i = 0; i < binding->carry_count; i++) {
    iobind__carry *carry = &binding->carries[i];
    any = any || carry->due;
    swaps = swaps || (carry->due && carry->mode == IOBIND_CARRY_SWAP);
    if (carry->due && carry->mode == IOBIND_CARRY_MOVE) {
      iobind_status status = advance_moved(binding, carry, error);
      if (status != IOBIND_OK) {
        binding->has_results = false; /* one state may be an input already; the others follow with the next call */
        return status;
      }
    }
  }
  if (any) {
    iobind__results_drop(binding); /* they are inputs now */
    binding->has_results = false;
  }
  if (swaps) {
    advance_swapped(binding);
  }
  return IOBIND_OK;
}

/* A buffer for this side to write: of the state's shape, and not the state's own memory. */
static iobind_status prepare_swapped(iobind_binding *binding, iobind__carry *carry, iobind_error *error) {
  const iobind_tensor *state = binding->inputs[carry->input].bound;
  iobind__output_slot *slot = &binding->outputs[carry->output];
  iobind_tensor **buffer = &carry->buffers[index_of(binding->side)];
  bool fits = *buffer != NULL && iobind__tensor_same_dims(*buffer, state) && !iobind__tensor_overlaps(*buffer, state);
  if (!fits) {
    iobind_tensor *made;
    IOBIND__TRY(iobind__input_make(binding, carry->input, state, &made, error));
    iobind_tensor_release(*buffer);
    *buffer = made;
    carry->settled &= binding->side; /* the other side reads what was there before */
    binding->outputs_changed |= binding->side;
  }
  if (slot->tensor != *buffer) {
    iobind_tensor_release(slot->tensor);
    slot->tensor = iobind_tensor_retain(*buffer);
    binding->outputs_changed |= binding->side;
  }
  bool settled = state == carry->buffers[index_of(other(binding->side))];
  carry->settled = settled ? carry->settled | binding->side : carry->settled & other(binding->side);
  return IOBIND_OK;
}

static void prepare_in_place(iobind_binding *binding, const iobind__carry *carry) {
  iobind__output_slot *slot = &binding->outputs[carry->output];
  iobind_tensor *state = binding->inputs[carry->input].bound;
  if (slot->tensor != state) {
    iobind_tensor_release(slot->tensor);
    slot->tensor = iobind_tensor_retain(state);
    binding->outputs_changed = IOBIND__BOTH_SIDES;
  }
}

iobind_status iobind__carry_prepare(iobind_binding *binding, iobind_error *error) {
  for (size_t i = 0; i < binding->carry_count; i++) {
    iobind__carry *carry = &binding->carries[i];
    if (binding->inputs[carry->input].bound == NULL) {
      continue; /* the check that follows says so */
    }
    if (carry->mode == IOBIND_CARRY_SWAP) {
      IOBIND__TRY(prepare_swapped(binding, carry, error));
    } else if (carry->mode == IOBIND_CARRY_IN_PLACE) {
      prepare_in_place(binding, carry);
    }
  }
  return IOBIND_OK;
}

/* ---- set up ---- */

static iobind_status check_indices(iobind_binding *binding, size_t output, size_t input, iobind_error *error) {
  if (binding == NULL) {
    return iobind__fail(error, IOBIND_INVALID_ARGUMENT, "binding_carry: binding is NULL");
  }
  const iobind_session *session = binding->session;
  if (output >= session->output_count || input >= session->input_count) {
    bool bad_output = output >= session->output_count;
    return iobind__fail(error, IOBIND_NOT_FOUND, "binding_carry: %s: expected an index below %zu, got %zu",
                        bad_output ? "output" : "input", bad_output ? session->output_count : session->input_count,
                        bad_output ? output : input);
  }
  return iobind__binding_check_idle(binding, "binding_carry", error);
}

/* Can what comes out ever go in? */
static iobind_status check_pair(const iobind__value *output, const iobind__value *input, iobind_error *error) {
  const iobind__value *values[2] = {output, input};
  for (int i = 0; i < 2; i++) {
    if (values[i]->kind != IOBIND_VALUE_TENSOR || values[i]->dtype == IOBIND_STRING) {
      return iobind__fail(error, IOBIND_NOT_SUPPORTED, "binding_carry: '%s' %s", values[i]->name,
                          values[i]->kind != IOBIND_VALUE_TENSOR ? "is no tensor" : "holds strings, which are not carried");
    }
  }
  char from[IOBIND__SHAPE_TEXT];
  char to[IOBIND__SHAPE_TEXT];
  iobind__shape_text((int32_t)output->dtype, output->dims, output->symbols, output->rank, from, sizeof from);
  iobind__shape_text((int32_t)input->dtype, input->dims, input->symbols, input->rank, to, sizeof to);
  if (output->dtype != input->dtype) {
    return iobind__fail(error, IOBIND_DTYPE, "binding_carry: '%s' is %s, the input '%s' takes %s", output->name, from,
                        input->name, to);
  }
  bool known = output->has_shape && input->has_shape;
  bool fits = !known || output->rank == input->rank;
  for (size_t i = 0; known && fits && i < input->rank; i++) {
    fits = output->dims[i] < 0 || input->dims[i] < 0 || output->dims[i] == input->dims[i];
  }
  return fits ? IOBIND_OK
              : iobind__fail(error, IOBIND_SHAPE, "binding_carry: '%s' is %s, the input '%s' takes %s", output->name, from,
                             input->name, to);
}

static iobind_status make_room(iobind_binding *binding, iobind_carry_mode mode, iobind_error *error) {
  const OrtApi *api = IOBIND__API(binding->session->runtime);
  if (binding->carries == NULL) {
    binding->carries = calloc(binding->session->output_count, sizeof *binding->carries);
  }
  if (binding->carries == NULL) {
    return iobind__out_of_memory(error, "binding_carry");
  }
  if (mode == IOBIND_CARRY_SWAP && binding->sides[1] == NULL) {
    IOBIND__ORT_TRY(api, api->CreateIoBinding(binding->session->session, &binding->sides[1]), error, "binding_carry");
    for (size_t i = 0; i < binding->session->input_count; i++) {
      binding->inputs[i].changed |= 2;
    }
    binding->inputs_changed |= 2;
    binding->outputs_changed |= 2;
  }
  return IOBIND_OK;
}

iobind_status iobind_binding_carry(iobind_binding *binding, size_t output, size_t input, iobind_carry_mode mode,
                                   iobind_error *error) {
  IOBIND__TRY(check_indices(binding, output, input, error));
  const iobind__value *from = &binding->session->outputs[output];
  const iobind__value *to = &binding->session->inputs[input];
  if (mode < IOBIND_CARRY_MOVE || mode > IOBIND_CARRY_IN_PLACE) {
    return iobind__fail(error, IOBIND_INVALID_ARGUMENT, "binding_carry: '%s': %d is no mode", from->name, (int)mode);
  }
  IOBIND__TRY(check_pair(from, to, error));
  const iobind__carry *taken = iobind__carry_of_input(binding, input);
  if (taken != NULL && taken->output != output) {
    return iobind__fail(error, IOBIND_INVALID_ARGUMENT, "binding_carry: the input '%s' is carried by the output '%s' already",
                        to->name, binding->session->outputs[taken->output].name);
  }
  if (binding->inputs[input].mode == IOBIND_INPUT_LIVE) {
    return iobind__fail(error, IOBIND_INVALID_ARGUMENT,
                        "binding_carry: the input '%s' is bound LIVE: bind the first state RESIDENT or SNAPSHOT", to->name);
  }
  IOBIND__TRY(iobind__carry_advance(binding, error));
  IOBIND__TRY(make_room(binding, mode, error));
  iobind__carry_end(binding, output);
  iobind__output_reset(binding, output);
  iobind__output_slot *slot = &binding->outputs[output];
  slot->mode = mode == IOBIND_CARRY_MOVE ? IOBIND_OUTPUT_FRESH : IOBIND_OUTPUT_IN_PLACE;
  slot->place = to->place;
  binding->carries[binding->carry_count++] = (iobind__carry){.output = output, .input = input, .mode = mode};
  return IOBIND_OK;
}
