/* Attention in steps: masks and lengths, and the softmax of scores that a product has computed. */
#include "kernel.h"

#include <math.h>

/* (mask, bias, count, bias of what is masked) */
static void run_bias_of_mask(const vcuda_launch *launch) {
  int64_t count = vcuda_integer(launch, 2);
  const void *mask = vcuda_input(launch, 0, count);
  void *bias = vcuda_output(launch, 1, count);
  for (int64_t i = 0; mask != NULL && bias != NULL && i < count; i++) {
    bool seen = vcuda_load(VCUDA_BOOL, mask, i).whole != 0;
    vcuda_store_real(vcuda_type_of(launch, 1), bias, i, seen ? 0 : vcuda_real(launch, 3));
  }
}

/* (lengths as int64, lengths, count, most) */
static void run_lengths(const vcuda_launch *launch) {
  int64_t count = vcuda_integer(launch, 2), most = vcuda_integer(launch, 3);
  const void *in = vcuda_input(launch, 0, count);
  void *out = vcuda_output(launch, 1, count);
  for (int64_t i = 0; in != NULL && out != NULL && i < count; i++) {
    int64_t length = vcuda_load(VCUDA_INT64, in, i).whole;
    if (length < 0 || length > most) {
      vcuda_fail(719, "nonpad_kv_seqlen: %lld: expected 0 to %lld", (long long)length, (long long)most);
      return;
    }
    vcuda_store(VCUDA_INT32, out, i, (vcuda_number){.whole = length});
  }
}

/* (out, value, count) */
static void run_fill(const vcuda_launch *launch) {
  int64_t count = vcuda_integer(launch, 2);
  void *out = vcuda_output(launch, 0, count);
  for (int64_t i = 0; out != NULL && i < count; i++) vcuda_store(VCUDA_INT32, out, i, vcuda_scalar(launch, 1));
}

/* (out, lengths, batch, elements of a sequence): what has no key is 0. */
static void run_clear_batches(const vcuda_launch *launch) {
  int64_t batch = vcuda_integer(launch, 2), each = vcuda_integer(launch, 3);
  const void *lengths = vcuda_input(launch, 1, batch);
  void *out = vcuda_output(launch, 0, batch * each);
  for (int64_t i = 0; lengths != NULL && out != NULL && i < batch * each; i++) {
    if (vcuda_load(VCUDA_INT32, lengths, i / each).whole == 0) vcuda_store_real(vcuda_type_of(launch, 0), out, i, 0);
  }
}

/* ---- rows of scores ---- */

typedef struct scores {
  const vcuda_launch *launch;
  vcuda_type bias_type;
  int64_t batch, heads, queries, keys;
  bool one_batch, one_head; /* of the bias, for all */
  const void *bias;         /* NULL: there is none */
  const void *lengths;      /* NULL: all keys */
  bool causal;
  int64_t before; /* keys before the first query */
} scores;

static int64_t bias_row(const scores *s, int64_t b, int64_t head, int64_t query) {
  return (((s->one_batch ? 0 : b) * (s->one_head ? 1 : s->heads) + (s->one_head ? 0 : head)) * s->queries + query) * s->keys;
}

static bool read_optional(scores *s, int bias, int lengths) {
  int64_t rows = (s->one_batch ? 1 : s->batch) * (s->one_head ? 1 : s->heads) * s->queries;
  s->bias_type = vcuda_type_of(s->launch, bias);
  if (vcuda_address(s->launch, bias) != NULL) {
    s->bias = vcuda_input(s->launch, bias, rows * s->keys);
    if (s->bias == NULL) return false;
  }
  if (vcuda_address(s->launch, lengths) == NULL) return true;
  s->lengths = vcuda_input(s->launch, lengths, s->batch);
  return s->lengths != NULL;
}

/* The end of the keys that a query sees. */
static int64_t end_of(const scores *s, int64_t b, int64_t query) {
  int64_t keys = s->keys;
  if (s->lengths != NULL) {
    int64_t length = vcuda_load(VCUDA_INT32, s->lengths, b).whole;
    keys = length < 0 ? 0 : length < keys ? length : keys;
  }
  int64_t end = s->before + query + 1;
  return !s->causal || end > keys ? keys : end < 0 ? 0 : end;
}

/* (out, bias, lengths, batch, heads, queries, keys, size, causal, from the top left, bias's batch, its heads, bias of what is
 * masked): a row without any key is 0. */
static void run_clear_rows(const vcuda_launch *launch) {
  scores s = {.launch = launch, .batch = vcuda_integer(launch, 3), .heads = vcuda_integer(launch, 4)};
  s.queries = vcuda_integer(launch, 5);
  s.keys = vcuda_integer(launch, 6);
  s.causal = vcuda_integer(launch, 8) != 0;
  s.one_batch = vcuda_integer(launch, 10) == 1;
  s.one_head = vcuda_integer(launch, 11) == 1;
  int64_t size = vcuda_integer(launch, 7), rows = s.batch * s.heads * s.queries;
  void *out = vcuda_output(launch, 0, rows * size);
  if (out == NULL || !read_optional(&s, 1, 2)) return;
  for (int64_t row = 0; row < rows; row++) {
    int64_t query = row % s.queries, head = row / s.queries % s.heads, b = row / s.queries / s.heads;
    int64_t keys = s.lengths == NULL ? s.keys : vcuda_load(VCUDA_INT32, s.lengths, b).whole;
    s.before = vcuda_integer(launch, 9) != 0 ? 0 : keys - s.queries;
    int64_t end = end_of(&s, b, query), start = bias_row(&s, b, head, query);
    bool seen = end > 0 && s.bias == NULL;
    for (int64_t key = 0; !seen && s.bias != NULL && key < end; key++) {
      seen = vcuda_load_real(s.bias_type, s.bias, start + key) > vcuda_real(launch, 12);
    }
    for (int64_t i = 0; !seen && i < size; i++) {
      vcuda_store_real(vcuda_type_of(launch, 0), out, ((b * s.queries + query) * s.heads + head) * size + i, 0);
    }
  }
}

/* One row of the unfused softmax. */
static double score_at(const scores *s, const void *in, int64_t at, int64_t bias) {
  double scale = vcuda_real(s->launch, 12), cap = vcuda_real(s->launch, 13);
  double score = vcuda_load_real(VCUDA_FLOAT32, in, at) * scale;
  if (cap > 0) score = cap * tanh(score / cap);
  return s->bias == NULL ? score : score + vcuda_load_real(s->bias_type, s->bias, bias);
}

typedef struct range {
  int64_t first, end;
} range;

static void softmax_row(const scores *s, const void *in, void *out, int64_t row, range seen) {
  int64_t query = row % s->queries, head = row / s->queries % s->heads, b = row / s->queries / s->heads;
  int64_t bias = s->bias == NULL ? 0 : bias_row(s, b, head, query);
  double greatest = -INFINITY, sum = 0;
  for (int64_t i = seen.first; i < seen.end; i++) greatest = fmax(greatest, score_at(s, in, row * s->keys + i, bias + i));
  bool none = isinf(greatest) != 0;
  for (int64_t i = seen.first; !none && i < seen.end; i++) sum += exp(score_at(s, in, row * s->keys + i, bias + i) - greatest);
  for (int64_t i = 0; i < s->keys; i++) {
    bool is_seen = !none && i >= seen.first && i < seen.end;
    double weight = is_seen ? exp(score_at(s, in, row * s->keys + i, bias + i) - greatest) / sum : 0;
    vcuda_store_real(vcuda_type_of(s->launch, 15), out, row * s->keys + i, weight);
  }
}

/* (queries, keys, heads, scores, bias, has bias, for all batches, for all heads, lengths, causal, window, keys before, scale, cap,
 * unused, out); a block for each query and head, and sequence. With lengths the last query sees the last key. */
static void run_unfused(const vcuda_launch *launch) {
  scores s = {.launch = launch,
              .queries = vcuda_integer(launch, 0),
              .keys = vcuda_integer(launch, 1),
              .heads = vcuda_integer(launch, 2)};
  s.batch = launch->grid[1];
  s.one_batch = vcuda_integer(launch, 6) != 0;
  s.one_head = vcuda_integer(launch, 7) != 0;
  s.causal = vcuda_integer(launch, 9) != 0;
  int64_t rows = s.batch * s.heads * s.queries, window = vcuda_integer(launch, 10);
  const void *in = vcuda_input(launch, 3, rows * s.keys);
  void *out = vcuda_output(launch, 15, rows * s.keys);
  if (in == NULL || out == NULL || !read_optional(&s, 4, 8)) return;
  for (int64_t row = 0; row < rows; row++) {
    int64_t query = row % s.queries, b = row / s.queries / s.heads;
    s.before = s.lengths == NULL ? vcuda_integer(launch, 11) : vcuda_load(VCUDA_INT32, s.lengths, b).whole - s.queries;
    range seen = {.end = end_of(&s, b, query)};
    if (window >= 0 && s.before + query - window > 0) seen.first = s.before + query - window;
    softmax_row(&s, in, out, row, seen);
  }
}

const vcuda_form vcuda_masks_forms[] = {
    {"ConvertBoolMaskToAttentionBiasKernel", "ppnv", run_bias_of_mask, NULL},
    {"ConvertNonpadKvSeqlenToFlashSeqlensKKernel", "ppnn", run_lengths, NULL},
    {"FillInt32Kernel", "pnn", run_fill, NULL},
    {"ZeroOutputForFullyMaskedBatchesKernel", "ppnn", run_clear_batches, NULL},
    {"ZeroFullyMaskedRowsKernel", "pppnnnnnnnnnv", run_clear_rows, NULL},
    {"UnfusedSoftmaxKernel", "nnnppnnnpnnnvvvp", run_unfused, NULL},
    {.name = NULL},
};
