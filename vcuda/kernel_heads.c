/* Heads of queries, keys and values: transposed for attention, some with a bias, and appended to past ones. */
#include "kernel.h"

#include <string.h>

/* Elements may be vectors of numbers such as float2; they are moved as bytes. */
typedef struct tensor {
  int64_t matrices, batch, heads, tokens, size; /* `size` elements of a head */
  bool tokens_first;                            /* tokens before the batch instead of after it */
} tensor;

static tensor tensor_of(const vcuda_launch *launch, int64_t size) {
  return (tensor){.matrices = launch->grid[2],
                  .batch = launch->grid[1],
                  .heads = launch->block[1],
                  .tokens = launch->grid[0],
                  .size = size};
}

/* The index of the head in a tensor [batch][tokens][`all` matrices][heads], or with tokens first. */
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

/* ---- the same with a bias; an element is one, two or four numbers ---- */

typedef struct biased {
  const vcuda_launch *launch;
  tensor shape;
  vcuda_type type;
  int64_t numbers;  /* of an element */
  int64_t matrices; /* matrices of the input between tokens and heads; 0: the matrices are the first dim */
  int bias, out;    /* indices of parameters; the input precedes the bias */
} biased;

static const struct {
  const char *name;
  vcuda_type type;
  int numbers;
} elements[] = {
    {"float", VCUDA_FLOAT32, 1},  {"float2", VCUDA_FLOAT32, 2},  {"float4", VCUDA_FLOAT32, 4},
    {"__half", VCUDA_FLOAT16, 1}, {"__half2", VCUDA_FLOAT16, 2}, {"onnxruntime::cuda::Half4", VCUDA_FLOAT16, 4},
};

static bool read_element(const vcuda_kernel *kernel, biased *b) {
  for (size_t i = 0; i < sizeof elements / sizeof *elements; i++) {
    if (strcmp(kernel->types[0].text, elements[i].name) == 0) {
      *b = (biased){.type = elements[i].type, .numbers = elements[i].numbers};
      return true;
    }
  }
  return false;
}

static bool has_known_element(vcuda_kernel *kernel) {
  biased b;
  return read_element(kernel, &b);
}

/* The index in the input of head `head` of the result [matrices][batch][heads][tokens]. */
static int64_t source_of(const biased *b, int64_t head) {
  const tensor *t = &b->shape;
  if (b->matrices != 0) return joined(t, b->matrices, head);
  int64_t token = head % t->tokens, n = head / t->tokens % t->heads, sequence = head / t->tokens / t->heads;
  return (sequence * t->tokens + token) * t->heads + n;
}

/* `in_order`: the result is [matrices][batch][tokens][heads]. */
static void add_bias(const biased *b, bool in_order) {
  const tensor *t = &b->shape;
  const vcuda_launch *launch = b->launch;
  int64_t all = b->matrices == 0 ? t->matrices : b->matrices, size = t->size * b->numbers;
  int64_t heads = t->matrices * t->batch * t->heads * t->tokens, each = t->batch * t->heads * t->tokens;
  const void *in = vcuda_input(launch, b->bias - 1, t->batch * t->tokens * all * t->heads * t->size), *bias = NULL;
  bool has_bias = vcuda_address(launch, b->bias) != NULL;
  if (has_bias) bias = vcuda_input(launch, b->bias, t->matrices * t->heads * t->size);
  void *out = vcuda_output(launch, b->out, heads * t->size);
  for (int64_t head = 0; in != NULL && out != NULL && (!has_bias || bias != NULL) && head < heads; head++) {
    int64_t token = head % t->tokens, n = head / t->tokens % t->heads, m = head / each;
    int64_t to = in_order ? (head / t->tokens / t->heads * t->tokens + token) * t->heads + n : head;
    for (int64_t i = 0; i < size; i++) {
      double value = vcuda_load_real(b->type, in, source_of(b, head) * size + i);
      if (bias != NULL) value += vcuda_load_real(b->type, bias, (m * t->heads + n) * size + i);
      vcuda_store_real(b->type, out, to * size + i, value);
    }
  }
}

static biased biased_of(const vcuda_launch *launch, int64_t size) {
  biased b = {0};
  (void)read_element(launch->kernel, &b);
  b.launch = launch;
  b.shape = tensor_of(launch, size);
  return b;
}

/* [matrices][batch][tokens][heads] -> [matrices][batch][heads][tokens]: ([size, ]in, bias, out) */
static void run_bias_apart(const vcuda_launch *launch) {
  bool is_large = launch->kernel->argument_count == 4;
  biased b = biased_of(launch, is_large ? vcuda_integer(launch, 0) : launch->block[0]);
  b.bias = is_large ? 2 : 1;
  b.out = b.bias + 1;
  add_bias(&b, false);
}

/* [batch][tokens][matrices][heads] -> [matrices][batch][heads][tokens]: (matrices, in, bias, out, the same in the input's order), or
 * (size, in, bias, out, the same, matrices) */
static void run_bias_packed(const vcuda_launch *launch) {
  bool is_large = launch->kernel->argument_count == 6;
  biased b = biased_of(launch, is_large ? vcuda_integer(launch, 0) : launch->block[0]);
  b.matrices = vcuda_integer(launch, is_large ? 5 : 0);
  b.bias = 2;
  b.out = 3;
  if (vcuda_address(launch, 4) != NULL) {
    vcuda_fail(719, "AddBiasTransposeQKV with two results: not known here");
  } else {
    add_bias(&b, false);
  }
}

/* [batch][tokens][matrices][heads] -> [matrices][batch][tokens][heads]: (matrices, in, bias, out), or (size, in, bias, out,
 * matrices) */
static void run_bias_ordered(const vcuda_launch *launch) {
  bool is_large = launch->kernel->argument_count == 5;
  biased b = biased_of(launch, is_large ? vcuda_integer(launch, 0) : launch->block[0]);
  b.matrices = vcuda_integer(launch, is_large ? 4 : 0);
  b.bias = 2;
  b.out = 3;
  add_bias(&b, true);
}

/* [batch][tokens][matrices][heads] -> [batch][tokens][heads][matrices]: ([size, ]in, bias, out) */
static void run_bias_interleaved(const vcuda_launch *launch) {
  bool is_large = launch->kernel->argument_count == 4;
  biased b = biased_of(launch, is_large ? vcuda_integer(launch, 0) : launch->block[0]);
  const tensor *t = &b.shape;
  int first = is_large ? 1 : 0;
  int64_t size = t->size * b.numbers, heads = t->batch * t->tokens * t->matrices * t->heads;
  const void *in = vcuda_input(launch, first, heads * t->size), *bias = NULL;
  bool has_bias = vcuda_address(launch, first + 1) != NULL;
  if (has_bias) bias = vcuda_input(launch, first + 1, t->matrices * t->heads * t->size);
  void *out = vcuda_output(launch, first + 2, heads * t->size);
  for (int64_t i = 0; in != NULL && out != NULL && (!has_bias || bias != NULL) && i < heads * size; i++) {
    int64_t head = i / size, n = head % t->heads, m = head / t->heads % t->matrices, token = head / t->heads / t->matrices;
    double value = vcuda_load_real(b.type, in, i);
    if (bias != NULL) value += vcuda_load_real(b.type, bias, (m * t->heads + n) * size + i % size);
    vcuda_store_real(b.type, out, ((token * t->heads + n) * t->matrices + m) * size + i % size, value);
  }
}

/* ---- new keys and values appended to past ones ---- */

/* [matrices][batch][heads][rows]: (new rows, past, new, out) or (new rows, size, past, new, out) */
static void run_concat(const vcuda_launch *launch) {
  bool is_large = launch->kernel->argument_count == 5;
  int64_t new_rows = vcuda_integer(launch, 0), size = is_large ? vcuda_integer(launch, 1) : launch->block[0];
  int64_t rows = launch->grid[0], heads = (int64_t)launch->block[1] * launch->grid[1] * launch->grid[2],
          past_rows = rows - new_rows;
  int first = is_large ? 2 : 1;
  size_t bytes = (size_t)size * vcuda_size_of(launch, first);
  const char *past = vcuda_input(launch, first, heads * past_rows * size);
  const char *new = vcuda_input(launch, first + 1, heads * new_rows * size);
  char *out = vcuda_output(launch, first + 2, heads * rows * size);
  for (int64_t i = 0; past != NULL && new != NULL &&out != NULL &&i < heads *rows; i++) {
    int64_t row = i % rows, head = i / rows;
    const char *from = row < past_rows ? past + (size_t)(head * past_rows + row) * bytes
                                       : new + (size_t)(head * new_rows + row - past_rows) * bytes;
    memcpy(out + (size_t)i * bytes, from, bytes);
  }
}

typedef struct concat {
  const vcuda_launch *launch;
  int64_t batch, heads, size, past_rows, new_rows, rows; /* past_rows, new_rows: rows of the buffers; rows: of the result */
  bool rows_first;                                       /* of past and present: rows before heads */
  const int32_t *past;                                   /* past tokens of each sequence */
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

/* (new rows, past's rows, ...); a block for each row, sequence, and keys or values. */
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
    {"AddBiasTranspose", "ppp", run_bias_apart, has_known_element},
    {"AddBiasTransposeLarge", "nppp", run_bias_apart, has_known_element},
    {"AddBiasTransposeQKV", "npppp", run_bias_packed, has_known_element},
    {"AddBiasTransposeQKVLarge", "nppppn", run_bias_packed, has_known_element},
    {"AddBiasTransposeCutlass", "nppp", run_bias_ordered, has_known_element},
    {"AddBiasTransposeCutlassLarge", "npppn", run_bias_ordered, has_known_element},
    {"AddBiasTransposeTrt", "ppp", run_bias_interleaved, has_known_element},
    {"AddBiasTransposeTrtLarge", "nppp", run_bias_interleaved, has_known_element},
    {"ConcatTensorToTensor", "nppp", run_concat, NULL},
    {"ConcatTensorToTensorLarge", "nnppp", run_concat, NULL},
    {"ConcatNewToPastKVFused", "nnppppppppnnppnpn", run_append, NULL},
    {"ConcatNewToPastKVFusedLarge", "nnnnppppppppnnppnpn", run_append_large, NULL},
    {.name = NULL},
};
