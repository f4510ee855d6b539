/* Normalisation of rows: softmax, layer normalisation and its fused forms; and activations with a bias. */
#include "kernel.h"

#include <math.h>
#include <string.h>

/* ---- softmax ---- */

typedef struct row {
  const void *in, *bias; /* bias NULL: none */
  void *out;
  vcuda_type from, to;
  int64_t in_at, bias_at, out_at, length;
} row;

static double row_value(const row *r, int64_t i) {
  return vcuda_load_real(r->from, r->in, r->in_at + i) +
         (r->bias == NULL ? 0 : vcuda_load_real(r->from, r->bias, r->bias_at + i));
}

static void softmax(const row *r, bool logarithm) {
  double greatest = -INFINITY, sum = 0;
  for (int64_t i = 0; i < r->length; i++) greatest = fmax(greatest, row_value(r, i));
  for (int64_t i = 0; i < r->length; i++) sum += exp(row_value(r, i) - greatest);
  for (int64_t i = 0; i < r->length; i++) {
    double value = row_value(r, i) - greatest;
    vcuda_store_real(r->to, r->out, r->out_at + i, logarithm ? value - log(sum) : exp(value) / sum);
  }
}

static void softmax_rows(const vcuda_launch *launch, int64_t rows, int64_t length, int64_t in_stride, int64_t out_stride,
                         bool logarithm) {
  row r = {.from = vcuda_type_of(launch, 1), .to = vcuda_type_of(launch, 0), .length = length};
  if (rows == 0) return;
  r.in = vcuda_input(launch, 1, (rows - 1) * in_stride + length);
  r.out = vcuda_output(launch, 0, (rows - 1) * out_stride + length);
  for (int64_t at = 0; r.in != NULL && r.out != NULL && at < rows; at++) {
    r.in_at = at * in_stride;
    r.out_at = at * out_stride;
    softmax(&r, logarithm);
  }
}

/* <..., log2 of the length, logarithm>(out, in, rows, stride, length) */
static void run_softmax_short(const vcuda_launch *launch) {
  int64_t stride = vcuda_integer(launch, 3);
  softmax_rows(launch, vcuda_integer(launch, 2), vcuda_integer(launch, 4), stride, stride, vcuda_flag(launch->kernel, 4));
}

/* <..., epilogue>(out, in, length, in's stride, out's stride): a block for each row */
static void run_softmax_long(const vcuda_launch *launch) {
  softmax_rows(launch, launch->grid[0], vcuda_integer(launch, 2), vcuda_integer(launch, 3), vcuda_integer(launch, 4),
               vcuda_names(launch->kernel, 4, "LogSoftMax"));
}

/* <..., inner>(out, in, bias, length, rows, broadcast): a row of bias is shared by `broadcast` adjacent rows, or rows of
 * bias alternate. */
static void run_softmax_biased(const vcuda_launch *launch) {
  int64_t length = vcuda_integer(launch, 3), rows = vcuda_integer(launch, 4), broadcast = vcuda_integer(launch, 5);
  bool inner = vcuda_flag(launch->kernel, 4);
  int64_t biases = rows == 0 ? 0 : inner ? (rows - 1) / broadcast + 1 : rows < broadcast ? rows : broadcast;
  row r = {.from = vcuda_type_of(launch, 1), .to = vcuda_type_of(launch, 0), .length = length};
  r.in = vcuda_input(launch, 1, rows * length);
  r.bias = vcuda_input(launch, 2, biases * length);
  r.out = vcuda_output(launch, 0, rows * length);
  for (int64_t at = 0; r.in != NULL && r.bias != NULL && r.out != NULL && at < rows; at++) {
    r.in_at = r.out_at = at * length;
    r.bias_at = (inner ? at / broadcast : at % broadcast) * length;
    softmax(&r, false);
  }
}

/* ---- layer normalisation ---- */

typedef struct norm {
  const vcuda_launch *launch;
  int out, in, gamma, beta, skip, bias, sum; /* indices of parameters; skip, bias, sum: -1 if the kernel has none */
  int64_t rows, length, skip_count;          /* skip_count: elements of the skip tensor, which is repeated */
  double epsilon;
  bool simplified; /* without the mean: RMS */
  int broadcast;   /* how rows share gamma and beta: 0 one for all; n > 0 one for n adjacent rows; n < 0 row % -n */
} norm;

typedef struct norm_data {
  const void *in, *gamma, *beta, *skip, *bias;
  void *out, *sum, *mean, *deviation;
} norm_data;

/* An optional input: true if it is omitted, or if its memory is accessible. */
static bool optional_input(const vcuda_launch *launch, int i, int64_t count, const void **data) {
  *data = NULL;
  if (i < 0 || vcuda_address(launch, i) == NULL) return true;
  *data = vcuda_input(launch, i, count);
  return *data != NULL;
}

static bool optional_output(const vcuda_launch *launch, int i, int64_t count, void **data) {
  *data = NULL;
  if (i < 0 || vcuda_address(launch, i) == NULL) return true;
  *data = vcuda_output(launch, i, count);
  return *data != NULL;
}

static int64_t scale_row(const norm *n, int64_t at) {
  return n->broadcast == 0 ? 0 : n->broadcast > 0 ? at / n->broadcast : at % -n->broadcast;
}

/* An element before normalisation: the sum of input, skip and bias. */
static double norm_value(const norm *n, const norm_data *d, int64_t at, int64_t i) {
  vcuda_type type = vcuda_type_of(n->launch, n->in);
  int64_t index = at * n->length + i;
  double value = vcuda_load_real(type, d->in, index);
  if (d->skip != NULL) value += vcuda_load_real(type, d->skip, index % n->skip_count);
  if (d->bias != NULL) value += vcuda_load_real(type, d->bias, i);
  return value;
}

static void norm_row(const norm *n, const norm_data *d, int64_t at) {
  vcuda_type to = vcuda_type_of(n->launch, n->out), scale = vcuda_type_of(n->launch, n->gamma);
  double mean = 0, square = 0;
  for (int64_t i = 0; i < n->length && !n->simplified; i++) mean += norm_value(n, d, at, i) / (double)n->length;
  for (int64_t i = 0; i < n->length; i++) square += pow(norm_value(n, d, at, i) - mean, 2) / (double)n->length;
  double deviation = 1 / sqrt(square + n->epsilon);
  int64_t scales = scale_row(n, at) * n->length;
  for (int64_t i = 0; i < n->length; i++) {
    double value = norm_value(n, d, at, i);
    if (d->sum != NULL) vcuda_store_real(to, d->sum, at * n->length + i, value);
    value = (value - mean) * deviation;
    if (d->gamma != NULL) value *= vcuda_load_real(scale, d->gamma, scales + i);
    if (d->beta != NULL) value += vcuda_load_real(scale, d->beta, scales + i);
    vcuda_store_real(to, d->out, at * n->length + i, value);
  }
  if (d->mean != NULL) vcuda_store_real(vcuda_type_of(n->launch, 1), d->mean, at, mean);
  if (d->deviation != NULL) vcuda_store_real(vcuda_type_of(n->launch, 2), d->deviation, at, deviation);
}

static void run_norm(const norm *n, int mean, int deviation) {
  const vcuda_launch *launch = n->launch;
  int64_t count = n->rows * n->length, scales = n->rows == 0 ? 0 : n->length;
  norm_data d = {0};
  for (int64_t at = 0; at < n->rows; at++) {
    scales = (scale_row(n, at) + 1) * n->length > scales ? (scale_row(n, at) + 1) * n->length : scales;
  }
  bool there = optional_input(launch, n->in, count, &d.in) && optional_input(launch, n->gamma, scales, &d.gamma) &&
               optional_input(launch, n->beta, scales, &d.beta) && optional_input(launch, n->skip, n->skip_count, &d.skip) &&
               optional_input(launch, n->bias, n->length, &d.bias) && optional_output(launch, n->out, count, &d.out) &&
               optional_output(launch, n->sum, count, &d.sum) && optional_output(launch, mean, n->rows, &d.mean) &&
               optional_output(launch, deviation, n->rows, &d.deviation);
  for (int64_t at = 0; there && d.in != NULL && d.out != NULL && at < n->rows; at++) norm_row(n, &d, at);
}

/* <In, Sum, Out, simplified>(out, mean, deviation, in, rows, length, epsilon, gamma, beta, broadcast, skip, bias, sum) */
static void run_layer_norm(const vcuda_launch *launch) {
  norm n = {.launch = launch, .out = 0, .in = 3, .gamma = 7, .beta = 8, .skip = 10, .bias = 11, .sum = 12};
  n.rows = vcuda_integer(launch, 4);
  n.length = vcuda_integer(launch, 5);
  n.skip_count = n.rows * n.length;
  n.epsilon = vcuda_real(launch, 6);
  n.simplified = vcuda_flag(launch->kernel, 3);
  n.broadcast = (int)vcuda_integer(launch, 9);
  run_norm(&n, 1, 2);
}

/* <..., simplified>(out, sum, in, skip, bias, gamma, beta, epsilon, length, skip's size): a block for each row */
static void run_skip_layer_norm(const vcuda_launch *launch) {
  norm n = {.launch = launch, .out = 0, .sum = 1, .in = 2, .skip = 3, .bias = 4, .gamma = 5, .beta = 6};
  n.rows = launch->grid[0];
  n.length = vcuda_integer(launch, 8);
  n.skip_count = vcuda_integer(launch, 9);
  n.epsilon = vcuda_real(launch, 7);
  n.simplified = vcuda_flag(launch->kernel, launch->kernel->type_count - 1);
  run_norm(&n, -1, -1);
}

/* <T, Accumulator, p>(in, out, length, lines, stride): each line is divided by its norm. */
static void run_lp_norm(const vcuda_launch *launch) {
  bool squares = launch->kernel->types[2].value == 2;
  int64_t length = vcuda_integer(launch, 2), lines = vcuda_integer(launch, 3), stride = vcuda_integer(launch, 4);
  vcuda_type type = vcuda_type_of(launch, 0);
  const void *in = vcuda_input(launch, 0, length * lines);
  void *out = vcuda_output(launch, 1, length * lines);
  for (int64_t line = 0; in != NULL && out != NULL && line < lines; line++) {
    int64_t start = line / stride * length * stride + line % stride;
    double sum = 0;
    for (int64_t i = 0; i < length; i++) {
      double value = vcuda_load_real(type, in, start + i * stride);
      sum += squares ? value * value : fabs(value);
    }
    sum = squares ? sqrt(sum) : sum;
    for (int64_t i = 0; i < length; i++) {
      vcuda_store_real(type, out, start + i * stride, sum == 0 ? 0 : vcuda_load_real(type, in, start + i * stride) / sum);
    }
  }
}

/* ---- activations that ORT fuses with a bias ---- */

static double gelu(double x, const double *factors) {
  (void)factors;
  return 0.5 * x * (1 + erf(x * sqrt(0.5)));
}

static double fast_gelu(double x, const double *f) {
  return x * (f[0] + f[0] * tanh(x * (f[2] * x * x + f[1])));
}

static void activate(const vcuda_launch *launch, int in, int64_t count, int64_t biases,
                     double (*function)(double, const double *), const double *factors) {
  vcuda_type type = vcuda_type_of(launch, in);
  const void *from = vcuda_input(launch, in, count), *bias = NULL;
  if (from == NULL || !optional_input(launch, in + 1, biases, &bias)) return;
  void *to = vcuda_output(launch, in + 2, count);
  for (int64_t i = 0; to != NULL && i < count; i++) {
    double x = vcuda_load_real(type, from, i) + (bias == NULL ? 0 : vcuda_load_real(type, bias, i % biases));
    vcuda_store_real(type, to, i, function(x, factors));
  }
}

/* (bias's size, in, bias, out): a block, or a column of them, for each row */
static void run_bias_gelu(const vcuda_launch *launch) {
  int64_t biases = vcuda_integer(launch, 0);
  activate(launch, 1, biases * launch->grid[0], biases, gelu, NULL);
}

/* (a, b, c, N, bias's size, in, bias, out) */
static void run_fast_gelu(const vcuda_launch *launch) {
  double factors[3];
  for (int i = 0; i < 3; i++) factors[i] = vcuda_real(launch, i);
  activate(launch, 5, vcuda_integer(launch, 3), vcuda_integer(launch, 4), fast_gelu, factors);
}

/* The same of pairs of float16: N and the bias's size count pairs. */
static void run_fast_gelu_pairs(const vcuda_launch *launch) {
  double factors[3];
  for (int i = 0; i < 3; i++) factors[i] = vcuda_load_real(VCUDA_FLOAT16, vcuda_argument(launch, i), 0);
  activate(launch, 5, 2 * vcuda_integer(launch, 3), 2 * vcuda_integer(launch, 4), fast_gelu, factors);
}

static bool holds_pairs(vcuda_kernel *kernel) {
  for (int i = 5; i < 8; i++) {
    kernel->arguments[i].type = VCUDA_FLOAT16;
    kernel->arguments[i].size = 2;
  }
  return true;
}

/* (in, scale, bias, means, variances, the variances' correction, epsilon, elements of a channel, channels, out, N): a mean for each image
 * and channel */
static void run_instance_norm(const vcuda_launch *launch) {
  vcuda_type type = vcuda_type_of(launch, 0), statistics = vcuda_type_of(launch, 3);
  int64_t inner = vcuda_integer(launch, 7), channels = vcuda_integer(launch, 8), count = vcuda_integer(launch, 10);
  if (inner == 0 || channels == 0) return;
  int64_t planes = count / inner;
  double correction = vcuda_real(launch, 5), epsilon = vcuda_real(launch, 6);
  const void *in = vcuda_input(launch, 0, count), *scale = vcuda_input(launch, 1, channels),
             *bias = vcuda_input(launch, 2, channels);
  const void *means = vcuda_input(launch, 3, planes), *variances = vcuda_input(launch, 4, planes);
  void *out = vcuda_output(launch, 9, count);
  if (in == NULL || scale == NULL || bias == NULL || means == NULL || variances == NULL || out == NULL) return;
  for (int64_t i = 0; i < count; i++) {
    int64_t plane = i / inner, channel = plane % channels;
    double variance = vcuda_load_real(statistics, variances, plane) * correction;
    double x = (vcuda_load_real(type, in, i) - vcuda_load_real(statistics, means, plane)) / sqrt(variance + epsilon);
    vcuda_store_real(type, out, i, x * vcuda_load_real(type, scale, channel) + vcuda_load_real(type, bias, channel));
  }
}

const vcuda_form vcuda_norm_forms[] = {
    {"softmax_warp_forward", "ppnnn", run_softmax_short, NULL},
    {"softmax_warp_forward_resource_efficient", "ppnnn", run_softmax_short, NULL},
    {"softmax_block_forward", "ppnnn", run_softmax_long, NULL},
    {"BiasSoftmaxWarpForward", "pppnnd", run_softmax_biased, NULL},
    {"cuApplyLayerNorm", "ppppnnvppnppp", run_layer_norm, NULL},
    {"SkipLayerNormKernel", "pppppppvnn", run_skip_layer_norm, NULL},
    {"SkipLayerNormKernelSmall", "pppppppvnn", run_skip_layer_norm, NULL},
    {"LpNormKernel", "ppnnn", run_lp_norm, NULL},
    {"_InstanceNormKernel", "pppppvvddpn", run_instance_norm, NULL},
    {"BiasGeluKernel", "nppp", run_bias_gelu, NULL},
    {"VectorizedBiasGeluKernel", "nppp", run_bias_gelu, NULL},
    {"FastGeluKernel", "vvvnnppp", run_fast_gelu, NULL},
    {"FastGeluKernel2", "ooonnppp", run_fast_gelu_pairs, holds_pairs},
    {.name = NULL},
};
