/* The queues of the streams, and the threads that work on them. */
#ifndef VCUDA_QUEUE_H
#define VCUDA_QUEUE_H

#include "state.h"

/* Work that must be done first. */
typedef struct vcuda_dependency {
  vcuda_stream *stream;
  uint64_t sequence;
} vcuda_dependency;

struct vcuda_work {
  vcuda_work *next;
  vcuda_order order;
  uint64_t sequence;
  uint64_t launch; /* of a graph */
  vcuda_dependency *dependencies;
  size_t dependency_count;
  uint64_t clocks[VCUDA_AGENTS]; /* the clocks of all work before it, and its own */
};

/* run.c: with the lock not held. */
void vcuda_run_work(vcuda_stream *stream, vcuda_work *work);

#endif
