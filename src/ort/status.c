#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ort/api.h"

/* Does this word name a place in ORT's source, such as "/onnxruntime_src/onnxruntime/core/session/utils.cc:39"? */
static bool is_source_place(const char *word, size_t length) {
  static const char *const endings[] = {".cc:", ".h:", ".cpp:", ".cc(", ".h(", ".cpp("};
  for (size_t e = 0; e < sizeof endings / sizeof endings[0]; e++) {
    size_t size = strlen(endings[e]);
    for (size_t i = 0; i + size < length; i++) {
      if (memcmp(word + i, endings[e], size) == 0 && isdigit((unsigned char)word[i + size])) {
        return true;
      }
    }
  }
  return false;
}

/* ORT's text on one line, without the places in its source. */
static void normalise(const char *text, char *out, size_t capacity) {
  size_t length = 0;
  while (*text != '\0') {
    size_t space = strspn(text, " \t\r\n");
    text += space;
    size_t word = strcspn(text, " \t\r\n");
    if (word == 0 || is_source_place(text, word)) {
      text += word;
      continue;
    }
    if (length > 0 && length + 1 < capacity) {
      out[length++] = ' ';
    }
    size_t fits = word < capacity - 1 - length ? word : capacity - 1 - length;
    memcpy(out + length, text, fits);
    length += fits;
    text += word;
  }
  out[length] = '\0';
}

void iobind__ort_error_set(const OrtApi *api, OrtStatus *status, iobind_error *error, const char *format, ...) {
  char what[160];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(what, sizeof what, format, arguments);
  va_end(arguments);
  char text[400];
  normalise(api->GetErrorMessage(status), text, sizeof text);
  int32_t code = (int32_t)api->GetErrorCode(status);
  api->ReleaseStatus(status);
  iobind__error_set(error, IOBIND_RUNTIME, code, "%s: %s", what, text);
}
