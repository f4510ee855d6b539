/* bound RUNS DEVICE...: bound runs of a model of one element, device after device, for a program that counts the instructions
 * between the start and the end of the function `steady`. */
#include <stdio.h>
#include <stdlib.h>

#include "fixture.h"
#include "model.h"

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

static void run_on(iobind_runtime *runtime, const char *name, long runs) {
  static const int64_t one[] = {1};
  static const float values[] = {1, 2};
  iobind_device *device;
  iobind_session *session;
  iobind_binding *binding;
  iobind_tensor *sum;
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  size_t bytes;
  must(iobind_runtime_find_device(runtime, name, &device, NULL, &error));
  options.devices = &device;
  options.device_count = 1;
  options.intra_op_threads = 1;
  void *model = model_add(&bytes);
  must(iobind_session_create_from_memory(runtime, model, bytes, &options, &session, &error));
  free(model);
  must(iobind_binding_create(session, &binding, &error));
  for (size_t i = 0; i < 2; i++) {
    iobind_tensor *input;
    must(iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, one, 1, &input, &error));
    must(iobind_tensor_write(input, 0, &values[i], sizeof values[i], NULL, &error));
    must(iobind_binding_set_input(binding, i, IOBIND_INPUT_RESIDENT, input, NULL, &error));
    iobind_tensor_release(input);
  }
  must(iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, one, 1, &sum, &error));
  must(iobind_binding_set_output(binding, 0, sum, 0, &error));
  warm(binding, 200); /* the first run is not steady */
  steady(binding, runs);
  float result;
  must(iobind_tensor_read(sum, 0, &result, sizeof result, NULL, &error));
  if (result < 3 || result > 3) fprintf(stderr, "bound: expected 3, got %g\n", (double)result), exit(1);
  iobind_tensor_release(sum);
  iobind_binding_destroy(binding);
  iobind_session_destroy(session);
}

int main(int argc, char **argv) {
  iobind_runtime *runtime;
  if (argc < 3) return fprintf(stderr, "usage: bound RUNS DEVICE...\n"), 2;
  must(iobind_runtime_create(NULL, &runtime, &error));
  for (int i = 2; i < argc; i++) run_on(runtime, argv[i], strtol(argv[1], NULL, 10));
  iobind_runtime_destroy(runtime);
  return 0;
}
