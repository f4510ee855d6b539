/* libcudnn.so.9: handles, statuses, and what descriptors of all kinds share. */
#include "dnn.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* The last version before the EP computes attention with cuDNN. */
enum { DNN_VERSION = 90200 };

static _Thread_local char last_text[256];

size_t cudnnGetVersion(void) {
  vcuda_note(__func__, NULL);
  return DNN_VERSION;
}

const char *cudnnGetErrorString(int status) {
  vcuda_note(__func__, NULL);
  switch (status) {
    case DNN_OK: return "CUDNN_STATUS_SUCCESS";
    case DNN_NOT_INITIALIZED: return "CUDNN_STATUS_NOT_INITIALIZED";
    case DNN_BAD_PARAM: return "CUDNN_STATUS_BAD_PARAM";
    case DNN_NOT_SUPPORTED: return "CUDNN_STATUS_NOT_SUPPORTED";
    case DNN_NO_MEMORY: return "CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED";
    case DNN_EXECUTION_FAILED: return "CUDNN_STATUS_EXECUTION_FAILED";
    default: return "CUDNN_UNKNOWN_STATUS";
  }
}

void cudnnGetLastErrorString(char *text, size_t bytes) {
  vcuda_note(__func__, NULL);
  snprintf(text, bytes, "%s", last_text);
}

static int refuse(int status, const char *format, va_list list) {
  vsnprintf(last_text, sizeof last_text, format, list);
  vcuda_log("%s", last_text);
  return status;
}

int vcuda_dnn_bad(const char *format, ...) {
  va_list list;
  va_start(list, format);
  int status = refuse(DNN_BAD_PARAM, format, list);
  va_end(list);
  return status;
}

int vcuda_dnn_unknown(const char *format, ...) {
  va_list list;
  va_start(list, format);
  int status = refuse(DNN_NOT_SUPPORTED, format, list);
  va_end(list);
  return status;
}

/* ---- handles ---- */

int cudnnCreate(vcuda_dnn **handle) {
  VCUDA_OPEN(NULL);
  if (vcuda_refuses(&call) != 0) return vcuda_close(&call, DNN_EXECUTION_FAILED);
  if (handle == NULL) return vcuda_close(&call, vcuda_dnn_bad("%s: no room for the handle", __func__));
  *handle = calloc(1, sizeof **handle);
  if (*handle != NULL) (*handle)->device = vcuda_current_device();
  return vcuda_close(&call, *handle == NULL ? DNN_NO_MEMORY : DNN_OK);
}

int cudnnDestroy(vcuda_dnn *handle) {
  VCUDA_DNN_OPEN(handle);
  free(handle);
  return vcuda_close(&call, DNN_OK);
}

int cudnnSetStream(vcuda_dnn *handle, void *stream) {
  VCUDA_OPEN(stream);
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
