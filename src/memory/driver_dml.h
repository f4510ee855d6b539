/* What the two files of DirectML's driver share: see runtime/driver_dml.h. */
#ifndef IOBIND_MEMORY_DRIVER_DML_H
#define IOBIND_MEMORY_DRIVER_DML_H

#include "memory/driver.h"
#include "runtime/driver_dml.h"

extern const struct iobind__stream_kind iobind__dml_stream;

/* Submit copies to a stream of that kind. */
iobind_status iobind__dml_stream_copy(iobind_stream *stream, const iobind__buffer_copy *copies, size_t count,
                                      iobind_error *error);

/* Wait for a fence of the caller, or signal it. INVALID_STATE: a wait for a value that no submitted work is known to signal. */
iobind_status iobind__dml_use_fence(iobind_stream *stream, const iobind_native *fence, bool waits, iobind_error *error);

#endif
