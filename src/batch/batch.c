/* Batches: creation, destruction, and rows that join and leave. */
#include "batch/batch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/decimal.h"
#include "support/options.h"
#include "support/system.h"

/* ---- slots ---- */

iobind_status iobind__batch_find(iobind_batch *batch, uint64_t slot, const char *what, iobind__seat **seat,
                                 iobind_error *error) {
  const size_t index = (size_t)(slot & (((uint64_t)1 << IOBIND__SEAT_BITS) - 1));
  *seat = index < batch->most ? &batch->seats[index] : NULL;
  if (*seat == NULL || (*seat)->where == IOBIND__GONE || iobind__seat_slot(batch, *seat) != slot) {
    return iobind__fail(error, IOBIND_ERROR_NOT_FOUND, "%s: no row has the slot %#llx: it has left, or is of another batch",
                        what, (unsigned long long)slot);
  }
  return IOBIND_OK;
}

/* Out of memory: the failure is recorded without its message. */
void iobind__seat_end(iobind__seat *seat, iobind_status status, const iobind_error *failure) {
  free(seat->failure);
  seat->failure = status == IOBIND_OK ? NULL : malloc(sizeof *seat->failure);
  if (seat->failure != NULL) {
    *seat->failure = *failure;
  }
  seat->ended = status;
}

iobind_status iobind__seat_get_end(const iobind__seat *seat, const char *what, iobind_error *error) {
  if (seat->ended == IOBIND_OK) {
    return IOBIND_OK;
  }
  return seat->failure != NULL ? iobind__error_copy(error, seat->failure)
                               : iobind__fail(error, seat->ended, "%s: the row's step has failed", what);
}

void iobind__batch_rebind(iobind_batch *batch) {
  for (size_t i = 0; i < IOBIND__WIDTHS; i++) {
    for (int side = 0; side < IOBIND__SIDES; side++) {
      batch->readers[i][side].bound = 0;
      batch->readers[i][side].has_run = false;
    }
  }
}

void iobind__batch_take_turn(iobind_batch *batch) {
  const uint64_t ticket = batch->tickets++;
  while (batch->served != ticket) {
    (void)iobind__condition_wait(&batch->turned, &batch->mutex, UINT64_MAX);
  }
}

void iobind__batch_give_turn(iobind_batch *batch) {
  batch->served++;
  pthread_cond_broadcast(&batch->turned);
}

/* ---- rows ---- */

static iobind_status join(iobind_batch *batch, iobind_state *state, uint64_t *slot, iobind_error *error) {
  size_t index = 0;
  if (batch->is_stopped) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_STATE, "batch_join: the batch was stopped: no row joins any more");
  }
  while (index < batch->most && batch->seats[index].where != IOBIND__GONE) {
    index++;
  }
  if (index == batch->most) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_STATE, "batch_join: the batch has its most rows, %zu: let one leave",
                        batch->most);
  }
  iobind__seat *seat = &batch->seats[index];
  seat->serial = iobind__serial_next();
  seat->where = IOBIND__SAVED;
  seat->state = iobind_state_retain(state);
  batch->row_count++;
  *slot = iobind__seat_slot(batch, seat);
  return IOBIND_OK;
}

/* The state as a row has it: its caches have the batch's capacity. NULL: the first state. Returns a reference. */
static iobind_status fit_state(const iobind_batch *batch, iobind_state *state, iobind_state **row, const char *what,
                               iobind_error *error) {
  iobind_state *made;
  if (state == NULL) {
    *row = iobind_state_retain(batch->first);
    return IOBIND_OK;
  }
  IOBIND__TRY(iobind__batch_check_pairs(batch, state, what, error));
  IOBIND__TRY(iobind__renamed(iobind__state_widen(state, batch->first, &made, error), error, what));
  iobind_status status = iobind__batch_check_dims(batch, made, what, error);
  if (status != IOBIND_OK) {
    iobind_state_release(made);
    return status;
  }
  *row = made;
  return IOBIND_OK;
}

iobind_status iobind_batch_join(iobind_batch *batch, iobind_state *state, uint64_t *slot, iobind_error *error) {
  static const char what[] = "batch_join";
  IOBIND__TRY(iobind__null_check(batch, "batch", what, error));
  IOBIND__TRY(iobind__null_check(slot, "slot", what, error));
  IOBIND__TRY(iobind__process_check(what, error));
  iobind_state *row;
  IOBIND__TRY(fit_state(batch, state, &row, what, error));
  pthread_mutex_lock(&batch->mutex);
  iobind_status status = join(batch, row, slot, error);
  pthread_mutex_unlock(&batch->mutex);
  iobind_state_release(row);
  return status;
}

static void empty(iobind_batch *batch, iobind__seat *seat) {
  iobind__order_leave(batch, seat);
  for (size_t i = 0; i < batch->feed_count; i++) {
    iobind__brought_free(&seat->brought[i]);
    iobind__brought_free(&seat->taken[i]);
  }
  iobind__outcome_drop(seat->outcome);
  seat->outcome = NULL;
  iobind__seat_end(seat, IOBIND_OK, NULL);
  seat->turnout = IOBIND__UNASKED;
}

static iobind_status leave(iobind_batch *batch, uint64_t slot, iobind_state **state, iobind_error *error) {
  iobind__seat *seat;
  IOBIND__TRY(iobind__batch_settle(batch, error));
  IOBIND__TRY(iobind__batch_find(batch, slot, "batch_leave", &seat, error));
  if (state != NULL) {
    pthread_mutex_unlock(&batch->mutex);
    iobind_status status = iobind__batch_save_row(batch, seat, state, error);
    pthread_mutex_lock(&batch->mutex);
    IOBIND__TRY(status);
  }
  empty(batch, seat);
  batch->row_count--;
  pthread_cond_broadcast(&seat->changed);
  iobind__batch_wake(batch);
  return IOBIND_OK;
}

iobind_status iobind_batch_leave(iobind_batch *batch, uint64_t slot, iobind_state **state, iobind_error *error) {
  static const char what[] = "batch_leave";
  if (state != NULL) {
    *state = NULL;
  }
  IOBIND__TRY(iobind__null_check(batch, "batch", what, error));
  IOBIND__TRY(iobind__process_check(what, error));
  pthread_mutex_lock(&batch->mutex);
  iobind__batch_take_turn(batch);
  iobind_status status = leave(batch, slot, state, error);
  iobind__batch_give_turn(batch);
  pthread_mutex_unlock(&batch->mutex);
  return iobind__renamed(status, error, what);
}

/* ---- stop ---- */

void iobind_batch_stop(iobind_batch *batch) {
  if (batch == NULL || iobind__process_check("batch_stop", NULL) != IOBIND_OK) {
    return;
  }
  pthread_mutex_lock(&batch->mutex);
  batch->is_stopped = true;
  iobind__batch_wake(batch);
  for (size_t i = 0; i < batch->most; i++) {
    pthread_cond_broadcast(&batch->seats[i].changed);
  }
  pthread_mutex_unlock(&batch->mutex);
}

/* ---- info ---- */

iobind_status iobind_batch_get_info(iobind_batch *batch, iobind_batch_info *info, iobind_error *error) {
  IOBIND__TRY(iobind__null_check(batch, "batch", "batch_get_info", error));
  IOBIND__TRY(iobind__process_check("batch_get_info", error));
  iobind_batch_info full = IOBIND_BATCH_INFO_INIT;
  pthread_mutex_lock(&batch->mutex);
  full.row_count = batch->row_count;
  full.width = batch->blocks.rows;
  full.steps = batch->steps;
  full.moved_rows = batch->moved;
  for (size_t i = 0; i < batch->column_count; i++) {
    full.bytes += batch->sides[0].tensors[i]->bytes + batch->sides[1].tensors[i]->bytes;
    full.bytes += batch->store.tensors == NULL ? 0 : batch->store.tensors[i]->bytes;
  }
  pthread_mutex_unlock(&batch->mutex);
  return IOBIND__INFO_WRITE(info, &full, "batch_get_info", error);
}

/* ---- destruction ---- */

static void free_feeds(iobind_batch *batch) {
  for (size_t i = 0; i < batch->feed_count; i++) {
    iobind_tensor_release(batch->feeds[i].staging);
    iobind_tensor_release(batch->feeds[i].target);
  }
  for (size_t i = 0; batch->shared != NULL && i < batch->session->input_count; i++) {
    iobind_tensor_release(batch->shared[i]);
  }
  free(batch->feeds);
  free(batch->shared);
  free(batch->input_axes);
  free(batch->output_axes);
}

static void free_seats(iobind_batch *batch) {
  for (size_t i = 0; batch->seats != NULL && i < batch->most; i++) {
    iobind__seat *seat = &batch->seats[i];
    if (seat->brought != NULL && seat->taken != NULL) {
      empty(batch, seat);
    }
    free(seat->brought);
    free(seat->taken);
    pthread_cond_destroy(&seat->changed);
  }
  free(batch->seats);
  free(batch->dense);
  free(batch->repeats);
  free(batch->asked);
  free(batch->stepped);
  free(batch->tried);
  free(batch->sources);
  free(batch->costs.runs);
}

/* Frees a batch that may be incomplete. */
static void free_batch(iobind_batch *batch) {
  for (size_t i = 0; i < IOBIND__WIDTHS; i++) {
    for (int side = 0; side < IOBIND__SIDES; side++) {
      iobind_binding_destroy(batch->readers[i][side].binding);
    }
  }
  iobind_binding_destroy(batch->moving);
  iobind_session_destroy(batch->mover);
  free_seats(batch);
  free_feeds(batch);
  for (int side = 0; side < IOBIND__SIDES; side++) {
    iobind__rows_free(batch, &batch->sides[side]);
  }
  iobind__rows_free(batch, &batch->store);
  iobind_state_release(batch->first);
  free(batch->columns);
  pthread_cond_destroy(&batch->submitted);
  pthread_cond_destroy(&batch->turned);
  pthread_mutex_destroy(&batch->mutex);
  iobind__ref_release(&batch->session->ref);
  free(batch);
}

void iobind_batch_destroy(iobind_batch *batch) {
  if (batch == NULL || iobind__process_check("batch_destroy", NULL) != IOBIND_OK) {
    return;
  }
  pthread_mutex_lock(&batch->mutex);
  iobind__batch_take_turn(batch);
  (void)iobind__batch_settle(batch, NULL);
  pthread_mutex_unlock(&batch->mutex);
  free_batch(batch);
}

/* ---- creation ---- */

static const char what[] = "batch_create";

static iobind_status check_pair(const iobind_batch *batch, const iobind_batch_pair *pair, iobind_error *error) {
  const iobind_session *session = batch->session;
  if (pair->output >= session->output_count || pair->input >= session->input_count) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT,
                        "%s: a pair: expected an output below %zu and an input below %zu, got %zu and %zu", what,
                        session->output_count, session->input_count, pair->output, pair->input);
  }
  const iobind__value *output = &session->outputs[pair->output];
  const iobind__value *input = &session->inputs[pair->input];
  if (output->dtype != input->dtype) {
    return iobind__fail(error, IOBIND_ERROR_DTYPE, "%s: output '%s' is %s, input '%s' %s", what, output->label,
                        iobind_dtype_get_name((int32_t)output->dtype), input->label,
                        iobind_dtype_get_name((int32_t)input->dtype));
  }
  const int32_t axis = batch->input_axes[pair->input];
  if (axis == IOBIND_BATCH_NO_AXIS || axis != batch->output_axes[pair->output] || output->rank != input->rank) {
    return iobind__fail(error, IOBIND_ERROR_SHAPE,
                        "%s: output '%s' and input '%s': expected the same rank and batch axis, got ranks %zu and %zu, axes %d "
                        "and %d",
                        what, output->label, input->label, output->rank, input->rank, (int)batch->output_axes[pair->output],
                        (int)axis);
  }
  return IOBIND_OK;
}

/* A state that grows with each step does not fit into the preallocated memory. */
static iobind_status check_growth(const iobind_batch *batch, const iobind_batch_pair *pair, iobind_error *error) {
  const iobind__value *output = &batch->session->outputs[pair->output];
  const iobind__value *input = &batch->session->inputs[pair->input];
  for (size_t i = 0; i < input->rank; i++) {
    bool named = output->symbol_ids[i] >= 0 && input->symbol_ids[i] >= 0;
    bool differ = output->dims[i] >= 0 && input->dims[i] >= 0 ? output->dims[i] != input->dims[i]
                                                              : named && output->symbol_ids[i] != input->symbol_ids[i];
    if (differ) {
      return iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED,
                          "%s: output '%s' and input '%s' differ in dim %zu: a state of a batch keeps its dims", what,
                          output->label, input->label, i);
    }
  }
  return IOBIND_OK;
}

static int compare_columns(const void *a, const void *b) {
  const size_t left = ((const iobind__column *)a)->input;
  const size_t right = ((const iobind__column *)b)->input;
  return (left > right) - (left < right);
}

static iobind_status make_columns(iobind_batch *batch, const iobind_batch_options *options, iobind_error *error) {
  batch->columns = calloc(options->pair_count + 1, sizeof batch->columns[0]);
  if (batch->columns == NULL) {
    return iobind__out_of_memory(error, what);
  }
  for (size_t i = 0; i < options->pair_count; i++) {
    const iobind_batch_pair *pair = &options->pairs[i];
    IOBIND__TRY(check_pair(batch, pair, error));
    IOBIND__TRY(check_growth(batch, pair, error));
    for (size_t j = 0; j < i; j++) {
      if (batch->columns[j].input == pair->input || batch->columns[j].output == pair->output) {
        return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "%s: '%s' and '%s': each can be in one pair", what,
                            batch->session->outputs[pair->output].label, batch->session->inputs[pair->input].label);
      }
    }
    batch->columns[i] = (iobind__column){.output = pair->output, .input = pair->input};
  }
  batch->column_count = options->pair_count;
  qsort(batch->columns, batch->column_count, sizeof batch->columns[0], compare_columns);
  return IOBIND_OK;
}

/* The dims of one row: those of the first state; without one, the model's, which must all be fixed. */
static iobind_status shape_column(iobind_batch *batch, size_t index, const iobind_state *first, iobind_error *error) {
  iobind__column *column = &batch->columns[index];
  const iobind__value *input = &batch->session->inputs[column->input];
  const int32_t axis = batch->input_axes[column->input];
  const iobind_tensor *given = first != NULL && index < first->count ? first->kept[index].tensor : NULL;
  column->rank = input->rank;
  for (size_t i = 0; i < input->rank; i++) {
    column->dims[i] = i == (size_t)axis ? 1 : given != NULL && given->rank == input->rank ? given->dims[i] : input->dims[i];
    if (column->dims[i] < 0) {
      return iobind__fail(error, IOBIND_ERROR_SHAPE,
                          "%s: the model leaves dim %zu of the state '%s' open: give the first state of a row", what, i,
                          input->label);
    }
  }
  column->layout = iobind__layout_of(input->dtype, column->dims, column->rank, axis);
  return IOBIND_OK;
}

static iobind_status zero(iobind_batch *batch, iobind__rows_of *rows, iobind_error *error) {
  iobind_status status = IOBIND_OK;
  for (size_t i = 0; status == IOBIND_OK && i < batch->column_count; i++) {
    const size_t bytes = rows->tensors[i]->bytes;
    void *zeros = calloc(1, bytes + 1);
    status = zeros == NULL ? iobind__out_of_memory(error, what)
                           : iobind_tensor_write(rows->tensors[i], 0, zeros, bytes, NULL, error);
    free(zeros);
  }
  return status;
}

/* All are views of the largest one, as far as they are in its memory location: it stays in the processor's caches while a row that
 * begins with zeros is copied. */
static iobind_status share_zeros(const iobind_batch *batch, const iobind__rows_of *rows, iobind_error *error) {
  size_t largest = 0;
  for (size_t i = 0; i < batch->column_count; i++) {
    largest = rows->tensors[i]->bytes > rows->tensors[largest]->bytes ? i : largest;
  }
  for (size_t i = 0; i < batch->column_count; i++) {
    iobind_tensor *own = rows->tensors[i];
    iobind_tensor *all = rows->tensors[largest];
    if (own != all && own->bytes > 0 && own->place == all->place && all->place->addressable) {
      iobind_tensor *view;
      IOBIND__TRY(iobind_tensor_view(all, 0, own->dtype, own->dims, own->rank, &view, error));
      rows->tensors[i] = view;
      iobind_tensor_release(own);
    }
  }
  return IOBIND_OK;
}

static iobind_status make_zeros(iobind_batch *batch, iobind_state **state, iobind_error *error) {
  iobind__rows_of rows;
  IOBIND__TRY(iobind__rows_make(batch, 1, &rows, error));
  iobind_status status = zero(batch, &rows, error);
  if (status == IOBIND_OK) {
    status = share_zeros(batch, &rows, error);
  }
  if (status == IOBIND_OK) {
    status = iobind__rows_to_state(batch, &rows, state, error);
  }
  iobind__rows_free(batch, &rows);
  return status;
}

static iobind_status make_states(iobind_batch *batch, const iobind_batch_options *options, iobind_error *error) {
  IOBIND__TRY(make_columns(batch, options, error));
  if (options->first != NULL) {
    IOBIND__TRY(iobind__renamed(iobind__state_widen(options->first, NULL, &batch->first, error), error, what));
  }
  for (size_t i = 0; i < batch->column_count; i++) {
    IOBIND__TRY(shape_column(batch, i, batch->first, error));
  }
  if (options->first != NULL) {
    IOBIND__TRY(iobind__batch_check_pairs(batch, batch->first, what, error));
    IOBIND__TRY(iobind__batch_check_dims(batch, batch->first, what, error));
  } else {
    IOBIND__TRY(make_zeros(batch, &batch->first, error));
  }
  for (int side = 0; side < IOBIND__SIDES; side++) { /* unused rows of a block run, too, and must hold valid numbers */
    IOBIND__TRY(iobind__rows_make(batch, batch->room, &batch->sides[side], error));
    IOBIND__TRY(zero(batch, &batch->sides[side], error));
  }
  return IOBIND_OK;
}

/* Feeds are the inputs that have a batch axis and are not states. */
static iobind_status make_feeds(iobind_batch *batch, iobind_error *error) {
  const iobind_session *session = batch->session;
  batch->feeds = calloc(session->input_count + 1, sizeof batch->feeds[0]);
  if (batch->feeds == NULL) {
    return iobind__out_of_memory(error, what);
  }
  for (size_t i = 0; i < session->input_count; i++) {
    if (!iobind__batch_carries(batch, i) && batch->input_axes[i] != IOBIND_BATCH_NO_AXIS) {
      batch->feeds[batch->feed_count++] = (iobind__feed){.input = i, .axis = batch->input_axes[i]};
    }
  }
  return IOBIND_OK;
}

/* Can a block that does not begin at 0 be bound? Only in memory with addresses. */
static bool has_addresses(const iobind_batch *batch) {
  bool has = true;
  for (size_t i = 0; i < batch->session->input_count; i++) {
    has = has && (batch->input_axes[i] == IOBIND_BATCH_NO_AXIS || batch->session->inputs[i].place->addressable);
  }
  return has;
}

static iobind_status make_seats(iobind_batch *batch, iobind_error *error) {
  batch->seats = calloc(batch->most, sizeof batch->seats[0]);
  for (size_t i = 0; batch->seats != NULL && i < batch->most; i++) {
    iobind__condition_init(&batch->seats[i].changed);
  }
  batch->dense = calloc(batch->room, sizeof batch->dense[0]);
  batch->repeats = calloc(batch->room, sizeof batch->repeats[0]);
  batch->asked = calloc(batch->most, sizeof batch->asked[0]);
  batch->stepped = calloc(batch->most, sizeof batch->stepped[0]);
  batch->tried = calloc(batch->room + 1, sizeof batch->tried[0]);
  batch->costs.runs = calloc(batch->room + 1, sizeof batch->costs.runs[0]);
  batch->sources = calloc(batch->session->input_count + 1, sizeof batch->sources[0]);
  bool made = batch->seats != NULL && batch->dense != NULL && batch->repeats != NULL && batch->asked != NULL &&
              batch->stepped != NULL && batch->tried != NULL && batch->costs.runs != NULL && batch->sources != NULL;
  for (size_t i = 0; made && i < batch->room; i++) {
    batch->dense[i] = IOBIND__NOBODY;
  }
  for (size_t i = 0; made && i < batch->most; i++) {
    batch->seats[i].brought = calloc(batch->feed_count + 1, sizeof(iobind__brought));
    batch->seats[i].taken = calloc(batch->feed_count + 1, sizeof(iobind__brought));
    made = batch->seats[i].brought != NULL && batch->seats[i].taken != NULL;
  }
  return made ? IOBIND_OK : iobind__out_of_memory(error, what);
}

static iobind_status make(iobind_batch *batch, const iobind_batch_options *options, iobind_error *error) {
  const iobind_session *session = batch->session;
  batch->input_axes = calloc(session->input_count + 1, sizeof batch->input_axes[0]);
  batch->output_axes = calloc(session->output_count + 1, sizeof batch->output_axes[0]);
  batch->shared = calloc(session->input_count + 1, sizeof(iobind_tensor *));
  if (batch->input_axes == NULL || batch->output_axes == NULL || batch->shared == NULL) {
    return iobind__out_of_memory(error, what);
  }
  IOBIND__TRY(iobind__axes_find(batch, options, error));
  IOBIND__TRY(make_states(batch, options, error));
  IOBIND__TRY(make_feeds(batch, error));
  iobind__batch_find_lengths(batch);
  batch->splits = batch->captures && has_addresses(batch);
  return make_seats(batch, error);
}

static iobind_status check_options(const iobind_session *session, const iobind_batch_options *options, iobind_error *error) {
  IOBIND__TRY(iobind__flags_check(options->flags, IOBIND_BATCH_ON_DEVICE, what, error));
  if (options->most_rows == 0 || options->most_rows > IOBIND__MOST_ROWS) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "%s: most_rows: expected 1 .. %d, got %zu", what,
                        (int)IOBIND__MOST_ROWS, options->most_rows);
  }
  if ((options->pairs == NULL) != (options->pair_count == 0)) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "%s: pairs: expected an array and its length, got %s and %zu",
                        what, options->pairs == NULL ? "NULL" : "an array", options->pair_count);
  }
  if (options->pair_count > session->output_count) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "%s: expected at most %zu pairs, one for each output, got %zu",
                        what, session->output_count, options->pair_count);
  }
  if (!(options->tolerance >= 0) || isinf(options->tolerance)) {
    char got[IOBIND__DECIMAL_TEXT];
    iobind__decimal_text(options->tolerance, 3, got);
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "%s: tolerance: expected a finite number, 0 or more, got %s",
                        what, got);
  }
  return IOBIND_OK;
}

static iobind_status create(iobind_session *session, const iobind_batch_options *options, iobind_batch **out,
                            iobind_error *error) {
  IOBIND__TRY(check_options(session, options, error));
  iobind_batch *batch = calloc(1, sizeof *batch);
  if (batch == NULL) {
    return iobind__out_of_memory(error, what);
  }
  iobind__ref_retain(&session->ref);
  batch->session = session;
  batch->flags = options->flags;
  batch->tolerance = options->tolerance;
  batch->most = options->most_rows;
  batch->captures = session->graphs.limit > 0;
  batch->room = iobind__order_width(batch, batch->most);
  batch->leader = IOBIND__NO_LEADER;
  batch->enough = SIZE_MAX;
  pthread_mutex_init(&batch->mutex, NULL);
  iobind__condition_init(&batch->submitted);
  iobind__condition_init(&batch->turned);
  iobind_status status = make(batch, options, error);
  if (status != IOBIND_OK) {
    free_batch(batch);
    return status;
  }
  *out = batch;
  return IOBIND_OK;
}

iobind_status iobind_batch_create(iobind_session *session, const iobind_batch_options *options, iobind_batch **batch,
                                  iobind_error *error) {
  iobind_batch_options given;
  if (batch != NULL) {
    *batch = NULL;
  }
  IOBIND__TRY(iobind__null_check(session, "session", what, error));
  IOBIND__TRY(iobind__null_check(options, "options", what, error));
  IOBIND__TRY(iobind__null_check(batch, "batch", what, error));
  IOBIND__TRY(iobind__process_check(what, error));
  IOBIND__TRY(IOBIND__OPTIONS_READ(&given, options, what, error));
  return iobind__renamed(create(session, &given, batch, error), error, what);
}
