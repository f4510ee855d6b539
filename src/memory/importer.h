/* What the EP of a device imports from other libraries and processes, by ORT's interop interface. */
#ifndef IOBIND_MEMORY_IMPORTER_H
#define IOBIND_MEMORY_IMPORTER_H

#include "iobind/interop.h"
#include "runtime/runtime.h"

typedef struct iobind__importer {
  iobind_device *device; /* its runtime is held */
  const OrtInteropApi *api;
  OrtExternalResourceImporter *ort;
} iobind__importer;

/* What is to be imported, checked, and its kind in ORT's numbers. */
typedef struct iobind__imported {
  iobind_external given;
  int32_t ort_kind;
} iobind__imported;

/* Check the caller's struct: of memory, or of a semaphore. */
iobind_status iobind__imported_read(iobind__imported *out, const iobind_external *given, bool memory, const char *what,
                                    iobind_error *error);

/* NOT_SUPPORTED if the EP imports nothing, or nothing of that kind. */
iobind_status iobind__importer_open(iobind_device *device, int32_t kind, iobind__importer *out, const char *what,
                                    iobind_error *error);
void iobind__importer_close(iobind__importer *importer);

#endif
