#include "binding/used.h"

#include <stdlib.h>

static void free_skew(iobind__ref *ref) {
  free(ref);
}

static iobind_status allocate(size_t count, const char *what, iobind__skew **out, iobind_error *error) {
  *out = calloc(1, sizeof **out + count * sizeof(int64_t));
  if (*out == NULL) {
    return iobind__out_of_memory(error, what);
  }
  iobind__ref_init(&(*out)->ref, free_skew);
  (*out)->count = count;
  return IOBIND_OK;
}

/* Takes ownership of an array of lengths, and turns it into differences. */
static iobind__used from_lengths(iobind__skew *lengths) {
  iobind__used made = {.longest = lengths->behind[0], .skew = lengths};
  bool are_equal = true;
  for (size_t i = 1; i < lengths->count; i++) {
    are_equal = are_equal && lengths->behind[i] == lengths->behind[0];
    made.longest = lengths->behind[i] > made.longest ? lengths->behind[i] : made.longest;
  }
  for (size_t i = 0; i < lengths->count; i++) {
    lengths->behind[i] = made.longest - lengths->behind[i];
  }
  if (are_equal) {
    iobind__used_release(&made);
  }
  return made;
}

static size_t count_of(const iobind__used *self) {
  return self->skew == NULL ? 1 : self->skew->count;
}

iobind_status iobind__used_make(const int64_t *lengths, size_t count, const char *what, iobind__used *out,
                                iobind_error *error) {
  iobind__skew *made;
  if (count == 1) {
    *out = (iobind__used){.longest = lengths[0]};
    return IOBIND_OK;
  }
  IOBIND__TRY(allocate(count, what, &made, error));
  for (size_t i = 0; i < count; i++) {
    made->behind[i] = lengths[i];
  }
  *out = from_lengths(made);
  return IOBIND_OK;
}

int64_t iobind__used_at(const iobind__used *self, size_t row) {
  return self->longest - (self->skew == NULL || row >= self->skew->count ? 0 : self->skew->behind[row]);
}

void iobind__used_hold(iobind__used *self, iobind__skew *skew) {
  if (skew != NULL) {
    iobind__ref_retain(&skew->ref);
  }
  iobind__used_release(self);
  self->skew = skew;
}

void iobind__used_release(iobind__used *self) {
  iobind__ref_release(self->skew == NULL ? NULL : &self->skew->ref);
  self->skew = NULL;
}

iobind_status iobind__used_cut(const iobind__used *self, int64_t most, const char *what, iobind__used *out,
                               iobind_error *error) {
  const iobind__used all = {.longest = most};
  return iobind__used_least(self, &all, what, out, error);
}

iobind_status iobind__used_least(const iobind__used *one, const iobind__used *other, const char *what, iobind__used *out,
                                 iobind_error *error) {
  iobind__skew *made;
  if (one->skew == other->skew) {
    *out = iobind__used_none();
    iobind__used_set(out, one->longest < other->longest ? *one : *other);
    return IOBIND_OK;
  }
  IOBIND__TRY(allocate(count_of(one) > count_of(other) ? count_of(one) : count_of(other), what, &made, error));
  for (size_t i = 0; i < made->count; i++) {
    int64_t here = iobind__used_at(one, i);
    int64_t there = iobind__used_at(other, i);
    made->behind[i] = here < there ? here : there;
  }
  *out = from_lengths(made);
  return IOBIND_OK;
}

iobind_status iobind__used_take(const iobind__used *self, const int64_t *rows, size_t count, const char *what,
                                iobind__used *out, iobind_error *error) {
  iobind__skew *made;
  IOBIND__TRY(allocate(count, what, &made, error));
  for (size_t i = 0; i < count; i++) {
    made->behind[i] = iobind__used_at(self, (size_t)rows[i]);
  }
  *out = from_lengths(made);
  return IOBIND_OK;
}
