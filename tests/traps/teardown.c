/* Objects released in every order: each order in a process of its own, because a wrong one ends it.
 *
 * usage: traps_teardown [STEP [ORDER...]]
 *   STEP   of the orders, by the alphabet, every STEP-th; 1: all 5040
 *   ORDER  these numbers alone
 *
 * Before each release the remaining objects are used, so that they are known to work. If there are a stream and a
 * binding, objects are released while one of their runs is in flight. */
#define _POSIX_C_SOURCE 200809L /* fork, setenv */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "iobind/iobind.h"
#include "models.h"
#include "runtime/runtime.h"
#include "vdev.h"
#include "../rig/calls.h"

enum part { RUNTIME, SESSION, BINDING, INPUT, OUTPUT, STREAM, EVENT, PARTS };
static const char *const part_names[PARTS] = {"runtime", "session", "binding", "input", "output", "stream", "event"};
enum { ORDERS = 5040, COUNT = 3 };
static const int64_t dims[1] = {COUNT};
static const float values[COUNT] = {1, 2, 3};
static const float doubled[COUNT] = {2, 4, 6};

static iobind_runtime *runtime;
static iobind_session *session;
static iobind_binding *binding;
static iobind_tensor *input;
static iobind_tensor *output;
static iobind_stream *stream;
static iobind_event *event;

/* ORT's table with two slots that count. */
static const OrtApi *real;
static OrtApi table;
static int unregistered;
static int released;
static int64_t left_behind;

static OrtStatus *ORT_CALL unregister_library(OrtEnv *env, const char *name) {
  unregistered++;
  left_behind = vdev_get(0, "live_blocks");
  return real->UnregisterExecutionProviderLibrary(env, name);
}

static void ORT_CALL release_env(OrtEnv *env) {
  released++;
  real->ReleaseEnv(env);
}

/* ---- in the child: everything by statuses, for the test library's jumps belong to the parent ---- */

static char problem[600];
static iobind_error error;

#define TRY(call)                                                        \
  do {                                                                   \
    error = (iobind_error)IOBIND_ERROR_INIT;                             \
    if ((call) != IOBIND_OK) {                                           \
      snprintf(problem, sizeof problem, "%s: %s", #call, error.message); \
      return false;                                                      \
    }                                                                    \
  } while (0)
#define CHECK(condition)                                           \
  do {                                                             \
    if (!(condition)) {                                            \
      snprintf(problem, sizeof problem, "not so: %s", #condition); \
      return false;                                                \
    }                                                              \
  } while (0)

static bool holds(const iobind_tensor *tensor, const float *expected) {
  float got[COUNT] = {0};
  TRY(iobind_tensor_read(tensor, 0, got, sizeof got, NULL, &error));
  for (int i = 0; i < COUNT; i++) {
    CHECK(got[i] == expected[i]);
  }
  return true;
}

static bool open_session(iobind_device *device) {
  void *model = NULL;
  size_t size = 0;
  CHECK(test_model_create("scale", &model, &size, problem));
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  options.devices = &device;
  options.device_count = 1;
  options.intra_op_threads = 1;
  iobind_status status = iobind_session_create_from_memory(runtime, model, size, &options, &session, &error);
  free(model);
  TRY(status);
  return true;
}

static bool make_parts(void) {
  iobind_runtime_options options = IOBIND_RUNTIME_OPTIONS_INIT;
  options.flags = IOBIND_RUNTIME_NO_EP_SEARCH;
  iobind_device *device = NULL;
  TRY(iobind_runtime_create(&options, &runtime, &error));
  TRY(iobind_runtime_find_device(runtime, "vdev", &device, NULL, &error));
  real = runtime->ort.api;
  table = *real;
  table.UnregisterExecutionProviderLibrary = unregister_library;
  table.ReleaseEnv = release_env;
  runtime->ort.api = &table;
  CHECK(vdev_set(0, "compute_us", "300") == 0);
  if (!open_session(device)) {
    return false;
  }
  TRY(iobind_stream_create(device, NULL, &stream, &error));
  TRY(iobind_event_create(device, &event, &error));
  TRY(iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 1, &input, &error));
  TRY(iobind_tensor_write(input, 0, values, sizeof values, stream, &error));
  TRY(iobind_binding_create(session, &binding, &error));
  TRY(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, input, NULL, &error));
  TRY(call_binding_run(binding, stream, event, &error));
  TRY(iobind_binding_take_output(binding, 0, &output, &error));
  return true;
}

/* Everything that is left does its work, and a run is in flight when this returns. */
static bool use_parts(void) {
  iobind_runtime_info runtime_info = IOBIND_RUNTIME_INFO_INIT;
  iobind_value_info value_info = IOBIND_VALUE_INFO_INIT;
  if (runtime != NULL) {
    TRY(iobind_runtime_get_info(runtime, &runtime_info, &error));
  }
  if (session != NULL) {
    iobind_binding *another = NULL;
    TRY(iobind_session_get_input(session, 0, &value_info, &error));
    TRY(iobind_binding_create(session, &another, &error));
    iobind_binding_destroy(another);
  }
  if (stream != NULL) {
    TRY(iobind_stream_synchronize(stream, &error));
  }
  if (binding != NULL) {
    iobind_tensor *result = NULL;
    TRY(iobind_binding_run(binding, NULL, &error));
    TRY(iobind_binding_get_output(binding, 0, NULL, &result, &error));
    if (!holds(result, doubled)) {
      return false;
    }
  }
  if (event != NULL) {
    TRY(iobind_event_wait(event, IOBIND_NO_TIMEOUT, &error));
  }
  if ((input != NULL && !holds(input, values)) || (output != NULL && !holds(output, doubled))) {
    return false;
  }
  if (stream != NULL && input != NULL) {
    TRY(iobind_tensor_write(input, 0, values, sizeof values, stream, &error));
  }
  if (stream != NULL && binding != NULL) {
    TRY(call_binding_run(binding, stream, event, &error));
  } else if (stream != NULL && event != NULL) {
    TRY(iobind_event_record(event, stream, &error));
  }
  return true;
}

static void give_up(enum part part) {
  switch (part) {
    case RUNTIME: iobind_runtime_destroy(runtime), runtime = NULL; break;
    case SESSION: iobind_session_destroy(session), session = NULL; break;
    case BINDING: iobind_binding_destroy(binding), binding = NULL; break;
    case INPUT: iobind_tensor_release(input), input = NULL; break;
    case OUTPUT: iobind_tensor_release(output), output = NULL; break;
    case STREAM: iobind_stream_destroy(stream), stream = NULL; break;
    default: iobind_event_destroy(event), event = NULL; break;
  }
}

static bool tear_down(const enum part *order) {
  if (!make_parts()) {
    return false;
  }
  for (int i = 0; i < PARTS; i++) {
    if (!use_parts()) {
      return false;
    }
    CHECK(unregistered == 0 && released == 0);
    give_up(order[i]);
  }
  CHECK(unregistered == 1 && released == 1);
  CHECK(left_behind == 0);
  return true;
}

/* ---- the parent ---- */

/* The order of a number: by the alphabet of the parts. */
static void order_of(int number, enum part *order) {
  enum part left[PARTS];
  int weight = ORDERS;
  for (int i = 0; i < PARTS; i++) {
    left[i] = (enum part)i;
  }
  for (int i = 0; i < PARTS; i++) {
    weight /= PARTS - i;
    int chosen = number / weight;
    number %= weight;
    order[i] = left[chosen];
    memmove(left + chosen, left + chosen + 1, (size_t)(PARTS - i - chosen - 1) * sizeof left[0]);
  }
}

static bool try_order(int number) {
  enum part order[PARTS];
  order_of(number, order);
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    bool good = tear_down(order);
    if (!good) {
      fprintf(stderr, "%s\n", problem);
    }
    exit(good ? 0 : 1);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) {
    perror("traps_teardown");
    return false;
  }
  if (status != 0) {
    fprintf(stderr, "order %d:", number);
    for (int i = 0; i < PARTS; i++) {
      fprintf(stderr, " %s", part_names[order[i]]);
    }
    fprintf(stderr, WIFSIGNALED(status) ? ": ended by signal %d\n" : ": ended with %d\n",
            WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
  }
  return status == 0;
}

int main(int argc, char **argv) {
  int tried = 0;
  int failed = 0;
  int step = argc > 1 ? atoi(argv[1]) : 1;
  setenv("VDEV_RACE", "fail", 1);
  if (argc > 2) {
    for (int i = 2; i < argc; i++, tried++) {
      failed += !try_order(atoi(argv[i]));
    }
  } else {
    for (int number = 0; step > 0 && number < ORDERS; number += step, tried++) {
      failed += !try_order(number);
    }
  }
  printf("%d orders, %d failed\n", tried, failed);
  return tried > 0 && failed == 0 ? 0 : 1;
}
