/* DeformConv: windows whose elements are displaced by individual offsets. The elements become the columns of a matrix product. */
#include "kernel.h"

#include <math.h>

/* All pairs are height and width. */
typedef struct windows {
  const vcuda_launch *launch;
  vcuda_type type;
  int64_t in[2], kernel[2], pads[2], strides[2], dilations[2], out[2];
  int64_t channels, groups, images; /* each group has its own offsets */
  const void *input, *offsets, *mask;
} windows;

/* A DivMod of 32 or 64 bits: both begin with the divisor. */
static int64_t divisor_of(const vcuda_launch *launch, int i) {
  vcuda_type type = launch->kernel->arguments[i].kind == 'd' ? VCUDA_UINT32 : VCUDA_INT64;
  return vcuda_load(type, vcuda_argument(launch, i), 0).whole;
}

static windows read_windows(const vcuda_launch *launch) {
  windows w = {.launch = launch, .type = vcuda_type_of(launch, 1)};
  for (int i = 0; i < 2; i++) {
    w.in[i] = vcuda_integer(launch, 4 + i);
    w.kernel[i] = vcuda_integer(launch, 6 + i);
    w.pads[i] = vcuda_integer(launch, 8 + i);
    w.strides[i] = vcuda_integer(launch, 10 + i);
    w.dilations[i] = vcuda_integer(launch, 12 + i);
    w.out[i] = divisor_of(launch, 16 + i);
  }
  w.channels = vcuda_integer(launch, 14);
  w.groups = vcuda_integer(launch, 15);
  w.images = divisor_of(launch, 18);
  return w;
}

static double element(const windows *w, int64_t plane, int64_t y, int64_t x) {
  if (y < 0 || y >= w->in[0] || x < 0 || x >= w->in[1]) return 0;
  return vcuda_load_real(w->type, w->input, (plane * w->in[0] + y) * w->in[1] + x);
}

/* Bilinear interpolation of the four elements around a position. Elements outside are 0. */
static double sample(const windows *w, int64_t plane, const float at[2]) {
  if (!(at[0] > -1 && at[0] < (float)w->in[0] && at[1] > -1 && at[1] < (float)w->in[1])) return 0;
  int64_t y = (int64_t)floorf(at[0]), x = (int64_t)floorf(at[1]);
  double down = (double)(at[0] - (float)y), right = (double)(at[1] - (float)x);
  double upper = (1 - right) * element(w, plane, y, x) + right * element(w, plane, y, x + 1);
  double lower = (1 - right) * element(w, plane, y + 1, x) + right * element(w, plane, y + 1, x + 1);
  return (1 - down) * upper + down * lower;
}

/* The displaced element of a window: `tap` is the index in the window, `point` the index in an image of the output. */
static double moved(const windows *w, int64_t image, int64_t channel, int64_t tap, int64_t point) {
  int64_t area = w->out[0] * w->out[1], taps = w->kernel[0] * w->kernel[1], group = channel / (w->channels / w->groups);
  int64_t first = (image * w->groups + group) * taps + tap;
  int64_t places[2] = {point / w->out[1], point % w->out[1]}, steps[2] = {tap / w->kernel[1], tap % w->kernel[1]};
  float at[2];
  for (int i = 0; i < 2; i++) {
    float start = (float)(places[i] * w->strides[i] - w->pads[i] + steps[i] * w->dilations[i]);
    at[i] = start + (float)vcuda_load_real(w->type, w->offsets, (2 * first + i) * area + point);
  }
  double value = sample(w, image * w->channels + channel, at);
  return w->mask == NULL ? value : value * vcuda_load_real(w->type, w->mask, first * area + point);
}

/* <T, Index, height and width of the window or -1, has a mask>(N, in, offsets, mask, height, width, and in pairs of these the window, pads,
 * strides, dilations; channels, groups, output's height, width, images, channels of a group, out): a row of `out` for each channel and
 * tap of the window, with the positions of all images of the output. */
static void run_columns(const vcuda_launch *launch) {
  windows w = read_windows(launch);
  int64_t area = w.out[0] * w.out[1], taps = w.kernel[0] * w.kernel[1], count = w.channels * taps * w.images * area;
  bool masked = vcuda_flag(launch->kernel, 4);
  w.input = vcuda_input(launch, 1, w.images * w.channels * w.in[0] * w.in[1]);
  w.offsets = vcuda_input(launch, 2, 2 * w.images * w.groups * taps * area);
  if (w.input == NULL || w.offsets == NULL) return;
  if (masked && (w.mask = vcuda_input(launch, 3, w.images * w.groups * taps * area)) == NULL) return;
  void *out = vcuda_output(launch, 20, count);
  for (int64_t i = 0; out != NULL && i < count; i++) {
    int64_t row = i / (w.images * area);
    vcuda_store_real(w.type, out, i, moved(&w, i / area % w.images, row / taps, row % taps, i % area));
  }
}

static void add_bias(const vcuda_launch *launch, int64_t area, int64_t channels, int64_t count) {
  vcuda_type type = vcuda_type_of(launch, 0);
  const void *bias = vcuda_input(launch, 1, channels);
  void *out = vcuda_output(launch, 0, count);
  for (int64_t i = 0; bias != NULL && out != NULL && i < count; i++) {
    double summand = vcuda_load_real(type, bias, i / area % channels);
    vcuda_store_real(type, out, i, vcuda_load_real(type, out, i) + summand);
  }
}

/* (out, bias, elements of a channel, channels): the grid's second dim counts the channels of all images. */
static void run_bias_of_planes(const vcuda_launch *launch) {
  int64_t area = vcuda_integer(launch, 2);
  add_bias(launch, area, vcuda_integer(launch, 3), area * launch->grid[1]);
}

/* (out, bias, elements of a channel, channels, N) */
static void run_bias(const vcuda_launch *launch) {
  add_bias(launch, divisor_of(launch, 2), divisor_of(launch, 3), vcuda_integer(launch, 4));
}

const vcuda_form vcuda_deform_forms[] = {
    {"DeformConvAddBias2DKernel", "ppnn", run_bias_of_planes, NULL},
    {"DeformConvAddBiasKernel", "ppddn", run_bias, NULL},
    {"DeformConvAddBiasKernel", "ppoon", run_bias, NULL},
    {"DeformableIm2ColKernel", "npppnnnnnnnnnnnnddddp", run_columns, NULL},
    {"DeformableIm2ColKernel", "npppnnnnnnnnnnnnoooop", run_columns, NULL},
    {.name = NULL},
};
