/* The raw calls of ONNX Runtime that bench/java compares with: each function takes `times` steps of a kind in one call. What fails
 * ends the process: a figure of calls that failed is none. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ort.h"

#define EXPORT __attribute__((visibility("default")))

/* A session, its binding, and memory for one value each way. */
typedef struct raw {
  const OrtApi *ort;
  OrtEnv *env;
  OrtSessionOptions *options;
  OrtRunOptions *run_options; /* prepared once: without them each run makes its own, which costs more */
  OrtSession *session;
  OrtIoBinding *binding;
  OrtAllocator *allocator;
  const OrtMemoryInfo *memory;
} raw;

EXPORT raw *raw_open(const OrtApi *ort, const void *model, size_t bytes);
EXPORT void raw_close(raw *r);
EXPORT OrtValue *raw_value(const raw *r, void *data, size_t bytes, const int64_t *dims, size_t rank, int32_t dtype);
EXPORT void raw_bind_input(const raw *r, const char *name, const OrtValue *value);
EXPORT void raw_bind_output(const raw *r, const char *name, const OrtValue *value);
EXPORT void raw_bound(const raw *r, long times);
EXPORT void raw_cached(const raw *r, long times, const OrtValue *one, const OrtValue *other);
EXPORT void raw_state(const raw *r, long steps, const char *from, const char *to, const OrtValue *start, long room);
EXPORT void raw_naive(const raw *r, long times, float *in, float *out);
EXPORT void raw_grow(const raw *r, long steps, const float *step);
EXPORT int64_t raw_data_dependent(const raw *r, long times);

/* Two functions that iobind itself has no use for stand in its table without their types. */
typedef OrtStatus *(ORT_CALL *get_shape_function)(const OrtValue *value, OrtTensorTypeAndShapeInfo **out); /* 65 */
typedef void(ORT_CALL *release_shape_function)(OrtTensorTypeAndShapeInfo *info);                           /* 99 */

static void check(const raw *r, OrtStatus *status) {
  if (status == NULL) return;
  fprintf(stderr, "ONNX Runtime: %s\n", r->ort->GetErrorMessage(status));
  exit(1);
}

static void ignore_log(void *param, OrtLoggingLevel severity, const char *category, const char *id, const char *location,
                       const char *message) {
  (void)param, (void)severity, (void)category, (void)id, (void)location, (void)message;
}

raw *raw_open(const OrtApi *ort, const void *model, size_t bytes) {
  raw *r = calloc(1, sizeof *r);
  if (r == NULL) exit(1);
  r->ort = ort;
  check(r, ort->CreateEnvWithCustomLogger(ignore_log, NULL, ORT_LOGGING_LEVEL_WARNING, "raw", &r->env));
  check(r, ort->CreateSessionOptions(&r->options));
  check(r, ort->SetIntraOpNumThreads(r->options, 1));
  check(r, ort->SetInterOpNumThreads(r->options, 1));
  check(r, ort->CreateSessionFromArray(r->env, model, bytes, r->options, &r->session));
  check(r, ort->CreateRunOptions(&r->run_options));
  check(r, ort->CreateIoBinding(r->session, &r->binding));
  check(r, ort->GetAllocatorWithDefaultOptions(&r->allocator));
  r->memory = r->allocator->Info(r->allocator);
  return r;
}

void raw_close(raw *r) {
  r->ort->ReleaseIoBinding(r->binding);
  r->ort->ReleaseRunOptions(r->run_options);
  r->ort->ReleaseSession(r->session);
  r->ort->ReleaseSessionOptions(r->options);
  r->ort->ReleaseEnv(r->env);
  free(r);
}

OrtValue *raw_value(const raw *r, void *data, size_t bytes, const int64_t *dims, size_t rank, int32_t dtype) {
  OrtValue *value = NULL;
  check(r,
        r->ort->CreateTensorWithDataAsOrtValue(r->memory, data, bytes, dims, rank, (ONNXTensorElementDataType)dtype, &value));
  return value;
}

void raw_bind_input(const raw *r, const char *name, const OrtValue *value) {
  check(r, r->ort->BindInput(r->binding, name, value));
}

void raw_bind_output(const raw *r, const char *name, const OrtValue *value) {
  check(r, r->ort->BindOutput(r->binding, name, value));
}

/* The steady run: everything was bound before. */
void raw_bound(const raw *r, long times) {
  for (long i = 0; i < times; i++) check(r, r->ort->RunWithBinding(r->session, r->run_options, r->binding));
}

/* Two values that were made before take turns. */
void raw_cached(const raw *r, long times, const OrtValue *one, const OrtValue *other) {
  for (long i = 0; i < times; i++) {
    check(r, r->ort->BindInput(r->binding, "x", i % 2 == 0 ? one : other));
    raw_bound(r, 1);
  }
}

/* The output that was bound last, the other one is the caller's memory. */
static OrtValue *take_output(const raw *r) {
  OrtValue **values = NULL;
  size_t count = 0;
  check(r, r->ort->GetBoundOutputValues(r->binding, r->allocator, &values, &count));
  OrtValue *value = values[count - 1];
  if (count > 1) r->ort->ReleaseValue(values[0]);
  check(r, r->ort->AllocatorFree(r->allocator, values));
  return value;
}

/* A new input from an array of one element, an output of new memory that is read into an array. */
void raw_naive(const raw *r, long times, float *in, float *out) {
  const int64_t dims[] = {1};
  for (long i = 0; i < times; i++) {
    void *data = NULL;
    in[0] = (float)i;
    OrtValue *x = NULL;
    check(r, r->ort->CreateTensorAsOrtValue(r->allocator, dims, 1, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &x));
    check(r, r->ort->GetTensorMutableData(x, &data));
    memcpy(data, in, sizeof *in);
    check(r, r->ort->BindInput(r->binding, "x", x));
    check(r, r->ort->BindOutputToDevice(r->binding, "y", r->memory));
    raw_bound(r, 1);
    OrtValue *y = take_output(r);
    check(r, r->ort->GetTensorMutableData(y, &data));
    memcpy(out, data, sizeof *out);
    r->ort->ReleaseValue(y);
    r->ort->ReleaseValue(x);
  }
}

/* A cache that grows from nothing by one entry a step: each run's output is the next one's input. */
void raw_grow(const raw *r, long steps, const float *step) {
  int64_t dims[] = {1, 2, 0, 4};
  float nothing;
  OrtValue *past = raw_value(r, &nothing, 0, dims, 4, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT);
  dims[2] = 1;
  OrtValue *entry = raw_value(r, (void *)(uintptr_t)step, 8 * sizeof *step, dims, 4, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT);
  check(r, r->ort->BindInput(r->binding, "second", entry));
  for (long i = 0; i < steps; i++) {
    check(r, r->ort->BindInput(r->binding, "first", past));
    check(r, r->ort->BindOutputToDevice(r->binding, "joined", r->memory));
    raw_bound(r, 1);
    OrtValue *next = take_output(r);
    r->ort->ReleaseValue(past);
    past = next;
  }
  r->ort->ReleaseValue(past);
  r->ort->ReleaseValue(entry);
}

/* A model with a state: the output `from` is the next step's input `to`. Every `room` steps it begins again. */
void raw_state(const raw *r, long steps, const char *from, const char *to, const OrtValue *start, long room) {
  OrtValue *past = NULL;
  for (long i = 0; i < steps; i++) {
    check(r, r->ort->BindInput(r->binding, to, i % room == 0 ? start : past));
    check(r, r->ort->BindOutputToDevice(r->binding, from, r->memory));
    raw_bound(r, 1);
    OrtValue *next = take_output(r);
    if (past != NULL) r->ort->ReleaseValue(past);
    past = next;
  }
  r->ort->ReleaseValue(past);
}

/* An output whose shape the data decide: fetched, its shape read, given back. */
int64_t raw_data_dependent(const raw *r, long times) {
  int64_t found = 0;
  get_shape_function get_shape = (get_shape_function)r->ort->slots_64[1];
  release_shape_function release_shape = (release_shape_function)r->ort->slots_99[0];
  for (long i = 0; i < times; i++) {
    OrtTensorTypeAndShapeInfo *info = NULL;
    int64_t dims[2];
    check(r, r->ort->BindOutputToDevice(r->binding, "y", r->memory));
    raw_bound(r, 1);
    OrtValue *y = take_output(r);
    check(r, get_shape(y, &info));
    check(r, r->ort->GetDimensions(info, dims, 2));
    release_shape(info);
    r->ort->ReleaseValue(y);
    found += dims[1];
  }
  return found;
}
