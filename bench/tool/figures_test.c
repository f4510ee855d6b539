/* What `iobind bench` makes of times: figures and a picture. */
#define _POSIX_C_SOURCE 200809L
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pictures/plot.h"
#include "shared/statistic.h"

static void near(double value, double expected) {
  if (value < expected - 1e-6 || value > expected + 1e-6) fail_msg("expected %f, got %f", expected, value);
}

static void figures_of_none_are_zero(void **state) {
  (void)state;
  statistic s = statistic_of(NULL, 0);
  assert_int_equal(s.count, 0);
  near(s.median, 0);
  near(s.p99, 0);
}

static void figures_of_one_are_it(void **state) {
  (void)state;
  uint64_t values[] = {7};
  statistic s = statistic_of(values, 1);
  assert_int_equal(s.count, 1);
  near(s.minimum, 7);
  near(s.median, 7);
  near(s.median_low, 7);
  near(s.median_high, 7);
  near(s.p90, 7);
  near(s.p99, 7);
  near(s.mean, 7);
}

static void quantiles_lie_between_neighbours(void **state) {
  (void)state;
  uint64_t values[] = {40, 10, 30, 20}; /* in no order */
  statistic s = statistic_of(values, 4);
  near(s.minimum, 10);
  near(s.median, 25);
  near(s.p90, 37);
  near(s.p99, 39.7);
  near(s.mean, 25);
}

static void few_values_leave_the_median_open(void **state) {
  (void)state;
  uint64_t three[] = {5, 1, 9};
  statistic s = statistic_of(three, 3);
  near(s.median_low, 1);
  near(s.median_high, 9);
}

static void many_values_close_the_median_in(void **state) {
  (void)state;
  uint64_t values[100];
  for (uint64_t i = 0; i < 100; i++) values[i] = i + 1;
  statistic s = statistic_of(values, 100);
  near(s.median, 50.5);
  near(s.median_low, 40); /* ranks 40 and 61: 50 and 51, 9.8 away from the middle */
  near(s.median_high, 61);
}

static char *draw(const plot_bar *bars, size_t groups) {
  static const char *const footnotes[] = {"a < b & \"c\" > d\x01"};
  plot_group all[8] = {{NULL, NULL, NULL, 0}};
  for (size_t i = 0; i < groups; i++) all[i] = (plot_group){"<title>", "sentence", bars + 2 * i, 2};
  const plot p = {
      .title = "t", .subtitle = "s", .groups = all, .group_count = groups, .footnotes = footnotes, .footnote_count = 1};
  char *svg = NULL;
  size_t bytes = 0;
  FILE *file = open_memstream(&svg, &bytes);
  assert_non_null(file);
  assert_int_equal(plot_write(&p, file), 0);
  fclose(file);
  return svg;
}

static size_t count(const char *text, const char *word) {
  size_t found = 0;
  for (const char *at = strstr(text, word); at != NULL; at = strstr(at + 1, word)) found++;
  return found;
}

static void text_is_escaped(void **state) {
  (void)state;
  const plot_bar bars[] = {{1, "one", "<1>", NULL}, {2, "two", "2", "&"}};
  char *svg = draw(bars, 1);
  assert_non_null(strstr(svg, "a &lt; b &amp; &quot;c&quot; &gt; d<"));
  assert_non_null(strstr(svg, "&lt;title&gt;"));
  assert_null(strchr(svg, '\x01'));
  free(svg);
}

/* The longest bar of each group is 670 wide, and the others in proportion. */
static void bars_are_linear_in_their_group(void **state) {
  (void)state;
  const plot_bar bars[] = {{100, "a", "", NULL}, {1, "b", "", NULL}, {4, "c", "", NULL}, {2, "d", "", NULL}};
  char *svg = draw(bars, 2);
  assert_int_equal(count(svg, "width=\"670.0\""), 2);
  assert_int_equal(count(svg, "width=\"6.7\""), 1);
  assert_int_equal(count(svg, "width=\"335.0\""), 1);
  free(svg);
}

/* No bar at all for what was not measured, and nothing but finite numbers in the file. */
static void odd_values_draw_no_bar(void **state) {
  (void)state;
  const double zero = 0;
  const plot_bar bars[] = {{0, "a", "", NULL}, {-1, "b", "", NULL}, {1 / zero, "c", "", NULL}, {3, "d", "", NULL}};
  char *svg = draw(bars, 2);
  assert_int_equal(count(svg, "height=\"22\""), 1);
  assert_null(strstr(svg, "inf"));
  assert_null(strstr(svg, "nan"));
  free(svg);
}

static void too_many_bars_are_refused(void **state) {
  (void)state;
  const plot_group group = {.bar_count = PLOT_MAX_BARS + 1};
  const plot p = {.groups = &group, .group_count = 1};
  assert_int_equal(plot_write(&p, stderr), -1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(figures_of_none_are_zero),         cmocka_unit_test(figures_of_one_are_it),
      cmocka_unit_test(quantiles_lie_between_neighbours), cmocka_unit_test(few_values_leave_the_median_open),
      cmocka_unit_test(many_values_close_the_median_in),  cmocka_unit_test(text_is_escaped),
      cmocka_unit_test(bars_are_linear_in_their_group),   cmocka_unit_test(odd_values_draw_no_bar),
      cmocka_unit_test(too_many_bars_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
