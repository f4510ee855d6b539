/* bench_join [MOST]: what a row costs that joins a batch of 50, whose states are those of a streaming encoder: 97 states, the batch on axis 1,
 * 1.8 MB a row. A row leaves, and another joins from a saved state in its place: its states move in 2,328 pieces, and those of the other rows stay.
 *
 * The cost is the processor time of the join and its step less that of the step before. Beside it the time to copy the same pieces by plain
 * memcpy, between memory of the same sizes. Both are medians of PAIRS. With a limit it ends with 1 if the cost is more than so many times the
 * copy in each of three rounds: other processes disturb a round. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fixture.h"
#include "model.h"

enum {
  STATES = MODEL_ENCODER_STATES,
  LEAD = MODEL_ENCODER_LEAD,
  PIECE = MODEL_ENCODER_REST * sizeof(float),
  ROWS = 50,
  SAVED = 8, /* more bytes than the processor keeps near */
  PAIRS = 101,
  WARM_UP = 4,
  ROUNDS = 3
};

static iobind_error error = IOBIND_ERROR_INIT;
static fixture f;
static iobind_batch *batch;
static uint64_t slots[ROWS];
static iobind_state *saved[SAVED];
static char *copied[STATES];

static void must(iobind_status status) {
  fixture_check(status, &error);
}

static void open_batch(void) {
  static iobind_batch_pair pairs[STATES];
  iobind_batch_options options = IOBIND_BATCH_OPTIONS_INIT;
  for (size_t i = 0; i < STATES; i++) pairs[i] = (iobind_batch_pair){i, i};
  options.most_rows = ROWS;
  options.pairs = pairs;
  options.pair_count = STATES;
  must(iobind_batch_create(f.session, &options, &batch, &error));
}

static void set_x(size_t row) {
  static const int64_t dims[] = {1, 1};
  static float x = 1;
  iobind_buffer buffer = IOBIND_BUFFER_INIT;
  iobind_tensor *tensor;
  buffer.dtype = IOBIND_DTYPE_FLOAT32;
  buffer.dims = dims;
  buffer.rank = 2;
  buffer.data = &x;
  buffer.bytes = sizeof x;
  must(iobind_tensor_wrap(f.cpu, &buffer, &tensor, &error));
  must(iobind_batch_set_input(batch, slots[row], STATES, tensor, &error));
  iobind_tensor_release(tensor);
}

static double step(void) {
  for (size_t i = 0; i < ROWS; i++) set_x(i);
  const double begun = fixture_thread_ms();
  must(iobind_batch_run(batch, slots, ROWS, NULL, &error));
  return fixture_thread_ms() - begun;
}

static void fill(void) {
  for (size_t i = 0; i < ROWS; i++) must(iobind_batch_join(batch, NULL, &slots[i], &error));
  (void)step();
  for (size_t i = 0; i < SAVED; i++) must(iobind_batch_save_state(batch, slots[i], &saved[i], &error));
}

static double join(size_t row, iobind_state *state) {
  must(iobind_batch_leave(batch, slots[row], NULL, &error));
  const double begun = fixture_thread_ms();
  must(iobind_batch_join(batch, state, &slots[row], &error));
  return fixture_thread_ms() - begun;
}

static uint64_t count_moved(void) {
  iobind_batch_info info = IOBIND_BATCH_INFO_INIT;
  must(iobind_batch_get_info(batch, &info, &error));
  return info.moved_rows;
}

static double cost_of_join(size_t row, iobind_state *state) {
  (void)step(); /* so that the two that are compared begin alike */
  const uint64_t before = count_moved();
  const double alone = step(), joined = join(row, state), cost = joined + step() - alone;
  if (count_moved() == before + 1) return cost;
  fprintf(stderr, "bench_join: %llu rows moved, not 1\n", (unsigned long long)(count_moved() - before));
  exit(1);
}

static double copy_alone(size_t row, const iobind_state *state) {
  const char *pieces[STATES];
  for (size_t i = 0; i < STATES; i++) {
    iobind_state_pair pair = IOBIND_STATE_PAIR_INIT;
    void *data;
    must(iobind_state_get_pair(state, i, &pair, &error));
    must(iobind_tensor_map(pair.tensor, IOBIND_DTYPE_FLOAT32, IOBIND_ACCESS_READ, &data, &error));
    pieces[i] = data;
  }
  const double begun = fixture_thread_ms();
  for (size_t i = 0; i < STATES; i++) {
    for (size_t lead = 0; lead < LEAD; lead++) memcpy(copied[i] + (lead * ROWS + row) * PIECE, pieces[i] + lead * PIECE, PIECE);
  }
  return fixture_thread_ms() - begun;
}

static double measure(double *copy_ms) {
  static double costs[PAIRS], copies[PAIRS];
  for (int i = -WARM_UP; i < PAIRS; i++) {
    const size_t row = (size_t)(i + WARM_UP) * 7 % ROWS, state = (size_t)(i + WARM_UP) % SAVED;
    const double cost = cost_of_join(row, saved[state]), copy = copy_alone(row, saved[(state + SAVED / 2) % SAVED]);
    if (i < 0) continue;
    costs[i] = cost;
    copies[i] = copy;
  }
  *copy_ms = fixture_median(copies, PAIRS);
  return fixture_median(costs, PAIRS);
}

int main(int argc, char **argv) {
  const double most = argc > 1 ? strtod(argv[1], NULL) : 0;
  int holds = 0;
  fixture_open_model(&f, model_encoder);
  open_batch();
  fill();
  for (size_t i = 0; i < STATES; i++) {
    copied[i] = malloc((size_t)LEAD * ROWS * PIECE);
    if (copied[i] == NULL) return 1;
    memset(copied[i], 0, (size_t)LEAD * ROWS * PIECE);
  }
  for (int round = 0; round < ROUNDS && !holds; round++) {
    double copy_ms;
    const double cost = measure(&copy_ms);
    printf("a row of 1.8 MB joins 49 others: %.3f ms; memcpy of its pieces alone takes %.3f ms\n", cost, copy_ms);
    holds = most == 0 || cost <= most * copy_ms;
  }
  for (size_t i = 0; i < STATES; i++) free(copied[i]);
  for (size_t i = 0; i < SAVED; i++) iobind_state_release(saved[i]);
  iobind_batch_destroy(batch);
  fixture_close(&f);
  return !holds;
}
