/* Convolutions by cuDNN's older calls. */
#ifndef VCUDA_DNN_FILTER_H
#define VCUDA_DNN_FILTER_H

#include "dnn.h"
#include "dnn_pointwise.h"

typedef struct vcuda_dnn_mover vcuda_dnn_mover; /* cudnnConvolutionDescriptor_t; a cudnnFilterDescriptor_t is a tensor */

typedef struct vcuda_dnn_found { /* cudnnConvolutionFwdAlgoPerf_t */
  int algorithm, status;
  float time;
  size_t memory;
  int determinism, math, reserved[3];
} vcuda_dnn_found;

VCUDA_DNN_DECLARE(Filter, vcuda_dnn_tensor);
VCUDA_DNN_DECLARE(Convolution, vcuda_dnn_mover);
VCUDA_SHARED int cudnnSetFilterNdDescriptor(vcuda_dnn_tensor *filter, int type, int format, int rank, const int dims[]);
VCUDA_SHARED int cudnnSetConvolutionNdDescriptor(vcuda_dnn_mover *mover, int spatial, const int pads[], const int strides[],
                                                 const int dilations[], int mode, int type);
VCUDA_SHARED int cudnnSetConvolutionGroupCount(vcuda_dnn_mover *mover, int groups);
VCUDA_SHARED int cudnnSetConvolutionMathType(vcuda_dnn_mover *mover, int math);
VCUDA_SHARED int cudnnGetConvolutionForwardWorkspaceSize(vcuda_dnn *handle, const vcuda_dnn_tensor *x,
                                                         const vcuda_dnn_tensor *w, const vcuda_dnn_mover *mover,
                                                         const vcuda_dnn_tensor *y, int algorithm, size_t *bytes);
VCUDA_SHARED int cudnnGetConvolutionForwardAlgorithm_v7(vcuda_dnn *handle, const vcuda_dnn_tensor *x, const vcuda_dnn_tensor *w,
                                                        const vcuda_dnn_mover *mover, const vcuda_dnn_tensor *y, int room,
                                                        int *count, vcuda_dnn_found found[]);
VCUDA_SHARED int cudnnFindConvolutionForwardAlgorithmEx(vcuda_dnn *handle, const vcuda_dnn_tensor *x, const void *x_data,
                                                        const vcuda_dnn_tensor *w, const void *w_data,
                                                        const vcuda_dnn_mover *mover, const vcuda_dnn_tensor *y, void *y_data,
                                                        int room, int *count, vcuda_dnn_found found[], void *workspace,
                                                        size_t bytes);
VCUDA_SHARED int cudnnConvolutionForward(vcuda_dnn *handle, const void *alpha, const vcuda_dnn_tensor *x, const void *x_data,
                                         const vcuda_dnn_tensor *w, const void *w_data, const vcuda_dnn_mover *mover,
                                         int algorithm, void *workspace, size_t bytes, const void *beta,
                                         const vcuda_dnn_tensor *y, void *y_data);
VCUDA_SHARED int cudnnConvolutionBiasActivationForward(vcuda_dnn *handle, const void *alpha1, const vcuda_dnn_tensor *x,
                                                       const void *x_data, const vcuda_dnn_tensor *w, const void *w_data,
                                                       const vcuda_dnn_mover *mover, int algorithm, void *workspace,
                                                       size_t bytes, const void *alpha2, const vcuda_dnn_tensor *z,
                                                       const void *z_data, const vcuda_dnn_tensor *bias, const void *bias_data,
                                                       const vcuda_dnn_activation *activation, const vcuda_dnn_tensor *y,
                                                       void *y_data);

#endif
