/* Which object retains which: objects released in every order, deleters called once, EP libraries unregistered last. */
#include "fixture.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/runtime.h"
#include "../rig/calls.h"

static const char *const specs[] = {"cpu", "webgpu"};

static int on_cpu(void **state) {
  *state = (void *)(uintptr_t)specs[0];
  return 0;
}

static int on_webgpu(void **state) {
  *state = (void *)(uintptr_t)specs[1];
  return 0;
}

/* ORT's table with one slot that watches: the runtime's last act is to release the environment. */
static OrtApi watched;
static const OrtApi *real_api;
static int environments_released;
static int libraries_unregistered;

static void ORT_CALL watch_release(OrtEnv *env) {
  environments_released++;
  real_api->ReleaseEnv(env);
}

static OrtStatus *ORT_CALL watch_unregister(OrtEnv *env, const char *name) {
  libraries_unregistered++;
  return real_api->UnregisterExecutionProviderLibrary(env, name);
}

static void watch(iobind_runtime *runtime) {
  real_api = runtime->ort.api;
  watched = *real_api;
  watched.ReleaseEnv = watch_release;
  watched.UnregisterExecutionProviderLibrary = watch_unregister;
  runtime->ort.api = &watched;
  environments_released = 0;
  libraries_unregistered = 0;
}

enum { RUNTIME, SESSION, BINDING, OUTPUT, INPUT, PARTS };

typedef struct parts {
  iobind_runtime *runtime;
  iobind_session *session;
  iobind_binding *binding;
  iobind_tensor *output;
  iobind_tensor *input;
} parts;

static const float three[] = {1, 2, 3};
static const float doubled[] = {2, 4, 6};

static void make_parts(parts *all, const char *spec) {
  iobind_device *device;
  all->runtime = fixture_runtime_with(spec, &device);
  watch(all->runtime);
  all->session = fixture_session(all->runtime, device, "scale");
  all->input = fixture_floats(device, three, 3);
  expect_ok(iobind_binding_create(all->session, &all->binding, &fault));
  expect_ok(iobind_binding_set_input(all->binding, 0, IOBIND_INPUT_RESIDENT, all->input, NULL, &fault));
  expect_ok(iobind_binding_run(all->binding, NULL, &fault));
  expect_ok(iobind_binding_take_output(all->binding, 0, &all->output, &fault));
}

static void give_up(parts *all, int part) {
  switch (part) {
    case RUNTIME: iobind_runtime_destroy(all->runtime); break;
    case SESSION: iobind_session_destroy(all->session); break;
    case BINDING: iobind_binding_destroy(all->binding); break;
    case INPUT:
      fixture_expect_floats(all->input, three, 3);
      iobind_tensor_release(all->input);
      break;
    default:
      fixture_expect_floats(all->output, doubled, 3);
      iobind_tensor_release(all->output);
      break;
  }
}

/* The next order of the parts, alphabetically; false after the last one. */
static bool next_order(int *order, int count) {
  int i = count - 2;
  while (i >= 0 && order[i] > order[i + 1]) {
    i--;
  }
  if (i < 0) {
    return false;
  }
  int j = count - 1;
  while (order[j] < order[i]) {
    j--;
  }
  int kept = order[i];
  order[i] = order[j];
  order[j] = kept;
  for (int a = i + 1, b = count - 1; a < b; a++, b--) {
    kept = order[a];
    order[a] = order[b];
    order[b] = kept;
  }
  return true;
}

static void any_order(void **state) {
  const bool has_library = strcmp(*state, "cpu") != 0;
  /* a driver takes its time to start: there the input always goes last */
  const int moving = has_library ? PARTS - 1 : PARTS;
  int order[PARTS] = {RUNTIME, SESSION, BINDING, OUTPUT, INPUT};
  do {
    parts all = {NULL, NULL, NULL, NULL, NULL};
    make_parts(&all, *state);
    for (int i = 0; i < PARTS; i++) {
      assert_int_equal(environments_released, 0);
      assert_int_equal(libraries_unregistered, 0);
      give_up(&all, order[i]);
    }
    assert_int_equal(environments_released, 1);
    assert_true(libraries_unregistered >= (has_library ? 1 : 0));
  } while (next_order(order, moving));
}

/* Streams and events, too, are something that is left of the runtime. */
static void stream_and_event_keep_the_runtime(void **state) {
  iobind_device *device;
  iobind_runtime *runtime = fixture_runtime_with(*state, &device);
  watch(runtime);
  iobind_stream *stream = NULL;
  iobind_event *event = NULL;
  expect_ok(iobind_stream_create(device, NULL, &stream, &fault));
  expect_ok(iobind_event_create(device, &event, &fault));
  iobind_runtime_destroy(runtime);
  expect_ok(iobind_event_record(event, stream, &fault));
  iobind_stream_destroy(stream);
  assert_int_equal(environments_released, 0);
  expect_ok(iobind_event_wait(event, IOBIND_NO_TIMEOUT, &fault));
  iobind_event_destroy(event);
  assert_int_equal(environments_released, 1);
}

static void deleter_of_no_bytes(void **state) {
  (void)state;
  iobind_runtime *runtime = fixture_runtime();
  iobind_device *cpu = iobind_runtime_get_device(runtime, 0);
  static const int64_t none = 0;
  char memory[4];
  fixture_deleted deleted = {0, NULL};
  iobind_tensor *tensor = NULL;
  expect_ok(call_tensor_wrap(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, &none, 1, memory, sizeof memory, fixture_deleter,
                             &deleted, &tensor, &fault));
  assert_null(iobind_tensor_get_address(tensor));
  iobind_tensor_release(tensor);
  assert_int_equal(deleted.count, 1);
  assert_ptr_equal(deleted.data, memory);
  expect_ok(call_tensor_wrap(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, &none, 1, NULL, 0, fixture_deleter, &deleted,
                             &tensor, &fault));
  iobind_tensor_release(tensor);
  assert_int_equal(deleted.count, 2);
  assert_null(deleted.data);
  iobind_runtime_destroy(runtime);
}

/* Where the call fails, the memory stays the caller's. */
static void no_deleter_on_failure(void **state) {
  (void)state;
  iobind_runtime *runtime = fixture_runtime();
  iobind_device *cpu = iobind_runtime_get_device(runtime, 0);
  float memory[3];
  static const int64_t dims[2] = {3, -1};
  fixture_deleted deleted = {0, NULL};
  static const struct {
    iobind_status status;
    iobind_memory memory;
    iobind_dtype dtype;
    size_t rank;
    bool has_data;
    size_t bytes;
  } rows[] = {
      {IOBIND_ERROR_INVALID_ARGUMENT, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, 1, false, 12},
      {IOBIND_ERROR_INVALID_ARGUMENT, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, 1, true, 11},
      {IOBIND_ERROR_SHAPE, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, 2, true, 12},
      {IOBIND_ERROR_SHAPE, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, 99, true, 12},
      {IOBIND_ERROR_DTYPE, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_STRING, 1, true, 12},
      {IOBIND_ERROR_DTYPE, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_UNDEFINED, 1, true, 12},
      {IOBIND_ERROR_NOT_SUPPORTED, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_COMPLEX64, 1, true, 24},
      {IOBIND_ERROR_NOT_SUPPORTED, IOBIND_MEMORY_HOST_ACCESSIBLE, IOBIND_DTYPE_FLOAT32, 1, true, 12},
      {IOBIND_ERROR_INVALID_ARGUMENT, (iobind_memory)2, IOBIND_DTYPE_FLOAT32, 1, true, 12},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    iobind_tensor *tensor = (iobind_tensor *)(void *)memory;
    expect(rows[i].status,
           call_tensor_wrap(cpu, rows[i].memory, rows[i].dtype, dims, rows[i].rank, rows[i].has_data ? memory : NULL,
                            rows[i].bytes, fixture_deleter, &deleted, &tensor, &fault));
    assert_null(tensor);
  }
  assert_int_equal(deleted.count, 0);
  iobind_runtime_destroy(runtime);
}

/* Bound tensors are retained, and released when they are rebound or cleared, or when the binding is destroyed. */
static void binding_keeps_what_is_bound(void **state) {
  (void)state;
  iobind_runtime *runtime = fixture_runtime();
  iobind_device *cpu = iobind_runtime_get_device(runtime, 0);
  iobind_session *session = fixture_session(runtime, NULL, "scale");
  static const int64_t count = 3;
  for (int way = 0; way < 4; way++) {
    float *in = malloc(sizeof three);
    float *out = malloc(sizeof three);
    assert_non_null(in);
    assert_non_null(out);
    memcpy(in, three, sizeof three);
    fixture_deleted in_deleted = {0, NULL};
    fixture_deleted out_deleted = {0, NULL};
    iobind_tensor *input = NULL;
    iobind_tensor *output = NULL;
    iobind_binding *binding = NULL;
    expect_ok(call_tensor_wrap(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, &count, 1, in, sizeof three, fixture_deleter,
                               &in_deleted, &input, &fault));
    expect_ok(call_tensor_wrap(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, &count, 1, out, sizeof three, fixture_deleter,
                               &out_deleted, &output, &fault));
    expect_ok(iobind_binding_create(session, &binding, &fault));
    expect_ok(iobind_binding_set_input(binding, 0, way == 3 ? IOBIND_INPUT_LIVE : IOBIND_INPUT_RESIDENT, input, NULL, &fault));
    expect_ok(iobind_binding_set_output(binding, 0, output, 0, &fault));
    iobind_tensor_release(input);
    iobind_tensor_release(output);
    expect_ok(iobind_binding_run(binding, NULL, &fault));
    assert_memory_equal(out, doubled, sizeof doubled);
    assert_int_equal(in_deleted.count, 0);
    assert_int_equal(out_deleted.count, 0);
    if (way == 1) {
      expect_ok(iobind_binding_clear(binding, &fault));
    } else if (way == 2) {
      iobind_tensor *other = fixture_floats(cpu, three, 3);
      expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, other, NULL, &fault));
      expect_ok(iobind_binding_place_output(binding, 0, IOBIND_OUTPUT_FRESH, NULL, IOBIND_MEMORY_DEFAULT, &fault));
      iobind_tensor_release(other);
    } else {
      iobind_binding_destroy(binding);
      binding = NULL;
    }
    assert_int_equal(in_deleted.count, 1);
    assert_int_equal(out_deleted.count, 1);
    free(in);
    free(out);
    if (way == 2) {
      expect_ok(iobind_binding_run(binding, NULL, &fault)); /* and ORT touches the old memory no more */
    }
    iobind_binding_destroy(binding);
  }
  iobind_session_destroy(session);
  iobind_runtime_destroy(runtime);
}

static void null_is_nothing(void **state) {
  (void)state;
  iobind_runtime_destroy(NULL);
  iobind_session_destroy(NULL);
  iobind_binding_destroy(NULL);
  iobind_stream_destroy(NULL);
  iobind_event_destroy(NULL);
  iobind_tensor_release(NULL);
  assert_null(iobind_tensor_retain(NULL));
  assert_null(iobind_tensor_get_address(NULL));
  assert_null(iobind_runtime_get_device(NULL, 0));
}

/* On failure every out pointer is NULL, also where it is another argument that is wrong. */
static void out_pointers_are_null(void **state) {
  (void)state;
  iobind_runtime *runtime = fixture_runtime();
  iobind_device *cpu = iobind_runtime_get_device(runtime, 0);
  static const int64_t one = 1;
  int anything = 0;
  void *before = &anything;
  iobind_stream *stream = before;
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_stream_create(NULL, NULL, &stream, &fault));
  assert_null(stream);
  iobind_event *event = before;
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_event_create(NULL, &event, &fault));
  assert_null(event);
  iobind_tensor *tensor = before;
  expect(IOBIND_ERROR_INVALID_ARGUMENT,
         iobind_tensor_create(NULL, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, &one, 1, &tensor, &fault));
  assert_null(tensor);
  tensor = before;
  expect(IOBIND_ERROR_INVALID_ARGUMENT,
         iobind_tensor_create(cpu, (iobind_memory)7, IOBIND_DTYPE_FLOAT32, &one, 1, &tensor, &fault));
  assert_null(tensor);
  tensor = before;
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_tensor_slice(NULL, 0, 1, &tensor, &fault));
  assert_null(tensor);
  tensor = before;
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_tensor_view(NULL, 0, IOBIND_DTYPE_FLOAT32, &one, 1, &tensor, &fault));
  assert_null(tensor);
  tensor = before;
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_binding_get_output(NULL, 0, NULL, &tensor, &fault));
  assert_null(tensor);
  tensor = before;
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_binding_take_output(NULL, 0, &tensor, &fault));
  assert_null(tensor);
  iobind_session *session = before;
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_session_create(NULL, "x", NULL, &session, &fault));
  assert_null(session);
  session = before;
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_session_create_from_memory(runtime, NULL, 9, NULL, &session, &fault));
  assert_null(session);
  iobind_binding *binding = before;
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_binding_create(NULL, &binding, &fault));
  assert_null(binding);
  iobind_device *device = before;
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_runtime_find_device(runtime, NULL, &device, NULL, &fault));
  assert_null(device);
  void *data = before;
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_tensor_map(NULL, IOBIND_DTYPE_FLOAT32, IOBIND_ACCESS_WRITE, &data, &fault));
  assert_null(data);
  const char *key = before;
  const char *value = before;
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_device_get_metadata(NULL, 0, &key, &value, &fault));
  assert_null(key);
  assert_null(value);
  session = fixture_session(runtime, NULL, "scale");
  tensor = before;
  expect(IOBIND_ERROR_INVALID_ARGUMENT, call_session_run(session, NULL, &tensor, &fault));
  assert_null(tensor);
  iobind_session_destroy(session);
  iobind_runtime_destroy(runtime);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup(any_order, on_cpu),
    cmocka_unit_test_setup(any_order, on_webgpu),
    cmocka_unit_test_setup(stream_and_event_keep_the_runtime, on_cpu),
    cmocka_unit_test_setup(stream_and_event_keep_the_runtime, on_webgpu),
    cmocka_unit_test(deleter_of_no_bytes),
    cmocka_unit_test(no_deleter_on_failure),
    cmocka_unit_test(binding_keeps_what_is_bound),
    cmocka_unit_test(null_is_nothing),
    cmocka_unit_test(out_pointers_are_null),
};

FIXTURE_MAIN(tests, NULL, NULL);
