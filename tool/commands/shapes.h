/** @file shapes.h
 *  What the CUDA EP does when an input of a convolution gets another shape: a table by ONNX Runtime's release, from vcuda's trace (the test
 *  vcuda.shapes). */
#ifndef IOBIND_TOOL_SHAPES_H
#define IOBIND_TOOL_SHAPES_H

#include "shared/tool.h"

enum { SHAPE_FACTS = 5 };

/** How many nodes of a session each line of the table is about. */
typedef struct shape_counts {
  size_t nodes[SHAPE_FACTS];
} shape_counts;

/** Add the table, under "shape_changes", if one of the devices is CUDA's. */
void shapes_report(const tool_state *tool, tool_report *report);

/** The flags that a session on the device needs to be counted. NULL: a session whose device ONNX Runtime chooses. */
uint32_t shapes_flags(const iobind_device *device);

/** Nothing is counted on another EP, and in a model without open dims. */
shape_counts shapes_count(const tool_state *tool, const iobind_session *session);

/** Add a note for each line that is about some of the nodes. */
void shapes_note(const tool_state *tool, tool_report *report, const shape_counts *counts, const char *model,
                 const char *device);

#endif
