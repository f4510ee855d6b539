/* A loaded ONNX Runtime, and the translation of its statuses. Other modules include ORT's table only through this header. */
#ifndef IOBIND_ORT_API_H
#define IOBIND_ORT_API_H

#include "../../abi/ort_ep.h"
#include "support/error.h"

typedef struct iobind__ort {
  const OrtApi *api;
  uint32_t api_version; /* the version of the table: newer slots must not be used */
  char *version;        /* "1.31.1" */
  uint32_t minor;       /* 31 of that: for behaviour of a release that no slot shows */
  char *path;           /* the library's file; "": unknown */
  const char *found_by; /* the step of the search that found it */
} iobind__ort;

/* Find and load ORT as iobind_runtime_create describes, or attach to it. At most one of `library`, `api_base` and `api` is not
 * NULL. */
iobind_status iobind__ort_find(const char *library, const void *api_base, const void *api, iobind__ort *ort,
                               iobind_error *error);
void iobind__ort_free(iobind__ort *ort); /* frees the strings; the library remains loaded */

/* Does ORT's table have the function that releases a captured graph? */
static inline bool iobind__ort_releases_graphs(const iobind__ort *ort) {
  return ort->api_version >= 27;
}

/* Failures that ORT's codes do not distinguish. Only status.c recognises them, by the message. */
typedef enum iobind__ort_reason {
  IOBIND__ORT_OTHER = 0,
  IOBIND__ORT_OUT_OF_MEMORY,
  IOBIND__ORT_WRONG_SHAPE,    /* an output does not fit the tensor that was bound to it */
  IOBIND__ORT_WORDS_LOST,     /* DirectML's EP has replaced ORT's message by a number: any of these, or another */
  IOBIND__ORT_COPY_FAILED,    /* a copy between two nodes of a run, in which the EP waits for its stream */
  IOBIND__ORT_REGISTERED,     /* an EP library is already registered */
  IOBIND__ORT_CAPTURE_BROKEN, /* another thread's call has ended the capture of a graph */
  IOBIND__ORT_NO_CAPTURE,     /* the session cannot capture graphs with some nodes of the model */
  IOBIND__ORT_NODES_ON_CPU,   /* a node would run on the CPU, which the session may not use */
} iobind__ort_reason;

iobind__ort_reason iobind__ort_reason_of(const OrtApi *api, const OrtStatus *status);
bool iobind__ort_says(const OrtApi *api, const OrtStatus *status, const char *words);

/* Translate ORT's status, and release it. Returns `as`; if that is RUNTIME and ORT's message is about memory, OUT_OF_MEMORY.
 * The message is "WHAT: ORT's text", without places in ORT's source. */
__attribute__((format(printf, 5, 6))) iobind_status
iobind__ort_error_set(const OrtApi *api, OrtStatus *status, iobind_status as, iobind_error *error, const char *format, ...);

/* Macros for the same reason as iobind__fail. */
#define iobind__ort_fail(api, status, error, ...)                                                             \
  (iobind__ort_error_set(api, status, IOBIND_ERROR_RUNTIME, error, __VA_ARGS__) == IOBIND_ERROR_OUT_OF_MEMORY \
       ? (iobind_status)IOBIND_ERROR_OUT_OF_MEMORY                                                            \
       : (iobind_status)IOBIND_ERROR_RUNTIME)
#define iobind__ort_fail_as(api, status, as, error, ...) \
  ((void)iobind__ort_error_set(api, status, as, error, __VA_ARGS__), (iobind_status)(as))

/* Release the status of a call whose failure does not matter. NULL is a no-op. */
static inline void iobind__ort_ignore(const OrtApi *api, OrtStatus *status) {
  if (status != NULL) {
    api->ReleaseStatus(status);
  }
}

/* Return from the function if a call of ORT failed. The text begins the message. */
#define IOBIND__ORT_TRY(api, call, error, ...)                              \
  do {                                                                      \
    OrtStatus *iobind__ort_status = (call);                                 \
    if (iobind__ort_status != NULL) {                                       \
      return iobind__ort_fail(api, iobind__ort_status, error, __VA_ARGS__); \
    }                                                                       \
  } while (0)

#endif
