/* cuDNN: softmax over each image, or across the channels at each position. */
#include <math.h>

#include "dnn_classic.h"

enum { SOFTMAX_FAST = 0, SOFTMAX_ACCURATE = 1, SOFTMAX_LOG = 2 };
enum { SOFTMAX_INSTANCE = 0, SOFTMAX_CHANNEL = 1 };

typedef struct job {
  int algorithm, mode;
  vcuda_dnn_tensor x, y;
  const void *x_address;
  void *y_address;
  double alpha, beta;
} job;

/* Elements that are normalised together, at a fixed distance in the order of vcuda_dnn_offset. */
typedef struct row {
  int64_t start, count, step;
} row;

static double element(const job *j, const void *x, const row *r, int64_t i) {
  return vcuda_load_real(j->x.type, x, vcuda_dnn_offset(&j->x, r->start + i * r->step));
}

static void softmax(const job *j, const row *r, const void *x, void *y) {
  double greatest = -INFINITY, sum = 0;
  for (int64_t i = 0; i < r->count; i++) greatest = fmax(greatest, element(j, x, r, i));
  if (j->algorithm == SOFTMAX_FAST) greatest = 0; /* it overflows, as on hardware */
  for (int64_t i = 0; i < r->count; i++) sum += exp(element(j, x, r, i) - greatest);
  for (int64_t i = 0; i < r->count; i++) {
    double value = element(j, x, r, i) - greatest;
    value = j->algorithm == SOFTMAX_LOG ? value - log(sum) : exp(value) / sum;
    vcuda_dnn_blend(&j->y, y, vcuda_dnn_offset(&j->y, r->start + i * r->step), j->alpha, value, j->beta);
  }
}

static void run(void *arguments) {
  const job *j = arguments;
  const void *x = vcuda_dnn_read(&j->x, j->x_address);
  void *y = x == NULL ? NULL : vcuda_dnn_write(&j->y, j->y_address);
  if (y == NULL) return;
  int64_t channels = j->x.dims[1], image = vcuda_dnn_count(&j->x) / j->x.dims[0], places = image / channels;
  for (int64_t n = 0; n < j->x.dims[0]; n++) {
    if (j->mode == SOFTMAX_INSTANCE) softmax(j, &(row){n * image, image, 1}, x, y);
    for (int64_t at = 0; j->mode == SOFTMAX_CHANNEL && at < places; at++) {
      softmax(j, &(row){n * image + at, channels, places}, x, y);
    }
  }
}

static int check(const char *name, const job *j) {
  if (j->algorithm < SOFTMAX_FAST || j->algorithm > SOFTMAX_LOG) {
    return vcuda_dnn_unknown("%s: algorithm %d is not known here", name, j->algorithm);
  }
  if (j->mode < SOFTMAX_INSTANCE || j->mode > SOFTMAX_CHANNEL) {
    return vcuda_dnn_unknown("%s: mode %d is not known here", name, j->mode);
  }
  if (j->x.rank < 2) return vcuda_dnn_bad("%s: x has %d dims; expected 2 or more", name, j->x.rank);
  return vcuda_dnn_check_alike(name, &j->x, &j->y);
}

int cudnnSoftmaxForward(vcuda_dnn *handle, int algorithm, int mode, const void *alpha, const vcuda_dnn_tensor *x,
                        const void *x_address, const void *beta, const vcuda_dnn_tensor *y, void *y_address) {
  VCUDA_DNN_OPEN(handle);
  if (x == NULL || y == NULL) return vcuda_close(&call, vcuda_dnn_bad("%s: a descriptor is NULL", __func__));
  const job j = {algorithm, mode, *x, *y, x_address, y_address, vcuda_dnn_factor(x, alpha), vcuda_dnn_factor(x, beta)};
  int status = check(__func__, &j);
  if (status == DNN_OK) status = vcuda_dnn_submit(handle, __func__, run, &j, sizeof j);
  return vcuda_close(&call, status);
}
