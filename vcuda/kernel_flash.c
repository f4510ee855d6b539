/* Attention as one kernel: flash attention, whole or split over the keys, and XQA, which decodes one token. */
#include "kernel_attention.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* ---- flash attention: ORT's parameters, up to the last member that is read here ---- */

typedef struct flash_input {
  const void *query;
  void *key, *value;
  int64_t query_batch, key_batch, value_batch, query_row, key_row, value_row, query_head, key_head, value_head;
  int32_t heads, groups, ratio;
} flash_input;

typedef struct flash {
  flash_input in;
  void *out, *part_out;
  int64_t out_batch, out_row, out_head;
  void *probabilities;
  void *sums, *part_sums;
  int32_t batch, queries, keys, new_keys, size, queries_rounded, keys_rounded, size_rounded, turned, total;
  float scale, scale_log2; /* with a cap: scale is the cap */
  float cap;               /* 0, or the scale over the cap */
  const int32_t *query_starts, *lengths, *skipped, *used;
  const void *new_key, *new_value;
  int64_t new_key_batch, new_value_batch, new_key_row, new_value_row, new_key_head, new_value_head;
  const void *cosines, *sines;
  const int32_t *cache_index, *pages;
  int64_t pages_batch;
  int32_t page_rows, window_left, window_right;
  bool is_bfloat, is_causal, are_lengths_summed, turns_neighbours;
  const void *sinks;
  bool has_sink;
  int32_t splits;
} flash;

_Static_assert(offsetof(flash, out) == 112 && offsetof(flash, batch) == 176 && offsetof(flash, lengths) == 240, "as in ORT");
_Static_assert(offsetof(flash, new_key_batch) == 280 && offsetof(flash, window_left) == 372, "as in ORT");
_Static_assert(offsetof(flash, splits) == 396 && sizeof(flash) == 400, "as in ORT");

/* One launch. `appends`: it first appends the new keys and values to the cache. */
typedef struct flashing {
  flash f;
  vcuda_type type;
  bool is_causal, is_local, appends, is_split;
  int64_t block; /* keys in a block; a split consists of whole blocks */
  int64_t splits;
  const int32_t *lengths;
  vcuda_turn turn;
  const void *sinks;
} flashing;

static int64_t cached(const flashing *l, int64_t b) {
  return l->lengths == NULL ? l->f.keys : l->lengths[b];
}

static int64_t all_keys(const flashing *l, int64_t b) {
  return cached(l, b) + (l->appends ? l->f.new_keys : 0);
}

static const void *at(const void *data, vcuda_type type, int64_t element) {
  return (const char *)data + element * (int64_t)vcuda_type_size(type);
}

static const char *unknown_of(const flash *f) {
  return f->query_starts != NULL                              ? "sequences of different lengths without padding"
         : f->skipped != NULL || f->used != NULL              ? "lengths of used keys"
         : f->pages != NULL || f->cache_index != NULL         ? "a paged cache"
         : f->lengths != NULL && f->are_lengths_summed        ? "summed lengths"
         : f->size > VCUDA_MOST_ELEMENTS                      ? "a head of more than 1024 elements"
         : f->splits > 1 && (f->has_sink || f->sinks != NULL) ? "a sink, and keys that are split"
                                                              : NULL;
}

static bool read_lengths(flashing *l) {
  const flash *f = &l->f;
  if (f->lengths != NULL) {
    l->lengths = vcuda_reads(f->lengths, (size_t)f->batch * sizeof *f->lengths);
    if (l->lengths == NULL) return false;
  }
  for (int64_t b = 0; b < f->batch; b++) {
    if (cached(l, b) < 0 || all_keys(l, b) > f->keys) {
      vcuda_fail(719, "flash attention: %lld keys: expected at most %d, the cache's rows", (long long)all_keys(l, b), f->keys);
      return false;
    }
  }
  return true;
}

/* Read the angles of all positions that are used. */
static bool read_angles(flashing *l) {
  const flash *f = &l->f;
  int64_t end = 0;
  l->turn = (vcuda_turn){.type = l->type, .turned = l->appends ? f->turned : 0, .neighbours = f->turns_neighbours};
  if (l->turn.turned == 0) return true;
  for (int64_t b = 0; b < f->batch; b++) {
    int64_t more = f->new_keys > f->queries ? f->new_keys : f->queries;
    end = cached(l, b) + more > end ? cached(l, b) + more : end;
  }
  l->turn.cosines = vcuda_read_rows(f->cosines, l->type, 0, end, l->turn.turned / 2, l->turn.turned / 2);
  l->turn.sines = vcuda_read_rows(f->sines, l->type, 0, end, l->turn.turned / 2, l->turn.turned / 2);
  return l->turn.cosines != NULL && l->turn.sines != NULL;
}

/* The destination of a head of new keys or values. */
typedef struct flash_target {
  char *head;
  int64_t stride;
  bool turns;
} flash_target;

static bool append_rows(const flashing *l, int64_t b, const vcuda_rows *from, const flash_target *to) {
  double values[VCUDA_MOST_ELEMENTS];
  int64_t width = (int64_t)vcuda_type_size(l->type);
  vcuda_rows rows = *from;
  rows.data = vcuda_read_rows(from->data, l->type, 0, l->f.new_keys, from->stride, from->size);
  for (int64_t i = 0; rows.data != NULL && i < l->f.new_keys; i++) {
    int64_t row = cached(l, b) + i;
    vcuda_read_row(&rows, i, values);
    if (to->turns && l->turn.turned != 0) vcuda_turn_row(&l->turn, row, values);
    void *target = vcuda_writes(to->head + row * to->stride * width, (size_t)(rows.size * width));
    for (int64_t j = 0; target != NULL && j < rows.size; j++) vcuda_store_real(l->type, target, j, values[j]);
    if (target == NULL) return false;
  }
  return rows.data != NULL;
}

static bool append_head(const flashing *l, int64_t b, int64_t group) {
  const flash *f = &l->f;
  int64_t width = (int64_t)vcuda_type_size(l->type);
  vcuda_rows key = {l->type, at(f->new_key, l->type, b * f->new_key_batch + group * f->new_key_head), f->new_key_row, f->size};
  vcuda_rows value = {l->type, at(f->new_value, l->type, b * f->new_value_batch + group * f->new_value_head), f->new_value_row,
                      f->size};
  flash_target keys = {(char *)f->in.key + (b * f->in.key_batch + group * f->in.key_head) * width, f->in.key_row, true};
  flash_target values = {(char *)f->in.value + (b * f->in.value_batch + group * f->in.value_head) * width, f->in.value_row,
                         false};
  return append_rows(l, b, &key, &keys) && append_rows(l, b, &value, &values);
}

static bool append_all(const flashing *l) {
  for (int64_t i = 0; i < (int64_t)l->f.batch * l->f.in.groups; i++) {
    if (!append_head(l, i / l->f.in.groups, i % l->f.in.groups)) return false;
  }
  return true;
}

/* One head of queries, and the destination of its results. */
typedef struct flash_head {
  vcuda_rows queries;
  vcuda_view view; /* its keys and values; the range is set for each query and split */
  int64_t batch, head;
  char *out, *sums;
} flash_head;

static void set_range(const flashing *l, flash_head *h, int64_t query, int64_t split) {
  int64_t keys = all_keys(l, h->batch), last = query + keys - l->f.queries, first = 0, end = keys;
  if (l->is_causal || l->is_local) end = last + 1 + (l->is_local ? l->f.window_right : 0);
  if (l->is_local && l->f.window_left >= 0) first = last - l->f.window_left;
  int64_t blocks = (keys + l->block - 1) / l->block, each = (blocks + l->splits - 1) / l->splits * l->block;
  int64_t split_first = l->is_split ? split * each : 0, split_end = l->is_split ? split_first + each : keys;
  h->view.first = first > split_first ? first : split_first;
  h->view.end = end < split_end ? end : split_end;
  h->view.end = h->view.end < keys ? h->view.end : keys;
}

static void attend_query(const flashing *l, flash_head *h, int64_t query, int64_t split) {
  const flash *f = &l->f;
  double values[VCUDA_MOST_ELEMENTS], mean[VCUDA_MOST_ELEMENTS];
  vcuda_read_row(&h->queries, query, values);
  int64_t position = cached(l, h->batch) + (l->is_causal || l->is_local ? query : 0);
  if (l->turn.turned != 0) vcuda_turn_row(&l->turn, position, values);
  set_range(l, h, query, split);
  double sum = vcuda_attend(&h->view, values, mean);
  int64_t line = ((split * f->batch + h->batch) * f->in.heads + h->head) * f->queries + query;
  int64_t start = l->is_split ? line * f->size_rounded : h->batch * f->out_batch + h->head * f->out_head + query * f->out_row;
  for (int64_t i = 0; i < f->size; i++) vcuda_store_real(l->is_split ? VCUDA_FLOAT32 : l->type, h->out, start + i, mean[i]);
  vcuda_store_real(VCUDA_FLOAT32, h->sums, line, isinf(sum) && !l->is_split ? (double)INFINITY : sum);
}

static bool attend_head(const flashing *l, int64_t b, int64_t head, const flash_head *results) {
  const flash *f = &l->f;
  int64_t group = head / f->in.ratio, keys = all_keys(l, b), size = f->size;
  int64_t first = l->is_local && f->window_left >= 0 ? keys - f->queries - f->window_left : 0;
  first = first < 0 ? 0 : first;
  flash_head h = {.batch = b, .head = head, .out = results->out, .sums = results->sums};
  vcuda_view *v = &h.view;
  h.queries =
      (vcuda_rows){l->type, at(f->in.query, l->type, b * f->in.query_batch + head * f->in.query_head), f->in.query_row, size};
  v->keys = (vcuda_rows){l->type, at(f->in.key, l->type, b * f->in.key_batch + group * f->in.key_head), f->in.key_row, size};
  v->values =
      (vcuda_rows){l->type, at(f->in.value, l->type, b * f->in.value_batch + group * f->in.value_head), f->in.value_row, size};
  h.queries.data = vcuda_read_rows(h.queries.data, l->type, 0, f->queries, h.queries.stride, size);
  v->keys.data = vcuda_read_rows(v->keys.data, l->type, first, keys, v->keys.stride, size);
  v->values.data = vcuda_read_rows(v->values.data, l->type, first, keys, v->values.stride, size);
  v->scale = f->cap == 0 ? (double)f->scale : (double)f->cap * (double)f->scale;
  v->cap = f->cap == 0 ? 0 : (double)f->scale;
  v->sink = l->sinks != NULL ? vcuda_load_real(l->type, l->sinks, head) : f->has_sink ? 0 : (double)-INFINITY;
  if (h.queries.data == NULL || v->keys.data == NULL || v->values.data == NULL) return false;
  for (int64_t i = 0; i < f->queries * l->splits; i++) attend_query(l, &h, i % f->queries, i / f->queries);
  return true;
}

static void attend_all(flashing *l) {
  const flash *f = &l->f;
  int64_t lines = l->splits * f->batch * f->in.heads * f->queries;
  if (lines == 0) return;
  int64_t last = (f->batch - 1) * f->out_batch + (f->in.heads - 1) * f->out_head + (f->queries - 1) * f->out_row + f->size;
  size_t bytes = l->is_split ? (size_t)(lines * f->size_rounded) * sizeof(float) : (size_t)last * vcuda_type_size(l->type);
  flash_head results = {.out = vcuda_writes(l->is_split ? f->part_out : f->out, bytes)};
  results.sums = vcuda_writes(l->is_split ? f->part_sums : f->sums, (size_t)lines * sizeof(float));
  if (f->sinks != NULL) l->sinks = vcuda_read_rows(f->sinks, l->type, 0, 1, 0, f->in.heads);
  if (results.out == NULL || results.sums == NULL || (f->sinks != NULL && l->sinks == NULL)) return;
  for (int64_t i = 0; i < (int64_t)f->batch * f->in.heads; i++) {
    if (!attend_head(l, i / f->in.heads, i % f->in.heads, &results)) return;
  }
}

static flashing read_launch(const vcuda_launch *launch) {
  flashing l = {.splits = 1, .block = 1};
  memcpy(&l.f, vcuda_argument(launch, 0), sizeof l.f);
  l.type = vcuda_names(launch->kernel, 0, "cutlass::half_t") ? VCUDA_FLOAT16 : VCUDA_BFLOAT16;
  l.is_causal = vcuda_flag(launch->kernel, 1);
  l.is_local = vcuda_flag(launch->kernel, 2);
  return l;
}

/* Another release may have another layout. */
static bool is_laid_out(const vcuda_launch *launch, const flash *f) {
  int64_t heads = (int64_t)launch->grid[2] * (f->splits > 1 ? 1 : launch->grid[1]);
  bool is_scaled = fabs((double)f->scale * 1.4426950408889634 - (double)f->scale_log2) <= 1e-5 * fabs((double)f->scale_log2);
  bool has_heads = f->in.ratio > 0 && f->in.heads == f->in.groups * f->in.ratio && (int64_t)f->batch * f->in.heads == heads;
  return is_scaled && has_heads && f->splits >= 0;
}

static void run(const vcuda_launch *launch, flashing *l) {
  const char *unknown = unknown_of(&l->f);
  if (!is_laid_out(launch, &l->f)) {
    vcuda_fail(719, "flash attention: its parameters are not those of ONNX Runtime 1.31");
  } else if (unknown != NULL) {
    vcuda_fail(719, "flash attention with %s: not known here", unknown);
  } else if (read_lengths(l) && read_angles(l) && (!l->appends || append_all(l))) {
    attend_all(l);
  }
}

/* <traits, causal, local, ...> */
static void run_flash(const vcuda_launch *launch) {
  flashing l = read_launch(launch);
  run(launch, &l);
}

/* <traits<head, queries, keys, ...>, causal, local, ..., split, append> */
static void run_split(const vcuda_launch *launch) {
  flashing l = read_launch(launch);
  const char *traits = launch->kernel->types[0].text, *comma = strchr(traits, ',');
  comma = comma == NULL ? NULL : strchr(comma + 1, ',');
  l.block = comma == NULL ? 0 : strtol(comma + 1, NULL, 10);
  l.is_split = vcuda_flag(launch->kernel, 7);
  l.appends = vcuda_flag(launch->kernel, 8) && l.f.new_key != NULL;
  if (l.is_split) l.splits = l.f.splits;
  if (l.block <= 0 || l.splits <= 0) {
    vcuda_fail(719, "flash attention: %lld splits of blocks of %lld keys", (long long)l.splits, (long long)l.block);
  } else {
    run(launch, &l);
  }
}

/* Combine the means of a query over all splits. */
static void combine(const flashing *l, int64_t line, const float *sums, const float *means, char *out) {
  const flash *f = &l->f;
  int64_t lines = (int64_t)f->batch * f->in.heads * f->queries, b = line / f->queries / f->in.heads;
  int64_t start = b * f->out_batch + line / f->queries % f->in.heads * f->out_head + line % f->queries * f->out_row;
  double greatest = -INFINITY, sum = 0;
  for (int64_t i = 0; i < f->splits; i++) greatest = fmax(greatest, (double)sums[i * lines + line]);
  for (int64_t i = 0; i < f->splits && !isinf(greatest); i++) sum += exp((double)sums[i * lines + line] - greatest);
  for (int64_t at_size = 0; at_size < f->size; at_size++) {
    double mean = 0;
    for (int64_t i = 0; i < f->splits && sum != 0; i++) {
      mean +=
          exp((double)sums[i * lines + line] - greatest) / sum * (double)means[(i * lines + line) * f->size_rounded + at_size];
    }
    vcuda_store_real(l->type, out, start + at_size, mean);
  }
}

static void run_combine(const vcuda_launch *launch) {
  flashing l = read_launch(launch);
  const flash *f = &l.f;
  int64_t lines = (int64_t)f->batch * f->in.heads * f->queries;
  if (lines == 0) return;
  int64_t last = (f->batch - 1) * f->out_batch + (f->in.heads - 1) * f->out_head + (f->queries - 1) * f->out_row + f->size;
  const float *sums = vcuda_reads(f->part_sums, (size_t)(lines * f->splits) * sizeof *sums);
  const float *means = vcuda_reads(f->part_out, (size_t)(lines * f->splits * f->size_rounded) * sizeof *means);
  char *out = vcuda_writes(f->out, (size_t)last * vcuda_type_size(l.type));
  for (int64_t line = 0; sums != NULL && means != NULL && out != NULL && line < lines; line++)
    combine(&l, line, sums, means, out);
}

static bool is_known_number(vcuda_kernel *kernel) {
  return vcuda_names(kernel, 0, "cutlass::half_t") || vcuda_names(kernel, 0, "cutlass::bfloat16_t");
}

/* Only without a bias that grows with the distance (ALiBi). */
static bool is_known_flash(vcuda_kernel *kernel) {
  return is_known_number(kernel) && kernel->type_count > 7 && !vcuda_flag(kernel, 3);
}

/* ---- XQA ---- */

typedef struct xqa_cache {
  const void *keys, *values;
  const uint32_t *lengths; /* before the new tokens; `more` are added */
  uint32_t capacity;
  bool rows_first;
  uint32_t more;
} xqa_cache;

typedef struct xqa {
  vcuda_type type;
  int64_t batch, groups, ratio, size, window;
  xqa_cache cache;
  double scale;
  const void *queries, *sinks;
  void *out;
} xqa;

static bool attend_group(const xqa *x, int64_t b, int64_t group, int64_t length) {
  double query[VCUDA_MOST_ELEMENTS], mean[VCUDA_MOST_ELEMENTS];
  int64_t capacity = x->cache.capacity, stride = x->cache.rows_first ? x->groups * x->size : x->size;
  int64_t start =
      x->cache.rows_first ? (b * capacity * x->groups + group) * x->size : (b * x->groups + group) * capacity * x->size;
  vcuda_view view = {.first = length > x->window ? length - x->window : 0, .end = length, .scale = x->scale, .sink = -INFINITY};
  view.keys = (vcuda_rows){x->type, at(x->cache.keys, x->type, start), stride, x->size};
  view.values = (vcuda_rows){x->type, at(x->cache.values, x->type, start), stride, x->size};
  view.keys.data = vcuda_read_rows(view.keys.data, x->type, view.first, length, stride, x->size);
  view.values.data = vcuda_read_rows(view.values.data, x->type, view.first, length, stride, x->size);
  if (view.keys.data == NULL || view.values.data == NULL) return false;
  for (int64_t head = group * x->ratio; head < (group + 1) * x->ratio; head++) {
    int64_t line = (b * x->groups * x->ratio + head) * x->size;
    for (int64_t i = 0; i < x->size; i++) query[i] = vcuda_load_real(x->type, x->queries, line + i);
    if (x->sinks != NULL) view.sink = vcuda_load_real(VCUDA_FLOAT32, x->sinks, head);
    (void)vcuda_attend(&view, query, mean);
    for (int64_t i = 0; i < x->size; i++) vcuda_store_real(x->type, x->out, line + i, mean[i]);
  }
  return true;
}

static void decode_all(const xqa *x) {
  const uint32_t *lengths = vcuda_reads(x->cache.lengths, (size_t)x->batch * sizeof *lengths);
  for (int64_t i = 0; lengths != NULL && i < x->batch * x->groups; i++) {
    int64_t length = (int64_t)lengths[i / x->groups] + x->cache.more;
    if (length > x->cache.capacity) {
      vcuda_fail(719, "XQA: %lld keys: expected at most %u, the cache's rows", (long long)length, x->cache.capacity);
      return;
    }
    if (!attend_group(x, i / x->groups, i % x->groups, length)) return;
  }
}

/* The namespaces contain the head size and the number of query heads for each key head: H128::grp4_fp16::kernel_mha(groups, window, scale,
 * out, queries, sinks, cache, batch, scales of keys and values, semaphores, scratch). */
static bool read_namespaces(const vcuda_kernel *kernel, xqa *x) {
  const char *size = strstr(kernel->text, "::H"), *ratio = strstr(kernel->text, "::grp");
  if (size == NULL || ratio == NULL) return false;
  x->size = strtol(size + strlen("::H"), NULL, 10);
  char *end;
  x->ratio = strtol(ratio + strlen("::grp"), &end, 10);
  x->type = strncmp(end, "_fp16::", strlen("_fp16::")) == 0 ? VCUDA_FLOAT16 : VCUDA_BFLOAT16;
  return x->type == VCUDA_FLOAT16 || strncmp(end, "_bf16::", strlen("_bf16::")) == 0;
}

static bool is_known_xqa(vcuda_kernel *kernel) {
  xqa x;
  return read_namespaces(kernel, &x) && x.size > 0 && x.size <= VCUDA_MOST_ELEMENTS && x.ratio > 0;
}

static void run_xqa(const vcuda_launch *launch) {
  xqa x = {.groups = vcuda_integer(launch, 0), .window = vcuda_integer(launch, 1), .scale = vcuda_real(launch, 2)};
  (void)read_namespaces(launch->kernel, &x);
  memcpy(&x.cache, vcuda_argument(launch, 6), sizeof x.cache);
  x.batch = vcuda_integer(launch, 7);
  size_t bytes = (size_t)(x.batch * x.groups * x.ratio * x.size) * vcuda_type_size(x.type);
  x.queries = vcuda_reads(vcuda_address(launch, 4), bytes);
  x.out = vcuda_writes(vcuda_address(launch, 3), bytes);
  bool has_sinks = vcuda_address(launch, 5) != NULL;
  if (has_sinks) x.sinks = vcuda_input(launch, 5, x.groups * x.ratio);
  if (x.queries != NULL && x.out != NULL && (!has_sinks || x.sinks != NULL)) decode_all(&x);
}

const vcuda_form vcuda_flash_forms[] = {
    {"flash_fwd_kernel", "o", run_flash, is_known_flash},
    {"flash_fwd_splitkv_kernel", "o", run_split, is_known_flash},
    {"flash_fwd_splitkv_combine_kernel", "o", run_combine, is_known_number},
    {"kernel_mha", "nnvppponpppp", run_xqa, is_known_xqa},
    {.name = NULL},
};
