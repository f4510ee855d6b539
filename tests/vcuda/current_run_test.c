/* Sessions, bindings and pipelines on one GPU while the other one is current. */
#include "current.h"
#include "../rig/calls.h"

static const float doubles[COUNT] = {2, 4, 6, 8};
static const float eights[COUNT] = {8, 16, 24, 32};

/* ---- sessions ---- */

static void session_create_from_memory(int own) {
  world w = make_world(own);
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  iobind_session *made = NULL;
  iobind_tensor *inputs[] = {w.x, w.y};
  iobind_tensor *z = NULL;
  options.devices = &w.device;
  options.device_count = 1;
  ELSEWHERE(own, test_session_with(runtime, "matmul", &options, &made, &fault));
  make_current(own);
  expect_ok(call_session_run(made, inputs, &z, &fault));
  expect_matrix(z, values);
  iobind_tensor_release(z);
  iobind_session_destroy(made);
  end_world(&w);
}

static void session_create_from_memory__on_a_stream(int own) {
  world w = make_world(own);
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  iobind_session *made = NULL;
  options.devices = &w.device;
  options.device_count = 1;
  options.stream = w.stream;
  ELSEWHERE(own, test_session_with(runtime, "matmul", &options, &made, &fault));
  ELSEWHERE_VOID(own, iobind_session_destroy(made));
  end_world(&w);
}

static void session_wrap(int own) {
  world w = make_world(own);
  iobind_session *wrapped = NULL;
  iobind_tensor *inputs[] = {w.x, w.y};
  iobind_tensor *z = NULL;
  ELSEWHERE(own, iobind_session_wrap(runtime, iobind_session_get_ort(w.session), NULL, NULL, &wrapped, &fault));
  ELSEWHERE(own, call_session_run(wrapped, inputs, &z, &fault));
  expect_matrix(z, values);
  iobind_tensor_release(z);
  iobind_session_destroy(wrapped);
  end_world(&w);
}

static void session_destroy(int own) {
  world w = make_world(own);
  iobind_session *made = make_session(w.device, "matmul", 0, NULL);
  iobind_tensor *inputs[] = {w.x, w.y};
  iobind_tensor *z = NULL;
  expect_ok(call_session_run(made, inputs, &z, &fault));
  iobind_tensor_release(z);
  ELSEWHERE_VOID(own, iobind_session_destroy(made));
  end_world(&w);
}

static void session_create_tensor(int own) {
  world w = make_world(own);
  iobind_tensor *made[2];
  for (int memory = 0; memory < 2; memory++) {
    ELSEWHERE(own, iobind_session_create_tensor(w.session, w.device, (iobind_memory)memory, IOBIND_DTYPE_FLOAT32, square, 2,
                                                &made[memory], &fault));
    ELSEWHERE(own, iobind_tensor_write(made[memory], 0, values, sizeof values, NULL, &fault));
    expect_matrix(made[memory], values);
  }
  for (int memory = 0; memory < 2; memory++) {
    ELSEWHERE_VOID(own, iobind_tensor_release(made[memory]));
  }
  end_world(&w);
}

static void session_run(int own) {
  world w = make_world(own);
  iobind_tensor *in_host = make_matrix(host(), IOBIND_MEMORY_DEFAULT, values);
  iobind_tensor *inputs[][2] = {{w.x, w.y}, {in_host, w.y}};
  for (int i = 0; i < 2; i++) {
    iobind_tensor *z = NULL;
    ELSEWHERE(own, call_session_run(w.session, inputs[i], &z, &fault));
    expect_matrix(z, values);
    iobind_tensor_release(z);
  }
  iobind_tensor_release(in_host);
  end_world(&w);
}

static void session_run__with_a_placement(int own) {
  static const int32_t on_device = IOBIND_PLACE_DEVICE;
  world w = make_world(own);
  iobind_run_request request = IOBIND_RUN_REQUEST_INIT;
  iobind_tensor *inputs[] = {w.x, w.y};
  iobind_tensor *z = NULL;
  request.inputs = inputs;
  request.placements = &on_device;
  ELSEWHERE(own, call_session_request(w.session, &request, &z, &fault));
  expect_matrix(z, values);
  iobind_tensor_release(z);
  end_world(&w);
}

/* ---- bindings: inputs and outputs ---- */

static void binding_create(int own) {
  world w = make_world(own);
  iobind_binding *made = NULL;
  ELSEWHERE(own, iobind_binding_create(w.session, &made, &fault));
  iobind_binding_destroy(made);
  end_world(&w);
}

static void binding_destroy(int own) {
  world w = make_world(own);
  expect_ok(iobind_binding_place_output(w.binding, 0, IOBIND_OUTPUT_FRESH, NULL, IOBIND_MEMORY_DEFAULT, &fault));
  expect_ok(iobind_binding_run(w.binding, NULL, &fault));
  ELSEWHERE_VOID(own, iobind_binding_destroy(w.binding));
  w.binding = NULL;
  end_world(&w);
}

static void binding_set_input(int own) {
  world w = make_world(own);
  iobind_tensor *other = make_matrix(w.device, IOBIND_MEMORY_DEFAULT, others);
  iobind_tensor *in_host = make_matrix(host(), IOBIND_MEMORY_DEFAULT, values);
  const struct {
    iobind_input_mode mode;
    iobind_tensor *tensor;
    const float *content;
  } bound[] = {{IOBIND_INPUT_RESIDENT, other, others},
               {IOBIND_INPUT_SNAPSHOT, in_host, values},
               {IOBIND_INPUT_SNAPSHOT, other, others},
               {IOBIND_INPUT_LIVE, in_host, values}};
  for (size_t i = 0; i < sizeof bound / sizeof bound[0]; i++) {
    ELSEWHERE(own, iobind_binding_set_input(w.binding, 0, bound[i].mode, bound[i].tensor, NULL, &fault));
    make_current(own);
    expect_ok(iobind_binding_run(w.binding, NULL, &fault));
    expect_matrix(w.z, bound[i].content);
  }
  iobind_tensor_release(other);
  iobind_tensor_release(in_host);
  end_world(&w);
}

static void binding_write_input(int own) {
  world w = make_world(own);
  ELSEWHERE(own, iobind_binding_write_input(w.binding, 0, others, sizeof others, NULL, &fault));
  ELSEWHERE(own, iobind_binding_write_input(w.binding, 0, others, sizeof others, w.stream, &fault));
  synchronize(&w);
  expect_matrix(w.x, others);
  end_world(&w);
}

static void binding_set_output(int own) {
  world w = make_world(own);
  ELSEWHERE(own, iobind_binding_set_output(w.binding, 0, w.z, 0, &fault));
  make_current(own);
  expect_ok(iobind_binding_run(w.binding, NULL, &fault));
  expect_matrix(w.z, values);
  end_world(&w);
}

static void binding_place_output(int own) {
  world w = make_world(own);
  for (int mode = IOBIND_OUTPUT_FRESH; mode <= IOBIND_OUTPUT_REUSE; mode++) {
    iobind_tensor *z = NULL;
    ELSEWHERE(own,
              iobind_binding_place_output(w.binding, 0, (iobind_output_mode)mode, w.device, IOBIND_MEMORY_DEFAULT, &fault));
    make_current(own);
    expect_ok(iobind_binding_run(w.binding, NULL, &fault));
    expect_ok(iobind_binding_get_output(w.binding, 0, NULL, &z, &fault));
    expect_matrix(z, values);
  }
  end_world(&w);
}

static void binding_carry(int own) {
  world w = make_world(own);
  ELSEWHERE(own, iobind_binding_carry(w.binding, 0, 0, IOBIND_CARRY_SWAP, &fault));
  end_world(&w);
}

static void binding_set_run_options(int own) {
  world w = make_world(own);
  iobind_run_options options = IOBIND_RUN_OPTIONS_INIT;
  options.tag = "tag";
  ELSEWHERE(own, iobind_binding_set_run_options(w.binding, &options, &fault));
  end_world(&w);
}

static void binding_check(int own) {
  world w = make_world(own);
  ELSEWHERE(own, iobind_binding_check(w.binding, &fault));
  end_world(&w);
}

static void binding_clear(int own) {
  world w = make_world(own);
  expect_ok(iobind_binding_run(w.binding, NULL, &fault));
  ELSEWHERE(own, iobind_binding_clear(w.binding, &fault));
  end_world(&w);
}

/* ---- bindings: runs ---- */

static void binding_run(int own) {
  world w = make_world(own);
  for (int run = 0; run < 3; run++) {
    ELSEWHERE(own, iobind_binding_run(w.binding, NULL, &fault));
    expect_matrix(w.z, values);
  }
  end_world(&w);
}

static void binding_run__on_a_stream(int own) {
  world w = make_world(own);
  for (int run = 0; run < 3; run++) {
    ELSEWHERE(own, call_binding_run(w.binding, w.stream, w.event, &fault));
  }
  expect_ok(iobind_event_wait(w.event, IOBIND_NO_TIMEOUT, &fault));
  expect_matrix(w.z, values);
  end_world(&w);
}

/* Two sessions run alternately in one thread, without other CUDA calls in between. */
static void binding_run__by_turns(int own) {
  world worlds[2] = {make_world(1 - own), make_world(own)};
  for (int run = 0; run < 6; run++) {
    world *w = &worlds[run % 2];
    expect_ok(iobind_binding_run(w->binding, run < 3 ? NULL : w->stream, &fault));
  }
  for (int i = 0; i < 2; i++) {
    make_current(worlds[i].own);
    synchronize(&worlds[i]);
    expect_matrix(worlds[i].z, values);
    end_world(&worlds[i]);
  }
}

static void binding_run__with_host_memory(int own) {
  world w = make_world(own);
  iobind_tensor *in = make_matrix(host(), IOBIND_MEMORY_DEFAULT, others);
  iobind_tensor *out = make_matrix(host(), IOBIND_MEMORY_DEFAULT, unit);
  expect_ok(iobind_binding_set_input(w.binding, 0, IOBIND_INPUT_LIVE, in, NULL, &fault));
  bind_fixed(w.binding, 0, out);
  ELSEWHERE(own, iobind_binding_run(w.binding, NULL, &fault));
  expect_matrix(out, others);
  ELSEWHERE(own, iobind_binding_run(w.binding, w.stream, &fault));
  synchronize(&w);
  expect_matrix(out, others);
  iobind_tensor_release(in);
  iobind_tensor_release(out);
  end_world(&w);
}

static void binding_run__with_states(int own) {
  for (int mode = IOBIND_CARRY_MOVE; mode <= IOBIND_CARRY_IN_PLACE; mode++) {
    world w = make_world(own);
    iobind_session *session = make_session(w.device, "scale dims=2,2", 0, NULL);
    iobind_binding *binding = NULL;
    iobind_tensor *state = NULL;
    expect_ok(iobind_binding_create(session, &binding, &fault));
    bind_input(binding, 0, w.x);
    expect_ok(iobind_binding_carry(binding, 0, 0, (iobind_carry_mode)mode, &fault));
    for (int run = 0; run < 3; run++) {
      ELSEWHERE(own, iobind_binding_run(binding, run == 0 ? NULL : w.stream, &fault));
    }
    ELSEWHERE(own, iobind_binding_get_output(binding, 0, NULL, &state, &fault));
    expect_matrix(state, eights);
    iobind_binding_destroy(binding);
    iobind_session_destroy(session);
    end_world(&w);
  }
}

/* The first run captures a graph, later ones replay it. */
static void binding_run__with_graphs(int own) {
  world w = make_world(own);
  iobind_session *session = make_session(w.device, "scale dims=2,2", 1, NULL);
  iobind_binding *binding = NULL;
  expect_ok(iobind_binding_create(session, &binding, &fault));
  bind_input(binding, 0, w.x);
  bind_fixed(binding, 0, w.z);
  for (int run = 0; run < 4; run++) {
    ELSEWHERE(own, iobind_binding_run(binding, run < 2 ? NULL : w.stream, &fault));
    synchronize(&w);
    expect_matrix(w.z, doubles);
  }
  iobind_binding_destroy(binding);
  iobind_session_destroy(session);
  end_world(&w);
}

static void binding_reset_graphs(int own) {
  world w = make_world(own);
  iobind_session *session = make_session(w.device, "scale dims=2,2", 1, NULL);
  iobind_binding *binding = NULL;
  expect_ok(iobind_binding_create(session, &binding, &fault));
  bind_input(binding, 0, w.x);
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  ELSEWHERE(own, iobind_binding_reset_graphs(binding, &fault));
  ELSEWHERE_VOID(own, iobind_binding_destroy(binding));
  iobind_session_destroy(session);
  end_world(&w);
}

static void binding_announce_run(int own) {
  world w = make_world(own);
  ELSEWHERE(own, iobind_binding_announce_run(w.binding, 1, &fault));
  ELSEWHERE(own, iobind_binding_announce_run(w.binding, 0, &fault));
  end_world(&w);
}

static void binding_cancel(int own) {
  world w = make_world(own);
  expect_ok(iobind_binding_run(w.binding, w.stream, &fault));
  ELSEWHERE(own, iobind_binding_cancel(w.binding, &fault));
  (void)!iobind_stream_synchronize(w.stream, NULL);
  end_world(&w);
}

/* ---- bindings: results ---- */

static void leave_on_device(world *w) {
  expect_ok(iobind_binding_place_output(w->binding, 0, IOBIND_OUTPUT_FRESH, NULL, IOBIND_MEMORY_DEFAULT, &fault));
}

static void binding_get_output(int own) {
  world w = make_world(own);
  iobind_tensor *z = NULL;
  leave_on_device(&w);
  for (int run = 0; run < 2; run++) {
    expect_ok(iobind_binding_run(w.binding, run == 0 ? NULL : w.stream, &fault));
    ELSEWHERE(own, iobind_binding_get_output(w.binding, 0, NULL, &z, &fault));
    expect_matrix(z, values);
  }
  end_world(&w);
}

static void binding_get_output__on_a_stream(int own) {
  world w = make_world(own);
  iobind_stream *later = NULL;
  iobind_tensor *z = NULL;
  expect_ok(iobind_stream_create(w.device, NULL, &later, &fault));
  leave_on_device(&w);
  expect_ok(iobind_binding_run(w.binding, w.stream, &fault));
  ELSEWHERE(own, iobind_binding_get_output(w.binding, 0, later, &z, &fault));
  const iobind_tensor *from = z;
  expect_ok(iobind_tensor_copy(&from, &w.z, 1, later, &fault));
  expect_ok(iobind_stream_synchronize(later, &fault));
  expect_matrix(w.z, values);
  iobind_stream_destroy(later);
  end_world(&w);
}

static void binding_take_output(int own) {
  world w = make_world(own);
  iobind_tensor *z = NULL;
  leave_on_device(&w);
  expect_ok(iobind_binding_run(w.binding, w.stream, &fault));
  ELSEWHERE(own, iobind_binding_take_output(w.binding, 0, &z, &fault));
  expect_matrix(z, values);
  ELSEWHERE_VOID(own, iobind_tensor_release(z));
  end_world(&w);
}

/* The audit needs the sizes of the last run's outputs, and fetches these outputs. */
static void audit_create(int own) {
  world w = make_world(own);
  iobind_audit *audit = NULL;
  leave_on_device(&w);
  expect_ok(iobind_binding_run(w.binding, NULL, &fault));
  ELSEWHERE(own, iobind_audit_create(w.binding, &audit, &fault));
  iobind_audit_destroy(audit);
  end_world(&w);
}

/* ---- pipelines ---- */

enum { SLOTS = 2, ITEMS = 3 * SLOTS };

typedef struct line {
  world w;
  iobind_session *session; /* y = 2 x */
  iobind_pipeline *pipeline;
  iobind_tensor *item;
} line;

static line make_line(int own, uint32_t flags) {
  line made = {.w = make_world(own)};
  iobind_pipeline_options options = IOBIND_PIPELINE_OPTIONS_INIT;
  options.slots = SLOTS;
  options.flags = flags;
  made.session = make_session(made.w.device, "scale dims=2,2", 0, NULL);
  made.item = make_matrix(host(), IOBIND_MEMORY_DEFAULT, values);
  expect_ok(call_pipeline_create(made.session, &options, &made.pipeline, &fault));
  make_current(own);
  return made;
}

static void end_line(line *self) {
  iobind_pipeline_destroy(self->pipeline);
  iobind_session_destroy(self->session);
  iobind_tensor_release(self->item);
  end_world(&self->w);
}

static void pipeline_create(int own) {
  line self = make_line(own, 0);
  iobind_pipeline *made = NULL;
  iobind_tensor *y = NULL;
  ELSEWHERE(own, call_pipeline_create(self.session, NULL, &made, &fault));
  expect_ok(call_pipeline_submit(made, &self.item, 1, &fault));
  expect_ok(iobind_pipeline_next(made, IOBIND_NO_TIMEOUT, &y, 1, NULL, &fault));
  expect_matrix(y, doubles);
  iobind_pipeline_destroy(made);
  end_line(&self);
}

static void pipeline_destroy(int own) {
  line self = make_line(own, 0);
  expect_ok(call_pipeline_submit(self.pipeline, &self.item, 1, &fault));
  ELSEWHERE_VOID(own, iobind_pipeline_destroy(self.pipeline));
  self.pipeline = NULL;
  end_line(&self);
}

/* Each slot is used several times. */
static void pass_items(int own, uint32_t flags) {
  line self = make_line(own, flags);
  for (int item = 0; item < ITEMS; item++) {
    iobind_tensor *y = NULL;
    ELSEWHERE(own, call_pipeline_submit(self.pipeline, &self.item, 1, &fault));
    if (item >= SLOTS - 1) {
      ELSEWHERE(own, iobind_pipeline_next(self.pipeline, IOBIND_NO_TIMEOUT, &y, 1, NULL, &fault));
      expect_matrix(y, doubles);
    }
  }
  end_line(&self);
}

static void pipeline_submit(int own) {
  line self = make_line(own, 0);
  iobind_tensor *y = NULL;
  for (int item = 0; item < ITEMS; item++) {
    ELSEWHERE(own, call_pipeline_submit(self.pipeline, &self.item, 1, &fault));
    expect_ok(iobind_pipeline_next(self.pipeline, IOBIND_NO_TIMEOUT, &y, 1, NULL, &fault));
    make_current(own);
    expect_matrix(y, doubles);
  }
  end_line(&self);
}

static void pipeline_submit__to_used_slots(int own) {
  pass_items(own, 0);
}

/* iobind has a thread for each stream. */
static void pipeline_submit__with_times(int own) {
  pass_items(own, IOBIND_PIPELINE_TIMES);
}

static void pipeline_next(int own) {
  line self = make_line(own, 0);
  iobind_tensor *y = NULL;
  for (int item = 0; item < ITEMS; item++) {
    expect_ok(call_pipeline_submit(self.pipeline, &self.item, 1, &fault));
    make_current(own);
    ELSEWHERE(own, iobind_pipeline_next(self.pipeline, IOBIND_NO_TIMEOUT, &y, 1, NULL, &fault));
    expect_matrix(y, doubles);
  }
  end_line(&self);
}

static void pipeline_next__with_a_timeout(int own) {
  line self = make_line(own, 0);
  iobind_tensor *y = NULL;
  for (int item = 0; item < ITEMS; item++) {
    expect_ok(call_pipeline_submit(self.pipeline, &self.item, 1, &fault));
    make_current(own);
    ELSEWHERE(own, iobind_pipeline_next(self.pipeline, UINT64_MAX / 4, &y, 1, NULL, &fault));
    expect_matrix(y, doubles);
  }
  end_line(&self);
}

static void pipeline_submit__from_the_device(int own) {
  line self = make_line(own, 0);
  iobind_pipeline_request request = IOBIND_PIPELINE_REQUEST_INIT;
  iobind_tensor *y = NULL;
  request.inputs = &self.w.x;
  request.input_count = 1;
  request.events = &self.w.event;
  request.event_count = 1;
  for (int item = 0; item < ITEMS; item++) {
    submit(&self.w);
    expect_ok(iobind_event_record(self.w.event, self.w.stream, &fault));
    make_current(own);
    ELSEWHERE(own, iobind_pipeline_submit(self.pipeline, &request, &fault));
    expect_ok(iobind_pipeline_next(self.pipeline, IOBIND_NO_TIMEOUT, &y, 1, NULL, &fault));
    make_current(own);
    expect_matrix(y, doubles);
  }
  end_line(&self);
}

static const struct CMUnitTest tests[] = {
    ROW(session_create_from_memory),
    ROW(session_create_from_memory__on_a_stream),
    ROW(session_wrap),
    ROW(session_destroy),
    ROW(session_create_tensor),
    ROW(session_run),
    ROW(session_run__with_a_placement),
    ROW(binding_create),
    ROW(binding_destroy),
    ROW(binding_set_input),
    ROW(binding_write_input),
    ROW(binding_set_output),
    ROW(binding_place_output),
    ROW(binding_carry),
    ROW(binding_set_run_options),
    ROW(binding_check),
    ROW(binding_clear),
    ROW(binding_run),
    ROW(binding_run__on_a_stream),
    ROW(binding_run__by_turns),
    ROW(binding_run__with_host_memory),
    ROW(binding_run__with_states),
    ROW(binding_run__with_graphs),
    ROW(binding_reset_graphs),
    ROW(binding_announce_run),
    ROW(binding_cancel),
    ROW(binding_get_output),
    ROW(binding_get_output__on_a_stream),
    ROW(binding_take_output),
    ROW(audit_create),
    ROW(pipeline_create),
    ROW(pipeline_destroy),
    ROW(pipeline_submit),
    ROW(pipeline_next),
    ROW(pipeline_submit__to_used_slots),
    ROW(pipeline_submit__with_times),
    ROW(pipeline_next__with_a_timeout),
    ROW(pipeline_submit__from_the_device),
};

FIXTURE_MAIN(tests, NULL, NULL);
