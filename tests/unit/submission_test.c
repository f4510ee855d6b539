/* A thread submits to a stream while another one, which waits for that stream, receives a failure. The EP skips what was submitted before, and works
 * again afterwards: so work that may have been skipped must not count as complete, for any caller and any query. What the other thread does is done here by
 * the library's own call in the middle of the submission, so that each meeting happens in every run. On the virtual accelerator. */
#include "fixture.h"

#include <string.h>

#include "memory/kind.h"
#include "../rig/calls.h"
#include "objects.h"
#include "stage.h"

enum { BYTES = 100000, FEW = 1000, FLOATS = 4, UNTOUCHED = 0xEE };

static iobind_stream *stream;
static iobind_event *earlier; /* of work before: a wait for it receives the failure */
static iobind_tensor *x, *y, *z;
static iobind_tensor *floats;
static iobind_session *session;
static iobind_binding *binding;
static unsigned char source[BYTES];
static unsigned char arrived[BYTES];

/* ---- setup ---- */

static iobind_tensor *make(iobind_memory memory) {
  const int64_t dims[1] = {BYTES};
  iobind_tensor *tensor;
  expect_ok(iobind_tensor_create(device, memory, IOBIND_DTYPE_UINT8, dims, 1, &tensor, &fault));
  return tensor;
}

static iobind_event *record(iobind_stream *of) {
  iobind_event *event;
  expect_ok(iobind_event_create(device, &event, &fault));
  expect_ok(iobind_event_record(event, of, &fault));
  return event;
}

static iobind_binding *bind(iobind_session *to) {
  iobind_binding *made;
  expect_ok(iobind_binding_create(to, &made, &fault));
  expect_ok(iobind_binding_set_input(made, 0, IOBIND_INPUT_RESIDENT, floats, NULL, &fault));
  return made;
}

static int start(void **state) {
  static const float values[FLOATS] = {1, 2, 3, 4};
  (void)stage_open(state);
  device = fixture_device(runtime, "vdev");
  expect_ok(iobind_stream_create(device, NULL, &stream, &fault));
  x = make(IOBIND_MEMORY_DEFAULT);
  y = make(IOBIND_MEMORY_DEFAULT);
  z = make(IOBIND_MEMORY_DEFAULT);
  floats = fixture_floats(device, values, FLOATS);
  session = fixture_session(runtime, device, "scale");
  binding = bind(session);
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  expect_ok(iobind_tensor_write(x, 0, source, BYTES, NULL, &fault));
  memset(arrived, UNTOUCHED, BYTES);
  return 0;
}

static int stop(void **state) {
  iobind_binding_destroy(binding);
  iobind_session_destroy(session);
  iobind_tensor_release(floats);
  iobind_tensor_release(x);
  iobind_tensor_release(y);
  iobind_tensor_release(z);
  iobind_event_destroy(earlier);
  iobind_stream_destroy(stream);
  earlier = NULL;
  return stage_close(state);
}

/* ---- the other thread ---- */

/* What the EP returns for a failed stream, to one wait. */
static OrtStatus *ORT_CALL wait_and_fail(OrtSyncNotificationImpl *self) {
  (void)self;
  return IOBIND__API(runtime)->CreateStatus(ORT_FAIL, "it failed");
}

static iobind_event *record_failing(iobind_stream *of) {
  iobind_event *event = record(of);
  event->point->notification->WaitOnHost = wait_and_fail;
  return event;
}

/* The stream fails when it reaches this point. */
static void let_fail(iobind_stream *of) {
  iobind_event_destroy(earlier);
  earlier = record_failing(of);
}

/* It has failed before, and fails again at a point that counts as failed already: the second report may be that of a new failure. */
static void let_fail_again(iobind_stream *of) {
  let_fail(of);
  iobind_event *second = record_failing(of);
  assert_int_equal(iobind_event_wait(earlier, IOBIND_NO_TIMEOUT, NULL), IOBIND_ERROR_RUNTIME);
  iobind_event_destroy(earlier);
  earlier = second;
}

static void receive_failure(void) {
  assert_int_equal(iobind_event_wait(earlier, IOBIND_NO_TIMEOUT, NULL), IOBIND_ERROR_RUNTIME);
}

/* By the time that a part of the work has been submitted, the other thread has received the failure, and has recorded it. */
static iobind_status leave_after_a_failure(iobind_stream *of, iobind_error *error) {
  of->kind = &iobind__ep_stream;
  receive_failure();
  return iobind__ep_stream.leave == NULL ? IOBIND_OK : iobind__ep_stream.leave(of, error);
}

static iobind__stream_kind meeting;

static void meet_in_next(iobind_stream *of) {
  meeting = iobind__ep_stream;
  meeting.leave = leave_after_a_failure;
  of->kind = &meeting;
}

/* ---- what is submitted, and the query of it ---- */

typedef struct work {
  const char *name;
  void (*submit)(void);
  iobind_status (*ask)(void);
} work;

static void copy(const iobind_tensor *from, iobind_tensor *to) {
  expect_ok(iobind_tensor_copy(&from, &to, 1, stream, &fault));
}

static void submit_copy(void) {
  copy(x, y);
}

static void submit_write(void) {
  expect_ok(iobind_tensor_write(y, 0, source, BYTES, stream, &fault));
}

static void submit_small_write(void) {
  expect_ok(iobind_tensor_write(y, 0, source, FEW, stream, &fault));
}

static void submit_read(void) {
  expect_ok(iobind_tensor_read(x, 0, arrived, BYTES, stream, &fault));
}

static void submit_rows(iobind_tensor *from, iobind_tensor *to) {
  iobind_rows rows[2] = {IOBIND_ROWS_INIT, IOBIND_ROWS_INIT};
  rows[0].tensor = from;
  rows[0].pitch = FEW;
  rows[1].tensor = to;
  rows[1].pitch = FEW;
  expect_ok(iobind_tensor_copy_rows(&rows[0], &rows[1], FEW, 2, stream, &fault));
}

static void submit_rows_on_device(void) {
  submit_rows(x, y);
}

static iobind_tensor *wrap(unsigned char *data) {
  const int64_t dims[1] = {BYTES};
  iobind_tensor *tensor;
  expect_ok(
      call_tensor_wrap(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_UINT8, dims, 1, data, BYTES, NULL, NULL, &tensor, &fault));
  return tensor;
}

static void submit_rows_from_host(void) {
  iobind_tensor *host = wrap(source);
  submit_rows(host, y);
  iobind_tensor_release(host);
}

static void submit_rows_to_host(void) {
  iobind_tensor *host = wrap(arrived);
  submit_rows(x, host);
  iobind_tensor_release(host);
}

static void submit_run(void) {
  expect_ok(iobind_binding_run(binding, stream, &fault));
}

static iobind_status ask_y(void) {
  fixture_arm();
  return iobind_tensor_read(y, 0, arrived, BYTES, NULL, &fault);
}

static iobind_status ask_event(void) {
  iobind_event *event = record(stream);
  fixture_arm();
  iobind_status status = iobind_event_wait(event, IOBIND_NO_TIMEOUT, &fault);
  iobind_event_destroy(event);
  return status;
}

/* What was read has not arrived, either. */
static iobind_status ask_arrived(void) {
  iobind_status status = ask_event();
  assert_int_equal(arrived[0], status == IOBIND_OK ? source[0] : UNTOUCHED);
  return status;
}

static iobind_status ask_output(void) {
  iobind_tensor *output;
  fixture_arm();
  return iobind_binding_get_output(binding, 0, NULL, &output, &fault);
}

static iobind_status ask_stream(void) {
  fixture_arm();
  return iobind_stream_synchronize(stream, &fault);
}

static const work works[] = {
    {"a copy, read", submit_copy, ask_y},
    {"a copy, its event", submit_copy, ask_event},
    {"a copy, the stream", submit_copy, ask_stream},
    {"a write, read", submit_write, ask_y},
    {"a small write, read", submit_small_write, ask_y},
    {"a read", submit_read, ask_arrived},
    {"rows, read", submit_rows_on_device, ask_y},
    {"rows from the host, read", submit_rows_from_host, ask_y},
    {"rows to the host", submit_rows_to_host, ask_arrived},
    {"a run, its output", submit_run, ask_output},
    {"a run, its event", submit_run, ask_event},
};

static void expect_asked(const work *self, iobind_status expected) {
  iobind_status status = self->ask();
  if (status != expected) {
    fail_msg("%s: expected %s, got %s", self->name, iobind_status_get_name(expected), iobind_status_get_name(status));
  }
}

/* ---- the tests ---- */

/* And then the stream works again: what is submitted later counts. */
static void meet_in_each(void (*fails)(iobind_stream *of)) {
  for (size_t i = 0; i < sizeof works / sizeof works[0]; i++) {
    fails(stream);
    meet_in_next(stream);
    works[i].submit();
    expect_asked(&works[i], IOBIND_ERROR_RUNTIME);
    (void)ask_stream();
    memset(arrived, UNTOUCHED, BYTES);
    works[i].submit();
    expect_asked(&works[i], IOBIND_OK);
    memset(arrived, UNTOUCHED, BYTES);
  }
}

static void a_failure_in_the_middle(void **state) {
  (void)state;
  meet_in_each(let_fail);
}

static void a_second_failure_in_the_middle(void **state) {
  (void)state;
  meet_in_each(let_fail_again);
}

/* The other thread has received the failure of the earlier work, and no thread that of this one. */
static void receive_after_each(void (*fails)(iobind_stream *of)) {
  for (size_t i = 0; i < sizeof works / sizeof works[0]; i++) {
    fails(stream);
    works[i].submit();
    receive_failure();
    expect_asked(&works[i], IOBIND_ERROR_RUNTIME);
    (void)ask_stream();
    memset(arrived, UNTOUCHED, BYTES);
  }
}

static void a_failure_after_the_submission(void **state) {
  (void)state;
  receive_after_each(let_fail);
}

static void a_second_failure_after_the_submission(void **state) {
  (void)state;
  receive_after_each(let_fail_again);
}

/* Also of work that has an event, for any caller and any query. */
static void a_second_failure_of_work_with_an_event(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof works / sizeof works[0]; i++) {
    let_fail_again(stream);
    works[i].submit();
    iobind_event *own = record(stream);
    receive_failure();
    expect_asked(&works[i], IOBIND_ERROR_RUNTIME);
    (void)ask_stream();
    memset(arrived, UNTOUCHED, BYTES);
    iobind_event_destroy(own);
  }
}

/* A second wait for what has failed returns the failure again, and the stream's later work has nothing to do with it. The stream itself returns it
 * once. */
static void a_failure_that_is_asked_for_again(void **state) {
  (void)state;
  let_fail(stream);
  receive_failure();
  for (size_t i = 0; i < sizeof works / sizeof works[0]; i++) {
    works[i].submit();
    receive_failure();
    expect_asked(&works[i], works[i].ask == ask_stream ? IOBIND_ERROR_RUNTIME : IOBIND_OK);
    memset(arrived, UNTOUCHED, BYTES);
  }
}

/* What uses the results of skipped work has failed with it, until a call can have returned it. */
static void work_after_skipped_work(void **state) {
  (void)state;
  let_fail(stream);
  copy(x, y);
  receive_failure();
  copy(y, z);
  expect(IOBIND_ERROR_RUNTIME, iobind_tensor_read(z, 0, arrived, BYTES, NULL, &fault));
  copy(x, z);
  expect_ok(iobind_tensor_read(z, 0, arrived, BYTES, NULL, &fault));
}

/* A thread of iobind's has received the failure, and no call has returned it. The first that asks returns it, whatever has been recorded in between, and
 * then the stream works again. */
static void a_failure_of_which_nobody_is_told(void **state) {
  (void)state;
  for (int reads = 0; reads < 2; reads++) {
    let_fail(stream);
    copy(x, y);
    iobind_event *watched = record(stream);
    assert_int_equal(iobind__point_pass(earlier->point, NULL), IOBIND_ERROR_RUNTIME);
    iobind__stream_pass(stream);
    iobind_event *later = record(stream);
    if (reads) {
      expect(IOBIND_ERROR_RUNTIME, iobind_tensor_read(y, 0, arrived, BYTES, NULL, &fault));
    } else {
      expect(IOBIND_ERROR_RUNTIME, iobind_event_wait(later, IOBIND_NO_TIMEOUT, &fault));
    }
    expect(IOBIND_ERROR_RUNTIME, iobind_event_wait(watched, IOBIND_NO_TIMEOUT, &fault));
    expect(IOBIND_ERROR_RUNTIME, iobind_event_wait(later, IOBIND_NO_TIMEOUT, &fault));
    copy(x, z);
    expect_ok(ask_event());
    expect_ok(iobind_tensor_read(z, 0, arrived, BYTES, NULL, &fault));
    iobind_event_destroy(watched);
    iobind_event_destroy(later);
  }
}

/* A call has returned the failure of the earlier work, and the caller waits for an event after all of it, which succeeds. The data that the run was to write are still missing,
 * also when the binding has recorded the failure. */
static void the_output_of_a_run_that_failed(void **state) {
  (void)state;
  for (int polls = 0; polls < 2; polls++) {
    iobind_tensor *output;
    iobind_tensor *bound = fixture_floats(device, (const float[FLOATS]){5, 5, 5, 5}, FLOATS);
    expect_ok(iobind_binding_set_output(binding, 0, bound, 0, &fault));
    let_fail(stream);
    submit_run();
    iobind_event *watched = record(stream);
    receive_failure();
    iobind_event *later = record(stream);
    expect_ok(iobind_event_wait(later, IOBIND_NO_TIMEOUT, &fault));
    if (polls) {
      expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, floats, NULL, &fault));
    }
    expect(IOBIND_ERROR_RUNTIME, iobind_tensor_read(bound, 0, arrived, FLOATS * sizeof(float), NULL, &fault));
    expect(IOBIND_ERROR_RUNTIME, iobind_binding_get_output(binding, 0, NULL, &output, &fault));
    expect_ok(iobind_binding_run(binding, NULL, &fault));
    expect_ok(iobind_tensor_read(bound, 0, arrived, FLOATS * sizeof(float), NULL, &fault));
    iobind_event_destroy(watched);
    iobind_event_destroy(later);
    iobind_tensor_release(bound);
  }
}

/* Items of a pipeline: each has its event, and the failure of one is not that of one which is submitted after it was reported. */
static void work_with_events_after_a_failure(void **state) {
  (void)state;
  let_fail(stream);
  copy(x, y);
  iobind_event *skipped = record(stream);
  receive_failure();
  copy(x, z);
  expect_ok(ask_event());
  expect(IOBIND_ERROR_RUNTIME, iobind_event_wait(skipped, IOBIND_NO_TIMEOUT, &fault));
  iobind_event_destroy(skipped);
}

/* The results of a run that was skipped are lent only then. */
static void an_output_that_is_lent_after_a_failure(void **state) {
  (void)state;
  iobind_stream *borrower;
  iobind_tensor *output;
  iobind_event *event;
  expect_ok(iobind_stream_create(device, NULL, &borrower, &fault));
  let_fail(stream);
  submit_run();
  receive_failure();
  expect_ok(iobind_binding_get_output(binding, 0, borrower, &output, &fault));
  event = record(borrower);
  expect(IOBIND_ERROR_RUNTIME, iobind_event_wait(event, IOBIND_NO_TIMEOUT, &fault));
  iobind_event_destroy(event);
  iobind_stream_destroy(borrower);
}

/* A result that the caller keeps, of a run that was skipped, after the next run of the binding was submitted. */
static void a_result_that_is_kept(void **state) {
  (void)state;
  iobind_tensor *kept;
  float values[FLOATS];
  let_fail(stream);
  submit_run();
  iobind_event *skipped = record(stream);
  expect_ok(iobind_binding_get_output(binding, 0, stream, &kept, &fault));
  (void)iobind_tensor_retain(kept);
  receive_failure();
  submit_run();
  expect(IOBIND_ERROR_RUNTIME, iobind_tensor_read(kept, 0, values, sizeof values, NULL, &fault));
  iobind_tensor_release(kept);
  iobind_event_destroy(skipped);
}

/* A session that computes on a stream of its own: what fails there is found by those who ask for the run's stream. */
static void a_failure_of_the_stream_that_computes(void **state) {
  (void)state;
  iobind_stream *compute;
  iobind_session *other;
  iobind_tensor *output;
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  expect_ok(iobind_stream_create(device, NULL, &compute, &fault));
  options.devices = &device;
  options.device_count = 1;
  options.stream = compute;
  expect_ok(test_session_with(runtime, "scale", &options, &other, &fault));
  iobind_binding *run = bind(other);
  for (int by_event = 0; by_event < 2; by_event++) {
    let_fail(compute);
    meet_in_next(compute);
    expect_ok(iobind_binding_run(run, stream, &fault));
    if (by_event) {
      assert_int_equal(ask_event(), IOBIND_ERROR_RUNTIME);
    }
    expect(IOBIND_ERROR_RUNTIME, iobind_binding_get_output(run, 0, NULL, &output, &fault));
    expect(IOBIND_ERROR_RUNTIME, iobind_stream_synchronize(stream, &fault));
    expect_ok(iobind_binding_run(run, stream, &fault));
    expect_ok(iobind_binding_get_output(run, 0, NULL, &output, &fault));
  }
  iobind_binding_destroy(run);
  iobind_session_destroy(other);
  iobind_stream_destroy(compute);
}

/* ---- waits that return no failure ---- */

/* The wait that comes next, which asks for nothing of what has failed, receives the failure. */
static iobind_status drain_after_a_failure(iobind_stream *of, iobind__ticket *ticket, iobind_error *error) {
  of->kind = &iobind__ep_stream;
  assert_int_equal(iobind__point_pass(earlier->point, NULL), IOBIND_ERROR_RUNTIME);
  return iobind__ep_stream.drain(of, ticket, error);
}

static iobind_status wait_after_a_failure(iobind_stream *of, iobind__ticket ticket, iobind_error *error) {
  return drain_after_a_failure(of, &ticket, error);
}

static void fail_in_next_wait(iobind_stream *of) {
  meeting = iobind__ep_stream;
  meeting.drain = drain_after_a_failure;
  meeting.wait = wait_after_a_failure;
  of->kind = &meeting;
}

static iobind_tensor *bind_output(void) {
  iobind_tensor *bound = fixture_floats(device, (const float[FLOATS]){5, 5, 5, 5}, FLOATS);
  expect_ok(iobind_binding_set_output(binding, 0, bound, 0, &fault));
  return bound;
}

/* A write needs nothing of the run but its end. */
static void an_input_that_is_written_after_a_failure(void **state) {
  (void)state;
  static const float values[FLOATS] = {9, 9, 9, 9};
  iobind_tensor *bound = bind_output();
  let_fail(stream);
  submit_run();
  fail_in_next_wait(stream);
  expect_ok(iobind_tensor_write(floats, 0, values, sizeof values, NULL, &fault));
  expect(IOBIND_ERROR_RUNTIME, iobind_tensor_read(bound, 0, arrived, sizeof values, NULL, &fault));
  iobind_tensor_release(bound);
}

/* The same by a run that writes it. */
static void an_input_that_a_run_writes_after_a_failure(void **state) {
  (void)state;
  iobind_tensor *bound = bind_output();
  iobind_tensor *source_of_other = fixture_floats(device, (const float[FLOATS]){7, 7, 7, 7}, FLOATS);
  iobind_binding *other = bind(session);
  expect_ok(iobind_binding_set_input(other, 0, IOBIND_INPUT_RESIDENT, source_of_other, NULL, &fault));
  expect_ok(iobind_binding_set_output(other, 0, floats, 0, &fault));
  let_fail(stream);
  submit_run();
  fail_in_next_wait(stream);
  expect_ok(iobind_binding_run(other, NULL, &fault));
  expect(IOBIND_ERROR_RUNTIME, iobind_tensor_read(bound, 0, arrived, FLOATS * sizeof(float), NULL, &fault));
  iobind_binding_destroy(other);
  iobind_tensor_release(source_of_other);
  iobind_tensor_release(bound);
}

/* One of two copies is written over: the other one is missing still. */
static void a_target_that_is_written_after_a_failure(void **state) {
  (void)state;
  let_fail(stream);
  copy(x, z);
  copy(x, y);
  fail_in_next_wait(stream);
  expect_ok(iobind_tensor_write(y, 0, source, BYTES, NULL, &fault));
  expect(IOBIND_ERROR_RUNTIME, iobind_tensor_read(z, 0, arrived, BYTES, NULL, &fault));
}

/* A tensor knows of two streams. When a third one uses it, the one that has failed stays. */
static void a_tensor_that_a_third_stream_uses(void **state) {
  (void)state;
  iobind_stream *others[2];
  iobind_tensor *target = make(IOBIND_MEMORY_DEFAULT);
  const iobind_tensor *from = y;
  expect_ok(iobind_stream_create(device, NULL, &others[0], &fault));
  expect_ok(iobind_stream_create(device, NULL, &others[1], &fault));
  let_fail(stream);
  expect_ok(iobind_tensor_copy(&from, &z, 1, others[0], &fault));
  copy(x, y);
  fail_in_next_wait(stream);
  expect_ok(iobind_tensor_copy(&from, &target, 1, others[1], &fault));
  expect(IOBIND_ERROR_RUNTIME, iobind_tensor_read(y, 0, arrived, BYTES, NULL, &fault));
  iobind_stream_destroy(others[0]);
  iobind_stream_destroy(others[1]);
  iobind_tensor_release(target);
}

/* A run on the CPU that waits for the stream's event, in a thread of iobind's. */
static void a_run_that_waits_for_the_failure(void **state) {
  (void)state;
  iobind_stream *worker;
  iobind_session *on_cpu = fixture_session(runtime, cpu, "scale");
  iobind_tensor *host = fixture_floats(cpu, (const float[FLOATS]){5, 5, 5, 5}, FLOATS);
  iobind_binding *reader;
  expect_ok(iobind_stream_create(cpu, NULL, &worker, &fault));
  expect_ok(iobind_binding_create(on_cpu, &reader, &fault));
  copy(x, y);
  iobind_event *failing = record_failing(stream);
  expect_ok(iobind_binding_set_input(reader, 0, IOBIND_INPUT_RESIDENT, host, failing, &fault));
  expect_ok(iobind_binding_run(reader, worker, &fault));
  iobind__stream_pass(worker);
  expect(IOBIND_ERROR_RUNTIME, iobind_tensor_read(y, 0, arrived, BYTES, NULL, &fault));
  expect(IOBIND_ERROR_RUNTIME, iobind_stream_synchronize(worker, &fault));
  iobind_binding_destroy(reader);
  iobind_stream_destroy(worker);
  iobind_event_destroy(failing);
  iobind_tensor_release(host);
  iobind_session_destroy(on_cpu);
}

/* ---- failures that are returned ---- */

/* What the call itself waits for fails: only that is later than what it asks for. */
static iobind_status wait_and_receive(iobind_stream *of, iobind__ticket ticket, iobind_error *error) {
  (void)ticket;
  iobind__point *end;
  of->kind = &iobind__ep_stream;
  expect_ok(iobind__point_open(of, &end, &fault));
  end->notification->WaitOnHost = wait_and_fail;
  iobind_status status = iobind__point_pass(end, error);
  iobind__point_release(end);
  return status;
}

static void work_after_a_read_that_failed(void **state) {
  (void)state;
  copy(x, y);
  meeting = iobind__ep_stream;
  meeting.wait = wait_and_receive;
  stream->kind = &meeting;
  expect(IOBIND_ERROR_RUNTIME, iobind_tensor_read(y, 0, arrived, BYTES, NULL, &fault));
  copy(x, z);
  expect_ok(iobind_tensor_read(z, 0, arrived, BYTES, NULL, &fault));
}

#define ON_VDEV(test) \
  { #test, test, start, stop, NULL }

static const struct CMUnitTest tests[] = {
    ON_VDEV(a_failure_in_the_middle),
    ON_VDEV(a_second_failure_in_the_middle),
    ON_VDEV(a_failure_after_the_submission),
    ON_VDEV(a_second_failure_after_the_submission),
    ON_VDEV(a_second_failure_of_work_with_an_event),
    ON_VDEV(a_failure_that_is_asked_for_again),
    ON_VDEV(work_after_skipped_work),
    ON_VDEV(a_failure_of_which_nobody_is_told),
    ON_VDEV(the_output_of_a_run_that_failed),
    ON_VDEV(work_with_events_after_a_failure),
    ON_VDEV(an_output_that_is_lent_after_a_failure),
    ON_VDEV(a_result_that_is_kept),
    ON_VDEV(a_failure_of_the_stream_that_computes),
    ON_VDEV(an_input_that_is_written_after_a_failure),
    ON_VDEV(an_input_that_a_run_writes_after_a_failure),
    ON_VDEV(a_target_that_is_written_after_a_failure),
    ON_VDEV(a_tensor_that_a_third_stream_uses),
    ON_VDEV(a_run_that_waits_for_the_failure),
    ON_VDEV(work_after_a_read_that_failed),
};

FIXTURE_MAIN(tests, NULL, NULL);
