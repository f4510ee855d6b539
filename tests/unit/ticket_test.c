/* Tickets of both kinds of streams, from within: when they pass, how they went, what lives until then, and who has a task. On the virtual
 * accelerator, which has streams, and on the CPU, where a thread of the library does the work. */
#define _POSIX_C_SOURCE 200809L /* the barrier */
#include "fixture.h"
#include "vdev.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "memory/kind.h"
#include "stage.h"

enum { BYTES = 1000000, MANY = 3000 }; /* at 1 GB/s, 1 ms */

static iobind_stream *stream;
static bool by_ep;

/* No thread can be started while this is set. */
static bool no_threads;
__attribute__((visibility("default"))) int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                                                                 void *(*start)(void *), void *context);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *context);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *context) {
  return no_threads ? 11 : __real_pthread_create(thread, attributes, start, context);
}

/* How often threads that wait for a ticket are woken. */
static _Thread_local bool is_counted;
static atomic_size_t wakes;
static _Thread_local bool has_slept;
static atomic_size_t asleep; /* threads that have slept */
__attribute__((visibility("default"))) int __wrap_pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex);
int __real_pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex);
int __wrap_pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex) {
  atomic_fetch_add(&asleep, is_counted && !has_slept ? 1 : 0);
  has_slept = true;
  int result = __real_pthread_cond_wait(condition, mutex);
  atomic_fetch_add(&wakes, is_counted ? 1 : 0);
  return result;
}

static int start(void **state) {
  (void)stage_open(state);
  by_ep = (device->flags & IOBIND_DEVICE_STREAMS) != 0;
  if (by_ep) {
    assert_int_equal(vdev_set(0, "clock", "virtual"), 0);
    assert_int_equal(vdev_set(0, "h2d_gbps", "1"), 0);
  }
  expect_ok(iobind_stream_create(device, NULL, &stream, &fault));
  return 0;
}

static int stop(void **state) {
  iobind_stream_destroy(stream);
  return stage_close(state);
}

/* ---- a task that counts what happens to it ---- */

typedef struct counted_task {
  iobind__task task;
  pthread_barrier_t *gate; /* it waits here; NULL: it does not */
  iobind_status status;    /* what its work gives */
  int runs;                /* of its work */
  int refusals;            /* because of a failure before it */
  int destroyed;
} counted_task;

static iobind_status run_counted(iobind__task *task, const iobind_error *failure, iobind_error *error) {
  counted_task *self = (counted_task *)task;
  if (failure != NULL) {
    self->refusals++;
    return iobind__error_copy(error, failure);
  }
  if (self->gate != NULL) {
    pthread_barrier_wait(self->gate);
  }
  self->runs++;
  return self->status == IOBIND_OK ? IOBIND_OK : iobind__fail(error, self->status, "the task's own failure");
}

static void destroy_counted(iobind__task *task) {
  ((counted_task *)task)->destroyed++;
}

static counted_task make_task(iobind_status status, pthread_barrier_t *gate) {
  return (counted_task){.task = {.run = run_counted, .destroy = destroy_counted}, .status = status, .gate = gate};
}

static iobind__ticket submit(counted_task *task) {
  iobind__ticket ticket = UINT64_MAX;
  expect_ok(iobind__stream_submit(stream, &task->task, &ticket, &fault));
  return ticket;
}

/* ---- work that does not pass before the test lets it ---- */

typedef struct held_work {
  iobind__ticket ticket;
  pthread_barrier_t gate;
  counted_task task;
  iobind_tensor *from, *to;
} held_work;

static void hold(held_work *self) {
  const int64_t dims[1] = {BYTES};
  *self = (held_work){0};
  if (by_ep) { /* the virtual clock does not advance until the host waits */
    expect_ok(iobind_tensor_create(device, IOBIND_MEMORY_HOST_ACCESSIBLE, IOBIND_DTYPE_UINT8, dims, 1, &self->from, &fault));
    expect_ok(iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_UINT8, dims, 1, &self->to, &fault));
    const iobind_tensor *source = self->from;
    expect_ok(iobind_tensor_copy(&source, &self->to, 1, stream, &fault));
    self->ticket = iobind__stream_take_ticket(stream);
  } else {
    assert_int_equal(pthread_barrier_init(&self->gate, NULL, 2), 0);
    self->task = make_task(IOBIND_OK, &self->gate);
    self->ticket = submit(&self->task);
  }
}

static void let_go(held_work *self) {
  if (!by_ep) {
    pthread_barrier_wait(&self->gate);
  }
}

static void release(held_work *self) {
  expect_ok(iobind_stream_synchronize(stream, &fault));
  if (by_ep) {
    iobind_tensor_release(self->from);
    iobind_tensor_release(self->to);
  } else {
    assert_int_equal(pthread_barrier_destroy(&self->gate), 0);
  }
}

/* ---- when they pass ---- */

static void pass_in_their_order(void **state) {
  (void)state;
  held_work work;
  hold(&work);
  iobind__ticket behind = iobind__stream_take_ticket(stream);
  assert_true(behind > work.ticket && work.ticket > 0);
  assert_false(iobind__stream_passed(stream, work.ticket) || iobind__stream_passed(stream, behind));
  let_go(&work);
  expect_ok(iobind__stream_wait_ticket(stream, behind, &fault));
  assert_true(iobind__stream_passed(stream, work.ticket) && iobind__stream_passed(stream, behind));
  assert_true(iobind__stream_seen(stream, work.ticket) && iobind__stream_seen(stream, behind));
  release(&work);
}

/* What a thread has done is not seen before the caller asks, however fast it was. */
static void seen_only_when_told(void **state) {
  (void)state;
  counted_task task = make_task(IOBIND_OK, NULL);
  iobind__ticket ticket = submit(&task);
  if (by_ep) {
    assert_int_equal(ticket, 0); /* beside the stream's work */
    assert_true(iobind__stream_seen(stream, ticket));
    iobind_stream_destroy(stream); /* which ends the thread */
    expect_ok(iobind_stream_create(device, NULL, &stream, &fault));
  } else {
    while (!iobind__stream_passed(stream, ticket)) {
    }
    assert_false(iobind__stream_seen(stream, ticket));
    expect_ok(iobind__stream_wait_ticket(stream, ticket, &fault));
    assert_true(iobind__stream_seen(stream, ticket));
  }
  assert_int_equal(task.runs, 1);
  assert_int_equal(task.destroyed, 1);
}

/* ---- how they went ---- */

static void outcomes_are_kept(void **state) {
  (void)state;
  enum { GOOD, BAD, BEHIND, LATER, COUNT };
  counted_task tasks[COUNT];
  iobind__ticket tickets[COUNT];
  for (int i = 0; i < COUNT; i++) {
    tasks[i] = make_task(i == BAD ? IOBIND_ERROR_SHAPE : IOBIND_OK, NULL);
    if (i == LATER) {
      expect(IOBIND_ERROR_SHAPE, iobind_stream_synchronize(stream, &fault));
    }
    tickets[i] = submit(&tasks[i]);
  }
  expect_ok(iobind__stream_wait_ticket(stream, tickets[LATER], &fault));
  for (int asked = 0; asked < 2; asked++) {
    expect_ok(iobind__stream_outcome(stream, tickets[GOOD], &fault));
    expect(IOBIND_ERROR_SHAPE, iobind__stream_outcome(stream, tickets[BAD], &fault));
    expect_words("the task's own failure");
    expect(IOBIND_ERROR_SHAPE, iobind__stream_outcome(stream, tickets[BEHIND], &fault));
    expect_ok(iobind__stream_outcome(stream, tickets[LATER], &fault));
  }
  for (int i = 0; i < COUNT; i++) {
    assert_int_equal(tasks[i].runs, i == BEHIND ? 0 : 1);
    assert_int_equal(tasks[i].refusals, i == BEHIND ? 1 : 0);
    assert_int_equal(tasks[i].destroyed, 1);
  }
}

/* A failure that has been reported is not that of later work, not even of a point. */
static void nothing_is_left_of_a_failure(void **state) {
  (void)state;
  counted_task bad = make_task(IOBIND_ERROR_SHAPE, NULL);
  iobind_event *event;
  expect_ok(iobind_event_create(device, &event, &fault));
  submit(&bad);
  expect_ok(iobind_event_record(event, stream, &fault));
  expect(IOBIND_ERROR_SHAPE, iobind_event_wait(event, IOBIND_NO_TIMEOUT, &fault));
  expect(IOBIND_ERROR_SHAPE, iobind_stream_synchronize(stream, &fault));
  expect(IOBIND_ERROR_SHAPE, iobind_event_wait(event, IOBIND_NO_TIMEOUT, &fault)); /* it is of then */
  expect_ok(iobind_event_record(event, stream, &fault));
  expect_ok(iobind_event_wait(event, IOBIND_NO_TIMEOUT, &fault));
  expect_ok(iobind_stream_synchronize(stream, &fault));
  assert_false(iobind__stream_is_busy(stream));
  iobind_event_destroy(event);
}

/* ---- what lives until then ---- */

typedef struct counted_object {
  iobind__ref ref;
  int *destroyed;
} counted_object;

static void destroy_object(iobind__ref *ref) {
  counted_object *self = (counted_object *)ref;
  ++*self->destroyed;
  free(self);
}

static iobind__ref *make_object(int *destroyed) {
  counted_object *self = calloc(1, sizeof *self);
  assert_non_null(self);
  iobind__ref_init(&self->ref, destroy_object);
  self->destroyed = destroyed;
  return &self->ref;
}

static void references_live_until_the_ticket_has_passed(void **state) {
  (void)state;
  int destroyed = 0;
  held_work work;
  iobind__ref *kept = make_object(&destroyed);
  iobind__ref_retain(kept); /* one reference is the test's */
  hold(&work);
  iobind__stream_retire(stream, work.ticket, make_object(&destroyed));
  iobind__stream_retire(stream, work.ticket, kept);
  assert_int_equal(destroyed, 0);
  let_go(&work);
  expect_ok(iobind__stream_wait_ticket(stream, work.ticket, &fault));
  assert_int_equal(destroyed, 1);
  iobind__ref_release(kept);
  assert_int_equal(destroyed, 2);
  iobind__stream_retire(stream, work.ticket, make_object(&destroyed)); /* it is complete already */
  assert_int_equal(destroyed, 3);
  release(&work);
}

/* A caller that never waits is made to before the list grows without end. */
static void not_too_many_wait(void **state) {
  (void)state;
  int destroyed = 0;
  held_work work;
  for (int i = 0; i < MANY; i++) {
    if (i % (MANY / 2) == 0) {
      hold(&work);
      let_go(&work);
    }
    iobind__stream_retire(stream, iobind__stream_take_ticket(stream), make_object(&destroyed));
    if (i % (MANY / 2) == MANY / 2 - 1) {
      release(&work);
      assert_int_equal(destroyed, i + 1);
    } else {
      assert_true(!by_ep || i + 1 - destroyed <= 1024);
    }
  }
}

/* ---- a point beside another thread's work ---- */

static iobind_tensor *from_beside;
static iobind_tensor *to_beside;
static iobind__ticket ticket_beside;

/* Another thread has submitted a copy by the time the point gets its ticket. */
static iobind__ticket take_behind_a_copy(iobind_stream *of) {
  const iobind_tensor *from = from_beside;
  of->kind = &iobind__ep_stream;
  expect_ok(iobind_tensor_copy(&from, &to_beside, 1, of, &fault));
  ticket_beside = iobind__stream_take_ticket(of);
  return iobind__stream_take_ticket(of);
}

/* By a wait for the point all passes that has a lower ticket: it must have. */
static void what_has_a_lower_ticket_is_before_the_point(void **state) {
  (void)state;
  const int64_t dims[1] = {BYTES};
  iobind__stream_kind kind = iobind__ep_stream;
  iobind_event *event;
  void *arrived;
  static unsigned char written[BYTES];
  memset(written, 7, sizeof written);
  kind.take_ticket = take_behind_a_copy;
  assert_int_equal(vdev_set(0, "clock", "real"), 0); /* the virtual one moves bytes before their time */
  expect_ok(iobind_event_create(device, &event, &fault));
  expect_ok(iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_UINT8, dims, 1, &from_beside, &fault));
  expect_ok(iobind_tensor_create(device, IOBIND_MEMORY_HOST_ACCESSIBLE, IOBIND_DTYPE_UINT8, dims, 1, &to_beside, &fault));
  expect_ok(iobind_tensor_map(to_beside, IOBIND_DTYPE_UINT8, IOBIND_ACCESS_WRITE, &arrived, &fault));
  expect_ok(iobind_tensor_write(from_beside, 0, written, sizeof written, NULL, &fault));
  memset(arrived, 0, sizeof written);
  assert_int_equal(vdev_set(0, "delay_copy", "every:1,us:20000"), 0);
  stream->kind = &kind;
  expect_ok(iobind_event_record(event, stream, &fault));
  expect_ok(iobind_event_wait(event, IOBIND_NO_TIMEOUT, &fault));
  assert_int_equal(vdev_set(0, "delay_copy", "0"), 0);
  assert_true(iobind__stream_passed(stream, ticket_beside));
  assert_memory_equal(arrived, written, sizeof written);
  iobind_event_destroy(event);
  iobind_tensor_release(from_beside);
  iobind_tensor_release(to_beside);
}

/* ---- who has a task ---- */

static void no_thread_for_a_task(void **state) {
  (void)state;
  counted_task task = make_task(IOBIND_OK, NULL);
  no_threads = true;
  expect(IOBIND_ERROR_OUT_OF_MEMORY, iobind__stream_submit(stream, &task.task, NULL, &fault));
  no_threads = false;
  assert_int_equal(task.runs + task.refusals + task.destroyed, 0); /* it is the caller's */
  submit(&task);
  iobind_stream_destroy(stream);
  expect_ok(iobind_stream_create(device, NULL, &stream, &fault));
  assert_int_equal(task.runs, 1);
  assert_int_equal(task.destroyed, 1);
}

/* Another thread may query an event of a destroyed stream: the task is run nevertheless, and is never the caller's, even if it
 * fails. */
static void task_of_a_stream_that_is_gone(void **state) {
  (void)state;
  for (int bad = 0; bad < 2; bad++) {
    iobind_stream *gone;
    iobind__ticket ticket = UINT64_MAX;
    counted_task task = make_task(bad ? IOBIND_ERROR_SHAPE : IOBIND_OK, NULL);
    expect_ok(iobind_stream_create(device, NULL, &gone, &fault));
    iobind__ref_retain(&gone->ref);
    iobind_stream_destroy(gone);
    expect_ok(iobind__stream_submit(gone, &task.task, &ticket, &fault));
    assert_true(iobind__stream_passed(gone, ticket));
    assert_int_equal(task.runs, 1);
    assert_int_equal(task.destroyed, 1);
    iobind__ref_release(&gone->ref);
  }
}

/* ---- many threads that wait ---- */

enum { SLEEPERS = 16 };

typedef struct sleeper {
  pthread_t thread;
  iobind__ticket ticket;
  iobind_status status;
} sleeper;

static void *sleep_until_it_has_passed(void *context) {
  sleeper *self = context;
  is_counted = true;
  self->status = iobind__stream_wait_ticket(stream, self->ticket, NULL);
  return NULL;
}

static size_t count_sleepers(void) {
  size_t count = 0;
  pthread_mutex_lock(&stream->timeline.mutex);
  for (const iobind__sleeper *one = stream->timeline.sleepers; one != NULL; one = one->next) {
    count++;
  }
  pthread_mutex_unlock(&stream->timeline.mutex);
  return count;
}

/* A task that ends wakes the thread that waits for it, and no other; a task that is submitted wakes none. Any condition may wake a thread for
 * nothing, but not each time. */
static void each_thread_is_woken_once(void **state) {
  (void)state;
  sleeper sleepers[SLEEPERS];
  counted_task tasks[SLEEPERS];
  pthread_barrier_t gate;
  assert_int_equal(pthread_barrier_init(&gate, NULL, 2), 0);
  atomic_store(&wakes, 0);
  for (size_t i = 0; i < SLEEPERS; i++) {
    tasks[i] = make_task(IOBIND_OK, &gate);
    expect_ok(iobind__stream_submit(stream, &tasks[i].task, &sleepers[i].ticket, &fault));
    assert_int_equal(pthread_create(&sleepers[i].thread, NULL, sleep_until_it_has_passed, &sleepers[i]), 0);
    while (count_sleepers() <= i) {
      sched_yield();
    }
  }
  for (size_t i = 0; i < SLEEPERS; i++) {
    pthread_barrier_wait(&gate);
    assert_int_equal(pthread_join(sleepers[i].thread, NULL), 0);
    assert_int_equal(sleepers[i].status, IOBIND_OK);
    assert_int_equal(count_sleepers(), SLEEPERS - 1 - i);
  }
  assert_in_range(atomic_load(&wakes), SLEEPERS, 2 * SLEEPERS);
  pthread_barrier_destroy(&gate);
}

/* Threads that arrive while another one captures a graph: each sleeps until the gate is open, and no later one wakes it. */
static void *pass_the_gate(void *context) {
  (void)context;
  is_counted = true;
  iobind__gate_enter();
  iobind__gate_leave();
  return NULL;
}

static void each_thread_outside_is_woken_once(void **state) {
  (void)state;
  static const iobind__guard guard = {.gated = true};
  pthread_t threads[SLEEPERS];
  iobind__scope scope;
  atomic_store(&asleep, 0);
  atomic_store(&wakes, 0);
  expect_ok(iobind__guard_enter_alone(&guard, &scope, &fault));
  for (size_t i = 0; i < SLEEPERS; i++) {
    assert_int_equal(pthread_create(&threads[i], NULL, pass_the_gate, NULL), 0);
    while (atomic_load(&asleep) <= i) {
      sched_yield();
    }
  }
  iobind__guard_leave_alone(&scope);
  for (size_t i = 0; i < SLEEPERS; i++) {
    assert_int_equal(pthread_join(threads[i], NULL), 0);
  }
  assert_in_range(atomic_load(&wakes), SLEEPERS, 2 * SLEEPERS);
}

/* ---- copies of many pairs ---- */

enum { PAIRS = 150, CHAIN = 70 }; /* more than the library copies together */

/* Between the host and the device, and within each. Pair CHAIN reads what the first one writes. */
static void many_pairs(void **state) {
  (void)state;
  iobind_tensor *sources[PAIRS];
  iobind_tensor *targets[PAIRS];
  for (int i = 0; i < PAIRS; i++) {
    const float values[2] = {(float)i, 1};
    sources[i] = i == CHAIN ? iobind_tensor_retain(targets[0]) : fixture_floats(i % 3 == 0 ? cpu : device, values, 2);
    targets[i] = fixture_floats(i % 2 == 0 ? cpu : device, NULL, 2);
  }
  expect_ok(iobind_tensor_copy((const iobind_tensor *const *)sources, targets, PAIRS, NULL, &fault));
  for (int i = 0; i < PAIRS; i++) {
    const float expected[2] = {i == CHAIN ? 0 : (float)i, 1};
    fixture_expect_floats(targets[i], expected, 2);
  }
  for (int i = 0; i < PAIRS; i++) {
    iobind_tensor_release(sources[i]);
    iobind_tensor_release(targets[i]);
  }
}

/* The host copies between pinned and other host memory itself, after one wait for the stream: each wait has a ticket, and so has each
 * pair's use of its two tensors. */
static void one_wait_for_all_copies_of_the_host(void **state) {
  (void)state;
  enum { COPIES = 20 };
  static const int64_t dims[1] = {4};
  iobind_tensor *sources[COPIES];
  iobind_tensor *targets[COPIES];
  for (int i = 0; i < COPIES; i++) {
    expect_ok(iobind_tensor_create(device, IOBIND_MEMORY_HOST_ACCESSIBLE, IOBIND_DTYPE_FLOAT32, dims, 1, &sources[i], &fault));
    targets[i] = fixture_floats(cpu, NULL, 4);
  }
  const iobind__ticket before = atomic_load(&stream->timeline.submitted);
  expect_ok(iobind_tensor_copy((const iobind_tensor *const *)sources, targets, COPIES, stream, &fault));
  assert_int_equal(atomic_load(&stream->timeline.submitted) - before, 1 + 2 * COPIES);
  for (int i = 0; i < COPIES; i++) {
    iobind_tensor_release(sources[i]);
    iobind_tensor_release(targets[i]);
  }
}

/* A thread that registers an EP's library holds the runtime's mutex, for seconds: work on tensors goes on. */
static void work_while_a_library_loads(void **state) {
  (void)state;
  static const float values[4] = {1, 2, 3, 4};
  float got[4] = {0};
  iobind_tensor *tensor = fixture_floats(device, NULL, 4);
  pthread_mutex_lock(&runtime->mutex);
  expect_ok(iobind_tensor_write(tensor, 0, values, sizeof values, stream, &fault));
  expect_ok(iobind_tensor_read(tensor, 0, got, sizeof got, NULL, &fault));
  pthread_mutex_unlock(&runtime->mutex);
  assert_memory_equal(got, values, sizeof values);
  iobind_tensor_release(tensor);
}

#define ON(device, test) \
  { #device ": " #test, test, start, stop, #device }
#define ON_BOTH(test) ON(vdev, test), ON(cpu, test)

static const struct CMUnitTest tests[] = {
    ON_BOTH(pass_in_their_order),
    ON_BOTH(seen_only_when_told),
    ON(cpu, outcomes_are_kept),
    ON(cpu, nothing_is_left_of_a_failure),
    ON_BOTH(references_live_until_the_ticket_has_passed),
    ON_BOTH(not_too_many_wait),
    ON(vdev, what_has_a_lower_ticket_is_before_the_point),
    ON_BOTH(no_thread_for_a_task),
    ON_BOTH(task_of_a_stream_that_is_gone),
    ON(cpu, each_thread_is_woken_once),
    ON(cpu, each_thread_outside_is_woken_once),
    ON_BOTH(many_pairs),
    ON_BOTH(work_while_a_library_loads),
    ON(vdev, one_wait_for_all_copies_of_the_host),
};

FIXTURE_MAIN(tests, NULL, NULL);
