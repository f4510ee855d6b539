/* Two GPUs in one process, in addition to the rows of current_test.c: threads that never set a device, GPUs that ORT chooses, memory
 * and streams of the program, the end of a runtime. Every call must keep the caller's current device. */
#include "fixture.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda.h"
#include "iobind/interop.h"
#include "vcuda.h"
#include "../rig/calls.h"

enum { COUNT = 4, GPUS = 2, NON_BLOCKING = 1, UP = 1 };

static iobind_runtime *runtime;
static iobind_device *devices[GPUS];

/* The current device that the thread has set. Every call must keep it. */
static _Thread_local int chosen;

static void choose(int gpu) {
  assert_int_equal(cudaSetDevice(gpu), CUDA_OK);
  chosen = gpu;
}

static void expect_kept(const char *call, int line) {
  int now = -1;
  assert_int_equal(cudaGetDevice(&now), CUDA_OK);
  if (now != chosen) {
    fail_msg("%d: %s: device %d was current, %d is", line, call, chosen, now);
  }
}

#define TRY(call) (expect_ok(call), expect_kept(#call, __LINE__))
#define DO(call) ((call), expect_kept(#call, __LINE__))

static int start(void **state) {
  (void)state;
  chosen = 0;
  runtime = fixture_runtime();
  TRY(iobind_runtime_find_device(runtime, "cuda:0", &devices[0], NULL, &fault));
  choose(1);
  TRY(iobind_runtime_find_device(runtime, "cuda:0", &devices[0], NULL, &fault));
  choose(0);
  TRY(iobind_runtime_find_device(runtime, "cuda:1", &devices[1], NULL, &fault));
  return 0;
}

static int stop(void **state) {
  (void)state;
  assert_int_equal(vcuda_get(0, "races"), 0);
  assert_int_equal(vcuda_get(1, "races"), 0);
  DO(iobind_runtime_destroy(runtime));
  return 0;
}

/* ---- actions on each GPU ---- */

static void expect_on(const iobind_tensor *tensor, int gpu) {
  cuda_pointer attributes;
  assert_int_equal(cudaPointerGetAttributes(&attributes, iobind_tensor_get_address(tensor)), CUDA_OK);
  assert_int_equal(attributes.device, gpu);
}

static iobind_tensor *make_tensor(int gpu, iobind_memory memory, float value) {
  static const int64_t dim = COUNT;
  const float values[COUNT] = {value, value, value, value};
  iobind_tensor *tensor;
  TRY(iobind_tensor_create(devices[gpu], memory, IOBIND_DTYPE_FLOAT32, &dim, 1, &tensor, &fault));
  TRY(iobind_tensor_write(tensor, 0, values, sizeof values, NULL, &fault));
  if (memory == IOBIND_MEMORY_DEFAULT) {
    expect_on(tensor, gpu);
  }
  return tensor;
}

static void expect_all(const float values[COUNT], float value) {
  for (int i = 0; i < COUNT; i++) {
    if (values[i] != value) {
      fail_msg("element %d: expected %g, got %g", i, (double)value, (double)values[i]);
    }
  }
}

static void expect_tensor(const iobind_tensor *tensor, float value) {
  float values[COUNT] = {0};
  TRY(iobind_tensor_read(tensor, 0, values, sizeof values, NULL, &fault));
  expect_all(values, value);
}

static iobind_stream *make_stream(int gpu) {
  iobind_stream *stream;
  int found = -1;
  TRY(iobind_stream_create(devices[gpu], NULL, &stream, &fault));
  assert_int_equal(cudaStreamGetDevice(call_stream_get_native(stream), &found), CUDA_OK);
  assert_int_equal(found, gpu);
  return stream;
}

static iobind_event *make_event(int gpu) {
  iobind_event *event;
  TRY(iobind_event_create(devices[gpu], &event, &fault));
  return event;
}

static iobind_session *make_session(int gpu, const char *model, size_t graphs, iobind_stream *stream) {
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  iobind_session *session;
  options.devices = &devices[gpu];
  options.device_count = 1;
  options.graph_limit = graphs;
  options.stream = stream;
  TRY(test_session_with(runtime, model, &options, &session, &fault));
  return session;
}

static void tensors(int gpu) {
  iobind_tensor *a = make_tensor(gpu, IOBIND_MEMORY_DEFAULT, 1);
  iobind_tensor *b = make_tensor(gpu, IOBIND_MEMORY_DEFAULT, 2);
  iobind_tensor *pinned = make_tensor(gpu, IOBIND_MEMORY_HOST_ACCESSIBLE, 3);
  iobind_tensor *far = make_tensor(1 - gpu, IOBIND_MEMORY_DEFAULT, 4);
  iobind_tensor *part;
  const iobind_tensor *from = a;
  TRY(iobind_tensor_copy(&from, &b, 1, NULL, &fault));
  expect_tensor(b, 1);
  from = pinned;
  TRY(iobind_tensor_copy(&from, &b, 1, NULL, &fault));
  expect_tensor(b, 3);
  from = far;
  TRY(iobind_tensor_copy(&from, &b, 1, NULL, &fault));
  expect_tensor(b, 4);
  TRY(iobind_tensor_slice(a, 1, 2, &part, &fault));
  DO(iobind_tensor_release(part));
  DO(iobind_tensor_release(a));
  DO(iobind_tensor_release(b));
  DO(iobind_tensor_release(pinned));
  DO(iobind_tensor_release(far));
}

static void streams(int gpu) {
  iobind_stream *stream = make_stream(gpu);
  iobind_stream *other = make_stream(gpu);
  iobind_stream *far = make_stream(1 - gpu);
  iobind_event *event = make_event(gpu);
  iobind_tensor *a = make_tensor(gpu, IOBIND_MEMORY_DEFAULT, 0);
  iobind_tensor *b = make_tensor(gpu, IOBIND_MEMORY_DEFAULT, 0);
  const iobind_tensor *from = a;
  const float values[COUNT] = {5, 5, 5, 5};
  float read[COUNT] = {0};
  int32_t done = 0;
  TRY(iobind_tensor_write(a, 0, values, sizeof values, stream, &fault));
  TRY(iobind_event_record(event, stream, &fault));
  TRY(iobind_stream_wait(other, event, &fault));
  TRY(iobind_stream_wait(far, event, &fault));
  TRY(iobind_tensor_copy(&from, &b, 1, other, &fault));
  TRY(iobind_tensor_read(b, 0, read, sizeof read, other, &fault));
  TRY(iobind_stream_synchronize(other, &fault));
  expect_all(read, 5);
  TRY(iobind_event_wait(event, IOBIND_NO_TIMEOUT, &fault));
  TRY(iobind_event_record(event, stream, &fault));
  TRY(iobind_event_wait(event, 10000000000, &fault)); /* a thread of iobind waits */
  TRY(iobind_event_record(event, other, &fault));
  while (done == 0) {
    TRY(iobind_event_query(event, &done, &fault));
  }
  TRY(iobind_stream_synchronize(far, &fault));
  DO(iobind_event_destroy(event));
  DO(iobind_stream_destroy(stream));
  DO(iobind_stream_destroy(other));
  DO(iobind_stream_destroy(far));
  DO(iobind_tensor_release(a));
  DO(iobind_tensor_release(b));
}

/* Runs without a stream, on a stream, and with an event, with outputs of each mode. */
static void run_session(int gpu, iobind_session *session, iobind_stream *stream, int mode) {
  iobind_binding *binding;
  iobind_event *event = make_event(gpu);
  iobind_tensor *x = make_tensor(gpu, IOBIND_MEMORY_DEFAULT, 3);
  iobind_tensor *target = mode == OUTPUT_FIXED ? make_tensor(gpu, IOBIND_MEMORY_DEFAULT, 0) : NULL;
  iobind_device *where = target == NULL ? devices[gpu] : NULL;
  iobind_tensor *y;
  TRY(iobind_binding_create(session, &binding, &fault));
  TRY(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
  TRY(call_binding_set_output(binding, 0, mode, where, IOBIND_MEMORY_DEFAULT, target, &fault));
  for (int i = 0; i < 3; i++) {
    TRY(iobind_binding_run(binding, NULL, &fault));
    TRY(iobind_binding_get_output(binding, 0, NULL, &y, &fault));
    expect_on(y, gpu);
    expect_tensor(y, 6);
    TRY(call_binding_run(binding, stream, event, &fault));
    TRY(call_binding_run(binding, stream, event, &fault));
    TRY(iobind_event_wait(event, IOBIND_NO_TIMEOUT, &fault));
    if (mode != OUTPUT_FIXED) {
      TRY(iobind_binding_take_output(binding, 0, &y, &fault));
      expect_tensor(y, 6);
      DO(iobind_tensor_release(y));
    }
  }
  TRY(iobind_binding_clear(binding, &fault));
  DO(iobind_binding_destroy(binding));
  DO(iobind_event_destroy(event));
  DO(iobind_tensor_release(x));
  DO(iobind_tensor_release(target));
}

static void sessions(int gpu) {
  iobind_stream *stream = make_stream(gpu);
  iobind_session *session = make_session(gpu, "scale", 0, NULL);
  run_session(gpu, session, stream, IOBIND_OUTPUT_FRESH);
  run_session(gpu, session, stream, IOBIND_OUTPUT_REUSE);
  run_session(gpu, session, stream, OUTPUT_FIXED);
  DO(iobind_session_destroy(session));
  session = make_session(gpu, "scale", 0, stream); /* the session computes on the stream */
  run_session(gpu, session, stream, IOBIND_OUTPUT_FRESH);
  DO(iobind_session_destroy(session));
  DO(iobind_stream_destroy(stream));
  TRY(iobind_device_check(devices[gpu], &fault));
}

/* Runs without a binding: with results on the host, and by a request. */
static void session_runs(int gpu) {
  iobind_session *session = make_session(gpu, "scale", 0, NULL);
  iobind_tensor *x = make_tensor(gpu, IOBIND_MEMORY_DEFAULT, 2);
  iobind_tensor *y = NULL;
  TRY(call_session_run(session, &x, &y, &fault));
  expect_tensor(y, 4);
  DO(iobind_tensor_release(y));
  iobind_run_request request = IOBIND_RUN_REQUEST_INIT;
  static const int32_t on_device = IOBIND_PLACE_DEVICE;
  request.inputs = &x;
  request.placements = &on_device;
  TRY(call_session_request(session, &request, &y, &fault));
  expect_on(y, gpu);
  expect_tensor(y, 4);
  DO(iobind_tensor_release(y));
  DO(iobind_tensor_release(x));
  DO(iobind_session_destroy(session));
}

/* Nodes that use cuBLAS. The EP creates its handle in a thread's first run. */
static void products(int gpu) {
  static const int64_t dims[2] = {2, 2};
  static const float values[4] = {1, 2, 3, 4};
  static const float squares[4] = {7, 10, 15, 22};
  float read[4] = {0};
  iobind_tensor *inputs[2];
  iobind_tensor *y;
  iobind_binding *binding;
  iobind_session *session = make_session(gpu, "matmul m=2 k=2 n=2", 0, NULL);
  TRY(iobind_binding_create(session, &binding, &fault));
  for (size_t i = 0; i < 2; i++) {
    TRY(iobind_tensor_create(devices[gpu], IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 2, &inputs[i], &fault));
    TRY(iobind_tensor_write(inputs[i], 0, values, sizeof values, NULL, &fault));
    TRY(iobind_binding_set_input(binding, i, IOBIND_INPUT_RESIDENT, inputs[i], NULL, &fault));
  }
  TRY(iobind_binding_run(binding, NULL, &fault));
  TRY(iobind_binding_get_output(binding, 0, NULL, &y, &fault));
  TRY(iobind_tensor_read(y, 0, read, sizeof read, NULL, &fault));
  assert_memory_equal(read, squares, sizeof read);
  DO(iobind_binding_destroy(binding));
  DO(iobind_session_destroy(session));
  DO(iobind_tensor_release(inputs[0]));
  DO(iobind_tensor_release(inputs[1]));
}

/* Graphs that double a state in place: captured, replayed, and captured again. */
static void graphs(int gpu) {
  iobind_session *session = make_session(gpu, "scale", 1, NULL);
  iobind_tensor *x = make_tensor(gpu, IOBIND_MEMORY_DEFAULT, 1);
  iobind_stream *stream = make_stream(gpu);
  iobind_binding *binding;
  TRY(iobind_binding_create(session, &binding, &fault));
  TRY(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
  TRY(iobind_binding_carry(binding, 0, 0, IOBIND_CARRY_IN_PLACE, &fault));
  for (int i = 0; i < 4; i++) {
    TRY(iobind_binding_run(binding, NULL, &fault));
  }
  expect_tensor(x, 16);
  TRY(iobind_binding_reset_graphs(binding, &fault));
  TRY(iobind_binding_run(binding, stream, &fault));
  TRY(iobind_binding_run(binding, stream, &fault));
  TRY(iobind_stream_synchronize(stream, &fault));
  expect_tensor(x, 64);
  DO(iobind_binding_destroy(binding));
  DO(iobind_tensor_release(x));
  DO(iobind_stream_destroy(stream));
  DO(iobind_session_destroy(session));
}

/* Each slot is used several times. */
static void pipelines(int gpu) {
  enum { ITEMS = 8, SLOTS = 2 };
  iobind_session *session = make_session(gpu, "scale", 0, NULL);
  iobind_device *host = iobind_runtime_get_device(runtime, 0);
  iobind_pipeline_options options = IOBIND_PIPELINE_OPTIONS_INIT;
  iobind_pipeline *pipeline;
  options.slots = SLOTS;
  TRY(call_pipeline_create(session, &options, &pipeline, &fault));
  for (int item = 0; item < ITEMS + SLOTS; item++) {
    iobind_tensor *y;
    if (item >= SLOTS) {
      TRY(iobind_pipeline_next(pipeline, IOBIND_NO_TIMEOUT, &y, 1, NULL, &fault));
      expect_tensor(y, 2.0F * (float)(item - SLOTS));
    }
    if (item < ITEMS) {
      const float values[COUNT] = {(float)item, (float)item, (float)item, (float)item};
      iobind_tensor *x = fixture_floats(host, values, COUNT);
      TRY(call_pipeline_submit(pipeline, &x, 1, &fault));
      DO(iobind_tensor_release(x));
    }
  }
  DO(iobind_pipeline_destroy(pipeline));
  DO(iobind_session_destroy(session));
}

/* The program's own stream and event. */
static void foreign_streams(int gpu) {
  const int before = chosen;
  cuda_stream theirs;
  cuda_event ready;
  iobind_stream *stream;
  iobind_native native = IOBIND_NATIVE_INIT;
  iobind_session *session = make_session(gpu, "scale", 0, NULL);
  choose(gpu);
  assert_int_equal(cudaStreamCreateWithFlags(&theirs, NON_BLOCKING), CUDA_OK);
  assert_int_equal(cudaEventCreate(&ready), CUDA_OK);
  choose(before);
  native.kind = IOBIND_NATIVE_CUDA;
  native.handle = theirs;
  TRY(iobind_stream_wrap(devices[gpu], &native, NULL, NULL, &stream, &fault));
  run_session(gpu, session, stream, OUTPUT_FIXED);
  native.handle = ready;
  TRY(iobind_stream_signal_native(stream, &native, &fault));
  TRY(iobind_stream_wait_native(stream, &native, &fault));
  TRY(iobind_stream_synchronize(stream, &fault));
  DO(iobind_stream_destroy(stream));
  DO(iobind_session_destroy(session));
  assert_int_equal(cudaEventDestroy(ready), CUDA_OK);
  assert_int_equal(cudaStreamDestroy(theirs), CUDA_OK);
}

/* Objects that are destroyed while work is queued. The thread that finds the work complete frees them. */
static void destroyed_in_flight(int gpu) {
  iobind_session *session = make_session(gpu, "scale", 0, NULL);
  iobind_stream *stream = make_stream(gpu);
  iobind_stream *far = make_stream(1 - gpu);
  iobind_tensor *x = make_tensor(gpu, IOBIND_MEMORY_DEFAULT, 1);
  iobind_event *event = make_event(gpu);
  iobind_binding *binding;
  TRY(iobind_binding_create(session, &binding, &fault));
  TRY(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
  TRY(call_binding_run(binding, stream, event, &fault));
  TRY(iobind_stream_wait(far, event, &fault));
  DO(iobind_tensor_release(x));
  DO(iobind_event_destroy(event));
  DO(iobind_binding_destroy(binding));
  DO(iobind_session_destroy(session));
  DO(iobind_stream_destroy(far));
  TRY(iobind_stream_synchronize(stream, &fault));
  DO(iobind_stream_destroy(stream));
}

static void (*const actions[])(int gpu) = {tensors, streams,   sessions,        session_runs,       products,
                                           graphs,  pipelines, foreign_streams, destroyed_in_flight};

/* Sessions for which ORT chooses the GPU, and sessions of other code. iobind cannot know their GPU before they exist. */
static void by_a_policy(void **state) {
  (void)state;
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  iobind_session *session;
  options.policy = IOBIND_POLICY_PREFER_GPU;
  for (int current = 0; current < GPUS; current++) {
    iobind_tensor *x = make_tensor(0, IOBIND_MEMORY_HOST_ACCESSIBLE, 4);
    iobind_tensor *y = NULL;
    choose(current);
    TRY(test_session_with(runtime, "scale", &options, &session, &fault));
    TRY(call_session_run(session, &x, &y, &fault));
    expect_tensor(y, 8);
    DO(iobind_tensor_release(x));
    DO(iobind_tensor_release(y));
    DO(iobind_session_destroy(session));
  }
  choose(0);
}

static void *act_on_a_thread(void *context) {
  const int gpu = *(const int *)context;
  chosen = 0; /* CUDA's default */
  for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++) {
    actions[i](gpu);
  }
  return NULL;
}

/* The current device of a thread that never set one is the first. */
static void threads_that_chose_none(void **state) {
  (void)state;
  for (int gpu = 0; gpu < GPUS; gpu++) {
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, act_on_a_thread, &gpu), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
  }
}

/* ---- memory and streams of the program ---- */

static void expect_wrapped(iobind_status expected, int gpu, iobind_memory memory, void *data, const char *words) {
  static const int64_t dim = COUNT;
  iobind_tensor *tensor = NULL;
  fixture_arm();
  fixture_expect(expected,
                 call_tensor_wrap(devices[gpu], memory, IOBIND_DTYPE_FLOAT32, &dim, 1, data, COUNT * sizeof(float), NULL, NULL,
                                  &tensor, &fault),
                 "iobind_tensor_wrap", __FILE__, __LINE__);
  expect_kept("iobind_tensor_wrap", __LINE__);
  if (words != NULL) {
    expect_words(words);
  }
  iobind_tensor_release(tensor);
}

/* Wrapped memory must be of the given device and kind. */
static void wrapped_memory(void **state) {
  (void)state;
  const iobind_memory device = IOBIND_MEMORY_DEFAULT;
  const iobind_memory pinned = IOBIND_MEMORY_HOST_ACCESSIBLE;
  for (int gpu = 0; gpu < GPUS; gpu++) {
    void *memory;
    void *locked;
    void *pageable = malloc(COUNT * sizeof(float));
    choose(gpu);
    assert_int_equal(cudaMalloc(&memory, COUNT * sizeof(float)), CUDA_OK);
    assert_int_equal(cudaMallocHost(&locked, COUNT * sizeof(float)), CUDA_OK);
    choose(1 - gpu);
    expect_wrapped(IOBIND_OK, gpu, device, memory, NULL);
    expect_wrapped(IOBIND_OK, gpu, pinned, locked, NULL);
    expect_wrapped(IOBIND_OK, 1 - gpu, pinned, locked, NULL); /* all GPUs can use it */
    expect_wrapped(IOBIND_ERROR_WRONG_DEVICE, 1 - gpu, device, memory, "got memory of CUDA's device");
    expect_wrapped(IOBIND_ERROR_WRONG_DEVICE, gpu, pinned, memory, "got memory of a GPU");
    expect_wrapped(IOBIND_ERROR_WRONG_DEVICE, gpu, device, locked, "got pinned memory");
    expect_wrapped(IOBIND_ERROR_WRONG_DEVICE, gpu, device, pageable, "that CUDA does not know");
    expect_wrapped(IOBIND_ERROR_WRONG_DEVICE, gpu, pinned, pageable, "that CUDA does not know");
    assert_int_equal(cudaFree(memory), CUDA_OK);
    assert_int_equal(cudaFreeHost(locked), CUDA_OK);
    expect_wrapped(IOBIND_ERROR_WRONG_DEVICE, gpu, device, memory, "that CUDA does not know");
    assert_int_equal(cudaPeekAtLastError(), CUDA_OK);
    free(pageable);
  }
  choose(0);
}

/* A stream among the EP's options must be a live stream of the session's GPU. */
static void user_streams(void **state) {
  (void)state;
  static const char *const key = "user_compute_stream";
  char address[32];
  const char *value = address;
  cuda_stream theirs;
  iobind_session *session = NULL;
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  options.device_count = 1;
  options.ep_keys = &key;
  options.ep_values = &value;
  options.ep_option_count = 1;
  choose(1);
  assert_int_equal(cudaStreamCreateWithFlags(&theirs, NON_BLOCKING), CUDA_OK);
  choose(0);
  snprintf(address, sizeof address, "%p", (void *)theirs);
  options.devices = &devices[1];
  TRY(test_session_with(runtime, "scale", &options, &session, &fault));
  DO(iobind_session_destroy(session));
  options.devices = &devices[0];
  expect(IOBIND_ERROR_WRONG_DEVICE, test_session_with(runtime, "scale", &options, &session, &fault));
  expect_words("expected a stream of 'cuda:0'");
  assert_int_equal(cudaStreamDestroy(theirs), CUDA_OK);
  options.devices = &devices[1];
  expect(IOBIND_ERROR_INVALID_ARGUMENT, test_session_with(runtime, "scale", &options, &session, &fault));
  expect_words("was it destroyed?");
  assert_int_equal(cudaPeekAtLastError(), CUDA_OK);
}

/* The check that a device works does not take this error for its own, and does not choose another device. */
static void an_error_that_the_program_left(void **state) {
  (void)state;
  iobind_device *found;
  iobind_device_info info = IOBIND_DEVICE_INFO_INIT;
  choose(0);
  DO(iobind_runtime_destroy(runtime));
  runtime = fixture_runtime(); /* it has not checked a device yet */
  assert_int_not_equal(cudaSetDevice(99), CUDA_OK);
  assert_int_not_equal(cudaPeekAtLastError(), CUDA_OK);
  TRY(iobind_runtime_find_device(runtime, "cuda", &found, NULL, &fault));
  expect_ok(iobind_device_get_info(found, &info, &fault));
  assert_string_equal(info.spec, "cuda:0");
  TRY(iobind_runtime_find_device(runtime, "cuda:1", &devices[1], NULL, &fault));
  devices[0] = found;
}

/* ---- the end ---- */

/* Release the last reference to the runtime. */
static void the_runtime_goes(void **state) {
  (void)state;
  choose(1);
  DO(iobind_runtime_destroy(runtime));
  runtime = fixture_runtime();
  expect_kept("iobind_runtime_create", __LINE__);
  for (int gpu = 0; gpu < GPUS; gpu++) {
    TRY(iobind_runtime_find_device(runtime, gpu == 0 ? "cuda:0" : "cuda:1", &devices[gpu], NULL, &fault));
  }
  tensors(0);
  choose(0);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(by_a_policy),  cmocka_unit_test(threads_that_chose_none),        cmocka_unit_test(wrapped_memory),
    cmocka_unit_test(user_streams), cmocka_unit_test(an_error_that_the_program_left), cmocka_unit_test(the_runtime_goes),
};

FIXTURE_MAIN(tests, start, stop);
