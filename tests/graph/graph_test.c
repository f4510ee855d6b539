/* Captured graphs are right, or an error before anything is wrong: situations in which ONNX Runtime says OK and gives a wrong result, on
 * each device whose EP captures graphs. */

#include "session/session.h"

#include "graph_rig.h" /* its globals have the names of parameters there */

#include <stdlib.h>
#include <string.h>

#include "models.h"
#include "../rig/calls.h"

enum { N = 48, TWICE = 2 * N };

/* A run is one launch of the graph, and nothing else is launched or copied. */
static void steady(void **state) {
  (void)state;
  iobind_session *session = make_session("scale", 1);
  iobind_tensor *x = make_filled(N, 3);
  iobind_tensor *y = make_filled(N, -1);
  iobind_binding *binding = make_binding(session, x, y);
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  expect_all(y, N, 6);
  for (int i = 1; i <= 5; i++) {
    fill(x, (float)i);
    (void)count_launched();
    expect_ok(iobind_binding_run(binding, NULL, &fault));
    launched since = count_launched();
    assert_true(since.graphs == -1 || (since.graphs == 1 && since.kernels == 0 && since.copies == 0));
    expect_output(binding, N, 2 * (float)i);
  }
  iobind_binding_destroy(binding);
  iobind_tensor_release(x);
  iobind_tensor_release(y);
  iobind_session_destroy(session);
}

/* Another tensor: a second graph, or an error if there may be none; the first graph is replayed when the first tensor is bound again. */
static void other_addresses(void **state) {
  (void)state;
  for (size_t limit = 1; limit <= 2; limit++) {
    for (int is_output = 0; is_output <= 1; is_output++) {
      iobind_session *session = make_session("scale", limit);
      iobind_tensor *xs[2] = {make_filled(N, 1), make_filled(N, 2)};
      iobind_tensor *ys[2] = {make_filled(N, -1), make_filled(N, -1)};
      iobind_binding *binding = make_binding(session, xs[0], ys[0]);
      expect_ok(iobind_binding_run(binding, NULL, &fault));
      for (int turn = 1; turn < 7; turn++) {
        int other = turn % 2;
        iobind_tensor *x = xs[is_output ? 0 : other];
        iobind_tensor *y = ys[is_output ? other : 0];
        bind_x(binding, x);
        bind_y(binding, y);
        fill(x, (float)turn);
        fill(y, -1);
        if (other == 1 && limit == 1) {
          expect(IOBIND_ERROR_INVALID_STATE, iobind_binding_run(binding, NULL, &fault));
          expect_words("graph_limit is 1");
          expect_all(y, N, -1);
        } else {
          expect_ok(iobind_binding_run(binding, NULL, &fault));
          expect_all(y, N, 2 * (float)turn);
        }
      }
      iobind_binding_destroy(binding);
      for (int i = 0; i < 2; i++) {
        iobind_tensor_release(xs[i]);
        iobind_tensor_release(ys[i]);
      }
      iobind_session_destroy(session);
    }
  }
}

/* Shapes grow, shrink and come back; a third one is too many until the graphs are given up. */
static void change_shapes(const char *model) {
  iobind_session *session = make_session(model, 2);
  iobind_tensor *xs[3] = {make_filled(N, 1), make_filled(TWICE, 2), make_filled(N / 2, 3)};
  iobind_binding *binding = make_binding(session, xs[0], NULL);
  for (int turn = 0; turn < 6; turn++) {
    bind_x(binding, xs[turn % 2]);
    fill(xs[turn % 2], (float)turn);
    expect_ok(iobind_binding_run(binding, NULL, &fault));
    launched since = count_launched();
    assert_true(since.graphs == -1 || turn < 2 || (since.graphs == 1 && since.kernels == 0));
    expect_output(binding, turn % 2 == 0 ? N : TWICE, 2 * (float)turn);
  }
  bind_x(binding, xs[2]);
  expect(IOBIND_ERROR_INVALID_STATE, iobind_binding_run(binding, NULL, &fault));
  expect_words("iobind_binding_reset_graphs");
  expect_ok(iobind_binding_reset_graphs(binding, &fault));
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  expect_output(binding, N / 2, 6);
  iobind_binding_destroy(binding);
  for (int i = 0; i < 3; i++) {
    iobind_tensor_release(xs[i]);
  }
  iobind_session_destroy(session);
}

/* Also where the model does not name its open dims: then nothing but a run tells those of the output. */
static void other_shapes(void **state) {
  (void)state;
  change_shapes("scale");
  change_shapes("scale dims=?");
}

/* The same memory with other dims: another graph, and the first one is replayed when the first dims come back. */
static void other_dims_of_same_memory(void **state) {
  (void)state;
  const int64_t dims[2] = {N, TWICE};
  for (int is_fixed = 0; is_fixed <= 1; is_fixed++) {
    iobind_session *session = make_session("scale", 2);
    iobind_tensor *whole = make_filled(TWICE, 0);
    iobind_tensor *target = make_filled(TWICE, -1);
    iobind_tensor *xs[2] = {NULL};
    iobind_tensor *ys[2] = {NULL};
    iobind_binding *binding = NULL;
    expect_ok(iobind_binding_create(session, &binding, &fault));
    for (size_t i = 0; i < 2; i++) {
      expect_ok(iobind_tensor_view(whole, 0, IOBIND_DTYPE_FLOAT32, &dims[i], 1, &xs[i], &fault));
      expect_ok(iobind_tensor_view(target, 0, IOBIND_DTYPE_FLOAT32, &dims[i], 1, &ys[i], &fault));
    }
    for (int turn = 0; turn < 6; turn++) {
      fill(whole, (float)turn);
      bind_x(binding, xs[turn % 2]);
      if (is_fixed) {
        fill(target, -1);
        bind_y(binding, ys[turn % 2]);
      }
      expect_ok(iobind_binding_run(binding, NULL, &fault));
      expect_output(binding, (size_t)dims[turn % 2], 2 * (float)turn);
    }
    iobind_binding_destroy(binding);
    for (size_t i = 0; i < 2; i++) {
      iobind_tensor_release(xs[i]);
      iobind_tensor_release(ys[i]);
    }
    iobind_tensor_release(whole);
    iobind_tensor_release(target);
    iobind_session_destroy(session);
  }
}

/* Tensors that were bound are freed and others allocated where they lay, plain runs and other sessions take scratch memory. */
static void freed_memory(void **state) {
  (void)state;
  iobind_session *session = make_session("scale", 3);
  iobind_session *other = make_session("multi", 0);
  iobind_binding *binding = NULL;
  expect_ok(iobind_binding_create(session, &binding, &fault));
  iobind_tensor *kept = NULL;
  iobind_tensor *other_x = make_filled(N, 5);
  iobind_binding *other_binding = make_binding(other, other_x, NULL);
  for (int turn = 1; turn <= 12; turn++) {
    iobind_tensor *x = make_filled(N, (float)turn);
    bind_x(binding, x);
    iobind_tensor_release(x); /* the binding keeps it */
    iobind_status status = iobind_binding_run(binding, NULL, &fault);
    if (status != IOBIND_OK) {
      assert_int_equal(status, IOBIND_ERROR_INVALID_STATE);
      expect_ok(iobind_binding_reset_graphs(binding, &fault));
      expect_ok(iobind_binding_run(binding, NULL, &fault));
    }
    expect_output(binding, N, 2 * (float)turn);
    expect_ok(iobind_binding_run(other_binding, NULL, &fault));
    iobind_tensor_release(kept);
    expect_ok(iobind_binding_take_output(other_binding, 0, &kept, &fault));
    expect_ok(iobind_binding_run(binding, NULL, &fault));
    expect_output(binding, N, 2 * (float)turn);
    expect_all(kept, N, 10);
  }
  iobind_tensor_release(kept);
  iobind_tensor_release(other_x);
  iobind_binding_destroy(other_binding);
  iobind_binding_destroy(binding);
  iobind_session_destroy(other);
  iobind_session_destroy(session);
}

/* An output that was taken is overwritten by no replay; what is cleared and bound again is right. */
static void taken_and_cleared(void **state) {
  (void)state;
  iobind_session *session = make_session("scale", 2);
  iobind_tensor *x = make_filled(N, 1);
  iobind_binding *binding = make_binding(session, x, NULL);
  iobind_tensor *taken[4];
  for (int turn = 0; turn < 4; turn++) {
    fill(x, (float)turn);
    expect_ok(iobind_binding_run(binding, NULL, &fault));
    expect_ok(iobind_binding_take_output(binding, 0, &taken[turn], &fault));
  }
  for (int turn = 0; turn < 4; turn++) {
    expect_all(taken[turn], N, 2 * (float)turn);
    iobind_tensor_release(taken[turn]);
  }
  for (int turn = 4; turn < 7; turn++) {
    expect_ok(iobind_binding_clear(binding, &fault));
    bind_x(binding, x);
    fill(x, (float)turn);
    expect_ok(iobind_binding_run(binding, NULL, &fault));
    expect_output(binding, N, 2 * (float)turn);
  }
  iobind_binding_destroy(binding);
  iobind_tensor_release(x);
  iobind_session_destroy(session);
}

/* What would have another address in each run, or would be copied by ORT outside the graph. */
static void refused_when_bound(void **state) {
  (void)state;
  iobind_session *session = make_session("scale", 1);
  iobind_tensor *x = make_filled(N, 1);
  iobind_tensor *host = make_on_host(N, 4);
  iobind_binding *binding = make_binding(session, x, NULL);
  expect(IOBIND_ERROR_NOT_SUPPORTED,
         iobind_binding_place_output(binding, 0, IOBIND_OUTPUT_FRESH, NULL, IOBIND_MEMORY_DEFAULT, &fault));
  expect_words("got FRESH");
  expect(IOBIND_ERROR_NOT_SUPPORTED,
         iobind_binding_place_output(binding, 0, IOBIND_OUTPUT_REUSE, cpu, IOBIND_MEMORY_DEFAULT, &fault));
  expect(IOBIND_ERROR_NOT_SUPPORTED, iobind_binding_set_output(binding, 0, host, 0, &fault));
  expect(IOBIND_ERROR_NOT_SUPPORTED, iobind_binding_carry(binding, 0, 0, IOBIND_CARRY_MOVE, &fault));
  expect(IOBIND_ERROR_NOT_SUPPORTED, iobind_binding_carry(binding, 0, 0, IOBIND_CARRY_SWAP, &fault));
  expect_words("SWAP needs two graphs");
  expect(IOBIND_ERROR_WRONG_DEVICE, iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, host, NULL, &fault));
  expect(IOBIND_ERROR_NOT_SUPPORTED, iobind_binding_set_input(binding, 0, IOBIND_INPUT_LIVE, host, NULL, &fault));
  expect_words("LIVE from another location");
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_SNAPSHOT, host, NULL, &fault));
  for (int turn = 0; turn < 3; turn++) {
    float values[N];
    for (int i = 0; i < N; i++) {
      values[i] = (float)turn;
    }
    expect_ok(iobind_binding_write_input(binding, 0, values, sizeof values, NULL, &fault));
    expect_ok(iobind_binding_run(binding, NULL, &fault));
    expect_output(binding, N, 2 * (float)turn);
  }
  iobind_binding_destroy(binding);
  iobind_tensor_release(x);
  iobind_tensor_release(host);
  iobind_session_destroy(session);
}

/* ONNX Runtime's own plain run says OK from the second time on, and gives no tensor. */
static void plain_runs(void **state) {
  (void)state;
  iobind_session *session = make_session("scale", 1);
  iobind_tensor *x = make_on_host(N, 0);
  iobind_tensor *on_device = make_filled(N, 10);
  iobind_binding *binding = make_binding(session, on_device, NULL);
  for (int turn = 0; turn < 4; turn++) {
    iobind_tensor *y = NULL;
    fill(x, (float)turn);
    expect_ok(call_session_run(session, &x, &y, &fault));
    expect_all(y, N, 2 * (float)turn);
    iobind_tensor_release(y);
    expect_ok(iobind_binding_run(binding, NULL, &fault));
    expect_output(binding, N, 20);
  }
  iobind_binding_destroy(binding);
  iobind_tensor_release(on_device);
  iobind_tensor_release(x);
  iobind_session_destroy(session);
}

/* A session that other code has made so that it captures: no run of iobind's captures or replays there. */
static void wrapped_session(void **state) {
  (void)state;
  static const char *const one = "1";
  const OrtApi *api = runtime->ort.api;
  OrtSessionOptions *options = NULL;
  OrtSession *raw = NULL;
  iobind_session *session = NULL;
  iobind_tensor *host = make_on_host(N, 5);
  iobind_tensor *y = NULL;
  void *bytes = NULL;
  size_t size = 0;
  assert_true(test_model_create("scale", &bytes, &size, NULL));
  assert_null(api->CreateSessionOptions(&options));
  assert_null(api->SessionOptionsAppendExecutionProvider_V2(options, runtime->env, &device->ep_device, 1,
                                                            &device->ep->graph_option, &one, 1));
  assert_null(api->CreateSessionFromArray(runtime->env, bytes, size, options, &raw));
  expect_ok(iobind_session_wrap(runtime, raw, NULL, NULL, &session, &fault));
  iobind_tensor *xs[2] = {make_filled(N, 1), make_filled(TWICE, 2)};
  iobind_binding *bindings[2] = {make_binding(session, xs[0], NULL), make_binding(session, xs[1], NULL)};
  (void)count_launched();
  for (int turn = 0; turn < 4; turn++) {
    for (int i = 0; i < 2; i++) {
      fill(xs[i], (float)(10 * turn + i));
      expect_ok(iobind_binding_run(bindings[i], NULL, &fault));
      expect_output(bindings[i], i == 0 ? N : TWICE, (float)(2 * (10 * turn + i)));
    }
    expect_ok(call_session_run(session, &host, &y, &fault));
    expect_all(y, N, 10);
    iobind_tensor_release(y);
  }
  assert_true(count_launched().graphs <= 0);
  for (int i = 0; i < 2; i++) {
    iobind_binding_destroy(bindings[i]);
    iobind_tensor_release(xs[i]);
  }
  iobind_tensor_release(host);
  iobind_session_destroy(session);
  api->ReleaseSession(raw);
  api->ReleaseSessionOptions(options);
  free(bytes);
}

/* The virtual accelerator can be told to capture in all sessions: those of iobind's that did not ask for it do not. */
static void setting_of_the_device(void **state) {
  (void)state;
  if (!is_device("vdev")) {
    skip(); /* others capture only in a session that asks for it */
  }
  assert_true(set_device("enable_graph_capture", "1"));
  iobind_session *session = make_session("scale", 0);
  assert_true(set_device("enable_graph_capture", "0"));
  iobind_tensor *xs[2] = {make_filled(N, 1), make_filled(N, 2)};
  iobind_binding *binding = make_binding(session, xs[0], NULL);
  for (int turn = 0; turn < 4; turn++) {
    bind_x(binding, xs[turn % 2]);
    expect_ok(iobind_binding_run(binding, NULL, &fault));
    expect_output(binding, N, turn % 2 == 0 ? 2 : 4);
  }
  iobind_binding_destroy(binding);
  iobind_tensor_release(xs[0]);
  iobind_tensor_release(xs[1]);
  iobind_session_destroy(session);
}

/* Numbers of graphs, also such as ORT does not take, and other keys of runs. */
static void refuse_run_keys(size_t limit) {
  static const char *const keys[] = {"gpu_graph_id", "disable_synchronize_execution_providers",
                                     "memory.enable_memory_arena_shrinkage"};
  static const char *const values[] = {"1", "0", "-1", "-2", "abc", "99999999999", ""};
  size_t count = limit > 0 ? 3 : 2; /* what captures nothing may give memory back */
  iobind_session *session = make_session("scale", limit);
  iobind_binding *binding = NULL;
  iobind_run_options run = IOBIND_RUN_OPTIONS_INIT;
  expect_ok(iobind_binding_create(session, &binding, &fault));
  run.config_count = 1;
  for (size_t k = 0; k < count; k++) {
    for (size_t v = 0; v < sizeof values / sizeof values[0]; v++) {
      run.config_keys = &keys[k];
      run.config_values = &values[v];
      if (k == 0 && strcmp(values[v], "-1") == 0) {
        continue; /* no graph */
      }
      expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_binding_set_run_options(binding, &run, &fault));
      expect_words(keys[k]);
    }
  }
  iobind_binding_destroy(binding);
  iobind_session_destroy(session);
}

static void raw_keys(void **state) {
  (void)state;
  static const char *const keys[] = {"cuda.enable_cuda_graph", "webgpu.enableGraphCapture", "vdev.enable_graph_capture"};
  static const char *const entries[] = {"ep.webgpuexecutionprovider.enableGraphCapture",
                                        "ep.virtualdeviceexecutionprovider.enable_graph_capture"};
  static const char *const one = "1";
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  iobind_session *session = NULL;
  options.devices = &device;
  options.device_count = 1;
  for (size_t i = 0; i < 3; i++) {
    options.ep_keys = &keys[i];
    options.ep_values = &one;
    options.ep_option_count = 1;
    expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_session_create_from_memory(runtime, "", 1, &options, &session, &fault));
  }
  options.ep_option_count = 0;
  for (size_t i = 0; i < 2; i++) {
    options.config_keys = &entries[i];
    options.config_values = &one;
    options.config_count = 1;
    expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_session_create_from_memory(runtime, "", 1, &options, &session, &fault));
    expect_words("set graph_limit");
  }
  for (size_t limit = 0; limit <= 1; limit++) {
    refuse_run_keys(limit);
  }
}

/* The caller's run options apply to existing graphs and to later ones. */
static void run_options(void **state) {
  (void)state;
  static const char *const key = "some.key";
  static const char *const value = "some value";
  iobind_session *session = make_session("scale", 2);
  iobind_tensor *x = make_filled(N, 1);
  iobind_tensor *longer = make_filled(TWICE, 2);
  iobind_binding *binding = make_binding(session, x, NULL);
  iobind_run_options options = IOBIND_RUN_OPTIONS_INIT;
  options.tag = "tag";
  options.config_keys = &key;
  options.config_values = &value;
  options.config_count = 1;
  for (int turn = 0; turn < 3; turn++) {
    bind_x(binding, x);
    expect_ok(iobind_binding_run(binding, NULL, &fault));
    expect_output(binding, N, 2);
    expect_ok(iobind_binding_set_run_options(binding, turn == 1 ? NULL : &options, &fault));
    bind_x(binding, longer);
    expect_ok(iobind_binding_run(binding, NULL, &fault));
    expect_output(binding, TWICE, 4);
  }
  iobind_binding_destroy(binding);
  iobind_tensor_release(x);
  iobind_tensor_release(longer);
  iobind_session_destroy(session);
}

/* ---- models that cannot be captured ---- */

/* The audit says what is part of a graph, from the first run on. */
static void audited(void **state) {
  (void)state;
  iobind_session *session = make_session("scale", 1);
  iobind_tensor *x = make_filled(N, 1);
  iobind_binding *binding = make_binding(session, x, NULL);
  for (int run = 0; run < 2; run++) {
    iobind_audit *audit = NULL;
    expect_ok(iobind_audit_create(binding, &audit, &fault));
    for (size_t i = 0; i < 2; i++) {
      iobind_audit_entry entry = IOBIND_AUDIT_ENTRY_INIT;
      expect_ok(iobind_audit_get_entry(audit, i, &entry, &fault));
      assert_int_equal(strstr(entry.reason, "frozen") != NULL, run == 1);
    }
    iobind_audit_destroy(audit);
    expect_ok(iobind_binding_run(binding, NULL, &fault));
  }
  iobind_binding_destroy(binding);
  iobind_tensor_release(x);
  iobind_session_destroy(session);
}

/* vdev captures by an interface of ONNX Runtime 1.26: with an older one this is all that is to be tested. */
static void old_runtime(void **state) {
  (void)state;
  iobind_session *session = NULL;
  assert_int_equal(try_session("scale", 1, &session), IOBIND_ERROR_VERSION);
  expect_words("1.26 or newer");
  session = make_session("scale", 0);
  iobind_tensor *x = make_filled(N, 3);
  iobind_binding *binding = make_binding(session, x, NULL);
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  expect_output(binding, N, 6);
  expect_ok(iobind_binding_reset_graphs(binding, &fault));
  iobind_binding_destroy(binding);
  iobind_tensor_release(x);
  iobind_session_destroy(session);
}

/* ---- states ---- */

/* ONNX Runtime executes the first run three times; the state shows it. */
static void states(void **state) {
  (void)state;
  for (int mode = IOBIND_CARRY_SWAP; mode <= IOBIND_CARRY_IN_PLACE; mode++) {
    iobind_session *session = make_session("scale", 2);
    iobind_tensor *first = make_filled(N, 1);
    iobind_binding *binding = make_binding(session, first, NULL);
    expect_ok(iobind_binding_carry(binding, 0, 0, (iobind_carry_mode)mode, &fault));
    for (int round = 0; round < 2; round++) {
      float expected = round == 0 ? 1 : 10;
      for (int turn = 0; turn < 6; turn++) {
        expect_ok(iobind_binding_run(binding, NULL, &fault));
        expected *= 2;
        expect_output(binding, N, expected);
        launched since = count_launched();
        assert_true(since.graphs == -1 || round + turn < 2 || (since.graphs == 1 && since.kernels == 0));
      }
      float again[N];
      for (int i = 0; i < N; i++) {
        again[i] = 10;
      }
      expect_ok(iobind_binding_write_input(binding, 0, again, sizeof again, NULL, &fault));
    }
    if (mode == IOBIND_CARRY_SWAP) {
      expect_all(first, N, 1);
      iobind_tensor *second = make_filled(N, 5); /* rebound, it takes the place of the state: no third graph */
      bind_x(binding, second);
      for (int turn = 0; turn < 3; turn++) {
        expect_ok(iobind_binding_run(binding, NULL, &fault));
        expect_output(binding, N, turn == 0 ? 10 : turn == 1 ? 20 : 40);
      }
      expect_all(second, N, 5);
      iobind_tensor_release(second);
    }
    iobind_binding_destroy(binding);
    iobind_tensor_release(first);
    iobind_session_destroy(session);
  }
}

static void output_in_place(void **state) {
  (void)state;
  iobind_session *session = make_session("scale", 1);
  iobind_tensor *x = make_filled(N, 1);
  iobind_binding *binding = make_binding(session, x, NULL);
  expect_ok(iobind_binding_set_output(binding, 0, x, IOBIND_OUTPUT_IN_PLACE, &fault));
  for (int turn = 1; turn <= 5; turn++) {
    expect_ok(iobind_binding_run(binding, NULL, &fault));
    expect_all(x, N, (float)(1 << turn));
  }
  iobind_binding_destroy(binding);
  iobind_tensor_release(x);
  iobind_session_destroy(session);
}

/* A decoder with a cache of fixed size: each step's row depends on all results before, and the first step is one step. */
enum { STEPS = 12, ROWS = 16, WIDTH = 8 };

static bool decode(size_t limit, iobind_carry_mode mode, float out[STEPS][WIDTH]) {
  static const int64_t cache_dims[2] = {ROWS, WIDTH};
  static const int64_t row_dims[2] = {1, WIDTH};
  static const int64_t at_dims[2] = {1, 1};
  static const float nothing[ROWS * WIDTH];
  iobind_session *session = NULL;
  iobind_binding *binding = NULL;
  iobind_tensor *at = NULL;
  iobind_value_info info = IOBIND_VALUE_INFO_INIT;
  if (try_session("cache", limit, &session) != IOBIND_OK) {
    return false;
  }
  iobind_tensor *cache = make_tensor(cache_dims, 2, nothing);
  iobind_tensor *row = make_tensor(row_dims, 2, NULL);
  expect_ok(iobind_session_get_input(session, 2, &info, &fault));
  expect_ok(iobind_tensor_create(info.device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_INT64, at_dims, 2, &at, &fault));
  expect_ok(iobind_binding_create(session, &binding, &fault));
  iobind_tensor *inputs[3] = {cache, row, at};
  for (size_t i = 0; i < 3; i++) {
    expect_ok(iobind_binding_set_input(binding, i, IOBIND_INPUT_RESIDENT, inputs[i], NULL, &fault));
  }
  expect_ok(iobind_binding_carry(binding, 0, 0, mode, &fault));
  float token[WIDTH] = {1, 2, 3, 4, 5, 6, 7, 8};
  bool good = true;
  for (int64_t step = 0; step < STEPS; step++) {
    iobind_tensor *sum = NULL;
    expect_ok(iobind_binding_write_input(binding, 1, token, sizeof token, NULL, &fault));
    expect_ok(iobind_binding_write_input(binding, 2, &step, sizeof step, NULL, &fault));
    fixture_arm();
    if (limit > 0 && is_device("webgpu") && iobind_binding_run(binding, NULL, &fault) != IOBIND_OK) {
      good = false;
      break;
    }
    expect_ok(limit > 0 && is_device("webgpu") ? IOBIND_OK : iobind_binding_run(binding, NULL, &fault));
    expect_ok(iobind_binding_get_output(binding, 1, NULL, &sum, &fault));
    expect_ok(iobind_tensor_read(sum, 0, out[step], sizeof out[step], NULL, &fault));
    for (int i = 0; i < WIDTH; i++) {
      token[i] = (float)((int)(out[step][i] * 3 + (float)i) % 17);
    }
  }
  iobind_binding_destroy(binding);
  for (size_t i = 0; i < 3; i++) {
    iobind_tensor_release(inputs[i]);
  }
  iobind_session_destroy(session);
  return good;
}

static void decoder(void **state) {
  (void)state;
  for (int mode = IOBIND_CARRY_SWAP; mode <= IOBIND_CARRY_IN_PLACE; mode++) {
    float expected[STEPS][WIDTH];
    float captured[STEPS][WIDTH];
    assert_true(decode(0, (iobind_carry_mode)mode, expected));
    if (!decode(2, (iobind_carry_mode)mode, captured)) {
      assert_true(is_device("webgpu"));
      assert_int_equal(mode, IOBIND_CARRY_SWAP);
      expect_words("does not capture the copies");
      continue;
    }
    assert_memory_equal(captured, expected, sizeof expected);
  }
}

/* ONNX Runtime's CUDA provider before 1.31. With another one, or a newer one, a session is treated as one of that kind. */
static void recycled_memory(void **state) {
  (void)state;
  if (is_device("webgpu")) {
    skip(); /* a graph is tried there, which takes a run of this session */
  }
  enum { MENDED = 31 };
  iobind_session *session = make_session("scale", 3);
  const uint32_t quirks = device->quirks;
  assert_int_equal(iobind__session_graphs_have(session, IOBIND__QUIRK_GRAPH_RECYCLES),
                   is_device("cuda") && runtime->ort.minor < MENDED);
  device->quirks |= IOBIND__QUIRK_GRAPH_RECYCLES;
  iobind_tensor *xs[2] = {make_filled(N, 1), make_filled(N, 2)};
  iobind_binding *bindings[2] = {make_binding(session, xs[0], NULL), make_binding(session, xs[1], NULL)};
  iobind_tensor *host = make_on_host(N, 1);
  iobind_tensor *y = NULL;
  expect(IOBIND_ERROR_NOT_SUPPORTED, iobind_binding_carry(bindings[1], 0, 0, IOBIND_CARRY_SWAP, &fault));
  expect_ok(iobind_binding_run(bindings[0], NULL, &fault));
  for (int turn = 0; turn < 2; turn++) {
    expect(IOBIND_ERROR_INVALID_STATE, iobind_binding_run(bindings[1], NULL, &fault));
    expect_words("would change memory that it reads");
    expect(IOBIND_ERROR_INVALID_STATE, call_session_run(session, &host, &y, &fault));
    expect_ok(iobind_binding_run(bindings[0], NULL, &fault));
    expect_output(bindings[0], N, 2);
  }
  expect_ok(iobind_binding_reset_graphs(bindings[0], &fault));
  expect_ok(call_session_run(session, &host, &y, &fault));
  iobind_tensor_release(y);
  expect_ok(iobind_binding_run(bindings[1], NULL, &fault));
  expect_output(bindings[1], N, 4);
  device->quirks = quirks;
  iobind_binding_destroy(bindings[0]);
  iobind_binding_destroy(bindings[1]);
  iobind_tensor_release(host);
  iobind_tensor_release(xs[0]);
  iobind_tensor_release(xs[1]);
  iobind_session_destroy(session);
}

/* WebGPU does not capture the copies that some nodes make: the second run would give the first one's result. */
static void lost_copies(void **state) {
  (void)state;
  static const char *const models[] = {"identity", "multi", "transpose dims=n order=0"};
  for (size_t m = 0; m < 3; m++) {
    iobind_session *session = make_session(models[m], 1);
    iobind_tensor *x = make_filled(N, 1);
    iobind_binding *binding = make_binding(session, x, NULL);
    for (int turn = 1; turn <= 3; turn++) {
      fill(x, (float)turn);
      fixture_arm();
      iobind_status status = iobind_binding_run(binding, NULL, &fault);
      if (is_device("webgpu")) {
        assert_int_equal(status, IOBIND_ERROR_NOT_SUPPORTED);
        expect_words("does not capture the copies");
        continue;
      }
      fixture_expect(IOBIND_OK, status, models[m], __FILE__, __LINE__);
      iobind_tensor *last = NULL;
      expect_ok(iobind_binding_get_output(binding, m == 1 ? 2 : 0, NULL, &last, &fault));
      expect_all(last, N, (float)turn);
    }
    iobind_binding_destroy(binding);
    iobind_tensor_release(x);
    iobind_session_destroy(session);
  }
}

/* Kernels that are given addresses through pinned memory: what other runs put there must not be what a replay reads. */
static void addresses_in_pinned_memory(void **state) {
  (void)state;
  if (is_device("vdev")) {
    skip(); /* the dims of a sum are those of no input: its kernel cannot be captured */
  }
  static const char *const models[] = {"concat dims=past,3 dims2=new,3", "concat dims=3,past dims2=3,new axis=1"};
  for (size_t m = 0; m < 2; m++) {
    iobind_session *session = make_session(models[m], 2);
    iobind_binding *bindings[2];
    iobind_tensor *parts[2][2];
    for (int64_t b = 0; b < 2; b++) {
      expect_ok(iobind_binding_create(session, &bindings[b], &fault));
      for (int64_t i = 0; i < 2; i++) {
        int64_t dims[2] = {m == 0 ? 1 + b + i : 3, m == 0 ? 3 : 1 + b + i};
        parts[b][i] = make_tensor(dims, 2, NULL);
        expect_ok(iobind_binding_set_input(bindings[b], (size_t)i, IOBIND_INPUT_RESIDENT, parts[b][i], NULL, &fault));
      }
    }
    for (int turn = 0; turn < 6; turn++) {
      iobind_tensor *host[2];
      iobind_tensor *plain = NULL;
      for (int64_t i = 0; i < 2; i++) {
        int64_t dims[2] = {m == 0 ? 5 + turn : 3, m == 0 ? 3 : 5 + turn};
        expect_ok(iobind_tensor_create(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 2, &host[i], &fault));
        fill(host[i], 7);
      }
      for (int b = 0; b < 2; b++) {
        iobind_tensor *joined = NULL;
        fill(parts[b][0], (float)(10 * turn + b));
        fill(parts[b][1], (float)(10 * turn + b));
        expect_ok(iobind_binding_run(bindings[b], NULL, &fault));
        expect_ok(call_session_run(session, host, &plain, &fault));
        iobind_tensor_release(plain);
        expect_ok(iobind_binding_get_output(bindings[b], 0, NULL, &joined, &fault));
        size_t count = (size_t)(3 + 2 * b) * 3;
        expect_all(joined, count, (float)(10 * turn + b));
      }
      iobind_tensor_release(host[0]);
      iobind_tensor_release(host[1]);
    }
    for (int b = 0; b < 2; b++) {
      iobind_binding_destroy(bindings[b]);
      iobind_tensor_release(parts[b][0]);
      iobind_tensor_release(parts[b][1]);
    }
    iobind_session_destroy(session);
  }
}

/* ---- inputs that the session reads on the host ---- */

/* Other bytes of `shape` are another graph; where the device reads it, a replay that would give another size fails. */
static void host_inputs(void **state) {
  (void)state;
  static const int64_t one = 1;
  static const int64_t two = 2;
  iobind_session *session = make_session("expand dims=1 rank=2", 2);
  iobind_value_info info = IOBIND_VALUE_INFO_INIT;
  expect_ok(iobind_session_get_input(session, 1, &info, &fault));
  iobind_tensor *x = make_tensor(&one, 1, NULL);
  iobind_tensor *shape = NULL;
  int64_t wanted[2] = {2, 3};
  expect_ok(iobind_tensor_create(info.device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_INT64, &two, 1, &shape, &fault));
  iobind_binding *binding = make_binding(session, x, NULL);
  expect_ok(iobind_binding_set_input(binding, 1, IOBIND_INPUT_RESIDENT, shape, NULL, &fault));
  for (int turn = 0; turn < 6; turn++) {
    wanted[1] = 3 + turn % 2;
    fill(x, (float)turn);
    expect_ok(iobind_tensor_write(shape, 0, wanted, sizeof wanted, NULL, &fault));
    iobind_status status = iobind_binding_run(binding, NULL, &fault);
    if (info.device == device && turn % 2 == 1) {
      assert_int_not_equal(status, IOBIND_OK);
    } else {
      fixture_expect(IOBIND_OK, status, "run", __FILE__, __LINE__);
      expect_output(binding, (size_t)(2 * wanted[1]), (float)turn);
    }
  }
  if (info.device != device) {
    wanted[1] = 7;
    expect_ok(iobind_tensor_write(shape, 0, wanted, sizeof wanted, NULL, &fault));
    expect(IOBIND_ERROR_INVALID_STATE, iobind_binding_run(binding, NULL, &fault));
    expect_words("host bytes");
  }
  iobind_binding_destroy(binding);
  iobind_tensor_release(x);
  iobind_tensor_release(shape);
  iobind_session_destroy(session);
}

/* Nodes that compute dims may be on the CPU: a replay does not run them, and each shape has a graph of its own. */
static void shape_nodes(void **state) {
  (void)state;
  iobind_session *session = NULL;
  iobind_tensor *xs[2] = {make_filled(N, 1), make_filled(TWICE, 1)};
  expect_ok(try_shape_nodes(2, &session));
  iobind_binding *binding = make_binding(session, xs[0], NULL);
  for (int turn = 0; turn < 6; turn++) {
    bind_x(binding, xs[turn % 2]);
    fill(xs[turn % 2], (float)turn);
    expect_ok(iobind_binding_run(binding, NULL, &fault));
    expect_output(binding, turn % 2 == 0 ? N : TWICE, 2 * (float)turn);
  }
  iobind_binding_destroy(binding);
  iobind_tensor_release(xs[0]);
  iobind_tensor_release(xs[1]);
  iobind_session_destroy(session);
}

/* ---- bindings, streams, pipelines ---- */

static void two_bindings(void **state) {
  (void)state;
  iobind_session *session = make_session("scale", 1);
  iobind_tensor *xs[2] = {make_filled(N, 1), make_filled(N, 2)};
  iobind_binding *bindings[2] = {make_binding(session, xs[0], NULL), make_binding(session, xs[1], NULL)};
  for (int turn = 0; turn < 6; turn++) {
    for (int i = 0; i < 2; i++) {
      fill(xs[i], (float)(10 * turn + i));
      expect_ok(iobind_binding_run(bindings[i], NULL, &fault));
    }
    for (int i = 0; i < 2; i++) {
      expect_output(bindings[i], N, (float)(2 * (10 * turn + i)));
    }
  }
  iobind_binding_destroy(bindings[0]);
  fill(xs[1], 9);
  expect_ok(iobind_binding_run(bindings[1], NULL, &fault));
  expect_output(bindings[1], N, 18);
  iobind_binding_destroy(bindings[1]);
  iobind_tensor_release(xs[0]);
  iobind_tensor_release(xs[1]);
  iobind_session_destroy(session);
}

static void on_a_stream(void **state) {
  (void)state;
  iobind_session *session = make_session("scale", 1);
  iobind_stream *stream = NULL;
  iobind_event *event = NULL;
  iobind_tensor *x = make_filled(N, 1);
  iobind_binding *binding = make_binding(session, x, NULL);
  float values[N];
  float out[N];
  expect_ok(iobind_stream_create(device, NULL, &stream, &fault));
  expect_ok(iobind_event_create(device, &event, &fault));
  for (int turn = 0; turn < 6; turn++) {
    for (int i = 0; i < N; i++) {
      values[i] = (float)turn;
    }
    iobind_tensor *y = NULL;
    expect_ok(iobind_tensor_write(x, 0, values, sizeof values, stream, &fault));
    expect_ok(call_binding_run(binding, stream, event, &fault));
    expect_ok(iobind_event_wait(event, IOBIND_NO_TIMEOUT, &fault));
    expect_ok(iobind_binding_get_output(binding, 0, NULL, &y, &fault));
    expect_ok(iobind_tensor_read(y, 0, out, sizeof out, stream, &fault));
    expect_ok(iobind_stream_synchronize(stream, &fault));
    assert_true(out[N - 1] == 2 * (float)turn);
  }
  iobind_binding_destroy(binding);
  iobind_event_destroy(event);
  iobind_stream_destroy(stream);
  iobind_tensor_release(x);
  iobind_session_destroy(session);
}

static void in_a_pipeline(void **state) {
  (void)state;
  iobind_session *session = make_session("scale", 1);
  iobind_pipeline *pipeline = NULL;
  iobind_tensor *x = make_on_host(N, 0);
  expect_ok(call_pipeline_create(session, NULL, &pipeline, &fault));
  int pulled = 0;
  for (int item = 0; item < 10; item++) {
    fill(x, (float)item);
    expect_ok(call_pipeline_submit(pipeline, &x, 1, &fault));
    while (pulled <= item - 2 || (item == 9 && pulled < 10)) {
      iobind_tensor *y = NULL;
      expect_ok(iobind_pipeline_next(pipeline, IOBIND_NO_TIMEOUT, &y, 1, NULL, &fault));
      expect_all(y, N, 2 * (float)pulled++);
    }
  }
  iobind_pipeline_destroy(pipeline);
  iobind_tensor_release(x);
  iobind_session_destroy(session);
}

/* What a replay writes besides the outputs that are bound, here an output that is not asked for, must not be anyone else's memory by then. */
static void scratch_memory(void **state) {
  (void)state;
  enum { OTHERS = 16 };
  iobind_session *session = make_session("pair", 1);
  iobind_tensor *x = make_filled(N, 2);
  iobind_tensor *y = make_filled(N, 5);
  iobind_tensor *others[OTHERS];
  iobind_binding *binding = make_binding(session, x, NULL);
  expect_ok(iobind_binding_set_input(binding, 1, IOBIND_INPUT_RESIDENT, y, NULL, &fault));
  expect_ok(iobind_binding_place_output(binding, 1, IOBIND_OUTPUT_NONE, NULL, IOBIND_MEMORY_DEFAULT, &fault));
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  for (size_t i = 0; i < OTHERS; i++) {
    others[i] = make_filled(N, -9);
  }
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  expect_output(binding, N, 7);
  for (size_t i = 0; i < OTHERS; i++) {
    expect_all(others[i], N, -9);
    iobind_tensor_release(others[i]);
  }
  iobind_binding_destroy(binding);
  iobind_tensor_release(x);
  iobind_tensor_release(y);
  iobind_session_destroy(session);
}

int main(int argc, char **argv) {
  static const struct CMUnitTest tests[] = {
      cmocka_unit_test(steady),
      cmocka_unit_test(other_addresses),
      cmocka_unit_test(other_shapes),
      cmocka_unit_test(other_dims_of_same_memory),
      cmocka_unit_test(freed_memory),
      cmocka_unit_test(scratch_memory),
      cmocka_unit_test(taken_and_cleared),
      cmocka_unit_test(refused_when_bound),
      cmocka_unit_test(plain_runs),
      cmocka_unit_test(raw_keys),
      cmocka_unit_test(wrapped_session),
      cmocka_unit_test(setting_of_the_device),
      cmocka_unit_test(run_options),
      cmocka_unit_test(states),
      cmocka_unit_test(output_in_place),
      cmocka_unit_test(decoder),
      cmocka_unit_test(lost_copies),
      cmocka_unit_test(audited),
      cmocka_unit_test(recycled_memory),
      cmocka_unit_test(addresses_in_pinned_memory),
      cmocka_unit_test(host_inputs),
      cmocka_unit_test(shape_nodes),
      cmocka_unit_test(two_bindings),
      cmocka_unit_test(on_a_stream),
      cmocka_unit_test(in_a_pipeline),
  };
  static const struct CMUnitTest old[] = {cmocka_unit_test(old_runtime)};
  bool is_old = argc > 2 && strcmp(argv[2], "old_runtime") == 0;
  return graph_main(argc, argv, is_old ? old : tests, is_old ? 1 : sizeof tests / sizeof tests[0]);
}
