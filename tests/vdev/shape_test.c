/* Names of dims: ORT does not check that dims of one name have one size, and its CPU provider computes whatever the operators take. So
 * does the virtual accelerator, and it still knows the dims of an output before the run where the names are true. Virtual clock. */
#include "rig.h"

#include <stdio.h>

#include "onnx.h"

enum { MOST = 8 };

/* y = x + w. A name NULL: the dim has none. */
typedef struct sum_model {
  const char *x;
  const char *w;
  const char *y;
  const char *middle; /* of the dim of x + w, if there is another node behind it: y = -(-(x + w)) */
} sum_model;

static void add_node(onnx_writer *writer, const char *op, const char *first, const char *second, const char *output) {
  onnx_node_begin(writer, op, "", output);
  onnx_node_input(writer, first);
  if (second != NULL) {
    onnx_node_input(writer, second);
  }
  onnx_node_output(writer, output);
  onnx_node_end(writer);
}

/* `device` -1: on the CPU. */
static OrtSession *make_sum(const sum_model *model, int device) {
  static const int64_t open = -1;
  onnx_writer writer = ONNX_WRITER_INIT;
  onnx_type types[4] = {{.dtype = ONNX_FLOAT32, .dims = &open, .symbols = &model->x, .rank = 1},
                        {.dtype = ONNX_FLOAT32, .dims = &open, .symbols = &model->w, .rank = 1},
                        {.dtype = ONNX_FLOAT32, .dims = &open, .symbols = &model->y, .rank = 1},
                        {.dtype = ONNX_FLOAT32, .dims = &open, .symbols = &model->middle, .rank = 1}};
  const void *bytes = NULL;
  size_t size = 0;
  onnx_model_begin(&writer, NULL);
  onnx_opset(&writer, "", 17);
  onnx_graph_begin(&writer, "graph");
  onnx_input(&writer, "x", &types[0]);
  onnx_input(&writer, "w", &types[1]);
  onnx_output(&writer, "y", &types[2]);
  if (model->middle != NULL) {
    onnx_value(&writer, "sum", &types[3]);
    add_node(&writer, "Add", "x", "w", "sum");
    add_node(&writer, "Neg", "sum", NULL, "negated");
    add_node(&writer, "Neg", "negated", NULL, "y");
  } else {
    add_node(&writer, "Add", "x", "w", "y");
  }
  onnx_graph_end(&writer);
  onnx_model_end(&writer);
  assert_int_equal(onnx_writer_finish(&writer, &bytes, &size), ONNX_OK);
  OrtSessionOptions *options = NULL;
  OrtSession *session = NULL;
  ok(rig.api->CreateSessionOptions(&options));
  ok(rig.api->SetIntraOpNumThreads(options, 1));
  if (device >= 0) {
    ok(rig.api->SessionOptionsAppendExecutionProvider_V2(options, rig.env, &rig.devices[device], 1, NULL, NULL, 0));
  }
  ok(rig.api->CreateSessionFromArray(rig.env, bytes, size, options, &session));
  rig.api->ReleaseSessionOptions(options);
  onnx_writer_release(&writer);
  return session;
}

/* The sum of 1 2 3 ... and 10 20 30 ..., of so many elements. Gives how many came out. */
static size_t run_sum(OrtSession *session, size_t x_count, size_t w_count, float *result) {
  static const char *const names[2] = {"x", "w"};
  static const char *const output_names[1] = {"y"};
  float x[MOST];
  float w[MOST];
  for (int i = 0; i < MOST; i++) {
    x[i] = (float)(i + 1);
    w[i] = (float)(10 * (i + 1));
  }
  OrtValue *values[2] = {rig_host_tensor(x, x_count), rig_host_tensor(w, w_count)};
  const OrtValue *inputs[2] = {values[0], values[1]};
  OrtValue *output = NULL;
  ok(rig.api->Run(session, NULL, names, inputs, 2, output_names, 1, &output));
  const int64_t *dims = NULL;
  size_t rank = 0;
  ONNXTensorElementDataType dtype;
  ok(rig.api->GetTensorElementTypeAndShapeDataReference(output, &dtype, &dims, &rank));
  assert_int_equal(rank, 1);
  assert_in_range(dims[0], 0, MOST);
  size_t count = (size_t)dims[0];
  const float *data = rig_data(output);
  for (size_t i = 0; i < count; i++) {
    result[i] = data[i];
  }
  rig.api->ReleaseValue(output);
  rig.api->ReleaseValue(values[0]);
  rig.api->ReleaseValue(values[1]);
  return count;
}

static const sum_model models[] = {
    {"n", "n", "n", NULL}, /* true, if both have the same size */
    {"n", "m", "n", NULL}, /* the output takes the name of one input */
    {"n", "m", "m", NULL},    {"n", "n", NULL, NULL},
    {NULL, NULL, NULL, NULL}, {"n", "m", "n", "n"}, /* and so does what is between two nodes */
    {"n", "n", "n", "n"},
};

/* Sizes in an order that changes from those that the names are true of to others and back. */
static void test_broadcasts_are_as_on_the_cpu(void **state) {
  (void)state;
  static const size_t sizes[][2] = {{3, 3}, {1, 3}, {3, 3}, {3, 1}, {1, 1}, {1, 5}, {5, 5}, {3, 1}};
  for (size_t m = 0; m < sizeof models / sizeof models[0]; m++) {
    OrtSession *on_device = make_sum(&models[m], 0);
    OrtSession *on_cpu = make_sum(&models[m], -1);
    assert_int_equal(vdev_reset(0), 0);
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
      float got[MOST];
      float expected[MOST];
      size_t count = run_sum(on_cpu, sizes[s][0], sizes[s][1], expected);
      if (run_sum(on_device, sizes[s][0], sizes[s][1], got) != count) {
        fail_msg("model %zu, sizes %zu", m, s);
      }
      for (size_t i = 0; i < count; i++) {
        assert_true(got[i] == expected[i]);
      }
    }
    assert_true(rig_get("kernels") > 0); /* it was not the CPU's */
    rig.api->ReleaseSession(on_device);
    rig.api->ReleaseSession(on_cpu);
  }
}

/* Did the host wait for a run on a stream, which takes a while? */
static bool host_waits(OrtSession *session, size_t x_count, size_t w_count) {
  OrtValue *values[3] = {rig_device_tensor(0, x_count), rig_device_tensor(0, w_count),
                         rig_device_tensor(0, x_count > w_count ? x_count : w_count)};
  OrtSyncStream *stream = rig_stream(0);
  OrtIoBinding *binding = rig_binding(session, values[0], "y", values[2]);
  ok(rig.api->BindInput(binding, "w", values[1]));
  rig_set("compute_us", "1000", NULL);
  int64_t before = rig_get("time_ns");
  ok(rig_run(session, binding, stream));
  bool waited = rig_get("time_ns") > before;
  rig_set("compute_us", "0", NULL);
  assert_int_equal(vdev_stream_synchronize(rig_native(stream)), 0);
  rig.api->ReleaseIoBinding(binding);
  for (size_t i = 0; i < 3; i++) {
    rig.api->ReleaseValue(values[i]);
  }
  rig.api->ReleaseSyncStream(stream);
  return waited;
}

/* Where the names are true, the run is submitted, and the host does not wait for it to learn the dims. */
static void test_true_names_need_no_wait(void **state) {
  (void)state;
  OrtSession *session = make_sum(&models[0], 0);
  assert_false(host_waits(session, 3, 3));
  assert_true(host_waits(session, 1, 3));
  assert_false(host_waits(session, 3, 3));
  rig.api->ReleaseSession(session);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_broadcasts_are_as_on_the_cpu),
    cmocka_unit_test(test_true_names_need_no_wait),
};

RIG_MAIN(cases);
