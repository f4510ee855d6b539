/* Streams and events of other libraries. A stream of theirs becomes one of ours: a stream of the EP's, and two events that bridge it. Before
 * work of ours the EP's stream waits for theirs (in), behind it theirs waits for the EP's (out). The calls for that are those of the library
 * that the process has loaded for the device: NVIDIA's driver, or the virtual accelerator's own. None is linked. */
#include <stdlib.h>
#include <string.h>

#include "iobind/interop.h"
#include "memory/dml.h"
#include "memory/kind.h"
#include "support/options.h"
#include "support/system.h"

/* The calls, whatever library they are of. They return 0, or an error that `explain` names. */
typedef struct native_calls {
  iobind_native_kind kind;
  /* CUDA's driver */
  int (*stream_context)(void *stream, void **context);
  int (*push)(void *context);
  int (*pop)(void **context);
  int (*is_capturing)(void *stream, int *status);
  int (*cuda_create)(void **event, unsigned flags);
  int (*cuda_wait)(void *stream, void *event, unsigned flags);
  int (*error_name)(int error, const char **name);
  int (*device)(int *device, int number);
  int (*retain)(void **context, int device);
  int (*synchronize)(void);
  /* the virtual accelerator */
  void *(*vdev_create)(int device);
  int (*vdev_wait)(void *stream, void *event);
  void (*vdev_destroy)(void *event);
  const char *(*vdev_error)(void);
  /* both */
  int (*record)(void *event, void *stream);
  int (*cuda_destroy)(void *event);
  void *context; /* CUDA's, of the EP's stream */
} native_calls;

struct iobind__bridge {
  native_calls calls;
  void *given;  /* as the caller has it */
  void *stream; /* as the calls take it */
  void *in;     /* events */
  void *out;
  iobind_deleter deleter;
  void *deleter_context;
};

#define FIND(calls, library, field, name) (*(void **)&(calls)->field = iobind__library_symbol(library, name))

static iobind_status lacks(const iobind_stream *stream, const char *library, iobind_error *error) {
  return iobind__fail(error, IOBIND_NOT_SUPPORTED, "stream of '%s': %s is not loaded, or lacks calls for streams and events",
                      stream->device->spec, library);
}

/* ---- CUDA: its driver ---- */

#if defined(_WIN32)
static const char driver[] = "nvcuda.dll";
#else
static const char driver[] = "libcuda.so.1";
#endif

static iobind_status cuda_fail(const native_calls *calls, int failed, const char *what, iobind_error *error) {
  const char *name = NULL;
  if (calls->error_name(failed, &name) != 0 || name == NULL) {
    name = "an error without a name";
  }
  return iobind__fail(error, IOBIND_RUNTIME, "%s: CUDA error %d (%s)", what, failed, name);
}

static iobind_status find_cuda(const iobind_stream *stream, native_calls *calls, iobind_error *error) {
  void *library = iobind__library_loaded(driver);
  bool all =
      library != NULL && FIND(calls, library, stream_context, "cuStreamGetCtx") != NULL &&
      FIND(calls, library, push, "cuCtxPushCurrent_v2") != NULL && FIND(calls, library, pop, "cuCtxPopCurrent_v2") != NULL &&
      FIND(calls, library, is_capturing, "cuStreamIsCapturing") != NULL &&
      FIND(calls, library, cuda_create, "cuEventCreate") != NULL &&
      FIND(calls, library, cuda_destroy, "cuEventDestroy_v2") != NULL &&
      FIND(calls, library, record, "cuEventRecord") != NULL && FIND(calls, library, cuda_wait, "cuStreamWaitEvent") != NULL &&
      FIND(calls, library, error_name, "cuGetErrorName") != NULL;
  if (!all) {
    return lacks(stream, driver, error);
  }
  int failed = calls->stream_context(iobind__stream_handle(stream), &calls->context);
  return failed == 0 ? IOBIND_OK : cuda_fail(calls, failed, "the context of the stream", error);
}

/* ---- the virtual accelerator: the library of its EP ---- */

static iobind_status find_vdev(const iobind_stream *stream, native_calls *calls, iobind_error *error) {
  iobind__runtime_lock(stream->device->runtime);
  const char *path = iobind__device_library(stream->device);
  iobind__runtime_unlock(stream->device->runtime);
  void *library = path == NULL ? NULL : iobind__library_loaded(path);
  bool all = library != NULL && FIND(calls, library, vdev_create, "vdev_event_create") != NULL &&
             FIND(calls, library, vdev_destroy, "vdev_event_destroy") != NULL &&
             FIND(calls, library, record, "vdev_event_record") != NULL &&
             FIND(calls, library, vdev_wait, "vdev_stream_wait") != NULL &&
             FIND(calls, library, vdev_error, "vdev_last_error") != NULL;
  return all ? IOBIND_OK : lacks(stream, "the virtual accelerator's library", error);
}

/* ---- both ---- */

static iobind_native_kind kind_of(const iobind_device *device) {
  const char *name = device->ep == NULL ? "" : device->ep->name;
  return strcmp(name, "cuda") == 0   ? IOBIND_NATIVE_CUDA
         : strcmp(name, "vdev") == 0 ? IOBIND_NATIVE_VDEV
         : device->dml != NULL       ? IOBIND_NATIVE_D3D12
                                     : (iobind_native_kind)0;
}

static iobind_status find_calls(const iobind_stream *stream, native_calls *calls, iobind_error *error) {
  *calls = (native_calls){.kind = kind_of(stream->device)};
  return calls->kind == IOBIND_NATIVE_CUDA ? find_cuda(stream, calls, error) : find_vdev(stream, calls, error);
}

/* Do something in the context of the device, which the calling thread may not have. */
static int in_context(const native_calls *calls, int (*act)(const native_calls *calls, void *a, void *b), void *a, void *b) {
  void *popped;
  int failed = calls->context == NULL ? 0 : calls->push(calls->context);
  if (failed == 0) {
    failed = act(calls, a, b);
    if (calls->context != NULL) {
      (void)calls->pop(&popped);
    }
  }
  return failed;
}

static iobind_status outcome(const native_calls *calls, int failed, const char *what, iobind_error *error) {
  if (failed == 0) {
    return IOBIND_OK;
  }
  return calls->kind == IOBIND_NATIVE_CUDA ? cuda_fail(calls, failed, what, error)
                                           : iobind__fail(error, IOBIND_RUNTIME, "%s: %s", what, calls->vdev_error());
}

static int act_record(const native_calls *calls, void *event, void *stream) {
  return calls->record(event, stream);
}

static int act_wait(const native_calls *calls, void *stream, void *event) {
  return calls->kind == IOBIND_NATIVE_CUDA ? calls->cuda_wait(stream, event, 0) : calls->vdev_wait(stream, event);
}

static int act_create(const native_calls *calls, void *event, void *unused) {
  enum { NO_TIMES = 2 };
  void **out = event;
  (void)unused;
  if (calls->kind == IOBIND_NATIVE_CUDA) {
    return calls->cuda_create(out, NO_TIMES);
  }
  *out = calls->vdev_create(0); /* where it is recorded says of which device it is */
  return *out == NULL ? -1 : 0;
}

static int act_destroy(const native_calls *calls, void *event, void *unused) {
  (void)unused;
  if (event != NULL && calls->vdev_destroy != NULL) {
    calls->vdev_destroy(event);
  }
  return event != NULL && calls->cuda_destroy != NULL ? calls->cuda_destroy(event) : 0;
}

static int act_ask(const native_calls *calls, void *stream, void *capturing) {
  return calls->is_capturing(stream, capturing);
}

static int act_synchronize(const native_calls *calls, void *unused, void *unused_too) {
  (void)unused, (void)unused_too;
  return calls->synchronize();
}

/* The context that the EP uses, in which this thread may then call. It stays retained, as CUDA's runtime does it: giving up the last reference
 * would reset the device. False: the driver is not in use. */
static bool open_context(native_calls *calls, const iobind_device *device) {
  void *library = iobind__library_loaded(driver);
  int found = 0;
  return library != NULL && FIND(calls, library, push, "cuCtxPushCurrent_v2") != NULL &&
         FIND(calls, library, pop, "cuCtxPopCurrent_v2") != NULL &&
         FIND(calls, library, error_name, "cuGetErrorName") != NULL && FIND(calls, library, device, "cuDeviceGet") != NULL &&
         FIND(calls, library, retain, "cuDevicePrimaryCtxRetain") != NULL &&
         FIND(calls, library, synchronize, "cuCtxSynchronize") != NULL && calls->device(&found, (int)device->ordinal) == 0 &&
         calls->retain(&calls->context, found) == 0;
}

/* To ask is to wait as a session does while it is made: by CUDA's rules either ends a capture (900), or finds one ended so (901). */
iobind_status iobind__cuda_check_idle(const iobind_device *device, iobind_error *error) {
  enum { CAPTURED = 900, CAPTURE_ENDED = 901 };
  native_calls calls = {.kind = IOBIND_NATIVE_CUDA};
  iobind__scope scope;
  IOBIND__TRY(iobind__named(iobind__guard_enter(device->guard, &scope, error), error, "session_create"));
  int failed = open_context(&calls, device) ? in_context(&calls, act_synchronize, NULL, NULL) : 0;
  iobind_status status = failed == 0 ? IOBIND_OK : cuda_fail(&calls, failed, "session_create: waiting for the device", error);
  if (failed == CAPTURED || failed == CAPTURE_ENDED) {
    status = iobind__fail(
        error, IOBIND_INVALID_STATE,
        "session_create: '%s': a stream of the device was being captured, and its capture has failed: make sessions "
        "before or after captures: making one waits for the device",
        device->spec);
  }
  return iobind__guard_end(&scope, status, error);
}

static iobind_status refuse_captured(const native_calls *calls, void *stream, const char *why, iobind_error *error) {
  int capturing = 0;
  if (calls->kind != IOBIND_NATIVE_CUDA) {
    return IOBIND_OK; /* its own calls refuse it */
  }
  IOBIND__TRY(outcome(calls, in_context(calls, act_ask, stream, &capturing), "asking whether a stream is captured", error));
  return capturing == 0 ? IOBIND_OK : iobind__fail(error, IOBIND_INVALID_STATE, "%s", why);
}

/* What is captured must not meet work that is not. */
static iobind_status check_capture(const native_calls *calls, void *stream, iobind_error *error) {
  return refuse_captured(calls, stream, "the stream of another library is being captured: end its capture first", error);
}

/* By a wait for an event of a capture the EP's stream becomes part of that capture. CUDA answers questions about such an event by
 * breaking the capture, so the stream is asked: before the wait, which would break the capture that the stream is still part of, and
 * behind it. */
static iobind_status check_joined(const native_calls *calls, void *stream, iobind_error *error) {
  return refuse_captured(calls, stream,
                         "the stream is part of a capture: it has waited for an event that was recorded in one; end that "
                         "capture before the stream is used or destroyed, and give an event recorded outside of it",
                         error);
}

/* `later` waits for what `earlier` has got so far. */
static iobind_status put_behind(const native_calls *calls, void *later, void *earlier, void *event, iobind_error *error) {
  static const char what[] = "event between two libraries' streams";
  IOBIND__TRY(outcome(calls, in_context(calls, act_record, event, earlier), what, error));
  return outcome(calls, in_context(calls, act_wait, later, event), what, error);
}

bool iobind__stream_is_foreign(const iobind_stream *stream) {
  return stream != NULL && stream->bridge != NULL;
}

iobind_status iobind__bridge_check(const iobind_stream *stream, iobind_error *error) {
  const iobind__bridge *bridge = stream == NULL ? NULL : stream->bridge;
  return bridge == NULL ? IOBIND_OK : check_capture(&bridge->calls, bridge->stream, error);
}

iobind_status iobind__bridge_in(const iobind_stream *stream, iobind_error *error) {
  if (stream != NULL && stream->lane != NULL) {
    return iobind__dml_stream_enter(stream, error);
  }
  const iobind__bridge *bridge = stream == NULL ? NULL : stream->bridge;
  if (bridge == NULL) {
    return IOBIND_OK;
  }
  iobind__scope scope;
  IOBIND__TRY(iobind__guard_enter(stream->device->guard, &scope, error)); /* a session may compute on it, and capture there */
  iobind_status status = check_capture(&bridge->calls, bridge->stream, error);
  if (status == IOBIND_OK) {
    status = put_behind(&bridge->calls, iobind__stream_handle(stream), bridge->stream, bridge->in, error);
  }
  return iobind__guard_end(&scope, status, error);
}

iobind_status iobind__bridge_out(iobind_stream *stream, iobind_error *error) {
  if (stream != NULL && stream->lane != NULL) {
    return iobind__dml_stream_leave(stream, error);
  }
  const iobind__bridge *bridge = stream == NULL ? NULL : stream->bridge;
  if (bridge == NULL) {
    return IOBIND_OK;
  }
  iobind__scope scope;
  IOBIND__TRY(iobind__guard_enter(stream->device->guard, &scope, error));
  iobind_status status = put_behind(&bridge->calls, bridge->stream, iobind__stream_handle(stream), bridge->out, error);
  return iobind__guard_end(&scope, status, error);
}

void *iobind__bridge_native(const iobind__bridge *bridge) {
  return bridge->given;
}

static void free_bridge(const iobind_stream *stream, iobind__bridge *bridge) {
  iobind__scope scope;
  iobind__guard_enter_anyway(stream->device->guard, &scope);
  (void)in_context(&bridge->calls, act_destroy, bridge->in, NULL);
  (void)in_context(&bridge->calls, act_destroy, bridge->out, NULL);
  iobind__guard_leave(&scope);
  if (bridge->deleter != NULL) {
    bridge->deleter(bridge->deleter_context, bridge->given);
  }
  free(bridge);
}

void iobind__bridge_close(iobind_stream *stream) {
  free_bridge(stream, stream->bridge);
}

/* ---- the public calls ---- */

static iobind_status read_native(iobind_native *out, const iobind_native *given, const iobind_device *device, bool is_stream,
                                 const char *what, iobind_error *error) {
  static const char *const names[] = {"?", "CUDA", "D3D12", "VDEV"};
  if (given == NULL) {
    return iobind__fail(error, IOBIND_INVALID_ARGUMENT, "%s: native is NULL", what);
  }
  IOBIND__TRY(iobind__options_read(out, sizeof *out, sizeof *out, given, what, error));
  if (out->kind < IOBIND_NATIVE_CUDA || out->kind > IOBIND_NATIVE_VDEV) {
    return iobind__fail(error, IOBIND_INVALID_ARGUMENT, "%s: native.kind: expected 1 .. %d, got %d", what, IOBIND_NATIVE_VDEV,
                        out->kind);
  }
  iobind_native_kind kind = kind_of(device);
  if (kind == IOBIND_NATIVE_D3D12 && is_stream) {
    return iobind__fail(error, IOBIND_NOT_SUPPORTED,
                        "%s: '%s' computes on one queue, iobind_runtime_adopt_device gives it yours", what, device->spec);
  }
  if (kind == 0 || (int32_t)kind != out->kind) {
    return iobind__fail(error, IOBIND_NOT_SUPPORTED, "%s: '%s' takes %s, got a native handle of kind %s", what, device->spec,
                        kind == 0 ? "no native handles" : names[kind], names[out->kind]);
  }
  if (out->value != 0 && kind != IOBIND_NATIVE_D3D12) {
    return iobind__fail(error, IOBIND_INVALID_ARGUMENT, "%s: native.value: expected 0, for only a fence has values", what);
  }
  return IOBIND_OK;
}

/* Which stream the handle means, and whether it is of this device. */
static iobind_status find_stream(iobind__bridge *bridge, const iobind_stream *stream, iobind_error *error) {
  enum { LEGACY = 1, PER_THREAD = 2 };
  void *context = NULL;
  bridge->stream = bridge->given;
  if (bridge->calls.kind != IOBIND_NATIVE_CUDA) {
    return IOBIND_OK; /* recording an event on it shows what it is */
  }
  if (bridge->given == NULL || (uintptr_t)bridge->given == LEGACY) {
    bridge->stream = (void *)(uintptr_t)LEGACY; /* NULL would be another one in a driver call of some programs */
    return IOBIND_OK;
  }
  if ((uintptr_t)bridge->given == PER_THREAD) {
    return iobind__fail(error, IOBIND_NOT_SUPPORTED, "cudaStreamPerThread is another stream on each thread: expected a stream");
  }
  int failed = bridge->calls.stream_context(bridge->stream, &context);
  IOBIND__TRY(outcome(&bridge->calls, failed, "stream of another library", error));
  return context == bridge->calls.context
             ? IOBIND_OK
             : iobind__fail(error, IOBIND_DEVICE, "expected a stream of '%s', got one of another device or context",
                            stream->device->spec);
}

static iobind_status fill_bridge(const iobind_stream *stream, iobind__bridge *bridge, iobind_error *error) {
  iobind_status status = find_calls(stream, &bridge->calls, error);
  status = status == IOBIND_OK ? find_stream(bridge, stream, error) : status;
  status = status == IOBIND_OK ? check_capture(&bridge->calls, bridge->stream, error) : status;
  static const char what[] = "event for the stream of another library";
  if (status == IOBIND_OK) {
    status = outcome(&bridge->calls, in_context(&bridge->calls, act_create, &bridge->in, NULL), what, error);
  }
  if (status == IOBIND_OK) {
    status = outcome(&bridge->calls, in_context(&bridge->calls, act_create, &bridge->out, NULL), what, error);
  }
  if (status == IOBIND_OK) {
    status = put_behind(&bridge->calls, iobind__stream_handle(stream), bridge->stream, bridge->in, error);
  }
  return status;
}

static iobind_status open_bridge(iobind_stream *stream, void *given, iobind_error *error) {
  iobind__scope scope;
  iobind__bridge *bridge = calloc(1, sizeof *bridge);
  if (bridge == NULL) {
    return iobind__fail(error, IOBIND_OUT_OF_MEMORY, "out of host memory");
  }
  bridge->given = given;
  iobind_status status = iobind__guard_enter(stream->device->guard, &scope, error);
  if (status == IOBIND_OK) {
    status = iobind__guard_end(&scope, fill_bridge(stream, bridge, error), error);
  }
  if (status == IOBIND_OK) {
    stream->bridge = bridge;
  } else {
    free_bridge(stream, bridge); /* it has no deleter yet */
  }
  return status;
}

iobind_status iobind_stream_wrap(iobind_device *device, const iobind_native *given, iobind_deleter deleter, void *context,
                                 iobind_stream **stream, iobind_error *error) {
  if (stream != NULL) {
    *stream = NULL;
  }
  if (device == NULL || stream == NULL) {
    return iobind__fail(error, IOBIND_INVALID_ARGUMENT, "stream_wrap: %s is NULL", device == NULL ? "device" : "stream");
  }
  iobind_native native;
  iobind_stream *made = NULL;
  IOBIND__TRY(iobind__process_check("stream_wrap", error));
  IOBIND__TRY(read_native(&native, given, device, true, "stream_wrap", error));
  IOBIND__TRY(iobind__named(iobind_stream_create(device, NULL, &made, error), error, "stream_wrap"));
  iobind_status status = open_bridge(made, native.handle, error);
  if (status != IOBIND_OK) {
    iobind_stream_destroy(made);
    return iobind__named(status, error, "stream_wrap");
  }
  made->bridge->deleter = deleter;
  made->bridge->deleter_context = context;
  *stream = made;
  return IOBIND_OK;
}

static iobind_status use_event_inside(iobind_stream *stream, const native_calls *calls, void *event, bool waits,
                                      iobind_error *error) {
  IOBIND__TRY(waits ? iobind__bridge_check(stream, error) : iobind__bridge_in(stream, error));
  void *handle = iobind__stream_handle(stream);
  if (!waits) {
    return outcome(calls, in_context(calls, act_record, event, handle), "the event", error);
  }
  IOBIND__TRY(check_joined(calls, handle, error));
  IOBIND__TRY(outcome(calls, in_context(calls, act_wait, handle, event), "the event", error));
  IOBIND__TRY(check_joined(calls, handle, error));
  return iobind__bridge_out(stream, error);
}

static iobind_status use_event(iobind_stream *stream, const iobind_native *given, bool waits, const char *what,
                               iobind_error *error) {
  iobind_native native;
  native_calls calls;
  if (stream == NULL) {
    return iobind__fail(error, IOBIND_INVALID_ARGUMENT, "%s: stream is NULL", what);
  }
  IOBIND__TRY(iobind__process_check(what, error));
  IOBIND__TRY(read_native(&native, given, stream->device, false, what, error));
  if (native.handle == NULL) {
    return iobind__fail(error, IOBIND_INVALID_ARGUMENT, "%s: native.handle: expected an event, got NULL", what);
  }
  if (stream->lane != NULL) {
    return waits ? iobind__dml_stream_wait_fence(stream, native.handle, native.value, error)
                 : iobind__dml_stream_signal_fence(stream, native.handle, native.value, error);
  }
  IOBIND__TRY(find_calls(stream, &calls, error));
  iobind__scope scope;
  IOBIND__TRY(iobind__guard_enter(stream->device->guard, &scope, error)); /* as in iobind__bridge_in */
  return iobind__guard_end(&scope, use_event_inside(stream, &calls, native.handle, waits, error), error);
}

iobind_status iobind_stream_wait_native(iobind_stream *stream, const iobind_native *native, iobind_error *error) {
  return iobind__named(use_event(stream, native, true, "stream_wait_native", error), error, "stream_wait_native");
}

iobind_status iobind_stream_signal_native(iobind_stream *stream, const iobind_native *native, iobind_error *error) {
  return iobind__named(use_event(stream, native, false, "stream_signal_native", error), error, "stream_signal_native");
}
