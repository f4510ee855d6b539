/* A session on CUDA with EP options, in its own process:
 *
 *   options keep MODEL OPTION...     create it, run it, and end the process without destroying anything
 *   options destroy MODEL OPTION...  destroy it first; the last line is "fine", or STATUS and the message
 *   options ask                      for each line of the input (OPTIONs separated by spaces) call ONNX Runtime alone, and print
 *                                    "fine" or its message, on one line
 *
 * OPTION is KEY=VALUE. The VALUE @stream is the address of a new stream of the device. The device is the last one. */
#define _POSIX_C_SOURCE 200809L /* strtok_r */
#include <ort.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "iobind/iobind.h"
#include "objects.h"
#include "../rig/calls.h"

enum { MOST = 8 };

static const char *keys[MOST];
static const char *values[MOST];
static size_t count;
static char address[32];
static iobind_error error = IOBIND_ERROR_INIT;

static int say(void) {
  printf("%s %s\n", iobind_status_get_name(error.status), error.message);
  return error.status == IOBIND_OK;
}

static void read_options(char **texts, int amount, iobind_device *device) {
  for (int i = 0; i < amount && i < MOST; i++) {
    char *equals = strchr(texts[i], '=');
    if (equals == NULL) exit(2);
    *equals = '\0';
    keys[count] = texts[i];
    values[count] = equals + 1;
    if (strcmp(values[count], "@stream") == 0) {
      iobind_stream *stream;
      if (iobind_stream_create(device, NULL, &stream, &error) != IOBIND_OK) exit(2);
      snprintf(address, sizeof address, "%p", call_stream_get_native(stream)); /* never freed */
      values[count] = address;
    }
    count++;
  }
}

static iobind_device *last_device(iobind_runtime *runtime) {
  iobind_device *device = NULL;
  char spec[16];
  for (int i = 0; i < 8; i++) {
    iobind_device *next;
    snprintf(spec, sizeof spec, "cuda:%d", i);
    if (iobind_runtime_find_device(runtime, spec, &next, NULL, &error) == IOBIND_OK) device = next;
  }
  return device;
}

static iobind_status run(iobind_session *session, iobind_device *device) {
  static const int64_t dims[] = {4, 4};
  static const float ones[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  float result[16] = {0};
  iobind_binding *binding = NULL;
  iobind_tensor *x = NULL;
  iobind_tensor *y = NULL; /* a graph always writes to the memory of the first run */
  iobind_status status = iobind_binding_create(session, &binding, &error);
  if (status == IOBIND_OK)
    status = iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 2, &x, &error);
  if (status == IOBIND_OK) status = iobind_tensor_write(x, 0, ones, sizeof ones, NULL, &error);
  for (size_t i = 0; i < 2 && status == IOBIND_OK; i++) {
    status = iobind_binding_set_input(binding, i, IOBIND_INPUT_RESIDENT, x, NULL, &error);
  }
  if (status == IOBIND_OK)
    status = iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 2, &y, &error);
  if (status == IOBIND_OK) {
    status = iobind_binding_set_output(binding, 0, y, 0, &error);
  }
  for (int i = 0; i < 3 && status == IOBIND_OK; i++) status = iobind_binding_run(binding, NULL, &error);
  if (status == IOBIND_OK) status = iobind_tensor_read(y, 0, result, sizeof result, NULL, &error);
  if (status == IOBIND_OK && (result[0] != 4 || result[15] != 4)) exit(3);
  iobind_tensor_release(y);
  iobind_tensor_release(x);
  iobind_binding_destroy(binding);
  return status;
}

/* Without a session: ORT's call alone. */
static void ask_line(const OrtApi *ort, iobind_device *device, char *line) {
  char *words[MOST];
  char *rest = NULL;
  int amount = 0;
  for (char *word = strtok_r(line, " \n", &rest); word != NULL && amount < MOST; word = strtok_r(NULL, " \n", &rest)) {
    words[amount++] = word;
  }
  count = 0;
  read_options(words, amount, device);
  OrtCUDAProviderOptionsV2 *asked = NULL;
  OrtStatus *status = ort->CreateCUDAProviderOptions(&asked);
  if (asked != NULL) status = ort->UpdateCUDAProviderOptions(asked, keys, values, count);
  const char *said = status == NULL ? "fine" : ort->GetErrorMessage(status);
  printf("%.*s\n", (int)strcspn(said, "\n"), said);
  if (status != NULL) ort->ReleaseStatus(status);
  if (asked != NULL) ort->ReleaseCUDAProviderOptions(asked);
}

static int ask(iobind_device *device) {
  char why[TEST_WHY];
  char line[1024];
  const OrtApiBase *base = test_ort(why);
  const OrtApi *ort = base == NULL ? NULL : base->GetApi(ORT_API_OLDEST);
  if (ort == NULL) return puts(why), 2;
  while (fgets(line, sizeof line, stdin) != NULL) ask_line(ort, device, line);
  return 0;
}

int main(int argc, char **argv) {
  int first = argc > 1 && strcmp(argv[1], "ask") == 0 ? 2 : 3;
  if (argc < first) return 2;
  iobind_runtime *runtime;
  if (iobind_runtime_create(NULL, &runtime, &error) != IOBIND_OK) return say(), 2;
  iobind_device *device = last_device(runtime);
  if (device == NULL) return say(), 2;
  if (first == 2) return ask(device);
  read_options(argv + first, argc - first, device);
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  options.devices = &device;
  options.device_count = 1;
  options.ep_keys = keys;
  options.ep_values = values;
  options.ep_option_count = count;
  iobind_session *session;
  iobind_status status = iobind_session_create(runtime, argv[2], &options, &session, &error);
  if (status == IOBIND_OK) status = run(session, device);
  if (strcmp(argv[1], "destroy") == 0) {
    iobind_session_destroy(session);
    iobind_runtime_destroy(runtime);
  }
  if (status == IOBIND_OK)
    puts("fine");
  else
    say();
  return 0;
}
