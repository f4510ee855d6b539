/* DirectML's devices, by the public interface: memory, runs, streams, resources and fences of the program's own. The same program runs over
 * Windows' Direct3D, and over mocks. Models have no binary elementwise operators, whose shaders Wine's Direct3D cannot run.
 * usage: dml [PART...]   names of parts; none: all */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"
#include "native.h"
#include "../rig/calls.h"

static iobind_error error = IOBIND_ERROR_INIT;
static int failures;

#define EXPECT(condition)                                                                                  \
  do {                                                                                                     \
    if (!(condition)) {                                                                                    \
      printf("%s:%d: expected %s; the last message: %s\n", __func__, __LINE__, #condition, error.message); \
      fflush(stdout);                                                                                      \
      failures++;                                                                                          \
      return;                                                                                              \
    }                                                                                                      \
  } while (0)
#define OK(call) EXPECT((call) == IOBIND_OK)
#define REFUSED(status, words, call) EXPECT((call) == (status) && strstr(error.message, words) != NULL)

enum { N = 4, BYTES = 64 };
static const int64_t square[2] = {N, N};

static iobind_runtime *runtime;
static iobind_device *device;
static d3d12_device *native;
static d3d12_queue *queue;

/* z = x y, and y doubles: each run's result is twice its input. */
static float twice[N * N];
static iobind_tensor *weights;

static iobind_status make(iobind_memory memory, iobind_tensor **tensor) {
  return iobind_tensor_create(device, memory, IOBIND_DTYPE_FLOAT32, square, 2, tensor, &error);
}

static void fill(float *values, float first) {
  for (int i = 0; i < N * N; i++) {
    values[i] = first + (float)i;
  }
}

static bool holds(const iobind_tensor *tensor, float first, float factor) {
  float values[N * N] = {0};
  if (iobind_tensor_read(tensor, 0, values, BYTES, NULL, &error) != IOBIND_OK) {
    return false;
  }
  for (int i = 0; i < N * N; i++) {
    if (values[i] != (first + (float)i) * factor) {
      snprintf(error.message, sizeof error.message, "element %d is %g, not %g", i, (double)values[i],
               (double)((first + (float)i) * factor));
      return false;
    }
  }
  return true;
}

static iobind_status open_session(uint32_t flags, iobind_session **session) {
  char text[TEST_MODEL_TEXT];
  size_t bytes;
  const void *model = test_model("matmul m=4 k=4 n=4", &bytes, text);
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  options.devices = &device;
  options.device_count = 1;
  options.flags = flags;
  options.intra_op_threads = 1;
  return iobind_session_create_from_memory(runtime, model, bytes, &options, session, &error);
}

/* A binding of x, of the weights and of z as the caller says. */
static iobind_status bind(iobind_session *session, iobind_tensor *x, int mode, iobind_tensor *z, iobind_binding **binding) {
  iobind_status status = iobind_binding_create(session, binding, &error);
  status = status == IOBIND_OK ? iobind_binding_set_input(*binding, 0, IOBIND_INPUT_RESIDENT, x, NULL, &error) : status;
  status = status == IOBIND_OK ? iobind_binding_set_input(*binding, 1, IOBIND_INPUT_RESIDENT, weights, NULL, &error) : status;
  return status == IOBIND_OK
             ? call_binding_set_output(*binding, 0, mode, z != NULL ? NULL : device, IOBIND_MEMORY_DEFAULT, z, &error)
             : status;
}

/* ---- the device ---- */

static void adopt(void) {
  iobind_native_device given = IOBIND_NATIVE_DEVICE_INIT;
  dml_device *dml = native_dml(native);
  REFUSED(IOBIND_ERROR_NOT_SUPPORTED, "native.kind", iobind_runtime_adopt_device(runtime, &given, &device, &error));
  given.kind = IOBIND_NATIVE_D3D12;
  REFUSED(IOBIND_ERROR_INVALID_ARGUMENT, "native.device is NULL",
          iobind_runtime_adopt_device(runtime, &given, &device, &error));
  given.device = native;
  REFUSED(IOBIND_ERROR_INVALID_ARGUMENT, "native.queue is NULL", iobind_runtime_adopt_device(runtime, &given, &device, &error));
  d3d12_queue *copy = native_queue(native, D3D12_COPY);
  given.queue = copy;
  REFUSED(IOBIND_ERROR_INVALID_ARGUMENT, "COPY queue", iobind_runtime_adopt_device(runtime, &given, &device, &error));
  given.queue = queue;
  given.kind = IOBIND_NATIVE_CUDA;
  REFUSED(IOBIND_ERROR_NOT_SUPPORTED, "native.kind", iobind_runtime_adopt_device(runtime, &given, &device, &error));
  given.kind = IOBIND_NATIVE_D3D12;
  given.dml_device = dml;
  if (native_other_device() != NULL) {
    given.dml_device = NULL;
    given.device = native_other_device();
    REFUSED(IOBIND_ERROR_WRONG_DEVICE, "another ID3D12Device", iobind_runtime_adopt_device(runtime, &given, &device, &error));
    d3d12_queue *other = native_queue(native_other_device(), D3D12_DIRECT);
    given.queue = other;
    given.dml_device = dml;
    REFUSED(IOBIND_ERROR_WRONG_DEVICE, "native.dml_device is of another",
            iobind_runtime_adopt_device(runtime, &given, &device, &error));
    dml_device *other_dml = native_dml(native_other_device());
    given.dml_device = other_dml;
    REFUSED(IOBIND_ERROR_NOT_FOUND, "adapter", iobind_runtime_adopt_device(runtime, &given, &device, &error));
    native_release(other_dml);
    native_release(other);
    given.dml_device = dml;
    given.device = native;
    given.queue = queue;
  }
  EXPECT(device == NULL);
  unsigned before = native_references(queue);
  OK(iobind_runtime_adopt_device(runtime, &given, &device, &error));
  EXPECT(device != NULL && native_references(queue) > before);
  iobind_device *again;
  REFUSED(IOBIND_ERROR_INVALID_STATE, "already in use", iobind_runtime_adopt_device(runtime, &given, &again, &error));
  native_release(copy);
  native_release(dml);

  iobind_device_info info = IOBIND_DEVICE_INFO_INIT;
  OK(iobind_device_get_info(device, &info, &error));
  EXPECT(strcmp(info.spec, "dml:0") == 0 && strcmp(info.memory_name, "DML") == 0);
  EXPECT((info.flags & IOBIND_DEVICE_GPU_MEMORY) != 0 && (info.flags & IOBIND_DEVICE_STREAMS) != 0);
  EXPECT((info.flags & IOBIND_DEVICE_HOST_ACCESSIBLE) != 0);
  EXPECT((info.flags & (IOBIND_DEVICE_HOST_MEMORY | IOBIND_DEVICE_ADDRESSABLE)) == 0); /* as 0.1 said */
  iobind_device *found;
  OK(iobind_runtime_find_device(runtime, "dml:0", &found, NULL, &error)); /* tries it: a session runs */
  EXPECT(found == device);
}

static void memory(void) {
  float values[N * N];
  iobind_tensor *tensor;
  iobind_tensor *pinned;
  fill(values, 3);
  OK(make(IOBIND_MEMORY_DEFAULT, &tensor));
  OK(iobind_tensor_write(tensor, 0, values, BYTES, NULL, &error));
  EXPECT(holds(tensor, 3, 1));
  float two[2] = {70, 71}; /* a part, which a handle has no address for */
  OK(iobind_tensor_write(tensor, 8, two, sizeof two, NULL, &error));
  float back[4] = {0};
  OK(iobind_tensor_read(tensor, 4, back, sizeof back, NULL, &error));
  EXPECT(back[0] == 4 && back[1] == 70 && back[2] == 71 && back[3] == 7);
  OK(make(IOBIND_MEMORY_HOST_ACCESSIBLE, &pinned));
  void *data;
  OK(iobind_tensor_map(pinned, IOBIND_DTYPE_FLOAT32, IOBIND_ACCESS_WRITE, &data, &error));
  fill(data, 9);
  const iobind_tensor *source = pinned;
  OK(iobind_tensor_copy(&source, &tensor, 1, NULL, &error));
  EXPECT(holds(tensor, 9, 1));
  memset(data, 0, BYTES);
  source = tensor;
  OK(iobind_tensor_copy(&source, &pinned, 1, NULL, &error));
  EXPECT(holds(pinned, 9, 1));
  iobind_tensor *view;
  REFUSED(IOBIND_ERROR_NOT_SUPPORTED, "no addresses",
          iobind_tensor_view(tensor, 16, IOBIND_DTYPE_FLOAT32, square, 1, &view, &error));
  iobind_device_counters counters = IOBIND_DEVICE_COUNTERS_INIT;
  OK(iobind_device_get_counters(device, &counters, &error));
  EXPECT(counters.upload_bytes >= (size_t)BYTES + BYTES && counters.download_bytes >= BYTES);
  iobind_tensor_release(pinned);
  iobind_tensor_release(tensor);
}

static void runs(void) {
  iobind_session *session;
  iobind_tensor *x;
  iobind_tensor *z;
  iobind_tensor *other;
  iobind_binding *binding;
  iobind_native resource = IOBIND_NATIVE_INIT;
  float values[N * N];
  OK(open_session(IOBIND_SESSION_STRICT, &session));
  OK(make(IOBIND_MEMORY_DEFAULT, &x));
  fill(values, 1);
  OK(iobind_tensor_write(x, 0, values, BYTES, NULL, &error));
  OK(bind(session, x, IOBIND_OUTPUT_FRESH, NULL, &binding));
  OK(iobind_binding_run(binding, NULL, &error));
  OK(iobind_binding_take_output(binding, 0, &z, &error));
  EXPECT(holds(z, 1, 2));
  OK(iobind_tensor_get_native(z, &resource, &error)); /* of memory that ORT has allocated */
  EXPECT(resource.kind == IOBIND_NATIVE_D3D12 && resource.handle != NULL);
  native_release(resource.handle);
  OK(iobind_binding_run(binding, NULL, &error));
  OK(iobind_binding_get_output(binding, 0, NULL, &other, &error));
  EXPECT(holds(z, 1, 2) && holds(other, 1, 2));
  iobind_tensor_release(z);
  iobind_binding_destroy(binding);

  OK(make(IOBIND_MEMORY_DEFAULT, &z));
  OK(bind(session, x, OUTPUT_FIXED, z, &binding));
  OK(iobind_binding_run(binding, NULL, &error));
  EXPECT(holds(z, 1, 2));
  OK(iobind_binding_place_output(binding, 0, IOBIND_OUTPUT_REUSE, device, IOBIND_MEMORY_DEFAULT, &error));
  OK(iobind_binding_run(binding, NULL, &error));
  OK(iobind_binding_run(binding, NULL, &error));
  OK(iobind_binding_get_output(binding, 0, NULL, &other, &error));
  EXPECT(holds(other, 1, 2));
  OK(iobind_binding_carry(binding, 0, 0, IOBIND_CARRY_SWAP, &error)); /* x becomes 2 x in each run */
  for (int i = 0; i < 5; i++) {
    OK(iobind_binding_run(binding, NULL, &error));
  }
  OK(iobind_binding_get_output(binding, 0, NULL, &other, &error));
  EXPECT(holds(other, 1, 32));
  iobind_binding_destroy(binding);
  iobind_tensor_release(z);
  iobind_tensor_release(x);
  iobind_session_destroy(session);

  iobind_tensor *host; /* without a binding, in host memory */
  OK(open_session(0, &session));
  OK(iobind_tensor_create(iobind_runtime_get_device(runtime, 0), IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, square, 2, &host,
                          &error));
  OK(iobind_tensor_write(host, 0, twice, BYTES, NULL, &error));
  iobind_tensor *const inputs[2] = {host, host};
  OK(call_session_run(session, inputs, &z, &error));
  float four[N * N];
  OK(iobind_tensor_read(z, 0, four, BYTES, NULL, &error));
  EXPECT(four[0] == 4 && four[1] == 0);
  iobind_tensor_release(z);
  iobind_tensor_release(host);
  iobind_session_destroy(session);
}

enum { FRAMES = 50, SLOTS = 2 };

/* Each slot has a stream, tensors and a binding: the copies of one run beside the computation of the other. */
static void streams(void) {
  iobind_session *session;
  iobind_stream *stream[SLOTS];
  iobind_event *event[SLOTS];
  iobind_tensor *x[SLOTS];
  iobind_tensor *z[SLOTS];
  iobind_binding *binding[SLOTS];
  float up[SLOTS][N * N];
  float down[SLOTS][N * N];
  OK(open_session(IOBIND_SESSION_STRICT, &session));
  for (int s = 0; s < SLOTS; s++) {
    OK(iobind_stream_create(device, NULL, &stream[s], &error));
    OK(iobind_event_create(device, &event[s], &error));
    OK(make(IOBIND_MEMORY_DEFAULT, &x[s]));
    OK(make(IOBIND_MEMORY_DEFAULT, &z[s]));
    OK(bind(session, x[s], OUTPUT_FIXED, z[s], &binding[s]));
    EXPECT(call_stream_get_native(stream[s]) == queue);
  }
  for (int f = 0; f < FRAMES + SLOTS; f++) {
    int s = f % SLOTS;
    if (f >= SLOTS) {
      OK(iobind_event_wait(event[s], UINT64_C(60000000000), &error));
      for (int i = 0; i < N * N; i++) {
        EXPECT(down[s][i] == 2 * (float)(f - SLOTS + i));
      }
    }
    if (f < FRAMES) {
      fill(up[s], (float)f);
      OK(iobind_tensor_write(x[s], 0, up[s], BYTES, stream[s], &error));
      OK(iobind_binding_run(binding[s], stream[s], &error));
      OK(iobind_tensor_read(z[s], 0, down[s], BYTES, stream[s], &error));
      OK(iobind_event_record(event[s], stream[s], &error));
    }
  }
  iobind_tensor *const pair[1] = {z[1]};
  const iobind_tensor *const first[1] = {x[0]};
  OK(iobind_stream_wait(stream[1], event[0], &error));
  OK(iobind_tensor_copy(first, pair, 1, stream[1], &error));
  OK(iobind_stream_synchronize(stream[1], &error));
  EXPECT(holds(z[1], FRAMES - 2, 1));
  int32_t done = 0;
  OK(iobind_event_query(event[0], &done, &error));
  EXPECT(done == 1);
  for (int s = 0; s < SLOTS; s++) {
    iobind_binding_destroy(binding[s]);
    iobind_tensor_release(x[s]);
    iobind_tensor_release(z[s]);
    iobind_event_destroy(event[s]);
    iobind_stream_destroy(stream[s]);
  }
  iobind_session_destroy(session);
}

static void pipeline(void) {
  iobind_session *session;
  iobind_pipeline *flow;
  iobind_pipeline_options options = IOBIND_PIPELINE_OPTIONS_INIT;
  iobind_tensor *constants[2] = {NULL, weights};
  iobind_tensor *item;
  iobind_tensor *z;
  float values[N * N];
  options.constants = constants;
  OK(open_session(IOBIND_SESSION_STRICT, &session));
  OK(iobind_tensor_create(iobind_runtime_get_device(runtime, 0), IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, square, 2, &item,
                          &error));
  OK(call_pipeline_create(session, &options, &flow, &error));
  for (int i = 0; i < 20 + 3; i++) {
    if (i >= 3) {
      OK(iobind_pipeline_next(flow, IOBIND_NO_TIMEOUT, &z, 1, NULL, &error));
      EXPECT(holds(z, (float)(i - 3), 2)); /* borrowed until the slot is submitted again */
    }
    if (i < 20) {
      iobind_tensor *const inputs[2] = {item, NULL};
      fill(values, (float)i);
      OK(iobind_tensor_write(item, 0, values, BYTES, NULL, &error));
      OK(call_pipeline_submit(flow, inputs, sizeof inputs / sizeof *inputs, &error));
    }
  }
  iobind_pipeline_destroy(flow);
  iobind_tensor_release(item);
  iobind_session_destroy(session);
}

/* Rows with a pitch, which come to the host where a handle has no address for them, behind what is in flight. */
static void rows(void) {
  enum { ROWS = 3, PITCH = 16, ROW = 8 };
  iobind_stream *stream;
  iobind_tensor *frame;
  iobind_tensor *dense;
  float values[N * N];
  float got[N * N] = {0};
  OK(iobind_stream_create(device, NULL, &stream, &error));
  OK(make(IOBIND_MEMORY_DEFAULT, &frame));
  OK(make(IOBIND_MEMORY_DEFAULT, &dense));
  fill(values, 0);
  iobind_rows from = {sizeof from, 0, frame, 4, PITCH};
  iobind_rows to = {sizeof to, 0, dense, 0, ROW};
  OK(iobind_tensor_write(frame, 0, values, BYTES, stream, &error));
  OK(iobind_tensor_write(dense, 0, values, BYTES, stream, &error));
  OK(iobind_tensor_copy_rows(&from, &to, ROW, ROWS, stream, &error));
  OK(iobind_tensor_read(dense, 0, got, BYTES, stream, &error));
  OK(iobind_stream_synchronize(stream, &error));
  EXPECT(got[0] == 1 && got[1] == 2 && got[2] == 5 && got[3] == 6 && got[4] == 9 && got[5] == 10 && got[6] == 6);
  from.offset = 0;
  OK(iobind_tensor_copy_rows(&to, &from, ROW, ROWS, NULL, &error));
  OK(iobind_tensor_read(frame, 0, got, BYTES, NULL, &error));
  EXPECT(got[0] == 1 && got[1] == 2 && got[2] == 2 && got[4] == 5 && got[5] == 6 && got[8] == 9 && got[10] == 10);
  iobind_tensor_release(frame);
  iobind_tensor_release(dense);
  iobind_stream_destroy(stream);
}

/* Items that are on the device already: nothing goes up, and the outputs stay there. */
static void requests(void) {
  iobind_session *session;
  iobind_pipeline *flow;
  iobind_stream *stream;
  iobind_event *ready;
  iobind_tensor *frame;
  iobind_tensor *z;
  iobind_pipeline_options options = IOBIND_PIPELINE_OPTIONS_INIT;
  iobind_pipeline_item item = IOBIND_PIPELINE_ITEM_INIT;
  iobind_pipeline_request request = IOBIND_PIPELINE_REQUEST_INIT;
  iobind_device_counters before = IOBIND_DEVICE_COUNTERS_INIT;
  iobind_device_counters after = IOBIND_DEVICE_COUNTERS_INIT;
  iobind_tensor *constants[2] = {NULL, weights};
  const int32_t stays = IOBIND_PLACE_DEVICE;
  float values[N * N];
  options.constants = constants;
  options.placements = &stays;
  OK(open_session(IOBIND_SESSION_STRICT, &session));
  OK(call_pipeline_create(session, &options, &flow, &error));
  OK(iobind_stream_create(device, NULL, &stream, &error));
  OK(iobind_event_create(device, &ready, &error));
  OK(make(IOBIND_MEMORY_DEFAULT, &frame));
  for (int i = 1; i <= 4; i++) {
    iobind_tensor *const inputs[2] = {frame, NULL};
    iobind_event *const events[2] = {ready, NULL};
    fill(values, (float)i);
    OK(iobind_tensor_write(frame, 0, values, BYTES, stream, &error));
    OK(iobind_event_record(ready, stream, &error));
    OK(iobind_device_get_counters(device, &before, &error));
    request.inputs = inputs;
    request.input_count = 2;
    request.events = events;
    request.event_count = 2;
    request.tag = &values[i];
    OK(iobind_pipeline_submit(flow, &request, &error));
    OK(iobind_pipeline_next(flow, IOBIND_NO_TIMEOUT, &z, 1, &item, &error));
    OK(iobind_device_get_counters(device, &after, &error));
    EXPECT(item.tag == &values[i] && after.upload_bytes == before.upload_bytes);
    EXPECT(after.download_bytes == before.download_bytes && holds(z, (float)i, 2));
  }
  iobind_pipeline_destroy(flow);
  iobind_tensor_release(frame);
  iobind_event_destroy(ready);
  iobind_stream_destroy(stream);
  iobind_session_destroy(session);
}

/* ---- the program's own resources ---- */

static iobind_status wrap(d3d12_resource *resource, iobind_tensor **tensor) {
  return call_tensor_wrap(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, square, 2, resource, BYTES, NULL, NULL, tensor,
                          &error);
}

static void note(void *context, void *data) {
  *(void **)context = data;
}

static void resources(void) {
  iobind_tensor *tensor = NULL;
  d3d12_resource *good = native_buffer(native, D3D12_HEAP_DEFAULT, D3D12_UNORDERED_ACCESS, BYTES);
  d3d12_resource *bad = native_buffer(native, D3D12_HEAP_DEFAULT, D3D12_UNORDERED_ACCESS, BYTES - 4);
  EXPECT(good != NULL && bad != NULL);
  REFUSED(IOBIND_ERROR_INVALID_ARGUMENT, "NULL", wrap(NULL, &tensor));
  REFUSED(IOBIND_ERROR_INVALID_ARGUMENT, "expected 64 bytes or more, got 60", wrap(bad, &tensor));
  REFUSED(IOBIND_ERROR_INVALID_ARGUMENT, "expected an ID3D12Resource",
          wrap((d3d12_resource *)(void *)((char *)good + 8), &tensor));
  native_release(bad);
  bad = native_buffer(native, D3D12_HEAP_UPLOAD, 0, BYTES);
  REFUSED(IOBIND_ERROR_INVALID_ARGUMENT, "an upload heap", wrap(bad, &tensor));
  native_release(bad);
  bad = native_buffer(native, D3D12_HEAP_READBACK, 0, BYTES);
  REFUSED(IOBIND_ERROR_INVALID_ARGUMENT, "a readback heap", wrap(bad, &tensor));
  native_release(bad);
  bad = native_buffer(native, D3D12_HEAP_DEFAULT, 0, BYTES);
  REFUSED(IOBIND_ERROR_INVALID_ARGUMENT, "UNORDERED_ACCESS", wrap(bad, &tensor));
  native_release(bad);
  bad = native_texture(native);
  REFUSED(IOBIND_ERROR_INVALID_ARGUMENT, "texture", wrap(bad, &tensor));
  native_release(bad);
  if (native_other_device() != NULL) {
    bad = native_buffer(native_other_device(), D3D12_HEAP_DEFAULT, D3D12_UNORDERED_ACCESS, BYTES);
    REFUSED(IOBIND_ERROR_WRONG_DEVICE, "another ID3D12Device", wrap(bad, &tensor));
    native_release(bad);
  }

  iobind_session *session;
  iobind_binding *binding;
  iobind_tensor *z;
  iobind_tensor *again;
  iobind_native told = IOBIND_NATIVE_INIT;
  float values[N * N];
  void *gone = NULL;
  unsigned before = native_references(good);
  d3d12_resource *target = native_buffer(native, D3D12_HEAP_DEFAULT, D3D12_UNORDERED_ACCESS, 4096);
  OK(open_session(IOBIND_SESSION_STRICT, &session));
  OK(wrap(good, &tensor));
  EXPECT(native_references(good) > before);
  OK(call_tensor_wrap(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, square, 2, target, BYTES, note, &gone, &z, &error));
  fill(values, 5);
  OK(iobind_tensor_write(tensor, 0, values, BYTES, NULL, &error));
  OK(bind(session, tensor, OUTPUT_FIXED, z, &binding));
  OK(iobind_binding_run(binding, NULL, &error));
  EXPECT(holds(z, 5, 2));
  OK(iobind_tensor_get_native(z, &told, &error));
  EXPECT(told.handle == target);
  native_release(told.handle);
  OK(wrap(good, &again)); /* the same memory: known to overlap */
  EXPECT(iobind_binding_set_output(binding, 0, again, 0, &error) != IOBIND_OK);
  iobind_tensor_release(again);
  iobind_tensor_release(z);
  EXPECT(gone == NULL); /* the binding uses it */
  iobind_binding_destroy(binding);
  EXPECT(gone == target);
  iobind_tensor_release(tensor);
  EXPECT(native_references(good) == before);
  iobind_session_destroy(session);
  native_release(good);
  native_release(target);
}

static void fences(void) {
  iobind_stream *stream;
  iobind_native fence = IOBIND_NATIVE_INIT;
  d3d12_fence *own = native_fence(native);
  fence.kind = IOBIND_NATIVE_D3D12;
  fence.handle = own;
  fence.value = 3;
  OK(iobind_stream_create(device, NULL, &stream, &error));
  REFUSED(IOBIND_ERROR_INVALID_STATE, "wait forever", iobind_stream_wait_native(stream, &fence, &error));
  iobind_stream *wrapped;
  REFUSED(IOBIND_ERROR_NOT_SUPPORTED, "adopt_device", iobind_stream_wrap(device, &fence, NULL, NULL, &wrapped, &error));
  OK(iobind_stream_signal_native(stream, &fence, &error));
  OK(iobind_stream_wait_native(stream, &fence, &error));
  OK(iobind_stream_synchronize(stream, &error));
  EXPECT(own->table->GetCompletedValue(own) == 3);
  fence.value = 4;
  native_signal(own, 4);
  OK(iobind_stream_wait_native(stream, &fence, &error));
  OK(iobind_stream_synchronize(stream, &error));
  fence.handle = NULL;
  REFUSED(IOBIND_ERROR_INVALID_ARGUMENT, "NULL", iobind_stream_wait_native(stream, &fence, &error));
  iobind_stream_destroy(stream);
  native_release(own);
}

/* A write is in flight behind a run that is held back: a part is read, or written, after it. */
static void parts_in_order(void) {
  enum { READ, WRITE, LAST };
  iobind_session *session;
  iobind_stream *stream;
  iobind_tensor *x;
  iobind_tensor *z;
  iobind_binding *binding;
  float values[N * N];
  float two[2] = {70, 71};
  d3d12_fence *gate = native_fence(native);
  OK(open_session(IOBIND_SESSION_STRICT, &session));
  OK(iobind_stream_create(device, NULL, &stream, &error));
  OK(make(IOBIND_MEMORY_DEFAULT, &x));
  OK(make(IOBIND_MEMORY_DEFAULT, &z));
  fill(values, 0);
  OK(iobind_tensor_write(x, 0, values, BYTES, NULL, &error));
  OK(bind(session, x, OUTPUT_FIXED, z, &binding));
  OK(iobind_binding_run(binding, NULL, &error)); /* the first run compiles */
  for (int what = READ; what < LAST; what++) {
    fill(values, 20 + (float)what);
    queue->table->Wait(queue, gate, (uint64_t)what + 1);
    OK(iobind_binding_run(binding, stream, &error));
    OK(iobind_tensor_write(x, 0, values, BYTES, stream, &error));
    native_signal_later(gate, (uint64_t)what + 1);
    if (what == READ) {
      OK(iobind_tensor_read(x, 8, two, sizeof two, stream, &error));
    } else {
      OK(iobind_tensor_write(x, 8, two, sizeof two, stream, &error));
    }
    OK(iobind_stream_synchronize(stream, &error));
  }
  EXPECT(two[0] == 22 && two[1] == 23); /* the first pass read them */
  OK(iobind_tensor_read(x, 0, values, BYTES, NULL, &error));
  EXPECT(values[0] == 21 && values[2] == 22 && values[3] == 23 && values[4] == 25);
  iobind_tensor_release(x);
  iobind_tensor_release(z);
  iobind_binding_destroy(binding);
  iobind_stream_destroy(stream);
  iobind_session_destroy(session);
  native_release(gate);
}

/* The queue of runs is held back: a run returns nevertheless, waits have a limit, and copies of another stream pass. */
static void held_back(void) {
  iobind_session *session;
  iobind_stream *stream;
  iobind_stream *other;
  iobind_event *event;
  iobind_tensor *x;
  iobind_tensor *z;
  iobind_tensor *free_tensor;
  iobind_binding *binding;
  float values[N * N];
  d3d12_fence *gate = native_fence(native);
  d3d12_resource *own = native_buffer(native, D3D12_HEAP_DEFAULT, D3D12_UNORDERED_ACCESS, BYTES);
  int32_t done = 1;
  OK(open_session(IOBIND_SESSION_STRICT, &session));
  OK(iobind_stream_create(device, NULL, &stream, &error));
  OK(iobind_stream_create(device, NULL, &other, &error));
  OK(iobind_event_create(device, &event, &error));
  OK(wrap(own, &x));
  OK(make(IOBIND_MEMORY_DEFAULT, &z));
  OK(make(IOBIND_MEMORY_DEFAULT, &free_tensor));
  OK(bind(session, x, OUTPUT_FIXED, z, &binding));
  OK(iobind_binding_run(binding, NULL, &error)); /* the first run compiles */
  fill(values, 8);
  OK(iobind_tensor_write(x, 0, values, BYTES, NULL, &error));
  queue->table->Wait(queue, gate, 1);
  OK(call_binding_run(binding, stream, event, &error));
  OK(iobind_event_query(event, &done, &error));
  EXPECT(done == 0);
  REFUSED(IOBIND_ERROR_TIMEOUT, "timed out", iobind_event_wait(event, 20000000, &error));
  OK(iobind_tensor_write(free_tensor, 0, values, BYTES, other, &error));
  OK(iobind_stream_synchronize(other, &error));
  EXPECT(holds(free_tensor, 8, 1));
  unsigned held = native_references(own);
  iobind_tensor_release(x);
  iobind_binding_destroy(binding); /* the run still reads what was wrapped */
  EXPECT(native_references(own) == held);
  native_signal(gate, 1);
  OK(iobind_event_wait(event, UINT64_C(60000000000), &error));
  OK(iobind_stream_synchronize(stream, &error));
  EXPECT(holds(z, 8, 2));
  EXPECT(native_references(own) == 1);
  iobind_tensor_release(z);
  iobind_tensor_release(free_tensor);
  iobind_event_destroy(event);
  iobind_stream_destroy(stream);
  iobind_stream_destroy(other);
  iobind_session_destroy(session);
  native_release(own);
  native_release(gate);
}

/* Runs that swap a state are queued behind a gate: the first state is no input any more, and is still to be read. */
static void swapped(void) {
  iobind_session *session;
  iobind_stream *stream;
  iobind_tensor *x;
  iobind_tensor *z;
  iobind_binding *binding;
  float values[N * N];
  d3d12_fence *gate = native_fence(native);
  d3d12_resource *own = native_buffer(native, D3D12_HEAP_DEFAULT, D3D12_UNORDERED_ACCESS, BYTES);
  OK(open_session(IOBIND_SESSION_STRICT, &session));
  OK(iobind_stream_create(device, NULL, &stream, &error));
  OK(wrap(own, &x));
  fill(values, 1);
  OK(iobind_tensor_write(x, 0, values, BYTES, NULL, &error));
  OK(bind(session, x, IOBIND_OUTPUT_FRESH, NULL, &binding));
  OK(iobind_binding_carry(binding, 0, 0, IOBIND_CARRY_SWAP, &error));
  iobind_tensor_release(x);
  queue->table->Wait(queue, gate, 1);
  for (int i = 0; i < 3; i++) {
    OK(iobind_binding_run(binding, stream, &error));
  }
  EXPECT(native_references(own) > 1);
  native_signal(gate, 1);
  OK(iobind_stream_synchronize(stream, &error));
  OK(iobind_binding_get_output(binding, 0, NULL, &z, &error));
  EXPECT(holds(z, 1, 8));
  iobind_binding_destroy(binding);
  EXPECT(native_references(own) == 1);
  iobind_stream_destroy(stream);
  iobind_session_destroy(session);
  native_release(own);
  native_release(gate);
}

static void refusals(void) {
  iobind_session *session = NULL;
  iobind_stream *stream;
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  char text[TEST_MODEL_TEXT];
  size_t bytes;
  const void *model = test_model("matmul m=4 k=4 n=4", &bytes, text);
  const char *key = "device_id";
  const char *value = "0";
  options.devices = &device;
  options.device_count = 1;
  OK(iobind_stream_create(device, NULL, &stream, &error));
  options.stream = stream;
  REFUSED(IOBIND_ERROR_NOT_SUPPORTED, "one queue",
          iobind_session_create_from_memory(runtime, model, bytes, &options, &session, &error));
  iobind_stream_destroy(stream);
  options.stream = NULL;
  options.ep_keys = &key;
  options.ep_values = &value;
  options.ep_option_count = 1;
  REFUSED(IOBIND_ERROR_NOT_SUPPORTED, "takes no options",
          iobind_session_create_from_memory(runtime, model, bytes, &options, &session, &error));
  iobind_native told = IOBIND_NATIVE_INIT;
  iobind_tensor *pinned;
  OK(make(IOBIND_MEMORY_HOST_ACCESSIBLE, &pinned));
  REFUSED(IOBIND_ERROR_NOT_SUPPORTED, "address", iobind_tensor_get_native(pinned, &told, &error));
  iobind_tensor_release(pinned);
}

/* A given output is too small, which only the run can know. The real EP keeps ORT's reason for itself; the message says what to look at. */
static void sizes(void) {
  static const int64_t two[1] = {2};
  static const int64_t wanted[2] = {3, 2};
  char text[TEST_MODEL_TEXT];
  size_t bytes;
  const void *model = test_model("expand", &bytes, text);
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  iobind_session *session = NULL;
  iobind_binding *binding;
  iobind_tensor *x;
  iobind_tensor *shape;
  iobind_tensor *y;
  options.devices = &device;
  options.device_count = 1;
  OK(iobind_session_create_from_memory(runtime, model, bytes, &options, &session, &error));
  iobind_tensor *own;
  REFUSED(IOBIND_ERROR_NOT_SUPPORTED, "iobind_tensor_create",
          iobind_session_create_tensor(session, device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, square, 2, &own, &error));
  OK(iobind_binding_create(session, &binding, &error));
  OK(iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, two, 1, &x, &error));
  OK(iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, (const int64_t[]){2, 2}, 2, &y, &error));
  OK(iobind_tensor_create(iobind_runtime_get_device(runtime, 0), IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_INT64, two, 1, &shape,
                          &error));
  OK(iobind_tensor_write(x, 0, twice, 2 * sizeof(float), NULL, &error));
  OK(iobind_tensor_write(shape, 0, wanted, sizeof wanted, NULL, &error));
  OK(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, x, NULL, &error));
  OK(iobind_binding_set_input(binding, 1, IOBIND_INPUT_SNAPSHOT, shape, NULL, &error));
  OK(iobind_binding_set_output(binding, 0, y, 0, &error));
  iobind_status status = iobind_binding_run(binding, NULL, &error);
  EXPECT(status == IOBIND_ERROR_SHAPE || status == IOBIND_ERROR_RUNTIME);
  EXPECT(strstr(error.message, "output 'y'") != NULL && strstr(error.message, "use FRESH") != NULL);
  OK(iobind_binding_place_output(binding, 0, IOBIND_OUTPUT_FRESH, device, IOBIND_MEMORY_DEFAULT, &error));
  OK(iobind_binding_run(binding, NULL, &error));
  iobind_binding_destroy(binding);
  iobind_session_destroy(session);
  iobind_tensor_release(x);
  iobind_tensor_release(shape);
  iobind_tensor_release(y);
}

static const struct {
  const char *name;
  void (*run)(void);
} parts[] = {{"memory", memory},       {"runs", runs},       {"streams", streams},
             {"pipeline", pipeline},   {"rows", rows},       {"requests", requests},
             {"resources", resources}, {"fences", fences},   {"parts_in_order", parts_in_order},
             {"held_back", held_back}, {"swapped", swapped}, {"refusals", refusals},
             {"sizes", sizes}};

static bool is_wanted(const char *name, int argc, char **argv) {
  bool wanted = argc == 1;
  for (int i = 1; i < argc; i++) {
    wanted = wanted || strcmp(argv[i], name) == 0;
  }
  bool is_gated = strcmp(name, "held_back") == 0 || strcmp(name, "swapped") == 0;
  return wanted && (native_is_queued() || !is_gated);
}

int main(int argc, char **argv) {
  char why[256] = "";
  iobind_runtime_options options = IOBIND_RUNTIME_OPTIONS_INIT;
  options.flags = IOBIND_RUNTIME_NO_EP_SEARCH;
  native_options(&options);
  if (iobind_runtime_create(&options, &runtime, &error) != IOBIND_OK) {
    printf("dml: %s\n", error.message);
    return 1;
  }
  native = native_device(why);
  queue = native == NULL ? NULL : native_queue(native, D3D12_DIRECT);
  if (queue == NULL) {
    printf("skip: no Direct3D 12 here: %s\n", why);
    return 77;
  }
  adopt();
  for (int i = 0; i < N; i++) {
    twice[i * N + i] = 2;
  }
  if (failures > 0 || make(IOBIND_MEMORY_DEFAULT, &weights) != IOBIND_OK ||
      iobind_tensor_write(weights, 0, twice, BYTES, NULL, &error) != IOBIND_OK) {
    printf("dml: the device: %s\n", error.message);
    return 1;
  }
  for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
    if (is_wanted(parts[i].name, argc, argv)) {
      parts[i].run();
      printf("%s: %s\n", parts[i].name, failures == 0 ? "ok" : "FAILED");
      fflush(stdout);
      if (failures > 0) {
        _Exit(1); /* a part that stops in the middle leaves the queue held back: nothing after it would end */
      }
    }
  }
  iobind_tensor_release(weights);
  iobind_runtime_destroy(runtime);
  native_release(queue);
  printf("dml: all parts are right\n");
  return 0;
}
