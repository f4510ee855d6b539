/** @file tile.h
 *  A model run over pictures tile by tile: what `iobind tile` works on. */
#ifndef IOBIND_TOOL_TILE_H
#define IOBIND_TOOL_TILE_H

#include "pictures/grid.h"
#include "pictures/mosaic.h"
#include "formats/npy.h"
#include "formats/trace.h"
#include "shared/tool.h"

/* The command line's words and numbers. */
typedef struct tile_wish {
  const char *input;
  const char *output;
  const char *trace;
  const char *layout;
  const char *mean;
  const char *deviation;
  int64_t tile[2]; /* height and width; 0: the model's own */
  int64_t overlap;
  int64_t batch; /* 0: the model's own */
  int64_t slots;
  bool reversed;
} tile_wish;

typedef struct tile_job {
  tool_state *tool;
  const tile_wish *wish;
  iobind_device *device;
  iobind_session *session;
  iobind_pipeline *pipeline;
  iobind_tensor *item; /* a batch of tiles, the input of each item */
  iobind_tensor **outputs;
  size_t output_count;
  mosaic_layout layout; /* of the input */
  int64_t item_dims[MOSAIC_AXES];
  mosaic_kind item_kind;
  npy_array source;     /* the pictures, */
  mosaic_view pictures; /* and how they are addressed */
  float *levels;        /* means, then deviations */
  mosaic_view tiles;    /* in `item` */
  size_t output;        /* the index of the output that is put together */
  const char *output_name;
  mosaic_layout output_layout;
  mosaic_kind output_kind;
  npy_array sums; /* float32, in the output's layout */
  mosaic_view result;
  int64_t scale; /* positions of the output for a pixel; 1 if a position covers `step` pixels */
  int64_t step;
  grid_axis rows;
  grid_axis columns;
  float *weights; /* of a tile's rows, then of its columns */
  size_t tile_count;
  iobind_pipeline_item *times; /* all 0 on a virtual clock */
  clock_work work;             /* on a virtual clock: the device's times, over all items */
  uint64_t modelled;           /* and the total time */
  size_t item_count;
  uint64_t load_time;
  uint64_t elapsed;
} tile_job;

/** The kind of element of a type; false: a picture cannot have it. */
bool tile_find_kind(int32_t dtype, mosaic_kind *kind);

/** Find out what the model's only input takes: its layout, and in dims the number of pictures of an item, rows and columns;
 *  channels is -1 if the model leaves them open. */
int tile_inspect_input(tile_job *job, int64_t dims[MOSAIC_AXES]);

/** Read the pictures, and what turns their pixels into the model's numbers.
 *  @param channels  that the model takes; -1: any number */
int tile_read_pictures(tile_job *job, int64_t channels);

/** Set job->item_dims, once the model's input and the pictures are known.
 *  @param dims  as tile_inspect_input gave them */
void tile_set_item(tile_job *job, int64_t dims[MOSAIC_AXES]);

/** Create the pipeline, run an item of zeros, and plan the tiles and the whole output. */
int tile_prepare_flow(tile_job *job);

/** Run all tiles, and put the outputs together in job->sums. */
int tile_run(tile_job *job);

#endif
