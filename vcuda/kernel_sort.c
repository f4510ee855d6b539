/* CUB's algorithms that operators use: sort by keys, select by flags, count by a condition. */
#include "kernel.h"

#include <stdlib.h>
#include <string.h>

static void run_nothing(const vcuda_launch *launch) {
  (void)launch; /* prepares states and histograms, which later kernels do not need here */
}

/* ---- radix sort: stable, by a range of the keys' bits ---- */

typedef struct entry {
  uint64_t bits;
  int64_t place;
} entry;

static int by_bits(const void *a, const void *b) {
  const entry *x = a, *y = b;
  if (x->bits != y->bits) return x->bits < y->bits ? -1 : 1;
  return (x->place > y->place) - (x->place < y->place);
}

static bool has_sign(vcuda_type type) {
  return vcuda_type_is_float(type) || type == VCUDA_INT8 || type == VCUDA_INT16 || type == VCUDA_INT32 || type == VCUDA_INT64;
}

/* The key's bits, mapped so that they sort as unsigned numbers. Both zeros of a float are the same key. */
static uint64_t ordered_bits(vcuda_type type, const char *keys, int64_t at) {
  size_t size = vcuda_type_size(type);
  uint64_t bits = 0, sign = (uint64_t)1 << (8 * size - 1);
  memcpy(&bits, keys + (size_t)at * size, size);
  if (vcuda_type_is_float(type)) {
    if (bits == sign) bits = 0;
    return (bits & sign) != 0 ? ~bits & (sign | (sign - 1)) : bits | sign;
  }
  return has_sign(type) ? bits ^ sign : bits;
}

/* The parameters of the keys and values, in and out, and of their number, which the first bit and a last one, or a number of bits,
 * follow. */
typedef struct sort {
  int keys, keys_out, values, values_out, count;
  bool to_last; /* the parameter is the last bit, not the number of bits */
} sort;

static void run_sort(const vcuda_launch *launch, const sort *s) {
  vcuda_type type = vcuda_type_of(launch, s->keys);
  size_t key = vcuda_size_of(launch, s->keys), value = vcuda_size_of(launch, s->values);
  int64_t count = vcuda_integer(launch, s->count), first = vcuda_integer(launch, s->count + 1);
  int64_t bits = vcuda_integer(launch, s->count + 2) - (s->to_last ? first : 0);
  uint64_t mask = bits >= 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;
  bool descending = launch->kernel->types[1].value == 1;
  const char *keys = vcuda_input(launch, s->keys, count), *values = vcuda_input(launch, s->values, count);
  char *keys_out = vcuda_output(launch, s->keys_out, count), *values_out = vcuda_output(launch, s->values_out, count);
  if (keys == NULL || values == NULL || keys_out == NULL || values_out == NULL || count == 0) return;
  entry *entries = malloc((size_t)count * sizeof *entries);
  if (entries == NULL) {
    vcuda_fail(2, "%s: no memory on the host", vcuda_kernel_name(launch->kernel));
    return;
  }
  for (int64_t i = 0; i < count; i++) {
    uint64_t ordered = ordered_bits(type, keys, i) >> first & mask;
    entries[i] = (entry){descending ? ~ordered : ordered, i};
  }
  qsort(entries, (size_t)count, sizeof *entries, by_bits);
  for (int64_t i = 0; i < count; i++) {
    memcpy(keys_out + (size_t)i * key, keys + (size_t)entries[i].place * key, key);
    memcpy(values_out + (size_t)i * value, values + (size_t)entries[i].place * value, value);
  }
  free(entries);
}

/* <policy, order, ..>(keys, keys out, values, values out, N, first bit, last bit, ..) */
static void run_sort_at_once(const vcuda_launch *launch) {
  run_sort(launch, &(sort){0, 1, 2, 3, 4, true});
}

/* <policy, order, ..>(.., .., .., .., keys out, keys, values out, values, N, first bit, bits, ..): one of several passes */
static void run_sort_pass(const vcuda_launch *launch) {
  run_sort(launch, &(sort){5, 4, 7, 6, 8, false});
}

static bool sorts_numbers(vcuda_kernel *kernel) {
  int keys = kernel->argument_count == 8 ? 0 : 5, values = keys + 2;
  return kernel->arguments[keys].type != VCUDA_NO_TYPE && kernel->arguments[values].type != VCUDA_NO_TYPE &&
         kernel->types[1].kind == 'n';
}

/* ---- select by flags ---- */

/* (state, tiles, number of selected ones) */
static void run_start_selection(const vcuda_launch *launch) {
  int32_t *selected = vcuda_output(launch, 2, 1);
  if (selected != NULL) *selected = 0;
}

/* (in, flags, out, number of selected ones, .., .., .., N, ..) */
static void run_select(const vcuda_launch *launch) {
  int64_t count = vcuda_integer(launch, 7), selected = 0;
  size_t size = vcuda_size_of(launch, 0);
  const char *in = vcuda_input(launch, 0, count), *flags = vcuda_input(launch, 1, count);
  for (int64_t i = 0; flags != NULL && i < count; i++) selected += flags[i] != 0;
  char *out = flags == NULL ? NULL : vcuda_output(launch, 2, selected);
  int32_t *number = vcuda_output(launch, 3, 1);
  if (in == NULL || out == NULL || number == NULL) return;
  *number = (int32_t)selected;
  for (int64_t i = 0; i < count; i++) {
    if (flags[i] == 0) continue;
    memcpy(out, in + (size_t)i * size, size);
    out += size;
  }
}

static bool selects_by_flags(vcuda_kernel *kernel) {
  return kernel->arguments[1].type == VCUDA_INT8 && kernel->arguments[3].type == VCUDA_INT32 &&
         kernel->types[kernel->type_count - 1].value == 0;
}

/* ---- count ---- */

/* The iterator is a pointer to floats, then the number with which they are compared. Returns -1 if the floats are not accessible. */
static int64_t count_greater(const vcuda_launch *launch) {
  int64_t count = vcuda_integer(launch, 2), found = 0;
  const char *iterator = vcuda_argument(launch, 0);
  float threshold;
  memcpy(&threshold, iterator + sizeof(void *), sizeof threshold);
  const float *in = vcuda_reads(vcuda_address(launch, 0), (size_t)count * sizeof *in);
  if (in == NULL) return -1;
  for (int64_t i = 0; i < count; i++) found += in[i] > threshold;
  return found;
}

/* (iterator, out, N, .., initial value, ..) */
static void run_count(const vcuda_launch *launch) {
  int64_t found = count_greater(launch), *out = found < 0 ? NULL : vcuda_output(launch, 1, 1);
  if (out != NULL) *out = vcuda_integer(launch, 4) + found;
}

/* (iterator, out, N, ..): a count for each block, which a further kernel sums. Here the first block has the whole count. */
static void run_count_blocks(const vcuda_launch *launch) {
  int64_t found = count_greater(launch), *out = found < 0 ? NULL : vcuda_output(launch, 1, launch->grid[0]);
  for (int64_t i = 0; out != NULL && i < launch->grid[0]; i++) out[i] = i == 0 ? found : 0;
}

/* (in, out, N, .., initial value, ..) */
static void run_sum(const vcuda_launch *launch) {
  int64_t count = vcuda_integer(launch, 2), sum = vcuda_integer(launch, 4);
  const int64_t *in = vcuda_input(launch, 0, count);
  int64_t *out = vcuda_output(launch, 1, 1);
  if (in == NULL || out == NULL) return;
  for (int64_t i = 0; i < count; i++) sum = (int64_t)((uint64_t)sum + (uint64_t)in[i]);
  *out = sum;
}

static bool counts(vcuda_kernel *kernel) {
  return strstr(kernel->arguments[0].text, "transform_iterator<onnxruntime::cuda::(anonymous namespace)::DeviceGreaterThan") !=
         NULL;
}

static bool sums(vcuda_kernel *kernel) {
  return kernel->arguments[0].type == VCUDA_INT64 && kernel->arguments[1].type == VCUDA_INT64 &&
         strstr(kernel->arguments[3].text, "plus<") != NULL;
}

const vcuda_form vcuda_sort_forms[] = {
    {"DeviceRadixSortSingleTileKernel", "ppppnnno", run_sort_at_once, sorts_numbers},
    {"DeviceRadixSortHistogramKernel", "ppnnno", run_nothing, NULL},
    {"DeviceRadixSortExclusiveSumKernel", "p", run_nothing, NULL},
    {"DeviceRadixSortOnesweepKernel", "ppppppppnnno", run_sort_pass, sorts_numbers},
    {"DeviceCompactInitKernel", "onp", run_start_selection, NULL},
    {"DeviceSelectSweepKernel", "ppppooonnoo", run_select, selects_by_flags},
    {"DeviceReduceSingleTileKernel", "opnono", run_count, counts},
    {"DeviceReduceSingleTileKernel", "ppnono", run_sum, sums},
    {"DeviceReduceKernel", "opnooo", run_count_blocks, counts},
    {.name = NULL},
};
