/** @file utf8.h
 *  Text in UTF-8, one code point at a time. */
#ifndef IOBIND_TOOL_UTF8_H
#define IOBIND_TOOL_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Write a code point; returns how many of the bytes it takes. */
size_t utf8_put(uint32_t point, unsigned char bytes[4]);

/** Read the code point at the beginning of `left` bytes, of which there is one at least.
 *  @return the bytes that it takes; 0: they are not UTF-8 */
size_t utf8_decode(const unsigned char *bytes, size_t left, uint32_t *point);

/** Whether a code point only shows: it is not a control character (C0, DEL, C1), and does not end a line or turn the direction of
 *  the text around it, so that a name can neither steer a terminal nor pretend to be another one. */
bool utf8_is_plain(uint32_t point);

#endif
