#include "support/error.h"

#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

#include "support/text.h"

void iobind__error_set(iobind_error *error, iobind_status status, int32_t ort_code, const char *format, ...) {
  /* An older caller's struct may be shorter: never write past its end. */
  if (error == NULL || error->struct_size < sizeof *error) {
    return;
  }
  error->status = (int32_t)status;
  error->ort_code = ort_code;
  va_list arguments;
  va_start(arguments, format);
  iobind__text_print(error->message, sizeof error->message, format, arguments);
  va_end(arguments);
}

iobind_status iobind__error_copy(iobind_error *error, const iobind_error *kept) {
  iobind__error_set(error, (iobind_status)kept->status, kept->ort_code, "%s", kept->message);
  return (iobind_status)kept->status;
}

/* Does the message begin with a function's name, "binding_run: ..."? Such a name has an underscore; other words before a colon
 * have none, or are quoted. */
static bool begins_with_name(const char *message) {
  size_t length = strspn(message, "abcdefghijklmnopqrstuvwxyz0123456789_");
  return message[length] == ':' && memchr(message, '_', length) != NULL;
}

void iobind__error_name(iobind_error *error, const char *function) {
  if (error != NULL && error->struct_size >= sizeof *error && !begins_with_name(error->message)) {
    const iobind_error unnamed = *error;
    iobind__error_set(error, (iobind_status)unnamed.status, unnamed.ort_code, "%s: %s", function, unnamed.message);
  }
}

const char *iobind__error_text(const iobind_error *error) {
  return begins_with_name(error->message) ? strchr(error->message, ':') + 2 : error->message;
}

void iobind__error_rename(iobind_error *error, const char *function) {
  if (error != NULL && error->struct_size >= sizeof *error) {
    const iobind_error named = *error;
    iobind__error_set(error, (iobind_status)named.status, named.ort_code, "%s: %s", function, iobind__error_text(&named));
  }
}
