/* Selects rows of a binding's states. A generated model does it, so that the EP moves the rows on the device. */
#ifndef IOBIND_STATE_MOVER_H
#define IOBIND_STATE_MOVER_H

#include "binding/binding.h"

/* For each new row, the number of the old row that it becomes. */
typedef struct iobind__rows {
  const int64_t *rows; /* not NULL */
  size_t count;
} iobind__rows;

/* The states of one call: those that the binding reads next, and the new ones. */
typedef struct iobind__mover {
  iobind_binding *binding;
  const char *what; /* the public function's name, for messages */
  size_t count;
  size_t *axes;         /* the rows' axis, by state */
  iobind_tensor **from; /* borrowed */
  iobind_tensor **to;   /* references are held; NULL: not created yet */
} iobind__mover;

/* Open a mover for the pairs that the binding carries. INVALID_STATE: there are none, or a run is in flight. After a failure it
 * must not be closed. */
iobind_status iobind__mover_open(iobind__mover *self, iobind_binding *binding, const char *what, iobind_error *error);
void iobind__mover_close(iobind__mover *self);

/* Find the states. INVALID_STATE: one is not bound, or is undefined. May return the failure of the last run. */
iobind_status iobind__mover_peek(iobind__mover *self, iobind_error *error);

/* The number of rows, which must be equal for all states. */
iobind_status iobind__mover_measure(const iobind__mover *self, int64_t *extent, iobind_error *error);

/* Move the rows, and let the binding continue from the new states. Its first `marks` marks remain. */
iobind_status iobind__mover_move(const iobind__mover *self, const iobind__rows *rows, size_t marks, iobind_error *error);

/* The label of a state's input, for messages. */
const char *iobind__mover_name(const iobind__mover *self, size_t index);

#endif
