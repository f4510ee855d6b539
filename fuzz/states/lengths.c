/* The length inputs of a cache: their values, who writes them, and the roles that the caller names. */
#include "play.h"

/* ---- values ---- */

size_t count_lengths(kind of) {
  return !kind_is_cache(of) ? 0 : kind_attends(of) ? 2 : 1;
}

/* HIDDEN has the positions that the run writes, and a mask of the positions in use afterwards. The other kinds have one number for
 * each row of the batch: the first position that the run writes, and the number of positions in use afterwards. */
static size_t width_of(kind of, size_t which, size_t added) {
  return of != HIDDEN ? 1 : which == 0 ? added : CAPACITY;
}

static int64_t value_of(kind of, size_t which, int64_t from, size_t added, size_t place) {
  int64_t after = from + (int64_t)added;
  return of != HIDDEN ? (which == 0 ? from : after) : which == 0 ? from + (int64_t)place : (int64_t)place < after;
}

static size_t fill(kind of, size_t which, const growth *by, int64_t *values) {
  size_t width = width_of(of, which, by->added);
  for (size_t i = 0; i < by->rows * width; i++) {
    values[i] = value_of(of, which, used_at(by->from, i / width), by->added, i % width);
  }
  return by->rows * width;
}

static iobind_tensor *make_empty(const play *self, size_t which, size_t rows, size_t added, iobind_device *on) {
  const int64_t dims[] = {(int64_t)rows, (int64_t)width_of(self->kind, which, added)};
  iobind_tensor *made;
  CALL(self, WELL,
       iobind_tensor_create(on, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_INT64, dims, self->kind == HIDDEN ? 2 : 1, &made, &fault));
  return made;
}

iobind_tensor *make_lengths(const play *self, size_t which, const growth *by, iobind_device *on) {
  int64_t values[ROWS * CAPACITY];
  iobind_tensor *made = make_empty(self, which, by->rows, by->added, on);
  size_t count = fill(self->kind, which, by, values);
  CALL(self, WELL, iobind_tensor_write(made, 0, values, count * sizeof *values, NULL, &fault));
  return made;
}

/* ---- the caller binds and writes them ---- */

static void bind_one(const play *self, player *of, size_t which, size_t added) {
  iobind_tensor *made = make_empty(self, which, of->now.rows, added, device);
  CALL(self, WELL, iobind_binding_set_input(of->handle, FIRST_LENGTH + which, IOBIND_INPUT_RESIDENT, made, NULL, &fault));
  iobind_tensor_release(made);
  if (which == MASK) of->mask_rows = of->now.rows;
}

static void bind_at(const play *self, player *of, size_t added) {
  for (size_t i = 0; i < count_lengths(self->kind); i++) bind_one(self, of, i, added);
  of->at = used_all(CAPACITY); /* not written yet: no run may use it */
  of->at_width = added;
  of->counted_rows = of->now.rows;
}

static void write_one(const play *self, const player *of, size_t which, const int64_t *values, size_t count,
                      iobind_stream *stream) {
  CALL(self, WELL,
       iobind_binding_write_input(of->handle, FIRST_LENGTH + which, values, count * sizeof *values, stream, &fault));
}

static int64_t *numbers(void) {
  return (int64_t *)(void *)memory((size_t)2 * ROWS * CAPACITY);
}

static void write_at(const play *self, player *of, int64_t at, size_t added, iobind_stream *stream) {
  const used from = used_all(at);
  const growth by = {.from = &from, .rows = of->now.rows, .added = added};
  say("    at = %d\n", (int)at);
  for (size_t i = 0; i < count_lengths(self->kind); i++) {
    int64_t *values = numbers();
    write_one(self, of, i, values, fill(self->kind, i, &by, values), stream);
  }
  of->at = from;
  of->added = added;
}

/* Are the lengths bound for `added` new rows of the current batch? */
static bool is_at_bound(const play *self, const player *of, size_t added) {
  return of->at.longest != UNKNOWN && of->counted_rows == of->now.rows && (self->kind != HIDDEN || of->at_width == added);
}

/* Write a mask that was named as written by the caller. */
static void write_mask(const play *self, player *of, const growth *by, iobind_stream *stream) {
  int64_t *values = numbers();
  if (of->mask_rows != of->now.rows) bind_one(self, of, MASK, by->added);
  write_one(self, of, MASK, values, fill(self->kind, MASK, by, values), stream);
  reached(FEATURE_OWN_MASK);
}

/* The mask counts more positions than the cache has: the attention kernel returns an error. */
static void spoil_mask(const play *self, player *of, iobind_stream *stream) {
  enum { FAR = 99 };
  int64_t *values = numbers();
  for (size_t i = 0; i < of->now.rows * CAPACITY; i++) values[i] = FAR;
  write_one(self, of, MASK, values, of->now.rows * CAPACITY, stream);
  of->at = used_all(CAPACITY); /* no run may use it */
}

/* ---- iobind writes them ---- */

/* `lengths` NULL: those that iobind has counted. Otherwise one for all rows if they are equal, or one for each row. */
static iobind_status write_these(const player *of, size_t added, const used *lengths, iobind_stream *stream) {
  int64_t each[ROWS];
  size_t rows = lengths == NULL ? 0 : used_is_uneven(lengths, of->now.rows) ? of->now.rows : 1;
  for (size_t row = 0; row < rows; row++) each[row] = used_at(lengths, row);
  return iobind_binding_write_lengths(of->handle, added, lengths == NULL ? NULL : each, rows, stream, &fault);
}

static void note_write(const play *self, const player *of, const used *from, bool is_given) {
  bool is_uneven = used_is_uneven(from, of->now.rows);
  reached_if(FEATURE_COUNTED, !is_given);
  reached_if(FEATURE_GIVEN, is_given);
  reached_if(FEATURE_GIVEN_UNEVEN, is_given && is_uneven);
  reached_if(FEATURE_COUNTED_UNEVEN, !is_given && is_uneven);
  reached_if(FEATURE_COUNTED_QUEUED, !is_given && of->stream != IDLE);
  reached_if(FEATURE_LENGTH_OF_OTHER_ROWS, !is_given && of->counted_rows != of->now.rows);
  reached_if(FEATURE_NAMED, self->kind == HIDDEN);
  reached_if(FEATURE_NAMED_UNEVEN, self->kind == HIDDEN && is_uneven);
  reached_if(FEATURE_NAMED_QUEUED, self->kind == HIDDEN && of->stream != IDLE);
}

static void write_lengths(play *self, player *of, plan *to, const used *given, iobind_stream *stream) {
  used from = given == NULL ? of->counted : *given;
  say("    write_lengths(%zu, %d%s%s)\n", to->count, (int)from.longest, given == NULL ? ", counted" : "",
      used_is_uneven(&from, of->now.rows) ? ", uneven" : "");
  if (!of->is_surveyed) make_idle(self, of);
  if (from.longest + (int64_t)to->count > CAPACITY) {
    CALL(self, STATUS(INVALID_ARGUMENT), write_these(of, to->count, given, stream));
    reached(FEATURE_OVERFLOW);
    from = used_all(0);
    given = &from;
  }
  CALL(self, WELL, write_these(of, to->count, given, stream));
  const growth by = {.from = &from, .rows = of->now.rows, .added = to->count};
  if (of->writes_mask) write_mask(self, of, &by, stream);
  note_write(self, of, &from, given != NULL);
  of->is_surveyed = true;
  of->is_unsure = false;
  of->counted = from;
  if (of->stream == IDLE) {
    of->counted_before = from;
  } else if (of->counted_before.longest != UNKNOWN) {
    of->counted_before = used_least(&from, &of->counted_before, of->now.rows);
  }
  of->counted_rows = of->now.rows;
  of->at_width = to->count;
  of->at = from;
  of->added = to->count;
  to->from = from;
  to->is_counted = true;
}

/* Lengths cannot be written into inputs that are bound for another number of new rows. */
static void refuse_width(const play *self, const player *of, size_t added) {
  const used none = used_all(0);
  CALL(self, STATUS(SHAPE), write_these(of, added, &none, NULL));
  reached(FEATURE_OTHER_WIDTH);
}

/* ---- where a run writes ---- */

/* May the next run use the lengths as they are? They must have a number for each row of the batch. Those of a failed run may not be used
 * again. */
static bool is_at_usable(const play *self, const player *of, const plan *to) {
  return is_at_bound(self, of, to->count) && !of->is_told && of->at.longest >= 0 &&
         of->at.longest + (int64_t)to->count <= CAPACITY;
}

/* One length for all rows, or one for each. */
static used draw_lengths(play *self, const player *of, int64_t given) {
  int64_t each[ROWS];
  bool is_one = draw(self, 2) == 0;
  for (size_t row = 0; row < of->now.rows; row++) {
    each[row] = is_one ? given : (int64_t)draw(self, CAPACITY - MOST_NEW + 1);
  }
  return used_of(each, of->now.rows);
}

/* Bind the lengths that the caller owns. */
static void prepare_at(play *self, player *of, size_t added) {
  if (of->stream != IDLE || !of->owns_at || is_at_bound(self, of, added)) return;
  if (of->at.longest != UNKNOWN && of->counted_rows == of->now.rows) refuse_width(self, of, added);
  bind_at(self, of, added);
}

void plan_append(play *self, player *of, plan *to, iobind_stream *stream) {
  size_t way = draw(self, 10);
  int64_t given = (int64_t)draw(self, CAPACITY - MOST_NEW + 1);
  prepare_at(self, of, to->count);
  bool leaves_out = way >= 8 || (way >= 3 && of->counted.longest != UNKNOWN);
  if (leaves_out && of->stream == IDLE && of->at.longest == UNKNOWN) {
    to->is_refused = true;
  } else if (way == 8 && is_at_bound(self, of, to->count)) {
    write_at(self, of, given, to->count, stream);
    to->from = used_all(given);
    reached(FEATURE_WRITTEN);
  } else if (way == 9 && is_at_usable(self, of, to)) {
    to->from = of->at;
    reached(FEATURE_STALE);
  } else {
    bool counts_on = way < 6 && of->counted.longest != UNKNOWN && !of->is_unsure;
    const used lengths = draw_lengths(self, of, given);
    write_lengths(self, of, to, counts_on ? NULL : &lengths, stream);
  }
}

/* On the CPU: the lengths are valid, but the mask is not. iobind does not check the mask. */
bool plan_failure(play *self, player *of, plan *to, iobind_stream *stream) {
  if (of->writes_mask) {
    plan_append(self, of, to, stream);
    if (to->is_refused || of->mask_rows != of->now.rows) return false;
  } else {
    if (!is_at_bound(self, of, to->count)) return false;
    write_at(self, of, (int64_t)draw(self, CAPACITY - MOST_NEW + 1), to->count, stream);
  }
  spoil_mask(self, of, stream);
  return true;
}

/* ---- lengths that are wrong ---- */

/* A named cache that is carried by MOVE has no upper limit: iobind does not know whether it may grow. */
static int64_t draw_wrong(play *self, const player *of, size_t added) {
  bool has_limit = self->kind != HIDDEN || of->mode != IOBIND_CARRY_MOVE;
  int64_t by = 1 + (int64_t)draw(self, 2);
  return has_limit && draw(self, 2) == 0 ? CAPACITY - (int64_t)added + by : -by;
}

/* A run with an invalid length is refused where the host reads lengths. The state, its length and later runs are unaffected. */
void do_wrong_length(play *self, player *of) {
  if (device != cpu || !kind_is_cache(self->kind)) {
    do_run(self, of);
    return;
  }
  make_idle(self, of);
  if (of->is_defined != DEFINED || of->is_told || of->bound == 0 || of->news_rows != of->now.rows ||
      !is_at_bound(self, of, of->bound)) {
    return;
  }
  int way = draw(self, 2) == 0 ? IDLE : 0;
  if (way != IDLE) synchronize(self, way);
  iobind_stream *stream = way == IDLE ? NULL : self->streams[way];
  say("  b%zu: a run with a wrong length\n", (size_t)(of - self->players));
  write_at(self, of, draw_wrong(self, of, of->bound), of->bound, stream);
  of->at = used_all(CAPACITY);
  CALL(self, way == IDLE ? STATUS(INVALID_ARGUMENT) : WELL, iobind_binding_run(of->handle, stream, &fault));
  if (way != IDLE) {
    CALL(self, STATUS(INVALID_ARGUMENT), iobind_stream_synchronize(stream, &fault));
    of->is_told = true;
    of->has_wrong_length = true;
  }
  reached(FEATURE_WRONG_LENGTH);
}

/* ---- names ---- */

static const iobind_length_role roles[] = {IOBIND_LENGTH_POSITIONS, IOBIND_LENGTH_MASK};

static iobind_status name_cache(iobind_binding *binding) {
  return iobind_binding_name_length(binding, 0, IOBIND_LENGTH_CACHE, 1, &fault);
}

void name_lengths(const play *self, iobind_binding *binding, bool writes_mask) {
  CALL(self, WELL, name_cache(binding));
  for (size_t i = 0; i < 2; i++) {
    iobind_length_role role = i == MASK && writes_mask ? IOBIND_LENGTH_OTHER : roles[i];
    CALL(self, WELL, iobind_binding_name_length(binding, FIRST_LENGTH + i, role, 0, &fault));
  }
}

/* An invalid name is refused and changes nothing. */
static void misname(play *self, const player *of) {
  static const struct {
    size_t input;
    iobind_length_role role;
    size_t axis;
    unsigned status;
  } cases[] = {{FIRST_LENGTH + 2, IOBIND_LENGTH_AFTER, 0, STATUS(NOT_FOUND)},
               {0, IOBIND_LENGTH_CACHE, 3, STATUS(INVALID_ARGUMENT)},
               {FIRST_LENGTH, (iobind_length_role)9, 0, STATUS(INVALID_ARGUMENT)},
               {1, IOBIND_LENGTH_LAST, 0, STATUS(DTYPE)}};
  size_t i = draw(self, sizeof cases / sizeof cases[0]);
  say("  b%zu: an invalid name\n", (size_t)(of - self->players));
  CALL(self, cases[i].status | (of->stream == IDLE ? 0 : STATUS(INVALID_STATE)),
       iobind_binding_name_length(of->handle, cases[i].input, cases[i].role, cases[i].axis, &fault));
  reached(FEATURE_MISNAMED);
}

static void forget_count(player *of) {
  of->counted = used_none();
  of->is_surveyed = false;
  of->is_unsure = false;
}

/* Without the name of the cache, or without any named length input, no lengths can be written. */
static void unname(play *self, player *of) {
  static const int64_t none = 0;
  bool is_cache = draw(self, 2) == 0;
  for (size_t i = is_cache ? 0 : FIRST_LENGTH; i < (is_cache ? 1U : FIRST_LENGTH + 2U); i++) {
    CALL(self, WELL, iobind_binding_name_length(of->handle, i, IOBIND_LENGTH_UNNAMED, 0, &fault));
  }
  CALL(self, STATUS(NOT_SUPPORTED), iobind_binding_write_lengths(of->handle, 1, &none, 1, NULL, &fault));
  if (of->is_defined == DEFINED && !of->is_told) {
    CALL(self, STATUS(NOT_SUPPORTED), iobind_binding_rewind_state(of->handle, 0, &fault));
  }
  reached(FEATURE_UNNAMED);
}

/* Removing a name, or naming an input again, makes the length unknown. */
void do_name(play *self, player *of) {
  if (self->kind != HIDDEN) {
    do_run(self, of);
    return;
  }
  if (draw(self, 3) == 0) {
    misname(self, of);
    return;
  }
  if (draw(self, 3) != 0) make_idle(self, of);
  say("  b%zu: named again\n", (size_t)(of - self->players));
  fixture_arm();
  if (!change(self, of, name_cache(of->handle), WELL, "name_length")) return;
  reached_if(FEATURE_RENAMED, of->counted.longest != UNKNOWN);
  forget_count(of);
  if (draw(self, 2) == 0) {
    unname(self, of);
    name_lengths(self, of->handle, of->writes_mask);
  }
}
