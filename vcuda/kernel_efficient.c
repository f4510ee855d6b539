/* Memory-efficient attention (CUTLASS): attention as one kernel, with a bias. */
#include "kernel_attention.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

enum { NO_MASK, CAUSAL_FROM_TOP_LEFT, CAUSAL_FROM_BOTTOM_RIGHT };

/* ORT's parameters, up to the last member that is read here. */
typedef struct parameters {
  const void *query, *key, *value, *bias;
  const int32_t *query_starts, *key_starts, *lengths;
  uint32_t diagonal;
  void *out, *part_out, *sums;
  int32_t window;
  float scale, cap;
  int32_t size, value_size, queries, keys, all_keys;
  uint8_t mask;
  int32_t query_row, key_row, value_row, bias_row, out_row, query_head, key_head, value_head;
  int64_t bias_head, query_batch, key_batch, value_batch, bias_batch;
  int32_t batch, heads;
  bool has_sink; /* a sink with score 0 */
} parameters;

_Static_assert(offsetof(parameters, out) == 64 && offsetof(parameters, window) == 88 && offsetof(parameters, mask) == 120,
               "as in ORT");
_Static_assert(offsetof(parameters, bias_head) == 160 && offsetof(parameters, batch) == 200 && sizeof(parameters) == 216,
               "as in ORT");

typedef struct efficient {
  parameters p;
  vcuda_type type;
  const int32_t *lengths;
  char *out;
} efficient;

static const char *at(const void *data, vcuda_type type, int64_t element) {
  return (const char *)data + element * (int64_t)vcuda_type_size(type);
}

static int64_t keys_of(const efficient *e, int64_t b) {
  return e->lengths == NULL ? e->p.keys : e->lengths[b];
}

static void set_range(const efficient *e, vcuda_view *view, int64_t keys, int64_t query) {
  int64_t offset = e->p.mask == CAUSAL_FROM_BOTTOM_RIGHT ? keys - e->p.queries : 0;
  view->end = e->p.mask == NO_MASK || query + offset + 1 > keys ? keys : query + offset + 1;
  view->first = e->p.window > 0 && query + offset + 1 > e->p.window ? query + offset + 1 - e->p.window : 0;
}

static bool read_bias(const efficient *e, vcuda_view *view, int64_t b, int64_t head, int64_t keys) {
  const parameters *p = &e->p;
  view->bias_type = e->type;
  if (p->bias == NULL) return true;
  view->bias = at(p->bias, e->type, b * p->bias_batch + head * p->bias_head);
  view->bias = vcuda_read_rows(view->bias, e->type, 0, p->queries, p->bias_row, keys);
  return view->bias != NULL;
}

static bool attend_head(const efficient *e, int64_t b, int64_t head) {
  const parameters *p = &e->p;
  double values[VCUDA_MOST_ELEMENTS], mean[VCUDA_MOST_ELEMENTS];
  int64_t keys = keys_of(e, b);
  vcuda_view view = {.scale = (double)p->scale, .cap = (double)p->cap, .sink = p->has_sink ? 0 : (double)-INFINITY};
  vcuda_rows queries = {e->type, at(p->query, e->type, b * p->query_batch + head * p->query_head), p->query_row, p->size};
  view.keys = (vcuda_rows){e->type, at(p->key, e->type, b * p->key_batch + head * p->key_head), p->key_row, p->size};
  view.values =
      (vcuda_rows){e->type, at(p->value, e->type, b * p->value_batch + head * p->value_head), p->value_row, p->value_size};
  queries.data = vcuda_read_rows(queries.data, e->type, 0, p->queries, queries.stride, p->size);
  view.keys.data = vcuda_read_rows(view.keys.data, e->type, 0, keys, view.keys.stride, p->size);
  view.values.data = vcuda_read_rows(view.values.data, e->type, 0, keys, view.values.stride, p->value_size);
  if (queries.data == NULL || view.keys.data == NULL || view.values.data == NULL || !read_bias(e, &view, b, head, keys))
    return false;
  const void *bias = view.bias;
  for (int64_t query = 0; query < p->queries; query++) {
    int64_t start = (b * p->queries + query) * p->out_row + head * p->value_size;
    vcuda_read_row(&queries, query, values);
    set_range(e, &view, keys, query);
    if (bias != NULL) view.bias = at(bias, e->type, query * p->bias_row);
    (void)vcuda_attend(&view, values, mean);
    for (int64_t i = 0; i < p->value_size; i++) vcuda_store_real(e->type, e->out, start + i, mean[i]);
  }
  return true;
}

static void attend_all(efficient *e) {
  const parameters *p = &e->p;
  int64_t rows = (int64_t)p->batch * p->queries;
  if (rows * p->heads * p->value_size == 0) return;
  if (p->lengths != NULL) {
    e->lengths = vcuda_reads(p->lengths, (size_t)p->batch * sizeof *p->lengths);
    if (e->lengths == NULL) return;
  }
  int64_t elements = (rows - 1) * p->out_row + (int64_t)p->heads * p->value_size;
  e->out = vcuda_writes(p->out, (size_t)elements * vcuda_type_size(e->type));
  for (int64_t i = 0; e->out != NULL && i < (int64_t)p->batch * p->heads; i++) {
    if (!attend_head(e, i / p->heads, i % p->heads)) return;
  }
}

static void run_efficient(const vcuda_launch *launch) {
  const char *text = launch->kernel->types[0].text;
  efficient e = {.type = strstr(text, "<cutlass::half_t") != NULL ? VCUDA_FLOAT16 : VCUDA_BFLOAT16};
  if (strstr(text, "<float") != NULL) e.type = VCUDA_FLOAT32;
  memcpy(&e.p, vcuda_argument(launch, 0), sizeof e.p);
  if (e.p.batch != (int32_t)launch->grid[2] || e.p.heads != (int32_t)launch->grid[1]) {
    vcuda_fail(719, "memory-efficient attention: its parameters are not those of ONNX Runtime 1.31");
  } else if (e.p.query_starts != NULL || e.p.key_starts != NULL) {
    vcuda_fail(719, "memory-efficient attention of sequences without padding: not known here");
  } else if (e.p.size > VCUDA_MOST_ELEMENTS || e.p.value_size > VCUDA_MOST_ELEMENTS) {
    vcuda_fail(719, "memory-efficient attention with heads of more than %d elements: not known here", VCUDA_MOST_ELEMENTS);
  } else {
    attend_all(&e);
  }
}

static bool is_known(vcuda_kernel *kernel) {
  return vcuda_names(kernel, 0, "<float,") || vcuda_names(kernel, 0, "<cutlass::half_t,") ||
         vcuda_names(kernel, 0, "<cutlass::bfloat16_t,");
}

const vcuda_form vcuda_efficient_forms[] = {
    {"attention_kernel_batched_impl", "o", run_efficient, is_known},
    {"attention_kernel_batched_impl_right_padding", "o", run_efficient, is_known},
    {.name = NULL},
};
