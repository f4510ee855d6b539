/* States in files, and beside captured graphs. The rows of conformance have what every device shows. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp, utimensat */
#include "stage.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "model.h"
#include "onnx.h"
#include "support/system.h"
#include "vdev.h"

enum { PATH_TEXT = 128 };

static char folder[] = "/tmp/iobind-state-XXXXXX";

static int start(void **state) {
  *state = (void *)(uintptr_t) "vdev";
  return mkdtemp(folder) == NULL ? -1 : stage_open(state);
}

static int stop(void **state) {
  stage_close(state);
  return rmdir(folder);
}

/* ---- files ---- */

typedef struct content {
  unsigned char *bytes;
  size_t size;
} content;

/* A path in the test's directory. */
static const char *in_folder(const char *name, char path[PATH_TEXT]) {
  snprintf(path, PATH_TEXT, "%s/%s", folder, name);
  return path;
}

static void put_file(const char *name, const char *mode, const void *bytes, size_t size) {
  char path[PATH_TEXT];
  FILE *file = fopen(in_folder(name, path), mode);
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, size, file), size);
  assert_int_equal(fclose(file), 0);
}

static void write_file(const char *name, const void *bytes, size_t size) {
  put_file(name, "wb", bytes, size);
}

static content read_file(const char *name) {
  char path[PATH_TEXT];
  struct stat found;
  assert_int_equal(stat(in_folder(name, path), &found), 0);
  content read = {malloc((size_t)found.st_size), (size_t)found.st_size};
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  assert_int_equal(fread(read.bytes, 1, read.size, file), read.size);
  fclose(file);
  return read;
}

static void remove_file(const char *name) {
  char path[PATH_TEXT];
  assert_int_equal(remove(in_folder(name, path)), 0);
}

static void expect_content(const char *name, const content *expected) {
  content now = read_file(name);
  assert_int_equal(now.size, expected->size);
  assert_memory_equal(now.bytes, expected->bytes, now.size);
  free(now.bytes);
}

/* No file that is written beside another one. */
static void expect_no_part(void) {
  char **names;
  assert_true(iobind__directory_list(folder, &names));
  for (char **name = names; *name != NULL; name++) {
    assert_null(strstr(*name, ".part"));
  }
  iobind__directory_free(names);
}

/* ---- models ---- */

static void write_model(const char *name, const char *spec) {
  char text[TEST_MODEL_TEXT] = "";
  size_t size = 0;
  const void *bytes = test_model(spec, &size, text);
  if (bytes == NULL) {
    fail_msg("%s: %s", spec, text);
  }
  write_file(name, bytes, size);
}

/* y = x * w, four float32; w is in the file weights.data. */
static void write_external_model(const char *name) {
  static const int64_t four = 4;
  const onnx_type type = {.kind = ONNX_KIND_TENSOR, .dtype = ONNX_FLOAT32, .dims = &four, .rank = 1};
  const onnx_tensor weights = {
      .name = "w", .dtype = ONNX_FLOAT32, .dims = &four, .rank = 1, .location = "weights.data", .length = 16};
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
  const void *bytes = NULL;
  size_t size = 0;
  assert_int_equal(onnx_writer_finish(&writer, &bytes, &size), ONNX_OK);
  write_file(name, bytes, size);
  onnx_writer_release(&writer);
}

static void write_weights(const char *name, float weight) {
  const float weights[4] = {weight, weight, weight, weight};
  write_file(name, weights, sizeof weights);
}

static iobind_session *session_of(const char *name, size_t graph_limit) {
  char path[PATH_TEXT];
  iobind_session *session;
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  options.devices = &device;
  options.device_count = 1;
  options.graph_limit = graph_limit;
  expect_ok(iobind_session_create(runtime, in_folder(name, path), &options, &session, &fault));
  return session;
}

/* ---- states ---- */

static const float ones[4] = {1, 1, 1, 1};

static void expect_output(iobind_binding *binding, float value) {
  const float values[4] = {value, value, value, value};
  iobind_tensor *y;
  expect_ok(iobind_binding_get_output(binding, 0, NULL, &y, &fault));
  fixture_expect_floats(y, values, 4);
}

static void run(iobind_binding *binding, int times) {
  for (int i = 0; i < times; i++) {
    expect_ok(iobind_binding_run(binding, NULL, &fault));
  }
}

static iobind_state *save(iobind_binding *binding) {
  iobind_state *saved;
  expect_ok(iobind_binding_save_state(binding, &saved, &fault));
  return saved;
}

/* A binding whose first output is carried to its first input, which holds ones. */
static iobind_binding *carried(iobind_session *session, iobind_carry_mode mode) {
  iobind_binding *binding;
  iobind_tensor *x = fixture_floats(device, ones, 4);
  expect_ok(iobind_binding_create(session, &binding, &fault));
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_SNAPSHOT, x, NULL, &fault));
  expect_ok(iobind_binding_carry(binding, 0, 0, mode, &fault));
  iobind_tensor_release(x);
  return binding;
}

static iobind_state *state_of(iobind_session *session) {
  iobind_binding *binding = carried(session, IOBIND_CARRY_MOVE);
  run(binding, 1);
  iobind_state *saved = save(binding);
  iobind_binding_destroy(binding);
  return saved;
}

static iobind_status save_to(iobind_state *saved, const char *name) {
  char path[PATH_TEXT];
  return iobind_state_save(saved, in_folder(name, path), &fault);
}

static iobind_status load_from(iobind_session *session, const char *name, iobind_state **loaded) {
  char path[PATH_TEXT];
  return iobind_state_load(session, in_folder(name, path), loaded, &fault);
}

/* The state of a decoder that has seen two tokens: two tensors of float32[2,8]. */
static iobind_state *state_of_decoder(iobind_session *session) {
  static const int64_t two[1] = {2};
  static const int64_t empty[2] = {0, 8};
  static const int64_t tokens[2] = {3, 7};
  iobind_tensor *token;
  iobind_tensor *none;
  iobind_binding *binding;
  expect_ok(iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_INT64, two, 1, &token, &fault));
  expect_ok(iobind_tensor_write(token, 0, tokens, sizeof tokens, NULL, &fault));
  expect_ok(iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, empty, 2, &none, &fault));
  expect_ok(iobind_binding_create(session, &binding, &fault));
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, token, NULL, &fault));
  for (size_t i = 1; i <= 2; i++) {
    expect_ok(iobind_binding_set_input(binding, i, IOBIND_INPUT_RESIDENT, none, NULL, &fault));
    expect_ok(iobind_binding_carry(binding, i, i, IOBIND_CARRY_MOVE, &fault));
  }
  run(binding, 1);
  iobind_state *saved = save(binding);
  iobind_binding_destroy(binding);
  iobind_tensor_release(token);
  iobind_tensor_release(none);
  return saved;
}

/* A cache of 16 rows of 4, of which 3 are in use. */
static iobind_state *state_of_cache(iobind_session *session) {
  static const int64_t cache_dims[3] = {1, 16, 4};
  static const int64_t row_dims[3] = {1, 3, 4};
  static const float rows[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  iobind_tensor *cache;
  iobind_tensor *row;
  iobind_binding *binding;
  expect_ok(iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, cache_dims, 3, &cache, &fault));
  expect_ok(iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, row_dims, 3, &row, &fault));
  expect_ok(iobind_tensor_write(row, 0, rows, sizeof rows, NULL, &fault));
  expect_ok(iobind_binding_create(session, &binding, &fault));
  expect_ok(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, cache, NULL, &fault));
  expect_ok(iobind_binding_set_input(binding, 1, IOBIND_INPUT_RESIDENT, row, NULL, &fault));
  expect_ok(iobind_binding_carry(binding, 0, 0, IOBIND_CARRY_IN_PLACE, &fault));
  expect_ok(iobind_binding_write_lengths(binding, 3, &(int64_t){0}, 1, NULL, &fault));
  run(binding, 1);
  iobind_state *saved = save(binding);
  iobind_binding_destroy(binding);
  iobind_tensor_release(cache);
  iobind_tensor_release(row);
  return saved;
}

static void expect_refused(iobind_session *session, const char *name) {
  iobind_state *loaded = (iobind_state *)session;
  fixture_arm();
  iobind_status status = load_from(session, name, &loaded);
  fixture_expect(status == IOBIND_ERROR_VERSION ? status : IOBIND_ERROR_IO, status, "state_load", __FILE__, __LINE__);
  assert_null(loaded);
}

/* ---- the tests ---- */

/* The second tensor's bytes are read when the first one lies on the device already. */
static void damage(const char *model, iobind_state *(*state_of_model)(iobind_session *)) {
  enum { CHANGES = 300, CUTS = 50 };
  write_model("model.onnx", model);
  iobind_session *session = session_of("model.onnx", 0);
  iobind_state *saved = state_of_model(session);
  iobind_state *loaded;
  expect_ok(save_to(saved, "state"));
  iobind_state_release(saved);
  const content good = read_file("state");
  const int64_t live = vdev_get(0, "live_bytes");
  for (size_t i = 0; i < CHANGES; i++) {
    unsigned char *at = good.bytes + i * good.size / CHANGES;
    const unsigned char change = (unsigned char)(1U << i % 8);
    *at ^= change;
    write_file("state", good.bytes, good.size);
    expect_refused(session, "state");
    *at ^= change;
  }
  for (size_t i = 0; i < CUTS; i++) {
    write_file("state", good.bytes, i * good.size / CUTS);
    expect_refused(session, "state");
  }
  write_file("state", good.bytes, good.size);
  put_file("state", "ab", "", 1);
  expect_refused(session, "state");
  assert_int_equal(vdev_get(0, "live_bytes"), live);
  write_file("state", good.bytes, good.size);
  expect_ok(load_from(session, "state", &loaded));
  iobind_state_release(loaded);
  iobind_session_destroy(session);
  free(good.bytes);
  remove_file("state");
  remove_file("model.onnx");
}

static void damaged_cut_and_longer(void **state) {
  (void)state;
  damage("decoder", state_of_decoder);
}

/* The rows in use alone are in the file, and how many there are. */
static void damaged_part_of_a_cache(void **state) {
  (void)state;
  damage("append opset=24", state_of_cache);
}

/* As a program is that an update replaces under a process that runs, of the same size; and one that grows. */
static void model_has_changed(void **state) {
  (void)state;
  char from[PATH_TEXT];
  char to[PATH_TEXT];
  for (int is_replaced = 0; is_replaced < 2; is_replaced++) {
    write_model("model.onnx", "scale");
    write_model("other.onnx", is_replaced ? "scale factor=3" : "add");
    iobind_session *known = session_of("model.onnx", 0);
    iobind_session *late = session_of("model.onnx", 0);
    iobind_state *of_known = state_of(known);
    iobind_state *of_late = state_of(late);
    iobind_state *loaded = of_late;
    expect_ok(save_to(of_known, "state"));
    if (is_replaced) {
      assert_int_equal(rename(in_folder("other.onnx", from), in_folder("model.onnx", to)), 0);
    } else {
      content other = read_file("other.onnx");
      write_file("model.onnx", other.bytes, other.size);
      free(other.bytes);
      remove_file("other.onnx");
    }
    expect(IOBIND_ERROR_IO, save_to(of_late, "late"));
    expect_words("has changed");
    expect(IOBIND_ERROR_IO, load_from(late, "state", &loaded));
    expect_words("has changed");
    assert_null(loaded);
    expect_ok(save_to(of_known, "state")); /* it was identified in time */
    remove_file("model.onnx");
    expect(IOBIND_ERROR_IO, save_to(of_late, "late"));
    expect_words("cannot be read");
    expect_no_part();
    iobind_state_release(of_known);
    iobind_state_release(of_late);
    iobind_session_destroy(known);
    iobind_session_destroy(late);
    remove_file("state");
  }
}

static void write_weights_at(const char *name, float weight, time_t seconds) {
  char path[PATH_TEXT];
  const struct timespec written = {.tv_sec = seconds};
  const struct timespec times[2] = {written, written};
  write_weights(name, weight);
  assert_int_equal(utimensat(AT_FDCWD, in_folder(name, path), times, 0), 0);
}

/* Until a file that is written now is later than all before the call: the clock of files advances in steps of milliseconds. */
static void wait_for_files(void) {
  char path[PATH_TEXT];
  struct timespec now;
  iobind__file_stamp stamp;
  assert_int_equal(timespec_get(&now, TIME_UTC), TIME_UTC);
  do {
    write_file("clock", "", 0);
    assert_true(iobind__file_stamp_get(in_folder("clock", path), &stamp));
  } while (stamp.changed <= (int64_t)now.tv_sec * 1000000000 + now.tv_nsec);
  remove_file("clock");
}

/* A file that was written long ago takes the place of the one that the session has read. */
static void replace_weights(void) {
  char from[PATH_TEXT];
  char to[PATH_TEXT];
  wait_for_files();
  assert_int_equal(rename(in_folder("old.data", from), in_folder("weights.data", to)), 0);
}

static void external_data(void **state) {
  (void)state;
  write_external_model("model.onnx");
  write_weights_at("weights.data", 2, time(NULL) + 3600); /* another clock wrote it */
  iobind_session *first = session_of("model.onnx", 0);
  iobind_session *second = session_of("model.onnx", 0);
  iobind_state *saved = state_of(first);
  iobind_state *loaded;
  expect_ok(save_to(saved, "state"));
  expect_ok(load_from(second, "state", &loaded));
  iobind_binding *binding = carried(second, IOBIND_CARRY_SWAP);
  expect_ok(iobind_binding_restore_state(binding, loaded, &fault));
  run(binding, 1);
  expect_output(binding, 4);
  iobind_binding_destroy(binding);
  iobind_state_release(loaded);
  iobind_session_destroy(second);

  write_weights("weights.data", 3);
  second = session_of("model.onnx", 0);
  expect(IOBIND_ERROR_IO, load_from(second, "state", &loaded));
  expect_words("another model: its external data differs from the session's (saved on vdev:0, ORT ");
  iobind_session_destroy(second);

  write_weights_at("old.data", 2, 1000000000);
  second = session_of("model.onnx", 0);
  iobind_state *late = state_of(second);
  replace_weights();
  expect(IOBIND_ERROR_IO, save_to(late, "late"));
  expect_words("weights.data' has changed");
  remove_file("weights.data");
  expect(IOBIND_ERROR_IO, save_to(late, "late"));
  expect_words("weights.data', a file of the session's model, cannot be read");
  expect_no_part();
  iobind_state_release(saved);
  iobind_state_release(late);
  iobind_session_destroy(first);
  iobind_session_destroy(second);
  remove_file("state");
  remove_file("model.onnx");
}

/* A write that fails half-way: the process may write no longer files. */
static iobind_status save_without_room(iobind_state *saved, const char *name) {
  struct rlimit was;
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
  const struct rlimit small = {.rlim_cur = 100, .rlim_max = was.rlim_max};
  void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
  iobind_status status = save_to(saved, name);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
  signal(SIGXFSZ, handler);
  return status;
}

static void failed_write(void **state) {
  (void)state;
  char path[PATH_TEXT];
  write_model("model.onnx", "scale");
  iobind_session *session = session_of("model.onnx", 0);
  iobind_state *saved = state_of(session);
  expect_ok(save_to(saved, "state"));
  assert_ptr_equal(iobind_state_retain(saved), saved);
  iobind_state_release(saved);
  content good = read_file("state");
  iobind_binding *binding = carried(session, IOBIND_CARRY_MOVE);
  run(binding, 3);
  iobind_state *other = save(binding);
  expect(IOBIND_ERROR_IO, save_without_room(other, "state"));
  expect_words("cannot be written");
  expect_content("state", &good);
  expect(IOBIND_ERROR_IO, save_to(other, "none/state"));
  assert_int_equal(mkdir(in_folder("directory", path), 0777), 0);
  expect(IOBIND_ERROR_IO, save_to(other, "directory"));
  assert_int_equal(rmdir(path), 0);
  assert_int_equal(mkfifo(in_folder("pipe", path), 0777), 0);
  expect(IOBIND_ERROR_IO, save_to(other, "pipe"));
  expect_words("is not a regular file");
  struct stat pipe;
  assert_int_equal(stat(path, &pipe), 0);
  assert_true(S_ISFIFO(pipe.st_mode));
  remove_file("pipe");
  expect_no_part();
  expect_ok(save_to(saved, "state"));
  expect_content("state", &good);
  expect_ok(save_to(other, "state"));
  expect_no_part();
  iobind_state_release(saved);
  iobind_state_release(other);
  iobind_binding_destroy(binding);
  iobind_session_destroy(session);
  free(good.bytes);
  remove_file("state");
  remove_file("model.onnx");
}

static size_t graphs_of(const iobind_session *session) {
  iobind_session_info info = IOBIND_SESSION_INFO_INIT;
  expect_ok(iobind_session_get_info(session, &info, &fault));
  return info.graph_count;
}

/* A branch that is restored before its first run, which is captured: the run that captures reads the state as well. */
static void branch(iobind_session *session, iobind_carry_mode mode, iobind_state *saved, float value) {
  iobind_binding *binding;
  expect_ok(iobind_binding_create(session, &binding, &fault));
  expect_ok(iobind_binding_carry(binding, 0, 0, mode, &fault));
  expect_ok(iobind_binding_restore_state(binding, saved, &fault));
  run(binding, 3);
  expect_output(binding, value * 8);
  iobind_binding_destroy(binding);
}

static void beside_graphs(iobind_carry_mode mode, size_t graphs) {
  iobind_session *session = session_of("model.onnx", 2);
  iobind_binding *binding = carried(session, mode);
  run(binding, 4);
  assert_int_equal(graphs_of(session), graphs);
  const int64_t captures = vdev_get(0, "graph_captures");
  const int64_t replays = vdev_get(0, "graph_replays");
  iobind_state *saved = save(binding);
  run(binding, 3);
  expect_output(binding, 128);
  const int64_t allocations = vdev_get(0, "allocations");
  for (int i = 0; i < 2; i++) {
    expect_ok(iobind_binding_restore_state(binding, saved, &fault));
    assert_int_equal(graphs_of(session), graphs);
    run(binding, 3);
    expect_output(binding, 128);
  }
  assert_int_equal(graphs_of(session), graphs);
  assert_int_equal(vdev_get(0, "graph_captures"), captures);
  assert_int_equal(vdev_get(0, "graph_replays"), replays + 9);
  assert_int_equal(vdev_get(0, "allocations"), allocations);
  branch(session, mode, saved, 16);
  iobind_state_release(saved);
  iobind_binding_destroy(binding);
  iobind_session_destroy(session);
}

static void captured_graphs(void **state) {
  (void)state;
  write_model("model.onnx", "scale");
  beside_graphs(IOBIND_CARRY_SWAP, 2);
  beside_graphs(IOBIND_CARRY_IN_PLACE, 1);
  remove_file("model.onnx");
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(damaged_cut_and_longer), cmocka_unit_test(damaged_part_of_a_cache),
    cmocka_unit_test(model_has_changed),      cmocka_unit_test(external_data),
    cmocka_unit_test(failed_write),           cmocka_unit_test(captured_graphs),
};

FIXTURE_MAIN(cases, start, stop);
