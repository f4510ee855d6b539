/* quickstart MODEL [DEVICE]: PP-OCR's classifier over a stream of pictures; in a run only the picture crosses the link. */
#include <iobind/iobind.h>
#include <stdio.h>

#define TRY(call) \
  if ((call) != IOBIND_OK) return fprintf(stderr, "%s\n", error.message), 1

int main(int argc, char **argv) {
  static float pixels[3 * 48 * 192];
  const int64_t dims[] = {1, 3, 48, 192};
  float result[2];
  iobind_error error = IOBIND_ERROR_INIT; /* every call gives a status; the details are here */
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  iobind_runtime *runtime;
  iobind_device *device;
  iobind_session *session;
  iobind_binding *binding;
  iobind_tensor *image, *scores;
  if (argc < 2) return fprintf(stderr, "usage: quickstart MODEL [DEVICE]\n"), 2;
  TRY(iobind_runtime_create(NULL, &runtime, &error)); /* finds ONNX Runtime and its execution providers */
  TRY(iobind_runtime_find_device(runtime, argc > 2 ? argv[2] : "gpu,cpu", &device, NULL, &error));
  options.devices = &device;
  options.device_count = 1;
  TRY(iobind_session_create(runtime, argv[1], &options, &session, &error));
  TRY(iobind_binding_create(session, &binding, &error)); /* each run leaves fresh outputs on the device */
  TRY(iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 4, &image, &error));
  TRY(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, image, NULL, &error)); /* type and shape checked here */
  for (int frame = 0; frame < 10; frame++) {
    for (size_t i = 0; i < sizeof pixels / 4; i++) pixels[i] = (float)((i * 31 + (size_t)frame) % 255) / 127.5f - 1;
    TRY(iobind_tensor_write(image, 0, pixels, sizeof pixels, NULL, &error));
    TRY(iobind_binding_run(binding, NULL, &error)); /* has finished when it returns */
  }
  TRY(iobind_binding_take_output(binding, 0, &scores, &error)); /* ours now: no later run overwrites it */
  TRY(iobind_tensor_read(scores, 0, result, sizeof result, NULL, &error));
  printf("upright %.3f, upside down %.3f\n", (double)result[0], (double)result[1]);
  iobind_tensor_release(scores); /* in any order: what is still needed remains valid */
  iobind_tensor_release(image);
  iobind_binding_destroy(binding);
  iobind_session_destroy(session);
  iobind_runtime_destroy(runtime);
  return 0;
}
