/* Numbers and names have nothing to do with the program's locale: here one with a decimal comma, and where a small I is not an i. */
#include "rig.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 250 };

/* The environment says VDEV_H2D_GBPS=0.5, VDEV_LATENCY_US=1.5, VDEV_CLOCK=virtual; the names of settings have an I. */
static void test_environment(void **state) {
  (void)state;
  float data[COUNT] = {0};
  OrtValue *host = rig_host_tensor(data, COUNT);
  OrtValue *device = rig_device_tensor(0, COUNT);
  int64_t before = rig_get("time_ns");
  ok(rig_copy(host, device, NULL));
  assert_int_equal(rig_get("time_ns") - before, 2000 + 1500); /* 1000 bytes at 0.5 GB/s, and the latency */
  rig_set("h2d_gbps", "0.25", "latency_us", "2.5e0", NULL);
  before = rig_get("time_ns");
  ok(rig_copy(host, device, NULL));
  assert_int_equal(rig_get("time_ns") - before, 4000 + 2500);
  assert_int_equal(vdev_set(0, "h2d_gbps", "0,5"), -1);
  assert_int_equal(vdev_set(0, "h2d_gbps", "1,000.5"), -1);
  rig.api->ReleaseValue(host);
  rig.api->ReleaseValue(device);
}

/* JSON, which ctest has a parser look at. */
static void test_trace(void **state) {
  (void)state;
  const char *path = getenv("TEST_VDEV_TRACE");
  assert_non_null(path);
  float data[COUNT] = {0};
  rig_set("trace", "1", "latency_us", "2.5", "h2d_gbps", "0", NULL);
  OrtValue *host = rig_host_tensor(data, COUNT);
  OrtValue *device = rig_device_tensor(0, COUNT);
  ok(rig_copy(host, device, NULL));
  rig_set("trace", "0", "latency_us", "0", NULL);
  rig.api->ReleaseValue(host);
  rig.api->ReleaseValue(device);
  assert_int_equal(vdev_trace_write(path), 0);
  static char text[1 << 14];
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  text[fread(text, 1, sizeof text - 1, file)] = '\0';
  fclose(file);
  assert_non_null(strstr(text, "\"dur\":2.500"));
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_environment),
    cmocka_unit_test(test_trace),
};

int main(void) {
  if (setlocale(LC_ALL, "") == NULL) {
    puts("the locale of this test cannot be made: install the package locales");
    return 77;
  }
  if (strcmp(localeconv()->decimal_point, ",") != 0) {
    puts("LC_ALL names no locale with a decimal comma: ctest sets it");
    return 1;
  }
  return cmocka_run_group_tests(cases, rig_open, rig_close);
}
