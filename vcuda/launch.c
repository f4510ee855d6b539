/* Kernels: a program registers each with its host pointer and its mangled name, and launches it by the pointer. */
#include <stdlib.h>
#include <string.h>

#include "state.h"
#include "work.h"

typedef struct vcuda_function {
  void **library; /* of __cudaRegisterFatBinary */
  const void *host;
  const char *name; /* owned by the program, and valid while its code is loaded */
  const vcuda_kernel *kernel;
  bool looked_up;
} function;

/* Appended while a library is loaded, and sorted at the next lookup. */
static function **functions;
static size_t function_count, function_capacity, sorted_count;

static int compare(const void *a, const void *b) {
  uintptr_t x = (uintptr_t)(*(function *const *)a)->host, y = (uintptr_t)(*(function *const *)b)->host;
  return (x > y) - (x < y);
}

/* Programs register their kernels while they are loaded. Only a trace needs the devices then. Otherwise the first call creates them,
 * so that a program can set the environment before that call. */
static void note_loading(const char *call) {
  if (vcuda_trace_is_on()) vcuda_note(call, NULL);
}

/* The address of the device code is the handle: no two loaded libraries share one. */
void **__cudaRegisterFatBinary(void *binary) {
  if (vcuda_trace_is_wanted()) vcuda_start();
  note_loading(__func__);
  return binary;
}

void __cudaRegisterFatBinaryEnd(void **handle) {
  note_loading(__func__);
  (void)handle;
}

/* Another library may be loaded at the addresses of this one. */
void __cudaUnregisterFatBinary(void **handle) {
  note_loading(__func__);
  vcuda_lock();
  size_t kept = 0;
  for (size_t i = 0; i < function_count; i++) {
    if (functions[i]->library == handle) {
      free(functions[i]);
    } else {
      functions[kept++] = functions[i];
    }
  }
  if (kept != function_count) sorted_count = 0;
  function_count = kept;
  vcuda_unlock();
}

static bool grow(void) {
  if (function_count < function_capacity) return true;
  size_t capacity = function_capacity == 0 ? 1024 : 2 * function_capacity;
  function **list = realloc(functions, capacity * sizeof *list);
  if (list == NULL) return false;
  functions = list;
  function_capacity = capacity;
  return true;
}

static void add(void **library, const void *host, const char *name) {
  function *new = calloc(1, sizeof *new);
  vcuda_lock();
  if (new != NULL && grow()) {
    new->library = library;
    new->host = host;
    new->name = name;
    functions[function_count++] = new;
  } else {
    free(new);
  }
  vcuda_unlock();
}

/* NOLINTBEGIN(readability-non-const-parameter): nvcc generates these calls and determines the types */
void __cudaRegisterFunction(void **handle, const char *host, char *device_function, const char *name, int threads, void *thread,
                            void *block, void *block_dim, void *grid_dim, int *warp) {
  (void)device_function, (void)threads, (void)thread, (void)block, (void)block_dim, (void)grid_dim, (void)warp;
  note_loading(__func__);
  add(handle, host, name);
}

/* The only variable that the EP reads is the shared memory that an XQA kernel needs. It is 0, because no kernel here needs any. */
static bool is_shared_size(const char *name) {
  static const char end[] = "8smemSizeE";
  size_t size = strlen(name);
  return size >= sizeof end && strcmp(name + size - (sizeof end - 1), end) == 0;
}

void __cudaRegisterVar(void **handle, char *variable, char *device_address, const char *name, int external, size_t bytes,
                       int constant, int global) {
  (void)device_address, (void)external, (void)bytes, (void)constant, (void)global;
  note_loading(__func__);
  if (is_shared_size(name)) add(handle, variable, name);
}

/* NOLINTEND(readability-non-const-parameter) */

/* With the lock held. */
static function *find(const void *host) {
  function key = {.host = host}, *wanted = &key;
  if (sorted_count != function_count) {
    qsort(functions, function_count, sizeof *functions, compare);
    sorted_count = function_count;
  }
  function **found = bsearch(&wanted, functions, function_count, sizeof *functions, compare);
  return found == NULL ? NULL : *found;
}

bool vcuda_is_variable(const void *symbol) {
  vcuda_lock();
  const function *found = find(symbol);
  vcuda_unlock();
  return found != NULL && is_shared_size(found->name);
}

/* ---- launches ---- */

/* A caller may ignore the launch's error; a later wait or copy fails, so that the caller does not use stale memory. */
static int refuse(const char *name) {
  vcuda_log("kernel not found: %s", name);
  vcuda_lock();
  vcuda_device_current()->missed = CUDA_INVALID_FUNCTION;
  vcuda_unlock();
  return CUDA_INVALID_FUNCTION;
}

int vcuda_take_missed(vcuda_device *device) {
  int error = device->missed;
  device->missed = CUDA_OK;
  return error;
}

static int launch(const void *host, const cuda_dim3 *grid, const cuda_dim3 *block, void **arguments, size_t shared,
                  cuda_stream stream) {
  vcuda_lock();
  function *found = find(host);
  if (found != NULL && !found->looked_up) {
    vcuda_unlock(); /* it may log */
    const vcuda_kernel *kernel = vcuda_kernel_find(found->name);
    vcuda_lock();
    found->kernel = kernel;
    found->looked_up = true;
  }
  vcuda_unlock();
  if (found == NULL || found->kernel == NULL) return refuse(found == NULL ? "it is not registered" : found->name);
  const unsigned grid_size[3] = {grid->x, grid->y, grid->z}, block_size[3] = {block->x, block->y, block->z};
  if ((uint64_t)block->x * block->y * block->z > 1024) return CUDA_INVALID_CONFIGURATION;
  return vcuda_kernel_launch(found->kernel, grid_size, block_size, shared, stream, arguments);
}

int cudaLaunchKernel(const void *host, cuda_dim3 grid, cuda_dim3 block, void **arguments, size_t shared, cuda_stream stream) {
  VCUDA_ENTER_DEVICE(stream);
  return vcuda_end(&call, launch(host, &grid, &block, arguments, shared, stream));
}

int cudaLaunchCooperativeKernel(const void *host, cuda_dim3 grid, cuda_dim3 block, void **arguments, size_t shared,
                                cuda_stream stream) {
  VCUDA_ENTER_DEVICE(stream);
  return vcuda_end(&call, launch(host, &grid, &block, arguments, shared, stream));
}

int cudaLaunchKernelExC(const cuda_launch *config, const void *host, void **arguments) {
  VCUDA_ENTER_DEVICE(config->stream);
  return vcuda_end(&call, launch(host, &config->grid, &config->block, arguments, config->shared, config->stream));
}

/* The pointer is the handle. */
int __cudaGetKernel(cuda_kernel *kernel, const void *host) {
  VCUDA_ENTER(NULL);
  vcuda_lock();
  *kernel = find(host);
  vcuda_unlock();
  return vcuda_end(&call, *kernel == NULL ? CUDA_INVALID_FUNCTION : CUDA_OK);
}

int __cudaLaunchKernel(cuda_kernel kernel, cuda_dim3 grid, cuda_dim3 block, void **arguments, size_t shared,
                       cuda_stream stream) {
  VCUDA_ENTER_DEVICE(stream);
  return vcuda_end(&call, launch(kernel->host, &grid, &block, arguments, shared, stream));
}

/* ---- the launch configuration between <<< and >>> ---- */

typedef struct configuration {
  cuda_dim3 grid, block;
  size_t shared;
  cuda_stream stream;
} configuration;

static _Thread_local configuration pending[16];
static _Thread_local unsigned pending_count;

unsigned __cudaPushCallConfiguration(cuda_dim3 grid, cuda_dim3 block, size_t shared, cuda_stream stream) {
  VCUDA_OPEN(stream);
  if (pending_count == sizeof pending / sizeof *pending) return (unsigned)vcuda_close(&call, CUDA_MISSING_CONFIGURATION);
  pending[pending_count++] = (configuration){grid, block, shared, stream};
  return (unsigned)vcuda_close(&call, CUDA_OK);
}

int __cudaPopCallConfiguration(cuda_dim3 *grid, cuda_dim3 *block, size_t *shared, void *stream) {
  VCUDA_OPEN(NULL);
  if (pending_count == 0) return vcuda_close(&call, CUDA_MISSING_CONFIGURATION);
  const configuration *top = &pending[--pending_count];
  *grid = top->grid;
  *block = top->block;
  *shared = top->shared;
  memcpy(stream, &top->stream, sizeof top->stream);
  return vcuda_close(&call, CUDA_OK);
}

/* ---- queries of kernels: the answers allow every launch ---- */

int cudaFuncGetAttributes(cuda_function_attributes *attributes, const void *host) {
  VCUDA_ENTER(NULL);
  vcuda_lock();
  bool known = find(host) != NULL;
  vcuda_unlock();
  memset(attributes, 0, sizeof *attributes);
  attributes->threads = 1024;
  attributes->registers = 32;
  attributes->ptx = attributes->binary = 80;
  attributes->dynamic_shared = 49152;
  return vcuda_end(&call, known ? CUDA_OK : CUDA_INVALID_FUNCTION);
}

int cudaFuncSetAttribute(const void *host, int attribute, int value) {
  VCUDA_ENTER(NULL);
  (void)host, (void)attribute, (void)value;
  return vcuda_end(&call, CUDA_OK);
}

int cudaKernelSetAttributeForDevice(cuda_kernel kernel, int attribute, int value, int device) {
  VCUDA_ENTER(NULL);
  (void)kernel, (void)attribute, (void)value, (void)device;
  return vcuda_end(&call, CUDA_OK);
}

int cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *host, int threads, size_t shared,
                                                           unsigned flags) {
  VCUDA_ENTER(NULL);
  (void)host, (void)shared, (void)flags;
  *blocks = threads > 0 && threads <= 1024 ? 2048 / threads : 0;
  return vcuda_end(&call, CUDA_OK);
}

/* vcuda cannot run device code that a program loads. */
int cudaLibraryLoadData(cuda_library *library, const void *code, void *jit_options, void **jit_values, unsigned jit_count,
                        void *options, void **values, unsigned count) {
  VCUDA_ENTER(NULL);
  (void)code, (void)jit_options, (void)jit_values, (void)jit_count, (void)options, (void)values, (void)count;
  *library = NULL;
  vcuda_log("cudaLibraryLoadData: vcuda runs no device code");
  return vcuda_end(&call, CUDA_NOT_SUPPORTED);
}

int cudaLibraryGetKernel(cuda_kernel *kernel, cuda_library library, const char *name) {
  VCUDA_ENTER(NULL);
  (void)library, (void)name;
  *kernel = NULL;
  return vcuda_end(&call, CUDA_NOT_SUPPORTED);
}

int cudaLibraryUnload(cuda_library library) {
  VCUDA_ENTER(NULL);
  (void)library;
  return vcuda_end(&call, CUDA_NOT_SUPPORTED);
}
