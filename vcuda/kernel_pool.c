/* Pooling that ORT computes without cuDNN: with indices of the maxima, dilations, or different pads before and after. */
#include "kernel.h"

#include <string.h>

enum { AXES = 3 }; /* height, width and depth; missing ones are 1 */

typedef struct window {
  int64_t in, out, size, stride, pad, tail, dilation;
} window;

typedef struct pool {
  const vcuda_launch *launch;
  int64_t channels, images;
  window axes[AXES];
  bool channels_last;
} pool;

typedef struct place {
  int64_t image, channel, at[AXES];
} place;

/* Parameter `first` is the number of channels. Then follow, each for all axes: input, output, window, stride, pads before, pads after if
 * `tails`, and dilations. */
static pool read_pool(const vcuda_launch *launch, int first, bool tails, int64_t count) {
  pool p = {.launch = launch, .channels = vcuda_integer(launch, first), .channels_last = vcuda_flag(launch->kernel, 1)};
  int64_t of_image = p.channels;
  for (int i = 0; i < AXES; i++) {
    int at = first + 1 + i;
    window *a = &p.axes[i];
    a->in = vcuda_integer(launch, at);
    a->out = vcuda_integer(launch, at + AXES);
    a->size = vcuda_integer(launch, at + 2 * AXES);
    a->stride = vcuda_integer(launch, at + 3 * AXES);
    a->pad = vcuda_integer(launch, at + 4 * AXES);
    a->tail = tails ? vcuda_integer(launch, at + 5 * AXES) : 0;
    a->dilation = vcuda_integer(launch, at + (tails ? 6 : 5) * AXES);
    of_image *= a->out;
  }
  p.images = of_image == 0 ? 0 : count / of_image;
  return p;
}

static int64_t input_count(const pool *p) {
  int64_t count = p->images * p->channels;
  for (int i = 0; i < AXES; i++) count *= p->axes[i].in;
  return count;
}

static place find_place(const pool *p, int64_t id) {
  place result = {0};
  if (p->channels_last) {
    result.channel = id % p->channels;
    id /= p->channels;
  }
  for (int i = AXES - 1; i >= 0; i--) {
    result.at[i] = id % p->axes[i].out;
    id /= p->axes[i].out;
  }
  if (!p->channels_last) {
    result.channel = id % p->channels;
    id /= p->channels;
  }
  result.image = id;
  return result;
}

static int64_t input_index(const pool *p, const place *at, const int64_t in[AXES]) {
  int64_t index = p->channels_last ? at->image : at->image * p->channels + at->channel;
  for (int i = 0; i < AXES; i++) index = index * p->axes[i].in + in[i];
  return p->channels_last ? index * p->channels + at->channel : index;
}

/* ---- maximum ---- */

/* Round to the type, as the device does before it compares. */
static vcuda_number rounded(vcuda_type type, vcuda_number number) {
  char bytes[8];
  vcuda_store(type, bytes, 0, number);
  return vcuda_load(type, bytes, 0);
}

static vcuda_number less_one(vcuda_type type, vcuda_number number) {
  if (vcuda_type_is_float(type)) {
    number.real -= 1;
  } else {
    number.whole -= 1;
  }
  return rounded(type, number);
}

/* Find the first maximum, in the order depth, width, height, with the height innermost. As in ORT, the comparison starts with the
 * first element less 1. False: no element is greater, for example if the first one is NaN, or so large that subtracting 1 does not
 * change it. ORT then reads before the tensor. */
static bool find_greatest(const pool *p, const place *at, const void *in, int64_t best[AXES]) {
  vcuda_type type = p->launch->kernel->types[0].type;
  int64_t start[AXES], end[AXES], i[AXES];
  for (int axis = 0; axis < AXES; axis++) {
    const window *a = &p->axes[axis];
    int64_t from = at->at[axis] * a->stride - a->pad, to = from + (a->size - 1) * a->dilation + 1;
    start[axis] = from < 0 ? 0 : from;
    end[axis] = to < a->in ? to : a->in;
    if (start[axis] >= end[axis]) return false;
  }
  bool is_float = vcuda_type_is_float(type), found = false;
  vcuda_number most = less_one(type, vcuda_load(type, in, input_index(p, at, start)));
  for (i[2] = start[2]; i[2] < end[2]; i[2] += p->axes[2].dilation) {
    for (i[1] = start[1]; i[1] < end[1]; i[1] += p->axes[1].dilation) {
      for (i[0] = start[0]; i[0] < end[0]; i[0] += p->axes[0].dilation) {
        vcuda_number value = vcuda_load(type, in, input_index(p, at, i));
        if (is_float ? !(value.real > most.real) : value.whole <= most.whole) continue;
        if (is_float) value.real = (double)(float)value.real;
        most = rounded(type, value);
        memcpy(best, i, sizeof i);
        found = true;
      }
    }
  }
  return found;
}

/* The index of the maximum in the whole input in NCHW order, or with the height innermost in each image. */
static int64_t index_of(const pool *p, const place *at, const int64_t best[AXES], bool height_innermost) {
  int64_t offset = (at->image * p->channels + at->channel) * p->axes[0].in * p->axes[1].in * p->axes[2].in;
  if (height_innermost) return offset + best[0] + (best[1] + best[2] * p->axes[1].in) * p->axes[0].in;
  return offset + (best[0] * p->axes[1].in + best[1]) * p->axes[2].in + best[2];
}

/* The position of an index in the output of indices, which is in NCHW order. */
static int64_t index_place(const pool *p, const place *at) {
  int64_t index = at->image * p->channels + at->channel;
  for (int i = 0; i < AXES; i++) index = index * p->axes[i].out + at->at[i];
  return index;
}

/* <T, channels last>(batch, channels, .., order of the indices, in, N, out, indices or NULL) */
static void run_greatest(const vcuda_launch *launch) {
  int64_t count = vcuda_integer(launch, 26);
  pool p = read_pool(launch, 1, false, count);
  size_t size = vcuda_size_of(launch, 25);
  const char *in = vcuda_input(launch, 25, input_count(&p));
  char *out = vcuda_output(launch, 27, count);
  int64_t *indices = NULL;
  if (vcuda_address(launch, 28) != NULL && (indices = vcuda_output(launch, 28, count)) == NULL) return;
  for (int64_t id = 0; in != NULL && out != NULL && id < count; id++) {
    place at = find_place(&p, id);
    int64_t best[AXES];
    if (!find_greatest(&p, &at, in, best)) {
      vcuda_fail(700,
                 "MaxPoolWithIndexKernel: no element is greater than the first one less 1, in the window of output element "
                 "%lld: ORT's kernel would read before its input",
                 (long long)id);
      return;
    }
    memcpy(out + (size_t)id * size, in + (size_t)input_index(&p, &at, best) * size, size);
    if (indices != NULL) indices[index_place(&p, &at)] = index_of(&p, &at, best, vcuda_integer(launch, 24) != 0);
  }
}

/* ---- mean ---- */

static double sum_window(const pool *p, const place *at, const void *in, int64_t *counted, int64_t *whole) {
  vcuda_type type = p->launch->kernel->types[0].type;
  int64_t start[AXES], end[AXES], i[AXES];
  double sum = 0;
  *counted = 0;
  *whole = 1;
  for (int axis = 0; axis < AXES; axis++) {
    const window *a = &p->axes[axis];
    start[axis] = at->at[axis] * a->stride - a->pad;
    end[axis] = start[axis] + a->size * a->dilation;
    if (end[axis] > a->in + a->tail) end[axis] = a->in + a->tail;
    *whole *= 1 + (end[axis] - start[axis] - 1) / a->dilation;
    while (start[axis] < 0) start[axis] += a->dilation;
    if (end[axis] > a->in) end[axis] = a->in;
  }
  for (i[0] = start[0]; i[0] < end[0]; i[0] += p->axes[0].dilation) {
    for (i[1] = start[1]; i[1] < end[1]; i[1] += p->axes[1].dilation) {
      for (i[2] = start[2]; i[2] < end[2]; i[2] += p->axes[2].dilation) {
        sum += vcuda_load_real(type, in, input_index(p, at, i));
        ++*counted;
      }
    }
  }
  return sum;
}

/* <T, channels last>(channels, .., pads count, in, N, out) */
static void run_mean(const vcuda_launch *launch) {
  bool pads_count = vcuda_integer(launch, 26) != 0;
  int64_t count = vcuda_integer(launch, 28);
  pool p = read_pool(launch, 0, true, count);
  const void *in = vcuda_input(launch, 27, input_count(&p));
  void *out = vcuda_output(launch, 29, count);
  for (int64_t id = 0; in != NULL && out != NULL && id < count; id++) {
    place at = find_place(&p, id);
    int64_t counted, whole;
    double sum = sum_window(&p, &at, in, &counted, &whole);
    vcuda_store_real(launch->kernel->types[0].type, out, id, counted == 0 ? 0 : sum / (double)(pads_count ? whole : counted));
  }
}

const vcuda_form vcuda_pool_forms[] = {
    {"MaxPoolWithIndexKernel", "nnnnnnnnnnnnnnnnnnnnddddnpnpp", run_greatest, NULL},
    {"AveragePoolWithPadKernel", "nnnnnnnnnnnnnnnnnnnnnnddddnpnp", run_mean, NULL},
    {.name = NULL},
};
