#define _GNU_SOURCE /* RTLD_DEFAULT */

/* overhead RUNS MODE...: steady runs of a model of one element, mode after mode, for a program that counts instructions or
 * allocations around the function `steady`. Each mode of iobind's stands beside the raw calls of ORT that do the same:
 *
 *      raw-fixed, iobind-fixed   the output is a tensor of the caller's
 *      raw-reuse, iobind-reuse   the output's memory is made by the first run
 *      raw-fresh, iobind-fresh   each run makes new memory: bound anew before each
 */

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fixture.h"
#include "ort.h"

enum { WARM_UP = 100 };

/* Everything that a steady run needs; the raw and the iobind modes set their own part. */
typedef struct bench {
  fixture fixture;
  iobind_binding *bound;
  const OrtApi *ort;
  OrtSession *session;
  OrtIoBinding *binding;
  OrtValue *values[3]; /* a, b, y */
  OrtEnv *env;
  OrtSessionOptions *options;
  OrtRunOptions *run_options; /* prepared once: without them each run makes its own, which costs more */
  const OrtMemoryInfo *memory;
  float data[3];
} bench;

static void check(const bench *b, OrtStatus *status) {
  if (status == NULL) return;
  fprintf(stderr, "ONNX Runtime: %s\n", b->ort->GetErrorMessage(status));
  exit(1);
}

static void ignore_log(void *param, OrtLoggingLevel severity, const char *category, const char *id, const char *location,
                       const char *message) {
  (void)param, (void)severity, (void)category, (void)id, (void)location, (void)message;
}

/* The table of the very ORT that iobind has loaded. */
static const OrtApi *find_ort(const iobind_runtime *runtime) {
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_runtime_info info = IOBIND_RUNTIME_INFO_INIT;
  fixture_check(iobind_runtime_get_info(runtime, &info, &error), &error);
  void *library = dlopen(info.ort_library, RTLD_NOW | RTLD_LOCAL);
  OrtGetApiBaseFunction get = NULL;
  void *symbol = library == NULL ? NULL : dlsym(library, "OrtGetApiBase");
  memcpy(&get, &symbol, sizeof get); /* C has no cast from an object's to a function's address */
  const OrtApi *ort = get == NULL ? NULL : get()->GetApi(ORT_API_OLDEST);
  if (ort == NULL) {
    fprintf(stderr, "%s: ONNX Runtime's interface was not found\n", info.ort_library);
    exit(1);
  }
  return ort;
}

static void open_raw(bench *b) {
  static const char *const names[] = {"a", "b", "y"};
  const int64_t dims[] = {1};
  OrtAllocator *allocator = NULL;
  const OrtApi *ort = b->ort = find_ort(b->fixture.runtime);
  check(b, ort->CreateEnvWithCustomLogger(ignore_log, NULL, ORT_LOGGING_LEVEL_WARNING, "overhead", &b->env));
  check(b, ort->CreateSessionOptions(&b->options));
  check(b, ort->SetIntraOpNumThreads(b->options, 1));
  check(b, ort->SetInterOpNumThreads(b->options, 1));
  check(b, ort->CreateSessionFromArray(b->env, b->fixture.model, b->fixture.model_bytes, b->options, &b->session));
  check(b, ort->CreateRunOptions(&b->run_options));
  check(b, ort->CreateIoBinding(b->session, &b->binding));
  check(b, ort->GetAllocatorWithDefaultOptions(&allocator));
  b->memory = allocator->Info(allocator);
  for (size_t i = 0; i < 3; i++) {
    b->data[i] = (float)i + 1;
    check(b, ort->CreateTensorWithDataAsOrtValue(b->memory, &b->data[i], sizeof b->data[i], dims, 1,
                                                 ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &b->values[i]));
    if (i < 2) check(b, ort->BindInput(b->binding, names[i], b->values[i]));
  }
}

static void close_raw(bench *b) {
  if (b->ort == NULL) return;
  for (size_t i = 0; i < 3; i++) b->ort->ReleaseValue(b->values[i]);
  b->ort->ReleaseIoBinding(b->binding);
  b->ort->ReleaseRunOptions(b->run_options);
  b->ort->ReleaseSession(b->session);
  b->ort->ReleaseSessionOptions(b->options);
  b->ort->ReleaseEnv(b->env);
}

/* ---- one run of each kind --------------------------------------------------------------------------------------- */

static void run_raw(bench *b) {
  check(b, b->ort->RunWithBinding(b->session, b->run_options, b->binding));
}

static void run_raw_fresh(bench *b) {
  check(b, b->ort->BindOutputToDevice(b->binding, "y", b->memory));
  check(b, b->ort->RunWithBinding(b->session, b->run_options, b->binding));
}

static void run_iobind(bench *b) {
  iobind_status status = iobind_binding_run(b->bound, NULL, NULL, NULL);
  if (status != IOBIND_OK) {
    fprintf(stderr, "iobind_binding_run: %s\n", iobind_status_name((int32_t)status));
    exit(1);
  }
}

/* The counters look for this function by its name, so it must be one. */
__attribute__((noinline)) void steady(bench *b, void (*run)(bench *b), long runs);

void steady(bench *b, void (*run)(bench *b), long runs) {
  for (long i = 0; i < runs; i++) run(b);
}

/* ---- modes ------------------------------------------------------------------------------------------------------ */

static void prepare_raw_fixed(bench *b) {
  check(b, b->ort->BindOutput(b->binding, "y", b->values[2]));
}

static void prepare_raw_device(bench *b) {
  check(b, b->ort->BindOutputToDevice(b->binding, "y", b->memory));
}

static void prepare_iobind(bench *b, iobind_output_mode mode) {
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_tensor *y = mode == IOBIND_OUTPUT_FIXED ? fixture_tensor(&b->fixture, 1, 0) : NULL;
  b->bound = fixture_bind(&b->fixture, 1);
  iobind_status status = iobind_binding_set_output(b->bound, 0, mode, NULL, IOBIND_MEMORY_DEFAULT, y, &error);
  fixture_check(status, &error);
  iobind_tensor_release(y);
}

static void prepare_iobind_fixed(bench *b) {
  prepare_iobind(b, IOBIND_OUTPUT_FIXED);
}

static void prepare_iobind_reuse(bench *b) {
  prepare_iobind(b, IOBIND_OUTPUT_REUSE);
}

static void prepare_iobind_fresh(bench *b) {
  prepare_iobind(b, IOBIND_OUTPUT_FRESH);
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
};

/* Where the library that counts allocations is loaded before all others, it is told when to look. */
static void tell_counter(const char *name) {
  void (*function)(void) = NULL;
  void *symbol = dlsym(RTLD_DEFAULT, name);
  memcpy(&function, &symbol, sizeof function);
  if (function != NULL) function();
}

static const mode *find_mode(const char *name) {
  for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
    if (strcmp(name, modes[i].name) == 0) return &modes[i];
  }
  return NULL;
}

static void measure(const mode *m, long runs) {
  bench b = {0};
  fixture_open(&b.fixture);
  if (strncmp(m->name, "raw-", 4) == 0) open_raw(&b);
  m->prepare(&b);
  for (int i = 0; i < WARM_UP; i++) m->run(&b);
  tell_counter("allocations_begin");
  steady(&b, m->run, runs);
  tell_counter("allocations_end");
  iobind_binding_destroy(b.bound);
  close_raw(&b);
  fixture_close(&b.fixture);
}

int main(int argc, char **argv) {
  long runs = argc > 2 ? strtol(argv[1], NULL, 10) : 0;
  int known = runs > 0;
  for (int i = 2; i < argc; i++) known = known && find_mode(argv[i]) != NULL;
  if (!known) {
    fputs("usage: overhead RUNS MODE...; modes: raw-fixed raw-reuse raw-fresh iobind-fixed iobind-reuse iobind-fresh\n",
          stderr);
    return 2;
  }
  for (int i = 2; i < argc; i++) measure(find_mode(argv[i]), runs);
  return 0;
}
