/* What a run shows of its outputs: where they landed, and whether ORT handed an input on as an output. That belongs to the output, its mode
 * and its place, so that another tensor of the same kind need not be looked at again. */
#include "binding/table.h"

iobind_status iobind__result_verify_place(const iobind_binding *binding, size_t index, const OrtValue *value,
                                          iobind_error *error) {
  iobind_runtime *runtime = binding->session->runtime;
  const OrtApi *api = IOBIND__API(runtime);
  const iobind__output *output = &binding->outputs[index];
  const char *name = binding->session->outputs[index].name;
  int is_tensor = 0;
  IOBIND__ORT_TRY(api, api->IsTensor(value, &is_tensor), error, "output '%s'", name);
  if (is_tensor == 0) {
    return iobind__fail(error, IOBIND_NOT_SUPPORTED, "output '%s': the run did not give a tensor", name);
  }
  const OrtMemoryInfo *info = NULL;
  IOBIND__ORT_TRY(api, api->GetTensorMemoryInfo(value, &info), error, "output '%s'", name);
  const iobind__place *asked = iobind__output_is_given(output) ? output->target->place : output->place;
  if (!iobind__same_memory(runtime, info, asked->info)) {
    const char *landed = NULL;
    IOBIND__ORT_TRY(api, api->MemoryInfoGetName(info, &landed), error, "output '%s'", name);
    return iobind__fail(error, IOBIND_DEVICE, "output '%s': asked for memory of '%s', it landed in '%s'", name,
                        asked->device->spec, landed);
  }
  return IOBIND_OK;
}

/* Does an output lie in the memory of an input, or, where a tensor was given for it, not in that? ORT hands an input that the
 * model passes through on as it is. */
static iobind_status check_passed_through(const iobind_binding *binding, size_t index, bool *passed, iobind_error *error) {
  const iobind__output *output = &binding->outputs[index];
  *passed = false;
  if (iobind__output_is_given(output) && output->target->dtype == IOBIND_STRING) {
    bool shared;
    IOBIND__TRY(iobind__strings_shared(binding->session->runtime, output->value, output->target->value, &shared, error));
    *passed = !shared;
    return IOBIND_OK;
  }
  if (iobind__output_is_given(output)) {
    void *data;
    size_t bytes;
    IOBIND__TRY(iobind__result_locate(binding, index, output->value, &data, &bytes, error));
    *passed = bytes > 0 && output->target->bytes > 0 && data != output->target->data;
    return IOBIND_OK;
  }
  for (size_t i = 0; i < binding->session->input_count && !*passed; i++) {
    IOBIND__TRY(iobind__result_overlaps(binding, index, binding->inputs[i].bound, passed, error));
  }
  return IOBIND_OK;
}

/* Does the model fix the dims of an output, and are the value's these? */
static iobind_status check_fixed_dims(const iobind_binding *binding, size_t index, const OrtValue *value, bool *same,
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

/* An output of 0 bytes does not show where its memory is; strings have no bytes. */
static iobind_status verify(iobind_binding *binding, size_t index, iobind_error *error) {
  iobind__output *output = &binding->outputs[index];
  void *data;
  size_t bytes;
  IOBIND__TRY(iobind__result_verify_place(binding, index, output->value, error));
  IOBIND__TRY(check_passed_through(binding, index, &output->is_passed_through, error));
  if (output->mode == IOBIND_OUTPUT_REUSE) {
    IOBIND__TRY(check_fixed_dims(binding, index, output->value, &output->has_fixed_dims, error));
  }
  IOBIND__TRY(iobind__result_locate(binding, index, output->value, &data, &bytes, error));
  output->is_verified = binding->session->outputs[index].dtype == IOBIND_STRING || bytes > 0;
  return IOBIND_OK;
}

iobind_status iobind__results_verify(iobind_binding *binding, iobind_error *error) {
  IOBIND__TRY(iobind__results_fetch(binding, error));
  bool all = true;
  bool any_passed_through = false;
  for (size_t i = 0; i < binding->session->output_count; i++) {
    const iobind__output *output = &binding->outputs[i];
    if (output->mode == IOBIND_OUTPUT_NONE) {
      continue;
    }
    if (!output->is_verified) {
      IOBIND__TRY(verify(binding, i, error));
    }
    all = all && output->is_verified;
    any_passed_through = any_passed_through || output->is_passed_through;
  }
  binding->has_passed_through = any_passed_through;
  binding->is_verified = all;
  return IOBIND_OK;
}

/* Put what was passed through where it belongs: into the given tensor, or into memory of its own. ORT looks at the dims of what was
 * given for an output that it computes, and not here. */
static iobind_status copy_passed_through(iobind_binding *binding, size_t index, iobind_stream *stream, iobind_error *error) {
  iobind__output *output = &binding->outputs[index];
  iobind_tensor *shared = NULL;
  iobind_tensor *copy = iobind__output_is_given(output) ? iobind_tensor_retain(output->target) : NULL;
  iobind_status status = iobind__tensor_from_value(output->value, copy != NULL ? copy->place : output->place,
                                                   &binding->session->ref, &shared, error);
  if (status == IOBIND_OK) {
    output->value = NULL;
  }
  if (status == IOBIND_OK && copy != NULL && !iobind__tensor_same_dims(shared, copy)) {
    char came[IOBIND__SHAPE_TEXT];
    char bound[IOBIND__SHAPE_TEXT];
    iobind__shape_text((int32_t)shared->dtype, shared->dims, NULL, shared->rank, came, sizeof came);
    iobind__shape_text((int32_t)copy->dtype, copy->dims, NULL, copy->rank, bound, sizeof bound);
    status = iobind__fail(error, IOBIND_SHAPE, "binding_run: output '%s': %s is bound, it came out as %s",
                          binding->session->outputs[index].name, bound, came);
  } else if (status == IOBIND_OK && copy == NULL) {
    status = iobind__tensor_create_at(output->place, shared->dtype, shared->dims, shared->rank, &copy, error);
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
  output->result = copy;
  return IOBIND_OK;
}

iobind_status iobind__results_copy_passed_through(iobind_binding *binding, iobind_stream *stream, iobind_error *error) {
  IOBIND__TRY(iobind__results_fetch(binding, error));
  for (size_t i = 0; i < binding->session->output_count; i++) {
    if (binding->outputs[i].is_passed_through) {
      IOBIND__TRY(copy_passed_through(binding, i, stream, error));
    }
  }
  return IOBIND_OK;
}
