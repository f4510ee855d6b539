/* The library and its process: fork, dlclose, setuid. Each test here runs in a process of its own: the argument names it. */
#define _GNU_SOURCE /* RTLD_NOLOAD, getauxval */
#include "fixture.h"
#include "iobind/interop.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "batch/batch.h"
#include "models.h"
#include "session/session.h"
#include "../rig/calls.h"

enum { PATIENCE = 60 }; /* seconds after which a child hangs; nothing here takes one */

/* ---- fork ---- */

typedef struct objects {
  iobind_runtime *runtime;
  iobind_device *cpu;
  iobind_session *session;
  iobind_binding *binding;
  iobind_stream *stream;
  iobind_event *event;
  iobind_tensor *x;
  iobind_tensor *text;
  iobind_pipeline *pipeline;
} objects;

static const float ones[] = {1, 2, 3};

static void make(objects *all) {
  memset(all, 0, sizeof *all);
  all->runtime = fixture_runtime();
  all->cpu = iobind_runtime_get_device(all->runtime, 0);
  void *model = NULL;
  size_t size = 0;
  assert_true(test_model_create("scale", &model, &size, NULL));
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  options.intra_op_threads = 2; /* a thread that a child does not have */
  expect_ok(iobind_session_create_from_memory(all->runtime, model, size, &options, &all->session, &fault));
  free(model);
  all->x = fixture_floats(all->cpu, ones, 3);
  expect_ok(iobind_tensor_create(all->cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_STRING, NULL, 0, &all->text, &fault));
  expect_ok(iobind_binding_create(all->session, &all->binding, &fault));
  expect_ok(iobind_binding_set_input(all->binding, 0, IOBIND_INPUT_RESIDENT, all->x, NULL, &fault));
  expect_ok(iobind_stream_create(all->cpu, NULL, &all->stream, &fault));
  expect_ok(iobind_event_create(all->cpu, &all->event, &fault));
  expect_ok(call_binding_run(all->binding, all->stream, all->event, &fault)); /* the stream has a thread, too */
  expect_ok(iobind_event_wait(all->event, IOBIND_NO_TIMEOUT, &fault));
  expect_ok(call_pipeline_create(all->session, NULL, &all->pipeline, &fault));
}

static void destroy(objects *all) {
  iobind_pipeline_destroy(all->pipeline);
  iobind_event_destroy(all->event);
  iobind_stream_destroy(all->stream);
  iobind_binding_destroy(all->binding);
  iobind_tensor_release(all->x);
  iobind_tensor_release(all->text);
  iobind_session_destroy(all->session);
  iobind_runtime_destroy(all->runtime);
}

/* What a child ends with: 0, or the line of what it met instead. */
static void end_child_unless(bool right, int line) {
  if (!right) {
    fprintf(stderr, "child: line %d: %s\n", line, fault.message);
    _exit(1);
  }
}
#define IN_CHILD(condition) end_child_unless((condition), __LINE__)
#define IS_REFUSED(call)                                                                      \
  IN_CHILD((fault = (iobind_error)IOBIND_ERROR_INIT, (call) == IOBIND_ERROR_INVALID_STATE) && \
           strstr(fault.message, "forked") != NULL)

static void try_everything(objects *all) {
  iobind_runtime *runtime = NULL;
  iobind_device *device = NULL;
  iobind_session *session = NULL;
  iobind_binding *binding = NULL;
  iobind_stream *stream = NULL;
  iobind_tensor *tensor = NULL;
  iobind_pipeline *pipeline = NULL;
  iobind_audit *audit = NULL;
  int32_t done = 0;
  float back[3];
  void *managed = NULL;
  size_t length = 0;
  iobind_difference difference = IOBIND_DIFFERENCE_INIT;
  const iobind_tensor *source = all->x;
  IS_REFUSED(iobind_runtime_create(NULL, &runtime, &fault));
  IS_REFUSED(iobind_runtime_find_device(all->runtime, "cpu", &device, NULL, &fault));
  IS_REFUSED(iobind_runtime_register_ep(all->runtime, NULL, "x", &fault));
  IS_REFUSED(iobind_device_check(all->cpu, &fault));
  IS_REFUSED(iobind_session_create_from_memory(all->runtime, "x", 1, NULL, &session, &fault));
  IS_REFUSED(call_session_run(all->session, &all->x, &tensor, &fault));
  IS_REFUSED(iobind_binding_create(all->session, &binding, &fault));
  IS_REFUSED(iobind_binding_run(all->binding, NULL, &fault));
  IS_REFUSED(call_binding_run(all->binding, all->stream, all->event, &fault));
  IS_REFUSED(iobind_binding_announce_run(all->binding, 1, &fault));
  IS_REFUSED(iobind_binding_cancel(all->binding, &fault));
  IS_REFUSED(iobind_binding_get_output(all->binding, 0, NULL, &tensor, &fault));
  IS_REFUSED(iobind_stream_create(all->cpu, NULL, &stream, &fault));
  IS_REFUSED(iobind_stream_synchronize(all->stream, &fault));
  IS_REFUSED(iobind_event_wait(all->event, IOBIND_NO_TIMEOUT, &fault));
  IS_REFUSED(iobind_event_query(all->event, &done, &fault));
  IS_REFUSED(iobind_tensor_create(all->cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, NULL, 0, &tensor, &fault));
  IS_REFUSED(call_tensor_wrap(all->cpu, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, NULL, 0, back, sizeof back, NULL, NULL,
                              &tensor, &fault));
  IS_REFUSED(iobind_tensor_view(all->x, 0, IOBIND_DTYPE_FLOAT32, NULL, 0, &tensor, &fault));
  IS_REFUSED(iobind_binding_place_output(all->binding, 0, IOBIND_OUTPUT_REUSE, NULL, IOBIND_MEMORY_DEFAULT, &fault));
  IS_REFUSED(iobind_binding_carry(all->binding, 0, 0, IOBIND_CARRY_MOVE, &fault));
  IS_REFUSED(iobind_binding_set_run_options(all->binding, NULL, &fault));
  IS_REFUSED(iobind_audit_create(all->binding, &audit, &fault));
  IS_REFUSED(iobind_tensor_write(all->x, 0, ones, sizeof ones, NULL, &fault));
  IS_REFUSED(iobind_tensor_read(all->x, 0, back, sizeof back, NULL, &fault));
  IS_REFUSED(iobind_tensor_copy(&source, &all->x, 1, NULL, &fault));
  IS_REFUSED(iobind_tensor_map(all->x, IOBIND_DTYPE_FLOAT32, IOBIND_ACCESS_READ, &managed, &fault));
  IS_REFUSED(iobind_tensor_compare(all->x, all->x, NULL, &difference, &fault));
  IS_REFUSED(iobind_tensor_get_string(all->text, 0, NULL, 0, &length, &fault));
  IS_REFUSED(iobind_tensor_set_string(all->text, 0, "other", &fault));
  IS_REFUSED(iobind_tensor_to_dlpack(all->x, 0, &managed, &fault));
  IS_REFUSED(iobind_tensor_from_dlpack(all->runtime, back, 0, &tensor, &fault));
  IS_REFUSED(call_pipeline_create(all->session, NULL, &pipeline, &fault));
  IS_REFUSED(call_pipeline_submit(all->pipeline, &all->x, 1, &fault));
  IS_REFUSED(iobind_pipeline_next(all->pipeline, IOBIND_NO_TIMEOUT, &tensor, 1, NULL, &fault));
  IN_CHILD(tensor == NULL && runtime == NULL && session == NULL);
  iobind_runtime_info info = IOBIND_RUNTIME_INFO_INIT;
  IN_CHILD(iobind_runtime_get_info(all->runtime, &info, &fault) == IOBIND_OK);
  IN_CHILD(iobind_runtime_get_device(all->runtime, 0) == all->cpu);
}

static void expect_child(pid_t child) {
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
}

/* A child of fork has none of the parent's threads: it gets errors at once, and what it destroys does not wait for them. */
static void child_of_fork(void **state) {
  (void)state;
  objects all;
  make(&all);
  /* as another thread of the parent may hold it at that moment */
  pthread_mutex_lock(&all.runtime->mutex);
  pid_t child = fork();
  if (child == 0) {
    alarm(PATIENCE);
    try_everything(&all);
    destroy(&all);
    _exit(0);
  }
  pthread_mutex_unlock(&all.runtime->mutex);
  expect_child(child);
  /* the parent goes on */
  expect_ok(iobind_binding_run(all.binding, NULL, &fault));
  destroy(&all);
}

/* The same with a batch, whose mutex another thread of the parent holds. */
static void child_with_a_batch(void **state) {
  (void)state;
  static const int32_t axis = 0;
  iobind_batch_options options = IOBIND_BATCH_OPTIONS_INIT;
  iobind_batch_info info = IOBIND_BATCH_INFO_INIT;
  iobind_batch *batch;
  uint64_t slot;
  objects all;
  make(&all);
  options.most_rows = 1;
  options.input_axes = options.output_axes = &axis;
  options.input_axis_count = options.output_axis_count = 1;
  expect_ok(iobind_batch_create(all.session, &options, &batch, &fault));
  expect_ok(iobind_batch_join(batch, NULL, &slot, &fault));
  pthread_mutex_lock(&batch->mutex);
  pid_t child = fork();
  if (child == 0) {
    iobind_tensor *tensor = NULL;
    iobind_state *saved = NULL;
    alarm(PATIENCE);
    IS_REFUSED(iobind_batch_get_info(batch, &info, &fault));
    IS_REFUSED(iobind_batch_join(batch, NULL, &slot, &fault));
    IS_REFUSED(iobind_batch_set_input(batch, slot, 0, all.x, &fault));
    IS_REFUSED(iobind_batch_run(batch, &slot, 1, NULL, &fault));
    IS_REFUSED(iobind_batch_take_output(batch, slot, 0, &tensor, &fault));
    IS_REFUSED(iobind_batch_save_state(batch, slot, &saved, &fault));
    IS_REFUSED(iobind_batch_submit(batch, slot, &fault));
    IS_REFUSED(iobind_batch_step(batch, NULL, NULL, 0, NULL, &fault));
    IS_REFUSED(iobind_batch_await(batch, slot, 0, &fault));
    IS_REFUSED(iobind_batch_leave(batch, slot, NULL, &fault));
    iobind_batch_stop(batch);
    iobind_batch_destroy(batch);
    _exit(0);
  }
  pthread_mutex_unlock(&batch->mutex);
  expect_child(child);
  expect_ok(iobind_batch_get_info(batch, &info, &fault));
  assert_int_equal(info.row_count, 1);
  iobind_batch_destroy(batch);
  destroy(&all);
}

/* A child of a process that has no runtime has nothing to lose. */
static void child_before_the_first_runtime(void **state) {
  (void)state;
  pid_t child = fork();
  if (child == 0) {
    alarm(PATIENCE);
    objects all;
    make(&all);
    destroy(&all);
    _exit(0);
  }
  expect_child(child);
}

/* ---- dlclose ---- */

static size_t lines;

static void count_line(void *context, int32_t level, const char *message) {
  (void)context, (void)level, (void)message;
  lines++;
}

typedef iobind_status (*create_function)(const iobind_runtime_options *options, iobind_runtime **runtime, iobind_error *error);
typedef void (*destroy_function)(iobind_runtime *runtime);
typedef iobind_status (*info_function)(const iobind_runtime *runtime, iobind_runtime_info *info, iobind_error *error);

static void *symbol(void *library, const char *name) {
  void *address = dlsym(library, name);
  assert_non_null(address);
  return address;
}

/* A host program shares ORT's environment, and so the logger that iobind gave it: that must not go with the library. */
static void unloaded(void **state) {
  (void)state;
  const char *path = fixture_path("lib/libiobind.so");
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  assert_non_null(library);
  create_function create;
  destroy_function destroy_runtime;
  void *address = symbol(library, "iobind_runtime_create");
  memcpy(&create, &address, sizeof create);
  address = symbol(library, "iobind_runtime_destroy");
  memcpy(&destroy_runtime, &address, sizeof destroy_runtime);
  iobind_runtime_options options = IOBIND_RUNTIME_OPTIONS_INIT;
  options.flags = IOBIND_RUNTIME_NO_EP_SEARCH;
  options.log = count_line;
  options.log_level = IOBIND_LOG_VERBOSE;
  iobind_runtime *runtime = NULL;
  expect_ok(create(&options, &runtime, &fault));
  info_function get_info;
  address = symbol(library, "iobind_runtime_get_info");
  memcpy(&get_info, &address, sizeof get_info);
  iobind_runtime_info info = IOBIND_RUNTIME_INFO_INIT;
  expect_ok(get_info(runtime, &info, &fault));

  void *ort = dlopen(info.ort_library, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  assert_non_null(ort);
  OrtGetApiBaseFunction get_base;
  address = symbol(ort, "OrtGetApiBase");
  memcpy(&get_base, &address, sizeof get_base);
  const OrtApi *api = get_base()->GetApi(24);
  OrtEnv *env = NULL;
  assert_null(api->CreateEnv(ORT_LOGGING_LEVEL_VERBOSE, "host", &env)); /* the one that is there */
  destroy_runtime(runtime);
  dlclose(library);

  void *model = NULL;
  size_t size = 0;
  assert_true(test_model_create("scale", &model, &size, NULL));
  OrtSessionOptions *session_options = NULL;
  OrtSession *session = NULL;
  size_t before = lines;
  assert_null(api->CreateSessionOptions(&session_options));
  assert_null(api->CreateSessionFromArray(env, model, size, session_options, &session)); /* logs a lot */
  assert_int_equal(lines, before);                                                       /* the log is closed */
  api->ReleaseSession(session);
  api->ReleaseSessionOptions(session_options);
  api->ReleaseEnv(env);
  free(model);
  assert_non_null(dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD));
}

/* ---- setuid ---- */

/* The program as it is run by the test below: says where ORT was found, or what the virtual accelerator says when it is registered. */
static int say_where(const char *ort, const char *vdev) {
  if (getauxval(AT_SECURE) == 0) {
    puts("plain");
  }
  iobind_runtime *runtime = NULL;
  iobind_runtime_info info = IOBIND_RUNTIME_INFO_INIT;
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_runtime_options options = IOBIND_RUNTIME_OPTIONS_INIT;
  options.ort_library = ort;
  options.ep_libraries = &vdev;
  options.ep_library_count = vdev != NULL;
  iobind_status status = iobind_runtime_create(&options, &runtime, &error);
  if (status == IOBIND_OK) {
    status = iobind_runtime_get_info(runtime, &info, &error);
  }
  puts(status == IOBIND_OK ? info.found_by : error.message);
  fflush(stdout);
  _exit(0);
}

static void run_copy(const char *path, const char *ort, const char *vdev, char *said, size_t size) {
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    close(ends[0]);
    close(ends[1]);
    execl(path, path, "--say-where", ort, vdev, (char *)NULL);
    _exit(1);
  }
  close(ends[1]);
  FILE *from = fdopen(ends[0], "r");
  assert_non_null(from);
  said[fread(said, 1, size - 1, from)] = '\0';
  (void)fclose(from);
  expect_child(child);
}

/* A program with another user's rights neither loads nor writes what its caller's environment names. */
static void setuid_program(void **state) {
  (void)state;
  enum { NOBODY = 65534 };
  char folder[] = "/tmp/iobind-setuid-XXXXXX";
  char path[64];
  char said[2048];
  char settings[2048];
  const char *ort = fixture_path("lib/iobind/onnxruntime/libonnxruntime.so");
  const char *vdev = fixture_path("lib/libiobind_vdev.so");
  assert_non_null(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/program", folder);
  FILE *from = fopen("/proc/self/exe", "rb");
  FILE *to = fopen(path, "wb");
  assert_true(from != NULL && to != NULL);
  static char piece[1 << 16];
  for (size_t got; (got = fread(piece, 1, sizeof piece, from)) > 0;) {
    assert_int_equal(fwrite(piece, 1, got, to), got);
  }
  fclose(from);
  assert_int_equal(fclose(to), 0);
  assert_int_equal(chmod(folder, 0755), 0);
  assert_int_equal(chmod(path, 0755), 0);
  setenv("ORT_NATIVE_LIB_PATH", "/no/such/folder", 1);
  setenv("VDEV_TRACE_FILE", "/no/such/folder/trace", 1);
  run_copy(path, NULL, NULL, said, sizeof said);
  assert_non_null(strstr(said, "ORT_NATIVE_LIB_PATH"));
  run_copy(path, ort, vdev, settings, sizeof settings);
  assert_non_null(strstr(settings, "VDEV_TRACE_FILE"));
  bool owned = chown(path, NOBODY, NOBODY) == 0 && chmod(path, 04755) == 0;
  if (owned) {
    run_copy(path, NULL, NULL, said, sizeof said);
    run_copy(path, ort, vdev, settings, sizeof settings);
  }
  unsetenv("VDEV_TRACE_FILE");
  unlink(path);
  rmdir(folder);
  if (!owned || strncmp(said, "plain", 5) == 0) {
    print_message("this user or this file system has no setuid programs\n");
    skip();
  }
  assert_null(strstr(said, "ORT_NATIVE_LIB_PATH"));
  assert_null(strstr(settings, "VDEV_TRACE_FILE"));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(child_of_fork), cmocka_unit_test(child_with_a_batch), cmocka_unit_test(child_before_the_first_runtime),
    cmocka_unit_test(unloaded),      cmocka_unit_test(setuid_program),
};

int main(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "--say-where") == 0) {
    return say_where(argc > 2 ? argv[2] : NULL, argc > 3 ? argv[3] : NULL);
  }
  if (argc > 1) {
    cmocka_set_test_filter(argv[1]);
  }
  return cmocka_run_group_tests(tests, NULL, NULL);
}
