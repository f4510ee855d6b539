/* cuDNN: pooling. */
#include <math.h>

#include "dnn_classic.h"

enum { POOL_MAX = 0, POOL_AVERAGE_INCLUDE = 1, POOL_AVERAGE_EXCLUDE = 2, POOL_MAX_DETERMINISTIC = 3 };
enum { SPATIAL = DNN_MAX_RANK - 2 };

struct vcuda_dnn_pooling {
  bool is_set, propagates_nan;
  int mode, rank; /* of the window */
  int64_t window[SPATIAL], padding[SPATIAL], stride[SPATIAL];
};

VCUDA_DNN_DESCRIPTOR(Pooling, vcuda_dnn_pooling)

static int set(vcuda_dnn_pooling *pooling, const char *name, int mode, int nan, int rank, const int window[],
               const int padding[], const int stride[]) {
  if (pooling == NULL || window == NULL || padding == NULL || stride == NULL) {
    return vcuda_dnn_bad("%s: an argument is NULL", name);
  }
  if (mode < POOL_MAX || mode > POOL_MAX_DETERMINISTIC) return vcuda_dnn_unknown("%s: mode %d is not known here", name, mode);
  if (nan < 0 || nan > 1) return vcuda_dnn_unknown("%s: NaN propagation %d is not known here", name, nan);
  if (rank < 1 || rank > SPATIAL) return vcuda_dnn_bad("%s: %d dims; expected 1 to %d", name, rank, SPATIAL);
  vcuda_dnn_pooling made = {.is_set = true, .propagates_nan = nan == 1, .mode = mode, .rank = rank};
  for (int i = 0; i < rank; i++) {
    if (window[i] < 1 || padding[i] < 0 || stride[i] < 1) {
      return vcuda_dnn_bad("%s: dim %d: window %d, padding %d, stride %d; expected at least 1, 0, 1", name, i, window[i],
                           padding[i], stride[i]);
    }
    made.window[i] = window[i];
    made.padding[i] = padding[i];
    made.stride[i] = stride[i];
  }
  *pooling = made;
  return DNN_OK;
}

int cudnnSetPoolingNdDescriptor(vcuda_dnn_pooling *pooling, int mode, int nan, int rank, const int window[],
                                const int padding[], const int stride[]) {
  VCUDA_DNN_BEGIN(NULL);
  return vcuda_close(&call, set(pooling, __func__, mode, nan, rank, window, padding, stride));
}

typedef struct job {
  vcuda_dnn_pooling pooling;
  vcuda_dnn_tensor x, y;
  const void *x_address;
  void *y_address;
  double alpha, beta;
} job;

/* The part of one window that lies inside x. */
typedef struct window {
  int64_t dims[DNN_MAX_RANK], count, offset; /* offset of its first element in x */
} window;

static window window_of(const job *j, const int64_t *at) {
  window w = {.count = 1, .offset = at[0] * j->x.strides[0] + at[1] * j->x.strides[1]};
  for (int i = 0; i < j->pooling.rank; i++) {
    int64_t from = at[i + 2] * j->pooling.stride[i] - j->pooling.padding[i], to = from + j->pooling.window[i];
    if (to > j->x.dims[i + 2]) to = j->x.dims[i + 2];
    if (from < 0) from = 0;
    w.dims[i] = to > from ? to - from : 0;
    w.count *= w.dims[i];
    w.offset += from * j->x.strides[i + 2];
  }
  return w;
}

static bool is_maximum(const vcuda_dnn_pooling *pooling) {
  return pooling->mode == POOL_MAX || pooling->mode == POOL_MAX_DETERMINISTIC;
}

static double greater(const vcuda_dnn_pooling *pooling, double one, double other) {
  if (pooling->propagates_nan && (isnan(one) || isnan(other))) return NAN;
  return fmax(one, other);
}

/* The divisor of an average: the size of the whole window, or of its part inside x. At least 1, so that an empty sum gives 0. */
static double divisor(const vcuda_dnn_pooling *pooling, const window *w) {
  int64_t whole = 1;
  for (int i = 0; i < pooling->rank; i++) whole *= pooling->window[i];
  if (pooling->mode == POOL_AVERAGE_EXCLUDE) return w->count == 0 ? 1 : (double)w->count;
  return (double)whole;
}

static double pool(const job *j, const void *x, const window *w) {
  bool maximum = is_maximum(&j->pooling);
  double value = maximum ? -INFINITY : 0;
  int64_t at[DNN_MAX_RANK] = {0};
  for (int64_t i = 0; i < w->count; i++) {
    int64_t offset = w->offset;
    for (int dim = 0; dim < j->pooling.rank; dim++) offset += at[dim] * j->x.strides[dim + 2];
    double element = vcuda_load_real(j->x.type, x, offset);
    value = maximum ? greater(&j->pooling, value, element) : value + element;
    vcuda_dnn_advance(at, w->dims, j->pooling.rank);
  }
  return maximum ? value : value / divisor(&j->pooling, w);
}

static void run(void *arguments) {
  const job *j = arguments;
  const void *x = vcuda_dnn_read(&j->x, j->x_address);
  void *y = x == NULL ? NULL : vcuda_dnn_write(&j->y, j->y_address);
  int64_t at[DNN_MAX_RANK] = {0}, count = vcuda_dnn_count(&j->y);
  for (int64_t i = 0; y != NULL && i < count; i++) {
    const window w = window_of(j, at);
    vcuda_dnn_blend(&j->y, y, vcuda_dnn_offset(&j->y, i), j->alpha, pool(j, x, &w), j->beta);
    vcuda_dnn_advance(at, j->y.dims, j->y.rank);
  }
}

/* The caller determines y's spatial dims; they are not checked. */
static int check(const char *name, const job *j) {
  if (!j->pooling.is_set) return vcuda_dnn_bad("%s: the pooling descriptor is not set", name);
  if (j->x.rank != j->pooling.rank + 2 || j->y.rank != j->x.rank) {
    return vcuda_dnn_bad("%s: x has %d dims, y %d; expected %d, two more than the window", name, j->x.rank, j->y.rank,
                         j->pooling.rank + 2);
  }
  if (j->x.dims[0] != j->y.dims[0] || j->x.dims[1] != j->y.dims[1]) {
    return vcuda_dnn_bad("%s: x has %lld images of %lld channels, y %lld of %lld; expected the same", name,
                         (long long)j->x.dims[0], (long long)j->x.dims[1], (long long)j->y.dims[0], (long long)j->y.dims[1]);
  }
  return vcuda_dnn_check_floats(name, &j->x, &j->y);
}

int cudnnPoolingForward(vcuda_dnn *handle, const vcuda_dnn_pooling *pooling, const void *alpha, const vcuda_dnn_tensor *x,
                        const void *x_address, const void *beta, const vcuda_dnn_tensor *y, void *y_address) {
  VCUDA_DNN_OPEN(handle);
  if (pooling == NULL || x == NULL || y == NULL) {
    return vcuda_close(&call, vcuda_dnn_bad("%s: a descriptor is NULL", __func__));
  }
  const job j = {*pooling, *x, *y, x_address, y_address, vcuda_dnn_factor(x, alpha), vcuda_dnn_factor(x, beta)};
  int status = check(__func__, &j);
  if (status == DNN_OK) status = vcuda_dnn_submit(handle, __func__, run, &j, sizeof j);
  return vcuda_close(&call, status);
}
