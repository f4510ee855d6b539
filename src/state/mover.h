/* The states of a binding, moved by rows: by a generated model, so that the EP moves them, where they are. */
#ifndef IOBIND_STATE_MOVER_H
#define IOBIND_STATE_MOVER_H

#include "binding/binding.h"

/* The rows that become the new ones. */
typedef struct iobind__rows {
  const int64_t *rows; /* not NULL */
  size_t count;
} iobind__rows;

/* The states of a call: what the binding reads next, and the same with other rows. */
typedef struct iobind__mover {
  iobind_binding *binding;
  const char *what; /* the public function */
  size_t count;
  size_t *axes;         /* of the rows, for each state */
  iobind_tensor **from; /* borrowed */
  iobind_tensor **to;   /* references are held; NULL: not made yet */
} iobind__mover;

/* For the pairs that the binding carries. INVALID_STATE: there are none, or a run is in flight. After a failure nothing is to be closed. */
iobind_status iobind__mover_open(iobind__mover *self, iobind_binding *binding, const char *what, iobind_error *error);
void iobind__mover_close(iobind__mover *self);

/* Find the states. INVALID_STATE: one is not bound or undefined; or the failure of the last run. */
iobind_status iobind__mover_peek(iobind__mover *self, iobind_error *error);

/* The number of rows that all states have, each on its axis. */
iobind_status iobind__mover_measure(const iobind__mover *self, int64_t *extent, iobind_error *error);

/* Move the rows, and go on from there, and from the first so many marks of the binding. */
iobind_status iobind__mover_move(const iobind__mover *self, const iobind__rows *rows, size_t marks, iobind_error *error);

/* The input that a state is for, as messages name it. */
const char *iobind__mover_name(const iobind__mover *self, size_t index);

#endif
