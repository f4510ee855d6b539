/* The inputs of a binding. */
#include <string.h>

#include "binding/table.h"

/* The objects to which an input is bound; references are held. */
typedef struct supply {
  iobind_tensor *bound;
  iobind_tensor *source;
  iobind_event *event;
} supply;

/* A side's mirror retains what ORT still uses. */
static inline void release(const supply *old) {
  iobind__tensor_drop(old->bound);
  iobind__tensor_drop(old->source);
  if (old->event != NULL) {
    iobind__event_release(old->event);
  }
}

/* Set what the input reads. Returns the old objects, whose references the caller must release. */
static inline supply exchange(iobind__input *input, iobind_input_mode mode, supply made) {
  supply old = {.bound = input->bound, .source = input->source, .event = input->event};
  input->mode = mode;
  input->bound = made.bound;
  input->source = made.source;
  input->event = made.event;
  input->next = IOBIND__NEXT_BOUND;
  input->is_made = false;
  input->is_left = false;
  input->past.known = false;
  return old;
}

void iobind__input_clear(iobind__input *input) {
  supply old = exchange(input, IOBIND_INPUT_RESIDENT, (supply){0});
  release(&old);
}

void iobind__input_hold(iobind_binding *binding, size_t index) {
  const iobind__input *input = &binding->inputs[index];
  iobind__tensor_hold(input->source != NULL ? input->source : input->bound, &binding->held.list[index]);
}

void iobind__input_let_loose(iobind_binding *binding, size_t index) {
  iobind__holder_set(&binding->held.list[index], NULL);
}

static iobind_status check_index(const iobind_binding *binding, size_t index, const char *what, iobind_error *error) {
  IOBIND__TRY(iobind__null_check(binding, "binding", what, error));
  if (index >= binding->session->input_count) {
    return iobind__fail(error, IOBIND_ERROR_NOT_FOUND, "%s: expected an index below %zu, got %zu", what,
                        binding->session->input_count, index);
  }
  return IOBIND_OK;
}

/* Can a tensor that is not where the session reads the input be copied there? */
static iobind_status check_copied(const iobind_binding *binding, size_t index, iobind_input_mode mode,
                                  const iobind_tensor *tensor, iobind_error *error) {
  const iobind__value *value = &binding->session->inputs[index];
  IOBIND__TRY(mode == IOBIND_INPUT_LIVE ? iobind__graphs_check_live(binding, index, error) : IOBIND_OK);
  if (mode == IOBIND_INPUT_RESIDENT) {
    return iobind__fail(
        error, IOBIND_ERROR_WRONG_DEVICE,
        "binding_set_input: '%s': the session reads it in memory of '%s%s', the tensor is in '%s%s': create it there, or bind "
        "it SNAPSHOT or LIVE, which copy it",
        value->label, value->place->device->spec, iobind__place_suffix(value->place), tensor->place->device->spec,
        iobind__place_suffix(tensor->place));
  }
  if (tensor->dtype == IOBIND_DTYPE_STRING) {
    return iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED, "binding_set_input: '%s': strings cannot be copied to '%s'",
                        value->label, value->place->device->spec);
  }
  return IOBIND_OK;
}

static iobind_status check_input(const iobind_binding *binding, size_t index, iobind_input_mode mode,
                                 const iobind_tensor *tensor, bool *at_home, iobind_error *error) {
  const iobind_session *session = binding->session;
  const iobind__value *value = &session->inputs[index];
  if (mode < IOBIND_INPUT_RESIDENT || mode > IOBIND_INPUT_LIVE) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "binding_set_input: '%s': expected mode 0 .. %d, got %d",
                        value->label, IOBIND_INPUT_LIVE, (int)mode);
  }
  IOBIND__TRY(iobind__value_accepts(value, tensor, "binding_set_input", error));
  if (tensor->place->device->runtime != session->runtime) {
    return iobind__fail(error, IOBIND_ERROR_WRONG_DEVICE,
                        "binding_set_input: '%s': expected a tensor of the session's runtime, got one of another",
                        value->label);
  }
  const iobind__carry *carry = iobind__carry_of_input(binding, index);
  if (mode == IOBIND_INPUT_LIVE && carry != NULL) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT,
                        "binding_set_input: '%s' is a carried state, which cannot be LIVE: bind it RESIDENT or SNAPSHOT",
                        value->label);
  }
  if (carry != NULL && carry->mode != IOBIND_CARRY_MOVE) {
    IOBIND__TRY(iobind__value_accepts(&session->outputs[carry->output], tensor, "binding_set_input", error));
  }
  *at_home = iobind__session_reads(session, value, tensor);
  return *at_home ? IOBIND_OK : check_copied(binding, index, mode, tensor, error);
}

static iobind_status make(iobind_session *session, size_t index, const iobind_tensor *like, const int64_t *dims,
                          iobind_tensor **tensor, iobind_error *error) {
  const iobind__value *value = &session->inputs[index];
  const iobind__form form = {like->dtype, dims, like->rank};
  iobind_error refusal = IOBIND_ERROR_INIT; /* not an error of the call: the session may lend memory */
  iobind_status status = iobind__tensor_create_at(value->place, form, tensor, &refusal);
  if (status != IOBIND_OK && status != IOBIND_ERROR_NOT_SUPPORTED) {
    iobind__error_set(error, status, refusal.ort_code, "%s", refusal.message);
  }
  if (status != IOBIND_ERROR_NOT_SUPPORTED) {
    return status;
  }
  iobind__place *place;
  IOBIND__TRY(iobind__session_lend_place(session, value->place->info, &place, error));
  return iobind__tensor_create_at(place, form, tensor, error);
}

iobind_status iobind__input_make(iobind_session *session, size_t index, const iobind_tensor *like, iobind_tensor **tensor,
                                 iobind_error *error) {
  return make(session, index, like, like->dims, tensor, error);
}

iobind_status iobind__input_make_cache(const iobind__cache *like, int64_t rows, iobind_tensor **tensor, iobind_error *error) {
  int64_t dims[IOBIND_MAX_RANK];
  memcpy(dims, like->tensor->dims, like->tensor->rank * sizeof dims[0]);
  dims[like->prefix->axis] = rows;
  return make(like->session, like->input, like->tensor, dims, tensor, error);
}

iobind_status iobind__input_copy(iobind_session *session, size_t index, const iobind_tensor *from, iobind_stream *stream,
                                 iobind_tensor **copy, iobind_error *error) {
  iobind_tensor *made;
  IOBIND__TRY(iobind__input_make(session, index, from, &made, error));
  iobind_status status = iobind__tensor_copy(&from, &made, 1, stream, IOBIND__SETTLED, error);
  if (status != IOBIND_OK) {
    iobind_tensor_release(made);
    return status;
  }
  *copy = made;
  return IOBIND_OK;
}

/* Copy the tensor, when its producer is complete, into memory that the session reads. */
static iobind_status make_snapshot(const iobind_binding *binding, size_t index, const iobind_tensor *tensor,
                                   iobind_event *event, iobind_tensor **copy, iobind_error *error) {
  iobind_tensor *made;
  IOBIND__TRY(iobind__input_make(binding->session, index, tensor, &made, error));
  iobind_status status = event != NULL ? iobind_event_wait(event, IOBIND_NO_TIMEOUT, error) : IOBIND_OK;
  if (status == IOBIND_OK) {
    status = iobind__tensor_settle(tensor, IOBIND__READ, error);
  }
  if (status == IOBIND_OK) {
    status = tensor->dtype == IOBIND_DTYPE_STRING ? iobind__strings_copy(tensor, made, error)
                                                  : iobind__tensor_copy_one(tensor, made, NULL, error);
  }
  if (status != IOBIND_OK) {
    iobind_tensor_release(made);
    return status;
  }
  iobind__tensor_hand_to(made, IOBIND_HOLDER_BINDING);
  *copy = made;
  return IOBIND_OK;
}

/* Is it another tensor of the same kind, so that nothing else in the binding can change? */
static bool is_alike(const iobind_binding *binding, const iobind__input *input, iobind_input_mode mode,
                     const iobind_tensor *tensor, const iobind_event *event) {
  bool is_read_in_place = mode == IOBIND_INPUT_RESIDENT || (mode == IOBIND_INPUT_LIVE && input->source == NULL);
  return tensor != NULL && input->bound != NULL && is_read_in_place && input->mode == mode && event == NULL &&
         input->event == NULL && iobind__binding_is_plain(binding) && iobind__tensor_is_alike(tensor, input->bound);
}

static inline iobind_status exchange_alike(iobind_binding *binding, size_t index, iobind_tensor *tensor, iobind_error *error) {
  iobind__input *input = &binding->inputs[index];
  IOBIND__TRY(iobind__overlap_check_input(binding, index, tensor, "binding_set_input", error));
  IOBIND__TRY(iobind__overlap_make_room(binding, tensor, error));
  iobind_tensor *old = input->bound;
  input->bound = tensor;
  iobind_status status = iobind__side_replace_input(binding, index, "binding_set_input", error);
  if (status != IOBIND_OK) {
    input->bound = old;
    return status;
  }
  input->next = IOBIND__NEXT_BOUND; /* a run of an ended carry may have set it */
  iobind__ref_retain(&tensor->ref);
  iobind__input_hold(binding, index);
  if (!iobind__binding_is_in_line(binding)) { /* otherwise ORT has got the new tensor in place of the old one */
    iobind__sides_let_go(binding, old);
  }
  iobind__ref_release(&old->ref);
  return IOBIND_OK;
}

/* Does the tensor have other dims than the previous one, for which REUSE outputs have memory? */
static inline bool has_other_dims(const iobind__input *input, const iobind_tensor *tensor) {
  if (input->bound != NULL) {
    return !iobind__tensor_same_dims(input->bound, tensor);
  }
  const iobind__dims *past = &input->past;
  return past->known && (past->rank != tensor->rank || memcmp(past->dims, tensor->dims, past->rank * sizeof(int64_t)) != 0);
}

void iobind__input_let_go(iobind_binding *binding, size_t index) {
  iobind__input *input = &binding->inputs[index];
  if (input->bound == NULL) {
    return;
  }
  iobind__dims past = {.known = true, .rank = input->bound->rank};
  memcpy(past.dims, input->bound->dims, past.rank * sizeof(int64_t));
  iobind__sides_forget_inputs(binding);
  iobind__input_let_loose(binding, index);
  iobind__input_clear(input);
  input->past = past;
  iobind__table_changed(binding);
}

/* The lengths of the next run are no longer those that iobind has written. */
static inline void note_written(iobind_binding *binding, const iobind__input *input) {
  if (input->role != IOBIND_LENGTH_UNNAMED) {
    binding->lengths.added = 0;
  }
}

/* Bind the input. Takes ownership of the references. */
__attribute__((always_inline)) static inline void put(iobind_binding *binding, size_t index, iobind_input_mode mode,
                                                      supply made) {
  iobind__input *input = &binding->inputs[index];
  if (has_other_dims(input, made.bound)) {
    iobind__outputs_reshape(binding);
  }
  if (input->carry != 0) {
    iobind__states_forget(binding);
  }
  note_written(binding, input);
  supply old = exchange(input, mode, made);
  iobind__table_changed(binding);
  iobind__input_hold(binding, index);
  iobind__sides_let_go(binding, old.bound);
  release(&old);
}

void iobind__input_go_on(iobind_binding *binding, size_t index, iobind_tensor *state, iobind_event *event) {
  put(binding, index, IOBIND_INPUT_RESIDENT,
      (supply){.bound = state, .event = event == NULL ? NULL : iobind__event_retain(event)});
  binding->inputs[index].is_left = true;
}

/* Bind a copy: made now for SNAPSHOT, before each run for LIVE. */
__attribute__((noinline)) static iobind_status bind_copy(iobind_binding *binding, size_t index, iobind_input_mode mode,
                                                         iobind_tensor *tensor, iobind_event *event, iobind_error *error) {
  supply made = {0};
  if (mode == IOBIND_INPUT_SNAPSHOT) { /* the copy waits for the event */
    IOBIND__TRY(make_snapshot(binding, index, tensor, event, &made.bound, error));
  } else {
    IOBIND__TRY(iobind__input_make(binding->session, index, tensor, &made.bound, error));
    iobind__tensor_hand_to(made.bound, IOBIND_HOLDER_BINDING);
    made.source = iobind_tensor_retain(tensor);
    made.event = event == NULL ? NULL : iobind__event_retain(event);
  }
  put(binding, index, mode, made);
  return IOBIND_OK;
}

static inline iobind_status bind(iobind_binding *binding, size_t index, iobind_input_mode mode, iobind_tensor *tensor,
                                 iobind_event *event, iobind_error *error) {
  bool at_home = false;
  IOBIND__TRY(iobind__process_check("binding_set_input", error));
  if (tensor == NULL) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "binding_set_input: '%s': tensor is NULL",
                        binding->session->inputs[index].label);
  }
  IOBIND__TRY(check_input(binding, index, mode, tensor, &at_home, error));
  if (mode == IOBIND_INPUT_SNAPSHOT || !at_home) {
    return bind_copy(binding, index, mode, tensor, event, error);
  }
  IOBIND__TRY(iobind__overlap_check_input(binding, index, tensor, "binding_set_input", error));
  IOBIND__TRY(iobind__overlap_make_room(binding, tensor, error));
  iobind__ref_retain(&tensor->ref);
  put(binding, index, mode, (supply){.bound = tensor, .event = event == NULL ? NULL : iobind__event_retain(event)});
  return IOBIND_OK;
}

/* Not inlined, so that its caller needs no frame. */
__attribute__((noinline)) static iobind_status replace(iobind_binding *binding, size_t index, iobind_tensor *tensor,
                                                       iobind_error *error) {
  return iobind__named(exchange_alike(binding, index, tensor, error), error, "binding_set_input");
}

__attribute__((noinline)) static iobind_status set_input(iobind_binding *binding, size_t index, iobind_input_mode mode,
                                                         iobind_tensor *tensor, iobind_event *event, iobind_error *error) {
  return iobind__named(bind(binding, index, mode, tensor, event, error), error, "binding_set_input");
}

iobind_status iobind_binding_set_input(iobind_binding *binding, size_t index, iobind_input_mode mode, iobind_tensor *tensor,
                                       iobind_event *event, iobind_error *error) {
  IOBIND__TRY(check_index(binding, index, "binding_set_input", error));
  IOBIND__TRY(iobind__binding_must_be_idle(binding, "binding_set_input", error));
  return is_alike(binding, &binding->inputs[index], mode, tensor, event)
             ? replace(binding, index, tensor, error)
             : set_input(binding, index, mode, tensor, event, error);
}

/* A run may be in flight on the stream of the new data, which are ordered after it. This is refused for a carried input, which
 * reads another tensor after the run. */
static iobind_status check_update(iobind_binding *binding, size_t index, const iobind_stream *stream, iobind_error *error) {
  iobind__flight_poll(binding);
  if (binding->flight.stream == NULL || binding->flight.stream != stream) {
    return iobind__binding_check_idle(binding, "binding_write_input", error);
  }
  if (iobind__carry_of_input(binding, index) != NULL) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_STATE,
                        "binding_write_input: '%s' is a carried state, and a run of this binding is in flight: synchronize its "
                        "stream first",
                        binding->session->inputs[index].label);
  }
  return IOBIND_OK;
}

/* The input reads a saved state, which must not be written: the new data become a state of their own. */
static iobind_status replace_state(iobind_binding *binding, size_t index, const void *data, size_t bytes, iobind_stream *stream,
                                   iobind_error *error) {
  iobind_tensor *made;
  IOBIND__TRY(iobind__input_make(binding->session, index, binding->inputs[index].bound, &made, error));
  iobind_status status = iobind_tensor_write(made, 0, data, bytes, stream, error);
  if (status != IOBIND_OK) {
    iobind_tensor_release(made);
    return status;
  }
  iobind__tensor_hand_to(made, IOBIND_HOLDER_BINDING);
  iobind__input_go_on(binding, index, made, NULL);
  return IOBIND_OK;
}

const iobind_tensor *iobind__input_read_at_once(const iobind_binding *binding, size_t index) {
  const iobind__input *input = &binding->inputs[index];
  if (input->source != NULL) {
    return iobind__place_is_pageable(input->source->place) ? input->source : NULL;
  }
  return binding->session->inputs[index].place->host ? input->bound : NULL;
}

/* A state that a run has left is not held, because the caller cannot access it. Now a stream writes it. */
static void hold_written(iobind_binding *binding, size_t index) {
  pthread_mutex_lock(&binding->held.mutex);
  if (binding->held.list[index].holders == NULL) {
    iobind__input_hold(binding, index);
  }
  pthread_mutex_unlock(&binding->held.mutex);
}

/* Is a write ordered after a stream made by the host? A copy on that stream cannot reach this memory. */
static bool is_written_by_host(const iobind_binding *binding, const iobind__place *place, const iobind_stream *stream) {
  return place->host && place->device != stream->device && iobind__session_has_device(binding->session, stream->device);
}

/* *stream: the stream for a write into an input; NULL: the host writes, after all work submitted to the session's stream, where
 * a run may still read the memory. */
static iobind_status order_write(iobind_binding *binding, size_t index, const iobind_tensor *target, iobind_stream **stream,
                                 iobind_error *error) {
  if (*stream == NULL) {
    return IOBIND_OK;
  }
  hold_written(binding, index);
  if (is_written_by_host(binding, target->place, *stream)) {
    IOBIND__TRY(iobind__stream_drain(*stream, error));
    *stream = NULL;
  }
  return IOBIND_OK;
}

iobind_status iobind__input_check_write(const iobind_binding *binding, size_t index, const iobind_stream *stream,
                                        const char *what, iobind_error *error) {
  const iobind__input *input = &binding->inputs[index];
  const iobind_tensor *target = input->source != NULL ? input->source : input->bound;
  const iobind__place *place = target != NULL ? target->place : binding->session->inputs[index].place;
  IOBIND__TRY(target == NULL ? IOBIND_OK : iobind__tensor_check_writable(target, what, error));
  return stream == NULL || is_written_by_host(binding, place, stream)
             ? IOBIND_OK
             : iobind__tensor_check_stream(stream, place->device, binding->session->runtime->cpu, what, error);
}

iobind_status iobind__input_write_from(iobind_binding *binding, size_t index, iobind_tensor *values, iobind_stream *stream,
                                       iobind_error *error) {
  const iobind__input *input = &binding->inputs[index];
  iobind_tensor *target = input->source != NULL ? input->source : input->bound;
  const iobind_tensor *source = values;
  IOBIND__TRY(order_write(binding, index, target, &stream, error));
  const iobind__submission submission = iobind__stream_begin(stream);
  iobind_status status = iobind__tensor_copy(&source, &target, 1, stream, IOBIND__SETTLED, error);
  iobind__tensor_use(values, &submission, IOBIND__READ); /* a copy that failed may have been submitted */
  return status;
}

static iobind_status write_input(iobind_binding *binding, size_t index, const void *data, size_t bytes, iobind_stream *stream,
                                 iobind_error *error) {
  IOBIND__TRY(check_index(binding, index, "binding_write_input", error));
  IOBIND__TRY(iobind__process_check("binding_write_input", error));
  IOBIND__TRY(check_update(binding, index, stream, error));
  const iobind__carry *carry = iobind__carry_of_input(binding, index);
  if (carry != NULL && iobind__carry_is_due(binding, carry)) {
    IOBIND__TRY(iobind__carry_advance(binding, NULL, error)); /* the new data go into the state that the next run reads */
  }
  iobind__input *input = &binding->inputs[index];
  const char *name = binding->session->inputs[index].label;
  if (input->bound == NULL) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_STATE, "binding_write_input: '%s' is not bound", name);
  }
  /* if each run copies from a source, the new data go there */
  iobind_tensor *target = input->source != NULL ? input->source : input->bound;
  if (target->dtype != IOBIND_DTYPE_STRING && bytes != target->bytes) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "binding_write_input: '%s': expected %zu bytes, got %zu", name,
                        target->bytes, bytes);
  }
  if ((carry != NULL || input->is_left) && target->read_only) {
    return replace_state(binding, index, data, bytes, stream, error);
  }
  IOBIND__TRY(order_write(binding, index, target, &stream, error));
  IOBIND__TRY(iobind_tensor_write(target, 0, data, bytes, stream, error));
  input->next = IOBIND__NEXT_BOUND;
  note_written(binding, input);
  if (carry != NULL) {
    iobind__states_forget(binding);
  }
  return IOBIND_OK;
}

iobind_status iobind_binding_write_input(iobind_binding *binding, size_t index, const void *data, size_t bytes,
                                         iobind_stream *stream, iobind_error *error) {
  return iobind__named(write_input(binding, index, data, bytes, stream, error), error, "binding_write_input");
}

iobind__input_view iobind__binding_view_input(const iobind_binding *binding, size_t index) {
  const iobind__input *input = &binding->inputs[index];
  const iobind__carry *carry = iobind__carry_of_input(binding, index);
  return (iobind__input_view){.mode = input->mode,
                              .tensor = input->bound,
                              .source = input->source,
                              .carried_from = carry == NULL ? IOBIND__NOT_CARRIED : (int64_t)carry->output};
}
