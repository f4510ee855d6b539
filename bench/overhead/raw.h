/* The raw calls of ORT that iobind is measured beside: a session of the very ORT that iobind has loaded, and a binding. */
#ifndef IOBIND_BENCH_RAW_H
#define IOBIND_BENCH_RAW_H

#include "fixture.h"
#include "ort.h"

typedef struct raw {
  const OrtApi *ort; /* NULL: not opened */
  OrtEnv *env;
  OrtSessionOptions *options;
  OrtSession *session;
  OrtIoBinding *binding;
  OrtRunOptions *run_options; /* prepared once: without them each run makes its own, which costs more */
  OrtAllocator *allocator;
  const OrtMemoryInfo *memory;
} raw;

/* Says what failed and ends the program, unless `status` is NULL. */
void raw_check(const raw *r, OrtStatus *status);

/* A session of the fixture's model on the CPU, with one thread. */
void raw_open(raw *r, const fixture *f);

/* Its two parts, between which `options` can be given a device. */
void raw_open_environment(raw *r, const fixture *f);
/* The first one for a library by its path. */
void raw_open_library(raw *r, const char *path);
void raw_open_session(raw *r, const fixture *f);
void raw_close(raw *r);

/* A float tensor over the caller's memory, which must outlive it. */
OrtValue *raw_tensor(const raw *r, float *data, const int64_t *dims, size_t rank);

/* Begin or end counting, if the library that counts allocations is loaded before all others: "allocations_begin", and
 * "allocations_end". */
void raw_tell_counter(const char *name);

#endif
