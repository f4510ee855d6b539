/* bench_decode GENAI LAYERS HEADS LENGTH PAIRS: the time of a token by iobind beside onnxruntime-genai, whose library is GENAI: the same
 * generated decoder, whose cache grows, the same ONNX Runtime, one thread, both in this process, alternately. A pair is STEPS tokens by each; the
 * prompt has LENGTH tokens. It prints the ratio of processor time, iobind's by genai's, of each pair. The tokens must be the same.
 *
 * bench_decode GENAI LAYERS HEADS LENGTH genai|iobind: the resident memory of a process in which one of them has made LENGTH tokens, in
 * kB.
 *
 * bench_decode --write DIRECTORY: a small decoder, and its configuration for genai. */
#define _POSIX_C_SOURCE 200809L /* clock_gettime */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "decoder.h"
#include "fixture.h"
#include "genai.h"
#include "scratch.h"

enum {
  STEPS = 4,
  WARM_UP = 2,
  TOKENS = 0,
  MASK = 1,
  FIRST_PAST = 2,
  LOGITS = 0,
  SMALL = 2,
  FEW_WORDS = 1024,
  MANY_WORDS = 8192
};

static iobind_error error = IOBIND_ERROR_INIT;
static iobind_runtime *runtime;

static void must(iobind_status status) {
  fixture_check(status, &error);
}

/* ---- generation by iobind ---- */

typedef struct loop {
  iobind_session *session;
  iobind_binding *binding;
  iobind_tensor *ones; /* what attention_mask begins with */
  size_t vocabulary;
  int64_t length;  /* of what the model has seen */
  int64_t token;   /* the last one */
  int is_computed; /* the logits behind the last token are there */
} loop;

static iobind_tensor *make_row(int64_t count) {
  iobind_tensor *row;
  must(iobind_tensor_create(iobind_runtime_get_device(runtime, 0), IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_INT64,
                            (int64_t[]){1, count}, 2, &row, &error));
  return row;
}

/* Binds a tensor, and gives it up. */
static void set_input(loop *l, size_t index, iobind_tensor *tensor) {
  must(iobind_binding_set_input(l->binding, index, IOBIND_INPUT_RESIDENT, tensor, NULL, &error));
  iobind_tensor_release(tensor);
}

static void begin_cache(loop *l, const decoder_size *size) {
  const int64_t none[] = {1, size->heads, 0, DECODER_HEAD};
  for (size_t i = 0; i < 2 * (size_t)size->layers; i++) {
    iobind_tensor *empty;
    must(iobind_tensor_create(iobind_runtime_get_device(runtime, 0), IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, none, 4,
                              &empty, &error));
    set_input(l, FIRST_PAST + i, empty);
    must(iobind_binding_carry(l->binding, 1 + i, FIRST_PAST + i, IOBIND_CARRY_MOVE, &error));
  }
}

static void loop_open(loop *l, const char *model, const decoder_size *size) {
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  options.intra_op_threads = 1;
  *l = (loop){.vocabulary = (size_t)size->vocabulary};
  must(iobind_session_create(runtime, model, &options, &l->session, &error));
  must(iobind_binding_create(l->session, &l->binding, &error));
  begin_cache(l, size);
  l->ones = make_row(size->most_tokens);
  for (int64_t i = 0; i < size->most_tokens; i++) {
    const int64_t one = 1;
    must(iobind_tensor_write(l->ones, (size_t)i * sizeof one, &one, sizeof one, NULL, &error));
  }
}

static void loop_run(loop *l, int64_t count) {
  iobind_tensor *mask;
  l->length += count;
  must(iobind_tensor_view(l->ones, 0, IOBIND_DTYPE_INT64, (int64_t[]){1, l->length}, 2, &mask, &error));
  set_input(l, MASK, mask);
  must(iobind_binding_run(l->binding, NULL, &error));
  l->is_computed = 1;
}

static void loop_append(loop *l, const int32_t *tokens, size_t count) {
  iobind_tensor *row = make_row((int64_t)count);
  for (size_t i = 0; i < count; i++) {
    const int64_t token = tokens[i];
    must(iobind_tensor_write(row, i * sizeof token, &token, sizeof token, NULL, &error));
  }
  set_input(l, TOKENS, row);
  loop_run(l, (int64_t)count);
  set_input(l, TOKENS, make_row(1));
}

static int64_t likeliest(const loop *l) {
  iobind_tensor *logits;
  void *data;
  must(iobind_binding_get_output(l->binding, LOGITS, NULL, &logits, &error));
  must(iobind_tensor_map(logits, IOBIND_DTYPE_FLOAT32, IOBIND_ACCESS_READ, &data, &error));
  const float *values = data;
  size_t best = 0;
  for (size_t i = 1; i < l->vocabulary; i++) {
    if (values[i] > values[best]) best = i;
  }
  return (int64_t)best;
}

static int32_t loop_next(loop *l) {
  if (!l->is_computed) {
    must(iobind_binding_write_input(l->binding, TOKENS, &l->token, sizeof l->token, NULL, &error));
    loop_run(l, 1);
  }
  l->is_computed = 0;
  l->token = likeliest(l);
  return (int32_t)l->token;
}

static void loop_close(loop *l) {
  iobind_tensor_release(l->ones);
  iobind_binding_destroy(l->binding);
  iobind_session_destroy(l->session);
}

/* ---- what is measured ---- */

typedef struct bench {
  decoder_size size;
  int32_t *prompt;
  size_t length;
  char directory[SCRATCH_PATH_BYTES], model[SCRATCH_PATH_BYTES];
} bench;

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}

static double time_genai(genai *g, int32_t tokens[STEPS]) {
  double begun = now();
  for (int i = 0; i < STEPS; i++) tokens[i] = genai_next(g);
  return now() - begun;
}

static double time_loop(loop *l, int32_t tokens[STEPS]) {
  double begun = now();
  for (int i = 0; i < STEPS; i++) tokens[i] = loop_next(l);
  return now() - begun;
}

/* Always in this order: each begins with the processor's caches as the other one left them. */
static double ratio_of_pair(genai *g, loop *l, int pair) {
  int32_t theirs[STEPS], ours[STEPS];
  const double time = time_genai(g, theirs), own_time = time_loop(l, ours);
  for (int i = 0; i < STEPS; i++) {
    if (ours[i] == theirs[i]) continue;
    fprintf(stderr, "bench_decode: pair %d, token %d: genai chose %d, this loop %d\n", pair, i, theirs[i], ours[i]);
    exit(1);
  }
  return own_time / time;
}

static void compare(const bench *b, const char *library, const char *ort_library, int pairs) {
  loop l;
  genai *g = genai_open(library, ort_library, b->directory, &b->size);
  loop_open(&l, b->model, &b->size);
  genai_append(g, b->prompt, b->length);
  loop_append(&l, b->prompt, b->length);
  for (int i = 0; i < WARM_UP; i++) ratio_of_pair(g, &l, i);
  for (int i = 0; i < pairs; i++) printf("%.4f\n", ratio_of_pair(g, &l, i));
  loop_close(&l);
  genai_close(g);
}

static void print_memory(void) {
  printf("%ld\n", fixture_resident_bytes() / 1024);
}

static void measure_memory(const bench *b, const char *library, const char *ort_library, const char *whose) {
  if (strcmp(whose, "genai") == 0) {
    genai *g = genai_open(library, ort_library, b->directory, &b->size);
    genai_append(g, b->prompt, 1);
    for (size_t i = 1; i < b->length; i++) genai_next(g);
    print_memory();
    genai_close(g);
  } else {
    loop l;
    loop_open(&l, b->model, &b->size);
    loop_append(&l, b->prompt, 1);
    for (size_t i = 1; i < b->length; i++) loop_next(&l);
    print_memory();
    loop_close(&l);
  }
}

static void make_model(bench *b) {
  char data[SCRATCH_PATH_BYTES];
  scratch_make();
  scratch_name(b->directory, "");
  scratch_name(b->model, "model.onnx");
  scratch_name(data, "model.data");
  if (decoder_write(&b->size, b->model, "model.data", data)) return;
  fputs("bench_decode: the model cannot be written: is there room for it?\n", stderr);
  exit(1);
}

static void make_prompt(bench *b) {
  b->prompt = malloc(b->length * sizeof *b->prompt);
  for (size_t i = 0; b->prompt != NULL && i < b->length; i++) {
    b->prompt[i] = (int32_t)((uint64_t)i * 2654435761 % (uint64_t)b->size.vocabulary);
  }
}

static int write_small(const char *directory) {
  const decoder_size size = {.layers = 2, .heads = 2, .vocabulary = FEW_WORDS, .most_tokens = 256};
  char model[SCRATCH_PATH_BYTES], data[SCRATCH_PATH_BYTES];
  snprintf(model, sizeof model, "%s/model.onnx", directory);
  snprintf(data, sizeof data, "%s/model.data", directory);
  genai_write_configuration(directory, &size);
  return decoder_write(&size, model, "model.data", data) ? 0 : 1;
}

int main(int argc, char **argv) {
  if (argc == 3 && strcmp(argv[1], "--write") == 0) return write_small(argv[2]);
  if (argc != 6) {
    fputs("usage: bench_decode GENAI LAYERS HEADS LENGTH PAIRS|genai|iobind\n       bench_decode --write DIRECTORY\n", stderr);
    return 2;
  }
  iobind_runtime_options options = IOBIND_RUNTIME_OPTIONS_INIT;
  iobind_runtime_info info = IOBIND_RUNTIME_INFO_INIT;
  int heads = atoi(argv[3]), pairs = atoi(argv[5]);
  bench b = {.size = {.layers = atoi(argv[2]), .heads = heads, .vocabulary = heads < SMALL ? FEW_WORDS : MANY_WORDS},
             .length = (size_t)atoi(argv[4])};
  b.size.most_tokens = (int)b.length + (pairs + WARM_UP + 1) * STEPS;
  options.flags = IOBIND_RUNTIME_NO_EP_SEARCH;
  must(iobind_runtime_create(&options, &runtime, &error));
  must(iobind_runtime_get_info(runtime, &info, &error));
  make_model(&b);
  make_prompt(&b);
  if (pairs > 0) {
    compare(&b, argv[1], info.ort_library, pairs);
  } else {
    measure_memory(&b, argv[1], info.ort_library, argv[5]);
  }
  free(b.prompt);
  iobind_runtime_destroy(runtime);
  return 0;
}
