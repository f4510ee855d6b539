/* Live batches on one GPU while the other one is current. z = max(b, x) + gain for each row of the model `voices`. */
#include "current.h"

enum { ROWS = 2, X = 0, GAIN = 1, Z = 1 };

typedef struct stepper {
  world w;
  iobind_session *session;
  iobind_batch *batch;
  uint64_t slots[ROWS];
  iobind_tensor *x; /* one row, on the host */
  iobind_tensor *gain;
  iobind_state *state;
} stepper;

static iobind_status create(stepper *self) {
  static const iobind_batch_pair pairs[] = {{2, 2}, {3, 3}, {4, 4}};
  iobind_batch_options options = IOBIND_BATCH_OPTIONS_INIT;
  options.most_rows = ROWS;
  options.pairs = pairs;
  options.pair_count = sizeof pairs / sizeof pairs[0];
  return iobind_batch_create(self->session, &options, &self->batch, &fault);
}

static stepper make_session_of(int own) {
  static const int64_t dims[] = {1, COUNT};
  static const float one = 1;
  stepper self = {.w = make_world(own)};
  self.session = make_session(self.w.device, "voices", 0, NULL);
  expect_ok(iobind_tensor_create(host(), IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 2, &self.x, &fault));
  expect_ok(iobind_tensor_write(self.x, 0, values, sizeof values, NULL, &fault));
  expect_ok(iobind_tensor_create(host(), IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, NULL, 0, &self.gain, &fault));
  expect_ok(iobind_tensor_write(self.gain, 0, &one, sizeof one, NULL, &fault));
  make_current(own);
  return self;
}

static void bring(const stepper *self, size_t which) {
  expect_ok(iobind_batch_set_input(self->batch, self->slots[which], X, self->x, &fault));
}

/* A batch that two rows have joined, with their inputs. */
static stepper make_stepper(int own) {
  stepper self = make_session_of(own);
  expect_ok(create(&self));
  expect_ok(iobind_batch_set_input(self.batch, IOBIND_BATCH_ALL, GAIN, self.gain, &fault));
  for (size_t i = 0; i < ROWS; i++) {
    expect_ok(iobind_batch_join(self.batch, NULL, &self.slots[i], &fault));
    bring(&self, i);
  }
  make_current(own);
  return self;
}

static void end_stepper(stepper *self) {
  iobind_batch_destroy(self->batch);
  iobind_state_release(self->state);
  iobind_session_destroy(self->session);
  iobind_tensor_release(self->x);
  iobind_tensor_release(self->gain);
  end_world(&self->w);
}

static void expect_heard(const stepper *self, size_t which) {
  iobind_tensor *z;
  float got[COUNT] = {0};
  expect_ok(iobind_batch_take_output(self->batch, self->slots[which], Z, &z, &fault));
  expect_ok(iobind_tensor_read(z, 0, got, sizeof got, NULL, &fault));
  iobind_tensor_release(z);
  for (int i = 0; i < COUNT; i++) {
    assert_true(got[i] == values[i] + 1);
  }
}

static void batch_create(int own) {
  stepper self = make_session_of(own);
  ELSEWHERE(own, create(&self));
  end_stepper(&self);
}

static void batch_destroy(int own) {
  stepper self = make_stepper(own);
  ELSEWHERE_VOID(own, iobind_batch_destroy(self.batch));
  self.batch = NULL;
  end_stepper(&self);
}

static void batch_set_input(int own) {
  stepper self = make_stepper(own);
  ELSEWHERE(own, iobind_batch_set_input(self.batch, self.slots[0], X, self.x, &fault));
  ELSEWHERE(own, iobind_batch_set_input(self.batch, IOBIND_BATCH_ALL, GAIN, self.gain, &fault));
  end_stepper(&self);
}

static void batch_run(int own) {
  stepper self = make_stepper(own);
  ELSEWHERE(own, iobind_batch_run(self.batch, self.slots, 1, NULL, &fault));
  bring(&self, 0);
  ELSEWHERE(own, iobind_batch_run(self.batch, self.slots, ROWS, NULL, &fault));
  expect_heard(&self, 0);
  expect_heard(&self, 1);
  end_stepper(&self);
}

static void batch_run__on_a_stream(int own) {
  stepper self = make_stepper(own);
  ELSEWHERE(own, iobind_batch_run(self.batch, self.slots, ROWS, self.w.stream, &fault));
  expect_heard(&self, 0);
  end_stepper(&self);
}

static void batch_take_output(int own) {
  stepper self = make_stepper(own);
  iobind_tensor *y;
  expect_ok(iobind_batch_run(self.batch, self.slots, ROWS, self.w.stream, &fault));
  ELSEWHERE(own, iobind_batch_take_output(self.batch, self.slots[1], 0, &y, &fault));
  iobind_tensor_release(y);
  end_stepper(&self);
}

static void batch_save_state(int own) {
  stepper self = make_stepper(own);
  expect_ok(iobind_batch_run(self.batch, self.slots, ROWS, NULL, &fault));
  ELSEWHERE(own, iobind_batch_save_state(self.batch, self.slots[1], &self.state, &fault));
  end_stepper(&self);
}

static void batch_leave(int own) {
  stepper self = make_stepper(own);
  expect_ok(iobind_batch_run(self.batch, self.slots, ROWS, NULL, &fault));
  ELSEWHERE(own, iobind_batch_leave(self.batch, self.slots[0], &self.state, &fault));
  end_stepper(&self);
}

static void batch_submit(int own) {
  stepper self = make_stepper(own);
  expect_ok(iobind_batch_run(self.batch, self.slots, ROWS, self.w.stream, &fault));
  bring(&self, 0);
  ELSEWHERE(own, iobind_batch_submit(self.batch, self.slots[0], &fault)); /* it also ends the step in flight */
  end_stepper(&self);
}

static void batch_step(int own) {
  stepper self = make_stepper(own);
  for (size_t i = 0; i < ROWS; i++) {
    expect_ok(iobind_batch_submit(self.batch, self.slots[i], &fault));
  }
  ELSEWHERE(own, iobind_batch_step(self.batch, NULL, NULL, 0, NULL, &fault));
  expect_heard(&self, 1);
  end_stepper(&self);
}

static const struct CMUnitTest tests[] = {
    ROW(batch_create),      ROW(batch_destroy),    ROW(batch_set_input), ROW(batch_run),    ROW(batch_run__on_a_stream),
    ROW(batch_take_output), ROW(batch_save_state), ROW(batch_leave),     ROW(batch_submit), ROW(batch_step),
};

FIXTURE_MAIN(tests, NULL, NULL);
