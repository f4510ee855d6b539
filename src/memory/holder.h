/* The users of a tensor's memory. A holder is an input or output that is bound to it. Host access finds the holders, and waits
 * for the runs of their bindings that are in flight. So a synchronous run does no extra work. */
#ifndef IOBIND_MEMORY_HOLDER_H
#define IOBIND_MEMORY_HOLDER_H

#include "memory/flight.h"

/* The holders of one memory. */
typedef struct iobind__holders {
  atomic_bool locked;  /* a spin lock, for a few instructions */
  atomic_bool is_used; /* a copy on a stream, which has no holder, has used the memory */
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

/* Hold this memory, and release what was held before. NULL: hold nothing. The list must remain valid while it is held. */
void iobind__holder_set(iobind__holder *self, iobind__holders *holders);

/* Block until no conflicting run is in flight: for an access that writes, any run that uses the memory; for one that reads, a
 * run that writes it. Returns the failure of a run that was to write the memory. `own`: the flight whose run the calling thread
 * prepares, or NULL. If it is given, the call waits only for runs on streams: another thread may be preparing a run that waits
 * for this one. */
iobind_status iobind__holders_await(iobind__holders *self, bool writes, const iobind__flight *own, iobind_error *error);

/* Work that uses the memory was submitted to a stream. Conflicting runs of other flights than `own`, which may be NULL, must
 * check. */
void iobind__holders_meet(iobind__holders *self, bool writes, const iobind__flight *own);

/* The same for a run of the holder's flight. */
static inline void iobind__holder_meet(const iobind__holder *self) {
  if (self->holders != NULL) {
    iobind__holders_meet(self->holders, self->writes, self->flight);
  }
}

#endif
