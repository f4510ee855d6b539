/* cuDNN: the computation of recurrent networks, one sequence after the other, in doubles. */
#include <math.h>

#include "dnn_rnn.h"

/* A run with pointers to the memory that it accesses. */
typedef struct data {
  const vcuda_dnn_rnn_run *run;
  const int32_t *lengths;
  const void *x, *hx, *cx, *weights;
  void *y, *hy, *cy;
  /* of one sequence at one step: the input; for each gate the products of the input, and those of the hidden state; the states */
  double *in, *sums, *recurrent, *h, *c;
} data;

size_t vcuda_dnn_rnn_workspace_bytes(const vcuda_dnn_rnn *rnn) {
  return (size_t)(rnn->input + (2 * vcuda_dnn_rnn_gates(rnn) + 2) * rnn->hidden) * sizeof(double);
}

static double sigmoid(double x) {
  return 1 / (1 + exp(-x));
}

/* A fast path for floats, which most networks have. */
static double dot(const data *d, int64_t row, const double *vector, int64_t count) {
  double sum = 0;
  if (d->run->rnn.type == VCUDA_FLOAT32) {
    const float *weights = (const float *)d->weights + row;
    for (int64_t i = 0; i < count; i++) sum += (double)weights[i] * vector[i];
  } else {
    for (int64_t i = 0; i < count; i++) sum += vcuda_load_real(d->run->rnn.type, d->weights, row + i) * vector[i];
  }
  return sum;
}

/* The products of one gate's matrix with a vector, and its bias. */
static void multiply(const data *d, int direction, int part, const double *vector, int64_t columns, double *out) {
  const vcuda_dnn_rnn *rnn = &d->run->rnn;
  int64_t matrix = vcuda_dnn_rnn_matrix(rnn, direction, part), bias = vcuda_dnn_rnn_bias(rnn, direction, part);
  for (int64_t row = 0; row < rnn->hidden; row++) {
    out[row] = dot(d, matrix + row * columns, vector, columns);
    if (bias >= 0) out[row] += vcuda_load_real(rnn->type, d->weights, bias + row);
  }
}

/* Compute new states from the sums of the gates. Each gate has `size` numbers, one gate after the other. */
static void update(const data *d, int64_t i) {
  int64_t size = d->run->rnn.hidden;
  const double *a = d->sums + i, *r = d->recurrent + i;
  switch (d->run->rnn.cell) {
    case RNN_RELU: d->h[i] = a[0] + r[0] < 0 ? 0 : a[0] + r[0]; break;
    case RNN_TANH: d->h[i] = tanh(a[0] + r[0]); break;
    case RNN_LSTM: /* input, forget, new, output */
      d->c[i] = sigmoid(a[size] + r[size]) * d->c[i] + sigmoid(a[0] + r[0]) * tanh(a[2 * size] + r[2 * size]);
      d->h[i] = sigmoid(a[3 * size] + r[3 * size]) * tanh(d->c[i]);
      break;
    case RNN_GRU: { /* reset, update, new */
      double kept = sigmoid(a[size] + r[size]), new = tanh(a[2 * size] + sigmoid(a[0] + r[0]) * r[2 * size]);
      d->h[i] = (1 - kept) * new + kept * d->h[i];
      break;
    }
  }
}

static void step(const data *d, int direction, int64_t sequence, int64_t time) {
  const vcuda_dnn_rnn *rnn = &d->run->rnn;
  int gates = vcuda_dnn_rnn_gates(rnn);
  int64_t row = time * d->run->batch + sequence, y = (row * rnn->directions + direction) * rnn->hidden;
  for (int64_t i = 0; i < rnn->input; i++) d->in[i] = vcuda_load_real(rnn->type, d->x, row * rnn->input + i);
  for (int gate = 0; gate < gates; gate++) {
    multiply(d, direction, gate, d->in, rnn->input, d->sums + gate * rnn->hidden);
    multiply(d, direction, gates + gate, d->h, rnn->hidden, d->recurrent + gate * rnn->hidden);
  }
  for (int64_t i = 0; i < rnn->hidden; i++) {
    update(d, i);
    vcuda_store_real(rnn->type, d->y, y + i, d->h[i]);
  }
}

static void load_state(const vcuda_dnn_tensor *tensor, const void *from, int direction, int64_t sequence, double *to,
                       int64_t size) {
  for (int64_t i = 0; i < size; i++) {
    int64_t at = direction * tensor->strides[0] + sequence * tensor->strides[1] + i * tensor->strides[2];
    to[i] = from == NULL ? 0 : vcuda_load_real(tensor->type, from, at);
  }
}

static void store_state(const vcuda_dnn_tensor *tensor, void *to, int direction, int64_t sequence, const double *from,
                        int64_t size) {
  for (int64_t i = 0; to != NULL && i < size; i++) {
    int64_t at = direction * tensor->strides[0] + sequence * tensor->strides[1] + i * tensor->strides[2];
    vcuda_store_real(tensor->type, to, at, from[i]);
  }
}

static void fill(const data *d, int direction, int64_t sequence) {
  const vcuda_dnn_rnn *rnn = &d->run->rnn;
  for (int64_t time = d->lengths[sequence]; d->run->fills && time < d->run->steps; time++) {
    int64_t row = time * d->run->batch + sequence, y = (row * rnn->directions + direction) * rnn->hidden;
    for (int64_t i = 0; i < rnn->hidden; i++) vcuda_store_real(rnn->type, d->y, y + i, d->run->filling);
  }
}

static void run_sequence(const data *d, int direction, int64_t sequence) {
  int64_t length = d->lengths[sequence], size = d->run->rnn.hidden;
  load_state(&d->run->h, d->hx, direction, sequence, d->h, size);
  load_state(&d->run->c, d->cx, direction, sequence, d->c, size);
  for (int64_t i = 0; i < length; i++) step(d, direction, sequence, direction == 0 ? i : length - 1 - i);
  store_state(&d->run->h, d->hy, direction, sequence, d->h, size);
  store_state(&d->run->c, d->cy, direction, sequence, d->c, size);
  fill(d, direction, sequence);
}

/* ---- memory ---- */

/* The lengths in device memory must equal those of the descriptors. */
static bool check_lengths(const data *d) {
  if (d->run->lengths == NULL) return true;
  const int32_t *given = vcuda_reads(d->run->lengths, (size_t)d->run->batch * sizeof *given);
  for (int64_t i = 0; given != NULL && i < d->run->batch; i++) {
    if (given[i] == d->lengths[i]) continue;
    vcuda_fail(719, "sequence %lld has %d steps in device memory; expected %d, as its descriptor has", (long long)i, given[i],
               d->lengths[i]);
    return false;
  }
  return given != NULL;
}

static bool reach(data *d) {
  const vcuda_dnn_rnn_run *run = d->run;
  const vcuda_dnn_rnn *rnn = &run->rnn;
  size_t rows = (size_t)(run->steps * run->batch), size = vcuda_type_size(rnn->type);
  d->x = vcuda_reads(run->x, rows * (size_t)rnn->input * size);
  d->weights = d->x == NULL ? NULL : vcuda_reads(run->weights, vcuda_dnn_rnn_weight_bytes(rnn));
  d->y = d->weights == NULL ? NULL : vcuda_writes(run->y, rows * (size_t)(rnn->directions * rnn->hidden) * size);
  d->in = d->y == NULL ? NULL : vcuda_writes(run->workspace, vcuda_dnn_rnn_workspace_bytes(rnn));
  if (d->in == NULL) return false;
  d->sums = d->in + rnn->input;
  d->recurrent = d->sums + vcuda_dnn_rnn_gates(rnn) * rnn->hidden;
  d->h = d->recurrent + vcuda_dnn_rnn_gates(rnn) * rnn->hidden;
  d->c = d->h + rnn->hidden;
  return vcuda_dnn_read_given(&run->h, run->hx, &d->hx) && vcuda_dnn_read_given(&run->c, run->cx, &d->cx) &&
         vcuda_dnn_write_given(&run->h, run->hy, &d->hy) && vcuda_dnn_write_given(&run->c, run->cy, &d->cy);
}

void vcuda_dnn_run_rnn(void *run) {
  data d = {.run = run};
  d.lengths = (const int32_t *)(d.run + 1);
  if (!check_lengths(&d) || !reach(&d)) return;
  for (int direction = 0; direction < d.run->rnn.directions; direction++) {
    for (int64_t sequence = 0; sequence < d.run->batch; sequence++) run_sequence(&d, direction, sequence);
  }
}
