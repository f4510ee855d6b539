/* A chart of horizontal bars in groups, written as SVG. The bars of a group share one linear scale. */
#ifndef IOBIND_TOOL_PLOT_H
#define IOBIND_TOOL_PLOT_H

#include <stddef.h>
#include <stdio.h>

typedef struct plot_bar {
  double value;      /* 0, negative or not finite: no bar, only the texts */
  const char *name;  /* to the left of the bar */
  const char *label; /* to its right */
  const char *note;  /* after the label, in a quieter colour; NULL: none */
} plot_bar;

typedef struct plot_group {
  const char *title;
  const char *sentence;
  const plot_bar *bars; /* coloured in this order; PLOT_MAX_BARS at most */
  size_t bar_count;
} plot_group;

/* The caller owns all strings; they are read only during plot_write. */
typedef struct plot {
  const char *title;
  const char *subtitle;
  const plot_group *groups;
  size_t group_count;
  const char *const *footnotes;
  size_t footnote_count;
} plot;

enum { PLOT_MAX_BARS = 4 };

/* Write the whole picture. The longest bar of each group has the full width. Returns 0, or -1 if writing failed or a group has
 * more bars than there are colours. */
int plot_write(const plot *p, FILE *file);

#endif
