/* A user's test: the virtual accelerator says what crossed its link. */
#include <iobind/iobind.h>
#include <iobind/vdev.h>
#include <stdio.h>

#define TRY(call) \
  if ((call) != IOBIND_OK) return fprintf(stderr, "accelerator: %s\n", error.message), 1

int main(void) {
  const float numbers[4] = {1, 2, 3, 4};
  const int64_t dims[] = {4};
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_runtime *runtime;
  iobind_device *device;
  iobind_tensor *tensor;
  TRY(iobind_runtime_create(NULL, &runtime, &error));
  TRY(iobind_runtime_find_device(runtime, "vdev", &device, NULL, &error));
  vdev_reset(0);
  TRY(iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 1, &tensor, &error));
  TRY(iobind_tensor_write(tensor, 0, numbers, sizeof numbers, NULL, &error));
  printf("%lld bytes\n", (long long)vdev_get(0, "h2d_bytes"));
  iobind_tensor_release(tensor);
  iobind_runtime_destroy(runtime);
  return 0;
}
