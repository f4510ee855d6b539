/* Resize: one kernel maps each output coordinate to the input, dim by dim; another one computes the elements. */
#include "kernel.h"
#include "resize.h"

#include <math.h>
#include <string.h>

/* ORT's layout. */
typedef struct nearest {
  int32_t origin, outside;
} nearest;

typedef struct linear {
  int32_t origin;
  float weight; /* of the element after the origin */
  int32_t outside;
} linear;

/* The functor's name selects the rule. It is computed in floats, as on the device, so that values halfway between two round the same
 * way. */
float vcuda_resize_original(const char *rule, const vcuda_resize_axis *a, float x) {
  float in = (float)a->in, out = (float)a->out;
  if (strstr(rule, "ASYMMETRIC") != NULL) return x / a->scale;
  if (strstr(rule, "ALIGN_CORNERS") != NULL) return a->out == 1 ? 0 : x * (in - 1) / (out - 1);
  if (strstr(rule, "TF_HALF_PIXEL_FOR_NN") != NULL) return (x + 0.5F) / a->scale;
  if (strstr(rule, "PYTORCH_HALF_PIXEL") != NULL) return a->out > 1 ? (x + 0.5F) / a->scale - 0.5F : 0;
  if (strstr(rule, "HALF_PIXEL_SYMMETRIC") != NULL) {
    float adjustment = out / (a->scale * in), center = in / 2;
    return center * (1 - adjustment) + (x + 0.5F) / a->scale - 0.5F;
  }
  if (strstr(rule, "TF_CROP_AND_RESIZE") != NULL) {
    return a->out > 1 ? a->roi_start * (in - 1) + x * (a->roi_end - a->roi_start) * (in - 1) / (out - 1)
                      : 0.5F * (a->roi_start + a->roi_end) * (in - 1);
  }
  return (x + 0.5F) / a->scale - 0.5F;
}

static float to_nearest(const char *rule, float x, bool shrinks) {
  if (strstr(rule, "ROUND_PREFER_FLOOR") != NULL) return x == truncf(x) + 0.5F ? floorf(x) : roundf(x);
  if (strstr(rule, "ROUND_PREFER_CEIL") != NULL) return roundf(x);
  if (strstr(rule, "FLOOR") != NULL) return floorf(x);
  if (strstr(rule, "CEIL") != NULL) return ceilf(x);
  return shrinks ? ceilf(x) : truncf(x);
}

static int64_t clamp(int64_t value, int64_t size) {
  return value < 0 ? 0 : value >= size ? size - 1 : value;
}

static void map_nearest(const vcuda_kernel *kernel, const vcuda_resize_axis *a, bool extrapolates, nearest *map) {
  for (int64_t i = 0; i < a->out; i++) {
    map[i] = (nearest){(int32_t)clamp(i, a->in), 0};
    if (a->scale == 1) continue;
    float at = vcuda_resize_original(kernel->types[1].text, a, (float)i);
    map[i].outside = extrapolates && (at < 0 || at > (float)(a->in - 1));
    map[i].origin = (int32_t)clamp((int64_t)to_nearest(kernel->types[2].text, at, a->scale < 1), a->in);
  }
}

/* Read dim `i` of `dims`. The parameters are the inputs' dims, the outputs' dims, the scales, and the region's starts and ends. */
static vcuda_resize_axis read_axis(const vcuda_launch *launch, int dims, int i) {
  vcuda_resize_axis a = {.in = vcuda_integer(launch, i), .out = vcuda_integer(launch, dims + i)};
  a.scale = (float)vcuda_real(launch, 2 * dims + i);
  a.roi_start = (float)vcuda_real(launch, 3 * dims + 2 * i);
  a.roi_end = (float)vcuda_real(launch, 3 * dims + 2 * i + 1);
  return a;
}

static int64_t sum_outputs(const vcuda_launch *launch, int dims) {
  int64_t sum = 0;
  for (int i = 0; i < dims; i++) sum += vcuda_integer(launch, dims + i);
  return sum;
}

/* <T, coordinates, rounding>(inputs' dims, outputs' dims, scales, each one's region, outside, .., .., map) */
static void map_dims(const vcuda_launch *launch, int dims) {
  nearest *map = vcuda_output(launch, 5 * dims + 3, sum_outputs(launch, dims));
  for (int i = 0; map != NULL && i < dims; i++) {
    vcuda_resize_axis a = read_axis(launch, dims, i);
    map_nearest(launch->kernel, &a, vcuda_integer(launch, 5 * dims) != 0, map);
    map += a.out;
  }
}

static void run_map_2d(const vcuda_launch *launch) {
  map_dims(launch, 2);
}

static void run_map_3d(const vcuda_launch *launch) {
  map_dims(launch, 3);
}

static float float_item(const vcuda_launch *launch, int i, int at) {
  float value;
  memcpy(&value, (const char *)vcuda_argument(launch, i) + 4 + (size_t)at * sizeof value, sizeof value);
  return value;
}

/* (rank, inputs' dims, outputs' dims, scales, region, the map's size, extrapolates, .., .., offset of each dim's map, map) */
static void run_map(const vcuda_launch *launch) {
  int rank = (int)vcuda_integer(launch, 0);
  nearest *map = vcuda_output(launch, 10, vcuda_integer(launch, 5));
  int64_t *starts = vcuda_output(launch, 9, rank), start = 0;
  for (int i = 0; map != NULL && starts != NULL && i < rank; i++) {
    vcuda_resize_axis a = {.in = vcuda_item(launch, 1, i), .out = vcuda_item(launch, 2, i), .scale = float_item(launch, 3, i)};
    a.roi_start = float_item(launch, 4, i);
    a.roi_end = float_item(launch, 4, rank + i);
    map_nearest(launch->kernel, &a, vcuda_integer(launch, 6) != 0, map + start);
    starts[i] = start;
    start += a.out;
  }
}

/* ---- elements of a nearest resize: the input's index is a sum with one term for each dim ---- */

typedef struct sampling {
  const vcuda_launch *launch;
  int rank, in, out, count, value, map; /* parameters */
  int64_t divisors[8], in_strides[8], starts[8], map_size;
} sampling;

/* The index of the input's element; -1: the value outside. */
static int64_t sample(const sampling *s, const nearest *map, int64_t id, int64_t image, int64_t image_stride) {
  int64_t index = image == 0 ? 0 : id / image * image_stride;
  id = image == 0 ? id : id % image;
  for (int i = 0; i < s->rank; i++) {
    const nearest *at = &map[s->starts[i] + id / s->divisors[i]];
    if (at->outside) return -1;
    index += at->origin * s->in_strides[i];
    id %= s->divisors[i];
  }
  return index;
}

static void run_sampling(const sampling *s, int64_t image, int64_t image_stride) {
  const vcuda_launch *launch = s->launch;
  int64_t count = vcuda_integer(launch, s->count), last = -1;
  size_t size = vcuda_size_of(launch, s->out);
  const nearest *map = vcuda_input(launch, s->map, s->map_size);
  for (int64_t id = 0; map != NULL && id < count; id++) {
    int64_t at = sample(s, map, id, image, image_stride);
    last = at > last ? at : last;
  }
  const char *in = map == NULL ? NULL : vcuda_input(launch, s->in, last + 1);
  char *out = map == NULL ? NULL : vcuda_output(launch, s->out, count);
  for (int64_t id = 0; in != NULL && out != NULL && id < count; id++) {
    int64_t at = sample(s, map, id, image, image_stride);
    memcpy(out + (size_t)id * size, at < 0 ? vcuda_argument(launch, s->value) : in + (size_t)at * size, size);
  }
}

/* (output's height and width, input's image and row, output's image and row, in, out, N, value, map) */
static void run_nearest_2d(const vcuda_launch *launch) {
  sampling s = {.launch = launch, .rank = 2, .in = 6, .out = 7, .count = 8, .value = 9, .map = 10};
  s.starts[1] = vcuda_integer(launch, 0);
  s.map_size = s.starts[1] + vcuda_integer(launch, 1);
  s.divisors[0] = vcuda_integer(launch, 5);
  s.divisors[1] = s.in_strides[1] = 1;
  s.in_strides[0] = vcuda_integer(launch, 3);
  run_sampling(&s, vcuda_integer(launch, 4), vcuda_integer(launch, 2));
}

/* (output's depth, height and width, input's volume, image and row, the output's, in, out, N, value, map) */
static void run_nearest_3d(const vcuda_launch *launch) {
  sampling s = {.launch = launch, .rank = 3, .in = 9, .out = 10, .count = 11, .value = 12, .map = 13};
  s.starts[1] = vcuda_integer(launch, 0);
  s.starts[2] = s.starts[1] + vcuda_integer(launch, 1);
  s.map_size = s.starts[2] + vcuda_integer(launch, 2);
  for (int i = 0; i < 2; i++) {
    s.divisors[i] = vcuda_integer(launch, 7 + i);
    s.in_strides[i] = vcuda_integer(launch, 4 + i);
  }
  s.divisors[2] = s.in_strides[2] = 1;
  run_sampling(&s, vcuda_integer(launch, 6), vcuda_integer(launch, 3));
}

/* (rank, input strides, output strides, in, out, N, value, offset of each dim's map, map) */
static void run_nearest(const vcuda_launch *launch) {
  sampling s = {.launch = launch, .rank = (int)vcuda_integer(launch, 0), .in = 3, .out = 4, .count = 5, .value = 6, .map = 8};
  const int64_t *starts = vcuda_input(launch, 7, s.rank);
  int64_t rest = vcuda_integer(launch, 5);
  if (starts == NULL || s.rank > 8) return;
  for (int i = 0; i < s.rank; i++) {
    s.in_strides[i] = vcuda_item(launch, 1, i);
    s.divisors[i] = vcuda_item(launch, 2, i);
    s.starts[i] = starts[i];
    s.map_size = starts[i] + rest / s.divisors[i];
    rest = s.divisors[i];
  }
  run_sampling(&s, 0, 0);
}

/* ---- linear in two dims or three ---- */

static void map_linear(const vcuda_kernel *kernel, const vcuda_resize_axis *a, bool extrapolates, linear *map) {
  for (int64_t i = 0; i < a->out; i++) {
    float at = a->scale == 1 ? (float)i : vcuda_resize_original(kernel->types[1].text, a, (float)i);
    float inside = fminf(fmaxf(at, 0), (float)(a->in - 1));
    map[i].outside = extrapolates && (at < 0 || at > (float)(a->in - 1));
    map[i].origin = (int32_t)inside;
    map[i].weight = map[i].origin >= a->in - 1 ? 0.5F : inside - (float)map[i].origin; /* at the border both are the same */
  }
}

/* <T, coordinates>(.., N of the map, extrapolates, .., map) */
static void map_linear_dims(const vcuda_launch *launch, int dims) {
  linear *map = vcuda_output(launch, 5 * dims + 3, sum_outputs(launch, dims));
  for (int i = 0; map != NULL && i < dims; i++) {
    vcuda_resize_axis a = read_axis(launch, dims, i);
    map_linear(launch->kernel, &a, vcuda_integer(launch, 5 * dims + 1) != 0, map);
    map += a.out;
  }
}

static void run_map_linear_2d(const vcuda_launch *launch) {
  map_linear_dims(launch, 2);
}

static void run_map_linear_3d(const vcuda_launch *launch) {
  map_linear_dims(launch, 3);
}

/* Find the map's entries for an output element, one for each dim. Returns the index of its image. */
static int64_t find_entries(const int64_t *out, int dims, int64_t id, int64_t entries[3]) {
  int64_t start = 0;
  for (int i = dims - 1; i >= 0; i--) {
    entries[i] = id % out[i];
    id /= out[i];
  }
  for (int i = 0; i < dims; i++) {
    entries[i] += start;
    start += out[i];
  }
  return id;
}

/* The device casts each weight to the elements' type: for whole numbers all weights below 1 become 0. */
static double blend(const linear *const entries[3], int dims, const int64_t *sizes, vcuda_type type, const void *in,
                    int64_t image) {
  double sum = 0;
  for (int corner = 0; corner < 1 << dims; corner++) {
    int64_t index = image;
    double weight = 1;
    for (int i = 0; i < dims; i++) {
      bool next = (corner >> i & 1) != 0;
      index = index * sizes[i] + clamp(entries[i]->origin + next, sizes[i]);
      weight *= (double)(next ? entries[i]->weight : 1 - entries[i]->weight);
    }
    sum += (vcuda_type_is_float(type) ? weight : trunc(weight)) * vcuda_load_real(type, in, index);
  }
  return sum;
}

/* (inputs' dims, outputs' dims, a divisor for each, in, out, N, value, map) */
static void run_linear(const vcuda_launch *launch, int dims) {
  vcuda_type type = vcuda_type_of(launch, 3 * dims);
  int64_t in_dims[3], out_dims[3], in_size = 1, out_size = 1, count = vcuda_integer(launch, 3 * dims + 2);
  for (int i = 0; i < dims; i++) {
    in_size *= in_dims[i] = vcuda_integer(launch, i);
    out_size *= out_dims[i] = vcuda_integer(launch, dims + i);
  }
  const linear *map = vcuda_input(launch, 3 * dims + 4, sum_outputs(launch, dims));
  const void *in = vcuda_input(launch, 3 * dims, count / out_size * in_size);
  void *out = vcuda_output(launch, 3 * dims + 1, count);
  for (int64_t id = 0; map != NULL && in != NULL && out != NULL && id < count; id++) {
    int64_t at[3], image = find_entries(out_dims, dims, id, at);
    const linear *entries[3];
    bool outside = false;
    for (int i = 0; i < dims; i++) {
      entries[i] = &map[at[i]];
      outside = outside || entries[i]->outside;
    }
    if (outside) {
      vcuda_store(type, out, id, vcuda_scalar(launch, 3 * dims + 3));
    } else {
      vcuda_store_real(type, out, id, blend(entries, dims, in_dims, type, in, image));
    }
  }
}

static void run_linear_2d(const vcuda_launch *launch) {
  run_linear(launch, 2);
}

static void run_linear_3d(const vcuda_launch *launch) {
  run_linear(launch, 3);
}

/* ---- cubic in two dims ---- */

typedef struct cubic {
  int32_t origin, outside;
  float weights[4];
} cubic;

static void map_cubic(const vcuda_launch *launch, const vcuda_resize_axis *a, cubic *map) {
  bool extrapolates = vcuda_integer(launch, 11) != 0, excludes = vcuda_integer(launch, 13) != 0;
  float c = (float)vcuda_real(launch, 12);
  for (int64_t i = 0; i < a->out; i++) {
    float at = a->scale == 1 ? (float)i : vcuda_resize_original(launch->kernel->types[1].text, a, (float)i), sum = 0;
    map[i].origin = (int32_t)floorf(at);
    map[i].outside = extrapolates && (at < 0 || at > (float)(a->in - 1));
    for (int tap = 0; tap < 4; tap++) {
      float x = fabsf(at - (float)map[i].origin - (float)(tap - 1));
      bool near = tap == 1 || tap == 2;
      int64_t from = map[i].origin + tap - 1;
      map[i].weights[tap] = near ? ((c + 2) * x - (c + 3)) * x * x + 1 : ((c * x - 5 * c) * x + 8 * c) * x - 4 * c;
      if (excludes && (from < 0 || from >= a->in)) map[i].weights[tap] = 0;
      sum += map[i].weights[tap];
    }
    for (int tap = 0; excludes && tap < 4; tap++) map[i].weights[tap] /= sum;
  }
}

/* <T, coordinates>(.., N of the map, extrapolates, the cubic's coefficient, excludes what is outside, .., map) */
static void run_map_cubic(const vcuda_launch *launch) {
  cubic *map = vcuda_output(launch, 15, sum_outputs(launch, 2));
  for (int i = 0; map != NULL && i < 2; i++) {
    vcuda_resize_axis a = read_axis(launch, 2, i);
    map_cubic(launch, &a, map);
    map += a.out;
  }
}

/* (inputs' dims, outputs' dims, .., in, out, N, value, map) */
static void run_cubic(const vcuda_launch *launch) {
  vcuda_type type = vcuda_type_of(launch, 6);
  int64_t in_dims[2], out_dims[2], count = vcuda_integer(launch, 8);
  for (int i = 0; i < 2; i++) {
    in_dims[i] = vcuda_integer(launch, i);
    out_dims[i] = vcuda_integer(launch, 2 + i);
  }
  const cubic *map = vcuda_input(launch, 10, sum_outputs(launch, 2));
  const void *in = vcuda_input(launch, 6, count / (out_dims[0] * out_dims[1]) * in_dims[0] * in_dims[1]);
  void *out = vcuda_output(launch, 7, count);
  for (int64_t id = 0; map != NULL && in != NULL && out != NULL && id < count; id++) {
    int64_t at[3], image = find_entries(out_dims, 2, id, at);
    const cubic *y = &map[at[0]], *x = &map[at[1]];
    double sum = 0;
    for (int tap = 0; tap < 16; tap++) {
      int64_t row = clamp(y->origin - 1 + tap / 4, in_dims[0]), column = clamp(x->origin - 1 + tap % 4, in_dims[1]);
      double weight = (double)(y->weights[tap / 4] * x->weights[tap % 4]);
      sum += weight * vcuda_load_real(type, in, (image * in_dims[0] + row) * in_dims[1] + column);
    }
    if (y->outside || x->outside) {
      vcuda_store(type, out, id, vcuda_scalar(launch, 9));
    } else {
      vcuda_store_real(type, out, id, sum);
    }
  }
}

const vcuda_form vcuda_resize_forms[] = {
    {"_ResizeNearestMappingKernel2D", "nnnnvvvvvvnppp", run_map_2d, NULL},
    {"_ResizeNearestMappingKernel3D", "nnnnnnvvvvvvvvvnppp", run_map_3d, NULL},
    {"_ResizeNearestMappingKernel", "naaaannpppp", run_map, NULL},
    {"_ResizeNearestKernel2D", "nnnnddppnvp", run_nearest_2d, NULL},
    {"_ResizeNearestKernel3D", "nnnnnndddppnvp", run_nearest_3d, NULL},
    {"_ResizeNearestKernel", "naappnvpp", run_nearest, NULL},
    {"_ResizeBilinearCoordinateMapping", "nnnnvvvvvvnnpp", run_map_linear_2d, NULL},
    {"_ResizeTrilinearCoordinateMapping", "nnnnnnvvvvvvvvvnnpp", run_map_linear_3d, NULL},
    {"_ResizeBilinearKernel", "nnnnddppnvp", run_linear_2d, NULL},
    {"_ResizeTrilinearKernel", "nnnnnndddppnvp", run_linear_3d, NULL},
    {"_ResizeCubicCoordinateMapping", "nnnnvvvvvvnnvnpp", run_map_cubic, NULL},
    {"_ResizeBiCubicKernel", "nnnnddppnvp", run_cubic, NULL},
    {.name = NULL},
};
