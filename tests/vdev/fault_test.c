/* Faults on demand: each is a clean failure, afterwards the device works and nothing is left over. */
#include "rig.h"

#include <stdio.h>
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

static void test_copies_by_size(void **state) {
  const bench *one = *state;
  OrtValue *small_host = rig_host_tensor(host_data, COUNT / 2);
  OrtValue *small = rig_view(0, rig_data(one->x), COUNT / 2);
  rig_set("fail_copy", "every:1,min:4000", NULL);
  ok(rig_copy(small_host, small, NULL)); /* does not count */
  refused("failed as asked", rig_copy(one->host, one->x, NULL));
  rig_set("fail_copy", "2,max:3999", NULL);
  ok(rig_copy(small_host, small, NULL));
  ok(rig_copy(one->host, one->x, NULL)); /* does not count */
  refused("failed as asked", rig_copy(small_host, small, NULL));
  rig_set("fail_copy", "1,min:2001,max:3999", NULL);
  ok(rig_copy(small_host, small, NULL));
  ok(rig_copy(one->host, one->x, NULL));
  rig_set("fail_copy", "0", NULL);
  rig.api->ReleaseValue(small_host);
  rig.api->ReleaseValue(small);
}

/* Where a graph is in pieces, ORT says which tensor each copy between them is of; CopyTensors does not. */
static void test_copies_by_tensor(void **state) {
  const bench *one = *state;
  static const char *const names[] = {"x", "sum", "product", "same"};
  rig_set("deny", "Mul", NULL);
  OrtSession *session = rig_session("multi", 0);
  rig_set("deny", "", NULL);
  OrtValue *outputs[3] = {NULL};
  for (int round = 0; round < 3; round++) { /* of x, which the CPU's Mul reads; of no tensor that is copied so; none */
    static const char *const faults[] = {"every:1,name:x", "every:1,name:sum", "0"};
    rig_set("fail_copy", faults[round], NULL);
    OrtStatus *status = rig.api->Run(session, NULL, names, (const OrtValue *const *)&one->x, 1, names + 1, 3, outputs);
    if (round == 0) {
      refused("MemcpyFromHost", status);
      continue;
    }
    ok(status);
    for (int i = 0; i < 3; i++) {
      rig.api->ReleaseValue(outputs[i]);
      outputs[i] = NULL;
    }
  }
  rig.api->ReleaseSession(session);
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
  static const char *const settings[] = {"fail_alloc", "fail_pinned"};
  for (int pinned = 0; pinned < 2; pinned++) {
    OrtAllocator *allocator = rig_allocator(0, pinned != 0);
    rig_set(settings[pinned], "2", NULL);
    void *first = allocator->Alloc(allocator, 10);
    assert_non_null(first);
    assert_null(allocator->Alloc(allocator, 10));
    assert_non_null(strstr(vdev_last_error(), settings[pinned]));
    assert_non_null(strstr(vdev_last_error(), "10"));
    allocator->Free(allocator, first);
    rig_set(settings[pinned], "every:2,min:100,max:200", NULL);
    for (int i = 0; i < 9; i++) {
      static const size_t sizes[] = {99, 201, 100, 99, 200}; /* only the third and the last count */
      void *memory = allocator->Alloc(allocator, sizes[i % 5]);
      assert_int_equal(memory == NULL, i % 5 == 4);
      allocator->Free(allocator, memory);
    }
    rig_set(settings[pinned], "0", NULL);
  }
  assert_int_equal(rig_get("live_blocks"), one->live);
  assert_int_equal(rig_get("pinned_bytes"), 0);
}

/* Sizes that no device has. */
static void test_endless_allocations(void **state) {
  const bench *one = *state;
  static const size_t sizes[] = {SIZE_MAX, SIZE_MAX / 2, (size_t)1 << 62, (size_t)1 << 40};
  for (int pinned = 0; pinned < 2; pinned++) {
    OrtAllocator *allocator = rig_allocator(0, pinned != 0);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
      assert_null(allocator->Alloc(allocator, sizes[i]));
      assert_string_not_equal(vdev_last_error(), "");
    }
  }
  assert_int_equal(rig_get("live_blocks"), one->live);
}

/* An output that ORT allocates for a run: ORT does not look at what the allocator gave, the device says what happened. */
static void test_allocation_of_an_output(void **state) {
  const bench *one = *state;
  const OrtMemoryInfo *info = rig.api->EpDevice_MemoryInfo(rig.devices[0], OrtDeviceMemoryType_DEFAULT);
  OrtIoBinding *binding = NULL;
  ok(rig.api->CreateIoBinding(one->session, &binding));
  ok(rig.api->BindInput(binding, "x", one->x));
  ok(rig.api->BindOutputToDevice(binding, "y", info));
  rig_set("fail_alloc", "1", NULL);
  refused("allocation of 4000 bytes failed as asked (fail_alloc)", rig_run(one->session, binding, NULL));
  rig_set("mem_limit", "9000", NULL); /* the two tensors, and the factor in the model */
  refused("4000 bytes wanted, 8004 in use, limit 9000", rig_run(one->session, binding, NULL));
  rig_set("mem_limit", "0", NULL);
  ok(rig_run(one->session, binding, NULL));
  rig.api->ReleaseIoBinding(binding);
}

/* The same for a copy that ORT makes into memory that it did not get. */
static void test_memory_for_an_input(void **state) {
  const bench *one = *state;
  const char *names[] = {"x", "y"};
  OrtValue *result = NULL;
  rig_set("mem_limit", "9000", NULL);
  refused("4000 bytes wanted, 8004 in use, limit 9000",
          rig.api->Run(one->session, NULL, names, (const OrtValue *const *)&one->host, 1, names + 1, 1, &result));
  rig_set("mem_limit", "0", NULL);
  assert_null(result);
}

static void test_compute(void **state) {
  const bench *one = *state;
  rig_set("fail_compute", "2", NULL);
  ok(rig_run(one->session, one->binding, NULL));
  refused("kernel Mul of 8004 bytes failed as asked (fail_compute)", rig_run(one->session, one->binding, NULL));
  ok(rig_run(one->session, one->binding, NULL));
}

/* A kernel is a group of nodes: it answers to the operator, the name and the outputs of each, and to its inputs. */
static void test_compute_by_name(void **state) {
  (void)state;
  static const struct {
    const char *fault;
    bool fails;
  } cases[] = {
      {"1,name:Add", true},     {"1,name:Mul", true}, {"1,name:product", true}, {"1,name:x", true},
      {"1,name:Gather", false}, {"1,name:Ad", false}, {"1,name:Add,", false},   {"1,min:1,name:Mul", true},
      {"1,min:20000", false},   {"1,max:100", false}, {"1,max:20000", true},    {"2,name:Mul", false},
      {"1,name:", false}, /* refused as a value, and so without effect */
  };
  OrtSession *session = rig_session("multi", 0);
  OrtValue *x = rig_device_tensor(0, COUNT);
  static const char *const names[] = {"x", "sum", "product", "same"};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    OrtValue *outputs[3] = {NULL};
    rig_set("fail_compute", "0", NULL);
    assert_int_equal(vdev_set(0, "fail_compute", cases[i].fault), strcmp(cases[i].fault, "1,name:") == 0 ? -1 : 0);
    OrtStatus *status = rig.api->Run(session, NULL, names, (const OrtValue *const *)&x, 1, names + 1, 3, outputs);
    if (cases[i].fails) {
      refused("failed as asked (fail_compute)", status);
    } else {
      ok(status);
    }
    for (int o = 0; o < 3; o++) {
      rig.api->ReleaseValue(outputs[o]);
    }
  }
  rig_set("fail_compute", "0", NULL);
  rig.api->ReleaseValue(x);
  rig.api->ReleaseSession(session);
}

/* Work that fails after its submission: ORT ignores the status of a stream's Flush, and still a run that waits returns the failure,
 * once; work that is not waited for is submitted without an error. */
static void test_late_failures(void **state) {
  const bench *one = *state;
  const char *const names[] = {"x", "y"};
  static const char *const clocks[] = {"real", "virtual"};
  for (int i = 0; i < 2; i++) {
    OrtValue *result = NULL;
    rig_set("clock", clocks[i], "fail_compute", "1,late", NULL);
    refused("kernel Mul of 8004 bytes failed late, as asked (fail_compute)", rig_run(one->session, one->binding, NULL));
    ok(rig_run(one->session, one->binding, NULL));
    rig_set("fail_compute", "1,late,name:Mul", NULL);
    refused("failed late", rig.api->Run(one->session, NULL, names, (const OrtValue *const *)&one->x, 1, names + 1, 1, &result));
    assert_null(result);
    ok(rig_run(one->session, one->binding, NULL)); /* on the stream of the run that has failed */
    OrtSyncStream *stream = rig_stream(0);
    rig_set("fail_compute", "1,late", NULL);
    ok(rig_run(one->session, one->binding, stream));
    assert_int_equal(vdev_stream_synchronize(rig_native(stream)), -1);
    assert_non_null(strstr(vdev_last_error(), "failed late"));
    assert_int_equal(vdev_stream_synchronize(rig_native(stream)), 0);
    rig_set("fail_copy", "1,late", NULL); /* of pageable memory, so that the call waits */
    refused("upload of 4000 bytes failed late, as asked (fail_copy)", rig_copy(one->host, one->x, stream));
    ok(rig_copy(one->host, one->x, stream));
    rig.api->ReleaseSyncStream(stream);
  }
  rig_set("clock", "real", NULL);
  assert_int_equal(vdev_set(0, "fail_alloc", "1,late"), -1);
  assert_int_equal(vdev_set(0, "delay_copy", "1,late,us:5"), -1);
}

/* A kernel that fails by itself, where the shape of its output is known only afterwards: on a stream or not, at once or late. */
static void test_failure_of_unknown_shape(void **state) {
  const bench *one = *state;
  static const char *const names[] = {"x", "shape", "y"};
  int64_t shape[2] = {4, 3}; /* 12 elements are not 1000 */
  int64_t two = 2;
  OrtValue *asked = NULL;
  ok(rig.api->CreateTensorWithDataAsOrtValue(rig.host, shape, sizeof shape, &two, 1, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64,
                                             &asked));
  OrtSession *session = rig_session("reshape", 0);
  const OrtValue *inputs[] = {one->x, asked};
  static const char *const times[] = {"0", "1000"};
  for (int i = 0; i < 4; i++) {
    OrtValue *result = NULL;
    rig_set("compute_us", times[i % 2], NULL);
    shape[1] = 3;
    refused("kernel Reshape", rig.api->Run(session, NULL, names, inputs, 2, names + 2, 1, &result));
    assert_null(result);
    shape[1] = -1;
    ok(rig.api->Run(session, NULL, names, inputs, 2, names + 2, 1, &result));
    rig.api->ReleaseValue(result);
  }
  rig_set("compute_us", "0", NULL);
  rig.api->ReleaseSession(session);
  rig.api->ReleaseValue(asked);
}

static void test_every_kernel(void **state) {
  const bench *one = *state;
  rig_set("fail_compute", "every:3", NULL);
  for (int i = 1; i <= 9; i++) {
    OrtStatus *status = rig_run(one->session, one->binding, NULL);
    if (i % 3 == 0) {
      refused("fail_compute", status);
    } else {
      ok(status);
    }
  }
  rig_set("fail_compute", "0", NULL);
}

/* The first element of y = 2 x, with nothing else around it. */
static float run_and_look(const bench *one) {
  host_data[0] = 4;
  host_data[1] = 5;
  OrtSyncStream *stream = rig_stream(0);
  ok(rig_copy(one->host, one->x, stream));
  ok(rig_run(one->session, one->binding, stream));
  ok(rig_copy(one->y, one->host, stream));
  rig.api->ReleaseSyncStream(stream);
  assert_true(host_data[1] == 10);
  return host_data[0];
}

/* One element, in the runs that the setting counts, and of the kernel that it names. */
static void test_wrong_results(void **state) {
  static const struct {
    const char *setting;
    bool wrong[4];
  } rows[] = {
      {"2", {false, true, false, false}},
      {"every:2", {false, true, false, true}},
      {"from:3", {false, false, true, true}},
      {"every:1,name:Mul", {true, true, true, true}},
      {"every:1,name:Add", {false, false, false, false}},
      {"every:1,min:9000", {false, false, false, false}},
  };
  const bench *one = *state;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    rig_set("wrong_compute", rows[i].setting, NULL);
    for (size_t run = 0; run < sizeof rows[i].wrong / sizeof rows[i].wrong[0]; run++) {
      const float first = run_and_look(one);
      assert_true((first > 8 || first < 8) == rows[i].wrong[run]);
    }
  }
  rig_set("wrong_compute", "0", NULL);
}

static void test_streams(void **state) {
  (void)state;
  rig_set("fail_stream", "1", NULL);
  OrtSyncStream *stream = NULL;
  refused("stream creation failed as asked (fail_stream)", rig.api->CreateSyncStreamForEpDevice(rig.devices[0], NULL, &stream));
  assert_null(stream);
  rig_set("fail_stream", "every:2", NULL);
  for (int i = 0; i < 2; i++) {
    vdev_stream *native = vdev_stream_create(0);
    assert_non_null(native);
    vdev_stream_destroy(native);
    assert_null(vdev_stream_create(0));
    assert_non_null(strstr(vdev_last_error(), "fail_stream"));
  }
  rig_set("fail_stream", "0", NULL);
}

static void test_sessions(void **state) {
  const bench *one = *state;
  OrtSession *session = NULL;
  rig_set("fail_session", "every:2", NULL);
  for (int i = 0; i < 2; i++) {
    rig.api->ReleaseSession(rig_session("scale", 0));
    refused("session creation failed as asked (fail_session)", rig_try_session("scale", 0, NULL, NULL, &session));
    assert_null(session);
  }
  rig_set("fail_session", "0", "mem_limit", "10000", NULL);
  OrtStatus *status = rig_try_session("lookup rows=4096 columns=16", 0, NULL, NULL, &session); /* a table that does not fit */
  rig_set("mem_limit", "0", NULL);
  refused("262144 bytes wanted, 8004 in use, limit 10000", status);
  assert_int_equal(rig_get("live_blocks"), one->live);
}

/* One operation of each kind, as often as it is asked for. True: it went well. */

static bool allocate_once(const bench *one) {
  (void)one;
  OrtAllocator *allocator = rig_allocator(0, false);
  void *memory = allocator->Alloc(allocator, 100);
  allocator->Free(allocator, memory);
  return memory != NULL;
}

static bool allocate_pinned_once(const bench *one) {
  (void)one;
  OrtAllocator *allocator = rig_allocator(0, true);
  void *memory = allocator->Alloc(allocator, 100);
  allocator->Free(allocator, memory);
  return memory != NULL;
}

static bool went_well(OrtStatus *status) {
  rig.api->ReleaseStatus(status);
  return status == NULL;
}

static bool copy_once(const bench *one) {
  return went_well(rig_copy(one->host, one->x, NULL));
}

static bool compute_once(const bench *one) {
  return went_well(rig_run(one->session, one->binding, NULL));
}

static bool make_stream_once(const bench *one) {
  (void)one;
  vdev_stream *stream = vdev_stream_create(0);
  vdev_stream_destroy(stream);
  return stream != NULL;
}

static bool make_session_once(const bench *one) {
  (void)one;
  OrtSession *session = NULL;
  bool good = went_well(rig_try_session("scale", 0, NULL, NULL, &session));
  if (good) {
    rig.api->ReleaseSession(session);
  }
  return good;
}

/* Failures and delays count every operation, each for itself, and an operation that fails takes no time: of six, the second, fourth
 * and sixth fail, and of the third and sixth that are to be late the third is. Each failure is counted. */
static void test_failures_and_delays_together(void **state) {
  const bench *one = *state;
  static const struct {
    const char *kind;
    bool (*operation)(const bench *one);
  } kinds[] = {{"alloc", allocate_once},  {"pinned", allocate_pinned_once}, {"copy", copy_once},
               {"compute", compute_once}, {"stream", make_stream_once},     {"session", make_session_once}};
  rig_set("clock", "virtual", NULL);
  for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
    char fail[16];
    char delay[16];
    snprintf(fail, sizeof fail, "fail_%s", kinds[k].kind);
    snprintf(delay, sizeof delay, "delay_%s", kinds[k].kind);
    rig_set(fail, "every:2", delay, "every:3,us:500", NULL);
    assert_int_equal(vdev_reset(0), 0);
    for (int i = 1; i <= 6; i++) {
      int64_t before = rig_get("time_ns");
      if (kinds[k].operation(one) != (i % 2 != 0)) {
        fail_msg("%s %d", kinds[k].kind, i);
      }
      int64_t took = rig_get("time_ns") - before;
      if (took != (i == 3 ? 500000 : 0)) {
        fail_msg("%s %d took %lld ns", kinds[k].kind, i, (long long)took);
      }
    }
    rig_set(fail, "0", delay, "0", NULL);
    assert_int_equal(rig_get("errors"), 3);
  }
  rig_set("clock", "real", NULL);
}

/* What was refused without a fault is counted too, once. */
static void test_refusals_are_counted(void **state) {
  const bench *one = *state;
  assert_int_equal(vdev_reset(0), 0);
  OrtAllocator *allocator = rig_allocator(0, false);
  assert_null(allocator->Alloc(allocator, SIZE_MAX));
  assert_int_equal(rig_get("errors"), 1);
  OrtValue *overrun = rig_view(0, rig_data(one->x), COUNT + 1);
  float longer_data[COUNT + 1] = {0};
  OrtValue *longer = rig_host_tensor(longer_data, COUNT + 1);
  refused("passes the end", rig_copy(longer, overrun, NULL));
  assert_int_equal(rig_get("errors"), 2);
  rig.api->ReleaseValue(overrun);
  rig.api->ReleaseValue(longer);
}

#define ON_BENCH(test) cmocka_unit_test_setup_teardown(test, make_bench, release_bench)
static const struct CMUnitTest cases[] = {
    ON_BENCH(test_nth_copy),
    ON_BENCH(test_every_copy),
    ON_BENCH(test_copies_by_size),
    ON_BENCH(test_copies_by_tensor),
    ON_BENCH(test_copies_of_a_run),
    ON_BENCH(test_allocations),
    ON_BENCH(test_endless_allocations),
    ON_BENCH(test_allocation_of_an_output),
    ON_BENCH(test_memory_for_an_input),
    ON_BENCH(test_compute),
    ON_BENCH(test_compute_by_name),
    ON_BENCH(test_every_kernel),
    ON_BENCH(test_wrong_results),
    ON_BENCH(test_late_failures),
    ON_BENCH(test_failure_of_unknown_shape),
    ON_BENCH(test_streams),
    ON_BENCH(test_sessions),
    ON_BENCH(test_failures_and_delays_together),
    ON_BENCH(test_refusals_are_counted),
};
RIG_MAIN(cases);
