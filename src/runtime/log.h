/* Passes log lines of iobind and ORT to the callback of the runtime's options. */
#ifndef IOBIND_RUNTIME_LOG_H
#define IOBIND_RUNTIME_LOG_H

#include "ort/api.h"

typedef struct iobind__log iobind__log;

iobind__log *iobind__log_create(const OrtApi *api, iobind_log_function function, void *context,
                                int32_t level); /* NULL: out of memory */

/* No line is passed on after this. The object is not freed: a host program that shares ORT's environment retains ORT's logger,
 * which points to it. */
void iobind__log_close(iobind__log *log);

OrtLoggingLevel iobind__log_ort_level(int32_t level);

__attribute__((format(printf, 3, 4))) void iobind__log_line(iobind__log *log, int32_t level, const char *format, ...);

/* ORT's logging function; `param` is the iobind__log. */
void ORT_CALL iobind__log_from_ort(void *param, OrtLoggingLevel severity, const char *category, const char *logid,
                                   const char *code_location, const char *message);

#endif
