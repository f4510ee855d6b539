#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "play.h"

static size_t index_of(const play *self, const player *of) {
  return (size_t)(of - self->players);
}

/* ---- saved states ---- */

/* A saved state of a counted cache may hold only the positions in use. */
static value read_back(const play *self, const value *holds, const used *counted) {
  value read = *holds;
  const used all = used_all(counted->longest); /* each row up to the length of the longest */
  if (kind_is_cache(self->kind) && counted->longest != UNKNOWN) model_forget(&read, &all);
  return read;
}

static void check_saved(const play *self, const saved *of) {
  iobind_state_pair pair = IOBIND_STATE_PAIR_INIT;
  CALL(self, WELL, iobind_state_get_pair(of->handle, 0, &pair, &fault));
  expect_tensor(self, &of->holds, pair.tensor, "a saved state");
}

saved *put_saved(play *self, iobind_state *handle, const value *holds, const used *counted, size_t from) {
  saved *to = &self->saved[draw(self, SAVED)];
  if (to->handle != NULL) {
    check_saved(self, to);
    iobind_state_release(to->handle);
  }
  *to = (saved){.handle = handle, .holds = read_back(self, holds, counted), .counted = *counted, .from = from, .stream = IDLE};
  return to;
}

void check_all_saved(const play *self) {
  for (size_t i = 0; i < SAVED; i++) {
    if (self->saved[i].handle != NULL) check_saved(self, &self->saved[i]);
  }
}

static saved *choose_saved(play *self) {
  saved *one = &self->saved[draw(self, SAVED)];
  return one->handle == NULL ? NULL : one;
}

void do_save(play *self, player *of) {
  iobind_state *made = NULL;
  say("  b%zu: save\n", index_of(self, of));
  if (!CALL(self, expect_state(of), iobind_binding_save_state(of->handle, &made, &fault))) {
    reached_if(FEATURE_UNDEFINED, of->is_defined == UNDEFINED);
    return;
  }
  reached(FEATURE_SAVED);
  reached_if(FEATURE_SAVED_IN_FLIGHT, of->stream != IDLE);
  if (of->is_unsure) { /* the saved length is unsure too */
    iobind_state_release(made);
    return;
  }
  reached_if(FEATURE_SAVED_NAMED, self->kind == HIDDEN && of->counted.longest != UNKNOWN);
  put_saved(self, made, &of->now, &of->counted, index_of(self, of))->stream = of->stream;
  reached_if(FEATURE_SAVED_UNEVEN, used_is_uneven(&of->counted, of->now.rows));
}

value player_holds(const play *self, const player *of) {
  return read_back(self, &of->now, &of->counted);
}

void check_player(play *self, player *of) {
  iobind_state *made = NULL;
  saved read = {.holds = player_holds(self, of)};
  say("  b%zu: looked at\n", index_of(self, of));
  if (CALL(self, expect_state(of), iobind_binding_save_state(of->handle, &made, &fault))) {
    read.handle = made;
    check_saved(self, &read);
  }
  iobind_state_release(made);
}

/* ---- changes of the state ---- */

bool change(play *self, player *of, iobind_status status, unsigned expected, const char *call) {
  bool is_busy = of->stream != IDLE && status == IOBIND_ERROR_INVALID_STATE && strstr(fault.message, "in flight") != NULL;
  if (is_busy) {
    say("    in flight\n");
    reached(FEATURE_BUSY);
    return false;
  }
  of->stream = IDLE;
  of->runs = 0;
  return require(self, status, expected, call);
}

static void wait_mostly(play *self, player *of) {
  if (draw(self, 3) != 0) make_idle(self, of);
}

void do_restore(play *self, player *of) {
  const saved *from = choose_saved(self);
  if (from == NULL) return;
  wait_mostly(self, of);
  if (self->captures && from->holds.rows != of->now.rows) return;
  say("  b%zu: restore saved %zu\n", index_of(self, of), (size_t)(from - self->saved));
  fixture_arm();
  if (!change(self, of, iobind_binding_restore_state(of->handle, from->handle, &fault), WELL, "restore")) return;
  reached(FEATURE_RESTORED);
  reached_if(FEATURE_BRANCHED, from->from != index_of(self, of) && from->from != BINDINGS);
  reached_if(FEATURE_RESTORED_ROWS, from->holds.rows != of->now.rows);
  begin_from(of, &from->holds, &from->counted);
  of->is_told = false;
  if (of->counted.longest != UNKNOWN && of->at.longest == UNKNOWN) do_run(self, of); /* without a length it is refused */
}

static size_t draw_rows(play *self, const player *of, int64_t rows[ROWS]) {
  size_t count = draw(self, 2) == 0 ? of->now.rows : 1 + draw(self, ROWS);
  for (size_t i = 0; i < count; i++) {
    rows[i] = (int64_t)draw(self, of->now.rows);
  }
  return count;
}

void do_reorder(play *self, player *of) {
  int64_t rows[ROWS];
  size_t count = draw_rows(self, of, rows);
  bool is_wrong = draw(self, 8) == 0;
  bool is_other = count != of->now.rows;
  if (is_wrong) rows[draw(self, count)] = (int64_t)of->now.rows;
  say("  b%zu: reorder %zu rows%s\n", index_of(self, of), count, is_wrong ? ", wrong" : "");
  wait_mostly(self, of);
  unsigned refusal = is_wrong ? STATUS(INVALID_ARGUMENT) : self->captures && is_other ? STATUS(NOT_SUPPORTED) : WELL;
  unsigned may = expect_state(of);
  unsigned expected = (may & ~WELL) | ((may & WELL) != 0 ? refusal : 0);
  fixture_arm();
  iobind_status status = iobind_binding_reorder_state(of->handle, 0, rows, count, &fault);
  if (!change(self, of, status, expected, "reorder")) {
    reached_if(FEATURE_OUT_OF_RANGE, status == IOBIND_ERROR_INVALID_ARGUMENT);
    return;
  }
  reached(FEATURE_REORDERED);
  reached_if(FEATURE_OTHER_ROWS, is_other);
  reached_if(FEATURE_REORDERED_UNEVEN, of->counted.longest != UNKNOWN && used_is_uneven(&of->counted, of->now.rows));
  if (of->counted.longest != UNKNOWN) of->counted = used_take(&of->counted, rows, count);
  model_reorder(&of->now, rows, count);
  of->is_defined = DEFINED;
  of->is_told = false;
  of->is_surveyed = false;
}

/* The statuses that a rewind of a defined state may return. */
static unsigned expect_rewind(const play *self, const player *of, size_t length) {
  switch (self->kind) {
    case GROW: return length <= of->now.length ? WELL : STATUS(INVALID_ARGUMENT);
    case APPEND:
    case ATTEND:
    case HIDDEN:
      if (of->is_unsure && (int64_t)length > of->counted.longest) return WELL | STATUS(INVALID_ARGUMENT);
      return of->counted.longest == UNKNOWN           ? STATUS(NOT_SUPPORTED)
             : (int64_t)length <= of->counted.longest ? WELL
                                                      : STATUS(INVALID_ARGUMENT);
    default: return STATUS(NOT_SUPPORTED);
  }
}

static void note_rewind(const play *self, player *of, size_t length) {
  reached_if(FEATURE_REWOUND_GROWING, self->kind == GROW);
  reached_if(FEATURE_REWOUND_COUNTED, kind_is_cache(self->kind));
  reached_if(FEATURE_REDEFINED, of->is_defined == UNDEFINED);
  reached_if(FEATURE_REWOUND_NAMED, self->kind == HIDDEN);
  reached_if(FEATURE_REDEFINED_NAMED, self->kind == HIDDEN && of->is_defined == UNDEFINED);
  if (of->is_unsure && kind_is_cache(self->kind)) model_forget(&of->now, &of->counted);
  bool is_uneven = kind_is_cache(self->kind) && used_is_uneven(&of->counted, of->now.rows);
  reached_if(FEATURE_REWOUND_UNEVEN, is_uneven && !of->is_unsure);
  /* Uneven lengths stay unsure: a shorter row may have more positions than counted, and each of several failed runs may have had other
   * lengths. */
  of->is_unsure = of->is_unsure && (is_uneven || (int64_t)length > of->counted.longest);
  of->now.length = self->kind == GROW ? length : of->now.length;
  of->counted = kind_is_cache(self->kind) ? used_cut(&of->counted, of->now.rows, (int64_t)length) : used_none();
  of->is_defined = DEFINED;
}

void do_rewind(play *self, player *of) {
  size_t length = draw(self, CAPACITY + 1);
  say("  b%zu: rewind to %zu\n", index_of(self, of), length);
  wait_mostly(self, of);
  unsigned expected = expect_rewind(self, of, length);
  bool is_counted = kind_is_cache(self->kind) && of->counted.longest != UNKNOWN;
  bool may_be_lost = of->is_defined != DEFINED && of->mode != IOBIND_CARRY_IN_PLACE;
  unsigned may = expect_state(of);
  if (!is_counted || may_be_lost) {
    expected |= may & ~WELL;
    expected &= may == (may & ~WELL) ? ~WELL : ~0U;
  }
  fixture_arm();
  iobind_status status = iobind_binding_rewind_state(of->handle, length, &fault);
  if (!change(self, of, status, expected, "rewind")) {
    reached_if(FEATURE_NOT_REWOUND, status == IOBIND_ERROR_NOT_SUPPORTED);
    reached_if(FEATURE_TOO_LONG, status == IOBIND_ERROR_INVALID_ARGUMENT);
    return;
  }
  note_rewind(self, of, length);
}

void do_bind(play *self, player *of) {
  static const iobind_input_mode modes[] = {IOBIND_INPUT_RESIDENT, IOBIND_INPUT_SNAPSHOT};
  size_t rows = of->now.rows == 0 || !self->captures ? 1 + draw(self, ROWS) : of->now.rows;
  value made = model_first(self->kind, rows, 1 + draw(self, 3), draw_base(self));
  iobind_input_mode mode = modes[draw(self, 2)];
  make_idle(self, of);
  iobind_tensor *first = make_tensor(self, &made, device);
  say("  b%zu: bind %zu rows, mode %d\n", index_of(self, of), rows, (int)mode);
  CALL(self, WELL, iobind_binding_set_input(of->handle, 0, mode, first, NULL, &fault));
  reached(FEATURE_BOUND);
  iobind_tensor_release(first);
  const used none = used_none();
  begin_from(of, &made, &none);
}

/* ---- files and retained results ---- */

void do_file(play *self) {
  char path[64];
  saved *one = choose_saved(self);
  if (one == NULL) return;
  snprintf(path, sizeof path, "/tmp/iobind-fuzz-states-%ld", (long)getpid());
  say("  saved %zu: to a file\n", (size_t)(one - self->saved));
  iobind_state *loaded;
  CALL(self, WELL, iobind_state_save(one->handle, path, &fault));
  CALL(self, WELL, iobind_state_load(self->session, path, &loaded, &fault));
  if (remove(path) != 0) abort();
  reached(FEATURE_FILE);
  check_saved(self, one);
  iobind_state_release(one->handle);
  one->handle = loaded;
  one->from = BINDINGS;
  one->stream = IDLE;
}

/* Later runs do not write a result that the caller retains, except by SWAP and IN_PLACE, where it is the state's memory. */
void do_keep(play *self, player *of) {
  kept *to = &self->kept[draw(self, KEPT)];
  iobind_tensor *result;
  if (of->mode != IOBIND_CARRY_MOVE) return; /* a later run writes there */
  make_idle(self, of);
  fixture_arm();
  if (iobind_binding_get_output(of->handle, 0, NULL, &result, &fault) != IOBIND_OK) return; /* there was no run */
  say("  b%zu: a result kept\n", index_of(self, of));
  if (to->tensor != NULL) expect_tensor(self, &to->holds, to->tensor, "a kept result");
  iobind_tensor_release(to->tensor);
  *to = (kept){iobind_tensor_retain(result), of->result};
  reached(FEATURE_KEPT);
}
