/* Text that grows: for lists in messages, paths, names. */
#ifndef IOBIND_SUPPORT_TEXT_H
#define IOBIND_SUPPORT_TEXT_H

#include <stdbool.h>
#include <stddef.h>

typedef struct iobind__text {
  char *data; /* NUL-terminated, or NULL while nothing was added */
  size_t length;
  bool failed; /* out of memory: what was added since is lost */
} iobind__text;

__attribute__((format(printf, 2, 3))) void iobind__text_add(iobind__text *text, const char *format, ...);
const char *iobind__text_get(const iobind__text *text); /* "" while empty */
void iobind__text_free(iobind__text *text);

/* Make a text that was cut at `length` bytes whole: one line, and no part of a UTF-8 character at its end. */
void iobind__text_settle(char *text, size_t length, bool was_cut);

char *iobind__string_copy(const char *string); /* NULL: out of memory */

#endif
