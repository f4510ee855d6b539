/* Captured graphs and threads: a graph is its thread's, a capture is alone, and runs of one session come one after the other. */
#include "session/session.h"

#include "graph_rig.h" /* its globals have the names of parameters there */

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 48 };

typedef struct visitor {
  iobind_binding *binding;
  iobind_status status;
  char message[sizeof fault.message];
} visitor;

static void *visit(void *context) {
  visitor *self = context;
  iobind_error error = IOBIND_ERROR_INIT;
  self->status = iobind_binding_run(self->binding, NULL, NULL, &error);
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
  expect_ok(iobind_binding_run(binding, NULL, NULL, &fault));
  visitor other = visit_in_thread(binding);
  assert_int_equal(other.status, IOBIND_INVALID_STATE);
  assert_non_null(strstr(other.message, "another thread"));
  expect_ok(iobind_binding_run(binding, NULL, NULL, &fault));
  expect_output(binding, N, 4);
  expect_ok(iobind_binding_forget_graphs(binding, &fault));
  other = visit_in_thread(binding);
  assert_int_equal(other.status, IOBIND_OK);
  expect_output(binding, N, 8);
  other = visit_in_thread(binding); /* its id may be that of the one before, which has ended */
  assert_int_equal(other.status, IOBIND_INVALID_STATE);
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
               went_wrong(self, iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_FLOAT32, &dim, 1, &x, &error),
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
            went_wrong(self, iobind_binding_run(binding, NULL, NULL, &error), &error, "run") ||
            went_wrong(self, iobind_binding_get_output(binding, 0, &y, &error), &error, "output") ||
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

/* ORT's table with runs that look for others of the same session. They stay inside for a while, so that one which may come in does. */
static const OrtApi *real;
static atomic_int inside;
static atomic_bool met;

static void look_around(void) {
  for (int i = 0; i < 2000 && !atomic_load(&met); i++) {
    if (atomic_load(&inside) > 1) {
      atomic_store(&met, true);
    }
    (void)sched_yield();
  }
}

static OrtStatus *ORT_CALL run_bound(OrtSession *session, const OrtRunOptions *options, const OrtIoBinding *binding) {
  atomic_fetch_add(&inside, 1);
  look_around();
  OrtStatus *status = real->RunWithBinding(session, options, binding);
  atomic_fetch_sub(&inside, 1);
  return status;
}

static OrtStatus *ORT_CALL run_unbound(OrtSession *session, const OrtRunOptions *options, const char *const *input_names,
                                       const OrtValue *const *inputs, size_t input_count, const char *const *output_names,
                                       size_t output_count, OrtValue **outputs) {
  atomic_fetch_add(&inside, 1);
  look_around();
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
    self->status = self->binding != NULL ? iobind_binding_run(self->binding, NULL, NULL, NULL)
                                         : iobind_session_run(self->session, &self->host, &output, NULL);
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
  float values[N] = {0};
  const int64_t dim = N;
  iobind_tensor *host = NULL;
  expect_ok(iobind_tensor_create(iobind_runtime_get_device(runtime, 0), IOBIND_MEMORY_DEFAULT, IOBIND_FLOAT32, &dim, 1, &host,
                                 &fault));
  expect_ok(iobind_tensor_write(host, 0, values, sizeof values, NULL, &fault));
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
  }
  for (int i = 0; captures_here && i < 2000 && !atomic_load(&met); i++) {
    (void)sched_yield();
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

/* A capture keeps all other calls out of the EP: allocations, copies and runs of other sessions. */
static void a_capture_is_alone(void **state) {
  (void)state;
  static OrtApi watched;
  iobind_session *session = make_session("scale", 1);
  iobind_session *plain = make_session("scale", 0);
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
  iobind_status status = IOBIND_OK;
  for (int i = 0; i < ROUNDS && status == IOBIND_OK; i++) {
    status = iobind_binding_run(binding, NULL, NULL, &fault);
    status = status == IOBIND_OK ? iobind_binding_forget_graphs(binding, &fault) : status;
  }
  for (int i = 0; i < THREADS; i++) {
    assert_int_equal(pthread_join(threads[i], NULL), 0);
  }
  runtime->ort.api = real;
  assert_false(atomic_load(&met));
  assert_int_equal(status, IOBIND_OK);
  for (int i = 0; i < THREADS; i++) {
    assert_string_equal(workers[i].problem, "");
  }
  assert_true(last_graph >= ROUNDS); /* a trial captures, too */
  iobind_binding_destroy(binding);
  iobind_tensor_release(x);
  iobind_session_destroy(session);
  iobind_session_destroy(plain);
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
  self->status = iobind_binding_run(self->binding, self->stream, NULL, &self->error);
  if (self->status == IOBIND_OK) {
    self->status = iobind_binding_run(self->binding, self->stream, NULL, &self->error);
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
  assert_int_equal(one.status, IOBIND_INVALID_STATE);
  assert_non_null(strstr(one.error.message, "graph_limit is 1"));
  expect_all(other, N, 5);
  expect_ok(iobind_binding_forget_graphs(binding, &fault));
  expect_ok(iobind_binding_run(binding, NULL, NULL, &fault));
  expect_all(other, N, 10);

  assert_int_equal(pthread_create(&thread, NULL, try_twice, &one), 0);
  assert_int_equal(pthread_join(thread, NULL), 0);
  assert_int_equal(one.status, IOBIND_INVALID_STATE);
  assert_non_null(strstr(one.error.message, "captured by another thread"));
  expect_ok(iobind_binding_run(binding, NULL, NULL, &fault));
  expect_all(other, N, 20);
  iobind_binding_destroy(binding);
  iobind_stream_destroy(one.stream);
  iobind_tensor_release(x);
  iobind_tensor_release(other);
  iobind_session_destroy(session);
}

int main(int argc, char **argv) {
  static const struct CMUnitTest tests[] = {cmocka_unit_test(another_thread), cmocka_unit_test(many_threads),
                                            cmocka_unit_test(one_run_at_a_time), cmocka_unit_test(a_capture_is_alone),
                                            cmocka_unit_test(refused_on_a_stream)};
  return graph_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
