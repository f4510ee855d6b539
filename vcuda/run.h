/* Running work on a stream's own thread. */
#ifndef VCUDA_RUN_H
#define VCUDA_RUN_H

#include <stdbool.h>

/* Does this thread run a host function right now? It must not call CUDA. */
bool vcuda_run_is_host_function(void);

#endif
