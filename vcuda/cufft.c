/* libcufft.so.12, and .11 for older releases of ORT: transforms along one or two dimensions, as ORT's CUDA EP uses them. They are
 * computed in doubles: even lengths by recursion into two halves, odd lengths by the definition. */
#include "cufft.h"

#include <complex.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "number.h"

typedef double complex number;

/* `batches` times rows * columns numbers; a transform along one dimension has one row. The transform of real numbers is stored as
 * columns / 2 + 1 columns, from which the other columns follow. */
typedef struct plan {
  bool used, made;
  int device;
  void *stream;
  vcuda_type type;
  bool from_real, to_real;
  int64_t rows, columns, batches;
} plan;

/* ---- handles: numbers, starting at 1 ---- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static plan *plans;
static int plan_count;

/* With the mutex held. */
static plan *find(int handle) {
  return handle >= 1 && handle <= plan_count && plans[handle - 1].used ? &plans[handle - 1] : NULL;
}

static int take(void) {
  int i = 0;
  while (i < plan_count && plans[i].used) i++;
  if (i == plan_count) {
    plan *more = realloc(plans, (size_t)(plan_count + 1) * sizeof *plans);
    if (more == NULL) return 0;
    plans = more;
    plan_count++;
  }
  plans[i] = (plan){.used = true, .device = vcuda_current_device()};
  return i + 1;
}

int cufftCreate(int *handle) {
  VCUDA_OPEN(NULL);
  if (vcuda_refuses(&call) != 0) return vcuda_close(&call, FFT_EXEC_FAILED);
  if (handle == NULL) return vcuda_close(&call, FFT_INVALID_VALUE);
  pthread_mutex_lock(&mutex);
  *handle = take();
  pthread_mutex_unlock(&mutex);
  return vcuda_close(&call, *handle == 0 ? FFT_ALLOC_FAILED : FFT_OK);
}

int cufftDestroy(int handle) {
  VCUDA_OPEN(NULL);
  if (vcuda_refuses(&call) != 0) return vcuda_close(&call, FFT_EXEC_FAILED);
  pthread_mutex_lock(&mutex);
  plan *p = find(handle);
  if (p != NULL) p->used = false;
  pthread_mutex_unlock(&mutex);
  return vcuda_close(&call, p == NULL ? FFT_INVALID_PLAN : FFT_OK);
}

int cufftSetStream(int handle, void *stream) {
  VCUDA_OPEN(stream);
  if (vcuda_refuses(&call) != 0) return vcuda_close(&call, FFT_EXEC_FAILED);
  pthread_mutex_lock(&mutex);
  plan *p = find(handle);
  if (p != NULL) p->stream = stream;
  pthread_mutex_unlock(&mutex);
  return vcuda_close(&call, p == NULL ? FFT_INVALID_PLAN : FFT_OK);
}

/* ---- plans ---- */

/* cudaDataType_t: real types and complex ones, of float, double and half. */
static vcuda_type read_type(int type, bool *real) {
  *real = type <= 2;
  switch (type) {
    case 0:
    case 4: return VCUDA_FLOAT32;
    case 1:
    case 5: return VCUDA_FLOAT64;
    case 2:
    case 6: return VCUDA_FLOAT16;
    default: return VCUDA_NO_TYPE;
  }
}

static int describe(plan *p, int rank, const long long *lengths, int in_type, int out_type, long long batches,
                    int compute_type) {
  bool computes_real = false;
  vcuda_type in = read_type(in_type, &p->from_real), out = read_type(out_type, &p->to_real);
  p->type = read_type(compute_type, &computes_real);
  if (p->type == VCUDA_NO_TYPE || in != p->type || out != p->type || computes_real || (p->from_real && p->to_real)) {
    vcuda_log("cufftXtMakePlanMany: types %d to %d, computed in %d: not known here", in_type, out_type, compute_type);
    return FFT_INVALID_TYPE;
  }
  if (rank != 1 && rank != 2) {
    vcuda_log("cufftXtMakePlanMany: %d dimensions; expected 1 or 2", rank);
    return FFT_NOT_SUPPORTED;
  }
  p->rows = rank == 2 ? lengths[0] : 1;
  p->columns = lengths[rank - 1];
  p->batches = batches;
  p->made = p->rows > 0 && p->columns > 0 && batches > 0;
  return p->made ? FFT_OK : FFT_INVALID_VALUE;
}

int cufftXtMakePlanMany(int handle, int rank, const long long *lengths, const long long *in_embed, long long in_stride,
                        long long in_distance, int in_type, const long long *out_embed, long long out_stride,
                        long long out_distance, int out_type, long long batches, size_t *workspace, int compute_type) {
  VCUDA_OPEN(NULL);
  (void)in_stride, (void)in_distance, (void)out_stride, (void)out_distance; /* ignored, as there are no embeddings */
  if (vcuda_refuses(&call) != 0) return vcuda_close(&call, FFT_EXEC_FAILED);
  if (in_embed != NULL || out_embed != NULL) {
    vcuda_log("cufftXtMakePlanMany: embedded data are not known here");
    return vcuda_close(&call, FFT_NOT_SUPPORTED);
  }
  pthread_mutex_lock(&mutex);
  plan *p = find(handle);
  int status = p == NULL         ? FFT_INVALID_PLAN
               : lengths == NULL ? FFT_INVALID_VALUE
                                 : describe(p, rank, lengths, in_type, out_type, batches, compute_type);
  pthread_mutex_unlock(&mutex);
  if (workspace != NULL) *workspace = 0;
  return vcuda_close(&call, status);
}

/* ---- transforms ---- */

/* Transform `count` numbers, `step` apart in `in`, into adjacent numbers in `out`. The roots are those of the whole length, also `step`
 * apart. */
static void transform(const number *in, number *out, int64_t count, int64_t step, const number *roots) {
  if (count % 2 != 0) {
    for (int64_t k = 0; k < count; k++) {
      out[k] = 0;
      for (int64_t i = 0; i < count; i++) out[k] += in[i * step] * roots[i * k % count * step];
    }
    return;
  }
  int64_t half = count / 2;
  transform(in, out, half, 2 * step, roots);
  transform(in + step, out + half, half, 2 * step, roots);
  for (int64_t k = 0; k < half; k++) {
    number even = out[k], odd = out[k + half] * roots[k * step];
    out[k] = even + odd;
    out[k + half] = even - odd;
  }
}

static void fill_roots(number *roots, int64_t count, int direction) {
  for (int64_t i = 0; i < count; i++) roots[i] = cexp(2 * 3.14159265358979323846 * direction * I * (double)i / (double)count);
}

typedef struct execution {
  plan plan;
  const void *in;
  void *out;
  int direction;
} execution;

/* Host memory: the numbers of one batch, a line before and after, and roots for rows and columns. */
typedef struct room {
  number *all, *numbers, *line, *result, *row_roots, *column_roots;
} room;

static bool make_room(const plan *p, int direction, room *r) {
  int64_t longest = p->rows > p->columns ? p->rows : p->columns;
  r->all = malloc((size_t)(p->rows * p->columns + 2 * longest + p->rows + p->columns) * sizeof *r->all);
  if (r->all == NULL) return false;
  r->numbers = r->all;
  r->line = r->numbers + p->rows * p->columns;
  r->result = r->line + longest;
  r->row_roots = r->result + longest;
  r->column_roots = r->row_roots + p->columns;
  fill_roots(r->row_roots, p->columns, direction);
  fill_roots(r->column_roots, p->rows, direction);
  return true;
}

static void transform_all(const plan *p, const room *r) {
  for (int64_t row = 0; row < p->rows; row++) {
    transform(r->numbers + row * p->columns, r->result, p->columns, 1, r->row_roots);
    for (int64_t i = 0; i < p->columns; i++) r->numbers[row * p->columns + i] = r->result[i];
  }
  for (int64_t column = 0; column < p->columns && p->rows > 1; column++) {
    for (int64_t i = 0; i < p->rows; i++) r->line[i] = r->numbers[i * p->columns + column];
    transform(r->line, r->result, p->rows, 1, r->column_roots);
    for (int64_t i = 0; i < p->rows; i++) r->numbers[i * p->columns + column] = r->result[i];
  }
}

static number load(const plan *p, const void *data, int64_t index) {
  if (p->from_real) return vcuda_load_real(p->type, data, index);
  return vcuda_load_real(p->type, data, 2 * index) + vcuda_load_real(p->type, data, 2 * index + 1) * I;
}

static int64_t half_of(const plan *p) {
  return p->columns / 2 + 1;
}

static void read_batch(const plan *p, const void *in, int64_t batch, number *numbers) {
  for (int64_t row = 0; row < p->rows; row++) {
    for (int64_t column = 0; column < p->columns; column++) {
      bool mirrored = p->to_real && column >= half_of(p);
      int64_t from_row = mirrored ? (p->rows - row) % p->rows : row, from = mirrored ? p->columns - column : column;
      number value = load(p, in, (batch * p->rows + from_row) * (p->to_real ? half_of(p) : p->columns) + from);
      numbers[row * p->columns + column] = mirrored ? conj(value) : value;
    }
  }
}

static void write_batch(const plan *p, void *out, int64_t batch, const number *numbers) {
  int64_t width = p->from_real ? half_of(p) : p->columns;
  for (int64_t row = 0; row < p->rows; row++) {
    for (int64_t column = 0; column < width; column++) {
      int64_t to = (batch * p->rows + row) * width + column;
      number value = numbers[row * p->columns + column];
      vcuda_store_real(p->type, out, p->to_real ? to : 2 * to, creal(value));
      if (!p->to_real) vcuda_store_real(p->type, out, 2 * to + 1, cimag(value));
    }
  }
}

static size_t bytes_of(const plan *p, bool real, bool half) {
  int64_t count = p->batches * p->rows * (half ? half_of(p) : p->columns);
  return (size_t)(real ? count : 2 * count) * vcuda_type_size(p->type);
}

/* Input and output may be the same memory: each batch is read before it is written, and its input takes no more bytes than its output. */
static void run(void *arguments) {
  const execution *e = arguments;
  const plan *p = &e->plan;
  room r;
  const void *in = vcuda_reads(e->in, bytes_of(p, p->from_real, p->to_real));
  void *out = in == NULL ? NULL : vcuda_writes(e->out, bytes_of(p, p->to_real, p->from_real));
  if (out == NULL) return;
  if (!make_room(p, e->direction, &r)) {
    vcuda_fail(2, "a transform of %lld * %lld: no memory on the host", (long long)p->rows, (long long)p->columns);
    return;
  }
  for (int64_t batch = 0; batch < p->batches; batch++) {
    read_batch(p, in, batch, r.numbers);
    transform_all(p, &r);
    write_batch(p, out, batch, r.numbers);
  }
  free(r.all);
}

/* A transform between real and complex numbers has only one direction; `direction` is ignored. */
int cufftXtExec(int handle, void *in, void *out, int direction) {
  pthread_mutex_lock(&mutex);
  const plan *found = find(handle);
  execution e = {.plan = found == NULL ? (plan){.used = false} : *found, .in = in, .out = out, .direction = direction};
  pthread_mutex_unlock(&mutex);
  VCUDA_OPEN(e.plan.stream);
  if (vcuda_refuses(&call) != 0) return vcuda_close(&call, FFT_EXEC_FAILED);
  if (!e.plan.made) return vcuda_close(&call, FFT_INVALID_PLAN);
  if (e.plan.from_real || e.plan.to_real) e.direction = e.plan.from_real ? FFT_FORWARD : FFT_INVERSE;
  if (e.direction != FFT_FORWARD && e.direction != FFT_INVERSE) return vcuda_close(&call, FFT_INVALID_VALUE);
  if (vcuda_current_device() != e.plan.device) {
    vcuda_log("cufftXtExec: a plan of device %d, and device %d is current", e.plan.device, vcuda_current_device());
    return vcuda_close(&call, FFT_EXEC_FAILED);
  }
  int error = vcuda_submit(e.plan.stream, __func__, run, &e, sizeof e);
  return vcuda_close(&call, error == 0 ? FFT_OK : FFT_EXEC_FAILED);
}
