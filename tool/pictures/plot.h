/* A chart of horizontal bars in groups, written as SVG. */
#ifndef IOBIND_TOOL_PLOT_H
#define IOBIND_TOOL_PLOT_H

#include <stddef.h>
#include <stdio.h>

typedef struct plot_bar {
  double value;      /* 0 or less: no bar, only the label */
  const char *label; /* beside the bar */
  const char *note;  /* behind the label, in a quieter colour; NULL: none */
} plot_bar;

typedef struct plot_group {
  const char *title;
  const char *subtitle;
  const char *remark; /* a third line under them; NULL: none */
} plot_group;

/* The caller owns all strings; they are read only during plot_write. */
typedef struct plot {
  const char *title;
  const char *subtitle;
  const char *axis; /* what the values are, with their unit */
  const char *const *series;
  size_t series_count; /* PLOT_MAX_SERIES at most */
  const plot_group *groups;
  size_t group_count;
  const plot_bar *bars; /* group by group, series_count each */
  const char *const *footnotes;
  size_t footnote_count;
} plot;

enum { PLOT_MAX_SERIES = 4 };

/* Write the whole picture. The axis is logarithmic if the values span more than a factor of 20. Returns 0, or -1
 * if writing failed or there are more series than colours. */
int plot_write(const plot *p, FILE *file);

#endif
