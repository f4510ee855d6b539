/* Figures of a series of times. */
#ifndef IOBIND_TOOL_STATISTIC_H
#define IOBIND_TOOL_STATISTIC_H

#include <stddef.h>
#include <stdint.h>

typedef struct statistic {
  size_t count;
  double minimum;
  double median;
  double median_low; /* the true median is between these two, 19 times out of 20 */
  double median_high;
  double p90;
  double p99;
  double mean;
} statistic;

/* Sorts `values` (nanoseconds) in place. All figures are 0 if there is no value. */
statistic statistic_of(uint64_t *values, size_t count);

/* The value below which the share `fraction` (0 .. 1) of the sorted values is, interpolated. */
double statistic_quantile(const uint64_t *sorted, size_t count, double fraction);

#endif
