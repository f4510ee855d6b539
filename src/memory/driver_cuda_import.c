/* Imports memory and semaphores of other libraries on CUDA devices, with NVIDIA's driver, because ORT's CUDA EP up to 1.31
 * imports nothing. The structs and numbers are those of the driver's interface since CUDA 10. Timeline semaphores need CUDA
 * 11.2. */
#include <stdlib.h>
#include <string.h>

#include "memory/driver_cuda.h"
#include "memory/importer.h"
#include "support/system.h"

/* CUexternalMemoryHandleType and CUexternalSemaphoreHandleType, by iobind_external_kind. */
static const int cuda_kinds[] = {
    [IOBIND_EXTERNAL_FD_MEMORY] = 1,      [IOBIND_EXTERNAL_WIN32_MEMORY] = 2, [IOBIND_EXTERNAL_D3D12_HEAP] = 4,
    [IOBIND_EXTERNAL_D3D12_RESOURCE] = 5, [IOBIND_EXTERNAL_FD_SEMAPHORE] = 9, [IOBIND_EXTERNAL_WIN32_SEMAPHORE] = 10,
    [IOBIND_EXTERNAL_D3D12_FENCE] = 4,
};
enum { DEDICATED = 1 }; /* CUDA_EXTERNAL_MEMORY_DEDICATED: required for a resource */

typedef union cuda_handle {
  int fd;
  struct {
    void *handle;
    const void *name;
  } win32;
} cuda_handle;

typedef struct memory_desc { /* CUDA_EXTERNAL_MEMORY_HANDLE_DESC */
  int type;
  cuda_handle handle;
  uint64_t size;
  unsigned flags;
  unsigned reserved[16];
} memory_desc;

typedef struct buffer_desc { /* CUDA_EXTERNAL_MEMORY_BUFFER_DESC */
  uint64_t offset;
  uint64_t size;
  unsigned flags;
  unsigned reserved[16];
} buffer_desc;

typedef struct semaphore_desc { /* CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC */
  int type;
  cuda_handle handle;
  unsigned flags;
  unsigned reserved[16];
} semaphore_desc;

typedef struct
    semaphore_params { /* CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS, _WAIT_PARAMS: both of this size, and begin with the value */
  uint64_t value;
  uint64_t others[8];
  unsigned flags;
  unsigned reserved[16];
} semaphore_params;
_Static_assert(sizeof(semaphore_params) == 144, "the driver reads that many bytes");

/* An importer's own data: the driver, its calls for external objects, and the address of imported memory. */
typedef struct cuda {
  iobind__foreign driver;
  int (*import_memory)(void **memory, const memory_desc *desc);
  int (*map)(uintptr_t *address, void *memory, const buffer_desc *desc);
  int (*unmap)(uintptr_t address);
  int (*destroy_memory)(void *memory);
  int (*import_semaphore)(void **semaphore, const semaphore_desc *desc);
  int (*signal)(void *const *semaphores, const semaphore_params *params, unsigned count, void *stream);
  int (*wait)(void *const *semaphores, const semaphore_params *params, unsigned count, void *stream);
  int (*destroy_semaphore)(void *semaphore);
  uintptr_t address;
} cuda;

#define FIND(field, name) (*(void **)&self->field = iobind__library_symbol(library, name)) != NULL

static bool find_calls(cuda *self, void *library) {
  return library != NULL && FIND(import_memory, "cuImportExternalMemory") && FIND(map, "cuExternalMemoryGetMappedBuffer") &&
         FIND(unmap, "cuMemFree_v2") && FIND(destroy_memory, "cuDestroyExternalMemory") &&
         FIND(import_semaphore, "cuImportExternalSemaphore") && FIND(signal, "cuSignalExternalSemaphoresAsync") &&
         FIND(wait, "cuWaitExternalSemaphoresAsync") && FIND(destroy_semaphore, "cuDestroyExternalSemaphore");
}

static iobind_status failed_as(const iobind__importer *importer, int failed, const char *what, iobind_error *error) {
  const cuda *self = importer->own;
  return iobind__fail(error, IOBIND_ERROR_RUNTIME, "%s: '%s': CUDA error %d (%s)", what, importer->device->spec, failed,
                      iobind__cuda_error_name(&self->driver, failed));
}

static iobind_status find(iobind__importer *importer, const char *what, iobind_error *error) {
  cuda *self = importer->own;
  if (!find_calls(self, iobind__library_loaded(IOBIND__CUDA_DRIVER))) {
    return iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED,
                        "%s: '%s': %s is not loaded, or lacks the calls for external memory: expected CUDA 11.2 or newer", what,
                        importer->device->spec, IOBIND__CUDA_DRIVER);
  }
  return iobind__named(iobind__cuda_open(&self->driver, importer->device, error), error, what);
}

static iobind_status check_kind(const iobind__importer *importer, int32_t kind, const char *what, iobind_error *error) {
  bool is_file = kind == IOBIND_EXTERNAL_FD_MEMORY || kind == IOBIND_EXTERNAL_FD_SEMAPHORE;
#if defined(_WIN32)
  is_file = !is_file;
#endif
  return is_file ? IOBIND_OK
                 : iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED, "%s: on this system '%s' imports nothing of kind %s", what,
                                importer->device->spec, iobind__import_kind_name(kind));
}

static iobind_status open(iobind__importer *importer, int32_t kind, const char *what, iobind_error *error) {
  IOBIND__TRY(check_kind(importer, kind, what, error));
  importer->own = calloc(1, sizeof(cuda));
  if (importer->own == NULL) {
    return iobind__out_of_memory(error, what);
  }
  iobind_status status = find(importer, what, error);
  if (status != IOBIND_OK) {
    free(importer->own);
  }
  return status;
}

static void close(iobind__importer *importer) {
  free(importer->own);
}

static cuda_handle handle_of(const iobind__imported *from) {
  cuda_handle handle = {.win32 = {from->given.handle, NULL}};
#if !defined(_WIN32)
  handle.fd = (int)(intptr_t)from->given.handle;
#endif
  return handle;
}

/* ---- memory ---- */

/* CUDA owns a file descriptor that it has imported, even if mapping the memory then fails. It gets a duplicate, so that the
 * caller keeps the descriptor if the call fails. */
static iobind_status duplicate(const iobind__imported *from, cuda_handle *handle, const char *what, iobind_error *error) {
  *handle = handle_of(from);
  if (from->given.kind != IOBIND_EXTERNAL_FD_MEMORY) {
    return IOBIND_OK;
  }
  handle->fd = iobind__descriptor_duplicate((int)(intptr_t)from->given.handle);
  return handle->fd >= 0 ? IOBIND_OK
                         : iobind__fail(error, IOBIND_ERROR_RUNTIME,
                                        "%s: external.handle: file descriptor %d is not open, or the process may open no more",
                                        what, (int)(intptr_t)from->given.handle);
}

static void close_file(const iobind__imported *from, cuda_handle handle) {
  if (from->given.kind == IOBIND_EXTERNAL_FD_MEMORY) {
    iobind__descriptor_close(handle.fd);
  }
}

static int import(const cuda *self, const iobind__imported *from, cuda_handle handle, void **memory) {
  const memory_desc desc = {.type = cuda_kinds[from->given.kind],
                            .handle = handle,
                            .size = from->given.bytes,
                            .flags = from->given.kind == IOBIND_EXTERNAL_D3D12_RESOURCE ? DEDICATED : 0};
  int failed = self->import_memory(memory, &desc);
  if (failed != 0) {
    close_file(from, handle);
  }
  return failed;
}

/* Takes ownership of the handle, also on failure. */
static int take(cuda *self, const iobind__imported *from, cuda_handle handle, void **memory) {
  const buffer_desc whole = {.size = from->given.bytes};
  int failed = import(self, from, handle, memory);
  if (failed != 0) {
    return failed;
  }
  failed = self->map(&self->address, *memory, &whole);
  if (failed != 0) {
    (void)self->destroy_memory(*memory);
  }
  return failed;
}

static iobind_status take_memory(iobind__importer *importer, const iobind__imported *from, const char *what,
                                 iobind_error *error) {
  cuda *self = importer->own;
  void *memory = NULL;
  cuda_handle handle;
  IOBIND__TRY(duplicate(from, &handle, what, error));
  int failed = iobind__cuda_enter(&self->driver);
  if (failed != 0) {
    close_file(from, handle);
    return failed_as(importer, failed, what, error);
  }
  failed = take(self, from, handle, &memory);
  iobind__cuda_leave(&self->driver);
  if (failed != 0) {
    return failed_as(importer, failed, what, error);
  }
  close_file(from, handle_of(from)); /* ownership was transferred, and CUDA has the duplicate */
  importer->object = memory;
  return IOBIND_OK;
}

static void give_memory(iobind__importer *importer) {
  const cuda *self = importer->own;
  if (iobind__cuda_enter(&self->driver) == 0) {
    (void)self->unmap(self->address);
    (void)self->destroy_memory(importer->object);
    iobind__cuda_leave(&self->driver);
  }
}

static iobind_status view(iobind__importer *importer, const OrtExternalTensorDescriptor *part, size_t bytes, OrtValue **value,
                          const char *what, iobind_error *error) {
  const iobind_device *device = importer->device;
  const cuda *self = importer->own;
  const OrtApi *api = IOBIND__API(device->runtime);
  IOBIND__ORT_TRY(api,
                  api->CreateTensorWithDataAsOrtValue(device->places[IOBIND_MEMORY_DEFAULT].info,
                                                      (void *)(self->address + part->offset_bytes), bytes, part->shape,
                                                      part->rank, part->element_type, value),
                  error, "%s: '%s'", what, device->spec);
  return IOBIND_OK;
}

/* ---- semaphores ---- */

static iobind_status take_semaphore(iobind__importer *importer, const iobind__imported *from, const char *what,
                                    iobind_error *error) {
  const cuda *self = importer->own;
  const semaphore_desc desc = {.type = cuda_kinds[from->given.kind], .handle = handle_of(from)};
  void *semaphore = NULL;
  int failed = iobind__cuda_enter(&self->driver);
  if (failed == 0) {
    failed = self->import_semaphore(&semaphore, &desc);
    iobind__cuda_leave(&self->driver);
  }
  if (failed != 0) {
    return failed_as(importer, failed, what, error);
  }
  importer->object = semaphore;
  return IOBIND_OK;
}

static void give_semaphore(iobind__importer *importer) {
  const cuda *self = importer->own;
  if (iobind__cuda_enter(&self->driver) == 0) {
    (void)self->destroy_semaphore(importer->object);
    iobind__cuda_leave(&self->driver);
  }
}

static iobind_status use(iobind__importer *importer, iobind_stream *stream, uint64_t value, bool waits, const char *what,
                         iobind_error *error) {
  const cuda *self = importer->own;
  const semaphore_params params = {.value = value};
  int failed = iobind__cuda_enter(&self->driver);
  if (failed == 0) {
    failed = (waits ? self->wait : self->signal)(&importer->object, &params, 1, iobind__stream_handle(stream));
    iobind__cuda_leave(&self->driver);
  }
  return failed == 0 ? IOBIND_OK : failed_as(importer, failed, what, error);
}

const iobind__import_calls iobind__cuda_imports = {
    .open = open,
    .close = close,
    .take_memory = take_memory,
    .give_memory = give_memory,
    .view = view,
    .take_semaphore = take_semaphore,
    .give_semaphore = give_semaphore,
    .use = use,
};
