/* Outputs that are lent while their run is in flight, used by other parts of iobind: bindings and sessions, pipelines, DLPack, states. If the device has streams, neither the
 * run nor the work after it has begun when the output is lent. */
#define _GNU_SOURCE /* gettid, nanosleep */
#include "filled.h"
#include "gate.h"
#include "../rig/calls.h"

enum { TURNS = 3 };

static iobind_session *session; /* y = 2 x */
static iobind_stream *stream;
static iobind_stream *later; /* what is lent is used here */
static iobind_binding *binding;
static iobind_tensor *x;
static gate held; /* static: still valid after a test that fails with its gate closed */

static int start(void **state) {
  (void)stage_open(state);
  assert_true(!is_device("vdev") || vdev_set(0, "race", "fail") == 0);
  session = fixture_session(runtime, device, "scale");
  x = make_filled(device, IOBIND_MEMORY_DEFAULT, 1);
  expect_ok(iobind_stream_create(device, NULL, &stream, &fault));
  expect_ok(iobind_stream_create(device, NULL, &later, &fault));
  expect_ok(iobind_binding_create(session, &binding, &fault));
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
  return 0;
}

static int stop(void **state) {
  iobind_binding_destroy(binding);
  iobind_stream_destroy(later);
  iobind_stream_destroy(stream);
  iobind_tensor_release(x);
  iobind_session_destroy(session);
  return stage_close(state);
}

static iobind_binding *make_reader(iobind_session *of) {
  iobind_binding *made = NULL;
  expect_ok(iobind_binding_create(of, &made, &fault));
  return made;
}

/* From the run on, what waits on some devices opens the gate: a run that frees pinned memory, a use on the host. */
static iobind_tensor *run_and_lend(float value) {
  iobind_tensor *lent = NULL;
  fill(x, value);
  gate_close(&held, stream);
  gate_begin(&held);
  expect_ok(iobind_binding_run(binding, stream, &fault));
  expect_ok(iobind_binding_get_output(binding, 0, later, &lent, &fault));
  return lent;
}

static void end_turn(void) {
  gate_end(&held);
  expect_ok(iobind_stream_synchronize(later, &fault));
  expect_ok(iobind_stream_synchronize(stream, &fault));
}

static iobind_status copy(const iobind_tensor *from, iobind_tensor *to) {
  fixture_arm();
  return iobind_tensor_copy(&from, &to, 1, later, &fault);
}

/* ---- outputs of each kind ---- */

static void of_each_mode(void **state) {
  (void)state;
  iobind_tensor *given = make_filled(device, IOBIND_MEMORY_DEFAULT, -1);
  iobind_tensor *target = make_filled(device, IOBIND_MEMORY_DEFAULT, -1);
  static const int modes[] = {IOBIND_OUTPUT_FRESH, IOBIND_OUTPUT_REUSE, OUTPUT_FIXED};
  for (size_t m = 0; m < sizeof modes / sizeof *modes; m++) {
    int mode = modes[m];
    bool is_fixed = mode == OUTPUT_FIXED;
    expect_ok(call_binding_set_output(binding, 0, mode, NULL, IOBIND_MEMORY_DEFAULT, is_fixed ? given : NULL, &fault));
    for (int turn = 0; turn < TURNS; turn++) {
      iobind_tensor *lent = run_and_lend((float)(10 * mode + turn));
      assert_int_equal(copy(lent, target), IOBIND_OK);
      assert_true(!is_fixed || lent == given);
      end_turn();
      expect_all(target, 2 * (float)(10 * mode + turn));
    }
  }
  iobind_tensor_release(given);
  iobind_tensor_release(target);
}

/* The host can read it: so it is waited for. */
static void of_a_pinned_output(void **state) {
  (void)state;
  for (int mode = IOBIND_OUTPUT_FRESH; mode <= IOBIND_OUTPUT_REUSE; mode++) {
    expect_ok(
        call_binding_set_output(binding, 0, (iobind_output_mode)mode, device, IOBIND_MEMORY_HOST_ACCESSIBLE, NULL, &fault));
    for (int turn = 0; turn < TURNS; turn++) {
      iobind_tensor *lent = run_and_lend((float)turn);
      expect_all(lent, 2 * (float)turn);
      end_turn();
    }
  }
}

/* A result that is lent and then taken is one result, and no later run writes it. */
static void and_taken(void **state) {
  (void)state;
  for (int mode = IOBIND_OUTPUT_FRESH; mode <= IOBIND_OUTPUT_REUSE; mode++) {
    iobind_tensor *taken[TURNS];
    expect_ok(call_binding_set_output(binding, 0, (iobind_output_mode)mode, NULL, IOBIND_MEMORY_DEFAULT, NULL, &fault));
    for (int turn = 0; turn < TURNS; turn++) {
      iobind_tensor *target = make_filled(device, IOBIND_MEMORY_DEFAULT, -1);
      iobind_tensor *lent = run_and_lend((float)turn);
      assert_int_equal(copy(lent, target), IOBIND_OK);
      expect_ok(iobind_binding_take_output(binding, 0, &taken[turn], &fault));
      assert_ptr_equal(taken[turn], lent);
      expect(IOBIND_ERROR_INVALID_STATE, iobind_binding_get_output(binding, 0, later, &lent, &fault));
      end_turn();
      expect_all(target, 2 * (float)turn);
      iobind_tensor_release(target);
    }
    for (int turn = 0; turn < TURNS; turn++) {
      expect_all(taken[turn], 2 * (float)turn);
      iobind_tensor_release(taken[turn]);
    }
  }
}

static void of_a_state(void **state) {
  (void)state;
  iobind_event *used = NULL;
  iobind_tensor *target = make_filled(device, IOBIND_MEMORY_DEFAULT, -1);
  expect_ok(iobind_event_create(device, &used, &fault));
  for (int mode = IOBIND_CARRY_MOVE; mode <= IOBIND_CARRY_IN_PLACE; mode++) {
    float expected = 3;
    iobind_tensor *last = NULL;
    fill(x, expected);
    expect_ok(iobind_binding_clear(binding, &fault));
    expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_SNAPSHOT, x, NULL, &fault));
    expect_ok(iobind_binding_carry(binding, 0, 0, (iobind_carry_mode)mode, &fault));
    for (int turn = 0; turn < TURNS; turn++) {
      iobind_tensor *lent = run_and_lend(-7); /* the snapshot was made */
      assert_int_equal(copy(lent, target), IOBIND_OK);
      expect_ok(iobind_event_record(used, later, &fault));
      expect_ok(iobind_stream_wait(stream, used, &fault));
      expect_ok(iobind_binding_run(binding, stream, &fault)); /* it may write what was lent */
      end_turn();
      expect_all(target, 2 * expected);
      expected *= 4;
    }
    expect_ok(iobind_binding_get_output(binding, 0, NULL, &last, &fault));
    expect_all(last, expected);
  }
  iobind_event_destroy(used);
  iobind_tensor_release(target);
}

static void of_strings(void **state) {
  (void)state;
  static const int64_t one = 1;
  iobind_session *texts = fixture_session(runtime, device, "identity dtype=string");
  iobind_binding *reads = make_reader(texts);
  iobind_tensor *text = NULL;
  expect_ok(iobind_tensor_create(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_STRING, &one, 1, &text, &fault));
  expect_ok(iobind_binding_set_input(reads, 0, IOBIND_INPUT_LIVE, text, NULL, &fault));
  for (int turn = 0; turn < TURNS; turn++) {
    static const char *const words[] = {"first", "second", "third"};
    iobind_tensor *lent = NULL;
    char got[16] = "";
    size_t needed = 0;
    expect_ok(iobind_tensor_set_string(text, 0, words[turn], &fault));
    expect_ok(iobind_binding_run(reads, stream, &fault));
    expect_ok(iobind_binding_get_output(reads, 0, later, &lent, &fault));
    expect_ok(iobind_tensor_get_string(lent, 0, got, sizeof got - 1, &needed, &fault));
    assert_string_equal(got, words[turn]);
  }
  iobind_binding_destroy(reads);
  iobind_tensor_release(text);
  iobind_session_destroy(texts);
}

/* ---- what is lent, as an input ---- */

/* Of another binding, in each mode that reads it when the run does; a SNAPSHOT would be made before. */
static void bound_by_another_binding(void **state) {
  (void)state;
  static const iobind_input_mode modes[] = {IOBIND_INPUT_RESIDENT, IOBIND_INPUT_LIVE};
  iobind_binding *reads = make_reader(session);
  for (int turn = 0; turn < 2 * TURNS; turn++) {
    iobind_tensor *y = NULL;
    iobind_tensor *lent = run_and_lend((float)turn);
    expect_ok(iobind_binding_set_input(reads, 0, modes[turn % 2], lent, NULL, &fault));
    expect_ok(iobind_binding_run(reads, later, &fault));
    end_turn();
    expect_ok(iobind_binding_get_output(reads, 0, NULL, &y, &fault));
    expect_all(y, 4 * (float)turn);
    expect_ok(iobind_binding_clear(reads, &fault));
  }
  iobind_binding_destroy(reads);
}

/* By a session that reads it on the host: the copy is ordered after the run. */
static void bound_live_elsewhere(void **state) {
  (void)state;
  iobind_session *on_cpu = fixture_session(runtime, cpu, "scale");
  iobind_binding *reads = make_reader(on_cpu);
  iobind_event *done = NULL;
  iobind_stream *host = NULL;
  expect_ok(iobind_event_create(device, &done, &fault));
  expect_ok(iobind_stream_create(cpu, NULL, &host, &fault));
  for (int turn = 0; turn < 2 * TURNS; turn++) {
    iobind_tensor *y = NULL;
    iobind_tensor *lent = run_and_lend((float)turn);
    expect_ok(iobind_event_record(done, later, &fault));
    expect_ok(iobind_binding_set_input(reads, 0, IOBIND_INPUT_LIVE, lent, done, &fault));
    expect_ok(iobind_binding_run(reads, turn % 2 == 0 ? NULL : host, &fault));
    end_turn();
    expect_ok(iobind_binding_get_output(reads, 0, NULL, &y, &fault));
    expect_all(y, 4 * (float)turn);
    expect_ok(iobind_binding_clear(reads, &fault));
  }
  iobind_event_destroy(done);
  iobind_stream_destroy(host);
  iobind_binding_destroy(reads);
  iobind_session_destroy(on_cpu);
}

/* A length, which the session reads on the host: CUDA's EP always, that of the virtual accelerator if it does not take the node. */
static void read_on_the_host(void **state) {
  (void)state;
  iobind_session *counts = fixture_session(runtime, device, "reduce dtype=int64 dims=1,n axis=0");
  if (is_device("vdev")) {
    assert_int_equal(vdev_set(0, "deny", "Expand"), 0);
  }
  iobind_session *expands = fixture_session(runtime, device, "expand dims=1 rank=1");
  if (is_device("vdev")) {
    assert_int_equal(vdev_set(0, "deny", ""), 0);
  }
  iobind_binding *makes = make_reader(counts);
  iobind_binding *reads = make_reader(expands);
  static const int64_t dims[2] = {1, 1};
  iobind_event *done = NULL;
  iobind_tensor *length = NULL;
  iobind_tensor *five = NULL;
  iobind_value_info info = IOBIND_VALUE_INFO_INIT;
  static const float value = 5;
  expect_ok(iobind_event_create(device, &done, &fault));
  expect_ok(iobind_session_get_input(expands, 0, &info, &fault));
  five = fixture_floats(info.device, &value, 1);
  expect_ok(iobind_session_get_input(counts, 0, &info, &fault));
  expect_ok(iobind_tensor_create(info.device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_INT64, dims, 2, &length, &fault));
  expect_ok(iobind_binding_set_input(makes, 0, IOBIND_INPUT_RESIDENT, length, NULL, &fault));
  expect_ok(iobind_binding_set_input(reads, 0, IOBIND_INPUT_RESIDENT, five, NULL, &fault));
  for (int64_t turn = 1; turn <= TURNS; turn++) {
    static const float fives[TURNS] = {5, 5, 5};
    iobind_tensor *lent = NULL;
    iobind_tensor *y = NULL;
    expect_ok(iobind_tensor_write(length, 0, &turn, sizeof turn, NULL, &fault));
    gate_close(&held, stream);
    gate_begin(&held);
    expect_ok(iobind_binding_run(makes, stream, &fault));
    expect_ok(iobind_binding_get_output(makes, 0, later, &lent, &fault));
    expect_ok(iobind_event_record(done, later, &fault));
    expect_ok(iobind_binding_set_input(reads, 1, IOBIND_INPUT_LIVE, lent, done, &fault));
    expect_ok(iobind_binding_run(reads, later, &fault));
    end_turn();
    expect_ok(iobind_binding_get_output(reads, 0, NULL, &y, &fault));
    fixture_expect_floats(y, fives, (size_t)turn);
  }
  iobind_event_destroy(done);
  iobind_binding_destroy(reads);
  iobind_binding_destroy(makes);
  iobind_tensor_release(length);
  iobind_tensor_release(five);
  iobind_session_destroy(expands);
  iobind_session_destroy(counts);
}

static void as_an_item_of_a_pipeline(void **state) {
  (void)state;
  iobind_pipeline_options options = IOBIND_PIPELINE_OPTIONS_INIT;
  iobind_pipeline_request request = IOBIND_PIPELINE_REQUEST_INIT;
  iobind_pipeline *pipeline = NULL;
  iobind_event *done = NULL;
  options.slots = 1;
  expect_ok(call_pipeline_create(session, &options, &pipeline, &fault));
  expect_ok(iobind_event_create(device, &done, &fault));
  for (int turn = 0; turn < TURNS; turn++) {
    iobind_tensor *y = NULL;
    iobind_tensor *lent = run_and_lend((float)turn);
    expect_ok(iobind_event_record(done, later, &fault));
    request.inputs = &lent;
    request.input_count = 1;
    request.events = &done;
    request.event_count = 1;
    expect_ok(iobind_pipeline_submit(pipeline, &request, &fault));
    expect_ok(iobind_pipeline_next(pipeline, IOBIND_NO_TIMEOUT, &y, 1, NULL, &fault));
    expect_all(y, 4 * (float)turn);
    end_turn();
  }
  iobind_event_destroy(done);
  iobind_pipeline_destroy(pipeline);
}

/* A tensor that was exported and imported again is the memory that the run writes. */
static void handed_over(void **state) {
  (void)state;
  iobind_tensor *target = make_filled(device, IOBIND_MEMORY_DEFAULT, -1);
  for (int turn = 0; turn < TURNS; turn++) {
    iobind_tensor *again = NULL;
    void *managed = NULL;
    iobind_tensor *lent = run_and_lend((float)turn);
    expect_ok(iobind_tensor_to_dlpack(lent, 0, &managed, &fault));
    expect_ok(iobind_tensor_from_dlpack(runtime, managed, 0, &again, &fault));
    assert_int_equal(copy(again, target), IOBIND_OK);
    expect_ok(iobind_binding_run(binding, stream, &fault)); /* writes other memory */
    end_turn();
    expect_all(target, 2 * (float)turn);
    expect_all(again, 2 * (float)turn);
    iobind_tensor_release(again);
  }
  iobind_tensor_release(target);
}

#define ON(device, test) \
  { #device ": " #test, test, start, stop, #device }
#define ON_EACH(test) ON(vdev, test), ON(cpu, test), ON(cuda, test)
#define ON_GPUS(test) ON(vdev, test), ON(cuda, test)

static const struct CMUnitTest tests[] = {
    ON_EACH(of_each_mode),         ON_GPUS(of_a_pinned_output), ON_EACH(and_taken),
    ON_EACH(of_a_state),           ON_EACH(of_strings),         ON_EACH(bound_by_another_binding),
    ON_EACH(bound_live_elsewhere), ON_EACH(read_on_the_host),   ON_EACH(as_an_item_of_a_pipeline),
    ON_EACH(handed_over),
};

FIXTURE_MAIN(tests, NULL, NULL);
