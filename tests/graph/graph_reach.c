#include "graph_reach.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

static const char *const texts[] = {
#define GRAPH_FEATURE_TEXT(name, text) text,
    GRAPH_FEATURES(GRAPH_FEATURE_TEXT)
#undef GRAPH_FEATURE_TEXT
};

static uint64_t counts[GRAPH_FEATURE_COUNT];

void graph_reached(graph_feature one) {
  counts[one]++;
}

void graph_reached_if(graph_feature one, bool holds) {
  counts[one] += holds;
}

bool graph_report(bool has_queues) {
  bool all = true;
  for (size_t i = 0; i < GRAPH_FEATURE_COUNT; i++) {
    bool missed = counts[i] == 0 && (has_queues || i != GRAPH_QUEUED);
    printf("%8" PRIu64 "  %s%s\n", counts[i], texts[i], missed ? ": NEVER REACHED" : "");
    all = all && !missed;
  }
  return all;
}
