/* callers MODEL [DEVICE]: a server's loop. 256 callers, each in a thread of its own, send windows; one thread makes steps of those that are there.
 * What a caller has said so far is a state, which stays on the device. The model is tests/models' "voices", which follows the loudest numbers of
 * each caller: b = max(b, x), z = b + gain. */
#include <iobind/iobind.h>
#include <pthread.h>
#include <stdio.h>

/* Errors belong to one thread. */
#define TRY(call) \
  if ((call) != IOBIND_OK) return fprintf(stderr, "%s\n", error.message), 1

enum { CALLERS = 256, WINDOWS = 10, NUMBERS = 4, X = 0, GAIN = 1, Z = 1 };

static iobind_device *host;
static iobind_batch *batch;

typedef struct caller {
  pthread_t thread;
  int number;
  int failed;
} caller;

/* A window, and what the model makes of it. */
static int speak(uint64_t me, iobind_tensor *window, float loudness, float expected) {
  iobind_error error = IOBIND_ERROR_INIT;
  const float numbers[NUMBERS] = {loudness, loudness, loudness, loudness};
  float heard[NUMBERS];
  iobind_tensor *output;
  TRY(iobind_tensor_write(window, 0, numbers, sizeof numbers, NULL, &error));
  TRY(iobind_batch_set_input(batch, me, X, window, &error)); /* copied */
  TRY(iobind_batch_submit(batch, me, &error));
  TRY(iobind_batch_await(batch, me, IOBIND_NO_TIMEOUT, &error));
  TRY(iobind_batch_take_output(batch, me, Z, &output, &error));
  TRY(iobind_tensor_read(output, 0, heard, sizeof heard, NULL, &error));
  iobind_tensor_release(output);
  if (heard[0] != expected) return fprintf(stderr, "expected %g, heard %g\n", expected, heard[0]), 1;
  return 0;
}

static int talk(int number) {
  static const int64_t dims[] = {1, NUMBERS};
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_tensor *window;
  uint64_t me;
  float loudest = 0;
  TRY(iobind_tensor_create(host, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 2, &window, &error));
  TRY(iobind_batch_join(batch, NULL, &me, &error));
  for (int i = 0; i < WINDOWS; i++) {
    const float loudness = (float)((number * 7 + i * 5) % 32);
    loudest = loudness > loudest ? loudness : loudest;
    if (speak(me, window, loudness, loudest + 1) != 0) return 1;
  }
  iobind_tensor_release(window);
  TRY(iobind_batch_leave(batch, me, NULL, &error));
  return 0;
}

static void *call(void *self) {
  ((caller *)self)->failed = talk(((caller *)self)->number);
  return NULL;
}

/* Until the batch is stopped. A step that fails is each of its callers' failure. */
static void *serve(void *none) {
  iobind_batch_wait wait = IOBIND_BATCH_WAIT_INIT;
  wait.rows = 64;            /* as soon as so many are there */
  wait.longest_ns = 2000000; /* or one has waited 2 ms */
  while (iobind_batch_step(batch, &wait, NULL, 0, NULL, NULL) != IOBIND_ERROR_CANCELLED) {
  }
  return none;
}

static int open_batch(iobind_session *session) {
  static const iobind_batch_pair states[] = {{2, 2}, {3, 3}, {4, 4}};
  static const float one = 1;
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_batch_options options = IOBIND_BATCH_OPTIONS_INIT;
  iobind_tensor *gain;
  options.most_rows = CALLERS;
  options.pairs = states;
  options.pair_count = 3;
  TRY(iobind_batch_create(session, &options, &batch, &error));
  TRY(iobind_tensor_create(host, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, NULL, 0, &gain, &error));
  TRY(iobind_tensor_write(gain, 0, &one, sizeof one, NULL, &error));
  TRY(iobind_batch_set_input(batch, IOBIND_BATCH_ALL, GAIN, gain, &error)); /* all callers share it */
  iobind_tensor_release(gain);
  return 0;
}

int main(int argc, char **argv) {
  static caller callers[CALLERS];
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  iobind_batch_info info = IOBIND_BATCH_INFO_INIT;
  iobind_runtime *runtime;
  iobind_device *device;
  iobind_session *session;
  pthread_t server;
  int failed = 0;
  if (argc < 2) return fprintf(stderr, "usage: callers MODEL [DEVICE]\n"), 2;
  TRY(iobind_runtime_create(NULL, &runtime, &error));
  TRY(iobind_runtime_find_device(runtime, argc > 2 ? argv[2] : "gpu,cpu", &device, NULL, &error));
  host = iobind_runtime_get_device(runtime, 0);
  options.devices = &device;
  options.device_count = 1;
  TRY(iobind_session_create(runtime, argv[1], &options, &session, &error));
  if (open_batch(session) != 0) return 1;

  if (pthread_create(&server, NULL, serve, NULL) != 0) return 1;
  for (int i = 0; i < CALLERS; i++) {
    callers[i].number = i;
    if (pthread_create(&callers[i].thread, NULL, call, &callers[i]) != 0) return 1;
  }
  for (int i = 0; i < CALLERS; i++) {
    if (pthread_join(callers[i].thread, NULL) != 0) return 1;
    failed += callers[i].failed;
  }
  iobind_batch_stop(batch); /* the server's step returns */
  if (pthread_join(server, NULL) != 0) return 1;

  TRY(iobind_batch_get_info(batch, &info, &error));
  printf("%d callers, %d windows each, in %llu steps: %s\n", CALLERS, WINDOWS, (unsigned long long)info.steps,
         failed == 0 ? "right" : "wrong");
  iobind_batch_destroy(batch);
  iobind_session_destroy(session);
  iobind_runtime_destroy(runtime);
  return failed != 0;
}
