/* A wrong kernel is found in the runs that are verified, by each way to run; right ones are left alone. */
#include "verified.h"

#include <stdio.h>
#include <string.h>

enum { RUNS = 3 };

/* ---- a binding ---- */

static iobind_binding *bind_scale(iobind_session *session, iobind_tensor *x) {
  iobind_binding *binding;
  expect_ok(iobind_binding_create(session, &binding, &fault));
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
  return binding;
}

/* The message says where, what, and what to do; the result cannot be taken, and is right in the next run. */
static void plain_runs(void **state) {
  (void)state;
  iobind_session *session = verified_session("scale", RUNS, 0);
  iobind_tensor *x = make_filled(3);
  iobind_tensor *y;
  iobind_binding *binding = bind_scale(session, x);
  set_wrong("every:1");
  for (int i = 0; i < 2; i++) { /* a run that differs does not count */
    expect(IOBIND_ERROR_RESULT, iobind_binding_run(binding, NULL, &fault));
    expect_words("output 'y'[0]: expected 6, as on the CPU, got ");
    expect_words("elements that differ: 1, largest relative difference: ");
    expect_words("`iobind compare --nodes`");
    expect(IOBIND_ERROR_INVALID_STATE, iobind_binding_get_output(binding, 0, NULL, &y, &fault));
  }
  set_wrong("0");
  for (int i = 0; i < RUNS; i++) {
    fill(x, (float)i);
    expect_ok(iobind_binding_run(binding, NULL, &fault));
    expect_output(binding, 2 * (float)i);
  }
  set_wrong("every:1");
  for (int i = 0; i < RUNS; i++) {
    expect_ok(iobind_binding_run(binding, NULL, &fault)); /* not compared any more */
  }
  set_wrong("0");
  iobind_binding_destroy(binding);
  iobind_tensor_release(x);
  iobind_session_destroy(session);
}

/* From the last run that is verified on. */
static void wrong_from_a_run_on(void **state) {
  (void)state;
  iobind_session *session = verified_session("scale", RUNS, 0);
  iobind_tensor *x = make_filled(3);
  iobind_binding *binding = bind_scale(session, x);
  set_wrong("from:3");
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  expect(IOBIND_ERROR_RESULT, iobind_binding_run(binding, NULL, &fault));
  expect(IOBIND_ERROR_RESULT, iobind_binding_run(binding, NULL, &fault));
  set_wrong("0");
  iobind_binding_destroy(binding);
  iobind_tensor_release(x);
  iobind_session_destroy(session);
}

/* Each binding, and each set of dims, has its runs. */
static void sets_of_dims(void **state) {
  (void)state;
  enum { TWICE = 2 * N };
  static const int64_t dims[2] = {N, TWICE};
  static const float values[2 * N] = {1, 2, 3};
  iobind_session *session = verified_session("scale", 1, 0);
  iobind_tensor *xs[2];
  iobind_binding *bindings[2];
  for (int i = 0; i < 2; i++) {
    expect_ok(iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, &dims[i], 1, &xs[i], &fault));
    expect_ok(iobind_tensor_write(xs[i], 0, values, (size_t)dims[i] * sizeof(float), NULL, &fault));
  }
  for (int i = 0; i < 2; i++) {
    bindings[i] = bind_scale(session, xs[0]);
    for (int turn = 0; turn < 4; turn++) {
      expect_ok(iobind_binding_set_input(bindings[i], 0, IOBIND_INPUT_RESIDENT, xs[turn % 2], NULL, &fault));
      set_wrong("every:1");
      iobind_status status = turn < 2 ? IOBIND_ERROR_RESULT : IOBIND_OK;
      expect(status, iobind_binding_run(bindings[i], NULL, &fault));
      set_wrong("0");
      expect_ok(iobind_binding_run(bindings[i], NULL, &fault));
    }
  }
  for (int i = 0; i < 2; i++) {
    iobind_binding_destroy(bindings[i]);
    iobind_tensor_release(xs[i]);
  }
  iobind_session_destroy(session);
}

/* ---- states ---- */

/* z = x + y, and z is the next x. */
typedef struct sum {
  iobind_session *session;
  iobind_binding *binding;
  iobind_stream *stream;
  iobind_tensor *first;
  iobind_tensor *step;
  float value;
} sum;

static void bind_first(sum *self) {
  expect_ok(iobind_binding_set_input(self->binding, 0, IOBIND_INPUT_RESIDENT, self->first, NULL, &fault));
}

static sum open_sum(iobind_carry_mode mode, bool on_stream, size_t graph_limit) {
  sum self = {
      .session = verified_session("add", RUNS, graph_limit), .first = make_filled(1), .step = make_filled(2), .value = 1};
  expect_ok(iobind_binding_create(self.session, &self.binding, &fault));
  expect_ok(iobind_binding_carry(self.binding, 0, 0, mode, &fault));
  bind_first(&self);
  expect_ok(iobind_binding_set_input(self.binding, 1, IOBIND_INPUT_RESIDENT, self.step, NULL, &fault));
  if (on_stream) {
    expect_ok(iobind_stream_create(device, NULL, &self.stream, &fault));
  }
  return self;
}

static void close_sum(sum *self) {
  iobind_binding_destroy(self->binding);
  iobind_stream_destroy(self->stream);
  iobind_tensor_release(self->first);
  iobind_tensor_release(self->step);
  iobind_session_destroy(self->session);
}

static void step_right(sum *self) {
  expect_ok(iobind_binding_run(self->binding, self->stream, &fault));
  self->value += 2;
  if (self->stream != NULL) {
    expect_ok(iobind_stream_synchronize(self->stream, &fault));
  }
  expect_output(self->binding, self->value);
}

/* The states stay what they were, but for those that the run has overwritten. */
static void step_wrong(sum *self, iobind_carry_mode mode, const char *which) {
  set_wrong(which);
  expect(IOBIND_ERROR_RESULT, iobind_binding_run(self->binding, self->stream, &fault));
  set_wrong("0");
  if (mode == IOBIND_CARRY_IN_PLACE) {
    expect(IOBIND_ERROR_INVALID_STATE, iobind_binding_run(self->binding, self->stream, &fault));
    fill(self->first, self->value);
    bind_first(self);
  }
}

static void carry(iobind_carry_mode mode, bool on_stream) {
  for (int wrong_run = 0; wrong_run < RUNS; wrong_run++) {
    sum self = open_sum(mode, on_stream, 0);
    for (int run = 0; run < RUNS + 2; run++) {
      if (run == wrong_run) {
        step_wrong(&self, mode, "every:1");
      }
      step_right(&self);
    }
    close_sum(&self);
  }
}

static void moved(void **state) {
  (void)state;
  carry(IOBIND_CARRY_MOVE, false);
}

static void moved_on_a_stream(void **state) {
  (void)state;
  carry(IOBIND_CARRY_MOVE, true);
}

static void swapped(void **state) {
  (void)state;
  carry(IOBIND_CARRY_SWAP, false);
}

static void swapped_on_a_stream(void **state) {
  (void)state;
  carry(IOBIND_CARRY_SWAP, true);
}

static void in_place(void **state) {
  (void)state;
  carry(IOBIND_CARRY_IN_PLACE, false);
}

static void in_place_on_a_stream(void **state) {
  (void)state;
  carry(IOBIND_CARRY_IN_PLACE, true);
}

/* A state that grows is no new set of dims. */
static void growing(void **state) {
  (void)state;
  static const int64_t row_dims[2] = {1, 3};
  static const int64_t past_dims[2] = {1, 3};
  static const float row[3] = {1, 2, 3};
  iobind_session *session = verified_session("concat", 1, 0);
  iobind_binding *binding;
  iobind_tensor *past;
  iobind_tensor *next;
  expect_ok(iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, past_dims, 2, &past, &fault));
  expect_ok(iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, row_dims, 2, &next, &fault));
  expect_ok(iobind_tensor_write(past, 0, row, sizeof row, NULL, &fault));
  expect_ok(iobind_tensor_write(next, 0, row, sizeof row, NULL, &fault));
  expect_ok(iobind_binding_create(session, &binding, &fault));
  expect_ok(iobind_binding_carry(binding, 0, 0, IOBIND_CARRY_MOVE, &fault));
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, past, NULL, &fault));
  expect_ok(iobind_binding_set_input(binding, 1, IOBIND_INPUT_RESIDENT, next, NULL, &fault));
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  set_wrong("every:1");
  for (int i = 0; i < 3; i++) {
    expect_ok(iobind_binding_run(binding, NULL, &fault));
  }
  set_wrong("0");
  iobind_binding_destroy(binding);
  iobind_tensor_release(past);
  iobind_tensor_release(next);
  iobind_session_destroy(session);
}

/* ---- captured graphs ---- */

/* Whichever of the kernels around a capture is wrong: the message names its run, or its result was thrown away, and the run is right. ORT makes the
 * run that captures several times, so that one that writes its states is not compared. */
static void graphs(iobind_carry_mode mode, bool on_stream) {
  static const char *const runs[] = {"from the run before the capture of a graph", "from the run that captures a graph",
                                     "from the replay of a graph"};
  enum { KERNELS = 8, NAMED = 3 };
  int found[NAMED] = {0};
  for (int kernel = 1; kernel <= KERNELS; kernel++) {
    char which[8];
    sum self = open_sum(mode, on_stream, 2);
    snprintf(which, sizeof which, "%d", kernel);
    set_wrong(which);
    const iobind_status status = iobind_binding_run(self.binding, self.stream, &fault);
    set_wrong("0");
    for (int i = 0; i < NAMED && status != IOBIND_OK; i++) {
      assert_int_equal(status, IOBIND_ERROR_RESULT);
      found[i] += strstr(fault.message, runs[i]) != NULL;
    }
    const bool is_lost = mode == IOBIND_CARRY_IN_PLACE && status != IOBIND_OK && strstr(fault.message, runs[2]) != NULL;
    if (is_lost) {
      fill(self.first, 1);
      bind_first(&self);
    }
    self.value += status == IOBIND_OK ? 2 : 0;
    for (int run = 0; run < RUNS + 2; run++) {
      step_right(&self);
    }
    close_sum(&self);
  }
  assert_int_not_equal(found[0], 0);
  assert_int_equal(found[1] != 0, mode != IOBIND_CARRY_IN_PLACE);
  assert_int_not_equal(found[2], 0);
}

static void captured(void **state) {
  (void)state;
  graphs(IOBIND_CARRY_SWAP, false);
  graphs(IOBIND_CARRY_IN_PLACE, false);
}

static void captured_on_a_stream(void **state) {
  (void)state;
  graphs(IOBIND_CARRY_SWAP, true);
  graphs(IOBIND_CARRY_IN_PLACE, true);
}

/* The runs after the capture are replays. */
static void replayed(void **state) {
  (void)state;
  sum self = open_sum(IOBIND_CARRY_IN_PLACE, false, 1);
  step_right(&self);
  step_wrong(&self, IOBIND_CARRY_IN_PLACE, "every:1");
  expect_ok(iobind_binding_run(self.binding, NULL, &fault));
  close_sum(&self);
}

/* A run that captures is verified, however many runs there were. */
static void captured_later(void **state) {
  (void)state;
  iobind_session *session = verified_session("scale", 1, 2);
  iobind_tensor *xs[2] = {make_filled(1), make_filled(2)};
  iobind_binding *binding = bind_scale(session, xs[0]);
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, xs[1], NULL, &fault));
  set_wrong("every:1");
  expect(IOBIND_ERROR_RESULT, iobind_binding_run(binding, NULL, &fault));
  set_wrong("0");
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  expect_output(binding, 4);
  iobind_binding_destroy(binding);
  iobind_tensor_release(xs[0]);
  iobind_tensor_release(xs[1]);
  iobind_session_destroy(session);
}

/* ---- without a binding of the caller's ---- */

static void requests(void **state) {
  (void)state;
  static const int32_t on_device = IOBIND_PLACE_DEVICE;
  iobind_session *session = verified_session("scale", 2, 0);
  iobind_tensor *x = make_filled(3);
  iobind_tensor *y;
  iobind_run_request request = IOBIND_RUN_REQUEST_INIT;
  request.inputs = &x;
  request.input_count = 1;
  for (int turn = 0; turn < 4; turn++) {
    const bool is_placed = turn % 2 == 1;
    request.placements = is_placed ? &on_device : NULL;
    request.placement_count = is_placed;
    set_wrong("every:1");
    expect(turn < 2 ? IOBIND_ERROR_RESULT : IOBIND_OK, iobind_session_run(session, &request, &y, 1, &fault));
    iobind_tensor_release(y);
    set_wrong("0");
    expect_ok(iobind_session_run(session, &request, &y, 1, &fault));
    expect_all(y, 6);
    iobind_tensor_release(y);
  }
  iobind_tensor_release(x);
  iobind_session_destroy(session);
}

/* A pipeline of one slot, with the input of its items. */
typedef struct piped {
  iobind_session *session;
  iobind_pipeline *pipeline;
  iobind_tensor *x;
} piped;

static piped open_piped(uint32_t runs) {
  piped made = {.session = verified_session("scale", runs, 0), .x = make_filled(3)};
  iobind_pipeline_options options = IOBIND_PIPELINE_OPTIONS_INIT;
  options.slots = 1;
  expect_ok(iobind_pipeline_create(made.session, &options, &made.pipeline, &fault));
  return made;
}

static void close_piped(piped *self) {
  iobind_pipeline_destroy(self->pipeline);
  iobind_tensor_release(self->x);
  iobind_session_destroy(self->session);
}

/* The output of an item is the pipeline's. */
static iobind_status pass_item(const piped *self, iobind_tensor **y) {
  iobind_pipeline_request request = IOBIND_PIPELINE_REQUEST_INIT;
  iobind_pipeline_item item = IOBIND_PIPELINE_ITEM_INIT;
  request.inputs = (iobind_tensor *const *)&self->x;
  request.input_count = 1;
  iobind_status status = iobind_pipeline_submit(self->pipeline, &request, &fault);
  return status == IOBIND_OK ? iobind_pipeline_next(self->pipeline, IOBIND_NO_TIMEOUT, y, 1, &item, &fault) : status;
}

static void pipelines(void **state) {
  (void)state;
  piped self = open_piped(1);
  for (int turn = 0; turn < 2; turn++) {
    iobind_tensor *y = NULL;
    set_wrong(turn == 0 ? "every:1" : "0");
    assert_int_equal(pass_item(&self, &y), turn == 0 ? IOBIND_ERROR_RESULT : IOBIND_OK);
    if (turn == 1) {
      expect_all(y, 6);
    }
  }
  set_wrong("0");
  close_piped(&self);
}

/* The first is right, and each later one is found. */
enum { FROM = 2, TIMES = 3 };

static void requests_from_a_run_on(void **state) {
  (void)state;
  iobind_session *session = verified_session("scale", RUNS, 0);
  iobind_tensor *x = make_filled(3);
  iobind_run_request request = IOBIND_RUN_REQUEST_INIT;
  request.inputs = &x;
  request.input_count = 1;
  set_wrong("from:2");
  for (int run = 1; run <= TIMES; run++) {
    iobind_tensor *y = NULL;
    expect(run < FROM ? IOBIND_OK : IOBIND_ERROR_RESULT, iobind_session_run(session, &request, &y, 1, &fault));
    iobind_tensor_release(y);
  }
  set_wrong("0");
  iobind_tensor_release(x);
  iobind_session_destroy(session);
}

static void pipelines_from_a_run_on(void **state) {
  (void)state;
  piped self = open_piped(RUNS);
  set_wrong("from:2");
  for (int run = 1; run <= TIMES; run++) {
    iobind_tensor *y = NULL;
    assert_int_equal(pass_item(&self, &y), run < FROM ? IOBIND_OK : IOBIND_ERROR_RESULT);
  }
  set_wrong("0");
  close_piped(&self);
}

#define ON(device, test) \
  { #device ": " #test, test, verified_start, stage_close, #device }
#define ON_GPUS(test) ON(vdev, test), ON(cuda, test)

static const struct CMUnitTest tests[] = {
    ON_GPUS(plain_runs),
    ON_GPUS(wrong_from_a_run_on),
    ON_GPUS(sets_of_dims),
    ON_GPUS(moved),
    ON_GPUS(moved_on_a_stream),
    ON_GPUS(swapped),
    ON_GPUS(swapped_on_a_stream),
    ON_GPUS(in_place),
    ON_GPUS(in_place_on_a_stream),
    ON_GPUS(growing),
    ON_GPUS(captured),
    ON_GPUS(captured_on_a_stream),
    ON_GPUS(replayed),
    ON_GPUS(captured_later),
    ON_GPUS(requests),
    ON_GPUS(pipelines),
    ON_GPUS(requests_from_a_run_on),
    ON_GPUS(pipelines_from_a_run_on),
};

FIXTURE_MAIN(tests, NULL, NULL);
