/** @file gpus.h
 *  What ONNX Runtime's hardware discovery can see of this machine's GPUs. */
#ifndef IOBIND_TOOL_GPUS_H
#define IOBIND_TOOL_GPUS_H

#include "shared/report.h"

/** Add to a report, under "gpus", how many GPUs ONNX Runtime can list. If there is none, a note says what is missing and what to do.
 *  Only Linux has the directories that it reads: on other systems nothing is added. */
void gpus_report(tool_report *report);

#endif
