/* Elementwise operations: the addition of a broadcast tensor, and activations. */
#include "dnn_pointwise.h"

#include <math.h>

VCUDA_DNN_DESCRIPTOR(Activation, vcuda_dnn_activation)

int cudnnSetActivationDescriptor(vcuda_dnn_activation *activation, int mode, int nan, double coefficient) {
  VCUDA_DNN_BEGIN(NULL);
  if (activation == NULL) return vcuda_close(&call, vcuda_dnn_bad("%s: the descriptor is NULL", __func__));
  if (mode < DNN_SIGMOID || mode > DNN_SWISH)
    return vcuda_close(&call, vcuda_dnn_unknown("%s: mode %d is not known here", __func__, mode));
  *activation = (vcuda_dnn_activation){.mode = mode, .keeps_nan = nan != 0, .coefficient = coefficient};
  return vcuda_close(&call, DNN_OK);
}

double vcuda_dnn_activate(const vcuda_dnn_activation *activation, double x) {
  if (isnan(x) && !activation->keeps_nan && (activation->mode == DNN_RELU || activation->mode == DNN_CLIPPED)) return 0;
  switch (activation->mode) {
    case DNN_SIGMOID: return 1 / (1 + exp(-x));
    case DNN_RELU: return x < 0 ? 0 : x;
    case DNN_TANH: return tanh(x);
    case DNN_CLIPPED: return x < 0 ? 0 : x > activation->coefficient ? activation->coefficient : x;
    case DNN_ELU: return x < 0 ? activation->coefficient * expm1(x) : x;
    case DNN_SWISH: return x / (1 + exp(-activation->coefficient * x));
    default: return x;
  }
}

/* to = alpha * from + beta * to, or with the activation of `from`. */
typedef struct pointwise {
  vcuda_dnn_tensor from, to;
  const void *source;
  void *target;
  double alpha, beta;
  vcuda_dnn_activation activation; /* DNN_IDENTITY: none */
} pointwise;

/* A fast path for floats, such as the bias of a convolution. */
static void add_floats(const pointwise *p, const float *from, int64_t step, float *to, int64_t stride) {
  for (int64_t i = 0; i < p->to.dims[p->to.rank - 1]; i++) {
    double result = p->alpha * (double)from[i * step];
    to[i * stride] = (float)(p->beta == 0 ? result : result + p->beta * (double)to[i * stride]);
  }
}

/* All elements of a line of the last dimension. */
static void run_line(const pointwise *p, const void *source, int64_t from, int64_t step, void *target, int64_t to) {
  int64_t stride = p->to.strides[p->to.rank - 1];
  if (p->activation.mode == DNN_IDENTITY && p->from.type == VCUDA_FLOAT32 && p->to.type == VCUDA_FLOAT32) {
    add_floats(p, (const float *)source + from, step, (float *)target + to, stride);
    return;
  }
  for (int64_t i = 0; i < p->to.dims[p->to.rank - 1]; i++) {
    double value = vcuda_dnn_activate(&p->activation, vcuda_load_real(p->from.type, source, from + i * step));
    vcuda_dnn_blend(&p->to, target, to + i * stride, p->alpha, value, p->beta);
  }
}

static void run(void *arguments) {
  const pointwise *p = arguments;
  vcuda_dnn_tensor repeated = p->from;
  const void *source = vcuda_dnn_read(&p->from, p->source);
  if (source == NULL || (p->beta != 0 && vcuda_dnn_read(&p->to, p->target) == NULL)) return;
  void *target = vcuda_dnn_write(&p->to, p->target);
  for (int i = 0; i < p->to.rank; i++) {
    if (p->from.dims[i] == 1) repeated.strides[i] = 0;
    repeated.dims[i] = p->to.dims[i];
  }
  int64_t count = vcuda_dnn_count(&p->to), length = p->to.dims[p->to.rank - 1];
  for (int64_t i = 0; target != NULL && i < count; i += length) {
    run_line(p, source, vcuda_dnn_offset(&repeated, i), repeated.strides[p->to.rank - 1], target, vcuda_dnn_offset(&p->to, i));
  }
}

static int submit(const vcuda_dnn *handle, const char *name, const pointwise *p, bool repeats) {
  bool fits = p->from.type != VCUDA_NO_TYPE && p->to.type != VCUDA_NO_TYPE && p->from.rank == p->to.rank;
  for (int i = 0; fits && i < p->to.rank; i++) fits = p->from.dims[i] == p->to.dims[i] || (repeats && p->from.dims[i] == 1);
  if (!fits) return vcuda_dnn_bad("%s: the shape of what is read does not fit what is written", name);
  return vcuda_dnn_submit(handle, name, run, p, sizeof *p);
}

int cudnnAddTensor(vcuda_dnn *handle, const void *alpha, const vcuda_dnn_tensor *a, const void *a_data, const void *beta,
                   const vcuda_dnn_tensor *c, void *c_data) {
  VCUDA_DNN_OPEN(handle);
  if (a == NULL || c == NULL) return vcuda_close(&call, vcuda_dnn_bad("%s: a descriptor is NULL", __func__));
  const pointwise p = {.from = *a,
                       .to = *c,
                       .source = a_data,
                       .target = c_data,
                       .alpha = vcuda_dnn_factor(c, alpha),
                       .beta = vcuda_dnn_factor(c, beta),
                       .activation.mode = DNN_IDENTITY};
  return vcuda_close(&call, submit(handle, __func__, &p, true));
}

int cudnnActivationForward(vcuda_dnn *handle, const vcuda_dnn_activation *activation, const void *alpha,
                           const vcuda_dnn_tensor *x, const void *x_data, const void *beta, const vcuda_dnn_tensor *y,
                           void *y_data) {
  VCUDA_DNN_OPEN(handle);
  if (activation == NULL || x == NULL || y == NULL)
    return vcuda_close(&call, vcuda_dnn_bad("%s: a descriptor is NULL", __func__));
  const pointwise p = {.from = *x,
                       .to = *y,
                       .source = x_data,
                       .target = y_data,
                       .alpha = vcuda_dnn_factor(y, alpha),
                       .beta = vcuda_dnn_factor(y, beta),
                       .activation = *activation};
  return vcuda_close(&call, submit(handle, __func__, &p, false));
}
