/* Enters execution providers: see guard.h. For two kinds of EPs it matters which other threads are inside: one crashes if two
 * threads use it (`serial`), and with the other any thread's call makes the capture of a graph fail (`gated`). CUDA's capture
 * mode belongs to the process, so there is one gate for the process. Usually it is open, and any number of threads are inside.
 * A capture waits until they have left, and keeps them out until it has ended. A thread inside may be waiting for what a thread
 * outside is about to do, such as signalling a semaphore. So a capture waits only for a limited time; then it lets the waiting
 * threads in, and tries again with a longer limit. */
#include <pthread.h>

#include "runtime/runtime.h"
#include "support/system.h"

static struct {
  size_t outside; /* threads that wait to enter; protected by the mutex */
  pthread_mutex_t mutex;
  pthread_cond_t opened;  /* the gate is open, or no thread is outside any more */
  pthread_cond_t emptied; /* no thread is inside any more: only the thread that has closed the gate waits */
  pthread_once_t once;
} gate = {.mutex = PTHREAD_MUTEX_INITIALIZER, .opened = PTHREAD_COND_INITIALIZER, .once = PTHREAD_ONCE_INIT};

static void init_gate(void) {
  iobind__condition_init(&gate.emptied); /* its wait has a time limit; the gate has never been closed yet */
}

atomic_uint iobind__gate; /* its highest bit changes with the mutex held */

static IOBIND__OF_THREAD size_t depth; /* how often this thread has entered */

static bool is_closed(void) {
  return atomic_load(&iobind__gate) >= IOBIND__GATE_CLOSED;
}

void iobind__gate_wake(void) {
  pthread_mutex_lock(&gate.mutex);
  pthread_cond_signal(&gate.emptied);
  pthread_mutex_unlock(&gate.mutex);
}

void iobind__gate_await(void) {
  iobind__gate_leave();
  pthread_mutex_lock(&gate.mutex);
  gate.outside++;
  while (is_closed()) {
    pthread_cond_wait(&gate.opened, &gate.mutex);
  }
  atomic_fetch_add(&iobind__gate, 1);
  if (--gate.outside == 0) {
    pthread_cond_broadcast(&gate.opened);
  }
  pthread_mutex_unlock(&gate.mutex);
}

/* False: timed out, and the gate is open again. With the mutex held. */
static bool try_to_shut(uint64_t patience_ns) {
  while (is_closed() || gate.outside > 0) {
    pthread_cond_wait(&gate.opened, &gate.mutex);
  }
  const uint64_t until = iobind__clock_ns() + patience_ns;
  atomic_fetch_add(&iobind__gate, IOBIND__GATE_CLOSED);
  while (atomic_load(&iobind__gate) != IOBIND__GATE_CLOSED) {
    if (!iobind__condition_wait(&gate.emptied, &gate.mutex, until)) {
      atomic_fetch_sub(&iobind__gate, IOBIND__GATE_CLOSED);
      pthread_cond_broadcast(&gate.opened);
      return false;
    }
  }
  return true;
}

/* A thread that is already inside leaves while it waits: otherwise two threads that want to be alone would wait for each
 * other. */
static void shut(void) {
  uint64_t patience_ns = 10000000;
  pthread_once(&gate.once, init_gate);
  if (depth++ > 0) {
    iobind__gate_leave();
  }
  pthread_mutex_lock(&gate.mutex);
  while (!try_to_shut(patience_ns)) {
    patience_ns *= 2;
  }
  pthread_mutex_unlock(&gate.mutex);
}

static void open_again(void) {
  pthread_mutex_lock(&gate.mutex);
  atomic_fetch_sub(&iobind__gate, IOBIND__GATE_CLOSED);
  pthread_cond_broadcast(&gate.opened);
  pthread_mutex_unlock(&gate.mutex);
  if (--depth > 0) {
    iobind__gate_enter();
  }
}

/* In a forked child the threads that were inside do not exist, and would never leave. */
static bool is_gated(const iobind__guard *guard) {
  return guard->gated && !iobind__process_is_forked();
}

/* ---- enter and leave ---- */

static inline iobind_status enter_context(const iobind__guard *guard, iobind__scope *scope, iobind_error *error) {
  scope->context = NULL;
  return guard->context == NULL ? IOBIND_OK : iobind__context_enter(guard->context, scope, error);
}

static inline void leave_context(iobind__scope *scope) {
  if (scope->context != NULL) {
    iobind__context_leave(scope);
  }
}

/* Take all but the current device. */
static void take(const iobind__guard *guard, iobind__scope *scope) {
  scope->guard = guard;
  if (guard->turn != NULL) {
    iobind__turn_take(guard->turn);
  }
  if (is_gated(guard) && depth++ == 0) {
    iobind__gate_enter();
  }
  if (guard->serial != NULL) {
    pthread_mutex_lock(guard->serial);
  }
}

static void give(iobind__scope *scope) {
  const iobind__guard *guard = scope->guard;
  if (guard->serial != NULL) {
    pthread_mutex_unlock(guard->serial);
  }
  if (is_gated(guard) && --depth == 0) {
    iobind__gate_leave();
  }
  if (guard->turn != NULL) {
    iobind__turn_give(guard->turn);
  }
  scope->guard = NULL;
}

static iobind_status check_lost(const iobind__guard *guard, iobind_error *error) {
  bool lost = guard->device != NULL && iobind__device_is_lost(guard->device);
  return lost ? iobind__loss_refuse(guard->device, error) : IOBIND_OK;
}

bool iobind__guard_may_free(const iobind__guard *guard) {
  return guard == NULL || guard->device == NULL || !iobind__device_is_lost(guard->device);
}

iobind_status iobind__guard_heed(const iobind__guard *guard, iobind_status status, iobind_error *error) {
  return guard->device == NULL ? status : iobind__device_heed(guard->device, status, error);
}

iobind_status iobind__guard_take(const iobind__guard *guard, iobind__scope *scope, iobind_error *error) {
  IOBIND__TRY(check_lost(guard, error));
  take(guard, scope);
  iobind_status status = enter_context(guard, scope, error);
  if (status != IOBIND_OK) {
    give(scope);
  }
  return status;
}

void iobind__guard_take_anyway(const iobind__guard *guard, iobind__scope *scope) {
  take(guard, scope);
  (void)enter_context(guard, scope, NULL); /* there is nothing else to try if it fails */
}

void iobind__guard_give(iobind__scope *scope) {
  leave_context(scope);
  give(scope);
}

iobind_status iobind__guard_enter_alone(const iobind__guard *guard, iobind__scope *scope, iobind_error *error) {
  IOBIND__TRY(check_lost(guard, error));
  if (guard->serial != NULL) {
    pthread_mutex_lock(guard->serial);
  } else if (is_gated(guard)) {
    shut();
  }
  scope->guard = guard;
  iobind_status status = enter_context(guard, scope, error);
  if (status != IOBIND_OK) {
    iobind__guard_leave_alone(scope);
  }
  return status;
}

void iobind__guard_leave_alone(iobind__scope *scope) {
  const iobind__guard *guard = scope->guard;
  leave_context(scope);
  if (guard->serial != NULL) {
    pthread_mutex_unlock(guard->serial);
  } else if (is_gated(guard)) {
    open_again();
  }
  scope->guard = NULL;
}

void iobind__guard_add(iobind__guard *guard, const iobind__guard *other) {
  if (other == NULL) {
    return;
  }
  guard->gated = guard->gated || other->gated;
  guard->serial = guard->serial == NULL ? other->serial : guard->serial;
  guard->context = iobind__context_of_both(guard->context, other->context);
  guard->device = guard->device == NULL ? other->device : guard->device;
}

/* ---- turns ---- */

void iobind__turn_init(iobind__turn *turn) {
  atomic_init(&turn->state, 0);
  pthread_mutex_init(&turn->mutex, NULL);
  pthread_cond_init(&turn->given, NULL);
}

void iobind__turn_destroy(iobind__turn *turn) {
  pthread_mutex_destroy(&turn->mutex);
  pthread_cond_destroy(&turn->given);
}

/* The mutex is held from the check to the wait, so that iobind__turn_pass cannot signal between them. */
void iobind__turn_await(iobind__turn *turn) {
  pthread_mutex_lock(&turn->mutex);
  const int both = IOBIND__TURN_TAKEN | IOBIND__TURN_AWAITED;
  while ((atomic_fetch_or(&turn->state, both) & IOBIND__TURN_TAKEN) != 0) {
    pthread_cond_wait(&turn->given, &turn->mutex);
  }
  pthread_mutex_unlock(&turn->mutex);
}

void iobind__turn_pass(iobind__turn *turn) {
  pthread_mutex_lock(&turn->mutex);
  atomic_fetch_and(&turn->state, ~IOBIND__TURN_AWAITED); /* the thread that wakes sets it again */
  pthread_cond_signal(&turn->given);
  pthread_mutex_unlock(&turn->mutex);
}
