/* live COUNT: so many tensors of a virtual accelerator at the same time, made and released, for a program that counts
 * instructions. */
#include <stdio.h>
#include <stdlib.h>

#include "fixture.h"

static iobind_error error = IOBIND_ERROR_INIT;

static void must(iobind_status status) {
  fixture_check(status, &error);
}

int main(int argc, char **argv) {
  static const int64_t dims[] = {4};
  iobind_runtime *runtime;
  iobind_device *device;
  if (argc != 2) return fprintf(stderr, "usage: live COUNT\n"), 2;
  size_t count = strtoul(argv[1], NULL, 10);
  iobind_tensor **tensors = calloc(count, sizeof *tensors);
  if (tensors == NULL) return fprintf(stderr, "live: no memory\n"), 1;
  must(iobind_runtime_create(NULL, &runtime, &error));
  must(iobind_runtime_find_device(runtime, "vdev", &device, NULL, &error));
  for (size_t i = 0; i < count; i++) {
    must(iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_FLOAT32, dims, 1, &tensors[i], &error));
  }
  for (size_t i = 0; i < count; i++) iobind_tensor_release(tensors[i]);
  free(tensors);
  iobind_runtime_destroy(runtime);
  return 0;
}
