/* What a device imports from other libraries and processes: by its driver, or by the EP through ORT's interop interface. */
#ifndef IOBIND_MEMORY_IMPORTER_H
#define IOBIND_MEMORY_IMPORTER_H

#include "iobind/interop.h"
#include "runtime/runtime.h"

/* Of one memory, or of one semaphore. */
typedef struct iobind__importer {
  iobind_device *device; /* its runtime is held */
  const struct iobind__import_calls *calls;
  const OrtInteropApi *interop; /* where ORT imports */
  void *own;                    /* what the calls keep */
  void *object;                 /* what was imported; NULL: nothing yet */
} iobind__importer;

/* What is to be imported, checked, and its kind in ORT's numbers. */
typedef struct iobind__imported {
  iobind_external given;
  int32_t ort_kind;
} iobind__imported;

/* All with the device's guard entered. */
typedef struct iobind__import_calls {
  iobind_status (*open)(iobind__importer *self, int32_t kind, const char *what, iobind_error *error); /* or NOT_SUPPORTED */
  void (*close)(iobind__importer *self);
  iobind_status (*take_memory)(iobind__importer *self, const iobind__imported *from, const char *what, iobind_error *error);
  void (*give_memory)(iobind__importer *self);
  /* A value over a part of so many bytes, which lies within the memory. */
  iobind_status (*view)(iobind__importer *self, const OrtExternalTensorDescriptor *part, size_t bytes, OrtValue **value,
                        const char *what, iobind_error *error);
  iobind_status (*take_semaphore)(iobind__importer *self, const iobind__imported *from, const char *what, iobind_error *error);
  void (*give_semaphore)(iobind__importer *self);
  /* Make the stream wait for the value, or raise the semaphore to it. */
  iobind_status (*use)(iobind__importer *self, iobind_stream *stream, uint64_t value, bool waits, const char *what,
                       iobind_error *error);
} iobind__import_calls;

const char *iobind__import_kind_name(int32_t kind);

/* Check the caller's struct: of memory, or of a semaphore. */
iobind_status iobind__imported_read(iobind__imported *out, const iobind_external *given, bool memory, const char *what,
                                    iobind_error *error);

/* NOT_SUPPORTED if the EP imports nothing, or nothing of that kind. */
iobind_status iobind__importer_open(iobind_device *device, int32_t kind, iobind__importer *out, const char *what,
                                    iobind_error *error);
/* After `give`, which frees what was imported; NULL: nothing was. Neither reaches an EP that is not registered any more. */
void iobind__importer_close(iobind__importer *importer, void (*give)(iobind__importer *self));

#endif
