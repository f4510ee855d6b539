/* Copies of rows with a pitch. If the device's memory has addresses, ORT copies each row. Other memory is copied to the host,
 * which copies the rows. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "iobind/interop.h"
#include "support/options.h"
#include "tensor/tensor.h"

enum { TOGETHER = 16 }; /* rows in one call */

/* One side of a copy. */
typedef struct side {
  iobind_tensor *tensor; /* whose rows these are, also if `data` is a scratch buffer */
  const iobind__place *place;
  size_t offset; /* of the first row, in the tensor */
  char *data;    /* the first row; not valid without addresses */
  size_t pitch;
} side;

/* The bytes from the first row's begin to the last row's end. */
static size_t span_of(const side *self, const iobind__extent *extent) {
  return (extent->rows - 1) * self->pitch + extent->bytes;
}

static bool is_dense(const side *self, const iobind__extent *extent) {
  return self->pitch == extent->bytes;
}

static iobind_status copy_sides(const side *from, const side *to, const iobind__extent *extent, iobind_stream *stream,
                                iobind_error *error);

static void copy_on_host(const side *from, const side *to, const iobind__extent *extent) {
  for (size_t row = 0; row < extent->rows; row++) {
    memcpy(to->data + row * to->pitch, from->data + row * from->pitch, extent->bytes);
  }
}

/* A value over borrowed memory. */
static iobind_status make_value(const iobind__place *place, void *data, size_t bytes, OrtValue **value, iobind_error *error) {
  const OrtApi *api = IOBIND__API(place->device->runtime);
  const int64_t length = (int64_t)bytes;
  IOBIND__ORT_TRY(
      api,
      api->CreateTensorWithDataAsOrtValue(place->info, data, bytes, &length, 1, ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8, value),
      error, "tensor_copy_rows");
  return IOBIND_OK;
}

/* Copy at most TOGETHER rows in one call. */
static iobind_status copy_batch(const side *from, const side *to, const iobind__extent *extent, iobind_stream *stream,
                                iobind_error *error) {
  iobind_runtime *runtime = from->place->device->runtime;
  OrtValue *values[2 * TOGETHER] = {NULL};
  iobind__transfer transfers[TOGETHER];
  iobind_status status = IOBIND_OK;
  for (size_t i = 0; i < extent->rows && status == IOBIND_OK; i++) {
    char *source = from->data + i * from->pitch;
    char *target = to->data + i * to->pitch;
    status = make_value(from->place, source, extent->bytes, &values[2 * i], error);
    if (status == IOBIND_OK) {
      status = make_value(to->place, target, extent->bytes, &values[2 * i + 1], error);
    }
    transfers[i] = (iobind__transfer){from->place, to->place, values[2 * i], values[2 * i + 1], source, target, extent->bytes};
  }
  if (status == IOBIND_OK) {
    status = iobind__transfer_all(runtime, transfers, extent->rows, stream, error);
  }
  for (size_t i = 0; i < 2 * extent->rows; i++) {
    if (values[i] != NULL) {
      IOBIND__API(runtime)->ReleaseValue(values[i]);
    }
  }
  return status;
}

/* Copy each row as one range; or all rows as one, if both sides are dense. */
static iobind_status copy_ranges(const side *from, const side *to, const iobind__extent *extent, iobind_stream *stream,
                                 iobind_error *error) {
  bool dense = is_dense(from, extent) && is_dense(to, extent);
  const iobind__extent all = dense ? (iobind__extent){extent->bytes * extent->rows, 1} : *extent;
  for (size_t first = 0; first < all.rows; first += TOGETHER) {
    const iobind__extent batch = {all.bytes, all.rows - first < TOGETHER ? all.rows - first : TOGETHER};
    side source = *from;
    side target = *to;
    source.data += first * source.pitch;
    target.data += first * target.pitch;
    IOBIND__TRY(copy_batch(&source, &target, &batch, stream, error));
  }
  return IOBIND_OK;
}

/* The side in a scratch buffer, which has the layout of the tensor from byte `begin` on. */
static side scratch_of(const side *self, size_t begin, char *scratch) {
  side host = *self;
  host.place = &self->place->device->runtime->cpu->places[IOBIND_MEMORY_DEFAULT];
  host.data = scratch + (self->offset - begin);
  return host;
}

/* Copy a part of the side's tensor to or from the scratch buffer. The call, or the task that makes it, is already ordered after
 * earlier work: to wait for that again would be to wait for the task itself. */
static iobind_status download(const side *self, size_t begin, size_t bytes, char *scratch, iobind_error *error) {
  const iobind__part part = {self->tensor, begin, bytes};
  return iobind__renamed(iobind__tensor_read(&part, scratch, NULL, IOBIND__IN_FLIGHT, error), error, "tensor_copy_rows");
}

static iobind_status upload(const side *self, size_t begin, size_t bytes, const char *scratch, iobind_error *error) {
  const iobind__part part = {self->tensor, begin, bytes};
  return iobind__renamed(iobind__tensor_write(&part, scratch, NULL, IOBIND__IN_FLIGHT, error), error, "tensor_copy_rows");
}

/* Download the rows, with the bytes between them, in one part. */
static iobind_status copy_from_scratch(const side *from, const side *to, const iobind__extent *extent, iobind_stream *stream,
                                       iobind_error *error) {
  size_t span = span_of(from, extent);
  char *scratch = malloc(span);
  if (scratch == NULL) {
    return iobind__out_of_memory(error, "tensor_copy_rows");
  }
  iobind_status status = iobind__stream_drain(stream, error);
  if (status == IOBIND_OK) {
    status = download(from, from->offset, span, scratch, error);
  }
  if (status == IOBIND_OK) {
    const side host = scratch_of(from, from->offset, scratch);
    status = copy_sides(&host, to, extent, NULL, error);
  }
  free(scratch);
  return status;
}

/* Arrange the rows on the host, and upload them in one part. Memory without addresses can only be written from its start, so
 * the part is the whole tensor. If the rows are not all of the part, it is downloaded first. */
static iobind_status copy_by_scratch(const side *from, const side *to, const iobind__extent *extent, iobind_stream *stream,
                                     iobind_error *error) {
  bool addressable = to->place->addressable;
  size_t begin = addressable ? to->offset : 0;
  size_t size = addressable ? span_of(to, extent) : to->tensor->bytes;
  bool partial = extent->bytes * extent->rows != size;
  char *scratch = malloc(size);
  if (scratch == NULL) {
    return iobind__out_of_memory(error, "tensor_copy_rows");
  }
  iobind_status status = iobind__stream_drain(stream, error);
  if (status == IOBIND_OK && partial) {
    iobind__log_line(to->place->device->runtime->log, IOBIND_LOG_WARNING,
                     "iobind: tensor_copy_rows: '%s' has no addresses: %zu bytes are downloaded and uploaded again to copy %zu",
                     to->place->device->spec, size, extent->bytes * extent->rows);
    status = download(to, begin, size, scratch, error);
  }
  if (status == IOBIND_OK) {
    const side host = scratch_of(to, begin, scratch);
    status = copy_sides(from, &host, extent, NULL, error);
  }
  if (status == IOBIND_OK) {
    status = upload(to, begin, size, scratch, error);
  }
  free(scratch);
  return status;
}

/* Upload from pageable memory on an EP's stream without blocking, by way of the stream's pinned memory. */
static iobind_status upload_staged(const side *from, const side *to, const iobind__extent *extent, iobind_stream *stream,
                                   iobind__staging *staging, iobind_error *error) {
  const side pinned = {.tensor = from->tensor, .place = staging->place, .data = staging->data, .pitch = extent->bytes};
  copy_on_host(from, &pinned, extent);
  const iobind__submission submission = iobind__stream_begin(stream);
  iobind_status status = copy_ranges(&pinned, to, extent, stream, error);
  iobind__staging_used(&submission, staging); /* a copy that failed may have been submitted */
  return status;
}

/* Download to dense pageable memory on an EP's stream without blocking: the host copies the bytes when the work is complete. */
static iobind_status download_staged(const side *from, const side *to, const iobind__extent *extent, iobind_stream *stream,
                                     iobind__staging *staging, iobind_error *error) {
  const side pinned = {.tensor = from->tensor, .place = staging->place, .data = staging->data, .pitch = extent->bytes};
  const iobind__submission submission = iobind__stream_begin(stream);
  iobind_status status = copy_ranges(from, &pinned, extent, stream, error);
  if (status == IOBIND_OK) {
    iobind__stream_deliver(&submission, staging->data, to->data, extent->bytes * extent->rows);
  }
  iobind__staging_used(&submission, staging); /* a copy that failed may have been submitted */
  return status;
}

/* Copy between the host and a device with addresses. With pageable memory, one copy of a pinned buffer or of one part is faster
 * than a copy for each row. */
static iobind_status copy_with_host(const side *from, const side *to, const iobind__extent *extent, iobind_stream *stream,
                                    iobind_error *error) {
  bool up = from->place->host;
  const side *host = up ? from : to;
  const side *remote = up ? to : from;
  if (!iobind__place_is_pageable(host->place)) {
    return copy_ranges(from, to, extent, stream, error);
  }
  if (stream != NULL && (up || is_dense(to, extent))) {
    IOBIND__TRY(iobind__stream_use_host(stream, host->data, span_of(host, extent), error));
    iobind__staging *staging = iobind__staging_take(stream, remote->place, extent->bytes * extent->rows);
    if (staging != NULL) {
      return up ? upload_staged(from, to, extent, stream, staging, error)
                : download_staged(from, to, extent, stream, staging, error);
    }
  }
  if (is_dense(host, extent) || !is_dense(remote, extent)) {
    return copy_ranges(from, to, extent, stream, error);
  }
  return up ? copy_by_scratch(from, to, extent, stream, error) : copy_from_scratch(from, to, extent, stream, error);
}

static iobind_status copy_sides(const side *from, const side *to, const iobind__extent *extent, iobind_stream *stream,
                                iobind_error *error) {
  if (from->place->host && to->place->host) {
    IOBIND__TRY(iobind__stream_drain(stream, error)); /* the host's copy is ordered after the stream's work */
    copy_on_host(from, to, extent);
    return IOBIND_OK;
  }
  if (!from->place->addressable) {
    return copy_from_scratch(from, to, extent, stream, error);
  }
  if (!to->place->addressable) {
    return copy_by_scratch(from, to, extent, stream, error);
  }
  return from->place->host || to->place->host ? copy_with_host(from, to, extent, stream, error)
                                              : copy_ranges(from, to, extent, stream, error);
}

/* ---- checks ---- */

static iobind_status read_side(const iobind_rows *given, const iobind__extent *extent, const char *name, side *out,
                               iobind_error *error) {
  char what[32];
  (void)snprintf(what, sizeof what, "tensor_copy_rows: %s", name);
  if (given == NULL) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "%s is NULL", what);
  }
  iobind_rows rows;
  IOBIND__TRY(IOBIND__OPTIONS_READ(&rows, given, what, error));
  const iobind_tensor *tensor = rows.tensor;
  if (tensor == NULL || rows.reserved != 0) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "%s: %s", what,
                        tensor == NULL ? "tensor is NULL" : "reserved is not 0");
  }
  if (tensor->dtype == IOBIND_DTYPE_STRING) {
    return iobind__fail(error, IOBIND_ERROR_DTYPE, "%s: strings have no bytes", what);
  }
  size_t last = extent->rows == 0 ? 0 : extent->rows - 1;
  if (last > 0 && rows.pitch < extent->bytes) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT,
                        "%s: expected a pitch of %zu bytes or more, as a row has, got %zu", what, extent->bytes, rows.pitch);
  }
  size_t room = rows.offset <= tensor->bytes ? tensor->bytes - rows.offset : 0;
  bool fits = rows.offset <= tensor->bytes;
  if (fits && extent->rows > 0 && extent->bytes > 0) {
    fits = extent->bytes <= room && (last == 0 || last <= (room - extent->bytes) / rows.pitch);
  }
  if (!fits) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT,
                        "%s: expected rows within the tensor's %zu bytes, got %zu rows of %zu bytes, %zu apart, at offset %zu",
                        what, tensor->bytes, extent->rows, extent->bytes, rows.pitch, rows.offset);
  }
  *out = (side){.tensor = rows.tensor,
                .place = tensor->place,
                .offset = rows.offset,
                .data = tensor->data == NULL ? NULL : (char *)tensor->data + rows.offset,
                .pitch = last > 0 ? rows.pitch : extent->bytes};
  return IOBIND_OK;
}

/* Do rows of the two sides overlap in memory? If the pitches differ, each side counts as one part, without gaps. */
static bool overlaps(const side *a, const side *b, const iobind__extent *extent) {
  if (!iobind__memory_overlaps(a->place, a->place->addressable ? a->data : a->tensor->data, span_of(a, extent), b->place,
                               b->place->addressable ? b->data : b->tensor->data, span_of(b, extent))) {
    return false;
  }
  uintptr_t start_a = a->place->addressable ? (uintptr_t)a->data : a->offset;
  uintptr_t start_b = b->place->addressable ? (uintptr_t)b->data : b->offset;
  const side *first = start_a <= start_b ? a : b;
  size_t apart = first == a ? start_b - start_a : start_a - start_b;
  if (apart >= span_of(first, extent)) {
    return false;
  }
  if (a->pitch != b->pitch) {
    return true;
  }
  /* a row of the later side begins `within` bytes after the begin of one of the earlier side, and must end before the next
   * one */
  size_t within = apart % a->pitch;
  bool has_next = apart / a->pitch + 1 < extent->rows;
  return within < extent->bytes || (has_next && within + extent->bytes > a->pitch);
}

static iobind_status check_sides(const side *from, const side *to, const iobind_stream *stream, iobind_error *error) {
  if (from->place->device->runtime != to->place->device->runtime) {
    return iobind__fail(error, IOBIND_ERROR_WRONG_DEVICE, "tensor_copy_rows: the target is of another runtime than the source");
  }
  IOBIND__TRY(iobind__tensor_check_writable(to->tensor, "tensor_copy_rows", error));
  return iobind__tensor_check_stream(stream, from->place->device, to->place->device, "tensor_copy_rows", error);
}

iobind_status iobind__tensor_copy_rows(const iobind_rows *source, const iobind_rows *target, const iobind__extent *extent,
                                       iobind_stream *stream, iobind__order order, iobind_error *error) {
  side from;
  side to;
  IOBIND__TRY(iobind__process_check("tensor_copy_rows", error));
  IOBIND__TRY(read_side(source, extent, "source", &from, error));
  IOBIND__TRY(read_side(target, extent, "target", &to, error));
  IOBIND__TRY(check_sides(&from, &to, stream, error));
  if (extent->bytes == 0 || extent->rows == 0 || from.data == NULL ||
      to.data == NULL) { /* tensors of 0 bytes have no address */
    return IOBIND_OK;
  }
  if (overlaps(&from, &to, extent)) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT,
                        "tensor_copy_rows: rows of the source and the target overlap in memory");
  }
  if (stream == NULL && order == IOBIND__SETTLED) {
    IOBIND__TRY(iobind__tensor_settle(from.tensor, IOBIND__READ, error));
    IOBIND__TRY(iobind__tensor_settle(to.tensor, IOBIND__WRITE, error));
  }
  if (stream != NULL && iobind__stream_is_busy(stream)) {
    return iobind__submit_rows(source, target, extent, stream, error);
  }
  const iobind__submission submission = iobind__stream_begin(stream);
  iobind_status status = copy_sides(&from, &to, extent, stream, error);
  iobind__tensor_use(from.tensor, &submission, IOBIND__READ);
  iobind__tensor_use(to.tensor, &submission, IOBIND__WRITE);
  return status;
}

iobind_status iobind_tensor_copy_rows(const iobind_rows *source, const iobind_rows *target, size_t row_bytes, size_t rows,
                                      iobind_stream *stream, iobind_error *error) {
  const iobind__extent extent = {row_bytes, rows};
  return iobind__named(iobind__tensor_copy_rows(source, target, &extent, stream, IOBIND__SETTLED, error), error,
                       "tensor_copy_rows");
}
