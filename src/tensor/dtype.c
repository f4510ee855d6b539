/* Element types: names and sizes. */
#include "tensor/tensor.h"

#include <stdio.h>
#include <string.h>

static const struct {
  const char *name;
  uint32_t bits;
} dtypes[] = {
    [IOBIND_DTYPE_UNDEFINED] = {"undefined", 0},
    [IOBIND_DTYPE_FLOAT32] = {"float32", 32},
    [IOBIND_DTYPE_UINT8] = {"uint8", 8},
    [IOBIND_DTYPE_INT8] = {"int8", 8},
    [IOBIND_DTYPE_UINT16] = {"uint16", 16},
    [IOBIND_DTYPE_INT16] = {"int16", 16},
    [IOBIND_DTYPE_INT32] = {"int32", 32},
    [IOBIND_DTYPE_INT64] = {"int64", 64},
    [IOBIND_DTYPE_STRING] = {"string", 0},
    [IOBIND_DTYPE_BOOL] = {"bool", 8},
    [IOBIND_DTYPE_FLOAT16] = {"float16", 16},
    [IOBIND_DTYPE_FLOAT64] = {"float64", 64},
    [IOBIND_DTYPE_UINT32] = {"uint32", 32},
    [IOBIND_DTYPE_UINT64] = {"uint64", 64},
    [IOBIND_DTYPE_COMPLEX64] = {"complex64", 64},
    [IOBIND_DTYPE_COMPLEX128] = {"complex128", 128},
    [IOBIND_DTYPE_BFLOAT16] = {"bfloat16", 16},
    [IOBIND_DTYPE_FLOAT8E4M3FN] = {"float8e4m3fn", 8},
    [IOBIND_DTYPE_FLOAT8E4M3FNUZ] = {"float8e4m3fnuz", 8},
    [IOBIND_DTYPE_FLOAT8E5M2] = {"float8e5m2", 8},
    [IOBIND_DTYPE_FLOAT8E5M2FNUZ] = {"float8e5m2fnuz", 8},
    [IOBIND_DTYPE_UINT4] = {"uint4", 4},
    [IOBIND_DTYPE_INT4] = {"int4", 4},
    [IOBIND_DTYPE_FLOAT4E2M1] = {"float4e2m1", 4},
    [IOBIND_DTYPE_UINT2] = {"uint2", 2},
    [IOBIND_DTYPE_INT2] = {"int2", 2},
    [IOBIND_DTYPE_FLOAT8E8M0] = {"float8e8m0", 8},
};
enum { DTYPE_COUNT = sizeof dtypes / sizeof dtypes[0] };

const char *iobind_dtype_get_name(int32_t dtype) {
  return dtype >= 0 && dtype < DTYPE_COUNT ? dtypes[dtype].name : "unknown";
}

uint32_t iobind_dtype_get_bits(int32_t dtype) {
  return dtype >= 0 && dtype < DTYPE_COUNT ? dtypes[dtype].bits : 0;
}

iobind_status iobind__dims_check(const int64_t *dims, size_t rank, uint64_t *elements, const char *what, iobind_error *error) {
  if (rank > IOBIND_MAX_RANK) {
    return iobind__fail(error, IOBIND_ERROR_SHAPE, "%s: expected at most %d dims, got %zu", what, IOBIND_MAX_RANK, rank);
  }
  if (dims == NULL && rank > 0) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "%s: dims is NULL, rank is %zu", what, rank);
  }
  bool empty = false;
  for (size_t i = 0; i < rank; i++) {
    if (dims[i] < 0) {
      return iobind__fail(error, IOBIND_ERROR_SHAPE, "%s: expected dims of 0 or more, got %lld at index %zu", what,
                          (long long)dims[i], i);
    }
    empty = empty || dims[i] == 0;
  }
  *elements = empty ? 0 : 1;
  for (size_t i = 0; i < rank && !empty; i++) {
    if (*elements > (uint64_t)INT64_MAX / (uint64_t)dims[i]) {
      return iobind__fail(error, IOBIND_ERROR_SHAPE, "%s: the product of the dims exceeds 64 bits", what);
    }
    *elements *= (uint64_t)dims[i];
  }
  return IOBIND_OK;
}

iobind_status iobind__form_bytes(iobind__form form, size_t *bytes, const char *what, iobind_error *error) {
  *bytes = 0;
  uint32_t bits = iobind_dtype_get_bits((int32_t)form.dtype);
  if (bits == 0) {
    return iobind__fail(error, IOBIND_ERROR_DTYPE, "%s: elements of type %s (%d) have no size", what,
                        iobind_dtype_get_name((int32_t)form.dtype), (int)form.dtype);
  }
  uint64_t elements;
  IOBIND__TRY(iobind__dims_check(form.dims, form.rank, &elements, what, error));
  /* in units of bytes: the number of bits could overflow even if the number of bytes does not */
  uint64_t per_byte = bits < 8 ? 8 / bits : 1;
  uint64_t units = elements / per_byte + (elements % per_byte != 0);
  uint64_t unit = bits < 8 ? 1 : bits / 8;
  if (units > (uint64_t)PTRDIFF_MAX / unit) {
    return iobind__fail(error, IOBIND_ERROR_SHAPE, "%s: %llu elements of %s are more than can be addressed", what,
                        (unsigned long long)elements, iobind_dtype_get_name((int32_t)form.dtype));
  }
  *bytes = (size_t)(units * unit);
  return IOBIND_OK;
}

iobind_status iobind_dtype_get_bytes(iobind_dtype dtype, const int64_t *dims, size_t rank, size_t *bytes, iobind_error *error) {
  IOBIND__TRY(iobind__null_check(bytes, "bytes", "dtype_get_bytes", error));
  return iobind__form_bytes((iobind__form){dtype, dims, rank}, bytes, "dtype_get_bytes", error);
}

void iobind__shape_text(iobind__form form, const char *const *symbols, char *out, size_t capacity) {
  int length = snprintf(out, capacity, "%s[", iobind_dtype_get_name((int32_t)form.dtype));
  for (size_t i = 0; i < form.rank && length >= 0 && (size_t)length < capacity; i++) {
    const char *comma = i == 0 ? "" : ",";
    char *at = out + length;
    size_t left = capacity - (size_t)length;
    if (form.dims[i] >= 0) {
      length += snprintf(at, left, "%s%lld", comma, (long long)form.dims[i]);
    } else {
      length += snprintf(at, left, "%s%s", comma, symbols != NULL && symbols[i][0] != '\0' ? symbols[i] : "?");
    }
  }
  if (length >= 0 && (size_t)length + 1 < capacity) {
    memcpy(out + length, "]", 2);
  } else {
    memcpy(out + iobind__text_whole(out, capacity - sizeof "...]"), "...]",
           sizeof "...]"); /* a dimension's symbol can be long */
  }
}
