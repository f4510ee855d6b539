/* Audits: what a binding's runs move. */
#include <stddef.h>

#include "scenario.h"

/* Copied in by each run, and passed through, which is copied too. */
static void make_bound(struct rig *rig) {
  size_t bytes;
  const void *model = rig_model("passthrough", &bytes);
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  options.flags = IOBIND_SESSION_PLACEMENT;
  options.devices = &rig->device;
  options.device_count = 1;
  options.intra_op_threads = 1;
  NEED(rig, iobind_session_create_from_memory(rig->runtime, model, bytes, &options, &rig->session, &rig->error));
  NEED(rig, iobind_binding_create(rig->session, &rig->binding, &rig->error));
  rig->x = rig_floats(rig, rig->cpu, rig_ones, RIG_VALUES);
  NEED(rig, iobind_binding_set_input(rig->binding, 0, IOBIND_INPUT_LIVE, rig->x, NULL, &rig->error));
}

/* The results of the last run are not fetched yet. */
static void make_run(struct rig *rig) {
  make_bound(rig);
  NEED(rig, iobind_binding_run(rig->binding, NULL, &rig->error));
  NEED(rig, iobind_binding_run(rig->binding, NULL, &rig->error));
}

static iobind_status create(struct rig *rig) {
  return iobind_audit_create(rig->binding, &rig->audit, &rig->error);
}

static iobind_status get_info(struct rig *rig) {
  iobind_audit_info info = IOBIND_AUDIT_INFO_INIT;
  iobind_status status = iobind_audit_get_info(rig->audit, &info, &rig->error);
  rig->number = info.entry_count;
  return status;
}

static iobind_status get_entry(struct rig *rig) {
  iobind_audit_entry entry = IOBIND_AUDIT_ENTRY_INIT;
  iobind_status status = iobind_audit_get_entry(rig->audit, 0, &entry, &rig->error);
  rig->number = (size_t)entry.bytes;
  return status;
}

/* An input and two outputs, at least; the input crosses where it is a device's. */
static void is_whole(struct rig *rig) {
  NEED(rig, get_info(rig));
  NEED_TRUE(rig->number >= 3);
  NEED(rig, get_entry(rig));
  NEED_TRUE(rig->number == (rig->place == ON_CPU ? 0 : sizeof rig_ones));
}

/* The binding runs on. */
static void is_whole_and_runs(struct rig *rig) {
  is_whole(rig);
  iobind_tensor *output = NULL;
  NEED(rig, iobind_binding_run(rig->binding, NULL, &rig->error));
  NEED(rig, iobind_binding_get_output(rig->binding, 1, NULL, &output, &rig->error));
  rig_expect(rig, output, rig_twos, RIG_VALUES);
}

static void make_audit(struct rig *rig) {
  make_run(rig);
  NEED(rig, create(rig));
}

static iobind_status destroy(struct rig *rig) {
  iobind_audit_destroy(rig->audit);
  rig->audit = NULL;
  return IOBIND_OK;
}

const struct scenario audit_scenarios[] = {
    {.function = "iobind_audit_create",
     .variant = "",
     .places = ON_ALL,
     .prepare = make_run,
     .call = create,
     .out = OUT(audit),
     .right = is_whole_and_runs},
    {.function = "iobind_audit_create",
     .variant = "before a run",
     .places = ON_ALL,
     .prepare = make_bound,
     .call = create,
     .out = OUT(audit),
     .right = is_whole_and_runs},
    {.function = "iobind_audit_get_info",
     .variant = "",
     .places = ON_CPU,
     .prepare = make_audit,
     .call = get_info,
     .right = is_whole},
    {.function = "iobind_audit_get_entry",
     .variant = "",
     .places = ON_VDEV,
     .prepare = make_audit,
     .call = get_entry,
     .right = is_whole},
    {.function = "iobind_audit_destroy", .variant = "", .places = ON_CPU, .prepare = make_audit, .call = destroy, .last = true},
    {.function = NULL},
};
