/* The race detector: what no event or wait orders is found every time, what is ordered never. */
#include "rig.h"

#include <string.h>

enum { COUNT = 64, TIMES = 100 };

/* Two streams, a session, and a tensor for each step of a tile. */
typedef struct bench {
  OrtSyncStream *a, *b;
  OrtSession *session;
  OrtValue *in, *x, *y, *out;
  OrtIoBinding *binding;
  vdev_event *event;
} bench;

static bench make_bench(void) {
  bench one = {.a = rig_stream(0),
               .b = rig_stream(0),
               .session = rig_session("scale", 0),
               .in = rig_pinned_tensor(0, COUNT),
               .x = rig_device_tensor(0, COUNT),
               .y = rig_device_tensor(0, COUNT),
               .out = rig_pinned_tensor(0, COUNT),
               .event = vdev_event_create(0)};
  one.binding = rig_binding(one.session, one.x, "y", one.y);
  return one;
}

static void settle(const bench *one) {
  assert_int_equal(vdev_stream_synchronize(rig_native(one->a)), 0);
  assert_int_equal(vdev_stream_synchronize(rig_native(one->b)), 0);
}

static void release_bench(bench *one) {
  settle(one);
  rig.api->ReleaseIoBinding(one->binding);
  OrtValue *values[] = {one->in, one->x, one->y, one->out};
  for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
    rig.api->ReleaseValue(values[i]);
  }
  vdev_event_destroy(one->event);
  rig.api->ReleaseSession(one->session);
  rig.api->ReleaseSyncStream(one->a);
  rig.api->ReleaseSyncStream(one->b);
}

static OrtStatus *upload(const bench *one, OrtSyncStream *stream) {
  return rig_copy(one->in, one->x, stream);
}
static OrtStatus *run(const bench *one, OrtSyncStream *stream) {
  return rig_run(one->session, one->binding, stream);
}
static OrtStatus *download(const bench *one, OrtSyncStream *stream) {
  return rig_copy(one->y, one->out, stream);
}
static void order(const bench *one, OrtSyncStream *first, OrtSyncStream *then) {
  assert_int_equal(vdev_event_record(one->event, rig_native(first)), 0);
  assert_int_equal(vdev_stream_wait(rig_native(then), one->event), 0);
}

/* ---- the bugs: the last step of each is the one that races ---- */

static OrtStatus *run_before_upload(const bench *one) {
  ok(upload(one, one->a));
  return run(one, one->b);
}

static OrtStatus *download_before_run(const bench *one) {
  ok(upload(one, one->a));
  ok(run(one, one->a));
  return download(one, one->b);
}

static OrtStatus *input_overwritten(const bench *one) {
  ok(upload(one, one->a));
  order(one, one->a, one->b);
  ok(run(one, one->b));
  return upload(one, one->a);
}

static OrtStatus *pinned_refilled(const bench *one) {
  ok(upload(one, one->a));
  int outcome = vdev_host_access(rig_data(one->in), COUNT * sizeof(float), 1);
  return outcome == 0 ? NULL : rig.api->CreateStatus(ORT_FAIL, vdev_last_error());
}

static OrtStatus *pinned_refilled_by_a_copy(const bench *one) {
  float data[COUNT] = {0};
  OrtValue *host = rig_host_tensor(data, COUNT);
  ok(upload(one, one->a));
  OrtStatus *status = rig_copy(host, one->in, NULL);
  rig.api->ReleaseValue(host);
  return status;
}

static OrtStatus *event_too_early(const bench *one) {
  order(one, one->a, one->b);
  ok(upload(one, one->a));
  return run(one, one->b);
}

static const struct bug {
  OrtStatus *(*steps)(const bench *one);
  const char *later, *earlier;
} bugs[] = {
    {run_before_upload, "Mul on stream", "that upload on stream"},
    {download_before_run, "download on stream", "that Mul on stream"},
    {input_overwritten, "upload on stream", "that Mul on stream"},
    {pinned_refilled, "an access of the program on the host writes", "that upload on stream"},
    {pinned_refilled_by_a_copy, "host copy on the host writes", "that upload on stream"},
    {event_too_early, "Mul on stream", "that upload on stream"},
};

static void test_bugs_are_counted(void **state) {
  (void)state;
  rig_set("race", "count", NULL);
  for (size_t b = 0; b < sizeof bugs / sizeof bugs[0]; b++) {
    bench one = make_bench();
    for (int i = 0; i < TIMES; i++) {
      int64_t before = rig_get("races");
      ok(bugs[b].steps(&one)); /* counted, not refused */
      assert_int_equal(rig_get("races"), before + 1);
      assert_non_null(strstr(vdev_last_race(), bugs[b].later));
      assert_non_null(strstr(vdev_last_race(), bugs[b].earlier));
      settle(&one);
    }
    release_bench(&one);
  }
}

static void test_bugs_fail(void **state) {
  (void)state;
  rig_set("race", "fail", NULL);
  for (size_t b = 0; b < sizeof bugs / sizeof bugs[0]; b++) {
    bench one = make_bench();
    for (int i = 0; i < TIMES; i++) {
      refused("unordered access", bugs[b].steps(&one));
      settle(&one);
      ok(upload(&one, one.a)); /* afterwards the device works */
      ok(run(&one, one.a));
      settle(&one);
    }
    release_bench(&one);
  }
}

/* ---- the right schedules ---- */

static void with_events(const bench *one) {
  ok(upload(one, one->a));
  order(one, one->a, one->b);
  ok(run(one, one->b));
  order(one, one->b, one->a);
  ok(download(one, one->a));
  ok(upload(one, one->a));
}

static void on_one_stream(const bench *one) {
  for (int i = 0; i < 3; i++) {
    ok(upload(one, one->a));
    ok(run(one, one->a));
    ok(download(one, one->a));
  }
}

static void with_host_waits(const bench *one) {
  ok(upload(one, one->a));
  assert_int_equal(vdev_stream_synchronize(rig_native(one->a)), 0);
  ok(run(one, one->b));
  assert_int_equal(vdev_event_record(one->event, rig_native(one->b)), 0);
  assert_int_equal(vdev_event_wait(one->event), 0);
  ok(download(one, one->a));
}

static void on_halves(const bench *one) {
  float *in = rig_data(one->in);
  float *x = rig_data(one->x);
  float *out = rig_data(one->out);
  OrtSyncStream *streams[] = {one->a, one->b};
  for (int half = 0; half < 2; half++) {
    OrtValue *from = rig_host_tensor(in + half * COUNT / 2, COUNT / 2);
    OrtValue *part = rig_view(0, x + half * COUNT / 2, COUNT / 2);
    OrtValue *to = rig_host_tensor(out + half * COUNT / 2, COUNT / 2);
    ok(rig_copy(from, part, streams[half]));
    ok(rig_copy(part, to, streams[half]));
    rig.api->ReleaseValue(from);
    rig.api->ReleaseValue(part);
    rig.api->ReleaseValue(to);
  }
}

static void refill_after_a_wait(const bench *one) {
  for (int i = 0; i < 2; i++) {
    ok(upload(one, one->a));
    assert_int_equal(vdev_host_access(rig_data(one->in), COUNT * sizeof(float), 0), 0); /* two may read */
    assert_int_equal(vdev_event_record(one->event, rig_native(one->a)), 0);
    assert_int_equal(vdev_event_wait(one->event), 0);
    assert_int_equal(vdev_host_access(rig_data(one->in), COUNT * sizeof(float), 1), 0);
  }
}

/* An event that was asked until it had passed counts as waited for. */
static void asked_until_done(const bench *one) {
  ok(upload(one, one->a));
  assert_int_equal(vdev_event_record(one->event, rig_native(one->a)), 0);
  while (vdev_event_query(one->event) == 0) {
  }
  assert_int_equal(vdev_host_access(rig_data(one->in), COUNT * sizeof(float), 1), 0);
  ok(run(one, one->b));
}

static void test_right_schedules_are_silent(void **state) {
  (void)state;
  static void (*const schedules[])(const bench *one) = {with_events, on_one_stream,       with_host_waits,
                                                        on_halves,   refill_after_a_wait, asked_until_done};
  rig_set("race", "fail", NULL);
  assert_int_equal(vdev_reset(0), 0);
  for (size_t s = 0; s < sizeof schedules / sizeof schedules[0]; s++) {
    bench one = make_bench();
    for (int i = 0; i < TIMES; i++) {
      schedules[s](&one);
      settle(&one);
    }
    release_bench(&one);
  }
  assert_int_equal(rig_get("races"), 0);
}

static void test_off(void **state) {
  (void)state;
  rig_set("race", "off", NULL);
  assert_int_equal(vdev_reset(0), 0);
  bench one = make_bench();
  ok(run_before_upload(&one));
  assert_int_equal(rig_get("races"), 0);
  release_bench(&one);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_bugs_are_counted),
    cmocka_unit_test(test_bugs_fail),
    cmocka_unit_test(test_right_schedules_are_silent),
    cmocka_unit_test(test_off),
};
RIG_MAIN(cases);
