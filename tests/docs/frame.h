/* What the pieces of C in the documents can count on; quickstart.md shows where it comes from. */
#ifndef IOBIND_TESTS_DOCS_FRAME_H
#define IOBIND_TESTS_DOCS_FRAME_H

#include <iobind/interop.h>
#include <stdio.h>

#define TRY(call) \
  if ((call) != IOBIND_OK) return 1

#define PIECE_PARAMETERS                                                                                                  \
  iobind_runtime *runtime, iobind_device *device, iobind_session *session, iobind_binding *binding, iobind_tensor *image, \
      float *pixels, size_t bytes, const int64_t *dims, size_t rank

typedef struct section {
  int line;
  int (*run)(PIECE_PARAMETERS);
} section;

extern iobind_error error;

extern const section sections[]; /* the last one has no function */

#endif
