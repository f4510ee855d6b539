/** @file wrap.h
 *  Text in lines that end between words. A word that is longer than a line has a line of its own: it can still be copied. */
#ifndef IOBIND_TOOL_WRAP_H
#define IOBIND_TOOL_WRAP_H

#include <stddef.h>
#include <stdio.h>

/** The width on a terminal, nearly: one column for each code point. */
size_t wrap_width_of(const char *text);

/** The same for `length` bytes of a text. */
size_t wrap_width(const char *text, size_t length);

/** The width of the longest word. */
size_t wrap_longest_word(const char *text);

/** The widest line: the variable COLUMNS, or the width of the terminal; 0: no limit, if there is neither. */
size_t wrap_limit(FILE *stream);

/** The bytes of the next line of a text, which is at most `width` wide.
 *  @param text  is advanced to the first character after them and the blanks that follow */
size_t wrap_next(const char **text, size_t width);

/** Print paragraphs, which an empty line separates; a single line break in them counts as a blank. 80 columns, unless `limit` is another
 *  width. Ends with a line break. */
void wrap_print(FILE *stream, const char *text, size_t limit);

#endif
