/* Reading, writing and copying tensors. */
#include <stdlib.h>
#include <string.h>

#include "tensor/tensor.h"

enum { TOGETHER = 64 }; /* pairs that are copied together: each is compared with all others, so not the whole of a long list */

iobind_status iobind__tensor_check_stream(const iobind_stream *stream, const iobind_device *a, const iobind_device *b,
                                          const char *what, iobind_error *error) {
  if (stream != NULL && stream->device != a && stream->device != b) {
    return iobind__fail(error, IOBIND_ERROR_WRONG_DEVICE, "%s: expected a stream of '%s', got one of '%s'", what, a->spec,
                        stream->device->spec);
  }
  return IOBIND_OK;
}

static iobind_status map(iobind_tensor *tensor, iobind_dtype dtype, iobind_access access, void **data, iobind_error *error) {
  if (!tensor->place->host) {
    return iobind__fail(
        error, IOBIND_ERROR_WRONG_DEVICE,
        "tensor_map: the tensor is in memory of '%s', which the host cannot access: iobind_tensor_read copies it",
        tensor->place->device->spec);
  }
  if (tensor->dtype == IOBIND_DTYPE_STRING) {
    return iobind__fail(error, IOBIND_ERROR_DTYPE,
                        "tensor_map: strings have no bytes: use iobind_tensor_get_string and iobind_tensor_set_string");
  }
  if (tensor->dtype != dtype) {
    return iobind__fail(error, IOBIND_ERROR_DTYPE, "tensor_map: expected %s, got a tensor of %s", iobind_dtype_get_name(dtype),
                        iobind_dtype_get_name((int32_t)tensor->dtype));
  }
  if (access != IOBIND_ACCESS_READ && access != IOBIND_ACCESS_WRITE) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "tensor_map: expected the access READ or WRITE, got %d",
                        (int)access);
  }
  IOBIND__TRY(access == IOBIND_ACCESS_WRITE ? iobind__tensor_check_writable(tensor, "tensor_map", error) : IOBIND_OK);
  IOBIND__TRY(iobind__device_check_registered(tensor->place->device, error));
  IOBIND__TRY(iobind__tensor_settle(tensor, access == IOBIND_ACCESS_WRITE ? IOBIND__WRITE : IOBIND__READ, error));
  *data = iobind_tensor_get_address(tensor);
  return IOBIND_OK;
}

iobind_status iobind_tensor_map(iobind_tensor *tensor, iobind_dtype dtype, iobind_access access, void **data,
                                iobind_error *error) {
  if (data != NULL) {
    *data = NULL;
  }
  IOBIND__TRY(iobind__null_check(tensor, "tensor", "tensor_map", error));
  IOBIND__TRY(iobind__null_check(data, "data", "tensor_map", error));
  IOBIND__TRY(iobind__process_check("tensor_map", error));
  return iobind__named(map(tensor, dtype, access, data, error), error, "tensor_map");
}

/* Copy between a part of a tensor and host memory. Without addresses the part must begin at 0. ORT copies bytes; or the
 * tensor's own type if the part is the whole tensor, because an EP may not support bytes. */
static iobind_status move_with(const iobind__part *part, void *host, const iobind__place *host_place, bool to_tensor,
                               iobind_stream *stream, iobind_error *error) {
  const iobind_tensor *tensor = part->tensor;
  const size_t bytes = part->bytes;
  iobind_runtime *runtime = tensor->place->device->runtime;
  const OrtApi *api = IOBIND__API(runtime);
  bool whole = part->offset == 0 && bytes == tensor->bytes;
  int64_t length = (int64_t)bytes;
  const int64_t *dims = whole ? tensor->dims : &length;
  size_t rank = whole ? tensor->rank : 1;
  ONNXTensorElementDataType dtype = whole ? (ONNXTensorElementDataType)tensor->dtype : ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8;
  OrtValue *host_value = NULL;
  OrtValue *part_value = NULL;
  void *data = (char *)tensor->data + part->offset;
  OrtStatus *made = NULL;
  if (!tensor->place->host) {
    made = api->CreateTensorWithDataAsOrtValue(host_place->info, host, bytes, dims, rank, dtype, &host_value);
    if (made == NULL && !whole) {
      made = api->CreateTensorWithDataAsOrtValue(tensor->place->info, data, bytes, dims, rank, dtype, &part_value);
    }
  }
  iobind_status status;
  if (made != NULL) {
    status = iobind__ort_fail(api, made, error, "tensor_%s", to_tensor ? "write" : "read");
  } else {
    OrtValue *value = whole ? tensor->value : part_value;
    iobind__transfer transfer = to_tensor ? (iobind__transfer){host_place, tensor->place, host_value, value, host, data, bytes}
                                          : (iobind__transfer){tensor->place, host_place, value, host_value, data, host, bytes};
    status = iobind__transfer_all(runtime, &transfer, 1, stream, error);
  }
  if (part_value != NULL) {
    api->ReleaseValue(part_value);
  }
  if (host_value != NULL) {
    api->ReleaseValue(host_value);
  }
  return status;
}

static iobind_status move(const iobind__part *part, void *host, bool to_tensor, iobind_stream *stream, iobind_error *error) {
  const iobind__place *pageable = &part->tensor->place->device->runtime->cpu->places[IOBIND_MEMORY_DEFAULT];
  return move_with(part, host, pageable, to_tensor, stream, error);
}

static iobind_status check_part(const iobind__part *part, const void *data, const iobind_stream *stream, const char *what,
                                iobind_error *error) {
  const iobind_tensor *tensor = part->tensor;
  if (tensor == NULL || (data == NULL && part->bytes > 0)) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "%s: %s is NULL", what, tensor == NULL ? "tensor" : "data");
  }
  if (tensor->dtype == IOBIND_DTYPE_STRING) {
    return iobind__fail(error, IOBIND_ERROR_DTYPE,
                        "%s: strings have no bytes: use iobind_tensor_get_string and iobind_tensor_set_string", what);
  }
  if (part->offset > tensor->bytes || part->bytes > tensor->bytes - part->offset) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT,
                        "%s: expected a part of the tensor's %zu bytes, got %zu bytes at offset %zu", what, tensor->bytes,
                        part->bytes, part->offset);
  }
  return iobind__tensor_check_stream(stream, tensor->place->device, tensor->place->device, what, error);
}

/* `end`, rounded up to a unit, but not beyond the tensor. */
static size_t unit_end(const iobind_tensor *tensor, size_t end) {
  size_t rounded = end + (IOBIND__UNIT - end % IOBIND__UNIT) % IOBIND__UNIT;
  return rounded < tensor->bytes ? rounded : tensor->bytes;
}

/* Write a part of memory without addresses: download all bytes up to the part's end, and upload them again with the part.
 * Blocks for the stream's earlier work, and for the copies. */
static iobind_status write_staged(const iobind__part *part, const void *data, iobind_stream *stream, iobind_error *error) {
  IOBIND__TRY(iobind__stream_drain(stream, error));
  const iobind_device *device = part->tensor->place->device;
  const iobind__part whole = {part->tensor, 0, unit_end(part->tensor, part->offset + part->bytes)};
  iobind__log_line(
      device->runtime->log, IOBIND_LOG_WARNING,
      "iobind: tensor_write: '%s' has no addresses: %zu bytes are downloaded and uploaded again to write %zu at offset %zu",
      device->spec, whole.bytes, part->bytes, part->offset);
  char *staging = malloc(whole.bytes);
  if (staging == NULL) {
    return iobind__out_of_memory(error, "tensor_write");
  }
  iobind_status status = move(&whole, staging, false, NULL, error);
  if (status == IOBIND_OK) {
    memcpy(staging + part->offset, data, part->bytes);
    status = move(&whole, staging, true, NULL, error);
  }
  free(staging);
  return status;
}

static iobind_status write_addressed(const iobind__part *part, const void *data, iobind_stream *stream, iobind_error *error) {
  IOBIND__TRY(iobind__stream_use_host(stream, data, part->bytes, error));
  const iobind__submission submission = iobind__stream_begin(stream);
  bool is_small = stream == NULL || part->bytes < iobind__staging_min_bytes(stream);
  iobind__staging *staging = is_small ? NULL : iobind__staging_take(stream, part->tensor->place, part->bytes);
  if (staging != NULL) {
    memcpy(staging->data, data, part->bytes);
    iobind_status status = move_with(part, staging->data, staging->place, true, stream, error);
    iobind__staging_used(&submission, staging); /* a copy that failed may have been submitted */
    IOBIND__TRY(status);
  } else {
    void *source = (void *)(uintptr_t)data; /* ORT's parameter is not const, but a copy only reads it */
    IOBIND__TRY(move(part, source, true, stream, error));
  }
  iobind__tensor_use(part->tensor, &submission, IOBIND__WRITE);
  return IOBIND_OK;
}

/* An access without a stream is ordered after all work in flight, except if a stream's task makes it. */
static iobind_status settle(const iobind_tensor *tensor, iobind__access access, const iobind_stream *stream,
                            iobind__order order, iobind_error *error) {
  return stream == NULL && order == IOBIND__SETTLED ? iobind__tensor_settle(tensor, access, error) : IOBIND_OK;
}

iobind_status iobind__tensor_write(const iobind__part *part, const void *data, iobind_stream *stream, iobind__order order,
                                   iobind_error *error) {
  IOBIND__TRY(iobind__process_check("tensor_write", error));
  IOBIND__TRY(check_part(part, data, stream, "tensor_write", error));
  IOBIND__TRY(iobind__tensor_check_writable(part->tensor, "tensor_write", error));
  if (part->bytes == 0) {
    return IOBIND_OK;
  }
  IOBIND__TRY(settle(part->tensor, IOBIND__WRITE, stream, order, error));
  if (stream != NULL && iobind__stream_is_busy(stream)) {
    return iobind__submit_write(part, data, stream, error);
  }
  bool is_reached =
      part->tensor->place->addressable || (part->offset == 0 && unit_end(part->tensor, part->bytes) == part->bytes);
  return is_reached ? write_addressed(part, data, stream, error) : write_staged(part, data, stream, error);
}

iobind_status iobind_tensor_write(iobind_tensor *tensor, size_t offset, const void *data, size_t bytes, iobind_stream *stream,
                                  iobind_error *error) {
  const iobind__part part = {tensor, offset, bytes};
  return iobind__named(iobind__tensor_write(&part, data, stream, IOBIND__SETTLED, error), error, "tensor_write");
}

/* Read on a stream without blocking: into pinned memory, from which the host copies the bytes when the read is complete. */
static iobind_status read_staged(const iobind__part *part, void *data, const iobind__submission *submission,
                                 iobind__staging *staging, iobind_error *error) {
  iobind_status status = move_with(part, staging->data, staging->place, false, submission->stream, error);
  if (status == IOBIND_OK) {
    iobind__stream_deliver(submission, staging->data, data, part->bytes);
  }
  iobind__staging_used(submission, staging); /* a copy that failed may have been submitted */
  return status;
}

static iobind_status read_addressed(const iobind__part *part, void *data, iobind_stream *stream, iobind_error *error) {
  const iobind__place *place = part->tensor->place;
  IOBIND__TRY(iobind__bridge_check(stream, error)); /* before the allocation, which a capture may forbid */
  iobind__staging *staging = stream == NULL ? NULL : iobind__staging_take(stream, place, part->bytes);
  if (staging == NULL && stream != NULL && iobind__stream_delivers(stream, UINT64_MAX)) {
    IOBIND__TRY(iobind__stream_drain(stream, error)); /* all buffers are in use: complete the earlier reads, which frees them */
    staging = iobind__staging_take(stream, place, part->bytes);
  }
  const iobind__submission submission = iobind__stream_begin(stream);
  IOBIND__TRY(staging != NULL ? read_staged(part, data, &submission, staging, error) : move(part, data, false, stream, error));
  iobind__tensor_use(part->tensor, &submission, IOBIND__READ);
  return IOBIND_OK;
}

/* Read a part of memory without addresses: download all bytes up to the part's end. Blocks for the stream's earlier work, and
 * for the copy. */
static iobind_status read_behind(const iobind__part *part, void *data, iobind_stream *stream, iobind_error *error) {
  IOBIND__TRY(iobind__stream_drain(stream, error));
  const iobind_device *device = part->tensor->place->device;
  const iobind__part whole = {part->tensor, 0, part->offset + part->bytes};
  iobind__log_line(device->runtime->log, IOBIND_LOG_WARNING,
                   "iobind: tensor_read: '%s' has no addresses: %zu bytes are downloaded to read %zu at offset %zu",
                   device->spec, whole.bytes, part->bytes, part->offset);
  char *staging = malloc(whole.bytes);
  if (staging == NULL) {
    return iobind__out_of_memory(error, "tensor_read");
  }
  iobind_status status = move(&whole, staging, false, NULL, error);
  if (status == IOBIND_OK) {
    memcpy(data, staging + part->offset, part->bytes);
  }
  free(staging);
  return status;
}

iobind_status iobind__tensor_read(const iobind__part *part, void *data, iobind_stream *stream, iobind__order order,
                                  iobind_error *error) {
  IOBIND__TRY(iobind__process_check("tensor_read", error));
  IOBIND__TRY(check_part(part, data, stream, "tensor_read", error));
  if (part->bytes == 0) {
    return IOBIND_OK;
  }
  IOBIND__TRY(settle(part->tensor, IOBIND__READ, stream, order, error));
  if (stream != NULL && iobind__stream_is_busy(stream)) {
    return iobind__submit_read(part, data, stream, error);
  }
  return part->tensor->place->addressable || part->offset == 0 ? read_addressed(part, data, stream, error)
                                                               : read_behind(part, data, stream, error);
}

iobind_status iobind_tensor_read(const iobind_tensor *tensor, size_t offset, void *data, size_t bytes, iobind_stream *stream,
                                 iobind_error *error) {
  const iobind__part part = {(iobind_tensor *)(uintptr_t)tensor, offset, bytes}; /* only its uses change */
  return iobind__named(iobind__tensor_read(&part, data, stream, IOBIND__SETTLED, error), error, "tensor_read");
}

/* Shapes are formatted only here, so that a successful copy does not do that work. */
static iobind_status pair_differs(const iobind_tensor *source, const iobind_tensor *target, size_t index, iobind_status status,
                                  iobind_error *error) {
  char from[IOBIND__SHAPE_TEXT];
  char to[IOBIND__SHAPE_TEXT];
  iobind__shape_text(iobind__form_of(source), NULL, from, sizeof from);
  iobind__shape_text(iobind__form_of(target), NULL, to, sizeof to);
  return iobind__fail(error, status, "tensor_copy: pair %zu: expected a source of %s, like the target, got %s", index, to,
                      from);
}

static iobind_status check_pair(const iobind_tensor *source, const iobind_tensor *target, size_t index,
                                const iobind_runtime *runtime, const iobind_stream *stream, iobind_error *error) {
  if (source == NULL || target == NULL) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "tensor_copy: %s %zu is NULL",
                        source == NULL ? "source" : "target", index);
  }
  if (source->dtype == IOBIND_DTYPE_STRING || target->dtype == IOBIND_DTYPE_STRING) {
    return iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED, "tensor_copy: pair %zu holds strings: set them one by one", index);
  }
  if (source->place->device->runtime != runtime || target->place->device->runtime != runtime) {
    return iobind__fail(error, IOBIND_ERROR_WRONG_DEVICE, "tensor_copy: pair %zu is of another runtime", index);
  }
  if (source->dtype != target->dtype) {
    return pair_differs(source, target, index, IOBIND_ERROR_DTYPE, error);
  }
  if (!iobind__tensor_same_dims(source, target)) {
    return pair_differs(source, target, index, IOBIND_ERROR_SHAPE, error);
  }
  if (iobind__tensor_overlaps(source, target)) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "tensor_copy: pair %zu overlaps in memory", index);
  }
  IOBIND__TRY(iobind__tensor_check_writable(target, "tensor_copy", error));
  return iobind__tensor_check_stream(stream, source->place->device, target->place->device, "tensor_copy", error);
}

static iobind__transfer transfer_of(const iobind_tensor *source, iobind_tensor *target) {
  return (iobind__transfer){source->place, target->place, source->value, target->value,
                            source->data,  target->data,  source->bytes};
}

/* A pageable source has been read when the call returns: it was staged, or the EP's copy has blocked. */
static void use_pair(const iobind_tensor *source, iobind_tensor *target, const iobind__submission *submission) {
  if (!iobind__place_is_pageable(source->place)) {
    iobind__tensor_use((iobind_tensor *)(uintptr_t)source, submission, IOBIND__READ); /* only its use is recorded */
  }
  iobind__tensor_use(target, submission, IOBIND__WRITE);
}

/* A copy between pageable memory and the device of an EP's stream is made as a read or a write, because the EP's own copy would
 * block. */
static bool is_staged(const iobind_tensor *source, const iobind_tensor *target, const iobind_stream *stream) {
  const iobind_tensor *host = source->place->host ? source : target;
  return stream != NULL && iobind__stream_orders_calls(stream) && source->place->host != target->place->host &&
         iobind__place_is_pageable(host->place) &&
         source->bytes >= (source->place->host ? iobind__staging_min_bytes(stream) : 1);
}

iobind_status iobind__tensor_copy_one(const iobind_tensor *source, iobind_tensor *target, iobind_stream *stream,
                                      iobind_error *error) {
  const iobind__submission submission = iobind__stream_begin(stream);
  if (!is_staged(source, target, stream)) {
    iobind__transfer transfer = transfer_of(source, target);
    IOBIND__TRY(iobind__transfer_all(target->place->device->runtime, &transfer, 1, stream, error));
  } else if (source->place->host) {
    IOBIND__TRY(write_addressed(&(iobind__part){target, 0, source->bytes}, source->data, stream, error));
  } else {
    const iobind__part part = {(iobind_tensor *)(uintptr_t)source, 0, source->bytes}; /* only its uses change */
    IOBIND__TRY(read_addressed(&part, target->data, stream, error));
  }
  use_pair(source, target, &submission);
  return IOBIND_OK;
}

/* Copy at most TOGETHER pairs, which do not depend on each other. */
static iobind_status copy_together(const iobind_tensor *const *sources, iobind_tensor *const *targets, size_t count,
                                   iobind_stream *stream, iobind_error *error) {
  iobind__transfer transfers[TOGETHER];
  const iobind__submission submission = iobind__stream_begin(stream);
  size_t together = 0;
  iobind_status status = IOBIND_OK;
  for (size_t i = 0; i < count && status == IOBIND_OK; i++) {
    if (is_staged(sources[i], targets[i], stream)) {
      status = iobind__tensor_copy_one(sources[i], targets[i], stream, error);
    } else {
      transfers[together++] = transfer_of(sources[i], targets[i]);
    }
  }
  if (status == IOBIND_OK) {
    status = iobind__transfer_all(targets[0]->place->device->runtime, transfers, together, stream, error);
  }
  /* copies that failed may have been submitted; on a device that is lost they have ended, and no thread may wait for them */
  for (size_t i = 0; i < count && status != IOBIND_ERROR_DEVICE_LOST; i++) {
    use_pair(sources[i], targets[i], &submission);
  }
  return status;
}

static inline bool meet(const iobind_tensor *a, const iobind_tensor *b) {
  return iobind__tensor_may_overlap(a, b) && iobind__tensor_overlaps(a, b);
}

/* Does the last of these pairs read what an earlier one writes, or write what an earlier one reads or writes? */
static bool last_depends(const iobind_tensor *const *sources, iobind_tensor *const *targets, size_t count) {
  const iobind_tensor *source = sources[count - 1];
  const iobind_tensor *target = targets[count - 1];
  bool depends = false;
  for (size_t i = 0; !depends && i + 1 < count; i++) {
    depends = meet(source, targets[i]) || meet(target, sources[i]) || meet(target, targets[i]);
  }
  return depends;
}

/* The result is that of copying one pair after the other. */
static iobind_status copy_in_order(const iobind_tensor *const *sources, iobind_tensor *const *targets, size_t count,
                                   iobind_stream *stream, iobind_error *error) {
  size_t first = 0;
  for (size_t i = 1; i < count; i++) {
    if (i - first == TOGETHER || last_depends(sources + first, targets + first, i + 1 - first)) {
      IOBIND__TRY(copy_together(sources + first, targets + first, i - first, stream, error));
      first = i;
    }
  }
  return copy_together(sources + first, targets + first, count - first, stream, error);
}

iobind_status iobind__tensor_copy(const iobind_tensor *const *sources, iobind_tensor *const *targets, size_t count,
                                  iobind_stream *stream, iobind__order order, iobind_error *error) {
  if (count == 0) {
    return IOBIND_OK;
  }
  IOBIND__TRY(iobind__null_check(sources, "sources", "tensor_copy", error));
  IOBIND__TRY(iobind__null_check(targets, "targets", "tensor_copy", error));
  IOBIND__TRY(iobind__process_check("tensor_copy", error));
  iobind_runtime *runtime = targets[0] == NULL ? NULL : targets[0]->place->device->runtime;
  for (size_t i = 0; i < count; i++) {
    IOBIND__TRY(check_pair(sources[i], targets[i], i, runtime, stream, error));
  }
  for (size_t i = 0; i < count; i++) {
    IOBIND__TRY(settle(sources[i], IOBIND__READ, stream, order, error));
    IOBIND__TRY(settle(targets[i], IOBIND__WRITE, stream, order, error));
  }
  return stream != NULL && iobind__stream_is_busy(stream) ? iobind__submit_copy(sources, targets, count, stream, error)
                                                          : copy_in_order(sources, targets, count, stream, error);
}

iobind_status iobind_tensor_copy(const iobind_tensor *const *sources, iobind_tensor *const *targets, size_t count,
                                 iobind_stream *stream, iobind_error *error) {
  return iobind__named(iobind__tensor_copy(sources, targets, count, stream, IOBIND__SETTLED, error), error, "tensor_copy");
}
