/* Pinned memory between the caller's pageable memory and a device: an EP's stream makes the host wait for copies with pageable
 * memory, but not for copies with pinned memory. */
#include "memory/allocator.h"
#include "memory/stream.h"

static void free_slot(iobind__staging *slot) {
  if (slot->value != NULL) {
    iobind_device *device = slot->place->device;
    iobind__device_enter(device);
    IOBIND__API(device->runtime)->ReleaseValue(slot->value);
    iobind__device_leave(device);
    atomic_fetch_sub(&device->counters.allocated_bytes, slot->bytes);
    slot->value = NULL;
  }
}

static bool allocate(iobind__staging *slot, iobind__place *pinned, size_t bytes) {
  const int64_t dims[1] = {bytes < IOBIND__STAGED_LEAST ? IOBIND__STAGED_LEAST : (int64_t)bytes};
  iobind__staging made = {.place = pinned, .bytes = (size_t)dims[0]};
  if (iobind__place_allocate(pinned, ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8, dims, 1, made.bytes, &made.value, &made.data, NULL) !=
      IOBIND_OK) {
    return false;
  }
  atomic_fetch_add(&pinned->device->counters.allocated_bytes, made.bytes);
  atomic_fetch_add(&pinned->device->counters.allocation_count, 1);
  free_slot(slot);
  *slot = made;
  return true;
}

/* A free buffer that is large enough, or else any free one, which is allocated again; NULL: all are in use. */
static iobind__staging *find_slot(iobind_stream *stream, size_t bytes) {
  iobind__staging *found = NULL;
  for (size_t i = 0; i < IOBIND__STAGING; i++) {
    iobind__staging *slot = &stream->staging[i];
    if (slot->value == NULL || iobind__stream_passed(stream, slot->used)) {
      found = slot;
      if (slot->value != NULL && slot->bytes >= bytes) {
        return slot;
      }
    }
  }
  return found;
}

iobind__staging *iobind__staging_take(iobind_stream *stream, const iobind__place *remote, size_t bytes) {
  iobind__place *pinned = &remote->device->places[IOBIND_MEMORY_HOST_ACCESSIBLE];
  if (bytes > IOBIND__STAGED_MOST || !iobind__stream_orders_calls(stream) || stream->device != remote->device || remote->host ||
      pinned->info == NULL || !pinned->host) {
    return NULL;
  }
  iobind__staging *slot = find_slot(stream, bytes);
  bool fits = slot != NULL && slot->value != NULL && slot->bytes >= bytes;
  return fits || (slot != NULL && allocate(slot, pinned, bytes)) ? slot : NULL;
}

void iobind__staging_used(iobind_stream *stream, iobind__staging *staging) {
  staging->used = iobind__stream_take_ticket(stream);
}

void iobind__staging_free(iobind_stream *stream) {
  for (size_t i = 0; i < IOBIND__STAGING; i++) {
    free_slot(&stream->staging[i]);
  }
}
