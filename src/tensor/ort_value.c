/* Wraps a program's OrtValue in a tensor, and a tensor in an OrtValue, for programs that also use ORT's interface. */
#include <stdlib.h>

#include "iobind/interop.h"
#include "tensor/tensor.h"

/* ---- in ---- */

static iobind_status wrap(iobind_runtime *runtime, OrtValue *value, iobind_tensor **tensor, iobind_error *error) {
  static const char what[] = "tensor_wrap_ort";
  const OrtApi *api = IOBIND__API(runtime);
  int is_tensor = 0; /* also 0 for an empty value */
  const OrtMemoryInfo *info = NULL;
  IOBIND__ORT_TRY(api, api->IsTensor(value, &is_tensor), error, "%s", what);
  if (!is_tensor) {
    return iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED,
                        "%s: expected an OrtValue that holds a tensor, got another or an empty one", what);
  }
  IOBIND__ORT_TRY(api, api->GetTensorMemoryInfo(value, &info), error, "%s", what);
  iobind__place *place = iobind__runtime_find_place(runtime, info);
  if (place == NULL) {
    const char *name = "?";
    OrtStatus *unnamed = api->MemoryInfoGetName(info, &name);
    iobind__ort_ignore(api, unnamed);
    return iobind__fail(
        error, IOBIND_ERROR_WRONG_DEVICE,
        "%s: no device of this runtime has the OrtValue's memory '%s': register the EP's library with the runtime", what, name);
  }
  IOBIND__TRY(iobind__tensor_from_value(value, place, place->owner, tensor, what, error));
  (*tensor)->owns = IOBIND__OWNS_NOTHING;
  return IOBIND_OK;
}

iobind_status iobind_tensor_wrap_ort(iobind_runtime *runtime, void *ort_value, iobind_deleter deleter, void *context,
                                     iobind_tensor **tensor, iobind_error *error) {
  if (tensor != NULL) {
    *tensor = NULL;
  }
  IOBIND__TRY(iobind__null_check(runtime, "runtime", "tensor_wrap_ort", error));
  IOBIND__TRY(iobind__null_check(ort_value, "ort_value", "tensor_wrap_ort", error));
  IOBIND__TRY(iobind__null_check(tensor, "tensor", "tensor_wrap_ort", error));
  IOBIND__TRY(iobind__process_check("tensor_wrap_ort", error));
  IOBIND__TRY(wrap(runtime, ort_value, tensor, error));
  (*tensor)->deleter = deleter;
  (*tensor)->deleter_context = context;
  return IOBIND_OK;
}

/* ---- out ---- */

/* For ORT, the allocator of the memory: ORT calls Free when it releases the last reference to the value. */
typedef struct holder {
  OrtAllocator allocator; /* first: ORT's view */
  iobind_tensor *tensor;
} holder;

static void *ORT_CALL allocate_nothing(OrtAllocator *self, size_t bytes) {
  (void)self;
  (void)bytes;
  return NULL; /* ORT does not call it */
}

static void ORT_CALL let_go(OrtAllocator *self, void *data) {
  (void)data;
  holder *held = (holder *)self;
  iobind_tensor *tensor = held->tensor;
  free(held);
  iobind_tensor_release(tensor);
}

static const OrtMemoryInfo *ORT_CALL get_info(const OrtAllocator *self) {
  return ((const holder *)self)->tensor->place->info;
}

/* The program gets a copy: strings are C++ objects with one owner, and ORT would destroy them. */
static iobind_status copy_strings(const iobind_tensor *tensor, OrtValue **value, iobind_error *error) {
  iobind_tensor *copy;
  IOBIND__TRY(iobind__tensor_settle(tensor, IOBIND__READ, error));
  IOBIND__TRY(iobind__tensor_create_at(tensor->place, iobind__form_of(tensor), &copy, error));
  iobind_status status = iobind__strings_copy(tensor, copy, error);
  if (status == IOBIND_OK) {
    *value = copy->value;
    copy->value = NULL;
  }
  iobind_tensor_release(copy);
  return status;
}

static iobind_status hand_out(iobind_tensor *tensor, OrtValue **value, iobind_error *error) {
  const OrtApi *api = IOBIND__API(tensor->place->device->runtime);
  ONNXTensorElementDataType type = (ONNXTensorElementDataType)tensor->dtype;
  if (tensor->dtype == IOBIND_DTYPE_STRING) {
    return copy_strings(tensor, value, error);
  }
  if (tensor->bytes == 0) { /* no memory to retain, and ORT does not call Free for it */
    IOBIND__ORT_TRY(api,
                    api->CreateTensorWithDataAsOrtValue(tensor->place->info, NULL, 0, tensor->dims, tensor->rank, type, value),
                    error, "tensor_to_ort");
    return IOBIND_OK;
  }
  holder *held = calloc(1, sizeof *held);
  if (held == NULL) {
    return iobind__out_of_memory(error, "tensor_to_ort");
  }
  /* version 1: ORT uses only these three functions */
  held->allocator = (OrtAllocator){.version = 1, .Alloc = allocate_nothing, .Free = let_go, .Info = get_info};
  held->tensor = tensor;
  OrtStatus *status = api->CreateTensorWithDataAndDeleterAsOrtValue(&held->allocator, tensor->data, tensor->bytes, tensor->dims,
                                                                    tensor->rank, type, value);
  if (status != NULL) {
    free(held);
    return iobind__ort_fail(api, status, error, "tensor_to_ort");
  }
  iobind_tensor_retain(tensor);
  return IOBIND_OK;
}

iobind_status iobind_tensor_to_ort(iobind_tensor *tensor, void **ort_value, iobind_error *error) {
  if (ort_value != NULL) {
    *ort_value = NULL;
  }
  IOBIND__TRY(iobind__null_check(tensor, "tensor", "tensor_to_ort", error));
  IOBIND__TRY(iobind__null_check(ort_value, "ort_value", "tensor_to_ort", error));
  IOBIND__TRY(iobind__process_check("tensor_to_ort", error));
  if (tensor->read_only) {
    return iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED,
                        "tensor_to_ort: an OrtValue cannot express that a tensor is read-only: copy the tensor");
  }
  OrtValue *value = NULL;
  IOBIND__TRY(iobind__named(hand_out(tensor, &value, error), error, "tensor_to_ort"));
  iobind__tensor_export(tensor);
  *ort_value = value;
  return IOBIND_OK;
}
