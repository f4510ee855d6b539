/* Copies between memory locations, with counters of the bytes. */
#ifndef IOBIND_MEMORY_TRANSFER_H
#define IOBIND_MEMORY_TRANSFER_H

#include "memory/stream.h"
#include "runtime/runtime.h"

/* One copy. The values have the same element type and dims. */
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

/* Copy all. None may write what another one reads or writes. iobind itself copies from host to host. ORT copies those between the
 * same two memory locations in one call. Copies between devices of different EPs go through the host. If `stream` is NULL, the
 * copies are complete on return. */
iobind_status iobind__transfer_all(iobind_runtime *runtime, const iobind__transfer *transfers, size_t count,
                                   iobind_stream *stream, iobind_error *error);

/* Are two devices of one runtime of the same EP? Only then can one use the other's memory and streams. */
bool iobind__same_ep(const iobind_device *a, const iobind_device *b);

#endif
