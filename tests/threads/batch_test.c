/* A live batch in the hands of several threads: each lets a row join, makes steps of it by itself or with the others' rows, and has its results
 * and its state; and batches of one session, each of a thread's own. b = max(b, x), z = b + gain. */
#define _POSIX_C_SOURCE 200809L /* barriers */

#include "threads.h"

enum { ROUNDS = 12, COLUMNS = 4, X = 0, GAIN = 1, Z = 1, PAIR_OF_B = 1 };
static const iobind_batch_pair pairs[] = {{2, 2}, {3, 3}, {4, 4}};

typedef struct shared {
  iobind_session *session;
  iobind_batch *batch; /* NULL: each thread makes its own */
} shared;

static iobind_tensor *host_tensor(const int64_t *dims, size_t rank, const float *values, size_t count) {
  iobind_tensor *made = NULL;
  if (iobind_tensor_create(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, rank, &made, NULL) != IOBIND_OK) {
    return NULL;
  }
  return iobind_tensor_write(made, 0, values, count * sizeof values[0], NULL, NULL) == IOBIND_OK ? made : NULL;
}

static iobind_batch *make_batch(iobind_session *session) {
  static const float one = 1;
  iobind_batch_options options = IOBIND_BATCH_OPTIONS_INIT;
  iobind_batch *made = NULL;
  iobind_tensor *gain = host_tensor(NULL, 0, &one, 1);
  options.most_rows = THREADS;
  options.pairs = pairs;
  options.pair_count = sizeof pairs / sizeof pairs[0];
  bool good = gain != NULL && iobind_batch_create(session, &options, &made, NULL) == IOBIND_OK &&
              iobind_batch_set_input(made, IOBIND_BATCH_ALL, GAIN, gain, NULL) == IOBIND_OK;
  iobind_tensor_release(gain);
  return good ? made : NULL;
}

static bool tensor_has(iobind_tensor *tensor, float expected) {
  float got[COLUMNS] = {0};
  bool good = iobind_tensor_read(tensor, 0, got, sizeof got, NULL, NULL) == IOBIND_OK;
  for (size_t i = 0; i < COLUMNS; i++) {
    good = good && got[i] == expected;
  }
  return good;
}

static bool hears(iobind_batch *batch, uint64_t slot, float expected) {
  iobind_tensor *z = NULL;
  bool good = iobind_batch_take_output(batch, slot, Z, &z, NULL) == IOBIND_OK && tensor_has(z, expected);
  iobind_tensor_release(z);
  return good;
}

static bool state_has(iobind_state *state, float expected) {
  iobind_state_pair pair = IOBIND_STATE_PAIR_INIT;
  return iobind_state_get_pair(state, PAIR_OF_B, &pair, NULL) == IOBIND_OK && tensor_has(pair.tensor, expected);
}

/* By itself, or with other rows that were submitted: any thread may make that step. */
static void make_step(member *self, iobind_batch *batch, uint64_t slot, size_t round) {
  if (round % 2 == 0) {
    WELL(self, iobind_batch_run(batch, &slot, 1, NULL, NULL));
    return;
  }
  iobind_batch_wait now = IOBIND_BATCH_WAIT_INIT;
  now.rows = 1;
  now.timeout_ns = 1;
  WELL(self, iobind_batch_submit(batch, slot, NULL));
  iobind_status status = iobind_batch_step(batch, &now, NULL, 0, NULL, NULL);
  HOLDS(self, status == IOBIND_OK || status == IOBIND_ERROR_TIMEOUT);
  WELL(self, iobind_batch_await(batch, slot, IOBIND_NO_TIMEOUT, NULL));
}

static void call_in(member *self) {
  static const int64_t dims[] = {1, COLUMNS};
  const shared *of = self->shared;
  iobind_batch *batch = of->batch != NULL ? of->batch : make_batch(of->session);
  iobind_batch_info info = IOBIND_BATCH_INFO_INIT;
  iobind_state *state = NULL;
  uint64_t slot = 0;
  HOLDS(self, batch != NULL);
  for (size_t round = 0; round < ROUNDS && self->good; round++) {
    const float value = (float)(self->number * ROUNDS + round + 1);
    iobind_tensor *x = host_tensor(dims, 2, (const float[COLUMNS]){value, value, value, value}, COLUMNS);
    HOLDS(self, x != NULL);
    if (round % 4 == 0) { /* a row goes on where it was */
      WELL(self, iobind_batch_join(batch, state, &slot, NULL));
      iobind_state_release(state);
      state = NULL;
    }
    WELL(self, iobind_batch_set_input(batch, slot, X, x, NULL));
    iobind_tensor_release(x);
    make_step(self, batch, slot, round);
    HOLDS(self, self->good && hears(batch, slot, value + 1));
    WELL(self, iobind_batch_get_info(batch, &info, NULL));
    WELL(self, iobind_batch_save_state(batch, slot, &state, NULL));
    HOLDS(self, self->good && state_has(state, value));
    if (round % 4 == 3) {
      WELL(self, iobind_batch_leave(batch, slot, NULL, NULL));
    } else {
      iobind_state_release(state);
      state = NULL;
    }
  }
  iobind_state_release(state);
  if (of->batch == NULL) {
    iobind_batch_destroy(batch);
  }
}

/* ---- servers: without a longest wait, a wake-up that is missing would leave all waiting -------------------------------- */

enum { SERVERS = 2, WINDOWS = 200 };

typedef struct server {
  pthread_t thread;
  iobind_batch *batch;
  size_t rows; /* a step is made of so many, or of all that are left */
  bool good;
} server;

static void *serve(void *context) {
  server *self = context;
  iobind_batch_wait wait = IOBIND_BATCH_WAIT_INIT;
  iobind_status status = IOBIND_OK;
  wait.rows = self->rows;
  wait.longest_ns = IOBIND_NO_TIMEOUT;
  while (status == IOBIND_OK) {
    status = iobind_batch_step(self->batch, &wait, NULL, 0, NULL, NULL);
  }
  self->good = status == IOBIND_ERROR_CANCELLED;
  return NULL;
}

static void call_servers(member *self) {
  static const int64_t dims[] = {1, COLUMNS};
  iobind_batch *batch = ((const shared *)self->shared)->batch;
  uint64_t slot = 0;
  WELL(self, iobind_batch_join(batch, NULL, &slot, NULL));
  for (size_t window = 0; window < WINDOWS && self->good; window++) {
    const float value = (float)(self->number * WINDOWS + window + 1);
    iobind_tensor *x = host_tensor(dims, 2, (const float[COLUMNS]){value, value, value, value}, COLUMNS);
    HOLDS(self, x != NULL);
    WELL(self, iobind_batch_set_input(batch, slot, X, x, NULL));
    iobind_tensor_release(x);
    WELL(self, iobind_batch_submit(batch, slot, NULL));
    WELL(self, iobind_batch_await(batch, slot, IOBIND_NO_TIMEOUT, NULL));
    HOLDS(self, self->good && hears(batch, slot, value + 1));
  }
  WELL(self, iobind_batch_leave(batch, slot, NULL, NULL));
}

/* ---- all ------------------------------------------------------------------------------------------------------------- */

static void of_all(bool is_one) {
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  shared of = {NULL, NULL};
  options.devices = &vdev;
  options.device_count = 1;
  expect_ok(test_session_with(runtime, "voices", &options, &of.session, &fault));
  if (is_one) {
    of.batch = make_batch(of.session);
    assert_non_null(of.batch);
  }
  threads_run(call_in, &of);
  iobind_batch_stop(of.batch);
  iobind_batch_destroy(of.batch);
  iobind_session_destroy(of.session);
}

static void one_batch(void **state) {
  (void)state;
  of_all(true);
}

static void batches_of_one_session(void **state) {
  (void)state;
  of_all(false);
}

static void servers_of_one_batch(void **state) {
  (void)state;
  server servers[SERVERS];
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  shared of = {NULL, NULL};
  options.devices = &vdev;
  options.device_count = 1;
  expect_ok(test_session_with(runtime, "voices", &options, &of.session, &fault));
  of.batch = make_batch(of.session);
  assert_non_null(of.batch);
  for (size_t i = 0; i < SERVERS; i++) {
    servers[i] = (server){.batch = of.batch, .rows = i + 2};
    assert_int_equal(pthread_create(&servers[i].thread, NULL, serve, &servers[i]), 0);
  }
  threads_run(call_servers, &of);
  iobind_batch_stop(of.batch);
  for (size_t i = 0; i < SERVERS; i++) {
    assert_int_equal(pthread_join(servers[i].thread, NULL), 0);
    assert_true(servers[i].good);
  }
  iobind_batch_destroy(of.batch);
  iobind_session_destroy(of.session);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(one_batch),
    cmocka_unit_test(batches_of_one_session),
    cmocka_unit_test(servers_of_one_batch),
};

FIXTURE_MAIN(tests, threads_open, threads_close);
