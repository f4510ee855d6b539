/* ONNX Runtime as it was loaded, and its statuses turned into ours. The one way in which other rooms see ORT's table. */
#ifndef IOBIND_ORT_API_H
#define IOBIND_ORT_API_H

#include "../../abi/ort_ep.h"
#include "support/error.h"

typedef struct iobind__ort {
  const OrtApi *api;
  uint32_t api_version; /* what the table was asked for: no slot newer than this */
  char *version;        /* "1.31.1" */
  char *path;           /* file of the library, "" where it cannot be told */
  const char *found_by; /* which step of the search found it */
} iobind__ort;

/* Find and load ORT as iobind_runtime_create describes, or attach. Of the three ways to name one, at most one is given. */
iobind_status iobind__ort_find(const char *library, const void *api_base, const void *api, iobind__ort *ort,
                               iobind_error *error);
void iobind__ort_free(iobind__ort *ort); /* the strings; the library stays loaded */

/* Turn ORT's status into ours and release it. The message is "WHAT: ORT's text", without ORT's C++ file names. */
__attribute__((format(printf, 4, 5))) void iobind__ort_error_set(const OrtApi *api, OrtStatus *status, iobind_error *error,
                                                                 const char *format, ...);
#define iobind__ort_fail(api, status, error, ...) \
  (iobind__ort_error_set(api, status, error, __VA_ARGS__), (iobind_status)IOBIND_RUNTIME)

/* Leave the function where a call of ORT failed; the rest of the line names what was being done. */
#define IOBIND__ORT_TRY(api, call, error, ...)                              \
  do {                                                                      \
    OrtStatus *iobind__ort_status = (call);                                 \
    if (iobind__ort_status != NULL) {                                       \
      return iobind__ort_fail(api, iobind__ort_status, error, __VA_ARGS__); \
    }                                                                       \
  } while (0)

#endif
