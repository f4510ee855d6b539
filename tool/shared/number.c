#define _POSIX_C_SOURCE 200809L /* clock_gettime */

#include "shared/number.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

bool number_parse_integer(const char *text, int64_t low, int64_t high, int64_t *value) {
  const char *digits = text[0] == '-' ? text + 1 : text;
  if (digits[0] == 0 || digits[strspn(digits, "0123456789")] != 0) return false;
  errno = 0;
  intmax_t number = strtoimax(text, NULL, 10);
  if (errno != 0 || number < low || number > high) return false;
  *value = number;
  return true;
}

bool number_parse_real(const char *text, double low, double high, double *value) {
  /* strtod would also accept blanks, hexadecimal, "inf" and "nan". */
  if (text[0] == 0 || text[strspn(text, "0123456789+-.eE")] != 0) return false;
  char *end = NULL;
  errno = 0;
  double number = strtod(text, &end);
  if (end == text || *end != 0 || !isfinite(number) || number < low || number > high) return false;
  if (errno == ERANGE && number != 0.0 && fabs(number) > 1.0) return false;
  *value = number;
  return true;
}

const char *number_format_bytes(uint64_t bytes, char text[NUMBER_TEXT]) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = (double)bytes;
  size_t unit = 0;
  /* 1023.95 would be printed as 1024.0. */
  while (value >= 1023.95 && unit + 1 < sizeof units / sizeof units[0]) {
    value /= 1024.0;
    unit++;
  }
  snprintf(text, NUMBER_TEXT, "%.*f %s", unit == 0 ? 0 : 1, value, units[unit]);
  return text;
}

const char *number_format_time(double nanoseconds, char text[NUMBER_TEXT]) {
  static const char *const units[] = {"ns", "us", "ms", "s"};
  if (!isfinite(nanoseconds)) {
    strcpy(text, "-");
    return text;
  }
  double value = nanoseconds;
  size_t unit = 0;
  while (fabs(value) >= 999.5 && unit + 1 < sizeof units / sizeof units[0]) {
    value /= 1000.0;
    unit++;
  }
  int digits = 0;
  if (unit > 0 && fabs(value) < 99.95) digits = fabs(value) < 9.995 ? 2 : 1;
  snprintf(text, NUMBER_TEXT, "%.*f %s", digits, value, units[unit]);
  return text;
}

uint64_t number_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
