/* Threads that share a session, each with a binding and a stream of its own: what one carries, takes, lends and reads on the host is its own. */
#define _GNU_SOURCE /* barriers */
#include "stage.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "vdev.h"
#include "../rig/calls.h"

enum { COUNT = 8, WORKERS = 4, ROUNDS = 12 };

typedef struct worker {
  pthread_t thread;
  void (*work)(struct worker *self);
  float first; /* of the numbers that are only this worker's */
  iobind_session *session;
  iobind_binding *binding;
  iobind_stream *stream;
  iobind_tensor *x;
  char problem[160]; /* the first one; cmocka's checks are the main thread's */
} worker;

static pthread_barrier_t together;

/* ---- what a worker does: after its first problem nothing more ---- */

#define WELL(self, call) ((self)->problem[0] == '\0' && is_well((self), (call), #call))

static bool is_well(worker *self, iobind_status status, const char *call) {
  if (status != IOBIND_OK) {
    (void)snprintf(self->problem, sizeof self->problem, "%.100s: %s", call, iobind_status_get_name(status));
  }
  return status == IOBIND_OK;
}

static void fill(worker *self, iobind_tensor *tensor, float value) {
  float values[COUNT];
  for (int i = 0; i < COUNT; i++) {
    values[i] = value;
  }
  (void)WELL(self, iobind_tensor_write(tensor, 0, values, sizeof values, NULL, NULL));
}

static void look(worker *self, const iobind_tensor *tensor, size_t count, float value) {
  float values[COUNT] = {0};
  if (WELL(self, iobind_tensor_read(tensor, 0, values, count * sizeof *values, NULL, NULL))) {
    for (size_t i = 0; i < count; i++) {
      if (values[i] != value) {
        (void)snprintf(self->problem, sizeof self->problem, "element %zu: expected %g, got %g", i, (double)value,
                       (double)values[i]);
      }
    }
  }
}

static iobind_stream *stream_of(const worker *self, int round) {
  return round % 3 == 0 ? NULL : self->stream;
}

static void *go(void *context) {
  worker *self = context;
  pthread_barrier_wait(&together);
  self->work(self);
  return NULL;
}

static void prepare(worker *self, iobind_session *session, int number) {
  float values[COUNT] = {0};
  self->first = (float)(1 + 100 * number);
  self->session = session;
  self->x = fixture_floats(device, values, COUNT);
  expect_ok(iobind_stream_create(device, NULL, &self->stream, &fault));
  expect_ok(iobind_binding_create(session, &self->binding, &fault));
}

/* All at once, on one session. */
static void work_together(const char *model, void (*work)(worker *self)) {
  iobind_session *session = fixture_session(runtime, device, model);
  worker workers[WORKERS] = {0};
  assert_int_equal(pthread_barrier_init(&together, NULL, WORKERS), 0);
  for (int i = 0; i < WORKERS; i++) {
    workers[i].work = work;
    prepare(&workers[i], session, i);
  }
  iobind_session_destroy(session);
  for (int i = 0; i < WORKERS; i++) {
    assert_int_equal(pthread_create(&workers[i].thread, NULL, go, &workers[i]), 0);
  }
  for (int i = 0; i < WORKERS; i++) {
    assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
  }
  for (int i = 0; i < WORKERS; i++) {
    iobind_binding_destroy(workers[i].binding);
    iobind_stream_destroy(workers[i].stream);
    iobind_tensor_release(workers[i].x);
  }
  pthread_barrier_destroy(&together);
  for (int i = 0; i < WORKERS; i++) {
    assert_string_equal(workers[i].problem, "");
  }
}

static void bind_x(worker *self) {
  (void)WELL(self, iobind_binding_set_input(self->binding, 0, IOBIND_INPUT_RESIDENT, self->x, NULL, NULL));
}

/* ---- y = 2 x ---- */

static void carry_each(worker *self, iobind_carry_mode mode) {
  iobind_tensor *y = NULL;
  float expected = self->first;
  (void)WELL(self, iobind_binding_clear(self->binding, NULL));
  fill(self, self->x, expected);
  (void)WELL(self, iobind_binding_set_input(self->binding, 0, IOBIND_INPUT_SNAPSHOT, self->x, NULL, NULL));
  (void)WELL(self, iobind_binding_carry(self->binding, 0, 0, mode, NULL));
  for (int round = 0; round < ROUNDS; round++) {
    (void)WELL(self, iobind_binding_run(self->binding, stream_of(self, round), NULL));
    if (stream_of(self, round) != NULL && stream_of(self, round + 1) == NULL) {
      (void)WELL(self, iobind_stream_synchronize(self->stream, NULL));
    }
    expected *= 2;
  }
  if (WELL(self, iobind_binding_get_output(self->binding, 0, NULL, &y, NULL))) {
    look(self, y, COUNT, expected);
  }
}

static void carry_all(worker *self) {
  for (int mode = IOBIND_CARRY_MOVE; mode <= IOBIND_CARRY_IN_PLACE; mode++) {
    carry_each(self, (iobind_carry_mode)mode);
  }
}

static void states_of_each(void **state) {
  (void)state;
  work_together("scale", carry_all);
}

static void take_rounds(worker *self, iobind_memory memory, int mode) {
  iobind_tensor *taken[ROUNDS] = {NULL};
  (void)WELL(self, call_binding_set_output(self->binding, 0, mode, device, memory, NULL, NULL));
  bind_x(self);
  for (int round = 0; round < ROUNDS; round++) {
    fill(self, self->x, self->first + (float)round);
    (void)WELL(self, iobind_binding_run(self->binding, stream_of(self, round), NULL));
    (void)WELL(self, iobind_binding_take_output(self->binding, 0, &taken[round], NULL));
  }
  for (int round = 0; round < ROUNDS; round++) {
    if (taken[round] != NULL) {
      look(self, taken[round], COUNT, 2 * (self->first + (float)round));
    }
    iobind_tensor_release(taken[round]);
  }
}

static void take_all(worker *self) {
  take_rounds(self, IOBIND_MEMORY_DEFAULT, IOBIND_OUTPUT_FRESH);
  take_rounds(self, IOBIND_MEMORY_DEFAULT, IOBIND_OUTPUT_REUSE);
}

static void outputs_taken_by_each(void **state) {
  (void)state;
  work_together("scale", take_all);
}

static void take_pinned(worker *self) {
  take_rounds(self, IOBIND_MEMORY_HOST_ACCESSIBLE, IOBIND_OUTPUT_FRESH);
  take_rounds(self, IOBIND_MEMORY_HOST_ACCESSIBLE, IOBIND_OUTPUT_REUSE);
}

static void pinned_outputs_of_each(void **state) {
  (void)state;
  work_together("scale", take_pinned);
}

static void lend_all(worker *self) {
  float values[COUNT] = {0};
  iobind_stream *later = NULL;
  (void)WELL(self, iobind_stream_create(device, NULL, &later, NULL));
  bind_x(self);
  for (int round = 0; round < ROUNDS; round++) {
    iobind_tensor *lent = NULL;
    fill(self, self->x, self->first + (float)round);
    (void)WELL(self, iobind_binding_run(self->binding, self->stream, NULL));
    if (WELL(self, iobind_binding_get_output(self->binding, 0, later, &lent, NULL))) {
      (void)WELL(self, iobind_tensor_read(lent, 0, values, sizeof values, later, NULL));
    }
    (void)WELL(self, iobind_stream_synchronize(later, NULL));
    if (self->problem[0] == '\0' && values[COUNT - 1] != 2 * (self->first + (float)round)) {
      (void)snprintf(self->problem, sizeof self->problem, "round %d: got %g", round, (double)values[COUNT - 1]);
    }
  }
  iobind_stream_destroy(later);
}

static void outputs_lent_to_each(void **state) {
  (void)state;
  work_together("scale", lend_all);
}

/* ---- inputs that all of them read ---- */

static iobind_tensor *of_all; /* it has no writer */

static void read_live(worker *self) {
  iobind_tensor *sum = NULL;
  bind_x(self);
  (void)WELL(self, iobind_binding_set_input(self->binding, 1, IOBIND_INPUT_LIVE, of_all, NULL, NULL));
  for (int round = 0; round < ROUNDS; round++) {
    fill(self, self->x, self->first + (float)round);
    (void)WELL(self, iobind_binding_run(self->binding, stream_of(self, round), NULL));
    if (WELL(self, iobind_binding_get_output(self->binding, 0, NULL, &sum, NULL))) {
      look(self, sum, COUNT, self->first + (float)round + 5);
    }
  }
}

static void a_live_input_of_all(void **state) {
  (void)state;
  static const float fives[COUNT] = {5, 5, 5, 5, 5, 5, 5, 5};
  of_all = fixture_floats(cpu, fives, COUNT);
  work_together("add", read_live);
  iobind_tensor_release(of_all);
}

/* One that is moved: while one worker gives it up, the others copy it on their streams. */
static void move_from(worker *self) {
  enum { TURNS = 100 };
  const iobind_tensor *from = of_all;
  iobind_tensor *y = NULL;
  for (int turn = 0; turn < TURNS; turn++) {
    (void)WELL(self, iobind_binding_set_input(self->binding, 0, IOBIND_INPUT_RESIDENT, of_all, NULL, NULL));
    (void)WELL(self, iobind_binding_carry(self->binding, 0, 0, IOBIND_CARRY_MOVE, NULL));
    (void)WELL(self, iobind_tensor_copy(&from, &self->x, 1, self->stream, NULL));
    (void)WELL(self, iobind_binding_run(self->binding, NULL, NULL));
    (void)WELL(self, iobind_binding_run(self->binding, NULL, NULL));
    look(self, self->x, COUNT, 5);
    if (WELL(self, iobind_binding_get_output(self->binding, 0, NULL, &y, NULL))) {
      look(self, y, COUNT, 20);
    }
  }
}

static void a_first_state_of_all(void **state) {
  (void)state;
  static const float fives[COUNT] = {5, 5, 5, 5, 5, 5, 5, 5};
  of_all = fixture_floats(device, fives, COUNT);
  work_together("scale", move_from);
  iobind_tensor_release(of_all);
}

/* The length is read on the host: by CUDA's EP always, on the virtual accelerator because it does not take the node. */
static void expand(worker *self) {
  static const int64_t one = 1;
  iobind_tensor *length = NULL;
  iobind_tensor *x = NULL;
  iobind_tensor *y = NULL;
  iobind_value_info info = IOBIND_VALUE_INFO_INIT;
  (void)WELL(self, iobind_session_get_input(self->session, 0, &info, NULL));
  (void)WELL(self, iobind_tensor_create(info.device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, &one, 1, &x, NULL));
  (void)WELL(self, iobind_tensor_write(x, 0, &self->first, sizeof self->first, NULL, NULL));
  (void)WELL(self, iobind_tensor_create(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_INT64, &one, 1, &length, NULL));
  (void)WELL(self, iobind_binding_set_input(self->binding, 0, IOBIND_INPUT_RESIDENT, x, NULL, NULL));
  (void)WELL(self, iobind_binding_set_input(self->binding, 1, IOBIND_INPUT_RESIDENT, length, NULL, NULL));
  for (int round = 0; round < ROUNDS; round++) {
    int64_t wanted = 1 + (round + (int64_t)self->first) % COUNT;
    (void)WELL(self, iobind_tensor_write(length, 0, &wanted, sizeof wanted, NULL, NULL));
    (void)WELL(self, iobind_binding_run(self->binding, stream_of(self, round), NULL));
    if (WELL(self, iobind_binding_get_output(self->binding, 0, NULL, &y, NULL))) {
      look(self, y, (size_t)wanted, self->first);
    }
  }
  iobind_tensor_release(x);
  iobind_tensor_release(length);
}

static void host_inputs_of_each(void **state) {
  (void)state;
  bool is_vdev = is_device("vdev");
  assert_true(!is_vdev || vdev_set(0, "deny", "Expand") == 0);
  work_together("expand dims=1 rank=1", expand);
  assert_true(!is_vdev || vdev_set(0, "deny", "") == 0);
}

#define ON(device, test) \
  { #device ": " #test, test, stage_open, stage_close, #device }
#define ON_EACH(test) ON(vdev, test), ON(cpu, test), ON(cuda, test)
#define ON_GPUS(test) ON(vdev, test), ON(cuda, test)

static const struct CMUnitTest tests[] = {
    ON_EACH(states_of_each),       ON_EACH(outputs_taken_by_each), ON_GPUS(pinned_outputs_of_each),
    ON_EACH(outputs_lent_to_each), ON_EACH(a_live_input_of_all),   ON_EACH(host_inputs_of_each),
    ON_EACH(a_first_state_of_all),
};

FIXTURE_MAIN(tests, NULL, NULL);
