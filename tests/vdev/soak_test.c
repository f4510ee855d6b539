/* 100,000 bound runs: nothing moves, nothing is allocated, the process does not grow. */
#include "rig.h"

#include <stdio.h>
#include <string.h>

enum { COUNT = 16, RUNS = 100000, WARM = 5000 };

/* Kilobytes of the process in memory. */
static long resident(void) {
  long size = 0;
  char line[128];
  FILE *file = fopen("/proc/self/status", "r");
  assert_non_null(file);
  while (fgets(line, sizeof line, file) != NULL) {
    (void)sscanf(line, "VmRSS: %ld", &size);
  }
  fclose(file);
  assert_true(size > 0);
  return size;
}

static void run_many(OrtSyncStream *stream) {
  OrtSession *session = rig_session("scale", 0);
  OrtValue *x = rig_device_tensor(0, COUNT);
  OrtValue *y = rig_device_tensor(0, COUNT);
  OrtIoBinding *binding = rig_binding(session, x, "y", y);
  long before = 0;
  for (int i = 0; i < RUNS; i++) {
    if (i == WARM) {
      before = resident();
      assert_int_equal(vdev_reset(0), 0);
    }
    ok(rig_run(session, binding, stream));
  }
  if (stream != NULL) {
    assert_int_equal(vdev_stream_synchronize(rig_native(stream)), 0);
  }
  assert_int_equal(rig_get("kernels"), RUNS - WARM);
  assert_int_equal(rig_get("allocations"), 0);
  assert_int_equal(rig_get("h2d_bytes") + rig_get("d2h_bytes") + rig_get("d2d_bytes"), 0);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* their own memory grows */
  assert_in_range(resident(), 0, before + 512);
#else
  (void)before;
#endif
  rig.api->ReleaseIoBinding(binding);
  rig.api->ReleaseValue(x);
  rig.api->ReleaseValue(y);
  rig.api->ReleaseSession(session);
}

static void test_bound_runs(void **state) {
  (void)state;
  run_many(NULL);
}

static void test_bound_runs_on_a_stream(void **state) {
  (void)state;
  rig_set("race", "fail", NULL); /* the detector's list must not grow either */
  OrtSyncStream *stream = rig_stream(0);
  run_many(stream);
  rig.api->ReleaseSyncStream(stream);
  rig_set("race", "off", NULL);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_bound_runs),
    cmocka_unit_test(test_bound_runs_on_a_stream),
};
RIG_MAIN(cases);
