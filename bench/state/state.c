/* bench_state [LEAST]: how much faster a decoder's state after a prompt of 8,000 tokens is loaded from its file than computed, on the CPU.
 *
 * The prompt is computed in parts, by THREADS threads, after a run that warms the session up. Each load is that of a new session, so it reads
 * and hashes the model's files as well; all files are in the page cache, as they have just been written. The next token's logits must be equal
 * to the bit.
 *
 * Other processes make both take longer by the clock, and not equally so. So each is printed by the clock too, but the ratio is that of
 * processor time, which is divided by the threads that work: on an idle machine both are the same, since no file is read from a disk.
 * With LEAST it ends with 1 if the state is not loaded so many times faster. */
#define _POSIX_C_SOURCE 200809L /* clock_gettime */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "../decode/decoder.h"
#include "fixture.h"
#include "scratch.h"

enum { THREADS = 2, PROMPT = 8000, PART = 512, LOADS = 7, NEXT_TOKEN = 17, TOKENS = 0, MASK = 1, FIRST_PAST = 2, LOGITS = 0 };
enum { LAYERS = 6, HEADS = 8, VOCABULARY = 8192, MOST_TOKENS = 8192, STATES = 2 * LAYERS };

static iobind_error error = IOBIND_ERROR_INIT;

static void must(iobind_status status) {
  fixture_check(status, &error);
}

static _Noreturn void fail(const char *what) {
  fprintf(stderr, "bench_state: %s\n", what);
  exit(1);
}

static double milliseconds(clockid_t of) {
  struct timespec time;
  clock_gettime(of, &time);
  return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}

/* How long something took; in between: when it began. */
typedef struct span {
  double clock, processor;
} span;

static span begin_span(void) {
  return (span){milliseconds(CLOCK_MONOTONIC), milliseconds(CLOCK_PROCESS_CPUTIME_ID)};
}

static span end_span(span begun, int threads) {
  return (span){milliseconds(CLOCK_MONOTONIC) - begun.clock,
                (milliseconds(CLOCK_PROCESS_CPUTIME_ID) - begun.processor) / threads};
}

/* ---- files ---- */

static char model_path[SCRATCH_PATH_BYTES], data_path[SCRATCH_PATH_BYTES], state_path[SCRATCH_PATH_BYTES];

static void make_files(void) {
  const decoder_size size = {.layers = LAYERS, .heads = HEADS, .vocabulary = VOCABULARY, .most_tokens = MOST_TOKENS};
  scratch_make();
  scratch_name(model_path, "decoder.onnx");
  scratch_name(data_path, "decoder.data");
  scratch_name(state_path, "prompt.state");
  if (!decoder_write(&size, model_path, "decoder.data", data_path)) fail("the model cannot be written: is there room for it?");
}

static double megabytes(const char *path) {
  struct stat status;
  if (stat(path, &status) != 0) fail("a file is gone");
  return (double)status.st_size / 1e6;
}

/* ---- the decoder ---- */

static iobind_runtime *runtime;

static iobind_session *open_session(void) {
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  iobind_session *session;
  options.intra_op_threads = THREADS;
  must(iobind_session_create(runtime, model_path, &options, &session, &error));
  return session;
}

/* With no tokens yet. */
static iobind_binding *open_binding(iobind_session *session) {
  const int64_t none[] = {1, HEADS, 0, DECODER_HEAD};
  iobind_device *cpu = iobind_runtime_get_device(runtime, 0);
  iobind_binding *binding;
  must(iobind_binding_create(session, &binding, &error));
  for (size_t i = 0; i < STATES; i++) {
    iobind_tensor *empty;
    must(iobind_tensor_create(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, none, 4, &empty, &error));
    must(iobind_binding_set_input(binding, FIRST_PAST + i, IOBIND_INPUT_RESIDENT, empty, NULL, &error));
    iobind_tensor_release(empty);
    must(iobind_binding_carry(binding, 1 + i, FIRST_PAST + i, IOBIND_CARRY_MOVE, &error));
  }
  return binding;
}

static void set_row(iobind_binding *binding, size_t input, const int64_t *row, int64_t count) {
  iobind_device *cpu = iobind_runtime_get_device(runtime, 0);
  iobind_tensor *tensor;
  must(iobind_tensor_create(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_INT64, (int64_t[]){1, count}, 2, &tensor, &error));
  must(iobind_tensor_write(tensor, 0, row, (size_t)count * sizeof *row, NULL, &error));
  must(iobind_binding_set_input(binding, input, IOBIND_INPUT_RESIDENT, tensor, NULL, &error));
  iobind_tensor_release(tensor);
}

/* Tokens after `past` earlier ones. */
static void run_tokens(iobind_binding *binding, int64_t past, const int64_t *tokens, int64_t count) {
  static int64_t ones[MOST_TOKENS];
  for (int64_t i = 0; i < past + count; i++) ones[i] = 1;
  set_row(binding, TOKENS, tokens, count);
  set_row(binding, MASK, ones, past + count);
  must(iobind_binding_run(binding, NULL, &error));
}

static void run_prompt(iobind_binding *binding) {
  static int64_t prompt[PROMPT];
  for (int64_t i = 0; i < PROMPT; i++) prompt[i] = i * 2654435761 % VOCABULARY;
  for (int64_t i = 0; i < PROMPT; i += PART) run_tokens(binding, i, prompt + i, PROMPT - i < PART ? PROMPT - i : PART);
}

typedef struct logits {
  uint32_t bits[VOCABULARY]; /* of floats: they are compared as such */
} logits;

static void run_next(iobind_binding *binding, int64_t past, logits *out) {
  static const int64_t token = NEXT_TOKEN;
  iobind_tensor *tensor;
  run_tokens(binding, past, &token, 1);
  must(iobind_binding_get_output(binding, LOGITS, NULL, &tensor, &error));
  must(iobind_tensor_read(tensor, 0, out->bits, sizeof out->bits, NULL, &error));
}

/* ---- what is measured ---- */

static void warm_up(iobind_session *session) {
  static const int64_t tokens[PART];
  iobind_binding *binding = open_binding(session);
  run_tokens(binding, 0, tokens, PART);
  iobind_binding_destroy(binding);
}

/* Writes the prompt's state to its file; returns how long the computation took. */
static span compute(iobind_session *session, logits *next) {
  iobind_binding *binding = open_binding(session);
  iobind_state *state;
  span taken = begin_span();
  run_prompt(binding);
  taken = end_span(taken, THREADS);
  must(iobind_binding_save_state(binding, &state, &error));
  must(iobind_state_save(state, state_path, &error));
  iobind_state_release(state);
  run_next(binding, PROMPT, next);
  iobind_binding_destroy(binding);
  return taken;
}

static span load(logits *next) {
  iobind_session *session = open_session();
  iobind_binding *binding = open_binding(session);
  iobind_state *state;
  span taken = begin_span();
  must(iobind_state_load(session, state_path, &state, &error));
  must(iobind_binding_restore_state(binding, state, &error));
  taken = end_span(taken, 1);
  iobind_state_release(state);
  run_next(binding, PROMPT, next);
  iobind_binding_destroy(binding);
  iobind_session_destroy(session);
  return taken;
}

/* Logits that did not depend on the state would prove nothing. */
static void check_that_state_counts(iobind_session *session, const logits *expected) {
  static logits without;
  iobind_binding *binding = open_binding(session);
  run_next(binding, 0, &without);
  iobind_binding_destroy(binding);
  if (memcmp(&without, expected, sizeof without) == 0) fail("the next token's logits are the same without the prompt's state");
}

/* The medians. */
static span measure_loads(const logits *expected) {
  static logits loaded;
  double clock[LOADS], processor[LOADS];
  for (int i = 0; i < LOADS; i++) {
    span taken = load(&loaded);
    clock[i] = taken.clock;
    processor[i] = taken.processor;
    if (memcmp(&loaded, expected, sizeof loaded) != 0) fail("the next token's logits differ after a load of the state");
  }
  return (span){fixture_median(clock, LOADS), fixture_median(processor, LOADS)};
}

static void print_row(const char *name, double computed, double loaded) {
  printf("%-16s %9.0f ms %9.0f ms %8.1f\n", name, computed, loaded, computed / loaded);
}

int main(int argc, char **argv) {
  static logits expected;
  double least = argc > 1 ? strtod(argv[1], NULL) : 0;
  make_files();
  must(iobind_runtime_create(NULL, &runtime, &error));
  iobind_session *session = open_session();
  warm_up(session);
  span computed = compute(session, &expected);
  check_that_state_counts(session, &expected);
  iobind_session_destroy(session);
  span loaded = measure_loads(&expected);
  double ratio = computed.processor / loaded.processor;
  printf("%d tokens, %d threads; the model's files, %.0f MB, and the state's, %.0f MB, are in the page cache\n\n", PROMPT,
         THREADS, megabytes(model_path) + megabytes(data_path), megabytes(state_path));
  printf("%-16s %12s %12s %8s\n", "TIME", "COMPUTED", "LOADED", "RATIO");
  print_row("by the clock", computed.clock, loaded.clock);
  print_row("of the processor", computed.processor, loaded.processor);
  iobind_runtime_destroy(runtime);
  if (ratio >= least) return 0;
  fprintf(stderr, "bench_state: expected a load at least %g times faster than the computation, got %.1f\n", least, ratio);
  return 1;
}
