#define _POSIX_C_SOURCE 200809L /* open_memstream */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/tool.h"

/* ---- element types ---- */

/* How numpy stores a type: as its own type, or in the raw form of a type that it does not have. */
typedef struct storage {
  char kind;
  uint8_t bytes;
  bool raw;
} storage;

static storage storage_of(int32_t dtype) {
  switch (dtype) {
    case IOBIND_DTYPE_FLOAT16: return (storage){'f', 2, false};
    case IOBIND_DTYPE_FLOAT32: return (storage){'f', 4, false};
    case IOBIND_DTYPE_FLOAT64: return (storage){'f', 8, false};
    case IOBIND_DTYPE_INT8: return (storage){'i', 1, false};
    case IOBIND_DTYPE_INT16: return (storage){'i', 2, false};
    case IOBIND_DTYPE_INT32: return (storage){'i', 4, false};
    case IOBIND_DTYPE_INT64: return (storage){'i', 8, false};
    case IOBIND_DTYPE_UINT8: return (storage){'u', 1, false};
    case IOBIND_DTYPE_UINT16: return (storage){'u', 2, false};
    case IOBIND_DTYPE_UINT32: return (storage){'u', 4, false};
    case IOBIND_DTYPE_UINT64: return (storage){'u', 8, false};
    case IOBIND_DTYPE_BOOL: return (storage){'b', 1, false};
    case IOBIND_DTYPE_COMPLEX64: return (storage){'c', 8, false};
    case IOBIND_DTYPE_COMPLEX128: return (storage){'c', 16, false};
    case IOBIND_DTYPE_STRING: return (storage){'U', 4, false};
    case IOBIND_DTYPE_BFLOAT16: return (storage){'u', 2, true};
    default: break;
  }
  uint32_t bits = iobind_dtype_get_bits(dtype);
  if (bits >= 1 && bits <= 8) return (storage){'u', 1, true};
  return (storage){0, 0, false};
}

static bool is_packed(int32_t dtype) {
  uint32_t bits = iobind_dtype_get_bits(dtype);
  return bits > 0 && bits < 8;
}

const char *tool_raw_form(int32_t dtype) {
  if (dtype == IOBIND_DTYPE_STRING) return "text, as <U";
  if (!storage_of(dtype).raw) return NULL;
  if (is_packed(dtype)) return "packed bytes, as u1 in one dim";
  return dtype == IOBIND_DTYPE_BFLOAT16 ? "its bits, as <u2" : "its bits, as u1";
}

/* ---- words for values ---- */

/* A list in brackets; `symbols` may be NULL. */
static void print_dims(FILE *stream, const int64_t *dims, const char *const *symbols, size_t rank) {
  fputc('[', stream);
  for (size_t i = 0; i < rank; i++) {
    if (i > 0) fputc(',', stream);
    if (dims[i] >= 0) {
      fprintf(stream, "%" PRId64, dims[i]);
    } else {
      fputs(symbols != NULL && symbols[i][0] != 0 ? symbols[i] : "?", stream);
    }
  }
  fputc(']', stream);
}

char *tool_describe_dims(const int64_t *dims, size_t rank) {
  char *text = NULL;
  size_t length = 0;
  FILE *stream = open_memstream(&text, &length);
  if (stream == NULL) return NULL;
  print_dims(stream, dims, NULL, rank);
  return fclose(stream) == 0 ? text : NULL;
}

static const char *kind_name(int32_t kind) {
  static const char *const names[] = {"unknown", "tensor", "sequence", "map", "opaque", "sparse tensor", "optional"};
  return kind >= 0 && kind < (int32_t)(sizeof names / sizeof names[0]) ? names[kind] : names[0];
}

char *tool_describe_value(const iobind_value_info *value) {
  char *text = NULL;
  size_t length = 0;
  FILE *stream = open_memstream(&text, &length);
  if (stream == NULL) return NULL;
  if (value->kind != IOBIND_VALUE_TENSOR) {
    fputs(kind_name(value->kind), stream);
  } else {
    fputs(iobind_dtype_get_name(value->dtype), stream);
    if (value->has_shape) {
      print_dims(stream, value->dims, value->symbols, value->rank);
    } else {
      fputs("[any rank]", stream);
    }
  }
  return fclose(stream) == 0 ? text : NULL;
}

json_t *tool_dims_json(const int64_t *dims, size_t rank) {
  json_t *array = json_array();
  for (size_t i = 0; i < rank; i++) json_array_append_new(array, json_integer(dims[i]));
  return array;
}

/* ---- from numpy ---- */

static bool set_strings(iobind_tensor *tensor, const npy_array *array, tool_fault *fault) {
  for (size_t i = 0; i < array->count; i++) {
    char *text = npy_get_text(array, i);
    if (text == NULL) return fault_set(fault, "element %zu is not text: it has a NUL, or bytes that are not UTF-8", i);
    iobind_error error = IOBIND_ERROR_INIT;
    iobind_status status = iobind_tensor_set_string(tensor, i, text, &error);
    free(text);
    if (status != IOBIND_OK) return fault_set(fault, "%s", tool_reason(&error));
  }
  return true;
}

/* A packed tensor has the model's dims, because its file has only a number of bytes. */
static bool packed_dims(const iobind_value_info *value, const npy_array *array, tool_fault *fault) {
  if (!value->has_shape) return fault_set(fault, "the model leaves the rank of this packed type open");
  for (size_t i = 0; i < value->rank; i++) {
    if (value->dims[i] < 0) return fault_set(fault, "the dims of a packed type must be known; fix open ones with --dim");
  }
  size_t bytes = 0;
  iobind_error error = IOBIND_ERROR_INIT;
  if (iobind_dtype_get_bytes((iobind_dtype)value->dtype, value->dims, value->rank, &bytes, &error) != IOBIND_OK) {
    return fault_set(fault, "%s", tool_reason(&error));
  }
  if (array->rank == 1 && array->bytes == bytes) return true;
  return fault_set(fault, "expected %zu packed bytes in one dim, got %zu bytes in %zu dims", bytes, array->bytes, array->rank);
}

static bool same_type(const npy_array *array, storage wanted) {
  if (wanted.kind == 0) return false;
  if (wanted.kind == 'U') return array->kind == 'U' || array->kind == 'S';
  if (array->item_bytes != wanted.bytes) return false;
  if (wanted.raw && array->kind == 'V') return true;
  return array->kind == wanted.kind || (wanted.raw && wanted.bytes == 1 && array->kind == 'f');
}

bool tool_check_type(const iobind_value_info *value, const npy_array *array, tool_fault *fault) {
  storage wanted = storage_of(value->dtype);
  if (same_type(array, wanted)) return true;
  char type[24], advice[64] = "";
  const char *form = tool_raw_form(value->dtype), *name = iobind_dtype_get_name(value->dtype);
  if (form == NULL && wanted.kind != 0 && wanted.kind != 'U') {
    snprintf(advice, sizeof advice, "; convert it, array.astype('%s')", name);
  }
  return fault_set(fault, "expected %s%s%s%s, got an array of type %s [DTYPE]%s", name, form == NULL ? "" : " (",
                   form == NULL ? "" : form, form == NULL ? "" : ")", npy_type(array, type), advice);
}

bool tool_tensor_from_npy(iobind_device *cpu, const iobind_value_info *value, const npy_array *array, iobind_tensor **tensor,
                          tool_fault *fault) {
  *tensor = NULL;
  if (!tool_check_type(value, array, fault)) return false;
  bool packed = is_packed(value->dtype);
  if (packed && !packed_dims(value, array, fault)) return false;
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_status status =
      iobind_tensor_create(cpu, IOBIND_MEMORY_DEFAULT, (iobind_dtype)value->dtype, packed ? value->dims : array->dims,
                           packed ? value->rank : array->rank, tensor, &error);
  if (status != IOBIND_OK) return fault_set(fault, "%s [%s]", tool_reason(&error), iobind_status_get_name(error.status));
  bool done = true;
  if (value->dtype == IOBIND_DTYPE_STRING) {
    done = set_strings(*tensor, array, fault);
  } else if (array->bytes > 0 && iobind_tensor_write(*tensor, 0, array->data, array->bytes, NULL, &error) != IOBIND_OK) {
    done = fault_set(fault, "%s [%s]", tool_reason(&error), iobind_status_get_name(error.status));
  }
  if (done) return true;
  iobind_tensor_release(*tensor);
  *tensor = NULL;
  return false;
}

/* ---- to numpy ---- */

static bool get_strings(const iobind_tensor *tensor, npy_array *array, tool_fault *fault) {
  char **texts = calloc(array->count + 1, sizeof *texts);
  size_t *lengths = calloc(array->count + 1, sizeof *lengths);
  iobind_error error = IOBIND_ERROR_INIT;
  bool done = texts != NULL && lengths != NULL;
  if (!done) fault_set(fault, "out of memory");
  for (size_t i = 0; done && i < array->count; i++) {
    if (iobind_tensor_get_string(tensor, i, NULL, 0, &lengths[i], &error) != IOBIND_OK) {
      done = fault_set(fault, "%s", tool_reason(&error));
    } else if ((texts[i] = malloc(lengths[i] + 1)) == NULL) {
      done = fault_set(fault, "out of memory");
    } else if (iobind_tensor_get_string(tensor, i, texts[i], lengths[i], &lengths[i], &error) != IOBIND_OK) {
      done = fault_set(fault, "%s", tool_reason(&error));
    }
  }
  if (done && !npy_set_texts(array, (const char *const *)texts, lengths)) {
    done = fault_set(fault, "its strings are too long for a numpy array of strings");
  }
  for (size_t i = 0; texts != NULL && i < array->count; i++) free(texts[i]);
  free(texts);
  free(lengths);
  return done;
}

static bool get_bytes(const iobind_tensor *tensor, npy_array *array, tool_fault *fault) {
  if (array->bytes == 0) return true;
  array->data = malloc(array->bytes);
  if (array->data == NULL) return fault_set(fault, "out of memory: %zu bytes", array->bytes);
  iobind_error error = IOBIND_ERROR_INIT;
  if (iobind_tensor_read(tensor, 0, array->data, array->bytes, NULL, &error) == IOBIND_OK) return true;
  return fault_set(fault, "%s [%s]", tool_reason(&error), iobind_status_get_name(error.status));
}

bool tool_tensor_to_npy(const iobind_tensor *tensor, npy_array *array, tool_fault *fault) {
  *array = (npy_array){0};
  iobind_tensor_info info = IOBIND_TENSOR_INFO_INIT;
  iobind_error error = IOBIND_ERROR_INIT;
  if (iobind_tensor_get_info(tensor, &info, &error) != IOBIND_OK) return fault_set(fault, "%s", tool_reason(&error));
  storage form = storage_of(info.dtype);
  if (form.kind == 0) return fault_set(fault, "numpy has no type for %s", iobind_dtype_get_name(info.dtype));
  array->kind = form.kind;
  array->item_bytes = form.bytes;
  int64_t packed = (int64_t)info.bytes;
  bool sized = is_packed(info.dtype) ? npy_set_dims(array, &packed, 1) : npy_set_dims(array, info.dims, info.rank);
  bool done = sized;
  if (!sized) {
    fault_set(fault, "its dims do not fit a numpy array");
  } else {
    done = info.dtype == IOBIND_DTYPE_STRING ? get_strings(tensor, array, fault) : get_bytes(tensor, array, fault);
  }
  if (!done) npy_free(array);
  return done;
}
