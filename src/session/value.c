/* Does a tensor fit an input or output? */
#include "session/value.h"

#include <stdio.h>

bool iobind__value_symbols_agree(const iobind__value *value, const iobind_tensor *tensor) {
  bool same = true;
  for (size_t i = 0; same && i < value->rank; i++) {
    for (size_t j = 0; same && value->symbol_ids[i] >= 0 && j < i; j++) {
      same = value->symbol_ids[i] != value->symbol_ids[j] || tensor->dims[i] == tensor->dims[j];
    }
  }
  return same;
}

void iobind__value_shape_text(const iobind__value *value, char *out, size_t capacity) {
  if (value->has_shape) {
    iobind__shape_text((iobind__form){value->dtype, value->dims, value->rank}, value->symbols, out, capacity);
  } else {
    snprintf(out, capacity, "%s of any shape", iobind_dtype_get_name((int32_t)value->dtype));
  }
}

iobind_status iobind__value_refuse(const iobind__value *value, const iobind_tensor *tensor, const char *what,
                                   iobind_error *error) {
  if (value->kind != IOBIND_VALUE_TENSOR) {
    return iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED, "%s: '%s' is not a tensor, and only tensors can be bound", what,
                        value->label);
  }
  char wanted[IOBIND__SHAPE_TEXT];
  char given[IOBIND__SHAPE_TEXT];
  iobind__value_shape_text(value, wanted, sizeof wanted);
  iobind__shape_text(iobind__form_of(tensor), NULL, given, sizeof given);
  return iobind__fail(error, tensor->dtype != value->dtype ? IOBIND_ERROR_DTYPE : IOBIND_ERROR_SHAPE,
                      "%s: '%s': expected %s, got %s", what, value->label, wanted, given);
}
