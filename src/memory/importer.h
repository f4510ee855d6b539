/* Imports memory and semaphores of other libraries and processes: by the device's driver, or by the EP through ORT's interop
 * interface. */
#ifndef IOBIND_MEMORY_IMPORTER_H
#define IOBIND_MEMORY_IMPORTER_H

#include "iobind/interop.h"
#include "runtime/runtime.h"

/* Imports one memory or one semaphore. */
typedef struct iobind__importer {
  iobind_device *device; /* its runtime is retained */
  const struct iobind__import_calls *calls;
  const OrtInteropApi *interop; /* if ORT imports; otherwise NULL */
  void *own;                    /* the calls' own data */
  void *object;                 /* what was imported; NULL: nothing yet */
} iobind__importer;

/* What is to be imported, checked, and its kind in ORT's numbers. */
typedef struct iobind__imported {
  iobind_external given;
  int32_t ort_kind;
} iobind__imported;

/* Called inside the device's guard. */
typedef struct iobind__import_calls {
  iobind_status (*open)(iobind__importer *self, int32_t kind, const char *what,
                        iobind_error *error); /* may return NOT_SUPPORTED */
  void (*close)(iobind__importer *self);
  iobind_status (*take_memory)(iobind__importer *self, const iobind__imported *from, const char *what, iobind_error *error);
  void (*give_memory)(iobind__importer *self);
  /* A value for a part of the memory, with this size in bytes. */
  iobind_status (*view)(iobind__importer *self, const OrtExternalTensorDescriptor *part, size_t bytes, OrtValue **value,
                        const char *what, iobind_error *error);
  iobind_status (*take_semaphore)(iobind__importer *self, const iobind__imported *from, const char *what, iobind_error *error);
  void (*give_semaphore)(iobind__importer *self);
  /* Make the stream wait for the value, or raise the semaphore to it. */
  iobind_status (*use)(iobind__importer *self, iobind_stream *stream, uint64_t value, bool waits, const char *what,
                       iobind_error *error);
} iobind__import_calls;

const char *iobind__import_kind_name(int32_t kind);

/* Read and check the caller's struct, for memory or for a semaphore. */
iobind_status iobind__imported_read(iobind__imported *out, const iobind_external *given, bool memory, const char *what,
                                    iobind_error *error);

/* NOT_SUPPORTED if the EP imports nothing, or nothing of that kind. */
iobind_status iobind__importer_open(iobind_device *device, int32_t kind, iobind__importer *out, const char *what,
                                    iobind_error *error);
/* Close it after `give`, which frees what was imported (NULL: nothing). If the EP is no longer registered, neither is called. */
void iobind__importer_close(iobind__importer *importer, void (*give)(iobind__importer *self));

#endif
