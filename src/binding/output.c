/* The outputs of a binding. */
#include "binding/table.h"
#include "support/options.h"

/* As iobind__input_hold, but not for buffers of SWAP, which have the carry's holders. */
static void hold(iobind_binding *binding, size_t index) {
  const iobind__output *output = &binding->outputs[index];
  const iobind__carry *carry = iobind__carry_of_output(binding, index);
  bool swaps = carry != NULL && carry->mode == IOBIND_CARRY_SWAP;
  pthread_mutex_lock(&binding->held.mutex);
  iobind__tensor_hold(swaps ? NULL : output->target, &binding->held.list[binding->session->input_count + index]);
  for (size_t side = 0; side < 2 && !swaps; side++) {
    iobind__tensor_hold(output->shown[side], iobind__side_holder(binding, index, side));
  }
  pthread_mutex_unlock(&binding->held.mutex);
}

void iobind__output_aim(iobind_binding *binding, size_t index, iobind_tensor *target) {
  iobind__output *output = &binding->outputs[index];
  iobind_tensor *old = output->target;
  output->target = iobind_tensor_retain(target);
  hold(binding, index);
  iobind_tensor_release(old);
}

void iobind__output_show(iobind_binding *binding, size_t index, iobind_tensor *tensor) {
  iobind_tensor **shown = iobind__output_shown(binding, index);
  iobind_tensor *old = *shown;
  *shown = iobind_tensor_retain(tensor);
  hold(binding, index);
  iobind_tensor_release(old);
}

void iobind__output_hide(iobind_binding *binding, size_t index) {
  iobind__output *output = &binding->outputs[index];
  iobind_tensor *old[2] = {output->shown[0], output->shown[1]};
  output->shown[0] = output->shown[1] = NULL;
  hold(binding, index);
  iobind__tensor_drop(old[0]);
  iobind__tensor_drop(old[1]);
}

void iobind__output_set(iobind_binding *binding, size_t index, iobind__output_mode mode, iobind__place *place,
                        iobind_tensor *target) {
  iobind__output *output = &binding->outputs[index];
  iobind_tensor *old = output->target;
  if (binding->results.state != IOBIND__RESULTS_NONE) {
    iobind__results_drop(binding, NULL); /* before the slot is overwritten */
  }
  output->mode = mode;
  output->place = place;
  output->memory = mode == IOBIND__OUTPUT_REUSE ? iobind__serial_next() : 0;
  output->target = iobind_tensor_retain(target);
  iobind__output_hide(binding, index);
  iobind__sides_let_go(binding, old);
  iobind__tensor_drop(old);
  iobind__table_changed(binding);
}

void iobind__output_reset(iobind_binding *binding, size_t index) {
  const iobind__value *value = &binding->session->outputs[index];
  iobind__output_mode usual = binding->session->graphs.limit > 0 ? IOBIND__OUTPUT_REUSE : IOBIND__OUTPUT_FRESH;
  iobind__output_set(binding, index, value->kind == IOBIND_VALUE_TENSOR ? usual : IOBIND__OUTPUT_NONE, value->place, NULL);
}

void iobind__output_renew(iobind_binding *binding, size_t index) {
  binding->outputs[index].memory = iobind__serial_next();
  iobind__output_hide(binding, index);
  iobind__output_aim(binding, index, NULL);
  iobind__table_changed(binding);
}

void iobind__output_leave(iobind_binding *binding, size_t index, const iobind_tensor *tensor) {
  iobind__graphs_forget_memory(binding, tensor);
  iobind__output_renew(binding, index);
}

size_t iobind__output_references(const iobind_binding *binding, size_t index, const iobind_tensor *tensor) {
  const iobind__output *output = &binding->outputs[index];
  return (size_t)(output->result == tensor) + (size_t)(output->target == tensor) + (size_t)(output->shown[0] == tensor) +
         (size_t)(output->shown[1] == tensor) + iobind__graphs_references(binding, index, tensor);
}

void iobind__outputs_reshape(iobind_binding *binding) {
  for (size_t i = 0; i < binding->session->output_count; i++) {
    if (binding->outputs[i].mode == IOBIND__OUTPUT_REUSE && !binding->outputs[i].has_fixed_dims) {
      iobind__output_renew(binding, i);
    }
  }
}

static iobind_status check_tensor(const iobind_binding *binding, size_t index, iobind__output_mode mode,
                                  const iobind_tensor *tensor, iobind_error *error) {
  const iobind_session *session = binding->session;
  const iobind__value *value = &session->outputs[index];
  if (tensor == NULL) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "binding_set_output: '%s': tensor is NULL", value->label);
  }
  IOBIND__TRY(iobind__value_accepts(value, tensor, "binding_set_output", error));
  if (tensor->place->device->runtime != session->runtime || !iobind__session_has_device(session, tensor->place->device)) {
    return iobind__fail(
        error, IOBIND_ERROR_WRONG_DEVICE,
        "binding_set_output: '%s': the tensor is on '%s', which is not a device of the session: create it on one of the "
        "session's devices",
        value->label, tensor->place->device->spec);
  }
  IOBIND__TRY(iobind__tensor_check_writable(tensor, "binding_set_output", error));
  return iobind__overlap_check_output(binding, index, mode, tensor, error);
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
        error, IOBIND_ERROR_WRONG_DEVICE,
        "binding_place_output: '%s': '%s' is not a device of the session: ONNX Runtime would silently leave the output on the "
        "CPU; pass one of the session's devices",
        value->label, device->spec);
  }
  *place = &device->places[memory];
  if ((*place)->info == NULL) {
    return iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED,
                        "binding_place_output: '%s': device '%s' has no host-accessible memory", value->label, device->spec);
  }
  if (value->dtype == IOBIND_DTYPE_STRING && !(*place)->host) {
    return iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED, "binding_place_output: '%s': strings are only in host memory",
                        value->label);
  }
  return IOBIND_OK;
}

static iobind_status check_mode(const iobind__value *value, iobind_output_mode mode, iobind_memory memory,
                                iobind_error *error) {
  if (mode < IOBIND_OUTPUT_FRESH || mode > IOBIND_OUTPUT_NONE) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "binding_place_output: '%s': expected mode 0 .. %d, got %d",
                        value->label, IOBIND_OUTPUT_NONE, (int)mode);
  }
  if (memory != IOBIND_MEMORY_DEFAULT && memory != IOBIND_MEMORY_HOST_ACCESSIBLE) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "binding_place_output: '%s': expected memory 0 .. %d, got %d",
                        value->label, IOBIND_MEMORY_HOST_ACCESSIBLE, (int)memory);
  }
  if (value->kind != IOBIND_VALUE_TENSOR && mode != IOBIND_OUTPUT_NONE) {
    return iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED,
                        "binding_place_output: '%s' is not a tensor, and only tensors can be bound", value->label);
  }
  return IOBIND_OK;
}

/* Is it another tensor of the same kind, so that nothing else in the binding can change? */
static bool is_alike(const iobind_binding *binding, const iobind__output *output, const iobind_tensor *tensor) {
  return tensor != NULL && !tensor->read_only && output->mode == IOBIND__OUTPUT_FIXED && iobind__binding_is_plain(binding) &&
         iobind__tensor_is_alike(tensor, output->target);
}

static iobind_status replace(iobind_binding *binding, size_t index, iobind_tensor *tensor, iobind_error *error) {
  iobind__output *output = &binding->outputs[index];
  IOBIND__TRY(iobind__overlap_check_output(binding, index, IOBIND__OUTPUT_FIXED, tensor, error));
  IOBIND__TRY(iobind__overlap_make_room(binding, tensor, error));
  if (binding->results.state == IOBIND__RESULTS_READY) {
    iobind__results_drop(binding, NULL);
  }
  binding->results.state = IOBIND__RESULTS_NONE;
  iobind_tensor *old = output->target;
  output->target = tensor;
  iobind_status status = iobind__side_replace_output(binding, index, "binding_set_output", error);
  if (status != IOBIND_OK) {
    output->target = old;
    return status;
  }
  iobind__ref_retain(&tensor->ref);
  iobind__tensor_hold(tensor, &binding->held.list[binding->session->input_count + index]);
  iobind__sides_let_go(binding, old);
  iobind__ref_release(&old->ref);
  return IOBIND_OK;
}

/* Part of the usual rebind, whose instructions are counted (bench/rebind). */
__attribute__((always_inline)) static inline iobind_status check_index(iobind_binding *binding, size_t index, const char *what,
                                                                       iobind_error *error) {
  IOBIND__TRY(iobind__output_check_index(binding, index, what, error));
  IOBIND__TRY(iobind__process_check(what, error));
  return iobind__binding_must_be_idle(binding, what, error);
}

/* The arguments are checked. */
static iobind_status rebind(iobind_binding *binding, size_t index, iobind__output_mode mode, iobind__place *place,
                            iobind_tensor *tensor, iobind_error *error) {
  IOBIND__TRY(binding->graphs == NULL ? IOBIND_OK : iobind__graphs_check_output(binding, index, mode, place, error));
  IOBIND__TRY(binding->carry_count == 0 ? IOBIND_OK : iobind__carry_advance(binding, NULL, error));
  iobind_tensor_retain(tensor); /* it may be a buffer of the carry that ends now */
  iobind__carry_end(binding, index);
  iobind__output_set(binding, index, mode, tensor != NULL ? binding->session->outputs[index].place : place, tensor);
  iobind__tensor_drop(tensor);
  return IOBIND_OK;
}

/* Not inlined, so that the usual case has a small frame. */
__attribute__((noinline)) static iobind_status set_output(iobind_binding *binding, size_t index, iobind_tensor *tensor,
                                                          uint32_t flags, iobind_error *error) {
  const iobind__value *value = &binding->session->outputs[index];
  iobind__output_mode mode = (flags & IOBIND_OUTPUT_IN_PLACE) != 0 ? IOBIND__OUTPUT_IN_PLACE : IOBIND__OUTPUT_FIXED;
  IOBIND__TRY(flags == 0 ? IOBIND_OK : iobind__flags_check(flags, IOBIND_OUTPUT_IN_PLACE, "binding_set_output", error));
  if (value->kind != IOBIND_VALUE_TENSOR) {
    return iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED,
                        "binding_set_output: '%s' is not a tensor, and only tensors can be bound", value->label);
  }
  IOBIND__TRY(check_tensor(binding, index, mode, tensor, error));
  IOBIND__TRY(iobind__overlap_make_room(binding, tensor, error));
  return rebind(binding, index, mode, tensor->place, tensor, error);
}

iobind_status iobind_binding_set_output(iobind_binding *binding, size_t index, iobind_tensor *tensor, uint32_t flags,
                                        iobind_error *error) {
  IOBIND__TRY(check_index(binding, index, "binding_set_output", error));
  return flags == 0 && is_alike(binding, &binding->outputs[index], tensor) ? replace(binding, index, tensor, error)
                                                                           : set_output(binding, index, tensor, flags, error);
}

iobind_status iobind_binding_place_output(iobind_binding *binding, size_t index, iobind_output_mode mode, iobind_device *device,
                                          iobind_memory memory, iobind_error *error) {
  IOBIND__TRY(check_index(binding, index, "binding_place_output", error));
  const iobind__value *value = &binding->session->outputs[index];
  iobind__place *place = value->place;
  IOBIND__TRY(check_mode(value, mode, memory, error));
  IOBIND__TRY(mode == IOBIND_OUTPUT_NONE ? IOBIND_OK : find_target(binding, index, device, memory, &place, error));
  return rebind(binding, index, (iobind__output_mode)mode, place, NULL, error);
}

iobind__output_view iobind__binding_view_output(const iobind_binding *binding, size_t index) {
  const iobind__output *output = &binding->outputs[index];
  return (iobind__output_view){.mode = output->mode,
                               .place = iobind__output_place(output),
                               .is_passthrough = binding->session->outputs[index].passthrough_input >= 0};
}
