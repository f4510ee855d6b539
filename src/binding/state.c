/* Saves and restores the carried states of a binding, for runs that the caller did not ask for. All pairs are saved or none. */
#include <stdlib.h>

#include "binding/table.h"

typedef struct saved_state {
  size_t output;
  size_t input;
  iobind_carry_mode mode;
  iobind_tensor *bound; /* the tensor that the input read; a reference is held, as on the next */
  iobind_tensor *copy;
} saved_state;

struct iobind__states {
  size_t turn;
  size_t count;
  saved_state states[];
};

void iobind__states_free(iobind__states *states) {
  for (size_t i = 0; states != NULL && i < states->count; i++) {
    iobind_tensor_release(states->states[i].bound);
    iobind_tensor_release(states->states[i].copy);
  }
  free(states);
}

static iobind_status save(iobind_binding *binding, const iobind__carry *carry, saved_state *state, iobind_error *error) {
  iobind_tensor *bound = binding->inputs[carry->input].bound;
  if (bound == NULL || binding->inputs[carry->input].is_spoiled) {
    return iobind__fail(error, IOBIND_INVALID_STATE, "binding_run: the state '%s' is not %s: there is nothing to save",
                        binding->session->inputs[carry->input].label, bound == NULL ? "bound" : "known");
  }
  *state = (saved_state){.output = carry->output, .input = carry->input, .mode = carry->mode};
  IOBIND__TRY(iobind__input_make(binding->session, carry->input, bound, &state->copy, error));
  state->bound = iobind_tensor_retain(bound);
  return iobind__tensor_copy_one(bound, state->copy, NULL, error);
}

iobind_status iobind__states_save(iobind_binding *binding, iobind__states **out, iobind_error *error) {
  *out = NULL;
  IOBIND__TRY(iobind__binding_check_idle(binding, "binding_run", error));
  IOBIND__TRY(iobind__carry_advance(binding, NULL, error));
  iobind__states *states = calloc(1, sizeof *states + binding->carry_count * sizeof states->states[0]);
  if (states == NULL) {
    return iobind__out_of_memory(error, "binding_run");
  }
  states->turn = binding->turn;
  states->count = binding->carry_count;
  iobind_status status = IOBIND_OK;
  for (size_t i = 0; i < states->count && status == IOBIND_OK; i++) {
    status = save(binding, &binding->carries[i], &states->states[i], error);
  }
  if (status != IOBIND_OK) {
    iobind__states_free(states);
    return status;
  }
  *out = states;
  return IOBIND_OK;
}

static bool is_carried(const iobind_binding *binding, const saved_state *state) {
  const iobind__carry *carry = iobind__carry_of_output(binding, state->output);
  return carry != NULL && carry->input == state->input && carry->mode == state->mode;
}

/* A state that is moved may be any tensor; the others are restored in their own memory, because a captured graph reads them
 * there. */
static iobind_status restore(iobind_binding *binding, const saved_state *state, iobind_error *error) {
  iobind__input *input = &binding->inputs[state->input];
  iobind__carry *carry = iobind__carry_of_output(binding, state->output);
  iobind_tensor *tensor = state->mode == IOBIND_CARRY_MOVE ? state->copy : state->bound;
  iobind_tensor *old = input->bound;
  carry->due = false;
  input->bound = iobind_tensor_retain(tensor);
  iobind_tensor_release(old);
  iobind_status status =
      state->mode == IOBIND_CARRY_MOVE ? IOBIND_OK : iobind__tensor_copy_one(state->copy, state->bound, NULL, error);
  input->is_spoiled = status != IOBIND_OK;
  return status;
}

iobind_status iobind__states_restore(iobind_binding *binding, const iobind__states *states, iobind_error *error) {
  IOBIND__TRY(iobind__binding_check_idle(binding, "binding_run", error));
  bool same = states->count == binding->carry_count;
  for (size_t i = 0; same && i < states->count; i++) {
    same = is_carried(binding, &states->states[i]);
  }
  if (!same) {
    return iobind__fail(error, IOBIND_INVALID_STATE, "binding_run: other states are carried than were saved");
  }
  iobind__results_drop(binding, NULL);
  iobind_status status = IOBIND_OK;
  for (size_t i = 0; i < states->count; i++) {
    iobind_status one = restore(binding, &states->states[i], status == IOBIND_OK ? error : NULL);
    status = status == IOBIND_OK ? one : status;
  }
  binding->turn = states->turn;
  binding->is_checked = false;
  iobind__table_changed(binding);
  return status;
}
