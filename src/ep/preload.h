/* NVIDIA's libraries, loaded before an EP's library asks the loader for them. */
#ifndef IOBIND_EP_PRELOAD_H
#define IOBIND_EP_PRELOAD_H

#include "support/error.h"

/* Before CUDA's EP library is loaded: of what it needs, what the loader would not find by LD_LIBRARY_PATH. What is found nowhere is left to
 * the loader, whose reason is the better one. */
void iobind__preload_for(const char *ep_library);

#endif
