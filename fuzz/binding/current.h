/* CUDA's current device belongs to the caller: no call may leave another one behind. Elsewhere there is none, and nothing is checked. */
#ifndef FUZZ_BINDING_CURRENT_H
#define FUZZ_BINDING_CURRENT_H

#include <stdbool.h>

void current_start(void);        /* once the EP has loaded its runtime */
bool current_choose(int device); /* by the caller; false: there is none to be chosen */
bool current_is_kept(void);

#endif
