/* Settings and what the device tells of itself; the trace; graphs that are placed on both the device and the CPU. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "rig.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { COUNT = 8 };

static void test_wrong_settings(void **state) {
  (void)state;
  static const char *const wrong[][2] = {
      {"nothing", "1"},
      {"race", "maybe"},
      {"race", ""},
      {"clock", "atomic"},
      {"mem_limit", "-1"},
      {"mem_limit", "much"},
      {"mem_limit", "5x"},
      {"h2d_gbps", "-2"},
      {"h2d_gbps", "nan"},
      {"h2d_gbps", "1e30"},
      {"compute_us", ""},
      {"fail_copy", "every"},
      {"fail_copy", "some"},
      {"fail_copy", "-3"},
      {"fail_copy", "every:x"},
      {"mem_limit", "99999999999999999999"},
      {"poison", "2"},
      {"trace", "yes"},
      {"h2d_gbps", "1e-12"},
      {"latency_us", "1e15"},
      {"fail_copy", "1,"},
      {"fail_copy", "1,most:4"},
      {"fail_copy", "1 min:4"},
      {"fail_copy", "every:0"},
      {"fail_copy", "from:0"},
      {"fail_copy", "from:"},
      {"wrong_compute", "1,late"},
      {"wrong_compute", "1,us:5"},
      {"wrong_compute", "wrong"},
      {"fatal_compute", "1,late"},
      {"fail_copy", "1,us:5"},
      {"fail_copy", "min:4,1"},
      {"fail_copy", "1,min:-4"},
      {"fail_copy", "1,name:"},
      {"fail_alloc", "1,name:x"},
      {"fail_stream", "1,min:1"},
      {"fail_session", "1,name:x"},
      {"fail_capture", "1,min:1"},
      {"delay_copy", "1"},
      {"delay_copy", "1,us:0"},
      {"delay_copy", "1,us:99999999999999999"},
      {"delay_stream", "1,us:1,max:1"},
  };
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    if (vdev_set(0, wrong[i][0], wrong[i][1]) == 0) {
      fail_msg("%s=%s was taken", wrong[i][0], wrong[i][1]);
    }
    assert_non_null(strstr(vdev_last_error(), wrong[i][0]));
  }
  assert_int_equal(vdev_set(1, "race", "off"), -1);
  assert_int_equal(vdev_set(-1, "race", "off"), -1);
  assert_int_equal(vdev_set(0, NULL, "off"), -1);
  assert_int_equal(vdev_set(0, "race", NULL), -1);
  char longer[300];
  memset(longer, 'a', sizeof longer - 1);
  longer[sizeof longer - 1] = '\0';
  assert_int_equal(vdev_set(0, "deny", longer), -1);
  assert_int_equal(vdev_get(0, "nothing"), -1);
  assert_int_equal(vdev_get(3, "kernels"), -1);
  assert_int_equal(vdev_reset(3), -1);
}

/* What ORT has read of a device stays as it was. */
static void test_fixed_settings(void **state) {
  (void)state;
  static const char *const fixed[] = {"devices", "vendor_id", "device_id", "reserve", "metadata"};
  for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++) {
    assert_int_equal(vdev_set(0, fixed[i], "2"), -1);
    assert_non_null(strstr(vdev_last_error(), fixed[i]));
  }
  assert_int_equal(vdev_set(0, "hardware", "gpu"), -1);
}

static void test_options_of_a_session(void **state) {
  (void)state;
  OrtSession *session = NULL;
  refused("EP option 'speed' is not a setting", rig_try_session("scale", 0, "speed", "full", &session));
  refused("EP option 'race' cannot be 'never': expected one of off, count, fail",
          rig_try_session("scale", 0, "race", "never", &session));
  refused("EP option 'vendor_id' cannot be changed any more", rig_try_session("scale", 0, "vendor_id", "1", &session));
  ok(rig_try_session("scale", 0, "deny", "Mul", &session));
  OrtValue *x = rig_device_tensor(0, COUNT);
  OrtValue *y = rig_device_tensor(0, COUNT);
  OrtIoBinding *binding = rig_binding(session, x, "y", y);
  assert_int_equal(vdev_reset(0), 0);
  ok(rig_run(session, binding, NULL));
  assert_int_equal(rig_get("kernels"), 0);
  rig_set("deny", "", NULL);
  rig.api->ReleaseIoBinding(binding);
  rig.api->ReleaseValue(x);
  rig.api->ReleaseValue(y);
  rig.api->ReleaseSession(session);
}

/* The identity that the environment asked for. */
static void test_identity(void **state) {
  (void)state;
  const OrtHardwareDevice *hardware = rig.api->EpDevice_Device(rig.devices[0]);
  assert_int_equal(rig.api->HardwareDevice_VendorId(hardware), 0x10DE);
  assert_int_equal(rig.api->HardwareDevice_DeviceId(hardware), 7);
  assert_int_equal(rig.api->HardwareDevice_Type(hardware), OrtHardwareDeviceType_NPU);
  const OrtKeyValuePairs *metadata[] = {rig.api->HardwareDevice_Metadata(hardware),
                                        rig.api->EpDevice_EpMetadata(rig.devices[0])};
  for (int i = 0; i < 2; i++) {
    assert_string_equal(rig.api->GetKeyValue(metadata[i], "luid"), "17");
    assert_string_equal(rig.api->GetKeyValue(metadata[i], "Discrete"), "0"); /* "1" by default */
    assert_string_equal(rig.api->GetKeyValue(metadata[i], "empty"), "");
    assert_string_equal(rig.api->GetKeyValue(metadata[i], "is_virtual"), "1");
    assert_string_equal(rig.api->GetKeyValue(metadata[i], "vdev.index"), "0");
  }
  OrtValue *value = rig_device_tensor(0, COUNT);
  const OrtMemoryInfo *info = NULL;
  OrtMemoryInfoDeviceType type;
  ok(rig.api->GetTensorMemoryInfo(value, &info));
  rig.api->MemoryInfoGetDeviceType(info, &type);
  assert_int_equal(type, OrtMemoryInfoDeviceType_NPU);
  assert_int_equal(rig.api->MemoryInfoGetVendorId(info), 0x10DE);
  rig.api->ReleaseValue(value);
}

/* Statistics without any symbol of ours. */
static void test_allocator_statistics(void **state) {
  (void)state;
  assert_int_equal(vdev_reset(0), 0);
  float data[COUNT] = {0};
  OrtValue *host = rig_host_tensor(data, COUNT);
  OrtValue *device = rig_device_tensor(0, COUNT);
  ok(rig_copy(host, device, NULL));
  OrtKeyValuePairs *pairs = NULL;
  ok(rig.api->AllocatorGetStats(rig_allocator(0, false), &pairs));
  assert_string_equal(rig.api->GetKeyValue(pairs, "vdev.h2d_bytes"), "32");
  assert_string_equal(rig.api->GetKeyValue(pairs, "InUse"), "32");
  assert_string_equal(rig.api->GetKeyValue(pairs, "NumAllocs"), "1");
  rig.api->ReleaseKeyValuePairs(pairs);
  rig.api->ReleaseValue(host);
  rig.api->ReleaseValue(device);
}

/* Where an operator is denied, its nodes run on the CPU, and copies go between. */
static void test_partly_placed(void **state) {
  (void)state;
  static const struct {
    const char *deny;
    int kernels;
  } places[] = {{"", 1}, {"Mul", 1}, {"Mul,Add,Identity", 0}};
  static const char *const names[] = {"x", "sum", "product", "same"};
  for (size_t p = 0; p < sizeof places / sizeof places[0]; p++) {
    rig_set("deny", places[p].deny, NULL);
    OrtSession *session = rig_session("multi", 0);
    float data[COUNT];
    float results[3][COUNT];
    OrtValue *outputs[3];
    for (int i = 0; i < COUNT; i++) {
      data[i] = (float)i;
    }
    OrtValue *x = rig_host_tensor(data, COUNT);
    for (int o = 0; o < 3; o++) {
      outputs[o] = rig_host_tensor(results[o], COUNT);
    }
    assert_int_equal(vdev_reset(0), 0);
    ok(rig.api->Run(session, NULL, names, (const OrtValue *const *)&x, 1, names + 1, 3, outputs));
    for (int i = 0; i < COUNT; i++) {
      assert_true(results[0][i] == data[i] + data[i]);
      assert_true(results[1][i] == data[i] * data[i]);
      assert_true(results[2][i] == data[i]);
    }
    assert_int_equal(rig_get("kernels") > 0, places[p].kernels);
    assert_int_equal(rig_get("h2d_count") > 0, places[p].kernels);
    rig.api->ReleaseValue(x);
    for (int o = 0; o < 3; o++) {
      rig.api->ReleaseValue(outputs[o]);
    }
    rig.api->ReleaseSession(session);
  }
  rig_set("deny", "", NULL);
}

/* Weights are uploaded when a session is created, unless that is not wanted; the results are the same. */
static void test_drop_weights(void **state) {
  (void)state;
  enum { COLUMNS = 16, TABLE = 4096 * COLUMNS * 4 };
  static const char *const words[] = {"0", "1"};
  int64_t index[] = {2};
  int64_t dim = 1;
  OrtValue *input = NULL;
  ok(rig.api->CreateTensorWithDataAsOrtValue(rig.host, index, sizeof index, &dim, 1, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64,
                                             &input));
  float rows[2][COLUMNS];
  for (int dropped = 0; dropped < 2; dropped++) {
    OrtSession *session = NULL;
    OrtValue *found = NULL;
    const char *names[] = {"index", "found"};
    float *data = NULL;
    assert_int_equal(vdev_reset(0), 0);
    ok(rig_try_session("lookup rows=4096 columns=16", 0, "drop_weights", words[dropped], &session));
    assert_int_equal(rig_get("h2d_bytes"), dropped ? 0 : TABLE);
    assert_int_equal(rig_get("live_bytes"), dropped ? 0 : TABLE);
    ok(rig.api->Run(session, NULL, names, (const OrtValue *const *)&input, 1, names + 1, 1, &found));
    assert_int_equal(rig_get("kernels"), 1);
    ok(rig.api->GetTensorMutableData(found, (void **)&data));
    memcpy(rows[dropped], data, sizeof rows[dropped]);
    rig.api->ReleaseValue(found);
    rig.api->ReleaseSession(session);
  }
  assert_memory_equal(rows[0], rows[1], sizeof rows[0]);
  rig_set("drop_weights", "0", NULL);
  rig.api->ReleaseValue(input);
}

/* The models of the sessions inside: the CPU computes the same from one. */
static void test_dump(void **state) {
  (void)state;
  OrtSession *session = NULL;
  refused("cannot be dumped as '/no/such/folder/vdev-", rig_try_session("scale", 0, "dump", "/no/such/folder", &session));
  char folder[] = "/tmp/vdev-XXXXXX";
  assert_non_null(mkdtemp(folder));
  rig_set("drop_weights", "1", NULL); /* otherwise they are inputs */
  ok(rig_try_session("scale", 0, "dump", folder, &session));
  rig.api->ReleaseSession(session);
  rig_set("dump", "", "drop_weights", "0", NULL);
  DIR *open = opendir(folder);
  assert_non_null(open);
  int models = 0;
  for (const struct dirent *one; (one = readdir(open)) != NULL;) {
    if (one->d_name[0] == '.') {
      continue;
    }
    char path[512];
    OrtSessionOptions *options = NULL;
    float in[COUNT] = {3};
    float out[COUNT] = {0};
    const char *names[] = {"x", "y"};
    OrtValue *x = rig_host_tensor(in, COUNT);
    OrtValue *y = rig_host_tensor(out, COUNT);
    models++;
    snprintf(path, sizeof path, "%s/%s", folder, one->d_name);
    ok(rig.api->CreateSessionOptions(&options));
    ok(rig.api->CreateSession(rig.env, path, options, &session));
    ok(rig.api->Run(session, NULL, names, (const OrtValue *const *)&x, 1, names + 1, 1, &y));
    assert_true(out[0] == 6);
    rig.api->ReleaseSession(session);
    rig.api->ReleaseSessionOptions(options);
    rig.api->ReleaseValue(x);
    rig.api->ReleaseValue(y);
    assert_int_equal(unlink(path), 0);
  }
  closedir(open);
  assert_int_equal(models, 1);
  assert_int_equal(rmdir(folder), 0);
}

static char *read_file(const char *path) {
  static char text[1 << 16];
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  size_t size = fread(text, 1, sizeof text - 1, file);
  text[size] = '\0';
  fclose(file);
  return text;
}

/* Others can write into the directory too: a link by the name of the model is not followed. */
static void test_dump_beside_a_link(void **state) {
  (void)state;
  char folder[] = "/tmp/vdev-dump-XXXXXX";
  char victim[sizeof folder + 16];
  char link[sizeof folder + 32];
  assert_non_null(mkdtemp(folder));
  snprintf(victim, sizeof victim, "%s/victim", folder);
  FILE *file = fopen(victim, "w");
  assert_non_null(file);
  fputs("mine", file);
  fclose(file);
  for (int i = 0; i < 16; i++) { /* the number continues from dump to dump */
    snprintf(link, sizeof link, "%s/vdev-%d.onnx", folder, i);
    assert_int_equal(symlink(victim, link), 0);
  }
  rig_set("dump", folder, NULL);
  rig.api->ReleaseSession(rig_session("scale", 0));
  rig_set("dump", "", NULL);
  assert_string_equal(read_file(victim), "mine");
  int models = 0;
  for (int i = 0; i < 16; i++) {
    struct stat info;
    snprintf(link, sizeof link, "%s/vdev-%d.onnx", folder, i);
    assert_int_equal(lstat(link, &info), 0);
    models += S_ISREG(info.st_mode) && info.st_size > 0;
    assert_int_equal(unlink(link), 0);
  }
  assert_int_equal(models, 1);
  assert_int_equal(unlink(victim), 0);
  assert_int_equal(rmdir(folder), 0);
}

static void test_trace_file(void **state) {
  (void)state;
  assert_int_equal(vdev_set(0, "trace_file", "/no/such/folder/trace.json"), -1);
  assert_non_null(strstr(vdev_last_error(), "expected a file that can be written"));
  rig_set("trace_file", "", NULL);
}

static void test_trace(void **state) {
  (void)state;
  float data[COUNT] = {0};
  OrtSession *session = rig_session("scale", 0);
  rig_set("trace", "1", "latency_us", "5000", "compute_us", "2000", NULL);
  OrtSyncStream *stream = rig_stream(0);
  OrtValue *host = rig_host_tensor(data, COUNT);
  OrtValue *x = rig_device_tensor(0, COUNT);
  OrtValue *y = rig_device_tensor(0, COUNT);
  OrtIoBinding *binding = rig_binding(session, x, "y", y);
  ok(rig_copy(host, x, stream));
  ok(rig_run(session, binding, stream));
  assert_int_equal(vdev_stream_synchronize(rig_native(stream)), 0);
  ok(rig_copy(y, host, NULL));
  rig_set("trace", "0", "latency_us", "0", "compute_us", "0", NULL);
  rig.api->ReleaseIoBinding(binding);
  rig.api->ReleaseValue(host);
  rig.api->ReleaseValue(x);
  rig.api->ReleaseValue(y);
  rig.api->ReleaseSyncStream(stream);
  rig.api->ReleaseSession(session);
  assert_int_equal(vdev_trace_write("/no/such/folder/trace.json"), -1);
  assert_non_null(strstr(vdev_last_error(), "/no/such/folder/trace.json"));
  const char *path = getenv("TEST_VDEV_TRACE");
  assert_non_null(path);
  assert_int_equal(vdev_trace_write(path), 0);
  const char *text = read_file(path);
  static const char *const words[] = {"{\"traceEvents\":[",
                                      "\"name\":\"upload\",\"ph\":\"X\"",
                                      "\"name\":\"Mul\",\"ph\":\"X\"",
                                      "\"name\":\"download\",\"ph\":\"X\"",
                                      "\"name\":\"wait for stream",
                                      "\"name\":\"memory\",\"ph\":\"C\"",
                                      "\"dur\":5000.000,\"args\":{\"bytes\":32}",
                                      "\"dur\":2000.000"};
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
    if (strstr(text, words[i]) == NULL) {
      fail_msg("no %s in the trace:\n%s", words[i], text);
    }
  }
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_wrong_settings),
    cmocka_unit_test(test_options_of_a_session),
    cmocka_unit_test(test_fixed_settings),
    cmocka_unit_test(test_identity),
    cmocka_unit_test(test_allocator_statistics),
    cmocka_unit_test(test_partly_placed),
    cmocka_unit_test(test_drop_weights),
    cmocka_unit_test(test_dump),
    cmocka_unit_test(test_dump_beside_a_link),
    cmocka_unit_test(test_trace_file),
    cmocka_unit_test(test_trace),
};
RIG_MAIN(cases);
