#include "pictures/plot.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

/* Sizes in the picture's own units: it is 1200 wide. */
enum {
  WIDTH = 1200,
  MARGIN = 40,
  PLOT_LEFT = 330,  /* the names of the groups are to the left of it */
  PLOT_RIGHT = 930, /* to the right of it there is room for the label of the longest bar */
  HEAD = 152,
  BAR = 24,
  BAR_GAP = 5,
  GROUP_GAP = 30,
  GROUP_LEAST = 78, /* height of a group's three lines of text */
  FOOTNOTE_LINE = 22,
  MAX_TICKS = 64
};

#define LOG_FROM 20.0 /* from this ratio on, a linear axis would not show the shortest bar */

static const char *const colours[PLOT_MAX_SERIES] = {"#a8b0ba", "#4f9bd9", "#17476f", "#d98b2b"};
static const char ink[] = "#1f2933";
static const char quiet[] = "#5f6c7b";

typedef struct scale {
  bool logarithmic;
  double low, high;
  double ticks[MAX_TICKS];
  size_t tick_count;
} scale;

static void text(FILE *file, const char *s) {
  for (; *s != '\0'; s++) {
    switch (*s) {
      case '&': fputs("&amp;", file); break;
      case '<': fputs("&lt;", file); break;
      case '>': fputs("&gt;", file); break;
      case '"': fputs("&quot;", file); break;
      default:
        if ((unsigned char)*s >= 0x20) fputc(*s, file); /* XML allows no other control characters */
    }
  }
}

static void put(FILE *file, double x, double y, int size, const char *colour, const char *extra, const char *s) {
  fprintf(file, "<text x=\"%.1f\" y=\"%.1f\" font-size=\"%d\" fill=\"%s\"%s>", x, y, size, colour, extra);
  text(file, s);
  fputs("</text>\n", file);
}

/* The smallest of 1, 2 and 5 times a power of ten that is `least` or more. */
static double round_step(double least) {
  double power = pow(10, floor(log10(least)));
  static const double steps[] = {1, 2, 5};
  for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
    if (steps[i] * power >= least * (1 - 1e-9)) return steps[i] * power;
  }
  return 10 * power;
}

static scale scale_of(const plot *p) {
  scale s = {false, 0, 0, {0}, 0};
  double least = 0, most = 0;
  for (size_t i = 0; i < p->group_count * p->series_count; i++) {
    double value = p->bars[i].value;
    if (!(value > 0) || !isfinite(value)) continue;
    if (least == 0 || value < least) least = value;
    if (value > most) most = value;
  }
  if (most == 0) least = most = 1;
  s.logarithmic = most / least > LOG_FROM;
  if (s.logarithmic) {
    /* Leave at least half a decade to the left of the shortest bar, so that it can be seen. */
    int from = (int)floor(log10(least) - 0.3);
    int to = (int)ceil(log10(most) - 1e-9);
    s.low = pow(10, from);
    s.high = pow(10, to);
    for (int e = from; e <= to && s.tick_count < MAX_TICKS; e++) s.ticks[s.tick_count++] = pow(10, e);
  } else {
    double step = round_step(most / 6);
    s.high = step * ceil(most / step - 1e-9);
    while (s.tick_count < MAX_TICKS && (double)s.tick_count * step <= s.high + step / 2) {
      s.ticks[s.tick_count] = (double)s.tick_count * step;
      s.tick_count++;
    }
  }
  return s;
}

static double position(const scale *s, double value) {
  double share = s->logarithmic ? (log10(value) - log10(s->low)) / (log10(s->high) - log10(s->low)) : value / s->high;
  if (share < 0) share = 0;
  return PLOT_LEFT + share * (PLOT_RIGHT - PLOT_LEFT);
}

static double group_height(const plot *p) {
  double bars = (double)p->series_count * (BAR + BAR_GAP) - BAR_GAP;
  return bars > GROUP_LEAST ? bars : GROUP_LEAST;
}

static void write_head(const plot *p, const scale *s, FILE *file) {
  put(file, MARGIN, 48, 26, ink, " font-weight=\"bold\"", p->title);
  put(file, MARGIN, 78, 16, quiet, "", p->subtitle);
  double x = PLOT_LEFT;
  for (size_t i = 0; i < p->series_count; i++) {
    fprintf(file, "<rect x=\"%.1f\" y=\"100\" width=\"16\" height=\"16\" rx=\"3\" fill=\"%s\"/>\n", x, colours[i]);
    put(file, x + 23, 113.5, 15, ink, "", p->series[i]);
    x += 23 + 8.3 * (double)strlen(p->series[i]) + 26; /* an estimate: fonts cannot be measured here */
  }
  char axis[256];
  snprintf(axis, sizeof axis, "%s%s", p->axis, s->logarithmic ? ", logarithmic" : "");
  put(file, MARGIN, 113.5, 14, quiet, "", axis);
}

static void write_axis(const scale *s, double top, double bottom, FILE *file) {
  for (size_t i = 0; i < s->tick_count; i++) {
    double x = position(s, s->ticks[i]);
    fprintf(file, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\"/>\n", x, top, x, bottom,
            i == 0 ? "#9aa5b1" : "#e4e8ec");
    char label[32];
    snprintf(label, sizeof label, "%.6g", s->ticks[i]);
    put(file, x, bottom + 20, 14, quiet, " text-anchor=\"middle\"", label);
  }
}

static void write_bar(const plot_bar *bar, const scale *s, double y, const char *colour, FILE *file) {
  double end = bar->value > 0 && isfinite(bar->value) ? position(s, bar->value) : PLOT_LEFT;
  if (end > PLOT_LEFT) {
    fprintf(file, "<rect x=\"%d\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" fill=\"%s\"/>\n", PLOT_LEFT, y, end - PLOT_LEFT, BAR,
            colour);
  }
  fprintf(file, "<text x=\"%.1f\" y=\"%.1f\" font-size=\"15\" fill=\"%s\">", end + 9, y + BAR * 0.5 + 5.5, ink);
  text(file, bar->label);
  if (bar->note != NULL) {
    fprintf(file, "<tspan dx=\"10\" fill=\"%s\">", quiet);
    text(file, bar->note);
    fputs("</tspan>", file);
  }
  fputs("</text>\n", file);
}

static void write_group(const plot *p, size_t index, const scale *s, double y, FILE *file) {
  const plot_group *group = &p->groups[index];
  put(file, MARGIN, y + 18, 18, ink, " font-weight=\"bold\"", group->title);
  put(file, MARGIN, y + 43, 15, ink, "", group->subtitle);
  if (group->remark != NULL) put(file, MARGIN, y + 66, 14, quiet, "", group->remark);
  for (size_t i = 0; i < p->series_count; i++) {
    write_bar(&p->bars[index * p->series_count + i], s, y + (double)i * (BAR + BAR_GAP), colours[i], file);
  }
}

int plot_write(const plot *p, FILE *file) {
  if (p->series_count > PLOT_MAX_SERIES) return -1;
  scale s = scale_of(p);
  double step = group_height(p) + GROUP_GAP;
  double bottom = HEAD + step * (double)p->group_count - GROUP_GAP / 2.0;
  double height = bottom + 46 + (double)p->footnote_count * FOOTNOTE_LINE + (p->footnote_count > 0 ? 14 : 0);

  fprintf(file,
          "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%.0f\" viewBox=\"0 0 %d %.0f\" "
          "font-family=\"'DejaVu Sans', Verdana, Helvetica, Arial, sans-serif\">\n",
          WIDTH, height, WIDTH, height);
  fputs("<title>", file);
  text(file, p->title);
  fprintf(file, "</title>\n<rect width=\"%d\" height=\"%.0f\" fill=\"#ffffff\"/>\n", WIDTH, height);
  write_head(p, &s, file);
  write_axis(&s, HEAD - 14, bottom, file);
  for (size_t i = 0; i < p->group_count; i++) write_group(p, i, &s, HEAD + step * (double)i, file);
  for (size_t i = 0; i < p->footnote_count; i++) {
    put(file, MARGIN, bottom + 58 + (double)i * FOOTNOTE_LINE, 14, quiet, "", p->footnotes[i]);
  }
  fputs("</svg>\n", file);
  return ferror(file) ? -1 : 0;
}
