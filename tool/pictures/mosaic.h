/** @file mosaic.h
 *  Pictures cut into tiles in the layout of a model's input, and its outputs joined to a picture. */
#ifndef IOBIND_TOOL_MOSAIC_H
#define IOBIND_TOOL_MOSAIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/fault.h"
#include "formats/npy.h"

enum { MOSAIC_N, MOSAIC_C, MOSAIC_H, MOSAIC_W, MOSAIC_AXES };

/** Which dim is which: letters of N (pictures), C (channels), H and W. */
typedef struct mosaic_layout {
  char letters[MOSAIC_AXES + 1];
  int place[MOSAIC_AXES]; /**< the dim; -1: there is none */
  size_t rank;
} mosaic_layout;

/** Read "NCHW", "HWC", "NHW", ...: each letter at most once, and H and W always. */
bool mosaic_read_layout(const char *text, mosaic_layout *layout);

typedef enum mosaic_kind { MOSAIC_BYTES, MOSAIC_HALVES, MOSAIC_FLOATS } mosaic_kind; /**< uint8, float16, float32 */

/** Elements in one memory, addressed by picture, channel, row and column. */
typedef struct mosaic_view {
  void *data;
  mosaic_kind kind;
  int64_t dims[MOSAIC_AXES];    /**< 1 if the layout has no such dim */
  int64_t strides[MOSAIC_AXES]; /**< elements */
} mosaic_view;

/** A view of dims in a layout's order, `layout->rank` of them. */
mosaic_view mosaic_look(void *data, mosaic_kind kind, const int64_t *dims, const mosaic_layout *layout);

/** Turns pixels into the model's numbers: (pixel - mean) / deviation, with the channels in the model's order. */
typedef struct mosaic_levels {
  const float *mean; /**< one for each channel of the model */
  const float *deviation;
  bool reversed; /**< the model's first channel is the picture's last */
} mosaic_levels;

/** Where a tile begins. */
typedef struct mosaic_corner {
  int64_t picture; /**< its index in a view */
  int64_t row;
  int64_t column;
} mosaic_corner;

/** Copy the part of a picture that begins at `from` into tile `index` of a view. Beyond the picture's edges its last row and column
 *  are repeated. */
void mosaic_cut(const mosaic_view *pictures, mosaic_corner from, const mosaic_levels *levels, const mosaic_view *tiles,
                int64_t index);

/** Add tile `index` to a picture of float32, from `to` on, each element times the weights of its row and column. Elements beyond
 *  the picture's edges are skipped. */
void mosaic_add(const mosaic_view *tiles, int64_t index, const float *row_weights, const float *column_weights,
                const mosaic_view *pictures, mosaic_corner to);

/** Bytes of a picture of float32, times `factor` and rounded, limited to 0 .. 255, into a view of bytes.
 *  @param reversed  the last channel becomes the first */
void mosaic_round(const mosaic_view *picture, float factor, bool reversed, const mosaic_view *bytes);

#endif
