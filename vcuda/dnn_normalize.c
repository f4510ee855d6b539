/* cuDNN: batch normalisation. */
#include <math.h>

#include "dnn_classic.h"

enum { NORM_PER_ACTIVATION = 0, NORM_SPATIAL = 1, NORM_PERSISTENT = 2 }; /* the last one computes what NORM_SPATIAL does */

static bool is_mode(int mode) {
  return mode >= NORM_PER_ACTIVATION && mode <= NORM_PERSISTENT;
}

/* The parameters' shape: that of one image, or one element for each channel. Their type is float for 16-bit types. */
static vcuda_dnn_tensor derive(const vcuda_dnn_tensor *x, int mode) {
  vcuda_dnn_tensor derived = *x;
  int64_t count = 1;
  if (x->type != VCUDA_FLOAT64) {
    derived.type = VCUDA_FLOAT32;
    derived.type_number = 0;
  }
  for (int i = x->rank - 1; i >= 0; i--) {
    if (i == 0 || (i > 1 && mode != NORM_PER_ACTIVATION)) derived.dims[i] = 1;
    derived.strides[i] = count;
    count *= derived.dims[i];
  }
  return derived;
}

int cudnnDeriveBNTensorDescriptor(vcuda_dnn_tensor *derived, const vcuda_dnn_tensor *x, int mode) {
  VCUDA_DNN_BEGIN(NULL);
  if (derived == NULL || x == NULL) return vcuda_close(&call, vcuda_dnn_bad("%s: a descriptor is NULL", __func__));
  if (!is_mode(mode)) return vcuda_close(&call, vcuda_dnn_unknown("%s: mode %d is not known here", __func__, mode));
  if (x->rank < 2) return vcuda_close(&call, vcuda_dnn_bad("%s: x has %d dims; expected 2 or more", __func__, x->rank));
  *derived = derive(x, mode);
  return vcuda_close(&call, DNN_OK);
}

/* All parameters have one descriptor. A parameter that a call does not have is NULL. */
typedef struct job {
  const char *name;
  int mode;
  vcuda_dnn_tensor x, y, parameters;
  const void *x_address, *scale, *bias;
  const void *mean, *variance; /* for inference */
  void *y_address, *running_mean, *running_variance, *saved_mean, *saved_deviation;
  double alpha, beta, epsilon, factor;
} job;

/* The accessible memory of the same tensors, while the work runs. */
typedef struct data {
  const void *x, *scale, *bias, *mean, *variance;
  void *y, *running_mean, *running_variance, *saved_mean, *saved_deviation;
} data;

/* The elements that share one parameter: `places` adjacent elements in each image. */
typedef struct group {
  int64_t images, image, start, places;
} group;

static group group_of(const job *j, int64_t parameter) {
  group g = {.images = j->x.dims[0], .image = vcuda_dnn_count(&j->x) / j->x.dims[0]};
  g.places = j->mode == NORM_PER_ACTIVATION ? 1 : g.image / j->x.dims[1];
  g.start = parameter * g.places;
  return g;
}

static int64_t member(const group *g, int64_t i) {
  return i / g->places * g->image + g->start + i % g->places;
}

typedef struct moments {
  double mean, variance;
} moments;

static moments measure(const job *j, const void *x, const group *g) {
  int64_t count = g->images * g->places;
  moments m = {0, 0};
  for (int64_t i = 0; i < count; i++) m.mean += vcuda_load_real(j->x.type, x, vcuda_dnn_offset(&j->x, member(g, i)));
  m.mean /= (double)count;
  for (int64_t i = 0; i < count; i++) {
    double off = vcuda_load_real(j->x.type, x, vcuda_dnn_offset(&j->x, member(g, i))) - m.mean;
    m.variance += off * off;
  }
  m.variance /= (double)count;
  return m;
}

static double load(const job *j, const void *parameters, int64_t at) {
  return vcuda_load_real(j->parameters.type, parameters, at);
}

static void normalize(const job *j, const data *d, const group *g, moments m, int64_t at) {
  double scale = load(j, d->scale, at) / sqrt(m.variance + j->epsilon), bias = load(j, d->bias, at);
  for (int64_t i = 0; i < g->images * g->places; i++) {
    int64_t index = member(g, i);
    double value = vcuda_load_real(j->x.type, d->x, vcuda_dnn_offset(&j->x, index));
    vcuda_dnn_blend(&j->y, d->y, vcuda_dnn_offset(&j->y, index), j->alpha, (value - m.mean) * scale + bias, j->beta);
  }
}

/* The running variance is the sample variance: n / (n - 1) times the population variance. */
static void keep(const job *j, const data *d, const group *g, moments m, int64_t at) {
  double count = (double)(g->images * g->places), old = 1 - j->factor;
  if (d->running_mean != NULL) {
    vcuda_dnn_blend(&j->parameters, d->running_mean, at, j->factor, m.mean, old);
    vcuda_dnn_blend(&j->parameters, d->running_variance, at, j->factor,
                    count > 1 ? m.variance * count / (count - 1) : m.variance, old);
  }
  if (d->saved_mean != NULL) {
    vcuda_store_real(j->parameters.type, d->saved_mean, at, m.mean);
    vcuda_store_real(j->parameters.type, d->saved_deviation, at, 1 / sqrt(m.variance + j->epsilon));
  }
}

static bool reach(const job *j, data *d) {
  const vcuda_dnn_tensor *p = &j->parameters;
  return vcuda_dnn_read_given(&j->x, j->x_address, &d->x) && vcuda_dnn_read_given(p, j->scale, &d->scale) &&
         vcuda_dnn_read_given(p, j->bias, &d->bias) && vcuda_dnn_read_given(p, j->mean, &d->mean) &&
         vcuda_dnn_read_given(p, j->variance, &d->variance) && vcuda_dnn_write_given(&j->y, j->y_address, &d->y) &&
         vcuda_dnn_write_given(p, j->running_mean, &d->running_mean) &&
         vcuda_dnn_write_given(p, j->running_variance, &d->running_variance) &&
         vcuda_dnn_write_given(p, j->saved_mean, &d->saved_mean) &&
         vcuda_dnn_write_given(p, j->saved_deviation, &d->saved_deviation);
}

static void run(void *arguments) {
  const job *j = arguments;
  data d;
  if (!reach(j, &d)) return;
  int64_t count = vcuda_dnn_count(&j->parameters);
  for (int64_t i = 0; i < count; i++) {
    const group g = group_of(j, i);
    int64_t at = vcuda_dnn_offset(&j->parameters, i);
    if (d.mean != NULL) {
      normalize(j, &d, &g, (moments){load(j, d.mean, at), load(j, d.variance, at)}, at);
    } else {
      moments m = measure(j, d.x, &g);
      normalize(j, &d, &g, m, at);
      keep(j, &d, &g, m, at);
    }
  }
}

static int check(const job *j) {
  if (!is_mode(j->mode)) return vcuda_dnn_unknown("%s: mode %d is not known here", j->name, j->mode);
  int status = vcuda_dnn_check_alike(j->name, &j->x, &j->y);
  if (status != DNN_OK) return status;
  if (j->x.rank < 2) return vcuda_dnn_bad("%s: x has %d dims; expected 2 or more", j->name, j->x.rank);
  const vcuda_dnn_tensor expected = derive(&j->x, j->mode), *p = &j->parameters;
  bool fits = p->type == expected.type && p->rank == expected.rank;
  for (int i = 0; fits && i < p->rank; i++) fits = p->dims[i] == expected.dims[i];
  if (!fits) {
    return vcuda_dnn_bad("%s: the descriptor of scale and bias is not what cudnnDeriveBNTensorDescriptor gives", j->name);
  }
  if (!(j->epsilon >= 0)) return vcuda_dnn_bad("%s: epsilon %g; expected 0 or more", j->name, j->epsilon);
  bool given = j->x_address != NULL && j->y_address != NULL && j->scale != NULL && j->bias != NULL;
  if (!given || (j->running_mean == NULL) != (j->running_variance == NULL) ||
      (j->saved_mean == NULL) != (j->saved_deviation == NULL)) {
    return vcuda_dnn_bad("%s: x, y, scale and bias are needed, and a mean with each variance", j->name);
  }
  return DNN_OK;
}

/* Check the arguments that both calls share, and queue the work. A NULL descriptor is refused. The caller has set the rest of the job. */
static int submit(vcuda_dnn *handle, job *j, const void *alpha, const void *beta, const vcuda_dnn_tensor *x,
                  const vcuda_dnn_tensor *y, const vcuda_dnn_tensor *parameters) {
  if (x == NULL || y == NULL || parameters == NULL) return vcuda_dnn_bad("%s: a descriptor is NULL", j->name);
  j->x = *x;
  j->y = *y;
  j->parameters = *parameters;
  j->alpha = vcuda_dnn_factor(x, alpha);
  j->beta = vcuda_dnn_factor(x, beta);
  int status = check(j);
  return status != DNN_OK ? status : vcuda_dnn_submit(handle, j->name, run, j, sizeof *j);
}

int cudnnBatchNormalizationForwardInference(vcuda_dnn *handle, int mode, const void *alpha, const void *beta,
                                            const vcuda_dnn_tensor *x, const void *x_address, const vcuda_dnn_tensor *y,
                                            void *y_address, const vcuda_dnn_tensor *parameters, const void *scale,
                                            const void *bias, const void *mean, const void *variance, double epsilon) {
  VCUDA_DNN_OPEN(handle);
  if (mean == NULL || variance == NULL)
    return vcuda_close(&call, vcuda_dnn_bad("%s: the mean or the variance is NULL", __func__));
  job j = {.name = __func__, .mode = mode, .x_address = x_address, .y_address = y_address, .scale = scale, .bias = bias};
  j.mean = mean;
  j.variance = variance;
  j.epsilon = epsilon;
  return vcuda_close(&call, submit(handle, &j, alpha, beta, x, y, parameters));
}

int cudnnBatchNormalizationForwardTraining(vcuda_dnn *handle, int mode, const void *alpha, const void *beta,
                                           const vcuda_dnn_tensor *x, const void *x_address, const vcuda_dnn_tensor *y,
                                           void *y_address, const vcuda_dnn_tensor *parameters, const void *scale,
                                           const void *bias, double factor, void *running_mean, void *running_variance,
                                           double epsilon, void *saved_mean, void *saved_deviation) {
  VCUDA_DNN_OPEN(handle);
  job j = {.name = __func__, .mode = mode, .x_address = x_address, .y_address = y_address, .scale = scale, .bias = bias};
  j.factor = factor;
  j.running_mean = running_mean;
  j.running_variance = running_variance;
  j.saved_mean = saved_mean;
  j.saved_deviation = saved_deviation;
  j.epsilon = epsilon;
  return vcuda_close(&call, submit(handle, &j, alpha, beta, x, y, parameters));
}
