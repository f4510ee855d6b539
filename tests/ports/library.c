/* A program that prints why there is no ONNX Runtime, or that there is one. */
#include <iobind/iobind.h>
#include <stdio.h>

int main(void) {
  iobind_runtime *runtime = NULL;
  iobind_error error;
  iobind_status status = iobind_runtime_create(NULL, &runtime, &error);
  printf("%s\n", status == IOBIND_OK ? "runs" : error.message);
  iobind_runtime_destroy(runtime);
  return iobind_get_version() == IOBIND_VERSION_NUMBER ? 0 : 1;
}
