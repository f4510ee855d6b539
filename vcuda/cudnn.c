/* libcudnn.so.9, for releases of ORT whose EP needs it when it is loaded: a handle can be made, and nothing can be computed. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "work.h"

#define CUDNN_API __attribute__((visibility("default")))

enum { CUDNN_OK = 0, CUDNN_NOT_INITIALIZED = 1001, CUDNN_INVALID_VALUE = 2000, CUDNN_NOT_SUPPORTED = 3000 };
enum { CUDNN_VERSION = 90000 }; /* 9.0.0 */

typedef struct vcuda_dnn {
  void *stream;
} vcuda_dnn;

CUDNN_API size_t cudnnGetVersion(void);
CUDNN_API const char *cudnnGetErrorString(int status);
CUDNN_API void cudnnGetLastErrorString(char *text, size_t bytes);
CUDNN_API int cudnnCreate(vcuda_dnn **handle);
CUDNN_API int cudnnDestroy(vcuda_dnn *handle);
CUDNN_API int cudnnSetStream(vcuda_dnn *handle, void *stream);
CUDNN_API int cudnnGetStream(vcuda_dnn *handle, void **stream);

size_t cudnnGetVersion(void) {
  vcuda_note(__func__, NULL);
  return CUDNN_VERSION;
}

const char *cudnnGetErrorString(int status) {
  vcuda_note(__func__, NULL);
  switch (status) {
    case CUDNN_OK: return "CUDNN_STATUS_SUCCESS";
    case CUDNN_NOT_INITIALIZED: return "CUDNN_STATUS_NOT_INITIALIZED";
    case CUDNN_INVALID_VALUE: return "CUDNN_STATUS_BAD_PARAM";
    case CUDNN_NOT_SUPPORTED: return "CUDNN_STATUS_NOT_SUPPORTED";
    default: return "CUDNN_UNKNOWN_STATUS";
  }
}

void cudnnGetLastErrorString(char *text, size_t bytes) {
  vcuda_note(__func__, NULL);
  snprintf(text, bytes, "vcuda's cuDNN computes nothing");
}

int cudnnCreate(vcuda_dnn **handle) {
  VCUDA_OPEN(NULL);
  int error = vcuda_refuses(&call);
  if (handle == NULL) return vcuda_close(&call, CUDNN_INVALID_VALUE);
  *handle = error == 0 ? calloc(1, sizeof **handle) : NULL;
  return vcuda_close(&call, *handle == NULL ? CUDNN_NOT_INITIALIZED : CUDNN_OK);
}

int cudnnDestroy(vcuda_dnn *handle) {
  VCUDA_OPEN(NULL);
  (void)vcuda_refuses(&call);
  free(handle);
  return vcuda_close(&call, CUDNN_OK);
}

int cudnnSetStream(vcuda_dnn *handle, void *stream) {
  VCUDA_OPEN(stream);
  int error = vcuda_refuses(&call);
  if (handle == NULL) return vcuda_close(&call, CUDNN_INVALID_VALUE);
  handle->stream = stream;
  return vcuda_close(&call, error == 0 ? CUDNN_OK : CUDNN_NOT_SUPPORTED);
}

int cudnnGetStream(vcuda_dnn *handle, void **stream) {
  VCUDA_OPEN(handle == NULL ? NULL : handle->stream);
  if (handle == NULL || stream == NULL) return vcuda_close(&call, CUDNN_INVALID_VALUE);
  *stream = handle->stream;
  return vcuda_close(&call, CUDNN_OK);
}

/* The rest, whose arguments do not matter: each is refused, and the trace has its name and status. */
/* clang-format off */
#define REFUSED(X) \
  X(cudnnActivationForward) X(cudnnAddTensor) X(cudnnBackendCreateDescriptor) X(cudnnBackendDestroyDescriptor)      \
  X(cudnnBackendExecute) X(cudnnBackendFinalize) X(cudnnBackendGetAttribute) X(cudnnBackendSetAttribute)            \
  X(cudnnBatchNormalizationForwardInference) X(cudnnBatchNormalizationForwardTraining)                              \
  X(cudnnConvolutionBiasActivationForward) X(cudnnConvolutionForward) X(cudnnCreateActivationDescriptor)            \
  X(cudnnCreateConvolutionDescriptor) X(cudnnCreateDropoutDescriptor) X(cudnnCreateFilterDescriptor)                \
  X(cudnnCreateLRNDescriptor) X(cudnnCreatePoolingDescriptor) X(cudnnCreateRNNDataDescriptor)                       \
  X(cudnnCreateRNNDescriptor) X(cudnnCreateReduceTensorDescriptor) X(cudnnCreateTensorDescriptor)                   \
  X(cudnnDeriveBNTensorDescriptor) X(cudnnDestroyActivationDescriptor) X(cudnnDestroyConvolutionDescriptor)         \
  X(cudnnDestroyDropoutDescriptor) X(cudnnDestroyFilterDescriptor) X(cudnnDestroyLRNDescriptor)                     \
  X(cudnnDestroyPoolingDescriptor) X(cudnnDestroyRNNDataDescriptor) X(cudnnDestroyRNNDescriptor)                    \
  X(cudnnDestroyReduceTensorDescriptor) X(cudnnDestroyTensorDescriptor) X(cudnnDropoutGetStatesSize)                \
  X(cudnnFindConvolutionForwardAlgorithmEx) X(cudnnGetConvolutionForwardAlgorithm_v7)                               \
  X(cudnnGetConvolutionForwardWorkspaceSize) X(cudnnGetRNNTempSpaceSizes) X(cudnnGetRNNWeightParams)                \
  X(cudnnGetReductionIndicesSize) X(cudnnGetReductionWorkspaceSize) X(cudnnGetTensorNdDescriptor)                   \
  X(cudnnLRNCrossChannelForward) X(cudnnPoolingForward) X(cudnnRNNForward) X(cudnnReduceTensor)                     \
  X(cudnnSetActivationDescriptor) X(cudnnSetConvolutionGroupCount) X(cudnnSetConvolutionMathType)                   \
  X(cudnnSetConvolutionNdDescriptor) X(cudnnSetDropoutDescriptor) X(cudnnSetFilterNdDescriptor)                     \
  X(cudnnSetLRNDescriptor) X(cudnnSetPoolingNdDescriptor) X(cudnnSetRNNDataDescriptor)                              \
  X(cudnnSetRNNDescriptor_v8) X(cudnnSetReduceTensorDescriptor) X(cudnnSetTensorNdDescriptor)                       \
  X(cudnnSoftmaxForward)
/* clang-format on */

#define REFUSE(name)                                \
  CUDNN_API int name(void);                         \
  int name(void) {                                  \
    VCUDA_OPEN(NULL);                               \
    (void)vcuda_refuses(&call);                     \
    return vcuda_close(&call, CUDNN_NOT_SUPPORTED); \
  }
REFUSED(REFUSE)
