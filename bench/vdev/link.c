/* link: 100 runs of a model, each on the result of the one before, on the virtual accelerator behind a link where each copy takes
 * 2.1 ms. In its modelled time the copies are all that takes any: what they cost directly, and what bound. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "fixture.h"
#include "model.h"
#include "vdev.h"

enum { RUNS = 100, COUNT = 1000 };

static iobind_error error = IOBIND_ERROR_INIT;

static void must(iobind_status status) {
  fixture_check(status, &error);
}

/* The host's tensors in and out: ORT copies both ways in every run. */
static void run_direct(iobind_session *session, iobind_tensor *value) {
  iobind_run_request request = IOBIND_RUN_REQUEST_INIT;
  request.inputs = &value;
  request.input_count = 1;
  iobind_tensor_retain(value);
  for (int i = 0; i < RUNS; i++) {
    iobind_tensor *result = NULL;
    must(iobind_session_run(session, &request, &result, 1, &error));
    iobind_tensor_release(value);
    value = result;
  }
  fixture_expect(value, COUNT, ldexpf(1, RUNS));
  iobind_tensor_release(value);
}

/* Two tensors of the device that take turns: what one run writes the next one reads. */
static void run_bound(iobind_session *session, iobind_device *device, const iobind_tensor *value, iobind_tensor *result) {
  const int64_t dims[] = {COUNT};
  iobind_tensor *tensors[2];
  iobind_binding *bindings[2];
  for (int i = 0; i < 2; i++) {
    must(iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 1, &tensors[i], &error));
  }
  for (int i = 0; i < 2; i++) {
    must(iobind_binding_create(session, &bindings[i], &error));
    must(iobind_binding_set_input(bindings[i], 0, IOBIND_INPUT_RESIDENT, tensors[i], NULL, &error));
    must(iobind_binding_set_output(bindings[i], 0, tensors[1 - i], 0, &error));
  }
  must(iobind_tensor_copy(&value, &tensors[0], 1, NULL, &error));
  for (int i = 0; i < RUNS; i++) must(iobind_binding_run(bindings[i % 2], NULL, &error));
  const iobind_tensor *last = tensors[RUNS % 2];
  must(iobind_tensor_copy(&last, &result, 1, NULL, &error));
  fixture_expect(result, COUNT, ldexpf(1, RUNS));
  for (int i = 0; i < 2; i++) {
    iobind_binding_destroy(bindings[i]);
    iobind_tensor_release(tensors[i]);
  }
}

static void report(const char *way, int64_t since) {
  printf("%d %-10s %7lld %10lld %11.1f ms\n", RUNS, way, (long long)vdev_get(0, "h2d_count"),
         (long long)vdev_get(0, "d2h_count"), (double)(vdev_get(0, "time_ns") - since) / 1e6);
}

int main(void) {
  fixture f;
  iobind_device *device;
  iobind_session *session;
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  size_t bytes;
  fixture_open(&f);
  must(iobind_runtime_find_device(f.runtime, "vdev", &device, NULL, &error));
  options.devices = &device;
  options.device_count = 1;
  void *model = model_double(&bytes);
  must(iobind_session_create_from_memory(f.runtime, model, bytes, &options, &session, &error));
  free(model);
  if (vdev_set(0, "clock", "virtual") != 0 || vdev_set(0, "latency_us", "2100") != 0) {
    fprintf(stderr, "link: %s\n", vdev_last_error());
    return 1;
  }
  iobind_tensor *one = fixture_tensor(&f, COUNT, 1), *result = fixture_tensor(&f, COUNT, 0);
  printf("%-14s %7s %10s %14s\n", "RUNS", "UPLOADS", "DOWNLOADS", "TIME ON COPIES");
  vdev_reset(0);
  int64_t since = vdev_get(0, "time_ns");
  run_direct(session, one);
  report("direct", since);
  vdev_reset(0);
  since = vdev_get(0, "time_ns");
  run_bound(session, device, one, result);
  report("bound", since);
  iobind_tensor_release(one);
  iobind_tensor_release(result);
  iobind_session_destroy(session);
  fixture_close(&f);
  return 0;
}
