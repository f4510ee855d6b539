/* The lengths of a cache: how many of its rows are in use, for each row of the batch. */
#ifndef IOBIND_BINDING_USED_H
#define IOBIND_BINDING_USED_H

#include <stdint.h>

#include "support/error.h"
#include "support/ref.h"

enum { IOBIND__LENGTH_UNKNOWN = -1 };

/* By how much each row of the batch is shorter than the longest one. Runs add the same number to each row, so these numbers do
 * not change. */
typedef struct iobind__skew {
  iobind__ref ref;
  size_t count;
  int64_t behind[];
} iobind__skew;

typedef struct iobind__used {
  int64_t longest;    /* UNKNOWN: iobind does not count it */
  iobind__skew *skew; /* a reference is held; NULL: all rows of the batch have the same length */
} iobind__used;

/* An unknown length; holds no reference. */
static inline iobind__used iobind__used_none(void) {
  return (iobind__used){.longest = IOBIND__LENGTH_UNKNOWN};
}

/* From an array of lengths: one for each row of the batch, or a single one for all. */
iobind_status iobind__used_make(const int64_t *lengths, size_t count, const char *what, iobind__used *out, iobind_error *error);

/* The length of a row. A row that it does not have, as in a forged file, has the longest length. */
int64_t iobind__used_at(const iobind__used *self, size_t row);

/* Retain `skew`, and release the one that `self` had. */
void iobind__used_hold(iobind__used *self, iobind__skew *skew);
static inline void iobind__used_set(iobind__used *self, iobind__used other) {
  if (self->skew != other.skew) {
    iobind__used_hold(self, other.skew);
  }
  self->longest = other.longest;
}
void iobind__used_release(iobind__used *self);

/* The same lengths, but at most `most`. */
iobind_status iobind__used_cut(const iobind__used *self, int64_t most, const char *what, iobind__used *out,
                               iobind_error *error);

/* For each row the shorter one of both lengths, which are known. */
iobind_status iobind__used_least(const iobind__used *one, const iobind__used *other, const char *what, iobind__used *out,
                                 iobind_error *error);

/* The new row i is the old row rows[i]. */
iobind_status iobind__used_take(const iobind__used *self, const int64_t *rows, size_t count, const char *what,
                                iobind__used *out, iobind_error *error);

#endif
