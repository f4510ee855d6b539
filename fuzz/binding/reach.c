#include "reach.h"

#include <inttypes.h>
#include <stdio.h>

static const struct {
  unsigned where;
  const char *text;
} features[] = {
#define FEATURE_ROW(name, where, text) {where, text},
    FEATURES(FEATURE_ROW)
#undef FEATURE_ROW
};

static uint64_t own_counts[FEATURE_COUNT];
uint64_t *feature_counts = own_counts;

void reached(feature one) {
  feature_counts[one]++;
}

void reached_if(feature one, bool holds) {
  feature_counts[one] += holds;
}

bool features_report(unsigned where) {
  bool all = true;
  for (size_t i = 0; i < FEATURE_COUNT; i++) {
    if ((features[i].where & where) == 0) continue;
    bool missed = feature_counts[i] == 0;
    printf("%8" PRIu64 "  %s%s\n", feature_counts[i], features[i].text, missed ? ": NEVER REACHED" : "");
    all = all && !missed;
  }
  return all;
}
