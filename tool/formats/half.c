#include "formats/half.h"

#include <math.h>
#include <string.h>

enum { FRACTION = 10, BIAS = 15, INFINITE = 0x7C00, QUIET = 0x7E00 };

float half_read(uint16_t bits) {
  int exponent = bits >> FRACTION & 31;
  int fraction = bits & ((1 << FRACTION) - 1);
  float value;
  if (exponent == 31) {
    value = fraction == 0 ? INFINITY : NAN;
  } else if (exponent == 0) {
    value = ldexpf((float)fraction, 1 - BIAS - FRACTION);
  } else {
    value = ldexpf((float)(fraction + (1 << FRACTION)), exponent - BIAS - FRACTION);
  }
  return (bits & 0x8000) != 0 ? -value : value;
}

uint16_t half_write(float value) {
  uint16_t sign = signbit(value) ? 0x8000 : 0;
  float size = fabsf(value);
  if (isnan(value)) return sign | QUIET;
  if (size == 0) return sign;
  if (size >= 65520) return sign | INFINITE; /* rounds beyond the largest half */
  int exponent = 0;
  (void)frexpf(size, &exponent); /* size < 2^exponent */
  int step = exponent - 1 - FRACTION;
  if (step < 1 - BIAS - FRACTION) step = 1 - BIAS - FRACTION; /* below the smallest normal half they are evenly spaced */
  /* In steps from 0. A carry out of the fraction goes into the exponent, which gives the right bits. */
  uint16_t steps = (uint16_t)lrintf(ldexpf(size, -step));
  uint16_t above = (uint16_t)((step - (1 - BIAS - FRACTION)) << FRACTION);
  return (uint16_t)(sign | (steps + above));
}
