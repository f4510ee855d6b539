/* What a run left in its outputs: fetched from ORT only when asked for. */
#include "binding/binding.h"

void iobind__results_drop(iobind_binding *binding) {
  if (!binding->fetched) {
    return;
  }
  const OrtApi *api = IOBIND__API(binding->session->runtime);
  iobind__device_enter(binding->session->serial);
  for (size_t i = 0; i < binding->session->output_count; i++) {
    iobind__output_slot *slot = &binding->outputs[i];
    if (slot->value != NULL) {
      api->ReleaseValue(slot->value);
      slot->value = NULL;
    }
    iobind_tensor_release(slot->result);
    slot->result = NULL;
    slot->taken = false;
  }
  iobind__device_leave(binding->session->serial);
  binding->fetched = false;
}

iobind_status iobind__results_fetch(iobind_binding *binding, iobind_error *error) {
  if (binding->fetched) {
    return IOBIND_OK;
  }
  iobind_runtime *runtime = binding->session->runtime;
  const OrtApi *api = IOBIND__API(runtime);
  OrtValue **values = NULL;
  size_t count = 0;
  IOBIND__ORT_TRY(api, api->GetBoundOutputValues(binding->binding, runtime->cpu_allocator, &values, &count), error,
                  "binding: outputs");
  for (size_t i = 0; i < count; i++) {
    if (i < binding->order_count) {
      binding->outputs[binding->order[i]].value = values[i];
    } else {
      api->ReleaseValue(values[i]);
    }
  }
  binding->fetched = true;
  if (values != NULL) {
    IOBIND__ORT_TRY(api, api->AllocatorFree(runtime->cpu_allocator, values), error, "binding: outputs");
  }
  if (count != binding->order_count) {
    iobind__results_drop(binding);
    return iobind__fail(error, IOBIND_INTERNAL, "binding: expected %zu outputs from ONNX Runtime, got %zu",
                        binding->order_count, count);
  }
  return IOBIND_OK;
}

/* Did an output land where it was asked for? */
static iobind_status verify_place(const iobind_binding *binding, size_t index, const OrtValue *value, iobind_error *error) {
  iobind_runtime *runtime = binding->session->runtime;
  const OrtApi *api = IOBIND__API(runtime);
  const iobind__output_slot *slot = &binding->outputs[index];
  const char *name = binding->session->outputs[index].name;
  int is_tensor = 0;
  IOBIND__ORT_TRY(api, api->IsTensor(value, &is_tensor), error, "output '%s'", name);
  if (is_tensor == 0) {
    return iobind__fail(error, IOBIND_NOT_SUPPORTED, "output '%s': the run gave no tensor", name);
  }
  const OrtMemoryInfo *info = NULL;
  IOBIND__ORT_TRY(api, api->GetTensorMemoryInfo(value, &info), error, "output '%s'", name);
  const iobind__place *asked = iobind__output_is_given(slot->mode) ? slot->tensor->place : slot->place;
  if (!iobind__same_memory(runtime, info, asked->info)) {
    const char *landed = NULL;
    IOBIND__ORT_TRY(api, api->MemoryInfoGetName(info, &landed), error, "output '%s'", name);
    return iobind__fail(error, IOBIND_DEVICE, "output '%s': asked for memory of '%s', it landed in '%s'", name,
                        asked->device->spec, landed);
  }
  return IOBIND_OK;
}

/* Where the value of an output lies. Strings have no bytes. */
static iobind_status look_at(const iobind_binding *binding, size_t index, OrtValue *value, void **data, size_t *bytes,
                             iobind_error *error) {
  *data = NULL;
  *bytes = 0;
  const iobind__value *output = &binding->session->outputs[index];
  if (value == NULL || output->dtype == IOBIND_STRING) {
    return IOBIND_OK;
  }
  const OrtApi *api = IOBIND__API(binding->session->runtime);
  ONNXTensorElementDataType dtype;
  const int64_t *dims = NULL;
  size_t rank = 0;
  IOBIND__ORT_TRY(api, api->GetTensorElementTypeAndShapeDataReference(value, &dtype, &dims, &rank), error, "output '%s'",
                  output->name);
  IOBIND__TRY(iobind__dtype_bytes((iobind_dtype)dtype, dims, rank, bytes, "output", error));
  IOBIND__ORT_TRY(api, api->GetTensorMutableData(value, data), error, "output '%s'", output->name);
  if (*data == NULL && *bytes > 0) {
    return iobind__fail(error, IOBIND_OUT_OF_MEMORY, "output '%s': %zu bytes: out of device memory", output->name, *bytes);
  }
  return IOBIND_OK;
}

iobind_status iobind__result_overlaps(const iobind_binding *binding, size_t index, const iobind_tensor *tensor, bool *overlaps,
                                      iobind_error *error) {
  const iobind__output_slot *slot = &binding->outputs[index];
  *overlaps = false;
  if (tensor->dtype == IOBIND_STRING) {
    const OrtValue *value = slot->result != NULL ? slot->result->value : slot->value;
    return value == NULL || binding->session->outputs[index].dtype != IOBIND_STRING
               ? IOBIND_OK
               : iobind__strings_shared(binding->session->runtime, value, tensor->value, overlaps, error);
  }
  if (slot->result != NULL) {
    *overlaps = iobind__tensor_overlaps(slot->result, tensor);
    return IOBIND_OK;
  }
  void *data;
  size_t bytes;
  IOBIND__TRY(look_at(binding, index, slot->value, &data, &bytes, error));
  *overlaps = iobind__memory_overlaps(slot->place, data, bytes, tensor->place, tensor->data, tensor->bytes);
  return IOBIND_OK;
}

/* Does an output lie in the memory of an input, or, where a tensor was given for it, not in that? ORT hands an input that the
 * model passes through on as it is. */
static iobind_status check_passed_through(const iobind_binding *binding, size_t index, bool *passed, iobind_error *error) {
  const iobind__output_slot *slot = &binding->outputs[index];
  *passed = false;
  if (iobind__output_is_given(slot->mode) && slot->tensor->dtype == IOBIND_STRING) {
    bool shared;
    IOBIND__TRY(iobind__strings_shared(binding->session->runtime, slot->value, slot->tensor->value, &shared, error));
    *passed = !shared;
    return IOBIND_OK;
  }
  if (iobind__output_is_given(slot->mode)) {
    void *data;
    size_t bytes;
    IOBIND__TRY(look_at(binding, index, slot->value, &data, &bytes, error));
    *passed = bytes > 0 && slot->tensor->bytes > 0 && data != slot->tensor->data;
    return IOBIND_OK;
  }
  for (size_t i = 0; i < binding->session->input_count && !*passed; i++) {
    IOBIND__TRY(iobind__result_overlaps(binding, index, binding->inputs[i].bound, passed, error));
  }
  return IOBIND_OK;
}

/* Does the model fix the dims of an output, and are the value's these? */
static iobind_status check_same_dims(const iobind_binding *binding, size_t index, const OrtValue *value, bool *same,
                                     iobind_error *error) {
  const OrtApi *api = IOBIND__API(binding->session->runtime);
  const iobind__value *output = &binding->session->outputs[index];
  ONNXTensorElementDataType dtype;
  const int64_t *dims = NULL;
  size_t rank = 0;
  IOBIND__ORT_TRY(api, api->GetTensorElementTypeAndShapeDataReference(value, &dtype, &dims, &rank), error, "output '%s'",
                  output->name);
  *same = output->has_shape && rank == output->rank;
  for (size_t i = 0; i < rank && *same; i++) {
    *same = dims[i] == output->dims[i];
  }
  return IOBIND_OK;
}

iobind_status iobind__results_verify(iobind_binding *binding, bool *settled, iobind_error *error) {
  IOBIND__TRY(iobind__results_fetch(binding, error));
  binding->has_passed_through = false;
  bool all_seen = true;
  for (size_t i = 0; i < binding->order_count; i++) {
    size_t index = binding->order[i];
    iobind__output_slot *slot = &binding->outputs[index];
    IOBIND__TRY(verify_place(binding, index, slot->value, error));
    IOBIND__TRY(check_passed_through(binding, index, &slot->passed_through, error));
    binding->has_passed_through = binding->has_passed_through || slot->passed_through;
    if (slot->mode == IOBIND_OUTPUT_REUSE) {
      IOBIND__TRY(check_same_dims(binding, index, slot->value, &slot->same_dims, error));
    }
    void *data;
    size_t bytes;
    IOBIND__TRY(look_at(binding, index, slot->value, &data, &bytes, error));
    all_seen = all_seen && (binding->session->outputs[index].dtype == IOBIND_STRING || bytes > 0);
  }
  *settled = all_seen;
  return IOBIND_OK;
}

/* Give the value of a slot to a tensor. */
static iobind_status make_result(iobind_binding *binding, size_t index, iobind_error *error) {
  iobind__output_slot *slot = &binding->outputs[index];
  if (slot->result != NULL) {
    return IOBIND_OK;
  }
  if (iobind__output_is_given(slot->mode)) {
    slot->result = iobind_tensor_retain(slot->tensor);
    return IOBIND_OK;
  }
  IOBIND__TRY(verify_place(binding, index, slot->value, error));
  IOBIND__TRY(iobind__tensor_from_value(slot->value, slot->place, &binding->session->ref, &slot->result, error));
  slot->value = NULL;
  return IOBIND_OK;
}

/* Put what was passed through where it belongs: into the given tensor, or into memory of its own. ORT looks at the dims of what was
 * given for an output that it computes, and not here. */
static iobind_status copy_passed_through(iobind_binding *binding, size_t index, iobind_stream *stream, iobind_error *error) {
  iobind__output_slot *slot = &binding->outputs[index];
  iobind_tensor *shared = NULL;
  iobind_tensor *copy = iobind__output_is_given(slot->mode) ? iobind_tensor_retain(slot->tensor) : NULL;
  iobind_status status =
      iobind__tensor_from_value(slot->value, copy != NULL ? copy->place : slot->place, &binding->session->ref, &shared, error);
  if (status == IOBIND_OK) {
    slot->value = NULL;
  }
  if (status == IOBIND_OK && copy != NULL && !iobind__tensor_same_dims(shared, copy)) {
    char came[IOBIND__SHAPE_TEXT];
    char bound[IOBIND__SHAPE_TEXT];
    iobind__shape_text((int32_t)shared->dtype, shared->dims, NULL, shared->rank, came, sizeof came);
    iobind__shape_text((int32_t)copy->dtype, copy->dims, NULL, copy->rank, bound, sizeof bound);
    status = iobind__fail(error, IOBIND_SHAPE, "binding_run: output '%s': %s is bound, it came out as %s",
                          binding->session->outputs[index].name, bound, came);
  } else if (status == IOBIND_OK && copy == NULL) {
    status = iobind__tensor_create_at(slot->place, shared->dtype, shared->dims, shared->rank, &copy, error);
  }
  if (status == IOBIND_OK) {
    status = copy->dtype == IOBIND_STRING ? iobind__strings_copy(shared, copy, error)
                                          : iobind__tensor_copy_one(shared, copy, stream, error);
  }
  iobind_tensor_release(shared);
  if (status != IOBIND_OK) {
    iobind_tensor_release(copy);
    return status;
  }
  slot->result = copy;
  return IOBIND_OK;
}

iobind_status iobind__results_copy_passed_through(iobind_binding *binding, iobind_stream *stream, iobind_error *error) {
  IOBIND__TRY(iobind__results_fetch(binding, error));
  for (size_t i = 0; i < binding->session->output_count; i++) {
    if (binding->outputs[i].passed_through) {
      IOBIND__TRY(copy_passed_through(binding, i, stream, error));
    }
  }
  return IOBIND_OK;
}

/* The result of an output, made on first use; its content is there where the run is over. */
static iobind_status find_result(iobind_binding *binding, size_t index, iobind__output_slot **out, const char *what,
                                 iobind_error *error) {
  iobind__output_slot *slot = &binding->outputs[index];
  const char *name = binding->session->outputs[index].name;
  if (slot->mode == IOBIND_OUTPUT_NONE) {
    return iobind__fail(error, IOBIND_INVALID_STATE, "%s: '%s' is not bound", what, name);
  }
  if (!binding->has_results && binding->failure.status != IOBIND_OK) {
    return iobind__error_copy(error, &binding->failure);
  }
  if (!binding->has_results) {
    return iobind__fail(error, IOBIND_INVALID_STATE, "%s: '%s': no run has finished since the binding changed", what, name);
  }
  if (slot->taken) {
    return iobind__fail(error, IOBIND_INVALID_STATE, "%s: '%s' was taken already after this run", what, name);
  }
  IOBIND__TRY(iobind__results_fetch(binding, error));
  IOBIND__TRY(make_result(binding, index, error));
  *out = slot;
  return IOBIND_OK;
}

static iobind_status get_result(iobind_binding *binding, size_t index, iobind__output_slot **out, const char *what,
                                iobind_error *error) {
  if (binding == NULL) {
    return iobind__fail(error, IOBIND_INVALID_ARGUMENT, "%s: binding is NULL", what);
  }
  if (index >= binding->session->output_count) {
    return iobind__fail(error, IOBIND_NOT_FOUND, "%s: expected an index below %zu, got %zu", what,
                        binding->session->output_count, index);
  }
  IOBIND__TRY(iobind__binding_land(binding, error));
  IOBIND__TRY(iobind__binding_check_idle(binding, what, error));
  return find_result(binding, index, out, what, error);
}

iobind_status iobind__binding_peek(iobind_binding *binding, size_t index, iobind_tensor **tensor, iobind_error *error) {
  iobind__output_slot *slot = NULL;
  IOBIND__TRY(find_result(binding, index, &slot, "binding_run", error));
  *tensor = slot->result;
  return IOBIND_OK;
}

iobind_status iobind_binding_get_output(iobind_binding *binding, size_t index, iobind_tensor **tensor, iobind_error *error) {
  if (tensor == NULL) {
    return iobind__fail(error, IOBIND_INVALID_ARGUMENT, "binding_get_output: tensor is NULL");
  }
  *tensor = NULL;
  iobind__output_slot *slot = NULL;
  IOBIND__TRY(get_result(binding, index, &slot, "binding_get_output", error));
  *tensor = slot->result;
  return IOBIND_OK;
}

iobind_status iobind_binding_take_output(iobind_binding *binding, size_t index, iobind_tensor **tensor, iobind_error *error) {
  if (tensor == NULL) {
    return iobind__fail(error, IOBIND_INVALID_ARGUMENT, "binding_take_output: tensor is NULL");
  }
  *tensor = NULL;
  iobind__output_slot *slot = NULL;
  IOBIND__TRY(get_result(binding, index, &slot, "binding_take_output", error));
  *tensor = slot->result;
  iobind__carry *carry = iobind__carry_of_output(binding, index);
  if (carry != NULL || iobind__output_is_given(slot->mode)) {
    iobind_tensor_retain(slot->result);
    iobind__carry_take(binding, carry);
    slot->taken = carry != NULL;
    return IOBIND_OK;
  }
  slot->result = NULL;
  slot->taken = true;
  if (slot->mode == IOBIND_OUTPUT_REUSE) {
    iobind__output_renew(binding, index);
  }
  return IOBIND_OK;
}
