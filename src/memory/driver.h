/* What a driver does for the memory and streams of a device. A driver does what ORT does not do for the devices of an EP; each EP's row names one,
 * so that iobind__driver_of is the only question about an EP. The files of one driver are called driver_*. */
#ifndef IOBIND_MEMORY_DRIVER_H
#define IOBIND_MEMORY_DRIVER_H

#include "iobind/interop.h"
#include "memory/stream.h"
#include "memory/transfer.h"
#include "runtime/driver.h"

typedef struct iobind__driver {
  /* ---- memory ---- */
  iobind_status (*allocator)(iobind__place *place, OrtAllocator **allocator, iobind_error *error);
  bool allocates_whole; /* the allocator returns no memory that the device cannot hold */
  bool knows_peers;     /* a device of the EP can copy from and to another one */
  /* Copies of one route, of which one side at least is memory of `device`, at most IOBIND__COPY_BATCH. *unknown: it offers none. Complete on
   * return without a stream. */
  iobind_status (*copy)(iobind_device *device, const iobind__transfer *const *transfers, size_t count, iobind_stream *stream,
                        bool *unknown, iobind_error *error);
  /* Block until the device has completed all work submitted so far: for a device with the quirk QUEUES. */
  iobind_status (*wait)(iobind_device *device, iobind_error *error);
  /* A handle that ORT takes for memory of the caller's, until unwrap. NULL: ORT takes its address. */
  iobind_status (*wrap)(iobind_device *device, void *data, size_t bytes, void **handle, iobind_error *error);
  void (*unwrap)(iobind_device *device, void *handle);
  /* The object behind the handle of a tensor; a reference is returned with it. NULL: there is none. */
  iobind_status (*get_native)(iobind_device *device, void *handle, iobind_native *native, iobind_error *error);
  /* Memory and semaphores of other libraries, where the EP is behind ORT's bridge, which imports nothing. NULL: there are none then. */
  const struct iobind__import_calls *imports;

  /* ---- sessions ---- */
  /* Before a session is created: would the EP end the process? NULL: it does not. */
  iobind_status (*check_ready)(const iobind_device *device, iobind_error *error);
  /* A session that iobind has created on the device. It computes on the one queue of the device, whatever stream its run is on. NULL: the
   * driver need not know it. */
  iobind_status (*attach)(iobind_device *device, OrtSession *session, iobind__attachment **attachment, iobind_error *error);
  void (*detach)(iobind__attachment *attachment); /* before ORT's session is released */
  /* Block until the device has completed what iobind has no ticket of: what the EP has queued on a stream of its own while ORT's session was
   * released, and what uses memory from a pool that was exported. NULL: there is none. */
  void (*settle)(iobind_device *device);
  /* Return the memory that the device's allocators keep for later tensors to the driver. NULL: they keep none. */
  iobind_status (*trim)(iobind_device *device, iobind_error *error);

  /* ---- streams ---- */
  const struct iobind__stream_kind *streams;   /* of a device that has streams */
  const struct iobind__foreign_calls *foreign; /* for a stream of another library; NULL: takes none */
  /* Set one of the options that the EP's row has, on a stream that has just been opened. NULL: the row has none. */
  iobind_status (*set_stream_option)(iobind_stream *stream, const char *key, const char *value, iobind_error *error);
  /* Make later work of the stream wait for an event of another library (`waits`), or signal it after all previously submitted work. */
  iobind_status (*use_event)(iobind_stream *stream, const iobind_native *event, bool waits, iobind_error *error);
} iobind__driver;

/* What ORT does, for a driver that leaves it to ORT (and includes kind.h). */
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
