/* Convolutions by cuDNN's older calls: filter and convolution descriptors, the search for an algorithm, the convolution itself. */
#include "dnn_filter.h"

#include "dnn_convolution.h"

/* cudnnConvolutionFwdAlgo_t. All compute the same result. The first needs no workspace; the others store the filter in it. */
enum { ALGO_WITHOUT_WORKSPACE = 0, ALGO_USUAL = 1, ALGO_LAST = 7 };
enum { NCHW = 0, NHWC = 1, CROSS_CORRELATION = 1 };

struct vcuda_dnn_mover {
  vcuda_dnn_window window;
  vcuda_type compute;
  int groups; /* 0: not set; the default is 1 */
  int math;
};

/* The search blocks until the convolution that it has tried is complete. */
extern int cudaStreamSynchronize(void *stream);

/* ---- descriptors ---- */

VCUDA_DNN_DESCRIPTOR(Filter, vcuda_dnn_tensor)
VCUDA_DNN_DESCRIPTOR(Convolution, vcuda_dnn_mover)

int cudnnSetFilterNdDescriptor(vcuda_dnn_tensor *filter, int type, int format, int rank, const int dims[]) {
  VCUDA_DNN_BEGIN(NULL);
  if (format != NCHW && format != NHWC)
    return vcuda_close(&call, vcuda_dnn_unknown("%s: format %d is not known here", __func__, format));
  int status = vcuda_dnn_shape(__func__, filter, type, rank, dims);
  if (status == DNN_OK && format == NHWC && rank > 2) {
    int64_t stride = filter->dims[1];
    for (int i = rank - 1; i >= 2; i--) {
      filter->strides[i] = stride;
      stride *= filter->dims[i];
    }
    filter->strides[1] = 1;
  }
  return vcuda_close(&call, status);
}

int cudnnSetConvolutionNdDescriptor(vcuda_dnn_mover *mover, int spatial, const int pads[], const int strides[],
                                    const int dilations[], int mode, int type) {
  VCUDA_DNN_BEGIN(NULL);
  if (mover == NULL || pads == NULL || strides == NULL || dilations == NULL || spatial < 1 || spatial > DNN_MAX_SPATIAL) {
    return vcuda_close(&call, vcuda_dnn_bad("%s: %d spatial dims, or an argument is NULL", __func__, spatial));
  }
  vcuda_type compute = vcuda_dnn_type(type);
  if (mode != CROSS_CORRELATION || (compute != VCUDA_FLOAT32 && compute != VCUDA_FLOAT64)) {
    return vcuda_close(&call, vcuda_dnn_unknown("%s: mode %d, compute type %d: not known here", __func__, mode, type));
  }
  mover->compute = compute;
  mover->window.spatial = spatial;
  for (int i = 0; i < spatial; i++) {
    mover->window.before[i] = mover->window.after[i] = pads[i];
    mover->window.strides[i] = strides[i];
    mover->window.dilations[i] = dilations[i];
  }
  return vcuda_close(&call, DNN_OK);
}

int cudnnSetConvolutionGroupCount(vcuda_dnn_mover *mover, int groups) {
  VCUDA_DNN_BEGIN(NULL);
  if (mover == NULL || groups < 1) return vcuda_close(&call, vcuda_dnn_bad("%s: %d groups", __func__, groups));
  mover->groups = groups;
  return vcuda_close(&call, DNN_OK);
}

/* Whether products may use TF32 or half. It does not change vcuda's arithmetic. */
int cudnnSetConvolutionMathType(vcuda_dnn_mover *mover, int math) {
  VCUDA_DNN_BEGIN(NULL);
  if (mover == NULL || math < 0 || math > 3) return vcuda_close(&call, vcuda_dnn_bad("%s: math type %d", __func__, math));
  mover->math = math;
  return vcuda_close(&call, DNN_OK);
}

/* ---- algorithms ---- */

static int describe(const char *name, const vcuda_dnn_tensor *x, const vcuda_dnn_tensor *w, const vcuda_dnn_mover *mover,
                    const vcuda_dnn_tensor *y, vcuda_dnn_convolution *c) {
  if (x == NULL || w == NULL || mover == NULL || y == NULL) return vcuda_dnn_bad("%s: a descriptor is NULL", name);
  *c = (vcuda_dnn_convolution){.compute = mover->compute,
                               .window = mover->window,
                               .groups = mover->groups == 0 ? 1 : mover->groups,
                               .data = *x,
                               .filter = *w,
                               .result = *y,
                               .alpha = 1};
  return vcuda_dnn_check_convolution(name, c);
}

static int check_algorithm(const char *name, int algorithm) {
  if (algorithm >= 0 && algorithm <= ALGO_LAST) return DNN_OK;
  return vcuda_dnn_unknown("%s: algorithm %d is not known here", name, algorithm);
}

static size_t bytes_of(const vcuda_dnn_convolution *c, int algorithm) {
  return algorithm == ALGO_WITHOUT_WORKSPACE ? 0 : vcuda_dnn_workspace_bytes(c);
}

int cudnnGetConvolutionForwardWorkspaceSize(vcuda_dnn *handle, const vcuda_dnn_tensor *x, const vcuda_dnn_tensor *w,
                                            const vcuda_dnn_mover *mover, const vcuda_dnn_tensor *y, int algorithm,
                                            size_t *bytes) {
  VCUDA_DNN_OPEN(handle);
  vcuda_dnn_convolution c;
  int status = describe(__func__, x, w, mover, y, &c);
  if (status == DNN_OK) status = check_algorithm(__func__, algorithm);
  if (status != DNN_OK) return vcuda_close(&call, status);
  if (bytes == NULL) return vcuda_close(&call, vcuda_dnn_bad("%s: no room for the size", __func__));
  *bytes = bytes_of(&c, algorithm);
  return vcuda_close(&call, DNN_OK);
}

static void offer(const vcuda_dnn_convolution *c, const vcuda_dnn_mover *mover, int algorithm, int *count,
                  vcuda_dnn_found *found) {
  *found = (vcuda_dnn_found){
      .algorithm = algorithm, .time = 1, .memory = bytes_of(c, algorithm), .determinism = 1, .math = mover->math};
  *count = 1;
}

int cudnnGetConvolutionForwardAlgorithm_v7(vcuda_dnn *handle, const vcuda_dnn_tensor *x, const vcuda_dnn_tensor *w,
                                           const vcuda_dnn_mover *mover, const vcuda_dnn_tensor *y, int room, int *count,
                                           vcuda_dnn_found found[]) {
  VCUDA_DNN_OPEN(handle);
  vcuda_dnn_convolution c;
  if (room < 1 || count == NULL || found == NULL) {
    return vcuda_close(&call, vcuda_dnn_bad("%s: room for %d results", __func__, room));
  }
  int status = describe(__func__, x, w, mover, y, &c);
  if (status == DNN_OK) offer(&c, mover, ALGO_USUAL, count, found);
  return vcuda_close(&call, status);
}

typedef struct scratch {
  void *address;
  size_t bytes;
} scratch;

/* Give the convolution the workspace that its algorithm needs. */
static int take_workspace(const char *name, vcuda_dnn_convolution *c, int algorithm, scratch given) {
  int status = check_algorithm(name, algorithm);
  size_t needed = bytes_of(c, algorithm);
  if (status != DNN_OK) return status;
  if (needed > 0 && (given.address == NULL || given.bytes < needed)) {
    return vcuda_dnn_bad("%s: a workspace of %zu bytes; algorithm %d needs %zu", name, given.address == NULL ? 0 : given.bytes,
                         algorithm, needed);
  }
  c->workspace = needed > 0 ? given.address : NULL;
  return DNN_OK;
}

static void set_addresses(vcuda_dnn_convolution *c, const void *x, const void *w, void *y) {
  c->data_address = x;
  c->filter_address = w;
  c->result_address = y;
}

/* As on hardware, the search writes to y and to the workspace, and blocks. */
int cudnnFindConvolutionForwardAlgorithmEx(vcuda_dnn *handle, const vcuda_dnn_tensor *x, const void *x_data,
                                           const vcuda_dnn_tensor *w, const void *w_data, const vcuda_dnn_mover *mover,
                                           const vcuda_dnn_tensor *y, void *y_data, int room, int *count,
                                           vcuda_dnn_found found[], void *workspace, size_t bytes) {
  VCUDA_DNN_OPEN(handle);
  vcuda_dnn_convolution c;
  if (room < 1 || count == NULL || found == NULL) {
    return vcuda_close(&call, vcuda_dnn_bad("%s: room for %d results", __func__, room));
  }
  int status = describe(__func__, x, w, mover, y, &c);
  if (status != DNN_OK) return vcuda_close(&call, status);
  int algorithm = workspace != NULL && bytes >= bytes_of(&c, ALGO_USUAL) ? ALGO_USUAL : ALGO_WITHOUT_WORKSPACE;
  set_addresses(&c, x_data, w_data, y_data);
  status = take_workspace(__func__, &c, algorithm, (scratch){workspace, bytes});
  if (status == DNN_OK) status = vcuda_dnn_submit(handle, __func__, vcuda_dnn_run_convolution, &c, sizeof c);
  if (status == DNN_OK && cudaStreamSynchronize(handle->stream) != 0) status = DNN_EXECUTION_FAILED;
  if (status == DNN_OK) offer(&c, mover, algorithm, count, found);
  return vcuda_close(&call, status);
}

/* ---- convolutions ---- */

int cudnnConvolutionForward(vcuda_dnn *handle, const void *alpha, const vcuda_dnn_tensor *x, const void *x_data,
                            const vcuda_dnn_tensor *w, const void *w_data, const vcuda_dnn_mover *mover, int algorithm,
                            void *workspace, size_t bytes, const void *beta, const vcuda_dnn_tensor *y, void *y_data) {
  VCUDA_DNN_OPEN(handle);
  vcuda_dnn_convolution c;
  int status = describe(__func__, x, w, mover, y, &c);
  set_addresses(&c, x_data, w_data, y_data);
  if (status == DNN_OK) status = take_workspace(__func__, &c, algorithm, (scratch){workspace, bytes});
  if (status != DNN_OK) return vcuda_close(&call, status);
  c.alpha = vcuda_dnn_factor(y, alpha);
  c.beta = vcuda_dnn_factor(y, beta);
  return vcuda_close(&call, vcuda_dnn_submit(handle, __func__, vcuda_dnn_run_convolution, &c, sizeof c));
}

static void add_step(vcuda_dnn_convolution *c, double factor, const vcuda_dnn_tensor *operand, const void *address) {
  c->steps[c->step_count++] =
      (vcuda_dnn_step){.alpha = 1, .beta = factor, .operand = *operand, .address = address, .rounded = c->compute};
}

/* y = activation(alpha1 * convolution + alpha2 * z + bias). */
int cudnnConvolutionBiasActivationForward(vcuda_dnn *handle, const void *alpha1, const vcuda_dnn_tensor *x, const void *x_data,
                                          const vcuda_dnn_tensor *w, const void *w_data, const vcuda_dnn_mover *mover,
                                          int algorithm, void *workspace, size_t bytes, const void *alpha2,
                                          const vcuda_dnn_tensor *z, const void *z_data, const vcuda_dnn_tensor *bias,
                                          const void *bias_data, const vcuda_dnn_activation *activation,
                                          const vcuda_dnn_tensor *y, void *y_data) {
  VCUDA_DNN_OPEN(handle);
  vcuda_dnn_convolution c = {.alpha = 1};
  if (bias == NULL || activation == NULL) return vcuda_close(&call, vcuda_dnn_bad("%s: a descriptor is NULL", __func__));
  if (activation->mode != DNN_RELU && activation->mode != DNN_IDENTITY) {
    return vcuda_close(&call,
                       vcuda_dnn_unknown("%s: activation mode %d; expected RELU or IDENTITY", __func__, activation->mode));
  }
  int status = describe(__func__, x, w, mover, y, &c);
  set_addresses(&c, x_data, w_data, y_data);
  if (status == DNN_OK) status = take_workspace(__func__, &c, algorithm, (scratch){workspace, bytes});
  if (status != DNN_OK) return vcuda_close(&call, status);
  c.alpha = vcuda_dnn_factor(y, alpha1);
  double factor = vcuda_dnn_factor(y, alpha2);
  if (factor != 0 && z == NULL) return vcuda_close(&call, vcuda_dnn_bad("%s: alpha2 is %g, and z is NULL", __func__, factor));
  if (factor != 0) add_step(&c, factor, z, z_data);
  add_step(&c, 1, bias, bias_data);
  if (activation->mode == DNN_RELU) {
    c.steps[c.step_count++] = (vcuda_dnn_step){.rectifies = true, .keeps_nan = activation->keeps_nan, .rounded = c.compute};
  }
  status = vcuda_dnn_check_convolution(__func__, &c);
  if (status != DNN_OK) return vcuda_close(&call, status);
  return vcuda_close(&call, vcuda_dnn_submit(handle, __func__, vcuda_dnn_run_convolution, &c, sizeof c));
}
