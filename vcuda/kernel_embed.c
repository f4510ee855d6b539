/* EmbedLayerNormalization: the normalised sum of the embeddings of a word, its position and its segment. */
#include "kernel.h"

#include <math.h>

enum { MOST_ELEMENTS = 16384 };

typedef struct embed {
  const vcuda_launch *launch;
  vcuda_type type;
  int64_t batch, tokens, size;
  const int32_t *words, *segments, *positions; /* segments NULL: none; positions NULL: the index of the token */
  bool one_row;                                /* of positions, for all sequences */
  const void *beta, *gamma;
  void *out, *sum; /* sum NULL: not requested */
} embed;

/* Adds a row of a table. */
static bool add_row(const embed *e, int table, int64_t row, double *values) {
  const char *start = vcuda_address(e->launch, table);
  size_t bytes = (size_t)e->size * vcuda_type_size(e->type);
  if (row < 0) {
    vcuda_fail(719, "EmbedLayerNormalization: row %lld of a table", (long long)row);
    return false;
  }
  const void *data = vcuda_reads(start + (size_t)row * bytes, bytes);
  for (int64_t i = 0; data != NULL && i < e->size; i++) values[i] += vcuda_load_real(e->type, data, i);
  return data != NULL;
}

static bool add_rows(const embed *e, int64_t token, double *values) {
  int64_t at = token % e->tokens, position = e->positions == NULL ? at : e->positions[e->one_row ? at : token];
  for (int64_t i = 0; i < e->size; i++) values[i] = 0;
  if (!add_row(e, 5, e->words[token], values) || !add_row(e, 6, position, values)) return false;
  return vcuda_address(e->launch, 7) == NULL || add_row(e, 7, e->segments == NULL ? 0 : e->segments[token], values);
}

static void normalise(const embed *e, int64_t token, const double *values) {
  double mean = 0, square = 0;
  for (int64_t i = 0; i < e->size; i++) mean += values[i] / (double)e->size;
  for (int64_t i = 0; i < e->size; i++) square += (values[i] - mean) * (values[i] - mean) / (double)e->size;
  double factor = 1 / sqrt(square + vcuda_real(e->launch, 8));
  for (int64_t i = 0; i < e->size; i++) {
    double value = (values[i] - mean) * factor * vcuda_load_real(e->type, e->gamma, i) + vcuda_load_real(e->type, e->beta, i);
    vcuda_store_real(e->type, e->out, token * e->size + i, value);
    if (e->sum != NULL) vcuda_store_real(e->type, e->sum, token * e->size + i, values[i]);
  }
}

static bool read_ids(embed *e) {
  const vcuda_launch *launch = e->launch;
  int64_t count = e->batch * e->tokens;
  e->words = vcuda_input(launch, 1, count);
  if (vcuda_address(launch, 2) != NULL) e->segments = vcuda_input(launch, 2, count);
  if (vcuda_address(launch, 11) != NULL) e->positions = vcuda_input(launch, 11, e->one_row ? e->tokens : count);
  return e->words != NULL && (e->segments != NULL || vcuda_address(launch, 2) == NULL) &&
         (e->positions != NULL || vcuda_address(launch, 11) == NULL);
}

/* (size, words, segments, beta, gamma, tables of words, positions and segments, epsilon, out, sum, positions, one row of them); a
 * block for each token and sequence. */
static void run_embed(const vcuda_launch *launch) {
  double values[MOST_ELEMENTS];
  embed e = {.launch = launch, .type = vcuda_type_of(launch, 9), .tokens = launch->grid[0], .batch = launch->grid[1]};
  e.size = vcuda_integer(launch, 0);
  e.one_row = vcuda_integer(launch, 12) != 0;
  int64_t count = e.batch * e.tokens;
  e.beta = vcuda_input(launch, 3, e.size);
  e.gamma = vcuda_input(launch, 4, e.size);
  e.out = vcuda_output(launch, 9, count * e.size);
  bool wants_sum = vcuda_address(launch, 10) != NULL;
  if (wants_sum) e.sum = vcuda_output(launch, 10, count * e.size);
  if (e.beta == NULL || e.gamma == NULL || e.out == NULL || (wants_sum && e.sum == NULL) || !read_ids(&e)) return;
  if (e.size > MOST_ELEMENTS) {
    vcuda_fail(719, "EmbedLayerNormalization: rows of %lld elements: expected at most %d", (long long)e.size, MOST_ELEMENTS);
    return;
  }
  for (int64_t token = 0; token < count && add_rows(&e, token, values); token++) normalise(&e, token, values);
}

const vcuda_form vcuda_embed_forms[] = {
    {"EmbedLayerNormKernel", "npppppppvpppn", run_embed, NULL},
    {.name = NULL},
};
