/* What the programs here share: a small bound model on the CPU, and an end of the program where something fails. */
#ifndef IOBIND_BENCH_FIXTURE_H
#define IOBIND_BENCH_FIXTURE_H

#include <iobind/iobind.h>

typedef struct fixture {
  iobind_runtime *runtime;
  iobind_device *cpu;
  iobind_session *session; /* with one thread, so that instructions can be counted */
  void *model;
  size_t model_bytes;
} fixture;

/* Says what failed and ends the program, unless `status` is OK. */
void fixture_check(iobind_status status, const iobind_error *error);

/* A runtime, and a session of the model that `make` gives, one of those of model.h; without it model_add. */
void fixture_open(fixture *f);
void fixture_open_model(fixture *f, void *(*make)(size_t *bytes));
void fixture_close(fixture *f);

/* A host tensor float32[n] with the given value in each element. */
iobind_tensor *fixture_tensor(const fixture *f, int64_t n, float value);

/* A binding of model_add whose two inputs are tensors of n elements, 1 and 2; the caller destroys it. */
iobind_binding *fixture_bind(const fixture *f, int64_t n);

/* Ends the program unless the tensor is float32[n] and holds the value everywhere. */
void fixture_expect(iobind_tensor *tensor, int64_t n, float value);

/* Processor time of the calling thread, in milliseconds. */
double fixture_thread_ms(void);

/* Sorts the values. */
double fixture_median(double *values, size_t count);

/* Memory of the process that is in use. */
long fixture_resident_bytes(void);

#endif
