/** @file grid.h
 *  Where tiles begin along one side of a picture, and the weight of each of them there. */
#ifndef IOBIND_TOOL_GRID_H
#define IOBIND_TOOL_GRID_H

#include <stddef.h>
#include <stdint.h>

/** All in units of `step` pixels of the picture: one value of the output covers that many, if the output is smaller. */
typedef struct grid_axis {
  int64_t length;
  int64_t tile;
  int64_t overlap;  /**< what neighbours share at least; at most half a tile */
  int64_t multiple; /**< the largest power of two that divides tile and overlap. All tiles but the last begin at multiples of
                         it: a model that halves its input again and again gives the same result only there */
  int64_t step;
  size_t count; /**< the number of tiles, spread as evenly as this allows */
} grid_axis;

/** Plan one side: `tile` is a multiple of `step`, 1 and more each, and the overlap at most half of it when both are counted in
 *  steps. Lengths stay below 2^31. */
grid_axis grid_plan(int64_t length, int64_t tile, int64_t overlap, int64_t step);

/** Where a tile begins. The last one ends where the side ends; if a tile is longer than the side, it goes beyond, by less than
 *  a step. */
int64_t grid_origin(const grid_axis *axis, size_t index);

/** The weight of a tile at each of its positions in the output: tile * scale of them, `scale` for a unit. At each position of
 *  the side the weights sum to one. Around the middle of what two neighbours share, one fades
 *  into the other over half of `overlap`; beyond that each position belongs to one tile: at the outer quarter of the overlap,
 *  where a tile sees the least around it, its weight is 0. */
void grid_weigh(const grid_axis *axis, size_t index, int64_t scale, float *weights);

#endif
