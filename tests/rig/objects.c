#include "objects.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

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

bool test_is_named(const char *message) {
  size_t length = strspn(message, "abcdefghijklmnopqrstuvwxyz0123456789_");
  bool has_noun = memchr(message, '_', length) != NULL || strncmp(message, "preload:", length + 1) == 0;
  char name[64];
  (void)snprintf(name, sizeof name, "%.*s: ", (int)length, message);
  return has_noun && message[length] == ':' && strstr(message + length, name) == NULL;
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
         : !test_is_utf8(error->message)                                       ? "the message is not UTF-8"
         : strpbrk(error->message, "\r\n\t") != NULL                           ? "the message has more than one line, or tabs"
                                                                               : NULL;
}

iobind_status test_runtime(uint32_t flags, const char *spec, iobind_runtime **runtime, iobind_device **device,
                           iobind_error *error) {
  iobind_runtime_options options = IOBIND_RUNTIME_OPTIONS_INIT;
  options.flags = getenv("TEST_POOLS") == NULL ? flags : flags | IOBIND_RUNTIME_POOLS;
  iobind_status status = iobind_runtime_create(&options, runtime, error);
  if (status == IOBIND_OK && spec != NULL) {
    status = iobind_runtime_find_device(*runtime, spec, device, NULL, error);
    if (status != IOBIND_OK) {
      iobind_runtime_destroy(*runtime);
      *runtime = NULL;
    }
  }
  return status;
}

iobind_status test_session_with(iobind_runtime *runtime, const char *model, const iobind_session_options *wanted,
                                iobind_session **session, iobind_error *error) {
  char text[TEST_MODEL_TEXT] = "";
  size_t bytes;
  const void *data = test_model(model, &bytes, text);
  if (data == NULL) {
    *error = (iobind_error)IOBIND_ERROR_INIT;
    error->status = IOBIND_ERROR_INVALID_ARGUMENT;
    snprintf(error->message, sizeof error->message, "%.200s: %.200s", model, text);
    return IOBIND_ERROR_INVALID_ARGUMENT;
  }
  iobind_session_options options = *wanted;
  options.intra_op_threads = 1; /* ThreadSanitizer does not see how ORT's own threads pass memory on */
  return iobind_session_create_from_memory(runtime, data, bytes, &options, session, error);
}

iobind_status test_session(iobind_runtime *runtime, iobind_device *device, const char *model, iobind_session **session,
                           iobind_error *error) {
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  options.devices = &device;
  options.device_count = device != NULL;
  return test_session_with(runtime, model, &options, session, error);
}

iobind_status test_floats(iobind_device *device, const float *values, size_t count, iobind_tensor **tensor,
                          iobind_error *error) {
  int64_t dim = (int64_t)count;
  iobind_status status = iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, &dim, 1, tensor, error);
  if (status == IOBIND_OK && values != NULL) {
    status = iobind_tensor_write(*tensor, 0, values, count * sizeof *values, NULL, error);
  }
  if (status != IOBIND_OK) {
    iobind_tensor_release(*tensor);
    *tensor = NULL;
  }
  return status;
}

/* A NaN equals only the same NaN, and 0 is not -0. */
static uint32_t bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

const char *test_floats_wrong(const iobind_tensor *tensor, const float *values, size_t count, char text[TEST_WHY]) {
  enum { MOST = 64 };
  float got[MOST];
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_tensor_info info = IOBIND_TENSOR_INFO_INIT;
  if (iobind_tensor_get_info(tensor, &info, &error) != IOBIND_OK) {
    snprintf(text, TEST_WHY, "%s", error.message);
  } else if (info.dtype != IOBIND_DTYPE_FLOAT32 || info.bytes != count * sizeof *got || count > MOST) {
    snprintf(text, TEST_WHY, "expected %zu (at most %d) of float32, got %zu bytes of %s", count, MOST, info.bytes,
             iobind_dtype_get_name(info.dtype));
  } else if (iobind_tensor_read(tensor, 0, got, info.bytes, NULL, &error) != IOBIND_OK) {
    snprintf(text, TEST_WHY, "%s", error.message);
  } else {
    size_t i = 0;
    while (i < count && bits(got[i]) == bits(values[i])) {
      i++;
    }
    if (i == count) {
      return NULL;
    }
    snprintf(text, TEST_WHY, "element %zu: expected %g, got %g", i, (double)values[i], (double)got[i]);
  }
  return text;
}
