/* device: 100,000 bound runs on the virtual accelerator, with an output of each kind. No byte crosses the link; device memory is
 * allocated only for fresh outputs, once a run; the memory of the process and of the device stays flat. */
#include <stdio.h>
#include <stdlib.h>

#include "fixture.h"
#include "model.h"
#include "vdev.h"

enum { RUNS = 100000, SETTLED = 20000, COUNT = 16, MOST_GROWTH = 1 << 20 };

static iobind_error error = IOBIND_ERROR_INIT;

static void must(iobind_status status) {
  fixture_check(status, &error);
}

/* Returns whether what was counted is right.
 * target: that the output is bound to; NULL: it is placed by `mode` */
static int endure(const char *name, iobind_binding *binding, iobind_output_mode mode, iobind_tensor *target,
                  int64_t allocations) {
  long settled = 0;
  int64_t live = 0;
  must(target != NULL ? iobind_binding_set_output(binding, 0, target, 0, &error)
                      : iobind_binding_place_output(binding, 0, mode, NULL, IOBIND_MEMORY_DEFAULT, &error));
  for (long i = 0; i < RUNS; i++) {
    if (i == SETTLED) {
      settled = fixture_resident_bytes();
      live = vdev_get(0, "live_bytes");
      vdev_reset(0);
    }
    must(iobind_binding_run(binding, NULL, &error));
  }
  int64_t bytes = vdev_get(0, "h2d_bytes") + vdev_get(0, "d2h_bytes") + vdev_get(0, "d2d_bytes");
  int64_t runs = vdev_get(0, "kernels"), allocated = vdev_get(0, "allocations"), grown = vdev_get(0, "live_bytes") - live;
  long growth = fixture_resident_bytes() - settled;
  int right = runs == RUNS - SETTLED && bytes == 0 && allocated == allocations * runs && grown == 0 && growth < MOST_GROWTH;
  printf("%-6s %lld runs: %lld B copied, %lld allocations, device memory grew by %lld B, resident memory by %ld KiB%s\n", name,
         (long long)runs, (long long)bytes, (long long)allocated, (long long)grown, growth / 1024, right ? "" : ": WRONG");
  return right;
}

int main(void) {
  static const int64_t dims[] = {COUNT};
  static const float zeros[COUNT];
  fixture f;
  iobind_device *device;
  iobind_session *session;
  iobind_binding *binding;
  iobind_tensor *x, *y;
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  size_t bytes;
  fixture_open(&f);
  must(iobind_runtime_find_device(f.runtime, "vdev", &device, NULL, &error));
  options.devices = &device;
  options.device_count = 1;
  void *model = model_double(&bytes);
  must(iobind_session_create_from_memory(f.runtime, model, bytes, &options, &session, &error));
  free(model);
  must(iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 1, &x, &error));
  must(iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 1, &y, &error));
  must(iobind_tensor_write(x, 0, zeros, sizeof zeros, NULL, &error));
  must(iobind_binding_create(session, &binding, &error));
  must(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, x, NULL, &error));
  int right = endure("fixed", binding, IOBIND_OUTPUT_REUSE, y, 0);
  right = endure("reuse", binding, IOBIND_OUTPUT_REUSE, NULL, 0) && right;
  right = endure("fresh", binding, IOBIND_OUTPUT_FRESH, NULL, 1) && right;
  iobind_binding_destroy(binding);
  iobind_tensor_release(x);
  iobind_tensor_release(y);
  iobind_session_destroy(session);
  fixture_close(&f);
  return right ? 0 : 1;
}
