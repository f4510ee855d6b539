/* A kernel that is wrong always, or from a run on, is found in each mode: by the run in which it becomes wrong, and by those after it. */
#include "verified.h"

#include <stdio.h>
#include <string.h>

enum { RUNS = 3 };

/* Where the runs are submitted. */
typedef enum submission { AT_ONCE, ON_STREAM, ON_STREAM_OF_SESSION, WAYS } submission;

/* z = x + y, with a fault from a run on. */
typedef struct sum {
  iobind_session *session;
  iobind_binding *binding;
  iobind_stream *stream; /* NULL: AT_ONCE */
  iobind_stream *runs_on;
  iobind_tensor *x;
  iobind_tensor *y;
} sum;

static sum open_sum(submission way, size_t graph_limit) {
  sum self = {.x = make_filled(1), .y = make_filled(2)};
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  if (way != AT_ONCE) {
    expect_ok(iobind_stream_create(device, NULL, &self.stream, &fault));
  }
  self.runs_on = way == ON_STREAM ? self.stream : NULL;
  options.devices = &device;
  options.device_count = 1;
  options.graph_limit = graph_limit;
  options.stream = way == ON_STREAM_OF_SESSION ? self.stream : NULL;
  options.verify.runs = RUNS;
  expect_ok(test_session_with(runtime, "add", &options, &self.session, &fault));
  expect_ok(iobind_binding_create(self.session, &self.binding, &fault));
  expect_ok(iobind_binding_set_input(self.binding, 0, IOBIND_INPUT_RESIDENT, self.x, NULL, &fault));
  expect_ok(iobind_binding_set_input(self.binding, 1, IOBIND_INPUT_RESIDENT, self.y, NULL, &fault));
  return self;
}

static void close_sum(sum *self) {
  set_wrong("0");
  iobind_binding_destroy(self->binding);
  iobind_tensor_release(self->x);
  iobind_tensor_release(self->y);
  iobind_session_destroy(self->session);
  iobind_stream_destroy(self->stream);
}

static iobind_status run(sum *self) {
  iobind_status status = iobind_binding_run(self->binding, self->runs_on, &fault);
  if (status == IOBIND_OK && self->runs_on != NULL) {
    status = iobind_stream_synchronize(self->runs_on, &fault);
  }
  return status;
}

static void set_wrong_from(int first) {
  char which[16];
  snprintf(which, sizeof which, "from:%d", first);
  set_wrong(first == 0 ? "every:1" : which);
}

/* `first` 0: always. */
static void expect_wrong_from(sum *self, int first) {
  set_wrong_from(first);
  for (int i = 1; i < first; i++) {
    expect_ok(run(self));
  }
  expect(IOBIND_ERROR_RESULT, run(self));
}

/* ---- inputs and outputs ---- */

static void bind_output(sum *self, int mode, iobind_tensor *target) {
  static const iobind_output_mode modes[] = {IOBIND_OUTPUT_FRESH, IOBIND_OUTPUT_REUSE, IOBIND_OUTPUT_FRESH,
                                             IOBIND_OUTPUT_REUSE};
  if (mode < 4) {
    expect_ok(iobind_binding_place_output(self->binding, 0, modes[mode], mode < 2 ? NULL : cpu, IOBIND_MEMORY_DEFAULT, &fault));
  } else if (mode == 4) {
    expect_ok(iobind_binding_set_output(self->binding, 0, target, 0, &fault));
  } else { /* the sum is written where x is */
    expect_ok(iobind_binding_set_output(self->binding, 0, self->x, IOBIND_OUTPUT_IN_PLACE, &fault));
  }
}

static void outputs_on(submission way) {
  for (int mode = 0; mode < 6; mode++) {
    for (int first = 0; first <= RUNS; first++) {
      sum self = open_sum(way, 0);
      iobind_tensor *target = make_filled(0);
      bind_output(&self, mode, target);
      expect_wrong_from(&self, first);
      expect(IOBIND_ERROR_RESULT, run(&self));
      close_sum(&self);
      iobind_tensor_release(target);
    }
  }
}

static void outputs(void **state) {
  (void)state;
  outputs_on(AT_ONCE);
}

static void outputs_on_a_stream(void **state) {
  (void)state;
  outputs_on(ON_STREAM);
}

static void outputs_on_the_stream_of_a_session(void **state) {
  (void)state;
  outputs_on(ON_STREAM_OF_SESSION);
}

static void inputs(void **state) {
  (void)state;
  static const iobind_input_mode modes[] = {IOBIND_INPUT_SNAPSHOT, IOBIND_INPUT_LIVE};
  static const float values[N] = {1, 2, 3};
  for (int i = 0; i < 2 * WAYS; i++) {
    for (int first = 0; first <= RUNS; first++) {
      sum self = open_sum((submission)(i / 2), 0);
      iobind_tensor *source = fixture_floats(cpu, values, N);
      expect_ok(iobind_binding_set_input(self.binding, 0, modes[i % 2], source, NULL, &fault));
      expect_wrong_from(&self, first);
      expect(IOBIND_ERROR_RESULT, run(&self));
      close_sum(&self);
      iobind_tensor_release(source);
    }
  }
}

static void taken(void **state) {
  (void)state;
  for (int first = 1; first <= RUNS; first++) {
    sum self = open_sum(AT_ONCE, 0);
    iobind_tensor *outputs[RUNS] = {NULL};
    set_wrong_from(first);
    for (int i = 1; i < first; i++) {
      expect_ok(run(&self));
      expect_ok(iobind_binding_take_output(self.binding, 0, &outputs[i], &fault));
    }
    expect(IOBIND_ERROR_RESULT, run(&self));
    set_wrong("0");
    for (int i = 1; i < first; i++) {
      expect_all(outputs[i], 3);
      iobind_tensor_release(outputs[i]);
    }
    close_sum(&self);
  }
}

/* ---- states ---- */

static void carried(iobind_carry_mode mode, submission way, int first) {
  sum self = open_sum(way, 0);
  expect_ok(iobind_binding_carry(self.binding, 0, 0, mode, &fault));
  expect_ok(iobind_binding_set_input(self.binding, 0, IOBIND_INPUT_RESIDENT, self.x, NULL, &fault));
  expect_wrong_from(&self, first);
  if (mode == IOBIND_CARRY_IN_PLACE) {
    expect(IOBIND_ERROR_INVALID_STATE, run(&self));
    expect_ok(iobind_binding_set_input(self.binding, 0, IOBIND_INPUT_RESIDENT, self.x, NULL, &fault));
  }
  expect(IOBIND_ERROR_RESULT, run(&self));
  close_sum(&self);
}

static void states_of(iobind_carry_mode mode) {
  for (int i = 0; i < WAYS; i++) {
    for (int first = 0; first <= RUNS; first++) {
      carried(mode, (submission)i, first);
    }
  }
}

static void moved(void **state) {
  (void)state;
  states_of(IOBIND_CARRY_MOVE);
}

static void swapped(void **state) {
  (void)state;
  states_of(IOBIND_CARRY_SWAP);
}

static void in_place(void **state) {
  (void)state;
  states_of(IOBIND_CARRY_IN_PLACE);
}

/* The state that was saved is right; runs after it are found as those before. */
static void restored(void **state) {
  (void)state;
  for (int first = 0; first < RUNS; first++) {
    sum self = open_sum(AT_ONCE, 0);
    iobind_state *saved;
    expect_ok(iobind_binding_carry(self.binding, 0, 0, IOBIND_CARRY_MOVE, &fault));
    expect_ok(iobind_binding_set_input(self.binding, 0, IOBIND_INPUT_RESIDENT, self.x, NULL, &fault));
    expect_ok(run(&self));
    expect_ok(iobind_binding_save_state(self.binding, &saved, &fault));
    expect_ok(iobind_binding_restore_state(self.binding, saved, &fault));
    expect_wrong_from(&self, first);
    iobind_state_release(saved);
    close_sum(&self);
  }
}

/* ---- captured graphs: each run from the one before the capture to the last replay that is verified ---- */

static void graphs_of(iobind_carry_mode mode, submission way) {
  enum { KERNELS = 5 };
  for (int first = 0; first <= KERNELS; first++) {
    sum self = open_sum(way, 2);
    expect_ok(iobind_binding_carry(self.binding, 0, 0, mode, &fault));
    expect_ok(iobind_binding_set_input(self.binding, 0, IOBIND_INPUT_RESIDENT, self.x, NULL, &fault));
    set_wrong_from(first);
    iobind_status status = IOBIND_OK;
    for (int i = 0; i < RUNS && status == IOBIND_OK; i++) {
      status = run(&self);
    }
    assert_int_equal(status, IOBIND_ERROR_RESULT);
    if (first <= 1) {
      expect_words("from the run before the capture of a graph");
    }
    close_sum(&self);
  }
}

static void captured(void **state) {
  (void)state;
  const int ways = is_device("vdev") ? ON_STREAM_OF_SESSION : WAYS; /* where vdev captures nothing */
  for (int i = 0; i < ways; i++) {
    graphs_of(IOBIND_CARRY_SWAP, (submission)i);
    graphs_of(IOBIND_CARRY_IN_PLACE, (submission)i);
  }
}

#define ON(device, test) \
  { #device ": " #test, test, verified_start, stage_close, #device }
#define ON_GPUS(test) ON(vdev, test), ON(cuda, test)

static const struct CMUnitTest tests[] = {
    ON_GPUS(outputs),
    ON_GPUS(outputs_on_a_stream),
    ON_GPUS(outputs_on_the_stream_of_a_session),
    ON_GPUS(inputs),
    ON_GPUS(taken),
    ON_GPUS(moved),
    ON_GPUS(swapped),
    ON_GPUS(in_place),
    ON_GPUS(restored),
    ON_GPUS(captured),
};

FIXTURE_MAIN(tests, NULL, NULL);
