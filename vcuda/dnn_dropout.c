/* cuDNN: dropout descriptors, which an RNN needs even without dropout. */
#include "dnn_classic.h"

enum { STATE_BYTES = 4096 };

struct vcuda_dnn_dropout {
  double rate;
};

VCUDA_DNN_DESCRIPTOR(Dropout, vcuda_dnn_dropout)

int cudnnDropoutGetStatesSize(vcuda_dnn *handle, size_t *bytes) {
  VCUDA_DNN_OPEN(handle);
  if (bytes == NULL) return vcuda_close(&call, vcuda_dnn_bad("%s: no room for the size", __func__));
  *bytes = STATE_BYTES;
  return vcuda_close(&call, DNN_OK);
}

double vcuda_dnn_dropout_rate(const vcuda_dnn_dropout *dropout) {
  return dropout->rate;
}

typedef struct job {
  void *states;
  unsigned long long seed;
} job;

static void run(void *arguments) {
  const job *j = arguments;
  unsigned char *states = vcuda_writes(j->states, STATE_BYTES);
  unsigned long long number = j->seed;
  for (int i = 0; states != NULL && i < STATE_BYTES; i++) {
    number = number * 6364136223846793005ULL + 1442695040888963407ULL;
    states[i] = (unsigned char)(number >> 56);
  }
}

/* Without states only the rate is set. */
int cudnnSetDropoutDescriptor(vcuda_dnn_dropout *dropout, vcuda_dnn *handle, float rate, void *states, size_t bytes,
                              unsigned long long seed) {
  VCUDA_DNN_OPEN(handle);
  if (dropout == NULL) return vcuda_close(&call, vcuda_dnn_bad("%s: the descriptor is NULL", __func__));
  if (!(rate >= 0 && rate <= 1)) {
    return vcuda_close(&call, vcuda_dnn_bad("%s: dropout of %g; expected 0 to 1", __func__, (double)rate));
  }
  if (states != NULL && bytes < STATE_BYTES) {
    return vcuda_close(&call, vcuda_dnn_bad("%s: states of %zu bytes; expected %d", __func__, bytes, STATE_BYTES));
  }
  const job j = {states, seed};
  int status = states == NULL ? DNN_OK : vcuda_dnn_submit(handle, __func__, run, &j, sizeof j);
  if (status == DNN_OK) dropout->rate = rate;
  return vcuda_close(&call, status);
}
