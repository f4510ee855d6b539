#include "transfer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"
#include "race.h"

typedef struct copy {
  const void *source;
  void *target;
  size_t bytes;
} copy;

static bool do_copy(void *context, char *reason) {
  reason[0] = '\0'; /* a copy between checked places cannot fail */
  const copy *one = context;
  memmove(one->target, one->source, one->bytes);
  return true;
}

/* The device's own bytes behind an address, or the host's. */
static bool resolve(const void *address, size_t bytes, vdev_device **device, const char *what, void **out, char *reason) {
  *device = vdev_memory_owner(address);
  *out = *device == NULL ? (void *)(uintptr_t)address : vdev_memory_resolve(*device, address, bytes, what, reason);
  return *out != NULL;
}

static bool declare(vdev_stream *stream, vdev_device *device, const void *source, void *target, size_t bytes, const char *what,
                    char *reason) {
  if (stream != NULL) {
    vdev_stream_advance(stream);
  }
  return vdev_race_access(device, stream, source, bytes, false, what, reason) &&
         vdev_race_access(device, stream, target, bytes, true, what, reason);
}

static bool copy_locked(const void *source, void *target, size_t bytes, vdev_stream *stream, char *reason) {
  vdev_device *from;
  vdev_device *to;
  copy plan = {.bytes = bytes};
  void *real_source = NULL;
  if (!resolve(source, bytes, &from, "copy source", &real_source, reason) ||
      !resolve(target, bytes, &to, "copy target", &plan.target, reason)) {
    return false;
  }
  plan.source = real_source;
  vdev_engine engine = from == NULL ? VDEV_UPLOAD : to == NULL ? VDEV_DOWNLOAD : VDEV_LOCAL;
  vdev_device *device = to != NULL ? to : from;
  if (device == NULL) { /* host to host: pinned memory is the host's too, and a stream may still be at it */
    if (!declare(NULL, &vdev_global.devices[0], source, target, bytes, "host copy", reason)) {
      return false;
    }
    memmove(target, source, bytes);
    return true;
  }
  const char *what = engine == VDEV_UPLOAD ? "upload" : engine == VDEV_DOWNLOAD ? "download" : "device copy";
  if (vdev_fault_hits(&device->settings, VDEV_FAIL_COPY, (int64_t)bytes)) {
    snprintf(reason, VDEV_TEXT, "vdev:%d: %s of %zu bytes failed as asked (fail_copy)", device->index, what, bytes);
    return false;
  }
  if (!declare(stream, device, source, target, bytes, what, reason)) {
    return false;
  }
  if (from != NULL && to != NULL && from != to) {
    device->statistics.peer_bytes += (int64_t)bytes;
    device->statistics.peer_count++;
  }
  vdev_job job = {.device = device, .engine = engine, .bytes = (int64_t)bytes, .what = what, .work = do_copy};
  copy *kept = malloc(sizeof *kept);
  if (kept == NULL) {
    snprintf(reason, VDEV_TEXT, "vdev: out of host memory");
    return false;
  }
  *kept = plan;
  job.context = kept;
  job.release = free;
  /* As on CUDA: pageable host memory makes a copy wait, on a stream or not. */
  const void *host = from == NULL ? source : to == NULL ? target : NULL;
  bool wait = host != NULL && !vdev_is_pinned(host, bytes);
  return vdev_submit(stream, &job, wait, reason);
}

OrtStatus *vdev_copy(const void *source, void *target, size_t bytes, vdev_stream *stream) {
  char reason[VDEV_TEXT] = "";
  if (bytes == 0) {
    return NULL;
  }
  if (source == NULL || target == NULL) {
    return vdev_fail(ORT_INVALID_ARGUMENT,
                     "vdev: a copy of more than 0 bytes from or to NULL: was the memory never allocated?");
  }
  vdev_lock();
  bool good = copy_locked(source, target, bytes, stream, reason);
  vdev_unlock();
  return good ? NULL : vdev_fail(ORT_FAIL, reason);
}

static void ORT_CALL release(OrtDataTransferImpl *self) {
  free(self);
}

static bool is_ours(const OrtMemoryDevice *device) {
  const OrtEpApi *ep = vdev_ort_global.ep;
  return (int64_t)ep->MemoryDevice_GetVendorId(device) == vdev_global.devices[0].settings.vendor_id &&
         ep->MemoryDevice_GetDeviceType(device) != OrtMemoryInfoDeviceType_CPU;
}

static bool is_host(const OrtMemoryDevice *device) {
  return vdev_ort_global.ep->MemoryDevice_GetDeviceType(device) == OrtMemoryInfoDeviceType_CPU;
}

static bool ORT_CALL can_copy(const OrtDataTransferImpl *self, const OrtMemoryDevice *from, const OrtMemoryDevice *to) {
  (void)self;
  return (is_ours(from) && (is_ours(to) || is_host(to))) || (is_host(from) && is_ours(to));
}

static OrtStatus *ORT_CALL copy_tensors(OrtDataTransferImpl *self, const OrtValue **sources, OrtValue **targets,
                                        OrtSyncStream **streams, size_t count) {
  (void)self;
  const OrtApi *api = VDEV_API_TABLE;
  for (size_t i = 0; i < count; i++) {
    const void *source = NULL;
    void *target = NULL;
    size_t bytes = 0;
    size_t room = 0;
    VDEV_TRY(api->GetTensorSizeInBytes(sources[i], &bytes));
    VDEV_TRY(api->GetTensorSizeInBytes(targets[i], &room));
    if (bytes != room) {
      char text[VDEV_TEXT];
      snprintf(text, sizeof text, "vdev: copy %zu: the source has %zu bytes, the target %zu", i, bytes, room);
      return vdev_fail(ORT_INVALID_ARGUMENT, text);
    }
    VDEV_TRY(api->GetTensorData(sources[i], &source));
    VDEV_TRY(api->GetTensorMutableData(targets[i], &target));
    vdev_stream *stream = streams != NULL && streams[i] != NULL ? api->SyncStream_GetHandle(streams[i]) : NULL;
    VDEV_TRY(vdev_copy(source, target, bytes, stream));
  }
  return NULL;
}

OrtStatus *vdev_transfer_create(OrtDataTransferImpl **out) {
  *out = malloc(sizeof **out);
  if (*out == NULL) {
    return vdev_fail(ORT_FAIL, "vdev: out of host memory");
  }
  **out = (OrtDataTransferImpl){vdev_ort_global.version, release, can_copy, copy_tensors};
  return NULL;
}
