/* Convolutions as products of matrices. The filter has a row for each channel of the result. The other matrix has a column for each
 * position of the result, with the data elements under the filter. The columns are gathered in tiles, which threads on the machine's
 * cores compute. */
#define _DEFAULT_SOURCE /* _SC_NPROCESSORS_ONLN */
#include "dnn_convolution.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
  TILE = 64,           /* positions that are computed together */
  DEPTH = 256,         /* rows of a tile that are gathered together */
  LANES = 8,           /* positions that the innermost loop computes */
  ROWS = 4,            /* channels of the result that the innermost loop computes */
  MAX_WORKERS = 16,    /* threads of a convolution */
  WORKER_WORK = 200000 /* multiplications for each additional thread */
};

/* ---- shapes ---- */

/* The result's length along a spatial dimension of a forward convolution. Less than 1: the filter does not fit. */
static int64_t positions_of(const vcuda_dnn_window *w, int i, int64_t length, int64_t taps) {
  int64_t room = length + w->before[i] + w->after[i] - (taps - 1) * w->dilations[i] - 1;
  return room < 0 ? 0 : room / w->strides[i] + 1;
}

static bool computes_with(vcuda_type type) {
  return type == VCUDA_FLOAT16 || type == VCUDA_BFLOAT16 || type == VCUDA_FLOAT32 || type == VCUDA_FLOAT64;
}

static int check_window(const char *name, const vcuda_dnn_convolution *c, const vcuda_dnn_tensor *x,
                        const vcuda_dnn_tensor *y) {
  const vcuda_dnn_window *w = &c->window;
  for (int i = 0; i < w->spatial; i++) {
    if (w->strides[i] < 1 || w->dilations[i] < 1 || w->before[i] < 0 || w->after[i] < 0) {
      return vcuda_dnn_bad("%s: spatial dim %d has stride %lld, dilation %lld, padding %lld and %lld", name, i,
                           (long long)w->strides[i], (long long)w->dilations[i], (long long)w->before[i],
                           (long long)w->after[i]);
    }
    int64_t expected = positions_of(w, i, x->dims[i + 2], c->filter.dims[i + 2]);
    if (y->dims[i + 2] != expected) {
      return vcuda_dnn_bad("%s: dim %d of y is %lld; x, filter and padding give %lld", name, i + 2, (long long)y->dims[i + 2],
                           (long long)expected);
    }
  }
  return DNN_OK;
}

static int check_steps(const char *name, const vcuda_dnn_convolution *c) {
  if (c->step_count > 0 && c->beta != 0) return vcuda_dnn_unknown("%s: beta %g before another operation", name, c->beta);
  for (int i = 0; i < c->step_count; i++) {
    const vcuda_dnn_tensor *operand = &c->steps[i].operand;
    if (c->steps[i].rectifies) continue;
    bool fits = operand->rank == c->result.rank && vcuda_type_is_float(operand->type);
    for (int d = 0; fits && d < operand->rank; d++) fits = operand->dims[d] == 1 || operand->dims[d] == c->result.dims[d];
    if (!fits) return vcuda_dnn_bad("%s: what is added fits the result in neither shape nor type", name);
  }
  return DNN_OK;
}

int vcuda_dnn_check_convolution(const char *name, const vcuda_dnn_convolution *c) {
  const vcuda_dnn_tensor *x = c->backward ? &c->result : &c->data, *y = c->backward ? &c->data : &c->result, *w = &c->filter;
  if (!computes_with(x->type) || !computes_with(w->type) || !computes_with(y->type) ||
      (c->compute != VCUDA_FLOAT32 && c->compute != VCUDA_FLOAT64)) {
    return vcuda_dnn_unknown("%s: types %d, %d and %d: convolutions here are of floats, computed in float or double", name,
                             x->type_number, w->type_number, y->type_number);
  }
  if (x->rank < 3 || x->rank != w->rank || x->rank != y->rank || x->rank != c->window.spatial + 2) {
    return vcuda_dnn_bad("%s: ranks %d, %d and %d, and %d spatial dims", name, x->rank, w->rank, y->rank, c->window.spatial);
  }
  if (c->groups < 1 || x->dims[1] != w->dims[1] * c->groups || w->dims[0] != y->dims[1] || w->dims[0] % c->groups != 0 ||
      x->dims[0] != y->dims[0]) {
    return vcuda_dnn_bad(
        "%s: [%lld, %lld, ...] with a filter [%lld, %lld, ...] and %lld groups does not give [%lld, %lld, ...]", name,
        (long long)x->dims[0], (long long)x->dims[1], (long long)w->dims[0], (long long)w->dims[1], (long long)c->groups,
        (long long)y->dims[0], (long long)y->dims[1]);
  }
  int status = check_window(name, c, x, y);
  return status == DNN_OK ? check_steps(name, c) : status;
}

size_t vcuda_dnn_workspace_bytes(const vcuda_dnn_convolution *c) {
  return (size_t)vcuda_dnn_count(&c->filter) * vcuda_type_size(c->compute);
}

/* ---- a running convolution ---- */

/* A spatial dimension. For position p of the result and tap t of the filter, the index in the data is from[t * positions + p]; -1: none. */
typedef struct axis {
  int64_t positions, length, taps;
  int64_t *from;
  int64_t first, per_tap; /* if `steps`: that index is p + first + t * per_tap */
  bool steps;
} axis;

/* A tensor by strides along the result's batch, channels and axes. A stride is 0 where one element is used for all. */
typedef struct view {
  vcuda_type type;
  void *data;
  int64_t strides[DNN_MAX_RANK];
} view;

typedef struct job {
  const vcuda_dnn_convolution *c;
  size_t size; /* of a number of the compute type */
  int axis_count;
  axis axes[DNN_MAX_SPATIAL];
  int64_t images, rows, channels, taps, positions; /* of a group: rows are channels of the result, channels those of the data */
  int64_t tiles;                                   /* for each image and group */
  const char *data, *filter;                       /* without gaps; the filter by groups, rows, channels, taps */
  view result, operands[DNN_MAX_STEPS];
  void *own[3]; /* allocations to free */
  atomic_llong next;
} job;

/* Consecutive positions of a tile along the last axis. */
typedef struct run {
  int64_t start, length;
  int64_t at[DNN_MAX_SPATIAL]; /* of the other axes */
} run;

typedef struct tile {
  int64_t image, group, width;
  int run_count;
  run runs[TILE];
} tile;

/* ---- preparation: tensors without gaps ---- */

static void unpack_line(const vcuda_dnn_tensor *t, const char *line, int64_t length, int64_t stride, vcuda_type type,
                        char *to) {
  size_t size = vcuda_type_size(type);
  if (t->type == type && stride == 1) {
    memcpy(to, line, (size_t)length * size);
    return;
  }
  for (int64_t i = 0; i < length; i++) {
    if (t->type == type) {
      memcpy(to + (size_t)i * size, line + i * stride * (int64_t)size, size);
    } else {
      vcuda_store_real(type, to, i, vcuda_load_real(t->type, line, i * stride));
    }
  }
}

static void unpack(const vcuda_dnn_tensor *t, const char *data, vcuda_type type, char *to) {
  int64_t length = t->dims[t->rank - 1], count = vcuda_dnn_count(t);
  for (int64_t i = 0; i < count; i += length) {
    const char *line = data + vcuda_dnn_offset(t, i) * (int64_t)vcuda_type_size(t->type);
    unpack_line(t, line, length, t->strides[t->rank - 1], type, to + (size_t)i * vcuda_type_size(type));
  }
}

/* The filter of the gradient has a row for each channel of x: its first two dims are swapped within each group. */
static void unpack_filter(const vcuda_dnn_convolution *c, const char *data, char *to) {
  vcuda_dnn_tensor slice = c->filter;
  size_t size = vcuda_type_size(c->filter.type);
  int64_t outputs = c->filter.dims[0] / c->groups, taps = vcuda_dnn_count(&c->filter) / (c->filter.dims[0] * c->filter.dims[1]);
  if (!c->backward) {
    unpack(&c->filter, data, c->compute, to);
    return;
  }
  slice.dims[0] = slice.dims[1] = 1;
  for (int64_t output = 0; output < c->filter.dims[0]; output++) {
    for (int64_t input = 0; input < c->filter.dims[1]; input++) {
      int64_t group = output / outputs, row = (group * c->filter.dims[1] + input) * outputs + output % outputs;
      unpack(&slice, data + (output * c->filter.strides[0] + input * c->filter.strides[1]) * (int64_t)size, c->compute,
             to + (size_t)(row * taps) * vcuda_type_size(c->compute));
    }
  }
}

/* ---- preparation: indices and strides ---- */

static int64_t meets(const vcuda_dnn_convolution *c, int i, int64_t position, int64_t tap) {
  const vcuda_dnn_window *w = &c->window;
  if (!c->backward) return position * w->strides[i] - w->before[i] + tap * w->dilations[i];
  int64_t shifted = position + w->before[i] - tap * w->dilations[i];
  return shifted < 0 || shifted % w->strides[i] != 0 ? -1 : shifted / w->strides[i];
}

static bool fill_axis(const vcuda_dnn_convolution *c, int i, axis *a) {
  a->positions = c->result.dims[i + 2];
  a->length = c->data.dims[i + 2];
  a->taps = c->filter.dims[i + 2];
  a->steps = c->window.strides[i] == 1;
  a->first = c->backward ? c->window.before[i] : -c->window.before[i];
  a->per_tap = c->backward ? -c->window.dilations[i] : c->window.dilations[i];
  a->from = malloc((size_t)(a->positions * a->taps) * sizeof *a->from);
  for (int64_t tap = 0; a->from != NULL && tap < a->taps; tap++) {
    for (int64_t p = 0; p < a->positions; p++) {
      int64_t from = meets(c, i, p, tap);
      a->from[tap * a->positions + p] = from < a->length ? from : -1;
    }
  }
  return a->from != NULL;
}

/* A dimension of one position, one element and one tap can be removed. The last remaining dimension should be long. */
static bool is_flat(const vcuda_dnn_convolution *c, int i) {
  return c->result.dims[i + 2] == 1 && c->data.dims[i + 2] == 1 && c->filter.dims[i + 2] == 1 && c->window.before[i] == 0;
}

static view view_of(const job *j, const vcuda_dnn_tensor *t, void *data) {
  view v = {.type = t->type, .data = data};
  int count = 2;
  for (int i = 0; i < t->rank; i++) {
    int64_t stride = t->dims[i] == 1 ? 0 : t->strides[i];
    if (i < 2) {
      v.strides[i] = stride;
    } else if (!is_flat(j->c, i - 2) || (i == t->rank - 1 && count == 2)) {
      v.strides[count++] = stride;
    }
  }
  return v;
}

static bool fill_axes(job *j) {
  int spatial = j->c->window.spatial;
  for (int i = 0; i < spatial; i++) {
    if (is_flat(j->c, i) && (i < spatial - 1 || j->axis_count > 0)) continue;
    if (!fill_axis(j->c, i, &j->axes[j->axis_count++])) return false;
  }
  return true;
}

static bool fill(job *j, const char *data, const char *filter, char *workspace) {
  const vcuda_dnn_convolution *c = j->c;
  j->size = vcuda_type_size(c->compute);
  j->images = c->result.dims[0];
  j->rows = c->result.dims[1] / c->groups;
  j->channels = c->data.dims[1] / c->groups;
  j->taps = vcuda_dnn_count(&c->filter) / (c->filter.dims[0] * c->filter.dims[1]);
  j->positions = vcuda_dnn_count(&c->result) / (c->result.dims[0] * c->result.dims[1]);
  j->tiles = (j->positions + TILE - 1) / TILE;
  char *numbers = j->own[0] = malloc((size_t)vcuda_dnn_count(&c->data) * j->size);
  char *weights = workspace != NULL ? workspace : (j->own[1] = malloc(vcuda_dnn_workspace_bytes(c)));
  if (numbers == NULL || weights == NULL || !fill_axes(j)) return false;
  unpack(&c->data, data, c->compute, numbers);
  unpack_filter(c, filter, weights);
  j->data = numbers;
  j->filter = weights;
  return true;
}

/* ---- a tile ---- */

static void find_runs(const job *j, tile *t, int64_t start) {
  const axis *last = &j->axes[j->axis_count - 1];
  int64_t end = start + t->width;
  t->run_count = 0;
  while (start < end) {
    run *r = &t->runs[t->run_count++];
    int64_t line = start / last->positions;
    r->start = start % last->positions;
    r->length = last->positions - r->start < end - start ? last->positions - r->start : end - start;
    for (int i = j->axis_count - 2; i >= 0; i--) {
      r->at[i] = line % j->axes[i].positions;
      line /= j->axes[i].positions;
    }
    start += r->length;
  }
}

#define GATHER(real)                                                                                          \
  static void gather_line_##real(const axis *a, int64_t tap, const run *r, const real *line, real *to) {      \
    if (!a->steps) {                                                                                          \
      const int64_t *from = a->from + tap * a->positions + r->start;                                          \
      for (int64_t i = 0; i < r->length; i++) to[i] = from[i] < 0 ? 0 : line[from[i]];                        \
      return;                                                                                                 \
    }                                                                                                         \
    int64_t first = r->start + a->first + tap * a->per_tap;                                                   \
    int64_t before = first >= 0 ? 0 : -first < r->length ? -first : r->length;                                \
    int64_t end = first + r->length <= a->length ? r->length : a->length - first;                             \
    if (end < before) end = before;                                                                           \
    memset(to, 0, (size_t)before * sizeof *to);                                                               \
    if (end > before) memcpy(to + before, line + first + before, (size_t)(end - before) * sizeof *to);        \
    memset(to + end, 0, (size_t)(r->length - end) * sizeof *to);                                              \
  }                                                                                                           \
  /* Gather a row of the tile: the elements of one channel under one tap of the filter, zero outside. */      \
  static void gather_row_##real(const job *j, const tile *t, const real *channel, int64_t tap, real *to) {    \
    const axis *last = &j->axes[j->axis_count - 1];                                                           \
    int64_t taps[DNN_MAX_SPATIAL];                                                                            \
    for (int i = j->axis_count - 1; i >= 0; i--) {                                                            \
      taps[i] = tap % j->axes[i].taps;                                                                        \
      tap /= j->axes[i].taps;                                                                                 \
    }                                                                                                         \
    memset(to, 0, TILE * sizeof *to);                                                                         \
    for (int n = 0; n < t->run_count; n++) {                                                                  \
      const run *r = &t->runs[n];                                                                             \
      int64_t line = 0;                                                                                       \
      for (int i = 0; line >= 0 && i < j->axis_count - 1; i++) {                                              \
        int64_t from = j->axes[i].from[taps[i] * j->axes[i].positions + r->at[i]];                            \
        line = from < 0 ? -1 : line * j->axes[i].length + from;                                               \
      }                                                                                                       \
      if (line >= 0) gather_line_##real(last, taps[j->axis_count - 1], r, channel + line * last->length, to); \
      to += r->length;                                                                                        \
    }                                                                                                         \
  }

/* Compute ROWS rows by LANES positions with the sums in registers. Rows beyond the last one repeat it, and their results are discarded. */
#define MULTIPLY(real)                                                                                                  \
  static void multiply_block_##real(const real *const rows[ROWS], int64_t depth, const real *columns,                   \
                                    real *const sums[ROWS]) {                                                           \
    real s[ROWS][LANES] = {{0}};                                                                                        \
    for (int64_t q = 0; q < depth; q++) {                                                                               \
      for (int i = 0; i < ROWS; i++) {                                                                                  \
        for (int n = 0; n < LANES; n++) s[i][n] += rows[i][q] * columns[q * TILE + n];                                  \
      }                                                                                                                 \
    }                                                                                                                   \
    for (int i = 0; i < ROWS && sums[i] != NULL; i++) {                                                                 \
      for (int n = 0; n < LANES; n++) sums[i][n] += s[i][n];                                                            \
    }                                                                                                                   \
  }                                                                                                                     \
  static void multiply_##real(const real *filter, int64_t pitch, int64_t count, int64_t depth, const real *columns,     \
                              int64_t width, real *sums) {                                                              \
    for (int64_t row = 0; row < count; row += ROWS) {                                                                   \
      for (int64_t at = 0; at < width; at += LANES) {                                                                   \
        const real *rows[ROWS];                                                                                         \
        real *to[ROWS];                                                                                                 \
        for (int i = 0; i < ROWS; i++) {                                                                                \
          int64_t own = row + i < count ? row + i : count - 1;                                                          \
          rows[i] = filter + own * pitch;                                                                               \
          to[i] = row + i < count ? sums + own * TILE + at : NULL;                                                      \
        }                                                                                                               \
        multiply_block_##real(rows, depth, columns + at, to);                                                           \
      }                                                                                                                 \
    }                                                                                                                   \
  }                                                                                                                     \
  static void compute_##real(const job *j, const tile *t, real *columns, real *sums) {                                  \
    int64_t size = 1, depth = j->channels * j->taps;                                                                    \
    for (int i = 0; i < j->axis_count; i++) size *= j->axes[i].length;                                                  \
    const real *data = (const real *)(const void *)j->data + (t->image * j->c->groups + t->group) * j->channels * size; \
    const real *filter = (const real *)(const void *)j->filter + t->group * j->rows * depth;                            \
    memset(sums, 0, (size_t)(j->rows * TILE) * sizeof *sums);                                                           \
    for (int64_t done = 0; done < depth; done += DEPTH) {                                                               \
      int64_t part = depth - done < DEPTH ? depth - done : DEPTH;                                                       \
      for (int64_t q = 0; q < part; q++) {                                                                              \
        gather_row_##real(j, t, data + (done + q) / j->taps * size, (done + q) % j->taps, columns + q * TILE);          \
      }                                                                                                                 \
      multiply_##real(filter + done, depth, j->rows, part, columns, t->width, sums);                                    \
    }                                                                                                                   \
  }

/* NOLINTBEGIN(bugprone-implicit-widening-of-multiplication-result,readability-suspicious-call-argument) */
GATHER(float)
MULTIPLY(float)
GATHER(double)
MULTIPLY(double)
/* NOLINTEND(bugprone-implicit-widening-of-multiplication-result,readability-suspicious-call-argument) */

/* ---- the result ---- */

static int64_t place(const job *j, const view *v, const tile *t, int64_t channel, const run *r) {
  int64_t offset = t->image * v->strides[0] + channel * v->strides[1] + r->start * v->strides[j->axis_count + 1];
  for (int i = 0; i < j->axis_count - 1; i++) offset += r->at[i] * v->strides[i + 2];
  return offset;
}

static double round_to(vcuda_type type, double value) {
  char room[sizeof(double)];
  vcuda_store_real(type, room, 0, value);
  return vcuda_load_real(type, room, 0);
}

static double take_steps(const job *j, const int64_t places[], int64_t i, double value) {
  for (int n = 0; n < j->c->step_count; n++) {
    const vcuda_dnn_step *step = &j->c->steps[n];
    const view *operand = &j->operands[n];
    value = round_to(step->rounded, value);
    if (step->rectifies) {
      value = value < 0 || (isnan(value) && !step->keeps_nan) ? 0 : value;
      continue;
    }
    double other = vcuda_load_real(operand->type, operand->data, places[n] + i * operand->strides[j->axis_count + 1]);
    value = step->alpha * value + step->beta * other;
  }
  return value;
}

static bool is_plain(const job *j) {
  return j->c->alpha == 1 && j->c->beta == 0 && j->c->step_count == 0 && j->result.type == j->c->compute;
}

static void write_run(const job *j, const tile *t, int64_t channel, const run *r, const char *sums) {
  const view *y = &j->result;
  int64_t at = place(j, y, t, channel, r), stride = y->strides[j->axis_count + 1], places[DNN_MAX_STEPS] = {0};
  if (is_plain(j) && stride == 1) {
    memcpy((char *)y->data + (size_t)at * j->size, sums, (size_t)r->length * j->size);
    return;
  }
  for (int n = 0; n < j->c->step_count; n++) places[n] = place(j, &j->operands[n], t, channel, r);
  for (int64_t i = 0; i < r->length; i++) {
    double value = take_steps(j, places, i, j->c->alpha * vcuda_load_real(j->c->compute, sums, i));
    vcuda_dnn_blend(&j->c->result, y->data, at + i * stride, 1, value, j->c->beta);
  }
}

static void write_tile(const job *j, const tile *t, const char *sums) {
  for (int64_t row = 0; row < j->rows; row++) {
    int64_t done = row * TILE;
    for (int n = 0; n < t->run_count; n++) {
      write_run(j, t, t->group * j->rows + row, &t->runs[n], sums + (size_t)done * j->size);
      done += t->runs[n].length;
    }
  }
}

/* ---- all tiles, on several threads ---- */

typedef struct worker {
  job *j;
  void *room; /* for the columns and sums of a tile */
} worker;

static void compute_tile(const job *j, int64_t number, void *room) {
  tile t = {.image = number / j->tiles / j->c->groups, .group = number / j->tiles % j->c->groups};
  int64_t start = number % j->tiles * TILE;
  t.width = j->positions - start < TILE ? j->positions - start : TILE;
  char *sums = (char *)room + (size_t)DEPTH * TILE * j->size;
  find_runs(j, &t, start);
  if (j->c->compute == VCUDA_FLOAT64) {
    compute_double(j, &t, room, (double *)(void *)sums);
  } else {
    compute_float(j, &t, room, (float *)(void *)sums);
  }
  write_tile(j, &t, sums);
}

static void *work(void *argument) {
  const worker *w = argument;
  int64_t count = w->j->images * w->j->c->groups * w->j->tiles;
  for (;;) {
    int64_t number = atomic_fetch_add(&w->j->next, 1);
    if (number >= count) return NULL;
    compute_tile(w->j, number, w->room);
  }
}

static int64_t count_workers(const job *j) {
  int64_t tiles = j->images * j->c->groups * j->tiles, cores = sysconf(_SC_NPROCESSORS_ONLN);
  int64_t worth = 1 + tiles * TILE * j->rows * j->channels * j->taps / WORKER_WORK,
          most = cores < MAX_WORKERS ? cores : MAX_WORKERS;
  if (most > tiles) most = tiles;
  return most < 1 ? 1 : most < worth ? most : worth;
}

/* The calling thread is one of the workers. If no other thread can be started, it computes all tiles. */
static bool compute(job *j) {
  pthread_t threads[MAX_WORKERS];
  int64_t count = count_workers(j), started = 1;
  size_t bytes = ((size_t)j->rows + DEPTH) * TILE * j->size;
  char *room = j->own[2] = malloc((size_t)count * bytes);
  if (room == NULL) return false;
  worker workers[MAX_WORKERS] = {{j, room}};
  for (int64_t i = 1; i < count; i++) workers[i] = (worker){j, room + (size_t)i * bytes};
  while (started < count && pthread_create(&threads[started], NULL, work, &workers[started]) == 0) started++;
  (void)work(&workers[0]);
  for (int64_t i = 1; i < started; i++) pthread_join(threads[i], NULL);
  return true;
}

static bool find_operands(job *j) {
  for (int i = 0; i < j->c->step_count; i++) {
    const vcuda_dnn_step *step = &j->c->steps[i];
    if (step->rectifies) continue;
    const void *data = vcuda_dnn_read(&step->operand, step->address);
    if (data == NULL) return false;
    j->operands[i] = view_of(j, &step->operand, NULL);
    memcpy(&j->operands[i].data, &data, sizeof data);
  }
  return true;
}

void vcuda_dnn_run_convolution(void *convolution) {
  const vcuda_dnn_convolution *c = convolution;
  job j = {.c = c};
  const void *data = vcuda_dnn_read(&c->data, c->data_address);
  const void *filter = data == NULL ? NULL : vcuda_dnn_read(&c->filter, c->filter_address);
  if (filter == NULL || !find_operands(&j)) return;
  if (c->beta != 0 && vcuda_dnn_read(&c->result, c->result_address) == NULL) return;
  void *result =
      vcuda_dnn_write(&c->result, c->result_address); /* before the workspace: wrong_compute changes what is written first */
  void *workspace = c->workspace == NULL ? NULL : vcuda_writes(c->workspace, vcuda_dnn_workspace_bytes(c));
  if (result == NULL || (c->workspace != NULL && workspace == NULL)) return;
  j.result = view_of(&j, &c->result, result);
  if (!fill(&j, data, filter, workspace) || !compute(&j)) vcuda_fail(2, "a convolution: no memory on the host");
  for (int i = 0; i < j.axis_count; i++) free(j.axes[i].from);
  for (int i = 0; i < 3; i++) free(j.own[i]);
}
