#include "formats/fault.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool fault_set(tool_fault *fault, const char *format, ...) {
  if (fault == NULL) return false;
  va_list values;
  va_start(values, format);
  int length = vsnprintf(fault->text, sizeof fault->text, format, values);
  va_end(values);
  if (length < 0) strcpy(fault->text, "a message that cannot be printed");
  fault_make_line(fault->text);
  return false;
}

void fault_make_line(char *text) {
  for (unsigned char *byte = (unsigned char *)text; *byte != 0; byte++) {
    if (*byte == '\n' || *byte == '\r' || *byte == '\t') *byte = ' ';
    if (*byte < 0x20 || *byte == 0x7F) *byte = '?';
  }
}
