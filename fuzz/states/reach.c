#include "reach.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

static const struct {
  const char *text;
  unsigned needs;
} features[] = {
#define FEATURE_ROW(name, where, text) {text, where},
    FEATURES(FEATURE_ROW)
#undef FEATURE_ROW
};

static uint64_t counts[FEATURE_COUNT];

void reached(feature one) {
  counts[one]++;
}

void reached_if(feature one, bool holds) {
  counts[one] += holds;
}

bool report(unsigned here) {
  bool all = true;
  for (size_t i = 0; i < FEATURE_COUNT; i++) {
    bool missed = counts[i] == 0 && (features[i].needs & ~here) == 0;
    printf("%8" PRIu64 "  %s%s\n", counts[i], features[i].text, missed ? ": NEVER REACHED" : "");
    all = all && !missed;
  }
  return all;
}
