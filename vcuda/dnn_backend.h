/* cuDNN's graph interface. Kinds, names and types of attributes are cuDNN's numbers, which dnn_descriptor.h lists. */
#ifndef VCUDA_DNN_BACKEND_H
#define VCUDA_DNN_BACKEND_H

#include "dnn.h"

typedef struct vcuda_dnn_backend vcuda_dnn_backend; /* cudnnBackendDescriptor_t */

VCUDA_SHARED int cudnnBackendCreateDescriptor(int kind, vcuda_dnn_backend **object);
VCUDA_SHARED int cudnnBackendDestroyDescriptor(vcuda_dnn_backend *object);
VCUDA_SHARED int cudnnBackendSetAttribute(vcuda_dnn_backend *object, int name, int type, int64_t count, const void *values);
VCUDA_SHARED int cudnnBackendGetAttribute(const vcuda_dnn_backend *object, int name, int type, int64_t room, int64_t *count,
                                          void *values);
VCUDA_SHARED int cudnnBackendFinalize(vcuda_dnn_backend *object);
VCUDA_SHARED int cudnnBackendExecute(vcuda_dnn *handle, const vcuda_dnn_backend *plan, const vcuda_dnn_backend *pack);

#endif
