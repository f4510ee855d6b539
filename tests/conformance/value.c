#include "value.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "element.h"
#include "onnx.h"

enum { UNLIKELY = 0xA5, STRING_BYTES = 4 };

struct mirror {
  size_t references;
  unsigned char bytes[];
};

int value_parse_type(const char *text, value *v) {
  char name[32];
  char *end;
  size_t length = strcspn(text, "[");
  memset(v, 0, sizeof *v);
  if (text[length] != '[' || length >= sizeof name) return 0;
  snprintf(name, sizeof name, "%.*s", (int)length, text);
  for (int32_t dtype = 1; dtype < 64 && v->dtype == 0; dtype++) {
    if (strcmp(iobind_dtype_get_name(dtype), name) == 0) v->dtype = dtype;
  }
  if (v->dtype == 0) {
    v->dtype = (int32_t)strtol(name, &end, 10);
    if (end == name || *end != '\0') return 0;
  }
  for (const char *at = text + length + 1; *at != ']'; at += *at == ',') {
    if (v->rank == VALUE_MAX_RANK) return 0;
    v->dims[v->rank++] = strtoll(at, &end, 10);
    if (end == at || (*end != ',' && *end != ']')) return 0;
    at = end;
  }
  return 1;
}

void value_print_type(const value *v, char *text, size_t capacity) {
  int used = snprintf(text, capacity, "%s[", iobind_dtype_get_name(v->dtype));
  for (size_t i = 0; i < v->rank && used > 0 && (size_t)used < capacity; i++) {
    used += snprintf(text + used, capacity - (size_t)used, "%s%lld", i == 0 ? "" : ",", (long long)v->dims[i]);
  }
  if (used > 0 && (size_t)used < capacity) snprintf(text + used, capacity - (size_t)used, "]");
}

int32_t value_element(const value *v) {
  return element_find(iobind_dtype_get_name(v->dtype));
}

size_t value_count(const value *v) {
  size_t count = 1;
  for (size_t i = 0; i < v->rank; i++) count = v->dims[i] <= 0 ? 0 : count * (size_t)v->dims[i];
  return count;
}

size_t value_bytes(const value *v) {
  if (v->dtype == IOBIND_DTYPE_STRING) return value_count(v) * STRING_BYTES;
  return (value_count(v) * element_bits(value_element(v)) + 7) / 8;
}

int value_allocate(value *v) {
  size_t bytes = value_bytes(v);
  v->offset = 0;
  v->mirror = malloc(sizeof *v->mirror + bytes + 1);
  if (v->mirror == NULL) return 0;
  v->mirror->references = 1;
  memset(v->mirror->bytes, v->dtype == IOBIND_DTYPE_STRING ? 0 : UNLIKELY, bytes);
  return 1;
}

unsigned char *value_data(const value *v) {
  return v->mirror->bytes + v->offset;
}

void value_share(value *to, const value *from) {
  *to = *from;
  if (to->mirror != NULL) to->mirror->references++;
}

int value_copy(value *to, const value *from) {
  *to = *from;
  if (!value_allocate(to)) return 0;
  memcpy(value_data(to), value_data(from), value_bytes(from));
  return 1;
}

void value_release(value *v) {
  if (v->mirror != NULL && --v->mirror->references == 0) free(v->mirror);
  v->mirror = NULL;
}

/* Element i of a seed's pattern: products and short sums of such numbers are exact in every type. */
static double pattern_number(int32_t element, uint64_t i) {
  switch (element) {
    case ONNX_BOOL: return (double)(i % 2);
    case ONNX_UINT2: return (double)(i % 4);
    case ONNX_INT2: return (double)(i % 4) - 2;
    case ONNX_INT4: return (double)(i % 16) - 8;
    default: return (double)(i % 11);
  }
}

void value_pattern(const value *v, int64_t seed, unsigned char *bytes) {
  int32_t element = value_element(v);
  size_t count = value_count(v), size = value_bytes(v);
  memset(bytes, 0, size);
  if (v->dtype == IOBIND_DTYPE_STRING) {
    for (size_t i = 0; i < count; i++) {
      uint32_t number = (uint32_t)seed + (uint32_t)i;
      memcpy(bytes + i * STRING_BYTES, &number, STRING_BYTES);
    }
  } else if (element_is_number(element)) {
    for (size_t i = 0; i < count; i++) element_set(element, bytes, i, pattern_number(element, (uint64_t)seed + i));
  } else {
    unsigned unused_bits = (unsigned)(size * 8 - count * element_bits(element));
    for (size_t i = 0; i < size; i++) bytes[i] = (unsigned char)((uint64_t)seed * 37 + i * 11 + 1);
    if (size != 0) bytes[size - 1] = (unsigned char)(bytes[size - 1] & 0xFFu >> unused_bits);
  }
}

void value_string(uint32_t number, char *text, size_t capacity) {
  static const char *const stems[] = {"s", "dr\xC3\xA9i", "a text that is longer than what strings keep in themselves"};
  if (number == 0) {
    text[0] = '\0';
  } else {
    snprintf(text, capacity, "%s %lu", stems[number % 3], (unsigned long)number);
  }
}
