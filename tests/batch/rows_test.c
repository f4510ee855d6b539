/* Rows of a batch beside the same rows in plain C. */
#include "fixture.h"

#include <stdio.h>

#include "batch/batch.h"
#include "vdev.h"
#include "voices.h"

static iobind_session *session;

static int start(void **state) {
  (void)stage_open(state);
  session = fixture_session(runtime, device, "voices");
  return 0;
}

static int stop(void **state) {
  iobind_session_destroy(session);
  session = NULL;
  return stage_close(state);
}

/* ---- one after the other ---- */

/* A row that is in no step keeps its state, whether it is put aside or runs along. */
static void rows_that_rest(void **state) {
  (void)state;
  iobind_batch *batch = voice_batch(session, 5, 0);
  voice_expect_rest(batch, 5, 12);
  iobind_batch_destroy(batch);
}

/* ---- at random ---- */

typedef struct member {
  bool is_here;
  uint64_t slot;
  voice row;
} member;

typedef struct saved {
  iobind_state *state; /* NULL: none */
  voice row;
} saved;

typedef struct play {
  iobind_batch *batch;
  iobind_stream *stream;
  uint64_t random;
  member members[MOST];
  saved saved;
  int64_t seed;
  size_t failures;
  size_t split;         /* steps of several replays */
  bool comes_on_device; /* some inputs do */
} play;

static size_t pick(play *self, size_t below) {
  self->random = self->random * 6364136223846793005u + 1442695040888963407u;
  return (size_t)(self->random >> 33) % below;
}

static void join(play *self) {
  size_t free_one = 0;
  while (free_one < MOST && self->members[free_one].is_here) {
    free_one++;
  }
  const bool from_saved = self->saved.state != NULL && pick(self, 2) == 0;
  iobind_state *state = from_saved ? self->saved.state : NULL;
  uint64_t slot;
  if (free_one == MOST) {
    expect(IOBIND_ERROR_INVALID_STATE, iobind_batch_join(self->batch, state, &slot, &fault));
    return;
  }
  expect_ok(iobind_batch_join(self->batch, state, &slot, &fault));
  self->members[free_one] = (member){.is_here = true, .slot = slot};
  if (from_saved) {
    self->members[free_one].row = self->saved.row;
  }
}

static void keep(play *self, iobind_state *state, const voice *row) {
  voice_expect_saved(state, row);
  iobind_state_release(self->saved.state);
  self->saved = (saved){state, *row};
}

static void leave(play *self, member *one) {
  iobind_state *state = NULL;
  const bool keeps = pick(self, 2) == 0;
  expect_ok(iobind_batch_leave(self->batch, one->slot, keeps ? &state : NULL, &fault));
  expect(IOBIND_ERROR_NOT_FOUND, iobind_batch_leave(self->batch, one->slot, NULL, &fault));
  if (keeps) {
    keep(self, state, &one->row);
  }
  one->is_here = false;
}

static void save(play *self, const member *one) {
  iobind_state *state;
  expect_ok(iobind_batch_save_state(self->batch, one->slot, &state, &fault));
  keep(self, state, &one->row);
}

/* A kernel of the step fails: one of the test, of rows that move, or of the run, and that at once or late. */
static void set_failure(size_t nth, bool is_late) {
  char text[32];
  snprintf(text, sizeof text, "%zu%s", nth, is_late ? ",late" : "");
  assert_int_equal(vdev_set(0, "fail_compute", text), 0);
}

/* A step in flight ends with the next call that needs its end. This one runs no kernel of its own. */
static iobind_status settle(play *self, uint64_t slot) {
  iobind_tensor *output = NULL;
  iobind_status status = iobind_batch_take_output(self->batch, slot, Z, &output, NULL);
  iobind_tensor_release(output);
  return status;
}

/* A step that fails leaves all as it was, so that it can be made again. The one before it has ended, so that it is not that one which fails. */
static void run(play *self, const uint64_t *asked, size_t count) {
  iobind_stream *stream = pick(self, 2) == 0 ? self->stream : NULL;
  const bool fails = is_device("vdev") && pick(self, 4) == 0;
  if (!fails) {
    expect_ok(iobind_batch_run(self->batch, asked, count, stream, &fault));
    return;
  }
  iobind_state *state;
  expect_ok(iobind_batch_save_state(self->batch, asked[0], &state, &fault));
  iobind_state_release(state);
  set_failure(1 + pick(self, 12), stream != NULL && pick(self, 2) == 0);
  iobind_status status = iobind_batch_run(self->batch, asked, count, stream, NULL);
  if (status == IOBIND_OK && stream != NULL) {
    status = settle(self, asked[0]);
  }
  set_failure(0, false);
  if (status != IOBIND_OK) {
    assert_int_equal(status, IOBIND_ERROR_RUNTIME);
    self->failures++;
    expect_ok(iobind_batch_run(self->batch, asked, count, NULL, &fault));
  }
}

/* Several replays cost what one does, or each costs as much as any: whatever is measured is more. */
static void set_costs(play *self) {
  const bool splits = pick(self, 2) == 0;
  for (size_t width = 1; self->batch->captures && width <= self->batch->room; width *= 2) {
    self->batch->costs.runs[width] = splits ? width : 1;
  }
}

/* Some of the rows, in any order; by a run, on a stream, or as submitted ones. */
static void step(play *self) {
  uint64_t asked[MOST];
  member *who[MOST];
  voice_results results[MOST];
  size_t count = 0;
  const size_t part = 1 + pick(self, 4);
  const size_t first = pick(self, MOST);
  for (size_t i = 0; i < MOST; i++) {
    member *one = &self->members[(first + i) % MOST];
    if (one->is_here && pick(self, part) == 0) {
      float x[WIDTH];
      voice_fill(x, self->seed++);
      (self->comes_on_device && pick(self, 3) == 0 ? voice_bring_there : voice_bring)(self->batch, one->slot, x);
      results[count] = voice_step(&one->row, x);
      who[count] = one;
      asked[count++] = one->slot;
    }
  }
  if (count == 0) {
    return;
  }
  set_costs(self);
  if (pick(self, 3) == 0) {
    size_t made = 0;
    uint64_t stepped[MOST];
    iobind_batch_wait wait = IOBIND_BATCH_WAIT_INIT;
    wait.rows = 1;
    wait.timeout_ns = 1;
    for (size_t i = 0; i < count; i++) {
      expect_ok(iobind_batch_submit(self->batch, asked[i], &fault));
    }
    expect_ok(iobind_batch_step(self->batch, &wait, stepped, MOST, &made, &fault));
    assert_int_equal(made, count);
    for (size_t i = 0; i < count; i++) {
      bool is_among = false;
      for (size_t k = 0; k < made; k++) {
        is_among = is_among || stepped[k] == asked[i];
      }
      assert_true(is_among);
      expect_ok(iobind_batch_await(self->batch, asked[i], 0, &fault));
    }
  } else {
    run(self, asked, count);
  }
  self->split += self->batch->blocks.count > 1;
  for (size_t i = 0; i < count && pick(self, 3) != 0; i++) {
    voice_expect_results(self->batch, who[i]->slot, &results[i]);
  }
}

/* The state of a row of the side that the next step reads, piece by piece. */
static void read_row(iobind_batch *batch, size_t column, size_t row, char *to) {
  const iobind__layout layout = batch->columns[column].layout;
  const iobind__rows_of rows = iobind__order_rows(batch, batch->side, &batch->blocks, &row);
  for (size_t lead = 0; lead < layout.lead; lead++) {
    const size_t at = (rows.offset * layout.lead + lead * rows.width + row) * layout.piece;
    expect_ok(iobind_tensor_read(rows.tensors[column], at, to + lead * layout.piece, layout.piece, NULL, &fault));
  }
}

/* A row that is unused has the state of one that is used. */
static void check_unused(const play *self) {
  iobind_batch *batch = self->batch;
  for (size_t row = 0; batch->flight == NULL && batch->leader != IOBIND__NO_LEADER && row < batch->room; row++) {
    for (size_t column = 0; batch->repeats[row] && column < batch->column_count; column++) {
      char expected[sizeof(voice)] = {0};
      char got[sizeof(voice)] = {0};
      assert_true(batch->dense[row] == IOBIND__NOBODY);
      read_row(batch, column, batch->seats[batch->leader].dense, expected);
      read_row(batch, column, row, got);
      assert_memory_equal(got, expected, sizeof expected);
    }
  }
}

static member *pick_member(play *self) {
  member *one = &self->members[pick(self, MOST)];
  return one->is_here ? one : NULL;
}

static void check_all(play *self) {
  iobind_batch_info info = IOBIND_BATCH_INFO_INIT;
  size_t here = 0;
  for (size_t i = 0; i < MOST; i++) {
    if (self->members[i].is_here) {
      voice_expect_state(self->batch, self->members[i].slot, &self->members[i].row);
      here++;
    }
  }
  expect_ok(iobind_batch_get_info(self->batch, &info, &fault));
  assert_int_equal(info.row_count, here);
}

static void act(play *self) {
  member *one = pick_member(self);
  switch (pick(self, 8)) {
    case 0:
    case 1: join(self); break;
    case 2:
      if (one != NULL) {
        leave(self, one);
      }
      break;
    case 3:
      if (one != NULL) {
        save(self, one);
      }
      break;
    default: step(self); check_unused(self);
  }
}

enum { ACTS = 60 };

/* The number is set by the environment, for a longer test. */
static void play_all(uint64_t plays) {
  const char *wanted = getenv("BATCH_PLAYS");
  size_t failures = 0;
  size_t split = 0;
  bool captures = false;
  plays = wanted != NULL ? strtoull(wanted, NULL, 10) : plays;
  for (uint64_t seed = 1; seed <= plays; seed++) {
    play self = {.random = seed * 977, .seed = (int64_t)seed, .comes_on_device = seed % 3 == 0 && !is_device("webgpu")};
    self.batch = voice_batch(session, MOST, seed % 2 == 0 ? IOBIND_BATCH_ON_DEVICE : 0);
    expect_ok(iobind_stream_create(device, NULL, &self.stream, &fault));
    for (int i = 0; i < ACTS; i++) {
      act(&self);
    }
    check_all(&self);
    failures += self.failures;
    split += self.split;
    captures = self.batch->captures;
    iobind_state_release(self.saved.state);
    iobind_batch_destroy(self.batch);
    iobind_stream_destroy(self.stream);
  }
  assert_true(!is_device("vdev") || failures > 0);
  assert_true(!captures || split > 0);
}

static void random_sequences(void **state) {
  (void)state;
  play_all(12);
}

static void captured_sequences(void **state) {
  (void)state;
  voice_capture(&session);
  play_all(6);
}

/* ---- states ---- */

/* A binding of the session continues from a row's state, and a row from a binding's. */
static void between_binding_and_row(void **state) {
  (void)state;
  iobind_batch *batch = voice_batch(session, 2, 0);
  uint64_t slot;
  uint64_t other;
  iobind_state *saved_state;
  voice row = {{{0}}, {0}, 0};
  float x[WIDTH];
  expect_ok(iobind_batch_join(batch, NULL, &slot, &fault));
  voice_fill(x, 4);
  voice_bring(batch, slot, x);
  (void)voice_step(&row, x);
  expect_ok(iobind_batch_run(batch, &slot, 1, NULL, &fault));
  expect_ok(iobind_batch_save_state(batch, slot, &saved_state, &fault));
  iobind_binding *binding = voice_binding(session, saved_state, x);
  iobind_state_release(saved_state);
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  (void)voice_step(&row, x);
  expect_ok(iobind_binding_save_state(binding, &saved_state, &fault));
  voice_expect_saved(saved_state, &row);
  expect_ok(iobind_batch_join(batch, saved_state, &other, &fault));
  iobind_state_release(saved_state);
  voice_bring(batch, other, x);
  (void)voice_step(&row, x);
  expect_ok(iobind_batch_run(batch, &other, 1, NULL, &fault));
  voice_expect_state(batch, other, &row);
  iobind_binding_destroy(binding);
  iobind_batch_destroy(batch);
}

#define ON(device, test) \
  { #device ": " #test, test, start, stop, #device }
#define ON_EACH(test) ON(vdev, test), ON(cpu, test), ON(cuda, test)

#define ON_GPUS(test) ON(vdev, test), ON(cuda, test)

#if defined(BATCH_WEBGPU) /* a program of its own: to ask whether the device is there loads its library */
static const struct CMUnitTest tests[] = {
    ON(webgpu, rows_that_rest),
    ON(webgpu, random_sequences),
    ON(webgpu, between_binding_and_row),
};

FIXTURE_MAIN_OF_DEVICES(tests);
#else
static const struct CMUnitTest tests[] = {
    ON_EACH(rows_that_rest),
    ON_EACH(random_sequences),
    ON_GPUS(captured_sequences),
    ON_EACH(between_binding_and_row),
};

FIXTURE_MAIN(tests, NULL, NULL);
#endif
