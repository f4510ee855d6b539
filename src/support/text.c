#include "support/text.h"

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

size_t iobind__text_whole(const char *text, size_t length) {
  size_t start = length;
  while (start > 0 && ((unsigned char)text[start - 1] & 0xC0u) == 0x80u) {
    start--;
  }
  unsigned char lead = start == 0 ? 0 : (unsigned char)text[start - 1];
  size_t whole = lead >= 0xF0u ? 4 : lead >= 0xE0u ? 3 : lead >= 0xC0u ? 2 : 1;
  return start > 0 && length - (start - 1) < whole ? start - 1 : length;
}

void iobind__text_shorten(const char *name, char out[IOBIND__NAME_TEXT]) {
  static const char gap[] = "...";
  size_t length = strlen(name);
  if (length < IOBIND__NAME_TEXT) {
    memcpy(out, name, length + 1);
    return;
  }
  size_t kept = (IOBIND__NAME_TEXT - sizeof gap) / 2;
  size_t head = iobind__text_whole(name, kept);
  const char *tail = name + length - kept;
  while (((unsigned char)*tail & 0xC0u) == 0x80u) {
    tail++;
  }
  memcpy(out, name, head);
  memcpy(out + head, gap, sizeof gap - 1);
  memcpy(out + head + sizeof gap - 1, tail, strlen(tail) + 1);
}

void iobind__text_leave_out(char *text, const char *name) {
  size_t length = strlen(name);
  for (char *at = text; length > 0 && (at = strstr(at, name)) != NULL;) {
    if (strncmp(at + length, ": ", 2) == 0) {
      memmove(at, at + length + 2, strlen(at + length + 2) + 1);
    } else {
      at += length;
    }
  }
}

static char lower(char c) {
  return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

bool iobind__text_same_letters(const char *a, const char *b) {
  while (*a != '\0' && lower(*a) == lower(*b)) {
    a++;
    b++;
  }
  return *a == '\0' && *b == '\0';
}

char *iobind__string_copy(const char *string) {
  size_t size = strlen(string) + 1;
  char *copy = malloc(size);
  if (copy != NULL) {
    memcpy(copy, string, size);
  }
  return copy;
}

void iobind__text_print(char *text, size_t size, const char *format, va_list arguments) {
  static const char cut[] = "...";
  if ((size_t)vsnprintf(text, size, format, arguments) >= size) {
    memcpy(text + iobind__text_whole(text, size - sizeof cut), cut, sizeof cut);
  }
  for (char *c = text; *c != '\0'; c++) {
    if ((unsigned char)*c < ' ' || *c == 0x7F) {
      *c = ' ';
    }
  }
}
