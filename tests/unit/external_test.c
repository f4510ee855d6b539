/* Memory and semaphores of other processes, on the virtual accelerator: shared by two of them, ordered on streams, refused where wrong. */
#define _GNU_SOURCE /* memfd_create */
#include "fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "iobind/interop.h"
#include "runtime/runtime.h"
#include "vdev.h"
#include "stage.h"

enum { COUNT = 1024, LATER = 8192, BYTES = LATER + COUNT * sizeof(float) };

static int open_runtime(void **state) {
  (void)stage_open(state);
  device = fixture_device(runtime, "vdev:0");
  return 0;
}

static int make_file(size_t bytes) {
  int file = memfd_create("shared", 0); /* not closed on exec: a child inherits it */
  assert_true(file >= 0);
  assert_int_equal(ftruncate(file, (off_t)bytes), 0);
  return file;
}

static iobind_external external_of(int32_t kind, int file, size_t bytes) {
  iobind_external external = IOBIND_EXTERNAL_INIT;
  external.kind = kind;
  external.handle = (void *)(intptr_t)file;
  external.bytes = bytes;
  return external;
}

static iobind_external_memory *import_memory(int file, size_t bytes) {
  iobind_external external = external_of(IOBIND_EXTERNAL_FD_MEMORY, file, bytes);
  iobind_external_memory *memory;
  expect_ok(iobind_external_memory_import(device, &external, &memory, &fault));
  return memory;
}

static iobind_semaphore *import_semaphore(int file) {
  iobind_external external = external_of(IOBIND_EXTERNAL_FD_SEMAPHORE, file, 0);
  iobind_semaphore *semaphore;
  expect_ok(iobind_semaphore_import(device, &external, &semaphore, &fault));
  return semaphore;
}

static iobind_tensor *view(iobind_external_memory *memory, size_t offset) {
  static const int64_t dims[] = {COUNT};
  iobind_tensor *tensor;
  expect_ok(iobind_external_memory_view(memory, offset, IOBIND_DTYPE_FLOAT32, dims, 1, &tensor, &fault));
  return tensor;
}

static iobind_stream *make_stream(void) {
  iobind_stream *stream;
  expect_ok(iobind_stream_create(device, NULL, &stream, &fault));
  return stream;
}

static const float *ramp(void) {
  static float values[COUNT];
  for (int i = 0; i < COUNT; i++) {
    values[i] = (float)i;
  }
  return values;
}

/* ---- two processes ---- */

/* The second process: once the semaphore says that x is there, z = x + x, on its stream, without a copy. */
static void be_the_peer(int memory_file, int semaphore_file) {
  void *no_spec = NULL;
  (void)open_runtime(&no_spec);
  iobind_external_memory *memory = import_memory(memory_file, BYTES);
  iobind_semaphore *semaphore = import_semaphore(semaphore_file);
  iobind_tensor *x = view(memory, 0);
  iobind_tensor *z = view(memory, LATER);
  iobind_session *session = fixture_session(runtime, device, "add dims=n");
  iobind_stream *stream = make_stream();
  iobind_binding *binding;
  int64_t copied = vdev_get(0, "h2d_bytes") + vdev_get(0, "d2h_bytes");
  expect_ok(iobind_binding_create(session, &binding, &fault));
  expect_ok(iobind_stream_wait_semaphore(stream, semaphore, 1, &fault));
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
  expect_ok(iobind_binding_set_input(binding, 1, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
  expect_ok(iobind_binding_set_output(binding, 0, z, 0, &fault));
  expect_ok(iobind_binding_run(binding, stream, &fault));
  expect_ok(iobind_stream_signal_semaphore(stream, semaphore, 2, &fault));
  expect_ok(iobind_stream_synchronize(stream, &fault));
  assert_int_equal(vdev_get(0, "h2d_bytes") + vdev_get(0, "d2h_bytes"), copied);
  iobind_binding_destroy(binding);
  iobind_stream_destroy(stream);
  iobind_session_destroy(session);
  iobind_tensor_release(x);
  iobind_tensor_release(z);
  iobind_semaphore_destroy(semaphore);
  iobind_external_memory_destroy(memory);
  (void)stage_close(NULL);
}

static void the_peer(void **state) {
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

static void two_processes_share_memory(void **state) {
  (void)state;
  int memory_file = make_file(BYTES);
  int closed_on_exec = vdev_semaphore_create(0);
  int semaphore_file = dup(closed_on_exec);
  pid_t child = start_peer(memory_file, semaphore_file);
  assert_true(child > 0);
  iobind_external_memory *memory = import_memory(memory_file, BYTES);
  iobind_semaphore *semaphore = import_semaphore(semaphore_file);
  iobind_tensor *x = view(memory, 0);
  iobind_tensor *z = view(memory, LATER);
  iobind_stream *stream = make_stream();
  static float result[COUNT];
  expect_ok(iobind_tensor_write(x, 0, ramp(), COUNT * sizeof(float), stream, &fault));
  expect_ok(iobind_stream_signal_semaphore(stream, semaphore, 1, &fault));
  expect_ok(iobind_stream_wait_semaphore(stream, semaphore, 2, &fault));
  expect_ok(iobind_tensor_read(z, 0, result, sizeof result, stream, &fault));
  int ended = 0;
  assert_int_equal(waitpid(child, &ended, 0), child); /* a peer that fails does not leave this process waiting */
  assert_true(WIFEXITED(ended));
  assert_int_equal(WEXITSTATUS(ended), 0);
  expect_ok(iobind_stream_synchronize(stream, &fault));
  for (int i = 0; i < COUNT; i++) {
    assert_true(result[i] == 2 * (float)i);
  }
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

/* Two streams of one process, whose copies the host does not wait for, without an event: the race detector takes the semaphore for their
 * order. */
static void streams_are_ordered(void **state) {
  (void)state;
  static const int64_t dims[] = {COUNT};
  int file = vdev_semaphore_create(5);
  iobind_semaphore *semaphore = import_semaphore(file);
  close(file);
  iobind_tensor *pinned;
  expect_ok(iobind_tensor_create(device, IOBIND_MEMORY_HOST_ACCESSIBLE, IOBIND_DTYPE_FLOAT32, dims, 1, &pinned, &fault));
  expect_ok(iobind_tensor_write(pinned, 0, ramp(), COUNT * sizeof(float), NULL, &fault));
  static const float zeros[COUNT];
  iobind_tensor *middle = fixture_floats(device, zeros, COUNT);
  iobind_tensor *last = fixture_floats(device, zeros, COUNT);
  iobind_stream *first = make_stream();
  iobind_stream *second = make_stream();
  assert_int_equal(vdev_set(0, "race", "fail"), 0);
  assert_int_equal(vdev_set(0, "delay_copy", "every:1,us:2000"), 0);
  expect_ok(iobind_tensor_copy((const iobind_tensor *const[]){pinned}, (iobind_tensor *const[]){middle}, 1, first, &fault));
  expect_ok(iobind_stream_signal_semaphore(first, semaphore, 6, &fault));
  expect_ok(iobind_stream_wait_semaphore(second, semaphore, 6, &fault));
  expect_ok(iobind_tensor_copy((const iobind_tensor *const[]){middle}, (iobind_tensor *const[]){last}, 1, second, &fault));
  expect_ok(iobind_stream_synchronize(second, &fault));
  assert_int_equal(vdev_set(0, "delay_copy", "0"), 0);
  assert_int_equal(vdev_set(0, "race", "off"), 0);
  static float result[COUNT];
  expect_ok(iobind_tensor_read(last, 0, result, sizeof result, NULL, &fault));
  assert_memory_equal(result, ramp(), sizeof result);
  iobind_semaphore_destroy(semaphore);
  iobind_stream_destroy(first);
  iobind_stream_destroy(second);
  iobind_tensor_release(pinned);
  iobind_tensor_release(middle);
  iobind_tensor_release(last);
}

/* A wait comes before its signal, which is the host's here; a wait with a limit goes on without it. */
static void wait_before_the_signal(void **state) {
  (void)state;
  int file = vdev_semaphore_create(0);
  iobind_semaphore *semaphore = import_semaphore(file);
  iobind_stream *stream = make_stream();
  iobind_event *event;
  expect_ok(iobind_event_create(device, &event, &fault));
  expect_ok(iobind_stream_wait_semaphore(stream, semaphore, 3, &fault));
  expect_ok(iobind_event_record(event, stream, &fault));
  expect(IOBIND_ERROR_TIMEOUT, iobind_event_wait(event, 1000000, &fault));
  assert_int_equal(vdev_semaphore_wait(file, 3, 0), 0);
  assert_int_equal(vdev_semaphore_signal(file, 2), 0);
  assert_int_equal(vdev_semaphore_signal(file, 3), 0);
  expect_ok(iobind_event_wait(event, IOBIND_NO_TIMEOUT, &fault));
  assert_int_equal(vdev_semaphore_wait(file, 3, -1), 1);
  assert_int_equal(vdev_semaphore_signal(file, 3), -1);
  assert_non_null(strstr(vdev_last_error(), "only grows"));
  /* on a stream such a signal is the stream's failure */
  expect_ok(iobind_stream_signal_semaphore(stream, semaphore, 1, &fault));
  expect(IOBIND_ERROR_RUNTIME, iobind_stream_synchronize(stream, &fault));
  expect_words("only grows");
  iobind_event_destroy(event);
  iobind_stream_destroy(stream);
  iobind_semaphore_destroy(semaphore);
  close(file);
}

/* Its owner lets go of a semaphore that a stream waits for: it goes when the stream has passed it. */
static void stream_keeps_the_semaphore(void **state) {
  (void)state;
  int file = vdev_semaphore_create(0);
  iobind_stream *stream = make_stream();
  iobind_semaphore *semaphore = import_semaphore(file);
  unsigned long held = (unsigned long)atomic_load(&runtime->ref.count); /* the semaphore holds the runtime */
  expect_ok(iobind_stream_wait_semaphore(stream, semaphore, 1, &fault));
  iobind_semaphore_destroy(semaphore);
  assert_int_equal((unsigned long)atomic_load(&runtime->ref.count), held);
  assert_int_equal(vdev_semaphore_signal(file, 1), 0);
  expect_ok(iobind_stream_synchronize(stream, &fault));
  assert_int_equal((unsigned long)atomic_load(&runtime->ref.count), held - 1);
  iobind_stream_destroy(stream);
  close(file);
}

/* The memory goes with its last tensor; what is written there stays in the file, and nothing of it counts as the device's. */
static void tensors_keep_the_memory(void **state) {
  (void)state;
  int file = make_file(BYTES);
  int64_t live = vdev_get(0, "live_bytes");
  for (int round = 0; round < 3; round++) {
    iobind_external_memory *memory = import_memory(file, BYTES);
    iobind_tensor *tensor = view(memory, LATER);
    iobind_tensor *part;
    iobind_external_memory_destroy(memory);
    expect_ok(iobind_tensor_slice(tensor, 4, 4, &part, &fault));
    iobind_tensor_release(tensor);
    expect_ok(iobind_tensor_write(part, 0, ramp(), 4 * sizeof(float), NULL, &fault));
    assert_int_equal(vdev_get(0, "live_bytes"), live);
    iobind_tensor_release(part);
  }
  const unsigned char *mapped = mmap(NULL, BYTES, PROT_READ, MAP_SHARED, file, 0);
  assert_true(mapped != MAP_FAILED);
  assert_memory_equal(mapped + LATER + 4 * sizeof(float), ramp(), 4 * sizeof(float));
  munmap((void *)(uintptr_t)mapped, BYTES);
  close(file);
}

static void probes(void **state) {
  (void)state;
  for (int32_t kind = IOBIND_EXTERNAL_FD_MEMORY; kind <= IOBIND_EXTERNAL_D3D12_FENCE; kind++) {
    bool file = kind == IOBIND_EXTERNAL_FD_MEMORY || kind == IOBIND_EXTERNAL_FD_SEMAPHORE;
    expect(file ? IOBIND_OK : IOBIND_ERROR_NOT_SUPPORTED, iobind_device_check_import(device, kind, &fault));
    expect(IOBIND_ERROR_NOT_SUPPORTED, iobind_device_check_import(cpu, kind, &fault));
    expect_words("'cpu'");
  }
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_device_check_import(device, 0, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_device_check_import(device, 8, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_device_check_import(NULL, 1, &fault));
}

static void memory_is_refused(void **state) {
  (void)state;
  static const int64_t dims[] = {COUNT};
  static const int64_t many[] = {INT64_MAX, 8};
  int file = make_file(BYTES);
  iobind_external right = external_of(IOBIND_EXTERNAL_FD_MEMORY, file, BYTES);
  iobind_external wrong[] = {external_of(IOBIND_EXTERNAL_FD_MEMORY, file, 0),
                             external_of(IOBIND_EXTERNAL_FD_MEMORY, -1, BYTES),
                             external_of(IOBIND_EXTERNAL_D3D12_HEAP, 0, BYTES),
                             external_of(IOBIND_EXTERNAL_FD_SEMAPHORE, file, BYTES),
                             external_of(0, file, BYTES),
                             external_of(99, file, BYTES)};
  iobind_external_memory *memory = (iobind_external_memory *)&right;
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_external_memory_import(device, &wrong[i], &memory, &fault));
    assert_null(memory);
  }
  iobind_external no_int = right; /* of which the driver would take the lower half: another file */
  no_int.handle = (void *)(uintptr_t)(((uint64_t)1 << 32) + (uint64_t)file);
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_external_memory_import(device, &no_int, &memory, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_external_memory_import(NULL, &right, &memory, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_external_memory_import(device, NULL, &memory, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_external_memory_import(device, &right, NULL, &fault));
  right.kind = IOBIND_EXTERNAL_WIN32_MEMORY;
  expect(IOBIND_ERROR_NOT_SUPPORTED, iobind_external_memory_import(device, &right, &memory, &fault));
  right.kind = IOBIND_EXTERNAL_FD_MEMORY;
  right.bytes = BYTES + 1;
  expect(IOBIND_ERROR_RUNTIME, iobind_external_memory_import(device, &right, &memory, &fault));
  expect_words("cannot be imported");
  right.handle = (void *)(intptr_t)1234;
  expect(IOBIND_ERROR_RUNTIME, iobind_external_memory_import(device, &right, &memory, &fault));

  iobind_tensor *tensor;
  memory = import_memory(file, BYTES);
  expect(IOBIND_ERROR_INVALID_ARGUMENT,
         iobind_external_memory_view(memory, LATER + 4, IOBIND_DTYPE_FLOAT32, dims, 1, &tensor, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT,
         iobind_external_memory_view(memory, SIZE_MAX, IOBIND_DTYPE_FLOAT32, dims, 1, &tensor, &fault));
  expect(IOBIND_ERROR_SHAPE, iobind_external_memory_view(memory, 0, IOBIND_DTYPE_FLOAT32, many, 2, &tensor, &fault));
  expect(IOBIND_ERROR_DTYPE, iobind_external_memory_view(memory, 0, IOBIND_DTYPE_STRING, dims, 1, &tensor, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_external_memory_view(NULL, 0, IOBIND_DTYPE_FLOAT32, dims, 1, &tensor, &fault));
  assert_null(tensor);
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_external_memory_view(memory, 0, IOBIND_DTYPE_FLOAT32, dims, 1, NULL, &fault));
  iobind_external_memory_destroy(memory);
  iobind_external_memory_destroy(NULL);
  close(file);
}

static void semaphores_are_refused(void **state) {
  (void)state;
  int file = make_file(BYTES);
  int semaphore_file = vdev_semaphore_create(0);
  iobind_semaphore *semaphore;
  iobind_external external = external_of(IOBIND_EXTERNAL_FD_SEMAPHORE, file, 0);
  expect(IOBIND_ERROR_RUNTIME, iobind_semaphore_import(device, &external, &semaphore, &fault));
  expect_words("not a semaphore");
  assert_null(semaphore);
  assert_int_equal(vdev_semaphore_signal(file, 1), -1);
  assert_int_equal(vdev_semaphore_wait(-1, 1, 0), -1);
  external.bytes = 8;
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_semaphore_import(device, &external, &semaphore, &fault));
  external.kind = IOBIND_EXTERNAL_FD_MEMORY;
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_semaphore_import(device, &external, &semaphore, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_semaphore_import(device, NULL, &semaphore, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_semaphore_import(NULL, &external, &semaphore, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_semaphore_import(device, &external, NULL, &fault));

  semaphore = import_semaphore(semaphore_file);
  iobind_stream *stream = make_stream();
  iobind_stream *host;
  expect_ok(iobind_stream_create(iobind_runtime_get_device(runtime, 0), NULL, &host, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_stream_wait_semaphore(NULL, semaphore, 1, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_stream_wait_semaphore(stream, NULL, 1, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_stream_signal_semaphore(NULL, semaphore, 1, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_stream_signal_semaphore(stream, NULL, 1, &fault));
  expect(IOBIND_ERROR_WRONG_DEVICE, iobind_stream_wait_semaphore(host, semaphore, 1, &fault));
  expect(IOBIND_ERROR_WRONG_DEVICE, iobind_stream_signal_semaphore(host, semaphore, 1, &fault));
  iobind_stream_destroy(host);
  iobind_stream_destroy(stream);
  iobind_semaphore_destroy(semaphore);
  iobind_semaphore_destroy(NULL);
  close(file);
  close(semaphore_file);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(two_processes_share_memory),
    cmocka_unit_test(streams_are_ordered),
    cmocka_unit_test(wait_before_the_signal),
    cmocka_unit_test(tensors_keep_the_memory),
    cmocka_unit_test(probes),
    cmocka_unit_test(memory_is_refused),
    cmocka_unit_test(semaphores_are_refused),
    cmocka_unit_test(stream_keeps_the_semaphore),
};
static const struct CMUnitTest peer[] = {cmocka_unit_test(the_peer)};

int main(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "the_peer") == 0) {
    return cmocka_run_group_tests(peer, NULL, NULL);
  }
  if (argc > 1) {
    cmocka_set_test_filter(argv[1]);
  }
  return cmocka_run_group_tests(cases, open_runtime, stage_close);
}
