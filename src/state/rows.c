/* The rows of all states of a binding in another order. */
#include "session/kind.h"
#include "state/mover.h"

static const char what[] = "binding_reorder_state";

static iobind_status check_rows(const iobind__mover *self, const iobind__rows *by, iobind_error *error) {
  const iobind_session *session = iobind__binding_session(self->binding);
  int64_t extent;
  IOBIND__TRY(iobind__mover_measure(self, &extent, error));
  for (size_t i = 0; i < by->count; i++) {
    if (by->rows[i] < 0 || by->rows[i] >= extent) {
      return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "%s: row %zu: expected 0 .. %lld, got %lld", what, i,
                          (long long)extent - 1, (long long)by->rows[i]);
    }
  }
  if (session->graphs.limit > 0 && (int64_t)by->count != extent) {
    return iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED,
                        "%s: the session captures graphs, whose states have %lld rows: expected as many, got %zu", what,
                        (long long)extent, by->count);
  }
  return IOBIND_OK;
}

/* The length of the caches afterwards: -1 if their rows are moved along it. */
static iobind_status find_length(const iobind__mover *self, size_t axis, int64_t *length, iobind_error *error) {
  *length = iobind__binding_get_length(self->binding);
  for (size_t i = 0; i < self->count && *length >= 0; i++) {
    const iobind__pair pair = iobind__binding_view_carry(self->binding, i);
    iobind__kind kind;
    IOBIND__TRY(iobind__session_find_kind(iobind__binding_session(self->binding), pair.output, pair.input, &kind, error));
    *length = kind.kind == IOBIND_STATE_CAPACITY && kind.axis == axis ? -1 : *length;
  }
  return IOBIND_OK;
}

static iobind_status reorder(iobind__mover *self, size_t axis, const iobind__rows *by, iobind_error *error) {
  for (size_t i = 0; i < self->count; i++) {
    self->axes[i] = axis;
  }
  IOBIND__TRY(iobind__mover_peek(self, error));
  IOBIND__TRY(check_rows(self, by, error));
  int64_t length;
  IOBIND__TRY(find_length(self, axis, &length, error));
  IOBIND__TRY(iobind__mover_move(self, by, error));
  iobind__binding_set_length(self->binding, length);
  return IOBIND_OK;
}

iobind_status iobind_binding_reorder_state(iobind_binding *binding, size_t axis, const int64_t *rows, size_t count,
                                           iobind_error *error) {
  iobind__mover mover;
  const iobind__rows by = {rows, count};
  IOBIND__TRY(iobind__null_check(binding, "binding", what, error));
  if (count == 0) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "%s: expected 1 row or more, got 0", what);
  }
  IOBIND__TRY(iobind__null_check(rows, "rows", what, error));
  IOBIND__TRY(iobind__process_check(what, error));
  IOBIND__TRY(iobind__mover_open(&mover, binding, what, error));
  iobind_status status = reorder(&mover, axis, &by, error);
  iobind__mover_close(&mover);
  return iobind__named(status, error, what);
}
