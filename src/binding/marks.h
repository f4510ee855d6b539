/* Saved states that the present one goes on from: runs have come behind each, and nothing else. The binding does not keep them. */
#ifndef IOBIND_BINDING_MARKS_H
#define IOBIND_BINDING_MARKS_H

#include "support/error.h"
#include "support/weak.h"

typedef struct iobind__marks {
  iobind__weak **list; /* the oldest first; references are held */
  size_t count;
  size_t room;
} iobind__marks;

/* Room for one more, so that iobind__marks_add does not fail. Those that are gone may be dropped. */
iobind_status iobind__marks_reserve(iobind__marks *self, const char *what, iobind_error *error);
void iobind__marks_add(iobind__marks *self, iobind__weak *state);

/* How many there are up to this one; 0: it is none of them. */
size_t iobind__marks_find(const iobind__marks *self, const iobind__weak *state);

/* The first ones remain. */
void iobind__marks_cut(iobind__marks *self, size_t count);
void iobind__marks_free(iobind__marks *self);

#endif
