/* soak_test DEVICE RUNS [SEED]: asynchronous runs of many bindings on a few streams, in an order of chance, while bindings, tensors,
 * events and streams are destroyed under them, and another thread asks for their events, waits for them and cancels. */
#define _POSIX_C_SOURCE 200809L /* nanosleep */
#include "fixture.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "vdev.h"
#include "../rig/calls.h"

enum { LANES = 8, STREAMS = 3, COUNT = 16 };

typedef struct lane {
  iobind_binding *binding;
  iobind_event *event;
  size_t stream;         /* of its last run */
  bool has_run;          /* since it was bound or looked at */
  float value;           /* of every element of its input */
  iobind_event *arrival; /* of what is read into `got` */
  size_t reader;         /* the stream of that */
  bool reading;
  float wanted;
  float got[COUNT];
} lane;

static iobind_runtime *runtime;
static iobind_device *device;
static iobind_device *cpu;
static iobind_session *session;
static iobind_stream *streams[STREAMS];
static lane lanes[LANES];
static pthread_mutex_t alive = PTHREAD_MUTEX_INITIALIZER; /* held to destroy a binding or an event, or to ask one */
static atomic_bool over;
static uint64_t chance;
static struct { uint64_t started, refused, right, cancelled, abandoned, passed, read; } runs;
static atomic_int wrapped, deleted;

static size_t pick(size_t below) {
  chance ^= chance << 13;
  chance ^= chance >> 7;
  chance ^= chance << 17;
  return (size_t)(chance % below);
}

/* Only these statuses are allowed: a cancelled run also fails the later work on a worker's stream. */
static bool well(iobind_status status, const char *what) {
  if (status != IOBIND_OK && status != IOBIND_ERROR_CANCELLED) {
    print_error("%s: %s\n", what, fault.message);
    fail();
  }
  return status == IOBIND_OK;
}

static void synchronize(size_t index) {
  fault = (iobind_error)IOBIND_ERROR_INIT;
  (void)well(iobind_stream_synchronize(streams[index], &fault), "synchronize");
}

static void forget(void *context, void *data) {
  (void)context;
  free(data);
  atomic_fetch_add(&deleted, 1);
}

/* On the host one whose deleter shows when its memory is released; a device has counters. */
static iobind_tensor *make_input(float value) {
  static const int64_t dims[1] = {COUNT};
  float values[COUNT];
  for (int i = 0; i < COUNT; i++) {
    values[i] = value;
  }
  if (device != cpu) {
    return fixture_floats(device, values, COUNT);
  }
  iobind_tensor *tensor;
  float *data = malloc(sizeof values);
  assert_non_null(data);
  memcpy(data, values, sizeof values);
  expect_ok(call_tensor_wrap(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 1, data, sizeof values, forget, NULL,
                             &tensor, &fault));
  wrapped++;
  return tensor;
}

/* A binding that holds the only references to its tensors. */
static void renew(lane *self) {
  static const int modes[] = {IOBIND_OUTPUT_FRESH, IOBIND_OUTPUT_REUSE, OUTPUT_FIXED};
  runs.abandoned += self->has_run;
  iobind_binding *binding;
  self->value = (float)pick(1000);
  iobind_tensor *x = make_input(self->value);
  int mode = modes[pick(3)];
  iobind_tensor *y = mode == OUTPUT_FIXED ? make_input(0) : NULL;
  expect_ok(iobind_binding_create(session, &binding, &fault));
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
  expect_ok(call_binding_set_output(binding, 0, mode, y == NULL ? device : NULL, IOBIND_MEMORY_DEFAULT, y, &fault));
  iobind_tensor_release(x);
  iobind_tensor_release(y);
  pthread_mutex_lock(&alive);
  iobind_binding_destroy(self->binding); /* in flight or not */
  self->binding = binding;
  pthread_mutex_unlock(&alive);
  self->has_run = false;
}

static void renew_event(lane *self) {
  iobind_event *event;
  expect_ok(iobind_event_create(device, &event, &fault));
  pthread_mutex_lock(&alive);
  iobind_event_destroy(self->event);
  self->event = event;
  pthread_mutex_unlock(&alive);
}

static void renew_stream(size_t index) {
  synchronize(index);
  iobind_stream_destroy(streams[index]); /* while the other thread asks for its events */
  expect_ok(iobind_stream_create(device, NULL, &streams[index], &fault));
}

/* The run's output, which is waited for: right, or the run was cancelled. */
static void land(lane *self) {
  if (!self->has_run) {
    return;
  }
  iobind_tensor *output;
  fault = (iobind_error)IOBIND_ERROR_INIT;
  self->has_run = false;
  if (!well(iobind_binding_get_output(self->binding, 0, NULL, &output, &fault), "get_output")) {
    runs.cancelled++;
    synchronize(self->stream);
    return;
  }
  float values[COUNT];
  for (int i = 0; i < COUNT; i++) {
    values[i] = 2 * self->value;
  }
  fixture_expect_floats(output, values, COUNT);
  runs.right++;
}

static void start(lane *self) {
  if (self->has_run && pick(4) > 0) {
    land(self);
  }
  size_t stream = pick(STREAMS);
  fault = (iobind_error)IOBIND_ERROR_INIT;
  iobind_status status = call_binding_run(self->binding, streams[stream], pick(2) > 0 ? self->event : NULL, &fault);
  if (self->has_run && status == IOBIND_ERROR_INVALID_STATE) {
    runs.refused++; /* the last one has not been seen to pass */
    return;
  }
  runs.passed += self->has_run; /* the other thread has seen it pass */
  runs.started++;
  self->stream = stream;
  self->has_run = well(status, "run");
  if (!self->has_run) {
    runs.cancelled++;
    synchronize(stream);
  }
}

static void rewrite(lane *self) {
  land(self);
  float values[COUNT];
  self->value = (float)pick(1000);
  for (int i = 0; i < COUNT; i++) {
    values[i] = self->value;
  }
  expect_ok(iobind_binding_write_input(self->binding, 0, values, sizeof values, NULL, &fault));
}

static void wait_or_ask(lane *self) {
  int32_t done;
  fault = (iobind_error)IOBIND_ERROR_INIT;
  (void)(pick(2) > 0 ? well(iobind_event_wait(self->event, IOBIND_NO_TIMEOUT, &fault), "event_wait")
                     : well(iobind_event_query(self->event, &done, &fault), "event_query"));
}

/* Data that were read have arrived when the event is signaled, and not before. */
static void look(lane *self) {
  int32_t done = 0;
  fault = (iobind_error)IOBIND_ERROR_INIT;
  bool good = pick(2) > 0 ? well(iobind_event_wait(self->arrival, IOBIND_NO_TIMEOUT, &fault), "wait for a read")
                          : well(iobind_event_query(self->arrival, &done, &fault), "query of a read") && done == 1;
  for (int i = 0; i < COUNT && good; i++) {
    assert_true(self->got[i] == self->wanted);
  }
  if (good) {
    runs.read++;
    self->reading = false;
  } else if (fault.status != IOBIND_OK) {
    synchronize(self->reader); /* after a cancelled run */
    self->reading = false;
  }
}

/* Read into host memory on a stream, from a tensor that is released at once. */
static void read_slate(lane *self) {
  if (self->reading) {
    look(self);
    return;
  }
  self->wanted = (float)pick(1000);
  self->reader = pick(STREAMS);
  memset(self->got, 0xFF, sizeof self->got);
  iobind_tensor *slate = make_input(self->wanted);
  fault = (iobind_error)IOBIND_ERROR_INIT;
  self->reading = well(iobind_tensor_read(slate, 0, self->got, sizeof self->got, streams[self->reader], &fault), "read");
  iobind_tensor_release(slate);
  if (self->reading) {
    expect_ok(iobind_event_record(self->arrival, streams[self->reader], &fault));
  } else {
    synchronize(self->reader);
  }
}

static void step(void) {
  lane *self = &lanes[pick(LANES)];
  switch (pick(16)) {
    case 0: renew(self); break;
    case 1: renew_event(self); break;
    case 2: renew_stream(pick(STREAMS)); break;
    case 3: rewrite(self); break;
    case 4: expect_ok(iobind_binding_cancel(self->binding, &fault)); break;
    case 5: land(self); break;
    case 6: wait_or_ask(self); break;
    case 7: synchronize(pick(STREAMS)); break;
    case 8:
    case 9: read_slate(self); break;
    default: start(self); break;
  }
}

/* The other thread: asks for any lane's event, waits for it, and now and then cancels. */
static void *ask(void *context) {
  static const struct timespec moment = {0, 20000};
  bool *good = context;
  for (size_t i = 0; !atomic_load(&over); i++) {
    int32_t done;
    pthread_mutex_lock(&alive);
    lane *self = &lanes[i * 5 % LANES];
    iobind_status status = i % 7 == 0    ? iobind_event_wait(self->event, IOBIND_NO_TIMEOUT, NULL)
                           : i % 31 == 0 ? iobind_binding_cancel(self->binding, NULL)
                                         : iobind_event_query(self->event, &done, NULL);
    pthread_mutex_unlock(&alive);
    *good = *good && (status == IOBIND_OK || status == IOBIND_ERROR_CANCELLED);
    (void)nanosleep(&moment, NULL);
  }
  return NULL;
}

static void soak(uint64_t wanted) {
  pthread_t asker;
  bool good = true;
  for (size_t i = 0; i < STREAMS; i++) {
    expect_ok(iobind_stream_create(device, NULL, &streams[i], &fault));
  }
  for (size_t i = 0; i < LANES; i++) {
    renew(&lanes[i]);
    renew_event(&lanes[i]);
    expect_ok(iobind_event_create(device, &lanes[i].arrival, &fault));
  }
  assert_int_equal(pthread_create(&asker, NULL, ask, &good), 0);
  while (runs.started < wanted) {
    step();
  }
  atomic_store(&over, true);
  assert_int_equal(pthread_join(asker, NULL), 0);
  assert_true(good);
  for (size_t i = 0; i < LANES; i++) {
    if (i % 2 == 0) {
      land(&lanes[i]);
    }
    runs.abandoned += lanes[i].has_run;
    iobind_binding_destroy(lanes[i].binding); /* half of them in flight */
    iobind_event_destroy(lanes[i].event);
  }
  for (size_t i = 0; i < LANES; i++) {
    if (lanes[i].reading) {
      look(&lanes[i]);
    }
    iobind_event_destroy(lanes[i].arrival);
  }
  for (size_t i = 0; i < STREAMS; i++) {
    iobind_stream_destroy(streams[i]); /* reads in flight are complete now */
  }
  assert_true(runs.read > 0);
}

static uint64_t arguments[2] = {1000, 1};

static void nothing_is_lost(void **state) {
  runtime = fixture_runtime();
  cpu = iobind_runtime_get_device(runtime, 0);
  device = fixture_device(runtime, *state);
  bool on_vdev = device != cpu;
  chance = 0x9E3779B97F4A7C15u * (2 * arguments[1] + 1);
  session = fixture_session(runtime, device, "scale");
  if (on_vdev) {
    assert_int_equal(vdev_set(0, "race", "fail"), 0);
    assert_int_equal(vdev_set(0, "compute_us", "20"), 0);
    assert_int_equal(vdev_reset(0), 0);
  }
  int64_t live = on_vdev ? vdev_get(0, "live_bytes") : 0;
  soak(arguments[0]);
  print_message("%s, seed %" PRIu64 ": %" PRIu64 " runs: %" PRIu64 " right, %" PRIu64 " passed and run again, %" PRIu64
                " cancelled, %" PRIu64 " abandoned; %" PRIu64 " refused and %" PRIu64 " reads besides\n",
                (const char *)*state, arguments[1], runs.started, runs.right, runs.passed, runs.cancelled, runs.abandoned,
                runs.refused, runs.read);
  assert_int_equal(runs.right + runs.passed + runs.cancelled + runs.abandoned, runs.started);
  assert_int_equal(atomic_load(&deleted), atomic_load(&wrapped));
  if (on_vdev) { /* a run that was cancelled may have been submitted, every other one was, once */
    assert_in_range(vdev_get(0, "kernels"), runs.started - runs.cancelled, runs.started);
    assert_int_equal(vdev_get(0, "live_bytes"), live);
    assert_int_equal(vdev_get(0, "races"), 0);
    assert_int_equal(vdev_get(0, "errors"), 0);
  }
  iobind_session_destroy(session);
  iobind_runtime_destroy(runtime);
}

int main(int argc, char **argv) {
  for (int i = 2; i < argc && i < 4; i++) {
    arguments[i - 2] = strtoull(argv[i], NULL, 10);
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_prestate(nothing_is_lost, argc > 1 ? argv[1] : (char[]){"vdev"}),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
