/* Failures of calls: a call returns the status, and writes the message to the caller's iobind_error. */
#ifndef IOBIND_SUPPORT_ERROR_H
#define IOBIND_SUPPORT_ERROR_H

#include "iobind/iobind.h"

/* Return the status of a call that failed. */
#define IOBIND__TRY(expression)                  \
  do {                                           \
    iobind_status iobind__status = (expression); \
    if (iobind__status != IOBIND_OK) {           \
      return iobind__status;                     \
    }                                            \
  } while (0)

/* Fill `error` (may be NULL). The message becomes one line; a message that is too long is cut at a character. */
__attribute__((format(printf, 4, 5))) void iobind__error_set(iobind_error *error, iobind_status status, int32_t ort_code,
                                                             const char *format, ...);

/* Copy a stored failure into the caller's struct, whose size may differ, and return its status. */
iobind_status iobind__error_copy(iobind_error *error, const iobind_error *kept);

/* Put the name of the public function that failed before the message, unless the message begins with one. Code that several
 * functions share does not know its caller. A message of an earlier failure, such as of a run for which a call waits, keeps
 * its name. */
void iobind__error_name(iobind_error *error, const char *function);

/* The same for the status of a call that may have failed; returns the status. */
static inline iobind_status iobind__named(iobind_status status, iobind_error *error, const char *function) {
  if (status != IOBIND_OK) {
    iobind__error_name(error, function);
  }
  return status;
}

/* The same if a public function calls another one: `function` replaces that one's name. */
void iobind__error_rename(iobind_error *error, const char *function);
static inline iobind_status iobind__renamed(iobind_status status, iobind_error *error, const char *function) {
  if (status != IOBIND_OK) {
    iobind__error_rename(error, function);
  }
  return status;
}

/* The message without the name of a function. */
const char *iobind__error_text(const iobind_error *error);

/* Fill `error`; the value is the status. These are macros so that a static analyser sees that the status is not OK. */
#define iobind__fail(error, status, ...) (iobind__error_set(error, status, 0, __VA_ARGS__), (iobind_status)(status))
#define iobind__out_of_memory(error, what) iobind__fail(error, IOBIND_ERROR_OUT_OF_MEMORY, "%s: out of host memory", what)

/* INVALID_ARGUMENT for an argument that is NULL. */
static inline iobind_status iobind__null_check(const void *argument, const char *name, const char *what, iobind_error *error) {
  return argument != NULL ? IOBIND_OK : iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "%s: %s is NULL", what, name);
}

#endif
