/* The element types of tensors on the virtual GPU, and the numbers in them. */
#ifndef VCUDA_NUMBER_H
#define VCUDA_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum vcuda_type {
  VCUDA_NO_TYPE,
  VCUDA_BOOL,
  VCUDA_INT8,
  VCUDA_UINT8,
  VCUDA_INT16,
  VCUDA_UINT16,
  VCUDA_INT32,
  VCUDA_UINT32,
  VCUDA_INT64,
  VCUDA_UINT64,
  VCUDA_FLOAT8E4M3,
  VCUDA_FLOAT8E5M2,
  VCUDA_FLOAT16,
  VCUDA_BFLOAT16,
  VCUDA_FLOAT32,
  VCUDA_FLOAT64,
  VCUDA_TYPES
} vcuda_type;

/* A number as kernels compute with it: `real` for float types, `whole` for all others. A uint64 is stored as its 64 bits. */
typedef union vcuda_number {
  double real;
  int64_t whole;
} vcuda_number;

size_t vcuda_type_size(vcuda_type type);
bool vcuda_type_is_float(vcuda_type type);

/* Load and store element `index` of an array. A stored value that the type cannot hold is rounded to nearest even (floats) or wrapped
 * (whole numbers). */
vcuda_number vcuda_load(vcuda_type type, const void *data, int64_t index);
void vcuda_store(vcuda_type type, void *data, int64_t index, vcuda_number number);

/* The same as a double, for every type. */
double vcuda_load_real(vcuda_type type, const void *data, int64_t index);
void vcuda_store_real(vcuda_type type, void *data, int64_t index, double real);

/* `number` of the type `from` as a number of the type `to`, converted as on a GPU: towards zero, NaN becomes 0, and too large
 * values the largest. */
vcuda_number vcuda_convert(vcuda_type to, vcuda_type from, vcuda_number number);

/* 8-bit floats have two rules for values that are too large: saturate to the largest value, or overflow to NaN (e4m3) or infinity. */
uint8_t vcuda_to_float8(vcuda_type type, double real, bool saturate);

#endif
