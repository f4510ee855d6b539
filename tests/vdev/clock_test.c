/* The virtual clock: schedules depend only on the model, also on a loaded machine. */
#include "rig.h"

#include <string.h>

enum { TILES = 16, COUNT = 10000, MOST_SLOTS = 3, MS = 1000000 };

/* A pipeline of TILES tiles over `slots` buffers: what each step has to wait for, and nothing else. */
static int64_t best_schedule(int slots, int64_t upload, int64_t compute, int64_t download) {
  int64_t up_free = 0;
  int64_t compute_free = 0;
  int64_t down_free = 0;
  int64_t slot_free[MOST_SLOTS] = {0};
  for (int t = 0; t < TILES; t++) {
    int64_t *slot = &slot_free[t % slots];
    int64_t at = *slot > up_free ? *slot : up_free;
    up_free = at + upload;
    at = up_free > compute_free ? up_free : compute_free;
    compute_free = at + compute;
    at = compute_free > down_free ? compute_free : down_free;
    down_free = at + download;
    *slot = down_free;
  }
  return down_free;
}

typedef struct slot {
  OrtSyncStream *stream;
  OrtValue *in, *x, *y, *out;
  OrtIoBinding *binding;
} slot;

/* Modelled time of the tiles over so many slots, each with a stream of its own; the results are checked. */
static int64_t run_tiles(OrtSession *session, int slots) {
  slot list[MOST_SLOTS];
  for (int i = 0; i < slots; i++) {
    slot *one = &list[i];
    one->stream = rig_stream(0);
    one->in = rig_pinned_tensor(0, COUNT);
    one->out = rig_pinned_tensor(0, COUNT);
    one->x = rig_device_tensor(0, COUNT);
    one->y = rig_device_tensor(0, COUNT);
    one->binding = rig_binding(session, one->x, "y", one->y);
  }
  int64_t start = rig_get("time_ns");
  for (int t = 0; t < TILES; t++) {
    slot *one = &list[t % slots];
    /* The buffer is written before the tile that used it ends in modelled time: the model knows of no host memory. */
    ((float *)rig_data(one->in))[0] = (float)t;
    ok(rig_copy(one->in, one->x, one->stream));
    ok(rig_run(session, one->binding, one->stream));
    ok(rig_copy(one->y, one->out, one->stream));
    assert_true(((float *)rig_data(one->out))[0] == 2 * (float)t); /* idle streams work at once in virtual time */
  }
  assert_int_equal(rig_get("time_ns"), start); /* the host has waited for nothing yet */
  for (int i = 0; i < slots; i++) {
    assert_int_equal(vdev_stream_synchronize(rig_native(list[i].stream)), 0);
  }
  int64_t time = rig_get("time_ns") - start;
  for (int i = 0; i < slots; i++) {
    slot *one = &list[i];
    rig.api->ReleaseIoBinding(one->binding);
    OrtValue *values[] = {one->in, one->x, one->y, one->out};
    for (size_t v = 0; v < sizeof values / sizeof values[0]; v++) {
      rig.api->ReleaseValue(values[v]);
    }
    rig.api->ReleaseSyncStream(one->stream);
  }
  return time;
}

static void test_tiles(void **state) {
  (void)state;
  static const int64_t known[] = {448, 234, 178};
  OrtSession *session = rig_session("scale", 0);
  rig_set("h2d_gbps", "0.004", "d2h_gbps", "0.004", "compute_us", "8000", NULL); /* 40 kB each way: 10 ms */
  for (int slots = 1; slots <= MOST_SLOTS; slots++) {
    for (int again = 0; again < 3; again++) {
      assert_int_equal(vdev_reset(0), 0);
      int64_t time = run_tiles(session, slots);
      assert_int_equal(time, best_schedule(slots, (int64_t)10 * MS, (int64_t)8 * MS, (int64_t)10 * MS));
      assert_int_equal(time, known[slots - 1] * MS);
      assert_int_equal(rig_get("h2d_ns"), (int64_t)TILES * 10 * MS);
      assert_int_equal(rig_get("d2h_ns"), (int64_t)TILES * 10 * MS);
      assert_int_equal(rig_get("kernels_ns"), (int64_t)TILES * 8 * MS);
      assert_int_equal(rig_get("d2d_ns"), 0);
      assert_int_equal(rig_get("clock_is_virtual"), 1);
    }
  }
  rig_set("h2d_gbps", "0", "d2h_gbps", "0", "compute_us", "0", NULL);
  rig.api->ReleaseSession(session);
}

/* A link where each copy takes 2.1 ms: 100 runs on tensors of the host, and 100 on bound ones of the device. */
static void test_direct_and_bound(void **state) {
  (void)state;
  float in[COUNT] = {0};
  float out[COUNT] = {0};
  OrtSession *session = rig_session("scale", 0);
  OrtValue *input = rig_host_tensor(in, COUNT);
  OrtValue *output = rig_host_tensor(out, COUNT);
  const char *names[] = {"x", "y"};
  rig_set("latency_us", "2100", NULL);

  assert_int_equal(vdev_reset(0), 0);
  int64_t start = rig_get("time_ns");
  for (int i = 0; i < 100; i++) {
    in[0] = (float)i;
    OrtValue *result = output;
    ok(rig.api->Run(session, NULL, names, (const OrtValue *const *)&input, 1, names + 1, 1, &result));
    assert_true(out[0] == 2 * (float)i);
  }
  assert_int_equal(rig_get("time_ns") - start, 420 * MS);
  assert_int_equal(rig_get("h2d_count"), 100);
  assert_int_equal(rig_get("d2h_count"), 100);
  assert_int_equal(rig_get("h2d_bytes"), 100 * sizeof in);
  assert_int_equal(rig_get("d2h_bytes"), 100 * sizeof out);
  assert_int_equal(rig_get("kernels"), 100);

  OrtValue *x = rig_device_tensor(0, COUNT);
  OrtValue *y = rig_device_tensor(0, COUNT);
  OrtIoBinding *binding = rig_binding(session, x, "y", y);
  assert_int_equal(vdev_reset(0), 0);
  start = rig_get("time_ns");
  ok(rig_copy(input, x, NULL));
  for (int i = 0; i < 100; i++) {
    ok(rig_run(session, binding, NULL));
  }
  assert_int_equal(rig_get("time_ns") - start, 21 * MS / 10); /* the runs moved nothing */
  ok(rig_copy(y, output, NULL));
  assert_int_equal(rig_get("time_ns") - start, 42 * MS / 10);
  assert_int_equal(rig_get("h2d_count"), 1);
  assert_int_equal(rig_get("d2h_count"), 1);
  assert_int_equal(rig_get("kernels"), 100);
  assert_int_equal(rig_get("allocations"), 0);
  assert_true(out[0] == 198);

  rig_set("latency_us", "0", NULL);
  rig.api->ReleaseIoBinding(binding);
  OrtValue *values[] = {input, output, x, y};
  for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
    rig.api->ReleaseValue(values[i]);
  }
  rig.api->ReleaseSession(session);
}

/* An event carries the modelled time of its stream to another one. */
static void test_events_carry_time(void **state) {
  (void)state;
  rig_set("h2d_gbps", "0.004", "d2h_gbps", "0.004", NULL);
  OrtSyncStream *first = rig_stream(0);
  OrtSyncStream *second = rig_stream(0);
  OrtValue *in = rig_pinned_tensor(0, COUNT);
  OrtValue *out = rig_pinned_tensor(0, COUNT);
  OrtValue *x = rig_device_tensor(0, COUNT);
  vdev_event *event = vdev_event_create(0);
  int64_t start = rig_get("time_ns");
  ok(rig_copy(in, x, first));
  assert_int_equal(vdev_event_record(event, rig_native(first)), 0);
  assert_int_equal(vdev_stream_wait(rig_native(second), event), 0);
  ok(rig_copy(x, out, second));
  assert_int_equal(vdev_event_wait(event), 0);
  assert_int_equal(rig_get("time_ns") - start, 10 * MS);
  assert_int_equal(vdev_stream_synchronize(rig_native(second)), 0);
  assert_int_equal(rig_get("time_ns") - start, 20 * MS);
  vdev_event_destroy(event);
  OrtValue *values[] = {in, out, x};
  for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
    rig.api->ReleaseValue(values[i]);
  }
  rig.api->ReleaseSyncStream(first);
  rig.api->ReleaseSyncStream(second);
  rig_set("h2d_gbps", "0", "d2h_gbps", "0", NULL);
}

static int64_t now(void) {
  return rig_get("time_ns");
}

/* A delay is a fault that takes time: exactly what it says, for exactly those that it means. */
static void test_delays(void **state) {
  (void)state;
  OrtSession *session = rig_session("scale", 0);
  OrtValue *x = rig_device_tensor(0, COUNT);
  OrtValue *y = rig_device_tensor(0, COUNT);
  OrtIoBinding *binding = rig_binding(session, x, "y", y);
  for (int kind = 0; kind < 6; kind++) {
    static const char *const settings[] = {"delay_alloc",  "delay_pinned",  "delay_copy",
                                           "delay_stream", "delay_session", "delay_compute"};
    rig_set(settings[kind], "every:2,us:5000", NULL);
    for (int i = 1; i <= 4; i++) {
      int64_t before = now();
      switch (kind) {
        case 0: rig.api->ReleaseValue(rig_device_tensor(0, 1)); break;
        case 1: rig.api->ReleaseValue(rig_pinned_tensor(0, 1)); break;
        case 2: ok(rig_copy(x, y, NULL)); break;
        case 3: vdev_stream_destroy(vdev_stream_create(0)); break;
        case 4: rig.api->ReleaseSession(rig_session("identity", 0)); break;
        default: ok(rig_run(session, binding, NULL));
      }
      assert_int_equal(now() - before, i % 2 == 0 ? 5 * MS : 0);
    }
    rig_set(settings[kind], "0", NULL);
  }
  /* by size and by name, and besides what the model says */
  rig_set("d2d_gbps", "0.04", "compute_us", "1000", "delay_copy", "1,us:3000,min:40000", "delay_compute", "1,us:7000,name:Mul",
          NULL);
  OrtValue *small[] = {rig_view(0, rig_data(x), 1), rig_view(0, rig_data(y), 1)};
  int64_t start = now();
  ok(rig_copy(small[0], small[1], NULL));
  assert_int_equal(now() - start, 100);
  ok(rig_copy(x, y, NULL));
  assert_int_equal(now() - start, 100 + 4 * MS);
  ok(rig_run(session, binding, NULL));
  assert_int_equal(now() - start, 100 + 12 * MS);
  ok(rig_run(session, binding, NULL));
  assert_int_equal(now() - start, 100 + 13 * MS);
  rig_set("d2d_gbps", "0", "compute_us", "0", NULL);
  /* A stream that is delayed delays no other. */
  OrtSyncStream *streams[] = {rig_stream(0), rig_stream(0)};
  OrtValue *pinned[] = {rig_pinned_tensor(0, COUNT), rig_pinned_tensor(0, COUNT)};
  rig_set("delay_copy", "1,us:9000", NULL);
  start = now();
  ok(rig_copy(pinned[0], x, streams[0]));
  ok(rig_copy(y, pinned[1], streams[1]));
  assert_int_equal(vdev_stream_synchronize(rig_native(streams[1])), 0);
  assert_int_equal(now() - start, 0);
  assert_int_equal(vdev_stream_synchronize(rig_native(streams[0])), 0);
  assert_int_equal(now() - start, 9 * MS);
  rig.api->ReleaseIoBinding(binding);
  OrtValue *values[] = {x, y, small[0], small[1], pinned[0], pinned[1]};
  for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
    rig.api->ReleaseValue(values[i]);
  }
  rig.api->ReleaseSyncStream(streams[0]);
  rig.api->ReleaseSyncStream(streams[1]);
  rig.api->ReleaseSession(session);
}

/* A change of the clock is not a step in time: what is modelled after it begins where the other clock was. */
static void test_change_of_clock(void **state) {
  (void)state;
  OrtSyncStream *stream = rig_stream(0);
  OrtValue *pinned = rig_pinned_tensor(0, COUNT);
  OrtValue *x = rig_device_tensor(0, COUNT);
  rig_set("h2d_gbps", "0.4", NULL); /* 0.1 ms */
  for (int i = 0; i < 3; i++) {
    for (int copies = 0; copies < 100; copies++) {
      ok(rig_copy(pinned, x, stream));
    }
    int64_t before = now();
    rig_set("clock", "real", NULL); /* all of the 10 ms are over, or the stream below would not be waited for */
    assert_in_range(now() - before, 10 * MS, (uint64_t)3600 * 1000 * MS);
    ok(rig_copy(pinned, x, stream));
    assert_int_equal(vdev_stream_synchronize(rig_native(stream)), 0);
    before = now();
    rig_set("clock", "virtual", NULL);
    assert_in_range(now() - before, 0, (uint64_t)3600 * 1000 * MS);
    before = now();
    ok(rig_copy(pinned, x, stream));
    assert_int_equal(vdev_stream_synchronize(rig_native(stream)), 0);
    assert_int_equal(now() - before, MS / 10);
  }
  rig_set("h2d_gbps", "0", NULL);
  rig.api->ReleaseValue(pinned);
  rig.api->ReleaseValue(x);
  rig.api->ReleaseSyncStream(stream);
}

/* Times that no sum of them may overflow. */
static void test_long_times(void **state) {
  (void)state;
  OrtValue *x = rig_device_tensor(0, COUNT);
  OrtValue *y = rig_device_tensor(0, COUNT);
  int64_t start = now();
  rig_set("d2d_gbps", "0.000000001", "delay_copy", "every:1,us:1000000000000", NULL); /* 40,000 s and 11 days */
  int64_t before = start;
  for (int i = 0; i < 20000; i++) {
    ok(rig_copy(x, y, NULL));
    assert_true(now() >= before);
    before = now();
  }
  assert_int_equal(before, INT64_MAX);
  rig_set("d2d_gbps", "0", "delay_copy", "0", NULL);
  rig.api->ReleaseValue(x);
  rig.api->ReleaseValue(y);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_tiles),
    cmocka_unit_test(test_direct_and_bound),
    cmocka_unit_test(test_events_carry_time),
    cmocka_unit_test(test_delays),
    cmocka_unit_test(test_change_of_clock),
    cmocka_unit_test(test_long_times), /* the last: there is no time after it */
};
RIG_MAIN(cases);
