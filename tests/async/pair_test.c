/* Two devices of one EP: what one has written is what the other reads, and a failure of one does not affect the other. */
#define _GNU_SOURCE /* gettid, nanosleep, setenv */
#include "filled.h"
#include "gate.h"
#include "../rig/calls.h"

#include <stdlib.h>

enum { PAIR = 2, TURNS = 4 };

typedef struct side {
  iobind_device *device;
  iobind_session *session;
  iobind_binding *binding; /* y = 2 x */
  iobind_stream *stream;
  iobind_tensor *x;
} side;

static side sides[PAIR];
static gate held; /* static: still valid after a test that fails with its gate closed */

static iobind_session *make_session(int of, const char *model, size_t graphs) {
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  iobind_session *made = NULL;
  options.devices = &sides[of].device;
  options.device_count = 1;
  options.graph_limit = graphs;
  expect_ok(test_session_with(runtime, model, &options, &made, &fault));
  return made;
}

static iobind_binding *make_binding(iobind_session *session, iobind_tensor *x) {
  iobind_binding *made = NULL;
  expect_ok(iobind_binding_create(session, &made, &fault));
  expect_ok(iobind_binding_set_input(made, 0, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
  return made;
}

static int start(void **state) {
  setenv("VDEV_DEVICES", "2", 1);
  (void)stage_open(state);
  for (int i = 0; i < PAIR; i++) {
    char spec[16];
    snprintf(spec, sizeof spec, "%s:%d", device_spec, i);
    sides[i].device = fixture_device(runtime, spec);
    sides[i].session = make_session(i, "scale", 0);
    sides[i].x = make_filled(sides[i].device, IOBIND_MEMORY_DEFAULT, (float)(i + 1));
    sides[i].binding = make_binding(sides[i].session, sides[i].x);
    expect_ok(iobind_stream_create(sides[i].device, NULL, &sides[i].stream, &fault));
    assert_true(!is_device("vdev") || vdev_set(i, "race", "fail") == 0);
  }
  return 0;
}

static int stop(void **state) {
  (void)state;
  for (int i = 0; i < PAIR; i++) {
    iobind_binding_destroy(sides[i].binding);
    iobind_stream_destroy(sides[i].stream);
    iobind_tensor_release(sides[i].x);
    iobind_session_destroy(sides[i].session);
  }
  return stage_close(state);
}

static void bind(iobind_input_mode mode, iobind_tensor *tensor) {
  expect_ok(iobind_binding_set_input(sides[0].binding, 0, mode, tensor, NULL, &fault));
}

static void expect_run(iobind_stream *stream, float value) {
  iobind_tensor *y = NULL;
  expect_ok(iobind_binding_run(sides[0].binding, stream, &fault));
  expect_ok(iobind_binding_get_output(sides[0].binding, 0, NULL, &y, &fault));
  expect_all(y, value);
}

/* ---- what one has, bound at the other ---- */

static void inputs_of_the_other(void **state) {
  (void)state;
  iobind_tensor *other = sides[1].x;
  expect(IOBIND_ERROR_WRONG_DEVICE, iobind_binding_set_input(sides[0].binding, 0, IOBIND_INPUT_RESIDENT, other, NULL, &fault));
  expect_words(":1'");
  for (int turn = 0; turn < TURNS; turn++) {
    iobind_stream *stream = turn % 2 == 0 ? NULL : sides[0].stream;
    fill(other, (float)turn);
    bind(IOBIND_INPUT_SNAPSHOT, other);
    fill(other, 50);
    expect_run(stream, 2 * (float)turn);
    bind(IOBIND_INPUT_LIVE, other);
    expect_run(stream, 100);
    fill(other, (float)turn + 60);
    expect_run(stream, 2 * ((float)turn + 60));
  }
}

static void outputs_on_the_other(void **state) {
  (void)state;
  for (int mode = IOBIND_OUTPUT_FRESH; mode <= IOBIND_OUTPUT_REUSE; mode++) {
    expect(IOBIND_ERROR_WRONG_DEVICE, call_binding_set_output(sides[0].binding, 0, (iobind_output_mode)mode, sides[1].device,
                                                              IOBIND_MEMORY_DEFAULT, NULL, &fault));
  }
  expect(IOBIND_ERROR_WRONG_DEVICE, iobind_binding_set_output(sides[0].binding, 0, sides[1].x, 0, &fault));
  expect_run(NULL, 2);
}

/* Pinned memory is the host's, whichever device it was made for. */
static void pinned_memory_of_the_other(void **state) {
  (void)state;
  iobind_tensor *in = make_filled(sides[1].device, IOBIND_MEMORY_HOST_ACCESSIBLE, 0);
  iobind_tensor *out = make_filled(sides[1].device, IOBIND_MEMORY_HOST_ACCESSIBLE, -1);
  for (int turn = 0; turn < TURNS; turn++) {
    iobind_stream *stream = turn % 2 == 0 ? NULL : sides[0].stream;
    fill(in, (float)turn);
    bind(turn < 2 ? IOBIND_INPUT_LIVE : IOBIND_INPUT_SNAPSHOT, in);
    expect_run(stream, 2 * (float)turn);
  }
  fixture_arm();
  iobind_status bound = iobind_binding_set_output(sides[0].binding, 0, out, 0, &fault);
  for (int turn = 0; bound == IOBIND_OK && turn < TURNS; turn++) {
    fill(in, (float)turn);
    bind(IOBIND_INPUT_LIVE, in);
    expect_run(turn % 2 == 0 ? NULL : sides[0].stream, 2 * (float)turn);
    expect_all(out, 2 * (float)turn);
  }
  assert_true(bound == IOBIND_OK || bound == IOBIND_ERROR_NOT_SUPPORTED || bound == IOBIND_ERROR_WRONG_DEVICE);
  iobind_tensor_release(in);
  iobind_tensor_release(out);
}

/* ---- what one has made, read by the other ---- */

/* Neither the first run nor the copy has begun when the second run is submitted. */
static void stages_on_both(void **state) {
  (void)state;
  iobind_event *there = NULL;
  expect_ok(iobind_event_create(sides[0].device, &there, &fault));
  expect_ok(iobind_binding_set_input(sides[1].binding, 0, IOBIND_INPUT_RESIDENT, sides[1].x, there, &fault));
  for (int turn = 0; turn < TURNS; turn++) {
    iobind_tensor *lent = NULL;
    iobind_tensor *y = NULL;
    fill(sides[0].x, (float)turn);
    fill(sides[1].x, -1);
    gate_close(&held, sides[0].stream);
    expect_ok(iobind_binding_run(sides[0].binding, sides[0].stream, &fault));
    expect(IOBIND_ERROR_WRONG_DEVICE, iobind_binding_get_output(sides[0].binding, 0, sides[1].stream, &lent, &fault));
    expect_ok(iobind_binding_get_output(sides[0].binding, 0, sides[0].stream, &lent, &fault));
    const iobind_tensor *from = lent;
    gate_begin(&held);
    expect_ok(iobind_tensor_copy(&from, &sides[1].x, 1, sides[0].stream, &fault));
    expect_ok(iobind_event_record(there, sides[0].stream, &fault));
    expect_ok(iobind_binding_run(sides[1].binding, sides[1].stream, &fault));
    gate_end(&held);
    expect_ok(iobind_binding_get_output(sides[1].binding, 0, NULL, &y, &fault));
    expect_all(y, 4 * (float)turn);
    expect_ok(iobind_stream_synchronize(sides[0].stream, &fault));
  }
  iobind_event_destroy(there);
}

static void taken_for_the_other(void **state) {
  (void)state;
  iobind_tensor *taken[TURNS];
  for (int turn = 0; turn < TURNS; turn++) {
    iobind_tensor *y = NULL;
    fill(sides[0].x, (float)turn);
    expect_ok(iobind_binding_run(sides[0].binding, turn % 2 == 0 ? NULL : sides[0].stream, &fault));
    expect_ok(iobind_binding_take_output(sides[0].binding, 0, &taken[turn], &fault));
    expect_ok(iobind_binding_set_input(sides[1].binding, 0, IOBIND_INPUT_LIVE, taken[turn], NULL, &fault));
    expect_ok(iobind_binding_run(sides[1].binding, turn % 2 == 0 ? NULL : sides[1].stream, &fault));
    expect_ok(iobind_binding_get_output(sides[1].binding, 0, NULL, &y, &fault));
    expect_all(y, 4 * (float)turn);
  }
  for (int turn = 0; turn < TURNS; turn++) {
    expect_all(taken[turn], 2 * (float)turn);
    iobind_tensor_release(taken[turn]);
  }
}

/* The memory is exported with the number of its device. */
static void handed_over_and_back(void **state) {
  (void)state;
  for (int i = 0; i < PAIR; i++) {
    iobind_tensor_info info = IOBIND_TENSOR_INFO_INIT;
    iobind_tensor *again = NULL;
    iobind_tensor *y = NULL;
    void *managed = NULL;
    expect_ok(iobind_tensor_to_dlpack(sides[i].x, 0, &managed, &fault));
    expect_ok(iobind_tensor_from_dlpack(runtime, managed, 0, &again, &fault));
    expect_ok(iobind_tensor_get_info(again, &info, &fault));
    assert_ptr_equal(info.device, sides[i].device);
    expect(IOBIND_ERROR_WRONG_DEVICE,
           iobind_binding_set_input(sides[1 - i].binding, 0, IOBIND_INPUT_RESIDENT, again, NULL, &fault));
    expect_ok(iobind_binding_set_input(sides[i].binding, 0, IOBIND_INPUT_RESIDENT, again, NULL, &fault));
    iobind_tensor_release(again);
    expect_ok(iobind_binding_run(sides[i].binding, sides[i].stream, &fault));
    expect_ok(iobind_binding_get_output(sides[i].binding, 0, NULL, &y, &fault));
    expect_all(y, 2 * (float)(i + 1));
  }
}

static void requests_by_turns(void **state) {
  (void)state;
  static const int32_t stays = IOBIND_PLACE_DEVICE;
  for (int turn = 0; turn < TURNS; turn++) {
    side *this = &sides[turn % 2];
    side *other = &sides[1 - turn % 2];
    iobind_run_request request = IOBIND_RUN_REQUEST_INIT;
    iobind_tensor *target = make_filled(this->device, IOBIND_MEMORY_DEFAULT, -1);
    iobind_tensor *y = NULL;
    request.placements = &stays;
    request.inputs = &other->x;
    expect(IOBIND_ERROR_WRONG_DEVICE, call_session_request(this->session, &request, &y, &fault));
    request.inputs = &this->x;
    request.targets = &other->x;
    expect(IOBIND_ERROR_WRONG_DEVICE, call_session_request(this->session, &request, &y, &fault));
    request.targets = turn < 2 ? NULL : &target;
    fill(this->x, (float)turn);
    expect_ok(call_session_request(this->session, &request, &y, &fault));
    expect_all(y, 2 * (float)turn);
    iobind_tensor_release(y);
    iobind_tensor_release(target);
  }
}

/* One tensor of the host's is read by sessions of both, and written between their runs. */
static void a_host_input_of_both(void **state) {
  (void)state;
  static const int64_t one = 1;
  iobind_tensor *bounds[2] = {NULL, NULL};
  iobind_session *sessions[PAIR];
  iobind_binding *bindings[PAIR];
  iobind_tensor *xs[PAIR];
  bool is_vdev = is_device("vdev");
  for (int i = 0; i < 2; i++) {
    expect_ok(iobind_tensor_create(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_INT64, &one, 1, &bounds[i], &fault));
  }
  for (int i = 0; i < PAIR; i++) {
    const float values[COUNT] = {0, 1, 2, 3, 4, 5, 6, 7};
    iobind_value_info info = IOBIND_VALUE_INFO_INIT;
    assert_true(!is_vdev || vdev_set(i, "deny", "Slice") == 0);
    sessions[i] = make_session(i, "slice", 0);
    assert_true(!is_vdev || vdev_set(i, "deny", "") == 0);
    expect_ok(iobind_session_get_input(sessions[i], 0, &info, &fault));
    xs[i] = fixture_floats(info.device, values, COUNT);
    bindings[i] = make_binding(sessions[i], xs[i]);
    for (size_t bound = 0; bound < 2; bound++) {
      expect_ok(iobind_binding_set_input(bindings[i], bound + 1, IOBIND_INPUT_RESIDENT, bounds[bound], NULL, &fault));
    }
  }
  for (int64_t turn = 0; turn < COUNT - 1; turn++) {
    const int64_t end = turn + 1;
    const float expected = (float)turn;
    expect_ok(iobind_tensor_write(bounds[0], 0, &turn, sizeof turn, NULL, &fault));
    expect_ok(iobind_tensor_write(bounds[1], 0, &end, sizeof end, NULL, &fault));
    for (int i = 0; i < PAIR; i++) {
      expect_ok(iobind_binding_run(bindings[i], sides[i].stream, &fault));
    }
    const int64_t none = 0;
    expect_ok(iobind_tensor_write(bounds[1], 0, &none, sizeof none, NULL, &fault)); /* after both */
    for (int i = 0; i < PAIR; i++) {
      iobind_tensor *y = NULL;
      expect_ok(iobind_binding_get_output(bindings[i], 0, NULL, &y, &fault));
      fixture_expect_floats(y, &expected, 1);
    }
  }
  for (int i = 0; i < PAIR; i++) {
    iobind_binding_destroy(bindings[i]);
    iobind_session_destroy(sessions[i]);
    iobind_tensor_release(xs[i]);
    iobind_tensor_release(bounds[i]);
  }
}

/* ---- both at work ---- */

static void states_of_both(void **state) {
  (void)state;
  for (int mode = IOBIND_CARRY_MOVE; mode <= IOBIND_CARRY_IN_PLACE; mode++) {
    float expected[PAIR] = {1, 2};
    for (int i = 0; i < PAIR; i++) {
      fill(sides[i].x, (float)(i + 1));
      expect_ok(iobind_binding_clear(sides[i].binding, &fault));
      expect_ok(iobind_binding_set_input(sides[i].binding, 0, IOBIND_INPUT_SNAPSHOT, sides[1 - i].x, NULL, &fault));
      expected[i] = (float)(2 - i);
    }
    for (int i = 0; i < PAIR; i++) {
      expect_ok(iobind_binding_carry(sides[i].binding, 0, 0, (iobind_carry_mode)mode, &fault));
    }
    for (int turn = 0; turn < 2 * TURNS; turn++) {
      int i = turn % 2;
      expect_ok(iobind_binding_run(sides[i].binding, sides[i].stream, &fault));
      expected[i] *= 2;
    }
    for (int i = 0; i < PAIR; i++) {
      iobind_tensor *y = NULL;
      expect_ok(iobind_binding_get_output(sides[i].binding, 0, NULL, &y, &fault));
      expect_all(y, expected[i]);
    }
  }
}

static void graphs_of_both(void **state) {
  (void)state;
  iobind_session *sessions[PAIR];
  iobind_binding *bindings[PAIR];
  for (int i = 0; i < PAIR; i++) {
    sessions[i] = make_session(i, "scale", 1);
    bindings[i] = make_binding(sessions[i], sides[i].x);
    expect(IOBIND_ERROR_NOT_SUPPORTED,
           iobind_binding_set_input(bindings[i], 0, IOBIND_INPUT_LIVE, sides[1 - i].x, NULL, &fault));
  }
  for (int turn = 0; turn < 2 * TURNS; turn++) {
    int i = turn % 2;
    iobind_tensor *y = NULL;
    fill(sides[i].x, (float)turn);
    expect_ok(iobind_binding_run(bindings[i], turn < TURNS ? NULL : sides[i].stream, &fault));
    expect_ok(iobind_binding_get_output(bindings[i], 0, NULL, &y, &fault));
    expect_all(y, 2 * (float)turn);
  }
  for (int i = 0; i < PAIR; i++) {
    iobind_binding_destroy(bindings[i]);
    iobind_session_destroy(sessions[i]);
  }
}

static void pipelines_of_both(void **state) {
  (void)state;
  enum { SLOTS = 2, ITEMS = 6 };
  iobind_pipeline *pipelines[PAIR];
  iobind_pipeline_options options = IOBIND_PIPELINE_OPTIONS_INIT;
  iobind_tensor *item = make_filled(cpu, IOBIND_MEMORY_DEFAULT, 0);
  options.slots = SLOTS;
  for (int i = 0; i < PAIR; i++) {
    expect_ok(call_pipeline_create(sides[i].session, &options, &pipelines[i], &fault));
  }
  for (int turn = 0; turn < ITEMS + SLOTS; turn++) {
    for (int i = 0; i < PAIR; i++) {
      if (turn >= SLOTS) {
        iobind_tensor *y = NULL;
        expect_ok(iobind_pipeline_next(pipelines[i], IOBIND_NO_TIMEOUT, &y, 1, NULL, &fault));
        expect_all(y, 2 * (float)(PAIR * (turn - SLOTS) + i));
      }
      if (turn < ITEMS) {
        fill(item, (float)(PAIR * turn + i));
        expect_ok(call_pipeline_submit(pipelines[i], &item, 1, &fault));
      }
    }
  }
  for (int i = 0; i < PAIR; i++) {
    iobind_pipeline_destroy(pipelines[i]);
  }
  iobind_tensor_release(item);
}

static void *run_one_side(void *context) {
  side *self = context;
  bool good = true;
  for (int turn = 0; good && turn < 10 * TURNS; turn++) {
    iobind_tensor *y = NULL;
    float value = (float)turn;
    float got = -1;
    good = iobind_tensor_write(self->x, 0, &value, sizeof value, NULL, NULL) == IOBIND_OK &&
           iobind_binding_run(self->binding, turn % 2 == 0 ? NULL : self->stream, NULL) == IOBIND_OK &&
           iobind_binding_get_output(self->binding, 0, NULL, &y, NULL) == IOBIND_OK &&
           iobind_tensor_read(y, 0, &got, sizeof got, NULL, NULL) == IOBIND_OK && got == 2 * value;
  }
  return good ? self : NULL;
}

static void a_thread_for_each(void **state) {
  (void)state;
  pthread_t threads[PAIR];
  for (int i = 0; i < PAIR; i++) {
    assert_int_equal(pthread_create(&threads[i], NULL, run_one_side, &sides[i]), 0);
  }
  for (int i = 0; i < PAIR; i++) {
    void *good = NULL;
    assert_int_equal(pthread_join(threads[i], &good), 0);
    assert_ptr_equal(good, &sides[i]);
  }
}

/* A row that is not there, which a run meets long after its call: the other device's work is none of it. */
static void a_failure_of_one(void **state) {
  (void)state;
  static const int64_t one = 1;
  static const int64_t beyond = 99999;
  iobind_session *table = make_session(0, "lookup", 0);
  iobind_tensor *index = NULL;
  iobind_tensor *y = NULL;
  expect_ok(iobind_tensor_create(sides[0].device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_INT64, &one, 1, &index, &fault));
  expect_ok(iobind_tensor_write(index, 0, &beyond, sizeof beyond, NULL, &fault));
  iobind_binding *bad = make_binding(table, index);
  gate_close(&held, sides[0].stream);
  expect_ok(iobind_binding_run(bad, sides[0].stream, &fault));
  expect_ok(iobind_binding_run(sides[1].binding, sides[1].stream, &fault));
  gate_open(&held);
  expect(IOBIND_ERROR_RUNTIME, iobind_stream_synchronize(sides[0].stream, &fault));
  expect_ok(iobind_stream_synchronize(sides[1].stream, &fault));
  expect_ok(iobind_binding_get_output(sides[1].binding, 0, NULL, &y, &fault));
  expect_all(y, 4);
  expect(IOBIND_ERROR_RUNTIME, iobind_binding_get_output(bad, 0, NULL, &y, &fault));
  expect_run(sides[0].stream, 2);
  iobind_binding_destroy(bad);
  iobind_tensor_release(index);
  iobind_session_destroy(table);
}

#define ON(device, test) \
  { #device ": " #test, test, start, stop, #device }
#define ON_GPUS(test) ON(vdev, test), ON(cuda, test)
#define ON_VDEV(test) ON(vdev, test)

static const struct CMUnitTest tests[] = {
    ON_GPUS(inputs_of_the_other), ON_GPUS(outputs_on_the_other), ON_GPUS(pinned_memory_of_the_other),
    ON_GPUS(stages_on_both),      ON_GPUS(taken_for_the_other),  ON_GPUS(handed_over_and_back),
    ON_GPUS(requests_by_turns),   ON_GPUS(a_host_input_of_both), ON_GPUS(states_of_both),
    ON_GPUS(graphs_of_both),      ON_GPUS(pipelines_of_both),    ON_GPUS(a_thread_for_each),
    ON_VDEV(a_failure_of_one), /* CUDA's EP reads past the table */
};

FIXTURE_MAIN(tests, NULL, NULL);
