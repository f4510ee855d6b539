#include "memory/holder.h"

#include <sched.h>

#include "support/system.h"

/* ---- lists ---- */

static inline bool try_lock(iobind__holders *self) {
  return !atomic_exchange_explicit(&self->locked, true, memory_order_acquire);
}

static void lock(iobind__holders *self) {
  while (!try_lock(self)) {
    sched_yield();
  }
}

static inline void unlock(iobind__holders *self) {
  atomic_store_explicit(&self->locked, false, memory_order_release);
}

/* With the list locked. */
static inline void leave(iobind__holder *self) {
  iobind__holders *holders = self->holders;
  iobind__holder *one = atomic_load_explicit(&holders->first, memory_order_relaxed);
  if (one == self) {
    atomic_store_explicit(&holders->first, self->next, memory_order_relaxed);
  } else {
    while (one->next != self) {
      one = one->next;
    }
    one->next = self->next;
  }
  self->holders = NULL;
}

/* May work of another flight use the memory? With the list locked. */
static inline bool meets(const iobind__holder *self) {
  const iobind__holder *other = self->next;
  while (other != NULL && other->flight == self->flight) {
    other = other->next;
  }
  return other != NULL || atomic_load_explicit(&self->holders->is_used, memory_order_relaxed);
}

/* False: another thread has a list locked; call it again. */
__attribute__((always_inline)) static inline bool try_set(iobind__holder *self, iobind__holders *holders) {
  iobind__holders *old = self->holders;
  if (old != NULL) {
    if (!try_lock(old)) {
      return false;
    }
    leave(self);
    unlock(old);
  }
  if (holders == NULL) {
    return true;
  }
  if (!try_lock(holders)) {
    return false;
  }
  self->holders = holders;
  self->next = atomic_load_explicit(&holders->first, memory_order_relaxed);
  atomic_store_explicit(&holders->first, self, memory_order_relaxed);
  bool has_met = meets(self);
  unlock(holders);
  if (has_met) {
    iobind__flight_meet(self->flight);
  }
  return true;
}

/* Not inlined, so that the usual case needs no frame. */
__attribute__((noinline)) static void set_contended(iobind__holder *self, iobind__holders *holders) {
  while (!try_set(self, holders)) {
    sched_yield();
  }
}

void iobind__holder_set(iobind__holder *self, iobind__holders *holders) {
  if (!try_set(self, holders)) {
    set_contended(self, holders);
  }
}

/* ---- access in order ---- */

/* What an access must wait for. */
typedef struct obstacle {
  bool is_running;       /* the owner is inside a run */
  bool writes;           /* the run writes the accessed memory */
  iobind_stream *stream; /* of the runs in flight; a reference is held; NULL: none */
  iobind__ticket ticket;
} obstacle;

/* A run that writes the memory counts as in flight until its outcome has been returned to a caller, even if it is complete.
 * Otherwise it would depend on the device's speed whether the access returns the failure. */
static bool is_over(const iobind__flight *flight, bool writes) {
  return writes ? iobind__stream_seen(flight->stream, flight->ticket) && !iobind__stream_owes(flight->stream, flight->ticket)
                : iobind__stream_passed(flight->stream, flight->ticket);
}

static bool is_busy(iobind__flight *flight, bool writes, const iobind__flight *own, obstacle *found) {
  pthread_mutex_lock(&flight->mutex);
  if (flight->stream != NULL && !is_over(flight, writes)) {
    iobind__ref_retain(&flight->stream->ref);
    found->stream = flight->stream;
    found->ticket = flight->ticket;
  }
  pthread_mutex_unlock(&flight->mutex);
  found->is_running = found->stream == NULL && own == NULL && iobind__flight_runs(flight);
  return found->stream != NULL || found->is_running;
}

static bool find_obstacle(iobind__holders *self, bool writes, const iobind__flight *own, obstacle *found) {
  bool any = false;
  *found = (obstacle){0};
  lock(self);
  for (const iobind__holder *one = atomic_load_explicit(&self->first, memory_order_relaxed); one != NULL && !any;
       one = one->next) {
    any = (writes || one->writes) && is_busy(one->flight, one->writes, own, found);
    found->writes = one->writes;
  }
  unlock(self);
  return any;
}

void iobind__holders_meet(iobind__holders *self, bool writes, const iobind__flight *own) {
  if (atomic_load_explicit(&self->first, memory_order_acquire) == NULL) {
    return;
  }
  lock(self);
  for (iobind__holder *one = atomic_load_explicit(&self->first, memory_order_relaxed); one != NULL; one = one->next) {
    if ((writes || one->writes) && one->flight != own) {
      iobind__flight_meet(one->flight);
    }
  }
  unlock(self);
}

iobind_status iobind__holders_await(iobind__holders *self, bool writes, const iobind__flight *own, iobind_error *error) {
  enum { PAUSE_NS = 50000 }; /* polling, so that a synchronous run need not signal its end */
  obstacle found;
  if (atomic_load_explicit(&self->first, memory_order_acquire) == NULL) {
    return IOBIND_OK;
  }
  while (find_obstacle(self, writes, own, &found)) {
    if (found.is_running) {
      iobind__clock_sleep(PAUSE_NS);
      continue;
    }
    iobind_error reason = IOBIND_ERROR_INIT;
    iobind_status status = iobind__stream_pass_ticket(found.stream, found.ticket, &reason);
    bool returns = status != IOBIND_OK && (found.writes || !iobind__stream_passed(found.stream, found.ticket));
    if (returns || status == IOBIND_OK) { /* otherwise an access to memory that the run writes will return the failure */
      iobind__stream_tell(found.stream, found.ticket, status);
    }
    iobind__ref_release(&found.stream->ref);
    if (returns) {
      return iobind__error_copy(error, &reason);
    }
  }
  return IOBIND_OK;
}
