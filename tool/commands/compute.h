/** @file compute.h
 *  The table of kernels of doctor --compute. */
#ifndef IOBIND_TOOL_COMPUTE_H
#define IOBIND_TOOL_COMPUTE_H

#include "kernels/rows.h"

typedef struct compute_wish {
  const char *device; /**< a spec; NULL: each device besides the CPU that works */
  survey *survey;     /**< begun */
} compute_wish;

/** Try kernels on devices, and add what is found to a report.
 *  @param wrong  receives how many are computed wrongly, or end the process
 *  @return TOOL_GO, or the exit code after the error is printed */
int compute_report(tool_state *tool, tool_report *report, const compute_wish *wish, size_t *wrong);

#endif
