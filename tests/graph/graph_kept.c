/* Memory that has another owner is written by no replay, however it is kept: retained, lent, viewed, exported, bound as an input or as another
 * output's target, or pulled from a pipeline. */
#include "graph_rig.h"

#include "iobind/interop.h"
#include "../rig/calls.h"

enum { N = 48, TWICE = 2 * N };

static iobind_tensor *get(iobind_binding *binding, size_t index) {
  iobind_tensor *y = NULL;
  expect_ok(iobind_binding_get_output(binding, index, NULL, &y, &fault));
  return y;
}

/* Another shape, and then the first one again: a binding without graphs would make new memory for it. */
static void run_between(iobind_binding *binding, iobind_tensor *x, iobind_tensor *longer) {
  bind_x(binding, longer);
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  expect_output(binding, TWICE, 14);
  fill(x, 250);
  bind_x(binding, x);
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  expect_output(binding, N, 500);
}

typedef struct keeper {
  iobind_tensor *tensor;
  void *managed; /* of DLPack */
} keeper;

static keeper keep_retained(iobind_binding *binding) {
  return (keeper){.tensor = iobind_tensor_retain(get(binding, 0))};
}

static keeper keep_lent(iobind_binding *binding) {
  iobind_stream *stream = NULL;
  iobind_tensor *lent = NULL;
  expect_ok(iobind_stream_create(device, NULL, &stream, &fault));
  expect_ok(iobind_binding_get_output(binding, 0, stream, &lent, &fault));
  iobind_tensor_retain(lent);
  expect_ok(iobind_stream_synchronize(stream, &fault));
  iobind_stream_destroy(stream);
  return (keeper){.tensor = lent};
}

static keeper keep_view(iobind_binding *binding) {
  static const int64_t dim = N;
  keeper self = {NULL, NULL};
  expect_ok(iobind_tensor_view(get(binding, 0), 0, IOBIND_DTYPE_FLOAT32, &dim, 1, &self.tensor, &fault));
  return self;
}

static keeper keep_exported(iobind_binding *binding) {
  keeper self = {NULL, NULL};
  expect_ok(iobind_tensor_to_dlpack(get(binding, 0), 0, &self.managed, &fault));
  return self;
}

/* Whichever way it is kept, before the other shape is bound or after. */
static void keep_across_shapes(keeper (*keep)(iobind_binding *binding)) {
  for (int is_late = 0; is_late <= 1; is_late++) {
    iobind_session *session = make_session("scale", 2);
    iobind_tensor *x = make_filled(N, 5);
    iobind_tensor *longer = make_filled(TWICE, 7);
    iobind_binding *binding = make_binding(session, x, NULL);
    expect_ok(iobind_binding_run(binding, NULL, &fault));
    if (is_late) {
      bind_x(binding, longer);
    }
    keeper kept = keep(binding);
    run_between(binding, x, longer);
    if (kept.managed != NULL) {
      expect_ok(iobind_tensor_from_dlpack(runtime, kept.managed, 0, &kept.tensor, &fault));
    }
    expect_all(kept.tensor, N, 10);
    iobind_tensor_release(kept.tensor);
    iobind_binding_destroy(binding);
    iobind_tensor_release(longer);
    iobind_tensor_release(x);
    iobind_session_destroy(session);
  }
}

static void retained_across_shapes(void **state) {
  (void)state;
  keep_across_shapes(keep_retained);
}

static void lent_across_shapes(void **state) {
  (void)state;
  keep_across_shapes(keep_lent);
}

static void viewed_across_shapes(void **state) {
  (void)state;
  keep_across_shapes(keep_view);
}

static void exported_across_shapes(void **state) {
  (void)state;
  keep_across_shapes(keep_exported);
}

/* Memory without another owner is replayed where it was: memory is made, and a graph is captured, only for what is kept. */
static void released_across_shapes(void **state) {
  (void)state;
  iobind_session *session = make_session("scale", 2);
  iobind_tensor *x = make_filled(N, 5);
  iobind_tensor *longer = make_filled(TWICE, 7);
  iobind_binding *binding = make_binding(session, x, NULL);
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  bind_x(binding, longer);
  iobind_tensor_release(keep_retained(binding).tensor);
  run_between(binding, x, longer);
  (void)count_launched();
  for (int turn = 0; turn < 4; turn++) {
    bind_x(binding, turn % 2 == 0 ? longer : x);
    expect_ok(iobind_binding_run(binding, NULL, &fault));
    launched since = count_launched();
    assert_true(since.graphs == -1 || (since.graphs == 1 && since.kernels == 0));
  }
  iobind_binding_destroy(binding);
  iobind_tensor_release(longer);
  iobind_tensor_release(x);
  iobind_session_destroy(session);
}

/* The output is bound again, or was not bound for a while: it gets memory of its own. */
static void retained_and_bound_again(void **state) {
  (void)state;
  for (int was_unbound = 0; was_unbound <= 1; was_unbound++) {
    iobind_session *session = make_session("pair", 2);
    iobind_tensor *x = make_filled(N, 2);
    iobind_tensor *y = make_filled(N, 5);
    iobind_binding *binding = make_binding(session, x, NULL);
    expect_ok(iobind_binding_set_input(binding, 1, IOBIND_INPUT_RESIDENT, y, NULL, &fault));
    expect_ok(iobind_binding_run(binding, NULL, &fault));
    iobind_tensor *kept = iobind_tensor_retain(get(binding, 0));
    fill(x, 10);
    if (was_unbound) {
      expect_ok(iobind_binding_place_output(binding, 0, IOBIND_OUTPUT_NONE, NULL, IOBIND_MEMORY_DEFAULT, &fault));
      expect_ok(iobind_binding_run(binding, NULL, &fault));
    }
    expect_ok(iobind_binding_place_output(binding, 0, IOBIND_OUTPUT_REUSE, NULL, IOBIND_MEMORY_DEFAULT, &fault));
    expect_ok(iobind_binding_run(binding, NULL, &fault));
    expect_output(binding, N, 15);
    expect_all(kept, N, 7);
    iobind_tensor_release(kept);
    iobind_binding_destroy(binding);
    iobind_tensor_release(x);
    iobind_tensor_release(y);
    iobind_session_destroy(session);
  }
}

/* A REUSE output becomes an input: the next run writes other memory, or the second output would be computed of the first one. */
static void bound_as_an_input(void **state) {
  (void)state;
  for (int is_view = 0; is_view <= 1; is_view++) {
    static const int64_t dim = N;
    iobind_session *session = make_session("pair", 2);
    iobind_tensor *x = make_filled(N, 2);
    iobind_tensor *y = make_filled(N, 5);
    iobind_tensor *view = NULL;
    iobind_binding *binding = make_binding(session, x, NULL);
    expect_ok(iobind_binding_set_input(binding, 1, IOBIND_INPUT_RESIDENT, y, NULL, &fault));
    expect_ok(iobind_binding_run(binding, NULL, &fault));
    iobind_tensor *sum = get(binding, 0);
    if (is_view) {
      expect_ok(iobind_tensor_view(sum, 0, IOBIND_DTYPE_FLOAT32, &dim, 1, &view, &fault));
    }
    bind_x(binding, is_view ? view : sum);
    expect_ok(iobind_binding_run(binding, NULL, &fault));
    expect_output(binding, N, 12);
    expect_all(get(binding, 1), N, 35);
    iobind_binding_destroy(binding);
    iobind_tensor_release(view);
    iobind_tensor_release(x);
    iobind_tensor_release(y);
    iobind_session_destroy(session);
  }
}

/* A REUSE output becomes the target of another output: the two have memory of their own. */
static void bound_as_another_output(void **state) {
  (void)state;
  iobind_session *session = make_session("pair", 3);
  iobind_tensor *x = make_filled(N, 2);
  iobind_tensor *y = make_filled(N, 5);
  iobind_binding *binding = make_binding(session, x, NULL);
  expect_ok(iobind_binding_set_input(binding, 1, IOBIND_INPUT_RESIDENT, y, NULL, &fault));
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  iobind_tensor *sum = iobind_tensor_retain(get(binding, 0));
  expect_ok(iobind_binding_set_output(binding, 1, sum, 0, &fault));
  for (int turn = 0; turn < 2; turn++) {
    expect_ok(iobind_binding_run(binding, NULL, &fault));
    expect_output(binding, N, 7);
    expect_all(sum, N, 10);
  }
  iobind_binding_destroy(binding);
  iobind_tensor_release(sum);
  iobind_tensor_release(x);
  iobind_tensor_release(y);
  iobind_session_destroy(session);
}

/* An output that is the input of another session's binding: a graph of the first one does not write it after another shape. */
static void read_by_another_session(void **state) {
  (void)state;
  iobind_session *session = make_session("scale", 2);
  iobind_session *reader = make_session("scale", 1);
  iobind_tensor *x = make_filled(N, 5);
  iobind_tensor *longer = make_filled(TWICE, 7);
  iobind_binding *binding = make_binding(session, x, NULL);
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  iobind_binding *reads = make_binding(reader, get(binding, 0), NULL);
  run_between(binding, x, longer);
  for (int turn = 0; turn < 2; turn++) {
    expect_ok(iobind_binding_run(reads, NULL, &fault));
    expect_output(reads, N, 20);
  }
  iobind_binding_destroy(reads);
  iobind_binding_destroy(binding);
  iobind_tensor_release(longer);
  iobind_tensor_release(x);
  iobind_session_destroy(reader);
  iobind_session_destroy(session);
}

/* Outputs of a request that are written into memory which a binding's graph has left. */
static void target_of_a_request(void **state) {
  (void)state;
  iobind_session *session = make_session("scale", 2);
  iobind_tensor *x = make_filled(N, 5);
  iobind_tensor *longer = make_filled(TWICE, 7);
  iobind_tensor *other = make_filled(N, 30);
  iobind_binding *binding = make_binding(session, x, NULL);
  iobind_tensor *given = NULL;
  iobind_run_request request = IOBIND_RUN_REQUEST_INIT;
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  iobind_tensor *target = iobind_tensor_retain(get(binding, 0));
  static const int32_t placement = IOBIND_PLACE_DEVICE;
  request.inputs = &other;
  request.placements = &placement;
  request.targets = &target;
  if (call_session_request(session, &request, &given, &fault) == IOBIND_OK) { /* not where no other run may follow a capture */
    iobind_tensor_release(given);
    run_between(binding, x, longer);
    expect_all(target, N, 60);
  }
  iobind_tensor_release(target);
  iobind_binding_destroy(binding);
  iobind_tensor_release(other);
  iobind_tensor_release(longer);
  iobind_tensor_release(x);
  iobind_session_destroy(session);
}

/* Outputs of a pipeline that stay on the device, of two shapes alternately. */
static void pulled_from_a_pipeline(void **state) {
  (void)state;
  enum { ITEMS = 8 };
  static const int32_t placements[] = {IOBIND_PLACE_DEVICE};
  iobind_session *session = make_session("scale", 2);
  iobind_pipeline_options options = IOBIND_PIPELINE_OPTIONS_INIT;
  iobind_pipeline *pipeline = NULL;
  iobind_tensor *items[2] = {make_on_host(N, 0), make_on_host(TWICE, 0)};
  iobind_tensor *kept[ITEMS];
  options.slots = 1;
  options.placements = placements;
  expect_ok(call_pipeline_create(session, &options, &pipeline, &fault));
  for (int item = 0; item < ITEMS; item++) {
    fill(items[item % 2], (float)item);
    expect_ok(call_pipeline_submit(pipeline, &items[item % 2], 1, &fault));
    expect_ok(iobind_pipeline_next(pipeline, IOBIND_NO_TIMEOUT, &kept[item], 1, NULL, &fault));
    iobind_tensor_retain(kept[item]);
  }
  for (int item = 0; item < ITEMS; item++) {
    expect_all(kept[item], item % 2 == 0 ? N : TWICE, 2 * (float)item);
    iobind_tensor_release(kept[item]);
  }
  iobind_pipeline_destroy(pipeline);
  iobind_tensor_release(items[0]);
  iobind_tensor_release(items[1]);
  iobind_session_destroy(session);
}

/* Results of runs that the caller wants without a graph: what a graph of another binding writes besides its outputs is free for ORT between replays. */
static void made_without_a_graph(void **state) {
  (void)state;
  static const char *const key = "gpu_graph_id";
  static const char *const none = "-1";
  iobind_session *session = make_session("pair", 1);
  iobind_tensor *x = make_filled(N, 2);
  iobind_tensor *y = make_filled(N, 5);
  iobind_tensor *other = make_filled(N, 30);
  iobind_run_options plain = IOBIND_RUN_OPTIONS_INIT;
  plain.config_keys = &key;
  plain.config_values = &none;
  plain.config_count = 1;
  iobind_binding *replays = make_binding(session, x, NULL);
  iobind_binding *plainly = make_binding(session, other, NULL);
  expect_ok(iobind_binding_set_input(replays, 1, IOBIND_INPUT_RESIDENT, y, NULL, &fault));
  expect_ok(iobind_binding_set_input(plainly, 1, IOBIND_INPUT_RESIDENT, y, NULL, &fault));
  expect_ok(iobind_binding_place_output(replays, 1, IOBIND_OUTPUT_NONE, NULL, IOBIND_MEMORY_DEFAULT, &fault));
  expect_ok(iobind_binding_set_run_options(plainly, &plain, &fault));
  expect_ok(iobind_binding_run(replays, NULL, &fault));
  for (int run = 0; run < 2; run++) {
    if (iobind_binding_run(plainly, NULL, &fault) != IOBIND_OK) {
      break; /* no other run may follow a capture */
    }
    expect_ok(iobind_binding_run(replays, NULL, &fault));
    expect_output(replays, N, 7);
    expect_output(plainly, N, 35);
    expect_all(get(plainly, 1), N, 150);
  }
  iobind_binding_destroy(plainly);
  iobind_binding_destroy(replays);
  iobind_tensor_release(other);
  iobind_tensor_release(y);
  iobind_tensor_release(x);
  iobind_session_destroy(session);
}

int main(int argc, char **argv) {
  static const struct CMUnitTest tests[] = {
      cmocka_unit_test(retained_across_shapes),  cmocka_unit_test(lent_across_shapes),
      cmocka_unit_test(viewed_across_shapes),    cmocka_unit_test(exported_across_shapes),
      cmocka_unit_test(released_across_shapes),  cmocka_unit_test(retained_and_bound_again),
      cmocka_unit_test(bound_as_an_input),       cmocka_unit_test(bound_as_another_output),
      cmocka_unit_test(read_by_another_session), cmocka_unit_test(target_of_a_request),
      cmocka_unit_test(pulled_from_a_pipeline),  cmocka_unit_test(made_without_a_graph),
  };
  return graph_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
