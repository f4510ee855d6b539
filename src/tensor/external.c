/* Imported memory of other libraries and processes, and tensors in it. */
#include <stdlib.h>

#include "memory/importer.h"
#include "tensor/tensor.h"

struct iobind_external_memory {
  iobind__ref ref;
  iobind__importer importer;
  size_t bytes;
};

static void memory_destroy(iobind__ref *ref) {
  iobind_external_memory *memory = (iobind_external_memory *)ref;
  iobind__importer *importer = &memory->importer;
  iobind__importer_close(importer, importer->object == NULL ? NULL : importer->calls->give_memory);
  free(memory);
}

static iobind_status import(iobind_device *device, const iobind__imported *from, iobind_external_memory **out, const char *what,
                            iobind_error *error) {
  iobind_external_memory *memory = calloc(1, sizeof *memory);
  if (memory == NULL) {
    return iobind__out_of_memory(error, what);
  }
  iobind__ref_init(&memory->ref, memory_destroy);
  iobind__importer *importer = &memory->importer;
  iobind_status status = iobind__importer_open(device, from->given.kind, importer, what, error);
  if (status != IOBIND_OK) {
    free(memory);
    return status;
  }
  memory->bytes = from->given.bytes;
  iobind__scope scope;
  status = iobind__named(iobind__guard_enter(device->guard, &scope, error), error, what);
  if (status == IOBIND_OK) {
    status = iobind__guard_end(&scope, importer->calls->take_memory(importer, from, what, error), error);
  }
  if (status != IOBIND_OK) {
    iobind__ref_release(&memory->ref);
    return status;
  }
  *out = memory;
  return IOBIND_OK;
}

iobind_status iobind_external_memory_import(iobind_device *device, const iobind_external *external,
                                            iobind_external_memory **memory, iobind_error *error) {
  if (memory != NULL) {
    *memory = NULL;
  }
  IOBIND__TRY(iobind__null_check(device, "device", "external_memory_import", error));
  IOBIND__TRY(iobind__null_check(memory, "memory", "external_memory_import", error));
  IOBIND__TRY(iobind__process_check("external_memory_import", error));
  iobind__imported from;
  IOBIND__TRY(iobind__imported_read(&from, external, true, "external_memory_import", error));
  return import(device, &from, memory, "external_memory_import", error);
}

void iobind_external_memory_destroy(iobind_external_memory *memory) {
  if (memory != NULL) {
    iobind__ref_release(&memory->ref);
  }
}

/* Make a tensor of a value that the EP has created, and check that it is on the device. */
static iobind_status take(iobind_external_memory *memory, OrtValue *value, iobind_tensor **tensor, const char *what,
                          iobind_error *error) {
  iobind_device *device = memory->importer.device;
  const OrtApi *api = IOBIND__API(device->runtime);
  const OrtMemoryInfo *info = NULL;
  IOBIND__ORT_TRY(api, api->GetTensorMemoryInfo(value, &info), error, "%s", what);
  iobind__place *place = iobind__runtime_find_place(device->runtime, info);
  if (place == NULL || place->device != device) {
    return iobind__fail(error, IOBIND_ERROR_WRONG_DEVICE,
                        "%s: expected a tensor on '%s', its execution provider created one on '%s'", what, device->spec,
                        place == NULL ? "?" : place->device->spec);
  }
  return iobind__tensor_from_value(value, place, &memory->ref, tensor, what, error);
}

/* *bytes: the size of the part, which must lie within the memory. */
static iobind_status check_part(const iobind_external_memory *memory, const OrtExternalTensorDescriptor *part, size_t *bytes,
                                const char *what, iobind_error *error) {
  const size_t offset = part->offset_bytes;
  const iobind__form form = {(iobind_dtype)part->element_type, part->shape, part->rank};
  IOBIND__TRY(iobind__form_bytes(form, bytes, what, error));
  return offset <= memory->bytes && *bytes <= memory->bytes - offset
             ? IOBIND_OK
             : iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT,
                            "%s: expected a part of the memory's %zu bytes, got %zu bytes at offset %zu", what, memory->bytes,
                            *bytes, offset);
}

static iobind_status make(iobind_external_memory *memory, const OrtExternalTensorDescriptor *part, iobind_tensor **tensor,
                          const char *what, iobind_error *error) {
  iobind__importer *importer = &memory->importer;
  iobind_device *device = importer->device;
  size_t bytes;
  IOBIND__TRY(check_part(memory, part, &bytes, what, error));
  OrtValue *value = NULL;
  iobind__scope scope;
  IOBIND__TRY(iobind__named(iobind__guard_enter(device->guard, &scope, error), error, what));
  IOBIND__TRY(iobind__guard_end(&scope, importer->calls->view(importer, part, bytes, &value, what, error), error));
  iobind_status status = take(memory, value, tensor, what, error);
  if (status != IOBIND_OK) {
    iobind__value_release(device->runtime, device->guard, value);
    return status;
  }
  (*tensor)->owns = IOBIND__OWNS_VALUE;
  return IOBIND_OK;
}

iobind_status iobind_external_memory_view(iobind_external_memory *memory, size_t offset, iobind_dtype dtype,
                                          const int64_t *dims, size_t rank, iobind_tensor **tensor, iobind_error *error) {
  static const char what[] = "external_memory_view";
  if (tensor != NULL) {
    *tensor = NULL;
  }
  IOBIND__TRY(iobind__null_check(memory, "memory", what, error));
  IOBIND__TRY(iobind__null_check(tensor, "tensor", what, error));
  IOBIND__TRY(iobind__process_check(what, error));
  if (dtype == IOBIND_DTYPE_STRING) {
    return iobind__fail(error, IOBIND_ERROR_DTYPE, "%s: strings are only in host memory of ONNX Runtime", what);
  }
  const OrtExternalTensorDescriptor part = {.version = memory->importer.device->runtime->ort.api_version,
                                            .element_type = (ONNXTensorElementDataType)dtype,
                                            .shape = dims,
                                            .rank = rank,
                                            .offset_bytes = offset};
  return make(memory, &part, tensor, what, error);
}
