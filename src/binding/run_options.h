/* The options of a binding's runs. */
#ifndef IOBIND_BINDING_RUN_OPTIONS_H
#define IOBIND_BINDING_RUN_OPTIONS_H

#include "session/session.h"

/* A copy of the caller's run options. */
typedef struct iobind__run_words {
  iobind_run_options options;
  char **texts; /* the strings of `options`: the tag, then keys and values */
  size_t count;
} iobind__run_words;

/* ORT's run options: for a run that is complete on return, and for one that is queued on an EP's stream. */
typedef struct iobind__ort_options {
  OrtRunOptions *now;    /* NULL: not created */
  OrtRunOptions *queued; /* NULL: the session takes no stream */
} iobind__ort_options;

/* The caller's run options, in both forms. */
typedef struct iobind__settings {
  iobind__run_words words;
  iobind__ort_options ort;
} iobind__settings;

/* How ORT executes a run. */
typedef struct iobind__execution {
  OrtRunOptions *options;
  iobind_stream *stream;       /* the EP's stream to which ORT submits; NULL: ORT waits for the run */
  const iobind_device *device; /* of the stream, the EP's or a worker's, that orders the run; NULL: none does */
  bool is_counted;             /* the run reads the lengths that iobind wrote for it */
} iobind__execution;

/* Do the options ask for a run without a graph? */
bool iobind__run_options_want_no_graph(const iobind_run_options *options);

/* `graph`: the number of a graph; NULL: none. */
iobind_status iobind__ort_options_make(const iobind_session *session, const iobind_run_options *options, const char *graph,
                                       const char *what, iobind__ort_options *out, iobind_error *error);
void iobind__ort_options_release(const iobind_session *session, iobind__ort_options *self);

void iobind__run_options_free(iobind_binding *binding);

#endif
