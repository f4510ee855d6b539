/* Named ranges of time, which a profiler shows beside the work of the devices. There are some only in a process that was started under a profiler
 * that takes them; each thread's are nested. */
#ifndef IOBIND_EP_RANGES_H
#define IOBIND_EP_RANGES_H

#include <stdbool.h>

#include "support/process.h"

extern IOBIND__OF_LIBRARY atomic_bool iobind__ranges_taken;

/* Is there a profiler that takes them? */
static inline bool iobind__ranges_are_taken(void) {
  return atomic_load_explicit(&iobind__ranges_taken, memory_order_relaxed);
}

/* Look for the profiler, once in the process, before the first range. Returns why the one that the environment names takes none; NULL: it
 * does, or none is named. */
const char *iobind__ranges_open(void);

void iobind__range_push(const char *verb, const char *noun);
void iobind__range_pop(void);

/* A range "iobind: VERB NOUN"; NULL: without a noun. Returns whether there is one to end: pass it on. */
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
