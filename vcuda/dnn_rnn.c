/* cuDNN: the descriptors of recurrent networks, the layout of their weights, and the arguments of a run. */
#include "dnn_rnn.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { ALGORITHM_STANDARD = 0, LINEAR_INPUT = 0, INFERENCE = 0, PADDED = 1, SEQUENCE_MAJOR = 0 };
enum { NO_BIAS = 0, INPUT_BIAS = 1, BOTH_BIASES = 2, RECURRENT_BIAS = 3 };

VCUDA_DNN_DESCRIPTOR(RNN, vcuda_dnn_rnn)

/* A parameter of which only a range of values is supported. */
typedef struct choice {
  const char *what;
  int given, least, most;
} choice;

static int check_choices(const char *name, const choice *choices, size_t count) {
  for (size_t i = 0; i < count; i++) {
    const choice *c = &choices[i];
    if (c->given >= c->least && c->given <= c->most) continue;
    return vcuda_dnn_unknown("%s: %s %d is not known here; expected %d to %d", name, c->what, c->given, c->least, c->most);
  }
  return DNN_OK;
}

static bool is_type(int number) {
  vcuda_type type = vcuda_dnn_type(number);
  return type == VCUDA_FLOAT32 || type == VCUDA_FLOAT64 || type == VCUDA_FLOAT16;
}

int cudnnSetRNNDescriptor_v8(vcuda_dnn_rnn *rnn, int algorithm, int cell, int bias, int direction, int input_mode, int type,
                             int precision, int math, int input_size, int hidden_size, int projection_size, int layers,
                             vcuda_dnn_dropout *dropout, unsigned flags) {
  VCUDA_DNN_BEGIN(NULL);
  const choice choices[] = {
      {"algorithm", algorithm, ALGORITHM_STANDARD, ALGORITHM_STANDARD},
      {"cell", cell, RNN_RELU, RNN_GRU},
      {"bias mode", bias, NO_BIAS, RECURRENT_BIAS},
      {"direction mode", direction, 0, 1},
      {"input mode", input_mode, LINEAR_INPUT, LINEAR_INPUT},
      {"math type", math, 0, 3},
      {"a number of layers of", layers, 1, 1},
      {"auxFlags", (int)flags, PADDED, PADDED},
  };
  if (rnn == NULL) return vcuda_close(&call, vcuda_dnn_bad("%s: the descriptor is NULL", __func__));
  int status = check_choices(__func__, choices, sizeof choices / sizeof *choices);
  if (status != DNN_OK) return vcuda_close(&call, status);
  if (!is_type(type) || !is_type(precision)) {
    return vcuda_close(&call,
                       vcuda_dnn_unknown("%s: cudnnDataType_t %d, computing with %d: expected 0, 1 or 2: float, double, half",
                                         __func__, type, precision));
  }
  if (input_size < 1 || hidden_size < 1) {
    return vcuda_close(
        &call, vcuda_dnn_bad("%s: input size %d, hidden size %d; expected 1 or more", __func__, input_size, hidden_size));
  }
  if (projection_size != hidden_size) {
    return vcuda_close(&call, vcuda_dnn_unknown("%s: a projection to %d is not known here; expected the hidden size, %d",
                                                __func__, projection_size, hidden_size));
  }
  if (dropout != NULL && vcuda_dnn_dropout_rate(dropout) != 0) {
    vcuda_log("%s: dropout of %g has no effect: there is one layer", __func__, vcuda_dnn_dropout_rate(dropout));
  }
  *rnn = (vcuda_dnn_rnn){.type = vcuda_dnn_type(type),
                         .type_number = type,
                         .cell = (vcuda_dnn_cell)cell,
                         .has_input_bias = bias == INPUT_BIAS || bias == BOTH_BIASES,
                         .has_recurrent_bias = bias == RECURRENT_BIAS || bias == BOTH_BIASES,
                         .directions = direction + 1,
                         .input = input_size,
                         .hidden = hidden_size};
  return vcuda_close(&call, DNN_OK);
}

/* ---- weights ---- */

int vcuda_dnn_rnn_gates(const vcuda_dnn_rnn *rnn) {
  return rnn->cell == RNN_LSTM ? 4 : rnn->cell == RNN_GRU ? 3 : 1;
}

static int64_t direction_size(const vcuda_dnn_rnn *rnn) {
  return vcuda_dnn_rnn_gates(rnn) * rnn->hidden * (rnn->input + rnn->hidden + 2);
}

size_t vcuda_dnn_rnn_weight_bytes(const vcuda_dnn_rnn *rnn) {
  return (size_t)(rnn->directions * direction_size(rnn)) * vcuda_type_size(rnn->type);
}

int64_t vcuda_dnn_rnn_matrix(const vcuda_dnn_rnn *rnn, int direction, int part) {
  int gates = vcuda_dnn_rnn_gates(rnn), inputs = part < gates ? part : gates, recurrent = part - inputs;
  return direction * direction_size(rnn) + rnn->hidden * (inputs * rnn->input + recurrent * rnn->hidden);
}

int64_t vcuda_dnn_rnn_bias(const vcuda_dnn_rnn *rnn, int direction, int part) {
  int gates = vcuda_dnn_rnn_gates(rnn);
  if (!(part < gates ? rnn->has_input_bias : rnn->has_recurrent_bias)) return -1;
  return vcuda_dnn_rnn_matrix(rnn, direction, 2 * gates) + part * rnn->hidden;
}

static int shape_part(const char *name, const vcuda_dnn_rnn *rnn, vcuda_dnn_tensor *tensor, int64_t columns) {
  const int dims[] = {1, (int)rnn->hidden, (int)columns};
  return vcuda_dnn_shape(name, tensor, rnn->type_number, 3, dims);
}

static void *address_of(const vcuda_dnn_rnn *rnn, const void *weights, int64_t element) {
  return (void *)((uintptr_t)weights + (uintptr_t)element * vcuda_type_size(rnn->type)); /* NOLINT(performance-no-int-to-ptr) */
}

int cudnnGetRNNWeightParams(vcuda_dnn *handle, const vcuda_dnn_rnn *rnn, int layer, size_t bytes, const void *weights, int part,
                            vcuda_dnn_tensor *matrix, void **matrix_address, vcuda_dnn_tensor *bias, void **bias_address) {
  VCUDA_DNN_OPEN(handle);
  if (rnn == NULL || matrix == NULL || matrix_address == NULL || bias == NULL || bias_address == NULL) {
    return vcuda_close(&call, vcuda_dnn_bad("%s: an argument is NULL", __func__));
  }
  if (rnn->type == VCUDA_NO_TYPE) return vcuda_close(&call, vcuda_dnn_bad("%s: the RNN descriptor is not set", __func__));
  int parts = 2 * vcuda_dnn_rnn_gates(rnn);
  if (layer < 0 || layer >= rnn->directions || part < 0 || part >= parts) {
    return vcuda_close(&call, vcuda_dnn_bad("%s: pseudo-layer %d, linear layer %d; expected less than %d and %d", __func__,
                                            layer, part, rnn->directions, parts));
  }
  if (bytes < vcuda_dnn_rnn_weight_bytes(rnn)) {
    return vcuda_close(
        &call, vcuda_dnn_bad("%s: weights of %zu bytes; expected %zu", __func__, bytes, vcuda_dnn_rnn_weight_bytes(rnn)));
  }
  int64_t at = vcuda_dnn_rnn_bias(rnn, layer, part);
  int status = shape_part(__func__, rnn, matrix, part < parts / 2 ? rnn->input : rnn->hidden);
  if (status == DNN_OK) *matrix_address = address_of(rnn, weights, vcuda_dnn_rnn_matrix(rnn, layer, part));
  if (status == DNN_OK && at >= 0) status = shape_part(__func__, rnn, bias, 1);
  if (status == DNN_OK && at < 0) bias->rank = 0; /* cuDNN's sign for no bias */
  if (status == DNN_OK) *bias_address = at < 0 ? NULL : address_of(rnn, weights, at);
  return vcuda_close(&call, status);
}

/* ---- sequences ---- */

struct vcuda_dnn_rnn_data {
  vcuda_type type; /* VCUDA_NO_TYPE: not set */
  int64_t steps, batch, size;
  int32_t *lengths;
  bool fills;
  double filling;
};

int cudnnCreateRNNDataDescriptor(vcuda_dnn_rnn_data **data) {
  void *made = NULL;
  int status = vcuda_dnn_make(__func__, data == NULL ? NULL : &made, sizeof **data);
  if (made != NULL) *data = made;
  return status;
}

int cudnnDestroyRNNDataDescriptor(vcuda_dnn_rnn_data *data) {
  if (data != NULL) free(data->lengths);
  return vcuda_dnn_free(__func__, data);
}

static int check_sequences(const char *name, int steps, int batch, int size, const int lengths[]) {
  if (steps < 1 || batch < 1 || size < 1) {
    return vcuda_dnn_bad("%s: %d steps, batch of %d, vectors of %d; expected 1 or more", name, steps, batch, size);
  }
  if ((int64_t)steps * batch > INT_MAX || (int64_t)steps * batch * size > INT_MAX) {
    return vcuda_dnn_unknown("%s: more than %d elements", name, INT_MAX);
  }
  for (int i = 0; i < batch; i++) {
    if (lengths[i] < 0 || lengths[i] > steps) {
      return vcuda_dnn_bad("%s: sequence %d has %d steps; expected 0 to %d", name, i, lengths[i], steps);
    }
  }
  return DNN_OK;
}

int cudnnSetRNNDataDescriptor(vcuda_dnn_rnn_data *data, int type, int layout, int steps, int batch, int size,
                              const int lengths[], const void *filling) {
  VCUDA_DNN_BEGIN(NULL);
  if (data == NULL || lengths == NULL) return vcuda_close(&call, vcuda_dnn_bad("%s: an argument is NULL", __func__));
  if (!is_type(type)) return vcuda_close(&call, vcuda_dnn_unknown("%s: cudnnDataType_t %d is not known here", __func__, type));
  if (layout != SEQUENCE_MAJOR) {
    return vcuda_close(
        &call, vcuda_dnn_unknown("%s: layout %d is not known here; expected 0, sequence major with padding", __func__, layout));
  }
  int status = check_sequences(__func__, steps, batch, size, lengths);
  if (status != DNN_OK) return vcuda_close(&call, status);
  int32_t *copy = malloc((size_t)batch * sizeof *copy);
  if (copy == NULL) return vcuda_close(&call, DNN_NO_MEMORY);
  memcpy(copy, lengths, (size_t)batch * sizeof *copy);
  free(data->lengths);
  *data = (vcuda_dnn_rnn_data){.type = vcuda_dnn_type(type), .steps = steps, .batch = batch, .size = size, .lengths = copy};
  data->fills = filling != NULL;
  if (data->fills) data->filling = vcuda_load_real(data->type, filling, 0);
  return vcuda_close(&call, DNN_OK);
}

/* ---- a run ---- */

static int check_rnn(const char *name, const vcuda_dnn_rnn *rnn, int mode, const vcuda_dnn_rnn_data *x) {
  if (rnn == NULL || x == NULL) return vcuda_dnn_bad("%s: a descriptor is NULL", name);
  if (rnn->type == VCUDA_NO_TYPE || x->type == VCUDA_NO_TYPE) return vcuda_dnn_bad("%s: a descriptor is not set", name);
  if (mode != INFERENCE) return vcuda_dnn_unknown("%s: forward mode %d is not known here; expected 0, inference", name, mode);
  return DNN_OK;
}

int cudnnGetRNNTempSpaceSizes(vcuda_dnn *handle, const vcuda_dnn_rnn *rnn, int mode, const vcuda_dnn_rnn_data *x,
                              size_t *workspace_bytes, size_t *reserve_bytes) {
  VCUDA_DNN_OPEN(handle);
  int status = check_rnn(__func__, rnn, mode, x);
  if (status == DNN_OK && workspace_bytes != NULL) *workspace_bytes = vcuda_dnn_rnn_workspace_bytes(rnn);
  if (status == DNN_OK && reserve_bytes != NULL) *reserve_bytes = 0; /* only training needs a reserve */
  return vcuda_close(&call, status);
}

static int check_data(const char *name, const vcuda_dnn_rnn *rnn, const vcuda_dnn_rnn_data *x, const vcuda_dnn_rnn_data *y) {
  if (y == NULL || y->type == VCUDA_NO_TYPE) return vcuda_dnn_bad("%s: y's descriptor is not set", name);
  if (x->type != rnn->type || y->type != rnn->type) return vcuda_dnn_bad("%s: x or y has another type than the RNN", name);
  if (x->size != rnn->input || y->size != rnn->hidden * rnn->directions) {
    return vcuda_dnn_bad("%s: vectors of %lld in x, %lld in y; expected %lld and %lld", name, (long long)x->size,
                         (long long)y->size, (long long)rnn->input, (long long)rnn->hidden * rnn->directions);
  }
  if (x->steps != y->steps || x->batch != y->batch ||
      memcmp(x->lengths, y->lengths, (size_t)x->batch * sizeof *x->lengths) != 0) {
    return vcuda_dnn_bad("%s: the sequences of x and y differ in number or length", name);
  }
  return DNN_OK;
}

/* The descriptor of states; optional, as the states are. */
static int check_state(const char *name, const vcuda_dnn_rnn *rnn, int64_t batch, const vcuda_dnn_tensor *tensor, bool needed) {
  if (!needed) return DNN_OK;
  bool fits = tensor != NULL && tensor->rank == 3 && tensor->type == rnn->type && tensor->dims[0] == rnn->directions &&
              tensor->dims[1] == batch && tensor->dims[2] == rnn->hidden;
  if (fits) return DNN_OK;
  return vcuda_dnn_bad("%s: the descriptor of the states; expected the RNN's type and dims %d, %lld, %lld", name,
                       rnn->directions, (long long)batch, (long long)rnn->hidden);
}

static int check_memory(const char *name, const vcuda_dnn_rnn_run *run, size_t weight_bytes, size_t workspace_bytes) {
  size_t weights = vcuda_dnn_rnn_weight_bytes(&run->rnn), workspace = vcuda_dnn_rnn_workspace_bytes(&run->rnn);
  if (run->x == NULL || run->y == NULL) return vcuda_dnn_bad("%s: x or y is NULL", name);
  if (weight_bytes < weights || run->weights == NULL || (uintptr_t)run->weights % sizeof(float) != 0) {
    return vcuda_dnn_bad("%s: weights of %zu bytes at %p; expected %zu at a multiple of 4", name, weight_bytes, run->weights,
                         weights);
  }
  if (workspace_bytes < workspace || run->workspace == NULL || (uintptr_t)run->workspace % sizeof(double) != 0) {
    return vcuda_dnn_bad("%s: a workspace of %zu bytes at %p; expected %zu at a multiple of 8", name, workspace_bytes,
                         run->workspace, workspace);
  }
  return DNN_OK;
}

/* The lengths are copied with the work, because the descriptors may change before it runs. */
static int submit(const vcuda_dnn *handle, const char *name, const vcuda_dnn_rnn_run *run, const int32_t *lengths) {
  size_t bytes = (size_t)run->batch * sizeof *lengths;
  char *arguments = malloc(sizeof *run + bytes);
  if (arguments == NULL) return DNN_NO_MEMORY;
  memcpy(arguments, run, sizeof *run);
  memcpy(arguments + sizeof *run, lengths, bytes);
  int status = vcuda_dnn_submit(handle, name, vcuda_dnn_run_rnn, arguments, sizeof *run + bytes);
  free(arguments);
  return status;
}

/* Only training uses the reserve. */
int cudnnRNNForward(vcuda_dnn *handle, const vcuda_dnn_rnn *rnn, int mode, const int32_t lengths[], const vcuda_dnn_rnn_data *x,
                    const void *x_address, const vcuda_dnn_rnn_data *y, void *y_address, const vcuda_dnn_tensor *h,
                    const void *hx, void *hy, const vcuda_dnn_tensor *c, const void *cx, void *cy, size_t weight_bytes,
                    const void *weights, size_t workspace_bytes, void *workspace, size_t reserve_bytes, void *reserve) {
  (void)reserve_bytes, (void)reserve;
  VCUDA_DNN_OPEN(handle);
  int status = check_rnn(__func__, rnn, mode, x);
  if (status == DNN_OK) status = check_data(__func__, rnn, x, y);
  if (status == DNN_OK) status = check_state(__func__, rnn, x->batch, h, hx != NULL || hy != NULL);
  if (status == DNN_OK && rnn->cell != RNN_LSTM) cx = cy = NULL; /* cuDNN ignores them then */
  if (status == DNN_OK) status = check_state(__func__, rnn, x->batch, c, cx != NULL || cy != NULL);
  if (status != DNN_OK) return vcuda_close(&call, status);
  vcuda_dnn_rnn_run run = {.rnn = *rnn, .steps = x->steps, .batch = x->batch, .fills = y->fills, .filling = y->filling};
  if (h != NULL) run.h = *h;
  if (c != NULL) run.c = *c;
  run.x = x_address;
  run.hx = hx;
  run.cx = cx;
  run.weights = weights;
  run.y = y_address;
  run.hy = hy;
  run.cy = cy;
  run.workspace = workspace;
  run.lengths = lengths;
  status = check_memory(__func__, &run, weight_bytes, workspace_bytes);
  if (status == DNN_OK) status = submit(handle, __func__, &run, x->lengths);
  return vcuda_close(&call, status);
}
