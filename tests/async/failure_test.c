/* Failures in the middle of an asynchronous run or a pipeline: which calls return them, what is lost, and that all works afterwards. A row
 * that is not in a table fails a run when it is looked up, long after the call has returned. */
#define _GNU_SOURCE /* gettid, nanosleep */
#include "stage.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "gate.h"
#include "models.h"
#include "vdev.h"
#include "../rig/calls.h"

enum { COLUMNS = 4, MISSING = 99, ITEMS = 5, BAD = 2 };

static int start(void **state) {
  (void)stage_open(state);
  if (is_device("vdev")) {
    assert_int_equal(vdev_set(0, "compute_us", "2000"), 0); /* so that a run is done after its call */
  }
  return 0;
}

static int stop(void **state) {
  if (is_device("vdev")) {
    assert_int_equal(vdev_set(0, "compute_us", "0"), 0);
  }
  return stage_close(state);
}

static iobind_tensor *make_index(iobind_device *where, int64_t row) {
  static const int64_t one = 1;
  iobind_tensor *tensor;
  expect_ok(iobind_tensor_create(where, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_INT64, &one, 1, &tensor, &fault));
  expect_ok(iobind_tensor_write(tensor, 0, &row, sizeof row, NULL, &fault));
  return tensor;
}

/* ---- runs ---- */

typedef struct asked {
  iobind_session *session;
  iobind_binding *binding;
  iobind_stream *stream;
  iobind_event *event;
} asked;

static asked submit_bad_run(void) {
  asked one;
  one.session = fixture_session(runtime, device, "lookup");
  iobind_tensor *index = make_index(device, MISSING);
  expect_ok(iobind_stream_create(device, NULL, &one.stream, &fault));
  expect_ok(iobind_event_create(device, &one.event, &fault));
  expect_ok(iobind_binding_create(one.session, &one.binding, &fault));
  expect_ok(iobind_binding_set_input(one.binding, 0, IOBIND_INPUT_RESIDENT, index, NULL, &fault));
  iobind_tensor_release(index);
  expect_ok(call_binding_run(one.binding, one.stream, one.event, &fault));
  return one;
}

static void expect_row(iobind_binding *binding, iobind_tensor *expected) {
  iobind_tensor *output;
  float rows[2][COLUMNS];
  expect_ok(iobind_binding_get_output(binding, 0, NULL, &output, &fault));
  expect_ok(iobind_tensor_read(output, 0, rows[0], sizeof rows[0], NULL, &fault));
  expect_ok(iobind_tensor_read(expected, 0, rows[1], sizeof rows[1], NULL, &fault));
  assert_memory_equal(rows[0], rows[1], sizeof rows[0]);
}

/* The row without a stream, by another binding, is what the one with it must give. */
static void works_again(asked *one) {
  iobind_binding *plain;
  iobind_tensor *expected;
  int64_t row = 3;
  iobind_tensor *index = make_index(device, row);
  expect_ok(iobind_stream_synchronize(one->stream, &fault)); /* it has got the failure */
  expect_ok(iobind_binding_create(one->session, &plain, &fault));
  expect_ok(iobind_binding_set_input(plain, 0, IOBIND_INPUT_RESIDENT, index, NULL, &fault));
  iobind_tensor_release(index);
  expect_ok(iobind_binding_run(plain, NULL, &fault));
  expect_ok(iobind_binding_take_output(plain, 0, &expected, &fault));
  iobind_binding_destroy(plain);
  expect_ok(iobind_binding_write_input(one->binding, 0, &row, sizeof row, NULL, &fault));
  expect_ok(call_binding_run(one->binding, one->stream, one->event, &fault));
  expect_ok(iobind_event_wait(one->event, IOBIND_NO_TIMEOUT, &fault));
  expect_row(one->binding, expected);
  iobind_tensor_release(expected);
  iobind_binding_destroy(one->binding);
  iobind_event_destroy(one->event);
  iobind_stream_destroy(one->stream);
  iobind_session_destroy(one->session);
}

static iobind_status ask(iobind_event *event) {
  static const struct timespec moment = {0, 100000};
  int32_t done = 0;
  iobind_status status = IOBIND_OK;
  while (done == 0 && status == IOBIND_OK) {
    (void)nanosleep(&moment, NULL);
    fixture_arm();
    status = iobind_event_query(event, &done, &fault);
  }
  assert_int_equal(done, 1);
  return status;
}

/* All of them report the failure, in any order of asking. */
static void everyone_is_told(void **state) {
  (void)state;
  for (int first = 0; first < 3; first++) {
    asked one = submit_bad_run();
    iobind_tensor *output;
    for (int turn = 0; turn < 3; turn++) {
      switch ((first + turn) % 3) {
        case 0: expect(IOBIND_ERROR_RUNTIME, iobind_event_wait(one.event, IOBIND_NO_TIMEOUT, &fault)); break;
        case 1: expect(IOBIND_ERROR_RUNTIME, iobind_binding_get_output(one.binding, 0, NULL, &output, &fault)); break;
        default: expect(IOBIND_ERROR_RUNTIME, ask(one.event)); break;
      }
      expect_words("indices");
    }
    expect_ok(iobind_binding_set_run_options(one.binding, NULL, &fault)); /* the binding has seen the end of its run */
    expect(IOBIND_ERROR_RUNTIME, iobind_binding_get_output(one.binding, 0, NULL, &output, &fault));
    expect_words("indices");
    expect(IOBIND_ERROR_RUNTIME, iobind_stream_synchronize(one.stream, &fault)); /* last: it works again then */
    works_again(&one);
  }
}

/* A stream that fails repeatedly keeps each failure: each binding gets the outcome of its own run, however late it asks. */
static void told_late(void **state) {
  (void)state;
  enum { RUNS = 12, GOOD = RUNS - 1 };
  iobind_session *session = fixture_session(runtime, device, "lookup");
  iobind_binding *bindings[RUNS];
  iobind_stream *stream;
  iobind_tensor *output;
  expect_ok(iobind_stream_create(device, NULL, &stream, &fault));
  for (int i = 0; i < RUNS; i++) {
    iobind_tensor *index = make_index(device, i == GOOD ? 3 : MISSING);
    expect_ok(iobind_binding_create(session, &bindings[i], &fault));
    expect_ok(iobind_binding_set_input(bindings[i], 0, IOBIND_INPUT_RESIDENT, index, NULL, &fault));
    iobind_tensor_release(index);
    expect_ok(iobind_binding_run(bindings[i], stream, &fault));
    expect(i == GOOD ? IOBIND_OK : IOBIND_ERROR_RUNTIME, iobind_stream_synchronize(stream, &fault));
  }
  for (int i = 0; i < RUNS; i++) {
    expect(i == GOOD ? IOBIND_OK : IOBIND_ERROR_RUNTIME, iobind_binding_get_output(bindings[i], 0, NULL, &output, &fault));
    iobind_binding_destroy(bindings[i]);
  }
  iobind_stream_destroy(stream);
  iobind_session_destroy(session);
}

static void expect_lost(iobind_status status) {
  assert_true(status == IOBIND_OK ||
              status == IOBIND_ERROR_RUNTIME); /* if the failure is known already, the call itself returns it */
  if (status != IOBIND_OK) {
    expect_words("indices");
  }
}

/* Work after a failure on a thread's stream is not done: no copy, no wait, no run. The accelerator delays the stream, so
 * that all of it is submitted before the failure occurs. */
static void behind_a_failure(void **state) {
  (void)state;
  static const float before[2] = {1, 2};
  static const float after[2] = {3, 4};
  float read[2] = {5, 6};
  iobind_stream *slow;
  iobind_event *held;
  iobind_event *end;
  iobind_tensor *remote = fixture_floats(device, before, 2);
  iobind_tensor *pinned;
  const int64_t dims[1] = {2};
  iobind_tensor *written = fixture_floats(cpu, before, 2);
  iobind_tensor *target = fixture_floats(cpu, before, 2);
  iobind_tensor *fresh = fixture_floats(cpu, after, 2);
  const iobind_tensor *sources[2] = {remote, fresh};
  iobind_tensor *index = make_index(cpu, MISSING);
  iobind_session *session = fixture_session(runtime, NULL, "lookup");
  iobind_binding *bindings[2];
  iobind_stream *stream;
  expect_ok(iobind_tensor_create(device, IOBIND_MEMORY_HOST_ACCESSIBLE, IOBIND_DTYPE_FLOAT32, dims, 1, &pinned, &fault));
  expect_ok(iobind_stream_create(device, NULL, &slow, &fault));
  expect_ok(iobind_event_create(device, &held, &fault));
  expect_ok(iobind_event_create(cpu, &end, &fault));
  expect_ok(iobind_stream_create(cpu, NULL, &stream, &fault));
  for (int i = 0; i < 2; i++) {
    expect_ok(iobind_binding_create(session, &bindings[i], &fault));
    expect_ok(iobind_binding_set_input(bindings[i], 0, IOBIND_INPUT_RESIDENT, index, NULL, &fault));
  }
  assert_int_equal(vdev_set(0, "latency_us", "100000"), 0);
  expect_ok(iobind_tensor_copy(sources, &pinned, 1, slow, &fault));
  expect_ok(iobind_event_record(held, slow, &fault));
  expect_ok(iobind_stream_wait(stream, held, &fault));
  expect_ok(iobind_binding_run(bindings[0], stream, &fault));
  fixture_arm();
  expect_lost(iobind_tensor_write(written, 0, after, sizeof after, stream, &fault));
  fixture_arm();
  expect_lost(iobind_tensor_read(fresh, 0, read, sizeof read, stream, &fault));
  fixture_arm();
  expect_lost(iobind_tensor_copy(sources + 1, &target, 1, stream, &fault));
  fixture_arm();
  expect_lost(iobind_stream_wait(stream, held, &fault));
  fixture_arm();
  expect_lost(iobind_binding_run(bindings[1], stream, &fault));
  expect_ok(iobind_event_record(end, stream, &fault));
  expect(IOBIND_ERROR_RUNTIME, iobind_event_wait(end, IOBIND_NO_TIMEOUT, &fault));
  expect_words("indices");
  expect(IOBIND_ERROR_RUNTIME, iobind_stream_synchronize(stream, &fault));
  expect_words("indices");
  fixture_expect_floats(written, before, 2);
  fixture_expect_floats(target, before, 2);
  assert_true(read[0] == 5 && read[1] == 6);
  expect_ok(iobind_stream_synchronize(stream, &fault));
  expect_ok(iobind_tensor_write(written, 0, after, sizeof after, stream, &fault));
  expect_ok(iobind_stream_synchronize(stream, &fault));
  fixture_expect_floats(written, after, 2);
  assert_int_equal(vdev_set(0, "latency_us", "0"), 0);
  for (int i = 0; i < 2; i++) {
    iobind_binding_destroy(bindings[i]);
  }
  iobind_tensor_release(remote);
  iobind_tensor_release(pinned);
  iobind_tensor_release(written);
  iobind_tensor_release(target);
  iobind_tensor_release(fresh);
  iobind_tensor_release(index);
  iobind_event_destroy(held);
  iobind_event_destroy(end);
  iobind_stream_destroy(slow);
  iobind_stream_destroy(stream);
  iobind_session_destroy(session);
}

/* ---- eight runs on one stream, one of which fails ---- */

enum { RUNS = 8 };

typedef struct flock {
  iobind_session *session;
  iobind_stream *stream;
  iobind_binding *bindings[RUNS];
  iobind_event *events[RUNS]; /* NULL: the run has none */
  float expected[COLUMNS];    /* of each run but the bad one */
} flock;

/* The row without a stream, by a binding of its own. */
static void find_row(flock *self, int64_t row) {
  iobind_binding *plain;
  iobind_tensor *output;
  iobind_tensor *index = make_index(device, row);
  expect_ok(iobind_binding_create(self->session, &plain, &fault));
  expect_ok(iobind_binding_set_input(plain, 0, IOBIND_INPUT_RESIDENT, index, NULL, &fault));
  iobind_tensor_release(index);
  expect_ok(iobind_binding_run(plain, NULL, &fault));
  expect_ok(iobind_binding_get_output(plain, 0, NULL, &output, &fault));
  expect_ok(iobind_tensor_read(output, 0, self->expected, sizeof self->expected, NULL, &fault));
  iobind_binding_destroy(plain);
}

/* in_turn: the runs before the bad one have been waited for when that is submitted. */
static flock submit_flock(int bad, bool with_events, bool in_turn) {
  flock self = {.session = fixture_session(runtime, device, "lookup")};
  find_row(&self, 2);
  expect_ok(iobind_stream_create(device, NULL, &self.stream, &fault));
  for (int i = 0; i < RUNS; i++) {
    iobind_tensor *index = make_index(device, i == bad ? MISSING : 2);
    if (with_events) {
      expect_ok(iobind_event_create(device, &self.events[i], &fault));
    }
    expect_ok(iobind_binding_create(self.session, &self.bindings[i], &fault));
    expect_ok(iobind_binding_set_input(self.bindings[i], 0, IOBIND_INPUT_RESIDENT, index, NULL, &fault));
    iobind_tensor_release(index);
  }
  for (int i = 0; i < RUNS; i++) {
    for (int before = 0; in_turn && i == bad && before < bad; before++) {
      expect_ok(iobind_event_wait(self.events[before], IOBIND_NO_TIMEOUT, &fault));
    }
    fixture_arm();
    iobind_status status = call_binding_run(self.bindings[i], self.stream, self.events[i], &fault);
    if (status != IOBIND_OK) { /* it has failed already, and the EP takes no more */
      assert_true(i > bad && status == IOBIND_ERROR_RUNTIME);
    }
  }
  return self;
}

/* Whatever is given out is right, and nothing of the bad one is. */
static void expect_flock(flock *self, int bad) {
  for (int i = 0; i < RUNS; i++) {
    iobind_tensor *output;
    fixture_arm();
    if (iobind_binding_get_output(self->bindings[i], 0, NULL, &output, &fault) == IOBIND_OK) {
      float row[COLUMNS];
      assert_int_not_equal(i, bad);
      expect_ok(iobind_tensor_read(output, 0, row, sizeof row, NULL, &fault));
      assert_memory_equal(row, self->expected, sizeof row);
    } else {
      assert_null(output);
      assert_true(i == bad || strstr(fault.message, "indices") != NULL || strstr(fault.message, "no run") != NULL);
    }
  }
}

static void end_flock(flock *self) {
  for (int i = 0; i < RUNS; i++) {
    iobind_binding_destroy(self->bindings[i]);
    iobind_event_destroy(self->events[i]);
  }
  iobind_stream_destroy(self->stream);
  iobind_session_destroy(self->session);
}

/* An event of a run before the failed one is OK, that of the failed one never, in any order of the queries. */
static void one_of_eight(void **state) {
  (void)state;
  static const int orders[][RUNS] = {{0, 1, 2, 3, 4, 5, 6, 7}, {7, 6, 5, 4, 3, 2, 1, 0}, {3, 7, 5, 1, 4, 0, 6, 2}};
  for (int bad = 0; bad < RUNS; bad += 3) {
    for (size_t order = 0; order < sizeof orders / sizeof orders[0]; order++) {
      flock self = submit_flock(bad, true, order == 0);
      for (int i = 0; i < RUNS; i++) {
        int run = orders[order][i];
        fixture_arm();
        iobind_status status =
            order == 1 ? ask(self.events[run]) : iobind_event_wait(self.events[run], IOBIND_NO_TIMEOUT, &fault);
        assert_true(run != bad || status == IOBIND_ERROR_RUNTIME);
        assert_true(order != 0 || run >= bad || status == IOBIND_OK);
      }
      for (int run = 0; order == 0 && run < bad; run++) {
        expect_ok(iobind_event_wait(self.events[run], IOBIND_NO_TIMEOUT,
                                    &fault)); /* after the failure, too: what was waited for stays good */
      }
      expect_flock(&self, bad);
      end_flock(&self);
    }
  }
}

/* No run has an event, and something else on the stream meets the failure first. */
static void one_of_eight_met_by_another(void **state) {
  (void)state;
  static const float ones[COLUMNS] = {1, 1, 1, 1};
  for (int what = 0; what < 4; what++) {
    flock self = submit_flock(3, false, false);
    iobind_tensor *tensor = fixture_floats(device, ones, COLUMNS);
    iobind_tensor *on_host = fixture_floats(cpu, ones, COLUMNS);
    const iobind_tensor *sources[1] = {tensor};
    float values[COLUMNS] = {0};
    fixture_arm();
    switch (what) {
      case 0: (void)!iobind_tensor_write(tensor, 0, ones, sizeof ones, self.stream, &fault); break;
      case 1: (void)!iobind_tensor_copy(sources, &on_host, 1, self.stream, &fault); break;
      case 2: (void)!iobind_tensor_read(tensor, 0, values, sizeof values, self.stream, &fault); break;
      default: expect(IOBIND_ERROR_RUNTIME, iobind_stream_synchronize(self.stream, &fault)); break;
    }
    expect_flock(&self, 3);
    end_flock(&self);
    iobind_tensor_release(tensor);
    iobind_tensor_release(on_host);
  }
}

/* A fault that the accelerator injects on request: that run returns it, and the seven others are right. */
static void one_of_eight_by_name(void **state) {
  (void)state;
  if (!is_device("vdev")) {
    skip(); /* where a node can be made to fail */
  }
  for (int bad = 0; bad < RUNS; bad += 3) {
    flock self = {.session = fixture_session(runtime, device, "lookup")};
    char which[32];
    find_row(&self, 2);
    expect_ok(iobind_stream_create(device, NULL, &self.stream, &fault));
    for (int i = 0; i < RUNS; i++) {
      iobind_tensor *index = make_index(device, 2);
      expect_ok(iobind_binding_create(self.session, &self.bindings[i], &fault));
      expect_ok(iobind_binding_set_input(self.bindings[i], 0, IOBIND_INPUT_RESIDENT, index, NULL, &fault));
      iobind_tensor_release(index);
    }
    (void)snprintf(which, sizeof which, "%d,name:Gather", bad + 1);
    assert_int_equal(vdev_set(0, "fail_compute", which), 0);
    for (int i = 0; i < RUNS; i++) {
      expect(i == bad ? IOBIND_ERROR_RUNTIME : IOBIND_OK, iobind_binding_run(self.bindings[i], self.stream, &fault));
    }
    for (int i = 0; i < RUNS; i++) {
      iobind_tensor *output;
      float row[COLUMNS];
      if (i == bad) {
        expect(IOBIND_ERROR_INVALID_STATE, iobind_binding_get_output(self.bindings[i], 0, NULL, &output, &fault));
        continue;
      }
      expect_ok(iobind_binding_get_output(self.bindings[i], 0, NULL, &output, &fault));
      expect_ok(iobind_tensor_read(output, 0, row, sizeof row, NULL, &fault));
      assert_memory_equal(row, self.expected, sizeof row);
    }
    end_flock(&self);
  }
}

/* Data that are read after a failed run do not reach the caller's memory. */
static void read_behind_a_failure(void **state) {
  (void)state;
  static const float ones[COLUMNS] = {1, 1, 1, 1};
  float target[COLUMNS] = {-1, -1, -1, -1};
  asked one = submit_bad_run();
  iobind_tensor *tensor = fixture_floats(device, ones, COLUMNS);
  fixture_arm();
  iobind_status status = iobind_tensor_read(tensor, 0, target, sizeof target, one.stream, &fault);
  assert_true(status == IOBIND_OK || status == IOBIND_ERROR_RUNTIME); /* the EP may know by now */
  expect_ok(iobind_event_record(one.event, one.stream, &fault));
  expect(IOBIND_ERROR_RUNTIME, iobind_event_wait(one.event, IOBIND_NO_TIMEOUT, &fault));
  for (int i = 0; i < COLUMNS; i++) {
    assert_true(target[i] == -1);
  }
  expect(IOBIND_ERROR_RUNTIME, iobind_stream_synchronize(one.stream, &fault));
  expect_ok(iobind_tensor_read(tensor, 0, target, sizeof target, one.stream, &fault));
  expect_ok(iobind_stream_synchronize(one.stream, &fault));
  assert_memory_equal(target, ones, sizeof ones);
  iobind_tensor_release(tensor);
  works_again(&one);
}

/* No wait returns the failure of a binding whose run no thread waits for. */
static void given_up(void **state) {
  (void)state;
  asked one = submit_bad_run();
  iobind_binding_destroy(one.binding);
  iobind_session_destroy(one.session);
  iobind_event_destroy(one.event);
  expect(IOBIND_ERROR_RUNTIME, iobind_stream_synchronize(one.stream, &fault));
  expect_ok(iobind_stream_synchronize(one.stream, &fault));
  iobind_stream_destroy(one.stream);
}

/* An event outlives its stream, and is signaled then. */
static void event_of_a_stream_that_is_gone(void **state) {
  (void)state;
  iobind_stream *stream;
  iobind_event *event;
  int32_t done = 0;
  iobind_session *session = fixture_session(runtime, device, "scale");
  iobind_binding *binding;
  static const float ones[2] = {1, 1};
  iobind_tensor *x = fixture_floats(device, ones, 2);
  expect_ok(iobind_stream_create(device, NULL, &stream, &fault));
  expect_ok(iobind_event_create(device, &event, &fault));
  expect_ok(iobind_binding_create(session, &binding, &fault));
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
  expect_ok(call_binding_run(binding, stream, event, &fault));
  iobind_stream_destroy(stream);
  for (int i = 0; i < 2 && done == 0; i++) {
    expect_ok(iobind_event_query(event, &done, &fault)); /* on WebGPU the first one waits */
  }
  assert_int_equal(done, 1);
  expect_ok(iobind_event_wait(event, IOBIND_NO_TIMEOUT, &fault));
  iobind_binding_destroy(binding);
  iobind_session_destroy(session);
  iobind_tensor_release(x);
  iobind_event_destroy(event);
}

/* A run waits for an event that another run on a stream has yet to reach, on the device that both need: neither holds it while it
 * waits. */
static void run_behind_a_run(void **state) {
  (void)state;
  enum { ROUNDS = 20 };
  static const float ones[2] = {1, 1};
  static const float fours[2] = {4, 4};
  iobind_session *session = fixture_session(runtime, device, "scale");
  iobind_binding *bindings[2];
  iobind_stream *streams[2];
  iobind_event *event;
  iobind_tensor *tensors[3];
  expect_ok(iobind_event_create(device, &event, &fault));
  for (int i = 0; i < 3; i++) {
    tensors[i] = fixture_floats(device, ones, 2);
  }
  for (int i = 0; i < 2; i++) {
    expect_ok(iobind_stream_create(device, NULL, &streams[i], &fault));
    expect_ok(iobind_binding_create(session, &bindings[i], &fault));
    expect_ok(iobind_binding_set_input(bindings[i], 0, IOBIND_INPUT_RESIDENT, tensors[i], i == 1 ? event : NULL, &fault));
    expect_ok(iobind_binding_set_output(bindings[i], 0, tensors[i + 1], 0, &fault));
  }
  for (int i = 0; i < 2 * ROUNDS; i++) {
    expect_ok(call_binding_run(bindings[0], streams[0], event, &fault));
    expect_ok(iobind_binding_run(bindings[1], i < ROUNDS ? NULL : streams[1], &fault));
    expect_ok(iobind_stream_synchronize(streams[0], &fault));
    expect_ok(iobind_stream_synchronize(streams[1], &fault));
    fixture_expect_floats(tensors[2], fours, 2);
    expect_ok(iobind_tensor_write(tensors[2], 0, ones, sizeof ones, NULL, &fault));
  }
  for (int i = 0; i < 2; i++) {
    iobind_binding_destroy(bindings[i]);
    iobind_stream_destroy(streams[i]);
  }
  for (int i = 0; i < 3; i++) {
    iobind_tensor_release(tensors[i]);
  }
  iobind_event_destroy(event);
  iobind_session_destroy(session);
}

/* Two runs are in flight, and the one that reads 1 fails: the second one, which has read what the first one left, or the first one, after which
 * a thread of iobind makes no second one, so that the state is the one before both. */
static void chain_fails(int64_t first, iobind_carry_mode mode, iobind_status next) {
  iobind_session *session = fixture_session(runtime, device, "voices width=2 limit=1");
  iobind_binding *binding = stage_bind_voices(session);
  iobind_stream *stream;
  gate held;
  expect_ok(iobind_binding_write_input(binding, STAGE_VOICES_COUNT, &first, sizeof first, NULL, &fault));
  expect_ok(iobind_binding_carry(binding, STAGE_VOICES_COUNT, STAGE_VOICES_COUNT, mode, &fault));
  expect_ok(iobind_stream_create(device, NULL, &stream, &fault));
  gate_close(&held, stream);
  expect_ok(iobind_binding_run(binding, stream, &fault));
  expect_ok(iobind_binding_run(binding, stream, &fault));
  BEHIND_GATE(&held, IOBIND_ERROR_RUNTIME, iobind_stream_synchronize(stream, &fault));
  expect(next, iobind_binding_run(binding, NULL, &fault));
  iobind_binding_destroy(binding);
  iobind_stream_destroy(stream);
  iobind_session_destroy(session);
}

static void states_of_a_chain(void **state) {
  (void)state;
  for (int mode = IOBIND_CARRY_MOVE; mode <= IOBIND_CARRY_SWAP; mode++) {
    chain_fails(0, (iobind_carry_mode)mode, IOBIND_ERROR_INVALID_STATE);
    if (is_device("cpu")) {
      chain_fails(1, (iobind_carry_mode)mode, IOBIND_ERROR_RUNTIME);
    }
  }
}

/* ---- pipelines ---- */

static iobind_pipeline *make_pipeline(uint32_t flags) {
  iobind_pipeline_options options = IOBIND_PIPELINE_OPTIONS_INIT;
  iobind_pipeline *pipeline;
  iobind_session *session = fixture_session(runtime, device, "lookup");
  options.flags = flags;
  options.slots = ITEMS;
  expect_ok(call_pipeline_create(session, &options, &pipeline, &fault));
  iobind_session_destroy(session);
  return pipeline;
}

static void submit_row(iobind_pipeline *pipeline, int64_t row) {
  iobind_tensor *index = make_index(cpu, row);
  expect_ok(call_pipeline_submit(pipeline, &index, 1, &fault));
  iobind_tensor_release(index);
}

static void next_row(iobind_pipeline *pipeline, const float *expected) {
  iobind_tensor *output;
  expect_ok(iobind_pipeline_next(pipeline, IOBIND_NO_TIMEOUT, &output, 1, NULL, &fault));
  fixture_expect_floats(output, expected, COLUMNS);
}

/* Five items at a time, the third one fails: by a fault that the accelerator meets when it is asked (`setting`), or (NULL) by a row
 * that is not there, which a run meets long after. */
typedef struct trial {
  const char *setting, *value;
  bool stops;
  bool vague; /* a stream of the accelerator reports a failure to the first query, and not which of its runs has failed */
  int submitted;
  float row[COLUMNS];
} trial;

static void submit_items(trial *self, iobind_pipeline *pipeline) {
  for (; self->submitted < ITEMS; self->submitted++) {
    iobind_tensor *index = make_index(cpu, self->submitted == BAD && self->setting == NULL ? MISSING : 1);
    if (self->submitted == BAD && self->setting != NULL) {
      assert_int_equal(vdev_set(0, self->setting, self->value), 0);
    }
    fixture_arm();
    iobind_status status = call_pipeline_submit(pipeline, &index, 1, &fault);
    iobind_tensor_release(index);
    if (self->stops && self->submitted > BAD && status == IOBIND_ERROR_INVALID_STATE) {
      expect_words("failed, and the pipeline stops");
      return;
    }
    assert_int_equal(status, IOBIND_OK);
  }
}

/* Returned items are right, failed ones return the failure, and with STOP no later one is returned. */
static void expect_item(trial *self, iobind_pipeline *pipeline, int i) {
  iobind_tensor *output;
  iobind_pipeline_item item = IOBIND_PIPELINE_ITEM_INIT;
  fixture_arm();
  iobind_status status = iobind_pipeline_next(pipeline, IOBIND_NO_TIMEOUT, &output, 1, &item, &fault);
  assert_int_equal(item.index, ITEMS + i);
  if (status == IOBIND_OK) {
    assert_true(i < BAD || (i > BAD && !self->stops));
    fixture_expect_floats(output, self->row, COLUMNS);
    return;
  }
  assert_null(output);
  if (!self->vague) {
    assert_int_equal(status, i == BAD ? IOBIND_ERROR_RUNTIME : IOBIND_ERROR_CANCELLED);
    assert_true(i >= BAD && (i == BAD || self->stops));
    expect_words(i == BAD ? "item 7: " : "item 7 failed");
  } else if (status == IOBIND_ERROR_CANCELLED) {
    assert_true(self->stops);
  } else {
    assert_int_equal(status, IOBIND_ERROR_RUNTIME);
    expect_words("indices");
  }
}

static void fail_one(const char *setting, const char *value, uint32_t flags) {
  trial self = {.setting = setting,
                .value = value,
                .stops = (flags & IOBIND_PIPELINE_STOP) != 0,
                .vague = is_device("vdev") && setting == NULL};
  iobind_pipeline *pipeline = make_pipeline(flags);
  iobind_tensor *output;
  for (int i = 0; i < ITEMS; i++) { /* each slot once: ONNX Runtime asks the accelerator what failed when an input is bound */
    submit_row(pipeline, 1);
    expect_ok(iobind_pipeline_next(pipeline, IOBIND_NO_TIMEOUT, &output, 1, NULL, &fault));
    expect_ok(iobind_tensor_read(output, 0, self.row, sizeof self.row, NULL, &fault));
  }
  submit_items(&self, pipeline);
  for (int i = 0; i < self.submitted; i++) {
    expect_item(&self, pipeline, i);
  }
  if (!self.stops) {
    submit_row(pipeline, 1);
    next_row(pipeline, self.row);
  }
  iobind_pipeline_destroy(pipeline);
  pipeline = make_pipeline(flags); /* the device works */
  submit_row(pipeline, 1);
  next_row(pipeline, self.row);
  iobind_pipeline_destroy(pipeline);
}

static void pipeline_fails(void **state) {
  (void)state;
  static const uint32_t flags[] = {0, IOBIND_PIPELINE_STOP, IOBIND_PIPELINE_TIMES,
                                   IOBIND_PIPELINE_STOP | IOBIND_PIPELINE_TIMES};
  for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
    fail_one(NULL, NULL, flags[i]);
    if (is_device("vdev")) {
      fail_one("fail_copy", "1", flags[i]);    /* the upload */
      fail_one("fail_compute", "1", flags[i]); /* the run */
      fail_one("fail_copy", "2", flags[i]);    /* the download */
    }
  }
}

/* Destroyed with a failure in flight. */
static void pipeline_given_up(void **state) {
  (void)state;
  iobind_pipeline *pipeline = make_pipeline(IOBIND_PIPELINE_TIMES);
  submit_row(pipeline, 1);
  submit_row(pipeline, MISSING);
  submit_row(pipeline, 1);
  iobind_pipeline_destroy(pipeline);
}

#define CASES(spec)                                                                                                         \
  {#spec ": everyone is told", everyone_is_told, start, stop, #spec}, {#spec ": told late", told_late, start, stop, #spec}, \
      {#spec ": one of eight", one_of_eight, start, stop, #spec},                                                           \
      {#spec ": one of eight met by another", one_of_eight_met_by_another, start, stop, #spec},                             \
      {#spec ": one of eight by name", one_of_eight_by_name, start, stop, #spec},                                           \
      {#spec ": read behind a failure", read_behind_a_failure, start, stop, #spec},                                         \
      {#spec ": given up", given_up, start, stop, #spec},                                                                   \
      {#spec ": event of a stream that is gone", event_of_a_stream_that_is_gone, start, stop, #spec},                       \
      {#spec ": run behind a run", run_behind_a_run, start, stop, #spec},                                                   \
      {#spec ": states of a chain", states_of_a_chain, start, stop, #spec},                                                 \
      {#spec ": pipeline fails", pipeline_fails, start, stop, #spec}, {                                                     \
#spec ": pipeline given up", pipeline_given_up, start, stop, #spec                                                      \
  }

static const struct CMUnitTest tests[] = {
    CASES(vdev),
    CASES(cpu),
    {"vdev: behind a failure", behind_a_failure, start, stop, "vdev"},
    {"webgpu: event of a stream that is gone", event_of_a_stream_that_is_gone, start, stop, "webgpu"},
    {"webgpu: run behind a run", run_behind_a_run, start, stop, "webgpu"},
    {"cuda: event of a stream that is gone", event_of_a_stream_that_is_gone, start, stop, "cuda"},
    {"cuda: run behind a run", run_behind_a_run, start, stop, "cuda"},
};

FIXTURE_MAIN_OF_DEVICES(tests);
