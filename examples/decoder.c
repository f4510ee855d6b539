/* decoder MODEL [DEVICE]: text, one token after the other. The cache of keys and values grows on the device and never leaves it;
 * only the last row of the logits is read. The model is tests/models' "decoder". */
#include <iobind/iobind.h>
#include <stdio.h>

#define TRY(call) \
  if ((call) != IOBIND_OK) return fprintf(stderr, "%s\n", error.message), 1

enum { VOCAB = 16, STEPS = 12 };

static iobind_error error = IOBIND_ERROR_INIT; /* details of the last failure */

/* Carry a cache that begins with no row at all. */
static int carry(iobind_session *session, iobind_binding *binding, const char *from, const char *to) {
  size_t output, input;
  iobind_value_info past = IOBIND_VALUE_INFO_INIT;
  iobind_tensor *none;
  TRY(iobind_session_find_output(session, from, &output, &error));
  TRY(iobind_session_find_input(session, to, &input, &error));
  TRY(iobind_session_get_input(session, input, &past, &error));
  const int64_t dims[] = {0, past.dims[1]};
  TRY(iobind_tensor_create(past.device, (iobind_memory)past.memory, (iobind_dtype)past.dtype, dims, 2, &none, &error));
  TRY(iobind_binding_carry(binding, output, input, IOBIND_CARRY_MOVE, &error));
  TRY(iobind_binding_set_input(binding, input, IOBIND_INPUT_RESIDENT, none, NULL, &error));
  iobind_tensor_release(none); /* the binding holds it */
  return 0;
}

/* Run on `count` tokens more, and choose the likeliest next one. */
static int next_token(iobind_runtime *runtime, iobind_binding *binding, size_t tokens_input, size_t logits_output,
                      int64_t *tokens, int64_t count, int64_t *next) {
  iobind_device *cpu = iobind_runtime_get_device(runtime, 0);
  iobind_tensor *given, *logits;
  float row[VOCAB];
  iobind_buffer buffer = IOBIND_BUFFER_INIT;
  buffer.dtype = IOBIND_DTYPE_INT64;
  buffer.dims = &count;
  buffer.rank = 1;
  buffer.data = tokens;
  buffer.bytes = (size_t)count * sizeof *tokens;
  TRY(iobind_tensor_wrap(cpu, &buffer, &given, &error));
  TRY(iobind_binding_set_input(binding, tokens_input, IOBIND_INPUT_SNAPSHOT, given, NULL, &error));
  iobind_tensor_release(given);
  TRY(iobind_binding_run(binding, NULL, &error));
  TRY(iobind_binding_get_output(binding, logits_output, NULL, &logits, &error)); /* [count, VOCAB], where the session left it */
  TRY(iobind_tensor_read(logits, (size_t)(count - 1) * sizeof row, row, sizeof row, NULL, &error));
  *next = 0;
  for (int64_t i = 1; i < VOCAB; i++) *next = row[i] > row[*next] ? i : *next;
  return 0;
}

int main(int argc, char **argv) {
  iobind_runtime *runtime;
  iobind_device *device;
  iobind_session *session;
  iobind_binding *binding;
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  size_t tokens, logits;
  if (argc < 2) return fprintf(stderr, "usage: decoder MODEL [DEVICE]\n"), 2;
  TRY(iobind_runtime_create(NULL, &runtime, &error));
  TRY(iobind_runtime_find_device(runtime, argc > 2 ? argv[2] : "gpu,cpu", &device, NULL, &error));
  options.devices = &device;
  options.device_count = 1;
  TRY(iobind_session_create(runtime, argv[1], &options, &session, &error));
  TRY(iobind_session_find_input(session, "tokens", &tokens, &error));
  TRY(iobind_session_find_output(session, "logits", &logits, &error));
  TRY(iobind_binding_create(session, &binding, &error));
  if (carry(session, binding, "key", "past_key") != 0 || carry(session, binding, "value", "past_value") != 0) return 1;

  int64_t text[4 + STEPS] = {3, 14, 1, 5}; /* the prompt goes in at once */
  iobind_device_counters moved = IOBIND_DEVICE_COUNTERS_INIT;
  for (int step = 0; step < STEPS; step++) {
    int64_t count = step == 0 ? 4 : 1;
    if (next_token(runtime, binding, tokens, logits, text + 4 + step - count, count, &text[4 + step]) != 0) return 1;
  }
  for (int i = 0; i < 4 + STEPS; i++) printf("%lld ", (long long)text[i]);
  TRY(iobind_device_get_counters(device, &moved, &error));
  printf("\n%d steps: over the link %llu bytes up, %llu bytes down\n", STEPS, (unsigned long long)moved.upload_bytes,
         (unsigned long long)moved.download_bytes);
  iobind_binding_destroy(binding);
  iobind_session_destroy(session);
  iobind_runtime_destroy(runtime);
  return 0;
}
