/* ONNX Runtime where the build of libiobind says, for src/ort/find.c compiled with IOBIND_ORT_LIBRARY. */
#define _POSIX_C_SOURCE 200809L /* unsetenv */
#include <iobind/iobind.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void) {
  unsetenv("ORT_NATIVE_LIB_PATH");
  iobind_runtime_options options = IOBIND_RUNTIME_OPTIONS_INIT;
  options.flags = IOBIND_RUNTIME_NO_EP_SEARCH;
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_runtime *runtime = NULL;
  if (iobind_runtime_create(&options, &runtime, &error) != IOBIND_OK) {
    return fprintf(stderr, "find_last: %s\n", error.message), 1;
  }
  iobind_runtime_info info = IOBIND_RUNTIME_INFO_INIT;
  int code = 1;
  if (iobind_runtime_get_info(runtime, &info, &error) != IOBIND_OK) {
    fprintf(stderr, "find_last: %s\n", error.message);
  } else if (strcmp(info.found_by, "the loader's search") == 0) {
    puts("skipped: the loader finds an ONNX Runtime here, and comes before");
    code = 77;
  } else {
    puts(info.found_by);
    code = strcmp(info.found_by, "the default of this build (IOBIND_ORT_LIBRARY)") != 0;
  }
  iobind_runtime_destroy(runtime);
  return code;
}
