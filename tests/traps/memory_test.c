/* Traps of memory: allocators that fail, are missing or are replaced, copies that an EP does not check, tensors of no bytes. */
#include "trap.h"

#include <string.h>

#include "session/session.h"
#include "../rig/calls.h"

static const float two[] = {1, 2};
static const float doubled[] = {2, 4};

static iobind_device *beside(void) {
  iobind_device *device = NULL;
  expect_ok(iobind_runtime_find_device(runtime, "vdev:1", &device, NULL, &fault));
  return device;
}

/* ---- allocation ---- */

/* If a device is out of memory, ORT nevertheless creates a tensor, whose address is NULL. */
static void allocation_that_failed_unseen(void **state) {
  (void)state;
  static const int64_t count = 1 << 20;
  iobind_session *session = fixture_session(runtime, vdev, "scale");
  iobind_binding *binding = trap_bind(session);
  iobind_tensor *x = fixture_floats(vdev, two, 2);
  iobind_tensor *host = NULL;
  expect_ok(iobind_tensor_create(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, &count, 1, &host, &fault));
  trap_set_input(binding, 0, x);
  assert_int_equal(vdev_set(0, "mem_limit", "100000"), 0);

  OrtAllocator *allocator = NULL;
  OrtValue *raw = NULL;
  void *data = &raw;
  const iobind__place *place = &vdev->places[IOBIND_MEMORY_DEFAULT];
  assert_null(real->GetSharedAllocator(runtime->env, place->info, &allocator));
  assert_null(real->CreateTensorAsOrtValue(allocator, &count, 1, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &raw));
  assert_null(real->GetTensorMutableData(raw, &data));
  assert_null(data);
  real->ReleaseValue(raw);

  iobind_tensor *tensor = x;
  expect(IOBIND_ERROR_OUT_OF_MEMORY,
         iobind_tensor_create(vdev, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, &count, 1, &tensor, &fault));
  expect_words("4194304 bytes on 'vdev:0'");
  assert_null(tensor);
  expect(IOBIND_ERROR_OUT_OF_MEMORY, iobind_binding_set_input(binding, 0, IOBIND_INPUT_SNAPSHOT, host, NULL, &fault));
  expect(IOBIND_ERROR_OUT_OF_MEMORY, iobind_binding_set_input(binding, 0, IOBIND_INPUT_LIVE, host, NULL, &fault));
  iobind_device_counters counters = IOBIND_DEVICE_COUNTERS_INIT;
  expect_ok(iobind_device_get_counters(vdev, &counters, &fault));
  assert_int_equal(counters.allocated_bytes, sizeof two);

  /* within a run it is ORT that allocates */
  assert_int_equal(vdev_set(0, "fail_alloc", "1"), 0);
  expect(IOBIND_ERROR_RUNTIME, iobind_binding_run(binding, NULL, &fault));
  expect(IOBIND_ERROR_INVALID_STATE, iobind_binding_take_output(binding, 0, &tensor, &fault));
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  tensor = trap_take(binding, 0);
  fixture_expect_floats(tensor, doubled, 2);
  iobind_tensor_release(tensor);
  iobind_tensor_release(host);
  iobind_tensor_release(x);
  iobind_binding_destroy(binding);
  iobind_session_destroy(session);
}

static int shared_found;
static int shared_made;
static bool shared_is_missing;

static OrtStatus *ORT_CALL find_shared(OrtEnv *env, const OrtMemoryInfo *info, OrtAllocator **allocator) {
  shared_found++;
  *allocator = NULL;
  return shared_is_missing ? NULL : real->GetSharedAllocator(env, info, allocator);
}

static OrtStatus *ORT_CALL make_shared(OrtEnv *env, const OrtEpDevice *device, OrtDeviceMemoryType memory,
                                       OrtAllocatorType type, const OrtKeyValuePairs *options, OrtAllocator **allocator) {
  shared_made++;
  return real->CreateSharedAllocator(env, device, memory, type, options, allocator);
}

static void make_many(iobind_device *device) {
  iobind_tensor *kept[8];
  for (size_t i = 0; i < 8; i++) {
    kept[i] = fixture_floats(device, two, 2);
  }
  for (size_t i = 0; i < 8; i++) {
    fixture_expect_floats(kept[i], two, 2);
    iobind_tensor_release(kept[i]);
  }
}

/* Creating a shared allocator frees the one that was there under the tensors that came from it. */
static void shared_allocator_replaced(void **state) {
  (void)state;
  table.GetSharedAllocator = find_shared;
  table.CreateSharedAllocator = make_shared;
  make_many(beside()); /* the other one was in use before */
  make_many(vdev);
  make_many(beside());
  assert_int_equal(shared_found, 2); /* once for each device */
  assert_int_equal(shared_made, 0);
}

/* ORT answers OK and NULL where there is none, which its own words rule out: then it is made, once. */
static void shared_allocator_missing(void **state) {
  (void)state;
  table.GetSharedAllocator = find_shared;
  table.CreateSharedAllocator = make_shared;
  shared_is_missing = true;
  make_many(beside());
  make_many(beside());
  assert_int_equal(shared_found, 1);
  assert_int_equal(shared_made, 1);
}

static OrtStatus *ORT_CALL make_none(OrtEnv *env, const OrtEpDevice *device, OrtDeviceMemoryType memory, OrtAllocatorType type,
                                     const OrtKeyValuePairs *options, OrtAllocator **allocator) {
  (void)env, (void)device, (void)memory, (void)type, (void)options;
  *allocator = NULL;
  shared_made++;
  return NULL;
}

/* An EP that shares none at all: a session lends its own, and a tensor without a session is refused. */
static void shared_allocator_refused(void **state) {
  (void)state;
  static const int64_t count = 2;
  iobind_device *device = beside();
  table.GetSharedAllocator = find_shared;
  table.CreateSharedAllocator = make_none;
  shared_is_missing = true;
  iobind_tensor *tensor = NULL;
  expect(IOBIND_ERROR_NOT_SUPPORTED,
         iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, &count, 1, &tensor, &fault));
  expect_words("vdev:1");
  iobind_session *session = fixture_session(runtime, device, "scale");
  iobind_binding *binding = trap_bind(session);
  iobind_tensor *host = fixture_floats(cpu, two, 2);
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_SNAPSHOT, host, NULL, &fault));
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  tensor = trap_take(binding, 0);
  iobind_binding_destroy(binding);
  iobind_session_destroy(session);
  fixture_expect_floats(tensor, doubled, 2);
  iobind_tensor_release(tensor);
  iobind_tensor_release(host);
}

/* ---- copies ---- */

static const OrtEpDevice *renamed;
static int copies;
static int mixed_copies;

static const char *ORT_CALL name_of(const OrtEpDevice *device) {
  return device == renamed ? "ForeignExecutionProvider" : real->EpDevice_EpName(device);
}

static int vdev_number(const OrtValue *value) {
  const OrtMemoryInfo *info = NULL;
  OrtMemoryInfoDeviceType type;
  int id = -1;
  assert_null(real->GetTensorMemoryInfo(value, &info));
  real->MemoryInfoGetDeviceType(info, &type);
  assert_null(real->MemoryInfoGetId(info, &id));
  return type == OrtMemoryInfoDeviceType_CPU ? -1 : id;
}

static OrtStatus *ORT_CALL watch_copy(const OrtEnv *env, const OrtValue *const *sources, OrtValue *const *targets,
                                      OrtSyncStream *stream, size_t count) {
  for (size_t i = 0; i < count; i++) {
    int from = vdev_number(sources[i]);
    int to = vdev_number(targets[i]);
    copies++;
    mixed_copies += from >= 0 && to >= 0 && from != to;
  }
  return real->CopyTensors(env, sources, targets, stream, count);
}

/* An EP that is handed another vendor's tensor may take it for its own: it gets none. Two devices of one EP know each other. */
static void vendor_mismatch_before_a_copy(void **state) {
  (void)state;
  iobind_device *other = beside();
  iobind_tensor *source = fixture_floats(vdev, two, 2);
  iobind_tensor *target = fixture_floats(other, NULL, 2);
  const iobind_tensor *sources[] = {source};
  table.CopyTensors = watch_copy;
  expect_ok(iobind_tensor_copy(sources, &target, 1, NULL, &fault));
  assert_int_equal(copies, 1);
  assert_int_equal(mixed_copies, 1);
  fixture_expect_floats(target, two, 2);

  expect_ok(iobind_tensor_write(target, 0, doubled, sizeof doubled, NULL, &fault));
  table.EpDevice_EpName = name_of;
  renamed = other->ep_device;
  copies = mixed_copies = 0;
  expect_ok(iobind_tensor_copy(sources, &target, 1, NULL, &fault));
  assert_int_equal(copies, 2); /* down and up */
  assert_int_equal(mixed_copies, 0);
  fixture_expect_floats(target, two, 2);
  iobind_tensor_release(source);
  iobind_tensor_release(target);
}

/* ORT's copy of nothing, between host and host and of no bytes are errors: none of them gets that far. */
static void copies_that_ort_refuses(void **state) {
  (void)state;
  const OrtValue *none = NULL;
  OrtValue *nothing = NULL;
  OrtStatus *refused = real->CopyTensors(runtime->env, &none, &nothing, NULL, 0);
  assert_non_null(refused);
  real->ReleaseStatus(refused);

  table.CopyTensors = watch_copy;
  expect_ok(iobind_tensor_copy(NULL, NULL, 0, NULL, &fault));
  iobind_device *const devices[] = {cpu, vdev};
  for (size_t from = 0; from < 2; from++) {
    for (size_t to = 0; to < 2; to++) {
      iobind_tensor *source = fixture_floats(devices[from], NULL, 0);
      iobind_tensor *target = fixture_floats(devices[to], NULL, 0);
      const iobind_tensor *sources[] = {source};
      expect_ok(iobind_tensor_copy(sources, &target, 1, NULL, &fault));
      iobind_tensor_release(source);
      iobind_tensor_release(target);
    }
  }
  iobind_tensor *source = fixture_floats(cpu, two, 2);
  iobind_tensor *target = fixture_floats(cpu, NULL, 2);
  const iobind_tensor *sources[] = {source};
  expect_ok(iobind_tensor_copy(sources, &target, 1, NULL, &fault));
  fixture_expect_floats(target, two, 2);
  assert_int_equal(copies, 0);
  iobind_tensor_release(source);
  iobind_tensor_release(target);
}

/* ---- sizes ---- */

/* A tensor of no bytes has no address, and that is not an error anywhere. */
static void zero_size_with_null(void **state) {
  (void)state;
  static const int64_t dims[] = {0, 3};
  iobind_device *const devices[] = {cpu, vdev};
  for (size_t d = 0; d < 2; d++) {
    iobind_session *session = fixture_session(runtime, devices[d], "add dims=n,3");
    iobind_binding *binding = trap_bind(session);
    iobind_tensor *x = NULL;
    iobind_tensor *z = NULL;
    iobind_tensor *view = NULL;
    expect_ok(
        call_tensor_wrap(devices[d], IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 2, NULL, 0, NULL, NULL, &x, &fault));
    expect_ok(
        call_tensor_wrap(devices[d], IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 2, NULL, 0, NULL, NULL, &z, &fault));
    expect_ok(iobind_tensor_view(x, 0, IOBIND_DTYPE_FLOAT32, dims, 2, &view, &fault));
    assert_null(iobind_tensor_get_address(x));
    expect_ok(iobind_tensor_write(x, 0, NULL, 0, NULL, &fault));
    expect_ok(iobind_tensor_read(x, 0, NULL, 0, NULL, &fault));
    trap_set_input(binding, 0, x);
    trap_set_input(binding, 1, view);
    trap_set_output(binding, 0, OUTPUT_FIXED, NULL, z); /* no bytes, no overlap */
    expect_ok(iobind_binding_run(binding, NULL, &fault));
    trap_set_output(binding, 0, IOBIND_OUTPUT_FRESH, NULL, NULL);
    expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_SNAPSHOT, x, NULL, &fault));
    expect_ok(iobind_binding_write_input(binding, 0, NULL, 0, NULL, &fault));
    expect_ok(iobind_binding_run(binding, NULL, &fault));
    iobind_tensor *result = trap_take(binding, 0);
    iobind_tensor_info info = IOBIND_TENSOR_INFO_INIT;
    expect_ok(iobind_tensor_get_info(result, &info, &fault));
    assert_int_equal(info.bytes, 0);
    assert_int_equal(info.rank, 2);
    assert_int_equal(info.dims[1], 3);
    assert_null(iobind_tensor_get_address(result));
    iobind_tensor_release(result);
    iobind_tensor_release(view);
    iobind_tensor_release(x);
    iobind_tensor_release(z);
    iobind_binding_destroy(binding);
    iobind_session_destroy(session);
  }
}

/* Dims whose product is small again behind 64 bits must not pass for a small tensor. */
static void overflow_of_shape_products(void **state) {
  (void)state;
  static const struct {
    iobind_dtype dtype;
    int64_t dims[3];
  } rows[] = {
      {IOBIND_DTYPE_FLOAT32, {INT64_C(1) << 62, 4, 1}},                      /* elements: 2^64 */
      {IOBIND_DTYPE_FLOAT32, {INT64_C(1) << 40, INT64_C(1) << 40, 1}},       /* elements: 2^80 */
      {IOBIND_DTYPE_FLOAT64, {INT64_C(1) << 61, 1, 1}},                      /* bytes: 2^64 */
      {IOBIND_DTYPE_FLOAT64, {(INT64_C(1) << 61) + 1, 1, 1}},                /* bytes: 2^64 + 8 */
      {IOBIND_DTYPE_INT4, {INT64_MAX, INT64_MAX, INT64_MAX}},                /* packed */
      {IOBIND_DTYPE_UINT8, {INT64_C(6442450941), INT64_C(2863311531), 1}},   /* 2^64 - 1 and a little more */
      {IOBIND_DTYPE_FLOAT32, {INT64_C(4294967296), INT64_C(4294967296), 2}}, /* 2^65 */
      {IOBIND_DTYPE_BOOL, {INT64_C(9223372036854775807), 2, 1}},             /* 2^64 - 2: more than an address */
  };
  static char memory[64];
  iobind_tensor *whole = fixture_floats(vdev, NULL, 16);
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    size_t bytes = 1;
    iobind_tensor *tensor = NULL;
    expect(IOBIND_ERROR_SHAPE, iobind_dtype_get_bytes(rows[i].dtype, rows[i].dims, 3, &bytes, &fault));
    expect(IOBIND_ERROR_SHAPE,
           iobind_tensor_create(vdev, IOBIND_MEMORY_DEFAULT, rows[i].dtype, rows[i].dims, 3, &tensor, &fault));
    expect(IOBIND_ERROR_SHAPE, call_tensor_wrap(cpu, IOBIND_MEMORY_DEFAULT, rows[i].dtype, rows[i].dims, 3, memory,
                                                sizeof memory, NULL, NULL, &tensor, &fault));
    expect(IOBIND_ERROR_SHAPE, iobind_tensor_view(whole, 0, rows[i].dtype, rows[i].dims, 3, &tensor, &fault));
    assert_null(tensor);
  }
  iobind_tensor_release(whole);
}

/* ---- the library behind the memory ---- */

static int unregistered;

static OrtStatus *ORT_CALL note_unregister(OrtEnv *env, const char *name) {
  unregistered++;
  return real->UnregisterExecutionProviderLibrary(env, name);
}

/* Unregistering an EP's library under a live tensor ends the process: it stays until the last one is gone. */
static void library_unregistered_under_live_tensors(void **state) {
  (void)state;
  iobind_tensor *x = fixture_floats(vdev, two, 2);
  iobind_tensor *view = NULL;
  expect_ok(iobind_tensor_slice(x, 1, 1, &view, &fault));
  table.UnregisterExecutionProviderLibrary = note_unregister;
  iobind_runtime_destroy(runtime);
  fixture_expect_floats(x, two, 2);
  iobind_tensor_release(x);
  fixture_expect_floats(view, two + 1, 1);
  assert_int_equal(unregistered, 0);
  iobind_tensor_release(view);
  assert_int_equal(unregistered, 1);
  runtime = NULL;
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(allocation_that_failed_unseen),
    cmocka_unit_test(shared_allocator_replaced),
    cmocka_unit_test(shared_allocator_missing),
    cmocka_unit_test(shared_allocator_refused),
    cmocka_unit_test(vendor_mismatch_before_a_copy),
    cmocka_unit_test(copies_that_ort_refuses),
    cmocka_unit_test(zero_size_with_null),
    cmocka_unit_test(overflow_of_shape_products),
    cmocka_unit_test(library_unregistered_under_live_tensors),
};

TRAP_MAIN(tests);
