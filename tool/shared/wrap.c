#define _POSIX_C_SOURCE 200809L /* fileno */

#include "shared/wrap.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifndef _WIN32
#include <sys/ioctl.h>
#endif

#include "shared/number.h"

enum { USUAL = 80, LEAST = 20, MOST = 10000 };

size_t wrap_width(const char *text, size_t length) {
  size_t width = 0;
  for (size_t i = 0; i < length; i++) width += ((unsigned char)text[i] & 0xC0) != 0x80;
  return width;
}

size_t wrap_width_of(const char *text) {
  return wrap_width(text, strlen(text));
}

size_t wrap_longest_word(const char *text) {
  size_t longest = 0;
  while (*text != 0) {
    size_t length = strcspn(text, " ");
    size_t width = wrap_width(text, length);
    if (width > longest) longest = width;
    text += length;
    text += strspn(text, " ");
  }
  return longest;
}

size_t wrap_limit(FILE *stream) {
  const char *said = getenv("COLUMNS");
  int64_t columns = 0;
  if (said != NULL && number_parse_integer(said, LEAST, MOST, &columns)) return (size_t)columns;
#ifndef _WIN32
  struct winsize size;
  if (isatty(fileno(stream)) && ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col >= LEAST) return size.ws_col;
#else
  (void)stream;
#endif
  return 0;
}

size_t wrap_next(const char **text, size_t width) {
  const char *start = *text;
  size_t length = strcspn(start, " ");
  for (;;) {
    size_t blanks = strspn(start + length, " ");
    size_t word = strcspn(start + length + blanks, " ");
    if (word == 0 || wrap_width(start, length + blanks + word) > width) {
      *text = start + length + blanks;
      return length;
    }
    length += blanks + word;
  }
}

/* One paragraph of `length` bytes, as lines. */
static void print_paragraph(FILE *stream, const char *text, size_t length, size_t width) {
  char *line = strndup(text, length);
  if (line == NULL) return;
  for (char *at = line; *at != 0; at++) {
    if (*at == '\n') *at = ' ';
  }
  const char *rest = line;
  while (*rest != 0) {
    const char *start = rest;
    size_t taken = wrap_next(&rest, width);
    fprintf(stream, "%.*s\n", (int)taken, start);
  }
  free(line);
}

void wrap_print(FILE *stream, const char *text, size_t limit) {
  for (;;) {
    const char *end = strstr(text, "\n\n");
    print_paragraph(stream, text, end == NULL ? strlen(text) : (size_t)(end - text), limit == 0 ? USUAL : limit);
    if (end == NULL) return;
    fputc('\n', stream);
    text = end + 2;
  }
}
