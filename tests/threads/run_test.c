/* Sessions and bindings in several threads: runs side by side, one binding in many hands, cancelling, giving up while others run. */
#define _POSIX_C_SOURCE 200809L /* barriers, mkstemp */
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "binding/table.h"
#include "models.h"
#include "threads.h"
#include "vdev.h"
#include "../rig/calls.h"

enum { ROUNDS = 20 };

/* Of 1 2 3 in the session's own memory, from which runs of other threads allocate meanwhile. */
static iobind_binding *bind(iobind_session *session, iobind_tensor **x) {
  static const int64_t three = 3;
  static const float values[] = {1, 2, 3};
  iobind_binding *binding = NULL;
  if (iobind_session_create_tensor(session, vdev, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, &three, 1, x, NULL) !=
          IOBIND_OK ||
      iobind_tensor_write(*x, 0, values, sizeof values, NULL, NULL) != IOBIND_OK ||
      iobind_binding_create(session, &binding, NULL) != IOBIND_OK ||
      iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, *x, NULL, NULL) != IOBIND_OK) {
    iobind_binding_destroy(binding);
    return NULL;
  }
  return binding;
}

/* Each member's half of the rounds goes without a stream, the other on one of its own. */
static void run_own_binding(member *self) {
  iobind_session *session = self->shared;
  iobind_stream *stream = NULL;
  iobind_event *event = NULL;
  iobind_tensor *x = NULL;
  iobind_binding *binding = bind(session, &x);
  HOLDS(self, binding != NULL);
  WELL(self, iobind_stream_create(vdev, NULL, &stream, NULL));
  WELL(self, iobind_event_create(vdev, &event, NULL));
  for (size_t i = 0; i < ROUNDS && self->good; i++) {
    bool streamed = i % 2 == 1;
    HOLDS(self,
          threads_double(binding, x, (float)(self->number * ROUNDS + i), streamed ? stream : NULL, streamed ? event : NULL));
    WELL(self, iobind_binding_set_run_options(binding, NULL, NULL));
    WELL(self, iobind_binding_check(binding, NULL));
  }
  WELL(self, iobind_binding_clear(binding, NULL));
  iobind_binding_destroy(binding);
  iobind_tensor_release(x);
  iobind_event_destroy(event);
  iobind_stream_destroy(stream);
}

static void shared_session(void **state) {
  (void)state;
  iobind_session *session = fixture_session(runtime, vdev, "scale");
  threads_run(run_own_binding, session);
  iobind_session_destroy(session);
}

static void run_unbound(member *self) {
  static const int64_t count = 1;
  for (size_t i = 0; i < ROUNDS; i++) {
    float value = (float)(self->number + i);
    float got = -1;
    iobind_tensor *x = NULL;
    iobind_tensor *y = NULL;
    WELL(self, call_tensor_wrap(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, &count, 1, &value, sizeof value, NULL, NULL,
                                &x, NULL));
    WELL(self, call_session_run(self->shared, &x, &y, NULL));
    WELL(self, iobind_tensor_read(y, 0, &got, sizeof got, NULL, NULL));
    HOLDS(self, got == 2 * value);
    iobind_tensor_release(y);
    iobind_run_request request = IOBIND_RUN_REQUEST_INIT;
    request.inputs = &x;
    y = NULL;
    WELL(self, call_session_request(self->shared, &request, &y, NULL));
    WELL(self, iobind_tensor_read(y, 0, &got, sizeof got, NULL, NULL));
    HOLDS(self, got == 2 * value);
    iobind_tensor_release(x);
    iobind_tensor_release(y);
  }
}

/* Runs with and without bindings side by side, on one session. */
static void run_either(member *self) {
  if (self->number % 2 == 0) {
    run_unbound(self);
  } else {
    run_own_binding(self);
  }
}

static void bound_and_unbound_runs(void **state) {
  (void)state;
  iobind_session *session = fixture_session(runtime, vdev, "scale");
  threads_run(run_either, session);
  iobind_session_destroy(session);
}

/* ---- one binding in many hands ---- */

typedef struct contest {
  iobind_binding *binding;
  atomic_size_t won;
  atomic_size_t refused;
} contest;

static void run_the_same_binding(member *self) {
  contest *all = self->shared;
  for (size_t i = 0; i < ROUNDS; i++) {
    iobind_status status = iobind_binding_run(all->binding, NULL, NULL);
    atomic_fetch_add(status == IOBIND_OK ? &all->won : &all->refused, 1);
    HOLDS(self, status == IOBIND_OK || status == IOBIND_ERROR_INVALID_STATE);
  }
}

/* The first thread runs, the others are refused, and the results are right. */
static void one_binding_in_many_hands(void **state) {
  (void)state;
  static const float doubled[] = {2, 4, 6};
  iobind_session *session = fixture_session(runtime, vdev, "scale");
  iobind_tensor *x = NULL;
  contest all = {.binding = bind(session, &x)};
  assert_non_null(all.binding);
  assert_int_equal(vdev_set(0, "compute_us", "500"), 0); /* long enough to meet */
  threads_run(run_the_same_binding, &all);
  assert_int_equal(vdev_set(0, "compute_us", "0"), 0);
  assert_true(atomic_load(&all.won) > 0);
  assert_int_equal(atomic_load(&all.won) + atomic_load(&all.refused), THREADS * ROUNDS);
  iobind_tensor *y = NULL;
  expect_ok(iobind_binding_get_output(all.binding, 0, NULL, &y, &fault));
  fixture_expect_floats(y, doubled, 3);
  iobind_binding_destroy(all.binding);
  iobind_tensor_release(x);
  iobind_session_destroy(session);
}

/* A loop that only a cancel ends, on the CPU's part of a session of the device. */
typedef struct endless {
  iobind_session *session;
  iobind_binding *binding;
  iobind_tensor *trips;
  iobind_tensor *x;
  atomic_size_t tried;
  atomic_bool over;
} endless;

static void open_endless(endless *all) {
  static const int64_t one = 1;
  static const int64_t trips = INT64_MAX;
  all->session = fixture_session(runtime, vdev, "loop");
  expect_ok(iobind_tensor_create(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_INT64, NULL, 0, &all->trips, &fault));
  expect_ok(iobind_tensor_write(all->trips, 0, &trips, sizeof trips, NULL, &fault));
  expect_ok(iobind_tensor_create(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, &one, 1, &all->x, &fault));
  expect_ok(iobind_binding_create(all->session, &all->binding, &fault));
  expect_ok(iobind_binding_set_input(all->binding, 0, IOBIND_INPUT_LIVE, all->trips, NULL, &fault));
  expect_ok(iobind_binding_set_input(all->binding, 1, IOBIND_INPUT_LIVE, all->x, NULL, &fault));
}

/* The binding runs again, with fewer trips: no cancel is left over. */
static void close_endless(endless *all) {
  static const int64_t trips = 5;
  expect_ok(iobind_binding_write_input(all->binding, 0, &trips, sizeof trips, NULL, &fault));
  expect_ok(iobind_binding_run(all->binding, NULL, &fault));
  iobind_binding_destroy(all->binding);
  iobind_tensor_release(all->trips);
  iobind_tensor_release(all->x);
  iobind_session_destroy(all->session);
}

static void knock(member *self) {
  endless *all = self->shared;
  iobind_binding *binding = all->binding;
  iobind_tensor *y = NULL;
  while (!iobind__flight_runs(&binding->flight)) {
    sched_yield();
  }
  for (size_t i = 0; i < ROUNDS; i++) {
    HOLDS(self, iobind_binding_run(binding, NULL, NULL) == IOBIND_ERROR_INVALID_STATE);
    HOLDS(self, iobind_binding_check(binding, NULL) == IOBIND_ERROR_INVALID_STATE);
    HOLDS(self, iobind_binding_clear(binding, NULL) == IOBIND_ERROR_INVALID_STATE);
    HOLDS(self, iobind_binding_set_run_options(binding, NULL, NULL) == IOBIND_ERROR_INVALID_STATE);
    HOLDS(self, iobind_binding_set_input(binding, 1, IOBIND_INPUT_LIVE, all->x, NULL, NULL) == IOBIND_ERROR_INVALID_STATE);
    HOLDS(self, iobind_binding_place_output(binding, 0, IOBIND_OUTPUT_FRESH, NULL, IOBIND_MEMORY_DEFAULT, NULL) ==
                    IOBIND_ERROR_INVALID_STATE);
    HOLDS(self, iobind_binding_take_output(binding, 0, &y, NULL) == IOBIND_ERROR_INVALID_STATE);
  }
  if (atomic_fetch_add(&all->tried, 1) + 1 == THREADS) {
    WELL(self, iobind_binding_cancel(binding, NULL));
  }
}

static void run_endless(void *shared) {
  const endless *all = shared;
  assert_int_equal(iobind_binding_run(all->binding, NULL, NULL), IOBIND_ERROR_CANCELLED);
}

/* While a run is in flight everything else is refused, by any thread. */
static void busy_binding(void **state) {
  (void)state;
  endless all = {.over = false};
  open_endless(&all);
  threads_run_with(knock, &all, run_endless);
  close_endless(&all);
}

static void cancel_all_the_time(member *self) {
  endless *all = self->shared;
  while (!atomic_load(&all->over)) {
    WELL(self, iobind_binding_cancel(all->binding, NULL));
    sched_yield();
  }
}

static void run_while_cancelled(void *shared) {
  endless *all = shared;
  for (size_t i = 0; i < ROUNDS; i++) {
    assert_int_equal(iobind_binding_run(all->binding, NULL, NULL), IOBIND_ERROR_CANCELLED);
  }
  atomic_store(&all->over, true);
}

static void cancel_from_other_threads(void **state) {
  (void)state;
  endless all = {.over = false};
  open_endless(&all);
  threads_run_with(cancel_all_the_time, &all, run_while_cancelled);
  close_endless(&all);
}

/* ---- giving up ---- */

typedef struct farewell {
  iobind_runtime *runtime;
  iobind_session *session;
  iobind_binding *bindings[THREADS];
  iobind_tensor *inputs[THREADS];
  iobind_stream *streams[THREADS];
} farewell;

/* Each member goes on with what it has; the last one to end releases the session and the runtime. */
static void run_and_give_up(member *self) {
  farewell *all = self->shared;
  iobind_binding *binding = all->bindings[self->number];
  iobind_tensor *x = all->inputs[self->number];
  iobind_stream *stream = all->streams[self->number];
  for (size_t i = 0; i < ROUNDS; i++) {
    HOLDS(self, threads_double(binding, x, (float)i, i % 2 == 0 ? NULL : stream, NULL));
  }
  WELL(self, iobind_binding_run(binding, stream, NULL)); /* in flight while everything goes */
  if (self->number % 2 == 0) {
    iobind_binding_destroy(binding);
    iobind_tensor_release(x);
    iobind_stream_destroy(stream);
  } else {
    iobind_tensor_release(x);
    iobind_stream_destroy(stream);
    iobind_binding_destroy(binding);
  }
}

static void destroy_parents(void *shared) {
  farewell *all = shared;
  iobind_session_destroy(all->session);
  iobind_runtime_destroy(all->runtime);
}

static void destroyed_while_others_run(void **state) {
  (void)state;
  iobind_runtime_destroy(runtime); /* or this reference would keep it alive all the time */
  for (int round = 0; round < 3; round++) {
    farewell all = {.runtime = threads_runtime()};
    assert_non_null(all.runtime);
    expect_ok(iobind_runtime_find_device(all.runtime, "vdev", &vdev, NULL, &fault));
    all.session = fixture_session(all.runtime, vdev, "scale");
    for (size_t i = 0; i < THREADS; i++) {
      all.bindings[i] = bind(all.session, &all.inputs[i]);
      assert_non_null(all.bindings[i]);
      expect_ok(iobind_stream_create(vdev, NULL, &all.streams[i], &fault));
    }
    threads_run_with(run_and_give_up, &all, destroy_parents);
  }
  assert_int_equal(threads_open(state), 0);
}

/* ---- sessions made at once ---- */

typedef struct model {
  void *bytes;
  size_t size;
  char path[64];
  iobind_session *made; /* for those that adopt */
} model;

static iobind_status make(const model *all, size_t way, iobind_session **session) {
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  options.devices = &vdev;
  options.device_count = 1;
  options.intra_op_threads = 1;
  options.flags = IOBIND_SESSION_PLACEMENT;
  switch (way % 3) {
    case 0: return iobind_session_create_from_memory(runtime, all->bytes, all->size, &options, session, NULL);
    case 1: return iobind_session_create(runtime, all->path, &options, session, NULL);
    default: return iobind_session_wrap(runtime, all->made->session, NULL, NULL, session, NULL);
  }
}

static void make_sessions(member *self) {
  for (size_t i = 0; i < 6; i++) {
    iobind_session *session = NULL;
    iobind_tensor *x = NULL;
    WELL(self, make(self->shared, self->number + i, &session));
    iobind_binding *binding = self->good ? bind(session, &x) : NULL;
    HOLDS(self, binding != NULL);
    iobind_session_destroy(session);
    HOLDS(self, self->good && threads_double(binding, x, 7, NULL, NULL));
    iobind_binding_destroy(binding);
    iobind_tensor_release(x);
  }
}

static void sessions_are_made_at_once(void **state) {
  (void)state;
  model scale = {.path = "/tmp/iobind-threads-XXXXXX"};
  assert_true(test_model_create("scale", &scale.bytes, &scale.size, NULL));
  int file = mkstemp(scale.path);
  assert_true(file >= 0);
  assert_int_equal(write(file, scale.bytes, scale.size), scale.size);
  close(file);
  scale.made = fixture_session(runtime, vdev, "scale");
  threads_run(make_sessions, &scale);
  iobind_session_destroy(scale.made);
  unlink(scale.path);
  free(scale.bytes);
}

/* What a session says of itself, while it is run. */
static void ask_and_run(member *self) {
  iobind_session *session = self->shared;
  for (size_t i = 0; i < ROUNDS; i++) {
    iobind_session_info info = IOBIND_SESSION_INFO_INIT;
    iobind_value_info value = IOBIND_VALUE_INFO_INIT;
    iobind_node_info node = IOBIND_NODE_INFO_INIT;
    const char *key;
    const char *text;
    size_t index = 9;
    WELL(self, iobind_session_get_info(session, &info, NULL));
    HOLDS(self, info.input_count == 1 && info.output_count == 1);
    HOLDS(self, iobind_session_get_metadata(session, 0, &key, &text, NULL) == IOBIND_ERROR_NOT_FOUND);
    WELL(self, iobind_session_get_input(session, 0, &value, NULL));
    WELL(self, iobind_session_get_output(session, 0, &value, NULL));
    WELL(self, iobind_session_find_input(session, "x", &index, NULL));
    WELL(self, iobind_session_find_output(session, "y", &index, NULL));
    HOLDS(self, index == 0);
    WELL(self, iobind_session_get_node(session, 0, &node, NULL));
    HOLDS(self, info.node_count == 1 && info.device_node_count == 1);
  }
  run_unbound(self);
}

static void session_is_asked_while_it_runs(void **state) {
  (void)state;
  iobind_session *session = fixture_session(runtime, vdev, "scale");
  threads_run(ask_and_run, session);
  iobind_session_destroy(session);
}

/* ---- pipelines and audits ---- */

static void run_own_pipeline(member *self) {
  static const int64_t count = 1;
  iobind_pipeline *pipeline = NULL;
  WELL(self, call_pipeline_create(self->shared, NULL, &pipeline, NULL));
  for (size_t i = 0; i < ROUNDS && self->good; i++) {
    float value = (float)(self->number * ROUNDS + i);
    float got = -1;
    iobind_tensor *x = NULL;
    iobind_tensor *y = NULL;
    WELL(self, call_tensor_wrap(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, &count, 1, &value, sizeof value, NULL, NULL,
                                &x, NULL));
    WELL(self, call_pipeline_submit(pipeline, &x, 1, NULL));
    WELL(self, iobind_pipeline_next(pipeline, IOBIND_NO_TIMEOUT, &y, 1, NULL, NULL));
    HOLDS(self, self->good && iobind_tensor_read(y, 0, &got, sizeof got, NULL, NULL) == IOBIND_OK && got == 2 * value);
    iobind_tensor_release(x);
  }
  iobind_pipeline_destroy(pipeline);
}

static void pipelines_of_one_session(void **state) {
  (void)state;
  iobind_session *session = fixture_session(runtime, vdev, "scale");
  threads_run(run_own_pipeline, session);
  iobind_session_destroy(session);
}

static void ask_an_audit(member *self) {
  for (size_t i = 0; i < ROUNDS; i++) {
    iobind_audit_info info = IOBIND_AUDIT_INFO_INIT;
    iobind_audit_entry entry = IOBIND_AUDIT_ENTRY_INIT;
    WELL(self, iobind_audit_get_info(self->shared, &info, NULL));
    HOLDS(self, info.entry_count == 2 && info.crossing_bytes == 0); /* x and y, both on the device */
    WELL(self, iobind_audit_get_entry(self->shared, i % 2, &entry, NULL));
    HOLDS(self, entry.kind == (i % 2 == 0 ? IOBIND_AUDIT_INPUT : IOBIND_AUDIT_OUTPUT));
  }
}

static void one_audit_in_many_hands(void **state) {
  (void)state;
  iobind_session *session = fixture_session(runtime, vdev, "scale");
  iobind_tensor *x = NULL;
  iobind_binding *binding = bind(session, &x);
  assert_non_null(binding);
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  iobind_audit *audit = NULL;
  expect_ok(iobind_audit_create(binding, &audit, &fault));
  threads_run(ask_an_audit, audit);
  iobind_audit_destroy(audit);
  iobind_binding_destroy(binding);
  iobind_tensor_release(x);
  iobind_session_destroy(session);
}

/* ---- sessions that compute on one stream, which the caller uses, too ---- */

enum { MANY = 20000, MOVES = 10 }; /* enough floats for a buffer of the stream's */

typedef struct shared_stream {
  iobind_session *sessions[THREADS];
  iobind_stream *stream;
} shared_stream;

/* A turn of a member or of the caller: all of it has one value. */
static bool all_are(const float *values, float value) {
  bool same = true;
  for (size_t i = 0; i < MANY; i++) {
    same = same && values[i] == value;
  }
  return same;
}

static void run_on_shared(member *self) {
  const shared_stream *all = self->shared;
  const int64_t count = MANY;
  iobind_tensor *x = NULL;
  iobind_tensor *y = NULL;
  iobind_binding *binding = NULL;
  float *values = calloc(MANY, sizeof *values);
  HOLDS(self, values != NULL);
  WELL(self, call_tensor_wrap(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, &count, 1, values, MANY * sizeof *values, NULL,
                              NULL, &x, NULL));
  WELL(self, iobind_binding_create(all->sessions[self->number], &binding, NULL));
  WELL(self, iobind_binding_set_input(binding, 0, IOBIND_INPUT_LIVE, x, NULL, NULL));
  for (size_t turn = 0; turn < MOVES && self->good; turn++) {
    const float value = (float)(100 * self->number + turn);
    for (size_t i = 0; i < MANY; i++) {
      values[i] = value;
    }
    WELL(self, iobind_binding_run(binding, NULL, NULL));
    WELL(self, iobind_binding_get_output(binding, 0, NULL, &y, NULL));
    WELL(self, iobind_tensor_read(y, 0, values, MANY * sizeof *values, NULL, NULL));
    HOLDS(self, all_are(values, 2 * value));
  }
  iobind_binding_destroy(binding);
  iobind_session_destroy(all->sessions[self->number]); /* the last one ends the stream */
  iobind_tensor_release(x);
  free(values);
}

static void move_on_shared(void *shared) {
  shared_stream *all = shared;
  const int64_t count = MANY;
  static float values[MANY];
  static float read[MANY];
  iobind_tensor *x;
  expect_ok(iobind_tensor_create(vdev, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, &count, 1, &x, &fault));
  for (size_t turn = 0; turn < MOVES; turn++) {
    for (size_t i = 0; i < MANY; i++) {
      values[i] = (float)turn;
    }
    expect_ok(iobind_tensor_write(x, 0, values, sizeof values, all->stream, &fault));
    expect_ok(iobind_tensor_read(x, 0, read, sizeof read, all->stream, &fault));
    expect_ok(iobind_stream_synchronize(all->stream, &fault));
    assert_true(all_are(read, (float)turn));
  }
  iobind_tensor_release(x);
  iobind_stream_destroy(all->stream);
}

static void sessions_share_a_stream(void **state) {
  (void)state;
  shared_stream all;
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  expect_ok(iobind_stream_create(vdev, NULL, &all.stream, &fault));
  options.devices = &vdev;
  options.device_count = 1;
  options.stream = all.stream;
  for (size_t i = 0; i < THREADS; i++) {
    expect_ok(test_session_with(runtime, "scale", &options, &all.sessions[i], &fault));
  }
  threads_run_with(run_on_shared, &all, move_on_shared);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(shared_session),
    cmocka_unit_test(bound_and_unbound_runs),
    cmocka_unit_test(one_binding_in_many_hands),
    cmocka_unit_test(busy_binding),
    cmocka_unit_test(cancel_from_other_threads),
    cmocka_unit_test(destroyed_while_others_run),
    cmocka_unit_test(sessions_are_made_at_once),
    cmocka_unit_test(session_is_asked_while_it_runs),
    cmocka_unit_test(pipelines_of_one_session),
    cmocka_unit_test(one_audit_in_many_hands),
    cmocka_unit_test(sessions_share_a_stream),
};

FIXTURE_MAIN(tests, threads_open, threads_close);
