/* verify RUNS: runs of a model of one element on the virtual accelerator, for a program that counts the instructions between the start and the end
 * of the function `steady`. First those of a session without the option `verify`, then later ones of a session with it, then verified ones. */
#include <stdio.h>
#include <stdlib.h>

#include "fixture.h"
#include "model.h"

enum { WARM_UP = 200 };

static iobind_error error = IOBIND_ERROR_INIT;

static void must(iobind_status status) {
  fixture_check(status, &error);
}

static void warm(iobind_binding *binding, long runs) {
  for (long i = 0; i < runs; i++) must(iobind_binding_run(binding, NULL, &error));
}

__attribute__((noinline)) void steady(iobind_binding *binding, long runs);

void steady(iobind_binding *binding, long runs) {
  warm(binding, runs);
}

static iobind_tensor *make(iobind_device *device, float value) {
  static const int64_t one[] = {1};
  iobind_tensor *tensor;
  must(iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, one, 1, &tensor, &error));
  must(iobind_tensor_write(tensor, 0, &value, sizeof value, NULL, &error));
  return tensor;
}

static void run_verified(iobind_runtime *runtime, uint32_t verified, long runs) {
  iobind_device *device;
  iobind_session *session;
  iobind_binding *binding;
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  size_t bytes;
  must(iobind_runtime_find_device(runtime, "vdev", &device, NULL, &error));
  options.devices = &device;
  options.device_count = 1;
  options.intra_op_threads = 1;
  options.verify.runs = verified;
  void *model = model_add(&bytes);
  must(iobind_session_create_from_memory(runtime, model, bytes, &options, &session, &error));
  free(model);
  must(iobind_binding_create(session, &binding, &error));
  iobind_tensor *tensors[] = {make(device, 1), make(device, 2), make(device, 0)};
  must(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, tensors[0], NULL, &error));
  must(iobind_binding_set_input(binding, 1, IOBIND_INPUT_RESIDENT, tensors[1], NULL, &error));
  must(iobind_binding_set_output(binding, 0, tensors[2], 0, &error));
  warm(binding, WARM_UP);
  steady(binding, runs);
  for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++) iobind_tensor_release(tensors[i]);
  iobind_binding_destroy(binding);
  iobind_session_destroy(session);
}

int main(int argc, char **argv) {
  const long runs = argc == 2 ? strtol(argv[1], NULL, 10) : 0;
  iobind_runtime *runtime;
  if (runs <= 0) fprintf(stderr, "usage: verify RUNS\n"), exit(2);
  must(iobind_runtime_create(NULL, &runtime, &error));
  run_verified(runtime, 0, runs);
  run_verified(runtime, 3, runs);
  run_verified(runtime, WARM_UP + (uint32_t)runs, runs);
  iobind_runtime_destroy(runtime);
  return 0;
}
