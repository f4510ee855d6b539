#include "tensor/difference.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/decimal.h"
#include "support/text.h"

iobind__tolerance iobind__tolerance_of(iobind_dtype dtype) {
  switch (dtype) {
#define TOLERANCE_CASE(name, absolute, relative) \
  case IOBIND_DTYPE_##name: return (iobind__tolerance){absolute, relative};
    IOBIND_TOLERANCE_MAP(TOLERANCE_CASE)
#undef TOLERANCE_CASE
    default: return (iobind__tolerance){0, 0};
  }
}

/* ---- elements as numbers ---- */

static double read_half(uint16_t bits) {
  const uint32_t exponent = (bits >> 10) & 31;
  const uint32_t fraction = bits & 1023;
  double size;
  if (exponent == 31) {
    size = fraction == 0 ? (double)INFINITY : (double)NAN;
  } else if (exponent == 0) {
    size = (double)fraction / (1 << 24);
  } else {
    size = (double)((uint64_t)(fraction + 1024) << exponent) / (1 << 25);
  }
  return (bits & 0x8000) != 0 ? -size : size;
}

static double read_bfloat(uint16_t bits) {
  const uint32_t wide = (uint32_t)bits << 16;
  float value;
  memcpy(&value, &wide, sizeof value);
  return (double)value;
}

#define READ(type)                                                    \
  do {                                                                \
    type value;                                                       \
    memcpy(&value, (const type *)tensor->data + index, sizeof value); \
    *number = (double)value;                                          \
  } while (0)

/* False: elements of this type are no numbers, or of a type that only their bits show. */
static bool read_number(const iobind_tensor *tensor, size_t index, double *number) {
  switch (tensor->dtype) {
    case IOBIND_DTYPE_FLOAT32: READ(float); break;
    case IOBIND_DTYPE_FLOAT64: READ(double); break;
    case IOBIND_DTYPE_FLOAT16: *number = read_half(((const uint16_t *)tensor->data)[index]); break;
    case IOBIND_DTYPE_BFLOAT16: *number = read_bfloat(((const uint16_t *)tensor->data)[index]); break;
    case IOBIND_DTYPE_INT8: READ(int8_t); break;
    case IOBIND_DTYPE_INT16: READ(int16_t); break;
    case IOBIND_DTYPE_INT32: READ(int32_t); break;
    case IOBIND_DTYPE_INT64: READ(int64_t); break;
    case IOBIND_DTYPE_UINT8:
    case IOBIND_DTYPE_BOOL: READ(uint8_t); break;
    case IOBIND_DTYPE_UINT16: READ(uint16_t); break;
    case IOBIND_DTYPE_UINT32: READ(uint32_t); break;
    case IOBIND_DTYPE_UINT64: READ(uint64_t); break;
    default: return false;
  }
  return true;
}

/* Of an element of at most 64 bits, also of a packed one. */
static uint64_t read_bits(const iobind_tensor *tensor, size_t index) {
  const unsigned char *bytes = tensor->data;
  const size_t width = iobind_dtype_get_bits((int32_t)tensor->dtype);
  uint64_t bits = 0;
  if (width < 8) {
    return (uint64_t)(bytes[index * width / 8] >> (index * width % 8)) & ((1U << width) - 1U);
  }
  for (size_t i = width / 8; i-- > 0;) {
    bits = bits << 8 | bytes[index * (width / 8) + i];
  }
  return bits;
}

/* ---- texts ---- */

static size_t count_elements(const iobind_tensor *tensor) {
  size_t count = 1;
  for (size_t i = 0; i < tensor->rank; i++) {
    count *= (size_t)tensor->dims[i];
  }
  return count;
}

/* The caller frees it; NULL: out of memory, or ORT refuses it. */
static char *read_text(const iobind_tensor *tensor, size_t index, size_t *length, iobind_error *error) {
  if (iobind_tensor_get_string(tensor, index, NULL, 0, length, error) != IOBIND_OK) {
    return NULL;
  }
  char *text = calloc(*length + 1, 1);
  if (text == NULL) {
    (void)iobind__out_of_memory(error, "binding_run");
  } else if (iobind_tensor_get_string(tensor, index, text, *length, length, error) != IOBIND_OK) {
    free(text);
    text = NULL;
  }
  return text;
}

static iobind_status compare_text(const iobind_tensor *tensor, const iobind_tensor *right, size_t index, bool *same,
                                  iobind_error *error) {
  iobind_error failure = IOBIND_ERROR_INIT;
  size_t lengths[2] = {0, 0};
  char *one = read_text(tensor, index, &lengths[0], &failure);
  char *other = one == NULL ? NULL : read_text(right, index, &lengths[1], &failure);
  const bool read = one != NULL && other != NULL;
  *same = read && lengths[0] == lengths[1] && memcmp(one, other, lengths[0]) == 0;
  free(one);
  free(other);
  return read ? IOBIND_OK : iobind__error_copy(error, &failure);
}

/* ---- compared ---- */

static void note_beyond(iobind__difference *found, size_t index) {
  found->first = found->beyond == 0 ? index : found->first;
  found->beyond++;
}

static void compare_number(double value, double right, const iobind__tolerance *tolerance, size_t index,
                           iobind__difference *found) {
  if (value == right || (isnan(value) && isnan(right))) {
    return;
  }
  const bool is_finite = isfinite(value) && isfinite(right);
  const double absolute = is_finite ? fabs(value - right) : (double)INFINITY;
  const double relative = is_finite ? absolute / fabs(right) : (double)INFINITY;
  found->relative = relative > found->relative ? relative : found->relative;
  if (!is_finite || absolute > tolerance->absolute + tolerance->relative * fabs(right)) {
    note_beyond(found, index);
  }
}

static bool is_floating(iobind_dtype dtype) {
  return iobind__tolerance_of(dtype).relative > 0;
}

iobind_status iobind__difference_find(const iobind_tensor *tensor, const iobind_tensor *right,
                                      const iobind__tolerance *tolerance, iobind__difference *out, iobind_error *error) {
  const bool floating = is_floating(tensor->dtype);
  const size_t count = count_elements(tensor);
  *out = (iobind__difference){0, 0, 0};
  if (tensor->dtype != IOBIND_DTYPE_STRING && (tensor->bytes == 0 || memcmp(tensor->data, right->data, tensor->bytes) == 0)) {
    return IOBIND_OK;
  }
  for (size_t i = 0; i < count; i++) {
    double values[2];
    bool same = false;
    if (floating && read_number(tensor, i, &values[0]) && read_number(right, i, &values[1])) {
      compare_number(values[0], values[1], tolerance, i, out);
      continue;
    }
    if (tensor->dtype == IOBIND_DTYPE_STRING) {
      IOBIND__TRY(compare_text(tensor, right, i, &same, error));
    } else {
      same = read_bits(tensor, i) == read_bits(right, i);
    }
    if (!same) {
      note_beyond(out, i);
      if (read_number(tensor, i, &values[0]) && read_number(right, i, &values[1])) {
        const double relative = fabs(values[0] - values[1]) / fabs(values[1]);
        out->relative = relative > out->relative ? relative : out->relative;
      }
    }
  }
  return IOBIND_OK;
}

/* ---- shown ---- */

void iobind__element_text(const iobind_tensor *tensor, size_t index, char out[IOBIND__ELEMENT_TEXT]) {
  enum { FLOAT_DIGITS = 9, SHOWN = 24 };
  double number;
  size_t length = 0;
  if (tensor->dtype == IOBIND_DTYPE_STRING) {
    char *text = read_text(tensor, index, &length, NULL);
    const char *shown = text == NULL ? "" : text;
    snprintf(out, IOBIND__ELEMENT_TEXT, "'%.*s'%s", (int)iobind__text_whole(shown, length < SHOWN ? length : SHOWN), shown,
             text != NULL && length > SHOWN ? " ..." : "");
    free(text);
  } else if (is_floating(tensor->dtype) && read_number(tensor, index, &number)) {
    iobind__decimal_text(number, FLOAT_DIGITS, out);
  } else if (tensor->dtype == IOBIND_DTYPE_INT64) {
    snprintf(out, IOBIND__ELEMENT_TEXT, "%lld", (long long)read_bits(tensor, index));
  } else if (tensor->dtype == IOBIND_DTYPE_UINT64) {
    snprintf(out, IOBIND__ELEMENT_TEXT, "%llu", (unsigned long long)read_bits(tensor, index));
  } else if (read_number(tensor, index, &number)) {
    snprintf(out, IOBIND__ELEMENT_TEXT, "%lld", (long long)number);
  } else {
    snprintf(out, IOBIND__ELEMENT_TEXT, "0x%llx", (unsigned long long)read_bits(tensor, index));
  }
}

void iobind__position_text(const iobind_tensor *tensor, size_t index, char *out, size_t capacity) {
  int64_t places[IOBIND_MAX_RANK];
  size_t length = 0;
  out[0] = 0;
  for (size_t i = tensor->rank; i-- > 0;) {
    places[i] = (int64_t)(index % (size_t)tensor->dims[i]);
    index /= (size_t)tensor->dims[i];
  }
  for (size_t i = 0; i < tensor->rank && length < capacity; i++) {
    const int wrote = snprintf(out + length, capacity - length, "%s%lld%s", i == 0 ? "[" : ",", (long long)places[i],
                               i + 1 == tensor->rank ? "]" : "");
    length += wrote < 0 ? capacity : (size_t)wrote;
  }
}
