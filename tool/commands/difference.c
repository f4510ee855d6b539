#include "commands/difference.h"

#include <iobind/iobind.h>
#include <math.h>
#include <string.h>

#include "formats/half.h"

typedef double read_element(const void *data, size_t index);

#define READER(name, type)                                    \
  static double name(const void *data, size_t index) {        \
    type value;                                               \
    memcpy(&value, (const type *)data + index, sizeof value); \
    return (double)value;                                     \
  }

READER(read_float, float)
READER(read_double, double)
READER(read_int8, int8_t)
READER(read_int16, int16_t)
READER(read_int32, int32_t)
READER(read_int64, int64_t)
READER(read_uint8, uint8_t)
READER(read_uint16, uint16_t)
READER(read_uint32, uint32_t)
READER(read_uint64, uint64_t)

static double read_half(const void *data, size_t index) {
  return (double)half_read(((const uint16_t *)data)[index]);
}

static double read_bfloat(const void *data, size_t index) {
  uint32_t bits = (uint32_t)((const uint16_t *)data)[index] << 16;
  float value;
  memcpy(&value, &bits, sizeof value);
  return (double)value;
}

/* NULL: elements of this type are compared by their bytes. */
static read_element *reader_of(int32_t dtype) {
  switch (dtype) {
    case IOBIND_DTYPE_FLOAT16: return read_half;
    case IOBIND_DTYPE_BFLOAT16: return read_bfloat;
    case IOBIND_DTYPE_FLOAT32: return read_float;
    case IOBIND_DTYPE_FLOAT64: return read_double;
    case IOBIND_DTYPE_INT8: return read_int8;
    case IOBIND_DTYPE_INT16: return read_int16;
    case IOBIND_DTYPE_INT32: return read_int32;
    case IOBIND_DTYPE_INT64: return read_int64;
    case IOBIND_DTYPE_UINT8: return read_uint8;
    case IOBIND_DTYPE_UINT16: return read_uint16;
    case IOBIND_DTYPE_UINT32: return read_uint32;
    case IOBIND_DTYPE_UINT64: return read_uint64;
    default: return NULL;
  }
}

static bool is_float(int32_t dtype) {
  return dtype == IOBIND_DTYPE_FLOAT16 || dtype == IOBIND_DTYPE_BFLOAT16 || dtype == IOBIND_DTYPE_FLOAT32 ||
         dtype == IOBIND_DTYPE_FLOAT64;
}

static bool is_same_shape(const npy_array *one, const npy_array *other) {
  return one->kind == other->kind && one->rank == other->rank &&
         (one->rank == 0 || memcmp(one->dims, other->dims, one->rank * sizeof one->dims[0]) == 0);
}

static void add_element(difference *d, double value, double reference, const difference_limits *limits) {
  if (value == reference || (isnan(value) && isnan(reference))) return;
  double absolute = fabs(value - reference);
  if (!isfinite(value) || !isfinite(reference)) absolute = (double)INFINITY;
  double relative = absolute / fabs(reference);
  if (isnan(relative)) relative = (double)INFINITY;
  if (absolute > d->absolute) d->absolute = absolute;
  if (relative > d->relative) d->relative = relative;
  if (isinf(absolute) || absolute > limits->absolute + limits->relative * fabs(reference)) d->beyond++;
}

difference difference_of(const npy_array *array, const npy_array *reference, int32_t dtype, const difference_limits *limits) {
  static const difference_limits none = {0, 0};
  difference d = {.same_shape = is_same_shape(array, reference)};
  read_element *read = reader_of(dtype);
  if (!d.same_shape) return d;
  d.measured = read != NULL;
  if (array->item_bytes != reference->item_bytes) { /* texts, of which the longest one differs */
    d.beyond = array->count;
    return d;
  }
  const unsigned char *bytes = array->data, *others = reference->data;
  for (size_t i = 0; i < array->count; i++) {
    size_t at = i * array->item_bytes;
    if (memcmp(bytes + at, others + at, array->item_bytes) == 0) continue;
    if (read == NULL) {
      d.beyond++;
    } else {
      add_element(&d, read(bytes, i), read(others, i), is_float(dtype) ? limits : &none);
    }
  }
  return d;
}
