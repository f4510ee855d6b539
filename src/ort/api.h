/* ONNX Runtime as it was loaded, and its statuses as ours. Other modules use ORT's table only through this header. */
#ifndef IOBIND_ORT_API_H
#define IOBIND_ORT_API_H

#include "../../abi/ort_ep.h"
#include "support/error.h"

typedef struct iobind__ort {
  const OrtApi *api;
  uint32_t api_version; /* the version of the table: no newer slot may be used */
  char *version;        /* "1.31.1" */
  uint32_t minor;       /* 31 of that: for what a release does and no slot shows */
  char *path;           /* the library's file, "" if it is not known */
  const char *found_by; /* which step of the search found it */
} iobind__ort;

/* Find and load ORT as iobind_runtime_create describes, or attach to it. At most one of the three ways to name one is given. */
iobind_status iobind__ort_find(const char *library, const void *api_base, const void *api, iobind__ort *ort,
                               iobind_error *error);
void iobind__ort_free(iobind__ort *ort); /* frees the strings; the library stays loaded */

/* Has ORT's table the call that releases a captured graph? */
static inline bool iobind__ort_releases_graphs(const iobind__ort *ort) {
  return ort->api_version >= 27;
}

/* Failures that ORT's codes do not tell apart. They are read from its words, only in status.c. */
typedef enum iobind__ort_reason {
  IOBIND__ORT_OTHER = 0,
  IOBIND__ORT_OUT_OF_MEMORY,
  IOBIND__ORT_WRONG_SHAPE,    /* an output does not fit the tensor that was bound to it */
  IOBIND__ORT_WORDS_LOST,     /* DirectML's EP passes on only a number of what ORT said: any of these, or another */
  IOBIND__ORT_COPY_FAILED,    /* between two nodes of a run: the EP waits for its stream there */
  IOBIND__ORT_REGISTERED,     /* an EP library is registered already */
  IOBIND__ORT_CAPTURE_BROKEN, /* another thread's call has ended the capture of a graph */
  IOBIND__ORT_NO_CAPTURE,     /* the model has nodes with which the session cannot capture graphs */
  IOBIND__ORT_NODES_ON_CPU,   /* a node has no device but the CPU, and the session may not use that */
} iobind__ort_reason;

iobind__ort_reason iobind__ort_reason_of(const OrtApi *api, const OrtStatus *status);
bool iobind__ort_says(const OrtApi *api, const OrtStatus *status, const char *words);

/* Turn ORT's status into ours and release it. The result is `as`; but OUT_OF_MEMORY instead of RUNTIME if ORT's words say so.
 * The message is "WHAT: ORT's text", without ORT's C++ file names. */
__attribute__((format(printf, 5, 6))) iobind_status
iobind__ort_error_set(const OrtApi *api, OrtStatus *status, iobind_status as, iobind_error *error, const char *format, ...);

/* Macros for the same reason as iobind__fail. */
#define iobind__ort_fail(api, status, error, ...)                                                             \
  (iobind__ort_error_set(api, status, IOBIND_ERROR_RUNTIME, error, __VA_ARGS__) == IOBIND_ERROR_OUT_OF_MEMORY \
       ? (iobind_status)IOBIND_ERROR_OUT_OF_MEMORY                                                            \
       : (iobind_status)IOBIND_ERROR_RUNTIME)
#define iobind__ort_fail_as(api, status, as, error, ...) \
  ((void)iobind__ort_error_set(api, status, as, error, __VA_ARGS__), (iobind_status)(as))

/* Release the status of a call whose failure changes nothing. NULL is a no-op. */
static inline void iobind__ort_ignore(const OrtApi *api, OrtStatus *status) {
  if (status != NULL) {
    api->ReleaseStatus(status);
  }
}

/* Leave the function if a call of ORT failed; the text says what was being done. */
#define IOBIND__ORT_TRY(api, call, error, ...)                              \
  do {                                                                      \
    OrtStatus *iobind__ort_status = (call);                                 \
    if (iobind__ort_status != NULL) {                                       \
      return iobind__ort_fail(api, iobind__ort_status, error, __VA_ARGS__); \
    }                                                                       \
  } while (0)

#endif
