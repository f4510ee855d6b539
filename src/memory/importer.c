#include "memory/importer.h"

#include <limits.h>

#include "memory/driver.h"
#include "support/options.h"

/* By iobind_external_kind. */
static const struct {
  const char *name;
  bool memory; /* or a semaphore */
  bool file;   /* the handle is a file descriptor */
  int32_t ort_kind;
} kinds[] = {
    [IOBIND_EXTERNAL_FD_MEMORY] = {"FD_MEMORY", true, true, ORT_EXTERNAL_MEMORY_HANDLE_TYPE_VK_MEMORY_OPAQUE_FD},
    [IOBIND_EXTERNAL_WIN32_MEMORY] = {"WIN32_MEMORY", true, false, ORT_EXTERNAL_MEMORY_HANDLE_TYPE_VK_MEMORY_WIN32},
    [IOBIND_EXTERNAL_D3D12_RESOURCE] = {"D3D12_RESOURCE", true, false, ORT_EXTERNAL_MEMORY_HANDLE_TYPE_D3D12_RESOURCE},
    [IOBIND_EXTERNAL_D3D12_HEAP] = {"D3D12_HEAP", true, false, ORT_EXTERNAL_MEMORY_HANDLE_TYPE_D3D12_HEAP},
    [IOBIND_EXTERNAL_FD_SEMAPHORE] = {"FD_SEMAPHORE", false, true, ORT_EXTERNAL_SEMAPHORE_VK_TIMELINE_SEMAPHORE_OPAQUE_FD},
    [IOBIND_EXTERNAL_WIN32_SEMAPHORE] = {"WIN32_SEMAPHORE", false, false, ORT_EXTERNAL_SEMAPHORE_VK_TIMELINE_SEMAPHORE_WIN32},
    [IOBIND_EXTERNAL_D3D12_FENCE] = {"D3D12_FENCE", false, false, ORT_EXTERNAL_SEMAPHORE_D3D12_FENCE},
};
enum { LAST = sizeof kinds / sizeof kinds[0] - 1 };

static iobind_status check_kind(int32_t kind, const char *what, iobind_error *error) {
  return kind >= 1 && kind <= LAST
             ? IOBIND_OK
             : iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "%s: kind: expected 1 .. %d, got %d", what, LAST, kind);
}

iobind_status iobind__imported_read(iobind__imported *out, const iobind_external *given, bool memory, const char *what,
                                    iobind_error *error) {
  IOBIND__TRY(iobind__null_check(given, "external", what, error));
  IOBIND__TRY(IOBIND__OPTIONS_READ(&out->given, given, what, error));
  const iobind_external *read = &out->given;
  IOBIND__TRY(check_kind(read->kind, what, error));
  if (kinds[read->kind].memory != memory) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "%s: external.kind: expected %s, got %s", what,
                        memory ? "memory" : "a semaphore", kinds[read->kind].name);
  }
  const intptr_t file = (intptr_t)read->handle;
  if (kinds[read->kind].file && (file < 0 || file > INT_MAX)) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "%s: external.handle: expected a file descriptor, got %lld", what,
                        (long long)file);
  }
  if (!kinds[read->kind].file && read->handle == NULL) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "%s: external.handle: expected a HANDLE, got NULL", what);
  }
  if ((read->bytes > 0) != memory) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "%s: external.bytes: expected %s, got %zu", what,
                        memory ? "the size of the memory" : "0 for a semaphore", read->bytes);
  }
  out->ort_kind = kinds[read->kind].ort_kind;
  return IOBIND_OK;
}

const char *iobind__import_kind_name(int32_t kind) {
  return kinds[kind].name;
}

/* ---- by ORT's interop interface ---- */

static iobind_status imports_nothing(const iobind_device *device, const char *what, iobind_error *error) {
  return iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED,
                      "%s: the execution provider of '%s' imports no memory or semaphores in ONNX Runtime %s", what,
                      device->spec, device->runtime->ort.version);
}

/* ORT's failure; NOT_SUPPORTED if ORT returns ORT_NOT_IMPLEMENTED. */
static iobind_status refuse(const iobind_device *device, OrtStatus *status, const char *what, iobind_error *error) {
  const OrtApi *api = IOBIND__API(device->runtime);
  return api->GetErrorCode(status) == ORT_NOT_IMPLEMENTED
             ? iobind__ort_fail_as(api, status, IOBIND_ERROR_NOT_SUPPORTED, error, "%s: '%s'", what, device->spec)
             : iobind__ort_fail(api, status, error, "%s: '%s'", what, device->spec);
}

static iobind_status check_can(const iobind__importer *self, int32_t kind, const char *what, iobind_error *error) {
  const OrtInteropApi *api = self->interop;
  bool can = false;
  OrtStatus *status = kinds[kind].memory
                          ? api->CanImportMemory(self->own, (OrtExternalMemoryHandleType)kinds[kind].ort_kind, &can)
                          : api->CanImportSemaphore(self->own, (OrtExternalSemaphoreType)kinds[kind].ort_kind, &can);
  if (status != NULL) {
    return refuse(self->device, status, what, error);
  }
  return can ? IOBIND_OK
             : iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED, "%s: the execution provider of '%s' imports nothing of kind %s",
                            what, self->device->spec, kinds[kind].name);
}

static void ort_close(iobind__importer *self) {
  self->interop->ReleaseExternalResourceImporter(self->own);
}

static iobind_status ort_open(iobind__importer *self, int32_t kind, const char *what, iobind_error *error) {
  const iobind_device *device = self->device;
  OrtExternalResourceImporter *importer = NULL;
  /* An EP behind ORT's bridge (CUDA up to 1.31) leaves this slot of its table uninitialised, and ORT would call it. */
  self->interop = device->bridged ? NULL : IOBIND__API(device->runtime)->GetInteropApi();
  if (self->interop == NULL) {
    return imports_nothing(device, what, error);
  }
  OrtStatus *status = self->interop->CreateExternalResourceImporterForDevice(device->ep_device, &importer);
  if (status != NULL) {
    return refuse(device, status, what, error);
  }
  if (importer == NULL) { /* ORT's answer for an EP without such a slot */
    return imports_nothing(device, what, error);
  }
  self->own = importer;
  iobind_status can = check_can(self, kind, what, error);
  if (can != IOBIND_OK) {
    ort_close(self);
  }
  return can;
}

static iobind_status ort_take_memory(iobind__importer *self, const iobind__imported *from, const char *what,
                                     iobind_error *error) {
  const iobind_runtime *runtime = self->device->runtime;
  const OrtExternalMemoryDescriptor descriptor = {.version = runtime->ort.api_version,
                                                  .handle_type = (OrtExternalMemoryHandleType)from->ort_kind,
                                                  .native_handle = from->given.handle,
                                                  .size_bytes = from->given.bytes};
  OrtExternalMemoryHandle *handle = NULL;
  IOBIND__ORT_TRY(IOBIND__API(runtime), self->interop->ImportMemory(self->own, &descriptor, &handle), error, "%s: '%s'", what,
                  self->device->spec);
  self->object = handle;
  return IOBIND_OK;
}

static void ort_give_memory(iobind__importer *self) {
  self->interop->ReleaseExternalMemoryHandle(self->object);
}

static iobind_status ort_view(iobind__importer *self, const OrtExternalTensorDescriptor *part, size_t bytes, OrtValue **value,
                              const char *what, iobind_error *error) {
  (void)bytes;
  IOBIND__ORT_TRY(IOBIND__API(self->device->runtime),
                  self->interop->CreateTensorFromMemory(self->own, self->object, part, value), error, "%s: '%s'", what,
                  self->device->spec);
  return IOBIND_OK;
}

static iobind_status ort_take_semaphore(iobind__importer *self, const iobind__imported *from, const char *what,
                                        iobind_error *error) {
  const iobind_runtime *runtime = self->device->runtime;
  const OrtExternalSemaphoreDescriptor descriptor = {.version = runtime->ort.api_version,
                                                     .type = (OrtExternalSemaphoreType)from->ort_kind,
                                                     .native_handle = from->given.handle};
  OrtExternalSemaphoreHandle *handle = NULL;
  IOBIND__ORT_TRY(IOBIND__API(runtime), self->interop->ImportSemaphore(self->own, &descriptor, &handle), error, "%s: '%s'",
                  what, self->device->spec);
  self->object = handle;
  return IOBIND_OK;
}

static void ort_give_semaphore(iobind__importer *self) {
  self->interop->ReleaseExternalSemaphoreHandle(self->object);
}

static iobind_status ort_use(iobind__importer *self, iobind_stream *stream, uint64_t value, bool waits, const char *what,
                             iobind_error *error) {
  OrtSyncStream *sync = iobind__stream_ort(stream);
  OrtStatus *failed = waits ? self->interop->WaitSemaphore(self->own, self->object, sync, value)
                            : self->interop->SignalSemaphore(self->own, self->object, sync, value);
  IOBIND__ORT_TRY(IOBIND__API(self->device->runtime), failed, error, "%s: '%s'", what, self->device->spec);
  return IOBIND_OK;
}

static const iobind__import_calls ort_imports = {
    .open = ort_open,
    .close = ort_close,
    .take_memory = ort_take_memory,
    .give_memory = ort_give_memory,
    .view = ort_view,
    .take_semaphore = ort_take_semaphore,
    .give_semaphore = ort_give_semaphore,
    .use = ort_use,
};

/* ---- by the driver or ORT ---- */

iobind_status iobind__importer_open(iobind_device *device, int32_t kind, iobind__importer *out, const char *what,
                                    iobind_error *error) {
  const iobind__import_calls *own = device->bridged ? iobind__driver_of(device)->imports : NULL;
  *out = (iobind__importer){.device = device, .calls = own != NULL ? own : &ort_imports};
  iobind__scope scope;
  IOBIND__TRY(iobind__named(iobind__guard_enter(device->guard, &scope, error), error, what));
  iobind_status status = out->calls->open(out, kind, what, error);
  iobind__guard_leave(&scope);
  if (status == IOBIND_OK) {
    iobind__ref_retain(&device->runtime->ref);
  }
  return status;
}

void iobind__importer_close(iobind__importer *importer, void (*give)(iobind__importer *self)) {
  iobind_runtime *runtime = importer->device->runtime;
  iobind__scope scope;
  if (iobind__device_is_registered(importer->device) && iobind__guard_enter_to_free(importer->device->guard, &scope)) {
    if (give != NULL) {
      give(importer);
    }
    importer->calls->close(importer);
    iobind__guard_leave(&scope);
  }
  iobind__ref_release(&runtime->ref);
}

iobind_status iobind_device_check_import(iobind_device *device, int32_t kind, iobind_error *error) {
  IOBIND__TRY(iobind__null_check(device, "device", "device_check_import", error));
  IOBIND__TRY(iobind__process_check("device_check_import", error));
  IOBIND__TRY(check_kind(kind, "device_check_import", error));
  iobind__importer importer;
  IOBIND__TRY(iobind__importer_open(device, kind, &importer, "device_check_import", error));
  iobind__importer_close(&importer, NULL);
  return IOBIND_OK;
}
