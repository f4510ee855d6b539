/* Reductions: sums over rows, columns or any axes, ArgMax and ArgMin, running sums. */
#include "kernel.h"

#include <math.h>
#include <string.h>

/* ---- matrices ---- */

/* (in, out, rows, columns): adds each column's sum to the output, which the caller has cleared. */
static void run_sum_rows(const vcuda_launch *launch) {
  int64_t rows = vcuda_integer(launch, 2), columns = vcuda_integer(launch, 3);
  vcuda_type from = vcuda_type_of(launch, 0), to = vcuda_type_of(launch, 1);
  const void *in = vcuda_input(launch, 0, rows * columns);
  void *out = vcuda_output(launch, 1, columns);
  for (int64_t column = 0; in != NULL && out != NULL && column < columns; column++) {
    double sum = vcuda_load_real(to, out, column);
    for (int64_t row = 0; row < rows; row++) sum += vcuda_load_real(from, in, row * columns + column);
    vcuda_store_real(to, out, column, sum);
  }
}

/* <In, Out, Buffer, Operation, Final, divides>(rows, columns, in, out, buffer, counters): a row's sum, or its mean. */
static void run_sum_columns(const vcuda_launch *launch) {
  const vcuda_kernel *kernel = launch->kernel;
  bool squares = vcuda_names(kernel, 3, "Square"), absolutes = vcuda_names(kernel, 3, "Abs"),
       root = vcuda_names(kernel, 4, "Sqrt");
  int64_t rows = vcuda_integer(launch, 0), columns = vcuda_integer(launch, 1);
  vcuda_type from = vcuda_type_of(launch, 2), to = vcuda_type_of(launch, 3);
  const void *in = vcuda_input(launch, 2, rows * columns);
  void *out = vcuda_output(launch, 3, rows);
  for (int64_t row = 0; in != NULL && out != NULL && row < rows; row++) {
    double sum = 0;
    for (int64_t column = 0; column < columns; column++) {
      double value = vcuda_load_real(from, in, row * columns + column);
      sum += squares ? value * value : absolutes ? fabs(value) : value;
    }
    sum = vcuda_flag(kernel, 5) ? sum / (double)columns : sum;
    vcuda_store_real(to, out, row, root ? sqrt(sum) : sum);
  }
}

static bool is_known_sum(vcuda_kernel *kernel) {
  bool operation = vcuda_names(kernel, 3, "Identity") || vcuda_names(kernel, 3, "Square") || vcuda_names(kernel, 3, "Abs");
  return operation && (vcuda_names(kernel, 4, "Identity") || vcuda_names(kernel, 4, "Sqrt"));
}

/* ---- sums over any axes ---- */

typedef struct segments {
  int32_t output_count, reduction_count;
  int64_t output_sizes[16], output_strides[16], reduction_sizes[16], reduction_strides[16];
  int64_t outputs, reductions;
} segments;

static int64_t segment_offset(const int64_t *sizes, const int64_t *strides, int count, int64_t id) {
  int64_t offset = 0;
  for (int i = count - 1; i >= 0; i--) {
    offset += id % sizes[i] * strides[i];
    id /= sizes[i];
  }
  return offset;
}

static int64_t segment_extent(const int64_t *sizes, const int64_t *strides, int count) {
  int64_t last = 0;
  for (int i = 0; i < count; i++) last += (sizes[i] - 1) * strides[i];
  return last;
}

/* (in, out, segments) */
static void run_sum_segments(const vcuda_launch *launch) {
  segments s;
  memcpy(&s, vcuda_argument(launch, 2), sizeof s);
  vcuda_type type = vcuda_type_of(launch, 0);
  int64_t extent = 1 + segment_extent(s.output_sizes, s.output_strides, s.output_count) +
                   segment_extent(s.reduction_sizes, s.reduction_strides, s.reduction_count);
  const void *in = vcuda_input(launch, 0, s.outputs == 0 || s.reductions == 0 ? 0 : extent);
  void *out = vcuda_output(launch, 1, s.outputs);
  for (int64_t at = 0; in != NULL && out != NULL && at < s.outputs; at++) {
    int64_t base = segment_offset(s.output_sizes, s.output_strides, s.output_count, at);
    vcuda_number sum = {.whole = 0}; /* the same bits as 0.0 */
    for (int64_t i = 0; i < s.reductions; i++) {
      vcuda_number value =
          vcuda_load(type, in, base + segment_offset(s.reduction_sizes, s.reduction_strides, s.reduction_count, i));
      if (vcuda_type_is_float(type)) {
        sum.real += value.real;
      } else {
        sum.whole = (int64_t)((uint64_t)sum.whole + (uint64_t)value.whole);
      }
    }
    vcuda_store(type, out, at, sum);
  }
}

/* ---- the index of a row's maximum or minimum ---- */

static void find_extremes(const vcuda_launch *launch, int rows_at, int in_at) {
  bool greatest = vcuda_flag(launch->kernel, 1);
  int64_t rows = vcuda_integer(launch, rows_at), columns = vcuda_integer(launch, rows_at + 1);
  vcuda_type type = vcuda_type_of(launch, in_at);
  const void *in = vcuda_input(launch, in_at, rows * columns);
  int64_t *out = vcuda_output(launch, in_at + 1, rows);
  for (int64_t row = 0; in != NULL && out != NULL && row < rows; row++) {
    int64_t best = 0;
    for (int64_t i = 1; i < columns; i++) {
      double value = vcuda_load_real(type, in, row * columns + i), champion = vcuda_load_real(type, in, row * columns + best);
      if (greatest ? value > champion : value < champion) best = i;
    }
    out[row] = best;
  }
}

/* <T, greatest>(in, out, rows, columns) */
static void run_extreme(const vcuda_launch *launch) {
  find_extremes(launch, 2, 0);
}

/* <T, greatest>(rows, columns, in, out, buffers of values, of indices, counters) */
static void run_extreme_together(const vcuda_launch *launch) {
  find_extremes(launch, 0, 2);
}

/* ---- running sums ---- */

static void sum_line(vcuda_type type, const void *in, void *out, int64_t start, int64_t stride, int64_t length, bool exclusive,
                     bool back) {
  vcuda_number sum = {.whole = 0};
  for (int64_t i = 0; i < length; i++) {
    int64_t at = start + (back ? length - 1 - i : i) * stride;
    vcuda_number value = vcuda_load(type, in, at), next = sum;
    if (vcuda_type_is_float(type)) {
      next.real += value.real;
    } else {
      next.whole = (int64_t)((uint64_t)sum.whole + (uint64_t)value.whole);
    }
    vcuda_store(type, out, at, exclusive ? sum : next);
    sum = next;
  }
}

/* (in, dim of the axis, its stride, out, N, exclusive, reverse) */
static void run_running_sum(const vcuda_launch *launch) {
  int64_t dim = vcuda_integer(launch, 1), stride = vcuda_integer(launch, 2), count = vcuda_integer(launch, 4);
  const void *in = vcuda_input(launch, 0, count);
  void *out = vcuda_output(launch, 3, count);
  for (int64_t id = 0; in != NULL && out != NULL && id < count; id++) {
    if (id / stride % dim != 0) continue; /* not the first of its line */
    sum_line(vcuda_type_of(launch, 0), in, out, id, stride, dim, vcuda_integer(launch, 5) != 0, vcuda_integer(launch, 6) != 0);
  }
}

/* (in, out, dim of the axis, its stride, exclusive, reverse): a block for each line */
static void run_running_sum_lines(const vcuda_launch *launch) {
  int64_t dim = vcuda_integer(launch, 2), stride = vcuda_integer(launch, 3), lines = launch->grid[0];
  const void *in = vcuda_input(launch, 0, lines * dim);
  void *out = vcuda_output(launch, 1, lines * dim);
  for (int64_t line = 0; in != NULL && out != NULL && line < lines; line++) {
    int64_t start = line / stride * stride * dim + line % stride;
    sum_line(VCUDA_INT64, in, out, start, stride, dim, vcuda_integer(launch, 4) != 0, vcuda_integer(launch, 5) != 0);
  }
}

const vcuda_form vcuda_reduce_forms[] = {
    {"reduce_matrix_rows_kernel", "ppnn", run_sum_rows, NULL},
    {"reduce_matrix_columns_kernel", "nnpppp", run_sum_columns, is_known_sum},
    {"reduce_sum_nd_kernel", "ppo", run_sum_segments, NULL},
    {"arg_min_max_last_axis_kernel", "ppnn", run_extreme, NULL},
    {"arg_min_max_last_axis_cooperative_kernel", "nnppppp", run_extreme_together, NULL},
    {"_CumSumKernel", "pddpnnn", run_running_sum, NULL},
    {"_CumSumInt64BlockKernel", "ppnnnn", run_running_sum_lines, NULL},
    {.name = NULL},
};
