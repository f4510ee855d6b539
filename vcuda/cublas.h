/* Our own declarations of the part of cuBLAS and cuBLASLt that ORT's CUDA EP calls. Matrices are stored by columns. */
#ifndef VCUDA_CUBLAS_H
#define VCUDA_CUBLAS_H

#include <stddef.h>
#include <stdint.h>

#include "work.h"

enum {
  CUBLAS_OK = 0,
  CUBLAS_NOT_INITIALIZED = 1,
  CUBLAS_ALLOC_FAILED = 3,
  CUBLAS_INVALID_VALUE = 7,
  CUBLAS_EXECUTION_FAILED = 13,
  CUBLAS_NOT_SUPPORTED = 15
};

typedef struct vcuda_blas vcuda_blas; /* cublasHandle_t, and cublasLtHandle_t */

/* The beginning of a function that may queue work or create a handle. Other functions begin with VCUDA_OPEN. */
#define VCUDA_BLAS_OPEN(name, stream) \
  vcuda_call call;                    \
  vcuda_open(&call, name, stream);    \
  if (vcuda_refuses(&call) != 0) return vcuda_close(&call, CUBLAS_EXECUTION_FAILED)

/* A handle belongs to the device that was current when it was created. A call that queues work fails if another device is current. */
#define VCUDA_BLAS_SUBMIT(handle, ...)                                                                            \
  (vcuda_current_device() == (handle)->device                                                                     \
       ? VCUDA_BLAS_STATUS(vcuda_submit(__VA_ARGS__))                                                             \
       : (vcuda_log("a handle of device %d, and device %d is current", (handle)->device, vcuda_current_device()), \
          CUBLAS_EXECUTION_FAILED))

#define VCUDA_BLAS_STATUS(error) ((error) == 0 ? CUBLAS_OK : CUBLAS_EXECUTION_FAILED)

VCUDA_SHARED int cublasCreate_v2(vcuda_blas **handle);
VCUDA_SHARED int cublasDestroy_v2(vcuda_blas *handle);
VCUDA_SHARED int cublasSetStream_v2(vcuda_blas *handle, void *stream);
VCUDA_SHARED int cublasSetMathMode(vcuda_blas *handle, int mode);
VCUDA_SHARED int cublasGetMathMode(vcuda_blas *handle, int *mode);
VCUDA_SHARED const char *cublasGetStatusName(int status);
VCUDA_SHARED const char *cublasGetStatusString(int status);

/* op: 0 as it is, 1 and 2 transposed. The numbers alpha and beta are in host memory. */
#define VCUDA_BLAS_REAL(letter, real)                                                                                          \
  VCUDA_SHARED int cublas##letter##gemm_v2(vcuda_blas *handle, int op_a, int op_b, int m, int n, int k, const real *alpha,     \
                                           const real *a, int lda, const real *b, int ldb, const real *beta, real *c,          \
                                           int ldc);                                                                           \
  VCUDA_SHARED int cublas##letter##gemmBatched(vcuda_blas *handle, int op_a, int op_b, int m, int n, int k, const real *alpha, \
                                               const real *const *a, int lda, const real *const *b, int ldb, const real *beta, \
                                               real *const *c, int ldc, int batches);                                          \
  VCUDA_SHARED int cublas##letter##gemmStridedBatched(vcuda_blas *handle, int op_a, int op_b, int m, int n, int k,             \
                                                      const real *alpha, const real *a, int lda, long long stride_a,           \
                                                      const real *b, int ldb, long long stride_b, const real *beta, real *c,   \
                                                      int ldc, long long stride_c, int batches);                               \
  VCUDA_SHARED int cublas##letter##geam(vcuda_blas *handle, int op_a, int op_b, int m, int n, const real *alpha,               \
                                        const real *a, int lda, const real *beta, const real *b, int ldb, real *c, int ldc);   \
  VCUDA_SHARED int cublas##letter##getrfBatched(vcuda_blas *handle, int n, real *const *a, int lda, int *pivots, int *info,    \
                                                int batches);                                                                  \
  VCUDA_SHARED int cublas##letter##getriBatched(vcuda_blas *handle, int n, const real *const *a, int lda, const int *pivots,   \
                                                real *const *c, int ldc, int *info, int batches)

VCUDA_BLAS_REAL(S, float);
VCUDA_BLAS_REAL(D, double);

VCUDA_SHARED int cublasDcopy_v2(vcuda_blas *handle, int n, const double *x, int step_x, double *y, int step_y);
VCUDA_SHARED int cublasScopy_v2(vcuda_blas *handle, int n, const float *x, int step_x, float *y, int step_y);
VCUDA_SHARED int cublasSscal_v2(vcuda_blas *handle, int n, const float *alpha, float *x, int step);

VCUDA_SHARED int cublasGemmEx(vcuda_blas *handle, int op_a, int op_b, int m, int n, int k, const void *alpha, const void *a,
                              int type_a, int lda, const void *b, int type_b, int ldb, const void *beta, void *c, int type_c,
                              int ldc, int compute_type, int algorithm);
VCUDA_SHARED int cublasGemmBatchedEx(vcuda_blas *handle, int op_a, int op_b, int m, int n, int k, const void *alpha,
                                     const void *const *a, int type_a, int lda, const void *const *b, int type_b, int ldb,
                                     const void *beta, void *const *c, int type_c, int ldc, int batches, int compute_type,
                                     int algorithm);
VCUDA_SHARED int cublasGemmStridedBatchedEx(vcuda_blas *handle, int op_a, int op_b, int m, int n, int k, const void *alpha,
                                            const void *a, int type_a, int lda, long long stride_a, const void *b, int type_b,
                                            int ldb, long long stride_b, const void *beta, void *c, int type_c, int ldc,
                                            long long stride_c, int batches, int compute_type, int algorithm);

/* ---- cuBLASLt ---- */

typedef struct vcuda_lt_layout vcuda_lt_layout;         /* cublasLtMatrixLayout_t */
typedef struct vcuda_lt_matmul vcuda_lt_matmul;         /* cublasLtMatmulDesc_t */
typedef struct vcuda_lt_transform vcuda_lt_transform;   /* cublasLtMatrixTransformDesc_t */
typedef struct vcuda_lt_preference vcuda_lt_preference; /* cublasLtMatmulPreference_t */

typedef struct vcuda_lt_algorithm {
  uint64_t data[8];
} vcuda_lt_algorithm;

typedef struct vcuda_lt_result { /* cublasLtMatmulHeuristicResult_t */
  vcuda_lt_algorithm algorithm;
  size_t workspace;
  int status;
  float waves;
  int reserved[4];
} vcuda_lt_result;

VCUDA_SHARED int cublasLtCreate(vcuda_blas **handle);
VCUDA_SHARED int cublasLtDestroy(vcuda_blas *handle);
VCUDA_SHARED int cublasLtMatrixLayoutCreate(vcuda_lt_layout **layout, int type, uint64_t rows, uint64_t columns,
                                            int64_t leading);
VCUDA_SHARED int cublasLtMatrixLayoutDestroy(vcuda_lt_layout *layout);
VCUDA_SHARED int cublasLtMatrixLayoutSetAttribute(vcuda_lt_layout *layout, int attribute, const void *value, size_t size);
VCUDA_SHARED int cublasLtMatmulDescCreate(vcuda_lt_matmul **matmul, int compute_type, int scale_type);
VCUDA_SHARED int cublasLtMatmulDescDestroy(vcuda_lt_matmul *matmul);
VCUDA_SHARED int cublasLtMatmulDescSetAttribute(vcuda_lt_matmul *matmul, int attribute, const void *value, size_t size);
VCUDA_SHARED int cublasLtMatmulPreferenceCreate(vcuda_lt_preference **preference);
VCUDA_SHARED int cublasLtMatmulPreferenceDestroy(vcuda_lt_preference *preference);
VCUDA_SHARED int cublasLtMatmulPreferenceSetAttribute(vcuda_lt_preference *preference, int attribute, const void *value,
                                                      size_t size);
VCUDA_SHARED int cublasLtMatmulAlgoGetHeuristic(vcuda_blas *handle, vcuda_lt_matmul *matmul, vcuda_lt_layout *a,
                                                vcuda_lt_layout *b, vcuda_lt_layout *c, vcuda_lt_layout *d,
                                                vcuda_lt_preference *preference, int requested, vcuda_lt_result results[],
                                                int *found);
VCUDA_SHARED int cublasLtMatmulAlgoInit(vcuda_blas *handle, int compute_type, int scale_type, int type_a, int type_b,
                                        int type_c, int type_d, int id, vcuda_lt_algorithm *algorithm);
VCUDA_SHARED int cublasLtMatmulAlgoConfigSetAttribute(vcuda_lt_algorithm *algorithm, int attribute, const void *value,
                                                      size_t size);
VCUDA_SHARED int cublasLtMatmul(vcuda_blas *handle, vcuda_lt_matmul *matmul, const void *alpha, const void *a,
                                vcuda_lt_layout *layout_a, const void *b, vcuda_lt_layout *layout_b, const void *beta,
                                const void *c, vcuda_lt_layout *layout_c, void *d, vcuda_lt_layout *layout_d,
                                const vcuda_lt_algorithm *algorithm, void *workspace, size_t workspace_size, void *stream);
VCUDA_SHARED int cublasLtMatrixTransformDescCreate(vcuda_lt_transform **transform, int scale_type);
VCUDA_SHARED int cublasLtMatrixTransformDescDestroy(vcuda_lt_transform *transform);
VCUDA_SHARED int cublasLtMatrixTransform(vcuda_blas *handle, vcuda_lt_transform *transform, const void *alpha, const void *a,
                                         vcuda_lt_layout *layout_a, const void *beta, const void *b, vcuda_lt_layout *layout_b,
                                         void *c, vcuda_lt_layout *layout_c, void *stream);

#endif
