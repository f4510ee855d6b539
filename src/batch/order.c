/* Chooses the rows that a step runs, and where their states are. A row that is not asked for is moved into the store. If that
 * is slower by the measured times, it runs along instead, and its state is restored afterwards. */
#include <stdlib.h>
#include <string.h>

#include "batch/batch.h"

static const char what[] = "batch_run";

/* How the rows of the next step are moved together. */
typedef struct plan {
  iobind_batch *batch;
  const iobind__choice *choice;
  bool changes_sides;    /* positions depend on the blocks, and the old and new ones overlap: all rows move to the other side */
  int64_t *dense;        /* the new seat of each row of the side */
  iobind__move *moves;   /* room for all rows */
  bool *done;            /* rows that have been moved */
  iobind_tensor **saved; /* room for a state's tensors */
} plan;

size_t iobind__order_width(const iobind_batch *batch, size_t rows) {
  size_t width = rows;
  while (batch->captures && (width & (width - 1)) != 0) {
    width += width & (~width + 1);
  }
  return width;
}

/* ---- blocks ---- */

static bool is_in(const iobind__block *block, size_t row) {
  return row >= block->offset && row - block->offset < block->width;
}

static bool is_in_any(const iobind__blocks *blocks, size_t row) {
  bool is = false;
  for (size_t i = 0; i < blocks->count; i++) {
    is = is || is_in(&blocks->of[i], row);
  }
  return is;
}

static bool are_same(const iobind__block *a, const iobind__block *b) {
  return a->offset == b->offset && a->width == b->width;
}

static bool are_all_same(const iobind__blocks *a, const iobind__blocks *b) {
  bool same = a->count == b->count;
  for (size_t i = 0; same && i < a->count; i++) {
    same = are_same(&a->of[i], &b->of[i]);
  }
  return same;
}

/* Of 2^n rows the block of 2^i rows begins at 2^n - 2^(i + 1), and the block of all at 0. So the smaller blocks do not overlap,
 * and each begins at a multiple of its size. */
static size_t find_offset(const iobind_batch *batch, size_t width) {
  return batch->splits && width < batch->room ? batch->room - 2 * width : 0;
}

static void add_block(const iobind_batch *batch, iobind__blocks *blocks, size_t width) {
  blocks->of[blocks->count++] = (iobind__block){find_offset(batch, width), width};
  blocks->rows += width;
}

/* A block for each bit of `rows`, the widest first. */
static iobind__blocks split(const iobind_batch *batch, size_t rows) {
  iobind__blocks blocks = {.count = 0};
  for (size_t width = batch->room; width > 0; width /= 2) {
    if ((rows & width) != 0) {
      add_block(batch, &blocks, width);
    }
  }
  return blocks;
}

static iobind__blocks make_one(const iobind_batch *batch, size_t width) {
  iobind__blocks blocks = {.count = 0};
  add_block(batch, &blocks, width);
  return blocks;
}

static bool depends_on_block(const iobind_batch *batch) {
  bool depends = false;
  for (size_t i = 0; i < batch->column_count; i++) {
    depends = depends || batch->columns[i].layout.lead > 1;
  }
  return depends;
}

/* Do rows of the new blocks overlap other rows of the old ones? If all states have lead 1, a row has the same position in every
 * block, so they do not. */
static bool is_in_the_way(const iobind_batch *batch, const iobind__blocks *old, const iobind__blocks *made) {
  bool is = false;
  for (size_t i = 0; i < old->count; i++) {
    for (size_t k = 0; k < made->count; k++) {
      const iobind__block *a = &old->of[i];
      const iobind__block *b = &made->of[k];
      const bool overlap = a->offset < b->offset + b->width && b->offset < a->offset + a->width;
      is = is || (overlap && !are_same(a, b));
    }
  }
  return is && depends_on_block(batch);
}

iobind__rows_of iobind__order_rows(const iobind_batch *batch, int side, const iobind__blocks *blocks, size_t *row) {
  iobind__rows_of rows = {.tensors = batch->sides[side].tensors, .width = batch->room};
  for (size_t i = 0; depends_on_block(batch) && i < blocks->count; i++) {
    if (is_in(&blocks->of[i], *row)) {
      rows.width = blocks->of[i].width;
      rows.offset = blocks->of[i].offset;
    }
  }
  *row -= rows.offset;
  return rows;
}

/* ---- costs ---- */

/* A lower bound for the time of a run of a width, from the measured ones: a run takes no less than a narrower one, and a
 * row of it no less than a row of a wider one. 0: none was measured. So a width that was never measured is tried if it may
 * be faster. */
static double least_time(const iobind_batch *batch, size_t width) {
  double least = 0;
  for (size_t other = 1; other <= batch->room; other = batch->captures ? 2 * other : other + 1) {
    const double known = (double)batch->costs.runs[other];
    const double bound = other < width ? known : known * (double)width / (double)other;
    if (other == width && known > 0) {
      return known;
    }
    least = bound > least ? bound : least;
  }
  return least;
}

static double time_of(const iobind_batch *batch, const iobind__blocks *blocks) {
  double time = 0;
  for (size_t i = 0; i < blocks->count; i++) {
    time += least_time(batch, blocks->of[i].width);
  }
  return time;
}

/* The fastest blocks for the number of rows that are asked for: one block; or several, if that takes less time. Some rows may
 * be unused. */
static iobind__blocks find_cheapest(const iobind_batch *batch) {
  iobind__blocks best = make_one(batch, iobind__order_width(batch, batch->asked_count));
  for (size_t last = batch->room; batch->splits && last > 0; last /= 2) {
    const size_t rows = (batch->asked_count + last - 1) / last * last;
    const iobind__blocks blocks = split(batch, rows);
    if (time_of(batch, &blocks) < time_of(batch, &best)) {
      best = blocks;
    }
  }
  return best;
}

/* Counts of rows. */
typedef struct tally {
  size_t present; /* rows in the side that are asked for */
  size_t idle;    /* rows in the side that are not asked for */
  size_t spare;   /* unused rows of its blocks */
} tally;

static tally count_rows(const iobind_batch *batch) {
  tally count = {0, 0, batch->blocks.rows};
  for (size_t i = 0; i < batch->room; i++) {
    const bool is_asked = iobind__batch_asks(batch, batch->dense[i]);
    count.present += is_asked;
    count.idle += batch->dense[i] != IOBIND__NOBODY && !is_asked;
    count.spare -= batch->dense[i] != IOBIND__NOBODY;
  }
  return count;
}

/* The number of rows that must move into these blocks: those that are not there yet; all, if old and new blocks overlap. */
static size_t count_movers(const iobind_batch *batch, const iobind__blocks *blocks) {
  const bool all = is_in_the_way(batch, &batch->blocks, blocks);
  size_t count = 0;
  for (size_t i = 0; i < batch->asked_count; i++) {
    const iobind__seat *seat = &batch->seats[batch->asked[i]];
    count += all || seat->where != IOBIND__DENSE || !is_in_any(blocks, seat->dense);
  }
  return count;
}

/* Is a run of all rows in the side faster than moving aside those that are not asked for? */
static bool is_cheaper_to_stay(const iobind_batch *batch, const iobind__blocks *cheapest) {
  const tally count = count_rows(batch);
  const size_t joining = batch->asked_count - count.present;
  if (joining > count.spare || batch->is_strict) {
    return false;
  }
  if (count.idle == 0 && are_all_same(&batch->blocks, cheapest)) {
    return true;
  }
  const double move = (double)batch->costs.move;
  const double stay = time_of(batch, &batch->blocks) + move * (double)(joining + count.idle);
  const double leave = time_of(batch, cheapest) + move * (double)(count.idle + count_movers(batch, cheapest));
  return stay > 0 && leave > 0 && stay < leave;
}

iobind__choice iobind__order_choose(const iobind_batch *batch) {
  const iobind__blocks cheapest = find_cheapest(batch);
  const bool stays = is_cheaper_to_stay(batch, &cheapest);
  return (iobind__choice){stays ? batch->blocks : cheapest, stays};
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

/* List the moves of all rows that are not asked for, from `first` on, in the same block as `first`. */
static size_t list_idle(const plan *self, size_t first) {
  const iobind_batch *batch = self->batch;
  size_t leader = first;
  const iobind__rows_of block = iobind__order_rows(batch, batch->side, &batch->blocks, &leader);
  size_t count = 0;
  for (size_t i = first; i < batch->room; i++) {
    size_t row = i;
    const bool is_idle = batch->dense[i] != IOBIND__NOBODY && !iobind__batch_asks(batch, batch->dense[i]);
    if (is_idle && iobind__order_rows(batch, batch->side, &batch->blocks, &row).offset == block.offset) {
      self->moves[count++] = (iobind__move){row, (size_t)batch->dense[i]};
    }
  }
  return count;
}

static void note_aside(const plan *self, size_t offset, size_t count) {
  iobind_batch *batch = self->batch;
  pthread_mutex_lock(&batch->mutex);
  for (size_t i = 0; i < count; i++) {
    batch->seats[self->moves[i].to].where = IOBIND__STORED;
    batch->dense[offset + self->moves[i].from] = IOBIND__NOBODY;
  }
  pthread_mutex_unlock(&batch->mutex);
}

static iobind_status put_aside(plan *self, iobind_error *error) {
  iobind_batch *batch = self->batch;
  for (size_t i = 0; i < batch->room; i++) {
    if (batch->dense[i] == IOBIND__NOBODY || iobind__batch_asks(batch, batch->dense[i])) {
      continue;
    }
    size_t row = i;
    const iobind__rows_of from = iobind__order_rows(batch, batch->side, &batch->blocks, &row);
    const size_t count = list_idle(self, i);
    IOBIND__TRY(make_store(batch, error));
    IOBIND__TRY(iobind__rows_move(batch, &from, &batch->store, self->moves, count, error));
    note_aside(self, from.offset, count);
  }
  return IOBIND_OK;
}

/* ---- moved together ---- */

/* Rows that are already in the blocks keep their positions; the others get free ones. */
static void assign(plan *self) {
  iobind_batch *batch = self->batch;
  const iobind__blocks *blocks = &self->choice->blocks;
  for (size_t i = 0; i < batch->room; i++) {
    bool keeps = is_in_any(blocks, i) && (self->choice->stays || iobind__batch_asks(batch, batch->dense[i]));
    self->dense[i] = keeps ? batch->dense[i] : IOBIND__NOBODY;
  }
  size_t free_row = 0;
  for (size_t i = 0; i < batch->asked_count; i++) {
    const iobind__seat *seat = &batch->seats[batch->asked[i]];
    if (seat->where == IOBIND__DENSE && is_in_any(blocks, seat->dense)) {
      continue;
    }
    while (self->dense[free_row] != IOBIND__NOBODY || !is_in_any(blocks, free_row)) {
      free_row++;
    }
    self->dense[free_row] = (int64_t)batch->asked[i];
  }
}

/* The rows that contain the seat's state, and its number among them. */
static iobind__rows_of source_of(const plan *self, const iobind__seat *seat, size_t *row) {
  const iobind_batch *batch = self->batch;
  if (seat->where == IOBIND__SAVED) {
    iobind__rows_of_state(batch, seat->state, self->saved);
    *row = 0;
    return (iobind__rows_of){.tensors = self->saved, .width = 1};
  }
  *row = seat->where == IOBIND__STORED ? iobind__seat_index(batch, seat) : seat->dense;
  return seat->where == IOBIND__STORED ? batch->store : iobind__order_rows(batch, batch->side, &batch->blocks, row);
}

static iobind__rows_of target_of(const plan *self, size_t *row) {
  const int side = self->batch->side;
  return iobind__order_rows(self->batch, self->changes_sides ? 1 - side : side, &self->choice->blocks, row);
}

/* Are both seats' states in the same tensors and block? Then one call moves them. */
static bool is_same_source(const plan *self, const iobind__seat *a, const iobind__seat *b) {
  size_t unused;
  return a->where == b->where && (a->where != IOBIND__SAVED || a->state == b->state) &&
         source_of(self, a, &unused).offset == source_of(self, b, &unused).offset;
}

/* The event returns a failed run to each wait, the tensors only to one. */
static iobind_status await_source(const iobind__seat *seat, iobind_error *error) {
  bool is_pending = seat->where == IOBIND__SAVED && seat->state->made != NULL;
  return is_pending ? iobind_event_wait(seat->state->made, IOBIND_NO_TIMEOUT, error) : IOBIND_OK;
}

/* Is the row already in its new position? */
static bool is_in_place(const plan *self, size_t row) {
  const iobind__seat *seat = &self->batch->seats[self->dense[row]];
  return !self->changes_sides && seat->where == IOBIND__DENSE && seat->dense == row;
}

static bool has_to_move(const plan *self, size_t row) {
  return self->dense[row] != IOBIND__NOBODY && !self->done[row] && !is_in_place(self, row);
}

/* List the moves of all rows from `first` on that one call moves together with it. */
static size_t list_moves(const plan *self, size_t first) {
  const iobind__seat *leader = &self->batch->seats[self->dense[first]];
  size_t to = first;
  const size_t offset = target_of(self, &to).offset;
  size_t count = 0;
  for (size_t i = first; i < self->batch->room; i++) {
    const iobind__seat *seat = has_to_move(self, i) ? &self->batch->seats[self->dense[i]] : NULL;
    size_t from;
    to = i;
    if (seat != NULL && target_of(self, &to).offset == offset && is_same_source(self, seat, leader)) {
      (void)source_of(self, seat, &from);
      self->moves[count++] = (iobind__move){from, to};
      self->done[i] = true;
    }
  }
  return count;
}

static void seat_at(iobind_batch *batch, int64_t who, size_t row) {
  iobind__seat *seat = &batch->seats[who];
  batch->repeats[row] = false;
  iobind_state_release(seat->state);
  seat->state = NULL;
  seat->where = IOBIND__DENSE;
  seat->dense = row;
}

/* Only unused rows are written, so that after an error each row is still where it was. */
static iobind_status move_together(const plan *self, iobind_error *error) {
  for (size_t i = 0; i < self->batch->room; i++) {
    if (!has_to_move(self, i)) {
      continue;
    }
    const iobind__seat *seat = &self->batch->seats[self->dense[i]];
    size_t row = i;
    const iobind__rows_of to = target_of(self, &row);
    const iobind__rows_of from = source_of(self, seat, &row);
    const size_t count = list_moves(self, i);
    IOBIND__TRY(await_source(seat, error));
    IOBIND__TRY(iobind__rows_move(self->batch, &from, &to, self->moves, count, error));
  }
  return IOBIND_OK;
}

static void commit(const plan *self) {
  iobind_batch *batch = self->batch;
  if (!are_all_same(&batch->blocks, &self->choice->blocks)) {
    memset(batch->repeats, 0, batch->room * sizeof batch->repeats[0]);
  }
  pthread_mutex_lock(&batch->mutex);
  for (size_t i = 0; i < batch->room; i++) {
    batch->dense[i] = self->dense[i];
    if (self->dense[i] != IOBIND__NOBODY) {
      seat_at(batch, self->dense[i], i);
    }
  }
  batch->side = self->changes_sides ? 1 - batch->side : batch->side;
  batch->blocks = self->choice->blocks;
  pthread_mutex_unlock(&batch->mutex);
}

static iobind_status bring_together(plan *self, iobind_error *error) {
  IOBIND__TRY(self->choice->stays ? IOBIND_OK : put_aside(self, error));
  assign(self);
  IOBIND__TRY(move_together(self, error));
  commit(self);
  return IOBIND_OK;
}

static iobind_status arrange(iobind_batch *batch, const iobind__choice *choice, iobind_error *error) {
  plan self = {.batch = batch, .choice = choice};
  self.changes_sides = is_in_the_way(batch, &batch->blocks, &choice->blocks);
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

/* ---- unused rows ---- */

/* The leader remains as long as each step has its row: then the rows that repeat it need not be written again. */
static void choose_leader(iobind_batch *batch) {
  if (batch->leader == IOBIND__NO_LEADER || !batch->seats[batch->leader].in_step) {
    batch->leader = batch->asked[0];
    memset(batch->repeats, 0, batch->room * sizeof batch->repeats[0]);
  }
}

static bool is_stale(const iobind_batch *batch, size_t row) {
  return batch->dense[row] == IOBIND__NOBODY && !batch->repeats[row];
}

static iobind_status repeat(iobind_batch *batch, const iobind__block *block, iobind__move *moves, iobind_error *error) {
  size_t leader = batch->seats[batch->leader].dense;
  size_t first = block->offset;
  const iobind__rows_of from = iobind__order_rows(batch, batch->side, &batch->blocks, &leader);
  const iobind__rows_of to = iobind__order_rows(batch, batch->side, &batch->blocks, &first);
  size_t count = 0;
  for (size_t i = 0; i < block->width; i++) {
    if (is_stale(batch, block->offset + i)) {
      moves[count++] = (iobind__move){leader, first + i};
    }
  }
  IOBIND__TRY(iobind__rows_move(batch, &from, &to, moves, count, error));
  for (size_t i = 0; i < block->width; i++) {
    batch->repeats[block->offset + i] = batch->dense[block->offset + i] == IOBIND__NOBODY;
  }
  return IOBIND_OK;
}

static iobind_status repeat_leader(iobind_batch *batch, iobind_error *error) {
  size_t stale = 0;
  choose_leader(batch);
  for (size_t i = 0; i < batch->room; i++) {
    stale += is_stale(batch, i) && is_in_any(&batch->blocks, i);
  }
  if (stale == 0) {
    return IOBIND_OK;
  }
  iobind__move *moves = calloc(stale, sizeof moves[0]);
  iobind_status status = moves == NULL ? iobind__out_of_memory(error, what) : IOBIND_OK;
  for (size_t i = 0; status == IOBIND_OK && i < batch->blocks.count; i++) {
    status = repeat(batch, &batch->blocks.of[i], moves, error);
  }
  free(moves);
  return status;
}

iobind_status iobind__order_arrange(iobind_batch *batch, const iobind__choice *choice, iobind_error *error) {
  const tally count = count_rows(batch);
  bool is_arranged = count.present == batch->asked_count && count.idle == 0 && are_all_same(&choice->blocks, &batch->blocks);
  IOBIND__TRY(is_arranged ? IOBIND_OK : arrange(batch, choice, error));
  return repeat_leader(batch, error);
}

/* ---- restored ---- */

static iobind_status put_back(iobind_batch *batch, const iobind__block *block, iobind__move *moves, iobind_error *error) {
  size_t first = block->offset;
  const iobind__rows_of from = iobind__order_rows(batch, batch->side, &batch->blocks, &first);
  const iobind__rows_of to = {.tensors = batch->sides[1 - batch->side].tensors, .width = from.width, .offset = from.offset};
  size_t count = 0;
  for (size_t i = 0; i < block->width; i++) {
    const int64_t who = batch->dense[block->offset + i];
    if (who != IOBIND__NOBODY && !iobind__batch_asks(batch, who)) {
      moves[count++] = (iobind__move){first + i, first + i};
    }
  }
  return iobind__rows_move(batch, &from, &to, moves, count, error);
}

iobind_status iobind__order_put_back(iobind_batch *batch, iobind_error *error) {
  iobind__move *moves = calloc(batch->room, sizeof moves[0]);
  iobind_status status = moves == NULL ? iobind__out_of_memory(error, what) : IOBIND_OK;
  for (size_t i = 0; status == IOBIND_OK && i < batch->blocks.count; i++) {
    status = put_back(batch, &batch->blocks.of[i], moves, error);
  }
  free(moves);
  return status;
}

void iobind__order_leave(iobind_batch *batch, iobind__seat *seat) {
  if (seat->where == IOBIND__DENSE) {
    batch->dense[seat->dense] = IOBIND__NOBODY;
  }
  if (batch->leader == iobind__seat_index(batch, seat)) {
    batch->leader = IOBIND__NO_LEADER;
  }
  iobind_state_release(seat->state);
  seat->state = NULL;
  seat->where = IOBIND__GONE;
}
