/* MatMulNBits: matrices with 2, 4 or 8 bits for each number. A column consists of blocks, each with a scale and a zero point. */
#include "kernel.h"

#include <string.h>

typedef struct matrix {
  const vcuda_launch *launch;
  int bits;
  int64_t columns, blocks, block; /* of a column; numbers of a block */
  vcuda_type type;                /* of scales and results */
  bool packed_zeros;              /* zeros have as many bits as the numbers; otherwise they have the results' type */
  const uint8_t *numbers;
  const void *scales, *zeros; /* zeros NULL: the middle of the range */
  const int32_t *order;       /* the block whose scale and zero apply to a row; NULL: the row's own block */
} matrix;

/* Read a number of `bits` bits, lower bits first. Each column begins at a byte. */
static int64_t few_bits(const uint8_t *bytes, int bits, int64_t index) {
  return bytes[index * bits / 8] >> (index * bits % 8) & ((1 << bits) - 1);
}

static int64_t bytes_of(const matrix *m, int64_t numbers) {
  return (numbers * m->bits + 7) / 8;
}

/* `quantised` is the parameter with the numbers; scales and zeros follow. */
static bool read_matrix(matrix *m, int quantised) {
  int64_t all = m->columns * m->blocks;
  m->type = vcuda_type_of(m->launch, quantised + 1);
  m->numbers = vcuda_input(m->launch, quantised, bytes_of(m, all * m->block));
  m->scales = vcuda_input(m->launch, quantised + 1, all);
  if (m->numbers == NULL || m->scales == NULL) return false;
  if (vcuda_address(m->launch, quantised + 2) == NULL) return true;
  m->packed_zeros = vcuda_type_of(m->launch, quantised + 2) == VCUDA_UINT8;
  m->zeros = vcuda_input(m->launch, quantised + 2, m->packed_zeros ? m->columns * bytes_of(m, m->blocks) : all);
  return m->zeros != NULL;
}

static double zero_of(const matrix *m, int64_t column, int64_t block) {
  if (m->zeros == NULL) return 1 << (m->bits - 1);
  if (!m->packed_zeros) return vcuda_load_real(m->type, m->zeros, column * m->blocks + block);
  return (double)few_bits((const uint8_t *)m->zeros + column * bytes_of(m, m->blocks), m->bits, block);
}

static double number_at(const matrix *m, int64_t column, int64_t row) {
  int64_t block = m->order == NULL ? row / m->block : m->order[row], first = column * m->blocks * m->block;
  double scale = vcuda_load_real(m->type, m->scales, column * m->blocks + block);
  return ((double)few_bits(m->numbers, m->bits, first + row) - zero_of(m, column, block)) * scale;
}

static void multiply(matrix *m, int64_t rows, int64_t inner) {
  const vcuda_launch *launch = m->launch;
  const void *in = vcuda_input(launch, 1, rows * inner);
  void *out = vcuda_output(launch, 0, rows * m->columns);
  if (in == NULL || out == NULL || !read_matrix(m, 2)) return;
  for (int64_t i = 0; i < rows * m->columns; i++) {
    double sum = 0;
    for (int64_t k = 0; k < inner; k++) {
      sum += vcuda_load_real(m->type, in, i / m->columns * inner + k) * number_at(m, i % m->columns, k);
    }
    vcuda_store_real(m->type, out, i, sum);
  }
}

static matrix matrix_of(const vcuda_launch *launch, int columns, int blocks) {
  const char *name = launch->kernel->name;
  matrix m = {.launch = launch, .columns = vcuda_integer(launch, columns), .blocks = vcuda_integer(launch, blocks)};
  m.bits = strstr(name, "8b") != NULL ? 8 : strstr(name, "2b") != NULL ? 2 : 4;
  m.block = launch->kernel->types[1].value;
  return m;
}

/* <T, block, has zeros, ...>(out, in, numbers, scales, zeros, rows, columns, inner, blocks of a column) */
static void run_product(const vcuda_launch *launch) {
  matrix m = matrix_of(launch, 6, 8);
  multiply(&m, vcuda_integer(launch, 5), vcuda_integer(launch, 7));
}

/* <T, block, has zeros>(out, in, numbers, scales, zeros, columns, inner, blocks of a column) */
static void run_product_of_row(const vcuda_launch *launch) {
  matrix m = matrix_of(launch, 5, 7);
  multiply(&m, 1, vcuda_integer(launch, 6));
}

static void unpack(matrix *m) {
  int64_t count = m->columns * m->blocks * m->block;
  void *out = vcuda_output(m->launch, 0, count);
  if (out == NULL || !read_matrix(m, 1)) return;
  int64_t rows = m->blocks * m->block;
  for (int64_t i = 0; i < count; i++) vcuda_store_real(m->type, out, i, number_at(m, i / rows, i % rows));
}

/* (out, numbers, scales, zeros, block, blocks of a column, of a thread block, of all) */
static void run_unpack(const vcuda_launch *launch) {
  bool is_narrow = strstr(launch->kernel->name, "2Bits") != NULL;
  matrix m = {
      .launch = launch, .bits = is_narrow ? 2 : 4, .block = vcuda_integer(launch, 4), .blocks = vcuda_integer(launch, 5)};
  m.columns = vcuda_integer(launch, 7) / m.blocks;
  unpack(&m);
}

/* (out, numbers, scales, zeros, block, blocks of a thread block, of all) */
static void run_unpack8(const vcuda_launch *launch) {
  matrix m = {.launch = launch, .bits = 8, .block = vcuda_integer(launch, 4), .blocks = vcuda_integer(launch, 6), .columns = 1};
  unpack(&m);
}

/* Check that every row's entry is a block of the column. */
static bool read_order(matrix *m, int order) {
  int64_t rows = m->blocks * m->block;
  m->order = vcuda_input(m->launch, order, rows);
  for (int64_t row = 0; m->order != NULL && row < rows; row++) {
    if (m->order[row] >= 0 && m->order[row] < m->blocks) continue;
    vcuda_fail(700, "%s: row %lld has block %d of %lld", vcuda_kernel_name(m->launch->kernel), (long long)row, m->order[row],
               (long long)m->blocks);
    return false;
  }
  return m->order != NULL;
}

/* (out, numbers, scales, zeros, order, block, blocks of a column, of a thread block, of all) */
static void run_unpack_ordered(const vcuda_launch *launch) {
  bool is_wide = strstr(launch->kernel->name, "8Bits") != NULL;
  matrix m = {.launch = launch, .bits = is_wide ? 8 : 4, .block = vcuda_integer(launch, 5), .blocks = vcuda_integer(launch, 6)};
  m.columns = vcuda_integer(launch, 8) / m.blocks;
  if (read_order(&m, 4)) unpack(&m);
}

/* (sums, bias, columns, count) */
static void run_bias(const vcuda_launch *launch) {
  int64_t columns = vcuda_integer(launch, 2), count = vcuda_integer(launch, 3);
  vcuda_type type = vcuda_type_of(launch, 0);
  const void *bias = vcuda_input(launch, 1, columns);
  void *out = vcuda_output(launch, 0, count);
  for (int64_t i = 0; bias != NULL && out != NULL && i < count; i++) {
    vcuda_store_real(type, out, i, vcuda_load_real(type, out, i) + vcuda_load_real(type, bias, i % columns));
  }
}

const vcuda_form vcuda_nbits_forms[] = {
    {"MatMulFloat4BitsKernelM1", "pppppnnnn", run_product, NULL},
    {"MatMulFloatInt4KernelSmallM", "pppppnnnn", run_product, NULL},
    {"MatMulFloat4BatchedKernel", "pppppnnnn", run_product, NULL},
    {"MatMulFloat8bKernelBatched", "pppppnnnn", run_product, NULL},
    {"MatMulFloat2bKernelBatched", "pppppnnnn", run_product, NULL},
    {"MatMulFloat8bKernelM1", "pppppnnn", run_product_of_row, NULL},
    {"MatMulFloat2bKernelM1", "pppppnnn", run_product_of_row, NULL},
    {"Dequantize2BitsKernel", "ppppnnnn", run_unpack, NULL},
    {"Dequantize4BitsKernel", "ppppnnnn", run_unpack, NULL},
    {"Dequantize8BitsKernel", "ppppnnn", run_unpack8, NULL},
    {"Dequantize4BitsKernelReOrder", "pppppnnnn", run_unpack_ordered, NULL},
    {"Dequantize8BitsKernelReOrder", "pppppnnnn", run_unpack_ordered, NULL},
    {"MatMulNBitsBiasAddKernel", "ppnn", run_bias, NULL},
    {.name = NULL},
};
