/* Named ranges of time, which a profiler shows beside the work of the devices. They exist only in a process that was started by a profiler
 * that records them; the ranges of a thread are nested. */
#ifndef IOBIND_EP_RANGES_H
#define IOBIND_EP_RANGES_H

#include <stdbool.h>

#include "support/process.h"

extern IOBIND__OF_LIBRARY atomic_bool iobind__ranges_taken;

/* Does a profiler record them? */
static inline bool iobind__ranges_are_taken(void) {
  return atomic_load_explicit(&iobind__ranges_taken, memory_order_relaxed);
}

/* Find the profiler, once in the process, before the first range. Returns why the one that the environment names cannot record ranges; NULL: it
 * can, or none is named. */
const char *iobind__ranges_open(void);

void iobind__range_push(const char *verb, const char *noun);
void iobind__range_pop(void);

/* A range "iobind: VERB NOUN"; NULL: without a noun. Returns whether it has begun, for the call that ends it. */
static inline bool iobind__range_begin(const char *verb, const char *noun) {
  bool taken = iobind__ranges_are_taken();
  if (taken) {
    iobind__range_push(verb, noun);
  }
  return taken;
}

static inline void iobind__range_end(bool begun) {
  if (begun) {
    iobind__range_pop();
  }
}

#endif
