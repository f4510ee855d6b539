/* The driver for EPs whose own library exports functions for native streams and events. Their names are in the EP's row. ORT
 * does memory and copies. */
#include "memory/driver.h"
#include "memory/foreign.h"
#include "memory/kind.h"
#include "support/system.h"

_Static_assert((int)IOBIND__NATIVE_CALLS <= (int)IOBIND__FOREIGN_CALLS, "every call has a number");

static iobind_status find(iobind__foreign *self, const iobind_stream *stream, iobind_error *error) {
  iobind__runtime_lock(stream->device->runtime);
  const char *path = iobind__device_library(stream->device);
  iobind__runtime_unlock(stream->device->runtime);
  void *library = path == NULL ? NULL : iobind__library_loaded(path);
  return iobind__foreign_find(self, library, stream->device->ep->native.calls, 0, IOBIND__NATIVE_CALLS)
             ? IOBIND_OK
             : iobind__foreign_lacks(stream, "the execution provider's library", error);
}

static int create(const iobind__foreign *self, void **event) {
  *event = ((void *(*)(int))self->found[IOBIND__NATIVE_EVENT_CREATE])(0); /* recording it on a stream selects its device */
  return *event == NULL ? -1 : 0;
}

static int destroy(const iobind__foreign *self, void *event) {
  ((void (*)(void *))self->found[IOBIND__NATIVE_EVENT_DESTROY])(event);
  return 0;
}

static int record(const iobind__foreign *self, void *event, void *stream) {
  return ((int (*)(void *, void *))self->found[IOBIND__NATIVE_EVENT_RECORD])(event, stream);
}

static int wait_event(const iobind__foreign *self, void *stream, void *event) {
  return ((int (*)(void *, void *))self->found[IOBIND__NATIVE_STREAM_WAIT])(stream, event);
}

static iobind_status fail(const iobind__foreign *self, int failed, const char *what, iobind_error *error) {
  (void)failed;
  const char *reason = ((const char *(*)(void))self->found[IOBIND__NATIVE_LAST_ERROR])();
  return iobind__fail(error, IOBIND_ERROR_RUNTIME, "%s: %s", what, reason);
}

static const iobind__foreign_calls calls = {
    .find = find,
    .create = create,
    .destroy = destroy,
    .record = record,
    .wait = wait_event,
    .fail = fail,
};

const iobind__driver iobind__library_driver = {
    IOBIND__DRIVEN_BY_ORT,
    .foreign = &calls,
    .use_event = iobind__foreign_use_event,
};
