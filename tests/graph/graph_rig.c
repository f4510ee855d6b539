#include "graph_rig.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models.h"
#include "onnx.h"

/* ---- sessions ---- */

iobind_status try_bytes(const void *bytes, size_t size, size_t limit, iobind_session **session) {
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  options.devices = &device;
  options.device_count = 1;
  options.intra_op_threads = 1;
  options.graph_limit = limit;
  fixture_arm();
  return iobind_session_create_from_memory(runtime, bytes, size, &options, session, &fault);
}

iobind_status try_session(const char *model, size_t limit, iobind_session **session) {
  void *bytes = NULL;
  size_t size = 0;
  char text[TEST_MODEL_TEXT] = "";
  assert_true(test_model_create(model, &bytes, &size, text));
  iobind_status status = try_bytes(bytes, size, limit, session);
  free(bytes);
  return status;
}

iobind_session *make_session(const char *model, size_t limit) {
  iobind_session *session = NULL;
  iobind_status status = try_session(model, limit, &session);
  fixture_expect(IOBIND_OK, status, model, __FILE__, __LINE__);
  return session;
}

/* Ends the model whose graph is being written, and the writer. */
static iobind_status create_written(onnx_writer *writer, size_t limit, iobind_session **session) {
  const void *bytes = NULL;
  size_t size = 0;
  onnx_graph_end(writer);
  onnx_model_end(writer);
  assert_int_equal(onnx_writer_finish(writer, &bytes, &size), ONNX_OK);
  iobind_status status = try_bytes(bytes, size, limit, session);
  onnx_writer_release(writer);
  return status;
}

iobind_status try_node(const char *op, const char *domain, size_t inputs, size_t limit, iobind_session **session) {
  static const int64_t dims[2] = {4, 4};
  onnx_writer writer = ONNX_WRITER_INIT;
  onnx_type square = {.dtype = ONNX_FLOAT32, .dims = dims, .rank = 2};
  onnx_type any = {.dtype = ONNX_FLOAT32, .no_shape = 1};
  onnx_model_begin(&writer, NULL);
  onnx_opset(&writer, "", 17);
  onnx_opset(&writer, "com.microsoft", 1);
  onnx_graph_begin(&writer, "graph");
  onnx_node_begin(&writer, op, domain, "the_node");
  for (size_t i = 0; i < inputs; i++) {
    onnx_node_input(&writer, i == 0 ? "x" : "more");
  }
  onnx_node_output(&writer, "y");
  onnx_node_end(&writer);
  onnx_input(&writer, "x", &square);
  if (inputs > 1) {
    onnx_input(&writer, "more", &any);
  }
  onnx_output(&writer, "y", &any);
  return create_written(&writer, limit, session);
}

iobind_status try_size_of_data(size_t limit, iobind_session **session) {
  static const int64_t one = 1;
  static const int64_t open = -1;
  static const float value = 1;
  onnx_writer writer = ONNX_WRITER_INIT;
  onnx_type single = {.dtype = ONNX_FLOAT32, .dims = &one, .rank = 1};
  onnx_type list = {.dtype = ONNX_FLOAT32, .dims = &open, .rank = 1};
  onnx_tensor constant = {.name = "one", .dtype = ONNX_FLOAT32, .dims = &one, .rank = 1, .data = &value, .bytes = sizeof value};
  onnx_model_begin(&writer, NULL);
  onnx_opset(&writer, "", 17);
  onnx_graph_begin(&writer, "graph");
  onnx_node_begin(&writer, "Cast", "", "to_size");
  onnx_node_input(&writer, "x");
  onnx_node_output(&writer, "size");
  onnx_attribute_int(&writer, "to", ONNX_INT64);
  onnx_node_end(&writer);
  onnx_node_begin(&writer, "Expand", "", "expand");
  onnx_node_input(&writer, "one");
  onnx_node_input(&writer, "size");
  onnx_node_output(&writer, "y");
  onnx_node_end(&writer);
  onnx_initializer(&writer, &constant);
  onnx_input(&writer, "x", &single);
  onnx_output(&writer, "y", &list);
  return create_written(&writer, limit, session);
}

iobind_status try_shape_nodes(size_t limit, iobind_session **session) {
  static const int64_t one = 1;
  static const int64_t open = -1;
  static const float two = 2;
  onnx_writer writer = ONNX_WRITER_INIT;
  onnx_type list = {.dtype = ONNX_FLOAT32, .dims = &open, .rank = 1};
  onnx_tensor constant = {.name = "two", .dtype = ONNX_FLOAT32, .dims = &one, .rank = 1, .data = &two, .bytes = sizeof two};
  static const char *const nodes[][4] = {
      {"Shape", "x", NULL, "dims"}, {"Expand", "two", "dims", "twos"}, {"Mul", "x", "twos", "y"}};
  onnx_model_begin(&writer, NULL);
  onnx_opset(&writer, "", 17);
  onnx_graph_begin(&writer, "graph");
  for (size_t i = 0; i < sizeof nodes / sizeof nodes[0]; i++) {
    onnx_node_begin(&writer, nodes[i][0], "", nodes[i][3]);
    onnx_node_input(&writer, nodes[i][1]);
    if (nodes[i][2] != NULL) {
      onnx_node_input(&writer, nodes[i][2]);
    }
    onnx_node_output(&writer, nodes[i][3]);
    onnx_node_end(&writer);
  }
  onnx_initializer(&writer, &constant);
  onnx_input(&writer, "x", &list);
  onnx_output(&writer, "y", &list);
  return create_written(&writer, limit, session);
}

/* ---- tensors ---- */

enum { MOST = 4096 };

iobind_tensor *make_tensor(const int64_t *dims, size_t rank, const float *values) {
  iobind_tensor *tensor = NULL;
  expect_ok(iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, rank, &tensor, &fault));
  if (values != NULL) {
    iobind_tensor_info info = IOBIND_TENSOR_INFO_INIT;
    expect_ok(iobind_tensor_get_info(tensor, &info, &fault));
    expect_ok(iobind_tensor_write(tensor, 0, values, info.bytes, NULL, &fault));
  }
  return tensor;
}

iobind_tensor *make_filled(size_t count, float value) {
  int64_t dim = (int64_t)count;
  iobind_tensor *tensor = make_tensor(&dim, 1, NULL);
  fill(tensor, value);
  return tensor;
}

iobind_tensor *make_on_host(size_t count, float value) {
  int64_t dim = (int64_t)count;
  iobind_tensor *tensor = NULL;
  expect_ok(iobind_tensor_create(cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, &dim, 1, &tensor, &fault));
  fill(tensor, value);
  return tensor;
}

void fill(iobind_tensor *tensor, float value) {
  float values[MOST];
  iobind_tensor_info info = IOBIND_TENSOR_INFO_INIT;
  expect_ok(iobind_tensor_get_info(tensor, &info, &fault));
  assert_true(info.bytes <= sizeof values);
  for (size_t i = 0; i < info.bytes / sizeof(float); i++) {
    values[i] = value;
  }
  expect_ok(iobind_tensor_write(tensor, 0, values, info.bytes, NULL, &fault));
}

void expect_all(iobind_tensor *tensor, size_t count, float value) {
  float values[MOST];
  iobind_tensor_info info = IOBIND_TENSOR_INFO_INIT;
  expect_ok(iobind_tensor_get_info(tensor, &info, &fault));
  assert_int_equal(info.bytes, count * sizeof(float));
  expect_ok(iobind_tensor_read(tensor, 0, values, info.bytes, NULL, &fault));
  for (size_t i = 0; i < count; i++) {
    if (values[i] != value) {
      fail_msg("element %zu: expected %g, got %g", i, (double)value, (double)values[i]);
    }
  }
}

void expect_output(iobind_binding *binding, size_t count, float value) {
  iobind_tensor *y = NULL;
  expect_ok(iobind_binding_get_output(binding, 0, NULL, &y, &fault));
  expect_all(y, count, value);
}

void bind_x(iobind_binding *binding, iobind_tensor *x) {
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
}

void bind_y(iobind_binding *binding, iobind_tensor *y) {
  expect_ok(iobind_binding_set_output(binding, 0, y, 0, &fault));
}

iobind_binding *make_binding(iobind_session *session, iobind_tensor *x, iobind_tensor *y) {
  iobind_binding *binding = NULL;
  expect_ok(iobind_binding_create(session, &binding, &fault));
  bind_x(binding, x);
  if (y != NULL) {
    bind_y(binding, y);
  }
  return binding;
}

/* ---- the device itself ---- */

/* A function of the library that stands for the device, which the process has loaded. */
static void *find_function(const char *name) {
  void *library = is_device("vdev")   ? dlopen(fixture_path("lib/libiobind_vdev.so"), RTLD_NOW | RTLD_NOLOAD)
                  : is_device("cuda") ? dlopen("libcudart.so.13", RTLD_NOW | RTLD_NOLOAD)
                                      : NULL;
  void *function = library == NULL ? NULL : dlsym(library, name);
  if (library != NULL) {
    dlclose(library);
  }
  return function;
}

bool is_hardware(void) {
  return is_device("cuda") && getenv("VCUDA_DEVICES") == NULL;
}

launched count_launched(void) {
  static launched before;
  int64_t (*get)(int, const char *) = NULL;
  *(void **)&get = find_function(is_device("vdev") ? "vdev_get" : "vcuda_get");
  if (get == NULL) {
    assert_true(is_device("webgpu") || is_hardware());
    return (launched){-1, -1, -1};
  }
  bool is_vdev = is_device("vdev");
  launched now = {get(0, is_vdev ? "graph_replays" : "graph_launches"), get(0, is_vdev ? "kernels" : "launches"),
                  get(0, "h2d_count") + get(0, "d2h_count") + get(0, "d2d_count")};
  now.kernels -= get(0, is_vdev ? "graph_launches" : "graph_kernels"); /* which are counted among them */
  launched since = {now.graphs - before.graphs, now.kernels - before.kernels, now.copies - before.copies};
  before = now;
  return since;
}

int64_t read_counter(const char *name) {
  int64_t (*get)(int, const char *) = NULL;
  *(void **)&get = find_function(is_device("vdev") ? "vdev_get" : "vcuda_get");
  return get == NULL ? -1 : get(0, name);
}

int make_semaphore(void) {
  int (*create_semaphore)(uint64_t) = NULL;
  *(void **)&create_semaphore = find_function("vdev_semaphore_create");
  assert_non_null(create_semaphore);
  return create_semaphore(0);
}

bool set_device(const char *name, const char *value) {
  int (*set)(int, const char *, const char *) = NULL;
  *(void **)&set = find_function(is_device("vdev") ? "vdev_set" : "vcuda_set");
  return set != NULL && set(0, name, value) == 0;
}

static int start(void **state) {
  *state = (void *)(uintptr_t)device_spec;
  (void)stage_open(state);
  (void)set_device("race", "fail");
  return 0;
}

static bool captures_graphs(void) {
  enum { SINCE = 26 };
  iobind_runtime_info info = IOBIND_RUNTIME_INFO_INIT;
  iobind_runtime *asked = fixture_runtime();
  expect_ok(iobind_runtime_get_info(asked, &info, &fault));
  iobind_runtime_destroy(asked);
  return is_device("cuda") || info.ort_api_version >= SINCE;
}

int graph_main(int argc, char **argv, const struct CMUnitTest *tests, size_t count) {
  if (argc < 2) {
    fprintf(stderr, "usage: %s DEVICE [FILTER]\n", argv[0]);
    return 2;
  }
  device_spec = argv[1];
  if (!fixture_has(device_spec)) {
    return 77;
  }
  if (!captures_graphs() && !(argc > 2 && strcmp(argv[2], "old_runtime") == 0)) {
    printf("ONNX Runtime before 1.26 has no graph capture for EP plugins\n");
    return 77;
  }
  if (argc > 2) {
    cmocka_set_test_filter(argv[2]);
  }
  return _cmocka_run_group_tests("graph", tests, count, start, stage_close);
}
