#include "binding/prefix.h"

#include <stdlib.h>

#include "iobind/interop.h"

iobind_status iobind__prefix_find(iobind_binding *binding, const iobind__carry *carry, const iobind_tensor *state,
                                  iobind__prefix *out, iobind_error *error) {
  int64_t length = iobind__binding_get_used(binding).longest;
  *out = (iobind__prefix){0};
  if (length < 0) {
    return IOBIND_OK;
  }
  iobind__kind kind;
  IOBIND__TRY(iobind__binding_find_kind(binding, (iobind__pair){carry->output, carry->input}, &kind, error));
  if (kind.kind == IOBIND_STATE_CAPACITY && kind.axis < state->rank && length <= state->dims[kind.axis]) {
    *out = (iobind__prefix){.is_used = true, .axis = kind.axis, .length = length, .capacity = state->dims[kind.axis]};
  }
  return IOBIND_OK;
}

bool iobind__prefix_can_copy(const iobind_tensor *tensor) {
  return tensor->place->addressable && iobind_dtype_get_bits((int32_t)tensor->dtype) % 8 == 0;
}

/* Are rows whole bytes? Elements of 4 bits or less share bytes. */
static bool has_whole_rows(const iobind__prefix *self, const iobind_tensor *state) {
  size_t bits = iobind_dtype_get_bits((int32_t)state->dtype) % 8;
  for (size_t i = self->axis + 1; i < state->rank; i++) {
    bits = bits * (size_t)state->dims[i] % 8;
  }
  return bits == 0;
}

bool iobind__prefix_fits(const iobind__prefix *self, const iobind_tensor *state, const iobind_tensor *into) {
  bool fits = into->dtype == state->dtype && into->rank == state->rank && into->dims[self->axis] >= self->length &&
              has_whole_rows(self, state);
  for (size_t i = 0; fits && i < state->rank; i++) {
    fits = i == self->axis || into->dims[i] == state->dims[i];
  }
  return fits;
}

iobind_status iobind__prefix_copy(const iobind__prefix *self, iobind_tensor *from, iobind_tensor *to, iobind_stream *stream,
                                  iobind_error *error) {
  size_t pieces = 1;
  for (size_t i = 0; i < self->axis; i++) {
    pieces *= (size_t)from->dims[i];
  }
  if (self->length == 0 || from->bytes == 0 || to->bytes == 0) {
    return IOBIND_OK;
  }
  const iobind_rows source = {.struct_size = sizeof source, .tensor = from, .pitch = from->bytes / pieces};
  const iobind_rows target = {.struct_size = sizeof target, .tensor = to, .pitch = to->bytes / pieces};
  size_t row = source.pitch / (size_t)from->dims[self->axis];
  const iobind__extent extent = {.bytes = row * (size_t)self->length, .rows = pieces};
  return iobind__tensor_copy_rows(&source, &target, &extent, stream, IOBIND__SETTLED, error);
}

static iobind_status copy_into(iobind_tensor *made, const iobind__cache *from, iobind_stream *stream, iobind_tensor **out,
                               iobind_error *error) {
  iobind_status status = iobind__prefix_copy(from->prefix, from->tensor, made, stream, error);
  if (status != IOBIND_OK) {
    iobind_tensor_release(made);
    return status;
  }
  *out = made;
  return IOBIND_OK;
}

iobind_status iobind__prefix_copy_new(const iobind__cache *from, iobind_stream *stream, iobind_tensor **out,
                                      iobind_error *error) {
  iobind_tensor *made;
  IOBIND__TRY(iobind__input_make_cache(from, from->prefix->length, &made, error));
  return copy_into(made, from, stream, out, error);
}

/* Rows that are not in use must hold valid numbers: operators that mask them by a sum or a product read them. */
static iobind_status write_zeros(iobind_tensor *tensor, iobind_error *error) {
  void *zeros = calloc(1, tensor->bytes + 1);
  if (zeros == NULL) {
    return iobind__out_of_memory(error, "binding_restore_state");
  }
  iobind_status status = iobind_tensor_write(tensor, 0, zeros, tensor->bytes, NULL, error);
  free(zeros);
  return status;
}

iobind_status iobind__prefix_widen(const iobind__cache *from, iobind_tensor **out, iobind_error *error) {
  iobind_tensor *made;
  if (!has_whole_rows(from->prefix, from->tensor)) {
    return iobind__fail(error, IOBIND_ERROR_SHAPE,
                        "binding_restore_state: '%s': expected the saved capacity %lld, got %lld: rows of %s share bytes",
                        from->session->inputs[from->input].label, (long long)from->tensor->dims[from->prefix->axis],
                        (long long)from->prefix->capacity, iobind_dtype_get_name((int32_t)from->tensor->dtype));
  }
  IOBIND__TRY(iobind__input_make_cache(from, from->prefix->capacity, &made, error));
  iobind_status status = write_zeros(made, error);
  if (status != IOBIND_OK) {
    iobind_tensor_release(made);
    return status;
  }
  return copy_into(made, from, NULL, out, error);
}
