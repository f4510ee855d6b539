/** @file grid.h
 *  Where tiles lie along one side of a picture, and what each of them counts for there. */
#ifndef IOBIND_TOOL_GRID_H
#define IOBIND_TOOL_GRID_H

#include <stddef.h>
#include <stdint.h>

/** All in units of `step` pixels of the picture: that many for one value of the output, if that is the smaller one. */
typedef struct grid_axis {
  int64_t length;
  int64_t tile;
  int64_t overlap; /**< what neighbours share at least; at most half a tile */
  int64_t
      multiple; /**< the largest power of two that divides tile and overlap: but for the last, tiles begin at multiples of it,
                         for a model that halves its input again and again sees the same only there */
  int64_t step;
  size_t count; /**< tiles, spread as evenly as that lets them */
} grid_axis;

/** Plan one side: `tile` is a multiple of `step`, 1 and more each, and the overlap at most half of it when both are counted in
 *  steps. Lengths stay below 2^31. */
grid_axis grid_plan(int64_t length, int64_t tile, int64_t overlap, int64_t step);

/** Where a tile begins. The last one ends where the side ends; it goes beyond if a tile is longer than the side, and by less
 *  than a step. */
int64_t grid_origin(const grid_axis *axis, size_t index);

/** What a tile counts for at each of its places in the output, which are `scale` for a unit: tile * scale of them. At each place
 *  of the side these sum to one. Around the middle of what two neighbours share one fades into the other, over half of `overlap`;
 *  beyond, each place belongs to one tile: the outer quarter of the overlap, where a tile knows least of what is around, is no
 *  tile's. */
void grid_weigh(const grid_axis *axis, size_t index, int64_t scale, float *weights);

#endif
