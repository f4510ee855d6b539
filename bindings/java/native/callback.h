/* Callbacks into a JVM, which ends before the process does. A thread that calls into it afterwards ends the process, and threads of
 * ORT and of streams work until the process is gone. So libiobind is given one of these functions, with a struct as its context. */
#ifndef IOBIND_JAVA_CALLBACK_H
#define IOBIND_JAVA_CALLBACK_H

#include "iobind/runtime.h"

#ifdef _WIN32
#define IOBIND_JAVA_API __declspec(dllexport)
#else
#define IOBIND_JAVA_API __attribute__((visibility("default")))
#endif

enum {
  IOBIND_JAVA_ENDED = 1 /* the lowest bit of `calls`: no more call is let through */
};

/* `calls` is twice the calls that were let through, in memory that is never freed, for any number of callbacks. Setting
 * IOBIND_JAVA_ENDED in it atomically ends them. The value before has the number of calls that were let through: each has begun, or is
 * about to, and the JVM waits for them. */
typedef struct iobind_java_callback {
  uint64_t *calls;
  iobind_log_function log; /* for iobind_java_log */
  iobind_deleter deleter;  /* for iobind_java_delete */
  void *context;           /* passed to `log` or `deleter` */
} iobind_java_callback;

/* Calls `log` of an iobind_java_callback, unless the callbacks have ended: an iobind_log_function. */
IOBIND_JAVA_API void iobind_java_log(void *context, int32_t level, const char *message);

/* Calls `deleter` of an iobind_java_callback, which may free it, unless the callbacks have ended: an iobind_deleter. */
IOBIND_JAVA_API void iobind_java_delete(void *context, void *data);

#endif
