#define _GNU_SOURCE /* memfd_create */
#include "external.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- objects ---- */

int make_file(void) {
  int file = memfd_create("shared", 0); /* not closed on exec: a child inherits it */
  assert_true(file >= 0);
  assert_int_equal(ftruncate(file, BYTES), 0);
  return file;
}

iobind_external external_of(int32_t kind, int file, size_t bytes) {
  iobind_external external = IOBIND_EXTERNAL_INIT;
  external.kind = kind;
  external.handle = (void *)(intptr_t)(product.owns_files ? dup(file) : file);
  external.bytes = bytes;
  return external;
}

iobind_external_memory *import_memory(int file) {
  iobind_external external = external_of(IOBIND_EXTERNAL_FD_MEMORY, file, BYTES);
  iobind_external_memory *memory;
  expect_ok(iobind_external_memory_import(device, &external, &memory, &fault));
  return memory;
}

iobind_semaphore *import_semaphore(int file) {
  iobind_external external = external_of(IOBIND_EXTERNAL_FD_SEMAPHORE, file, 0);
  iobind_semaphore *semaphore;
  expect_ok(iobind_semaphore_import(device, &external, &semaphore, &fault));
  return semaphore;
}

iobind_tensor *view(iobind_external_memory *memory, size_t offset) {
  static const int64_t dims[] = {COUNT};
  iobind_tensor *tensor;
  expect_ok(iobind_external_memory_view(memory, offset, IOBIND_DTYPE_FLOAT32, dims, 1, &tensor, &fault));
  return tensor;
}

iobind_stream *make_stream(void) {
  iobind_stream *stream;
  expect_ok(iobind_stream_create(device, NULL, &stream, &fault));
  return stream;
}

const float *ramp(void) {
  static float values[COUNT];
  for (int i = 0; i < COUNT; i++) values[i] = (float)i;
  return values;
}

/* ---- two processes ---- */

static int64_t crossed(void) {
  return product.get(0, "h2d_bytes") + product.get(0, "d2h_bytes");
}

/* Once the semaphore says that x is there, z = x + x, on a stream, without a copy. */
static void be_the_peer(int memory_file, int semaphore_file) {
  iobind_external_memory *memory = import_memory(memory_file);
  iobind_semaphore *semaphore = import_semaphore(semaphore_file);
  iobind_tensor *x = view(memory, 0);
  iobind_tensor *z = view(memory, LATER);
  iobind_session *session = fixture_session(runtime, device, "add dims=n");
  iobind_stream *stream = make_stream();
  iobind_binding *binding;
  int64_t before = crossed();
  expect_ok(iobind_binding_create(session, &binding, &fault));
  expect_ok(iobind_stream_wait_semaphore(stream, semaphore, 1, &fault));
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
  expect_ok(iobind_binding_set_input(binding, 1, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
  expect_ok(iobind_binding_set_output(binding, 0, z, 0, &fault));
  expect_ok(iobind_binding_run(binding, stream, &fault));
  expect_ok(iobind_stream_signal_semaphore(stream, semaphore, 2, &fault));
  expect_ok(iobind_stream_synchronize(stream, &fault));
  assert_int_equal(crossed(), before);
  iobind_binding_destroy(binding);
  iobind_stream_destroy(stream);
  iobind_session_destroy(session);
  iobind_tensor_release(x);
  iobind_tensor_release(z);
  iobind_semaphore_destroy(semaphore);
  iobind_external_memory_destroy(memory);
}

void the_peer(void **state) {
  (void)state;
  const char *memory_file = getenv("TEST_MEMORY");
  const char *semaphore_file = getenv("TEST_SEMAPHORE");
  if (memory_file == NULL || semaphore_file == NULL) {
    fail_msg("this test is a part of another one");
    return;
  }
  be_the_peer(atoi(memory_file), atoi(semaphore_file));
}

static pid_t start_peer(int memory_file, int semaphore_file) {
  char numbers[2][16];
  char program[4096] = ""; /* iobind looks for ORT beside the program, by the name that this is started with */
  assert_true(readlink("/proc/self/exe", program, sizeof program - 1) > 0);
  snprintf(numbers[0], sizeof numbers[0], "%d", memory_file);
  snprintf(numbers[1], sizeof numbers[1], "%d", semaphore_file);
  setenv("TEST_MEMORY", numbers[0], 1);
  setenv("TEST_SEMAPHORE", numbers[1], 1);
  pid_t child = fork();
  if (child == 0) {
    execl(program, program, "the_peer", NULL);
    _exit(127);
  }
  return child;
}

void two_processes_share_memory(void **state) {
  (void)state;
  int memory_file = make_file();
  int closed_on_exec = product.semaphore_create(0);
  int semaphore_file = dup(closed_on_exec);
  pid_t child = start_peer(memory_file, semaphore_file);
  assert_true(child > 0);
  iobind_external_memory *memory = import_memory(memory_file);
  iobind_semaphore *semaphore = import_semaphore(semaphore_file);
  iobind_tensor *x = view(memory, 0);
  iobind_tensor *z = view(memory, LATER);
  iobind_stream *stream = make_stream();
  static float result[COUNT];
  expect_ok(iobind_tensor_write(x, 0, ramp(), COUNT * sizeof(float), stream, &fault));
  expect_ok(iobind_stream_signal_semaphore(stream, semaphore, 1, &fault));
  int ended = 0;
  assert_int_equal(waitpid(child, &ended, 0), child); /* a peer that fails does not leave this process waiting */
  assert_true(WIFEXITED(ended));
  assert_int_equal(WEXITSTATUS(ended), 0);
  expect_ok(iobind_stream_wait_semaphore(stream, semaphore, 2, &fault));
  expect_ok(iobind_tensor_read(z, 0, result, sizeof result, stream, &fault));
  expect_ok(iobind_stream_synchronize(stream, &fault));
  for (int i = 0; i < COUNT; i++) assert_true(result[i] == 2 * (float)i);
  iobind_stream_destroy(stream);
  iobind_tensor_release(x);
  iobind_tensor_release(z);
  iobind_semaphore_destroy(semaphore);
  iobind_external_memory_destroy(memory);
  close(memory_file);
  close(semaphore_file);
  close(closed_on_exec);
}

/* ---- one process ---- */

/* The signal is the other library's here; a wait with a limit goes on without it. */
void wait_before_the_signal(void **state) {
  (void)state;
  int file = product.semaphore_create(0);
  iobind_semaphore *semaphore = import_semaphore(file);
  iobind_stream *stream = make_stream();
  iobind_event *event;
  expect_ok(iobind_event_create(device, &event, &fault));
  expect_ok(iobind_stream_wait_semaphore(stream, semaphore, 3, &fault));
  expect_ok(iobind_event_record(event, stream, &fault));
  expect(IOBIND_ERROR_TIMEOUT, iobind_event_wait(event, 1000000, &fault));
  assert_int_equal(product.semaphore_signal(file, 2), 0);
  assert_false(product.semaphore_has(file, 3));
  assert_int_equal(product.semaphore_signal(file, 3), 0);
  expect_ok(iobind_event_wait(event, IOBIND_NO_TIMEOUT, &fault));
  expect_ok(iobind_stream_signal_semaphore(stream, semaphore, 7, &fault));
  iobind_semaphore_destroy(semaphore); /* the stream keeps it */
  expect_ok(iobind_stream_synchronize(stream, &fault));
  assert_true(product.semaphore_has(file, 7));
  assert_false(product.semaphore_has(file, 8));
  iobind_event_destroy(event);
  iobind_stream_destroy(stream);
  close(file);
}

/* The memory goes with its last tensor, and what is written there stays in the file. */
void tensors_keep_the_memory(void **state) {
  (void)state;
  int file = make_file();
  int64_t live = product.get(0, "live_bytes");
  for (int round = 0; round < 3; round++) {
    iobind_external_memory *memory = import_memory(file);
    iobind_tensor *tensor = view(memory, LATER);
    iobind_tensor *part;
    iobind_external_memory_destroy(memory);
    expect_ok(iobind_tensor_slice(tensor, 4, 4, &part, &fault));
    iobind_tensor_release(tensor);
    expect_ok(iobind_tensor_write(part, 0, ramp(), 4 * sizeof(float), NULL, &fault));
    assert_int_equal(product.get(0, "live_bytes") > live, product.counts_memory);
    iobind_tensor_release(part);
    assert_int_equal(product.get(0, "live_bytes"), live);
  }
  const unsigned char *mapped = mmap(NULL, BYTES, PROT_READ, MAP_SHARED, file, 0);
  assert_true(mapped != MAP_FAILED);
  assert_memory_equal(mapped + LATER + 4 * sizeof(float), ramp(), 4 * sizeof(float));
  munmap((void *)(uintptr_t)mapped, BYTES);
  close(file);
}
