/** @file utf8.h
 *  Text in UTF-8, one code point at a time. */
#ifndef IOBIND_TOOL_UTF8_H
#define IOBIND_TOOL_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Write a code point; returns how many of the bytes it takes. */
size_t utf8_put(uint32_t point, unsigned char bytes[4]);

/** Read the code point at the start of `left` bytes, which is 1 or more.
 *  @return the bytes that it takes; 0: they are not UTF-8 */
size_t utf8_decode(const unsigned char *bytes, size_t left, uint32_t *point);

/** Whether a code point is harmless to show: not a control character (C0, DEL, C1), not a line end, and not one that changes
 *  the direction of text. So a name can neither control a terminal nor look like another name. */
bool utf8_is_plain(uint32_t point);

#endif
