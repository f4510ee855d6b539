/* Reads, writes and copies as tasks of a worker's stream, ordered after its earlier work. */
#include <stdlib.h>

#include "iobind/interop.h"
#include "tensor/tensor.h"

/* One task. It retains the tensors until it has run. */
typedef struct access {
  iobind__task task;
  enum { WRITE, READ, COPY, ROWS } kind;
  const char *what; /* the call's name */
  iobind__part part;
  const void *from;
  void *to;
  iobind_rows sides[2];
  iobind__extent extent;
  size_t source_count;
  size_t target_count;
  iobind_tensor *tensors[]; /* the sources, then the targets */
} access;

static void free_access(iobind__task *task) {
  access *self = (access *)task;
  iobind__tensors_release(self->tensors, self->source_count + self->target_count);
  free(self);
}

static iobind_status execute(access *self, iobind_error *error) {
  switch (self->kind) {
    case WRITE: return iobind__tensor_write(&self->part, self->from, NULL, IOBIND__IN_FLIGHT, error);
    case READ: return iobind__tensor_read(&self->part, self->to, NULL, IOBIND__IN_FLIGHT, error);
    case COPY:
      return iobind__tensor_copy((const iobind_tensor *const *)self->tensors, self->tensors + self->source_count,
                                 self->source_count, NULL, IOBIND__IN_FLIGHT, error);
    case ROWS: return iobind__tensor_copy_rows(&self->sides[0], &self->sides[1], &self->extent, NULL, IOBIND__IN_FLIGHT, error);
  }
  return iobind__fail(error, IOBIND_ERROR_INTERNAL, "stream: no such task");
}

static iobind_status run_access(iobind__task *task, const iobind_error *failure, iobind_error *error) {
  access *self = (access *)task;
  return failure != NULL ? iobind__error_copy(error, failure) : iobind__named(execute(self, error), error, self->what);
}

/* Submit a task like `like`, which reads the sources and writes the targets. */
static iobind_status submit(const access *like, const iobind_tensor *const *sources, iobind_tensor *const *targets,
                            iobind_stream *stream, iobind_error *error) {
  iobind__ticket ticket;
  access *self = calloc(1, sizeof *self + (like->source_count + like->target_count) * sizeof self->tensors[0]);
  if (self == NULL) {
    return iobind__out_of_memory(error, like->what);
  }
  *self = *like;
  self->task.run = run_access;
  self->task.destroy = free_access;
  for (size_t i = 0; i < like->source_count; i++) {
    self->tensors[i] =
        iobind_tensor_retain((iobind_tensor *)(uintptr_t)sources[i]); /* only its reference count and uses change */
  }
  for (size_t i = 0; i < like->target_count; i++) {
    self->tensors[like->source_count + i] = iobind_tensor_retain(targets[i]);
  }
  iobind_status status = iobind__stream_submit(stream, &self->task, &ticket, error);
  if (status != IOBIND_OK) {
    free_access(&self->task);
    return status;
  }
  for (size_t i = 0; i < like->source_count; i++) {
    iobind__tensor_use_at((iobind_tensor *)(uintptr_t)sources[i], stream, ticket, IOBIND__READ);
  }
  for (size_t i = 0; i < like->target_count; i++) {
    iobind__tensor_use_at(targets[i], stream, ticket, IOBIND__WRITE);
  }
  return IOBIND_OK;
}

iobind_status iobind__submit_write(const iobind__part *part, const void *data, iobind_stream *stream, iobind_error *error) {
  const access like = {.kind = WRITE, .what = "tensor_write", .part = *part, .from = data, .target_count = 1};
  return submit(&like, NULL, &part->tensor, stream, error);
}

iobind_status iobind__submit_read(const iobind__part *part, void *data, iobind_stream *stream, iobind_error *error) {
  const access like = {.kind = READ, .what = "tensor_read", .part = *part, .to = data, .source_count = 1};
  const iobind_tensor *source = part->tensor;
  return submit(&like, &source, NULL, stream, error);
}

iobind_status iobind__submit_copy(const iobind_tensor *const *sources, iobind_tensor *const *targets, size_t count,
                                  iobind_stream *stream, iobind_error *error) {
  const access like = {.kind = COPY, .what = "tensor_copy", .source_count = count, .target_count = count};
  return submit(&like, sources, targets, stream, error);
}

iobind_status iobind__submit_rows(const iobind_rows *source, const iobind_rows *target, const iobind__extent *extent,
                                  iobind_stream *stream, iobind_error *error) {
  const access like = {.kind = ROWS,
                       .what = "tensor_copy_rows",
                       .sides = {*source, *target},
                       .extent = *extent,
                       .source_count = 1,
                       .target_count = 1};
  const iobind_tensor *from = source->tensor;
  iobind_tensor *to = target->tensor;
  return submit(&like, &from, &to, stream, error);
}
