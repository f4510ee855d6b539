/* Reading, writing and copying as a task of a worker's stream, after its earlier work. */
#include <stdlib.h>

#include "iobind/interop.h"
#include "tensor/tensor.h"

/* They differ in what they call; the tensors are held until the task is done. */
typedef struct access {
  iobind__task task;
  enum { WRITE, READ, COPY, ROWS } kind;
  size_t offset;
  const void *from;
  void *to;
  size_t bytes; /* of a row for ROWS */
  size_t count; /* of pairs for COPY and ROWS */
  iobind_rows sides[2];
  size_t rows;
  iobind_tensor *tensors[];
} access;

static size_t tensor_count(const access *self) {
  return self->kind == COPY || self->kind == ROWS ? 2 * self->count : 1;
}

static void free_access(iobind__task *task) {
  access *self = (access *)task;
  for (size_t i = 0; i < tensor_count(self); i++) {
    iobind_tensor_release(self->tensors[i]);
  }
  free(self);
}

static iobind_status run_access(iobind__task *task, const iobind_error *failure, iobind_error *error) {
  access *self = (access *)task;
  if (failure != NULL) {
    return iobind__error_copy(error, failure);
  }
  switch (self->kind) {
    case WRITE:
      return iobind__named(
          iobind__tensor_write(self->tensors[0], self->offset, self->from, self->bytes, NULL, IOBIND__IN_FLIGHT, error), error,
          "tensor_write");
    case READ:
      return iobind__named(
          iobind__tensor_read(self->tensors[0], self->offset, self->to, self->bytes, NULL, IOBIND__IN_FLIGHT, error), error,
          "tensor_read");
    case COPY:
      return iobind__named(iobind__tensor_copy((const iobind_tensor *const *)self->tensors, self->tensors + self->count,
                                               self->count, NULL, IOBIND__IN_FLIGHT, error),
                           error, "tensor_copy");
    case ROWS:
      return iobind__named(
          iobind__tensor_copy_rows(&self->sides[0], &self->sides[1], self->bytes, self->rows, NULL, IOBIND__IN_FLIGHT, error),
          error, "tensor_copy_rows");
  }
  return iobind__fail(error, IOBIND_ERROR_INTERNAL, "stream: no such task");
}

/* Takes everything but the tensors from `like`. */
static access *make(const access *like) {
  access *self = calloc(1, sizeof *self + tensor_count(like) * sizeof self->tensors[0]);
  if (self != NULL) {
    *self = *like;
    self->task.run = run_access;
    self->task.destroy = free_access;
  }
  return self;
}

static iobind_status submit(access *self, iobind_stream *stream, iobind__ticket *ticket, iobind_error *error) {
  iobind_status status = iobind__stream_submit(stream, &self->task, ticket, error);
  if (status != IOBIND_OK) {
    free_access(&self->task);
  }
  return status;
}

iobind_status iobind__submit_write(iobind_tensor *tensor, size_t offset, const void *data, size_t bytes, iobind_stream *stream,
                                   iobind_error *error) {
  iobind__ticket ticket;
  access *self = make(&(access){.kind = WRITE, .offset = offset, .from = data, .bytes = bytes});
  if (self == NULL) {
    return iobind__out_of_memory(error, "tensor_write");
  }
  self->tensors[0] = iobind_tensor_retain(tensor);
  IOBIND__TRY(submit(self, stream, &ticket, error));
  iobind__tensor_use_at(tensor, stream, ticket, IOBIND__WRITE);
  return IOBIND_OK;
}

iobind_status iobind__submit_read(const iobind_tensor *tensor, size_t offset, void *data, size_t bytes, iobind_stream *stream,
                                  iobind_error *error) {
  iobind__ticket ticket;
  iobind_tensor *source = (iobind_tensor *)(uintptr_t)tensor; /* only its reference count and uses change */
  access *self = make(&(access){.kind = READ, .offset = offset, .to = data, .bytes = bytes});
  if (self == NULL) {
    return iobind__out_of_memory(error, "tensor_read");
  }
  self->tensors[0] = iobind_tensor_retain(source);
  IOBIND__TRY(submit(self, stream, &ticket, error));
  iobind__tensor_use_at(source, stream, ticket, IOBIND__READ);
  return IOBIND_OK;
}

iobind_status iobind__submit_copy(const iobind_tensor *const *sources, iobind_tensor *const *targets, size_t count,
                                  iobind_stream *stream, iobind_error *error) {
  iobind__ticket ticket;
  access *self = make(&(access){.kind = COPY, .count = count});
  if (self == NULL) {
    return iobind__out_of_memory(error, "tensor_copy");
  }
  for (size_t i = 0; i < count; i++) {
    self->tensors[i] = iobind_tensor_retain((iobind_tensor *)(uintptr_t)sources[i]); /* as above */
    self->tensors[count + i] = iobind_tensor_retain(targets[i]);
  }
  IOBIND__TRY(submit(self, stream, &ticket, error));
  for (size_t i = 0; i < count; i++) {
    iobind__tensor_use_at((iobind_tensor *)(uintptr_t)sources[i], stream, ticket, IOBIND__READ);
    iobind__tensor_use_at(targets[i], stream, ticket, IOBIND__WRITE);
  }
  return IOBIND_OK;
}

iobind_status iobind__submit_rows(const iobind_rows *source, const iobind_rows *target, size_t row_bytes, size_t rows,
                                  iobind_stream *stream, iobind_error *error) {
  iobind__ticket ticket;
  access *self = make(&(access){.kind = ROWS, .bytes = row_bytes, .count = 1, .sides = {*source, *target}, .rows = rows});
  if (self == NULL) {
    return iobind__out_of_memory(error, "tensor_copy_rows");
  }
  for (size_t i = 0; i < 2; i++) {
    self->tensors[i] = iobind_tensor_retain(self->sides[i].tensor);
  }
  IOBIND__TRY(submit(self, stream, &ticket, error));
  iobind__tensor_use_at(source->tensor, stream, ticket, IOBIND__READ);
  iobind__tensor_use_at(target->tensor, stream, ticket, IOBIND__WRITE);
  return IOBIND_OK;
}
