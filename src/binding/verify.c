/* Checks after a run that each output is in the requested memory. The result depends only on the output, its mode and its
 * memory location, so the check is not repeated for another tensor of the same kind. */
#include "binding/table.h"

iobind_status iobind__result_verify_place(const iobind_binding *binding, size_t index, const OrtValue *value,
                                          iobind_error *error) {
  iobind_runtime *runtime = binding->session->runtime;
  const OrtApi *api = IOBIND__API(runtime);
  const iobind__output *output = &binding->outputs[index];
  const char *name = binding->session->outputs[index].label;
  int is_tensor = 0;
  IOBIND__ORT_TRY(api, api->IsTensor(value, &is_tensor), error, "output '%s'", name);
  if (is_tensor == 0) {
    return iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED, "output '%s': the run returned no tensor", name);
  }
  const OrtMemoryInfo *info = NULL;
  IOBIND__ORT_TRY(api, api->GetTensorMemoryInfo(value, &info), error, "output '%s'", name);
  const iobind__place *asked = output->is_copied                 ? iobind__output_home(binding, index)
                               : iobind__output_is_given(output) ? output->target->place
                                                                 : output->place;
  if (!iobind__same_memory(runtime, info, asked->info)) {
    const char *landed = NULL;
    IOBIND__ORT_TRY(api, api->MemoryInfoGetName(info, &landed), error, "output '%s'", name);
    return iobind__fail(error, IOBIND_ERROR_WRONG_DEVICE, "output '%s': expected memory of '%s', as bound, got '%s'", name,
                        asked->device->spec, landed);
  }
  return IOBIND_OK;
}

/* Does the model fix the dims of an output, and does the value have them? */
static iobind_status check_fixed_dims(const iobind_binding *binding, size_t index, const OrtValue *value, bool *same,
                                      iobind_error *error) {
  const OrtApi *api = IOBIND__API(binding->session->runtime);
  const iobind__value *output = &binding->session->outputs[index];
  ONNXTensorElementDataType dtype;
  const int64_t *dims = NULL;
  size_t rank = 0;
  IOBIND__ORT_TRY(api, api->GetTensorElementTypeAndShapeDataReference(value, &dtype, &dims, &rank), error, "output '%s'",
                  output->label);
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
  if (output->is_copied) { /* a passed-through input is where it was bound; the others are checked after each run */
    output->is_verified = binding->session->outputs[index].passthrough_input >= 0;
    return IOBIND_OK;
  }
  IOBIND__TRY(iobind__result_verify_place(binding, index, output->value, error));
  if (output->mode == IOBIND__OUTPUT_REUSE) {
    IOBIND__TRY(check_fixed_dims(binding, index, output->value, &output->has_fixed_dims, error));
  }
  IOBIND__TRY(iobind__result_locate(binding, index, output->value, &data, &bytes, error));
  output->is_verified = binding->session->outputs[index].dtype == IOBIND_DTYPE_STRING || bytes > 0;
  if (output->is_verified && output->mode != IOBIND__OUTPUT_REUSE) { /* for REUSE the dims are checked each time */
    output->seen_mode = output->mode;
    output->seen_place = output->target != NULL ? output->target->place : output->place;
  }
  return IOBIND_OK;
}

iobind_status iobind__results_verify(iobind_binding *binding, iobind_error *error) {
  IOBIND__TRY(iobind__results_fetch(binding, error));
  bool all = true;
  for (size_t i = 0; i < binding->session->output_count; i++) {
    const iobind__output *output = &binding->outputs[i];
    if (output->mode == IOBIND__OUTPUT_NONE) {
      continue;
    }
    if (!output->is_verified) {
      IOBIND__TRY(verify(binding, i, error));
    }
    all = all && output->is_verified;
  }
  binding->plan.is_seen = all;
  return IOBIND_OK;
}
