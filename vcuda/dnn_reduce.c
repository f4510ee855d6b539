/* cuDNN: reductions of tensors, and the indices of the minimum and maximum. */
#include <math.h>

#include "dnn_classic.h"

typedef enum operation {
  REDUCE_ADD,
  REDUCE_MUL,
  REDUCE_MIN,
  REDUCE_MAX,
  REDUCE_AMAX,
  REDUCE_AVG,
  REDUCE_NORM1,
  REDUCE_NORM2,
  REDUCE_MUL_NO_ZEROS,
} operation; /* cudnnReduceTensorOp_t */

enum { NO_INDICES = 0, FLATTENED_INDICES = 1, INDICES_OF_32_BITS = 0 };

struct vcuda_dnn_reduction {
  bool is_set, propagates_nan, has_indices;
  operation operation;
};

VCUDA_DNN_DESCRIPTOR(ReduceTensor, vcuda_dnn_reduction)

static bool chooses(operation how) {
  return how == REDUCE_MIN || how == REDUCE_MAX || how == REDUCE_AMAX;
}

static int set(vcuda_dnn_reduction *reduction, const char *name, const int *given) {
  int how = given[0], type = given[1], nan = given[2], indices = given[3], index_type = given[4];
  if (reduction == NULL) return vcuda_dnn_bad("%s: the descriptor is NULL", name);
  if (how < REDUCE_ADD || how > REDUCE_MUL_NO_ZEROS) return vcuda_dnn_unknown("%s: operation %d is not known here", name, how);
  if (vcuda_dnn_type(type) != VCUDA_FLOAT32 && vcuda_dnn_type(type) != VCUDA_FLOAT64) {
    return vcuda_dnn_unknown("%s: computing with cudnnDataType_t %d; expected 0 or 1, float or double", name, type);
  }
  if (nan < 0 || nan > 1) return vcuda_dnn_unknown("%s: NaN propagation %d is not known here", name, nan);
  if (indices < NO_INDICES || indices > FLATTENED_INDICES) {
    return vcuda_dnn_unknown("%s: indices %d are not known here", name, indices);
  }
  bool has_indices = indices == FLATTENED_INDICES && chooses((operation)how);
  if (has_indices && index_type != INDICES_OF_32_BITS) {
    return vcuda_dnn_unknown("%s: cudnnIndicesType_t %d; expected %d, 32 bits", name, index_type, INDICES_OF_32_BITS);
  }
  *reduction = (vcuda_dnn_reduction){true, nan == 1, has_indices, (operation)how};
  return DNN_OK;
}

int cudnnSetReduceTensorDescriptor(vcuda_dnn_reduction *reduction, int how, int type, int nan, int indices, int index_type) {
  VCUDA_DNN_BEGIN(NULL);
  const int given[] = {how, type, nan, indices, index_type};
  return vcuda_close(&call, set(reduction, __func__, given));
}

static int check(const char *name, const vcuda_dnn_reduction *reduction, const vcuda_dnn_tensor *a, const vcuda_dnn_tensor *c) {
  if (reduction == NULL || a == NULL || c == NULL) return vcuda_dnn_bad("%s: a descriptor is NULL", name);
  if (!reduction->is_set) return vcuda_dnn_bad("%s: the reduction descriptor is not set", name);
  int status = vcuda_dnn_check_floats(name, a, c);
  if (status == DNN_OK && a->rank != c->rank) {
    status = vcuda_dnn_bad("%s: a has %d dims, c %d; expected the same", name, a->rank, c->rank);
  }
  for (int i = 0; status == DNN_OK && i < a->rank; i++) {
    if (c->dims[i] == 1 || c->dims[i] == a->dims[i]) continue;
    status = vcuda_dnn_bad("%s: dim %d of c is %lld; expected 1 or %lld, as a's", name, i, (long long)c->dims[i],
                           (long long)a->dims[i]);
  }
  return status;
}

/* ---- memory that the caller provides: indices, and a workspace with a number for each element of c ---- */

static size_t indices_size(const vcuda_dnn_reduction *reduction, const vcuda_dnn_tensor *c) {
  return reduction->has_indices ? (size_t)vcuda_dnn_count(c) * sizeof(int32_t) : 0;
}

static size_t workspace_size(const vcuda_dnn_tensor *c) {
  return (size_t)vcuda_dnn_count(c) * sizeof(double);
}

int cudnnGetReductionIndicesSize(vcuda_dnn *handle, const vcuda_dnn_reduction *reduction, const vcuda_dnn_tensor *a,
                                 const vcuda_dnn_tensor *c, size_t *bytes) {
  VCUDA_DNN_OPEN(handle);
  if (bytes == NULL) return vcuda_close(&call, vcuda_dnn_bad("%s: no room for the size", __func__));
  int status = check(__func__, reduction, a, c);
  if (status == DNN_OK) *bytes = indices_size(reduction, c);
  return vcuda_close(&call, status);
}

int cudnnGetReductionWorkspaceSize(vcuda_dnn *handle, const vcuda_dnn_reduction *reduction, const vcuda_dnn_tensor *a,
                                   const vcuda_dnn_tensor *c, size_t *bytes) {
  VCUDA_DNN_OPEN(handle);
  if (bytes == NULL) return vcuda_close(&call, vcuda_dnn_bad("%s: no room for the size", __func__));
  int status = check(__func__, reduction, a, c);
  if (status == DNN_OK) *bytes = workspace_size(c);
  return vcuda_close(&call, status);
}

/* ---- the work ---- */

typedef struct job {
  vcuda_dnn_reduction reduction;
  vcuda_dnn_tensor a, c;
  const void *a_address;
  void *c_address, *indices, *workspace;
  double alpha, beta;
} job;

static double identity(operation how) {
  switch (how) {
    case REDUCE_MUL:
    case REDUCE_MUL_NO_ZEROS: return 1;
    case REDUCE_MIN: return INFINITY;
    case REDUCE_MAX:
    case REDUCE_AMAX: return -INFINITY;
    default: return 0;
  }
}

/* Does `value` replace the current minimum or maximum? The first of equal values, and the first NaN, is kept. */
static bool replaces(const vcuda_dnn_reduction *r, double value, double best) {
  if (isnan(value)) return r->propagates_nan && !isnan(best);
  return r->operation == REDUCE_MIN ? value < best : value > best;
}

static double combine(operation how, double sum, double value) {
  switch (how) {
    case REDUCE_MUL: return sum * value;
    case REDUCE_MUL_NO_ZEROS: return value == 0 ? sum : sum * value;
    case REDUCE_NORM1: return sum + fabs(value);
    case REDUCE_NORM2: return sum + value * value;
    default: return sum + value;
  }
}

static double finish(operation how, double sum, int64_t count) {
  return how == REDUCE_AVG ? sum / (double)count : how == REDUCE_NORM2 ? sqrt(sum) : sum;
}

/* For an element of a: the index of its element in c, and its index among all elements reduced to that one. */
static void find(const job *j, const int64_t *at, int64_t *outer, int64_t *inner) {
  *outer = *inner = 0;
  for (int i = 0; i < j->a.rank; i++) {
    if (j->c.dims[i] == j->a.dims[i]) {
      *outer = *outer * j->c.dims[i] + at[i];
    } else {
      *inner = *inner * j->a.dims[i] + at[i];
    }
  }
}

static void accumulate(const job *j, const void *a, double *sums, int32_t *indices) {
  int64_t at[DNN_MAX_RANK] = {0}, count = vcuda_dnn_count(&j->a), outer = 0, inner = 0;
  operation how = j->reduction.operation;
  for (int64_t i = 0; i < count; i++, vcuda_dnn_advance(at, j->a.dims, j->a.rank)) {
    double value = vcuda_load_real(j->a.type, a, vcuda_dnn_offset(&j->a, i));
    if (how == REDUCE_AMAX) value = fabs(value);
    find(j, at, &outer, &inner);
    if (!chooses(how)) {
      sums[outer] = combine(how, sums[outer], value);
    } else if (replaces(&j->reduction, value, sums[outer])) {
      sums[outer] = value;
      if (indices != NULL) indices[outer] = (int32_t)inner;
    }
  }
}

static void run(void *arguments) {
  const job *j = arguments;
  int64_t count = vcuda_dnn_count(&j->c);
  size_t index_bytes = indices_size(&j->reduction, &j->c);
  const void *a = vcuda_dnn_read(&j->a, j->a_address);
  void *c = a == NULL
                ? NULL
                : vcuda_dnn_write(&j->c, j->c_address); /* before the workspace: wrong_compute changes what is written first */
  double *sums = c == NULL ? NULL : vcuda_writes(j->workspace, workspace_size(&j->c));
  int32_t *indices = sums == NULL || index_bytes == 0 ? NULL : vcuda_writes(j->indices, index_bytes);
  if (sums == NULL || (index_bytes > 0 && indices == NULL)) return;
  for (int64_t i = 0; i < count; i++) sums[i] = identity(j->reduction.operation);
  for (int64_t i = 0; indices != NULL && i < count; i++) indices[i] = 0;
  accumulate(j, a, sums, indices);
  for (int64_t i = 0; i < count; i++) {
    double value = finish(j->reduction.operation, sums[i], vcuda_dnn_count(&j->a) / count);
    vcuda_dnn_blend(&j->c, c, vcuda_dnn_offset(&j->c, i), j->alpha, value, j->beta);
  }
}

static int check_space(const char *name, const job *j, size_t indices_bytes, size_t workspace_bytes) {
  size_t needed = indices_size(&j->reduction, &j->c), room = workspace_size(&j->c);
  if (indices_bytes < needed || (needed > 0 && j->indices == NULL)) {
    return vcuda_dnn_bad("%s: %zu bytes for indices at %p; expected %zu", name, indices_bytes, j->indices, needed);
  }
  if (workspace_bytes < room || j->workspace == NULL) {
    return vcuda_dnn_bad("%s: a workspace of %zu bytes at %p; expected %zu", name, workspace_bytes, j->workspace, room);
  }
  if ((uintptr_t)j->workspace % sizeof(double) != 0 || (uintptr_t)j->indices % sizeof(int32_t) != 0) {
    return vcuda_dnn_bad("%s: the workspace at %p, indices at %p; expected multiples of 8 and 4", name, j->workspace,
                         j->indices);
  }
  return DNN_OK;
}

int cudnnReduceTensor(vcuda_dnn *handle, const vcuda_dnn_reduction *reduction, void *indices, size_t indices_bytes,
                      void *workspace, size_t workspace_bytes, const void *alpha, const vcuda_dnn_tensor *a,
                      const void *a_address, const void *beta, const vcuda_dnn_tensor *c, void *c_address) {
  VCUDA_DNN_OPEN(handle);
  int status = check(__func__, reduction, a, c);
  if (status != DNN_OK) return vcuda_close(&call, status);
  const job j = {.reduction = *reduction,
                 .a = *a,
                 .c = *c,
                 .a_address = a_address,
                 .c_address = c_address,
                 .indices = indices,
                 .workspace = workspace,
                 .alpha = vcuda_dnn_factor(a, alpha),
                 .beta = vcuda_dnn_factor(a, beta)};
  status = check_space(__func__, &j, indices_bytes, workspace_bytes);
  if (status == DNN_OK) status = vcuda_dnn_submit(handle, __func__, run, &j, sizeof j);
  return vcuda_close(&call, status);
}
