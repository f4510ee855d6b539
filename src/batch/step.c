/* A step: moves its rows together, copies their inputs, and runs from one side of the states to the other. Only if all that
 * succeeds does the batch change. */
#include <stdlib.h>
#include <string.h>

#include "batch/batch.h"
#include "support/system.h"

/* ---- bindings ---- */

static bool is_state_output(const iobind_batch *batch, size_t output) {
  bool is = false;
  for (size_t i = 0; i < batch->column_count; i++) {
    is = is || batch->columns[i].output == output;
  }
  return is;
}

/* The reader for a run of the block. */
static iobind__reader *find_reader(iobind_batch *batch, const iobind__block *block) {
  size_t index = 0;
  while (batch->captures && (size_t)1 << index < block->width) {
    index++;
  }
  return &batch->readers[index][batch->side];
}

/* A block, and the binding of its width. */
typedef struct part {
  const iobind__block *block;
  iobind_binding *binding;
} part;

static iobind_status bind_column(iobind_batch *batch, const part *self, size_t index, iobind_error *error) {
  const int side = batch->side;
  const iobind__column *column = &batch->columns[index];
  iobind_tensor *from = NULL;
  iobind_tensor *to = NULL;
  iobind_status status = iobind__rows_view(batch->sides[side].tensors[index], column, self->block, &from, error);
  if (status == IOBIND_OK) {
    status = iobind__rows_view(batch->sides[1 - side].tensors[index], column, self->block, &to, error);
  }
  if (status == IOBIND_OK) {
    status = iobind_binding_set_input(self->binding, column->input, IOBIND_INPUT_RESIDENT, from, NULL, error);
  }
  if (status == IOBIND_OK) {
    status = iobind_binding_set_output(self->binding, column->output, to, 0, error);
  }
  iobind_tensor_release(from);
  iobind_tensor_release(to);
  return status;
}

static iobind_status bind_feed(const part *self, const iobind__feed *feed, iobind_error *error) {
  iobind_tensor *view;
  IOBIND__TRY(iobind__feed_view(feed, feed->target != NULL ? feed->target : feed->staging, self->block, &view, error));
  iobind_status status = iobind_binding_set_input(self->binding, feed->input, IOBIND_INPUT_RESIDENT, view, NULL, error);
  iobind_tensor_release(view);
  return status;
}

/* Place an output that is not a state. With graphs it stays on the device, and is copied from there. */
static iobind_status place_output(const iobind_batch *batch, iobind_binding *binding, size_t index, iobind_error *error) {
  const bool stays = batch->captures || (batch->flags & IOBIND_BATCH_ON_DEVICE) != 0;
  iobind_device *where = stays ? NULL : batch->session->runtime->cpu;
  return iobind_binding_place_output(binding, index, batch->captures ? IOBIND_OUTPUT_REUSE : IOBIND_OUTPUT_FRESH, where,
                                     IOBIND_MEMORY_DEFAULT, error);
}

static iobind_status bind_all(iobind_batch *batch, const part *self, iobind_error *error) {
  IOBIND__TRY(iobind_binding_clear(self->binding, error));
  for (size_t i = 0; i < batch->column_count; i++) {
    IOBIND__TRY(bind_column(batch, self, i, error));
  }
  for (size_t i = 0; i < batch->feed_count; i++) {
    IOBIND__TRY(bind_feed(self, &batch->feeds[i], error));
  }
  for (size_t i = 0; i < batch->session->input_count; i++) {
    if (batch->shared[i] != NULL) {
      IOBIND__TRY(iobind_binding_set_input(self->binding, i, IOBIND_INPUT_RESIDENT, batch->shared[i], NULL, error));
    }
  }
  for (size_t i = 0; i < batch->session->output_count; i++) {
    if (!is_state_output(batch, i)) {
      IOBIND__TRY(place_output(batch, self->binding, i, error));
    }
  }
  return IOBIND_OK;
}

static iobind_status bind(iobind_batch *batch, const iobind__block *block, iobind_error *error) {
  iobind__reader *reader = find_reader(batch, block);
  if (reader->bound == block->width) {
    return IOBIND_OK;
  }
  reader->bound = 0;
  reader->has_run = false;
  if (reader->binding == NULL) {
    IOBIND__TRY(iobind_binding_create(batch->session, &reader->binding, error));
  }
  IOBIND__TRY(bind_all(batch, &(part){block, reader->binding}, error));
  reader->bound = block->width;
  return IOBIND_OK;
}

/* ---- outcomes ---- */

static void free_outcome(iobind__ref *ref) {
  iobind__outcome *outcome = (iobind__outcome *)ref;
  iobind__tensors_release(outcome->outputs, outcome->count);
  free(outcome);
}

void iobind__outcome_drop(iobind__outcome *outcome) {
  iobind__ref_release(outcome == NULL ? NULL : &outcome->ref);
}

static iobind_status check_output(const iobind_batch *batch, size_t index, const iobind__outcome *outcome,
                                  iobind_error *error) {
  const iobind_tensor *output = outcome->outputs[index];
  const int32_t axis = batch->output_axes[index];
  bool fits = axis == IOBIND_BATCH_NO_AXIS || ((size_t)axis < output->rank && output->dims[axis] == (int64_t)outcome->width);
  if (fits) {
    return IOBIND_OK;
  }
  char got[IOBIND__SHAPE_TEXT];
  iobind__shape_text(iobind__form_of(output), NULL, got, sizeof got);
  return iobind__fail(error, IOBIND_ERROR_SHAPE, "batch_run: output '%s': expected %zu rows on axis %d, got %s",
                      batch->session->outputs[index].label, outcome->width, (int)axis, got);
}

/* Take an output that no later step overwrites. The memory of a graph is copied. */
static iobind_status take_output(const iobind_batch *batch, iobind_binding *binding, size_t index, iobind_tensor **output,
                                 iobind_error *error) {
  if (!batch->captures) {
    return iobind_binding_take_output(binding, index, output, error);
  }
  iobind_tensor *made;
  IOBIND__TRY(iobind_binding_get_output(binding, index, NULL, &made, error));
  const bool stays = (batch->flags & IOBIND_BATCH_ON_DEVICE) != 0;
  iobind__place *place = stays ? made->place : &batch->session->runtime->cpu->places[IOBIND_MEMORY_DEFAULT];
  IOBIND__TRY(iobind__tensor_create_at(place, iobind__form_of(made), output, error));
  return iobind_tensor_copy((const iobind_tensor *const *)&made, output, 1, NULL, error);
}

static iobind_status collect(iobind_batch *batch, iobind_binding *binding, iobind__outcome *outcome, iobind_error *error) {
  for (size_t i = 0; i < outcome->count; i++) {
    if (!is_state_output(batch, i)) {
      IOBIND__TRY(take_output(batch, binding, i, &outcome->outputs[i], error));
      IOBIND__TRY(check_output(batch, i, outcome, error));
    }
  }
  return IOBIND_OK;
}

static iobind_status make_outcome(iobind_batch *batch, const iobind__block *block, iobind__outcome **out, iobind_error *error) {
  const size_t count = batch->session->output_count;
  iobind__outcome *outcome = calloc(1, sizeof *outcome + count * sizeof outcome->outputs[0]);
  if (outcome == NULL) {
    return iobind__out_of_memory(error, "batch_run");
  }
  iobind__ref_init(&outcome->ref, free_outcome);
  outcome->width = block->width;
  outcome->count = count;
  iobind_status status = collect(batch, find_reader(batch, block)->binding, outcome, error);
  if (status != IOBIND_OK) {
    iobind__outcome_drop(outcome);
    return status;
  }
  *out = outcome;
  return IOBIND_OK;
}

static void hand_out(iobind_batch *batch, const iobind__block *block, iobind__outcome *outcome) {
  for (size_t i = 0; i < batch->asked_count; i++) {
    iobind__seat *seat = &batch->seats[batch->asked[i]];
    if (seat->dense >= block->offset && seat->dense - block->offset < block->width) {
      iobind__outcome_drop(seat->outcome);
      iobind__ref_retain(&outcome->ref);
      seat->outcome = outcome;
      seat->row = seat->dense - block->offset;
      iobind__seat_end(seat, IOBIND_OK, NULL);
    }
  }
}

static void commit(iobind_batch *batch, iobind__outcome *const outcomes[]) {
  pthread_mutex_lock(&batch->mutex);
  for (size_t i = 0; i < batch->blocks.count; i++) {
    hand_out(batch, &batch->blocks.of[i], outcomes[i]);
  }
  batch->side = 1 - batch->side;
  batch->steps++;
  pthread_mutex_unlock(&batch->mutex);
}

/* Called when the run is complete. */
static iobind_status finish(iobind_batch *batch, iobind_error *error) {
  iobind__outcome *outcomes[IOBIND__WIDTHS] = {NULL};
  iobind_status status = IOBIND_OK;
  for (size_t i = 0; status == IOBIND_OK && i < batch->blocks.count; i++) {
    status = make_outcome(batch, &batch->blocks.of[i], &outcomes[i], error);
  }
  if (status == IOBIND_OK) {
    status = iobind__order_put_back(batch, error);
  }
  if (status == IOBIND_OK) {
    commit(batch, outcomes);
  }
  for (size_t i = 0; i < batch->blocks.count; i++) {
    iobind__outcome_drop(outcomes[i]);
  }
  return status;
}

/* ---- runs ---- */

/* The failure may be due to the state of a row that ran along. Unused rows have a state that is asked for. */
static void note_failure(iobind_batch *batch) {
  for (size_t i = 0; i < batch->room; i++) {
    batch->is_strict = batch->is_strict || (batch->dense[i] != IOBIND__NOBODY && !iobind__batch_asks(batch, batch->dense[i]));
  }
}

/* The first run with graphs is not measured: it captures, which takes much longer than a replay. */
static void note_time(iobind_batch *batch, iobind__reader *reader, uint64_t took) {
  uint64_t *least = &batch->costs.runs[reader->bound];
  if ((!batch->captures || reader->has_run) && (*least == 0 || took < *least)) {
    *least = took;
  }
  reader->has_run = true;
}

static iobind_status run_block(iobind_batch *batch, const iobind__block *block, iobind_stream *stream, iobind_error *error) {
  iobind__reader *reader = find_reader(batch, block);
  const uint64_t begin = iobind__clock_ns();
  IOBIND__TRY(iobind_binding_run(reader->binding, stream, error));
  if (stream == NULL) {
    note_time(batch, reader, iobind__clock_ns() - begin);
  }
  return IOBIND_OK;
}

/* If a block's run fails, the runs that were submitted before it are complete on return. */
static iobind_status run(iobind_batch *batch, iobind_stream *stream, iobind_error *error) {
  iobind_status status = IOBIND_OK;
  for (size_t i = 0; status == IOBIND_OK && i < batch->blocks.count; i++) {
    status = run_block(batch, &batch->blocks.of[i], stream, error);
    if (status != IOBIND_OK && stream != NULL && i > 0) {
      (void)iobind__stream_drain(stream, NULL);
    }
  }
  if (status != IOBIND_OK) {
    note_failure(batch);
  }
  return status;
}

static iobind_status prepare(iobind_batch *batch, iobind_stream *stream, iobind_error *error) {
  const iobind__choice choice = iobind__order_choose(batch);
  for (size_t i = 0; i < choice.blocks.count; i++) {
    IOBIND__TRY(iobind__batch_try(batch, choice.blocks.of[i].width, error));
  }
  IOBIND__TRY(iobind__order_arrange(batch, &choice, error));
  IOBIND__TRY(iobind__feed_bring(batch, stream, error));
  for (size_t i = 0; i < batch->blocks.count; i++) {
    IOBIND__TRY(bind(batch, &batch->blocks.of[i], error));
  }
  return IOBIND_OK;
}

/* The event is created before the run: if it could not be created afterwards, an unknown run would still write the states. */
static iobind_status submit(iobind_batch *batch, iobind_stream *stream, iobind_error *error) {
  iobind_event *event;
  IOBIND__TRY(iobind_event_create(stream->device, &event, error));
  iobind_status status = run(batch, stream, error);
  if (status == IOBIND_OK) {
    status = iobind_event_record(event, stream, error);
    if (status != IOBIND_OK) {
      (void)iobind__stream_drain(stream, NULL);
    }
  }
  if (status != IOBIND_OK) {
    iobind_event_destroy(event);
    return status;
  }
  batch->flight = event;
  return IOBIND_OK;
}

static iobind_status complete(iobind_batch *batch, iobind_error *error) {
  IOBIND__TRY(run(batch, NULL, error));
  return finish(batch, error);
}

static iobind_status attempt(iobind_batch *batch, iobind_stream *stream, iobind_error *error) {
  iobind_status status = prepare(batch, stream, error);
  if (status == IOBIND_OK) {
    status = stream != NULL ? submit(batch, stream, error) : complete(batch, error);
  }
  if (status != IOBIND_OK) {
    iobind__feed_settle(batch);
  }
  return status;
}

/* A step is made again if rows that ran along may be why it failed: without them. */
static iobind_status make(iobind_batch *batch, iobind_stream *stream, iobind_error *error) {
  const bool was_strict = batch->is_strict;
  iobind_error failure = IOBIND_ERROR_INIT;
  iobind_status status = attempt(batch, stream, &failure);
  if (status == IOBIND_OK) {
    return IOBIND_OK;
  }
  return batch->is_strict && !was_strict ? attempt(batch, stream, error) : iobind__error_copy(error, &failure);
}

/* The step has ended, or has not begun. */
static void dismiss(iobind_batch *batch, bool has_failed) {
  iobind__feed_end(batch, has_failed);
  for (size_t i = 0; i < batch->asked_count; i++) {
    batch->seats[batch->asked[i]].in_step = false;
  }
  batch->asked_count = 0;
}

iobind_status iobind__batch_make_step(iobind_batch *batch, iobind_stream *stream, const char *what, iobind_error *error) {
  iobind_status status = iobind__feed_take(batch, what, error);
  if (status == IOBIND_OK) {
    pthread_mutex_unlock(&batch->mutex);
    status = make(batch, stream, error);
    pthread_mutex_lock(&batch->mutex);
  }
  if (status != IOBIND_OK || stream == NULL) {
    dismiss(batch, status != IOBIND_OK);
  }
  return iobind__renamed(status, error, what);
}

/* ---- a step in flight ---- */

static iobind_status await_flight(iobind_batch *batch, iobind_error *error) {
  iobind_status status = iobind_event_wait(batch->flight, IOBIND_NO_TIMEOUT, error);
  if (status == IOBIND_OK) {
    status = finish(batch, error);
  } else {
    note_failure(batch);
  }
  if (status != IOBIND_OK) {
    iobind__feed_settle(batch);
  }
  iobind_event_destroy(batch->flight);
  batch->flight = NULL;
  return status;
}

/* The failure is recorded in the seats: calls that take an output of the step return it, and not the output of an earlier
 * step. */
static void report_failure(iobind_batch *batch, iobind_status status, const iobind_error *failure) {
  for (size_t i = 0; i < batch->asked_count; i++) {
    iobind__seat *seat = &batch->seats[batch->asked[i]];
    iobind__outcome_drop(seat->outcome);
    seat->outcome = NULL;
    iobind__seat_end(seat, status, failure);
  }
}

iobind_status iobind__batch_settle(iobind_batch *batch, iobind_error *error) {
  iobind_error failure = IOBIND_ERROR_INIT;
  if (batch->flight == NULL) {
    return IOBIND_OK;
  }
  pthread_mutex_unlock(&batch->mutex);
  iobind_status status = await_flight(batch, &failure);
  pthread_mutex_lock(&batch->mutex);
  if (status != IOBIND_OK) {
    report_failure(batch, status, &failure);
  }
  dismiss(batch, status != IOBIND_OK);
  return status == IOBIND_OK ? IOBIND_OK : iobind__error_copy(error, &failure);
}

iobind_status iobind__batch_find_idle(iobind_batch *batch, uint64_t slot, const char *what, iobind__seat **seat,
                                      iobind_error *error) {
  IOBIND__TRY(iobind__batch_find(batch, slot, what, seat, error));
  if (!(*seat)->in_step) {
    return IOBIND_OK;
  }
  iobind__batch_take_turn(batch); /* after that, a step of another thread has ended or is in flight */
  iobind_status status = iobind__batch_find(batch, slot, what, seat, error);
  if (status == IOBIND_OK && (*seat)->in_step) {
    status = iobind__batch_settle(batch, error);
  }
  iobind__batch_give_turn(batch);
  return status;
}

/* ---- batch_run ---- */

static iobind_status ask(iobind_batch *batch, const uint64_t *slots, size_t count, iobind_error *error) {
  for (size_t i = 0; i < count; i++) {
    iobind__seat *seat;
    IOBIND__TRY(iobind__batch_find(batch, slots[i], "batch_run", &seat, error));
    if (seat->in_step) {
      return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "batch_run: row %zu is given twice", i);
    }
    if (seat->turnout != IOBIND__UNASKED) {
      return iobind__fail(error, IOBIND_ERROR_INVALID_STATE, "batch_run: row %zu %s", i,
                          seat->turnout == IOBIND__SUBMITTED
                              ? "is submitted: iobind_batch_step makes its step"
                              : "was submitted, and its step has ended: call iobind_batch_await first");
    }
    seat->in_step = true;
    batch->asked[batch->asked_count++] = iobind__seat_index(batch, seat);
  }
  return IOBIND_OK;
}

static iobind_status step(iobind_batch *batch, const uint64_t *slots, size_t count, iobind_stream *stream,
                          iobind_error *error) {
  IOBIND__TRY(iobind__batch_settle(batch, error));
  iobind_status status = ask(batch, slots, count, error);
  if (status != IOBIND_OK) {
    dismiss(batch, true);
    return status;
  }
  return iobind__batch_make_step(batch, stream, "batch_run", error);
}

iobind_status iobind_batch_run(iobind_batch *batch, const uint64_t *slots, size_t count, iobind_stream *stream,
                               iobind_error *error) {
  static const char what[] = "batch_run";
  IOBIND__TRY(iobind__null_check(batch, "batch", what, error));
  IOBIND__TRY(iobind__null_check(slots, "slots", what, error));
  IOBIND__TRY(iobind__process_check(what, error));
  if (count == 0 || count > batch->most) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "%s: expected 1 .. %zu rows, got %zu", what, batch->most, count);
  }
  pthread_mutex_lock(&batch->mutex);
  iobind__batch_take_turn(batch);
  iobind_status status = step(batch, slots, count, stream, error);
  iobind__batch_give_turn(batch);
  pthread_mutex_unlock(&batch->mutex);
  return iobind__named(status, error, what);
}

/* ---- outputs ---- */

/* Copy a row's pieces, on their device. */
static iobind_status copy_row(const iobind__layout *layout, iobind_tensor *all, size_t width, size_t row, iobind_tensor *out,
                              iobind_error *error) {
  const iobind_rows source = {
      .struct_size = sizeof source, .tensor = all, .offset = row * layout->piece, .pitch = width * layout->piece};
  const iobind_rows target = {.struct_size = sizeof target, .tensor = out, .pitch = layout->piece};
  return iobind_tensor_copy_rows(&source, &target, layout->piece, layout->lead, NULL, error);
}

static iobind_status take_row(iobind_batch *batch, const iobind__outcome *outcome, size_t row, size_t index,
                              iobind_tensor **tensor, iobind_error *error) {
  iobind_tensor *all = outcome->outputs[index];
  const int32_t axis = batch->output_axes[index];
  if (axis == IOBIND_BATCH_NO_AXIS) {
    *tensor = iobind_tensor_retain(all);
    return IOBIND_OK;
  }
  if (axis == 0 && all->place->addressable) {
    return iobind_tensor_slice(all, (int64_t)row, 1, tensor, error);
  }
  int64_t dims[IOBIND_MAX_RANK];
  memcpy(dims, all->dims, all->rank * sizeof dims[0]);
  dims[axis] = 1;
  const iobind__layout layout = iobind__layout_of(all->dtype, dims, all->rank, axis);
  IOBIND__TRY(iobind__tensor_create_at(all->place, (iobind__form){all->dtype, dims, all->rank}, tensor, error));
  iobind_status status = copy_row(&layout, all, outcome->width, row, *tensor, error);
  if (status != IOBIND_OK) {
    iobind_tensor_release(*tensor);
    *tensor = NULL;
  }
  return status;
}

/* Blocks only if the row is in a step. */
static iobind_status find_outcome(iobind_batch *batch, uint64_t slot, iobind__outcome **outcome, size_t *row,
                                  iobind_error *error) {
  iobind__seat *seat;
  IOBIND__TRY(iobind__batch_find_idle(batch, slot, "batch_take_output", &seat, error));
  if (seat->outcome == NULL) {
    IOBIND__TRY(iobind__seat_get_end(seat, "batch_take_output", error));
    return iobind__fail(error, IOBIND_ERROR_INVALID_STATE, "batch_take_output: the row has made no step");
  }
  iobind__ref_retain(&seat->outcome->ref);
  *outcome = seat->outcome;
  *row = seat->row;
  return IOBIND_OK;
}

static iobind_status get_output(iobind_batch *batch, uint64_t slot, size_t index, iobind_tensor **tensor, iobind_error *error) {
  iobind__outcome *outcome;
  size_t row;
  pthread_mutex_lock(&batch->mutex);
  iobind_status status = find_outcome(batch, slot, &outcome, &row, error);
  pthread_mutex_unlock(&batch->mutex);
  if (status == IOBIND_OK) {
    status = take_row(batch, outcome, row, index, tensor, error);
    iobind__outcome_drop(outcome);
  }
  return status;
}

iobind_status iobind_batch_take_output(iobind_batch *batch, uint64_t slot, size_t index, iobind_tensor **tensor,
                                       iobind_error *error) {
  static const char what[] = "batch_take_output";
  if (tensor != NULL) {
    *tensor = NULL;
  }
  IOBIND__TRY(iobind__null_check(batch, "batch", what, error));
  IOBIND__TRY(iobind__null_check(tensor, "tensor", what, error));
  IOBIND__TRY(iobind__process_check(what, error));
  if (index >= batch->session->output_count) {
    return iobind__fail(error, IOBIND_ERROR_NOT_FOUND, "%s: expected an output below %zu, got %zu", what,
                        batch->session->output_count, index);
  }
  if (is_state_output(batch, index)) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "%s: '%s' is a state: iobind_batch_save_state", what,
                        batch->session->outputs[index].label);
  }
  iobind_status status = get_output(batch, slot, index, tensor, error);
  return iobind__named(iobind__renamed(status, error, what), error, what);
}

/* ---- states ---- */

iobind_status iobind__batch_save_row(iobind_batch *batch, const iobind__seat *seat, iobind_state **state, iobind_error *error) {
  if (batch->column_count == 0) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_STATE, "batch_save_state: the batch has no states");
  }
  if (seat->where == IOBIND__SAVED) {
    *state = iobind_state_retain(seat->state);
    return IOBIND_OK;
  }
  iobind__rows_of made;
  IOBIND__TRY(iobind__rows_make(batch, 1, &made, error));
  size_t row = seat->dense;
  const bool is_stored = seat->where == IOBIND__STORED;
  const iobind__rows_of side = iobind__order_rows(batch, batch->side, &batch->blocks, &row);
  const iobind__move move = {is_stored ? iobind__seat_index(batch, seat) : row, 0};
  iobind_status status = iobind__rows_move(batch, is_stored ? &batch->store : &side, &made, &move, 1, error);
  if (status == IOBIND_OK) {
    status = iobind__rows_to_state(batch, &made, state, error);
  }
  iobind__rows_free(batch, &made);
  return status;
}

static iobind_status save(iobind_batch *batch, uint64_t slot, iobind_state **state, iobind_error *error) {
  iobind__seat *seat;
  IOBIND__TRY(iobind__batch_settle(batch, error));
  IOBIND__TRY(iobind__batch_find(batch, slot, "batch_save_state", &seat, error));
  pthread_mutex_unlock(&batch->mutex);
  iobind_status status = iobind__batch_save_row(batch, seat, state, error);
  pthread_mutex_lock(&batch->mutex);
  return status;
}

iobind_status iobind_batch_save_state(iobind_batch *batch, uint64_t slot, iobind_state **state, iobind_error *error) {
  static const char what[] = "batch_save_state";
  if (state != NULL) {
    *state = NULL;
  }
  IOBIND__TRY(iobind__null_check(batch, "batch", what, error));
  IOBIND__TRY(iobind__null_check(state, "state", what, error));
  IOBIND__TRY(iobind__process_check(what, error));
  pthread_mutex_lock(&batch->mutex);
  iobind__batch_take_turn(batch);
  iobind_status status = save(batch, slot, state, error);
  iobind__batch_give_turn(batch);
  pthread_mutex_unlock(&batch->mutex);
  return iobind__renamed(status, error, what);
}
