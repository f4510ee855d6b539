/* Kernels of a library, from its load to its unload. */
#include "device.h"

static void an_unknown_kernel_fails_by_name(void **state) {
  (void)state;
  static const char function;
  const cuda_dim3 one = {1, 1, 1};
  void *arguments[] = {NULL};
  void **binary = __cudaRegisterFatBinary(NULL);
  __cudaRegisterFunction(binary, &function, NULL, "_Z11no_such_onei", -1, NULL, NULL, NULL, NULL, NULL);
  FAILS(CUDA_INVALID_FUNCTION, cudaLaunchKernel(&function, one, one, arguments, 0, NULL));
  assert_non_null(strstr(vcuda_last_message(), "no_such_one"));
  FAILS(CUDA_INVALID_FUNCTION, cudaDeviceSynchronize()); /* reported to a caller that ignores errors of launches */
  OK(cudaDeviceSynchronize());
  __cudaUnregisterFatBinary(binary);
}

/* A library is loaded at the addresses of one that was unloaded. */
static void an_unloaded_library_leaves_no_kernel(void **state) {
  (void)state;
  static char code[2];
  static const char function, of_other;
  static const char *const names[] = {"_Z5firsti", "_Z6secondi"};
  const cuda_dim3 one = {1, 1, 1};
  void *arguments[] = {NULL};
  cuda_kernel kernel;
  void **other = __cudaRegisterFatBinary(&code[1]);
  __cudaRegisterFunction(other, &of_other, NULL, "_Z5otheri", -1, NULL, NULL, NULL, NULL, NULL);
  for (int i = 0; i < 2; i++) {
    void **library = __cudaRegisterFatBinary(&code[0]);
    __cudaRegisterFunction(library, &function, NULL, names[i], -1, NULL, NULL, NULL, NULL, NULL);
    OK(__cudaGetKernel(&kernel, &function));
    FAILS(CUDA_INVALID_FUNCTION, cudaLaunchKernel(&function, one, one, arguments, 0, NULL));
    assert_non_null(strstr(vcuda_last_message(), names[i]));
    FAILS(CUDA_INVALID_FUNCTION, cudaDeviceSynchronize());
    __cudaUnregisterFatBinary(library);
    FAILS(CUDA_INVALID_FUNCTION, __cudaGetKernel(&kernel, &function));
    OK(__cudaGetKernel(&kernel, &of_other));
  }
  __cudaUnregisterFatBinary(other);
  FAILS(CUDA_INVALID_FUNCTION, __cudaGetKernel(&kernel, &of_other));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(an_unknown_kernel_fails_by_name),
      TEST(an_unloaded_library_leaves_no_kernel),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
