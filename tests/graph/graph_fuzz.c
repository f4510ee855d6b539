/* Makes the same random calls on two bindings, of which only one has a session that captures graphs. Both must return the same
 * statuses and the same values. Two errors are expected: "too many graphs" and "another thread's graphs". After them the graphs are
 * released, and the run is repeated.
 *
 * usage: graph_fuzz DEVICE SEQUENCES [FIRST]   FIRST is the number of the first sequence: it repeats one. At the end it prints how often
 * each feature was reached; from 200 sequences on, a feature that was never reached is a failure. */
#define _POSIX_C_SOURCE 200809L /* barriers */
#include "graph_reach.h"
#include "graph_rig.h"
#include "../rig/calls.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  STEPS = 40,
  POOL = 6,
  VIEW = 3,
  VIEWED = 4,
  TARGETS = 4,
  MOST = 24,
  INPUTS = 2,
  OUTPUTS = 3,
  HELD = 16,
  CAPTURING = 0,
  PLAIN = 1,
  KINDS
};

/* Each is a state's model: its first output can be its first input. */
typedef struct model {
  const char *spec;
  size_t inputs, outputs;
} model;
static const model models[] = {{"pair", 2, 2}, {"scale", 1, 1}, {"add", 2, 1}, {"multi", 1, 3}};

typedef struct world {
  uint64_t random;
  const model *model;
  size_t limit;
  iobind_session *sessions[KINDS];
  iobind_stream *stream;
  iobind_binding *bindings[KINDS];
  iobind_tensor *pool[POOL][KINDS]; /* inputs */
  size_t sizes[POOL];
  iobind_tensor *targets[TARGETS][KINDS];
  size_t bound[INPUTS]; /* which of the pool */
  bool swaps;           /* the first output is carried by SWAP */
  iobind_tensor *held[HELD][KINDS];
  size_t held_count;
  float saved[MOST]; /* a state */
  size_t saved_bytes;
  char trace[STEPS * 24];
} world;

static uint64_t next(world *self, uint64_t below) {
  self->random = self->random * 6364136223846793005U + 1442695040888963407U;
  return (self->random >> 33) % below;
}

static void note(world *self, const char *what, uint64_t a, uint64_t b) {
  size_t length = strlen(self->trace);
  snprintf(self->trace + length, sizeof self->trace - length, "%s%llu,%llu ", what, (unsigned long long)a,
           (unsigned long long)b);
}

static void same(const world *self, iobind_status capturing, iobind_status plain, const char *what) {
  if (capturing != plain) {
    fail_msg("%s: %s with graphs, %s without: %s\n%s", what, iobind_status_get_name((int32_t)capturing),
             iobind_status_get_name((int32_t)plain), fault.message, self->trace);
  }
}

static void same_values(const world *self, iobind_tensor *const tensors[KINDS], const char *what) {
  float values[KINDS][MOST];
  iobind_tensor_info infos[KINDS];
  for (int k = 0; k < KINDS; k++) {
    infos[k] = (iobind_tensor_info)IOBIND_TENSOR_INFO_INIT;
    expect_ok(iobind_tensor_get_info(tensors[k], &infos[k], &fault));
    assert_true(infos[k].bytes <= sizeof values[k]);
    expect_ok(iobind_tensor_read(tensors[k], 0, values[k], infos[k].bytes, NULL, &fault));
  }
  if (infos[0].bytes != infos[1].bytes || memcmp(values[0], values[1], infos[0].bytes) != 0) {
    fail_msg("%s: %zu bytes from %g with graphs, %zu from %g without\n%s", what, infos[0].bytes, (double)values[0][0],
             infos[1].bytes, (double)values[1][0], self->trace);
  }
}

static void write_pool(world *self, size_t index) {
  float values[MOST];
  for (size_t i = 0; i < self->sizes[index]; i++) {
    values[i] = (float)next(self, 100) / 8;
  }
  for (int k = 0; k < KINDS; k++) {
    expect_ok(iobind_tensor_write(self->pool[index][k], 0, values, self->sizes[index] * sizeof(float), NULL, &fault));
  }
}

static void bind(world *self, size_t input, iobind_input_mode mode, size_t index) {
  iobind_status came[KINDS];
  for (int k = 0; k < KINDS; k++) {
    fixture_arm();
    came[k] = iobind_binding_set_input(self->bindings[k], input, mode, self->pool[index][k], NULL, &fault);
  }
  same(self, came[0], came[1], "set_input");
  graph_reached_if(GRAPH_SNAPSHOT, mode == IOBIND_INPUT_SNAPSHOT && came[0] == IOBIND_OK);
  graph_reached_if(GRAPH_LIVE, mode == IOBIND_INPUT_LIVE && came[0] == IOBIND_OK);
  self->bound[input] = came[0] == IOBIND_OK ? index : self->bound[input];
}

static void update_with(world *self, size_t input, const float *values, size_t bytes) {
  iobind_status came[KINDS];
  for (int k = 0; k < KINDS; k++) {
    fixture_arm();
    came[k] = iobind_binding_write_input(self->bindings[k], input, values, bytes, NULL, &fault);
  }
  same(self, came[0], came[1], "update_input");
}

static void update(world *self, size_t input) {
  float values[MOST];
  size_t count = self->sizes[self->bound[input]];
  for (size_t i = 0; i < count; i++) {
    values[i] = (float)next(self, 100) / 4;
  }
  update_with(self, input, values, count * sizeof(float));
}

/* A state is what the first output was: read it, for a later step to continue from. */
static void save(world *self) {
  iobind_tensor *outputs[KINDS] = {NULL};
  iobind_status came[KINDS];
  iobind_tensor_info info = IOBIND_TENSOR_INFO_INIT;
  for (int k = 0; k < KINDS; k++) {
    fixture_arm();
    came[k] = iobind_binding_get_output(self->bindings[k], 0, NULL, &outputs[k], &fault);
  }
  same(self, came[0], came[1], "get_output");
  if (came[0] == IOBIND_OK) {
    same_values(self, outputs, "a state");
    expect_ok(iobind_tensor_get_info(outputs[0], &info, &fault));
    self->saved_bytes = info.bytes;
    expect_ok(iobind_tensor_read(outputs[0], 0, self->saved, info.bytes, NULL, &fault));
  }
}

/* `target` is one of the pool where the output is in place. */
static void bind_output(world *self, size_t output, int mode, size_t target) {
  iobind_status came[KINDS];
  for (int k = 0; k < KINDS; k++) {
    iobind_tensor *memory = mode == OUTPUT_FIXED      ? self->targets[target][k]
                            : mode == OUTPUT_IN_PLACE ? self->pool[target][k]
                                                      : NULL;
    fixture_arm();
    came[k] = call_binding_set_output(self->bindings[k], output, mode, NULL, IOBIND_MEMORY_DEFAULT, memory, &fault);
  }
  same(self, came[0], came[1], "set_output");
  graph_reached_if(GRAPH_FIXED, mode == OUTPUT_FIXED && came[0] == IOBIND_OK);
  graph_reached_if(GRAPH_IN_PLACE, mode == OUTPUT_IN_PLACE && came[0] == IOBIND_OK);
  graph_reached_if(GRAPH_NONE, mode == IOBIND_OUTPUT_NONE && came[0] == IOBIND_OK);
  self->swaps = self->swaps && (output != 0 || came[0] != IOBIND_OK);
}

static void carry(world *self, iobind_carry_mode mode) {
  iobind_status came[KINDS];
  for (int k = 0; k < KINDS; k++) {
    fixture_arm();
    came[k] = iobind_binding_carry(self->bindings[k], 0, 0, mode, &fault);
    if (k == CAPTURING && came[k] == IOBIND_ERROR_NOT_SUPPORTED) {
      assert_true(self->limit < 2 && mode == IOBIND_CARRY_SWAP);
      return;
    }
  }
  same(self, came[0], came[1], "carry");
  graph_reached_if(mode == IOBIND_CARRY_SWAP ? GRAPH_SWAP : GRAPH_CARRY_IN_PLACE, came[0] == IOBIND_OK);
  self->swaps = came[0] == IOBIND_OK ? mode == IOBIND_CARRY_SWAP : self->swaps;
}

typedef enum way { HERE, IN_THREAD, ON_STREAM } way;

typedef struct visit {
  iobind_binding *binding;
  iobind_stream *stream;
  iobind_status status;
  iobind_error error;
} visit;

static void *run_there(void *context) {
  visit *self = context;
  self->error = (iobind_error)IOBIND_ERROR_INIT;
  self->status = iobind_binding_run(self->binding, self->stream, &self->error);
  if (self->status == IOBIND_OK && self->stream != NULL) {
    self->status = iobind_stream_synchronize(self->stream, &self->error);
  }
  return NULL;
}

static size_t count_graphs(const iobind_session *session) {
  iobind_session_info info = IOBIND_SESSION_INFO_INIT;
  expect_ok(iobind_session_get_info(session, &info, &fault));
  return info.graph_count;
}

/* `before`: the graphs that there were before a run that went well. */
static void note_run(const world *self, size_t before, way how) {
  size_t after = count_graphs(self->sessions[CAPTURING]);
  graph_reached_if(GRAPH_CAPTURED, after > before);
  graph_reached_if(GRAPH_REPLAYED, after == before && after > 0);
  graph_reached_if(GRAPH_IN_THREAD, how == IN_THREAD);
  graph_reached_if(GRAPH_ON_STREAM, how == ON_STREAM);
}

static iobind_status run_one(const world *self, int kind, way how) {
  size_t before = count_graphs(self->sessions[CAPTURING]);
  visit here = {.binding = self->bindings[kind], .stream = how == ON_STREAM ? self->stream : NULL};
  fixture_arm();
  if (how == IN_THREAD) {
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, run_there, &here), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
  } else {
    (void)run_there(&here);
  }
  if (kind == CAPTURING && here.status == IOBIND_OK) {
    note_run(self, before, how);
  }
  fault = here.error;
  return here.status;
}

static void same_outputs(const world *self) {
  for (size_t o = 0; o < self->model->outputs; o++) {
    iobind_status came[KINDS];
    iobind_tensor *outputs[KINDS] = {NULL};
    for (int k = 0; k < KINDS; k++) {
      fixture_arm();
      came[k] = iobind_binding_get_output(self->bindings[k], o, NULL, &outputs[k], &fault);
    }
    same(self, came[0], came[1], "get_output");
    if (came[0] == IOBIND_OK) {
      same_values(self, outputs, "an output");
    }
  }
}

static bool run_both_unseen(world *self, way how) {
  iobind_status came[KINDS];
  came[CAPTURING] = run_one(self, CAPTURING, how);
  if (came[CAPTURING] == IOBIND_ERROR_INVALID_STATE && strstr(fault.message, "iobind_binding_reset_graphs") != NULL) {
    graph_reached(strstr(fault.message, "another thread") != NULL ? GRAPH_FOREIGN : GRAPH_LIMIT);
    expect_ok(iobind_binding_reset_graphs(self->bindings[CAPTURING], &fault));
    came[CAPTURING] = run_one(self, CAPTURING, how);
  }
  iobind_error why = fault;
  came[PLAIN] = run_one(self, PLAIN, how);
  fault = came[CAPTURING] != IOBIND_OK ? why : fault;
  same(self, came[0], came[1], "run");
  return came[0] == IOBIND_OK;
}

static void run_both(world *self, way how) {
  if (run_both_unseen(self, how)) {
    same_outputs(self);
  }
}

/* Runs of which no output is fetched: a replay that follows a replay does not look at the binding. The last one may be left like that. */
static void run_unseen(world *self, uint64_t a) {
  bool well = true;
  for (uint64_t run = 0; well && run < 2 + a % 3; run++) {
    write_pool(self, (a + run) % POOL);
    well = run_both_unseen(self, HERE);
    graph_reached_if(GRAPH_REPEATED, well && run > 0);
  }
  if (well && a % 2 == 0) {
    same_outputs(self);
  }
}

static void set_options(world *self, uint64_t a) {
  iobind_run_options options = IOBIND_RUN_OPTIONS_INIT;
  options.tag = "another tag";
  iobind_status came[KINDS];
  for (int k = 0; k < KINDS; k++) {
    fixture_arm();
    came[k] = iobind_binding_set_run_options(self->bindings[k], a % 2 == 0 ? &options : NULL, &fault);
  }
  same(self, came[0], came[1], "set_run_options");
}

static void hold(world *self, iobind_tensor *const taken[KINDS]) {
  if (taken[0] != NULL && self->held_count < HELD) {
    memcpy(self->held[self->held_count++], taken, sizeof self->held[0]);
  } else {
    iobind_tensor_release(taken[0]);
    iobind_tensor_release(taken[1]);
  }
}

static void take(world *self, size_t output) {
  iobind_status came[KINDS];
  iobind_tensor *taken[KINDS] = {NULL};
  for (int k = 0; k < KINDS; k++) {
    fixture_arm();
    came[k] = iobind_binding_take_output(self->bindings[k], output, &taken[k], &fault);
  }
  same(self, came[0], came[1], "take_output");
  graph_reached_if(GRAPH_TAKEN, came[0] == IOBIND_OK);
  graph_reached_if(GRAPH_TAKEN_STATE, came[0] == IOBIND_OK && self->swaps && output == 0);
  hold(self, taken);
}

/* A plain run of the session that captures, whose memory ORT takes from wherever it likes. Some of its outputs are kept. */
static void run_unbound(world *self) {
  int64_t dim = (int64_t)(1 + next(self, MOST));
  iobind_tensor *inputs[INPUTS];
  iobind_tensor *outputs[KINDS][OUTPUTS];
  for (size_t i = 0; i < self->model->inputs; i++) {
    expect_ok(iobind_tensor_create(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, &dim, 1, &inputs[i], &fault));
    fill(inputs[i], (float)next(self, 50));
  }
  for (int k = 0; k < KINDS; k++) {
    expect_ok(call_session_run(self->sessions[k], inputs, outputs[k], &fault));
  }
  for (size_t o = 0; o < self->model->outputs; o++) {
    iobind_tensor *pair[KINDS] = {outputs[0][o], outputs[1][o]};
    same_values(self, pair, "a plain run");
    hold(self, pair);
  }
  for (size_t i = 0; i < self->model->inputs; i++) {
    iobind_tensor_release(inputs[i]);
  }
}

/* The same with outputs that stay on the device and are kept. */
static void run_request(world *self) {
  static const int32_t stays[OUTPUTS] = {IOBIND_PLACE_DEVICE, IOBIND_PLACE_DEVICE, IOBIND_PLACE_DEVICE};
  const size_t count = 1 + (size_t)next(self, MOST);
  const float value = (float)next(self, 50);
  iobind_tensor *inputs[INPUTS];
  iobind_tensor *outputs[KINDS][OUTPUTS];
  for (size_t i = 0; i < self->model->inputs; i++) {
    inputs[i] = make_filled(count, value + (float)i);
  }
  for (int k = 0; k < KINDS; k++) {
    iobind_run_request request = IOBIND_RUN_REQUEST_INIT;
    request.inputs = inputs;
    request.placements = stays;
    expect_ok(call_session_request(self->sessions[k], &request, outputs[k], &fault));
  }
  for (size_t o = 0; o < self->model->outputs; o++) {
    iobind_tensor *pair[KINDS] = {outputs[0][o], outputs[1][o]};
    same_values(self, pair, "a request");
    hold(self, pair);
  }
  for (size_t i = 0; i < self->model->inputs; i++) {
    iobind_tensor_release(inputs[i]);
  }
}

/* Queue a run, by which graphs may have to be given up. */
static iobind_status queue_one(const world *self, int kind) {
  iobind_binding *binding = self->bindings[kind];
  fixture_arm();
  iobind_status status = iobind_binding_run(binding, self->stream, &fault);
  if (kind == CAPTURING && status == IOBIND_ERROR_INVALID_STATE &&
      strstr(fault.message, "iobind_binding_reset_graphs") != NULL) {
    expect_ok(iobind_stream_synchronize(self->stream, &fault));
    expect_ok(iobind_binding_reset_graphs(binding, &fault));
    fixture_arm();
    status = iobind_binding_run(binding, self->stream, &fault);
  }
  return status;
}

/* Several runs on a stream, with new data between them, and nothing waited for. Where a run of a graph waits for its stream, the binding may
 * be changed sooner than that of the other session. */
static void queue_runs(world *self, uint64_t a) {
  enum { QUEUED = 4 };
  float values[QUEUED][MOST];
  if (!is_device("cuda")) {
    run_both(self, ON_STREAM);
    return;
  }
  for (size_t run = 0; run < 1 + a % QUEUED; run++) {
    size_t input = next(self, self->model->inputs);
    size_t count = self->sizes[self->bound[input]];
    iobind_status came[KINDS];
    for (size_t i = 0; i < count; i++) {
      values[run][i] = (float)next(self, 100) / 4;
    }
    const bool updates = next(self, 3) > 0;
    for (int k = 0; updates && k < KINDS; k++) {
      fixture_arm();
      came[k] = iobind_binding_write_input(self->bindings[k], input, values[run], count * sizeof(float), self->stream, &fault);
    }
    same(self, updates ? came[0] : IOBIND_OK, updates ? came[1] : IOBIND_OK, "update_input on a stream");
    came[CAPTURING] = queue_one(self, CAPTURING);
    iobind_error why = fault;
    came[PLAIN] = queue_one(self, PLAIN);
    fault = came[CAPTURING] != IOBIND_OK ? why : fault;
    same(self, came[0], came[1], "a queued run");
    graph_reached_if(GRAPH_QUEUED, run > 0 && updates);
  }
  switch (next(self, 4)) { /* a plain run, whose memory the replays that are queued may write */
    case 0: run_unbound(self); break;
    case 1: run_request(self); break;
    default: break;
  }
  if (a % 2 == 0) { /* otherwise the outputs are what is waited for */
    expect_ok(iobind_stream_synchronize(self->stream, &fault));
  }
  same_outputs(self);
  expect_ok(iobind_stream_synchronize(self->stream, &fault));
}

/* A run of another binding of the session that captures: it never has a graph of this one's. The memory it leaves may be anyone's. Its last
 * run may be in flight when it is destroyed. */
static void run_beside(world *self, bool on_stream) {
  float value = (float)next(self, 50);
  iobind_tensor *tensors[INPUTS][KINDS];
  iobind_tensor *outputs[KINDS];
  for (int k = 0; k < KINDS; k++) {
    iobind_binding *binding = NULL;
    expect_ok(iobind_binding_create(self->sessions[k], &binding, &fault));
    for (size_t i = 0; i < self->model->inputs; i++) {
      tensors[i][k] = make_filled(MOST, value + (float)i);
      expect_ok(iobind_binding_set_input(binding, i, IOBIND_INPUT_RESIDENT, tensors[i][k], NULL, &fault));
    }
    for (int run = 0; run < 2; run++) {
      expect_ok(iobind_binding_run(binding, on_stream ? self->stream : NULL, &fault));
    }
    expect_ok(iobind_binding_take_output(binding, 0, &outputs[k], &fault));
    if (on_stream) {
      expect_ok(iobind_binding_run(binding, self->stream, &fault));
    }
    iobind_binding_destroy(binding);
    for (size_t i = 0; i < self->model->inputs; i++) {
      iobind_tensor_release(tensors[i][k]);
    }
  }
  same_values(self, outputs, "another binding's output");
  hold(self, outputs);
}

/* Another binding of a session, by a thread of its own where the session captures. */
enum { ROUNDS = 3 };
typedef struct guest {
  iobind_binding *binding;
  iobind_tensor *inputs[INPUTS];
  size_t input_count;
  pthread_barrier_t *barrier; /* before each round; NULL: nothing runs beside it */
  size_t taken_in;            /* the round whose output it takes, so that the next one captures again */
  iobind_tensor *taken;
  unsigned char values[ROUNDS][MOST * sizeof(float)];
  iobind_error error;
} guest;

static iobind_status visit_once(guest *self, size_t round) {
  float values[MOST];
  iobind_tensor *output = NULL;
  for (size_t i = 0; i < self->input_count; i++) {
    for (size_t e = 0; e < MOST; e++) {
      values[e] = (float)(round + 2 * i + e);
    }
    iobind_status status = iobind_tensor_write(self->inputs[i], 0, values, sizeof values, NULL, &self->error);
    if (status != IOBIND_OK) {
      return status;
    }
  }
  iobind_status status = iobind_binding_run(self->binding, NULL, &self->error);
  if (status == IOBIND_OK) {
    status = iobind_binding_get_output(self->binding, 0, NULL, &output, &self->error);
  }
  if (status == IOBIND_OK) {
    status = iobind_tensor_read(output, 0, self->values[round], sizeof values, NULL, &self->error);
  }
  return status != IOBIND_OK || round != self->taken_in
             ? status
             : iobind_binding_take_output(self->binding, 0, &self->taken, &self->error);
}

static void *visit_each_round(void *context) {
  guest *self = context;
  iobind_status status = IOBIND_OK;
  for (size_t round = 0; round < ROUNDS; round++) {
    if (self->barrier != NULL) {
      (void)pthread_barrier_wait(self->barrier);
    }
    status = status == IOBIND_OK ? visit_once(self, round) : status;
  }
  return NULL;
}

static void invite(const world *self, int kind, uint64_t a, guest *out) {
  *out = (guest){.input_count = self->model->inputs, .taken_in = a % ROUNDS, .error = IOBIND_ERROR_INIT};
  expect_ok(iobind_binding_create(self->sessions[kind], &out->binding, &fault));
  for (size_t i = 0; i < out->input_count; i++) {
    out->inputs[i] = make_filled(MOST, 0);
    expect_ok(iobind_binding_set_input(out->binding, i, IOBIND_INPUT_RESIDENT, out->inputs[i], NULL, &fault));
  }
}

static void see_off(guest *self) {
  iobind_binding_destroy(self->binding);
  for (size_t i = 0; i < self->input_count; i++) {
    iobind_tensor_release(self->inputs[i]);
  }
}

/* Both bindings of the session that captures run at the same time: either may capture while the other one replays. */
static void run_together(world *self, uint64_t a) {
  static guest guests[KINDS]; /* a test that fails leaves its thread behind */
  static pthread_barrier_t barrier;
  pthread_t thread;
  for (int k = 0; k < KINDS; k++) {
    invite(self, k, a, &guests[k]);
  }
  guests[CAPTURING].barrier = &barrier;
  assert_int_equal(pthread_barrier_init(&barrier, NULL, 2), 0);
  assert_int_equal(pthread_create(&thread, NULL, visit_each_round, &guests[CAPTURING]), 0);
  for (size_t round = 0; round < ROUNDS; round++) {
    (void)pthread_barrier_wait(&barrier);
    run_both(self, a % 4 == 0 ? ON_STREAM : HERE);
  }
  assert_int_equal(pthread_join(thread, NULL), 0);
  assert_int_equal(pthread_barrier_destroy(&barrier), 0);
  (void)visit_each_round(&guests[PLAIN]);
  iobind_tensor *taken[KINDS] = {guests[CAPTURING].taken, guests[PLAIN].taken};
  if (taken[CAPTURING] == NULL || taken[PLAIN] == NULL) {
    fail_msg("another thread's binding: %s%s\n%s", guests[CAPTURING].error.message, guests[PLAIN].error.message, self->trace);
  }
  if (memcmp(guests[CAPTURING].values, guests[PLAIN].values, sizeof guests[PLAIN].values) != 0) {
    fail_msg("another thread's binding: other values with graphs than without\n%s", self->trace);
  }
  hold(self, taken);
  see_off(&guests[CAPTURING]);
  see_off(&guests[PLAIN]);
}

static void expect_refused(const world *self, iobind_status status, const char *what) {
  bool is_state = status == IOBIND_ERROR_INVALID_ARGUMENT && strstr(fault.message, "is a carried state") != NULL;
  if (status != IOBIND_ERROR_NOT_SUPPORTED && !is_state) {
    fail_msg("%s: %s: %s\n%s", what, iobind_status_get_name((int32_t)status), fault.message, self->trace);
  }
}

/* What would have another address in each run is refused, and nothing changes. */
static void try_moving(world *self, uint64_t which, size_t input, size_t output) {
  iobind_binding *binding = self->bindings[CAPTURING];
  const int64_t dim = (int64_t)self->sizes[self->bound[input]];
  iobind_tensor *host = NULL;
  expect_ok(iobind_tensor_create(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, &dim, 1, &host, &fault));
  switch (which) {
    case 0:
      expect_refused(self, iobind_binding_set_input(binding, input, IOBIND_INPUT_LIVE, host, NULL, &fault), "LIVE");
      break;
    case 1:
      expect_refused(self,
                     iobind_binding_place_output(binding, output, IOBIND_OUTPUT_FRESH, NULL, IOBIND_MEMORY_DEFAULT, &fault),
                     "FRESH");
      break;
    case 2: expect_refused(self, iobind_binding_set_output(binding, output, host, 0, &fault), "an output on the host"); break;
    default: expect_refused(self, iobind_binding_carry(binding, 0, 0, IOBIND_CARRY_MOVE, &fault), "MOVE"); break;
  }
  iobind_tensor_release(host);
}

enum { ITEMS = 5 };

typedef struct flowed {
  unsigned char values[ITEMS][OUTPUTS][MOST * sizeof(float)];
} flowed;

/* An item's outputs belong to its slot. */
static void pull(const world *self, iobind_pipeline *pipeline, unsigned char values[OUTPUTS][MOST * sizeof(float)],
                 size_t bytes) {
  iobind_tensor *outputs[OUTPUTS];
  expect_ok(iobind_pipeline_next(pipeline, IOBIND_NO_TIMEOUT, outputs, self->model->outputs, NULL, &fault));
  for (size_t o = 0; o < self->model->outputs; o++) {
    expect_ok(iobind_tensor_read(outputs[o], 0, values[o], bytes, NULL, &fault));
  }
}

static void flow_one(const world *self, int kind, const iobind_pipeline_options *options, iobind_tensor *inputs[ITEMS][INPUTS],
                     size_t bytes, flowed *out) {
  iobind_pipeline *pipeline = NULL;
  size_t pulled = 0;
  expect_ok(call_pipeline_create(self->sessions[kind], options, &pipeline, &fault));
  for (size_t item = 0; item < ITEMS; item++) {
    expect_ok(call_pipeline_submit(pipeline, inputs[item], self->model->inputs, &fault));
    while (pulled + options->slots <= item + 1 || (item + 1 == ITEMS && pulled < ITEMS)) {
      pull(self, pipeline, out->values[pulled++], bytes);
    }
  }
  iobind_pipeline_destroy(pipeline);
}

/* A pipeline of each session: its slots are bindings with graphs of their own. */
static void flow(world *self, uint64_t a) {
  const size_t constant = a % 2 == 0 ? 0 : POOL - 1; /* of the pool, and as long as the items */
  const int64_t dim = (int64_t)self->sizes[constant];
  const bool has_constant = self->model->inputs == 2 && a % 3 == 0;
  iobind_pipeline_options options = IOBIND_PIPELINE_OPTIONS_INIT;
  iobind_tensor *inputs[ITEMS][INPUTS] = {{NULL}};
  flowed out[KINDS] = {{{{{0}}}}};
  options.slots = 1 + (size_t)(a % 4);
  for (size_t item = 0; item < ITEMS; item++) {
    for (size_t i = 0; i < self->model->inputs - has_constant; i++) {
      expect_ok(iobind_tensor_create(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, &dim, 1, &inputs[item][i], &fault));
      fill(inputs[item][i], (float)next(self, 50));
    }
  }
  for (int k = 0; k < KINDS; k++) {
    iobind_tensor *constants[INPUTS] = {NULL, self->pool[constant][k]};
    options.constants = has_constant ? constants : NULL;
    flow_one(self, k, &options, inputs, (size_t)dim * sizeof(float), &out[k]);
  }
  if (memcmp(out[CAPTURING].values, out[PLAIN].values, sizeof out[PLAIN].values) != 0) {
    fail_msg("a pipeline: other values with graphs than without\n%s", self->trace);
  }
  for (size_t item = 0; item < ITEMS; item++) {
    for (size_t i = 0; i < self->model->inputs; i++) {
      iobind_tensor_release(inputs[item][i]);
    }
  }
}

static void reset(const world *self) {
  expect_ok(iobind_binding_reset_graphs(self->bindings[CAPTURING], &fault));
  graph_reached(GRAPH_RESET);
}

static void step(world *self) {
  uint64_t what = next(self, 32);
  uint64_t a = next(self, 100);
  size_t input = a % self->model->inputs;
  size_t output = a % self->model->outputs;
  note(self, "", what, a);
  switch (what) {
    case 0:
    case 1: bind(self, input, IOBIND_INPUT_RESIDENT, (a / 2) % POOL); break;
    case 2: write_pool(self, a % POOL); break;
    case 3: update(self, input); break;
    case 4: bind_output(self, output, OUTPUT_FIXED, (a / 3) % TARGETS); break;
    case 5: bind_output(self, output, a % 5 == 0 ? IOBIND_OUTPUT_NONE : IOBIND_OUTPUT_REUSE, 0); break;
    case 6: take(self, output); break;
    case 7: run_unbound(self), graph_reached(GRAPH_UNBOUND); break;
    case 8: carry(self, a % 2 == 0 ? IOBIND_CARRY_SWAP : IOBIND_CARRY_IN_PLACE); break;
    case 9: reset(self); break;
    case 10: run_both(self, a % 4 == 0 ? IN_THREAD : HERE); break;
    case 11: save(self); break;
    case 12: update_with(self, 0, self->saved, self->saved_bytes); break;
    case 13: run_beside(self, a % 2 == 0), graph_reached(GRAPH_BESIDE); break;
    case 14: run_both(self, ON_STREAM); break;
    case 15: queue_runs(self, a); break;
    case 16: bind(self, input, IOBIND_INPUT_SNAPSHOT, (a / 2) % POOL); break;
    case 17: bind_output(self, 0, OUTPUT_IN_PLACE, (a / 2) % POOL); break;
    case 18: bind(self, input, IOBIND_INPUT_LIVE, (a / 2) % POOL); break;
    case 19: try_moving(self, a % 4, input, output), graph_reached(GRAPH_REFUSED); break;
    case 20: flow(self, a), graph_reached(GRAPH_PIPELINE); break;
    case 21: queue_runs(self, a); break;
    case 22: run_request(self), graph_reached(GRAPH_REQUEST); break;
    case 23: run_together(self, a), graph_reached(GRAPH_TOGETHER); break;
    case 24: set_options(self, a), graph_reached(GRAPH_OPTIONS); break;
    case 25:
    case 26:
    case 27: run_unseen(self, a); break;
    default: run_both(self, HERE); break;
  }
}

static void start(world *self, uint64_t number) {
  static const int64_t sizes[2] = {8, MOST};
  self->random = number * 0x9E3779B97F4A7C15U + 1;
  self->limit = 1 + next(self, 4);
  self->model =
      &models[next(self, sizeof models / sizeof models[0] - is_device("webgpu"))]; /* which does not capture the last */
  self->sessions[CAPTURING] = make_session(self->model->spec, self->limit);
  self->sessions[PLAIN] = make_session(self->model->spec, 0);
  for (size_t i = 0; i < POOL; i++) {
    self->sizes[i] = (size_t)sizes[i / 4];
    for (int k = 0; k < KINDS; k++) {
      self->pool[i][k] = make_filled(self->sizes[i], 0);
    }
    write_pool(self, i);
  }
  for (int k = 0; k < KINDS; k++) { /* the same memory with other dims */
    iobind_tensor_release(self->pool[VIEW][k]);
    expect_ok(iobind_tensor_view(self->pool[VIEWED][k], 0, IOBIND_DTYPE_FLOAT32, &sizes[0], 1, &self->pool[VIEW][k], &fault));
  }
  for (size_t i = 0; i < TARGETS; i++) {
    for (int k = 0; k < KINDS; k++) {
      self->targets[i][k] = make_filled((size_t)sizes[i / 3], -1);
    }
  }
  for (int k = 0; k < KINDS; k++) {
    expect_ok(iobind_binding_create(self->sessions[k], &self->bindings[k], &fault));
  }
  for (size_t i = 0; i < self->model->outputs; i++) {
    const bool is_scratch = i > 0 && next(self, 2) == 0; /* ORT makes memory for what is not asked for */
    bind_output(self, i, is_scratch ? IOBIND_OUTPUT_NONE : IOBIND_OUTPUT_REUSE, 0); /* the usual one of PLAIN is FRESH */
  }
  for (size_t i = 0; i < self->model->inputs; i++) {
    bind(self, i, IOBIND_INPUT_RESIDENT, i);
  }
}

static void stop(world *self) {
  for (size_t i = 0; i < self->held_count; i++) {
    same_values(self, self->held[i], "an output that was taken");
  }
  for (int k = 0; k < KINDS; k++) {
    for (size_t i = 0; i < self->held_count; i++) {
      iobind_tensor_release(self->held[i][k]);
    }
    iobind_binding_destroy(self->bindings[k]);
    for (size_t i = 0; i < POOL; i++) {
      iobind_tensor_release(self->pool[i][k]);
    }
    for (size_t i = 0; i < TARGETS; i++) {
      iobind_tensor_release(self->targets[i][k]);
    }
    iobind_session_destroy(self->sessions[k]);
  }
}

/* Another session, which allocates, runs and frees meanwhile. */
typedef struct neighbour {
  iobind_session *session;
  atomic_bool is_over;
  char problem[256];
} neighbour;

static bool go_on(neighbour *self, iobind_status status, const iobind_error *error) {
  if (status != IOBIND_OK) {
    snprintf(self->problem, sizeof self->problem, "%.200s", error->message);
  }
  return status == IOBIND_OK;
}

static bool run_neighbour(neighbour *self, size_t turn) {
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_binding *binding = NULL;
  iobind_tensor *x = NULL;
  iobind_tensor *y = NULL;
  int64_t dim = (int64_t)(1 + turn % MOST);
  size_t bytes = (size_t)dim * sizeof(float);
  float values[MOST];
  float sums[MOST];
  for (size_t i = 0; i < MOST; i++) {
    values[i] = (float)(turn + i);
  }
  bool good =
      go_on(self, iobind_binding_create(self->session, &binding, &error), &error) &&
      go_on(self, iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, &dim, 1, &x, &error), &error) &&
      go_on(self, iobind_tensor_write(x, 0, values, bytes, NULL, &error), &error) &&
      go_on(self, iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, x, NULL, &error), &error) &&
      go_on(self, iobind_binding_run(binding, NULL, &error), &error) &&
      go_on(self, iobind_binding_get_output(binding, 0, NULL, &y, &error), &error) &&
      go_on(self, iobind_tensor_read(y, 0, sums, bytes, NULL, &error), &error);
  for (size_t i = 0; i < (size_t)dim && good; i++) {
    good = sums[i] == 2 * values[i];
    if (!good) {
      snprintf(self->problem, sizeof self->problem, "turn %zu: expected %g, got %g", turn, (double)(2 * values[i]),
               (double)sums[i]);
    }
  }
  iobind_binding_destroy(binding);
  iobind_tensor_release(x);
  return good;
}

static void *live_beside(void *context) {
  neighbour *self = context;
  for (size_t turn = 0; !atomic_load(&self->is_over) && run_neighbour(self, turn); turn++) {
    (void)sched_yield();
  }
  return NULL;
}

static uint64_t sequences;
static uint64_t first;

static void sequences_agree(void **state) {
  (void)state;
  static neighbour other; /* a test that fails leaves its thread behind */
  other.session = make_session("scale", 0);
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, live_beside, &other), 0);
  iobind_stream *stream = NULL;
  expect_ok(iobind_stream_create(device, NULL, &stream, &fault));
  for (uint64_t number = first; number < first + sequences; number++) {
    world self = {.stream = stream};
    snprintf(self.trace, sizeof self.trace, "sequence %llu: ", (unsigned long long)number);
    start(&self, number);
    for (int i = 0; i < STEPS; i++) {
      step(&self);
    }
    stop(&self);
  }
  atomic_store(&other.is_over, true);
  assert_int_equal(pthread_join(thread, NULL), 0);
  assert_string_equal(other.problem, "");
  iobind_stream_destroy(stream);
  iobind_session_destroy(other.session);
}

int main(int argc, char **argv) {
  static const struct CMUnitTest tests[] = {cmocka_unit_test(sequences_agree)};
  if (argc < 3) {
    fprintf(stderr, "usage: graph_fuzz DEVICE SEQUENCES [FIRST]\n");
    return 2;
  }
  sequences = strtoull(argv[2], NULL, 10);
  first = argc > 3 ? strtoull(argv[3], NULL, 10) : 0;
  enum { FEATURES_AFTER = 200 }; /* sequences, which must have reached all features */
  int result = graph_main(2, argv, tests, 1);
  bool reaches_all = result != 0 || graph_report(is_device("cuda")) || sequences < FEATURES_AFTER;
  return reaches_all ? result : 1;
}
