/* The queues of the streams, and their worker threads. */
#ifndef VCUDA_QUEUE_H
#define VCUDA_QUEUE_H

#include "state.h"

/* Work that must be complete first. */
typedef struct vcuda_dependency {
  vcuda_stream *stream;
  uint64_t sequence;
} vcuda_dependency;

struct vcuda_work {
  vcuda_work *next;
  vcuda_order order;
  uint64_t sequence;
  uint64_t launch; /* number of a graph's launch; 0: none */
  vcuda_dependency *dependencies;
  size_t dependency_count;
  uint64_t clocks[VCUDA_AGENTS]; /* of all work ordered before it, and its own */
};

/* run.c; the lock must not be held. */
void vcuda_run_work(vcuda_stream *stream, vcuda_work *work);

#endif
