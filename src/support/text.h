/* A growing string: for lists in messages, paths, names. */
#ifndef IOBIND_SUPPORT_TEXT_H
#define IOBIND_SUPPORT_TEXT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct iobind__text {
  char *data; /* NUL-terminated, or NULL if nothing was added */
  size_t length;
  bool failed; /* out of memory: text added since then is lost */
} iobind__text;

__attribute__((format(printf, 2, 3))) void iobind__text_add(iobind__text *text, const char *format, ...);
const char *iobind__text_get(const iobind__text *text); /* "" if empty */
void iobind__text_free(iobind__text *text);

/* Print into `size` bytes, 4 or more: one line, without control characters, and with "..." after the last whole UTF-8 character
 * if it does not fit. */
__attribute__((format(printf, 3, 0))) void iobind__text_print(char *text, size_t size, const char *format, va_list arguments);

/* Where the last whole UTF-8 character of the first `length` bytes ends. */
size_t iobind__text_whole(const char *text, size_t length);

enum { IOBIND__NAME_TEXT = 96 };

/* A name or path for a message: if it is too long, its middle is cut, so that the rest of the message fits. */
void iobind__text_shorten(const char *name, char out[IOBIND__NAME_TEXT]);

/* Remove "NAME: " from a message, wherever it is: the function that passes the message on names it once. */
void iobind__text_leave_out(char *text, const char *name);

/* Are two words equal except for upper and lower case? In ASCII, because the program sets the locale. */
bool iobind__text_same_letters(const char *a, const char *b);

char *iobind__string_copy(const char *string); /* NULL: out of memory */

#endif
