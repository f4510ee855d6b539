#include "tensor/difference.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/decimal.h"
#include "support/options.h"
#include "support/text.h"

iobind_tolerance iobind__tolerance_of(iobind_dtype dtype) {
  switch (dtype) {
    case IOBIND_DTYPE_FLOAT32:
    case IOBIND_DTYPE_FLOAT64: return (iobind_tolerance){1e-4, 1e-3};
    case IOBIND_DTYPE_FLOAT16: return (iobind_tolerance){1e-2, 1e-2};
    case IOBIND_DTYPE_BFLOAT16: return (iobind_tolerance){8e-2, 8e-2};
    default: return (iobind_tolerance){0, 0};
  }
}

static bool is_in_range(double value) {
  return value >= 0 && value <= 1e30; /* false for NaN */
}

iobind_status iobind__tolerance_check(const iobind_tolerance *tolerance, const char *what, iobind_error *error) {
  const bool absolute_fits = is_in_range(tolerance->absolute);
  char got[IOBIND__DECIMAL_TEXT];
  if (absolute_fits && is_in_range(tolerance->relative)) {
    return IOBIND_OK;
  }
  iobind__decimal_text(absolute_fits ? tolerance->relative : tolerance->absolute, IOBIND__DECIMAL_DIGITS, got);
  return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "%s: tolerance: %s: expected 0 .. 1e30, got %s", what,
                      absolute_fits ? "relative" : "absolute", got);
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

/* False: the elements are no numbers, or of a type that is compared only by its bits. */
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

/* The bits of an element of at most 64 bits, which may be packed. */
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

/* The caller frees it. NULL: out of memory, or a failure of ORT. */
static char *read_text(const iobind_tensor *tensor, size_t index, size_t *length, iobind_error *error) {
  if (iobind_tensor_get_string(tensor, index, NULL, 0, length, error) != IOBIND_OK) {
    return NULL;
  }
  char *text = calloc(*length + 1, 1);
  if (text == NULL) {
    (void)iobind__out_of_memory(error, "comparison of strings");
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

/* ---- comparison ---- */

static void note_beyond(iobind_difference *found, size_t index) {
  found->first = found->beyond == 0 ? index : found->first;
  found->beyond++;
}

static double larger(double a, double b) {
  return a > b ? a : b; /* b if a is NaN, from 0 / 0 */
}

static void compare_numbers(double value, double right, const iobind_tolerance *tolerance, size_t index,
                            iobind_difference *found) {
  if (value == right || (isnan(value) && isnan(right))) {
    return;
  }
  const bool is_finite = isfinite(value) && isfinite(right);
  const double absolute = is_finite ? fabs(value - right) : (double)INFINITY;
  found->absolute = larger(absolute, found->absolute);
  found->relative = larger(is_finite ? absolute / fabs(right) : absolute, found->relative);
  if (!is_finite || absolute > tolerance->absolute + tolerance->relative * fabs(right)) {
    note_beyond(found, index);
  }
}

static bool is_floating(iobind_dtype dtype) {
  return iobind__tolerance_of(dtype).relative > 0;
}

static bool has_same_bits(const iobind_tensor *tensor, const iobind_tensor *right, size_t index) {
  const size_t bytes = iobind_dtype_get_bits((int32_t)tensor->dtype) / 8;
  return bytes == 0 ? read_bits(tensor, index) == read_bits(right, index)
                    : memcmp((const char *)tensor->data + index * bytes, (const char *)right->data + index * bytes, bytes) == 0;
}

/* Integers of 64 bits are subtracted as such: as doubles, different ones may be equal. */
static double distance(const iobind_tensor *tensor, const iobind_tensor *right, size_t index, const double values[2]) {
  if (tensor->dtype != IOBIND_DTYPE_INT64 && tensor->dtype != IOBIND_DTYPE_UINT64) {
    return fabs(values[0] - values[1]);
  }
  const uint64_t own = read_bits(tensor, index);
  const uint64_t other = read_bits(right, index);
  const bool is_less = tensor->dtype == IOBIND_DTYPE_UINT64 ? own < other : (int64_t)own < (int64_t)other;
  return (double)(is_less ? other - own : own - other);
}

static void compare_bits(const iobind_tensor *tensor, const iobind_tensor *right, size_t index, iobind_difference *found) {
  double values[2];
  if (has_same_bits(tensor, right, index)) {
    return;
  }
  note_beyond(found, index);
  if (read_number(tensor, index, &values[0]) && read_number(right, index, &values[1])) {
    const double absolute = distance(tensor, right, index, values);
    found->absolute = larger(absolute, found->absolute);
    found->relative = larger(absolute / fabs(values[1]), found->relative);
  }
}

static iobind_status compare_texts(const iobind_tensor *tensor, const iobind_tensor *right, iobind_difference *found,
                                   iobind_error *error) {
  const size_t count = count_elements(tensor);
  for (size_t i = 0; i < count; i++) {
    bool same = false;
    IOBIND__TRY(compare_text(tensor, right, i, &same, error));
    if (!same) {
      note_beyond(found, i);
    }
  }
  return IOBIND_OK;
}

iobind_status iobind__difference_find(const iobind_tensor *tensor, const iobind_tensor *right,
                                      const iobind_tolerance *tolerance, iobind_difference *out, iobind_error *error) {
  const bool floating = is_floating(tensor->dtype);
  *out = (iobind_difference)IOBIND_DIFFERENCE_INIT;
  if (tensor->dtype == IOBIND_DTYPE_STRING) {
    return compare_texts(tensor, right, out, error);
  }
  const bool same = tensor->bytes == 0 || memcmp(tensor->data, right->data, tensor->bytes) == 0;
  const size_t count = same ? 0 : count_elements(tensor);
  for (size_t i = 0; i < count; i++) {
    double values[2];
    if (floating && read_number(tensor, i, &values[0]) && read_number(right, i, &values[1])) {
      compare_numbers(values[0], values[1], tolerance, i, out);
    } else {
      compare_bits(tensor, right, i, out);
    }
  }
  return IOBIND_OK;
}

/* ---- the public function ---- */

static iobind_status check_pair(const iobind_tensor *tensor, const iobind_tensor *right, iobind_error *error) {
  static const char what[] = "tensor_compare";
  if (tensor->dtype != right->dtype || !iobind__tensor_same_dims(tensor, right)) {
    char got[IOBIND__SHAPE_TEXT];
    char wanted[IOBIND__SHAPE_TEXT];
    iobind__shape_text(iobind__form_of(tensor), NULL, got, sizeof got);
    iobind__shape_text(iobind__form_of(right), NULL, wanted, sizeof wanted);
    return iobind__fail(error, tensor->dtype != right->dtype ? IOBIND_ERROR_DTYPE : IOBIND_ERROR_SHAPE,
                        "%s: expected %s, like the reference, got %s", what, wanted, got);
  }
  const iobind_tensor *elsewhere = !tensor->place->host ? tensor : !right->place->host ? right : NULL;
  if (elsewhere != NULL) {
    return iobind__fail(error, IOBIND_ERROR_WRONG_DEVICE,
                        "%s: expected host memory, got memory of '%s': iobind_tensor_copy copies it to the host", what,
                        elsewhere->place->device->spec);
  }
  IOBIND__TRY(iobind__named(iobind__tensor_settle(tensor, IOBIND__READ, error), error, what));
  return iobind__named(iobind__tensor_settle(right, IOBIND__READ, error), error, what);
}

iobind_status iobind_tensor_compare(const iobind_tensor *tensor, const iobind_tensor *right, const iobind_tolerance *tolerance,
                                    iobind_difference *difference, iobind_error *error) {
  static const char what[] = "tensor_compare";
  iobind_difference found;
  IOBIND__TRY(iobind__null_check(tensor, "tensor", what, error));
  IOBIND__TRY(iobind__null_check(right, "right", what, error));
  IOBIND__TRY(iobind__null_check(difference, "difference", what, error));
  IOBIND__TRY(iobind__process_check(what, error));
  IOBIND__TRY(tolerance == NULL ? IOBIND_OK : iobind__tolerance_check(tolerance, what, error));
  IOBIND__TRY(check_pair(tensor, right, error));
  const iobind_tolerance usual = iobind__tolerance_of(tensor->dtype);
  IOBIND__TRY(iobind__named(iobind__difference_find(tensor, right, tolerance == NULL ? &usual : tolerance, &found, error),
                            error, what));
  return IOBIND__INFO_WRITE(difference, &found, what, error);
}

/* ---- texts for messages ---- */

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
