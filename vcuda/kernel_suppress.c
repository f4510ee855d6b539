/* NonMaxSuppression: of overlapping boxes only the one with the highest score is kept. */
#include "kernel.h"

#include <string.h>

typedef struct box {
  float low[2], high[2];
} box;

/* A box is given by corners in any order, or by center and size. */
static box read_box(const float *numbers, bool has_center) {
  box b;
  for (int i = 0; i < 2; i++) {
    float half = numbers[2 + i] / 2, one = numbers[i], other = numbers[2 + i];
    b.low[i] = has_center ? one - half : one >= other ? other : one;
    b.high[i] = has_center ? one + half : one >= other ? one : other;
  }
  return b;
}

static float area(const box *b) {
  return (b->high[0] - b->low[0]) * (b->high[1] - b->low[1]);
}

static bool overlap(const box *a, const box *b, float threshold) {
  float both = 1;
  for (int i = 0; i < 2; i++) {
    float low = a->low[i] > b->low[i] ? a->low[i] : b->low[i], high = a->high[i] < b->high[i] ? a->high[i] : b->high[i];
    if (high <= low) return false;
    both *= high - low;
  }
  float one = area(a), other = area(b), all = one + other - both;
  return both > 0 && one > 0 && other > 0 && all > 0 && both / all > threshold;
}

/* (boxes have centers, boxes, their number, threshold, words of a row, mask): a row for each box, with a bit for each later box
 * that it suppresses. The caller has cleared the mask. */
static void run_find(const vcuda_launch *launch) {
  bool has_center = vcuda_integer(launch, 0) != 0;
  int64_t count = vcuda_integer(launch, 2), words = vcuda_integer(launch, 4);
  float threshold = (float)vcuda_real(launch, 3);
  const float *boxes = vcuda_input(launch, 1, count);
  uint32_t *mask = vcuda_output(launch, 5, count * words);
  for (int64_t i = 0; boxes != NULL && mask != NULL && i < count; i++) {
    box first = read_box(boxes + 4 * i, has_center);
    for (int64_t j = i + 1; j < count; j++) {
      box second = read_box(boxes + 4 * j, has_center);
      if (overlap(&first, &second, threshold)) mask[i * words + j / 32] |= 1U << (j % 32);
    }
  }
}

/* (mask, words of a row, boxes, most, flags): `flags` also records suppressed boxes. As on the device, the last box suppresses
 * none, and the scan ends when more than `most` boxes are kept. */
static void run_reduce(const vcuda_launch *launch) {
  int64_t words = vcuda_integer(launch, 1), count = vcuda_integer(launch, 2), most = vcuda_integer(launch, 3), accepted = 0;
  const uint32_t *mask = vcuda_input(launch, 0, count * words);
  char *flags = vcuda_output(launch, 4, count);
  if (mask == NULL || flags == NULL) return;
  memset(flags, 1, (size_t)count);
  for (int64_t i = 0; i < count - 1 && accepted <= most; i++) {
    if (flags[i] == 0) continue;
    accepted++;
    for (int64_t j = i + 1; j < count; j++) {
      if ((mask[i * words + j / 32] >> (j % 32) & 1) != 0) flags[j] = 0;
    }
  }
}

/* (N, indices, in, out) */
static void run_pick(const vcuda_launch *launch) {
  int64_t count = vcuda_integer(launch, 0), last = -1;
  size_t size = vcuda_size_of(launch, 2);
  const int32_t *indices = vcuda_input(launch, 1, count);
  for (int64_t i = 0; indices != NULL && i < count; i++) last = indices[i] > last ? indices[i] : last;
  const char *in = vcuda_input(launch, 2, last + 1);
  char *out = vcuda_output(launch, 3, count);
  for (int64_t i = 0; indices != NULL && in != NULL && out != NULL && i < count; i++) {
    memcpy(out + (size_t)i * size, in + (size_t)indices[i] * size, size);
  }
}

/* (N, out) */
static void run_clear(const vcuda_launch *launch) {
  int64_t count = vcuda_integer(launch, 0);
  void *out = vcuda_output(launch, 1, count);
  if (out != NULL) memset(out, 0, (size_t)count * vcuda_size_of(launch, 1));
}

/* (N, first, out) */
static void run_count_up(const vcuda_launch *launch) {
  int64_t count = vcuda_integer(launch, 0), first = vcuda_integer(launch, 1);
  int32_t *out = vcuda_output(launch, 2, count);
  for (int64_t i = 0; out != NULL && i < count; i++) out[i] = (int32_t)(first + i);
}

/* (N, boxes, out, batch, class) */
static void run_name(const vcuda_launch *launch) {
  int64_t count = vcuda_integer(launch, 0);
  const int32_t *boxes = vcuda_input(launch, 1, count);
  int64_t *out = vcuda_output(launch, 2, 3 * count);
  for (int64_t i = 0; boxes != NULL && out != NULL && i < count; i++) {
    out[3 * i] = vcuda_integer(launch, 3);
    out[3 * i + 1] = vcuda_integer(launch, 4);
    out[3 * i + 2] = boxes[i];
  }
}

static bool is_int32(vcuda_kernel *kernel) {
  return kernel->arguments[kernel->argument_count - 1].type == VCUDA_INT32;
}

const vcuda_form vcuda_suppress_forms[] = {
    {"NMSKernel", "npnvnp", run_find, NULL},
    {"NMSReduce", "pnnnp", run_reduce, NULL},
    {"IndexMultiSelect", "nppp", run_pick, NULL},
    {"SetZero", "np", run_clear, is_int32},
    {"Iota", "nnp", run_count_up, is_int32},
    {"NormalizeOutput", "nppnn", run_name, NULL},
    {.name = NULL},
};
