/* speech MODEL SOUND [DEVICE]: find speech in a recording by Silero VAD, whose state stays on the device. */
#include <iobind/iobind.h>
#include <stdio.h>
#include <string.h>

#define TRY(call) \
  if ((call) != IOBIND_OK) return fprintf(stderr, "%s\n", error.message), 1

static iobind_error error = IOBIND_ERROR_INIT; /* details of the last failure */

/* An input of the session: its index, and a tensor of the given dims where the session reads it. */
static int make_input(iobind_session *session, const char *name, const int64_t *dims, size_t rank, size_t *index,
                      iobind_tensor **tensor) {
  iobind_value_info info = IOBIND_VALUE_INFO_INIT;
  TRY(iobind_session_find_input(session, name, index, &error));
  TRY(iobind_session_get_input(session, *index, &info, &error));
  TRY(iobind_tensor_create(info.device, (iobind_memory)info.memory, (iobind_dtype)info.dtype, dims, rank, tensor, &error));
  return 0;
}

int main(int argc, char **argv) {
  iobind_runtime *runtime;
  iobind_device *device;
  iobind_session *session;
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  if (argc < 3) return fprintf(stderr, "usage: speech MODEL SOUND [DEVICE]\n"), 2;
  FILE *sound = fopen(argv[2], "rb"); /* 16-bit samples, mono, 16,000 a second, no header */
  if (sound == NULL) return perror(argv[2]), 1;
  TRY(iobind_runtime_create(NULL, &runtime, &error));
  TRY(iobind_runtime_find_device(runtime, argc > 3 ? argv[3] : "gpu,cpu", &device, NULL, &error));
  options.devices = &device;
  options.device_count = 1;
  TRY(iobind_session_create(runtime, argv[1], &options, &session, &error));

  size_t input, state, rate, output, next_state;
  iobind_tensor *window_tensor, *state_tensor, *rate_tensor;
  const int64_t window_dims[] = {1, 576}, state_dims[] = {2, 1, 128};
  if (make_input(session, "input", window_dims, 2, &input, &window_tensor) != 0) return 1;
  if (make_input(session, "state", state_dims, 3, &state, &state_tensor) != 0) return 1;
  if (make_input(session, "sr", NULL, 0, &rate, &rate_tensor) != 0) return 1;
  TRY(iobind_session_find_output(session, "output", &output, &error));
  TRY(iobind_session_find_output(session, "stateN", &next_state, &error));
  static const float silence[2 * 128];
  const int64_t hertz = 16000;
  TRY(iobind_tensor_write(state_tensor, 0, silence, sizeof silence, NULL, &error)); /* new memory is not zeroed */
  TRY(iobind_tensor_write(rate_tensor, 0, &hertz, sizeof hertz, NULL, &error));

  iobind_binding *binding;
  TRY(iobind_binding_create(session, &binding, &error));
  TRY(iobind_binding_set_input(binding, input, IOBIND_INPUT_RESIDENT, window_tensor, NULL, &error));
  TRY(iobind_binding_set_input(binding, state, IOBIND_INPUT_RESIDENT, state_tensor, NULL, &error));
  TRY(iobind_binding_set_input(binding, rate, IOBIND_INPUT_RESIDENT, rate_tensor, NULL, &error));
  TRY(iobind_binding_carry(binding, next_state, state, IOBIND_CARRY_SWAP, &error)); /* two buffers that change places */

  float window[576] = {0}, probability; /* 64 samples of the window before, and 512 new ones */
  int16_t samples[512];
  int speaking = 0, windows = 0;
  for (; fread(samples, sizeof samples, 1, sound) == 1; windows++) {
    memmove(window, window + 512, 64 * sizeof *window);
    for (int i = 0; i < 512; i++) window[64 + i] = (float)samples[i] / 32768;
    TRY(iobind_tensor_write(window_tensor, 0, window, sizeof window, NULL, &error));
    TRY(iobind_binding_run(binding, NULL, &error));

    iobind_tensor *score;
    TRY(iobind_binding_get_output(binding, output, NULL, &score, &error)); /* borrowed until the next run */
    TRY(iobind_tensor_read(score, 0, &probability, sizeof probability, NULL, &error));

    if ((probability > 0.5f) != speaking) {
      speaking = !speaking;
      printf("%.2f s: speech %s\n", windows * 0.032, speaking ? "begins" : "ends");
    }
  }

  iobind_device_counters moved = IOBIND_DEVICE_COUNTERS_INIT;
  TRY(iobind_device_get_counters(device, &moved, &error));
  printf("%d windows: over the link %llu bytes up, %llu bytes down\n", windows, (unsigned long long)moved.upload_bytes,
         (unsigned long long)moved.download_bytes);
  fclose(sound);
  iobind_tensor_release(window_tensor);
  iobind_tensor_release(state_tensor);
  iobind_tensor_release(rate_tensor);
  iobind_binding_destroy(binding);
  iobind_session_destroy(session);
  iobind_runtime_destroy(runtime);
  return 0;
}
