#include "shared/statistic.h"

#include <math.h>
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

/* The interval is that of order statistics: for any distribution, the number of values below its median follows the binomial
 * distribution, here approximated by the normal one. With few values it is all of them. */
static void bound_median(statistic *s, const uint64_t *sorted, size_t count) {
  double half = (double)count / 2, spread = 1.96 / 2 * sqrt((double)count);
  double low = floor(half - spread) - 1, high = ceil(half + spread);
  s->median_low = (double)sorted[low > 0 ? (size_t)low : 0];
  s->median_high = (double)sorted[high < (double)count ? (size_t)high : count - 1];
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
  bound_median(&s, values, count);
  s.p90 = statistic_quantile(values, count, 0.9);
  s.p99 = statistic_quantile(values, count, 0.99);
  s.mean = sum / (double)count;
  return s;
}
