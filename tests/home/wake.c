/* Wakes all that a runtime brings: ORT, its environment, the EP libraries, each device once. */
#include <stdio.h>

#include "iobind/iobind.h"

int main(void) {
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_runtime_options options = IOBIND_RUNTIME_OPTIONS_INIT;
  iobind_runtime_info info = IOBIND_RUNTIME_INFO_INIT;
  iobind_runtime *runtime = NULL;
  size_t working = 0;
  options.flags = IOBIND_RUNTIME_SOFTWARE_DEVICES;
  if (iobind_runtime_create(&options, &runtime, &error) != IOBIND_OK ||
      iobind_runtime_get_info(runtime, &info, &error) != IOBIND_OK) {
    fprintf(stderr, "wake: %s\n", error.message);
    iobind_runtime_destroy(runtime);
    return 1;
  }
  for (size_t i = 0; i < info.device_count; i++) {
    const iobind_status works = iobind_device_check(iobind_runtime_get_device(runtime, i), NULL);
    working += works == IOBIND_OK || works == IOBIND_ERROR_RESULT;
  }
  printf("ORT %s: %zu devices, %zu work\n", info.ort_version, info.device_count, working);
  iobind_runtime_destroy(runtime);
  return working > 0 ? 0 : 1;
}
