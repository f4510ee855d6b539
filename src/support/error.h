/* How a call fails: the status goes back, the words go into the caller's iobind_error. */
#ifndef IOBIND_SUPPORT_ERROR_H
#define IOBIND_SUPPORT_ERROR_H

#include "iobind/iobind.h"

/* Leave the function with the status of a call that failed. */
#define IOBIND__TRY(expression)                        \
  do {                                                 \
    iobind_status iobind__status = (expression);       \
    if (iobind__status != IOBIND_OK) {                 \
      return iobind__status;                           \
    }                                                  \
  } while (0)

/* Fill `error` (may be NULL) and return `status`. The message becomes one line; what is too long is cut at a character. */
__attribute__((format(printf, 3, 4))) iobind_status iobind__fail(iobind_error *error, iobind_status status,
                                                                 const char *format, ...);

/* The same with the code of ORT's status. */
__attribute__((format(printf, 3, 4))) iobind_status iobind__fail_ort(iobind_error *error, int32_t ort_code,
                                                                     const char *format, ...);

iobind_status iobind__out_of_memory(iobind_error *error, const char *what);

#endif
