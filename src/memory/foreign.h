/* Calls of the library that the process has loaded for a device, with streams and events that other libraries share with it. None is linked. Each
 * returns 0, or an error that `fail` turns into a message. */
#ifndef IOBIND_MEMORY_FOREIGN_H
#define IOBIND_MEMORY_FOREIGN_H

#include "iobind/interop.h"
#include "memory/stream.h"

enum { IOBIND__FOREIGN_CALLS = 13 };

/* The library's functions, as they were found for one device. */
typedef struct iobind__foreign {
  const struct iobind__foreign_calls *calls;
  void (*found[IOBIND__FOREIGN_CALLS])(void); /* by the driver's own numbers */
  void *context;                              /* in which the calls are made; NULL: in any */
} iobind__foreign;

typedef struct iobind__foreign_calls {
  iobind_status (*find)(iobind__foreign *self, const iobind_stream *stream, iobind_error *error);
  /* The stream that a handle of the caller's means: it must be of the device. NULL: a wrong one is found by recording an event on it. */
  iobind_status (*find_stream)(const iobind__foreign *self, const iobind_device *device, void *given, void **stream,
                               iobind_error *error);
  int (*is_capturing)(const iobind__foreign *self, void *stream, int *capturing); /* NULL: the calls refuse a captured stream */
  int (*create)(const iobind__foreign *self, void **event);
  int (*destroy)(const iobind__foreign *self, void *event);
  int (*record)(const iobind__foreign *self, void *event, void *stream);
  int (*wait)(const iobind__foreign *self, void *stream, void *event);
  iobind_status (*fail)(const iobind__foreign *self, int failed, const char *what, iobind_error *error);
} iobind__foreign_calls;

/* Look functions up by their names. False: one is missing, or there is no library. */
bool iobind__foreign_find(iobind__foreign *self, void *library, const char *const *names, size_t from, size_t to);

iobind_status iobind__foreign_lacks(const iobind_stream *stream, const char *library, iobind_error *error);

/* A driver's use_event, by these calls. */
iobind_status iobind__foreign_use_event(iobind_stream *stream, const iobind_native *event, bool waits, iobind_error *error);

#endif
