/* Interpolation between elements of the input: GridSample, RoiAlign, Upsample. Positions are computed in floats, as on the device. */
#include "kernel.h"

#include <math.h>
#include <string.h>

/* ---- GridSample, in two dims or three ---- */

enum { LINEAR, NEAREST, CUBIC }; /* ORT's numbers */
enum { ZEROS, BORDER, REFLECTION };

typedef struct grid {
  const vcuda_launch *launch;
  int rank;
  int64_t mode, padding, images, channels, in[3], out[3];
  bool corners, channels_last;
} grid;

/* The input elements along one dim, with their weights, for an output element. */
typedef struct taps {
  int count;
  int64_t at[4]; /* -1: zero */
  float weights[4];
} taps;

static float lowest(const grid *g) {
  return g->corners ? 0 : -0.5F;
}

static float reflect(const grid *g, float x, int64_t size) {
  float least = lowest(g), most = (float)size - 0.5F - (g->corners ? 0.5F : 0), range = most - least;
  if (!isfinite(x) || !(range > 0)) return least;
  if (x >= least && x <= most) return x;
  float beyond = x < least ? least - x : x - most;
  int64_t turns = (int64_t)(beyond / range);
  float rest = beyond - (float)turns * range;
  return (x < least) == (turns % 2 == 0) ? least + rest : most - rest;
}

static int64_t inside(const grid *g, int64_t at, int64_t size) {
  if (g->padding == ZEROS) return at >= 0 && at < size ? at : -1;
  if (g->padding == REFLECTION) at = (int64_t)reflect(g, (float)at, size);
  return at < 0 ? 0 : at >= size ? size - 1 : at;
}

static void weigh(const grid *g, float part, taps *t) {
  const float a = -0.75F;
  float far = part + 1, other = 1 - part, other_far = 2 - part;
  t->weights[0] = g->mode == LINEAR ? 1 - part : 1;
  t->weights[1] = part;
  if (g->mode != CUBIC) return;
  t->weights[0] = ((a * far - 5 * a) * far + 8 * a) * far - 4 * a;
  t->weights[1] = ((a + 2) * part - (a + 3)) * part * part + 1;
  t->weights[2] = ((a + 2) * other - (a + 3)) * other * other + 1;
  t->weights[3] = ((a * other_far - 5 * a) * other_far + 8 * a) * other_far - 4 * a;
}

static taps find_taps(const grid *g, float x, int64_t size) {
  static const int counts[] = {[LINEAR] = 2, [NEAREST] = 1, [CUBIC] = 4};
  taps t = {.count = counts[g->mode]};
  float length = (float)size, at = g->corners ? (x + 1) / 2 * (length - 1) : ((x + 1) * length - 1) / 2;
  if (g->mode == NEAREST) at = nearbyintf(at);
  if (!isfinite(at) || fabsf(at) > 0x1p62F) at = lowest(g);
  if (g->padding == REFLECTION) at = reflect(g, at, size);
  int64_t first = (int64_t)(g->mode == NEAREST ? at : floorf(at));
  weigh(g, at - (float)first, &t);
  if (g->mode == CUBIC) first--;
  for (int i = 0; i < t.count; i++) t.at[i] = inside(g, first + i, size);
  return t;
}

/* The sum over all combinations of the dims' taps. */
static double sum_taps(const grid *g, const taps *t, const float *in, int64_t image, int64_t channel) {
  int combinations = 1;
  double sum = 0;
  for (int i = 0; i < g->rank; i++) combinations *= t[i].count;
  for (int combination = 0; combination < combinations; combination++) {
    int64_t index = g->channels_last ? image : image * g->channels + channel;
    float weight = 1;
    int rest = combination;
    bool zero = false;
    for (int i = 0; i < g->rank; i++) {
      int tap = rest % t[i].count;
      rest /= t[i].count;
      zero = zero || t[i].at[tap] < 0;
      index = index * g->in[i] + t[i].at[tap];
      weight *= t[i].weights[tap];
    }
    if (g->channels_last) index = index * g->channels + channel;
    sum += zero ? 0 : (double)weight * (double)in[index];
  }
  return sum;
}

static int64_t product(const int64_t *sizes, int count) {
  int64_t result = 1;
  for (int i = 0; i < count; i++) result *= sizes[i];
  return result;
}

/* <float, channels last>(in, positions, mode, padding, corners, batch, channels, input's dims, output's dims, out): a position is given
 * from the innermost dim on. */
static void run_grid(const vcuda_launch *launch, int rank) {
  grid g = {.launch = launch, .rank = rank, .mode = vcuda_integer(launch, 2), .padding = vcuda_integer(launch, 3)};
  g.corners = vcuda_integer(launch, 4) != 0;
  g.images = vcuda_integer(launch, 5);
  g.channels = vcuda_integer(launch, 6);
  g.channels_last = vcuda_flag(launch->kernel, 1);
  for (int i = 0; i < rank; i++) {
    g.in[i] = vcuda_integer(launch, 7 + i);
    g.out[i] = vcuda_integer(launch, 7 + rank + i);
  }
  int64_t points = product(g.out, rank);
  const float *in = vcuda_input(launch, 0, g.images * g.channels * product(g.in, rank));
  const float *places = vcuda_input(launch, 1, g.images * points * rank);
  float *out = vcuda_output(launch, 7 + 2 * rank, g.images * g.channels * points);
  if (in == NULL || places == NULL || out == NULL) return;
  if (g.mode < LINEAR || g.mode > (rank == 2 ? CUBIC : NEAREST)) {
    vcuda_fail(719, "%s: expected linear (0), nearest (1) or, in two dims, cubic (2), got %lld",
               vcuda_kernel_name(launch->kernel), (long long)g.mode);
    return;
  }
  for (int64_t point = 0; point < g.images * points; point++) {
    taps t[3];
    int64_t image = point / points;
    for (int i = 0; i < rank; i++) t[i] = find_taps(&g, places[point * rank + rank - 1 - i], g.in[i]);
    for (int64_t channel = 0; channel < g.channels; channel++) {
      int64_t to = g.channels_last ? point * g.channels + channel : (image * g.channels + channel) * points + point % points;
      out[to] = (float)sum_taps(&g, t, in, image, channel);
    }
  }
}

static void run_grid_2d(const vcuda_launch *launch) {
  run_grid(launch, 2);
}

static void run_grid_3d(const vcuda_launch *launch) {
  run_grid(launch, 3);
}

/* ---- RoiAlign ---- */

typedef struct regions {
  const vcuda_launch *launch;
  int64_t height, width, pooled_height, pooled_width, ratio;
  bool mean;
} regions;

/* The two elements around a position. Returns the first one; `*at` is clamped. */
static int64_t corner(double *at, int64_t size, int64_t *next) {
  if (*at <= 0) *at = 0;
  int64_t low = (int64_t)*at;
  *next = low + 1;
  if (low >= size - 1) {
    low = *next = size - 1;
    *at = (double)low;
  }
  return low;
}

static double sample_region(const regions *r, const void *in, int64_t plane, double y, double x) {
  vcuda_type type = vcuda_type_of(r->launch, 1);
  int64_t rows[2], columns[2];
  double result = 0;
  if (y < -1 || y > (double)r->height || x < -1 || x > (double)r->width) return 0;
  rows[0] = corner(&y, r->height, &rows[1]);
  columns[0] = corner(&x, r->width, &columns[1]);
  double down = y - (double)rows[0], right = x - (double)columns[0];
  for (int i = 0; i < 4; i++) {
    double weight = (i / 2 != 0 ? down : 1 - down) * (i % 2 != 0 ? right : 1 - right);
    double value = weight * vcuda_load_real(type, in, plane + rows[i / 2] * r->width + columns[i % 2]);
    result = r->mean ? result + value : i == 0 ? value : fmax(result, value);
  }
  return result;
}

/* An edge of a region in input coordinates: its start, the length of a bin, and the number of samples in a bin. */
typedef struct edge {
  double start, bin;
  int64_t samples;
} edge;

static edge find_edge(const regions *r, double from, double to, int64_t bins) {
  bool half_pixel = vcuda_integer(r->launch, 13) != 0;
  double scale = vcuda_real(r->launch, 2), length = (to - from) * scale;
  if (!half_pixel && !(length > 1)) length = 1;
  edge e = {.start = from * scale - (half_pixel ? 0.5 : 0), .bin = length / (double)bins};
  e.samples = r->ratio > 0 ? r->ratio : (int64_t)ceil(e.bin);
  return e;
}

static double pool_region(const regions *r, const void *in, int64_t plane, const edge edges[2], int64_t row, int64_t column) {
  double result = 0;
  bool first = true;
  for (int64_t i = 0; i < edges[0].samples; i++) {
    double y = edges[0].start + ((double)row + ((double)i + 0.5) / (double)edges[0].samples) * edges[0].bin;
    for (int64_t j = 0; j < edges[1].samples; j++) {
      double x = edges[1].start + ((double)column + ((double)j + 0.5) / (double)edges[1].samples) * edges[1].bin;
      double value = sample_region(r, in, plane, y, x);
      result = r->mean ? result + value : first ? value : fmax(result, value);
      first = false;
    }
  }
  int64_t samples = edges[0].samples * edges[1].samples;
  return r->mean ? result / (double)(samples < 1 ? 1 : samples) : result;
}

/* (N, in, scale, channels, height, width, pooled height, width, samples, regions, their columns, out, mean, half pixel, images, batch) */
static void run_regions(const vcuda_launch *launch) {
  int64_t numbers[11], count = vcuda_integer(launch, 0), batch = vcuda_integer(launch, 15);
  for (int i = 3; i < 11; i++) numbers[i] = i == 9 ? 0 : vcuda_integer(launch, i);
  regions r = {launch, numbers[4], numbers[5], numbers[6], numbers[7], numbers[8], vcuda_integer(launch, 12) != 0};
  int64_t channels = numbers[3], columns = numbers[10], area = r.height * r.width, pooled = r.pooled_height * r.pooled_width;
  if (pooled == 0 || channels == 0) return;
  int64_t total = count / pooled / channels;
  vcuda_type type = vcuda_type_of(launch, 1);
  const void *in = vcuda_input(launch, 1, batch * channels * area), *places = vcuda_input(launch, 9, total * columns);
  const int64_t *images = vcuda_input(launch, 14, total);
  void *out = vcuda_output(launch, 11, count);
  if (in == NULL || places == NULL || images == NULL || out == NULL) return;
  for (int64_t id = 0; id < count; id++) {
    int64_t region = id / pooled / channels, image = images[region];
    double bounds[4];
    for (int i = 0; i < 4; i++) bounds[i] = vcuda_load_real(type, places, region * columns + i);
    edge edges[2] = {find_edge(&r, bounds[1], bounds[3], r.pooled_height), find_edge(&r, bounds[0], bounds[2], r.pooled_width)};
    int64_t plane = (image * channels + id / pooled % channels) * area;
    bool known = image >= 0 && image < batch;
    double value = known ? pool_region(&r, in, plane, edges, id % pooled / r.pooled_width, id % r.pooled_width) : 0;
    vcuda_store_real(type, out, id, value);
  }
}

/* ---- Upsample by whole factors ---- */

/* <T, rank>(input strides, output strides, factors, in, out, N) */
static void run_repeat(const vcuda_launch *launch) {
  int rank = (int)launch->kernel->types[1].value;
  int64_t count = vcuda_integer(launch, 5), last = -1;
  size_t size = vcuda_size_of(launch, 3);
  const char *in = NULL;
  char *out = vcuda_output(launch, 4, count);
  for (int pass = 0; out != NULL && pass < 2; pass++) { /* the first pass finds how much of the input is used */
    for (int64_t id = 0; id < count; id++) {
      int64_t index = 0, rest = id;
      for (int i = 0; i < rank; i++) {
        index += rest / vcuda_item(launch, 1, i) / vcuda_item(launch, 2, i) * vcuda_item(launch, 0, i);
        rest %= vcuda_item(launch, 1, i);
      }
      last = index > last ? index : last;
      if (in != NULL) memcpy(out + (size_t)id * size, in + (size_t)index * size, size);
    }
    if (pass == 0 && (in = vcuda_input(launch, 3, last + 1)) == NULL) return;
  }
}

/* The weighted sum of two elements, rounded as on the device: whole numbers are truncated. */
static vcuda_number between(vcuda_type type, vcuda_number a, vcuda_number b, int64_t part, int64_t whole) {
  if (vcuda_type_is_float(type)) {
    a.real += (double)part * (b.real - a.real) / (double)whole;
  } else {
    a.whole += part * (b.whole - a.whole) / whole;
  }
  return a;
}

/* (rows, input strides, output strides, factors, in, out, N): the last two dims; the arrays have `first` dims before
 * these. */
static void blend(const vcuda_launch *launch, int first) {
  vcuda_type type = vcuda_type_of(launch, 4);
  int64_t rows = vcuda_integer(launch, 0), columns = vcuda_item(launch, 1, first), count = vcuda_integer(launch, 6);
  int64_t out_columns = vcuda_item(launch, 2, first), down = vcuda_item(launch, 3, first),
          right = vcuda_item(launch, 3, first + 1);
  int64_t image = rows * down * out_columns;
  if (image == 0 || columns == 0 || right == 0) return;
  int64_t images = count / image;
  const void *in = vcuda_input(launch, 4, images * rows * columns);
  void *out = vcuda_output(launch, 5, count);
  for (int64_t id = 0; in != NULL && out != NULL && id < count; id++) {
    int64_t y = id % image / out_columns, x = id % out_columns, row = y / down, column = x / right;
    int64_t below = row == rows - 1 ? row : row + 1, next = column == columns - 1 ? column : column + 1,
            base = id / image * rows;
    vcuda_number left = between(type, vcuda_load(type, in, (base + row) * columns + column),
                                vcuda_load(type, in, (base + below) * columns + column), y % down, down);
    vcuda_number other = between(type, vcuda_load(type, in, (base + row) * columns + next),
                                 vcuda_load(type, in, (base + below) * columns + next), y % down, down);
    vcuda_store(type, out, id, between(type, left, other, x % right, right));
  }
}

static void run_blend_2d(const vcuda_launch *launch) {
  blend(launch, 0);
}

static void run_blend_4d(const vcuda_launch *launch) {
  blend(launch, 2);
}

const vcuda_form vcuda_sample_forms[] = {
    {"_GridSampleKernel", "ppnnnnnnnnnp", run_grid_2d, NULL},
    {"_GridSampleKernel3D", "ppnnnnnnnnnnnp", run_grid_3d, NULL},
    {"RoIAlignForward", "npvnnnnnnpnpnnpn", run_regions, NULL},
    {"_UpsampleNearestKernel", "aaappn", run_repeat, NULL},
    {"_UpsampleBilinear2DInputKernel", "naaappn", run_blend_2d, NULL},
    {"_UpsampleBilinear4DInputKernel", "naaappn", run_blend_4d, NULL},
    {.name = NULL},
};
