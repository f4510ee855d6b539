/* An input or output of a session. */
#ifndef IOBIND_SESSION_VALUE_H
#define IOBIND_SESSION_VALUE_H

#include "tensor/tensor.h"

/* As the model declares it. */
typedef struct iobind__value {
  char *name;
  char *label; /* the name for messages, shortened; `name` itself if that is short */
  iobind_value_kind kind;
  iobind_dtype dtype;
  bool has_shape;
  size_t rank;
  int64_t *dims;        /* -1: open */
  const char **symbols; /* one for each dim; "" if it has none; the session owns the strings */
  int *symbol_ids;      /* the same name has the same number in the whole session; -1: none */
  bool repeats_symbol;  /* two dims have the same name */
  iobind__place *place; /* where the session reads it or leaves it */
  int passthrough_input; /* an output: the input that ORT passes through as it, the one of the same name; -1: it comes from a node, or is a constant */
} iobind__value;

/* Format the declared shape: "float32[N,3,224,224]", or "float32 of any shape". */
void iobind__value_shape_text(const iobind__value *value, char *out, size_t capacity);

/* Are dims of the tensor with the same name equal? */
bool iobind__value_symbols_agree(const iobind__value *value, const iobind_tensor *tensor);
iobind_status iobind__value_refuse(const iobind__value *value, const iobind_tensor *tensor, const char *what,
                                   iobind_error *error);

/* Does a tensor fit an input or output? The message begins with `what` and the value's name. */
static inline iobind_status iobind__value_accepts(const iobind__value *value, const iobind_tensor *tensor, const char *what,
                                                  iobind_error *error) {
  bool fits =
      value->kind == IOBIND_VALUE_TENSOR && tensor->dtype == value->dtype && (!value->has_shape || tensor->rank == value->rank);
  for (size_t i = 0; fits && i < value->rank; i++) {
    fits = value->dims[i] < 0 || value->dims[i] == tensor->dims[i];
  }
  fits = fits && (!value->repeats_symbol || iobind__value_symbols_agree(value, tensor));
  return fits ? IOBIND_OK : iobind__value_refuse(value, tensor, what, error);
}

#endif
