/* Control flow: claimed whole from ORT 1.27 on, one kernel a run; with an older one the CPU has it. The results are the same. */
#include "rig.h"

#include <string.h>

enum { COUNT = 4, RUNS = 3 };

/* A run with a scalar of any type beside x; the first element of the output y. */
static float run(OrtSession *session, const char *scalar_name, void *scalar, size_t bytes, ONNXTensorElementDataType type) {
  float in[COUNT] = {5, 6, 7, 8};
  const char *names[] = {scalar_name, "x", "y"};
  OrtValue *first = NULL;
  ok(rig.api->CreateTensorWithDataAsOrtValue(rig.host, scalar, bytes, NULL, 0, type, &first));
  OrtValue *x = rig_host_tensor(in, COUNT);
  OrtValue *y = NULL;
  const OrtValue *inputs[] = {first, x};
  ok(rig.api->Run(session, NULL, names, inputs, 2, names + 2, 1, &y));
  float result = ((float *)rig_data(y))[0];
  rig.api->ReleaseValue(first);
  rig.api->ReleaseValue(x);
  rig.api->ReleaseValue(y);
  return result;
}

static void expect_kernels(void) {
  assert_int_equal(rig_get("kernels"), rig.minor >= 27 ? RUNS : 0);
}

static void test_if(void **state) {
  (void)state;
  OrtSession *session = rig_session("if dims=4", 0);
  assert_int_equal(vdev_reset(0), 0);
  for (int i = 0; i < RUNS; i++) {
    bool condition = i == 1;
    assert_true(run(session, "condition", &condition, sizeof condition, ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL) ==
                (condition ? 10 : 25));
  }
  expect_kernels();
  rig.api->ReleaseSession(session);
}

static void test_loop(void **state) {
  (void)state;
  OrtSession *session = rig_session("loop dims=4", 0);
  assert_int_equal(vdev_reset(0), 0);
  for (int64_t trips = 0; trips < RUNS; trips++) {
    assert_true(run(session, "trips", &trips, sizeof trips, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64) == (float)(5 + trips));
  }
  expect_kernels();
  rig.api->ReleaseSession(session);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_if),
    cmocka_unit_test(test_loop),
};
RIG_MAIN(cases);
