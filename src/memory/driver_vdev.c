/* The virtual accelerator's devices: memory and copies are ORT's, streams and events of other libraries are used by its own library. */
#include "memory/driver.h"
#include "memory/foreign.h"
#include "memory/kind.h"
#include "support/system.h"

enum { CREATE, DESTROY, RECORD, WAIT, LAST_ERROR, ALL };
static const char *const names[ALL] = {
    [CREATE] = "vdev_event_create", [DESTROY] = "vdev_event_destroy", [RECORD] = "vdev_event_record",
    [WAIT] = "vdev_stream_wait",    [LAST_ERROR] = "vdev_last_error",
};

static iobind_status find(iobind__foreign *self, const iobind_stream *stream, iobind_error *error) {
  iobind__runtime_lock(stream->device->runtime);
  const char *path = iobind__device_library(stream->device);
  iobind__runtime_unlock(stream->device->runtime);
  void *library = path == NULL ? NULL : iobind__library_loaded(path);
  return iobind__foreign_find(self, library, names, 0, ALL)
             ? IOBIND_OK
             : iobind__foreign_lacks(stream, "the virtual accelerator's library", error);
}

static int create(const iobind__foreign *self, void **event) {
  *event = ((void *(*)(int))self->found[CREATE])(0); /* where it is recorded says of which device it is */
  return *event == NULL ? -1 : 0;
}

static int destroy(const iobind__foreign *self, void *event) {
  ((void (*)(void *))self->found[DESTROY])(event);
  return 0;
}

static int record(const iobind__foreign *self, void *event, void *stream) {
  return ((int (*)(void *, void *))self->found[RECORD])(event, stream);
}

static int wait_event(const iobind__foreign *self, void *stream, void *event) {
  return ((int (*)(void *, void *))self->found[WAIT])(stream, event);
}

static iobind_status fail(const iobind__foreign *self, int failed, const char *what, iobind_error *error) {
  (void)failed;
  return iobind__fail(error, IOBIND_ERROR_RUNTIME, "%s: %s", what, ((const char *(*)(void))self->found[LAST_ERROR])());
}

static const iobind__foreign_calls calls = {
    .find = find,
    .create = create,
    .destroy = destroy,
    .record = record,
    .wait = wait_event,
    .fail = fail,
};

const iobind__driver iobind__vdev_driver = {
    IOBIND__DRIVEN_BY_ORT, .native = IOBIND_NATIVE_VDEV,           .native_name = "VDEV",
    .foreign = &calls,     .use_event = iobind__foreign_use_event,
};
