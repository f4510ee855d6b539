#include "external.h"

#include <stdlib.h>

#include "capture.h"
#include "memory.h"
#include "race.h"
#include "semaphore.h"
#include "stream.h"
#include "system.h"

typedef struct importer {
  OrtExternalResourceImporterImpl impl; /* first: ORT's view */
  vdev_device *device;
  const OrtEpDevice *ep_device;
  const OrtMemoryInfo *info;
} importer;

/* ---- memory ---- */

typedef struct imported {
  OrtExternalMemoryHandle handle; /* first: ORT's view */
  vdev_device *device;
  void *address;
} imported;

static bool ORT_CALL can_import_memory(const OrtExternalResourceImporterImpl *self, OrtExternalMemoryHandleType type) {
  (void)self;
  switch (type) {
    case ORT_EXTERNAL_MEMORY_HANDLE_TYPE_VK_MEMORY_OPAQUE_FD: return !vdev_shared_by_handle();
    case ORT_EXTERNAL_MEMORY_HANDLE_TYPE_VK_MEMORY_WIN32: /* a file mapping stands for each of these */
    case ORT_EXTERNAL_MEMORY_HANDLE_TYPE_D3D12_RESOURCE:
    case ORT_EXTERNAL_MEMORY_HANDLE_TYPE_D3D12_HEAP: return vdev_shared_by_handle();
    default: return false;
  }
}

static void ORT_CALL release_memory(OrtExternalMemoryHandle *handle) {
  imported *one = (imported *)handle;
  vdev_lock();
  vdev_memory_free(one->device, one->address);
  vdev_unlock();
  free(one);
}

static void ORT_CALL release_imported(OrtExternalResourceImporterImpl *self, OrtExternalMemoryHandle *handle) {
  (void)self;
  release_memory(handle);
}

static OrtStatus *ORT_CALL import_memory(OrtExternalResourceImporterImpl *self, const OrtExternalMemoryDescriptor *descriptor,
                                         OrtExternalMemoryHandle **out) {
  importer *from = (importer *)self;
  char reason[VDEV_TEXT] = "";
  if (!can_import_memory(self, descriptor->handle_type)) {
    return vdev_fail(ORT_NOT_IMPLEMENTED, "vdev: expected memory of a file descriptor, on Windows of a HANDLE");
  }
  imported *one = calloc(1, sizeof *one);
  if (one == NULL) {
    return vdev_no_memory();
  }
  vdev_lock();
  if (vdev_capture_permits(from->device, "an import of memory", reason)) {
    one->address =
        vdev_memory_import(from->device, descriptor->native_handle, descriptor->offset_bytes, descriptor->size_bytes, reason);
  }
  vdev_unlock();
  if (one->address == NULL) {
    free(one);
    return vdev_fail(ORT_FAIL, reason);
  }
  one->handle = (OrtExternalMemoryHandle){
      .version = vdev_ort_global.version, .ep_device = from->ep_device, .descriptor = *descriptor, .Release = release_memory};
  one->device = from->device;
  *out = &one->handle;
  return NULL;
}

static OrtStatus *ORT_CALL create_tensor(OrtExternalResourceImporterImpl *self, const OrtExternalMemoryHandle *handle,
                                         const OrtExternalTensorDescriptor *tensor, OrtValue **out) {
  const importer *from = (const importer *)self;
  const imported *one = (const imported *)handle;
  size_t bytes = handle->descriptor.size_bytes;
  if (tensor->offset_bytes > bytes) {
    return vdev_fail(ORT_INVALID_ARGUMENT, "vdev: a tensor begins behind the end of the imported memory");
  }
  return VDEV_API_TABLE->CreateTensorWithDataAsOrtValue(from->info, (char *)one->address + tensor->offset_bytes,
                                                        bytes - tensor->offset_bytes, tensor->shape, tensor->rank,
                                                        tensor->element_type, out);
}

/* ---- semaphores ---- */

typedef struct opened {
  OrtExternalSemaphoreHandle handle; /* first: ORT's view */
  vdev_semaphore *semaphore;
} opened;

static bool ORT_CALL can_import_semaphore(const OrtExternalResourceImporterImpl *self, OrtExternalSemaphoreType type) {
  (void)self;
  return type == ORT_EXTERNAL_SEMAPHORE_VK_TIMELINE_SEMAPHORE_OPAQUE_FD && vdev_semaphore_is_supported();
}

static void ORT_CALL release_semaphore(OrtExternalSemaphoreHandle *handle) {
  opened *one = (opened *)handle;
  vdev_semaphore_release(one->semaphore);
  free(one);
}

static void ORT_CALL release_opened(OrtExternalResourceImporterImpl *self, OrtExternalSemaphoreHandle *handle) {
  (void)self;
  release_semaphore(handle);
}

static OrtStatus *ORT_CALL import_semaphore(OrtExternalResourceImporterImpl *self,
                                            const OrtExternalSemaphoreDescriptor *descriptor,
                                            OrtExternalSemaphoreHandle **out) {
  char reason[VDEV_TEXT] = "";
  if (!can_import_semaphore(self, descriptor->type)) {
    return vdev_fail(ORT_NOT_IMPLEMENTED, "vdev: only a semaphore of a file descriptor can be imported, on Linux");
  }
  opened *one = calloc(1, sizeof *one);
  if (one == NULL) {
    return vdev_no_memory();
  }
  one->semaphore = vdev_semaphore_open((int)(intptr_t)descriptor->native_handle, reason);
  if (one->semaphore == NULL) {
    free(one);
    return vdev_fail(ORT_INVALID_ARGUMENT, reason);
  }
  one->handle = (OrtExternalSemaphoreHandle){.version = vdev_ort_global.version,
                                             .ep_device = ((importer *)self)->ep_device,
                                             .descriptor = *descriptor,
                                             .Release = release_semaphore};
  *out = &one->handle;
  return NULL;
}

/* A wait or a signal that a stream has yet to do. */
typedef struct use {
  vdev_semaphore *semaphore;
  uint64_t value;
  bool waits; /* or signals */
} use;

static bool perform(void *context, char *reason) {
  const use *one = context;
  return one->waits ? vdev_semaphore_await(one->semaphore, one->value, -1)
                    : vdev_semaphore_raise(one->semaphore, one->value, reason);
}

static void release_use(void *context) {
  use *one = context;
  vdev_semaphore_release(one->semaphore);
  free(one);
}

/* What one stream has done before it signals, another has behind it once it has waited. Which signal a wait meets is known only later,
 * so the race detector treats every wait as ordered after all signals before it. */
static uint64_t signalled[VDEV_AGENTS]; /* with the lock held */

static void note_order(vdev_stream *stream, bool waits) {
  if (waits) {
    vdev_clocks_join(stream->clocks, signalled, vdev_global.agent_limit);
  } else {
    vdev_clocks_join(signalled, stream->clocks, vdev_global.agent_limit);
  }
}

static OrtStatus *submit(const OrtExternalSemaphoreHandle *handle, OrtSyncStream *sync, uint64_t value, bool waits) {
  vdev_stream *stream = VDEV_API_TABLE->SyncStream_GetHandle(sync);
  char reason[VDEV_TEXT] = "vdev: the stream is not one of this library, or was released";
  use *one = calloc(1, sizeof *one);
  if (one == NULL) {
    return vdev_no_memory();
  }
  one->semaphore = vdev_semaphore_retain(((const opened *)handle)->semaphore);
  one->value = value;
  one->waits = waits;
  vdev_lock();
  bool good = vdev_stream_exists(stream);
  if (good && vdev_capture_records(stream->device)) {
    good = vdev_refuse(stream->device, reason, "a captured graph cannot hold a semaphore");
  }
  vdev_job job = {.device = NULL,
                  .engine = VDEV_COMPUTE,
                  .what = waits ? "wait for a semaphore" : "signal of a semaphore",
                  .work = perform,
                  .context = one,
                  .release = release_use};
  if (good) {
    job.device = stream->device;
    note_order(stream, waits);
    good = vdev_stream_queue(stream, &job, reason);
  } else {
    release_use(one);
  }
  vdev_unlock();
  return good ? NULL : vdev_fail(ORT_FAIL, reason);
}

static OrtStatus *ORT_CALL wait_semaphore(OrtExternalResourceImporterImpl *self, OrtExternalSemaphoreHandle *handle,
                                          OrtSyncStream *stream, uint64_t value) {
  (void)self;
  return submit(handle, stream, value, true);
}

static OrtStatus *ORT_CALL signal_semaphore(OrtExternalResourceImporterImpl *self, OrtExternalSemaphoreHandle *handle,
                                            OrtSyncStream *stream, uint64_t value) {
  (void)self;
  return submit(handle, stream, value, false);
}

/* ---- the importer ---- */

static void ORT_CALL release_importer(OrtExternalResourceImporterImpl *self) {
  free(self);
}

OrtStatus *vdev_importer_create(vdev_device *device, const OrtEpDevice *ep_device, const OrtMemoryInfo *info,
                                OrtExternalResourceImporterImpl **out) {
  importer *one = calloc(1, sizeof *one);
  if (one == NULL) {
    return vdev_no_memory();
  }
  one->impl = (OrtExternalResourceImporterImpl){.ort_version_supported = vdev_ort_global.version,
                                                .CanImportMemory = can_import_memory,
                                                .ImportMemory = import_memory,
                                                .ReleaseMemory = release_imported,
                                                .CreateTensorFromMemory = create_tensor,
                                                .CanImportSemaphore = can_import_semaphore,
                                                .ImportSemaphore = import_semaphore,
                                                .ReleaseSemaphore = release_opened,
                                                .WaitSemaphore = wait_semaphore,
                                                .SignalSemaphore = signal_semaphore,
                                                .Release = release_importer};
  one->device = device;
  one->ep_device = ep_device;
  one->info = info;
  *out = &one->impl;
  return NULL;
}
