/* Semaphores of other libraries and processes; an EP's streams wait for them and signal them. */
#include <stdlib.h>

#include "memory/importer.h"
#include "memory/stream.h"

struct iobind_semaphore {
  iobind__ref ref;
  iobind__importer importer;
};

static void semaphore_destroy(iobind__ref *ref) {
  iobind_semaphore *semaphore = (iobind_semaphore *)ref;
  iobind__importer *importer = &semaphore->importer;
  iobind__importer_close(importer, importer->object == NULL ? NULL : importer->calls->give_semaphore);
  free(semaphore);
}

static iobind_status import(iobind_device *device, const iobind__imported *from, iobind_semaphore **out, const char *what,
                            iobind_error *error) {
  iobind_semaphore *semaphore = calloc(1, sizeof *semaphore);
  if (semaphore == NULL) {
    return iobind__out_of_memory(error, what);
  }
  iobind__ref_init(&semaphore->ref, semaphore_destroy);
  iobind__importer *importer = &semaphore->importer;
  iobind_status status = iobind__importer_open(device, from->given.kind, importer, what, error);
  if (status != IOBIND_OK) {
    free(semaphore);
    return status;
  }
  iobind__scope scope;
  status = iobind__named(iobind__guard_enter(device->guard, &scope, error), error, what);
  if (status == IOBIND_OK) {
    status = iobind__guard_end(&scope, importer->calls->take_semaphore(importer, from, what, error), error);
  }
  if (status != IOBIND_OK) {
    iobind__ref_release(&semaphore->ref);
    return status;
  }
  *out = semaphore;
  return IOBIND_OK;
}

iobind_status iobind_semaphore_import(iobind_device *device, const iobind_external *external, iobind_semaphore **semaphore,
                                      iobind_error *error) {
  if (semaphore != NULL) {
    *semaphore = NULL;
  }
  IOBIND__TRY(iobind__null_check(device, "device", "semaphore_import", error));
  IOBIND__TRY(iobind__null_check(semaphore, "semaphore", "semaphore_import", error));
  IOBIND__TRY(iobind__process_check("semaphore_import", error));
  iobind__imported from;
  IOBIND__TRY(iobind__imported_read(&from, external, false, "semaphore_import", error));
  return import(device, &from, semaphore, "semaphore_import", error);
}

void iobind_semaphore_destroy(iobind_semaphore *semaphore) {
  if (semaphore != NULL) {
    iobind__ref_release(&semaphore->ref);
  }
}

static iobind_status use(iobind_stream *stream, iobind_semaphore *semaphore, uint64_t value, bool waits, const char *what,
                         iobind_error *error) {
  IOBIND__TRY(iobind__null_check(stream, "stream", what, error));
  IOBIND__TRY(iobind__null_check(semaphore, "semaphore", what, error));
  IOBIND__TRY(iobind__process_check(what, error));
  iobind__importer *importer = &semaphore->importer;
  iobind_device *device = importer->device;
  if (stream->device != device) {
    return iobind__fail(error, IOBIND_ERROR_WRONG_DEVICE,
                        "%s: expected a stream of '%s', which has imported the semaphore, got one of '%s'", what, device->spec,
                        stream->device->spec);
  }
  if (iobind__stream_ort(stream) == NULL) {
    return iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED, "%s: '%s' has no streams of its own", what, device->spec);
  }
  IOBIND__TRY(iobind__named(waits ? iobind__bridge_check(stream, error) : iobind__stream_enter(stream, error), error, what));
  const iobind__submission submission = iobind__stream_begin(stream);
  iobind__scope scope;
  IOBIND__TRY(iobind__named(iobind__guard_enter(device->guard, &scope, error), error, what));
  IOBIND__TRY(iobind__guard_end(&scope, importer->calls->use(importer, stream, value, waits, what, error), error));
  iobind__ref_retain(&semaphore->ref); /* until the work is complete */
  iobind__stream_retire(stream, iobind__submission_ticket(&submission), &semaphore->ref);
  return waits ? iobind__named(iobind__stream_leave(stream, error), error, what) : IOBIND_OK;
}

iobind_status iobind_stream_wait_semaphore(iobind_stream *stream, iobind_semaphore *semaphore, uint64_t value,
                                           iobind_error *error) {
  return use(stream, semaphore, value, true, "stream_wait_semaphore", error);
}

iobind_status iobind_stream_signal_semaphore(iobind_stream *stream, iobind_semaphore *semaphore, uint64_t value,
                                             iobind_error *error) {
  return use(stream, semaphore, value, false, "stream_signal_semaphore", error);
}
