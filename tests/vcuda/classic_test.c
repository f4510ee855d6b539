/* cuDNN's older interface of the virtual GPU, but for convolutions: random descriptors and values against loops written from the formulas.
 *
 * usage: vcuda_classic [CASES [FIRST]]: how many for each function, and the seed of the first */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "dnn_classic.h"
#include "host.h"

static int cases = 40, first_seed = 1;
static uint64_t random_state;

/* A whole number from `least` to `most`. */
static int draw(int least, int most) {
  random_state = random_state * 6364136223846793005ULL + 1442695040888963407ULL;
  return least + (int)((random_state >> 33) % (uint64_t)(most - least + 1));
}

/* ---- tensors of random strides ---- */

static const struct {
  vcuda_type type;
  int number; /* cudnnDataType_t */
  double tolerance;
} types[] = {{VCUDA_FLOAT32, 0, 1e-5}, {VCUDA_FLOAT64, 1, 1e-12}, {VCUDA_FLOAT16, 2, 2e-3}, {VCUDA_BFLOAT16, 9, 2e-2}};
enum { TYPES = 4, WITHOUT_BFLOAT16 = 3 };

typedef struct tensor {
  vcuda_dnn_tensor *descriptor;
  int type, rank; /* an index of `types` */
  int dims[DNN_MAX_RANK], strides[DNN_MAX_RANK];
  int extent; /* elements of memory */
  void *data, *before;
} tensor;

static double load(const tensor *t, int at) {
  return vcuda_load_real(types[t->type].type, t->data, at);
}

/* Dims are laid out in a random order, some with gaps behind them. */
static void lay_out(tensor *t, bool with_gaps) {
  bool done[DNN_MAX_RANK] = {false};
  t->extent = 1;
  for (int i = 0; i < t->rank; i++) {
    int dim = t->rank - 1 - i;
    if (with_gaps) {
      do {
        dim = draw(0, t->rank - 1);
      } while (done[dim]);
    }
    done[dim] = true;
    t->strides[dim] = t->extent;
    t->extent = t->extent * t->dims[dim] + (with_gaps ? draw(0, 1) : 0);
  }
  t->extent = 1;
  for (int i = 0; i < t->rank; i++) t->extent += (t->dims[i] - 1) * t->strides[i];
}

static tensor make(int type, int rank, const int *dims, bool with_gaps) {
  tensor t = {.type = type, .rank = rank};
  memcpy(t.dims, dims, (size_t)rank * sizeof *dims);
  lay_out(&t, with_gaps);
  size_t bytes = (size_t)t.extent * vcuda_type_size(types[type].type);
  t.data = host_memory(bytes);
  bool whole = draw(0, 1); /* zeros, and equal ones */
  for (int i = 0; i < t.extent; i++) {
    vcuda_store_real(types[type].type, t.data, i, whole ? draw(-2, 2) : draw(-200, 200) / 100.0);
  }
  t.before = host_copy(t.data, bytes);
  assert_int_equal(cudnnCreateTensorDescriptor(&t.descriptor), DNN_OK);
  assert_int_equal(cudnnSetTensorNdDescriptor(t.descriptor, types[type].number, rank, t.dims, t.strides), DNN_OK);
  return t;
}

static void drop(tensor *t) {
  assert_int_equal(cudnnDestroyTensorDescriptor(t->descriptor), DNN_OK);
}

static int count(const tensor *t) {
  int product = 1;
  for (int i = 0; i < t->rank; i++) product *= t->dims[i];
  return product;
}

/* The index of element `number`, and where that element is. */
static void index_of(const tensor *t, int number, int *index) {
  for (int i = t->rank - 1; i >= 0; i--) {
    index[i] = number % t->dims[i];
    number /= t->dims[i];
  }
}

static int place(const tensor *t, const int *index) {
  int at = 0;
  for (int i = 0; i < t->rank; i++) at += index[i] * t->strides[i];
  return at;
}

/* alpha and beta in the form that the call takes them. */
typedef struct factors {
  double alpha, beta;
  char alpha_bytes[8], beta_bytes[8];
} factors;

static factors draw_factors(int type) {
  factors f = {.alpha = draw(0, 1) ? 1 : 0.5, .beta = draw(0, 1) ? 0 : 2};
  vcuda_type of = types[type].type == VCUDA_FLOAT64 ? VCUDA_FLOAT64 : VCUDA_FLOAT32;
  vcuda_store_real(of, f.alpha_bytes, 0, f.alpha);
  vcuda_store_real(of, f.beta_bytes, 0, f.beta);
  return f;
}

/* What must be in the tensor's memory: for each element a value, and between them what was there. */
static void expect(const tensor *t, const double *values, const factors *f, const char *what) {
  vcuda_type type = types[t->type].type;
  size_t size = vcuda_type_size(type);
  char *expected = malloc((size_t)t->extent * size);
  int index[DNN_MAX_RANK] = {0};
  assert_non_null(expected);
  memcpy(expected, t->before, (size_t)t->extent * size);
  for (int i = 0; i < count(t); i++) {
    index_of(t, i, index);
    int at = place(t, index);
    double old = f->beta == 0 ? 0 : f->beta * vcuda_load_real(type, t->before, at);
    vcuda_store_real(type, expected, at, f->alpha * values[i] + old);
  }
  for (int at = 0; at < t->extent; at++) {
    double one = load(t, at), other = vcuda_load_real(type, expected, at);
    bool same = memcmp((char *)t->data + (size_t)at * size, expected + (size_t)at * size, size) == 0;
    if (same || fabs(one - other) <= types[t->type].tolerance * (1 + fabs(other)) || (isnan(one) && isnan(other))) continue;
    fail_msg("%s: element %d of type %d: got %g, expected %g", what, at, types[t->type].number, one, other);
  }
  free(expected);
}

static void expect_unchanged(const tensor *t) {
  assert_memory_equal(t->data, t->before, (size_t)t->extent * vcuda_type_size(types[t->type].type));
}

static const factors as_it_is = {.alpha = 1, .beta = 0};

/* ---- one case after the other ---- */

static vcuda_dnn *handle;
enum { MOST = 4096 };
static double values[MOST];

static void run_cases(void (*run)(void)) {
  for (int i = 0; i < cases; i++) {
    random_state = (uint64_t)first_seed + (uint64_t)i;
    (void)draw(0, 1);
    run();
    if (host_error() != 0 || host_logs() != 0) fail_msg("seed %d: %s", first_seed + i, host_message());
    host_reset(NULL);
  }
}

static int start(void **state) {
  (void)state;
  return cudnnCreate(&handle);
}

static int stop(void **state) {
  return cudnnDestroy(handle) + host_reset(state);
}

static void spoil(const tensor *t) {
  for (int i = 0; i < 3; i++) {
    if (draw(0, 1)) vcuda_store_real(types[t->type].type, t->data, draw(0, t->extent - 1), NAN);
  }
  memcpy(t->before, t->data, (size_t)t->extent * vcuda_type_size(types[t->type].type));
}

/* ---- pooling ---- */

typedef struct pooling {
  int mode, nan, rank, window[3], padding[3], stride[3];
} pooling;

static double pool_at(const pooling *p, const tensor *x, const int *at) {
  double sum = 0, greatest = -INFINITY;
  int inside = 0, whole = 1, index[5] = {at[0], at[1], 0, 0, 0};
  bool has_nan = false;
  for (int i = 0; i < p->rank; i++) whole *= p->window[i];
  for (int number = 0; number < whole; number++) {
    bool in = true;
    int rest = number;
    for (int i = p->rank - 1; i >= 0; i--) {
      index[i + 2] = at[i + 2] * p->stride[i] - p->padding[i] + rest % p->window[i];
      in = in && index[i + 2] >= 0 && index[i + 2] < x->dims[i + 2];
      rest /= p->window[i];
    }
    if (!in) continue;
    double value = load(x, place(x, index));
    inside++;
    sum += value;
    if (isnan(value)) has_nan = true;
    if (value > greatest) greatest = value;
  }
  if (p->mode == 1) return sum / whole;
  if (p->mode == 2) return inside == 0 ? 0 : sum / inside;
  return has_nan && p->nan ? NAN : greatest;
}

static void pool_once(void) {
  pooling p = {.mode = draw(0, 3), .nan = draw(0, 1), .rank = draw(1, 3)};
  int type = draw(0, TYPES - 1), x_dims[5] = {draw(1, 2), draw(1, 3)}, y_dims[5] = {x_dims[0], x_dims[1]};
  for (int i = 0; i < p.rank; i++) {
    p.window[i] = draw(1, 3);
    p.padding[i] = draw(0, 2);
    p.stride[i] = draw(1, 3);
    x_dims[i + 2] = draw(1, 5);
    y_dims[i + 2] = draw(1, 4);
  }
  tensor x = make(type, p.rank + 2, x_dims, draw(0, 1)), y = make(type, p.rank + 2, y_dims, draw(0, 1));
  factors f = draw_factors(type);
  vcuda_dnn_pooling *descriptor;
  spoil(&x);
  assert_int_equal(cudnnCreatePoolingDescriptor(&descriptor), DNN_OK);
  assert_int_equal(cudnnSetPoolingNdDescriptor(descriptor, p.mode, p.nan, p.rank, p.window, p.padding, p.stride), DNN_OK);
  assert_int_equal(
      cudnnPoolingForward(handle, descriptor, f.alpha_bytes, x.descriptor, x.data, f.beta_bytes, y.descriptor, y.data), DNN_OK);
  for (int i = 0; i < count(&y); i++) {
    int at[5];
    index_of(&y, i, at);
    values[i] = pool_at(&p, &x, at);
  }
  expect(&y, values, &f, "pooling");
  expect_unchanged(&x);
  assert_int_equal(cudnnDestroyPoolingDescriptor(descriptor), DNN_OK);
  drop(&x);
  drop(&y);
}

static void pooling_of_all_kinds(void **state) {
  (void)state;
  run_cases(pool_once);
}

/* ---- local response normalisation ---- */

static void lrn_once(void) {
  int type = draw(0, TYPES - 1), rank = draw(3, 5), dims[5], width = draw(1, 7);
  for (int i = 0; i < rank; i++) dims[i] = draw(1, 5 - (i > 2) * 2);
  double alpha = draw(1, 20) / 10.0, beta = draw(1, 8) / 8.0, k = draw(1, 16) / 8.0;
  tensor x = make(type, rank, dims, draw(0, 1)), y = make(type, rank, dims, draw(0, 1));
  factors f = draw_factors(type);
  vcuda_dnn_lrn *descriptor;
  assert_int_equal(cudnnCreateLRNDescriptor(&descriptor), DNN_OK);
  assert_int_equal(cudnnSetLRNDescriptor(descriptor, (unsigned)width, alpha, beta, k), DNN_OK);
  assert_int_equal(cudnnLRNCrossChannelForward(handle, descriptor, 0, f.alpha_bytes, x.descriptor, x.data, f.beta_bytes,
                                               y.descriptor, y.data),
                   DNN_OK);
  for (int i = 0; i < count(&x); i++) {
    int at[5], near[5];
    double squares = 0;
    index_of(&x, i, at);
    memcpy(near, at, sizeof near);
    for (int c = at[1] - (width - 1) / 2; c <= at[1] + width / 2; c++) {
      if (c < 0 || c >= dims[1]) continue;
      near[1] = c;
      squares += pow(load(&x, place(&x, near)), 2);
    }
    values[i] = load(&x, place(&x, at)) / pow(k + alpha / width * squares, beta);
  }
  expect(&y, values, &f, "LRN");
  expect_unchanged(&x);
  assert_int_equal(cudnnDestroyLRNDescriptor(descriptor), DNN_OK);
  drop(&x);
  drop(&y);
}

static void lrn_of_all_widths(void **state) {
  (void)state;
  run_cases(lrn_once);
}

/* ---- softmax ---- */

static void softmax_once(void) {
  int type = draw(0, TYPES - 1), rank = draw(2, 5), dims[5], algorithm = draw(0, 2), mode = draw(0, 1);
  for (int i = 0; i < rank; i++) dims[i] = draw(1, 4);
  tensor x = make(type, rank, dims, draw(0, 1)), y = make(type, rank, dims, draw(0, 1));
  factors f = draw_factors(type);
  assert_int_equal(
      cudnnSoftmaxForward(handle, algorithm, mode, f.alpha_bytes, x.descriptor, x.data, f.beta_bytes, y.descriptor, y.data),
      DNN_OK);
  for (int i = 0; i < count(&x); i++) {
    int at[5], other[5];
    double sum = 0;
    index_of(&x, i, at);
    for (int j = 0; j < count(&x); j++) { /* of the same image, and for channels of the same place */
      index_of(&x, j, other);
      bool together = at[0] == other[0];
      for (int dim = 2; dim < rank && mode == 1; dim++) together = together && at[dim] == other[dim];
      sum += together ? exp(load(&x, place(&x, other))) : 0;
    }
    double raised = exp(load(&x, place(&x, at)));
    values[i] = algorithm == 2 ? log(raised / sum) : raised / sum;
  }
  expect(&y, values, &f, "softmax");
  expect_unchanged(&x);
  drop(&x);
  drop(&y);
}

static void softmax_of_all_kinds(void **state) {
  (void)state;
  run_cases(softmax_once);
}

/* Numbers whose powers are too large: the accurate one subtracts the greatest first, the fast one does not. */
static void softmax_of_large_numbers(void **state) {
  (void)state;
  const int dims[] = {1, 2}, strides[] = {2, 1};
  const float data[] = {1000, 1000}, one = 1, zero = 0;
  float *x = host_copy(data, sizeof data), *y = host_memory(sizeof data);
  vcuda_dnn_tensor *t;
  assert_int_equal(cudnnCreateTensorDescriptor(&t), DNN_OK);
  assert_int_equal(cudnnSetTensorNdDescriptor(t, 0, 2, dims, strides), DNN_OK);
  assert_int_equal(cudnnSoftmaxForward(handle, 1, 0, &one, t, x, &zero, t, y), DNN_OK);
  assert_true(y[0] == 0.5F && y[1] == 0.5F);
  assert_int_equal(cudnnSoftmaxForward(handle, 0, 0, &one, t, x, &zero, t, y), DNN_OK);
  assert_true(isnan(y[0]) && isnan(y[1]));
  assert_int_equal(cudnnDestroyTensorDescriptor(t), DNN_OK);
}

/* ---- batch normalisation ---- */

typedef struct parameters {
  vcuda_dnn_tensor *descriptor;
  vcuda_type type;
  int count;
} parameters;

static parameters derive(const tensor *x, int mode) {
  parameters p = {.count = x->dims[1]};
  int type = -1, rank = -1, dims[DNN_MAX_RANK], strides[DNN_MAX_RANK];
  for (int i = 2; i < x->rank; i++) p.count *= mode == 0 ? x->dims[i] : 1;
  assert_int_equal(cudnnCreateTensorDescriptor(&p.descriptor), DNN_OK);
  assert_int_equal(cudnnDeriveBNTensorDescriptor(p.descriptor, x->descriptor, mode), DNN_OK);
  assert_int_equal(cudnnGetTensorNdDescriptor(p.descriptor, DNN_MAX_RANK, &type, &rank, dims, strides), DNN_OK);
  assert_int_equal(type, types[x->type].type == VCUDA_FLOAT64 ? 1 : 0);
  assert_int_equal(rank, x->rank);
  for (int i = 0; i < rank; i++) assert_int_equal(dims[i], i == 1 || (i > 1 && mode == 0) ? x->dims[i] : 1);
  p.type = type == 1 ? VCUDA_FLOAT64 : VCUDA_FLOAT32;
  return p;
}

static void *draw_parameters(const parameters *p, bool positive) {
  void *data = host_memory((size_t)p->count * vcuda_type_size(p->type));
  for (int i = 0; i < p->count; i++)
    vcuda_store_real(p->type, data, i, positive ? draw(1, 200) / 100.0 : draw(-200, 200) / 100.0);
  return data;
}

/* Which of the parameters is for this element? */
static int parameter_of(const tensor *x, int mode, const int *at) {
  int number = at[1];
  for (int i = 2; i < x->rank && mode == 0; i++) number = number * x->dims[i] + at[i];
  return number;
}

static tensor draw_batch(int mode) {
  int rank = draw(2, 5), dims[5];
  for (int i = 0; i < rank; i++) dims[i] = draw(1, 4);
  (void)mode;
  return make(draw(0, TYPES - 1), rank, dims, draw(0, 1));
}

static void inference_once(void) {
  int mode = draw(0, 2);
  tensor x = draw_batch(mode), y = make(x.type, x.rank, x.dims, draw(0, 1));
  parameters p = derive(&x, mode);
  void *scale = draw_parameters(&p, false), *bias = draw_parameters(&p, false), *mean = draw_parameters(&p, false),
       *variance = draw_parameters(&p, true);
  double epsilon = draw(0, 4) / 8.0;
  factors f = draw_factors(x.type);
  assert_int_equal(cudnnBatchNormalizationForwardInference(handle, mode, f.alpha_bytes, f.beta_bytes, x.descriptor, x.data,
                                                           y.descriptor, y.data, p.descriptor, scale, bias, mean, variance,
                                                           epsilon),
                   DNN_OK);
  for (int i = 0; i < count(&x); i++) {
    int at[5];
    index_of(&x, i, at);
    int of = parameter_of(&x, mode, at);
    double deviation = sqrt(vcuda_load_real(p.type, variance, of) + epsilon);
    values[i] = (load(&x, place(&x, at)) - vcuda_load_real(p.type, mean, of)) / deviation * vcuda_load_real(p.type, scale, of) +
                vcuda_load_real(p.type, bias, of);
  }
  expect(&y, values, &f, "batch normalisation");
  expect_unchanged(&x);
  assert_int_equal(cudnnDestroyTensorDescriptor(p.descriptor), DNN_OK);
  drop(&x);
  drop(&y);
}

static void batch_normalization(void **state) {
  (void)state;
  run_cases(inference_once);
}

static void expect_parameter(const parameters *p, const void *data, int at, double expected, const char *what) {
  double got = vcuda_load_real(p->type, data, at);
  if (fabs(got - expected) > 1e-5 * (1 + fabs(expected))) fail_msg("%s %d: got %g, expected %g", what, at, got, expected);
}

typedef struct moments {
  double mean, variance;
  int count;
} moments;

static moments measure(const tensor *x, int mode, int parameter) {
  moments m = {0, 0, 0};
  double squares = 0;
  for (int i = 0; i < count(x); i++) {
    int at[5];
    index_of(x, i, at);
    if (parameter_of(x, mode, at) != parameter) continue;
    m.mean += load(x, place(x, at));
    squares += pow(load(x, place(x, at)), 2);
    m.count++;
  }
  m.mean /= m.count;
  m.variance = fmax(squares / m.count - m.mean * m.mean, 0);
  return m;
}

/* Of the four statistics each pair may be left out. With a factor of 1 the running ones are not read. */
static void training_once(void) {
  int mode = draw(0, 2);
  tensor x = draw_batch(mode), y = make(x.type, x.rank, x.dims, draw(0, 1));
  parameters p = derive(&x, mode);
  bool runs = draw(0, 1), saves = draw(0, 1);
  double factor = draw(0, 1) ? 1 : 0.25, epsilon = draw(1, 4) / 8.0, old_mean[256], old_variance[256];
  void *scale = draw_parameters(&p, false), *bias = draw_parameters(&p, false), *mean = draw_parameters(&p, false),
       *variance = draw_parameters(&p, true), *saved_mean = draw_parameters(&p, false), *deviation = draw_parameters(&p, false);
  factors f = draw_factors(x.type);
  for (int i = 0; i < p.count; i++) {
    if (factor == 1) vcuda_store_real(p.type, mean, i, NAN);
    old_mean[i] = factor == 1 ? 0 : vcuda_load_real(p.type, mean, i);
    old_variance[i] = vcuda_load_real(p.type, variance, i);
  }
  assert_int_equal(cudnnBatchNormalizationForwardTraining(handle, mode, f.alpha_bytes, f.beta_bytes, x.descriptor, x.data,
                                                          y.descriptor, y.data, p.descriptor, scale, bias, factor,
                                                          runs ? mean : NULL, runs ? variance : NULL, epsilon,
                                                          saves ? saved_mean : NULL, saves ? deviation : NULL),
                   DNN_OK);
  for (int i = 0; i < p.count; i++) {
    moments m = measure(&x, mode, i);
    double sample = m.count == 1 ? m.variance : m.variance * m.count / (m.count - 1);
    if (runs) expect_parameter(&p, mean, i, (1 - factor) * old_mean[i] + factor * m.mean, "running mean");
    if (runs) expect_parameter(&p, variance, i, (1 - factor) * old_variance[i] + factor * sample, "running variance");
    if (saves) expect_parameter(&p, saved_mean, i, m.mean, "saved mean");
    if (saves) expect_parameter(&p, deviation, i, 1 / sqrt(m.variance + epsilon), "saved deviation");
  }
  for (int i = 0; i < count(&x); i++) {
    int at[5];
    index_of(&x, i, at);
    int of = parameter_of(&x, mode, at);
    moments m = measure(&x, mode, of);
    values[i] = (load(&x, place(&x, at)) - m.mean) / sqrt(m.variance + epsilon) * vcuda_load_real(p.type, scale, of) +
                vcuda_load_real(p.type, bias, of);
  }
  expect(&y, values, &f, "training");
  assert_int_equal(cudnnDestroyTensorDescriptor(p.descriptor), DNN_OK);
  drop(&x);
  drop(&y);
}

static void batch_normalization_in_training(void **state) {
  (void)state;
  run_cases(training_once);
}

/* ---- reductions ---- */

enum { ADD, MUL, MIN, MAX, AMAX, AVG, NORM1, NORM2, MUL_NO_ZEROS, OPERATIONS };

/* The elements of a that are reduced to one of c: `list` receives them in order, with the greatest index last. */
static int collect(const tensor *a, const tensor *c, const int *at, double *list) {
  int found = 0;
  for (int i = 0; i < count(a); i++) {
    int index[DNN_MAX_RANK];
    bool belongs = true;
    index_of(a, i, index);
    for (int dim = 0; dim < a->rank; dim++) belongs = belongs && (c->dims[dim] != a->dims[dim] || index[dim] == at[dim]);
    if (belongs) list[found++] = load(a, place(a, index));
  }
  return found;
}

static double reduce(int operation, const double *list, int length, bool nan, int *best) {
  double sum = 0, product = 1, without_zeros = 1, norm1 = 0, norm2 = 0;
  *best = -1;
  for (int i = 0; i < length; i++) {
    double value = operation == AMAX ? fabs(list[i]) : list[i];
    sum += list[i];
    product *= list[i];
    without_zeros *= list[i] == 0 ? 1 : list[i];
    norm1 += fabs(list[i]);
    norm2 += list[i] * list[i];
    double champion = *best < 0 ? 0 : operation == AMAX ? fabs(list[*best]) : list[*best];
    if (isnan(value) && !nan) continue;
    if (*best >= 0 && isnan(champion)) continue;
    if (*best < 0 || isnan(value) || (operation == MIN ? value < champion : value > champion)) *best = i;
  }
  switch (operation) {
    case ADD: return sum;
    case MUL: return product;
    case AVG: return sum / length;
    case NORM1: return norm1;
    case NORM2: return sqrt(norm2);
    case MUL_NO_ZEROS: return without_zeros;
    default: return *best < 0 ? (operation == MIN ? INFINITY : -INFINITY) : operation == AMAX ? fabs(list[*best]) : list[*best];
  }
}

static void reduce_once(void) {
  int type = draw(0, TYPES - 1), rank = draw(1, DNN_MAX_RANK), dims[DNN_MAX_RANK], c_dims[DNN_MAX_RANK],
      operation = draw(0, 1) ? draw(MIN, AMAX) : draw(0, OPERATIONS - 1);
  bool nan = draw(0, 1), wants_indices = draw(0, 1), has_indices = wants_indices && operation >= MIN && operation <= AMAX;
  for (int i = 0; i < rank; i++) {
    dims[i] = draw(1, rank > 5 ? 2 : 4);
    c_dims[i] = draw(0, 1) ? 1 : dims[i];
  }
  tensor a = make(type, rank, dims, draw(0, 1)), c = make(type, rank, c_dims, draw(0, 1));
  factors f = draw_factors(type);
  vcuda_dnn_reduction *descriptor;
  size_t indices_bytes = 999, workspace_bytes = 999;
  static double list[MOST];
  spoil(&a);
  assert_int_equal(cudnnCreateReduceTensorDescriptor(&descriptor), DNN_OK);
  assert_int_equal(cudnnSetReduceTensorDescriptor(descriptor, operation, type == 1, nan, wants_indices, 0), DNN_OK);
  assert_int_equal(cudnnGetReductionIndicesSize(handle, descriptor, a.descriptor, c.descriptor, &indices_bytes), DNN_OK);
  assert_int_equal(cudnnGetReductionWorkspaceSize(handle, descriptor, a.descriptor, c.descriptor, &workspace_bytes), DNN_OK);
  assert_int_equal(indices_bytes, has_indices ? (size_t)count(&c) * 4 : 0);
  int32_t *indices = has_indices ? host_memory(indices_bytes) : NULL;
  assert_int_equal(cudnnReduceTensor(handle, descriptor, indices, indices_bytes, host_memory(workspace_bytes), workspace_bytes,
                                     f.alpha_bytes, a.descriptor, a.data, f.beta_bytes, c.descriptor, c.data),
                   DNN_OK);
  for (int i = 0; i < count(&c); i++) {
    int at[DNN_MAX_RANK], best;
    index_of(&c, i, at);
    values[i] = reduce(operation, list, collect(&a, &c, at, list), nan, &best);
    if (has_indices) assert_int_equal(indices[i], best < 0 ? 0 : best);
  }
  expect(&c, values, &f, "reduction");
  expect_unchanged(&a);
  assert_int_equal(cudnnDestroyReduceTensorDescriptor(descriptor), DNN_OK);
  drop(&a);
  drop(&c);
}

static void reductions(void **state) {
  (void)state;
  run_cases(reduce_once);
}

/* ---- recurrent networks ---- */

enum { RELU, TANH, LSTM, GRU };
enum { WIDEST = 5, GATES = 4 };

/* Weights of one direction, as they were given. */
typedef struct weights {
  double w[GATES][WIDEST][WIDEST], r[GATES][WIDEST][WIDEST], bw[GATES][WIDEST], br[GATES][WIDEST];
} weights;

typedef struct network {
  int cell, bias, directions, type, input, hidden, steps, batch, gates;
  int lengths[3];
  vcuda_dnn_rnn *descriptor;
  vcuda_dnn_rnn_data *x_descriptor, *y_descriptor;
  void *space;
  size_t space_bytes;
  weights given[2];
} network;

static double put(const network *n, void *address, int at) {
  double value = draw(-100, 100) / 128.0; /* that all types hold */
  vcuda_store_real(types[n->type].type, address, at, value);
  return value;
}

/* One part of the weights, at the address that cuDNN says; twice `gates` parts in all. */
static void fill_part(network *n, int direction, int part) {
  vcuda_dnn_tensor *matrix, *bias;
  void *matrix_address = NULL, *bias_address = NULL;
  int type, rank, dims[3], strides[3];
  bool recurrent = part >= n->gates;
  int gate = recurrent ? part - n->gates : part, columns = recurrent ? n->hidden : n->input;
  bool has_bias = n->bias == 2 || n->bias == (recurrent ? 3 : 1);
  weights *given = &n->given[direction];
  assert_int_equal(cudnnCreateTensorDescriptor(&matrix), DNN_OK);
  assert_int_equal(cudnnCreateTensorDescriptor(&bias), DNN_OK);
  assert_int_equal(cudnnGetRNNWeightParams(handle, n->descriptor, direction, n->space_bytes, n->space, part, matrix,
                                           &matrix_address, bias, &bias_address),
                   DNN_OK);
  assert_int_equal(cudnnGetTensorNdDescriptor(matrix, 3, &type, &rank, dims, strides), DNN_OK);
  assert_true(type == types[n->type].number && rank == 3 && dims[0] == 1 && dims[1] == n->hidden && dims[2] == columns);
  assert_int_equal(bias_address != NULL, has_bias);
  for (int row = 0; row < n->hidden; row++) {
    for (int column = 0; column < columns; column++) {
      double value = put(n, matrix_address, row * columns + column);
      *(recurrent ? &given->r[gate][row][column] : &given->w[gate][row][column]) = value;
    }
    if (has_bias) *(recurrent ? &given->br[gate][row] : &given->bw[gate][row]) = put(n, bias_address, row);
  }
  assert_int_equal(cudnnDestroyTensorDescriptor(matrix), DNN_OK);
  assert_int_equal(cudnnDestroyTensorDescriptor(bias), DNN_OK);
}

static void make_network(network *n) {
  const int gates[] = {1, 1, 4, 3};
  *n = (network){.cell = draw(0, 3), .bias = draw(0, 3), .directions = draw(1, 2), .type = draw(0, WITHOUT_BFLOAT16 - 1)};
  n->gates = gates[n->cell];
  n->input = draw(1, WIDEST);
  n->hidden = draw(1, WIDEST);
  n->steps = draw(1, 5);
  n->batch = draw(1, 3);
  for (int i = 0; i < n->batch; i++) n->lengths[i] = draw(0, n->steps);
  int number = types[n->type].number;
  static const char filling[8] = {0};
  assert_int_equal(cudnnCreateRNNDescriptor(&n->descriptor), DNN_OK);
  assert_int_equal(cudnnCreateRNNDataDescriptor(&n->x_descriptor), DNN_OK);
  assert_int_equal(cudnnCreateRNNDataDescriptor(&n->y_descriptor), DNN_OK);
  assert_int_equal(cudnnSetRNNDescriptor_v8(n->descriptor, 0, n->cell, n->bias, n->directions - 1, 0, number, number, 0,
                                            n->input, n->hidden, n->hidden, 1, NULL, 1),
                   DNN_OK);
  assert_int_equal(cudnnSetRNNDataDescriptor(n->x_descriptor, number, 0, n->steps, n->batch, n->input, n->lengths, NULL),
                   DNN_OK);
  assert_int_equal(
      cudnnSetRNNDataDescriptor(n->y_descriptor, number, 0, n->steps, n->batch, n->hidden * n->directions, n->lengths, filling),
      DNN_OK);
  n->space_bytes =
      (size_t)(n->directions * n->gates * n->hidden * (n->input + n->hidden + 2)) * vcuda_type_size(types[n->type].type);
  n->space = host_memory(n->space_bytes);
  for (int direction = 0; direction < n->directions; direction++) {
    for (int part = 0; part < 2 * n->gates; part++) fill_part(n, direction, part);
  }
}

static void drop_network(const network *n) {
  assert_int_equal(cudnnDestroyRNNDescriptor(n->descriptor), DNN_OK);
  assert_int_equal(cudnnDestroyRNNDataDescriptor(n->x_descriptor), DNN_OK);
  assert_int_equal(cudnnDestroyRNNDataDescriptor(n->y_descriptor), DNN_OK);
}

static double s(double x) {
  return 1 / (1 + exp(-x));
}

/* One step of one sequence. */
static void step(const network *n, const weights *g, const double *x, double *h, double *c) {
  double in[GATES][WIDEST], back[GATES][WIDEST], old[WIDEST];
  memcpy(old, h, sizeof old);
  for (int gate = 0; gate < n->gates; gate++) {
    for (int row = 0; row < n->hidden; row++) {
      in[gate][row] = g->bw[gate][row];
      back[gate][row] = g->br[gate][row];
      for (int i = 0; i < n->input; i++) in[gate][row] += g->w[gate][row][i] * x[i];
      for (int i = 0; i < n->hidden; i++) back[gate][row] += g->r[gate][row][i] * old[i];
    }
  }
  for (int i = 0; i < n->hidden; i++) {
    double first = in[0][i] + back[0][i];
    if (n->cell == RELU) h[i] = fmax(first, 0);
    if (n->cell == TANH) h[i] = tanh(first);
    if (n->cell == LSTM) {
      double forget = s(in[1][i] + back[1][i]), new = tanh(in[2][i] + back[2][i]), out = s(in[3][i] + back[3][i]);
      c[i] = forget * c[i] + s(first) * new;
      h[i] = out * tanh(c[i]);
    }
    if (n->cell == GRU) {
      double update = s(in[1][i] + back[1][i]), new = tanh(in[2][i] + s(first) * back[2][i]);
      h[i] = (1 - update) * new + update *old[i];
    }
  }
}

typedef struct states {
  tensor in, out;
  bool has_in, has_out;
  double *values; /* that are expected of `out` */
} states;

static states draw_states(const network *n, double *room) {
  const int dims[] = {n->directions, n->batch, n->hidden};
  states made = {make(n->type, 3, dims, false), make(n->type, 3, dims, false), draw(0, 1), draw(0, 1), room};
  return made;
}

static void begin(const states *from, int direction, int sequence, int size, double *state) {
  const int at[] = {direction, sequence, 0};
  for (int i = 0; i < size; i++) state[i] = from->has_in ? load(&from->in, place(&from->in, at) + i) : 0;
}

static void end(const network *n, const states *to, int direction, int sequence, const double *state) {
  memcpy(to->values + (direction * n->batch + sequence) * n->hidden, state, (size_t)n->hidden * sizeof *state);
}

/* y's expected values are in `values`. */
static void compute(const network *n, const tensor *x, const states *h, const states *c) {
  for (int direction = 0; direction < n->directions; direction++) {
    for (int sequence = 0; sequence < n->batch; sequence++) {
      double state[WIDEST], cell[WIDEST], in[WIDEST];
      begin(h, direction, sequence, n->hidden, state);
      begin(c, direction, sequence, n->hidden, cell);
      for (int i = 0; i < n->steps; i++) {
        bool over = i >= n->lengths[sequence];
        int time = over || direction == 0 ? i : n->lengths[sequence] - 1 - i;
        double *y = values + ((time * n->batch + sequence) * n->directions + direction) * n->hidden;
        for (int j = 0; j < n->input; j++) in[j] = load(x, (time * n->batch + sequence) * n->input + j);
        if (!over) step(n, &n->given[direction], in, state, cell);
        for (int j = 0; j < n->hidden; j++) y[j] = over ? 0 : state[j];
      }
      end(n, h, direction, sequence, state);
      end(n, c, direction, sequence, cell);
    }
  }
}

static void network_once(void) {
  static double h_room[64], c_room[64];
  network n;
  make_network(&n);
  const int x_dims[] = {n.steps, n.batch, n.input}, y_dims[] = {n.steps, n.batch, n.directions * n.hidden};
  tensor x = make(n.type, 3, x_dims, false), y = make(n.type, 3, y_dims, false);
  states h = draw_states(&n, h_room), c = draw_states(&n, c_room);
  size_t workspace_bytes = 0, reserve_bytes = 999;
  int32_t *lengths = draw(0, 1) ? host_copy(n.lengths, sizeof n.lengths) : NULL;
  assert_int_equal(cudnnGetRNNTempSpaceSizes(handle, n.descriptor, 0, n.x_descriptor, &workspace_bytes, &reserve_bytes),
                   DNN_OK);
  assert_int_equal(reserve_bytes, 0);
  if (n.cell != LSTM) c.has_in = c.has_out = false;
  assert_int_equal(cudnnRNNForward(handle, n.descriptor, 0, lengths, n.x_descriptor, x.data, n.y_descriptor, y.data,
                                   h.in.descriptor, h.has_in ? h.in.data : NULL, h.has_out ? h.out.data : NULL, c.in.descriptor,
                                   c.has_in ? c.in.data : NULL, c.has_out ? c.out.data : NULL, n.space_bytes, n.space,
                                   workspace_bytes, host_memory(workspace_bytes), 0, NULL),
                   DNN_OK);
  compute(&n, &x, &h, &c);
  expect(&y, values, &as_it_is, "y");
  if (h.has_out) expect(&h.out, h.values, &as_it_is, "hy");
  if (c.has_out) expect(&c.out, c.values, &as_it_is, "cy");
  expect_unchanged(&x);
  expect_unchanged(&h.in);
  drop(&x);
  drop(&y);
  drop(&h.in);
  drop(&h.out);
  drop(&c.in);
  drop(&c.out);
  drop_network(&n);
}

static void recurrent_networks(void **state) {
  (void)state;
  run_cases(network_once);
}

/* ---- what is refused, by name ---- */

/* A small call of each kind, whose arguments a row of a table spoils. */
typedef struct simple {
  vcuda_dnn_tensor *x, *c, *unset;
  vcuda_dnn_pooling *pooling;
  vcuda_dnn_lrn *lrn;
  vcuda_dnn_reduction *reduction;
  vcuda_dnn_dropout *dropout;
  vcuda_dnn_rnn *rnn;
  vcuda_dnn_rnn_data *data;
} simple;

static const int ones[] = {1, 1, 1, 1, 1, 1, 1, 1, 1}, zeros[9] = {0}, twos[] = {2, 2, 2, 2};

static void make_simple(simple *to) {
  assert_int_equal(cudnnCreateTensorDescriptor(&to->x), DNN_OK);
  assert_int_equal(cudnnCreateTensorDescriptor(&to->c), DNN_OK);
  assert_int_equal(cudnnCreateTensorDescriptor(&to->unset), DNN_OK);
  assert_int_equal(cudnnSetTensorNdDescriptor(to->x, 0, 4, twos, (const int[]){8, 4, 2, 1}), DNN_OK);
  assert_int_equal(cudnnSetTensorNdDescriptor(to->c, 0, 4, ones, ones), DNN_OK);
  assert_int_equal(cudnnCreatePoolingDescriptor(&to->pooling), DNN_OK);
  assert_int_equal(cudnnCreateLRNDescriptor(&to->lrn), DNN_OK);
  assert_int_equal(cudnnCreateReduceTensorDescriptor(&to->reduction), DNN_OK);
  assert_int_equal(cudnnCreateDropoutDescriptor(&to->dropout), DNN_OK);
  assert_int_equal(cudnnCreateRNNDescriptor(&to->rnn), DNN_OK);
  assert_int_equal(cudnnCreateRNNDataDescriptor(&to->data), DNN_OK);
}

static void drop_simple(const simple *from) {
  assert_int_equal(cudnnDestroyTensorDescriptor(from->x), DNN_OK);
  assert_int_equal(cudnnDestroyTensorDescriptor(from->c), DNN_OK);
  assert_int_equal(cudnnDestroyTensorDescriptor(from->unset), DNN_OK);
  assert_int_equal(cudnnDestroyPoolingDescriptor(from->pooling), DNN_OK);
  assert_int_equal(cudnnDestroyLRNDescriptor(from->lrn), DNN_OK);
  assert_int_equal(cudnnDestroyReduceTensorDescriptor(from->reduction), DNN_OK);
  assert_int_equal(cudnnDestroyDropoutDescriptor(from->dropout), DNN_OK);
  assert_int_equal(cudnnDestroyRNNDescriptor(from->rnn), DNN_OK);
  assert_int_equal(cudnnDestroyRNNDataDescriptor(from->data), DNN_OK);
}

static int set_rnn(const simple *s, const int *v) {
  return cudnnSetRNNDescriptor_v8(s->rnn, v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11], s->dropout,
                                  (unsigned)v[12]);
}

/* Returns the status, which must have been logged with the text. */
#define REFUSED(status, text, call)                                              \
  do {                                                                           \
    char said[256];                                                              \
    int before = host_logs();                                                    \
    assert_int_equal(call, status);                                              \
    assert_int_equal(host_logs(), before + 1);                                   \
    cudnnGetLastErrorString(said, sizeof said);                                  \
    if (strstr(said, text) == NULL) fail_msg("'%s' is not in '%s'", text, said); \
  } while (0)

static void unknown_values(void **state) {
  (void)state;
  simple s;
  make_simple(&s);
  REFUSED(DNN_NOT_SUPPORTED, "mode 4", cudnnSetPoolingNdDescriptor(s.pooling, 4, 0, 2, ones, zeros, ones));
  REFUSED(DNN_NOT_SUPPORTED, "NaN propagation 2", cudnnSetPoolingNdDescriptor(s.pooling, 0, 2, 2, ones, zeros, ones));
  REFUSED(DNN_BAD_PARAM, "8 dims", cudnnSetPoolingNdDescriptor(s.pooling, 0, 0, 8, ones, zeros, ones));
  REFUSED(DNN_BAD_PARAM, "window 0", cudnnSetPoolingNdDescriptor(s.pooling, 0, 0, 2, zeros, zeros, ones));
  REFUSED(DNN_BAD_PARAM, "stride 0", cudnnSetPoolingNdDescriptor(s.pooling, 0, 0, 2, ones, zeros, zeros));
  REFUSED(DNN_BAD_PARAM, "width 0", cudnnSetLRNDescriptor(s.lrn, 0, 1, 1, 1));
  REFUSED(DNN_BAD_PARAM, "width 17", cudnnSetLRNDescriptor(s.lrn, 17, 1, 1, 1));
  REFUSED(DNN_BAD_PARAM, "beta 0.001", cudnnSetLRNDescriptor(s.lrn, 3, 1, 0.001, 1));
  REFUSED(DNN_BAD_PARAM, "k 0", cudnnSetLRNDescriptor(s.lrn, 3, 1, 1, 0));
  REFUSED(DNN_NOT_SUPPORTED, "operation 9", cudnnSetReduceTensorDescriptor(s.reduction, 9, 0, 0, 0, 0));
  REFUSED(DNN_NOT_SUPPORTED, "cudnnDataType_t 2", cudnnSetReduceTensorDescriptor(s.reduction, 0, 2, 0, 0, 0));
  REFUSED(DNN_NOT_SUPPORTED, "NaN propagation 2", cudnnSetReduceTensorDescriptor(s.reduction, 0, 0, 2, 0, 0));
  REFUSED(DNN_NOT_SUPPORTED, "indices 2", cudnnSetReduceTensorDescriptor(s.reduction, 3, 0, 0, 2, 0));
  REFUSED(DNN_NOT_SUPPORTED, "cudnnIndicesType_t 1", cudnnSetReduceTensorDescriptor(s.reduction, 3, 0, 0, 1, 1));
  REFUSED(DNN_NOT_SUPPORTED, "mode 3", cudnnDeriveBNTensorDescriptor(s.c, s.x, 3));
  REFUSED(DNN_BAD_PARAM, "0 dims", cudnnDeriveBNTensorDescriptor(s.c, s.unset, 1));
  static const struct {
    int at, value, status;
    const char *text;
  } rows[] = {{0, 1, DNN_NOT_SUPPORTED, "algorithm 1"},      {1, 4, DNN_NOT_SUPPORTED, "cell 4"},
              {2, 4, DNN_NOT_SUPPORTED, "bias mode 4"},      {3, 2, DNN_NOT_SUPPORTED, "direction mode 2"},
              {4, 1, DNN_NOT_SUPPORTED, "input mode 1"},     {5, 9, DNN_NOT_SUPPORTED, "cudnnDataType_t 9"},
              {6, 3, DNN_NOT_SUPPORTED, "computing with 3"}, {7, 4, DNN_NOT_SUPPORTED, "math type 4"},
              {8, 0, DNN_BAD_PARAM, "input size 0"},         {9, 0, DNN_BAD_PARAM, "hidden size 0"},
              {10, 1, DNN_NOT_SUPPORTED, "projection to 1"}, {11, 2, DNN_NOT_SUPPORTED, "layers of 2"},
              {12, 0, DNN_NOT_SUPPORTED, "auxFlags 0"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    int good[] = {0, 2, 2, 0, 0, 0, 0, 0, 3, 2, 2, 1, 1};
    good[rows[i].at] = rows[i].value;
    REFUSED(rows[i].status, rows[i].text, set_rnn(&s, good));
  }
  REFUSED(DNN_NOT_SUPPORTED, "cudnnDataType_t 9", cudnnSetRNNDataDescriptor(s.data, 9, 0, 2, 1, 3, twos, NULL));
  REFUSED(DNN_NOT_SUPPORTED, "layout 1", cudnnSetRNNDataDescriptor(s.data, 0, 1, 2, 1, 3, twos, NULL));
  REFUSED(DNN_BAD_PARAM, "sequence 0 has 2 steps", cudnnSetRNNDataDescriptor(s.data, 0, 0, 1, 1, 3, twos, NULL));
  REFUSED(DNN_BAD_PARAM, "0 steps", cudnnSetRNNDataDescriptor(s.data, 0, 0, 0, 1, 3, twos, NULL));
  REFUSED(DNN_BAD_PARAM, "dropout of 2", cudnnSetDropoutDescriptor(s.dropout, handle, 2, NULL, 0, 1));
  REFUSED(DNN_BAD_PARAM, "states of 8 bytes", cudnnSetDropoutDescriptor(s.dropout, handle, 0, host_memory(8), 8, 1));
  drop_simple(&s);
}

static void calls_that_cannot_be(void **state) {
  (void)state;
  simple s;
  const float one = 1, zero = 0;
  float *x = host_memory(64), *y = host_memory(64), *room = host_memory(64);
  size_t bytes;
  make_simple(&s);
  REFUSED(DNN_BAD_PARAM, "pooling descriptor is not set", cudnnPoolingForward(handle, s.pooling, &one, s.x, x, &zero, s.x, y));
  assert_int_equal(cudnnSetPoolingNdDescriptor(s.pooling, 0, 0, 1, ones, zeros, ones), DNN_OK);
  REFUSED(DNN_BAD_PARAM, "x has 4 dims", cudnnPoolingForward(handle, s.pooling, &one, s.x, x, &zero, s.x, y));
  assert_int_equal(cudnnSetPoolingNdDescriptor(s.pooling, 0, 0, 2, ones, zeros, ones), DNN_OK);
  REFUSED(DNN_BAD_PARAM, "x has 2 images", cudnnPoolingForward(handle, s.pooling, &one, s.x, x, &zero, s.c, y));
  REFUSED(DNN_BAD_PARAM, "LRN descriptor is not set",
          cudnnLRNCrossChannelForward(handle, s.lrn, 0, &one, s.x, x, &zero, s.x, y));
  assert_int_equal(cudnnSetLRNDescriptor(s.lrn, 3, 1, 1, 1), DNN_OK);
  REFUSED(DNN_NOT_SUPPORTED, "mode 1", cudnnLRNCrossChannelForward(handle, s.lrn, 1, &one, s.x, x, &zero, s.x, y));
  REFUSED(DNN_BAD_PARAM, "y is x", cudnnLRNCrossChannelForward(handle, s.lrn, 0, &one, s.x, x, &zero, s.x, x));
  REFUSED(DNN_BAD_PARAM, "dim 0 of x is 2, of y 1", cudnnLRNCrossChannelForward(handle, s.lrn, 0, &one, s.x, x, &zero, s.c, y));
  REFUSED(DNN_NOT_SUPPORTED, "algorithm 3", cudnnSoftmaxForward(handle, 3, 0, &one, s.x, x, &zero, s.x, y));
  REFUSED(DNN_NOT_SUPPORTED, "mode 2", cudnnSoftmaxForward(handle, 1, 2, &one, s.x, x, &zero, s.x, y));
  REFUSED(DNN_BAD_PARAM, "0 dims", cudnnSoftmaxForward(handle, 1, 0, &one, s.unset, x, &zero, s.x, y));
  REFUSED(DNN_BAD_PARAM, "cudnnDeriveBNTensorDescriptor",
          cudnnBatchNormalizationForwardInference(handle, 1, &one, &zero, s.x, x, s.x, y, s.c, x, x, x, x, 0));
  assert_int_equal(cudnnDeriveBNTensorDescriptor(s.c, s.x, 1), DNN_OK);
  REFUSED(DNN_BAD_PARAM, "epsilon -1",
          cudnnBatchNormalizationForwardInference(handle, 1, &one, &zero, s.x, x, s.x, y, s.c, x, x, x, x, -1));
  REFUSED(
      DNN_BAD_PARAM, "a mean with each variance",
      cudnnBatchNormalizationForwardTraining(handle, 1, &one, &zero, s.x, x, s.x, y, s.c, x, x, 1, room, NULL, 0, NULL, NULL));
  REFUSED(DNN_BAD_PARAM, "reduction descriptor is not set",
          cudnnGetReductionIndicesSize(handle, s.reduction, s.x, s.c, &bytes));
  assert_int_equal(cudnnSetReduceTensorDescriptor(s.reduction, 3, 0, 0, 1, 0), DNN_OK);
  REFUSED(DNN_BAD_PARAM, "0 bytes for indices",
          cudnnReduceTensor(handle, s.reduction, room, 0, room, 64, &one, s.x, x, &zero, s.c, y));
  REFUSED(DNN_BAD_PARAM, "workspace of 4 bytes",
          cudnnReduceTensor(handle, s.reduction, room, 64, room, 4, &one, s.x, x, &zero, s.c, y));
  REFUSED(DNN_BAD_PARAM, "dim 0 of c is 2",
          cudnnReduceTensor(handle, s.reduction, room, 64, room, 64, &one, s.c, x, &zero, s.x, y));
  assert_int_equal(host_error(), 0);
  drop_simple(&s);
}

/* A network of one step: weights of 12 numbers, states of one. */
static void networks_that_cannot_be(void **state) {
  (void)state;
  simple s;
  const int good[] = {0, 2, 2, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1};
  enum { WEIGHTS = 4 * (1 + 1 + 2) * 4 };
  float *memory = host_memory(256);
  void *address;
  size_t workspace = 0, reserve;
  make_simple(&s);
#define FORWARD(lengths, mode, y, h, hx, weight_bytes, workspace_bytes)                                                     \
  cudnnRNNForward(handle, s.rnn, mode, lengths, s.data, memory, y, memory + 1, h, hx, NULL, NULL, NULL, NULL, weight_bytes, \
                  memory + 2, workspace_bytes, memory + 20, 0, NULL)
  REFUSED(DNN_BAD_PARAM, "is not set", FORWARD(NULL, 0, s.data, s.c, NULL, WEIGHTS, 999));
  assert_int_equal(set_rnn(&s, good), DNN_OK);
  assert_int_equal(cudnnSetRNNDataDescriptor(s.data, 0, 0, 1, 1, 1, ones, NULL), DNN_OK);
  assert_int_equal(cudnnGetRNNTempSpaceSizes(handle, s.rnn, 0, s.data, &workspace, &reserve), DNN_OK);
  REFUSED(DNN_NOT_SUPPORTED, "forward mode 1", cudnnGetRNNTempSpaceSizes(handle, s.rnn, 1, s.data, &workspace, &reserve));
  REFUSED(DNN_NOT_SUPPORTED, "forward mode 1", FORWARD(NULL, 1, s.data, s.c, NULL, WEIGHTS, workspace));
  REFUSED(DNN_BAD_PARAM, "descriptor of the states", FORWARD(NULL, 0, s.data, s.c, memory, WEIGHTS, workspace));
  REFUSED(DNN_BAD_PARAM, "weights of 63 bytes", FORWARD(NULL, 0, s.data, s.c, NULL, WEIGHTS - 1, workspace));
  REFUSED(DNN_BAD_PARAM, "a workspace of", FORWARD(NULL, 0, s.data, s.c, NULL, WEIGHTS, workspace - 1));
  REFUSED(DNN_BAD_PARAM, "pseudo-layer 1",
          cudnnGetRNNWeightParams(handle, s.rnn, 1, WEIGHTS, memory, 0, s.x, &address, s.c, &address));
  REFUSED(DNN_BAD_PARAM, "linear layer 8",
          cudnnGetRNNWeightParams(handle, s.rnn, 0, WEIGHTS, memory, 8, s.x, &address, s.c, &address));
  REFUSED(DNN_BAD_PARAM, "weights of 63 bytes",
          cudnnGetRNNWeightParams(handle, s.rnn, 0, 63, memory, 0, s.x, &address, s.c, &address));
  assert_int_equal(host_error(), 0);
  const int32_t other = 0; /* not what the descriptor says: found when it runs */
  assert_int_equal(FORWARD(host_copy(&other, 4), 0, s.data, s.c, NULL, WEIGHTS, workspace), DNN_OK);
  assert_int_equal(host_error(), 719);
  assert_non_null(strstr(host_message(), "sequence 0 has 0 steps in device memory; expected 1"));
  assert_int_equal(cudnnSetRNNDataDescriptor(s.data, 0, 0, 1, 1, 2, ones, NULL), DNN_OK);
  REFUSED(DNN_BAD_PARAM, "vectors of 2 in x", FORWARD(NULL, 0, s.data, s.c, NULL, WEIGHTS, workspace));
  drop_simple(&s);
}

/* ---- no memory on the host ---- */

static int until_failure;

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);

void *__wrap_malloc(size_t bytes) {
  return until_failure > 0 && --until_failure == 0 ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t number, size_t bytes) {
  return until_failure > 0 && --until_failure == 0 ? NULL : __real_calloc(number, bytes);
}

/* All that allocates: descriptors, lengths of sequences, and the arguments of a run with them. The first status that is none of success. */
static int allocate_all(float *memory) {
  simple s = {0};
  const int good[] = {0, 1, 2, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1};
  int status = cudnnCreatePoolingDescriptor(&s.pooling);
  if (status == DNN_OK) status = cudnnCreateLRNDescriptor(&s.lrn);
  if (status == DNN_OK) status = cudnnCreateReduceTensorDescriptor(&s.reduction);
  if (status == DNN_OK) status = cudnnCreateDropoutDescriptor(&s.dropout);
  if (status == DNN_OK) status = cudnnCreateRNNDescriptor(&s.rnn);
  if (status == DNN_OK) status = cudnnCreateRNNDataDescriptor(&s.data);
  if (status == DNN_OK) status = set_rnn(&s, good);
  if (status == DNN_OK) status = cudnnSetRNNDataDescriptor(s.data, 0, 0, 1, 1, 1, ones, NULL);
  if (status == DNN_OK) status = FORWARD(NULL, 0, s.data, NULL, NULL, 16, 128);
  assert_int_equal(cudnnDestroyPoolingDescriptor(s.pooling), DNN_OK);
  assert_int_equal(cudnnDestroyLRNDescriptor(s.lrn), DNN_OK);
  assert_int_equal(cudnnDestroyReduceTensorDescriptor(s.reduction), DNN_OK);
  assert_int_equal(cudnnDestroyDropoutDescriptor(s.dropout), DNN_OK);
  assert_int_equal(cudnnDestroyRNNDescriptor(s.rnn), DNN_OK);
  assert_int_equal(cudnnDestroyRNNDataDescriptor(s.data), DNN_OK);
  return status;
}

static void failed_allocations(void **state) {
  (void)state;
  int failures = 0, status = DNN_NO_MEMORY;
  float *memory = host_memory(256);
  memset(memory, 0, 256);
  while (status != DNN_OK) {
    until_failure = ++failures;
    status = allocate_all(memory);
    until_failure = 0;
    assert_true(status == DNN_OK || status == DNN_NO_MEMORY);
  }
  assert_int_equal(failures, 8 + 1); /* six descriptors, the lengths, the arguments */
  assert_int_equal(host_error(), 0);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(pooling_of_all_kinds, start, stop),
      cmocka_unit_test_setup_teardown(lrn_of_all_widths, start, stop),
      cmocka_unit_test_setup_teardown(softmax_of_all_kinds, start, stop),
      cmocka_unit_test_setup_teardown(softmax_of_large_numbers, start, stop),
      cmocka_unit_test_setup_teardown(batch_normalization, start, stop),
      cmocka_unit_test_setup_teardown(batch_normalization_in_training, start, stop),
      cmocka_unit_test_setup_teardown(reductions, start, stop),
      cmocka_unit_test_setup_teardown(recurrent_networks, start, stop),
      cmocka_unit_test_setup_teardown(unknown_values, start, stop),
      cmocka_unit_test_setup_teardown(calls_that_cannot_be, start, stop),
      cmocka_unit_test_setup_teardown(networks_that_cannot_be, start, stop),
      cmocka_unit_test_setup_teardown(failed_allocations, start, stop),
  };
  if (argc > 1) cases = atoi(argv[1]);
  if (argc > 2) first_seed = atoi(argv[2]);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
