/* Convolutions: one description for all of cuDNN's calls, and the function that computes it. */
#ifndef VCUDA_DNN_CONVOLUTION_H
#define VCUDA_DNN_CONVOLUTION_H

#include "dnn.h"

enum { DNN_MAX_SPATIAL = 6, DNN_MAX_STEPS = 4 };

/* How the filter moves along each spatial dimension. */
typedef struct vcuda_dnn_window {
  int spatial;
  int64_t before[DNN_MAX_SPATIAL], after[DNN_MAX_SPATIAL]; /* padding */
  int64_t strides[DNN_MAX_SPATIAL], dilations[DNN_MAX_SPATIAL];
} vcuda_dnn_window;

/* An operation on the convolution's value v: v = alpha * v + beta * operand, or v = max(v, 0). */
typedef struct vcuda_dnn_step {
  bool rectifies, keeps_nan;
  double alpha, beta;
  vcuda_dnn_tensor operand; /* each dim is the result's or 1 */
  const void *address;
  vcuda_type rounded; /* the type of the tensor between this step and the preceding one */
} vcuda_dnn_step;

/* Forward: `data` is x and `result` is y. Backward (the gradient of the data): `data` is dy and `result` is dx. Dims of tensors are batch,
 * channels, spatial dims; the filter's batch is y's channels. The order in memory depends on the strides. */
typedef struct vcuda_dnn_convolution {
  bool backward;
  vcuda_type compute; /* VCUDA_FLOAT32 or _FLOAT64 */
  vcuda_dnn_window window;
  int64_t groups;
  vcuda_dnn_tensor data, filter, result;
  const void *data_address, *filter_address;
  void *result_address;
  double alpha, beta; /* result = steps(alpha * convolution) + beta * result */
  int step_count;
  vcuda_dnn_step steps[DNN_MAX_STEPS];
  void *workspace; /* NULL: none */
} vcuda_dnn_convolution;

/* Check that shapes and types fit together. On failure it logs a line and returns the status. `name` is that of the calling function. */
int vcuda_dnn_check_convolution(const char *name, const vcuda_dnn_convolution *c);

/* The workspace holds the filter in the compute type. */
size_t vcuda_dnn_workspace_bytes(const vcuda_dnn_convolution *c);

/* For vcuda_dnn_submit; the argument is a vcuda_dnn_convolution. */
void vcuda_dnn_run_convolution(void *convolution);

#endif
