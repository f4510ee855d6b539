/* Pad: an output element comes from the input, or is the pad value. */
#include "kernel.h"

#include <string.h>

enum { CONSTANT, REFLECT, EDGE, WRAP }; /* ORT's PadMode */

/* Map a coordinate of the output to the input; -1: in the padding. `offset` and `extent` are the part of the input that negative pads
 * keep. */
static int64_t reflect(int mode, int64_t out, int64_t pad, int64_t dim, int64_t offset, int64_t extent) {
  int64_t in = out - pad;
  if (mode == WRAP) {
    int64_t wrapped = extent == 0 ? 0 : (in - offset) % extent;
    return offset + (wrapped < 0 ? wrapped + extent : wrapped);
  }
  if (in >= 0 && in < dim) return in;
  if (mode == EDGE) return in < 0 ? 0 : dim - 1;
  if (mode == REFLECT) return in < 0 ? -in : 2 * dim - 2 - in;
  return -1;
}

typedef int64_t (*source)(const vcuda_launch *launch, int mode, int64_t id);

static void pad(const vcuda_launch *launch, int value, int in, int out, int64_t count, source where) {
  size_t size = vcuda_size_of(launch, out);
  int mode = (int)launch->kernel->types[1].value;
  int64_t last = -1;
  for (int64_t id = 0; id < count; id++) {
    int64_t at = where(launch, mode, id);
    last = at > last ? at : last;
  }
  const char *from = vcuda_input(launch, in, last + 1);
  char *to = vcuda_output(launch, out, count);
  for (int64_t id = 0; from != NULL && to != NULL && id < count; id++) {
    int64_t at = where(launch, mode, id);
    memcpy(to + (size_t)id * size, at < 0 ? vcuda_argument(launch, value) : from + (size_t)at * size, size);
  }
}

static int64_t any_rank(const vcuda_launch *launch, int mode, int64_t id) {
  int64_t index = 0;
  for (int i = 0; i < (int)vcuda_integer(launch, 0); i++) {
    int64_t stride = vcuda_item(launch, 8, i);
    int64_t at = reflect(mode, id / stride, vcuda_item(launch, 3, i), vcuda_item(launch, 1, i), vcuda_item(launch, 5, i),
                         vcuda_item(launch, 4, i));
    if (at < 0) return -1;
    index += at * vcuda_item(launch, 2, i);
    id %= stride;
  }
  return index;
}

/* <T, mode>(rank, input's dims, input strides, pads, extents, offsets, value, in, out's strides, out, N) */
static void run_pad(const vcuda_launch *launch) {
  pad(launch, 6, 7, 9, vcuda_integer(launch, 10), any_rank);
}

static int64_t two_dims(const vcuda_launch *launch, int mode, int64_t id) {
  int64_t height = vcuda_integer(launch, 2), width = vcuda_integer(launch, 4);
  int64_t out_height = vcuda_integer(launch, 3), out_width = vcuda_integer(launch, 5), image = id / out_width / out_height;
  int64_t y = reflect(mode, id / out_width % out_height, vcuda_integer(launch, 6), height, 0, 0);
  int64_t x = reflect(mode, id % out_width, vcuda_integer(launch, 7), width, 0, 0);
  return x < 0 || y < 0 ? -1 : (image * height + y) * width + x;
}

/* <T, mode>(batch, channels, input's, output's height, input's, output's width, pads above and left, value, in, out, N) */
static void run_pad_2d(const vcuda_launch *launch) {
  pad(launch, 8, 9, 10, vcuda_integer(launch, 11), two_dims);
}

const vcuda_form vcuda_pad_forms[] = {
    {"_PadKernel", "naaaaavpapn", run_pad, NULL},
    {"_PadNCHWInputWithPaddingAlongHAndWKernel", "nnnnnnnnvppn", run_pad_2d, NULL},
    {.name = NULL},
};
