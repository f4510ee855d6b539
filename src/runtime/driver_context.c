/* The thread's current device. NVIDIA's EPs use the GPU that is current in the calling thread: they create memory, streams and events there,
 * and may change it. It belongs to the caller, so iobind makes the right device current, and then restores the caller's.
 *
 * What is current is a context of the driver. A program that uses CUDA's runtime has the device's primary context. A program that uses the
 * driver may have its own, which cudaSetDevice would replace, and which cudaGetDevice does not report. So iobind queries and sets the driver's
 * context. One exception: for a thread without a context, the runtime stores a device number, which only the runtime can restore. */
#include <stdlib.h>

#include "runtime/driver_cuda.h"
#include "runtime/runtime.h"
#include "support/system.h"

/* Functions of the driver and of CUDA's runtime that the EP has loaded; iobind links none. They return 0 or an error. */
typedef struct cuda_calls {
  int (*count)(int *count);
  int (*device)(int *device, int ordinal);
  int (*retain)(void **context, int device);
  int (*get_current)(void **context);
  int (*set_current)(void *context);
  int (*memory)(size_t *available, size_t *total);
  int (*attribute)(void *value, int attribute, uintptr_t address);
  int (*stream_context)(void *stream, void **context);
  int (*get_device)(int *ordinal); /* this and the next two are CUDA's runtime's; NULL: the EP does not export it */
  int (*set_device)(int ordinal);
  int (*take_error)(void);
} cuda_calls;

enum { ANY = -1 };

struct iobind__context {
  cuda_calls calls;
  const char *spec;
  bool one_of_several;
  int ordinal; /* CUDA's number of the device; ANY: make none current, only restore the caller's */
  _Atomic(void *)
      primary; /* the device's primary context; NULL: not retained yet, because that creates it, which takes memory */
};

/* The context that this thread has entered last and not left. */
static IOBIND__OF_THREAD const iobind__context *entered;

#define FIND(calls, library, field, name) (*(void **)&(calls)->field = iobind__library_symbol(library, name))

/* False: the driver is not loaded, or lacks a function. */
static bool find_calls(cuda_calls *calls, void *ep_library) {
  void *library = iobind__library_loaded(IOBIND__CUDA_DRIVER);
  bool all =
      library != NULL && FIND(calls, library, count, "cuDeviceGetCount") != NULL &&
      FIND(calls, library, device, "cuDeviceGet") != NULL && FIND(calls, library, retain, "cuDevicePrimaryCtxRetain") != NULL &&
      FIND(calls, library, get_current, "cuCtxGetCurrent") != NULL &&
      FIND(calls, library, set_current, "cuCtxSetCurrent") != NULL && FIND(calls, library, memory, "cuMemGetInfo_v2") != NULL &&
      FIND(calls, library, attribute, "cuPointerGetAttribute") != NULL &&
      FIND(calls, library, stream_context, "cuStreamGetCtx") != NULL;
  /* the EP's own copy of CUDA's runtime: another copy in the process has a current device of its own, which the EP does not
   * change */
  if (ep_library != NULL && FIND(calls, ep_library, set_device, "cudaSetDevice") != NULL) {
    (void)FIND(calls, ep_library, get_device, "cudaGetDevice");
    (void)FIND(calls, ep_library, take_error, "cudaGetLastError");
  }
  return all;
}

/* CUDA's number of the device: ORT may list devices in another order. */
static int ordinal_of(const iobind_device *device) {
  const OrtApi *api = IOBIND__API(device->runtime);
  const iobind__place *place = &device->places[IOBIND_MEMORY_DEFAULT];
  int id = 0;
  OrtStatus *failed = place->host ? NULL : api->MemoryInfoGetId(place->info, &id);
  iobind__ort_ignore(api, failed);
  return place->host || failed != NULL ? (int)device->ordinal : id;
}

/* For calls of which it is unknown which device they use. */
static iobind__context any_context = {.spec = "cuda", .ordinal = ANY};
static const iobind__guard any_guard = {.context = &any_context};
static atomic_bool has_any;

/* Uses the functions of the first device that has a context; they are the same for all. */
static void open_any(const iobind__context *of) {
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&mutex);
  if (!atomic_load(&has_any)) {
    any_context.calls = of->calls;
    atomic_store(&has_any, true);
  }
  pthread_mutex_unlock(&mutex);
}

iobind_status iobind__context_open(iobind_device *device, iobind__context **out, iobind_error *error) {
  const char *path = device->ep != NULL && device->ep->current_device ? iobind__device_library(device) : NULL;
  cuda_calls calls = {0};
  *out = NULL;
  if (path == NULL || !find_calls(&calls, iobind__library_loaded(path))) {
    return IOBIND_OK;
  }
  iobind__context *context = calloc(1, sizeof *context);
  if (context == NULL) {
    return iobind__out_of_memory(error, "devices");
  }
  context->calls = calls;
  context->spec = device->spec;
  context->ordinal = ordinal_of(device);
  atomic_init(&context->primary, NULL);
  int count = 0;
  context->one_of_several = calls.count(&count) == 0 && count > 1;
  if (context->one_of_several) {
    open_any(context);
  }
  *out = context;
  return IOBIND_OK;
}

bool iobind__context_is_one_of_several(const iobind__context *context) {
  return context != NULL && context->one_of_several;
}

void iobind__context_close(iobind__context *context) {
  free(context);
}

/* ---- enter and leave ---- */

iobind_status iobind__context_find_primary(iobind__context *self, void **primary, iobind_error *error) {
  int device = 0;
  *primary = self->ordinal == ANY ? NULL : atomic_load_explicit(&self->primary, memory_order_acquire);
  if (*primary != NULL || self->ordinal == ANY) {
    return IOBIND_OK;
  }
  int failed = self->calls.device(&device, self->ordinal);
  failed = failed != 0 ? failed : self->calls.retain(primary, device);
  if (failed != 0) {
    return iobind__fail(error, IOBIND_ERROR_RUNTIME, "'%s': CUDA error %d: its context cannot be created", self->spec, failed);
  }
  atomic_store_explicit(&self->primary, *primary, memory_order_release);
  return IOBIND_OK;
}

static iobind_status make_current(iobind__context *self, iobind__scope *scope, iobind_error *error) {
  const cuda_calls *calls = &self->calls;
  void *primary;
  IOBIND__TRY(iobind__context_find_primary(self, &primary, error));
  scope->device = -1;
  int failed = calls->get_current(&scope->current);
  if (failed == 0 && scope->current == NULL && (calls->get_device == NULL || calls->get_device(&scope->device) != 0)) {
    scope->device = -1;
  }
  if (failed == 0 && primary != NULL && primary != scope->current) {
    failed = calls->set_current(primary);
  }
  return failed == 0 ? IOBIND_OK
                     : iobind__fail(error, IOBIND_ERROR_RUNTIME, "'%s': CUDA error %d: it cannot be made the current device",
                                    self->spec, failed);
}

static void give_back(const iobind__context *self, const iobind__scope *scope) {
  int now = scope->device;
  (void)self->calls.set_current(scope->current);
  if (scope->device >= 0 && self->calls.get_device(&now) == 0 && now != scope->device) {
    (void)self->calls.set_device(scope->device);
  }
}

iobind_status iobind__context_enter(iobind__context *context, iobind__scope *scope, iobind_error *error) {
  scope->outer = entered;
  if (entered == context || (entered != NULL && context->ordinal == ANY)) {
    return IOBIND_OK; /* the outer scope restores the caller's */
  }
  IOBIND__TRY(make_current(context, scope, error));
  scope->context = context;
  entered = context;
  return IOBIND_OK;
}

void iobind__context_leave(iobind__scope *scope) {
  give_back(scope->context, scope);
  entered = scope->outer;
}

/* ---- after a failure ---- */

/* Queries the size of the memory: this needs only a working context, does not block, and breaks no capture. */
int iobind__context_ask(iobind__context *context) {
  iobind__scope scope;
  size_t available = 0;
  size_t total = 0;
  if (make_current(context, &scope, NULL) != IOBIND_OK) {
    return 0;
  }
  int failed = context->calls.memory(&available, &total);
  give_back(context, &scope);
  return failed;
}

/* ---- checks of the caller's memory and streams ---- */

enum { MEMORY_TYPE = 2, IS_MANAGED = 8, DEVICE_ORDINAL = 9 }; /* CUpointer_attribute */
enum { TYPE_HOST = 1, TYPE_DEVICE = 2 };                      /* CUmemorytype */

/* Managed memory is accepted for each location. */
static iobind_status judge_address(const iobind__context *self, iobind_memory memory, const void *address,
                                   iobind_error *error) {
  const cuda_calls *calls = &self->calls;
  const bool pinned = memory == IOBIND_MEMORY_HOST_ACCESSIBLE;
  const char *suffix = pinned ? "/pinned" : "";
  unsigned type = 0;
  unsigned managed = 0;
  int ordinal = -1;
  if (calls->attribute(&type, MEMORY_TYPE, (uintptr_t)address) != 0) {
    return iobind__fail(error, IOBIND_ERROR_WRONG_DEVICE,
                        "%p: expected memory of '%s%s', got an address that CUDA does not know", address, self->spec, suffix);
  }
  if (calls->attribute(&managed, IS_MANAGED, (uintptr_t)address) == 0 && managed != 0) {
    return IOBIND_OK;
  }
  if (type != (unsigned)(pinned ? TYPE_HOST : TYPE_DEVICE)) {
    return iobind__fail(error, IOBIND_ERROR_WRONG_DEVICE, "%p: expected memory of '%s%s', got %s", address, self->spec, suffix,
                        type == TYPE_HOST ? "pinned memory" : "memory of a GPU");
  }
  if (!pinned && calls->attribute(&ordinal, DEVICE_ORDINAL, (uintptr_t)address) == 0 && ordinal != self->ordinal) {
    return iobind__fail(error, IOBIND_ERROR_WRONG_DEVICE, "%p: expected memory of '%s', got memory of CUDA's device %d",
                        address, self->spec, ordinal);
  }
  return IOBIND_OK;
}

iobind_status iobind__context_check_address(iobind__context *context, iobind_memory memory, const void *address,
                                            iobind_error *error) {
  iobind__scope scope;
  IOBIND__TRY(make_current(context, &scope, error));
  iobind_status status = judge_address(context, memory, address, error);
  give_back(context, &scope);
  return status;
}

iobind_status iobind__context_check_stream(iobind__context *context, void *stream, iobind_error *error) {
  enum { PER_THREAD = 2 };
  iobind__scope scope;
  void *found = NULL;
  if ((uintptr_t)stream <= PER_THREAD) {
    return IOBIND_OK; /* NULL, cudaStreamLegacy, cudaStreamPerThread: these belong to the current device */
  }
  IOBIND__TRY(make_current(context, &scope, error));
  int failed = context->calls.stream_context(stream, &found);
  give_back(context, &scope);
  if (failed != 0) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT,
                        "expected a stream of '%s', got %p, for which CUDA has error %d: was it destroyed?", context->spec,
                        stream, failed);
  }
  return found == atomic_load(&context->primary)
             ? IOBIND_OK
             : iobind__fail(error, IOBIND_ERROR_WRONG_DEVICE, "expected a stream of '%s', got one of another device or context",
                            context->spec);
}

void iobind__context_forget_error(const iobind__context *context) {
  if (context->calls.take_error != NULL) {
    (void)context->calls.take_error();
  }
}

/* ---- calls of which it is unknown which device they use ---- */

iobind__context *iobind__context_of_both(iobind__context *a, iobind__context *b) {
  bool same = a == b || a == NULL || b == NULL || a->ordinal == b->ordinal;
  return same ? (a == NULL ? b : a) : &any_context;
}

const iobind__guard *iobind__guard_of_any(void) {
  return atomic_load(&has_any) ? &any_guard : NULL;
}
