#include "support/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

uint32_t iobind_version(void) {
  return IOBIND_VERSION_NUMBER;
}

#define IOBIND_TEXT_OF(x) #x
#define IOBIND_TEXT(x) IOBIND_TEXT_OF(x)

const char *iobind_version_string(void) {
  return IOBIND_TEXT(IOBIND_VERSION_MAJOR) "." IOBIND_TEXT(IOBIND_VERSION_MINOR) "." IOBIND_TEXT(IOBIND_VERSION_PATCH);
}

const char *iobind_status_name(int32_t status) {
  switch (status) {
#define IOBIND_STATUS_CASE(name, value, text) \
  case value: return #name;
    IOBIND_STATUS_MAP(IOBIND_STATUS_CASE)
#undef IOBIND_STATUS_CASE
    default: return "UNKNOWN";
  }
}

/* A message that was cut must still be UTF-8: drop the bytes of a character that is not whole. */
static void drop_partial_character(char *message, size_t length) {
  size_t start = length;
  while (start > 0 && ((unsigned char)message[start - 1] & 0xC0u) == 0x80u) {
    start--;
  }
  if (start == 0) {
    return;
  }
  unsigned char lead = (unsigned char)message[start - 1];
  size_t whole = lead >= 0xF0u ? 4 : lead >= 0xE0u ? 3 : lead >= 0xC0u ? 2 : 1;
  if (length - (start - 1) < whole) {
    message[start - 1] = '\0';
  }
}

void iobind__error_set(iobind_error *error, iobind_status status, int32_t ort_code, const char *format, ...) {
  /* A caller with an older, shorter struct would be written past its end. */
  if (error == NULL || error->struct_size < sizeof *error) {
    return;
  }
  error->status = (int32_t)status;
  error->ort_code = ort_code;
  va_list arguments;
  va_start(arguments, format);
  int needed = vsnprintf(error->message, sizeof error->message, format, arguments);
  va_end(arguments);
  if (needed < 0) {
    error->message[0] = '\0';
  } else if ((size_t)needed >= sizeof error->message) {
    drop_partial_character(error->message, sizeof error->message - 1);
  }
  for (char *c = error->message; *c != '\0'; c++) {
    if (*c == '\n' || *c == '\r' || *c == '\t') {
      *c = ' ';
    }
  }
}
