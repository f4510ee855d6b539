/* Resize with antialias: a first kernel computes the weights of each dim; each further kernel sums along one dim. */
#include "kernel.h"
#include "resize.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A std::tuple by value, as libstdc++ lays it out: the last item first. */
static const char *tuple_item(const vcuda_launch *launch, int parameter, int count, int i, size_t size) {
  return (const char *)vcuda_argument(launch, parameter) + (size_t)(count - 1 - i) * size;
}

static int64_t tuple_long(const vcuda_launch *launch, int parameter, int count, int i) {
  return vcuda_load(VCUDA_INT64, tuple_item(launch, parameter, count, i, 8), 0).whole;
}

static int64_t tuple_int(const vcuda_launch *launch, int parameter, int count, int i) {
  return vcuda_load(VCUDA_INT32, tuple_item(launch, parameter, count, i, 4), 0).whole;
}

static float tuple_float(const vcuda_launch *launch, int parameter, int count, int i) {
  float value;
  memcpy(&value, tuple_item(launch, parameter, count, i, sizeof value), sizeof value);
  return value;
}

static void *tuple_address(const vcuda_launch *launch, int parameter, int count, int i) {
  void *address;
  memcpy(&address, tuple_item(launch, parameter, count, i, sizeof address), sizeof address);
  return address;
}

/* ---- the weights ---- */

typedef struct filter {
  const vcuda_kernel *kernel;
  vcuda_resize_axis axis;
  float support, cubic;
  int64_t window;
  bool excludes; /* elements outside have no weight; otherwise the border's elements are used */
  float *sums;   /* `window` of them */
} filter;

static float weigh(const filter *f, float x) {
  x = fabsf(x);
  if (!vcuda_names(f->kernel, 1, "Cubic")) return x < 1 ? 1 - x : 0;
  if (x < 1) return ((f->cubic + 2) * x - (f->cubic + 3)) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * f->cubic : 0;
}

/* Weights of 8-bit elements are fixed-point numbers with 22 fraction bits. */
static void store_weight(const vcuda_kernel *kernel, void *weights, int64_t at, float weight) {
  vcuda_type type = kernel->types[0].type;
  double real = type == VCUDA_INT32 ? (double)roundf(weight * (1 << 22)) : (double)weight;
  vcuda_store_real(type, weights, at, real);
}

static void find_weights(const filter *f, int64_t i, int64_t *bounds, int64_t *outside, void *weights) {
  const vcuda_resize_axis *a = &f->axis;
  float scale = 1 / a->scale, inverse = scale >= 1 ? 1 / scale : 1, total = 0;
  float center = 0.5F + (scale == 1 ? (float)i : vcuda_resize_original(f->kernel->types[2].text, a, (float)i));
  *outside = center - 0.5F < 0 || center - 0.5F > (float)(a->in - 1) ? i : -1;
  int64_t from = (int64_t)floorf(center - f->support + 0.5F), to = (int64_t)floorf(center + f->support + 0.5F);
  bounds[0] = from < 0 ? 0 : from;
  bounds[1] = to > a->in ? a->in : to;
  memset(f->sums, 0, (size_t)f->window * sizeof *f->sums);
  for (int64_t x = f->excludes ? bounds[0] : from; x < (f->excludes ? bounds[1] : to) && bounds[0] < bounds[1]; x++) {
    int64_t at = x < bounds[0] ? bounds[0] : x >= bounds[1] ? bounds[1] - 1 : x;
    float weight = weigh(f, ((float)x - center + 0.5F) * inverse);
    f->sums[at - bounds[0]] += weight;
    total += weight;
  }
  for (int64_t x = 0; x < bounds[1] - bounds[0]; x++) {
    store_weight(f->kernel, weights, i * f->window + x, total == 0 ? f->sums[x] : f->sums[x] / total);
  }
}

/* <type of the weights, filter, coordinates>(inputs' dims, outputs' dims, scales, region starts and ends, supports, windows
 * [, the cubic's coefficient], excludes outside, bounds, outside, weights) */
static void set_up(const vcuda_launch *launch, int dims) {
  int after = dims == 2 ? 8 : 7;
  filter f = {.kernel = launch->kernel,
              .excludes = vcuda_integer(launch, after) != 0,
              .cubic = dims == 2 ? (float)vcuda_real(launch, 7) : 0};
  int64_t total = 0;
  for (int i = 0; i < dims; i++) total += tuple_long(launch, 1, dims, i);
  int64_t *bounds = vcuda_output(launch, after + 1, 2 * total), *outside = vcuda_output(launch, after + 2, total);
  for (int i = 0; bounds != NULL && outside != NULL && i < dims; i++) {
    f.axis = (vcuda_resize_axis){.in = tuple_long(launch, 0, dims, i), .out = tuple_long(launch, 1, dims, i)};
    f.axis.scale = tuple_float(launch, 2, dims, i);
    f.axis.roi_start = tuple_float(launch, 3, dims, i);
    f.axis.roi_end = tuple_float(launch, 4, dims, i);
    f.support = tuple_float(launch, 5, dims, i);
    f.window = tuple_int(launch, 6, dims, i);
    size_t bytes = (size_t)(f.axis.out * f.window) * vcuda_type_size(launch->kernel->types[0].type);
    void *weights = vcuda_writes(tuple_address(launch, after + 3, dims, i), bytes);
    if (weights == NULL) return;
    f.sums = malloc((size_t)f.window * sizeof *f.sums);
    if (f.sums == NULL) {
      vcuda_fail(2, "%s: no memory on the host", vcuda_kernel_name(launch->kernel));
      return;
    }
    for (int64_t at = 0; at < f.axis.out; at++) find_weights(&f, at, bounds + 2 * at, outside + at, weights);
    free(f.sums);
    bounds += 2 * f.axis.out;
    outside += f.axis.out;
  }
}

static void run_set_up_2d(const vcuda_launch *launch) {
  set_up(launch, 2);
}

static void run_set_up_3d(const vcuda_launch *launch) {
  set_up(launch, 3);
}

static bool has_weights(vcuda_kernel *kernel) {
  return kernel->types[0].type != VCUDA_NO_TYPE && (vcuda_names(kernel, 1, "inearFilter") || vcuda_names(kernel, 1, "Cubic"));
}

/* ---- the sums ---- */

typedef struct pass {
  const vcuda_launch *launch;
  int64_t in, out, inner, image; /* the dim; elements for each of its indices; elements of an image of the output */
  int dims, window;              /* of the tuple `outside`; the parameter of the window */
  int64_t sizes[3];              /* of the output's dims in that tuple */
  const uint8_t *clip;
  const int64_t *bounds, *outside[3];
  const void *weights, *data;
} pass;

/* The parameters after the window: [extrapolates, value,] clip, bounds, outside, weights, in, out, N */
static bool read_pass(pass *p) {
  const vcuda_launch *launch = p->launch;
  int last = launch->kernel->argument_count - 1;
  bool extrapolates = last - p->window > 7 && vcuda_integer(launch, p->window + 1) != 0;
  int64_t window = vcuda_integer(launch, p->window), count = vcuda_integer(launch, last);
  p->data = vcuda_input(launch, last - 2, p->out == 0 ? 0 : count / p->out * p->in);
  if (p->in == p->out) return p->data != NULL;
  p->bounds = vcuda_input(launch, last - 5, 2 * p->out);
  p->weights = vcuda_input(launch, last - 3, p->out * window);
  if (p->data == NULL || p->bounds == NULL || p->weights == NULL) return false;
  if (vcuda_type_of(launch, last - 1) == VCUDA_UINT8 && (p->clip = vcuda_input(launch, last - 6, 1280)) == NULL) return false;
  for (int i = 0; extrapolates && i < p->dims; i++) {
    void *address = tuple_address(launch, last - 4, p->dims, i);
    if (address == NULL) continue;
    if ((p->outside[i] = vcuda_reads(address, (size_t)p->sizes[i] * sizeof(int64_t))) == NULL) return false;
  }
  return true;
}

static bool is_outside(const pass *p, int64_t place) {
  for (int i = p->dims - 1; i >= 0; i--) {
    if (p->outside[i] != NULL && p->outside[i][place % p->sizes[i]] != -1) return true;
    place /= p->sizes[i];
  }
  return false;
}

static double sum_weighted(const pass *p, vcuda_type type, int64_t image, int64_t at, int64_t inner) {
  vcuda_type of_weights = vcuda_type_of(p->launch, p->launch->kernel->argument_count - 4);
  int64_t window = vcuda_integer(p->launch, p->window), first = p->bounds[2 * at];
  double sum = 0;
  for (int64_t x = first; x < p->bounds[2 * at + 1]; x++) {
    double weight = vcuda_load_real(of_weights, p->weights, at * window + x - first);
    sum += weight * vcuda_load_real(type, p->data, (image * p->in + x) * p->inner + inner);
  }
  return sum;
}

static double finish(const pass *p, vcuda_type type, double sum) {
  if (p->clip != NULL) return p->clip[640 + (((int64_t)sum + (1 << 21)) >> 22)];
  return type == VCUDA_INT32 ? round(sum) : sum;
}

static void run_pass(pass *p) {
  const vcuda_launch *launch = p->launch;
  int last = launch->kernel->argument_count - 1;
  vcuda_type type = vcuda_type_of(launch, last - 1);
  int64_t count = vcuda_integer(launch, last), images = p->out * p->inner == 0 ? 0 : count / (p->out * p->inner);
  void *out = vcuda_output(launch, last - 1, count);
  if (out == NULL || !read_pass(p)) return;
  for (int64_t id = 0; id < count; id++) {
    if (p->in == p->out) {
      vcuda_store(type, out, id, vcuda_load(type, p->data, id));
      continue;
    }
    int64_t image = id / p->image, at = id % p->image / p->inner, inner = id % p->inner;
    if (at >= p->out || image >= images) {
      long long one_image = p->out * p->inner;
      vcuda_fail(700, "%s: output element %lld: ORT counts %lld elements of an image with %lld",
                 vcuda_kernel_name(launch->kernel), (long long)id, (long long)p->image, one_image);
      return;
    }
    if (is_outside(p, id % p->image)) {
      vcuda_store_real(type, out, id, vcuda_real(launch, p->window + 2));
    } else {
      vcuda_store_real(type, out, id, finish(p, type, sum_weighted(p, type, image, at, inner)));
    }
  }
}

/* (channels, input's height and width, the output's, .., window, ..): along the width */
static void run_level_1(const vcuda_launch *launch) {
  pass p = {.launch = launch, .in = vcuda_integer(launch, 2), .out = vcuda_integer(launch, 4), .inner = 1, .window = 7};
  p.image = p.out;
  run_pass(&p);
}

/* (channels, input's height and width, the output's, .., window, ..): along the height */
static void run_level_2(const vcuda_launch *launch) {
  pass p = {.launch = launch,
            .in = vcuda_integer(launch, 1),
            .out = vcuda_integer(launch, 3),
            .inner = vcuda_integer(launch, 4),
            .window = 8};
  p.image = p.out * p.inner;
  p.dims = 2;
  p.sizes[0] = p.out;
  p.sizes[1] = p.inner;
  run_pass(&p);
}

/* (input's depth, height and width, the output's, divisors of rows, columns and images, window, ..): along the depth. The
 * divisors of the launch determine the size of an image. */
static void run_level_3(const vcuda_launch *launch) {
  pass p = {.launch = launch, .in = vcuda_integer(launch, 0), .out = vcuda_integer(launch, 3), .window = 9, .dims = 3};
  p.inner = vcuda_integer(launch, 4) * vcuda_integer(launch, 5);
  p.image = vcuda_integer(launch, 8);
  for (int i = 0; i < 3; i++) p.sizes[i] = vcuda_integer(launch, 3 + i);
  run_pass(&p);
}

/* ---- height and width in one kernel ---- */

typedef struct line {
  int64_t in, out, window;
  const int64_t *bounds, *outside; /* `outside` NULL: no extrapolation */
  const void *weights;
} line;

/* `which`: 0 height, 1 width. */
static bool read_line(const vcuda_launch *launch, int which, line *l) {
  *l = (line){.in = vcuda_integer(launch, 1 + which),
              .out = vcuda_integer(launch, 3 + which),
              .window = vcuda_integer(launch, 8 + which)};
  l->bounds = vcuda_input(launch, 12 + which, 2 * l->out);
  l->weights = vcuda_input(launch, 16 + which, l->out * l->window);
  if (vcuda_integer(launch, 10) == 0) return l->bounds != NULL && l->weights != NULL;
  l->outside = vcuda_input(launch, 14 + which, l->out);
  return l->bounds != NULL && l->weights != NULL && l->outside != NULL;
}

static bool is_off(const line *l, int64_t at) {
  return l->outside != NULL && l->outside[at] != -1;
}

/* `first` is the input's first element, and `stride` leads from a column to the next. */
static double sum_square(const vcuda_launch *launch, const line lines[2], const int64_t at[2], const void *in, int64_t first,
                         int64_t stride) {
  vcuda_type type = vcuda_type_of(launch, 18), of_weights = vcuda_type_of(launch, 16);
  const int64_t *rows = lines[0].bounds + 2 * at[0], *columns = lines[1].bounds + 2 * at[1];
  double sum = 0;
  for (int64_t y = rows[0]; y < rows[1]; y++) {
    double down = vcuda_load_real(of_weights, lines[0].weights, at[0] * lines[0].window + y - rows[0]);
    for (int64_t x = columns[0]; x < columns[1]; x++) {
      double right = vcuda_load_real(of_weights, lines[1].weights, at[1] * lines[1].window + x - columns[0]);
      sum += vcuda_load_real(type, in, first + (y * lines[1].in + x) * stride) * down * right;
    }
  }
  return type == VCUDA_INT32 ? round(sum) : sum;
}

/* (channels, input's height and width, the output's, .., .., .., windows, extrapolates, value, bounds, outside, weights, in, out, N);
 * windows, bounds, outside and weights each have one for the height and one for the width. */
static void run_square(const vcuda_launch *launch, bool channels_last) {
  line lines[2];
  if (!read_line(launch, 0, &lines[0]) || !read_line(launch, 1, &lines[1])) return;
  vcuda_type type = vcuda_type_of(launch, 18);
  int64_t count = vcuda_integer(launch, 20), inner = channels_last ? vcuda_integer(launch, 0) : 1;
  int64_t area = lines[0].in * lines[1].in * inner, out_area = lines[0].out * lines[1].out * inner;
  if (inner == 0 || out_area == 0) return;
  const void *in = vcuda_input(launch, 18, count / out_area * area);
  void *out = vcuda_output(launch, 19, count);
  for (int64_t id = 0; in != NULL && out != NULL && id < count; id++) {
    int64_t at[2] = {id % out_area / inner / lines[1].out, id / inner % lines[1].out};
    bool outside = is_off(&lines[0], at[0]) || is_off(&lines[1], at[1]);
    double value =
        outside ? vcuda_real(launch, 11) : sum_square(launch, lines, at, in, id / out_area * area + id % inner, inner);
    vcuda_store_real(type, out, id, value);
  }
}

static void run_square_planes(const vcuda_launch *launch) {
  run_square(launch, false);
}

static void run_square_channels_last(const vcuda_launch *launch) {
  run_square(launch, true);
}

const vcuda_form vcuda_antialias_forms[] = {
    {"_SetupBilinearUpsampleFilterAntiAlias", "ooooooovnppo", run_set_up_2d, has_weights},
    {"_SetupTrilinerarUpsampleFilterAntiAlias", "ooooooonppo", run_set_up_3d, has_weights},
    {"_ComputeFusedInterpolation2D", "nnnnndddnnnvppppppppn", run_square_planes, NULL},
    {"_ComputeFusedInterpolation2D_NHWC", "nnnnndddnnnvppppppppn", run_square_channels_last, NULL},
    {"_ComputeInterpolationAtLevel1", "nnnnnddnppopppn", run_level_1, NULL},
    {"_ComputeInterpolationAtLevel2", "nnnnndddnnvppopppn", run_level_2, NULL},
    {"_ComputeInterpolationAtLevel3", "nnnnnndddnnvppopppn", run_level_3, NULL},
    {.name = NULL},
};
