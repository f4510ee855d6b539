/* directml MODEL: for Windows. Frames of a program that has a Direct3D 12 device, an execution queue and a copy queue of its own: its copy
 * queue brings each frame up and the result down, while the model computes on the execution queue, and fences keep the order. The model is
 * tests/models' "scale": y = 2 x.
 *
 *     cl /std:c17 /I include examples\directml.c iobind.lib d3d12.lib */
#define COBJMACROS
#define INITGUID /* the interfaces' names are defined here */
#include <d3d12.h>
#include <iobind/interop.h>
#include <stdio.h>
#include <windows.h>

#define TRY(call) \
  if ((call) != IOBIND_OK) return fprintf(stderr, "%s\n", error.message), 1
#define D3D(call) \
  if (FAILED(result = (call))) return fprintf(stderr, "%s: 0x%08lx\n", #call, (unsigned long)result), 1

enum { FRAMES = 10, PIXELS = 4096, BYTES = PIXELS * 4, SLOTS = 2 };

/* A list of one copy: recorded once, submitted for each frame. */
typedef struct copy {
  ID3D12CommandAllocator *allocator;
  ID3D12GraphicsCommandList *list;
} copy;

typedef struct slot {
  ID3D12Resource *from_host, *x, *y, *to_host;
  float *pixels, *result; /* from_host's and to_host's memory */
  copy up, down;
  iobind_binding *binding;
} slot;

static iobind_error error = IOBIND_ERROR_INIT;
static HRESULT result;

/* The program's own. The fences' values are numbers of frames, from 1. */
static ID3D12Device *device;
static ID3D12CommandQueue *execution, *copies;
static ID3D12Fence *uploaded, *computed, *downloaded;

static int make_queue(D3D12_COMMAND_LIST_TYPE type, ID3D12CommandQueue **queue) {
  D3D12_COMMAND_QUEUE_DESC desc = {0};
  desc.Type = type;
  D3D(ID3D12Device_CreateCommandQueue(device, &desc, &IID_ID3D12CommandQueue, (void **)queue));
  return 0;
}

static int make_fence(ID3D12Fence **fence) {
  D3D(ID3D12Device_CreateFence(device, 0, D3D12_FENCE_FLAG_NONE, &IID_ID3D12Fence, (void **)fence));
  return 0;
}

static int make_buffer(D3D12_HEAP_TYPE type, ID3D12Resource **buffer) {
  D3D12_HEAP_PROPERTIES heap = {0};
  D3D12_RESOURCE_DESC desc = {0};
  heap.Type = type;
  desc.Dimension = D3D12_RESOURCE_DIMENSION_BUFFER;
  desc.Width = BYTES;
  desc.Height = desc.DepthOrArraySize = desc.MipLevels = 1;
  desc.SampleDesc.Count = 1;
  desc.Layout = D3D12_TEXTURE_LAYOUT_ROW_MAJOR;
  /* what a model reads and writes needs this flag; the other heaps do not allow it */
  desc.Flags = type == D3D12_HEAP_TYPE_DEFAULT ? D3D12_RESOURCE_FLAG_ALLOW_UNORDERED_ACCESS : D3D12_RESOURCE_FLAG_NONE;
  D3D12_RESOURCE_STATES state = type == D3D12_HEAP_TYPE_UPLOAD     ? D3D12_RESOURCE_STATE_GENERIC_READ
                                : type == D3D12_HEAP_TYPE_READBACK ? D3D12_RESOURCE_STATE_COPY_DEST
                                                                   : D3D12_RESOURCE_STATE_COMMON;
  D3D(ID3D12Device_CreateCommittedResource(device, &heap, D3D12_HEAP_FLAG_NONE, &desc, state, NULL, &IID_ID3D12Resource,
                                           (void **)buffer));
  return 0;
}

static int record(copy *self, ID3D12Resource *to, ID3D12Resource *from) {
  D3D(ID3D12Device_CreateCommandAllocator(device, D3D12_COMMAND_LIST_TYPE_COPY, &IID_ID3D12CommandAllocator,
                                          (void **)&self->allocator));
  D3D(ID3D12Device_CreateCommandList(device, 0, D3D12_COMMAND_LIST_TYPE_COPY, self->allocator, NULL,
                                     &IID_ID3D12GraphicsCommandList, (void **)&self->list));
  ID3D12GraphicsCommandList_CopyBufferRegion(self->list, to, 0, from, 0, BYTES);
  D3D(ID3D12GraphicsCommandList_Close(self->list));
  return 0;
}

static int submit(const copy *self, ID3D12Fence *fence, UINT64 value) {
  ID3D12CommandList *list = (ID3D12CommandList *)self->list;
  ID3D12CommandQueue_ExecuteCommandLists(copies, 1, &list);
  D3D(ID3D12CommandQueue_Signal(copies, fence, value));
  return 0;
}

static int wrap(iobind_device *where, ID3D12Resource *memory, iobind_tensor **tensor) {
  const int64_t dims[] = {PIXELS};
  iobind_buffer buffer = IOBIND_BUFFER_INIT;
  buffer.dtype = IOBIND_DTYPE_FLOAT32;
  buffer.dims = dims;
  buffer.rank = 1;
  buffer.data = memory;
  buffer.bytes = BYTES;
  TRY(iobind_tensor_wrap(where, &buffer, tensor, &error));
  return 0;
}

static int open_slot(slot *self, iobind_device *where, iobind_session *session) {
  iobind_tensor *x, *y;
  if (make_buffer(D3D12_HEAP_TYPE_UPLOAD, &self->from_host) || make_buffer(D3D12_HEAP_TYPE_DEFAULT, &self->x) ||
      make_buffer(D3D12_HEAP_TYPE_DEFAULT, &self->y) || make_buffer(D3D12_HEAP_TYPE_READBACK, &self->to_host) ||
      record(&self->up, self->x, self->from_host) || record(&self->down, self->to_host, self->y))
    return 1;
  D3D(ID3D12Resource_Map(self->from_host, 0, NULL, (void **)&self->pixels));
  D3D(ID3D12Resource_Map(self->to_host, 0, NULL, (void **)&self->result));
  if (wrap(where, self->x, &x) || wrap(where, self->y, &y)) return 1;
  TRY(iobind_binding_create(session, &self->binding, &error));
  TRY(iobind_binding_set_input(self->binding, 0, IOBIND_INPUT_RESIDENT, x, NULL, &error));
  TRY(iobind_binding_set_output(self->binding, 0, y, 0, &error));
  iobind_tensor_release(x); /* the binding has its own references */
  iobind_tensor_release(y);
  return 0;
}

static void close_slot(slot *self) {
  iobind_binding_destroy(self->binding);
  ID3D12GraphicsCommandList_Release(self->up.list);
  ID3D12GraphicsCommandList_Release(self->down.list);
  ID3D12CommandAllocator_Release(self->up.allocator);
  ID3D12CommandAllocator_Release(self->down.allocator);
  ID3D12Resource_Release(self->from_host);
  ID3D12Resource_Release(self->x);
  ID3D12Resource_Release(self->y);
  ID3D12Resource_Release(self->to_host);
}

/* Up, and through the model. Nothing here waits. */
static int start(slot *self, iobind_stream *stream, UINT64 frame) {
  iobind_native fence = IOBIND_NATIVE_INIT;
  if (submit(&self->up, uploaded, frame)) return 1;
  D3D(ID3D12CommandQueue_Wait(execution, uploaded, frame)); /* the runs of all sessions are on this queue */
  TRY(iobind_binding_run(self->binding, stream, &error));
  fence.kind = IOBIND_NATIVE_D3D12;
  fence.handle = computed;
  fence.value = frame;
  TRY(iobind_stream_signal_native(stream, &fence, &error)); /* behind the run */
  return 0;
}

/* Down, when it is computed. Nothing here waits. */
static int bring_down(const slot *self, UINT64 frame) {
  D3D(ID3D12CommandQueue_Wait(copies, computed, frame));
  return submit(&self->down, downloaded, frame);
}

/* The host waits for a frame's result, and looks at it. */
static int finish(const slot *self, UINT64 frame) {
  D3D(ID3D12Fence_SetEventOnCompletion(downloaded, frame, NULL)); /* without an event it returns when the value is there */
  if (self->result[PIXELS - 1] != 2 * (float)frame) return fprintf(stderr, "frame %d is wrong\n", (int)frame), 1;
  return 0;
}

static int run(iobind_stream *stream, slot *slots) {
  for (UINT64 frame = 1; frame <= FRAMES; frame++) {
    slot *self = &slots[frame % SLOTS];
    if (frame > SLOTS && finish(self, frame - SLOTS)) return 1;
    for (int i = 0; i < PIXELS; i++) self->pixels[i] = (float)frame; /* the other slot's run goes on meanwhile */
    if (start(self, stream, frame)) return 1;
    /* behind the next frame's copy up, which need not wait for this frame's run */
    if (frame > 1 && bring_down(&slots[(frame - 1) % SLOTS], frame - 1)) return 1;
  }
  return bring_down(&slots[FRAMES % SLOTS], FRAMES) || finish(&slots[(FRAMES - 1) % SLOTS], FRAMES - 1) ||
         finish(&slots[FRAMES % SLOTS], FRAMES);
}

int main(int argc, char **argv) {
  static slot slots[SLOTS];
  iobind_native_device native = IOBIND_NATIVE_DEVICE_INIT;
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  iobind_runtime *runtime;
  iobind_device *where;
  iobind_session *session;
  iobind_stream *stream;
  if (argc < 2) return fprintf(stderr, "usage: directml MODEL\n"), 2;
  D3D(D3D12CreateDevice(NULL, D3D_FEATURE_LEVEL_11_0, &IID_ID3D12Device, (void **)&device));
  if (make_queue(D3D12_COMMAND_LIST_TYPE_DIRECT, &execution) || make_queue(D3D12_COMMAND_LIST_TYPE_COPY, &copies) ||
      make_fence(&uploaded) || make_fence(&computed) || make_fence(&downloaded))
    return 1;
  TRY(iobind_runtime_create(NULL, &runtime, &error)); /* onnxruntime.dll and DirectML.dll lie beside the program */
  native.kind = IOBIND_NATIVE_D3D12;
  native.device = device;
  native.queue = execution;
  TRY(iobind_runtime_adopt_device(runtime, &native, &where, &error));
  options.devices = &where;
  options.device_count = 1;
  TRY(iobind_session_create(runtime, argv[1], &options, &session, &error));
  TRY(iobind_stream_create(where, NULL, &stream, &error));
  for (int i = 0; i < SLOTS; i++)
    if (open_slot(&slots[i], where, session)) return 1;
  if (run(stream, slots)) return 1;
  printf("%d frames: copies on the program's copy queue, runs on its execution queue, right\n", FRAMES);

  for (int i = 0; i < SLOTS; i++) close_slot(&slots[i]);
  iobind_stream_destroy(stream);
  iobind_session_destroy(session);
  iobind_runtime_destroy(runtime);
  ID3D12Fence_Release(uploaded);
  ID3D12Fence_Release(computed);
  ID3D12Fence_Release(downloaded);
  ID3D12CommandQueue_Release(copies);
  ID3D12CommandQueue_Release(execution);
  ID3D12Device_Release(device);
  return 0;
}
