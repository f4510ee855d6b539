/* Finding ONNX Runtime. A process loads it once, so each test here runs in a process of its own: the argument names it. */
#define _GNU_SOURCE /* RTLD_NOLOAD */
#include "fixture.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "models.h"
#include "runtime/runtime.h"
#include "../rig/calls.h"

static const char library_name[] = "libonnxruntime.so";
static char folder[] = "/tmp/iobind-find-XXXXXX";

static int start(void **state) {
  (void)state;
  unsetenv("ORT_NATIVE_LIB_PATH");
  unsetenv("IOBIND_EP_LIBRARIES");
  return mkdtemp(folder) == NULL ? -1 : 0;
}

static int stop(void **state) {
  (void)state;
  char path[128];
  snprintf(path, sizeof path, "%s/%s", folder, library_name);
  unlink(path);
  return rmdir(folder);
}

static const char *real_folder(void) {
  return fixture_path("lib/iobind/onnxruntime");
}

static const char *real_file(void) {
  return fixture_path("lib/iobind/onnxruntime/libonnxruntime.so");
}

static iobind_runtime_options plain(void) {
  iobind_runtime_options options = IOBIND_RUNTIME_OPTIONS_INIT;
  options.flags = IOBIND_RUNTIME_NO_EP_SEARCH;
  return options;
}

static iobind_runtime *create(const iobind_runtime_options *options) {
  iobind_runtime *runtime = NULL;
  expect_ok(iobind_runtime_create(options, &runtime, &fault));
  assert_non_null(runtime);
  return runtime;
}

static void refuse(iobind_status status, const iobind_runtime_options *options) {
  int anything = 0;
  iobind_runtime *runtime = (iobind_runtime *)(void *)&anything;
  expect(status, iobind_runtime_create(options, &runtime, &fault));
  assert_null(runtime);
}

/* The runtime came from this file by this step, and it works. */
static void expect_found(iobind_runtime *runtime, const char *file, const char *found_by) {
  iobind_runtime_info info = IOBIND_RUNTIME_INFO_INIT;
  expect_ok(iobind_runtime_get_info(runtime, &info, &fault));
  assert_string_equal(info.found_by, found_by);
  char *resolved = realpath(file, NULL);
  assert_non_null(resolved);
  assert_string_equal(info.ort_library, resolved);
  free(resolved);
  assert_true(info.ort_api_version >= 24);
  assert_true(strncmp(info.ort_version, "1.", 2) == 0);
  static const float values[] = {1, 2, 3};
  iobind_tensor *tensor = fixture_floats(iobind_runtime_get_device(runtime, 0), values, 3);
  fixture_expect_floats(tensor, values, 3);
  iobind_tensor_release(tensor);
}

/* A copy of the library: to the loader another one. */
static const char *copy_library(void) {
  static char path[128];
  snprintf(path, sizeof path, "%s/%s", folder, library_name);
  FILE *from = fopen(real_file(), "rb");
  FILE *to = fopen(path, "wb");
  assert_non_null(from);
  assert_non_null(to);
  static char piece[1 << 16];
  for (size_t got; (got = fread(piece, 1, sizeof piece, from)) > 0;) {
    assert_int_equal(fwrite(piece, 1, got, to), got);
  }
  assert_int_equal(fclose(to), 0);
  fclose(from);
  return path;
}

static void write_text(const char *path) {
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  fputs("no library\n", file);
  assert_int_equal(fclose(file), 0);
}

static void by_default(void **state) {
  (void)state;
  iobind_runtime_options options = plain();
  iobind_runtime *runtime = create(&options);
  expect_found(runtime, real_file(), "the runtime directory");
  iobind_runtime_destroy(runtime);
}

static void given_file(void **state) {
  (void)state;
  iobind_runtime_options options = plain();
  options.ort_library = real_file();
  setenv("ORT_NATIVE_LIB_PATH", "no/such/file.so", 1); /* an argument has precedence over the environment */
  iobind_runtime *runtime = create(&options);
  expect_found(runtime, real_file(), "the given path");
  iobind_runtime_destroy(runtime);
}

static void given_folder(void **state) {
  (void)state;
  iobind_runtime_options options = plain();
  options.ort_library = real_folder();
  iobind_runtime *runtime = create(&options);
  expect_found(runtime, real_file(), "the given path");
  iobind_runtime_destroy(runtime);
}

static void given_folder_without(void **state) {
  (void)state;
  iobind_runtime_options options = plain();
  options.ort_library = folder;
  refuse(IOBIND_ERROR_NOT_FOUND, &options);
  expect_words(folder);
  char path[128];
  snprintf(path, sizeof path, "%s/%s", folder, library_name);
  write_text(path);
  refuse(IOBIND_ERROR_NOT_FOUND, &options);
  expect_words(folder);
  options.ort_library = NULL; /* and nothing is spoilt */
  iobind_runtime_destroy(create(&options));
}

static void given_text_file(void **state) {
  (void)state;
  char path[128];
  snprintf(path, sizeof path, "%s/%s", folder, library_name);
  write_text(path);
  iobind_runtime_options options = plain();
  options.ort_library = path;
  refuse(IOBIND_ERROR_NOT_FOUND, &options);
  expect_words(path);
}

static void given_missing(void **state) {
  (void)state;
  iobind_runtime_options options = plain();
  options.ort_library = "no/such/libonnxruntime.so";
  refuse(IOBIND_ERROR_NOT_FOUND, &options);
  expect_words("no/such/libonnxruntime.so");
  expect_words("the given path");
  options.ort_library = "";
  refuse(IOBIND_ERROR_NOT_FOUND, &options);
}

static void given_another_library(void **state) {
  (void)state;
  iobind_runtime_options options = plain();
  options.ort_library = "libm.so.6";
  int anything = 0;
  iobind_runtime *runtime = (iobind_runtime *)(void *)&anything;
  fixture_arm();
  iobind_status status = iobind_runtime_create(&options, &runtime, &fault);
  assert_int_not_equal(status, IOBIND_OK);
  assert_null(runtime);
  expect_words("libm.so.6");
  expect_words("not ONNX Runtime");
}

static void environment_file(void **state) {
  (void)state;
  setenv("ORT_NATIVE_LIB_PATH", real_file(), 1);
  iobind_runtime_options options = plain();
  iobind_runtime *runtime = create(&options);
  expect_found(runtime, real_file(), "ORT_NATIVE_LIB_PATH");
  iobind_runtime_destroy(runtime);
}

static void environment_folder(void **state) {
  (void)state;
  setenv("ORT_NATIVE_LIB_PATH", real_folder(), 1);
  iobind_runtime_options options = plain();
  iobind_runtime *runtime = create(&options);
  expect_found(runtime, real_file(), "ORT_NATIVE_LIB_PATH");
  iobind_runtime_destroy(runtime);
}

/* A wrong path that was set is reported, not ignored. */
static void environment_missing(void **state) {
  (void)state;
  setenv("ORT_NATIVE_LIB_PATH", "no/such/folder", 1);
  iobind_runtime_options options = plain();
  refuse(IOBIND_ERROR_NOT_FOUND, &options);
  expect_words("ORT_NATIVE_LIB_PATH");
  setenv("ORT_NATIVE_LIB_PATH", "", 1); /* empty is not set */
  iobind_runtime *runtime = create(&options);
  expect_found(runtime, real_file(), "the runtime directory");
  iobind_runtime_destroy(runtime);
}

/* A name without a directory is a file of the current one, not what the loader finds by it. */
static void environment_name(void **state) {
  (void)state;
  const char *copy = copy_library();
  assert_int_equal(chdir(folder), 0);
  setenv("ORT_NATIVE_LIB_PATH", library_name, 1);
  iobind_runtime_options options = plain();
  iobind_runtime *runtime = create(&options);
  expect_found(runtime, copy, "ORT_NATIVE_LIB_PATH");
  iobind_runtime_destroy(runtime);
  assert_int_equal(chdir("/"), 0);
}

/* Opening a pipe would wait for a writer. */
static void environment_pipe(void **state) {
  (void)state;
  char path[128];
  snprintf(path, sizeof path, "%s/%s", folder, library_name);
  assert_int_equal(mkfifo(path, 0600), 0);
  setenv("ORT_NATIVE_LIB_PATH", path, 1);
  iobind_runtime_options options = plain();
  refuse(IOBIND_ERROR_NOT_FOUND, &options);
  expect_words("expected a file or a directory");
}

/* Python's package has the library only under the name with its version. */
static void given_folder_of_python(void **state) {
  (void)state;
  char path[128];
  snprintf(path, sizeof path, "%s/%s.1.31.1", folder, library_name);
  assert_int_equal(symlink(real_file(), path), 0);
  iobind_runtime_options options = plain();
  options.ort_library = folder;
  iobind_runtime *runtime = create(&options);
  expect_found(runtime, real_file(), "the given path");
  iobind_runtime_destroy(runtime);
  assert_int_equal(unlink(path), 0);
}

static void loaded_before(void **state) {
  (void)state;
  const char *copy = copy_library();
  assert_non_null(dlopen(copy, RTLD_NOW | RTLD_LOCAL));
  iobind_runtime_options options = plain();
  iobind_runtime *runtime = create(&options);
  expect_found(runtime, copy, "already loaded in the process");
  iobind_runtime_destroy(runtime);
}

static const OrtApiBase *load_base(const char *file) {
  void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  assert_non_null(library);
  void *symbol = dlsym(library, "OrtGetApiBase");
  assert_non_null(symbol);
  OrtGetApiBaseFunction get_base;
  memcpy(&get_base, &symbol, sizeof get_base);
  return get_base();
}

static void attach_to_base(void **state) {
  (void)state;
  iobind_runtime_options options = plain();
  options.ort_api_base = load_base(real_file());
  iobind_runtime *runtime = create(&options);
  expect_found(runtime, real_file(), "handed over");
  iobind_runtime_destroy(runtime);
}

static void attach_to_table(void **state) {
  (void)state;
  const OrtApiBase *base = load_base(real_file());
  iobind_runtime_options options = plain();
  options.ort_api = base->GetApi(24); /* an older program's table */
  assert_non_null(options.ort_api);
  iobind_runtime *runtime = create(&options);
  expect_found(runtime, real_file(), "handed over");
  options.ort_api = NULL;
  options.ort_api_base = base;
  iobind_runtime *again = create(&options);
  assert_ptr_equal(again, runtime); /* one runtime for each ORT, however it was named */
  options.ort_api_base = NULL;
  options.ort_library = real_file();
  iobind_runtime *third = create(&options);
  assert_ptr_equal(third, runtime);
  iobind_runtime_destroy(third);
  iobind_runtime_destroy(again);
  iobind_runtime_destroy(runtime);
}

static void attach_to_a_foreign_table(void **state) {
  (void)state;
  const OrtApiBase *base = load_base(real_file());
  static OrtApi copy;
  copy = *(const OrtApi *)base->GetApi(24);
  iobind_runtime_options options = plain();
  options.ort_api = &copy;
  refuse(IOBIND_ERROR_VERSION, &options);
  expect_words("ort_api");
}

static void more_than_one_given(void **state) {
  (void)state;
  const OrtApiBase *base = load_base(real_file());
  for (unsigned which = 0; which < 8; which++) {
    iobind_runtime_options options = plain();
    options.ort_library = (which & 1) != 0 ? real_file() : NULL;
    options.ort_api_base = (which & 2) != 0 ? base : NULL;
    options.ort_api = (which & 4) != 0 ? base->GetApi(24) : NULL;
    if ((which & (which - 1)) != 0) {
      refuse(IOBIND_ERROR_INVALID_ARGUMENT, &options);
      expect_words("ort_api_base");
    } else {
      iobind_runtime_destroy(create(&options));
    }
  }
}

static void versions_that_do_not_fit(void **state) {
  (void)state;
  static const char *const versions[] = {"1.23.2", "1.9.0", "0.24.0", "2.0.0", "", "new", "1", "1.x"};
  iobind_runtime_options options = plain();
  options.ort_library = fixture_path("lib/libunit_fake_ort.so");
  for (size_t i = 0; i < sizeof versions / sizeof versions[0]; i++) {
    setenv("UNIT_FAKE_VERSION", versions[i], 1);
    refuse(IOBIND_ERROR_VERSION, &options);
    expect_words("1.24");
    expect_words(versions[i]);
    assert_null(getenv("UNIT_FAKE_ASKED")); /* an ORT prints if it is asked for an interface that it lacks */
  }
  unsetenv("UNIT_FAKE_VERSION");
  refuse(IOBIND_ERROR_VERSION, &options);
}

/* Of an ORT newer than iobind, no more is asked than iobind knows. */
static void version_newer_than_known(void **state) {
  (void)state;
  setenv("UNIT_FAKE_VERSION", "1.99.0", 1);
  iobind_runtime_options options = plain();
  options.ort_library = fixture_path("lib/libunit_fake_ort.so");
  refuse(IOBIND_ERROR_VERSION, &options); /* it gives nothing out */
  expect_words("1.99.0");
  char newest[16];
  snprintf(newest, sizeof newest, "%d", ORT_API_NEWEST);
  assert_string_equal(getenv("UNIT_FAKE_ASKED"), newest);
  setenv("UNIT_FAKE_VERSION", "1.25.0-dev", 1);
  refuse(IOBIND_ERROR_VERSION, &options);
  assert_string_equal(getenv("UNIT_FAKE_ASKED"), "25");
}

static void real_one_too_old(void **state) {
  (void)state;
  const char *old = fixture_path("lib/iobind/packages/onnxruntime-1.23.2-linux-x64");
  struct stat status;
  if (stat(old, &status) != 0) {
    print_message("no ONNX Runtime 1.23.2: scripts/get-onnxruntime --version 1.23.2 fetches it\n");
    skip();
  }
  iobind_runtime_options options = plain();
  options.ort_library = old;
  refuse(IOBIND_ERROR_VERSION, &options);
  expect_words("1.23.2");
}

static iobind_session *make_session(iobind_runtime *runtime) {
  return fixture_session(runtime, NULL, "scale");
}

/* Handles of one copy of ORT must never reach the other: that hangs or crashes. */
static void two_copies(void **state) {
  (void)state;
  iobind_runtime_options options = plain();
  options.ort_library = real_file();
  iobind_runtime *one = create(&options);
  options.ort_library = copy_library();
  iobind_runtime *two = create(&options);
  assert_ptr_not_equal(one, two);
  expect_found(one, real_file(), "the given path");
  expect_found(two, options.ort_library, "the given path");
  iobind_device *cpu_one = iobind_runtime_get_device(one, 0);
  iobind_device *cpu_two = iobind_runtime_get_device(two, 0);
  static const float values[] = {1, 2, 3};
  static const float doubled[] = {2, 4, 6};
  iobind_tensor *x_one = fixture_floats(cpu_one, values, 3);
  iobind_tensor *x_two = fixture_floats(cpu_two, values, 3);
  iobind_session *session = make_session(one);

  iobind_session_options named = IOBIND_SESSION_OPTIONS_INIT;
  named.devices = &cpu_two;
  named.device_count = 1;
  iobind_session *mixed = session;
  expect(IOBIND_ERROR_WRONG_DEVICE, iobind_session_create_from_memory(one, "x", 1, &named, &mixed, &fault));
  assert_null(mixed);
  expect_words("another runtime");

  iobind_binding *binding = NULL;
  expect_ok(iobind_binding_create(session, &binding, &fault));
  for (int mode = IOBIND_INPUT_RESIDENT; mode <= IOBIND_INPUT_LIVE; mode++) {
    expect(IOBIND_ERROR_WRONG_DEVICE, iobind_binding_set_input(binding, 0, (iobind_input_mode)mode, x_two, NULL, &fault));
  }
  expect(IOBIND_ERROR_WRONG_DEVICE, iobind_binding_set_output(binding, 0, x_two, 0, &fault));
  expect(IOBIND_ERROR_WRONG_DEVICE, iobind_binding_set_output(binding, 0, x_two, IOBIND_OUTPUT_IN_PLACE, &fault));
  expect(IOBIND_ERROR_WRONG_DEVICE,
         iobind_binding_place_output(binding, 0, IOBIND_OUTPUT_FRESH, cpu_two, IOBIND_MEMORY_DEFAULT, &fault));

  const iobind_tensor *source = x_one;
  expect(IOBIND_ERROR_WRONG_DEVICE, iobind_tensor_copy(&source, &x_two, 1, NULL, &fault));
  iobind_tensor *output = x_one;
  expect(IOBIND_ERROR_WRONG_DEVICE, call_session_run(session, &x_two, &output, &fault));
  assert_null(output);

  iobind_stream *stream = NULL;
  iobind_event *event_one = NULL;
  expect_ok(iobind_stream_create(cpu_two, NULL, &stream, &fault));
  expect_ok(iobind_event_create(cpu_one, &event_one, &fault));
  expect(IOBIND_ERROR_WRONG_DEVICE, iobind_event_record(event_one, stream, &fault));
  expect(IOBIND_ERROR_WRONG_DEVICE, iobind_tensor_write(x_one, 0, values, sizeof values, stream, &fault));
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, x_one, NULL, &fault));
  expect(IOBIND_ERROR_WRONG_DEVICE, iobind_binding_run(binding, stream, &fault));

  expect_ok(iobind_binding_run(binding, NULL, &fault));
  expect_ok(iobind_binding_get_output(binding, 0, NULL, &output, &fault));
  fixture_expect_floats(output, doubled, 3);
  iobind_event_destroy(event_one);
  iobind_stream_destroy(stream);
  iobind_binding_destroy(binding);
  iobind_session_destroy(session);
  iobind_tensor_release(x_one);
  iobind_tensor_release(x_two);
  iobind_runtime_destroy(one);
  iobind_runtime_destroy(two);
}

/* Doubles three numbers on the device of a spec, if it is there and works. */
static void use_device(iobind_runtime *runtime, const char *spec) {
  iobind_device *device = NULL;
  if (iobind_runtime_find_device(runtime, spec, &device, NULL, NULL) != IOBIND_OK) {
    return;
  }
  static const float values[] = {1, 2, 3};
  static const float doubled[] = {2, 4, 6};
  iobind_session *session = fixture_session(runtime, device, "scale");
  iobind_tensor *x = fixture_floats(device, values, 3);
  iobind_tensor *y = NULL;
  iobind_binding *binding = NULL;
  expect_ok(iobind_binding_create(session, &binding, &fault));
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  expect_ok(iobind_binding_get_output(binding, 0, NULL, &y, &fault));
  fixture_expect_floats(y, doubled, 3);
  iobind_binding_destroy(binding);
  iobind_tensor_release(x);
  iobind_session_destroy(session);
}

/* An EP library is loaded once in a process, and speaks to one ORT: with two of them each device works or is not offered. */
static void two_copies_with_one_ep_library(void **state) {
  (void)state;
  iobind_runtime_options options = IOBIND_RUNTIME_OPTIONS_INIT;
  options.flags = IOBIND_RUNTIME_SOFTWARE_DEVICES;
  options.ort_library = real_file();
  iobind_runtime *one = create(&options);
  use_device(one, "webgpu");
  options.ort_library = copy_library();
  iobind_runtime *two = create(&options);
  /* the library serves one copy at a time: the second gets the reason, and the first continues */
  fixture_arm();
  iobind_device *device = NULL;
  assert_int_equal(iobind_runtime_find_device(two, "webgpu", &device, NULL, &fault), IOBIND_ERROR_NOT_FOUND);
  expect_words("in use by another copy of ONNX Runtime");
  use_device(one, "webgpu");
  use_device(one, "cpu");
  use_device(two, "cpu");
  iobind_runtime_destroy(two);
  use_device(one, "webgpu");
  iobind_runtime_destroy(one);
}

static void ORT_CALL host_log(void *param, OrtLoggingLevel severity, const char *category, const char *logid,
                              const char *code_location, const char *message) {
  (void)param, (void)severity, (void)category, (void)logid, (void)code_location, (void)message;
}

/* The host program makes a session on each of its devices. */
static void host_works(const OrtApi *api, const OrtEnv *env) {
  void *model = NULL;
  size_t size = 0;
  assert_true(test_model_create("scale", &model, &size, NULL));
  const OrtEpDevice *const *devices = NULL;
  size_t count = 0;
  assert_null(api->GetEpDevices(env, &devices, &count));
  assert_true(count >= 2);
  for (size_t i = 0; i < count; i++) {
    OrtSessionOptions *options = NULL;
    OrtSession *session = NULL;
    assert_null(api->CreateSessionOptions(&options));
    assert_null(
        api->SessionOptionsAppendExecutionProvider_V2(options, (OrtEnv *)(uintptr_t)env, &devices[i], 1, NULL, NULL, 0));
    assert_null(api->CreateSessionFromArray(env, model, size, options, &session));
    api->ReleaseSession(session);
    api->ReleaseSessionOptions(options);
  }
  free(model);
}

/* A host program over its own copy of ORT has registered EP libraries, and iobind, over another copy, must not touch them. */
static void host_has_another_copy(void **state) {
  (void)state;
  const OrtApi *api = load_base(real_file())->GetApi(24);
  OrtEnv *env = NULL;
  /* before the variable: with it, without /sys, the EP offers an adapter that is not there, and loses some bytes over it */
  size_t count = fixture_has("webgpu") ? 2 : 1;
  setenv("ORT_WEBGPU_EP_ALLOW_SOFTWARE_ADAPTER", "1", 1);
  assert_null(api->CreateEnvWithCustomLogger(host_log, NULL, ORT_LOGGING_LEVEL_ERROR, "host", &env));
  const char *const libraries[] = {fixture_path("lib/libiobind_vdev.so"),
                                   fixture_path("lib/iobind/ep/webgpu/libonnxruntime_providers_webgpu.so")};
  for (size_t i = 0; i < count; i++) {
    assert_null(api->RegisterExecutionProviderLibrary(env, i == 0 ? "host 0" : "host 1", libraries[i]));
  }
  iobind_runtime_options options = plain();
  options.ort_library = copy_library();
  iobind_runtime *runtime = create(&options);
  for (size_t i = 0; i < count; i++) {
    expect(IOBIND_ERROR_NOT_SUPPORTED, iobind_runtime_register_ep(runtime, NULL, libraries[i], &fault));
    expect_words("another copy of ONNX Runtime");
    host_works(api, env);
  }
  iobind_device *device = NULL;
  expect(IOBIND_ERROR_NOT_FOUND, iobind_runtime_find_device(runtime, "vdev", &device, NULL, &fault));
  expect_words("another copy of ONNX Runtime");
  /* CUDA's library keeps nothing itself: what it would ask has been answered by the host's copy */
  const char *cuda = fixture_path("lib/iobind/packages/onnxruntime-gpu-1.31.1-linux-x64/libonnxruntime_providers_cuda.so");
  if (access(cuda, R_OK) == 0) {
    expect(IOBIND_ERROR_NOT_SUPPORTED, iobind_runtime_register_ep(runtime, NULL, cuda, &fault));
    expect_words("another copy of ONNX Runtime");
  }
  use_device(runtime, "cpu");
  iobind_runtime_destroy(runtime);
  host_works(api, env);
  for (size_t i = 0; i < count; i++) {
    assert_null(api->UnregisterExecutionProviderLibrary(env, i == 0 ? "host 0" : "host 1"));
  }
  api->ReleaseEnv(env);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(by_default),
    cmocka_unit_test(given_file),
    cmocka_unit_test(given_folder),
    cmocka_unit_test(given_folder_without),
    cmocka_unit_test(given_text_file),
    cmocka_unit_test(given_missing),
    cmocka_unit_test(given_another_library),
    cmocka_unit_test(environment_file),
    cmocka_unit_test(environment_folder),
    cmocka_unit_test(environment_missing),
    cmocka_unit_test(environment_name),
    cmocka_unit_test(environment_pipe),
    cmocka_unit_test(given_folder_of_python),
    cmocka_unit_test(loaded_before),
    cmocka_unit_test(attach_to_base),
    cmocka_unit_test(attach_to_table),
    cmocka_unit_test(attach_to_a_foreign_table),
    cmocka_unit_test(more_than_one_given),
    cmocka_unit_test(versions_that_do_not_fit),
    cmocka_unit_test(version_newer_than_known),
    cmocka_unit_test(real_one_too_old),
    cmocka_unit_test(two_copies),
    cmocka_unit_test(two_copies_with_one_ep_library),
    cmocka_unit_test(host_has_another_copy),
};

FIXTURE_MAIN(tests, start, stop);
