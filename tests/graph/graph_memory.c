/* Memory of other kinds than the session's own at bindings that capture graphs: pinned, LIVE inputs, lent outputs, another library's tensors. */
#include "graph_rig.h"

#include "iobind/interop.h"
#include "../rig/calls.h"

enum { N = 48, TURNS = 4 };

/* NULL where the device has none. */
static iobind_tensor *make_pinned(float value) {
  static const int64_t dim = N;
  iobind_tensor *made = NULL;
  fixture_arm();
  if (iobind_tensor_create(device, IOBIND_MEMORY_HOST_ACCESSIBLE, IOBIND_DTYPE_FLOAT32, &dim, 1, &made, &fault) == IOBIND_OK) {
    fill(made, value);
  }
  return made;
}

static void expect_runs(iobind_binding *binding, iobind_tensor *x) {
  for (int turn = 0; turn < TURNS; turn++) {
    fill(x, (float)turn);
    expect_ok(iobind_binding_run(binding, NULL, &fault));
    expect_output(binding, N, 2 * (float)turn);
  }
}

/* Refused where a run would copy, and a SNAPSHOT is one copy. */
static void pinned_memory(void **state) {
  (void)state;
  iobind_tensor *pinned = make_pinned(7);
  if (pinned == NULL) {
    expect_words("host-accessible");
    return;
  }
  iobind_session *session = make_session("scale", 1);
  iobind_tensor *x = make_filled(N, 1);
  iobind_binding *binding = make_binding(session, x, NULL);
  for (int mode = IOBIND_OUTPUT_FRESH; mode <= IOBIND_OUTPUT_REUSE; mode++) {
    expect(IOBIND_ERROR_NOT_SUPPORTED,
           call_binding_set_output(binding, 0, (iobind_output_mode)mode, device, IOBIND_MEMORY_HOST_ACCESSIBLE, NULL, &fault));
  }
  expect(IOBIND_ERROR_NOT_SUPPORTED, iobind_binding_set_output(binding, 0, pinned, 0, &fault));
  expect(IOBIND_ERROR_WRONG_DEVICE, iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, pinned, NULL, &fault));
  expect(IOBIND_ERROR_NOT_SUPPORTED, iobind_binding_set_input(binding, 0, IOBIND_INPUT_LIVE, pinned, NULL, &fault));
  expect_runs(binding, x);
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_SNAPSHOT, pinned, NULL, &fault));
  fill(pinned, 9);
  expect_ok(iobind_binding_reset_graphs(binding, &fault));
  for (int turn = 0; turn < TURNS; turn++) {
    expect_ok(iobind_binding_run(binding, NULL, &fault));
    expect_output(binding, N, 14);
  }
  iobind_binding_destroy(binding);
  iobind_tensor_release(x);
  iobind_tensor_release(pinned);
  iobind_session_destroy(session);
}

/* Where the session reads it nothing is copied: a replay reads what the tensor holds by then. */
static void live_inputs(void **state) {
  (void)state;
  iobind_session *session = make_session("scale", 1);
  iobind_tensor *x = make_filled(N, 1);
  iobind_tensor *elsewhere = make_on_host(N, 1);
  iobind_binding *binding = make_binding(session, x, NULL);
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_LIVE, x, NULL, &fault));
  expect(IOBIND_ERROR_NOT_SUPPORTED, iobind_binding_set_input(binding, 0, IOBIND_INPUT_LIVE, elsewhere, NULL, &fault));
  expect_runs(binding, x);
  iobind_binding_destroy(binding);
  iobind_tensor_release(x);
  iobind_tensor_release(elsewhere);
  iobind_session_destroy(session);
}

/* What is lent is written by the replay before it is read, and not by the next one. */
static void lent_outputs(void **state) {
  (void)state;
  iobind_session *session = make_session("scale", 2);
  iobind_tensor *x = make_filled(N, 1);
  iobind_tensor *targets[TURNS];
  iobind_stream *stream = NULL;
  iobind_stream *later = NULL;
  iobind_event *used = NULL;
  iobind_binding *binding = make_binding(session, x, NULL);
  expect_ok(iobind_stream_create(device, NULL, &stream, &fault));
  expect_ok(iobind_stream_create(device, NULL, &later, &fault));
  expect_ok(iobind_event_create(device, &used, &fault));
  for (int turn = 0; turn < TURNS; turn++) {
    iobind_tensor *lent = NULL;
    targets[turn] = make_filled(N, -1);
    fill(x, (float)turn);
    expect_ok(iobind_binding_run(binding, stream, &fault));
    expect_ok(iobind_binding_get_output(binding, 0, later, &lent, &fault));
    const iobind_tensor *from = lent;
    expect_ok(iobind_tensor_copy(&from, &targets[turn], 1, later, &fault));
    expect_ok(iobind_event_record(used, later, &fault));
    expect_ok(iobind_stream_wait(stream, used, &fault));
  }
  expect_ok(iobind_stream_synchronize(stream, &fault));
  expect_ok(iobind_stream_synchronize(later, &fault));
  for (int turn = 0; turn < TURNS; turn++) {
    expect_all(targets[turn], N, 2 * (float)turn);
    iobind_tensor_release(targets[turn]);
  }
  iobind_event_destroy(used);
  iobind_stream_destroy(later);
  iobind_stream_destroy(stream);
  iobind_binding_destroy(binding);
  iobind_tensor_release(x);
  iobind_session_destroy(session);
}

/* The same memory by another tensor is the same graph. */
static void imported_tensors(void **state) {
  (void)state;
  iobind_session *session = make_session("scale", 1);
  iobind_tensor *x = make_filled(N, 1);
  iobind_tensor *y = make_filled(N, -1);
  iobind_binding *binding = make_binding(session, x, y);
  for (int turn = 0; turn < TURNS; turn++) {
    iobind_tensor *again[2] = {x, y};
    for (int i = 0; i < 2; i++) {
      void *managed = NULL;
      expect_ok(iobind_tensor_to_dlpack(again[i], 0, &managed, &fault));
      expect_ok(iobind_tensor_from_dlpack(runtime, managed, 0, &again[i], &fault));
    }
    bind_x(binding, again[0]);
    bind_y(binding, again[1]);
    iobind_tensor_release(again[0]);
    iobind_tensor_release(again[1]);
    fill(x, (float)turn);
    expect_ok(iobind_binding_run(binding, NULL, &fault));
    expect_all(y, N, 2 * (float)turn);
  }
  iobind_binding_destroy(binding);
  iobind_tensor_release(x);
  iobind_tensor_release(y);
  iobind_session_destroy(session);
}

int main(int argc, char **argv) {
  static const struct CMUnitTest tests[] = {
      cmocka_unit_test(pinned_memory),
      cmocka_unit_test(live_inputs),
      cmocka_unit_test(lent_outputs),
      cmocka_unit_test(imported_tensors),
  };
  return graph_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
