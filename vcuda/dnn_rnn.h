/* cuDNN: recurrent networks of one layer: their descriptors and their computation. */
#ifndef VCUDA_DNN_RNN_H
#define VCUDA_DNN_RNN_H

#include "dnn_classic.h"

typedef enum vcuda_dnn_cell { RNN_RELU, RNN_TANH, RNN_LSTM, RNN_GRU } vcuda_dnn_cell; /* cudnnRNNMode_t */

struct vcuda_dnn_rnn {
  vcuda_type type; /* VCUDA_NO_TYPE: not set */
  int type_number;
  vcuda_dnn_cell cell;
  bool has_input_bias, has_recurrent_bias;
  int directions; /* 1 or 2 */
  int64_t input, hidden;
};

/* The weights of a direction, in elements: for each gate a matrix of hidden * input, then for each gate a matrix of hidden * hidden,
 * then two biases of `hidden` for each gate, which are reserved even without biases. `part` is cuDNN's linLayerID: first the gates of
 * the input, then the recurrent ones. */
int vcuda_dnn_rnn_gates(const vcuda_dnn_rnn *rnn);
int64_t vcuda_dnn_rnn_matrix(const vcuda_dnn_rnn *rnn, int direction, int part); /* where it begins */
int64_t vcuda_dnn_rnn_bias(const vcuda_dnn_rnn *rnn, int direction, int part);   /* -1: there is none */
size_t vcuda_dnn_rnn_weight_bytes(const vcuda_dnn_rnn *rnn);

/* The workspace: doubles for one sequence at a time. */
size_t vcuda_dnn_rnn_workspace_bytes(const vcuda_dnn_rnn *rnn);

/* One run. The lengths of its sequences, as the host knows them, follow it in memory. */
typedef struct vcuda_dnn_rnn_run {
  vcuda_dnn_rnn rnn;
  int64_t steps, batch;
  vcuda_dnn_tensor h, c; /* rank 0: not given */
  const void *x, *hx, *cx, *weights;
  void *y, *hy, *cy, *workspace;
  const int32_t *lengths; /* in device memory, or NULL */
  bool fills;             /* y after the end of a sequence is set to `filling` */
  double filling;
} vcuda_dnn_rnn_run;

/* For vcuda_dnn_submit; the argument is a vcuda_dnn_rnn_run with the lengths. */
void vcuda_dnn_run_rnn(void *run);

#endif
