/* What a session is verified with is loaded by its first verified run, from the model that the session has; a run that cannot load it changes
 * nothing. */
#define _GNU_SOURCE /* mkdtemp, utimensat */
#include "verified.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "model.h"
#include "onnx.h"
#include "../rig/calls.h"

enum { PATH_TEXT = 160, RUNS = 2 };

static char root[32]; /* the test's own directory */
static char home[64]; /* in it, with the models */
static char away[64]; /* where that is when it cannot be found */
static const char refused[] = "create the session again, or without `verify`";

static int start(void **state) {
  (void)stage_open(state);
  snprintf(root, sizeof root, "/tmp/iobind-loading-XXXXXX");
  assert_non_null(mkdtemp(root));
  snprintf(home, sizeof home, "%s/home", root);
  snprintf(away, sizeof away, "%s/away", root);
  return mkdir(home, 0700);
}

static const char *in_home(const char *name, char path[PATH_TEXT]) {
  snprintf(path, PATH_TEXT, "%s/%s", home, name);
  return path;
}

static int stop(void **state) {
  static const char *const names[] = {"model.onnx", "weights.data", "other"};
  char path[PATH_TEXT];
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    (void)remove(in_home(names[i], path));
  }
  return rmdir(home) != 0 || rmdir(root) != 0 ? -1 : stage_close(state);
}

/* ---- models ---- */

static void write_file(const char *name, const void *bytes, size_t size) {
  char path[PATH_TEXT];
  FILE *file = fopen(in_home(name, path), "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, size, file), size);
  assert_int_equal(fclose(file), 0);
}

static void write_model(const char *name, const char *spec) {
  char text[TEST_MODEL_TEXT] = "";
  size_t size = 0;
  const void *bytes = test_model(spec, &size, text);
  assert_non_null(bytes);
  write_file(name, bytes, size);
}

static void write_weights(float weight) {
  float weights[N];
  for (int i = 0; i < N; i++) {
    weights[i] = weight;
  }
  write_file("weights.data", weights, sizeof weights);
}

/* y = x * w; w is in the file weights.data. The caller releases it. */
static onnx_writer make_external(const void **bytes, size_t *size) {
  static const int64_t dims[1] = {N};
  const onnx_type type = {.kind = ONNX_KIND_TENSOR, .dtype = ONNX_FLOAT32, .dims = dims, .rank = 1};
  const onnx_tensor weights = {
      .name = "w", .dtype = ONNX_FLOAT32, .dims = dims, .rank = 1, .location = "weights.data", .length = N * sizeof(float)};
  onnx_writer writer = ONNX_WRITER_INIT;
  onnx_model_begin(&writer, NULL);
  onnx_opset(&writer, "", 21);
  onnx_graph_begin(&writer, "graph");
  onnx_input(&writer, "x", &type);
  onnx_output(&writer, "y", &type);
  onnx_initializer(&writer, &weights);
  onnx_node_begin(&writer, "Mul", "", "");
  onnx_node_input(&writer, "x");
  onnx_node_input(&writer, "w");
  onnx_node_output(&writer, "y");
  onnx_node_end(&writer);
  onnx_graph_end(&writer);
  onnx_model_end(&writer);
  assert_int_equal(onnx_writer_finish(&writer, bytes, size), ONNX_OK);
  return writer;
}

static iobind_session_options wanted(void) {
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  options.devices = &device;
  options.device_count = 1;
  options.verify.runs = RUNS;
  return options;
}

static iobind_session *open_path(const char *path) {
  const iobind_session_options options = wanted();
  iobind_session *made = NULL;
  expect_ok(iobind_session_create(runtime, path, &options, &made, &fault));
  return made;
}

static iobind_session *open_file(void) {
  char path[PATH_TEXT];
  return open_path(in_home("model.onnx", path));
}

static iobind_binding *bind(iobind_session *session, iobind_tensor *x) {
  iobind_binding *made;
  expect_ok(iobind_binding_create(session, &made, &fault));
  expect_ok(iobind_binding_set_input(made, 0, IOBIND_INPUT_RESIDENT, x, NULL, &fault));
  return made;
}

static void expect_compared(iobind_binding *binding, float value) {
  set_wrong("every:1");
  expect(IOBIND_ERROR_RESULT, iobind_binding_run(binding, NULL, &fault));
  set_wrong("0");
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  expect_output(binding, value);
}

/* Its model doubles; the session is destroyed. */
static void expect_verified(iobind_session *session) {
  iobind_tensor *x = make_filled(3);
  iobind_binding *binding = bind(session, x);
  expect_compared(binding, 6);
  iobind_binding_destroy(binding);
  iobind_tensor_release(x);
  iobind_session_destroy(session);
}

/* ---- refused, and nothing is lost ---- */

typedef struct sum {
  iobind_session *session;
  iobind_binding *binding;
  iobind_stream *stream;
  iobind_tensor *first;
  iobind_tensor *step;
} sum;

static sum open_sum(iobind_carry_mode mode, bool on_stream) {
  sum self = {.session = open_file(), .first = make_filled(1), .step = make_filled(2)};
  self.binding = bind(self.session, self.first);
  expect_ok(iobind_binding_carry(self.binding, 0, 0, mode, &fault));
  expect_ok(iobind_binding_set_input(self.binding, 0, IOBIND_INPUT_RESIDENT, self.first, NULL, &fault));
  expect_ok(iobind_binding_set_input(self.binding, 1, IOBIND_INPUT_RESIDENT, self.step, NULL, &fault));
  if (on_stream) {
    expect_ok(iobind_stream_create(device, NULL, &self.stream, &fault));
  }
  return self;
}

static void close_sum(sum *self) {
  iobind_binding_destroy(self->binding);
  iobind_stream_destroy(self->stream);
  iobind_tensor_release(self->first);
  iobind_tensor_release(self->step);
  iobind_session_destroy(self->session);
}

/* The state is what it was before: the next run continues from it. */
static void play_sum(iobind_carry_mode mode, bool on_stream) {
  sum self = open_sum(mode, on_stream);
  assert_int_equal(rename(home, away), 0);
  for (int i = 0; i < 2; i++) {
    expect(IOBIND_ERROR_IO, iobind_binding_run(self.binding, self.stream, &fault));
    expect_words("binding_run: verify: the session of 'model.onnx' cannot load its model for the CPU");
    expect_words(refused);
  }
  assert_int_equal(rename(away, home), 0);
  for (int run = 0; run < RUNS + 2; run++) {
    expect_ok(iobind_binding_run(self.binding, self.stream, &fault));
    if (self.stream != NULL) {
      expect_ok(iobind_stream_synchronize(self.stream, &fault));
    }
    expect_output(self.binding, (float)(3 + 2 * run));
  }
  close_sum(&self);
}

static void file_for_a_while_away(void **state) {
  (void)state;
  static const iobind_carry_mode modes[] = {IOBIND_CARRY_MOVE, IOBIND_CARRY_SWAP, IOBIND_CARRY_IN_PLACE};
  write_model("model.onnx", "add");
  for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
    play_sum(modes[i], false);
    play_sum(modes[i], true);
  }
}

/* A run that follows finds the wrong kernel: the shadow is there. */
static void file_is_read_late(void **state) {
  (void)state;
  write_model("model.onnx", "scale");
  iobind_session *session = open_file();
  iobind_tensor *x = make_filled(3);
  iobind_binding *binding = bind(session, x);
  assert_int_equal(rename(home, away), 0);
  expect(IOBIND_ERROR_IO, iobind_binding_run(binding, NULL, &fault));
  assert_int_equal(rename(away, home), 0);
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  assert_int_equal(rename(home, away), 0); /* from now on it is not needed */
  expect_compared(binding, 6);
  assert_int_equal(rename(away, home), 0);
  iobind_binding_destroy(binding);
  iobind_tensor_release(x);
  iobind_session_destroy(session);
}

/* ---- another model ---- */

static void expect_refused(iobind_session *session, const char *words) {
  iobind_tensor *x = make_filled(3);
  iobind_binding *binding = bind(session, x);
  expect(IOBIND_ERROR_IO, iobind_binding_run(binding, NULL, &fault));
  expect_words(words);
  expect_words(refused);
  iobind_binding_destroy(binding);
  iobind_tensor_release(x);
  iobind_session_destroy(session);
}

/* As old as the first one: tools that copy keep the time. */
static void keep_time(const char *name, const struct stat *from) {
  char path[PATH_TEXT];
  const struct timespec times[2] = {from->st_mtim, from->st_mtim};
  assert_int_equal(utimensat(AT_FDCWD, in_home(name, path), times, 0), 0);
}

static void other_model(void **state) {
  (void)state;
  char path[PATH_TEXT];
  char other[PATH_TEXT];
  struct stat was;
  for (int is_renamed = 0; is_renamed < 2; is_renamed++) {
    write_model("model.onnx", "scale");
    assert_int_equal(stat(in_home("model.onnx", path), &was), 0);
    iobind_session *session = open_file();
    write_model(is_renamed ? "other" : "model.onnx", "scale factor=3");
    keep_time(is_renamed ? "other" : "model.onnx", &was);
    if (is_renamed) {
      assert_int_equal(rename(in_home("other", other), path), 0);
    }
    expect_refused(session,
                   is_renamed ? "model.onnx' has changed since the session was created" : "model.onnx' was changed, renamed");
  }
}

static void other_data(void **state) {
  (void)state;
  char path[PATH_TEXT];
  struct stat was;
  const void *bytes = NULL;
  size_t size = 0;
  onnx_writer writer = make_external(&bytes, &size);
  write_file("model.onnx", bytes, size);
  write_weights(2);
  assert_int_equal(stat(in_home("weights.data", path), &was), 0);
  iobind_session *session = open_file();
  write_weights(3);
  keep_time("weights.data", &was);
  expect_refused(session, "'weights.data' was changed, renamed");
  onnx_writer_release(&writer);
}

/* The session on the CPU reads them in each run. */
static void other_data_between_runs(void **state) {
  (void)state;
  const void *bytes = NULL;
  size_t size = 0;
  onnx_writer writer = make_external(&bytes, &size);
  write_file("model.onnx", bytes, size);
  write_weights(2);
  iobind_session *session = open_file();
  iobind_tensor *x = make_filled(3);
  iobind_binding *binding = bind(session, x);
  expect_ok(iobind_binding_run(binding, NULL, &fault));
  write_weights(3);
  expect(IOBIND_ERROR_IO, iobind_binding_run(binding, NULL, &fault));
  expect_words("binding_run: 'weights.data' ");
  expect_words("since the session was created");
  iobind_binding_destroy(binding);
  iobind_tensor_release(x);
  iobind_session_destroy(session);
  onnx_writer_release(&writer);
}

/* ---- where the model was ---- */

/* The path begins in the directory in which the program was then. */
static void other_directory(void **state) {
  (void)state;
  char *was = get_current_dir_name();
  write_model("model.onnx", "scale");
  assert_int_equal(chdir(home), 0);
  iobind_session *session = open_path("model.onnx");
  assert_int_equal(chdir("/"), 0);
  expect_verified(session);
  assert_int_equal(chdir(was), 0);
  free(was);
}

static void bytes_are_freed(void **state) {
  (void)state;
  char text[TEST_MODEL_TEXT] = "";
  size_t size = 0;
  const void *bytes = test_model("scale", &size, text);
  void *copy = malloc(size);
  const iobind_session_options options = wanted();
  iobind_session *session;
  assert_non_null(copy);
  memcpy(copy, bytes, size);
  expect_ok(iobind_session_create_from_memory(runtime, copy, size, &options, &session, &fault));
  memset(copy, 0, size);
  free(copy);
  expect_verified(session);
}

/* ORT looks for them in a directory that iobind does not know: both sessions are loaded at once. */
static void bytes_with_external_data(void **state) {
  (void)state;
  static const char *const key = "session.model_external_initializers_file_folder_path";
  const char *const directory = home;
  const void *bytes = NULL;
  size_t size = 0;
  onnx_writer writer = make_external(&bytes, &size);
  iobind_session_options options = wanted();
  iobind_session *session;
  options.config_keys = &key;
  options.config_values = &directory;
  options.config_count = 1;
  write_weights(2);
  expect_ok(iobind_session_create_from_memory(runtime, bytes, size, &options, &session, &fault));
  onnx_writer_release(&writer);
  assert_int_equal(rename(home, away), 0);
  expect_verified(session);
  assert_int_equal(rename(away, home), 0);
}

#define ON(device, test) \
  { #device ": " #test, test, start, stop, #device }
#define ON_GPUS(test) ON(vdev, test), ON(cuda, test)

static const struct CMUnitTest tests[] = {
    ON_GPUS(file_for_a_while_away),   ON_GPUS(file_is_read_late), ON_GPUS(other_model),     ON_GPUS(other_data),
    ON_GPUS(other_data_between_runs), ON_GPUS(other_directory),   ON_GPUS(bytes_are_freed), ON_GPUS(bytes_with_external_data),
};

FIXTURE_MAIN(tests, NULL, NULL);
