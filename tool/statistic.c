#include "statistic.h"

#include <stdlib.h>

static int compare(const void *left, const void *right) {
  uint64_t a = *(const uint64_t *)left;
  uint64_t b = *(const uint64_t *)right;
  return (a > b) - (a < b);
}

double statistic_quantile(const uint64_t *sorted, size_t count, double fraction) {
  if (count == 0) return 0;
  double position = fraction * (double)(count - 1);
  size_t below = (size_t)position;
  if (below + 1 >= count) return (double)sorted[count - 1];
  double share = position - (double)below;
  return (double)sorted[below] * (1 - share) + (double)sorted[below + 1] * share;
}

statistic statistic_of(uint64_t *values, size_t count) {
  statistic s = {0};
  if (count == 0) return s;
  qsort(values, count, sizeof *values, compare);
  double sum = 0;
  for (size_t i = 0; i < count; i++) sum += (double)values[i];
  s.count = count;
  s.minimum = (double)values[0];
  s.median = statistic_quantile(values, count, 0.5);
  s.p90 = statistic_quantile(values, count, 0.9);
  s.p99 = statistic_quantile(values, count, 0.99);
  s.mean = sum / (double)count;
  return s;
}
