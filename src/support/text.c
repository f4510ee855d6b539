#include "support/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void iobind__text_add(iobind__text *text, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  int needed = vsnprintf(NULL, 0, format, arguments);
  va_end(arguments);
  char *data = needed < 0 ? NULL : realloc(text->data, text->length + (size_t)needed + 1);
  if (data == NULL) {
    text->failed = true;
    return;
  }
  text->data = data;
  va_start(arguments, format);
  vsnprintf(data + text->length, (size_t)needed + 1, format, arguments);
  va_end(arguments);
  text->length += (size_t)needed;
}

const char *iobind__text_get(const iobind__text *text) {
  return text->data == NULL ? "" : text->data;
}

void iobind__text_free(iobind__text *text) {
  free(text->data);
  text->data = NULL;
  text->length = 0;
}

char *iobind__string_copy(const char *string) {
  size_t size = strlen(string) + 1;
  char *copy = malloc(size);
  if (copy != NULL) {
    memcpy(copy, string, size);
  }
  return copy;
}

/* Drop the bytes of a character that is not whole. */
static void drop_partial_character(char *text, size_t length) {
  size_t start = length;
  while (start > 0 && ((unsigned char)text[start - 1] & 0xC0u) == 0x80u) {
    start--;
  }
  if (start == 0) {
    return;
  }
  unsigned char lead = (unsigned char)text[start - 1];
  size_t whole = lead >= 0xF0u ? 4 : lead >= 0xE0u ? 3 : lead >= 0xC0u ? 2 : 1;
  if (length - (start - 1) < whole) {
    text[start - 1] = '\0';
  }
}

void iobind__text_settle(char *text, size_t length, bool was_cut) {
  if (was_cut) {
    drop_partial_character(text, length);
  }
  for (char *c = text; *c != '\0'; c++) {
    if (*c == '\n' || *c == '\r' || *c == '\t') {
      *c = ' ';
    }
  }
}
