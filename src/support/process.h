/* Forks: a child process has its parent's runtimes, but none of their threads. */
#ifndef IOBIND_SUPPORT_PROCESS_H
#define IOBIND_SUPPORT_PROCESS_H

#include <stdatomic.h>
#include <stdbool.h>

#include "support/error.h"

/* From now on each forked child asks `had_runtimes` whether it may use this library. */
void iobind__process_watch(bool (*had_runtimes)(void));

/* Is this process a child of one that had a runtime when it forked? Nothing of that runtime works here: calls would wait for
 * threads that do not exist, and for locks that are never released. */
extern atomic_bool iobind__process_forked;

static inline bool iobind__process_is_forked(void) {
  return atomic_load_explicit(&iobind__process_forked, memory_order_relaxed);
}

/* INVALID_STATE in such a child. */
iobind_status iobind__process_refuse(const char *what, iobind_error *error);

static inline iobind_status iobind__process_check(const char *what, iobind_error *error) {
  return iobind__process_is_forked() ? iobind__process_refuse(what, error) : IOBIND_OK;
}

#endif
