/* Who uses a tensor's memory. What is bound holds it; while runs of its binding are in flight, access from the host is ordered after them. A
 * synchronous run pays nothing for that: whoever accesses the memory looks at the holders. */
#ifndef IOBIND_MEMORY_HOLDER_H
#define IOBIND_MEMORY_HOLDER_H

#include "memory/flight.h"

/* The holders of one memory. */
typedef struct iobind__holders {
  atomic_bool locked;  /* for the few instructions that change or read the list */
  atomic_bool is_used; /* work on a stream has used the memory without holding it: a copy */
  _Atomic(struct iobind__holder *) first;
} iobind__holders;

/* An input or output that is bound to the memory. */
typedef struct iobind__holder {
  struct iobind__holder *next;
  iobind__holders *holders; /* NULL: it holds nothing */
  iobind__flight *flight;
  bool writes; /* the runs write the memory; otherwise they only read it */
} iobind__holder;

static inline void iobind__holder_init(iobind__holder *self, iobind__flight *flight, bool writes) {
  *self = (iobind__holder){.flight = flight, .writes = writes};
}

/* Hold this memory instead of what was held before; NULL: nothing. The list must live as long as it is held. */
void iobind__holder_set(iobind__holder *self, iobind__holders *holders);

/* Block until no run that uses the memory is in flight: for an access that writes, none at all; for one that reads, none that writes. Returns
 * the failure of a run that was to write what is read now. `own` is NULL, or the flight of the binding whose run the calling thread prepares: then
 * only for runs on streams, because another thread may prepare one that waits for this one. */
iobind_status iobind__holders_await(iobind__holders *self, bool writes, const iobind__flight *own, iobind_error *error);

/* Work on a stream that uses the memory was submitted: the runs of other flights that have to come after it look. `own` may be NULL. */
void iobind__holders_meet(iobind__holders *self, bool writes, const iobind__flight *own);

/* The work is a run of the holder's flight. */
static inline void iobind__holder_meet(const iobind__holder *self) {
  if (self->holders != NULL) {
    iobind__holders_meet(self->holders, self->writes, self->flight);
  }
}

#endif
