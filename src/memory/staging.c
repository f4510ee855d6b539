/* Pinned buffers for copies between the caller's pageable memory and a device. A copy with pageable memory blocks the host; a
 * copy with pinned memory does not. */
#include "memory/allocator.h"
#include "memory/kind.h"

size_t iobind__staging_min_bytes(const iobind_stream *stream) {
  return stream->kind->staging_min_bytes;
}

static void free_slot(iobind__staging *slot) {
  if (slot->value != NULL) {
    iobind_device *device = slot->place->device;
    iobind__value_release(device->runtime, device->guard, slot->value);
    iobind__device_note_freed(device, IOBIND_HOLDER_STREAM, slot->bytes);
    slot->value = NULL;
  }
}

static bool allocate(iobind__staging *slot, iobind__place *pinned, size_t bytes) {
  const int64_t dims[1] = {bytes < IOBIND__STAGING_MIN_BYTES ? IOBIND__STAGING_MIN_BYTES : (int64_t)bytes};
  OrtValue *value;
  void *data;
  const iobind__form form = {IOBIND_DTYPE_UINT8, dims, 1};
  if (iobind__place_allocate(pinned, form, (size_t)dims[0], &value, &data, NULL) != IOBIND_OK) {
    return false;
  }
  iobind__device_note_allocated(pinned->device, IOBIND_HOLDER_STREAM, (size_t)dims[0]);
  free_slot(slot);
  slot->value = value; /* not `used`, which other threads read */
  slot->place = pinned;
  slot->data = data;
  slot->bytes = (size_t)dims[0];
  return true;
}

/* A read may be complete before its bytes have been delivered: then the slot is still in use. With the mutex held. */
static bool is_free(const iobind_stream *stream, const iobind__staging *slot) {
  bool unused = iobind__stream_passed(stream, slot->used);
  for (size_t i = 0; unused && i < atomic_load_explicit(&stream->deliveries.count, memory_order_relaxed); i++) {
    unused = stream->deliveries.items[i].from != slot->data;
  }
  return unused;
}

static void set_used(iobind_stream *stream, iobind__staging *slot, iobind__ticket used) {
  pthread_mutex_lock(&stream->timeline.mutex);
  slot->used = used;
  pthread_mutex_unlock(&stream->timeline.mutex);
}

/* A free buffer that is large enough, or else any free one, to be allocated again. NULL: all are in use. TAKEN reserves it
 * until its copy has a ticket, because sessions that share a stream submit to it from several threads. */
static iobind__staging *take_slot(iobind_stream *stream, size_t bytes) {
  iobind__staging *found = NULL;
  bool fits = false;
  pthread_mutex_lock(&stream->timeline.mutex);
  for (size_t i = 0; i < IOBIND__STAGING && !fits; i++) {
    iobind__staging *slot = &stream->staging[i];
    if (is_free(stream, slot)) {
      found = slot;
      fits = slot->value != NULL && slot->bytes >= bytes;
    }
  }
  if (found != NULL) {
    found->used = IOBIND__STAGING_TAKEN;
  }
  pthread_mutex_unlock(&stream->timeline.mutex);
  return found;
}

iobind__staging *iobind__staging_take(iobind_stream *stream, const iobind__place *remote, size_t bytes) {
  iobind__place *pinned = &remote->device->places[IOBIND_MEMORY_HOST_ACCESSIBLE];
  if (bytes > IOBIND__STAGING_MAX_BYTES || !iobind__stream_orders_calls(stream) || stream->device != remote->device ||
      remote->host || pinned->info == NULL || !pinned->host) {
    return NULL;
  }
  iobind__staging *slot = take_slot(stream, bytes);
  bool fits = slot != NULL && slot->value != NULL && slot->bytes >= bytes;
  if (slot != NULL && !fits && !allocate(slot, pinned, bytes)) {
    set_used(stream, slot, 0);
    slot = NULL;
  }
  return slot;
}

void iobind__staging_used(const iobind__submission *submission, iobind__staging *staging) {
  set_used(submission->stream, staging, iobind__submission_ticket(submission));
}

void iobind__staging_free(iobind_stream *stream) {
  for (size_t i = 0; i < IOBIND__STAGING; i++) {
    free_slot(&stream->staging[i]);
  }
}
