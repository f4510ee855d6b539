/* ORT 1.23, which is too old: the plugin and the library both say so, with what they need and what came. */
#include "rig.h"

#include <iobind/iobind.h>
#include <string.h>

static void test_plugin(void **state) {
  (void)state;
  refused("vdev needs ONNX Runtime 1.24 or newer, this is 1.23.2", rig_register("vdev"));
  assert_int_equal(vdev_device_count(), 0);
}

static void test_library(void **state) {
  (void)state;
  iobind_runtime *runtime = NULL;
  iobind_error error = IOBIND_ERROR_INIT;
  assert_int_equal(iobind_runtime_create(NULL, &runtime, &error), IOBIND_ERROR_VERSION);
  assert_null(runtime);
  assert_non_null(strstr(error.message, "1.23.2"));
  assert_non_null(strstr(error.message, "1.24"));
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_plugin),
    cmocka_unit_test(test_library),
};

int main(void) {
  return cmocka_run_group_tests(cases, NULL, NULL);
}
