/* libcublasLt.so.13 */
#include "cublas.h"

#include <stdlib.h>
#include <string.h>

#include "product.h"

struct vcuda_blas {
  int device; /* each call names its stream */
};

struct vcuda_lt_layout {
  int32_t type, order;
  uint64_t rows, columns;
  int64_t leading, stride;
  int32_t batches;
};

struct vcuda_lt_matmul {
  int32_t compute_type, scale_type, pointer_mode, op_a, op_b, epilogue, bias_type;
  void *bias, *scales[4]; /* of a, b, c, d */
};

struct vcuda_lt_transform {
  int32_t scale_type;
};

struct vcuda_lt_preference {
  size_t workspace;
};

/* ---- objects ---- */

#define CREATE(object) (((object) = calloc(1, sizeof *(object))) == NULL ? CUBLAS_ALLOC_FAILED : CUBLAS_OK)

int cublasLtCreate(vcuda_blas **handle) {
  VCUDA_BLAS_OPEN(__func__, NULL);
  int status = CREATE(*handle);
  if (status == CUBLAS_OK) (*handle)->device = vcuda_current_device();
  return vcuda_close(&call, status);
}

int cublasLtDestroy(vcuda_blas *handle) {
  VCUDA_BLAS_OPEN(__func__, NULL);
  free(handle);
  return vcuda_close(&call, CUBLAS_OK);
}

int cublasLtMatrixLayoutCreate(vcuda_lt_layout **layout, int type, uint64_t rows, uint64_t columns, int64_t leading) {
  VCUDA_OPEN(NULL);
  int status = CREATE(*layout);
  if (status == CUBLAS_OK) {
    **layout = (vcuda_lt_layout){.type = type, .rows = rows, .columns = columns, .leading = leading, .batches = 1};
  }
  return vcuda_close(&call, status);
}

int cublasLtMatrixLayoutDestroy(vcuda_lt_layout *layout) {
  VCUDA_OPEN(NULL);
  free(layout);
  return vcuda_close(&call, CUBLAS_OK);
}

int cublasLtMatmulDescCreate(vcuda_lt_matmul **matmul, int compute_type, int scale_type) {
  VCUDA_OPEN(NULL);
  int status = CREATE(*matmul);
  if (status == CUBLAS_OK) {
    **matmul = (vcuda_lt_matmul){.compute_type = compute_type, .scale_type = scale_type, .epilogue = 1, .bias_type = -1};
  }
  return vcuda_close(&call, status);
}

int cublasLtMatmulDescDestroy(vcuda_lt_matmul *matmul) {
  VCUDA_OPEN(NULL);
  free(matmul);
  return vcuda_close(&call, CUBLAS_OK);
}

int cublasLtMatmulPreferenceCreate(vcuda_lt_preference **preference) {
  VCUDA_OPEN(NULL);
  return vcuda_close(&call, CREATE(*preference));
}

int cublasLtMatmulPreferenceDestroy(vcuda_lt_preference *preference) {
  VCUDA_OPEN(NULL);
  free(preference);
  return vcuda_close(&call, CUBLAS_OK);
}

int cublasLtMatrixTransformDescCreate(vcuda_lt_transform **transform, int scale_type) {
  VCUDA_OPEN(NULL);
  int status = CREATE(*transform);
  if (status == CUBLAS_OK) (*transform)->scale_type = scale_type;
  return vcuda_close(&call, status);
}

int cublasLtMatrixTransformDescDestroy(vcuda_lt_transform *transform) {
  VCUDA_OPEN(NULL);
  free(transform);
  return vcuda_close(&call, CUBLAS_OK);
}

/* ---- attributes, by cuBLASLt's numbers ---- */

static int set(void *field, size_t field_size, const void *value, size_t size) {
  if (value == NULL || size != field_size) return CUBLAS_INVALID_VALUE;
  memcpy(field, value, size);
  return CUBLAS_OK;
}

#define SET(field) set(&(field), sizeof(field), value, size)

static int set_layout(vcuda_lt_layout *layout, int attribute, const void *value, size_t size) {
  switch (attribute) {
    case 0: return SET(layout->type);
    case 1: return SET(layout->order);
    case 2: return SET(layout->rows);
    case 3: return SET(layout->columns);
    case 4: return SET(layout->leading);
    case 5: return SET(layout->batches);
    case 6: return SET(layout->stride);
    default:
      vcuda_log("cublasLtMatrixLayoutSetAttribute: attribute %d is not known here", attribute);
      return CUBLAS_NOT_SUPPORTED;
  }
}

int cublasLtMatrixLayoutSetAttribute(vcuda_lt_layout *layout, int attribute, const void *value, size_t size) {
  VCUDA_OPEN(NULL);
  return vcuda_close(&call, set_layout(layout, attribute, value, size));
}

static int set_matmul(vcuda_lt_matmul *matmul, int attribute, const void *value, size_t size) {
  switch (attribute) {
    case 0: return SET(matmul->compute_type);
    case 1: return SET(matmul->scale_type);
    case 2: return SET(matmul->pointer_mode);
    case 3: return SET(matmul->op_a);
    case 4: return SET(matmul->op_b);
    case 7: return SET(matmul->epilogue);
    case 8: return SET(matmul->bias);
    case 15: /* the number of multiprocessors, and less precise sums: both are ignored */
    case 25: return CUBLAS_OK;
    case 17:
    case 18:
    case 19:
    case 20: return SET(matmul->scales[attribute - 17]);
    case 26: return SET(matmul->bias_type);
    default:
      vcuda_log("cublasLtMatmulDescSetAttribute: attribute %d is not known here", attribute);
      return CUBLAS_NOT_SUPPORTED;
  }
}

int cublasLtMatmulDescSetAttribute(vcuda_lt_matmul *matmul, int attribute, const void *value, size_t size) {
  VCUDA_OPEN(NULL);
  return vcuda_close(&call, set_matmul(matmul, attribute, value, size));
}

int cublasLtMatmulPreferenceSetAttribute(vcuda_lt_preference *preference, int attribute, const void *value, size_t size) {
  VCUDA_OPEN(NULL);
  /* the other attributes choose an algorithm; there is only one */
  return vcuda_close(&call, attribute == 1 ? SET(preference->workspace) : CUBLAS_OK);
}

int cublasLtMatmulAlgoInit(vcuda_blas *handle, int compute_type, int scale_type, int type_a, int type_b, int type_c, int type_d,
                           int id, vcuda_lt_algorithm *algorithm) {
  VCUDA_OPEN(NULL);
  (void)handle, (void)compute_type, (void)scale_type, (void)type_a, (void)type_b, (void)type_c, (void)type_d;
  *algorithm = (vcuda_lt_algorithm){{(uint64_t)id}};
  return vcuda_close(&call, CUBLAS_OK);
}

int cublasLtMatmulAlgoConfigSetAttribute(vcuda_lt_algorithm *algorithm, int attribute, const void *value, size_t size) {
  VCUDA_OPEN(NULL);
  (void)algorithm, (void)attribute, (void)value, (void)size;
  return vcuda_close(&call, CUBLAS_OK);
}

/* ---- products ---- */

/* Read the matrix as the product uses it. False: the order is one of tiles. */
static bool read_layout(const vcuda_lt_layout *layout, const void *address, int op, vcuda_matrix *matrix) {
  *matrix = (vcuda_matrix){.type = vcuda_data_type(layout->type), .leading = layout->leading, .stride = layout->stride};
  memcpy(&matrix->address, &address, sizeof address);
  matrix->rows = (int64_t)layout->rows;
  matrix->columns = (int64_t)layout->columns;
  matrix->row_major = layout->order == 1;
  matrix->transposed = op != 0;
  return matrix->type != VCUDA_NO_TYPE && (layout->order == 0 || layout->order == 1);
}

static bool read_epilogue(const vcuda_lt_matmul *matmul, vcuda_product *p) {
  int activation = matmul->epilogue & ~(1 | 4);
  p->activation = activation == 2 ? VCUDA_RELU : activation == 32 ? VCUDA_GELU : VCUDA_LINEAR;
  if ((matmul->epilogue & 4) != 0) {
    p->bias = matmul->bias;
    p->bias_type = matmul->bias_type < 0 ? p->d.type : vcuda_data_type(matmul->bias_type);
  }
  return (activation == 0 || activation == 2 || activation == 32) &&
         ((matmul->epilogue & 4) == 0 || p->bias_type != VCUDA_NO_TYPE);
}

typedef struct factors {
  const vcuda_lt_layout *layout_a, *layout_b, *layout_c, *layout_d;
  const void *a, *b, *c, *d; /* NULL: only the layouts are used */
} factors;

static bool describe(const vcuda_lt_matmul *matmul, const factors *of, vcuda_product *p) {
  const vcuda_lt_layout *layout_d = of->layout_d;
  *p = (vcuda_product){.m = (int64_t)layout_d->rows, .n = (int64_t)layout_d->columns, .batches = layout_d->batches};
  p->k = (int64_t)(matmul->op_a == 0 ? of->layout_a->columns : of->layout_a->rows);
  p->scale_type = vcuda_data_type(matmul->scale_type);
  bool known = read_layout(of->layout_a, of->a, matmul->op_a, &p->a) && read_layout(of->layout_b, of->b, matmul->op_b, &p->b) &&
               read_layout(of->layout_c, of->c, 0, &p->c) && read_layout(layout_d, of->d, 0, &p->d) &&
               read_epilogue(matmul, p) && p->scale_type != VCUDA_NO_TYPE && matmul->pointer_mode <= 1;
  p->a.scale = matmul->scales[0];
  p->b.scale = matmul->scales[1];
  p->c.scale = matmul->scales[2];
  p->d.scale = matmul->scales[3];
  return known;
}

int cublasLtMatmulAlgoGetHeuristic(vcuda_blas *handle, vcuda_lt_matmul *matmul, vcuda_lt_layout *a, vcuda_lt_layout *b,
                                   vcuda_lt_layout *c, vcuda_lt_layout *d, vcuda_lt_preference *preference, int requested,
                                   vcuda_lt_result results[], int *found) {
  VCUDA_OPEN(NULL);
  vcuda_product p;
  (void)handle, (void)preference;
  *found = 0;
  if (requested < 1) return vcuda_close(&call, CUBLAS_INVALID_VALUE);
  const factors of = {.layout_a = a, .layout_b = b, .layout_c = c, .layout_d = d};
  if (!describe(matmul, &of, &p)) return vcuda_close(&call, CUBLAS_NOT_SUPPORTED);
  results[0] = (vcuda_lt_result){.waves = 1};
  *found = 1;
  return vcuda_close(&call, CUBLAS_OK);
}

int cublasLtMatmul(vcuda_blas *handle, vcuda_lt_matmul *matmul, const void *alpha, const void *a, vcuda_lt_layout *layout_a,
                   const void *b, vcuda_lt_layout *layout_b, const void *beta, const void *c, vcuda_lt_layout *layout_c,
                   void *d, vcuda_lt_layout *layout_d, const vcuda_lt_algorithm *algorithm, void *workspace,
                   size_t workspace_size, void *stream) {
  vcuda_product p;
  (void)algorithm, (void)workspace, (void)workspace_size;
  VCUDA_BLAS_OPEN(__func__, stream);
  const factors of = {layout_a, layout_b, layout_c, layout_d, a, b, c, d};
  if (!describe(matmul, &of, &p)) {
    vcuda_log("cublasLtMatmul: types %d, %d, %d, %d, orders %d, %d, %d, %d, epilogue %d, scale type %d: not known here",
              layout_a->type, layout_b->type, layout_c->type, layout_d->type, layout_a->order, layout_b->order, layout_c->order,
              layout_d->order, matmul->epilogue, matmul->scale_type);
    return vcuda_close(&call, CUBLAS_NOT_SUPPORTED);
  }
  if (matmul->pointer_mode == 1) {
    p.alpha_address = alpha;
    p.beta_address = beta;
  } else {
    p.alpha = vcuda_load_real(p.scale_type, alpha, 0);
    p.beta = vcuda_load_real(p.scale_type, beta, 0);
  }
  if (p.m == 0 || p.n == 0 || p.batches == 0) return vcuda_close(&call, CUBLAS_OK);
  return vcuda_close(&call, VCUDA_BLAS_SUBMIT(handle, stream, "cublasLtMatmul", vcuda_run_product, &p, sizeof p));
}

/* ORT calls it only for quantised operators with orders of tiles. */
int cublasLtMatrixTransform(vcuda_blas *handle, vcuda_lt_transform *transform, const void *alpha, const void *a,
                            vcuda_lt_layout *layout_a, const void *beta, const void *b, vcuda_lt_layout *layout_b, void *c,
                            vcuda_lt_layout *layout_c, void *stream) {
  VCUDA_OPEN(stream);
  (void)handle, (void)transform, (void)alpha, (void)a, (void)beta, (void)b, (void)layout_b, (void)c, (void)stream;
  vcuda_log("cublasLtMatrixTransform: orders %d to %d: not known here", layout_a->order, layout_c->order);
  return vcuda_close(&call, CUBLAS_NOT_SUPPORTED);
}
