/* Pinned memory between pageable memory of the caller's and a device: an EP's stream makes the host wait for a copy from or to pageable
 * memory, and not for one from or to pinned memory. */
#include "tensor/tensor.h"

static bool is_free(const iobind_stream *stream, size_t index) {
  return stream->staging[index] == NULL || iobind__stream_passed(stream, stream->staged[index]);
}

/* A free one that is large enough, or else any free one, to be made anew; IOBIND__STAGING: all are in use. */
static size_t find_slot(const iobind_stream *stream, size_t bytes) {
  size_t found = IOBIND__STAGING;
  for (size_t i = 0; i < IOBIND__STAGING; i++) {
    if (is_free(stream, i)) {
      found = i;
      if (stream->staging[i] != NULL && stream->staging[i]->bytes >= bytes) {
        return i;
      }
    }
  }
  return found;
}

iobind_tensor *iobind__staging_take(iobind_stream *stream, const iobind__place *remote, size_t bytes) {
  iobind__place *pinned = &remote->device->places[IOBIND_MEMORY_HOST_ACCESSIBLE];
  if (bytes > IOBIND__STAGED_MOST || stream->by_worker || stream->device != remote->device || remote->host ||
      pinned->info == NULL || !pinned->host) {
    return NULL;
  }
  size_t slot = find_slot(stream, bytes);
  if (slot == IOBIND__STAGING) {
    return NULL;
  }
  if (stream->staging[slot] == NULL || stream->staging[slot]->bytes < bytes) {
    const int64_t dims[1] = {bytes < IOBIND__STAGED_LEAST ? IOBIND__STAGED_LEAST : (int64_t)bytes};
    iobind_tensor *made;
    if (iobind__tensor_create_at(pinned, IOBIND_UINT8, dims, 1, &made, NULL) != IOBIND_OK) {
      return NULL;
    }
    iobind_tensor_release(stream->staging[slot]);
    stream->staging[slot] = made;
  }
  return stream->staging[slot];
}

void iobind__staging_used(iobind_stream *stream, const iobind_tensor *staging) {
  for (size_t i = 0; i < IOBIND__STAGING; i++) {
    if (stream->staging[i] == staging) {
      stream->staged[i] = iobind__stream_take_ticket(stream);
    }
  }
}
