/* Saved states from which the present state continues: since each was saved, only runs have changed the state. The binding does not retain them. */
#ifndef IOBIND_BINDING_MARKS_H
#define IOBIND_BINDING_MARKS_H

#include "support/error.h"
#include "support/weak.h"

typedef struct iobind__marks {
  iobind__weak **list; /* the oldest first; references are held */
  size_t count;
  size_t room;
} iobind__marks;

/* Reserve memory for one more, so that iobind__marks_add does not fail. States that no longer exist may be removed. */
iobind_status iobind__marks_reserve(iobind__marks *self, const char *what, iobind_error *error);
void iobind__marks_add(iobind__marks *self, iobind__weak *state);

/* The number of marks up to this one; 0: it is none of them. */
size_t iobind__marks_find(const iobind__marks *self, const iobind__weak *state);

/* Keep only the first `count`. */
void iobind__marks_cut(iobind__marks *self, size_t count);
void iobind__marks_free(iobind__marks *self);

#endif
