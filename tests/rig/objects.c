#include "objects.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models.h"

static const char untouched[] = "no call has touched this";

void test_error_arm(iobind_error *error) {
  *error = (iobind_error)IOBIND_ERROR_INIT;
  error->status = -1;
  error->ort_code = -1;
  memcpy(error->message, untouched, sizeof untouched);
}

bool test_is_utf8(const char *text) {
  const unsigned char *at = (const unsigned char *)text;
  while (*at != '\0') {
    size_t more = *at < 0x80 ? 0 : *at >= 0xF0 ? 3 : *at >= 0xE0 ? 2 : *at >= 0xC0 ? 1 : 4;
    if (more == 4) {
      return false;
    }
    for (at++; more > 0; more--, at++) {
      if ((*at & 0xC0u) != 0x80u) {
        return false;
      }
    }
  }
  return true;
}

const char *test_error_wrong(const iobind_error *error, iobind_status status) {
  if (status == IOBIND_OK) {
    iobind_error before;
    test_error_arm(&before);
    return memcmp(error, &before, sizeof before) == 0 ? NULL : "the call succeeded and touched the error";
  }
  return error->struct_size != sizeof *error                                   ? "the error's size was changed"
         : error->status != (int32_t)status                                    ? "the error has another status than the call"
         : error->reserved != 0 || error->ort_code < 0                         ? "the error has fields that were not set"
         : error->message[0] == '\0' || strcmp(error->message, untouched) == 0 ? "the error has no message"
         : !test_is_utf8(error->message)                                       ? "the message is no UTF-8"
         : strpbrk(error->message, "\r\n\t") != NULL                           ? "the message has more than one line, or tabs"
                                                                               : NULL;
}

iobind_status test_session(iobind_runtime *runtime, iobind_device *device, const char *model, iobind_session **session,
                           iobind_error *error) {
  void *bytes = NULL;
  size_t size = 0;
  char text[TEST_MODEL_TEXT] = "";
  if (!test_model_create(model, &bytes, &size, text)) {
    *error = (iobind_error)IOBIND_ERROR_INIT;
    error->status = IOBIND_INVALID_ARGUMENT;
    snprintf(error->message, sizeof error->message, "%.200s: %.200s", model, text);
    return IOBIND_INVALID_ARGUMENT;
  }
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  options.devices = &device;
  options.device_count = device != NULL;
  options.intra_op_threads = 1;
  iobind_status status = iobind_session_create_from_memory(runtime, bytes, size, &options, session, error);
  free(bytes);
  return status;
}

iobind_status test_floats(iobind_device *device, const float *values, size_t count, iobind_tensor **tensor,
                          iobind_error *error) {
  int64_t dim = (int64_t)count;
  iobind_status status = iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_FLOAT32, &dim, 1, tensor, error);
  if (status == IOBIND_OK && values != NULL) {
    status = iobind_tensor_write(*tensor, 0, values, count * sizeof *values, NULL, error);
  }
  if (status != IOBIND_OK) {
    iobind_tensor_release(*tensor);
    *tensor = NULL;
  }
  return status;
}
