/* Memory that a session lends, where no device of the runtime has it: used, copied, and released in any order. */
#include "fixture.h"

#include <string.h>

#include "session/session.h"

static const char *const specs[] = {"cpu", "webgpu"};
static iobind_runtime *runtime;
static iobind_device *device;
static iobind_session *session;
static iobind__place *lent;

static const float three[] = {1, 2, 3};
static const float doubled[] = {2, 4, 6};
static const int64_t count = 3;

/* A session, and a memory location with its allocator for the memory from which it reads its input. */
static void lend(const char *spec) {
  runtime = fixture_runtime();
  device = fixture_device(runtime, spec);
  session = fixture_session(runtime, device, "scale");
  lent = NULL;
  expect_ok(iobind__session_lend_place(session, session->inputs[0].place->info, &lent, &fault));
  assert_non_null(lent);
}

static int on_cpu(void **state) {
  *state = (void *)(uintptr_t)specs[0];
  return 0;
}

static int on_webgpu(void **state) {
  *state = (void *)(uintptr_t)specs[1];
  return 0;
}

static iobind_tensor *allocate(const float *values) {
  iobind_tensor *tensor = NULL;
  expect_ok(iobind__tensor_create_at(lent, (iobind__form){IOBIND_DTYPE_FLOAT32, &count, 1}, &tensor, &fault));
  if (values != NULL) {
    expect_ok(iobind_tensor_write(tensor, 0, values, 3 * sizeof *values, NULL, &fault));
  }
  return tensor;
}

static void place_is_lent_once(void **state) {
  lend(*state);
  iobind__place *again = NULL;
  expect_ok(iobind__session_lend_place(session, session->inputs[0].place->info, &again, &fault));
  assert_ptr_equal(again, lent);
  iobind_session_destroy(session);
  iobind_runtime_destroy(runtime);
}

/* A lent memory location has the same properties as the device's own. */
static void place_tells_its_memory(void **state) {
  lend(*state);
  const iobind__place *own = session->inputs[0].place;
  assert_int_equal(lent->host, own->host);
  assert_int_equal(lent->addressable, own->addressable);
  assert_int_equal(lent->memory, own->memory);
  assert_ptr_equal(lent->device, own->device);
  iobind_session_destroy(session);
  iobind_runtime_destroy(runtime);
}

static void write_read_and_copy(void **state) {
  lend(*state);
  iobind_tensor *a = allocate(three);
  iobind_tensor *b = allocate(NULL);
  iobind_tensor *shared = fixture_floats(device, NULL, 3);
  iobind_tensor *host = fixture_floats(iobind_runtime_get_device(runtime, 0), NULL, 3);
  fixture_expect_floats(a, three, 3);
  const iobind_tensor *sources[] = {a, b, shared, host};
  iobind_tensor *targets[] = {b, shared, host, a};
  for (size_t i = 0; i < 4; i++) {
    expect_ok(iobind_tensor_copy(&sources[i], &targets[i], 1, NULL, &fault));
    fixture_expect_floats(targets[i], three, 3);
  }
  iobind_tensor_release(host);
  iobind_tensor_release(shared);
  iobind_tensor_release(a);
  iobind_tensor_release(b);
  iobind_session_destroy(session);
  iobind_runtime_destroy(runtime);
}

/* The memory is freed with its last tensor, and then the session: not before. */
static void tensors_outlive_the_session(void **state) {
  for (int order = 0; order < 6; order++) {
    lend(*state);
    iobind_tensor *a = allocate(three);
    iobind_tensor *b = allocate(doubled);
    if (order % 3 == 0) {
      iobind_session_destroy(session);
    }
    if (order < 3) {
      iobind_tensor_release(a);
    }
    if (order % 3 == 1) {
      iobind_session_destroy(session);
    }
    iobind_runtime_destroy(runtime);
    fixture_expect_floats(b, doubled, 3);
    iobind_tensor_release(b);
    if (order >= 3) {
      fixture_expect_floats(a, three, 3);
      iobind_tensor_release(a);
    }
    if (order % 3 == 2) {
      iobind_session_destroy(session);
    }
  }
}

static void bound_as_an_input(void **state) {
  lend(*state);
  iobind_tensor *x = allocate(three);
  iobind_binding *binding = NULL;
  iobind_tensor *y = NULL;
  expect_ok(iobind_binding_create(session, &binding, &fault));
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
  iobind_tensor_release(x);
  iobind_session_destroy(session);
  iobind_runtime_destroy(runtime);
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  expect_ok(iobind_binding_get_output(binding, 0, NULL, &y, &fault));
  fixture_expect_floats(y, doubled, 3);
  iobind_binding_destroy(binding);
}

/* A run may show the session a memory through a value; the memory location must not point into that value after it is freed. */
static void place_outlives_the_value_that_showed_it(void **state) {
  runtime = fixture_runtime();
  device = fixture_device(runtime, *state);
  session = fixture_session(runtime, device, "scale");
  const OrtApi *api = runtime->ort.api;
  iobind_tensor *tensor = fixture_floats(device, three, 3);
  const OrtMemoryInfo *info = NULL;
  OrtStatus *told = api->GetTensorMemoryInfo(tensor->value, &info);
  assert_null(told);
  lent = NULL;
  expect_ok(iobind__session_lend_place(session, info, &lent, &fault));
  assert_ptr_not_equal(lent->info, info);
  iobind_tensor_release(tensor);
  assert_true(iobind__same_memory(runtime, lent->info, session->inputs[0].place->info));
  iobind_session_destroy(session);
  iobind_runtime_destroy(runtime);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup(place_is_lent_once, on_cpu),
    cmocka_unit_test_setup(place_is_lent_once, on_webgpu),
    cmocka_unit_test_setup(place_tells_its_memory, on_cpu),
    cmocka_unit_test_setup(place_tells_its_memory, on_webgpu),
    cmocka_unit_test_setup(write_read_and_copy, on_cpu),
    cmocka_unit_test_setup(write_read_and_copy, on_webgpu),
    cmocka_unit_test_setup(tensors_outlive_the_session, on_cpu),
    cmocka_unit_test_setup(tensors_outlive_the_session, on_webgpu),
    cmocka_unit_test_setup(bound_as_an_input, on_cpu),
    cmocka_unit_test_setup(bound_as_an_input, on_webgpu),
    cmocka_unit_test_setup(place_outlives_the_value_that_showed_it, on_cpu),
    cmocka_unit_test_setup(place_outlives_the_value_that_showed_it, on_webgpu),
};

FIXTURE_MAIN(tests, NULL, NULL);
