/* Sessions that capture graphs: y = 2 x. */
#include <stddef.h>

#include "fake_ort.h"
#include "scenario.h"
#include "vdev.h"

static iobind_status create(struct rig *rig) {
  size_t bytes;
  const void *data = rig_model("scale", &bytes);
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  options.devices = &rig->device;
  options.device_count = 1;
  options.intra_op_threads = 1;
  options.graph_limit = 2;
  return iobind_session_create_from_memory(rig->runtime, data, bytes, &options, &rig->session, &rig->error);
}

static iobind_status create_binding(struct rig *rig) {
  return iobind_binding_create(rig->session, &rig->binding, &rig->error);
}

static void make_session(struct rig *rig) {
  NEED(rig, create(rig));
}

static void bind_x(struct rig *rig) {
  rig->x = rig_floats(rig, rig->device, rig_ones, RIG_VALUES);
  NEED(rig, iobind_binding_set_input(rig->binding, 0, IOBIND_INPUT_RESIDENT, rig->x, NULL, &rig->error));
}

static void make_bound(struct rig *rig) {
  make_session(rig);
  NEED(rig, create_binding(rig));
  bind_x(rig);
}

static iobind_status run(struct rig *rig) {
  return iobind_binding_run(rig->binding, NULL, &rig->error);
}

static void make_captured(struct rig *rig) {
  make_bound(rig);
  NEED(rig, run(rig));
}

static void output_is(struct rig *rig, float factor) {
  float expected[RIG_VALUES];
  for (size_t i = 0; i < RIG_VALUES; i++) {
    expected[i] = rig_ones[i] * factor;
  }
  iobind_tensor *output = NULL;
  NEED(rig, iobind_binding_get_output(rig->binding, 0, NULL, &output, &rig->error));
  rig_expect(rig, output, expected, RIG_VALUES);
}

static void output_is_twos(struct rig *rig) {
  output_is(rig, 2);
}

static void runs(struct rig *rig) {
  NEED(rig, run(rig));
  output_is(rig, 2);
}

static void binding_works(struct rig *rig) {
  bind_x(rig);
  runs(rig);
}

static void session_works(struct rig *rig) {
  NEED(rig, create_binding(rig));
  binding_works(rig);
}

/* A state that the model updates in place: a run that fails may have written it, so each call begins with a new one. */
static void make_in_place(struct rig *rig) {
  make_bound(rig);
  NEED(rig, iobind_binding_carry(rig->binding, 0, 0, IOBIND_CARRY_IN_PLACE, &rig->error));
}

static iobind_status run_in_place(struct rig *rig) {
  iobind_status status = iobind_binding_write_input(rig->binding, 0, rig_ones, sizeof rig_ones, NULL, &rig->error);
  return status == IOBIND_OK ? run(rig) : status;
}

/* ORT leaves the nodes of a run out that is cancelled: here of the first of those that capture. */
static void make_capturing_for_nothing(struct rig *rig) {
  make_in_place(rig);
  NEED_TRUE(vdev_reset(0) == 0);
  NEED_TRUE(fake_ort_leave_out("RunWithBinding", fake_ort_count("RunWithBinding") + 1));
  busy_begin(rig);
}

static iobind_status cancel(struct rig *rig) {
  return iobind_binding_cancel(rig->binding, &rig->error);
}

/* ORT waits for what it has submitted in the next run, so that must not end at once; then the state is as it was. */
static void capture_is_cancelled(struct rig *rig) {
  NEED_TRUE(busy_end(rig) == IOBIND_ERROR_CANCELLED);
  NEED_TRUE(vdev_get(0, "kernels") == 1);
  rig_expect(rig, rig->x, rig_ones, RIG_VALUES);
  NEED(rig, run(rig));
  output_is(rig, 2);
}

static void make_swapped(struct rig *rig) {
  make_bound(rig);
  NEED(rig, iobind_binding_carry(rig->binding, 0, 0, IOBIND_CARRY_SWAP, &rig->error));
}

static void state_goes_on(struct rig *rig) {
  output_is(rig, 2);
  NEED(rig, run(rig));
  NEED(rig, run(rig));
  output_is(rig, 8);
}

static iobind_status forget(struct rig *rig) {
  return iobind_binding_reset_graphs(rig->binding, &rig->error);
}

static iobind_status set_run_options(struct rig *rig) {
  static const char *const key = "some.key";
  static const char *const value = "some value";
  iobind_run_options options = IOBIND_RUN_OPTIONS_INIT;
  options.tag = "tag";
  options.config_keys = &key;
  options.config_values = &value;
  options.config_count = 1;
  return iobind_binding_set_run_options(rig->binding, &options, &rig->error);
}

#define GRAPHS(name, of, prepares, calls, checks) \
  { .function = (name), .variant = (of), .places = ON_VDEV, .prepare = (prepares), .call = (calls), .right = (checks) }

const struct scenario graph_scenarios[] = {
    {.function = "iobind_session_create_from_memory",
     .variant = "with graphs",
     .places = ON_VDEV,
     .call = create,
     .out = OUT(session),
     .right = session_works},
    {.function = "iobind_binding_create",
     .variant = "with graphs",
     .places = ON_VDEV,
     .prepare = make_session,
     .call = create_binding,
     .out = OUT(binding),
     .right = binding_works},
    GRAPHS("iobind_binding_run", "captured", make_bound, run, output_is_twos),
    GRAPHS("iobind_binding_run", "captured in place", make_in_place, run_in_place, state_goes_on),
    GRAPHS("iobind_binding_run", "captured with a swap", make_swapped, run, state_goes_on),
    GRAPHS("iobind_binding_run", "replayed", make_captured, run, output_is_twos),
    GRAPHS("iobind_binding_cancel", "in a capture", make_capturing_for_nothing, cancel, capture_is_cancelled),
    GRAPHS("iobind_binding_reset_graphs", "", make_captured, forget, runs),
    GRAPHS("iobind_binding_set_run_options", "with graphs", make_captured, set_run_options, runs),
    {.function = NULL},
};
