/* A failure inside an LSTM or a GRU does not end the process. Each operation of a session with such a network fails in turn:
 * allocations, copies, launches, events and cuDNN calls at the call; copies and launches also late, on the device. The failing call
 * returns the failure, objects can be destroyed, and another session computes the right result. */
#define _POSIX_C_SOURCE 200809L /* nanosleep */
#include "replay.h"
#include "../rig/calls.h"

static const int64_t dims[] = {COUNT, 1, 1};
static const float given[COUNT] = {1, 2, 3, 4};

/* The objects of one session, from its creation until the result is read. */
typedef struct attempt {
  iobind_session *session;
  iobind_binding *binding;
  iobind_tensor *x;
  float y[COUNT];
} attempt;

static iobind_status make(attempt *self, const char *model, iobind_device *on) {
  static const char *const key = "arena_extend_strategy",
                           *const value = "kSameAsRequested"; /* so that the network's memory is allocated for each need */
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  options.devices = &on;
  options.device_count = 1;
  options.ep_keys = &key;
  options.ep_values = &value;
  options.ep_option_count = on != host;
  iobind_status status = test_session_with(runtime, model, &options, &self->session, &fault);
  status = status != IOBIND_OK
               ? status
               : iobind_tensor_create(on, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 3, &self->x, &fault);
  status = status != IOBIND_OK ? status : iobind_tensor_write(self->x, 0, given, sizeof given, NULL, &fault);
  status = status != IOBIND_OK ? status : iobind_binding_create(self->session, &self->binding, &fault);
  return status != IOBIND_OK ? status
                             : iobind_binding_set_input(self->binding, 0, IOBIND_INPUT_RESIDENT, self->x, NULL, &fault);
}

static iobind_status run(attempt *self, iobind_stream *stream) {
  iobind_tensor *y = NULL;
  iobind_status status = iobind_binding_run(self->binding, stream, &fault);
  status = status != IOBIND_OK || stream == NULL ? status : iobind_stream_synchronize(stream, &fault);
  status = status != IOBIND_OK ? status : iobind_binding_get_output(self->binding, 0, NULL, &y, &fault);
  return status != IOBIND_OK ? status : iobind_tensor_read(y, 0, self->y, sizeof self->y, NULL, &fault);
}

static void drop(attempt *self) {
  iobind_binding_destroy(self->binding);
  iobind_tensor_release(self->x);
  iobind_session_destroy(self->session);
}

static void compute(const char *model, iobind_device *on, float y[COUNT]) {
  attempt good = {0};
  expect_ok(make(&good, model, on));
  expect_ok(run(&good, NULL));
  memcpy(y, good.y, sizeof good.y);
  drop(&good);
}

static void expect_right(const char *model, iobind_device *on, const float right[COUNT], const char *after) {
  float y[COUNT];
  compute(model, on, y);
  for (int i = 0; i < COUNT; i++) {
    if (y[i] < right[i] - 1e-6f || y[i] > right[i] + 1e-6f) {
      fail_msg("%s: element %d: expected %g, got %g", after, i, (double)right[i], (double)y[i]);
    }
  }
}

/* A fault setting for the n-th operation, with these conditions. */
typedef struct way {
  const char *setting, *conditions;
  int least; /* at least so many operations make a session fail */
  bool is_late;
} way;

static void expect_named(const char *after) {
  static const char *const calls[] = {"session_create", "binding_", "tensor_", "stream_synchronize"};
  bool is_named = false;
  for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
    is_named = is_named || strncmp(fault.message, calls[i], strlen(calls[i])) == 0;
  }
  if (!is_named) {
    fail_msg("%s: the message begins with no call: %s", after, fault.message);
  }
}

/* Recover the device. On hardware this needs a new process. */
static void begin_again(void) {
  iobind_runtime_destroy(runtime);
  (void)vcuda_recover(0);
  (void)cudaGetLastError();
  (void)start(NULL);
}

/* Run a session with the n-th operation failing. True: the session failed. `right` is the result without a failure. */
static bool fail_one(const char *model, const way *how, int n, bool on_stream, const float right[COUNT]) {
  attempt self = {0};
  char value[64], text[160];
  iobind_stream *stream = on_stream ? make_stream() : NULL;
  snprintf(value, sizeof value, "%d%s", n, how->conditions);
  snprintf(text, sizeof text, "%s, %s=%s%s", model, how->setting, value, on_stream ? " on a stream" : "");
  assert_int_equal(vcuda_set(0, how->setting, value), 0);
  fixture_arm();
  iobind_status status = make(&self, model, device);
  status = status != IOBIND_OK ? status : run(&self, stream);
  if (status != IOBIND_OK) {
    expect_named(text);
    if (how->is_late) {
      assert_int_equal(status, IOBIND_ERROR_DEVICE_LOST);
      expect_right(model, fixture_device(runtime, "cuda:1"), right, text);
    }
  } else {
    assert_memory_equal(self.y, right, sizeof self.y); /* the EP handled the failure */
  }
  drop(&self);
  iobind_stream_destroy(stream);
  assert_int_equal(vcuda_set(0, how->setting, "0"), 0);
  if (how->is_late) { /* operations of the session's destruction may have failed as well */
    begin_again();
  }
  expect_right(model, device, right, text);
  return status != IOBIND_OK;
}

/* Fail one operation after the other, until several in a row have no effect because the session makes no more. */
static void fail_each(const char *model, const way *how, bool on_stream) {
  enum { IN_A_ROW = 8 };
  float right[COUNT];
  int failures = 0, passed = 0;
  compute(model, host, right);
  expect_right(model, device, right, "at first");
  compute(model, device, right);
  for (int n = 1; passed < IN_A_ROW; n++) {
    bool failed = fail_one(model, how, n, on_stream, right);
    failures += failed;
    passed = failed ? 0 : passed + 1;
  }
  print_message("%s: %s%s: %d failures\n", model, how->setting, how->conditions, failures);
  if (failures < how->least) {
    fail_msg("%s: %s: expected %d failures or more, got %d", model, how->setting, how->least, failures);
  }
}

static void fail_all(const char *model) {
  static const way ways[] = {
      {"fail_alloc", "", 2, false},    {"fail_pinned", "", 0, false},  {"fail_copy", "", 3, false},
      {"fail_copy", ",late", 3, true}, {"fail_compute", "", 1, false}, {"fail_compute", ",late", 1, true},
      {"fail_event", "", 0, false},    {"fail_stream", "", 1, false},
  };
  static const char *const calls[] = {"cudnnCreateDropoutDescriptor",
                                      "cudnnDropoutGetStatesSize",
                                      "cudnnSetDropoutDescriptor",
                                      "cudnnCreateTensorDescriptor",
                                      "cudnnSetTensorNdDescriptor",
                                      "cudnnGetTensorNdDescriptor",
                                      "cudnnCreateRNNDescriptor",
                                      "cudnnSetRNNDescriptor_v8",
                                      "cudnnGetRNNWeightParams",
                                      "cudnnCreateRNNDataDescriptor",
                                      "cudnnSetRNNDataDescriptor",
                                      "cudnnGetRNNTempSpaceSizes",
                                      "cudnnRNNForward"};
  for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
    fail_each(model, &ways[i], false);
    fail_each(model, &ways[i], true);
  }
  for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
    char conditions[64];
    snprintf(conditions, sizeof conditions, ",name:%s", calls[i]);
    const way by_call = {"fail_call", conditions, 1, false};
    fail_each(model, &by_call, i % 2 == 1);
  }
}

static void a_failure_inside_an_lstm_does_not_end_the_process(void **state) {
  (void)state;
  fail_all("recurrent");
}

static void a_failure_inside_a_gru_does_not_end_the_process(void **state) {
  (void)state;
  fail_all("recurrent cell=GRU");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_failure_inside_an_lstm_does_not_end_the_process),
    cmocka_unit_test(a_failure_inside_a_gru_does_not_end_the_process),
};

FIXTURE_MAIN(tests, start, stop);
