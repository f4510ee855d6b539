/* live COUNT...: so many tensors of a virtual accelerator at the same time, made and released, count after count, for a program
 * that counts the instructions between the start and the end of the function `steady`. */
#include <stdio.h>
#include <stdlib.h>

#include "fixture.h"

static iobind_error error = IOBIND_ERROR_INIT;

static void must(iobind_status status) {
  fixture_check(status, &error);
}

__attribute__((noinline)) void steady(iobind_device *device, iobind_tensor **tensors, size_t count);

void steady(iobind_device *device, iobind_tensor **tensors, size_t count) {
  static const int64_t dims[] = {4};
  for (size_t i = 0; i < count; i++) {
    must(iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 1, &tensors[i], &error));
  }
  for (size_t i = 0; i < count; i++) iobind_tensor_release(tensors[i]);
}

int main(int argc, char **argv) {
  iobind_runtime *runtime;
  iobind_device *device;
  if (argc < 2) return fprintf(stderr, "usage: live COUNT...\n"), 2;
  must(iobind_runtime_create(NULL, &runtime, &error));
  must(iobind_runtime_find_device(runtime, "vdev", &device, NULL, &error));
  for (int i = 1; i < argc; i++) {
    size_t count = strtoul(argv[i], NULL, 10);
    iobind_tensor **tensors = calloc(count, sizeof *tensors);
    if (tensors == NULL) return fprintf(stderr, "live: no memory\n"), 1;
    steady(device, tensors, count);
    free(tensors);
  }
  iobind_runtime_destroy(runtime);
  return 0;
}
