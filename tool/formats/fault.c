#include "formats/fault.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "formats/utf8.h"

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
  const unsigned char *from = (const unsigned char *)text;
  size_t left = strlen(text);
  char *to = text; /* never beyond `from` */
  while (left > 0) {
    uint32_t point = 0;
    size_t taken = utf8_decode(from, left, &point);
    if (taken > 0 && utf8_is_plain(point)) {
      memmove(to, from, taken);
      to += taken;
    } else {
      *to++ = taken > 0 && point < 0x80 && strchr("\n\r\t", (int)point) != NULL ? ' ' : '?';
    }
    taken = taken > 0 ? taken : 1;
    from += taken;
    left -= taken;
  }
  *to = 0;
}
