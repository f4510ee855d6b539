/* cuBLAS and cuBLASLt of the virtual GPU: products of every type and shape, compared with three nested loops. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cublas.h"
#include "host.h"
#include "number.h"

#define LIST(type, ...) ((const type[]){__VA_ARGS__})
#define TENSOR(type, ...) host_copy(LIST(type, __VA_ARGS__), sizeof LIST(type, __VA_ARGS__))
#define EXPECT(tensor, type, ...) assert_memory_equal(tensor, LIST(type, __VA_ARGS__), sizeof LIST(type, __VA_ARGS__))

/* ---- expected results of cublasGemmEx ---- */

enum { M = 3, N = 4, K = 5, ROOM = 64 };

typedef struct types {
  vcuda_type in, out, scale;
  int in_number, out_number, compute; /* cudaDataType_t and cublasComputeType_t */
} types;

static const types all_types[] = {
    {VCUDA_FLOAT32, VCUDA_FLOAT32, VCUDA_FLOAT32, 0, 0, 68},     {VCUDA_FLOAT32, VCUDA_FLOAT32, VCUDA_FLOAT32, 0, 0, 77},
    {VCUDA_FLOAT64, VCUDA_FLOAT64, VCUDA_FLOAT64, 1, 1, 70},     {VCUDA_FLOAT16, VCUDA_FLOAT16, VCUDA_FLOAT32, 2, 2, 68},
    {VCUDA_FLOAT16, VCUDA_FLOAT16, VCUDA_FLOAT16, 2, 2, 64},     {VCUDA_FLOAT16, VCUDA_FLOAT32, VCUDA_FLOAT32, 2, 0, 68},
    {VCUDA_BFLOAT16, VCUDA_BFLOAT16, VCUDA_FLOAT32, 14, 14, 68}, {VCUDA_INT8, VCUDA_INT32, VCUDA_INT32, 3, 10, 72},
};

/* Small whole numbers: every type holds them and the sums of their products. */
static void *matrix(vcuda_type type, int seed) {
  char data[ROOM * 8];
  for (int i = 0; i < ROOM; i++) vcuda_store_real(type, data, i, (i * 7 + seed) % 5 - 2);
  return host_copy(data, ROOM * vcuda_type_size(type));
}

static double element(vcuda_type type, const void *data, int op, int leading, int row, int column) {
  return vcuda_load_real(type, data, op == 0 ? row + column * leading : column + row * leading);
}

static void check(const types *t, const void *a, const void *b, const void *before, const void *c, int op_a, int op_b, int lda,
                  int ldb, int ldc, double alpha, double beta) {
  char expected[ROOM * 8];
  memcpy(expected, before, ROOM * vcuda_type_size(t->out));
  for (int row = 0; row < M; row++) {
    for (int column = 0; column < N; column++) {
      double sum = 0;
      for (int k = 0; k < K; k++) sum += element(t->in, a, op_a, lda, row, k) * element(t->in, b, op_b, ldb, k, column);
      double old = beta == 0 ? 0 : beta * vcuda_load_real(t->out, before, row + column * ldc);
      vcuda_store_real(t->out, expected, row + column * ldc, alpha * sum + old);
    }
  }
  assert_memory_equal(c, expected, ROOM * vcuda_type_size(t->out));
}

static void all_types_and_transposes(void **state) {
  (void)state;
  vcuda_blas *handle = NULL;
  assert_int_equal(cublasCreate_v2(&handle), 0);
  for (size_t i = 0; i < sizeof all_types / sizeof *all_types; i++) {
    for (int ops = 0; ops < 8; ops++) {
      const types *t = &all_types[i];
      int op_a = ops & 1, op_b = ops >> 1 & 1, lda = (op_a ? K : M) + 1, ldb = op_b ? N : K, ldc = M + 2;
      double numbers[2] = {2, ops & 4 ? 3 : 0};
      char alpha[8], beta[8];
      vcuda_store_real(t->scale, alpha, 0, numbers[0]);
      vcuda_store_real(t->scale, beta, 0, numbers[1]);
      void *a = matrix(t->in, 1), *b = matrix(t->in, 2), *before = matrix(t->out, 3), *c = matrix(t->out, 3);
      assert_int_equal(cublasGemmEx(handle, op_a, op_b, M, N, K, alpha, a, t->in_number, lda, b, t->in_number, ldb, beta, c,
                                    t->out_number, ldc, t->compute, -1),
                       0);
      assert_int_equal(host_error(), 0);
      check(t, a, b, before, c, op_a, op_b, lda, ldb, ldc, numbers[0], numbers[1]);
      host_reset(NULL);
    }
  }
  assert_int_equal(cublasDestroy_v2(handle), 0);
}

/* A handle works only while its device is current. An EP that changes the current device in between gets an error. */
static void handles_belong_to_a_device(void **state) {
  (void)state;
  vcuda_blas *handles[2] = {NULL, NULL};
  const float one = 1, zero = 0, two = 2;
  assert_int_equal(cublasCreate_v2(&handles[0]), 0);
  host_set_device(1);
  assert_int_equal(cublasCreate_v2(&handles[1]), 0);
  float *x = host_copy(&two, sizeof two), *y = host_memory(sizeof *y);
  for (int device = 0; device < 2; device++) {
    host_set_device(device);
    for (int of = 0; of < 2; of++) {
      int expected = of == device ? CUBLAS_OK : CUBLAS_EXECUTION_FAILED;
      assert_int_equal(cublasSgemm_v2(handles[of], 0, 0, 1, 1, 1, &one, x, 1, x, 1, &zero, y, 1), expected);
      assert_int_equal(cublasSgeam(handles[of], 0, 0, 1, 1, &one, x, 1, &zero, x, 1, y, 1), expected);
      assert_int_equal(cublasScopy_v2(handles[of], 1, x, 1, y, 1), expected);
    }
  }
  assert_int_equal(cublasDestroy_v2(handles[0]), 0); /* works on any current device */
  assert_int_equal(cublasDestroy_v2(handles[1]), 0);
}

static void batches(void **state) {
  (void)state;
  vcuda_blas *handle = NULL;
  const float one = 1, zero = 0;
  assert_int_equal(cublasCreate_v2(&handle), 0);
  /* two products of (1, 2) and (2, 1); b is the same for both */
  float *a = TENSOR(float, 1, 2, 3, 4), *b = TENSOR(float, 10, 100), *c = host_memory(8);
  assert_int_equal(cublasSgemmStridedBatched(handle, 0, 0, 1, 1, 2, &one, a, 1, 2, b, 2, 0, &zero, c, 1, 1, 2), 0);
  EXPECT(c, float, 210, 430);
  const float **as = host_copy(LIST(float *, a + 2, a), 16), **bs = host_copy(LIST(float *, b, b), 16);
  float **cs = host_copy(LIST(float *, c, c + 1), 16);
  assert_int_equal(cublasSgemmBatched(handle, 0, 0, 1, 1, 2, &one, as, 1, bs, 2, &zero, cs, 1, 2), 0);
  EXPECT(c, float, 430, 210);
  assert_int_equal(cublasDestroy_v2(handle), 0);
}

static void refusals(void **state) {
  (void)state;
  vcuda_blas *handle = NULL;
  const float one = 1;
  float *a = TENSOR(float, 1, 2, 3, 4), *c = host_memory(12);
  assert_int_equal(cublasSgemm_v2(NULL, 0, 0, 2, 2, 2, &one, a, 2, a, 2, &one, c, 2), CUBLAS_NOT_INITIALIZED);
  assert_int_equal(cublasCreate_v2(&handle), 0);
  assert_int_equal(cublasSgemm_v2(handle, 0, 0, 2, 2, 2, &one, a, 1, a, 2, &one, c, 2), CUBLAS_INVALID_VALUE);
  assert_int_equal(cublasGemmEx(handle, 0, 0, 2, 2, 2, &one, a, 99, 2, a, 0, 2, &one, c, 0, 2, 68, -1), CUBLAS_NOT_SUPPORTED);
  assert_int_equal(host_logs(), 2);
  assert_int_equal(cublasSgemm_v2(handle, 0, 0, 2, 0, 2, &one, NULL, 2, NULL, 2, &one, NULL, 2), 0); /* an empty product */
  assert_int_equal(host_error(), 0);
  assert_int_equal(cublasSgemm_v2(handle, 0, 0, 2, 2, 2, &one, a, 2, a, 2, &one, c, 2), 0);
  assert_int_equal(host_error(), 700); /* c has three of four elements */
  EXPECT((unsigned char *)c, unsigned char, 0xA5, 0xA5, 0xA5, 0xA5);
  assert_int_equal(cublasDestroy_v2(handle), 0);
  assert_string_equal(cublasGetStatusName(CUBLAS_NOT_SUPPORTED), "CUBLAS_STATUS_NOT_SUPPORTED");
}

static void sums_and_vectors(void **state) {
  (void)state;
  vcuda_blas *handle = NULL;
  const float one = 1, zero = 0, two = 2;
  int mode = -1;
  assert_int_equal(cublasCreate_v2(&handle), 0);
  /* (2, 3) by rows is (3, 2) by columns: ORT's way to transpose */
  float *a = TENSOR(float, 1, 2, 3, 4, 5, 6), *c = host_memory(24);
  assert_int_equal(cublasSgeam(handle, 1, 1, 2, 3, &one, a, 3, &zero, a, 3, c, 2), 0);
  EXPECT(c, float, 1, 4, 2, 5, 3, 6);
  assert_int_equal(cublasSgeam(handle, 0, 0, 3, 2, &two, a, 3, &one, a, 3, c, 3), 0);
  EXPECT(c, float, 3, 6, 9, 12, 15, 18);
  assert_int_equal(cublasScopy_v2(handle, 3, a, 2, c, -1), 0);
  EXPECT(c, float, 5, 3, 1);
  double *wide = TENSOR(double, 1, 2, 3, 4);
  double *turned = host_memory(16);
  assert_int_equal(cublasDcopy_v2(handle, 2, wide, 3, turned, -1), 0);
  EXPECT(turned, double, 4, 1);
  assert_int_equal(cublasSscal_v2(handle, 2, &two, c, 2), 0);
  EXPECT(c, float, 10, 3, 2);
  assert_int_equal(cublasSetMathMode(handle, 3), 0);
  assert_int_equal(cublasGetMathMode(handle, &mode), 0);
  assert_int_equal(mode, 3);
  assert_int_equal(cublasDestroy_v2(handle), 0);
}

/* A matrix times its inverse. The second matrix needs an exchange of rows; the third has no inverse. */
static void inverses(void **state) {
  (void)state;
  vcuda_blas *handle = NULL;
  assert_int_equal(cublasCreate_v2(&handle), 0);
  double *a = TENSOR(double, 2, 1, 1, 1, 0, 2, 4, 1, 1, 2, 2, 4), *c = host_memory(96);
  double **as = host_copy(LIST(double *, a, a + 4, a + 8), 24), **cs = host_copy(LIST(double *, c, c + 4, c + 8), 24);
  int *pivots = host_memory(24), *info = host_memory(12);
  assert_int_equal(cublasDgetrfBatched(handle, 2, as, 2, pivots, info, 3), 0);
  EXPECT(info, int, 0, 0, 2);
  EXPECT(pivots, int, 1, 2, 2, 2);
  assert_int_equal(cublasDgetriBatched(handle, 2, (const double *const *)as, 2, pivots, cs, 2, info, 3), 0);
  EXPECT(info, int, 0, 0, 2);
  const double expected[] = {1, -1, -1, 2, -0.125, 0.25, 0.5, 0};
  for (int i = 0; i < 8; i++) assert_true(fabs(c[i] - expected[i]) < 1e-12);
  assert_int_equal(cublasDestroy_v2(handle), 0);
}

/* ---- cuBLASLt ---- */

static vcuda_lt_layout *layout(int type, uint64_t rows, uint64_t columns, int64_t leading, int order) {
  vcuda_lt_layout *result = NULL;
  assert_int_equal(cublasLtMatrixLayoutCreate(&result, type, rows, columns, leading), 0);
  assert_int_equal(cublasLtMatrixLayoutSetAttribute(result, 1, &order, sizeof order), 0);
  return result;
}

static void light_products(void **state) {
  (void)state;
  vcuda_blas *handle = NULL;
  vcuda_lt_matmul *matmul = NULL;
  vcuda_lt_preference *preference = NULL;
  vcuda_lt_result results[2];
  vcuda_lt_layout *a_layout = layout(0, 2, 2, 2, 1), *c_layout = layout(0, 2, 2, 2, 0), *tiles = layout(0, 2, 2, 2, 2);
  const float one = 1, zero = 0;
  const int relu_and_bias = 2 | 4;
  int found = -1;
  size_t workspace = 1 << 20;
  /* by rows: 1 2, 3 4; the product with itself by columns, with a bias for each row and RELU */
  float *a = TENSOR(float, 1, 2, 3, 4), *bias = TENSOR(float, -10, -11), *half = TENSOR(float, 0.5F), *d = host_memory(16);
  assert_int_equal(cublasLtCreate(&handle), 0);
  assert_int_equal(cublasLtMatmulDescCreate(&matmul, 68, 0), 0);
  assert_int_equal(cublasLtMatmulPreferenceCreate(&preference), 0);
  assert_int_equal(cublasLtMatmulPreferenceSetAttribute(preference, 1, &workspace, sizeof workspace), 0);
  assert_int_equal(cublasLtMatmulDescSetAttribute(matmul, 7, &relu_and_bias, sizeof relu_and_bias), 0);
  assert_int_equal(cublasLtMatmulDescSetAttribute(matmul, 8, &bias, sizeof bias), 0);
  assert_int_equal(cublasLtMatmulDescSetAttribute(matmul, 20, &half, sizeof half), 0);
  assert_int_equal(cublasLtMatmulDescSetAttribute(matmul, 7, &relu_and_bias, 1), CUBLAS_INVALID_VALUE);
  assert_int_equal(cublasLtMatmulDescSetAttribute(matmul, 99, &found, sizeof found), CUBLAS_NOT_SUPPORTED);
  assert_int_equal(
      cublasLtMatmulAlgoGetHeuristic(handle, matmul, a_layout, a_layout, c_layout, c_layout, preference, 2, results, &found),
      0);
  assert_int_equal(found, 1);
  assert_int_equal(
      cublasLtMatmulAlgoGetHeuristic(handle, matmul, tiles, a_layout, c_layout, c_layout, preference, 2, results, &found),
      CUBLAS_NOT_SUPPORTED);
  host_set_device(1);
  assert_int_equal(cublasLtMatmul(handle, matmul, &one, a, a_layout, a, a_layout, &zero, d, c_layout, d, c_layout,
                                  &results[0].algorithm, NULL, 0, NULL),
                   CUBLAS_EXECUTION_FAILED);
  host_set_device(0);
  assert_int_equal(cublasLtMatmul(handle, matmul, &one, a, a_layout, a, a_layout, &zero, d, c_layout, d, c_layout,
                                  &results[0].algorithm, NULL, 0, NULL),
                   0);
  assert_int_equal(host_error(), 0);
  EXPECT(d, float, 0, 2, 0, 5.5F); /* from 7 10, 15 22 */
  assert_int_equal(cublasLtMatrixLayoutDestroy(a_layout), 0);
  assert_int_equal(cublasLtMatrixLayoutDestroy(c_layout), 0);
  assert_int_equal(cublasLtMatrixLayoutDestroy(tiles), 0);
  assert_int_equal(cublasLtMatmulPreferenceDestroy(preference), 0);
  assert_int_equal(cublasLtMatmulDescDestroy(matmul), 0);
  assert_int_equal(cublasLtDestroy(handle), 0);
}

int main(void) {
#define TEST(function) cmocka_unit_test_teardown(function, host_reset)
  const struct CMUnitTest tests[] = {
      TEST(all_types_and_transposes),
      TEST(handles_belong_to_a_device),
      TEST(batches),
      TEST(refusals),
      TEST(sums_and_vectors),
      TEST(inverses),
      TEST(light_products),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
