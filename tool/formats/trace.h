/** @file trace.h
 *  When each stage of a pipeline's items was active: figures, and a file for Perfetto or chrome://tracing. */
#ifndef IOBIND_TOOL_TRACE_H
#define IOBIND_TOOL_TRACE_H

#include <iobind/iobind.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/fault.h"

enum { TRACE_UPLOAD, TRACE_COMPUTE, TRACE_DOWNLOAD, TRACE_STAGES };

/** "upload", "compute", "download". */
const char *trace_stage_name(int stage);

typedef struct trace_span {
  uint64_t begin; /**< both 0: the item had no such stage */
  uint64_t end;
} trace_span;

/** The spans of items in the order of submission: a stage begins when the one before it has ended and its stream is free.
 *  @param spans  receives count * TRACE_STAGES of them */
void trace_make(const iobind_pipeline_item *items, size_t count, trace_span *spans);

typedef struct trace_figures {
  bool has[TRACE_STAGES];        /**< whether there was such a stage */
  uint64_t stages[TRACE_STAGES]; /**< how long each was active */
  uint64_t sum;                  /**< of all stages: the time if they ran one after the other */
  uint64_t elapsed;              /**< from the first begin to the last end */
  double overlap; /**< 0 nothing ran at the same time .. 1 the longest stage never paused; NAN: there was only one stage */
} trace_figures;

trace_figures trace_measure(const trace_span *spans, size_t count);

/** Compute `sum` and `overlap` from `has`, `stages` and `elapsed`. */
void trace_sum(trace_figures *figures);

/** Write a trace with a row for each stage, whole or not at all; its times begin at 0. */
bool trace_write(const char *path, const trace_span *spans, size_t count, tool_fault *fault);

#endif
