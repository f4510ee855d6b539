/* The same random calls on a binding whose session captures graphs and on one whose session does not: the same statuses and the same
 * values, but for "too many graphs" and "another thread's graphs", after which the graphs are given up and the run is made again.
 *
 * usage: graph_fuzz DEVICE SEQUENCES [FIRST]   FIRST is the number of the first sequence, to repeat one */
#include "graph_rig.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 40, POOL = 6, TARGETS = 4, MOST = 24, INPUTS = 2, OUTPUTS = 2, HELD = 8, CAPTURING = 0, PLAIN = 1, KINDS };

typedef struct world {
  uint64_t random;
  size_t limit;
  iobind_session *sessions[KINDS];
  iobind_session *other;
  iobind_binding *bindings[KINDS];
  iobind_tensor *pool[POOL][KINDS]; /* inputs */
  size_t sizes[POOL];
  iobind_tensor *targets[TARGETS][KINDS];
  size_t bound[INPUTS]; /* which of the pool */
  iobind_tensor *held[HELD][KINDS];
  size_t held_count;
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
    fail_msg("%s: %s with graphs, %s without: %s\n%s", what, iobind_status_name((int32_t)capturing),
             iobind_status_name((int32_t)plain), fault.message, self->trace);
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

static void bind(world *self, size_t input, size_t index) {
  iobind_status came[KINDS];
  for (int k = 0; k < KINDS; k++) {
    fixture_arm();
    came[k] = iobind_binding_set_input(self->bindings[k], input, IOBIND_INPUT_RESIDENT, self->pool[index][k], NULL, &fault);
  }
  same(self, came[0], came[1], "set_input");
  self->bound[input] = came[0] == IOBIND_OK ? index : self->bound[input];
}

static void update(world *self, size_t input) {
  float values[MOST];
  iobind_status came[KINDS];
  size_t count = self->sizes[self->bound[input]];
  for (size_t i = 0; i < count; i++) {
    values[i] = (float)next(self, 100) / 4;
  }
  for (int k = 0; k < KINDS; k++) {
    fixture_arm();
    came[k] = iobind_binding_update_input(self->bindings[k], input, values, count * sizeof(float), NULL, &fault);
  }
  same(self, came[0], came[1], "update_input");
}

static void bind_output(world *self, size_t output, iobind_output_mode mode, size_t target) {
  iobind_status came[KINDS];
  for (int k = 0; k < KINDS; k++) {
    fixture_arm();
    came[k] = iobind_binding_set_output(self->bindings[k], output, mode, NULL, IOBIND_MEMORY_DEFAULT,
                                        mode == IOBIND_OUTPUT_FIXED ? self->targets[target][k] : NULL, &fault);
  }
  same(self, came[0], came[1], "set_output");
}

static void carry(world *self, iobind_carry_mode mode) {
  iobind_status came[KINDS];
  for (int k = 0; k < KINDS; k++) {
    fixture_arm();
    came[k] = iobind_binding_carry(self->bindings[k], 0, 0, mode, &fault);
    if (k == CAPTURING && came[k] == IOBIND_NOT_SUPPORTED) {
      assert_true(self->limit < 2 && mode == IOBIND_CARRY_SWAP);
      return;
    }
  }
  same(self, came[0], came[1], "carry");
}

typedef struct visit {
  iobind_binding *binding;
  iobind_status status;
  iobind_error error;
} visit;

static void *run_there(void *context) {
  visit *self = context;
  self->error = (iobind_error)IOBIND_ERROR_INIT;
  self->status = iobind_binding_run(self->binding, NULL, NULL, &self->error);
  return NULL;
}

static iobind_status run_capturing(const world *self, bool in_thread) {
  visit here = {.binding = self->bindings[CAPTURING]};
  fixture_arm();
  if (in_thread) {
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, run_there, &here), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
  } else {
    (void)run_there(&here);
  }
  fault = here.error;
  return here.status;
}

static void run_both(world *self, bool in_thread) {
  iobind_status came[KINDS];
  came[CAPTURING] = run_capturing(self, in_thread);
  if (came[CAPTURING] == IOBIND_INVALID_STATE && strstr(fault.message, "iobind_binding_forget_graphs") != NULL) {
    expect_ok(iobind_binding_forget_graphs(self->bindings[CAPTURING], &fault));
    came[CAPTURING] = run_capturing(self, in_thread);
  }
  iobind_error why = fault;
  fixture_arm();
  came[PLAIN] = iobind_binding_run(self->bindings[PLAIN], NULL, NULL, &fault);
  fault = came[CAPTURING] != IOBIND_OK ? why : fault;
  same(self, came[0], came[1], "run");
  for (size_t o = 0; o < OUTPUTS && came[0] == IOBIND_OK; o++) {
    iobind_tensor *outputs[KINDS] = {NULL};
    for (int k = 0; k < KINDS; k++) {
      fixture_arm();
      came[k] = iobind_binding_get_output(self->bindings[k], o, &outputs[k], &fault);
    }
    same(self, came[0], came[1], "get_output");
    if (came[0] == IOBIND_OK) {
      same_values(self, outputs, "an output");
    }
    came[0] = IOBIND_OK;
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
  if (came[0] == IOBIND_OK && self->held_count < HELD) {
    memcpy(self->held[self->held_count++], taken, sizeof taken);
  } else {
    iobind_tensor_release(taken[0]);
    iobind_tensor_release(taken[1]);
  }
}

/* A plain run of the session that captures, and of another one, whose memory ORT takes from wherever it likes. */
static void run_others(world *self) {
  iobind_device *cpu = iobind_runtime_get_device(runtime, 0);
  int64_t dim = (int64_t)(1 + next(self, MOST));
  iobind_tensor *inputs[INPUTS];
  iobind_tensor *outputs[KINDS][OUTPUTS];
  for (size_t i = 0; i < INPUTS; i++) {
    expect_ok(iobind_tensor_create(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_FLOAT32, &dim, 1, &inputs[i], &fault));
    fill(inputs[i], (float)next(self, 50));
  }
  for (int k = 0; k < KINDS; k++) {
    expect_ok(iobind_session_run(self->sessions[k], inputs, outputs[k], &fault));
  }
  for (size_t o = 0; o < OUTPUTS; o++) {
    iobind_tensor *pair[KINDS] = {outputs[0][o], outputs[1][o]};
    same_values(self, pair, "a plain run");
    iobind_tensor_release(pair[0]);
    iobind_tensor_release(pair[1]);
  }
  iobind_tensor *x = make_filled((size_t)dim, 3);
  iobind_binding *binding = make_binding(self->other, x, NULL);
  expect_ok(iobind_binding_run(binding, NULL, NULL, &fault));
  expect_output(binding, (size_t)dim, 6);
  iobind_binding_destroy(binding);
  iobind_tensor_release(x);
  iobind_tensor_release(inputs[0]);
  iobind_tensor_release(inputs[1]);
}

static void step(world *self) {
  uint64_t what = next(self, 20);
  uint64_t a = next(self, 100);
  note(self, "", what, a);
  switch (what) {
    case 0:
    case 1: bind(self, a % INPUTS, (a / 2) % POOL); break;
    case 2: write_pool(self, a % POOL); break;
    case 3: update(self, a % INPUTS); break;
    case 4: bind_output(self, a % OUTPUTS, IOBIND_OUTPUT_FIXED, (a / 2) % TARGETS); break;
    case 5: bind_output(self, a % OUTPUTS, a % 5 == 0 ? IOBIND_OUTPUT_NONE : IOBIND_OUTPUT_REUSE, 0); break;
    case 6: take(self, a % OUTPUTS); break;
    case 7: run_others(self); break;
    case 8: carry(self, a % 2 == 0 ? IOBIND_CARRY_SWAP : IOBIND_CARRY_IN_PLACE); break;
    case 9: expect_ok(iobind_binding_forget_graphs(self->bindings[CAPTURING], &fault)); break;
    case 10: run_both(self, a % 4 == 0); break;
    default: run_both(self, false); break;
  }
}

static void start(world *self, uint64_t number) {
  static const int64_t sizes[2] = {8, MOST};
  self->random = number * 0x9E3779B97F4A7C15U + 1;
  self->limit = 1 + next(self, 4);
  self->sessions[CAPTURING] = make_session("pair", self->limit);
  self->sessions[PLAIN] = make_session("pair", 0);
  for (size_t i = 0; i < POOL; i++) {
    self->sizes[i] = (size_t)sizes[i / 4];
    for (int k = 0; k < KINDS; k++) {
      self->pool[i][k] = make_filled(self->sizes[i], 0);
    }
    write_pool(self, i);
  }
  for (size_t i = 0; i < TARGETS; i++) {
    for (int k = 0; k < KINDS; k++) {
      self->targets[i][k] = make_filled((size_t)sizes[i / 3], -1);
    }
  }
  for (int k = 0; k < KINDS; k++) {
    expect_ok(iobind_binding_create(self->sessions[k], &self->bindings[k], &fault));
  }
  for (size_t i = 0; i < OUTPUTS; i++) {
    bind_output(self, i, IOBIND_OUTPUT_REUSE, 0); /* the usual one of the other session is FRESH */
  }
  bind(self, 0, 0);
  bind(self, 1, 1);
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

static uint64_t sequences;
static uint64_t first;

static void sequences_agree(void **state) {
  (void)state;
  iobind_session *other = make_session("scale", 0);
  for (uint64_t number = first; number < first + sequences; number++) {
    world self = {.other = other};
    snprintf(self.trace, sizeof self.trace, "sequence %llu: ", (unsigned long long)number);
    start(&self, number);
    for (int i = 0; i < STEPS; i++) {
      step(&self);
    }
    stop(&self);
  }
  iobind_session_destroy(other);
}

int main(int argc, char **argv) {
  static const struct CMUnitTest tests[] = {cmocka_unit_test(sequences_agree)};
  if (argc < 3) {
    fprintf(stderr, "usage: graph_fuzz DEVICE SEQUENCES [FIRST]\n");
    return 2;
  }
  sequences = strtoull(argv[2], NULL, 10);
  first = argc > 3 ? strtoull(argv[3], NULL, 10) : 0;
  return graph_main(2, argv, tests, 1);
}
