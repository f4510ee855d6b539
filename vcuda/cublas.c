/* libcublas.so.13 */
#include "cublas.h"

#include <stdlib.h>
#include <string.h>

#include "product.h"

struct vcuda_blas {
  int device;
  void *stream;
  int mode;
};

int cublasCreate_v2(vcuda_blas **handle) {
  VCUDA_BLAS_OPEN(__func__, NULL);
  if (handle == NULL) return vcuda_close(&call, CUBLAS_INVALID_VALUE);
  *handle = calloc(1, sizeof **handle);
  if (*handle != NULL) (*handle)->device = vcuda_current_device();
  return vcuda_close(&call, *handle == NULL ? CUBLAS_ALLOC_FAILED : CUBLAS_OK);
}

int cublasDestroy_v2(vcuda_blas *handle) {
  VCUDA_BLAS_OPEN(__func__, NULL);
  free(handle);
  return vcuda_close(&call, handle == NULL ? CUBLAS_NOT_INITIALIZED : CUBLAS_OK);
}

int cublasSetStream_v2(vcuda_blas *handle, void *stream) {
  VCUDA_BLAS_OPEN(__func__, stream);
  if (handle == NULL) return vcuda_close(&call, CUBLAS_NOT_INITIALIZED);
  handle->stream = stream;
  return vcuda_close(&call, CUBLAS_OK);
}

int cublasSetMathMode(vcuda_blas *handle, int mode) {
  VCUDA_OPEN(NULL);
  if (handle == NULL) return vcuda_close(&call, CUBLAS_NOT_INITIALIZED);
  handle->mode = mode; /* stored for queries only; it does not change the arithmetic */
  return vcuda_close(&call, CUBLAS_OK);
}

int cublasGetMathMode(vcuda_blas *handle, int *mode) {
  VCUDA_OPEN(NULL);
  if (handle == NULL) return vcuda_close(&call, CUBLAS_NOT_INITIALIZED);
  *mode = handle->mode;
  return vcuda_close(&call, CUBLAS_OK);
}

static const struct {
  int status;
  const char *name, *text;
} statuses[] = {
    {CUBLAS_OK, "CUBLAS_STATUS_SUCCESS", "success"},
    {CUBLAS_NOT_INITIALIZED, "CUBLAS_STATUS_NOT_INITIALIZED", "the handle is not initialized"},
    {CUBLAS_ALLOC_FAILED, "CUBLAS_STATUS_ALLOC_FAILED", "no memory"},
    {CUBLAS_INVALID_VALUE, "CUBLAS_STATUS_INVALID_VALUE", "a parameter is out of its range"},
    {CUBLAS_EXECUTION_FAILED, "CUBLAS_STATUS_EXECUTION_FAILED", "the work could not be queued"},
    {CUBLAS_NOT_SUPPORTED, "CUBLAS_STATUS_NOT_SUPPORTED", "not supported"},
};

const char *cublasGetStatusName(int status) {
  vcuda_note(__func__, NULL);
  for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++) {
    if (statuses[i].status == status) return statuses[i].name;
  }
  return "CUBLAS_STATUS_UNKNOWN";
}

const char *cublasGetStatusString(int status) {
  vcuda_note(__func__, NULL);
  for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++) {
    if (statuses[i].status == status) return statuses[i].text;
  }
  return "an unknown status";
}

/* ---- products ---- */

/* An operand as the caller passes it: an address, or an array of addresses in device memory. */
typedef struct operand {
  const void *address;
  vcuda_type type;
  int leading;
  long long stride;
} operand;

typedef struct shape {
  int op_a, op_b, m, n, k, batches;
  bool pointers;
} shape;

/* `rows` and `columns` of the factor; the stored matrix is the factor or its transpose. */
static vcuda_matrix matrix_of(operand given, int op, int64_t rows, int64_t columns, bool pointers) {
  vcuda_matrix matrix = {
      .type = given.type, .leading = given.leading, .stride = given.stride, .transposed = op != 0, .pointers = pointers};
  memcpy(&matrix.address, &given.address, sizeof given.address);
  matrix.rows = op == 0 ? rows : columns;
  matrix.columns = op == 0 ? columns : rows;
  return matrix;
}

static bool is_bad(const vcuda_matrix *matrix) {
  return matrix->leading < (matrix->rows > 1 ? matrix->rows : 1) || matrix->rows < 0 || matrix->columns < 0;
}

static int submit(vcuda_blas *handle, const char *name, shape s, vcuda_type scale_type, const void *alpha, operand a, operand b,
                  const void *beta, operand c) {
  VCUDA_BLAS_OPEN(name, handle == NULL ? NULL : handle->stream);
  if (handle == NULL) return vcuda_close(&call, CUBLAS_NOT_INITIALIZED);
  if (a.type == VCUDA_NO_TYPE || b.type == VCUDA_NO_TYPE || c.type == VCUDA_NO_TYPE || scale_type == VCUDA_NO_TYPE) {
    vcuda_log("%s: a type or a way to compute that is not known here", name);
    return vcuda_close(&call, CUBLAS_NOT_SUPPORTED);
  }
  vcuda_product p = {.m = s.m, .n = s.n, .k = s.k, .batches = s.batches, .scale_type = scale_type};
  p.a = matrix_of(a, s.op_a, s.m, s.k, s.pointers);
  p.b = matrix_of(b, s.op_b, s.k, s.n, s.pointers);
  p.c = p.d = matrix_of(c, 0, s.m, s.n, s.pointers);
  if (is_bad(&p.a) || is_bad(&p.b) || is_bad(&p.c) || s.batches < 0 || alpha == NULL || beta == NULL) {
    vcuda_log("%s: m %d, n %d, k %d, leading dims %d, %d, %d: expected each leading dim to hold its matrix", name, s.m, s.n,
              s.k, a.leading, b.leading, c.leading);
    return vcuda_close(&call, CUBLAS_INVALID_VALUE);
  }
  p.alpha = vcuda_load_real(scale_type, alpha, 0);
  p.beta = vcuda_load_real(scale_type, beta, 0);
  if (s.m == 0 || s.n == 0 || s.batches == 0) return vcuda_close(&call, CUBLAS_OK);
  return vcuda_close(&call, VCUDA_BLAS_SUBMIT(handle, handle->stream, name, vcuda_run_product, &p, sizeof p));
}

/* ---- sums of two matrices, either transposed: c = alpha * a + beta * b ---- */

typedef struct sum {
  vcuda_matrix a, b, c;
  double alpha, beta;
} sum;

static void run_sum(void *arguments) {
  const sum *s = arguments;
  const void *a = s->alpha == 0 ? NULL : vcuda_read_matrix(&s->a, 0), *b = s->beta == 0 ? NULL : vcuda_read_matrix(&s->b, 0);
  if ((s->alpha != 0 && a == NULL) || (s->beta != 0 && b == NULL)) return;
  void *c = vcuda_write_matrix(&s->c, 0);
  for (int64_t column = 0; c != NULL && column < s->c.columns; column++) {
    for (int64_t row = 0; row < s->c.rows; row++) {
      double value = a == NULL ? 0 : s->alpha * vcuda_load_real(s->a.type, a, vcuda_matrix_offset(&s->a, row, column));
      if (b != NULL) value += s->beta * vcuda_load_real(s->b.type, b, vcuda_matrix_offset(&s->b, row, column));
      vcuda_store_real(s->c.type, c, vcuda_matrix_offset(&s->c, row, column), value);
    }
  }
}

static int submit_sum(vcuda_blas *handle, const char *name, const sum *s) {
  VCUDA_BLAS_OPEN(name, handle == NULL ? NULL : handle->stream);
  if (handle == NULL) return vcuda_close(&call, CUBLAS_NOT_INITIALIZED);
  if (is_bad(&s->a) || is_bad(&s->c) || (s->beta != 0 && is_bad(&s->b))) return vcuda_close(&call, CUBLAS_INVALID_VALUE);
  if (s->c.rows == 0 || s->c.columns == 0) return vcuda_close(&call, CUBLAS_OK);
  return vcuda_close(&call, VCUDA_BLAS_SUBMIT(handle, handle->stream, name, run_sum, s, sizeof *s));
}

/* ---- factors of square matrices, and inverses from them ---- */

typedef struct factoring {
  vcuda_matrix a, c;
  int64_t n, batches;
  int *pivots, *info; /* in device memory */
} factoring;

/* Exchange rows so that row k has the largest element of the column from row `k` on. */
static int64_t choose_pivot(const vcuda_matrix *m, const void *a, int64_t k) {
  int64_t best = k;
  for (int64_t row = k + 1; row < m->rows; row++) {
    double value = vcuda_load_real(m->type, a, vcuda_matrix_offset(m, row, k));
    double champion = vcuda_load_real(m->type, a, vcuda_matrix_offset(m, best, k));
    if (value * value > champion * champion) best = row;
  }
  return best;
}

static void swap_rows(const vcuda_matrix *m, void *a, int64_t one, int64_t other) {
  for (int64_t column = 0; column < m->columns && one != other; column++) {
    int64_t x = vcuda_matrix_offset(m, one, column), y = vcuda_matrix_offset(m, other, column);
    vcuda_number number = vcuda_load(m->type, a, x);
    vcuda_store(m->type, a, x, vcuda_load(m->type, a, y));
    vcuda_store(m->type, a, y, number);
  }
}

/* Subtract `factor` times row `k` from row `row`, from column `from` on. */
static void subtract_row(const vcuda_matrix *m, void *a, int64_t row, double factor, int64_t k, int64_t from) {
  for (int64_t column = from; column < m->columns; column++) {
    int64_t at = vcuda_matrix_offset(m, row, column);
    double other = vcuda_load_real(m->type, a, vcuda_matrix_offset(m, k, column));
    vcuda_store_real(m->type, a, at, vcuda_load_real(m->type, a, at) - factor * other);
  }
}

static int factor(const vcuda_matrix *m, void *a, int *pivots) {
  int singular = 0;
  for (int64_t k = 0; k < m->rows; k++) {
    int64_t pivot = pivots == NULL ? k : choose_pivot(m, a, k);
    if (pivots != NULL) pivots[k] = (int)pivot + 1;
    swap_rows(m, a, k, pivot);
    double diagonal = vcuda_load_real(m->type, a, vcuda_matrix_offset(m, k, k));
    if (diagonal == 0) {
      singular = singular != 0 ? singular : (int)k + 1;
      continue;
    }
    for (int64_t row = k + 1; row < m->rows; row++) {
      int64_t at = vcuda_matrix_offset(m, row, k);
      double ratio = vcuda_load_real(m->type, a, at) / diagonal;
      vcuda_store_real(m->type, a, at, ratio);
      subtract_row(m, a, row, ratio, k, k + 1);
    }
  }
  return singular;
}

static void run_factor(void *arguments) {
  const factoring *f = arguments;
  int *info = vcuda_writes(f->info, (size_t)f->batches * sizeof *info);
  int *pivots = f->pivots == NULL ? NULL : vcuda_writes(f->pivots, (size_t)(f->batches * f->n) * sizeof *pivots);
  for (int64_t batch = 0; info != NULL && batch < f->batches; batch++) {
    void *a = vcuda_write_matrix(&f->a, batch);
    if (a == NULL || (f->pivots != NULL && pivots == NULL)) return;
    info[batch] = factor(&f->a, a, pivots == NULL ? NULL : pivots + batch * f->n);
  }
}

/* Compute a column of the inverse: exchange the rows of the unit vector, then solve with the lower factor, then with the upper one. */
static void solve_column(const vcuda_matrix *m, const void *a, const int *pivots, int64_t column, double *x) {
  for (int64_t i = 0; i < m->rows; i++) x[i] = i == column ? 1 : 0;
  for (int64_t i = 0; i < m->rows && pivots != NULL; i++) {
    double value = x[i];
    x[i] = x[pivots[i] - 1];
    x[pivots[i] - 1] = value;
  }
  for (int64_t i = 0; i < m->rows; i++) {
    for (int64_t j = 0; j < i; j++) x[i] -= vcuda_load_real(m->type, a, vcuda_matrix_offset(m, i, j)) * x[j];
  }
  for (int64_t i = m->rows - 1; i >= 0; i--) {
    for (int64_t j = i + 1; j < m->rows; j++) x[i] -= vcuda_load_real(m->type, a, vcuda_matrix_offset(m, i, j)) * x[j];
    x[i] /= vcuda_load_real(m->type, a, vcuda_matrix_offset(m, i, i));
  }
}

static int invert(const factoring *f, const void *a, const int *pivots, void *c, double *x) {
  for (int64_t i = 0; i < f->n; i++) {
    if (vcuda_load_real(f->a.type, a, vcuda_matrix_offset(&f->a, i, i)) == 0) return (int)i + 1;
    if (pivots != NULL && (pivots[i] < 1 || pivots[i] > f->n)) return (int)i + 1;
  }
  for (int64_t column = 0; column < f->n; column++) {
    solve_column(&f->a, a, pivots, column, x);
    for (int64_t row = 0; row < f->n; row++) vcuda_store_real(f->c.type, c, vcuda_matrix_offset(&f->c, row, column), x[row]);
  }
  return 0;
}

static void run_invert(void *arguments) {
  const factoring *f = arguments;
  int *info = vcuda_writes(f->info, (size_t)f->batches * sizeof *info);
  const int *pivots = f->pivots == NULL ? NULL : vcuda_reads(f->pivots, (size_t)(f->batches * f->n) * sizeof *pivots);
  double *x = calloc((size_t)f->n, sizeof *x);
  if (x == NULL) vcuda_fail(2, "cublasgetriBatched: no memory on the host");
  for (int64_t batch = 0; x != NULL && info != NULL && batch < f->batches; batch++) {
    const void *a = vcuda_read_matrix(&f->a, batch);
    void *c = vcuda_write_matrix(&f->c, batch);
    if (a == NULL || c == NULL || (f->pivots != NULL && pivots == NULL)) break;
    info[batch] = invert(f, a, pivots == NULL ? NULL : pivots + batch * f->n, c, x);
  }
  free(x);
}

static int submit_factoring(vcuda_blas *handle, const char *name, void (*run)(void *), const factoring *f) {
  VCUDA_BLAS_OPEN(name, handle == NULL ? NULL : handle->stream);
  if (handle == NULL) return vcuda_close(&call, CUBLAS_NOT_INITIALIZED);
  if (f->n < 0 || f->batches < 0 || is_bad(&f->a) || is_bad(&f->c)) return vcuda_close(&call, CUBLAS_INVALID_VALUE);
  if (f->n == 0 || f->batches == 0) return vcuda_close(&call, CUBLAS_OK);
  return vcuda_close(&call, VCUDA_BLAS_SUBMIT(handle, handle->stream, name, run, f, sizeof *f));
}

/* ---- the public functions: float and double ---- */

/* NOLINTBEGIN(readability-non-const-parameter): an output is passed on as an operand, and written when the work runs */

static factoring factoring_of(int n, int batches, operand a, operand c, const int *pivots, int *info) {
  factoring f = {.n = n, .batches = batches, .info = info, .a = matrix_of(a, 0, n, n, true), .c = matrix_of(c, 0, n, n, true)};
  memcpy(&f.pivots, &pivots, sizeof pivots);
  return f;
}

#define REAL(letter, real, type)                                                                                              \
  int cublas##letter##gemm_v2(vcuda_blas *handle, int op_a, int op_b, int m, int n, int k, const real *alpha, const real *a,  \
                              int lda, const real *b, int ldb, const real *beta, real *c, int ldc) {                          \
    return submit(handle, __func__, (shape){op_a, op_b, m, n, k, 1, false}, type, alpha, (operand){a, type, lda, 0},          \
                  (operand){b, type, ldb, 0}, beta, (operand){c, type, ldc, 0});                                              \
  }                                                                                                                           \
  int cublas##letter##gemmBatched(vcuda_blas *handle, int op_a, int op_b, int m, int n, int k, const real *alpha,             \
                                  const real *const *a, int lda, const real *const *b, int ldb, const real *beta,             \
                                  real *const *c, int ldc, int batches) {                                                     \
    return submit(handle, __func__, (shape){op_a, op_b, m, n, k, batches, true}, type, alpha, (operand){a, type, lda, 0},     \
                  (operand){b, type, ldb, 0}, beta, (operand){c, type, ldc, 0});                                              \
  }                                                                                                                           \
  int cublas##letter##gemmStridedBatched(vcuda_blas *handle, int op_a, int op_b, int m, int n, int k, const real *alpha,      \
                                         const real *a, int lda, long long stride_a, const real *b, int ldb,                  \
                                         long long stride_b, const real *beta, real *c, int ldc, long long stride_c,          \
                                         int batches) {                                                                       \
    return submit(handle, __func__, (shape){op_a, op_b, m, n, k, batches, false}, type, alpha,                                \
                  (operand){a, type, lda, stride_a}, (operand){b, type, ldb, stride_b}, beta,                                 \
                  (operand){c, type, ldc, stride_c});                                                                         \
  }                                                                                                                           \
  int cublas##letter##geam(vcuda_blas *handle, int op_a, int op_b, int m, int n, const real *alpha, const real *a, int lda,   \
                           const real *beta, const real *b, int ldb, real *c, int ldc) {                                      \
    sum s = {.alpha = (double)*alpha, .beta = (double)*beta};                                                                 \
    s.a = matrix_of((operand){a, type, lda, 0}, op_a, m, n, false);                                                           \
    s.b = matrix_of((operand){b, type, ldb, 0}, op_b, m, n, false);                                                           \
    s.c = matrix_of((operand){c, type, ldc, 0}, 0, m, n, false);                                                              \
    return submit_sum(handle, __func__, &s);                                                                                  \
  }                                                                                                                           \
  int cublas##letter##getrfBatched(vcuda_blas *handle, int n, real *const *a, int lda, int *pivots, int *info, int batches) { \
    factoring f = factoring_of(n, batches, (operand){a, type, lda, 0}, (operand){a, type, lda, 0}, pivots, info);             \
    return submit_factoring(handle, __func__, run_factor, &f);                                                                \
  }                                                                                                                           \
  int cublas##letter##getriBatched(vcuda_blas *handle, int n, const real *const *a, int lda, const int *pivots,               \
                                   real *const *c, int ldc, int *info, int batches) {                                         \
    factoring f = factoring_of(n, batches, (operand){a, type, lda, 0}, (operand){c, type, ldc, 0}, pivots, info);             \
    return submit_factoring(handle, __func__, run_invert, &f);                                                                \
  }

REAL(S, float, VCUDA_FLOAT32)
REAL(D, double, VCUDA_FLOAT64)

/* ---- the public functions: any types; the algorithm is ignored, because vcuda has only one ---- */

static operand any_operand(const void *address, int type, int leading, long long stride) {
  return (operand){address, vcuda_data_type(type), leading, stride};
}

int cublasGemmEx(vcuda_blas *handle, int op_a, int op_b, int m, int n, int k, const void *alpha, const void *a, int type_a,
                 int lda, const void *b, int type_b, int ldb, const void *beta, void *c, int type_c, int ldc, int compute_type,
                 int algorithm) {
  (void)algorithm;
  return submit(handle, __func__, (shape){op_a, op_b, m, n, k, 1, false}, vcuda_scale_type(compute_type), alpha,
                any_operand(a, type_a, lda, 0), any_operand(b, type_b, ldb, 0), beta, any_operand(c, type_c, ldc, 0));
}

int cublasGemmBatchedEx(vcuda_blas *handle, int op_a, int op_b, int m, int n, int k, const void *alpha, const void *const *a,
                        int type_a, int lda, const void *const *b, int type_b, int ldb, const void *beta, void *const *c,
                        int type_c, int ldc, int batches, int compute_type, int algorithm) {
  (void)algorithm;
  return submit(handle, __func__, (shape){op_a, op_b, m, n, k, batches, true}, vcuda_scale_type(compute_type), alpha,
                any_operand(a, type_a, lda, 0), any_operand(b, type_b, ldb, 0), beta, any_operand(c, type_c, ldc, 0));
}

int cublasGemmStridedBatchedEx(vcuda_blas *handle, int op_a, int op_b, int m, int n, int k, const void *alpha, const void *a,
                               int type_a, int lda, long long stride_a, const void *b, int type_b, int ldb, long long stride_b,
                               const void *beta, void *c, int type_c, int ldc, long long stride_c, int batches,
                               int compute_type, int algorithm) {
  (void)algorithm;
  return submit(handle, __func__, (shape){op_a, op_b, m, n, k, batches, false}, vcuda_scale_type(compute_type), alpha,
                any_operand(a, type_a, lda, stride_a), any_operand(b, type_b, ldb, stride_b), beta,
                any_operand(c, type_c, ldc, stride_c));
}

/* ---- vectors ---- */

typedef struct vectors {
  int64_t n;
  void *x, *y;
  int64_t step_x, step_y;
  float alpha;
  size_t size; /* of an element */
} vectors;

/* A negative step begins at the vector's end. The range has the same length for both signs. */
static size_t vector_bytes(const vectors *v, int64_t step) {
  return (size_t)((v->n - 1) * (step < 0 ? -step : step) + 1) * v->size;
}

static int64_t vector_at(int64_t n, int64_t step, int64_t i) {
  return step < 0 ? (i - n + 1) * step : i * step;
}

static void run_copy(void *arguments) {
  const vectors *v = arguments;
  const char *x = vcuda_reads(v->x, vector_bytes(v, v->step_x));
  char *y = vcuda_writes(v->y, vector_bytes(v, v->step_y));
  for (int64_t i = 0; x != NULL && y != NULL && i < v->n; i++) {
    memcpy(y + (size_t)vector_at(v->n, v->step_y, i) * v->size, x + (size_t)vector_at(v->n, v->step_x, i) * v->size, v->size);
  }
}

static void run_scale(void *arguments) {
  const vectors *v = arguments;
  float *x = vcuda_writes(v->x, vector_bytes(v, v->step_x));
  for (int64_t i = 0; x != NULL && i < v->n; i++) x[vector_at(v->n, v->step_x, i)] *= v->alpha;
}

static int submit_vectors(vcuda_blas *handle, const char *name, void (*run)(void *), const vectors *v) {
  VCUDA_BLAS_OPEN(name, handle == NULL ? NULL : handle->stream);
  if (handle == NULL) return vcuda_close(&call, CUBLAS_NOT_INITIALIZED);
  if (v->n <= 0) return vcuda_close(&call, CUBLAS_OK);
  return vcuda_close(&call, VCUDA_BLAS_SUBMIT(handle, handle->stream, name, run, v, sizeof *v));
}

int cublasDcopy_v2(vcuda_blas *handle, int n, const double *x, int step_x, double *y, int step_y) {
  vectors v = {.n = n, .y = y, .step_x = step_x, .step_y = step_y, .size = sizeof *x};
  memcpy(&v.x, &x, sizeof x);
  return submit_vectors(handle, __func__, run_copy, &v);
}

int cublasScopy_v2(vcuda_blas *handle, int n, const float *x, int step_x, float *y, int step_y) {
  vectors v = {.n = n, .y = y, .step_x = step_x, .step_y = step_y, .size = sizeof *x};
  memcpy(&v.x, &x, sizeof x);
  return submit_vectors(handle, __func__, run_copy, &v);
}

int cublasSscal_v2(vcuda_blas *handle, int n, const float *alpha, float *x, int step) {
  vectors v = {.n = n, .x = x, .step_x = step, .alpha = *alpha, .size = sizeof *x};
  return submit_vectors(handle, __func__, run_scale, &v);
}

/* NOLINTEND(readability-non-const-parameter) */
