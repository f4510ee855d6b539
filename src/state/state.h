/* A state: the content of a binding's carried inputs at one time. Its tensors are read-only. */
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
  iobind__weak *self;      /* the weak reference by which bindings' marks find it; a reference to that is held */
  iobind_session *session; /* a reference is held */
  iobind_event *made;      /* the end of the work that writes the tensors; NULL: it is complete */
  iobind__used used;       /* the lengths of its caches of fixed capacity */
  const char *device_spec; /* of the device that computed it */
  const char *ort_version; /* of the ORT that computed it */
  char *read;              /* both texts, if they are from a file; NULL: they are the session's */
  size_t count;
  iobind__kept kept[]; /* in the order of the inputs */
};

/* A state of `count` pairs, which are zeroed. */
iobind_status iobind__state_allocate(iobind_session *session, size_t count, const char *what, iobind_state **out,
                                     iobind_error *error);

/* The entry of a pair; NULL: there is none. */
const iobind__kept *iobind__state_find(const iobind_state *state, iobind__pair pair);

/* iobind_binding_restore_state. */
iobind_status iobind__state_restore(iobind_state *state, iobind_binding *binding, iobind_error *error);

/* The same state with caches of full capacity: the rows in use, and zeros after them. The capacity is that of the same cache in
 * `like`, if that has room for these rows and otherwise the same dims; NULL: the capacity that the cache was saved with. Returns a
 * reference for the caller. */
iobind_status iobind__state_widen(iobind_state *state, const iobind_state *like, iobind_state **out, iobind_error *error);

#endif
