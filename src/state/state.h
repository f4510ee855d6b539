/* A state: what the carried inputs of a binding hold at a moment. Its tensors are written by nobody. */
#ifndef IOBIND_STATE_STATE_H
#define IOBIND_STATE_STATE_H

#include "binding/binding.h"

typedef struct iobind__kept {
  iobind__pair pair;
  iobind_tensor *tensor; /* a reference is held */
  iobind__prefix prefix;
} iobind__kept;

struct iobind_state {
  iobind__ref ref;
  iobind__weak *self;      /* by which bindings find it, that do not keep it; a reference is held */
  iobind_session *session; /* a reference is held */
  iobind_event *made;      /* behind the work that makes the tensors; NULL: they are there */
  iobind__used used;       /* of its caches of fixed capacity */
  const char *device_spec; /* of the one that computed it */
  const char *ort_version; /* with which it did */
  char *read;              /* both texts, if they are from a file; NULL: they are the session's */
  size_t count;
  iobind__kept kept[]; /* in the order of the inputs */
};

/* A state of `count` pairs, which are nothing yet. */
iobind_status iobind__state_allocate(iobind_session *session, size_t count, const char *what, iobind_state **out,
                                     iobind_error *error);

/* What it has for a pair; NULL: nothing. */
const iobind__kept *iobind__state_find(const iobind_state *state, iobind__pair pair);

/* Go on from the state, as iobind_binding_restore_state. */
iobind_status iobind__state_restore(iobind_state *state, iobind_binding *binding, iobind_error *error);

/* The same state, where caches that have only their rows in use are as wide as they were, with zeros behind them. A reference is given. */
iobind_status iobind__state_widen(iobind_state *state, iobind_state **out, iobind_error *error);

#endif
