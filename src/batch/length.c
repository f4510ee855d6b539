/* Lengths of caches of fixed capacity among the inputs of a row: refused when they are given, if the caches have no room. */
#include "batch/batch.h"
#include "session/kind.h"

/* How many rows of the cache a value of this role needs beyond itself; -1: not known. A row adds at least one. */
static int64_t needed_beyond(iobind_length_role role) {
  switch (role) {
    case IOBIND_LENGTH_BEFORE:
    case IOBIND_LENGTH_LAST:
    case IOBIND_LENGTH_POSITIONS: return 1;
    case IOBIND_LENGTH_AFTER: return 0;
    default: return -1;
  }
}

static void note_limit(iobind__feed *feed, int64_t most) {
  feed->longest = !feed->is_limited || most < feed->longest ? most : feed->longest;
  feed->is_limited = true;
}

static void note_kind(iobind_batch *batch, const iobind__column *column, const iobind__kind *kind) {
  for (size_t i = 0; i < kind->length_count; i++) {
    const int64_t beyond = needed_beyond(kind->roles[i]);
    for (size_t f = 0; beyond >= 0 && f < batch->feed_count; f++) {
      if (batch->feeds[f].input == kind->lengths[i]) {
        note_limit(&batch->feeds[f], column->dims[kind->axis] - beyond);
      }
    }
  }
}

void iobind__batch_find_lengths(iobind_batch *batch) {
  bool any = false;
  for (size_t i = 0; i < batch->feed_count; i++) {
    any = any || iobind__length_has_type(batch->session->inputs[batch->feeds[i].input].dtype);
  }
  for (size_t i = 0; any && i < batch->column_count; i++) {
    const iobind__column *column = &batch->columns[i];
    iobind__kind kind;
    if (iobind__session_known_kind(batch->session, column->output, column->input, &kind, NULL) == IOBIND_OK &&
        kind.kind == IOBIND_STATE_CAPACITY && kind.axis < column->rank) {
      note_kind(batch, column, &kind);
    }
  }
}

iobind_status iobind__feed_check_lengths(const iobind_batch *batch, const iobind__feed *feed, const iobind_tensor *row,
                                         const void *data, iobind_error *error) {
  iobind__length_value wrong;
  if (!feed->is_limited || !iobind__length_has_type(row->dtype) ||
      !iobind__length_find_wrong(row, data, feed->longest, &wrong)) {
    return IOBIND_OK;
  }
  return iobind__fail(
      error, IOBIND_ERROR_INVALID_ARGUMENT,
      "batch_set_input: '%s': element %zu: expected a length of 0 to %lld, for which the caches have room, got %lld",
      batch->session->inputs[feed->input].label, wrong.element, (long long)feed->longest, (long long)wrong.value);
}
