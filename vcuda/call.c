#define _POSIX_C_SOURCE 200809L /* clock_gettime */

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "run.h"
#include "state.h"
#include "vcuda.h"
#include "work.h"

static _Thread_local int last_error;

int64_t vcuda_now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* ---- the log ---- */

static void write_line(const char *text) {
  const char *path = getenv("VCUDA_LOG");
  FILE *file = path == NULL || path[0] == '\0' ? NULL : fopen(path, "a");
  fprintf(file != NULL ? file : stderr, "vcuda: %s\n", text);
  if (file != NULL) (void)fclose(file);
  snprintf(vcuda_global.last_message, sizeof vcuda_global.last_message, "%.*s", VCUDA_TEXT - 1, text);
}

void vcuda_log(const char *format, ...) {
  char text[VCUDA_TEXT];
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  vcuda_lock();
  write_line(text);
  vcuda_unlock();
}

int vcuda_fault(vcuda_device *device, int error, const char *format, ...) {
  char text[VCUDA_TEXT];
  char line[VCUDA_TEXT + 32];
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  snprintf(line, sizeof line, "error %d: %s", error, text);
  write_line(line);
  if (device->error == CUDA_OK) device->error = error;
  return error;
}

const char *vcuda_last_message(void) {
  static _Thread_local char text[VCUDA_TEXT];
  vcuda_lock();
  memcpy(text, vcuda_global.last_message, sizeof text);
  vcuda_unlock();
  return text;
}

/* ---- the frame of every call ---- */

/* The outermost call of this thread. Only this one is traced. */
static _Thread_local const vcuda_call *outer;

static vcuda_call make_call(const char *name, const void *stream) {
  vcuda_start();
  return (vcuda_call){.name = name, .stream = stream, .start = vcuda_trace_is_on() ? vcuda_now() : 0};
}

static void trace(const vcuda_call *call, int error) {
  if (outer == NULL) vcuda_trace_call(call, error);
}

void vcuda_open(vcuda_call *call, const char *name, void *stream) {
  *call = make_call(name, stream);
  if (outer == NULL) outer = call;
}

int vcuda_close(const vcuda_call *call, int result) {
  if (outer == call) outer = NULL;
  trace(call, result);
  return result;
}

int vcuda_refuses(const vcuda_call *call) {
  if (!vcuda_run_is_host_function()) return CUDA_OK;
  vcuda_log("%s: called inside a host function, which must not call CUDA", outer == NULL ? call->name : outer->name);
  return CUDA_NOT_PERMITTED;
}

bool vcuda_fails(const char *name) {
  vcuda_start();
  vcuda_lock();
  vcuda_device *device = vcuda_device_current();
  bool fails = device != NULL && vcuda_trigger_fails(&device->settings, VCUDA_SITE_CALL, 0, name, false);
  if (fails) {
    char line[128];
    snprintf(line, sizeof line, "%s fails, as the settings ask for", name);
    write_line(line);
  }
  vcuda_unlock();
  return fails;
}

int vcuda_begin(vcuda_call *call, const char *name, const void *stream, bool device) {
  *call = make_call(name, stream);
  const int refused = vcuda_refuses(call);
  if (refused != CUDA_OK || !device) return refused;
  vcuda_lock();
  const vcuda_device *current = vcuda_device_current();
  int error = current == NULL ? CUDA_NO_DEVICE : current->error;
  vcuda_unlock();
  return error;
}

int vcuda_end(const vcuda_call *call, int error) {
  /* calls of the driver and of other libraries do not set the runtime's last error */
  if (error != CUDA_OK && error != CUDA_NOT_READY && outer == NULL) last_error = error;
  trace(call, error);
  return error;
}

void vcuda_note(const char *name, void *stream) {
  const vcuda_call call = make_call(name, stream);
  trace(&call, CUDA_OK);
}

static int find_last_error(void) {
  vcuda_lock();
  const vcuda_device *current = vcuda_device_current();
  int sticky = current == NULL ? CUDA_OK : current->error;
  vcuda_unlock();
  return sticky != CUDA_OK ? sticky : last_error;
}

int cudaPeekAtLastError(void) {
  VCUDA_OPEN(NULL);
  return vcuda_close(&call, find_last_error());
}

int cudaGetLastError(void) {
  VCUDA_OPEN(NULL);
  int error = find_last_error();
  last_error = CUDA_OK;
  return vcuda_close(&call, error);
}

/* ---- errors by name ---- */

static const struct {
  int error;
  const char *name;
  const char *text;
} errors[] = {
    {CUDA_OK, "cudaSuccess", "no error"},
    {CUDA_INVALID_VALUE, "cudaErrorInvalidValue", "an argument has an invalid value"},
    {CUDA_OUT_OF_MEMORY, "cudaErrorMemoryAllocation", "out of memory"},
    {CUDA_INVALID_CONFIGURATION, "cudaErrorInvalidConfiguration", "a launch with an impossible grid or block"},
    {CUDA_INVALID_SYMBOL, "cudaErrorInvalidSymbol", "invalid device symbol"},
    {CUDA_INVALID_DIRECTION, "cudaErrorInvalidMemcpyDirection", "invalid direction of a copy"},
    {CUDA_MISSING_CONFIGURATION, "cudaErrorMissingConfiguration", "a launch without its configuration"},
    {CUDA_INVALID_FUNCTION, "cudaErrorInvalidDeviceFunction", "kernel not found (on vcuda: its log has the name)"},
    {CUDA_NO_DEVICE, "cudaErrorNoDevice", "there is no CUDA device"},
    {CUDA_INVALID_DEVICE, "cudaErrorInvalidDevice", "no CUDA device has this number"},
    {CUDA_ECC, "cudaErrorECCUncorrectable", "memory of the device has failed"},
    {CUDA_INVALID_HANDLE, "cudaErrorInvalidResourceHandle", "the handle is not one of a live object, or of another device"},
    {CUDA_ILLEGAL_STATE, "cudaErrorIllegalState", "the object is not in a state for this"},
    {CUDA_SYMBOL_NOT_FOUND, "cudaErrorSymbolNotFound", "symbol not found"},
    {CUDA_NOT_READY, "cudaErrorNotReady", "not yet done"},
    {CUDA_ILLEGAL_ADDRESS, "cudaErrorIllegalAddress", "an illegal memory access was encountered"},
    {CUDA_OUT_OF_RESOURCES, "cudaErrorLaunchOutOfResources", "too few resources for a launch"},
    {CUDA_ALREADY_REGISTERED, "cudaErrorHostMemoryAlreadyRegistered", "some of this host memory is registered already"},
    {CUDA_NOT_REGISTERED, "cudaErrorHostMemoryNotRegistered", "this host memory was not registered"},
    {CUDA_LAUNCH_FAILURE, "cudaErrorLaunchFailure", "a launch has failed on the device"},
    {CUDA_NOT_PERMITTED, "cudaErrorNotPermitted", "not permitted here"},
    {CUDA_NOT_SUPPORTED, "cudaErrorNotSupported", "not supported"},
    {CUDA_CAPTURE_UNSUPPORTED, "cudaErrorStreamCaptureUnsupported", "not permitted while a stream is captured"},
    {CUDA_CAPTURE_INVALIDATED, "cudaErrorStreamCaptureInvalidated", "the capture was broken by an earlier error"},
    {CUDA_CAPTURE_MERGE, "cudaErrorStreamCaptureMerge", "two captures would become one"},
    {CUDA_CAPTURE_UNMATCHED, "cudaErrorStreamCaptureUnmatched", "the capture did not begin on this stream"},
    {CUDA_CAPTURE_UNJOINED, "cudaErrorStreamCaptureUnjoined", "a stream of the capture has not been joined to its first one"},
    {CUDA_CAPTURE_ISOLATION, "cudaErrorStreamCaptureIsolation",
     "something outside the capture would come before something inside"},
    {CUDA_CAPTURE_IMPLICIT, "cudaErrorStreamCaptureImplicit", "the NULL stream would depend on a capture"},
    {CUDA_CAPTURED_EVENT, "cudaErrorCapturedEvent", "not permitted on an event that was recorded in a capture"},
    {CUDA_CAPTURE_WRONG_THREAD, "cudaErrorStreamCaptureWrongThread", "the capture was begun by another thread"},
};

static size_t find_error(int error) {
  size_t i = 0;
  while (i < sizeof errors / sizeof errors[0] && errors[i].error != error) i++;
  return i;
}

const char *cudaGetErrorName(int error) {
  vcuda_note(__func__, NULL);
  size_t i = find_error(error);
  return i < sizeof errors / sizeof errors[0] ? errors[i].name
         : error == CUDA_UNKNOWN              ? "cudaErrorUnknown"
                                              : "unrecognized error code";
}

const char *cudaGetErrorString(int error) {
  vcuda_note(__func__, NULL);
  size_t i = find_error(error);
  return i < sizeof errors / sizeof errors[0] ? errors[i].text
         : error == CUDA_UNKNOWN              ? "unknown error"
                                              : "unrecognized error code";
}
