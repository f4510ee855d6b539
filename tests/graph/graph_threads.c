/* Captured graphs and threads: only the thread that has captured a graph replays it, nothing else runs
 * during a capture, and runs of one session do not overlap. */
#define _POSIX_C_SOURCE 200809L /* nanosleep */
#include "session/session.h"

#include "iobind/interop.h"

#include "graph_rig.h" /* its globals have the names of parameters there */

#include "onnx.h"
#include "../rig/calls.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N = 48 };

typedef struct visitor {
  iobind_binding *binding;
  iobind_status status;
  char message[sizeof fault.message];
} visitor;

static void *visit(void *context) {
  visitor *self = context;
  iobind_error error = IOBIND_ERROR_INIT;
  self->status = iobind_binding_run(self->binding, NULL, &error);
  memcpy(self->message, error.message, sizeof error.message);
  return NULL;
}

static visitor visit_in_thread(iobind_binding *binding) {
  visitor self = {.binding = binding};
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, visit, &self), 0);
  assert_int_equal(pthread_join(thread, NULL), 0);
  return self;
}

/* ONNX Runtime would silently capture again for another thread, and execute the model three times. */
static void another_thread(void **state) {
  (void)state;
  iobind_session *session = make_session("scale", 2);
  iobind_tensor *x = make_filled(N, 1);
  iobind_binding *binding = make_binding(session, x, NULL);
  expect_ok(iobind_binding_carry(binding, 0, 0, IOBIND_CARRY_IN_PLACE, &fault));
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  visitor other = visit_in_thread(binding);
  assert_int_equal(other.status, IOBIND_ERROR_INVALID_STATE);
  assert_non_null(strstr(other.message, "another thread"));
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  expect_output(binding, N, 4);
  expect_ok(iobind_binding_reset_graphs(binding, &fault));
  other = visit_in_thread(binding);
  assert_int_equal(other.status, IOBIND_OK);
  expect_output(binding, N, 8);
  other = visit_in_thread(binding); /* its id may be that of the one before, which has ended */
  assert_int_equal(other.status, IOBIND_ERROR_INVALID_STATE);
  iobind_binding_destroy(binding);
  iobind_tensor_release(x);
  iobind_session_destroy(session);
}

enum { THREADS = 4, ROUNDS = 20 };

typedef struct worker {
  iobind_session *session; /* captures */
  iobind_session *plain;
  int number;
  char problem[256];
} worker;

static bool went_wrong(worker *self, iobind_status status, const iobind_error *error, const char *what) {
  if (status != IOBIND_OK && self->problem[0] == '\0') {
    snprintf(self->problem, sizeof self->problem, "%s: %.200s", what, error->message);
  }
  return status != IOBIND_OK;
}

/* Captures, replays, allocations, copies and plain runs, beside those of other threads. */
static void *work(void *context) {
  worker *self = context;
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_session *sessions[2] = {self->session, self->plain};
  for (int round = 0; round < ROUNDS; round++) {
    iobind_tensor *x = NULL;
    iobind_binding *binding = NULL;
    int64_t dim = N;
    bool bad = went_wrong(self, iobind_binding_create(sessions[round % 2], &binding, &error), &error, "binding") ||
               went_wrong(self, iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, &dim, 1, &x, &error),
                          &error, "tensor") ||
               went_wrong(self, iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, x, NULL, &error), &error, "input");
    for (int run = 0; run < 4 && !bad; run++) {
      float values[N];
      float value = (float)(100 * self->number + run);
      iobind_tensor *y = NULL;
      for (int i = 0; i < N; i++) {
        values[i] = value;
      }
      bad = went_wrong(self, iobind_tensor_write(x, 0, values, sizeof values, NULL, &error), &error, "write") ||
            went_wrong(self, iobind_binding_run(binding, NULL, &error), &error, "run") ||
            went_wrong(self, iobind_binding_get_output(binding, 0, NULL, &y, &error), &error, "output") ||
            went_wrong(self, iobind_tensor_read(y, 0, values, sizeof values, NULL, &error), &error, "read");
      for (int i = 0; i < N && !bad; i++) {
        bad = values[i] != 2 * value;
        if (bad) {
          snprintf(self->problem, sizeof self->problem, "round %d: expected %g, got %g", round, 2 * (double)value,
                   (double)values[i]);
        }
      }
    }
    iobind_binding_destroy(binding);
    iobind_tensor_release(x);
  }
  return NULL;
}

static void many_threads(void **state) {
  (void)state;
  iobind_session *session = make_session("scale", 1);
  iobind_session *plain = make_session("scale", 0);
  worker workers[THREADS];
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) {
    workers[i] = (worker){.session = session, .plain = plain, .number = i};
    assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) {
    assert_int_equal(pthread_join(threads[i], NULL), 0);
  }
  for (int i = 0; i < THREADS; i++) {
    assert_string_equal(workers[i].problem, "");
  }
  iobind_session_destroy(session);
  iobind_session_destroy(plain);
}

/* Long enough for another thread to come in where it may. To yield a number of times would take minutes on a busy machine, where each yield is
 * another process's slice. */
static void stay_for_a_while(void) {
  static const struct timespec time = {.tv_nsec = 1000000};
  (void)nanosleep(&time, NULL);
}

/* ORT's table with runs that look for others of the same session. They stay inside for a while, so that one which may come in does. */
static const OrtApi *real;
static atomic_int inside;
static atomic_bool met;

static void enter_and_look(void) {
  if (atomic_fetch_add(&inside, 1) > 0) {
    atomic_store(&met, true);
  }
  stay_for_a_while();
}

static OrtStatus *ORT_CALL run_bound(OrtSession *session, const OrtRunOptions *options, const OrtIoBinding *binding) {
  enter_and_look();
  OrtStatus *status = real->RunWithBinding(session, options, binding);
  atomic_fetch_sub(&inside, 1);
  return status;
}

static OrtStatus *ORT_CALL run_unbound(OrtSession *session, const OrtRunOptions *options, const char *const *input_names,
                                       const OrtValue *const *inputs, size_t input_count, const char *const *output_names,
                                       size_t output_count, OrtValue **outputs) {
  enter_and_look();
  OrtStatus *status = real->Run(session, options, input_names, inputs, input_count, output_names, output_count, outputs);
  atomic_fetch_sub(&inside, 1);
  return status;
}

typedef struct caller {
  iobind_session *session;
  iobind_binding *binding;
  iobind_tensor *host;
  iobind_status status;
} caller;

static void *call_often(void *context) {
  caller *self = context;
  for (int i = 0; i < ROUNDS && self->status == IOBIND_OK; i++) {
    iobind_tensor *output = NULL;
    self->status = self->binding != NULL ? iobind_binding_run(self->binding, NULL, NULL)
                                         : call_session_run(self->session, &self->host, &output, NULL);
    iobind_tensor_release(output);
  }
  return NULL;
}

/* Captures, replays and runs without a binding: no two of one session are in ORT at the same time. */
static void one_run_at_a_time(void **state) {
  (void)state;
  static OrtApi watched;
  iobind_session *session = make_session("scale", 1);
  iobind_tensor *xs[THREADS] = {NULL};
  caller callers[THREADS];
  pthread_t threads[THREADS];
  iobind_tensor *host = make_on_host(N, 0);
  for (int i = 0; i < THREADS; i++) {
    callers[i] = (caller){.session = session, .host = host};
    if (i > 0) { /* the first has no binding */
      xs[i] = make_filled(N, 1);
      callers[i].binding = make_binding(session, xs[i], NULL);
    }
  }
  real = runtime->ort.api;
  watched = *real;
  watched.RunWithBinding = run_bound;
  watched.Run = run_unbound;
  runtime->ort.api = &watched;
  for (int i = 0; i < THREADS; i++) {
    assert_int_equal(pthread_create(&threads[i], NULL, call_often, &callers[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) {
    assert_int_equal(pthread_join(threads[i], NULL), 0);
  }
  runtime->ort.api = real;
  assert_false(atomic_load(&met));
  for (int i = 0; i < THREADS; i++) {
    assert_int_equal(callers[i].status, IOBIND_OK);
    iobind_binding_destroy(callers[i].binding);
    iobind_tensor_release(xs[i]);
  }
  iobind_tensor_release(host);
  iobind_session_destroy(session);
}

/* Each run takes a number, and a thread notes those of its own. */
enum { NOTED = 64 };
static atomic_int last_number;
static _Thread_local int numbers[NOTED];
static _Thread_local int noted;

static OrtStatus *ORT_CALL run_numbered(OrtSession *session, const OrtRunOptions *options, const OrtIoBinding *binding) {
  numbers[noted++ % NOTED] = atomic_fetch_add(&last_number, 1) + 1;
  stay_for_a_while();
  return real->RunWithBinding(session, options, binding);
}

/* The plain run, the capture and the replay of a first run: no other run of the session comes between, though one waits for its turn all the
 * time. */
static void a_capture_keeps_its_turn(void **state) {
  (void)state;
  static OrtApi watched;
  iobind_session *session = make_session("scale", 1);
  iobind_tensor *x = make_filled(N, 3);
  iobind_binding *binding = make_binding(session, x, NULL);
  caller other = {.session = session, .binding = make_binding(session, x, NULL)};
  pthread_t thread;
  real = runtime->ort.api;
  watched = *real;
  watched.RunWithBinding = run_numbered;
  runtime->ort.api = &watched;
  assert_int_equal(pthread_create(&thread, NULL, call_often, &other), 0);
  for (int round = 0; round < 4; round++) {
    noted = 0;
    expect_ok(iobind_binding_run(binding, NULL, &fault));
    assert_in_range(noted, 3, NOTED); /* more where a trial comes first */
    assert_int_equal(numbers[noted - 1] - numbers[noted - 3], 2);
    expect_ok(iobind_binding_reset_graphs(binding, &fault));
  }
  assert_int_equal(pthread_join(thread, NULL), 0);
  runtime->ort.api = real;
  assert_int_equal(other.status, IOBIND_OK);
  iobind_binding_destroy(other.binding);
  iobind_binding_destroy(binding);
  iobind_tensor_release(x);
  iobind_session_destroy(session);
}

/* ORT's table with calls that reach the device, which look for a thread that captures, and captures that stay open for a while. */
static atomic_bool capturing;
static _Thread_local bool captures_here;
static _Thread_local int last_graph;

static void reach_device(void) {
  if (atomic_load(&capturing) && !captures_here) {
    atomic_store(&met, true);
  }
}

static bool is_new_graph(const OrtRunOptions *options) {
  const char *text = options == NULL ? NULL : real->GetRunConfigEntry(options, IOBIND__GRAPH_ID);
  int number = text == NULL ? -1 : atoi(text);
  bool is_new = number > last_graph;
  last_graph = is_new ? number : last_graph;
  return is_new;
}

static OrtStatus *ORT_CALL run_or_capture(OrtSession *session, const OrtRunOptions *options, const OrtIoBinding *binding) {
  reach_device();
  captures_here = is_new_graph(options);
  if (captures_here) {
    atomic_store(&capturing, true);
    stay_for_a_while();
  }
  OrtStatus *status = real->RunWithBinding(session, options, binding);
  if (captures_here) {
    captures_here = false;
    atomic_store(&capturing, false);
  }
  return status;
}

static OrtStatus *ORT_CALL copy_tensors(const OrtEnv *env, const OrtValue *const *sources, OrtValue *const *targets,
                                        OrtSyncStream *stream, size_t count) {
  reach_device();
  return real->CopyTensors(env, sources, targets, stream, count);
}

static OrtStatus *ORT_CALL create_tensor(OrtAllocator *allocator, const int64_t *dims, size_t rank,
                                         ONNXTensorElementDataType dtype, OrtValue **out) {
  reach_device();
  return real->CreateTensorAsOrtValue(allocator, dims, rank, dtype, out);
}

static atomic_bool replays_end;

static void *replay_until_end(void *context) {
  caller *self = context;
  while (!atomic_load(&replays_end) && self->status == IOBIND_OK) {
    self->status = iobind_binding_run(self->binding, NULL, NULL);
  }
  return NULL;
}

/* A capture keeps all other calls out of the EP: allocations, copies, and runs and replays of other sessions. */
static void a_capture_is_alone(void **state) {
  (void)state;
  static OrtApi watched;
  iobind_session *session = make_session("scale", 1);
  iobind_session *plain = make_session("scale", 0);
  iobind_session *captured = make_session("scale", 1);
  iobind_tensor *read = make_filled(N, 1);
  caller replayer = {.binding = make_binding(captured, read, NULL)};
  pthread_t replays;
  iobind_tensor *x = make_filled(N, 1);
  iobind_binding *binding = make_binding(session, x, NULL);
  worker workers[THREADS];
  pthread_t threads[THREADS];
  real = runtime->ort.api;
  watched = *real;
  watched.RunWithBinding = run_or_capture;
  watched.CopyTensors = copy_tensors;
  watched.CreateTensorAsOrtValue = create_tensor;
  atomic_store(&met, false);
  runtime->ort.api = &watched;
  for (int i = 0; i < THREADS; i++) {
    workers[i] = (worker){.session = plain, .plain = plain, .number = i};
    assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
  }
  atomic_store(&replays_end, false);
  assert_int_equal(pthread_create(&replays, NULL, replay_until_end, &replayer), 0);
  iobind_status status = IOBIND_OK;
  for (int i = 0; i < ROUNDS && status == IOBIND_OK; i++) {
    status = iobind_binding_run(binding, NULL, &fault);
    status = status == IOBIND_OK ? iobind_binding_reset_graphs(binding, &fault) : status;
  }
  atomic_store(&replays_end, true);
  assert_int_equal(pthread_join(replays, NULL), 0);
  for (int i = 0; i < THREADS; i++) {
    assert_int_equal(pthread_join(threads[i], NULL), 0);
  }
  runtime->ort.api = real;
  assert_false(atomic_load(&met));
  assert_int_equal(status, IOBIND_OK);
  assert_int_equal(replayer.status, IOBIND_OK);
  for (int i = 0; i < THREADS; i++) {
    assert_string_equal(workers[i].problem, "");
  }
  assert_true(last_graph >= ROUNDS); /* a trial captures, too */
  iobind_binding_destroy(replayer.binding);
  iobind_tensor_release(read);
  iobind_session_destroy(captured);
  iobind_binding_destroy(binding);
  iobind_tensor_release(x);
  iobind_session_destroy(session);
  iobind_session_destroy(plain);
}

/* ---- what a capture keeps out, though nothing that is bound tells that it reaches the device ---- */

static int calls_inside;
static int calls_outside;

static void *try_lock(void *context) {
  bool *is_held = context;
  int locked = pthread_mutex_trylock(&runtime->serial_mutex);
  *is_held = locked == EBUSY;
  if (locked == 0) {
    pthread_mutex_unlock(&runtime->serial_mutex);
  }
  return NULL;
}

/* Is this thread, the only one that calls iobind, where no thread can be while another one is alone? */
static bool is_inside(void) {
  bool is = (atomic_load(&iobind__gate) & ~IOBIND__GATE_CLOSED) > 0;
  if (iobind__device_has(device, IOBIND__QUIRK_SERIAL)) {
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, try_lock, &is), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
  }
  return is;
}

static void count_call(void) {
  if (is_inside()) {
    calls_inside++;
  } else {
    calls_outside++;
  }
}

static OrtStatus *ORT_CALL run_counted(OrtSession *session, const OrtRunOptions *options, const char *const *input_names,
                                       const OrtValue *const *inputs, size_t input_count, const char *const *output_names,
                                       size_t output_count, OrtValue **outputs) {
  count_call();
  return real->Run(session, options, input_names, inputs, input_count, output_names, output_count, outputs);
}

static OrtStatus *ORT_CALL run_bound_counted(OrtSession *session, const OrtRunOptions *options, const OrtIoBinding *binding) {
  count_call();
  return real->RunWithBinding(session, options, binding);
}

static void ORT_CALL release_counted(OrtSession *session) {
  count_call();
  real->ReleaseSession(session);
}

/* The first and the last node are on the CPU, the one between them on the device. */
static void write_host_ends(onnx_writer *writer, const void **bytes, size_t *size) {
  static const char *const nodes[][3] = {{"Det", "x", "a"}, {"Exp", "a", "b"}, {"Det", "b", "y"}};
  static const int64_t dims[4] = {1, 1, 2, 2};
  onnx_type square = {.dtype = ONNX_FLOAT32, .dims = dims, .rank = 4};
  onnx_type any = {.dtype = ONNX_FLOAT32, .no_shape = 1};
  onnx_model_begin(writer, NULL);
  onnx_opset(writer, "", 17);
  onnx_graph_begin(writer, "graph");
  for (size_t i = 0; i < sizeof nodes / sizeof nodes[0]; i++) {
    onnx_node_begin(writer, nodes[i][0], "", nodes[i][2]);
    onnx_node_input(writer, nodes[i][1]);
    onnx_node_output(writer, nodes[i][2]);
    onnx_node_end(writer);
  }
  onnx_input(writer, "x", &square);
  onnx_output(writer, "y", &any);
  onnx_graph_end(writer);
  onnx_model_end(writer);
  assert_int_equal(onnx_writer_finish(writer, bytes, size), ONNX_OK);
}

static OrtSession *make_raw(const void *bytes, size_t size) {
  OrtSessionOptions *options = NULL;
  OrtSession *raw = NULL;
  const OrtApi *api = runtime->ort.api;
  assert_null(api->CreateSessionOptions(&options));
  assert_null(api->SessionOptionsAppendExecutionProvider_V2(options, runtime->env, &device->ep_device, 1, NULL, NULL, 0));
  assert_null(api->CreateSessionFromArray(runtime->env, bytes, size, options, &raw));
  api->ReleaseSessionOptions(options);
  return raw;
}

/* A run, one with a binding, and the end of the session. */
static void use_and_destroy(iobind_session *session) {
  static const int64_t dims[4] = {1, 1, 2, 2};
  static const float unit[4] = {1, 0, 0, 1};
  iobind_tensor *x = NULL;
  iobind_tensor *y = NULL;
  iobind_binding *binding = NULL;
  expect_ok(iobind_tensor_create(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 4, &x, &fault));
  expect_ok(iobind_tensor_write(x, 0, unit, sizeof unit, NULL, &fault));
  expect_ok(call_session_run(session, &x, &y, &fault));
  expect_ok(iobind_binding_create(session, &binding, &fault));
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_SNAPSHOT, x, NULL, &fault));
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  iobind_binding_destroy(binding);
  iobind_tensor_release(x);
  iobind_tensor_release(y);
  iobind_session_destroy(session);
}

/* A session with all inputs and outputs on the host: a wrapped one, and one by a policy, may nevertheless compute on the device. */
static void sessions_on_the_host(void **state) {
  (void)state;
  static OrtApi watched;
  enum { CALLS = 5 }; /* two runs of each session, and the release of the one that iobind has made */
  onnx_writer writer = ONNX_WRITER_INIT;
  const void *bytes = NULL;
  size_t size = 0;
  iobind_session *wrapped = NULL;
  iobind_session *chosen = NULL;
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  (void)set_device("deny", "Det");
  write_host_ends(&writer, &bytes, &size);
  OrtSession *raw = make_raw(bytes, size);
  options.policy = IOBIND_POLICY_PREFER_GPU;
  expect_ok(iobind_session_wrap(runtime, raw, NULL, NULL, &wrapped, &fault));
  expect_ok(iobind_session_create_from_memory(runtime, bytes, size, &options, &chosen, &fault));
  (void)set_device("deny", "");
  onnx_writer_release(&writer);

  real = runtime->ort.api;
  watched = *real;
  watched.Run = run_counted;
  watched.RunWithBinding = run_bound_counted;
  watched.ReleaseSession = release_counted;
  runtime->ort.api = &watched;
  calls_inside = 0;
  calls_outside = 0;
  (void)count_launched();
  use_and_destroy(wrapped);
  launched since = count_launched();
  use_and_destroy(chosen);
  runtime->ort.api = real;
  real->ReleaseSession(raw);
  assert_int_not_equal(since.kernels, 0);
  assert_int_equal(calls_outside, 0);
  assert_int_equal(calls_inside, CALLS);
}

/* A capture that stays open until it is let go. */
static sem_t has_begun;
static sem_t may_end;
static atomic_bool was_held;

static OrtStatus *ORT_CALL run_or_hold(OrtSession *session, const OrtRunOptions *options, const OrtIoBinding *binding) {
  if (is_new_graph(options) && !atomic_exchange(&was_held, true)) {
    sem_post(&has_begun);
    sem_wait(&may_end);
  }
  return real->RunWithBinding(session, options, binding);
}

/* ORT has no wait with a limit: a thread of the library's waits instead, and a capture keeps that out of the EP, too. So a wait that times out
 * during the capture returns TIMEOUT, although the work is complete on the device, and the next wait finds that. */
static void waits_beside_a_capture(void **state) {
  (void)state;
  static const uint64_t limit = 50000000;
  static const uint64_t long_time = UINT64_MAX / 4;
  static OrtApi watched;
  iobind_session *session = make_session("scale", 1);
  iobind_session *plain = make_session("scale", 0);
  iobind_tensor *x = make_filled(N, 3);
  iobind_tensor *item = make_on_host(N, 4);
  iobind_tensor *y = NULL;
  visitor captor = {.binding = make_binding(session, x, NULL)};
  pthread_t thread;
  iobind_stream *stream = NULL;
  iobind_event *event = NULL;
  iobind_pipeline *pipeline = NULL;
  float read[N] = {0};
  int32_t done = -1;
  expect_ok(iobind_stream_create(device, NULL, &stream, &fault));
  expect_ok(iobind_event_create(device, &event, &fault));
  expect_ok(call_pipeline_create(plain, NULL, &pipeline, &fault));
  expect_ok(iobind_tensor_read(x, 0, read, sizeof read, stream, &fault));
  expect_ok(iobind_event_record(event, stream, &fault));
  expect_ok(call_pipeline_submit(pipeline, &item, 1, &fault));

  assert_int_equal(sem_init(&has_begun, 0, 0), 0);
  assert_int_equal(sem_init(&may_end, 0, 0), 0);
  real = runtime->ort.api;
  watched = *real;
  watched.RunWithBinding = run_or_hold;
  runtime->ort.api = &watched;
  assert_int_equal(pthread_create(&thread, NULL, visit, &captor), 0);
  sem_wait(&has_begun);
  iobind_status of_event = iobind_event_wait(event, limit, NULL);
  iobind_status of_query = iobind_event_query(event, &done, NULL);
  iobind_status of_item = iobind_pipeline_next(pipeline, limit, &y, 1, NULL, NULL);
  sem_post(&may_end);
  assert_int_equal(pthread_join(thread, NULL), 0);
  runtime->ort.api = real;

  assert_int_equal(of_event, IOBIND_ERROR_TIMEOUT);
  assert_int_equal(of_query, IOBIND_OK);
  assert_int_equal(done, 0);
  assert_int_equal(of_item, IOBIND_ERROR_TIMEOUT);
  assert_string_equal(captor.message, "");
  expect_ok(iobind_event_wait(event, long_time, &fault));
  assert_true(read[N - 1] == 3);
  expect_ok(iobind_pipeline_next(pipeline, long_time, &y, 1, NULL, &fault));
  expect_all(y, N, 8);
  expect_output(captor.binding, N, 6);
  iobind_pipeline_destroy(pipeline);
  iobind_event_destroy(event);
  iobind_stream_destroy(stream);
  iobind_binding_destroy(captor.binding);
  iobind_tensor_release(item);
  iobind_tensor_release(x);
  iobind_session_destroy(session);
  iobind_session_destroy(plain);
}

static void nap(void) {
  static const struct timespec time = {.tv_nsec = 50000000};
  (void)nanosleep(&time, NULL);
}

/* A thread of the library's waits in the EP for a semaphore that a later call signals: a capture which waits until that thread has left must
 * not keep that call out. */
static void waits_for_a_later_signal(void **state) {
  (void)state;
  if (!is_device("vdev")) {
    skip(); /* the others import no semaphores */
  }
  iobind_session *session = make_session("scale", 1);
  iobind_tensor *x = make_filled(N, 3);
  visitor captor = {.binding = make_binding(session, x, NULL)};
  pthread_t thread;
  iobind_external external = IOBIND_EXTERNAL_INIT;
  iobind_semaphore *semaphore = NULL;
  iobind_stream *streams[2] = {NULL};
  iobind_event *event = NULL;
  int32_t done = -1;
  external.kind = IOBIND_EXTERNAL_FD_SEMAPHORE;
  external.handle = (void *)(intptr_t)make_semaphore();
  expect_ok(iobind_semaphore_import(device, &external, &semaphore, &fault));
  expect_ok(iobind_stream_create(device, NULL, &streams[0], &fault));
  expect_ok(iobind_stream_create(device, NULL, &streams[1], &fault));
  expect_ok(iobind_event_create(device, &event, &fault));
  expect_ok(iobind_stream_wait_semaphore(streams[0], semaphore, 1, &fault));
  expect_ok(iobind_event_record(event, streams[0], &fault));
  expect_ok(iobind_event_query(event, &done, &fault)); /* starts the thread that waits */
  assert_int_equal(done, 0);
  nap();
  assert_int_equal(pthread_create(&thread, NULL, visit, &captor), 0);
  nap(); /* by now it has made its plain run, and waits for that thread; if not, the test shows less */
  expect_ok(iobind_stream_signal_semaphore(streams[1], semaphore, 1, &fault));
  expect_ok(iobind_event_wait(event, IOBIND_NO_TIMEOUT, &fault));
  assert_int_equal(pthread_join(thread, NULL), 0);
  assert_string_equal(captor.message, "");
  expect_output(captor.binding, N, 6);
  iobind_event_destroy(event);
  iobind_stream_destroy(streams[0]);
  iobind_stream_destroy(streams[1]);
  iobind_semaphore_destroy(semaphore);
  iobind_binding_destroy(captor.binding);
  iobind_tensor_release(x);
  iobind_session_destroy(session);
}

/* Two runs on a stream, and the first error of them. A stream of WebGPU's is a thread, which says only later that it has refused a run. */
typedef struct attempt {
  iobind_binding *binding;
  iobind_stream *stream;
  iobind_status status;
  iobind_error error;
} attempt;

static void *try_twice(void *context) {
  attempt *self = context;
  self->error = (iobind_error)IOBIND_ERROR_INIT;
  self->status = iobind_binding_run(self->binding, self->stream, &self->error);
  if (self->status == IOBIND_OK) {
    self->status = iobind_binding_run(self->binding, self->stream, &self->error);
  }
  if (self->status == IOBIND_OK) {
    self->status = iobind_stream_synchronize(self->stream, &self->error);
  }
  return NULL;
}

/* A run that is refused on a stream before anything ran leaves the state as it was. */
static void refused_on_a_stream(void **state) {
  (void)state;
  iobind_session *session = make_session("scale", 1);
  iobind_tensor *x = make_filled(N, 1);
  iobind_tensor *other = make_filled(N, 5);
  iobind_binding *binding = make_binding(session, x, NULL);
  attempt one = {.binding = binding};
  pthread_t thread;
  expect_ok(iobind_stream_create(device, NULL, &one.stream, &fault));
  expect_ok(iobind_binding_carry(binding, 0, 0, IOBIND_CARRY_IN_PLACE, &fault));
  (void)try_twice(&one);
  assert_int_equal(one.status, IOBIND_OK);
  expect_all(x, N, 4);

  bind_x(binding, other);
  (void)try_twice(&one);
  assert_int_equal(one.status, IOBIND_ERROR_INVALID_STATE);
  assert_non_null(strstr(one.error.message, "graph_limit is 1"));
  expect_all(other, N, 5);
  expect_ok(iobind_binding_reset_graphs(binding, &fault));
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  expect_all(other, N, 10);

  assert_int_equal(pthread_create(&thread, NULL, try_twice, &one), 0);
  assert_int_equal(pthread_join(thread, NULL), 0);
  assert_int_equal(one.status, IOBIND_ERROR_INVALID_STATE);
  assert_non_null(strstr(one.error.message, "belong to another thread"));
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  expect_all(other, N, 20);
  iobind_binding_destroy(binding);
  iobind_stream_destroy(one.stream);
  iobind_tensor_release(x);
  iobind_tensor_release(other);
  iobind_session_destroy(session);
}

/* ORT's table with runs whose options are remembered, and that fail on request. */
static int seen_graph;
static char seen_note[16];
static bool fails;

static OrtStatus *ORT_CALL run_seen(OrtSession *session, const OrtRunOptions *options, const OrtIoBinding *binding) {
  const char *number = real->GetRunConfigEntry(options, IOBIND__GRAPH_ID);
  const char *note = real->GetRunConfigEntry(options, "test.note");
  seen_graph = number == NULL ? 0 : atoi(number);
  snprintf(seen_note, sizeof seen_note, "%s", note == NULL ? "" : note);
  return fails ? real->CreateStatus(ORT_FAIL, "on request") : real->RunWithBinding(session, options, binding);
}

/* By then the next replay looks at nothing, unless something has changed. */
static void run_thrice(iobind_binding *binding) {
  for (int i = 0; i < 3; i++) {
    expect_ok(iobind_binding_run(binding, NULL, &fault));
  }
}

static void changes_between_replays(void **state) {
  (void)state;
  static OrtApi watched;
  static const char *const key = "test.note";
  static const char *const value = "new";
  iobind_session *session = make_session("scale", 2);
  iobind_tensor *x = make_filled(N, 1);
  iobind_tensor *other = make_filled(N, 5);
  iobind_binding *binding = make_binding(session, x, NULL);
  real = runtime->ort.api;
  watched = *real;
  watched.RunWithBinding = run_seen;
  runtime->ort.api = &watched;

  run_thrice(binding);
  bind_x(binding, other);
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  expect_output(binding, N, 10);

  run_thrice(binding); /* the results have been fetched meanwhile */
  fill(other, 7);
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  expect_output(binding, N, 14);

  run_thrice(binding);
  iobind_run_options options = IOBIND_RUN_OPTIONS_INIT;
  options.config_keys = &key;
  options.config_values = &value;
  options.config_count = 1;
  assert_string_equal(seen_note, "");
  expect_ok(iobind_binding_set_run_options(binding, &options, &fault));
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  assert_string_equal(seen_note, "new");

  run_thrice(binding);
  int last = seen_graph;
  expect_ok(iobind_binding_reset_graphs(binding, &fault));
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  assert_true(seen_graph > last);
  expect_output(binding, N, 14);

  run_thrice(binding);
  fails = true;
  assert_int_equal(iobind_binding_run(binding, NULL, &fault), IOBIND_ERROR_RUNTIME);
  assert_non_null(strstr(fault.message, "binding_run: on request"));
  iobind_tensor *output = NULL;
  assert_int_equal(iobind_binding_get_output(binding, 0, NULL, &output, &fault), IOBIND_ERROR_INVALID_STATE);
  fails = false;
  run_thrice(binding);
  expect_output(binding, N, 14);

  run_thrice(binding);
  expect_ok(iobind_binding_cancel(binding, &fault)); /* nothing is in flight */
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  visitor visiting = visit_in_thread(binding);
  assert_int_equal(visiting.status, IOBIND_ERROR_INVALID_STATE);
  assert_non_null(strstr(visiting.message, "another thread"));
  run_thrice(binding);
  expect_output(binding, N, 14);

  runtime->ort.api = real;
  iobind_binding_destroy(binding);
  iobind_tensor_release(x);
  iobind_tensor_release(other);
  iobind_session_destroy(session);
}

static iobind_binding *cancelled;

static OrtStatus *ORT_CALL run_cancelled(OrtSession *session, const OrtRunOptions *options, const OrtIoBinding *binding) {
  expect_ok(iobind_binding_cancel(cancelled, &fault));
  return real->RunWithBinding(session, options, binding);
}

/* ORT cannot be told to leave a replay, so it is done. With an event it is one that looks again, as with a state or after a change. */
static void cancelled_within_a_replay(void **state) {
  (void)state;
  static OrtApi watched;
  iobind_session *session = make_session("scale", 1);
  iobind_tensor *x = make_filled(N, 1);
  iobind_event *event = NULL;
  cancelled = make_binding(session, x, NULL);
  expect_ok(iobind_event_create(device, &event, &fault));
  expect_ok(iobind_binding_run(cancelled, NULL, &fault));
  real = runtime->ort.api;
  watched = *real;
  watched.RunWithBinding = run_cancelled;
  runtime->ort.api = &watched;
  for (int i = 0; i < 3; i++) {
    fill(x, (float)i);
    expect_ok(call_binding_run(cancelled, NULL, event, &fault));
    expect_output(cancelled, N, 2 * (float)i);
  }
  runtime->ort.api = real;
  iobind_event_destroy(event);
  iobind_binding_destroy(cancelled);
  iobind_tensor_release(x);
  iobind_session_destroy(session);
}

/* A child process has its parent's binding, and the number of its parent's thread. */
static void forked_before_a_replay(void **state) {
  (void)state;
  iobind_session *session = make_session("scale", 1);
  iobind_tensor *x = make_filled(N, 1);
  iobind_binding *binding = make_binding(session, x, NULL);
  run_thrice(binding);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    _exit(iobind_binding_run(binding, NULL, NULL) == IOBIND_ERROR_INVALID_STATE ? 0 : 1);
  }
  int ended = -1;
  assert_int_equal(waitpid(child, &ended, 0), child);
  assert_int_equal(ended, 0);
  run_thrice(binding);
  expect_output(binding, N, 2);
  iobind_binding_destroy(binding);
  iobind_tensor_release(x);
  iobind_session_destroy(session);
}

int main(int argc, char **argv) {
  static const struct CMUnitTest tests[] = {
      cmocka_unit_test(another_thread),           cmocka_unit_test(many_threads),
      cmocka_unit_test(one_run_at_a_time),        cmocka_unit_test(a_capture_is_alone),
      cmocka_unit_test(sessions_on_the_host),     cmocka_unit_test(waits_beside_a_capture),
      cmocka_unit_test(waits_for_a_later_signal), cmocka_unit_test(refused_on_a_stream),
      cmocka_unit_test(changes_between_replays),  cmocka_unit_test(cancelled_within_a_replay),
      cmocka_unit_test(forked_before_a_replay),   cmocka_unit_test(a_capture_keeps_its_turn)};
  return graph_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
