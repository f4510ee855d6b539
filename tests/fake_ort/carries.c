/* Outputs that become the next run's inputs. y = 2 x, so that each run doubles the state: 1 2 3 4 at first. A run that fails leaves the
 * state as it was, which the same call again shows. */
#include <stddef.h>

#include "objects.h"
#include "scenario.h"
#include "../rig/calls.h"

static void make_binding(struct rig *rig) {
  rig_binding(rig, "scale");
  rig->x = rig_floats(rig, rig->device, rig_ones, RIG_VALUES);
}

static void bind_x(struct rig *rig, iobind_input_mode mode) {
  NEED(rig, iobind_binding_set_input(rig->binding, 0, mode, rig->x, NULL, &rig->error));
}

static void make_bound(struct rig *rig) {
  make_binding(rig);
  bind_x(rig, IOBIND_INPUT_SNAPSHOT);
}

static void run_once(struct rig *rig) {
  NEED(rig, iobind_binding_run(rig->binding, NULL, &rig->error));
}

/* The state after so many runs. */
static void state_is(struct rig *rig, int runs) {
  float expected[RIG_VALUES];
  for (size_t i = 0; i < RIG_VALUES; i++) {
    expected[i] = rig_ones[i] * (float)(1 << runs);
  }
  iobind_tensor *output = NULL;
  NEED(rig, iobind_binding_get_output(rig->binding, 0, NULL, &output, &rig->error));
  rig_expect(rig, output, expected, RIG_VALUES);
}

static void runs_from_first(struct rig *rig) {
  run_once(rig);
  state_is(rig, 1);
  run_once(rig);
  run_once(rig);
  state_is(rig, 3);
}

static iobind_status carry(struct rig *rig, iobind_carry_mode mode) {
  return iobind_binding_carry(rig->binding, 0, 0, mode, &rig->error);
}

static iobind_status carry_moved(struct rig *rig) {
  return carry(rig, IOBIND_CARRY_MOVE);
}

static iobind_status carry_swapped(struct rig *rig) {
  return carry(rig, IOBIND_CARRY_SWAP);
}

static iobind_status carry_in_place(struct rig *rig) {
  return carry(rig, IOBIND_CARRY_IN_PLACE);
}

/* Carried, with a stream for those who use one. */
static void make_carried(struct rig *rig, iobind_carry_mode mode, int runs) {
  make_bound(rig);
  NEED(rig, iobind_stream_create(rig->device, NULL, &rig->stream, &rig->error));
  NEED(rig, carry(rig, mode));
  for (int i = 0; i < runs; i++) {
    run_once(rig);
  }
}

static iobind_status run(struct rig *rig) {
  return iobind_binding_run(rig->binding, NULL, &rig->error);
}

/* A run that gave its outputs counts, also where it could not be waited for at once. */
static iobind_status run_on_stream(struct rig *rig) {
  iobind_status status = iobind_binding_run(rig->binding, rig->stream, &rig->error);
  if (status == IOBIND_OK) { /* a thread may do it: nothing is counted before it has */
    status = iobind_stream_synchronize(rig->stream, &rig->error);
    iobind_error error = IOBIND_ERROR_INIT;
    iobind_tensor *output;
    rig->number += status == IOBIND_OK || iobind_binding_get_output(rig->binding, 0, NULL, &output, &error) == IOBIND_OK;
  }
  return status;
}

static void make_moved(struct rig *rig) {
  make_carried(rig, IOBIND_CARRY_MOVE, 0);
}

static void make_moved_once(struct rig *rig) {
  make_carried(rig, IOBIND_CARRY_MOVE, 1);
}

static void make_swapped(struct rig *rig) {
  make_carried(rig, IOBIND_CARRY_SWAP, 0);
}

static void make_swapped_once(struct rig *rig) {
  make_carried(rig, IOBIND_CARRY_SWAP, 1);
}

static void make_swapped_twice(struct rig *rig) {
  make_carried(rig, IOBIND_CARRY_SWAP, 2);
}

static void make_in_place(struct rig *rig) {
  make_carried(rig, IOBIND_CARRY_IN_PLACE, 0);
}

static void make_in_place_once(struct rig *rig) {
  make_carried(rig, IOBIND_CARRY_IN_PLACE, 1);
}

/* The session computes on a stream of its own, the second one; it has run once. */
static void make_apart(struct rig *rig, iobind_carry_mode mode) {
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  NEED(rig, iobind_stream_create(rig->device, NULL, &rig->second_stream, &rig->error));
  options.devices = &rig->device;
  options.device_count = 1;
  options.stream = rig->second_stream;
  NEED(rig, test_session_with(rig->runtime, "scale", &options, &rig->session, &rig->error));
  NEED(rig, iobind_binding_create(rig->session, &rig->binding, &rig->error));
  rig->x = rig_floats(rig, rig->device, rig_ones, RIG_VALUES);
  bind_x(rig, IOBIND_INPUT_SNAPSHOT);
  NEED(rig, carry(rig, mode));
  run_once(rig);
}

static void make_moved_apart(struct rig *rig) {
  make_apart(rig, IOBIND_CARRY_MOVE);
}

static void make_swapped_apart(struct rig *rig) {
  make_apart(rig, IOBIND_CARRY_SWAP);
}

static void make_moved_behind(struct rig *rig) {
  make_apart(rig, IOBIND_CARRY_MOVE);
  NEED(rig, iobind_stream_create(rig->device, NULL, &rig->stream, &rig->error));
}

static void make_swapped_behind(struct rig *rig) {
  make_apart(rig, IOBIND_CARRY_SWAP);
  NEED(rig, iobind_stream_create(rig->device, NULL, &rig->stream, &rig->error));
}

/* Nothing of a failed run can be fetched: it would be the second state. */
static iobind_status run_apart(struct rig *rig) {
  iobind_status status = rig->stream == NULL ? run(rig) : run_on_stream(rig);
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_tensor *output;
  if (status != IOBIND_OK && rig->number == 0 &&
      iobind_binding_get_output(rig->binding, 0, NULL, &output, &error) == IOBIND_OK) {
    state_is(rig, 1);
  }
  return status;
}

static void is_first(struct rig *rig) {
  state_is(rig, 1);
  run_once(rig);
  state_is(rig, 2);
}

static void is_second(struct rig *rig) {
  state_is(rig, 2);
  run_once(rig);
  state_is(rig, 3);
}

static void is_as_counted(struct rig *rig) {
  state_is(rig, 1 + (int)rig->number);
}

/* After a failed run that may have written a state in place, the state cannot be used until it is rewritten. */
static iobind_status run_in_place(struct rig *rig, const float *state) {
  iobind_error untouched = rig->error;
  iobind_status status = run(rig);
  if (status == IOBIND_ERROR_INVALID_STATE) {
    rig->error = untouched;
    NEED(rig, iobind_binding_write_input(rig->binding, 0, state, RIG_VALUES * sizeof *state, NULL, &rig->error));
    status = run(rig);
  }
  return status;
}

static iobind_status run_in_place_first(struct rig *rig) {
  return run_in_place(rig, rig_ones);
}

static iobind_status run_in_place_second(struct rig *rig) {
  return run_in_place(rig, rig_twos);
}

/* Two states at once: one may be an input already where there is no memory for the other. */
static void make_pair(struct rig *rig) {
  rig_binding(rig, "pair");
  rig->x = rig_floats(rig, rig->device, rig_ones, RIG_VALUES);
  for (size_t i = 0; i < 2; i++) {
    NEED(rig, iobind_binding_set_input(rig->binding, i, IOBIND_INPUT_SNAPSHOT, rig->x, NULL, &rig->error));
    NEED(rig, iobind_binding_carry(rig->binding, i, i, IOBIND_CARRY_MOVE, &rig->error));
  }
  run_once(rig); /* the next one makes tensors of both states, and binds them */
}

static iobind_status run_pair(struct rig *rig) {
  iobind_status status = run(rig);
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_tensor *output;
  for (size_t i = 0; i < 2 && status != IOBIND_OK; i++) { /* nothing of the failed run */
    NEED_TRUE(iobind_binding_get_output(rig->binding, i, NULL, &output, &error) != IOBIND_OK || output != NULL);
  }
  return status;
}

/* x, y = x + y, x y: twice from 1 1, 2 2, ... */
static void pair_is_second(struct rig *rig) {
  float sum[RIG_VALUES];
  float product[RIG_VALUES];
  iobind_tensor *output;
  for (size_t i = 0; i < RIG_VALUES; i++) {
    float x = rig_ones[i];
    float y = rig_ones[i];
    for (int run_number = 0; run_number < 2; run_number++) {
      float next = x + y;
      y = x * y;
      x = next;
    }
    sum[i] = x;
    product[i] = y;
  }
  NEED(rig, iobind_binding_get_output(rig->binding, 0, NULL, &output, &rig->error));
  rig_expect(rig, output, sum, RIG_VALUES);
  NEED(rig, iobind_binding_get_output(rig->binding, 1, NULL, &output, &rig->error));
  rig_expect(rig, output, product, RIG_VALUES);
}

static void is_third(struct rig *rig) {
  state_is(rig, 3);
  run_once(rig);
  state_is(rig, 4);
}

/* A state that grows by a row with each run. */
static void make_growing(struct rig *rig) {
  static const int64_t none[2] = {0, 3};
  static const int64_t row[2] = {1, 3};
  rig_binding(rig, "concat");
  NEED(rig, iobind_tensor_create(rig->device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, none, 2, &rig->x, &rig->error));
  NEED(rig, iobind_tensor_create(rig->device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, row, 2, &rig->y, &rig->error));
  NEED(rig, iobind_tensor_write(rig->y, 0, rig_ones, 3 * sizeof(float), NULL, &rig->error));
  bind_x(rig, IOBIND_INPUT_RESIDENT);
  NEED(rig, iobind_binding_set_input(rig->binding, 1, IOBIND_INPUT_RESIDENT, rig->y, NULL, &rig->error));
  NEED(rig, carry(rig, IOBIND_CARRY_MOVE));
  run_once(rig);
}

static void has_two_rows(struct rig *rig) {
  iobind_tensor *state = NULL;
  iobind_tensor_info info = IOBIND_TENSOR_INFO_INIT;
  NEED(rig, iobind_binding_get_output(rig->binding, 0, NULL, &state, &rig->error));
  NEED(rig, iobind_tensor_get_info(state, &info, &rig->error));
  NEED_TRUE(info.rank == 2 && info.dims[0] == 2 && info.dims[1] == 3);
}

static iobind_status take(struct rig *rig) {
  return iobind_binding_take_output(rig->binding, 0, &rig->result, &rig->error);
}

/* A taken output is never overwritten, and the state continues from it. */
static void was_taken(struct rig *rig) {
  run_once(rig);
  state_is(rig, 2);
  rig_expect(rig, rig->result, rig_twos, RIG_VALUES);
}

#define CARRIES(of, calls)                                                                                         \
  {                                                                                                                \
    .function = "iobind_binding_carry", .variant = (of), .places = ON_ALL, .prepare = make_bound, .call = (calls), \
    .right = runs_from_first                                                                                       \
  }
#define RUNS(of, prepares, calls, checks)                                                                        \
  {                                                                                                              \
    .function = "iobind_binding_run", .variant = (of), .places = ON_ALL, .prepare = (prepares), .call = (calls), \
    .right = (checks)                                                                                            \
  }
#define RUNS_APART(of, prepares, checks)                                                                              \
  {                                                                                                                   \
    .function = "iobind_binding_run", .variant = (of), .places = ON_VDEV, .prepare = (prepares), .call = (run_apart), \
    .right = (checks)                                                                                                 \
  }
#define TAKES(of, prepares)                                                                                           \
  {                                                                                                                   \
    .function = "iobind_binding_take_output", .variant = (of), .places = ON_ALL, .prepare = (prepares), .call = take, \
    .out = OUT(result), .right = was_taken                                                                            \
  }

const struct scenario carry_scenarios[] = {
    CARRIES("moved", carry_moved),
    CARRIES("swapped", carry_swapped),
    CARRIES("in place", carry_in_place),
    RUNS("moved at first", make_moved, run, is_first),
    RUNS("moved", make_moved_once, run, is_second),
    RUNS("moved on a stream", make_moved_once, run_on_stream, is_as_counted),
    RUNS("moved and growing", make_growing, run, has_two_rows),
    RUNS("swapped at first", make_swapped, run, is_first),
    RUNS("swapped", make_swapped_once, run, is_second),
    RUNS("swapped twice", make_swapped_twice, run, is_third),
    RUNS("swapped on a stream", make_swapped_once, run_on_stream, is_as_counted),
    RUNS("carried in place at first", make_in_place, run_in_place_first, is_first),
    RUNS("carried in place", make_in_place_once, run_in_place_second, is_second),
    RUNS_APART("moved on the session's stream", make_moved_apart, is_second),
    RUNS_APART("swapped on the session's stream", make_swapped_apart, is_second),
    RUNS_APART("moved behind the session's stream", make_moved_behind, is_as_counted),
    RUNS_APART("swapped behind the session's stream", make_swapped_behind, is_as_counted),
    RUNS("two moved", make_pair, run_pair, pair_is_second),
    TAKES("moved", make_moved_once),
    TAKES("swapped", make_swapped_once),
    {.function = NULL},
};
