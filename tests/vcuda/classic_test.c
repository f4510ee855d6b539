/* cuDNN's older interface of the virtual GPU without convolutions and recurrent networks: random descriptors and values, compared with
 * loops that implement the formulas.  usage: vcuda_classic [CASES [FIRST]]: how many for each function, and the seed of the first */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "drawn.h"
#include "host.h"

#include "refused.h"

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
      int width = p->window[i] > 0 ? p->window[i] : 1;
      index[i + 2] = at[i + 2] * p->stride[i] - p->padding[i] + rest % width;
      in = in && index[i + 2] >= 0 && index[i + 2] < x->dims[i + 2];
      rest /= width;
    }
    if (!in) continue;
    double value = load(x, place_of(x, index));
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
  tensor x = draw_tensor(type, p.rank + 2, x_dims, draw(0, 1)), y = draw_tensor(type, p.rank + 2, y_dims, draw(0, 1));
  factors f = draw_factors(type);
  vcuda_dnn_pooling *descriptor;
  spoil(&x);
  assert_int_equal(cudnnCreatePoolingDescriptor(&descriptor), DNN_OK);
  assert_int_equal(cudnnSetPoolingNdDescriptor(descriptor, p.mode, p.nan, p.rank, p.window, p.padding, p.stride), DNN_OK);
  assert_int_equal(
      cudnnPoolingForward(handle, descriptor, f.alpha_bytes, x.descriptor, x.data, f.beta_bytes, y.descriptor, y.data), DNN_OK);
  for (int i = 0; i < count_of(&y); i++) {
    int at[5];
    index_of(&y, i, at);
    values[i] = pool_at(&p, &x, at);
  }
  expect_tensor(&y, values, &f, "pooling");
  expect_unchanged(&x);
  assert_int_equal(cudnnDestroyPoolingDescriptor(descriptor), DNN_OK);
  drop_tensor(&x);
  drop_tensor(&y);
}

static void pooling_of_all_kinds(void **state) {
  (void)state;
  run_cases(pool_once);
}

/* ---- local response normalisation ---- */

static void lrn_once(void) {
  int type = draw(0, TYPES - 1), rank = draw(3, 5), dims[5] = {0}, width = draw(1, 7);
  for (int i = 0; i < rank; i++) dims[i] = draw(1, 5 - (i > 2) * 2);
  double alpha = draw(1, 20) / 10.0, beta = draw(1, 8) / 8.0, k = draw(1, 16) / 8.0;
  tensor x = draw_tensor(type, rank, dims, draw(0, 1)), y = draw_tensor(type, rank, dims, draw(0, 1));
  factors f = draw_factors(type);
  vcuda_dnn_lrn *descriptor;
  assert_int_equal(cudnnCreateLRNDescriptor(&descriptor), DNN_OK);
  assert_int_equal(cudnnSetLRNDescriptor(descriptor, (unsigned)width, alpha, beta, k), DNN_OK);
  assert_int_equal(cudnnLRNCrossChannelForward(handle, descriptor, 0, f.alpha_bytes, x.descriptor, x.data, f.beta_bytes,
                                               y.descriptor, y.data),
                   DNN_OK);
  for (int i = 0; i < count_of(&x); i++) {
    int at[5] = {0}, near[5];
    double squares = 0;
    index_of(&x, i, at);
    memcpy(near, at, sizeof near);
    for (int c = at[1] - (width - 1) / 2; c <= at[1] + width / 2; c++) {
      if (c < 0 || c >= dims[1]) continue;
      near[1] = c;
      squares += pow(load(&x, place_of(&x, near)), 2);
    }
    values[i] = load(&x, place_of(&x, at)) / pow(k + alpha / width * squares, beta);
  }
  expect_tensor(&y, values, &f, "LRN");
  expect_unchanged(&x);
  assert_int_equal(cudnnDestroyLRNDescriptor(descriptor), DNN_OK);
  drop_tensor(&x);
  drop_tensor(&y);
}

static void lrn_of_all_widths(void **state) {
  (void)state;
  run_cases(lrn_once);
}

/* ---- softmax ---- */

static void softmax_once(void) {
  int type = draw(0, TYPES - 1), rank = draw(2, 5), dims[5], algorithm = draw(0, 2), mode = draw(0, 1);
  for (int i = 0; i < rank; i++) dims[i] = draw(1, 4);
  tensor x = draw_tensor(type, rank, dims, draw(0, 1)), y = draw_tensor(type, rank, dims, draw(0, 1));
  factors f = draw_factors(type);
  assert_int_equal(
      cudnnSoftmaxForward(handle, algorithm, mode, f.alpha_bytes, x.descriptor, x.data, f.beta_bytes, y.descriptor, y.data),
      DNN_OK);
  for (int i = 0; i < count_of(&x); i++) {
    int at[5], other[5];
    double sum = 0;
    index_of(&x, i, at);
    for (int j = 0; j < count_of(&x); j++) { /* in the same image; in the channel mode at the same position */
      index_of(&x, j, other);
      bool together = at[0] == other[0];
      for (int dim = 2; dim < rank && mode == 1; dim++) together = together && at[dim] == other[dim];
      sum += together ? exp(load(&x, place_of(&x, other))) : 0;
    }
    double raised = exp(load(&x, place_of(&x, at)));
    values[i] = algorithm == 2 ? log(raised / sum) : raised / sum;
  }
  expect_tensor(&y, values, &f, "softmax");
  expect_unchanged(&x);
  drop_tensor(&x);
  drop_tensor(&y);
}

static void softmax_of_all_kinds(void **state) {
  (void)state;
  run_cases(softmax_once);
}

/* Numbers whose exponentials overflow: the accurate algorithm subtracts the maximum first, the fast one does not. */
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

/* The index of the parameter for this element. */
static int parameter_of(const tensor *x, int mode, const int *at) {
  int number = at[1];
  for (int i = 2; i < x->rank && mode == 0; i++) number = number * x->dims[i] + at[i];
  return number;
}

static tensor draw_batch(void) {
  int rank = draw(2, 5), dims[5];
  for (int i = 0; i < rank; i++) dims[i] = draw(1, 4);
  return draw_tensor(draw(0, TYPES - 1), rank, dims, draw(0, 1));
}

static void inference_once(void) {
  int mode = draw(0, 2);
  tensor x = draw_batch(), y = draw_tensor(x.type, x.rank, x.dims, draw(0, 1));
  parameters p = derive(&x, mode);
  void *scale = draw_parameters(&p, false), *bias = draw_parameters(&p, false), *mean = draw_parameters(&p, false),
       *variance = draw_parameters(&p, true);
  double epsilon = draw(0, 4) / 8.0;
  factors f = draw_factors(x.type);
  assert_int_equal(cudnnBatchNormalizationForwardInference(handle, mode, f.alpha_bytes, f.beta_bytes, x.descriptor, x.data,
                                                           y.descriptor, y.data, p.descriptor, scale, bias, mean, variance,
                                                           epsilon),
                   DNN_OK);
  for (int i = 0; i < count_of(&x); i++) {
    int at[5];
    index_of(&x, i, at);
    int of = parameter_of(&x, mode, at);
    double deviation = sqrt(vcuda_load_real(p.type, variance, of) + epsilon);
    values[i] =
        (load(&x, place_of(&x, at)) - vcuda_load_real(p.type, mean, of)) / deviation * vcuda_load_real(p.type, scale, of) +
        vcuda_load_real(p.type, bias, of);
  }
  expect_tensor(&y, values, &f, "batch normalisation");
  expect_unchanged(&x);
  assert_int_equal(cudnnDestroyTensorDescriptor(p.descriptor), DNN_OK);
  drop_tensor(&x);
  drop_tensor(&y);
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
  for (int i = 0; i < count_of(x); i++) {
    int at[5];
    index_of(x, i, at);
    if (parameter_of(x, mode, at) != parameter) continue;
    m.mean += load(x, place_of(x, at));
    squares += pow(load(x, place_of(x, at)), 2);
    m.count++;
  }
  m.mean /= m.count;
  m.variance = fmax(squares / m.count - m.mean * m.mean, 0);
  return m;
}

/* Each pair of the four statistics is optional. With a factor of 1 the running ones are not read. */
static void training_once(void) {
  int mode = draw(0, 2);
  tensor x = draw_batch(), y = draw_tensor(x.type, x.rank, x.dims, draw(0, 1));
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
  for (int i = 0; i < count_of(&x); i++) {
    int at[5];
    index_of(&x, i, at);
    int of = parameter_of(&x, mode, at);
    moments m = measure(&x, mode, of);
    values[i] = (load(&x, place_of(&x, at)) - m.mean) / sqrt(m.variance + epsilon) * vcuda_load_real(p.type, scale, of) +
                vcuda_load_real(p.type, bias, of);
  }
  expect_tensor(&y, values, &f, "training");
  assert_int_equal(cudnnDestroyTensorDescriptor(p.descriptor), DNN_OK);
  drop_tensor(&x);
  drop_tensor(&y);
}

static void batch_normalization_in_training(void **state) {
  (void)state;
  run_cases(training_once);
}

/* ---- reductions ---- */

enum { ADD, MUL, MIN, MAX, AMAX, AVG, NORM1, NORM2, MUL_NO_ZEROS, OPERATIONS };

/* Collect the elements of a that are reduced to one element of c, in the order of their indices. */
static int collect(const tensor *a, const tensor *c, const int *at, double *list) {
  int found = 0;
  for (int i = 0; i < count_of(a); i++) {
    int index[DNN_MAX_RANK];
    bool belongs = true;
    index_of(a, i, index);
    for (int dim = 0; dim < a->rank; dim++) belongs = belongs && (c->dims[dim] != a->dims[dim] || index[dim] == at[dim]);
    if (belongs) list[found++] = load(a, place_of(a, index));
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
  tensor a = draw_tensor(type, rank, dims, draw(0, 1)), c = draw_tensor(type, rank, c_dims, draw(0, 1));
  factors f = draw_factors(type);
  vcuda_dnn_reduction *descriptor;
  size_t indices_bytes = 999, workspace_bytes = 999;
  static double list[MOST];
  spoil(&a);
  assert_int_equal(cudnnCreateReduceTensorDescriptor(&descriptor), DNN_OK);
  assert_int_equal(cudnnSetReduceTensorDescriptor(descriptor, operation, type == 1, nan, wants_indices, 0), DNN_OK);
  assert_int_equal(cudnnGetReductionIndicesSize(handle, descriptor, a.descriptor, c.descriptor, &indices_bytes), DNN_OK);
  assert_int_equal(cudnnGetReductionWorkspaceSize(handle, descriptor, a.descriptor, c.descriptor, &workspace_bytes), DNN_OK);
  assert_int_equal(indices_bytes, has_indices ? (size_t)count_of(&c) * 4 : 0);
  int32_t *indices = has_indices ? host_memory(indices_bytes) : NULL;
  assert_int_equal(cudnnReduceTensor(handle, descriptor, indices, indices_bytes, host_memory(workspace_bytes), workspace_bytes,
                                     f.alpha_bytes, a.descriptor, a.data, f.beta_bytes, c.descriptor, c.data),
                   DNN_OK);
  for (int i = 0; i < count_of(&c); i++) {
    int at[DNN_MAX_RANK], best;
    index_of(&c, i, at);
    values[i] = reduce(operation, list, collect(&a, &c, at, list), nan, &best);
    if (has_indices) assert_int_equal(indices[i], best < 0 ? 0 : best);
  }
  expect_tensor(&c, values, &f, "reduction");
  expect_unchanged(&a);
  assert_int_equal(cudnnDestroyReduceTensorDescriptor(descriptor), DNN_OK);
  drop_tensor(&a);
  drop_tensor(&c);
}

static void reductions(void **state) {
  (void)state;
  run_cases(reduce_once);
}

/* ---- refusals, which name the problem ---- */

static const int zeros[9] = {0};

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

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(pooling_of_all_kinds, start, stop),
      cmocka_unit_test_setup_teardown(lrn_of_all_widths, start, stop),
      cmocka_unit_test_setup_teardown(softmax_of_all_kinds, start, stop),
      cmocka_unit_test_setup_teardown(softmax_of_large_numbers, start, stop),
      cmocka_unit_test_setup_teardown(batch_normalization, start, stop),
      cmocka_unit_test_setup_teardown(batch_normalization_in_training, start, stop),
      cmocka_unit_test_setup_teardown(reductions, start, stop),
      cmocka_unit_test_setup_teardown(unknown_values, start, stop),
      cmocka_unit_test_setup_teardown(calls_that_cannot_be, start, stop),
  };
  read_options(argc, argv);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
