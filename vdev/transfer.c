#include "transfer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"
#include "pinned.h"
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

/* Where the bytes of a copy's argument really are. `device` is the one that does the copy. */
static bool resolve(vdev_device *device, const void *address, size_t bytes, const char *what, void **out, char *reason) {
  if (address == NULL) {
    return vdev_memory_refuse_null(device, what, reason);
  }
  vdev_device *owner = vdev_memory_owner(address);
  *out = owner == NULL ? vdev_pinned_device_view(device, address, bytes, what, reason)
                       : vdev_memory_resolve(owner, address, bytes, what, reason);
  return *out != NULL;
}

static bool declare(const vdev_transfer_plan *plan, vdev_stream *stream, vdev_device *device, const char *what, char *reason) {
  if (stream != NULL) {
    vdev_stream_advance(stream);
  }
  return vdev_race_access(device, stream, plan->source, plan->bytes, false, what, reason) &&
         vdev_race_access(device, stream, plan->target, plan->bytes, true, what, reason);
}

/* Host to host: pinned memory is the host's too, and a stream may still use it. On a stream it waits for that one first, as on
 * CUDA. ORT copies a pinned output to itself, which must not wait for anything. */
static bool copy_on_host(const vdev_transfer_plan *plan, const copy *real, char *reason) {
  if (plan->source == plan->target) {
    return true;
  }
  if (plan->stream != NULL && !vdev_stream_drain(plan->stream, reason)) {
    return false;
  }
  vdev_device *device = &vdev_global.devices[0];
  if (!declare(plan, NULL, device, "host copy", reason)) {
    return false;
  }
  bool source_is_open = vdev_pinned_is_open(plan->source, plan->bytes, false);
  if (!source_is_open || !vdev_pinned_is_open(plan->target, plan->bytes, true)) {
    return vdev_refuse(device, reason, "host copy %s %zu bytes of pinned memory at %p that a stream still uses",
                       source_is_open ? "writes" : "reads", plan->bytes, source_is_open ? plan->target : plan->source);
  }
  memmove(real->target, real->source, real->bytes);
  return true;
}

static bool submit(const vdev_transfer_plan *plan, const copy *real, const vdev_job *job, bool wait, char *reason) {
  copy *kept = malloc(sizeof *kept);
  if (kept == NULL) {
    return vdev_refuse(job->device, reason, "out of host memory");
  }
  *kept = *real;
  vdev_job whole = *job;
  whole.work = do_copy;
  whole.context = kept;
  whole.release = free;
  return vdev_submit(plan->stream, &whole, wait, reason);
}

static bool copy_locked(const vdev_transfer_plan *plan, char *reason) {
  vdev_device *from = vdev_memory_owner(plan->source);
  vdev_device *to = vdev_memory_owner(plan->target);
  vdev_device *device = to != NULL ? to : from != NULL ? from : &vdev_global.devices[0];
  void *source = NULL;
  copy real = {.bytes = plan->bytes};
  if (plan->stream != NULL && !vdev_stream_exists(plan->stream)) {
    return vdev_refuse(device, reason, "a copy on a stream that is not one of this EP");
  }
  if (!resolve(device, plan->source, plan->bytes, "copy source", &source, reason) ||
      !resolve(device, plan->target, plan->bytes, "copy target", &real.target, reason)) {
    return false;
  }
  real.source = source;
  if (from == NULL && to == NULL) {
    return copy_on_host(plan, &real, reason);
  }
  vdev_engine engine = from == NULL ? VDEV_UPLOAD : to == NULL ? VDEV_DOWNLOAD : VDEV_LOCAL;
  const char *what = engine == VDEV_UPLOAD ? "upload" : engine == VDEV_DOWNLOAD ? "download" : "device copy";
  const vdev_subject subject = {VDEV_SITE_COPY, what, (int64_t)plan->bytes, plan->names, plan->name_count};
  vdev_job job = {.device = device, .engine = engine, .bytes = (int64_t)plan->bytes, .what = what};
  if (!vdev_admit(device, &subject, &job.delay_ns, reason) || !declare(plan, plan->stream, device, what, reason)) {
    return false;
  }
  if (from != NULL && to != NULL && from != to) {
    device->statistics.peer_bytes += (int64_t)plan->bytes;
    device->statistics.peer_count++;
  }
  /* As on CUDA: pageable host memory makes a copy wait, on a stream or not. */
  const void *host = from == NULL ? plan->source : to == NULL ? plan->target : NULL;
  return submit(plan, &real, &job, host != NULL && vdev_pinned_find(host, plan->bytes) == NULL, reason);
}

OrtStatus *vdev_copy(const vdev_transfer_plan *plan) {
  char reason[VDEV_TEXT] = "";
  if (plan->bytes == 0) {
    return NULL;
  }
  vdev_lock();
  bool good = copy_locked(plan, reason);
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

/* A tensor that says it is on the device, but is not. */
static OrtStatus *check_place(const OrtValue *value, const void *address, size_t bytes, const char *what) {
  const OrtApi *api = VDEV_API_TABLE;
  const OrtMemoryInfo *info = NULL;
  OrtMemoryInfoDeviceType type = OrtMemoryInfoDeviceType_CPU;
  vdev_lock();
  bool known = bytes == 0 || address == NULL || vdev_memory_owner(address) != NULL || vdev_pinned_find(address, 1) != NULL;
  vdev_unlock();
  if (known) {
    return NULL;
  }
  VDEV_TRY(api->GetTensorMemoryInfo(value, &info));
  api->MemoryInfoGetDeviceType(info, &type);
  if (type == OrtMemoryInfoDeviceType_CPU) {
    return NULL;
  }
  char reason[VDEV_TEXT];
  vdev_lock();
  (void)vdev_refuse(&vdev_global.devices[0], reason, "%s at %p is not device memory, though its tensor says so", what, address);
  vdev_unlock();
  return vdev_fail(ORT_INVALID_ARGUMENT, reason);
}

static OrtStatus *copy_one(const OrtValue *from, OrtValue *to, vdev_stream *stream, size_t index) {
  const OrtApi *api = VDEV_API_TABLE;
  vdev_transfer_plan plan = {.stream = stream};
  size_t room = 0;
  VDEV_TRY(api->GetTensorSizeInBytes(from, &plan.bytes));
  VDEV_TRY(api->GetTensorSizeInBytes(to, &room));
  if (plan.bytes != room) {
    char text[VDEV_TEXT];
    snprintf(text, sizeof text, "vdev: copy %zu: the source has %zu bytes, the target %zu", index, plan.bytes, room);
    return vdev_fail(ORT_INVALID_ARGUMENT, text);
  }
  VDEV_TRY(api->GetTensorData(from, &plan.source));
  VDEV_TRY(api->GetTensorMutableData(to, &plan.target));
  VDEV_TRY(check_place(from, plan.source, plan.bytes, "copy source"));
  VDEV_TRY(check_place(to, plan.target, plan.bytes, "copy target"));
  return vdev_copy(&plan);
}

static OrtStatus *ORT_CALL copy_tensors(OrtDataTransferImpl *self, const OrtValue **sources, OrtValue **targets,
                                        OrtSyncStream **streams, size_t count) {
  (void)self;
  for (size_t i = 0; i < count; i++) {
    OrtSyncStream *stream = streams == NULL ? NULL : streams[i];
    void *handle = stream == NULL ? NULL : VDEV_API_TABLE->SyncStream_GetHandle(stream);
    VDEV_TRY(copy_one(sources[i], targets[i], handle, i));
  }
  return NULL;
}

OrtStatus *vdev_transfer_create(OrtDataTransferImpl **out) {
  *out = malloc(sizeof **out);
  if (*out == NULL) {
    return vdev_no_memory();
  }
  **out = (OrtDataTransferImpl){vdev_ort_global.version, release, can_copy, copy_tensors};
  return NULL;
}
