/* Convolutions in captured graphs while shapes change. The EP makes new plans for each new shape. Its workspace is memory of the
 * arena, which other runs use in between. Run with race=fail, on two GPUs, with and without pools. */
#define _POSIX_C_SOURCE 200809L /* nanosleep */
#include "replay.h"
#include "../rig/calls.h"

enum { SHAPES = 3, ROUNDS = 4, MOST = 24, GPUS = 2 };

static const int64_t shapes[SHAPES + 1][4] = {{1, 1, 2, 2}, {1, 1, 3, 5}, {1, 1, 1, 7}, {1, 1, 4, 6}};

/* y = x + 1 for one shape. */
typedef struct picture {
  iobind_tensor *x, *y;
  int64_t count;
} picture;

static iobind_session *make_convolution(iobind_device *on, size_t limit) {
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  iobind_session *session = NULL;
  options.devices = &on;
  options.device_count = 1;
  options.graph_limit = limit;
  fixture_arm();
  fixture_expect(IOBIND_OK, test_session_with(runtime, "convolution", &options, &session, &fault), "convolution", __FILE__,
                 __LINE__);
  return session;
}

static picture make_picture(iobind_device *on, int shape) {
  picture p = {.count = shapes[shape][2] * shapes[shape][3]};
  expect_ok(iobind_tensor_create(on, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, shapes[shape], 4, &p.x, &fault));
  expect_ok(iobind_tensor_create(on, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, shapes[shape], 4, &p.y, &fault));
  return p;
}

static void free_picture(picture *p) {
  iobind_tensor_release(p->x);
  iobind_tensor_release(p->y);
}

static void give(const picture *p, float value) {
  float values[MOST];
  for (int64_t i = 0; i < p->count; i++) {
    values[i] = value + (float)i;
  }
  expect_ok(iobind_tensor_write(p->x, 0, values, (size_t)p->count * sizeof values[0], NULL, &fault));
}

static void expect_picture(const iobind_tensor *y, const picture *p, float value) {
  float values[MOST];
  expect_ok(iobind_tensor_read(y, 0, values, (size_t)p->count * sizeof values[0], NULL, &fault));
  for (int64_t i = 0; i < p->count; i++) {
    if (values[i] != value + (float)i + 1) {
      fail_msg("element %d: expected %g, got %g", (int)i, (double)(value + (float)i + 1), (double)values[i]);
    }
  }
}

static void bind(iobind_binding *binding, const picture *p) {
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, p->x, NULL, &fault));
  expect_ok(iobind_binding_set_output(binding, 0, p->y, 0, &fault));
}

/* One binding with several shapes: each shape is captured once, and replayed after the others. */
static void shapes_of_one_binding(void **state) {
  (void)state;
  NEEDS_SEVERAL_GRAPHS();
  iobind_session *session = make_convolution(device, SHAPES);
  iobind_binding *binding;
  picture pictures[SHAPES + 1];
  expect_ok(iobind_binding_create(session, &binding, &fault));
  for (int i = 0; i <= SHAPES; i++) {
    pictures[i] = make_picture(device, i);
  }
  delay("every:2,us:200,random", "every:2,us:200,random");
  for (int round = 0; round < ROUNDS; round++) {
    assert_int_equal(vcuda_reset(0), 0);
    for (int i = 0; i < SHAPES; i++) {
      give(&pictures[i], (float)(round * 10 + i));
      bind(binding, &pictures[i]);
      expect_ok(iobind_binding_run(binding, NULL, &fault));
      expect_picture(pictures[i].y, &pictures[i], (float)(round * 10 + i));
    }
    if (round > 0) {
      assert_int_equal(vcuda_get(0, "captures"), 0);
      assert_int_equal(vcuda_get(0, "graph_launches"), SHAPES);
    }
  }
  give(&pictures[SHAPES], 1);
  bind(binding, &pictures[SHAPES]);
  expect(IOBIND_ERROR_INVALID_STATE, iobind_binding_run(binding, NULL, &fault));
  expect_ok(iobind_binding_reset_graphs(binding, &fault));
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  expect_picture(pictures[SHAPES].y, &pictures[SHAPES], 1);
  delay("0", "0");
  for (int i = 0; i <= SHAPES; i++) {
    free_picture(&pictures[i]);
  }
  iobind_binding_destroy(binding);
  iobind_session_destroy(session);
}

/* Between two replays the session runs other shapes without a graph, on other streams. Each run makes another plan of the convolution;
 * the graph keeps its own plan. */
static void plain_runs_of_other_shapes_between_replays(void **state) {
  (void)state;
  NEEDS_SEVERAL_GRAPHS();
  iobind_session *session = make_convolution(device, 1);
  iobind_binding *captured, *others;
  iobind_run_options none = IOBIND_RUN_OPTIONS_INIT;
  const char *key = "gpu_graph_id", *value = "-1";
  iobind_stream *streams[2] = {make_stream(), make_stream()};
  picture replayed = make_picture(device, 0), pictures[SHAPES];
  none.config_keys = &key;
  none.config_values = &value;
  none.config_count = 1;
  expect_ok(iobind_binding_create(session, &captured, &fault));
  expect_ok(iobind_binding_create(session, &others, &fault));
  expect_ok(iobind_binding_set_run_options(others, &none, &fault));
  bind(captured, &replayed);
  for (int i = 0; i < SHAPES; i++) {
    pictures[i] = make_picture(device, i + 1);
    give(&pictures[i], (float)i);
  }
  delay("every:1,us:300,random", "every:1,us:300,random");
  for (int round = 0; round < ROUNDS; round++) {
    for (int i = 0; i < SHAPES; i++) {
      give(&replayed, (float)(round + i));
      expect_ok(iobind_binding_run(captured, streams[0], &fault));
      bind(others, &pictures[i]);
      expect_ok(iobind_binding_run(others, streams[1], &fault));
      expect_ok(iobind_binding_run(captured, streams[0], &fault));
      expect_picture(replayed.y, &replayed, (float)(round + i));
      expect_picture(pictures[i].y, &pictures[i], (float)i);
    }
  }
  delay("0", "0");
  iobind_binding_destroy(captured);
  iobind_binding_destroy(others);
  for (int i = 0; i < SHAPES; i++) {
    free_picture(&pictures[i]);
  }
  free_picture(&replayed);
  iobind_stream_destroy(streams[0]);
  iobind_stream_destroy(streams[1]);
  iobind_session_destroy(session);
}

/* The memory of a released picture is reused for one of another shape, while replays of the same session are in flight on both GPUs. */
static void on_two_gpus(void **state) {
  (void)state;
  NEEDS_SEVERAL_GRAPHS();
  iobind_device *devices[GPUS] = {fixture_device(runtime, "cuda:0"), fixture_device(runtime, "cuda:1")};
  iobind_session *sessions[GPUS];
  iobind_stream *streams[GPUS];
  for (int gpu = 0; gpu < GPUS; gpu++) {
    sessions[gpu] = make_convolution(devices[gpu], 1);
    expect_ok(iobind_stream_create(devices[gpu], NULL, &streams[gpu], &fault));
    assert_int_equal(vcuda_set(gpu, "delay_compute", "every:1,us:300,random"), 0);
    assert_int_equal(vcuda_set(gpu, "delay_graph", "every:1,us:300,random"), 0);
  }
  for (int round = 0; round < ROUNDS * SHAPES; round++) {
    iobind_binding *bindings[GPUS];
    picture pictures[GPUS];
    for (int gpu = 0; gpu < GPUS; gpu++) {
      pictures[gpu] = make_picture(devices[gpu], (round + gpu) % SHAPES);
      give(&pictures[gpu], (float)(round + gpu));
      expect_ok(iobind_binding_create(sessions[gpu], &bindings[gpu], &fault));
      bind(bindings[gpu], &pictures[gpu]);
      expect_ok(iobind_binding_run(bindings[gpu], streams[gpu], &fault));
      expect_ok(iobind_binding_run(bindings[gpu], streams[gpu], &fault));
    }
    for (int gpu = 0; gpu < GPUS; gpu++) {
      iobind_tensor *y = iobind_tensor_retain(pictures[gpu].y);
      iobind_binding_destroy(bindings[gpu]); /* its run is in flight */
      free_picture(&pictures[gpu]);
      expect_picture(y, &pictures[gpu], (float)(round + gpu));
      iobind_tensor_release(y);
    }
  }
  for (int gpu = 0; gpu < GPUS; gpu++) {
    assert_int_equal(vcuda_set(gpu, "delay_compute", "0"), 0);
    assert_int_equal(vcuda_set(gpu, "delay_graph", "0"), 0);
    iobind_stream_destroy(streams[gpu]);
    iobind_session_destroy(sessions[gpu]);
  }
  assert_int_equal(vcuda_get(1, "races"), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)
static const struct CMUnitTest tests[] = {
    TEST(shapes_of_one_binding),
    TEST(plain_runs_of_other_shapes_between_replays),
    TEST(on_two_gpus),
};

FIXTURE_MAIN(tests, NULL, NULL);
