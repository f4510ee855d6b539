#define _POSIX_C_SOURCE 200809L /* fork, sigaction */
#include "rig.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "model.h"
#include "place.h"

rig_state rig;

static struct {
  const char *name;
  const char *key;
  const char *value;
} registration = {"vdev", NULL, NULL};

void rig_plan(const char *name, const char *key, const char *value) {
  registration.name = name;
  registration.key = key;
  registration.value = value;
}

static void create_env(void) {
  OrtKeyValuePairs *entries = NULL;
  if (registration.key == NULL) { /* too old an ORT has nothing else */
    ok(rig.api->CreateEnv(ORT_LOGGING_LEVEL_FATAL, "test", &rig.env));
    return;
  }
  rig.api->CreateKeyValuePairs(&entries);
  rig.api->AddKeyValuePair(entries, registration.key, registration.value);
  const OrtEnvCreationOptions options = {.version = ORT_API_OLDEST,
                                         .logging_severity_level = ORT_LOGGING_LEVEL_FATAL,
                                         .log_id = "test",
                                         .config_entries = entries};
  ok(rig.api->CreateEnvWithOptions(&options, &rig.env));
  rig.api->ReleaseKeyValuePairs(entries);
}

void rig_ok(OrtStatus *status, const char *call, const char *file, int line) {
  if (status != NULL) {
    print_error("%s\n  %s\n", call, rig.api->GetErrorMessage(status));
    rig.api->ReleaseStatus(status);
    _fail(file, line);
  }
}

void rig_refused(OrtStatus *status, const char *words, const char *call, const char *file, int line) {
  if (status == NULL) {
    print_error("%s\n  expected a failure with '%s', but it went well\n", call, words);
    _fail(file, line);
    return;
  }
  bool right = strstr(rig.api->GetErrorMessage(status), words) != NULL;
  if (!right) {
    print_error("%s\n  expected '%s' in '%s'\n", call, words, rig.api->GetErrorMessage(status));
  }
  rig.api->ReleaseStatus(status);
  if (!right) {
    _fail(file, line);
  }
}

OrtStatus *rig_register(const char *name) {
  char path[TEST_WHY];
  if (rig.api == NULL) {
    const OrtApiBase *base = test_ort(path);
    if (base == NULL) {
      fail_msg("%s", path);
      return NULL;
    }
    rig.base = base;
    assert_int_equal(sscanf(base->GetVersionString(), "1.%u.", &rig.minor), 1);
    rig.api = base->GetApi(rig.minor < ORT_API_OLDEST ? rig.minor : ORT_API_OLDEST);
    assert_non_null(rig.api);
    create_env();
    ok(rig.api->CreateMemoryInfo_V2("Cpu", OrtMemoryInfoDeviceType_CPU, 0, 0, OrtDeviceMemoryType_DEFAULT, 0,
                                    OrtDeviceAllocator, &rig.host));
  }
  assert_true(test_path("lib/libiobind_vdev.so", path, sizeof path));
  return rig.api->RegisterExecutionProviderLibrary(rig.env, name, path);
}

int rig_open(void **state) {
  (void)state;
  ok(rig_register(registration.name));
  const OrtEpDevice *const *devices = NULL;
  size_t count = 0;
  ok(rig.api->GetEpDevices(rig.env, &devices, &count));
  rig.device_count = 0;
  for (size_t i = 0; i < count; i++) {
    if (strcmp(rig.api->EpDevice_EpName(devices[i]), "VirtualDeviceExecutionProvider") == 0) {
      rig.devices[rig.device_count++] = devices[i];
    }
  }
  assert_int_equal(rig.device_count, vdev_device_count());
  return 0;
}

/* Nothing that a test made is left on any device. */
int rig_close(void **state) {
  (void)state;
  for (int i = 0; i < vdev_device_count(); i++) {
    assert_int_equal(vdev_get(i, "live_blocks"), 0);
    assert_int_equal(vdev_get(i, "live_bytes"), 0);
    assert_int_equal(vdev_get(i, "pinned_bytes"), 0);
  }
  ok(rig.api->UnregisterExecutionProviderLibrary(rig.env, registration.name));
  rig.api->ReleaseMemoryInfo(rig.host);
  rig.api->ReleaseEnv(rig.env);
  rig.api = NULL;
  rig_plan("vdev", NULL, NULL);
  return 0;
}

void rig_set(const char *name, const char *value, ...) {
  va_list more;
  va_start(more, value);
  while (name != NULL) {
    if (vdev_set(0, name, value) != 0) {
      fail_msg("%s", vdev_last_error());
    }
    name = va_arg(more, const char *);
    value = name == NULL ? NULL : va_arg(more, const char *);
  }
  va_end(more);
}

int64_t rig_get(const char *name) {
  int64_t value = vdev_get(0, name);
  assert_true(value >= 0);
  return value;
}

OrtAllocator *rig_allocator(size_t device, bool pinned) {
  OrtAllocator *allocator = NULL;
  const OrtMemoryInfo *info = rig.api->EpDevice_MemoryInfo(rig.devices[device], pinned ? OrtDeviceMemoryType_HOST_ACCESSIBLE
                                                                                       : OrtDeviceMemoryType_DEFAULT);
  ok(rig.api->GetSharedAllocator(rig.env, info, &allocator));
  assert_non_null(allocator);
  return allocator;
}

static OrtValue *allocated(OrtAllocator *allocator, size_t count) {
  int64_t dim = (int64_t)count;
  OrtValue *value = NULL;
  ok(rig.api->CreateTensorAsOrtValue(allocator, &dim, 1, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &value));
  assert_non_null(rig_data(value));
  return value;
}

OrtValue *rig_device_tensor(size_t device, size_t count) {
  return allocated(rig_allocator(device, false), count);
}

OrtValue *rig_pinned_tensor(size_t device, size_t count) {
  return allocated(rig_allocator(device, true), count);
}

static OrtValue *over(const OrtMemoryInfo *info, void *data, size_t count) {
  int64_t dim = (int64_t)count;
  OrtValue *value = NULL;
  ok(rig.api->CreateTensorWithDataAsOrtValue(info, data, count * sizeof(float), &dim, 1, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT,
                                             &value));
  return value;
}

OrtValue *rig_host_tensor(float *data, size_t count) {
  return over(rig.host, data, count);
}

OrtValue *rig_view(size_t device, void *address, size_t count) {
  return over(rig.api->EpDevice_MemoryInfo(rig.devices[device], OrtDeviceMemoryType_DEFAULT), address, count);
}

void *rig_data(OrtValue *value) {
  void *data = NULL;
  ok(rig.api->GetTensorMutableData(value, &data));
  return data;
}

int rig_signal_of_touch(volatile unsigned char *address, bool write) {
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    struct sigaction plain = {.sa_handler = SIG_DFL};
    sigaction(SIGSEGV, &plain, NULL); /* no sanitizer's report of what is wanted here */
    unsigned char seen = *address;
    if (write) {
      *address = seen;
    }
    _exit(0);
  }
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

OrtStatus *rig_copy(OrtValue *source, OrtValue *target, OrtSyncStream *stream) {
  const OrtValue *sources[1] = {source};
  OrtValue *targets[1] = {target};
  return rig.api->CopyTensors(rig.env, sources, targets, stream, 1);
}

OrtSyncStream *rig_stream(size_t device) {
  OrtSyncStream *stream = NULL;
  ok(rig.api->CreateSyncStreamForEpDevice(rig.devices[device], NULL, &stream));
  return stream;
}

vdev_stream *rig_native(OrtSyncStream *stream) {
  return rig.api->SyncStream_GetHandle(stream);
}

OrtStatus *rig_try_session(const char *model, size_t device, const char *key, const char *value, OrtSession **session) {
  size_t size = 0;
  char text[TEST_MODEL_TEXT] = "";
  const void *bytes = test_model(model, &size, text);
  if (bytes == NULL) {
    fail_msg("%s: %s", model, text);
  }
  OrtSessionOptions *options = NULL;
  ok(rig.api->CreateSessionOptions(&options));
  ok(rig.api->SetIntraOpNumThreads(options, 1));
  ok(rig.api->SessionOptionsAppendExecutionProvider_V2(options, rig.env, &rig.devices[device], 1, &key, &value, key != NULL));
  OrtStatus *status = rig.api->CreateSessionFromArray(rig.env, bytes, size, options, session);
  rig.api->ReleaseSessionOptions(options);
  return status;
}

OrtStatus *rig_synchronize_outputs(OrtIoBinding *binding) {
  return rig.api->SynchronizeBoundOutputs(binding);
}

OrtSession *rig_session(const char *model, size_t device) {
  OrtSession *session = NULL;
  ok(rig_try_session(model, device, NULL, NULL, &session));
  return session;
}

OrtIoBinding *rig_binding(OrtSession *session, OrtValue *input, const char *output_name, OrtValue *output) {
  OrtIoBinding *binding = NULL;
  ok(rig.api->CreateIoBinding(session, &binding));
  ok(rig.api->BindInput(binding, "x", input));
  ok(rig.api->BindOutput(binding, output_name, output));
  return binding;
}

OrtStatus *rig_run(OrtSession *session, OrtIoBinding *binding, OrtSyncStream *stream) {
  if (stream == NULL) {
    return rig.api->RunWithBinding(session, NULL, binding);
  }
  OrtRunOptions *options = NULL;
  ok(rig.api->CreateRunOptions(&options));
  rig.api->RunOptionsSetSyncStream(options, stream);
  ok(rig.api->AddRunConfigEntry(options, "disable_synchronize_execution_providers", "1"));
  OrtStatus *status = rig.api->RunWithBinding(session, options, binding);
  rig.api->ReleaseRunOptions(options);
  return status;
}
