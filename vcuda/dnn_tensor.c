/* Tensor descriptors, and the elements that they describe. */
#include "dnn.h"

#include <limits.h>

VCUDA_DNN_DESCRIPTOR(Tensor, vcuda_dnn_tensor)

vcuda_type vcuda_dnn_type(int number) {
  switch (number) {
    case 0: return VCUDA_FLOAT32;
    case 1: return VCUDA_FLOAT64;
    case 2: return VCUDA_FLOAT16;
    case 3: return VCUDA_INT8;
    case 4: return VCUDA_INT32;
    case 6: return VCUDA_UINT8;
    case 9: return VCUDA_BFLOAT16;
    case 10: return VCUDA_INT64;
    default: return VCUDA_NO_TYPE;
  }
}

int vcuda_dnn_shape(const char *name, vcuda_dnn_tensor *tensor, int type, int rank, const int dims[]) {
  if (tensor == NULL || dims == NULL) return vcuda_dnn_bad("%s: the descriptor or its dims are NULL", name);
  if (vcuda_dnn_type(type) == VCUDA_NO_TYPE) return vcuda_dnn_unknown("%s: type %d is not known here", name, type);
  if (rank > DNN_MAX_RANK) return vcuda_dnn_unknown("%s: rank %d; expected at most %d", name, rank, DNN_MAX_RANK);
  if (rank < 1) return vcuda_dnn_bad("%s: rank %d; expected 1 to %d", name, rank, DNN_MAX_RANK);
  int64_t count = 1;
  vcuda_dnn_tensor made = {.type = vcuda_dnn_type(type), .type_number = type, .rank = rank};
  for (int i = rank - 1; i >= 0; i--) {
    if (dims[i] < 1) return vcuda_dnn_bad("%s: dim %d is %d; expected 1 or more", name, i, dims[i]);
    made.dims[i] = dims[i];
    made.strides[i] = count;
    count *= dims[i];
    if (count > INT_MAX) return vcuda_dnn_unknown("%s: more than %d elements", name, INT_MAX);
  }
  *tensor = made;
  return DNN_OK;
}

int cudnnSetTensorNdDescriptor(vcuda_dnn_tensor *tensor, int type, int rank, const int dims[], const int strides[]) {
  VCUDA_DNN_BEGIN(NULL);
  if (strides == NULL) return vcuda_close(&call, vcuda_dnn_bad("%s: the strides are NULL", __func__));
  int status = vcuda_dnn_shape(__func__, tensor, type, rank, dims);
  for (int i = 0; status == DNN_OK && i < rank; i++) {
    if (strides[i] < 1)
      return vcuda_close(&call, vcuda_dnn_bad("%s: stride %d is %d; expected 1 or more", __func__, i, strides[i]));
    tensor->strides[i] = strides[i];
  }
  return vcuda_close(&call, status);
}

int cudnnGetTensorNdDescriptor(const vcuda_dnn_tensor *tensor, int room, int *type, int *rank, int dims[], int strides[]) {
  VCUDA_DNN_BEGIN(NULL);
  if (tensor == NULL || type == NULL || rank == NULL || dims == NULL || strides == NULL) {
    return vcuda_close(&call, vcuda_dnn_bad("%s: an argument is NULL", __func__));
  }
  *type = tensor->type_number;
  *rank = tensor->rank;
  for (int i = 0; i < tensor->rank && i < room; i++) {
    dims[i] = (int)tensor->dims[i];
    strides[i] = (int)tensor->strides[i];
  }
  return vcuda_close(&call, DNN_OK);
}

/* ---- elements ---- */

int64_t vcuda_dnn_count(const vcuda_dnn_tensor *tensor) {
  int64_t count = 1;
  for (int i = 0; i < tensor->rank; i++) count *= tensor->dims[i];
  return count;
}

size_t vcuda_dnn_bytes(const vcuda_dnn_tensor *tensor) {
  int64_t last = 0;
  for (int i = 0; i < tensor->rank; i++) last += (tensor->dims[i] - 1) * tensor->strides[i];
  return (size_t)(last + 1) * vcuda_type_size(tensor->type);
}

const void *vcuda_dnn_read(const vcuda_dnn_tensor *tensor, const void *address) {
  return vcuda_reads(address, vcuda_dnn_bytes(tensor));
}

void *vcuda_dnn_write(const vcuda_dnn_tensor *tensor, void *address) {
  return vcuda_writes(address, vcuda_dnn_bytes(tensor));
}

int64_t vcuda_dnn_offset(const vcuda_dnn_tensor *tensor, int64_t index) {
  int64_t offset = 0;
  for (int i = tensor->rank - 1; i >= 0; i--) {
    offset += index % tensor->dims[i] * tensor->strides[i];
    index /= tensor->dims[i];
  }
  return offset;
}

double vcuda_dnn_factor(const vcuda_dnn_tensor *tensor, const void *number) {
  if (number == NULL) return 0;
  return vcuda_load_real(tensor->type == VCUDA_FLOAT64 ? VCUDA_FLOAT64 : VCUDA_FLOAT32, number, 0);
}

void vcuda_dnn_blend(const vcuda_dnn_tensor *tensor, void *data, int64_t offset, double alpha, double value, double beta) {
  double result = alpha * value;
  if (beta != 0) result += beta * vcuda_load_real(tensor->type, data, offset);
  vcuda_store_real(tensor->type, data, offset, result);
}
