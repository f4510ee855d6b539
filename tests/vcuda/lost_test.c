/* A lost GPU: a failure on the device is permanent. All work in flight fails with that status, no call blocks, later work is refused,
 * all objects can be destroyed, and the other GPU works. The fuzzer of bindings loses devices in more ways; async/late_test.c does in
 * each call that waits. */
#define _POSIX_C_SOURCE 200809L /* nanosleep */
#include "replay.h"

#define LOST(call) expect(IOBIND_ERROR_DEVICE_LOST, call)

static int stop_one(void **state) {
  int result = stop(state);
  assert_int_equal(vcuda_set(0, "fail_compute", "0"), 0);
  (void)vcuda_recover(0);
  (void)cudaGetLastError();
  return result;
}

static void expect_the_other_gpu_to_work(void) {
  iobind_device *lost = device;
  device = fixture_device(runtime, "cuda:1");
  iobind_session *session = make_session("scale", 0, NULL);
  doubler good = make_captured(session);
  free_doubler(&good);
  iobind_session_destroy(session);
  device = lost;
}

/* All new work on the device is refused with the reason. The other device is unaffected. */
static void expect_refusals(iobind_session *of, const doubler *d) {
  static const int64_t dim = COUNT;
  float values[COUNT] = {0};
  const iobind_tensor *from = d->x;
  iobind_tensor *made = NULL;
  iobind_tensor *results[1] = {NULL};
  iobind_stream *stream = NULL;
  iobind_session *session = NULL;
  LOST(iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, &dim, 1, &made, &fault));
  expect_words("'cuda:0' is lost");
  LOST(iobind_tensor_read(d->y, 0, values, sizeof values, NULL, &fault));
  LOST(iobind_tensor_write(d->x, 0, values, sizeof values, NULL, &fault));
  LOST(iobind_tensor_copy(&from, (iobind_tensor *const *)&d->y, 1, NULL, &fault));
  LOST(iobind_stream_create(device, NULL, &stream, &fault));
  LOST(iobind_binding_run(d->binding, NULL, &fault));
  LOST(call_session_run(of, (iobind_tensor *const *)&d->x, results, &fault));
  LOST(try_session("scale", 0, NULL, &session));
  expect_the_other_gpu_to_work();
}

/* After a refused copy the caller may write the host memory that was the source. */
static void expect_free(iobind_tensor *pinned, const doubler *d, iobind_stream *stream) {
  const iobind_tensor *from = pinned;
  LOST(iobind_tensor_copy(&from, (iobind_tensor *const *)&d->x, 1, stream, &fault));
  fill(pinned, 5);
}

/* The kernel of a run on a stream fails long after the call has returned. */
static void a_run_that_fails_late(void **state) {
  (void)state;
  gate g;
  iobind_tensor *y = NULL;
  float untouched[COUNT] = {1, 2, 3, 4};
  static const float before[COUNT] = {1, 2, 3, 4};
  iobind_session *session = make_session("scale", 0, NULL);
  doubler d = make_doubler(session);
  iobind_session *apart = make_session("scale", 0, NULL);
  doubler beside = make_doubler(apart);
  iobind_stream *stream = make_stream();
  iobind_stream *second = make_stream();
  iobind_event *event = make_event();
  iobind_event *later = make_event();
  iobind_tensor *pinned = make_tensor(IOBIND_MEMORY_HOST_ACCESSIBLE, COUNT);
  close_gate(&g, stream);
  assert_int_equal(vcuda_set(0, "fail_compute", LATE_KERNEL), 0);
  expect_ok(call_binding_run(d.binding, stream, event, &fault));
  expect_ok(iobind_tensor_read(d.y, 0, untouched, sizeof untouched, stream, &fault));
  expect_ok(iobind_stream_wait(second, event, &fault));
  expect_ok(call_binding_run(beside.binding, second, later, &fault)); /* after the one that fails */
  open_gate(&g);
  LOST(iobind_event_wait(event, IOBIND_NO_TIMEOUT, &fault));
  (void)vcuda_recover(0); /* hardware cannot do this: memory could be read again */
  LOST(iobind_event_wait(event, IOBIND_NO_TIMEOUT, &fault));
  LOST(iobind_event_wait(later, IOBIND_NO_TIMEOUT, &fault));
  LOST(iobind_binding_get_output(d.binding, 0, NULL, &y, &fault));
  LOST(iobind_binding_get_output(beside.binding, 0, NULL, &y, &fault));
  LOST(iobind_stream_synchronize(stream, &fault));
  LOST(iobind_stream_synchronize(second, &fault));
  LOST(iobind_event_record(event, stream, &fault));
  assert_memory_equal(untouched, before, sizeof before);   /* a failed read writes nothing */
  expect_ok(iobind_binding_clear(beside.binding, &fault)); /* allowed: no run is in flight */
  expect_refusals(session, &d);
  expect_free(pinned, &d, stream);
  iobind_tensor_release(pinned);
  iobind_event_destroy(event);
  iobind_event_destroy(later);
  iobind_stream_destroy(stream);
  iobind_stream_destroy(second);
  free_doubler(&d);
  free_doubler(&beside);
  iobind_session_destroy(session);
  iobind_session_destroy(apart);
}

typedef struct waiting {
  pthread_t thread;
  gate gate;
  iobind_session *session;
  iobind_stream *stream;
  iobind_event *event;
  iobind_tensor *pinned;
  iobind_status status;
  doubler d;
} waiting;

static void *wait_for_event(void *context) {
  waiting *self = context;
  self->status = iobind_event_wait(self->event, IOBIND_NO_TIMEOUT, NULL);
  return NULL;
}

/* The first run allocates, and so waits for the device. It is made here, before the gates are closed. */
static waiting make_waiting(void) {
  waiting made = {.session = make_session("scale", 0, NULL), .stream = make_stream(), .event = make_event()};
  made.pinned = make_tensor(IOBIND_MEMORY_HOST_ACCESSIBLE, COUNT);
  made.d = make_doubler(made.session);
  expect_ok(iobind_binding_run(made.d.binding, made.stream, &fault));
  expect_ok(iobind_stream_synchronize(made.stream, &fault));
  return made;
}

/* The device is still lost. iobind must not let the EP free the pinned memory now, which would end the process. */
static void free_waiting(waiting *self) {
  iobind_tensor_release(self->pinned);
  iobind_event_destroy(self->event);
  iobind_stream_destroy(self->stream);
  free_doubler(&self->d);
  iobind_session_destroy(self->session);
}

/* Threads are waiting for other streams of the device when it is lost: all waits return. */
static void nobody_waits_for_ever(void **state) {
  (void)state;
  enum { WAITERS = 3 };
  waiting waiters[WAITERS];
  for (size_t i = 0; i < WAITERS; i++) {
    waiters[i] = make_waiting();
  }
  for (size_t i = 0; i < WAITERS; i++) {
    close_gate(&waiters[i].gate, waiters[i].stream);
  }
  assert_int_equal(vcuda_set(0, "fail_compute", LATE_KERNEL), 0);
  for (size_t i = 0; i < WAITERS; i++) {
    expect_ok(call_binding_run(waiters[i].d.binding, waiters[i].stream, waiters[i].event, &fault));
    assert_int_equal(pthread_create(&waiters[i].thread, NULL, wait_for_event, &waiters[i]), 0);
  }
  for (size_t i = 0; i < WAITERS; i++) {
    open_gate(&waiters[i].gate);
  }
  for (size_t i = 0; i < WAITERS; i++) {
    iobind_tensor *y = NULL;
    assert_int_equal(pthread_join(waiters[i].thread, NULL), 0);
    assert_int_equal(waiters[i].status, IOBIND_ERROR_DEVICE_LOST);
    LOST(iobind_binding_get_output(waiters[i].d.binding, 0, NULL, &y, &fault));
    free_waiting(&waiters[i]);
  }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(a_run_that_fails_late, start, stop_one),
    cmocka_unit_test_setup_teardown(nobody_waits_for_ever, start, stop_one),
};

FIXTURE_MAIN(tests, NULL, NULL);
