/* Saves the content of the carried inputs as tensors that no run writes, and restores it. */
#include <stdlib.h>

#include "binding/prefix.h"
#include "binding/table.h"

/* ---- save ---- */

/* The tensor that the next run reads as a carried input; borrowed. */
static iobind_status find_state(iobind_binding *binding, const iobind__carry *carry, const char *what, iobind_tensor **state,
                                iobind_error *error) {
  const iobind__input *input = &binding->inputs[carry->input];
  const char *name = binding->session->inputs[carry->input].label;
  if (iobind__carry_is_due(binding, carry) &&
      carry->mode != IOBIND_CARRY_IN_PLACE) { /* an IN_PLACE state is the bound tensor, even if the results were dropped */
    IOBIND__TRY(iobind__result_make(binding, carry->output, error));
    *state = binding->outputs[carry->output].result;
    return IOBIND_OK;
  }
  if (input->bound == NULL) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_STATE, "%s: '%s' is not bound: it has no state yet", what, name);
  }
  if (input->next >= IOBIND__NEXT_TORN) {
    return iobind__fail(
        error, IOBIND_ERROR_INVALID_STATE,
        "%s: the state '%s' is undefined, because a failed run may have written a part of it: restore a saved state, or bind "
        "it again",
        what, name);
  }
  IOBIND__TRY(input->event == NULL ? IOBIND_OK : iobind_event_wait(input->event, IOBIND_NO_TIMEOUT, error));
  *state = input->bound;
  return IOBIND_OK;
}

/* Can the state be saved by reference: does no run write it, and can only the binding and saved states access it? */
static bool is_kept_as_it_is(const iobind_binding *binding, const iobind__carry *carry, const iobind_tensor *state) {
  if (!iobind__carry_is_due(binding, carry) || carry->mode == IOBIND_CARRY_IN_PLACE || binding->graphs != NULL) {
    return false;
  }
  size_t own = iobind__output_references(binding, carry->output, state) + (size_t)(carry->buffers[0] == state) +
               (size_t)(carry->buffers[1] == state);
  bool is_alone = atomic_load_explicit(&state->ref.count, memory_order_acquire) == own;
  return iobind__tensor_owns_memory(state) && (state->read_only || is_alone);
}

static iobind_status copy_state(const iobind__cache *from, iobind_stream *busy, iobind_tensor **copy, iobind_error *error) {
  return from->prefix->is_used && iobind__prefix_can_copy(from->tensor)
             ? iobind__prefix_copy_new(from, busy, copy, error)
             : iobind__input_copy(from->session, from->input, from->tensor, busy, copy, error);
}

static iobind_status gather(iobind_binding *binding, iobind_stream *busy, iobind__states *out, iobind_error *error) {
  out->are_shared = true;
  for (size_t i = 0; i < binding->carry_count; i++) {
    const iobind__carry *carry = &binding->carries[i];
    iobind_tensor *state = NULL;
    IOBIND__TRY(find_state(binding, carry, "binding_save_state", &state, error));
    IOBIND__TRY(iobind__prefix_find(binding, carry, state, &out->prefixes[i], error));
    if (is_kept_as_it_is(binding, carry, state)) {
      out->tensors[i] = iobind_tensor_retain(state);
    } else {
      const iobind__cache from = {binding->session, carry->input, state, &out->prefixes[i]};
      IOBIND__TRY(copy_state(&from, busy, &out->tensors[i], error));
      out->tensors[i]->read_only = true;
      out->are_shared = false;
    }
  }
  return IOBIND_OK;
}

/* Let later runs not write tensors that were saved by reference. */
static void keep(iobind_binding *binding, iobind_stream *busy, iobind_tensor *const *states) {
  for (size_t i = 0; i < binding->carry_count; i++) {
    iobind__carry *carry = &binding->carries[i];
    if (states[i] != binding->outputs[carry->output].result) {
      continue;
    }
    if (busy != NULL) { /* so that readers get the run's failure */
      iobind__tensor_use_at(states[i], busy, binding->flight.ticket, IOBIND__WRITE);
    }
    if (!states[i]->read_only) {
      states[i]->read_only = true;
      iobind__carry_take(binding, carry);
    }
  }
}

/* *made: an event after the work that writes the states; NULL: it is complete. */
static iobind_status mark(iobind_stream *busy, iobind_event **made, iobind_error *error) {
  iobind_event *event;
  IOBIND__TRY(iobind_event_create(busy->device, &event, error));
  iobind_status status = iobind_event_record(event, busy, error);
  if (status != IOBIND_OK) {
    iobind_event_destroy(event);
    return status;
  }
  *made = event;
  return IOBIND_OK;
}

/* Results of runs in flight on an EP's stream can be used in the order of that stream: *busy. Other runs are waited for. */
static iobind_status settle_flight(iobind_binding *binding, iobind_stream **busy, iobind_error *error) {
  iobind__flight_poll(binding);
  *busy = binding->flight.stream;
  if (*busy == NULL || !iobind__stream_orders_calls(*busy)) {
    (void)iobind__flight_wait(binding, NULL); /* a failure is found by the caller */
    IOBIND__TRY(iobind__binding_check_idle(binding, "binding_save_state", error));
    *busy = NULL;
  }
  bool has_failed = *busy == NULL && binding->results.state == IOBIND__RESULTS_FAILED;
  return has_failed ? iobind__error_copy(error, &binding->results.failure) : IOBIND_OK;
}

static iobind_status save(iobind_binding *binding, iobind__states *out, iobind_error *error) {
  iobind_stream *busy = NULL;
  IOBIND__TRY(settle_flight(binding, &busy, error));
  const iobind__submission submission = iobind__stream_begin(busy);
  IOBIND__TRY(gather(binding, busy, out, error));
  IOBIND__TRY(busy == NULL ? IOBIND_OK : mark(busy, &out->made, error));
  if (busy != NULL && !out->are_shared) {
    iobind__flight_follow(&binding->flight, iobind__submission_ticket(&submission));
  }
  keep(binding, busy, out->tensors);
  return IOBIND_OK;
}

iobind_status iobind__binding_save(iobind_binding *binding, iobind__states *out, iobind_error *error) {
  out->made = NULL;
  iobind_status status = save(binding, out, error);
  iobind__tensors_release(out->tensors, status == IOBIND_OK ? 0 : binding->carry_count);
  return status;
}

iobind__marks *iobind__binding_marks(iobind_binding *binding) {
  return &binding->marks;
}

iobind_status iobind__binding_peek_state(iobind_binding *binding, size_t index, const char *what, iobind_tensor **state,
                                         iobind_error *error) {
  if (binding->results.state == IOBIND__RESULTS_FAILED) {
    return iobind__error_copy(error, &binding->results.failure);
  }
  return find_state(binding, &binding->carries[index], what, state, error);
}

/* ---- restore ---- */

/* How a state becomes what the next run reads. */
typedef enum way {
  BY_REFERENCE,
  OVER,       /* it is copied into the bound tensor */
  ROWS_OVER,  /* only its rows in use are copied there */
  COPIED,     /* it is copied into new memory */
  ROWS_COPIED /* only its rows in use are copied into new memory, with zeros after them */
} way;

/* May the bound tensor be overwritten with the state? */
static bool is_written_over(const iobind_binding *binding, const iobind__carry *carry) {
  const iobind_tensor *bound = binding->inputs[carry->input].bound;
  bool is_carrys = carry->mode == IOBIND_CARRY_IN_PLACE || iobind__carry_has_buffer(carry, bound);
  return bound != NULL && is_carrys && !bound->read_only;
}

static const iobind__prefix *prefix_of(const iobind__states *from, size_t index) {
  return from->prefixes == NULL || !from->prefixes[index].is_used ? NULL : &from->prefixes[index];
}

/* The capacity of a restored cache: that of the bound tensor; if none is bound, that of the saved cache. */
static int64_t capacity_of(const iobind_binding *binding, const iobind__states *from, size_t index) {
  const iobind__prefix *prefix = prefix_of(from, index);
  const iobind_tensor *bound = binding->inputs[binding->carries[index].input].bound;
  return bound != NULL && bound->rank == from->tensors[index]->rank ? bound->dims[prefix->axis] : prefix->capacity;
}

/* A copy is needed if runs write the state in place, or if graphs have captured the bound memory. */
static way choose_way(const iobind_binding *binding, const iobind__states *from, size_t index) {
  const iobind__carry *carry = &binding->carries[index];
  const iobind_tensor *state = from->tensors[index];
  const iobind_tensor *bound = binding->inputs[carry->input].bound;
  const iobind__prefix *prefix = prefix_of(from, index);
  bool is_resized = prefix != NULL && state->dims[prefix->axis] != capacity_of(binding, from, index);
  if (!is_resized && carry->mode != IOBIND_CARRY_IN_PLACE && binding->graphs == NULL) {
    return BY_REFERENCE;
  }
  bool is_over = is_written_over(binding, carry);
  if (is_over && iobind__tensor_is_alike(bound, state)) {
    return OVER;
  }
  return is_over && prefix != NULL && iobind__prefix_fits(prefix, state, bound) ? ROWS_OVER : is_resized ? ROWS_COPIED : COPIED;
}

static iobind_status check_shape(const iobind_session *session, const iobind__carry *carry, const iobind_tensor *state,
                                 iobind_error *error) {
  IOBIND__TRY(iobind__value_accepts(&session->inputs[carry->input], state, "binding_restore_state", error));
  return carry->mode == IOBIND_CARRY_MOVE
             ? IOBIND_OK
             : iobind__value_accepts(&session->outputs[carry->output], state, "binding_restore_state", error);
}

/* Copies need complete states. The event returns a failed run to each wait, the tensors only to one. */
static iobind_status await_copied(const iobind_binding *binding, iobind__states *from, iobind_error *error) {
  from->are_shared = true;
  for (size_t i = 0; i < binding->carry_count; i++) {
    from->are_shared = from->are_shared && choose_way(binding, from, i) == BY_REFERENCE;
  }
  return from->are_shared || from->made == NULL
             ? IOBIND_OK
             : iobind__renamed(iobind_event_wait(from->made, IOBIND_NO_TIMEOUT, error), error, "binding_restore_state");
}

static iobind_status widen(const iobind_binding *binding, const iobind__states *from, size_t index, iobind_tensor **made,
                           iobind_error *error) {
  const iobind__carry *carry = &binding->carries[index];
  iobind__prefix prefix = *prefix_of(from, index);
  const iobind__cache cache = {binding->session, carry->input, from->tensors[index], &prefix};
  prefix.capacity = capacity_of(binding, from, index);
  if (prefix.capacity < prefix.length) {
    return iobind__fail(error, IOBIND_ERROR_SHAPE,
                        "binding_restore_state: '%s': the state has %lld rows in use, but the bound tensor has only %lld",
                        binding->session->inputs[carry->input].label, (long long)prefix.length, (long long)prefix.capacity);
  }
  IOBIND__TRY(iobind__prefix_widen(&cache, made, error));
  return check_shape(binding->session, carry, *made, error);
}

static iobind_status prepare_one(const iobind_binding *binding, const iobind__states *from, size_t index, iobind_tensor **input,
                                 iobind_error *error) {
  const iobind__carry *carry = &binding->carries[index];
  iobind_tensor *state = from->tensors[index];
  way chosen = choose_way(binding, from, index);
  if (chosen != ROWS_OVER && chosen != ROWS_COPIED) {
    IOBIND__TRY(check_shape(binding->session, carry, state, error));
  }
  switch (chosen) {
    case BY_REFERENCE: *input = iobind_tensor_retain(state); return IOBIND_OK;
    case OVER:
    case ROWS_OVER: return iobind__tensor_settle(state, IOBIND__READ, error);
    case COPIED: IOBIND__TRY(iobind__input_copy(binding->session, carry->input, state, NULL, input, error)); break;
    case ROWS_COPIED: IOBIND__TRY(widen(binding, from, index, input, error)); break;
  }
  iobind__tensor_hand_to(*input, IOBIND_HOLDER_BINDING);
  return IOBIND_OK;
}

/* Create the tensors that become inputs, with references; NULL if the bound tensor is overwritten. */
static iobind_status prepare(const iobind_binding *binding, const iobind__states *from, iobind_tensor **inputs,
                             iobind_error *error) {
  for (size_t i = 0; i < binding->carry_count; i++) {
    IOBIND__TRY(prepare_one(binding, from, i, &inputs[i], error));
  }
  return IOBIND_OK;
}

static iobind_status write_over_one(const iobind_binding *binding, const iobind__states *from, size_t index,
                                    iobind_error *error) {
  const iobind_tensor *state = from->tensors[index];
  iobind_tensor *bound = binding->inputs[binding->carries[index].input].bound;
  return choose_way(binding, from, index) == ROWS_OVER
             ? iobind__prefix_copy(prefix_of(from, index), from->tensors[index], bound, NULL, error)
             : iobind__tensor_copy(&state, &bound, 1, NULL, IOBIND__SETTLED, error);
}

/* After a failed copy. By SWAP the overwritten tensor is the one that the last run has read, and what the run has left is unchanged. */
static void note_torn(iobind_binding *binding, iobind__carry *carry) {
  if (carry->mode == IOBIND_CARRY_IN_PLACE || !iobind__carry_is_due(binding, carry)) {
    binding->inputs[carry->input].next = IOBIND__NEXT_LOST; /* the caller changes the table */
  }
}

/* Overwrite the bound tensors of the other states. */
static iobind_status write_over(iobind_binding *binding, const iobind__states *from, iobind_tensor *const *inputs,
                                iobind_error *error) {
  iobind_status status = IOBIND_OK;
  for (size_t i = 0; i < binding->carry_count && status == IOBIND_OK; i++) {
    status = inputs[i] != NULL ? IOBIND_OK : write_over_one(binding, from, i, error);
  }
  for (size_t i = 0; i < binding->carry_count; i++) {
    iobind__carry *carry = &binding->carries[i];
    if (inputs[i] == NULL && status == IOBIND_OK) {
      binding->inputs[carry->input].next = IOBIND__NEXT_BOUND;
    } else if (inputs[i] == NULL) {
      note_torn(binding, carry);
    }
  }
  return status;
}

static iobind_status restore(iobind_binding *binding, iobind__states *from, iobind_tensor **inputs, iobind_error *error) {
  IOBIND__TRY(await_copied(binding, from, error));
  IOBIND__TRY(prepare(binding, from, inputs, error));
  iobind_status status = write_over(binding, from, inputs, error);
  if (status != IOBIND_OK) {
    (void)iobind__carry_advance(binding, NULL, NULL); /* the other states are still those that the last run has left */
  }
  iobind__results_drop(binding, NULL);
  iobind__lengths_forget(binding); /* changes the table, as it must: the content of inputs on the host determines the graph */
  IOBIND__TRY(status);
  for (size_t i = 0; i < binding->carry_count; i++) {
    if (inputs[i] != NULL) {
      bool is_read_there = choose_way(binding, from, i) == BY_REFERENCE;
      iobind__input_go_on(binding, binding->carries[i].input, inputs[i], is_read_there ? from->made : NULL);
      inputs[i] = NULL;
    }
  }
  return IOBIND_OK;
}

iobind_status iobind__binding_restore(iobind_binding *binding, iobind__states *from, size_t marks, iobind_error *error) {
  iobind__marks kept = binding->marks;
  iobind_tensor **inputs = calloc(binding->carry_count, sizeof(iobind_tensor *));
  if (inputs == NULL) {
    return iobind__out_of_memory(error, "binding_restore_state");
  }
  binding->marks = (iobind__marks){0}; /* kept, because binding an input clears the marks */
  iobind_status status = restore(binding, from, inputs, error);
  iobind__tensors_release(inputs, binding->carry_count);
  free(inputs);
  iobind__marks_cut(&kept, status == IOBIND_OK ? marks : 0);
  binding->marks = kept;
  return status;
}

size_t iobind__binding_count_carries(const iobind_binding *binding) {
  return binding->carry_count;
}

iobind__pair iobind__binding_view_carry(const iobind_binding *binding, size_t index) {
  const iobind__carry *carry = &binding->carries[index];
  return (iobind__pair){.output = carry->output, .input = carry->input};
}
