#include "formats/trace.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/file.h"

const char *trace_stage_name(int stage) {
  static const char *const names[TRACE_STAGES] = {"upload", "compute", "download"};
  return names[stage];
}

void trace_make(const iobind_pipeline_item *items, size_t count, trace_span *spans) {
  uint64_t free_at[TRACE_STAGES] = {0};
  for (size_t i = 0; i < count; i++) {
    const uint64_t ends[TRACE_STAGES] = {items[i].upload_ns, items[i].run_ns, items[i].download_ns};
    uint64_t ready = items[i].submit_ns;
    for (int stage = 0; stage < TRACE_STAGES; stage++) {
      trace_span *span = &spans[i * TRACE_STAGES + (size_t)stage];
      *span = (trace_span){0};
      if (ends[stage] == 0) continue;
      span->begin = ready > free_at[stage] ? ready : free_at[stage];
      span->end = ends[stage] > span->begin ? ends[stage] : span->begin;
      ready = free_at[stage] = span->end;
    }
  }
}

/* The earliest begin of all, or 0. */
static uint64_t start_of(const trace_span *spans, size_t count) {
  uint64_t start = UINT64_MAX;
  for (size_t i = 0; i < count * TRACE_STAGES; i++) {
    if (spans[i].end != 0 && spans[i].begin < start) start = spans[i].begin;
  }
  return start == UINT64_MAX ? 0 : start;
}

void trace_sum(trace_figures *figures) {
  uint64_t longest = 0;
  int stages = 0;
  figures->sum = 0;
  figures->overlap = (double)NAN;
  for (int stage = 0; stage < TRACE_STAGES; stage++) {
    stages += figures->has[stage];
    figures->sum += figures->stages[stage];
    if (figures->stages[stage] > longest) longest = figures->stages[stage];
  }
  if (stages < 2) return;
  double saved = (double)figures->sum - (double)figures->elapsed;
  figures->overlap = saved > 0 ? saved / (double)(figures->sum - longest) : 0;
}

trace_figures trace_measure(const trace_span *spans, size_t count) {
  trace_figures figures = {0};
  uint64_t start = start_of(spans, count);
  for (size_t i = 0; i < count * TRACE_STAGES; i++) {
    figures.has[i % TRACE_STAGES] |= spans[i].end != 0;
    figures.stages[i % TRACE_STAGES] += spans[i].end - spans[i].begin;
    if (spans[i].end != 0 && spans[i].end - start > figures.elapsed) figures.elapsed = spans[i].end - start;
  }
  trace_sum(&figures);
  return figures;
}

static json_t *event(const char *name, const char *phase, int stage) {
  return json_pack("{s:s, s:s, s:i, s:i}", "name", name, "ph", phase, "pid", 1, "tid", stage + 1);
}

static void add_row(json_t *events, int stage) {
  json_t *row = event("thread_name", "M", stage);
  json_object_set_new(row, "args", json_pack("{s:s}", "name", trace_stage_name(stage)));
  json_array_append_new(events, row);
}

static void add_span(json_t *events, const trace_span *span, size_t item, int stage, uint64_t start) {
  char name[32];
  snprintf(name, sizeof name, "item %zu", item);
  json_t *bar = event(name, "X", stage);
  json_object_set_new(bar, "cat", json_string(trace_stage_name(stage)));
  json_object_set_new(bar, "ts", json_real((double)(span->begin - start) / 1e3)); /* microseconds */
  json_object_set_new(bar, "dur", json_real((double)(span->end - span->begin) / 1e3));
  json_array_append_new(events, bar);
}

bool trace_write(const char *path, const trace_span *spans, size_t count, tool_fault *fault) {
  json_t *events = json_array();
  uint64_t start = start_of(spans, count);
  for (int stage = 0; stage < TRACE_STAGES; stage++) {
    add_row(events, stage);
    for (size_t i = 0; i < count; i++) {
      const trace_span *span = &spans[i * TRACE_STAGES + (size_t)stage];
      if (span->end != 0) add_span(events, span, i, stage, start);
    }
  }
  json_t *whole = json_pack("{s:o, s:s}", "traceEvents", events, "displayTimeUnit", "ms");
  char *text = whole == NULL ? NULL : json_dumps(whole, JSON_INDENT(0) | JSON_REAL_PRECISION(15));
  json_decref(whole);
  if (text == NULL) return fault_set(fault, "%s: out of memory", path);
  const file_part part = {text, strlen(text)};
  bool written = file_write(path, &part, 1, fault);
  free(text);
  return written;
}
