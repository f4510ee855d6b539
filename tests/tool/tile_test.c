/* Where tiles lie and what they count for, and the figures of a pipeline's stages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "pictures/grid.h"
#include "formats/trace.h"

enum { LONGEST = 64, MOST_SCALE = 3 };

/* The tiles begin where the side begins, end where it ends, and neighbours share what was asked for. */
static void check_places(const grid_axis *axis, int64_t length, int64_t tile, int64_t overlap) {
  size_t last = axis->count - 1;
  assert_int_equal(grid_origin(axis, 0), 0);
  assert_in_range(grid_origin(axis, last) + tile, length, length <= tile ? tile : length + axis->step - 1);
  for (size_t i = 0; i < last; i++) {
    assert_true(grid_origin(axis, i) < grid_origin(axis, i + 1));
    assert_true(grid_origin(axis, i) + tile - grid_origin(axis, i + 1) >= overlap);
    assert_int_equal(grid_origin(axis, i) % (axis->multiple * axis->step), 0);
  }
}

/* At each place the weights sum to one, and the outer quarter of an overlap counts for nothing. */
static void check_weights(const grid_axis *axis, int64_t scale) {
  float weights[LONGEST * MOST_SCALE];
  float sums[2 * LONGEST * MOST_SCALE] = {0};
  int64_t size = axis->tile * scale, quarter = axis->overlap * scale / 4;
  for (size_t i = 0; i < axis->count; i++) {
    grid_weigh(axis, i, scale, weights);
    for (int64_t x = 0; x < size; x++) {
      assert_true(weights[x] >= 0 && weights[x] <= 1);
      if (i > 0 && x < quarter) assert_true(weights[x] == 0);
      if (i + 1 < axis->count && x >= size - quarter) assert_true(weights[x] == 0);
      sums[grid_origin(axis, i) / axis->step * scale + x] += weights[x];
    }
  }
  for (int64_t x = 0; x < axis->length * scale; x++) assert_float_equal(sums[x], 1, 1e-6);
}

static void every_side(void **state) {
  (void)state;
  for (int64_t step = 1; step <= 4; step++) {
    for (int64_t tile = step; tile <= 24; tile += step) {
      for (int64_t overlap = 0; (overlap + step - 1) / step <= tile / step / 2; overlap++) {
        for (int64_t length = 1; length <= LONGEST; length++) {
          const grid_axis axis = grid_plan(length, tile, overlap, step);
          check_places(&axis, length, tile, overlap);
          for (int64_t scale = 1; scale <= (step == 1 ? MOST_SCALE : 1); scale++) check_weights(&axis, scale);
        }
      }
    }
  }
}

/* No more tiles than a row of them at the least overlap needs. */
static void halved_again_and_again(void **state) {
  (void)state;
  const grid_axis axis = grid_plan(2000, 640, 160, 1);
  assert_int_equal(axis.multiple, 32);
  assert_int_equal(axis.count, 4);
  const int64_t origins[] = {0, 480, 928, 1360};
  for (size_t i = 0; i < axis.count; i++) assert_int_equal(grid_origin(&axis, i), origins[i]);
}

static void no_tile_too_many(void **state) {
  (void)state;
  assert_int_equal(grid_plan(100, 100, 50, 1).count, 1);
  assert_int_equal(grid_plan(101, 100, 50, 1).count, 2);
  assert_int_equal(grid_plan(150, 100, 50, 1).count, 2);
  assert_int_equal(grid_plan(151, 100, 50, 1).count, 3);
  assert_int_equal(grid_plan(1000, 100, 0, 1).count, 10);
  assert_int_equal(grid_plan(1001, 100, 0, 4).count, 11);
}

/* Stages of 10, 8 and 10: the second item's run waits for its upload, the third's upload for the stream. */
static void spans_and_figures(void **state) {
  (void)state;
  const iobind_pipeline_item items[] = {{sizeof items[0], 0, 0, 100, 110, 118, 128, NULL},
                                        {sizeof items[0], 0, 1, 101, 120, 128, 138, NULL},
                                        {sizeof items[0], 0, 2, 125, 135, 143, 153, NULL}};
  trace_span spans[9];
  trace_make(items, 3, spans);
  const trace_span expected[9] = {{100, 110}, {110, 118}, {118, 128}, {110, 120}, {120, 128},
                                  {128, 138}, {125, 135}, {135, 143}, {143, 153}};
  assert_memory_equal(spans, expected, sizeof spans);
  const trace_figures figures = trace_measure(spans, 3);
  assert_int_equal(figures.stages[TRACE_UPLOAD], 30);
  assert_int_equal(figures.stages[TRACE_COMPUTE], 24);
  assert_int_equal(figures.stages[TRACE_DOWNLOAD], 30);
  assert_int_equal(figures.sum, 84);
  assert_int_equal(figures.elapsed, 53);
  assert_float_equal(figures.overlap, (84.0 - 53) / (84 - 30), 1e-9);
}

static void one_stage_has_no_overlap(void **state) {
  (void)state;
  const iobind_pipeline_item item = {sizeof item, 0, 0, 100, 0, 118, 0, NULL};
  trace_span spans[3];
  trace_make(&item, 1, spans);
  const trace_figures figures = trace_measure(spans, 1);
  assert_true(isnan(figures.overlap));
  assert_int_equal(figures.elapsed, 18);
  assert_int_equal(spans[TRACE_UPLOAD].end + spans[TRACE_DOWNLOAD].end, 0);
}

/* A clock that does not tick between two stages says that one took no time, not that there was none. */
static void a_stage_of_no_time(void **state) {
  (void)state;
  const iobind_pipeline_item item = {sizeof item, 0, 0, 100, 110, 110, 0, NULL};
  trace_span spans[3];
  trace_make(&item, 1, spans);
  const trace_figures figures = trace_measure(spans, 1);
  assert_true(figures.has[TRACE_UPLOAD] && figures.has[TRACE_COMPUTE] && !figures.has[TRACE_DOWNLOAD]);
  assert_int_equal(figures.stages[TRACE_COMPUTE], 0);
  assert_true(figures.overlap < 1e-9); /* false for NAN, too */
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_side),        cmocka_unit_test(halved_again_and_again),   cmocka_unit_test(no_tile_too_many),
      cmocka_unit_test(spans_and_figures), cmocka_unit_test(one_stage_has_no_overlap), cmocka_unit_test(a_stage_of_no_time)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
