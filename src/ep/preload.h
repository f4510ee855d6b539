/* NVIDIA's libraries, loaded before an EP's library asks the loader for them. */
#ifndef IOBIND_EP_PRELOAD_H
#define IOBIND_EP_PRELOAD_H

#include "support/error.h"

/* Before CUDA's EP library is loaded: load the libraries that it needs and that the loader would not find by LD_LIBRARY_PATH. If a library is
 * not found, the loader fails and gives the better reason. */
void iobind__preload_for(const char *ep_library);

#endif
