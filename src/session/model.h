/* What a session was loaded from, and what identifies the model. */
#ifndef IOBIND_SESSION_MODEL_H
#define IOBIND_SESSION_MODEL_H

#include "session/kind.h"
#include "session/source.h"
#include "support/error.h"
#include "support/hash.h"

typedef struct iobind__model iobind__model;

/* Equal for the same model, wherever its files are. */
typedef struct iobind__identity {
  uint64_t bytes; /* of the model's file */
  iobind__hash hash;
  uint64_t data_bytes; /* of the files with its external data; 0: none */
  iobind__hash data_hash;
} iobind__identity;

/* The file as it is now, or the bytes, which are read now; the session is loaded after that. */
iobind_status iobind__model_note(const iobind__source *from, iobind__model **out, iobind_error *error);
void iobind__model_forget(iobind__model *self); /* NULL is a no-op */

/* What it was loaded from; NULL: from memory, or not known. */
const char *iobind__model_path(const iobind__model *self);

/* Of a file: from now on its files must stay what they are. Before the session is loaded. */
iobind_status iobind__model_watch(iobind__model *self, iobind_error *error);

/* Are they? IO if not: by their sizes, their times and their numbers in the file system. */
iobind_status iobind__model_check(const iobind__model *self, iobind_error *error);

/* The same for those with external data, which a session on the CPU reads in each run. NULL, or a model in memory: OK. */
iobind_status iobind__model_check_data(const iobind__model *self, iobind_error *error);

/* Does the model name files with external data? */
iobind_status iobind__source_has_data(const iobind__source *from, bool *has, iobind_error *error);

/* Read the model's files, unless that was done. IO if they have changed since then. */
iobind_status iobind__model_identify(iobind__model *self, iobind__identity *identity, iobind_error *error);

/* The kind of each output of the session that was loaded from it. The file is read in the first call; IO as above. NULL: not known, because
 * the model was in memory, and not read at that time. */
iobind_status iobind__model_find_kinds(iobind__model *self, const iobind_session *session, const iobind__kind **kinds,
                                       iobind_error *error);

/* Find the kinds of a model in memory, while its bytes exist. */
iobind_status iobind__model_note_kinds(iobind__model *self, const iobind__source *from, const iobind_session *session,
                                       iobind_error *error);

#endif
