/* Faults on demand: each is a clean failure, afterwards the device works and nothing is left over. */
#include "rig.h"

#include <string.h>

enum { COUNT = 1000, BYTES = COUNT * 4 };

typedef struct bench {
  OrtSession *session;
  OrtValue *host, *x, *y;
  OrtIoBinding *binding;
  int64_t live;
} bench;

static float host_data[COUNT];

static int make_bench(void **state) {
  static bench one;
  one.session = rig_session("scale", 0);
  one.host = rig_host_tensor(host_data, COUNT);
  one.x = rig_device_tensor(0, COUNT);
  one.y = rig_device_tensor(0, COUNT);
  one.binding = rig_binding(one.session, one.x, "y", one.y);
  one.live = rig_get("live_blocks");
  *state = &one;
  return 0;
}

/* A whole round: everything that a fault could have broken. */
static void expect_sound(const bench *one) {
  host_data[0] = 4;
  OrtSyncStream *stream = rig_stream(0);
  ok(rig_copy(one->host, one->x, stream));
  ok(rig_run(one->session, one->binding, stream));
  ok(rig_copy(one->y, one->host, stream));
  assert_true(host_data[0] == 8);
  rig.api->ReleaseSyncStream(stream);
  assert_int_equal(rig_get("live_blocks"), one->live);
}

static int release_bench(void **state) {
  bench *one = *state;
  expect_sound(one);
  rig.api->ReleaseIoBinding(one->binding);
  rig.api->ReleaseValue(one->host);
  rig.api->ReleaseValue(one->x);
  rig.api->ReleaseValue(one->y);
  rig.api->ReleaseSession(one->session);
  return 0;
}

static void test_nth_copy(void **state) {
  const bench *one = *state;
  rig_set("fail_copy", "3", NULL);
  ok(rig_copy(one->host, one->x, NULL));
  ok(rig_copy(one->host, one->x, NULL));
  refused("upload of 4000 bytes failed as asked (fail_copy)", rig_copy(one->host, one->x, NULL));
  ok(rig_copy(one->host, one->x, NULL));
  expect_sound(one);
}

static void test_every_copy(void **state) {
  const bench *one = *state;
  rig_set("fail_copy", "every:2", NULL);
  for (int i = 0; i < 5; i++) {
    ok(rig_copy(one->host, one->x, NULL));
    refused("download of 4000 bytes failed as asked", rig_copy(one->y, one->host, NULL));
  }
  rig_set("fail_copy", "0", NULL);
}

static void test_large_copies(void **state) {
  const bench *one = *state;
  OrtValue *small_host = rig_host_tensor(host_data, COUNT / 2);
  OrtValue *small = rig_view(0, rig_data(one->x), COUNT / 2);
  rig_set("fail_copy_above", "4000", "fail_copy", "every:1", NULL);
  ok(rig_copy(small_host, small, NULL)); /* does not count */
  refused("failed as asked", rig_copy(one->host, one->x, NULL));
  ok(rig_copy(small_host, small, NULL));
  rig_set("fail_copy_above", "0", "fail_copy", "0", NULL);
  rig.api->ReleaseValue(small_host);
  rig.api->ReleaseValue(small);
}

/* Copies that ORT makes itself, within a run on tensors of the host: each of the two fails once. */
static void test_copies_of_a_run(void **state) {
  const bench *one = *state;
  const char *names[] = {"x", "y"};
  static const char *const counts[] = {"1", "2"};
  static const char *const words[] = {"upload", "download"};
  for (int i = 0; i < 2; i++) {
    OrtValue *result = NULL;
    rig_set("fail_copy", counts[i], NULL);
    refused(words[i], rig.api->Run(one->session, NULL, names, (const OrtValue *const *)&one->host, 1, names + 1, 1, &result));
    assert_null(result);
    expect_sound(one);
  }
}

static void test_allocations(void **state) {
  const bench *one = *state;
  OrtAllocator *allocator = rig_allocator(0, false);
  rig_set("fail_alloc", "2", NULL);
  void *first = allocator->Alloc(allocator, 10);
  assert_non_null(first);
  assert_null(allocator->Alloc(allocator, 10));
  assert_non_null(strstr(vdev_last_error(), "allocation of 10 bytes failed as asked (fail_alloc)"));
  allocator->Free(allocator, first);
  rig_set("fail_alloc_above", "100", "fail_alloc", "every:1", NULL);
  first = allocator->Alloc(allocator, 99);
  assert_non_null(first);
  assert_null(allocator->Alloc(allocator, 100));
  allocator->Free(allocator, first);
  rig_set("fail_alloc_above", "0", "fail_alloc", "0", NULL);
  assert_int_equal(rig_get("live_blocks"), one->live);
}

/* An output that ORT allocates for a run: ORT does not look at what the allocator gave. */
static void test_allocation_of_an_output(void **state) {
  const bench *one = *state;
  const OrtMemoryInfo *info = rig.api->EpDevice_MemoryInfo(rig.devices[0], OrtDeviceMemoryType_DEFAULT);
  OrtIoBinding *binding = NULL;
  ok(rig.api->CreateIoBinding(one->session, &binding));
  ok(rig.api->BindInput(binding, "x", one->x));
  ok(rig.api->BindOutputToDevice(binding, "y", info));
  rig_set("fail_alloc", "1", NULL);
  refused("its allocation failed", rig_run(one->session, binding, NULL));
  ok(rig_run(one->session, binding, NULL));
  rig.api->ReleaseIoBinding(binding);
}

static void test_compute(void **state) {
  const bench *one = *state;
  rig_set("fail_compute", "2", NULL);
  ok(rig_run(one->session, one->binding, NULL));
  refused("kernel Mul failed as asked (fail_compute)", rig_run(one->session, one->binding, NULL));
  ok(rig_run(one->session, one->binding, NULL));
}

static void test_compute_by_name(void **state) {
  const bench *one = *state;
  rig_set("fail_name", "Gather", "fail_compute", "every:1", NULL);
  ok(rig_run(one->session, one->binding, NULL));
  rig_set("fail_name", "Mul", NULL);
  refused("kernel Mul failed as asked", rig_run(one->session, one->binding, NULL));
  rig_set("fail_name", "", "fail_compute", "0", NULL);
}

static void test_streams(void **state) {
  (void)state;
  rig_set("fail_stream", "1", NULL);
  OrtSyncStream *stream = NULL;
  refused("stream creation failed as asked (fail_stream)", rig.api->CreateSyncStreamForEpDevice(rig.devices[0], NULL, &stream));
  assert_null(stream);
  rig_set("fail_stream", "1", NULL);
  assert_null(vdev_stream_create(0));
  assert_non_null(strstr(vdev_last_error(), "fail_stream"));
}

static void test_sessions(void **state) {
  const bench *one = *state;
  OrtSession *session = NULL;
  rig_set("fail_session", "1", NULL);
  refused("session creation failed as asked (fail_session)", rig_try_session("scale", 0, NULL, NULL, &session));
  assert_null(session);
  rig.api->ReleaseSession(rig_session("scale", 0));
  rig_set("mem_limit", "1", NULL);
  OrtStatus *status = rig_try_session("lookup rows=4096 columns=16", 0, NULL, NULL, &session); /* a table that does not fit */
  rig_set("mem_limit", "0", NULL);
  refused("", status);
  assert_int_equal(rig_get("live_blocks"), one->live);
}

#define ON_BENCH(test) cmocka_unit_test_setup_teardown(test, make_bench, release_bench)
static const struct CMUnitTest cases[] = {
    ON_BENCH(test_nth_copy),        ON_BENCH(test_every_copy),      ON_BENCH(test_large_copies),
    ON_BENCH(test_copies_of_a_run), ON_BENCH(test_allocations),     ON_BENCH(test_allocation_of_an_output),
    ON_BENCH(test_compute),         ON_BENCH(test_compute_by_name), ON_BENCH(test_streams),
    ON_BENCH(test_sessions),
};
RIG_MAIN(cases);
