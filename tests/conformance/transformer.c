/* transformer DEVICE: a small language model decodes on the device, its state carried from run to run, and on the CPU. Tokens
 * must be the same, and the numbers behind them near. Exits as conformance does. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "objects.h"
#include "../rig/calls.h"

#define TRY(call) \
  if ((call) != IOBIND_OK) return fprintf(stderr, "transformer: %s\n", error.message), 1

enum { VOCAB = 32, STEPS = 32, PROMPT = 3, LAYERS = 2, HEADS = 2, HEAD = 8, SKIPPED = 77 };
static const double NEAR = 1e-3;

typedef struct decoding {
  int64_t tokens[PROMPT + STEPS];
  float logits[STEPS][VOCAB];
} decoding;

static iobind_error error = IOBIND_ERROR_INIT;

/* The state that the first run reads has no token; each run's goes into the next. */
static int carry_state(iobind_session *session, iobind_binding *binding) {
  const int64_t dims[] = {2 * (int64_t)LAYERS, HEADS, 0, HEAD};
  size_t past, state;
  iobind_value_info info = IOBIND_VALUE_INFO_INIT;
  iobind_tensor *none;
  TRY(iobind_session_find_input(session, "past", &past, &error));
  TRY(iobind_session_find_output(session, "state", &state, &error));
  TRY(iobind_session_get_input(session, past, &info, &error));
  TRY(iobind_tensor_create(info.device, (iobind_memory)info.memory, IOBIND_DTYPE_FLOAT32, dims, 4, &none, &error));
  TRY(iobind_binding_carry(binding, state, past, IOBIND_CARRY_MOVE, &error));
  TRY(iobind_binding_set_input(binding, past, IOBIND_INPUT_RESIDENT, none, NULL, &error));
  iobind_tensor_release(none);
  return 0;
}

/* `count` tokens behind the state; the last one's logits. */
static int step(iobind_device *cpu, iobind_binding *binding, int64_t *tokens, int64_t count, float logits[VOCAB]) {
  iobind_tensor *given, *result;
  TRY(call_tensor_wrap(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_INT64, &count, 1, tokens, (size_t)count * sizeof *tokens, NULL,
                       NULL, &given, &error));
  TRY(iobind_binding_set_input(binding, 0, IOBIND_INPUT_SNAPSHOT, given, NULL, &error));
  iobind_tensor_release(given);
  TRY(iobind_binding_run(binding, NULL, &error));
  TRY(iobind_binding_get_output(binding, 0, NULL, &result, &error));
  TRY(iobind_tensor_read(result, (size_t)(count - 1) * VOCAB * sizeof *logits, logits, VOCAB * sizeof *logits, NULL, &error));
  return 0;
}

static int decode(iobind_runtime *runtime, iobind_device *device, decoding *result) {
  iobind_device *cpu = iobind_runtime_get_device(runtime, 0);
  iobind_session *session;
  iobind_binding *binding;
  static const int64_t prompt[PROMPT] = {3, 7, 1};
  TRY(test_session(runtime, device, "transformer", &session, &error));
  TRY(iobind_binding_create(session, &binding, &error));
  if (carry_state(session, binding) != 0) return 1;
  memcpy(result->tokens, prompt, sizeof prompt);
  for (int i = 0; i < STEPS; i++) {
    int64_t *next = &result->tokens[PROMPT + i], count = i == 0 ? PROMPT : 1;
    float *logits = result->logits[i];
    if (step(cpu, binding, next - count, count, logits) != 0) return 1;
    *next = 0;
    for (int64_t token = 1; token < VOCAB; token++) *next = logits[token] > logits[*next] ? token : *next;
  }
  iobind_binding_destroy(binding);
  iobind_session_destroy(session);
  return 0;
}

static int compare(const decoding *expected, const decoding *got) {
  double farthest = 0;
  for (int i = 0; i < STEPS; i++) {
    if (got->tokens[PROMPT + i] != expected->tokens[PROMPT + i]) {
      fprintf(stderr, "transformer: token %d: expected %lld as on the CPU, got %lld\n", PROMPT + i,
              (long long)expected->tokens[PROMPT + i], (long long)got->tokens[PROMPT + i]);
      return 1;
    }
    for (int token = 0; token < VOCAB; token++) {
      double apart = fabs((double)got->logits[i][token] - (double)expected->logits[i][token]);
      if (!(apart <= farthest)) farthest = apart; /* not fmax, which gcc 12 for arm64 cannot compile here; a NaN counts */
    }
  }
  printf("%d tokens as on the CPU, logits at most %.2g from its\n", STEPS, farthest);
  return farthest <= NEAR ? 0 : 1;
}

int main(int argc, char **argv) {
  static decoding expected, got;
  iobind_runtime *runtime;
  iobind_device *device;
  if (argc != 2) return fprintf(stderr, "usage: transformer DEVICE\n"), 2;
  if (test_runtime(IOBIND_RUNTIME_SOFTWARE_DEVICES, argv[1], &runtime, &device, &error) != IOBIND_OK) {
    fprintf(stderr, "transformer: skipped: %s\n", error.message);
    return test_requires(argv[1]) ? 1 : SKIPPED;
  }
  int status = decode(runtime, iobind_runtime_get_device(runtime, 0), &expected);
  if (status == 0) status = decode(runtime, device, &got);
  if (status == 0) status = compare(&expected, &got);
  iobind_runtime_destroy(runtime);
  return status;
}
