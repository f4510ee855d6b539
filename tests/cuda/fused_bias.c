/* A trap of ONNX Runtime's CUDA EP, on a GPU: with fuse_conv_bias=1 and channels first it adds the result of each run to the one before.
 * Where it does that no more, this fails, and iobind need not refuse these options any longer: the pair in src/ep/cuda.c. */
#include <ort.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models.h"
#include "place.h"

enum { RUNS = 3 };
static const OrtApi *api;

static void check(OrtStatus *status) {
  if (status != NULL) {
    fprintf(stderr, "%s\n", api->GetErrorMessage(status));
    exit(1);
  }
}

/* The first GPU's device of the EP in the directory of ORT_NATIVE_LIB_PATH. */
static const OrtEpDevice *find_device(OrtEnv *env) {
  char path[TEST_WHY];
  const char *folder = getenv("ORT_NATIVE_LIB_PATH");
  const OrtEpDevice *const *devices = NULL;
  size_t count = 0;
  snprintf(path, sizeof path, "%s/libonnxruntime_providers_cuda.so", folder == NULL ? "." : folder);
  check(api->RegisterExecutionProviderLibrary(env, "cuda", path));
  check(api->GetEpDevices(env, &devices, &count));
  for (size_t i = 0; i < count; i++) {
    if (strcmp(api->EpDevice_EpName(devices[i]), "CUDAExecutionProvider") == 0) {
      return devices[i];
    }
  }
  fprintf(stderr, "no device of the CUDA EP in %s\n", path);
  exit(1);
}

static OrtSession *make_session(OrtEnv *env) {
  static const char *const key = "fuse_conv_bias", *const value = "1";
  const OrtEpDevice *device = find_device(env);
  OrtSessionOptions *options = NULL;
  OrtSession *session = NULL;
  void *model = NULL;
  size_t size = 0;
  char text[TEST_MODEL_TEXT];
  if (!test_model_create("convolution", &model, &size, text)) {
    fprintf(stderr, "%s\n", text);
    exit(1);
  }
  check(api->CreateSessionOptions(&options));
  check(api->SessionOptionsAppendExecutionProvider_V2(options, env, &device, 1, &key, &value, 1));
  check(api->CreateSessionFromArray(env, model, size, options, &session));
  api->ReleaseSessionOptions(options);
  free(model);
  return session;
}

/* What a 2 becomes in the convolution y = x + 1. */
static float run(OrtSession *session) {
  static const int64_t dims[4] = {1, 1, 1, 1};
  static const char *const x_name = "x", *const y_name = "y";
  float two = 2;
  float *data = NULL;
  OrtMemoryInfo *host = NULL;
  OrtValue *x = NULL;
  OrtValue *y = NULL;
  check(api->CreateMemoryInfo_V2("Cpu", OrtMemoryInfoDeviceType_CPU, 0, 0, OrtDeviceMemoryType_DEFAULT, 0, OrtDeviceAllocator,
                                 &host));
  check(api->CreateTensorWithDataAsOrtValue(host, &two, sizeof two, dims, 4, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &x));
  check(api->Run(session, NULL, &x_name, (const OrtValue *const *)&x, 1, &y_name, 1, &y));
  check(api->GetTensorMutableData(y, (void **)&data));
  float result = *data;
  api->ReleaseValue(x);
  api->ReleaseValue(y);
  api->ReleaseMemoryInfo(host);
  return result;
}

int main(void) {
  char why[TEST_WHY];
  const OrtApiBase *base = test_ort(why);
  if (base == NULL) {
    fprintf(stderr, "%s\n", why);
    return 1;
  }
  api = base->GetApi(ORT_API_OLDEST);
  OrtEnv *env = NULL;
  check(api->CreateEnv(ORT_LOGGING_LEVEL_ERROR, "fused_bias", &env));
  OrtSession *session = make_session(env);
  float results[RUNS];
  int wrong = 0;
  for (int i = 0; i < RUNS; i++) {
    results[i] = run(session);
    wrong += results[i] != 3;
  }
  printf("x + 1 of 2 in %d runs: %g, %g, %g\n", RUNS, (double)results[0], (double)results[1], (double)results[2]);
  api->ReleaseSession(session);
  api->ReleaseEnv(env);
  return wrong > 0 ? 0 : 1;
}
