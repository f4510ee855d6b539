/* Lets Ctrl-C end a call that waits. A wait checks for signals from time to time. A call of the library that would block for a
 * run on a stream is made after such a wait. A run without a stream cannot check. So if one takes long on the main thread, a
 * thread of this module installs a signal handler before Python's. It lets that thread cancel the run, and then Python's
 * handler raises KeyboardInterrupt. On Windows, which has no such signals, the run is not interrupted. */
#include "core.h"

#ifndef _WIN32
#include <errno.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#endif

enum { TICK_MS = 50 };

static unsigned long main_thread;

bool is_main_thread(void) {
  if (main_thread == 0) {
    PyObject *threading = PyImport_ImportModule("threading");
    PyObject *thread = threading == NULL ? NULL : PyObject_CallMethod(threading, "main_thread", NULL);
    PyObject *ident = thread == NULL ? NULL : PyObject_GetAttrString(thread, "ident");
    main_thread = ident == NULL ? 0 : PyLong_AsUnsignedLong(ident);
    Py_XDECREF(ident);
    Py_XDECREF(thread);
    Py_XDECREF(threading);
    PyErr_Clear();
  }
  return PyThread_get_thread_ident() == main_thread;
}

/* ---- waits ---- */

/* Call `wait` repeatedly for a part of the time, and check for signals in between. False: a signal's handler has raised an
 * exception. */
bool wait_in_parts(iobind_status (*wait)(void *what, uint64_t timeout_ns, iobind_error *error), void *what, uint64_t timeout_ns,
                   iobind_status *status, iobind_error *error) {
  const uint64_t most = is_main_thread() ? TICK_MS * 1000000ULL : IOBIND_NO_TIMEOUT; /* only the main thread handles Ctrl-C */
  for (;;) {
    uint64_t part = timeout_ns < most ? timeout_ns : most;
    WITHOUT_GIL(*status, wait(what, part, error));
    timeout_ns -= timeout_ns == IOBIND_NO_TIMEOUT ? 0 : part;
    if (*status != IOBIND_ERROR_TIMEOUT || timeout_ns == 0) {
      return true;
    }
    if (PyErr_CheckSignals() != 0) {
      return false;
    }
  }
}

#ifdef _WIN32

void watch_forks(void) {
}

bool is_forked(void) {
  return false;
}

bool run_begins(iobind_binding *binding) {
  (void)binding;
  return false;
}

void run_ends(void) {
}

#else

/* ---- children of fork ---- */

static bool forked;

static void in_child(void) {
  forked = true;
}

void watch_forks(void) {
  pthread_atfork(NULL, NULL, in_child);
}

bool is_forked(void) {
  return forked;
}

/* ---- runs ---- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t begun = PTHREAD_COND_INITIALIZER;
static iobind_binding *_Atomic running; /* the binding of the main thread's run; NULL: none */
static atomic_ulong runs;
static atomic_bool asleep;
static atomic_bool cancelling; /* the watcher is using `running` */
static sem_t interrupted;
static struct sigaction previous;
static bool started;
static bool one_sided; /* the watcher's fence covers all threads, so that a run needs none, which would take 15 ns */

/* A run writes `running` and then reads `cancelling`; the watcher writes `cancelling` and then reads `running`. Each has a
 * fence in between, so that at least one sees the other's write. */
static inline void fence_of_run(void) {
  if (one_sided) {
    atomic_signal_fence(memory_order_seq_cst);
  } else {
    atomic_thread_fence(memory_order_seq_cst);
  }
}

static void fence_of_watcher(void) {
  if (one_sided) {
    syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
  } else {
    atomic_thread_fence(memory_order_seq_cst);
  }
}

static void on_interrupt(int number, siginfo_t *info, void *context) {
  if ((previous.sa_flags & SA_SIGINFO) != 0) {
    previous.sa_sigaction(number, info, context);
  } else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
    previous.sa_handler(number);
  }
  int kept = errno;
  sem_post(&interrupted);
  errno = kept;
}

static void sleep_tick(void) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_nsec += TICK_MS * 1000000L;
  until.tv_sec += until.tv_nsec / 1000000000L;
  until.tv_nsec %= 1000000000L;
  if (sem_timedwait(&interrupted, &until) == 0) {
    atomic_store(&cancelling, true);
    fence_of_watcher();
    iobind_binding *binding = atomic_load(&running);
    if (binding != NULL) {
      (void)!iobind_binding_cancel(binding, NULL);
    }
    atomic_store(&cancelling, false);
  }
}

/* A run takes long: let Ctrl-C cancel it until it ends. If the program ignores the signal, or has the default handler, that is
 * not changed. */
static void guard(unsigned long run) {
  struct sigaction ours = {.sa_sigaction = on_interrupt, .sa_flags = SA_SIGINFO};
  sigemptyset(&ours.sa_mask);
  if (sigaction(SIGINT, NULL, &previous) != 0 ||
      ((previous.sa_flags & SA_SIGINFO) == 0 && (previous.sa_handler == SIG_DFL || previous.sa_handler == SIG_IGN))) {
    return;
  }
  ours.sa_flags |= previous.sa_flags & (SA_ONSTACK | SA_RESTART);
  sigaction(SIGINT, &ours, NULL);
  while (atomic_load(&running) != NULL && atomic_load(&runs) == run) {
    sleep_tick();
  }
  struct sigaction now;
  if (sigaction(SIGINT, NULL, &now) == 0 && (now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == on_interrupt) {
    sigaction(SIGINT, &previous, NULL);
  }
  while (sem_trywait(&interrupted) == 0) {
  }
}

static void *watch(void *context) {
  (void)context;
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, NULL);
  unsigned long seen = 0;
  for (;;) {
    unsigned long run = atomic_load(&runs);
    if (atomic_load(&running) != NULL && run == seen) {
      guard(run);
    }
    if (run == seen) { /* no run has begun for a while */
      pthread_mutex_lock(&mutex);
      atomic_store(&asleep, true);
      fence_of_watcher();
      while (atomic_load(&runs) == seen) {
        pthread_cond_wait(&begun, &mutex);
      }
      atomic_store(&asleep, false);
      pthread_mutex_unlock(&mutex);
    }
    seen = atomic_load(&runs);
    struct timespec tick = {0, TICK_MS * 1000000L};
    nanosleep(&tick, NULL);
  }
  return NULL;
}

static void start_watcher(void) {
  pthread_t thread;
  started = true;
  one_sided = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0; /* Linux 4.14, and not forbidden */
  if (sem_init(&interrupted, 0, 0) == 0 && pthread_create(&thread, NULL, watch, NULL) == 0) {
    pthread_detach(thread);
  }
}

/* Returns whether run_ends must be called. A child of fork has no watcher, and the library refuses its runs. */
bool run_begins(iobind_binding *binding) {
  if (is_forked() || !is_main_thread()) {
    return false;
  }
  if (!started) {
    start_watcher();
  }
  atomic_store_explicit(&running, binding, memory_order_release);
  unsigned long before = atomic_load_explicit(&runs, memory_order_relaxed); /* only the main thread counts */
  atomic_store_explicit(&runs, before + 1, memory_order_release);
  fence_of_run();
  if (atomic_load_explicit(&asleep, memory_order_relaxed)) {
    pthread_mutex_lock(&mutex);
    pthread_cond_signal(&begun);
    pthread_mutex_unlock(&mutex);
  }
  return true;
}

void run_ends(void) {
  atomic_store_explicit(&running, NULL, memory_order_release);
  fence_of_run();
  while (atomic_load_explicit(&cancelling, memory_order_acquire)) { /* after this the run is not cancelled any more */
    sched_yield();
  }
}

#endif
