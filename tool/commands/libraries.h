/** @file libraries.h
 *  What the libraries of EPs need, where it is, and what to do about what is missing. */
#ifndef IOBIND_TOOL_LIBRARIES_H
#define IOBIND_TOOL_LIBRARIES_H

#include "shared/tool.h"

/** Add to a report, under "libraries", what each EP library that was found needs, and what NVIDIA's driver reports under "driver".
 *  A person sees it if CUDA's EP is found or a library does not load, and with `details`, which includes TensorRT's EP beside
 *  CUDA's. */
void libraries_report(const tool_state *tool, tool_report *report, bool details);

#endif
