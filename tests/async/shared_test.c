/* Bindings that share memory: a run without a stream is ordered after work in flight on streams that shares memory with it: if it reads what others
 * write, or writes what others read or write. If both only read, it does not wait. The shared memory may have been bound before that work was
 * submitted, when the binding was armed for runs without checks. */
#define _GNU_SOURCE /* gettid, nanosleep */
#include "adder.h"
#include "held.h"
#include "../rig/calls.h"

static const float twelves[COUNT] = {12, 12, 12, 12, 12, 12, 12, 12};

static iobind_binding *other;
static iobind_tensor *z;

static int start(void **state) {
  (void)held_open(state);
  z = fixture_floats(device, zeros, COUNT);
  expect_ok(iobind_binding_create(session, &other, &fault));
  return 0;
}

static int stop(void **state) {
  iobind_binding_destroy(other);
  iobind_tensor_release(z);
  return held_close(state);
}

static void bind_other(iobind_tensor *input, iobind_tensor *output) {
  expect_ok(iobind_binding_set_input(other, 0, IOBIND_INPUT_RESIDENT, input, NULL, &fault));
  expect_ok(iobind_binding_set_output(other, 0, output, 0, &fault));
}

/* So often that the next run consists only of ORT's call. */
static void warm_up(iobind_binding *one) {
  for (int i = 0; i < 3; i++) {
    expect_ok(iobind_binding_run(one, NULL, &fault));
  }
}

static iobind_status run_other(void) {
  fixture_arm();
  return iobind_binding_run(other, NULL, &fault);
}

static void copy_on_stream(const iobind_tensor *from, iobind_tensor *to) {
  expect_ok(iobind_tensor_copy(&from, &to, 1, stream, &fault));
}

static void expect_both(const float *of_binding, const float *of_other, iobind_tensor *output) {
  expect_ok(iobind_stream_synchronize(stream, &fault));
  fixture_expect_floats(y, of_binding, COUNT);
  fixture_expect_floats(output, of_other, COUNT);
}

/* ---- what a run reads ---- */

static void output_that_was_bound_before(void **state) {
  (void)state;
  bind_other(y, z);
  warm_up(other);
  for (int i = 0; i < 2; i++) {
    expect_ok(iobind_tensor_write(x, 0, i == 0 ? threes : sixes, sizeof threes, NULL, &fault));
    hold_a_run();
    BEHIND_GATE(&held, IOBIND_OK, run_other());
    expect_both(i == 0 ? sixes : twelves, i == 0 ? twelves : (const float[COUNT]){24, 24, 24, 24, 24, 24, 24, 24}, z);
  }
}

static void output_that_is_bound_then(void **state) {
  (void)state;
  hold_a_run();
  bind_other(y, z);
  BEHIND_GATE(&held, IOBIND_OK, run_other());
  expect_both(sixes, twelves, z);
}

/* Only the tensor of the binding changes. */
static void output_that_takes_the_place_of_another(void **state) {
  (void)state;
  iobind_tensor *first = fixture_floats(device, nines, COUNT);
  bind_other(first, z);
  warm_up(other);
  hold_a_run();
  expect_ok(iobind_binding_set_input(other, 0, IOBIND_INPUT_RESIDENT, y, NULL, &fault));
  BEHIND_GATE(&held, IOBIND_OK, run_other());
  expect_both(sixes, twelves, z);
  iobind_tensor_release(first);
}

static void part_of_an_output(void **state) {
  (void)state;
  iobind_tensor *part = NULL;
  iobind_tensor *result = fixture_floats(device, zeros, HALF);
  expect_ok(iobind_tensor_slice(y, HALF, HALF, &part, &fault));
  bind_other(part, result);
  warm_up(other);
  hold_a_run();
  BEHIND_GATE(&held, IOBIND_OK, run_other());
  fixture_expect_floats(result, twelves, HALF);
  iobind_tensor_release(part);
  iobind_tensor_release(result);
}

static void source_of_a_live_input(void **state) {
  (void)state;
  expect_ok(iobind_binding_set_input(other, 0, IOBIND_INPUT_LIVE, y, NULL, &fault));
  expect_ok(iobind_binding_set_output(other, 0, z, 0, &fault));
  warm_up(other);
  hold_a_run();
  BEHIND_GATE(&held, IOBIND_OK, run_other());
  expect_both(sixes, twelves, z);
}

static void what_a_copy_brings(void **state) {
  (void)state;
  iobind_tensor *target = fixture_floats(device, zeros, COUNT);
  bind_other(target, z);
  warm_up(other);
  hold_a_run();
  copy_on_stream(y, target);
  BEHIND_GATE(&held, IOBIND_OK, run_other());
  expect_both(sixes, twelves, z);
  iobind_tensor_release(target);
}

static void own_input_that_a_copy_brings(void **state) {
  (void)state;
  iobind_tensor *source = fixture_floats(device, sixes, COUNT);
  warm_up(binding);
  gate_close(&held, stream);
  copy_on_stream(source, x);
  BEHIND_GATE(&held, IOBIND_OK, iobind_binding_run(binding, NULL, &fault));
  fixture_expect_floats(y, twelves, COUNT);
  iobind_tensor_release(source);
}

/* A captured graph is replayed only then, too. */
static void input_of_a_graph(void **state) {
  (void)state;
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  iobind_session *captures = NULL;
  iobind_binding *replays = NULL;
  options.devices = &device;
  options.device_count = 1;
  options.graph_limit = 1;
  expect_ok(test_session_with(runtime, "scale", &options, &captures, &fault));
  expect_ok(iobind_binding_create(captures, &replays, &fault));
  expect_ok(iobind_binding_set_input(replays, 0, IOBIND_INPUT_RESIDENT, y, NULL, &fault));
  expect_ok(iobind_binding_set_output(replays, 0, z, 0, &fault));
  warm_up(replays);
  for (int i = 0; i < 2; i++) {
    expect_ok(iobind_tensor_write(x, 0, i == 0 ? threes : nines, sizeof threes, NULL, &fault));
    hold_a_run();
    BEHIND_GATE(&held, IOBIND_OK, iobind_binding_run(replays, NULL, &fault));
    fixture_expect_floats(z, i == 0 ? twelves : (const float[COUNT]){36, 36, 36, 36, 36, 36, 36, 36}, COUNT);
    warm_up(replays);
  }
  iobind_binding_destroy(replays);
  iobind_session_destroy(captures);
}

static void state_that_is_carried(void **state) {
  (void)state;
  for (int mode = IOBIND_CARRY_MOVE; mode <= IOBIND_CARRY_IN_PLACE; mode++) {
    iobind_tensor *result = NULL;
    iobind_tensor *source = fixture_floats(device, twelves, COUNT);
    iobind_tensor *first = fixture_floats(device, threes, COUNT);
    iobind_binding *carries = NULL;
    expect_ok(iobind_binding_create(session, &carries, &fault));
    expect_ok(iobind_binding_carry(carries, 0, 0, (iobind_carry_mode)mode, &fault));
    expect_ok(iobind_binding_set_input(carries, 0, IOBIND_INPUT_RESIDENT, first, NULL, &fault));
    gate_close(&held, stream);
    copy_on_stream(source, first);
    BEHIND_GATE(&held, IOBIND_OK, iobind_binding_run(carries, NULL, &fault));
    expect_ok(iobind_binding_get_output(carries, 0, NULL, &result, &fault)); /* which the next run reads */
    gate_close(&held, stream);
    copy_on_stream(source, result);
    BEHIND_GATE(&held, IOBIND_OK, iobind_binding_run(carries, NULL, &fault));
    expect_ok(iobind_binding_get_output(carries, 0, NULL, &result, &fault));
    fixture_expect_floats(result, (const float[COUNT]){24, 24, 24, 24, 24, 24, 24, 24}, COUNT);
    iobind_binding_destroy(carries);
    iobind_tensor_release(source);
    iobind_tensor_release(first);
  }
}

/* ---- what a run writes ---- */

static void input_of_a_run_in_flight(void **state) {
  (void)state;
  iobind_tensor *source = fixture_floats(device, sixes, COUNT);
  bind_other(source, x);
  warm_up(other);
  expect_ok(iobind_tensor_write(x, 0, threes, sizeof threes, NULL, &fault));
  hold_a_run();
  BEHIND_GATE(&held, IOBIND_OK, run_other());
  expect_both(sixes, twelves, x);
  iobind_tensor_release(source);
}

static void output_of_both(void **state) {
  (void)state;
  iobind_tensor *source = fixture_floats(device, sixes, COUNT);
  bind_other(source, y);
  warm_up(other);
  hold_a_run();
  BEHIND_GATE(&held, IOBIND_OK, run_other());
  expect_both(twelves, twelves, y);
  iobind_tensor_release(source);
}

static void source_of_a_copy(void **state) {
  (void)state;
  iobind_tensor *target = fixture_floats(device, zeros, COUNT);
  bind_other(x, z);
  warm_up(other);
  expect_ok(iobind_tensor_write(z, 0, nines, sizeof nines, NULL, &fault));
  gate_close(&held, stream);
  copy_on_stream(z, target);
  BEHIND_GATE(&held, IOBIND_OK, run_other());
  expect_ok(iobind_stream_synchronize(stream, &fault));
  fixture_expect_floats(target, nines, COUNT);
  fixture_expect_floats(z, sixes, COUNT);
  iobind_tensor_release(target);
}

/* A result that each run writes again, and that was lent to the caller. */
static void source_that_is_a_reused_output(void **state) {
  (void)state;
  iobind_tensor *result = NULL;
  iobind_tensor *target = fixture_floats(device, zeros, COUNT);
  expect_ok(iobind_binding_set_input(other, 0, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
  expect_ok(iobind_binding_place_output(other, 0, IOBIND_OUTPUT_REUSE, device, IOBIND_MEMORY_DEFAULT, &fault));
  warm_up(other);
  expect_ok(iobind_binding_get_output(other, 0, NULL, &result, &fault));
  gate_close(&held, stream);
  copy_on_stream(result, target);
  expect_ok(iobind_binding_set_input(other, 0, IOBIND_INPUT_RESIDENT, z, NULL, &fault));
  BEHIND_GATE(&held, IOBIND_OK, run_other());
  expect_ok(iobind_stream_synchronize(stream, &fault));
  fixture_expect_floats(target, sixes, COUNT);
  iobind_tensor_release(target);
}

/* Two memories, which the runs write in turn beside a state that is swapped: both are the caller's to access. */
static void reused_output_beside_a_swapped_state(void **state) {
  (void)state;
  enum { PRODUCT = 1 };
  float got[COUNT];
  iobind_tensor *results[2] = {NULL};
  iobind_tensor *target = fixture_floats(device, zeros, COUNT);
  iobind_session *multiplies = fixture_session(runtime, device, "pair");
  iobind_binding *swaps = NULL;
  expect_ok(iobind_binding_create(multiplies, &swaps, &fault));
  expect_ok(iobind_binding_set_input(swaps, 0, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
  expect_ok(iobind_binding_set_input(swaps, 1, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
  expect_ok(iobind_binding_carry(swaps, 0, 0, IOBIND_CARRY_SWAP, &fault));
  expect_ok(iobind_binding_place_output(swaps, PRODUCT, IOBIND_OUTPUT_REUSE, device, IOBIND_MEMORY_DEFAULT, &fault));
  for (int i = 0; i < 2; i++) {
    expect_ok(iobind_binding_run(swaps, NULL, &fault));
    expect_ok(iobind_binding_get_output(swaps, PRODUCT, NULL, &results[i], &fault));
    iobind_tensor_retain(results[i]);
  }
  gate_close(&held, stream);
  expect_ok(iobind_binding_run(swaps, stream, &fault));
  BEHIND_GATE(&held, IOBIND_OK, iobind_tensor_read(results[0], 0, got, sizeof got, NULL, &fault));
  assert_true(got[0] == 27 && got[COUNT - 1] == 27);
  expect_ok(iobind_stream_synchronize(stream, &fault));
  gate_close(&held, stream);
  copy_on_stream(results[1], target);
  BEHIND_GATE(&held, IOBIND_OK, iobind_binding_run(swaps, NULL, &fault));
  fixture_expect_floats(target, (const float[COUNT]){18, 18, 18, 18, 18, 18, 18, 18}, COUNT);
  fixture_expect_floats(results[1], (const float[COUNT]){36, 36, 36, 36, 36, 36, 36, 36}, COUNT);
  iobind_binding_destroy(swaps);
  iobind_session_destroy(multiplies);
  iobind_tensor_release(target);
  iobind_tensor_release(results[0]);
  iobind_tensor_release(results[1]);
}

static void constant_of_a_pipeline(void **state) {
  (void)state;
  iobind_tensor *source = fixture_floats(device, sixes, COUNT);
  bind_other(source, x);
  warm_up(other);
  expect_ok(iobind_tensor_write(x, 0, threes, sizeof threes, NULL, &fault));
  adder adds = adder_open(stream, x, threes, sixes, COUNT);
  gate_close(&held, stream);
  adder_submit(&adds);
  BEHIND_GATE(&held, IOBIND_OK, run_other());
  adder_expect(&adds, sixes, COUNT);
  fixture_expect_floats(x, twelves, COUNT);
  adder_close(&adds);
  iobind_tensor_release(source);
}

/* ---- runs that do not wait, and failures that are returned ---- */

static void input_of_both(void **state) {
  (void)state;
  bind_other(x, z);
  warm_up(other);
  hold_a_run();
  iobind_status status = run_other();
  gate_open(&held);
  assert_int_equal(status, IOBIND_OK);
  expect_both(sixes, sixes, z);
}

/* The run without a stream returns the failure, and the next one does not. */
static void run_that_fails(void **state) {
  (void)state;
  bind_other(y, z);
  warm_up(other);
  hold_a_run();
  gate_open(&held);
  expect_ok(iobind_stream_synchronize(stream, &fault));
  gate_close(&held, stream);
  assert_int_equal(vdev_set(0, "fail_compute", "1,late"), 0);
  expect_ok(iobind_binding_run(binding, stream, &fault));
  BEHIND_GATE(&held, IOBIND_ERROR_RUNTIME, run_other());
  expect_words("binding_run");
  expect_words("fail_compute");
  expect_ok(run_other());
}

/* Alternately runs on the stream and runs of the other binding, each ordered after the work that it uses. */
static void turns(void **state) {
  (void)state;
  enum { TURNS = 50 };
  float value[COUNT] = {1, 1, 1, 1, 1, 1, 1, 1};
  bind_other(y, z);
  warm_up(other);
  for (int i = 0; i < TURNS; i++) {
    value[0] = value[COUNT - 1] = (float)i;
    expect_ok(iobind_tensor_write(x, 0, value, sizeof value, i % 2 == 0 ? stream : NULL, &fault));
    expect_ok(iobind_binding_run(binding, stream, &fault));
    expect_ok(run_other());
    float ends[COUNT];
    expect_ok(iobind_tensor_read(z, 0, ends, sizeof ends, NULL, &fault));
    assert_true(ends[0] == (float)(4 * i) && ends[COUNT - 1] == (float)(4 * i) && ends[1] == 4);
  }
}

/* ---- what a run binds itself ---- */

/* The first run makes it an output, too. */
static void state_in_place(void **state) {
  (void)state;
  expect_ok(iobind_binding_set_input(other, 0, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
  expect_ok(iobind_binding_carry(other, 0, 0, IOBIND_CARRY_IN_PLACE, &fault));
  hold_a_run();
  BEHIND_GATE(&held, IOBIND_OK, run_other());
  expect_both(sixes, sixes, x);
}

/* The next run makes it an input. */
static void state_that_a_copy_replaces(void **state) {
  (void)state;
  const iobind_carry_mode modes[] = {IOBIND_CARRY_MOVE, IOBIND_CARRY_SWAP, IOBIND_CARRY_IN_PLACE};
  iobind_tensor *source = fixture_floats(device, nines, COUNT);
  for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
    iobind_tensor *result = NULL;
    iobind_tensor *last = NULL;
    expect_ok(iobind_binding_clear(other, &fault));
    expect_ok(iobind_binding_set_input(other, 0, IOBIND_INPUT_RESIDENT, z, NULL, &fault));
    expect_ok(iobind_binding_carry(other, 0, 0, modes[i], &fault));
    expect_ok(iobind_binding_run(other, NULL, &fault));
    expect_ok(iobind_binding_take_output(other, 0, &result, &fault));
    gate_close(&held, stream);
    copy_on_stream(source, result);
    BEHIND_GATE(&held, IOBIND_OK, run_other());
    expect_ok(iobind_binding_get_output(other, 0, NULL, &last, &fault));
    fixture_expect_floats(last, (const float[COUNT]){18, 18, 18, 18, 18, 18, 18, 18}, COUNT);
    expect_ok(iobind_stream_synchronize(stream, &fault));
    iobind_tensor_release(result);
  }
  iobind_tensor_release(source);
}

/* So large that the stream's pinned memory takes the data, and the write returns. */
static void write_large(iobind_carry_mode mode, bool ended) {
  enum { LARGE = 1 << 15 };
  static float data[LARGE];
  for (size_t i = 0; i < LARGE; i++) {
    data[i] = 9;
  }
  iobind_tensor *last = NULL;
  iobind_tensor *first = fixture_floats(device, data, LARGE);
  iobind_tensor *result = fixture_floats(device, data, LARGE);
  expect_ok(iobind_binding_clear(other, &fault));
  expect_ok(iobind_binding_set_input(other, 0, IOBIND_INPUT_RESIDENT, first, NULL, &fault));
  expect_ok(iobind_binding_carry(other, 0, 0, mode, &fault));
  warm_up(other);
  if (ended) {
    expect_ok(iobind_binding_set_output(other, 0, result, 0, &fault));
  }
  gate_close(&held, stream);
  expect_ok(iobind_binding_write_input(other, 0, data, sizeof data, stream, &fault));
  BEHIND_GATE(&held, IOBIND_OK, run_other());
  expect_ok(iobind_binding_get_output(other, 0, NULL, &last, &fault));
  expect_ok(iobind_tensor_read(last, 0, data, sizeof data, NULL, &fault));
  assert_true(data[0] == 18 && data[LARGE - 1] == 18);
  iobind_tensor_release(first);
  iobind_tensor_release(result);
}

/* A run has written it, and it was not fetched. */
static void state_that_is_written(void **state) {
  (void)state;
  for (int mode = IOBIND_CARRY_MOVE; mode <= IOBIND_CARRY_IN_PLACE; mode++) {
    write_large((iobind_carry_mode)mode, false);
  }
}

static void state_that_is_written_after_its_carry(void **state) {
  (void)state;
  for (int mode = IOBIND_CARRY_MOVE; mode <= IOBIND_CARRY_IN_PLACE; mode++) {
    write_large((iobind_carry_mode)mode, true);
  }
}

/* The caller has it, and its carry has ended. */
static void state_that_a_copy_replaces_after_its_carry(void **state) {
  (void)state;
  iobind_tensor *source = fixture_floats(device, nines, COUNT);
  for (int mode = IOBIND_CARRY_MOVE; mode <= IOBIND_CARRY_IN_PLACE; mode++) {
    iobind_tensor *last = NULL;
    expect_ok(iobind_binding_clear(other, &fault));
    expect_ok(iobind_binding_set_input(other, 0, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
    expect_ok(iobind_binding_carry(other, 0, 0, (iobind_carry_mode)mode, &fault));
    warm_up(other);
    expect_ok(iobind_binding_get_output(other, 0, NULL, &last, &fault));
    iobind_tensor_retain(last);
    expect_ok(iobind_binding_set_output(other, 0, z, 0, &fault));
    gate_close(&held, stream);
    copy_on_stream(source, last);
    BEHIND_GATE(&held, IOBIND_OK, run_other());
    fixture_expect_floats(z, (const float[COUNT]){18, 18, 18, 18, 18, 18, 18, 18}, COUNT);
    iobind_tensor_release(last);
  }
  iobind_tensor_release(source);
}

/* Later runs bind the states of earlier ones in the stream's thread, while the caller submits. */
static void states_of_queued_runs(void **state) {
  (void)state;
  enum { TURNS = 100, RUNS = 4 };
  for (int turn = 0; turn < TURNS; turn++) {
    iobind_tensor *first = fixture_floats(device, threes, COUNT);
    iobind_tensor *last = NULL;
    iobind_event *ready = NULL;
    expect_ok(iobind_event_create(device, &ready, &fault));
    expect_ok(iobind_event_record(ready, stream, &fault));
    bind_other(first, z);
    expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, first, ready, &fault));
    iobind_event_destroy(ready);
    expect_ok(iobind_binding_carry(binding, 0, 0, turn % 2 == 0 ? IOBIND_CARRY_MOVE : IOBIND_CARRY_SWAP, &fault));
    iobind_tensor_release(first);
    for (int i = 0; i < RUNS; i++) {
      expect_ok(iobind_binding_run(binding, stream, &fault));
      expect_ok(run_other());
    }
    expect_ok(iobind_stream_synchronize(stream, &fault));
    fixture_expect_floats(z, sixes, COUNT);
    expect_ok(iobind_binding_get_output(binding, 0, NULL, &last, &fault));
    fixture_expect_floats(last, (const float[COUNT]){48, 48, 48, 48, 48, 48, 48, 48}, COUNT);
  }
}

/* A FRESH output in device memory, which the caller has while the run is in flight. */
static void output_that_is_lent(void **state) {
  (void)state;
  iobind_tensor *lent = NULL;
  expect_ok(iobind_binding_place_output(binding, 0, IOBIND_OUTPUT_FRESH, device, IOBIND_MEMORY_DEFAULT, &fault));
  for (int i = 0; i < 2; i++) {
    expect_ok(iobind_tensor_write(x, 0, i == 0 ? threes : sixes, sizeof threes, NULL, &fault));
    hold_a_run();
    expect_ok(iobind_binding_get_output(binding, 0, stream, &lent, &fault));
    bind_other(lent, z);
    BEHIND_GATE(&held, IOBIND_OK, run_other());
    expect_ok(iobind_stream_synchronize(stream, &fault));
    fixture_expect_floats(z, i == 0 ? twelves : (const float[COUNT]){24, 24, 24, 24, 24, 24, 24, 24}, COUNT);
  }
}

static void output_that_is_lent_and_read(void **state) {
  (void)state;
  float got[COUNT];
  iobind_tensor *lent = NULL;
  expect_ok(iobind_binding_place_output(binding, 0, IOBIND_OUTPUT_FRESH, device, IOBIND_MEMORY_DEFAULT, &fault));
  hold_a_run();
  expect_ok(iobind_binding_get_output(binding, 0, stream, &lent, &fault));
  BEHIND_GATE(&held, IOBIND_OK, iobind_tensor_read(lent, 0, got, sizeof got, NULL, &fault));
  assert_memory_equal(got, sixes, sizeof got);
}

#define ON(device, test) \
  { #device ": " #test, test, start, stop, #device }
#define ON_EACH(test) ON(vdev, test), ON(cpu, test), ON(cuda, test)
#define ON_GPUS(test) ON(vdev, test), ON(cuda, test)
#define ON_OTHERS(test) ON(vdev, test), ON(cpu, test)
#define ON_VDEV(test) ON(vdev, test)

static const struct CMUnitTest tests[] = {
    ON_EACH(output_that_was_bound_before),
    ON_EACH(output_that_is_bound_then),
    ON_EACH(output_that_takes_the_place_of_another),
    ON_EACH(part_of_an_output),
    ON_EACH(source_of_a_live_input),
    ON_EACH(what_a_copy_brings),
    ON_EACH(own_input_that_a_copy_brings),
    ON_GPUS(input_of_a_graph),
    ON_EACH(state_that_is_carried),
    ON_EACH(input_of_a_run_in_flight),
    ON_EACH(output_of_both),
    ON_EACH(source_of_a_copy),
    ON_EACH(source_that_is_a_reused_output),
    ON_EACH(reused_output_beside_a_swapped_state),
    ON_GPUS(constant_of_a_pipeline), /* no session computes on a thread's stream */
    ON_OTHERS(input_of_both),        /* CUDA's session waits for its stream */
    ON_VDEV(run_that_fails),         /* a GPU of CUDA's is lost by it */
    ON_EACH(turns),
    ON_EACH(states_of_queued_runs),
    ON_EACH(state_in_place),
    ON_EACH(state_that_a_copy_replaces),
    ON_EACH(state_that_is_written),
    ON_EACH(state_that_is_written_after_its_carry),
    ON_EACH(state_that_a_copy_replaces_after_its_carry),
    ON_GPUS(output_that_is_lent),
    ON_GPUS(output_that_is_lent_and_read),
};

FIXTURE_MAIN(tests, NULL, NULL);
