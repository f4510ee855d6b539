/* What the pieces of C in the documents stand in (pieces.py): for each section a function with objects that work.
 *
 * usage: PROGRAM DEVICE; the models are in the current directory. Each section prints after a line "== LINE", its first one's.
 * Ends with 77 where the device is not there. */
#include "frame.h"

#include <stdlib.h>
#include <string.h>

iobind_error error = IOBIND_ERROR_INIT;

static int run(const section *s, iobind_runtime *runtime, iobind_device *device) {
  const int64_t dims[] = {1, 3, 48, 192};
  const size_t bytes = sizeof(float) * 3 * 48 * 192;
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  options.devices = &device;
  options.device_count = 1;
  iobind_session *session = NULL;
  iobind_binding *binding = NULL;
  iobind_tensor *image = NULL;
  float *pixels = calloc(1, bytes);
  int failed =
      pixels == NULL || iobind_session_create(runtime, "pp-ocr-cls.onnx", &options, &session, &error) != IOBIND_OK ||
      iobind_binding_create(session, &binding, &error) != IOBIND_OK ||
      iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 4, &image, &error) != IOBIND_OK ||
      iobind_tensor_write(image, 0, pixels, bytes, NULL, &error) != IOBIND_OK ||
      iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, image, NULL, &error) != IOBIND_OK ||
      s->run(runtime, device, session, binding, image, pixels, bytes, dims, 4);
  iobind_tensor_release(image);
  iobind_binding_destroy(binding);
  iobind_session_destroy(session);
  free(pixels);
  return failed;
}

int main(int argc, char **argv) {
  iobind_runtime_options options = IOBIND_RUNTIME_OPTIONS_INIT;
  iobind_runtime *runtime = NULL;
  iobind_device *device = NULL;
  if (argc != 2) return 2;
  options.flags = IOBIND_RUNTIME_SOFTWARE_DEVICES;
  if (iobind_runtime_create(&options, &runtime, &error) != IOBIND_OK ||
      iobind_runtime_find_device(runtime, argv[1], &device, NULL, &error) != IOBIND_OK) {
    fprintf(stderr, "skipped: %s\n", error.message);
    iobind_runtime_destroy(runtime);
    return 77;
  }
  int failed = 0;
  for (const section *s = sections; s->run != NULL; s++) {
    printf("== %d\n", s->line);
    fflush(stdout);
    memset(error.message, 0, sizeof error.message);
    if (run(s, runtime, device) != 0) {
      fprintf(stderr, "section from line %d on: failed: %s\n", s->line, error.message);
      failed = 1;
    }
  }
  iobind_runtime_destroy(runtime);
  return failed;
}
