/** @file machine.h
 *  The table of devices that doctor and devices share. */
#ifndef IOBIND_TOOL_MACHINE_H
#define IOBIND_TOOL_MACHINE_H

#include "shared/tool.h"

/** Add the devices to a report, under "devices".
 *  @param check  try each device with a tiny session
 *  @param details  show a person also vendor ids, the memory's name, and metadata
 *  @param working  receives how many work; unchanged without `check`
 *  @return TOOL_GO, or TOOL_FAILED after the error is printed */
int machine_report_devices(tool_state *tool, tool_report *report, bool check, bool details, size_t *working);

#endif
