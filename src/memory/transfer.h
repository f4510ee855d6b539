/* Copies between places, and the bytes that they count. */
#ifndef IOBIND_MEMORY_TRANSFER_H
#define IOBIND_MEMORY_TRANSFER_H

#include "memory/stream.h"
#include "runtime/runtime.h"

/* One copy. The values have the same element type and dims; ORT moves them, or we do if both are host memory. */
typedef struct iobind__transfer {
  const iobind__place *from;
  const iobind__place *to;
  const OrtValue *source;
  OrtValue *target;
  const void *source_data;
  void *target_data;
  size_t bytes;
} iobind__transfer;

enum { IOBIND__COPY_BATCH = 16 }; /* copies in one call of ORT */

/* Do all of them: host to host by ourselves, all with the same two devices in one call of ORT, and between devices whose EPs do
 * not know each other through the host. Finished on return if `stream` is NULL. */
iobind_status iobind__transfer_all(iobind_runtime *runtime, const iobind__transfer *transfers, size_t count,
                                   iobind_stream *stream, iobind_error *error);

/* Are two devices of one runtime of the same execution provider? Only then does one know the other's memory and streams. */
bool iobind__same_ep(const iobind_device *a, const iobind_device *b);

#endif
