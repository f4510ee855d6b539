#include "play.h"

iobind_batch *open_batch(const play *self) {
  static const iobind_batch_pair pair = {0, 0};
  static const int32_t axes[4] = {0, 0, 0, 0};
  iobind_batch_options options = IOBIND_BATCH_OPTIONS_INIT;
  iobind_batch *made;
  options.most_rows = SLOTS;
  options.pairs = &pair;
  options.pair_count = 1;
  options.input_axes = axes;
  options.input_axis_count = count_inputs(self->kind);
  options.output_axes = axes;
  options.output_axis_count = kind_attends(self->kind) ? 2 : 1;
  CALL(self, WELL, iobind_batch_create(self->session, &options, &made, &fault));
  return made;
}

/* ---- rows join and leave ---- */

/* A new row begins as zeros. A row from a saved state keeps what that state holds; its other positions are unknown. */
static value joined(const play *self, const saved *from) {
  value made = from == NULL ? model_first(self->kind, 1, 0, 0) : from->holds;
  for (size_t i = 0; i < CAPACITY; i++) {
    bool is_zero = from == NULL || !made.known[0][i];
    made.numbers[0][i] = is_zero ? 0 : made.numbers[0][i];
    made.known[0][i] = made.known[0][i] || from == NULL;
  }
  return made;
}

static void join(play *self, member *one) {
  const saved *from = &self->saved[draw(self, SAVED)];
  from = from->handle != NULL && from->holds.rows == 1 ? from : NULL;
  say("  join %zu%s\n", (size_t)(one - self->members), from == NULL ? "" : " from a saved state");
  CALL(self, WELL, iobind_batch_join(self->batch, from == NULL ? NULL : from->handle, &one->slot, &fault));
  one->is_here = true;
  one->holds = joined(self, from);
  one->counted = from == NULL ? used_none() : from->counted;
  reached_if(FEATURE_JOINED, from != NULL && from->from != BINDINGS);
}

static void leave(play *self, member *one) {
  iobind_state *left;
  say("  leave %zu\n", (size_t)(one - self->members));
  CALL(self, WELL, iobind_batch_leave(self->batch, one->slot, &left, &fault));
  one->is_here = false;
  put_saved(self, left, &one->holds, &one->counted, BINDINGS);
  reached(FEATURE_LEFT);
}

void leave_batch(play *self) {
  for (size_t i = 0; i < SLOTS; i++) {
    if (self->members[i].is_here) leave(self, &self->members[i]);
  }
}

/* ---- a step ---- */

static iobind_tensor *make_row(const play *self, float base) {
  const int64_t dims[] = {1, self->kind == SUM ? WIDTH : 1, WIDTH};
  const float numbers[WIDTH] = {base, base};
  iobind_tensor *made;
  CALL(self, WELL,
       iobind_tensor_create(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, self->kind == SUM ? 2 : 3, &made, &fault));
  CALL(self, WELL, iobind_tensor_write(made, 0, numbers, sizeof numbers, NULL, &fault));
  return made;
}

static void set_length(const play *self, const member *one, size_t which, int64_t at) {
  const used from = used_all(at);
  const growth by = {.from = &from, .rows = 1, .added = 1};
  iobind_tensor *row = make_lengths(self, which, &by, cpu);
  CALL(self, WELL, iobind_batch_set_input(self->batch, one->slot, FIRST_LENGTH + which, row, &fault));
  iobind_tensor_release(row);
}

static void bring_row(const play *self, const member *one, float base, int64_t at) {
  iobind_tensor *row = make_row(self, base);
  CALL(self, WELL, iobind_batch_set_input(self->batch, one->slot, 1, row, &fault));
  iobind_tensor_release(row);
  for (size_t i = 0; i < count_lengths(self->kind); i++) set_length(self, one, i, at);
}

static void check_output(const play *self, const member *one, float base, int64_t at) {
  const used valid = used_all(at + 1);
  iobind_tensor *y;
  if (!kind_attends(self->kind)) return;
  CALL(self, WELL, iobind_batch_take_output(self->batch, one->slot, 1, &y, &fault));
  expect_attention(self, &one->holds, base, 1, &valid, y);
  iobind_tensor_release(y);
}

static void step(play *self) {
  uint64_t slots[SLOTS];
  value next[SLOTS];
  size_t of[SLOTS];
  float bases[SLOTS];
  int64_t places[SLOTS];
  size_t count = 0;
  for (size_t i = 0; i < SLOTS; i++) {
    const member *one = &self->members[i];
    if (one->is_here && draw(self, 3) != 0) {
      float base = draw_base(self);
      size_t at = draw(self, CAPACITY);
      bring_row(self, one, base, (int64_t)at);
      next[count] = one->holds;
      const used from = used_all((int64_t)at);
      model_run(self->kind, &next[count], base, 1, &from);
      of[count] = i;
      bases[count] = base;
      places[count] = (int64_t)at;
      slots[count++] = one->slot;
    }
  }
  if (count == 0) return;
  bool fails = has_faults() && !self->captures && draw(self, 6) == 0;
  say("  step of %zu%s\n", count, fails ? ", which fails" : "");
  if (fails) set_fault("fail_compute", "1");
  bool is_made = CALL(self, fails ? WELL | STATUS(RUNTIME) : WELL, iobind_batch_run(self->batch, slots, count, NULL, &fault));
  if (fails) set_fault("fail_compute", "0");
  reached_if(FEATURE_STEPPED, is_made);
  reached_if(FEATURE_BATCH_FAILED, !is_made);
  for (size_t i = 0; is_made && i < count; i++) {
    self->members[of[i]].holds = next[i];
    self->members[of[i]].counted = used_none();
    check_output(self, &self->members[of[i]], bases[i], places[i]);
  }
}

void do_batch(play *self) {
  if (self->batch == NULL) return;
  for (size_t i = 0; i < 4; i++) {
    member *one = &self->members[draw(self, SLOTS)];
    if (!one->is_here) {
      join(self, one);
    } else if (draw(self, 3) == 0) {
      leave(self, one);
    } else {
      step(self);
    }
  }
}
