/** @file number.h
 *  Numbers as a person writes and reads them. */
#ifndef IOBIND_TOOL_NUMBER_H
#define IOBIND_TOOL_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** A decimal integer of low .. high and nothing else: no blank, no sign but '-', no hexadecimal. */
bool number_parse_integer(const char *text, int64_t low, int64_t high, int64_t *value);

/** A finite decimal number of low .. high and nothing else. */
bool number_parse_real(const char *text, double low, double high, double *value);

/** Room for what the functions below write. */
#define NUMBER_TEXT 32

/** "512 B", "1.5 KiB", "16.0 MiB". Returns `text`. */
const char *number_format_bytes(uint64_t bytes, char text[NUMBER_TEXT]);

/** "850 ns", "12.3 us", "4.56 ms", "2.10 s". Returns `text`. */
const char *number_format_time(double nanoseconds, char text[NUMBER_TEXT]);

/** Nanoseconds of a monotonic clock. */
uint64_t number_now(void);

#endif
