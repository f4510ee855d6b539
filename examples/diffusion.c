/* diffusion MODEL [DEVICE]: latents that go through levels of noise, from run to run in two buffers that change places. The host
 * sends a number a step, and fetches the latents once, at the end. The model is tests/models' "denoise". */
#include <iobind/iobind.h>
#include <math.h>
#include <stdio.h>

#define TRY(call) \
  if ((call) != IOBIND_OK) return fprintf(stderr, "%s\n", error.message), 1

enum { STEPS = 50, LATENTS = 4 * 16 * 16 };

static iobind_error error = IOBIND_ERROR_INIT; /* details of the last failure */

/* An input of the session: its index, and a tensor with the data, bound where the session reads it. */
static int bind_input(iobind_session *session, iobind_binding *binding, const char *name, const int64_t *dims, size_t rank,
                      const float *data, size_t bytes, size_t *index) {
  iobind_value_info info = IOBIND_VALUE_INFO_INIT;
  iobind_tensor *tensor;
  TRY(iobind_session_find_input(session, name, index, &error));
  TRY(iobind_session_get_input(session, *index, &info, &error));
  TRY(iobind_tensor_create(info.device, (iobind_memory)info.memory, IOBIND_DTYPE_FLOAT32, dims, rank, &tensor, &error));
  TRY(iobind_tensor_write(tensor, 0, data, bytes, NULL, &error));
  TRY(iobind_binding_set_input(binding, *index, IOBIND_INPUT_RESIDENT, tensor, NULL, &error));
  iobind_tensor_release(tensor); /* the binding holds it */
  return 0;
}

int main(int argc, char **argv) {
  iobind_runtime *runtime;
  iobind_device *device;
  iobind_session *session;
  iobind_binding *binding;
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  if (argc < 2) return fprintf(stderr, "usage: diffusion MODEL [DEVICE]\n"), 2;
  TRY(iobind_runtime_create(NULL, &runtime, &error));
  TRY(iobind_runtime_find_device(runtime, argc > 2 ? argv[2] : "gpu,cpu", &device, NULL, &error));
  options.devices = &device;
  options.device_count = 1;
  TRY(iobind_session_create(runtime, argv[1], &options, &session, &error));
  TRY(iobind_binding_create(session, &binding, &error));

  float image[LATENTS], level = 0;
  for (int i = 0; i < LATENTS; i++) image[i] = sinf((float)(i * i)); /* as good as noise */
  const int64_t dims[] = {1, 4, 16, 16}, one = 1;
  size_t latents, timestep, denoised;
  if (bind_input(session, binding, "latents", dims, 4, image, sizeof image, &latents) != 0) return 1;
  if (bind_input(session, binding, "timestep", &one, 1, &level, sizeof level, &timestep) != 0) return 1;
  TRY(iobind_session_find_output(session, "denoised", &denoised, &error));
  TRY(iobind_binding_carry(binding, denoised, latents, IOBIND_CARRY_SWAP, &error));

  iobind_device_counters before = IOBIND_DEVICE_COUNTERS_INIT, after = IOBIND_DEVICE_COUNTERS_INIT;
  TRY(iobind_device_get_counters(device, &before, &error));
  for (int step = 0; step < STEPS; step++) {
    level = 1 - (float)step / STEPS;
    TRY(iobind_binding_write_input(binding, timestep, &level, sizeof level, NULL, &error));
    TRY(iobind_binding_run(binding, NULL, &error));
  }
  TRY(iobind_device_get_counters(device, &after, &error));

  iobind_tensor *result;
  float most = 0;
  TRY(iobind_binding_get_output(binding, denoised, NULL, &result, &error));
  TRY(iobind_tensor_read(result, 0, image, sizeof image, NULL, &error));
  for (int i = 0; i < LATENTS; i++) most = fmaxf(most, fabsf(image[i]));
  printf("%d steps: over the link %llu bytes up, %llu bytes down; noise of at most %.3f is left\n", STEPS,
         (unsigned long long)(after.upload_bytes - before.upload_bytes),
         (unsigned long long)(after.download_bytes - before.download_bytes), (double)most);
  iobind_binding_destroy(binding);
  iobind_session_destroy(session);
  iobind_runtime_destroy(runtime);
  return 0;
}
