/* cuDNN's older interface on the virtual GPU's streams. For each function that queues work: every address range that it reads or
 * writes, order, delays, captures, failures, counters and the trace. */
#include "device.h"

#include <stdio.h>

#include "dnn_classic.h"

enum { MOST_RANGES = 8, MOST_FLOATS = 1024 };

typedef struct range {
  size_t bytes;
  bool written;
} range;

typedef struct operation {
  const char *name; /* of the function, as in faults and the trace */
  range ranges[MOST_RANGES];
  int count;
  int result; /* index of the range that shows that the work has run */
  int (*call)(vcuda_dnn *handle, char *const *memory);
} operation;

static const float one = 1, zero = 0;

static vcuda_dnn_tensor *make_tensor(int rank, const int *dims) {
  int strides[DNN_MAX_RANK], count = 1;
  vcuda_dnn_tensor *made = NULL;
  for (int i = rank - 1; i >= 0; i--) {
    strides[i] = count;
    count *= dims[i];
  }
  OK(cudnnCreateTensorDescriptor(&made));
  OK(cudnnSetTensorNdDescriptor(made, 0, rank, dims, strides));
  return made;
}

/* Every call creates its descriptors, and destroys them before the work has run. */
static const int picture[] = {2, 3, 4, 5}, pooled[] = {2, 3, 2, 2}, channels[] = {1, 3, 1, 1};
enum { PICTURE = 2 * 3 * 4 * 5 * 4, POOLED = 2 * 3 * 2 * 2 * 4, CHANNELS = 3 * 4, SUMS = 3 * 8 };

static int call_pooling(vcuda_dnn *handle, char *const *m) {
  const int window[] = {2, 3}, padding[] = {0, 0}, stride[] = {2, 2};
  vcuda_dnn_tensor *x = make_tensor(4, picture), *y = make_tensor(4, pooled);
  vcuda_dnn_pooling *pooling = NULL;
  OK(cudnnCreatePoolingDescriptor(&pooling));
  OK(cudnnSetPoolingNdDescriptor(pooling, 2, 1, 2, window, padding, stride));
  int status = cudnnPoolingForward(handle, pooling, &one, x, m[0], &zero, y, m[1]);
  OK(cudnnDestroyPoolingDescriptor(pooling));
  OK(cudnnDestroyTensorDescriptor(x));
  OK(cudnnDestroyTensorDescriptor(y));
  return status;
}

static int call_inference(vcuda_dnn *handle, char *const *m) {
  vcuda_dnn_tensor *x = make_tensor(4, picture), *p = make_tensor(4, channels);
  int status =
      cudnnBatchNormalizationForwardInference(handle, 1, &one, &zero, x, m[0], x, m[1], p, m[2], m[3], m[4], m[5], 0.5);
  OK(cudnnDestroyTensorDescriptor(x));
  OK(cudnnDestroyTensorDescriptor(p));
  return status;
}

static int call_training(vcuda_dnn *handle, char *const *m) {
  vcuda_dnn_tensor *x = make_tensor(4, picture), *p = make_tensor(4, channels);
  int status = cudnnBatchNormalizationForwardTraining(handle, 1, &one, &zero, x, m[0], x, m[1], p, m[2], m[3], 1, m[4], m[5],
                                                      0.5, m[6], m[7]);
  OK(cudnnDestroyTensorDescriptor(x));
  OK(cudnnDestroyTensorDescriptor(p));
  return status;
}

static int call_lrn(vcuda_dnn *handle, char *const *m) {
  vcuda_dnn_tensor *x = make_tensor(4, picture);
  vcuda_dnn_lrn *lrn = NULL;
  OK(cudnnCreateLRNDescriptor(&lrn));
  OK(cudnnSetLRNDescriptor(lrn, 3, 1, 0.5, 1));
  int status = cudnnLRNCrossChannelForward(handle, lrn, 0, &one, x, m[0], &zero, x, m[1]);
  OK(cudnnDestroyLRNDescriptor(lrn));
  OK(cudnnDestroyTensorDescriptor(x));
  return status;
}

static int call_softmax(vcuda_dnn *handle, char *const *m) {
  vcuda_dnn_tensor *x = make_tensor(4, picture);
  int status = cudnnSoftmaxForward(handle, 1, 0, &one, x, m[0], &zero, x, m[1]);
  OK(cudnnDestroyTensorDescriptor(x));
  return status;
}

/* The maximum of each channel, with its index. */
static int call_reduction(vcuda_dnn *handle, char *const *m) {
  vcuda_dnn_tensor *a = make_tensor(4, picture), *c = make_tensor(4, channels);
  vcuda_dnn_reduction *reduction = NULL;
  size_t indices = 0, workspace = 0;
  OK(cudnnCreateReduceTensorDescriptor(&reduction));
  OK(cudnnSetReduceTensorDescriptor(reduction, 3, 0, 1, 1, 0));
  OK(cudnnGetReductionIndicesSize(handle, reduction, a, c, &indices));
  OK(cudnnGetReductionWorkspaceSize(handle, reduction, a, c, &workspace));
  assert_int_equal(indices, CHANNELS);
  assert_int_equal(workspace, SUMS);
  int status = cudnnReduceTensor(handle, reduction, m[2], indices, m[3], workspace, &one, a, m[0], &zero, c, m[1]);
  OK(cudnnDestroyReduceTensorDescriptor(reduction));
  OK(cudnnDestroyTensorDescriptor(a));
  OK(cudnnDestroyTensorDescriptor(c));
  return status;
}

enum { STATES = 4096 };

static int call_dropout(vcuda_dnn *handle, char *const *m) {
  vcuda_dnn_dropout *dropout = NULL;
  size_t bytes = 0;
  OK(cudnnCreateDropoutDescriptor(&dropout));
  OK(cudnnDropoutGetStatesSize(handle, &bytes));
  assert_int_equal(bytes, STATES);
  int status = cudnnSetDropoutDescriptor(dropout, handle, 0, m[0], bytes, 1);
  OK(cudnnDestroyDropoutDescriptor(dropout));
  return status;
}

/* An LSTM of 2 directions and 3 sequences of up to 4 steps. */
enum {
  STEPS = 4,
  BATCH = 3,
  INPUT = 2,
  HIDDEN = 2,
  LSTM_X = STEPS * BATCH * INPUT * 4,
  LSTM_Y = STEPS * BATCH * 2 * HIDDEN * 4
};
enum {
  WEIGHTS = 2 * 4 * HIDDEN * (INPUT + HIDDEN + 2) * 4,
  LSTM_STATE = 2 * BATCH * HIDDEN * 4,
  WORKSPACE = (INPUT + 10 * HIDDEN) * 8
};
static const int lengths[] = {4, 0, 2}, states[] = {2, BATCH, HIDDEN};

static int call_lstm(vcuda_dnn *handle, char *const *m) {
  vcuda_dnn_tensor *h = make_tensor(3, states);
  vcuda_dnn_rnn *rnn = NULL;
  vcuda_dnn_rnn_data *x = NULL, *y = NULL;
  size_t workspace = 0, reserve = 0;
  OK(cudnnCreateRNNDescriptor(&rnn));
  OK(cudnnSetRNNDescriptor_v8(rnn, 0, 2, 2, 1, 0, 0, 0, 0, INPUT, HIDDEN, HIDDEN, 1, NULL, 1));
  OK(cudnnCreateRNNDataDescriptor(&x));
  OK(cudnnCreateRNNDataDescriptor(&y));
  OK(cudnnSetRNNDataDescriptor(x, 0, 0, STEPS, BATCH, INPUT, lengths, NULL));
  OK(cudnnSetRNNDataDescriptor(y, 0, 0, STEPS, BATCH, 2 * HIDDEN, lengths, &zero));
  OK(cudnnGetRNNTempSpaceSizes(handle, rnn, 0, x, &workspace, &reserve));
  assert_int_equal(workspace, WORKSPACE);
  int status = cudnnRNNForward(handle, rnn, 0, NULL, x, m[0], y, m[1], h, m[2], m[3], h, m[4], m[5], WEIGHTS, m[6], WORKSPACE,
                               m[7], 0, NULL);
  OK(cudnnDestroyRNNDescriptor(rnn));
  OK(cudnnDestroyRNNDataDescriptor(x));
  OK(cudnnDestroyRNNDataDescriptor(y));
  OK(cudnnDestroyTensorDescriptor(h));
  return status;
}

enum {
  TANH_Y = STEPS * BATCH * HIDDEN * 4,
  TANH_WEIGHTS = HIDDEN * (INPUT + HIDDEN + 2) * 4,
  TANH_WORKSPACE = (INPUT + 4 * HIDDEN) * 8
};
enum { LENGTHS = BATCH * 4 };

/* A network of one gate with lengths in device memory. All sequences are empty, so y gets the filling value. */
static int call_tanh(vcuda_dnn *handle, char *const *m) {
  vcuda_dnn_rnn *rnn = NULL;
  vcuda_dnn_rnn_data *x = NULL, *y = NULL;
  OK(cudnnCreateRNNDescriptor(&rnn));
  OK(cudnnSetRNNDescriptor_v8(rnn, 0, 1, 0, 0, 0, 0, 0, 0, INPUT, HIDDEN, HIDDEN, 1, NULL, 1));
  OK(cudnnCreateRNNDataDescriptor(&x));
  OK(cudnnCreateRNNDataDescriptor(&y));
  const int none[] = {0, 0, 0};
  OK(cudnnSetRNNDataDescriptor(x, 0, 0, STEPS, BATCH, INPUT, none, NULL));
  OK(cudnnSetRNNDataDescriptor(y, 0, 0, STEPS, BATCH, HIDDEN, none, &one));
  int32_t *in_device = NULL;
  memcpy(&in_device, &m[4], sizeof in_device);
  int status = cudnnRNNForward(handle, rnn, 0, in_device, x, m[0], y, m[1], NULL, NULL, NULL, NULL, NULL, NULL, TANH_WEIGHTS,
                               m[2], TANH_WORKSPACE, m[3], 0, NULL);
  OK(cudnnDestroyRNNDescriptor(rnn));
  OK(cudnnDestroyRNNDataDescriptor(x));
  OK(cudnnDestroyRNNDataDescriptor(y));
  return status;
}

#define IN(bytes) \
  { bytes, false }
#define OUT(bytes) \
  { bytes, true }
static const operation operations[] = {
    {"cudnnPoolingForward", {IN(PICTURE), OUT(POOLED)}, 2, 1, call_pooling},
    {"cudnnBatchNormalizationForwardInference",
     {IN(PICTURE), OUT(PICTURE), IN(CHANNELS), IN(CHANNELS), IN(CHANNELS), IN(CHANNELS)},
     6,
     1,
     call_inference},
    {"cudnnBatchNormalizationForwardTraining",
     {IN(PICTURE), OUT(PICTURE), IN(CHANNELS), IN(CHANNELS), OUT(CHANNELS), OUT(CHANNELS), OUT(CHANNELS), OUT(CHANNELS)},
     8,
     1,
     call_training},
    {"cudnnLRNCrossChannelForward", {IN(PICTURE), OUT(PICTURE)}, 2, 1, call_lrn},
    {"cudnnSoftmaxForward", {IN(PICTURE), OUT(PICTURE)}, 2, 1, call_softmax},
    {"cudnnReduceTensor", {IN(PICTURE), OUT(CHANNELS), OUT(CHANNELS), OUT(SUMS)}, 4, 1, call_reduction},
    {"cudnnSetDropoutDescriptor", {OUT(STATES)}, 1, 0, call_dropout},
    {"cudnnRNNForward",
     {IN(LSTM_X), OUT(LSTM_Y), IN(LSTM_STATE), OUT(LSTM_STATE), IN(LSTM_STATE), OUT(LSTM_STATE), IN(WEIGHTS), OUT(WORKSPACE)},
     8,
     1,
     call_lstm},
    {"cudnnRNNForward", {IN(LSTM_X), OUT(TANH_Y), IN(TANH_WEIGHTS), OUT(TANH_WORKSPACE), IN(LENGTHS)}, 5, 1, call_tanh},
};
enum { OPERATIONS = sizeof operations / sizeof *operations };

/* ---- memory: exactly the bytes of each range; inputs hold small numbers, outputs hold zeros ---- */

typedef struct fixture {
  const operation *operation;
  vcuda_dnn *handle;
  cuda_stream stream, other;
  char *memory[MOST_RANGES];
} fixture;

/* The lengths in device memory are 0, as in their descriptor. */
static void put(const fixture *f, int i, float number) {
  float data[MOST_FLOATS] = {0};
  const range *r = &f->operation->ranges[i];
  bool is_zero = r->written || (f->operation->call == call_tanh && i == 4);
  for (size_t at = 0; at < r->bytes / 4 && !is_zero; at++) data[at] = number + (float)(at % 7) / 8;
  OK(cudaMemcpy(f->memory[i], data, r->bytes, CUDA_COPY_UP));
}

static fixture open_fixture(const operation *chosen) {
  fixture f = {.operation = chosen, .stream = make_stream(), .other = make_stream()};
  OK(cudnnCreate(&f.handle));
  OK(cudnnSetStream(f.handle, f.stream));
  for (int i = 0; i < chosen->count; i++) {
    f.memory[i] = make_memory(chosen->ranges[i].bytes);
    put(&f, i, 1);
  }
  OK(cudaDeviceSynchronize());
  return f;
}

static void close_fixture(const fixture *f) {
  for (int i = 0; i < f->operation->count; i++) OK(cudaFree(f->memory[i]));
  OK(cudnnDestroy(f->handle));
  OK(cudaStreamDestroy(f->stream));
  OK(cudaStreamDestroy(f->other));
}

static int call(const fixture *f) {
  return f->operation->call(f->handle, f->memory);
}

static void get(const fixture *f, float *to) {
  OK(cudaMemcpy(to, f->memory[f->operation->result], f->operation->ranges[f->operation->result].bytes, CUDA_COPY_DOWN));
}

static bool has_run(const fixture *f) {
  float data[MOST_FLOATS] = {0};
  get(f, data);
  for (int i = 0; i < MOST_FLOATS; i++) {
    if (data[i] != 0) return true;
  }
  return false;
}

/* ---- the tests ---- */

/* No work runs before the stream reaches it. Then it runs, after the descriptors were destroyed and after a delay. */
static void each_runs_on_the_stream_of_its_handle(void **state) {
  (void)state;
  for (int i = 0; i < OPERATIONS; i++) {
    fixture f = open_fixture(&operations[i]);
    gate g;
    close_gate(&g, f.stream);
    OK(vcuda_set(0, "delay_compute", "every:1,us:2000"));
    OK(vcuda_reset(0));
    OK(call(&f));
    assert_int_equal(vcuda_get(0, "launches"), 1);
    assert_int_equal(vcuda_get(0, "syncs"), 0);
    assert_false(has_run(&f));
    open_gate(&g);
    OK(cudaStreamSynchronize(f.stream));
    assert_true(has_run(&f));
    OK(vcuda_set(0, "delay_compute", "0"));
    close_fixture(&f);
  }
}

/* The last byte of each range: an output races with a reader, an input with a writer, and two readers do not race. */
static void each_range_is_known_to_the_race_detector(void **state) {
  (void)state;
  skip_under_thread_sanitizer();
  for (int i = 0; i < OPERATIONS; i++) {
    const operation *chosen = &operations[i];
    for (int at = 0; at < chosen->count; at++) {
      fixture f = open_fixture(chosen);
      const range *r = &chosen->ranges[at];
      OK(vcuda_set(0, "race", "count"));
      OK(vcuda_reset(0));
      OK(call(&f));
      OK(cudaStreamSynchronize(f.stream));
      OK(call(&f));
      OK(touch(f.other, "a reader", f.memory[at] + r->bytes - 1, 1, -1));
      OK(cudaDeviceSynchronize());
      assert_int_equal(vcuda_get(0, "races"), r->written ? 1 : 0);
      OK(call(&f));
      OK(touch(f.other, "a writer", f.memory[at] + r->bytes - 1, 1, 0));
      OK(cudaDeviceSynchronize());
      assert_int_equal(vcuda_get(0, "races"), r->written ? 2 : 1);
      assert_non_null(strstr(vcuda_last_race(), chosen->name));
      OK(vcuda_set(0, "race", "off"));
      close_fixture(&f);
    }
  }
}

/* One range is too short by a byte: the fault is found when the work runs, and the log names it. */
static void each_range_is_checked(void **state) {
  (void)state;
  for (int i = 0; i < OPERATIONS; i++) {
    for (int at = 0; at < operations[i].count; at++) {
      fixture f = open_fixture(&operations[i]);
      char *whole = f.memory[at];
      f.memory[at] = make_memory(operations[i].ranges[at].bytes - 1);
      OK(call(&f));
      FAILS(CUDA_ILLEGAL_ADDRESS, cudaStreamSynchronize(f.stream));
      assert_non_null(strstr(vcuda_last_message(), operations[i].name));
      FAILS(CUDA_ILLEGAL_ADDRESS, vcuda_recover(0));
      OK(cudaFree(whole));
      close_fixture(&f);
    }
  }
}

static void each_can_be_captured(void **state) {
  (void)state;
  for (int i = 0; i < OPERATIONS; i++) {
    fixture f = open_fixture(&operations[i]);
    cuda_graph graph = NULL;
    cuda_exec exec = NULL;
    float plain[2][MOST_FLOATS] = {{0}}, replayed[MOST_FLOATS] = {0};
    for (int run = 0; run < 2; run++) {
      for (int at = 0; at < operations[i].count; at++) put(&f, at, (float)run + 1);
      OK(call(&f));
      OK(cudaStreamSynchronize(f.stream));
      get(&f, plain[run]);
      for (int at = 0; at < operations[i].count; at++) put(&f, at, 0);
    }
    OK(cudaStreamBeginCapture(f.stream, CUDA_CAPTURE_GLOBAL));
    OK(call(&f));
    OK(cudaStreamEndCapture(f.stream, &graph));
    OK(cudaGraphInstantiate(&exec, graph, 0));
    OK(cudaGraphDestroy(graph));
    assert_false(has_run(&f));
    for (int run = 0; run < 2; run++) {
      for (int at = 0; at < operations[i].count; at++) put(&f, at, (float)run + 1);
      OK(cudaGraphLaunch(exec, f.stream));
      OK(cudaStreamSynchronize(f.stream));
      get(&f, replayed);
      assert_memory_equal(replayed, plain[run], sizeof replayed);
    }
    OK(cudaGraphExecDestroy(exec));
    close_fixture(&f);
  }
}

/* wrong_compute changes the result, not a workspace or another output. */
static void each_result_can_be_wrong(void **state) {
  (void)state;
  for (int i = 0; i < OPERATIONS; i++) {
    fixture f = open_fixture(&operations[i]);
    float right[MOST_FLOATS], wrong[MOST_FLOATS];
    char text[96];
    OK(call(&f));
    OK(cudaStreamSynchronize(f.stream));
    get(&f, right);
    snprintf(text, sizeof text, "1,name:%s", operations[i].name);
    OK(vcuda_set(0, "wrong_compute", text));
    OK(call(&f));
    OK(cudaStreamSynchronize(f.stream));
    get(&f, wrong);
    OK(vcuda_set(0, "wrong_compute", "0"));
    if (memcmp(right, wrong, operations[i].ranges[operations[i].result].bytes) == 0) fail_msg("%s", operations[i].name);
    close_fixture(&f);
  }
}

static void each_can_fail(void **state) {
  (void)state;
  for (int i = 0; i < OPERATIONS; i++) {
    fixture f = open_fixture(&operations[i]);
    char text[96];
    snprintf(text, sizeof text, "1,name:%s", operations[i].name);
    OK(vcuda_set(0, "fail_compute", text));
    FAILS(DNN_EXECUTION_FAILED, call(&f)); /* fails once: the next call works */
    OK(cudaStreamSynchronize(f.stream));
    assert_false(has_run(&f));
    snprintf(text, sizeof text, "1,late,name:%s", operations[i].name);
    OK(vcuda_set(0, "fail_compute", text));
    OK(call(&f));
    FAILS(CUDA_LAUNCH_FAILURE, cudaStreamSynchronize(f.stream));
    FAILS(DNN_EXECUTION_FAILED, call(&f)); /* the device has failed */
    FAILS(CUDA_LAUNCH_FAILURE, vcuda_recover(0));
    OK(vcuda_set(0, "fail_compute", "0"));
    assert_false(has_run(&f));
    OK(call(&f));
    OK(cudaStreamSynchronize(f.stream));
    assert_true(has_run(&f));
    close_fixture(&f);
  }
}

static void call_inside(void *data) {
  assert_int_equal(call(data), DNN_EXECUTION_FAILED);
}

/* No work is queued inside a host function, or while another device is current. `reduction` and the RNN query sizes first, which a
 * host function must not do either. */
static void none_is_queued_elsewhere(void **state) {
  (void)state;
  for (int i = 0; i < OPERATIONS; i++) {
    fixture f = open_fixture(&operations[i]);
    OK(cudaSetDevice(1));
    FAILS(DNN_EXECUTION_FAILED, call(&f));
    OK(cudaSetDevice(0));
    bool asks = f.operation->call == call_reduction || f.operation->call == call_dropout || f.operation->call == call_lstm;
    if (!asks) OK(cudaLaunchHostFunc(f.stream, call_inside, &f));
    OK(cudaStreamSynchronize(f.stream));
    assert_false(has_run(&f));
    close_fixture(&f);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(each_runs_on_the_stream_of_its_handle),
      TEST(each_range_is_known_to_the_race_detector),
      TEST(each_range_is_checked),
      TEST(each_can_be_captured),
      TEST(each_can_fail),
      TEST(each_result_can_be_wrong),
      TEST(none_is_queued_elsewhere),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
