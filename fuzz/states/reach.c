#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "reach.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

static const struct {
  const char *text;
  unsigned needs;
} features[] = {
#define FEATURE_ROW(name, where, text) {text, where},
    FEATURES(FEATURE_ROW)
#undef FEATURE_ROW
};

/* Shared by all processes. */
static struct {
  uint64_t counts[FEATURE_COUNT];
  unsigned where;
} * found;

void *reach_share(size_t bytes) {
  char *all = mmap(NULL, sizeof *found + bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (all == MAP_FAILED) abort();
  found = (void *)all;
  return all + sizeof *found;
}

void reach_here(unsigned where) {
  found->where = where;
}

void reached(feature one) {
  found->counts[one]++;
}

void reached_if(feature one, bool holds) {
  found->counts[one] += holds;
}

bool report(void) {
  bool all = true;
  for (size_t i = 0; i < FEATURE_COUNT; i++) {
    bool missed = found->counts[i] == 0 && (features[i].needs & ~found->where) == 0;
    printf("%8" PRIu64 "  %s%s\n", found->counts[i], features[i].text, missed ? ": NEVER REACHED" : "");
    all = all && !missed;
  }
  return all;
}
