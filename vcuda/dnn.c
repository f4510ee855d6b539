/* libcudnn.so.9: handles, and the code that all kinds of descriptors share. */
#include "dnn.h"

#include <stdlib.h>

size_t cudnnGetVersion(void) {
  vcuda_note(__func__, NULL);
  return (size_t)vcuda_cudnn_version();
}

/* ---- handles ---- */

int cudnnCreate(vcuda_dnn **handle) {
  VCUDA_DNN_BEGIN(NULL);
  if (vcuda_refuses(&call) != 0) return vcuda_close(&call, DNN_EXECUTION_FAILED);
  if (handle == NULL) return vcuda_close(&call, vcuda_dnn_bad("%s: no room for the handle", __func__));
  *handle = calloc(1, sizeof **handle);
  if (*handle != NULL) (*handle)->device = vcuda_current_device();
  return vcuda_close(&call, *handle == NULL ? DNN_NO_MEMORY : DNN_OK);
}

int cudnnDestroy(vcuda_dnn *handle) {
  VCUDA_OPEN(handle == NULL ? NULL : handle->stream);
  if (vcuda_refuses(&call) != 0) return vcuda_close(&call, DNN_EXECUTION_FAILED);
  if (handle == NULL) return vcuda_close(&call, vcuda_dnn_bad("%s: the handle is NULL", __func__));
  free(handle);
  return vcuda_close(&call, DNN_OK);
}

int cudnnSetStream(vcuda_dnn *handle, void *stream) {
  VCUDA_DNN_BEGIN(stream);
  if (vcuda_refuses(&call) != 0) return vcuda_close(&call, DNN_EXECUTION_FAILED);
  if (handle == NULL) return vcuda_close(&call, vcuda_dnn_bad("%s: the handle is NULL", __func__));
  handle->stream = stream;
  return vcuda_close(&call, DNN_OK);
}

int cudnnGetStream(vcuda_dnn *handle, void **stream) {
  VCUDA_DNN_OPEN(handle);
  if (stream == NULL) return vcuda_close(&call, vcuda_dnn_bad("%s: no room for the stream", __func__));
  *stream = handle->stream;
  return vcuda_close(&call, DNN_OK);
}

int vcuda_dnn_submit(const vcuda_dnn *handle, const char *name, void (*run)(void *arguments), const void *arguments,
                     size_t bytes) {
  int current = vcuda_current_device();
  if (current != handle->device) {
    vcuda_log("%s: a handle of device %d, and device %d is current", name, handle->device, current);
    return DNN_EXECUTION_FAILED;
  }
  return vcuda_submit(handle->stream, name, run, arguments, bytes) == 0 ? DNN_OK : DNN_EXECUTION_FAILED;
}

/* ---- descriptors ---- */

int vcuda_dnn_make(const char *name, void **object, size_t bytes) {
  vcuda_call call;
  vcuda_open(&call, name, NULL);
  if (vcuda_fails(name)) return vcuda_close(&call, DNN_EXECUTION_FAILED);
  if (object == NULL) return vcuda_close(&call, vcuda_dnn_bad("%s: no room for the descriptor", name));
  *object = calloc(1, bytes);
  return vcuda_close(&call, *object == NULL ? DNN_NO_MEMORY : DNN_OK);
}

int vcuda_dnn_free(const char *name, void *object) {
  vcuda_call call;
  vcuda_open(&call, name, NULL);
  free(object);
  return vcuda_close(&call, DNN_OK);
}
