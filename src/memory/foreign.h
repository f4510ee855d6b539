/* Calls into the library that owns a device's native streams and events, such as NVIDIA's driver, so that other libraries'
 * streams and events can be used. The process has loaded the library; iobind links none. Each call returns 0, or an error that
 * `fail` turns into a message. */
#ifndef IOBIND_MEMORY_FOREIGN_H
#define IOBIND_MEMORY_FOREIGN_H

#include "iobind/interop.h"
#include "memory/stream.h"

enum { IOBIND__FOREIGN_CALLS = 13 };

/* The library's functions, found for one device. */
typedef struct iobind__foreign {
  const struct iobind__foreign_calls *calls;
  void (*found[IOBIND__FOREIGN_CALLS])(void); /* indexed by the driver's enum */
  void *context;                              /* the context that must be current in the calls; NULL: any */
} iobind__foreign;

typedef struct iobind__foreign_calls {
  iobind_status (*find)(iobind__foreign *self, const iobind_stream *stream, iobind_error *error);
  /* The stream of the caller's handle; it must belong to the device. NULL: recording an event fails for a wrong one. */
  iobind_status (*find_stream)(const iobind__foreign *self, const iobind_device *device, void *given, void **stream,
                               iobind_error *error);
  int (*is_capturing)(const iobind__foreign *self, void *stream, int *capturing); /* NULL: the other calls fail if it is */
  int (*create)(const iobind__foreign *self, void **event);
  int (*destroy)(const iobind__foreign *self, void *event);
  int (*record)(const iobind__foreign *self, void *event, void *stream);
  int (*wait)(const iobind__foreign *self, void *stream, void *event);
  iobind_status (*fail)(const iobind__foreign *self, int failed, const char *what, iobind_error *error);
} iobind__foreign_calls;

/* Look up the functions `from` to `to` - 1. False: one is missing, or `library` is NULL. */
bool iobind__foreign_find(iobind__foreign *self, void *library, const char *const *names, size_t from, size_t to);

iobind_status iobind__foreign_lacks(const iobind_stream *stream, const char *library, iobind_error *error);

/* A driver's use_event, made of these calls. */
iobind_status iobind__foreign_use_event(iobind_stream *stream, const iobind_native *event, bool waits, iobind_error *error);

#endif
