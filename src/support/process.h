/* Threads, and forks: a child process has its parent's runtimes, but none of their threads. */
#ifndef IOBIND_SUPPORT_PROCESS_H
#define IOBIND_SUPPORT_PROCESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "support/error.h"

/* Variables that the steady run reads: those of a thread, because the default call for one costs a third of some checks, and those of the
 * library, which would otherwise be looked up. */
#if defined(__ELF__)
#define IOBIND__OF_THREAD _Thread_local __attribute__((tls_model("initial-exec")))
#define IOBIND__OF_LIBRARY __attribute__((visibility("hidden")))
#else
#define IOBIND__OF_THREAD _Thread_local
#define IOBIND__OF_LIBRARY
#endif

/* A number that no other thread ever has: a system gives the ids of threads that have ended to new ones. A thread gets it by its first call of
 * the function; until then, and in a forked child, the variable is UINT64_MAX. It is a multiple of this, so that a small number can be added. */
enum { IOBIND__THREADS_APART = 8 };
uint64_t iobind__thread_number(void);
extern IOBIND__OF_THREAD uint64_t iobind__thread;

/* Each child forked later calls `had_runtimes`, to find out whether it may use this library. */
void iobind__process_watch(bool (*had_runtimes)(void));

/* Is this process a child of one that had a runtime when it forked? Nothing of that runtime works here: calls would wait for
 * threads that do not exist, and for locks that are never released. */
extern IOBIND__OF_LIBRARY atomic_bool iobind__process_forked;

static inline bool iobind__process_is_forked(void) {
  return atomic_load_explicit(&iobind__process_forked, memory_order_relaxed);
}

/* INVALID_STATE in such a child. */
iobind_status iobind__process_refuse(const char *what, iobind_error *error);

static inline iobind_status iobind__process_check(const char *what, iobind_error *error) {
  return iobind__process_is_forked() ? iobind__process_refuse(what, error) : IOBIND_OK;
}

#endif
