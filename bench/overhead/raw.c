#define _GNU_SOURCE /* RTLD_DEFAULT */

#include "raw.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void raw_check(const raw *r, OrtStatus *status) {
  if (status == NULL) return;
  fprintf(stderr, "ONNX Runtime: %s\n", r->ort->GetErrorMessage(status));
  exit(1);
}

static void ignore_log(void *param, OrtLoggingLevel severity, const char *category, const char *id, const char *location,
                       const char *message) {
  (void)param, (void)severity, (void)category, (void)id, (void)location, (void)message;
}

static const OrtApi *load(const char *path) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  OrtGetApiBaseFunction get = NULL;
  void *symbol = library == NULL ? NULL : dlsym(library, "OrtGetApiBase");
  memcpy(&get, &symbol, sizeof get); /* C has no cast from an object's to a function's address */
  const OrtApi *ort = get == NULL ? NULL : get()->GetApi(ORT_API_OLDEST);
  if (ort == NULL) {
    fprintf(stderr, "%s: ONNX Runtime's interface was not found\n", path);
    exit(1);
  }
  return ort;
}

void raw_open_environment(raw *r, const fixture *f) {
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_runtime_info info = IOBIND_RUNTIME_INFO_INIT;
  fixture_check(iobind_runtime_get_info(f->runtime, &info, &error), &error);
  raw_open_library(r, info.ort_library);
}

void raw_open_library(raw *r, const char *path) {
  const OrtApi *ort = r->ort = load(path);
  raw_check(r, ort->CreateEnvWithCustomLogger(ignore_log, NULL, ORT_LOGGING_LEVEL_WARNING, "overhead", &r->env));
  raw_check(r, ort->CreateSessionOptions(&r->options));
  raw_check(r, ort->SetIntraOpNumThreads(r->options, 1));
  raw_check(r, ort->SetInterOpNumThreads(r->options, 1));
}

void raw_open_session(raw *r, const fixture *f) {
  const OrtApi *ort = r->ort;
  raw_check(r, ort->CreateSessionFromArray(r->env, f->model, f->model_bytes, r->options, &r->session));
  raw_check(r, ort->CreateRunOptions(&r->run_options));
  raw_check(r, ort->CreateIoBinding(r->session, &r->binding));
  raw_check(r, ort->GetAllocatorWithDefaultOptions(&r->allocator));
  r->memory = r->allocator->Info(r->allocator);
}

void raw_open(raw *r, const fixture *f) {
  raw_open_environment(r, f);
  raw_open_session(r, f);
}

void raw_close(raw *r) {
  if (r->ort == NULL) return;
  r->ort->ReleaseIoBinding(r->binding);
  r->ort->ReleaseRunOptions(r->run_options);
  r->ort->ReleaseSession(r->session);
  r->ort->ReleaseSessionOptions(r->options);
  r->ort->ReleaseEnv(r->env);
}

OrtValue *raw_tensor(const raw *r, float *data, const int64_t *dims, size_t rank) {
  OrtValue *value = NULL;
  size_t bytes = sizeof *data;
  for (size_t i = 0; i < rank; i++) bytes *= (size_t)dims[i];
  raw_check(r, r->ort->CreateTensorWithDataAsOrtValue(r->memory, data, bytes, dims, rank, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT,
                                                      &value));
  return value;
}

void raw_tell_counter(const char *name) {
  void (*function)(void) = NULL;
  void *symbol = dlsym(RTLD_DEFAULT, name);
  memcpy(&function, &symbol, sizeof function);
  if (function != NULL) function();
}
