/* Captured graphs: models, devices and options with which a session cannot capture, refused when it is made. */
#include "graph_rig.h"

#include <stdlib.h>
#include <string.h>

#include "models.h"

static void refused_models(void **state) {
  (void)state;
  static const struct {
    const char *model, *words;
  } models[] = {{"if", "control flow"},
                {"loop", "control flow"},
                {"nonzero", "depends on the data"},
                {"sequence", "is not a tensor"},
                {"passthrough", "no node makes"},
                {"constant", ""},
                {"identity dtype=string", "(Identity)"}};
  static const struct {
    const char *op;
    size_t inputs;
    const char *words;
  } nodes[] = {{"Scan", 1, "control flow"},
               {"Unique", 1, "depends on the data"},
               {"RandomNormalLike", 1, "'the_node' (RandomNormalLike)"},
               {"RandomUniformLike", 1, "'the_node' (RandomUniformLike)"},
               {"RandomNormal", 0, "repeat the numbers"},
               {"RandomUniform", 0, "repeat the numbers"},
               {"Multinomial", 1, "repeat the numbers"},
               {"Bernoulli", 1, "repeat the numbers"},
               {"Dropout", 3, "repeat the numbers"}};
  static const char *const contrib[] = {"BiasDropout", "BitmaskDropout", "BitmaskBiasDropout", "BiasSoftmaxDropout"};
  iobind_session *session = NULL;
  for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
    assert_int_equal(try_session(models[i].model, 1, &session), IOBIND_ERROR_NOT_SUPPORTED);
    expect_words(models[i].words);
  }
  for (size_t i = 0; i < sizeof nodes / sizeof nodes[0]; i++) {
    assert_int_equal(try_node(nodes[i].op, "", nodes[i].inputs, 1, &session), IOBIND_ERROR_NOT_SUPPORTED);
    expect_words(nodes[i].words);
  }
  for (size_t i = 0; i < sizeof contrib / sizeof contrib[0]; i++) {
    assert_int_equal(try_node(contrib[i], "com.microsoft", 2, 1, &session), IOBIND_ERROR_NOT_SUPPORTED);
    expect_words("repeat the numbers");
  }
}

/* A function of the model's own may have such a node, and ORT puts its nodes in the place of its calls. */
static void refused_functions(void **state) {
  (void)state;
  static const unsigned char function[] = "\xCA\x01\x1F" /* ModelProto's functions, 31 bytes */
                                          "\x0A\x01"
                                          "f"        /* name */
                                          "\x3A\x13" /* a node, 19 bytes */
                                          "\x1A\x08"
                                          "the_node" /* its name */
                                          "\x22\x07"
                                          "NonZero" /* its operator */
                                          "\x52\x05"
                                          "local"; /* domain */
  enum { ADDED = sizeof function - 1 };
  void *bytes = NULL;
  size_t size = 0;
  iobind_session *session = NULL;
  assert_true(test_model_create("scale", &bytes, &size, NULL));
  unsigned char *model = malloc(size + ADDED);
  assert_non_null(model);
  memcpy(model, bytes, size);
  memcpy(model + size, function, ADDED);
  assert_int_equal(try_bytes(model, size + ADDED, 1, &session), IOBIND_ERROR_NOT_SUPPORTED);
  expect_words("'the_node' (NonZero)");
  free(model);
  free(bytes);
}

/* ORT's own format does not list its operators. */
static void refused_format(void **state) {
  (void)state;
  static const char model[] = "\x18\0\0\0ORTM\0\0\0\0\0\0\0\0";
  iobind_session *session = NULL;
  assert_int_equal(try_bytes(model, sizeof model, 1, &session), IOBIND_ERROR_NOT_SUPPORTED);
  expect_words("one of ORT's own format");
}

/* A node that the device does not take: ONNX Runtime refuses the session without saying which. */
static void node_on_cpu(void **state) {
  (void)state;
  iobind_session *session = NULL;
  bool denied = is_device("vdev") && set_device("deny", "Det");
  assert_int_equal(try_node("Det", "", 1, 1, &session), IOBIND_ERROR_NOT_SUPPORTED);
  expect_words("'the_node' (Det)");
  if (denied) {
    assert_true(set_device("deny", ""));
  }
}

/* All nodes are on the device, but one of them has the size of its output from another: refused, or a replay of another size fails. */
static void size_of_data(void **state) {
  (void)state;
  iobind_session *session = NULL;
  iobind_tensor *x = make_filled(1, 2);
  iobind_status status = try_size_of_data(1, &session);
  if (status != IOBIND_OK) {
    assert_int_equal(status, IOBIND_ERROR_NOT_SUPPORTED);
    expect_words("a node reads on the host a value that another node computes");
  } else {
    assert_true(is_device("vdev"));
    iobind_binding *binding = make_binding(session, x, NULL);
    for (int turn = 0; turn < 6; turn++) {
      fill(x, turn % 2 == 0 ? 2 : 3);
      status = iobind_binding_run(binding, NULL, &fault);
      if (turn % 2 == 0) {
        fixture_expect(IOBIND_OK, status, "run", __FILE__, __LINE__);
        expect_output(binding, 2, 1);
      } else {
        assert_int_not_equal(status, IOBIND_OK);
      }
    }
    iobind_binding_destroy(binding);
    iobind_session_destroy(session);
  }
  iobind_tensor_release(x);
}

static void devices_refused(void **state) {
  (void)state;
  iobind_device *both[2] = {device, cpu};
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  iobind_session *session = NULL;
  iobind_stream *stream = NULL;
  options.graph_limit = 1;
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_session_create_from_memory(runtime, "", 1, &options, &session, &fault));
  expect_words("exactly one device");
  options.devices = &both[0];
  options.device_count = 1;
  if (!is_device("cuda")) { /* tests/vcuda/replay_test.c has what CUDA makes of it */
    expect_ok(iobind_stream_create(device, NULL, &stream, &fault));
    options.stream = stream;
    expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_session_create_from_memory(runtime, "", 1, &options, &session, &fault));
    expect_words("does not capture graphs on the caller's stream");
    options.stream = NULL;
    iobind_stream_destroy(stream);
  }
  options.devices = &both[1];
  options.device_count = 1;
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_session_create_from_memory(runtime, "", 1, &options, &session, &fault));
  static const char *const key = "session.use_env_allocators";
  static const char *const one = "1";
  options.devices = both;
  options.device_count = 2;
  options.config_keys = &key;
  options.config_values = &one;
  options.config_count = 1;
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind_session_create_from_memory(runtime, "", 1, &options, &session, &fault));
  expect_words("share the memory");
}

int main(int argc, char **argv) {
  static const struct CMUnitTest tests[] = {cmocka_unit_test(refused_models), cmocka_unit_test(refused_functions),
                                            cmocka_unit_test(refused_format), cmocka_unit_test(node_on_cpu),
                                            cmocka_unit_test(size_of_data),   cmocka_unit_test(devices_refused)};
  return graph_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
