/* Each call of Direct3D and of ORT's interface for DirectML fails once: the error is returned, the next try works, and nothing leaks. */
#include <stdio.h>
#include <string.h>

#include "model.h"
#include "native.h"
#include "stand_in.h"
#include "../rig/calls.h"

static iobind_error error = IOBIND_ERROR_INIT;
static iobind_runtime *runtime;
static iobind_device *device;
static const int64_t square[2] = {4, 4};
enum { BYTES = 16 * sizeof(float) };

static iobind_status tensor(iobind_memory memory, iobind_tensor **made) {
  return iobind_tensor_create(device, memory, IOBIND_DTYPE_FLOAT32, square, 2, made, &error);
}

static iobind_status wrap(d3d12_resource *resource, iobind_tensor **made) {
  return call_tensor_wrap(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, square, 2, resource, BYTES, NULL, NULL, made,
                          &error);
}

static int survived; /* tries that succeeded nevertheless */

/* The objects of one try; what a failure leaves out stays NULL. */
typedef struct world {
  iobind_session *session;
  iobind_binding *binding;
  iobind_stream *stream;
  iobind_event *event;
  iobind_tensor *x, *weights, *pinned, *wrapped;
  d3d12_resource *resource;
  float down[16];
} world;

static iobind_status open_session(world *all) {
  char text[TEST_MODEL_TEXT];
  size_t bytes;
  const void *model = test_model("matmul m=4 k=4 n=4", &bytes, text);
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  options.devices = &device;
  options.device_count = 1;
  options.intra_op_threads = 1;
  return iobind_session_create_from_memory(runtime, model, bytes, &options, &all->session, &error);
}

#define TRY(call)                         \
  do {                                    \
    iobind_status status_of_try = (call); \
    if (status_of_try != IOBIND_OK) {     \
      return status_of_try;               \
    }                                     \
  } while (0)

static iobind_status use(world *all) {
  static const float values[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
  static const float twice[16] = {2, 0, 0, 0, 0, 2, 0, 0, 0, 0, 2, 0, 0, 0, 0, 2};
  iobind_tensor *z;
  iobind_native told = IOBIND_NATIVE_INIT;
  TRY(open_session(all));
  TRY(tensor(IOBIND_MEMORY_DEFAULT, &all->weights));
  TRY(iobind_tensor_write(all->weights, 0, twice, BYTES, NULL, &error));
  TRY(tensor(IOBIND_MEMORY_HOST_ACCESSIBLE, &all->pinned));
  TRY(wrap(all->resource, &all->wrapped));
  TRY(iobind_stream_create(device, NULL, &all->stream, &error));
  TRY(iobind_event_create(device, &all->event, &error));
  TRY(iobind_binding_create(all->session, &all->binding, &error));
  TRY(iobind_binding_set_input(all->binding, 0, IOBIND_INPUT_RESIDENT, all->wrapped, NULL, &error));
  TRY(iobind_binding_set_input(all->binding, 1, IOBIND_INPUT_SNAPSHOT, all->weights, NULL, &error));
  TRY(iobind_tensor_write(all->wrapped, 0, values, BYTES, all->stream, &error));
  TRY(call_binding_run(all->binding, all->stream, all->event, &error));
  TRY(iobind_event_wait(all->event, IOBIND_NO_TIMEOUT, &error));
  TRY(iobind_binding_get_output(all->binding, 0, NULL, &z, &error));
  TRY(iobind_tensor_get_native(z, &told, &error));
  native_release(told.handle);
  TRY(iobind_tensor_read(z, 0, all->down, BYTES, all->stream, &error));
  TRY(iobind_stream_synchronize(all->stream, &error));
  TRY(iobind_binding_run(all->binding, NULL, &error));
  return all->down[0] == 2 && all->down[15] == 32 ? IOBIND_OK : IOBIND_ERROR_INTERNAL;
}

static void clear(world *all) {
  iobind_binding_destroy(all->binding);
  iobind_event_destroy(all->event);
  iobind_stream_destroy(all->stream);
  iobind_tensor_release(all->x);
  iobind_tensor_release(all->weights);
  iobind_tensor_release(all->pinned);
  iobind_tensor_release(all->wrapped);
  iobind_session_destroy(all->session);
}

/* One try with the n-th call failing. Returns whether it failed at all; *wrong counts what is not as it should be. Without memory for a
 * copy that does not wait there is one that does: such a try succeeds, and its results are right. What the device keeps for later copies
 * is two objects for each of those that were in flight at the same time. */
static bool try_one(d3d12_resource *resource, size_t nth, int *wrong) {
  enum { KEPT = 2 };
  world all = {.resource = resource};
  stand_in_record before = stand_in_read();
  error = (iobind_error)IOBIND_ERROR_INIT;
  stand_in_fail(nth);
  iobind_status status = use(&all);
  size_t calls = stand_in_read().calls - before.calls;
  bool failed = nth > 0 && calls >= nth;
  stand_in_fail(0);
  clear(&all);
  stand_in_record after = stand_in_read();
  bool right = status == IOBIND_OK || (failed && strlen(error.message) > 10);
  survived += failed && status == IOBIND_OK;
  if (!right || after.objects > before.objects + KEPT || after.handles != before.handles || after.early_waits > 0) {
    printf("call %zu fails: status %d, objects %+ld, handles %+ld, waits for what nobody signalled %zu; %s\n", nth, (int)status,
           after.objects - before.objects, (long)after.handles - (long)before.handles, after.early_waits, error.message);
    (*wrong)++;
  }
  return failed;
}

static int adopt(void) {
  char why[256];
  d3d12_device *native = native_device(why);
  d3d12_queue *queue = native_queue(native, D3D12_COMPUTE);
  dml_device *dml = native_dml(native);
  iobind_native_device given = {sizeof given, IOBIND_NATIVE_D3D12, native, dml, queue};
  for (size_t nth = 1; nth <= 2; nth++) { /* the queue for copies, and its fence */
    long before = stand_in_read().objects;
    stand_in_fail(nth);
    if (iobind_runtime_adopt_device(runtime, &given, &device, &error) != IOBIND_ERROR_OUT_OF_MEMORY || device != NULL ||
        stand_in_read().objects != before || native_references(queue) != 1) {
      return printf("adopt: call %zu fails: %s\n", nth, error.message), 1;
    }
  }
  stand_in_fail(0);
  if (iobind_runtime_adopt_device(runtime, &given, &device, &error) != IOBIND_OK) {
    return printf("adopt: %s\n", error.message), 1;
  }
  native_release(queue);
  native_release(dml);
  return 0;
}

int main(void) {
  char why[256];
  iobind_runtime_options options = IOBIND_RUNTIME_OPTIONS_INIT;
  options.flags = IOBIND_RUNTIME_NO_EP_SEARCH;
  native_options(&options);
  if (iobind_runtime_create(&options, &runtime, &error) != IOBIND_OK) {
    return printf("%s\n", error.message), 1;
  }
  int wrong = adopt();
  d3d12_resource *resource = native_buffer(native_device(why), D3D12_HEAP_DEFAULT, D3D12_UNORDERED_ACCESS, BYTES);
  size_t nth = 0;
  if (wrong == 0) {
    (void)try_one(resource, 0, &wrong); /* what is made on first use */
    while (try_one(resource, ++nth, &wrong)) {
    }
    (void)try_one(resource, 0, &wrong);
  }
  /* what is in flight when the device is removed fails, and says so */
  world all = {.resource = resource};
  if (wrong == 0 && use(&all) == IOBIND_OK) {
    stand_in_remove();
    float back;
    iobind_status status = iobind_tensor_read(all.wrapped, 0, &back, sizeof back, NULL, &error);
    if (status != IOBIND_ERROR_WRONG_DEVICE || strstr(error.message, "removed") == NULL) {
      printf("a device that was removed: status %d: %s\n", (int)status, error.message);
      wrong++;
    }
  }
  clear(&all);
  native_release(resource);
  iobind_runtime_destroy(runtime);
  enum { DEVICES = 2, MOST_SURVIVED = 4 };
  stand_in_record left = stand_in_read();
  printf("%zu calls failed, one in each try: %d wrong, %d succeeded all the same; left over: %ld objects, %zu handles\n",
         nth - 1, wrong, survived, left.objects - DEVICES, left.handles);
  return wrong != 0 || nth < 20 || survived > MOST_SURVIVED || left.objects != DEVICES || left.handles != 0;
}
