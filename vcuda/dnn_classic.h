/* cuDNN's older interface without convolutions: the functions that ORT's CUDA EP calls, and declarations that their sources share. */
#ifndef VCUDA_DNN_CLASSIC_H
#define VCUDA_DNN_CLASSIC_H

#include "dnn.h"

/* ---- dnn_common.c ---- */

/* Advance to the next index of these dims, the last dim innermost. The first index follows the last one. */
void vcuda_dnn_advance(int64_t *index, const int64_t *dims, int rank);

/* Check that both tensors have the same float type. DNN_OK, or the status that the call returns. */
int vcuda_dnn_check_floats(const char *name, const vcuda_dnn_tensor *x, const vcuda_dnn_tensor *y);
/* Check that they also have the same dims. */
int vcuda_dnn_check_alike(const char *name, const vcuda_dnn_tensor *x, const vcuda_dnn_tensor *y);

/* Like vcuda_dnn_read and _write, for optional memory: without it *data is NULL. False: the memory is given, but not accessible. */
bool vcuda_dnn_read_given(const vcuda_dnn_tensor *tensor, const void *address, const void **data);
bool vcuda_dnn_write_given(const vcuda_dnn_tensor *tensor, void *address, void **data);

/* ---- dnn_pool.c ---- */

typedef struct vcuda_dnn_pooling vcuda_dnn_pooling; /* cudnnPoolingDescriptor_t */

VCUDA_DNN_DECLARE(Pooling, vcuda_dnn_pooling);
VCUDA_SHARED int cudnnSetPoolingNdDescriptor(vcuda_dnn_pooling *pooling, int mode, int nan, int rank, const int window[],
                                             const int padding[], const int stride[]);
VCUDA_SHARED int cudnnPoolingForward(vcuda_dnn *handle, const vcuda_dnn_pooling *pooling, const void *alpha,
                                     const vcuda_dnn_tensor *x, const void *x_address, const void *beta,
                                     const vcuda_dnn_tensor *y, void *y_address);

/* ---- dnn_normalize.c ---- */

VCUDA_SHARED int cudnnDeriveBNTensorDescriptor(vcuda_dnn_tensor *derived, const vcuda_dnn_tensor *x, int mode);
VCUDA_SHARED int cudnnBatchNormalizationForwardInference(vcuda_dnn *handle, int mode, const void *alpha, const void *beta,
                                                         const vcuda_dnn_tensor *x, const void *x_address,
                                                         const vcuda_dnn_tensor *y, void *y_address,
                                                         const vcuda_dnn_tensor *parameters, const void *scale,
                                                         const void *bias, const void *mean, const void *variance,
                                                         double epsilon);
VCUDA_SHARED int cudnnBatchNormalizationForwardTraining(vcuda_dnn *handle, int mode, const void *alpha, const void *beta,
                                                        const vcuda_dnn_tensor *x, const void *x_address,
                                                        const vcuda_dnn_tensor *y, void *y_address,
                                                        const vcuda_dnn_tensor *parameters, const void *scale, const void *bias,
                                                        double factor, void *running_mean, void *running_variance,
                                                        double epsilon, void *saved_mean, void *saved_deviation);

/* ---- dnn_lrn.c ---- */

typedef struct vcuda_dnn_lrn vcuda_dnn_lrn; /* cudnnLRNDescriptor_t */

VCUDA_DNN_DECLARE(LRN, vcuda_dnn_lrn);
VCUDA_SHARED int cudnnSetLRNDescriptor(vcuda_dnn_lrn *lrn, unsigned width, double alpha, double beta, double k);
VCUDA_SHARED int cudnnLRNCrossChannelForward(vcuda_dnn *handle, const vcuda_dnn_lrn *lrn, int mode, const void *alpha,
                                             const vcuda_dnn_tensor *x, const void *x_address, const void *beta,
                                             const vcuda_dnn_tensor *y, void *y_address);

/* ---- dnn_softmax.c ---- */

VCUDA_SHARED int cudnnSoftmaxForward(vcuda_dnn *handle, int algorithm, int mode, const void *alpha, const vcuda_dnn_tensor *x,
                                     const void *x_address, const void *beta, const vcuda_dnn_tensor *y, void *y_address);

/* ---- dnn_reduce.c ---- */

typedef struct vcuda_dnn_reduction vcuda_dnn_reduction; /* cudnnReduceTensorDescriptor_t */

VCUDA_DNN_DECLARE(ReduceTensor, vcuda_dnn_reduction);
VCUDA_SHARED int cudnnSetReduceTensorDescriptor(vcuda_dnn_reduction *reduction, int operation, int type, int nan, int indices,
                                                int index_type);
VCUDA_SHARED int cudnnGetReductionIndicesSize(vcuda_dnn *handle, const vcuda_dnn_reduction *reduction,
                                              const vcuda_dnn_tensor *a, const vcuda_dnn_tensor *c, size_t *bytes);
VCUDA_SHARED int cudnnGetReductionWorkspaceSize(vcuda_dnn *handle, const vcuda_dnn_reduction *reduction,
                                                const vcuda_dnn_tensor *a, const vcuda_dnn_tensor *c, size_t *bytes);
VCUDA_SHARED int cudnnReduceTensor(vcuda_dnn *handle, const vcuda_dnn_reduction *reduction, void *indices, size_t indices_bytes,
                                   void *workspace, size_t workspace_bytes, const void *alpha, const vcuda_dnn_tensor *a,
                                   const void *a_address, const void *beta, const vcuda_dnn_tensor *c, void *c_address);

/* ---- dnn_dropout.c ---- */

typedef struct vcuda_dnn_dropout vcuda_dnn_dropout; /* cudnnDropoutDescriptor_t */

VCUDA_DNN_DECLARE(Dropout, vcuda_dnn_dropout);
VCUDA_SHARED int cudnnDropoutGetStatesSize(vcuda_dnn *handle, size_t *bytes);
VCUDA_SHARED int cudnnSetDropoutDescriptor(vcuda_dnn_dropout *dropout, vcuda_dnn *handle, float rate, void *states,
                                           size_t bytes, unsigned long long seed);
double vcuda_dnn_dropout_rate(const vcuda_dnn_dropout *dropout);

/* ---- dnn_rnn.c ---- */

typedef struct vcuda_dnn_rnn vcuda_dnn_rnn;           /* cudnnRNNDescriptor_t */
typedef struct vcuda_dnn_rnn_data vcuda_dnn_rnn_data; /* cudnnRNNDataDescriptor_t */

VCUDA_DNN_DECLARE(RNN, vcuda_dnn_rnn);
VCUDA_DNN_DECLARE(RNNData, vcuda_dnn_rnn_data);
VCUDA_SHARED int cudnnSetRNNDescriptor_v8(vcuda_dnn_rnn *rnn, int algorithm, int cell, int bias, int direction, int input_mode,
                                          int type, int precision, int math, int input_size, int hidden_size,
                                          int projection_size, int layers, vcuda_dnn_dropout *dropout, unsigned flags);
VCUDA_SHARED int cudnnSetRNNDataDescriptor(vcuda_dnn_rnn_data *data, int type, int layout, int steps, int batch, int size,
                                           const int lengths[], const void *filling);
VCUDA_SHARED int cudnnGetRNNTempSpaceSizes(vcuda_dnn *handle, const vcuda_dnn_rnn *rnn, int mode, const vcuda_dnn_rnn_data *x,
                                           size_t *workspace_bytes, size_t *reserve_bytes);
VCUDA_SHARED int cudnnGetRNNWeightParams(vcuda_dnn *handle, const vcuda_dnn_rnn *rnn, int layer, size_t bytes,
                                         const void *weights, int part, vcuda_dnn_tensor *matrix, void **matrix_address,
                                         vcuda_dnn_tensor *bias, void **bias_address);
VCUDA_SHARED int cudnnRNNForward(vcuda_dnn *handle, const vcuda_dnn_rnn *rnn, int mode, const int32_t lengths[],
                                 const vcuda_dnn_rnn_data *x, const void *x_address, const vcuda_dnn_rnn_data *y,
                                 void *y_address, const vcuda_dnn_tensor *h, const void *hx, void *hy,
                                 const vcuda_dnn_tensor *c, const void *cx, void *cy, size_t weight_bytes, const void *weights,
                                 size_t workspace_bytes, void *workspace, size_t reserve_bytes, void *reserve);

#endif
