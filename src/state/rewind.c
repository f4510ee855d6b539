/* Rewinds all states of a binding to a shorter length. */
#include <stdlib.h>

#include "session/kind.h"
#include "state/mover.h"
#include "state/state.h"

static const char what[] = "binding_rewind_state";

/* ---- which states can be shortened ---- */

static void list_lengths(const iobind_session *session, const iobind__kind *kind, iobind__text *names) {
  for (size_t i = 0; i < kind->length_count; i++) {
    iobind__text_add(names, "%s'%s'", i == 0 ? "" : ", ", session->inputs[kind->lengths[i]].label);
  }
}

static iobind_status refuse_capacity(const iobind_session *session, iobind__pair pair, const iobind__kind *kind,
                                     iobind_error *error) {
  iobind__text names = {0};
  list_lengths(session, kind, &names);
  iobind_status status = iobind__fail(
      error, IOBIND_ERROR_NOT_SUPPORTED,
      "%s: '%s' to '%s' is a cache of fixed capacity, which is not moved, and iobind does not count its length "
      "(iobind_binding_write_lengths): write the shorter length into %s%s",
      what, session->outputs[pair.output].label, session->inputs[pair.input].label, names.length > 0 ? "its inputs: " : "",
      names.length > 0 ? iobind__text_get(&names) : "the inputs that the model takes it from");
  iobind__text_free(&names);
  return status;
}

static iobind_status refuse(const iobind_session *session, iobind__pair pair, iobind_state_kind kind, iobind_error *error) {
  const char *why = kind == IOBIND_STATE_RECURRENT ? "which has no earlier rows"
                    : kind == IOBIND_STATE_WINDOW  ? "which has dropped earlier rows"
                    : session->model == NULL
                        ? "because the session's model is not known (create it from a file, or with IOBIND_SESSION_IDENTIFY)"
                        : "because the model's graph does not show it";
  return iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED,
                      "%s: '%s' to '%s': expected a growing state, its kind is %s, %s: save a state earlier, and restore it",
                      what, session->outputs[pair.output].label, session->inputs[pair.input].label, iobind__kind_word(kind),
                      why);
}

/* Are all states caches of fixed capacity whose length iobind counts? */
static iobind_status find_counted(const iobind__mover *self, bool *are_counted, iobind_error *error) {
  *are_counted = iobind__binding_get_used(self->binding).longest >= 0;
  for (size_t i = 0; i < self->count && *are_counted; i++) {
    const iobind__pair pair = iobind__binding_view_carry(self->binding, i);
    iobind__kind found;
    IOBIND__TRY(iobind__binding_find_kind(self->binding, pair, &found, error));
    *are_counted = found.kind == IOBIND_STATE_CAPACITY;
  }
  return IOBIND_OK;
}

static iobind_status find_axes(iobind__mover *self, iobind_error *error) {
  iobind_session *session = iobind__binding_session(self->binding);
  for (size_t i = 0; i < self->count; i++) {
    const iobind__pair pair = iobind__binding_view_carry(self->binding, i);
    iobind__kind found;
    IOBIND__TRY(iobind__binding_find_kind(self->binding, pair, &found, error));
    if (found.kind != IOBIND_STATE_GROWING) {
      return found.kind == IOBIND_STATE_CAPACITY ? refuse_capacity(session, pair, &found, error)
                                                 : refuse(session, pair, found.kind, error);
    }
    self->axes[i] = found.axis;
  }
  return session->graphs.limit == 0
             ? IOBIND_OK
             : iobind__fail(
                   error, IOBIND_ERROR_NOT_SUPPORTED,
                   "%s: the session captures graphs, whose states keep their dims: expected a session with graph_limit 0",
                   what);
}

/* ---- shorten ---- */

static iobind_status check_length(const iobind__mover *self, size_t length, int64_t *extent, iobind_error *error) {
  IOBIND__TRY(iobind__mover_measure(self, extent, error));
  return length <= (size_t)*extent
             ? IOBIND_OK
             : iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "%s: '%s': expected a length of 0 .. %lld, got %zu", what,
                            iobind__mover_name(self, 0), (long long)*extent, length);
}

/* The number of rows of a saved state. -1: it has not the same pairs, or different numbers of rows. */
static int64_t measure(const iobind__mover *self, const iobind_state *state) {
  int64_t extent = -1;
  for (size_t i = 0; i < self->count; i++) {
    const iobind__pair pair = iobind__binding_view_carry(self->binding, i);
    const iobind__kept *kept = iobind__state_find(state, pair);
    if (kept == NULL || self->axes[i] >= kept->tensor->rank || (extent >= 0 && kept->tensor->dims[self->axes[i]] != extent)) {
      return -1;
    }
    extent = kept->tensor->dims[self->axes[i]];
  }
  return extent;
}

/* The saved state of exactly this length from which the binding's states continue, with a reference for the caller; NULL: there
 * is none. *marks: the number of marks up to the last one that is not longer. */
static iobind_state *find_earlier(const iobind__mover *self, int64_t length, size_t *marks) {
  const iobind__marks *all = iobind__binding_marks(self->binding);
  for (size_t i = all->count; i > 0; i--) {
    iobind_state *state = (iobind_state *)iobind__weak_get(all->list[i - 1]);
    int64_t extent = state == NULL ? -1 : measure(self, state);
    if (extent >= 0 && extent <= length) {
      *marks = i;
      if (extent == length) {
        return state;
      }
      iobind_state_release(state);
      return NULL;
    }
    iobind_state_release(state);
  }
  *marks = 0;
  return NULL;
}

static iobind_status keep_first(const iobind__mover *self, size_t length, size_t marks, iobind_error *error) {
  int64_t *rows = calloc(length + 1, sizeof *rows);
  if (rows == NULL) {
    return iobind__out_of_memory(error, what);
  }
  for (size_t i = 0; i < length; i++) {
    rows[i] = (int64_t)i;
  }
  iobind_status status = iobind__mover_move(self, &(iobind__rows){rows, length}, marks, error);
  free(rows);
  return status;
}

static iobind_status shorten(const iobind__mover *self, size_t length, iobind_error *error) {
  size_t marks;
  iobind_state *earlier = find_earlier(self, (int64_t)length, &marks);
  if (earlier == NULL) {
    return keep_first(self, length, marks, error);
  }
  iobind_status status = iobind__renamed(iobind__state_restore(earlier, self->binding, error), error, what);
  iobind_state_release(earlier);
  return status;
}

static iobind_status rewind_all(iobind__mover *self, size_t length, iobind_error *error) {
  int64_t extent;
  bool are_counted;
  IOBIND__TRY(find_counted(self, &are_counted, error));
  if (are_counted) {
    return iobind__binding_rewind_length(self->binding, length > INT64_MAX ? INT64_MAX : (int64_t)length, what, error);
  }
  IOBIND__TRY(find_axes(self, error));
  IOBIND__TRY(iobind__mover_peek(self, error));
  IOBIND__TRY(check_length(self, length, &extent, error));
  return (int64_t)length == extent ? IOBIND_OK : shorten(self, length, error);
}

iobind_status iobind_binding_rewind_state(iobind_binding *binding, size_t length, iobind_error *error) {
  iobind__mover mover;
  IOBIND__TRY(iobind__null_check(binding, "binding", what, error));
  IOBIND__TRY(iobind__process_check(what, error));
  IOBIND__TRY(iobind__mover_open(&mover, binding, what, error));
  iobind_status status = rewind_all(&mover, length, error);
  iobind__mover_close(&mover);
  return iobind__named(status, error, what);
}
