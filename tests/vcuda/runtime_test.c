/* vcuda's CUDA runtime without ONNX Runtime: memory, streams, events, faults, counters, the trace. */
#define _GNU_SOURCE /* memfd_create */

#include "device.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void memory_faults_where_the_host_touches_it(void **state) {
  (void)state;
  volatile char *address = make_memory(64);
  pid_t child = fork();
  if (child == 0) {
    (void)signal(SIGSEGV, SIG_DFL);
    address[3] = 1;
    _exit(0);
  }
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFSIGNALED(status));
  assert_int_equal(WTERMSIG(status), SIGSEGV);
  OK(cudaFree((void *)(uintptr_t)address));
}

static void new_memory_is_poisoned(void **state) {
  (void)state;
  void *address = make_memory(16);
  assert_int_not_equal(first_byte(address), 0);
  OK(cudaMemset(address, 7, 16));
  assert_int_equal(first_byte(address), 7);
  OK(cudaFree(address));
}

static void a_copy_outside_its_block_is_refused(void **state) {
  (void)state;
  char host[64];
  char *address = make_memory(32);
  FAILS(CUDA_INVALID_VALUE, cudaMemcpy(host, address, 33, CUDA_COPY_DOWN));
  FAILS(CUDA_INVALID_VALUE, cudaMemcpy(host, address, 16, CUDA_COPY_UP)); /* the wrong direction */
  OK(cudaFree(address));
  FAILS(CUDA_INVALID_VALUE, cudaMemcpy(host, address, 4, CUDA_COPY_DOWN));
  FAILS(CUDA_INVALID_VALUE, cudaFree(address));
  OK(cudaFree(NULL));
}

static void work_outside_its_block_is_a_sticky_error(void **state) {
  (void)state;
  cuda_stream stream = make_stream();
  char *address = make_memory(32);
  OK(touch(stream, "overrun", address + 16, 17, 1));
  FAILS(CUDA_ILLEGAL_ADDRESS, cudaStreamSynchronize(stream));
  assert_non_null(strstr(vcuda_last_message(), "overrun"));
  void *more;
  FAILS(CUDA_ILLEGAL_ADDRESS, cudaMalloc(&more, 8));
  assert_int_equal(vcuda_recover(0), CUDA_ILLEGAL_ADDRESS);
  OK(cudaMalloc(&more, 8));
  OK(cudaFree(more));
  OK(cudaFree(address));
  OK(cudaStreamDestroy(stream));
}

static void freed_addresses_are_not_used_again_at_once(void **state) {
  (void)state;
  cuda_stream stream = make_stream();
  void *first = make_memory(32);
  OK(cudaFree(first));
  void *second = make_memory(32);
  assert_ptr_not_equal(first, second);
  OK(touch(stream, "late", first, 32, -1));
  FAILS(CUDA_ILLEGAL_ADDRESS, cudaStreamSynchronize(stream));
  (void)vcuda_recover(0);
  OK(cudaFree(second));
  OK(cudaStreamDestroy(stream));
}

static void memory_runs_out(void **state) {
  (void)state;
  size_t available, total;
  void *address;
  OK(cudaMemGetInfo(&available, &total));
  FAILS(CUDA_OUT_OF_MEMORY, cudaMalloc(&address, total + 1));
  FAILS(CUDA_OUT_OF_MEMORY, cudaGetLastError());
  OK(cudaGetLastError()); /* the error was not sticky */
}

static void pointers_are_told_apart(void **state) {
  (void)state;
  cuda_pointer told;
  int on_stack;
  void *pinned, *address = make_memory(8);
  OK(cudaMallocHost(&pinned, 8));
  OK(cudaPointerGetAttributes(&told, address));
  assert_int_equal(told.type, CUDA_MEMORY_DEVICE);
  OK(cudaPointerGetAttributes(&told, pinned));
  assert_int_equal(told.type, CUDA_MEMORY_HOST);
  OK(cudaPointerGetAttributes(&told, &on_stack));
  assert_int_equal(told.type, CUDA_MEMORY_UNREGISTERED);
  OK(cudaFreeHost(pinned));
  OK(cudaFree(address));
}

static void memory_of_a_pool_is_freed_in_order(void **state) {
  (void)state;
  gate g;
  cuda_stream stream = make_stream();
  void *address;
  OK(cudaMallocAsync(&address, 64, stream));
  close_gate(&g, stream);
  OK(touch(stream, "before", address, 64, 1));
  OK(cudaFreeAsync(address, stream));
  open_gate(&g);
  OK(cudaStreamSynchronize(stream));
  OK(touch(stream, "after", address, 64, 1));
  FAILS(CUDA_ILLEGAL_ADDRESS, cudaStreamSynchronize(stream));
  (void)vcuda_recover(0);
  OK(cudaStreamDestroy(stream));
}

static void a_stream_keeps_its_order(void **state) {
  (void)state;
  cuda_stream stream = make_stream();
  void *address = make_memory(8);
  for (int i = 0; i < 3000; i++) OK(touch(stream, "write", address, 8, i % 251)); /* more than a queue holds */
  OK(cudaStreamSynchronize(stream));
  assert_int_equal(first_byte(address), 2999 % 251);
  OK(cudaFree(address));
  OK(cudaStreamDestroy(stream));
}

static void blocking_streams_and_the_null_stream_wait_for_each_other(void **state) {
  (void)state;
  gate g;
  cuda_stream blocking;
  cuda_event event;
  OK(cudaStreamCreate(&blocking));
  OK(cudaEventCreate(&event));
  close_gate(&g, blocking);
  OK(cudaEventRecord(event, NULL)); /* after the blocking stream's work */
  FAILS(CUDA_NOT_READY, cudaEventQuery(event));
  open_gate(&g);
  OK(cudaEventSynchronize(event));
  close_gate(&g, NULL);
  OK(cudaEventRecord(event, blocking)); /* after the NULL stream's work */
  FAILS(CUDA_NOT_READY, cudaEventQuery(event));
  FAILS(CUDA_NOT_READY, cudaStreamQuery(blocking));
  open_gate(&g);
  OK(cudaStreamSynchronize(blocking));
  OK(cudaEventQuery(event));
  OK(cudaEventDestroy(event));
  OK(cudaStreamDestroy(blocking));
}

static void a_non_blocking_stream_does_not_wait_for_the_null_stream(void **state) {
  (void)state;
  gate g;
  cuda_stream stream = make_stream();
  void *address = make_memory(8);
  close_gate(&g, NULL);
  OK(touch(stream, "free", address, 8, 1));
  OK(cudaStreamSynchronize(stream));
  open_gate(&g);
  OK(cudaDeviceSynchronize());
  OK(cudaFree(address));
  OK(cudaStreamDestroy(stream));
}

static void a_stream_waits_for_an_event(void **state) {
  (void)state;
  gate g;
  cuda_stream one = make_stream(), other = make_stream();
  cuda_event event;
  void *address = make_memory(8);
  OK(cudaEventCreateWithFlags(&event, CUDA_EVENT_NO_TIMING));
  OK(cudaStreamWaitEvent(other, event, 0)); /* never recorded: nothing to wait for */
  OK(cudaStreamSynchronize(other));
  close_gate(&g, one);
  OK(touch(one, "first", address, 8, 1));
  OK(cudaEventRecord(event, one));
  OK(cudaStreamWaitEvent(other, event, 0));
  OK(cudaEventDestroy(event)); /* queued work still waits for it */
  OK(touch(other, "second", address, 8, 2));
  FAILS(CUDA_NOT_READY, cudaStreamQuery(other));
  open_gate(&g);
  OK(cudaStreamSynchronize(other));
  assert_int_equal(first_byte(address), 2);
  OK(cudaFree(address));
  OK(cudaStreamDestroy(one)); /* without work; a stream destroyed with work in flight completes it: */
  OK(touch(other, "third", NULL, 0, -1));
  OK(cudaStreamDestroy(other));
  FAILS(CUDA_INVALID_HANDLE, cudaStreamSynchronize(other));
}

static void call_cuda(void *data) {
  void *address;
  *(int *)data = cudaMalloc(&address, 8);
}

static void a_host_function_must_not_call_cuda(void **state) {
  (void)state;
  int error = 0;
  cuda_stream stream = make_stream();
  OK(cudaLaunchHostFunc(stream, call_cuda, &error));
  OK(cudaStreamSynchronize(stream));
  assert_int_equal(error, CUDA_NOT_PERMITTED);
  OK(cudaStreamDestroy(stream));
}

static void the_nth_operation_fails(void **state) {
  (void)state;
  char host[8] = {0};
  void *address = NULL;
  cuda_stream stream = make_stream();
  assert_int_equal(vcuda_set(0, "fail_alloc", "2"), 0);
  OK(cudaMalloc(&address, 8));
  void *second = NULL;
  FAILS(CUDA_OUT_OF_MEMORY, cudaMalloc(&second, 8));
  assert_int_equal(vcuda_set(0, "fail_copy", "1,min:8"), 0);
  OK(cudaMemcpy(address, host, 4, CUDA_COPY_UP));
  FAILS(CUDA_UNKNOWN, cudaMemcpy(address, host, 8, CUDA_COPY_UP));
  OK(cudaMemcpy(address, host, 8, CUDA_COPY_UP));
  assert_int_equal(vcuda_set(0, "fail_compute", "1,name:this"), 0);
  OK(touch(stream, "that", address, 8, 1));
  FAILS(CUDA_OUT_OF_RESOURCES, touch(stream, "this", address, 8, 1));
  OK(touch(stream, "this", address, 8, 1));
  OK(cudaStreamSynchronize(stream));
  assert_int_equal(vcuda_set(0, "fail_compute", "1,late"), 0);
  OK(touch(stream, "late", address, 8, 1));
  FAILS(CUDA_LAUNCH_FAILURE, cudaStreamSynchronize(stream));
  assert_int_equal(vcuda_recover(0), CUDA_LAUNCH_FAILURE);
  assert_int_equal(vcuda_set(0, "fail_compute", "often"), -1);
  assert_int_equal(vcuda_set(0, "no_such_setting", "1"), -1);
  OK(cudaFree(address));
  OK(cudaStreamDestroy(stream));
}

static void each_kind_of_call_fails_on_request(void **state) {
  (void)state;
  char host[8] = {0};
  void *address = make_memory(8), *pinned = NULL;
  cuda_stream stream = NULL;
  cuda_event event = NULL;
  assert_int_equal(vcuda_set(0, "fail_pinned", "1"), 0);
  FAILS(CUDA_OUT_OF_MEMORY, cudaMallocHost(&pinned, 8));
  assert_int_equal(vcuda_set(0, "fail_stream", "1"), 0);
  FAILS(CUDA_OUT_OF_MEMORY, cudaStreamCreate(&stream));
  assert_int_equal(vcuda_set(0, "fail_event", "1"), 0);
  FAILS(CUDA_OUT_OF_MEMORY, cudaEventCreate(&event));
  assert_int_equal(vcuda_set(0, "fail_copy", "every:2,max:8"), 0);
  for (int i = 0; i < 2; i++) {
    OK(cudaMemcpy(address, host, 8, CUDA_COPY_UP));
    FAILS(CUDA_UNKNOWN, cudaMemcpy(address, host, 8, CUDA_COPY_UP));
  }
  assert_int_equal(vcuda_set(0, "fail_copy", "1,late"), 0);
  FAILS(CUDA_ECC, cudaMemcpy(host, address, 8, CUDA_COPY_DOWN));
  assert_int_equal(vcuda_recover(0), CUDA_ECC);
  OK(cudaMemcpy(host, address, 8, CUDA_COPY_DOWN));
  OK(cudaFree(address));
}

/* A setting that would have no effect is refused. */
static void only_what_streams_run_is_delayed(void **state) {
  (void)state;
  static const char *const sites[] = {"alloc", "pinned", "stream", "event", "capture"};
  static const char *const works[] = {"copy", "compute", "graph"};
  char name[32];
  for (size_t i = 0; i < sizeof works / sizeof works[0]; i++) {
    snprintf(name, sizeof name, "delay_%s", works[i]);
    assert_int_equal(vcuda_set(0, name, "1,us:1"), 0);
    assert_int_equal(vcuda_set(0, name, "0"), 0);
  }
  for (size_t i = 0; i < sizeof sites / sizeof sites[0]; i++) {
    snprintf(name, sizeof name, "delay_%s", sites[i]);
    assert_int_equal(vcuda_set(0, name, "1,us:1"), -1);
    snprintf(name, sizeof name, "fail_%s", sites[i]);
    assert_int_equal(vcuda_set(0, name, "1,late"), -1);
  }
}

static void everything_is_counted(void **state) {
  (void)state;
  static char host[100000];
  cuda_stream stream = make_stream();
  char *address = make_memory(sizeof host);
  void *pinned;
  OK(cudaMallocHost(&pinned, 64));
  OK(cudaDeviceSynchronize());
  assert_int_equal(vcuda_reset(0), 0);
  OK(cudaMemcpyAsync(address, pinned, 64, CUDA_COPY_UP, stream));
  OK(cudaMemcpyAsync(address + 64, address, 64, CUDA_COPY_DEVICE, stream));
  OK(cudaMemcpyAsync(address, host, 64, CUDA_COPY_UP, stream)); /* staged: the call does not block */
  OK(touch(stream, "work", address, 8, 1));
  assert_int_equal(vcuda_get(0, "h2d_bytes"), 128);
  assert_int_equal(vcuda_get(0, "h2d_count"), 2);
  assert_int_equal(vcuda_get(0, "d2d_bytes"), 64);
  assert_int_equal(vcuda_get(0, "pageable_count"), 1);
  assert_int_equal(vcuda_get(0, "launches"), 1);
  assert_int_equal(vcuda_get(0, "syncs"), 0);
  OK(cudaMemcpyAsync(host, address, 16, CUDA_COPY_DOWN, stream));
  assert_int_equal(vcuda_get(0, "sync_pageable"), 1);
  OK(cudaMemcpyAsync(address, host, sizeof host, CUDA_COPY_UP, stream)); /* too large to be staged */
  assert_int_equal(vcuda_get(0, "sync_pageable"), 2);
  OK(cudaStreamSynchronize(stream));
  OK(cudaDeviceSynchronize());
  OK(cudaMemcpy(host, address, 8, CUDA_COPY_DOWN));
  assert_int_equal(vcuda_get(0, "sync_stream"), 1);
  assert_int_equal(vcuda_get(0, "sync_device"), 1);
  assert_int_equal(vcuda_get(0, "sync_copy"), 1);
  OK(cudaFree(address));
  assert_int_equal(vcuda_get(0, "sync_free"), 1);
  assert_int_equal(vcuda_get(0, "syncs"), 6);
  assert_int_equal(vcuda_get(0, "no_such_counter"), -1);
  OK(cudaFreeHost(pinned));
  assert_int_equal(vcuda_get(0, "sync_free"), 2);
  OK(cudaStreamDestroy(stream));
}

typedef struct opening {
  gate *g;
  const char *counter;
} opening;

/* Opens the gate when the counter shows a waiting call. If there is none, the test fails by the counter instead of a hang. */
static void *open_when_counted(void *argument) {
  const opening *o = argument;
  const struct timespec moment = {.tv_nsec = 1000000};
  for (int i = 0; i < 10000 && vcuda_get(0, o->counter) == 0; i++) nanosleep(&moment, NULL);
  open_gate(o->g);
  return NULL;
}

static void a_full_queue_is_a_wait_of_the_call(void **state) {
  (void)state;
  enum { HELD = 1024 };
  gate g;
  opening o = {&g, "sync_queue"};
  pthread_t opener;
  cuda_stream stream = make_stream();
  assert_int_equal(vcuda_reset(0), 0);
  close_gate(&g, stream);
  for (int i = 1; i < HELD; i++) OK(touch(stream, "held", NULL, 0, -1));
  assert_int_equal(vcuda_get(0, "syncs"), 0); /* the gate and 1,023 more: the queue is full */
  assert_int_equal(pthread_create(&opener, NULL, open_when_counted, &o), 0);
  OK(touch(stream, "one more", NULL, 0, -1));
  assert_int_equal(pthread_join(opener, NULL), 0);
  assert_int_equal(vcuda_get(0, "sync_queue"), 1);
  assert_int_equal(vcuda_get(0, "syncs"), 1);
  OK(cudaStreamSynchronize(stream));
  OK(cudaStreamDestroy(stream));
}

static void implicit_waits_of_pools_are_counted(void **state) {
  (void)state;
  const cuda_pool_properties properties = {.type = 1, .location_type = 1};
  size_t available, total;
  void *address;
  cuda_pool pool;
  cuda_stream stream = make_stream();
  OK(cudaMemGetInfo(&available, &total));
  OK(cudaMemPoolCreate(&pool, &properties));
  assert_int_equal(vcuda_reset(0), 0);
  OK(cudaMallocAsync(&address, 64, stream)); /* memory is available, so the call does not block */
  OK(cudaFreeAsync(address, stream));
  assert_int_equal(vcuda_get(0, "syncs"), 0);
  FAILS(CUDA_OUT_OF_MEMORY, cudaMallocAsync(&address, total + 1, stream));
  assert_int_equal(vcuda_get(0, "sync_alloc"), 1);
  FAILS(CUDA_OUT_OF_MEMORY, cudaMallocFromPoolAsync(&address, total + 1, pool, stream));
  assert_int_equal(vcuda_get(0, "sync_alloc"), 2);
  OK(cudaMemPoolDestroy(pool));
  assert_int_equal(vcuda_get(0, "sync_pool"), 1);
  OK(cudaDeviceReset());
  assert_int_equal(vcuda_get(0, "sync_device"), 1);
  assert_int_equal(vcuda_get(0, "syncs"), 4);
  OK(cudaStreamDestroy(stream));
}

static void late_copies_read_the_host_at_once(void **state) {
  (void)state;
  gate g;
  static unsigned char host[100000];
  void *address = make_memory(sizeof host);
  assert_int_equal(vcuda_set(0, "late_copies", "1"), 0);
  memset(host, 5, sizeof host);
  close_gate(&g, NULL);
  OK(cudaMemcpy(address, host, sizeof host, CUDA_COPY_UP)); /* CUDA may return after staging the data */
  memset(host, 6, sizeof host);
  open_gate(&g);
  assert_int_equal(first_byte(address), 5);
  assert_int_equal(vcuda_set(0, "late_copies", "0"), 0);
  OK(cudaFree(address));
}

static void a_second_device_has_memory_of_its_own(void **state) {
  (void)state;
  int count = 0;
  OK(cudaGetDeviceCount(&count));
  assert_int_equal(count, 2);
  void *on_first = make_memory(8);
  OK(cudaMemset(on_first, 3, 8));
  OK(cudaDeviceSynchronize()); /* only this orders the devices */
  OK(cudaSetDevice(1));
  void *on_second = make_memory(8);
  OK(touch(NULL, "foreign", on_first, 8, 1));
  FAILS(CUDA_ILLEGAL_ADDRESS, cudaDeviceSynchronize());
  assert_int_equal(vcuda_recover(1), CUDA_ILLEGAL_ADDRESS);
  OK(cudaMemcpy(on_second, on_first, 8, CUDA_COPY_DEFAULT));
  assert_int_equal(first_byte(on_second), 3);
  OK(cudaFree(on_second));
  FAILS(CUDA_INVALID_DEVICE, cudaSetDevice(2));
  OK(cudaSetDevice(0));
  OK(cudaFree(on_first));
}

static void *ask_current_device(void *device) {
  OK(cudaGetDevice(device));
  return NULL;
}

/* A launch needs a stream of the current device; copies, waits and records do not. An event can be recorded only on its own device. */
static void streams_and_events_belong_to_a_device(void **state) {
  (void)state;
  pthread_t thread;
  cuda_pointer told;
  cuda_stream first = make_stream();
  cuda_event first_event, second_event, timed[2];
  int elsewhere = -1;
  void *on_first = make_memory(8), *pinned;
  OK(cudaEventCreate(&first_event));
  OK(cudaEventCreate(&timed[0]));
  OK(cudaSetDevice(1));
  assert_int_equal(pthread_create(&thread, NULL, ask_current_device, &elsewhere), 0);
  assert_int_equal(pthread_join(thread, NULL), 0);
  assert_int_equal(elsewhere, 0); /* each thread has its own current device */
  cuda_stream second = make_stream();
  OK(cudaEventCreate(&second_event));
  OK(cudaEventCreate(&timed[1]));
  OK(cudaMallocHost(&pinned, 8));
  OK(cudaPointerGetAttributes(&told, on_first));
  assert_int_equal(told.device, 0);
  OK(cudaPointerGetAttributes(&told, pinned));
  assert_int_equal(told.device, 1);

  FAILS(CUDA_INVALID_HANDLE, touch(first, "launched elsewhere", on_first, 8, 1));
  OK(cudaMemcpyAsync(on_first, pinned, 8, CUDA_COPY_UP, first));
  OK(cudaEventRecord(first_event, first));
  FAILS(CUDA_INVALID_HANDLE, cudaEventRecord(second_event, first));
  FAILS(CUDA_INVALID_HANDLE, cudaGetLastError());
  FAILS(CUDA_INVALID_HANDLE, cudaEventRecord(first_event, second));
  OK(cudaStreamWaitEvent(second, first_event, 0));
  OK(cudaEventSynchronize(first_event));
  OK(cudaEventQuery(first_event));
  OK(cudaStreamSynchronize(first));
  OK(cudaStreamSynchronize(second));
  OK(cudaEventRecord(timed[0], first));
  OK(cudaEventRecord(timed[1], second));
  float milliseconds;
  OK(cudaStreamSynchronize(first));
  OK(cudaStreamSynchronize(second));
  FAILS(CUDA_INVALID_HANDLE, cudaEventElapsedTime(&milliseconds, timed[0], timed[1]));

  OK(cudaFree(on_first));
  OK(cudaFreeHost(pinned));
  for (int i = 0; i < 2; i++) OK(cudaEventDestroy(timed[i]));
  OK(cudaEventDestroy(first_event));
  OK(cudaEventDestroy(second_event));
  OK(cudaStreamDestroy(first));
  OK(cudaStreamDestroy(second));
  OK(cudaSetDevice(0));
}

/* The failing call sets the error for cudaGetLastError. Later calls work. */
static void a_transient_failure_is_over_at_once(void **state) {
  (void)state;
  cuda_stream stream = make_stream();
  cuda_event event;
  OK(cudaEventCreate(&event));
  assert_int_equal(vcuda_set(0, "fail_event", "1,name:cudaEventRecord"), 0);
  FAILS(CUDA_UNKNOWN, cudaEventRecord(event, stream));
  FAILS(CUDA_UNKNOWN, cudaGetLastError());
  OK(cudaGetLastError());
  OK(cudaEventRecord(event, stream));
  assert_int_equal(vcuda_set(0, "fail_event", "2,name:cudaEventSynchronize"), 0);
  OK(cudaEventSynchronize(event));
  FAILS(CUDA_UNKNOWN, cudaEventSynchronize(event));
  assert_int_equal(vcuda_set(0, "fail_event", "1,name:cudaEventQuery"), 0);
  FAILS(CUDA_UNKNOWN, cudaEventQuery(event));
  OK(cudaEventQuery(event));
  assert_int_equal(vcuda_set(0, "fail_event", "1,name:cudaStreamWaitEvent"), 0);
  FAILS(CUDA_UNKNOWN, cudaStreamWaitEvent(stream, event, 0));
  OK(cudaStreamWaitEvent(stream, event, 0));
  assert_int_equal(vcuda_set(0, "fail_stream", "1,name:cudaStreamSynchronize"), 0);
  FAILS(CUDA_UNKNOWN, cudaStreamSynchronize(stream));
  OK(cudaStreamSynchronize(stream));
  assert_int_equal(vcuda_set(0, "fail_event", "1"), 0); /* without a name only event creations fail */
  OK(cudaEventRecord(event, stream));
  OK(cudaStreamSynchronize(stream));
  assert_int_equal(vcuda_set(0, "fail_event", "0"), 0);
  OK(cudaEventDestroy(event));
  OK(cudaStreamDestroy(stream));
}

/* After the device has failed, each call on it returns the error. Calls that release objects still release them, and the other device
 * works. */
static void a_sticky_error_stays(void **state) {
  (void)state;
  int status;
  int64_t blocks = vcuda_get(0, "live_blocks");
  cuda_pointer told;
  cuda_stream stream = make_stream();
  cuda_event event;
  void *address = make_memory(8), *pinned, *none;
  OK(cudaMallocHost(&pinned, 8));
  OK(cudaEventCreate(&event));
  assert_int_equal(vcuda_set(0, "fail_compute", "1,late"), 0);
  OK(touch(stream, "late", address, 8, 1));
  FAILS(CUDA_LAUNCH_FAILURE, cudaStreamSynchronize(stream));
  FAILS(CUDA_LAUNCH_FAILURE, cudaGetLastError());
  FAILS(CUDA_LAUNCH_FAILURE, cudaGetLastError());
  FAILS(CUDA_LAUNCH_FAILURE, cudaMalloc(&none, 8));
  FAILS(CUDA_LAUNCH_FAILURE, cudaMemcpyAsync(address, pinned, 8, CUDA_COPY_UP, stream));
  FAILS(CUDA_LAUNCH_FAILURE, touch(stream, "later", address, 8, 1));
  FAILS(CUDA_LAUNCH_FAILURE, cudaEventRecord(event, stream));
  FAILS(CUDA_LAUNCH_FAILURE, cudaStreamWaitEvent(stream, event, 0));
  FAILS(CUDA_LAUNCH_FAILURE, cudaEventQuery(event));
  FAILS(CUDA_LAUNCH_FAILURE, cudaStreamQuery(stream));
  FAILS(CUDA_LAUNCH_FAILURE, cudaStreamIsCapturing(stream, &status));
  FAILS(CUDA_LAUNCH_FAILURE, cudaPointerGetAttributes(&told, address));
  FAILS(CUDA_LAUNCH_FAILURE, cudaDeviceSynchronize());
  OK(cudaSetDevice(1));
  void *on_second = make_memory(8);
  OK(touch(NULL, "elsewhere", on_second, 8, 1));
  OK(cudaDeviceSynchronize());
  OK(cudaFree(on_second));
  OK(cudaSetDevice(0));
  FAILS(CUDA_LAUNCH_FAILURE, cudaEventDestroy(event));
  FAILS(CUDA_LAUNCH_FAILURE, cudaFree(address));
  FAILS(CUDA_LAUNCH_FAILURE, cudaFreeHost(pinned));
  FAILS(CUDA_LAUNCH_FAILURE, cudaStreamDestroy(stream));
  assert_int_equal(vcuda_get(0, "live_blocks"), blocks);
  assert_int_equal(vcuda_recover(0), CUDA_LAUNCH_FAILURE);
  FAILS(CUDA_INVALID_HANDLE, cudaStreamSynchronize(stream));
}

/* ---- memory of other libraries and processes ---- */

enum { SHARED = 10000, ODD = 5000 };

static int make_file(size_t bytes) {
  int file = memfd_create("shared", MFD_CLOEXEC);
  assert_true(file >= 0);
  assert_int_equal(ftruncate(file, (off_t)bytes), 0);
  return file;
}

/* A buffer is a part of the file. When it is freed, the address range has the device's own pages again. */
static void pages_of_another_file(void **state) {
  (void)state;
  int file = make_file(SHARED);
  unsigned char *host = mmap(NULL, SHARED, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  assert_true(host != MAP_FAILED);
  const cuda_external_memory_desc desc = {.type = CUDA_EXTERNAL_MEMORY_FD, .handle.fd = file, .size = SHARED};
  const cuda_external_buffer_desc part = {.offset = ODD, .size = 100};
  const cuda_external_buffer_desc too_long = {.offset = ODD, .size = SHARED - ODD + 1};
  cuda_external_memory memory;
  void *address;
  cuda_stream stream = make_stream();
  OK(cudaImportExternalMemory(&memory, &desc));
  FAILS(CUDA_INVALID_VALUE, cudaExternalMemoryGetMappedBuffer(&address, memory, &too_long));
  OK(cudaExternalMemoryGetMappedBuffer(&address, memory, &part));
  host[ODD] = 7;
  assert_int_equal(first_byte(address), 7);
  OK(touch(stream, "shared", address, 100, 9));
  OK(cudaStreamSynchronize(stream));
  assert_int_equal(host[ODD + 99], 9);
  assert_int_equal(host[ODD + 100], 0);
  void *beside = make_memory(4096); /* must not be in the pages of the file */
  OK(touch(stream, "beside", beside, 4096, 1));
  OK(touch(stream, "overrun", address, 101, 1));
  FAILS(CUDA_ILLEGAL_ADDRESS, cudaStreamSynchronize(stream));
  assert_int_equal(vcuda_recover(0), CUDA_ILLEGAL_ADDRESS);
  OK(cudaFree(address));
  OK(cudaDestroyExternalMemory(memory)); /* this closes the file */
  for (int i = 0; i < SHARED; i++) assert_int_equal(host[i], i >= ODD && i < ODD + 100 ? 9 : 0);
  OK(cudaFree(beside));
  (void)munmap(host, SHARED);
  OK(cudaStreamDestroy(stream));
}

static void other_handles_are_refused(void **state) {
  (void)state;
  int file = make_file(64);
  cuda_external_memory memory;
  cuda_external_semaphore semaphore;
  FAILS(CUDA_NOT_SUPPORTED,
        cudaImportExternalMemory(&memory, &(cuda_external_memory_desc){.type = 5, .handle.fd = file, .size = 64}));
  assert_non_null(strstr(vcuda_last_message(), "type 5"));
  FAILS(CUDA_INVALID_VALUE,
        cudaImportExternalMemory(&memory, &(cuda_external_memory_desc){.type = 1, .handle.fd = file, .size = 65}));
  FAILS(CUDA_NOT_SUPPORTED,
        cudaImportExternalSemaphore(&semaphore, &(cuda_external_semaphore_desc){.type = 1, .handle.fd = file}));
  FAILS(CUDA_INVALID_VALUE,
        cudaImportExternalSemaphore(&semaphore, &(cuda_external_semaphore_desc){.type = 9, .handle.fd = file}));
  assert_int_equal(vcuda_semaphore_get(file), -1);
  assert_int_equal(vcuda_semaphore_signal(file, 1), -1);
  (void)close(file);
}

static void a_semaphore_holds_a_stream(void **state) {
  (void)state;
  int file = vcuda_semaphore_create(1);
  cuda_external_semaphore semaphore;
  cuda_stream first = make_stream(), second = make_stream();
  const cuda_semaphore_params two = {.value = 2}, three = {.value = 3};
  OK(cudaImportExternalSemaphore(&semaphore, &(cuda_external_semaphore_desc){.type = 9, .handle.fd = dup(file)}));
  OK(cudaWaitExternalSemaphoresAsync(&semaphore, &two, 1, second));
  OK(cudaSignalExternalSemaphoresAsync(&semaphore, &three, 1, second));
  FAILS(CUDA_NOT_READY, cudaStreamQuery(second));
  assert_int_equal(vcuda_semaphore_get(file), 1);
  OK(cudaSignalExternalSemaphoresAsync(&semaphore, &two, 1, first));
  OK(cudaDestroyExternalSemaphore(semaphore)); /* queued work retains it */
  OK(cudaStreamSynchronize(second));
  assert_int_equal(vcuda_semaphore_get(file), 3);
  assert_int_equal(vcuda_semaphore_signal(file, 3), -1); /* the value only grows */
  (void)close(file);
  OK(cudaStreamDestroy(first));
  OK(cudaStreamDestroy(second));
}

static cuda_ipc_handle read_handle(const char *hexadecimal) {
  cuda_ipc_handle handle;
  for (size_t i = 0; i < sizeof handle; i++) {
    char digits[3] = {hexadecimal[2 * i], hexadecimal[2 * i + 1], '\0'};
    handle.bytes[i] = (char)strtol(digits, NULL, 16);
  }
  return handle;
}

typedef struct written_handle {
  char hexadecimal[2 * sizeof(cuda_ipc_handle) + 1];
} written_handle;

static written_handle write_handle(const cuda_ipc_handle *handle) {
  written_handle written;
  for (size_t i = 0; i < sizeof *handle; i++) {
    snprintf(written.hexadecimal + 2 * i, 3, "%02x", (unsigned char)handle->bytes[i]);
  }
  return written;
}

/* Start this program as another process. */
static pid_t start_peer(char *const arguments[]) {
  char program[4096] = "";
  char *all[8] = {program};
  assert_true(readlink("/proc/self/exe", program, sizeof program - 1) > 0);
  for (int i = 0; arguments[i] != NULL; i++) all[i + 1] = arguments[i];
  pid_t child = fork();
  if (child == 0) {
    execv(program, all);
    _exit(127);
  }
  return child;
}

static void expect_end(pid_t child) {
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* In the other process: read a 3, write a 4. */
static int be_the_peer(const char *hexadecimal) {
  void *address;
  OK(cudaIpcOpenMemHandle(&address, read_handle(hexadecimal), CUDA_IPC_LAZY));
  assert_int_equal(first_byte(address), 3);
  OK(cudaMemset(address, 4, 64));
  OK(cudaDeviceSynchronize());
  OK(cudaIpcCloseMemHandle(address));
  return 0;
}

static void memory_of_another_process(void **state) {
  (void)state;
  void *before = make_memory(700), *address = make_memory(64), *opened;
  cuda_ipc_handle handle;
  OK(cudaMemset(address, 3, 64));
  OK(cudaDeviceSynchronize());
  OK(cudaIpcGetMemHandle(&handle, address));
  FAILS(CUDA_INVALID_CONTEXT, cudaIpcOpenMemHandle(&opened, handle, CUDA_IPC_LAZY));
  written_handle written = write_handle(&handle);
  expect_end(start_peer((char *[]){written.hexadecimal, NULL}));
  assert_int_equal(first_byte(address), 4);
  FAILS(CUDA_INVALID_VALUE, cudaIpcCloseMemHandle(address));
  FAILS(CUDA_INVALID_VALUE, cudaIpcGetMemHandle(&handle, &handle));
  OK(cudaFree(address));
  OK(cudaFree(before));
}

/* A stream that waits until the semaphore is at 1. */
static cuda_stream held_stream(int semaphore) {
  cuda_stream stream = make_stream();
  cuda_external_semaphore imported;
  OK(cudaImportExternalSemaphore(&imported, &(cuda_external_semaphore_desc){.type = 9, .handle.fd = dup(semaphore)}));
  OK(cudaWaitExternalSemaphoresAsync(&imported, &(cuda_semaphore_params){.value = 1}, 1, stream));
  OK(cudaDestroyExternalSemaphore(imported));
  return stream;
}

/* In the other process. The first process writes a 7 and records the event; the first semaphore, which this process signals, holds
 * that stream back. Then this process writes an 8 and records the same event, held back by the second semaphore, which the first
 * process signals. The arguments are handles of memory and event, and descriptors of the two semaphores and of a pipe. */
static int wait_as_peer(char **arguments) {
  int first = atoi(arguments[3]), second = atoi(arguments[4]), output = atoi(arguments[5]);
  void *address;
  cuda_event event;
  unsigned char *seen;
  OK(cudaMallocHost((void **)&seen, 1)); /* a copy to pageable memory would block */
  OK(cudaIpcOpenMemHandle(&address, read_handle(arguments[1]), CUDA_IPC_LAZY));
  OK(cudaIpcOpenEventHandle(&event, read_handle(arguments[2])));
  FAILS(CUDA_NOT_READY, cudaEventQuery(event));
  cuda_stream stream = make_stream();
  OK(cudaStreamWaitEvent(stream, event, 0));
  OK(cudaMemcpyAsync(seen, address, 1, CUDA_COPY_DOWN, stream));
  FAILS(CUDA_NOT_READY, cudaStreamQuery(stream));
  assert_int_equal(vcuda_semaphore_signal(first, 1), 0);
  OK(cudaStreamSynchronize(stream));
  OK(cudaEventQuery(event));
  OK(cudaEventSynchronize(event));
  assert_int_equal(*seen, 7);
  cuda_stream held = held_stream(second);
  OK(cudaMemsetAsync(address, 8, 64, held));
  OK(cudaEventRecord(event, held));
  assert_int_equal(write(output, "r", 1), 1);
  OK(cudaEventSynchronize(event));
  OK(cudaStreamSynchronize(held));
  OK(cudaEventDestroy(event));
  OK(cudaIpcCloseMemHandle(address));
  OK(cudaFreeHost(seen));
  return 0;
}

static void events_of_another_process(void **state) {
  (void)state;
  cuda_event event;
  cuda_ipc_handle memory, handle;
  void *address = make_memory(64);
  int first = vcuda_semaphore_create(0), second = vcuda_semaphore_create(0), ends[2];
  char numbers[3][16], byte;
  assert_int_equal(pipe(ends), 0);
  const int files[] = {dup(first), dup(second), ends[1]}; /* a duplicate stays open after exec */
  for (int i = 0; i < 3; i++) snprintf(numbers[i], sizeof numbers[i], "%d", files[i]);
  OK(cudaEventCreateWithFlags(&event, CUDA_EVENT_SHARED | CUDA_EVENT_NO_TIMING));
  OK(cudaIpcGetMemHandle(&memory, address));
  OK(cudaIpcGetEventHandle(&handle, event));
  OK(cudaEventQuery(event)); /* never recorded */
  cuda_stream stream = held_stream(first);
  OK(cudaMemsetAsync(address, 7, 64, stream));
  OK(cudaEventRecord(event, stream));
  FAILS(CUDA_NOT_READY, cudaEventQuery(event));
  written_handle written[] = {write_handle(&memory), write_handle(&handle)};
  pid_t child =
      start_peer((char *[]){written[0].hexadecimal, written[1].hexadecimal, numbers[0], numbers[1], numbers[2], NULL});
  (void)close(ends[1]);
  assert_int_equal(read(ends[0], &byte, 1), 1); /* the other process has recorded the event */
  FAILS(CUDA_NOT_READY, cudaEventQuery(event));
  OK(cudaStreamWaitEvent(stream, event, 0));
  FAILS(CUDA_NOT_READY, cudaStreamQuery(stream));
  assert_int_equal(vcuda_semaphore_signal(second, 1), 0);
  OK(cudaEventSynchronize(event));
  OK(cudaStreamSynchronize(stream));
  assert_int_equal(first_byte(address), 8);
  expect_end(child);
  OK(cudaEventRecord(event, stream)); /* recorded by this process again */
  OK(cudaEventSynchronize(event));
  for (int i = 0; i < 2; i++) (void)close(files[i]);
  (void)close(ends[0]);
  (void)close(first);
  (void)close(second);
  OK(cudaStreamDestroy(stream));
  OK(cudaEventDestroy(event));
  OK(cudaFree(address));
}

static void shared_events_are_refused(void **state) {
  (void)state;
  cuda_event event, opened;
  cuda_ipc_handle handle;
  cuda_stream stream = make_stream();
  cuda_graph graph;
  FAILS(CUDA_INVALID_VALUE, cudaEventCreateWithFlags(&event, CUDA_EVENT_SHARED)); /* without CUDA_EVENT_NO_TIMING */
  OK(cudaEventCreateWithFlags(&event, CUDA_EVENT_NO_TIMING));
  FAILS(CUDA_INVALID_HANDLE, cudaIpcGetEventHandle(&handle, event));
  OK(cudaEventDestroy(event));
  OK(cudaEventCreateWithFlags(&event, CUDA_EVENT_SHARED | CUDA_EVENT_NO_TIMING));
  OK(cudaIpcGetEventHandle(&handle, event));
  FAILS(CUDA_INVALID_VALUE, cudaIpcGetEventHandle(NULL, event));
  FAILS(CUDA_INVALID_CONTEXT, cudaIpcOpenEventHandle(&opened, handle));
  OK(cudaStreamBeginCapture(stream, CUDA_CAPTURE_RELAXED));
  FAILS(CUDA_NOT_SUPPORTED, cudaEventRecord(event, stream));
  assert_non_null(strstr(vcuda_last_message(), "not captured"));
  FAILS(CUDA_NOT_SUPPORTED, cudaStreamWaitEvent(stream, event, 0));
  OK(cudaStreamEndCapture(stream, &graph));
  OK(cudaGraphDestroy(graph));
  OK(cudaEventDestroy(event));
  memset(&handle, 0, sizeof handle);
  FAILS(CUDA_INVALID_VALUE, cudaIpcOpenEventHandle(&opened, handle));
  OK(cudaStreamDestroy(stream));
}

static void calls_are_traced_with_their_streams(void **state) {
  (void)state;
  char path[] = "/tmp/vcuda-trace-XXXXXX", text[8192] = "", stream_text[32];
  int descriptor = mkstemp(path);
  assert_true(descriptor >= 0);
  assert_int_equal(vcuda_set(0, "trace", "1"), 0);
  cuda_stream stream = make_stream();
  OK(touch(stream, "traced work", NULL, 0, -1));
  OK(cudaStreamSynchronize(stream));
  assert_int_equal(vcuda_set(0, "trace", "0"), 0);
  assert_int_equal(vcuda_trace_write(path), 0);
  assert_true(read(descriptor, text, sizeof text - 1) > 0);
  snprintf(stream_text, sizeof stream_text, "%p", (void *)stream);
  assert_non_null(strstr(text, "cudaStreamSynchronize"));
  assert_non_null(strstr(text, "traced work"));
  assert_non_null(strstr(text, stream_text));
  (void)close(descriptor);
  (void)unlink(path);
  OK(cudaStreamDestroy(stream));
}

int main(int argc, char **argv) {
  if (argc > 2) return wait_as_peer(argv);
  if (argc > 1) return be_the_peer(argv[1]);
  const struct CMUnitTest tests[] = {
      TEST(memory_faults_where_the_host_touches_it),
      TEST(new_memory_is_poisoned),
      TEST(a_copy_outside_its_block_is_refused),
      TEST(work_outside_its_block_is_a_sticky_error),
      TEST(freed_addresses_are_not_used_again_at_once),
      TEST(memory_runs_out),
      TEST(pointers_are_told_apart),
      TEST(memory_of_a_pool_is_freed_in_order),
      TEST(a_stream_keeps_its_order),
      TEST(blocking_streams_and_the_null_stream_wait_for_each_other),
      TEST(a_non_blocking_stream_does_not_wait_for_the_null_stream),
      TEST(a_stream_waits_for_an_event),
      TEST(a_host_function_must_not_call_cuda),
      TEST(the_nth_operation_fails),
      TEST(each_kind_of_call_fails_on_request),
      TEST(only_what_streams_run_is_delayed),
      TEST(everything_is_counted),
      TEST(a_full_queue_is_a_wait_of_the_call),
      TEST(implicit_waits_of_pools_are_counted),
      TEST(late_copies_read_the_host_at_once),
      TEST(a_second_device_has_memory_of_its_own),
      TEST(streams_and_events_belong_to_a_device),
      TEST(a_transient_failure_is_over_at_once),
      TEST(a_sticky_error_stays),
      TEST(pages_of_another_file),
      TEST(other_handles_are_refused),
      TEST(a_semaphore_holds_a_stream),
      TEST(memory_of_another_process),
      TEST(events_of_another_process),
      TEST(shared_events_are_refused),
      TEST(calls_are_traced_with_their_streams),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
