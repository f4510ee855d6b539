/* A driver: functions for the memory and streams of an EP's devices that ORT lacks. The EP's row names its driver, so that
 * iobind__driver_of is the only place that distinguishes EPs. The files of a driver are named driver_*. */
#ifndef IOBIND_MEMORY_DRIVER_H
#define IOBIND_MEMORY_DRIVER_H

#include "iobind/interop.h"
#include "memory/stream.h"
#include "memory/transfer.h"
#include "runtime/driver.h"

typedef struct iobind__driver {
  /* ---- memory ---- */
  iobind_status (*allocator)(iobind__place *place, OrtAllocator **allocator, iobind_error *error);
  bool allocates_whole; /* the allocator never returns more memory than the device can hold */
  bool knows_peers;     /* devices of the EP can copy to each other */
  /* Copy between two memory locations, at least one of which is the device's; at most IOBIND__COPY_BATCH copies. *unknown: the
   * EP offers no such copy. Without a stream the copies are complete on return. */
  iobind_status (*copy)(iobind_device *device, const iobind__transfer *const *transfers, size_t count, iobind_stream *stream,
                        bool *unknown, iobind_error *error);
  /* Block until the device has completed all previously submitted work. Called only for devices with the quirk QUEUES. */
  iobind_status (*wait)(iobind_device *device, iobind_error *error);
  /* Make a handle by which ORT accesses the caller's memory; it is valid until unwrap. NULL: ORT takes the address itself. */
  iobind_status (*wrap)(iobind_device *device, void *data, size_t bytes, void **handle, iobind_error *error);
  void (*unwrap)(iobind_device *device, void *handle);
  /* The native object behind a tensor's handle, with a reference for the caller. NULL: there are no such objects. */
  iobind_status (*get_native)(iobind_device *device, void *handle, iobind_native *native, iobind_error *error);
  /* Import memory and semaphores of other libraries. Used if the EP is behind ORT's bridge, which imports nothing. NULL: it
   * cannot. */
  const struct iobind__import_calls *imports;

  /* ---- sessions ---- */
  /* Called before a session is created: fails where the EP would end the process. NULL: it never does. */
  iobind_status (*check_ready)(const iobind_device *device, iobind_error *error);
  /* Register a session on the device. NULL: the driver need not know sessions. */
  iobind_status (*attach)(iobind_device *device, OrtSession *session, iobind__attachment **attachment, iobind_error *error);
  void (*detach)(iobind__attachment *attachment); /* before ORT's session is released */
  /* Block until the device has completed the work for which iobind has no ticket: what the EP queued on its own stream while
   * ORT's session was released, and what uses exported memory of a pool. NULL: there is none. */
  void (*settle)(iobind_device *device);
  /* Release the free memory that the device's allocators keep for later tensors. NULL: they keep none. */
  iobind_status (*trim)(iobind_device *device, iobind_error *error);

  /* ---- streams ---- */
  const struct iobind__stream_kind *streams;   /* the kind of the device's streams, if it has any */
  const struct iobind__foreign_calls *foreign; /* for streams of another library; NULL: the device takes none */
  /* Set an option of the EP's row on a stream that has just been opened. NULL: the row has none. */
  iobind_status (*set_stream_option)(iobind_stream *stream, const char *key, const char *value, iobind_error *error);
  /* Make later work of the stream wait for an event of another library (`waits`), or signal that event after all previously
   * submitted work. */
  iobind_status (*use_event)(iobind_stream *stream, const iobind_native *event, bool waits, iobind_error *error);
} iobind__driver;

/* ORT's own functions, for drivers that use them (and include kind.h). */
iobind_status iobind__ort_allocator(iobind__place *place, OrtAllocator **allocator, iobind_error *error);
iobind_status iobind__ort_copy(iobind_device *device, const iobind__transfer *const *transfers, size_t count,
                               iobind_stream *stream, bool *unknown, iobind_error *error);
iobind_status iobind__ort_wait(iobind_device *device, iobind_error *error);
#define IOBIND__DRIVEN_BY_ORT                                                                                  \
  .allocator = iobind__ort_allocator, .knows_peers = true, .copy = iobind__ort_copy, .wait = iobind__ort_wait, \
  .streams = &iobind__ep_stream

extern const iobind__driver iobind__ort_driver;
extern const iobind__driver iobind__cuda_driver;
extern const iobind__driver iobind__direct3d_driver;
extern const iobind__driver iobind__library_driver;
extern const struct iobind__import_calls iobind__cuda_imports; /* a part of its driver */

const iobind__driver *iobind__driver_of(const iobind_device *device);

/* The kind of native handles that the device takes and returns. */
iobind__native iobind__native_of(const iobind_device *device);

#endif
