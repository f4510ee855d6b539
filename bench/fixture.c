#define _POSIX_C_SOURCE 200809L /* clock_gettime, sysconf */

#include "fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "model.h"

void fixture_check(iobind_status status, const iobind_error *error) {
  if (status == IOBIND_OK) return;
  fprintf(stderr, "%s: %s\n", iobind_status_get_name((int32_t)status), error->message);
  exit(1);
}

void fixture_open(fixture *f) {
  fixture_open_model(f, model_add);
}

void fixture_open_model(fixture *f, void *(*make)(size_t *bytes)) {
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  *f = (fixture){0};
  fixture_check(iobind_runtime_create(NULL, &f->runtime, &error), &error);
  f->cpu = iobind_runtime_get_device(f->runtime, 0);
  f->model = make(&f->model_bytes);
  if (f->model == NULL) {
    fputs("the model could not be made\n", stderr);
    exit(1);
  }
  options.intra_op_threads = 1;
  options.inter_op_threads = 1;
  fixture_check(iobind_session_create_from_memory(f->runtime, f->model, f->model_bytes, &options, &f->session, &error), &error);
}

void fixture_close(fixture *f) {
  iobind_session_destroy(f->session);
  iobind_runtime_destroy(f->runtime);
  free(f->model);
}

iobind_tensor *fixture_tensor(const fixture *f, int64_t n, float value) {
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_tensor *tensor = NULL;
  void *data = NULL;
  fixture_check(iobind_tensor_create(f->cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, &n, 1, &tensor, &error), &error);
  fixture_check(iobind_tensor_map(tensor, IOBIND_DTYPE_FLOAT32, IOBIND_ACCESS_WRITE, &data, &error), &error);
  for (int64_t i = 0; i < n; i++) ((float *)data)[i] = value;
  return tensor;
}

iobind_binding *fixture_bind(const fixture *f, int64_t n) {
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_binding *binding = NULL;
  fixture_check(iobind_binding_create(f->session, &binding, &error), &error);
  for (size_t i = 0; i < 2; i++) {
    iobind_tensor *tensor = fixture_tensor(f, n, (float)i + 1);
    fixture_check(iobind_binding_set_input(binding, i, IOBIND_INPUT_RESIDENT, tensor, NULL, &error), &error);
    iobind_tensor_release(tensor);
  }
  return binding;
}

void fixture_expect(iobind_tensor *tensor, int64_t n, float value) {
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_tensor_info info = IOBIND_TENSOR_INFO_INIT;
  void *data = NULL;
  fixture_check(iobind_tensor_get_info(tensor, &info, &error), &error);
  fixture_check(iobind_tensor_map(tensor, IOBIND_DTYPE_FLOAT32, IOBIND_ACCESS_WRITE, &data, &error), &error);
  int good = info.rank == 1 && info.dims[0] == n;
  for (int64_t i = 0; good && i < n; i++) good = ((const float *)data)[i] == value;
  if (good) return;
  fprintf(stderr, "the result is wrong: expected float32[%lld], %g everywhere\n", (long long)n, (double)value);
  exit(1);
}

double fixture_thread_ms(void) {
  struct timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}

static int by_size(const void *one, const void *other) {
  double a = *(const double *)one, b = *(const double *)other;
  return (a > b) - (a < b);
}

double fixture_median(double *values, size_t count) {
  qsort(values, count, sizeof *values, by_size);
  return values[count / 2];
}

long fixture_resident_bytes(void) {
  long all = 0, resident = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  if (file == NULL || fscanf(file, "%ld %ld", &all, &resident) != 2) {
    fputs("/proc/self/statm cannot be read\n", stderr);
    exit(1);
  }
  fclose(file);
  return resident * sysconf(_SC_PAGESIZE);
}
