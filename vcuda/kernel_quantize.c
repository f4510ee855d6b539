/* Quantised tensors: conversion to 8 bits and back, and corrections for products of them. */
#include "kernel.h"

#include <math.h>

/* How elements share scales and zero points: `same` adjacent elements have one scale; after `count` scales the first one follows again. */
typedef struct scales {
  int64_t same, count;
} scales;

/* A kernel for several scales has two more parameters after N: the batch and the number of scales. */
static scales read_scales(const vcuda_launch *launch, int64_t count, bool one) {
  scales s = {count, 1};
  if (!one) {
    int64_t batch = vcuda_integer(launch, 5);
    s.count = vcuda_integer(launch, 6);
    s.same = s.count == 0 || batch == 0 ? count : count / (batch * s.count);
  }
  s.same = s.same > 0 ? s.same : 1;
  return s;
}

static void convert(const vcuda_launch *launch, int scale_at, int zero_at, bool one, bool back) {
  int64_t count = vcuda_integer(launch, 4);
  scales s = read_scales(launch, count, one);
  vcuda_type from = vcuda_type_of(launch, 0), to = vcuda_type_of(launch, 1), scale_type = vcuda_type_of(launch, scale_at);
  const void *in = vcuda_input(launch, 0, count), *scale = vcuda_input(launch, scale_at, s.count), *zero = NULL;
  void *out = vcuda_output(launch, 1, count);
  if (vcuda_address(launch, zero_at) != NULL && (zero = vcuda_input(launch, zero_at, s.count)) == NULL) return;
  double lowest = to == VCUDA_INT8 ? -128 : 0, highest = to == VCUDA_INT8 ? 127 : 255;
  for (int64_t i = 0; in != NULL && scale != NULL && out != NULL && i < count; i++) {
    int64_t at = i / s.same % s.count;
    double factor = vcuda_load_real(scale_type, scale, at);
    double offset = zero == NULL ? 0 : vcuda_load_real(back ? from : to, zero, at), x = vcuda_load_real(from, in, i);
    double y = back ? (x - offset) * factor : fmin(fmax(nearbyint((double)(float)(x / factor)) + offset, lowest), highest);
    vcuda_store_real(to, out, i, y);
  }
}

/* (in, out, scale, zero point, N, functor) */
static void run_quantize(const vcuda_launch *launch) {
  convert(launch, 2, 3, true, false);
}

/* (in, out, scales, zero points, N, batch, scales' number, functor) */
static void run_quantize_axis(const vcuda_launch *launch) {
  convert(launch, 2, 3, false, false);
}

/* (in, out, scale, zero point, N) */
static void run_dequantize(const vcuda_launch *launch) {
  convert(launch, 2, 3, true, true);
}

/* (in, out, scales, zero points, N, batch, scales' number) */
static void run_dequantize_axis(const vcuda_launch *launch) {
  convert(launch, 2, 3, false, true);
}

static bool has_8_bits(vcuda_kernel *kernel) {
  vcuda_type from = kernel->arguments[0].type, to = kernel->arguments[1].type;
  return from == VCUDA_INT8 || from == VCUDA_UINT8 || to == VCUDA_INT8 || to == VCUDA_UINT8;
}

/* ---- zero points of a product (a - x)(b - y): the sums of a's rows times y and of b's columns times x correct the product ---- */

/* (a, sums, y, row's length): a block for each row */
static void run_row_sums(const vcuda_launch *launch) {
  int64_t rows = launch->grid[0], length = vcuda_integer(launch, 3), factor = vcuda_integer(launch, 2);
  const int8_t *in = vcuda_input(launch, 0, rows * length);
  int32_t *out = vcuda_output(launch, 1, rows);
  for (int64_t row = 0; in != NULL && out != NULL && row < rows; row++) {
    int64_t sum = 0;
    for (int64_t i = 0; i < length; i++) sum += vcuda_load(VCUDA_INT8, in, row * length + i).whole;
    out[row] = (int32_t)(factor * sum);
  }
}

/* (b, sums, x, rows, columns): a block for each column */
static void run_column_sums(const vcuda_launch *launch) {
  int64_t rows = vcuda_integer(launch, 3), columns = vcuda_integer(launch, 4), factor = vcuda_integer(launch, 2);
  const int8_t *in = vcuda_input(launch, 0, rows * columns);
  int32_t *out = vcuda_output(launch, 1, columns);
  for (int64_t column = 0; in != NULL && out != NULL && column < columns; column++) {
    int64_t sum = 0;
    for (int64_t row = 0; row < rows; row++) sum += vcuda_load(VCUDA_INT8, in, row * columns + column).whole;
    out[column] = (int32_t)(factor * sum);
  }
}

static void write_offsets(const vcuda_launch *launch, int rows_at, int columns_at, int out_at, int64_t constant) {
  int64_t rows = launch->grid[0], columns = vcuda_integer(launch, launch->kernel->argument_count - 1);
  const int32_t *row_sums = NULL, *column_sums = NULL;
  if (rows_at >= 0 && (row_sums = vcuda_input(launch, rows_at, rows)) == NULL) return;
  if (columns_at >= 0 && (column_sums = vcuda_input(launch, columns_at, columns)) == NULL) return;
  int32_t *out = vcuda_output(launch, out_at, rows * columns);
  for (int64_t i = 0; out != NULL && i < rows * columns; i++) {
    int64_t sum = (row_sums == NULL ? 0 : row_sums[i / columns]) + (column_sums == NULL ? 0 : column_sums[i % columns]);
    out[i] = (int32_t)(constant - sum);
  }
}

/* (rows' sums, columns' sums, out, length * x * y, columns): a block for each row */
static void run_offsets(const vcuda_launch *launch) {
  write_offsets(launch, 0, 1, 2, vcuda_integer(launch, 3));
}

static void run_offsets_of_a(const vcuda_launch *launch) {
  write_offsets(launch, -1, 0, 1, 0);
}

static void run_offsets_of_b(const vcuda_launch *launch) {
  write_offsets(launch, 0, -1, 1, 0);
}

const vcuda_form vcuda_quantize_forms[] = {
    {"QuantizeLinearKernelStd", "ppppno", run_quantize, has_8_bits},
    {"QuantizeLinearKernelAxisStd", "ppppnnno", run_quantize_axis, has_8_bits},
    {"DequantizeLinearKernelStd", "ppppn", run_dequantize, has_8_bits},
    {"DequantizeLinearKernelAxisStd", "ppppnnn", run_dequantize_axis, has_8_bits},
    {"ReduceRowSumOnMatrixAKernel", "ppnn", run_row_sums, NULL},
    {"ReduceColSumOnMatrixBKernel", "ppnnn", run_column_sums, NULL},
    {"ComputeOffsetOfMatrixAB", "pppnn", run_offsets, NULL},
    {"ComputeOffsetOfMatrixA", "ppn", run_offsets_of_a, NULL},
    {"ComputeOffsetOfMatrixB", "ppn", run_offsets_of_b, NULL},
    {.name = NULL},
};
