#include "commands/feed.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "shared/given.h"
#include "shared/number.h"

bool feed_split(const char *text, size_t *length, int64_t *axis) {
  const char *at = strrchr(text, '@');
  if (at == NULL || !number_parse_integer(at + 1, 0, NPY_MAX_RANK, axis)) return false;
  *length = (size_t)(at - text);
  return true;
}

static size_t product(const int64_t *dims, size_t from, size_t to) {
  size_t count = 1;
  for (size_t i = from; i < to; i++) count *= (size_t)dims[i];
  return count;
}

/* The elements in the order in which they are needed: those of a slice together. */
static bool put_axis_first(npy_array *array, size_t axis, tool_fault *fault) {
  size_t outer = product(array->dims, 0, axis);
  size_t length = (size_t)array->dims[axis];
  size_t inner = product(array->dims, axis + 1, array->rank) * array->item_bytes;
  if (outer > 1 && array->bytes > 0) {
    unsigned char *ordered = malloc(array->bytes);
    if (ordered == NULL) return fault_set(fault, "out of memory: %zu bytes", array->bytes);
    const unsigned char *source = array->data;
    for (size_t i = 0; i < outer; i++) {
      for (size_t j = 0; j < length; j++, source += inner) memcpy(ordered + (j * outer + i) * inner, source, inner);
    }
    free(array->data);
    array->data = ordered;
  }
  memmove(array->dims + 1, array->dims, axis * sizeof array->dims[0]);
  array->dims[0] = (int64_t)length;
  return true;
}

static bool cut(feed *fed, int64_t axis, const iobind_value_info *value, tool_fault *fault) {
  npy_array *array = &fed->slices;
  if ((size_t)axis >= array->rank) {
    return fault_set(fault, "it has %zu dims, and no axis %" PRId64 " [SHAPE]", array->rank, axis);
  }
  bool keeps = value->has_shape && value->rank == array->rank;
  int64_t dims[NPY_MAX_RANK];
  size_t rank = 0;
  for (size_t i = 0; i < array->rank; i++) {
    if (i != (size_t)axis || keeps) dims[rank++] = i == (size_t)axis ? 1 : array->dims[i];
  }
  fed->slice.kind = array->kind;
  fed->slice.item_bytes = array->item_bytes;
  if (!npy_set_dims(&fed->slice, dims, rank)) return fault_set(fault, "its slices are too large");
  fed->count = (size_t)array->dims[axis];
  if (fed->count == 0) return fault_set(fault, "it has no slice along axis %" PRId64 " [SHAPE]", axis);
  if (!put_axis_first(array, (size_t)axis, fault)) return false;
  fed->slice.data = array->data;
  return true;
}

bool feed_read(const char *file, int64_t axis, const iobind_value_info *value, feed *fed, tool_fault *fault) {
  *fed = (feed){0};
  if (value->dtype == IOBIND_DTYPE_STRING) return fault_set(fault, "strings cannot be fed slice by slice [NOT_SUPPORTED]");
  uint32_t bits = iobind_dtype_get_bits(value->dtype);
  if (bits > 0 && bits < 8) return fault_set(fault, "packed elements cannot be fed slice by slice [NOT_SUPPORTED]");
  if (!given_read(file, value, &fed->slices, fault)) return false;
  if (cut(fed, axis, value, fault)) return true;
  feed_free(fed);
  return false;
}

void feed_free(feed *fed) {
  npy_free(&fed->slices);
  *fed = (feed){0};
}

const void *feed_at(const feed *fed, size_t step) {
  return (const unsigned char *)fed->slices.data + step * fed->slice.bytes;
}
