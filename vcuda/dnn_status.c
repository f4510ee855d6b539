/* Statuses of cuDNN, and the message of the last one that is not success. */
#include "dnn.h"

#include <stdarg.h>
#include <stdio.h>

static _Thread_local char last_text[256];

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

static int keep_text(int status, const char *text) {
  snprintf(last_text, sizeof last_text, "%s", text);
  vcuda_log("%s", text);
  return status;
}

int vcuda_dnn_bad(const char *format, ...) {
  char text[sizeof last_text];
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  return keep_text(DNN_BAD_PARAM, text);
}

int vcuda_dnn_unknown(const char *format, ...) {
  char text[sizeof last_text];
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  return keep_text(DNN_NOT_SUPPORTED, text);
}
