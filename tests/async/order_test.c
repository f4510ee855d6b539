/* Upload, run and download on three streams, turn after turn in the same memory, ordered only by events: the race detector is
 * silent, and reports each event that is omitted. */
#include "fixture.h"

#include <pthread.h>
#include <string.h>

#include "iobind/interop.h"
#include "session/session.h"
#include "vdev.h"
#include "../rig/calls.h"

enum { COUNT = 64, TURNS = 3, UP = 0, RUN, DOWN, STREAMS };

#define TRY(call)                \
  do {                           \
    iobind_status came = (call); \
    if (came != IOBIND_OK) {     \
      return came;               \
    }                            \
  } while (0)

/* What orders the stages: who waits for whom, in this turn or for the one before. */
typedef enum edge {
  RUN_AFTER_UP,
  DOWN_AFTER_RUN,
  UP_AFTER_LAST_RUN,   /* which reads what is overwritten */
  RUN_AFTER_LAST_DOWN, /* the same of the output */
  EDGES,
} edge;

static iobind_runtime *runtime;
static iobind_device *device;
static iobind_session *session;
static iobind_stream *streams[STREAMS];
static iobind_event *events[STREAMS];
static iobind_binding *bindings[TURNS];
static iobind_tensor *in, *x, *y, *out;

static iobind_tensor *make(iobind_memory memory) {
  static const int64_t dims[1] = {COUNT};
  iobind_tensor *tensor;
  expect_ok(iobind_tensor_create(device, memory, IOBIND_DTYPE_FLOAT32, dims, 1, &tensor, &fault));
  return tensor;
}

static int start_with(bool own) {
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  iobind_stream *compute = NULL;
  runtime = fixture_runtime();
  device = fixture_device(runtime, "vdev");
  options.devices = &device;
  options.device_count = 1;
  if (own) {
    expect_ok(iobind_stream_create(device, NULL, &compute, &fault));
    options.stream = compute;
  }
  expect_ok(test_session_with(runtime, "scale", &options, &session, &fault));
  iobind_stream_destroy(compute); /* the session's from now on */
  in = make(IOBIND_MEMORY_HOST_ACCESSIBLE);
  x = make(IOBIND_MEMORY_DEFAULT);
  y = make(IOBIND_MEMORY_DEFAULT);
  out = make(IOBIND_MEMORY_HOST_ACCESSIBLE);
  for (int i = 0; i < STREAMS; i++) {
    expect_ok(iobind_stream_create(device, NULL, &streams[i], &fault));
    expect_ok(iobind_event_create(device, &events[i], &fault));
  }
  for (int i = 0; i < TURNS; i++) { /* one binding would be waited for on the host between two turns */
    expect_ok(iobind_binding_create(session, &bindings[i], &fault));
    expect_ok(iobind_binding_set_input(bindings[i], 0, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
    expect_ok(iobind_binding_set_output(bindings[i], 0, y, 0, &fault));
  }
  assert_int_equal(vdev_set(0, "race", "fail"), 0);
  return 0;
}

static int start(void **state) {
  (void)state;
  return start_with(false);
}

/* The session computes on a stream of its own, and all must be as if a run were on the stream that it was given. */
static int start_own(void **state) {
  (void)state;
  return start_with(true);
}

static int stop(void **state) {
  (void)state;
  iobind_tensor *const tensors[] = {in, x, y, out};
  for (int i = 0; i < STREAMS; i++) {
    iobind_event_destroy(events[i]);
    iobind_stream_destroy(streams[i]);
  }
  for (int i = 0; i < TURNS; i++) {
    iobind_binding_destroy(bindings[i]);
  }
  for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++) {
    iobind_tensor_release(tensors[i]);
  }
  iobind_session_destroy(session);
  iobind_runtime_destroy(runtime);
  return 0;
}

static void order(edge this, edge missing, int stage, int behind) {
  if (this != missing) {
    expect_ok(iobind_stream_wait(streams[stage], events[behind], &fault));
  }
}

static iobind_status copy(iobind_tensor *from, iobind_tensor *to, iobind_stream *stream) {
  const iobind_tensor *sources[1] = {from};
  return iobind_tensor_copy(sources, &to, 1, stream, &fault);
}

static void synchronize(void) {
  for (int i = 0; i < STREAMS; i++) {
    expect_ok(iobind_stream_synchronize(streams[i], &fault));
  }
}

/* All turns, without one of the events; the first call that is refused ends it. */
static iobind_status go(edge missing) {
  fixture_arm();
  for (int turn = 0; turn < TURNS; turn++) {
    order(UP_AFTER_LAST_RUN, missing, UP, RUN); /* events that were never recorded order nothing */
    TRY(copy(in, x, streams[UP]));
    expect_ok(iobind_event_record(events[UP], streams[UP], &fault));
    order(RUN_AFTER_UP, missing, RUN, UP);
    order(RUN_AFTER_LAST_DOWN, missing, RUN, DOWN);
    TRY(call_binding_run(bindings[turn], streams[RUN], events[RUN], &fault));
    order(DOWN_AFTER_RUN, missing, DOWN, RUN);
    TRY(copy(y, out, streams[DOWN]));
    expect_ok(iobind_event_record(events[DOWN], streams[DOWN], &fault));
  }
  return IOBIND_OK;
}

static void whole_order_is_silent(void **state) {
  (void)state;
  for (int i = 0; i < 20; i++) {
    expect_ok(go(EDGES));
    synchronize();
  }
  assert_int_equal(vdev_get(0, "races"), 0);
}

static void each_event_is_missed(void **state) {
  (void)state;
  for (edge missing = 0; missing < EDGES; missing++) {
    for (int i = 0; i < 5; i++) {
      expect(IOBIND_ERROR_RUNTIME, go(missing));
      expect_words("no event or wait orders the two");
      synchronize();
      expect_ok(go(EDGES)); /* afterwards all works */
      synchronize();
    }
  }
}

static iobind_binding *make_look_up(iobind_session *table, const int64_t *index, iobind_tensor **row) {
  const int64_t dims[1] = {1};
  iobind_binding *binding;
  expect_ok(iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_INT64, dims, 1, row, &fault));
  expect_ok(iobind_tensor_write(*row, 0, index, sizeof *index, NULL, &fault));
  expect_ok(iobind_binding_create(table, &binding, &fault));
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, *row, NULL, &fault));
  return binding;
}

/* Of a session that computes where the test's does: one look-up is right, the other one fails after its call. */
typedef struct look_ups {
  iobind_session *table;
  iobind_binding *good, *bad;
  iobind_tensor *rows[2];
} look_ups;

static look_ups open_look_ups(void) {
  const int64_t there = 1;
  const int64_t beyond = 99999;
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  look_ups made;
  options.devices = &device;
  options.device_count = 1;
  options.stream = session->compute.stream;
  expect_ok(test_session_with(runtime, "lookup", &options, &made.table, &fault));
  made.good = make_look_up(made.table, &there, &made.rows[0]);
  made.bad = make_look_up(made.table, &beyond, &made.rows[1]);
  return made;
}

static void close_look_ups(const look_ups *open) {
  iobind_binding_destroy(open->good);
  iobind_binding_destroy(open->bad);
  iobind_tensor_release(open->rows[0]);
  iobind_tensor_release(open->rows[1]);
  iobind_session_destroy(open->table);
}

/* A run fails on the session's stream, after its call. The caller's stream reports it: by the event after it, by a wait for the
 * stream, and to the binding. Work that was waited for before remains OK, and later work succeeds. */
static void failures_are_heard(void **state) {
  (void)state;
  look_ups open = open_look_ups();
  iobind_binding *good = open.good;
  iobind_binding *bad = open.bad;
  assert_int_equal(vdev_set(0, "compute_us", "2000"), 0); /* so that a run is done after its call */
  for (int i = 0; i < 4; i++) {
    iobind_tensor *output;
    expect_ok(call_binding_run(good, streams[RUN], events[UP], &fault));
    expect_ok(iobind_event_wait(events[UP], IOBIND_NO_TIMEOUT, &fault));
    expect_ok(call_binding_run(bad, streams[RUN], events[RUN], &fault));
    if (i % 2 == 0) {
      expect(IOBIND_ERROR_RUNTIME, iobind_event_wait(events[RUN], IOBIND_NO_TIMEOUT, &fault));
    }
    expect(IOBIND_ERROR_RUNTIME, iobind_stream_synchronize(streams[RUN], &fault));
    expect(IOBIND_ERROR_RUNTIME, iobind_event_wait(events[RUN], IOBIND_NO_TIMEOUT, &fault));
    expect(IOBIND_ERROR_RUNTIME, iobind_binding_get_output(bad, 0, NULL, &output, &fault));
    expect_ok(iobind_event_wait(events[UP], IOBIND_NO_TIMEOUT, &fault));
    expect_ok(iobind_binding_get_output(good, 0, NULL, &output, &fault));
    expect_ok(iobind_binding_run(good, streams[RUN], &fault));
    expect_ok(iobind_binding_get_output(good, 0, NULL, &output, &fault));
    synchronize();
  }
  assert_int_equal(vdev_set(0, "compute_us", "0"), 0);
  close_look_ups(&open);
}

/* More runs than a stream remembers joins. */
static void many_runs_in_a_row(void **state) {
  (void)state;
  enum { MANY = 1200 };
  for (int i = 0; i < MANY; i++) {
    expect_ok(iobind_binding_run(bindings[0], streams[RUN], &fault));
  }
  expect_ok(iobind_stream_synchronize(streams[RUN], &fault));
  expect_ok(iobind_binding_run(bindings[0], NULL, &fault));
}

/* A semaphore that holds a stream until open_gate. */
static iobind_semaphore *close_gate(iobind_stream *stream) {
  iobind_external external = IOBIND_EXTERNAL_INIT;
  iobind_semaphore *gate;
  external.kind = IOBIND_EXTERNAL_FD_SEMAPHORE;
  external.handle = (void *)(intptr_t)vdev_semaphore_create(0);
  expect_ok(iobind_semaphore_import(device, &external, &gate, &fault));
  expect_ok(iobind_stream_wait_semaphore(stream, gate, 1, &fault));
  return gate;
}

static void open_gate(iobind_semaphore *gate) {
  expect_ok(iobind_stream_signal_semaphore(streams[UP], gate, 1, &fault));
  iobind_semaphore_destroy(gate);
}

/* The run cannot begin, and its output is lent to another stream, whose work is ordered after the run. A thread that waited would wait
 * forever. */
static void output_is_lent_while_the_run_is_under_way(void **state) {
  (void)state;
  float *given;
  float *came;
  iobind_binding *binding;
  iobind_tensor *lent;
  expect_ok(iobind_tensor_map(in, IOBIND_DTYPE_FLOAT32, IOBIND_ACCESS_WRITE, (void **)&given, &fault));
  expect_ok(iobind_tensor_map(out, IOBIND_DTYPE_FLOAT32, IOBIND_ACCESS_WRITE, (void **)&came, &fault));
  for (int i = 0; i < COUNT; i++) {
    given[i] = (float)i;
  }
  expect_ok(copy(in, x, NULL));
  expect_ok(iobind_binding_create(session, &binding, &fault));
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  for (int turn = 0; turn < TURNS; turn++) {
    memset(came, 0, COUNT * sizeof *came);
    iobind_semaphore *gate = close_gate(streams[RUN]);
    expect_ok(call_binding_run(binding, streams[RUN], events[RUN], &fault));
    expect_ok(iobind_binding_get_output(binding, 0, streams[DOWN], &lent, &fault));
    iobind_tensor_retain(lent);
    expect_ok(copy(lent, out, streams[DOWN]));
    expect_ok(iobind_event_record(events[DOWN], streams[DOWN], &fault));
    expect(IOBIND_ERROR_INVALID_STATE, iobind_binding_check(binding, &fault));
    expect(IOBIND_ERROR_TIMEOUT, iobind_event_wait(events[DOWN], 1000, &fault));
    expect_ok(iobind_binding_run(binding, streams[RUN], &fault)); /* the next one writes other memory */
    open_gate(gate);
    expect_ok(iobind_event_wait(events[DOWN], IOBIND_NO_TIMEOUT, &fault));
    for (int i = 0; i < COUNT; i++) {
      assert_true(came[i] == 2 * given[i]);
    }
    iobind_tensor_release(lent);
    expect_ok(iobind_binding_get_output(binding, 0, NULL, &lent, &fault));
  }
  synchronize();
  assert_int_equal(vdev_get(0, "races"), 0);
  iobind_binding_destroy(binding);
}

/* Work after a lent output has used the output of a run that failed: a wait for that stream returns the failure, even if other calls
 * have returned it, or a good run came in between. Earlier work of that stream is OK. */
static void failure_is_heard_where_an_output_was_lent(void **state) {
  (void)state;
  iobind_tensor *lent;
  look_ups open = open_look_ups();
  iobind_binding *good = open.good;
  iobind_binding *bad = open.bad;
  for (int i = 0; i < 4; i++) {
    expect_ok(copy(in, y, streams[DOWN]));
    expect_ok(iobind_event_record(events[UP], streams[DOWN], &fault));
    iobind_semaphore *gate = close_gate(streams[RUN]);
    expect_ok(iobind_binding_run(bad, streams[RUN], &fault));
    expect_ok(iobind_binding_get_output(bad, 0, streams[DOWN], &lent, &fault));
    expect_ok(iobind_event_record(events[DOWN], streams[DOWN], &fault));
    open_gate(gate);
    if (i % 2 == 0) { /* the run's own stream reports it first, and works again */
      expect(IOBIND_ERROR_RUNTIME, iobind_stream_synchronize(streams[RUN], &fault));
      expect_ok(iobind_binding_run(good, streams[RUN], &fault));
      expect_ok(iobind_binding_get_output(good, 0, streams[DOWN], &lent, &fault));
    }
    if (i < 2) {
      expect(IOBIND_ERROR_RUNTIME, iobind_event_wait(events[DOWN], IOBIND_NO_TIMEOUT, &fault));
    }
    expect(IOBIND_ERROR_RUNTIME, iobind_stream_synchronize(streams[DOWN], &fault));
    expect(IOBIND_ERROR_RUNTIME, iobind_event_wait(events[DOWN], IOBIND_NO_TIMEOUT, &fault));
    expect_ok(iobind_event_wait(events[UP], IOBIND_NO_TIMEOUT, &fault));
    (void)!iobind_stream_synchronize(streams[RUN], &fault);
    expect(IOBIND_ERROR_RUNTIME, iobind_binding_get_output(bad, 0, NULL, &lent, &fault));
    expect_ok(iobind_binding_run(bindings[0], streams[DOWN], &fault)); /* later work succeeds */
    synchronize();
  }
  close_look_ups(&open);
}

/* Two streams in turn, each run on the other one's output, and no thread waits: a thread with a small stack can wait for the last. */
static void *ping_pong(void *context) {
  enum { ROUNDS = 300 };
  iobind_tensor *lent;
  bool *good = context;
  *good = true;
  for (int i = 0; i < 2 * ROUNDS; i++) {
    iobind_stream *this = streams[i % 2 == 0 ? RUN : DOWN];
    iobind_stream *other = streams[i % 2 == 0 ? DOWN : RUN];
    *good = *good && iobind_binding_run(bindings[i % 2], this, NULL) == IOBIND_OK &&
            iobind_binding_get_output(bindings[i % 2], 0, other, &lent, NULL) == IOBIND_OK;
  }
  *good = iobind_stream_synchronize(streams[RUN], NULL) == IOBIND_OK && *good;
  *good = iobind_stream_synchronize(streams[DOWN], NULL) == IOBIND_OK && *good;
  return NULL;
}

static void two_streams_lend_to_each_other(void **state) {
  (void)state;
  enum { STACK = 256 << 10 };
  bool good = false;
  pthread_t thread;
  pthread_attr_t attributes;
  expect_ok(iobind_binding_clear(bindings[1], &fault));
  expect_ok(iobind_binding_set_input(bindings[1], 0, IOBIND_INPUT_RESIDENT, y, NULL, &fault));
  expect_ok(iobind_binding_set_output(bindings[1], 0, x, 0, &fault));
  expect_ok(copy(in, x, NULL));
  pthread_attr_init(&attributes);
  assert_int_equal(pthread_attr_setstacksize(&attributes, STACK), 0);
  assert_int_equal(pthread_create(&thread, &attributes, ping_pong, &good), 0);
  assert_int_equal(pthread_join(thread, NULL), 0);
  pthread_attr_destroy(&attributes);
  assert_true(good);
  assert_int_equal(vdev_get(0, "races"), 0);
}

/* The caller's own memory, which the host can read, is waited for; and where no run is in flight there is nothing to wait for. */
static void what_the_host_reads_is_waited_for(void **state) {
  (void)state;
  iobind_tensor *lent;
  expect_ok(iobind_binding_set_output(bindings[0], 0, out, 0, &fault));
  expect_ok(copy(in, x, NULL));
  assert_int_equal(vdev_set(0, "compute_us", "2000"), 0);
  expect_ok(iobind_binding_run(bindings[0], streams[RUN], &fault));
  expect_ok(iobind_binding_get_output(bindings[0], 0, streams[DOWN], &lent, &fault));
  assert_ptr_equal(lent, out);
  expect_ok(iobind_binding_check(bindings[0], &fault));
  expect_ok(iobind_binding_get_output(bindings[0], 0, streams[DOWN], &lent, &fault));
  assert_int_equal(vdev_set(0, "compute_us", "0"), 0);
}

static void lending_takes_right_arguments(void **state) {
  (void)state;
  iobind_tensor *lent = x;
  expect(IOBIND_ERROR_INVALID_STATE, iobind_binding_get_output(bindings[0], 0, streams[RUN], &lent, &fault));
  assert_null(lent);
  expect_ok(iobind_binding_run(bindings[0], streams[RUN], &fault));
  expect(IOBIND_ERROR_NOT_FOUND, iobind_binding_get_output(bindings[0], 1, streams[RUN], &lent, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_binding_get_output(bindings[0], 0, streams[RUN], NULL, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_binding_get_output(NULL, 0, streams[RUN], &lent, &fault));
  synchronize();
}

#define ON_EACH(test) cmocka_unit_test_setup_teardown(test, start, stop), OWN(test)
#define OWN(test) \
  { "own stream: " #test, test, start_own, stop, NULL }

static const struct CMUnitTest tests[] = {
    ON_EACH(whole_order_is_silent),
    ON_EACH(each_event_is_missed),
    ON_EACH(failures_are_heard),
    ON_EACH(output_is_lent_while_the_run_is_under_way),
    ON_EACH(failure_is_heard_where_an_output_was_lent),
    ON_EACH(two_streams_lend_to_each_other),
    ON_EACH(what_the_host_reads_is_waited_for),
    ON_EACH(lending_takes_right_arguments),
    OWN(many_runs_in_a_row),
};

FIXTURE_MAIN(tests, NULL, NULL);
