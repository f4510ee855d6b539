/* foreign MODEL DEVICE: memory and a stream of another library. The library here is a small pool that allocates from one block of device
 * memory; on CUDA the block comes from cudaMalloc and the stream from cudaStreamCreate, both found in the CUDA runtime that the process has
 * loaded. The model is tests/models' "scale": y = 2 x. */
#define _GNU_SOURCE /* RTLD_NOLOAD */
#include <dlfcn.h>
#include <iobind/interop.h>
#include <iobind/iobind.h>
#include <stdio.h>
#include <string.h>
#include <vdev.h>

#define TRY(call) \
  if ((call) != IOBIND_OK) return fprintf(stderr, "%s\n", error.message), 1

enum { COUNT = 1024, FRAMES = 4, BLOCK = 1 << 20, ALIGNMENT = 256 };

static iobind_error error = IOBIND_ERROR_INIT;

/* ---- the other library ---- */

typedef struct pool {
  char *block;
  size_t used;
  int lent; /* parts that are in use */
  void *stream;
  int32_t kind;
  iobind_tensor *keeper; /* the virtual accelerator hands memory out by ORT only: a tensor is the block */
  int (*free_cuda)(void *);
  int (*close_cuda)(void *);
} pool;

static void *pool_take(pool *self, size_t bytes) {
  void *part = self->block + self->used;
  self->used += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  self->lent++;
  return part;
}

/* iobind's deleter: called once, when nothing uses the part any more, on whatever thread that is. */
static void pool_give_back(void *context, void *part) {
  (void)part;
  ((pool *)context)->lent--;
}

static void pool_close_stream(void *context, void *stream) {
  const pool *self = context;
  if (self->kind == IOBIND_NATIVE_VDEV) {
    vdev_stream_destroy(stream);
  } else {
    (void)self->close_cuda(stream);
  }
}

static int pool_open_cuda(pool *self) {
  void *library = dlopen("libcudart.so.13", RTLD_NOW | RTLD_NOLOAD);
  int (*allocate)(void **, size_t), (*create)(void **);
  if (library == NULL) return fprintf(stderr, "the CUDA runtime is not loaded\n"), 1;
  *(void **)&allocate = dlsym(library, "cudaMalloc");
  *(void **)&create = dlsym(library, "cudaStreamCreate");
  *(void **)&self->free_cuda = dlsym(library, "cudaFree");
  *(void **)&self->close_cuda = dlsym(library, "cudaStreamDestroy");
  self->kind = IOBIND_NATIVE_CUDA;
  return allocate((void **)&self->block, BLOCK) != 0 || create(&self->stream) != 0;
}

static int pool_open_vdev(pool *self, iobind_device *device) {
  const int64_t dims[] = {BLOCK};
  TRY(iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_UINT8, dims, 1, &self->keeper, &error));
  self->block = iobind_tensor_get_address(self->keeper);
  self->stream = vdev_stream_create(0);
  self->kind = IOBIND_NATIVE_VDEV;
  return self->stream == NULL;
}

/* ---- the program ---- */

static int run(iobind_device *device, iobind_session *session, pool *memory) {
  static float values[COUNT], result[COUNT];
  const int64_t dims[] = {COUNT};
  iobind_native native = IOBIND_NATIVE_INIT;
  iobind_buffer buffer = IOBIND_BUFFER_INIT;
  iobind_stream *stream;
  iobind_binding *binding;
  iobind_tensor *x, *y;
  native.kind = memory->kind;
  native.handle = memory->stream;
  buffer.dtype = IOBIND_DTYPE_FLOAT32;
  buffer.dims = dims;
  buffer.rank = 1;
  buffer.bytes = sizeof values;
  buffer.deleter = pool_give_back;
  buffer.context = memory;
  TRY(iobind_stream_wrap(device, &native, pool_close_stream, memory, &stream, &error));
  buffer.data = pool_take(memory, sizeof values);
  TRY(iobind_tensor_wrap(device, &buffer, &x, &error));
  buffer.data = pool_take(memory, sizeof values);
  TRY(iobind_tensor_wrap(device, &buffer, &y, &error));
  TRY(iobind_binding_create(session, &binding, &error));
  TRY(iobind_binding_set_input(binding, 0, IOBIND_INPUT_RESIDENT, x, NULL, &error));
  TRY(iobind_binding_set_output(binding, 0, y, 0, &error));
  iobind_tensor_release(x); /* the binding has its own references */
  for (int frame = 0; frame < FRAMES; frame++) {
    for (int i = 0; i < COUNT; i++) values[i] = (float)(frame + i);
    /* what the other library submits to its stream before this is done before, and what it submits afterwards, afterwards */
    TRY(iobind_binding_write_input(binding, 0, values, sizeof values, stream, &error));
    TRY(iobind_binding_run(binding, stream, &error));
    TRY(iobind_tensor_read(y, 0, result, sizeof result, stream, &error));
    TRY(iobind_stream_synchronize(stream, &error)); /* `values` is filled again */
    if (result[COUNT - 1] != 2 * (float)(frame + COUNT - 1)) return fprintf(stderr, "frame %d is wrong\n", frame), 1;
  }
  iobind_tensor_release(y);
  iobind_binding_destroy(binding);
  iobind_stream_destroy(stream);
  return 0;
}

int main(int argc, char **argv) {
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  iobind_runtime *runtime;
  iobind_device *device;
  iobind_session *session;
  pool memory = {0};
  if (argc < 3) return fprintf(stderr, "usage: foreign MODEL DEVICE\n"), 2;
  TRY(iobind_runtime_create(NULL, &runtime, &error));
  TRY(iobind_runtime_find_device(runtime, argv[2], &device, NULL, &error));
  options.devices = &device;
  options.device_count = 1;
  TRY(iobind_session_create(runtime, argv[1], &options, &session, &error));
  if (strcmp(argv[2], "vdev") == 0 ? pool_open_vdev(&memory, device) : pool_open_cuda(&memory)) return 1;
  if (run(device, session, &memory) != 0) return 1;
  printf("%d frames in the pool's memory, on its stream; %d parts are still lent\n", FRAMES, memory.lent);
  iobind_tensor_release(memory.keeper);
  if (memory.free_cuda != NULL) (void)memory.free_cuda(memory.block);
  iobind_session_destroy(session);
  iobind_runtime_destroy(runtime);
  return memory.lent != 0;
}
