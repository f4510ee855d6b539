/* All that a call into an EP must hold: the turn of its session, the gate, the lock of an EP that is not thread-safe, and the
 * current device. A session's guard has a turn, a device's has none. The guard is NULL if nothing is needed. */
#ifndef IOBIND_RUNTIME_GUARD_H
#define IOBIND_RUNTIME_GUARD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "support/error.h"
#include "support/process.h"

typedef struct iobind__context iobind__context; /* driver_context.c */

/* A lock by which a session makes one run at a time. */
typedef struct iobind__turn {
  atomic_int state; /* IOBIND__TURN_* */
  pthread_mutex_t mutex;
  pthread_cond_t given;
} iobind__turn;

typedef struct iobind__guard {
  iobind__turn *turn;           /* NULL: runs may overlap, or the caller has the turn */
  pthread_mutex_t *serial;      /* recursive; NULL: several threads may be inside */
  iobind__context *context;     /* NULL: the current device does not matter */
  struct iobind_device *device; /* NULL: a loss of the device cannot be detected */
  bool gated;                   /* any other thread's call makes a capture fail */
} iobind__guard;

/* What a thread has entered and must release; on its stack. */
typedef struct iobind__scope {
  const iobind__guard *guard;     /* NULL: nothing */
  const iobind__context *context; /* the one that was made current; NULL: none */
  const iobind__context *outer;   /* the one that was entered before it */
  void *current;                  /* the caller's CUDA context, to be restored; NULL: it had none */
  int device;                     /* if it had none, the device that CUDA's runtime would use; -1: unknown */
} iobind__scope;

/* ---- guard.c ---- */

iobind_status iobind__guard_take(const iobind__guard *guard, iobind__scope *scope, iobind_error *error);
void iobind__guard_take_anyway(const iobind__guard *guard, iobind__scope *scope);
void iobind__guard_give(iobind__scope *scope);
iobind_status iobind__guard_heed(const iobind__guard *guard, iobind_status status, iobind_error *error);

/* Enter around each call that reaches an EP, in this order: turn, gate, lock, device. A thread may enter again, except a turn.
 * Inside, do not wait for work for which another thread must enter. DEVICE_LOST: the device is lost. After a failure nothing is
 * entered, and leaving is a no-op. */
static inline iobind_status iobind__guard_enter(const iobind__guard *guard, iobind__scope *scope, iobind_error *error) {
  scope->guard = NULL;
  return guard == NULL ? IOBIND_OK : iobind__guard_take(guard, scope, error);
}

/* The same, also on a device that is lost: for waits, which return the failure, and for calls that cannot fail. */
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

/* May memory of the EP be freed? Not on a device that is lost: CUDA's EP ends the process if it cannot free pinned memory. So
 * it is kept until the process ends. */
bool iobind__guard_may_free(const iobind__guard *guard);

/* Enter to free something. False: it must not be freed, and nothing is entered. */
static inline bool iobind__guard_enter_to_free(const iobind__guard *guard, iobind__scope *scope) {
  bool may = guard == NULL || iobind__guard_may_free(guard);
  scope->guard = NULL;
  if (may) {
    iobind__guard_enter_anyway(guard, scope);
  }
  return may;
}

/* Leave with the outcome of the calls inside. If a failure shows that the device is lost, the outcome becomes DEVICE_LOST, and
 * all later uses are refused. */
static inline iobind_status iobind__guard_end(iobind__scope *scope, iobind_status status, iobind_error *error) {
  if (status != IOBIND_OK && scope->guard != NULL) {
    status = iobind__guard_heed(scope->guard, status, error);
  }
  iobind__guard_leave(scope);
  return status;
}

/* Enter as the only thread inside, to capture a graph. The caller holds the turn. Meanwhile the thread may enter again, but not
 * alone. */
iobind_status iobind__guard_enter_alone(const iobind__guard *guard, iobind__scope *scope, iobind_error *error);
void iobind__guard_leave_alone(iobind__scope *scope);

/* iobind__guard_end for iobind__guard_enter_alone. */
static inline iobind_status iobind__guard_end_alone(iobind__scope *scope, iobind_status status, iobind_error *error) {
  if (status != IOBIND_OK) {
    status = iobind__guard_heed(scope->guard, status, error);
  }
  iobind__guard_leave_alone(scope);
  return status;
}

/* Extend a guard for calls that may also reach the other one's EP. */
void iobind__guard_add(iobind__guard *guard, const iobind__guard *other);

/* Does it hold anything? */
static inline bool iobind__guard_is_needed(const iobind__guard *guard) {
  return guard->turn != NULL || guard->serial != NULL || guard->context != NULL || guard->device != NULL || guard->gated;
}

/* ---- the gate of the devices that are `gated`: the number of threads inside. CLOSED is added while a thread captures, or waits until the others have left ---- */

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
  if (atomic_fetch_sub(&iobind__gate, 1) - 1 == IOBIND__GATE_CLOSED) { /* the last one inside, and a capture waits for it */
    iobind__gate_wake();
  }
}

/* ---- turns ---- */

enum { IOBIND__TURN_TAKEN = 1, IOBIND__TURN_AWAITED = 2 /* threads may be waiting */ };

void iobind__turn_init(iobind__turn *turn);
void iobind__turn_destroy(iobind__turn *turn);
void iobind__turn_await(iobind__turn *turn);
void iobind__turn_pass(iobind__turn *turn);

/* Does not block. False: another thread has the turn. */
static inline bool iobind__turn_try(iobind__turn *turn) {
  return (atomic_fetch_or(&turn->state, IOBIND__TURN_TAKEN) & IOBIND__TURN_TAKEN) == 0;
}

/* Not a mutex, because the instructions of a steady run are limited, and this takes two each way. */
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

/* ---- driver_context.c: the thread's current device, which NVIDIA's EPs use ---- */

struct iobind_device;

/* The context of a device; *out is NULL if its EP does not use the current device, or NVIDIA's driver is not loaded. */
iobind_status iobind__context_open(struct iobind_device *device, iobind__context **out, iobind_error *error);
void iobind__context_close(iobind__context *context); /* NULL is a no-op */

/* The device's primary context, which the EP uses. It stays retained, as in CUDA's runtime: releasing the last reference would
 * reset the device. */
iobind_status iobind__context_find_primary(iobind__context *self, void **primary, iobind_error *error);

/* Has the process several such devices? A single one is always the current one. */
bool iobind__context_is_one_of_several(const iobind__context *context);

/* After a failure: does the device still work? 0, or the error that every call returns. */
int iobind__context_ask(iobind__context *context);

/* Is an address in memory of this device, or in pinned memory? WRONG_DEVICE: it is not, or the driver does not know it. */
iobind_status iobind__context_check_address(iobind__context *context, iobind_memory memory, const void *address,
                                            iobind_error *error);

/* Does a stream of the driver belong to this device? */
iobind_status iobind__context_check_stream(iobind__context *context, void *stream, iobind_error *error);

/* Clear CUDA's last error in this thread, which a call for iobind has set: the EP would take it for that of its next kernel. An
 * error that the caller's own calls had left there is lost. */
void iobind__context_forget_error(const iobind__context *context);

/* Make the device current. The scope stores the caller's, and leaving restores it. */
iobind_status iobind__context_enter(iobind__context *context, iobind__scope *scope, iobind_error *error);
void iobind__context_leave(iobind__scope *scope);

/* For calls that may use either of two devices: if they differ, no device is made current, but the caller's is restored. */
iobind__context *iobind__context_of_both(iobind__context *a, iobind__context *b);

/* A guard for calls that may reach any device: restores the caller's current device. NULL if none is needed. */
const iobind__guard *iobind__guard_of_any(void);

#endif
