/* One thread has a batch's turn, and a device keeps it waiting: the others do not wait for it. And waits that a stop ends. A gate holds the device,
 * so that a call which waited would wait forever. */
#include "fixture.h"

#include <pthread.h>
#include <sched.h>

#include "batch/batch.h"
#include "iobind/interop.h"
#include "vdev.h"
#include "voices.h"

enum { ROWS = 4 };

static iobind_session *session;
static iobind_batch *batch;
static iobind_stream *held; /* after the gate */
static iobind_semaphore *gate;
static uint64_t slots[ROWS];
static voice rows[ROWS];

static int start(void **state) {
  (void)stage_open(state);
  session = fixture_session(runtime, device, "voices");
  expect_ok(iobind_stream_create(device, NULL, &held, &fault));
  memset(rows, 0, sizeof rows);
  gate = NULL;
  return 0;
}

static int stop(void **state) {
  iobind_batch_destroy(batch);
  iobind_semaphore_destroy(gate);
  iobind_stream_destroy(held);
  iobind_session_destroy(session);
  batch = NULL;
  session = NULL;
  return stage_close(state);
}

static voice_results advance(int row, int seed) {
  float x[WIDTH];
  for (int i = 0; i < WIDTH; i++) {
    x[i] = (float)((seed * 5 + i * 3) % 11 - 5);
  }
  voice_bring(batch, slots[row], x);
  return voice_step(&rows[row], x);
}

/* ---- the gate ---- */

static void close_gate(void) {
  iobind_external external = IOBIND_EXTERNAL_INIT;
  external.kind = IOBIND_EXTERNAL_FD_SEMAPHORE;
  external.handle = (void *)(intptr_t)vdev_semaphore_create(0);
  expect_ok(iobind_semaphore_import(device, &external, &gate, &fault));
  expect_ok(iobind_stream_wait_semaphore(held, gate, 1, &fault));
}

static void open_gate(void) {
  iobind_stream *other;
  expect_ok(iobind_stream_create(device, NULL, &other, &fault));
  expect_ok(iobind_stream_signal_semaphore(other, gate, 1, &fault));
  iobind_stream_destroy(other);
}

/* A state that a run after the gate writes. */
static iobind_state *make_held_state(voice *row) {
  const float x[WIDTH] = {3, 1, 2, 4};
  iobind_batch *maker = voice_batch(session, 1, 0);
  iobind_state *zeros;
  iobind_state *saved;
  uint64_t slot;
  expect_ok(iobind_batch_join(maker, NULL, &slot, &fault));
  expect_ok(iobind_batch_leave(maker, slot, &zeros, &fault));
  iobind_binding *binding = voice_binding(session, zeros, x);
  close_gate();
  expect_ok(iobind_binding_run(binding, held, &fault));
  expect_ok(iobind_binding_save_state(binding, &saved, &fault));
  (void)voice_step(row, x);
  iobind_state_release(zeros);
  iobind_binding_destroy(binding);
  iobind_batch_destroy(maker);
  return saved;
}

/* ---- the thread with the turn ---- */

typedef struct caller {
  pthread_t thread;
  iobind_status (*call)(void);
  iobind_status status;
} caller;

static void *make_call(void *context) {
  caller *self = context;
  self->status = self->call();
  return NULL;
}

static void begin(caller *self, iobind_status (*call)(void)) {
  *self = (caller){.call = call};
  assert_int_equal(pthread_create(&self->thread, NULL, make_call, self), 0);
}

static iobind_status end(caller *self) {
  assert_int_equal(pthread_join(self->thread, NULL), 0);
  return self->status;
}

/* Until so many threads have the turn or wait for it. */
static void await_turns(uint64_t count) {
  uint64_t taken = 0;
  while (taken < count) {
    sched_yield();
    pthread_mutex_lock(&batch->mutex);
    taken = batch->tickets - batch->served;
    pthread_mutex_unlock(&batch->mutex);
  }
}

static iobind_status run_first(void) {
  return iobind_batch_run(batch, slots, 1, NULL, NULL);
}

/* The step is submitted and, by another call, awaited. */
static iobind_status run_first_held(void) {
  iobind_state *saved = NULL;
  iobind_status status = iobind_batch_run(batch, slots, 1, held, NULL);
  if (status == IOBIND_OK) {
    status = iobind_batch_save_state(batch, slots[0], &saved, NULL);
  }
  iobind_state_release(saved);
  return status;
}

/* All that does not need the turn, while another thread has it. Rows 1 and 2 have made a step, row 3 has not joined. */
static void do_what_does_not_wait(const voice_results *earlier) {
  iobind_batch_info info = IOBIND_BATCH_INFO_INIT;
  iobind_tensor *output;
  expect_ok(iobind_batch_join(batch, NULL, &slots[3], &fault));
  (void)advance(3, 30);
  (void)advance(2, 31);
  expect_ok(iobind_batch_submit(batch, slots[3], &fault));
  expect_ok(iobind_batch_submit(batch, slots[2], &fault));
  expect(IOBIND_ERROR_TIMEOUT, iobind_batch_await(batch, slots[3], 1, &fault));
  expect_ok(iobind_batch_get_info(batch, &info, &fault));
  assert_int_equal(info.row_count, ROWS);
  expect_ok(iobind_batch_take_output(batch, slots[1], Y, &output, &fault)); /* a copy */
  voice_expect_tensor(output, earlier->y, sizeof earlier->y);
  iobind_tensor_release(output);
}

static void step_what_was_submitted(void) {
  iobind_batch_wait wait = IOBIND_BATCH_WAIT_INIT;
  size_t count = 0;
  wait.rows = 2;
  expect_ok(iobind_batch_step(batch, &wait, NULL, 0, &count, &fault));
  assert_int_equal(count, 2);
  for (int i = 0; i < ROWS; i++) {
    voice_expect_state(batch, slots[i], &rows[i]);
  }
}

/* The first three rows join, and rows 1 and 2 make a step; what row 1 then has is returned. */
static voice_results prepare(iobind_state *first) {
  expect_ok(iobind_batch_join(batch, first, &slots[0], &fault));
  for (int i = 1; i < 3; i++) {
    expect_ok(iobind_batch_join(batch, NULL, &slots[i], &fault));
  }
  voice_results results = advance(1, 11);
  (void)advance(2, 12);
  expect_ok(iobind_batch_run(batch, &slots[1], 2, NULL, &fault));
  return results;
}

/* ---- held ---- */

/* By a step whose upload and kernels are held back by the gate. */
static void by_a_step(void **state) {
  (void)state;
  caller other;
  batch = voice_batch(session, ROWS, 0);
  const voice_results earlier = prepare(NULL);
  (void)advance(0, 10);
  close_gate();
  begin(&other, run_first_held);
  await_turns(1);
  do_what_does_not_wait(&earlier);
  open_gate();
  assert_int_equal(end(&other), IOBIND_OK);
  step_what_was_submitted();
}

/* By rows that move: the state of the row that joins is not there. */
static void by_a_move(void **state) {
  (void)state;
  caller other;
  batch = voice_batch(session, ROWS, 0);
  iobind_state *saved = make_held_state(&rows[0]);
  const voice_results earlier = prepare(saved);
  (void)advance(0, 10);
  begin(&other, run_first);
  await_turns(1);
  do_what_does_not_wait(&earlier);
  open_gate();
  assert_int_equal(end(&other), IOBIND_OK);
  step_what_was_submitted();
  iobind_state_release(saved);
}

/* By the test of a width: it reads the first state, which is not there. */
static void by_the_test(void **state) {
  (void)state;
  caller other;
  iobind_batch_options options = voice_options(ROWS);
  voice first = {{{0}}, {0}, 0};
  options.first = make_held_state(&first);
  expect_ok(iobind_batch_create(session, &options, &batch, &fault));
  voice_set_gain(batch);
  for (int i = 0; i < 3; i++) {
    expect_ok(iobind_batch_join(batch, NULL, &slots[i], &fault));
    rows[i] = first;
  }
  (void)advance(0, 10);
  begin(&other, run_first);
  await_turns(1);
  expect_ok(iobind_batch_join(batch, NULL, &slots[3], &fault));
  rows[3] = first;
  for (int i = 2; i < ROWS; i++) {
    (void)advance(i, 20 + i);
    expect_ok(iobind_batch_submit(batch, slots[i], &fault));
  }
  open_gate();
  assert_int_equal(end(&other), IOBIND_OK);
  step_what_was_submitted();
  iobind_state_release(options.first);
}

/* ---- the order of the turns ---- */

enum { TAKERS = 6 };

static size_t order[TAKERS];
static size_t taken; /* the turn's */

typedef struct taker {
  pthread_t thread;
  size_t index;
} taker;

static void *take(void *context) {
  const taker *self = context;
  pthread_mutex_lock(&batch->mutex);
  iobind__batch_take_turn(batch);
  order[taken++] = self->index;
  iobind__batch_give_turn(batch);
  pthread_mutex_unlock(&batch->mutex);
  return NULL;
}

static void turns_are_in_order(void **state) {
  (void)state;
  taker takers[TAKERS];
  batch = voice_batch(session, ROWS, 0);
  taken = 0;
  pthread_mutex_lock(&batch->mutex);
  iobind__batch_take_turn(batch);
  pthread_mutex_unlock(&batch->mutex);
  for (size_t i = 0; i < TAKERS; i++) {
    takers[i].index = i;
    assert_int_equal(pthread_create(&takers[i].thread, NULL, take, &takers[i]), 0);
    await_turns(i + 2);
  }
  pthread_mutex_lock(&batch->mutex);
  iobind__batch_give_turn(batch);
  pthread_mutex_unlock(&batch->mutex);
  for (size_t i = 0; i < TAKERS; i++) {
    assert_int_equal(pthread_join(takers[i].thread, NULL), 0);
  }
  for (size_t i = 0; i < TAKERS; i++) {
    assert_int_equal(order[i], i);
  }
}

/* ---- stopped ---- */

static iobind_status step_without_end(void) {
  iobind_batch_wait wait = IOBIND_BATCH_WAIT_INIT;
  wait.rows = ROWS;
  wait.longest_ns = IOBIND_NO_TIMEOUT;
  return iobind_batch_step(batch, &wait, NULL, 0, NULL, NULL);
}

static iobind_status step_one(void) {
  iobind_batch_wait wait = IOBIND_BATCH_WAIT_INIT;
  wait.rows = 1;
  return iobind_batch_step(batch, &wait, NULL, 0, NULL, NULL);
}

static iobind_status await_first(void) {
  return iobind_batch_await(batch, slots[0], IOBIND_NO_TIMEOUT, NULL);
}

/* One thread waits for rows and another for its step: both end. What the batch then refuses, and what it does. */
static void stop_ends_waits(void **state) {
  (void)state;
  caller server;
  caller client;
  uint64_t none;
  batch = voice_batch(session, ROWS, 0);
  voice_results results = prepare(NULL);
  (void)advance(0, 3);
  expect_ok(iobind_batch_submit(batch, slots[0], &fault));
  begin(&server, step_without_end);
  begin(&client, await_first);
  iobind_batch_stop(batch);
  assert_int_equal(end(&server), IOBIND_ERROR_CANCELLED);
  assert_int_equal(end(&client), IOBIND_ERROR_CANCELLED);
  iobind_batch_stop(batch);
  iobind_batch_stop(NULL);
  expect(IOBIND_ERROR_CANCELLED, iobind_batch_step(batch, NULL, NULL, 0, NULL, &fault));
  expect_words("stopped");
  expect(IOBIND_ERROR_CANCELLED, iobind_batch_await(batch, slots[0], 0, &fault));
  expect(IOBIND_ERROR_INVALID_STATE, iobind_batch_join(batch, NULL, &none, &fault));
  expect_words("stopped");
  voice_expect_results(batch, slots[1], &results);
  results = advance(1, 4);
  expect(IOBIND_ERROR_INVALID_STATE, iobind_batch_submit(batch, slots[1], &fault));
  expect_words("stopped");
  expect_ok(iobind_batch_run(batch, &slots[1], 1, NULL, &fault));
  voice_expect_results(batch, slots[1], &results);
  voice_expect_state(batch, slots[1], &rows[1]);
  for (int i = 0; i < 3; i++) {
    expect_ok(iobind_batch_leave(batch, slots[i], NULL, &fault));
  }
}

/* A step that is being made ends, and its row is awaited, now and later; so is a row whose step has ended. */
static void stop_during_a_step(void **state) {
  (void)state;
  caller server;
  caller client;
  batch = voice_batch(session, ROWS, 0);
  iobind_state *saved = make_held_state(&rows[0]);
  (void)prepare(saved);
  (void)advance(1, 5);
  expect_ok(iobind_batch_submit(batch, slots[1], &fault));
  assert_int_equal(step_one(), IOBIND_OK);
  (void)advance(0, 3);
  expect_ok(iobind_batch_submit(batch, slots[0], &fault));
  begin(&server, step_one);
  await_turns(1);
  iobind_batch_stop(batch);
  begin(&client, await_first);
  expect(IOBIND_ERROR_TIMEOUT, iobind_batch_await(batch, slots[0], 1, &fault));
  expect_ok(iobind_batch_await(batch, slots[1], 0, &fault));
  open_gate();
  assert_int_equal(end(&server), IOBIND_OK);
  assert_int_equal(end(&client), IOBIND_OK);
  for (int i = 0; i < 3; i++) {
    voice_expect_state(batch, slots[i], &rows[i]);
  }
  iobind_state_release(saved);
}

/* ---- woken: without a longest wait, only the right submission or leave ends a wait ---- */

static iobind_status step_of(size_t rows_wanted) {
  iobind_batch_wait wait = IOBIND_BATCH_WAIT_INIT;
  wait.rows = rows_wanted;
  wait.longest_ns = IOBIND_NO_TIMEOUT;
  return iobind_batch_step(batch, &wait, NULL, 0, NULL, NULL);
}

static iobind_status step_of_many(void) {
  return step_of(100);
}

/* As soon as a row has waited, however short. */
static iobind_status step_soon(void) {
  iobind_batch_wait wait = IOBIND_BATCH_WAIT_INIT;
  wait.rows = 100;
  wait.longest_ns = 1;
  return iobind_batch_step(batch, &wait, NULL, 0, NULL, NULL);
}

static iobind_status step_of_two(void) {
  return step_of(2);
}

static iobind_status step_of_three(void) {
  return step_of(3);
}

/* Until a thread waits for so many submitted rows. */
static void await_server(size_t rows_wanted) {
  size_t enough = 0;
  while (enough != rows_wanted) {
    sched_yield();
    pthread_mutex_lock(&batch->mutex);
    enough = batch->enough;
    pthread_mutex_unlock(&batch->mutex);
  }
}

static void join_all(void) {
  batch = voice_batch(session, ROWS, 0);
  for (int i = 0; i < ROWS; i++) {
    expect_ok(iobind_batch_join(batch, NULL, &slots[i], &fault));
  }
}

static void submit(int row, int seed) {
  (void)advance(row, seed);
  expect_ok(iobind_batch_submit(batch, slots[row], &fault));
}

static void expect_states(void) {
  for (int i = 0; i < ROWS; i++) {
    voice_expect_state(batch, slots[i], &rows[i]);
  }
}

static void woken_by_the_first(void **state) {
  (void)state;
  caller server;
  join_all();
  begin(&server, step_soon);
  await_server(100);
  submit(0, 1);
  assert_int_equal(end(&server), IOBIND_OK);
  expect_ok(iobind_batch_await(batch, slots[0], 0, &fault));
  expect_states();
}

static void woken_by_the_last_of_all(void **state) {
  (void)state;
  caller server;
  join_all();
  begin(&server, step_of_many);
  for (int i = 0; i < ROWS; i++) {
    await_server(100);
    submit(i, i);
  }
  assert_int_equal(end(&server), IOBIND_OK);
  expect_states();
}

/* The first row wakes the thread, which then waits for the third one. */
static void woken_by_the_last_of_three(void **state) {
  (void)state;
  caller server;
  join_all();
  begin(&server, step_of_three);
  for (int i = 0; i < 3; i++) {
    await_server(3);
    submit(i, i);
  }
  assert_int_equal(end(&server), IOBIND_OK);
  for (int i = 0; i < 3; i++) {
    expect_ok(iobind_batch_await(batch, slots[i], 0, &fault));
  }
  expect_states();
}

/* The step of the thread that waits for fewer rows leaves none for the other, which waits on, for rows that come later. */
static void woken_one_after_the_other(void **state) {
  (void)state;
  caller small;
  caller large;
  join_all();
  begin(&large, step_of_three);
  await_server(3);
  begin(&small, step_of_two);
  await_server(2);
  submit(0, 1);
  await_server(2);
  submit(1, 2);
  assert_int_equal(end(&small), IOBIND_OK);
  for (int i = 0; i < 2; i++) {
    expect_ok(iobind_batch_await(batch, slots[i], 0, &fault));
  }
  await_server(3);
  for (int i = 0; i < 3; i++) {
    submit(i, 3 + i);
  }
  assert_int_equal(end(&large), IOBIND_OK);
  expect_states();
}

/* All rows that are left are submitted. */
static void woken_by_a_leave(void **state) {
  (void)state;
  caller server;
  join_all();
  begin(&server, step_of_three);
  await_server(3);
  submit(0, 1);
  submit(1, 2);
  await_server(3);
  expect_ok(iobind_batch_leave(batch, slots[2], NULL, &fault));
  await_server(3);
  expect_ok(iobind_batch_leave(batch, slots[3], NULL, &fault));
  assert_int_equal(end(&server), IOBIND_OK);
  for (int i = 0; i < 2; i++) {
    expect_ok(iobind_batch_await(batch, slots[i], 0, &fault));
    voice_expect_state(batch, slots[i], &rows[i]);
  }
}

/* The row that is awaited leaves. */
static void awaited_row_leaves(void **state) {
  (void)state;
  caller client;
  join_all();
  submit(0, 1);
  begin(&client, await_first);
  expect_ok(iobind_batch_leave(batch, slots[0], NULL, &fault));
  assert_int_equal(end(&client), IOBIND_ERROR_NOT_FOUND);
}

/* Its result would be that of the run. */
static void run_of_a_row_that_is_not_awaited(void **state) {
  (void)state;
  batch = voice_batch(session, ROWS, 0);
  (void)prepare(NULL);
  voice_results results = advance(0, 3);
  expect_ok(iobind_batch_submit(batch, slots[0], &fault));
  assert_int_equal(step_one(), IOBIND_OK);
  (void)advance(0, 4);
  expect(IOBIND_ERROR_INVALID_STATE, iobind_batch_run(batch, slots, 2, NULL, &fault));
  expect_words("row 0 was submitted, and its step has ended: call iobind_batch_await first");
  voice_expect_results(batch, slots[0], &results);
  expect_ok(iobind_batch_await(batch, slots[0], 0, &fault));
  expect_ok(iobind_batch_run(batch, slots, 1, NULL, &fault));
  voice_expect_state(batch, slots[0], &rows[0]);
}

#define ON(device, test) \
  { #device ": " #test, test, start, stop, #device }
#define ON_VDEV(test) ON(vdev, test)
#define ON_OTHERS(test) ON(vdev, test), ON(cpu, test)

static const struct CMUnitTest tests[] = {
    ON_VDEV(by_a_step),
    ON_VDEV(by_a_move),
    ON_VDEV(by_the_test),
    ON_OTHERS(turns_are_in_order),
    ON_OTHERS(stop_ends_waits),
    ON_VDEV(stop_during_a_step),
    ON_OTHERS(woken_by_the_first),
    ON_OTHERS(woken_by_the_last_of_all),
    ON_OTHERS(woken_by_the_last_of_three),
    ON_OTHERS(woken_one_after_the_other),
    ON_OTHERS(woken_by_a_leave),
    ON_OTHERS(awaited_row_leaves),
    ON_OTHERS(run_of_a_row_that_is_not_awaited),
};

FIXTURE_MAIN(tests, NULL, NULL);
