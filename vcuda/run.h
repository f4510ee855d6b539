/* Execution of work on a stream's own thread. */
#ifndef VCUDA_RUN_H
#define VCUDA_RUN_H

#include <stdbool.h>
#include <stddef.h>

/* Is this thread running a host function? A host function must not call CUDA. */
bool vcuda_run_is_host_function(void);

/* With the lock held, while work runs: it allocates or frees this memory. For the race detector that is a write: every use must come
 * between. */
void vcuda_run_owns(const void *address, size_t bytes);

#endif
