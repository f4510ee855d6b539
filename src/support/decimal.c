#include "support/decimal.h"

#include <stdio.h>
#include <string.h>

/* number = digits * 10^exponent, with exactly as many digits. */
typedef struct scaled {
  uint64_t digits;
  int exponent;
} scaled;

static scaled scale(double number, int count) {
  uint64_t most = 1;
  for (int i = 0; i < count; i++) {
    most *= 10;
  }
  scaled self = {0, 0};
  while (number >= (double)most) {
    number /= 10;
    self.exponent++;
  }
  while (number * 10 < (double)most) {
    number *= 10;
    self.exponent--;
  }
  self.digits = (uint64_t)(number + 0.5);
  while (self.digits % 10 == 0) { /* also if rounding has added a digit */
    self.digits /= 10;
    self.exponent++;
  }
  return self;
}

static void write(scaled self, const char *sign, char out[IOBIND__DECIMAL_TEXT]) {
  enum { LEAST = -5, MOST = 15 }; /* powers of ten that are written out */
  char digits[24];
  const int length = snprintf(digits, sizeof digits, "%llu", (unsigned long long)self.digits);
  const int power = self.exponent + length - 1; /* of the first digit */
  if (power < LEAST || power > MOST) {
    snprintf(out, IOBIND__DECIMAL_TEXT, "%s%c%s%se%d", sign, digits[0], length > 1 ? "." : "", digits + 1, power);
  } else if (self.exponent >= 0) {
    snprintf(out, IOBIND__DECIMAL_TEXT, "%s%s%.*s", sign, digits, self.exponent, "000000000000000");
  } else if (power >= 0) {
    snprintf(out, IOBIND__DECIMAL_TEXT, "%s%.*s.%s", sign, power + 1, digits, digits + power + 1);
  } else {
    snprintf(out, IOBIND__DECIMAL_TEXT, "%s0.%.*s%s", sign, -power - 1, "0000", digits);
  }
}

void iobind__decimal_text(double number, int digits, char out[IOBIND__DECIMAL_TEXT]) {
  const char *sign = number < 0 ? "-" : "";
  const double size = number < 0 ? -number : number;
  if (number != number || size > 1.7976931348623157e308) {
    snprintf(out, IOBIND__DECIMAL_TEXT, "%s%s", sign, number != number ? "nan" : "inf");
  } else if (size == 0) {
    snprintf(out, IOBIND__DECIMAL_TEXT, "0");
  } else {
    write(scale(size, digits), sign, out);
  }
}
