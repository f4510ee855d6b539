/* graph RUNS DEVICE MODE...: steady runs of a captured graph, mode after mode, for a program that counts instructions around the
 * function `steady`. Mode raw is ORT's own call, and iobind a binding whose tensors stay where they are: nothing changes between two runs,
 * so that each replays what the one before has replayed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <iobind/interop.h>

#include "raw.h"

enum { WARM_UP = 100 };

typedef struct bench {
  fixture fixture;
  iobind_binding *bound;
  raw raw;
  OrtAllocator *allocator; /* of the device */
  OrtValue *values[3];     /* a, b, y */
  iobind_stream *stream;   /* what ORT's session computes on, as iobind's does; NULL: the EP takes none */
} bench;

static void run_raw(bench *b) {
  raw_check(&b->raw, b->raw.ort->RunWithBinding(b->raw.session, b->raw.run_options, b->raw.binding));
}

static void run_iobind(bench *b) {
  iobind_status status = iobind_binding_run(b->bound, NULL, NULL);
  if (status != IOBIND_OK) {
    fprintf(stderr, "iobind_binding_run: %s\n", iobind_status_get_name((int32_t)status));
    exit(1);
  }
}

/* The counter looks for this function by its name, so it must be one. */
__attribute__((noinline)) void steady(bench *b, void (*run)(bench *b), long runs);

void steady(bench *b, void (*run)(bench *b), long runs) {
  for (long i = 0; i < runs; i++) run(b);
}

/* The first device of an EP among those that iobind has made known: the process has one environment of ORT. */
static const OrtEpDevice *find_ep(const raw *r, const char *name) {
  const OrtEpDevice *const *devices = NULL;
  size_t count = 0;
  raw_check(r, r->ort->GetEpDevices(r->env, &devices, &count));
  for (size_t i = 0; i < count; i++) {
    if (strcmp(r->ort->EpDevice_EpName(devices[i]), name) == 0) return devices[i];
  }
  fprintf(stderr, "graph: no device of %s\n", name);
  exit(1);
}

/* The options of the EP are those that iobind gives it: ORT walks all entries of the session in each run. */
static void append_ep(bench *b, const OrtEpDevice *device, iobind_device *cuda) {
  const raw *r = &b->raw;
  char address[24] = "";
  const char *keys[] = {"enable_graph_capture", NULL, NULL};
  const char *values[] = {"1", NULL, NULL};
  size_t count = 1;
  if (cuda != NULL) {
    iobind_error error = IOBIND_ERROR_INIT;
    fixture_check(iobind_stream_create(cuda, NULL, &b->stream, &error), &error);
    iobind_native native = IOBIND_NATIVE_INIT;
    fixture_check(iobind_stream_get_native(b->stream, &native, &error), &error);
    snprintf(address, sizeof address, "%llu", (unsigned long long)(uintptr_t)native.handle);
    keys[0] = "user_compute_stream";
    values[0] = address;
    keys[1] = "has_user_compute_stream";
    values[1] = "1";
    keys[2] = "enable_cuda_graph";
    values[2] = "1";
    count = 3;
  }
  raw_check(r, r->ort->SessionOptionsAppendExecutionProvider_V2(r->options, r->env, &device, 1, keys, values, count));
}

static void prepare_raw(bench *b, iobind_device *cuda) {
  static const char *const names[] = {"a", "b", "y"};
  static const int64_t dims[] = {1};
  raw *r = &b->raw;
  raw_open_environment(r, &b->fixture);
  const OrtEpDevice *device = find_ep(r, cuda != NULL ? "CUDAExecutionProvider" : "VirtualDeviceExecutionProvider");
  append_ep(b, device, cuda);
  raw_open_session(r, &b->fixture);
  raw_check(r, r->ort->AddRunConfigEntry(r->run_options, "gpu_graph_id", "1"));
  raw_check(
      r, r->ort->CreateAllocator(r->session, r->ort->EpDevice_MemoryInfo(device, OrtDeviceMemoryType_DEFAULT), &b->allocator));
  for (size_t i = 0; i < 3; i++) {
    raw_check(r, r->ort->CreateTensorAsOrtValue(b->allocator, dims, 1, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &b->values[i]));
    raw_check(r, i < 2 ? r->ort->BindInput(r->binding, names[i], b->values[i])
                       : r->ort->BindOutput(r->binding, names[i], b->values[i]));
  }
}

static void prepare_iobind(bench *b, iobind_device *device) {
  static const int64_t dims[] = {1};
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  options.devices = &device;
  options.device_count = 1;
  options.graph_limit = 1;
  options.intra_op_threads = 1;
  iobind_session_destroy(b->fixture.session);
  b->fixture.session = NULL;
  fixture_check(iobind_session_create_from_memory(b->fixture.runtime, b->fixture.model, b->fixture.model_bytes, &options,
                                                  &b->fixture.session, &error),
                &error);
  fixture_check(iobind_binding_create(b->fixture.session, &b->bound, &error), &error);
  for (size_t i = 0; i < 2; i++) {
    iobind_tensor *tensor = NULL;
    fixture_check(iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 1, &tensor, &error), &error);
    fixture_check(iobind_binding_set_input(b->bound, i, IOBIND_INPUT_RESIDENT, tensor, NULL, &error), &error);
    iobind_tensor_release(tensor);
  }
}

static void measure(long runs, const char *name, bool is_raw) {
  bench b = {0};
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_device *device = NULL;
  fixture_open(&b.fixture);
  fixture_check(iobind_runtime_find_device(b.fixture.runtime, name, &device, NULL, &error), &error);
  if (is_raw) {
    prepare_raw(&b, strcmp(name, "cuda") == 0 ? device : NULL);
  } else {
    prepare_iobind(&b, device);
  }
  void (*run)(bench *) = is_raw ? run_raw : run_iobind;
  for (int i = 0; i < WARM_UP; i++) run(&b);
  steady(&b, run, runs);
  iobind_binding_destroy(b.bound);
  for (size_t i = 0; is_raw && i < 3; i++) b.raw.ort->ReleaseValue(b.values[i]);
  if (is_raw) b.raw.ort->ReleaseAllocator(b.allocator);
  raw_close(&b.raw);
  iobind_stream_destroy(b.stream);
  fixture_close(&b.fixture);
}

int main(int argc, char **argv) {
  long runs = argc > 3 ? strtol(argv[1], NULL, 10) : 0;
  bool known = runs > 0 && (strcmp(argv[2], "vdev") == 0 || strcmp(argv[2], "cuda") == 0);
  for (int i = 3; i < argc; i++) known = known && (strcmp(argv[i], "raw") == 0 || strcmp(argv[i], "iobind") == 0);
  if (!known) {
    fputs("usage: graph RUNS vdev|cuda MODE...; modes: raw iobind\n", stderr);
    return 2;
  }
  for (int i = 3; i < argc; i++) measure(runs, argv[2], strcmp(argv[i], "raw") == 0);
  return 0;
}
