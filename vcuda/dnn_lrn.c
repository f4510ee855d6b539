/* cuDNN: local response normalisation across channels. */
#include <math.h>

#include "dnn_classic.h"

enum { LRN_DIM1 = 0, LRN_WIDEST = 16 };

struct vcuda_dnn_lrn {
  int64_t width; /* in channels; 0: not set */
  double alpha, beta, k;
};

VCUDA_DNN_DESCRIPTOR(LRN, vcuda_dnn_lrn)

int cudnnSetLRNDescriptor(vcuda_dnn_lrn *lrn, unsigned width, double alpha, double beta, double k) {
  VCUDA_DNN_BEGIN(NULL);
  if (lrn == NULL) return vcuda_close(&call, vcuda_dnn_bad("%s: the descriptor is NULL", __func__));
  if (width < 1 || width > LRN_WIDEST || beta < 0.01 || k < 1e-5) {
    return vcuda_close(&call, vcuda_dnn_bad("%s: width %u, beta %g, k %g; expected 1 to %d, at least 0.01, at least 1e-5",
                                            __func__, width, beta, k, LRN_WIDEST));
  }
  *lrn = (vcuda_dnn_lrn){width, alpha, beta, k};
  return vcuda_close(&call, DNN_OK);
}

typedef struct job {
  vcuda_dnn_lrn lrn;
  vcuda_dnn_tensor x, y;
  const void *x_address;
  void *y_address;
  double alpha, beta;
} job;

/* The element of x over (k + alpha * the mean square around it) ^ beta. A window of even width has its longer half after the element. */
static double normalize(const job *j, const void *x, int64_t offset, int64_t channel) {
  int64_t from = channel - (j->lrn.width - 1) / 2, to = from + j->lrn.width, step = j->x.strides[1];
  double sum = 0;
  for (int64_t c = from < 0 ? 0 : from; c < to && c < j->x.dims[1]; c++) {
    double element = vcuda_load_real(j->x.type, x, offset + (c - channel) * step);
    sum += element * element;
  }
  double scale = j->lrn.k + j->lrn.alpha * sum / (double)j->lrn.width;
  return vcuda_load_real(j->x.type, x, offset) * pow(scale, -j->lrn.beta);
}

static void run(void *arguments) {
  const job *j = arguments;
  const void *x = vcuda_dnn_read(&j->x, j->x_address);
  void *y = x == NULL ? NULL : vcuda_dnn_write(&j->y, j->y_address);
  int64_t at[DNN_MAX_RANK] = {0}, count = vcuda_dnn_count(&j->y);
  for (int64_t i = 0; y != NULL && i < count; i++) {
    double value = normalize(j, x, vcuda_dnn_offset(&j->x, i), at[1]);
    vcuda_dnn_blend(&j->y, y, vcuda_dnn_offset(&j->y, i), j->alpha, value, j->beta);
    vcuda_dnn_advance(at, j->y.dims, j->y.rank);
  }
}

static int check(const char *name, const job *j, int mode) {
  if (mode != LRN_DIM1) return vcuda_dnn_unknown("%s: mode %d is not known here", name, mode);
  if (j->lrn.width == 0) return vcuda_dnn_bad("%s: the LRN descriptor is not set", name);
  if (j->x.rank < 3) return vcuda_dnn_bad("%s: x has %d dims; expected 3 or more", name, j->x.rank);
  if (j->x_address == j->y_address) return vcuda_dnn_bad("%s: y is x; expected other memory", name);
  return vcuda_dnn_check_alike(name, &j->x, &j->y);
}

int cudnnLRNCrossChannelForward(vcuda_dnn *handle, const vcuda_dnn_lrn *lrn, int mode, const void *alpha,
                                const vcuda_dnn_tensor *x, const void *x_address, const void *beta, const vcuda_dnn_tensor *y,
                                void *y_address) {
  VCUDA_DNN_OPEN(handle);
  if (lrn == NULL || x == NULL || y == NULL) {
    return vcuda_close(&call, vcuda_dnn_bad("%s: a descriptor is NULL", __func__));
  }
  const job j = {*lrn, *x, *y, x_address, y_address, vcuda_dnn_factor(x, alpha), vcuda_dnn_factor(x, beta)};
  int status = check(__func__, &j, mode);
  if (status == DNN_OK) status = vcuda_dnn_submit(handle, __func__, run, &j, sizeof j);
  return vcuda_close(&call, status);
}
