/* What a session's shadow is loaded from, until it is: the model, and the options that its results depend on. */
#ifndef IOBIND_SESSION_RECIPE_H
#define IOBIND_SESSION_RECIPE_H

#include "session/create.h"
#include "session/kind.h"

typedef struct iobind__recipe iobind__recipe;

/* With a copy of the options, and of the bytes of a model in memory, which are the caller's to free. */
iobind_status iobind__recipe_create(const iobind__source *from, const iobind_session_options *options, iobind__recipe **out,
                                    iobind_error *error);
void iobind__recipe_destroy(iobind__recipe *self); /* NULL is a no-op */

/* What is loaded. */
typedef struct iobind__served {
  iobind_session *session;
  iobind__kind *kinds; /* of the outputs, which the caller frees */
} iobind__served;

/* A session on the CPU, of the model that `of` was loaded from. IO if its files are other ones now. */
iobind_status iobind__recipe_load(const iobind__recipe *self, const iobind_session *of, iobind__served *out,
                                  iobind_error *error);

#endif
