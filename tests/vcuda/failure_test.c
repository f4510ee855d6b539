/* Failures of CUDA below iobind. A failure on the device after the call has returned is permanent: each use of its results returns it,
 * and no failed work is reported as complete. A failure of a single call ends with that call. */
#define _POSIX_C_SOURCE 200809L /* nanosleep */
#include "replay.h"
#include "../rig/calls.h"

static const float ones[COUNT] = {1, 1, 1, 1};

/* y = 2 x, without graphs; y is FRESH. */
static iobind_binding *make_binding(iobind_session *session, iobind_tensor *x) {
  iobind_binding *made = NULL;
  expect_ok(iobind_binding_create(session, &made, &fault));
  expect_ok(iobind_binding_set_input(made, 0, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
  return made;
}

static iobind_tensor *make_filled(float value) {
  iobind_tensor *made = make_tensor(IOBIND_MEMORY_DEFAULT, COUNT);
  fill(made, value);
  return made;
}

static void recover(void) {
  assert_int_not_equal(vcuda_recover(0), 0);
  (void)cudaGetLastError();
}

/* ---- late failures on the device ---- */

/* A run on a stream whose kernel fails on the device. */
typedef struct failed {
  iobind_session *session;
  iobind_stream *stream;
  iobind_event *event;
  iobind_tensor *x;
  iobind_binding *binding;
} failed;

/* `is_found`: the device has failed before the next call. Otherwise it may fail while that call waits. */
static failed make_failed(bool is_found) {
  static gate g; /* static: the device may use it after this returns */
  failed made = {.session = make_session("scale", 0, NULL), .stream = make_stream(), .event = make_event()};
  made.x = make_filled(1);
  made.binding = make_binding(made.session, made.x);
  expect_ok(call_binding_run(made.binding, made.stream, made.event, &fault)); /* allocates all that a run needs */
  expect_ok(iobind_event_wait(made.event, IOBIND_NO_TIMEOUT, &fault));
  assert_int_equal(vcuda_set(0, "fail_compute", LATE_KERNEL), 0);
  close_gate(&g, made.stream); /* otherwise the device may fail within the call, which tells it then */
  expect_ok(call_binding_run(made.binding, made.stream, made.event, &fault));
  open_gate(&g);
  while (is_found && cudaPeekAtLastError() == CUDA_OK) {
    nap();
  }
  return made;
}

static void free_failed(failed *self) {
  iobind_binding_destroy(self->binding);
  iobind_tensor_release(self->x);
  iobind_event_destroy(self->event);
  iobind_stream_destroy(self->stream);
  iobind_session_destroy(self->session);
}

static void fails(iobind_status status, const char *what) {
  if (status == IOBIND_OK) {
    fail_msg("%s: expected a failure, got OK", what);
  }
}

/* Each call returns the failure, whichever comes first. */
static void tells_all(bool is_found) {
  failed run = make_failed(is_found);
  iobind_tensor *y = NULL;
  fails(iobind_event_wait(run.event, IOBIND_NO_TIMEOUT, &fault), "event_wait");
  fails(iobind_binding_get_output(run.binding, 0, NULL, &y, &fault), "binding_get_output");
  fails(iobind_stream_synchronize(run.stream, &fault), "stream_synchronize");
  recover();
  free_failed(&run);
}

static void a_late_failure_is_told_to_all(void **state) {
  (void)state;
  tells_all(false);
}

static void a_failure_before_the_wait_is_told_to_all(void **state) {
  (void)state;
  tells_all(true);
}

/* The stream is synchronized first. */
static void tells_by_stream(bool is_found) {
  failed run = make_failed(is_found);
  iobind_tensor *y = NULL;
  fails(iobind_stream_synchronize(run.stream, &fault), "stream_synchronize");
  fails(iobind_binding_get_output(run.binding, 0, NULL, &y, &fault), "binding_get_output");
  recover();
  free_failed(&run);
}

static void a_late_failure_is_told_by_the_stream(void **state) {
  (void)state;
  tells_by_stream(false);
}

/* The stream cannot even record its own event. */
static void a_failure_before_the_wait_is_told_by_the_stream(void **state) {
  (void)state;
  tells_by_stream(true);
}

/* The run has failed even if the device works again: its output is undefined. */
static void a_late_failure_is_not_forgotten(void **state) {
  (void)state;
  failed run = make_failed(true);
  iobind_tensor *y = NULL;
  (void)!iobind_stream_synchronize(run.stream, &fault);
  recover();
  fails(iobind_binding_get_output(run.binding, 0, NULL, &y, &fault), "binding_get_output");
  fails(iobind_event_wait(run.event, IOBIND_NO_TIMEOUT, &fault), "event_wait");
  free_failed(&run);
}

/* After the failure the run is complete: the binding can be changed and run again. If a call returns OK, its result is right. */
static void a_late_failure_ends_its_run(void **state) {
  (void)state;
  failed run = make_failed(true);
  iobind_tensor *y = NULL;
  (void)!iobind_stream_synchronize(run.stream, &fault);
  fixture_arm();
  iobind_status status = iobind_binding_set_run_options(run.binding, NULL, &fault);
  if (status == IOBIND_ERROR_INVALID_STATE) {
    fail_msg("expected a run that is complete, got: %s", fault.message);
  }
  recover();
  const float threes[COUNT] = {3, 3, 3, 3};
  fixture_arm();
  status = iobind_tensor_write(run.x, 0, threes, sizeof threes, NULL, &fault);
  fixture_arm();
  status = status == IOBIND_OK ? iobind_binding_run(run.binding, NULL, &fault) : status;
  if (status == IOBIND_ERROR_INVALID_STATE) {
    fail_msg("expected a run that is complete, got: %s", fault.message);
  }
  if (status == IOBIND_OK) {
    expect_ok(iobind_binding_get_output(run.binding, 0, NULL, &y, &fault));
    expect_tensor(y, 6);
  }
  free_failed(&run);
}

/* Work on another stream of the device was in flight. Its outcome is unknown, so it has failed too. */
static void a_late_failure_fails_what_is_in_flight(void **state) {
  (void)state;
  gate g[2];
  iobind_session *sessions[2];
  iobind_binding *bindings[2];
  iobind_stream *streams[2];
  iobind_event *events[2];
  iobind_tensor *x = make_filled(1);
  iobind_tensor *y = NULL;
  for (int i = 0; i < 2; i++) {
    sessions[i] = make_session("scale", 0, NULL);
    streams[i] = make_stream();
    events[i] = make_event();
    bindings[i] = make_binding(sessions[i], x);
    expect_ok(call_binding_run(bindings[i], streams[i], events[i], &fault));
    expect_ok(iobind_event_wait(events[i], IOBIND_NO_TIMEOUT, &fault));
  }
  assert_int_equal(vcuda_set(0, "fail_compute", LATE_KERNEL), 0);
  for (int i = 0; i < 2; i++) {
    close_gate(&g[i], streams[i]);
    expect_ok(call_binding_run(bindings[i], streams[i], events[i], &fault));
  }
  open_gate(&g[0]);
  fails(iobind_event_wait(events[0], IOBIND_NO_TIMEOUT, &fault), "event_wait of what failed");
  open_gate(&g[1]);
  fails(iobind_stream_synchronize(streams[1], &fault), "stream_synchronize of the other stream");
  recover();
  fails(iobind_event_wait(events[1], IOBIND_NO_TIMEOUT, &fault), "event_wait of what was in flight");
  fails(iobind_binding_get_output(bindings[1], 0, NULL, &y, &fault), "binding_get_output of what was in flight");
  for (int i = 0; i < 2; i++) {
    iobind_binding_destroy(bindings[i]);
    iobind_event_destroy(events[i]);
    iobind_stream_destroy(streams[i]);
    iobind_session_destroy(sessions[i]);
  }
  iobind_tensor_release(x);
}

/* The state after the failed run is unknown: until it is rebound, no run returns OK. */
static void carried_states_are_lost(iobind_carry_mode mode) {
  gate g;
  iobind_session *session = make_session("scale", 0, NULL);
  iobind_stream *stream = make_stream();
  iobind_stream *other = make_stream();
  iobind_tensor *x = make_filled(1);
  iobind_tensor *y = NULL;
  iobind_tensor *again = make_filled(5);
  iobind_tensor *target = make_filled(0);
  iobind_binding *binding = make_binding(session, x);
  expect_ok(iobind_binding_carry(binding, 0, 0, mode, &fault));
  expect_ok(iobind_binding_run(binding, stream, &fault));
  expect_ok(iobind_stream_synchronize(stream, &fault));
  close_gate(&g, stream);
  expect_ok(iobind_binding_run(binding, stream, &fault));
  assert_int_equal(vcuda_set(0, "fail_copy", "1,late"), 0); /* a copy of another caller fails */
  copy_on(other, again, target);
  fails(iobind_stream_synchronize(other, &fault), "stream_synchronize of the copy");
  open_gate(&g);
  (void)!iobind_stream_synchronize(stream, &fault);
  recover();
  fails(iobind_binding_get_output(binding, 0, NULL, &y, &fault), "binding_get_output");
  fails(iobind_binding_run(binding, NULL, &fault), "binding_run with a lost state");
  fixture_arm();
  if (iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, again, NULL, &fault) == IOBIND_OK &&
      iobind_binding_run(binding, NULL, &fault) == IOBIND_OK) {
    expect_ok(iobind_binding_get_output(binding, 0, NULL, &y, &fault));
    expect_tensor(y, 10);
  }
  iobind_binding_destroy(binding);
  iobind_tensor_release(x);
  iobind_tensor_release(again);
  iobind_tensor_release(target);
  iobind_stream_destroy(stream);
  iobind_stream_destroy(other);
  iobind_session_destroy(session);
}

static void a_moved_state_is_lost(void **state) {
  (void)state;
  carried_states_are_lost(IOBIND_CARRY_MOVE);
}

static void a_swapped_state_is_lost(void **state) {
  (void)state;
  carried_states_are_lost(IOBIND_CARRY_SWAP);
}

static void a_state_in_place_is_lost(void **state) {
  (void)state;
  carried_states_are_lost(IOBIND_CARRY_IN_PLACE);
}

/* The run that captures copies the first state into a buffer, and this copy fails on the device. */
static void capture_with_a_failed_copy(bool on_stream) {
  iobind_session *session = make_session("scale", 2, NULL);
  iobind_stream *stream = make_stream();
  iobind_tensor *x = make_filled(1);
  iobind_tensor *y = NULL;
  iobind_binding *binding = make_binding(session, x);
  expect_ok(iobind_binding_carry(binding, 0, 0, IOBIND_CARRY_SWAP, &fault));
  assert_int_equal(vcuda_set(0, "fail_copy", "1,late"), 0);
  fixture_arm();
  iobind_status status = iobind_binding_run(binding, on_stream ? stream : NULL, &fault);
  status = status == IOBIND_OK ? iobind_stream_synchronize(stream, &fault) : status;
  fails(status, "the run that captures");
  recover();
  fixture_arm();
  if (iobind_binding_run(binding, NULL, &fault) == IOBIND_OK) {
    expect_ok(iobind_binding_get_output(binding, 0, NULL, &y, &fault));
    expect_tensor(y, 2); /* the state is unchanged */
  }
  iobind_binding_destroy(binding);
  iobind_tensor_release(x);
  iobind_stream_destroy(stream);
  iobind_session_destroy(session);
}

static void a_swapped_state_is_lost_in_a_capture(void **state) {
  (void)state;
  capture_with_a_failed_copy(false);
}

static void a_swapped_state_is_lost_in_a_capture_on_a_stream(void **state) {
  (void)state;
  capture_with_a_failed_copy(true);
}

/* A program can distinguish a lost device, for which retrying is useless, from a call that failed once. */
static void a_lost_device_has_a_status(void **state) {
  (void)state;
  iobind_session *session = make_session("scale", 0, NULL);
  iobind_stream *stream = make_stream();
  iobind_tensor *x = make_filled(1);
  iobind_binding *binding = make_binding(session, x);
  assert_int_equal(vcuda_set(0, "fail_copy", "1"), 0);
  fixture_arm();
  iobind_status once = iobind_tensor_write(x, 0, ones, sizeof ones, NULL, &fault);
  fails(once, "tensor_write");
  expect_ok(iobind_tensor_write(x, 0, ones, sizeof ones, NULL, &fault));
  assert_int_equal(vcuda_set(0, "fail_compute", LATE_KERNEL), 0);
  (void)!iobind_binding_run(binding, stream, &fault);
  (void)!iobind_stream_synchronize(stream, &fault);
  for (int call = 0; call < 3; call++) { /* the device stays lost */
    fixture_arm();
    iobind_status lost = call == 0   ? iobind_tensor_write(x, 0, ones, sizeof ones, NULL, &fault)
                         : call == 1 ? iobind_binding_run(binding, NULL, &fault)
                                     : iobind_stream_synchronize(stream, &fault);
    assert_string_equal(iobind_status_get_name((int32_t)lost), "DEVICE_LOST");
    assert_int_not_equal(lost, once);
  }
  recover();
  iobind_binding_destroy(binding);
  iobind_tensor_release(x);
  iobind_stream_destroy(stream);
  iobind_session_destroy(session);
}

/* ---- failures of a single call ---- */

/* Objects to check that the program still works after one of its calls has failed. */
typedef struct healthy {
  iobind_session *session;
  iobind_stream *streams[2];
  iobind_event *event;
  iobind_tensor *x;
  iobind_binding *binding;
} healthy;

static healthy make_healthy(void) {
  healthy made = {.session = make_session("scale", 0, NULL), .streams = {make_stream(), make_stream()}, .event = make_event()};
  made.x = make_filled(1);
  made.binding = make_binding(made.session, made.x);
  expect_ok(iobind_event_record(made.event, made.streams[0], &fault));
  return made;
}

/* Only that call has failed: CUDA's last error and a later run are OK. */
static void stays_healthy(healthy *self, iobind_status failure, const char *what) {
  fails(failure, what);
  int left = cudaPeekAtLastError();
  for (int run = 0; run < 2; run++) {
    iobind_tensor *y = NULL;
    fill(self->x, (float)run);
    expect_ok(iobind_binding_run(self->binding, run == 0 ? NULL : self->streams[0], &fault));
    expect_ok(iobind_binding_get_output(self->binding, 0, NULL, &y, &fault));
    expect_tensor(y, 2 * (float)run);
  }
  if (left != CUDA_OK) {
    fail_msg("%s: it leaves CUDA's last error %d", what, left);
  }
  iobind_binding_destroy(self->binding);
  iobind_tensor_release(self->x);
  iobind_event_destroy(self->event);
  for (int i = 0; i < 2; i++) {
    iobind_stream_destroy(self->streams[i]);
  }
  iobind_session_destroy(self->session);
}

static void arm(const char *setting, const char *value) {
  assert_int_equal(vcuda_set(0, setting, value), 0);
  fixture_arm();
}

static void an_event_that_cannot_be_made(void **state) {
  (void)state;
  healthy self = make_healthy();
  arm("fail_event", "1");
  stays_healthy(&self, iobind_event_record(self.event, self.streams[0], &fault), "event_record");
}

static void an_event_that_cannot_be_recorded(void **state) {
  (void)state;
  healthy self = make_healthy();
  arm("fail_event", "1,name:cudaEventRecord");
  stays_healthy(&self, iobind_event_record(self.event, self.streams[0], &fault), "event_record");
}

static void an_event_that_cannot_be_waited_for(void **state) {
  (void)state;
  healthy self = make_healthy();
  arm("fail_event", "1,name:cudaEventSynchronize");
  stays_healthy(&self, iobind_event_wait(self.event, IOBIND_NO_TIMEOUT, &fault), "event_wait");
}

static void a_stream_that_cannot_wait(void **state) {
  (void)state;
  healthy self = make_healthy();
  arm("fail_event", "1,name:cudaStreamWaitEvent");
  stays_healthy(&self, iobind_stream_wait(self.streams[1], self.event, &fault), "stream_wait");
}

static void a_run_that_cannot_be_ordered(void **state) {
  (void)state;
  healthy self = make_healthy();
  arm("fail_event", "1,name:cudaStreamWaitEvent");
  stays_healthy(&self, iobind_binding_run(self.binding, self.streams[0], &fault), "binding_run");
}

static void a_stream_that_cannot_be_made(void **state) {
  (void)state;
  healthy self = make_healthy();
  iobind_stream *made = NULL;
  arm("fail_stream", "1");
  stays_healthy(&self, iobind_stream_create(device, NULL, &made, &fault), "stream_create");
}

static void memory_that_cannot_be_made(void **state) {
  (void)state;
  static const int64_t dim = COUNT;
  for (int memory = IOBIND_MEMORY_DEFAULT; memory <= IOBIND_MEMORY_HOST_ACCESSIBLE; memory++) {
    healthy self = make_healthy();
    iobind_tensor *made = NULL;
    arm(memory == IOBIND_MEMORY_DEFAULT ? "fail_alloc" : "fail_pinned", "1");
    stays_healthy(&self, iobind_tensor_create(device, (iobind_memory)memory, IOBIND_DTYPE_FLOAT32, &dim, 1, &made, &fault),
                  "tensor_create");
  }
}

static void a_copy_that_cannot_be_made(void **state) {
  (void)state;
  for (int on_stream = 0; on_stream <= 1; on_stream++) {
    healthy self = make_healthy();
    arm("fail_copy", "1");
    iobind_status status = iobind_tensor_write(self.x, 0, ones, sizeof ones, on_stream == 0 ? NULL : self.streams[1], &fault);
    stays_healthy(&self, status, "tensor_write");
  }
}

static void a_run_that_cannot_be_launched(void **state) {
  (void)state;
  for (int on_stream = 0; on_stream <= 1; on_stream++) {
    healthy self = make_healthy();
    arm("fail_compute", "1");
    stays_healthy(&self, iobind_binding_run(self.binding, on_stream == 0 ? NULL : self.streams[0], &fault), "binding_run");
  }
}

/* The run fails before ORT is called. Another binding's run in flight on the session's stream succeeds, and its state is valid. */
static void an_input_that_cannot_be_copied(void **state) {
  (void)state;
  static const int64_t dim = COUNT;
  healthy self = make_healthy();
  iobind_tensor *live = NULL;
  iobind_tensor *y = NULL;
  iobind_binding *other = make_binding(self.session, self.x);
  expect_ok(iobind_binding_carry(other, 0, 0, IOBIND_CARRY_MOVE, &fault));
  expect_ok(iobind_tensor_create(host, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, &dim, 1, &live, &fault));
  expect_ok(iobind_tensor_write(live, 0, ones, sizeof ones, NULL, &fault));
  expect_ok(iobind_binding_set_input(self.binding, 0, IOBIND_INPUT_LIVE, live, NULL, &fault));
  expect_ok(iobind_binding_run(other, self.streams[1], &fault));
  expect_ok(iobind_binding_run(other, self.streams[1], &fault));
  arm("fail_copy", "1");
  fails(iobind_binding_run(self.binding, self.streams[0], &fault), "binding_run");
  expect_ok(iobind_stream_synchronize(self.streams[1], &fault));
  expect_ok(iobind_stream_synchronize(self.streams[0], &fault));
  expect_ok(iobind_binding_get_output(other, 0, NULL, &y, &fault));
  expect_tensor(y, 4);
  expect_ok(iobind_binding_run(other, NULL, &fault));
  expect_ok(iobind_binding_get_output(other, 0, NULL, &y, &fault));
  expect_tensor(y, 8);
  arm("fail_copy", "1");
  iobind_status again = iobind_binding_run(self.binding, self.streams[0], &fault);
  iobind_binding_destroy(other);
  expect_ok(iobind_binding_set_input(self.binding, 0, IOBIND_INPUT_RESIDENT, self.x, NULL, NULL));
  iobind_tensor_release(live);
  stays_healthy(&self, again, "binding_run");
}

/* A run that fails within an LSTM leaves pinned memory, which a host function returns to its arena when the session is destroyed. The
 * arena must not be destroyed in that host function: its CUDA calls are forbidden there and would end the process. On iobind's stream
 * and on ORT's own. */
static void a_failed_lstm_ends_nothing(void **state) {
  (void)state;
  static const char *const key = "do_copy_in_default_stream", *const value = "0";
  static const int64_t dims[] = {COUNT, 1, 1};
  for (size_t option_count = 0; option_count <= 1; option_count++) {
    iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
    iobind_session *session = NULL;
    iobind_tensor *x = NULL;
    options.devices = &device;
    options.device_count = 1;
    options.ep_keys = &key;
    options.ep_values = &value;
    options.ep_option_count = option_count;
    expect_ok(test_session_with(runtime, "recurrent", &options, &session, &fault));
    expect_ok(iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 3, &x, &fault));
    expect_ok(iobind_tensor_write(x, 0, ones, sizeof ones, NULL, &fault));
    iobind_binding *binding = make_binding(session, x);
    arm("delay_compute", "every:1,us:20000,name:a host function");
    arm("fail_compute", "1,name:cudnnRNNForward");
    fails(iobind_binding_run(binding, NULL, &fault), "the run");
    iobind_binding_destroy(binding);
    iobind_tensor_release(x);
    (void)vcuda_reset(0);
    iobind_session_destroy(session);
    assert_int_equal(vcuda_get(0, "host_functions"), 1);
    arm("delay_compute", "0");
  }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_late_failure_is_told_to_all),
    cmocka_unit_test(a_failure_before_the_wait_is_told_to_all),
    cmocka_unit_test(a_late_failure_is_told_by_the_stream),
    cmocka_unit_test(a_failure_before_the_wait_is_told_by_the_stream),
    cmocka_unit_test(a_late_failure_is_not_forgotten),
    cmocka_unit_test(a_late_failure_ends_its_run),
    cmocka_unit_test(a_late_failure_fails_what_is_in_flight),
    cmocka_unit_test(a_moved_state_is_lost),
    cmocka_unit_test(a_swapped_state_is_lost),
    cmocka_unit_test(a_state_in_place_is_lost),
    cmocka_unit_test(a_swapped_state_is_lost_in_a_capture),
    cmocka_unit_test(a_swapped_state_is_lost_in_a_capture_on_a_stream),
    cmocka_unit_test(a_lost_device_has_a_status),
    cmocka_unit_test(an_event_that_cannot_be_made),
    cmocka_unit_test(an_event_that_cannot_be_recorded),
    cmocka_unit_test(an_event_that_cannot_be_waited_for),
    cmocka_unit_test(a_stream_that_cannot_wait),
    cmocka_unit_test(a_run_that_cannot_be_ordered),
    cmocka_unit_test(a_stream_that_cannot_be_made),
    cmocka_unit_test(memory_that_cannot_be_made),
    cmocka_unit_test(a_copy_that_cannot_be_made),
    cmocka_unit_test(a_run_that_cannot_be_launched),
    cmocka_unit_test(an_input_that_cannot_be_copied),
    cmocka_unit_test(a_failed_lstm_ends_nothing),
};

FIXTURE_MAIN(tests, start, stop);
