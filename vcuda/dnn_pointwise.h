/* Elementwise operations. */
#ifndef VCUDA_DNN_POINTWISE_H
#define VCUDA_DNN_POINTWISE_H

#include "dnn.h"

enum { DNN_SIGMOID, DNN_RELU, DNN_TANH, DNN_CLIPPED, DNN_ELU, DNN_IDENTITY, DNN_SWISH }; /* cudnnActivationMode_t */

typedef struct vcuda_dnn_activation { /* cudnnActivationDescriptor_t */
  int mode;
  bool keeps_nan; /* otherwise a NaN becomes 0 where the activation has a lower bound */
  double coefficient;
} vcuda_dnn_activation;

VCUDA_DNN_DECLARE(Activation, vcuda_dnn_activation);
VCUDA_SHARED int cudnnSetActivationDescriptor(vcuda_dnn_activation *activation, int mode, int nan, double coefficient);
VCUDA_SHARED int cudnnActivationForward(vcuda_dnn *handle, const vcuda_dnn_activation *activation, const void *alpha,
                                        const vcuda_dnn_tensor *x, const void *x_data, const void *beta,
                                        const vcuda_dnn_tensor *y, void *y_data);
VCUDA_SHARED int cudnnAddTensor(vcuda_dnn *handle, const void *alpha, const vcuda_dnn_tensor *a, const void *a_data,
                                const void *beta, const vcuda_dnn_tensor *c, void *c_data);

double vcuda_dnn_activate(const vcuda_dnn_activation *activation, double x);

#endif
