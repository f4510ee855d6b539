/* tiles MODEL PICTURE.png [DEVICE]: how much of a page is text? PP-OCR's detector over tiles, in a pipeline: while one is computed,
 * the next goes up and the one before comes down. */
#include <iobind/iobind.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agnostic/picture.h"

#define TRY(call) \
  if ((call) != IOBIND_OK) return fprintf(stderr, "%s\n", error.message), 1

enum { TILE = 320, MARGIN = 32, STEP = TILE - 2 * MARGIN, SLOTS = 3 };

static iobind_error error = IOBIND_ERROR_INIT;

/* Tiles along a side, and where one begins: the last one ends with the side, which is a multiple of TILE. */
static int64_t count_of(int64_t side) {
  return 1 + (side - TILE + STEP - 1) / STEP;
}

static int64_t begin_of(int64_t index, int64_t side) {
  return index * STEP < side - TILE ? index * STEP : side - TILE;
}

static int submit(iobind_pipeline *pipeline, const picture *page, int64_t tile, iobind_tensor *item) {
  int64_t columns = count_of(page->width), top = begin_of(tile / columns, page->height);
  int64_t left = begin_of(tile % columns, page->width);
  void *values;
  TRY(iobind_tensor_map(item, IOBIND_DTYPE_FLOAT32, IOBIND_ACCESS_WRITE, &values, &error));
  for (int64_t row = 0; row < 3 * (int64_t)TILE; row++) { /* of three planes */
    const float *from = page->values + (row / TILE * page->height + top + row % TILE) * page->width + left;
    memcpy((float *)values + row * TILE, from, TILE * sizeof(float));
  }
  iobind_pipeline_request request = IOBIND_PIPELINE_REQUEST_INIT;
  request.inputs = &item;
  request.input_count = 1;
  TRY(iobind_pipeline_submit(pipeline, &request, &error)); /* copied: the item is free for the next tile */
  return 0;
}

/* A tile sees nothing of what is around it: of each edge but the page's own the margin is left to its neighbour. */
static int pull(iobind_pipeline *pipeline, const picture *page, int64_t tile, float *map) {
  int64_t columns = count_of(page->width), top = begin_of(tile / columns, page->height);
  int64_t left = begin_of(tile % columns, page->width);
  int64_t from_y = top > 0 ? MARGIN : 0, to_y = top + TILE < page->height ? TILE - MARGIN : TILE;
  int64_t from_x = left > 0 ? MARGIN : 0, to_x = left + TILE < page->width ? TILE - MARGIN : TILE;
  iobind_tensor *output; /* the slot's memory: ours until the next submit */
  void *values;
  TRY(iobind_pipeline_next(pipeline, IOBIND_NO_TIMEOUT, &output, 1, NULL, &error)); /* in order; waits for the oldest tile */
  TRY(iobind_tensor_map(output, IOBIND_DTYPE_FLOAT32, IOBIND_ACCESS_READ, &values, &error));
  for (int64_t y = from_y; y < to_y; y++) {
    const float *row = (const float *)values + y * TILE + from_x;
    memcpy(map + (top + y) * page->width + left + from_x, row, (size_t)(to_x - from_x) * sizeof(float));
  }
  return 0;
}

int main(int argc, char **argv) {
  if (argc < 3) return fprintf(stderr, "usage: tiles MODEL PICTURE.png [DEVICE]\n"), 2;
  iobind_runtime *runtime;
  iobind_device *device;
  iobind_session *session;
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  iobind_pipeline *pipeline;
  iobind_pipeline_options slots = IOBIND_PIPELINE_OPTIONS_INIT;
  TRY(iobind_runtime_create(NULL, &runtime, &error));
  TRY(iobind_runtime_find_device(runtime, argc > 3 ? argv[3] : "gpu,cpu", &device, NULL, &error));
  options.devices = &device;
  options.device_count = 1;
  TRY(iobind_session_create(runtime, argv[1], &options, &session, &error));
  slots.slots = SLOTS; /* each holds one tile, here and on the device */
  TRY(iobind_pipeline_create(session, &slots, &pipeline, &error));

  picture page;
  const char *problem = picture_read(argv[2], TILE, &page);
  if (problem != NULL) return fprintf(stderr, "%s\n", problem), 1;
  const int64_t dims[] = {1, 3, TILE, TILE};
  iobind_tensor *item;
  TRY(iobind_tensor_create(iobind_runtime_get_device(runtime, 0), IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 4, &item,
                           &error));

  float *map = calloc((size_t)(page.height * page.width), sizeof *map);
  int failed = map == NULL;
  int64_t count = count_of(page.height) * count_of(page.width);
  for (int64_t i = 0; i < count + SLOTS && !failed; i++) {
    if (i >= SLOTS && i - SLOTS < count) failed = pull(pipeline, &page, i - SLOTS, map);
    if (i < count && !failed) failed = submit(pipeline, &page, i, item);
  }

  int64_t text = 0;
  for (int64_t i = 0; i < page.height * page.width && !failed; i++) text += map[i] > 0.3f;
  if (!failed) {
    printf("%lld tiles: text on %.2f %% of %lld x %lld pixels\n", (long long)count,
           100 * (double)text / (double)(page.height * page.width), (long long)page.width, (long long)page.height);
  }
  free(map);
  free(page.values);
  iobind_tensor_release(item);
  iobind_pipeline_destroy(pipeline);
  iobind_session_destroy(session);
  iobind_runtime_destroy(runtime);
  return failed;
}
