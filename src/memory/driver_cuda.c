/* The driver for CUDA devices. ORT does copies, and allocations if the runtime does not ask for pools (driver_cuda_pool.c).
 * NVIDIA's driver does what has to do with other libraries' streams and events, and with priorities. */
#include "memory/driver_cuda.h"

#include "memory/kind.h"
#include "support/system.h"

#include <string.h>

/* Functions of NVIDIA's driver: first those for streams, then the one for waits for the device, then those for priorities. */
enum {
  STREAM_CONTEXT,
  IS_CAPTURING,
  CREATE,
  DESTROY,
  RECORD,
  WAIT,
  PUSH,
  POP,
  ERROR_NAME,
  OF_STREAMS,
  SYNCHRONIZE = OF_STREAMS,
  OF_DEVICES,
  PRIORITY_RANGE = OF_DEVICES,
  SET_ATTRIBUTE,
  GET_PRIORITY,
  ALL
};
static const char *const names[ALL] = {
    [STREAM_CONTEXT] = "cuStreamGetCtx",
    [IS_CAPTURING] = "cuStreamIsCapturing",
    [CREATE] = "cuEventCreate",
    [DESTROY] = "cuEventDestroy_v2",
    [RECORD] = "cuEventRecord",
    [WAIT] = "cuStreamWaitEvent",
    [PUSH] = "cuCtxPushCurrent_v2",
    [POP] = "cuCtxPopCurrent_v2",
    [ERROR_NAME] = "cuGetErrorName",
    [SYNCHRONIZE] = "cuCtxSynchronize",
    [PRIORITY_RANGE] = "cuCtxGetStreamPriorityRange",
    [SET_ATTRIBUTE] = "cuStreamSetAttribute",
    [GET_PRIORITY] = "cuStreamGetPriority",
};
_Static_assert((int)ALL <= (int)IOBIND__FOREIGN_CALLS, "every call has a number");

const char *iobind__cuda_error_name(const iobind__foreign *self, int failed) {
  const char *name = NULL;
  (void)((int (*)(int, const char **))self->found[ERROR_NAME])(failed, &name);
  return name == NULL ? "an error without a name" : name;
}

static iobind_status fail(const iobind__foreign *self, int failed, const char *what, iobind_error *error) {
  return iobind__fail(error, IOBIND_ERROR_RUNTIME, "%s: CUDA error %d (%s)", what, failed,
                      iobind__cuda_error_name(self, failed));
}

static int stream_context(const iobind__foreign *self, void *stream, void **context) {
  return ((int (*)(void *, void **))self->found[STREAM_CONTEXT])(stream, context);
}

static iobind_status find(iobind__foreign *self, const iobind_stream *stream, iobind_error *error) {
  if (!iobind__foreign_find(self, iobind__library_loaded(IOBIND__CUDA_DRIVER), names, 0, OF_STREAMS)) {
    return iobind__foreign_lacks(stream, IOBIND__CUDA_DRIVER, error);
  }
  int failed = stream_context(self, iobind__stream_handle(stream), &self->context);
  return failed == 0 ? IOBIND_OK : fail(self, failed, "the context of the stream", error);
}

int iobind__cuda_enter(const iobind__foreign *self) {
  return ((int (*)(void *))self->found[PUSH])(self->context);
}

void iobind__cuda_leave(const iobind__foreign *self) {
  void *popped;
  (void)((int (*)(void **))self->found[POP])(&popped);
}

static int in_context(const iobind__foreign *self, int (*act)(const iobind__foreign *self, void *a, void *b), void *a,
                      void *b) {
  int failed = iobind__cuda_enter(self);
  if (failed == 0) {
    failed = act(self, a, b);
    iobind__cuda_leave(self);
  }
  return failed;
}

static int act_record(const iobind__foreign *self, void *event, void *stream) {
  return ((int (*)(void *, void *))self->found[RECORD])(event, stream);
}

static int act_wait(const iobind__foreign *self, void *stream, void *event) {
  return ((int (*)(void *, void *, unsigned))self->found[WAIT])(stream, event, 0);
}

static int act_create(const iobind__foreign *self, void *event, void *unused) {
  enum { NO_TIMES = 2 };
  (void)unused;
  return ((int (*)(void **, unsigned))self->found[CREATE])(event, NO_TIMES);
}

static int act_destroy(const iobind__foreign *self, void *event, void *unused) {
  (void)unused;
  return ((int (*)(void *))self->found[DESTROY])(event);
}

static int act_ask(const iobind__foreign *self, void *stream, void *capturing) {
  return ((int (*)(void *, int *))self->found[IS_CAPTURING])(stream, capturing);
}

static int act_synchronize(const iobind__foreign *self, void *unused, void *unused_too) {
  (void)unused, (void)unused_too;
  return ((int (*)(void))self->found[SYNCHRONIZE])();
}

static int record(const iobind__foreign *self, void *event, void *stream) {
  return in_context(self, act_record, event, stream);
}

static int wait_event(const iobind__foreign *self, void *stream, void *event) {
  return in_context(self, act_wait, stream, event);
}

static int create(const iobind__foreign *self, void **event) {
  return in_context(self, act_create, event, NULL);
}

static int destroy(const iobind__foreign *self, void *event) {
  return in_context(self, act_destroy, event, NULL);
}

static int is_capturing(const iobind__foreign *self, void *stream, int *capturing) {
  return in_context(self, act_ask, stream, capturing);
}

static iobind_status find_stream(const iobind__foreign *self, const iobind_device *device, void *given, void **stream,
                                 iobind_error *error) {
  enum { LEGACY = 1, PER_THREAD = 2 };
  void *context = NULL;
  *stream = given;
  if (given == NULL || (uintptr_t)given == LEGACY) {
    *stream = (void *)(uintptr_t)LEGACY; /* some programs are compiled so that NULL means the per-thread stream */
    return IOBIND_OK;
  }
  if ((uintptr_t)given == PER_THREAD) {
    return iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED,
                        "expected one stream, got cudaStreamPerThread, which is another stream on each thread");
  }
  int failed = stream_context(self, given, &context);
  if (failed != 0) {
    return fail(self, failed, "stream of another library", error);
  }
  return context == self->context
             ? IOBIND_OK
             : iobind__fail(error, IOBIND_ERROR_WRONG_DEVICE, "expected a stream of '%s', got one of another device or context",
                            device->spec);
}

static const iobind__foreign_calls calls = {
    .find = find,
    .find_stream = find_stream,
    .is_capturing = is_capturing,
    .create = create,
    .destroy = destroy,
    .record = record,
    .wait = wait_event,
    .fail = fail,
};

iobind_status iobind__cuda_open(iobind__foreign *self, const iobind_device *device, iobind_error *error) {
  *self = (iobind__foreign){.calls = &calls};
  if (device->context == NULL ||
      !iobind__foreign_find(self, iobind__library_loaded(IOBIND__CUDA_DRIVER), names, PUSH, OF_DEVICES)) {
    return iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED, "'%s': %s is not loaded, or lacks calls", device->spec,
                        IOBIND__CUDA_DRIVER);
  }
  return iobind__context_find_primary(device->context, &self->context, error);
}

static int synchronize(iobind__foreign *self, const iobind_device *device) {
  return iobind__cuda_open(self, device, NULL) == IOBIND_OK ? in_context(self, act_synchronize, NULL, NULL) : 0;
}

/* The EP waits for its device when a session is created, and ends the process if the wait fails. It fails if earlier work has
 * failed, or if a stream of the device is being captured. Only the same wait finds that out, and by CUDA's rules it ends the
 * capture (900); a later wait fails with 901. */
static iobind_status check_ready(const iobind_device *device, iobind_error *error) {
  enum { CAPTURED = 900, CAPTURE_ENDED = 901 };
  if (!device->bridged) {
    return IOBIND_OK;
  }
  iobind__foreign self;
  iobind__scope scope;
  IOBIND__TRY(iobind__named(iobind__guard_enter(device->guard, &scope, error), error, "session_create"));
  int failed = synchronize(&self, device);
  iobind_status status = failed == 0 ? IOBIND_OK : fail(&self, failed, "session_create: waiting for the device", error);
  if (failed == CAPTURED || failed == CAPTURE_ENDED) {
    status = iobind__fail(
        error, IOBIND_ERROR_INVALID_STATE,
        "session_create: '%s': a stream of the device was being captured, and its capture has failed: create sessions "
        "before or after captures, because creating one waits for the device",
        device->spec);
  }
  return iobind__guard_end(&scope, status, error);
}

/* A capture that is in progress has already ended: releasing a session frees memory, which waits for the device. */
static void settle(iobind_device *device) {
  iobind__foreign self;
  iobind__scope scope;
  if (iobind__guard_enter_to_free(device->guard, &scope)) {
    (void)synchronize(&self, device);
    iobind__guard_leave(&scope);
  }
}

/* ---- priorities ---- */

typedef struct priority {
  int wanted;
  int least, greatest; /* of the device; the greatest priority has the lowest number */
  int got;
} priority;

static bool is_in_range(const priority *p) {
  return p->greatest <= p->wanted && p->wanted <= p->least;
}

/* ORT's EP creates a stream with the default priority. So the priority is set afterwards, and read back, because a device
 * without priorities accepts any. */
static int act_prioritize(const iobind__foreign *self, void *stream, void *asked) {
  enum { PRIORITY = 8, VALUE_BYTES = 64 }; /* CU_LAUNCH_ATTRIBUTE_PRIORITY; CUlaunchAttributeValue */
  priority *p = asked;
  _Alignas(8) char value[VALUE_BYTES] = {0};
  memcpy(value, &p->wanted, sizeof p->wanted);
  int failed = ((int (*)(int *, int *))self->found[PRIORITY_RANGE])(&p->least, &p->greatest);
  if (failed != 0 || !is_in_range(p)) {
    return failed;
  }
  failed = ((int (*)(void *, int, const void *))self->found[SET_ATTRIBUTE])(stream, PRIORITY, value);
  return failed != 0 ? failed : ((int (*)(void *, int *))self->found[GET_PRIORITY])(stream, &p->got);
}

static iobind_status check_priority(const iobind_device *device, const priority *p, iobind_error *error) {
  if (!is_in_range(p)) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT,
                        "stream_create: '%s': priority: expected %d (the highest) to %d (the lowest), got %d", device->spec,
                        p->greatest, p->least, p->wanted);
  }
  return p->got == p->wanted
             ? IOBIND_OK
             : iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED,
                            "stream_create: '%s': priority: asked for %d, the driver gave %d", device->spec, p->wanted, p->got);
}

/* `key` is the priority, the only option of the row. */
static iobind_status set_priority(iobind_stream *stream, const char *key, const char *value, iobind_error *error) {
  const iobind_device *device = stream->device;
  iobind__foreign self = {.calls = &calls};
  priority asked = {.wanted = (int)iobind__option_whole(value)};
  iobind__scope scope;
  if (!iobind__foreign_find(&self, iobind__library_loaded(IOBIND__CUDA_DRIVER), names, 0, ALL)) {
    return iobind__foreign_lacks(stream, IOBIND__CUDA_DRIVER, error);
  }
  IOBIND__TRY(iobind__guard_enter(device->guard, &scope, error));
  void *handle = iobind__stream_handle(stream);
  int failed = stream_context(&self, handle, &self.context);
  if (failed == 0) {
    failed = in_context(&self, act_prioritize, handle, &asked);
  }
  iobind_status status = failed == 0 ? check_priority(device, &asked, error) : fail(&self, failed, key, error);
  return iobind__guard_end(&scope, status, error);
}

const iobind__driver iobind__cuda_driver = {
    .allocator = iobind__cuda_allocator,
    .knows_peers = true,
    .copy = iobind__ort_copy,
    .wait = iobind__ort_wait,
    .streams = &iobind__ep_stream,
    .imports = &iobind__cuda_imports,
    .check_ready = check_ready,
    .settle = settle,
    .trim = iobind__cuda_trim,
    .set_stream_option = set_priority,
    .foreign = &calls,
    .use_event = iobind__foreign_use_event,
};
