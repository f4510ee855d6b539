/* Runtimes: counted, with EP libraries from every source, quiet. Each test runs in a process of its own: the environment and
 * what ORT has loaded belong to the process. */
#define _GNU_SOURCE
#include "fixture.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "models.h"
#include "runtime/runtime.h"

static char folder[] = "/tmp/iobind-runtime-XXXXXX";
static char bad_library[64];

static int start(void **state) {
  (void)state;
  unsetenv("ORT_NATIVE_LIB_PATH");
  unsetenv("IOBIND_EP_LIBRARIES");
  if (mkdtemp(folder) == NULL) {
    return -1;
  }
  snprintf(bad_library, sizeof bad_library, "%s/libbad.so", folder);
  FILE *file = fopen(bad_library, "wb");
  if (file == NULL || fputs("no library\n", file) < 0) {
    return -1;
  }
  return fclose(file);
}

static int stop(void **state) {
  (void)state;
  unlink(bad_library);
  return rmdir(folder);
}

static void go_without_webgpu(const char *reason) {
  print_message("%s\n", reason);
  if (test_requires("webgpu")) {
    fail();
  }
  skip();
}

/* The WebGPU plugin EP of the runtime directory; the test is skipped without it. */
static const char *webgpu_library(void) {
  const char *path = fixture_path("lib/iobind/ep/webgpu/libonnxruntime_providers_webgpu.so");
  if (access(path, R_OK) != 0) {
    go_without_webgpu("no WebGPU plugin: scripts/get-onnxruntime --ep webgpu fetches it");
  }
  return path;
}

/* The same if it offers a device to callers that allow software devices. */
static const char *webgpu_with_device(void) {
  if (access("/sys/class", F_OK) != 0) {
    go_without_webgpu("no /sys/class: ONNX Runtime lists no GPU, and no software device stands in for one");
  }
  return webgpu_library();
}

static iobind_runtime_options listed(const char *const *libraries, size_t count) {
  iobind_runtime_options options = IOBIND_RUNTIME_OPTIONS_INIT;
  options.flags = IOBIND_RUNTIME_NO_EP_SEARCH | IOBIND_RUNTIME_SOFTWARE_DEVICES;
  options.ep_libraries = libraries;
  options.ep_library_count = count;
  return options;
}

static iobind_runtime *create(const iobind_runtime_options *options) {
  iobind_runtime *runtime = NULL;
  expect_ok(iobind_runtime_create(options, &runtime, &fault));
  assert_non_null(runtime);
  return runtime;
}

static iobind_runtime_info info_of(const iobind_runtime *runtime) {
  iobind_runtime_info info = IOBIND_RUNTIME_INFO_INIT;
  expect_ok(iobind_runtime_get_info(runtime, &info, &fault));
  return info;
}

static iobind_ep_info ep_of(const iobind_runtime *runtime, size_t index) {
  iobind_ep_info info = IOBIND_EP_INFO_INIT;
  expect_ok(iobind_runtime_get_ep(runtime, index, &info, &fault));
  return info;
}

static size_t count_devices(const iobind_runtime *runtime, const char *ep_name) {
  size_t count = 0;
  iobind_device *device;
  for (size_t i = 0; (device = iobind_runtime_get_device(runtime, i)) != NULL; i++) {
    iobind_device_info info = IOBIND_DEVICE_INFO_INIT;
    expect_ok(iobind_device_get_info(device, &info, &fault));
    count += strcmp(info.ep_name, ep_name) == 0;
  }
  return count;
}

static void counted(void **state) {
  (void)state;
  iobind_runtime_options options = listed(NULL, 0);
  iobind_runtime *first = create(&options);
  iobind_runtime *second = create(&options);
  assert_ptr_equal(second, first);
  iobind_device *cpu = iobind_runtime_get_device(first, 0);
  iobind_runtime_destroy(first);
  assert_ptr_equal(iobind_runtime_get_device(second, 0), cpu);
  iobind_runtime_destroy(second);
  for (int i = 0; i < 3; i++) { /* and again, from nothing */
    iobind_runtime_destroy(create(&options));
  }
}

static void wrong_options(void **state) {
  (void)state;
  int anything = 0;
  static const char *const entries[] = {"cpu", NULL};
  iobind_runtime_options rows[7];
  for (size_t i = 0; i < 7; i++) {
    rows[i] = listed(NULL, 0);
  }
  rows[0].log_level = IOBIND_LOG_ERROR + 1;
  rows[1].log_level = -1;
  rows[2].flags |= 1u << 20;
  rows[3].ep_library_count = 1;
  rows[4].struct_size--;
  rows[5].ep_libraries = entries + 1;
  rows[5].ep_library_count = 1;
  rows[6].struct_size = 0;
  for (size_t i = 0; i < 7; i++) {
    iobind_runtime *runtime = (iobind_runtime *)(void *)&anything;
    expect(i == 2 ? IOBIND_ERROR_NOT_SUPPORTED : IOBIND_ERROR_INVALID_ARGUMENT,
           iobind_runtime_create(&rows[i], &runtime, &fault));
    assert_null(runtime);
  }
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_runtime_create(NULL, NULL, &fault));
}

static void library_by_file(void **state) {
  (void)state;
  const char *library = webgpu_with_device();
  iobind_runtime_options options = listed(&library, 1);
  iobind_runtime *runtime = create(&options);
  assert_int_equal(info_of(runtime).ep_count, 1);
  iobind_ep_info ep = ep_of(runtime, 0);
  assert_int_equal(ep.status, IOBIND_OK);
  assert_string_equal(ep.name, "webgpu");
  assert_string_equal(ep.path, library);
  assert_string_equal(ep.message, "");
  assert_int_equal(count_devices(runtime, "WebGpuExecutionProvider"), 1);
  expect(IOBIND_ERROR_NOT_FOUND, iobind_runtime_get_ep(runtime, 1, &ep, &fault));
  /* the same once more, by each way in */
  expect_ok(iobind_runtime_register_ep(runtime, NULL, library, &fault));
  expect_ok(iobind_runtime_register_ep(runtime, "webgpu", library, &fault));
  iobind_runtime_destroy(create(&options));
  assert_int_equal(info_of(runtime).ep_count, 1);
  assert_int_equal(count_devices(runtime, "WebGpuExecutionProvider"), 1);
  iobind_runtime_destroy(runtime);
}

static void library_by_name(void **state) {
  (void)state;
  char entry[1100];
  snprintf(entry, sizeof entry, "mine=%s", webgpu_with_device());
  const char *library = entry;
  iobind_runtime_options options = listed(&library, 1);
  iobind_runtime *runtime = create(&options);
  assert_string_equal(ep_of(runtime, 0).name, "mine");
  assert_string_equal(ep_of(runtime, 0).path, entry + 5);
  assert_int_equal(count_devices(runtime, "WebGpuExecutionProvider"), 1);
  iobind_runtime_destroy(runtime);
}

/* The search meets the file that was registered under another name already: it is that one, and no host program's. */
static void library_by_name_and_search(void **state) {
  (void)state;
  char entry[1100];
  snprintf(entry, sizeof entry, "mine=%s", webgpu_with_device());
  const char *library = entry;
  iobind_runtime_options options = listed(&library, 1);
  options.flags = IOBIND_RUNTIME_SOFTWARE_DEVICES;
  iobind_runtime *runtime = create(&options);
  assert_int_equal(count_devices(runtime, "WebGpuExecutionProvider"), 1);
  for (size_t i = 0; i < info_of(runtime).ep_count; i++) {
    iobind_ep_info ep = ep_of(runtime, i);
    assert_null(strstr(ep.message, "host program"));
    assert_string_not_equal(ep.path, "");
  }
  iobind_runtime_destroy(runtime);
}

/* The tool lists a software adapter, and the library does not: the message says which flag makes the difference. */
static void software_adapter_without_the_flag(void **state) {
  (void)state;
  const char *library = webgpu_library();
  unsetenv("ORT_WEBGPU_EP_ALLOW_SOFTWARE_ADAPTER");
  iobind_runtime_options options = listed(&library, 1);
  options.flags = IOBIND_RUNTIME_NO_EP_SEARCH;
  iobind_runtime *runtime = create(&options);
  if (count_devices(runtime, "WebGpuExecutionProvider") == 0) {
    iobind_device *device = NULL;
    expect(IOBIND_ERROR_NOT_FOUND, iobind_runtime_find_device(runtime, "webgpu,gpu", &device, NULL, &fault));
    expect_words("webgpu: not found; without a GPU it needs IOBIND_RUNTIME_SOFTWARE_DEVICES; gpu: not found");
  }
  iobind_runtime_destroy(runtime);
}

/* Relative to the current directory: ORT would look beside itself. */
static void library_by_relative_path(void **state) {
  (void)state;
  assert_int_equal(chdir(fixture_path("lib")), 0);
  iobind_runtime_options options = listed(NULL, 0);
  iobind_runtime *runtime = create(&options);
  expect_ok(iobind_runtime_register_ep(runtime, NULL, "libiobind_vdev.so", &fault));
  assert_int_equal(count_devices(runtime, "VirtualDeviceExecutionProvider"), 1);
  iobind_runtime_destroy(runtime);
}

static void library_by_folder(void **state) {
  (void)state;
  (void)webgpu_with_device();
  const char *library = fixture_path("lib/iobind/ep");
  iobind_runtime_options options = listed(&library, 1);
  iobind_runtime *runtime = create(&options);
  assert_int_equal(count_devices(runtime, "WebGpuExecutionProvider"), 1);
  iobind_runtime_destroy(runtime);
}

static void library_by_environment(void **state) {
  (void)state;
  char list[4096];
  /* empty entries, one that is missing, one that does not load, one that does */
  snprintf(list, sizeof list, "::no/such/library.so:bad=%s:mine=%s:", bad_library, webgpu_with_device());
  setenv("IOBIND_EP_LIBRARIES", list, 1);
  iobind_runtime_options options = IOBIND_RUNTIME_OPTIONS_INIT;
  options.flags = IOBIND_RUNTIME_SOFTWARE_DEVICES;
  iobind_runtime *runtime = create(&options);
  assert_true(info_of(runtime).ep_count >= 3);
  iobind_ep_info missing = ep_of(runtime, 0);
  assert_int_equal(missing.status, IOBIND_ERROR_NOT_FOUND);
  assert_string_equal(missing.path, "no/such/library.so");
  assert_string_equal(missing.message, "no such file");
  iobind_ep_info bad = ep_of(runtime, 1);
  assert_int_equal(bad.status, IOBIND_ERROR_RUNTIME);
  assert_string_equal(bad.name, "bad");
  assert_string_equal(bad.path, bad_library);
  assert_non_null(strstr(bad.message, bad_library));
  iobind_ep_info good = ep_of(runtime, 2);
  assert_int_equal(good.status, IOBIND_OK);
  assert_string_equal(good.name, "mine");
  assert_int_equal(count_devices(runtime, "WebGpuExecutionProvider"), 1);
  iobind_runtime_destroy(runtime);
}

/* The reason why a library did not load is in the error for its device. */
static void failed_library_explains_its_device(void **state) {
  (void)state;
  char list[128];
  snprintf(list, sizeof list, "cuda=%s", bad_library);
  setenv("IOBIND_EP_LIBRARIES", list, 1);
  iobind_runtime *runtime = create(NULL);
  iobind_device *device = NULL;
  expect(IOBIND_ERROR_NOT_FOUND, iobind_runtime_find_device(runtime, "cuda", &device, NULL, &fault));
  expect_words("libbad.so");
  iobind_runtime_info before = IOBIND_RUNTIME_INFO_INIT;
  iobind_runtime_info after = IOBIND_RUNTIME_INFO_INIT;
  expect_ok(iobind_runtime_get_info(runtime, &before, &fault));
  expect(IOBIND_ERROR_RUNTIME, iobind_runtime_register_ep(runtime, "cuda", bad_library, &fault)); /* no better now */
  expect_ok(iobind_runtime_get_info(runtime, &after, &fault));
  assert_int_equal(after.ep_count, before.ep_count); /* listed once */
  iobind_runtime_destroy(runtime);
}

/* A device that does not work is named only once in the message. */
static void failed_device_is_named_once(void **state) {
  (void)state;
  setenv("VDEV_FAIL_SESSION", "every:1", 1);
  iobind_runtime *runtime = create(NULL);
  iobind_device *device = NULL;
  expect(IOBIND_ERROR_WRONG_DEVICE, iobind_runtime_find_device(runtime, "vdev:0", &device, NULL, &fault));
  expect_words("runtime_find_device: no device works: vdev:0: session: ");
  assert_null(strstr(strstr(fault.message, "vdev:0") + 1, "vdev:0"));
  expect(IOBIND_ERROR_WRONG_DEVICE,
         iobind_device_check(iobind_runtime_get_device(runtime, info_of(runtime).device_count - 1), &fault));
  expect_words("device_check: vdev:0: session: ");
  assert_null(strstr(strstr(fault.message, "vdev:0") + 1, "vdev:0"));
  iobind_runtime_destroy(runtime);
}

static void failed_library_of_the_options(void **state) {
  (void)state;
  const char *const rows[] = {bad_library, "no/such/library.so", "=x.so", "a=", ""};
  static const iobind_status statuses[] = {IOBIND_ERROR_RUNTIME, IOBIND_ERROR_NOT_FOUND, IOBIND_ERROR_INVALID_ARGUMENT,
                                           IOBIND_ERROR_NOT_FOUND, IOBIND_ERROR_NOT_FOUND};
  int anything = 0;
  for (size_t i = 0; i < 5; i++) {
    iobind_runtime_options options = listed(&rows[i], 1);
    iobind_runtime *runtime = (iobind_runtime *)(void *)&anything;
    expect(statuses[i], iobind_runtime_create(&options, &runtime, &fault));
    assert_null(runtime);
    if (i < 2) {
      expect_words(rows[i]);
    }
  }
  /* the same where the runtime is there already: its reference is not lost and not left over */
  iobind_runtime_options none = listed(NULL, 0);
  iobind_runtime *runtime = create(&none);
  iobind_runtime *second = NULL;
  iobind_runtime_options options = listed(&rows[0], 1);
  expect(IOBIND_ERROR_RUNTIME, iobind_runtime_create(&options, &second, &fault));
  assert_null(second);
  assert_int_equal(atomic_load(&runtime->ref.count), 1);
  expect(IOBIND_ERROR_RUNTIME, iobind_runtime_register_ep(runtime, "x", bad_library, &fault));
  expect(IOBIND_ERROR_NOT_FOUND, iobind_runtime_register_ep(runtime, "x", folder, &fault));
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_runtime_register_ep(runtime, "x", NULL, &fault));
  iobind_runtime_destroy(runtime);
}

static void ORT_CALL host_log(void *param, OrtLoggingLevel severity, const char *category, const char *logid,
                              const char *code_location, const char *message) {
  (void)param, (void)severity, (void)category, (void)logid, (void)code_location, (void)message;
}

/* A program that uses ORT by itself and has registered a library before iobind comes. */
static const OrtApi *start_host(const char *name, const char *library, OrtEnv **env) {
  setenv("ORT_WEBGPU_EP_ALLOW_SOFTWARE_ADAPTER", "1", 1);
  setenv("ORT_DISABLE_TELEMETRY", "1", 1);
  void *loaded = dlopen(fixture_path("lib/iobind/onnxruntime/libonnxruntime.so"), RTLD_NOW | RTLD_LOCAL);
  assert_non_null(loaded);
  void *symbol = dlsym(loaded, "OrtGetApiBase");
  OrtGetApiBaseFunction get_base;
  memcpy(&get_base, &symbol, sizeof get_base);
  const OrtApi *api = get_base()->GetApi(24);
  assert_null(api->CreateEnvWithCustomLogger(host_log, NULL, ORT_LOGGING_LEVEL_ERROR, "host", env));
  assert_null(api->RegisterExecutionProviderLibrary(*env, name, library));
  return api;
}

static void with_host(const char *name, bool listed_too) {
  const char *library = webgpu_library();
  OrtEnv *env = NULL;
  const OrtApi *api = start_host(name, library, &env);
  for (int round = 0; round < 2; round++) {
    iobind_runtime_options options = listed(&library, listed_too ? 1 : 0);
    options.flags = IOBIND_RUNTIME_SOFTWARE_DEVICES;
    options.ort_api = api;
    iobind_runtime *runtime = create(&options);
    assert_int_equal(count_devices(runtime, "WebGpuExecutionProvider"), 1);
    assert_int_equal(ep_of(runtime, 0).status, IOBIND_OK);
    iobind_device *device = fixture_device(runtime, "webgpu");
    static const float values[] = {1, 2, 3};
    iobind_tensor *tensor = fixture_floats(device, values, 3);
    fixture_expect_floats(tensor, values, 3);
    iobind_tensor_release(tensor);
    iobind_runtime_destroy(runtime);
    /* the library is still the host's */
    const OrtEpDevice *const *devices = NULL;
    size_t count = 0;
    size_t webgpu = 0;
    assert_null(api->GetEpDevices(env, &devices, &count));
    for (size_t i = 0; i < count; i++) {
      webgpu += strcmp(api->EpDevice_EpName(devices[i]), "WebGpuExecutionProvider") == 0;
    }
    assert_int_equal(webgpu, 1);
  }
  assert_null(api->UnregisterExecutionProviderLibrary(env, name));
  api->ReleaseEnv(env);
}

static void host_was_first(void **state) {
  (void)state;
  with_host("webgpu", false);
}

static void host_was_first_and_it_is_listed(void **state) {
  (void)state;
  with_host("webgpu", true);
}

static void host_was_first_by_another_name(void **state) {
  (void)state;
  with_host("host's own", false);
}

static void host_was_first_by_another_name_and_it_is_listed(void **state) {
  (void)state;
  with_host("host's own", true);
}

static void copy_file(const char *from, const char *to) {
  char bytes[65536];
  FILE *in = fopen(from, "rb");
  FILE *out = fopen(to, "wb");
  assert_true(in != NULL && out != NULL);
  for (size_t count; (count = fread(bytes, 1, sizeof bytes, in)) > 0;) {
    assert_int_equal(fwrite(bytes, 1, count, out), count);
  }
  assert_int_equal(fclose(out), 0);
  (void)fclose(in);
}

/* The EP is the host program's, from a file of its own: the one that the search finds is not registered, and listed with the reason. */
static void host_has_a_copy(void **state) {
  (void)state;
  char copy[64];
  OrtEnv *env = NULL;
  snprintf(copy, sizeof copy, "%s/libcopy.so", folder);
  copy_file(fixture_path("lib/libiobind_vdev.so"), copy);
  const OrtApi *api = start_host("host's own", copy, &env);
  assert_int_equal(unlink(copy), 0);
  iobind_runtime_options options = listed(NULL, 0);
  options.ort_api = api;
  iobind_runtime *runtime = create(&options);
  for (int i = 0; i < 2; i++) { /* asked for by name: looked for, each time */
    (void)fixture_device(runtime, "vdev");
    assert_int_equal(count_devices(runtime, "VirtualDeviceExecutionProvider"), 1);
  }
  iobind_runtime_info info = IOBIND_RUNTIME_INFO_INIT;
  expect_ok(iobind_runtime_get_info(runtime, &info, &fault));
  assert_int_equal(info.ep_count, 1);
  iobind_ep_info ep = ep_of(runtime, 0);
  assert_int_equal(ep.status, IOBIND_OK);
  assert_string_equal(ep.name, "vdev");
  assert_string_equal(ep.path, "");
  assert_string_equal(ep.message, "its EP is registered from another file");
  /* the name is taken: it means that library */
  expect_ok(iobind_runtime_register_ep(runtime, "host's own", fixture_path("lib/libiobind_vdev.so"), &fault));
  assert_int_equal(count_devices(runtime, "VirtualDeviceExecutionProvider"), 1);
  iobind_runtime_destroy(runtime);
  assert_null(api->UnregisterExecutionProviderLibrary(env, "host's own"));
  api->ReleaseEnv(env);
}

typedef struct lines {
  pthread_mutex_t mutex;
  size_t counts[IOBIND_LOG_ERROR + 1];
  char warning[256]; /* the last one of iobind's own */
  bool malformed;
} lines;

static void collect(void *context, int32_t level, const char *message) {
  lines *all = context;
  pthread_mutex_lock(&all->mutex);
  if (level < IOBIND_LOG_VERBOSE || level > IOBIND_LOG_ERROR || message == NULL || strpbrk(message, "\r\n") != NULL ||
      !test_is_utf8(message)) {
    all->malformed = true;
  } else {
    all->counts[level]++;
    if (level == IOBIND_LOG_WARNING && strncmp(message, "iobind: ", 8) == 0) {
      snprintf(all->warning, sizeof all->warning, "%s", message);
    }
  }
  pthread_mutex_unlock(&all->mutex);
}

static void log_levels(void **state) {
  (void)state;
  for (int32_t level = IOBIND_LOG_DEFAULT; level <= IOBIND_LOG_ERROR; level++) {
    lines all = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    iobind_runtime_options options = listed(NULL, 0);
    options.log = collect;
    options.log_context = &all;
    options.log_level = level;
    iobind_runtime *runtime = create(&options);
    assert_int_not_equal(iobind_runtime_register_ep(runtime, "a\nname", bad_library, NULL), IOBIND_OK); /* a warning */
    iobind_session *session = fixture_session(runtime, NULL, "scale");
    iobind_session_destroy(session);
    iobind_runtime_destroy(runtime);
    int32_t least = level == IOBIND_LOG_DEFAULT ? IOBIND_LOG_WARNING : level;
    for (int32_t l = IOBIND_LOG_VERBOSE; l < least; l++) {
      assert_int_equal(all.counts[l], 0);
    }
    assert_true(least > IOBIND_LOG_WARNING || all.counts[IOBIND_LOG_WARNING] > 0);
    assert_true(least > IOBIND_LOG_VERBOSE || all.counts[IOBIND_LOG_VERBOSE] > 0); /* ORT's own */
    assert_false(all.malformed);
  }
}

/* An option that may be a slip of the hand is passed on, and the log says what may be meant. */
static void near_option_is_logged(void **state) {
  (void)state;
  const char *library = webgpu_library();
  lines all = {.mutex = PTHREAD_MUTEX_INITIALIZER};
  iobind_runtime_options options = listed(&library, 1);
  options.flags |= IOBIND_RUNTIME_SOFTWARE_DEVICES;
  options.log = collect;
  options.log_context = &all;
  iobind_runtime *runtime = create(&options);
  iobind_device *device = fixture_device(runtime, "webgpu");
  static const char *const keys[] = {"enableInt16"};
  static const char *const values[] = {"1"};
  iobind_session_options named = IOBIND_SESSION_OPTIONS_INIT;
  named.devices = &device;
  named.device_count = 1;
  named.ep_keys = keys;
  named.ep_values = values;
  named.ep_option_count = 1;
  iobind_session *session = NULL;
  expect_ok(test_session_with(runtime, "scale", &named, &session, &fault));
  assert_non_null(strstr(all.warning, "'enableInt16'"));
  assert_non_null(strstr(all.warning, "'enableInt64'"));
  iobind_session_destroy(session);
  iobind_runtime_destroy(runtime);
}

static iobind_status load_with_option(iobind_runtime *runtime, iobind_device *device, const char *key, const char *value) {
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  iobind_session *session = NULL;
  options.devices = &device;
  options.device_count = 1;
  options.ep_keys = &key;
  options.ep_values = &value;
  options.ep_option_count = 1;
  iobind_status status = test_session_with(runtime, "scale", &options, &session, &fault);
  iobind_session_destroy(session);
  return status;
}

/* A plugin with the name of CUDA's EP and of its file has options and rules of its own: its library has no GetProvider. */
static void cuda_as_a_plugin(void **state) {
  (void)state;
  char path[4096];
  assert_true(test_path("tests/plugin/libonnxruntime_providers_cuda.so", path, sizeof path));
  const char *library = path;
  iobind_runtime_options options = listed(&library, 1);
  iobind_runtime *runtime = create(&options);
  iobind_device *device = NULL;
  expect_ok(iobind_runtime_find_device(runtime, "cuda:0", &device, NULL, &fault));
  expect_ok(load_with_option(runtime, device, "race", "count"));
  expect(IOBIND_ERROR_RUNTIME, load_with_option(runtime, device, "race", "some")); /* it was asked itself, and said so */
  expect(IOBIND_ERROR_RUNTIME, load_with_option(runtime, device, "use_tf32", "2"));
  expect_words("use_tf32");
  iobind_runtime_destroy(runtime);
}

/* Cut in the middle of a character, a log line would not be UTF-8. */
static void log_lines_are_utf8(void **state) {
  (void)state;
  lines all = {.mutex = PTHREAD_MUTEX_INITIALIZER};
  iobind_runtime_options options = listed(NULL, 0);
  options.log = collect;
  options.log_context = &all;
  iobind_runtime *runtime = create(&options);
  char name[1800];
  for (size_t i = 0; i + 2 < sizeof name; i += 2) {
    memcpy(name + i, "\xC3\xA9", 2);
  }
  name[sizeof name - 2] = '\0';
  assert_int_not_equal(iobind_runtime_register_ep(runtime, name, bad_library, NULL), IOBIND_OK);
  name[0] = name[1] = 'x';
  assert_int_not_equal(iobind_runtime_register_ep(runtime, name + 1, bad_library, NULL), IOBIND_OK);
  iobind_runtime_destroy(runtime);
  assert_false(all.malformed);
  assert_true(all.counts[IOBIND_LOG_WARNING] >= 2);
}

static char *passed_over[4];
static size_t passed_count;

static void keep_warnings(void *context, int32_t level, const char *message) {
  (void)context;
  if (level == IOBIND_LOG_WARNING && strstr(message, "runtime_find_device") != NULL && passed_count < 4) {
    passed_over[passed_count++] = strdup(message);
  }
}

/* A list passes over it, and says why; a spec of its own, and a list without another, give it. */
static void device_that_computes_wrong(void **state) {
  (void)state;
  setenv("VDEV_WRONG_COMPUTE", "from:2", 1); /* the first is the tiny session's */
  iobind_runtime_options options = IOBIND_RUNTIME_OPTIONS_INIT;
  options.log = keep_warnings;
  options.log_level = IOBIND_LOG_WARNING;
  iobind_runtime *runtime = create(&options);
  iobind_device *device = NULL;
  iobind_device *cpu = iobind_runtime_get_device(runtime, 0);
  expect_ok(iobind_runtime_find_device(runtime, "vdev", &device, NULL, &fault));
  assert_ptr_not_equal(device, cpu);
  assert_int_equal(passed_count, 0);
  iobind_device *vdev = device;
  expect_ok(iobind_runtime_find_device(runtime, "vdev,cpu", &device, NULL, &fault));
  assert_ptr_equal(device, cpu);
  assert_int_equal(passed_count, 1);
  assert_non_null(strstr(passed_over[0],
                         "vdev:0 computes wrong: Conv with 33 channels, MatMul over 33 elements, ReduceSum of 5x33 elements"));
  iobind_memory memory = IOBIND_MEMORY_DEFAULT;
  expect_ok(iobind_runtime_find_device(runtime, "dml,vdev/pinned", &device, &memory, &fault));
  assert_ptr_equal(device, vdev);
  assert_int_equal(memory, IOBIND_MEMORY_HOST_ACCESSIBLE);
  assert_int_equal(passed_count, 3);
  assert_non_null(strstr(passed_over[2], "vdev:0 is returned"));
  expect(IOBIND_ERROR_RESULT, iobind_device_check(vdev, &fault));
  expect_words("device_check: vdev:0 computes wrong: ");
  expect_ok(iobind_device_check(cpu, &fault));
  iobind_runtime_destroy(runtime);
  while (passed_count > 0) {
    free(passed_over[--passed_count]);
  }
}

/* A whole life, failures and a device included, without a line on stderr. */
static void nothing_on_stderr(void **state) {
  (void)state;
  char path[64];
  snprintf(path, sizeof path, "%s/stderr", folder);
  fflush(stderr);
  int kept = dup(2);
  FILE *file = fopen(path, "w+b");
  assert_non_null(file);
  assert_int_equal(dup2(fileno(file), 2), 2);
  iobind_runtime_options options = IOBIND_RUNTIME_OPTIONS_INIT;
  options.flags = IOBIND_RUNTIME_SOFTWARE_DEVICES;
  iobind_runtime *runtime = NULL;
  iobind_status created = iobind_runtime_create(&options, &runtime, NULL);
  iobind_device *device = NULL;
  iobind_status found = iobind_runtime_find_device(runtime, "webgpu,cpu", &device, NULL, NULL);
  bool driver = iobind_runtime_find_device(runtime, "webgpu", &device, NULL, NULL) == IOBIND_OK;
  iobind_session *session = NULL;
  iobind_status refused = iobind_session_create_from_memory(runtime, "no model", 8, NULL, &session, NULL);
  iobind_status unregistered = iobind_runtime_register_ep(runtime, NULL, bad_library, NULL);
  iobind_runtime_destroy(runtime);
  fflush(stderr);
  dup2(kept, 2);
  close(kept);
  char text[512] = "";
  fseek(file, 0, SEEK_SET);
  size_t length = fread(text, 1, sizeof text - 1, file);
  fclose(file);
  unlink(path);
  assert_int_equal(created, IOBIND_OK);
  assert_int_equal(found, IOBIND_OK);
  assert_int_equal(refused, IOBIND_ERROR_RUNTIME);
  assert_int_equal(unregistered, IOBIND_ERROR_RUNTIME);
  text[length] = '\0';
  if (!driver && strstr(text, "vkCreateInstance") != NULL) {
    print_message("WebGPU, which finds no Vulkan driver, says so on stderr itself\n");
    skip();
  }
  assert_string_equal(text, "");
}

/* The switch is in the environment before ORT is loaded, so it can be seen where no ORT is found. */
static void telemetry(void **state) {
  (void)state;
  unsetenv("ORT_DISABLE_TELEMETRY");
  iobind_runtime_options options = listed(NULL, 0);
  options.ort_library = "no/such/library.so";
  options.flags |= IOBIND_RUNTIME_TELEMETRY;
  iobind_runtime *runtime = NULL;
  expect(IOBIND_ERROR_NOT_FOUND, iobind_runtime_create(&options, &runtime, &fault));
  assert_null(getenv("ORT_DISABLE_TELEMETRY"));
  options.flags = 0;
  expect(IOBIND_ERROR_NOT_FOUND, iobind_runtime_create(&options, &runtime, &fault));
  assert_non_null(getenv("ORT_DISABLE_TELEMETRY"));
  assert_string_equal(getenv("ORT_DISABLE_TELEMETRY"), "1");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(counted),
    cmocka_unit_test(wrong_options),
    cmocka_unit_test(library_by_file),
    cmocka_unit_test(library_by_name),
    cmocka_unit_test(library_by_name_and_search),
    cmocka_unit_test(software_adapter_without_the_flag),
    cmocka_unit_test(library_by_relative_path),
    cmocka_unit_test(library_by_folder),
    cmocka_unit_test(library_by_environment),
    cmocka_unit_test(failed_library_explains_its_device),
    cmocka_unit_test(failed_device_is_named_once),
    cmocka_unit_test(device_that_computes_wrong),
    cmocka_unit_test(failed_library_of_the_options),
    cmocka_unit_test(host_was_first),
    cmocka_unit_test(host_was_first_and_it_is_listed),
    cmocka_unit_test(host_was_first_by_another_name),
    cmocka_unit_test(host_was_first_by_another_name_and_it_is_listed),
    cmocka_unit_test(host_has_a_copy),
    cmocka_unit_test(log_levels),
    cmocka_unit_test(near_option_is_logged),
    cmocka_unit_test(cuda_as_a_plugin),
    cmocka_unit_test(log_lines_are_utf8),
    cmocka_unit_test(nothing_on_stderr),
    cmocka_unit_test(telemetry),
};

FIXTURE_MAIN(tests, start, stop);
