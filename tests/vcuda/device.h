/* Shared by the tests of the virtual GPU: work that a test holds back, and work that accesses memory. */
#ifndef TESTS_VCUDA_DEVICE_H
#define TESTS_VCUDA_DEVICE_H

#include <semaphore.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "cuda.h"
#include "vcuda.h"
#include "work.h"

#define OK(call) assert_int_equal(call, CUDA_OK)
#define FAILS(error, call) assert_int_equal(call, error)

/* A host function that blocks until the test opens the gate. Work queued after it cannot run before that. */
typedef struct gate {
  sem_t reached, open;
} gate;

static inline void wait_at_gate(void *data) {
  gate *g = data;
  sem_post(&g->reached);
  while (sem_wait(&g->open) != 0) {
  }
}

static inline void close_gate(gate *g, cuda_stream stream) {
  sem_init(&g->reached, 0, 0);
  sem_init(&g->open, 0, 0);
  OK(cudaLaunchHostFunc(stream, wait_at_gate, g));
}

static inline void open_gate(gate *g) {
  sem_post(&g->open);
}

typedef struct touching {
  void *address;
  size_t bytes;
  int write; /* the byte to write; -1: read */
} touching;

/* For a test whose work really races, which ThreadSanitizer would report. */
static inline void skip_under_thread_sanitizer(void) {
#if defined(__SANITIZE_THREAD__)
  skip();
#endif
}

/* Tests of the race detector need writes that race; these are hidden from ThreadSanitizer. */
__attribute__((no_sanitize_thread)) static inline void run_touching(void *arguments) {
  const touching *t = arguments;
  if (t->write < 0) {
    (void)vcuda_reads(t->address, t->bytes);
    return;
  }
  volatile unsigned char *to = vcuda_writes(t->address, t->bytes);
  for (size_t i = 0; to != NULL && i < t->bytes; i++) to[i] = (unsigned char)t->write;
}

static inline int touch(cuda_stream stream, const char *name, void *address, size_t bytes, int write) {
  const touching t = {address, bytes, write};
  return vcuda_submit(stream, name, run_touching, &t, sizeof t);
}

static inline cuda_stream make_stream(void) {
  cuda_stream stream = NULL;
  OK(cudaStreamCreateWithFlags(&stream, CUDA_STREAM_NON_BLOCKING));
  return stream;
}

static inline void *make_memory(size_t bytes) {
  void *address = NULL;
  OK(cudaMalloc(&address, bytes));
  return address;
}

static inline int first_byte(const void *address) {
  unsigned char byte = 0;
  OK(cudaMemcpy(&byte, address, 1, CUDA_COPY_DOWN));
  return byte;
}

/* A teardown: clear the errors and the setting "race" that the test has left. */
static inline int leave(void **state) {
  (void)state;
  (void)vcuda_recover(0);
  (void)vcuda_set(0, "race", "off");
  (void)cudaGetLastError();
  return 0;
}

#define TEST(name) cmocka_unit_test_teardown(name, leave)

#endif
