/* Carried states in the default mode: a result that is still referenced is never overwritten. SWAP alternates between two
 * buffers, so run N overwrites the result of run N - 2. If that is still referenced, the state changes to MOVE, which allocates
 * memory in each run. A loop that drops its results allocates nothing. */
#include "binding.h"

int states_open(Binding *self) {
  self->states = PyMem_Calloc(self->session->output_count + 1, sizeof *self->states);
  return self->states == NULL ? -1 : 0;
}

static void forget(struct state *state) {
  SET_REFERENCE(state->last, NULL);
  SET_REFERENCE(state->before, NULL);
}

void states_close(Binding *self) {
  for (size_t i = 0; self->states != NULL && i < self->session->output_count; i++) {
    forget(&self->states[i]);
  }
  PyMem_Free(self->states);
  self->states = NULL;
}

int states_visit(Binding *self, visitproc visit, void *arg) {
  for (size_t i = 0; self->states != NULL && i < self->session->output_count; i++) {
    Py_VISIT((PyObject *)self->states[i].last);
    Py_VISIT((PyObject *)self->states[i].before);
  }
  return 0;
}

void state_end(Binding *self, size_t output) {
  if (self->states[output].is_kept) {
    self->states[output].is_kept = false;
    forget(&self->states[output]);
  }
}

void state_begin(Binding *self, size_t output, size_t input, bool is_swapped) {
  state_end(self, output);
  self->states[output] = (struct state){.is_kept = true, .is_swapped = is_swapped, .input = input};
  self->has_states = true;
}

void state_fetched(Binding *self, size_t output, Tensor *tensor) {
  if (self->states[output].is_kept) {
    Py_XINCREF((PyObject *)tensor);
    SET_REFERENCE(self->states[output].last, tensor);
  }
}

void state_bound(Binding *self, size_t input) {
  for (size_t i = 0; self->has_states && i < self->session->output_count; i++) {
    struct state *state = &self->states[i];
    state->is_irregular = state->is_irregular || (state->is_kept && state->input == input);
  }
}

/* Does anything reference the tensor, except the state itself, and outputs that only the binding references? Arrays and views
 * reference it, too. */
static bool is_referenced(Binding *self, size_t output, Tensor *tensor) {
  if (tensor == NULL) {
    return false;
  }
  Py_ssize_t ours = 1;
  if (self->outputs != NULL && !outputs_are_held(self) && self->outputs->has_fetched) {
    PyObject *number = PyLong_FromSize_t(output);
    ours += number != NULL && PyDict_GetItemWithError(self->outputs->fetched, number) == (PyObject *)tensor;
    Py_XDECREF(number);
  }
  return Py_REFCNT((PyObject *)tensor) > ours || tensor_is_shared(tensor);
}

bool state_is_kept(const Binding *self, size_t input) {
  bool found = false;
  for (size_t i = 0; i < self->session->output_count; i++) {
    found = found || (self->states[i].is_kept && self->states[i].input == input);
  }
  return found;
}

bool state_is_referenced(Binding *self, size_t input) {
  bool found = false;
  for (size_t i = 0; i < self->session->output_count && !found; i++) {
    const struct state *state = &self->states[i];
    bool is_held = self->outputs != NULL && outputs_are_held(self); /* then the outputs to be kept have been fetched */
    found = state->is_kept && state->input == input && state->last != NULL && (is_held || is_referenced(self, i, state->last));
  }
  return found;
}

void states_drop_unreferenced(Binding *self) {
  if (!outputs_are_held(self)) {
    outputs_end(self);
  }
  for (size_t i = 0; i < self->session->output_count; i++) {
    if (!is_referenced(self, i, self->states[i].last)) {
      SET_REFERENCE(self->states[i].last, NULL);
    }
  }
}

static int move(Binding *self, size_t output) {
  struct state *state = &self->states[output];
  if (binding_quiesce(self) != 0) {
    return -1;
  }
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_status status;
  WITHOUT_GIL(status, iobind_binding_carry(self->handle, output, state->input, IOBIND_CARRY_MOVE, &error));
  if (status != IOBIND_OK) {
    raise_error(&error);
    return -1;
  }
  state->is_swapped = false;
  SET_REFERENCE(state->before, NULL);
  outputs_end(self);
  return 0;
}

int states_spare(Binding *self) {
  for (size_t i = 0; i < self->session->output_count; i++) {
    const struct state *state = &self->states[i];
    if (state->is_kept && state->is_swapped &&
        (is_referenced(self, i, state->before) || (state->is_irregular && is_referenced(self, i, state->last))) &&
        move(self, i) != 0) {
      return -1;
    }
  }
  return 0;
}

void states_run(Binding *self, bool succeeded) {
  for (size_t i = 0; i < self->session->output_count; i++) {
    struct state *state = &self->states[i];
    state->is_irregular = !succeeded;
    if (state->is_kept && succeeded) {
      Tensor *last = state->last;
      state->last = NULL;
      if (state->is_swapped) {
        SET_REFERENCE(state->before, last);
      } else {
        Py_XDECREF((PyObject *)last);
      }
    }
  }
}
