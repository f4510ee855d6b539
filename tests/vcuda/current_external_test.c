/* Memory and semaphores of other libraries on one GPU while the other one is current. */
#define _GNU_SOURCE /* memfd_create */
#include "current.h"

#include <sys/mman.h>
#include <unistd.h>

static iobind_external memory_of(void) {
  iobind_external external = IOBIND_EXTERNAL_INIT;
  int file = memfd_create("shared", MFD_CLOEXEC);
  assert_true(file >= 0);
  assert_int_equal(ftruncate(file, sizeof unit), 0);
  external.kind = IOBIND_EXTERNAL_FD_MEMORY;
  external.handle = (void *)(intptr_t)file;
  external.bytes = sizeof unit;
  return external;
}

static iobind_external semaphore_of(uint64_t value) {
  iobind_external external = IOBIND_EXTERNAL_INIT;
  external.kind = IOBIND_EXTERNAL_FD_SEMAPHORE;
  external.handle = (void *)(intptr_t)vcuda_semaphore_create(value);
  return external;
}

static iobind_semaphore *make_semaphore(const world *w, uint64_t value) {
  iobind_external external = semaphore_of(value);
  iobind_semaphore *made = NULL;
  expect_ok(iobind_semaphore_import(w->device, &external, &made, &fault));
  return made;
}

static void device_check_import(int own) {
  world w = make_world(own);
  ELSEWHERE(own, iobind_device_check_import(w.device, IOBIND_EXTERNAL_FD_MEMORY, &fault));
  ELSEWHERE(own, iobind_device_check_import(w.device, IOBIND_EXTERNAL_FD_SEMAPHORE, &fault));
  end_world(&w);
}

/* The memory belongs to its device whichever device was current at the import: a run computes there. */
static void external_memory_import(int own) {
  world w = make_world(own);
  iobind_external external = memory_of();
  iobind_external_memory *memory = NULL;
  iobind_tensor *x = NULL;
  ELSEWHERE(own, iobind_external_memory_import(w.device, &external, &memory, &fault));
  expect_ok(iobind_external_memory_view(memory, 0, IOBIND_DTYPE_FLOAT32, square, 2, &x, &fault));
  expect_ok(iobind_tensor_write(x, 0, values, sizeof values, NULL, &fault));
  bind_input(w.binding, 0, x);
  expect_ok(iobind_binding_run(w.binding, NULL, &fault));
  expect_matrix(w.z, values);
  iobind_tensor_release(x);
  iobind_external_memory_destroy(memory);
  end_world(&w);
}

static void external_memory_view(int own) {
  world w = make_world(own);
  iobind_external external = memory_of();
  iobind_external_memory *memory = NULL;
  iobind_tensor *x = NULL;
  expect_ok(iobind_external_memory_import(w.device, &external, &memory, &fault));
  ELSEWHERE(own, iobind_external_memory_view(memory, 0, IOBIND_DTYPE_FLOAT32, square, 2, &x, &fault));
  expect_ok(iobind_tensor_write(x, 0, others, sizeof others, NULL, &fault));
  expect_matrix(x, others);
  iobind_tensor_release(x);
  iobind_external_memory_destroy(memory);
  end_world(&w);
}

static void external_memory_destroy(int own) {
  world w = make_world(own);
  iobind_external external = memory_of();
  iobind_external_memory *memory = NULL;
  int64_t live = vcuda_get(own, "live_bytes");
  expect_ok(iobind_external_memory_import(w.device, &external, &memory, &fault));
  ELSEWHERE_VOID(own, iobind_external_memory_destroy(memory));
  assert_int_equal(vcuda_get(own, "live_bytes"), live);
  end_world(&w);
}

static void semaphore_import(int own) {
  world w = make_world(own);
  iobind_external external = semaphore_of(3);
  iobind_semaphore *semaphore = NULL;
  ELSEWHERE(own, iobind_semaphore_import(w.device, &external, &semaphore, &fault));
  expect_ok(iobind_stream_wait_semaphore(w.stream, semaphore, 3, &fault));
  synchronize(&w);
  iobind_semaphore_destroy(semaphore);
  end_world(&w);
}

static void semaphore_destroy(int own) {
  world w = make_world(own);
  iobind_semaphore *semaphore = make_semaphore(&w, 0);
  ELSEWHERE_VOID(own, iobind_semaphore_destroy(semaphore));
  end_world(&w);
}

static void stream_wait_semaphore(int own) {
  world w = make_world(own);
  iobind_semaphore *semaphore = make_semaphore(&w, 1);
  ELSEWHERE(own, iobind_stream_wait_semaphore(w.stream, semaphore, 1, &fault));
  synchronize(&w);
  iobind_semaphore_destroy(semaphore);
  end_world(&w);
}

static void stream_signal_semaphore(int own) {
  world w = make_world(own);
  iobind_semaphore *semaphore = make_semaphore(&w, 0);
  ELSEWHERE(own, iobind_stream_signal_semaphore(w.stream, semaphore, 4, &fault));
  expect_ok(iobind_stream_wait_semaphore(w.stream, semaphore, 4, &fault));
  synchronize(&w);
  iobind_semaphore_destroy(semaphore);
  end_world(&w);
}

static const struct CMUnitTest tests[] = {
    ROW(device_check_import), ROW(external_memory_import), ROW(external_memory_view),  ROW(external_memory_destroy),
    ROW(semaphore_import),    ROW(semaphore_destroy),      ROW(stream_wait_semaphore), ROW(stream_signal_semaphore),
};

FIXTURE_MAIN(tests, NULL, NULL);
