#include "memory/transfer.h"

#include <string.h>

#include "ep/ranges.h"
#include "memory/driver.h"

static void count_copy(const iobind__transfer *transfer) {
  iobind_device *from = transfer->from->device;
  iobind_device *to = transfer->to->device;
  if (!transfer->from->host && !transfer->to->host && from == to) {
    atomic_fetch_add(&from->counters.local_bytes, transfer->bytes);
    atomic_fetch_add(&from->counters.local_count, 1);
    return;
  }
  if (!transfer->from->host) {
    atomic_fetch_add(&from->counters.download_bytes, transfer->bytes);
    atomic_fetch_add(&from->counters.download_count, 1);
  }
  if (!transfer->to->host) {
    atomic_fetch_add(&to->counters.upload_bytes, transfer->bytes);
    atomic_fetch_add(&to->counters.upload_count, 1);
  }
}

static bool same_route(const iobind__transfer *a, const iobind__transfer *b) {
  return a->from == b->from && a->to == b->to;
}

/* Does the EP block until its stream is complete in this copy? */
static bool waits_inside(const iobind__transfer *transfer) {
  return iobind__place_is_pageable(transfer->from->host ? transfer->from : transfer->to);
}

/* Only one device's guard is entered. A copy between two devices must also be refused if the other one is lost. */
static iobind_status check_other(const iobind_device *device, iobind_error *error) {
  return iobind__device_is_lost(device) ? iobind__loss_refuse(device, error) : IOBIND_OK;
}

static iobind_status heed_other(iobind_device *device, iobind_status status, iobind_error *error) {
  return device->guard != NULL && device->guard->device != NULL ? iobind__device_heed(device, status, error) : status;
}

iobind_status iobind__ort_copy(iobind_device *device, const iobind__transfer *const *transfers, size_t count,
                               iobind_stream *stream, bool *unknown, iobind_error *error) {
  iobind_runtime *runtime = device->runtime;
  const OrtApi *api = IOBIND__API(runtime);
  const OrtValue *sources[IOBIND__COPY_BATCH] = {NULL};
  OrtValue *targets[IOBIND__COPY_BATCH] = {NULL};
  for (size_t i = 0; i < count; i++) {
    sources[i] = transfers[i]->source;
    targets[i] = transfers[i]->target;
  }
  const iobind__guard *guard = transfers[0]->from->device->guard;
  iobind__scope scope;
  IOBIND__TRY(check_other(transfers[0]->to->device, error));
  IOBIND__TRY(iobind__stream_enter(stream, error));
  IOBIND__TRY(iobind__guard_enter(guard != NULL ? guard : transfers[0]->to->device->guard, &scope, error));
  OrtStatus *status = api->CopyTensors(runtime->env, sources, targets, iobind__stream_ort(stream), count);
  *unknown = status != NULL && api->GetErrorCode(status) == ORT_NOT_IMPLEMENTED;
  if (*unknown) {
    api->ReleaseStatus(status);
    status = NULL;
  }
  if (status != NULL) {
    iobind_error reason = IOBIND_ERROR_INIT;
    const iobind__place *from = transfers[0]->from;
    const iobind__place *to = transfers[0]->to;
    iobind_status failed = iobind__ort_fail(api, status, &reason, "copy from '%s%s' to '%s%s'", from->device->spec,
                                            iobind__place_suffix(from), to->device->spec, iobind__place_suffix(to));
    iobind__text_leave_out(reason.message, from->device->spec); /* an EP's message may begin with the device's name, too */
    iobind__text_leave_out(reason.message, to->device->spec);
    failed = heed_other(transfers[0]->to->device, failed, &reason);
    failed = iobind__guard_end(&scope, failed, &reason);
    if (stream != NULL && waits_inside(transfers[0])) {
      iobind__stream_suspect(stream, &reason);
    }
    iobind__error_copy(error, &reason);
    return failed;
  }
  iobind__guard_leave(&scope);
  return *unknown ? IOBIND_OK : iobind__stream_leave(stream, error);
}

/* One call for transfers between the same two memory locations. *unknown: the EP cannot copy between them. */
static iobind_status copy(const iobind__transfer *const *transfers, size_t count, iobind_stream *stream, bool *unknown,
                          iobind_error *error) {
  iobind_device *remote = (transfers[0]->from->host ? transfers[0]->to : transfers[0]->from)->device;
  *unknown = false;
  IOBIND__TRY(iobind__driver_of(remote)->copy(remote, transfers, count, stream, unknown, error));
  for (size_t i = 0; i < count && !*unknown; i++) {
    count_copy(transfers[i]);
  }
  return IOBIND_OK;
}

/* Copy between two devices whose EPs cannot access each other's memory. */
static iobind_status copy_through_host(iobind_runtime *runtime, const iobind__transfer *transfer, iobind_error *error) {
  const OrtApi *api = IOBIND__API(runtime);
  const int64_t *dims = NULL;
  size_t rank = 0;
  ONNXTensorElementDataType dtype;
  IOBIND__ORT_TRY(api, api->GetTensorElementTypeAndShapeDataReference(transfer->source, &dtype, &dims, &rank), error,
                  "copy through the host");
  iobind__place *host = &runtime->cpu->places[IOBIND_MEMORY_DEFAULT];
  OrtValue *staging = NULL;
  IOBIND__ORT_TRY(api, api->CreateTensorAsOrtValue(runtime->cpu_allocator, dims, rank, dtype, &staging), error,
                  "copy through the host");
  iobind__transfer legs[2] = {*transfer, *transfer};
  legs[0].to = host;
  legs[0].target = staging;
  legs[1].from = host;
  legs[1].source = staging;
  iobind_status status = IOBIND_OK;
  for (int leg = 0; leg < 2 && status == IOBIND_OK; leg++) {
    const iobind__transfer *one = &legs[leg];
    bool unknown = false;
    status = copy(&one, 1, NULL, &unknown, error);
    if (status == IOBIND_OK && unknown) {
      status = iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED, "copy from '%s' to '%s': no execution provider offers it",
                            legs[leg].from->device->spec, legs[leg].to->device->spec);
    }
  }
  api->ReleaseValue(staging);
  return status;
}

bool iobind__same_ep(const iobind_device *a, const iobind_device *b) {
  const OrtApi *api = IOBIND__API(a->runtime);
  return strcmp(api->EpDevice_EpName(a->ep_device), api->EpDevice_EpName(b->ep_device)) == 0;
}

/* Can one EP copy between these two? Between devices, only if both are of the same EP: an EP that accepts another vendor's
 * memory would read its address as its own. */
static bool may_copy_directly(const iobind__place *from, const iobind__place *to) {
  bool same =
      from->device == to->device || (iobind__driver_of(from->device)->knows_peers && iobind__same_ep(from->device, to->device));
  return from->host || to->host || same;
}

static iobind_status do_route(iobind_runtime *runtime, const iobind__transfer *const *batch, size_t count,
                              iobind_stream *stream, iobind_error *error) {
  bool unknown = true;
  IOBIND__TRY(iobind__device_check_registered(batch[0]->from->device, error));
  IOBIND__TRY(iobind__device_check_registered(batch[0]->to->device, error));
  if (may_copy_directly(batch[0]->from, batch[0]->to)) {
    IOBIND__TRY(copy(batch, count, stream, &unknown, error));
  }
  if (!unknown) {
    return IOBIND_OK;
  }
  if (batch[0]->from->host || batch[0]->to->host) {
    return iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED, "copy from '%s' to '%s': its execution provider offers no copies",
                        batch[0]->from->device->spec, batch[0]->to->device->spec);
  }
  IOBIND__TRY(iobind__stream_drain(stream, error)); /* the copies through the host are not on the stream */
  for (size_t i = 0; i < count; i++) {
    IOBIND__TRY(copy_through_host(runtime, batch[i], error));
  }
  return IOBIND_OK;
}

static bool is_done_by_us(const iobind__transfer *transfer) {
  return transfer->bytes == 0 || (transfer->from->host && transfer->to->host);
}

/* Was this one copied together with an earlier one? */
static bool has_earlier_mate(const iobind__transfer *transfers, size_t index) {
  for (size_t i = 0; i < index; i++) {
    if (!is_done_by_us(&transfers[i]) && same_route(&transfers[i], &transfers[index])) {
      return true;
    }
  }
  return false;
}

/* Wait for deliveries of the stream to the host memory that is copied. */
static iobind_status use_host_sides(const iobind__transfer *transfers, size_t count, iobind_stream *stream,
                                    iobind_error *error) {
  for (size_t i = 0; i < count; i++) {
    const iobind__transfer *transfer = &transfers[i];
    if (transfer->from->host) {
      IOBIND__TRY(iobind__stream_use_host(stream, transfer->source_data, transfer->bytes, error));
    }
    if (transfer->to->host) {
      IOBIND__TRY(iobind__stream_use_host(stream, transfer->target_data, transfer->bytes, error));
    }
  }
  return IOBIND_OK;
}

static iobind_status transfer_all(iobind_runtime *runtime, const iobind__transfer *transfers, size_t count,
                                  iobind_stream *stream, iobind_error *error) {
  bool drained = false;
  IOBIND__TRY(use_host_sides(transfers, count, stream, error));
  for (size_t first = 0; first < count; first++) {
    const iobind__transfer *transfer = &transfers[first];
    if (is_done_by_us(transfer)) {
      if (transfer->bytes > 0) {
        IOBIND__TRY(drained ? IOBIND_OK : iobind__stream_drain(stream, error)); /* the host's copies follow the stream's work */
        drained = true;
        memcpy(transfer->target_data, transfer->source_data, transfer->bytes);
      }
      continue;
    }
    if (has_earlier_mate(transfers, first)) {
      continue;
    }
    const iobind__transfer *batch[IOBIND__COPY_BATCH];
    size_t size = 0;
    for (size_t i = first; i < count; i++) {
      if (!is_done_by_us(&transfers[i]) && same_route(&transfers[i], transfer)) {
        batch[size++] = &transfers[i];
        if (size == IOBIND__COPY_BATCH) {
          IOBIND__TRY(do_route(runtime, batch, size, stream, error));
          size = 0;
        }
      }
    }
    if (size > 0) {
      IOBIND__TRY(do_route(runtime, batch, size, stream, error));
    }
    /* a copy to the host is complete on return */
    if (stream == NULL && !transfer->to->host) {
      IOBIND__TRY(iobind__device_wait(transfer->to->device, error));
    }
  }
  return IOBIND_OK;
}

/* The spec of the copy's device. */
static const char *name_of(const iobind__transfer *transfers, size_t count) {
  const iobind__transfer *first = count == 0 ? NULL : &transfers[0];
  return first == NULL ? NULL : (first->from->host ? first->to : first->from)->device->spec;
}

iobind_status iobind__transfer_all(iobind_runtime *runtime, const iobind__transfer *transfers, size_t count,
                                   iobind_stream *stream, iobind_error *error) {
  bool begun = iobind__range_begin("copy", name_of(transfers, count));
  iobind_status status = transfer_all(runtime, transfers, count, stream, error);
  iobind__range_end(begun);
  return status;
}
