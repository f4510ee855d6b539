#define _POSIX_C_SOURCE 200809L /* setenv, fork */
/* Registering the plugin: again and again, with other settings, with settings that cannot be. */
#include "rig.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "models.h"
#include "ort_ep.h"

OrtStatus *CreateEpFactories(const char *name, const OrtApiBase *base, const OrtLogger *logger, OrtEpFactory **factories,
                             size_t most, size_t *count);
OrtStatus *ReleaseEpFactory(OrtEpFactory *factory);

static void use_device(size_t device) {
  float in[4] = {1, 2, 3, 4};
  float out[4] = {0};
  OrtValue *source = rig_host_tensor(in, 4);
  OrtValue *target = rig_host_tensor(out, 4);
  OrtValue *x = rig_device_tensor(device, 4);
  OrtValue *y = rig_device_tensor(device, 4);
  OrtSession *session = rig_session("scale", device);
  OrtIoBinding *binding = rig_binding(session, x, "y", y);
  ok(rig_copy(source, x, NULL));
  ok(rig_run(session, binding, NULL));
  ok(rig_copy(y, target, NULL));
  assert_true(out[3] == 8);
  rig.api->ReleaseIoBinding(binding);
  rig.api->ReleaseSession(session);
  OrtValue *values[] = {source, target, x, y};
  for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
    rig.api->ReleaseValue(values[i]);
  }
}

static void test_again_and_again(void **state) {
  (void)state;
  static const char *const counts[] = {"1", "3", "8", "1"};
  for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
    setenv("VDEV_DEVICES", counts[i], 1);
    rig_open(NULL);
    assert_int_equal(rig.device_count, atoi(counts[i]));
    for (size_t d = 0; d < rig.device_count; d++) {
      use_device(d);
    }
    rig_close(NULL);
  }
}

static void test_twice_by_one_name(void **state) {
  (void)state;
  setenv("VDEV_DEVICES", "1", 1);
  rig_open(NULL);
  refused("vdev", rig_register("vdev"));
  use_device(0);
  rig_close(NULL);
  assert_int_equal(vdev_device_count(), 0);
}

/* The library goes with the last name that it is registered under, though ORT takes its allocators with the first that goes. */
static void test_two_names(void **state) {
  (void)state;
  rig_open(NULL);
  ok(rig_register("other"));
  ok(rig.api->UnregisterExecutionProviderLibrary(rig.env, "other"));
  assert_int_equal(vdev_device_count(), 1);
  rig_close(NULL);
  assert_int_equal(vdev_device_count(), 0);
}

/* A variable that is wrong or unknown is not silently a default: the registration fails and names it. */
static void test_wrong_environment(void **state) {
  (void)state;
  static const char *const wrong[][3] = {
      {"VDEV_DEVICES", "0", "VDEV_DEVICES: 'devices' cannot be '0': expected a number from 1 to 8"},
      {"VDEV_DEVICES", "9", "a number from 1 to 8"},
      {"VDEV_RACE", "fial", "VDEV_RACE: 'race' cannot be 'fial': expected one of off, count, fail"},
      {"VDEV_FAIL_COPPY", "1", "VDEV_FAIL_COPPY: 'fail_coppy' is not a setting"},
      {"VDEV_", "1", "VDEV_"},
      {"VDEV_RESERVE", "1", "VDEV_RESERVE"},
      {"VDEV_RESERVE", "70368744177664", "make 'reserve' smaller"},
      {"VDEV_VENDOR_ID", "0x100000000", "VDEV_VENDOR_ID"},
      {"VDEV_VENDOR_ID", "0", "VDEV_VENDOR_ID: 'vendor_id' cannot be '0': expected a number from 1"}, /* ORT's mark for none */
      {"VDEV_TRACE_FILE", "/no folder/trace.json",
       "'trace_file' cannot be '/no folder/trace.json': expected a file that can be"},
      {"VDEV_TRACE_FILE", "/", "VDEV_TRACE_FILE"},
      {"VDEV_METADATA", "key", "VDEV_METADATA"},
      {"VDEV_METADATA", "a=b,,c=d", "VDEV_METADATA"},
      {"VDEV_METADATA", "is_virtual=0", "VDEV_METADATA"},
      {"VDEV_FAIL_ALLOC", "", "VDEV_FAIL_ALLOC"},
  };
  setenv("VDEV_DEVICES", "8", 1);
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    setenv(wrong[i][0], wrong[i][1], 1);
    refused(wrong[i][2], rig_register("vdev"));
    assert_int_equal(vdev_device_count(), 0);
    unsetenv(wrong[i][0]);
  }
  setenv("VDEV_DEVICES", "1", 1); /* and after that it works */
  rig_open(NULL);
  use_device(0);
  rig_close(NULL);
}

/* The same for what the environment of ORT is configured with; and what is right is taken. */
static void test_entries(void **state) {
  (void)state;
  static const char *const entries[][3] = {
      {"devices", "3", NULL},
      {"race", "fial", "'race' cannot be 'fial'"},
      {"speed", "1", "'speed' is not a setting"},
  };
  unsetenv("VDEV_DEVICES");
  for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++) {
    char key[96];
    snprintf(key, sizeof key, "ep_factory.VirtualDeviceExecutionProvider.%s", entries[i][0]);
    rig_plan("vdev", key, entries[i][1]);
    if (entries[i][2] == NULL) {
      rig_open(NULL);
      assert_int_equal(rig.device_count, 3);
      rig_close(NULL);
      continue;
    }
    refused(entries[i][2], rig_register("vdev"));
    rig.api->ReleaseMemoryInfo(rig.host);
    rig.api->ReleaseEnv(rig.env);
    rig.api = NULL;
  }
  rig_plan("vdev", NULL, NULL);
}

/* ORT's convention: a name that ends in ".virtual" allows virtual devices, as its entry "1" does; a plain name leaves it open,
 * and registering a library that has no others is a yes. Only a "0" is a no. */
static void test_virtual_names(void **state) {
  (void)state;
  static const struct {
    const char *name, *key, *value;
    size_t devices;
  } plans[] = {{"vdev", NULL, NULL, 2},
               {"any.virtual", NULL, NULL, 2},
               {"vdev", "allow_virtual_devices", "1", 2},
               {"any.virtual", "allow_virtual_devices", "1", 2},
               {"vdev", "allow_virtual_devices", "0", 0}};
  setenv("VDEV_DEVICES", "2", 1);
  for (size_t i = 0; i < sizeof plans / sizeof plans[0]; i++) {
    rig_plan(plans[i].name, plans[i].key, plans[i].value);
    ok(rig_register(plans[i].name));
    const OrtEpDevice *const *devices = NULL;
    size_t count = 0;
    size_t found = 0;
    ok(rig.api->GetEpDevices(rig.env, &devices, &count));
    for (size_t d = 0; d < count; d++) {
      const OrtKeyValuePairs *metadata = rig.api->HardwareDevice_Metadata(rig.api->EpDevice_Device(devices[d]));
      if (strcmp(rig.api->EpDevice_EpName(devices[d]), "VirtualDeviceExecutionProvider") == 0) {
        assert_string_equal(rig.api->GetKeyValue(metadata, "is_virtual"), "1"); /* how ORT marks them */
        found++;
      }
    }
    assert_int_equal(found, plans[i].devices);
    rig_close(NULL);
  }
}

/* ORT's policies choose by the type of the hardware. */
static void test_policies(void **state) {
  (void)state;
  static const struct {
    OrtExecutionProviderDevicePolicy policy;
    bool takes_gpu, takes_npu;
  } policies[] = {
      {OrtExecutionProviderDevicePolicy_DEFAULT, false, false},
      {OrtExecutionProviderDevicePolicy_PREFER_CPU, false, false},
      {OrtExecutionProviderDevicePolicy_PREFER_NPU, false, true},
      {OrtExecutionProviderDevicePolicy_PREFER_GPU, true, false},
      {OrtExecutionProviderDevicePolicy_MAX_PERFORMANCE, true, false},
      {OrtExecutionProviderDevicePolicy_MAX_EFFICIENCY, false, true},
      {OrtExecutionProviderDevicePolicy_MIN_OVERALL_POWER, false, true},
  };
  void *bytes = NULL;
  size_t size = 0;
  assert_true(test_model_create("scale", &bytes, &size, NULL));
  for (int npu = 0; npu < 2; npu++) {
    setenv("VDEV_DEVICES", "2", 1);
    setenv("VDEV_HARDWARE", npu ? "npu" : "gpu", 1);
    rig_open(NULL);
    for (size_t i = 0; i < sizeof policies / sizeof policies[0]; i++) {
      OrtSessionOptions *options = NULL;
      OrtSession *session = NULL;
      float in[4] = {1, 2, 3, 4};
      float out[4] = {0};
      const char *names[] = {"x", "y"};
      OrtValue *x = rig_host_tensor(in, 4);
      OrtValue *y = rig_host_tensor(out, 4);
      assert_int_equal(vdev_reset(0), 0);
      ok(rig.api->CreateSessionOptions(&options));
      ok(rig.api->SessionOptionsSetEpSelectionPolicy(options, policies[i].policy));
      ok(rig.api->CreateSessionFromArray(rig.env, bytes, size, options, &session));
      ok(rig.api->Run(session, NULL, names, (const OrtValue *const *)&x, 1, names + 1, 1, &y));
      assert_true(out[3] == 8);
      if (rig_get("kernels") != (npu ? policies[i].takes_npu : policies[i].takes_gpu)) {
        fail_msg("policy %d, %s: %d kernels", (int)policies[i].policy, npu ? "npu" : "gpu", (int)rig_get("kernels"));
      }
      rig.api->ReleaseSession(session);
      rig.api->ReleaseSessionOptions(options);
      rig.api->ReleaseValue(x);
      rig.api->ReleaseValue(y);
    }
    rig_close(NULL);
  }
  unsetenv("VDEV_HARDWARE");
  free(bytes);
}

/* A stream of the native interface that a program forgot goes with the library, and is none afterwards. */
static void test_forgotten_stream(void **state) {
  (void)state;
  setenv("VDEV_DEVICES", "1", 1);
  rig_open(NULL);
  rig_set("delay_copy", "1,us:20000", NULL);
  vdev_stream *stream = vdev_stream_create(0);
  OrtSyncStream *other = rig_stream(0);
  OrtValue *pinned = rig_pinned_tensor(0, 4);
  OrtValue *x = rig_device_tensor(0, 4);
  vdev_event *event = vdev_event_create(0);
  ok(rig_copy(pinned, x, other));
  assert_int_equal(vdev_event_record(event, rig_native(other)), 0);
  assert_int_equal(vdev_stream_wait(stream, event), 0); /* so that it has a thread */
  rig.api->ReleaseSyncStream(other);
  rig.api->ReleaseValue(pinned);
  rig.api->ReleaseValue(x);
  rig_close(NULL);
  assert_int_equal(vdev_stream_synchronize(stream), -1);
  assert_int_equal(vdev_event_query(event), 1);
  vdev_stream_destroy(stream);
  vdev_event_destroy(event);
}

/* Nothing is registered: every function of the library says so, and none crashes. */
static void test_without_a_device(void **state) {
  (void)state;
  assert_int_equal(vdev_device_count(), 0);
  assert_int_equal(vdev_get(0, "kernels"), -1);
  assert_non_null(strstr(vdev_last_error(), "no device 0: there are 0"));
  assert_int_equal(vdev_set(0, "race", "off"), -1);
  assert_int_equal(vdev_reset(0), -1);
  assert_null(vdev_stream_create(0));
  assert_null(vdev_event_create(0));
  assert_int_equal(vdev_host_access("", 1, 0), 0);
  assert_int_equal(vdev_stream_synchronize(NULL), -1);
}

/* An ORT that has no memory left: it makes no status. */
static bool has_memory;
static OrtApi poor_api;
static const OrtApi *real_api;

static OrtStatus *ORT_CALL create_status(OrtErrorCode code, const char *text) {
  return has_memory ? real_api->CreateStatus(code, text) : NULL;
}

static const OrtApi *ORT_CALL get_poor_api(uint32_t version) {
  (void)version;
  return &poor_api;
}

static const char *ORT_CALL get_poor_version(void) {
  return "1.24.0";
}

/* NULL would be success to it: a failure is reported by what was made before; when that is used up too, the process ends. */
static void test_no_memory_for_a_status(void **state) {
  (void)state;
  const OrtApiBase base = {get_poor_api, get_poor_version};
  OrtEpFactory *factory = NULL;
  size_t count = 0;
  rig_open(NULL);
  ok(rig.api->UnregisterExecutionProviderLibrary(rig.env, "vdev"));
  real_api = rig.api;
  poor_api = *rig.api;
  poor_api.CreateStatus = create_status;
  has_memory = true;
  ok(CreateEpFactories("vdev", &base, NULL, &factory, 1, &count));
  has_memory = false;
  refused("there is no memory to say why", factory->CreateEp(factory, NULL, NULL, 2, NULL, NULL, NULL));
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    struct sigaction plain = {.sa_handler = SIG_DFL};
    sigaction(SIGABRT, &plain, NULL);
    (void)factory->CreateEp(factory, NULL, NULL, 2, NULL, NULL, NULL);
    _exit(0);
  }
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
  has_memory = true;
  ok(ReleaseEpFactory(factory));
  rig.api->ReleaseMemoryInfo(rig.host);
  rig.api->ReleaseEnv(rig.env);
  rig.api = NULL;
}

/* The trace of everything, written when the plugin goes. */
static void test_trace_file(void **state) {
  (void)state;
  const char *path = getenv("TEST_VDEV_TRACE");
  if (path == NULL) {
    fail_msg("TEST_VDEV_TRACE is not set: ctest sets it");
    return;
  }
  (void)remove(path);
  setenv("VDEV_TRACE", "1", 1);
  setenv("VDEV_TRACE_FILE", path, 1);
  rig_open(NULL);
  use_device(0);
  rig_close(NULL);
  unsetenv("VDEV_TRACE");
  unsetenv("VDEV_TRACE_FILE");
  char text[4096];
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  text[fread(text, 1, sizeof text - 1, file)] = '\0';
  fclose(file);
  assert_non_null(strstr(text, "\"name\":\"Mul\""));
}

/* A trace that cannot be written when the library is unloaded: ORT gets the error, and logs it. */
static void test_lost_trace(void **state) {
  (void)state;
  char folder[] = "/tmp/vdev-trace-XXXXXX";
  char path[sizeof folder + 16];
  OrtEpFactory *factory = NULL;
  size_t count = 0;
  assert_non_null(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/trace.json", folder);
  rig_open(NULL);
  ok(rig.api->UnregisterExecutionProviderLibrary(rig.env, "vdev"));
  ok(CreateEpFactories("vdev", rig.base, NULL, &factory, 1, &count));
  rig_set("trace_file", path, NULL);
  assert_int_equal(unlink(path), 0); /* made empty, to see whether it can be */
  assert_int_equal(rmdir(folder), 0);
  refused("the trace cannot be written to", ReleaseEpFactory(factory));
  rig.api->ReleaseMemoryInfo(rig.host);
  rig.api->ReleaseEnv(rig.env);
  rig.api = NULL;
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_again_and_again),
    cmocka_unit_test(test_twice_by_one_name),
    cmocka_unit_test(test_two_names),
    cmocka_unit_test(test_without_a_device),
    cmocka_unit_test(test_wrong_environment),
    cmocka_unit_test(test_entries),
    cmocka_unit_test(test_virtual_names),
    cmocka_unit_test(test_policies),
    cmocka_unit_test(test_forgotten_stream),
    cmocka_unit_test(test_trace_file),
    cmocka_unit_test(test_no_memory_for_a_status),
    cmocka_unit_test(test_lost_trace),
};

int main(void) {
  return cmocka_run_group_tests(cases, NULL, NULL);
}
