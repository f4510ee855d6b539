/* Tensors of strings, whose elements are C++ objects. */
#include <stdlib.h>
#include <string.h>

#include "tensor/tensor.h"

static iobind_status check_string(const iobind_tensor *tensor, size_t index, const char *what, iobind_error *error) {
  IOBIND__TRY(iobind__null_check(tensor, "tensor", what, error));
  IOBIND__TRY(iobind__process_check(what, error));
  if (tensor->dtype != IOBIND_DTYPE_STRING) {
    return iobind__fail(error, IOBIND_ERROR_DTYPE, "%s: expected a tensor of strings, got %s", what,
                        iobind_dtype_get_name((int32_t)tensor->dtype));
  }
  uint64_t elements = 0;
  IOBIND__TRY(iobind__dims_check(tensor->dims, tensor->rank, &elements, what, error));
  if (index >= elements) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "%s: expected an index below %llu, got %zu", what,
                        (unsigned long long)elements, index);
  }
  return IOBIND_OK;
}

iobind_status iobind_tensor_get_string(const iobind_tensor *tensor, size_t index, char *buffer, size_t capacity, size_t *needed,
                                       iobind_error *error) {
  IOBIND__TRY(check_string(tensor, index, "tensor_get_string", error));
  if (needed == NULL || (buffer == NULL && capacity > 0)) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "tensor_get_string: %s is NULL",
                        needed == NULL ? "needed" : "buffer");
  }
  *needed = 0;
  IOBIND__TRY(iobind__named(iobind__tensor_settle(tensor, IOBIND__READ, error), error, "tensor_get_string"));
  const OrtApi *api = IOBIND__API(tensor->place->device->runtime);
  size_t length = 0;
  IOBIND__ORT_TRY(api, api->GetStringTensorElementLength(tensor->value, index, &length), error, "tensor_get_string");
  *needed = length;
  if (length == 0 || capacity == 0) {
    return IOBIND_OK;
  }
  /* ORT writes only whole elements */
  char *whole = capacity < length ? malloc(length) : buffer;
  if (whole == NULL) {
    return iobind__out_of_memory(error, "tensor_get_string");
  }
  OrtStatus *status = api->GetStringTensorElement(tensor->value, length, index, whole);
  if (whole != buffer) {
    if (status == NULL) {
      memcpy(buffer, whole, capacity);
    }
    free(whole);
  }
  return status == NULL ? IOBIND_OK : iobind__ort_fail(api, status, error, "tensor_get_string");
}

iobind_status iobind__strings_shared(const iobind_runtime *runtime, const OrtValue *a, const OrtValue *b, bool *shared,
                                     iobind_error *error) {
  const OrtApi *api = IOBIND__API(runtime);
  const OrtValue *values[2] = {a, b};
  void *data[2] = {NULL, NULL};
  for (int i = 0; i < 2; i++) {
    /* the address of C++ objects, only for the comparison */
    IOBIND__ORT_TRY(api, api->GetTensorMutableData((OrtValue *)(uintptr_t)values[i], &data[i]), error, "output of strings");
  }
  *shared = data[0] != NULL && data[0] == data[1];
  return IOBIND_OK;
}

bool iobind__strings_meet(const iobind_tensor *a, const iobind_tensor *b) {
  bool shared = true;
  if (b->dtype != IOBIND_DTYPE_STRING) {
    return false;
  }
  bool is_known = iobind__strings_shared(a->place->device->runtime, a->value, b->value, &shared, NULL) == IOBIND_OK;
  return shared || !is_known;
}

iobind_status iobind__strings_copy(const iobind_tensor *source, iobind_tensor *target, iobind_error *error) {
  const OrtApi *api = IOBIND__API(target->place->device->runtime);
  uint64_t elements = 0;
  IOBIND__TRY(iobind__dims_check(source->dims, source->rank, &elements, "copy of strings", error));
  for (size_t i = 0; i < elements; i++) {
    size_t length = 0;
    char *buffer = NULL;
    IOBIND__ORT_TRY(api, api->GetStringTensorElementLength(source->value, i, &length), error, "copy of strings");
    IOBIND__ORT_TRY(api, api->GetResizedStringTensorElementBuffer(target->value, i, length, &buffer), error, "copy of strings");
    if (length > 0) {
      IOBIND__ORT_TRY(api, api->GetStringTensorElement(source->value, length, i, buffer), error, "copy of strings");
    }
  }
  return IOBIND_OK;
}

iobind_status iobind_tensor_set_string(iobind_tensor *tensor, size_t index, const char *text, iobind_error *error) {
  IOBIND__TRY(check_string(tensor, index, "tensor_set_string", error));
  IOBIND__TRY(iobind__null_check(text, "text", "tensor_set_string", error));
  IOBIND__TRY(iobind__named(iobind__tensor_settle(tensor, IOBIND__WRITE, error), error, "tensor_set_string"));
  const OrtApi *api = IOBIND__API(tensor->place->device->runtime);
  IOBIND__ORT_TRY(api, api->FillStringTensorElement(tensor->value, text, index), error, "tensor_set_string");
  return IOBIND_OK;
}
