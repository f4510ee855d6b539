/* The model that a session is loaded from. */
#ifndef IOBIND_SESSION_SOURCE_H
#define IOBIND_SESSION_SOURCE_H

#include "session/session.h"
#include "support/system.h"

typedef struct iobind__source {
  const char *path; /* NULL: from memory */
  iobind__path_char *native;
  const void *model;
  size_t bytes;
} iobind__source;

/* *refused is ORT's failure, which has no message yet. */
iobind_status iobind__source_load(const iobind__source *from, iobind_session *session, const iobind_session_options *options,
                                  const OrtSessionOptions *ort_options, OrtStatus **refused, iobind_error *error);

/* ORT has refused it: the message. */
iobind_status iobind__source_refused(const iobind__source *from, iobind_runtime *runtime, const iobind_session_options *options,
                                     OrtStatus *failed, iobind_error *error);

#endif
