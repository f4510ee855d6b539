/* CUDA's current device belongs to the caller: no call may change it. Without CUDA these functions check nothing. */
#ifndef FUZZ_BINDING_CURRENT_H
#define FUZZ_BINDING_CURRENT_H

#include <stdbool.h>

void current_start(void);        /* call it after the EP has loaded CUDA's runtime */
bool current_choose(int device); /* act as the caller and set it; false: CUDA is not in use */
bool current_is_kept(void);

#endif
