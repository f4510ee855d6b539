/* Defects of ONNX Runtime's CUDA EP, each shown in a process that crashes. If a process no longer crashes, iobind's workaround can be
 * removed. */
#define _GNU_SOURCE /* fork, setrlimit */
#include "fixture.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "iobind/interop.h"
#include "memory/stream.h"
#include "ort_ep.h"
#include "session/session.h"
#include "support/system.h"

enum { SURVIVED = 42, NOT_THERE = 77 };

/* The EP is loaded only after the fork, because it does not work in a forked child. */
static int in_child(void (*act)(iobind_runtime *runtime, iobind_device *device)) {
  pid_t child = fork();
  if (child == 0) {
    const struct rlimit none = {0, 0};
    iobind_device *device = NULL;
    iobind_runtime *runtime = NULL;
    (void)setrlimit(RLIMIT_CORE, &none);
    if (iobind_runtime_create(NULL, &runtime, NULL) != IOBIND_OK ||
        iobind_runtime_find_device(runtime, "cuda", &device, NULL, NULL) != IOBIND_OK) {
      _exit(NOT_THERE);
    }
    act(runtime, device);
    _exit(SURVIVED);
  }
  int status = 0;
  assert_true(child > 0);
  assert_int_equal(waitpid(child, &status, 0), child);
  return status;
}

static void expect_death(int status) {
  if (WIFEXITED(status)) { /* a sanitizer has ended it */
    assert_int_not_equal(WEXITSTATUS(status), SURVIVED);
    assert_int_not_equal(WEXITSTATUS(status), NOT_THERE);
  }
}

/* One product of two host tensors, by ORT's plain run. */
static void multiply(iobind_runtime *runtime, iobind_device *device, bool on_a_stream) {
  const OrtApi *api = IOBIND__API(runtime);
  iobind_session *session = fixture_session(runtime, device, "matmul");
  iobind_stream *stream;
  OrtRunOptions *options = NULL;
  const OrtValue *inputs[2];
  OrtValue *output = NULL;
  const int64_t dims[2] = {2, 2};
  const float values[4] = {1, 2, 3, 4};
  for (int i = 0; i < 2; i++) {
    iobind_tensor *tensor;
    expect_ok(iobind_tensor_create(runtime->cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 2, &tensor, &fault));
    expect_ok(iobind_tensor_write(tensor, 0, values, sizeof values, NULL, &fault));
    inputs[i] = tensor->value;
  }
  expect_ok(iobind_stream_create(device, NULL, &stream, &fault));
  assert_null(api->CreateRunOptions(&options));
  if (on_a_stream) {
    api->RunOptionsSetSyncStream(options, stream->ep.sync);
  }
  OrtStatus *failed = api->Run(session->session, options, session->input_names, inputs, 2, session->output_names, 1, &output);
  if (failed != NULL) {
    _exit(1); /* a refusal counts as a crash */
  }
}

static void multiply_on_a_stream(iobind_runtime *runtime, iobind_device *device) {
  multiply(runtime, device, true);
}

static void multiply_without(iobind_runtime *runtime, iobind_device *device) {
  multiply(runtime, device, false);
}

/* A node gets an invalid cuBLAS handle if the run has a stream. So iobind gives the session a stream instead. */
static void run_with_a_stream(void **state) {
  (void)state;
  int status = in_child(multiply_without);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), SURVIVED);
  expect_death(in_child(multiply_on_a_stream));
}

/* The EP's table of functions has slots that it never sets. ORT calls them for an importer of external memory, or to find
 * incompatibilities. New memory is filled with a pattern (MALLOC_PERTURB_, or the sanitizer), so that slots that are not set can be
 * recognised. */
static void slots_without_a_function(void **state) {
  (void)state;
  iobind_runtime *runtime = fixture_runtime();
  iobind_device *device = fixture_device(runtime, "cuda");
  void *library = iobind__library_loaded(iobind__device_library(device));
  void *ort = iobind__library_loaded(runtime->ort.path);
  OrtStatus *(*create)(const char *, const OrtApiBase *, const OrtLogger *, OrtEpFactory **, size_t, size_t *);
  const OrtApiBase *(*get_base)(void);
  if (library == NULL || ort == NULL) {
    fail_msg("the EP's library or ONNX Runtime's is not loaded");
    return;
  }
  *(void **)&create = iobind__library_symbol(library, "CreateEpFactories");
  *(void **)&get_base = iobind__library_symbol(ort, "OrtGetApiBase");
  if (create == NULL || get_base == NULL) {
    fail_msg("a symbol is missing");
    return;
  }
  OrtEpFactory *factory = NULL;
  size_t count = 0;
  size_t wild = 0;
  assert_null(create("trap", get_base(), NULL, &factory, 1, &count));
  assert_int_equal(count, 1);
  for (size_t at = offsetof(OrtEpFactory, slots_14); at < sizeof *factory; at += sizeof(void *)) {
    const void *slot;
    memcpy(&slot, (const char *)factory + at, sizeof slot);
    char *file = iobind__library_of(slot);
    wild += slot != NULL && file == NULL;
    free(file);
  }
  assert_true(wild > 0);
  for (int32_t kind = IOBIND_EXTERNAL_FD_MEMORY; kind <= IOBIND_EXTERNAL_D3D12_FENCE; kind++) {
    const bool by_driver = kind == IOBIND_EXTERNAL_FD_MEMORY || kind == IOBIND_EXTERNAL_FD_SEMAPHORE;
    expect(by_driver ? IOBIND_OK : IOBIND_ERROR_NOT_SUPPORTED,
           iobind_device_check_import(device, kind, &fault)); /* ORT would jump to an invalid address */
  }
  iobind_runtime_destroy(runtime);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(run_with_a_stream),
    cmocka_unit_test(slots_without_a_function),
};

FIXTURE_MAIN(tests, NULL, NULL);
