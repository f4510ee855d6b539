#include "pictures/grid.h"

grid_axis grid_plan(int64_t length, int64_t tile, int64_t overlap, int64_t step) {
  grid_axis axis = {.length = (length + step - 1) / step, .tile = tile / step, .overlap = (overlap + step - 1) / step};
  axis.step = step;
  int64_t forward = axis.tile - axis.overlap;
  axis.count = axis.length <= axis.tile ? 1 : 1 + (size_t)((axis.length - axis.tile + forward - 1) / forward);
  axis.multiple = 1;
  while (axis.tile % (2 * axis.multiple) == 0 && axis.overlap % (2 * axis.multiple) == 0) axis.multiple *= 2;
  return axis;
}

/* `forward` is a multiple of `multiple`, so rounding up never moves a tile more than `forward` from the one before it. */
static int64_t begin(const grid_axis *axis, size_t index) {
  if (index == 0) return 0;
  int64_t last = axis->length - axis->tile, parts = (int64_t)(axis->count - 1);
  if (index + 1 == axis->count) return last;
  int64_t unit = parts * axis->multiple;
  return (last * (int64_t)index + unit - 1) / unit * axis->multiple;
}

int64_t grid_origin(const grid_axis *axis, size_t index) {
  return begin(axis, index) * axis->step;
}

/* The share of this tile, against tile `index - 1`, at a position of the whole output: 0 to 1. */
static double change(const grid_axis *axis, size_t index, int64_t scale, int64_t place) {
  if (index == 0) return 1;
  if (index == axis->count) return 0;
  double middle = (double)((begin(axis, index) + begin(axis, index - 1) + axis->tile) * scale) / 2;
  double width = (double)(axis->overlap * scale) / 2;
  double beyond = (double)place + 0.5 - middle;
  if (beyond >= width / 2) return 1;
  return beyond <= -width / 2 ? 0 : beyond / width + 0.5;
}

void grid_weigh(const grid_axis *axis, size_t index, int64_t scale, float *weights) {
  int64_t first = begin(axis, index) * scale;
  for (int64_t i = 0; i < axis->tile * scale; i++) {
    weights[i] = (float)(change(axis, index, scale, first + i) - change(axis, index + 1, scale, first + i));
  }
}
