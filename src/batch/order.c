/* Which rows a step runs, and where their states lie. A row that is not asked for is put aside into the store; or, if that has cost less, it runs
 * along and its state is put back. */
#include <stdlib.h>
#include <string.h>

#include "batch/batch.h"

static const char what[] = "batch_run";

/* How the rows of the next step are brought together. */
typedef struct plan {
  iobind_batch *batch;
  size_t width;       /* of the run */
  bool stays;         /* rows that are not asked for run along */
  bool changes_sides; /* a row's place depends on the width: all go to the other side */
  iobind__rows_of from;
  iobind__rows_of to;
  int64_t *dense;        /* who gets each row of `to` */
  iobind__move *moves;   /* room for all rows */
  bool *done;            /* rows of `to` that have their state */
  iobind_tensor **saved; /* room for a state's tensors */
} plan;

static iobind__rows_of rows_at(const iobind_batch *batch, int side, size_t width) {
  return (iobind__rows_of){batch->sides[side].tensors, width};
}

size_t iobind__order_width(const iobind_batch *batch, size_t rows) {
  size_t width = rows;
  while (batch->captures && (width & (width - 1)) != 0) {
    width += width & (~width + 1);
  }
  return width;
}

/* ---- what is cheaper ---- */

/* The time of a run of a width, by the nearest one that was measured; 0: none was. */
static double run_time(const iobind_batch *batch, size_t width) {
  for (size_t away = 0; away < batch->room; away++) {
    const size_t below = width > away ? width - away : 0;
    const size_t above = width + away;
    const size_t known = below > 0 && batch->costs.runs[below] > 0              ? below
                         : above <= batch->room && batch->costs.runs[above] > 0 ? above
                                                                                : 0;
    if (known > 0) {
      return (double)batch->costs.runs[known] * (double)width / (double)known;
    }
  }
  return 0;
}

/* What is asked for, counted by where it is. */
typedef struct tally {
  size_t present; /* in the side */
  size_t idle;    /* rows in the side that are not asked for */
  size_t spare;   /* rows of the side that are nobody's */
} tally;

static tally count_rows(const iobind_batch *batch) {
  tally count = {0, 0, 0};
  for (size_t i = 0; i < batch->width; i++) {
    count.present += iobind__batch_asks(batch, batch->dense[i]);
    count.idle += batch->dense[i] != IOBIND__NOBODY && !iobind__batch_asks(batch, batch->dense[i]);
    count.spare += batch->dense[i] == IOBIND__NOBODY;
  }
  return count;
}

static bool depends_on_width(const iobind_batch *batch) {
  bool depends = false;
  for (size_t i = 0; i < batch->column_count; i++) {
    depends = depends || batch->columns[i].layout.lead > 1;
  }
  return depends;
}

/* Is a run of all rows that are in the side cheaper than to bring only those asked for together? */
static bool is_cheaper_to_stay(const iobind_batch *batch, const tally *count) {
  const size_t width = iobind__order_width(batch, batch->asked_count);
  const size_t joining = batch->asked_count - count->present;
  if (joining > count->spare || batch->is_strict) {
    return false;
  }
  if (count->idle == 0 && batch->width == width) {
    return true;
  }
  const double move = (double)batch->costs.move;
  const double stay = run_time(batch, batch->width) + move * (double)(joining + count->idle);
  const bool all_move = depends_on_width(batch) && width != batch->width;
  const double leave = run_time(batch, width) + move * (double)(count->idle + (all_move ? batch->asked_count : joining));
  return stay > 0 && leave > 0 && stay < leave;
}

/* ---- put aside ---- */

static iobind_status make_store(iobind_batch *batch, iobind_error *error) {
  iobind__rows_of made;
  if (batch->store.tensors != NULL) {
    return IOBIND_OK;
  }
  IOBIND__TRY(iobind__rows_make(batch, batch->most, &made, error));
  pthread_mutex_lock(&batch->mutex);
  batch->store = made;
  pthread_mutex_unlock(&batch->mutex);
  return IOBIND_OK;
}

static iobind_status put_aside(plan *self, iobind_error *error) {
  iobind_batch *batch = self->batch;
  size_t count = 0;
  for (size_t i = 0; i < batch->width; i++) {
    if (batch->dense[i] != IOBIND__NOBODY && !iobind__batch_asks(batch, batch->dense[i])) {
      self->moves[count++] = (iobind__move){i, (size_t)batch->dense[i]};
    }
  }
  if (count == 0) {
    return IOBIND_OK;
  }
  const iobind__rows_of from = rows_at(batch, batch->side, batch->width);
  IOBIND__TRY(make_store(batch, error));
  IOBIND__TRY(iobind__rows_move(batch, &from, &batch->store, self->moves, count, error));
  pthread_mutex_lock(&batch->mutex);
  for (size_t i = 0; i < count; i++) {
    batch->seats[self->moves[i].to].where = IOBIND__STORED;
    batch->dense[self->moves[i].from] = IOBIND__NOBODY;
  }
  pthread_mutex_unlock(&batch->mutex);
  return IOBIND_OK;
}

/* ---- brought together ---- */

/* Rows that are where they must be keep their place; the others get the free ones. */
static void assign(plan *self) {
  iobind_batch *batch = self->batch;
  for (size_t i = 0; i < self->width; i++) {
    bool keeps = i < batch->width && (self->stays || iobind__batch_asks(batch, batch->dense[i]));
    self->dense[i] = keeps ? batch->dense[i] : IOBIND__NOBODY;
  }
  size_t free_row = 0;
  for (size_t i = 0; i < batch->asked_count; i++) {
    const iobind__seat *seat = &batch->seats[batch->asked[i]];
    if (seat->where == IOBIND__DENSE && seat->dense < self->width) {
      continue;
    }
    while (self->dense[free_row] != IOBIND__NOBODY) {
      free_row++;
    }
    self->dense[free_row] = (int64_t)batch->asked[i];
  }
}

/* Does the seat's state come from the same tensors as this one's? Rows of one source move together. */
static bool is_same_source(const iobind__seat *a, const iobind__seat *b) {
  return a->where == b->where && (a->where != IOBIND__SAVED || a->state == b->state);
}

static iobind__rows_of source_of(const plan *self, const iobind__seat *seat) {
  if (seat->where == IOBIND__SAVED) {
    iobind__rows_of_state(self->batch, seat->state, self->saved);
    return (iobind__rows_of){self->saved, 1};
  }
  return seat->where == IOBIND__STORED ? self->batch->store : self->from;
}

/* The event reports a failed run to each wait, the tensors only to one. */
static iobind_status await_source(const iobind__seat *seat, iobind_error *error) {
  bool is_pending = seat->where == IOBIND__SAVED && seat->state->made != NULL;
  return is_pending ? iobind_event_wait(seat->state->made, IOBIND_NO_TIMEOUT, error) : IOBIND_OK;
}

static size_t row_in_source(const iobind_batch *batch, const iobind__seat *seat) {
  return seat->where == IOBIND__SAVED ? 0 : seat->where == IOBIND__STORED ? iobind__seat_index(batch, seat) : seat->dense;
}

/* Is the row where it must be? */
static bool is_in_place(const plan *self, size_t row) {
  const iobind__seat *seat = &self->batch->seats[self->dense[row]];
  return !self->changes_sides && seat->where == IOBIND__DENSE && seat->dense == row;
}

/* The rows from `first` on whose source is that of `first`. */
static size_t list_moves(const plan *self, size_t first) {
  const iobind__seat *leader = &self->batch->seats[self->dense[first]];
  size_t count = 0;
  for (size_t i = first; i < self->width; i++) {
    if (self->dense[i] == IOBIND__NOBODY || self->done[i] || is_in_place(self, i)) {
      continue;
    }
    const iobind__seat *seat = &self->batch->seats[self->dense[i]];
    if (is_same_source(seat, leader)) {
      self->moves[count++] = (iobind__move){row_in_source(self->batch, seat), i};
      self->done[i] = true;
    }
  }
  return count;
}

static void seat_at(iobind_batch *batch, int64_t who, size_t row) {
  iobind__seat *seat = &batch->seats[who];
  iobind_state_release(seat->state);
  seat->state = NULL;
  seat->where = IOBIND__DENSE;
  seat->dense = row;
}

/* Only rows that are nobody's are written: after an error each row is still where it was. */
static iobind_status move_together(const plan *self, iobind_error *error) {
  for (size_t i = 0; i < self->width; i++) {
    if (self->dense[i] == IOBIND__NOBODY || self->done[i] || is_in_place(self, i)) {
      continue;
    }
    const iobind__rows_of source = source_of(self, &self->batch->seats[self->dense[i]]);
    const size_t count = list_moves(self, i);
    IOBIND__TRY(await_source(&self->batch->seats[self->dense[i]], error));
    IOBIND__TRY(iobind__rows_move(self->batch, &source, &self->to, self->moves, count, error));
  }
  return IOBIND_OK;
}

static void commit(const plan *self) {
  iobind_batch *batch = self->batch;
  pthread_mutex_lock(&batch->mutex);
  for (size_t i = 0; i < self->width; i++) {
    batch->dense[i] = self->dense[i];
    if (self->dense[i] != IOBIND__NOBODY) {
      seat_at(batch, self->dense[i], i);
    }
  }
  for (size_t i = self->width; i < batch->room; i++) {
    batch->dense[i] = IOBIND__NOBODY;
  }
  batch->side = self->changes_sides ? 1 - batch->side : batch->side;
  batch->width = self->width;
  pthread_mutex_unlock(&batch->mutex);
}

static iobind_status bring_together(plan *self, iobind_error *error) {
  iobind_batch *batch = self->batch;
  IOBIND__TRY(self->stays ? IOBIND_OK : put_aside(self, error));
  self->from = rows_at(batch, batch->side, batch->width);
  self->to = rows_at(batch, self->changes_sides ? 1 - batch->side : batch->side, self->width);
  assign(self);
  IOBIND__TRY(move_together(self, error));
  commit(self);
  return IOBIND_OK;
}

static iobind_status arrange(iobind_batch *batch, bool stays, iobind_error *error) {
  plan self = {.batch = batch, .stays = stays, .width = stays ? batch->width : iobind__order_width(batch, batch->asked_count)};
  self.changes_sides = depends_on_width(batch) && self.width != batch->width && batch->width > 0;
  self.dense = calloc(batch->room, sizeof self.dense[0]);
  self.moves = calloc(batch->room, sizeof self.moves[0]);
  self.done = calloc(batch->room, sizeof self.done[0]);
  self.saved = calloc(batch->column_count + 1, sizeof(iobind_tensor *));
  bool has_room = self.dense != NULL && self.moves != NULL && self.done != NULL && self.saved != NULL;
  iobind_status status = has_room ? bring_together(&self, error) : iobind__out_of_memory(error, what);
  free(self.dense);
  free(self.moves);
  free(self.done);
  free(self.saved);
  return status;
}

iobind_status iobind__order_arrange(iobind_batch *batch, iobind_error *error) {
  const tally count = count_rows(batch);
  const bool is_wide = iobind__order_width(batch, batch->asked_count) == batch->width;
  if (count.present == batch->asked_count && count.idle == 0 && is_wide) {
    return IOBIND_OK;
  }
  return arrange(batch, is_cheaper_to_stay(batch, &count), error);
}

/* ---- put back ---- */

iobind_status iobind__order_put_back(iobind_batch *batch, iobind_error *error) {
  size_t count = 0;
  iobind__move *moves = calloc(batch->room, sizeof moves[0]);
  if (moves == NULL) {
    return iobind__out_of_memory(error, what);
  }
  for (size_t i = 0; i < batch->width; i++) {
    if (batch->dense[i] != IOBIND__NOBODY && !iobind__batch_asks(batch, batch->dense[i])) {
      moves[count++] = (iobind__move){i, i};
    }
  }
  const iobind__rows_of from = rows_at(batch, batch->side, batch->width);
  const iobind__rows_of to = rows_at(batch, 1 - batch->side, batch->width);
  iobind_status status = iobind__rows_move(batch, &from, &to, moves, count, error);
  free(moves);
  return status;
}

void iobind__order_leave(iobind_batch *batch, iobind__seat *seat) {
  if (seat->where == IOBIND__DENSE) {
    batch->dense[seat->dense] = IOBIND__NOBODY;
  }
  iobind_state_release(seat->state);
  seat->state = NULL;
  seat->where = IOBIND__GONE;
}
