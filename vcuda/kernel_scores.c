/* Unfused attention: the softmax of scores that a matrix product has computed. */
#include "kernel.h"

#include <math.h>

/* Scores [batch][heads][queries][keys]. */
typedef struct scores {
  const vcuda_launch *launch;
  int64_t batch, heads, queries, keys;
  vcuda_type bias_type;
  const void *bias;         /* [batch][heads][queries][keys]; NULL: none */
  bool one_batch, one_head; /* the bias has one batch, one head for all */
  const void *lengths;      /* of sequences; NULL: all keys */
  const void *starts;       /* first key of each sequence; NULL: 0 */
  bool causal;
  int64_t before; /* keys before the first query */
} scores;

typedef struct place {
  int64_t b, head, query;
} place;

typedef struct range {
  int64_t first, end;
} range;

static place place_of(const scores *s, int64_t row) {
  return (place){.b = row / s->queries / s->heads, .head = row / s->queries % s->heads, .query = row % s->queries};
}

static int64_t bias_row(const scores *s, place at) {
  return (((s->one_batch ? 0 : at.b) * (s->one_head ? 1 : s->heads) + (s->one_head ? 0 : at.head)) * s->queries + at.query) *
         s->keys;
}

/* Read an optional input. False: its memory is not accessible. */
static bool maybe(const vcuda_launch *launch, int i, int64_t count, const void **data) {
  *data = NULL;
  if (vcuda_address(launch, i) == NULL) return true;
  *data = vcuda_input(launch, i, count);
  return *data != NULL;
}

static bool read_bias(scores *s, int i) {
  int64_t rows = (s->one_batch ? 1 : s->batch) * (s->one_head ? 1 : s->heads) * s->queries;
  s->bias_type = vcuda_type_of(s->launch, i);
  return maybe(s->launch, i, rows * s->keys, &s->bias);
}

static double bias_of(const scores *s, place at, int64_t key) {
  return s->bias == NULL ? 0 : vcuda_load_real(s->bias_type, s->bias, bias_row(s, at) + key);
}

static int64_t number(const void *data, int64_t at, int64_t otherwise) {
  return data == NULL ? otherwise : vcuda_load(VCUDA_INT32, data, at).whole;
}

static int64_t within(int64_t value, int64_t most) {
  return value < 0 ? 0 : value < most ? value : most;
}

/* The end of the keys that a query sees according to the lengths. */
static int64_t end_of(const scores *s, place at) {
  int64_t keys = within(number(s->lengths, at.b, s->keys), s->keys);
  return s->causal ? within(s->before + at.query + 1, keys) : keys;
}

/* Write the softmax of the keys that are seen. All other elements are 0. */
static void softmax_row(const scores *s, int out, double *row, range seen, void *to) {
  double greatest = -INFINITY, sum = 0;
  for (int64_t i = seen.first; i < seen.end; i++) greatest = fmax(greatest, row[i]);
  for (int64_t i = seen.first; !isinf(greatest) && i < seen.end; i++) sum += exp(row[i] - greatest);
  for (int64_t i = 0; i < s->keys; i++) {
    bool is_seen = sum != 0 && i >= seen.first && i < seen.end;
    vcuda_store_real(vcuda_type_of(s->launch, out), to, i, is_seen ? exp(row[i] - greatest) / sum : 0);
  }
}

enum { MOST_KEYS = 16384 };

/* Computes the scores of a row, and returns the range of keys that are seen. */
typedef range (*row_function)(const scores *s, const void *in, place at, double *row);

static void softmax_rows(const scores *s, int in, int out, row_function function) {
  double row[MOST_KEYS];
  int64_t rows = s->batch * s->heads * s->queries;
  const char *from = vcuda_input(s->launch, in, rows * s->keys);
  char *to = vcuda_output(s->launch, out, rows * s->keys);
  if (s->keys > MOST_KEYS) {
    vcuda_fail(719, "softmax of %lld scores: expected at most %d", (long long)s->keys, MOST_KEYS);
    return;
  }
  int64_t in_bytes = s->keys * (int64_t)vcuda_size_of(s->launch, in),
          out_bytes = s->keys * (int64_t)vcuda_size_of(s->launch, out);
  for (int64_t i = 0; from != NULL && to != NULL && i < rows; i++) {
    range seen = function(s, from + i * in_bytes, place_of(s, i), row);
    softmax_row(s, out, row, seen, to + i * out_bytes);
  }
}

/* ---- ONNX's Attention ---- */

/* Does the row see a key that is not masked? */
static bool sees_any(const scores *s, place at, range seen, double masked) {
  int64_t key = seen.first;
  while (s->bias != NULL && key < seen.end && bias_of(s, at, key) <= masked) key++;
  return key < seen.end;
}

static range unfused_row(const scores *s, const void *in, place at, double *row) {
  const vcuda_launch *launch = s->launch;
  double scale = vcuda_real(launch, 12), cap = vcuda_real(launch, 13);
  int64_t window = vcuda_integer(launch, 10);
  scores own = *s;
  own.before = s->lengths == NULL ? vcuda_integer(launch, 11) : number(s->lengths, at.b, 0) - s->queries;
  for (int64_t i = 0; i < s->keys; i++) {
    double score = vcuda_load_real(VCUDA_FLOAT32, in, i) * scale;
    row[i] = (cap > 0 ? cap * tanh(score / cap) : score) + bias_of(s, at, i);
  }
  int64_t first = own.before + at.query - window;
  range seen = {.first = window >= 0 && first > 0 ? first : 0, .end = end_of(&own, at)};
  double masked = vcuda_real(launch, 14);
  if (masked < 0 && !sees_any(s, at, seen, masked)) seen.end = seen.first;
  return seen;
}

/* (queries, keys, heads, scores, bias, has bias, for all batches, for all heads, lengths, causal, window, keys before, scale, cap,
 * bias of masked keys, or 0, out); a block for each query and head, and sequence. With lengths the last query sees the last key. */
static void run_unfused(const vcuda_launch *launch) {
  scores s = {.launch = launch,
              .queries = vcuda_integer(launch, 0),
              .keys = vcuda_integer(launch, 1),
              .heads = vcuda_integer(launch, 2)};
  s.batch = launch->grid[1];
  s.one_batch = vcuda_integer(launch, 6) != 0;
  s.one_head = vcuda_integer(launch, 7) != 0;
  s.causal = vcuda_integer(launch, 9) != 0;
  if (read_bias(&s, 4) && maybe(launch, 8, s.batch, &s.lengths)) softmax_rows(&s, 3, 15, unfused_row);
}

/* (out, bias, lengths, batch, heads, queries, keys, size, causal, from the top left, bias's batch, its heads, bias of masked
 * keys): a row without any key becomes 0. */
static void run_clear_rows(const vcuda_launch *launch) {
  scores s = {.launch = launch, .batch = vcuda_integer(launch, 3), .heads = vcuda_integer(launch, 4)};
  s.queries = vcuda_integer(launch, 5);
  s.keys = vcuda_integer(launch, 6);
  s.causal = vcuda_integer(launch, 8) != 0;
  s.one_batch = vcuda_integer(launch, 10) == 1;
  s.one_head = vcuda_integer(launch, 11) == 1;
  int64_t size = vcuda_integer(launch, 7), rows = s.batch * s.heads * s.queries;
  void *out = vcuda_output(launch, 0, rows * size);
  if (out == NULL || !read_bias(&s, 1) || !maybe(launch, 2, s.batch, &s.lengths)) return;
  for (int64_t row = 0; row < rows; row++) {
    place at = place_of(&s, row);
    s.before = vcuda_integer(launch, 9) != 0 ? 0 : number(s.lengths, at.b, s.keys) - s.queries;
    bool seen = sees_any(&s, at, (range){.end = end_of(&s, at)}, vcuda_real(launch, 12));
    for (int64_t i = 0; !seen && i < size; i++) {
      vcuda_store_real(vcuda_type_of(launch, 0), out, ((at.b * s.queries + at.query) * s.heads + at.head) * size + i, 0);
    }
  }
}

/* ---- MultiHeadAttention, and BERT's Attention ---- */

static range plain_row(const scores *s, const void *in, place at, double *row) {
  int64_t first = number(s->starts, at.b, 0), end = within(number(s->lengths, at.b, s->keys), s->keys);
  int64_t causal_end = s->keys - s->queries + at.query + 1;
  for (int64_t i = 0; i < s->keys; i++) row[i] = vcuda_load_real(s->bias_type, in, i) + bias_of(s, at, i);
  first = first < 0 ? 0 : first;
  if (first >= end) { /* an empty mask means all keys */
    first = 0;
    end = s->keys;
  }
  if (!s->causal) return (range){first, end};
  if (causal_end <= first) return (range){0, causal_end};
  return (range){first, end < causal_end ? end : causal_end};
}

/* `bias` is the parameter with the bias. The next parameters: whether it is for all batches, whether for all heads, scores, results. */
static void run_plain_rows(scores *s, int bias) {
  s->batch = s->launch->grid[1];
  s->keys = vcuda_integer(s->launch, 0);
  s->queries = vcuda_integer(s->launch, 1);
  s->heads = (int64_t)s->launch->grid[0] / s->queries;
  s->one_batch = vcuda_integer(s->launch, bias + 1) != 0;
  s->one_head = vcuda_integer(s->launch, bias + 2) != 0;
  if (read_bias(s, bias)) softmax_rows(s, bias + 3, bias + 4, plain_row);
}

/* (keys, queries, bias, for all batches, for all heads, scores, out[, causal]); a block for each query and head, and sequence */
static void run_softmax(const vcuda_launch *launch) {
  scores s = {.launch = launch, .causal = launch->kernel->argument_count == 8 && vcuda_integer(launch, 7) != 0};
  run_plain_rows(&s, 2);
}

/* (keys, queries, keys seen, first one, bias, for all batches, for all heads, scores, out, causal) */
static void run_softmax_large(const vcuda_launch *launch) {
  scores s = {.launch = launch, .causal = vcuda_integer(launch, 9) != 0};
  if (vcuda_integer(launch, 2) != vcuda_integer(launch, 0) || vcuda_integer(launch, 3) != 0) {
    vcuda_fail(719, "SoftmaxLargeKernel of some keys: not known here");
  } else {
    run_plain_rows(&s, 4);
  }
}

/* (keys, queries, lengths, starts, bias, for all batches, for all heads, scores, out[, causal]) */
static void run_softmax_masked(const vcuda_launch *launch) {
  scores s = {.launch = launch, .causal = launch->kernel->argument_count == 10 && vcuda_integer(launch, 9) != 0};
  int64_t batch = launch->grid[1];
  if (maybe(launch, 2, batch, &s.lengths) && maybe(launch, 3, batch, &s.starts)) run_plain_rows(&s, 4);
}

static int64_t mask_at(const scores *s, place at, int64_t dimensions, int64_t most) {
  int64_t query = s->keys - s->queries + at.query;
  return dimensions == 2   ? at.b * s->keys
         : dimensions == 3 ? (at.b * s->queries + at.query) * s->keys
                           : (at.b * most + query) * most;
}

static range raw_mask_row(const scores *s, const void *in, place at, double *row) {
  const vcuda_launch *launch = s->launch;
  double scale = vcuda_real(launch, 10), masked = vcuda_real(launch, 14);
  int64_t mask = mask_at(s, at, vcuda_integer(launch, 11), vcuda_integer(launch, 12));
  for (int64_t i = 0; i < s->keys; i++) {
    row[i] = vcuda_load_real(s->bias_type, in, i) * scale + bias_of(s, at, i);
    if (s->lengths != NULL && number(s->lengths, mask + i, 0) == 0) row[i] += masked;
    if (s->starts != NULL && vcuda_load(VCUDA_BOOL, s->starts, mask + i).whole != 0) row[i] = -INFINITY;
  }
  return (range){.end = s->causal ? within(s->keys - s->queries + at.query + 1, s->keys) : s->keys};
}

/* (keys, queries, mask, padding, bias, for all batches, for all heads, scores, out, causal, scale, dimensions of the mask, its size,
 * without softmax, bias where the mask is 0). There is either a mask or a padding. */
static void run_softmax_raw(const vcuda_launch *launch) {
  scores s = {
      .launch = launch, .batch = launch->grid[1], .keys = vcuda_integer(launch, 0), .queries = vcuda_integer(launch, 1)};
  int64_t dimensions = vcuda_integer(launch, 11), most = vcuda_integer(launch, 12);
  int64_t count = dimensions == 2 ? s.batch * s.keys : dimensions == 3 ? s.batch * s.queries * s.keys : s.batch * most * most;
  s.heads = (int64_t)launch->grid[0] / s.queries;
  s.one_batch = vcuda_integer(launch, 5) != 0;
  s.one_head = vcuda_integer(launch, 6) != 0;
  s.causal = vcuda_integer(launch, 9) != 0;
  if (vcuda_integer(launch, 13) != 0) {
    vcuda_fail(719, "SoftmaxWithRawMask that only adds the mask: not known here");
  } else if (maybe(launch, 2, count, &s.lengths) && maybe(launch, 3, count, &s.starts) && read_bias(&s, 4)) {
    softmax_rows(&s, 7, 8, raw_mask_row);
  }
}

/* (products, out, factor, N) */
static void run_scale(const vcuda_launch *launch) {
  int64_t count = vcuda_integer(launch, 3);
  const float *in = vcuda_input(launch, 0, count);
  void *out = vcuda_output(launch, 1, count);
  for (int64_t i = 0; in != NULL && out != NULL && i < count; i++) {
    vcuda_store_real(vcuda_type_of(launch, 1), out, i, (double)in[i] * vcuda_real(launch, 2));
  }
}

const vcuda_form vcuda_scores_forms[] = {
    {"ScaledCopyQkKernel", "ppvn", run_scale, NULL},
    {"UnfusedSoftmaxKernel", "nnnppnnnpnnnvvvp", run_unfused, NULL},
    {"ZeroFullyMaskedRowsKernel", "pppnnnnnnnnnv", run_clear_rows, NULL},
    {"SoftmaxKernelSmall", "nnpnnppn", run_softmax, NULL},
    {"SoftmaxKernel", "nnpnnpp", run_softmax, NULL},
    {"SoftmaxLargeKernel", "nnnnpnnppn", run_softmax_large, NULL},
    {"MaskedSoftmaxKernelSmall", "nnpppnnppn", run_softmax_masked, NULL},
    {"MaskedSoftmaxKernel", "nnpppnnpp", run_softmax_masked, NULL},
    {"SoftmaxWithRawMaskSmallKernel", "nnpppnnppnvnnnv", run_softmax_raw, NULL},
    {"SoftmaxWithRawMaskLargeKernel", "nnpppnnppnvnnnv", run_softmax_raw, NULL},
    {.name = NULL},
};
