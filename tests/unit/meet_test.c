/* Threads that meet at a stream, or at an item of a pipeline. What another thread does in between is done here by hand where it can be, in a
 * function of the test's that the library calls at that place: so each meeting happens in every run. On the virtual accelerator. */
#define _POSIX_C_SOURCE 200809L /* barriers, nanosleep */
#include "fixture.h"
#include "vdev.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "memory/kind.h"
#include "support/system.h"
#include "../rig/calls.h"
#include "stage.h"

enum { BYTES = 100000, UNTOUCHED = 0xEE };

static iobind_stream *stream;
static iobind_tensor *x, *y, *z;
static unsigned char bytes[BYTES];

/* ---- threads that wait for each other ---- */

typedef struct flag {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  bool up;
} flag;

static void lower(flag *self) {
  pthread_mutex_init(&self->mutex, NULL);
  iobind__condition_init(&self->changed);
  self->up = false;
}

static void raise_flag(flag *self) {
  pthread_mutex_lock(&self->mutex);
  self->up = true;
  pthread_cond_broadcast(&self->changed);
  pthread_mutex_unlock(&self->mutex);
}

static void await(flag *self, uint64_t until) {
  bool in_time = true;
  pthread_mutex_lock(&self->mutex);
  while (in_time && !self->up) {
    in_time = iobind__condition_wait(&self->changed, &self->mutex, until);
  }
  pthread_mutex_unlock(&self->mutex);
}

/* ---- threads that signal their end, while `tells_end` is set ---- */

typedef struct told_thread {
  void *(*start)(void *context);
  void *context;
} told_thread;

static bool tells_end;
static flag ended;

static void *run_and_tell(void *context) {
  told_thread self = *(told_thread *)context;
  free(context);
  void *result = self.start(self.context);
  raise_flag(&ended);
  return result;
}

/* How many threads can still be started, each late; -1: any number. */
static int late_threads = -1;

static void *run_late(void *context) {
  const struct timespec moment = {.tv_nsec = 20000000};
  told_thread self = *(told_thread *)context;
  free(context);
  nanosleep(&moment, NULL);
  return self.start(self.context);
}

__attribute__((visibility("default"))) int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                                                                 void *(*start)(void *), void *context);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *context);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *context) {
  if (!tells_end && late_threads < 0) {
    return __real_pthread_create(thread, attributes, start, context);
  }
  if (late_threads == 0) {
    return EAGAIN;
  }
  late_threads -= late_threads > 0;
  told_thread *told = malloc(sizeof *told);
  assert_non_null(told);
  *told = (told_thread){start, context};
  return __real_pthread_create(thread, attributes, tells_end ? run_and_tell : run_late, told);
}

/* ---- setup ---- */

static iobind_tensor *make(void) {
  const int64_t dims[1] = {BYTES};
  iobind_tensor *tensor;
  expect_ok(iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_UINT8, dims, 1, &tensor, &fault));
  return tensor;
}

static int start(void **state) {
  (void)stage_open(state);
  device = fixture_device(runtime, "vdev");
  expect_ok(iobind_stream_create(device, NULL, &stream, &fault));
  x = make();
  y = make();
  z = make();
  return 0;
}

static int stop(void **state) {
  iobind_tensor_release(x);
  iobind_tensor_release(y);
  iobind_tensor_release(z);
  iobind_stream_destroy(stream);
  return stage_close(state);
}

static void fill(iobind_tensor *tensor, int byte, iobind_stream *on) {
  static unsigned char sources[2][BYTES]; /* one of them is still being written from */
  static int turn;
  unsigned char *source = sources[turn++ % 2];
  memset(source, byte, BYTES);
  expect_ok(iobind_tensor_write(tensor, 0, source, BYTES, on, &fault));
}

static void expect_content(iobind_tensor *tensor, int byte) {
  expect_ok(iobind_tensor_read(tensor, 0, bytes, BYTES, NULL, &fault));
  for (size_t i = 0; i < BYTES; i++) {
    assert_int_equal(bytes[i], byte);
  }
}

static void copy(const iobind_tensor *from, iobind_tensor *to) {
  expect_ok(iobind_tensor_copy(&from, &to, 1, stream, &fault));
}

static iobind_event *record(void) {
  iobind_event *event;
  expect_ok(iobind_event_create(device, &event, &fault));
  expect_ok(iobind_event_record(event, stream, &fault));
  return event;
}

/* ---- two threads that submit: sessions share a stream, and the caller uses it, too ---- */

static iobind__ticket take_behind_a_write(iobind_stream *of) {
  of->kind = &iobind__ep_stream;
  fill(y, 2, of);
  return iobind__stream_take_ticket(of);
}

/* The copy that uses a buffer has been submitted, but the buffer does not know its ticket yet. */
static void a_buffer_is_one_threads(void **state) {
  (void)state;
  iobind__stream_kind kind = iobind__ep_stream;
  kind.take_ticket = take_behind_a_write;
  assert_int_equal(vdev_set(0, "delay_copy", "every:1,us:20000"), 0);
  stream->kind = &kind;
  fill(x, 1, stream);
  expect_ok(iobind_stream_synchronize(stream, &fault));
  assert_int_equal(vdev_set(0, "delay_copy", "0"), 0);
  expect_content(x, 1);
  expect_content(y, 2);
}

static iobind__ticket take_what_has_passed(iobind_stream *of) {
  iobind__ticket ticket = iobind__ep_stream.take_ticket(of);
  (void)iobind__ticket_raise(&of->timeline.passed, ticket);
  return ticket;
}

/* On DirectML a wait of another thread may end with a read's own ticket before it is noted where the bytes go. */
static void a_buffer_is_free_when_its_bytes_have_arrived(void **state) {
  (void)state;
  static unsigned char others[BYTES];
  iobind__stream_kind kind = iobind__ep_stream;
  fill(x, 1, NULL);
  fill(y, 2, NULL);
  kind.take_ticket = take_what_has_passed;
  stream->kind = &kind;
  expect_ok(iobind_tensor_read(x, 0, bytes, sizeof bytes, stream, &fault));
  expect_ok(iobind_tensor_read(y, 0, others, sizeof others, stream, &fault));
  stream->kind = &iobind__ep_stream;
  expect_ok(iobind_stream_synchronize(stream, &fault));
  assert_int_equal(bytes[0], 1);
  assert_int_equal(others[0], 2);
}

static iobind_event *event_between;

static iobind__ticket take_before_a_copy(iobind_stream *of) {
  iobind__ticket ticket = iobind__ep_stream.take_ticket(of);
  of->kind = &iobind__ep_stream;
  event_between = record();
  copy(x, z);
  return ticket;
}

static size_t allocated(void) {
  iobind_device_counters counters = IOBIND_DEVICE_COUNTERS_INIT;
  expect_ok(iobind_device_get_counters(device, &counters, &fault));
  return counters.allocated_bytes;
}

/* A tensor's ticket on a stream is that of its last use, also if the thread of an earlier one writes its own later. */
static void the_last_use_counts(void **state) {
  (void)state;
  iobind__stream_kind kind = iobind__ep_stream;
  kind.take_ticket = take_before_a_copy;
  stream->kind = &kind;
  copy(x, y);
  const size_t before = allocated();
  expect_ok(iobind_event_wait(event_between, IOBIND_NO_TIMEOUT, &fault));
  iobind_tensor_release(x);
  x = NULL;
  assert_int_equal(allocated(), before); /* the stream still copies from it, as far as the host knows */
  expect_ok(iobind_stream_synchronize(stream, &fault));
  assert_int_equal(allocated(), before - BYTES);
  iobind_event_destroy(event_between);
}

/* ---- failures ---- */

static const uint64_t second = 1000000000;
static OrtStatus *(ORT_CALL *wait_on_host)(OrtSyncNotificationImpl *self);
static flag told, heard;
static iobind_event *earlier;

/* The EP reports the failure, and this thread records it only later. */
static OrtStatus *ORT_CALL wait_and_linger(OrtSyncNotificationImpl *self) {
  OrtStatus *status = wait_on_host(self);
  raise_flag(&told);
  await(&heard, iobind__clock_ns() + second);
  return status;
}

static OrtStatus *ORT_CALL wait_behind_another(OrtSyncNotificationImpl *self) {
  expect_ok(iobind_event_wait(earlier, IOBIND_NO_TIMEOUT, &fault));
  return wait_on_host(self);
}

static void hook(iobind_event *event, OrtStatus *(ORT_CALL *with)(OrtSyncNotificationImpl *self)) {
  wait_on_host = event->point->notification->WaitOnHost;
  event->point->notification->WaitOnHost = with;
}

static iobind_session *lookup;
static iobind_binding *missing;

/* A run that fails when the stream reaches it, which a copy delays. */
static void run_and_fail(void) {
  static const int64_t one = 1;
  const int64_t row = 99;
  iobind_tensor *index;
  lookup = fixture_session(runtime, device, "lookup");
  expect_ok(iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_INT64, &one, 1, &index, &fault));
  expect_ok(iobind_tensor_write(index, 0, &row, sizeof row, NULL, &fault));
  expect_ok(iobind_binding_create(lookup, &missing, &fault));
  expect_ok(iobind_binding_set_input(missing, 0, IOBIND_INPUT_RESIDENT, index, NULL, &fault));
  iobind_tensor_release(index);
  assert_int_equal(vdev_set(0, "delay_copy", "1,us:200000"), 0);
  copy(y, z);
  expect_ok(iobind_binding_run(missing, stream, &fault));
}

static void end_run(void) {
  iobind_binding_destroy(missing);
  iobind_session_destroy(lookup);
}

static void *wait_for_event(void *event) {
  return (void *)(intptr_t)iobind_event_wait(event, IOBIND_NO_TIMEOUT, NULL);
}

/* An EP reports a failure once. The thread that gets it may not have recorded it when another one waits for the stream, and data that was read
 * must not be delivered there. */
static void a_failure_that_another_thread_was_told(void **state) {
  (void)state;
  pthread_t thread;
  void *status = NULL;
  lower(&told);
  lower(&heard);
  memset(bytes, UNTOUCHED, sizeof bytes);
  run_and_fail();
  expect_ok(iobind_tensor_read(x, 0, bytes, sizeof bytes, stream, &fault));
  iobind_event *event = record();
  hook(event, wait_and_linger);
  assert_int_equal(pthread_create(&thread, NULL, wait_for_event, event), 0);
  await(&told, UINT64_MAX);
  iobind_status beside = iobind_stream_synchronize(stream, NULL);
  raise_flag(&heard);
  assert_int_equal(pthread_join(thread, &status), 0);
  assert_int_equal((intptr_t)status, IOBIND_ERROR_RUNTIME);
  assert_int_equal(beside, IOBIND_ERROR_RUNTIME);
  assert_int_equal(bytes[0], UNTOUCHED);
  iobind_event_destroy(event);
  end_run();
}

/* While one thread waits for work that fails, another gets the completion of earlier work. */
static void a_failure_is_not_that_of_what_has_passed(void **state) {
  (void)state;
  copy(x, y);
  earlier = record();
  run_and_fail();
  iobind_event *event = record();
  hook(event, wait_behind_another);
  expect(IOBIND_ERROR_RUNTIME, iobind_event_wait(event, IOBIND_NO_TIMEOUT, &fault));
  expect_ok(iobind_event_wait(earlier, IOBIND_NO_TIMEOUT, &fault));
  expect(IOBIND_ERROR_RUNTIME, iobind_stream_synchronize(stream, &fault));
  iobind_event_destroy(event);
  iobind_event_destroy(earlier);
  end_run();
}

static const iobind_error reason = {.struct_size = sizeof reason, .status = IOBIND_ERROR_RUNTIME, .message = "it failed"};

static void *fail_first(void *context) {
  (void)context;
  iobind__stream_fail(stream, 0, 1, &reason);
  return NULL;
}

/* Two threads get two failures at once. */
static void failures_are_in_the_order_of_tickets(void **state) {
  (void)state;
  const struct timespec moment = {.tv_nsec = 20000000};
  pthread_t thread;
  assert_int_equal(iobind__stream_take_ticket(stream), 1);
  pthread_mutex_lock(&stream->timeline.mutex);
  assert_int_equal(pthread_create(&thread, NULL, fail_first, NULL), 0);
  nanosleep(&moment, NULL); /* it waits for the mutex */
  const iobind__ticket last = iobind__stream_take_ticket(stream);
  iobind__stream_add_failure(stream, last, last, &reason);
  pthread_mutex_unlock(&stream->timeline.mutex);
  assert_int_equal(pthread_join(thread, NULL), 0);
  expect(IOBIND_ERROR_RUNTIME, iobind__stream_outcome(stream, 1, &fault));
  expect(IOBIND_ERROR_RUNTIME, iobind__stream_outcome(stream, last, &fault));
  expect(IOBIND_ERROR_RUNTIME, iobind_stream_synchronize(stream, &fault));
}

/* ---- the end of a stream with several owners: the caller, and sessions that compute on it ---- */

static pthread_barrier_t barrier;

static void *give_up(void *shared) {
  pthread_barrier_wait(&barrier);
  iobind_stream_destroy(shared);
  return NULL;
}

static void owners_end_at_once(void **state) {
  enum { ROUNDS = 200 };
  (void)state;
  assert_int_equal(pthread_barrier_init(&barrier, NULL, 2), 0);
  for (int i = 0; i < ROUNDS; i++) {
    iobind_stream *shared;
    pthread_t thread;
    expect_ok(iobind_stream_create(device, NULL, &shared, &fault));
    assert_int_equal(pthread_create(&thread, NULL, give_up, iobind__stream_share(shared)), 0);
    give_up(shared);
    assert_int_equal(pthread_join(thread, NULL), 0);
  }
  assert_int_equal(pthread_barrier_destroy(&barrier), 0);
}

typedef struct held_object {
  iobind__ref ref;
  iobind_stream *owned; /* NULL: none */
} held_object;

static flag reached, goes_on;

static void destroy_held(iobind__ref *ref) {
  held_object *self = (held_object *)ref;
  if (self->owned == NULL) {
    raise_flag(&reached);
    await(&goes_on, UINT64_MAX);
  }
  iobind_stream_destroy(self->owned);
  free(self);
}

static iobind__ref *hold(iobind_stream *owned) {
  held_object *self = calloc(1, sizeof *self);
  assert_non_null(self);
  iobind__ref_init(&self->ref, destroy_held);
  self->owned = owned;
  return &self->ref;
}

/* The thread of a stream waits for an event, and so lets go what the stream has held: a binding, with it the last session that computes there, and
 * with that the stream. */
static void the_last_owner_is_let_go_by_the_streams_thread(void **state) {
  (void)state;
  iobind_stream *shared;
  int32_t done = 0;
  lower(&ended);
  lower(&reached);
  lower(&goes_on);
  expect_ok(iobind_stream_create(device, NULL, &shared, &fault));
  iobind__ticket ticket = iobind__stream_take_ticket(shared);
  iobind__stream_retire(shared, ticket, hold(NULL));
  iobind__stream_retire(shared, ticket, hold(iobind__stream_share(shared)));
  iobind_event *event;
  expect_ok(iobind_event_create(device, &event, &fault));
  expect_ok(iobind_event_record(event, shared, &fault));
  tells_end = true;
  expect_ok(iobind_event_query(event, &done, &fault));
  tells_end = false;
  await(&reached, UINT64_MAX);
  iobind_event_destroy(event);
  iobind_stream_destroy(shared); /* there is nothing to wait for */
  raise_flag(&goes_on);
  await(&ended, UINT64_MAX);
}

/* ---- a pipeline's stages ---- */

/* A stage is still at work when the caller finds that there is no thread for the next one. The item has the failure of the first. */
static void a_stage_that_cannot_start(void **state) {
  (void)state;
  const int64_t one = 1;
  const int64_t row = 99;
  for (int threads = 0; threads <= 2; threads++) {
    iobind_session *session = fixture_session(runtime, cpu, "lookup");
    iobind_pipeline *pipeline;
    iobind_tensor *index;
    iobind_tensor *output;
    iobind_pipeline_item item = IOBIND_PIPELINE_ITEM_INIT;
    expect_ok(call_pipeline_create(session, NULL, &pipeline, &fault));
    expect_ok(iobind_tensor_create(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_INT64, &one, 1, &index, &fault));
    expect_ok(iobind_tensor_write(index, 0, &row, sizeof row, NULL, &fault));
    late_threads = threads;
    expect_ok(call_pipeline_submit(pipeline, &index, 1, &fault));
    late_threads = -1;
    expect(threads == 0 ? IOBIND_ERROR_OUT_OF_MEMORY : IOBIND_ERROR_RUNTIME,
           iobind_pipeline_next(pipeline, IOBIND_NO_TIMEOUT, &output, 1, &item, &fault));
    iobind_tensor_release(index);
    iobind_pipeline_destroy(pipeline);
    iobind_session_destroy(session);
  }
}

#define ON_VDEV(test) \
  { #test, test, start, stop, NULL }

static const struct CMUnitTest tests[] = {
    ON_VDEV(a_buffer_is_one_threads),
    ON_VDEV(a_buffer_is_free_when_its_bytes_have_arrived),
    ON_VDEV(the_last_use_counts),
    ON_VDEV(a_failure_that_another_thread_was_told),
    ON_VDEV(a_failure_is_not_that_of_what_has_passed),
    ON_VDEV(failures_are_in_the_order_of_tickets),
    ON_VDEV(owners_end_at_once),
    ON_VDEV(the_last_owner_is_let_go_by_the_streams_thread),
    ON_VDEV(a_stage_that_cannot_start),
};

FIXTURE_MAIN(tests, NULL, NULL);
