/* For tests of cuDNN's refusals: descriptors of each kind, and a check of the message. */
#ifndef TESTS_VCUDA_REFUSED_H
#define TESTS_VCUDA_REFUSED_H

/* Descriptors for small valid calls, in which a test makes one argument invalid. */
typedef struct simple {
  vcuda_dnn_tensor *x, *c, *unset;
  vcuda_dnn_pooling *pooling;
  vcuda_dnn_lrn *lrn;
  vcuda_dnn_reduction *reduction;
  vcuda_dnn_dropout *dropout;
  vcuda_dnn_rnn *rnn;
  vcuda_dnn_rnn_data *data;
} simple;

static const int ones[] = {1, 1, 1, 1, 1, 1, 1, 1, 1}, twos[] = {2, 2, 2, 2};

static inline void make_simple(simple *to) {
  assert_int_equal(cudnnCreateTensorDescriptor(&to->x), DNN_OK);
  assert_int_equal(cudnnCreateTensorDescriptor(&to->c), DNN_OK);
  assert_int_equal(cudnnCreateTensorDescriptor(&to->unset), DNN_OK);
  assert_int_equal(cudnnSetTensorNdDescriptor(to->x, 0, 4, twos, (const int[]){8, 4, 2, 1}), DNN_OK);
  assert_int_equal(cudnnSetTensorNdDescriptor(to->c, 0, 4, ones, ones), DNN_OK);
  assert_int_equal(cudnnCreatePoolingDescriptor(&to->pooling), DNN_OK);
  assert_int_equal(cudnnCreateLRNDescriptor(&to->lrn), DNN_OK);
  assert_int_equal(cudnnCreateReduceTensorDescriptor(&to->reduction), DNN_OK);
  assert_int_equal(cudnnCreateDropoutDescriptor(&to->dropout), DNN_OK);
  assert_int_equal(cudnnCreateRNNDescriptor(&to->rnn), DNN_OK);
  assert_int_equal(cudnnCreateRNNDataDescriptor(&to->data), DNN_OK);
}

static inline void drop_simple(const simple *from) {
  assert_int_equal(cudnnDestroyTensorDescriptor(from->x), DNN_OK);
  assert_int_equal(cudnnDestroyTensorDescriptor(from->c), DNN_OK);
  assert_int_equal(cudnnDestroyTensorDescriptor(from->unset), DNN_OK);
  assert_int_equal(cudnnDestroyPoolingDescriptor(from->pooling), DNN_OK);
  assert_int_equal(cudnnDestroyLRNDescriptor(from->lrn), DNN_OK);
  assert_int_equal(cudnnDestroyReduceTensorDescriptor(from->reduction), DNN_OK);
  assert_int_equal(cudnnDestroyDropoutDescriptor(from->dropout), DNN_OK);
  assert_int_equal(cudnnDestroyRNNDescriptor(from->rnn), DNN_OK);
  assert_int_equal(cudnnDestroyRNNDataDescriptor(from->data), DNN_OK);
}

static inline int set_rnn(const simple *s, const int *v) {
  return cudnnSetRNNDescriptor_v8(s->rnn, v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11], s->dropout,
                                  (unsigned)v[12]);
}

/* The call must return the status and log a line that contains the text. */
#define REFUSED(status, text, call)                                              \
  do {                                                                           \
    char said[256];                                                              \
    int before = host_logs();                                                    \
    assert_int_equal(call, status);                                              \
    assert_int_equal(host_logs(), before + 1);                                   \
    cudnnGetLastErrorString(said, sizeof said);                                  \
    if (strstr(said, text) == NULL) fail_msg("'%s' is not in '%s'", text, said); \
  } while (0)

#endif
