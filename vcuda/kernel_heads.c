/* Heads of queries, keys and values: moved to where attention wants them, some with a bias, and appended to those of the past. */
#include "kernel.h"

#include <string.h>

/* Elements may be groups of numbers, as in float2: they are moved as bytes. */
typedef struct tensor {
  int64_t matrices, batch, heads, tokens, size; /* `size` elements of a head */
  bool tokens_first;                            /* before the batch, instead of after it */
} tensor;

static tensor tensor_of(const vcuda_launch *launch, int64_t size) {
  return (tensor){.matrices = launch->grid[2],
                  .batch = launch->grid[1],
                  .heads = launch->block[1],
                  .tokens = launch->grid[0],
                  .size = size};
}

/* The head among those of a tensor [batch][tokens][matrices of `all`][heads], or with tokens first. */
static int64_t joined(const tensor *t, int64_t all, int64_t head) {
  int64_t token = head % t->tokens, n = head / t->tokens % t->heads, b = head / t->tokens / t->heads % t->batch;
  int64_t m = head / t->tokens / t->heads / t->batch;
  return ((t->tokens_first ? token * t->batch + b : b * t->tokens + token) * all + m) * t->heads + n;
}

/* [batch][tokens][matrices][heads] -> [matrices][batch][heads][tokens]: (size, tokens first, in, out, matrices in `in`) */
static void run_split(const vcuda_launch *launch) {
  tensor t = tensor_of(launch, vcuda_integer(launch, 0));
  t.tokens_first = vcuda_integer(launch, 1) != 0;
  int64_t all = vcuda_integer(launch, 4), heads = t.matrices * t.batch * t.heads * t.tokens;
  const char *in = vcuda_input(launch, 2, t.batch * t.tokens * all * t.heads * t.size);
  char *out = vcuda_output(launch, 3, heads * t.size);
  size_t bytes = (size_t)t.size * vcuda_size_of(launch, 2);
  for (int64_t head = 0; in != NULL && out != NULL && head < heads; head++) {
    memcpy(out + (size_t)head * bytes, in + (size_t)joined(&t, all, head) * bytes, bytes);
  }
}

/* [batch][heads][tokens] -> [batch][tokens][heads]: (size, tokens first, in, out) */
static void run_join(const vcuda_launch *launch) {
  tensor t = tensor_of(launch, vcuda_integer(launch, 0));
  t.tokens_first = vcuda_integer(launch, 1) != 0;
  int64_t heads = t.batch * t.heads * t.tokens;
  const char *in = vcuda_input(launch, 2, heads * t.size);
  char *out = vcuda_output(launch, 3, heads * t.size);
  size_t bytes = (size_t)t.size * vcuda_size_of(launch, 2);
  for (int64_t head = 0; in != NULL && out != NULL && head < heads; head++) {
    memcpy(out + (size_t)joined(&t, 1, head) * bytes, in + (size_t)head * bytes, bytes);
  }
}

/* ---- new keys and values after those of the past ---- */

typedef struct concat {
  const vcuda_launch *launch;
  int64_t batch, heads, size, past_rows, new_rows, rows; /* rows of buffers; `rows` of the result */
  bool rows_first;                                       /* of past and present: rows before heads */
  const int32_t *past;                                   /* of each sequence */
} concat;

static int64_t row_at(const concat *c, int64_t rows, int64_t b, int64_t head, int64_t row) {
  return c->rows_first ? (b * rows + row) * c->heads + head : (b * c->heads + head) * rows + row;
}

static void append(const concat *c, int past, int new, int present) {
  const vcuda_launch *launch = c->launch;
  int64_t heads = c->batch * c->heads;
  size_t bytes = (size_t)c->size * vcuda_size_of(launch, new);
  const char *before = vcuda_input(launch, past, heads * c->past_rows * c->size);
  const char *after = vcuda_input(launch, new, heads * c->new_rows * c->size);
  char *out = vcuda_output(launch, present, heads * c->rows * c->size);
  if (before == NULL || after == NULL || out == NULL) return;
  for (int64_t i = 0; i < heads * c->rows; i++) {
    int64_t row = i % c->rows, head = i / c->rows % c->heads, b = i / c->rows / c->heads, from = row - c->past[b];
    char *to = out + (size_t)row_at(c, c->rows, b, head, row) * bytes;
    if (from < 0) {
      memcpy(to, before + (size_t)row_at(c, c->past_rows, b, head, row) * bytes, bytes);
    } else if (from < c->new_rows) {
      memcpy(to, after + (size_t)((b * c->new_rows + from) * c->heads + head) * bytes, bytes);
    }
  }
}

/* The first parameter after the sizes is `first`: (past keys, past values, new keys, new values, present keys, present values, past's
 * lengths, lengths, past only, rows first, cosines, sines, turned, positions, neighbours) */
static void append_both(concat *c, int first) {
  const vcuda_launch *launch = c->launch;
  c->rows_first = vcuda_integer(launch, first + 9) != 0;
  if (vcuda_integer(launch, first + 8) != 0 || vcuda_address(launch, first + 10) != NULL) {
    vcuda_fail(719, "ConcatNewToPastKV of the past alone, or with rotary embedding: not known here");
    return;
  }
  c->past = vcuda_input(launch, first + 6, c->batch);
  for (int64_t b = 0; c->past != NULL && b < c->batch; b++) {
    if (c->past[b] < 0 || c->past[b] > c->past_rows) {
      vcuda_fail(719, "ConcatNewToPastKV: %d tokens of the past: expected 0 to %lld", c->past[b], (long long)c->past_rows);
      return;
    }
  }
  if (c->past == NULL) return;
  append(c, first, first + 2, first + 4);
  append(c, first + 1, first + 3, first + 5);
}

/* (new rows, past's rows, ...); a block for each row, sequence, and keys or values */
static void run_append(const vcuda_launch *launch) {
  concat c = {
      .launch = launch, .batch = launch->grid[1], .heads = launch->block[1], .size = launch->block[0], .rows = launch->grid[0]};
  c.new_rows = vcuda_integer(launch, 0);
  c.past_rows = vcuda_integer(launch, 1);
  append_both(&c, 2);
}

/* (new rows, past's rows, size, heads, ...) */
static void run_append_large(const vcuda_launch *launch) {
  concat c = {.launch = launch, .batch = launch->grid[2] / 2, .rows = launch->grid[1]};
  c.new_rows = vcuda_integer(launch, 0);
  c.past_rows = vcuda_integer(launch, 1);
  c.size = vcuda_integer(launch, 2);
  c.heads = vcuda_integer(launch, 3);
  append_both(&c, 4);
}

const vcuda_form vcuda_heads_forms[] = {
    {"TransposeQKV", "nnppn", run_split, NULL},
    {"TransposeQKVLarge", "nnppn", run_split, NULL},
    {"TransposeCtx", "nnpp", run_join, NULL},
    {"TransposeCtxLarge", "nnpp", run_join, NULL},
    {"ConcatNewToPastKVFused", "nnppppppppnnppnpn", run_append, NULL},
    {"ConcatNewToPastKVFusedLarge", "nnnnppppppppnnppnpn", run_append_large, NULL},
    {.name = NULL},
};
