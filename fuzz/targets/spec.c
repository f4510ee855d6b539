/* Device specs: src/runtime/spec.c. */
#include <stdlib.h>
#include <string.h>

#include "bytes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  bytes source = {data, size};
  bool with_memory = take_bool(&source);
  char *text = malloc(source.left + 1);
  CHECK(text != NULL);
  memcpy(text, source.at, source.left);
  text[source.left] = 0;
  iobind_device *device = the_cpu();
  iobind_memory memory = IOBIND_MEMORY_DEFAULT;
  iobind_error error = armed();
  iobind_status status = iobind_runtime_find_device(the_runtime(), text, &device, with_memory ? &memory : NULL, &error);
  check_call(status, &error, is_utf8(text));
  CHECK((device != NULL) == (status == IOBIND_OK));
  CHECK(device == NULL || device == the_cpu());
  CHECK(status == IOBIND_OK || status == IOBIND_ERROR_INVALID_ARGUMENT || status == IOBIND_ERROR_NOT_FOUND ||
        status == IOBIND_ERROR_WRONG_DEVICE);
  free(text);
  return 0;
}
