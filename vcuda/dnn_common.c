/* cuDNN's older interface: code that its sources share. */
#include "dnn_classic.h"

void vcuda_dnn_advance(int64_t *index, const int64_t *dims, int rank) {
  for (int i = rank - 1; i >= 0 && ++index[i] == dims[i]; i--) index[i] = 0;
}

int vcuda_dnn_check_floats(const char *name, const vcuda_dnn_tensor *x, const vcuda_dnn_tensor *y) {
  if (x->rank == 0 || y->rank == 0) return vcuda_dnn_bad("%s: a tensor descriptor is not set", name);
  if (!vcuda_type_is_float(x->type) || x->type != y->type) {
    return vcuda_dnn_unknown("%s: cudnnDataType_t %d and %d: expected one type of floats", name, x->type_number,
                             y->type_number);
  }
  return DNN_OK;
}

int vcuda_dnn_check_alike(const char *name, const vcuda_dnn_tensor *x, const vcuda_dnn_tensor *y) {
  int status = vcuda_dnn_check_floats(name, x, y);
  if (status == DNN_OK && x->rank != y->rank) {
    status = vcuda_dnn_bad("%s: x has %d dims, y %d; expected the same", name, x->rank, y->rank);
  }
  for (int i = 0; status == DNN_OK && i < x->rank; i++) {
    if (x->dims[i] == y->dims[i]) continue;
    status = vcuda_dnn_bad("%s: dim %d of x is %lld, of y %lld; expected the same", name, i, (long long)x->dims[i],
                           (long long)y->dims[i]);
  }
  return status;
}

bool vcuda_dnn_read_given(const vcuda_dnn_tensor *tensor, const void *address, const void **data) {
  *data = address == NULL ? NULL : vcuda_dnn_read(tensor, address);
  return address == NULL || *data != NULL;
}

bool vcuda_dnn_write_given(const vcuda_dnn_tensor *tensor, void *address, void **data) {
  *data = address == NULL ? NULL : vcuda_dnn_write(tensor, address);
  return address == NULL || *data != NULL;
}
