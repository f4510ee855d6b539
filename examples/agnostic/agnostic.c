#define _POSIX_C_SOURCE 200809L

/* agnostic DETECTOR.onnx PICTURE.png [DEVICE [RUNS]]
 *
 * Finds text in a picture, RUNS times, in two ways, with the same code for every execution provider (EP):
 *   direct  iobind_session_run: host tensors in, host tensors out; each run carries all of them over the link
 *   bound   one upload, a loop of runs whose input and output stay on the device, one download
 * and prints what crossed the link and how long it took. DEVICE is a spec such as "cuda", "webgpu" or a list; "gpu,cpu" takes
 * the first that works. The model is PP-OCR's detector: float32[1,3,H,W] in, float32[1,1,H,W] out, the probability of text. */
#include <iobind/iobind.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "picture.h"

/* Every iobind call returns a status and explains itself in an error that is the caller's. */
#define TRY(call)                             \
  do {                                        \
    iobind_status status_ = (call);           \
    if (status_ != IOBIND_OK) return status_; \
  } while (0)

typedef struct app {
  iobind_runtime *runtime;
  iobind_device *cpu;    /* host tensors are tensors of the CPU device */
  iobind_device *device; /* where the model runs */
  iobind_session *session;
  picture picture;
  long runs;
} app;

/* What one way cost, and what it found. */
typedef struct outcome {
  uint64_t upload_bytes;
  uint64_t download_bytes;
  double seconds;
  float *map; /* the probability of text, pixel by pixel */
  size_t pixels;
} outcome;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Nothing here names an EP: those that are installed are found and registered, and a spec chooses among their devices. */
static iobind_status open_app(app *a, const char *model, const char *spec, iobind_error *error) {
  iobind_runtime_options options = IOBIND_RUNTIME_OPTIONS_INIT;
  options.flags = IOBIND_RUNTIME_SOFTWARE_DEVICES; /* a virtual GPU counts too: this is an example, not a product */
  TRY(iobind_runtime_create(&options, &a->runtime, error));
  TRY(iobind_runtime_find_device(a->runtime, "cpu", &a->cpu, NULL, error));
  TRY(iobind_runtime_find_device(a->runtime, spec, &a->device, NULL, error));
  iobind_session_options session = IOBIND_SESSION_OPTIONS_INIT;
  session.devices = &a->device;
  session.device_count = 1;
  return iobind_session_create(a->runtime, model, &session, &a->session, error);
}

/* The picture as a host tensor: no copy, the memory stays ours. */
static iobind_status wrap_picture(const app *a, iobind_tensor **tensor, iobind_error *error) {
  const int64_t dims[] = {1, 3, a->picture.height, a->picture.width};
  size_t bytes = (size_t)(3 * a->picture.height * a->picture.width) * sizeof(float);
  iobind_buffer buffer = IOBIND_BUFFER_INIT;
  buffer.dtype = IOBIND_DTYPE_FLOAT32;
  buffer.dims = dims;
  buffer.rank = 4;
  buffer.data = a->picture.values;
  buffer.bytes = bytes;
  return iobind_tensor_wrap(a->cpu, &buffer, tensor, error);
}

/* The one download: into host memory, from wherever the tensor is. */
static iobind_status fetch(const iobind_tensor *tensor, outcome *o, iobind_error *error) {
  iobind_tensor_info info = IOBIND_TENSOR_INFO_INIT;
  TRY(iobind_tensor_get_info(tensor, &info, error));
  o->pixels = info.bytes / sizeof *o->map;
  o->map = malloc(info.bytes);
  if (o->map == NULL) return IOBIND_ERROR_OUT_OF_MEMORY;
  return iobind_tensor_read(tensor, 0, o->map, info.bytes, NULL, error);
}

/* ---- direct ----------------------------------------------------------------------------------------------------- */

/* Whether the session reads its input, or leaves its output, where the host cannot look. */
static bool is_remote(const iobind_value_info *value) {
  iobind_device_info info = IOBIND_DEVICE_INFO_INIT;
  if (iobind_device_get_info(value->device, &info, NULL) != IOBIND_OK) return false;
  return value->memory == IOBIND_MEMORY_DEFAULT && (info.flags & IOBIND_DEVICE_HOST_MEMORY) == 0;
}

static iobind_status run_direct(const app *a, iobind_tensor *input, outcome *o, iobind_error *error) {
  iobind_tensor *output = NULL;
  iobind_run_request request = IOBIND_RUN_REQUEST_INIT;
  request.inputs = &input;
  request.input_count = 1;
  TRY(iobind_session_run(a->session, &request, &output, 1, error)); /* the first run prepares the session: not timed */
  iobind_tensor_release(output);
  double start = now();
  for (long i = 0; i < a->runs; i++) {
    TRY(iobind_session_run(a->session, &request, &output, 1, error));
    if (i < a->runs - 1) iobind_tensor_release(output);
  }
  o->seconds = now() - start;
  iobind_status status = fetch(output, o, error);
  iobind_tensor_release(output);
  return status;
}

/* ORT copies inside such a run: what follows from where the session wants its tensors is what crosses. */
static iobind_status count_direct(const app *a, outcome *o, iobind_error *error) {
  iobind_value_info input = IOBIND_VALUE_INFO_INIT, output = IOBIND_VALUE_INFO_INIT;
  TRY(iobind_session_get_input(a->session, 0, &input, error));
  TRY(iobind_session_get_output(a->session, 0, &output, error));
  uint64_t map_bytes = o->pixels * sizeof *o->map, runs = (uint64_t)a->runs;
  if (is_remote(&input)) o->upload_bytes = 3 * map_bytes * runs; /* three channels in, one out */
  if (is_remote(&output)) o->download_bytes = map_bytes * runs;
  return IOBIND_OK;
}

/* ---- bound ------------------------------------------------------------------------------------------------------ */

/* Bind the input to device memory that is filled once, and leave the output where the session makes it. */
static iobind_status bind(const app *a, iobind_binding *binding, iobind_tensor *host, iobind_error *error) {
  iobind_value_info value = IOBIND_VALUE_INFO_INIT;
  iobind_tensor_info info = IOBIND_TENSOR_INFO_INIT;
  iobind_tensor *resident = NULL;
  TRY(iobind_session_get_input(a->session, 0, &value, error)); /* it says where the session wants the input */
  TRY(iobind_tensor_get_info(host, &info, error));
  TRY(iobind_tensor_create(value.device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, info.dims, info.rank, &resident, error));
  iobind_status status = iobind_tensor_copy((const iobind_tensor *const *)&host, &resident, 1, NULL, error); /* the upload */
  if (status == IOBIND_OK) {
    status = iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, resident, NULL, error);
  }
  iobind_tensor_release(resident); /* the binding holds it as long as it needs it */
  /* The output is FRESH without being asked: device memory of the size that the run finds out, new for each run. REUSE
   * keeps to one piece of memory, for a loop whose results are not kept. */
  if (status == IOBIND_OK) {
    status = iobind_binding_place_output(binding, 0, IOBIND_OUTPUT_REUSE, NULL, IOBIND_MEMORY_DEFAULT, error);
  }
  return status;
}

static iobind_status run_bound(const app *a, iobind_tensor *host, outcome *o, iobind_error *error) {
  iobind_device_counters before = IOBIND_DEVICE_COUNTERS_INIT, after = IOBIND_DEVICE_COUNTERS_INIT;
  iobind_binding *binding = NULL;
  iobind_tensor *map = NULL;
  TRY(iobind_device_get_counters(a->device, &before, error));
  TRY(iobind_binding_create(a->session, &binding, error));
  iobind_status status = bind(a, binding, host, error);
  if (status == IOBIND_OK) status = iobind_binding_run(binding, NULL, error); /* not timed, as above */
  double start = now();
  for (long i = 0; status == IOBIND_OK && i < a->runs; i++) {
    status = iobind_binding_run(binding, NULL, error); /* without a stream: finished when it returns */
  }
  o->seconds = now() - start;
  if (status == IOBIND_OK) status = iobind_binding_take_output(binding, 0, &map, error);
  iobind_binding_destroy(binding); /* a taken output remains valid */
  if (status == IOBIND_OK) status = fetch(map, o, error);
  iobind_tensor_release(map);
  if (status == IOBIND_OK) status = iobind_device_get_counters(a->device, &after, error);
  o->upload_bytes = after.upload_bytes - before.upload_bytes;
  o->download_bytes = after.download_bytes - before.download_bytes;
  return status;
}

/* ---- what was found --------------------------------------------------------------------------------------------- */

static void print_outcome(const app *a, const char *name, const outcome *o) {
  printf("%-8s %12llu %12llu %12.3f\n", name, (unsigned long long)o->upload_bytes, (unsigned long long)o->download_bytes,
         o->seconds / (double)a->runs * 1e3);
}

/* The box around all pixels that are more likely text than not. */
static void print_text(const app *a, const outcome *o) {
  int64_t left = a->picture.width, top = a->picture.height, right = -1, bottom = -1;
  for (size_t i = 0; i < o->pixels; i++) {
    int64_t x = (int64_t)i % a->picture.width, y = (int64_t)i / a->picture.width;
    if (o->map[i] < 0.5f) continue;
    if (x < left) left = x;
    if (x > right) right = x;
    if (y < top) top = y;
    if (y > bottom) bottom = y;
  }
  if (right < 0) {
    puts("no text");
  } else {
    printf("text between (%lld,%lld) and (%lld,%lld)\n", (long long)left, (long long)top, (long long)right, (long long)bottom);
  }
}

static bool agree(const outcome *a, const outcome *b) {
  bool same = a->pixels == b->pixels;
  for (size_t i = 0; same && i < a->pixels; i++) {
    float difference = a->map[i] - b->map[i];
    same = difference < 1e-4f && difference > -1e-4f;
  }
  return same;
}

static iobind_status work(app *a, outcome *direct, outcome *bound, iobind_error *error) {
  iobind_tensor *host = NULL;
  TRY(wrap_picture(a, &host, error));
  iobind_status status = run_direct(a, host, direct, error);
  if (status == IOBIND_OK) status = count_direct(a, direct, error);
  if (status == IOBIND_OK) status = run_bound(a, host, bound, error);
  iobind_tensor_release(host);
  return status;
}

int main(int argc, char **argv) {
  if (argc < 3 || argc > 5) {
    fputs("usage: agnostic DETECTOR.onnx PICTURE.png [DEVICE [RUNS]]\n", stderr);
    return 2;
  }
  app a = {.runs = argc > 4 ? strtol(argv[4], NULL, 10) : 10};
  const char *problem = a.runs < 1 ? "RUNS: expected a number of 1 or more" : picture_read(argv[2], 32, &a.picture);
  if (problem != NULL) {
    fprintf(stderr, "agnostic: %s\n", problem);
    return 2;
  }
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_device_info info = IOBIND_DEVICE_INFO_INIT;
  outcome direct = {0}, bound = {0};
  iobind_status status = open_app(&a, argv[1], argc > 3 ? argv[3] : "gpu,cpu", &error);
  if (status == IOBIND_OK) status = iobind_device_get_info(a.device, &info, &error);
  if (status == IOBIND_OK) status = work(&a, &direct, &bound, &error);
  bool good = status == IOBIND_OK;
  if (good) {
    printf("%ld runs on %s (%s)\n%-8s %12s %12s %12s\n", a.runs, info.spec, info.ep_name, "", "bytes up", "bytes down",
           "ms a run");
    print_outcome(&a, "direct", &direct);
    print_outcome(&a, "bound", &bound);
    print_text(&a, &bound);
    good = agree(&direct, &bound);
    if (!good) fputs("agnostic: the two ways found different things\n", stderr);
  } else {
    fprintf(stderr, "agnostic: %s: %s\n", iobind_status_get_name((int32_t)status), error.message);
  }
  free(direct.map);
  free(bound.map);
  free(a.picture.values);
  iobind_session_destroy(a.session);
  iobind_runtime_destroy(a.runtime);
  return good ? 0 : 1;
}
