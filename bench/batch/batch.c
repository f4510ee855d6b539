/* bench_batch MODEL [MOST-OF-ALL MOST-OF-FEW | --server | --memory MOST]: Silero's voice detector (a file of the variant without If) for 256 callers on one thread: a live batch beside ONNX
 * Runtime's own bound run of the same width, which copies no rows; beside a binding for each caller; and 17 callers of 256, other ones in each
 * step, beside a bound run of 17 rows. A step of the batch takes each caller's window, and hands each caller's result out.
 *
 * With --server, a server's loop instead: a window of each caller comes every 32 ms, evenly spread; how long until its result is there, how busy
 * the thread that makes the steps is, and how busy ONNX Runtime's bound runs of the same widths alone would keep it, for several longest waits.
 * The callers' thread is on another core, if there is one.
 *
 * With --memory, the resident memory of a process that has made steps of 256 callers, by the batch and by ONNX Runtime's bound run alone.
 *
 * Ratios are those of processor time of the thread, each step next to its raw run, medians. With limits it ends with 1 if a ratio is above its
 * own in each of three rounds, and with 77 if there is no model. Instructions would be steadier, but callgrind takes too long for this model. */
#define _GNU_SOURCE /* clock_gettime, pthread_setaffinity_np */

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "raw.h"

enum { MOST = 256, FEW = 17, WINDOW = 576, STATE = 128, RATE = 16000, PAIRS = 31, WARM_UP = 3, ROUNDS = 3 };

static iobind_error error = IOBIND_ERROR_INIT;
static const char *model_path;
static fixture f;
static raw r;
static float windows[MOST][WINDOW];

static void must(iobind_status status) {
  fixture_check(status, &error);
}

static void *read_model(size_t *bytes) {
  FILE *file = fopen(model_path, "rb");
  if (file == NULL || fseek(file, 0, SEEK_END) != 0) {
    perror(model_path);
    exit(1);
  }
  *bytes = (size_t)ftell(file);
  rewind(file);
  void *model = malloc(*bytes);
  if (model == NULL || fread(model, 1, *bytes, file) != *bytes) {
    perror(model_path);
    exit(1);
  }
  fclose(file);
  return model;
}

static uint32_t seed = 1;
static uint32_t random_number(void) {
  seed = seed * 1664525 + 1013904223;
  return seed >> 8;
}

/* ---- ONNX Runtime alone: two bindings between which the state goes to and fro ------------------------------------------- */

typedef struct raw_batch {
  OrtIoBinding *bindings[2];
  float *input;
  int turn;
} raw_batch;

static float *zeros(size_t count) {
  float *made = calloc(count, sizeof *made);
  if (made == NULL) exit(1);
  return made;
}

static raw_batch raw_batch_open(int64_t rows) {
  static int64_t rate = RATE;
  const int64_t input_dims[] = {rows, WINDOW}, state_dims[] = {2, rows, STATE}, output_dims[] = {rows, 1};
  raw_batch made = {.input = zeros((size_t)rows * WINDOW)};
  float *output = zeros((size_t)rows), *states[2] = {zeros((size_t)rows * 2 * STATE), zeros((size_t)rows * 2 * STATE)};
  OrtValue *sr = NULL;
  raw_check(&r, r.ort->CreateTensorWithDataAsOrtValue(r.memory, &rate, sizeof rate, NULL, 0,
                                                      ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64, &sr));
  for (int turn = 0; turn < 2; turn++) {
    raw_check(&r, r.ort->CreateIoBinding(r.session, &made.bindings[turn]));
    raw_check(&r, r.ort->BindInput(made.bindings[turn], "input", raw_tensor(&r, made.input, input_dims, 2)));
    raw_check(&r, r.ort->BindInput(made.bindings[turn], "state", raw_tensor(&r, states[turn], state_dims, 3)));
    raw_check(&r, r.ort->BindInput(made.bindings[turn], "sr", sr));
    raw_check(&r, r.ort->BindOutput(made.bindings[turn], "output", raw_tensor(&r, output, output_dims, 2)));
    raw_check(&r, r.ort->BindOutput(made.bindings[turn], "stateN", raw_tensor(&r, states[1 - turn], state_dims, 3)));
  }
  memcpy(made.input, windows, (size_t)rows * sizeof windows[0]);
  return made;
}

static void raw_run(raw_batch *batch) {
  raw_check(&r, r.ort->RunWithBinding(r.session, r.run_options, batch->bindings[batch->turn]));
  batch->turn = 1 - batch->turn;
}

static double raw_step(raw_batch *batch) {
  double begun = fixture_thread_ms();
  raw_run(batch);
  return fixture_thread_ms() - begun;
}

/* ---- iobind ------------------------------------------------------------------------------------------------------------ */

static size_t input, state, sr, output, next_state;

static void find_names(void) {
  must(iobind_session_find_input(f.session, "input", &input, &error));
  must(iobind_session_find_input(f.session, "state", &state, &error));
  must(iobind_session_find_input(f.session, "sr", &sr, &error));
  must(iobind_session_find_output(f.session, "output", &output, &error));
  must(iobind_session_find_output(f.session, "stateN", &next_state, &error));
}

static iobind_tensor *wrap(void *data, iobind_dtype dtype, const int64_t *dims, size_t rank, size_t bytes) {
  iobind_buffer buffer = IOBIND_BUFFER_INIT;
  iobind_tensor *tensor;
  buffer.dtype = (int32_t)dtype;
  buffer.dims = dims;
  buffer.rank = rank;
  buffer.data = data;
  buffer.bytes = bytes;
  must(iobind_tensor_wrap(f.cpu, &buffer, &tensor, &error));
  return tensor;
}

static iobind_tensor *rate_tensor(void) {
  static int64_t rate = RATE;
  return wrap(&rate, IOBIND_DTYPE_INT64, NULL, 0, sizeof rate);
}

static iobind_tensor *window_tensor(size_t row) {
  static const int64_t dims[] = {1, WINDOW};
  return wrap(windows[row], IOBIND_DTYPE_FLOAT32, dims, 2, sizeof windows[row]);
}

typedef struct callers {
  iobind_batch *batch;
  uint64_t slots[MOST];
  iobind_tensor *windows[MOST];
} callers;

static void open_callers(callers *self) {
  const iobind_batch_pair pair = {next_state, state};
  iobind_batch_options options = IOBIND_BATCH_OPTIONS_INIT;
  iobind_tensor *rate = rate_tensor();
  options.most_rows = MOST;
  options.pairs = &pair;
  options.pair_count = 1;
  must(iobind_batch_create(f.session, &options, &self->batch, &error));
  must(iobind_batch_set_input(self->batch, IOBIND_BATCH_ALL, sr, rate, &error));
  iobind_tensor_release(rate);
  for (size_t i = 0; i < MOST; i++) {
    must(iobind_batch_join(self->batch, NULL, &self->slots[i], &error));
    self->windows[i] = window_tensor(i);
  }
}

static void close_callers(callers *self) {
  for (size_t i = 0; i < MOST; i++) iobind_tensor_release(self->windows[i]);
  iobind_batch_destroy(self->batch);
}

/* A step of `count` callers, and the sum of what they hear. */
static double step_callers(callers *self, const size_t *who, size_t count) {
  uint64_t slots[MOST];
  float sum = 0;
  double begun = fixture_thread_ms();
  for (size_t i = 0; i < count; i++) {
    slots[i] = self->slots[who[i]];
    must(iobind_batch_set_input(self->batch, slots[i], input, self->windows[who[i]], &error));
  }
  must(iobind_batch_run(self->batch, slots, count, NULL, &error));
  for (size_t i = 0; i < count; i++) {
    iobind_tensor *heard;
    void *probability;
    must(iobind_batch_take_output(self->batch, slots[i], output, &heard, &error));
    must(iobind_tensor_map(heard, IOBIND_DTYPE_FLOAT32, IOBIND_ACCESS_READ, &probability, &error));
    sum += *(const float *)probability;
    iobind_tensor_release(heard);
  }
  double took = fixture_thread_ms() - begun;
  if (!(sum > 0)) {
    fprintf(stderr, "bench_batch: nothing was heard\n");
    exit(1);
  }
  return took;
}

static void choose(size_t *who, size_t count, int all) {
  size_t order[MOST];
  for (size_t i = 0; i < MOST; i++) order[i] = i;
  for (size_t i = 0; i < count; i++) {
    size_t other = all ? i : i + random_number() % (MOST - i);
    who[i] = order[other];
    order[other] = order[i];
  }
}

/* Pairs of a raw step and one of the batch's. */
static double measure(callers *self, size_t count, double *raw_ms, double *batch_ms) {
  static double ratios[PAIRS], raws[PAIRS], batches[PAIRS];
  raw_batch beside = raw_batch_open((int64_t)count);
  size_t who[MOST];
  for (int i = -WARM_UP; i < PAIRS; i++) {
    choose(who, count, count == MOST);
    double alone = raw_step(&beside), step = step_callers(self, who, count);
    if (i >= 0) {
      raws[i] = alone;
      batches[i] = step;
      ratios[i] = step / alone;
    }
  }
  *raw_ms = fixture_median(raws, PAIRS);
  *batch_ms = fixture_median(batches, PAIRS);
  return fixture_median(ratios, PAIRS);
}

/* ---- a binding for each caller ------------------------------------------------------------------------------------------ */

static double measure_bindings(void) {
  static iobind_binding *bindings[MOST];
  static double took[PAIRS];
  static const int64_t dims[] = {2, 1, STATE};
  iobind_tensor *rate = rate_tensor();
  for (size_t i = 0; i < MOST; i++) {
    iobind_tensor *window = window_tensor(i),
                  *first = wrap(zeros((size_t)2 * STATE), IOBIND_DTYPE_FLOAT32, dims, 3, sizeof(float[2][STATE]));
    must(iobind_binding_create(f.session, &bindings[i], &error));
    must(iobind_binding_set_input(bindings[i], input, IOBIND_INPUT_RESIDENT, window, NULL, &error));
    must(iobind_binding_set_input(bindings[i], sr, IOBIND_INPUT_RESIDENT, rate, NULL, &error));
    must(iobind_binding_set_input(bindings[i], state, IOBIND_INPUT_RESIDENT, first, NULL, &error));
    must(iobind_binding_carry(bindings[i], next_state, state, IOBIND_CARRY_SWAP, &error));
    iobind_tensor_release(window);
    iobind_tensor_release(first);
  }
  for (int n = -WARM_UP; n < PAIRS; n++) {
    double begun = fixture_thread_ms();
    for (size_t i = 0; i < MOST; i++) must(iobind_binding_run(bindings[i], NULL, &error));
    if (n >= 0) took[n] = fixture_thread_ms() - begun;
  }
  for (size_t i = 0; i < MOST; i++) iobind_binding_destroy(bindings[i]);
  iobind_tensor_release(rate);
  return fixture_median(took, PAIRS);
}

/* ---- a server's loop ---------------------------------------------------------------------------------------------------- */

/* Callers are elsewhere: their thread takes no time of the core that makes the steps. With one core it has to. */
static void take_core(size_t index) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(index, &cores);
  (void)pthread_setaffinity_np(pthread_self(), sizeof cores, &cores);
}

enum { PERIOD_NS = 32000000, PERIODS = 60, RESULTS = MOST * PERIODS };

static uint64_t clock_ns(clockid_t of) {
  struct timespec time;
  clock_gettime(of, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static uint64_t due[MOST]; /* when the caller's last window came */

static void *call_in(void *context) {
  const callers *self = context;
  take_core(1);
  const uint64_t begun = clock_ns(CLOCK_MONOTONIC);
  for (uint64_t n = 0; n < RESULTS; n++) {
    const size_t who = n % MOST;
    const uint64_t at = begun + n * PERIOD_NS / MOST;
    const struct timespec until = {.tv_sec = (time_t)(at / 1000000000u), .tv_nsec = (long)(at % 1000000000u)};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
    if (n >= MOST) { /* the last window's result was returned long ago, or this waits for it */
      must(iobind_batch_await(self->batch, self->slots[who], IOBIND_NO_TIMEOUT, NULL));
    }
    due[who] = at;
    must(iobind_batch_set_input(self->batch, self->slots[who], input, self->windows[who], NULL));
    must(iobind_batch_submit(self->batch, self->slots[who], NULL));
  }
  return NULL;
}

/* The processor time of so many bound runs of so many rows. */
static double raw_runs_ms(size_t runs, double rows) {
  static double took[PAIRS];
  raw_batch alone = raw_batch_open((int64_t)(rows + 0.5));
  for (int i = -WARM_UP; i < PAIRS; i++) {
    double step = raw_step(&alone);
    if (i >= 0) took[i] = step;
  }
  return (double)runs * fixture_median(took, PAIRS);
}

static size_t index_of(const callers *self, uint64_t slot) {
  size_t index = 0;
  while (self->slots[index] != slot) index++;
  return index;
}

static void serve(callers *self, uint64_t longest_ns) {
  static double late[RESULTS];
  iobind_batch_wait wait = IOBIND_BATCH_WAIT_INIT;
  pthread_t thread;
  size_t count = 0, steps = 0;
  wait.rows = MOST;
  wait.longest_ns = longest_ns;
  if (pthread_create(&thread, NULL, call_in, self) != 0) exit(1);
  const uint64_t begun = clock_ns(CLOCK_MONOTONIC), busy = clock_ns(CLOCK_THREAD_CPUTIME_ID);
  while (count < RESULTS) {
    uint64_t slots[MOST];
    size_t made = 0;
    must(iobind_batch_step(self->batch, &wait, slots, MOST, &made, &error));
    for (size_t i = 0; i < made; i++) {
      iobind_tensor *heard;
      must(iobind_batch_take_output(self->batch, slots[i], output, &heard, &error));
      iobind_tensor_release(heard);
      late[count++] = (double)(clock_ns(CLOCK_MONOTONIC) - due[index_of(self, slots[i])]) / 1e6;
    }
    steps++;
  }
  const double took = (double)(clock_ns(CLOCK_MONOTONIC) - begun), worked = (double)(clock_ns(CLOCK_THREAD_CPUTIME_ID) - busy);
  pthread_join(thread, NULL);
  const double middle = fixture_median(late, RESULTS), rows = (double)count / (double)steps;
  printf(
      "longest wait %.1f ms: p50 %.2f ms, p99 %.2f ms, %.1f rows a step, %.0f %% busy, by ONNX Runtime's bound runs alone %.0f %%\n",
      (double)longest_ns / 1e6, middle, late[RESULTS * 99 / 100], rows, 100 * worked / took,
      100 * raw_runs_ms(steps, rows) / (took / 1e6));
}

/* Every width is tested at first, which no caller is to wait for. */
static void serve_all(callers *self) {
  static const uint64_t waits[] = {500000, 1000000, 2000000, 5000000};
  size_t who[MOST];
  take_core(0);
  for (size_t width = 1; width <= MOST; width++) {
    choose(who, width, 0);
    (void)step_callers(self, who, width);
  }
  for (size_t i = 0; i < sizeof waits / sizeof waits[0]; i++) {
    for (size_t k = 0; k < MOST; k++) { /* nothing is awaited from before */
      must(iobind_batch_leave(self->batch, self->slots[k], NULL, &error));
      must(iobind_batch_join(self->batch, NULL, &self->slots[k], &error));
    }
    serve(self, waits[i]);
  }
}

/* ---- memory ------------------------------------------------------------------------------------------------------------- */

static void open_all(void) {
  fixture_open_model(&f, read_model);
  raw_open(&r, &f);
  find_names();
}

static double step_and_measure(int by_batch) {
  static callers all;
  size_t who[MOST];
  open_all();
  if (by_batch) open_callers(&all);
  raw_batch alone = by_batch ? (raw_batch){.turn = 0} : raw_batch_open(MOST);
  choose(who, MOST, 1);
  for (int i = 0; i < WARM_UP + PAIRS; i++) {
    (void)(by_batch ? step_callers(&all, who, MOST) : raw_step(&alone));
  }
  return (double)fixture_resident_bytes() / 1e6;
}

/* In a process of its own. */
static double measure_memory(int by_batch) {
  int ends[2];
  double mb = 0;
  if (pipe(ends) != 0) exit(1);
  pid_t child = fork();
  if (child < 0) exit(1);
  if (child == 0) {
    mb = step_and_measure(by_batch);
    _exit(write(ends[1], &mb, sizeof mb) != (ssize_t)sizeof mb);
  }
  if (read(ends[0], &mb, sizeof mb) != (ssize_t)sizeof mb || waitpid(child, NULL, 0) != child) exit(1);
  return mb;
}

static int print_memory(double most) {
  double alone = measure_memory(0), batch = measure_memory(1);
  printf("256 callers: ONNX Runtime's bound run %.1f MB resident, a batch %.1f MB, ratio %.3f\n", alone, batch, batch / alone);
  return batch / alone <= most;
}

/* Is the ratio below the limit? Other processes disturb a round. */
static int print_times(callers *all, size_t count, const char *what, double most) {
  for (int round = 0; round < ROUNDS; round++) {
    double raw_ms, batch_ms;
    double ratio = measure(all, count, &raw_ms, &batch_ms);
    printf("%s: ONNX Runtime's bound run of %zu rows %.3f ms, a step %.3f ms, ratio %.3f\n", what, count, raw_ms, batch_ms,
           ratio);
    if (most == 0 || ratio <= most) return 1;
  }
  return 0;
}

int main(int argc, char **argv) {
  static callers all;
  if (argc < 2 || argc > 4) {
    fprintf(stderr, "usage: bench_batch MODEL [MOST-OF-ALL MOST-OF-FEW | --server | --memory MOST]\n");
    return 2;
  }
  model_path = argv[1];
  if (access(model_path, R_OK) != 0) {
    fprintf(stderr, "bench_batch: %s is not there: scripts/get-models fetches it\n", model_path);
    return 77;
  }
  for (size_t i = 0; i < MOST; i++) {
    for (size_t k = 0; k < WINDOW; k++) windows[i][k] = (float)(random_number() % 2001) / 1000 - 1;
  }
  if (argc == 4 && strcmp(argv[2], "--memory") == 0) {
    return !print_memory(strtod(argv[3], NULL));
  }
  open_all();
  open_callers(&all);
  if (argc == 3) {
    serve_all(&all);
    return 0;
  }
  int holds = print_times(&all, MOST, "256 of 256 callers", argc == 4 ? strtod(argv[2], NULL) : 0);
  holds &= print_times(&all, FEW, "17 of 256 callers, others in each step", argc == 4 ? strtod(argv[3], NULL) : 0);
  double bindings = measure_bindings();
  printf("256 callers, a binding for each: %.3f ms a step\n", bindings);
  close_callers(&all);
  fixture_close(&f);
  return !holds;
}
