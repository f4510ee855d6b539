/** @file gather.h
 *  An output of many steps in one array, along a new first axis. */
#ifndef IOBIND_TOOL_GATHER_H
#define IOBIND_TOOL_GATHER_H

#include <iobind/iobind.h>
#include <stdbool.h>
#include <stddef.h>

#include "formats/npy.h"

typedef struct gather {
  npy_array array; /**< [steps, dims of the output...]; empty before the first step */
  size_t taken;    /**< steps that it holds */
  bool uneven;     /**< the output's dims have changed: it cannot be gathered, and nothing is kept */
  int64_t dims[IOBIND_MAX_RANK];
  size_t rank;
} gather;

/** Add the output of the next of `steps` steps. Once uneven, it stays uneven. */
bool gather_add(gather *all, const iobind_tensor *tensor, size_t steps, tool_fault *fault);

void gather_free(gather *all);

#endif
