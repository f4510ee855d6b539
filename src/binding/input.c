/* Bound inputs. */
#include "binding/binding.h"

static iobind_status check_index(iobind_binding *binding, size_t index, const char *what, iobind_error *error) {
  if (binding == NULL) {
    return iobind__fail(error, IOBIND_INVALID_ARGUMENT, "%s: binding is NULL", what);
  }
  if (index >= binding->session->input_count) {
    return iobind__fail(error, IOBIND_NOT_FOUND, "%s: expected an index below %zu, got %zu", what,
                        binding->session->input_count, index);
  }
  return iobind__binding_check_idle(binding, what, error);
}

/* Can the session read the tensor where it is? Any memory that the host reads will do where it wants the host's. */
static bool lives_where_wanted(const iobind_session *session, const iobind_tensor *tensor, const iobind__place *wanted) {
  const iobind__place *host = &session->runtime->cpu->places[IOBIND_MEMORY_DEFAULT];
  if (tensor->place == wanted || (tensor->place->host && iobind__same_memory(session->runtime, wanted->info, host->info))) {
    return true;
  }
  return iobind__same_memory(session->runtime, tensor->place->info, wanted->info);
}

static iobind_status check_overlap(const iobind_binding *binding, size_t index, const iobind_tensor *tensor,
                                   iobind_error *error) {
  for (size_t i = 0; i < binding->session->output_count; i++) {
    const iobind__output_slot *output = &binding->outputs[i];
    if (output->mode == IOBIND_OUTPUT_FIXED && iobind__tensor_overlaps(tensor, output->tensor)) {
      return iobind__fail(error, IOBIND_INVALID_ARGUMENT,
                          "binding_set_input: '%s' overlaps the memory of output '%s': bind the output IN_PLACE if the model "
                          "allows it",
                          binding->session->inputs[index].name, binding->session->outputs[i].name);
    }
  }
  return IOBIND_OK;
}

static iobind_status check_input(const iobind_binding *binding, size_t index, iobind_input_mode mode,
                                 const iobind_tensor *tensor, bool *at_home, iobind_error *error) {
  const iobind_session *session = binding->session;
  const iobind__value *value = &session->inputs[index];
  if (tensor == NULL) {
    return iobind__fail(error, IOBIND_INVALID_ARGUMENT, "binding_set_input: '%s': tensor is NULL", value->name);
  }
  if (mode < IOBIND_INPUT_RESIDENT || mode > IOBIND_INPUT_LIVE) {
    return iobind__fail(error, IOBIND_INVALID_ARGUMENT, "binding_set_input: '%s': %d is no mode of an input", value->name,
                        (int)mode);
  }
  IOBIND__TRY(iobind__value_accepts(value, tensor, "binding_set_input", error));
  if (tensor->place->device->runtime != session->runtime) {
    return iobind__fail(error, IOBIND_DEVICE, "binding_set_input: '%s': the tensor is another runtime's", value->name);
  }
  if (mode == IOBIND_INPUT_LIVE && iobind__carry_of_input(binding, index) != NULL) {
    return iobind__fail(
        error, IOBIND_INVALID_ARGUMENT,
        "binding_set_input: '%s' carries a state from run to run: it cannot be LIVE, bind it RESIDENT or SNAPSHOT",
        value->name);
  }
  *at_home = lives_where_wanted(session, tensor, value->place);
  if (mode == IOBIND_INPUT_RESIDENT && !*at_home) {
    return iobind__fail(
        error, IOBIND_DEVICE,
        "binding_set_input: '%s': the session reads it on '%s', the tensor is on '%s': make it there, or bind it "
        "SNAPSHOT or LIVE to have it copied",
        value->name, value->place->device->spec, tensor->place->device->spec);
  }
  if (tensor->dtype == IOBIND_STRING && !*at_home) {
    return iobind__fail(error, IOBIND_NOT_SUPPORTED, "binding_set_input: '%s': strings cannot be copied to '%s'", value->name,
                        value->place->device->spec);
  }
  return IOBIND_OK;
}

/* A tensor where the session wants the input: the runtime's memory, or the session's where the EP shares none. */
static iobind_status create_where_wanted(iobind_session *session, const iobind__value *value, const iobind_tensor *like,
                                         iobind_tensor **tensor, iobind_error *error) {
  iobind_error refusal = IOBIND_ERROR_INIT; /* is no failure of the call where the session lends */
  iobind_status status = iobind__tensor_create_at(value->place, like->dtype, like->dims, like->rank, tensor, &refusal);
  if (status != IOBIND_OK && status != IOBIND_NOT_SUPPORTED) {
    iobind__error_set(error, status, refusal.ort_code, "%s", refusal.message);
  }
  if (status != IOBIND_NOT_SUPPORTED) {
    return status;
  }
  iobind__place *place;
  IOBIND__TRY(iobind__session_lend_place(session, value->place->info, &place, error));
  return iobind__tensor_create_at(place, like->dtype, like->dims, like->rank, tensor, error);
}

iobind_status iobind__input_make(const iobind_binding *binding, size_t index, const iobind_tensor *like, iobind_tensor **tensor,
                                 iobind_error *error) {
  return create_where_wanted(binding->session, &binding->session->inputs[index], like, tensor, error);
}

static void note_live(iobind_binding *binding) {
  binding->has_live = false;
  for (size_t i = 0; i < binding->session->input_count; i++) {
    const iobind__input_slot *slot = &binding->inputs[i];
    binding->has_live = binding->has_live || slot->source != NULL || slot->event != NULL;
  }
}

iobind_status iobind_binding_set_input(iobind_binding *binding, size_t index, iobind_input_mode mode, iobind_tensor *tensor,
                                       iobind_event *event, iobind_error *error) {
  IOBIND__TRY(check_index(binding, index, "binding_set_input", error));
  bool at_home = false;
  IOBIND__TRY(check_input(binding, index, mode, tensor, &at_home, error));
  iobind_session *session = binding->session;
  const iobind__value *value = &session->inputs[index];
  iobind_tensor *bound = NULL;
  iobind_tensor *source = NULL;
  if (mode == IOBIND_INPUT_SNAPSHOT || (mode == IOBIND_INPUT_LIVE && !at_home)) {
    IOBIND__TRY(create_where_wanted(session, value, tensor, &bound, error));
    iobind_status status = IOBIND_OK;
    if (mode == IOBIND_INPUT_SNAPSHOT) {
      status = event != NULL ? iobind_event_wait(event, error) : IOBIND_OK;
      if (status == IOBIND_OK) {
        status = tensor->dtype == IOBIND_STRING ? iobind__strings_copy(tensor, bound, error)
                                                : iobind__tensor_copy_one(tensor, bound, NULL, error);
      }
      event = NULL; /* what it announced has been read */
    } else {
      source = iobind_tensor_retain(tensor);
    }
    if (status != IOBIND_OK) {
      iobind_tensor_release(bound);
      return status;
    }
  } else {
    IOBIND__TRY(check_overlap(binding, index, tensor, error));
    IOBIND__TRY(iobind__outputs_make_room(binding, tensor, error));
    bound = iobind_tensor_retain(tensor);
  }
  iobind__input_slot *slot = &binding->inputs[index];
  if (slot->bound == NULL || !iobind__tensor_same_dims(slot->bound, bound)) {
    binding->reshaped = IOBIND__BOTH_SIDES;
  }
  iobind_tensor *old_bound = slot->bound;
  iobind_tensor *old_source = slot->source;
  iobind_event *old_event = slot->event;
  *slot = (iobind__input_slot){.mode = mode,
                               .bound = bound,
                               .source = source,
                               .event = event == NULL ? NULL : iobind__event_retain(event),
                               .changed = IOBIND__BOTH_SIDES};
  binding->inputs_changed = IOBIND__BOTH_SIDES;
  binding->checked = false;
  note_live(binding);
  iobind__carry *carry = iobind__carry_of_input(binding, index);
  if (carry != NULL) {
    carry->due = false; /* this is the next state, not what the last run left */
    carry->settled = 0;
  }
  iobind_tensor_release(old_bound); /* ORT's binding keeps the value itself until it is bound anew */
  iobind_tensor_release(old_source);
  iobind__event_release(old_event);
  return IOBIND_OK;
}

iobind_status iobind_binding_update_input(iobind_binding *binding, size_t index, const void *data, size_t bytes,
                                          iobind_stream *stream, iobind_error *error) {
  IOBIND__TRY(check_index(binding, index, "binding_update_input", error));
  const iobind__carry *carry = iobind__carry_of_input(binding, index);
  if (carry != NULL && carry->due) {
    IOBIND__TRY(iobind__carry_advance(binding, error)); /* the new data belong into the state that the next run reads */
  }
  const iobind__input_slot *slot = &binding->inputs[index];
  const char *name = binding->session->inputs[index].name;
  if (slot->bound == NULL) {
    return iobind__fail(error, IOBIND_INVALID_STATE, "binding_update_input: '%s' is not bound", name);
  }
  /* where each run copies from a source, the new data belong there */
  iobind_tensor *target = slot->source != NULL ? slot->source : slot->bound;
  if (target->dtype != IOBIND_STRING && bytes != target->bytes) {
    return iobind__fail(error, IOBIND_INVALID_ARGUMENT, "binding_update_input: '%s': expected %zu bytes, got %zu", name,
                        target->bytes, bytes);
  }
  IOBIND__TRY(iobind_tensor_write(target, 0, data, bytes, stream, error));
  binding->inputs[index].torn = false;
  return IOBIND_OK;
}
