#include "product.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "work.h"

vcuda_type vcuda_data_type(int number) {
  switch (number) {
    case 0: return VCUDA_FLOAT32;
    case 1: return VCUDA_FLOAT64;
    case 2: return VCUDA_FLOAT16;
    case 3: return VCUDA_INT8;
    case 8: return VCUDA_UINT8;
    case 10: return VCUDA_INT32;
    case 14: return VCUDA_BFLOAT16;
    case 28: return VCUDA_FLOAT8E4M3;
    case 29: return VCUDA_FLOAT8E5M2;
    default: return VCUDA_NO_TYPE;
  }
}

vcuda_type vcuda_scale_type(int compute_type) {
  switch (compute_type) {
    case 64: /* 16F, and 16F_PEDANTIC */
    case 65: return VCUDA_FLOAT16;
    case 70: /* 64F */
    case 71: return VCUDA_FLOAT64;
    case 72: /* 32I */
    case 73: return VCUDA_INT32;
    case 68: /* 32F, and variants with faster types, which compute the same here */
    case 69:
    case 74:
    case 75:
    case 77:
    case 78: return VCUDA_FLOAT32;
    default: return VCUDA_NO_TYPE;
  }
}

/* ---- matrices ---- */

int64_t vcuda_matrix_offset(const vcuda_matrix *matrix, int64_t row, int64_t column) {
  bool across = matrix->transposed != matrix->row_major;
  return across ? row * matrix->leading + column : column * matrix->leading + row;
}

/* The address of a matrix, and its bytes from the first element to the last. NULL: the array of pointers is not accessible. */
static void *locate(const vcuda_matrix *matrix, int64_t batch, size_t *bytes) {
  int64_t lines = matrix->row_major ? matrix->rows : matrix->columns,
          length = matrix->row_major ? matrix->columns : matrix->rows;
  size_t size = vcuda_type_size(matrix->type);
  *bytes = lines == 0 || length == 0 ? 0 : (size_t)((lines - 1) * matrix->leading + length) * size;
  if (!matrix->pointers) return (char *)matrix->address + batch * matrix->stride * (int64_t)size;
  void *const *pointers = vcuda_reads((char *)matrix->address + (size_t)batch * sizeof *pointers, sizeof *pointers);
  return pointers == NULL ? NULL : *pointers;
}

const void *vcuda_read_matrix(const vcuda_matrix *matrix, int64_t batch) {
  size_t bytes = 0;
  void *address = locate(matrix, batch, &bytes);
  return vcuda_reads(address, bytes);
}

void *vcuda_write_matrix(const vcuda_matrix *matrix, int64_t batch) {
  size_t bytes = 0;
  void *address = locate(matrix, batch, &bytes);
  return vcuda_writes(address, bytes);
}

/* ---- products: a and b are unpacked to doubles, which hold the products of every type; then columns are summed ---- */

/* Unpack the factor by columns: its element (row, column) goes to index column * rows + row. */
static bool unpack(const vcuda_matrix *matrix, int64_t batch, int64_t rows, int64_t columns, double *to) {
  const void *data = vcuda_read_matrix(matrix, batch);
  for (int64_t column = 0; data != NULL && column < columns; column++) {
    for (int64_t row = 0; row < rows; row++) {
      to[row + column * rows] = vcuda_load_real(matrix->type, data, vcuda_matrix_offset(matrix, row, column));
    }
  }
  return data != NULL;
}

static void multiply_column(const double *a, const double *b, int64_t m, int64_t k, double *sums) {
  for (int64_t i = 0; i < m; i++) sums[i] = 0;
  for (int64_t p = 0; p < k; p++) {
    const double *from = a + p * m;
    double factor = b[p];
    for (int64_t i = 0; i < m; i++) sums[i] += from[i] * factor;
  }
}

static double activate(vcuda_activation how, double x) {
  switch (how) {
    case VCUDA_RELU: return x > 0 ? x : 0;
    case VCUDA_GELU: return 0.5 * x * (1 + tanh(sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
    default: return x;
  }
}

typedef struct factors {
  double alpha, beta, result;
  const void *bias;
} factors;

static void write_column(const vcuda_product *p, const factors *f, int64_t column, const double *sums, const void *c, void *d) {
  for (int64_t row = 0; row < p->m; row++) {
    double value = f->alpha * sums[row];
    if (f->beta != 0) value += f->beta * vcuda_load_real(p->c.type, c, vcuda_matrix_offset(&p->c, row, column));
    if (f->bias != NULL) value += vcuda_load_real(p->bias_type, f->bias, row);
    value = activate(p->activation, value) * f->result;
    int64_t at = vcuda_matrix_offset(&p->d, row, column);
    if (vcuda_type_is_float(p->d.type)) {
      vcuda_store_real(p->d.type, d, at, value);
    } else { /* a sum of products of 8-bit numbers is exact, and wraps as on the device */
      vcuda_store(p->d.type, d, at, (vcuda_number){.whole = (int64_t)nearbyint(value)});
    }
  }
}

static bool read_number(const void *address, vcuda_type type, double *number) {
  const void *data = address == NULL ? NULL : vcuda_reads(address, vcuda_type_size(type));
  if (data != NULL) *number = vcuda_load_real(type, data, 0);
  return address == NULL || data != NULL;
}

static bool read_factors(const vcuda_product *p, factors *f) {
  double scale_a = 1, scale_b = 1, scale_c = 1;
  *f = (factors){.alpha = p->alpha, .beta = p->beta, .result = 1};
  if (!read_number(p->alpha_address, p->scale_type, &f->alpha) || !read_number(p->beta_address, p->scale_type, &f->beta) ||
      !read_number(p->a.scale, VCUDA_FLOAT32, &scale_a) || !read_number(p->b.scale, VCUDA_FLOAT32, &scale_b) ||
      !read_number(p->c.scale, VCUDA_FLOAT32, &scale_c) || !read_number(p->d.scale, VCUDA_FLOAT32, &f->result)) {
    return false;
  }
  f->alpha *= scale_a * scale_b;
  f->beta *= scale_c;
  f->bias = p->bias == NULL ? NULL : vcuda_reads(p->bias, (size_t)p->m * vcuda_type_size(p->bias_type));
  return p->bias == NULL || f->bias != NULL;
}

static void multiply(const vcuda_product *p, const factors *f, int64_t batch, double *a, double *b, double *sums) {
  if (!unpack(&p->a, batch, p->m, p->k, a) || !unpack(&p->b, batch, p->k, p->n, b)) return;
  const void *c = f->beta == 0 ? NULL : vcuda_read_matrix(&p->c, batch);
  void *d = f->beta != 0 && c == NULL ? NULL : vcuda_write_matrix(&p->d, batch);
  for (int64_t column = 0; d != NULL && column < p->n; column++) {
    multiply_column(a, b + column * p->k, p->m, p->k, sums);
    write_column(p, f, column, sums, c, d);
  }
}

void vcuda_run_product(void *product) {
  const vcuda_product *p = product;
  factors f;
  if (p->m == 0 || p->n == 0 || !read_factors(p, &f)) return;
  size_t a_count = (size_t)(p->m * p->k), b_count = (size_t)(p->k * p->n), count = a_count + b_count + (size_t)p->m;
  double *room = malloc(count * sizeof *room);
  if (room == NULL) {
    vcuda_fail(2, "a product of %lld * %lld * %lld: no memory on the host", (long long)p->m, (long long)p->n, (long long)p->k);
    return;
  }
  for (int64_t batch = 0; batch < p->batches; batch++) multiply(p, &f, batch, room, room + a_count, room + a_count + b_count);
  free(room);
}
