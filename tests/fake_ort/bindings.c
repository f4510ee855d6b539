/* Bindings: bound, run, fetched. */
#include <stddef.h>
#include <string.h>

#include "fake_ort.h"
#include "scenario.h"
#include "../rig/calls.h"
#include "objects.h"

static const char scale[] = "scale";             /* y = 2 x */
static const char passthrough[] = "passthrough"; /* x itself is an output; y = x + x */
static const char strings[] = "passthrough dtype=string";

/* ---- what the scenarios stand on ---- */

static void make_session(struct rig *rig) {
  rig_session(rig, scale);
}

static void make_binding(struct rig *rig) {
  rig_binding(rig, scale);
  rig->x = rig_floats(rig, rig->device, rig_ones, RIG_VALUES);
}

/* The first runs are compared with the CPU's. */
static void make_verified(struct rig *rig) {
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  options.devices = &rig->device;
  options.device_count = 1;
  options.intra_op_threads = 1;
  options.verify.runs = 2;
  NEED(rig, test_session_with(rig->runtime, scale, &options, &rig->session, &rig->error));
  NEED(rig, iobind_binding_create(rig->session, &rig->binding, &rig->error));
  rig->x = rig_floats(rig, rig->device, rig_ones, RIG_VALUES);
}

static void bind_x(struct rig *rig) {
  NEED(rig, iobind_binding_set_input(rig->binding, 0, IOBIND_INPUT_RESIDENT, rig->x, NULL, &rig->error));
}

static void make_bound(struct rig *rig) {
  make_binding(rig);
  bind_x(rig);
}

static void make_bound_verified(struct rig *rig) {
  make_verified(rig);
  bind_x(rig);
}

static void bind_output(struct rig *rig, size_t index, int mode, iobind_tensor *tensor) {
  NEED(rig, call_binding_set_output(rig->binding, index, mode, NULL, IOBIND_MEMORY_DEFAULT, tensor, &rig->error));
}

static void run_once(struct rig *rig) {
  NEED(rig, iobind_binding_run(rig->binding, NULL, &rig->error));
}

static void make_run(struct rig *rig) {
  make_bound(rig);
  run_once(rig);
}

static void make_run_and_fetched(struct rig *rig) {
  make_run(rig);
  iobind_tensor *borrowed;
  NEED(rig, iobind_binding_get_output(rig->binding, 0, NULL, &borrowed, &rig->error));
}

static void expect_output(struct rig *rig, size_t index, const float *values, size_t count) {
  iobind_tensor *output = NULL;
  NEED(rig, iobind_binding_get_output(rig->binding, index, NULL, &output, &rig->error));
  rig_expect(rig, output, values, count);
}

static void output_is_twos(struct rig *rig) {
  expect_output(rig, 0, rig_twos, RIG_VALUES);
}

static void runs(struct rig *rig) {
  run_once(rig);
  output_is_twos(rig);
}

/* ---- made ---- */

static iobind_status create(struct rig *rig) {
  return iobind_binding_create(rig->session, &rig->binding, &rig->error);
}

static void binding_works(struct rig *rig) {
  rig->x = rig_floats(rig, rig->device, rig_ones, RIG_VALUES);
  bind_x(rig);
  runs(rig);
}

static iobind_status destroy(struct rig *rig) {
  iobind_binding_destroy(rig->binding);
  rig->binding = NULL;
  return IOBIND_OK;
}

static iobind_status clear(struct rig *rig) {
  return iobind_binding_clear(rig->binding, &rig->error);
}

static void works_after_clear(struct rig *rig) {
  bind_x(rig);
  runs(rig);
}

static iobind_status set_run_options(struct rig *rig) {
  static const char *const keys[1] = {"memory.enable_memory_arena_shrinkage"};
  static const char *const values[1] = {"cpu:0"};
  iobind_run_options options = IOBIND_RUN_OPTIONS_INIT;
  options.log_level = IOBIND_LOG_ERROR;
  options.tag = "tagged";
  options.config_keys = keys;
  options.config_values = values;
  options.config_count = 1;
  return iobind_binding_set_run_options(rig->binding, &options, &rig->error);
}

static iobind_status announce(struct rig *rig) {
  return iobind_binding_announce_run(rig->binding, 1, &rig->error);
}

static void announced_runs(struct rig *rig) {
  NEED(rig, iobind_binding_run(rig->binding, NULL, &rig->error));
  output_is_twos(rig);
}

/* Also a run that fails is the announced one: nothing waits for it any more. */
static iobind_status announce_and_run(struct rig *rig) {
  iobind_status status = announce(rig);
  return status == IOBIND_OK ? iobind_binding_run(rig->binding, NULL, &rig->error) : status;
}

static iobind_status check(struct rig *rig) {
  return iobind_binding_check(rig->binding, &rig->error);
}

/* ---- inputs ---- */

static iobind_status set_input(struct rig *rig, iobind_input_mode mode, iobind_tensor *tensor, iobind_event *event) {
  return iobind_binding_set_input(rig->binding, 0, mode, tensor, event, &rig->error);
}

static iobind_status set_resident(struct rig *rig) {
  return set_input(rig, IOBIND_INPUT_RESIDENT, rig->x, NULL);
}

/* What is bound is the host's, so that it is copied. */
static void make_binding_and_host_x(struct rig *rig) {
  rig_binding(rig, scale);
  rig->x = rig_floats(rig, rig->cpu, rig_ones, RIG_VALUES);
}

static iobind_status set_snapshot(struct rig *rig) {
  return set_input(rig, IOBIND_INPUT_SNAPSHOT, rig->x, NULL);
}

/* The run does not see later changes. */
static void snapshot_is_right(struct rig *rig) {
  static const float other[RIG_VALUES] = {9, 9, 9, 9};
  NEED(rig, iobind_tensor_write(rig->x, 0, other, sizeof other, NULL, &rig->error));
  runs(rig);
}

static iobind_status set_live(struct rig *rig) {
  return set_input(rig, IOBIND_INPUT_LIVE, rig->x, NULL);
}

/* The input was bound before: after a failure it is as it was. */
static void make_bound_and_other(struct rig *rig) {
  make_bound(rig);
  rig->y = rig_floats(rig, rig->cpu, rig_twos, RIG_VALUES);
}

static iobind_status set_other(struct rig *rig, iobind_input_mode mode) {
  iobind_status status = set_input(rig, mode, rig->y, NULL);
  if (status != IOBIND_OK) {
    iobind_error error = rig->error;
    runs(rig); /* on the first input still */
    rig->error = error;
  }
  return status;
}

static iobind_status set_other_snapshot(struct rig *rig) {
  return set_other(rig, IOBIND_INPUT_SNAPSHOT);
}

/* Runs so steady that the next one would be ORT's call alone. */
static void make_steady_and_other(struct rig *rig) {
  enum { STEADY_AFTER = 3 };
  make_bound(rig);
  rig->y = rig_floats(rig, rig->device, rig_twos, RIG_VALUES);
  for (int run = 0; run < STEADY_AFTER; run++) {
    NEED(rig, iobind_binding_run(rig->binding, NULL, &rig->error));
  }
}

static iobind_status set_other_resident(struct rig *rig) {
  return set_other(rig, IOBIND_INPUT_RESIDENT);
}

static void other_is_bound(struct rig *rig) {
  static const float fours[RIG_VALUES] = {4, 8, 12, 16};
  run_once(rig);
  expect_output(rig, 0, fours, RIG_VALUES);
}

static void make_announced(struct rig *rig) {
  make_binding(rig);
  NEED(rig, iobind_stream_create(rig->device, NULL, &rig->stream, &rig->error));
  NEED(rig, iobind_event_create(rig->device, &rig->event, &rig->error));
  NEED(rig, iobind_tensor_write(rig->x, 0, rig_ones, sizeof rig_ones, rig->stream, &rig->error));
  NEED(rig, iobind_event_record(rig->event, rig->stream, &rig->error));
}

static iobind_status set_announced_snapshot(struct rig *rig) {
  return set_input(rig, IOBIND_INPUT_SNAPSHOT, rig->x, rig->event);
}

/* The EP shares no allocator: the session lends its own. */
static iobind_status set_lent_snapshot(struct rig *rig) {
  NEED_TRUE(fake_ort_fail("GetSharedAllocator", 1, 0, "") && fake_ort_fail("CreateSharedAllocator", 1, 9, "none is shared"));
  return set_snapshot(rig);
}

static void make_string_binding(struct rig *rig) {
  rig_binding(rig, strings);
  rig->x = rig_strings(rig, "first", "second");
}

static void expect_strings(struct rig *rig) {
  iobind_tensor *output = NULL;
  for (size_t i = 0; i < 2; i++) {
    NEED(rig, iobind_binding_get_output(rig->binding, i, NULL, &output, &rig->error));
    rig_expect_strings(rig, output, "first", "second");
  }
}

static void string_snapshot_is_right(struct rig *rig) {
  NEED(rig, iobind_tensor_set_string(rig->x, 0, "changed", &rig->error));
  run_once(rig);
  expect_strings(rig);
}

/* The result of a REUSE output becomes an input: the output gets new memory. */
static void make_reused(struct rig *rig) {
  make_bound(rig);
  bind_output(rig, 0, IOBIND_OUTPUT_REUSE, NULL);
  run_once(rig);
  NEED(rig, iobind_binding_get_output(rig->binding, 0, NULL, &rig->y, &rig->error));
  iobind_tensor_retain(rig->y);
}

static void make_reused_unfetched(struct rig *rig) {
  make_reused(rig);
  run_once(rig);
}

static iobind_status set_result(struct rig *rig) {
  return set_input(rig, IOBIND_INPUT_RESIDENT, rig->y, NULL);
}

static void result_is_input(struct rig *rig) {
  other_is_bound(rig);
  rig_expect(rig, rig->y, rig_twos, RIG_VALUES);
}

static void make_live(struct rig *rig) {
  make_binding_and_host_x(rig);
  NEED(rig, set_live(rig));
}

static iobind_status update(struct rig *rig) {
  return iobind_binding_write_input(rig->binding, 0, rig_twos, sizeof rig_twos, NULL, &rig->error);
}

/* ---- outputs ---- */

static iobind_status set_output(struct rig *rig, int mode, iobind_tensor *tensor) {
  return call_binding_set_output(rig->binding, 0, mode, NULL, IOBIND_MEMORY_DEFAULT, tensor, &rig->error);
}

static void make_run_and_target(struct rig *rig) {
  make_run_and_fetched(rig);
  rig->y = rig_floats(rig, rig->device, rig_ones, RIG_VALUES);
}

static iobind_status set_fixed(struct rig *rig) {
  return set_output(rig, OUTPUT_FIXED, rig->y);
}

static iobind_status set_reuse(struct rig *rig) {
  return set_output(rig, IOBIND_OUTPUT_REUSE, NULL);
}

static iobind_status set_on_host(struct rig *rig) {
  return iobind_binding_place_output(rig->binding, 0, IOBIND_OUTPUT_FRESH, rig->cpu, IOBIND_MEMORY_DEFAULT, &rig->error);
}

/* ---- runs ---- */

static iobind_status run(struct rig *rig) {
  iobind_status status = iobind_binding_run(rig->binding, NULL, &rig->error);
  iobind_tensor *output = NULL;
  iobind_error error = IOBIND_ERROR_INIT;
  if (status != IOBIND_OK) {
    NEED_TRUE(iobind_binding_get_output(rig->binding, 0, NULL, &output, &error) == IOBIND_ERROR_INVALID_STATE &&
              output == NULL);
  }
  return status;
}

static void make_fixed(struct rig *rig) {
  make_bound(rig);
  rig->y = rig_floats(rig, rig->device, rig_ones, RIG_VALUES);
  bind_output(rig, 0, OUTPUT_FIXED, rig->y);
}

static void fixed_is_twos(struct rig *rig) {
  rig_expect(rig, rig->y, rig_twos, RIG_VALUES);
  output_is_twos(rig);
}

/* After a first run of other dims: a REUSE output is rebound. */
static void make_reshaped(struct rig *rig) {
  make_binding(rig);
  rig->y = rig_floats(rig, rig->device, rig_ones, RIG_VALUES - 1);
  bind_output(rig, 0, IOBIND_OUTPUT_REUSE, NULL);
  NEED(rig, iobind_binding_set_input(rig->binding, 0, IOBIND_INPUT_RESIDENT, rig->y, NULL, &rig->error));
  run_once(rig);
  bind_x(rig);
}

/* A host tensor that a run on the device reads, and whose producer it waits for. */
static void make_announced_live(struct rig *rig) {
  make_announced(rig);
  NEED(rig, set_input(rig, IOBIND_INPUT_LIVE, rig->x, rig->event));
}

/* With what a thread of the library does for it: the run is complete, or has failed, when the call returns. */
static iobind_status run_on_stream(struct rig *rig) {
  iobind_status status = call_binding_run(rig->binding, rig->stream, rig->event, &rig->error);
  if (status == IOBIND_OK) {
    status = iobind_stream_synchronize(rig->stream, &rig->error);
    if (status != IOBIND_OK) {
      iobind_error error = IOBIND_ERROR_INIT; /* it could not be waited for: the run is in flight still */
      NEED(rig, iobind_stream_synchronize(rig->stream, &error));
    }
  }
  return status;
}

static void make_bound_and_stream(struct rig *rig) {
  make_announced(rig);
  bind_x(rig);
}

static void make_passthrough(struct rig *rig) {
  rig_binding(rig, passthrough);
  rig->x = rig_floats(rig, rig->device, rig_ones, RIG_VALUES);
  bind_x(rig);
}

static void make_passthrough_fixed(struct rig *rig) {
  make_passthrough(rig);
  rig->y = rig_floats(rig, rig->device, rig_twos, RIG_VALUES);
  bind_output(rig, 0, OUTPUT_FIXED, rig->y);
}

static void make_passthrough_again(struct rig *rig) {
  make_passthrough(rig);
  run_once(rig);
}

/* The result is a copy: it keeps its values while the input changes. */
static void passthrough_is_right(struct rig *rig) {
  iobind_tensor *output = NULL;
  NEED(rig, iobind_binding_get_output(rig->binding, 0, NULL, &output, &rig->error));
  NEED(rig, iobind_tensor_write(rig->x, 0, rig_twos, sizeof rig_twos, NULL, &rig->error));
  rig_expect(rig, output, rig_ones, RIG_VALUES);
  expect_output(rig, 1, rig_twos, RIG_VALUES);
}

static void make_bound_strings(struct rig *rig) {
  make_string_binding(rig);
  bind_x(rig);
}

static void make_fixed_strings(struct rig *rig) {
  make_bound_strings(rig);
  rig->y = rig_strings(rig, "", "");
  bind_output(rig, 0, OUTPUT_FIXED, rig->y);
}

/* ---- cancelled ---- */

static void cancel_now(void *context) {
  iobind_error error = IOBIND_ERROR_INIT;
  (void)!iobind_binding_cancel(context, &error); /* what it returns is looked at in a scenario of its own */
}

/* Cancelled when ORT is through already, as the run looks at its results: it succeeds, and the next one is not cancelled. */
static iobind_status run_cancelled_late(struct rig *rig) {
  fake_ort_hook("GetTensorMemoryInfo", cancel_now, rig->binding);
  iobind_status status = run(rig);
  fake_ort_hook("GetTensorMemoryInfo", NULL, NULL);
  return status;
}

/* ---- results ---- */

static iobind_status get_output(struct rig *rig) {
  rig->result = NULL;
  iobind_tensor *borrowed = NULL;
  iobind_status status = iobind_binding_get_output(rig->binding, 0, NULL, &borrowed, &rig->error);
  rig->result = iobind_tensor_retain(borrowed);
  return status;
}

/* On an EP's stream the run is in flight until the host has asked. The other stream is ordered after it. */
static void make_run_on_stream(struct rig *rig) {
  make_bound_and_stream(rig);
  run_once(rig);
  NEED(rig, iobind_stream_create(rig->device, NULL, &rig->second_stream, &rig->error));
  NEED(rig, iobind_binding_run(rig->binding, rig->stream, &rig->error));
}

static iobind_status lend_output(struct rig *rig) {
  rig->result = NULL;
  iobind_tensor *borrowed = NULL;
  iobind_status status = iobind_binding_get_output(rig->binding, 0, rig->second_stream, &borrowed, &rig->error);
  rig->result = iobind_tensor_retain(borrowed);
  return status;
}

static iobind_status take_output(struct rig *rig) {
  return iobind_binding_take_output(rig->binding, 0, &rig->result, &rig->error);
}

static void result_is_twos(struct rig *rig) {
  rig_expect(rig, rig->result, rig_twos, RIG_VALUES);
}

static void lent_is_twos(struct rig *rig) {
  NEED(rig, iobind_stream_synchronize(rig->second_stream, &rig->error));
  result_is_twos(rig);
}

/* A run changes nothing in what was taken. */
static void taken_is_twos(struct rig *rig) {
  NEED(rig, iobind_tensor_write(rig->x, 0, rig_twos, sizeof rig_twos, NULL, &rig->error));
  run_once(rig);
  result_is_twos(rig);
}

/* Fetched once by the first run, which looks where the outputs landed; the second is fetched when it is asked for. */
static void make_second_run(struct rig *rig) {
  make_run(rig);
  run_once(rig);
}

static void make_second_reused(struct rig *rig) {
  make_bound(rig);
  bind_output(rig, 0, IOBIND_OUTPUT_REUSE, NULL);
  run_once(rig);
  run_once(rig);
}

#define BINDS(name, of, where, prepares, calls, checks) \
  { .function = (name), .variant = (of), .places = (where), .prepare = (prepares), .call = (calls), .right = (checks) }
#define ENDS(name, where, prepares, calls) \
  { .function = (name), .variant = "", .places = (where), .prepare = (prepares), .call = (calls), .last = true }
#define GIVES(name, of, prepares, calls, checks)                                                                       \
  {                                                                                                                    \
    .function = (name), .variant = (of), .places = ON_ALL, .prepare = (prepares), .call = (calls), .out = OUT(result), \
    .right = (checks)                                                                                                  \
  }

const struct scenario binding_scenarios[] = {
    {.function = "iobind_binding_create",
     .variant = "",
     .places = ON_ALL,
     .prepare = make_session,
     .call = create,
     .out = OUT(binding),
     .right = binding_works},
    ENDS("iobind_binding_destroy", ON_ALL, make_run_and_fetched, destroy),
    BINDS("iobind_binding_clear", "", ON_ALL, make_run_and_fetched, clear, works_after_clear),
    BINDS("iobind_binding_set_run_options", "", ON_CPU, make_bound, set_run_options, runs),
    BINDS("iobind_binding_check", "", ON_CPU, make_bound, check, NULL),
    BINDS("iobind_binding_set_input", "resident", ON_ALL, make_binding, set_resident, runs),
    BINDS("iobind_binding_set_input", "snapshot", ON_ALL, make_binding_and_host_x, set_snapshot, snapshot_is_right),
    BINDS("iobind_binding_set_input", "snapshot after another", ON_ALL, make_bound_and_other, set_other_snapshot,
          other_is_bound),
    BINDS("iobind_binding_set_input", "resident between steady runs", ON_ALL, make_steady_and_other, set_other_resident,
          other_is_bound),
    BINDS("iobind_binding_set_input", "snapshot behind an event", ON_VDEV, make_announced, set_announced_snapshot, runs),
    BINDS("iobind_binding_set_input", "snapshot in lent memory", ON_VDEV, make_binding_and_host_x, set_lent_snapshot, runs),
    BINDS("iobind_binding_set_input", "snapshot of strings", ON_CPU, make_string_binding, set_snapshot,
          string_snapshot_is_right),
    BINDS("iobind_binding_set_input", "live", ON_ALL, make_binding_and_host_x, set_live, runs),
    BINDS("iobind_binding_set_input", "a result", ON_ALL, make_reused_unfetched, set_result, result_is_input),
    BINDS("iobind_binding_write_input", "", ON_ALL, make_bound, update, other_is_bound),
    BINDS("iobind_binding_write_input", "live", ON_VDEV, make_live, update, other_is_bound),
    BINDS("iobind_binding_set_output", "fixed", ON_ALL, make_run_and_target, set_fixed, runs),
    BINDS("iobind_binding_place_output", "reuse", ON_ALL, make_run_and_fetched, set_reuse, runs),
    BINDS("iobind_binding_place_output", "on the host", ON_ALL, make_run_and_fetched, set_on_host, runs),
    BINDS("iobind_binding_announce_run", "", ON_ALL, make_bound, announce, announced_runs),
    BINDS("iobind_binding_announce_run", "and run", ON_ALL, make_bound, announce_and_run, output_is_twos),
    BINDS("iobind_binding_run", "", ON_ALL, make_bound, run, output_is_twos),
    BINDS("iobind_binding_run", "verified", ON_VDEV | ON_STRANGE, make_bound_verified, run, output_is_twos),
    BINDS("iobind_binding_run", "again", ON_ALL, make_run_and_fetched, run, output_is_twos),
    BINDS("iobind_binding_run", "fixed", ON_ALL, make_fixed, run, fixed_is_twos),
    BINDS("iobind_binding_run", "reshaped", ON_ALL, make_reshaped, run, output_is_twos),
    BINDS("iobind_binding_run", "live", ON_ALL, make_live, run, output_is_twos),
    BINDS("iobind_binding_run", "behind an event", ON_VDEV, make_announced_live, run, output_is_twos),
    BINDS("iobind_binding_run", "on a stream", ON_ALL, make_bound_and_stream, run_on_stream, output_is_twos),
    BINDS("iobind_binding_run", "passed through", ON_ALL, make_passthrough, run, passthrough_is_right),
    BINDS("iobind_binding_run", "passed through again", ON_ALL, make_passthrough_again, run, passthrough_is_right),
    BINDS("iobind_binding_run", "passed through into a tensor", ON_ALL, make_passthrough_fixed, run, passthrough_is_right),
    BINDS("iobind_binding_run", "of strings", ON_CPU, make_bound_strings, run, expect_strings),
    BINDS("iobind_binding_run", "of strings into a tensor", ON_CPU, make_fixed_strings, run, expect_strings),
    BINDS("iobind_binding_run", "cancelled late", ON_CPU, make_bound, run_cancelled_late, runs),
    GIVES("iobind_binding_get_output", "", make_run, get_output, result_is_twos),
    GIVES("iobind_binding_get_output", "of a later run", make_second_run, get_output, result_is_twos),
    {.function =
         "iobind_binding_get_output", /* on other places a thread of iobind makes the run, whose failure this call tells */
     .variant = "on a stream",
     .places = ON_VDEV,
     .prepare = make_run_on_stream,
     .call = lend_output,
     .out = OUT(result),
     .right = lent_is_twos},
    GIVES("iobind_binding_take_output", "", make_run, take_output, taken_is_twos),
    GIVES("iobind_binding_take_output", "of a later run", make_second_run, take_output, taken_is_twos),
    GIVES("iobind_binding_take_output", "reused", make_second_reused, take_output, taken_is_twos),
    {.function = NULL},
};
