/* Elementwise operators: unary and binary ones, casts, Where, Clip, sums of many inputs. */
#include "kernel.h"

#include <math.h>
#include <string.h>

/* Holds every signed and unsigned 64-bit number, and the stored bits of their products. */
__extension__ typedef __int128 wide;
__extension__ typedef unsigned __int128 unsigned_wide;

typedef double (*real_function)(double a, double b, const double *parameters);
typedef wide (*whole_function)(wide a, wide b);

typedef struct operation {
  const char *name;
  real_function real;
  whole_function whole; /* NULL: whole numbers use `real`, or are not supported */
  int parameters;       /* number of floats in the functor */
} operation;

#define REAL(name, expression)                              \
  static double name(double a, double b, const double *p) { \
    (void)b, (void)p;                                       \
    return expression;                                      \
  }
#define WHOLE(name, expression)      \
  static wide name(wide a, wide b) { \
    (void)b;                         \
    return expression;               \
  }

REAL(identity, a)
REAL(absolute, fabs(a))
REAL(negative, -a)
REAL(round_up, ceil(a))
REAL(round_down, floor(a))
REAL(round_even, nearbyint(a))
REAL(reciprocal, 1 / a)
REAL(square_root, sqrt(a))
REAL(exponential, exp(a))
REAL(logarithm, log(a))
REAL(sine, sin(a))
REAL(cosine, cos(a))
REAL(hyperbolic, tanh(a))
REAL(error_function, erf(a))
REAL(sigmoid, 1 / (1 + exp(-a)))
REAL(relu, a > 0 || isnan(a) ? a : 0)
REAL(sign, a > 0 ? 1 : a < 0 ? -1 : a)
REAL(softplus, a > 0 ? a + log1p(exp(-a)) : log1p(exp(a)))
REAL(softsign, a / (1 + fabs(a)))
REAL(gelu, 0.5 * a * (1 + erf(a * sqrt(0.5))))
REAL(hard_swish, a *fmax(0, fmin(1, a / 6 + 0.5)))
REAL(elu, a > 0 ? a : p[0] * expm1(a))
REAL(leaky_relu, a > 0 ? a : p[0] * a)
REAL(thresholded_relu, a > p[0] ? a : 0)
REAL(quick_gelu, a / (1 + exp(-p[0] * a)))
REAL(selu, p[1] * (a > 0 ? a : p[0] * expm1(a)))
REAL(hard_sigmoid, fmax(0, fmin(1, p[0] * a + p[1])))
REAL(affine, p[0] * a + p[1])
REAL(scaled_tanh, p[0] * tanh(p[1] * a))
REAL(parametric_softplus, p[0] * log1p(exp(p[1] * a)))
REAL(divide_by, a / p[0])
REAL(is_nan, isnan(a))
REAL(is_infinite, isinf(a))
REAL(is_infinity, isinf(a) && a > 0)
REAL(is_negative_infinity, isinf(a) && a < 0)
WHOLE(absolute_whole, a < 0 ? -a : a)
WHOLE(negative_whole, -a)
WHOLE(sign_whole, (a > 0) - (a < 0))
WHOLE(not_whole, a == 0)

REAL(add, a + b)
REAL(subtract, a - b)
REAL(multiply, a *b)
REAL(divide, a / b)
REAL(power, pow(a, b))
REAL(floor_modulo, isinf(b) && isfinite(a) ? fmod(a, b) : a - floor(a / b) * b)
REAL(modulo, fmod(a, b))
REAL(parametric_relu, a > 0 ? a : a * b)
REAL(greatest, isnan(a) || a > b ? a : b)
REAL(least, isnan(a) || a < b ? a : b)
REAL(equal, a == b)
REAL(greater, a > b)
REAL(greater_or_equal, a >= b)
REAL(less, a < b)
REAL(less_or_equal, a <= b)
WHOLE(add_whole, a + b)
WHOLE(subtract_whole, a - b)
WHOLE(divide_whole, b == 0 ? -1 : a / b) /* division by 0 gives all ones, as on the hardware */
WHOLE(modulo_whole, b == 0 ? -1 : a % b)
WHOLE(floor_modulo_whole, b == 0 ? -1 : (a % b != 0 && (a < 0) != (b < 0) ? a % b + b : a % b))
WHOLE(parametric_relu_whole, a > 0 ? a : a * b)
WHOLE(greatest_whole, a > b ? a : b)
WHOLE(least_whole, a < b ? a : b)
WHOLE(equal_whole, a == b)
WHOLE(greater_whole, a > b)
WHOLE(greater_or_equal_whole, a >= b)
WHOLE(less_whole, a < b)
WHOLE(less_or_equal_whole, a <= b)
WHOLE(and_whole, a != 0 && b != 0)
WHOLE(or_whole, a != 0 || b != 0)
WHOLE(xor_whole, (a != 0) != (b != 0))

static wide multiply_whole(wide a, wide b) {
  return (wide)((unsigned_wide)a * (unsigned_wide)b);
}

static const operation unary[] = {
    {"Abs", absolute, absolute_whole, 0},
    {"SaturatingAbs", absolute, absolute_whole, 0},
    {"Neg", negative, negative_whole, 0},
    {"Ceil", round_up, NULL, 0},
    {"Floor", round_down, NULL, 0},
    {"Round", round_even, NULL, 0},
    {"Reciprocal", reciprocal, NULL, 0},
    {"Sqrt", square_root, NULL, 0},
    {"Exp", exponential, NULL, 0},
    {"Log", logarithm, NULL, 0},
    {"Sin", sine, NULL, 0},
    {"Cos", cosine, NULL, 0},
    {"Tanh", hyperbolic, NULL, 0},
    {"Erf", error_function, NULL, 0},
    {"Sigmoid", sigmoid, NULL, 0},
    {"Relu", relu, NULL, 0},
    {"Sign", sign, sign_whole, 0},
    {"Not", NULL, not_whole, 0},
    {"Softplus", softplus, NULL, 0},
    {"Softsign", softsign, NULL, 0},
    {"Gelu", gelu, NULL, 0},
    {"HardSwish", hard_swish, NULL, 0},
    {"Elu", elu, NULL, 1},
    {"LeakyRelu", leaky_relu, NULL, 1},
    {"ThresholdedRelu", thresholded_relu, NULL, 1},
    {"QuickGelu", quick_gelu, NULL, 1},
    {"Selu", selu, NULL, 2},
    {"HardSigmoid", hard_sigmoid, NULL, 2},
    {"Affine", affine, NULL, 2},
    {"ScaledTanh", scaled_tanh, NULL, 2},
    {"ParametricSoftplus", parametric_softplus, NULL, 2},
    {.name = NULL},
};
/* The divisor of a mean has the elements' type. Parameters of other operations are floats. */
static const operation mean_division = {"Div", divide_by, NULL, 1};
static const operation cast = {"Cast", identity, NULL, 0};
/* Their functors have other names: onnxruntime::cuda::_IsInf<T, is positive infinity one, is negative infinity one>. */
static const operation nan_test = {"_IsNan", is_nan, NULL, 0};
static const operation infinity_tests[] = {
    {"_IsInf", is_infinite, NULL, 0}, {"_IsInf", is_infinity, NULL, 0}, {"_IsInf", is_negative_infinity, NULL, 0}};

static const operation binary[] = {
    {"Add", add, add_whole, 0},
    {"Sub", subtract, subtract_whole, 0},
    {"Mul", multiply, multiply_whole, 0},
    {"Div", divide, divide_whole, 0},
    {"Pow", power, NULL, 0},
    {"Pow_7", power, NULL, 0},
    {"Mod", floor_modulo, floor_modulo_whole, 0},
    {"Fmod", modulo, modulo_whole, 0},
    {"PRelu", parametric_relu, parametric_relu_whole, 0},
    {"Max", greatest, greatest_whole, 0},
    {"Min", least, least_whole, 0},
    {"Equal", equal, equal_whole, 0},
    {"Greater", greater, greater_whole, 0},
    {"GreaterOrEqual", greater_or_equal, greater_or_equal_whole, 0},
    {"Less", less, less_whole, 0},
    {"LessOrEqual", less_or_equal, less_or_equal_whole, 0},
    {"And", NULL, and_whole, 0},
    {"Or", NULL, or_whole, 0},
    {"Xor", NULL, xor_whole, 0},
    {.name = NULL},
};

/* ---- operations by the functor's name, such as onnxruntime::cuda::OP_Add<float, float, float> ---- */

static const operation *find_operation(const operation *table, const vcuda_kernel *kernel) {
  for (int i = 0; i < kernel->type_count; i++) {
    const char *text = strstr(kernel->types[i].text, "cuda::OP_");
    if (text == NULL) continue;
    text += strlen("cuda::OP_");
    for (const operation *at = table; at->name != NULL; at++) {
      size_t size = strlen(at->name);
      if (strncmp(text, at->name, size) == 0 && text[size] == '<') return at;
    }
  }
  return NULL;
}

static bool is_binary(vcuda_kernel *kernel) {
  kernel->detail = find_operation(binary, kernel);
  return kernel->detail != NULL;
}

static const operation *find_test(const vcuda_kernel *kernel) {
  if (vcuda_names(kernel, 2, "cuda::_IsNan<")) return &nan_test;
  if (!vcuda_names(kernel, 2, "cuda::_IsInf<")) return NULL;
  return &infinity_tests[vcuda_names(kernel, 2, ", true, true>") ? 0 : vcuda_names(kernel, 2, ", true, false>") ? 1 : 2];
}

static bool is_unary(vcuda_kernel *kernel) {
  const operation *found = find_operation(unary, kernel);
  if (found == NULL) found = find_test(kernel);
  bool casts = vcuda_names(kernel, 2, "cuda::OP_Cast") || vcuda_names(kernel, 2, "cuda::OP_SaturatingCast");
  if (found == NULL) found = casts ? &cast : vcuda_names(kernel, 2, "cuda::OP_Div<") ? &mean_division : NULL;
  if (found == NULL) return false;
  kernel->detail = found;
  kernel->arguments[2].size = found == &mean_division  ? kernel->arguments[0].size
                              : found->parameters == 0 ? 1
                                                       : 4 * (size_t)found->parameters;
  return kernel->arguments[0].type != VCUDA_NO_TYPE && kernel->arguments[1].type != VCUDA_NO_TYPE;
}

/* ---- one element ---- */

static wide widen(vcuda_type type, vcuda_number number) {
  return type == VCUDA_UINT64 ? (wide)(uint64_t)number.whole : (wide)number.whole;
}

/* `type_a` and `type_b` may differ (Pow). Whole numbers use `whole` if the operation has it; otherwise both are converted to doubles. */
static vcuda_number apply(const operation *how, vcuda_type to, vcuda_type type_a, vcuda_number a, vcuda_type type_b,
                          vcuda_number b, const double *parameters) {
  bool whole = how->whole != NULL && !vcuda_type_is_float(type_a) && !vcuda_type_is_float(type_b);
  if (whole) {
    return vcuda_convert(to, VCUDA_INT64, (vcuda_number){.whole = (int64_t)how->whole(widen(type_a, a), widen(type_b, b))});
  }
  double result =
      how->real(vcuda_convert(VCUDA_FLOAT64, type_a, a).real, vcuda_convert(VCUDA_FLOAT64, type_b, b).real, parameters);
  return vcuda_convert(to, VCUDA_FLOAT64, (vcuda_number){.real = result});
}

static void run_unary(const vcuda_launch *launch) {
  const operation *how = launch->kernel->detail;
  vcuda_type from = vcuda_type_of(launch, 0), to = vcuda_type_of(launch, 1);
  int64_t count = vcuda_integer(launch, 3);
  const void *in = vcuda_input(launch, 0, count);
  void *out = vcuda_output(launch, 1, count);
  if (in == NULL || out == NULL) return;
  double parameters[2] = {0};
  for (int i = 0; i < how->parameters; i++) {
    parameters[i] = vcuda_load_real(how == &mean_division ? from : VCUDA_FLOAT32, vcuda_argument(launch, 2), i);
  }
  bool overflows = vcuda_names(launch->kernel, 2, "OP_CastNoSat<");
  for (int64_t i = 0; i < count; i++) {
    vcuda_number number = vcuda_load(from, in, i);
    if (how == &cast && overflows) {
      ((uint8_t *)out)[i] = vcuda_to_float8(to, number.real, false);
    } else {
      vcuda_store(to, out, i,
                  how == &cast ? vcuda_convert(to, from, number) : apply(how, to, from, number, from, number, parameters));
    }
  }
}

/* ---- binary: the forms differ in the addressing of the inputs ---- */

typedef struct walk {
  vcuda_strides strides; /* rank 0: not strided, see the other members */
  bool scalar;
  int64_t divisor, modulus; /* 0: none */
} walk;

static int64_t walk_offset(const walk *w, int64_t id) {
  if (w->scalar) return 0;
  if (w->strides.rank != 0) return vcuda_offset(&w->strides, id);
  int64_t at = w->divisor != 0 ? id / w->divisor : id;
  return w->modulus != 0 ? at % w->modulus : at;
}

static int64_t walk_extent(const walk *w, int64_t count) {
  if (w->scalar || count == 0) return count == 0 ? 0 : 1;
  if (w->strides.rank != 0) return vcuda_extent(&w->strides, count);
  int64_t last = w->divisor != 0 ? (count - 1) / w->divisor : count - 1;
  return w->modulus != 0 && last >= w->modulus ? w->modulus : last + 1;
}

/* A fast path for floats, the most frequent type. */
static void run_floats(const operation *how, const float *a, const walk *a_walk, const float *b, const walk *b_walk, float *out,
                       int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    out[i] = (float)how->real((double)a[walk_offset(a_walk, i)], (double)b[walk_offset(b_walk, i)], NULL);
  }
}

static void run_walks(const vcuda_launch *launch, int lhs, const walk *lhs_walk, int rhs, const walk *rhs_walk, int output,
                      int64_t count) {
  const operation *how = launch->kernel->detail;
  vcuda_type type_a = vcuda_type_of(launch, lhs), type_b = vcuda_type_of(launch, rhs), to = vcuda_type_of(launch, output);
  const void *a = vcuda_input(launch, lhs, walk_extent(lhs_walk, count)),
             *b = vcuda_input(launch, rhs, walk_extent(rhs_walk, count));
  void *out = vcuda_output(launch, output, count);
  if (a == NULL || b == NULL || out == NULL) return;
  if (type_a == VCUDA_FLOAT32 && type_b == VCUDA_FLOAT32 && to == VCUDA_FLOAT32) {
    run_floats(how, a, lhs_walk, b, rhs_walk, out, count);
    return;
  }
  for (int64_t i = 0; i < count; i++) {
    vcuda_number x = vcuda_load(type_a, a, walk_offset(lhs_walk, i)), y = vcuda_load(type_b, b, walk_offset(rhs_walk, i));
    vcuda_store(to, out, i, apply(how, to, type_a, x, type_b, y, NULL));
  }
}

/* <IncL, IncR, ...>(lhs, rhs, out, functor, N): an input that does not advance is a scalar. */
static void run_simple(const vcuda_launch *launch) {
  walk lhs = {.scalar = !vcuda_flag(launch->kernel, 0)}, rhs = {.scalar = !vcuda_flag(launch->kernel, 1)};
  run_walks(launch, 0, &lhs, 1, &rhs, 2, vcuda_integer(launch, 4));
}

/* <T, T1, T2, OP, lhs strided, rhs strided, ...>(rank, strides, lhs, strides, rhs, output strides, out, functor, N) */
static void run_strided(const vcuda_launch *launch) {
  walk lhs = {.scalar = false}, rhs = {.scalar = false};
  if (vcuda_flag(launch->kernel, 4)) lhs.strides = vcuda_read_strides(launch, 1, 5);
  if (vcuda_flag(launch->kernel, 5)) rhs.strides = vcuda_read_strides(launch, 3, 5);
  run_walks(launch, 2, &lhs, 4, &rhs, 6, vcuda_integer(launch, 8));
}

/* (lhs, rhs, height, out, functor, N): `height` elements of lhs share one element of rhs. */
static void run_channel(const vcuda_launch *launch) {
  walk lhs = {.scalar = false}, rhs = {.divisor = vcuda_integer(launch, 2)};
  run_walks(launch, 0, &lhs, 1, &rhs, 3, vcuda_integer(launch, 5));
}

/* (lhs, rhs, height, channels, out, functor, N): the same, repeated for each batch. */
static void run_channels(const vcuda_launch *launch) {
  walk lhs = {.scalar = false}, rhs = {.divisor = vcuda_integer(launch, 2), .modulus = vcuda_integer(launch, 3)};
  run_walks(launch, 0, &lhs, 1, &rhs, 4, vcuda_integer(launch, 6));
}

/* (functor, N, array of inputs, out) */
static void run_many(const vcuda_launch *launch) {
  const operation *how = launch->kernel->detail;
  vcuda_type type = vcuda_type_of(launch, 3);
  int64_t count = vcuda_integer(launch, 1);
  int inputs = vcuda_items(launch, 2);
  const void *in[8] = {NULL};
  if (inputs < 1 || inputs > 8) {
    vcuda_fail(719, "%s: expected 1 to 8 inputs, got %d", vcuda_kernel_name(launch->kernel), inputs);
    return;
  }
  for (int i = 0; i < inputs; i++) {
    in[i] = vcuda_reads(vcuda_item_address(launch, 2, i), (size_t)count * vcuda_type_size(type));
    if (in[i] == NULL) return;
  }
  void *out = vcuda_output(launch, 3, count);
  for (int64_t at = 0; out != NULL && at < count; at++) {
    vcuda_number result = vcuda_load(type, in[0], at);
    for (int i = 1; i < inputs; i++) {
      result = apply(how, type, type, result, type, vcuda_load(type, in[i], at), NULL);
      vcuda_store(type, out, at, result); /* each step is rounded */
      result = vcuda_load(type, out, at);
    }
    vcuda_store(type, out, at, result);
  }
}

/* ---- Where ---- */

enum { AS_OUTPUT, SCALAR, STRIDED }; /* ORT's BroadcastIndexType */

static void choose(const vcuda_launch *launch, const int inputs[3], const walk walks[3], int output, int64_t count) {
  size_t size = vcuda_size_of(launch, output);
  const char *in[3];
  for (int i = 0; i < 3; i++) {
    in[i] = vcuda_input(launch, inputs[i], walk_extent(&walks[i], count));
    if (in[i] == NULL) return;
  }
  char *out = vcuda_output(launch, output, count);
  for (int64_t at = 0; out != NULL && at < count; at++) {
    int from = in[0][walk_offset(&walks[0], at)] != 0 ? 1 : 2;
    memmove(out + (size_t)at * size, in[from] + (size_t)walk_offset(&walks[from], at) * size, size);
  }
}

/* (condition, x, y, out, N) */
static void run_where_simple(const vcuda_launch *launch) {
  walk walks[3] = {0};
  for (int i = 0; i < 3; i++) walks[i].scalar = launch->kernel->types[i + 1].value == SCALAR;
  choose(launch, (const int[]){0, 1, 2}, walks, 3, vcuda_integer(launch, 4));
}

/* (rank, strides, condition, strides, x, strides, y, output strides, out, N) */
static void run_where(const vcuda_launch *launch) {
  walk walks[3] = {0};
  for (int i = 0; i < 3; i++) {
    walks[i].scalar = launch->kernel->types[i + 1].value == SCALAR;
    if (launch->kernel->types[i + 1].value == STRIDED) walks[i].strides = vcuda_read_strides(launch, 2 * i + 1, 7);
  }
  choose(launch, (const int[]){2, 4, 6}, walks, 8, vcuda_integer(launch, 9));
}

/* ---- Clip, bias ---- */

/* (in, out, lowest, highest, default lowest, default highest, N): the bounds are scalars on the device, or NULL. */
static void run_clip(const vcuda_launch *launch) {
  vcuda_type type = vcuda_type_of(launch, 0);
  vcuda_number bounds[2];
  int64_t count = vcuda_integer(launch, 6);
  for (int i = 0; i < 2; i++) {
    const void *bound = vcuda_address(launch, 2 + i) == NULL ? vcuda_argument(launch, 4 + i) : vcuda_input(launch, 2 + i, 1);
    if (bound == NULL) return;
    bounds[i] = vcuda_load(type, bound, 0);
  }
  const void *in = vcuda_input(launch, 0, count);
  void *out = vcuda_output(launch, 1, count);
  static const operation raise = {"Max", greatest, greatest_whole, 0}, lower = {"Min", least, least_whole, 0};
  for (int64_t i = 0; in != NULL && out != NULL && i < count; i++) {
    vcuda_number raised = apply(&raise, type, type, vcuda_load(type, in, i), type, bounds[0], NULL);
    vcuda_store(type, out, i, apply(&lower, type, type, raised, type, bounds[1], NULL));
  }
}

/* <T, Index, scaled>(bias, out, count, columns, row stride, column stride, scale): Gemm's C, broadcast to the output. */
static void run_bias(const vcuda_launch *launch) {
  vcuda_type type = vcuda_type_of(launch, 0);
  int64_t count = vcuda_integer(launch, 2);
  /* DivMod<int> or DivMod<long>: both begin with the divisor */
  vcuda_type index = launch->kernel->arguments[3].kind == 'd' ? VCUDA_UINT32 : VCUDA_INT64;
  int64_t columns = vcuda_load(index, vcuda_argument(launch, 3), 0).whole;
  int64_t row_stride = vcuda_integer(launch, 4), column_stride = vcuda_integer(launch, 5);
  double scale = vcuda_flag(launch->kernel, 2) ? vcuda_real(launch, 6) : 1;
  int64_t extent = count == 0 ? 0 : (count / columns - 1) * row_stride + (columns - 1) * column_stride + 1;
  const void *bias = vcuda_input(launch, 0, extent);
  void *out = vcuda_output(launch, 1, count);
  for (int64_t i = 0; bias != NULL && out != NULL && i < count; i++) {
    vcuda_store_real(type, out, i, scale * vcuda_load_real(type, bias, i / columns * row_stride + i % columns * column_stride));
  }
}

/* <T>(data, count, divisor): the normalization that cuFFT's inverse transform omits. */
static void run_normalize(const vcuda_launch *launch) {
  vcuda_type type = vcuda_type_of(launch, 0);
  int64_t count = vcuda_integer(launch, 1);
  double divisor = vcuda_real(launch, 2);
  void *data = vcuda_output(launch, 0, count);
  for (int64_t i = 0; data != NULL && i < count; i++) vcuda_store_real(type, data, i, vcuda_load_real(type, data, i) / divisor);
}

/* (in, bias, lambda, out, N): bias and lambda are floats for every type. */
static void run_shrink(const vcuda_launch *launch) {
  vcuda_type type = vcuda_type_of(launch, 0);
  double bias = vcuda_real(launch, 1), lambda = vcuda_real(launch, 2);
  int64_t count = vcuda_integer(launch, 4);
  const void *in = vcuda_input(launch, 0, count);
  void *out = vcuda_output(launch, 3, count);
  for (int64_t i = 0; in != NULL && out != NULL && i < count; i++) {
    double x = vcuda_load_real(type, in, i);
    vcuda_store_real(type, out, i, x < -lambda ? x + bias : x > lambda ? x - bias : 0);
  }
}

/* (x, exp(x - max), N): corrects the result for an infinite maximum, where the difference is NaN: 0 for minus infinity, 1 for the
 * maximum. */
static void run_fix_exp(const vcuda_launch *launch) {
  vcuda_type type = vcuda_type_of(launch, 0);
  int64_t count = vcuda_integer(launch, 2);
  const void *in = vcuda_input(launch, 0, count);
  void *out = vcuda_output(launch, 1, count);
  for (int64_t i = 0; in != NULL && out != NULL && i < count; i++) {
    double x = vcuda_load_real(type, in, i);
    if (isnan(vcuda_load_real(type, out, i)) && isinf(x)) vcuda_store_real(type, out, i, x > 0 ? 1 : 0);
  }
}

const vcuda_form vcuda_elementwise_forms[] = {
    {"_UnaryElementWise", "ppon", run_unary, is_unary},
    {"_BinaryElementWiseSimple", "pppon", run_simple, is_binary},
    {"_BinaryElementWise", "napapappn", run_strided, is_binary},
    {"_BinaryElementWiseRhsPerChannelBatch1", "ppdpon", run_channel, is_binary},
    {"_BinaryElementWiseRhsPerChannelBatchN", "ppddpon", run_channels, is_binary},
    {"VariadicElementWiseNoBroadcastInputBatchKernel", "onap", run_many, is_binary},
    {"_TenaryElementWiseSimple", "ppppn", run_where_simple, NULL},
    {"_TenaryElementWise", "napapapapn", run_where, NULL},
    {"_Clip", "ppppvvn", run_clip, NULL},
    {"_Normalize", "pnn", run_normalize, NULL},
    {"_ShrinkKernel", "pvvpn", run_shrink, NULL},
    {"_FixExpForReduceLogSumExp", "ppn", run_fix_exp, NULL},
    {"BroadcastBiasKernel", "ppndnnv", run_bias, NULL},
    {"BroadcastBiasKernel", "ppnonnv", run_bias, NULL},
    {.name = NULL},
};
