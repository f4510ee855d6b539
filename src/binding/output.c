/* Bound outputs. */
#include "binding/binding.h"

bool iobind__output_is_given(iobind_output_mode mode) {
  return mode == IOBIND_OUTPUT_FIXED || mode == IOBIND_OUTPUT_IN_PLACE;
}

void iobind__outputs_changed(iobind_binding *binding) {
  binding->outputs_changed = IOBIND__BOTH_SIDES;
  binding->checked = false;
  binding->verified = false;
  iobind__results_drop(binding);
  binding->has_results = false;
  binding->holds_outputs = false;
}

void iobind__output_reset(iobind_binding *binding, size_t index) {
  const iobind__value *value = &binding->session->outputs[index];
  iobind__output_slot *slot = &binding->outputs[index];
  iobind__outputs_changed(binding); /* before the slot forgets what it holds */
  iobind_tensor_release(slot->tensor);
  *slot = (iobind__output_slot){.mode = value->kind == IOBIND_VALUE_TENSOR ? IOBIND_OUTPUT_FRESH : IOBIND_OUTPUT_NONE,
                                .place = value->place};
}

void iobind__output_renew(iobind_binding *binding, size_t index) {
  binding->outputs[index].renew = IOBIND__BOTH_SIDES;
  binding->renew = IOBIND__BOTH_SIDES;
}

iobind_status iobind__outputs_make_room(iobind_binding *binding, const iobind_tensor *input, iobind_error *error) {
  bool unseen = binding->sides[1] != NULL || !binding->holds_outputs; /* the other side's cannot be seen, nor a failed run's */
  for (size_t i = 0; i < binding->session->output_count; i++) {
    if (binding->outputs[i].mode != IOBIND_OUTPUT_REUSE) {
      continue;
    }
    bool overlaps = unseen;
    if (!unseen) {
      IOBIND__TRY(iobind__results_fetch(binding, error));
      IOBIND__TRY(iobind__result_overlaps(binding, i, input, &overlaps, error));
    }
    if (overlaps) {
      iobind__output_renew(binding, i);
    }
  }
  return IOBIND_OK;
}

/* Does a tensor lie in what the next run reads as this input: what is bound, or the state that becomes it? */
static iobind_status overlaps_input(const iobind_binding *binding, size_t index, const iobind_tensor *tensor, bool *overlaps,
                                    iobind_error *error) {
  const iobind_tensor *input = binding->inputs[index].bound;
  const iobind__carry *carry = iobind__carry_of_input(binding, index);
  *overlaps = input != NULL && iobind__tensor_overlaps(tensor, input);
  if (*overlaps || carry == NULL || !carry->due) {
    return IOBIND_OK;
  }
  const iobind_tensor *state = binding->outputs[carry->output].tensor;
  if (state == NULL) {
    return iobind__result_overlaps(binding, carry->output, tensor, overlaps, error);
  }
  *overlaps = iobind__tensor_overlaps(tensor, state);
  return IOBIND_OK;
}

static iobind_status check_overlap(const iobind_binding *binding, size_t index, iobind_output_mode mode,
                                   const iobind_tensor *tensor, iobind_error *error) {
  const iobind_session *session = binding->session;
  for (size_t i = 0; i < session->input_count && mode == IOBIND_OUTPUT_FIXED; i++) {
    bool overlaps;
    IOBIND__TRY(overlaps_input(binding, i, tensor, &overlaps, error));
    if (overlaps) {
      return iobind__fail(error, IOBIND_INVALID_ARGUMENT,
                          "binding_set_output: '%s' overlaps the memory of input '%s': bind it IN_PLACE if the model allows it",
                          session->outputs[index].name, session->inputs[i].name);
    }
  }
  for (size_t i = 0; i < session->output_count; i++) {
    const iobind__output_slot *other = &binding->outputs[i];
    if (i != index && other->tensor != NULL && iobind__tensor_overlaps(tensor, other->tensor)) {
      return iobind__fail(error, IOBIND_INVALID_ARGUMENT, "binding_set_output: '%s' overlaps the memory of output '%s'",
                          session->outputs[index].name, session->outputs[i].name);
    }
  }
  return IOBIND_OK;
}

static iobind_status check_tensor(const iobind_binding *binding, size_t index, iobind_output_mode mode,
                                  const iobind_tensor *tensor, iobind_error *error) {
  const iobind_session *session = binding->session;
  const iobind__value *value = &session->outputs[index];
  if (tensor == NULL) {
    return iobind__fail(error, IOBIND_INVALID_ARGUMENT, "binding_set_output: '%s': tensor is NULL", value->name);
  }
  IOBIND__TRY(iobind__value_accepts(value, tensor, "binding_set_output", error));
  if (tensor->place->device->runtime != session->runtime || !iobind__session_has_device(session, tensor->place->device)) {
    return iobind__fail(error, IOBIND_DEVICE,
                        "binding_set_output: '%s': the tensor is on '%s', which is not a device of the session: its kernels "
                        "would write through a foreign address",
                        value->name, tensor->place->device->spec);
  }
  return check_overlap(binding, index, mode, tensor, error);
}

static iobind_status find_target(const iobind_binding *binding, size_t index, iobind_device *device, iobind_memory memory,
                                 iobind__place **place, iobind_error *error) {
  const iobind_session *session = binding->session;
  const iobind__value *value = &session->outputs[index];
  *place = value->place;
  if (device == NULL) {
    return IOBIND_OK;
  }
  if (device->runtime != session->runtime || !iobind__session_has_device(session, device)) {
    return iobind__fail(
        error, IOBIND_DEVICE,
        "binding_set_output: '%s': '%s' is not a device of the session: the output would land on the CPU without "
        "a word",
        value->name, device->spec);
  }
  *place = &device->places[memory];
  if ((*place)->info == NULL) {
    return iobind__fail(error, IOBIND_NOT_SUPPORTED, "binding_set_output: '%s': device '%s' has no host-accessible memory",
                        value->name, device->spec);
  }
  if (value->dtype == IOBIND_STRING && !(*place)->host) {
    return iobind__fail(error, IOBIND_NOT_SUPPORTED, "binding_set_output: '%s': strings live in host memory alone",
                        value->name);
  }
  return IOBIND_OK;
}

iobind_status iobind_binding_set_output(iobind_binding *binding, size_t index, iobind_output_mode mode, iobind_device *device,
                                        iobind_memory memory, iobind_tensor *tensor, iobind_error *error) {
  if (binding == NULL) {
    return iobind__fail(error, IOBIND_INVALID_ARGUMENT, "binding_set_output: binding is NULL");
  }
  const iobind_session *session = binding->session;
  if (index >= session->output_count) {
    return iobind__fail(error, IOBIND_NOT_FOUND, "binding_set_output: expected an index below %zu, got %zu",
                        session->output_count, index);
  }
  IOBIND__TRY(iobind__binding_check_idle(binding, "binding_set_output", error));
  const iobind__value *value = &session->outputs[index];
  if (mode < IOBIND_OUTPUT_FRESH || mode > IOBIND_OUTPUT_NONE) {
    return iobind__fail(error, IOBIND_INVALID_ARGUMENT, "binding_set_output: '%s': %d is no mode of an output", value->name,
                        (int)mode);
  }
  if (memory != IOBIND_MEMORY_DEFAULT && memory != IOBIND_MEMORY_HOST_ACCESSIBLE) {
    return iobind__fail(error, IOBIND_INVALID_ARGUMENT, "binding_set_output: '%s': %d is no kind of memory", value->name,
                        (int)memory);
  }
  if (value->kind != IOBIND_VALUE_TENSOR && mode != IOBIND_OUTPUT_NONE) {
    return iobind__fail(error, IOBIND_NOT_SUPPORTED, "binding_set_output: '%s' is no tensor, and only tensors can be bound",
                        value->name);
  }
  iobind__place *place = value->place;
  if (iobind__output_is_given(mode)) {
    IOBIND__TRY(check_tensor(binding, index, mode, tensor, error));
  } else if (tensor != NULL) {
    return iobind__fail(error, IOBIND_INVALID_ARGUMENT,
                        "binding_set_output: '%s': a tensor is for FIXED and IN_PLACE alone, it must be NULL here",
                        value->name);
  } else if (mode != IOBIND_OUTPUT_NONE) {
    IOBIND__TRY(find_target(binding, index, device, memory, &place, error));
  }
  IOBIND__TRY(iobind__carry_advance(binding, error));
  iobind_tensor_retain(tensor);
  iobind__carry_end(binding, index);
  iobind__output_reset(binding, index);
  binding->outputs[index].mode = mode;
  binding->outputs[index].place = place;
  binding->outputs[index].tensor = tensor;
  return IOBIND_OK;
}
