/* Who may be inside an execution provider. There are two kinds that care: one that crashes where two threads use it (`serial`), and one
 * whose capture of a graph fails by any other thread's call (`gated`). CUDA's capture mode is the process's, so the gate is, too. Most of the
 * time it is open and any number of threads are inside; a capture waits until they have left, and keeps them out until it has ended. */
#include <pthread.h>

#include "runtime/runtime.h"

static struct {
  atomic_size_t inside; /* threads */
  atomic_bool closed;   /* a thread captures, or waits until the others have left */
  pthread_mutex_t mutex;
  pthread_cond_t changed;
} gate = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static IOBIND__OF_THREAD size_t depth; /* how often this thread has entered */
IOBIND__OF_THREAD uint64_t iobind__thread;

static void wake(void) {
  pthread_mutex_lock(&gate.mutex);
  pthread_cond_broadcast(&gate.changed);
  pthread_mutex_unlock(&gate.mutex);
}

static inline void step_out(void) {
  if (atomic_fetch_sub(&gate.inside, 1) == 1 && atomic_load(&gate.closed)) {
    wake();
  }
}

static void wait_until_open(void) {
  do {
    step_out();
    pthread_mutex_lock(&gate.mutex);
    while (atomic_load(&gate.closed)) {
      pthread_cond_wait(&gate.changed, &gate.mutex);
    }
    pthread_mutex_unlock(&gate.mutex);
    atomic_fetch_add(&gate.inside, 1);
  } while (atomic_load(&gate.closed));
}

static inline void step_in(void) {
  atomic_fetch_add(&gate.inside, 1);
  if (atomic_load(&gate.closed)) {
    wait_until_open();
  }
}

/* A thread that is inside already leaves while it waits: two that want to be alone would wait for each other. */
static void shut(void) {
  if (depth++ > 0) {
    step_out();
  }
  pthread_mutex_lock(&gate.mutex);
  while (atomic_load(&gate.closed)) {
    pthread_cond_wait(&gate.changed, &gate.mutex);
  }
  atomic_store(&gate.closed, true);
  while (atomic_load(&gate.inside) > 0) {
    pthread_cond_wait(&gate.changed, &gate.mutex);
  }
  pthread_mutex_unlock(&gate.mutex);
}

static void open_again(void) {
  pthread_mutex_lock(&gate.mutex);
  atomic_store(&gate.closed, false);
  pthread_cond_broadcast(&gate.changed);
  pthread_mutex_unlock(&gate.mutex);
  if (--depth > 0) {
    step_in();
  }
}

/* In a forked child the threads that were inside do not exist, and would be waited for. */
static bool is_gated(const iobind_device *device) {
  return device->gated && !iobind__process_is_forked();
}

void iobind__device_enter(const iobind_device *device) {
  if (device == NULL) {
    return;
  }
  if (device->serial) {
    pthread_mutex_lock(&device->runtime->serial_mutex);
  } else if (is_gated(device) && depth++ == 0) {
    step_in();
  }
}

void iobind__device_leave(const iobind_device *device) {
  if (device == NULL) {
    return;
  }
  if (device->serial) {
    pthread_mutex_unlock(&device->runtime->serial_mutex);
  } else if (is_gated(device) && --depth == 0) {
    step_out();
  }
}

void iobind__device_enter_alone(const iobind_device *device) {
  if (device->serial) {
    pthread_mutex_lock(&device->runtime->serial_mutex);
  } else if (is_gated(device)) {
    shut();
  }
}

void iobind__device_leave_alone(const iobind_device *device) {
  if (device->serial) {
    pthread_mutex_unlock(&device->runtime->serial_mutex);
  } else if (is_gated(device)) {
    open_again();
  }
}

uint64_t iobind__thread_number(void) {
  static atomic_uint_least64_t threads;
  if (iobind__thread == 0) {
    iobind__thread = atomic_fetch_add(&threads, 1) + 1;
  }
  return iobind__thread;
}
