/* cuDNN's recurrent networks on the virtual GPU: random ones, compared with loops that implement the formulas; and failures of all
 * allocations of the older interface.  usage: vcuda_recurrent [CASES [FIRST]]: how many for each function, and the seed of the first */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "allocation.h"
#include "drawn.h"
#include "host.h"

#include "refused.h"

/* ---- recurrent networks ---- */

enum { RELU, TANH, LSTM, GRU };
enum { WIDEST = 5, GATES = 4 };

/* The weights of one direction. */
typedef struct weights {
  double w[GATES][WIDEST][WIDEST], r[GATES][WIDEST][WIDEST], bw[GATES][WIDEST], br[GATES][WIDEST];
} weights;

typedef struct network {
  int cell, bias, directions, type, input, hidden, steps, batch, gates;
  int lengths[3];
  vcuda_dnn_rnn *descriptor;
  vcuda_dnn_rnn_data *x_descriptor, *y_descriptor;
  void *space;
  size_t space_bytes;
  weights given[2];
} network;

static double put(const network *n, void *address, int at) {
  double value = draw(-100, 100) / 128.0; /* all types hold it exactly */
  vcuda_store_real(types[n->type].type, address, at, value);
  return value;
}

/* Fill one of the 2 * `gates` parts of the weights, at the address from cuDNN. */
static void fill_part(network *n, int direction, int part) {
  vcuda_dnn_tensor *matrix, *bias;
  void *matrix_address = NULL, *bias_address = NULL;
  int type, rank, dims[3], strides[3];
  bool recurrent = part >= n->gates;
  int gate = recurrent ? part - n->gates : part, columns = recurrent ? n->hidden : n->input;
  bool has_bias = n->bias == 2 || n->bias == (recurrent ? 3 : 1);
  weights *given = &n->given[direction];
  assert_int_equal(cudnnCreateTensorDescriptor(&matrix), DNN_OK);
  assert_int_equal(cudnnCreateTensorDescriptor(&bias), DNN_OK);
  assert_int_equal(cudnnGetRNNWeightParams(handle, n->descriptor, direction, n->space_bytes, n->space, part, matrix,
                                           &matrix_address, bias, &bias_address),
                   DNN_OK);
  assert_int_equal(cudnnGetTensorNdDescriptor(matrix, 3, &type, &rank, dims, strides), DNN_OK);
  assert_true(type == types[n->type].number && rank == 3 && dims[0] == 1 && dims[1] == n->hidden && dims[2] == columns);
  assert_int_equal(bias_address != NULL, has_bias);
  for (int row = 0; row < n->hidden; row++) {
    for (int column = 0; column < columns; column++) {
      double value = put(n, matrix_address, row * columns + column);
      *(recurrent ? &given->r[gate][row][column] : &given->w[gate][row][column]) = value;
    }
    if (has_bias) *(recurrent ? &given->br[gate][row] : &given->bw[gate][row]) = put(n, bias_address, row);
  }
  assert_int_equal(cudnnDestroyTensorDescriptor(matrix), DNN_OK);
  assert_int_equal(cudnnDestroyTensorDescriptor(bias), DNN_OK);
}

static void make_network(network *n) {
  const int gates[] = {1, 1, 4, 3};
  *n = (network){.cell = draw(0, 3), .bias = draw(0, 3), .directions = draw(1, 2), .type = draw(0, WITHOUT_BFLOAT16 - 1)};
  n->gates = gates[n->cell];
  n->input = draw(1, WIDEST);
  n->hidden = draw(1, WIDEST);
  n->steps = draw(1, 5);
  n->batch = draw(1, 3);
  for (int i = 0; i < n->batch; i++) n->lengths[i] = draw(0, n->steps);
  int number = types[n->type].number;
  static const char filling[8] = {0};
  assert_int_equal(cudnnCreateRNNDescriptor(&n->descriptor), DNN_OK);
  assert_int_equal(cudnnCreateRNNDataDescriptor(&n->x_descriptor), DNN_OK);
  assert_int_equal(cudnnCreateRNNDataDescriptor(&n->y_descriptor), DNN_OK);
  assert_int_equal(cudnnSetRNNDescriptor_v8(n->descriptor, 0, n->cell, n->bias, n->directions - 1, 0, number, number, 0,
                                            n->input, n->hidden, n->hidden, 1, NULL, 1),
                   DNN_OK);
  assert_int_equal(cudnnSetRNNDataDescriptor(n->x_descriptor, number, 0, n->steps, n->batch, n->input, n->lengths, NULL),
                   DNN_OK);
  assert_int_equal(
      cudnnSetRNNDataDescriptor(n->y_descriptor, number, 0, n->steps, n->batch, n->hidden * n->directions, n->lengths, filling),
      DNN_OK);
  n->space_bytes =
      (size_t)(n->directions * n->gates * n->hidden * (n->input + n->hidden + 2)) * vcuda_type_size(types[n->type].type);
  n->space = host_memory(n->space_bytes);
  for (int direction = 0; direction < n->directions; direction++) {
    for (int part = 0; part < 2 * n->gates; part++) fill_part(n, direction, part);
  }
}

static void drop_network(const network *n) {
  assert_int_equal(cudnnDestroyRNNDescriptor(n->descriptor), DNN_OK);
  assert_int_equal(cudnnDestroyRNNDataDescriptor(n->x_descriptor), DNN_OK);
  assert_int_equal(cudnnDestroyRNNDataDescriptor(n->y_descriptor), DNN_OK);
}

static double s(double x) {
  return 1 / (1 + exp(-x));
}

/* One step of one sequence. */
static void step(const network *n, const weights *g, const double *x, double *h, double *c) {
  double in[GATES][WIDEST], back[GATES][WIDEST], old[WIDEST];
  memcpy(old, h, sizeof old);
  for (int gate = 0; gate < n->gates; gate++) {
    for (int row = 0; row < n->hidden; row++) {
      in[gate][row] = g->bw[gate][row];
      back[gate][row] = g->br[gate][row];
      for (int i = 0; i < n->input; i++) in[gate][row] += g->w[gate][row][i] * x[i];
      for (int i = 0; i < n->hidden; i++) back[gate][row] += g->r[gate][row][i] * old[i];
    }
  }
  for (int i = 0; i < n->hidden; i++) {
    double first = in[0][i] + back[0][i];
    if (n->cell == RELU) h[i] = fmax(first, 0);
    if (n->cell == TANH) h[i] = tanh(first);
    if (n->cell == LSTM) {
      double forget = s(in[1][i] + back[1][i]), new = tanh(in[2][i] + back[2][i]), out = s(in[3][i] + back[3][i]);
      c[i] = forget * c[i] + s(first) * new;
      h[i] = out * tanh(c[i]);
    }
    if (n->cell == GRU) {
      double update = s(in[1][i] + back[1][i]), new = tanh(in[2][i] + s(first) * back[2][i]);
      h[i] = (1 - update) * new + update *old[i];
    }
  }
}

enum { LARGEST_STATE = 2 * 3 * WIDEST };

typedef struct states {
  tensor in, out;
  bool has_in, has_out;
  double values[LARGEST_STATE]; /* expected values of `out` */
} states;

static states draw_states(const network *n) {
  const int dims[] = {n->directions, n->batch, n->hidden};
  states made = {draw_tensor(n->type, 3, dims, false), draw_tensor(n->type, 3, dims, false), draw(0, 1), draw(0, 1), {0}};
  return made;
}

static void begin(const states *from, int direction, int sequence, int size, double *state) {
  const int at[] = {direction, sequence, 0};
  for (int i = 0; i < size; i++) state[i] = from->has_in ? load(&from->in, place_of(&from->in, at) + i) : 0;
}

static void end(const network *n, states *to, int direction, int sequence, const double *state) {
  memcpy(&to->values[(size_t)((direction * n->batch + sequence) * n->hidden)], state, (size_t)n->hidden * sizeof *state);
}

/* Compute the expected values of y into `values`. */
static void compute(const network *n, const tensor *x, states *h, states *c) {
  for (int direction = 0; direction < n->directions; direction++) {
    for (int sequence = 0; sequence < n->batch; sequence++) {
      double state[WIDEST], cell[WIDEST], in[WIDEST];
      begin(h, direction, sequence, n->hidden, state);
      begin(c, direction, sequence, n->hidden, cell);
      for (int i = 0; i < n->steps; i++) {
        bool over = i >= n->lengths[sequence];
        int time = over || direction == 0 ? i : n->lengths[sequence] - 1 - i;
        double *y = &values[(size_t)(((time * n->batch + sequence) * n->directions + direction) * n->hidden)];
        for (int j = 0; j < n->input; j++) in[j] = load(x, (time * n->batch + sequence) * n->input + j);
        if (!over) step(n, &n->given[direction], in, state, cell);
        for (int j = 0; j < n->hidden; j++) y[j] = over ? 0 : state[j];
      }
      end(n, h, direction, sequence, state);
      end(n, c, direction, sequence, cell);
    }
  }
}

static void network_once(void) {
  network n;
  make_network(&n);
  const int x_dims[] = {n.steps, n.batch, n.input}, y_dims[] = {n.steps, n.batch, n.directions * n.hidden};
  tensor x = draw_tensor(n.type, 3, x_dims, false), y = draw_tensor(n.type, 3, y_dims, false);
  states h = draw_states(&n), c = draw_states(&n);
  size_t workspace_bytes = 0, reserve_bytes = 999;
  int32_t *lengths = draw(0, 1) ? host_copy(n.lengths, sizeof n.lengths) : NULL;
  assert_int_equal(cudnnGetRNNTempSpaceSizes(handle, n.descriptor, 0, n.x_descriptor, &workspace_bytes, &reserve_bytes),
                   DNN_OK);
  assert_int_equal(reserve_bytes, 0);
  if (n.cell != LSTM) c.has_in = c.has_out = false;
  assert_int_equal(cudnnRNNForward(handle, n.descriptor, 0, lengths, n.x_descriptor, x.data, n.y_descriptor, y.data,
                                   h.in.descriptor, h.has_in ? h.in.data : NULL, h.has_out ? h.out.data : NULL, c.in.descriptor,
                                   c.has_in ? c.in.data : NULL, c.has_out ? c.out.data : NULL, n.space_bytes, n.space,
                                   workspace_bytes, host_memory(workspace_bytes), 0, NULL),
                   DNN_OK);
  compute(&n, &x, &h, &c);
  expect_tensor(&y, values, &as_it_is, "y");
  if (h.has_out) expect_tensor(&h.out, h.values, &as_it_is, "hy");
  if (c.has_out) expect_tensor(&c.out, c.values, &as_it_is, "cy");
  expect_unchanged(&x);
  expect_unchanged(&h.in);
  drop_tensor(&x);
  drop_tensor(&y);
  drop_tensor(&h.in);
  drop_tensor(&h.out);
  drop_tensor(&c.in);
  drop_tensor(&c.out);
  drop_network(&n);
}

static void recurrent_networks(void **state) {
  (void)state;
  run_cases(network_once);
}

/* ---- refusals ---- */

/* A network of one step, with 12 weights and states of one number. */
static void networks_that_cannot_be(void **state) {
  (void)state;
  simple s;
  const int good[] = {0, 2, 2, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1};
  enum { WEIGHTS = 4 * (1 + 1 + 2) * 4 };
  float *memory = host_memory(256);
  void *address;
  size_t workspace = 0, reserve;
  make_simple(&s);
#define FORWARD(lengths, mode, y, h, hx, weight_bytes, workspace_bytes)                                                     \
  cudnnRNNForward(handle, s.rnn, mode, lengths, s.data, memory, y, memory + 1, h, hx, NULL, NULL, NULL, NULL, weight_bytes, \
                  memory + 2, workspace_bytes, memory + 20, 0, NULL)
  REFUSED(DNN_BAD_PARAM, "is not set", FORWARD(NULL, 0, s.data, s.c, NULL, WEIGHTS, 999));
  assert_int_equal(set_rnn(&s, good), DNN_OK);
  assert_int_equal(cudnnSetRNNDataDescriptor(s.data, 0, 0, 1, 1, 1, ones, NULL), DNN_OK);
  assert_int_equal(cudnnGetRNNTempSpaceSizes(handle, s.rnn, 0, s.data, &workspace, &reserve), DNN_OK);
  REFUSED(DNN_NOT_SUPPORTED, "forward mode 1", cudnnGetRNNTempSpaceSizes(handle, s.rnn, 1, s.data, &workspace, &reserve));
  REFUSED(DNN_NOT_SUPPORTED, "forward mode 1", FORWARD(NULL, 1, s.data, s.c, NULL, WEIGHTS, workspace));
  REFUSED(DNN_BAD_PARAM, "descriptor of the states", FORWARD(NULL, 0, s.data, s.c, memory, WEIGHTS, workspace));
  REFUSED(DNN_BAD_PARAM, "weights of 63 bytes", FORWARD(NULL, 0, s.data, s.c, NULL, WEIGHTS - 1, workspace));
  REFUSED(DNN_BAD_PARAM, "a workspace of", FORWARD(NULL, 0, s.data, s.c, NULL, WEIGHTS, workspace - 1));
  REFUSED(DNN_BAD_PARAM, "pseudo-layer 1",
          cudnnGetRNNWeightParams(handle, s.rnn, 1, WEIGHTS, memory, 0, s.x, &address, s.c, &address));
  REFUSED(DNN_BAD_PARAM, "linear layer 8",
          cudnnGetRNNWeightParams(handle, s.rnn, 0, WEIGHTS, memory, 8, s.x, &address, s.c, &address));
  REFUSED(DNN_BAD_PARAM, "weights of 63 bytes",
          cudnnGetRNNWeightParams(handle, s.rnn, 0, 63, memory, 0, s.x, &address, s.c, &address));
  memory = (float *)((char *)memory + 1);
  REFUSED(DNN_BAD_PARAM, "at a multiple of 4", FORWARD(NULL, 0, s.data, s.c, NULL, WEIGHTS, workspace));
  memory = (float *)((char *)memory - 1);
  assert_int_equal(host_error(), 0);
  const int32_t other = 0; /* differs from the descriptor: found when the work runs */
  assert_int_equal(FORWARD(host_copy(&other, 4), 0, s.data, s.c, NULL, WEIGHTS, workspace), DNN_OK);
  assert_int_equal(host_error(), 719);
  assert_non_null(strstr(host_message(), "sequence 0 has 0 steps in device memory; expected 1"));
  assert_int_equal(cudnnSetRNNDataDescriptor(s.data, 0, 0, 1, 1, 2, ones, NULL), DNN_OK);
  REFUSED(DNN_BAD_PARAM, "vectors of 2 in x", FORWARD(NULL, 0, s.data, s.c, NULL, WEIGHTS, workspace));
  drop_simple(&s);
}

/* ---- failed allocations on the host ---- */

/* Make all allocations: descriptors, lengths of sequences, and the arguments of a run. Returns the first status that is not success. */
static int allocate_all(float *memory) {
  simple s = {0};
  const int good[] = {0, 1, 2, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1};
  int status = cudnnCreatePoolingDescriptor(&s.pooling);
  if (status == DNN_OK) status = cudnnCreateLRNDescriptor(&s.lrn);
  if (status == DNN_OK) status = cudnnCreateReduceTensorDescriptor(&s.reduction);
  if (status == DNN_OK) status = cudnnCreateDropoutDescriptor(&s.dropout);
  if (status == DNN_OK) status = cudnnCreateRNNDescriptor(&s.rnn);
  if (status == DNN_OK) status = cudnnCreateRNNDataDescriptor(&s.data);
  if (status == DNN_OK) status = set_rnn(&s, good);
  if (status == DNN_OK) status = cudnnSetRNNDataDescriptor(s.data, 0, 0, 1, 1, 1, ones, NULL);
  if (status == DNN_OK) status = FORWARD(NULL, 0, s.data, NULL, NULL, 16, 128);
  assert_int_equal(cudnnDestroyPoolingDescriptor(s.pooling), DNN_OK);
  assert_int_equal(cudnnDestroyLRNDescriptor(s.lrn), DNN_OK);
  assert_int_equal(cudnnDestroyReduceTensorDescriptor(s.reduction), DNN_OK);
  assert_int_equal(cudnnDestroyDropoutDescriptor(s.dropout), DNN_OK);
  assert_int_equal(cudnnDestroyRNNDescriptor(s.rnn), DNN_OK);
  assert_int_equal(cudnnDestroyRNNDataDescriptor(s.data), DNN_OK);
  return status;
}

static void failed_allocations(void **state) {
  (void)state;
  int failures = 0, status = DNN_NO_MEMORY;
  float *memory = host_memory(256);
  memset(memory, 0, 256);
  while (status != DNN_OK) {
    until_failure = ++failures;
    status = allocate_all(memory);
    until_failure = 0;
    assert_true(status == DNN_OK || status == DNN_NO_MEMORY);
  }
  assert_int_equal(failures, 8 + 1); /* six descriptors, the lengths, the arguments; the ninth try works */
  assert_int_equal(host_error(), 0);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(recurrent_networks, start, stop),
      cmocka_unit_test_setup_teardown(networks_that_cannot_be, start, stop),
      cmocka_unit_test_setup_teardown(failed_allocations, start, stop),
  };
  read_options(argc, argv);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
