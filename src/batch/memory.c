/* The tensors of rows of all states. */
#include <stdlib.h>
#include <string.h>

#include "batch/batch.h"
#include "session/kind.h"

static void dims_of(const iobind__column *column, size_t width, int64_t dims[IOBIND_MAX_RANK]) {
  memcpy(dims, column->dims, column->rank * sizeof dims[0]);
  dims[column->layout.axis] = (int64_t)width;
}

iobind_status iobind__rows_make(iobind_batch *batch, size_t width, iobind__rows_of *out, iobind_error *error) {
  iobind__rows_of made = {.tensors = calloc(batch->column_count + 1, sizeof(iobind_tensor *)), .width = width};
  iobind_status status = made.tensors == NULL ? iobind__out_of_memory(error, "batch") : IOBIND_OK;
  for (size_t i = 0; status == IOBIND_OK && i < batch->column_count; i++) {
    const iobind__column *column = &batch->columns[i];
    const iobind__value *input = &batch->session->inputs[column->input];
    int64_t dims[IOBIND_MAX_RANK];
    dims_of(column, width, dims);
    const iobind__form form = {input->dtype, dims, column->rank};
    status = iobind__tensor_create_at(input->place, form, &made.tensors[i], error);
  }
  if (status != IOBIND_OK) {
    iobind__rows_free(batch, &made);
    return status;
  }
  *out = made;
  return IOBIND_OK;
}

void iobind__rows_free(const iobind_batch *batch, iobind__rows_of *self) {
  iobind__tensors_release(self->tensors, batch->column_count);
  free(self->tensors);
  *self = (iobind__rows_of){0};
}

iobind_status iobind__rows_view(iobind_tensor *tensor, const iobind__column *column, const iobind__block *block,
                                iobind_tensor **view, iobind_error *error) {
  int64_t dims[IOBIND_MAX_RANK];
  const size_t row = column->layout.lead * column->layout.piece;
  dims_of(column, block->width, dims);
  return iobind_tensor_view(tensor, block->offset * row, tensor->dtype, dims, column->rank, view, error);
}

/* ---- states of one row ---- */

iobind_status iobind__rows_to_state(iobind_batch *batch, iobind__rows_of *rows, iobind_state **out, iobind_error *error) {
  iobind_state *state;
  IOBIND__TRY(iobind__state_allocate(batch->session, batch->column_count, "batch_save_state", &state, error));
  for (size_t i = 0; i < batch->column_count; i++) {
    const iobind__column *column = &batch->columns[i];
    state->kept[i] = (iobind__kept){.pair = {.output = column->output, .input = column->input}, .tensor = rows->tensors[i]};
    rows->tensors[i]->read_only = true;
    rows->tensors[i] = NULL;
  }
  iobind__rows_free(batch, rows);
  *out = state;
  return IOBIND_OK;
}

/* Columns and a state's tensors are both in the order of the inputs. */
void iobind__rows_of_state(const iobind_batch *batch, const iobind_state *state, iobind_tensor **tensors) {
  for (size_t i = 0; i < batch->column_count; i++) {
    tensors[i] = state->kept[i].tensor;
  }
}

/* The number of axes on which the dims differ, and the last one of them. */
static size_t count_differences(const iobind__column *column, const iobind_tensor *tensor, size_t *axis) {
  size_t count = 0;
  for (size_t i = 0; i < column->rank; i++) {
    const bool differs = tensor->dims[i] != column->dims[i];
    count += differs;
    *axis = differs ? i : *axis;
  }
  return count;
}

/* Is the axis that of a cache's capacity? */
static bool has_capacity(const iobind_batch *batch, const iobind__column *column, size_t axis) {
  iobind__kind kind;
  return iobind__session_known_kind(batch->session, column->output, column->input, &kind, NULL) == IOBIND_OK &&
         kind.kind == IOBIND_STATE_CAPACITY && kind.axis == axis;
}

static iobind_status check_dims(const iobind_batch *batch, const iobind__column *column, const iobind__kept *kept,
                                const char *what, iobind_error *error) {
  const iobind_tensor *tensor = kept->tensor;
  const char *label = batch->session->inputs[column->input].label;
  size_t axis = 0;
  const size_t differences = tensor->rank == column->rank ? count_differences(column, tensor, &axis) : SIZE_MAX;
  if (differences == 0) {
    return IOBIND_OK;
  }
  const iobind__prefix *prefix = &kept->prefix;
  if (differences == 1 && prefix->is_used && prefix->axis == axis && prefix->length > column->dims[axis]) {
    return iobind__fail(
        error, IOBIND_ERROR_SHAPE,
        "%s: '%s': the state has %lld rows in use, but the batch has room for only %lld: give it a larger first "
        "state",
        what, label, (long long)prefix->length, (long long)column->dims[axis]);
  }
  char expected[IOBIND__SHAPE_TEXT];
  char got[IOBIND__SHAPE_TEXT];
  iobind__shape_text((iobind__form){tensor->dtype, column->dims, column->rank}, NULL, expected, sizeof expected);
  iobind__shape_text(iobind__form_of(tensor), NULL, got, sizeof got);
  const bool is_other_capacity = differences == 1 && !prefix->is_used && has_capacity(batch, column, axis);
  return iobind__fail(error, IOBIND_ERROR_SHAPE, "%s: the state of '%s': expected one row, %s, got %s%s", what, label, expected,
                      got,
                      is_other_capacity ? ": a cache of another capacity joins if iobind counts its length "
                                          "(iobind_binding_write_lengths) where it is saved"
                                        : "");
}

iobind_status iobind__batch_check_pairs(const iobind_batch *batch, const iobind_state *state, const char *what,
                                        iobind_error *error) {
  if (state->session != batch->session) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT,
                        "%s: the state is of another session: save it to a file and load that for this one", what);
  }
  bool same = state->count == batch->column_count;
  for (size_t i = 0; same && i < state->count; i++) {
    same = state->kept[i].pair.input == batch->columns[i].input && state->kept[i].pair.output == batch->columns[i].output;
  }
  return same ? IOBIND_OK
              : iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "%s: expected a state of the batch's %zu pairs, got others",
                             what, batch->column_count);
}

iobind_status iobind__batch_check_dims(const iobind_batch *batch, const iobind_state *state, const char *what,
                                       iobind_error *error) {
  for (size_t i = 0; i < state->count; i++) {
    IOBIND__TRY(check_dims(batch, &batch->columns[i], &state->kept[i], what, error));
  }
  return IOBIND_OK;
}
