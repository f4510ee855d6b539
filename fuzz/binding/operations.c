#include "operations.h"

#include <stdio.h>
#include <string.h>

#include "faults.h"
#include "vdev.h"

#define W the_world

const char *on_stream(int stream) {
  static const char *const names[STREAMS + 1] = {"", ", S0", ", S1", ", S2"};
  return names[stream + 1];
}

/* Memory that the caller may write, which excludes memory lent by a binding. */
slot *take_writable(uint8_t chosen) {
  for (size_t i = 0; i < TENSORS; i++) {
    slot *at = &W->slots[(chosen + i) % TENSORS];
    if (at->tensor != NULL && at->is_plain && !at->is_lent && !at->at.block->is_frozen && at->at.count > 0) return at;
  }
  return NULL;
}

static bool takes_stream(const slot *of) {
  return of->where != PLACE_HOST || W->at_host;
}

void do_write(const step *from) {
  slot *to = take_writable(from->x[0]);
  if (to == NULL) return;
  int stream = from->x[1] >= 160 && takes_stream(to) ? from->x[1] % STREAMS : -1;
  float *values = world_memory(to->at.count);
  world_new_values(values, to->at.count);
  if (stream >= 0 && world_stream((size_t)stream) == NULL) return;
  if (stream < 0 && fault_is_set()) world_host_uses(to->at.block, true, NULL);
  if (stream >= 0) world_stream_uses((size_t)stream, to->at.block, true, NULL, from->x[2] % 2 == 0);
  begin_call("write(t%d, {%g ...}%s)", world_index(to), (double)values[0], on_stream(stream));
  bool well = require_ok(end_call(iobind_tensor_write(to->tensor, 0, values, sizeof(float) * to->at.count,
                                                      stream < 0 ? NULL : W->lanes[stream].handle, &the_error)));
  view_write(to->at, values);
  if (!well) view_forget(to->at);
  if (stream < 0) {
    if (well) world_host_used(to->at.block, true);
    return;
  }
  world_submit((size_t)stream);
  world_stamp((size_t)stream, to->at.block, true);
  if (fault_was_set()) settle((size_t)stream);
}

/* Map the data. From then on the host may read and write them. */
void look_at(slot *of) {
  void *data = NULL;
  if (fault_is_set()) world_host_uses(of->at.block, true, NULL);
  begin_call("get_data(t%d)", world_index(of));
  if (!require_ok(end_call(iobind_tensor_map(of->tensor, IOBIND_DTYPE_FLOAT32, IOBIND_ACCESS_WRITE, &data, &the_error))))
    return;
  world_host_used(of->at.block, true);
  if (view_is_known(of->at, 0)) compare(data, of->at, "the data");
}

void do_read(const step *from) {
  slot *of = world_tensor(from->x[0] % TENSORS);
  if (of == NULL || !of->is_plain || of->at.count == 0) return;
  int stream = from->x[1] >= 96 && takes_stream(of) ? from->x[1] % STREAMS : -1;
  if (stream >= 0 && world_stream((size_t)stream) == NULL) return;
  if (stream < 0 && (W->at_host || of->where != PLACE_HOME) && from->x[3] >= 128 && !of->at.block->is_frozen) {
    look_at(of);
    return;
  }
  float *there = world_memory(of->at.count);
  if (stream < 0 && fault_is_set()) world_host_uses(of->at.block, false, NULL);
  if (stream >= 0) world_stream_uses((size_t)stream, of->at.block, false, NULL, from->x[2] % 2 == 0);
  world_unread(there, of->at.count);
  begin_call("read(t%d%s)", world_index(of), on_stream(stream));
  bool well = require_ok(end_call(iobind_tensor_read(of->tensor, 0, there, sizeof(float) * of->at.count,
                                                     stream < 0 ? NULL : W->lanes[stream].handle, &the_error)));
  if (stream < 0) {
    if (well) world_host_used(of->at.block, false);
    if (well && view_is_known(of->at, 0)) compare(there, of->at, "what was read");
    return;
  }
  world_submit((size_t)stream);
  world_stamp((size_t)stream, of->at.block, false);
  if (well) world_expect_bytes((size_t)stream, there, of->at);
  if (fault_was_set()) settle((size_t)stream);
}

void copy_tensor(slot *source, slot *to, int stream, bool by_event) {
  if (stream < 0 && fault_is_set()) {
    world_host_uses(source->at.block, false, NULL);
    world_host_uses(to->at.block, true, NULL);
  } else if (stream >= 0) {
    world_stream_uses((size_t)stream, source->at.block, false, NULL, by_event);
    world_stream_uses((size_t)stream, to->at.block, true, NULL, by_event);
  }
  const iobind_tensor *sources[1] = {source->tensor};
  begin_call("copy(t%d, t%d%s)", world_index(source), world_index(to), on_stream(stream));
  bool well = require_ok(
      end_call(iobind_tensor_copy(sources, &to->tensor, 1, stream < 0 ? NULL : W->lanes[stream].handle, &the_error)));
  elements values = view_read(source->at);
  view_write(to->at, values.at);
  if (!well || !view_is_known(source->at, 0)) view_forget(to->at);
  if (stream < 0) {
    if (well) world_host_used(source->at.block, false);
    if (well) world_host_used(to->at.block, true);
    return;
  }
  world_submit((size_t)stream);
  world_stamp((size_t)stream, source->at.block, false);
  world_stamp((size_t)stream, to->at.block, true);
  if (fault_was_set()) settle((size_t)stream);
}

void do_copy(const step *from) {
  slot *to = take_writable(from->x[0]);
  slot *source = world_tensor(from->x[1] % TENSORS);
  if (to == NULL || source == NULL || !source->is_plain || source->at.count != to->at.count) return;
  if (views_overlap(source->at, to->at)) return;
  int stream = from->x[2] >= 128 && (takes_stream(to) || takes_stream(source)) ? from->x[2] % STREAMS : -1;
  if (stream < 0 || world_stream((size_t)stream) != NULL) copy_tensor(source, to, stream, from->x[3] % 2 == 0);
}

/* A CUDA call fails once, without lasting effects. */
static void fail_once_on_cuda(const step *from) {
  static const char *const counted[4] = {"fail_compute", "fail_copy", "fail_alloc", "fail_pinned"};
  static const char *const named[6] = {"fail_event=1",
                                       "fail_event=1,name:cudaEventRecord",
                                       "fail_event=1,name:cudaStreamWaitEvent",
                                       "fail_event=1,name:cudaEventSynchronize",
                                       "fail_event=1,name:cudaEventQuery",
                                       "fail_stream=1,name:cudaStreamSynchronize"};
  if (from->x[0] % 2 == 0) {
    snprintf(W->fault, sizeof W->fault, "%s=%d", counted[from->x[2] % 4], 1 + from->x[1] % 3);
  } else {
    snprintf(W->fault, sizeof W->fault, "%s", named[from->x[2] % 6]);
  }
}

static void do_fault(const step *from) {
  static const char *const kinds[8] = {"fail_compute", "fail_compute", "fail_compute", "fail_alloc",
                                       "fail_alloc",   "fail_copy",    "fail_copy",    "fail_pinned"};
  if (W->is_vcuda && from->x[5] < 32) do_lose(from);
  if (W->is_vcuda && from->x[5] >= 32) fail_once_on_cuda(from);
  if (!W->is_virtual) return;
  iobind_runtime_info info = IOBIND_RUNTIME_INFO_INIT;
  CHECK(iobind_runtime_get_info(W->runtime, &info, NULL) == IOBIND_OK);
  if (info.ort_api_version < 25)
    CHECK(vdev_set(W->number, "race", "off") == 0); /* older ORT cannot wait for work of a failed run */
  snprintf(W->fault, sizeof W->fault, "%s=%d", kinds[from->x[0] % 8], 1 + from->x[1] % 3);
}

static void do_options(const step *from) {
  bound *one = take_binding(from);
  if (one == NULL) return;
  iobind_run_options options = IOBIND_RUN_OPTIONS_INIT;
  options.tag = "fuzz";
  expectation expected = {0};
  expect_idle(one, &expected, false);
  begin_call("set_run_options(b%d)", binding_index(one));
  if (require(expected,
              end_call(iobind_binding_set_run_options(one->handle, from->x[1] % 2 == 0 ? &options : NULL, &the_error)))) {
    has_passed(one);
  }
}

static void do_release(const step *from) {
  world_release_tensor(from->x[0] % TENSORS);
}

static void do_destroy(const step *from) {
  if (from->x[0] % 4 == 0) {
    world_destroy_session(from->x[1] % SESSIONS);
  } else {
    world_destroy_binding(from->x[1] % BINDINGS);
  }
}

typedef struct operation {
  void (*act)(const step *from);
  unsigned char share; /* of 256 */
} operation;

static const operation operations[] = {
    {do_run, 36},    {do_runs, 18},   {do_set_input, 32},   {do_set_output, 23}, {do_carry, 20},  {do_result, 26},
    {do_fill, 14},   {do_write, 8},   {do_update_input, 9}, {do_release, 6},     {do_event, 8},   {do_read, 4},
    {do_copy, 7},    {do_fault, 3},   {do_cancel, 1},       {do_clear, 2},       {do_check, 2},   {do_wrong, 1},
    {do_destroy, 1}, {do_options, 1}, {do_lend, 4},         {do_dlpack, 3},      {do_request, 5}, {do_strings, 2},
    {do_visit, 8},   {do_cross, 4},   {do_state, 8}};

uint8_t operation_fill(void) {
  size_t first = 0;
  for (size_t i = 0; operations[i].act != do_fill; i++) first += operations[i].share;
  return (uint8_t)first;
}

void step_do(const step *from) {
  unsigned left = from->operation;
  if (W->is_lost) {
    if (!world_other_works()) return;
    world_change();
    reached(FEATURE_LOST_OTHER);
  }
  for (size_t i = 0; i < sizeof operations / sizeof operations[0]; i++) {
    if (left < operations[i].share) {
      operations[i].act(from);
      if (W->at_host) world_check_all();
      return;
    }
    left -= operations[i].share;
  }
  do_result(from);
}
