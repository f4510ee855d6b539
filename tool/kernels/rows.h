/** @file rows.h
 *  What a survey found, by operator, type and rank. */
#ifndef IOBIND_TOOL_KERNEL_ROWS_H
#define IOBIND_TOOL_KERNEL_ROWS_H

#include "kernels/survey.h"

/** The kernels of an operator for a type and a rank. */
typedef struct kernel_row {
  char op_type[32];
  int32_t dtype;
  size_t rank;
  size_t counts[KERNEL_OUTCOMES];
  const survey_entry **findings; /**< those that are not right; the survey has them */
  size_t finding_count;
} kernel_row;

typedef struct kernel_table {
  kernel_row *rows;
  size_t row_count;
  size_t counts[KERNEL_OUTCOMES];
} kernel_table;

extern const char *const kernel_words[KERNEL_OUTCOMES];

/** @param all  begins with all zero; kernel_free_table frees it, also after a failure
 *  @return false: out of memory */
bool kernel_collect(const survey *tried, kernel_table *all);
void kernel_free_table(kernel_table *all);

/** "740 right, 8 wrong": the number of each outcome; of right ones even if it is 0. */
void kernel_summarize(const size_t *counts, char *text, size_t size);

#endif
