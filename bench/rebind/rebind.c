/* rebind RUNS MODE...: a model of one element whose inputs or outputs are others in each run, mode after mode, for a program that
 * counts instructions or allocations around the function `steady`. Two tensors of the same dims take turns. Each mode of iobind is listed
 * beside the raw calls of ORT that do the same:
 *
 *      raw-input, iobind-input     one of two inputs is bound before each run
 *      raw-output, iobind-output   the output
 *      raw-all, iobind-all         both inputs and the output
 *      raw-clear, iobind-clear     the same, after both inputs and the output were unbound
 *      raw-reuse, iobind-reuse     one input; ORT makes the output's memory in the first run, and it stays */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "raw.h"

enum { WARM_UP = 100 };

typedef struct bench {
  fixture fixture;
  iobind_binding *bound;
  iobind_tensor *tensors[3][2]; /* a, b, y */
  raw raw;
  OrtValue *values[3][2];
  float data[3][2];
  size_t turn;
} bench;

static void check(iobind_status status) {
  if (status == IOBIND_OK) return;
  fprintf(stderr, "%s\n", iobind_status_get_name((int32_t)status));
  exit(1);
}

/* ---- what is bound before each run ------------------------------------------------------------------------------- */

static const char *const names[] = {"a", "b", "y"};

static void raw_input(bench *b, size_t index) {
  raw_check(&b->raw, b->raw.ort->BindInput(b->raw.binding, names[index], b->values[index][b->turn]));
}

static void raw_output(bench *b) {
  raw_check(&b->raw, b->raw.ort->BindOutput(b->raw.binding, "y", b->values[2][b->turn]));
}

static void raw_run(bench *b) {
  raw_check(&b->raw, b->raw.ort->RunWithBinding(b->raw.session, b->raw.run_options, b->raw.binding));
  b->turn = 1 - b->turn;
}

static void step_raw_input(bench *b) {
  raw_input(b, 0);
  raw_run(b);
}

static void step_raw_output(bench *b) {
  raw_output(b);
  raw_run(b);
}

static void step_raw_all(bench *b) {
  raw_input(b, 0);
  raw_input(b, 1);
  raw_output(b);
  raw_run(b);
}

static void step_raw_clear(bench *b) {
  b->raw.ort->ClearBoundInputs(b->raw.binding);
  b->raw.ort->ClearBoundOutputs(b->raw.binding);
  step_raw_all(b);
}

static void set_input(bench *b, size_t index) {
  check(iobind_binding_set_input(b->bound, index, IOBIND_INPUT_RESIDENT, b->tensors[index][b->turn], NULL, NULL));
}

static void set_output(bench *b) {
  check(iobind_binding_set_output(b->bound, 0, b->tensors[2][b->turn], 0, NULL));
}

static void run(bench *b) {
  check(iobind_binding_run(b->bound, NULL, NULL));
  b->turn = 1 - b->turn;
}

static void step_input(bench *b) {
  set_input(b, 0);
  run(b);
}

static void step_output(bench *b) {
  set_output(b);
  run(b);
}

static void step_all(bench *b) {
  set_input(b, 0);
  set_input(b, 1);
  set_output(b);
  run(b);
}

static void step_clear(bench *b) {
  check(iobind_binding_clear(b->bound, NULL));
  step_all(b);
}

/* The counters look for this function by its name, so it must be one. */
__attribute__((noinline)) void steady(bench *b, void (*step)(bench *b), long runs);

void steady(bench *b, void (*step)(bench *b), long runs) {
  for (long i = 0; i < runs; i++) step(b);
}

/* ---- modes ------------------------------------------------------------------------------------------------------- */

static void prepare_raw(bench *b) {
  const int64_t dims[] = {1};
  raw_open(&b->raw, &b->fixture);
  for (size_t i = 0; i < 3; i++) {
    for (size_t turn = 0; turn < 2; turn++) {
      b->data[i][turn] = (float)(i + turn);
      b->values[i][turn] = raw_tensor(&b->raw, &b->data[i][turn], dims, 1);
    }
  }
  raw_input(b, 0);
  raw_input(b, 1);
}

static void prepare_raw_given(bench *b) {
  prepare_raw(b);
  raw_output(b);
}

static void prepare_raw_reuse(bench *b) {
  prepare_raw(b);
  raw_check(&b->raw, b->raw.ort->BindOutputToDevice(b->raw.binding, "y", b->raw.memory));
}

static void prepare(bench *b) {
  b->bound = fixture_bind(&b->fixture, 1);
  for (size_t i = 0; i < 3; i++) {
    for (size_t turn = 0; turn < 2; turn++) b->tensors[i][turn] = fixture_tensor(&b->fixture, 1, (float)(i + turn));
  }
}

static void prepare_given(bench *b) {
  prepare(b);
  set_output(b);
}

static void prepare_reuse(bench *b) {
  prepare(b);
  check(iobind_binding_place_output(b->bound, 0, IOBIND_OUTPUT_REUSE, NULL, IOBIND_MEMORY_DEFAULT, NULL));
}

typedef struct mode {
  const char *name;
  void (*prepare)(bench *b);
  void (*step)(bench *b);
} mode;

static const mode modes[] = {
    {"raw-input", prepare_raw_given, step_raw_input},   {"iobind-input", prepare_given, step_input},
    {"raw-output", prepare_raw_given, step_raw_output}, {"iobind-output", prepare_given, step_output},
    {"raw-all", prepare_raw_given, step_raw_all},       {"iobind-all", prepare_given, step_all},
    {"raw-clear", prepare_raw_given, step_raw_clear},   {"iobind-clear", prepare_given, step_clear},
    {"raw-reuse", prepare_raw_reuse, step_raw_input},   {"iobind-reuse", prepare_reuse, step_input},
};

static const mode *find_mode(const char *name) {
  for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
    if (strcmp(name, modes[i].name) == 0) return &modes[i];
  }
  return NULL;
}

static void measure(const mode *m, long runs) {
  bench b = {0};
  fixture_open(&b.fixture);
  m->prepare(&b);
  for (int i = 0; i < WARM_UP; i++) m->step(&b);
  raw_tell_counter("allocations_begin");
  steady(&b, m->step, runs);
  raw_tell_counter("allocations_end");
  iobind_binding_destroy(b.bound);
  for (size_t i = 0; i < 6; i++) {
    iobind_tensor_release(b.tensors[i / 2][i % 2]);
    if (b.values[i / 2][i % 2] != NULL) b.raw.ort->ReleaseValue(b.values[i / 2][i % 2]);
  }
  raw_close(&b.raw);
  fixture_close(&b.fixture);
}

int main(int argc, char **argv) {
  long runs = argc > 2 ? strtol(argv[1], NULL, 10) : 0;
  int known = runs > 0;
  for (int i = 2; i < argc; i++) known = known && find_mode(argv[i]) != NULL;
  if (!known) {
    fputs("usage: rebind RUNS MODE...; modes: raw-input raw-output raw-all raw-clear raw-reuse, and the same with iobind-\n",
          stderr);
    return 2;
  }
  for (int i = 2; i < argc; i++) measure(find_mode(argv[i]), runs);
  return 0;
}
