/* graphs MODEL [DEVICE]: runs that are replays of captured graphs: two shapes alternately, inputs that are written in place, and a state
 * that stays on the device. The model is tests/models' "add": z = x + y, of any length. */
#include <iobind/iobind.h>
#include <stdio.h>

#define TRY(call) \
  if ((call) != IOBIND_OK) return fprintf(stderr, "%s\n", error.message), 1

enum { SHORT = 16, LONG = 48, TURNS = 10, STEPS = 10 };

static iobind_error error = IOBIND_ERROR_INIT; /* details of the last failure */

static int make(iobind_device *device, int64_t length, iobind_tensor **tensor) {
  TRY(iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, &length, 1, tensor, &error));
  return 0;
}

static void fill(float *values, int count, int value) {
  for (int i = 0; i < count; i++) values[i] = (float)value;
}

/* Is each element of the output this? */
static int expect(iobind_binding *binding, int count, int value) {
  float values[LONG];
  iobind_tensor *z;
  TRY(iobind_binding_get_output(binding, 0, NULL, &z, &error));
  TRY(iobind_tensor_read(z, 0, values, (size_t)count * sizeof *values, NULL, &error));
  for (int i = 0; i < count; i++)
    if (values[i] != (float)value) return fprintf(stderr, "expected %d, got %g\n", value, values[i]), 1;
  return 0;
}

/* Each length has tensors of its own, and so a graph. Bound again, they are replayed: nothing is captured a second time. */
static int two_shapes(iobind_session *session, iobind_device *device) {
  static const int lengths[2] = {SHORT, LONG};
  iobind_tensor *xs[2], *ys[2];
  iobind_binding *binding;
  float values[LONG];
  TRY(iobind_binding_create(session, &binding, &error));
  for (int i = 0; i < 2; i++)
    if (make(device, lengths[i], &xs[i]) != 0 || make(device, lengths[i], &ys[i]) != 0) return 1;
  for (int turn = 0; turn < TURNS; turn++) {
    int count = lengths[turn % 2];
    fill(values, count, turn);
    TRY(iobind_tensor_write(xs[turn % 2], 0, values, (size_t)count * sizeof *values, NULL, &error)); /* in place */
    TRY(iobind_tensor_write(ys[turn % 2], 0, values, (size_t)count * sizeof *values, NULL, &error));
    TRY(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, xs[turn % 2], NULL, &error));
    TRY(iobind_binding_set_input(binding, 1, IOBIND_INPUT_RESIDENT, ys[turn % 2], NULL, &error));
    TRY(iobind_binding_run(binding, NULL, &error));
    if (expect(binding, count, 2 * turn) != 0) return 1;
  }
  printf("%d runs of two shapes, right\n", TURNS);
  for (int i = 0; i < 2; i++) {
    iobind_tensor_release(xs[i]);
    iobind_tensor_release(ys[i]);
  }
  iobind_binding_destroy(binding);
  return 0;
}

/* z becomes the next x, from one buffer to the other and back: two graphs. y is new in each step. */
static int a_state(iobind_session *session, iobind_device *device) {
  iobind_tensor *x, *y;
  iobind_binding *binding;
  float values[LONG] = {0};
  int sum = 0;
  if (make(device, LONG, &x) != 0 || make(device, LONG, &y) != 0) return 1;
  TRY(iobind_tensor_write(x, 0, values, sizeof values, NULL, &error));
  TRY(iobind_binding_create(session, &binding, &error));
  TRY(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, x, NULL, &error));
  TRY(iobind_binding_set_input(binding, 1, IOBIND_INPUT_RESIDENT, y, NULL, &error));
  TRY(iobind_binding_carry(binding, 0, 0, IOBIND_CARRY_SWAP, &error));
  for (int step = 1; step <= STEPS; step++) {
    fill(values, LONG, step);
    TRY(iobind_binding_write_input(binding, 1, values, sizeof values, NULL, &error));
    TRY(iobind_binding_run(binding, NULL, &error)); /* also the first one happens once */
    sum += step;
    if (expect(binding, LONG, sum) != 0) return 1;
  }
  printf("%d steps of a state, right\n", STEPS);
  iobind_binding_destroy(binding);
  iobind_tensor_release(x);
  iobind_tensor_release(y);
  return 0;
}

int main(int argc, char **argv) {
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  iobind_runtime *runtime;
  iobind_device *device;
  iobind_session *session;
  if (argc < 2) return fprintf(stderr, "usage: graphs MODEL [DEVICE]\n"), 2;
  TRY(iobind_runtime_create(NULL, &runtime, &error));
  TRY(iobind_runtime_find_device(runtime, argc > 2 ? argv[2] : "gpu", &device, NULL, &error));
  options.devices = &device;
  options.device_count = 1;
  options.graph_limit = 2; /* of each binding: two shapes, or the two buffers of a state */
  TRY(iobind_session_create(runtime, argv[1], &options, &session, &error));
  if (two_shapes(session, device) != 0 || a_state(session, device) != 0) return 1;
  iobind_session_destroy(session);
  iobind_runtime_destroy(runtime);
  return 0;
}
