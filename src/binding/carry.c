/* Outputs that become the next run's inputs: the steps before a run, after it, and after its failure. A MOVE output is FRESH,
 * and its value becomes the next input. A SWAP output alternates between two buffers: one side reads what the other one writes,
 * so after two runs nothing has to be bound. An IN_PLACE output is the input's tensor. */
#include "binding/table.h"

/* ---- before a run: the states that the last run left ---- */

/* The next run writes this buffer of SWAP, which the carry holds. */
static void aim_at_buffer(iobind__output *output, iobind_tensor *buffer) {
  iobind_tensor *old = output->target;
  output->target = iobind_tensor_retain(buffer);
  iobind_tensor_release(old);
}

/* The input reads a state now, and not the tensor that the caller has bound. */
static void note_state(iobind__input *input) {
  input->mode = IOBIND_INPUT_RESIDENT;
  input->next = IOBIND__NEXT_BOUND;
  input->is_left = true;
  if (input->event != NULL) {
    iobind__event_release(input->event); /* the event of the first state's producer */
    input->event = NULL;
  }
}

/* Later runs read this tensor as the input. Takes ownership of the reference. A state that the caller, too, can access gets a
 * holder. */
static void bind_state(iobind_binding *binding, size_t index, iobind_tensor *state, bool is_shared) {
  iobind__input *input = &binding->inputs[index];
  iobind_tensor *old = input->bound;
  input->bound = state;
  note_state(input);
  pthread_mutex_lock(&binding->held.mutex);
  if (is_shared) {
    iobind__input_hold(binding, index);
  } else {
    iobind__input_let_loose(binding, index);
  }
  pthread_mutex_unlock(&binding->held.mutex);
  iobind_tensor_release(old);
}

/* The output of the last run as a tensor, with a reference for the caller. */
static iobind_status take_state(iobind_binding *binding, iobind__output *output, iobind_tensor **state, iobind_error *error) {
  if (output->result != NULL) {
    *state = iobind_tensor_retain(output->result);
    return IOBIND_OK;
  }
  IOBIND__TRY(iobind__tensor_from_value(output->value, output->place, &binding->session->ref, state, "output", error));
  output->value = NULL;
  return IOBIND_OK;
}

static iobind_status advance_moved(iobind_binding *binding, iobind__carry *carry, bool *reshaped, iobind_error *error) {
  iobind__output *output = &binding->outputs[carry->output];
  iobind__input *input = &binding->inputs[carry->input];
  bool has_other_dims;
  IOBIND__TRY(binding->results.state == IOBIND__RESULTS_READY ? IOBIND_OK : iobind__results_fetch(binding, error));
  if (output->result == NULL && input->bound->place == output->place &&
      iobind__tensor_replace_value(input->bound, output->value, &has_other_dims)) {
    output->value = NULL;
    note_state(input);
  } else {
    iobind_tensor *state = NULL;
    bool is_shared = output->result != NULL;
    IOBIND__TRY(take_state(binding, output, &state, error));
    has_other_dims = !iobind__tensor_same_dims(state, input->bound);
    bind_state(binding, carry->input, state, is_shared);
  }
  binding->sides[0].generation = 0; /* both sides still have an older state */
  binding->sides[1].generation = 0;
  *reshaped = *reshaped || has_other_dims;
  return IOBIND_OK;
}

/* The next run reads what the last run wrote, and writes what the last run read. */
static void advance_swapped(iobind_binding *binding) {
  binding->turn = 1 - binding->turn;
  iobind__side *side = iobind__side_of_turn(binding);
  for (size_t i = 0; i < binding->carry_count; i++) {
    iobind__carry *carry = &binding->carries[i];
    if (carry->mode == IOBIND_CARRY_SWAP) {
      iobind__output *output = &binding->outputs[carry->output];
      if (iobind__carry_is_due(binding, carry)) {
        bool is_shared = !iobind__carry_has_buffer(carry, output->target);
        bind_state(binding, carry->input, iobind_tensor_retain(output->target), is_shared);
      }
      aim_at_buffer(output, carry->buffers[binding->turn]);
      if (!iobind__side_has(side, carry->input, binding->inputs[carry->input].bound, carry->output, output->target)) {
        side->generation = 0;
      }
    }
  }
}

iobind_status iobind__carry_advance(iobind_binding *binding, iobind_stream *busy, iobind_error *error) {
  bool any = false;
  bool swaps = false;
  bool reshaped = false;
  iobind_status status = IOBIND_OK;
  for (size_t i = 0; i < binding->carry_count && status == IOBIND_OK; i++) {
    iobind__carry *carry = &binding->carries[i];
    bool is_due = iobind__carry_is_due(binding, carry);
    any = any || is_due;
    swaps = swaps || (is_due && carry->mode == IOBIND_CARRY_SWAP);
    if (is_due && carry->mode == IOBIND_CARRY_MOVE) {
      status = advance_moved(binding, carry, &reshaped, error);
    }
  }
  if (!any) {
    return IOBIND_OK;
  }
  if (reshaped) {
    iobind__outputs_reshape(binding);
    iobind__table_changed(binding);
  }
  if (status != IOBIND_OK) {
    return status; /* after a failure the next call advances the remaining states */
  }
  iobind__results_drop(binding, busy); /* the results have become inputs */
  if (swaps) {
    advance_swapped(binding);
  }
  return IOBIND_OK;
}

/* ---- before a run: memory for the states that it writes ---- */

/* Takes ownership of the reference. */
static void set_buffer(iobind_binding *binding, iobind__carry *carry, size_t side, iobind_tensor *buffer) {
  iobind_tensor *old = carry->buffers[side];
  carry->buffers[side] = buffer;
  if (old != NULL) {
    iobind__graphs_forget_memory(binding, old); /* graphs captured in it cannot be replayed again */
  }
  pthread_mutex_lock(&binding->held.mutex);
  iobind__tensor_hold(buffer, iobind__side_holder(binding, carry->output, side));
  pthread_mutex_unlock(&binding->held.mutex);
  iobind__tensor_hand_to(buffer, IOBIND_HOLDER_BINDING);
  iobind__tensor_hand_to(old, IOBIND_HOLDER_CALLER); /* the caller may have retained it */
  iobind_tensor_release(old);
}

void iobind__carry_leave_buffer(iobind_binding *binding, iobind__carry *carry, size_t side) {
  bool is_state = binding->inputs[carry->input].bound == carry->buffers[side];
  set_buffer(binding, carry, side, NULL);
  if (is_state) {
    iobind__input_hold(binding, carry->input);
  }
}

/* Give a side a buffer of the state's shape, unless it has one. */
static iobind_status fit_buffer(iobind_binding *binding, iobind__carry *carry, size_t side, iobind_error *error) {
  const iobind_tensor *state = binding->inputs[carry->input].bound;
  const iobind_tensor *buffer = carry->buffers[side];
  if (buffer == NULL || !iobind__tensor_same_dims(buffer, state)) {
    iobind_tensor *made;
    IOBIND__TRY(iobind__input_make(binding->session, carry->input, state, &made, error));
    set_buffer(binding, carry, side, made);
  }
  return IOBIND_OK;
}

/* The run of this turn writes its side's buffer. */
static iobind_status prepare_swapped(iobind_binding *binding, iobind__carry *carry, iobind_error *error) {
  IOBIND__TRY(fit_buffer(binding, carry, binding->turn, error));
  iobind_tensor *buffer = carry->buffers[binding->turn];
  if (binding->outputs[carry->output].target != buffer) {
    aim_at_buffer(&binding->outputs[carry->output], buffer);
  }
  return IOBIND_OK;
}

iobind_status iobind__carry_prepare(iobind_binding *binding, iobind_error *error) {
  for (size_t i = 0; i < binding->carry_count; i++) {
    iobind__carry *carry = &binding->carries[i];
    if (carry->mode == IOBIND_CARRY_SWAP) {
      IOBIND__TRY(prepare_swapped(binding, carry, error));
    } else if (carry->mode == IOBIND_CARRY_IN_PLACE) {
      iobind__output_aim(binding, carry->output, binding->inputs[carry->input].bound);
    }
  }
  return IOBIND_OK;
}

/* A buffer of the state's shape that the run of this turn reads. */
static iobind_status stage_state(iobind_binding *binding, iobind__carry *carry, iobind_error *error) {
  iobind__input *input = &binding->inputs[carry->input];
  size_t side = 1 - binding->turn;
  if (input->bound == carry->buffers[side]) {
    return IOBIND_OK;
  }
  IOBIND__TRY(fit_buffer(binding, carry, side, error));
  iobind_tensor *buffer = carry->buffers[side];
  IOBIND__TRY(iobind__tensor_copy_one(input->bound, buffer, binding->session->compute.stream, error));
  iobind_tensor *old = input->bound;
  input->bound = iobind_tensor_retain(buffer);
  iobind__input_let_loose(binding, carry->input); /* the carry holds its buffers */
  iobind__table_changed(binding);
  iobind__sides_let_go(binding, old);
  iobind_tensor_release(old);
  return IOBIND_OK;
}

/* A SWAP state alternates between two buffers, which needs two graphs. The first state, which the caller has bound, would need
 * a third one, so it is copied into a buffer. */
iobind_status iobind__carry_stage(iobind_binding *binding, iobind_error *error) {
  for (size_t i = 0; i < binding->carry_count; i++) {
    if (binding->carries[i].mode == IOBIND_CARRY_SWAP) {
      IOBIND__TRY(stage_state(binding, &binding->carries[i], error));
    }
  }
  return IOBIND_OK;
}

/* ---- after a run ---- */

void iobind__carry_note_run(iobind_binding *binding) {
  for (size_t i = 0; i < binding->carry_count; i++) {
    binding->inputs[binding->carries[i].input].next = IOBIND__NEXT_RESULT;
  }
}

void iobind__carry_spoil(iobind_binding *binding, size_t input, iobind__next next) {
  iobind__input *self = &binding->inputs[input];
  self->next = next > self->next ? next : self->next;
  iobind__table_changed(binding);
}

static void spoil_in_place(iobind_binding *binding, iobind__next next) {
  for (size_t i = 0; i < binding->carry_count; i++) {
    if (binding->carries[i].mode == IOBIND_CARRY_IN_PLACE) {
      iobind__carry_spoil(binding, binding->carries[i].input, next);
    }
  }
}

void iobind__carry_note_failure(iobind_binding *binding) {
  spoil_in_place(binding, IOBIND__NEXT_TORN);
}

void iobind__carry_note_flight(iobind_binding *binding, bool is_chain) {
  iobind__carry_note_failure(binding);
  for (size_t i = 0; i < binding->carry_count; i++) {
    const iobind__carry *carry = &binding->carries[i];
    /* it was advanced for a run that was not made: the input is what the failed run has left */
    bool is_advanced = !iobind__carry_is_due(binding, carry);
    if (carry->mode != IOBIND_CARRY_IN_PLACE && (is_chain || is_advanced)) {
      iobind__carry_spoil(binding, carry->input, IOBIND__NEXT_LOST);
    }
  }
}

void iobind__carry_note_wrong(iobind_binding *binding) {
  spoil_in_place(binding, IOBIND__NEXT_LOST);
}

void iobind__carry_take(iobind_binding *binding, iobind__carry *carry) {
  if (carry != NULL && carry->mode == IOBIND_CARRY_SWAP) {
    iobind__carry_leave_buffer(binding, carry, binding->turn); /* the caller's tensor is still the next state */
  }
}

/* ---- the begin and the end of a carry ---- */

static bool swaps(const iobind_binding *binding) {
  bool any = false;
  for (size_t i = 0; i < binding->carry_count; i++) {
    any = any || binding->carries[i].mode == IOBIND_CARRY_SWAP;
  }
  return any;
}

static void add_carry(iobind_binding *binding, const iobind__carry *made) {
  binding->carries[binding->carry_count++] = *made;
  binding->outputs[made->output].carry = binding->carry_count;
  binding->inputs[made->input].carry = binding->carry_count;
  iobind__states_forget(binding);
}

/* Remove a carry: the last one moves into its slot. */
static void remove_carry(iobind_binding *binding, iobind__carry *carry) {
  binding->outputs[carry->output].carry = 0;
  iobind__input *input = &binding->inputs[carry->input];
  input->carry = 0;
  iobind__input_drop_result(input);
  iobind__states_forget(binding);
  const iobind__carry last = binding->carries[--binding->carry_count];
  if (carry != &binding->carries[binding->carry_count]) {
    *carry = last;
    size_t place = (size_t)(carry - binding->carries) + 1;
    binding->outputs[last.output].carry = place;
    binding->inputs[last.input].carry = place;
  }
}

void iobind__carry_remove(iobind_binding *binding, iobind__carry *carry) {
  iobind__carry_leave_buffer(binding, carry, 0);
  iobind__carry_leave_buffer(binding, carry, 1);
  remove_carry(binding, carry);
  if (!swaps(binding)) {
    iobind__side_clear(binding, &binding->sides[1 - binding->turn]); /* that side is not used any more */
  }
}

static iobind_status check_indices(iobind_binding *binding, size_t output, size_t input, iobind_error *error) {
  if (binding == NULL) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "binding_carry: binding is NULL");
  }
  const iobind_session *session = binding->session;
  if (output >= session->output_count || input >= session->input_count) {
    bool bad_output = output >= session->output_count;
    return iobind__fail(error, IOBIND_ERROR_NOT_FOUND, "binding_carry: %s: expected an index below %zu, got %zu",
                        bad_output ? "output" : "input", bad_output ? session->output_count : session->input_count,
                        bad_output ? output : input);
  }
  IOBIND__TRY(iobind__process_check("binding_carry", error));
  return iobind__binding_check_idle(binding, "binding_carry", error);
}

static iobind_status refuse_pair(const iobind__value *output, const iobind__value *input, iobind_status status,
                                 iobind_error *error) {
  char from[IOBIND__SHAPE_TEXT];
  char to[IOBIND__SHAPE_TEXT];
  iobind__value_shape_text(output, from, sizeof from);
  iobind__value_shape_text(input, to, sizeof to);
  return iobind__fail(error, status, "binding_carry: output '%s' is %s, input '%s' is %s: expected the same", output->label,
                      from, input->label, to);
}

/* Can the output ever fit the input? */
static iobind_status check_pair(const iobind__value *output, const iobind__value *input, iobind_error *error) {
  const iobind__value *values[2] = {output, input};
  for (int i = 0; i < 2; i++) {
    if (values[i]->kind != IOBIND_VALUE_TENSOR || values[i]->dtype == IOBIND_DTYPE_STRING) {
      return iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED, "binding_carry: '%s' %s", values[i]->label,
                          values[i]->kind != IOBIND_VALUE_TENSOR ? "is not a tensor"
                                                                 : "holds strings, which cannot be carried");
    }
  }
  if (output->dtype != input->dtype) {
    return refuse_pair(output, input, IOBIND_ERROR_DTYPE, error);
  }
  bool known = output->has_shape && input->has_shape;
  bool fits = !known || output->rank == input->rank;
  for (size_t i = 0; known && fits && i < input->rank; i++) {
    fits = output->dims[i] < 0 || input->dims[i] < 0 || output->dims[i] == input->dims[i];
  }
  return fits ? IOBIND_OK : refuse_pair(output, input, IOBIND_ERROR_SHAPE, error);
}

/* The tensor that the next run reads as the input; borrowed. `old`: its present carry, or NULL. NULL: nothing is bound. */
static iobind_status find_first_state(iobind_binding *binding, const iobind__carry *old, size_t input,
                                      const iobind_tensor **state, iobind_error *error) {
  bool is_result = old != NULL && iobind__carry_is_due(binding, old) && old->mode != IOBIND_CARRY_IN_PLACE;
  IOBIND__TRY(is_result ? iobind__result_make(binding, old->output, error) : IOBIND_OK);
  *state = is_result ? binding->outputs[old->output].result : binding->inputs[input].bound;
  return IOBIND_OK;
}

/* With SWAP and IN_PLACE the output has the shape of the first state, with IN_PLACE also its memory. If that state is already
 * bound, it is checked. */
static iobind_status check_first_state(iobind_binding *binding, const iobind__carry *carry, const iobind__carry *old,
                                       iobind_error *error) {
  const iobind_tensor *state = NULL;
  if (carry->mode == IOBIND_CARRY_MOVE) {
    return IOBIND_OK;
  }
  IOBIND__TRY(find_first_state(binding, old, carry->input, &state, error));
  if (state == NULL) {
    return IOBIND_OK;
  }
  IOBIND__TRY(iobind__value_accepts(&binding->session->outputs[carry->output], state, "binding_carry", error));
  return iobind__overlap_check_carry(binding, carry, state, "binding_carry", error);
}

static iobind_status choose_mode(const iobind_binding *binding, size_t output, size_t input, iobind_carry_mode *mode,
                                 iobind_error *error) {
  iobind__kind kind;
  IOBIND__TRY(iobind__session_known_kind(binding->session, output, input, &kind, error));
  *mode = iobind__kind_mode(&kind, binding->session);
  return IOBIND_OK;
}

iobind_status iobind_binding_carry(iobind_binding *binding, size_t output, size_t input, iobind_carry_mode mode,
                                   iobind_error *error) {
  IOBIND__TRY(check_indices(binding, output, input, error));
  IOBIND__TRY(mode == IOBIND_CARRY_DEFAULT ? choose_mode(binding, output, input, &mode, error) : IOBIND_OK);
  const iobind__value *from = &binding->session->outputs[output];
  const iobind__value *to = &binding->session->inputs[input];
  if (mode < IOBIND_CARRY_MOVE || mode > IOBIND_CARRY_IN_PLACE) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "binding_carry: '%s': expected mode %d .. %d, got %d",
                        from->label, IOBIND_CARRY_DEFAULT, IOBIND_CARRY_IN_PLACE, (int)mode);
  }
  IOBIND__TRY(check_pair(from, to, error));
  IOBIND__TRY(iobind__graphs_check_carry(binding, output, mode, error));
  size_t taken = binding->inputs[input].carry;
  if (taken != 0 && binding->carries[taken - 1].output != output) {
    return iobind__fail(
        error, IOBIND_ERROR_INVALID_ARGUMENT,
        "binding_carry: the input '%s' is already carried from the output '%s': bind that output to end its carry", to->label,
        binding->session->outputs[binding->carries[taken - 1].output].label);
  }
  if (binding->inputs[input].mode == IOBIND_INPUT_LIVE) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT,
                        "binding_carry: the input '%s' is bound LIVE: bind the first state RESIDENT or SNAPSHOT", to->label);
  }
  iobind__carry made = {.output = output, .input = input, .mode = mode};
  IOBIND__TRY(check_first_state(binding, &made, taken == 0 ? NULL : &binding->carries[taken - 1], error));
  IOBIND__TRY(iobind__carry_advance(binding, NULL, error));
  if (mode == IOBIND_CARRY_SWAP && binding->sides[1].binding == NULL) {
    IOBIND__TRY(iobind__side_open(binding, &binding->sides[1], "binding_carry", error));
  }
  iobind__carry_end(binding, output);
  iobind__output_set(binding, output, mode == IOBIND_CARRY_MOVE ? IOBIND__OUTPUT_FRESH : IOBIND__OUTPUT_IN_PLACE, to->place,
                     NULL);
  add_carry(binding, &made);
  return IOBIND_OK;
}
