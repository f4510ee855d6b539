/* Streams and events on the real clock. What is done and what is not is asked of events, never of a clock. */
#include "rig.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 1000, LARGE = 1 << 22 };

/* A link on which COUNT floats take so long. */
static void set_upload_ms(int ms) {
  char rate[32];
  snprintf(rate, sizeof rate, "%.9f", ms == 0 ? 0.0 : COUNT * 4 / (ms * 1e6));
  rig_set("h2d_gbps", rate, NULL);
}

static int is_done(OrtSyncStream *stream) {
  vdev_event *event = vdev_event_create(0);
  assert_non_null(event);
  assert_int_equal(vdev_event_record(event, rig_native(stream)), 0);
  int done = vdev_event_query(event);
  vdev_event_destroy(event);
  return done;
}

/* Something that takes so long is submitted; was it seen to be in flight? False where this thread stood still for so long: then nothing
 * is known, and it may be tried again with more time. */
static bool is_seen_under_way(OrtSyncStream *stream, int64_t begin, int ms) {
  bool done = is_done(stream);
  bool in_time = rig_get("time_ns") - begin < ms * INT64_C(1000000);
  assert_true(!done || !in_time);
  assert_int_equal(vdev_stream_synchronize(rig_native(stream)), 0);
  return in_time;
}

static void test_pageable_waits_and_pinned_does_not(void **state) {
  (void)state;
  float data[COUNT] = {3};
  float back[COUNT] = {0};
  OrtSyncStream *stream = rig_stream(0);
  OrtValue *pageable = rig_host_tensor(data, COUNT);
  OrtValue *result = rig_host_tensor(back, COUNT);
  OrtValue *pinned = rig_pinned_tensor(0, COUNT);
  OrtValue *device = rig_device_tensor(0, COUNT);
  memset(rig_data(pinned), 0, sizeof data);
  bool seen = false;
  for (int ms = 100; !seen; ms *= 2) {
    set_upload_ms(ms);
    ok(rig_copy(pageable, device, stream));
    assert_int_equal(is_done(stream), 1);
    int64_t begin = rig_get("time_ns");
    ok(rig_copy(pinned, device, stream));
    seen = is_seen_under_way(stream, begin, ms);
    assert_int_equal(is_done(stream), 1);
  }
  ok(rig_copy(device, result, NULL));
  assert_true(back[0] == 0);
  set_upload_ms(0);
  OrtValue *values[] = {pageable, result, pinned, device};
  for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
    rig.api->ReleaseValue(values[i]);
  }
  rig.api->ReleaseSyncStream(stream);
}

static void test_run_is_asynchronous(void **state) {
  (void)state;
  float back[COUNT] = {0};
  OrtSession *session = rig_session("scale", 0);
  OrtSyncStream *stream = rig_stream(0);
  OrtValue *pinned = rig_pinned_tensor(0, COUNT);
  OrtValue *x = rig_device_tensor(0, COUNT);
  OrtValue *y = rig_device_tensor(0, COUNT);
  OrtValue *result = rig_host_tensor(back, COUNT);
  OrtIoBinding *binding = rig_binding(session, x, "y", y);
  ((float *)rig_data(pinned))[0] = 21;
  bool seen = false;
  for (int ms = 100; !seen; ms *= 2) {
    char wait[32];
    snprintf(wait, sizeof wait, "%d", 1000 * ms);
    rig_set("compute_us", wait, NULL);
    ok(rig_copy(pinned, x, stream));
    int64_t begin = rig_get("time_ns");
    ok(rig_run(session, binding, stream));
    seen = is_seen_under_way(stream, begin, ms);
  }
  ok(rig_run(session, binding, stream));
  ok(rig_copy(y, result, stream)); /* pageable: waits for the run before it */
  assert_int_equal(is_done(stream), 1);
  assert_true(back[0] == 42);
  rig_set("compute_us", "0", NULL);
  rig.api->ReleaseIoBinding(binding);
  OrtValue *values[] = {pinned, x, y, result};
  for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
    rig.api->ReleaseValue(values[i]);
  }
  rig.api->ReleaseSession(session);
  rig.api->ReleaseSyncStream(stream);
}

static void test_native_interface(void **state) {
  (void)state;
  assert_null(vdev_stream_create(7));
  assert_string_not_equal(vdev_last_error(), "");
  assert_null(vdev_stream_create(-1));
  assert_null(vdev_event_create(7));
  vdev_stream_destroy(NULL);
  vdev_event_destroy(NULL);
  vdev_stream *stream = vdev_stream_create(0);
  vdev_event *event = vdev_event_create(0);
  assert_non_null(stream);
  assert_non_null(event);
  assert_int_equal(vdev_event_query(event), 1); /* never recorded */
  assert_int_equal(vdev_event_wait(event), 0);
  assert_int_equal(vdev_stream_wait(stream, event), 0);
  assert_int_equal(vdev_event_record(event, stream), 0);
  assert_int_equal(vdev_stream_wait(stream, event), 0); /* its own */
  assert_int_equal(vdev_event_wait(event), 0);
  assert_int_equal(vdev_stream_synchronize(stream), 0);
  vdev_stream_destroy(stream);
  assert_int_equal(vdev_event_query(event), 1); /* of a stream that is gone */
  assert_int_equal(vdev_event_wait(event), 0);
  vdev_event_destroy(event);
}

/* Every function refuses what is not the library's, and says why. */
static void test_nothing_is_refused(void **state) {
  (void)state;
  vdev_stream *stream = vdev_stream_create(0);
  vdev_event *event = vdev_event_create(0);
  vdev_stream *gone = vdev_stream_create(0);
  vdev_stream_destroy(gone);
  vdev_stream_destroy(gone); /* no stream any more: nothing happens */
  vdev_stream *const streams[] = {NULL, gone};
  for (size_t i = 0; i < sizeof streams / sizeof streams[0]; i++) {
    assert_int_equal(vdev_stream_synchronize(streams[i]), -1);
    assert_non_null(strstr(vdev_last_error(), "is not a stream of this library"));
    assert_int_equal(vdev_stream_wait(streams[i], event), -1);
    assert_int_equal(vdev_event_record(event, streams[i]), -1);
  }
  vdev_event *destroyed = vdev_event_create(0);
  vdev_event_destroy(destroyed);
  vdev_event_destroy(destroyed); /* no event any more: nothing happens */
  vdev_event *const events[] = {NULL, destroyed, (vdev_event *)(uintptr_t)12345, (vdev_event *)((char *)event + 8)};
  for (size_t i = 0; i < sizeof events / sizeof events[0]; i++) {
    assert_int_equal(vdev_stream_wait(stream, events[i]), -1);
    assert_non_null(strstr(vdev_last_error(), "is not an event of this library"));
    assert_int_equal(vdev_event_record(events[i], stream), -1);
    assert_int_equal(vdev_event_wait(events[i]), -1);
    assert_int_equal(vdev_event_query(events[i]), -1);
    vdev_event_destroy(events[i]);
  }
  assert_int_equal(vdev_event_query(event), 1);
  assert_int_equal(vdev_host_access(NULL, 4, 1), -1);
  assert_int_equal(vdev_host_access(NULL, 0, 1), 0);
  assert_int_equal(vdev_trace_write(NULL), -1);
  assert_int_equal(vdev_get(0, NULL), -1);
  assert_int_equal(vdev_set(0, NULL, NULL), -1);
  assert_non_null(vdev_last_race());
  vdev_stream_destroy(stream);
  vdev_event_destroy(event);
}

/* A stream that waits for an event goes on after the event's stream is gone. */
static void test_wait_for_a_stream_that_goes(void **state) {
  (void)state;
  OrtSyncStream *producer = rig_stream(0);
  OrtSyncStream *consumer = rig_stream(0);
  OrtValue *in = rig_pinned_tensor(0, COUNT);
  OrtValue *out = rig_pinned_tensor(0, COUNT);
  OrtValue *x = rig_device_tensor(0, COUNT);
  OrtValue *y = rig_device_tensor(0, COUNT);
  vdev_event *event = vdev_event_create(0);
  ((float *)rig_data(in))[0] = 5;
  set_upload_ms(50);
  rig_set("d2h_gbps", "0.00002", NULL); /* 200 ms */
  ok(rig_copy(in, x, producer));
  assert_int_equal(vdev_event_record(event, rig_native(producer)), 0);
  ok(rig_copy(y, out, consumer)); /* still in flight when the producer is destroyed */
  assert_int_equal(vdev_stream_wait(rig_native(consumer), event), 0);
  set_upload_ms(0);
  rig_set("d2h_gbps", "0", NULL);
  ok(rig_copy(x, out, consumer));
  rig.api->ReleaseSyncStream(producer);
  assert_int_equal(vdev_stream_synchronize(rig_native(consumer)), 0);
  assert_true(((float *)rig_data(out))[0] == 5);
  vdev_event_destroy(event);
  OrtValue *values[] = {in, out, x, y};
  for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
    rig.api->ReleaseValue(values[i]);
  }
  rig.api->ReleaseSyncStream(consumer);
}

static OrtValue *device_indices(const int64_t *indices, size_t count) {
  int64_t dim = (int64_t)count;
  OrtValue *value = NULL;
  OrtValue *host = NULL;
  ok(rig.api->CreateTensorAsOrtValue(rig_allocator(0, false), &dim, 1, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64, &value));
  ok(rig.api->CreateTensorWithDataAsOrtValue(rig.host, (void *)(uintptr_t)indices, count * sizeof *indices, &dim, 1,
                                             ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64, &host));
  ok(rig_copy(host, value, NULL));
  rig.api->ReleaseValue(host);
  return value;
}

/* A kernel that fails after its run has returned: the next wait says so, whether it comes early or late, once. */
static void test_late_failure(void **state) {
  (void)state;
  static const int64_t bad[] = {1, 99};
  static const int64_t good[] = {1, 2};
  int64_t dims[] = {2, 4};
  OrtSession *session = rig_session("lookup", 0);
  OrtSyncStream *stream = rig_stream(0);
  OrtValue *wrong = device_indices(bad, 2);
  OrtValue *right = device_indices(good, 2);
  OrtValue *found = NULL;
  ok(rig.api->CreateTensorAsOrtValue(rig_allocator(0, false), dims, 2, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &found));
  vdev_event *event = vdev_event_create(0);
  OrtIoBinding *binding = NULL;
  ok(rig.api->CreateIoBinding(session, &binding));
  ok(rig.api->BindOutput(binding, "found", found));
  rig_set("compute_us", "50000", NULL);
  for (int late = 0; late < 3; late++) {
    ok(rig.api->BindInput(binding, "index", wrong));
    ok(rig_run(session, binding, stream));
    assert_int_equal(vdev_event_record(event, rig_native(stream)), 0);
    while (late == 1 && vdev_event_query(event) == 0) {
    }
    assert_int_equal(late == 2 ? vdev_stream_synchronize(rig_native(stream)) : vdev_event_wait(event), -1);
    assert_non_null(strstr(vdev_last_error(), "kernel Gather"));
    assert_int_equal(vdev_event_wait(event), 0);
    ok(rig.api->BindInput(binding, "index", right));
    ok(rig_run(session, binding, stream));
    assert_int_equal(vdev_stream_synchronize(rig_native(stream)), 0);
  }
  /* an event before the failure is none of it */
  assert_int_equal(vdev_event_record(event, rig_native(stream)), 0);
  ok(rig.api->BindInput(binding, "index", wrong));
  ok(rig_run(session, binding, stream));
  while (vdev_event_query(event) == 0 || !is_done(stream)) {
  }
  assert_int_equal(vdev_event_wait(event), 0);
  assert_int_equal(vdev_stream_synchronize(rig_native(stream)), -1);
  rig_set("compute_us", "0", NULL);
  vdev_event_destroy(event);
  rig.api->ReleaseIoBinding(binding);
  rig.api->ReleaseValue(wrong);
  rig.api->ReleaseValue(right);
  rig.api->ReleaseValue(found);
  rig.api->ReleaseSession(session);
  rig.api->ReleaseSyncStream(stream);
}

/* A session may go while its last run is in flight, and so may pinned memory that it reads. */
static void test_release_before_the_end(void **state) {
  (void)state;
  float back[COUNT] = {0};
  OrtSession *session = rig_session("scale", 0);
  OrtSyncStream *stream = rig_stream(0);
  OrtValue *pinned = rig_pinned_tensor(0, COUNT);
  OrtValue *x = rig_device_tensor(0, COUNT);
  OrtValue *y = rig_device_tensor(0, COUNT);
  OrtValue *result = rig_host_tensor(back, COUNT);
  OrtIoBinding *binding = rig_binding(session, x, "y", y);
  ((float *)rig_data(pinned))[COUNT - 1] = 4;
  set_upload_ms(50);
  rig_set("compute_us", "50000", NULL);
  ok(rig_copy(pinned, x, stream));
  ok(rig_run(session, binding, stream));
  rig.api->ReleaseValue(pinned);
  rig.api->ReleaseIoBinding(binding);
  rig.api->ReleaseSession(session);
  assert_int_equal(vdev_stream_synchronize(rig_native(stream)), 0);
  ok(rig_copy(y, result, NULL));
  assert_true(back[COUNT - 1] == 8);
  set_upload_ms(0);
  rig_set("compute_us", "0", NULL);
  OrtValue *values[] = {x, y, result};
  for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
    rig.api->ReleaseValue(values[i]);
  }
  rig.api->ReleaseSyncStream(stream);
}

/* SynchronizeBoundOutputs waits for the device, but a failure of one session is not reported to another. */
static void test_failures_stay_with_their_session(void **state) {
  (void)state;
  static const int64_t bad[] = {99};
  if (rig.minor < 25) {
    print_message("ONNX Runtime before 1.25 does not ask an EP for it\n");
    skip();
  }
  int64_t dims[] = {1, 4};
  OrtSession *failing = rig_session("lookup", 0);
  OrtSession *sound = rig_session("scale", 0);
  OrtSyncStream *streams[] = {rig_stream(0), rig_stream(0)};
  OrtValue *index = device_indices(bad, 1);
  OrtValue *found = NULL;
  ok(rig.api->CreateTensorAsOrtValue(rig_allocator(0, false), dims, 2, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &found));
  OrtValue *x = rig_device_tensor(0, COUNT);
  OrtValue *y = rig_device_tensor(0, COUNT);
  OrtIoBinding *bindings[] = {NULL, rig_binding(sound, x, "y", y)};
  ok(rig.api->CreateIoBinding(failing, &bindings[0]));
  ok(rig.api->BindInput(bindings[0], "index", index));
  ok(rig.api->BindOutput(bindings[0], "found", found));
  rig_set("compute_us", "20000", NULL);
  ok(rig_run(failing, bindings[0], streams[0]));
  ok(rig_run(sound, bindings[1], streams[1]));
  ok(rig_synchronize_outputs(bindings[1]));
  assert_int_equal(is_done(streams[0]) + is_done(streams[1]), 2);
  refused("kernel Gather", rig_synchronize_outputs(bindings[0]));
  ok(rig_synchronize_outputs(bindings[0]));
  rig_set("compute_us", "0", NULL);
  for (int i = 0; i < 2; i++) {
    rig.api->ReleaseIoBinding(bindings[i]);
    rig.api->ReleaseSyncStream(streams[i]);
  }
  OrtValue *values[] = {index, found, x, y};
  for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
    rig.api->ReleaseValue(values[i]);
  }
  rig.api->ReleaseSession(failing);
  rig.api->ReleaseSession(sound);
}

/* With pinned memory for an output, ORT copies it to itself after the run; and a copy between host memories waits for its stream. */
static void test_pinned_outputs(void **state) {
  (void)state;
  float back[COUNT] = {0};
  OrtSession *session = rig_session("scale", 0);
  OrtSyncStream *stream = rig_stream(0);
  OrtValue *in = rig_pinned_tensor(0, COUNT);
  OrtValue *out = rig_pinned_tensor(0, COUNT);
  OrtValue *result = rig_host_tensor(back, COUNT);
  memset(rig_data(in), 0, COUNT * sizeof(float));
  ((float *)rig_data(in))[0] = 4; /* ORT 1.24 copies it to the device when it is bound */
  OrtIoBinding *binding = rig_binding(session, in, "y", out);
  rig_set("race", "fail", "compute_us", "50000", NULL);
  ok(rig_run(session, binding, stream));
  ok(rig_copy(out, result, stream));
  assert_true(back[0] == 8);
  rig_set("race", "off", "compute_us", "0", NULL);
  rig.api->ReleaseIoBinding(binding);
  OrtValue *values[] = {in, out, result};
  for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
    rig.api->ReleaseValue(values[i]);
  }
  rig.api->ReleaseSession(session);
  rig.api->ReleaseSyncStream(stream);
}

typedef struct watcher {
  vdev_stream *stream;
  pthread_mutex_t mutex;
  bool stop;
} watcher;

static void *synchronize_all_the_time(void *argument) {
  watcher *one = argument;
  bool stop = false;
  while (!stop) {
    (void)vdev_stream_synchronize(one->stream);
    pthread_mutex_lock(&one->mutex);
    stop = one->stop;
    pthread_mutex_unlock(&one->mutex);
  }
  return NULL;
}

/* Work that the submitting thread does itself ends the wait of another thread too. */
static void test_wait_for_work_of_another_thread(void **state) {
  (void)state;
  OrtSyncStream *stream = rig_stream(0);
  OrtValue *pinned = rig_pinned_tensor(0, LARGE);
  OrtValue *device = rig_device_tensor(0, LARGE);
  memset(rig_data(pinned), 0, LARGE * sizeof(float));
  watcher one = {.stream = rig_native(stream), .mutex = PTHREAD_MUTEX_INITIALIZER};
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, synchronize_all_the_time, &one), 0);
  for (int i = 0; i < 50; i++) {
    ok(rig_copy(pinned, device, stream));
  }
  pthread_mutex_lock(&one.mutex);
  one.stop = true;
  pthread_mutex_unlock(&one.mutex);
  assert_int_equal(pthread_join(thread, NULL), 0);
  rig.api->ReleaseValue(pinned);
  rig.api->ReleaseValue(device);
  rig.api->ReleaseSyncStream(stream);
}

typedef struct worker {
  OrtSession *session;
  float value;
  int wrong;
} worker;

static void *run_often(void *argument) {
  worker *one = argument;
  OrtSyncStream *stream = rig_stream(0);
  OrtValue *in = rig_pinned_tensor(0, COUNT);
  OrtValue *out = rig_pinned_tensor(0, COUNT);
  OrtValue *x = rig_device_tensor(0, COUNT);
  OrtValue *y = rig_device_tensor(0, COUNT);
  OrtIoBinding *binding = rig_binding(one->session, x, "y", y);
  for (int i = 0; i < 100; i++) {
    ((float *)rig_data(in))[0] = one->value;
    ok(rig_copy(in, x, stream));
    ok(rig_run(one->session, binding, stream));
    ok(rig_copy(y, out, stream));
    one->wrong += vdev_stream_synchronize(rig_native(stream)) != 0;
    one->wrong += ((float *)rig_data(out))[0] != 2 * one->value;
    one->value += 1;
  }
  rig.api->ReleaseIoBinding(binding);
  OrtValue *values[] = {in, out, x, y};
  for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
    rig.api->ReleaseValue(values[i]);
  }
  rig.api->ReleaseSyncStream(stream);
  return NULL;
}

/* What has nothing to do with the others' results, changed and read all the time. */
static void *meddle(void *argument) {
  watcher *one = argument;
  bool stop = false;
  for (int i = 0; !stop; i++) {
    static const char *const words[] = {"0", "1"};
    (void)vdev_set(0, "poison", words[i % 2]);
    (void)vdev_set(0, "trace", words[i % 2]);
    (void)vdev_set(0, "protect_pinned", words[i % 2]);
    (void)vdev_set(0, "deny", i % 2 == 0 ? "" : "Gather");
    (void)vdev_set(0, "delay_copy", i % 2 == 0 ? "0" : "every:7,us:20,min:8");
    (void)vdev_get(0, "kernels");
    (void)vdev_last_race();
    rig.api->ReleaseSession(rig_session("lookup", 0));
    pthread_mutex_lock(&one->mutex);
    stop = one->stop;
    pthread_mutex_unlock(&one->mutex);
  }
  return NULL;
}

static void test_threads(void **state) {
  (void)state;
  enum { THREADS = 3 };
  OrtSession *session = rig_session("scale", 0);
  worker list[THREADS];
  pthread_t threads[THREADS];
  rig_set("latency_us", "20", NULL); /* so that the streams' own threads work */
  for (int i = 0; i < THREADS; i++) {
    list[i] = (worker){session, (float)(1000 * i), 0};
    assert_int_equal(pthread_create(&threads[i], NULL, run_often, &list[i]), 0);
  }
  watcher one = {.mutex = PTHREAD_MUTEX_INITIALIZER};
  pthread_t meddler;
  assert_int_equal(pthread_create(&meddler, NULL, meddle, &one), 0);
  for (int i = 0; i < THREADS; i++) {
    assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(list[i].wrong, 0);
  }
  pthread_mutex_lock(&one.mutex);
  one.stop = true;
  pthread_mutex_unlock(&one.mutex);
  assert_int_equal(pthread_join(meddler, NULL), 0);
  rig_set("latency_us", "0", "poison", "1", "trace", "0", "protect_pinned", "0", "deny", "", "delay_copy", "0", NULL);
  rig.api->ReleaseSession(session);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_pageable_waits_and_pinned_does_not),
    cmocka_unit_test(test_run_is_asynchronous),
    cmocka_unit_test(test_native_interface),
    cmocka_unit_test(test_nothing_is_refused),
    cmocka_unit_test(test_release_before_the_end),
    cmocka_unit_test(test_failures_stay_with_their_session),
    cmocka_unit_test(test_pinned_outputs),
    cmocka_unit_test(test_wait_for_a_stream_that_goes),
    cmocka_unit_test(test_late_failure),
    cmocka_unit_test(test_wait_for_work_of_another_thread),
    cmocka_unit_test(test_threads),
};
RIG_MAIN(cases);
