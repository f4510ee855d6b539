#include "transfer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capture.h"
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

/* Where the bytes of a copy's argument are. `device` does the copy. */
static bool resolve(vdev_device *device, const void *address, size_t bytes, const char *what, void **out, char *reason) {
  if (address == NULL) {
    vdev_memory_refuse_null(device, what, reason);
    return false;
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
  return vdev_race_access(device, stream, (vdev_touched){plan->source, plan->bytes, false}, what, reason) &&
         vdev_race_access(device, stream, (vdev_touched){plan->target, plan->bytes, true}, what, reason);
}

/* Host to host: pinned memory is host memory too, and a stream may still use it. A copy on a stream waits for that stream
 * first, as on CUDA. ORT copies a pinned output to itself, which must not wait. */
static bool copy_on_host(const vdev_transfer_plan *plan, const copy *real, char *reason) {
  vdev_device *device = &vdev_global.devices[0];
  if (plan->source == plan->target) {
    return true;
  }
  if (vdev_capture_records(device)) {
    return vdev_refuse(device, reason, "a copy between host memories cannot be captured");
  }
  if (plan->stream != NULL && !vdev_stream_drain(plan->stream, reason)) {
    return false;
  }
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

/* A copy between resolved places, of which at least one is a device's. */
typedef struct operation {
  vdev_device *device; /* the device that copies */
  vdev_engine engine;
  bool is_peer;
  bool is_pageable; /* one side is host memory that no device knows */
  copy real;
} operation;

static const char *name_of(const operation *one) {
  return one->engine == VDEV_UPLOAD ? "upload" : one->engine == VDEV_DOWNLOAD ? "download" : "device copy";
}

/* The copy itself, for vdev_device_submit; `context` lives until `release` or longer. */
static bool submit(const vdev_transfer_plan *plan, const operation *one, bool wait, copy *context, void (*release)(void *),
                   char *reason) {
  vdev_device *device = one->device;
  const char *what = name_of(one);
  const vdev_subject subject = {VDEV_SITE_COPY, what, (int64_t)plan->bytes, plan->names, plan->name_count};
  vdev_job job = {.device = device,
                  .engine = one->engine,
                  .bytes = (int64_t)plan->bytes,
                  .what = what,
                  .work = do_copy,
                  .context = context,
                  .release = release};
  if (!vdev_admit(device, &subject, &job.effect, reason) || !declare(plan, plan->stream, device, what, reason)) {
    if (release != NULL) {
      release(context);
    }
    return false;
  }
  if (one->is_peer) {
    device->statistics.peer_bytes += (int64_t)plan->bytes;
    device->statistics.peer_count++;
  }
  return vdev_submit(plan->stream, &job, wait, reason);
}

/* A copy that was recorded. */
typedef struct recorded_copy {
  vdev_recorded base; /* first member */
  vdev_transfer_plan plan;
  operation one;
  const char *names[2];
} recorded_copy;

/* Pageable memory is not known here, so it is used as it was recorded; pinned memory must still exist. */
static bool launch_recorded(vdev_recorded *base, vdev_stream *stream, char *reason) {
  recorded_copy *kept = (recorded_copy *)base;
  const vdev_transfer_plan *plan = &kept->plan;
  const void *host = kept->one.engine == VDEV_UPLOAD ? plan->source : kept->one.engine == VDEV_DOWNLOAD ? plan->target : NULL;
  if (host != NULL && !kept->one.is_pageable && vdev_pinned_find(host, plan->bytes) == NULL) {
    return vdev_refuse(kept->one.device, reason, "%s of a graph: its pinned memory at %p was freed", name_of(&kept->one), host);
  }
  vdev_transfer_plan now = *plan;
  now.stream = stream;
  return submit(&now, &kept->one, false, &kept->one.real, NULL, reason);
}

static void release_recorded(vdev_recorded *base) {
  free(base);
}

static bool record(const vdev_transfer_plan *plan, const operation *one, char *reason) {
  if (plan->stream == NULL) {
    return vdev_refuse(one->device, reason, "%s without a stream cannot be captured", name_of(one));
  }
  recorded_copy *kept = calloc(1, sizeof *kept);
  if (kept == NULL) {
    return vdev_refuse(one->device, reason, "out of host memory");
  }
  *kept = (recorded_copy){.base = {.launch = launch_recorded, .release = release_recorded}, .plan = *plan, .one = *one};
  for (size_t i = 0; i < plan->name_count; i++) {
    kept->names[i] = plan->names[i];
  }
  kept->plan.names = kept->names;
  vdev_capture_add(one->device, plan->stream, &kept->base);
  return true;
}

static bool submit_or_record(const vdev_transfer_plan *plan, const operation *one, char *reason) {
  if (vdev_capture_records(one->device)) {
    return record(plan, one, reason);
  }
  bool waits = plan->stream == NULL || one->is_pageable;
  if (waits && !vdev_capture_permits(one->device, "a copy that is waited for", reason)) {
    return false;
  }
  copy *kept = malloc(sizeof *kept);
  if (kept == NULL) {
    return vdev_refuse(one->device, reason, "out of host memory");
  }
  *kept = one->real;
  return submit(plan, one, one->is_pageable, kept, free,
                reason); /* as on CUDA: with pageable memory a copy waits, on a stream or without */
}

static bool copy_locked(const vdev_transfer_plan *plan, char *reason) {
  const vdev_device *from = vdev_memory_owner(plan->source);
  vdev_device *to = vdev_memory_owner(plan->target);
  vdev_device *device = to != NULL ? to : from != NULL ? &vdev_global.devices[from->index] : &vdev_global.devices[0];
  operation one = {.device = device, .is_peer = from != NULL && to != NULL && from != to, .real.bytes = plan->bytes};
  void *source = NULL;
  if (plan->stream != NULL && !vdev_stream_exists(plan->stream)) {
    return vdev_refuse(device, reason, "a copy on a stream that is not one of this EP");
  }
  if (!resolve(device, plan->source, plan->bytes, "copy source", &source, reason) ||
      !resolve(device, plan->target, plan->bytes, "copy target", &one.real.target, reason)) {
    return false;
  }
  one.real.source = source;
  if (from == NULL && to == NULL) {
    return copy_on_host(plan, &one.real, reason);
  }
  one.engine = from == NULL ? VDEV_UPLOAD : to == NULL ? VDEV_DOWNLOAD : VDEV_LOCAL;
  const void *host = from == NULL ? plan->source : to == NULL ? plan->target : NULL;
  one.is_pageable = host != NULL && vdev_pinned_find(host, plan->bytes) == NULL;
  return submit_or_record(plan, &one, reason);
}

OrtStatus *vdev_copy(const vdev_transfer_plan *plan) {
  char reason[VDEV_TEXT] = "";
  if (plan->bytes == 0) {
    return NULL;
  }
  vdev_lock();
  bool good = copy_locked(plan, reason);
  if (!good) {
    for (int i = 0; i < vdev_global.device_count; i++) {
      vdev_capture_spoil(&vdev_global.devices[i], reason);
    }
  }
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

/* A tensor whose description says that it is on the device, but its address does not. */
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
