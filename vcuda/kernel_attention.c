/* Attention: the mean of the values, weighted by the softmax of their keys' scores. */
#include "kernel_attention.h"

#include <math.h>

static double score_of(const vcuda_view *view, const double *query, int64_t key) {
  double product = 0;
  for (int64_t i = 0; i < view->keys.size; i++) {
    product += query[i] * vcuda_load_real(view->keys.type, view->keys.data, key * view->keys.stride + i);
  }
  product *= view->scale;
  if (view->cap != 0) product = view->cap * tanh(product / view->cap);
  return view->bias == NULL ? product : product + vcuda_load_real(view->bias_type, view->bias, key);
}

/* Online softmax in one pass: the sums are rescaled whenever a score exceeds the maximum so far. */
double vcuda_attend(const vcuda_view *view, const double *query, double *mean) {
  double greatest = view->sink, sum = isinf(view->sink) ? 0 : 1;
  for (int64_t i = 0; i < view->values.size; i++) mean[i] = 0;
  for (int64_t key = view->first; key < view->end; key++) {
    double score = score_of(view, query, key), kept = 1;
    if (isinf(score) && score < 0) continue;
    if (score > greatest) {
      kept = exp(greatest - score);
      greatest = score;
    }
    double weight = exp(score - greatest);
    sum = sum * kept + weight;
    for (int64_t i = 0; i < view->values.size; i++) {
      mean[i] = mean[i] * kept + weight * vcuda_load_real(view->values.type, view->values.data, key * view->values.stride + i);
    }
  }
  for (int64_t i = 0; sum != 0 && i < view->values.size; i++) mean[i] /= sum;
  return sum == 0 ? (double)-INFINITY : greatest + log(sum);
}

void vcuda_read_row(const vcuda_rows *rows, int64_t row, double *values) {
  for (int64_t i = 0; i < rows->size; i++) values[i] = vcuda_load_real(rows->type, rows->data, row * rows->stride + i);
}

const void *vcuda_read_rows(const void *head, vcuda_type type, int64_t first, int64_t end, int64_t stride, int64_t size) {
  size_t width = vcuda_type_size(type);
  const char *start = (const char *)head + (size_t)(first * stride) * width;
  int64_t elements = end <= first ? 0 : (end - first - 1) * stride + size;
  const char *found = vcuda_reads(start, (size_t)elements * width);
  return found == NULL || elements == 0 ? found : found - (size_t)(first * stride) * width;
}

static double rounded(vcuda_type type, double real) {
  char number[8];
  vcuda_store_real(type, number, 0, real);
  return vcuda_load_real(type, number, 0);
}

void vcuda_turn_row(const vcuda_turn *turn, int64_t position, double *values) {
  int64_t half = turn->turned / 2;
  for (int64_t i = 0; i < half; i++) {
    int64_t one = turn->neighbours ? 2 * i : i, other = turn->neighbours ? 2 * i + 1 : i + half;
    double cosine = vcuda_load_real(turn->type, turn->cosines, position * half + i);
    double sine = vcuda_load_real(turn->type, turn->sines, position * half + i);
    double x = values[one], y = values[other];
    values[one] = rounded(turn->type, x * cosine - y * sine);
    values[other] = rounded(turn->type, y * cosine + x * sine);
  }
}
