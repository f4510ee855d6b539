#include "pictures/plot.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

/* Sizes in the picture's own units: it is 1200 wide. */
enum {
  WIDTH = 1200,
  MARGIN = 40,
  BAR_LEFT = 230,  /* the names of the bars are to the left of it */
  BAR_RIGHT = 900, /* to the right of it there is room for the texts of the longest bar */
  HEAD = 104,
  BAR = 22,
  BAR_GAP = 5,
  TEXTS = 52, /* height of a group's title and sentence */
  GROUP_GAP = 28,
  FOOTNOTE_LINE = 22
};

static const char *const colours[PLOT_MAX_BARS] = {"#a8b0ba", "#17476f", "#4f9bd9", "#d98b2b"};
static const char ink[] = "#1f2933";
static const char quiet[] = "#5f6c7b";

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

typedef struct style {
  int size;
  const char *colour;
  bool is_bold;
} style;

/* A line of text at the left margin. */
static void put(FILE *file, double y, style look, const char *s) {
  fprintf(file, "<text x=\"%.1f\" y=\"%.1f\" font-size=\"%d\" fill=\"%s\"%s>", (double)MARGIN, y, look.size, look.colour,
          look.is_bold ? " font-weight=\"bold\"" : "");
  text(file, s);
  fputs("</text>\n", file);
}

static bool is_drawn(const plot_bar *bar) {
  return bar->value > 0 && isfinite(bar->value);
}

static double longest_of(const plot_group *group) {
  double longest = 0;
  for (size_t i = 0; i < group->bar_count; i++) {
    if (is_drawn(&group->bars[i]) && group->bars[i].value > longest) longest = group->bars[i].value;
  }
  return longest;
}

static double group_height(const plot_group *group) {
  return TEXTS + (double)group->bar_count * (BAR + BAR_GAP) + GROUP_GAP;
}

static void write_bar(const plot_bar *bar, double longest, double y, const char *colour, FILE *file) {
  double end = BAR_LEFT, middle = y + BAR * 0.5 + 5.5;
  put(file, middle, (style){15, ink, false}, bar->name);
  if (is_drawn(bar)) {
    double width = bar->value / longest * (BAR_RIGHT - BAR_LEFT);
    end += width;
    fprintf(file, "<rect x=\"%d\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" fill=\"%s\"/>\n", BAR_LEFT, y, width, BAR, colour);
  }
  fprintf(file, "<text x=\"%.1f\" y=\"%.1f\" font-size=\"15\" fill=\"%s\">", end + 9, middle, ink);
  text(file, bar->label);
  if (bar->note != NULL) {
    fprintf(file, "<tspan dx=\"10\" fill=\"%s\">", quiet);
    text(file, bar->note);
    fputs("</tspan>", file);
  }
  fputs("</text>\n", file);
}

static void write_group(const plot_group *group, double y, FILE *file) {
  put(file, y + 16, (style){17, ink, true}, group->title);
  put(file, y + 39, (style){15, quiet, false}, group->sentence);
  double longest = longest_of(group);
  for (size_t i = 0; i < group->bar_count; i++) {
    write_bar(&group->bars[i], longest, y + TEXTS + (double)i * (BAR + BAR_GAP), colours[i], file);
  }
}

int plot_write(const plot *p, FILE *file) {
  double bottom = HEAD, y = HEAD;
  for (size_t i = 0; i < p->group_count; i++) {
    if (p->groups[i].bar_count > PLOT_MAX_BARS) return -1;
    bottom += group_height(&p->groups[i]);
  }
  double height = bottom + (double)p->footnote_count * FOOTNOTE_LINE + 14;
  fprintf(file,
          "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%.0f\" viewBox=\"0 0 %d %.0f\" "
          "font-family=\"'DejaVu Sans', Verdana, Helvetica, Arial, sans-serif\">\n",
          WIDTH, height, WIDTH, height);
  fputs("<title>", file);
  text(file, p->title);
  fprintf(file, "</title>\n<rect width=\"%d\" height=\"%.0f\" fill=\"#ffffff\"/>\n", WIDTH, height);
  put(file, 48, (style){26, ink, true}, p->title);
  put(file, 78, (style){16, quiet, false}, p->subtitle);
  for (size_t i = 0; i < p->group_count; i++) {
    write_group(&p->groups[i], y, file);
    y += group_height(&p->groups[i]);
  }
  for (size_t i = 0; i < p->footnote_count; i++) {
    put(file, bottom + 12 + (double)i * FOOTNOTE_LINE, (style){14, quiet, false}, p->footnotes[i]);
  }
  fputs("</svg>\n", file);
  return ferror(file) ? -1 : 0;
}
