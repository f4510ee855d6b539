#include "number.h"

#include <math.h>
#include <string.h>

/* A binary float format of at most 16 bits. `finite_only`: no infinities, and the only NaN is all ones. */
typedef struct format {
  int exponent_bits;
  int fraction_bits;
  bool finite_only;
} format;

static const format formats[VCUDA_TYPES] = {
    [VCUDA_FLOAT8E4M3] = {4, 3, true},
    [VCUDA_FLOAT8E5M2] = {5, 2, false},
    [VCUDA_FLOAT16] = {5, 10, false},
    [VCUDA_BFLOAT16] = {8, 7, false},
};

static const uint8_t sizes[VCUDA_TYPES] = {
    [VCUDA_BOOL] = 1,       [VCUDA_INT8] = 1,    [VCUDA_UINT8] = 1,    [VCUDA_INT16] = 2,   [VCUDA_UINT16] = 2,
    [VCUDA_INT32] = 4,      [VCUDA_UINT32] = 4,  [VCUDA_INT64] = 8,    [VCUDA_UINT64] = 8,  [VCUDA_FLOAT8E4M3] = 1,
    [VCUDA_FLOAT8E5M2] = 1, [VCUDA_FLOAT16] = 2, [VCUDA_BFLOAT16] = 2, [VCUDA_FLOAT32] = 4, [VCUDA_FLOAT64] = 8,
};

size_t vcuda_type_size(vcuda_type type) {
  return sizes[type];
}

bool vcuda_type_is_float(vcuda_type type) {
  return type >= VCUDA_FLOAT8E4M3;
}

/* ---- small floats ---- */

static int bias(const format *f) {
  return (1 << (f->exponent_bits - 1)) - 1;
}

static unsigned largest_exponent(const format *f) {
  return (1U << f->exponent_bits) - 1;
}

static double unpack(const format *f, unsigned bits) {
  unsigned fraction = bits & ((1U << f->fraction_bits) - 1);
  unsigned exponent = bits >> f->fraction_bits & largest_exponent(f);
  bool negative = bits >> (f->exponent_bits + f->fraction_bits) & 1;
  double value;
  if (exponent == largest_exponent(f) && (!f->finite_only || fraction == (1U << f->fraction_bits) - 1)) {
    value = f->finite_only || fraction != 0 ? (double)NAN : (double)INFINITY;
  } else if (exponent == 0) {
    value = ldexp(fraction, 1 - bias(f) - f->fraction_bits);
  } else {
    value = ldexp(fraction + (1U << f->fraction_bits), (int)exponent - bias(f) - f->fraction_bits);
  }
  return negative ? -value : value;
}

static unsigned largest_finite(const format *f) {
  unsigned all = (1U << (f->exponent_bits + f->fraction_bits)) - 1;
  return f->finite_only ? all - 1 : (largest_exponent(f) << f->fraction_bits) - 1;
}

static unsigned pack(const format *f, double value, bool saturate) {
  unsigned sign = (signbit(value) ? 1U : 0U) << (f->exponent_bits + f->fraction_bits);
  unsigned infinity = f->finite_only ? largest_finite(f) + 1 : largest_exponent(f) << f->fraction_bits;
  if (isnan(value)) {
    return sign | ((1U << (f->exponent_bits + f->fraction_bits)) - 1); /* all ones, as on the device */
  }
  unsigned bits = infinity;
  value = fabs(value);
  if (value == 0) {
    bits = 0;
  } else if (!isinf(value)) {
    int exponent;
    (void)frexp(value, &exponent); /* value < 2^exponent */
    int smallest = 1 - bias(f);
    int scale = (exponent - 1 > smallest ? exponent - 1 : smallest) - f->fraction_bits;
    double units = nearbyint(ldexp(value, -scale)); /* in units of the last place: at most 2^(fraction bits + 1) */
    double packed = units + ldexp(scale + f->fraction_bits - smallest, f->fraction_bits);
    bits = packed > largest_finite(f) ? infinity : (unsigned)packed;
  }
  return sign | (bits > largest_finite(f) && saturate ? largest_finite(f) : bits);
}

uint8_t vcuda_to_float8(vcuda_type type, double real, bool saturate) {
  return (uint8_t)pack(&formats[type], real, saturate);
}

/* ---- fast paths for float16 and bfloat16, the types of most matrices ---- */

static uint32_t float_bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static float bits_float(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static double unpack16(vcuda_type type, uint16_t bits) {
  unsigned exponent = bits >> 10 & 31;
  if (type == VCUDA_BFLOAT16) {
    return (double)bits_float((uint32_t)bits << 16);
  }
  if (exponent == 0 || exponent == 31) {
    return unpack(&formats[VCUDA_FLOAT16], bits);
  }
  return (double)bits_float((uint32_t)(bits & 0x8000) << 16 | (exponent + 112) << 23 | (uint32_t)(bits & 1023) << 13);
}

/* In the common case a float holds the double exactly: the float's bits are rounded directly. */
static uint16_t pack16(vcuda_type type, double real) {
  float value = (float)real;
  if ((double)value == real && type == VCUDA_BFLOAT16) {
    uint32_t bits = float_bits(value);
    return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
  }
  return (uint16_t)pack(&formats[type], real, false);
}

/* ---- elements ---- */

#define LOAD(type, field)             \
  do {                                \
    type value;                       \
    memcpy(&value, at, sizeof value); \
    number.field = value;             \
  } while (0)

vcuda_number vcuda_load(vcuda_type type, const void *data, int64_t index) {
  const char *at = (const char *)data + index * sizes[type];
  vcuda_number number = {.whole = 0};
  uint16_t half;
  switch (type) {
    case VCUDA_BOOL: number.whole = *at != 0; break;
    case VCUDA_INT8: number.whole = (uint8_t)*at < 128 ? (uint8_t)*at : (uint8_t)*at - 256; break;
    case VCUDA_UINT8: LOAD(uint8_t, whole); break;
    case VCUDA_INT16: LOAD(int16_t, whole); break;
    case VCUDA_UINT16: LOAD(uint16_t, whole); break;
    case VCUDA_INT32: LOAD(int32_t, whole); break;
    case VCUDA_UINT32: LOAD(uint32_t, whole); break;
    case VCUDA_INT64:
    case VCUDA_UINT64: LOAD(int64_t, whole); break;
    case VCUDA_FLOAT8E4M3:
    case VCUDA_FLOAT8E5M2: number.real = unpack(&formats[type], (uint8_t)*at); break;
    case VCUDA_FLOAT16:
    case VCUDA_BFLOAT16:
      memcpy(&half, at, sizeof half);
      number.real = unpack16(type, half);
      break;
    case VCUDA_FLOAT32: {
      float value;
      memcpy(&value, at, sizeof value);
      number.real = (double)value;
      break;
    }
    case VCUDA_FLOAT64: LOAD(double, real); break;
    case VCUDA_NO_TYPE:
    case VCUDA_TYPES: break;
  }
  return number;
}

#define STORE(type)                   \
  do {                                \
    type value = (type)number.whole;  \
    memcpy(at, &value, sizeof value); \
  } while (0)

void vcuda_store(vcuda_type type, void *data, int64_t index, vcuda_number number) {
  char *at = (char *)data + index * sizes[type];
  uint16_t half;
  switch (type) {
    case VCUDA_BOOL: *at = (char)(number.whole != 0); break;
    case VCUDA_INT8:
    case VCUDA_UINT8: STORE(uint8_t); break;
    case VCUDA_INT16:
    case VCUDA_UINT16: STORE(uint16_t); break;
    case VCUDA_INT32:
    case VCUDA_UINT32: STORE(uint32_t); break;
    case VCUDA_INT64:
    case VCUDA_UINT64: STORE(uint64_t); break;
    case VCUDA_FLOAT8E4M3:
    case VCUDA_FLOAT8E5M2: *at = (char)vcuda_to_float8(type, number.real, true); break;
    case VCUDA_FLOAT16:
    case VCUDA_BFLOAT16:
      half = pack16(type, number.real);
      memcpy(at, &half, sizeof half);
      break;
    case VCUDA_FLOAT32: {
      float value = (float)number.real;
      memcpy(at, &value, sizeof value);
      break;
    }
    case VCUDA_FLOAT64: memcpy(at, &number.real, sizeof number.real); break;
    case VCUDA_NO_TYPE:
    case VCUDA_TYPES: break;
  }
}

/* ---- conversions ---- */

/* Round towards zero and clamp to the type's range. A double holds each bound, or the number after it, exactly. */
static int64_t truncate(double real, bool without_sign, int bits) {
  if (isnan(real)) return 0;
  double limit = ldexp(1, without_sign ? bits : bits - 1);
  if (real >= limit)
    return without_sign ? (bits == 64 ? -1 : (1LL << bits) - 1) : bits == 64 ? INT64_MAX : (1LL << (bits - 1)) - 1;
  if (without_sign) return real <= 0 ? 0 : (int64_t)(uint64_t)real;
  return real <= -limit ? (bits == 64 ? INT64_MIN : -(1LL << (bits - 1))) : (int64_t)real;
}

static int64_t whole_of(vcuda_type to, double real) {
  switch (to) {
    case VCUDA_BOOL: return real != 0;
    case VCUDA_UINT64: return truncate(real, true, 64);
    case VCUDA_INT64: return truncate(real, false, 64);
    case VCUDA_UINT8:
    case VCUDA_UINT16:
    case VCUDA_UINT32: return truncate(real, true, 32); /* a GPU has no narrower conversion: the store wraps */
    default: return truncate(real, false, 32);
  }
}

vcuda_number vcuda_convert(vcuda_type to, vcuda_type from, vcuda_number number) {
  if (vcuda_type_is_float(to)) {
    if (!vcuda_type_is_float(from)) {
      number.real = from == VCUDA_UINT64 ? (double)(uint64_t)number.whole : (double)number.whole;
    }
  } else if (vcuda_type_is_float(from)) {
    number.whole = whole_of(to, number.real);
  } else if (to == VCUDA_BOOL) {
    number.whole = number.whole != 0;
  }
  return number;
}

double vcuda_load_real(vcuda_type type, const void *data, int64_t index) {
  return vcuda_convert(VCUDA_FLOAT64, type, vcuda_load(type, data, index)).real;
}

void vcuda_store_real(vcuda_type type, void *data, int64_t index, double real) {
  vcuda_store(type, data, index, vcuda_convert(type, VCUDA_FLOAT64, (vcuda_number){.real = real}));
}
