/* What a process is to this library: one that goes on with another's runtimes after fork has none of their threads. */
#ifndef IOBIND_SUPPORT_PROCESS_H
#define IOBIND_SUPPORT_PROCESS_H

#include <stdatomic.h>
#include <stdbool.h>

#include "support/error.h"

/* From now on, `had_runtimes` is asked in each child process of fork. */
void iobind__process_watch(bool (*had_runtimes)(void));

/* Is this process a child of one that had a runtime when it forked? Nothing of that runtime works here, nor does its ORT: calls would wait
 * for threads that do not exist, and locks that nobody gives back. */
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
