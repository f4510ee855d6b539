#include <string.h>

#include "play.h"

/* ---- inputs ---- */

float *memory(size_t count) {
  enum { FLOATS = 1 << 16 };
  static float floats[FLOATS];
  static size_t taken;
  taken = taken + count > FLOATS ? 0 : taken;
  taken += count;
  return floats + taken - count;
}

static size_t fill_news(const play *self, const player *of, float base, size_t count, float *out) {
  size_t times = self->kind == GROW ? 1 : WIDTH;
  size_t total = 0;
  for (size_t row = 0; row < of->now.rows; row++) {
    for (size_t i = 0; i < count; i++) {
      for (size_t w = 0; w < times; w++) out[total++] = model_number(base, row, i);
    }
  }
  return total;
}

static void make_news(const play *self, player *of, size_t count) {
  int64_t dims[3] = {(int64_t)of->now.rows, self->kind == SUM ? WIDTH : (int64_t)count, WIDTH};
  if (of->news_rows != of->now.rows) {
    for (size_t i = 0; i < MOST_NEW; i++) {
      iobind_tensor_release(of->news[i]);
      of->news[i] = NULL;
    }
    of->news_rows = of->now.rows;
    of->bound = 0;
  }
  if (of->news[count - 1] == NULL) {
    CALL(self, WELL,
         iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, kind_is_cache(self->kind) ? 3 : 2,
                              &of->news[count - 1], &fault));
  }
}

/* Write new rows into a resident input, as captured graphs need. While a run is in flight the input is not rebound. */
static void bring(const play *self, player *of, float base, size_t count, iobind_stream *stream) {
  if (of->stream == IDLE) make_news(self, of, count);
  if (of->bound != count) {
    CALL(self, WELL, iobind_binding_set_input(of->handle, 1, IOBIND_INPUT_RESIDENT, of->news[count - 1], NULL, &fault));
    of->bound = count;
  }
  float *numbers = memory((size_t)ROWS * CAPACITY * WIDTH);
  size_t total = fill_news(self, of, base, count, numbers);
  CALL(self, WELL, iobind_binding_write_input(of->handle, 1, numbers, total * sizeof *numbers, stream, &fault));
}

/* ---- a run ---- */

static void note_features(const play *self, const player *of, int way) {
  reached_if(FEATURE_MOVE, of->mode == IOBIND_CARRY_MOVE);
  reached_if(FEATURE_SWAP, of->mode == IOBIND_CARRY_SWAP);
  reached_if(FEATURE_IN_PLACE, of->mode == IOBIND_CARRY_IN_PLACE);
  reached_if(FEATURE_GRAPH, self->captures);
  reached_if(FEATURE_VERIFIED, self->verifies);
  reached_if(FEATURE_STREAM, way != IDLE);
  reached_if(FEATURE_QUEUED, of->stream != IDLE);
}

static void note_run(const play *self, player *of, const plan *how, float base, int way) {
  note_features(self, of, way);
  if (of->stream == IDLE) {
    of->before = of->now;
    of->counted_before = how->is_counted ? how->from : used_none();
  } else if (!how->is_counted) {
    of->counted_before = used_none();
  }
  model_run(self->kind, &of->now, base, how->count, &how->from);
  of->result = of->now;
  of->counted = how->is_counted ? how->from : used_none();
  of->counted.longest += how->is_counted ? (int64_t)how->count : 0;
  of->stream = way;
  of->runs = way == IDLE ? 0 : of->runs + 1;
  of->is_defined = DEFINED;
  of->is_told = false;
  of->is_unsure = false;
}

/* Check the attention of a completed run. */
static void check_attention(const play *self, const player *of, const plan *how, float base) {
  iobind_tensor *y;
  used valid = how->from;
  if (!kind_attends(self->kind) || of->stream != IDLE) return;
  valid.longest += (int64_t)of->added;
  CALL(self, WELL, iobind_binding_get_output(of->handle, 1, NULL, &y, &fault));
  expect_attention(self, &of->now, base, how->count, &valid, y);
  reached_if(FEATURE_ATTENDED_UNEVEN, used_is_uneven(&valid, of->now.rows));
}

/* If the binding has reached its limit of graphs, reset them and run again. */
static iobind_status run_on(play *self, player *of, int way) {
  iobind_stream *stream = way == IDLE ? NULL : self->streams[way];
  fixture_arm();
  iobind_status status = iobind_binding_run(of->handle, stream, &fault);
  if (status == IOBIND_ERROR_INVALID_STATE && strstr(fault.message, "iobind_binding_reset_graphs") != NULL) {
    make_idle(self, of);
    CALL(self, WELL, iobind_binding_reset_graphs(of->handle, &fault));
    fixture_arm();
    status = iobind_binding_run(of->handle, stream, &fault);
  }
  return status;
}

/* Is there room for more rows? */
static bool can_run(const play *self, const player *of) {
  return self->kind != GROW || of->now.length + MOST_NEW <= CAPACITY;
}

static int choose_way(play *self, const player *of) {
  return of->stream != IDLE ? of->stream : draw(self, 2) == 0 ? IDLE : (int)draw(self, STREAMS);
}

static size_t choose_count(play *self, const player *of) {
  size_t count = self->kind == SUM ? 1 : 1 + draw(self, MOST_NEW);
  return of->stream != IDLE && of->bound != 0 ? of->bound : count;
}

/* True: the state was undefined, and the run was refused. */
static bool is_refused(play *self, player *of) {
  if (of->is_defined != UNDEFINED || of->stream != IDLE) return false;
  CALL(self, expect_state(of), iobind_binding_run(of->handle, NULL, &fault));
  reached(FEATURE_UNDEFINED);
  return true;
}

void do_run(play *self, player *of) {
  int way = choose_way(self, of);
  plan how = {.count = choose_count(self, of)};
  float base = draw_base(self);
  if (!can_run(self, of) || is_refused(self, of)) return;
  iobind_stream *stream = way == IDLE ? NULL : self->streams[way];
  say("  b%zu: run %g x %zu on S%d\n", (size_t)(of - self->players), (double)base, how.count, way);
  bring(self, of, base, how.count, stream);
  if (kind_is_cache(self->kind)) plan_append(self, of, &how, stream);
  if (how.is_refused) {
    CALL(self, STATUS(INVALID_STATE), iobind_binding_run(of->handle, stream, &fault));
    reached_if(FEATURE_UNBOUND, of->counted.longest != UNKNOWN);
    if (way != IDLE) synchronize(self, way); /* the copy of the new rows may be in flight */
    return;
  }
  if (require(self, run_on(self, of, way), expect_state(of), "run")) {
    note_run(self, of, &how, base, way);
    check_attention(self, of, &how, base);
  } else {
    of->is_defined = UNDEFINED;
    if (way != IDLE) synchronize(self, way);
  }
}

/* ---- runs that are refused before ORT is called ---- */

/* A LIVE input is copied before each run, and this copy fails. The length stays known. */
void do_refused_run(play *self, player *of) {
  plan how = {.count = 1};
  if (!has_faults() || self->captures || of->is_defined != DEFINED || !can_run(self, of)) return;
  make_idle(self, of);
  if (kind_is_cache(self->kind) && (of->at.longest == UNKNOWN || of->counted_rows != of->now.rows)) return;
  float numbers[ROWS * WIDTH];
  int64_t dims[3] = {(int64_t)of->now.rows, self->kind == SUM ? WIDTH : 1, WIDTH};
  iobind_tensor *row;
  size_t total = fill_news(self, of, draw_base(self), how.count, numbers);
  say("  b%zu: a run that is refused\n", (size_t)(of - self->players));
  CALL(self, WELL,
       iobind_tensor_create(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, kind_is_cache(self->kind) ? 3 : 2, &row,
                            &fault));
  CALL(self, WELL, iobind_tensor_write(row, 0, numbers, total * sizeof *numbers, NULL, &fault));
  CALL(self, WELL, iobind_binding_set_input(of->handle, 1, IOBIND_INPUT_LIVE, row, NULL, &fault));
  iobind_tensor_release(row);
  of->bound = 0;
  int way = draw(self, 2) == 0 ? IDLE : 0;
  if (way != IDLE) synchronize(self, way);
  set_fault("fail_copy", "1");
  unsigned earlier = STATUS(SHAPE) | STATUS(INVALID_STATE); /* the lengths may be those of a failed run */
  CALL(self, STATUS(RUNTIME) | earlier, iobind_binding_run(of->handle, way == IDLE ? NULL : self->streams[way], &fault));
  set_fault("fail_copy", "0");
  if (way != IDLE) synchronize(self, way); /* the run has returned the failure */
  reached_if(FEATURE_REFUSED, of->counted.longest != UNKNOWN);
}

/* ---- runs that fail ---- */

static bool prepare_failure(play *self, player *of, plan *how, bool is_late, iobind_stream *stream) {
  if (has_faults()) {
    if (kind_is_cache(self->kind)) plan_append(self, of, how, stream);
    if (how->is_refused) return false;
    set_fault("fail_compute", is_late ? "1,late" : "1");
    return true;
  }
  return plan_failure(self, of, how, stream);
}

/* The last one of the runs in flight has failed, and its failure was reported. The host may have known that the earlier ones were
 * complete. */
static void note_failure(const play *self, player *of, const plan *how, bool is_alone) {
  bool is_in_place = of->mode == IOBIND_CARRY_IN_PLACE;
  of->counted = how->is_counted ? (is_alone ? how->from : of->counted_before) : used_none();
  of->is_unsure = !is_alone && of->counted.longest != UNKNOWN;
  of->is_told = true;
  of->has_wrong_length = false;
  of->is_defined = self->captures || (!is_in_place && !is_alone) ? UNDECIDED : is_in_place ? UNDEFINED : DEFINED;
  reached_if(FEATURE_FAILED_GRAPH, self->captures);
  reached_if(FEATURE_FAILED_UNEVEN, of->counted.longest != UNKNOWN && used_is_uneven(&of->counted, of->now.rows));
  /* a rewind can define only positions that were written before the first of these runs */
  if (of->counted.longest != UNKNOWN && of->is_defined == UNDEFINED) model_forget(&of->now, &of->counted);
  of->stream = IDLE;
  of->runs = 0;
}

static void expect_failed_state(play *self, player *of) {
  iobind_state *state = NULL;
  iobind_state_pair pair = IOBIND_STATE_PAIR_INIT;
  fixture_arm();
  if (iobind_binding_save_state(of->handle, &state, &fault) != IOBIND_OK) return; /* the call returned the failure */
  say("  saved of a run that fails\n");
  (void)!iobind_stream_synchronize(self->streams[0], NULL);
  if (iobind_state_get_pair(state, 0, &pair, NULL) == IOBIND_OK) wrong(self, "the state of a failed run can be read");
  reached(FEATURE_FAILED_STATE);
  iobind_state_release(state);
}

/* Does other work in flight share the stream? A host wait that covers both does not tell which of them has failed. */
static bool is_shared(const play *self, int stream) {
  bool found = self->players[0].stream == self->players[1].stream;
  for (size_t i = 0; i < SAVED; i++) {
    found = found || (self->saved[i].handle != NULL && self->saved[i].stream == stream);
  }
  return found;
}

void do_failed_run(play *self, player *of) {
  bool is_late = fails_late() && draw(self, 2) == 0;
  if (self->captures && !fails_late()) return; /* a capture that fails on CUDA has tests of its own */
  if (is_late) do_run(self, of);               /* vdev blocks in a run whose dims differ from those of the preceding run */
  if (draw(self, 2) == 0) make_idle(self, of);
  plan how = {.count = is_late && of->bound != 0 ? of->bound : choose_count(self, of)};
  float base = draw_base(self);
  if ((!has_faults() && (device != cpu || self->kind != HIDDEN)) || of->is_defined != DEFINED || !can_run(self, of)) return;
  for (int i = 0; i < STREAMS; i++) {
    if (i != of->stream || !is_late || is_shared(self, i)) synchronize(self, i);
  }
  int way = is_late ? (of->stream != IDLE ? of->stream : 0) : IDLE;
  /* Wait where the outcome depends on timing. A replay may complete at once, and a verified run has completed. After an uncounted run
   * the length is known only if the host has seen the end of that run. */
  bool is_uncounted = kind_is_cache(self->kind) && of->counted_before.longest == UNKNOWN;
  if (of->stream != IDLE && (self->captures || self->verifies || is_uncounted)) make_idle(self, of);
  bool was_in_flight = of->stream != IDLE;
  iobind_stream *stream = way == IDLE ? NULL : self->streams[way];
  say("  b%zu: a run %g x %zu on S%d that fails%s\n", (size_t)(of - self->players), (double)base, how.count, way,
      is_late ? " late" : "");
  bring(self, of, base, how.count, stream);
  if (!prepare_failure(self, of, &how, is_late, stream)) return;
  iobind_status status = run_on(self, of, way);
  if (is_late && status == IOBIND_OK && way == 0 && !was_in_flight && draw(self, 3) == 0) expect_failed_state(self, of);
  iobind_status ended = way == IDLE ? IOBIND_OK : iobind_stream_synchronize(stream, NULL);
  if (has_faults()) set_fault("fail_compute", "0");
  if (status == IOBIND_OK && ended == IOBIND_OK && !self->captures) {
    if (!is_late) wrong(self, "expected the run to fail");
  }
  if (status == IOBIND_OK && way == IDLE) { /* a replay makes no kernel launches that the fault counts */
    note_run(self, of, &how, base, way);
    return;
  }
  note_failure(self, of, &how, !was_in_flight);
  reached(FEATURE_FAILED);
  reached_if(FEATURE_LATE, status == IOBIND_OK);
  reached_if(FEATURE_LATE_OF_SEVERAL, status == IOBIND_OK && was_in_flight);
}

/* ---- runs with wrong results ---- */

/* The kernel may have written anywhere: an IN_PLACE state cannot be rewound, only rebound. */
static void expect_lost(play *self, player *of) {
  fixture_arm();
  if (iobind_binding_rewind_state(of->handle, 0, &fault) == IOBIND_OK) wrong(self, "a lost state was rewound");
  do_bind(self, of);
}

void do_wrong_run(play *self, player *of) {
  plan how = {.count = 1};
  if (!has_faults() || !self->verifies || of->is_defined != DEFINED || !can_run(self, of)) return;
  if (self->kind == HIDDEN && loses_device()) return; /* a wrong index is outside the cache, which loses the device */
  make_idle(self, of);
  float base = draw_base(self);
  bring(self, of, base, how.count, NULL);
  if (kind_is_cache(self->kind)) plan_append(self, of, &how, NULL);
  if (how.is_refused) return;
  say("  b%zu: a run with a wrong result\n", (size_t)(of - self->players));
  set_fault("wrong_compute", "every:1");
  CALL(self, STATUS(RESULT), iobind_binding_run(of->handle, NULL, &fault));
  set_fault("wrong_compute", "0");
  reached(FEATURE_WRONG);
  of->counted = how.is_counted ? how.from : used_none();
  of->is_told = true;
  if (of->mode == IOBIND_CARRY_IN_PLACE) expect_lost(self, of);
}
