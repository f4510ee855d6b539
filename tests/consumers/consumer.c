/* What a user writes first. usage: consumer MODEL DEVICE   the model adds x and y, four floats each */
#include <iobind/iobind.h>
#include <stdio.h>

#define TRY(call) \
  if ((call) != IOBIND_OK) return fprintf(stderr, "consumer: %s\n", error.message), 1

int main(int argc, char **argv) {
  const float x[4] = {1, 2, 3, 4};
  const float y[4] = {0.5f, 0.5f, 0.5f, 0.5f};
  float sum[4] = {0};
  const int64_t dims[] = {4};
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  iobind_runtime *runtime;
  iobind_device *device;
  iobind_session *session;
  iobind_binding *binding;
  iobind_tensor *inputs[2], *output;
  if (argc != 3) return fprintf(stderr, "usage: consumer MODEL DEVICE\n"), 2;
  if (iobind_get_version() != IOBIND_VERSION_NUMBER) return fprintf(stderr, "consumer: header and library differ\n"), 1;
  TRY(iobind_runtime_create(NULL, &runtime, &error));
  TRY(iobind_runtime_find_device(runtime, argv[2], &device, NULL, &error));
  options.devices = &device;
  options.device_count = 1;
  TRY(iobind_session_create(runtime, argv[1], &options, &session, &error));
  TRY(iobind_binding_create(session, &binding, &error));
  for (size_t i = 0; i < 2; i++) {
    TRY(iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 1, &inputs[i], &error));
    TRY(iobind_tensor_write(inputs[i], 0, i == 0 ? x : y, sizeof x, NULL, &error));
    TRY(iobind_binding_set_input(binding, i, IOBIND_INPUT_RESIDENT, inputs[i], NULL, &error));
    iobind_tensor_release(inputs[i]);
  }
  TRY(iobind_binding_run(binding, NULL, &error));
  TRY(iobind_binding_take_output(binding, 0, &output, &error));
  TRY(iobind_tensor_read(output, 0, sum, sizeof sum, NULL, &error));
  printf("%g %g %g %g\n", (double)sum[0], (double)sum[1], (double)sum[2], (double)sum[3]);
  iobind_tensor_release(output);
  iobind_binding_destroy(binding);
  iobind_session_destroy(session);
  iobind_runtime_destroy(runtime);
  return 0;
}
