/* Live batches of the model `voices`, of which b and z tell enough: b = max(b, x), z = b + gain. */
#include <stddef.h>

#include "scenario.h"

enum { MOST = 2, X = 0, GAIN = 1, Z = 1 };
static const iobind_batch_pair pairs[] = {{2, 2}, {3, 3}, {4, 4}};
static const float sums[RIG_VALUES] = {2, 3, 4, 5}; /* ones and the gain */

/* ---- what the calls stand on ---- */

static iobind_status make(struct rig *rig) {
  iobind_batch_options options = IOBIND_BATCH_OPTIONS_INIT;
  options.most_rows = MOST;
  options.pairs = pairs;
  options.pair_count = sizeof pairs / sizeof pairs[0];
  return iobind_batch_create(rig->session, &options, &rig->batch, &rig->error);
}

/* One row of the input, and the gain. */
static void make_data(struct rig *rig) {
  static const int64_t dims[] = {1, RIG_VALUES};
  static const float one = 1;
  NEED(rig, iobind_tensor_create(rig->cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 2, &rig->x, &rig->error));
  NEED(rig, iobind_tensor_write(rig->x, 0, rig_ones, sizeof rig_ones, NULL, &rig->error));
  NEED(rig, iobind_tensor_create(rig->cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, NULL, 0, &rig->y, &rig->error));
  NEED(rig, iobind_tensor_write(rig->y, 0, &one, sizeof one, NULL, &rig->error));
}

static void make_session(struct rig *rig) {
  rig_session(rig, "voices");
  make_data(rig);
}

static void make_batch(struct rig *rig) {
  make_session(rig);
  NEED(rig, make(rig));
  NEED(rig, iobind_batch_set_input(rig->batch, IOBIND_BATCH_ALL, GAIN, rig->y, &rig->error));
}

static void bring(struct rig *rig, size_t row) {
  NEED(rig, iobind_batch_set_input(rig->batch, rig->slots[row], X, rig->x, &rig->error));
}

static void join_both(struct rig *rig) {
  make_batch(rig);
  for (size_t i = 0; i < MOST; i++) {
    NEED(rig, iobind_batch_join(rig->batch, NULL, &rig->slots[i], &rig->error));
    bring(rig, i);
  }
}

static void step_both(struct rig *rig) {
  join_both(rig);
  NEED(rig, iobind_batch_run(rig->batch, rig->slots, MOST, NULL, &rig->error));
}

/* The first row has its place, the second one is to be moved there. */
static void step_first(struct rig *rig) {
  join_both(rig);
  NEED(rig, iobind_batch_run(rig->batch, rig->slots, 1, NULL, &rig->error));
  bring(rig, 0);
}

/* The model was tested. */
static void bring_both_again(struct rig *rig) {
  step_both(rig);
  for (size_t i = 0; i < MOST; i++) {
    bring(rig, i);
  }
}

static void submit_both(struct rig *rig) {
  bring_both_again(rig);
  for (size_t i = 0; i < MOST; i++) {
    NEED(rig, iobind_batch_submit(rig->batch, rig->slots[i], &rig->error));
  }
}

static void await_first(struct rig *rig) {
  submit_both(rig);
  NEED(rig, iobind_batch_step(rig->batch, NULL, NULL, 0, NULL, &rig->error));
}

static void save_first(struct rig *rig) {
  step_both(rig);
  NEED(rig, iobind_batch_leave(rig->batch, rig->slots[0], &rig->state, &rig->error));
}

static void submit_on_stream(struct rig *rig) {
  bring_both_again(rig);
  NEED(rig, iobind_stream_create(rig->device, NULL, &rig->stream, &rig->error));
}

/* ---- calls ---- */

static iobind_status join(struct rig *rig) {
  return iobind_batch_join(rig->batch, rig->state, &rig->slots[0], &rig->error);
}

static iobind_status leave(struct rig *rig) {
  return iobind_batch_leave(rig->batch, rig->slots[0], &rig->state, &rig->error);
}

static iobind_status set_row(struct rig *rig) {
  return iobind_batch_set_input(rig->batch, rig->slots[0], X, rig->x, &rig->error);
}

static iobind_status set_shared(struct rig *rig) {
  return iobind_batch_set_input(rig->batch, IOBIND_BATCH_ALL, GAIN, rig->y, &rig->error);
}

static iobind_status run(struct rig *rig) {
  return iobind_batch_run(rig->batch, rig->slots, MOST, NULL, &rig->error);
}

static iobind_status run_on_stream(struct rig *rig) {
  return iobind_batch_run(rig->batch, rig->slots, MOST, rig->stream, &rig->error);
}

static iobind_status get_output(struct rig *rig) {
  return iobind_batch_take_output(rig->batch, rig->slots[0], Z, &rig->result, &rig->error);
}

static iobind_status get_deep_output(struct rig *rig) {
  return iobind_batch_take_output(rig->batch, rig->slots[0], 0, &rig->result, &rig->error);
}

static iobind_status save_state(struct rig *rig) {
  return iobind_batch_save_state(rig->batch, rig->slots[0], &rig->state, &rig->error);
}

static iobind_status submit(struct rig *rig) {
  return iobind_batch_submit(rig->batch, rig->slots[0], &rig->error);
}

/* After a step that has failed the rows are no longer submitted. */
static iobind_status step(struct rig *rig) {
  for (size_t i = 0; i < MOST; i++) {
    iobind_error ignored = IOBIND_ERROR_INIT;
    if (iobind_batch_submit(rig->batch, rig->slots[i], &ignored) == IOBIND_ERROR_OUT_OF_MEMORY) {
      return IOBIND_ERROR_OUT_OF_MEMORY;
    }
  }
  return iobind_batch_step(rig->batch, NULL, NULL, 0, &rig->number, &rig->error);
}

static iobind_status await(struct rig *rig) {
  return iobind_batch_await(rig->batch, rig->slots[0], 0, &rig->error);
}

static iobind_status get_info(struct rig *rig) {
  iobind_batch_info info = IOBIND_BATCH_INFO_INIT;
  iobind_status status = iobind_batch_get_info(rig->batch, &info, &rig->error);
  rig->number = info.row_count;
  return status;
}

static iobind_status stop(struct rig *rig) {
  iobind_batch_stop(rig->batch);
  return IOBIND_OK;
}

static iobind_status destroy(struct rig *rig) {
  iobind_batch_destroy(rig->batch);
  rig->batch = NULL;
  return IOBIND_OK;
}

/* ---- what must be right afterwards ---- */

static void row_has(struct rig *rig, size_t row, const float *expected) {
  iobind_tensor *output = NULL;
  NEED(rig, iobind_batch_take_output(rig->batch, rig->slots[row], Z, &output, &rig->error));
  rig_expect(rig, output, expected, RIG_VALUES);
  iobind_tensor_release(output);
}

static void both_have_sums(struct rig *rig) {
  row_has(rig, 0, sums);
  row_has(rig, 1, sums);
}

/* A step later: what was to be kept, was. */
static void first_goes_on(struct rig *rig) {
  bring(rig, 0);
  NEED(rig, iobind_batch_run(rig->batch, rig->slots, 1, NULL, &rig->error));
  row_has(rig, 0, sums);
}

static void result_has_sums(struct rig *rig) {
  rig_expect(rig, rig->result, sums, RIG_VALUES);
}

static void state_has_ones(struct rig *rig) {
  iobind_state_pair pair = IOBIND_STATE_PAIR_INIT;
  NEED(rig, iobind_state_get_pair(rig->state, 1, &pair, &rig->error));
  rig_expect(rig, pair.tensor, rig_ones, RIG_VALUES);
}

/* A stopped batch makes the steps that are asked for. */
static void both_are_there(struct rig *rig) {
  NEED_TRUE(iobind_batch_step(rig->batch, NULL, NULL, 0, NULL, &rig->error) == IOBIND_ERROR_CANCELLED);
  NEED(rig, run(rig));
  both_have_sums(rig);
}

static void has_two_rows(struct rig *rig) {
  NEED_TRUE(rig->number == MOST);
}

#define CALLS(name, of, prepares, calls, checks) \
  { .function = (name), .variant = (of), .places = ON_ALL, .prepare = (prepares), .call = (calls), .right = (checks) }
#define RETURNS(name, of, prepares, calls, field, checks)                                                             \
  {                                                                                                                   \
    .function = (name), .variant = (of), .places = ON_ALL, .prepare = (prepares), .call = (calls), .out = OUT(field), \
    .right = (checks)                                                                                                 \
  }

const struct scenario batch_scenarios[] = {
    RETURNS("iobind_batch_create", "", make_session, make, batch, NULL),
    CALLS("iobind_batch_join", "", make_batch, join, first_goes_on),
    CALLS("iobind_batch_join", "from a saved state", save_first, join, first_goes_on),
    RETURNS("iobind_batch_leave", "", step_both, leave, state, state_has_ones),
    CALLS("iobind_batch_set_input", "of a row", join_both, set_row, NULL),
    CALLS("iobind_batch_set_input", "of all rows", join_both, set_shared, NULL),
    {.function = "iobind_batch_run",
     .variant = "first", /* which tests the model */
     .places = ON_CPU,
     .prepare = join_both,
     .call = run,
     .right = both_have_sums},
    CALLS("iobind_batch_run", "of a row more", step_first, run, both_have_sums),
    {.function = "iobind_batch_run",
     .variant = "on a stream",
     .places = ON_VDEV, /* whose streams are native: elsewhere a thread of iobind's makes the calls, at some time */
     .prepare = submit_on_stream,
     .call = run_on_stream,
     .right = both_have_sums},
    RETURNS("iobind_batch_take_output", "a view", step_both, get_output, result, result_has_sums),
    RETURNS("iobind_batch_take_output", "a copy", step_both, get_deep_output, result, NULL),
    RETURNS("iobind_batch_save_state", "", step_both, save_state, state, state_has_ones),
    CALLS("iobind_batch_submit", "", join_both, submit, NULL),
    CALLS("iobind_batch_step", "", submit_both, step, both_have_sums),
    CALLS("iobind_batch_await", "", await_first, await, NULL),
    CALLS("iobind_batch_stop", "", join_both, stop, both_are_there),
    CALLS("iobind_batch_get_info", "", join_both, get_info, has_two_rows),
    {.function = "iobind_batch_destroy", .variant = "", .places = ON_ALL, .prepare = step_both, .call = destroy, .last = true},
    {.function = NULL},
};
