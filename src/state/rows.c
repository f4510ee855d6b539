/* Reorders the rows of all states of a binding. */
#include "session/kind.h"
#include "state/mover.h"

static const char what[] = "binding_reorder_state";

static iobind_status check_rows(const iobind__mover *self, const iobind__rows *by, iobind_error *error) {
  const iobind_session *session = iobind__binding_session(self->binding);
  int64_t extent;
  IOBIND__TRY(iobind__mover_measure(self, &extent, error));
  for (size_t i = 0; i < by->count; i++) {
    if (by->rows[i] < 0 || by->rows[i] >= extent) {
      return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "%s: row %zu: the states have %lld rows, got row %lld", what, i,
                          (long long)extent, (long long)by->rows[i]);
    }
  }
  if (session->graphs.limit > 0 && (int64_t)by->count != extent) {
    return iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED,
                        "%s: the session captures graphs, whose states have %lld rows: expected as many, got %zu", what,
                        (long long)extent, by->count);
  }
  return IOBIND_OK;
}

/* The meaning of an axis for the caches of fixed capacity. */
typedef struct role {
  bool is_length; /* of one cache it is the axis of the length */
  bool is_batch;  /* of one cache it is the batch axis */
  bool is_other;  /* of one cache it is neither */
} role;

static iobind_status find_role(const iobind__mover *self, size_t axis, role *out, iobind_error *error) {
  *out = (role){0};
  for (size_t i = 0; i < self->count; i++) {
    const iobind__pair pair = iobind__binding_view_carry(self->binding, i);
    iobind__kind kind;
    IOBIND__TRY(iobind__binding_find_kind(self->binding, pair, &kind, error));
    if (kind.kind == IOBIND_STATE_CAPACITY) {
      out->is_length = out->is_length || kind.axis == axis;
      out->is_batch = out->is_batch || kind.rows == axis;
      out->is_other = out->is_other || (kind.axis != axis && kind.rows != axis);
    }
  }
  return IOBIND_OK;
}

/* The lengths of the caches afterwards. Unknown if the axis is a cache's length; or if lengths differ, and the axis is the
 * batch axis of only some caches. */
static iobind_status find_used(const iobind__mover *self, size_t axis, const iobind__rows *by, iobind__used *out,
                               iobind_error *error) {
  const iobind__used now = iobind__binding_get_used(self->binding);
  role of;
  *out = iobind__used_none();
  if (now.longest == IOBIND__LENGTH_UNKNOWN) {
    return IOBIND_OK;
  }
  IOBIND__TRY(find_role(self, axis, &of, error));
  if (of.is_length || (now.skew != NULL && of.is_batch && of.is_other)) {
    return IOBIND_OK;
  }
  if (now.skew != NULL && of.is_batch) {
    return iobind__used_take(&now, by->rows, by->count, what, out, error);
  }
  iobind__used_set(out, now);
  return IOBIND_OK;
}

static iobind_status reorder(iobind__mover *self, size_t axis, const iobind__rows *by, iobind_error *error) {
  for (size_t i = 0; i < self->count; i++) {
    self->axes[i] = axis;
  }
  IOBIND__TRY(iobind__mover_peek(self, error));
  IOBIND__TRY(check_rows(self, by, error));
  iobind__used used;
  IOBIND__TRY(find_used(self, axis, by, &used, error));
  iobind_status status = iobind__mover_move(self, by, 0, error);
  if (status == IOBIND_OK) {
    iobind__binding_set_used(self->binding, used);
  }
  iobind__used_release(&used);
  return status;
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
