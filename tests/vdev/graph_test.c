/* Captured graphs, by CUDA's rules: what a run launched is launched again at the same addresses, whatever is bound by then. */
#include "rig.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "ort_ep.h"

OrtStatus *CreateEpFactories(const char *name, const OrtApiBase *base, const OrtLogger *logger, OrtEpFactory **factories,
                             size_t most, size_t *count);
OrtStatus *ReleaseEpFactory(OrtEpFactory *factory);

enum { COUNT = 1000 };

typedef struct bench {
  OrtSession *session;
  OrtValue *x, *y;
  OrtIoBinding *binding;
} bench;

static float numbers[COUNT];

static void fill(OrtValue *device, float value) {
  for (int i = 0; i < COUNT; i++) {
    numbers[i] = value;
  }
  OrtValue *host = rig_host_tensor(numbers, COUNT);
  ok(rig_copy(host, device, NULL));
  rig.api->ReleaseValue(host);
}

static float last_of(OrtValue *device) {
  OrtValue *host = rig_host_tensor(numbers, COUNT);
  ok(rig_copy(device, host, NULL));
  rig.api->ReleaseValue(host);
  return numbers[COUNT - 1];
}

static OrtSession *capturing_session(const char *model) {
  OrtSession *session = NULL;
  ok(rig_try_session(model, 0, "enable_graph_capture", "1", &session));
  return session;
}

static OrtStatus *run(OrtSession *session, OrtIoBinding *binding, const char *number) {
  OrtRunOptions *options = NULL;
  ok(rig.api->CreateRunOptions(&options));
  ok(rig.api->AddRunConfigEntry(options, "gpu_graph_id", number));
  OrtStatus *status = rig.api->RunWithBinding(session, options, binding);
  rig.api->ReleaseRunOptions(options);
  return status;
}

static int make_bench(void **state) {
  static bench one;
  one.session = capturing_session("scale");
  one.x = rig_device_tensor(0, COUNT);
  one.y = rig_device_tensor(0, COUNT);
  one.binding = rig_binding(one.session, one.x, "y", one.y);
  fill(one.x, 3);
  assert_int_equal(vdev_reset(0), 0);
  *state = &one;
  return 0;
}

static int release_bench(void **state) {
  bench *one = *state;
  rig.api->ReleaseIoBinding(one->binding);
  rig.api->ReleaseValue(one->x);
  rig.api->ReleaseValue(one->y);
  rig.api->ReleaseSession(one->session);
  return 0;
}

static void expect_counts(int64_t kernels, int64_t captures, int64_t replays) {
  assert_int_equal(rig_get("kernels"), kernels);
  assert_int_equal(rig_get("graph_captures"), captures);
  assert_int_equal(rig_get("graph_replays"), replays);
  assert_int_equal(rig_get("graph_launches"), replays); /* of one kernel each */
}

/* Two runs, then one that records and is launched; each later run is one launch, and allocates nothing. */
static void test_counts(void **state) {
  const bench *one = *state;
  ok(rig_run(one->session, one->binding, NULL));
  expect_counts(3, 1, 1);
  assert_true(last_of(one->y) == 6);
  assert_int_equal(vdev_reset(0), 0);
  for (int i = 1; i <= 10; i++) {
    fill(one->x, (float)i);
    ok(rig_run(one->session, one->binding, NULL));
    expect_counts(i, 0, i);
    assert_true(last_of(one->y) == (float)(2 * i));
  }
  assert_int_equal(rig_get("allocations"), 0);
  assert_int_equal(rig_get("errors"), 0);
}

/* A model that updates its state in place is executed three times by the first run. */
static void test_first_run_of_a_state(void **state) {
  const bench *one = *state;
  OrtIoBinding *binding = rig_binding(one->session, one->x, "y", one->x);
  ok(rig_run(one->session, binding, NULL));
  assert_true(last_of(one->x) == 3 * 2 * 2 * 2);
  ok(rig_run(one->session, binding, NULL));
  assert_true(last_of(one->x) == 3 * 2 * 2 * 2 * 2);
  rig.api->ReleaseIoBinding(binding);
}

/* Other memory is bound: the graph reads and writes what it did. */
static void test_rebound_memory_is_not_seen(void **state) {
  const bench *one = *state;
  ok(rig_run(one->session, one->binding, NULL));
  OrtValue *other_x = rig_device_tensor(0, COUNT);
  OrtValue *other_y = rig_device_tensor(0, COUNT);
  fill(other_x, 50);
  fill(other_y, 1);
  fill(one->x, 4);
  ok(rig.api->BindInput(one->binding, "x", other_x));
  ok(rig.api->BindOutput(one->binding, "y", other_y));
  ok(rig_run(one->session, one->binding, NULL));
  assert_true(last_of(other_y) == 1);
  assert_true(last_of(one->y) == 8);
  rig.api->ReleaseValue(other_x);
  rig.api->ReleaseValue(other_y);
}

/* Memory that was freed: the graph reads what lies there by now. */
static void test_freed_memory_is_read(void **state) {
  const bench *one = *state;
  OrtValue *input = rig_device_tensor(0, COUNT);
  OrtIoBinding *binding = rig_binding(one->session, input, "y", one->y);
  const void *address = rig_data(input);
  fill(input, 5);
  ok(rig_run(one->session, binding, NULL));
  assert_true(last_of(one->y) == 10);
  rig.api->ReleaseIoBinding(binding);
  rig.api->ReleaseValue(input);
  OrtValue *next = rig_device_tensor(0, COUNT); /* lies where it lay */
  assert_ptr_equal(rig_data(next), address);
  fill(next, 7);
  ok(rig_run(one->session, one->binding, NULL));
  assert_true(last_of(one->y) == 14);
  rig.api->ReleaseValue(next);
}

static void test_numbers(void **state) {
  const bench *one = *state;
  OrtValue *small_x = rig_device_tensor(0, COUNT / 2);
  OrtValue *small_y = rig_device_tensor(0, COUNT / 2);
  OrtIoBinding *small = rig_binding(one->session, small_x, "y", small_y);
  ok(run(one->session, one->binding, "1"));
  expect_counts(3, 1, 1);
  ok(run(one->session, small, "2"));
  expect_counts(6, 2, 2);
  ok(run(one->session, one->binding, "1"));
  ok(run(one->session, small, "2"));
  expect_counts(8, 2, 4);
  fill(one->x, 9);
  for (int i = 1; i <= 5; i++) {
    ok(run(one->session, one->binding, "-1"));
    expect_counts(8 + i, 2, 4);
  }
  assert_true(last_of(one->y) == 18);
  ok(run(one->session, one->binding, "-2")); /* a number like any other */
  expect_counts(16, 3, 5);
  refused("abc", run(one->session, one->binding, "abc"));
  refused("99999999999", run(one->session, one->binding, "99999999999"));
  rig.api->ReleaseIoBinding(small);
  rig.api->ReleaseValue(small_x);
  rig.api->ReleaseValue(small_y);
}

static void *run_twice(void *argument) {
  const bench *one = argument;
  OrtStatus *status = rig_run(one->session, one->binding, NULL);
  return status != NULL ? status : rig_run(one->session, one->binding, NULL);
}

/* Each thread has graphs of its own. */
static void test_threads(void **state) {
  bench *one = *state;
  ok(rig_run(one->session, one->binding, NULL));
  expect_counts(3, 1, 1);
  for (int i = 1; i <= 2; i++) {
    pthread_t thread;
    void *status = NULL;
    assert_int_equal(pthread_create(&thread, NULL, run_twice, one), 0);
    pthread_join(thread, &status);
    ok(status);
    expect_counts(3 + 4 * i, 1 + i, 1 + 2 * i);
  }
  ok(rig_run(one->session, one->binding, NULL));
  expect_counts(12, 3, 6);
}

/* What the session cannot capture is refused by ORT when it is made, and by the run if the device sees it first. */
static void test_what_cannot_be_captured(void **state) {
  (void)state;
  OrtSession *session = NULL;
  rig_set("deny", "Mul", NULL);
  OrtStatus *status = rig_try_session("scale", 0, "enable_graph_capture", "1", &session);
  rig_set("deny", "", NULL);
  refused("graph capture", status);
  refused("control flow", rig_try_session("if dims=4", 0, "enable_graph_capture", "1", &session));

  session = capturing_session("nonzero");
  OrtValue *x = rig_device_tensor(0, COUNT);
  fill(x, 1);
  const char *names[] = {"x", "y"};
  assert_int_equal(vdev_reset(0), 0);
  for (int i = 0; i < 2; i++) {
    OrtValue *y = NULL;
    refused("kernel NonZero cannot be captured: the size of an output depends on the data",
            rig.api->Run(session, NULL, names, (const OrtValue *const *)&x, 1, names + 1, 1, &y));
    assert_null(y);
  }
  assert_int_equal(rig_get("graph_captures"), 0);
  rig.api->ReleaseValue(x);
  rig.api->ReleaseSession(session);
}

/* ORT does not infer the size of these outputs: it is that of the plain runs before the capture. */
static void test_sizes_that_only_a_run_tells(void **state) {
  const bench *one = *state;
  OrtSession *session = capturing_session("scale dims=?");
  OrtIoBinding *binding = rig_binding(session, one->x, "y", one->y);
  OrtValue *small_x = rig_device_tensor(0, COUNT / 2);
  OrtValue *small_y = rig_device_tensor(0, COUNT / 2);
  OrtIoBinding *small = rig_binding(session, small_x, "y", small_y);
  ok(run(session, binding, "1"));
  expect_counts(3, 1, 1);
  ok(run(session, small, "2"));
  expect_counts(6, 2, 2);
  for (int i = 3; i < 6; i++) {
    fill(one->x, (float)i);
    ok(run(session, binding, "1"));
    assert_true(last_of(one->y) == (float)(2 * i));
  }
  expect_counts(9, 2, 5);

  /* a capture that fails leaves the sizes of its inputs; one of others begins with plain runs again */
  rig_set("fail_capture", "1", NULL);
  refused("another thread's call came into it: as asked", run(session, binding, "3"));
  refused("the one before had inputs of other sizes", run(session, small, "3"));
  ok(run(session, small, "3"));
  ok(run(session, small, "3"));
  assert_int_equal(rig_get("graph_captures"), 3);
  rig.api->ReleaseIoBinding(small);
  rig.api->ReleaseValue(small_x);
  rig.api->ReleaseValue(small_y);
  rig.api->ReleaseIoBinding(binding);
  rig.api->ReleaseSession(session);
}

static void write_dims(OrtValue *device, int64_t rows, int64_t columns) {
  int64_t dims[2] = {rows, columns};
  const int64_t two = 2;
  OrtValue *host = NULL;
  ok(rig.api->CreateTensorWithDataAsOrtValue(rig.host, dims, sizeof dims, &two, 1, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64, &host));
  ok(rig_copy(host, device, NULL));
  rig.api->ReleaseValue(host);
}

/* The data decide about the size after all: a launch of the graph that gives another one fails. */
static void test_another_size(void **state) {
  (void)state;
  const int64_t two = 2;
  OrtSession *session = capturing_session("expand dims=1 rank=2");
  OrtAllocator *allocator = rig_allocator(0, false);
  OrtValue *x = rig_device_tensor(0, 1);
  OrtValue *shape = NULL;
  OrtValue *host = rig_host_tensor(numbers, 1);
  ok(rig.api->CreateTensorAsOrtValue(allocator, &two, 1, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64, &shape));
  OrtIoBinding *binding = NULL;
  ok(rig.api->CreateIoBinding(session, &binding));
  ok(rig.api->BindInput(binding, "x", x));
  ok(rig.api->BindInput(binding, "shape", shape));
  ok(rig.api->BindOutputToDevice(binding, "y", rig.api->EpDevice_MemoryInfo(rig.devices[0], OrtDeviceMemoryType_DEFAULT)));
  assert_int_equal(vdev_reset(0), 0);
  for (int i = 0; i < 6; i++) {
    numbers[0] = (float)i;
    ok(rig_copy(host, x, NULL));
    write_dims(shape, 2, i % 2 == 0 ? 3 : 4);
    if (i % 2 == 0) {
      ok(rig_run(session, binding, NULL));
    } else {
      refused("kernel Expand", rig_run(session, binding, NULL));
    }
  }
  assert_int_equal(rig_get("graph_captures"), 1);
  rig.api->ReleaseIoBinding(binding);
  rig.api->ReleaseValue(host);
  rig.api->ReleaseValue(x);
  rig.api->ReleaseValue(shape);
  rig.api->ReleaseSession(session);
}

/* The option is its session's, and no other session's of the device. */
static void test_option(void **state) {
  const bench *one = *state;
  OrtSession *session = NULL;
  refused("'enable_graph_capture' cannot be 'yes': expected one of 0, 1",
          rig_try_session("scale", 0, "enable_graph_capture", "yes", &session));
  session = rig_session("scale", 0);
  OrtIoBinding *binding = rig_binding(session, one->x, "y", one->y);
  for (int i = 1; i <= 4; i++) {
    ok(rig_run(session, binding, NULL));
    expect_counts(i, 0, 0);
  }
  rig.api->ReleaseIoBinding(binding);
  rig.api->ReleaseSession(session);
  rig_set("enable_graph_capture", "1", NULL); /* for later sessions that do not say */
  session = rig_session("scale", 0);
  rig_set("enable_graph_capture", "0", NULL);
  binding = rig_binding(session, one->x, "y", one->y);
  ok(rig_run(session, binding, NULL));
  expect_counts(7, 1, 1);
  rig.api->ReleaseIoBinding(binding);
  rig.api->ReleaseSession(session);
}

/* The launches of a replay are accesses as all others are. */
static void test_races(void **state) {
  const bench *one = *state;
  OrtSyncStream *stream = rig_stream(0);
  OrtValue *pinned = rig_pinned_tensor(0, COUNT);
  vdev_event *event = vdev_event_create(0);
  ok(rig_run(one->session, one->binding, NULL));
  rig_set("race", "fail", NULL);
  ok(rig_run(one->session, one->binding, NULL)); /* the host has waited for all that came before */
  ok(rig_copy(pinned, one->x, stream));
  refused("Mul on stream", rig_run(one->session, one->binding, NULL));
  assert_int_equal(rig_get("races"), 1);
  assert_int_equal(vdev_stream_synchronize(rig_native(stream)), 0);
  ok(rig_run(one->session, one->binding, NULL));
  rig_set("race", "off", NULL);
  vdev_event_destroy(event);
  rig.api->ReleaseSyncStream(stream);
  rig.api->ReleaseValue(pinned);
}

/* A graph is launched on the stream of its capture, behind what that has to do; ORT waits for it. */
static void test_on_a_stream(void **state) {
  const bench *one = *state;
  OrtSyncStream *stream = rig_stream(0);
  OrtValue *pinned = rig_pinned_tensor(0, COUNT);
  float *data = rig_data(pinned);
  rig_set("clock", "virtual", "compute_us", "1000", "latency_us", "100", "race", "fail", NULL);
  int64_t start = rig_get("time_ns");
  ok(rig_run(one->session, one->binding, stream));
  assert_int_equal(vdev_stream_synchronize(rig_native(stream)), 0);
  assert_int_equal(rig_get("time_ns") - start, 3000000);
  for (int i = 1; i <= 3; i++) {
    start = rig_get("time_ns");
    data[COUNT - 1] = (float)i;
    ok(rig_copy(pinned, one->x, stream));
    ok(rig_run(one->session, one->binding, stream));
    assert_int_equal(rig_get("time_ns") - start, 1100000);
    assert_true(last_of(one->y) == (float)(2 * i));
    rig_set("latency_us", "100", NULL);
  }
  rig.api->ReleaseSyncStream(stream);
  rig_set("latency_us", "0", NULL);
  ok(rig_run(one->session, one->binding, NULL)); /* its stream is gone */
  rig_set("clock", "real", "compute_us", "0", "race", "off", NULL);
  rig.api->ReleaseValue(pinned);
}

/* Tensors of the host: ORT's copies belong to the graph, with the addresses of the capture; and ORT gives a replay's new output no
 * tensor. */
static void test_host_tensors(void **state) {
  const bench *one = *state;
  static float in[COUNT];
  static float out[COUNT];
  static float other[COUNT];
  const char *names[] = {"x", "y"};
  OrtValue *x = rig_host_tensor(in, COUNT);
  OrtValue *y = rig_host_tensor(out, COUNT);
  OrtValue *other_y = rig_host_tensor(other, COUNT);
  for (int i = 1; i <= 3; i++) {
    in[0] = (float)i;
    assert_int_equal(vdev_reset(0), 0);
    ok(rig.api->Run(one->session, NULL, names, (const OrtValue *const *)&x, 1, names + 1, 1, &y));
    assert_true(out[0] == (float)(2 * i));
    assert_int_equal(rig_get("h2d_count"), i == 1 ? 3 : 1);
    assert_int_equal(rig_get("d2h_count"), i == 1 ? 3 : 1);
  }
  in[0] = 9;
  ok(rig.api->Run(one->session, NULL, names, (const OrtValue *const *)&x, 1, names + 1, 1, &other_y));
  assert_true(other[0] == 0 && out[0] == 18);
  OrtValue *made = NULL;
  void *data = NULL;
  ok(rig.api->Run(one->session, NULL, names, (const OrtValue *const *)&x, 1, names + 1, 1, &made));
  refused("", rig.api->GetTensorMutableData(made, &data));
  rig.api->ReleaseValue(made);
  rig.api->ReleaseValue(x);
  rig.api->ReleaseValue(y);
  rig.api->ReleaseValue(other_y);
}

/* A fault strikes the launch of a replay; the graph stays. */
static void test_faults(void **state) {
  const bench *one = *state;
  ok(rig_run(one->session, one->binding, NULL));
  rig_set("fail_compute", "2", NULL);
  ok(rig_run(one->session, one->binding, NULL));
  refused("failed as asked (fail_compute)", rig_run(one->session, one->binding, NULL));
  ok(rig_run(one->session, one->binding, NULL));
  assert_int_equal(rig_get("graph_captures"), 1);
  assert_int_equal(rig_get("errors"), 1);
}

/* ORT lets a program give a graph back from 1.27 on, by a function behind the table's part that abi/ declares. */
static void test_release(void **state) {
  const bench *one = *state;
  if (rig.minor < 27) {
    skip();
  }
  OrtStatus *(ORT_CALL * release)(OrtSession * session, int number);
  memcpy(&release, (const char *)rig.api + 421 * sizeof release, sizeof release);
  ok(run(one->session, one->binding, "5"));
  ok(run(one->session, one->binding, "6"));
  expect_counts(6, 2, 2);
  ok(release(one->session, 5));
  ok(run(one->session, one->binding, "6"));
  expect_counts(7, 2, 3);
  ok(run(one->session, one->binding, "5"));
  expect_counts(10, 3, 4);
}

/* ---- no other thread may use the device during a capture: the functions that ORT calls, with another thread between them ---- */

typedef struct intruder {
  const char *what;
  bool (*call)(void);
} intruder;

static OrtValue *intruders_x;
static OrtValue *intruders_host;
static OrtSyncStream *intruders_stream;
static vdev_event *intruders_event;

static bool went_well(OrtStatus *status) {
  rig.api->ReleaseStatus(status);
  return status == NULL;
}

static bool allocate(void) {
  OrtAllocator *allocator = rig_allocator(0, false);
  void *memory = allocator->Alloc(allocator, 16);
  allocator->Free(allocator, memory);
  return memory != NULL;
}

static bool allocate_pinned(void) {
  OrtAllocator *allocator = rig_allocator(0, true);
  void *memory = allocator->Alloc(allocator, 16);
  allocator->Free(allocator, memory);
  return memory != NULL;
}

static bool copy(void) {
  return went_well(rig_copy(intruders_host, intruders_x, NULL));
}

static bool copy_pageable(void) {
  return went_well(rig_copy(intruders_host, intruders_x, intruders_stream));
}

static bool wait_for_stream(void) {
  return vdev_stream_synchronize(rig_native(intruders_stream)) == 0;
}

static bool wait_for_event(void) {
  return vdev_event_wait(intruders_event) == 0;
}

static bool ask_event(void) {
  return vdev_event_query(intruders_event) >= 0;
}

static bool submit(void) {
  OrtValue *pinned = rig_view(0, rig_data(intruders_x), COUNT);
  bool good = went_well(rig_copy(intruders_x, pinned, intruders_stream));
  rig.api->ReleaseValue(pinned);
  return good;
}

static void *intrude(void *argument) {
  const intruder *one = argument;
  return one->call() ? argument : NULL;
}

static bool in_another_thread(const intruder *one) {
  pthread_t thread;
  void *good = NULL;
  assert_int_equal(pthread_create(&thread, NULL, intrude, (void *)(uintptr_t)one), 0);
  pthread_join(thread, &good);
  return good != NULL;
}

static OrtEp *make_ep(OrtEpFactory **factory) {
  size_t count = 0;
  OrtEp *ep = NULL;
  OrtKeyValuePairs *metadata = NULL;
  OrtSessionOptions *options = NULL;
  ok(CreateEpFactories("vdev", rig.base, NULL, factory, 1, &count));
  rig.api->CreateKeyValuePairs(&metadata);
  rig.api->AddKeyValuePair(metadata, "vdev.index", "0");
  ok(rig.api->CreateSessionOptions(&options));
  ok(rig.api->AddSessionConfigEntry(options, "ep.virtualdeviceexecutionprovider.enable_graph_capture", "1"));
  ok((*factory)->CreateEp(*factory, NULL, (const OrtKeyValuePairs *const *)&metadata, 1, options, NULL, &ep));
  rig.api->ReleaseSessionOptions(options);
  rig.api->ReleaseKeyValuePairs(metadata);
  return ep;
}

/* A call that touches the whole device fails, and the capture with it; one that only submits does not. The next capture succeeds. */
static void test_a_capture_is_alone(void **state) {
  const bench *one = *state;
  static const intruder intruders[] = {{"an allocation", allocate},
                                       {"an allocation", allocate_pinned},
                                       {"a copy that is", copy},
                                       {"a copy that is", copy_pageable},
                                       {"a wait for a stream", wait_for_stream},
                                       {"a wait for an event", wait_for_event},
                                       {"a query of an event", ask_event},
                                       {NULL, submit}};
  float data[COUNT] = {0};
  OrtEpFactory *factory = NULL;
  OrtEp *ep = make_ep(&factory);
  intruders_host = rig_host_tensor(data, COUNT);
  intruders_x = one->x;
  intruders_stream = rig_stream(0);
  intruders_event = vdev_event_create(0);
  assert_int_equal(vdev_event_record(intruders_event, rig_native(intruders_stream)), 0);
  assert_true(ep->IsGraphCaptureEnabled(ep));
  for (int i = 0; i < 2; i++) {
    ok(ep->OnRunStart(ep, NULL));
    ok(ep->OnRunEnd(ep, NULL, true));
  }
  for (size_t i = 0; i < sizeof intruders / sizeof intruders[0]; i++) {
    const char *what = intruders[i].what;
    ok(ep->OnRunStart(ep, NULL));
    ok(rig_copy(one->x, one->y, intruders_stream)); /* recorded */
    assert_int_equal(in_another_thread(&intruders[i]), what == NULL);
    OrtStatus *status = ep->OnRunEnd(ep, NULL, true);
    if (what != NULL) {
      refused(what, status);
      assert_false(ep->IsGraphCaptured(ep, 0));
    } else {
      ok(status);
    }
  }
  assert_true(ep->IsGraphCaptured(ep, 0));
  assert_int_equal(rig_get("d2d_count"), 2); /* the graph's, and that of the last intruder */
  ok(ep->ReplayGraph(ep, 0));
  assert_int_equal(rig_get("d2d_count"), 3);
  for (int i = 0; i < 3; i++) { /* a run that was cancelled before it had done anything */
    OrtRunOptions *options = NULL;
    ok(rig.api->CreateRunOptions(&options));
    ok(rig.api->AddRunConfigEntry(options, "gpu_graph_id", "7"));
    ok(ep->OnRunStart(ep, options));
    OrtStatus *status = ep->OnRunEnd(ep, options, true);
    if (i < 2) {
      ok(status);
    } else {
      refused("before it had launched anything", status);
    }
    rig.api->ReleaseRunOptions(options);
  }
  assert_false(ep->IsGraphCaptured(ep, 1));
  refused("this thread has no graph 1", ep->ReplayGraph(ep, 1));
  assert_int_equal(rig_get("graph_captures"), 1);
  factory->ReleaseEp(factory, ep);
  ok(ReleaseEpFactory(factory));
  rig.api->ReleaseSyncStream(intruders_stream);
  rig.api->ReleaseValue(intruders_host);
  vdev_event_destroy(intruders_event);
}

/* With an ORT that is too old the session says so, and what is not asked for works. */
static void test_old_ort(void **state) {
  (void)state;
  OrtSession *session = NULL;
  refused("enable_graph_capture needs ONNX Runtime 1.26 or newer",
          rig_try_session("scale", 0, "enable_graph_capture", "1", &session));
  ok(rig_try_session("scale", 0, "enable_graph_capture", "0", &session));
  rig.api->ReleaseSession(session);
}

#define ON_BENCH(test) cmocka_unit_test_setup_teardown(test, make_bench, release_bench)
static const struct CMUnitTest cases[] = {
    ON_BENCH(test_counts),
    ON_BENCH(test_first_run_of_a_state),
    ON_BENCH(test_rebound_memory_is_not_seen),
    ON_BENCH(test_freed_memory_is_read),
    ON_BENCH(test_numbers),
    ON_BENCH(test_threads),
    cmocka_unit_test(test_what_cannot_be_captured),
    ON_BENCH(test_sizes_that_only_a_run_tells),
    cmocka_unit_test(test_another_size),
    ON_BENCH(test_option),
    ON_BENCH(test_races),
    ON_BENCH(test_on_a_stream),
    ON_BENCH(test_host_tensors),
    ON_BENCH(test_faults),
    ON_BENCH(test_release),
    ON_BENCH(test_a_capture_is_alone),
};
static const struct CMUnitTest old_cases[] = {cmocka_unit_test(test_old_ort)};

/* Is the ORT of this process too old? It has to be loaded to know. */
static bool is_old(void) {
  rig_open(NULL);
  bool old = rig.minor < 26;
  rig_close(NULL);
  return old;
}

int main(int argc, char **argv) {
  if (argc > 1) {
    cmocka_set_test_filter(argv[1]);
  }
  return is_old() ? cmocka_run_group_tests(old_cases, rig_open, rig_close) : cmocka_run_group_tests(cases, rig_open, rig_close);
}
