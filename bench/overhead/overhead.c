/* overhead RUNS MODE...: steady runs of a model of one element, mode after mode, for a program that counts instructions or
 * allocations around the function `steady`. Each mode of iobind is compared with the raw calls of ORT that do the same:
 *
 *      raw-fixed, iobind-fixed   the output is the caller's tensor
 *      raw-reuse, iobind-reuse   the output's memory is made by the first run
 *      raw-fresh, iobind-fresh   each run makes new memory: rebound before each
 *      raw-run, iobind-run       no binding: ORT's Run, iobind_session_run; each leaves a new tensor, which is released
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "raw.h"

enum { WARM_UP = 100 };

/* Everything that a steady run needs; the raw and the iobind modes set their own part. */
typedef struct bench {
  fixture fixture;
  iobind_binding *bound;
  raw raw;
  OrtValue *values[3]; /* a, b, y */
  iobind_tensor *inputs[2];
  float data[3];
} bench;

static void open_inputs(bench *b) {
  static const char *const names[] = {"a", "b"};
  const int64_t dims[] = {1};
  raw_open(&b->raw, &b->fixture);
  for (size_t i = 0; i < 3; i++) {
    b->data[i] = (float)i + 1;
    b->values[i] = raw_tensor(&b->raw, &b->data[i], dims, 1);
    if (i < 2) raw_check(&b->raw, b->raw.ort->BindInput(b->raw.binding, names[i], b->values[i]));
  }
}

static void close_inputs(bench *b) {
  for (size_t i = 0; b->raw.ort != NULL && i < 3; i++) b->raw.ort->ReleaseValue(b->values[i]);
  raw_close(&b->raw);
}

/* ---- one run of each kind --------------------------------------------------------------------------------------- */

static void run_raw(bench *b) {
  raw_check(&b->raw, b->raw.ort->RunWithBinding(b->raw.session, b->raw.run_options, b->raw.binding));
}

static void run_raw_fresh(bench *b) {
  raw_check(&b->raw, b->raw.ort->BindOutputToDevice(b->raw.binding, "y", b->raw.memory));
  raw_check(&b->raw, b->raw.ort->RunWithBinding(b->raw.session, b->raw.run_options, b->raw.binding));
}

static void run_iobind(bench *b) {
  iobind_status status = iobind_binding_run(b->bound, NULL, NULL);
  if (status != IOBIND_OK) {
    fprintf(stderr, "iobind_binding_run: %s\n", iobind_status_get_name((int32_t)status));
    exit(1);
  }
}

static void run_raw_unbound(bench *b) {
  static const char *const names[] = {"a", "b"};
  static const char *const outputs[] = {"y"};
  OrtValue *y = NULL;
  raw_check(&b->raw,
            b->raw.ort->Run(b->raw.session, b->raw.run_options, names, (const OrtValue *const *)b->values, 2, outputs, 1, &y));
  b->raw.ort->ReleaseValue(y);
}

static void run_iobind_unbound(bench *b) {
  iobind_tensor *y = NULL;
  iobind_run_request request = IOBIND_RUN_REQUEST_INIT;
  request.inputs = b->inputs;
  request.input_count = 2;
  iobind_status status = iobind_session_run(b->fixture.session, &request, &y, 1, NULL);
  if (status != IOBIND_OK) {
    fprintf(stderr, "iobind_session_run: %s\n", iobind_status_get_name((int32_t)status));
    exit(1);
  }
  iobind_tensor_release(y);
}

/* The counters look for this function by its name, so it must be one. */
__attribute__((noinline)) void steady(bench *b, void (*run)(bench *b), long runs);

void steady(bench *b, void (*run)(bench *b), long runs) {
  for (long i = 0; i < runs; i++) run(b);
}

/* ---- modes ------------------------------------------------------------------------------------------------------ */

static void prepare_raw_fixed(bench *b) {
  raw_check(&b->raw, b->raw.ort->BindOutput(b->raw.binding, "y", b->values[2]));
}

static void prepare_raw_device(bench *b) {
  raw_check(&b->raw, b->raw.ort->BindOutputToDevice(b->raw.binding, "y", b->raw.memory));
}

static void prepare_iobind(bench *b, iobind_output_mode mode) {
  iobind_error error = IOBIND_ERROR_INIT;
  b->bound = fixture_bind(&b->fixture, 1);
  iobind_status status = iobind_binding_place_output(b->bound, 0, mode, NULL, IOBIND_MEMORY_DEFAULT, &error);
  fixture_check(status, &error);
}

static void prepare_iobind_fixed(bench *b) {
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_tensor *y = fixture_tensor(&b->fixture, 1, 0);
  b->bound = fixture_bind(&b->fixture, 1);
  fixture_check(iobind_binding_set_output(b->bound, 0, y, 0, &error), &error);
  iobind_tensor_release(y);
}

static void prepare_iobind_reuse(bench *b) {
  prepare_iobind(b, IOBIND_OUTPUT_REUSE);
}

static void prepare_iobind_fresh(bench *b) {
  prepare_iobind(b, IOBIND_OUTPUT_FRESH);
}

static void prepare_raw_run(bench *b) {
  (void)b;
}

static void prepare_iobind_run(bench *b) {
  static const int64_t dims[] = {1};
  for (size_t i = 0; i < 2; i++) {
    iobind_error error = IOBIND_ERROR_INIT;
    iobind_buffer buffer = IOBIND_BUFFER_INIT;
    buffer.dtype = IOBIND_DTYPE_FLOAT32;
    buffer.dims = dims;
    buffer.rank = 1;
    buffer.data = &b->data[i];
    buffer.bytes = sizeof b->data[i];
    fixture_check(iobind_tensor_wrap(b->fixture.cpu, &buffer, &b->inputs[i], &error), &error);
  }
}

typedef struct mode {
  const char *name;
  void (*prepare)(bench *b);
  void (*run)(bench *b);
} mode;

static const mode modes[] = {
    {"raw-fixed", prepare_raw_fixed, run_raw},        {"iobind-fixed", prepare_iobind_fixed, run_iobind},
    {"raw-reuse", prepare_raw_device, run_raw},       {"iobind-reuse", prepare_iobind_reuse, run_iobind},
    {"raw-fresh", prepare_raw_device, run_raw_fresh}, {"iobind-fresh", prepare_iobind_fresh, run_iobind},
    {"raw-run", prepare_raw_run, run_raw_unbound},    {"iobind-run", prepare_iobind_run, run_iobind_unbound},
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
  if (strncmp(m->name, "raw-", 4) == 0) open_inputs(&b);
  m->prepare(&b);
  for (int i = 0; i < WARM_UP; i++) m->run(&b);
  raw_tell_counter("allocations_begin");
  steady(&b, m->run, runs);
  raw_tell_counter("allocations_end");
  iobind_binding_destroy(b.bound);
  for (size_t i = 0; i < 2; i++) iobind_tensor_release(b.inputs[i]);
  close_inputs(&b);
  fixture_close(&b.fixture);
}

int main(int argc, char **argv) {
  long runs = argc > 2 ? strtol(argv[1], NULL, 10) : 0;
  int known = runs > 0;
  for (int i = 2; i < argc; i++) known = known && find_mode(argv[i]) != NULL;
  if (!known) {
    fputs(
        "usage: overhead RUNS MODE...; modes: raw-fixed raw-reuse raw-fresh raw-run iobind-fixed iobind-reuse iobind-fresh iobind-run\n",
        stderr);
    return 2;
  }
  for (int i = 2; i < argc; i++) measure(find_mode(argv[i]), runs);
  return 0;
}
