/* All that a call into an EP must hold: the turn of its session, the gate, the lock of an EP that takes one thread at a time, and the
 * current device. A device has a guard without a turn, a session one with. It is NULL where nothing is needed: then it costs nothing. */
#ifndef IOBIND_RUNTIME_GUARD_H
#define IOBIND_RUNTIME_GUARD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "support/error.h"
#include "support/process.h"

typedef struct iobind__context iobind__context; /* driver_context.c */

/* One run of a session at a time. */
typedef struct iobind__turn {
  atomic_int state; /* bits */
  pthread_mutex_t mutex;
  pthread_cond_t given;
} iobind__turn;

typedef struct iobind__guard {
  iobind__turn *turn;           /* NULL: runs meet, or the caller has the turn */
  pthread_mutex_t *serial;      /* NULL: several threads may be inside; recursive */
  iobind__context *context;     /* NULL: the current device does not matter */
  struct iobind_device *device; /* NULL: a loss of the device cannot be told */
  bool gated;                   /* a captured graph fails by any other thread's call */
} iobind__guard;

/* What a thread has entered, on its stack, to be given back. */
typedef struct iobind__scope {
  const iobind__guard *guard;     /* NULL: nothing */
  const iobind__context *context; /* that was made current; NULL: none */
  const iobind__context *outer;   /* that was entered before it */
  void *current;                  /* the caller's context of CUDA; NULL: it had none */
  int device;                     /* then the device that CUDA's runtime would take; -1: unknown */
} iobind__scope;

/* ---- guard.c ---- */

iobind_status iobind__guard_take(const iobind__guard *guard, iobind__scope *scope, iobind_error *error);
void iobind__guard_take_anyway(const iobind__guard *guard, iobind__scope *scope);
void iobind__guard_give(iobind__scope *scope);
iobind_status iobind__guard_heed(const iobind__guard *guard, iobind_status status, iobind_error *error);

/* Enter around each call that reaches an EP, in this order: turn, gate, lock, device. A thread that has entered may enter again, but for a
 * turn. Wait for nothing inside that another thread must enter for. DEVICE_LOST: the device is. After a failure nothing is entered, and
 * leaving does nothing. */
static inline iobind_status iobind__guard_enter(const iobind__guard *guard, iobind__scope *scope, iobind_error *error) {
  scope->guard = NULL;
  return guard == NULL ? IOBIND_OK : iobind__guard_take(guard, scope, error);
}

/* The same to hear what has failed, or for what cannot fail: also on a device that is lost. */
static inline void iobind__guard_enter_anyway(const iobind__guard *guard, iobind__scope *scope) {
  scope->guard = NULL;
  if (guard != NULL) {
    iobind__guard_take_anyway(guard, scope);
  }
}

static inline void iobind__guard_leave(iobind__scope *scope) {
  if (scope->guard != NULL) {
    iobind__guard_give(scope);
  }
}

/* May something be freed that the EP holds? Not on a device that is lost: CUDA's EP ends the process where it cannot free pinned memory. So
 * what it holds there stays until the process ends. */
bool iobind__guard_may_free(const iobind__guard *guard);

/* Enter to free something. False: it must not be, and nothing is entered. */
static inline bool iobind__guard_enter_to_free(const iobind__guard *guard, iobind__scope *scope) {
  bool may = guard == NULL || iobind__guard_may_free(guard);
  scope->guard = NULL;
  if (may) {
    iobind__guard_enter_anyway(guard, scope);
  }
  return may;
}

/* Leave with the outcome of what was done inside. A failure may be the device's: then it is DEVICE_LOST, for all who use the device. */
static inline iobind_status iobind__guard_end(iobind__scope *scope, iobind_status status, iobind_error *error) {
  if (status != IOBIND_OK && scope->guard != NULL) {
    status = iobind__guard_heed(scope->guard, status, error);
  }
  iobind__guard_leave(scope);
  return status;
}

/* Be the only thread inside, to capture a graph, with the turn held already. The thread may enter again meanwhile, but not be alone again. */
iobind_status iobind__guard_enter_alone(const iobind__guard *guard, iobind__scope *scope, iobind_error *error);
void iobind__guard_leave_alone(iobind__scope *scope);

/* The same as iobind__guard_end, for the only thread inside. */
static inline iobind_status iobind__guard_end_alone(iobind__scope *scope, iobind_status status, iobind_error *error) {
  if (status != IOBIND_OK) {
    status = iobind__guard_heed(scope->guard, status, error);
  }
  iobind__guard_leave_alone(scope);
  return status;
}

/* What a call needs that may reach the EPs of both. */
void iobind__guard_add(iobind__guard *guard, const iobind__guard *other);

/* Does it hold anything? */
static inline bool iobind__guard_is_needed(const iobind__guard *guard) {
  return guard->turn != NULL || guard->serial != NULL || guard->context != NULL || guard->device != NULL || guard->gated;
}

/* ---- the gate of the devices that are `gated`, for a thread that is not inside: how many are. CLOSED is added while a thread captures, or
 * waits until the others have left ---- */

#define IOBIND__GATE_CLOSED 0x80000000u
extern IOBIND__OF_LIBRARY atomic_uint iobind__gate;
void iobind__gate_await(void);
void iobind__gate_wake(void);

static inline void iobind__gate_enter(void) {
  if (atomic_fetch_add(&iobind__gate, 1) + 1 >= IOBIND__GATE_CLOSED) {
    iobind__gate_await();
  }
}

static inline void iobind__gate_leave(void) {
  if (atomic_fetch_sub(&iobind__gate, 1) - 1 >= IOBIND__GATE_CLOSED) {
    iobind__gate_wake();
  }
}

/* ---- turns ---- */

enum { IOBIND__TURN_TAKEN = 1, IOBIND__TURN_AWAITED = 2 /* threads may be waiting */ };

void iobind__turn_init(iobind__turn *turn);
void iobind__turn_destroy(iobind__turn *turn);
void iobind__turn_await(iobind__turn *turn);
void iobind__turn_pass(iobind__turn *turn);

/* Without waiting; false: another thread has it. */
static inline bool iobind__turn_try(iobind__turn *turn) {
  return (atomic_fetch_or(&turn->state, IOBIND__TURN_TAKEN) & IOBIND__TURN_TAKEN) == 0;
}

/* A mutex would do, but a steady run is counted, and this takes two instructions each way. */
static inline void iobind__turn_take(iobind__turn *turn) {
  if (!iobind__turn_try(turn)) {
    iobind__turn_await(turn);
  }
}

static inline void iobind__turn_give(iobind__turn *turn) {
  if (atomic_fetch_sub(&turn->state, IOBIND__TURN_TAKEN) != IOBIND__TURN_TAKEN) {
    iobind__turn_pass(turn);
  }
}

/* ---- driver_context.c: the device that is current in a thread, as NVIDIA's EPs take it ---- */

struct iobind_device;

/* The context of a device; *out is NULL where its EP asks for none. */
iobind_status iobind__context_open(struct iobind_device *device, iobind__context **out, iobind_error *error);
void iobind__context_close(iobind__context *context); /* NULL is a no-op */

/* The device's own context in the driver, which the EP uses. It stays retained, as CUDA's runtime does it: giving up the last reference would
 * reset the device. */
iobind_status iobind__context_find_primary(iobind__context *self, void **primary, iobind_error *error);

/* Has the process several such devices? Otherwise the right one is current anyway. */
bool iobind__context_is_one_of_several(const iobind__context *context);

/* After a failure: does the device still work? 0, or the error that it answers to everything. */
int iobind__context_ask(iobind__context *context);

/* Is an address of the kind of memory that it is said to be: of this device, or pinned? What the driver does not know is neither. */
iobind_status iobind__context_check_address(iobind__context *context, iobind_memory memory, const void *address,
                                            iobind_error *error);

/* Is a stream of the driver's one of this device? */
iobind_status iobind__context_check_stream(iobind__context *context, void *stream, iobind_error *error);

/* Forget the failure of a call that was made for iobind in this thread: the EP would take it for that of its next kernel. What the caller's
 * calls had left there before is overwritten by then. */
void iobind__context_forget_error(const iobind__context *context);

/* Make the device current. The thread's own is kept in the scope, and given back by leaving. */
iobind_status iobind__context_enter(iobind__context *context, iobind__scope *scope, iobind_error *error);
void iobind__context_leave(iobind__scope *scope);

/* What two devices need if it is not known which one is used: that the caller's is given back. */
iobind__context *iobind__context_of_both(iobind__context *a, iobind__context *b);

/* A guard for calls that may reach any device, and are not made for one: NULL if that does not matter. */
const iobind__guard *iobind__guard_of_any(void);

#endif
