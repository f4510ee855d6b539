/* Free dimension overrides: does the model have a dim of that name? */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "session/session.h"

/* ONNX and ORT files keep the name of a dim as it is, so a name that is nowhere in the bytes is no dim's. */
static bool contains(const char *bytes, size_t size, const char *name) {
  size_t length = strlen(name);
  const char *at = bytes;
  size_t left = size;
  while (length > 0 && left >= length) {
    const char *found = memchr(at, name[0], left - length + 1);
    if (found == NULL) {
      return false;
    }
    if (memcmp(found, name, length) == 0) {
      return true;
    }
    left -= (size_t)(found + 1 - at);
    at = found + 1;
  }
  return false;
}

/* The same over a file, in pieces that overlap by the name's length. */
static bool file_contains(const char *path, const char *name, iobind_status *status, iobind_error *error) {
  enum { PIECE = 1 << 16, LONGEST = 1 << 10 };
  size_t overlap = strlen(name);
  FILE *file = overlap > LONGEST ? NULL : fopen(path, "rb");
  char *piece = file == NULL ? NULL : malloc(PIECE + LONGEST);
  bool found = false;
  if (file == NULL) {
    *status = overlap > LONGEST ? IOBIND_OK : iobind__fail(error, IOBIND_IO, "session_create: '%s' cannot be read", path);
  } else if (piece == NULL) {
    *status = iobind__out_of_memory(error, "session_create");
  } else {
    size_t kept = 0;
    for (size_t got; !found && (got = fread(piece + kept, 1, PIECE, file)) > 0;) {
      found = contains(piece, kept + got, name);
      size_t keep = kept + got < overlap ? kept + got : overlap;
      memmove(piece, piece + kept + got - keep, keep);
      kept = keep;
    }
  }
  free(piece);
  if (file != NULL) {
    fclose(file);
  }
  return found;
}

iobind_status iobind__session_check_dims(const iobind_session_options *options, const char *path, const void *model,
                                         size_t bytes, iobind_error *error) {
  for (size_t i = 0; i < options->dim_count && options->dim_names != NULL; i++) {
    const char *name = options->dim_names[i];
    if (name == NULL) {
      continue; /* said by the check of the lists */
    }
    iobind_status status = IOBIND_OK;
    bool found = path != NULL ? file_contains(path, name, &status, error) : contains(model, bytes, name);
    IOBIND__TRY(status);
    if (!found) {
      return iobind__fail(error, IOBIND_NOT_FOUND, "session_create: dim '%s': the model has no dim of that name", name);
    }
  }
  return IOBIND_OK;
}
