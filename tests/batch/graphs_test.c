/* Steps of a session that captures graphs: one replay, or several. */
#include "fixture.h"

#include <stdio.h>

#include "batch/batch.h"
#include "vdev.h"
#include "voices.h"

static iobind_session *session;

static int start(void **state) {
  (void)stage_open(state);
  session = fixture_session(runtime, device, "voices");
  voice_capture(&session);
  return 0;
}

static int stop(void **state) {
  iobind_session_destroy(session);
  session = NULL;
  return stage_close(state);
}

/* As if each replay took as long as any other. Whatever is measured is more. */
static void pad(iobind_batch *batch) {
  for (size_t width = 1; width <= batch->room; width *= 2) {
    batch->costs.runs[width] = 1;
  }
}

/* As if a row took as long in each width. */
static void split(iobind_batch *batch) {
  for (size_t width = 1; width <= batch->room; width *= 2) {
    batch->costs.runs[width] = width;
  }
}

/* A width has two graphs, one for each side, which no row loses that joins, rests or leaves. */
static void graphs_of_a_width(void **state) {
  (void)state;
  enum { ROWS = 3, STEPS = 12 };
  iobind_batch *batch = voice_batch(session, ROWS, 0);
  pad(batch);
  uint64_t slots[ROWS];
  voice rows[ROWS] = {{{{0}}, {0}, 0}};
  for (int i = 0; i < ROWS; i++) {
    expect_ok(iobind_batch_join(batch, NULL, &slots[i], &fault));
  }
  for (int step = 0; step < STEPS; step++) {
    for (int i = 0; i < ROWS; i++) {
      float x[WIDTH];
      voice_fill(x, step * ROWS + i);
      voice_bring(batch, slots[i], x);
      (void)voice_step(&rows[i], x);
    }
    if (step > 2 && step % 3 == 0) {
      const int leaver = step / 3 % ROWS;
      iobind_state *moving;
      expect_ok(iobind_batch_leave(batch, slots[leaver], &moving, &fault));
      expect_ok(iobind_batch_join(batch, moving, &slots[leaver], &fault));
      iobind_state_release(moving);
      float x[WIDTH];
      voice_fill(x, step * ROWS + leaver);
      voice_bring(batch, slots[leaver], x);
    }
    expect_ok(iobind_batch_run(batch, slots, ROWS, NULL, &fault));
    assert_true(step < 1 || voice_count_graphs(session) == 2);
    for (int i = 0; i < ROWS; i++) {
      voice_expect_state(batch, slots[i], &rows[i]);
    }
  }
  iobind_batch_destroy(batch);
}

/* ---- several replays ---- */

enum { ALL = 24 };

typedef struct stage {
  iobind_batch *batch;
  uint64_t slots[ALL];
  voice rows[ALL];
  voice_results results[ALL];
  int seed;
} stage;

static void open_stage(stage *self) {
  memset(self, 0, sizeof *self);
  self->batch = voice_batch(session, ALL, 0);
  split(self->batch);
  for (int i = 0; i < ALL; i++) {
    expect_ok(iobind_batch_join(self->batch, NULL, &self->slots[i], &fault));
  }
}

static void bring(stage *self, size_t count) {
  for (size_t i = 0; i < count; i++) {
    float x[WIDTH];
    voice_fill(x, self->seed++);
    voice_bring(self->batch, self->slots[i], x);
    self->results[i] = voice_step(&self->rows[i], x);
  }
}

static iobind_status run(stage *self, size_t count, iobind_stream *stream) {
  return iobind_batch_run(self->batch, self->slots, count, stream, NULL);
}

static void check(stage *self, size_t count) {
  for (size_t i = 0; i < count; i++) {
    voice_expect_results(self->batch, self->slots[i], &self->results[i]);
  }
  for (size_t i = 0; i < ALL; i++) {
    voice_expect_state(self->batch, self->slots[i], &self->rows[i]);
  }
}

/* As many rows as are asked for run, in each order of numbers, and no width has more than a graph for each side. */
static void steps_of_several_replays(void **state) {
  (void)state;
  static const size_t counts[] = {17, 24, 23, 1, 16, 5, 5, 24, 3, 19, 2, 17};
  enum { GRAPHS = 2 * 5 }; /* 1, 2, 4, 8, 16 */
  iobind_batch_info info = IOBIND_BATCH_INFO_INIT;
  stage self;
  open_stage(&self);
  self.batch->is_strict = true; /* no row runs along: that may be cheaper */
  for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
    bring(&self, counts[i]);
    assert_int_equal(run(&self, counts[i], NULL), IOBIND_OK);
    expect_ok(iobind_batch_get_info(self.batch, &info, &fault));
    assert_int_equal(info.width, counts[i]);
    check(&self, counts[i]);
  }
  assert_true(voice_count_graphs(session) <= GRAPHS);
  iobind_batch_destroy(self.batch);
}

/* From one replay of all to several, and back: blocks that are in the way of each other. */
static void between_one_and_several(void **state) {
  (void)state;
  stage self;
  open_stage(&self);
  for (size_t i = 0; i < 12; i++) {
    const size_t count = i % 4 == 3 ? ALL : 17 + i % 3;
    (i % 2 == 0 ? pad : split)(self.batch);
    bring(&self, count);
    assert_int_equal(run(&self, count, NULL), IOBIND_OK);
    check(&self, count);
  }
  iobind_batch_destroy(self.batch);
}

static void set_failure(int nth, const char *when) {
  char setting[16];
  snprintf(setting, sizeof setting, "%d%s", nth, when);
  assert_int_equal(vdev_set(0, "fail_compute", setting), 0);
}

/* Each kernel of two replays fails once, at once or late: also those of the second replay, when the first one was made. All rows are then as they
 * were, and the same step goes well. */
static void replays_that_fail(void **state) {
  (void)state;
  static const char *const when[] = {"", ",late"};
  iobind_stream *stream;
  stage self;
  expect_ok(iobind_stream_create(device, NULL, &stream, &fault));
  open_stage(&self);
  for (int i = 0; i < 3; i++) { /* captured, for each side */
    bring(&self, 17);
    assert_int_equal(run(&self, 17, NULL), IOBIND_OK);
  }
  for (size_t way = 0; way < 4; way++) {
    iobind_stream *on = way < 2 ? NULL : stream;
    bool failed = true;
    int failures = 0;
    for (int nth = 1; failed; nth++) {
      iobind_tensor *output = NULL;
      bring(&self, 17);
      set_failure(nth, when[way % 2]);
      failed =
          run(&self, 17, on) != IOBIND_OK || iobind_batch_take_output(self.batch, self.slots[0], Z, &output, NULL) != IOBIND_OK;
      iobind_tensor_release(output);
      assert_int_equal(vdev_set(0, "fail_compute", "0"), 0);
      failures += failed;
      if (failed) {
        split(self.batch);
        assert_int_equal(run(&self, 17, on), IOBIND_OK);
      }
      assert_int_equal(self.batch->blocks.count, 2);
      check(&self, 17);
    }
    assert_true(failures >= 2);
  }
  iobind_batch_destroy(self.batch);
  iobind_stream_destroy(stream);
}

/* ---- the choice ---- */

static size_t choose(const stage *self, size_t count) {
  self->batch->asked_count = count;
  for (size_t i = 0; i < count; i++) {
    self->batch->asked[i] = i;
  }
  const size_t blocks = iobind__order_choose(self->batch).blocks.count;
  self->batch->asked_count = 0;
  return blocks;
}

/* Several replays are chosen if they have taken less time than one, or if that is not known and may be. */
static void choice_by_measured_times(void **state) {
  (void)state;
  stage self;
  open_stage(&self);
  uint64_t *runs = self.batch->costs.runs;
  memset(runs, 0, (self.batch->room + 1) * sizeof runs[0]);
  assert_int_equal(choose(&self, 17), 1); /* nothing is known */
  runs[32] = 1000;
  assert_int_equal(choose(&self, 17), 2); /* 16 takes 500 at least, and 1 takes 31 */
  runs[16] = 900;
  assert_int_equal(choose(&self, 17), 2); /* and 56 */
  runs[1] = 200;
  assert_int_equal(choose(&self, 17), 1); /* measured: 1100 */
  runs[1] = 90;
  assert_int_equal(choose(&self, 17), 2);
  runs[4] = 50; /* 3 of 4 rows, which is cheaper than 2 and 1 */
  runs[2] = 45;
  assert_int_equal(choose(&self, 19), 2);
  assert_int_equal(choose(&self, 16), 1);
  iobind_batch_destroy(self.batch);
}

/* A run that captures is none that a later one is judged by. */
static void only_replays_are_measured(void **state) {
  (void)state;
  stage self;
  open_stage(&self);
  uint64_t *runs = self.batch->costs.runs;
  memset(runs, 0, (self.batch->room + 1) * sizeof runs[0]);
  for (int i = 0; i < 3; i++) {
    bring(&self, 4);
    assert_int_equal(run(&self, 4, NULL), IOBIND_OK);
    assert_int_equal(runs[4] > 0, i == 2); /* each side has captured its graph */
  }
  iobind_batch_destroy(self.batch);
}

/* ---- unused rows ---- */

/* The model refuses the state of a row after eight steps. No step fails for an unused row, whose state would have made more, or for what a
 * row has left behind. */
static void unused_rows_of_a_replay(void **state) {
  (void)state;
  enum { ROWS = 3, MOST_STEPS = 8, STEPS = 40 };
  iobind_session *limited;
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  options.devices = &device;
  options.device_count = 1;
  options.graph_limit = 1;
  expect_ok(test_session_with(runtime, "voices limit=8", &options, &limited, &fault));
  iobind_batch *batch = voice_batch(limited, ROWS, 0);
  uint64_t slots[ROWS];
  voice rows[ROWS] = {{{{0}}, {0}, 0}};
  pad(batch);
  for (int i = 0; i < ROWS; i++) {
    expect_ok(iobind_batch_join(batch, NULL, &slots[i], &fault));
  }
  for (int step = 0; step < STEPS; step++) {
    for (int i = 0; i < ROWS; i++) {
      float x[WIDTH];
      if (rows[i].count == MOST_STEPS || (i == 1 && step % 5 == 4)) {
        expect_ok(iobind_batch_leave(batch, slots[i], NULL, &fault));
        expect_ok(iobind_batch_join(batch, NULL, &slots[i], &fault));
        rows[i] = (voice){{{0}}, {0}, 0};
      }
      voice_fill(x, step * ROWS + i);
      voice_bring(batch, slots[i], x);
      (void)voice_step(&rows[i], x);
    }
    expect_ok(iobind_batch_run(batch, slots, ROWS, NULL, &fault));
    for (int i = 0; i < ROWS; i++) {
      voice_expect_state(batch, slots[i], &rows[i]);
    }
  }
  iobind_batch_destroy(batch);
  iobind_session_destroy(limited);
}

/* 5 rows in a width of 8, step by step: what moves rows is not there, and nothing makes it again. */
static void unused_rows_move_once(void **state) {
  (void)state;
  enum { ROWS = 5, STEPS = 6 };
  stage self;
  open_stage(&self);
  pad(self.batch);
  iobind_session *mover = NULL;
  iobind_binding *moving = NULL;
  for (int step = 0; step < STEPS; step++) {
    bring(&self, ROWS);
    assert_int_equal(run(&self, ROWS, NULL), IOBIND_OK);
    if (step == 0) {
      assert_int_equal(self.batch->blocks.rows, 8);
      mover = self.batch->mover;
      moving = self.batch->moving;
      assert_non_null(mover);
      self.batch->mover = NULL;
      self.batch->moving = NULL;
    }
  }
  assert_null(self.batch->mover);
  self.batch->mover = mover;
  self.batch->moving = moving;
  check(&self, ROWS);
  iobind_batch_destroy(self.batch);
}

#define ON(device, test) \
  { #device ": " #test, test, start, stop, #device }
#define ON_GPUS(test) ON(vdev, test), ON(cuda, test)
#define ON_VDEV(test) ON(vdev, test)

static const struct CMUnitTest tests[] = {
    ON_GPUS(graphs_of_a_width),         ON_GPUS(steps_of_several_replays), ON_GPUS(between_one_and_several),
    ON_VDEV(replays_that_fail),         ON_VDEV(unused_rows_of_a_replay),  ON_VDEV(choice_by_measured_times),
    ON_VDEV(only_replays_are_measured), ON_VDEV(unused_rows_move_once),
};

FIXTURE_MAIN(tests, NULL, NULL);
