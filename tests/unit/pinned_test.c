/* Pinned memory, and host memory, for what a session on a device reads and writes: it works, run after run, or it is refused when it is bound. */
#include "stage.h"
#include "../rig/calls.h"

enum { COUNT = 8, RUNS = 4 };
static const float zeros[COUNT];

static iobind_session *session;
static iobind_binding *binding; /* y = 2 x */
static iobind_stream *stream;
static iobind_tensor *x;

static int start(void **state) {
  (void)stage_open(state);
  session = fixture_session(runtime, device, "scale");
  x = fixture_floats(device, zeros, COUNT);
  expect_ok(iobind_stream_create(device, NULL, &stream, &fault));
  expect_ok(iobind_binding_create(session, &binding, &fault));
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
  return 0;
}

static int stop(void **state) {
  iobind_binding_destroy(binding);
  iobind_stream_destroy(stream);
  iobind_tensor_release(x);
  iobind_session_destroy(session);
  return stage_close(state);
}

static iobind_tensor *make_pinned(void) {
  static const int64_t dim = COUNT;
  iobind_tensor *made = NULL;
  expect_ok(iobind_tensor_create(device, IOBIND_MEMORY_HOST_ACCESSIBLE, IOBIND_DTYPE_FLOAT32, &dim, 1, &made, &fault));
  expect_ok(iobind_tensor_write(made, 0, zeros, sizeof zeros, NULL, &fault));
  return made;
}

static void set_x(int run) {
  float values[COUNT];
  for (int i = 0; i < COUNT; i++) {
    values[i] = (float)(run * COUNT + i);
  }
  expect_ok(iobind_tensor_write(x, 0, values, sizeof values, NULL, &fault));
}

static void expect_y(iobind_tensor *y, int run) {
  float values[COUNT];
  for (int i = 0; i < COUNT; i++) {
    values[i] = 2 * (float)(run * COUNT + i);
  }
  fixture_expect_floats(y, values, COUNT);
}

static void expect_run(iobind_stream *on, int run) {
  iobind_tensor *y = NULL;
  set_x(run);
  expect_ok(iobind_binding_run(binding, on, &fault));
  expect_ok(iobind_binding_get_output(binding, 0, NULL, &y, &fault));
  expect_y(y, run);
}

/* The status with which the output was bound. If it is bound, runs are right: without a stream, on one, and several that are queued. */
static void run_if_bound(iobind_status bound) {
  if (bound != IOBIND_OK) {
    fixture_expect(IOBIND_ERROR_NOT_SUPPORTED, bound, "bind", __FILE__, __LINE__);
    return;
  }
  for (int run = 0; run < RUNS; run++) {
    expect_ok(iobind_binding_run(binding, stream, &fault));
  }
  expect_ok(iobind_stream_synchronize(stream, &fault));
  for (int run = 0; run < RUNS; run++) {
    expect_run(NULL, run);
    expect_run(stream, run + RUNS);
  }
}

static void a_fixed_output(void **state) {
  (void)state;
  iobind_tensor *y = make_pinned();
  fixture_arm();
  run_if_bound(iobind_binding_set_output(binding, 0, y, 0, &fault));
  iobind_tensor_release(y);
}

static void a_reused_output(void **state) {
  (void)state;
  fixture_arm();
  run_if_bound(iobind_binding_place_output(binding, 0, IOBIND_OUTPUT_REUSE, device, IOBIND_MEMORY_HOST_ACCESSIBLE, &fault));
}

static void a_reused_output_on_the_cpu(void **state) {
  (void)state;
  fixture_arm();
  run_if_bound(iobind_binding_place_output(binding, 0, IOBIND_OUTPUT_REUSE, iobind_runtime_get_device(runtime, 0),
                                           IOBIND_MEMORY_DEFAULT, &fault));
}

static void a_target_of_a_request(void **state) {
  (void)state;
  iobind_run_request request = IOBIND_RUN_REQUEST_INIT;
  iobind_tensor *y = make_pinned();
  iobind_tensor *output = NULL;
  request.inputs = &x;
  request.targets = &y;
  for (int run = 0; run < RUNS; run++) {
    set_x(run);
    fixture_arm();
    iobind_status status = call_session_request(session, &request, &output, &fault);
    if (status != IOBIND_OK) {
      fixture_expect(IOBIND_ERROR_NOT_SUPPORTED, status, "request", __FILE__, __LINE__);
      break;
    }
    assert_ptr_equal(output, y);
    expect_y(y, run);
    iobind_tensor_release(output);
  }
  iobind_tensor_release(y);
}

/* The message tells the two memories of one device apart. */
static void a_refused_input(void **state) {
  (void)state;
  iobind_device_info info = IOBIND_DEVICE_INFO_INIT;
  iobind_tensor *pinned = make_pinned();
  expect_ok(iobind_device_get_info(device, &info, &fault));
  expect(IOBIND_ERROR_WRONG_DEVICE, iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, pinned, NULL, &fault));
  expect_words(info.spec);
  expect_words("pinned");
  iobind_tensor_release(pinned);
}

#define ON(device, test) \
  { #device ": " #test, test, start, stop, #device }
#define ON_GPUS(test) ON(vdev, test), ON(cuda, test)

static const struct CMUnitTest tests[] = {
    ON_GPUS(a_fixed_output),        ON_GPUS(a_reused_output), ON_GPUS(a_reused_output_on_the_cpu),
    ON_GPUS(a_target_of_a_request), ON_GPUS(a_refused_input),
};

FIXTURE_MAIN(tests, NULL, NULL);
