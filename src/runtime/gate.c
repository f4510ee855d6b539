/* Who may be inside an execution provider. There are two kinds that care: one that crashes where two threads use it (`serial`), and one
 * whose capture of a graph fails by any other thread's call (GATED). CUDA's capture mode is the process's, so the gate is, too. Most of the
 * time it is open and any number of threads are inside; a capture waits until they have left, and keeps them out until it has ended. A
 * thread inside may itself wait for what a thread outside is about to do, such as signal a semaphore: so a capture that does not come to
 * its turn lets those in that wait, and tries again with more patience. */
#include <pthread.h>

#include "runtime/runtime.h"
#include "support/system.h"

static struct {
  size_t outside; /* threads that wait to come in; guarded by the mutex */
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  pthread_once_t once;
} gate = {.mutex = PTHREAD_MUTEX_INITIALIZER, .once = PTHREAD_ONCE_INIT};

static void init_gate(void) {
  iobind__condition_init(&gate.changed); /* nobody waits before it has been closed once */
}

atomic_uint iobind__gate; /* its highest bit changes with the mutex held */

static IOBIND__OF_THREAD size_t depth; /* how often this thread has entered */

static bool is_closed(void) {
  return atomic_load(&iobind__gate) >= IOBIND__GATE_CLOSED;
}

void iobind__gate_wake(void) {
  pthread_mutex_lock(&gate.mutex);
  pthread_cond_broadcast(&gate.changed);
  pthread_mutex_unlock(&gate.mutex);
}

void iobind__gate_await(void) {
  iobind__gate_leave();
  pthread_mutex_lock(&gate.mutex);
  gate.outside++;
  while (is_closed()) {
    pthread_cond_wait(&gate.changed, &gate.mutex);
  }
  atomic_fetch_add(&iobind__gate, 1);
  if (--gate.outside == 0) {
    pthread_cond_broadcast(&gate.changed);
  }
  pthread_mutex_unlock(&gate.mutex);
}

/* False: a thread was inside all the time, and the gate is open again. With the mutex held. */
static bool try_to_shut(uint64_t patience_ns) {
  while (is_closed() || gate.outside > 0) {
    pthread_cond_wait(&gate.changed, &gate.mutex);
  }
  const uint64_t until = iobind__clock_ns() + patience_ns;
  atomic_fetch_add(&iobind__gate, IOBIND__GATE_CLOSED);
  while (atomic_load(&iobind__gate) != IOBIND__GATE_CLOSED) {
    if (!iobind__condition_wait(&gate.changed, &gate.mutex, until)) {
      atomic_fetch_sub(&iobind__gate, IOBIND__GATE_CLOSED);
      pthread_cond_broadcast(&gate.changed);
      return false;
    }
  }
  return true;
}

/* A thread that is inside already leaves while it waits: two that want to be alone would wait for each other. */
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
  pthread_cond_broadcast(&gate.changed);
  pthread_mutex_unlock(&gate.mutex);
  if (--depth > 0) {
    iobind__gate_enter();
  }
}

/* In a forked child the threads that were inside do not exist, and would be waited for. */
static bool is_gated(const iobind_device *device) {
  return iobind__device_has(device, IOBIND__QUIRK_GATED) && !iobind__process_is_forked();
}

void iobind__device_enter(const iobind_device *device) {
  if (device == NULL) {
    return;
  }
  if (iobind__device_has(device, IOBIND__QUIRK_SERIAL)) {
    pthread_mutex_lock(&device->runtime->serial_mutex);
  } else if (is_gated(device) && depth++ == 0) {
    iobind__gate_enter();
  }
}

void iobind__device_leave(const iobind_device *device) {
  if (device == NULL) {
    return;
  }
  if (iobind__device_has(device, IOBIND__QUIRK_SERIAL)) {
    pthread_mutex_unlock(&device->runtime->serial_mutex);
  } else if (is_gated(device) && --depth == 0) {
    iobind__gate_leave();
  }
}

void iobind__device_enter_alone(const iobind_device *device) {
  if (iobind__device_has(device, IOBIND__QUIRK_SERIAL)) {
    pthread_mutex_lock(&device->runtime->serial_mutex);
  } else if (is_gated(device)) {
    shut();
  }
}

void iobind__device_leave_alone(const iobind_device *device) {
  if (iobind__device_has(device, IOBIND__QUIRK_SERIAL)) {
    pthread_mutex_unlock(&device->runtime->serial_mutex);
  } else if (is_gated(device)) {
    open_again();
  }
}

void iobind__guarded_add(iobind__guarded *self, iobind_device *device) {
  if (iobind__device_has(device, IOBIND__QUIRK_SERIAL)) {
    self->serial = device;
  } else if (iobind__device_has(device, IOBIND__QUIRK_GATED)) {
    self->gated = device;
  }
}

/* Always in one order: otherwise two threads could wait for each other. */
void iobind__guarded_enter(const iobind__guarded *self) {
  iobind__device_enter(self->gated);
  iobind__device_enter(self->serial);
}

void iobind__guarded_leave(const iobind__guarded *self) {
  iobind__device_leave(self->serial);
  iobind__device_leave(self->gated);
}
