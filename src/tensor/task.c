/* Reads, writes and copies as tasks of a worker's stream, ordered after its earlier work. */
#include <stdlib.h>

#include "iobind/interop.h"
#include "tensor/tensor.h"

/* One task. It retains the tensors until it has run. */
typedef struct access {
  iobind__task task;
  enum { WRITE, READ, COPY, ROWS } kind;
  iobind__part part;
  const void *from;
  void *to;
  size_t count; /* of pairs for COPY and ROWS */
  iobind_rows sides[2];
  iobind__extent extent;
  iobind_tensor *tensors[];
} access;

static size_t tensor_count(const access *self) {
  return self->kind == COPY || self->kind == ROWS ? 2 * self->count : 1;
}

static void free_access(iobind__task *task) {
  access *self = (access *)task;
  iobind__tensors_release(self->tensors, tensor_count(self));
  free(self);
}

static iobind_status run_access(iobind__task *task, const iobind_error *failure, iobind_error *error) {
  access *self = (access *)task;
  if (failure != NULL) {
    return iobind__error_copy(error, failure);
  }
  switch (self->kind) {
    case WRITE:
      return iobind__named(iobind__tensor_write(&self->part, self->from, NULL, IOBIND__IN_FLIGHT, error), error,
                           "tensor_write");
    case READ:
      return iobind__named(iobind__tensor_read(&self->part, self->to, NULL, IOBIND__IN_FLIGHT, error), error, "tensor_read");
    case COPY:
      return iobind__named(iobind__tensor_copy((const iobind_tensor *const *)self->tensors, self->tensors + self->count,
                                               self->count, NULL, IOBIND__IN_FLIGHT, error),
                           error, "tensor_copy");
    case ROWS:
      return iobind__named(
          iobind__tensor_copy_rows(&self->sides[0], &self->sides[1], &self->extent, NULL, IOBIND__IN_FLIGHT, error), error,
          "tensor_copy_rows");
  }
  return iobind__fail(error, IOBIND_ERROR_INTERNAL, "stream: no such task");
}

/* A task like `like`, without tensors. */
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

iobind_status iobind__submit_write(const iobind__part *part, const void *data, iobind_stream *stream, iobind_error *error) {
  iobind__ticket ticket;
  access *self = make(&(access){.kind = WRITE, .part = *part, .from = data});
  if (self == NULL) {
    return iobind__out_of_memory(error, "tensor_write");
  }
  self->tensors[0] = iobind_tensor_retain(part->tensor);
  IOBIND__TRY(submit(self, stream, &ticket, error));
  iobind__tensor_use_at(part->tensor, stream, ticket, IOBIND__WRITE);
  return IOBIND_OK;
}

iobind_status iobind__submit_read(const iobind__part *part, void *data, iobind_stream *stream, iobind_error *error) {
  iobind__ticket ticket;
  access *self = make(&(access){.kind = READ, .part = *part, .to = data});
  if (self == NULL) {
    return iobind__out_of_memory(error, "tensor_read");
  }
  self->tensors[0] = iobind_tensor_retain(part->tensor);
  IOBIND__TRY(submit(self, stream, &ticket, error));
  iobind__tensor_use_at(part->tensor, stream, ticket, IOBIND__READ);
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
    self->tensors[i] =
        iobind_tensor_retain((iobind_tensor *)(uintptr_t)sources[i]); /* only its reference count and uses change */
    self->tensors[count + i] = iobind_tensor_retain(targets[i]);
  }
  IOBIND__TRY(submit(self, stream, &ticket, error));
  for (size_t i = 0; i < count; i++) {
    iobind__tensor_use_at((iobind_tensor *)(uintptr_t)sources[i], stream, ticket, IOBIND__READ);
    iobind__tensor_use_at(targets[i], stream, ticket, IOBIND__WRITE);
  }
  return IOBIND_OK;
}

iobind_status iobind__submit_rows(const iobind_rows *source, const iobind_rows *target, const iobind__extent *extent,
                                  iobind_stream *stream, iobind_error *error) {
  iobind__ticket ticket;
  access *self = make(&(access){.kind = ROWS, .count = 1, .sides = {*source, *target}, .extent = *extent});
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
