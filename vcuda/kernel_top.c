/* TopK: ORT has several kernels for different sizes; all give the same result. */
#include "kernel.h"

#include <stdlib.h>

typedef struct entry {
  vcuda_number value;
  int64_t place;
} entry;

static int compare(double a, double b) {
  return (a > b) - (a < b);
}

/* Descending; equal elements stay in order. */
static int by_greatest_real(const void *a, const void *b) {
  const entry *x = a, *y = b;
  int order = compare(y->value.real, x->value.real);
  return order != 0 ? order : (x->place > y->place) - (x->place < y->place);
}

static int by_least_real(const void *a, const void *b) {
  const entry *x = a, *y = b;
  int order = compare(x->value.real, y->value.real);
  return order != 0 ? order : (x->place > y->place) - (x->place < y->place);
}

static int by_greatest_whole(const void *a, const void *b) {
  const entry *x = a, *y = b;
  int order = (y->value.whole > x->value.whole) - (y->value.whole < x->value.whole);
  return order != 0 ? order : (x->place > y->place) - (x->place < y->place);
}

static int by_least_whole(const void *a, const void *b) {
  const entry *x = a, *y = b;
  int order = (x->value.whole > y->value.whole) - (x->value.whole < y->value.whole);
  return order != 0 ? order : (x->place > y->place) - (x->place < y->place);
}

static int by_place(const void *a, const void *b) {
  const entry *x = a, *y = b;
  return (x->place > y->place) - (x->place < y->place);
}

/* `length` elements of each line, `stride` apart. The block's index selects the line. */
typedef struct lines {
  const vcuda_launch *launch;
  int64_t count, length, stride, kept;
  bool greatest, sorted;
  int values, places; /* indices of the parameters of the results; the input is parameter 0 */
} lines;

static void top_of_line(const lines *l, int64_t line, const void *in, void *values, int64_t *places, entry *entries) {
  vcuda_type type = vcuda_type_of(l->launch, 0);
  int64_t outer = line / l->stride, inner = line % l->stride;
  for (int64_t i = 0; i < l->length; i++) {
    entries[i] = (entry){vcuda_load(type, in, (outer * l->length + i) * l->stride + inner), i};
  }
  int (*order)(const void *, const void *) = vcuda_type_is_float(type) ? (l->greatest ? by_greatest_real : by_least_real)
                                             : l->greatest             ? by_greatest_whole
                                                                       : by_least_whole;
  qsort(entries, (size_t)l->length, sizeof *entries, order);
  if (!l->sorted) qsort(entries, (size_t)l->kept, sizeof *entries, by_place);
  for (int64_t i = 0; i < l->kept; i++) {
    int64_t at = (outer * l->kept + i) * l->stride + inner;
    vcuda_store(type, values, at, entries[i].value);
    places[at] = entries[i].place;
  }
}

static void find_top(const lines *l) {
  const void *in = vcuda_input(l->launch, 0, l->count * l->length);
  void *values = vcuda_output(l->launch, l->values, l->count * l->kept);
  int64_t *places = vcuda_output(l->launch, l->places, l->count * l->kept);
  if (in == NULL || values == NULL || places == NULL || l->length == 0) return;
  entry *entries = malloc((size_t)l->length * sizeof *entries);
  if (entries == NULL || l->kept > l->length) {
    vcuda_fail(2, "%s: no room for %lld elements, of which %lld are kept", vcuda_kernel_name(l->launch->kernel),
               (long long)l->length, (long long)l->kept);
  } else {
    for (int64_t line = 0; line < l->count; line++) top_of_line(l, line, in, values, places, entries);
  }
  free(entries);
}

/* (in, values, indices, sizes from each dim on, rank, axis, K[, rounded up], greatest, sorted, length): a block for a line */
static void run_top(const vcuda_launch *launch) {
  int after = launch->kernel->argument_count == 14 ? 8 : 7;
  int64_t axis = vcuda_integer(launch, 5), rank = vcuda_integer(launch, 4);
  lines l = {.launch = launch, .values = 1, .places = 2, .count = launch->grid[0], .kept = vcuda_integer(launch, 6)};
  l.length = vcuda_integer(launch, after + 2);
  l.stride = axis == rank - 1 ? 1 : vcuda_item(launch, 3, (int)axis + 1);
  l.greatest = vcuda_integer(launch, after) == 1;
  l.sorted = vcuda_integer(launch, after + 1) == 1;
  find_top(&l);
}

static void run_nothing(const vcuda_launch *launch) {
  (void)launch; /* finds candidates, which the next kernel does not need here */
}

/* (in, values, indices, candidates, length, K, candidates' number): the last axis, the greatest, sorted. */
static void run_final(const vcuda_launch *launch) {
  lines l = {.launch = launch,
             .values = 1,
             .places = 2,
             .count = launch->grid[0],
             .length = vcuda_integer(launch, 4),
             .kept = vcuda_integer(launch, 5)};
  l.stride = 1;
  l.greatest = l.sorted = true;
  find_top(&l);
}

/* (in, candidates' indices, values, indices, lines, length, K, candidates' number): the same. */
static void run_write(const vcuda_launch *launch) {
  lines l = {.launch = launch, .values = 2, .places = 3, .count = vcuda_integer(launch, 4), .length = vcuda_integer(launch, 5)};
  l.kept = vcuda_integer(launch, 6);
  l.stride = 1;
  l.greatest = l.sorted = true;
  find_top(&l);
}

const vcuda_form vcuda_top_forms[] = {
    {"BitonicTopK", "pppannnnnnnnvv", run_top, NULL},  {"RadixTopK", "pppannnnnnnvv", run_top, NULL},
    {"PartialTopK", "ppnnnn", run_nothing, NULL},      {"FinalTopK", "ppppnnn", run_final, NULL},
    {"FindPartitionTopK", "pppnn", run_nothing, NULL}, {"CooperativeReduce", "ppppn", run_nothing, NULL},
    {"WriteOutput", "ppppnnnn", run_write, NULL},      {.name = NULL},
};
