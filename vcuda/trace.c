/* A record of calls and of executed work, made while the setting "trace" is 1 and written as a Chrome trace. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "state.h"
#include "vcuda.h"

typedef struct record {
  char name[64]; /* the longest name of a CUDA function has 55 characters */
  const void *stream;
  int64_t start, end;
  int agent; /* 0: a call of the host */
  int error; /* error of a call, or status of cuBLAS and other libraries; 0 if the function returns neither */
} record;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static record *records;
static size_t count, capacity;

static atomic_bool is_on; /* every call reads it without the lock */

bool vcuda_trace_is_on(void) {
  return atomic_load_explicit(&is_on, memory_order_relaxed);
}

void vcuda_trace_follow_settings(void) {
  const vcuda_state *state = &vcuda_global;
  atomic_store_explicit(&is_on, state->device_count > 0 && state->devices[0].settings.trace != 0, memory_order_relaxed);
}

static void add(const record *new) {
  (void)pthread_mutex_lock(&lock);
  if (count == capacity) {
    size_t more = capacity == 0 ? 1024 : 2 * capacity;
    record *list = realloc(records, more * sizeof *list);
    if (list != NULL) {
      records = list;
      capacity = more;
    }
  }
  if (count < capacity) records[count++] = *new;
  (void)pthread_mutex_unlock(&lock);
}

void vcuda_trace_call(const vcuda_call *call, int error) {
  if (call->start == 0) return; /* the trace was off */
  record new = {.stream = call->stream, .start = call->start, .end = vcuda_now(), .error = error};
  snprintf(new.name, sizeof new.name, "%s", call->name);
  add(&new);
}

void vcuda_trace_work(const vcuda_stream *stream, const char *name, int64_t start, int64_t end) {
  if (!vcuda_trace_is_on()) return;
  record new = {.stream = stream, .start = start, .end = end, .agent = stream->agent};
  snprintf(new.name, sizeof new.name, "%s", name);
  add(&new);
}

int vcuda_trace_write(const char *path) {
  FILE *file = fopen(path, "w");
  if (file == NULL) return -1;
  (void)pthread_mutex_lock(&lock);
  fputs("{\"traceEvents\":[", file);
  for (size_t i = 0; i < count; i++) {
    const record *r = &records[i];
    fprintf(
        file,
        "%s\n{\"ph\":\"X\",\"pid\":1,\"tid\":%d,\"ts\":%lld.%03d,\"dur\":%lld.%03d,\"name\":\"%s\",\"args\":{\"stream\":\"%p\",\"error\":%d}}",
        i == 0 ? "" : ",", r->agent, (long long)(r->start / 1000), (int)(r->start % 1000),
        (long long)((r->end - r->start) / 1000), (int)((r->end - r->start) % 1000), r->name, r->stream, r->error);
  }
  (void)pthread_mutex_unlock(&lock);
  fputs("\n]}\n", file);
  return fclose(file) == 0 ? 0 : -1;
}
