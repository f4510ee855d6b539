/* Shared by all attention kernels: the attention of one query to the keys that it sees. */
#ifndef VCUDA_KERNEL_ATTENTION_H
#define VCUDA_KERNEL_ATTENTION_H

#include "kernel.h"

enum { VCUDA_MOST_ELEMENTS = 1024 }; /* of a head */

/* The rows of one head. */
typedef struct vcuda_rows {
  vcuda_type type;
  const void *data; /* element 0 of row 0 */
  int64_t stride;   /* from row to row, in elements */
  int64_t size;     /* of a row, in elements */
} vcuda_rows;

typedef struct vcuda_view {
  vcuda_rows keys, values;
  int64_t first, end; /* range of the keys that are seen */
  double scale;
  double cap;  /* softcap: scores become cap * tanh(score / cap); 0: none */
  double sink; /* an additional score without a value; -INFINITY: none */
  vcuda_type bias_type;
  const void *bias; /* of key 0, added to the scores after the cap; NULL: none */
} vcuda_view;

/* The weighted mean of the values. Returns the logarithm of the sum of the exponentials of all scores; -INFINITY, and a mean of 0,
 * if there is no score. */
double vcuda_attend(const vcuda_view *view, const double *query, double *mean);

/* A row as doubles. */
void vcuda_read_row(const vcuda_rows *rows, int64_t row, double *values);

/* Read rows first to end - 1, which the race detector records. Returns the address that row 0 would have; NULL: the rows are not
 * accessible. */
const void *vcuda_read_rows(const void *head, vcuda_type type, int64_t first, int64_t end, int64_t stride, int64_t size);

/* Rotate the pairs of a row's first `turned` elements by the angles in a row of the caches, and round them. Pairs are adjacent elements, or
 * elements at a distance of turned / 2. */
typedef struct vcuda_turn {
  vcuda_type type;
  const void *cosines, *sines; /* rows of turned / 2 */
  int64_t turned;
  bool neighbours;
} vcuda_turn;

void vcuda_turn_row(const vcuda_turn *turn, int64_t position, double *values);

#endif
