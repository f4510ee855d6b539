/* overhead RUNS MODE...: steady runs of a model of one element, mode after mode, for a program that counts instructions or
 * allocations around the function `steady`. Each mode of iobind is compared with the raw calls of ORT that do the same:
 *
 *      raw-fixed, iobind-fixed   the output is the caller's tensor
 *      raw-reuse, iobind-reuse   the output's memory is made by the first run
 *      raw-fresh, iobind-fresh   each run makes new memory: rebound before each
 *      raw-run, iobind-run       no binding: ORT's Run, iobind_session_run; each leaves a new tensor, which is released
 *      raw-data, iobind-data     how much comes out depends on the input's content, which differs from run to run: new memory in each run
 *      raw-found, iobind-found   the same, and the caller asks each run for the output's dims and address
 */

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"
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
  int64_t found; /* elements of the outputs whose size depends on the data */
} bench;

static void open_inputs(bench *b) {
  static const char *const names[] = {"a", "b"};
  const int64_t dims[] = {1};
  for (size_t i = 0; i < 3; i++) {
    b->data[i] = (float)i + 1;
    b->values[i] = raw_tensor(&b->raw, &b->data[i], dims, 1);
    if (i < 2) raw_check(&b->raw, b->raw.ort->BindInput(b->raw.binding, names[i], b->values[i]));
  }
}

static void close_inputs(bench *b) {
  for (size_t i = 0; b->raw.ort != NULL && i < 3; i++) {
    if (b->values[i] != NULL) b->raw.ort->ReleaseValue(b->values[i]);
  }
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

/* How many elements of the input are not 0 differs in each run. */
static void change_data(bench *b) {
  b->data[1] = 1 - b->data[1];
}

static void run_raw_data(bench *b) {
  change_data(b);
  run_raw_fresh(b);
}

static void run_iobind_data(bench *b) {
  change_data(b);
  run_iobind(b);
}

static void run_raw_found(bench *b) {
  const raw *r = &b->raw;
  OrtValue **values = NULL;
  ONNXTensorElementDataType type;
  const int64_t *dims = NULL;
  size_t count = 0, rank = 0;
  void *data = NULL;
  run_raw_data(b);
  raw_check(r, r->ort->GetBoundOutputValues(r->binding, r->allocator, &values, &count));
  raw_check(r, r->ort->GetTensorElementTypeAndShapeDataReference(values[0], &type, &dims, &rank));
  raw_check(r, r->ort->GetTensorMutableData(values[0], &data));
  b->found += data == NULL ? 0 : dims[1];
  r->ort->ReleaseValue(values[0]);
  raw_check(r, r->ort->AllocatorFree(r->allocator, values));
}

static void run_iobind_found(bench *b) {
  iobind_tensor *y = NULL;
  iobind_tensor_info info = IOBIND_TENSOR_INFO_INIT;
  run_iobind_data(b);
  iobind_status status = iobind_binding_get_output(b->bound, 0, NULL, &y, NULL);
  if (status == IOBIND_OK) status = iobind_tensor_get_info(y, &info, NULL);
  if (status != IOBIND_OK || iobind_tensor_get_address(y) == NULL) {
    fprintf(stderr, "iobind_binding_get_output: %s\n", iobind_status_get_name((int32_t)status));
    exit(1);
  }
  b->found += info.dims[1];
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
  open_inputs(b);
  raw_check(&b->raw, b->raw.ort->BindOutput(b->raw.binding, "y", b->values[2]));
}

static void prepare_raw_device(bench *b) {
  open_inputs(b);
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

/* A tensor over all or some of the data. */
static iobind_tensor *wrap(bench *b, float *data, int64_t count) {
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_buffer buffer = IOBIND_BUFFER_INIT;
  iobind_tensor *tensor = NULL;
  buffer.dtype = IOBIND_DTYPE_FLOAT32;
  buffer.dims = &count;
  buffer.rank = 1;
  buffer.data = data;
  buffer.bytes = (size_t)count * sizeof *data;
  fixture_check(iobind_tensor_wrap(b->fixture.cpu, &buffer, &tensor, &error), &error);
  return tensor;
}

static void prepare_iobind_run(bench *b) {
  for (size_t i = 0; i < 2; i++) b->inputs[i] = wrap(b, &b->data[i], 1);
}

static void prepare_raw_data(bench *b) {
  static const int64_t dims[] = {3};
  b->data[0] = b->data[2] = 1;
  b->values[0] = raw_tensor(&b->raw, b->data, dims, 1);
  raw_check(&b->raw, b->raw.ort->BindInput(b->raw.binding, "x", b->values[0]));
}

static void prepare_iobind_data(bench *b) {
  iobind_error error = IOBIND_ERROR_INIT;
  b->data[0] = b->data[2] = 1;
  b->inputs[0] = wrap(b, b->data, 3);
  fixture_check(iobind_binding_create(b->fixture.session, &b->bound, &error), &error);
  fixture_check(iobind_binding_set_input(b->bound, 0, IOBIND_INPUT_RESIDENT, b->inputs[0], NULL, &error), &error);
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
    {"raw-run", open_inputs, run_raw_unbound},        {"iobind-run", prepare_iobind_run, run_iobind_unbound},
    {"raw-data", prepare_raw_data, run_raw_data},     {"iobind-data", prepare_iobind_data, run_iobind_data},
    {"raw-found", prepare_raw_data, run_raw_found},   {"iobind-found", prepare_iobind_data, run_iobind_found},
};

static const mode *find_mode(const char *name) {
  for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
    if (strcmp(name, modes[i].name) == 0) return &modes[i];
  }
  return NULL;
}

static void measure(const mode *m, long runs) {
  bench b = {0};
  bool depends = strstr(m->name, "-data") != NULL || strstr(m->name, "-found") != NULL;
  fixture_open_model(&b.fixture, depends ? model_nonzero : model_add);
  if (strncmp(m->name, "raw-", 4) == 0) raw_open(&b.raw, &b.fixture);
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
        "usage: overhead RUNS MODE...; modes: raw-fixed raw-reuse raw-fresh raw-run raw-data raw-found, and the same with iobind-\n",
        stderr);
    return 2;
  }
  for (int i = 2; i < argc; i++) measure(find_mode(argv[i]), runs);
  return 0;
}
