/* Runs on streams with the CUDA EP. A session computes on its own stream, which is ordered with the caller's stream by events. Run with
 * race=fail: a missing order fails the run. */
#define _POSIX_C_SOURCE 200809L /* mkstemp, nanosleep */
#include "fixture.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "binding/table.h"
#include "cuda.h"
#include "memory/stream.h"
#include "session/session.h"
#include "vcuda.h"
#include "../rig/calls.h"

enum { WIDTH = 8, VOCAB = 16, COUNT = 4 };

static iobind_runtime *runtime;
static iobind_device *device;
static iobind_device *host;

static int start(void **state) {
  (void)state;
  runtime = fixture_runtime();
  device = fixture_device(runtime, "cuda");
  host = iobind_runtime_get_device(runtime, 0);
  return 0;
}

static int stop(void **state) {
  (void)state;
  assert_int_equal(vcuda_get(0, "races"), 0);
  iobind_runtime_destroy(runtime);
  return 0;
}

static iobind_stream *make_stream(void) {
  iobind_stream *stream;
  expect_ok(iobind_stream_create(device, NULL, &stream, &fault));
  return stream;
}

static iobind_tensor *make_tensor(iobind_device *where, iobind_memory memory, iobind_dtype dtype, int64_t rows,
                                  int64_t columns) {
  iobind_tensor *tensor;
  const int64_t dims[2] = {rows, columns};
  expect_ok(iobind_tensor_create(where, memory, dtype, dims, columns < 0 ? 1 : 2, &tensor, &fault));
  return tensor;
}

/* Holds back a CUDA stream. */
typedef struct gate {
  sem_t open;
} gate;

static void wait_at_gate(void *data) {
  while (sem_wait(&((gate *)data)->open) != 0) {
  }
}

static void close_gate(gate *g, iobind_stream *stream) {
  sem_init(&g->open, 0, 0);
  assert_int_equal(cudaLaunchHostFunc(call_stream_get_native(stream), wait_at_gate, g), CUDA_OK);
}

static void open_gate(gate *g) {
  sem_post(&g->open);
}

/* ---- a decoder ---- */

static int64_t token_of(int step) {
  return (step * 7 + 3) % VOCAB;
}

/* The same steps on the CPU, one by one. */
static void decode_on_cpu(int steps, float logits[VOCAB]) {
  iobind_session *session = fixture_session(runtime, NULL, "decoder softmax=0");
  iobind_tensor *inputs[3] = {make_tensor(host, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_INT64, 1, -1),
                              make_tensor(host, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, 0, WIDTH),
                              make_tensor(host, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, 0, WIDTH)};
  for (int step = 0; step < steps; step++) {
    iobind_tensor *outputs[4] = {NULL};
    const int64_t token = token_of(step);
    expect_ok(iobind_tensor_write(inputs[0], 0, &token, sizeof token, NULL, &fault));
    expect_ok(call_session_run(session, inputs, outputs, &fault));
    expect_ok(iobind_tensor_read(outputs[0], 0, logits, VOCAB * sizeof *logits, NULL, &fault));
    for (int i = 1; i < 3; i++) {
      iobind_tensor_release(inputs[i]);
      inputs[i] = outputs[i];
    }
    iobind_tensor_release(outputs[0]);
    iobind_tensor_release(outputs[3]);
  }
  for (int i = 0; i < 3; i++) {
    iobind_tensor_release(inputs[i]);
  }
  iobind_session_destroy(session);
}

/* All steps are queued: tokens are read from pinned memory, keys and values are carried from run to run. No call blocks the host, neither a
 * synchronization nor a call that blocks as a side effect (a copy of pageable memory, cudaFree). */
static void steady_decoder_waits_for_nothing(void **state) {
  (void)state;
  enum { WARM = 8, STEADY = 48 };
  float logits[VOCAB];
  float expected[VOCAB];
  int64_t *tokens;
  iobind_stream *stream = make_stream();
  iobind_session *session = fixture_session(runtime, device, "decoder softmax=0");
  iobind_binding *binding;
  iobind_tensor *all = make_tensor(device, IOBIND_MEMORY_HOST_ACCESSIBLE, IOBIND_DTYPE_INT64, WARM + STEADY, -1);
  iobind_tensor *token = make_tensor(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_INT64, 1, -1);
  iobind_tensor *key = make_tensor(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, 0, WIDTH);
  iobind_tensor *result = make_tensor(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, 1, VOCAB);
  iobind_tensor *slices[WARM + STEADY];
  expect_ok(iobind_tensor_map(all, IOBIND_DTYPE_INT64, IOBIND_ACCESS_WRITE, (void **)&tokens, &fault));
  expect_ok(iobind_binding_create(session, &binding, &fault));
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, token, NULL, &fault));
  expect_ok(iobind_binding_set_output(binding, 0, result, 0, &fault));
  for (size_t i = 1; i < 3; i++) {
    expect_ok(iobind_binding_set_input(binding, i, IOBIND_INPUT_RESIDENT, key, NULL, &fault));
    expect_ok(iobind_binding_carry(binding, i, i, IOBIND_CARRY_MOVE, &fault));
  }
  expect_ok(iobind_binding_place_output(binding, 3, IOBIND_OUTPUT_NONE, NULL, IOBIND_MEMORY_DEFAULT, &fault));
  for (int step = 0; step < WARM + STEADY; step++) {
    tokens[step] = token_of(step);
    expect_ok(iobind_tensor_slice(all, step, 1, &slices[step], &fault));
  }
  for (int step = 0; step < WARM + STEADY; step++) {
    const iobind_tensor *from = slices[step];
    if (step == WARM) {
      expect_ok(iobind_stream_synchronize(stream, &fault));
      assert_int_equal(vcuda_reset(0), 0);
    }
    expect_ok(iobind_tensor_copy(&from, &token, 1, stream, &fault));
    expect_ok(iobind_binding_run(binding, stream, &fault));
  }
  assert_int_equal(vcuda_get(0, "syncs"), 0);
  assert_true(vcuda_get(0, "launches") >= STEADY);
  expect_ok(iobind_stream_synchronize(stream, &fault));
  expect_ok(iobind_tensor_read(result, 0, logits, sizeof logits, NULL, &fault));
  decode_on_cpu(WARM + STEADY, expected);
  assert_memory_equal(logits, expected, sizeof logits);
  for (int step = 0; step < WARM + STEADY; step++) {
    iobind_tensor_release(slices[step]);
  }
  iobind_binding_destroy(binding);
  iobind_session_destroy(session);
  iobind_tensor_release(all);
  iobind_tensor_release(token);
  iobind_tensor_release(key);
  iobind_tensor_release(result);
  iobind_stream_destroy(stream);
}

/* ---- order ---- */

typedef struct product {
  iobind_binding *binding;
  iobind_tensor *x;
  iobind_tensor *z;
} product;

static const float unit[COUNT] = {1, 0, 0, 1};

/* z is x times the identity matrix. */
static product make_product(iobind_session *session) {
  product p;
  iobind_tensor *y = make_tensor(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, 2, 2);
  p.x = make_tensor(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, 2, 2);
  p.z = make_tensor(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, 2, 2);
  expect_ok(iobind_tensor_write(y, 0, unit, sizeof unit, NULL, &fault));
  expect_ok(iobind_binding_create(session, &p.binding, &fault));
  expect_ok(iobind_binding_set_input(p.binding, 0, IOBIND_INPUT_RESIDENT, p.x, NULL, &fault));
  expect_ok(iobind_binding_set_input(p.binding, 1, IOBIND_INPUT_RESIDENT, y, NULL, &fault));
  expect_ok(iobind_binding_set_output(p.binding, 0, p.z, 0, &fault));
  iobind_tensor_release(y);
  return p;
}

static void free_product(product *p) {
  iobind_binding_destroy(p->binding);
  iobind_tensor_release(p->x);
  iobind_tensor_release(p->z);
}

static void expect_product(const product *p, float value) {
  float read[COUNT];
  expect_ok(iobind_tensor_read(p->z, 0, read, sizeof read, NULL, &fault));
  for (int i = 0; i < COUNT; i++) {
    assert_true(read[i] == value);
  }
}

/* The caller's stream is held back. The run waits for it, and later work on that stream waits for the run. */
static void run_is_between_what_is_on_the_stream(void **state) {
  (void)state;
  gate g;
  float values[COUNT] = {3, 3, 3, 3};
  float read[COUNT] = {0};
  iobind_stream *stream = make_stream();
  iobind_event *event;
  iobind_session *session = fixture_session(runtime, device, "matmul");
  product p = make_product(session);
  expect_ok(iobind_event_create(device, &event, &fault));
  close_gate(&g, stream);
  expect_ok(iobind_tensor_write(p.x, 0, values, sizeof values, stream, &fault));
  expect_ok(call_binding_run(p.binding, stream, event, &fault));
  expect_ok(iobind_tensor_read(p.z, 0, read, sizeof read, stream, &fault));
  expect(IOBIND_ERROR_TIMEOUT, iobind_event_wait(event, 1000000, &fault));
  expect(IOBIND_ERROR_INVALID_STATE, iobind_binding_run(p.binding, NULL, &fault));
  open_gate(&g);
  expect_ok(iobind_event_wait(event, UINT64_MAX / 4, &fault));
  expect_ok(iobind_stream_synchronize(stream, &fault));
  assert_memory_equal(read, values, sizeof read);
  expect_product(&p, 3);
  free_product(&p);
  iobind_session_destroy(session);
  iobind_event_destroy(event);
  iobind_stream_destroy(stream);
}

typedef struct job {
  iobind_session *session;
  bool streamed;
  int good;
} job;

static void *do_job(void *context) {
  job *self = context;
  iobind_stream *stream = make_stream();
  product p = make_product(self->session);
  for (int i = 1; i <= 20; i++) {
    float values[COUNT];
    float read[COUNT] = {0};
    for (int k = 0; k < COUNT; k++) {
      values[k] = (float)(i + k);
    }
    iobind_stream *on = self->streamed ? stream : NULL;
    iobind_status status = iobind_tensor_write(p.x, 0, values, sizeof values, on, NULL);
    status = status == IOBIND_OK ? iobind_binding_run(p.binding, on, NULL) : status;
    status = status == IOBIND_OK ? iobind_tensor_read(p.z, 0, read, sizeof read, on, NULL) : status;
    status = status == IOBIND_OK && self->streamed ? iobind_stream_synchronize(stream, NULL) : status;
    bool good = status == IOBIND_OK;
    for (int k = 0; k < COUNT; k++) {
      good = good && read[k] == values[k];
    }
    self->good += good;
  }
  free_product(&p);
  iobind_stream_destroy(stream);
  return NULL;
}

/* Bindings of one session in several threads, with and without streams. */
static void bindings_take_turns(void **state) {
  (void)state;
  iobind_session *session = fixture_session(runtime, device, "matmul");
  job jobs[3] = {{session, true, 0}, {session, true, 0}, {session, false, 0}};
  pthread_t threads[3];
  for (int i = 0; i < 3; i++) {
    assert_int_equal(pthread_create(&threads[i], NULL, do_job, &jobs[i]), 0);
  }
  for (int i = 0; i < 3; i++) {
    pthread_join(threads[i], NULL);
    assert_int_equal(jobs[i].good, 20);
  }
  iobind_session_destroy(session);
}

static void *run_at_once(void *context) {
  return (void *)(intptr_t)iobind_binding_run(context, NULL, NULL);
}

static void *bind_unit(void *context) {
  product *self = context;
  iobind_tensor *x = make_tensor(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, 2, 2);
  iobind_status status = iobind_binding_set_input(self->binding, 0, IOBIND_INPUT_RESIDENT, x, NULL, NULL);
  iobind_tensor_release(x);
  return (void *)(intptr_t)status;
}

static uint64_t given_input(const product *self) {
  return self->binding->sides[0].inputs[0].serial;
}

/* ORT's BindInput sets the stream of the session's cuBLAS handle, which another thread's run may be using. */
static void inputs_are_bound_between_runs(void **state) {
  (void)state;
  gate g;
  const struct timespec moment = {0, 20000000};
  void *status = NULL;
  iobind_session *session = fixture_session(runtime, device, "matmul");
  iobind_stream *stream = make_stream();
  product held = make_product(session);
  product running = make_product(session);
  product bound = make_product(session);
  product unbound = make_product(session);
  expect_ok(iobind_binding_run(bound.binding, NULL, &fault));
  uint64_t before = given_input(&bound);
  close_gate(&g, stream);
  expect_ok(iobind_tensor_write(held.x, 0, unit, sizeof unit, stream, &fault));
  expect_ok(iobind_binding_run(held.binding, stream, &fault));
  pthread_t threads[3];
  assert_int_equal(pthread_create(&threads[0], NULL, run_at_once, running.binding), 0);
  while ((atomic_load(&session->turn.state) & IOBIND__TURN_TAKEN) == 0) {
    nanosleep(&moment, NULL);
  }
  assert_int_equal(pthread_create(&threads[1], NULL, bind_unit, &bound), 0);
  assert_int_equal(pthread_create(&threads[2], NULL, run_at_once, unbound.binding), 0);
  nanosleep(&moment, NULL); /* gives a thread that does not wait time to go wrong */
  uint64_t meanwhile[] = {given_input(&bound), given_input(&unbound)};
  open_gate(&g);
  for (int i = 0; i < 3; i++) {
    assert_int_equal(pthread_join(threads[i], &status), 0);
    assert_int_equal((intptr_t)status, IOBIND_OK);
  }
  assert_true(meanwhile[0] == before && given_input(&bound) != before);
  assert_true(meanwhile[1] == 0 && given_input(&unbound) != 0);
  free_product(&held);
  free_product(&running);
  free_product(&bound);
  free_product(&unbound);
  iobind_stream_destroy(stream);
  iobind_session_destroy(session);
}

/* ---- the caller's stream as the session's ---- */

static iobind_status open_on(iobind_stream *stream, const char *key, const char *value, iobind_session **session) {
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  options.devices = &device;
  options.device_count = 1;
  options.stream = stream;
  options.ep_keys = &key;
  options.ep_values = &value;
  options.ep_option_count = key == NULL ? 0 : 1;
  fixture_arm();
  return test_session_with(runtime, "matmul", &options, session, &fault);
}

static void session_on_the_callers_stream(void **state) {
  (void)state;
  gate g;
  const float values[COUNT] = {5, 5, 5, 5};
  iobind_stream *stream = make_stream();
  iobind_stream *other = make_stream();
  iobind_session *session;
  expect_ok(open_on(stream, NULL, NULL, &session));
  product p = make_product(session);
  close_gate(&g, stream);
  expect_ok(iobind_tensor_write(p.x, 0, values, sizeof values, stream, &fault));
  expect_ok(iobind_binding_run(p.binding, stream, &fault));
  expect(IOBIND_ERROR_INVALID_STATE, iobind_binding_run(p.binding, other, &fault));
  open_gate(&g);
  expect_ok(iobind_stream_synchronize(stream, &fault));
  expect_product(&p, 5);
  expect_ok(iobind_tensor_write(p.x, 0, unit, sizeof unit, stream, &fault));
  expect_ok(iobind_binding_run(p.binding, NULL, &fault)); /* on the session's stream, and so after the write */
  expect_ok(iobind_stream_synchronize(stream, &fault));
  iobind_stream_destroy(stream); /* the session retains it */
  expect_ok(iobind_tensor_write(p.x, 0, values, sizeof values, other, &fault));
  expect_ok(iobind_binding_run(p.binding, other, &fault));
  expect_ok(iobind_stream_synchronize(other, &fault));
  expect_product(&p, 5);
  free_product(&p);
  iobind_session_destroy(session);
  iobind_stream_destroy(other);
}

static void streams_that_are_refused(void **state) {
  (void)state;
  iobind_session *session;
  iobind_stream *stream = make_stream();
  iobind_stream *of_host;
  expect_ok(iobind_stream_create(host, NULL, &of_host, &fault));
  assert_int_equal(open_on(of_host, NULL, NULL, &session), IOBIND_ERROR_WRONG_DEVICE);
  assert_int_equal(open_on(stream, "user_compute_stream", "0x10", &session), IOBIND_ERROR_INVALID_ARGUMENT);
  expect_words("user_compute_stream");
  assert_int_equal(open_on(stream, "do_copy_in_default_stream", "0", &session), IOBIND_ERROR_INVALID_ARGUMENT);
  expect_words("do_copy_in_default_stream");
  iobind_stream_destroy(of_host);
  iobind_stream_destroy(stream);
}

/* If the caller's options determine how the EP copies, or where it computes, a run on a stream is complete when the call returns. */
static void callers_options_go_first(void **state) {
  (void)state;
  const float values[COUNT] = {7, 7, 7, 7};
  iobind_stream *stream = make_stream();
  iobind_session *session;
  expect_ok(open_on(NULL, "do_copy_in_default_stream", "0", &session));
  assert_null(session->compute.stream);
  product p = make_product(session);
  expect_ok(iobind_tensor_write(p.x, 0, values, sizeof values, stream, &fault));
  expect_ok(iobind_binding_run(p.binding, stream, &fault));
  expect_ok(iobind_binding_check(p.binding, &fault));
  expect_product(&p, 7);
  free_product(&p);
  iobind_session_destroy(session);
  iobind_stream_destroy(stream);
}

/* Whether runs on a stream block depends on the value of an option: with the EP's default values, and with a stream of the caller,
 * they do not block the host. */
static void options_that_keep_runs_on_streams(void **state) {
  (void)state;
  enum { RUNS = 10 };
  const float values[COUNT] = {4, 4, 4, 4};
  char address[32];
  cuda_stream theirs = NULL;
  assert_int_equal(cudaStreamCreateWithFlags(&theirs, CUDA_STREAM_NON_BLOCKING), CUDA_OK);
  snprintf(address, sizeof address, "%p", (void *)theirs);
  const char *const given[][2] = {{"do_copy_in_default_stream", "1"},
                                  {"do_copy_in_default_stream", "True"},
                                  {"has_user_compute_stream", "0"},
                                  {"gpu_external_alloc", "0"},
                                  {"use_ep_level_unified_stream", "1"},
                                  {"arena_extend_strategy", "kSameAsRequested"},
                                  {"use_tf32", "0"},
                                  {"cuda.user_compute_stream", "0"},
                                  {"user_compute_stream", address}};
  for (size_t i = 0; i < sizeof given / sizeof given[0]; i++) {
    iobind_stream *stream = make_stream();
    iobind_session *session;
    expect_ok(open_on(NULL, given[i][0], given[i][1], &session));
    product p = make_product(session);
    expect_ok(iobind_tensor_write(p.x, 0, values, sizeof values, stream, &fault));
    expect_ok(iobind_binding_run(p.binding, stream, &fault));
    expect_ok(iobind_stream_synchronize(stream, &fault));
    assert_int_equal(vcuda_reset(0), 0);
    for (int run = 0; run < RUNS; run++) {
      expect_ok(iobind_binding_run(p.binding, stream, &fault));
    }
    assert_int_equal(vcuda_get(0, "syncs"), 0);
    expect_ok(iobind_stream_synchronize(stream, &fault));
    expect_product(&p, 4);
    free_product(&p);
    iobind_session_destroy(session);
    iobind_stream_destroy(stream);
  }
  assert_int_equal(cudaStreamDestroy(theirs), CUDA_OK);
}

/* A session created by other code has no stream of iobind. */
static void adopted_session_runs_at_once(void **state) {
  (void)state;
  const float values[COUNT] = {9, 9, 9, 9};
  iobind_stream *stream = make_stream();
  iobind_session *own;
  iobind_session *adopted;
  expect_ok(open_on(NULL, "do_copy_in_default_stream", "0", &own));
  expect_ok(iobind_session_wrap(runtime, own->session, NULL, NULL, &adopted, &fault));
  product p = make_product(adopted);
  expect_ok(iobind_tensor_write(p.x, 0, values, sizeof values, stream, &fault));
  expect_ok(iobind_binding_run(p.binding, stream, &fault));
  expect_product(&p, 9);
  free_product(&p);
  iobind_session_destroy(adopted);
  iobind_session_destroy(own);
  iobind_stream_destroy(stream);
}

/* Work that the EP queues on the stream while its session is destroyed may free the session's memory. ORT up to 1.30 did this in a
 * host function, which must not call CUDA, and the process ended. */
static void session_goes_before_its_stream(void **state) {
  (void)state;
  iobind_stream *stream = make_stream();
  iobind_session *session = fixture_session(runtime, device, "decoder softmax=0");
  iobind_tensor *inputs[3] = {make_tensor(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_INT64, 1, -1),
                              make_tensor(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, 2, WIDTH),
                              make_tensor(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, 2, WIDTH)};
  const float rows[2 * WIDTH] = {0};
  const int64_t token = 1;
  iobind_binding *binding;
  expect_ok(iobind_binding_create(session, &binding, &fault));
  for (size_t i = 0; i < 3; i++) {
    expect_ok(iobind_tensor_write(inputs[i], 0, i == 0 ? (const void *)&token : rows, i == 0 ? sizeof token : sizeof rows, NULL,
                                  &fault));
    expect_ok(iobind_binding_set_input(binding, i, IOBIND_INPUT_RESIDENT, inputs[i], NULL, &fault));
    iobind_tensor_release(inputs[i]);
  }
  assert_int_equal(vcuda_set(0, "delay_compute", "every:1,us:20000,name:a host function"), 0);
  expect_ok(iobind_binding_run(binding, stream, &fault));
  iobind_binding_destroy(binding);
  iobind_session_destroy(session);
  expect_ok(iobind_stream_synchronize(stream, &fault));
  assert_int_equal(vcuda_set(0, "delay_compute", "0"), 0);
  iobind_stream_destroy(stream);
}

/* ---- a pipeline ---- */

typedef struct done {
  int copies;
  int kernels;
} done;

/* Open vcuda's trace so far. */
static FILE *open_trace(void) {
  char path[] = "/tmp/vcuda-trace-XXXXXX";
  int file = mkstemp(path);
  assert_true(file >= 0);
  close(file);
  assert_int_equal(vcuda_trace_write(path), 0);
  FILE *trace = fopen(path, "r");
  assert_non_null(trace);
  (void)unlink(path);
  return trace;
}

/* Count the device's executed work. */
static done count_done(void) {
  char line[512];
  done count = {0, 0};
  FILE *trace = open_trace();
  while (fgets(line, sizeof line, trace) != NULL) {
    bool work = strstr(line, "\"tid\":0,") == NULL; /* otherwise a call of the host */
    count.copies += work && strstr(line, "\"name\":\"cudaMemcpyAsync\"") != NULL;
    count.kernels += work && strstr(line, "\"name\":\"_BinaryElementWiseSimple\"") != NULL;
  }
  (void)fclose(trace);
  return count;
}

/* A caller's stream given by its address has the same effect as a wrapped one: the session's work is ordered after earlier work on it,
 * and later work on it after the session's work. ORT alone would compute on the NULL stream with only the address. */
static void the_address_of_a_stream_is_enough(void **state) {
  (void)state;
  const float values[COUNT] = {6, 6, 6, 6};
  float read[COUNT] = {0};
  char address[32];
  gate g;
  cuda_stream theirs = NULL;
  iobind_stream *stream = make_stream();
  iobind_session *session;
  assert_int_equal(cudaStreamCreateWithFlags(&theirs, CUDA_STREAM_NON_BLOCKING), CUDA_OK);
  snprintf(address, sizeof address, "%p", (void *)theirs);
  assert_int_equal(open_on(stream, "user_compute_stream", address, &session), IOBIND_ERROR_INVALID_ARGUMENT);
  expect_words("expected one of them");
  expect_ok(open_on(NULL, "user_compute_stream", address, &session));
  product p = make_product(session);
  iobind_tensor *ready = make_tensor(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, COUNT, -1);
  expect_ok(iobind_tensor_write(ready, 0, values, sizeof values, NULL, &fault));
  expect_ok(iobind_tensor_write(p.x, 0, unit, sizeof unit, NULL, &fault));
  expect_ok(iobind_binding_run(p.binding, NULL, &fault));
  sem_init(&g.open, 0, 0);
  assert_int_equal(cudaLaunchHostFunc(theirs, wait_at_gate, &g), CUDA_OK);
  assert_int_equal(cudaMemcpyAsync(iobind_tensor_get_address(p.x), iobind_tensor_get_address(ready), sizeof values,
                                   CUDA_COPY_DEVICE, theirs),
                   CUDA_OK);
  expect_ok(iobind_binding_run(p.binding, stream, &fault));
  open_gate(&g);
  assert_int_equal(cudaMemcpyAsync(read, iobind_tensor_get_address(p.z), sizeof read, CUDA_COPY_DOWN, theirs), CUDA_OK);
  assert_int_equal(cudaStreamSynchronize(theirs), CUDA_OK);
  assert_memory_equal(read, values, sizeof read);
  expect_ok(iobind_stream_synchronize(stream, &fault));
  free_product(&p);
  iobind_tensor_release(ready);
  iobind_session_destroy(session);
  iobind_stream_destroy(stream);
  assert_int_equal(cudaStreamDestroy(theirs), CUDA_OK);
}

static void pull(iobind_pipeline *pipeline) {
  iobind_tensor *y;
  float read[COUNT];
  expect_ok(iobind_pipeline_next(pipeline, IOBIND_NO_TIMEOUT, &y, 1, NULL, &fault));
  expect_ok(iobind_tensor_read(y, 0, read, sizeof read, NULL, &fault));
  assert_true(read[0] == 6); /* 2 * 3 */
}

/* While one item's run is held back, later items are uploaded, and the preceding one is downloaded and returned. Only pulling an item
 * blocks the host. */
static void copies_overlap_runs(void **state) {
  (void)state;
  enum { SLOTS = 3 };
  const float values[COUNT] = {3, 3, 3, 3};
  const struct timespec moment = {.tv_nsec = 1000000};
  gate g;
  iobind_pipeline *pipeline;
  iobind_pipeline_options options = IOBIND_PIPELINE_OPTIONS_INIT;
  iobind_session *session = fixture_session(runtime, device, "scale");
  iobind_tensor *item = make_tensor(host, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, COUNT, -1);
  expect_ok(iobind_tensor_write(item, 0, values, sizeof values, NULL, &fault));
  options.slots = SLOTS;
  expect_ok(call_pipeline_create(session, &options, &pipeline, &fault));
  for (int i = 0; i < SLOTS; i++) { /* allocates the memory */
    expect_ok(call_pipeline_submit(pipeline, &item, 1, &fault));
  }
  for (int i = 0; i < SLOTS; i++) {
    pull(pipeline);
  }
  assert_int_equal(vcuda_reset(0), 0);
  assert_int_equal(vcuda_set(0, "trace", "1"), 0);
  expect_ok(call_pipeline_submit(pipeline, &item, 1, &fault));
  close_gate(&g, session->compute.stream);
  expect_ok(call_pipeline_submit(pipeline, &item, 1, &fault));
  expect_ok(call_pipeline_submit(pipeline, &item, 1, &fault));
  assert_int_equal(vcuda_get(0, "syncs"), 0);
  pull(pipeline);
  while (count_done().copies < SLOTS + 1) { /* without overlap this loop does not end */
    nanosleep(&moment, NULL);
  }
  done held = count_done();
  open_gate(&g);
  pull(pipeline);
  pull(pipeline);
  done all = count_done();
  assert_int_equal(held.copies, SLOTS + 1);
  assert_int_equal(held.kernels, 1);
  assert_int_equal(all.copies, 2 * SLOTS);
  assert_int_equal(all.kernels, SLOTS);
  assert_int_equal(vcuda_get(0, "syncs"), vcuda_get(0, "sync_event"));
  assert_int_equal(vcuda_set(0, "trace", "0"), 0);
  iobind_pipeline_destroy(pipeline);
  iobind_tensor_release(item);
  iobind_session_destroy(session);
}

/* ---- priorities ---- */

static iobind_status make_with(const char *const *keys, const char *const *values, size_t count, iobind_stream **stream) {
  iobind_stream_options options = IOBIND_STREAM_OPTIONS_INIT;
  options.option_keys = keys;
  options.option_values = values;
  options.option_count = count;
  fixture_arm();
  return iobind_stream_create(device, &options, stream, &fault);
}

static void a_stream_with_a_priority(void **state) {
  (void)state;
  static const char *const key = "priority";
  static const char *const values[] = {"-5", "-1", "0"};
  int64_t before = vcuda_get(0, "live_streams");
  for (int i = 0; i < 3; i++) {
    iobind_stream *stream;
    int priority = 1;
    expect_ok(make_with(&key, &values[i], 1, &stream));
    assert_int_equal(cudaStreamGetPriority(call_stream_get_native(stream), &priority), CUDA_OK);
    assert_int_equal(priority, atoi(values[i]));
    iobind_stream_destroy(stream);
  }
  assert_int_equal(vcuda_get(0, "live_streams"), before);
}

static void priorities_that_are_refused(void **state) {
  (void)state;
  static const char *const key[] = {"priority", "priority"}, *const unknown = "prioritee", *const one = "1";
  static const char *const wrong[] = {"1", "-6", "high", ""}, *const good[] = {"-1", "-1"};
  iobind_stream *stream;
  int64_t before = vcuda_get(0, "live_streams");
  for (int i = 0; i < 4; i++) {
    assert_int_equal(make_with(key, &wrong[i], 1, &stream), IOBIND_ERROR_INVALID_ARGUMENT);
    expect_words(i < 2 ? "priority: expected -5 (the highest) to 0 (the lowest), got"
                       : "priority: expected -2147483648 .. 2147483647, got");
    assert_null(stream);
  }
  assert_int_equal(make_with(key, good, 2, &stream), IOBIND_ERROR_INVALID_ARGUMENT);
  expect_words("'priority' is given twice");
  assert_int_equal(make_with(&unknown, &one, 1, &stream), IOBIND_ERROR_NOT_SUPPORTED);
  expect_words("expected the option 'priority' of a stream, got 'prioritee'");
  assert_int_equal(vcuda_set(0, "fail_stream", "1,name:cudaStreamSetAttribute"), 0);
  assert_int_equal(make_with(key, good, 1, &stream), IOBIND_ERROR_RUNTIME);
  expect_words("priority: CUDA error 999");
  assert_int_equal(vcuda_set(0, "fail_stream", "0"), 0);
  assert_int_equal(vcuda_get(0, "live_streams"), before);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(steady_decoder_waits_for_nothing),
    cmocka_unit_test(run_is_between_what_is_on_the_stream),
    cmocka_unit_test(bindings_take_turns),
    cmocka_unit_test(inputs_are_bound_between_runs),
    cmocka_unit_test(session_on_the_callers_stream),
    cmocka_unit_test(streams_that_are_refused),
    cmocka_unit_test(callers_options_go_first),
    cmocka_unit_test(options_that_keep_runs_on_streams),
    cmocka_unit_test(adopted_session_runs_at_once),
    cmocka_unit_test(session_goes_before_its_stream),
    cmocka_unit_test(copies_overlap_runs),
    cmocka_unit_test(the_address_of_a_stream_is_enough),
    cmocka_unit_test(a_stream_with_a_priority),
    cmocka_unit_test(priorities_that_are_refused),
};

FIXTURE_MAIN(tests, start, stop);
